/* SPDX-License-Identifier: BSD-3-Clause */

/* The control page shows others when its owner ends, and not before: with two copies of
 * this code in the process, and with children that outlive it. */

#include "test/support/mkv_check.h"
#include "xgmi/message/xgmi_inbox.h"
#include "xgmi/peer/xgmi_page.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#define LIMIT_S 300
#define NUM_KILLED 4
#define NUM_SHARERS 3
#define NUM_SHARES 1000
#define CLAIMS_TO_TRY 65 /* after a refusal */

static char dir[] = "/tmp/test_xgmi_page.XXXXXX";
static muct_xgmi_self_t self;


/* ---- what happens while a page is made ---- */

typedef void (*meanwhile_t)(void);

static meanwhile_t behind_folder, before_open, before_lock, behind_lock;

int posix_fallocate(int fd, off_t offset, off_t length)
{
    static int (*real)(int fd, off_t offset, off_t length);

    if (before_open != NULL) {
        before_open();
    }
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "posix_fallocate");
    }
    return real(fd, offset, length);
}

int fcntl(int fd, int command, ...)
{
    static int (*real)(int fd, int command, ...);
    const bool is_lock = (command == F_OFD_SETLK) || (command == F_SETLK);
    va_list args;
    void *arg;
    int ret;

    if (is_lock && (before_lock != NULL)) {
        before_lock();
    }
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "fcntl");
    }
    va_start(args, command);
    arg = va_arg(args, void *);
    va_end(args);
    ret = real(fd, command, arg);
    if (is_lock && (ret == 0) && (behind_lock != NULL)) {
        behind_lock();
    }
    return ret;
}

int mkdir(const char *path, mode_t mode)
{
    static int (*real)(const char *path, mode_t mode);
    int ret;

    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "mkdir");
    }
    ret = real(path, mode);
    if (behind_folder != NULL) {
        behind_folder();
    }
    return ret;
}

static void setup(void)
{
    behind_folder = before_open = before_lock = behind_lock = NULL;
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* Whether a separate process sees the owner as alive; otherwise it does not see it at
 * all */
static bool another_process_sees(uint64_t owner)
{
    muct_xgmi_peer_t *peer;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        _exit((muct_xgmi_self_open(dir, &self) == UCS_OK) &&
              (muct_xgmi_peer_get(owner, &peer) == UCS_OK));
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status) == 1;
}

/* Two UCX in a process have a copy each: the actions of one at its start, and when it
 * meets the other's page */
START_TEST(another_copy_in_the_process_leaves_the_page)
{
    muct_xgmi_page_t *page;
    int fd;

    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert(another_process_sees(self.owner));
    muct_xgmi_page_sweep(dir);
    ck_assert(another_process_sees(self.owner));
    ck_assert_int_eq(muct_xgmi_page_map(dir, self.owner, &fd, &page), UCS_OK);
    ck_assert(muct_xgmi_page_is_locked(fd));
    munmap(page, sizeof(*page));
    close(fd);
    ck_assert(another_process_sees(self.owner));
    muct_xgmi_self_close();
    ck_assert(!another_process_sees(self.owner));
}
END_TEST

static void owner_with_a_child(int fd)
{
    muct_xgmi_self_t owner;

    if (muct_xgmi_self_open(dir, &owner) != UCS_OK) {
        _exit(1);
    }
    if (fork() == 0) {
        owner.owner = (uint64_t)getpid(); /* lives, and shows how to end it */
    }
    if (write(fd, &owner.owner, sizeof(owner.owner)) != (ssize_t)sizeof(owner.owner)) {
        _exit(1);
    }
    for (;;) {
        pause();
    }
}

/* The two process numbers may come in any order */
START_TEST(a_forked_child_does_not_live_for_its_parent)
{
    uint64_t numbers[2], owner, child;
    muct_xgmi_peer_t *peer;
    int fds[2], i;
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        owner_with_a_child(fds[1]);
    }
    for (i = 0; i < 2; ++i) {
        ck_assert_int_eq(read(fds[0], &numbers[i], sizeof(numbers[i])),
                         (ssize_t)sizeof(numbers[i]));
    }
    owner = (numbers[0] > numbers[1]) ? numbers[0] : numbers[1];
    child = (numbers[0] > numbers[1]) ? numbers[1] : numbers[0];
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_peer_get(owner, &peer), UCS_OK);
    ck_assert(muct_xgmi_peer_is_alive(peer));
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(kill((pid_t)child, 0), 0);
    ck_assert(!muct_xgmi_peer_is_alive(peer));
    kill((pid_t)child, SIGKILL);
    muct_xgmi_peer_put(peer);
    muct_xgmi_self_close();
}
END_TEST

