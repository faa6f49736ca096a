/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_LEAVE_H
#define MUCT_XGMI_LEAVE_H

/**
 * @file
 * Whether a thread that makes progress should leave a list that is over to the thread
 * that posted it. Pure: the caller says what time it is.
 *
 * Many operations were posted one by one; each is told to UCX when the list is over.
 * Their requests are in the cache of the processor that posted them. Told by another
 * one, under the lock that the posts need, they cost two to three times as much, and
 * the next post of the same request costs more as well. So who only makes progress
 * leaves such a list, for a while, to a thread that was seen to make progress itself:
 * as long as that goes on posting, or for some microseconds behind its last post.
 *
 * Threads. One at a time.
 */

#include <stdbool.h>
#include <stdint.h>

/** Longest that a list is left behind the last post */
#define MUCT_XGMI_LEAVE_BEHIND_NS 20000

/** Longest that a list is left */
#define MUCT_XGMI_LEAVE_MAX_NS 500000


/** State of the thread that posts. */
typedef struct muct_xgmi_leave {
    bool comes; /**< The thread makes progress, and came for the lists left to it */
    uint64_t over_at;   /**< First look at what is left; 0: nothing is */
    uint64_t posted;    /**< Count of its posts at the last look */
    uint64_t posted_at; /**< Look that last found more, in nanoseconds */
} muct_xgmi_leave_t;


/** The thread that posted makes progress itself. */
static inline void muct_xgmi_leave_came(muct_xgmi_leave_t *leave)
{
    leave->comes = true;
}


/** Nothing that was left is there any more. */
static inline void muct_xgmi_leave_end(muct_xgmi_leave_t *leave)
{
    leave->over_at = 0;
}


/** Whether something is left, so that it must be looked at again. */
static inline bool muct_xgmi_leave_is_on(const muct_xgmi_leave_t *leave)
{
    return leave->over_at != 0;
}


/**
 * Another thread than the one that posted looks at a list that is over.
 *
 * @param [in] posted  Number that grows with what is posted.
 * @param [in] now_ns  A clock that does not jump.
 *
 * @return Whether to leave it.
 */
bool muct_xgmi_leave_should(muct_xgmi_leave_t *leave, uint64_t posted, uint64_t now_ns);

#endif
