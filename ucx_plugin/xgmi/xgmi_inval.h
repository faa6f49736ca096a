/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_INVAL_H
#define MUCT_XGMI_INVAL_H

/**
 * @file
 * Invalidations of a memory domain. The keys are void at once; the invalidation is over
 * when no other process copies under them.
 *
 * Waiting. The call returns, and its completion is called from the progress of an
 * interface of the domain, in the thread that makes it. The call itself waits in two
 * cases: no interface could make progress, or the completion is UCP's, which lies on
 * the stack of UCP's call and must not be called later. While it waits, it releases the
 * resources of finished copies of this process, so that two processes that wait at the
 * same time wait for copies and not for each other.
 *
 * Timeout. If a living process does not report the end of its copies in time, the
 * completion gets UCS_ERR_TIMED_OUT, and a warning is logged. Copies that it has not
 * started by then will not start. Running copies cannot be called back.
 *
 * Threads. Any, but for @ref muct_xgmi_invals_init and @ref muct_xgmi_invals_cleanup.
 */

#include "xgmi/peer/xgmi_peer.h"
#include "xgmi/peer/xgmi_wake.h"

#include "base/muct_uct_abi.h"

#include <pthread.h>
#include <stdatomic.h>


/** An interface of the domain, which makes progress. */
typedef struct muct_xgmi_inval_watch {
    struct muct_xgmi_inval_watch *next;
    muct_xgmi_wake_t *wake;
} muct_xgmi_inval_watch_t;

/** An invalidated registration. */
typedef struct muct_xgmi_inval_mem {
    uint32_t slot;
    uint64_t address; /**< Start of the memory, for the log */
    uint64_t length;  /**< Bytes of the memory, for the log */
} muct_xgmi_inval_mem_t;

/** Invalidations of one memory domain. */
typedef struct muct_xgmi_invals {
    pthread_mutex_t lock;
    unsigned timeout_ms;
    atomic_uint count;                /**< Unfinished invalidations */
    struct muct_xgmi_inval *head;     /**< Unfinished ones; guarded by the lock */
    muct_xgmi_inval_watch_t *watches; /**< Interfaces; guarded by the lock */
} muct_xgmi_invals_t;


/** Set up the state, before any invalidation and any progress of an interface. */
void muct_xgmi_invals_init(muct_xgmi_invals_t *invals, unsigned timeout_ms);


/** Undo @ref muct_xgmi_invals_init; all interfaces have left. */
void muct_xgmi_invals_cleanup(muct_xgmi_invals_t *invals);


/** Add an interface that will make progress; @a watch is lent until it leaves. */
void muct_xgmi_invals_join(muct_xgmi_invals_t *invals, muct_xgmi_inval_watch_t *watch,
                           muct_xgmi_wake_t *wake);


/** Remove a closing interface. The call for the last one waits for pending
 * invalidations. */
void muct_xgmi_invals_leave(muct_xgmi_invals_t *invals, muct_xgmi_inval_watch_t *watch);


/**
 * Make the keys of a slot void and release it.
 *
 * @param [in] mem   Registration to invalidate; copied.
 * @param [in] comp  Called once, here or from progress, with UCS_OK or
 *                   UCS_ERR_TIMED_OUT.
 */
void muct_xgmi_invals_start(muct_xgmi_invals_t *invals,
                            const muct_xgmi_inval_mem_t *mem, uct_completion_t *comp);


/** Whether an invalidation is not over. */
static inline bool muct_xgmi_invals_are_there(const muct_xgmi_invals_t *invals)
{
    return atomic_load_explicit(&invals->count, memory_order_relaxed) != 0;
}


/** Call the completions of ended invalidations. @return Number of completions. */
unsigned muct_xgmi_invals_progress(muct_xgmi_invals_t *invals);


/**
 * Invalidate the keys of a slot, release the slot, and wait until no other process
 * copies under them. Does not wait for copies of this process itself.
 *
 * @return UCS_OK, or UCS_ERR_TIMED_OUT.
 */
ucs_status_t muct_xgmi_inval_wait(uint32_t slot, unsigned timeout_ms);

#endif
