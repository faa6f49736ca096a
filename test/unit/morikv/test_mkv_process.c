/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Claims of other processes: held as long as a thread of theirs can run, in whatever
 * namespace, and not a moment longer.
 */

#include "src/peer/process.h"

#include "test/support/mkv_check.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_THREADS 64
#define OWNER 0x1234

/* Behaviour of the claim's owner and counters of its threads, in shared memory */
typedef struct owner {
    unsigned threads;
    size_t bytes;     /* memory to be unmapped at its end */
    int leaves;       /* its first thread ends before the others */
    int hides;        /* in a private PID namespace */
    int is_elsewhere; /* it uses another folder */
    int has_child;    /* which outlives it */
    int has_no_proc;  /* nor a boot id, which is read from there */
    pid_t child;
    volatile uint64_t counts[MAX_THREADS];
} owner_t;

static char dir[64], elsewhere[64];
static owner_t *owner;
static mkv_proc_t proc;
static mkv_watch_t watch;
static int fd_of_owner;

static void open_dir(void)
{
    strcpy(dir, "/dev/shm/mkv-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    strcpy(elsewhere, "/dev/shm/mkv-else-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(elsewhere));
    owner = mmap(NULL, sizeof(*owner), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(owner, MAP_FAILED);
    owner->threads = 1;
    proc.pid = -1;
    mkv_watch_init(&watch, -1);
}

static unsigned count_files(void)
{
    DIR *handle = opendir(dir);
    unsigned count = 0;
    struct dirent *entry;

    while ((handle != NULL) && ((entry = readdir(handle)) != NULL)) {
        count += (entry->d_name[0] != '.');
    }
    closedir(handle);
    return count;
}

static void close_dir(void)
{
    DIR *handle = opendir(dir);
    struct dirent *entry;
    char path[512];

    mkv_proc_cleanup(&proc);
    mkv_watch_stop(&watch);
    while ((handle != NULL) && ((entry = readdir(handle)) != NULL)) {
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        (void)unlink(path);
    }
    closedir(handle);
    (void)rmdir(dir);
    (void)rmdir(elsewhere); /* claim whose file its owner has removed */
    munmap(owner, sizeof(*owner));
}

/* ---- The other process ----------------------------------------------------------- */

static void *count_for_ever(void *arg)
{
    volatile uint64_t *count = arg;

    for (;;) {
        ++*count;
    }
    return NULL;
}

static void *report_end_of_leader(void *arg)
{
    (void)arg;
    mkv_proc_wait_leader();
    (void)mkv_proc_send(fd_of_owner, "left", 5);
    return count_for_ever((void *)&owner->counts[0]);
}

static void use_memory(void)
{
    if (owner->bytes > 0) {
        MKV_REQUIRE(mmap(NULL, owner->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
                         0) != MAP_FAILED,
                    "mmap(%zu bytes) failed", owner->bytes);
    }
}

/* Close descriptors one after the other, as the kernel does when a process ends */
static void close_all_but(int fd)
{
    int i;

    for (i = 3; i < 1024; ++i) {
        if (i != fd) {
            (void)close(i);
        }
    }
}

static int own_claims(int fd)
{
    mkv_claims_t *claims;
    uint64_t numbers[2];
    pthread_t thread;
    char word[16];
    unsigned i;
    pid_t child;

    fd_of_owner = fd;
    claims = mkv_claims_open(owner->is_elsewhere ? elsewhere : dir, OWNER);
    MKV_REQUIRE(claims != NULL, "no file in %s", dir);
    numbers[0] = mkv_claims_take(claims, 4242);
    numbers[1] = mkv_claims_take(claims, 987654321);
    use_memory();
    for (i = 0; i < owner->threads; ++i) {
        MKV_REQUIRE(pthread_create(&thread, NULL, count_for_ever,
                                   (void *)&owner->counts[i]) == 0,
                    "thread %u", i);
    }
    if (owner->has_child) {
        child = fork();
        if (child == 0) {
            (void)mkv_proc_recv(fd, word, sizeof(word), -1); /* the end of the test */
            _exit(0);
        }
        owner->child = child;
    }
    MKV_REQUIRE(mkv_proc_send(fd, numbers, sizeof(numbers)) == 0, "send");
    if (owner->leaves) {
        MKV_REQUIRE(pthread_create(&thread, NULL, report_end_of_leader, NULL) == 0,
                    "thread");
        mkv_proc_end_leader();
    }
    while (mkv_proc_recv(fd, word, sizeof(word), -1) > 0) {
        if (strcmp(word, "close") == 0) {
            close_all_but(fd);
        } else if (strcmp(word, "leave") == 0) {
            mkv_claims_close(claims);
            claims = NULL;
        } else {
            mkv_claims_release(claims, numbers[0]);
        }
        MKV_REQUIRE(mkv_proc_send(fd, "released", 9) == 0, "send");
    }
    mkv_claims_close(claims);
    return 0;
}

/* Hide /proc from this process alone. @return false: not permitted here. */
static bool hide_proc(void)
{
    mkv_process_t self, other = {.host_id = 5};

    if ((unshare(CLONE_NEWNS) != 0) ||
        (mount(NULL, "/proc", NULL, MS_PRIVATE, NULL) != 0) ||
        (mount("none", "/proc", "tmpfs", 0, NULL) != 0)) {
        return false;
    }
    mkv_process_self(&self);
    MKV_REQUIRE((self.host_id == 0) && mkv_process_is_local(&self, &other),
                "host 0x%llx", (unsigned long long)self.host_id);
    return true;
}

/* Run the owner in the requested namespaces. If this is not permitted, send that
 * instead */
static int be_owner(int fd, void *arg)
{
    uint64_t refused = 0;
    pid_t pid;

    (void)arg;
    if ((owner->hides && (unshare(CLONE_NEWPID) != 0)) ||
        (owner->has_no_proc && !hide_proc())) {
        (void)mkv_proc_send(fd, &refused, sizeof(refused));
        return 0;
    }
    if (!owner->hides) {
        return own_claims(fd);
    }
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(own_claims(fd)); /* process 1 of its namespace, and ends with us */
    }
    (void)waitpid(pid, NULL, 0);
    return 0;
}

