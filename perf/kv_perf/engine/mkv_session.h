/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_MKV_SESSION_H
#define PERF_MKV_SESSION_H

/**
 * @file
 * A libmorikv context with its peers: shared by sweeps and models.
 *
 * Threads. One thread per object.
 */

#include "perf/kv_perf/engine/channel.h"
#include "perf/workload/options.h"
#include "perf/memory/pool.h"
#include "src/morikv.h"

#include <stdbool.h>


/** Sees every event about a transfer, and messages. */
typedef void (*perf_session_handler_t)(void *arg, const mkv_event_t *event);

/** Rank of a context, number of ranks, and the purpose of its maps. */
typedef struct perf_session_rank {
    uint32_t tp_rank, tp_size; /**< 0: unused */
    uint32_t map_flags;
} perf_session_rank_t;

typedef struct perf_session {
    mkv_ctx_t *ctx;
    uint32_t map_flags;
    unsigned num_peers;
    mkv_peer_t *peers[PERF_MAX_LEAVES]; /**< Peers in the order of the channels */
    mkv_map_t *maps[PERF_MAX_LEAVES];
    unsigned num_ready;
    bool is_failed; /**< An event reported an error, which has been printed */
    bool is_closing;
    bool has_threads;   /**< Threads of the library make progress (PROGRESS_THREADS) */
    uint64_t cpu_ns;    /**< Time in progress calls that found work */
    unsigned num_empty; /**< Progress calls in a row that found nothing */
    uint32_t timeout_s;
    perf_session_handler_t handler;
    void *arg;
} perf_session_t;


/**
 * Open a context without regions and peers.
 *
 * @param [in] rank  Copied.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_session_open(const perf_options_t *options, const perf_session_rank_t *rank,
                      perf_session_handler_t handler, void *arg, perf_session_t *kv);

/** All transfers are over: from here on a peer's close is no error. */
void perf_session_end_of_test(perf_session_t *kv);

/** Close everything; the other sides must do the same now. */
void perf_session_close(perf_session_t *kv);

/**
 * Make regions of a pool's layers and parts.
 *
 * @param [in] like    Component and how its units are made; the rest is filled in.
 * @param [in] layers  Number of each of the pool's layers; NULL: 0, 1, ...
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_session_add_pool(perf_session_t *kv, const perf_pool_t *pool,
                          ucs_memory_type_t type, const mkv_region_t *like,
                          const uint16_t *layers);

/**
 * Register the regions, connect to the process behind each channel and map its regions.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_session_connect(perf_session_t *kv, perf_channel_t *channels,
                         unsigned num_channels);

/** Progress and hand out events. */
void perf_session_progress(perf_session_t *kv);

/** perf_session_progress() as a perf_idle_t. */
void perf_session_idle(void *kv);

/** Print an error of the library, with the failed call; returns -1. */
int perf_session_error(const char *what);

/** Text about the transport of data to a peer: "mori_xgmi/xgmi0 (xgmi)". */
void perf_session_path(const perf_session_t *kv, unsigned peer, char *path,
                       size_t size);

#endif
