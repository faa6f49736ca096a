/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Claims are open file description locks: they belong to all threads of a process. The
 * kernel drops them when the last thread closes its descriptors, which is after the
 * thread has left the memory and with it the GPU queues. A forked child would keep its
 * parent's claims, so it closes them. Byte 0 is locked as long as the file is open,
 * which separates a release from an end. Locks of the process would not do. The process
 * may have two copies of this library, and loses the locks when one copy closes a
 * descriptor of the other one's file.
 *
 * A pidfd is the stronger proof: it follows when all descriptors are closed, those of
 * RDMA queue pairs included. But a process in another PID namespace has none. One more
 * byte holds a lock of the process, from which the peer finds the process id to open.
 * The id is only a hint and is renewed with each claim.
 *
 * A file gets its random name when it is locked. Until then it has no name, or one in a
 * folder that only its user may enter, so no other user can take the name before.
 * Each open checks the owner, so a replaced file is found.
 *
 * Where the kernel has no open file description locks (gVisor), all are locks of the
 * process. A process does not see its own locks, so a list of this copy's contexts is
 * searched before every open.
 */

#include "peer/process.h"

#include "base/list.h"
#include "base/log.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MKV_CLAIMS_PREFIX "morikv."
#define MKV_CLAIMS_LIFE 0 /* the byte that is locked as long as the file is open */
#define MKV_CLAIMS_LAST (1ull << 62)
#define MKV_CLAIMS_PROCESS (MKV_CLAIMS_LAST + 1) /* its lock names the process id */

struct mkv_claims {
    mkv_list_t list; /* link in mkv_claims_list */
    uint64_t owner;
    pid_t pid; /* a child has a copy of the list, and none of the locks */
    int fd;
    uint64_t *held;
    size_t num_held, max_held;
    char path[512];
};

static mkv_list_t mkv_claims_list = {&mkv_claims_list, &mkv_claims_list};
static pthread_mutex_t mkv_claims_lock = PTHREAD_MUTEX_INITIALIZER;
static bool mkv_claims_can_fork;

/* ---- Host and process ------------------------------------------------------------ */

static uint64_t mkv_hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (; isgraph((unsigned char)*text); ++text) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
    }
    return hash;
}

void mkv_process_self(mkv_process_t *process)
{
    char text[64] = "";
    FILE *file;

    memset(process, 0, sizeof(*process));
    process->pid = (uint32_t)getpid();
    file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL) {
        if (fgets(text, sizeof(text), file) != NULL) {
            process->host_id = mkv_hash_text(text);
        }
        fclose(file);
    }
}

bool mkv_process_is_local(const mkv_process_t *self, const mkv_process_t *process)
{
    return (self->host_id == 0) || (self->host_id == process->host_id);
}

/* ---- Locks ----------------------------------------------------------------------- */

static void mkv_claims_path(const char *dir, uint64_t owner, char *path, size_t size)
{
    snprintf(path, size, "%s/" MKV_CLAIMS_PREFIX "%016" PRIx64, dir, owner);
}

static struct flock mkv_byte(uint64_t byte, short type)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
}

static int mkv_byte_call(int fd, int command, int process_command, struct flock *lock)
{
    int ret = fcntl(fd, command, lock);

    return ((ret == 0) || (errno != EINVAL)) ? ret : fcntl(fd, process_command, lock);
}

static int mkv_byte_set(int fd, uint64_t byte, short type)
{
    struct flock lock = mkv_byte(byte, type);

    return mkv_byte_call(fd, F_OFD_SETLK, F_SETLK, &lock);
}

/* Whether the byte is locked through another descriptor. A failed call counts as locked
 */
static bool mkv_byte_is_locked(int fd, uint64_t byte)
{
    struct flock lock = mkv_byte(byte, F_WRLCK);

    return (mkv_byte_call(fd, F_OFD_GETLK, F_GETLK, &lock) != 0) ||
           (lock.l_type != F_UNLCK);
}

static void mkv_process_set(int fd)
{
    struct flock lock = mkv_byte(MKV_CLAIMS_PROCESS, F_WRLCK);

    (void)fcntl(fd, F_SETLK, &lock);
}

/* @return Process id; 0 or less: unknown here. */
static pid_t mkv_process_of(int fd)
{
    struct flock lock = mkv_byte(MKV_CLAIMS_PROCESS, F_WRLCK);

    return ((fcntl(fd, F_GETLK, &lock) == 0) && (lock.l_type != F_UNLCK)) ? lock.l_pid
                                                                          : 0;
}

/* Called with the lock of the list */
static mkv_claims_t *mkv_claims_find(uint64_t owner)
{
    mkv_claims_t *claims;

    mkv_list_for_each(claims, &mkv_claims_list, list)
    {
        if ((claims->owner == owner) && (claims->pid == getpid())) {
            return claims;
        }
    }
    return NULL;
}

