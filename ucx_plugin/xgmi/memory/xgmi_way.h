/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_WAY_H
#define MUCT_XGMI_WAY_H

/**
 * @file
 * State of the ways from devices to peers' memory.
 *
 * A way that opens no memory is logged once and barred for a while: UCX then uses other
 * transports for keys that are unpacked. Threads: the owner has a lock.
 */

#include <stdbool.h>
#include <stdint.h>


/** Path from a device to the memory of a peer. */
typedef struct muct_xgmi_way {
    struct muct_xgmi_way *next;
    uint64_t owner;
    int device;
    bool is_host;    /**< The way leads to host memory */
    bool is_open;    /**< Something was mapped over it */
    bool has_warned; /**< A warning reported that a living peer's memory did not open */
    uint64_t barred_until_ns; /**< 0: it is not barred */
    bool was_awaited;         /**< An operation has waited for the first mapping */
} muct_xgmi_way_t;


/** Find or add a way. @return NULL without memory. */
muct_xgmi_way_t *muct_xgmi_way_get(muct_xgmi_way_t **ways, uint64_t owner, int device,
                                   bool is_host);


/** Time that a way is barred after a failure. */
#define MUCT_XGMI_WAY_BARRED_NS UINT64_C(60000000000)


/**
 * Bar a way, unless something was mapped over it.
 *
 * @param [in] now_ns  A clock that does not jump.
 * @param [in] error   For the log.
 */
void muct_xgmi_way_bar(muct_xgmi_way_t *way, uint64_t now_ns, const char *error);


/** Whether a way is barred; it is open for a new try afterwards. */
static inline bool muct_xgmi_way_is_barred(const muct_xgmi_way_t *way, uint64_t now_ns)
{
    return !way->is_open && (now_ns < way->barred_until_ns);
}


/** Forget the ways to a peer, or with 0 all. */
void muct_xgmi_ways_drop(muct_xgmi_way_t **ways, uint64_t owner);

#endif
