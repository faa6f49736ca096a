/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_EP_H
#define MUCT_RDMA_EP_H

/**
 * @file
 * Endpoint of mori_rdma: the queue pairs to one peer.
 *
 * All queue pairs carry puts and gets. The first one also carries active messages and
 * their credits, so that messages stay in order.
 *
 * States. INIT until the peer's address is known, CONNECTED, possibly RECOVERING and
 * CONNECTED again (rdma_recover.h), and finally FAILED. A failure destroys the
 * endpoint's queue pairs first: from then on the device touches no memory of its
 * operations. Each operation then ends with the status of the failure. UCX is notified
 * once, and only if something unexpected happened. A failed endpoint refuses operations
 * with that status; a new endpoint has new queue pairs.
 *
 * Waiting. An operation that finds no room does nothing and returns
 * UCS_ERR_NO_RESOURCE. Pending requests of UCX are called in order when something has
 * ended. Until then every other operation waits behind them.
 */

#include "base/muct_log.h"
#include "rdma/ep/rdma_iface.h"
#include "rdma/queue/rdma_qp.h"
#include "rdma/ep/rdma_recover_state.h"
#include "rdma/queue/rdma_sq.h"

typedef enum {
    MUCT_RDMA_EP_INIT,
    MUCT_RDMA_EP_CONNECTED,
    MUCT_RDMA_EP_RECOVERING,
    MUCT_RDMA_EP_FAILED
} muct_rdma_ep_state_t;

/** Queue pair of an endpoint. */
struct muct_rdma_chan {
    muct_rdma_sq_t sq;
    muct_rdma_ep_t *ep;
    struct ibv_qp *ibv;         /**< NULL when destroyed */
    muct_rdma_iface_t *carrier; /**< Interface of the queue pair's device */
    muct_rdma_cq_t *cq;
    unsigned cq_entries;
    unsigned send_depth;
    unsigned recv_depth;
    uint32_t place;
    uint32_t first_qp_num; /**< Number in the endpoint's address */
    uint32_t flushed;      /**< Work requests before this one have completed */
    /** The queue pair has the work requests that sq counts as posted. False from its
     *  creation in a recovery until they are posted to it */
    bool is_given;
    uint64_t id;          /**< High half of its wr_ids */
    uint32_t fence_index; /**< Value of sq.head at the last fence: while is_fenced, new
                             operations wait until sq.tail reaches it */
    bool has_writes; /**< Writes were posted since the peer's flush page in host memory
                        was last read */
    bool is_watched; /**< Work was in flight at the last check; rdma_watch.h */
    unsigned num_checks;   /**< Checks in a row without a completion */
    uint32_t watched_tail; /**< sq.tail at the check at which num_checks was 0 */
    uint64_t watched_ms;   /**< Time of that check */
    uint64_t gpus_written; /**< Bit of each GPU written to since the last flush */
};

/** Receives of active messages and what the peer may send; see rdma_am.c. */
typedef struct muct_rdma_rx {
    muct_rdma_buf_t **ring;
    uint32_t mask;
    uint32_t head;         /**< Index of the next receive to post */
    uint32_t tail;         /**< Index of the receive that takes the next message */
    uint32_t missing_ctl;  /**< Receives that credit messages took, not reposted yet */
    uint32_t missing_data; /**< Receives that other messages took, not reposted yet */
    uint32_t owed;   /**< Reposted receives that are not credits of the peer yet */
    uint32_t depth;  /**< Receives for messages but credits, posted or missing */
    uint32_t grown;  /**< Value of tail when depth was last raised */
    uint32_t first;  /**< Initial depth, sent to the peer */
    bool lacks_keys; /**< The carrier has no key for another buffer: depth stays */
    uint64_t id;     /**< High half of the wr_ids */
} muct_rdma_rx_t;

/** A list of blocks, rdma_sgl.h; and one posted as there is room, rdma_sgl_defer.c. */
typedef struct muct_rdma_sgl muct_rdma_sgl_t;
typedef struct muct_rdma_job muct_rdma_job_t;

/** Gets without reads, of ours and of the peer; rdma_pull.c. */
typedef struct muct_rdma_pull muct_rdma_pull_t;
typedef struct muct_rdma_served muct_rdma_served_t;

typedef struct muct_rdma_pending {
    uct_pending_req_t *head;
    uct_pending_req_t *tail;
} muct_rdma_pending_t;