/* The bits in the page belong to the holders of the keys; no process holds this one's
 */
START_TEST(slot_under_which_others_copy_is_not_taken_again)
{
    uint32_t slot, other, generation, i;
    muct_xgmi_page_t *page;
    int fd;

    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_page_map(dir, self.owner, &fd, &page), UCS_OK);
    ck_assert_int_eq(muct_xgmi_slot_alloc(&slot, &generation), UCS_OK);
    atomic_store(&page->slots[slot].users[0], 1);
    generation = muct_xgmi_slot_void(slot);
    ck_assert(muct_xgmi_slot_is_used(slot, generation));
    for (i = 0; i < MUCT_XGMI_MAX_SLOTS - 1; ++i) {
        ck_assert_int_eq(muct_xgmi_slot_alloc(&other, &generation), UCS_OK);
    }

    /* its turn has come, and another one is free */
    muct_xgmi_slot_free(other);
    ck_assert_int_eq(muct_xgmi_slot_alloc(&other, &generation), UCS_OK);
    ck_assert_uint_ne(other, slot);

    /* all others are taken: is one of the owners dead? */
    ck_assert_int_eq(muct_xgmi_slot_alloc(&other, &generation), UCS_OK);
    ck_assert_uint_eq(other, slot);
    atomic_store(&page->num_slots, UINT32_MAX); /* by another process */
    ck_assert_int_eq(muct_xgmi_slot_alloc(&other, &generation), UCS_ERR_EXCEEDS_LIMIT);
    munmap(page, sizeof(*page));
    close(fd);
    muct_xgmi_self_close();
}
END_TEST

static char line[1024];

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t keep_warning(
    const char *file, unsigned number, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list args)
{
    (void)file, (void)number, (void)function, (void)component;
    if (level <= UCS_LOG_LEVEL_WARN) {
        if (line[0] != '\0') {
            _exit(3); /* once is enough */
        }
        vsnprintf(line, sizeof(line), format, args);
    }
    return UCS_LOG_FUNC_RC_STOP;
}

/* Check the log for a user that may not override modes. The page is looked up twice; a
 * page that is gone logs nothing. */
