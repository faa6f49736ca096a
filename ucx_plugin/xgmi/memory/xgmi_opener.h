/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_OPENER_H
#define MUCT_XGMI_OPENER_H

/**
 * @file
 * Opens peers' memory in threads of its own, one for each peer.
 *
 * Opening a handle may wait for the peer's process: ROCr queries it for up to ten
 * seconds. A post, a progress call, or an operation on a different peer must not wait
 * that long. A thread ends when no mapping of its peer is left to be opened.
 *
 * Threads. All calls may be made from several threads, but destroy is the last one.
 */

#include <ucs/type/status.h>

#include <stdbool.h>
#include <stdint.h>


typedef struct muct_xgmi_opener muct_xgmi_opener_t;

/** One allocation to open; a member of the caller's object. */
typedef struct muct_xgmi_opening {
    struct muct_xgmi_opening *next;
    uint64_t owner; /**< Incarnation of the peer; its openings run in order */
    /** Opens the allocation, in the peer's thread, and may free @a opening. */
    void (*run)(struct muct_xgmi_opening *opening);
} muct_xgmi_opening_t;


/** Create one without threads. @return UCS_OK, or UCS_ERR_NO_MEMORY. */
ucs_status_t muct_xgmi_opener_create(muct_xgmi_opener_t **opener_p);


/**
 * Wait until all allocations are opened, and free the opener.
 *
 * @return Whether this took at most @a limit_ms. If not, the opener and its threads
 *         live on, and the memory that they use must stay valid.
 */
bool muct_xgmi_opener_destroy(muct_xgmi_opener_t *opener, unsigned limit_ms);


/**
 * Queue an allocation to be opened after earlier ones of the same peer. Never waits for
 * them.
 *
 * @param [in] opening  Filled in but for @a next; lent until it runs.
 *
 * @return UCS_OK, or UCS_ERR_NO_MEMORY: there is no thread, and it will not run.
 */
ucs_status_t muct_xgmi_opener_add(muct_xgmi_opener_t *opener,
                                  muct_xgmi_opening_t *opening);

#endif
