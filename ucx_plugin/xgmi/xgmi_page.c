/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "xgmi/xgmi_page.h"

#include "base/muct_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MUCT_XGMI_PAGE_MAGIC UINT64_C(0x32656761702d786d) /* "mx-page2" */
#define MUCT_XGMI_PAGE_PREFIX "ucx-mori."


void muct_xgmi_page_path(const char *dir, uint64_t owner, const char *suffix,
                         char *path, size_t size)
{
    snprintf(path, size, "%s/" MUCT_XGMI_PAGE_PREFIX "%016" PRIx64 "%s", dir, owner,
             suffix);
}

/* Whether the owner of the page still holds its lock. */
bool muct_xgmi_page_is_locked(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return (fcntl(fd, F_GETLK, &lock) == 0) && (lock.l_type != F_UNLCK);
}

/* Pages of processes that were killed stay behind; nobody holds their locks. */
void muct_xgmi_page_sweep(const char *dir)
{
    size_t prefix_length = strlen(MUCT_XGMI_PAGE_PREFIX);
    char path[512];
    struct dirent *entry;
    DIR *handle;
    int fd;

    handle = opendir(dir);
    if (handle == NULL) {
        return;
    }

    while ((entry = readdir(handle)) != NULL) {
        if (strncmp(entry->d_name, MUCT_XGMI_PAGE_PREFIX, prefix_length) ||
            (strlen(entry->d_name) != prefix_length + 16)) {
            continue;
        }

        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0) {
            continue;
        }
        if (!muct_xgmi_page_is_locked(fd)) {
            muct_debug("removing %s: its process is gone", path);
            unlink(path);
        }
        close(fd);
    }

    closedir(handle);
}

ucs_status_t muct_xgmi_page_identify(const char *dir, muct_xgmi_self_t *self)
{
    struct stat st;

    do {
        if (getrandom(&self->owner, sizeof(self->owner), 0) !=
            (ssize_t)sizeof(self->owner)) {
            muct_error("getrandom(%zu) failed: %m", sizeof(self->owner));
            return UCS_ERR_IO_ERROR;
        }
    } while (self->owner == 0);

    if (stat(dir, &st) != 0) {
        muct_error("stat(%s) failed: %m", dir);
        return UCS_ERR_IO_ERROR;
    }
    self->shm_fs = st.st_dev;
    self->pid = (uint32_t)getpid();
    self->pid_namespace = 0;
    if (stat("/proc/self/ns/pid", &st) == 0) {
        self->pid_namespace = st.st_ino;
    }

    return UCS_OK;
}

/* Room for a page, locked for the life of this process. */
static ucs_status_t muct_xgmi_page_reserve(int fd, const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    /* now, or the first write when the file system is full is a SIGBUS */
    errno = posix_fallocate(fd, 0, sizeof(muct_xgmi_page_t));
    if (errno != 0) {
        muct_error("reserving %zu bytes of %s failed: %m", sizeof(muct_xgmi_page_t),
                   path);
        return UCS_ERR_IO_ERROR;
    }
    if (fcntl(fd, F_SETLK, &lock) != 0) {
        muct_error("locking %s failed: %m", path);
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

/* The name appears only when the page is locked and filled. */
ucs_status_t muct_xgmi_page_create(const char *dir, const muct_xgmi_self_t *self,
                                   int *fd_p, muct_xgmi_page_t **page_p)
{
    char path[512], final_path[512];
    muct_xgmi_page_t *page;
    int fd;

    muct_xgmi_page_path(dir, self->owner, ".new", path, sizeof(path));
    muct_xgmi_page_path(dir, self->owner, "", final_path, sizeof(final_path));
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        muct_error("open(%s) failed: %m", path);
        return UCS_ERR_IO_ERROR;
    }
    if (muct_xgmi_page_reserve(fd, path) != UCS_OK) {
        goto err_close;
    }

    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        muct_error("mmap(%s, %zu bytes) failed: %m", path, sizeof(*page));
        goto err_close;
    }

    page->magic = MUCT_XGMI_PAGE_MAGIC;
    page->owner = self->owner;
    page->pid_namespace = self->pid_namespace;
    page->pid = self->pid;
    if (rename(path, final_path) != 0) {
        muct_error("rename(%s) failed: %m", path);
        goto err_unmap;
    }

    *fd_p = fd;
    *page_p = page;
    return UCS_OK;

err_unmap:
    munmap(page, sizeof(*page));
err_close:
    unlink(path);
    close(fd);
    return UCS_ERR_IO_ERROR;
}

ucs_status_t muct_xgmi_page_map(const char *dir, uint64_t owner, int *fd_p,
                                muct_xgmi_page_t **page_p)
{
    muct_xgmi_page_t *page;
    struct stat st;
    char path[512];
    int fd;

    muct_xgmi_page_path(dir, owner, "", path, sizeof(path));
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        muct_debug("open(%s) failed: %m", path);
        return UCS_ERR_UNREACHABLE;
    }

    if ((fstat(fd, &st) != 0) || (st.st_size != (off_t)sizeof(*page))) {
        muct_debug("%s has %zu bytes, expected %zu", path, (size_t)st.st_size,
                   sizeof(*page));
        goto err_close;
    }

    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        muct_debug("mmap(%s, %zu bytes) failed: %m", path, sizeof(*page));
        goto err_close;
    }

    if ((page->magic != MUCT_XGMI_PAGE_MAGIC) || (page->owner != owner)) {
        muct_debug("%s is not the control page of 0x%" PRIx64, path, owner);
        munmap(page, sizeof(*page));
        goto err_close;
    }

    *fd_p = fd;
    *page_p = page;
    return UCS_OK;

err_close:
    close(fd);
    return UCS_ERR_UNREACHABLE;
}
