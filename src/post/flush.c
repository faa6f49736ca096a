/* SPDX-License-Identifier: BSD-3-Clause */

/* The flush of a connection, one at a time for all legs that wait for it. */

#include "post/flush.h"

#include "peer/backend.h"
#include "peer/path.h"
#include "post/arrived.h"
#include "xfer/xfer.h"
#include "xfer/trace.h"

#include <stdlib.h>

#define MKV_READ_BACK_PAGE 4096u

/* A failed flush proves nothing about its puts; another flush or the end of the
 * connection follows */
static void mkv_peer_end_flush(mkv_peer_t *peer, bool has_flushed, ucs_status_t status)
{
    mkv_leg_t *leg;

    peer->is_flushing = false;
    while (!mkv_list_is_empty(&peer->flush_running)) {
        leg = mkv_list_head(&peer->flush_running, mkv_leg_t, flush);
        mkv_list_del(&leg->flush);
        if (leg->puts == MKV_PUTS_FLUSHING) { /* else later puts need another flush */
            leg->puts = has_flushed ? MKV_PUTS_ARRIVED : MKV_PUTS_GIVEN;
        }
        if (status != UCS_OK) {
            mkv_leg_fail(leg, mkv_status_of_ucs(status),
                         "peer %s, leg %u: flush failed: %s", peer->name, leg->index,
                         ucs_status_string(status));
        }
        mkv_xfer_stamp_later(leg->xfer, MKV_TIME_FLUSHED);
        mkv_posts_arrived(leg);
        mkv_xfer_dirty(leg->xfer);
    }
}

/* ---- Reading back ---------------------------------------------------------------- */

static void mkv_peer_read_back_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;

    if (status != UCS_OK) {
        peer->read_back_status = status;
    }
    if (--peer->num_read_back == 0) {
        mkv_peer_end_flush(peer, true, peer->read_back_status);
    }
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

/* Memory the read-back writes to; registered on first use */
static ucs_status_t mkv_read_back_open(mkv_ctx_t *ctx)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .length = MKV_READ_BACK_PAGE,
                                   .memory_type = UCS_MEMORY_TYPE_HOST};
    ucs_status_t status;

    if (ctx->read_back != NULL) {
        return UCS_OK;
    }
    if (posix_memalign(&params.address, MKV_READ_BACK_PAGE, MKV_READ_BACK_PAGE) != 0) {
        return UCS_ERR_NO_MEMORY;
    }
    status = ucp_mem_map(ctx->ucp_context, &params, &ctx->read_back_memh);
    if (status == UCS_OK) {
        ctx->read_back = params.address;
    } else {
        free(params.address);
    }
    return status;
}

void mkv_flush_cleanup(mkv_ctx_t *ctx)
{
    if ((ctx->read_back != NULL) &&
        (ucp_mem_unmap(ctx->ucp_context, ctx->read_back_memh) == UCS_OK)) {
        free(ctx->read_back); /* else a device may still reach the memory */
    }
}

static void mkv_rmem_read_back(mkv_peer_t *peer, const mkv_rmem_t *rmem)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = mkv_peer_read_back_cb,
        .user_data = peer,
        .memh = peer->ctx->read_back_memh,
        .memory_type = UCS_MEMORY_TYPE_HOST};
    ucs_status_ptr_t request;

    mkv_peer_get(peer);
    ++peer->num_read_back;
    request =
        ucp_get_nbx(peer->ep, peer->ctx->read_back, 1, rmem->base, rmem->rkey, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_peer_read_back_cb(NULL, UCS_PTR_RAW_STATUS(request), peer);
    }
}

/* The best lane may not carry the calls: a fabric may not reach this memory */
static bool mkv_peer_puts_over_rdma(const mkv_peer_t *peer)
{
    return (peer->backend == MKV_BACKEND_RDMA) || mkv_paths_use(peer, MKV_BACKEND_RDMA);
}

/*
 * A read follows earlier writes through the NIC and over PCIe, and pushes them to the
 * GPU's memory. One read for each device is enough, but the device of an allocation is
 * unknown here.
 * @return Whether the read has begun, which then ends the flush.
 */
static bool mkv_peer_read_back(mkv_peer_t *peer)
{
    mkv_rmem_t *rmem;

    peer->read_back_status = UCS_OK; /* not that of an earlier flush */
    if ((peer->ctx->opts->fence != MKV_FENCE_FLUSH) || !mkv_peer_puts_over_rdma(peer) ||
        (peer->state >= MKV_CONN_CLOSING)) {
        return false;
    }
    peer->read_back_status = mkv_read_back_open(peer->ctx);
    if (peer->read_back_status != UCS_OK) {
        return false;
    }
    ++peer->num_read_back; /* the callback may come at once */
    mkv_list_for_each(rmem, &peer->remote.mems, list)
    {
        if ((rmem->type != UCS_MEMORY_TYPE_HOST) && (rmem->num_pairs > 0) &&
            (rmem->rkey != NULL)) {
            mkv_rmem_read_back(peer, rmem);
        }
    }
    return --peer->num_read_back > 0;
}

/* ---- Flushing -------------------------------------------------------------------- */

static void mkv_peer_flushed_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;

    if (status != UCS_OK) {
        mkv_peer_end_flush(peer, false, status);
    } else if (!mkv_peer_read_back(peer)) {
        mkv_peer_end_flush(peer, true, peer->read_back_status);
    }
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

void mkv_peer_start_flush(mkv_peer_t *peer)
{
    mkv_leg_t *leg;

    if (mkv_list_is_empty(&peer->flush_waiting) || peer->is_flushing) {
        return;
    }

    mkv_list_for_each(leg, &peer->flush_waiting, flush)
    {
        leg->puts = (leg->puts == MKV_PUTS_GIVEN) ? MKV_PUTS_FLUSHING : leg->puts;
        mkv_list_splice(&leg->pushed, &leg->flushed);
    }
    mkv_list_splice(&peer->flush_waiting, &peer->flush_running);
    peer->is_flushing = true;
    MKV_COUNT(peer, flushes, 1);
    if (peer->state >= MKV_CONN_CLOSING) {
        mkv_peer_get(peer);
        mkv_peer_flushed_cb(NULL, UCS_ERR_NOT_CONNECTED, peer);
    } else {
        mkv_peer_flush(peer, mkv_peer_flushed_cb);
    }
}
