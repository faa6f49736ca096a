/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_GATHER_H
#define MUCT_XGMI_GATHER_H

/**
 * @file
 * Decides whether the open list of a queue should wait for more operations. Pure: the
 * caller passes the time.
 *
 * A thread that posts and then makes progress has nothing more to post: its list starts
 * at once. If another thread makes progress all the time, each of its calls finds the
 * few operations posted since the last one. A launch for these costs the posting thread
 * more than it saves, because both need the worker's lock. So that thread lets a list
 * grow while operations keep coming. It starts the list in three cases: no operation
 * came for a few times the usual interval, a caller waits for the list, or the oldest
 * operation has waited long enough.
 *
 * Threads. A single thread at a time.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Number of successive lists of one operation, with nothing in flight, after which the
 * next one is expected to be alike
 */
#define MUCT_XGMI_GATHER_ALONE 8

/** Longest time that a list grows while another thread makes progress */
#define MUCT_XGMI_GATHER_MAX_NS 250000


/** Statistics of the operations of the open list. */
typedef struct muct_xgmi_gather {
    pthread_t thread;     /**< Thread that opened the list */
    bool is_urgent;       /**< A caller waits for the list */
    size_t count;         /**< Operations at the last check */
    size_t num_closed;    /**< Operations of started lists that no check has counted */
    unsigned num_alone;   /**< Successive lists that had one operation and nothing in
                           *   flight before */
    uint64_t opened_at;   /**< Time of the first check of the open list, in ns */
    uint64_t row_at;      /**< Time at which the series without a pause began, in ns */
    uint64_t grown_at;    /**< Time of the last check that found new operations */
    uint64_t interval_ns; /**< Average time between two operations */
} muct_xgmi_gather_t;


/**
 * The calling thread opens a list.
 *
 * @param [in] is_at_rest  Nothing that was started before is in flight.
 */
void muct_xgmi_gather_open(muct_xgmi_gather_t *gather, bool is_at_rest);


/**
 * Whether the list will probably have one operation only, as the previous lists did,
 * because the posting thread waits for each completion.
 */
static inline bool muct_xgmi_gather_is_alone(const muct_xgmi_gather_t *gather)
{
    return gather->num_alone >= MUCT_XGMI_GATHER_ALONE;
}


/** Close the list, which has so many operations; the next operation opens a new list.
 */
static inline void muct_xgmi_gather_close(muct_xgmi_gather_t *gather, size_t count)
{
    gather->num_alone = (count == 1) ? gather->num_alone + 1 : 0;
    gather->num_closed += count - gather->count;
    gather->count = 0;
}


/** Stop gathering, because a caller waits for the operations of the list. */
static inline void muct_xgmi_gather_hurry(muct_xgmi_gather_t *gather)
{
    gather->is_urgent = true;
}


/** Whether another thread fills the list and no caller waits for it. */
static inline bool muct_xgmi_gather_is_open_ended(const muct_xgmi_gather_t *gather)
{
    return !gather->is_urgent && !pthread_equal(gather->thread, pthread_self());
}


/**
 * Check the list, from progress.
 *
 * @param [in] count   Operations in the list now.
 * @param [in] now_ns  A clock that does not jump.
 *
 * @return Whether it should wait for more.
 */
bool muct_xgmi_gather_should_wait(muct_xgmi_gather_t *gather, size_t count,
                                  uint64_t now_ns);


/**
 * Whether another thread has filled the list for so long that polling it again at once
 * is useless.
 */
bool muct_xgmi_gather_is_steady(const muct_xgmi_gather_t *gather, uint64_t now_ns);

#endif