/* @return 0: not permitted here, and counted as skipped. */
static int start(uint64_t claims[2], const char *test)
{
    ck_assert_int_eq(mkv_proc_fork(&proc, be_owner, NULL), 0);
    ck_assert_int_gt(mkv_proc_recv(proc.fd, claims, 2 * sizeof(*claims), -1), 0);
    if (claims[0] == 0) {
        ck_assert_int_eq(
            mkv_test_skip("namespaces", test, "unshare(2) is not permitted"), 0);
        return 0;
    }
    return 1;
}

static void watch_owner(void)
{
    uint64_t claims[2];

    ck_assert(start(claims, "watch"));
    mkv_watch_start(&watch, dir, OWNER, claims[0]);
    ck_assert_int_eq(watch.state, MKV_CLAIM_HELD);
}

/* The owner's pidfd is watched if the system has them. @return false: counted as
 * skipped. */
static bool has_pidfd(const char *test)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (fd < 0) {
        ck_assert_int_eq(mkv_test_skip("pidfd", test, "pidfd_open(2) is not permitted"),
                         0);
        return false;
    }
    close(fd);
    ck_assert_int_ge(watch.pidfd, 0);
    return true;
}

static mkv_claim_state_t look(void)
{
    return mkv_watch_look(&watch, dir);
}

static void wait_for_state(mkv_claim_state_t state)
{
    uint64_t start_ms = mkv_test_now_ms();

    while (look() != state) {
        ck_assert_uint_lt(mkv_test_now_ms() - start_ms, (uint64_t)mkv_test_limit_ms());
        sched_yield();
    }
}

/* Each thread has counted on since */
static void wait_for_threads(void)
{
    uint64_t before[MAX_THREADS];
    unsigned i;

    for (i = 0; i < owner->threads; ++i) {
        before[i] = owner->counts[i];
    }
    for (i = 0; i < owner->threads; ++i) {
        while (owner->counts[i] == before[i]) {
            sched_yield();
        }
    }
}

/* ---- Tests ----------------------------------------------------------------------- */

/* Loop index: many threads, much memory */
/* AB-05 */
START_TEST(no_thread_runs_when_a_killed_process_is_gone)
{
    uint64_t counts[MAX_THREADS], claims[2];
    unsigned i;

    owner->threads = _i ? 2 : mkv_test_rounds(MAX_THREADS, 8);
    owner->bytes = _i ? (size_t)1 << 30 : 0;
    ck_assert(start(claims, "no_thread_runs_when_a_killed_process_is_gone"));
    mkv_watch_start(&watch, dir, OWNER, claims[0]);
    wait_for_threads();
    ck_assert_int_eq(look(), MKV_CLAIM_HELD);
    mkv_proc_kill(&proc, SIGKILL);
    wait_for_state(MKV_CLAIM_GONE);
    memcpy(counts, (const void *)owner->counts, sizeof(counts));
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    for (i = 0; i < owner->threads; ++i) {
        ck_assert_uint_eq(counts[i], owner->counts[i]);
    }
}
END_TEST

/* AB-05 */
START_TEST(a_claim_is_held_while_threads_run_without_their_leader)
{
    char word[16];

    owner->leaves = 1;
    watch_owner();
    ck_assert_int_gt(mkv_proc_recv(proc.fd, word, sizeof(word), -1), 0);
    ck_assert_str_eq(word, "left");
    wait_for_threads();
    ck_assert_int_eq(look(), MKV_CLAIM_HELD);
    mkv_proc_kill(&proc, SIGKILL);
    wait_for_state(MKV_CLAIM_GONE);
}
END_TEST

