/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "xgmi/peer/xgmi_page.h"

#include "base/muct_log.h"
#include "base/memory/muct_shm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MUCT_XGMI_PAGE_MAGIC UINT64_C(0x33656761702d786d) /* "mx-page3" */
#define MUCT_XGMI_PAGE_PREFIX "ucx-mori."

/* Bytes of a page with its first slots; the file is longer, and sparse */
#define MUCT_XGMI_PAGE_FIRST_SIZE                                                      \
    offsetof(muct_xgmi_page_t, slots[MUCT_XGMI_PAGE_SLOTS])


/* ---- files of a process ---- */

#define MUCT_XGMI_PAGE_FOLDER "%s/" MUCT_XGMI_PAGE_PREFIX "%016" PRIx64
#define MUCT_XGMI_PAGE_FILE "page"
#define MUCT_XGMI_PAGE_IFACE_FILE "%" PRIu32 ".%" PRIu32 "%s"

static void muct_xgmi_page_folder(const char *dir, uint64_t owner, char *path,
                                  size_t size)
{
    snprintf(path, size, MUCT_XGMI_PAGE_FOLDER, dir, owner);
}

void muct_xgmi_page_path(const char *dir, uint64_t owner, char *path, size_t size)
{
    snprintf(path, size, MUCT_XGMI_PAGE_FOLDER "/" MUCT_XGMI_PAGE_FILE, dir, owner);
}

void muct_xgmi_page_iface_path(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id,
                               const char *suffix, char *path, size_t size)
{
    snprintf(path, size, MUCT_XGMI_PAGE_FOLDER "/" MUCT_XGMI_PAGE_IFACE_FILE, dir,
             owner, id.slot, id.generation, suffix);
}

/* Reject files with a second name, which may be in a folder that others write to. */
static bool muct_xgmi_page_is_own(int fd, mode_t type)
{
    struct stat st;

    if ((fstat(fd, &st) == 0) && ((st.st_mode & S_IFMT) == type) &&
        (st.st_uid == geteuid()) &&
        ((type == S_IFDIR) ? ((st.st_mode & 0077) == 0) : (st.st_nlink <= 1))) {
        return true;
    }
    errno = EPERM;
    return false;
}

/* No link is followed: another user may take the name of a folder that was removed. */
static int muct_xgmi_page_open_folder(const char *dir, uint64_t owner)
{
    char path[512];
    int fd;

    muct_xgmi_page_folder(dir, owner, path, sizeof(path));
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if ((fd < 0) || muct_xgmi_page_is_own(fd, S_IFDIR)) {
        return fd;
    }
    close(fd);
    errno = EPERM;
    return -1;
}

