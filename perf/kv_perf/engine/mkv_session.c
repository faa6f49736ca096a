/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/engine/mkv_session.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "perf/base/backoff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


enum { PERF_KV_EVENTS = 32, PERF_KV_MAX_BLOB = 1 << 20 };


int perf_session_error(const char *what)
{
    perf_error("%s: %s", what, mkv_last_error());
    return -1;
}

/* A measurement writes to the same blocks again and again, before earlier lists are
 * over. An allocator would not do so; here it is allowed, unless the user enables the
 * check. */
static mkv_config_t *perf_session_config(void)
{
    mkv_config_t *config;

    if (mkv_config_read(NULL, &config) != MKV_OK) {
        return NULL;
    }
    if ((getenv("MORIKV_OVERLAP") == NULL) &&
        (mkv_config_set(config, "OVERLAP", "allow") != MKV_OK)) {
        mkv_config_release(config);
        return NULL;
    }
    return config;
}

/* Report the failure for transfers left open, not a wrong use of the library. */
static void perf_session_log(void *arg, mkv_log_level_t level, const char *text)
{
    static const char *const names[] = {"error", "warn", "info", "debug", "trace"};
    const perf_session_t *kv = arg;

    if (!kv->is_closing || !kv->is_failed || (level > MKV_LOG_WARN)) {
        fprintf(stderr, "morikv %s: %s\n", names[level], text);
    }
}

int perf_session_open(const perf_options_t *options, const perf_session_rank_t *rank,
                      perf_session_handler_t handler, void *arg, perf_session_t *kv)
{
    mkv_open_params_t params = {.size = sizeof(params)};
    mkv_config_t *config = perf_session_config();
    mkv_status_t status;

    memset(kv, 0, sizeof(*kv));
    if (config == NULL) {
        return perf_session_error("options of libmorikv");
    }
    kv->handler = handler;
    kv->arg = arg;
    kv->has_threads =
        strtoul(mkv_config_get(config, "PROGRESS_THREADS"), NULL, 10) != 0;
    kv->timeout_s = options->timeout_s;
    params.name = (options->model == NULL)                          ? NULL
                  : perf_options_is_prefill(options, options->rank) ? "prefill"
                                                                    : "decode";
    params.topology.tp_rank = rank->tp_rank;
    params.topology.tp_size = rank->tp_size;
    kv->map_flags = rank->map_flags;
    params.page_tokens = ((options->model != NULL) && !perf_options_is_cut(options))
                             ? options->block_tokens
                             : 0;
    params.log = perf_session_log;
    params.log_arg = kv;
    status = mkv_open(config, &params, &kv->ctx);
    mkv_config_release(config);
    return (status == MKV_OK) ? 0 : perf_session_error("mkv_open");
}

int perf_session_add_pool(perf_session_t *kv, const perf_pool_t *pool,
                          ucs_memory_type_t type, const mkv_region_t *like,
                          const uint16_t *layers)
{
    const perf_pool_shape_t *shape = perf_pool_shape(pool);
    mkv_region_t region = *like;
    perf_pool_region_t place;
    mkv_region_id_t id;
    unsigned layer, part;

    region.size = sizeof(region);
    region.unit_bytes = shape->piece_bytes;
    region.n_units = shape->num_blocks;
    region.mem_type = type;
    for (layer = 0; layer < shape->num_layers; ++layer) {
        region.layer = (layers != NULL) ? layers[layer] : (int32_t)layer;
        for (part = 0; part < shape->num_parts; ++part) {
            perf_pool_region(pool, layer, part, &place);
            region.part = (uint16_t)part;
            region.base = place.base;
            region.length = place.length;
            region.unit_stride = place.stride;
            region.alloc_base = place.alloc_base;
            region.alloc_length = place.alloc_length;
            if (mkv_region_add(kv->ctx, &region, &id) != MKV_OK) {
                return perf_session_error("mkv_region_add");
            }
        }
    }
    return 0;
}

static int perf_session_add_peer(perf_session_t *kv, perf_channel_t *channel)
{
    size_t length = 0;
    int result = -1;
    void *blob;

    mkv_blob(kv->ctx, MKV_BLOB_ADDR, NULL, &length);
    blob = malloc((length > PERF_KV_MAX_BLOB) ? length : PERF_KV_MAX_BLOB);
    if (blob == NULL) {
        perf_error("no memory for an address of %zu bytes", length);
        return -1;
    }

    if (mkv_blob(kv->ctx, MKV_BLOB_ADDR, blob, &length) != MKV_OK) {
        perf_session_error("mkv_blob");
    } else if ((perf_channel_send(channel, PERF_CHANNEL_ADDRESS, blob, length) == 0) &&
               (perf_channel_recv(channel, PERF_CHANNEL_ADDRESS, blob, PERF_KV_MAX_BLOB,
                                  &length, NULL, NULL) == 0)) {
        result = (mkv_peer_add(kv->ctx, blob, length, NULL,
                               &kv->peers[kv->num_peers]) == MKV_OK)
                     ? 0
                     : perf_session_error("mkv_peer_add");
    }

    free(blob);
    return result;
}