static void expect_log_of_user(uid_t user, uint64_t owner, const char *words)
{
    muct_xgmi_page_t *page;
    int fd, status, i;
    pid_t pid = fork();

    if (pid == 0) {
        ucs_log_push_handler(keep_warning);
        if ((getuid() == 0) && (setuid(user) != 0)) {
            _exit(1);
        }
        for (i = 0; i < 2; ++i) {
            if (muct_xgmi_page_map(dir, owner, &fd, &page) !=
                ((words[0] == '\0') ? UCS_ERR_CONNECTION_RESET : UCS_ERR_UNREACHABLE)) {
                _exit(2);
            }
        }
        if ((words[0] == '\0') ? (line[0] != '\0') : (strstr(line, words) == NULL)) {
            fprintf(stderr, "'%s' has no '%s'\n", line, words);
            _exit(4);
        }
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

enum { NOBODY = 65534, SOMEBODY = 12345 };

START_TEST(a_page_that_cannot_be_read_is_logged_with_its_cause)
{
    muct_xgmi_page_t *page;
    char path[512], folder[512];
    int fd;

    ck_assert_int_eq(chmod(dir, 0755), 0);
    ck_assert_int_eq(muct_xgmi_page_identify(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_page_create(dir, &self, &fd, &page), UCS_OK);
    muct_xgmi_page_path(dir, self.owner, path, sizeof(path));
    if (getuid() == 0) {
        snprintf(folder, sizeof(folder), "%s/ucx-mori.%016llx", dir,
                 (unsigned long long)self.owner);
        ck_assert_int_eq(chown(folder, NOBODY, NOBODY), 0);
        ck_assert_int_eq(chown(path, NOBODY, NOBODY), 0);
        expect_log_of_user(SOMEBODY, self.owner,
                           "is user 65534's, and this process is user 12345's");
    }
    ck_assert_int_eq(chmod(path, 0), 0);
    expect_log_of_user(NOBODY, self.owner, "mode 0) failed: Permission denied");
    ck_assert_int_eq(chmod(path, 0600), 0);
    page->magic = 0;
    expect_log_of_user(NOBODY, self.owner, "control page is damaged");
    ck_assert_int_eq(ftruncate(fd, 4096), 0);
    expect_log_of_user(NOBODY, self.owner, "has 4096 bytes");
    /* no warning for a process that has ended */
    ck_assert_int_eq(unlink(path), 0);
    expect_log_of_user(NOBODY, self.owner, "");
    munmap(page, sizeof(*page));
    close(fd);
}
END_TEST


/* ---- what is left behind ---- */

static const muct_xgmi_iface_id_t iface = {.slot = 3, .generation = 5};

static void make_file(const char *name, const char *target)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (target != NULL) {
        ck_assert_int_eq(symlink(target, path), 0);
        return;
    }
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
}

static void make_folder(const char *name, mode_t mode)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    ck_assert_int_eq(mkdir(path, mode), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
}

static bool is_file(const char *name)
{
    char path[512];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return lstat(path, &st) == 0;
}

/* Has a page, a box and a bell, and lives until it is killed. */
static pid_t start_process(uint64_t *owner_p)
{
    muct_xgmi_inbox_t *inbox;
    int fds[2];
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        if ((muct_xgmi_self_open(dir, &self) != UCS_OK) ||
            (muct_xgmi_inbox_create(dir, self.owner, iface, &inbox) != UCS_OK) ||
            (write(fds[1], &self.owner, sizeof(self.owner)) !=
             (ssize_t)sizeof(self.owner))) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    ck_assert_int_gt(pid, 0);
    close(fds[1]);
    ck_assert_int_eq(read(fds[0], owner_p, sizeof(*owner_p)),
                     (ssize_t)sizeof(*owner_p));
    close(fds[0]);
    return pid;
}

static void kill_process(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* The lock's holder is a process that stands still until it is killed */
static pid_t lock_file(const char *path)
{
    int fds[2], fd;
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        fd = open(path, O_RDWR);
        if ((fd < 0) || (lockf(fd, F_TLOCK, 0) != 0) || (write(fds[1], "", 1) != 1)) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    ck_assert_int_gt(pid, 0);
    close(fds[1]);
    ck_assert_int_eq(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    return pid;
}

/* The folder may list the files in any order: a box may follow its removed page. */
/* XM-06 */
START_TEST(what_killed_processes_left_is_removed)
{
    const unsigned none = mkv_test_num_files(dir);
    const unsigned fds = mkv_test_num_files("/proc/self/fd");
    pid_t pids[NUM_KILLED];
    uint64_t owner;
    unsigned i;

    for (i = 0; i < NUM_KILLED; ++i) {
        pids[i] = start_process(&owner);
    }
    ck_assert_uint_eq(mkv_test_num_files(dir), none + NUM_KILLED);
    for (i = 0; i < NUM_KILLED; ++i) {
        kill_process(pids[i]);
    }
    muct_xgmi_page_sweep(dir);
    ck_assert_uint_eq(mkv_test_num_files(dir), none);
    ck_assert_uint_eq(mkv_test_num_files("/proc/self/fd"), fds);
}
END_TEST

/* XM-06 */
START_TEST(what_a_living_process_has_stays)
{
    const unsigned none = mkv_test_num_files(dir);
    unsigned fds;
    muct_xgmi_inbox_t *inbox;

    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_inbox_create(dir, self.owner, iface, &inbox), UCS_OK);
    fds = mkv_test_num_files("/proc/self/fd");
    muct_xgmi_page_sweep(dir);
    ck_assert_uint_eq(mkv_test_num_files(dir), none + 1);
    ck_assert_uint_eq(mkv_test_num_files("/proc/self/fd"), fds);
    ck_assert(another_process_sees(self.owner));
    muct_xgmi_page_sweep(dir); /* that of the other process */
    muct_xgmi_inbox_destroy(inbox);
    muct_xgmi_self_close();
    ck_assert_uint_eq(mkv_test_num_files(dir), none);
}
END_TEST

/* Files of other programs, and folders that no process of this user made. */
/* XM-06 */
START_TEST(what_may_be_somebodys_stays)
{
    static const char *const names[] = {"ucx-mori.000000000000000f",
                                        "ucx-mori.000000000000000e",
                                        "ucx-mori.1",
                                        "another.0000000000000001",
                                        "ucx-mori.0000000000000001.new",
                                        "ucx-mori.of_somebody_else",
                                        "ucx-mori.0000000000000002/kept",
                                        "ucx-mori.0000000000000003/page"};
    const unsigned num = sizeof(names) / sizeof(names[0]);
    unsigned i;

    make_folder("ucx-mori.0000000000000002", 0700); /* without a page */
    make_folder("ucx-mori.0000000000000003", 0777);
    make_folder("ucx-mori.0000000000000004", 0700);
    make_file("ucx-mori.0000000000000004/page", NULL);
    make_file("ucx-mori.0000000000000004/3.5.box", NULL);
    make_folder("ucx-mori.0000000000000005", 0700);
    for (i = 0; i < num; ++i) { /* the first one is a link, which is not followed */
        make_file(names[i], (i == 0) ? "ucx-mori.0000000000000002" : NULL);
    }
    muct_xgmi_page_sweep(dir);
    for (i = 0; i < num; ++i) {
        ck_assert_msg(is_file(names[i]), "%s was removed", names[i]);
    }
    ck_assert(!is_file("ucx-mori.0000000000000004"));
    ck_assert(!is_file("ucx-mori.0000000000000005"));
}
END_TEST


/* ---- pages that are being made ---- */

static void kill_myself(void)
{
    (void)kill(getpid(), SIGKILL);
}

static meanwhile_t *const steps[] = {&behind_folder, &before_open, &before_lock,
                                     &behind_lock};

/* Loop index: at which step */
/* XM-06 */
START_TEST(page_of_one_killed_while_it_made_it_is_removed)
{
    const unsigned none = mkv_test_num_files(dir);
    const unsigned fds = mkv_test_num_files("/proc/self/fd");
    int status;
    pid_t pid;

    pid = fork();
    if (pid == 0) {
        *steps[_i] = kill_myself;
        _exit(muct_xgmi_self_open(dir, &self) == UCS_OK);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status));
    ck_assert_uint_eq(mkv_test_num_files(dir), none + 1);
    muct_xgmi_page_sweep(dir);
    ck_assert_uint_eq(mkv_test_num_files(dir), none);
    ck_assert_uint_eq(mkv_test_num_files("/proc/self/fd"), fds);
}
END_TEST

START_TEST(name_that_is_taken_is_left)
{
    muct_xgmi_page_t *page;
    char name[64];
    int fd;

    ck_assert_int_eq(muct_xgmi_page_identify(dir, &self), UCS_OK);
    snprintf(name, sizeof(name), "ucx-mori.%016llx", (unsigned long long)self.owner);
    make_folder(name, 0700);
    ck_assert_int_eq(muct_xgmi_page_create(dir, &self, &fd, &page), UCS_ERR_BUSY);
    ck_assert(is_file(name));
}
END_TEST

/* At best another user can name a folder like one that was removed. The file itself is
 * correct each time. */
START_TEST(file_that_another_user_could_have_made_is_not_opened)
{
    char path[512], folder[512], other[600];
    muct_xgmi_page_t *page;
    uint64_t owner;
    pid_t pid;
    int fd;

    pid = start_process(&owner);
    muct_xgmi_page_path(dir, owner, path, sizeof(path));
    snprintf(folder, sizeof(folder), "%s/ucx-mori.%016llx", dir,
             (unsigned long long)owner);
    snprintf(other, sizeof(other), "%s/other", dir);
    ck_assert_int_eq(muct_xgmi_page_map(dir, owner, &fd, &page), UCS_OK);
    munmap(page, sizeof(*page));
    close(fd);
    switch (_i) {
    case 0: /* a folder that others write to */
        ck_assert_int_eq(chmod(folder, 0770), 0);
        break;
    case 1:
        ck_assert_int_eq(rename(folder, other), 0);
        ck_assert_int_eq(symlink(other, folder), 0);
        break;
    case 2:
        ck_assert_int_eq(link(path, other), 0);
        break;
    case 3:
        ck_assert_int_eq(rename(path, other), 0);
        ck_assert_int_eq(symlink(other, path), 0);
        break;
    default: /* opening a pipe for reading and writing does not wait */
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(mkfifo(path, 0600), 0);
        break;
    }
    ck_assert_int_eq(muct_xgmi_page_map(dir, owner, &fd, &page), UCS_ERR_UNREACHABLE);
    kill_process(pid);
}
END_TEST

/* @return Number of actions that it could take with a folder of that name. */
static unsigned squat(const char *name)
{
    static const char *const files[] = {"page", "3.5.box", "3.5.bell"};
    static const char *const beside[] = {".new", ".3.5.bell", ".3.5.box"};
    char path[512], other[600];
    unsigned i, count = 0;
    DIR *handle;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    for (i = 0; i < 3; ++i) {
        snprintf(other, sizeof(other), "%s%s", path, beside[i]);
        (void)mkfifo(other, 0600); /* such names must do no harm */
        snprintf(other, sizeof(other), "%s/%s", path, files[i]);
        fd = open(other, O_RDWR | O_CREAT | O_NONBLOCK, 0666);
        count += (fd >= 0);
        if (fd >= 0) {
            close(fd);
        }
    }
    handle = opendir(path);
    count += (handle != NULL);
    if (handle != NULL) {
        closedir(handle);
    }
    snprintf(other, sizeof(other), "%s.taken", path);
    return count + (rename(path, other) == 0) + (rmdir(path) == 0);
}

/* Answer each folder with that number. */
static void watch_and_squat(int answers)
{
    _Alignas(struct inotify_event) char events[4096];
    const struct inotify_event *event;
    ssize_t length, at;
    unsigned char count;
    int fd = inotify_init1(IN_CLOEXEC);

    if ((setuid(NOBODY) != 0) || (inotify_add_watch(fd, dir, IN_CREATE) < 0)) {
        _exit(1);
    }
    count = 0;
    (void)write(answers, &count, 1);
    for (;;) {
        length = read(fd, events, sizeof(events));
        for (at = 0; at < length; at += (ssize_t)(sizeof(*event) + event->len)) {
            event = (const void *)(events + at);
            if (strlen(event->name) == strlen("ucx-mori.0000000000000001")) {
                count = (unsigned char)squat(event->name);
                (void)write(answers, &count, 1);
            }
        }
    }
}

START_TEST(another_user_watching_the_names_gains_nothing)
{
    muct_xgmi_inbox_t *inbox;
    unsigned char count;
    pid_t squatter;
    int fds[2];

    if (getuid() != 0) {
        mkv_test_skip("root", "another_user_watching_the_names_gains_nothing",
                      "only root can change to another user");
        return;
    }
    ck_assert_int_eq(chmod(dir, 01777), 0);
    ck_assert_int_eq(pipe(fds), 0);
    squatter = fork();
    if (squatter == 0) {
        watch_and_squat(fds[1]);
    }
    ck_assert_int_eq(read(fds[0], &count, 1), 1);

    (void)umask(0);                                 /* it is there for all at once */
    make_folder("ucx-mori.0000000000000001", 0777); /* shows what the squatter tries */
    ck_assert_int_eq(read(fds[0], &count, 1), 1);
    ck_assert_uint_eq(count, 4);
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(read(fds[0], &count, 1), 1);
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(muct_xgmi_inbox_create(dir, self.owner, iface, &inbox), UCS_OK);
    muct_xgmi_inbox_destroy(inbox);
    muct_xgmi_self_close();
    kill_process(squatter);
}
END_TEST

static unsigned num_sweeps, max_sweeps;
static bool is_sweeping;

static void sweep(void)
{
    if ((num_sweeps < max_sweeps) && !is_sweeping) {
        ++num_sweeps;
        is_sweeping = true;
        muct_xgmi_page_sweep(dir);
        is_sweeping = false;
    }
}

/* Act like another process at its start */
/* XM-06 */
START_TEST(page_that_is_locked_is_not_swept)
{
    const unsigned none = mkv_test_num_files(dir);

    num_sweeps = 0;
    max_sweeps = 1;
    behind_lock = sweep;
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_uint_eq(num_sweeps, 1);
    ck_assert_uint_eq(mkv_test_num_files(dir), none + 1);
    ck_assert(another_process_sees(self.owner));
    muct_xgmi_self_close();
}
END_TEST

/* An unlocked page looks like one of a dead process. Loop index: at which step */
/* XM-06 */
START_TEST(page_that_was_swept_is_made_anew)
{
    const unsigned none = mkv_test_num_files(dir);
    const unsigned fds = mkv_test_num_files("/proc/self/fd");

    num_sweeps = 0;
    max_sweeps = 3;
    *steps[_i] = sweep;
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_uint_eq(num_sweeps, 3);
    ck_assert_uint_eq(mkv_test_num_files(dir), none + 1);
    ck_assert(another_process_sees(self.owner));
    muct_xgmi_self_close();
    muct_xgmi_page_sweep(dir); /* that of the other process */
    ck_assert_uint_eq(mkv_test_num_files("/proc/self/fd"), fds);

    num_sweeps = 0;
    max_sweeps = UINT_MAX; /* does not happen in practice */
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_ERR_IO_ERROR);
    ck_assert_uint_eq(mkv_test_num_files(dir), none);
    ck_assert_uint_eq(mkv_test_num_files("/proc/self/fd"), fds);
}
END_TEST

static char swept[512]; /* by one that stands still in the middle of it */
static pid_t sweeper;

static void hold_new(void)
{
    struct dirent *entry;
    DIR *handle;

    if (sweeper != 0) {
        return;
    }
    handle = opendir(dir);
    while ((entry = readdir(handle)) != NULL) {
        if (strstr(entry->d_name, "ucx-mori.") != NULL) {
            snprintf(swept, sizeof(swept), "%s/%s/page", dir, entry->d_name);
        }
    }
    closedir(handle);
    sweeper = lock_file(swept);
}

/* The owner of the name is not known then: the page is left to the sweeper. */
/* XM-06 */
START_TEST(page_that_is_being_swept_is_left)
{
    sweeper = 0;
    before_open = hold_new;
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert(another_process_sees(self.owner));
    ck_assert_int_eq(access(swept, F_OK), 0);
    muct_xgmi_page_sweep(dir);
    ck_assert_int_eq(access(swept, F_OK), 0);
    kill_process(sweeper);
    muct_xgmi_page_sweep(dir);
    ck_assert_int_ne(access(swept, F_OK), 0);
    muct_xgmi_self_close();
}
END_TEST


/* ---- processes that cannot be inspected ---- */

/* Limit new descriptors; 0 allows none; open ones stay. */
static void allow_files(rlim_t num)
{
    mkv_test_set_limit(RLIMIT_NOFILE, num);
}

/* The user's copies may run: their memory must not be reused. */
/* XP-01 */
START_TEST(a_user_that_cannot_be_inspected_keeps_its_memory)
{
    uint32_t slot, generation;
    muct_xgmi_page_t *page;
    uint64_t owner;
    pid_t pid;
    int fd;

    pid = start_process(&owner);
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_page_map(dir, self.owner, &fd, &page), UCS_OK);
    ck_assert_int_eq(muct_xgmi_slot_alloc(&slot, &generation), UCS_OK);
    atomic_store(&page->users[0], owner);
    atomic_store(&page->slots[slot].users[0], 3); /* the second user does not exist */
    generation = muct_xgmi_slot_void(slot);
    allow_files(0);
    muct_xgmi_slot_drop_dead(slot);
    ck_assert_uint_eq(atomic_load(&page->slots[slot].users[0]), 1);
    allow_files(RLIM_INFINITY);
    muct_xgmi_slot_drop_dead(slot);
    ck_assert(muct_xgmi_slot_is_used(slot, generation));
    kill_process(pid);
    allow_files(0); /* its end cannot be detected either */
    muct_xgmi_slot_drop_dead(slot);
    ck_assert(muct_xgmi_slot_is_used(slot, generation));
    allow_files(RLIM_INFINITY);
    muct_xgmi_slot_drop_dead(slot);
    ck_assert(!muct_xgmi_slot_is_used(slot, generation));
    munmap(page, sizeof(*page));
    close(fd);
    muct_xgmi_self_close();
}
END_TEST

