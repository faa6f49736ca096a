/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_RUN_H
#define PERF_RUN_H

/**
 * @file
 * State of a started process, and the two kinds of run.
 */

#include "perf/kv_perf/engine/channel.h"
#include "perf/memory/memory.h"
#include "perf/workload/options.h"
#include "perf/kv_perf/report/report.h"


typedef struct perf_run {
    const perf_options_t *options;
    unsigned rank; /**< 0: center; others: leaves */
    perf_channel_t channels[PERF_MAX_LEAVES];
    unsigned num_channels; /**< Center: one to each leaf; leaf: one */
    perf_memory_t *memory;
    perf_report_t *report; /**< Center only, else NULL */
    uint64_t going_ns;     /**< Time of the next notification of progress */
} perf_run_t;


/** Print at the center the step that takes time now. */
void perf_run_phase(const perf_run_t *run, const char *what);

/**
 * The measurement made progress, at @a now_ns. Notifies waiting processes, four times a
 * second at most: a measurement may take longer than --timeout, but must not stand
 * still. A leaf notifies the center alone, which passes nothing on.
 */
void perf_run_going(perf_run_t *run, uint64_t now_ns);

/** Move the KV cache of a model's requests. @return 0, or -1 after @ref perf_error. */
int perf_model_run(perf_run_t *run);

/** Sweep block and batch sizes. @return 0, or -1 after @ref perf_error. */
int perf_sweep_run(perf_run_t *run);

/**
 * Wait until all processes are here.
 *
 * @param [in] idle  Lets UCX progress meanwhile, or NULL.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_run_barrier(perf_run_t *run, perf_idle_t idle, void *arg);

/**
 * The same before anything is measured: the center first waits for --start_lock.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_run_start(perf_run_t *run, perf_idle_t idle, void *arg);

/**
 * Leaf: give the center our part of a row. Center: add all leaves' parts and print.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_run_report(perf_run_t *run, perf_result_t *result, perf_idle_t idle,
                    void *arg);

#endif
