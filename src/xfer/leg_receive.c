/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages of a transfer: which leg they are for, and what they change. The protocol is
 * drawn in leg.c.
 */

#include "xfer/leg_receive.h"

#include "peer/message.h"
#include "peer/packet.h"
#include "xfer/early.h"
#include "xfer/expose.h"
#include "xfer/tombstone.h"

/* ---- Answering ------------------------------------------------------------------- */

static void mkv_reply_drained(mkv_peer_t *peer, const mkv_msg_t *term)
{
    mkv_msg_t msg = {.type = MKV_MSG_DRAINED,
                     .id = term->id,
                     .epoch = term->epoch,
                     .to_nonce = term->from_nonce};

    msg.from_nonce = (term->to_nonce != 0) ? term->to_nonce : mkv_ctx_nonce(peer->ctx);
    if (mkv_message_send(peer, &msg) != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "%s", mkv_last_error());
    }
}

/* What is not here and cannot be kept: tell the sender why */
static void mkv_reply_term(mkv_peer_t *peer, const mkv_msg_t *expose,
                           mkv_status_t status, const char *text)
{
    mkv_msg_t msg = {.type = MKV_MSG_TERM,
                     .id = expose->id,
                     .epoch = expose->epoch,
                     .from_nonce = mkv_ctx_nonce(peer->ctx),
                     .to_nonce = expose->from_nonce,
                     .code = status,
                     .is_drained = 1};

    mkv_text(msg.text, sizeof(msg.text), "%s", text);
    if (mkv_message_send(peer, &msg) != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "%s", mkv_last_error());
    }
}

/* ---- Finishing ------------------------------------------------------------------- */

static uint32_t mkv_fin_count(const mkv_msg_t *fin, uint32_t component)
{
    uint32_t i;

    for (i = 0; i < fin->num_units; ++i) {
        if (fin->units[i].component == component) {
            return fin->units[i].num;
        }
    }
    return 0;
}

/* 0: it comes at the wrong time, and the transfer has failed */
static int mkv_leg_take_message(mkv_leg_t *leg, mkv_leg_event_t event)
{
    mkv_leg_state_t before = leg->state;
    mkv_status_t status = mkv_leg_take(leg, event);

    if (status != MKV_OK) {
        mkv_xfer_fail(leg->xfer, status, "peer %s, leg %u: it sent %s while %s",
                      leg->peer->name, leg->index, mkv_leg_event_string(event),
                      mkv_leg_state_string(before));
    }
    return status == MKV_OK;
}

static void mkv_leg_bind_received(mkv_leg_t *leg, const mkv_msg_t *bind)
{
    leg->remote_nonce = bind->from_nonce;
    if (!mkv_xfer_is_terminal(leg->xfer) && mkv_leg_take_message(leg, MKV_LEG_BIND)) {
        mkv_xfer_check_bound(leg->xfer);
    }
}

static void mkv_leg_fin_received(mkv_leg_t *leg, const mkv_msg_t *fin)
{
    mkv_xfer_t *xfer = leg->xfer;
    uint32_t i, count;

    leg->is_peer_drained = 1;
    mkv_xfer_dirty(xfer);
    if (mkv_xfer_is_terminal(xfer)) {
        return;
    }

    for (i = 0; (xfer->mode == MKV_WRITE) && (i < leg->num_units); ++i) {
        count = mkv_fin_count(fin, leg->units[i].component);
        if (count != leg->expect[i]) {
            mkv_xfer_fail(
                xfer, MKV_ERR_LENGTH,
                "peer %s, leg %u: component %u: %u units arrived, %u expected",
                leg->peer->name, leg->index, leg->units[i].component, count,
                leg->expect[i]);
            return;
        }
    }
    if (mkv_leg_take_message(leg, MKV_LEG_FIN)) {
        leg->bytes = fin->bytes;
        xfer->bytes += fin->bytes;
    }
}

/* ---- Receiving ------------------------------------------------------------------- */

static void mkv_leg_stale(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    MKV_COUNT(peer, msgs_stale, 1);
    mkv_log_debug(peer->ctx, "peer %s: stale %s of transfer %llu epoch %u", peer->name,
                  mkv_msg_string(msg->type), (unsigned long long)msg->id, msg->epoch);
}

static void mkv_receive_expose(mkv_peer_t *peer, mkv_leg_t *leg, const mkv_msg_t *msg,
                               const void *data, size_t length)
{
    mkv_status_t status;

    if (mkv_tombstone_has(peer->ctx, msg->from_nonce) ||
        ((leg != NULL) && (leg->remote_nonce == msg->from_nonce))) {
        mkv_leg_stale(peer, msg);
        return;
    }
    if ((leg != NULL) && (leg->remote_nonce == 0) && !mkv_xfer_is_terminal(leg->xfer)) {
        if (leg->xfer->is_active) {
            mkv_leg_exposed(leg, msg);
        } else {
            leg->remote_nonce = msg->from_nonce;
            mkv_xfer_fail(
                leg->xfer, MKV_ERR_INVALID,
                "peer %s, leg %u: both sides are to expose their blocks: of "
                "one transfer one is MKV_SRC and the other MKV_DST, in one mode",
                peer->name, leg->index);
        }
        return;
    }

    /* For a transfer that will be opened, or opened again, here */
    status = mkv_early_add(peer, msg, data, length);
    if (status != MKV_OK) {
        mkv_reply_term(peer, msg, status, "too many transfers wait to be opened");
    }
}

