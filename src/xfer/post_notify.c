/* SPDX-License-Identifier: BSD-3-Clause */

#include "xfer/post_notify.h"

#include "xfer/xfer_events.h"

/* @return NULL: no memory, and the leg has failed. */
static mkv_news_t *mkv_leg_post_event(mkv_leg_t *leg, mkv_event_type_t type,
                                      uint32_t value)
{
    mkv_news_t *event = mkv_leg_event(leg, type);

    if (event == NULL) {
        mkv_leg_fail(leg, MKV_ERR_NOMEM,
                     "peer %s, leg %u: no memory for the notice of post %u",
                     leg->peer->name, leg->index, value);
        return NULL;
    }
    event->value = value;
    return event;
}

void mkv_leg_notify(mkv_leg_t *leg, mkv_event_type_t type, uint32_t value)
{
    (void)mkv_leg_post_event(leg, type, value);
}

void mkv_leg_send_arrived(mkv_leg_t *leg, uint32_t value)
{
    const uint64_t held = sizeof(mkv_event_node_t);
    uint64_t max = leg->xfer->ctx->opts->max_queued;
    mkv_peer_t *peer = leg->peer;
    mkv_news_t *event;

    if (peer->arrivals_raised - mkv_polled(&peer->arrivals_polled) + held > max) {
        mkv_leg_fail(
            leg, MKV_ERR_BUSY,
            "peer %s, leg %u: it reported post %u, but earlier reports that were not "
            "polled fill MAX_QUEUED, %llu bytes",
            peer->name, leg->index, value, (unsigned long long)max);
        return;
    }
    event = mkv_leg_post_event(leg, MKV_EV_ARRIVED, value);
    if (event != NULL) {
        mkv_event_count(event, &peer->arrivals_polled, held);
        peer->arrivals_raised += held;
    }
}
