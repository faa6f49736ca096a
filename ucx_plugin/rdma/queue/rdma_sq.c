/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/queue/rdma_sq.h"

#include "base/muct_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void muct_rdma_sq_free_memory(muct_rdma_sq_t *sq)
{
    free(sq->inline_data);
    free(sq->sges);
    free(sq->wrs);
    free(sq->marks);
}

static uint32_t muct_rdma_sq_pow2(uint32_t least)
{
    uint32_t num = 1;

    while (num < least) {
        num *= 2;
    }

    return num;
}

/* An entry is before the next one, and has scatter entries and inline data of its own.
 */
static ucs_status_t muct_rdma_sq_make_entries(muct_rdma_sq_t *sq, uint32_t num)
{
    uint32_t i;

    sq->wrs = calloc(num, sizeof(*sq->wrs));
    sq->sges = calloc((size_t)num * sq->max_sge, sizeof(*sq->sges));
    sq->inline_data = malloc((size_t)num * sq->max_inline + 1);
    if ((sq->wrs == NULL) || (sq->sges == NULL) || (sq->inline_data == NULL)) {
        free(sq->inline_data);
        free(sq->sges);
        free(sq->wrs);
        return UCS_ERR_NO_MEMORY;
    }

    sq->wr_mask = num - 1;
    for (i = 0; i < num; ++i) {
        sq->wrs[i].next = &sq->wrs[(i + 1) & sq->wr_mask];
        sq->wrs[i].sg_list = &sq->sges[(size_t)i * sq->max_sge];
    }
    return UCS_OK;
}

