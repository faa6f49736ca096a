/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FV_MAGIC UINT64_C(0x3172657661660001)
#define FV_ARENA_SIZE (UINT64_C(1) << 30)
#define FV_MIN_ORDER 8
#define FV_NS_PER_S 1000000000l
#define FV_LOCK_PATIENCE_NS 20000000l

fv_process_t fv;

static pthread_once_t fv_once = PTHREAD_ONCE_INIT;
static bool fv_follows_forks;

void fv_abort(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "fake verbs: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    fflush(stderr);
    abort();
}

static bool fv_stopped(pid_t pid)
{
    char path[32], text[256] = "", *state;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file != NULL) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
    }

    state = strrchr(text, ')'); /* the name before it may hold anything */
    return (state != NULL) && (strncmp(state, ") T", 3) == 0);
}

/* The holder is unknown yet: it may be about to write its number. */
static void fv_wake_stopped(bool woken[FV_MAX_CONTEXTS])
{
    const fv_wire_context_t *context = fv.wire->context;
    unsigned i;

    for (i = 0; i < FV_MAX_CONTEXTS; i++) {
        if (context[i].used && fv_stopped(context[i].pid)) {
            kill(context[i].pid, SIGCONT);
            woken[i] = true;
        }
    }
}

/* A signal is pending until its process runs; a user that continues it must find it
 * stopped. */
static void fv_await_stop(pid_t pid)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    unsigned i;

    for (i = 0; (i < 10000) && fv_alive(pid) && !fv_stopped(pid); i++) {
        nanosleep(&nap, NULL);
    }
}

/* Continue stopped processes, one of which holds the lock, until we get it. */
static int fv_lock_shared(void)
{
    const fv_wire_context_t *context = fv.wire->context;
    bool woken[FV_MAX_CONTEXTS] = {false};
    struct timespec until;
    unsigned i;
    int err;

    err = pthread_mutex_trylock(&fv.wire->lock);
    if (err != EBUSY) {
        return err;
    }

    for (;;) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += (until.tv_nsec + FV_LOCK_PATIENCE_NS) / FV_NS_PER_S;
        until.tv_nsec = (until.tv_nsec + FV_LOCK_PATIENCE_NS) % FV_NS_PER_S;
        err = pthread_mutex_timedlock(&fv.wire->lock, &until);
        if (err != ETIMEDOUT) {
            break;
        }
        fv_wake_stopped(woken);
    }

    for (i = 0; i < FV_MAX_CONTEXTS; i++) {
        if (woken[i] && context[i].used) {
            kill(context[i].pid, SIGSTOP);
            fv_await_stop(context[i].pid);
        }
    }
    return err;
}

void fv_lock(void)
{
    int err = fv.shared ? fv_lock_shared() : pthread_mutex_lock(&fv.wire->lock);

    if (err == EOWNERDEAD) {
        pthread_mutex_consistent(&fv.wire->lock);
    } else if (err != 0) {
        fv_abort("the wire's lock: %s", strerror(err));
    }
}

void fv_unlock(void)
{
    pthread_mutex_unlock(&fv.wire->lock);
}

void *fv_at(uint64_t offset)
{
    return (char *)fv.wire + offset;
}

static unsigned fv_order(size_t size)
{
    unsigned order = FV_MIN_ORDER;

    while ((UINT64_C(1) << order) < size) {
        order++;
    }

    return order;
}

uint64_t fv_alloc(size_t size)
{
    const unsigned order = fv_order(size);
    uint64_t offset = fv.wire->arena_free[order];

    if (offset != 0) {
        memcpy(&fv.wire->arena_free[order], fv_at(offset), sizeof(offset));
    } else {
        offset = fv.wire->arena_next;
        if (offset + (UINT64_C(1) << order) > fv.wire->size) {
            fv_abort("the wire is full: %zu bytes of queues do not fit", size);
        }
        fv.wire->arena_next += UINT64_C(1) << order;
    }

    memset(fv_at(offset), 0, size);
    return offset;
}

void fv_free(uint64_t offset, size_t size)
{
    const unsigned order = fv_order(size);

    memcpy(fv_at(offset), &fv.wire->arena_free[order], sizeof(offset));
    fv.wire->arena_free[order] = offset;
}

