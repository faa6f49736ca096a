/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory that goes to other processes.
 *
 * A dma-buf is a duplicate of the memfd. The IPC ioctls are those of the driver that
 * AMD ships beside ROCm; mainline has none. Their handle names a descriptor of the
 * exporter and its inode, so that one whose number was given to another file is not
 * taken for it.
 */

#include "kfd_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KFD_SHARE_MAGIC 0x6b660000u

/* Layout of kfd_ioctl_ipc_export_handle_args and _import_ of AMD's kfd_ioctl.h. */
typedef struct kfd_ipc_export {
    uint64_t handle;
    uint32_t share[4];
    uint32_t gpu_id;
    uint32_t flags;
} kfd_ipc_export_t;

typedef struct kfd_ipc_import {
    uint64_t handle;
    uint64_t va;
    uint64_t mmap_offset;
    uint32_t share[4];
    uint32_t gpu_id;
    uint32_t flags;
} kfd_ipc_import_t;

int kfd_share_dmabuf_info(void *arg)
{
    struct kfd_ioctl_get_dmabuf_info_args *a = arg;
    uint32_t gpu_id, flags;
    uint64_t size;

    if (!kfd_bo_identify((int)a->dmabuf_fd, &gpu_id, &flags, &size)) {
        return kfd_error(EINVAL);
    }
    a->size = size;
    a->gpu_id = gpu_id;
    a->flags = flags;
    a->metadata_size = 0;
    return 0;
}

int kfd_share_import(void *arg)
{
    struct kfd_ioctl_import_dmabuf_args *a = arg;
    int gpu = kfd_gpu_number(a->gpu_id);
    uint64_t handle;

    if ((gpu < 0) || kfd_bo_import((int)a->dmabuf_fd, gpu, a->va_addr, &handle)) {
        return kfd_error(EINVAL);
    }
    a->handle = handle;
    return 0;
}

int kfd_share_export(void *arg)
{
    struct kfd_ioctl_export_dmabuf_args *a = arg;
    kfd_bo_t *bo = kfd_bo_find(a->handle);
    int fd;

    if ((bo == NULL) || (bo->fd < 0)) {
        return kfd_error(EINVAL);
    }
    fd = fcntl(bo->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
        return -1;
    }
    a->dmabuf_fd = (uint32_t)fd;
    return 0;
}

int kfd_share_ipc_export(void *arg)
{
    kfd_ipc_export_t *a = arg;
    kfd_bo_t *bo = kfd_bo_find(a->handle);
    struct stat st;

    if ((bo == NULL) || (bo->fd < 0) || fstat(bo->fd, &st)) {
        return kfd_error(EINVAL);
    }
    a->share[0] = KFD_SHARE_MAGIC | (a->flags & 0xffff);
    a->share[1] = (uint32_t)getpid();
    a->share[2] = (uint32_t)bo->fd;
    a->share[3] = (uint32_t)st.st_ino;
    return 0;
}

/* Open a descriptor of an exporter: by one of its threads, as /proc/PID/fd is empty
 * once the first one has ended. */
static int kfd_share_open(uint32_t pid, uint32_t number)
{
    const struct dirent *entry;
    char path[64];
    int fd = -1;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    dir = opendir(path);
    while ((dir != NULL) && (fd < 0) && ((entry = readdir(dir)) != NULL)) {
        snprintf(path, sizeof(path), "/proc/%u/task/%.10s/fd/%u", pid, entry->d_name,
                 number);
        fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return fd;
}

int kfd_share_ipc_import(void *arg)
{
    kfd_ipc_import_t *a = arg;
    int gpu = kfd_gpu_number(a->gpu_id), fd, rc;
    struct stat st;

    if ((gpu < 0) || ((a->share[0] & 0xffff0000u) != KFD_SHARE_MAGIC)) {
        return kfd_error(EINVAL);
    }
    fd = kfd_share_open(a->share[1], a->share[2]);
    if (fd < 0) {
        kfd_log(1, "IPC_IMPORT_HANDLE: process %u has no descriptor %u", a->share[1],
                a->share[2]);
        return kfd_error(EINVAL);
    }
    if (fstat(fd, &st) || ((uint32_t)st.st_ino != a->share[3])) {
        kfd_log(1,
                "IPC_IMPORT_HANDLE: descriptor %u of process %u is another file by now",
                a->share[2], a->share[1]);
        syscall(SYS_close, fd);
        return kfd_error(EINVAL);
    }
    rc = kfd_bo_import(fd, gpu, a->va, &a->handle);
    a->flags = a->share[0] & 0xffff;
    a->mmap_offset = kfd_mmap_offset(a->handle);
    syscall(SYS_close, fd);
    return rc;
}
