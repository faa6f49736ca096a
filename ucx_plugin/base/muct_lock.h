/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOCK_H
#define MUCT_LOCK_H

/**
 * @file
 * Locks of the process in forked children, and the lock of a worker.
 *
 * The lock of a worker that several threads use. UCP takes it around every call of a
 * transport, so a thread that has nothing to do is in the way of those that have. What
 * is to leave it for a while can do so where UCP keeps nothing across the call: in
 * arming that ends in UCS_ERR_BUSY, behind which ucp_worker_arm() looks at nothing and
 * returns.
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

/** Free a lock in forked children: the thread that held it at the fork is not there.
 * What the lock guards must be of use at every step of a change. */
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


/** Enter it again. */
static inline void muct_lock_enter(ucs_async_context_t *async)
{
    ucs_recursive_spin_lock(muct_abi_async_lock(async));
}

#endif