struct muct_rdma_ep {
    uct_base_ep_t super;
    muct_rdma_ep_state_t state;
    ucs_status_t status; /**< Status of operations, when failed */
    ucs_status_t doom;   /**< Error of its creation or connection, else UCS_OK; the next
                            progress fails the endpoint with it */
    uint8_t num_qps; /**< Number in use; fewer than created when the peer has fewer */
    uint8_t num_created;
    uint8_t current; /**< Queue pair of the next small operation */
    bool is_fenced;
    bool is_fence_unread; /**< The fence's reads found no room yet; is_fenced is set as
                           *   well */
    bool is_job_fenced;   /**< A fence came while ep->job or ep->pull was there */
    bool is_pulling;      /**< The peer answers no reads, as far as we know */
    bool is_dispatching;
    bool is_canceled; /**< Canceled by a flush: errors are not reported to the user any
                       *   more */
    bool is_held;   /**< The next room in chans[0].sq is kept for answers to the peer's
                       gets: own requests and the job wait */
    bool has_event; /**< Work ended or credits came since pending requests were last
                       called */
    bool wants_buf; /**< An operation found no send buffer since then */
    bool has_work;  /**< The endpoint is in iface->work */
    bool is_ahead;  /**< Created ahead; not handed to a user yet */
    bool is_agreed; /**< dest_reads is set, to the number that the device has granted */
    uint8_t announced_reads; /**< Number of reads that our address has promised */
    uint8_t dest_reads;      /**< Reads that our queue pairs answer at once */
    uint32_t psn;
    uint64_t serial; /**< Serial number, larger than those of earlier endpoints */
    muct_rdma_iface_t *carrier; /**< Interface of the queue pairs' device, or of their
                                   next device when they are replaced; rdma_move.h */
    uint32_t num_sends; /**< Messages of any kind, posted or not, since the beginning */
    muct_rdma_ece_t ece;   /**< ECE offered, then the one in use */
    size_t max_simple;     /**< Most bytes of a put or get that is one work request */
    uint32_t credits;      /**< Active messages we may send */
    uint32_t credit_batch; /**< rx.owed at which a message of its own carries credits */
    unsigned max_message;  /**< Bytes of an active message, header included */
    muct_rdma_rx_t rx;
    muct_rdma_pending_t pending;
    muct_rdma_job_t *job;       /**< NULL when there is none */
    muct_rdma_pull_t *pull;     /**< NULL when there is none */
    muct_rdma_served_t *served; /**< NULL before the first request */
    /** Index in chans[0].sq behind the last work request of a user's operation. Valid
     *  only while head and bytes of that queue are extra_end and extra_bytes, so that
     *  answers and credits alone follow: muct_rdma_ep_begin_extra() */
    uint32_t own_end;
    uint32_t extra_end;   /**< head of chans[0].sq behind the last answer or credits */
    uint64_t extra_bytes; /**< bytes of chans[0].sq at that time */
    ucs_list_link_t list;
    ucs_list_link_t work;
    muct_rdma_recover_t recover;
    muct_rdma_dev_addr_t peer; /**< Present address, with the incarnation of its keys */
    muct_rdma_ep_addr_t peer_ep;
    /** Flush pages of the peer's GPUs, each valid after the first write to its GPU */
    muct_rdma_gpu_page_t gpu_pages[MUCT_RDMA_KEY_NUM_GPUS];
    muct_rdma_chan_t chans[];
};

/**
 * Notifications of an endpoint to the folders above it: operations and recovery. An
 * interface has one table for all its endpoints; each member is set.
 */
struct muct_rdma_ep_listener {
    /** All queue pairs were created. @return UCS_OK, or an error, logged: delete the
     * endpoint. */
    ucs_status_t (*made)(muct_rdma_ep_t *ep);

    /** The endpoint is connected. */
    void (*connected)(muct_rdma_ep_t *ep);

    /** The connection broke. @return Whether the endpoint will reconnect. */
    bool (*broke)(muct_rdma_ep_t *ep, ucs_status_t cause);

    /** A completion with an error arrived while recovery drains the queue pairs. */
    void (*flushed)(muct_rdma_chan_t *chan, const struct ibv_wc *wc);

    /** The endpoint is about to fail; its queue pairs still exist. */
    void (*failing)(muct_rdma_ep_t *ep);

    /** All operations are about to end; the state is still the previous one. */
    void (*stopping)(muct_rdma_ep_t *ep);

