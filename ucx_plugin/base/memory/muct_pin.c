/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/memory/muct_pin.h"

#include "base/muct_lock.h"
#include "base/muct_log.h"

#include <pthread.h>
#include <stdlib.h>

/** A range registered by this file, with the number of pins on it. */
struct muct_pin_range {
    struct muct_pin_range *next;
    char *address;
    size_t length;
    uint64_t delta;
    unsigned refs;      /* 0: it is being unregistered, without the lock */
    unsigned num_whole; /* Pins of the whole range, which keep its pages mapped */
    bool is_new;        /* It is being registered, without the lock */
};

/* Guards the ranges and all memory that is being pinned. */
static pthread_mutex_t muct_pin_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t muct_pin_registered = PTHREAD_COND_INITIALIZER;
static struct muct_pin_range *muct_pin_ranges;

/* A child never finishes what another thread was registering or unregistering at the
 * fork
 */
static void muct_pin_forked(void)
{
    struct muct_pin_range **link = &muct_pin_ranges;

    (void)pthread_mutex_init(&muct_pin_lock, NULL);
    (void)pthread_cond_init(&muct_pin_registered, NULL);
    while (*link != NULL) {
        if ((*link)->is_new || ((*link)->refs == 0)) {
            *link = (*link)->next;
        } else {
            link = &(*link)->next;
        }
    }
}
MUCT_CALL_IN_CHILD(muct_pin_forked)