/* AB-05 */
START_TEST(a_stopped_process_claims_until_it_goes_on_and_releases)
{
    char word[16];

    watch_owner();
    mkv_proc_kill(&proc, SIGSTOP);
    ck_assert_int_eq(waitpid(proc.pid, NULL, WUNTRACED), proc.pid);
    ck_assert_int_eq(mkv_proc_send(proc.fd, "release", 8), 0);
    ck_assert_int_eq(look(), MKV_CLAIM_HELD);
    mkv_proc_resume(&proc);
    ck_assert_int_gt(mkv_proc_recv(proc.fd, word, sizeof(word), -1), 0);
    ck_assert_int_eq(look(), MKV_CLAIM_RELEASED);
    mkv_proc_kill(&proc, SIGKILL);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(look(), MKV_CLAIM_RELEASED);
}
END_TEST

/* Queue pairs are descriptors as well, and may be closed after the claims' file */
/* AB-05 */
START_TEST(a_process_is_gone_when_all_that_it_has_is_closed)
{
    char word[16];

    watch_owner();
    if (!has_pidfd("a_process_is_gone_when_all_that_it_has_is_closed")) {
        return;
    }
    ck_assert_int_eq(look(), MKV_CLAIM_HELD);
    ck_assert_int_eq(mkv_proc_send(proc.fd, "close", 6), 0);
    ck_assert_int_gt(mkv_proc_recv(proc.fd, word, sizeof(word), -1), 0);
    ck_assert_int_eq(look(), MKV_CLAIM_HELD);
    mkv_proc_kill(&proc, SIGKILL);
    wait_for_state(MKV_CLAIM_GONE);
}
END_TEST

START_TEST(a_process_is_local_unless_its_host_is_another)
{
    const mkv_process_t self = {.host_id = 5}, near = {.host_id = 5}, far = {0},
                        blind = {0};

    ck_assert(mkv_process_is_local(&self, &near));
    ck_assert(!mkv_process_is_local(&self, &far));
    ck_assert(mkv_process_is_local(&blind, &near)); /* it may be */
}
END_TEST

/* The claim ends even if the last message is lost: the process may live for ever. */
START_TEST(a_context_that_is_closed_claims_nothing_though_its_process_lives)
{
    char word[16];

    watch_owner();
    ck_assert_int_eq(mkv_proc_send(proc.fd, "leave", 6), 0);
    ck_assert_int_gt(mkv_proc_recv(proc.fd, word, sizeof(word), -1), 0);
    ck_assert_int_eq(look(), MKV_CLAIM_RELEASED);
}
END_TEST

START_TEST(one_claim_is_released_and_the_other_is_not)
{
    uint64_t claims[2];
    mkv_watch_t other;
    char word[16];

    ck_assert(start(claims, "one_claim_is_released_and_the_other_is_not"));
    mkv_watch_init(&other, -1);
    mkv_watch_start(&watch, dir, OWNER, claims[0]);
    mkv_watch_start(&other, dir, OWNER, claims[1]);
    ck_assert_int_eq(mkv_proc_send(proc.fd, "release", 8), 0);
    ck_assert_int_gt(mkv_proc_recv(proc.fd, word, sizeof(word), -1), 0);
    ck_assert_int_eq(look(), MKV_CLAIM_RELEASED);
    ck_assert_int_eq(mkv_watch_look(&other, dir), MKV_CLAIM_HELD);
    mkv_watch_stop(&other);
}
END_TEST

/* AB-05 */
START_TEST(a_process_in_a_private_pid_namespace_is_seen)
{
    uint64_t claims[2];

    owner->hides = 1;
    if (!start(claims, "a_process_in_a_private_pid_namespace_is_seen")) {
        return;
    }
    mkv_watch_start(&watch, dir, OWNER, claims[0]);
    wait_for_threads();
    ck_assert_int_eq(look(), MKV_CLAIM_HELD);
    mkv_proc_kill(&proc, SIGKILL); /* its parent here, with which it dies */
    wait_for_state(MKV_CLAIM_GONE);
}
END_TEST

static int watch_without_proc(int fd, void *arg)
{
    uint64_t claim = *(uint64_t *)arg;
    char word[16];

    MKV_REQUIRE(hide_proc(), "the owner could");
    mkv_watch_start(&watch, dir, OWNER, claim);
    while (mkv_proc_recv(fd, word, sizeof(word), -1) > 0) {
        if (strcmp(word, "killed") == 0) {
            wait_for_state(MKV_CLAIM_GONE);
        }
        (void)mkv_proc_send(fd, (look() == MKV_CLAIM_HELD) ? "held" : "gone", 5);
    }
    _exit(0); /* a sanitizer would look for leaks in /proc */
}

