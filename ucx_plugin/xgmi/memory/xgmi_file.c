/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Descriptors are shared: one for each file, for any number of registrations.
 * muct_xgmi_files_lock guards their list.
 */

#include "xgmi/memory/xgmi_file.h"

#include "base/muct_bytes.h"
#include "base/muct_lock.h"
#include "base/muct_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; EINVAL before */
#endif

enum {
    MUCT_XGMI_FILE_AT_DEVICE = 0,
    MUCT_XGMI_FILE_AT_INODE = 8,
    MUCT_XGMI_FILE_AT_OFFSET = 16,
    MUCT_XGMI_FILE_AT_FD = 24
};

/** A descriptor that this process holds open for its peers. */
typedef struct muct_xgmi_file_open {
    struct muct_xgmi_file_open *next;
    uint64_t device, inode;
    unsigned refs;
    int fd;
} muct_xgmi_file_open_t;

/** A line of /proc/self/maps. */
typedef struct muct_xgmi_file_line {
    uint64_t start, end, offset, device, inode;
    bool is_shared; /* shared and writable */
    char path[4096];
} muct_xgmi_file_line_t;

static pthread_mutex_t muct_xgmi_files_lock = PTHREAD_MUTEX_INITIALIZER;
MUCT_FREE_IN_CHILD(muct_xgmi_files_lock, &muct_xgmi_files_lock)
static muct_xgmi_file_open_t *muct_xgmi_files;


/* ---- the owner ---- */

static bool muct_xgmi_file_is(int fd, uint64_t device, uint64_t inode)
{
    struct stat st;

    return (fstat(fd, &st) == 0) && S_ISREG(st.st_mode) &&
           ((uint64_t)st.st_dev == device) && ((uint64_t)st.st_ino == inode);
}

/* The kernel allows long-term pins of pages of such files; for others it may refuse
 * them. */
static bool muct_xgmi_file_is_in_memory(int fd, uint64_t *page_p)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) != 0) {
        return false;
    }

    *page_p = (fs.f_type == HUGETLBFS_MAGIC) ? (uint64_t)fs.f_bsize
                                             : (uint64_t)sysconf(_SC_PAGESIZE);
    return (fs.f_type == TMPFS_MAGIC) || (fs.f_type == HUGETLBFS_MAGIC);
}

static bool muct_xgmi_file_read_line(FILE *maps, muct_xgmi_file_line_t *line)
{
    char text[sizeof(line->path) + 128], flags[5];
    unsigned major, minor;
    int at = 0;

    if (fgets(text, sizeof(text), maps) == NULL) {
        return false;
    }
    line->inode = 0;
    if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
               &line->start, &line->end, flags, &line->offset, &major, &minor,
               &line->inode, &at) < 7) {
        return true;
    }

    line->device = makedev(major, minor);
    line->is_shared = !strncmp(flags, "rw", 2) && (flags[3] == 's');
    text[strcspn(text, "\n")] = '\0';
    snprintf(line->path, sizeof(line->path), "%s", text + at);
    return true;
}

/* Find the lines that cover the range; they must map adjacent parts of one file. */
static bool muct_xgmi_file_find_lines(uint64_t address, uint64_t length,
                                      muct_xgmi_file_line_t *found)
{
    muct_xgmi_file_line_t line;
    FILE *maps = fopen("/proc/self/maps", "re");

    if (maps == NULL) {
        return false;
    }

    found->end = 0;
    while (((found->end == 0) || (found->end < address + length)) &&
           muct_xgmi_file_read_line(maps, &line)) {
        if ((found->end == 0) && (line.start <= address) && (address < line.end)) {
            *found = line;
        } else if ((found->end != 0) && (line.start == found->end) && line.is_shared &&
                   (line.device == found->device) && (line.inode == found->inode) &&
                   (line.offset == found->offset + (line.start - found->start))) {
            found->end = line.end;
        } else if (found->end != 0) {
            break;
        }
    }
    fclose(maps);
    return (found->end >= address + length) && found->is_shared && (found->inode != 0);
}

/* Duplicate the application's descriptor of a memfd or an unlinked file, if one is
 * open. */
