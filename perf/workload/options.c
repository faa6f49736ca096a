/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/options.h"
#include "perf/workload/error.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#define PERF_FIELD(_name) offsetof(perf_options_t, _name)
#define PERF_COUNT(_array) (sizeof(_array) / sizeof((_array)[0]))

typedef enum perf_value {
    PERF_VALUE_FLAG,
    PERF_VALUE_U32,
    PERF_VALUE_SIZE, /* 64 bits, with k, m, g */
    PERF_VALUE_TEXT,
    PERF_VALUE_NAME /* an enumeration; its int is the index in names */
} perf_value_t;

/* One row an option: the help is all the documentation it has. */
typedef struct perf_option {
    const char *name;
    perf_value_t value;
    size_t offset;
    uint64_t min;
    uint64_t max;
    const char *const *names;
    const char *help;
} perf_option_t;

static const char *const perf_op_names[] = {"WRITE", "READ", NULL};
static const char *const perf_api_names[] = {"mkv", "ucp", "ucp_sgl", NULL};
static const char *const perf_scheme_names[] = {"pairwise", "onetomany", "manytoone",
                                                "both",     "pingpong",  NULL};
static const char *const perf_location_names[] = {"none", "blockaligned", NULL};
static const char *const perf_segment_names[] = {"DRAM", "VRAM", NULL};
static const char *const perf_role_names[] = {"", "prefill", "decode", NULL};
static const char *const perf_post_names[] = {"all", "layer", NULL};

#define PERF_TIB (UINT64_C(1) << 40)

