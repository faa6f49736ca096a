/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages of a transfer: the leg that they are for, and their effect. leg.c draws the
 * protocol.
 */

#include "xfer/leg_receive.h"

#include "message/message.h"
#include "peer/packet.h"
#include "message/early.h"
#include "xfer/expose.h"
#include "xfer/incoming.h"
#include "message/reply.h"
#include "xfer/xfer_events.h"
#include "xfer/post_notify.h"
#include "base/tombstone.h"

#include <stdlib.h>
#include <string.h>

/* ---- Finishing ------------------------------------------------------------------- */

static const mkv_wire_units_t *mkv_fin_units(const mkv_msg_t *fin, uint32_t component)
{
    static const mkv_wire_units_t none;
    uint32_t i;

    for (i = 0; i < fin->num_units; ++i) {
        if (fin->units[i].component == component) {
            return &fin->units[i];
        }
    }
    return &none;
}

/* Sum of all exposed blocks of a component */
static uint64_t mkv_leg_exposed_sum(const mkv_leg_t *leg, const mkv_units_t *units)
{
    const mkv_map_t *map = leg->map;
    uint32_t component =
        (uint32_t)(mkv_map_component(map, units->component) - map->components);

    return mkv_units_sum(units->local, units->num_local,
                         mkv_map_parts(map, component, false));
}

/* Whether the sender moved blocks that were not exposed; called when the counts
 * match */
static bool mkv_fin_is_of_others(const mkv_leg_t *leg, const mkv_units_t *units,
                                 const mkv_wire_units_t *moved)
{
    return moved->has_sum && (moved->num == units->num_local) &&
           (moved->sum != mkv_leg_exposed_sum(leg, units));
}

/* Check that the moved units are the exposed ones; the leg fails if not. How often a
 * READ takes a unit is checked on the reader's side alone. */
static bool mkv_leg_verify(mkv_leg_t *leg, const mkv_msg_t *fin)
{
    const mkv_wire_units_t *moved;
    uint32_t i;

    for (i = 0; i < leg->num_units; ++i) {
        moved = mkv_fin_units(fin, leg->units[i].component);
        if ((leg->xfer->mode == MKV_WRITE) && (moved->num != leg->expect[i])) {
            mkv_leg_fail(leg, MKV_ERR_LENGTH,
                         "peer %s, leg %u: component %u: %u units arrived, %u expected",
                         leg->peer->name, leg->index, leg->units[i].component,
                         moved->num, leg->expect[i]);
            return false;
        }
        if (mkv_fin_is_of_others(leg, &leg->units[i], moved)) {
            mkv_leg_fail(leg, MKV_ERR_BOUNDS,
                         "peer %s, leg %u: component %u: %u units %s, but not the "
                         "ones that were exposed",
                         leg->peer->name, leg->index, leg->units[i].component,
                         moved->num,
                         (leg->xfer->mode == MKV_WRITE) ? "arrived" : "were read");
            return false;
        }
    }
    return true;
}

/* @return false: the message is invalid in this state, and the transfer has failed */
static bool mkv_leg_take_message(mkv_leg_t *leg, mkv_leg_event_t event)
{
    mkv_leg_state_t before = leg->state;
    mkv_status_t status = mkv_leg_take(leg, event);

    if (status != MKV_OK) {
        mkv_leg_fail(leg, status, "peer %s, leg %u: it sent %s while %s",
                     leg->peer->name, leg->index, mkv_leg_event_string(event),
                     mkv_leg_state_string(before));
    }
    return status == MKV_OK;
}

static void mkv_leg_bind_received(mkv_leg_t *leg, const mkv_msg_t *bind)
{
    leg->remote_nonce = bind->from_nonce;
    mkv_xfer_dirty(leg->xfer);
    if (!mkv_leg_is_over(leg) && mkv_leg_take_message(leg, MKV_LEG_BIND)) {
        mkv_xfer_check_bound(leg->xfer);
    }
}

/* @return 0: no memory, and the transfer has failed */
static int mkv_leg_keep_done_data(mkv_leg_t *leg, const mkv_msg_t *fin)
{
    if ((fin->length == 0) || (leg->done_data != NULL)) { /* no data, or a second FIN */
        return 1;
    }
    leg->done_data = malloc(fin->length);
    if (leg->done_data == NULL) {
        mkv_leg_fail(leg, MKV_ERR_NOMEM,
                     "peer %s, leg %u: no memory for %zu bytes that came with DONE",
                     leg->peer->name, leg->index, fin->length);
        return 0;
    }
    memcpy(leg->done_data, fin->data, fin->length);
    leg->done_length = fin->length;
    return 1;
}

/* Whether the bytes fall short, where plans of bytes fill a component: its units cannot
 * be counted */
