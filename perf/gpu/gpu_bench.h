/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef GPU_BENCH_H
#define GPU_BENCH_H

/**
 * @file
 * A transfer of gpu_limits: its pieces, the ways to move them, the check of every byte,
 * the line of the table. At most one transfer at a time, hence one object for all.
 */

#include "perf/gpu/gpu_runtime.h"
#include "perf/base/table.h"

#include <json-c/json.h>
#include <stdio.h>

#define GPU_NUM_SETS 8
#define GPU_MAX_REPEATS 200
#define GPU_MAX_PIECES 65536

/** How bytes are moved */
typedef enum gpu_method {
    GPU_PUSH,  /**< Kernel on the source's device */
    GPU_PULL,  /**< Kernel on the destination's device */
    GPU_LOOP,  /**< A copy call per piece */
    GPU_BATCH, /**< The runtime's own call for many copies */
    GPU_NUM_METHODS
} gpu_method_t;

/** Pieces of one transfer, as offsets into the pools. */
typedef struct gpu_piece {
    size_t dst;
    size_t src;
    size_t length;
} gpu_piece_t;

typedef struct gpu_bench {
    gpu_runtime_t gpu;
    gpu_device_t devices[2]; /* the source device, then the destination device */
    size_t pool_size;
    size_t count;
    unsigned repeats;
    unsigned blocks;
    size_t cache_size;   /* bytes of a model's KV cache on each device */
    const char *lengths; /* tokens of a model's prompts, "8192,131072" */
    char *host_src;
    char *host_dst;
    gpu_piece_t *sets[GPU_NUM_SETS];
    muct_xgmi_entry_t *memory[GPU_NUM_SETS];
    void *dsts[GPU_MAX_PIECES];
    void *srcs[GPU_MAX_PIECES];
    size_t sizes[GPU_MAX_PIECES];
    FILE *json;
    unsigned num_rows;
    unsigned num_bad;
} gpu_bench_t;


extern gpu_bench_t gpu_bench;
extern const char *const gpu_bench_names[GPU_NUM_METHODS];

/** Each figure is a row; its head is printed with each part. */
extern const perf_table_t gpu_bench_table;


/** Median; sorts the values. */
double gpu_bench_median(double *values, unsigned count);


/** A line of the table, and of the JSON array. */
void gpu_bench_row(const char *what, size_t size, size_t count, unsigned blocks,
                   double us, double host_us, const char *checked);


/** A member of a row: a figure with three digits, a whole number. */
void gpu_bench_real(json_object *row, const char *name, double value);
void gpu_bench_number(json_object *row, const char *name, size_t value);

/**
 * The same with more.
 *
 * @param [in] text  A line under that of the table; "": none.
 * @param [in] more  Further members of the JSON object, which is released; NULL: none.
 */
void gpu_bench_row_more(const char *what, size_t size, size_t count, unsigned blocks,
                        double us, double host_us, const char *checked,
                        const char *text, json_object *more);


/** Random places for pieces of a size, each in a slot of its own. */
void gpu_bench_make_sets(size_t size, size_t slot, size_t dst_shift, size_t src_shift);


/** Write the list of a set, as the product does per transfer. */
void gpu_bench_fill_list(muct_xgmi_list_t *list, int set, bool is_reverse);


/** Whether the runtime offers a method. */
bool gpu_bench_can(gpu_method_t method);


/** Move a set and wait; returns the host's time in calls, microseconds. */
double gpu_bench_run(gpu_method_t method, int set);


/** Poison, run once and compare every byte of the pool; returns the row's result. */
const char *gpu_bench_check(gpu_method_t method, int set);


/** Check, then time, then print; prints a note when the method is not available. */
void gpu_bench_measure(const char *what, gpu_method_t method, size_t size);


/** Fill the source's pool again after a test that has overwritten it. */
void gpu_bench_restore_source(void);


/** The ways to move one small piece, and the time of each, in gpu_latency.c. */
void gpu_latency(void);


/** Part of gpu_limits that moves the lists of mori_kv_perf's models. */
void gpu_models(void);


/** Part of gpu_limits that changes a layout in one pass, and in two as vLLM does. */
void gpu_permute(void);


/** Part of gpu_limits with one GPU and all others, three or more in all. */
void gpu_fanout(void);

#endif