void muct_pin_init(muct_pin_t *pin, void *address, size_t length,
                   muct_pin_state_t state)
{
    pin->address = address;
    pin->length = length;
    pin->delta = 0;
    pin->range = NULL;
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

bool muct_pin_is_covered(const muct_gpu_t *gpu, const muct_pin_t *pin,
                         uint64_t *delta_p)
{
    char *last = (char *)pin->address + pin->length - 1;
    uint64_t delta;
    size_t size;
    void *base;
    int ret;

    if (!muct_pin_find(gpu, pin->address, delta_p) ||
        !muct_pin_find(gpu, last, &delta) || (delta != *delta_p)) {
        return false;
    }

    ret = gpu->mem_get_address_range(&base, &size, pin->address);
    return (muct_gpu_forget(gpu, ret) != MUCT_HIP_SUCCESS) ||
           ((size_t)(last - (char *)base) < size);
}

/* Locked. Find a range that overlaps the memory, or NULL. */
static struct muct_pin_range *muct_pin_range_of(const muct_pin_t *pin)
{
    const char *address = pin->address;
    struct muct_pin_range *range = muct_pin_ranges;

    while ((range != NULL) && ((address >= range->address + range->length) ||
                               (range->address >= address + pin->length))) {
        range = range->next;
    }
    return range;
}

static bool muct_pin_is_whole(const muct_pin_t *pin, const struct muct_pin_range *range)
{
    return (pin->address == range->address) && (pin->length == range->length);
}

/* Locked. Use an existing range. Without a pin of the whole range, other memory may be
 * mapped at some of its addresses, which the runtime does not detect. */
static muct_pin_state_t muct_pin_share(muct_pin_t *pin, struct muct_pin_range *range)
{
    const char *address = pin->address;

    if ((range->refs == 0) || (range->num_whole == 0) || (address < range->address) ||
        (address + pin->length > range->address + range->length)) {
        muct_debug("%p length %zu is registered in part, and stays as it is",
                   pin->address, pin->length);
        return MUCT_PIN_PAGEABLE;
    }

    ++range->refs;
    range->num_whole += muct_pin_is_whole(pin, range);
    pin->range = range;
    pin->delta = range->delta;
    return MUCT_PIN_OURS;
}

/* Locked. @return NULL without memory. */
static struct muct_pin_range *muct_pin_range_add(const muct_pin_t *pin)
{
    struct muct_pin_range *range = malloc(sizeof(*range));

    if (range != NULL) {
        *range = (struct muct_pin_range){.next = muct_pin_ranges,
                                         .address = pin->address,
                                         .length = pin->length,
                                         .refs = 1,
                                         .num_whole = 1,
                                         .is_new = true};
        muct_pin_ranges = range;
    }
    return range;
}

/* Locked. */
static void muct_pin_unlink(const struct muct_pin_range *range)
{
    struct muct_pin_range **link = &muct_pin_ranges;

    while (*link != range) {
        link = &(*link)->next;
    }
    *link = range->next;
}

/* Takes milliseconds for large memory. @return The runtime's error. */
static int muct_pin_call(const muct_gpu_t *gpu, muct_pin_t *pin)
{
    int mode = muct_gpu_relax(gpu), ret;

    ret =
        gpu->host_register(pin->address, pin->length, MUCT_HIP_HOST_REGISTER_PORTABLE);
    (void)muct_gpu_forget(gpu, ret);
    if ((ret == MUCT_HIP_SUCCESS) && !muct_pin_find(gpu, pin->address, &pin->delta)) {
        ret = gpu->host_unregister(pin->address);
        (void)muct_gpu_forget(gpu, ret);
        ret = MUCT_HIP_INVALID_VALUE;
    }
    muct_gpu_unrelax(gpu, mode);
    return ret;
}

/* Locked; other threads pin other memory during the call. */
static muct_pin_state_t muct_pin_register(const muct_gpu_t *gpu, muct_pin_t *pin)
{
    struct muct_pin_range *range = muct_pin_range_of(pin);
    int ret;

    if (range != NULL) {
        return muct_pin_share(pin, range);
    }
    if (muct_pin_is_covered(gpu, pin, &pin->delta)) {
        return MUCT_PIN_OTHERS;
    }
    if (muct_pin_is_known(gpu, pin->address) ||
        muct_pin_is_known(gpu, (char *)pin->address + pin->length - 1)) {
        muct_debug("%p length %zu is registered in part, and stays as it is",
                   pin->address, pin->length);
        return MUCT_PIN_PAGEABLE;
    }

    range = muct_pin_range_add(pin);
    if (range == NULL) {
        return MUCT_PIN_PAGEABLE;
    }
    pthread_mutex_unlock(&muct_pin_lock);
    ret = muct_pin_call(gpu, pin);
    pthread_mutex_lock(&muct_pin_lock);
    range->is_new = false;
    pthread_cond_broadcast(&muct_pin_registered);
    if (ret == MUCT_HIP_SUCCESS) {
        range->delta = pin->delta;
        pin->range = range;
        return MUCT_PIN_OURS;
    }
    muct_pin_unlink(range);
    free(range);

    muct_diag("%p length %zu is copied without being pinned: hipHostRegister() failed: "
              "%s",
              pin->address, pin->length, muct_gpu_error_name(gpu, ret));
    return MUCT_PIN_PAGEABLE;
}

void muct_pin_try(const muct_gpu_t *gpu, muct_pin_t *pin)
{
    const struct muct_pin_range *range;

    pthread_mutex_lock(&muct_pin_lock);
    while (((range = muct_pin_range_of(pin)) != NULL) && range->is_new) {
        pthread_cond_wait(&muct_pin_registered, &muct_pin_lock);
    }
    if (atomic_load_explicit(&pin->state, memory_order_relaxed) == MUCT_PIN_UNTRIED) {
        atomic_store_explicit(&pin->state, muct_pin_register(gpu, pin),
                              memory_order_release);
    }
    pthread_mutex_unlock(&muct_pin_lock);
}

bool muct_pin_use(const muct_gpu_t *gpu, muct_pin_t *pin, uint64_t *delta_p)
{
    if (!muct_pin(gpu, pin)) {
        return false;
    }
    if (atomic_load_explicit(&pin->state, memory_order_acquire) == MUCT_PIN_OTHERS) {
        return muct_pin_is_covered(gpu, pin, delta_p);
    }

    *delta_p = pin->delta;
    return true;
}

void muct_pin_drop(const muct_gpu_t *gpu, const muct_pin_t *pin)
{
    struct muct_pin_range *range = pin->range;
    bool is_last;
    int mode, ret;

    if (range == NULL) {
        return;
    }

    pthread_mutex_lock(&muct_pin_lock);
    range->num_whole -= muct_pin_is_whole(pin, range);
    is_last = (--range->refs == 0);
    pthread_mutex_unlock(&muct_pin_lock);
    if (!is_last) {
        return;
    }

    /* this may wait for the device */
    mode = muct_gpu_relax(gpu);
    ret = gpu->host_unregister(range->address);
    muct_gpu_unrelax(gpu, mode);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_warn("hipHostUnregister(%p length %zu) failed: %s", (void *)range->address,
                  range->length, muct_gpu_error_name(gpu, ret));
    }

    pthread_mutex_lock(&muct_pin_lock);
    muct_pin_unlink(range);
    pthread_mutex_unlock(&muct_pin_lock);
    free(range);
}
