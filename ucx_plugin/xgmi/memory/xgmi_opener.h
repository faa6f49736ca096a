/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_OPENER_H
#define MUCT_XGMI_OPENER_H

/**
 * @file
 * Opens peers' memory in threads of its own, one for each peer.
 *
 * Opening a handle may wait for the peer's process: ROCr queries it for up to ten
 * seconds. A post, a progress call, or an operation on a different peer must not wait
 * so long. A thread ends when no mapping of its peer is left to be opened.
 *
 * Threads. All calls may be made from several threads, but destroy is the last one.
 */

#include <ucs/type/status.h>

#include <stdbool.h>
#include <stdint.h>


typedef struct muct_xgmi_opener muct_xgmi_opener_t;

/** Something to be opened; lies in what its user has of it. */
typedef struct muct_xgmi_opening {
    struct muct_xgmi_opening *next;
    uint64_t owner; /**< The peer */
    /** Opens it, in the peer's thread, and may free it. */
    void (*run)(struct muct_xgmi_opening *opening);
} muct_xgmi_opening_t;


/** Create one without threads. @return UCS_OK, or UCS_ERR_NO_MEMORY. */
ucs_status_t muct_xgmi_opener_create(muct_xgmi_opener_t **opener_p);


/**
 * Wait until all is opened, and free the opener.
 *
 * @return Whether it was within @a limit_ms; else the opener and its threads stay, and
 *         what they use has to stay, too.
 */
bool muct_xgmi_opener_destroy(muct_xgmi_opener_t *opener, unsigned limit_ms);


/**
 * Open something soon, behind what is there of the same peer. Never waits for that.
 *
 * @param [in] opening  Filled in but for @a next; lent until it runs.
 *
 * @return UCS_OK, or UCS_ERR_NO_MEMORY: there is no thread, and it will not run.
 */
ucs_status_t muct_xgmi_opener_add(muct_xgmi_opener_t *opener,
                                  muct_xgmi_opening_t *opening);

#endif
