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
#include "memory/remote_mem.h"
#include "peer/conn.h"
#include "peer/process.h"

#include <stdbool.h>

#define MKV_REORDER_WINDOW 4096u

#define MKV_NUM_PRIORITIES (MKV_PRIORITY_LOW + 1)

typedef enum mkv_sgl_state {
    MKV_SGL_UNKNOWN,
    MKV_SGL_GOOD,
    MKV_SGL_BAD
} mkv_sgl_state_t;

/** What time tells: heartbeat.c. Times are of the context's clock; 0: not set. */
typedef struct mkv_beat {
    uint64_t next_hello, hello_wait; /**< Until HELLO is answered */
    uint64_t gap_deadline;           /**< For message gap_seq, which is missing */
    uint64_t next_look;              /**< Whether anything was heard */
    uint64_t num_heard, num_heard_before;
    uint32_t gap_seq;
    unsigned num_silent; /**< Looks in a row that found nothing new */
} mkv_beat_t;

/** Bytes of the caller's messages since the connection began: credit.c. */
typedef struct mkv_credit {
    uint64_t sent, num_sent, polled_there;
    uint64_t received, polled; /**< polled: counted by mkv_poll() */
    uint64_t told;             /**< Of polled, to the peer */
    bool is_told;              /**< The peer has told something, so it is READY */
} mkv_credit_t;

/** Calls that UCX may carry in different ways: path.c. */
typedef enum mkv_call_kind {
    MKV_CALL_PUT,
    MKV_CALL_GET,
    MKV_CALL_LIST, /**< Put of a list */
    MKV_CALL_KINDS
} mkv_call_kind_t;

/** How a connection ended: what that proves about the peer's calls. */
typedef enum mkv_peer_end {
    MKV_PEER_END_NONE,   /**< Not yet, or left in order */
    MKV_PEER_END_LEFT,   /**< The peer drained its side and said goodbye */
    MKV_PEER_END_BROKEN, /**< UCX says so */
    MKV_PEER_END_CUT     /**< Cut here, the peer may be alive */
} mkv_peer_end_t;

struct mkv_peer {
    mkv_list_t list;      /**< ctx->peers or dead_peers */
    mkv_list_t same_id;   /**< ctx->peer_buckets */
    mkv_list_t changed;   /**< ctx->changed_peers: READY or FAILED, and not told yet */
    mkv_list_t busy_list; /**< ctx->busy_peers */
    mkv_ctx_t *ctx;
    char name[MKV_NAME_SIZE];
    mkv_conn_state_t state; /**< Changed by mkv_peer_take() alone */
    mkv_peer_end_t end;
    mkv_status_t status; /**< Why it ended */
    char error[256];
    uint64_t deadline; /**< Of the state, except READY, CLOSING and GONE */
    bool has_left;     /**< The last flush is over: the next step closes it */
    mkv_process_t process;
    bool is_same_host;
    uint64_t claim;        /**< Ours on its memory; 0: released, or none */
    mkv_watch_t watch;     /**< Its claim on our memory */
    uint64_t claim_idle;   /**< That is over, when ctx->num_idle is so large; 0: held */
    bool is_declared_dead; /**< By mkv_peer_declare_dead() */
    bool is_broken;        /**< UCX has failed the endpoint */
    unsigned num_refs;     /**< Of packets and requests */

    ucp_ep_h ep;

    uint64_t connection;     /**< Number of this one, of all that were made here */
    uint64_t max_message;    /**< That the peer takes; 0: it did not say */
    uint32_t tx_seq, rx_seq; /**< Of the next message; random at first */
    bool is_superseded;      /**< The other side has made a newer one */
    bool is_rx_started;      /**< rx_seq is the peer's; before, the answer's expected */
    mkv_list_t rx_reorder;   /**< Packets, by seq */
    unsigned num_reorder;
    size_t reorder_bytes;
    size_t tx_bytes;
    mkv_beat_t beat;
    mkv_credit_t credit;
    uint64_t regions_raised, regions_polled;   /**< Events that its regions changed */
    uint64_t asks_raised, asks_polled;         /**< Bytes of INCOMING events */
    uint64_t arrivals_raised, arrivals_polled; /**< Bytes of ARRIVED events */

