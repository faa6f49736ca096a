/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Transfers that the peer opens first. One side opens a transfer and sends a request
 * for it. The other side, which may not expect the opener, gets an event and opens the
 * transfer or refuses it.
 */

#include "xfer/incoming.h"

#include "message/message.h"
#include "peer/packet.h"
#include "message/early.h"
#include "xfer/leg.h"
#include "message/reply.h"
#include "base/tombstone.h"

#include <stdlib.h>
#include <string.h>

/* ---- Requests -------------------------------------------------------------------- */

static mkv_status_t mkv_leg_prepare_request(mkv_leg_t *leg, const void *data,
                                            size_t length, mkv_list_t *packets)
{
    mkv_msg_t msg = {.type = MKV_MSG_REQUEST,
                     .mode = leg->xfer->mode,
                     .data = data,
                     .length = length};

    if ((leg->remote_nonce != 0) || (leg->status < MKV_OK)) {
        return MKV_OK; /* the peer has answered, or the leg is left out */
    }
    return mkv_leg_prepare(leg, &msg, packets);
}

mkv_status_t mkv_xfer_request(mkv_xfer_t *xfer, uint32_t leg, const void *data,
                              size_t length)
{
    uint32_t first = (leg == MKV_LEG_ALL) ? 0 : leg;
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_status_t status = MKV_OK;
    mkv_list_t packets;
    uint32_t i, last;

    MKV_HOLD(ctx, "xfer_request", return MKV_ERR_INVALID);
    mkv_list_init(&packets);
    mkv_enter(ctx);
    last = (leg == MKV_LEG_ALL) ? xfer->num_legs : leg + 1;
    if (last > xfer->num_legs) {
        status = mkv_error(&ctx->log, MKV_ERR_INVALID,
                           "request: leg %u, expected one below %u, or MKV_LEG_ALL",
                           leg, xfer->num_legs);
    } else if (mkv_xfer_is_terminal(xfer)) {
        status = mkv_error(&ctx->log,
                           (xfer->status == MKV_OK) ? MKV_ERR_INVALID : xfer->status,
                           "the transfer has ended: %s", xfer->error);
    }
    for (i = first; (status == MKV_OK) && (i < last); ++i) {
        status = mkv_leg_prepare_request(&xfer->legs[i], data, length, &packets);
    }
    if (status == MKV_OK) {
        mkv_messages_send_prepared(&packets);
    }
    mkv_packets_cleanup(&packets);
    mkv_leave(ctx);
    return status;
}

/* ---- Requests of peers ----------------------------------------------------------- */

/* Contents of the event in one allocation, owned by it: units, ids, meta, data */
typedef struct mkv_incoming {
    mkv_units_t *units;
    uint8_t *header, *data;
    size_t length;
} mkv_incoming_t;

static size_t mkv_incoming_count_ids(const mkv_msg_t *expose)
{
    size_t num = 0;
    uint32_t i;

    for (i = 0; i < expose->num_units; ++i) {
        num += expose->units[i].num;
    }
    return num;
}

/* NULL units: no memory */
static mkv_incoming_t mkv_incoming_make(const mkv_msg_t *request,
                                        const mkv_msg_t *expose)
{
    size_t num_ids = mkv_incoming_count_ids(expose);
    mkv_incoming_t incoming = {.length = expose->num_units * sizeof(mkv_units_t) +
                                         num_ids * sizeof(uint32_t) + expose->length +
                                         request->length};
    uint32_t *ids;
    uint32_t i, j;

    incoming.units = malloc(incoming.length + 1);
    if (incoming.units == NULL) {
        return incoming;
    }
    ids = (uint32_t *)(incoming.units + expose->num_units);
    for (i = 0; i < expose->num_units; ++i) {
        incoming.units[i] = (mkv_units_t){.component = expose->units[i].component,
                                          .num_remote = expose->units[i].num,
                                          .remote = ids};
        for (j = 0; j < expose->units[i].num; ++j) {
            *ids++ = mkv_wire_word(expose->units[i].ids, j);
        }
    }
    incoming.header = (uint8_t *)ids;
    incoming.data = incoming.header + expose->length;
    if (expose->length > 0) {
        memcpy(incoming.header, expose->data, expose->length);
    }
    if (request->length > 0) {
        memcpy(incoming.data, request->data, request->length);
    }
    return incoming;
}

