/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/options_check.h"
#include "perf/workload/benchmarks.h"
#include "perf/base/error.h"
#include "perf/workload/geometry.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>


/* A node of KFD whose id is 0 is a processor. */
static bool perf_segment_is_gpu(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned id = 0;

    if (file == NULL) {
        return false;
    }
    if (fscanf(file, "%u", &id) != 1) {
        id = 0;
    }
    fclose(file);
    return id > 0;
}

perf_segment_t perf_options_memory_here(const char *root)
{
    perf_segment_t segment = PERF_SEGMENT_DRAM;
    char path[512];
    glob_t found;
    size_t i;

    snprintf(path, sizeof(path), "%s/dev/kfd", root);
    if (access(path, R_OK | W_OK) != 0) {
        return PERF_SEGMENT_DRAM;
    }
    snprintf(path, sizeof(path), "%s/sys/class/kfd/kfd/topology/nodes/*/gpu_id", root);
    if (glob(path, 0, NULL, &found) == 0) {
        for (i = 0; i < found.gl_pathc; ++i) {
            if (perf_segment_is_gpu(found.gl_pathv[i])) {
                segment = PERF_SEGMENT_VRAM;
            }
        }
        globfree(&found);
    }
    return segment;
}

/* Two processes take turns: one request at a time, prepared ahead. 1: refused */
static int perf_options_check_pingpong(const perf_options_t *options)
{
    if (options->op == PERF_OP_READ) {
        perf_error("--scheme pingpong with --op_type READ: a get needs no notification "
                   "to be known; expected WRITE, or --scheme pairwise");
    } else if (options->num_target_dev > 1) {
        perf_error("--num_target_dev is %u; expected 1 with --scheme pingpong",
                   options->num_target_dev);
    } else if (options->pipeline_depth > 1) {
        perf_error("--pipeline_depth is %u; expected 1 with --scheme pingpong",
                   options->pipeline_depth);
    } else if (options->is_recreate_xfer) {
        perf_error("--recreate_xfer with --scheme pingpong: requests are prepared "
                   "ahead of the time that is measured; expected one of the two");
    } else {
        return 0;
    }
    return 1;
}

/* Combinations of options that are required or make no sense. */
static int perf_options_check_together(const perf_options_t *options)
{
    if ((options->decode_tp != 0) && (options->model == NULL)) {
        perf_error("--decode_tp is %u without --model; expected both",
                   options->decode_tp);
    } else if (((options->layout != PERF_LAYOUT_DEFAULT) ||
                (options->decode_layout != PERF_LAYOUT_DEFAULT)) &&
               (options->model == NULL)) {
        perf_error("--layout and --decode_layout are of a model's blocks; expected "
                   "--model with them");
    } else if ((options->model != NULL) && (options->api != PERF_API_MKV)) {
        perf_error("--api %s only sweeps; expected mkv with --model %s",
                   (options->api == PERF_API_UCP) ? "ucp" : "ucp_sgl", options->model);
    } else if ((options->model != NULL) &&
               ((options->num_target_dev > 1) ||
                (options->scheme != PERF_SCHEME_PAIRWISE))) {
        perf_error("--model %s has one prefill and one decode; expected --scheme "
                   "pairwise and --num_target_dev 1",
                   options->model);
    } else if ((options->api == PERF_API_UCP_SGL) && (options->op == PERF_OP_READ)) {
        perf_error("--api ucp_sgl with --op_type READ: UCP has no scatter-gather get; "
                   "expected WRITE, or --api ucp");
    } else if ((options->api == PERF_API_MKV) &&
               (options->error_mode == PERF_ERROR_MODE_NONE)) {
        perf_error("--error_mode none with --api mkv: libmorikv's endpoints report a "
                   "peer's failure; expected peer, or --api ucp");
    } else if ((options->scheme == PERF_SCHEME_PAIRWISE) &&
               (options->num_target_dev > 1)) {
        perf_error("--num_target_dev is %u; expected 1 with --scheme pairwise",
                   options->num_target_dev);
    } else if ((options->scheme == PERF_SCHEME_PINGPONG) &&
               perf_options_check_pingpong(options)) {
        return -1;
    } else if (options->max_block_size < options->start_block_size) {
        perf_error("--max_block_size is %" PRIu64
                   "; expected at least --start_block_size, %" PRIu64,
                   options->max_block_size, options->start_block_size);
    } else if (options->max_batch_size < options->start_batch_size) {
        perf_error("--max_batch_size is %u; expected at least --start_batch_size, %u",
                   options->max_batch_size, options->start_batch_size);
    } else if (options->warmup_requests >= options->num_requests) {
        perf_error("--warmup_requests is %u; expected fewer than --requests, %u",
                   options->warmup_requests, options->num_requests);
    } else if ((options->role != PERF_ROLE_PARENT) != (options->peer != NULL) &&
               (options->fds == NULL)) {
        perf_error("--role and --peer belong together; expected both or none");
    } else if ((options->peer != NULL) && (options->num_target_dev > 1)) {
        perf_error("--num_target_dev is %u; expected 1 with --role and --peer",
                   options->num_target_dev);
    } else {
        return 0;
    }
    return -1;
}