uint64_t fv_now(void)
{
    struct timespec now;

    if (fv.clock_stopped) {
        return fv.clock;
    }

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Reading memory detects a zombie, which has none any more; kill(pid, 0) does not. */
static bool fv_has_memory(pid_t thread)
{
    char byte;
    struct iovec here = {.iov_base = &byte, .iov_len = 1};
    struct iovec there = {.iov_base = NULL, .iov_len = 1};

    return (process_vm_readv(thread, &here, 1, &there, 1, 0) >= 0) || (errno != ESRCH);
}

/* Find a thread that gives access to a process' memory and files. A device needs none;
 * a process whose first thread has ended is accessed through a different one. 0: it has
 * ended. */
static pid_t fv_thread_of(pid_t pid)
{
    struct dirent *entry;
    pid_t thread = pid;
    char path[32];
    DIR *dir;

    if (fv_has_memory(pid)) {
        return pid;
    }
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (dir == NULL) {
        return 0;
    }
    do {
        entry = readdir(dir);
        thread = (entry != NULL) ? (pid_t)atoi(entry->d_name) : 0;
    } while ((entry != NULL) && ((thread == 0) || !fv_has_memory(thread)));
    closedir(dir);
    return thread;
}

bool fv_alive(pid_t pid)
{
    return (pid == fv.pid) || (fv_thread_of(pid) != 0);
}

static ssize_t fv_vm(__typeof__(process_vm_readv) *call, pid_t pid,
                     const struct iovec *here, unsigned count,
                     const struct iovec *there)
{
    ssize_t ret = call(pid, here, count, there, 1, 0);
    pid_t thread;

    if ((ret >= 0) || (errno != ESRCH)) {
        return ret;
    }
    thread = fv_thread_of(pid);
    errno = ESRCH;
    return (thread != 0) ? call(thread, here, count, there, 1, 0) : ret;
}

/* A device reaches freed pages that are still registered, as they are pinned. Data
 * written there is lost, and reads return old data. */
static int fv_memory_result(pid_t pid, ssize_t ret, uint64_t address)
{
    if ((ret >= 0) || (errno == EFAULT)) {
        return 0;
    }
    if (errno == ESRCH) {
        return -1;
    }

    fv_abort(
        "memory of process %d at 0x%llx cannot be reached: %s; processes of one wire "
        "must be allowed to trace each other (kernel.yama.ptrace_scope=0)",
        (int)pid, (unsigned long long)address, strerror(errno));
}

static unsigned fv_to_iovec(const struct ibv_sge *sge, unsigned count,
                            struct iovec *iov)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        iov[i].iov_base = (void *)(uintptr_t)sge[i].addr;
        iov[i].iov_len = sge[i].length;
    }

    return count;
}

static size_t fv_sge_length(const struct ibv_sge *sge, unsigned count)
{
    size_t length = 0;
    unsigned i;

    for (i = 0; i < count; i++) {
        length += sge[i].length;
    }

    return length;
}

int fv_memory_write_late(pid_t pid, uint64_t to, const struct ibv_sge *from,
                         unsigned count)
{
    struct iovec iov[64], there;
    ssize_t ret;

    there.iov_base = (void *)(uintptr_t)to;
    there.iov_len = fv_sge_length(from, count);
    ret = fv_vm(process_vm_writev, pid, iov, fv_to_iovec(from, count, iov), &there);
    return fv_memory_result(pid, ret, to);
}

/* Addresses in `from' are this process', and were translated by their keys. */
int fv_memory_write(pid_t pid, uint64_t to, const struct ibv_sge *from, unsigned count)
{
    size_t done = 0;
    unsigned i;

    if (pid == fv.pid) {
        for (i = 0; i < count; i++) {
            memmove((char *)(uintptr_t)to + done, (void *)(uintptr_t)from[i].addr,
                    from[i].length);
            done += from[i].length;
        }
        return 0;
    }

    return fv_memory_write_late(pid, to, from, count);
}

int fv_memory_read(pid_t pid, uint64_t from, const struct ibv_sge *to, unsigned count)
{
    struct iovec iov[64], there;
    size_t done = 0;
    ssize_t ret;
    unsigned i;

    if (pid == fv.pid) {
        for (i = 0; i < count; i++) {
            memmove((void *)(uintptr_t)to[i].addr, (char *)(uintptr_t)from + done,
                    to[i].length);
            done += to[i].length;
        }
        return 0;
    }

    there.iov_base = (void *)(uintptr_t)from;
    there.iov_len = fv_sge_length(to, count);
    ret = fv_vm(process_vm_readv, pid, iov, fv_to_iovec(to, count, iov), &there);
    return fv_memory_result(pid, ret, from);
}

/* Pipes of another process open by name in /proc; a message is far below PIPE_BUF. */
void fv_notify(pid_t pid, int fd, const void *msg, size_t length)
{
    char path[64];
    ssize_t ret;
    int there;

    if (pid == fv.pid) {
        ret = write(fd, msg, length);
        if (ret != (ssize_t)length) {
            fv_abort("an event queue is full: events are not read");
        }
        return;
    }

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)fv_thread_of(pid), fd);
    there = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (there >= 0) {
        ret = write(there, msg, length);
        (void)ret; /* dead or full: no process is left to notify */
        close(there);
    }
}

static void fv_wire_format(fv_wire_t *wire, uint64_t size)
{
    pthread_mutexattr_t attr;

    wire->size = size;
    wire->arena_next = (sizeof(*wire) + 4095) & ~UINT64_C(4095);
    wire->next_pd = 1;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&wire->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    wire->magic = FV_MAGIC;
}

/* Most of it is never touched, but valgrind looks for pointers in all of it whenever a
 * process ends. */
