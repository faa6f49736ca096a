/* SPDX-License-Identifier: BSD-3-Clause */

#include "message/deliver.h"

#include "message/credit.h"

#include <stdlib.h>
#include <string.h>

static void mkv_deliver_set(mkv_news_t *event, mkv_peer_t *peer, const mkv_msg_t *msg,
                            uint8_t *copy)
{
    if (msg->header_length > 0) {
        memcpy(copy, msg->header, msg->header_length);
    }
    if (msg->length > 0) {
        memcpy(copy + msg->header_length, msg->data, msg->length);
    }
    event->peer = peer;
    event->id = msg->id;
    event->header = copy;
    event->header_length = msg->header_length;
    event->data = copy + msg->header_length;
    event->length = msg->length;
}

mkv_news_t *mkv_peer_deliver(mkv_peer_t *peer, mkv_event_type_t type,
                             const mkv_msg_t *msg)
{
    mkv_ctx_t *ctx = peer->ctx;
    size_t total = msg->header_length + msg->length;
    mkv_news_t *event;
    uint8_t *copy;

    if (!mkv_credit_receive(peer, total)) {
        MKV_COUNT(peer, msgs_dropped, 1);
        mkv_peer_fail(peer, MKV_ERR_PROTOCOL,
                      "it sent more than its credit: %llu bytes wait for mkv_poll(), "
                      "MAX_QUEUED is %llu",
                      (unsigned long long)(peer->credit.received -
                                           mkv_polled(&peer->credit.polled)),
                      (unsigned long long)ctx->opts->max_queued);
        return NULL;
    }

    copy = malloc(total + 1);
    event = (copy == NULL) ? NULL : mkv_event_add_owned(ctx, type, copy);
    if (event == NULL) {
        free(copy);
        MKV_COUNT(peer, msgs_dropped, 1);
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "a message of %zu bytes was lost", total);
        return NULL;
    }
    mkv_event_count(event, &peer->credit.polled, MKV_CREDIT_MESSAGE + total);
    mkv_deliver_set(event, peer, msg, copy);
    return event;
}