/* The sides cannot know whether they share a host: /proc and the boot id are missing */
/* AB-05 */
START_TEST(without_proc_and_boot_id_an_end_is_seen_and_not_before)
{
    uint64_t claims[2];
    mkv_proc_t watcher;
    char word[16];

    owner->has_no_proc = 1;
    if (!start(claims, "without_proc_and_boot_id_an_end_is_seen_and_not_before")) {
        return;
    }
    ck_assert_int_eq(mkv_proc_fork(&watcher, watch_without_proc, &claims[0]), 0);
    mkv_proc_kill(&proc, SIGSTOP);
    ck_assert_int_eq(waitpid(proc.pid, NULL, WUNTRACED), proc.pid);
    ck_assert_int_eq(mkv_proc_send(watcher.fd, "stopped", 8), 0);
    ck_assert_int_gt(mkv_proc_recv(watcher.fd, word, sizeof(word), -1), 0);
    ck_assert_str_eq(word, "held");
    mkv_proc_kill(&proc, SIGKILL);
    ck_assert_int_eq(mkv_proc_send(watcher.fd, "killed", 7), 0);
    ck_assert_int_gt(mkv_proc_recv(watcher.fd, word, sizeof(word), -1), 0);
    ck_assert_str_eq(word, "gone");
    mkv_proc_cleanup(&watcher);
}
END_TEST

