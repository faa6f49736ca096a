/* SPDX-License-Identifier: BSD-3-Clause */

/* Counters and the dump, to investigate a transfer that makes no progress. */

#include "memory/region.h"

#include "base/abi.h"
#include "base/latency.h"
#include "peer/backend.h"
#include "peer/path.h"
#include "peer/peer.h"
#include "xfer/xfer.h"

#include <stdlib.h>
#include <string.h>

/** Lines with their newlines, kept until the lock is free: the caller's write function
 * may block. */
typedef struct mkv_dump_sink {
    char *text;
    size_t length, room;
    bool is_cut; /**< No memory for all lines */
} mkv_dump_sink_t;

static void mkv_dump_keep(void *arg, const char *line)
{
    mkv_dump_sink_t *sink = arg;
    size_t length = strlen(line) + 1;
    char *text;

    if (length > sink->room - sink->length) {
        text = realloc(sink->text, 2 * (sink->room + length));
        if (text == NULL) {
            sink->is_cut = true;
            return;
        }
        sink->text = text;
        sink->room = 2 * (sink->room + length);
    }
    memcpy(sink->text + sink->length, line, length);
    sink->length += length;
}

static void mkv_dump_line(mkv_dump_sink_t *sink, const char *fmt, ...) MKV_PRINTF(2, 3);

static void mkv_dump_line(mkv_dump_sink_t *sink, const char *fmt, ...)
{
    char line[1280];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    mkv_dump_keep(sink, line);
}

static void mkv_stats_copy(const mkv_counters_t *count, mkv_stats_t *stats)
{
#define MKV_COUNTER(_name) stats->_name = count->_name;
    MKV_COUNTERS(MKV_COUNTER)
#undef MKV_COUNTER
    mkv_latency_copy(count->expose_to_done, stats->expose_to_done);
}

/* Blocks that this side has exposed and must not use yet */
static uint64_t mkv_leg_blocks_held(const mkv_leg_t *leg)
{
    uint64_t num = 0;
    uint32_t i;

    if (leg->xfer->is_active || leg->is_quiet) {
        return 0;
    }
    for (i = 0; i < leg->num_units; ++i) {
        num += leg->units[i].num_local;
    }
    return num;
}

static void mkv_stats_add_peer(const mkv_peer_t *peer, mkv_stats_t *stats)
{
    mkv_leg_t *leg;

    stats->inflight_ops += peer->inflight_ops;
    stats->inflight_bytes += peer->inflight_bytes;
    mkv_list_for_each(leg, &peer->legs, list)
    {
        stats->queued_posts += mkv_list_length(&leg->posts);
        stats->xfers_open += (leg->index == 0);
        stats->blocks_held += mkv_leg_blocks_held(leg);
        stats->quarantined_xfers += (leg->index == 0) && leg->xfer->is_quarantined;
    }
}

static void mkv_stats_fill(mkv_ctx_t *ctx, const mkv_peer_t *peer, mkv_stats_t *stats)
{
    mkv_peer_t *each;

    mkv_stats_copy((peer != NULL) ? &peer->count : &ctx->count, stats);
    stats->num_memh = mkv_list_length(&ctx->mems);
    stats->num_regions = ctx->num_regions;
    stats->num_peers = ctx->num_peers;
    if (peer != NULL) {
        mkv_stats_add_peer(peer, stats);
        return;
    }
    mkv_latency_copy(ctx->event_to_poll, stats->event_to_poll);
    mkv_list_for_each(each, &ctx->peers, list)
    {
        mkv_stats_add_peer(each, stats);
    }
    mkv_list_for_each(each, &ctx->dead_peers, list)
    {
        mkv_stats_add_peer(each, stats);
    }
}

