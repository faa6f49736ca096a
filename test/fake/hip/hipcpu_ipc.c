/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory of other processes, by AMD's rules: 64 bytes by value, of which 32 belong to
 * the driver and the rest are size, offset and process. Opening returns the base plus
 * the offset of the pointer that was exported.
 *
 * The driver's part names a file descriptor of the exporter under /proc and the inode
 * behind it, so that a handle outlives neither its memory nor its process, and that a
 * killed process leaves nothing behind. /proc/self gives the process number that holds
 * in the mounted /proc, also in a PID namespace.
 *
 * By the rule ipc-address the driver's part names the exporter's address instead, and
 * opening maps the memory that is there by then; by ipc-server the exporter has to
 * answer.
 */

#include "hipcpu_impl.h"
#include "hipcpu_rules.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HIPCPU_IPC_MAGIC 0x55504368u
#define HIPCPU_IPC_ADDRESS 0x41504368u
#define HIPCPU_DMABUF_FD 1 /* hipMemRangeHandleTypeDmaBufFd */

/** The 64 bytes of a handle; size, offset and pid are where AMD has them */
typedef struct hipcpu_handle {
    uint32_t magic;
    int32_t proc;
    int32_t fd;
    int32_t device; /* number on the machine */
    uint64_t ino;   /* or the address */
    uint64_t dev;
    uint64_t size;
    uint64_t offset;
    int32_t pid;
    int32_t reserved;
    uint64_t base; /* of the allocation, in its process */
} hipcpu_handle_t;

_Static_assert(sizeof(hipcpu_handle_t) == sizeof(hipIpcMemHandle_t), "handle size");
_Static_assert(offsetof(hipcpu_handle_t, size) == 32, "psize of AMD's handle");
_Static_assert(offsetof(hipcpu_handle_t, pid) == 48, "process of AMD's handle");

/* hipIpcMemLazyEnablePeerAccess was 0 up to ROCm 5. */
static unsigned hipcpu_ipc_flags(void)
{
    return hipcpu_config.major >= 6;
}

static int hipcpu_proc_self(void)
{
    char text[32];
    ssize_t length = readlink("/proc/self", text, sizeof(text) - 1);

    if (length <= 0) {
        return (int)getpid();
    }
    text[length] = '\0';
    return atoi(text);
}

static atomic_bool hipcpu_has_exported;

static bool hipcpu_range_export(hipcpu_range_t *range, void *arg)
{
    (void)arg;
    range->is_exported = true;
    hipcpu_has_exported = true;
    return false;
}

/* glibc's text where two threads clear one std::map */
static void __attribute__((destructor)) hipcpu_ipc_end(void)
{
    if (hipcpu_has_exported && hipcpu_rule(HIPCPU_RULE_EXIT_ABORTS)) {
        fprintf(stderr, "corrupted size vs. prev_size\n");
        abort();
    }
}

/* Memory that other processes may have: not managed, host, imported or mapped by the
 * program. */