/* The owner of a lock is not known there, so there is no pidfd */
static int watch_from_inside(int fd, void *arg)
{
    uint64_t claim = *(uint64_t *)arg;
    char word[16];
    pid_t pid;

    if (unshare(CLONE_NEWPID) != 0) {
        (void)mkv_proc_send(fd, "refused", 8);
        return 0;
    }
    pid = fork();
    if (pid != 0) {
        (void)waitpid(pid, NULL, 0);
        return 0;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    mkv_watch_start(&watch, dir, OWNER, claim);
    MKV_REQUIRE((look() == MKV_CLAIM_HELD) && (watch.pidfd < 0), "state %d pidfd %d",
                watch.state, watch.pidfd);
    (void)mkv_proc_send(fd, "held", 5);
    MKV_REQUIRE(mkv_proc_recv(fd, word, sizeof(word), -1) > 0, "recv");
    wait_for_state(MKV_CLAIM_GONE);
    (void)mkv_proc_send(fd, "gone", 5);
    _exit(0);
}

/* AB-05 */
START_TEST(a_process_outside_is_seen_from_a_private_pid_namespace)
{
    uint64_t claims[2];
    mkv_proc_t inside;
    char word[16];

    ck_assert(start(claims, "inside"));
    ck_assert_int_eq(mkv_proc_fork(&inside, watch_from_inside, &claims[0]), 0);
    ck_assert_int_gt(mkv_proc_recv(inside.fd, word, sizeof(word), -1), 0);
    if (strcmp(word, "refused") == 0) {
        ck_assert_int_eq(
            mkv_test_skip("namespaces",
                          "a_process_outside_is_seen_from_a_private_pid_namespace",
                          "unshare(2) is not permitted"),
            0);
    } else {
        ck_assert_str_eq(word, "held");
        mkv_proc_kill(&proc, SIGKILL);
        ck_assert_int_eq(mkv_proc_send(inside.fd, "killed", 7), 0);
        ck_assert_int_gt(mkv_proc_recv(inside.fd, word, sizeof(word), -1), 0);
        ck_assert_str_eq(word, "gone");
    }
    mkv_proc_cleanup(&inside);
}
END_TEST

/* The owner uses a different folder, so its claim is never found */
/* AB-05 */
START_TEST(a_file_that_cannot_be_seen_proves_nothing)
{
    uint64_t claims[2];

    owner->is_elsewhere = 1;
    ck_assert(start(claims, "a_file_that_cannot_be_seen_proves_nothing"));
    mkv_watch_start(&watch, dir, OWNER, claims[0]);
    ck_assert_int_eq(look(), MKV_CLAIM_UNKNOWN);
    ck_assert_int_eq(shutdown(proc.fd, SHUT_WR), 0); /* it removes its file */
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(look(), MKV_CLAIM_UNKNOWN);
}
END_TEST

/* Another user could make a file of the name when the peer has removed its own, and
 * hold any lock for ever. */
START_TEST(a_file_of_another_user_proves_nothing)
{
    uint64_t claims[2];
    char path[512];

    ck_assert(start(claims, "a_file_of_another_user_proves_nothing"));
    if (geteuid() != 0) {
        mkv_test_skip("root", "a_file_of_another_user_proves_nothing",
                      "only root can give a file to another user");
        return;
    }
    snprintf(path, sizeof(path), "%s/morikv.%016llx", dir, (unsigned long long)OWNER);
    ck_assert_int_eq(chown(path, 12345, 12345), 0);
    mkv_watch_start(&watch, dir, OWNER, claims[0]);
    ck_assert_int_eq(look(), MKV_CLAIM_UNKNOWN);
    ck_assert_int_eq(chown(path, geteuid(), getegid()), 0);
    ck_assert_int_eq(look(), MKV_CLAIM_HELD);
}
END_TEST

/* A copy of the peer's process runs on a copy of its machine. Its end proves nothing
 * about the peer: it does not hold the claim of this connection. Loop index: a number
 * that is none of a claim */
/* AB-05 */
START_TEST(a_copy_of_the_owner_proves_nothing)
{
    uint64_t claims[2];

    ck_assert(start(claims, "a_copy_of_the_owner_proves_nothing"));
    mkv_watch_start(&watch, dir, OWNER, _i ? UINT64_MAX : claims[0] + 1);
    ck_assert_int_eq(look(), MKV_CLAIM_UNKNOWN);
    mkv_proc_kill(&proc, SIGKILL);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(look(), MKV_CLAIM_UNKNOWN);
}
END_TEST

/* A claim that ended before the first check. An earlier claim of the same owner proves
 * the owner of the file. Loop index: the earlier claim is held, is released, its owner
 * is gone; it was never seen; it is of another owner; the new claim has not ended. */
/* AB-05 */
START_TEST(an_ended_claim_is_found_by_an_earlier_one)
{
    static const mkv_claim_state_t expected[] = {MKV_CLAIM_RELEASED, MKV_CLAIM_RELEASED,
                                                 MKV_CLAIM_GONE,     MKV_CLAIM_UNKNOWN,
                                                 MKV_CLAIM_UNKNOWN,  MKV_CLAIM_UNKNOWN};
    uint64_t claims[2];
    mkv_watch_t late;

    mkv_watch_init(&late, -1);
    ck_assert(start(claims, "an_ended_claim_is_found_by_an_earlier_one"));
    mkv_watch_start(&late, dir, OWNER, claims[0] + 1);
    ck_assert_int_eq(late.state, MKV_CLAIM_UNKNOWN);
    if (_i != 3) {
        mkv_watch_start(&watch, dir, OWNER, claims[0]);
    }
    if (_i == 1) {
        watch.state = MKV_CLAIM_RELEASED;
    } else if (_i == 2) {
        mkv_proc_kill(&proc, SIGKILL);
        wait_for_state(MKV_CLAIM_GONE);
    } else if (_i == 4) {
        late.owner = OWNER + 1;
    } else if (_i == 5) {
        late.claim = claims[1];
    }
    mkv_watch_trust(&late, dir, &watch);
    ck_assert_int_eq(late.state, expected[_i]);
    mkv_watch_stop(&late);
}
END_TEST

/* The claim need not have been watched before. Loop index: 1 it is still held. */
/* AB-05 */
START_TEST(an_ended_claim_of_this_process_is_found)
{
    mkv_claims_t *claims = mkv_claims_open(dir, OWNER);
    uint64_t claim = mkv_claims_take(claims, 11);

    if (_i == 0) {
        mkv_claims_release(claims, claim);
    }
    mkv_watch_start(&watch, dir, OWNER, claim);
    ck_assert_int_eq(watch.state, _i ? MKV_CLAIM_HELD : MKV_CLAIM_RELEASED);
    mkv_claims_close(claims);
    ck_assert_int_eq(look(), MKV_CLAIM_RELEASED);
}
END_TEST

/* AB-05 */
START_TEST(a_child_keeps_no_claim_of_its_parent)
{
    owner->has_child = 1;
    watch_owner();
    mkv_proc_kill(&proc, SIGKILL);
    wait_for_state(MKV_CLAIM_GONE);
    ck_assert_int_eq(kill(owner->child, 0), 0);
}
END_TEST

/* Loop index: the owner lives, or was killed */
START_TEST(looking_needs_no_descriptors)
{
    struct rlimit limit, none;

    watch_owner();
    if (_i) {
        mkv_proc_kill(&proc, SIGKILL);
        ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    }
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 1; /* poll(2) checks the limit against its one descriptor */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    (void)look();
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(watch.state, _i ? MKV_CLAIM_GONE : MKV_CLAIM_HELD);
}
END_TEST

/* Results for one claim prove nothing about the next claim; those for the same claim
 * stay */
START_TEST(a_watch_is_of_one_claim_of_one_owner)
{
    mkv_claims_t *claims = mkv_claims_open(dir, OWNER);
    uint64_t first = mkv_claims_take(claims, 11), second = mkv_claims_take(claims, 22);

    mkv_watch_start(&watch, dir, OWNER, first);
    mkv_claims_release(claims, first);
    ck_assert_int_eq(look(), MKV_CLAIM_RELEASED);
    mkv_watch_start(&watch, dir, OWNER, first);
    ck_assert_int_eq(look(), MKV_CLAIM_RELEASED);
    mkv_watch_start(&watch, dir, OWNER, second);
    ck_assert_int_eq(look(), MKV_CLAIM_HELD);
    mkv_watch_start(&watch, dir, OWNER + 1, second);
    ck_assert_int_eq(look(), MKV_CLAIM_UNKNOWN);
    mkv_claims_close(claims);
}
END_TEST

/* Closing any descriptor of a file drops the process's locks on it */
static int watch_the_parent(int fd, void *arg)
{
    uint64_t claim = *(uint64_t *)arg;
    char word[16];

    while (mkv_proc_recv(fd, word, sizeof(word), -1) > 0) {
        mkv_watch_start(&watch, dir, OWNER, claim);
        MKV_REQUIRE(mkv_proc_send(fd, look() == MKV_CLAIM_HELD ? "held" : "lost", 5) ==
                        0,
                    "send");
    }
    return 0;
}

START_TEST(claims_of_this_process_are_seen_and_not_lost)
{
    mkv_claims_t *claims, *others;
    uint64_t claim = (98765 >> 2) + 1;
    char word[16];

    ck_assert_int_eq(mkv_proc_fork(&proc, watch_the_parent, &claim), 0);
    claims = mkv_claims_open(dir, OWNER);
    ck_assert_uint_eq(mkv_claims_take(claims, 98765), claim);
    mkv_watch_start(&watch, dir, OWNER, claim);
    ck_assert_int_eq(look(), MKV_CLAIM_HELD);
    mkv_watch_stop(&watch);
    others = mkv_claims_open(dir, OWNER + 1); /* looks for files without an owner */
    ck_assert_ptr_nonnull(others);
    mkv_claims_close(others);
    ck_assert_int_eq(mkv_proc_send(proc.fd, "look", 5), 0);
    ck_assert_int_gt(mkv_proc_recv(proc.fd, word, sizeof(word), -1), 0);
    ck_assert_str_eq(word, "held");

    mkv_watch_start(&watch, dir, OWNER, claim);
    ck_assert_int_eq(look(), MKV_CLAIM_HELD);
    mkv_claims_release(claims, claim);
    ck_assert_int_eq(look(), MKV_CLAIM_RELEASED);
    mkv_claims_close(claims);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

/* A second copy of this library, with a list of its own, checks whether the first one
 * lives, and closes the file */
START_TEST(another_copy_in_this_process_ends_no_claim)
{
    mkv_claims_t *claims;
    uint64_t claim = (98765 >> 2) + 1;
    char path[128], word[16];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd;

    ck_assert_int_eq(mkv_proc_fork(&proc, watch_the_parent, &claim), 0);
    claims = mkv_claims_open(dir, OWNER);
    ck_assert_uint_eq(mkv_claims_take(claims, 98765), claim);
    snprintf(path, sizeof(path), "%s/morikv.%016x", dir, OWNER);
    fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    if ((fcntl(fd, F_OFD_GETLK, &lock) == 0) || (errno != EINVAL)) {
        ck_assert_int_eq(lock.l_type,
                         F_WRLCK); /* a process finds its own locks of this kind */
        close(fd);
        ck_assert_int_eq(mkv_proc_send(proc.fd, "look", 5), 0);
        ck_assert_int_gt(mkv_proc_recv(proc.fd, word, sizeof(word), -1), 0);
        ck_assert_str_eq(word, "held");
    } else {
        ck_assert_int_eq(mkv_test_skip("locks",
                                       "another_copy_in_this_process_ends_no_"
                                       "claim",
                                       "this kernel has no locks of open files"),
                         0);
        close(fd);
    }
    mkv_claims_close(claims);
}
END_TEST

/* A child has a copy of the list of this process's claims, but none of its locks */
/* AB-05 */
START_TEST(a_child_looks_at_its_parent_as_at_any_process)
{
    mkv_claims_t *claims = mkv_claims_open(dir, OWNER);
    uint64_t claim = mkv_claims_take(claims, 98765);
    char word[16];

    ck_assert_int_eq(mkv_proc_fork(&proc, watch_the_parent, &claim), 0);
    ck_assert_int_eq(mkv_proc_send(proc.fd, "look", 5), 0);
    ck_assert_int_gt(mkv_proc_recv(proc.fd, word, sizeof(word), -1), 0);
    ck_assert_str_eq(word, "held");
    mkv_claims_release(claims, claim);
    ck_assert_int_eq(mkv_proc_send(proc.fd, "look", 5), 0);
    ck_assert_int_gt(mkv_proc_recv(proc.fd, word, sizeof(word), -1), 0);
    ck_assert_str_eq(word, "lost");
    mkv_claims_close(claims);
}
END_TEST

START_TEST(files_of_killed_processes_are_removed)
{
    mkv_claims_t *first, *second;

    watch_owner();
    first = mkv_claims_open(dir, OWNER + 1);
    ck_assert_uint_eq(count_files(), 2);
    mkv_proc_kill(&proc, SIGKILL);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_uint_eq(count_files(), 2);
    second = mkv_claims_open(dir, OWNER + 2);
    ck_assert_uint_eq(count_files(), 2); /* the first is ours, and lives */
    ck_assert_int_eq(look(), MKV_CLAIM_GONE);
    mkv_claims_close(second);
    mkv_claims_close(first);
}
END_TEST

static mkv_claims_t *claims_in_use;

static void *take_claim(void *arg)
{
    (void)mkv_claims_take(claims_in_use, 33);
    return arg;
}

/* The library reads the folder: another thread needs its claims meanwhile */
struct dirent *readdir(DIR *handle)
{
    struct dirent *(*next)(DIR *) = NULL;
    struct timespec end;
    pthread_t thread;

    *(void **)&next = dlsym(RTLD_NEXT, "readdir");
    if (claims_in_use != NULL) {
        ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &end), 0);
        end.tv_sec += 300; /* it hangs */
        ck_assert_int_eq(pthread_create(&thread, NULL, take_claim, NULL), 0);
        ck_assert_int_eq(pthread_timedjoin_np(thread, NULL, &end), 0);
        claims_in_use = NULL;
    }
    return next(handle);
}

