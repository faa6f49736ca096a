/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Calls of the C library that are interposed: those by which libhsakmt and libdrm come
 * to the driver. Paths and descriptors that are not the driver's go to the kernel.
 *
 * Descriptors of devices belong to the process that has opened them: amdkfd refuses
 * those that a fork has inherited (kfd_ioctl(): "using KFD open in wrong process").
 */

#include "kfd_impl.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KFD_MAX_FDS 65536
#define KFD_EXPORT __attribute__((visibility("default")))

typedef enum kfd_fd_kind { KFD_FD_OTHER, KFD_FD_KFD, KFD_FD_RENDER } kfd_fd_kind_t;

static struct {
    unsigned char kind;
    unsigned char gpu;
} kfd_fds[KFD_MAX_FDS];

static kfd_fd_kind_t kfd_kind(int fd)
{
    return ((fd >= 0) && (fd < KFD_MAX_FDS)) ? kfd_fds[fd].kind : KFD_FD_OTHER;
}

bool kfd_is_render(int fd, int *gpu)
{
    if (kfd_kind(fd) != KFD_FD_RENDER) {
        return false;
    }
    *gpu = kfd_fds[fd].gpu;
    return true;
}

/* Children of a fork have the table and no threads of the queues. */
static void kfd_in_child(void)
{
    unsigned fd;

    kfd_queue_forked();
    for (fd = 0; fd < KFD_MAX_FDS; ++fd) {
        kfd_fds[fd].kind = KFD_FD_OTHER;
    }
}

static void kfd_watch_forks(void)
{
    pthread_atfork(NULL, NULL, kfd_in_child);
}

/* The device that a path names; -1: none of ours. */
static int kfd_device_of(const char *path, int *gpu)
{
    int minor, end = 0;

    if (strcmp(path, "/dev/kfd") == 0) {
        return KFD_FD_KFD;
    }
    if ((sscanf(path, "/dev/dri/renderD%d%n", &minor, &end) == 1) &&
        (path[end] == '\0') && (minor >= KFD_FIRST_MINOR) &&
        (minor < KFD_FIRST_MINOR + KFD_MAX_GPUS)) {
        *gpu = minor - KFD_FIRST_MINOR;
        return KFD_FD_RENDER;
    }
    return -1;
}

static int kfd_open_device(const char *path, int kind, int gpu)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int fd;

    pthread_once(&once, kfd_watch_forks);
    if (gpu >= (int)kfd_config()->num_gpus) {
        return kfd_error(ENOENT);
    }
    fd = memfd_create(path, MFD_CLOEXEC);
    if (fd >= KFD_MAX_FDS) {
        syscall(SYS_close, fd);
        return kfd_error(EMFILE);
    }
    if (fd >= 0) {
        kfd_fds[fd].gpu = (unsigned char)gpu;
        kfd_fds[fd].kind = (unsigned char)kind;
        kfd_log(2, "open %s = %d", path, fd);
    }
    return fd;
}

static int kfd_open(int dirfd, const char *path, int flags, va_list ap)
{
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(ap, mode_t) : 0;
    char buffer[512];
    int kind, gpu = 0;

    if ((path != NULL) && (path[0] == '/')) {
        kind = kfd_device_of(path, &gpu);
        if (kind > 0) {
            return kfd_open_device(path, kind, gpu);
        }
        if (strcmp(path, "/proc/self/maps") == 0) {
            return kfd_maps_open();
        }
    }
    return (int)syscall(SYS_openat, dirfd,
                        kfd_topology_path(path, buffer, sizeof(buffer)), flags, mode);
}

KFD_EXPORT int open(const char *path, int flags, ...)
{
    va_list ap;
    int fd;

    va_start(ap, flags);
    fd = kfd_open(AT_FDCWD, path, flags, ap);
    va_end(ap);
    return fd;
}

KFD_EXPORT int open64(const char *path, int flags, ...)
{
    va_list ap;
    int fd;

    va_start(ap, flags);
    fd = kfd_open(AT_FDCWD, path, flags, ap);
    va_end(ap);
    return fd;
}

KFD_EXPORT int openat(int dirfd, const char *path, int flags, ...)
{
    va_list ap;
    int fd;

    va_start(ap, flags);
    fd = kfd_open(dirfd, path, flags, ap);
    va_end(ap);
    return fd;
}

KFD_EXPORT int openat64(int dirfd, const char *path, int flags, ...)
{
    va_list ap;
    int fd;

    va_start(ap, flags);
    fd = kfd_open(dirfd, path, flags, ap);
    va_end(ap);
    return fd;
}

/* The C library's own function; the address of a function is no object pointer in C. */
#define KFD_NEXT(_pointer, _name)                                                      \
    do {                                                                               \
        void *symbol = dlsym(RTLD_NEXT, _name);                                        \
                                                                                       \
        memcpy(&(_pointer), &symbol, sizeof(symbol));                                  \
    } while (0)

KFD_EXPORT FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    char buffer[512];

    if (strcmp(path, "/proc/self/maps") == 0) {
        return fdopen(kfd_maps_open(), mode);
    }
    KFD_NEXT(next, "fopen");
    return next(kfd_topology_path(path, buffer, sizeof(buffer)), mode);
}

KFD_EXPORT FILE *fopen64(const char *path, const char *mode)
{
    return fopen(path, mode);
}

KFD_EXPORT DIR *opendir(const char *path)
{
    DIR *(*next)(const char *);
    char buffer[512];

    KFD_NEXT(next, "opendir");
    return next(kfd_topology_path(path, buffer, sizeof(buffer)));
}

KFD_EXPORT int access(const char *path, int mode)
{
    char buffer[512];
    int gpu = 0;

    if (kfd_device_of(path, &gpu) > 0) {
        return (gpu < (int)kfd_config()->num_gpus) ? 0 : kfd_error(ENOENT);
    }
    return (int)syscall(SYS_faccessat, AT_FDCWD,
                        kfd_topology_path(path, buffer, sizeof(buffer)), mode);
}

KFD_EXPORT int close(int fd)
{
    if (kfd_kind(fd) != KFD_FD_OTHER) {
        kfd_fds[fd].kind = KFD_FD_OTHER;
    }
    return (int)syscall(SYS_close, fd);
}

KFD_EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    void *arg;

    va_start(ap, request);
    arg = va_arg(ap, void *);
    va_end(ap);
    switch (kfd_kind(fd)) {
    case KFD_FD_KFD:
        return kfd_ioctl(request, arg);
    case KFD_FD_RENDER:
        kfd_refuse("ioctl %#lx of a render node is not played", request);
        return kfd_error(ENOTTY);
    case KFD_FD_OTHER:
        break;
    }
    return (int)syscall(SYS_ioctl, fd, request, arg);
}

void *kfd_next_mmap(void *address, size_t length, int prot, int flags, int fd,
                    off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);

    if (next == NULL) {
        KFD_NEXT(next, "mmap");
    }
    return next(address, length, prot, flags, fd, offset);
}

KFD_EXPORT void *mmap(void *address, size_t length, int prot, int flags, int fd,
                      off_t offset)
{
    if ((flags & MAP_ANONYMOUS) || (kfd_kind(fd) == KFD_FD_OTHER)) {
        return kfd_next_mmap(address, length, prot, flags, fd, offset);
    }
    return kfd_memory_mmap(address, length, flags, offset);
}

KFD_EXPORT void *mmap64(void *address, size_t length, int prot, int flags, int fd,
                        off_t offset)
{
    return mmap(address, length, prot, flags, fd, offset);
}