static bool hipcpu_find_exportable(const void *ptr, hipcpu_range_t *range)
{
    if (!hipcpu_range_find((uintptr_t)ptr, range) || (range->kind != HIPCPU_DEVICE) ||
        (range->chunk != NULL) || ((uintptr_t)ptr >= range->base + range->size)) {
        return false;
    }

    hipcpu_range_change(range->base, hipcpu_range_export, NULL);
    return true;
}

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr)
{
    hipcpu_handle_t packed = {.magic = HIPCPU_IPC_MAGIC};
    hipcpu_range_t range;
    struct stat info;

    HIPCPU_ENTER(hipIpcGetMemHandle);
    if (hipcpu_rule(HIPCPU_RULE_EXPORT_VMM_ENDS) &&
        hipcpu_range_find((uintptr_t)ptr, &range) && (range.chunk != NULL)) {
        hipcpu_misuse("hipIpcGetMemHandle(%p): ROCr 7.2.4 with assertions ends here "
                      "for memory of hipMemMap()",
                      ptr);
    }
    if (hipcpu_rule(HIPCPU_RULE_ODD_SIZE) &&
        hipcpu_range_find((uintptr_t)ptr, &range) && (range.size % 4096 != 0)) {
        hipcpu_misuse("hipIpcGetMemHandle(%p): %zu bytes are no multiple of a page",
                      ptr, range.size);
    }
    /* libamdhip64 6.4.3 exports memory of hipMallocAsync(), and 7.2.4 does not */
    if ((hipcpu_config.major >= 7) && hipcpu_range_find((uintptr_t)ptr, &range) &&
        (range.pool != NULL)) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    if (!hipcpu_find_exportable(ptr, &range) || (fstat(range.fd, &info) != 0)) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    packed.proc = hipcpu_proc_self();
    packed.fd = range.fd;
    packed.device = hipcpu_config.devices[range.device];
    packed.ino = info.st_ino;
    packed.dev = info.st_dev;
    packed.size = range.size;
    packed.offset = (uintptr_t)ptr - range.base;
    packed.base = range.base;
    packed.pid = (int32_t)getpid();
    if (hipcpu_rule(HIPCPU_RULE_IPC_ADDRESS)) {
        packed.magic = HIPCPU_IPC_ADDRESS;
        packed.ino = range.base;
        packed.fd = 0;
        packed.dev = 0;
    }
    memcpy(handle, &packed, sizeof(packed));
    return hipSuccess;
}