static const perf_option_t perf_option_rows[] = {
    {"model", PERF_VALUE_TEXT, PERF_FIELD(model), 0, 0, NULL,
     "move the KV cache of this model's requests: Llama-3-70B, Qwen3-235B,\n"
     "GPT-OSS-120B, DeepSeek-R1, Kimi-K2; without it, sweep block and batch sizes"},
    {"tp", PERF_VALUE_U32, PERF_FIELD(tp), 1, 1024, NULL,
     "tensor-parallel ranks; one rank's share is moved [8]"},
    {"block_size", PERF_VALUE_U32, PERF_FIELD(block_tokens), 1, 512, NULL,
     "tokens in a block [16]"},
    {"dtype", PERF_VALUE_TEXT, PERF_FIELD(dtype), 0, 0, NULL,
     "bf16, fp16, fp8 or fp32 [bf16]"},
    {"trace", PERF_VALUE_TEXT, PERF_FIELD(trace), 0, 0, NULL,
     "take requests from a Mooncake trace (JSON lines) [built-in generator]"},
    {"requests", PERF_VALUE_U32, PERF_FIELD(num_requests), 1, 1 << 24, NULL,
     "requests to move; 1 to 16777216 [32]"},
    {"warmup_requests", PERF_VALUE_U32, PERF_FIELD(warmup_requests), 0, 1 << 24, NULL,
     "requests among these that come first and are not measured: the first one maps\n"
     "the peer's memory [0]"},
    {"input_length", PERF_VALUE_U32, PERF_FIELD(input_length), 1, 4 << 20, NULL,
     "generator: mean tokens of a prompt [2048]"},
    {"output_length", PERF_VALUE_U32, PERF_FIELD(output_length), 1, 4 << 20, NULL,
     "generator: mean tokens of an answer [256]"},
    {"exact_length", PERF_VALUE_FLAG, PERF_FIELD(is_exact_length), 0, 0, NULL,
     "generator: these lengths for every request, instead of a quarter to four times"},
    {"num_blocks", PERF_VALUE_U32, PERF_FIELD(num_blocks), 1, 1 << 30, NULL,
     "blocks in each process' cache [as total_buffer_size holds]"},
    {"post", PERF_VALUE_NAME, PERF_FIELD(is_per_layer), 0, 0, perf_post_names,
     "post a request at once (all) or layer by layer (layer) [all]"},
    {"layer_us", PERF_VALUE_U32, PERF_FIELD(layer_us), 0, 1000000, NULL,
     "with --post layer: a layer's blocks are ready this many microseconds after\n"
     "the layer before [0]"},
    {"op_type", PERF_VALUE_NAME, PERF_FIELD(op), 0, 0, perf_op_names,
     "WRITE: prefill (initiator) puts; READ: decode (initiator) gets [WRITE]"},
    {"api", PERF_VALUE_NAME, PERF_FIELD(api), 0, 0, perf_api_names,
     "mkv: libmorikv; ucp: one UCP call a block; ucp_sgl: one UCP call a batch, WRITE\n"
     "only; the last two only sweep [mkv]"},
    {"start_block_size", PERF_VALUE_SIZE, PERF_FIELD(start_block_size), 1, PERF_TIB,
     NULL, "sweep: smallest block, bytes [4k]"},
    {"max_block_size", PERF_VALUE_SIZE, PERF_FIELD(max_block_size), 1, PERF_TIB, NULL,
     "sweep: largest block, bytes; doubled from the smallest on [start_block_size]"},
    {"start_batch_size", PERF_VALUE_U32, PERF_FIELD(start_batch_size), 1, 1 << 30, NULL,
     "sweep: fewest blocks in a request [1]"},
    {"max_batch_size", PERF_VALUE_U32, PERF_FIELD(max_batch_size), 1, 1 << 30, NULL,
     "sweep: most blocks; doubled from the fewest on [start_batch_size]"},
    {"num_iter", PERF_VALUE_U32, PERF_FIELD(num_iter), 1, 1 << 30, NULL,
     "sweep: requests measured [1000]"},
    {"warmup_iter", PERF_VALUE_U32, PERF_FIELD(warmup_iter), 0, 1 << 30, NULL,
     "sweep: requests before those [100]"},
    {"large_blk_iter_ftr", PERF_VALUE_U32, PERF_FIELD(large_blk_iter_ftr), 1, 1 << 20,
     NULL, "sweep: divide both by this above 1 MiB a request [16]"},
    {"pipeline_depth", PERF_VALUE_U32, PERF_FIELD(pipeline_depth), 1, 1024, NULL,
     "requests in flight [1]"},
    {"recreate_xfer", PERF_VALUE_FLAG, PERF_FIELD(is_recreate_xfer), 0, 0, NULL,
     "sweep: prepare every request anew instead of reusing the first's plan"},
    {"randomize_location_mode", PERF_VALUE_NAME, PERF_FIELD(location), 0, 0,
     perf_location_names,
     "sweep: blocks back to back (none) or scattered over the buffer on both sides\n"
     "(blockaligned) [blockaligned]"},
    {"scheme", PERF_VALUE_NAME, PERF_FIELD(scheme), 0, 0, perf_scheme_names,
     "sweep: who starts: initiator to one target (pairwise) or all (onetomany), all\n"
     "targets (manytoone), everybody (both); pingpong: the two take turns, each puts\n"
     "and notifies the other, and Tx is half a round trip [pairwise]"},
    {"num_target_dev", PERF_VALUE_U32, PERF_FIELD(num_target_dev), 1, PERF_MAX_LEAVES,
     NULL, "sweep: target processes, a device each [1]"},
    {"total_buffer_size", PERF_VALUE_SIZE, PERF_FIELD(total_buffer_size), 1, PERF_TIB,
     NULL, "memory of each process, bytes [1g]"},
    {"initiator_seg_type", PERF_VALUE_NAME, PERF_FIELD(initiator_segment), 0, 0,
     perf_segment_names, "memory of prefill: DRAM or VRAM (GPU) [DRAM]"},
    {"target_seg_type", PERF_VALUE_NAME, PERF_FIELD(target_segment), 0, 0,
     perf_segment_names, "memory of decode [DRAM]"},
    {"initiator_dev", PERF_VALUE_U32, PERF_FIELD(initiator_dev), 0, 255, NULL,
     "GPU of prefill, the only one it sees [0]"},
    {"target_dev", PERF_VALUE_U32, PERF_FIELD(target_dev), 0, 255, NULL,
     "GPU of the first target, the only one it sees; others take the next ones [1]"},
    {"check_consistency", PERF_VALUE_FLAG, PERF_FIELD(is_check), 0, 0, NULL,
     "compare every byte that was, or should not have been, written"},
    {"seed", PERF_VALUE_SIZE, PERF_FIELD(seed), 0, UINT64_MAX, NULL,
     "of requests and block tables [1]"},
    {"timeout", PERF_VALUE_U32, PERF_FIELD(timeout_s), 1, 86400, NULL,
     "longest silence of the other process, seconds [300]"},
    {"start_lock", PERF_VALUE_TEXT, PERF_FIELD(start_lock), 0, 0, NULL,
     "when all is set up, wait until nobody holds an exclusive flock(2) on this file:\n"
     "runs that one script starts begin to move together"},
    {"json", PERF_VALUE_TEXT, PERF_FIELD(json), 0, 0, NULL, "also write results here"},
    {"hip_library", PERF_VALUE_TEXT, PERF_FIELD(hip_library), 0, 0, NULL,
     "HIP runtime to open for VRAM [libamdhip64.so of any version]"},
    {"role", PERF_VALUE_NAME, PERF_FIELD(role), 0, 0, perf_role_names,
     "run only this process: prefill or decode; needs --peer"},
    {"peer", PERF_VALUE_TEXT, PERF_FIELD(peer), 0, 0, NULL,
     "how the two find each other: decode listens, prefill connects; HOST:PORT "
     "(decode:\n"
     "also :PORT), or a path with a slash for a Unix socket. Data takes UCX's ways"},
    {"_fds", PERF_VALUE_TEXT, PERF_FIELD(fds), 0, 0, NULL, NULL},
    {"_rank", PERF_VALUE_U32, PERF_FIELD(rank), 0, PERF_MAX_LEAVES, NULL, NULL},
};


