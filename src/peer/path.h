/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PATH_H
#define MKV_PATH_H

/**
 * @file
 * Path by which UCX moves data between two memory types. The first call of each kind
 * between them is queried with ucp_request_query(). The lanes of an endpoint are no
 * answer: UCX takes others, or emulates, for memory that a lane cannot reach.
 *
 * How to query: while the path is not known, give the call with
 * UCP_OP_ATTR_FLAG_NO_IMM_CMPL, so that there is a request even if it completes at
 * once. Hand that over here before it is freed.
 */

#include "peer/peer.h"

#include <stdbool.h>

/** Calls with one key take the same path. */
typedef struct mkv_path_key {
    mkv_call_kind_t kind;
    ucs_memory_type_t local, remote;
} mkv_path_key_t;

/** Whether a call with this key has reported its path. */
static inline bool mkv_path_is_known(const mkv_peer_t *peer, const mkv_path_key_t *key)
{
    return (peer->paths_known[key->kind][key->local] >> key->remote) & 1;
}

/** Whether strict mode rejects calls with this key. */
static inline bool mkv_path_is_refused(const mkv_peer_t *peer,
                                       const mkv_path_key_t *key)
{
    return (peer->paths_refused[key->kind][key->local] >> key->remote) & 1;
}

/**
 * Record the path that UCX chose for this call, unless it is known. Warn if it differs
 * from option BACKEND, or is slow for GPU memory.
 *
 * @param [in] may_be_pulled  Whether an emulated put may become the owner's get.
 * @param [in] request        Of the first such call, complete or not.
 */
void mkv_path_note(mkv_peer_t *peer, const mkv_path_key_t *key, bool may_be_pulled,
                   void *request);

/**
 * Path that UCX chose for any call.
 *
 * @param [out] text  UCX's words for it, cut to the part that names it.
 *
 * @return UNKNOWN if UCX does not report it.
 */
mkv_backend_t mkv_path_of(void *request, char *text, size_t size);

/**
 * What the lane that UCX chose for this call does with lists of such memory; TAKEN
 * where UCX does not report it.
 */
mkv_rmem_lists_t mkv_path_lists(const mkv_peer_t *peer, void *request);

/**
 * Whether UCX is known to emulate such calls by messages, or to have no path for them.
 */
bool mkv_path_is_emulated(const mkv_peer_t *peer, const mkv_path_key_t *key);

/**
 * Describe why calls are refused, or why UCX has no path for them, with the remedy.
 *
 * @param [out] text  Empty if calls are possible.
 */
void mkv_path_reason(const mkv_peer_t *peer, const mkv_path_key_t *key, char *text,
                     size_t size);

/** Whether this side's puts need nothing of the peer's process, as far as UCX reported:
 * none of them is emulated by messages. */
bool mkv_paths_put_directly(const mkv_peer_t *peer);

/** All known paths, as "put host>rocm: tcp (software emulation tcp/lo)", by "; ". */
void mkv_paths_text(const mkv_peer_t *peer, char *text, size_t size);

/** Worst class of the known paths; UNKNOWN: no call was made yet. */
mkv_backend_t mkv_paths_backend(const mkv_peer_t *peer);

/** Whether UCX chose this class for a pair of memory types. */
bool mkv_paths_use(const mkv_peer_t *peer, mkv_backend_t backend);

/** Namespaces of this process. @param [in] shm_dir  Folder of shared memory. */
void mkv_spaces_self(mkv_spaces_t *spaces, const char *shm_dir);

/**
 * Describe why two processes of one host cannot use GPU IPC.
 *
 * @param [out] text  Reason and remedy.
 *
 * @return MKV_SLOW_NO: their namespaces do not prevent it.
 */
mkv_slow_t mkv_process_apart(const mkv_process_t *self, const mkv_process_t *process,
                             char *text, size_t size);

/**
 * Describe why a path to this peer is slow.
 *
 * @param [out] text  Reason and remedy.
 *
 * @return Never MKV_SLOW_NO.
 */
mkv_slow_t mkv_slow_reason(const mkv_peer_t *peer, char *text, size_t size);

void mkv_paths_cleanup(mkv_peer_t *peer);

#endif