static int mkv_leg_is_addressed(const mkv_leg_t *leg, const mkv_msg_t *msg)
{
    if (leg == NULL) {
        return 0;
    }
    if (msg->to_nonce == leg->xfer->nonce) {
        return (leg->remote_nonce == 0) || (leg->remote_nonce == msg->from_nonce);
    }
    /* The sender had not heard of us yet */
    return (msg->to_nonce == 0) && (msg->type == MKV_MSG_TERM) &&
           ((leg->remote_nonce == 0) || (leg->remote_nonce == msg->from_nonce));
}

static void mkv_receive_term(mkv_peer_t *peer, mkv_leg_t *leg, const mkv_msg_t *msg,
                             const void *data, size_t length)
{
    if (leg == NULL) {
        mkv_early_cancel(peer, msg->from_nonce);
        if ((msg->to_nonce == 0) && !msg->is_answer &&
            !mkv_tombstone_has(peer->ctx, msg->from_nonce)) {
            mkv_early_add_abort(peer, msg, data, length); /* fails the open at once */
        }
        mkv_reply_drained(peer, msg);
        return;
    }

    leg->remote_nonce = msg->from_nonce;
    leg->is_peer_drained |= msg->is_drained != 0;
    (void)mkv_leg_take(leg, MKV_LEG_TELL); /* it knows; DRAINED is all it needs */
    mkv_xfer_dirty(leg->xfer);
    if (leg->state == MKV_LEG_FINISHED) {
        mkv_reply_drained(peer, msg);
    } else if (!mkv_xfer_is_terminal(leg->xfer)) {
        mkv_xfer_fail(leg->xfer, (mkv_status_t)msg->code, "peer %s, leg %u: %s",
                      peer->name, leg->index, msg->text);
    }
}

void mkv_leg_receive(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                     size_t length)
{
    mkv_leg_t *leg = mkv_leg_find(peer, msg->id, msg->epoch);

    if (msg->type == MKV_MSG_EXPOSE) {
        mkv_receive_expose(peer, leg, msg, data, length);
        return;
    }

    leg = mkv_leg_is_addressed(leg, msg) ? leg : NULL;
    if (msg->type == MKV_MSG_TERM) {
        mkv_receive_term(peer, leg, msg, data, length);
        return;
    }
    if (msg->type == MKV_MSG_DRAINED) {
        mkv_early_cancel(peer, msg->from_nonce);
    }
    if (leg == NULL) {
        mkv_leg_stale(peer, msg);
        return;
    }

    if (msg->type == MKV_MSG_DRAINED) {
        leg->is_peer_drained = 1;
        mkv_xfer_dirty(leg->xfer);
    } else if (leg->xfer->is_active) {
        mkv_xfer_fail(leg->xfer, MKV_ERR_PROTOCOL,
                      "peer %s, leg %u: it sent %s, which is ours to send", peer->name,
                      leg->index, mkv_msg_string(msg->type));
    } else if (msg->type == MKV_MSG_BIND) {
        mkv_leg_bind_received(leg, msg);
    } else {
        mkv_leg_fin_received(leg, msg);
    }
}

/*
 * The other side has given up before this one was opened: no instance of it is bound
 * here, and it may have opened another one meanwhile. Whichever of them is there is
 * answered.
 */
static void mkv_leg_receive_abort(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    leg->is_answer = 1;
    mkv_xfer_fail(leg->xfer, (mkv_status_t)msg->code, "peer %s, leg %u: %s",
                  leg->peer->name, leg->index, msg->text);
}

/* They leave the store first: handling one may add to it or cancel others */
void mkv_leg_receive_early(mkv_leg_t *leg)
{
    mkv_packet_t *packet;
    mkv_list_t taken;
    mkv_msg_t msg;

    mkv_list_init(&taken);
    mkv_early_take(leg->peer, leg->xfer->id, leg->xfer->epoch, &taken);
    while (!mkv_list_is_empty(&taken)) {
        packet = mkv_list_head(&taken, mkv_packet_t, list);
        if (mkv_msg_decode(packet->data, packet->length, &msg) != MKV_OK) {
            /* cannot be: it was decoded when it came */
        } else if (msg.type == MKV_MSG_TERM) {
            mkv_leg_receive_abort(leg, &msg);
        } else {
            mkv_leg_receive(leg->peer, &msg, packet->data, packet->length);
        }
        mkv_packet_free(packet);
    }
}