START_TEST(a_folder_is_read_while_others_make_claims)
{
    mkv_claims_t *claims = mkv_claims_open(dir, OWNER), *second;

    ck_assert_ptr_nonnull(claims);
    claims_in_use = claims;
    second = mkv_claims_open(dir, OWNER + 1);
    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_null(claims_in_use); /* it was read */
    mkv_claims_close(second);
    mkv_claims_close(claims);
}
END_TEST

/* A file is locked before it gets its name: a process that is killed in between leaves
 * none */
START_TEST(a_file_has_one_name_from_its_first_to_its_last_day)
{
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    char events[4096] __attribute__((aligned(8))), name[32];
    const struct inotify_event *event = (const void *)events;
    mkv_claims_t *claims;
    ssize_t length;

    ck_assert_int_ge(inotify_add_watch(fd, dir, IN_CREATE | IN_MOVE | IN_DELETE), 0);
    claims = mkv_claims_open(dir, OWNER);
    ck_assert_ptr_nonnull(claims);
    mkv_claims_close(claims);
    length = read(fd, events, sizeof(events));
    close(fd);

    snprintf(name, sizeof(name), "morikv.%016llx", (unsigned long long)OWNER);
    ck_assert_int_gt(length, 0);
    ck_assert_uint_eq(event->mask, IN_CREATE);
    ck_assert_str_eq(event->name, name);
    length -= (ssize_t)(sizeof(*event) + event->len);
    event = (const void *)((const char *)(event + 1) + event->len);
    ck_assert_uint_eq(event->mask, IN_DELETE);
    ck_assert_int_eq(length, (ssize_t)(sizeof(*event) + event->len));
}
END_TEST

