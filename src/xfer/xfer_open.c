/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Creation and destruction of transfers.
 */

#include "xfer/leg_receive.h"

#include "base/abi.h"

#include <stdlib.h>
#include <string.h>

#define MKV_XFER_EVENTS 3u /* terminal event, quiet, warning */

static mkv_status_t mkv_xfer_check_params(mkv_ctx_t *ctx,
                                          const mkv_xfer_params_t *params)
{
    const mkv_log_t *log = &ctx->log;

    if ((params->legs == NULL) || (params->num_legs == 0) ||
        (params->num_legs > UINT16_MAX)) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "xfer_open: %zu legs at %p, expected 1 to %u maps",
                         params->num_legs, (const void *)params->legs, UINT16_MAX);
    }
    if ((unsigned)params->mode > MKV_READ) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "xfer_open: mode %d, expected MKV_WRITE or MKV_READ",
                         (int)params->mode);
    }
    if ((unsigned)params->role > MKV_DST) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "xfer_open: role %d, expected MKV_SRC or MKV_DST",
                         (int)params->role);
    }
    if ((unsigned)params->priority > MKV_PRIORITY_LOW) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "xfer_open: priority %d, expected MKV_PRIORITY_NORMAL, _HIGH "
                         "or _LOW",
                         (int)params->priority);
    }
    if ((params->num_expect > MKV_MAX_COMPONENTS) ||
        ((params->num_expect > 0) && (params->expect == NULL))) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "xfer_open: num_expect %zu at %p, expected at most %u "
                         "components",
                         params->num_expect, (const void *)params->expect,
                         MKV_MAX_COMPONENTS);
    }
    return MKV_OK;
}

static mkv_status_t mkv_xfer_check_leg(mkv_ctx_t *ctx, const mkv_xfer_params_t *params,
                                       size_t index)
{
    const mkv_map_t *map = params->legs[index];
    mkv_peer_t *peer;
    size_t i;

    if ((map == NULL) || (map->ctx != ctx)) {
        return mkv_error(
            &ctx->log, MKV_ERR_INVALID,
            "leg %zu has no map of this context, expected one of mkv_map_create() for a peer of it",
            index);
    }
    peer = mkv_peer_of(map->remote);
    if (peer->state != MKV_CONN_READY) {
        return mkv_error(&ctx->log, MKV_ERR_PEER, "leg %zu: peer %s has failed: %s",
                         index, peer->name, peer->error);
    }
    if (map->flags & ((params->role == MKV_SRC) ? MKV_MAP_DST : MKV_MAP_SRC)) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "leg %zu: the map of peer %s is for transfers in which this "
                         "side is the %s",
                         index, peer->name,
                         (params->role == MKV_SRC) ? "destination" : "source");
    }
    if (map->is_stale) {
        return mkv_error(&ctx->log, MKV_ERR_STALE,
                         "leg %zu: peer %s has dropped regions of the map", index,
                         peer->name);
    }
    for (i = 0; i < index; ++i) {
        if (params->legs[i]->remote == map->remote) {
            return mkv_error(&ctx->log, MKV_ERR_INVALID,
                             "legs %zu and %zu lead to the same peer %s", i, index,
                             peer->name);
        }
    }
    if (mkv_leg_find(peer, params->id, params->epoch) != NULL) {
        return mkv_error(&ctx->log, MKV_ERR_DUPLICATE,
                         "transfer %llu epoch %u with peer %s is open already; "
                         "expected another id or epoch",
                         (unsigned long long)params->id, params->epoch, peer->name);
    }
    return MKV_OK;
}