static ucs_status_t muct_rdma_sq_make_marks(muct_rdma_sq_t *sq, uint32_t num)
{
    sq->marks = calloc(num, sizeof(*sq->marks));
    if (sq->marks == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    sq->mask = num - 1;
    /* keep room for one more chain */
    sq->grow_above = (num < sq->depth) ? num - sq->batch : UINT32_MAX;
    return UCS_OK;
}

ucs_status_t muct_rdma_sq_init(muct_rdma_sq_t *sq, const muct_rdma_sq_params_t *params)
{
    const uint32_t most = muct_rdma_sq_pow2(params->depth);
    uint32_t first;

    memset(sq, 0, sizeof(*sq));
    sq->ibv = params->ibv;
    sq->id = params->id;
    sq->depth = params->depth;
    sq->batch = (params->batch < params->depth) ? params->batch : params->depth;
    sq->max_sge = params->max_sge;
    sq->max_inline = params->max_inline;
    sq->keep = params->keep;
    sq->dirty = params->dirty;
    sq->stats = params->stats;
    first = muct_rdma_sq_pow2(2 * sq->batch);
    first = (first < most) ? first : most;
    if (muct_rdma_sq_make_marks(sq, first) != UCS_OK) {
        goto err;
    }

    if (muct_rdma_sq_make_entries(
            sq, sq->keep ? first : muct_rdma_sq_pow2(sq->batch)) != UCS_OK) {
        free(sq->marks);
        goto err;
    }

    return UCS_OK;

err:
    muct_error("failed to allocate a send queue of %u work requests", first);
    return UCS_ERR_NO_MEMORY;
}

/* Move an entry to its place in the larger ring, inline data included. */
static void muct_rdma_sq_move_entry(muct_rdma_sq_t *sq, const muct_rdma_sq_t *old,
                                    uint32_t index)
{
    const uint32_t from = index & old->wr_mask, to = index & sq->wr_mask;
    struct ibv_send_wr *wr = &sq->wrs[to];
    const struct ibv_send_wr *next = wr->next;

    memcpy(&sq->sges[(size_t)to * sq->max_sge], old->wrs[from].sg_list,
           sq->max_sge * sizeof(*sq->sges));
    *wr = old->wrs[from];
    wr->next = (struct ibv_send_wr *)next;
    wr->sg_list = &sq->sges[(size_t)to * sq->max_sge];
    if (wr->send_flags & IBV_SEND_INLINE) {
        memcpy(sq->inline_data + (size_t)to * sq->max_inline,
               old->inline_data + (size_t)from * sq->max_inline, sq->max_inline);
        wr->sg_list[0].addr =
            (uintptr_t)(sq->inline_data + (size_t)to * sq->max_inline);
    }
}

/* Double the number of entries. Call it right behind a doorbell, when no entry is being
 * written. */
static void muct_rdma_sq_grow(muct_rdma_sq_t *sq)
{
    const muct_rdma_sq_t old = *sq;
    uint32_t i;

    if ((muct_rdma_sq_make_marks(sq, 2 * (old.mask + 1)) != UCS_OK) ||
        (sq->keep &&
         (muct_rdma_sq_make_entries(sq, 2 * (old.wr_mask + 1)) != UCS_OK))) {
        muct_error("failed to allocate a send queue of %u work requests",
                   2 * (old.mask + 1));
        if (sq->marks != old.marks) {
            free(sq->marks);
        }
        *sq = old;
        sq->grow_above = UINT32_MAX;
        sq->is_stuck = true;
        muct_rdma_sq_lose(
            sq, ENOMEM); /* no memory for entries that callers have reserved */
        return;
    }

    for (i = old.mark_tail; i != old.mark_head; ++i) {
        sq->marks[i & sq->mask] = old.marks[i & old.mask];
    }
    free(old.marks);
    if (!sq->keep) {
        return;
    }

    for (i = old.tail; i != old.head; ++i) {
        muct_rdma_sq_move_entry(sq, &old, i);
    }
    free(old.inline_data);
    free(old.sges);
    free(old.wrs);
}

static void muct_rdma_sq_clear_dirty(muct_rdma_sq_t *sq)
{
    if (sq->is_dirty) {
        sq->is_dirty = false;
        ucs_list_del(&sq->dirty_link);
    }
}

void muct_rdma_sq_cleanup(muct_rdma_sq_t *sq)
{
    muct_rdma_sq_clear_dirty(sq);
    muct_rdma_sq_free_memory(sq);
}

/*
 * The device accepted the chain up to @a bad only. ENOMEM is repeated after the next
 * completion; without work in flight it is final, as other errors are.
 */
static void muct_rdma_sq_ring_failed(muct_rdma_sq_t *sq, int error,
                                     const struct ibv_send_wr *bad)
{
    uint32_t taken = 0;

    if (bad != NULL) {
        taken = ((uint32_t)(bad - sq->wrs) - sq->posted) & sq->wr_mask;
    }

    sq->posted += taken;
    sq->stats->wrs += taken;
    sq->is_stuck = true;
    if ((error != ENOMEM) || (sq->posted == sq->tail)) {
        sq->error = error;
    }

    muct_rdma_sq_mark_dirty(sq);
}

/* Change the keys of work requests not posted yet to those of the present device. */
static bool muct_rdma_sq_prepare(muct_rdma_sq_t *sq)
{
    uint32_t index;

    if (sq->state & MUCT_RDMA_SQ_SUSPENDED) {
        return false;
    }

    for (index = sq->posted; index != sq->head; ++index) {
        if (!sq->move(sq, muct_rdma_sq_at(sq, index))) {
            sq->is_stuck = true;
            muct_rdma_sq_lose(sq, EFAULT);
            return false;
        }
    }

    return true;
}

void muct_rdma_sq_ring(muct_rdma_sq_t *sq)
{
    struct ibv_send_wr *last, *next, *bad = NULL;
    int error;

    if ((sq->posted == sq->head) || (sq->error != 0) ||
        (__builtin_expect(sq->state != 0, 0) && !muct_rdma_sq_prepare(sq))) {
        return;
    }

    (void)muct_rdma_sq_last_mark(sq);
    last = &sq->wrs[(sq->head - 1) & sq->wr_mask];
    next = last->next;
    last->next = NULL;
    last->send_flags |= IBV_SEND_SIGNALED;
    ++sq->stats->doorbells;
    error = ibv_post_send(sq->ibv, &sq->wrs[sq->posted & sq->wr_mask], &bad);
    last->next = next;
    if (__builtin_expect(error != 0, 0)) {
        muct_rdma_sq_ring_failed(sq, error, bad);
        return;
    }

    sq->stats->wrs += sq->head - sq->posted;
    sq->stats->bytes += sq->bytes - sq->rung;
    sq->rung = sq->bytes;
    sq->posted = sq->head;
    sq->is_stuck = false;
    muct_rdma_sq_clear_dirty(sq);
    if (__builtin_expect(sq->head - sq->tail > sq->grow_above, 0)) {
        muct_rdma_sq_grow(sq);
    }
}

static inline void muct_rdma_sq_end_mark(muct_rdma_sq_t *sq, ucs_status_t status)
{
    muct_rdma_mark_t *mark = &sq->marks[sq->mark_tail & sq->mask];
    muct_rdma_done_t done = mark->done;
    void *arg = mark->arg;

    /* room first: the callback may post, into this very place */
    sq->ended = mark->bytes;
    sq->tail = mark->index + 1;
    ++sq->mark_tail;
    if (done != NULL) {
        done(arg, status);
    }
}

void muct_rdma_sq_complete(muct_rdma_sq_t *sq, uint32_t index, ucs_status_t status)
{
    uint32_t before; /* work requests from the next mark's to this one */

    if ((uint32_t)(index - sq->tail) >= (uint32_t)(sq->posted - sq->tail)) {
        muct_warn(
            "completion for work request %u of qp 0x%x, where %u to %u are posted",
            index, sq->ibv->qp_num, sq->tail, sq->posted);
        return;
    }

    while (sq->mark_tail != sq->mark_head) {
        before = index - sq->marks[sq->mark_tail & sq->mask].index;
        if ((int32_t)before < 0) {
            break;
        }
        muct_rdma_sq_end_mark(sq, (before == 0) ? status : UCS_OK);
    }

    /* a work request failed in the middle of a chain: the purge calls its mark */
    if ((int32_t)(index - sq->tail) >= 0) {
        sq->tail = index + 1;
    }
}

void muct_rdma_sq_set_moved(muct_rdma_sq_t *sq, muct_rdma_sq_move_t move)
{
    sq->move = move;
    sq->state |= MUCT_RDMA_SQ_MOVED;
}

void muct_rdma_sq_suspend(muct_rdma_sq_t *sq)
{
    sq->state |= MUCT_RDMA_SQ_SUSPENDED;
    sq->is_stuck = true;
    if (!sq->is_lost) {
        sq->error = 0;
        muct_rdma_sq_clear_dirty(sq);
    }
}

uint32_t muct_rdma_sq_resume(muct_rdma_sq_t *sq, struct ibv_qp *ibv, uint64_t id)
{
    uint32_t index, num = sq->posted - sq->tail;

    sq->ibv = ibv;
    sq->id = id;
    for (index = sq->tail; index != sq->head; ++index) {
        muct_rdma_sq_at(sq, index)->wr_id = id | index;
    }

    sq->posted = sq->tail;
    sq->state &= (uint8_t)~MUCT_RDMA_SQ_SUSPENDED;
    sq->is_stuck = false;
    muct_rdma_sq_ring(sq);
    return num;
}

void muct_rdma_sq_purge(muct_rdma_sq_t *sq, ucs_status_t status)
{
    muct_rdma_sq_clear_dirty(sq);
    sq->posted = sq->head;
    while (sq->mark_tail != sq->mark_head) {
        muct_rdma_sq_end_mark(sq, status);
    }
    sq->tail = sq->head;
    sq->ended = sq->bytes;
}