    /** The queue pairs are destroyed: end what is not posted with @a status. */
    void (*stopped)(muct_rdma_ep_t *ep, ucs_status_t status);

    /** Read a byte of the page of each of @a gpus, a bit each, and @a is_host of the
     * host's, as ep->pull. UCS_OK or UCS_ERR_NO_MEMORY, logged. */
    ucs_status_t (*pull_pages)(muct_rdma_ep_t *ep, uint64_t gpus, bool is_host);

    /** Connected, and in the interface's list of work. */
    void (*progress)(muct_rdma_ep_t *ep);

    /** Whether @a progress has pending work. */
    bool (*has_work)(const muct_rdma_ep_t *ep);

    /** Whether @a progress could do something now. */
    bool (*is_runnable)(const muct_rdma_ep_t *ep);
};

/** Allocate an endpoint that has no queue pairs and is in no list. Returns NULL when
 * there is no memory, logged. */
muct_rdma_ep_t *muct_rdma_ep_new(muct_rdma_iface_t *iface);

/**
 * Create one more queue pair of the endpoint; with the last one, create everything
 * else.
 *
 * @return UCS_OK           The endpoint is complete.
 * @return UCS_INPROGRESS   Call again.
 * @return UCS_ERR_IO_ERROR, UCS_ERR_NO_MEMORY  Logged; delete the endpoint.
 */
ucs_status_t muct_rdma_ep_make(muct_rdma_ep_t *ep);

/**
 * Let an endpoint that could not be made or connected fail in the next progress, and
 * destroy its connected queue pairs. UCP then answers the peer's wire-up, so that the
 * peer's endpoint ends in an error and does not wait forever.
 */
void muct_rdma_ep_set_doom(muct_rdma_ep_t *ep, ucs_status_t status);

/** Destroy an endpoint in state INIT that is in no list, complete or not. */
void muct_rdma_ep_delete(muct_rdma_ep_t *ep);

void muct_rdma_ep_destroy(uct_ep_h ep);
ucs_status_t muct_rdma_ep_get_address(uct_ep_h ep, uct_ep_addr_t *addr);
ucs_status_t muct_rdma_ep_connect_to_ep_v2(uct_ep_h ep,
                                           const uct_device_addr_t *device_addr,
                                           const uct_ep_addr_t *ep_addr,
                                           const uct_ep_connect_to_ep_params_t *params);
int muct_rdma_ep_is_connected(uct_ep_h ep, const uct_ep_is_connected_params_t *params);
ucs_status_t muct_rdma_ep_query(uct_ep_h ep, uct_ep_attr_t *attr);
ucs_status_t muct_rdma_ep_invalidate(uct_ep_h ep,
                                     const uct_ep_invalidate_params_t *params);

/**
 * Fail an endpoint: end everything with @a status, and notify UCX when the failure @a
 * is_unexpected. The endpoint may be destroyed when this returns. Does nothing to a
 * failed endpoint.
 */
void muct_rdma_ep_fail(muct_rdma_ep_t *ep, ucs_status_t status, bool is_unexpected);

/** Handle a broken connection: begin recovery, or fail the endpoint with @a status. */
void muct_rdma_ep_broke(muct_rdma_ep_t *ep, ucs_status_t status);

/** Fill the path, with the packet numbers of the first connection. */
void muct_rdma_ep_fill_path(const muct_rdma_ep_t *ep, muct_rdma_qp_path_t *path);

/** Set the number of reads that the peer answers; with @a is_wish its device may refuse
 * them. */
void muct_rdma_ep_set_reads(muct_rdma_ep_t *ep, uint8_t num, bool is_wish);

/** Handle a completion with an error. */
void muct_rdma_ep_handle_error(muct_rdma_chan_t *chan, const struct ibv_wc *wc);

static inline muct_rdma_iface_t *muct_rdma_ep_iface(const muct_rdma_ep_t *ep)
{
    return (muct_rdma_iface_t *)ep->super.super.iface;
}

/** Same as @ref muct_rdma_md_keep_up, for local memory that may have no handle. */
static inline ucs_status_t muct_rdma_ep_keep_up(const muct_rdma_ep_t *ep,
                                                muct_rdma_mem_t *mem,
                                                const void *address, size_t length)
{
    return (mem == NULL)
               ? UCS_OK
               : muct_rdma_md_keep_up(muct_rdma_iface_md(muct_rdma_ep_iface(ep)), mem,
                                      address, length);
}

