/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_PIN_H
#define MUCT_PIN_H

/**
 * @file
 * Host memory that is pinned for the GPUs at most once.
 *
 * Memory that the application has registered is not registered again: the runtime would
 * accept it, and one hipHostUnregister() would end both registrations. So pins of the
 * same memory share one registration, which the last of them ends. UCX keeps pins
 * longer than the application keeps its registration, so each use checks that it still
 * exists. Memory that the runtime refuses to pin stays pageable, and only copy calls
 * may use it.
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
    MUCT_PIN_OTHERS,  /**< The application registered all of it */
    MUCT_PIN_PAGEABLE /**< The runtime refused it, or it must not be pinned */
} muct_pin_state_t;

/** A range of host memory. */
typedef struct muct_pin {
    void *address;
    size_t length;
    uint64_t delta;   /**< Difference of the devices' address and the host's, once
                       *   pinned */
    atomic_int state; /**< @ref muct_pin_state_t */
    struct muct_pin_range *range; /**< The registered range, or NULL */
} muct_pin_t;


/** Describe memory, without a call of the runtime. */
void muct_pin_init(muct_pin_t *pin, void *address, size_t length,
                   muct_pin_state_t state);


/** Slow half of @ref muct_pin. */
void muct_pin_try(const muct_gpu_t *gpu, muct_pin_t *pin);


/** Pin the memory unless this was tried before. @return Whether it was pinned then. */
static inline bool muct_pin(const muct_gpu_t *gpu, muct_pin_t *pin)
{
    if (atomic_load_explicit(&pin->state, memory_order_acquire) == MUCT_PIN_UNTRIED) {
        muct_pin_try(gpu, pin);
    }
    return atomic_load_explicit(&pin->state, memory_order_acquire) != MUCT_PIN_PAGEABLE;
}


/** Whether one registration covers all of the memory now; sets the difference of the
 * devices' address and the host's. */
bool muct_pin_is_covered(const muct_gpu_t *gpu, const muct_pin_t *pin,
                         uint64_t *delta_p);


/** Whether kernels may use the memory now; sets the same difference. Pins it unless
 * this was tried before. */
bool muct_pin_use(const muct_gpu_t *gpu, muct_pin_t *pin, uint64_t *delta_p);


/** Release a pin; the last pin of a range unregisters it. May wait for the device. */
void muct_pin_drop(const muct_gpu_t *gpu, const muct_pin_t *pin);

#endif