/* Blocks of other lengths are compared token by token, which needs tokens that lie side
 * by side and lists that begin at the same one. */
static int perf_options_check_blocks(const perf_options_t *options,
                                     const perf_model_t *model)
{
    const uint32_t here = options->block_tokens, there = options->decode_block_tokens;
    const perf_component_t *component;
    unsigned i;

    if (here == there) {
        return 0;
    }
    if ((here % there != 0) && (there % here != 0)) {
        perf_error("--decode_block_size is %u; expected a multiple or a part of "
                   "--block_size, %u",
                   there, here);
        return -1;
    }
    for (i = 0; i < model->num_components; ++i) {
        component = &model->components[i];
        if ((component->keep != PERF_KEEP_STATE) && (component->block_tokens == 0) &&
            ((component->keep != PERF_KEEP_ALL) || (component->pad > 1))) {
            perf_error("--decode_block_size is %u and %s of %s %s; expected "
                       "--block_size, %u",
                       there, component->name, model->name,
                       (component->pad > 1) ? "has padded blocks" : "is a window",
                       here);
            return -1;
        }
        if ((((here < there) ? here : there) % component->compress) != 0) {
            perf_error(
                "--block_size is %u, --decode_block_size %u; expected multiples of "
                "the %u tokens that %s of %s merges into one",
                here, there, component->compress, component->name, model->name);
            return -1;
        }
    }
    return 0;
}

/* Fill in the options that the command line leaves to the model, and count the ranks
 * that meet. */
static int perf_options_take_model(perf_options_t *options)
{
    uint32_t more, fewer;
    perf_model_t *model;
    int ret;

    if (options->model == NULL) {
        return 0;
    }
    model = malloc(sizeof(*model));
    if (model == NULL) {
        perf_error("no memory for the model '%s'", options->model);
        return -1;
    }
    ret = perf_model_read(options->model, model);
    if (ret == 0) {
        options->tp = (options->tp != 0) ? options->tp : model->tp;
        options->block_tokens =
            (options->block_tokens != 0) ? options->block_tokens : model->block_tokens;
        options->decode_block_tokens = (options->decode_block_tokens != 0)
                                           ? options->decode_block_tokens
                                           : options->block_tokens;
        options->dtype =
            perf_dtype_name((options->dtype != NULL) ? options->dtype : model->dtype);
        ret = perf_options_check_blocks(options, model);
    }
    free(model);
    if ((ret != 0) || (options->dtype == NULL)) {
        return -1;
    }
    options->decode_tp = (options->decode_tp != 0) ? options->decode_tp : options->tp;
    options->layout =
        (options->layout != PERF_LAYOUT_DEFAULT) ? options->layout : PERF_LAYOUT_NHD;
    options->decode_layout = (options->decode_layout != PERF_LAYOUT_DEFAULT)
                                 ? options->decode_layout
                                 : options->layout;

    more = (options->tp > options->decode_tp) ? options->tp : options->decode_tp;
    fewer = options->tp + options->decode_tp - more;
    if (((more % fewer) != 0) || (more / fewer > PERF_MAX_LEAVES)) {
        perf_error(
            "--decode_tp is %u; expected a multiple or a part of --tp, %u, up to "
            "%u times",
            options->decode_tp, options->tp, PERF_MAX_LEAVES);
        return -1;
    }
    if ((more != fewer) && (options->peer != NULL)) {
        perf_error("--decode_tp is %u and --tp %u; expected equal ones with --role and "
                   "--peer",
                   options->decode_tp, options->tp);
        return -1;
    }
    options->num_target_dev = more / fewer;
    return 0;
}

bool perf_options_is_prefill(const perf_options_t *options, unsigned rank)
{
    return (rank == 0) != (options->decode_tp < options->tp);
}

static void perf_options_fill_in(perf_options_t *options)
{
    if (options->fds != NULL) {
        options->role = (options->rank == 0) ? PERF_ROLE_CENTER : PERF_ROLE_LEAF;
    }
    options->rank += ((options->fds == NULL) && (options->role == PERF_ROLE_LEAF));
    if (options->max_block_size == 0) {
        options->max_block_size = options->start_block_size;
    }
    if (options->max_batch_size == 0) {
        options->max_batch_size = options->start_batch_size;
    }
    if (options->target_dev == UINT32_MAX) {
        options->target_dev = (options->peer != NULL) ? 0 : options->initiator_dev + 1;
    }
}

int perf_options_complete(perf_options_t *options, const char *model, const char *sweep)
{
    perf_options_fill_in(options);
    if (perf_options_check_together(options) != 0) {
        return -1;
    }
    if ((options->benchmark != NULL) &&
        (perf_benchmark_find(options->benchmark) == NULL)) {
        return -1;
    }
    if ((options->model == NULL) && (model != NULL)) {
        perf_error("--%s without --model, which it belongs to; expected both", model);
        return -1;
    }
    if ((options->model != NULL) && (sweep != NULL)) {
        perf_error(
            "--%s with --model: only sweeps of block sizes have it; expected one "
            "of the two",
            sweep);
        return -1;
    }
    return perf_options_take_model(options);
}