static int mkv_claims_open_file(const char *path, int flags)
{
    struct stat st;
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

    if ((fd >= 0) &&
        ((fstat(fd, &st) != 0) || !S_ISREG(st.st_mode) || (st.st_uid != geteuid()))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- This context's claims ------------------------------------------------------- */

/* Called with the lock of the list */
static void mkv_claims_sweep_file(const char *dir, const char *name)
{
    char path[512];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = mkv_claims_open_file(path, O_RDWR);
    if (fd < 0) {
        return;
    }
    if (!mkv_byte_is_locked(fd, MKV_CLAIMS_LIFE)) {
        unlink(path);
    }
    close(fd);
}

/* Remove files without locks: their process was killed. Every user may make thousands,
 * so the lock of the list is free between two of them */
static void mkv_claims_sweep(const char *dir)
{
    size_t prefix = strlen(MKV_CLAIMS_PREFIX);
    DIR *handle = opendir(dir);
    const struct dirent *entry;

    while ((handle != NULL) && ((entry = readdir(handle)) != NULL)) {
        if ((strncmp(entry->d_name, MKV_CLAIMS_PREFIX, prefix) != 0) ||
            (strlen(entry->d_name) != prefix + 16)) {
            continue;
        }
        pthread_mutex_lock(&mkv_claims_lock);
        if (mkv_claims_find(strtoull(entry->d_name + prefix, NULL, 16)) == NULL) {
            mkv_claims_sweep_file(dir, entry->d_name);
        }
        pthread_mutex_unlock(&mkv_claims_lock);
    }
    if (handle != NULL) {
        closedir(handle);
    }
}

/* Make a file without a name, so that a killed process leaves none behind */
static bool mkv_claims_create_unnamed(mkv_claims_t *claims, const char *dir)
{
    char path[32];

    claims->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (claims->fd < 0) {
        return false;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", claims->fd);
    if ((mkv_byte_set(claims->fd, MKV_CLAIMS_LIFE, F_WRLCK) == 0) &&
        (linkat(AT_FDCWD, path, AT_FDCWD, claims->path, AT_SYMLINK_FOLLOW) == 0)) {
        return true;
    }
    close(claims->fd);
    return false;
}

static int mkv_claims_create_in(mkv_claims_t *claims, const char *folder)
{
    char path[512];
    int saved;

    snprintf(path, sizeof(path), "%s/claims", folder);
    claims->fd = mkv_claims_open_file(path, O_RDWR | O_CREAT | O_EXCL);
    if (claims->fd < 0) {
        return -1;
    }
    if ((mkv_byte_set(claims->fd, MKV_CLAIMS_LIFE, F_WRLCK) != 0) ||
        (rename(path, claims->path) != 0)) {
        saved = errno;
        unlink(path);
        close(claims->fd);
        errno = saved;
        return -1;
    }
    return 0;
}

/* For file systems, or systems without /proc, that need a name from the start. Another
 * user sees the folder, and cannot take the name that the file will have */
static int mkv_claims_create_renamed(mkv_claims_t *claims, const char *dir)
{
    char folder[448];
    int result, saved;

    snprintf(folder, sizeof(folder), "%s/" MKV_CLAIMS_PREFIX "XXXXXX", dir);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    result = mkv_claims_create_in(claims, folder);
    saved = errno;
    (void)rmdir(folder);
    errno = saved;
    return result;
}

/* The name appears when the file is locked; before, it would look like a dead process's
 */
static int mkv_claims_create_file(mkv_claims_t *claims, const char *dir)
{
    mkv_claims_path(dir, claims->owner, claims->path, sizeof(claims->path));
    return mkv_claims_create_unnamed(claims, dir)
               ? 0
               : mkv_claims_create_renamed(claims, dir);
}

static void mkv_claims_before_fork(void)
{
    pthread_mutex_lock(&mkv_claims_lock);
}

static void mkv_claims_after_fork(void)
{
    pthread_mutex_unlock(&mkv_claims_lock);
}

/* A child that inherits the descriptor would hold its parent's claims beyond the
 * parent's end */
static void mkv_claims_in_child(void)
{
    mkv_claims_t *claims;

    mkv_list_for_each(claims, &mkv_claims_list, list)
    {
        if (claims->fd >= 0) { /* a copy of the parent's */
            close(claims->fd);
            claims->fd = -1;
        }
    }
    pthread_mutex_unlock(&mkv_claims_lock);
}

static void mkv_claims_mind_forks(void)
{
    mkv_claims_can_fork = (pthread_atfork(mkv_claims_before_fork, mkv_claims_after_fork,
                                          mkv_claims_in_child) == 0);
}

mkv_claims_t *mkv_claims_open(const char *dir, uint64_t owner)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    mkv_claims_t *claims = calloc(1, sizeof(*claims));

    (void)pthread_once(&once, mkv_claims_mind_forks);
    if ((claims == NULL) || !mkv_claims_can_fork) {
        free(claims);
        errno = ENOMEM;
        return NULL;
    }
    claims->owner = owner;
    claims->pid = getpid();

    mkv_claims_sweep(dir);
    pthread_mutex_lock(&mkv_claims_lock);
    if (mkv_claims_create_file(claims, dir) == 0) {
        mkv_list_add_tail(&mkv_claims_list, &claims->list);
    } else {
        free(claims);
        claims = NULL;
    }
    pthread_mutex_unlock(&mkv_claims_lock);
    return claims;
}

void mkv_claims_close(mkv_claims_t *claims)
{
    if (claims == NULL) {
        return;
    }
    pthread_mutex_lock(&mkv_claims_lock);
    mkv_list_del(&claims->list);
    if (claims->fd >= 0) { /* a child does not touch its parent's */
        unlink(claims->path);
        close(claims->fd);
    }
    pthread_mutex_unlock(&mkv_claims_lock);
    free(claims->held);
    free(claims);
}

/* Called with the lock of the list */
static uint64_t mkv_claims_add(mkv_claims_t *claims, uint64_t claim)
{
    size_t max = claims->max_held * 2 + 8;
    uint64_t *held = claims->held;

    if (claims->num_held == claims->max_held) {
        held = realloc(claims->held, max * sizeof(*held));
        if (held == NULL) {
            return 0;
        }
        claims->held = held;
        claims->max_held = max;
    }
    if (mkv_byte_set(claims->fd, claim, F_WRLCK) != 0) {
        return 0;
    }
    mkv_process_set(claims->fd); /* closing a descriptor of the file elsewhere drops the
                                    lock; take it again */
    held[claims->num_held++] = claim;
    return claim;
}

uint64_t mkv_claims_take(mkv_claims_t *claims, uint64_t random)
{
    uint64_t claim = 0;

    if (claims != NULL) {
        pthread_mutex_lock(&mkv_claims_lock);
        claim = mkv_claims_add(claims, (random >> 2) + 1); /* an offset, and not 0 */
        pthread_mutex_unlock(&mkv_claims_lock);
    }
    return claim;
}

void mkv_claims_release(mkv_claims_t *claims, uint64_t claim)
{
    size_t i;

    if ((claims == NULL) || (claim == 0)) {
        return;
    }
    pthread_mutex_lock(&mkv_claims_lock);
    (void)mkv_byte_set(claims->fd, claim, F_UNLCK);
    for (i = 0; (i < claims->num_held) && (claims->held[i] != claim); ++i) {
    }
    if (i < claims->num_held) {
        claims->held[i] = claims->held[--claims->num_held];
    }
    pthread_mutex_unlock(&mkv_claims_lock);
}

/* ---- A peer's claim -------------------------------------------------------------- */

void mkv_watch_init(mkv_watch_t *watch, int epoll_fd)
{
    memset(watch, 0, sizeof(*watch));
    watch->fd = watch->pidfd = -1;
    watch->epoll_fd = epoll_fd;
}

/* Removed from epoll explicitly, because a child's copy may keep it there */
static void mkv_watch_close_pidfd(mkv_watch_t *watch)
{
    if (watch->pidfd >= 0) {
        (void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, watch->pidfd, NULL);
        close(watch->pidfd);
        watch->pidfd = -1;
    }
}

static void mkv_watch_close(mkv_watch_t *watch)
{
    mkv_watch_close_pidfd(watch);
    if (watch->fd >= 0) {
        close(watch->fd);
        watch->fd = -1;
    }
}

/* Whether the same process held the lock before and after pidfd_open(), so that the
 * pidfd is of that process */
static void mkv_watch_open_pidfd(mkv_watch_t *watch)
{
    struct epoll_event event = {.events = EPOLLIN};
    pid_t pid = mkv_process_of(watch->fd);

    if (pid <= 0) {
        return;
    }
    watch->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    (void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, watch->pidfd, &event);
    if ((mkv_process_of(watch->fd) != pid) ||
        !mkv_byte_is_locked(watch->fd, watch->claim)) {
        mkv_watch_close_pidfd(watch);
    }
}

static bool mkv_claims_hold(const mkv_claims_t *claims, uint64_t claim)
{
    bool is_held = false;
    size_t i;

    for (i = 0; i < claims->num_held; ++i) {
        is_held |= (claims->held[i] == claim);
    }
    return is_held;
}

/*
 * Check a context of this process: its state can be read.
 *
 * @return false: it is of another process.
 */
static bool mkv_watch_look_own(mkv_watch_t *watch)
{
    const mkv_claims_t *claims = mkv_claims_find(watch->owner);
    bool is_held = (claims != NULL) && mkv_claims_hold(claims, watch->claim);

    watch->is_own |= (claims != NULL);
    if (watch->is_own) {
        watch->state = is_held ? MKV_CLAIM_HELD : MKV_CLAIM_RELEASED;
    }
    return watch->is_own;
}

static void mkv_watch_find(mkv_watch_t *watch, const char *dir)
{
    char path[512];

    mkv_claims_path(dir, watch->owner, path, sizeof(path));
    watch->fd = mkv_claims_open_file(path, O_RDONLY);
    if ((watch->fd >= 0) && mkv_byte_is_locked(watch->fd, watch->claim)) {
        watch->state = MKV_CLAIM_HELD;
        mkv_watch_open_pidfd(watch);
    } else {
        mkv_watch_close(watch);
    }
}

static bool mkv_watch_has_ended(const mkv_watch_t *watch)
{
    struct pollfd pollfd = {.fd = watch->pidfd, .events = POLLIN};

    return (watch->pidfd < 0) || (poll(&pollfd, 1, 0) == 1);
}

/* A closing context removes the name first, and then unlocks all bytes */
static bool mkv_watch_is_closed(const mkv_watch_t *watch)
{
    struct stat st;

    return (fstat(watch->fd, &st) == 0) && (st.st_nlink == 0);
}

/* Read the claim first: an end unlocks all bytes at once. If the claim was gone and the
 * life byte is then still locked, the claim alone was released */
static void mkv_watch_look_other(mkv_watch_t *watch)
{
    if (mkv_byte_is_locked(watch->fd, watch->claim)) {
        if (mkv_watch_has_ended(watch)) { /* its child has inherited the descriptor that
                                             holds the lock */
            mkv_watch_close_pidfd(watch);
        }
        return;
    }
    if (mkv_byte_is_locked(watch->fd, MKV_CLAIMS_LIFE)) {
        watch->state = MKV_CLAIM_RELEASED;
    } else if (mkv_watch_has_ended(watch)) {
        watch->state = MKV_CLAIM_GONE;
    } else if (mkv_watch_is_closed(watch)) {
        watch->state = MKV_CLAIM_RELEASED;
    }
    if (watch->state != MKV_CLAIM_HELD) {
        mkv_watch_close(watch);
    }
}

mkv_claim_state_t mkv_watch_look(mkv_watch_t *watch, const char *dir)
{
    if ((watch->claim == 0) || (watch->state > MKV_CLAIM_HELD)) {
        return watch->state;
    }
    pthread_mutex_lock(&mkv_claims_lock);
    if (!mkv_watch_look_own(watch)) {
        if (watch->fd < 0) {
            mkv_watch_find(watch, dir);
        } else {
            mkv_watch_look_other(watch);
        }
    }
    pthread_mutex_unlock(&mkv_claims_lock);
    return watch->state;
}

void mkv_watch_start(mkv_watch_t *watch, const char *dir, uint64_t owner,
                     uint64_t claim)
{
    if ((watch->owner == owner) && (watch->claim == claim)) {
        return;
    }
    mkv_watch_stop(watch);
    watch->owner = owner;
    watch->claim =
        (claim <= MKV_CLAIMS_LAST) ? claim : 0; /* fcntl(2) fails on others,
                                                 * which would count as held */
    (void)mkv_watch_look(watch, dir);
}

/* Read the life byte last: a claim that is not held while its owner lives was released
 */
static bool mkv_file_has_released(const char *path, uint64_t claim)
{
    int fd = mkv_claims_open_file(path, O_RDONLY);
    bool has_released = (fd >= 0) && !mkv_byte_is_locked(fd, claim) &&
                        mkv_byte_is_locked(fd, MKV_CLAIMS_LIFE);

    if (fd >= 0) {
        close(fd);
    }
    return has_released;
}

void mkv_watch_trust(mkv_watch_t *watch, const char *dir, const mkv_watch_t *seen)
{
    char path[512];

    if ((watch->claim == 0) || (watch->state != MKV_CLAIM_UNKNOWN) ||
        (seen->owner != watch->owner) || (seen->state == MKV_CLAIM_UNKNOWN)) {
        return;
    }
    mkv_claims_path(dir, watch->owner, path, sizeof(path));
    if (seen->state == MKV_CLAIM_GONE) {
        watch->state = MKV_CLAIM_GONE; /* both claims are of the same process */
    } else if (mkv_file_has_released(path, watch->claim)) {
        watch->state = MKV_CLAIM_RELEASED;
    }
}

void mkv_watch_stop(mkv_watch_t *watch)
{
    mkv_watch_close(watch);
    mkv_watch_init(watch, watch->epoll_fd);
}