static void perf_options_default(perf_options_t *options)
{
    memset(options, 0, sizeof(*options));
    options->tp = 8;
    options->block_tokens = 16;
    options->dtype = "bf16";
    options->num_requests = 32;
    options->input_length = 2048;
    options->output_length = 256;
    options->start_block_size = 4096;
    options->start_batch_size = 1;
    options->num_iter = 1000;
    options->warmup_iter = 100;
    options->large_blk_iter_ftr = 16;
    options->pipeline_depth = 1;
    options->location = PERF_LOCATION_BLOCKALIGNED;
    options->num_target_dev = 1;
    options->target_dev = UINT32_MAX; /* 1, or 0 on a host of its own */
    options->total_buffer_size = UINT64_C(1) << 30;
    options->seed = 1;
    options->timeout_s = 300;
}

static void perf_options_help(void)
{
    const perf_option_t *row;
    const char *c;

    printf(
        "Usage: mori_kv_perf [--OPTION VALUE]...\n\n"
        "Move the KV cache of a model's requests from a prefill to a decode process,"
        "\nor sweep block and batch sizes between two. One command starts both.\n\n");
    for (row = perf_option_rows; row < perf_option_rows + PERF_COUNT(perf_option_rows);
         ++row) {
        if (row->help == NULL) {
            continue;
        }
        printf("  --%-24s", row->name);
        for (c = row->help; *c != '\0'; ++c) {
            putchar(*c);
            if (*c == '\n') {
                printf("%28s", "");
            }
        }
        putchar('\n');
    }
    printf("  --%-24s%s\n  --%-24s%s\n  --%-24s%s\n", "config",
           "the variables MORIKV_* of libmorikv, with their defaults", "help",
           "this text", "version", "version of this program");
}

static int perf_option_number(const perf_option_t *row, const char *text,
                              uint64_t *number_p)
{
    static const char units[] = "kmgt";
    const char *unit = NULL;
    char *end;
    uint64_t number;
    unsigned shift = 0;

    errno = 0;
    number = strtoull(text, &end, 10);
    if ((row->value == PERF_VALUE_SIZE) && (*end != '\0')) {
        unit = strchr(units, tolower((unsigned char)*end));
    }
    if (unit != NULL) {
        shift = 10 * (unsigned)(unit - units + 1);
        ++end;
    }

    if (!isdigit((unsigned char)text[0]) || (errno != 0) || (*end != '\0') ||
        (number > (row->max >> shift)) || ((number << shift) < row->min)) {
        perf_error("--%s is '%s'; expected a whole number from %" PRIu64 " to %" PRIu64
                   "%s",
                   row->name, text, row->min, row->max,
                   (row->value == PERF_VALUE_SIZE) ? ", k, m, g or t may follow" : "");
        return -1;
    }

    *number_p = number << shift;
    return 0;
}

static int perf_option_name(const perf_option_t *row, const char *text, int *index_p)
{
    char known[128] = "";
    size_t used = 0;
    int i;

    for (i = 0; row->names[i] != NULL; ++i) {
        if ((text[0] != '\0') && (strcasecmp(row->names[i], text) == 0)) {
            *index_p = i;
            return 0;
        }
        if (row->names[i][0] != '\0') {
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                     (used > 0) ? ", " : "", row->names[i]);
        }
    }

    perf_error("--%s is '%s'; expected one of %s", row->name, text, known);
    return -1;
}

