/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_WAKE_H
#define MUCT_XGMI_WAKE_H

/**
 * @file
 * Wakes the thread that sleeps on an interface's event descriptor: at once, after a
 * time, or when the GPU runtime calls back.
 *
 * The owner puts both descriptors into its set and drains them before it sleeps.
 * Setting a time costs a system call only if no earlier one is set. A callback stops
 * the stream, so the end of short copies is awaited by time.
 *
 * Threads. @ref muct_xgmi_wake_signal and the callback: any, at any time. The others:
 * one at a time.
 */

#include "base/muct_gpu.h"

#include <ucs/type/status.h>

#include <stdbool.h>
#include <stdint.h>


/** Freed with its last reference, as a callback may run after the interface's end. */
typedef struct muct_xgmi_wake {
    int event_fd;  /**< Readable: signalled */
    int timer_fd;  /**< Readable: the time has expired */
    unsigned refs; /**< One of the interface, and one per callback */
    bool is_armed; /**< A thread may sleep; to be signalled once */
    bool is_aside; /**< A thread sleeps to let others post; signal it once when an
                      operation waits for progress */
    uint64_t timer_at_ns; /**< Time timer_fd becomes readable; 0: never */
} muct_xgmi_wake_t;


/**
 * Create with one reference.
 *
 * @return UCS_OK, UCS_ERR_NO_MEMORY, or UCS_ERR_IO_ERROR with the reason in the log.
 */
ucs_status_t muct_xgmi_wake_create(muct_xgmi_wake_t **wake_p);


/** Return a reference. */
void muct_xgmi_wake_put(muct_xgmi_wake_t *wake);


/** Current time in nanoseconds, of the clock that all times here refer to. */
uint64_t muct_xgmi_wake_now_ns(void);


/** Wake the sleeping thread, or the next thread that would sleep. */
void muct_xgmi_wake_signal(muct_xgmi_wake_t *wake);


/** Wake the thread for new work of progress, if it sleeps and was not woken yet. */
static inline void muct_xgmi_wake_if_armed(muct_xgmi_wake_t *wake)
{
    if (wake->is_armed) {
        wake->is_armed = false;
        muct_xgmi_wake_signal(wake);
    }
}


/** Wake the thread for an operation that waits for progress, also from a sleep that
 * lets others post. */
static inline void muct_xgmi_wake_hurry(muct_xgmi_wake_t *wake)
{
    if (wake->is_armed || wake->is_aside) {
        wake->is_armed = false;
        wake->is_aside = false;
        muct_xgmi_wake_signal(wake);
    }
}


/**
 * Wake the sleeping thread after @a delay_ns, or earlier.
 *
 * @return UCS_OK, or UCS_ERR_IO_ERROR: nothing will wake it.
 */
ucs_status_t muct_xgmi_wake_in(muct_xgmi_wake_t *wake, uint64_t now_ns,
                               uint64_t delay_ns);


/** Sleep until a signal, or for at most the given time. */
void muct_xgmi_wake_sleep(muct_xgmi_wake_t *wake, uint64_t ns);


/** Clear the wakeup. @return Whether it was signalled since the last call. */
bool muct_xgmi_wake_drain(muct_xgmi_wake_t *wake, uint64_t now_ns);


/**
 * Signal the wakeup when the work now in a stream has completed. The stream stalls
 * during the callback.
 *
 * @return Result of hipStreamAddCallback().
 */
int muct_xgmi_wake_after(muct_xgmi_wake_t *wake, const muct_gpu_t *gpu,
                         muct_hip_stream_t stream);

#endif
