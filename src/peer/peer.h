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

#define MKV_REORDER_WINDOW 4096u

typedef enum mkv_sgl_state {
    MKV_SGL_UNKNOWN,
    MKV_SGL_GOOD,
    MKV_SGL_BAD
} mkv_sgl_state_t;

struct mkv_peer {
    mkv_list_t list;      /**< ctx->peers or dead_peers */
    mkv_list_t changed;   /**< ctx->changed_peers */
    mkv_list_t busy_list; /**< ctx->busy_peers */
    mkv_ctx_t *ctx;
    char name[64];
    mkv_peer_state_t state;
    mkv_status_t status;
    char error[256];
    mkv_process_t process;
    int is_same_host;
    int is_closed;     /**< By the caller */
    unsigned num_refs; /**< Of packets and requests */

    ucp_ep_h ep;
    int is_ep_closing, is_ep_gone;     /**< Gone: close request complete */
    int has_said_bye;                  /**< The peer drained its side and left */
    int is_cut;                        /**< Closed here, it did not fail */
    int is_ep_failed;                  /**< Seen by UCX's callback */
    int is_leaving;                    /**< Closed here: flush and BYE are on the way */
    int is_close_waiting;              /**< Failed: close when no call is in flight */
    int has_ack, has_info, is_flushed; /**< The three parts of READY */
    uint64_t deadline;                 /**< Of CONNECTING, or of closing */
    mkv_status_t fail_status;          /**< Noted by a callback */
    char fail_text[200];

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

/** Note a failure; acted on in the next step. The first reason wins. */
void mkv_peer_fail(mkv_peer_t *peer, mkv_status_t status, const char *fmt, ...)
    MKV_PRINTF(3, 4);

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

/** No message and no call may be given to the endpoint any more. */
static inline int mkv_peer_is_cut_off(const mkv_peer_t *peer)
{
    return peer->is_ep_closing || peer->is_close_waiting ||
           (peer->fail_status != MKV_OK);
}

/** Its connection is closed and none of its requests will call back any more. */
static inline int mkv_peer_is_gone(const mkv_peer_t *peer)
{
    return peer->is_ep_gone && (peer->num_refs == 0);
}

#endif
