/* SPDX-License-Identifier: BSD-3-Clause */

#include "xfer/post_notify.h"

#include "xfer/xfer_events.h"

/* @return NULL: no memory, and the leg has failed. */
static mkv_news_t *mkv_leg_post_event(mkv_leg_t *leg, mkv_event_type_t type,
                                      uint32_t tell)
{
    mkv_news_t *event = mkv_leg_event(leg, type);

    if (event == NULL) {
        mkv_leg_fail(leg, MKV_ERR_NOMEM,
                     "peer %s, leg %u: no memory for the notice of post %u",
                     leg->peer->name, leg->index, tell);
        return NULL;
    }
    event->value = tell;
    return event;
}

void mkv_leg_notify(mkv_leg_t *leg, mkv_event_type_t type, uint32_t tell)
{
    (void)mkv_leg_post_event(leg, type, tell);
}

void mkv_leg_send_arrived(mkv_leg_t *leg, uint32_t tell)
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
            peer->name, leg->index, tell, (unsigned long long)max);
        return;
    }
    event = mkv_leg_post_event(leg, MKV_EV_ARRIVED, tell);
    if (event != NULL) {
        mkv_event_count(event, &peer->arrivals_polled, held);
        peer->arrivals_raised += held;
    }
}
