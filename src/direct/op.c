/* SPDX-License-Identifier: BSD-3-Clause */

/* End of operations: status and quiet are separate, as for transfers. */

#include "direct/op.h"

#include "message/message.h"
#include "peer/path.h"

#include <stdlib.h>

static mkv_news_t *mkv_op_event(mkv_op_t *op, mkv_event_type_t type)
{
    mkv_news_t *event;

    if (op->is_at_once && (op->status == MKV_OK)) {
        return NULL; /* the return value of the call reports the end */
    }
    event = mkv_event_add(op->ctx, type);
    if (event != NULL) {
        event->peer = op->peer->remote.peer;
        event->op = op;
        event->id = op->params.id;
        event->status = op->status;
        event->user_data = op->params.user_data;
        mkv_event_text(event, "%s", op->error);
    }
    return event;
}

/* Notify the peer of a failure as well: it may wait for the bytes */
static void mkv_op_send_note(mkv_op_t *op)
{
    mkv_msg_t msg = {.type = MKV_MSG_NOTE,
                     .id = op->params.id,
                     .mode = op->params.mode,
                     .code = op->status,
                     .bytes = (op->status == MKV_OK) ? op->bytes : 0,
                     .data = op->note,
                     .length = op->params.note_length};
    mkv_status_t status;

    if (!(op->params.flags & MKV_OP_NOTIFY) || (op->peer->state != MKV_CONN_READY)) {
        return;
    }
    status = mkv_message_send(op->peer, &msg);
    if (status != MKV_OK) {
        mkv_peer_fail(op->peer, status, "%s", mkv_last_error());
    }
}

void mkv_op_complete(mkv_op_t *op)
{
    op->status = MKV_OK;
    if (mkv_op_is_write(op)) {
        MKV_COUNT(op->peer, bytes_written, op->bytes);
    } else {
        MKV_COUNT(op->peer, bytes_read, op->bytes);
    }
    MKV_COUNT(op->peer, elements_completed, op->num);
    mkv_op_send_note(op);
    (void)mkv_op_event(op, MKV_EV_DONE);
    mkv_op_set_quiet(op);
}

void mkv_op_set_drain_deadline(mkv_op_t *op)
{
    op->deadline =
        mkv_ctx_now(op->ctx) + op->params.drain_timeout_ms * MKV_NSEC_PER_MSEC;
    mkv_ctx_deadline(op->ctx, op->deadline);
}

void mkv_op_fail(mkv_op_t *op, mkv_status_t status, const char *fmt, ...)
{
    va_list args;
    int length;

    if (mkv_op_has_ended(op)) {
        return;
    }
    length = snprintf(op->error, sizeof(op->error),
                      "operation %llu, peer %s: ", (unsigned long long)op->params.id,
                      op->peer->name);
    va_start(args, fmt);
    mkv_text_va(op->error + length, sizeof(op->error) - (size_t)length, fmt, args);
    va_end(args);
    op->status = status;
    mkv_op_set_drain_deadline(op);
    mkv_log_debug(op->ctx, "%s (%s)", op->error, mkv_status_string(status));
    mkv_op_send_note(op);
    (void)mkv_op_event(op,
                       (status == MKV_ERR_ABORTED) ? MKV_EV_ABORTED : MKV_EV_FAILED);
    mkv_op_dirty(op);
}

/* Messages of an emulated put lie in the peer's sockets until its UCX reads them */
static bool mkv_op_may_still_arrive(mkv_op_t *op)
{
    return op->has_lost_puts && !mkv_paths_put_directly(op->peer) &&
           (mkv_peer_look_claim(op->peer) != MKV_CLAIM_GONE);
}

void mkv_op_set_quiet(mkv_op_t *op)
{
    mkv_news_t *event;

    op->is_quiet = true;
    op->may_arrive = mkv_op_may_still_arrive(op);
    op->deadline = MKV_NEVER;
    event = mkv_op_event(op, MKV_EV_QUIET);
    if (event != NULL) {
        event->value = op->may_arrive;
    }
}

/* @param left  Regions to keep for now. */
static void mkv_op_release(mkv_op_t *op, size_t left)
{
    const mkv_op_ref_t *ref;

    while (op->num_refs > left) {
        ref = &op->refs[--op->num_refs];
        --ref->local->num_ops;
        mkv_rmem_put(&op->peer->remote, ref->remote);
    }
}

void mkv_op_free_in_rounds(mkv_op_t *op)
{
    mkv_events_forget_op(op->ctx, op); /* polls must not find it between two rounds */
    while (op->num_refs > MKV_ROUND_COST) {
        mkv_op_release(op, op->num_refs - MKV_ROUND_COST);
        mkv_pause(op->ctx);
    }
    mkv_op_free(op);
}

void mkv_op_free(mkv_op_t *op)
{
    mkv_events_forget_op(op->ctx, op);
    mkv_op_release(op, 0);
    mkv_list_del(&op->list);
    mkv_list_del(&op->of_peer);
    mkv_list_del(&op->dirty);
    mkv_list_del(&op->flush);
    mkv_event_unreserve(op->ctx, MKV_OP_EVENTS);
    free(op->note);
    free(op->refs);
    free(op->buffers);
    free(op);
}