/* Other programs may use the folder. Loop index: a name that only begins as ours do,
 * one of our length, and an entry that is no file */
START_TEST(files_that_are_no_claims_are_left_alone)
{
    static const char *const names[] = {"morikv.0123456789abcdef0",
                                        "others.0123456789abcdef",
                                        "morikv.0123456789abcdef"};
    mkv_claims_t *claims;
    char path[512];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, names[_i]);
    if (_i == 2) {
        ck_assert_int_eq(mkfifo(path, 0600), 0);
    } else {
        fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        ck_assert_int_ge(fd, 0);
        close(fd);
    }
    claims = mkv_claims_open(dir, OWNER + 1);
    ck_assert_ptr_nonnull(claims);
    ck_assert_int_eq(access(path, F_OK), 0);
    mkv_claims_close(claims);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* The descriptor is gone when the end was seen, though a child has a copy of it */
/* AB-05 */
START_TEST(an_end_is_one_event)
{
    struct epoll_event event;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    char word[16];
    mkv_proc_t child;
    uint64_t claims[2];

    ck_assert_int_ge(epoll_fd, 0);
    ck_assert(start(claims, "an_end_is_one_event"));
    mkv_watch_init(&watch, epoll_fd);
    mkv_watch_start(&watch, dir, OWNER, claims[0]);
    if (!has_pidfd("an_end_is_one_event")) {
        close(epoll_fd);
        return;
    }
    ck_assert_int_eq(mkv_proc_fork(&child, watch_the_parent, &claims[0]), 0);
    ck_assert_int_eq(epoll_wait(epoll_fd, &event, 1, 0), 0);
    mkv_proc_kill(&proc, SIGKILL);
    ck_assert_int_eq(epoll_wait(epoll_fd, &event, 1, mkv_test_limit_ms()), 1);
    ck_assert_int_eq(look(), MKV_CLAIM_GONE);
    ck_assert_int_eq(epoll_wait(epoll_fd, &event, 1, 0), 0);
    ck_assert_int_eq(mkv_proc_send(child.fd, "look", 5), 0); /* it lived so far */
    ck_assert_int_gt(mkv_proc_recv(child.fd, word, sizeof(word), -1), 0);
    mkv_proc_cleanup(&child);
    close(epoll_fd);
}
END_TEST

/* ---- Another user ---------------------------------------------------------------- */

#define STRANGER_UID 65534
#define OTHER_UID 65533

static mkv_proc_t stranger; /* acts before each rename of this process */

/* Count claims of which a file name in the folder reveals the name, and the folder
 * itself */
static unsigned take(const char *name)
{
    char path[512], other[600];
    unsigned count;
    int fd;

    if (strncmp(name, "morikv.", 7) != 0) {
        return 0;
    }
    snprintf(path, sizeof(path), "%s/%.23s", dir, name);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    count = (fd >= 0);
    snprintf(other, sizeof(other), "%s/claims", path);
    fd = open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    snprintf(other, sizeof(other), "%s.taken", path);
    return count + (fd >= 0) + (renameat(AT_FDCWD, path, AT_FDCWD, other) == 0);
}

