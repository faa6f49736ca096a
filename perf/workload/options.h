/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

/**
 * @file
 * Command line of mori_kv_perf. Options with nixlbench's names have the same
 * meaning.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


enum { PERF_MAX_LEAVES = 15 };

/** Which process of a run this is. */
typedef enum perf_role {
    PERF_ROLE_PARENT, /**< Starts all others; touches neither UCX nor a GPU */
    PERF_ROLE_CENTER, /**< Prefill; sweeps: the side that all others connect to */
    PERF_ROLE_LEAF    /**< Decode; sweeps: one of the others */
} perf_role_t;

typedef enum perf_op { PERF_OP_WRITE, PERF_OP_READ } perf_op_t;

typedef enum perf_api {
    PERF_API_MKV,    /**< libmorikv */
    PERF_API_UCP,    /**< ucp_put_nbx()/ucp_get_nbx() for each block */
    PERF_API_UCP_SGL /**< A single ucp_put_nbx() with a scatter-gather list */
} perf_api_t;

/** Side that starts operations in a sweep. */
typedef enum perf_scheme {
    PERF_SCHEME_PAIRWISE,  /**< Center to its one leaf */
    PERF_SCHEME_ONETOMANY, /**< Center to all leaves */
    PERF_SCHEME_MANYTOONE, /**< All leaves to the center */
    PERF_SCHEME_BOTH,      /**< Center to all leaves and all leaves to the center */
    PERF_SCHEME_PINGPONG /**< Center and its one leaf take turns, with notifications */
} perf_scheme_t;

typedef enum perf_location {
    PERF_LOCATION_NONE,        /**< Blocks back to back */
    PERF_LOCATION_BLOCKALIGNED /**< A seeded permutation of the whole buffer */
} perf_location_t;

typedef enum perf_post {
    PERF_POST_ALL,  /**< A request at once */
    PERF_POST_LAYER /**< Layer by layer */
} perf_post_t;

typedef enum perf_segment {
    PERF_SEGMENT_DRAM,
    PERF_SEGMENT_VRAM,
    PERF_SEGMENT_AUTO, /**< Chosen later, see perf_options_memory_here() */
    PERF_SEGMENT_SHM   /**< DRAM that other processes can map */
} perf_segment_t;

/** Memory type of GPU memory for UCX. */
typedef enum perf_gpu_type { PERF_GPU_TYPE_ROCM, PERF_GPU_TYPE_CUDA } perf_gpu_type_t;

/** Whether UCP's endpoints report a failed peer, as those of NIXL and libmorikv do. */
typedef enum perf_error_mode {
    PERF_ERROR_MODE_PEER,
    PERF_ERROR_MODE_NONE
} perf_error_mode_t;


/** Order of heads and tokens in a block: tokens outside, or heads. */
typedef enum perf_layout {
    PERF_LAYOUT_DEFAULT,
    PERF_LAYOUT_NHD,
    PERF_LAYOUT_HND
} perf_layout_t;


typedef struct perf_options {
    /* what runs */
    perf_op_t op;
    perf_api_t api;
    bool is_check;
    uint32_t pipeline_depth;
    uint64_t seed;
    uint64_t total_buffer_size; /**< Bytes of each process */
    uint32_t timeout_s;         /**< Longest silence of another process */
    /* requests of a model; sweep if model is NULL */
    const char *model;
    uint32_t tp;          /**< Ranks of prefill; of both sides unless they differ */
    uint32_t decode_tp;   /**< Ranks of decode */
    perf_layout_t layout; /**< Layout in prefill; in both, unless they differ */
    perf_layout_t decode_layout;
    uint32_t block_tokens; /**< Tokens of prefill's blocks; this, tp and dtype default
                              to the model's */
    uint32_t decode_block_tokens;
    const char *dtype;
    const char *trace; /**< NULL: built-in generator */
    uint32_t num_requests;
    uint32_t warmup_requests; /**< Requests of these that are not measured */
    uint32_t input_length;
    uint32_t output_length;
    bool is_exact_length;
    uint32_t num_blocks; /**< 0: as many as total_buffer_size holds */
    perf_post_t post;
    uint32_t layer_us; /**< Time the model takes for a layer, microseconds */
    /* sweep */
    const char *benchmark; /**< Name of a table that replaces the sizes, or NULL */
    perf_scheme_t scheme;
    perf_location_t location;
    uint64_t start_block_size, max_block_size;
    uint32_t start_batch_size, max_batch_size;
    uint32_t num_iter, warmup_iter, large_blk_iter_ftr;
    bool is_recreate_xfer;
    perf_error_mode_t error_mode; /**< Applies to api UCP and UCP_SGL */
    /* where */
    perf_segment_t initiator_segment, target_segment;
    bool is_memory_chosen; /**< The command line names no memory for either side */
    perf_gpu_type_t gpu_type;
    uint32_t initiator_dev, target_dev;
    uint32_t num_target_dev; /**< Number of leaves */
    perf_role_t role;
    const char *peer;       /**< Address of the channel between two hosts, or NULL */
    const char *fds;        /**< Set by the parent: "5" or "5,7,9" */
    uint32_t rank;          /**< Set by the parent: 0 is the center */
    const char *start_lock; /**< File whose lock holds the start back, or NULL */
    /* output */
    const char *json;
    bool is_wide;
    bool is_progress;
    const char *groups[8]; /**< First option of each group of the help that was given */
    const char *hip_library;
} perf_options_t;


/**
 * Read the command line.
 *
 * @param [out] options  Strings point into argv.
 *
 * @return 1: continue; 0: --help or --version was printed; -1 after @ref perf_error
 * named the option, its value and the expectation.
 */
int perf_options_parse(int argc, char **argv, perf_options_t *options);

/**
 * Write all options that both sides must have in common, for comparison with the other
 * side: the version, then a line for each option, "--NAME VALUE".
 *
 * @return Bytes that the text needs, like snprintf().
 */
int perf_options_agreement(const perf_options_t *options, char *text, size_t size);

/**
 * Find the first difference between two agreements, to print it.
 *
 * @param [in]  here, there  Agreements of the two sides.
 *
 * @param [out] text "--seed is 1 here and 2 there".
 *
 * @return Whether they differ.
 */
bool perf_options_differ(const char *here, const char *there, char *text, size_t size);

/** Whether ranks, layout or tokens of blocks differ, so that a block is cut. */
static inline bool perf_options_is_cut(const perf_options_t *options)
{
    return (options->tp != options->decode_tp) ||
           (options->layout != options->decode_layout) ||
           (options->block_tokens != options->decode_block_tokens);
}


/**
 * Whether a process is of prefill's side. The center is, unless prefill has more ranks:
 * then decode's one rank is the center and prefill's are the leaves.
 */
bool perf_options_is_prefill(const perf_options_t *options, unsigned rank);

/** "WRITE", "mkv", ...: as the command line spells it. */
const char *perf_op_name(perf_op_t op);
const char *perf_api_name(perf_api_t api);
const char *perf_scheme_name(perf_scheme_t scheme);
const char *perf_segment_name(perf_segment_t segment);

#endif
