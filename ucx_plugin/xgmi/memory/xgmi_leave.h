/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_LEAVE_H
#define MUCT_XGMI_LEAVE_H

/**
 * @file
 * Whether a progress thread should leave a finished list to the thread that posted it.
 * The functions are pure: the caller passes the time.
 *
 * A list may hold many operations that were posted one by one; UCX gets a completion
 * for each when the list is over. Their requests are in the cache of the processor that
 * posted them. Another processor needs two to three times as long to complete them,
 * under the lock that posts need, and the next post of the same request costs more as
 * well. So a thread that only makes progress leaves such a list for a while to its
 * posting thread, if that thread makes progress as well. That time ends some
 * microseconds after the thread's last post.
 *
 * Threads. One at a time.
 */

#include <stdbool.h>
#include <stdint.h>

/** Longest time for which a list is left to its thread after the last post */
#define MUCT_XGMI_LEAVE_BEHIND_NS 20000

/** Longest that a list is left */
#define MUCT_XGMI_LEAVE_MAX_NS 500000


/** State of the thread that posts. */
typedef struct muct_xgmi_leave {
    bool comes; /**< The posting thread makes progress and has completed the lists left
                   to it */
    uint64_t over_at;   /**< Time of the first check of the list that is left, in ns;
                         *   0: no list is left */
    uint64_t posted;    /**< Number of the thread's posts at the last check */
    uint64_t posted_at; /**< Time of the last check that found more posts, in ns */
} muct_xgmi_leave_t;


/** Record that the posting thread makes progress itself. */
static inline void muct_xgmi_leave_came(muct_xgmi_leave_t *leave)
{
    leave->comes = true;
}


/** Record that all batches that were left have ended. */
static inline void muct_xgmi_leave_end(muct_xgmi_leave_t *leave)
{
    leave->over_at = 0;
}


/** Whether a batch was left and must be checked again. */
static inline bool muct_xgmi_leave_is_on(const muct_xgmi_leave_t *leave)
{
    return leave->over_at != 0;
}


/**
 * Decide on a finished list that the calling thread did not post.
 *
 * @param [in] posted  Number that grows with each post.
 * @param [in] now_ns  A clock that does not jump.
 *
 * @return Whether to leave it.
 */
bool muct_xgmi_leave_should(muct_xgmi_leave_t *leave, uint64_t posted, uint64_t now_ns);

#endif
