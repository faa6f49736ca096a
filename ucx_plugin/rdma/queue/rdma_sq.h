/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_SQ_H
#define MUCT_RDMA_SQ_H

/**
 * @file
 * Send queue of one queue pair: gathers work requests, rings the doorbell once for
 * many, and calls back when each of them ends.
 *
 * Numbers. Every work request has an index that only grows. [tail, posted) are with the
 * device, [posted, head) are gathered and not yet posted; head - tail is never more
 * than depth. There is no other count, which could drift from the device's state:
 * reliable connections complete in order.
 *
 * Completions. Only the last work request of each chain requests a completion: when it
 * comes, all before it are done. A failed work request and all later ones have
 * completions of their own. Earlier ones without a completion have succeeded.
 *
 * Marks. A mark at a work request requests a callback when that one ends; the last of a
 * chain always has a mark. A mark is called back exactly once: by @ref
 * muct_rdma_sq_complete or by @ref muct_rdma_sq_purge. tail moves first, so that the
 * callback may post.
 *
 * Entries. A work request stays in its place in a ring until another one needs that
 * place. If keep is set, there is a place for each work request in flight, so that all
 * of them can be posted again to another queue pair. Otherwise there are places for a
 * chain. Rings begin with two chains, and double after a doorbell as more work requests
 * are in flight. With many peers, most have few in flight.
 *
 * Doorbells. A work request is posted at once when none of this queue is in flight.
 * Otherwise it waits until the chain is full or until the next progress.
 *
 * Single-threaded.
 */

#include "base/muct_uct_abi.h"
#include "rdma/device/rdma_verbs.h"

#include <stdbool.h>

/** Called when a work request ended; may post to the same queue. */
typedef void (*muct_rdma_done_t)(void *arg, ucs_status_t status);

typedef struct muct_rdma_mark {
    muct_rdma_done_t done; /**< NULL when no callback is needed */
    void *arg;
    uint64_t bytes; /**< Sum over all work requests up to this one */
    uint32_t index; /**< Index of the work request */
} muct_rdma_mark_t;

/** Counters of posted work; several queues may share one instance. */
typedef struct muct_rdma_sq_stats {
    uint64_t doorbells; /**< ibv_post_send() calls */
    uint64_t wrs;       /**< Work requests posted by them */
    uint64_t bytes;     /**< Bytes of these work requests */
} muct_rdma_sq_stats_t;

enum {
    MUCT_RDMA_SQ_SUSPENDED =
        1 << 0, /**< The queue pair must not be used; is_stuck is set as well */
    MUCT_RDMA_SQ_MOVED = 1 << 1 /**< The queue pair is on a second device */
};

typedef struct muct_rdma_sq muct_rdma_sq_t;

/**
 * Change a work request's keys to those of the device of the queue pair, unless it has
 * them already. False when there are none, logged.
 */
typedef bool (*muct_rdma_sq_move_t)(muct_rdma_sq_t *sq, struct ibv_send_wr *wr);

struct muct_rdma_sq {
    struct ibv_qp *ibv;
    uint64_t id; /**< High half of every wr_id */
    uint32_t head;
    uint32_t posted;
    uint32_t tail;
    uint32_t mark_head; /**< Index of the next mark to be made */
    uint32_t mark_tail; /**< Index of the next mark to be called back */
    uint32_t mask;      /**< Number of places for marks, a power of two, less one */
    uint32_t depth;
    uint32_t max_inline; /**< Bytes */
    uint32_t max_sge;
    uint32_t batch;      /**< Most work requests of a chain */
    uint32_t wr_mask;    /**< Number of entries of wrs, a power of two, less one */
    uint32_t grow_above; /**< Work requests in flight above which the rings double */
    unsigned next_flags; /**< Flags of the next work request: IBV_SEND_FENCE, or 0 */
    int error;      /**< errno of an ibv_post_send() that cannot be repeated, or 0 */
    bool is_lost;   /**< The error would occur on any new queue pair as well */
    bool keep;      /**< Keep each entry until its completion */
    bool is_stuck;  /**< Nothing can be added: the device accepted a part of a chain, or
                       the queue is suspended or lost */
    uint8_t state;  /**< MUCT_RDMA_SQ_* */
    uint64_t bytes; /**< Sum over all work requests, up to head */
    uint64_t ended; /**< Bytes up to the last mark that was called back */
    muct_rdma_mark_t *marks;
    struct ibv_send_wr *wrs;
    struct ibv_sge *sges;
    uint8_t *inline_data;
    ucs_list_link_t *dirty; /**< Interface's list of queues with a chain to post */
    ucs_list_link_t dirty_link;
    bool is_dirty;
    uint64_t rung; /**< Value of bytes that stats includes: at the last full post */
    muct_rdma_sq_stats_t *stats;
    muct_rdma_sq_move_t move; /**< Valid with MUCT_RDMA_SQ_MOVED */
};