/* Its first byte would be a signal. */
/* XP-02 */
START_TEST(a_page_longer_than_files_may_be_is_an_error)
{
    const unsigned none = mkv_test_num_files(dir);

    mkv_test_set_limit(RLIMIT_FSIZE, sizeof(muct_xgmi_page_t) - 1);
    ucs_log_push_handler(keep_warning);
    line[0] = '\0';
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_ERR_IO_ERROR);
    ck_assert_msg(strstr(line, "ulimit -f") != NULL, "%s", line);
    ck_assert_uint_eq(mkv_test_num_files(dir), none);
    mkv_test_set_limit(RLIMIT_FSIZE, sizeof(muct_xgmi_page_t));
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    muct_xgmi_self_close();
}
END_TEST

/* Its page is right; the test changes this copy. */
/* XP-01 */
START_TEST(a_process_without_descriptors_gets_that_error)
{
    muct_xgmi_peer_t *peer;
    uint64_t owner;
    pid_t pid;

    pid = start_process(&owner);
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ucs_log_push_handler(keep_warning);
    line[0] = '\0';
    allow_files(0);
    ck_assert_int_eq(muct_xgmi_peer_get(owner, &peer), UCS_ERR_UNREACHABLE);
    ck_assert_int_eq(muct_xgmi_peer_get(owner, &peer), UCS_ERR_UNREACHABLE);
    allow_files(RLIM_INFINITY);
    ck_assert_msg(strstr(line, "Too many open files") != NULL, "%s", line);
    ck_assert_msg(strstr(line, "ulimit -n") != NULL, "%s", line);
    ck_assert_msg(strstr(line, "SHM_DIR") == NULL, "%s", line);
    ck_assert_int_eq(muct_xgmi_peer_get(owner, &peer), UCS_OK);
    muct_xgmi_peer_put(peer);
    muct_xgmi_self_close();
    kill_process(pid);
}
END_TEST

