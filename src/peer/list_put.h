/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LIST_PUT_H
#define MKV_LIST_PUT_H

/**
 * @file
 * Puts of whole lists to a peer: whether UCX supports them, the call, and the effect of
 * its status on later ones.
 *
 * This state is kept for each pair of memory types. In addition keys of GPU memory
 * differ. Where the GPU runtime cannot open an allocation, UCX leaves out the lane that
 * takes lists, reports nothing, and ends the endpoint over the first list. So the first
 * put to each such allocation goes by itself, and the lane that carries it shows
 * whether lists may follow. The caller holds the context's lock.
 */

#include "memory/remote_mem.h"
#include "peer/peer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Arrays of a list, num entries each; UCX reads them until the call ends. */
typedef struct mkv_list_put {
    void **buffers;
    size_t *lengths; /**< Bytes, the same on both sides */
    void *memhs;     /**< ucp_mem_h of each entry */
    uint64_t *remotes;
    void *rkeys; /**< ucp_rkey_h of each entry */
    size_t num;
    bool is_queried; /**< Make a request in any case: peer/path.h */
} mkv_list_put_t;

/** Result of a list put for its caller. */
typedef enum mkv_list_end {
    MKV_LIST_MOVED,
    MKV_LIST_REFUSED, /**< Put all pieces one by one; some may have moved */
    MKV_LIST_FAILED
} mkv_list_end_t;

/** Way to give puts to a peer's memory to UCX. */
typedef enum mkv_list_use {
    MKV_LIST_USE_NONE,
    MKV_LIST_USE_PROBE, /**< First a single put, with UCP_OP_ATTR_FLAG_NO_IMM_CMPL */
    MKV_LIST_USE_FULL
} mkv_list_use_t;

/** Whether lists from this memory type to a peer's memory may be given to UCX. */
mkv_list_use_t mkv_peer_list_use(mkv_peer_t *peer, ucs_memory_type_t local,
                                 const mkv_rmem_t *rmem);

/** Note the lane that carries the queried put, complete or not. */
void mkv_peer_note_list_support(mkv_peer_t *peer, mkv_rmem_t *rmem, void *request);

/** Whether lists between these memory types may be posted to UCX at all. */
bool mkv_peer_may_sgl(mkv_peer_t *peer, ucs_memory_type_t local,
                      ucs_memory_type_t remote);

/** Post one list to UCX; the result and the callback are those of ucp_put_nbx(). */
ucs_status_ptr_t mkv_ep_put_list(ucp_ep_h ep, const mkv_list_put_t *list,
                                 ucp_send_nbx_callback_t cb, void *user_data);

/**
 * Note how a list put between these memory types has ended. The first refusal is logged
 * and holds for good, also where lists that were in flight beside it succeed.
 */
mkv_list_end_t mkv_peer_list_ended(mkv_peer_t *peer, ucs_memory_type_t local,
                                   ucs_memory_type_t remote, ucs_status_t status);

#endif
