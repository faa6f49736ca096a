/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PEER_H
#define MKV_PEER_H

/**
 * @file
 * A remote context. The caller holds the context's lock. Higher folders attach
 * their state to the peer and learn of its end as listeners.
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

/** Timers, see heartbeat.c. Times are of the context's clock; 0: not set. */
typedef struct mkv_beat {
    uint64_t next_hello, hello_wait; /**< Repeats of HELLO until its answer */
    uint64_t gap_deadline;           /**< Deadline of the missing message gap_seq */
    uint64_t next_look;              /**< Time to check for silence */
    uint64_t num_received, num_received_before;
    uint32_t gap_seq;
    unsigned num_silent; /**< Checks in a row without a new message */
} mkv_beat_t;

/** Bytes of the caller's messages since the connection began: credit.c. */
typedef struct mkv_credit {
    uint64_t sent, num_sent, polled_there;
    uint64_t received, polled; /**< polled: counted by mkv_poll() */
    uint64_t reported;         /**< Value of polled at the last report */
    bool has_report;           /**< The peer has sent a CREDIT, so it is READY */
} mkv_credit_t;

/** Calls that UCX may carry in different ways: path.c. */
typedef enum mkv_call_kind {
    MKV_CALL_PUT,
    MKV_CALL_GET,
    MKV_CALL_LIST, /**< Put of a list */
    MKV_CALL_KINDS
} mkv_call_kind_t;

/** End of a connection, and its proof about the peer's calls. */
typedef enum mkv_peer_end {
    MKV_PEER_END_NONE,   /**< Still connected, or left in order */
    MKV_PEER_END_LEFT,   /**< The peer drained its side and said goodbye */
    MKV_PEER_END_BROKEN, /**< UCX has reported a broken connection */
    MKV_PEER_END_CUT     /**< Cut here, the peer may be alive */
} mkv_peer_end_t;

struct mkv_peer {
    mkv_list_t list;      /**< ctx->peers or dead_peers */
    mkv_list_t same_id;   /**< ctx->peer_buckets */
    mkv_list_t changed;   /**< ctx->changed_peers: READY or FAILED, not reported */
    mkv_list_t busy_list; /**< ctx->busy_peers */
    mkv_ctx_t *ctx;
    char name[MKV_NAME_SIZE];
    mkv_conn_state_t state; /**< Changed by mkv_peer_take() alone */
    mkv_peer_end_t end;
    mkv_status_t status; /**< Reason for the connection's end */
    char error[256];
    uint64_t deadline; /**< Deadline of a state but READY, CLOSING, GONE */
    bool has_left;     /**< LEAVING is over: the next step closes the endpoint */
    mkv_process_t process;
    bool is_same_host;
    uint64_t claim; /**< This side's claim on the peer's memory; 0: released, or none */
    mkv_watch_t watch;   /**< Watch on the peer's claim on this side's memory */
    uint64_t claim_idle; /**< Value of ctx->num_idle from which the peer's claim counts
                            as over; 0: it was not seen to end */
    bool is_declared_dead; /**< mkv_peer_declare_dead() was called */
    bool is_broken;        /**< UCX has failed the endpoint */
    unsigned num_refs;     /**< Number of packets and requests that refer to the peer */

    ucp_ep_h ep;

    uint64_t connection;     /**< Number of this connection in this context */
    uint64_t max_message;    /**< Longest message that the peer accepts; 0: unknown */
    uint32_t tx_seq, rx_seq; /**< Sequence numbers of the next message sent and
                                received; the first are random */
    bool is_superseded;      /**< The other side has a newer connection */
    bool is_rx_started; /**< A message of the sequence has come; before, rx_seq is the
                           number that an answer to our HELLO has */
    mkv_list_t rx_reorder; /**< Received packets that cannot be delivered yet, by seq */
    unsigned num_reorder;
    size_t reorder_bytes;
    size_t tx_bytes;
    mkv_beat_t beat;
    mkv_credit_t credit;
    uint64_t regions_raised, regions_polled;   /**< Events of changed regions */
    uint64_t incoming_raised, incoming_polled; /**< Bytes of INCOMING events */
    uint64_t arrivals_raised, arrivals_polled; /**< Bytes of ARRIVED events */

    mkv_remote_t remote;
    uint64_t sent_epoch; /**< Epoch of our regions sent to the peer */

    char transports[192];
    unsigned transport_flags; /**< Flags of those transports, see backend.c */
    bool has_local_lane;      /**< A transport within the host is connected: the peer's
                                 processor or GPU may write our memory */
    mkv_backend_t backend; /**< Best class among the connected transports; UCX may move
                              data by another one */
    /** State of list puts, by memory type of this side and of the peer */
    mkv_sgl_state_t sgl[UCS_MEMORY_TYPE_LAST][UCS_MEMORY_TYPE_LAST];
    mkv_slow_t slow; /**< Reason of a slow path of GPU memory */
    char slow_text[MKV_SLOW_TEXT_SIZE];
    mkv_list_t paths; /**< Path of each kind of call: path.c */
    /** Bit t: the path of calls from the local to the remote memory type t is known */
    uint16_t paths_known[MKV_CALL_KINDS][UCS_MEMORY_TYPE_LAST];
    /** Bit t: strict mode does not allow that path */
    uint16_t paths_refused[MKV_CALL_KINDS][UCS_MEMORY_TYPE_LAST];

