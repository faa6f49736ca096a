/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_hip.h"
#include "test/fake/hip/hipcpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* hipMemcpyDefault: the runtime finds the direction. The number is part of HIP's
 * binary interface; no HIP header is needed to build the tests. */
#define MKV_HIP_MEMCPY_DEFAULT 4


static struct {
    int is_tried;
    int num_devices;
    char why[256];
    int (*get_device_count)(int *count);
    int (*set_device)(int device);
    int (*get_device)(int *device);
    int (*malloc_)(void **addr, size_t length);
    int (*free_)(void *addr);
    int (*host_malloc)(void **addr, size_t length, unsigned flags);
    int (*host_free)(void *addr);
    int (*mem_get_info)(size_t *available, size_t *total);
    int (*memcpy_)(void *to, const void *from, size_t length, int kind);
    int (*get_last_error)(void);
    int (*pointer_get_attributes)(void *attributes, const void *addr);
    unsigned long (*copied)(hipcpu_direction_t direction); /* NULL: not libhipcpu */
} mkv_hip;

/* Part of hipPointerAttribute_t that all versions have at this place. */
typedef struct mkv_hip_attributes {
    int type; /* its values are not the same in all */
    int device;
    void *device_pointer;
    void *host_pointer; /* NULL for memory of a device */
    char rest[232];
} mkv_hip_attributes_t;


static int mkv_hip_bind(void *lib, const char *name, void *slot)
{
    void *func = dlsym(lib, name);

    if (func == NULL) {
        snprintf(mkv_hip.why, sizeof(mkv_hip.why), "the HIP library lacks %s", name);
        return 0;
    }

    memcpy(slot, &func, sizeof(func));
    return 1;
}

static void *mkv_hip_open(void)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                        "libamdhip64.so.5"};
    const char *path = getenv("UCX_MORI_TEST_HIP");
    void *lib = NULL;
    size_t i;

    if (path != NULL) {
        lib = dlopen(path, RTLD_NOW);
    }

    for (i = 0; (path == NULL) && (lib == NULL) && (i < 3); ++i) {
        lib = dlopen(names[i], RTLD_NOW);
    }

    if (lib == NULL) {
        snprintf(mkv_hip.why, sizeof(mkv_hip.why), "no HIP library: %s", dlerror());
    }
    return lib;
}

int mkv_hip_num_devices(void)
{
    void *lib, *copied;
    int err;

    if (mkv_hip.is_tried) {
        return mkv_hip.num_devices;
    }

    mkv_hip.is_tried = 1;
    lib = mkv_hip_open();
    if ((lib == NULL) ||
        !mkv_hip_bind(lib, "hipGetDeviceCount", &mkv_hip.get_device_count) ||
        !mkv_hip_bind(lib, "hipSetDevice", &mkv_hip.set_device) ||
        !mkv_hip_bind(lib, "hipGetDevice", &mkv_hip.get_device) ||
        !mkv_hip_bind(lib, "hipMalloc", &mkv_hip.malloc_) ||
        !mkv_hip_bind(lib, "hipFree", &mkv_hip.free_) ||
        !mkv_hip_bind(lib, "hipHostMalloc", &mkv_hip.host_malloc) ||
        !mkv_hip_bind(lib, "hipHostFree", &mkv_hip.host_free) ||
        !mkv_hip_bind(lib, "hipMemGetInfo", &mkv_hip.mem_get_info) ||
        !mkv_hip_bind(lib, "hipMemcpy", &mkv_hip.memcpy_) ||
        !mkv_hip_bind(lib, "hipGetLastError", &mkv_hip.get_last_error) ||
        !mkv_hip_bind(lib, "hipPointerGetAttributes",
                      &mkv_hip.pointer_get_attributes)) {
        return 0;
    }

    err = mkv_hip.get_device_count(&mkv_hip.num_devices);
    if ((err != 0) || (mkv_hip.num_devices <= 0)) {
        snprintf(mkv_hip.why, sizeof(mkv_hip.why), "hipGetDeviceCount returned %d",
                 err);
        mkv_hip.num_devices = 0;
    }

    copied = dlsym(lib, "hipcpu_copied");
    memcpy(&mkv_hip.copied, &copied, sizeof(copied));
    return mkv_hip.num_devices;
}

const char *mkv_hip_why(void)
{
    return mkv_hip.why;
}

int mkv_hip_set_device(int device)
{
    return (mkv_hip_num_devices() > 0) && (mkv_hip.set_device(device) == 0);
}

int mkv_hip_current_device(void)
{
    int device;

    return ((mkv_hip_num_devices() > 0) && (mkv_hip.get_device(&device) == 0)) ? device
                                                                               : -1;
}

void *mkv_hip_alloc(size_t length)
{
    void *addr = NULL;

    if (mkv_hip_num_devices() == 0) {
        return NULL;
    }

    return (mkv_hip.malloc_(&addr, length) == 0) ? addr : NULL;
}

int mkv_hip_free(void *addr)
{
    return mkv_hip.free_(addr) == 0;
}

void *mkv_hip_alloc_host(size_t length)
{
    void *addr = NULL;

    return ((mkv_hip_num_devices() > 0) && (mkv_hip.host_malloc(&addr, length, 0) == 0))
               ? addr
               : NULL;
}

int mkv_hip_free_host(void *addr)
{
    return mkv_hip.host_free(addr) == 0;
}

size_t mkv_hip_free_bytes(void)
{
    size_t available = 0, total;

    return ((mkv_hip_num_devices() > 0) &&
            (mkv_hip.mem_get_info(&available, &total) == 0))
               ? available
               : 0;
}

int mkv_hip_copy(void *to, const void *from, size_t length)
{
    return (length == 0) ||
           (mkv_hip.memcpy_(to, from, length, MKV_HIP_MEMCPY_DEFAULT) == 0);
}

int mkv_hip_copied(uint64_t *from_host, uint64_t *to_host)
{
    if ((mkv_hip_num_devices() == 0) || (mkv_hip.copied == NULL)) {
        return 0;
    }

    *from_host =
        mkv_hip.copied(HIPCPU_HOST_TO_DEVICE) + mkv_hip.copied(HIPCPU_HOST_TO_HOST);
    *to_host =
        mkv_hip.copied(HIPCPU_DEVICE_TO_HOST) + mkv_hip.copied(HIPCPU_HOST_TO_HOST);
    return 1;
}

int mkv_hip_device_of(const void *addr)
{
    mkv_hip_attributes_t attributes = {.device = -1};

    if ((mkv_hip_num_devices() == 0) ||
        (mkv_hip.pointer_get_attributes(&attributes, addr) != 0) ||
        (attributes.device_pointer == NULL) || (attributes.host_pointer != NULL)) {
        return -1;
    }

    return attributes.device;
}

int mkv_hip_last_error(void)
{
    return (mkv_hip.num_devices > 0) ? mkv_hip.get_last_error() : 0;
}
