/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The HIP runtime is used by a dozen symbols whose C types have been stable since ROCm
 * 4; declaring them here keeps ROCm's headers optional. Copies go to the default stream
 * and their first error is kept until the next sync.
 */

#include "perf/memory/memory.h"
#include "perf/base/error.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PERF_MEMORY_PAGE (2u << 20)


typedef int perf_hip_error_t; /* hipError_t; 0 is success */

enum { PERF_HIP_HOST_TO_DEVICE = 1, PERF_HIP_DEVICE_TO_HOST = 2 };

typedef struct perf_hip {
    void *handle;
    perf_hip_error_t (*hipGetDeviceCount)(int *count);
    perf_hip_error_t (*hipSetDevice)(int device);
    perf_hip_error_t (*hipDeviceGetName)(char *name, int length, int device);
    perf_hip_error_t (*hipMalloc)(void **address, size_t size);
    perf_hip_error_t (*hipFree)(void *address);
    perf_hip_error_t (*hipMemcpyAsync)(void *dst, const void *src, size_t length,
                                       int kind, void *stream);
    perf_hip_error_t (*hipStreamSynchronize)(void *stream);
    const char *(*hipGetErrorString)(perf_hip_error_t error);
} perf_hip_t;

struct perf_memory {
    perf_segment_t segment;
    perf_gpu_type_t gpu_type;
    perf_hip_t hip;
    perf_hip_error_t error; /* first error of a queued copy since the last sync */
    char device[64];
};

static const struct {
    const char *name;
    size_t offset;
} perf_hip_symbols[] = {
#define PERF_HIP_SYMBOL(_name) {#_name, offsetof(perf_hip_t, _name)}
    PERF_HIP_SYMBOL(hipGetDeviceCount),
    PERF_HIP_SYMBOL(hipSetDevice),
    PERF_HIP_SYMBOL(hipDeviceGetName),
    PERF_HIP_SYMBOL(hipMalloc),
    PERF_HIP_SYMBOL(hipFree),
    PERF_HIP_SYMBOL(hipMemcpyAsync),
    PERF_HIP_SYMBOL(hipStreamSynchronize),
    PERF_HIP_SYMBOL(hipGetErrorString),
};


static int perf_hip_load(perf_hip_t *hip, const char *path)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                        "libamdhip64.so.5", "libamdhip64.so"};
    void *symbol;
    unsigned i;

    if (path != NULL) {
        hip->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    for (i = 0; (path == NULL) && (hip->handle == NULL) && (i < 4); ++i) {
        hip->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (hip->handle == NULL) {
        perf_error("no HIP runtime for VRAM: %s; install ROCm, name one with "
                   "--hip_library, or give --initiator_seg_type DRAM and "
                   "--target_seg_type DRAM",
                   dlerror());
        return -1;
    }

    for (i = 0; i < sizeof(perf_hip_symbols) / sizeof(perf_hip_symbols[0]); ++i) {
        symbol = dlsym(hip->handle, perf_hip_symbols[i].name);
        if (symbol == NULL) {
            perf_error("the HIP runtime has no %s: %s", perf_hip_symbols[i].name,
                       dlerror());
            dlclose(hip->handle);
            return -1;
        }
        memcpy((char *)hip + perf_hip_symbols[i].offset, &symbol, sizeof(symbol));
    }
    return 0;
}

static int perf_memory_open_gpu(perf_memory_t *memory, const char *hip_library)
{
    perf_hip_t *hip = &memory->hip;
    const char *visible = getenv("HIP_VISIBLE_DEVICES");
    perf_hip_error_t error;
    int count = 0;

    if (perf_hip_load(hip, hip_library) != 0) {
        return -1;
    }

    error = hip->hipGetDeviceCount(&count);
    if ((error != 0) || (count < 1)) {
        perf_error("no GPU for VRAM (%s; HIP_VISIBLE_DEVICES=%s); expected one, see "
                   "--initiator_dev and --target_dev",
                   (error != 0) ? hip->hipGetErrorString(error) : "0 devices",
                   (visible != NULL) ? visible : "");
        dlclose(hip->handle);
        return -1;
    }
    error = hip->hipSetDevice(0);
    if (error != 0) {
        perf_error("the GPU for VRAM cannot be used (%s; HIP_VISIBLE_DEVICES=%s); see "
                   "rocminfo and dmesg",
                   hip->hipGetErrorString(error), (visible != NULL) ? visible : "");
        dlclose(hip->handle);
        return -1;
    }

    if (hip->hipDeviceGetName(memory->device, sizeof(memory->device), 0) != 0) {
        snprintf(memory->device, sizeof(memory->device), "unnamed GPU");
    }
    return 0;
}

int perf_memory_open(perf_segment_t segment, const char *hip_library,
                     perf_memory_t **memory_p)
{
    perf_memory_t *memory;

    memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        perf_error("no memory to open %s", perf_segment_name(segment));
        return -1;
    }

    memory->segment = segment;
    snprintf(memory->device, sizeof(memory->device), "host");
    if ((segment == PERF_SEGMENT_VRAM) &&
        (perf_memory_open_gpu(memory, hip_library) != 0)) {
        free(memory);
        return -1;
    }

    *memory_p = memory;
    return 0;
}

