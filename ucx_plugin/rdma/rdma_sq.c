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

ucs_status_t muct_rdma_sq_init(muct_rdma_sq_t *sq, const muct_rdma_sq_params_t *params)
{
    uint32_t i, num_marks = 1;

    while (num_marks < params->depth) {
        num_marks *= 2;
    }

    memset(sq, 0, sizeof(*sq));
    sq->ibv = params->ibv;
    sq->id = params->id;
    sq->depth = params->depth;
    sq->batch = (params->batch < params->depth) ? params->batch : params->depth;
    sq->max_sge = params->max_sge;
    sq->max_inline = params->max_inline;
    sq->mask = num_marks - 1;
    sq->dirty = params->dirty;
    sq->stats = params->stats;
    sq->marks = calloc(num_marks, sizeof(*sq->marks));
    sq->wrs = calloc(sq->batch, sizeof(*sq->wrs));
    sq->sges = calloc((size_t)sq->batch * sq->max_sge, sizeof(*sq->sges));
    sq->inline_data = malloc((size_t)sq->batch * sq->max_inline + 1);
    if ((sq->marks == NULL) || (sq->wrs == NULL) || (sq->sges == NULL) ||
        (sq->inline_data == NULL)) {
        muct_error("failed to allocate a send queue of %u work requests", sq->depth);
        muct_rdma_sq_free_memory(sq);
        return UCS_ERR_NO_MEMORY;
    }

    for (i = 0; i < sq->batch; ++i) {
        sq->wrs[i].next = (i + 1 < sq->batch) ? &sq->wrs[i + 1] : NULL;
        sq->wrs[i].sg_list = &sq->sges[(size_t)i * sq->max_sge];
    }

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
        taken = (uint32_t)(bad - &sq->wrs[sq->chain_first]);
    }

    sq->posted += taken;
    sq->stats->wrs += taken;
    sq->chain_first += taken;
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

    if ((sq->chain_first == sq->chain_end) || (sq->error != 0)) {
        return;
    }

    (void)muct_rdma_sq_last_mark(sq);
    last = &sq->wrs[sq->chain_end - 1];
    next = last->next;
    last->next = NULL;
    last->send_flags |= IBV_SEND_SIGNALED;
    ++sq->stats->doorbells;
    error = ibv_post_send(sq->ibv, &sq->wrs[sq->chain_first], &bad);
    last->next = next;
    if (__builtin_expect(error != 0, 0)) {
        muct_rdma_sq_ring_failed(sq, error, bad);
        return;
    }

    sq->stats->wrs += sq->head - sq->posted;
    sq->stats->bytes += sq->bytes - sq->rung;
    sq->rung = sq->bytes;
    sq->posted = sq->head;
    sq->chain_first = 0;
    sq->chain_end = 0;
    sq->is_stuck = false;
    muct_rdma_sq_clear_dirty(sq);
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

void muct_rdma_sq_purge(muct_rdma_sq_t *sq, ucs_status_t status)
{
    muct_rdma_sq_clear_dirty(sq);
    sq->chain_first = 0;
    sq->chain_end = 0;
    sq->posted = sq->head;
    while (sq->mark_tail != sq->mark_head) {
        muct_rdma_sq_end_mark(sq, status);
    }
    sq->tail = sq->head;
    sq->ended = sq->bytes;
}
