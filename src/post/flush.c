/* SPDX-License-Identifier: BSD-3-Clause */

/* The flush of a connection, one at a time for all legs that wait for it. */

#include "post/flush.h"

#include "peer/backend.h"
#include "xfer/xfer.h"

static void mkv_peer_flushed_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;
    mkv_leg_t *leg;

    peer->is_flushing = 0;
    while (!mkv_list_is_empty(&peer->flush_running)) {
        leg = mkv_list_head(&peer->flush_running, mkv_leg_t, flush);
        mkv_list_del(&leg->flush);
        leg->puts =
            MKV_PUTS_ARRIVED; /* or never: a failed flush is a failed connection */
        if (status != UCS_OK) {
            mkv_xfer_fail(leg->xfer, mkv_status_of_ucs(status),
                          "peer %s, leg %u: flush failed: %s", peer->name, leg->index,
                          ucs_status_string(status));
        }
        mkv_xfer_dirty(leg->xfer);
    }
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

void mkv_peer_start_flush(mkv_peer_t *peer)
{
    if (mkv_list_is_empty(&peer->flush_waiting) || peer->is_flushing) {
        return;
    }

    mkv_list_splice(&peer->flush_waiting, &peer->flush_running);
    peer->is_flushing = 1;
    MKV_COUNT(peer, flushes, 1);
    if (peer->state >= MKV_CONN_CLOSING) {
        mkv_peer_get(peer);
        mkv_peer_flushed_cb(NULL, UCS_ERR_NOT_CONNECTED, peer);
    } else {
        mkv_peer_flush(peer, mkv_peer_flushed_cb);
    }
}