void perf_memory_close(perf_memory_t *memory)
{
    /* never unload the runtime: it may have threads, and UCX's module may use it */
    free(memory);
}

/*
 * Frameworks allocate in whole large pages. On an NVIDIA GPU another process' mapping
 * of an allocation that ends in the middle of one is slower by a quarter to a third,
 * all of it. A small odd size stays as it is: mori_prove tries one.
 */
static size_t perf_memory_round(size_t size)
{
    if ((size < PERF_MEMORY_PAGE) && (size % 16 != 0)) {
        return size;
    }
    return (size + PERF_MEMORY_PAGE - 1) & ~(size_t)(PERF_MEMORY_PAGE - 1);
}

/* The descriptor stays open: processes that may map the memory reach it by that. None
 * of them can cut the file under another's mapping. */
static void *perf_memory_alloc_shared(size_t size)
{
    int fd = memfd_create("mori_kv_perf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if ((fd < 0) || (ftruncate(fd, (off_t)size) != 0) ||
        (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)) {
        return MAP_FAILED;
    }
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

void *perf_memory_alloc(perf_memory_t *memory, size_t size)
{
    perf_hip_error_t error;
    void *address;

    if (memory->segment == PERF_SEGMENT_VRAM) {
        error = memory->hip.hipMalloc(&address, perf_memory_round(size));
        if (error != 0) {
            perf_error("hipMalloc(%zu) failed: %s; see --total_buffer_size", size,
                       memory->hip.hipGetErrorString(error));
            return NULL;
        }
        return address;
    }

    address = (memory->segment == PERF_SEGMENT_SHM)
                  ? perf_memory_alloc_shared(size)
                  : mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
        perf_error("mmap(%zu) failed: %m; see --total_buffer_size", size);
        return NULL;
    }
    return address;
}

void perf_memory_free(perf_memory_t *memory, void *address, size_t size)
{
    perf_hip_error_t error;

    if (memory->segment != PERF_SEGMENT_VRAM) {
        munmap(address, size);
        return;
    }

    error = memory->hip.hipFree(address);
    if (error != 0) {
        perf_warn("hipFree(%p) failed: %s", address,
                  memory->hip.hipGetErrorString(error));
    }
}

static void perf_memory_copy(perf_memory_t *memory, void *dst, const void *src,
                             size_t length, int kind)
{
    perf_hip_error_t error;

    if (memory->segment != PERF_SEGMENT_VRAM) {
        memcpy(dst, src, length);
        return;
    }

    error = memory->hip.hipMemcpyAsync(dst, src, length, kind, NULL);
    memory->error = (memory->error != 0) ? memory->error : error;
}

void perf_memory_write(perf_memory_t *memory, void *address, const void *host,
                       size_t length)
{
    perf_memory_copy(memory, address, host, length, PERF_HIP_HOST_TO_DEVICE);
}

void perf_memory_read(perf_memory_t *memory, void *host, const void *address,
                      size_t length)
{
    perf_memory_copy(memory, host, address, length, PERF_HIP_DEVICE_TO_HOST);
}

int perf_memory_sync(perf_memory_t *memory)
{
    perf_hip_error_t error, pending;

    if (memory->segment != PERF_SEGMENT_VRAM) {
        return 0;
    }

    error = memory->hip.hipStreamSynchronize(NULL);
    pending = memory->error;
    memory->error = 0;
    if ((error != 0) || (pending != 0)) {
        perf_error("a copy between host and GPU failed: %s",
                   memory->hip.hipGetErrorString((pending != 0) ? pending : error));
        return -1;
    }
    return 0;
}

void perf_memory_set_gpu_type(perf_memory_t *memory, perf_gpu_type_t type)
{
    memory->gpu_type = type;
}

ucs_memory_type_t perf_memory_type(const perf_memory_t *memory)
{
    static const ucs_memory_type_t gpu_types[] = {
        [PERF_GPU_TYPE_ROCM] = UCS_MEMORY_TYPE_ROCM,
        [PERF_GPU_TYPE_CUDA] = UCS_MEMORY_TYPE_CUDA,
    };

    return (memory->segment == PERF_SEGMENT_VRAM) ? gpu_types[memory->gpu_type]
                                                  : UCS_MEMORY_TYPE_HOST;
}

const char *perf_memory_device(const perf_memory_t *memory)
{
    return memory->device;
}
