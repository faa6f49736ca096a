/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_ENGINE_H
#define PERF_ENGINE_H

/**
 * @file
 * Ways to move lists of blocks that a sweep compares: libmorikv, or UCP directly.
 *
 * A job is one flow of one row: the same lists moved again and again. The process that
 * starts operations runs it, the other one serves it; both describe it alike.
 *
 * Threads. One thread per engine.
 */

#include "perf/kv_perf/engine/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


typedef struct perf_job {
    unsigned peer;    /**< Index of the channel */
    unsigned view;    /**< Index of the block size in perf_engine_params_t */
    uint64_t id;      /**< Unique, and the same in both processes */
    bool is_recreate; /**< Prepare each post anew */
    bool is_notified; /**< Notify the other process of each post that has arrived */
    uint32_t num_blocks;
    const uint32_t *local;  /**< Block numbers in this process */
    const uint32_t *remote; /**< Block numbers in the other one; needed only to run */
    uint64_t num_posts;     /**< Number of all posts of the job */

    /* set by the engine for its runner */
    uint64_t num_completed; /**< Posts whose data has been moved */
    uint64_t num_merged;    /**< Pieces of a post, after merging */
    uint64_t num_ucp_calls; /**< Data calls into UCX so far, 0 if unknown */
    uint64_t prep_ns;       /**< Time to prepare; with is_recreate, of all posts */

    /* set by the engine for its server, with is_notified */
    uint64_t num_arrived; /**< Posts that have arrived in full in this process */
    void *priv;
} perf_job_t;

typedef struct perf_engine perf_engine_t;

/** An allocation, divided into blocks of several sizes. */
typedef struct perf_engine_params {
    perf_run_t *run;
    void *buffer;
    size_t size;
    unsigned num_views;
    const size_t *block_sizes; /**< Bytes of a block in each view */
} perf_engine_params_t;

typedef struct perf_engine_ops {
    /** Connect to all other processes, which do the same. */
    int (*open)(const perf_engine_params_t *params, perf_engine_t **engine_p);
    void (*close)(perf_engine_t *engine);

    /** All jobs are over everywhere: others may close from here on. */
    void (*end_of_test)(perf_engine_t *engine);

    /**
     * Passive side of a job: call serve before the job runs and unserve after it has
     * stopped. With is_notified, serve and start prepare everything that a post needs.
     */
    int (*serve)(perf_engine_t *engine, perf_job_t *job);
    int (*unserve)(perf_engine_t *engine, perf_job_t *job);

    /** Prepare a job; waits for the other side's serve. */
    int (*start)(perf_engine_t *engine, perf_job_t *job);

    /** Move its blocks once more; num_completed counts finished posts, in order. */
    int (*post)(perf_engine_t *engine, perf_job_t *job);

    /**
     * Call this after all num_posts have completed or, with is_notified, have been
     * posted. When it returns, the other side has received all of them.
     */
    int (*stop)(perf_engine_t *engine, perf_job_t *job);

    /** @return 0, or -1 when something failed, which has been printed. */
    int (*progress)(perf_engine_t *engine);

    void (*path)(perf_engine_t *engine, unsigned peer, char *path, size_t size);

    /** Nanoseconds in progress calls that found work, so far. */
    uint64_t (*cpu_ns)(const perf_engine_t *engine);
} perf_engine_ops_t;

extern const perf_engine_ops_t perf_engine_mkv;
extern const perf_engine_ops_t perf_engine_ucp; /**< A call a block, or SGL */

#endif