static int perf_option_set(const perf_option_t *row, const char *text,
                           perf_options_t *options)
{
    void *field = (char *)options + row->offset;
    uint64_t number;

    switch (row->value) {
    case PERF_VALUE_FLAG:
        *(int *)field = 1;
        return 0;
    case PERF_VALUE_TEXT:
        *(const char **)field = text;
        return 0;
    case PERF_VALUE_NAME:
        return perf_option_name(row, text, field);
    case PERF_VALUE_U32:
        if (perf_option_number(row, text, &number) != 0) {
            return -1;
        }
        *(uint32_t *)field = (uint32_t)number;
        return 0;
    default:
        return perf_option_number(row, text, field);
    }
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

/* What only makes sense, or makes no sense, together. */
static int perf_options_check_together(const perf_options_t *options)
{
    if ((options->model != NULL) && (options->api != PERF_API_MKV)) {
        perf_error("--api %s only sweeps; expected mkv with --model %s",
                   perf_api_name(options->api), options->model);
    } else if ((options->model != NULL) &&
               ((options->num_target_dev > 1) ||
                (options->scheme != PERF_SCHEME_PAIRWISE))) {
        perf_error("--model %s has one prefill and one decode; expected --scheme "
                   "pairwise and --num_target_dev 1",
                   options->model);
    } else if ((options->api == PERF_API_UCP_SGL) && (options->op == PERF_OP_READ)) {
        perf_error("--api ucp_sgl with --op_type READ: UCP has no scatter-gather get; "
                   "expected WRITE, or --api ucp");
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
    } else if ((options->layer_us != 0) && !options->is_per_layer) {
        perf_error("--layer_us is %u; expected 0, or --post layer", options->layer_us);
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

int perf_options_parse(int argc, char **argv, perf_options_t *options)
{
    struct option table[PERF_COUNT(perf_option_rows) + 3] = {0};
    unsigned i;
    int c;

    for (i = 0; i < PERF_COUNT(perf_option_rows); ++i) {
        table[i].name = perf_option_rows[i].name;
        table[i].has_arg = (perf_option_rows[i].value == PERF_VALUE_FLAG)
                               ? no_argument
                               : required_argument;
        table[i].val = (int)i;
    }
    table[i] = (struct option){"help", no_argument, NULL, (int)i};
    table[i + 1] = (struct option){"version", no_argument, NULL, (int)i + 1};

    perf_options_default(options);
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, ":", table, NULL)) != -1) {
        if ((c == '?') || (c == ':')) {
            perf_error("%s: '%s'; see --help",
                       (c == ':') ? "there is no value for the last option"
                                  : "not an option, or short for several",
                       argv[optind - 1]);
            return -1;
        }
        if ((unsigned)c == i) {
            perf_options_help();
            return 0;
        }
        if ((unsigned)c == i + 1) {
            printf("mori_kv_perf %s\n", PACKAGE_VERSION);
            return 0;
        }
        if (perf_option_set(&perf_option_rows[c], optarg, options) != 0) {
            return -1;
        }
    }
    if (optind < argc) {
        perf_error("'%s' is not an option; expected --OPTION VALUE, see --help",
                   argv[optind]);
        return -1;
    }

    perf_options_fill_in(options);
    return (perf_options_check_together(options) == 0) ? 1 : -1;
}

int perf_options_agreement(const perf_options_t *options, char *text, size_t size)
{
    return snprintf(
        text, size,
        "version %s, --model %s --tp %u --block_size %u --dtype %s --requests %u "
        "--warmup_requests %u "
        "--trace %s --input_length %u --output_length %u "
        "--exact_length %d --op_type %s --api %s "
        "--pipeline_depth %u --seed %" PRIu64 " --start_block_size %" PRIu64
        " --max_block_size %" PRIu64 " --start_batch_size %u --max_batch_size %u "
        "--num_iter %u --warmup_iter %u --large_blk_iter_ftr %u --scheme %s "
        "--num_target_dev %u --randomize_location_mode %s --total_buffer_size %" PRIu64
        " --check_consistency %d --recreate_xfer %d",
        PACKAGE_VERSION, (options->model != NULL) ? options->model : "(none)",
        options->tp, options->block_tokens, options->dtype, options->num_requests,
        options->warmup_requests, (options->trace != NULL) ? "yes" : "no",
        options->input_length, options->output_length, options->is_exact_length,
        perf_op_name(options->op), perf_api_name(options->api), options->pipeline_depth,
        options->seed, options->start_block_size, options->max_block_size,
        options->start_batch_size, options->max_batch_size, options->num_iter,
        options->warmup_iter, options->large_blk_iter_ftr,
        perf_scheme_name(options->scheme), options->num_target_dev,
        perf_location_names[options->location], options->total_buffer_size,
        options->is_check, options->is_recreate_xfer);
}

const char *perf_op_name(perf_op_t op)
{
    return perf_op_names[op];
}

const char *perf_api_name(perf_api_t api)
{
    return perf_api_names[api];
}

const char *perf_scheme_name(perf_scheme_t scheme)
{
    return perf_scheme_names[scheme];
}

const char *perf_segment_name(perf_segment_t segment)
{
    return perf_segment_names[segment];
}