static int muct_xgmi_page_open_file(const char *dir, uint64_t owner, const char *name,
                                    mode_t type)
{
    int folder = muct_xgmi_page_open_folder(dir, owner), fd, error;

    if (folder < 0) {
        return -1;
    }
    fd = openat(folder, name, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    error = errno;
    if ((fd >= 0) && !muct_xgmi_page_is_own(fd, type)) {
        error = errno;
        close(fd);
        fd = -1;
    }
    close(folder);
    errno = error;
    return fd;
}

int muct_xgmi_page_open_iface(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id,
                              const char *suffix, mode_t type)
{
    char name[64];

    snprintf(name, sizeof(name), MUCT_XGMI_PAGE_IFACE_FILE, id.slot, id.generation,
             suffix);
    return muct_xgmi_page_open_file(dir, owner, name, type);
}


/* ---- the lock ---- */

/*
 * Use locks of open file descriptions. A process may have two copies of this code, for
 * two UCX; a lock of the process is invisible to the other copy, and is dropped when
 * that copy closes the file. Where the kernel has only locks of processes (gVisor), use
 * those; both kinds exclude each other.
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


/* ---- removal ---- */

/* Remove the page last, so that a folder without a page is empty. */
void muct_xgmi_page_remove(const char *dir, uint64_t owner)
{
    struct dirent *entry;
    char path[512];
    DIR *handle;

    muct_xgmi_page_folder(dir, owner, path, sizeof(path));
    handle = opendir(path);
    if (handle != NULL) {
        while ((entry = readdir(handle)) != NULL) {
            if (strcmp(entry->d_name, MUCT_XGMI_PAGE_FILE) != 0) {
                (void)unlinkat(dirfd(handle), entry->d_name, 0);
            }
        }
        (void)unlinkat(dirfd(handle), MUCT_XGMI_PAGE_FILE, 0);
        closedir(handle);
    }
    (void)rmdir(path);
}

/* Hold the lock while the files are removed: without it the owner may lock the page. An
 * empty folder is being made or removed, or was left by a process killed meanwhile.
 */
static void muct_xgmi_page_sweep_one(const char *dir, uint64_t owner)
{
    int fd = muct_xgmi_page_open_file(dir, owner, MUCT_XGMI_PAGE_FILE, S_IFREG);
    char path[512];

    if (fd >= 0) {
        if (muct_xgmi_page_take(fd) == UCS_OK) {
            muct_debug("removing files of process 0x%" PRIx64 " in %s: it is gone",
                       owner, dir);
            muct_xgmi_page_remove(dir, owner);
        }
        close(fd);
    } else if (errno == ENOENT) {
        muct_xgmi_page_folder(dir, owner, path, sizeof(path));
        (void)rmdir(path);
    }
}

/* Parse the name of an owner's folder. @return Whether it is one. */
static bool muct_xgmi_page_has_owner(const char *name, uint64_t *owner_p)
{
    const size_t prefix = strlen(MUCT_XGMI_PAGE_PREFIX);
    const size_t digits = 2 * sizeof(*owner_p);

    if (strncmp(name, MUCT_XGMI_PAGE_PREFIX, prefix) ||
        (strlen(name) != prefix + digits) ||
        (strspn(name + prefix, "0123456789abcdef") != digits)) {
        return false;
    }
    *owner_p = strtoull(name + prefix, NULL, 16);
    return true;
}

/*
 * Remove files of processes that were killed: their pages are not locked. Folders of
 * living processes appear and vanish during this scan.
 */
void muct_xgmi_page_sweep(const char *dir)
{
    struct dirent *entry;
    uint64_t owner;
    DIR *handle;

    handle = opendir(dir);
    if (handle == NULL) {
        return;
    }

    while ((entry = readdir(handle)) != NULL) {
        if (muct_xgmi_page_has_owner(entry->d_name, &owner)) {
            muct_xgmi_page_sweep_one(dir, owner);
        }
    }

    closedir(handle);
}


/* ---- this process's page ---- */

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
    const uint32_t num_slots = muct_xgmi_page_num_slots(page);
    const off_t offset = (off_t)(offsetof(muct_xgmi_page_t, slots) +
                                 (num_slots * sizeof(page->slots[0])));

    if ((num_slots > MUCT_XGMI_MAX_SLOTS - MUCT_XGMI_PAGE_SLOTS) ||
        !muct_shm_reserve(fd, offset,
                          (off_t)(MUCT_XGMI_PAGE_SLOTS * sizeof(page->slots[0])))) {
        return false;
    }

    atomic_store(&page->num_slots, num_slots + MUCT_XGMI_PAGE_SLOTS);
    return true;
}

/* Reserve room for a page and map it; the mapping keeps the file open. */
static ucs_status_t muct_xgmi_page_reserve(const char *path, muct_xgmi_page_t **page_p)
{
    muct_xgmi_page_t *page = MAP_FAILED;
    int fd;

    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        if (errno == ENOENT) {
            return UCS_ERR_BUSY;
        }
        muct_error("open(%s) failed: %m. %s", path, muct_xgmi_page_remedy(errno));
        return UCS_ERR_IO_ERROR;
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
    *page_p = page;
    return (page == MAP_FAILED) ? UCS_ERR_IO_ERROR : UCS_OK;
}

/*
 * The lock belongs to an open file description that only this descriptor refers to: a
 * child's copy of the mapping does not keep it.
 *
 * @return UCS_ERR_BUSY: another process removes the page.
 */
static ucs_status_t muct_xgmi_page_lock(const char *dir, uint64_t owner, int *fd_p)
{
    int fd = muct_xgmi_page_open_file(dir, owner, MUCT_XGMI_PAGE_FILE, S_IFREG);
    ucs_status_t status;

    if (fd < 0) {
        if (errno == ENOENT) {
            return UCS_ERR_BUSY;
        }
        muct_error("opening the control page of this process in %s failed: %m", dir);
        return UCS_ERR_IO_ERROR;
    }

    status = muct_xgmi_page_take(fd);
    if (status == UCS_OK) {
        *fd_p = fd;
        return UCS_OK;
    }
    if (status != UCS_ERR_BUSY) {
        muct_error("locking the control page of this process in %s failed: %m", dir);
    }
    close(fd);
    return status;
}

/* @return UCS_ERR_BUSY: the name is taken. */
static ucs_status_t muct_xgmi_page_make_folder(const char *dir, uint64_t owner)
{
    char path[512];

    muct_xgmi_page_folder(dir, owner, path, sizeof(path));
    if (mkdir(path, 0700) == 0) {
        return UCS_OK;
    }
    if (errno == EEXIST) {
        return UCS_ERR_BUSY;
    }
    muct_error("mkdir(%s) failed: %m. %s", path, muct_xgmi_page_remedy(errno));
    return UCS_ERR_IO_ERROR;
}