mkv_status_t mkv_stats(mkv_ctx_t *ctx, const mkv_peer_t *peer, mkv_stats_t *stats)
{
    mkv_stats_t result = {.size = sizeof(result)};

    MKV_HOLD(ctx, "stats", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    mkv_stats_fill(ctx, peer, &result);
    mkv_leave_quietly(ctx);
    return mkv_struct_write(&ctx->log, &mkv_struct_stats, &result, stats);
}

/* ---- Dump ------------------------------------------------------------------------ */

/* In rounds, under mem_lock */
static void mkv_dump_regions(mkv_ctx_t *ctx, mkv_dump_sink_t *sink)
{
    mkv_lregion_t *region;
    mkv_mem_t *mem;
    size_t i = 0;

    mkv_list_for_each(mem, &ctx->mems, list)
    {
        mkv_dump_line(sink,
                      "mem %u: %llu bytes of memory type %d at 0x%llx, %u regions",
                      mem->id, (unsigned long long)mem->length, (int)mem->type,
                      (unsigned long long)mem->base, mem->num_regions);
        (void)mkv_pause_at(ctx, i++);
    }
    mkv_list_for_each(region, &ctx->regions, list)
    {
        mkv_dump_line(sink,
                      "region %u: component %u layer %d part %u, %llu units of %llu "
                      "bytes, stride %llu, at %p, mem %u, %u maps",
                      region->id, region->info.component, region->info.layer,
                      region->info.part, (unsigned long long)region->info.n_units,
                      (unsigned long long)region->info.unit_bytes,
                      (unsigned long long)region->info.unit_stride, region->info.base,
                      (region->mem == NULL) ? 0 : region->mem->id, region->num_maps);
        (void)mkv_pause_at(ctx, i++);
    }
}

static void mkv_dump_peers(const mkv_list_t *peers, mkv_dump_sink_t *sink)
{
    mkv_peer_t *peer;
    char paths[512];

    mkv_list_for_each(peer, peers, list)
    {
        mkv_paths_text(peer, paths, sizeof(paths));
        mkv_dump_line(sink,
                      "peer %s: %s%s%s%s, best connected backend %s, transports [%s], "
                      "carried by [%s], %s host pid %u, "
                      "%u regions of epoch %llu, %llu calls and %llu bytes in flight, "
                      "%u early messages",
                      peer->name, mkv_peer_is_closed(peer) ? "closed, " : "",
                      mkv_conn_state_string(peer->state), peer->error[0] ? ": " : "",
                      peer->error, mkv_backend_string(peer->backend), peer->transports,
                      paths, peer->is_same_host ? "same" : "other", peer->process.pid,
                      peer->remote.num_regions, (unsigned long long)peer->remote.epoch,
                      (unsigned long long)peer->inflight_ops,
                      (unsigned long long)peer->inflight_bytes, peer->num_early);
    }
}

static void mkv_dump_xfers(mkv_ctx_t *ctx, mkv_dump_sink_t *sink)
{
    mkv_xfer_t *xfer;
    char text[128];

    mkv_list_for_each(xfer, &ctx->xfers, list)
    {
        mkv_xfer_waiting(xfer, text, sizeof(text));
        mkv_dump_line(
            sink,
            "transfer %llu epoch %u: %s %s, %s%s%s, age %llu ms, %llu of %llu "
            "pieces, waits for %s%s%s",
            (unsigned long long)xfer->id, xfer->epoch,
            (xfer->mode == MKV_WRITE) ? "WRITE" : "READ",
            (xfer->role == MKV_SRC) ? "source" : "destination",
            mkv_xfer_state_string(xfer->state), xfer->is_quiet ? ", quiet" : "",
            xfer->is_quarantined ? ", quarantined" : "",
            (unsigned long long)((mkv_ctx_now(ctx) - xfer->open_time) /
                                 MKV_NSEC_PER_MSEC),
            (unsigned long long)xfer->completed, (unsigned long long)xfer->posted,
            text[0] ? text : "nothing", xfer->error[0] ? ", error: " : "", xfer->error);
    }
}

static void mkv_dump_stats(mkv_ctx_t *ctx, mkv_dump_sink_t *sink)
{
    mkv_stats_t stats = {.size = sizeof(stats)};
    const struct {
        const char *name;
        const uint64_t *value;
    } rows[] = {
#define MKV_COUNTER(_name) {#_name, &stats._name},
        MKV_COUNTERS(MKV_COUNTER)
#undef MKV_COUNTER
            {"xfers_open", &stats.xfers_open},
        {"quarantined_xfers", &stats.quarantined_xfers},
        {"inflight_ops", &stats.inflight_ops},
        {"inflight_bytes", &stats.inflight_bytes},
        {"queued_posts", &stats.queued_posts},
    };
    size_t i;

    mkv_stats_fill(ctx, NULL, &stats);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        mkv_dump_line(sink, "%s=%llu", rows[i].name,
                      (unsigned long long)*rows[i].value);
    }
}

static void mkv_dump_sections(mkv_ctx_t *ctx, uint32_t sections, mkv_dump_sink_t *sink)
{
    mkv_dump_line(sink, "context %s: morikv %s, UCX 1.%u, %s worker", ctx->name,
                  mkv_version_string(), ctx->ucp_version,
                  ctx->is_attached ? "attached" : "own");
    if (sections & MKV_DUMP_CONFIG) {
        mkv_config_dump(ctx->config, mkv_dump_keep, sink);
    }
    if (sections & MKV_DUMP_REGIONS) {
        mkv_dump_regions(ctx, sink);
    }
    if (sections & MKV_DUMP_PEERS) {
        mkv_dump_peers(&ctx->peers, sink);
        mkv_dump_peers(&ctx->dead_peers, sink);
    }
    if (sections & MKV_DUMP_XFERS) {
        mkv_dump_xfers(ctx, sink);
    }
    if (sections & MKV_DUMP_STATS) {
        mkv_dump_stats(ctx, sink);
    }
}

static void mkv_dump_held(mkv_ctx_t *ctx, uint32_t sections, mkv_dump_sink_t *sink)
{
    bool is_in_rounds = (sections & MKV_DUMP_REGIONS) != 0;

    if (is_in_rounds) {
        pthread_mutex_lock(&ctx->mem_lock);
    }
    mkv_enter(ctx);
    mkv_dump_sections(ctx, sections, sink);
    mkv_leave_quietly(ctx);
    if (is_in_rounds) {
        pthread_mutex_unlock(&ctx->mem_lock);
    }
}

mkv_status_t mkv_dump(mkv_ctx_t *ctx, uint32_t sections,
                      void (*write)(void *arg, const char *line), void *arg)
{
    mkv_dump_sink_t sink = {.text = NULL};
    size_t at;

    if (mkv_hold(ctx, "dump") != MKV_OK) {
        return MKV_ERR_INVALID;
    }
    mkv_dump_held(ctx, sections, &sink);
    mkv_let_go(ctx); /* write() may close the context */
    for (at = 0; at < sink.length; at += strlen(sink.text + at) + 1) {
        write(arg, sink.text + at);
    }
    free(sink.text);
    return sink.is_cut
               ? mkv_error(NULL, MKV_ERR_NOMEM, "no memory for all lines of a dump")
               : MKV_OK;
}