static bool mkv_leg_is_short_of_bytes(const mkv_leg_t *leg, const mkv_msg_t *fin,
                                      uint64_t *expected_p)
{
    const mkv_xfer_t *xfer = leg->xfer;
    const mkv_map_component_t *component;
    uint64_t expected = 0;
    bool has_bytes = false;
    size_t i;

    for (i = 0; i < xfer->num_expect; ++i) {
        component = mkv_map_component(leg->map, xfer->expect[i].component);
        has_bytes |= (xfer->expect[i].num_bytes != 0);
        if (xfer->expect[i].num_bytes != 0) {
            expected += xfer->expect[i].num_bytes;
        } else if (component != NULL) {
            expected += xfer->expect[i].num_units * component->bytes_per_unit;
        }
    }
    *expected_p = expected;
    return has_bytes && (fin->bytes != expected);
}

static void mkv_leg_fin_received(mkv_leg_t *leg, const mkv_msg_t *fin)
{
    mkv_xfer_t *xfer = leg->xfer;
    uint64_t expected;

    leg->is_peer_drained = true;
    mkv_xfer_dirty(xfer);
    if (mkv_leg_is_over(leg)) {
        return;
    }
    if (mkv_leg_is_pulling(leg)) {
        mkv_leg_fail(leg, MKV_ERR_PROTOCOL,
                     "peer %s, leg %u: it sent FIN before PULLED confirmed its last "
                     "pull",
                     leg->peer->name, leg->index);
        return;
    }

    if (leg->num_scatters > 0) {
        mkv_leg_fail(
            leg, MKV_ERR_PROTOCOL,
            "peer %s, leg %u: it sent FIN before STAGED confirmed its last slot",
            leg->peer->name, leg->index);
        return;
    }

    if (!mkv_leg_verify(leg, fin)) {
        return;
    }
    if ((xfer->mode == MKV_WRITE) && mkv_leg_is_short_of_bytes(leg, fin, &expected)) {
        mkv_leg_fail(leg, MKV_ERR_LENGTH,
                     "peer %s, leg %u: %llu bytes arrived, %llu expected",
                     leg->peer->name, leg->index, (unsigned long long)fin->bytes,
                     (unsigned long long)expected);
        return;
    }
    if (mkv_leg_keep_done_data(leg, fin) && mkv_leg_take_message(leg, MKV_LEG_FIN)) {
        MKV_ADD(leg->bytes, fin->bytes);
        MKV_ADD(xfer->bytes, fin->bytes);
        mkv_leg_end(leg, MKV_OK, NULL);
    }
}

/* ---- Pulling --------------------------------------------------------------------- */

static void mkv_leg_pull_received(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    mkv_xfer_t *xfer = leg->xfer;

    if (mkv_leg_is_over(leg)) {
        return; /* TERM and DRAINED report this to the other side */
    }
    if (leg->state != MKV_LEG_BOUND) {
        mkv_leg_fail(leg, MKV_ERR_PROTOCOL, "peer %s, leg %u: it sent PULL while %s",
                     leg->peer->name, leg->index, mkv_leg_state_string(leg->state));
        return;
    }
    xfer->ctx->leg_listener->pull(leg, msg);
}

/* ---- While a WRITE runs ---------------------------------------------------------- */

/* @return Whether the message is valid in this state; if not, the transfer fails */
static bool mkv_leg_is_written(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    if (mkv_leg_is_over(leg)) {
        return false; /* ignore it, like a late PULL */
    }
    if ((leg->xfer->mode != MKV_WRITE) || (leg->state != MKV_LEG_BOUND)) {
        mkv_leg_fail(leg, MKV_ERR_PROTOCOL, "peer %s, leg %u: it sent %s while %s",
                     leg->peer->name, leg->index, mkv_msg_string(msg->type),
                     mkv_leg_state_string(leg->state));
        return false;
    }
    return true;
}

