/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "xgmi/peer/xgmi_page.h"

#include "base/muct_log.h"
#include "base/muct_shm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MUCT_XGMI_PAGE_MAGIC UINT64_C(0x33656761702d786d) /* "mx-page3" */
#define MUCT_XGMI_PAGE_PREFIX "ucx-mori."

/* Bytes of a page with its first slots; the file is longer, and sparse */
#define MUCT_XGMI_PAGE_FIRST_SIZE \
    offsetof(muct_xgmi_page_t, slots[MUCT_XGMI_PAGE_SLOTS])


void muct_xgmi_page_path(const char *dir, uint64_t owner, const char *suffix,
                         char *path, size_t size)
{
    snprintf(path, size, "%s/" MUCT_XGMI_PAGE_PREFIX "%016" PRIx64 "%s", dir, owner,
             suffix);
}

void muct_xgmi_page_iface_path(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id,
                               const char *suffix, char *path, size_t size)
{
    snprintf(path, size,
             "%s/" MUCT_XGMI_PAGE_PREFIX "%016" PRIx64 ".%" PRIu32 ".%" PRIu32 "%s",
             dir, owner, id.slot, id.generation, suffix);
}

/*
 * Locks of open files, not of processes: a process may have two copies of this code,
 * for two UCX, and a lock of the process would not be seen by the other copy and be
 * dropped when that closes the file. Where the kernel has none (gVisor), locks of
 * processes serve; both kinds see each other.
 */
static int muct_xgmi_page_fcntl(int fd, int command, int process_command,
                                struct flock *lock)
{
    int ret = fcntl(fd, command, lock);

    return ((ret == 0) || (errno != EINVAL)) ? ret : fcntl(fd, process_command, lock);
}

bool muct_xgmi_page_is_locked(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return (muct_xgmi_page_fcntl(fd, F_OFD_GETLK, F_GETLK, &lock) != 0) ||
           (lock.l_type != F_UNLCK);
}

/* Length of the name of a page, whose last digits are its owner */
#define MUCT_XGMI_PAGE_DIGITS 16
#define MUCT_XGMI_PAGE_NAME (sizeof(MUCT_XGMI_PAGE_PREFIX) - 1 + MUCT_XGMI_PAGE_DIGITS)

static bool muct_xgmi_page_ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), suffix_length = strlen(suffix);

    return (length > suffix_length) && !strcmp(name + length - suffix_length, suffix);
}

static bool muct_xgmi_page_has_owner(const char *name)
{
    const size_t prefix = strlen(MUCT_XGMI_PAGE_PREFIX);

    return !strncmp(name, MUCT_XGMI_PAGE_PREFIX, prefix) &&
           (strspn(name + prefix, "0123456789abcdef") == MUCT_XGMI_PAGE_DIGITS);
}

/* A page that is being made, or was by one that was killed */
static bool muct_xgmi_page_is_new(const char *name)
{
    return !strcmp(name + MUCT_XGMI_PAGE_NAME, MUCT_XGMI_PAGE_NEW_SUFFIX);
}

/* A page, or a file that is there as long as the page is */
static bool muct_xgmi_page_is_ours(const char *name)
{
    return muct_xgmi_page_has_owner(name) &&
           ((strlen(name) == MUCT_XGMI_PAGE_NAME) || muct_xgmi_page_is_new(name) ||
            muct_xgmi_page_ends_with(name, MUCT_XGMI_BOX_SUFFIX) ||
            muct_xgmi_page_ends_with(name, MUCT_XGMI_BELL_SUFFIX));
}

/*
 * Lock a page that is being created. The owner takes this lock to create the page, and
 * a process that sweeps old files takes it to remove the page; the other one then
 * fails.
 *
 * @return UCS_ERR_BUSY: another process holds the lock, or held it and removed the
 * page.
 */
static ucs_status_t muct_xgmi_page_take(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat st;

    if (muct_xgmi_page_fcntl(fd, F_OFD_SETLK, F_SETLK, &lock) != 0) {
        return ((errno == EAGAIN) || (errno == EACCES)) ? UCS_ERR_BUSY
                                                        : UCS_ERR_IO_ERROR;
    }
    return ((fstat(fd, &st) == 0) && (st.st_nlink > 0)) ? UCS_OK : UCS_ERR_BUSY;
}

/* @return Whether the process to which a file belongs is known to be gone. */
static bool muct_xgmi_page_is_left(const char *dir, const char *name)
{
    char path[512];
    bool is_left;
    int fd;

    snprintf(path, sizeof(path), "%s/%.*s", dir, (int)MUCT_XGMI_PAGE_NAME, name);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return errno == ENOENT;
    }

    is_left = !muct_xgmi_page_is_locked(fd);
    close(fd);
    return is_left;
}

/* Its lock is held while it goes: until then it may become its owner's. */
static void muct_xgmi_page_remove_new(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0) {
        return;
    }
    if (muct_xgmi_page_take(fd) == UCS_OK) {
        unlink(path);
    }
    close(fd);
}

