/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * VRAM that all processes hold: a file beside the topology with a row for each process.
 *
 * A row belongs to the process whose number and start time it has. Rows of processes
 * that were killed are taken over, so that their memory is free again, as it is when
 * amdkfd releases a process. The file's lock guards all rows.
 */

#include "kfd_impl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KFD_MAX_PROCESSES 512

typedef struct kfd_row {
    uint64_t start; /* 0: nobody's */
    int64_t pid;
    uint64_t bytes[KFD_MAX_GPUS];
} kfd_row_t;

static struct {
    pthread_mutex_t lock;
    int fd;
    kfd_row_t *rows;
    kfd_row_t *own;
    pid_t pid; /* process whose row own is: a fork starts with nothing */
} kfd_usage = {PTHREAD_MUTEX_INITIALIZER, -1, NULL, NULL, 0};

/* When a process began, in ticks; 0: there is none. */
static uint64_t kfd_start_of(int64_t pid)
{
    unsigned long long start = 0;
    char text[1024], *p;
    ssize_t length;
    int fd;

    snprintf(text, sizeof(text), "/proc/%lld/stat", (long long)pid);
    fd = (int)syscall(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    length = read(fd, text, sizeof(text) - 1);
    syscall(SYS_close, fd);
    text[(length > 0) ? length : 0] = '\0';
    p = strrchr(text, ')'); /* the name may hold anything */
    if ((p == NULL) ||
        (sscanf(p,
                ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                "%*d %*d %*d %llu",
                &start) != 1)) {
        return 0;
    }
    return start;
}

static void kfd_usage_open(void)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/usage", kfd_config()->dir);
    kfd_usage.fd =
        (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if ((kfd_usage.fd < 0) ||
        ftruncate(kfd_usage.fd, sizeof(kfd_row_t) * KFD_MAX_PROCESSES)) {
        kfd_die("cannot open %s", path);
    }
    kfd_usage.rows = kfd_raw_mmap(NULL, sizeof(kfd_row_t) * KFD_MAX_PROCESSES,
                                  PROT_READ | PROT_WRITE, MAP_SHARED, kfd_usage.fd, 0);
    if (kfd_usage.rows == MAP_FAILED) {
        kfd_die("cannot map %s", path);
    }
}

/* Take a row that is free or whose process is gone. */
static void kfd_usage_take_row(void)
{
    kfd_row_t *row;
    unsigned i;

    for (i = 0; i < KFD_MAX_PROCESSES; ++i) {
        row = &kfd_usage.rows[i];
        if ((row->start == 0) || (kfd_start_of(row->pid) != row->start)) {
            memset(row, 0, sizeof(*row));
            row->pid = getpid();
            row->start = kfd_start_of(row->pid);
            kfd_usage.own = row;
            kfd_usage.pid = getpid();
            return;
        }
    }
    kfd_die("more than %d processes use the GPUs", KFD_MAX_PROCESSES);
}

static void kfd_usage_lock(void)
{
    pthread_mutex_lock(&kfd_usage.lock);
    if (kfd_usage.rows == NULL) {
        kfd_usage_open();
    }
    flock(kfd_usage.fd, LOCK_EX);
    if (kfd_usage.pid != getpid()) {
        kfd_usage_take_row();
    }
}

static void kfd_usage_unlock(void)
{
    flock(kfd_usage.fd, LOCK_UN);
    pthread_mutex_unlock(&kfd_usage.lock);
}

/* Free bytes of a GPU; the lock is held. */
static uint64_t kfd_usage_left(int gpu)
{
    const kfd_config_t *config = kfd_config();
    uint64_t taken = config->vram_taken;
    kfd_row_t *row;
    unsigned i;

    for (i = 0; i < KFD_MAX_PROCESSES; ++i) {
        row = &kfd_usage.rows[i];
        if (row->bytes[gpu] == 0) {
            continue;
        }
        if ((row != kfd_usage.own) && (kfd_start_of(row->pid) != row->start)) {
            memset(row, 0, sizeof(*row));
            continue;
        }
        taken += row->bytes[gpu];
    }
    return (taken < config->vram) ? config->vram - taken : 0;
}

bool kfd_usage_take(int gpu, uint64_t bytes)
{
    bool fits;

    kfd_usage_lock();
    fits = bytes <= kfd_usage_left(gpu);
    if (fits) {
        kfd_usage.own->bytes[gpu] += bytes;
    }
    kfd_usage_unlock();
    return fits;
}

void kfd_usage_give(int gpu, uint64_t bytes)
{
    kfd_usage_lock();
    if (kfd_usage.own->bytes[gpu] >= bytes) { /* a fork frees its parent's memory */
        kfd_usage.own->bytes[gpu] -= bytes;
    }
    kfd_usage_unlock();
}

uint64_t kfd_usage_free(int gpu)
{
    uint64_t left;

    kfd_usage_lock();
    left = kfd_usage_left(gpu);
    kfd_usage_unlock();
    return left;
}