/* The kernel does so if it lacks memory for the answer (ENOMEM); here the file was
 * opened in a way that has no locks. */
/* XP-01 */
START_TEST(a_lock_that_cannot_be_queried_proves_nothing)
{
    char path[512];
    int fd;

    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    muct_xgmi_page_path(dir, self.owner, path, sizeof(path));
    fd = open(path, O_PATH | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert(muct_xgmi_page_is_locked(fd));
    close(fd);
    muct_xgmi_self_close();
}
END_TEST

/* All places among the users of a peer belong to other processes */
/* XP-01 */
START_TEST(a_user_that_cannot_be_inspected_keeps_its_slot)
{
    pid_t peers_pid, users_pid;
    uint64_t owner, user;
    muct_xgmi_page_t *page;
    muct_xgmi_peer_t *peer;
    unsigned i;
    int fd;

    peers_pid = start_process(&owner);
    users_pid = start_process(&user);
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_peer_get(owner, &peer), UCS_OK);
    ck_assert_int_eq(muct_xgmi_page_map(dir, owner, &fd, &page), UCS_OK);
    for (i = 0; i < MUCT_XGMI_MAX_USERS; ++i) {
        atomic_store(&page->users[i], user);
    }
    allow_files(0);
    ck_assert(!muct_xgmi_peer_enter(peer, 0, 0));
    allow_files(RLIM_INFINITY);
    ck_assert(!muct_xgmi_peer_enter(peer, 0, 0));
    for (i = 0; i < MUCT_XGMI_MAX_USERS; ++i) {
        ck_assert_uint_eq(atomic_load(&page->users[i]), user);
    }
    kill_process(users_pid);
    for (i = 0; (i < CLAIMS_TO_TRY) && !muct_xgmi_peer_enter(peer, 0, 0); ++i) {
    }
    ck_assert_uint_lt(i, CLAIMS_TO_TRY);
    ck_assert_uint_eq(atomic_load(&page->users[0]), self.owner);
    muct_xgmi_peer_leave(peer, 0);
    munmap(page, sizeof(*page));
    close(fd);
    muct_xgmi_peer_put(peer);
    muct_xgmi_self_close();
    kill_process(peers_pid);
}
END_TEST