/*
 * Remove files of processes that were killed: their pages are not locked. Files of
 * living processes appear and vanish during this scan. A page that vanished may belong
 * to a process that ends and removes its files itself; a page that does not exist yet
 * is being created. The lock of the page decides.
 */
void muct_xgmi_page_sweep(const char *dir)
{
    char path[512];
    struct dirent *entry;
    DIR *handle;

    handle = opendir(dir);
    if (handle == NULL) {
        return;
    }

    while ((entry = readdir(handle)) != NULL) {
        if (!muct_xgmi_page_is_ours(entry->d_name) ||
            !muct_xgmi_page_is_left(dir, entry->d_name)) {
            continue;
        }

        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        muct_debug("removing %s: its process is gone", path);
        if (muct_xgmi_page_is_new(entry->d_name)) {
            muct_xgmi_page_remove_new(path);
        } else {
            unlink(path);
        }
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
    self->shm_dir = ((uint64_t)st.st_dev << 40) ^ (uint64_t)st.st_ino;
    self->pid = (uint32_t)getpid();
    self->pid_namespace = 0;
    if (stat("/proc/self/ns/pid", &st) == 0) {
        self->pid_namespace = st.st_ino;
    }

    return UCS_OK;
}

uint64_t muct_xgmi_page_file_limit(void)
{
    struct rlimit limit;

    return ((getrlimit(RLIMIT_FSIZE, &limit) == 0) && (limit.rlim_cur != RLIM_INFINITY))
               ? (uint64_t)limit.rlim_cur
               : UINT64_MAX;
}

bool muct_xgmi_page_add_slots(int fd, muct_xgmi_page_t *page)
{
    const uint32_t num_slots = atomic_load(&page->num_slots);
    const off_t offset = (off_t)(offsetof(muct_xgmi_page_t, slots) +
                                 (num_slots * sizeof(page->slots[0])));

    if ((num_slots == MUCT_XGMI_MAX_SLOTS) ||
        !muct_shm_reserve(fd, offset,
                          (off_t)(MUCT_XGMI_PAGE_SLOTS * sizeof(page->slots[0])))) {
        return false;
    }

    atomic_store(&page->num_slots, num_slots + MUCT_XGMI_PAGE_SLOTS);
    return true;
}

/* Room for a page, and its mapping, which keeps a file open of its own. */
static muct_xgmi_page_t *muct_xgmi_page_reserve(const char *path)
{
    muct_xgmi_page_t *page = MAP_FAILED;
    int fd;

    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        muct_error("open(%s) failed: %m. %s", path, muct_xgmi_page_remedy(errno));
        return NULL;
    }

    if (!muct_shm_reserve(fd, 0, MUCT_XGMI_PAGE_FIRST_SIZE) ||
        (ftruncate(fd, sizeof(*page)) != 0)) {
        muct_error("reserving %zu bytes of %s failed: %m. %s",
                   MUCT_XGMI_PAGE_FIRST_SIZE, path, muct_xgmi_page_remedy(errno));
    } else {
        page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED) {
            muct_error("mmap(%s, %zu bytes) failed: %m", path, sizeof(*page));
        }
    }
    close(fd);
    if (page == MAP_FAILED) {
        unlink(path);
        return NULL;
    }
    return page;
}

/*
 * The lock belongs to an open file description that only this descriptor refers to: a
 * child's copy of the mapping does not keep it.
 *
 * @return UCS_ERR_BUSY: another process removes the page.
 */
static ucs_status_t muct_xgmi_page_lock(const char *path, int *fd_p)
{
    ucs_status_t status;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0) {
        if (errno == ENOENT) {
            return UCS_ERR_BUSY;
        }
        muct_error("open(%s) failed: %m", path);
        return UCS_ERR_IO_ERROR;
    }

    status = muct_xgmi_page_take(fd);
    if (status == UCS_OK) {
        *fd_p = fd;
        return UCS_OK;
    }
    if (status != UCS_ERR_BUSY) {
        muct_error("locking %s failed: %m", path);
    }
    close(fd);
    return status;
}

