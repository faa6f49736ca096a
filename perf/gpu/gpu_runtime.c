/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/gpu/gpu_runtime.h"

#include "xgmi/copy/xgmi_code.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GPU_NON_BLOCKING 1
#define GPU_HOST_FLAGS 3 /* portable, mapped */
#define GPU_ALREADY 704
#define GPU_PATIENCE_US 30e6
#define GPU_FLAG_ALIGNMENT 256

#define GPU_BIND_REQUIRED(_name, _symbol, _args)                                       \
    symbol = dlsym(library, _symbol);                                                  \
    if (symbol == NULL) {                                                              \
        fprintf(stderr, "gpu_limits: %s has no %s\n", path, _symbol);                  \
        exit(EXIT_FAILURE);                                                            \
    }                                                                                  \
    memcpy(&gpu->_name, &symbol, sizeof(symbol));

#define GPU_BIND_OPTIONAL(_name, _symbol, _args)                                       \
    symbol = dlsym(library, _symbol);                                                  \
    memcpy(&gpu->_name, &symbol, sizeof(symbol));


void gpu_check(int error, const char *what)
{
    if (error != 0) {
        fprintf(stderr, "gpu_limits: %s failed with hipError_t %d\n", what, error);
        exit(EXIT_FAILURE);
    }
}

double gpu_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((double)now.tv_sec * 1e6) + ((double)now.tv_nsec / 1e3);
}

void gpu_runtime_load(gpu_runtime_t *gpu, const char *path)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                        "libamdhip64.so.5"};
    void *library = NULL;
    void *symbol;
    int i;

    if (path != NULL) {
        library = dlopen(path, RTLD_NOW);
    }
    for (i = 0; (path == NULL) && (i < 3); ++i) {
        library = dlopen(names[i], RTLD_NOW);
        path = (library == NULL) ? NULL : names[i];
    }
    if (library == NULL) {
        fprintf(stderr, "gpu_limits: no HIP runtime: %s\n", dlerror());
        exit(EXIT_FAILURE);
    }

    memset(gpu, 0, sizeof(*gpu));
    GPU_REQUIRED(GPU_BIND_REQUIRED)
    GPU_OPTIONAL(GPU_BIND_OPTIONAL)
    gpu_check(gpu->get_count(&gpu->num_devices), "hipGetDeviceCount");
    gpu_check(gpu->get_version(&gpu->version), "hipRuntimeGetVersion");
    gpu_check(gpu->get_name(gpu->name, sizeof(gpu->name), 0), "hipDeviceGetName");
}

void *gpu_alloc_host(const gpu_runtime_t *gpu, size_t size)
{
    void *ptr;

    gpu_check(gpu->alloc_host(&ptr, size, GPU_HOST_FLAGS), "hipHostMalloc");
    memset(ptr, 0, size);
    return ptr;
}

void gpu_free_host(const gpu_runtime_t *gpu, void *ptr)
{
    gpu_check(gpu->free_host(ptr), "hipHostFree");
}

static void gpu_lane_init(const gpu_runtime_t *gpu, gpu_lane_t *lane, int priority)
{
    gpu_check(gpu->stream_create(&lane->stream, GPU_NON_BLOCKING, priority),
              "hipStreamCreateWithPriority");
    gpu_check(gpu->alloc(&lane->arrivals, sizeof(uint32_t)), "hipMalloc");
    gpu_check(gpu->fill(lane->arrivals, 0, sizeof(uint32_t)), "hipMemset");
    lane->flag = gpu_alloc_host(gpu, GPU_FLAG_ALIGNMENT);
    lane->sequence = 0;
}

static void gpu_lane_cleanup(const gpu_runtime_t *gpu, gpu_lane_t *lane)
{
    gpu_check(gpu->stream_synchronize(lane->stream), "hipStreamSynchronize");
    gpu_check(gpu->stream_destroy(lane->stream), "hipStreamDestroy");
    gpu_check(gpu->free(lane->arrivals), "hipFree");
    gpu_free_host(gpu, (void *)(uintptr_t)lane->flag);
}

