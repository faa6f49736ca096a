/* SPDX-License-Identifier: BSD-3-Clause */

/* Public calls on peers, maps and messages. */

#include "peer/peer.h"

#include "base/abi.h"
#include "memory/map.h"
#include "memory/region.h"
#include "message/credit.h"
#include "message/grant.h"
#include "message/hello.h"
#include "peer/list_put.h"
#include "message/message.h"
#include "peer/path.h"
#include "message/peer_close.h"

static mkv_status_t mkv_peer_add_info(mkv_ctx_t *ctx, const mkv_blob_info_t *info,
                                      const char *name, mkv_peer_t **peer_p)
{
    mkv_status_t status;
    mkv_peer_t *peer;

    if (info->process.ctx_id == ctx->process.ctx_id) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "the blob is this context's own, expected that of another");
    }
    peer = mkv_peer_find(ctx, info->process.ctx_id);
    if ((peer == NULL) || !mkv_conn_is_alive(peer->state)) {
        status = mkv_peer_create(ctx, info, name, &peer);
        if (status != MKV_OK) {
            return status;
        }
        status = mkv_hello_send(peer, MKV_MSG_HELLO);
        if (status != MKV_OK) {
            (void)mkv_peer_close_locked(peer, MKV_CLOSE_FORCE);
            return status;
        }
    } else if (name != NULL) {
        mkv_name_set(peer->name, name);
    }

    *peer_p = peer;
    return MKV_OK;
}

mkv_status_t mkv_peer_add(mkv_ctx_t *ctx, const void *blob, size_t length,
                          const char *name, mkv_peer_t **peer_p)
{
    mkv_blob_info_t info;
    mkv_status_t status;

    MKV_HOLD(ctx, "peer_add", return MKV_ERR_INVALID);
    status = mkv_blob_decode(blob, length, &info);
    if (status != MKV_OK) {
        return mkv_error(
            &ctx->log, status, "the blob of %zu bytes %s", length,
            (status == MKV_ERR_VERSION)
                ? "is of another library version"
                : "is cut, altered or no blob at all; expected all bytes of the peer's mkv_blob()");
    }

    mkv_enter(ctx);
    status = mkv_peer_add_info(ctx, &info, name, peer_p);
    mkv_leave(ctx);
    mkv_blob_info_cleanup(&info);
    return status;
}

mkv_status_t mkv_peer_query(mkv_peer_t *peer, mkv_peer_attr_t *attr)
{
    mkv_peer_attr_t values = {.size = sizeof(values)};

    MKV_HOLD(peer->ctx, "peer_query", return MKV_ERR_INVALID);
    mkv_enter(peer->ctx);
    values.state = mkv_conn_public(peer->state);
    if ((values.state == MKV_PEER_FAILED) && (peer->end == MKV_PEER_END_LEFT)) {
        values.state = MKV_PEER_CLOSED;
    }
    values.status = peer->status;
    mkv_text(values.error, sizeof(values.error), "%s", peer->error);
    mkv_text(values.name, sizeof(values.name), "%s", peer->name);
    mkv_text(values.transports, sizeof(values.transports), "%s", peer->transports);
    values.backend = mkv_paths_backend(peer);
    if (values.backend == MKV_BACKEND_UNKNOWN) {
        values.backend = peer->backend;
    }
    mkv_paths_text(peer, values.paths, sizeof(values.paths));
    values.slow = peer->slow;
    mkv_text(values.slow_text, sizeof(values.slow_text), "%s", peer->slow_text);
    values.is_same_host = peer->is_same_host;
    values.has_sgl_put =
        mkv_peer_may_sgl(peer, UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_ROCM);
    values.regions_epoch = peer->remote.epoch;
    values.num_regions = peer->remote.num_regions;
    values.topology = peer->remote.info.topology;
    mkv_leave_quietly(peer->ctx);
    return mkv_struct_write(&peer->ctx->log, &mkv_struct_peer_attr, &values, attr);
}

