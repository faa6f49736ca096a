/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/options.h"
#include "perf/base/error.h"
#include "perf/workload/options_check.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
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

typedef enum perf_group {
    PERF_GROUP_BOTH = 1,
    PERF_GROUP_MODEL,
    PERF_GROUP_SWEEP,
    PERF_GROUP_WHERE,
    PERF_GROUP_HIDDEN /* given by the parent */
} perf_group_t;

static const char *const perf_group_names[] = {
    [PERF_GROUP_BOTH] = "Data to move, and what is reported:",
    [PERF_GROUP_MODEL] = "Requests of a model:",
    [PERF_GROUP_SWEEP] = "Sweeps of block and batch sizes, without --model:",
    [PERF_GROUP_WHERE] = "Where it is moved:",
};

/* One row per option; its help text is its only documentation. */
typedef struct perf_option {
    const char *name;
    const char *arg; /* as the help shows it; NULL: none */
    perf_group_t group;
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
static const char *const perf_segment_names[] = {"DRAM", "VRAM", "auto", "SHM", NULL};
static const char *const perf_gpu_type_names[] = {"rocm", "cuda", NULL};
static const char *const perf_error_mode_names[] = {"peer", "none", NULL};
static const char *const perf_role_names[] = {"", "prefill", "decode", NULL};
static const char *const perf_layout_names[] = {"", "nhd", "hnd", NULL};
static const char *const perf_post_names[] = {"all", "layer", NULL};

#define PERF_TIB (UINT64_C(1) << 40)

static const perf_option_t perf_option_rows[] = {
    {"model", "NAME", PERF_GROUP_MODEL, PERF_VALUE_TEXT, PERF_FIELD(model), 0, 0, NULL,
     "move the KV cache of this model's requests: one that --list_models prints, or the path of a file, with a slash; without it, sweep block and batch sizes"},
    {"tp", "N", PERF_GROUP_MODEL, PERF_VALUE_U32, PERF_FIELD(tp), 1, 1024, NULL,
     "tensor-parallel ranks; one rank's share is moved [the model's]"},
    {"decode_tp", "N", PERF_GROUP_MODEL, PERF_VALUE_U32, PERF_FIELD(decode_tp), 1, 1024,
     NULL,
     "ranks of decode, where they are not as many as prefill's: a multiple or a part of --tp. One rank of the side with fewer runs with all ranks that it shares data with, a process each [tp]"},
    {"layout", "nhd|hnd", PERF_GROUP_MODEL, PERF_VALUE_NAME, PERF_FIELD(layout), 0, 0,
     perf_layout_names, "order in a block: tokens outside, or heads [nhd]"},
    {"decode_layout", "nhd|hnd", PERF_GROUP_MODEL, PERF_VALUE_NAME,
     PERF_FIELD(decode_layout), 0, 0, perf_layout_names,
     "order in decode's blocks, where it is another [layout]"},
    {"block_size", "N", PERF_GROUP_MODEL, PERF_VALUE_U32, PERF_FIELD(block_tokens), 1,
     8192, NULL, "tokens in a block [the model's]"},
    {"decode_block_size", "N", PERF_GROUP_MODEL, PERF_VALUE_U32,
     PERF_FIELD(decode_block_tokens), 1, 8192, NULL,
     "tokens in decode's blocks, where they are another number: a multiple or a part of --block_size [block_size]"},
    {"dtype", "NAME", PERF_GROUP_MODEL, PERF_VALUE_TEXT, PERF_FIELD(dtype), 0, 0, NULL,
     "bf16, fp16, fp8 or fp32 [the model's]"},
    {"trace", "FILE", PERF_GROUP_MODEL, PERF_VALUE_TEXT, PERF_FIELD(trace), 0, 0, NULL,
     "take requests from a Mooncake trace (JSON lines) [built-in generator]"},
    {"requests", "N", PERF_GROUP_MODEL, PERF_VALUE_U32, PERF_FIELD(num_requests), 1,
     1 << 24, NULL, "requests to move [32]"},
    {"warmup_requests", "N", PERF_GROUP_MODEL, PERF_VALUE_U32,
     PERF_FIELD(warmup_requests), 0, 1 << 24, NULL,
     "requests among these that come first and are not measured: the first one maps the peer's memory [0]"},
    {"input_length", "N", PERF_GROUP_MODEL, PERF_VALUE_U32, PERF_FIELD(input_length), 1,
     4 << 20, NULL, "generator: mean tokens of a prompt [2048]"},
    {"output_length", "N", PERF_GROUP_MODEL, PERF_VALUE_U32, PERF_FIELD(output_length),
     1, 4 << 20, NULL, "generator: mean tokens of an answer [256]"},
    {"exact_length", NULL, PERF_GROUP_MODEL, PERF_VALUE_FLAG,
     PERF_FIELD(is_exact_length), 0, 0, NULL,
     "generator: these lengths for every request, instead of a quarter to four times"},
    {"num_blocks", "N", PERF_GROUP_MODEL, PERF_VALUE_U32, PERF_FIELD(num_blocks), 1,
     1 << 30, NULL, "blocks in each process' cache [as total_buffer_size holds]"},
    {"post", "all|layer", PERF_GROUP_MODEL, PERF_VALUE_NAME, PERF_FIELD(post), 0, 0,
     perf_post_names, "post a request at once (all) or layer by layer (layer) [all]"},
    {"layer_us", "USEC", PERF_GROUP_MODEL, PERF_VALUE_U32, PERF_FIELD(layer_us), 0,
     1000000, NULL,
     "time to compute a layer, microseconds; its blocks, or with --post all those of all layers, move then [0]"},
    {"benchmark", "NAME", PERF_GROUP_SWEEP, PERF_VALUE_TEXT, PERF_FIELD(benchmark), 0,
     0, NULL,
     "blocks and batches that others have published figures for, and their table: collectivex, mori, lmcache, vllm-d2d, paged-writes; instead of the four sizes below [none]"},
    {"start_block_size", "SIZE", PERF_GROUP_SWEEP, PERF_VALUE_SIZE,
     PERF_FIELD(start_block_size), 1, PERF_TIB, NULL, "smallest block, bytes [4k]"},
    {"max_block_size", "SIZE", PERF_GROUP_SWEEP, PERF_VALUE_SIZE,
     PERF_FIELD(max_block_size), 1, PERF_TIB, NULL,
     "largest block, bytes; doubled from the smallest on [start_block_size]"},
    {"start_batch_size", "N", PERF_GROUP_SWEEP, PERF_VALUE_U32,
     PERF_FIELD(start_batch_size), 1, 1 << 30, NULL, "fewest blocks in a request [1]"},
    {"max_batch_size", "N", PERF_GROUP_SWEEP, PERF_VALUE_U32,
     PERF_FIELD(max_batch_size), 1, 1 << 30, NULL,
     "most blocks; doubled from the fewest on [start_batch_size]"},
    {"num_iter", "N", PERF_GROUP_SWEEP, PERF_VALUE_U32, PERF_FIELD(num_iter), 1,
     1 << 30, NULL, "requests measured [1000]"},
    {"warmup_iter", "N", PERF_GROUP_SWEEP, PERF_VALUE_U32, PERF_FIELD(warmup_iter), 0,
     1 << 30, NULL, "requests before those [100]"},
    {"large_blk_iter_ftr", "N", PERF_GROUP_SWEEP, PERF_VALUE_U32,
     PERF_FIELD(large_blk_iter_ftr), 1, 1 << 20, NULL,
     "divide both by this above 1 MiB a request [16]"},
    {"recreate_xfer", NULL, PERF_GROUP_SWEEP, PERF_VALUE_FLAG,
     PERF_FIELD(is_recreate_xfer), 0, 0, NULL,
     "prepare every request anew instead of reusing the first's plan"},
    {"error_mode", "peer|none", PERF_GROUP_SWEEP, PERF_VALUE_NAME,
     PERF_FIELD(error_mode), 0, 0, perf_error_mode_names,
     "with --api ucp and ucp_sgl: endpoints that report a peer's failure (peer), as NIXL's, or do not (none), as MPI's; UCX lanes without error reports need none [peer]"},
    {"randomize_location_mode", "none|blockaligned", PERF_GROUP_SWEEP, PERF_VALUE_NAME,
     PERF_FIELD(location), 0, 0, perf_location_names,
     "blocks back to back (none) or scattered over the buffer on both sides (blockaligned) [blockaligned]"},
    {"scheme", "NAME", PERF_GROUP_SWEEP, PERF_VALUE_NAME, PERF_FIELD(scheme), 0, 0,
     perf_scheme_names,
     "who starts: initiator to one target (pairwise) or all (onetomany), all targets (manytoone), everybody (both); pingpong: the two take turns, each puts and notifies the other, and Tx is half a round trip [pairwise]"},
    {"num_target_dev", "N", PERF_GROUP_SWEEP, PERF_VALUE_U32,
     PERF_FIELD(num_target_dev), 1, PERF_MAX_LEAVES, NULL,
     "target processes, a device each [1]"},
    {"op_type", "WRITE|READ", PERF_GROUP_BOTH, PERF_VALUE_NAME, PERF_FIELD(op), 0, 0,
     perf_op_names,
     "WRITE: prefill (initiator) puts; READ: decode (initiator) gets [WRITE]"},
    {"api", "mkv|ucp|ucp_sgl", PERF_GROUP_BOTH, PERF_VALUE_NAME, PERF_FIELD(api), 0, 0,
     perf_api_names,
     "mkv: libmorikv; ucp: one UCP call a block; ucp_sgl: one UCP call a batch, WRITE only; the last two only sweep [mkv]"},
    {"pipeline_depth", "N", PERF_GROUP_BOTH, PERF_VALUE_U32, PERF_FIELD(pipeline_depth),
     1, 1024, NULL, "requests in flight [1]"},
    {"total_buffer_size", "SIZE", PERF_GROUP_BOTH, PERF_VALUE_SIZE,
     PERF_FIELD(total_buffer_size), 1, PERF_TIB, NULL,
     "memory of each process, bytes [1g]"},
    {"check_consistency", NULL, PERF_GROUP_BOTH, PERF_VALUE_FLAG, PERF_FIELD(is_check),
     0, 0, NULL,
     "compare every byte that was, or should not have been, written: in a sweep after the timed transfers of a size, and after one more with new bytes"},
    {"seed", "N", PERF_GROUP_BOTH, PERF_VALUE_SIZE, PERF_FIELD(seed), 0, UINT64_MAX,
     NULL, "of requests and block tables [1]"},
    {"json", "FILE", PERF_GROUP_BOTH, PERF_VALUE_TEXT, PERF_FIELD(json), 0, 0, NULL,
     "also write all columns and the settings to this file, as JSON, which mori_kv_plot draws [none]"},
    {"wide", NULL, PERF_GROUP_BOTH, PERF_VALUE_FLAG, PERF_FIELD(is_wide), 0, 0, NULL,
     "print all columns, up to 200 characters a line, instead of those that fit 100"},
    {"progress", NULL, PERF_GROUP_BOTH, PERF_VALUE_FLAG, PERF_FIELD(is_progress), 0, 0,
     NULL,
     "print rate and time left each second on standard error, also without a terminal"},
    {"initiator_seg_type", "DRAM|SHM|VRAM|auto", PERF_GROUP_WHERE, PERF_VALUE_NAME,
     PERF_FIELD(initiator_segment), 0, 0, perf_segment_names,
     "memory of prefill: DRAM, SHM (DRAM that others may map), VRAM (GPU), or auto: VRAM where an AMD GPU is [auto]"},
    {"target_seg_type", "DRAM|SHM|VRAM|auto", PERF_GROUP_WHERE, PERF_VALUE_NAME,
     PERF_FIELD(target_segment), 0, 0, perf_segment_names, "memory of decode [auto]"},
    {"memory_type", "rocm|cuda", PERF_GROUP_WHERE, PERF_VALUE_NAME,
     PERF_FIELD(gpu_type), 0, 0, perf_gpu_type_names,
     "UCX memory type of VRAM: rocm, or cuda for UCX's own lanes where NVIDIA's GPUs stand in [rocm]"},
    {"initiator_dev", "N", PERF_GROUP_WHERE, PERF_VALUE_U32, PERF_FIELD(initiator_dev),
     0, 255, NULL, "GPU of prefill, the only one it sees [0]"},
    {"target_dev", "N", PERF_GROUP_WHERE, PERF_VALUE_U32, PERF_FIELD(target_dev), 0,
     255, NULL,
     "GPU of the first target, the only one it sees; others take the next ones [1]"},
    {"timeout", "SECONDS", PERF_GROUP_WHERE, PERF_VALUE_U32, PERF_FIELD(timeout_s), 1,
     86400, NULL, "longest silence of the other process, seconds [300]"},
    {"start_lock", "FILE", PERF_GROUP_WHERE, PERF_VALUE_TEXT, PERF_FIELD(start_lock), 0,
     0, NULL,
     "when all is set up, wait until no process holds an exclusive flock(2) on this file: runs that one script starts begin to move together"},
    {"hip_library", "FILE", PERF_GROUP_WHERE, PERF_VALUE_TEXT, PERF_FIELD(hip_library),
     0, 0, NULL, "HIP runtime to open for VRAM [libamdhip64.so of any version]"},
    {"role", "prefill|decode", PERF_GROUP_WHERE, PERF_VALUE_NAME, PERF_FIELD(role), 0,
     0, perf_role_names, "run only this process: prefill or decode; needs --peer"},
    {"peer", "PLACE", PERF_GROUP_WHERE, PERF_VALUE_TEXT, PERF_FIELD(peer), 0, 0, NULL,
     "how the two find each other: decode listens, prefill connects; HOST:PORT (decode: also :PORT), or a path with a slash for a Unix socket. Data takes UCX's ways"},
    {"_fds", "TEXT", PERF_GROUP_HIDDEN, PERF_VALUE_TEXT, PERF_FIELD(fds), 0, 0, NULL,
     NULL},
    {"_rank", "N", PERF_GROUP_HIDDEN, PERF_VALUE_U32, PERF_FIELD(rank), 0,
     PERF_MAX_LEAVES, NULL, NULL},
};


/* Keys of argp beside letters. */
enum { PERF_KEY_USAGE = 256, PERF_KEY_ROW };

typedef struct perf_parse {
    perf_options_t *options;
    bool is_reported; /* the reason to stop was printed */
} perf_parse_t;


static void perf_options_default(perf_options_t *options)
{
    memset(options, 0, sizeof(*options));
    options->num_requests = 32;
    options->initiator_segment = PERF_SEGMENT_AUTO;
    options->target_segment = PERF_SEGMENT_AUTO;
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
        *(bool *)field = true;
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

/* The last word may be an option without its value. */
static bool perf_option_is_known(const char *word)
{
    size_t i;

    for (i = 0; i < PERF_COUNT(perf_option_rows); ++i) {
        if ((strncmp(word, "--", 2) == 0) &&
            (strcmp(word + 2, perf_option_rows[i].name) == 0)) {
            return true;
        }
    }
    return false;
}

/* argp's own text, made of the rows; the exit status is the caller's. */
static error_t perf_options_key(int key, char *arg, struct argp_state *state)
{
    static char name[] = "mori_kv_perf";
    perf_parse_t *parse = state->input;
    const char *word;

    switch (key) {
    case 'h':
        argp_help(state->root_argp, stdout,
                  ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
        parse->is_reported = true;
        return ECANCELED;
    case PERF_KEY_USAGE:
        argp_help(state->root_argp, stdout, ARGP_HELP_USAGE, name);
        parse->is_reported = true;
        return ECANCELED;
    case 'V':
        printf("mori_kv_perf %s\n", PACKAGE_VERSION);
        parse->is_reported = true;
        return ECANCELED;
    case ARGP_KEY_ARG:
        perf_error("'%s' is not an option; expected --OPTION VALUE, see --help", arg);
        parse->is_reported = true;
        return EINVAL;
    case ARGP_KEY_ERROR:
        word = state->argv[(state->next > 1) ? state->next - 1 : 0];
        if (!parse->is_reported) {
            perf_error("%s: '%s'; see --help",
                       perf_option_is_known(word)
                           ? "there is no value for the last option"
                           : "not an option, or short for several",
                       word);
        }
        return 0;
    default:
        if ((key < PERF_KEY_ROW) ||
            (key >= PERF_KEY_ROW + (int)PERF_COUNT(perf_option_rows))) {
            return ARGP_ERR_UNKNOWN;
        }
        parse->options->groups[perf_option_rows[key - PERF_KEY_ROW].group] =
            perf_option_rows[key - PERF_KEY_ROW].name;
        parse->is_reported = perf_option_set(&perf_option_rows[key - PERF_KEY_ROW], arg,
                                             parse->options) != 0;
        return parse->is_reported ? EINVAL : 0;
    }
}

/* The table for argp: rows, a title for each group, and the rows of every tool. */
static void perf_options_table(struct argp_option *table)
{
    static const struct argp_option common[] = {
        {"help", 'h', NULL, 0, "this text", -1},
        {"usage", PERF_KEY_USAGE, NULL, 0, "all options in short", -1},
        {"version", 'V', NULL, 0, "version of this program", -1},
        {0}};
    const perf_option_t *row;
    int group;
    size_t i;

    for (group = PERF_GROUP_BOTH; group < PERF_GROUP_HIDDEN; ++group) {
        *table++ = (struct argp_option){.doc = perf_group_names[group], .group = group};
    }
    for (i = 0; i < PERF_COUNT(perf_option_rows); ++i) {
        row = &perf_option_rows[i];
        *table++ = (struct argp_option){
            .name = row->name,
            .key = PERF_KEY_ROW + (int)i,
            .arg = row->arg,
            .flags = (row->group == PERF_GROUP_HIDDEN) ? OPTION_HIDDEN : 0,
            .doc = row->help,
            .group = (int)row->group};
    }
    memcpy(table, common, sizeof(common));
}

/* argp passes also keys of its own, for titles and ends. @return NULL: the key is not a
 * row's. */
static const perf_option_t *perf_option_of_key(int key)
{
    return ((key >= PERF_KEY_ROW) &&
            (key < PERF_KEY_ROW + (int)PERF_COUNT(perf_option_rows)))
               ? &perf_option_rows[key - PERF_KEY_ROW]
               : NULL;
}

/* Append a number's range from its row to argp's help */
static char *perf_options_help(int key, const char *text, void *input)
{
    const perf_option_t *row = perf_option_of_key(key);
    char *help;
    int length;

    (void)input;
    if ((row == NULL) || (text == NULL) ||
        ((row->value != PERF_VALUE_U32) && (row->value != PERF_VALUE_SIZE))) {
        return (char *)text;
    }
    length =
        (row->max == PERF_TIB)
            ? asprintf(&help, "%s, %" PRIu64 " to 1t", text, row->min)
            : asprintf(&help, "%s, %" PRIu64 " to %" PRIu64, text, row->min, row->max);
    return (length < 0) ? (char *)text : help; /* argp frees it */
}

static void perf_options_choose_memory(perf_options_t *options)
{
    options->is_memory_chosen = (options->initiator_segment == PERF_SEGMENT_AUTO) &&
                                (options->target_segment == PERF_SEGMENT_AUTO);
    if (options->initiator_segment == PERF_SEGMENT_AUTO) {
        options->initiator_segment = perf_options_memory_here("");
    }
    if (options->target_segment == PERF_SEGMENT_AUTO) {
        options->target_segment = perf_options_memory_here("");
    }
}

int perf_options_parse(int argc, char **argv, perf_options_t *options)
{
    struct argp_option table[PERF_COUNT(perf_option_rows) + PERF_GROUP_HIDDEN + 4] = {
        0};
    const struct argp argp = {
        .options = table,
        .parser = perf_options_key,
        .help_filter = perf_options_help,
        .doc =
            "Move the KV cache of a model's requests from a prefill to a decode process, or sweep block and batch sizes between two. One command starts both.\v"
            "Sizes take k, m, g and t. Names that nixlbench has mean the same here. UCX_* and MORIKV_* variables apply; --config, alone, prints those of libmorikv, and --list_models the models that are installed."};
    perf_parse_t parse = {.options = options};
    error_t error;

    perf_options_default(options);
    perf_options_table(table);
    error = argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT,
                       NULL, &parse);
    if (error != 0) {
        return (error == ECANCELED) ? 0 : -1;
    }

    perf_options_choose_memory(options);
    return (perf_options_complete(options, options->groups[PERF_GROUP_MODEL],
                                  options->groups[PERF_GROUP_SWEEP]) == 0)
               ? 1
               : -1;
}

/* Options that the two sides need not have in common. */
static bool perf_option_is_own(const perf_option_t *row)
{
    static const char *const names[] = {
        "trace", "json",       "progress",   "wide",       "initiator_dev",
        "peer",  "timeout",    "role",       "target_dev", "_fds",
        "_rank", "start_lock", "hip_library"};
    size_t i;

    for (i = 0; (i < PERF_COUNT(names)) && strcmp(row->name, names[i]); ++i) {
    }
    return i < PERF_COUNT(names);
}

static int perf_option_print(const perf_option_t *row, const perf_options_t *options,
                             char *text, size_t size)
{
    const void *field = (const char *)options + row->offset;
    const char *word;

    switch (row->value) {
    case PERF_VALUE_FLAG:
        return snprintf(text, size, "--%s %s\n", row->name,
                        *(const bool *)field ? "given" : "not given");
    case PERF_VALUE_TEXT:
        word = *(const char *const *)field;
        return snprintf(text, size, "--%s %s\n", row->name,
                        (word != NULL) ? word : "not given");
    case PERF_VALUE_NAME:
        return snprintf(text, size, "--%s %s\n", row->name,
                        row->names[*(const int *)field]);
    case PERF_VALUE_U32:
        return snprintf(text, size, "--%s %u\n", row->name, *(const uint32_t *)field);
    default:
        return snprintf(text, size, "--%s %" PRIu64 "\n", row->name,
                        *(const uint64_t *)field);
    }
}

int perf_options_agreement(const perf_options_t *options, char *text, size_t size)
{
    int used = snprintf(text, size, "version %s\n--trace %s\n", PACKAGE_VERSION,
                        (options->trace != NULL) ? "given" : "not given");
    size_t i;

    for (i = 0; i < PERF_COUNT(perf_option_rows); ++i) {
        if (!perf_option_is_own(&perf_option_rows[i])) {
            used += perf_option_print(&perf_option_rows[i], options,
                                      ((size_t)used < size) ? text + used : NULL,
                                      ((size_t)used < size) ? size - (size_t)used : 0);
        }
    }
    return used;
}

bool perf_options_differ(const char *here, const char *there, char *text, size_t size)
{
    int name, length, other;

    while ((*here != '\0') && (*there != '\0')) {
        length = (int)strcspn(here, "\n");
        other = (int)strcspn(there, "\n");
        if ((length != other) || (strncmp(here, there, (size_t)length) != 0)) {
            name = (int)strcspn(here, " ");
            snprintf(text, size, "%.*s is %.*s here and %.*s there", name, here,
                     length - name - 1, here + name + 1,
                     (other > name) ? other - name - 1 : 0,
                     there + ((other > name) ? name + 1 : 0));
            return true;
        }
        here += length + (here[length] == '\n');
        there += other + (there[other] == '\n');
    }
    return false;
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
