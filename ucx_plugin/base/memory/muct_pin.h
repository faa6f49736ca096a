/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_PIN_H
#define MUCT_PIN_H

/**
 * @file
 * Host memory that is pinned for the GPUs at most once.
 *
 * Memory that the application, or another transport, has registered stays as it is: the
 * runtime accepts a second registration, and one hipHostUnregister() ends both. Memory
 * that the runtime refuses to pin stays pageable, and only copy calls may use it.
 *
 * Threads. All calls may be made from several threads, but drop is the last one.
 */

#include "base/muct_gpu.h"

#include <stdatomic.h>
#include <stdbool.h>

/** State of a range of host memory. */
typedef enum muct_pin_state {
    MUCT_PIN_UNTRIED,
    MUCT_PIN_OURS,    /**< Registered here */
    MUCT_PIN_OTHERS,  /**< All of it is registered by others */
    MUCT_PIN_PAGEABLE /**< The runtime refused it, or it is not to be pinned */
} muct_pin_state_t;

/** A range of host memory. */
typedef struct muct_pin {
    void *address;
    size_t length;
    uint64_t delta;   /**< Add it to an address to get the devices'; once pinned */
    atomic_int state; /**< @ref muct_pin_state_t */
} muct_pin_t;


/** Describe memory; nothing is called. */
void muct_pin_init(muct_pin_t *pin, void *address, size_t length,
                   muct_pin_state_t state);


/** Slow half of @ref muct_pin. */
void muct_pin_try(const muct_gpu_t *gpu, muct_pin_t *pin);


/** Pin the memory unless this was tried before. @return Whether kernels may use it. */
static inline bool muct_pin(const muct_gpu_t *gpu, muct_pin_t *pin)
{
    if (atomic_load_explicit(&pin->state, memory_order_acquire) == MUCT_PIN_UNTRIED) {
        muct_pin_try(gpu, pin);
    }
    return atomic_load_explicit(&pin->state, memory_order_acquire) != MUCT_PIN_PAGEABLE;
}


/** Whether one registration of others covers all of the memory; sets its delta. */
bool muct_pin_is_covered(const muct_gpu_t *gpu, muct_pin_t *pin);


/** Unpin what was pinned here. */
void muct_pin_drop(const muct_gpu_t *gpu, const muct_pin_t *pin);

#endif
