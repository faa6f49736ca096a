/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_OP_H
#define MKV_OP_H

/**
 * @file
 * Operations that move bytes to or from a peer's memory without a call of the peer's
 * application. The caller holds the context's lock.
 *
 * op_build.c creates an operation, op_give.c gives its pieces to UCX, op_step.c decides
 * the next step, op_watch.c listens to its peer, op_api.c holds the public calls.
 */

#include "base/event.h"
#include "memory/region.h"
#include "peer/peer.h"

#define MKV_OP_EVENTS 2u /* final event and MKV_EV_QUIET */

/** State of an operation's puts. */
typedef enum mkv_op_puts {
    MKV_OP_PUTS_ARRIVED, /**< All puts have arrived, or there are none */
    MKV_OP_PUTS_GIVEN,   /**< Puts that may not have arrived yet */
    MKV_OP_PUTS_FLUSHING /**< A flush that covers the puts is queued or in flight */
} mkv_op_puts_t;

/** Regions of both sides, held while the operation is open. */
typedef struct mkv_op_ref {
    size_t first; /**< Index of the first piece in these regions; they hold the pieces
                     up to the next ref's first */
    mkv_lregion_t *local;
    mkv_rmem_t *remote;
} mkv_op_ref_t;

struct mkv_op {
    mkv_list_t list;    /**< ctx->ops */
    mkv_list_t of_peer; /**< peer->ops */
    mkv_list_t dirty;   /**< ctx->dirty_ops */
    mkv_list_t flush;   /**< peer->ops_to_flush or ops_flushing */
    mkv_ctx_t *ctx;
    mkv_peer_t *peer;
    mkv_op_params_t params; /**< Caller's parameters; pieces and note are NULL here */
    void *note;
    mkv_status_t status; /**< MKV_INPROGRESS until the operation has ended */
    char error[256];
    bool is_quiet;
    bool is_at_once; /**< MKV_OP_AT_ONCE, and mkv_op_post() has not returned */
    uint64_t open_time, deadline; /**< Deadline of the operation, then of its drain */
    uint64_t seen; /**< State of mkv_peer_check_late_drain(); 0 at first */
    mkv_op_puts_t puts;
    bool may_arrive;    /**< Value of mkv_op_attr_t::may_arrive, once is_quiet */
    bool has_lost_puts; /**< The connection ended before a flush covered the puts */

    /* Pieces in the form of UCX's lists; one allocation, which starts at buffers */
    size_t num;
    void **buffers;
    uint64_t *remotes;
    size_t *lengths;
    ucp_mem_h *memhs;
    ucp_rkey_h *rkeys;
    uint8_t *types;     /**< Memory types of each piece's ends, as mkv_op_types() */
    mkv_op_ref_t *refs; /**< In the order of pieces */
    size_t num_refs;
    uint64_t bytes;

    size_t next;             /**< Next piece to give to UCX */
    mkv_rmem_t *queried;     /**< Memory under test: the running ucp_put_nbx() shows the
                                support of lists; NULL: none */
    uint16_t settled;        /**< Result of mkv_op_way() for calls with a path that is
                                known and allowed; 0: none yet */
    bool must_repeat;        /**< UCX refused a list: start again, piece by piece */
    uint64_t num_inflight;   /**< Number of UCX calls that have not completed */
    uint64_t call_bytes;     /**< Average bytes of a call in flight */
    uint64_t inflight_bytes; /**< Bytes of the calls in flight; each call that ends
                                returns call_bytes of them to the peer's credit, the
                                last one the rest */
    uint64_t num_ucp_calls;
};

/** Memory types of a piece's two ends as one number. */
static inline uint8_t mkv_op_types(ucs_memory_type_t local, ucs_memory_type_t remote)
{
    return (uint8_t)((unsigned)local | (unsigned)remote << 4);
}

static inline bool mkv_op_is_write(const mkv_op_t *op)
{
    return op->params.mode == MKV_WRITE;
}

/** Whether the operation is done, failed or aborted; it may not be quiet yet. */
static inline bool mkv_op_has_ended(const mkv_op_t *op)
{
    return op->status != MKV_INPROGRESS;
}

/** Queue the operation for the next step. */
static inline void mkv_op_dirty(mkv_op_t *op)
{
    mkv_list_queue(&op->ctx->dirty_ops, &op->dirty);
}

/** End the operation with MKV_OK and raise its event. */
void mkv_op_complete(mkv_op_t *op);

/** Fail the operation; later failures change nothing. */
void mkv_op_fail(mkv_op_t *op, mkv_status_t status, const char *fmt, ...)
    MKV_PRINTF(3, 4);

/** Set the next check of an operation that is not quiet. */
void mkv_op_set_drain_deadline(mkv_op_t *op);

/** Raise MKV_EV_QUIET once nothing of the operation is in flight any more. */
void mkv_op_set_quiet(mkv_op_t *op);

/** Free an operation of any state; no callback of UCX refers to it any more. */
void mkv_op_free(mkv_op_t *op);

/** Free a quiet operation, and release the lock between rounds of MKV_ROUND_COST
 * regions. */
void mkv_op_free_in_rounds(mkv_op_t *op);

#endif
