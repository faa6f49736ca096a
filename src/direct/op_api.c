/* SPDX-License-Identifier: BSD-3-Clause */

/* Public calls on one-sided operations. */

#include "base/abi.h"
#include "direct/op_build.h"
#include "direct/op_step.h"
#include "message/credit.h"

#include <string.h>

/* Rounds of progress in which an operation may end within the call: completions, a
 * flush, the end */
#define MKV_OP_ROUNDS 2

/* @return Whether progress left no work to a later round, for any peer */
static bool mkv_op_is_all_done(const mkv_ctx_t *ctx, uint64_t deadline)
{
    mkv_peer_t *peer;

    if (mkv_ctx_has_steps(ctx) || !mkv_list_is_empty(&ctx->dirty_ops) ||
        !mkv_list_is_empty(&ctx->busy_peers) || mkv_ctx_has_events(ctx) ||
        (ctx->next_deadline < deadline)) {
        return false;
    }
    mkv_list_for_each(peer, &ctx->peers, list)
    {
        if ((peer->tx_bytes > 0) || (peer->inflight_ops > 0) || peer->is_flushing) {
            return false;
        }
    }
    return true;
}

static void mkv_op_begin(mkv_op_t *op)
{
    unsigned i;

    op->is_at_once = (op->params.flags & MKV_OP_AT_ONCE);
    op->ctx->round_cost = 0;
    (void)mkv_op_step(op);
    for (i = 0; op->is_at_once && !mkv_op_has_ended(op) && (i < MKV_OP_ROUNDS); ++i) {
        (void)mkv_ctx_progress(op->ctx);
    }
    op->is_at_once = false;
}

mkv_status_t mkv_op_post(mkv_peer_t *peer, const mkv_op_params_t *params,
                         mkv_op_t **op_p)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_op_params_t mine;
    uint64_t deadline;
    bool is_over = false;
    mkv_status_t status;

    MKV_HOLD(ctx, "op_post", return MKV_ERR_INVALID);
    status = mkv_struct_read(&ctx->log, &mkv_struct_op_params, params, &mine);
    if (status != MKV_OK) {
        return status;
    }

    mkv_enter(ctx);
    deadline = ctx->next_deadline;
    status = mkv_op_build(peer, &mine, op_p);
    if ((status == MKV_OK) && (mine.flags & MKV_OP_NOTIFY)) {
        mkv_credit_sent(peer, mine.note_length); /* take the credit for the note */
    }
    if (status == MKV_OK) {
        mkv_op_begin(*op_p);
        if ((mine.flags & MKV_OP_AT_ONCE) && ((*op_p)->status == MKV_OK)) {
            mkv_op_free_in_rounds(*op_p);
            *op_p = NULL;
            is_over = mkv_op_is_all_done(ctx, deadline);
        }
    }
    if (is_over) {
        mkv_leave_quietly(ctx); /* no thread needs to wake */
    } else {
        mkv_leave(ctx);
    }
    return status;
}

mkv_status_t mkv_op_query(const mkv_op_t *op, mkv_op_attr_t *attr)
{
    mkv_ctx_t *ctx = op->ctx;
    mkv_op_attr_t values;

    MKV_HOLD(ctx, "op_query", return MKV_ERR_INVALID);
    memset(&values, 0, sizeof(values));
    mkv_enter(ctx);
    values.id = op->params.id;
    values.status = op->status;
    values.is_quiet = op->is_quiet;
    memcpy(values.error, op->error, sizeof(values.error));
    values.pieces = op->num;
    values.bytes = op->bytes;
    values.num_ucp_calls = op->num_ucp_calls;
    values.age_ns = mkv_ctx_now(ctx) - op->open_time;
    values.user_data = op->params.user_data;
    values.may_arrive = op->may_arrive;
    mkv_leave_quietly(ctx);
    return mkv_struct_write(&ctx->log, &mkv_struct_op_attr, &values, attr);
}

mkv_status_t mkv_op_status(const mkv_op_t *op)
{
    mkv_ctx_t *ctx = op->ctx;
    mkv_status_t status;

    MKV_HOLD(ctx, "op_status", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    status = op->status;
    mkv_leave_quietly(ctx);
    return status;
}

mkv_status_t mkv_op_abort(mkv_op_t *op)
{
    mkv_ctx_t *ctx = op->ctx;

    MKV_HOLD(ctx, "op_abort", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    mkv_op_fail(op, MKV_ERR_ABORTED, "aborted");
    (void)mkv_op_step(op);
    mkv_leave(ctx);
    return MKV_OK;
}

mkv_status_t mkv_op_close(mkv_op_t *op)
{
    mkv_ctx_t *ctx = op->ctx;
    mkv_status_t status = MKV_OK;

    if (mkv_ctx_is_forked(ctx)) {
        return MKV_OK; /* the object is the parent's */
    }
    MKV_HOLD(ctx, "op_close", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    if (op->is_quiet) {
        mkv_op_free_in_rounds(op);
    } else {
        status = mkv_error(&ctx->log, MKV_ERR_BUSY, "operation %llu is not quiet yet",
                           (unsigned long long)op->params.id);
    }
    mkv_leave(ctx);
    return status;
}