/* The inode behind an address of a process, 0: none. */
static ino_t hipcpu_ipc_inode_at(int proc, uint64_t address)
{
    unsigned long begin, end, ino, found = 0;
    char path[64], line[512];
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%d/maps", proc);
    maps = fopen(path, "re");
    while ((maps != NULL) && (fgets(line, sizeof(line), maps) != NULL)) {
        if ((sscanf(line, "%lx-%lx %*s %*s %*s %lu", &begin, &end, &ino) == 3) &&
            (begin <= address) && (address < end)) {
            found = ino;
            break;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

/* Open the mapping of a process at an address, by one of its descriptors. */
static int hipcpu_ipc_open_address(int proc, uint64_t address)
{
    ino_t ino = hipcpu_ipc_inode_at(proc, address);
    const struct dirent *entry;
    char path[64];
    struct stat info;
    int fd = -1;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", proc);
    dir = (ino == 0) ? NULL : opendir(path);
    while ((dir != NULL) && (fd < 0) && ((entry = readdir(dir)) != NULL)) {
        if ((fstatat(dirfd(dir), entry->d_name, &info, 0) == 0) &&
            (info.st_ino == ino)) {
            fd = openat(dirfd(dir), entry->d_name, O_RDWR | O_CLOEXEC);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return fd;
}

/* Find the memory of a handle, if its descriptor still refers to that memory. */
static int hipcpu_ipc_attach(const hipcpu_handle_t *handle, struct stat *info)
{
    bool is_address = (handle->magic == HIPCPU_IPC_ADDRESS);
    char path[64];
    int fd;

    if (!is_address && (handle->magic != HIPCPU_IPC_MAGIC)) {
        return -1;
    }
    if (is_address) {
        fd = hipcpu_ipc_open_address(handle->proc, handle->ino);
    } else {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->proc, handle->fd);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    if (fd < 0) {
        return -1;
    }
    if ((fstat(fd, info) != 0) ||
        (!is_address &&
         ((info->st_ino != handle->ino) || (info->st_dev != handle->dev))) ||
        ((uint64_t)info->st_size < handle->size) || (handle->offset >= handle->size)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* From ROCm 7 on an import that exists is opened again: not one that is being closed.
 */
static pthread_mutex_t hipcpu_import_lock = PTHREAD_MUTEX_INITIALIZER;

static bool hipcpu_range_ref(hipcpu_range_t *range, void *arg)
{
    (void)arg;
    ++range->refs;
    return false;
}

/* Rule open-other: the mapping is one page of other memory. */
static int hipcpu_ipc_other(hipcpu_range_t *range)
{
    int fd = memfd_create("hipcpu-other", MFD_CLOEXEC);

    range->size = range->mapped = HIPCPU_PAGE_SIZE;
    if ((fd >= 0) && (ftruncate(fd, (off_t)range->size) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool hipcpu_ipc_map(const hipcpu_handle_t *handle, int fd,
                           const struct stat *info, hipcpu_range_t *range)
{
    bool is_mapped, is_other = hipcpu_rule(HIPCPU_RULE_OPEN_OTHER);

    *range = (hipcpu_range_t){.size = handle->size,
                              .kind = HIPCPU_IMPORTED,
                              .device = hipcpu_device_current(),
                              .fd = -1,
                              .refs = 1,
                              .dev = info->st_dev,
                              .ino = info->st_ino,
                              .proc = handle->proc,
                              .place = handle->base};
    range->mapped = (handle->size + HIPCPU_PAGE_SIZE - 1) & ~(HIPCPU_PAGE_SIZE - 1ull);
    fd = is_other ? hipcpu_ipc_other(range) : fd;
    is_mapped = (fd >= 0) && hipcpu_range_map(range, fd);
    if (is_other && (fd >= 0)) {
        close(fd);
    }
    if (is_mapped) {
        range->opened = range->base + handle->offset;
        hipcpu_range_add(range);
    }
    return is_mapped;
}

static bool hipcpu_ipc_is_in_the_way(const hipcpu_handle_t *handle)
{
    return hipcpu_rule(HIPCPU_RULE_IPC_OVERLAP) &&
           hipcpu_range_overlaps_import(handle->proc, hipcpu_device_current(),
                                        handle->base, handle->size);
}

static hipError_t hipcpu_ipc_open(const hipcpu_handle_t *handle, hipcpu_range_t *range)
{
    hipError_t error = hipSuccess;
    struct stat info;
    int fd;

    fd = hipcpu_ipc_attach(handle, &info);
    if (fd < 0) {
        return hipErrorInvalidDevicePointer;
    }

    pthread_mutex_lock(&hipcpu_import_lock);
    /* 7.2.4 counts a second open, 6.4.3 maps it at another address */
    if ((hipcpu_config.major >= 7) &&
        hipcpu_range_find_import(info.st_dev, info.st_ino, range)) {
        hipcpu_range_change(range->base, hipcpu_range_ref, NULL);
    } else if (hipcpu_ipc_is_in_the_way(handle)) {
        error = hipErrorAlreadyMapped;
    } else if (!hipcpu_ipc_map(handle, fd, &info, range)) {
        error = hipErrorInvalidDevicePointer;
    }
    pthread_mutex_unlock(&hipcpu_import_lock);
    close(fd);
    return error;
}

/* The network namespace of a process, 0: not known. */
static ino_t hipcpu_ipc_network(int proc)
{
    struct stat info;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/ns/net", proc);
    return (stat(path, &info) == 0) ? info.st_ino : 0;
}

static bool hipcpu_ipc_is_stopped(int proc)
{
    char path[64], state = '?';
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", proc);
    file = fopen(path, "re");
    if (file != NULL) {
        (void)!fscanf(file, "%*d (%*[^)]) %c", &state);
        fclose(file);
    }
    return state == 'T';
}

static void hipcpu_ipc_delay(void)
{
    const struct timespec delay = {
        .tv_sec = hipcpu_config.ipc_delay_ms / 1000,
        .tv_nsec = (long)(hipcpu_config.ipc_delay_ms % 1000) * 1000000};

    if (hipcpu_config.ipc_delay_ms > 0) {
        nanosleep(&delay, NULL);
    }
}

/* The exporter answers on a socket of its network namespace, which is tried for a
 * while. */
static bool hipcpu_ipc_reach_exporter(const hipcpu_handle_t *handle)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    unsigned left;

    if (!hipcpu_rule(HIPCPU_RULE_IPC_SERVER)) {
        return true;
    }
    for (left = hipcpu_config.ipc_timeout_ms; left > 0; --left) {
        if ((hipcpu_ipc_network(handle->proc) ==
             hipcpu_ipc_network(hipcpu_proc_self())) &&
            !hipcpu_ipc_is_stopped(handle->proc)) {
            return true;
        }
        nanosleep(&pause, NULL);
    }
    return false;
}

hipError_t hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned flags)
{
    hipcpu_handle_t packed;
    hipcpu_range_t range;
    hipError_t error;

    HIPCPU_ENTER(hipIpcOpenMemHandle);
    memcpy(&packed, &handle, sizeof(packed));
    if ((ptr == NULL) || (flags != hipcpu_ipc_flags()) || (packed.size == 0)) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    if (packed.pid == (int32_t)getpid()) {
        return hipcpu_result(hipErrorInvalidContext);
    }
    hipcpu_ipc_delay();
    error = hipcpu_ipc_reach_exporter(&packed) ? hipcpu_ipc_open(&packed, &range)
                                               : hipErrorInvalidDevicePointer;
    if (error != hipSuccess) {
        return hipcpu_result(error);
    }

    ++hipcpu_counts[HIPCPU_MAPPINGS];
    *ptr = (void *)(range.base + packed.offset);
    return hipSuccess;
}

static pthread_mutex_t hipcpu_close_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool hipcpu_is_closing;
static atomic_bool hipcpu_is_detaching;

void hipcpu_close_wait(const char *call)
{
    if (atomic_load_explicit(&hipcpu_is_detaching, memory_order_relaxed)) {
        hipcpu_misuse("%s() while hipIpcCloseMemHandle() runs in another thread: its "
                      "object is freed and still in the table; close by hipFree()",
                      call);
    }
    if (atomic_load_explicit(&hipcpu_is_closing, memory_order_relaxed)) {
        pthread_mutex_lock(&hipcpu_close_lock);
        pthread_mutex_unlock(&hipcpu_close_lock);
    }
}

static bool hipcpu_range_unref(hipcpu_range_t *range, void *arg)
{
    --range->refs;
    *(unsigned *)arg = range->refs;
    return false;
}

/* By the rules, wait for work of the device. */
static void hipcpu_ipc_drain(void)
{
    if (hipcpu_rule(HIPCPU_RULE_CLOSE_LOCKS)) {
        pthread_mutex_lock(&hipcpu_close_lock);
        atomic_store(&hipcpu_is_closing, true);
        hipcpu_lines_drain(hipcpu_device_current());
        atomic_store(&hipcpu_is_closing, false);
        pthread_mutex_unlock(&hipcpu_close_lock);
    } else if (hipcpu_rule(HIPCPU_RULE_CLOSE_WAITS)) {
        hipcpu_lines_drain(hipcpu_device_current());
    }
}

void hipcpu_ipc_close(const char *call, hipcpu_range_t *range)
{
    unsigned refs = 0;

    hipcpu_ipc_drain();
    if (range->refs == 1) {
        hipcpu_lines_check(call, range->base, range->size);
    }
    pthread_mutex_lock(&hipcpu_import_lock);
    hipcpu_range_change(range->base, hipcpu_range_unref, &refs);
    if (refs == 0) {
        hipcpu_range_retire(range);
    }
    pthread_mutex_unlock(&hipcpu_import_lock);
    --hipcpu_counts[HIPCPU_MAPPINGS];
}

/* By the rule, a time in which another thread's call finds the freed object. */
static void hipcpu_ipc_detach(void)
{
    const struct timespec window = {.tv_nsec = 2000000};

    if (hipcpu_rule(HIPCPU_RULE_CLOSE_RACES)) {
        atomic_store(&hipcpu_is_detaching, true);
        nanosleep(&window, NULL);
        atomic_store(&hipcpu_is_detaching, false);
    }
}

hipError_t hipIpcCloseMemHandle(void *ptr)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipIpcCloseMemHandle);
    if (!hipcpu_range_find((uintptr_t)ptr, &range)) {
        hipcpu_misuse("hipIpcCloseMemHandle(%p): unknown address", ptr);
    }
    if (range.kind != HIPCPU_IMPORTED) {
        hipcpu_misuse("hipIpcCloseMemHandle(%p): %s memory", ptr,
                      hipcpu_kind_name(range.kind));
    }

    hipcpu_ipc_close("hipIpcCloseMemHandle", &range);
    hipcpu_ipc_detach();
    return hipSuccess;
}

/*
 * A dma-buf of this runtime is a memfd of the whole allocation. The newer call has no
 * way to return an offset, so it accepts only a pointer to the start of the allocation.
 */
/* An allocation, or one chunk from ROCm 7 on (ROCm/mori, TryExportDmabufFd()). */
static bool hipcpu_find_dmabuf(const void *ptr, hipcpu_range_t *range)
{
    return (hipcpu_find_exportable(ptr, range) && (range->pool == NULL)) ||
           (hipcpu_range_find((uintptr_t)ptr, range) && (range->chunk != NULL));
}

hipError_t hipMemGetHandleForAddressRange(void *handle, void *ptr, size_t size,
                                          int type, unsigned long long flags)
{
    hipcpu_range_t range;
    int fd;

    HIPCPU_ENTER(hipMemGetHandleForAddressRange);
    if ((hipcpu_config.major < 7) || hipcpu_rule(HIPCPU_RULE_OLD_DRIVER)) {
        return hipcpu_result(hipErrorNotSupported);
    }
    if ((type != HIPCPU_DMABUF_FD) || (flags != 0) || (size == 0) ||
        !hipcpu_find_dmabuf(ptr, &range) || (range.base != (uintptr_t)ptr) ||
        (size > range.mapped)) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    fd = fcntl(range.fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
        return hipcpu_result(hipErrorUnknown);
    }
    memcpy(handle, &fd, sizeof(fd));
    return hipSuccess;
}

int hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *fd,
                                   uint64_t *offset)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hsa_amd_portable_export_dmabuf);
    if (hipcpu_rule(HIPCPU_RULE_OLD_DRIVER)) {
        return HIPCPU_HSA_ERROR;
    }
    if ((size == 0) || (fd == NULL) || (offset == NULL)) {
        return HIPCPU_HSA_INVALID_ARG;
    }
    if (!hipcpu_find_exportable(ptr, &range) ||
        ((uintptr_t)ptr + size > range.base + range.mapped)) {
        return HIPCPU_HSA_INVALID_ALLOC;
    }
    if ((range.pool != NULL) && (hipcpu_config.major >= 7)) {
        return HIPCPU_HSA_INVALID_AGENT; /* mapped by the pool (7.2.4) */
    }

    *fd = fcntl(range.fd, F_DUPFD_CLOEXEC, 3);
    *offset = hipcpu_rule(HIPCPU_RULE_DMABUF_OFFSET) ? 0 : (uintptr_t)ptr - range.base;
    return (*fd < 0) ? HIPCPU_HSA_INVALID_ALLOC : 0;
}

/* ROCr's runtime.cpp compares the interface of KFD with 1.12 */
int hsa_system_get_info(int attribute, void *value)
{
    HIPCPU_ENTER(hsa_system_get_info);
    if (attribute != HIPCPU_HSA_DMABUF_SUPPORTED) {
        return HIPCPU_HSA_INVALID_ARG;
    }

    *(bool *)value = !hipcpu_rule(HIPCPU_RULE_OLD_DRIVER);
    return 0;
}

int hsa_amd_portable_close_dmabuf(int fd)
{
    HIPCPU_ENTER(hsa_amd_portable_close_dmabuf);
    return (close(fd) == 0) ? 0 : HIPCPU_HSA_INVALID_ARG;
}