typedef struct muct_rdma_sq_params {
    struct ibv_qp *ibv;
    uint64_t id;    /**< Low 32 bits clear */
    uint32_t depth; /**< Work requests that the queue pair can hold */
    uint32_t batch; /**< Requests of a batch, at least 1 */
    uint32_t max_sge;
    uint32_t max_inline;
    bool keep;              /**< Keep each work request until its completion */
    ucs_list_link_t *dirty; /**< List this queue enters when it has a chain to post */
    muct_rdma_sq_stats_t *stats; /**< Counters to update; outlive the queue */
} muct_rdma_sq_params_t;

/** @return UCS_OK or UCS_ERR_NO_MEMORY. */
ucs_status_t muct_rdma_sq_init(muct_rdma_sq_t *sq, const muct_rdma_sq_params_t *params);

/** All work requests must have been completed or purged. */
void muct_rdma_sq_cleanup(muct_rdma_sq_t *sq);

/**
 * Post the chain, or retry. A failure is not logged here: error and is_stuck report it.
 * After an error that cannot be repeated the owner must fail the queue pair.
 */
void muct_rdma_sq_ring(muct_rdma_sq_t *sq);

/**
 * Handle a completion for the work request of @a index.
 *
 * @param [in] status  Its status; earlier work requests have succeeded.
 */
void muct_rdma_sq_complete(muct_rdma_sq_t *sq, uint32_t index, ucs_status_t status);

/** Change the keys of every work request that is posted from now on. */
void muct_rdma_sq_set_moved(muct_rdma_sq_t *sq, muct_rdma_sq_move_t move);

/** Accept and post nothing until @ref muct_rdma_sq_resume. An error of the queue pair
 * is cleared; any other error stays, so that the owner fails the endpoint. */
void muct_rdma_sq_suspend(muct_rdma_sq_t *sq);

/**
 * Post all that has not ended, in order, to a new queue pair. Entries may have been
 * changed before, see @ref muct_rdma_sq_at.
 *
 * @param [in] id  High half of every wr_id from now on.
 * @return Work requests that the old queue pair had been given as well.
 */
uint32_t muct_rdma_sq_resume(muct_rdma_sq_t *sq, struct ibv_qp *ibv, uint64_t id);

/** End all work requests, posted or not, with @a status. The queue pair must be
 * destroyed. */
void muct_rdma_sq_purge(muct_rdma_sq_t *sq, ucs_status_t status);

/** Number of work requests that may be added now. */
static inline uint32_t muct_rdma_sq_free(const muct_rdma_sq_t *sq)
{
    return __builtin_expect(sq->is_stuck, 0) ? 0 : sq->depth - (sq->head - sq->tail);
}

/** Bytes that are gathered or posted and have not ended. */
static inline uint64_t muct_rdma_sq_busy_bytes(const muct_rdma_sq_t *sq)
{
    return sq->bytes - sq->ended;
}

/** Whether nothing is gathered or posted. */
static inline bool muct_rdma_sq_is_idle(const muct_rdma_sq_t *sq)
{
    return sq->head == sq->tail;
}

/** Entry of the next work request. */
static inline struct ibv_send_wr *muct_rdma_sq_next(const muct_rdma_sq_t *sq)
{
    return &sq->wrs[sq->head & sq->wr_mask];
}

/** A work request that has not completed; with keep, all of them can be read. */
static inline struct ibv_send_wr *muct_rdma_sq_at(const muct_rdma_sq_t *sq,
                                                  uint32_t index)
{
    return &sq->wrs[index & sq->wr_mask];
}

/**
 * Begin a work request; there must be room. Fill sg_list, num_sge and wr, then call
 * @ref muct_rdma_sq_end.
 */
static inline struct ibv_send_wr *muct_rdma_sq_begin(muct_rdma_sq_t *sq,
                                                     enum ibv_wr_opcode opcode)
{
    struct ibv_send_wr *wr = muct_rdma_sq_next(sq);

    wr->opcode = opcode;
    wr->send_flags = sq->next_flags;
    sq->next_flags = 0;
    return wr;
}

/** Marks of a work request with the key of a certain device of the peer: that key does
 * not change, or it was changed. A mark ends with the work request: another one in its
 * entry has another index. Devices ignore both fields where they are used here. */
#define MUCT_RDMA_SQ_FINAL_KEY 0x4b455946u
#define MUCT_RDMA_SQ_MOVED_KEY 0x4b45594du

/** Mark the work request begun last, a write, as one with the final key. @a device is
 * the lower half of the incarnation of the peer's device. */
static inline void muct_rdma_sq_set_final_key(const muct_rdma_sq_t *sq,
                                              struct ibv_send_wr *wr, uint32_t device)
{
    wr->imm_data = sq->head ^ MUCT_RDMA_SQ_FINAL_KEY;
    wr->qp_type.xrc.remote_srqn = device;
}

static inline bool muct_rdma_sq_has_final_key(const struct ibv_send_wr *wr)
{
    return wr->imm_data == ((uint32_t)wr->wr_id ^ MUCT_RDMA_SQ_FINAL_KEY);
}