    mkv_remote_t remote;
    uint64_t told_epoch; /**< Of our regions that the peer was told */

    char transports[192];
    unsigned transport_flags; /**< What those take: backend.c */
    bool has_local_lane;      /**< Its process writes our memory itself */
    mkv_backend_t backend;    /**< The best that is connected, which need not carry */
    mkv_sgl_state_t sgl[UCS_MEMORY_TYPE_LAST][UCS_MEMORY_TYPE_LAST]; /**< Here, there */
    mkv_list_t paths; /**< What carried each kind of call: path.c */
    uint16_t paths_known[MKV_CALL_KINDS]
                        [UCS_MEMORY_TYPE_LAST]; /**< Bits: types there */
    uint16_t paths_refused[MKV_CALL_KINDS][UCS_MEMORY_TYPE_LAST]; /**< By strict mode */

    /* of transfers */
    mkv_list_t legs;
    mkv_list_t early; /**< Packets for transfers not open here */
    unsigned num_early;
    size_t early_bytes;
    mkv_list_t early_aborts; /**< TERMs of these; the oldest first */
    unsigned num_early_aborts;

    /* of one-sided operations */
    mkv_list_t ops;
    mkv_list_t ops_to_flush;
    mkv_list_t ops_flushing;

    /* of posts */
    mkv_list_t busy_legs[MKV_NUM_PRIORITIES]; /**< With queued posts */
    uint64_t inflight_ops;
    mkv_list_t flush_waiting; /**< Legs */
    mkv_list_t flush_running;
    uint64_t inflight_bytes; /**< Beside inflight_ops, GCC would add vectors: slower */
    bool is_flushing;
    unsigned num_read_back; /**< Gets after the flush; see flush.c */
    ucs_status_t read_back_status;
    mkv_counters_t count;
};

/**
 * A peer with an endpoint, not yet connected.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_TRANSPORT, MKV_ERR_BUSY: there are too many.
 */
mkv_status_t mkv_peer_create(mkv_ctx_t *ctx, const mkv_blob_info_t *info,
                             const char *name, mkv_peer_t **peer_p);

/** It is gone, and nothing refers to it. */
void mkv_peer_destroy(mkv_peer_t *peer);

/**
 * Who sent this; not one that was closed here. Of several connections that one that
 * lives, else the newest. NULL: nobody known.
 */
mkv_peer_t *mkv_peer_find(mkv_ctx_t *ctx, uint64_t ctx_id);

/**
 * One that was closed here, or has been superseded, but still listens, for the end of
 * its transfers.
 */
mkv_peer_t *mkv_peer_find_former(mkv_ctx_t *ctx, uint64_t ctx_id, uint32_t seq);

/** The peer has a newer connection: this one ends after DRAIN_TIMEOUT. */
void mkv_peer_supersede(mkv_peer_t *peer);

void mkv_peer_get(mkv_peer_t *peer);
void mkv_peer_put(mkv_peer_t *peer);

/** Store the peer's description of itself. */
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

/** What is known of its claim now; one that was over when its HELLO came is known by
 *  those of other connections with the same context. */
mkv_claim_state_t mkv_peer_look_claim(mkv_peer_t *peer);

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

/** Whether the peer has a feature, MKV_FEATURE_*. */
static inline bool mkv_peer_knows(const mkv_peer_t *peer, uint64_t feature)
{
    return (peer->remote.info.features & feature) == feature;
}

/** The caller has closed it, and knows it no longer. */
static inline bool mkv_peer_is_closed(const mkv_peer_t *peer)
{
    return peer->remote.peer == NULL;
}

/** Its connection is closed and none of its requests will call back any more. */
static inline bool mkv_peer_is_gone(const mkv_peer_t *peer)
{
    return (peer->state == MKV_CONN_GONE) && (peer->num_refs == 0);
}

#endif