/* Destructors of an application run in its forked children. */
START_TEST(a_forked_child_releases_nothing_of_its_parent)
{
    muct_xgmi_page_t *mine, *theirs;
    uint32_t slot, generation;
    muct_xgmi_peer_t *peer;
    pid_t peers_pid, pid;
    uint64_t owner;
    int fds[2], status;

    peers_pid = start_process(&owner);
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_slot_alloc(&slot, &generation), UCS_OK);
    ck_assert_int_eq(muct_xgmi_peer_get(owner, &peer), UCS_OK);
    ck_assert_int_eq(muct_xgmi_page_map(dir, self.owner, &fds[0], &mine), UCS_OK);
    ck_assert_int_eq(muct_xgmi_page_map(dir, owner, &fds[1], &theirs), UCS_OK);
    ck_assert(muct_xgmi_peer_enter(peer, 0, 0));
    atomic_store(&mine->slots[slot].users[0], 1);
    pid = fork();
    if (pid == 0) {
        muct_xgmi_peer_leave(peer, 0);
        muct_xgmi_peer_put(peer);
        muct_xgmi_slot_free(slot);
        _exit(muct_xgmi_slot_is_used(slot, generation)); /* it would wait and expire */
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(atomic_load(&mine->slots[slot].generation), generation);
    ck_assert(muct_xgmi_slot_is_used(slot, generation));
    ck_assert_uint_eq(atomic_load(&theirs->users[0]), self.owner);
    ck_assert_uint_eq(atomic_load(&theirs->slots[0].users[0]), 1);
    muct_xgmi_peer_leave(peer, 0);
    ck_assert_uint_eq(atomic_load(&theirs->slots[0].users[0]), 0);
    muct_xgmi_peer_put(peer);
    ck_assert_uint_eq(atomic_load(&theirs->users[0]), 0);
    munmap(theirs, sizeof(*theirs));
    munmap(mine, sizeof(*mine));
    close(fds[1]);
    close(fds[0]);
    muct_xgmi_self_close();
    kill_process(peers_pid);
}
END_TEST