/** The key of a posted work request was changed. */
static inline void muct_rdma_sq_set_moved_key(struct ibv_send_wr *wr, uint32_t device)
{
    if (!muct_rdma_sq_has_final_key(wr)) {
        wr->imm_data = (uint32_t)wr->wr_id ^ MUCT_RDMA_SQ_MOVED_KEY;
    }
    wr->qp_type.xrc.remote_srqn = device;
}

/** Device that has the key, or @a first where no mark is. */
static inline uint32_t muct_rdma_sq_key_device(const struct ibv_send_wr *wr,
                                               uint32_t first)
{
    return (muct_rdma_sq_has_final_key(wr) ||
            (wr->imm_data == ((uint32_t)wr->wr_id ^ MUCT_RDMA_SQ_MOVED_KEY)))
               ? wr->qp_type.xrc.remote_srqn
               : first;
}

/** Buffer for inline data of the work request begun last: max_inline bytes. */
static inline void *muct_rdma_sq_inline(muct_rdma_sq_t *sq)
{
    return sq->inline_data + (size_t)(sq->head & sq->wr_mask) * sq->max_inline;
}

/** A mark at the work request that was ended last; there must be none yet. */
static inline void muct_rdma_sq_mark(muct_rdma_sq_t *sq, muct_rdma_done_t done,
                                     void *arg)
{
    muct_rdma_mark_t *mark = &sq->marks[sq->mark_head++ & sq->mask];

    mark->done = done;
    mark->arg = arg;
    mark->bytes = sq->bytes;
    mark->index = sq->head - 1;
}

/** The mark at the work request that was ended last, which is not done. */
static inline muct_rdma_mark_t *muct_rdma_sq_last_mark(muct_rdma_sq_t *sq)
{
    if ((sq->mark_head == sq->mark_tail) ||
        (sq->marks[(sq->mark_head - 1) & sq->mask].index != sq->head - 1)) {
        muct_rdma_sq_mark(sq, NULL, NULL);
    }

    return &sq->marks[(sq->mark_head - 1) & sq->mask];
}

/** End a work request that needs no callback. */
static inline void muct_rdma_sq_end_silent(muct_rdma_sq_t *sq, struct ibv_send_wr *wr,
                                           uint64_t bytes)
{
    wr->wr_id = sq->id | sq->head;
    sq->bytes += bytes;
    if (++sq->head - sq->posted == sq->batch) {
        muct_rdma_sq_ring(sq);
    }
}

/** End a work request, which then belongs to the chain. */
static inline void muct_rdma_sq_add(muct_rdma_sq_t *sq, struct ibv_send_wr *wr,
                                    muct_rdma_done_t done, void *arg, uint64_t bytes)
{
    wr->wr_id = sq->id | sq->head;
    sq->bytes += bytes;
    ++sq->head;
    muct_rdma_sq_mark(sq, done, arg);
}

/** Same as @ref muct_rdma_sq_add, and post the chain when it is full. */
static inline void muct_rdma_sq_end(muct_rdma_sq_t *sq, struct ibv_send_wr *wr,
                                    muct_rdma_done_t done, void *arg, uint64_t bytes)
{
    muct_rdma_sq_add(sq, wr, done, arg, bytes);
    if (sq->head - sq->posted == sq->batch) {
        muct_rdma_sq_ring(sq);
    }
}

/** Mark the queue as having a chain to post. */
static inline void muct_rdma_sq_mark_dirty(muct_rdma_sq_t *sq)
{
    if (!sq->is_dirty) {
        sq->is_dirty = true;
        ucs_list_add_tail(sq->dirty, &sq->dirty_link);
    }
}

/** Mark the queue as lost: another queue pair cannot help either, so the owner must
 * fail. */
static inline void muct_rdma_sq_lose(muct_rdma_sq_t *sq, int error)
{
    sq->error = error;
    sq->is_lost = true;
    muct_rdma_sq_mark_dirty(sq);
}

/** Call this after the work requests of one operation: it posts now, or marks the queue
 * dirty. */
static inline void muct_rdma_sq_kick(muct_rdma_sq_t *sq)
{
    if (sq->head == sq->posted) {
        return;
    }

    if ((sq->posted == sq->tail) && !sq->is_stuck) {
        muct_rdma_sq_ring(sq);
    } else {
        muct_rdma_sq_mark_dirty(sq);
    }
}

/** End the only work request of an operation: muct_rdma_sq_end() and _kick() in fewer
 * steps. */
static inline void muct_rdma_sq_end_only(muct_rdma_sq_t *sq, struct ibv_send_wr *wr,
                                         muct_rdma_done_t done, void *arg,
                                         uint64_t bytes)
{
    muct_rdma_sq_add(sq, wr, done, arg, bytes);
    /* there was room, so the device is not stuck */
    if ((sq->head - sq->posted == sq->batch) || (sq->posted == sq->tail)) {
        muct_rdma_sq_ring(sq);
    } else {
        muct_rdma_sq_mark_dirty(sq);
    }
}

#endif
