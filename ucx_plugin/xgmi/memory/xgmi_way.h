/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_WAY_H
#define MUCT_XGMI_WAY_H

/**
 * @file
 * What is known of the ways from devices to peers' memory.
 *
 * That a way is no way is told once, and remembered until the peer is forgotten.
 * Threads: the owner has a lock.
 */

#include <stdbool.h>
#include <stdint.h>


/** From a device to the memory of a peer. */
typedef struct muct_xgmi_way {
    struct muct_xgmi_way *next;
    uint64_t owner;
    int device;
    bool is_open;     /**< Something was mapped over it */
    bool is_barred;   /**< A living peer's memory did not open */
    bool was_awaited; /**< Somebody has waited for its first mapping */
} muct_xgmi_way_t;


/** The way; a new one when there is none. @return NULL without memory. */
muct_xgmi_way_t *muct_xgmi_way_get(muct_xgmi_way_t **ways, uint64_t owner, int device);


/** Say that there is no way, unless something was mapped over it. Told with @a error.
 */
void muct_xgmi_way_bar(muct_xgmi_way_t *way, const char *error);


/** Forget the ways to a peer, or with 0 all. */
void muct_xgmi_ways_drop(muct_xgmi_way_t **ways, uint64_t owner);

#endif