/* ---- peers ---- */

static pthread_barrier_t all_share;

static void *share_peer(void *arg)
{
    muct_xgmi_peer_t *peer = NULL;
    unsigned i, k;

    (void)pthread_barrier_wait(&all_share);
    for (i = 0; i < NUM_SHARES; ++i) {
        if (muct_xgmi_peer_get(self.owner, &peer) != UCS_OK) {
            return NULL;
        }
        for (k = 0; k < NUM_SHARES; ++k) {
            muct_xgmi_peer_put(muct_xgmi_peer_ref(peer));
        }
        muct_xgmi_peer_put(peer); /* the last one, now and then */
    }
    return arg;
}

/* Contexts side by side have one peer each time they copy to it */
START_TEST(threads_that_share_a_peer_leave_it_when_all_have_left)
{
    pthread_t threads[NUM_SHARERS];
    void *result;
    unsigned i;

    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(pthread_barrier_init(&all_share, NULL, NUM_SHARERS), 0);
    for (i = 0; i < NUM_SHARERS; ++i) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, share_peer, &self), 0);
    }
    for (i = 0; i < NUM_SHARERS; ++i) {
        ck_assert_int_eq(pthread_join(threads[i], &result), 0);
        ck_assert_ptr_eq(result, &self);
    }
    (void)pthread_barrier_destroy(&all_share);
    ck_assert(another_process_sees(self.owner));
    muct_xgmi_self_close(); /* a peer that was left has its page no longer */
    ck_assert(!another_process_sees(self.owner));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_page");
    TCase *tcase = tcase_create("page");

    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, another_copy_in_the_process_leaves_the_page);
    tcase_add_test(tcase, a_forked_child_does_not_live_for_its_parent);
    tcase_add_test(tcase, a_forked_child_releases_nothing_of_its_parent);
    tcase_add_test(tcase, a_page_that_cannot_be_read_is_logged_with_its_cause);
    tcase_add_test(tcase, what_killed_processes_left_is_removed);
    tcase_add_test(tcase, what_a_living_process_has_stays);
    tcase_add_test(tcase, what_may_be_somebodys_stays);
    tcase_add_loop_test(tcase, page_of_one_killed_while_it_made_it_is_removed, 0, 4);
    tcase_add_test(tcase, name_that_is_taken_is_left);
    tcase_add_test(tcase, another_user_watching_the_names_gains_nothing);
    tcase_add_loop_test(tcase, file_that_another_user_could_have_made_is_not_opened, 0,
                        5);
    tcase_add_test(tcase, page_that_is_locked_is_not_swept);
    tcase_add_loop_test(tcase, page_that_was_swept_is_made_anew, 0, 3);
    tcase_add_test(tcase, page_that_is_being_swept_is_left);
    tcase_add_test(tcase, a_user_that_cannot_be_inspected_keeps_its_memory);
    tcase_add_test(tcase, a_user_that_cannot_be_inspected_keeps_its_slot);
    tcase_add_test(tcase, a_process_without_descriptors_gets_that_error);
    tcase_add_test(tcase, a_page_longer_than_files_may_be_is_an_error);
    tcase_add_test(tcase, a_lock_that_cannot_be_queried_proves_nothing);
    tcase_add_test(tcase, threads_that_share_a_peer_leave_it_when_all_have_left);
    tcase_add_test(tcase, slot_under_which_others_copy_is_not_taken_again);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
