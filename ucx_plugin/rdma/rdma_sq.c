/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/rdma_sq.h"

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

/* Entries for the chain there is and the next one. */
static void muct_rdma_sq_prepare(muct_rdma_sq_t *sq)
{
    uint32_t i;

    while ((sq->num_ready <= sq->wr_mask) &&
           (sq->num_ready < sq->head + 2 * sq->batch)) {
        i = sq->num_ready++;
        sq->wrs[i].next = &sq->wrs[(i + 1) & sq->wr_mask];
        sq->wrs[i].sg_list = &sq->sges[(size_t)i * sq->max_sge];
    }
}

ucs_status_t muct_rdma_sq_init(muct_rdma_sq_t *sq, const muct_rdma_sq_params_t *params)
{
    uint32_t num_wrs, num_marks = muct_rdma_sq_pow2(params->depth);

    memset(sq, 0, sizeof(*sq));
    sq->ibv = params->ibv;
    sq->id = params->id;
    sq->depth = params->depth;
    sq->batch = (params->batch < params->depth) ? params->batch : params->depth;
    sq->max_sge = params->max_sge;
    sq->max_inline = params->max_inline;
    sq->mask = num_marks - 1;
    num_wrs = params->keep ? num_marks : muct_rdma_sq_pow2(sq->batch);
    sq->wr_mask = num_wrs - 1;
    sq->dirty = params->dirty;
    sq->stats = params->stats;
    sq->marks = calloc(num_marks, sizeof(*sq->marks));
    sq->wrs = calloc(num_wrs, sizeof(*sq->wrs));
    sq->sges = calloc((size_t)num_wrs * sq->max_sge, sizeof(*sq->sges));
    sq->inline_data = malloc((size_t)num_wrs * sq->max_inline + 1);
    if ((sq->marks == NULL) || (sq->wrs == NULL) || (sq->sges == NULL) ||
        (sq->inline_data == NULL)) {
        muct_error("failed to allocate a send queue of %u work requests", sq->depth);
        muct_rdma_sq_free_memory(sq);
        return UCS_ERR_NO_MEMORY;
    }

    muct_rdma_sq_prepare(sq);
    return UCS_OK;
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
 * The device took the chain up to @a bad only. No room (ENOMEM) passes when something
 * completes; with nothing to complete it would not, and is as final as other errors.
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

void muct_rdma_sq_ring(muct_rdma_sq_t *sq)
{
    struct ibv_send_wr *last, *next, *bad = NULL;
    int error;

    if ((sq->posted == sq->head) || (sq->error != 0) || sq->is_suspended) {
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
    if (__builtin_expect(sq->num_ready <= sq->wr_mask, 0)) {
        muct_rdma_sq_prepare(sq);
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

    /* one that failed in the middle of a chain: its mark is told by the purge */
    if ((int32_t)(index - sq->tail) >= 0) {
        sq->tail = index + 1;
    }
}

void muct_rdma_sq_suspend(muct_rdma_sq_t *sq)
{
    sq->is_suspended = true;
    sq->is_stuck = true;
    muct_rdma_sq_clear_dirty(sq);
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
    sq->is_suspended = false;
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