static void mkv_leg_arrived_received(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    if (mkv_leg_is_written(leg, msg)) {
        mkv_leg_send_arrived(leg, msg->value);
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
    if ((leg != NULL) && (leg->remote_nonce == 0) && !mkv_leg_is_over(leg)) {
        if (leg->xfer->is_active) {
            mkv_leg_exposed(leg, msg);
        } else {
            leg->remote_nonce = msg->from_nonce;
            mkv_leg_fail(
                leg, MKV_ERR_INVALID,
                "peer %s, leg %u: both sides expose blocks, expected MKV_SRC on one "
                "side and MKV_DST on the other, in one mode",
                peer->name, leg->index);
        }
        return;
    }

    /* Handle a message for a transfer that will be opened, or opened again, here */
    status = mkv_early_add(peer, msg, data, length);
    if (status != MKV_OK) {
        mkv_reply_term(peer, msg, status, "too many transfers wait to be opened");
    }
}

/* A passive side sends its blocks without a request. If both sides are active, the
 * side that is not open yet sends OPEN itself later */
static void mkv_receive_open(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    if ((leg == NULL) || !leg->xfer->is_active || (leg->remote_nonce != 0) ||
        mkv_leg_is_over(leg)) {
        return;
    }
    leg->remote_nonce = msg->from_nonce; /* TERM must name the sender's instance */
    mkv_leg_fail(leg, MKV_ERR_INVALID,
                 "peer %s, leg %u: both sides wait for blocks, expected MKV_SRC on one "
                 "side and MKV_DST on the other, in one mode",
                 leg->peer->name, leg->index);
}

static bool mkv_leg_is_addressed(const mkv_leg_t *leg, const mkv_msg_t *msg)
{
    if (leg == NULL) {
        return false;
    }
    if (msg->to_nonce == leg->xfer->nonce) {
        return (leg->remote_nonce == 0) || (leg->remote_nonce == msg->from_nonce);
    }
    /* The sender had no message of ours yet */
    return (msg->to_nonce == 0) && (msg->type == MKV_MSG_TERM) &&
           ((leg->remote_nonce == 0) || (leg->remote_nonce == msg->from_nonce));
}

/*
 * The other side has aborted before it received this instance's identity. It may have
 * opened a new instance since then, which has received it. TERM is sent to the current
 * instance; only its DRAINED proves that no data is in flight.
 */
static void mkv_leg_receive_abort(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    leg->is_answer = true;
    mkv_leg_fail(leg, (mkv_status_t)msg->code, "peer %s, leg %u: %s", leg->peer->name,
                 leg->index, msg->text);
}

static void mkv_receive_term(mkv_peer_t *peer, mkv_leg_t *leg, const mkv_msg_t *msg,
                             const void *data, size_t length)
{
    mkv_early_cancel(peer, msg->from_nonce); /* its block list is void */
    if (leg == NULL) {
        if ((msg->to_nonce == 0) && !msg->is_answer &&
            !mkv_tombstone_has(peer->ctx, msg->from_nonce)) {
            mkv_early_add_abort(peer, msg, data, length); /* fails the open at once */
        }
        mkv_reply_drained(peer, msg);
        return;
    }
    if (!leg->xfer->is_active && (leg->remote_nonce == 0) && (msg->to_nonce == 0)) {
        mkv_leg_receive_abort(leg, msg);
        return;
    }

    leg->remote_nonce = msg->from_nonce; /* our DRAINED names no other one either */
    leg->is_peer_drained |= msg->is_drained != 0;
    (void)mkv_leg_take(leg, MKV_LEG_FAIL); /* the peer needs DRAINED only */
    mkv_xfer_dirty(leg->xfer);
    if ((leg->state == MKV_LEG_FINISHED) || (leg->state == MKV_LEG_DRAINED)) {
        mkv_reply_drained(peer, msg);
    } else if (!mkv_leg_is_over(leg)) {
        mkv_leg_fail(leg, (mkv_status_t)msg->code, "peer %s, leg %u: %s", peer->name,
                     leg->index, msg->text);
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
    if (msg->type == MKV_MSG_REQUEST) {
        if ((leg == NULL) || mkv_leg_is_over(leg)) {
            mkv_incoming_receive(peer, msg, data, length);
        }
        return; /* else the transfer is open, and the answer is sent or will be */
    }

    if (msg->type == MKV_MSG_OPEN) {
        mkv_receive_open(leg, msg);
        return;
    }

    leg = mkv_leg_is_addressed(leg, msg) ? leg : NULL;
    if (msg->type == MKV_MSG_TERM) {
        mkv_receive_term(peer, leg, msg, data, length);
        return;
    }
    if (msg->type == MKV_MSG_DRAINED) {
        mkv_early_cancel(peer, msg->from_nonce); /* requested again, while refused */
    }
    if (leg == NULL) {
        mkv_leg_stale(peer, msg);
        return;
    }

    if (msg->type == MKV_MSG_DRAINED) {
        leg->is_peer_drained = true;
        mkv_xfer_dirty(leg->xfer);
    } else if (leg->xfer->is_active && (msg->type == MKV_MSG_PULLED)) {
        leg->xfer->ctx->leg_listener->pulled(leg, msg);
    } else if (leg->xfer->is_active || (msg->type == MKV_MSG_PULLED)) {
        mkv_leg_fail(leg, MKV_ERR_PROTOCOL,
                     "peer %s, leg %u: it sent %s, which only this side may send",
                     peer->name, leg->index, mkv_msg_string(msg->type));
    } else if (msg->type == MKV_MSG_PULL) {
        mkv_leg_pull_received(leg, msg);
    } else if (msg->type == MKV_MSG_ARRIVED) {
        mkv_leg_arrived_received(leg, msg);
    } else if (msg->type == MKV_MSG_BIND) {
        mkv_leg_bind_received(leg, msg);
    } else {
        mkv_leg_fin_received(leg, msg);
    }
}

/* Empty the store first: handling a packet may add to it or cancel others */
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
            /* impossible: it was decoded at arrival */
        } else if (msg.type == MKV_MSG_TERM) {
            mkv_leg_receive_abort(leg, &msg);
        } else {
            mkv_leg_receive(leg->peer, &msg, packet->data, packet->length);
        }
        mkv_packet_free(packet);
    }
}