static mkv_status_t mkv_incoming_raise(mkv_peer_t *peer, const mkv_msg_t *request,
                                       const mkv_msg_t *expose)
{
    mkv_incoming_t incoming = mkv_incoming_make(request, expose);
    mkv_ctx_t *ctx = peer->ctx;
    size_t held = incoming.length + sizeof(mkv_event_node_t);
    mkv_news_t *event;

    if (incoming.units == NULL) {
        return MKV_ERR_NOMEM;
    }
    if (peer->incoming_raised - mkv_polled(&peer->incoming_polled) + held >
        ctx->opts->max_queued) {
        free(incoming.units);
        return MKV_ERR_BUSY;
    }
    event = mkv_event_add_owned(ctx, MKV_EV_INCOMING, incoming.units);
    if (event == NULL) {
        free(incoming.units);
        return MKV_ERR_NOMEM;
    }
    mkv_event_count(event, &peer->incoming_polled, held);
    peer->incoming_raised += held;
    event->peer = peer;
    event->id = request->id;
    event->epoch = request->epoch;
    event->value = request->mode;
    event->units = (expose->num_units > 0) ? incoming.units : NULL;
    event->num_units = expose->num_units;
    event->header = incoming.header;
    event->header_length = expose->length;
    event->data = incoming.data;
    event->length = request->length;
    return MKV_OK;
}

/* Find the EXPOSE if the peer has exposed. Otherwise the REQUEST is kept, so that its
 * end finds it */
static mkv_status_t mkv_incoming_keep(mkv_peer_t *peer, const mkv_msg_t *request,
                                      const void *data, size_t length,
                                      mkv_msg_t *expose)
{
    const mkv_packet_t *packet = mkv_early_find(peer, request->id, request->epoch);

    if ((packet != NULL) && (packet->from_nonce == request->from_nonce) &&
        (mkv_msg_decode(packet->data, packet->length, expose) == MKV_OK) &&
        (expose->type == MKV_MSG_EXPOSE)) {
        return MKV_OK;
    }
    expose->num_units = 0;
    expose->length = 0;
    return mkv_early_add(peer, request, data, length);
}

void mkv_incoming_receive(mkv_peer_t *peer, const mkv_msg_t *request, const void *data,
                          size_t length)
{
    mkv_status_t status;
    mkv_msg_t expose;

    if (mkv_tombstone_has(peer->ctx, request->from_nonce)) {
        MKV_COUNT(peer, msgs_stale, 1);
        return;
    }
    status = mkv_incoming_keep(peer, request, data, length, &expose);
    if (status == MKV_OK) {
        status = mkv_incoming_raise(peer, request, &expose);
    }
    if (status != MKV_OK) {
        mkv_early_cancel(peer, request->from_nonce);
        mkv_reply_term(peer, request, status, "too many transfers are requested");
    }
}

mkv_status_t mkv_xfer_refuse(mkv_peer_t *peer, uint64_t id, uint32_t epoch,
                             mkv_status_t code, const char *reason)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_packet_t *packet;
    mkv_msg_t msg;
    char text[160];

    MKV_HOLD(ctx, "xfer_refuse", return MKV_ERR_INVALID);
    if (code >= MKV_OK) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "refuse: code %d, expected one of MKV_ERR_*", (int)code);
    }
    mkv_enter(ctx);
    packet = mkv_early_find(peer, id, epoch);
    if ((packet == NULL) ||
        (mkv_msg_decode(packet->data, packet->length, &msg) != MKV_OK)) {
        return mkv_leave_status(
            ctx, mkv_error(&ctx->log, MKV_ERR_NOTFOUND,
                           "refuse: peer %s has not requested transfer %llu epoch %u",
                           peer->name, (unsigned long long)id, epoch));
    }
    mkv_text(text, sizeof(text), "%s by %s", (reason != NULL) ? reason : "refused",
             ctx->name);
    mkv_reply_term(peer, &msg, code, text);
    mkv_early_cancel(peer, packet->from_nonce);
    return mkv_leave_status(ctx, MKV_OK);
}