mkv_status_t mkv_peer_declare_dead(mkv_peer_t *peer)
{
    mkv_ctx_t *ctx = peer->ctx;

    MKV_HOLD(ctx, "peer_declare_dead", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    mkv_peer_declare_dead_locked(peer);
    mkv_leave(ctx);
    return MKV_OK;
}

mkv_status_t mkv_peer_close(mkv_peer_t *peer, mkv_close_mode_t mode)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_status_t status;

    if (mkv_ctx_is_forked(ctx)) {
        return MKV_OK; /* the object is the parent's */
    }
    MKV_HOLD(ctx, "peer_close", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    status = mkv_peer_close_locked(peer, mode);
    mkv_leave(ctx);
    return status;
}

/* ---- Messages of the caller ------------------------------------------------------ */

static mkv_status_t mkv_send_check(mkv_peer_t *peer, size_t length)
{
    const mkv_log_t *log = &peer->ctx->log;

    if (peer->state != MKV_CONN_READY) {
        return mkv_error(log,
                         mkv_conn_is_alive(peer->state) ? MKV_ERR_BUSY : MKV_ERR_PEER,
                         "peer %s is not ready: %s", peer->name, peer->error);
    }
    if (peer->tx_bytes + length > peer->ctx->opts->max_queued) {
        return mkv_error(log, MKV_ERR_BUSY,
                         "peer %s: %zu bytes wait to be sent, MAX_QUEUED is %llu",
                         peer->name, peer->tx_bytes,
                         (unsigned long long)peer->ctx->opts->max_queued);
    }
    if (!mkv_credit_has(peer, length)) {
        return mkv_error(
            log, MKV_ERR_BUSY,
            "peer %s has not polled %llu bytes of earlier messages, its MAX_QUEUED is "
            "%llu",
            peer->name,
            (unsigned long long)(peer->credit.sent - peer->credit.polled_there),
            (unsigned long long)peer->remote.info.max_queued);
    }
    return MKV_OK;
}

mkv_status_t mkv_send(mkv_peer_t *peer, uint64_t id, uint32_t type, const void *header,
                      size_t header_length, const void *data, size_t length)
{
    mkv_msg_t msg = {.type = MKV_MSG_USER,
                     .id = id,
                     .value = type,
                     .header = header,
                     .header_length = header_length,
                     .data = data,
                     .length = length};
    mkv_ctx_t *ctx = peer->ctx;
    mkv_status_t status;

    MKV_HOLD(ctx, "send", return MKV_ERR_INVALID);
    if ((header_length > ctx->opts->max_message) || (length > ctx->opts->max_message)) {
        return mkv_error(
            &ctx->log, MKV_ERR_LENGTH,
            "a message of %zu + %zu bytes is larger than option MAX_MESSAGE, %llu",
            header_length, length, (unsigned long long)ctx->opts->max_message);
    }

    mkv_enter(ctx);
    status = mkv_send_check(peer, header_length + length);
    if (status == MKV_OK) {
        status = mkv_message_send(peer, &msg);
    }
    if (status == MKV_OK) {
        mkv_credit_sent(peer, header_length + length);
    }
    mkv_leave(ctx);
    return status;
}

/* ---- Maps ------------------------------------------------------------------------ */

mkv_status_t mkv_regions_commit(mkv_ctx_t *ctx, uint64_t *epoch_p)
{
    mkv_status_t status;

    MKV_HOLD(ctx, "regions_commit", return MKV_ERR_INVALID);
    pthread_mutex_lock(&ctx->mem_lock);
    status = mkv_regions_register(ctx);
    if (status == MKV_OK) {
        mkv_enter(ctx);
        mkv_hello_send_regions(ctx);
        if (epoch_p != NULL) {
            *epoch_p = ctx->epoch;
        }
        mkv_leave(ctx);
    }
    pthread_mutex_unlock(&ctx->mem_lock);
    return status;
}

mkv_status_t mkv_regions_drop(mkv_ctx_t *ctx, const mkv_region_id_t *ids,
                              size_t num_ids)
{
    mkv_status_t status;
    uint64_t epoch;

    MKV_HOLD(ctx, "regions_drop", return MKV_ERR_INVALID);
    pthread_mutex_lock(&ctx->mem_lock);
    epoch = ctx->epoch;
    status = mkv_regions_remove(ctx, ids, num_ids);
    if (ctx->epoch != epoch) {
        mkv_enter(ctx);
        mkv_hello_send_regions(ctx);
        mkv_leave(ctx);
    }
    pthread_mutex_unlock(&ctx->mem_lock);
    return status;
}

#define MKV_MAP_TRIALS 3u /* trials that changes of regions may end */

static mkv_status_t mkv_map_check_peer(const mkv_peer_t *peer)
{
    bool is_alive = mkv_conn_is_alive(peer->state);

    if (peer->state == MKV_CONN_READY) {
        return MKV_OK;
    }
    return mkv_error(&peer->ctx->log, is_alive ? MKV_ERR_BUSY : MKV_ERR_PEER,
                     "peer %s is not ready: %s", peer->name,
                     is_alive ? "connecting; wait for MKV_EV_PEER_READY" : peer->error);
}

/* The keys go before the block lists that are exposed through the map. The connection
 * may have ended in a pause. */
static mkv_status_t mkv_map_send_keys(mkv_peer_t *peer, mkv_map_t *map)
{
    bool is_new = false;
    mkv_status_t status = mkv_map_check_peer(peer);

    if (status == MKV_OK) {
        status = mkv_grant_map(peer, map, &is_new);
    }
    if ((status == MKV_OK) && is_new) {
        status = mkv_hello_send_keys(peer);
    }
    if (status != MKV_OK) {
        mkv_map_free(map, true);
    }
    return status;
}

mkv_status_t mkv_map_create(mkv_peer_t *peer, const mkv_map_params_t *params,
                            mkv_map_t **map_p)
{
    static const uint32_t known = MKV_MAP_INTERSECT | MKV_MAP_ANY_RANK | MKV_MAP_SRC |
                                  MKV_MAP_DST | MKV_MAP_TOKENS;
    mkv_map_params_t mine = {.size = sizeof(mine)};
    mkv_ctx_t *ctx = peer->ctx;
    mkv_status_t status = MKV_OK;
    mkv_map_t *map;
    unsigned i;

    MKV_HOLD(ctx, "map_create", return MKV_ERR_INVALID);
    if (params != NULL) {
        status = mkv_struct_read(&ctx->log, &mkv_struct_map_params, params, &mine);
    }
    if (status != MKV_OK) {
        return status;
    }
    if (mine.flags & ~known) {
        return mkv_error(&ctx->log, MKV_ERR_UNSUPPORTED,
                         "map_params: flags 0x%x, libmorikv %s supports 0x%x",
                         mine.flags, mkv_version_string(), known);
    }

    mkv_enter(ctx);
    mkv_peer_get(peer); /* a close in another thread waits */
    mkv_leave_quietly(ctx);
    pthread_mutex_lock(&ctx->pair_lock);
    mkv_enter(ctx);
    for (i = 0; (i == 0) || (status == MKV_INPROGRESS); ++i) {
        status = mkv_map_check_peer(peer);
        if (status == MKV_OK) {
            status = mkv_map_make(&peer->remote, &mine, i >= MKV_MAP_TRIALS, &map);
        }
    }
    pthread_mutex_unlock(&ctx->pair_lock);
    if (status == MKV_OK) {
        status = mkv_map_send_keys(peer, map);
    }
    if (status == MKV_OK) {
        *map_p = map;
    }
    mkv_peer_put(peer);
    mkv_leave(ctx);
    return status;
}

static mkv_status_t mkv_map_end(mkv_map_t *map)
{
    mkv_peer_t *peer = mkv_peer_of(map->remote);

    if (map->num_uses > 0) {
        return mkv_error(
            &map->ctx->log, MKV_ERR_BUSY,
            "the map of peer %s is used by %u plans and transfers: close them first",
            peer->name, map->num_uses);
    }
    mkv_peer_get(peer); /* mkv_close() waits */
    mkv_map_free(map, false);
    mkv_peer_put(peer);
    return MKV_OK;
}

mkv_status_t mkv_map_destroy(mkv_map_t *map)
{
    mkv_ctx_t *ctx = map->ctx;
    mkv_status_t status;

    if (mkv_ctx_is_forked(ctx)) {
        return MKV_OK; /* the object is the parent's */
    }
    MKV_HOLD(ctx, "map_destroy", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    status = mkv_map_end(map);
    mkv_leave(ctx);
    return status;
}