static void perf_session_event(perf_session_t *kv, const mkv_event_t *event)
{
    switch (event->type) {
    case MKV_EV_PEER_READY:
        ++kv->num_ready;
        break;
    case MKV_EV_PEER_FAILED:
    case MKV_EV_PEER_CLOSED: /* the other process may have closed already */
    case MKV_EV_FAILED:
    case MKV_EV_ABORTED:
        if (!kv->is_closing) {
            perf_error("%s: %s: %s", mkv_event_string(event->type),
                       mkv_status_string(event->status), event->text);
            kv->is_failed = true;
        }
        break;
    case MKV_EV_WARN:
        perf_warn("%s", event->text);
        break;
    default:
        kv->handler(kv->arg, event);
        break;
    }
}

void perf_session_progress(perf_session_t *kv)
{
    mkv_event_t events[PERF_KV_EVENTS];
    unsigned num_happened;
    uint64_t start_ns;
    size_t i, num;

    do {
        start_ns = perf_clock_ns();
        num_happened = kv->has_threads ? 0 : mkv_progress(kv->ctx);
        num = 0; /* calls queue events, too: poll also after no progress */
        mkv_poll(kv->ctx, events, sizeof(events[0]), PERF_KV_EVENTS, &num);
        perf_backoff(&kv->num_empty, (num_happened != 0) || (num != 0));
        if ((num_happened != 0) || (num != 0)) {
            kv->cpu_ns += perf_clock_ns() - start_ns;
        }
        for (i = 0; i < num; ++i) {
            perf_session_event(kv, &events[i]);
        }
    } while (num == PERF_KV_EVENTS);
}

void perf_session_idle(void *kv)
{
    perf_session_progress(kv);
}

int perf_session_connect(perf_session_t *kv, perf_channel_t *channels,
                         unsigned num_channels)
{
    uint64_t deadline_ns = perf_clock_ns() + kv->timeout_s * UINT64_C(1000000000);
    mkv_map_params_t params = {.size = sizeof(params)};
    unsigned i;

    if (mkv_regions_commit(kv->ctx, NULL) != MKV_OK) {
        return perf_session_error("mkv_regions_commit");
    }
    for (i = 0; i < num_channels; ++i) {
        if (perf_session_add_peer(kv, &channels[i]) != 0) {
            return -1;
        }
        ++kv->num_peers;
    }

    while ((kv->num_ready < num_channels) && !kv->is_failed) {
        perf_session_progress(kv);
        if (perf_clock_ns() > deadline_ns) {
            perf_error("%u of %u peers did not connect within %u s",
                       num_channels - kv->num_ready, num_channels, kv->timeout_s);
            return -1;
        }
    }

    params.flags = kv->map_flags;
    for (i = 0; (i < num_channels) && !kv->is_failed; ++i) {
        if (mkv_map_create(kv->peers[i], &params, &kv->maps[i]) != MKV_OK) {
            return perf_session_error("mkv_map_create");
        }
    }
    return kv->is_failed ? -1 : 0;
}

void perf_session_end_of_test(perf_session_t *kv)
{
    kv->is_closing = true;
}

void perf_session_close(perf_session_t *kv)
{
    unsigned i;

    kv->is_closing = true;
    for (i = 0; i < kv->num_peers; ++i) {
        if ((kv->maps[i] != NULL) && (mkv_map_destroy(kv->maps[i]) != MKV_OK) &&
            !kv->is_failed) {
            perf_warn("mkv_map_destroy: %s", mkv_last_error());
        }
        mkv_peer_close(kv->peers[i], kv->is_failed ? MKV_CLOSE_FORCE : MKV_CLOSE_FLUSH);
    }
    if ((mkv_close(kv->ctx) != MKV_OK) && !kv->is_failed) {
        perf_warn("mkv_close: %s", mkv_last_error());
    }
}

void perf_session_path(const perf_session_t *kv, unsigned peer, char *path, size_t size)
{
    mkv_peer_attr_t attr = {.size = sizeof(attr)};
    mkv_stats_t stats = {.size = sizeof(stats)};
    char pulls[64] = "";

    if ((mkv_peer_query(kv->peers[peer], &attr) != MKV_OK) ||
        (mkv_stats(kv->ctx, kv->peers[peer], &stats) != MKV_OK)) {
        snprintf(path, size, "unknown: %s", mkv_last_error());
        return;
    }
    if (stats.pulls_sent > 0) {
        snprintf(pulls, sizeof(pulls), " (%llu of %llu posts moved by the owner)",
                 (unsigned long long)(stats.pulls_sent - stats.pulls_refused),
                 (unsigned long long)stats.plan_posts);
    }
    if (attr.paths[0] == '\0') { /* all calls were made by the other process */
        snprintf(path, size, "connected %s%s", attr.transports, pulls);
        return;
    }
    snprintf(path, size, "%s%s", attr.paths, pulls);
}
