/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/conformance/ct_hip.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* hipMemcpyDefault: the runtime finds the direction. The number is part of HIP's
 * binary interface; no HIP header is needed to build the tests. */
#define CT_HIP_MEMCPY_DEFAULT 4


static struct {
    int is_tried;
    int num_devices;
    char why[256];
    int (*get_device_count)(int *count);
    int (*set_device)(int device);
    int (*malloc_)(void **addr, size_t length);
    int (*free_)(void *addr);
    int (*memcpy_)(void *to, const void *from, size_t length, int kind);
} ct_hip;


static int ct_hip_bind(void *lib, const char *name, void *slot)
{
    void *func = dlsym(lib, name);

    if (func == NULL) {
        snprintf(ct_hip.why, sizeof(ct_hip.why), "the HIP library lacks %s", name);
        return 0;
    }

    memcpy(slot, &func, sizeof(func));
    return 1;
}

static void *ct_hip_open(void)
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
        snprintf(ct_hip.why, sizeof(ct_hip.why), "no HIP library: %s", dlerror());
    }
    return lib;
}

int ct_hip_num_devices(void)
{
    void *lib;
    int err;

    if (ct_hip.is_tried) {
        return ct_hip.num_devices;
    }

    ct_hip.is_tried = 1;
    lib = ct_hip_open();
    if ((lib == NULL) ||
        !ct_hip_bind(lib, "hipGetDeviceCount", &ct_hip.get_device_count) ||
        !ct_hip_bind(lib, "hipSetDevice", &ct_hip.set_device) ||
        !ct_hip_bind(lib, "hipMalloc", &ct_hip.malloc_) ||
        !ct_hip_bind(lib, "hipFree", &ct_hip.free_) ||
        !ct_hip_bind(lib, "hipMemcpy", &ct_hip.memcpy_)) {
        return 0;
    }

    err = ct_hip.get_device_count(&ct_hip.num_devices);
    if ((err != 0) || (ct_hip.num_devices <= 0)) {
        snprintf(ct_hip.why, sizeof(ct_hip.why), "hipGetDeviceCount returned %d", err);
        ct_hip.num_devices = 0;
    }

    return ct_hip.num_devices;
}

const char *ct_hip_why(void)
{
    return ct_hip.why;
}

int ct_hip_set_device(int device)
{
    return ct_hip.set_device(device) == 0;
}

void *ct_hip_alloc(size_t length)
{
    void *addr = NULL;

    return (ct_hip.malloc_(&addr, length) == 0) ? addr : NULL;
}

int ct_hip_free(void *addr)
{
    return ct_hip.free_(addr) == 0;
}

int ct_hip_copy(void *to, const void *from, size_t length)
{
    return (length == 0) ||
           (ct_hip.memcpy_(to, from, length, CT_HIP_MEMCPY_DEFAULT) == 0);
}
