/* SPDX-License-Identifier: BSD-3-Clause */

/* How operations react to messages and ends of peers, and to the context's close. */

#include "direct/op_watch.h"

#include "direct/op.h"
#include "message/deliver.h"
#include "message/listen.h"
#include "message/peer_close.h"

static void mkv_ops_look(mkv_peer_t *peer)
{
    mkv_op_t *op;

    mkv_list_for_each(op, &peer->ops, of_peer)
    {
        mkv_op_dirty(op); /* quiet may be provable now */
    }
}

static void mkv_ops_peer_ended(mkv_peer_t *peer)
{
    mkv_op_t *op;

    mkv_list_for_each(op, &peer->ops, of_peer)
    {
        mkv_op_fail(op, peer->status, "%s", peer->error);
    }
    mkv_ops_look(peer);
}

static void mkv_ops_receive(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                            size_t length)
{
    mkv_news_t *event = mkv_peer_deliver(peer, MKV_EV_NOTE, msg);

    (void)data;
    (void)length;
    if (event != NULL) {
        event->status = (mkv_status_t)msg->code;
        event->value = msg->mode;
    }
}

static void mkv_op_expired(mkv_op_t *op)
{
    if (!mkv_op_has_ended(op)) {
        mkv_op_fail(op, MKV_ERR_XFER_TIMEOUT,
                    "not complete within its timeout of %u ms", op->params.timeout_ms);
    } else if (!op->is_quiet) {
        mkv_op_set_drain_deadline(op);
        mkv_peer_check_late_drain(op->peer, true, &op->seen, "operation",
                                  op->params.id);
    }
}

static uint64_t mkv_ops_expire(mkv_peer_t *peer, uint64_t now)
{
    uint64_t next = MKV_NEVER;
    mkv_op_t *op;

    mkv_list_for_each(op, &peer->ops, of_peer)
    {
        if (now >= op->deadline) {
            mkv_op_expired(op);
        }
        next = (op->deadline < next) ? op->deadline : next;
    }
    return next;
}

static bool mkv_ops_have_open(mkv_peer_t *peer, uint64_t *id_p)
{
    if (mkv_list_is_empty(&peer->ops)) {
        return false;
    }
    *id_p = mkv_list_head(&peer->ops, mkv_op_t, of_peer)->params.id;
    return true;
}

void mkv_ops_listen(mkv_ctx_t *ctx)
{
    static const mkv_peer_listener_t listener = {
        .what = "operations",
        .messages = 1ull << MKV_MSG_NOTE,
        .ended = mkv_ops_peer_ended,
        .look = mkv_ops_look,
        .receive = mkv_ops_receive,
        .expire = mkv_ops_expire,
        .has_open = mkv_ops_have_open,
    };

    mkv_peer_listen(ctx, &listener);
}

/* ---- The end of the context ------------------------------------------------------ */

unsigned mkv_ops_abort(mkv_ctx_t *ctx)
{
    unsigned count = 0;
    mkv_op_t *op;

    mkv_list_for_each(op, &ctx->ops, list)
    {
        mkv_log_warn(ctx, "close: operation %llu is still open",
                     (unsigned long long)op->params.id);
        ++count;
        mkv_op_fail(op, MKV_ERR_ABORTED, "context %s was closed", ctx->name);
    }
    return count;
}

bool mkv_ops_are_quiet(mkv_ctx_t *ctx)
{
    mkv_op_t *op;

    mkv_list_for_each(op, &ctx->ops, list)
    {
        if (!op->is_quiet) {
            return false;
        }
    }
    return true;
}

void mkv_ops_cleanup(mkv_ctx_t *ctx)
{
    mkv_op_t *op, *next;

    mkv_list_for_each_safe(op, next, &ctx->ops, list)
    {
        mkv_op_free(op);
    }
}