static int muct_xgmi_file_duplicate(uint64_t device, uint64_t inode)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    int fd = -1;

    if (folder == NULL) {
        return -1;
    }
    while ((fd < 0) && ((entry = readdir(folder)) != NULL)) {
        if ((entry->d_name[0] != '.') &&
            muct_xgmi_file_is(atoi(entry->d_name), device, inode)) {
            fd = fcntl(atoi(entry->d_name), F_DUPFD_CLOEXEC, 0);
        }
    }
    closedir(folder);
    if ((fd >= 0) && !muct_xgmi_file_is(fd, device, inode)) {
        close(fd); /* the descriptor was closed meanwhile and its number reused */
        fd = -1;
    }
    return fd;
}

static int muct_xgmi_file_open_it(const muct_xgmi_file_line_t *line)
{
    int fd = -1;

    if (line->path[0] == '/') {
        fd = open(line->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    }
    if ((fd >= 0) && !muct_xgmi_file_is(fd, line->device, line->inode)) {
        close(fd);
        fd = -1;
    }
    return (fd >= 0) ? fd : muct_xgmi_file_duplicate(line->device, line->inode);
}

/* Locked. */
static ucs_status_t muct_xgmi_file_keep(const muct_xgmi_file_line_t *line, int *fd_p)
{
    muct_xgmi_file_open_t *open;

    for (open = muct_xgmi_files; open != NULL; open = open->next) {
        if ((open->device == line->device) && (open->inode == line->inode)) {
            ++open->refs;
            *fd_p = open->fd;
            return UCS_OK;
        }
    }

    open = malloc(sizeof(*open));
    if (open == NULL) {
        return UCS_ERR_UNSUPPORTED;
    }
    open->fd = muct_xgmi_file_open_it(line);
    if (open->fd < 0) {
        free(open);
        return UCS_ERR_UNSUPPORTED;
    }

    open->device = line->device;
    open->inode = line->inode;
    open->refs = 1;
    open->next = muct_xgmi_files;
    muct_xgmi_files = open;
    *fd_p = open->fd;
    return UCS_OK;
}

ucs_status_t muct_xgmi_file_find(uint64_t address, uint64_t length,
                                 muct_xgmi_file_t *file)
{
    muct_xgmi_file_line_t line;
    ucs_status_t status;
    uint64_t page;

    if (!muct_xgmi_file_find_lines(address, length, &line)) {
        return UCS_ERR_UNSUPPORTED;
    }

    pthread_mutex_lock(&muct_xgmi_files_lock);
    status = muct_xgmi_file_keep(&line, &file->fd);
    pthread_mutex_unlock(&muct_xgmi_files_lock);
    file->device = line.device;
    file->inode = line.inode;
    if (status != UCS_OK) {
        muct_debug("0x%" PRIx64 " length %" PRIu64 " is of %s, of which no descriptor "
                   "is open",
                   address, length, line.path);
        return status;
    }
    if (!muct_xgmi_file_is_in_memory(file->fd, &page)) {
        muct_xgmi_file_release(file);
        return UCS_ERR_UNSUPPORTED;
    }

    file->base = address & ~(page - 1);
    file->length = ((address + length + page - 1) & ~(page - 1)) - file->base;
    file->offset = line.offset + (file->base - line.start);
    return UCS_OK;
}

bool muct_xgmi_file_is_mapped(uint64_t address, uint64_t length)
{
    muct_xgmi_file_line_t line;

    return muct_xgmi_file_find_lines(address, length, &line);
}

void muct_xgmi_file_release(const muct_xgmi_file_t *file)
{
    muct_xgmi_file_open_t **link, *open;

    pthread_mutex_lock(&muct_xgmi_files_lock);
    for (link = &muct_xgmi_files; ((open = *link) != NULL) && (open->fd != file->fd);
         link = &open->next) {
    }
    if ((open != NULL) && (--open->refs == 0)) {
        *link = open->next;
        close(open->fd);
        free(open);
    }
    pthread_mutex_unlock(&muct_xgmi_files_lock);
}

void muct_xgmi_file_pack(const muct_xgmi_file_t *file, unsigned char *bytes)
{
    memset(bytes, 0, MUCT_XGMI_FILE_SIZE);
    muct_put_le(bytes + MUCT_XGMI_FILE_AT_DEVICE, file->device, 8);
    muct_put_le(bytes + MUCT_XGMI_FILE_AT_INODE, file->inode, 8);
    muct_put_le(bytes + MUCT_XGMI_FILE_AT_OFFSET, file->offset, 8);
    muct_put_le(bytes + MUCT_XGMI_FILE_AT_FD, (uint64_t)file->fd, 4);
}


/* ---- a peer ---- */

/* Pages beyond the end of a file cannot be used, but the rest of its last page can. */
static bool muct_xgmi_file_has(int fd, uint64_t offset, uint64_t length)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size;
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return false;
    }

    size = ((uint64_t)st.st_size + page - 1) & ~(page - 1);
    return (offset <= size) && (length <= size - offset);
}

