/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOCK_H
#define MUCT_LOCK_H

/**
 * @file
 * Locks of the process in forked children, and the lock of a worker.
 *
 * The lock of a worker that several threads use. UCP takes it around every call of a
 * transport, so an idle thread blocks busy ones. A transport can release it for a while
 * where UCP keeps no state across the call: in an arming call that returns
 * UCS_ERR_BUSY, after which ucp_worker_arm() returns at once.
 *
 * Threads. Any.
 */

#include "base/muct_uct_abi.h"

#include <pthread.h>
#include <stdbool.h>


/** Call a function in each forked child, once @ref muct_lock_watch_forks was called. A
 * core has no constructors, as they would run before it is bound to UCX. */
#define MUCT_CALL_IN_CHILD(_function)                                                  \
    static void (*const _function##_entry)(void)                                       \
        __attribute__((used, section("muct_in_child"))) = _function;

/** Unlock a lock in forked children, which lack the thread that held it at the fork.
 * The guarded data must be valid at every step of a change. */
#define MUCT_FREE_IN_CHILD(_name, _lock)                                               \
    static void _name##_free_in_child(void)                                            \
    {                                                                                  \
        (void)pthread_mutex_init(_lock, NULL);                                         \
    }                                                                                  \
    MUCT_CALL_IN_CHILD(_name##_free_in_child)

/** Begin to call these functions in forked children. */
void muct_lock_watch_forks(void);


/**
 * Release the worker's lock.
 *
 * @return Whether the calling thread held it exactly once and has released it; the
 *         caller must take it again before it returns to UCP. False for a worker of one
 *         thread, for a mutex (UCX_USE_MT_MUTEX), and within a nested call.
 */
static inline bool muct_lock_leave(ucs_async_context_t *async)
{
    ucs_recursive_spinlock_t *lock = muct_abi_async_lock(async);

    if ((lock->count != 1) || !ucs_recursive_spin_is_owner(lock, pthread_self())) {
        return false;
    }

    ucs_recursive_spin_unlock(lock);
    return true;
}


/** Take the worker's lock again. */
static inline void muct_lock_enter(ucs_async_context_t *async)
{
    ucs_recursive_spin_lock(muct_abi_async_lock(async));
}

#endif