/* Peers receive its name later, with an address. */
static ucs_status_t muct_xgmi_page_fill(const char *dir, const muct_xgmi_self_t *self,
                                        int *fd_p, muct_xgmi_page_t **page_p)
{
    muct_xgmi_page_t *page;
    ucs_status_t status;
    char path[512];

    muct_xgmi_page_path(dir, self->owner, path, sizeof(path));
    status = muct_xgmi_page_reserve(path, &page);
    if (status != UCS_OK) {
        return status;
    }
    status = muct_xgmi_page_lock(dir, self->owner, fd_p);
    if (status != UCS_OK) {
        munmap(page, sizeof(*page));
        return status;
    }

    page->magic = MUCT_XGMI_PAGE_MAGIC;
    page->owner = self->owner;
    page->pid_namespace = self->pid_namespace;
    page->pid = self->pid;
    atomic_store(&page->num_slots, MUCT_XGMI_PAGE_SLOTS);
    *page_p = page;
    return UCS_OK;
}

ucs_status_t muct_xgmi_page_create(const char *dir, const muct_xgmi_self_t *self,
                                   int *fd_p, muct_xgmi_page_t **page_p)
{
    ucs_status_t status;

    if (sizeof(**page_p) > muct_xgmi_page_file_limit()) {
        muct_error("a control page in %s has %zu bytes, and files of this process may "
                   "have %" PRIu64 " (ulimit -f)",
                   dir, sizeof(**page_p), muct_xgmi_page_file_limit());
        return UCS_ERR_IO_ERROR;
    }

    status = muct_xgmi_page_make_folder(dir, self->owner);
    if (status != UCS_OK) {
        return status;
    }
    status = muct_xgmi_page_fill(dir, self, fd_p, page_p);
    if ((status != UCS_OK) &&
        (status != UCS_ERR_BUSY)) { /* busy: the page belongs to a process that sweeps
                                       old files */
        muct_xgmi_page_remove(dir, self->owner);
    }
    return status;
}


/* ---- pages of others ---- */

/* Log once for each owner: each interface that could reach a peer looks it up. */
static bool muct_xgmi_page_must_log(uint64_t owner)
{
    static _Atomic uint64_t last_owner;

    return atomic_exchange(&last_owner, owner) != owner;
}

/* Root could open the page, but its owner could not open root's. Neither side may use
 * the other. */
static bool muct_xgmi_page_is_foreign(const struct stat *st, const char *path,
                                      uint64_t owner)
{
    if (st->st_uid == geteuid()) {
        return false;
    }

    if (muct_xgmi_page_must_log(owner)) {
        muct_warn("mori_xgmi does not reach a peer of another user: its folder "
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
static void muct_xgmi_page_no_open(const char *dir, uint64_t owner, const char *path)
{
    const int error = errno;
    struct stat st = {0};
    char folder[512];

    muct_xgmi_page_folder(dir, owner, folder, sizeof(folder));
    if ((error == ENOENT) || (lstat(folder, &st) != 0)) {
        muct_debug("open(%s) failed: %s", path, strerror(error));
    } else if (!muct_xgmi_page_is_foreign(&st, folder, owner) &&
               muct_xgmi_page_must_log(owner)) {
        (void)lstat(path, &st);
        muct_warn("mori_xgmi does not reach a peer whose control page cannot be read: "
                  "open(%s, mode %o) failed: %s; other transports carry it. %s",
                  path, (unsigned)(st.st_mode & 07777), strerror(error),
                  muct_xgmi_page_remedy(error));
    }
}

/* The address has the page's version, so a file with another version is not a page of
 * this module. */
static void muct_xgmi_page_damaged(const char *path, uint64_t owner, size_t size)
{
    if (muct_xgmi_page_must_log(owner)) {
        muct_warn("mori_xgmi does not reach a peer whose control page is damaged: %s "
                  "has %zu bytes, expected %zu that begin with the number of process "
                  "0x%" PRIx64 "; other transports carry it. End the process that "
                  "writes there, and restart the peer",
                  path, size, sizeof(muct_xgmi_page_t), owner);
    }
}

ucs_status_t muct_xgmi_page_map(const char *dir, uint64_t owner, int *fd_p,
                                muct_xgmi_page_t **page_p)
{
    muct_xgmi_page_t *page;
    struct stat st = {0};
    char path[512];
    bool is_gone;
    int fd;

    muct_xgmi_page_path(dir, owner, path, sizeof(path));
    fd = muct_xgmi_page_open_file(dir, owner, MUCT_XGMI_PAGE_FILE, S_IFREG);
    if (fd < 0) {
        is_gone = (errno == ENOENT);
        muct_xgmi_page_no_open(dir, owner, path);
        return is_gone ? UCS_ERR_CONNECTION_RESET : UCS_ERR_UNREACHABLE;
    }

    if ((fstat(fd, &st) != 0) || (st.st_size != (off_t)sizeof(*page))) {
        muct_xgmi_page_damaged(path, owner, (size_t)st.st_size);
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