/* Open the path only if it is the peer's memory file: opening a device or a terminal
 * may have side effects. */
static int muct_xgmi_file_open_peers(const char *path, uint64_t device, uint64_t inode)
{
    int found = open(path, O_PATH | O_CLOEXEC);
    char again[40];
    uint64_t page;
    int fd = -1;

    if (found < 0) {
        return -1;
    }
    errno = ESTALE;
    if (muct_xgmi_file_is(found, device, inode) &&
        muct_xgmi_file_is_in_memory(found, &page)) {
        snprintf(again, sizeof(again), "/proc/self/fd/%d", found);
        fd = open(again, O_RDWR | O_CLOEXEC);
    }
    close(found);
    return fd;
}

/* Read a byte of each page by a call that fails where an access would raise SIGBUS. */
static bool muct_xgmi_file_touch(char *host, size_t length)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), at = 0, num;
    char bytes[64];
    struct iovec from[sizeof(bytes)], to = {.iov_base = bytes};
    ssize_t num_read;

    while (at < length) {
        for (num = 0; (num < sizeof(bytes)) && (at < length); ++num, at += page) {
            from[num] = (struct iovec){host + at, 1};
        }
        to.iov_len = num;
        num_read = process_vm_readv(getpid(), &to, 1, from, num, 0);
        if (num_read != (ssize_t)num) {
            errno = (num_read < 0) ? errno : EFAULT;
            return false;
        }
    }
    return true;
}

/* Touch the pages now: a missing page would raise SIGBUS at a later access. */
bool muct_xgmi_file_populate(void *host, size_t length)
{
    return (madvise(host, length, MADV_POPULATE_WRITE) == 0) ||
           ((errno == EINVAL) && muct_xgmi_file_touch(host, length));
}

ucs_status_t muct_xgmi_file_map(const unsigned char *bytes, pid_t pid, size_t length,
                                void **host_p)
{
    uint64_t device = muct_get_le(bytes + MUCT_XGMI_FILE_AT_DEVICE, 8);
    uint64_t inode = muct_get_le(bytes + MUCT_XGMI_FILE_AT_INODE, 8);
    uint64_t offset = muct_get_le(bytes + MUCT_XGMI_FILE_AT_OFFSET, 8);
    const char *why;
    ucs_status_t status = UCS_ERR_UNSUPPORTED;
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid,
             (int)muct_get_le(bytes + MUCT_XGMI_FILE_AT_FD, 4));
    fd = muct_xgmi_file_open_peers(path, device, inode);
    why = strerror(errno);
    if ((fd >= 0) && !muct_xgmi_file_has(fd, offset, length)) {
        why = "the file is too short";
    } else if (fd >= 0) {
        *host_p =
            mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
        status = (*host_p != MAP_FAILED) ? UCS_OK
                 : (errno == ENOMEM)     ? UCS_ERR_NO_MEMORY
                                         : UCS_ERR_UNSUPPORTED;
        why = strerror(errno);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (status != UCS_OK) {
        muct_diag("mapping %s, inode %" PRIu64 " offset %" PRIu64 " length %zu, "
                  "failed: %s",
                  path, inode, offset, length, why);
    }
    return status;
}