/* Answers each message with what another user could do in the folder. */
static int take_all(int fd, void *arg)
{
    struct dirent *entry;
    unsigned count;
    DIR *handle;
    char word;

    (void)arg;
    MKV_REQUIRE(setuid(STRANGER_UID) == 0, "setuid");
    while (mkv_proc_recv(fd, &word, 1, -1) > 0) {
        count = 0;
        handle = opendir(dir);
        while ((handle != NULL) && ((entry = readdir(handle)) != NULL)) {
            count += take(entry->d_name);
        }
        closedir(handle);
        (void)mkv_proc_send(fd, &count, sizeof(count));
    }
    _exit(0);
}

int rename(const char *from, const char *to)
{
    unsigned count = 0;

    if (stranger.pid > 0) {
        MKV_REQUIRE((mkv_proc_send(stranger.fd, "", 1) == 0) &&
                        (mkv_proc_recv(stranger.fd, &count, sizeof(count), -1) > 0) &&
                        (count == 0),
                    "another user could do %u things", count);
    }
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static int open_watched(int fd, void *arg)
{
    const char *answer = "refused";
    mkv_claims_t *claims;

    (void)arg;
    if (hide_proc()) {
        MKV_REQUIRE((mkv_proc_fork(&stranger, take_all, NULL) == 0) &&
                        (setuid(OTHER_UID) == 0),
                    "no other user");
        claims = mkv_claims_open(dir, OWNER);
        answer = (claims != NULL) ? "open" : "failed";
        MKV_REQUIRE((claims == NULL) || (count_files() == 1), "it left more");
        mkv_claims_close(claims);
    }
    (void)mkv_proc_send(fd, answer, strlen(answer) + 1);
    _exit(0); /* a sanitizer would look for leaks in /proc */
}

/* Files have a name from the start here, since there is no /proc. */
START_TEST(another_user_watching_the_names_takes_none)
{
    char word[128];

    if (geteuid() != 0) {
        mkv_test_skip("root", "another_user_watching_the_names_takes_none",
                      "only root can change to another user");
        return;
    }
    ck_assert_int_eq(chmod(dir, 01777), 0);
    ck_assert_int_eq(mkv_proc_fork(&proc, open_watched, NULL), 0);
    ck_assert_int_gt(mkv_proc_recv(proc.fd, word, sizeof(word), -1), 0);
    if (strcmp(word, "refused") == 0) {
        mkv_test_skip("namespaces", "another_user_watching_the_names_takes_none",
                      "unshare(2) is not permitted");
        return;
    }
    ck_assert_str_eq(word, "open");
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("test_mkv_process");
    TCase *tcase = tcase_create("claims");

    mkv_test_init();
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, open_dir, close_dir);
    tcase_add_loop_test(tcase, no_thread_runs_when_a_killed_process_is_gone, 0, 2);
    tcase_add_test(tcase, a_claim_is_held_while_threads_run_without_their_leader);
    tcase_add_test(tcase, a_stopped_process_claims_until_it_goes_on_and_releases);
    tcase_add_test(tcase, a_process_is_gone_when_all_that_it_has_is_closed);
    tcase_add_test(tcase, a_process_is_local_unless_its_host_is_another);
    tcase_add_test(tcase,
                   a_context_that_is_closed_claims_nothing_though_its_process_lives);
    tcase_add_test(tcase, one_claim_is_released_and_the_other_is_not);
    tcase_add_test(tcase, a_process_in_a_private_pid_namespace_is_seen);
    tcase_add_test(tcase, without_proc_and_boot_id_an_end_is_seen_and_not_before);
    tcase_add_test(tcase, a_process_outside_is_seen_from_a_private_pid_namespace);
    tcase_add_test(tcase, a_file_that_cannot_be_seen_proves_nothing);
    tcase_add_test(tcase, a_file_of_another_user_proves_nothing);
    tcase_add_loop_test(tcase, a_copy_of_the_owner_proves_nothing, 0, 2);
    tcase_add_loop_test(tcase, an_ended_claim_is_found_by_an_earlier_one, 0, 6);
    tcase_add_loop_test(tcase, an_ended_claim_of_this_process_is_found, 0, 2);
    tcase_add_test(tcase, a_child_keeps_no_claim_of_its_parent);
    tcase_add_loop_test(tcase, looking_needs_no_descriptors, 0, 2);
    tcase_add_test(tcase, a_watch_is_of_one_claim_of_one_owner);
    tcase_add_test(tcase, claims_of_this_process_are_seen_and_not_lost);
    tcase_add_test(tcase, another_copy_in_this_process_ends_no_claim);
    tcase_add_test(tcase, a_child_looks_at_its_parent_as_at_any_process);
    tcase_add_test(tcase, files_of_killed_processes_are_removed);
    tcase_add_test(tcase, a_folder_is_read_while_others_make_claims);
    tcase_add_test(tcase, a_file_has_one_name_from_its_first_to_its_last_day);
    tcase_add_loop_test(tcase, files_that_are_no_claims_are_left_alone, 0, 3);
    tcase_add_test(tcase, an_end_is_one_event);
    tcase_add_test(tcase, another_user_watching_the_names_takes_none);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