/* The name appears only when the page is locked and filled. */
ucs_status_t muct_xgmi_page_create(const char *dir, const muct_xgmi_self_t *self,
                                   int *fd_p, muct_xgmi_page_t **page_p)
{
    char path[512], final_path[512];
    muct_xgmi_page_t *page;
    ucs_status_t status;
    int fd;

    if (sizeof(*page) > muct_xgmi_page_file_limit()) {
        muct_error("a control page in %s has %zu bytes, and files of this process may "
                   "have %" PRIu64 " (ulimit -f)",
                   dir, sizeof(*page), muct_xgmi_page_file_limit());
        return UCS_ERR_IO_ERROR;
    }

    muct_xgmi_page_path(dir, self->owner, MUCT_XGMI_PAGE_NEW_SUFFIX, path,
                        sizeof(path));
    muct_xgmi_page_path(dir, self->owner, "", final_path, sizeof(final_path));
    page = muct_xgmi_page_reserve(path);
    if (page == NULL) {
        return UCS_ERR_IO_ERROR;
    }
    status = muct_xgmi_page_lock(path, &fd);
    if (status != UCS_OK) {
        goto err_unmap;
    }

    page->magic = MUCT_XGMI_PAGE_MAGIC;
    page->owner = self->owner;
    page->pid_namespace = self->pid_namespace;
    page->pid = self->pid;
    atomic_store(&page->num_slots, MUCT_XGMI_PAGE_SLOTS);
    if (rename(path, final_path) != 0) {
        muct_error("rename(%s) failed: %m", path);
        status = UCS_ERR_IO_ERROR;
        goto err_close;
    }

    *fd_p = fd;
    *page_p = page;
    return UCS_OK;

err_close:
    close(fd);
err_unmap:
    munmap(page, sizeof(*page));
    if (status != UCS_ERR_BUSY) { /* else it is not ours any more */
        unlink(path);
    }
    return status;
}

/* Log once for each owner: each interface that could reach a peer looks it up. */
static bool muct_xgmi_page_must_log(uint64_t owner)
{
    static _Atomic uint64_t last_owner;

    return atomic_exchange(&last_owner, owner) != owner;
}

/* Root could open it, and its owner not root's: neither side is to use the other. */
static bool muct_xgmi_page_is_foreign(const struct stat *st, const char *path,
                                      uint64_t owner)
{
    if (st->st_uid == geteuid()) {
        return false;
    }

    if (muct_xgmi_page_must_log(owner)) {
        muct_warn("mori_xgmi does not reach a peer of another user: its control page "
                  "%s is user %u's, and this process is user %u's; other transports "
                  "carry it. Run both as one user (docker run --user)",
                  path, (unsigned)st->st_uid, (unsigned)geteuid());
    }
    return true;
}

const char *muct_xgmi_page_remedy(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "Make room in that folder (docker run --shm-size), or set "
               "UCX_MORI_XGMI_SHM_DIR to another one";
    case EMFILE:
        return "Raise the number of files that this process may have open (ulimit -n)";
    case EEXIST:
        return "Set UCX_MORI_XGMI_SHM_DIR to a folder of this user's own";
    case ENFILE:
    case ENOMEM:
        return "This machine has no more: raise fs.file-max, or run less on it";
    default:
        return "Make it readable and writable for this user, or set "
               "UCX_MORI_XGMI_SHM_DIR to another folder";
    }
}

/* A missing page means a dead owner, which its endpoints report. */
static void muct_xgmi_page_no_open(const char *path, uint64_t owner)
{
    const int error = errno;
    struct stat st;

    if ((error == ENOENT) || (stat(path, &st) != 0)) {
        muct_debug("open(%s) failed: %s", path, strerror(error));
    } else if (!muct_xgmi_page_is_foreign(&st, path, owner) &&
               muct_xgmi_page_must_log(owner)) {
        muct_warn("mori_xgmi does not reach a peer whose control page cannot be read: "
                  "open(%s, mode %o) failed: %s; other transports carry it. %s",
                  path, (unsigned)(st.st_mode & 07777), strerror(error),
                  muct_xgmi_page_remedy(error));
    }
}

/* An address has the version of its page, so this is no page of ours. */
static void muct_xgmi_page_damaged(const char *path, uint64_t owner, size_t size)
{
    if (muct_xgmi_page_must_log(owner)) {
        muct_warn("mori_xgmi does not reach a peer whose control page is damaged: %s "
                  "has %zu bytes, expected %zu that begin with the number of process "
                  "0x%" PRIx64 "; other transports carry it. End the process that "
                  "writes there, and start the peer anew",
                  path, size, sizeof(muct_xgmi_page_t), owner);
    }
}

ucs_status_t muct_xgmi_page_map(const char *dir, uint64_t owner, int *fd_p,
                                muct_xgmi_page_t **page_p)
{
    muct_xgmi_page_t *page;
    struct stat st;
    char path[512];
    bool is_gone;
    int fd;

    muct_xgmi_page_path(dir, owner, "", path, sizeof(path));
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        is_gone = (errno == ENOENT);
        muct_xgmi_page_no_open(path, owner);
        return is_gone ? UCS_ERR_CONNECTION_RESET : UCS_ERR_UNREACHABLE;
    }

    if ((fstat(fd, &st) != 0) || (st.st_size != (off_t)sizeof(*page))) {
        muct_xgmi_page_damaged(path, owner, (size_t)st.st_size);
        goto err_close;
    }
    if (muct_xgmi_page_is_foreign(&st, path, owner)) {
        goto err_close;
    }

    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        muct_debug("mmap(%s, %zu bytes) failed: %m", path, sizeof(*page));
        goto err_close;
    }

    if ((page->magic != MUCT_XGMI_PAGE_MAGIC) || (page->owner != owner)) {
        muct_xgmi_page_damaged(path, owner, (size_t)st.st_size);
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