static void gpu_load_kernel(const gpu_runtime_t *gpu, gpu_device_t *device)
{
    int error = gpu->module_load(&device->module, muct_xgmi_code_image());

    if (error != 0) {
        fprintf(stderr, "gpu_limits: no copy kernel for this device: hipError_t %d%s\n",
                error, muct_xgmi_code_is_empty() ? ", built without hipcc" : "");
        device->module = device->kernel = NULL;
        return;
    }
    gpu_check(gpu->module_get_function(&device->kernel, device->module,
                                       MUCT_XGMI_KERNEL_NAME),
              "hipModuleGetFunction");
}

void gpu_enable_peer(const gpu_runtime_t *gpu, int peer)
{
    int error = gpu->enable_peer(peer, 0);

    gpu_check((error == GPU_ALREADY) ? 0 : error, "hipDeviceEnablePeerAccess");
}

void gpu_device_init(const gpu_runtime_t *gpu, gpu_device_t *device, int number,
                     int peer, size_t pool_size)
{
    int least, greatest, i;

    device->number = number;
    gpu_check(gpu->set_device(number), "hipSetDevice");
    if (peer >= 0) {
        gpu_enable_peer(gpu, peer);
    }
    gpu_check(gpu->priorities(&least, &greatest), "hipDeviceGetStreamPriorityRange");
    for (i = 0; i < GPU_MAX_LANES; ++i) {
        gpu_lane_init(gpu, &device->lanes[i], greatest);
    }
    gpu_lane_init(gpu, &device->background, 0);
    gpu_load_kernel(gpu, device);
    gpu_check(gpu->alloc((void **)&device->pool, pool_size), "hipMalloc of the pool");
}

void gpu_device_cleanup(const gpu_runtime_t *gpu, gpu_device_t *device)
{
    int i;

    gpu_check(gpu->set_device(device->number), "hipSetDevice");
    for (i = 0; i < GPU_MAX_LANES; ++i) {
        gpu_lane_cleanup(gpu, &device->lanes[i]);
    }
    gpu_lane_cleanup(gpu, &device->background);
    if (device->module != NULL) {
        gpu_check(gpu->module_unload(device->module), "hipModuleUnload");
    }
    gpu_check(gpu->free(device->pool), "hipFree of the pool");
}

void gpu_launch_at(const gpu_runtime_t *gpu, const gpu_device_t *device,
                   gpu_lane_t *lane, const muct_xgmi_list_t *list, uint32_t max_blocks,
                   uint64_t entries)
{
    muct_xgmi_launch_t launch;
    void *params[] = {&launch.args};

    muct_xgmi_list_finish(list, max_blocks, &launch);
    launch.args.entries = entries;
    launch.args.arrivals = (uintptr_t)lane->arrivals;
    launch.args.flag = (uintptr_t)lane->flag;
    launch.args.sequence = ++lane->sequence;
    gpu_check(gpu->launch(device->kernel, launch.num_blocks, 1, 1, launch.block_size, 1,
                          1, 0, lane->stream, params, NULL),
              "hipModuleLaunchKernel");
}

void gpu_launch(const gpu_runtime_t *gpu, const gpu_device_t *device, gpu_lane_t *lane,
                const muct_xgmi_list_t *list, uint32_t max_blocks)
{
    gpu_launch_at(gpu, device, lane, list, max_blocks, (uintptr_t)list->begin);
}

void gpu_wait(const gpu_lane_t *lane)
{
    gpu_wait_for(lane, lane->sequence);
}

void gpu_wait_for(const gpu_lane_t *lane, uint32_t sequence)
{
    double limit = 0;
    unsigned spins = 0;

    while (!muct_xgmi_flag_reached(*lane->flag, sequence)) {
        if (++spins % 100000 == 0) {
            limit = (limit == 0) ? gpu_now_us() + GPU_PATIENCE_US : limit;
            if (gpu_now_us() > limit) {
                fprintf(stderr, "gpu_limits: the copy kernel does not end\n");
                exit(EXIT_FAILURE);
            }
        }
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}