static uint64_t fv_wire_size(void)
{
    uint64_t arena = FV_ARENA_SIZE;

    return sizeof(fv_wire_t) +
           ((getenv("MKV_UNDER_VALGRIND") != NULL) ? arena / 32 : arena);
}

static fv_wire_t *fv_wire_map(const char *path)
{
    const uint64_t size = fv_wire_size();
    int flags = MAP_NORESERVE, fd = -1;
    struct stat st;
    fv_wire_t *wire;

    if (path == NULL) {
        flags |= MAP_PRIVATE | MAP_ANONYMOUS;
    } else {
        flags |= MAP_SHARED;
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if ((fd < 0) || (flock(fd, LOCK_EX) != 0) || (fstat(fd, &st) != 0) ||
            ((st.st_size == 0) && (ftruncate(fd, (off_t)size) != 0))) {
            fv_abort("FAKE_VERBS_WIRE=%s: %s", path, strerror(errno));
        }
    }

    wire = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (wire == MAP_FAILED) {
        fv_abort("mapping the wire (%llu bytes) failed: %s", (unsigned long long)size,
                 strerror(errno));
    }

    if (wire->magic == 0) {
        fv_wire_format(wire, size);
    } else if ((wire->magic != FV_MAGIC) || (wire->size != size)) {
        fv_abort("FAKE_VERBS_WIRE=%s is not a wire of this version", path);
    }

    if (fd >= 0) {
        flock(fd, LOCK_UN); /* the mapping would keep it */
        close(fd);
    }

    return wire;
}

/* Remove the entries of dead processes; no process uses them. */
static void fv_sweep(void)
{
    fv_wire_t *wire = fv.wire;
    unsigned i;

    fv_lock();
    for (i = 0; i < FV_MAX_QPS; i++) {
        if (wire->qp[i].used && !fv_alive(wire->qp[i].pid)) {
            wire->qp[i].used = false;
        }
    }
    for (i = 0; i < FV_MAX_CONTEXTS; i++) {
        if (wire->context[i].used && !fv_alive(wire->context[i].pid)) {
            wire->context[i].used = false;
        }
    }
    for (i = 0; i < FV_MAX_CQS; i++) {
        if (wire->cq[i].used && !fv_alive(wire->cq[i].pid)) {
            wire->cq[i].used = false;
        }
    }
    for (i = 0; i < FV_MAX_SRQS; i++) {
        if (wire->srq[i].used && !fv_alive(wire->srq[i].pid)) {
            wire->srq[i].used = false;
        }
    }
    for (i = 0; i < FV_MAX_MRS; i++) {
        if (wire->mr[i].used && !fv_alive(wire->mr[i].pid)) {
            wire->mr[i].used = false;
        }
    }
    fv_unlock();
}

static void fv_after_fork(void)
{
    fv.pid = getpid();
}

static void fv_init_once(void)
{
    const char *path = getenv("FAKE_VERBS_WIRE");
    const char *mode = getenv("FAKE_VERBS_MODE");
    const char *peermem = getenv("FAKE_VERBS_PEERMEM");

    fv.pid = getpid();
    if (!fv_follows_forks) {
        pthread_atfork(NULL, NULL, fv_after_fork);
        fv_follows_forks = true;
    }
    fv.shared = (path != NULL) && (path[0] != '\0');
    fv.null_mode = (mode != NULL) && (strcmp(mode, "null") == 0);
    fv.late_mode = (mode != NULL) && (strcmp(mode, "late") == 0);
    fv.has_other_pages = (mode != NULL) && (strcmp(mode, "other-pages") == 0);
    fv.has_late_writes = (mode != NULL) && (strcmp(mode, "late-write") == 0);
    fv.wrong_mode = (mode != NULL) && (strcmp(mode, "wrong-byte") == 0);
    fv.num_strays =
        ((mode != NULL) && (strcmp(mode, "stray-byte") == 0)) ? FV_STRAYS : 0;
    fv.no_peermem = (peermem != NULL) && (strcmp(peermem, "n") == 0);
    if (fv.shared) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    }

    fv.wire = fv_wire_map(fv.shared ? path : NULL);
    fv_devices_init();
    fv_faults_init();
    if (fv.shared) {
        fv_sweep();
    }
}

void fv_init(void)
{
    pthread_once(&fv_once, fv_init_once);
}

void fake_verbs_restart(void)
{
    static const pthread_once_t not_yet = PTHREAD_ONCE_INIT;
    const fake_verbs_objects_t *o = &fv.objects;

    fake_verbs_reset(); /* the faults, too, of which other files know */
    if (o->contexts + o->pds + o->mrs + o->cqs + o->channels + o->srqs + o->ahs > 0) {
        fv_abort("fake_verbs_restart() with %u contexts open", o->contexts);
    }
    if (fv.thread_pid == fv.pid) {
        fv_abort("fake_verbs_restart() while work is tried again");
    }

    fv_gpu_forget();
    munmap(fv.wire, fv.wire->size);
    memset(&fv, 0, sizeof(fv));
    fv_once = not_yet;
}
