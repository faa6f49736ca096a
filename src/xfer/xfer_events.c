/* SPDX-License-Identifier: BSD-3-Clause */

/* Events of transfers. Room for their final events was reserved when the transfer was
 * opened. */

#include "xfer/xfer_events.h"

#include <string.h>

mkv_news_t *mkv_leg_event(const mkv_leg_t *leg, mkv_event_type_t type)
{
    mkv_xfer_t *xfer = leg->xfer;
    mkv_news_t *event = mkv_event_add(xfer->ctx, type);

    if (event != NULL) {
        event->peer = leg->peer->remote.peer;
        event->leg = leg->index;
        event->xfer = xfer;
        event->id = xfer->id;
        event->epoch = xfer->epoch;
        event->status = (xfer->status == MKV_INPROGRESS) ? MKV_OK : xfer->status;
        event->user_data = xfer->user_data;
        if (xfer->error[0] != '\0') { /* no text for DONE, which callers wait for */
            mkv_event_text(event, "%s", xfer->error);
        }
    }
    return event;
}

mkv_news_t *mkv_xfer_event(mkv_xfer_t *xfer, mkv_event_type_t type)
{
    return mkv_leg_event((xfer->failed != NULL) ? xfer->failed : &xfer->legs[0], type);
}

void mkv_leg_end(mkv_leg_t *leg, mkv_status_t status, const char *text)
{
    mkv_xfer_t *xfer = leg->xfer;
    mkv_news_t *event;

    if (leg->status != MKV_INPROGRESS) {
        return;
    }
    leg->error = (text != NULL) ? strdup(text) : NULL;
    __atomic_store_n(&leg->status, status, __ATOMIC_RELEASE);
    if (xfer->num_legs == 1) {
        return; /* the transfer's own events report it */
    }
    event = mkv_leg_event(leg, MKV_EV_LEG);
    if (event != NULL) {
        event->status = status;
        mkv_event_text(event, "%s", (text != NULL) ? text : "");
    }
}