    /* of transfers */
    mkv_list_t legs;
    mkv_list_t early; /**< Packets for transfers not open here */
    unsigned num_early;
    size_t early_bytes, early_abort_bytes;
    mkv_list_t early_aborts; /**< TERMs for transfers not open here, the oldest first */
    unsigned num_early_aborts;

    /* of one-sided operations */
    mkv_list_t ops;
    mkv_list_t ops_to_flush;
    mkv_list_t ops_flushing;

    /* of staging; NULL until it is used */
    struct mkv_stage *stage; /**< This side's lists that go through staging: stage.c */
    struct mkv_staging *staging; /**< Our memory that the peer puts into: scatter.c */

    /* of posts */
    mkv_list_t busy_legs[MKV_NUM_PRIORITIES]; /**< Legs with queued posts */
    uint64_t inflight_ops;
    mkv_list_t flush_waiting; /**< Legs that wait for the next flush */
    mkv_list_t flush_running; /**< Legs that the running flush covers */
    uint64_t push_bytes; /**< Memory of the plans and posts that this side moves for the
                            peer; at most MAX_QUEUED */
    /** Bytes of the UCX calls in flight. Next to inflight_ops the compiler would update
     *  both by vector instructions, which take longer */
    uint64_t inflight_bytes;
    bool is_flushing;
    unsigned num_read_back; /**< Gets that follow the flush; see flush.c */
    ucs_status_t read_back_status;
    mkv_counters_t count;
};

/**
 * Make a peer with an endpoint, not yet connected.
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_TRANSPORT, MKV_ERR_BUSY: there are too many.
 */
mkv_status_t mkv_peer_create(mkv_ctx_t *ctx, const mkv_blob_info_t *info,
                             const char *name, mkv_peer_t **peer_p);

/** Free an ended peer without references. */
void mkv_peer_destroy(mkv_peer_t *peer);

/**
 * Find the sender of a message by its context id, unless the connection was closed
 * here. Of several connections the living one counts, else the newest. NULL: unknown
 * sender.
 */
mkv_peer_t *mkv_peer_find(mkv_ctx_t *ctx, uint64_t ctx_id);

/**
 * Find a connection that was closed here or superseded, but still listens for the end
 * of its transfers.
 */
mkv_peer_t *mkv_peer_find_former(mkv_ctx_t *ctx, uint64_t ctx_id, uint32_t seq);

/** End this connection after DRAIN_TIMEOUT, as the peer has a newer one. */
void mkv_peer_supersede(mkv_peer_t *peer);

void mkv_peer_get(mkv_peer_t *peer);
void mkv_peer_put(mkv_peer_t *peer);

/** Store the peer's description of itself. */
void mkv_peer_set_info(mkv_peer_t *peer, const mkv_blob_info_t *info);

/**
 * Give an event to the connection's state.
 *
 * @return MKV_OK, MKV_ERR_INVALID: the event is invalid in the state, which is logged,
 *         or MKV_ERR_PROTOCOL: it was an invalid message, and the peer has failed.
 */
mkv_status_t mkv_peer_take(mkv_peer_t *peer, mkv_conn_event_t event);

/**
 * Like mkv_peer_take(), for an event that may end the connection. The first reason is
 * kept; the next step notifies listeners and the caller.
 */
void mkv_peer_end(mkv_peer_t *peer, mkv_conn_event_t event, mkv_status_t status,
                  const char *fmt, ...) MKV_PRINTF(4, 5);

/** The connection cannot continue because of a local failure. */
#define mkv_peer_fail(_peer, _status, ...)                                             \
    mkv_peer_end(_peer, MKV_CONN_FAIL, _status, __VA_ARGS__)

/** State of the peer's claim. If the claim was over when its HELLO came, the claims of
 * other connections with the same context count. */
mkv_claim_state_t mkv_peer_look_claim(mkv_peer_t *peer);

/**
 * Flush the endpoint and hold the peer, then call @a next with it: from here, without a
 * request, or from progress. @a next puts the peer and frees the request.
 */
void mkv_peer_flush(mkv_peer_t *peer, ucp_send_nbx_callback_t next);

/** Peer that a map's remote belongs to. */
static inline mkv_peer_t *mkv_peer_of(mkv_remote_t *remote)
{
    return mkv_container_of(remote, mkv_peer_t, remote);
}

/** Whether the peer has a feature, MKV_FEATURE_*. */
static inline bool mkv_peer_has_feature(const mkv_peer_t *peer, uint64_t feature)
{
    return (peer->remote.info.features & feature) == feature;
}

/** Whether the caller has closed the peer, and must not use it. */
static inline bool mkv_peer_is_closed(const mkv_peer_t *peer)
{
    return peer->remote.peer == NULL;
}

/** Whether the connection is closed and none of its requests will call back any more.
 */
static inline bool mkv_peer_is_gone(const mkv_peer_t *peer)
{
    return (peer->state == MKV_CONN_GONE) && (peer->num_refs == 0);
}

#endif
