/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/memory/muct_pin.h"

#include "base/muct_log.h"

#include <pthread.h>

/* Guards all memory that is being pinned: two handles may be of the same memory. */
static pthread_mutex_t muct_pin_lock = PTHREAD_MUTEX_INITIALIZER;


void muct_pin_init(muct_pin_t *pin, void *address, size_t length,
                   muct_pin_state_t state)
{
    pin->address = address;
    pin->length = length;
    pin->delta = 0;
    atomic_init(&pin->state, state);
}

static bool muct_pin_find(const muct_gpu_t *gpu, void *address, uint64_t *delta_p)
{
    void *device_address;
    int ret;

    ret = gpu->host_get_device_pointer(&device_address, address, 0);
    if (muct_gpu_forget(gpu, ret) != MUCT_HIP_SUCCESS) {
        *delta_p = 0;
        return false;
    }

    *delta_p = (uintptr_t)device_address - (uintptr_t)address;
    return true;
}

static bool muct_pin_is_known(const muct_gpu_t *gpu, void *address)
{
    void *base;
    size_t size;
    int ret;

    ret = gpu->mem_get_address_range(&base, &size, address);
    return muct_gpu_forget(gpu, ret) == MUCT_HIP_SUCCESS;
}

bool muct_pin_is_covered(const muct_gpu_t *gpu, muct_pin_t *pin)
{
    char *last = (char *)pin->address + pin->length - 1;
    uint64_t delta;
    size_t size;
    void *base;
    int ret;

    if (!muct_pin_find(gpu, pin->address, &pin->delta) ||
        !muct_pin_find(gpu, last, &delta) || (delta != pin->delta)) {
        return false;
    }

    ret = gpu->mem_get_address_range(&base, &size, pin->address);
    return (muct_gpu_forget(gpu, ret) != MUCT_HIP_SUCCESS) ||
           ((size_t)(last - (char *)base) < size);
}

static muct_pin_state_t muct_pin_register(const muct_gpu_t *gpu, muct_pin_t *pin)
{
    int mode, ret;

    if (muct_pin_is_covered(gpu, pin)) {
        return MUCT_PIN_OTHERS;
    }
    if (muct_pin_is_known(gpu, pin->address) ||
        muct_pin_is_known(gpu, (char *)pin->address + pin->length - 1)) {
        muct_debug("%p length %zu is registered in part, and stays as it is",
                   pin->address, pin->length);
        return MUCT_PIN_PAGEABLE;
    }

    mode = muct_gpu_relax(gpu);
    ret =
        gpu->host_register(pin->address, pin->length, MUCT_HIP_HOST_REGISTER_PORTABLE);
    (void)muct_gpu_forget(gpu, ret);
    if ((ret == MUCT_HIP_SUCCESS) && !muct_pin_find(gpu, pin->address, &pin->delta)) {
        ret = gpu->host_unregister(pin->address);
        (void)muct_gpu_forget(gpu, ret);
        ret = MUCT_HIP_INVALID_VALUE;
    }
    muct_gpu_unrelax(gpu, mode);
    if (ret == MUCT_HIP_SUCCESS) {
        return MUCT_PIN_OURS;
    }

    muct_diag("%p length %zu is copied without being pinned: hipHostRegister() failed: "
              "%s",
              pin->address, pin->length, muct_gpu_error_name(gpu, ret));
    return MUCT_PIN_PAGEABLE;
}

void muct_pin_try(const muct_gpu_t *gpu, muct_pin_t *pin)
{
    pthread_mutex_lock(&muct_pin_lock);
    if (atomic_load_explicit(&pin->state, memory_order_relaxed) == MUCT_PIN_UNTRIED) {
        atomic_store_explicit(&pin->state, muct_pin_register(gpu, pin),
                              memory_order_release);
    }
    pthread_mutex_unlock(&muct_pin_lock);
}

void muct_pin_drop(const muct_gpu_t *gpu, const muct_pin_t *pin)
{
    int mode, ret;

    if (atomic_load_explicit(&pin->state, memory_order_acquire) != MUCT_PIN_OURS) {
        return;
    }

    mode = muct_gpu_relax(gpu);
    ret = gpu->host_unregister(pin->address);
    muct_gpu_unrelax(gpu, mode);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_warn("hipHostUnregister(%p length %zu) failed: %s", pin->address,
                  pin->length, muct_gpu_error_name(gpu, ret));
    }
}