static mkv_status_t mkv_leg_init(mkv_leg_t *leg, mkv_xfer_t *xfer, uint32_t index,
                                 mkv_map_t *map)
{
    mkv_list_t *lists[] = {&leg->hash,    &leg->list,      &leg->busy,   &leg->flush,
                           &leg->posts,   &leg->running,   &leg->pulled, &leg->pushed,
                           &leg->flushed, &leg->push_plans};
    size_t i;

    /* a destination that is written to posts nothing; an owner may put for its reader
     */
    if (xfer->is_active || (xfer->mode == MKV_READ)) {
        leg->posted = calloc(2 * (size_t)map->num_pairs + 1, sizeof(*leg->posted));
        if (leg->posted == NULL) {
            return MKV_ERR_NOMEM;
        }
        leg->posted_sums = leg->posted + map->num_pairs;
    }
    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); ++i) {
        mkv_list_init(lists[i]);
    }
    leg->xfer = xfer;
    leg->state = MKV_LEG_WAITING;
    leg->status = MKV_INPROGRESS;
    leg->index = index;
    leg->map = map;
    leg->peer = mkv_peer_of(map->remote);
    ++map->num_uses;
    mkv_list_add_tail(&leg->peer->legs, &leg->list);
    mkv_list_add_tail(mkv_leg_bucket(xfer->ctx, xfer->id), &leg->hash);
    return MKV_OK;
}

static uint64_t mkv_share(uint64_t limit, uint64_t percent)
{
    uint64_t share = (limit / 100) * percent + (limit % 100) * percent / 100;

    return (share > 0) ? share : 1;
}

static void mkv_xfer_set_priority(mkv_xfer_t *xfer, mkv_priority_t priority)
{
    const mkv_options_t *opts = xfer->ctx->opts;
    const uint64_t shares[] = {[MKV_PRIORITY_HIGH] = 100,
                               [MKV_PRIORITY_NORMAL] = xfer->ctx->tuning.normal_share,
                               [MKV_PRIORITY_LOW] = xfer->ctx->tuning.low_share};

    xfer->priority = priority;
    xfer->limits.ops = mkv_share(opts->max_inflight_ops, shares[priority]);
    xfer->limits.bytes = mkv_share(opts->max_inflight_bytes, shares[priority]);
}

static void mkv_xfer_init(mkv_xfer_t *xfer, mkv_ctx_t *ctx,
                          const mkv_xfer_params_t *params)
{
    const mkv_options_t *opts = ctx->opts;
    const uint64_t defaults[MKV_NUM_TIMEOUTS] = {opts->bind_timeout, opts->xfer_timeout,
                                                 opts->release_timeout,
                                                 opts->drain_timeout};
    const uint32_t given[MKV_NUM_TIMEOUTS] = {
        params->bind_timeout_ms, params->xfer_timeout_ms, params->release_timeout_ms,
        params->drain_timeout_ms};
    unsigned i;

    mkv_list_init(&xfer->list);
    mkv_list_init(&xfer->dirty);
    xfer->ctx = ctx;
    xfer->id = params->id;
    xfer->epoch = params->epoch;
    xfer->nonce = mkv_ctx_nonce(ctx);
    xfer->mode = params->mode;
    xfer->role = params->role;
    xfer->is_active = (params->mode == MKV_WRITE) == (params->role == MKV_SRC);
    xfer->state = MKV_XFER_INIT;
    xfer->status = MKV_INPROGRESS;
    xfer->error = "";
    xfer->user_data = params->user_data;
    xfer->ended = params->ended;
    xfer->ended_arg = params->ended_arg;
    mkv_xfer_set_priority(xfer, params->priority);
    xfer->open_time = mkv_ctx_time(ctx); /* not behind the times that are set next */
    for (i = 0; i < MKV_NUM_TIMEOUTS; ++i) {
        xfer->timeouts[i] =
            (given[i] != 0 ? given[i] : defaults[i]) * MKV_NSEC_PER_MSEC;
    }
}

/* Reserve the events of a transfer, few because most of thousands of open transfers
 * only wait */
static unsigned mkv_xfer_count_events(const mkv_xfer_t *xfer, size_t num_legs)
{
    unsigned of_leg =
        (xfer->is_active ? 1 : 0) /* exposed */ + ((num_legs > 1) ? 1 : 0) /* ended */;

    return MKV_XFER_EVENTS + of_leg * (unsigned)num_legs;
}

