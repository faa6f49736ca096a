/* SPDX-License-Identifier: BSD-3-Clause */

/*
 *   pieces given ... all have completed --WRITE: flush--> note, DONE, QUIET
 *
 *   a failure: FAILED at once ... calls have come back, puts are flushed --> QUIET
 */

#include "direct/op_step.h"

#include "direct/op_give.h"
#include "peer/backend.h"

/* ---- Flushing, one at a time for all operations of a peer that wait for it ------- */

static void mkv_ops_flushed_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;
    mkv_op_t *op;

    while (!mkv_list_is_empty(&peer->ops_flushing)) {
        op = mkv_list_head(&peer->ops_flushing, mkv_op_t, flush);
        mkv_list_del(&op->flush);
        op->puts = MKV_OP_PUTS_ARRIVED;
        if (status != UCS_OK) { /* another flush or the connection's end follows */
            op->puts = MKV_OP_PUTS_GIVEN;
            mkv_op_fail(op, mkv_status_of_ucs(status), "flush failed: %s",
                        ucs_status_string(status));
        }
        mkv_op_dirty(op);
    }
    if (!mkv_list_is_empty(
            &peer->ops_to_flush)) { /* operations wait for another flush */
        mkv_op_dirty(mkv_list_head(&peer->ops_to_flush, mkv_op_t, flush));
    }
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

static void mkv_ops_flush(mkv_peer_t *peer)
{
    if (mkv_list_is_empty(&peer->ops_to_flush) ||
        !mkv_list_is_empty(&peer->ops_flushing)) {
        return;
    }
    mkv_list_splice(&peer->ops_to_flush, &peer->ops_flushing);
    MKV_COUNT(peer, flushes, 1);
    if (peer->state >= MKV_CONN_CLOSING) {
        mkv_peer_get(peer);
        mkv_ops_flushed_cb(NULL, UCS_ERR_NOT_CONNECTED, peer);
    } else {
        mkv_peer_flush(peer, mkv_ops_flushed_cb);
    }
}

/* A local completion does not prove that the bytes have arrived at the peer */
static void mkv_op_want_flush(mkv_op_t *op)
{
    if (mkv_conn_is_cut_off(op->peer->state)) {
        return; /* the connection's end completes the operation */
    }
    op->puts = MKV_OP_PUTS_FLUSHING;
    mkv_list_queue(&op->peer->ops_to_flush, &op->flush);
}

/* ---- Steps ----------------------------------------------------------------------- */

/* A lane that accepted lists before has refused one: restart, piece by piece */
static void mkv_op_repeat(mkv_op_t *op)
{
    op->must_repeat = false;
    op->next = 0;
}

static unsigned mkv_op_step_running(mkv_op_t *op)
{
    unsigned count = mkv_op_give(op);

    if (!mkv_op_has_ended(op) && (op->next < op->num) &&
        (op->ctx->round_cost >= MKV_ROUND_COST)) {
        mkv_op_dirty(op); /* the next round continues */
    }
    if (mkv_op_has_ended(op) || (op->num_inflight > 0)) {
        return count;
    }
    if (op->must_repeat) {
        mkv_op_repeat(op);
        mkv_op_dirty(op);
    } else if (op->next < op->num) {
        mkv_op_dirty(op); /* other operations use the credit */
    } else if (op->puts == MKV_OP_PUTS_GIVEN) {
        mkv_op_want_flush(op);
        ++count;
    } else if (op->puts == MKV_OP_PUTS_ARRIVED) {
        mkv_op_complete(op);
        ++count;
    }
    return count;
}

static unsigned mkv_op_step_ended(mkv_op_t *op)
{
    if (op->is_quiet || (op->num_inflight > 0)) {
        return 0;
    }
    if (op->puts == MKV_OP_PUTS_GIVEN) {
        mkv_op_want_flush(op);
    }
    if ((op->puts == MKV_OP_PUTS_ARRIVED) || (op->peer->state == MKV_CONN_GONE)) {
        op->has_lost_puts |= (op->puts != MKV_OP_PUTS_ARRIVED);
        mkv_op_set_quiet(op);
    }
    return 1;
}

unsigned mkv_op_step(mkv_op_t *op)
{
    unsigned count = mkv_op_has_ended(op) ? 0 : mkv_op_step_running(op);

    if (mkv_op_has_ended(op)) {
        count += mkv_op_step_ended(op);
    }
    mkv_ops_flush(op->peer);
    return count;
}

unsigned mkv_ops_step(mkv_ctx_t *ctx)
{
    unsigned count = 0;
    mkv_list_t dirty;
    mkv_op_t *op;

    /* Step each once. Operations without credit wait for the next round, in which those
     * that had no turn come first */
    ctx->round_cost = 0;
    mkv_list_init(&dirty);
    mkv_list_splice(&ctx->dirty_ops, &dirty);
    while (!mkv_list_is_empty(&dirty) && (ctx->round_cost < MKV_ROUND_COST)) {
        op = mkv_list_head(&dirty, mkv_op_t, dirty);
        mkv_list_del(&op->dirty);
        count += mkv_op_step(op);
    }
    mkv_list_splice(&ctx->dirty_ops, &dirty);
    mkv_list_splice(&dirty, &ctx->dirty_ops);
    return count;
}
