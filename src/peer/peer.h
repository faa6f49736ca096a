/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PEER_H
#define MKV_PEER_H

/**
 * @file
 * One remote context. The caller holds the context's lock.
 *
 * The rooms above hang their own state on it, and are told of its end as listeners.
 */

#include "base/ctx.h"
#include "cache/remote_mem.h"
#include "peer/conn.h"

#define MKV_REORDER_WINDOW 4096u

typedef enum mkv_sgl_state {
    MKV_SGL_UNKNOWN,
    MKV_SGL_GOOD,
    MKV_SGL_BAD
} mkv_sgl_state_t;

/** How a connection ended: what that proves about the peer's calls. */
typedef enum mkv_peer_end {
    MKV_PEER_END_NONE,   /**< Not yet, or left in order */
    MKV_PEER_END_LEFT,   /**< The peer drained its side and said goodbye */
    MKV_PEER_END_BROKEN, /**< UCX says so */
    MKV_PEER_END_CUT     /**< Cut here, the peer may be alive */
} mkv_peer_end_t;

struct mkv_peer {
    mkv_list_t list;      /**< ctx->peers or dead_peers */
    mkv_list_t changed;   /**< ctx->changed_peers: READY or FAILED, and not told yet */
    mkv_list_t busy_list; /**< ctx->busy_peers */
    mkv_ctx_t *ctx;
    char name[64];
    mkv_conn_state_t state; /**< Changed by mkv_peer_take() alone */
    mkv_peer_end_t end;
    mkv_status_t status; /**< Why it ended */
    char error[256];
    uint64_t deadline; /**< Of the state, except READY, CLOSING and GONE */
    mkv_process_t process;
    int is_same_host;
    unsigned num_refs; /**< Of packets and requests */

    ucp_ep_h ep;

    uint32_t tx_seq, rx_seq; /**< Of the next message; random at first */
    int is_rx_started;       /**< rx_seq is the peer's; before, the answer's expected */
    mkv_list_t rx_reorder;   /**< Packets, by seq */
    unsigned num_reorder;
    size_t reorder_bytes;
    size_t tx_bytes;

    mkv_remote_t remote;
    uint64_t told_epoch; /**< Of our regions that the peer was told */

    char transports[192];
    unsigned transport_flags; /**< What those take: backend.c */
    mkv_backend_t backend;
    mkv_sgl_state_t sgl[UCS_MEMORY_TYPE_LAST][UCS_MEMORY_TYPE_LAST]; /**< Here, there */

    /* of transfers */
    mkv_list_t legs;
    mkv_list_t early; /**< Packets for transfers not open here */
    unsigned num_early;
    size_t early_bytes;
    mkv_list_t early_aborts; /**< TERMs of these; the oldest first */
    unsigned num_early_aborts;

    /* of posts */
    mkv_list_t busy_legs; /**< With queued posts */
    uint64_t inflight_ops;
    mkv_list_t flush_waiting; /**< Legs */
    mkv_list_t flush_running;
    uint64_t inflight_bytes; /**< Beside inflight_ops, GCC would add vectors: slower */
    int is_flushing;
    mkv_counters_t count;
};

/** What is told about peers to who uses their connections: ctx->peer_listener. */
typedef struct mkv_peer_listener {
    /** The connection has ended, for the reason in status and error. */
    void (*ended)(mkv_peer_t *peer);
    /** It may be harmless now: see mkv_peer_is_harmless(). */
    void (*look)(mkv_peer_t *peer);
    /** EXPOSE to DRAINED: @a msg was decoded from @a data. */
    void (*receive)(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                    size_t length);
    /** Forget what is too old. @return The next time to look. */
    uint64_t (*expire)(mkv_peer_t *peer, uint64_t now);
    /** Nothing needs the connection any more. */
    int (*is_idle)(mkv_peer_t *peer);
    /** Id of a transfer that uses the peer; there is one. */
    uint64_t (*first_id)(mkv_peer_t *peer);
} mkv_peer_listener_t;

/** A peer with an endpoint, not yet connected. @return MKV_OK, _NOMEM, _TRANSPORT. */
mkv_status_t mkv_peer_create(mkv_ctx_t *ctx, const mkv_blob_info_t *info,
                             const char *name, mkv_peer_t **peer_p);

/** It is gone, and nothing refers to it. */
void mkv_peer_destroy(mkv_peer_t *peer);

/** Who sent this; not one that was closed here. NULL: nobody known. */
mkv_peer_t *mkv_peer_find(mkv_ctx_t *ctx, uint64_t ctx_id);

/** One that was closed here but still listens, for the end of its transfers. */
mkv_peer_t *mkv_peer_find_closed(mkv_ctx_t *ctx, uint64_t ctx_id, uint32_t seq);

void mkv_peer_get(mkv_peer_t *peer);
void mkv_peer_put(mkv_peer_t *peer);

/** Take over what the peer says of itself. */
void mkv_peer_set_info(mkv_peer_t *peer, const mkv_blob_info_t *info);

/**
 * Give an event to the connection's state.
 *
 * @return MKV_OK, MKV_ERR_INVALID: the state does not know it, which is logged, or
 *         MKV_ERR_PROTOCOL: nor should the peer have sent it, so it has failed.
 */
mkv_status_t mkv_peer_take(mkv_peer_t *peer, mkv_conn_event_t event);

/**
 * As mkv_peer_take(), for an event that may end the connection. The first reason is
 * kept; listeners and the caller are told in the next step.
 */
void mkv_peer_end(mkv_peer_t *peer, mkv_conn_event_t event, mkv_status_t status,
                  const char *fmt, ...) MKV_PRINTF(4, 5);

/** The connection cannot go on, because of what happened here. */
#define mkv_peer_fail(_peer, _status, ...)                                             \
    mkv_peer_end(_peer, MKV_CONN_FAIL, _status, __VA_ARGS__)

/**
 * Flush the endpoint and hold the peer, then call @a next with it: from here, without a
 * request, or from progress. @a next puts the peer and frees the request.
 */
void mkv_peer_flush(mkv_peer_t *peer, ucp_send_nbx_callback_t next);

/** The peer of what a map knows. */
static inline mkv_peer_t *mkv_peer_of(mkv_remote_t *remote)
{
    return mkv_container_of(remote, mkv_peer_t, remote);
}

/** The caller has closed it, and knows it no longer. */
static inline int mkv_peer_is_closed(const mkv_peer_t *peer)
{
    return peer->remote.peer == NULL;
}

/** Its connection is closed and none of its requests will call back any more. */
static inline int mkv_peer_is_gone(const mkv_peer_t *peer)
{
    return (peer->state == MKV_CONN_GONE) && (peer->num_refs == 0);
}

#endif