/** Queue pair with room and the fewest bytes to move; NULL when none has room. */
muct_rdma_chan_t *muct_rdma_ep_least(muct_rdma_ep_t *ep);

/**
 * Fail the endpoint in the next progress, because the device accepted a part of an
 * operation although its queue had room.
 */
void muct_rdma_ep_break(muct_rdma_ep_t *ep);

/** A queue pair with room for one more work request; NULL when there is none. */
static inline muct_rdma_chan_t *muct_rdma_ep_chan(muct_rdma_ep_t *ep)
{
    muct_rdma_chan_t *chan = &ep->chans[ep->current];

    /* stay on one queue pair until its chain is posted: fewer doorbells */
    if ((ep->num_qps == 1) ||
        ((chan->sq.head != chan->sq.posted) && (muct_rdma_sq_free(&chan->sq) > 0))) {
        return (muct_rdma_sq_free(&chan->sq) > 0) ? chan : NULL;
    }

    chan = muct_rdma_ep_least(ep);
    if (chan != NULL) {
        ep->current = (uint8_t)(chan - ep->chans);
    }

    return chan;
}

/** Whether an operation is in progress that all later ones must follow. */
static inline bool muct_rdma_ep_is_queued(const muct_rdma_ep_t *ep)
{
    return (ep->job != NULL) || (ep->pull != NULL);
}

/** Room for work requests, of all queue pairs together. */
static inline unsigned muct_rdma_ep_free(const muct_rdma_ep_t *ep)
{
    unsigned i, num = 0;

    for (i = 0; i < ep->num_qps; ++i) {
        num += muct_rdma_sq_free(&ep->chans[i].sq);
    }

    return num;
}

/**
 * Work requests that no flush has to wait for: answers of the peer's gets, and credits.
 * They are posted to the first queue pair between these two calls.
 */
static inline void muct_rdma_ep_begin_extra(muct_rdma_ep_t *ep)
{
    const muct_rdma_sq_t *sq = &ep->chans[0].sq;

    if ((sq->head != ep->extra_end) || (sq->bytes != ep->extra_bytes)) {
        ep->own_end = sq->head;
    } else if ((int32_t)(sq->tail - ep->own_end) > 0) {
        ep->own_end = sq->tail;
    }
}

static inline void muct_rdma_ep_end_extra(muct_rdma_ep_t *ep)
{
    ep->extra_end = ep->chans[0].sq.head;
    ep->extra_bytes = ep->chans[0].sq.bytes;
}

/** Whether an operation of @a num work requests that found no room is posted in parts:
 * the queues never have that room, or the peer's gets would fill it again. */
static inline bool muct_rdma_ep_has_to_split(const muct_rdma_ep_t *ep, size_t num)
{
    const muct_rdma_sq_t *sq = &ep->chans[0].sq;

    /* extra_end may be any number of wraps old */
    return (num > (size_t)ep->num_qps * sq->depth) ||
           ((uint32_t)(sq->head - ep->extra_end) < (uint32_t)(sq->head - sq->tail));
}

/** Check a remote key against the peer and the range; logged when it is refused. */
ucs_status_t muct_rdma_ep_refuse_key(const muct_rdma_ep_t *ep,
                                     const muct_rdma_key_t *key, uint64_t address,
                                     size_t length);

static inline ucs_status_t muct_rdma_ep_check_key(const muct_rdma_ep_t *ep,
                                                  const muct_rdma_key_t *key,
                                                  uint64_t address, size_t length)
{
    if (__builtin_expect((key->incarnation != ep->peer.incarnation) ||
                             !muct_rdma_key_covers(key, address, length),
                         0)) {
        return muct_rdma_ep_refuse_key(ep, key, address, length);
    }

    return UCS_OK;
}

/** Most bytes of a zero-copy put or get. */
static inline size_t muct_rdma_max_zcopy(const muct_rdma_limits_t *limits)
{
    return (size_t)limits->max_msg_size * limits->num_qps;
}

/* Callbacks for the end of a work request; the comment names the slot's arg. */
void muct_rdma_done_comp(void *arg, ucs_status_t status);     /* uct_completion_t */
void muct_rdma_done_buf(void *arg, ucs_status_t status);      /* buffer */
void muct_rdma_done_buf_comp(void *arg, ucs_status_t status); /* buffer, its comp */
void muct_rdma_done_unpack(void *arg, ucs_status_t status);   /* and its unpack */

#endif