static mkv_status_t mkv_xfer_build(mkv_xfer_t *xfer, const mkv_xfer_params_t *params)
{
    mkv_status_t status;
    size_t i;

    xfer->num_events = mkv_xfer_count_events(xfer, params->num_legs);
    status = mkv_event_reserve(xfer->ctx, xfer->num_events);
    if ((status == MKV_OK) && (params->num_expect > 0)) {
        xfer->expect = malloc(params->num_expect * sizeof(*xfer->expect));
        if (xfer->expect == NULL) {
            return MKV_ERR_NOMEM;
        }
        memcpy(xfer->expect, params->expect,
               params->num_expect * sizeof(*xfer->expect));
        xfer->num_expect = params->num_expect;
    }
    for (i = 0; (status == MKV_OK) && (i < params->num_legs); ++i) {
        status = mkv_leg_init(&xfer->legs[i], xfer, (uint32_t)i, params->legs[i]);
        xfer->num_legs += (status == MKV_OK);
    }
    return status;
}

void mkv_xfer_free(mkv_xfer_t *xfer)
{
    uint32_t i;

    mkv_events_forget(xfer->ctx, xfer, NULL);
    for (i = 0; i < xfer->num_legs; ++i) {
        mkv_leg_cleanup(&xfer->legs[i]);
    }
    mkv_list_del(&xfer->list);
    mkv_list_del(&xfer->dirty);
    mkv_event_unreserve(xfer->ctx, xfer->num_events);
    free(xfer->expect);
    free(xfer->error_text);
    free(xfer);
}

/* An active side without blocks sends OPEN, as the other side may wait for it */
static void mkv_leg_send_open(mkv_leg_t *leg)
{
    mkv_msg_t msg = {.type = MKV_MSG_OPEN};

    if (leg->xfer->is_active && (leg->remote_nonce == 0) && !mkv_leg_is_over(leg)) {
        mkv_leg_send_or_fail(leg, &msg);
    }
}

static mkv_status_t mkv_xfer_open_locked(mkv_ctx_t *ctx,
                                         const mkv_xfer_params_t *params,
                                         mkv_xfer_t **xfer_p)
{
    mkv_status_t status;
    mkv_xfer_t *xfer;
    size_t i;

    status = mkv_xfer_check_params(ctx, params);
    for (i = 0; (status == MKV_OK) && (i < params->num_legs); ++i) {
        status = mkv_xfer_check_leg(ctx, params, i);
    }
    if (status != MKV_OK) {
        return status;
    }

    xfer = calloc(1, sizeof(*xfer) + params->num_legs * sizeof(xfer->legs[0]));
    if (xfer == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for a transfer");
    }
    mkv_xfer_init(xfer, ctx, params);
    status = mkv_xfer_build(xfer, params);
    if (status != MKV_OK) {
        mkv_xfer_free(xfer);
        return mkv_error(&ctx->log, status, "no memory for a transfer of %zu legs",
                         params->num_legs);
    }

    mkv_list_add_tail(&ctx->xfers, &xfer->list);
    MKV_COUNT(xfer->legs[0].peer, xfers_opened, 1);
    mkv_xfer_set_deadline(xfer, MKV_TIMEOUT_BIND);
    for (i = 0; i < xfer->num_legs; ++i) {
        mkv_leg_note(&xfer->legs[i]);
    }
    *xfer_p = xfer;
    for (i = 0; i < xfer->num_legs; ++i) {
        mkv_leg_receive_early(&xfer->legs[i]);
        mkv_leg_send_open(&xfer->legs[i]);
    }
    return MKV_OK;
}

mkv_status_t mkv_xfer_open(mkv_ctx_t *ctx, const mkv_xfer_params_t *params,
                           mkv_xfer_t **xfer_p)
{
    mkv_xfer_params_t mine;
    mkv_status_t status;

    MKV_HOLD(ctx, "xfer_open", return MKV_ERR_INVALID);
    status = mkv_struct_read(&ctx->log, &mkv_struct_xfer_params, params, &mine);
    if (status != MKV_OK) {
        return status;
    }

    mkv_enter(ctx);
    status = mkv_xfer_open_locked(ctx, &mine, xfer_p);
    mkv_leave(ctx);
    return status;
}
