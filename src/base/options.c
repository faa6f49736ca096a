/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/options.h"

#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern char **environ;

typedef enum mkv_opt_type {
    MKV_OPT_BOOL,
    MKV_OPT_UINT,
    MKV_OPT_SIZE,
    MKV_OPT_TIME,
    MKV_OPT_ENUM,
    MKV_OPT_STRING
} mkv_opt_type_t;

typedef struct mkv_opt {
    const char *name;
    const char *dfl;
    const char *help;
    size_t offset;
    mkv_opt_type_t type;
    const char *const *values; /* MKV_OPT_ENUM: index is the value */
    uint64_t min, max;         /* of numbers, sizes and times */
} mkv_opt_t;

/* As much as the type holds, which is "inf" */
#define MKV_NO_LIMIT UINT64_MAX

#define MKV_MAX_PROGRESS_THREADS 64

static const char *const mkv_backend_names[] = {"auto", "xgmi", "ipc", "rdma",
                                                "shm",  "tcp",  NULL};
static const char *const mkv_sgl_names[] = {"no", "yes", "try", NULL};
static const char *const mkv_read_by_names[] = {"auto", "get", "push", NULL};
static const char *const mkv_fence_names[] = {"none", "flush", "hook", NULL};
static const char *const mkv_fence_same_host_names[] = {"none", "flush", "hook",
                                                        "inherit", NULL};
static const char *const mkv_overlap_names[] = {"allow", "warn", "refuse", NULL};
static const char *const mkv_verify_names[] = {"counts", "units", NULL};
static const char *const mkv_level_names[] = {"error", "warn",  "info",
                                              "debug", "trace", NULL};

#define MKV_OPT(_member) offsetof(mkv_options_t, _member)

static const mkv_opt_t mkv_opts[] = {
    {"BACKEND", "auto",
     "What should carry the data: auto, xgmi, ipc, rdma, shm or tcp. Anything but\n"
     "auto also chooses the transports of an own UCX context, unless UCX_TLS is set.",
     MKV_OPT(backend), MKV_OPT_ENUM, mkv_backend_names, 0, 0},
    {"STRICT", "n",
     "Refuse a peer that BACKEND cannot carry, and fail what UCX carries otherwise after\n"
     "its first call, instead of warning. Set it where slow is worse than an error.",
     MKV_OPT(strict), MKV_OPT_BOOL, NULL, 0, 0},
    {"TLS", "",
     "Transports of an own UCX context, as UCX_TLS; empty: by BACKEND or UCX_TLS.",
     MKV_OPT(tls), MKV_OPT_STRING, NULL, 0, 0},
    {"NET_DEVICES", "",
     "Network devices of an own UCX context, as UCX_NET_DEVICES; empty: UCX decides.",
     MKV_OPT(net_devices), MKV_OPT_STRING, NULL, 0, 0},
    {"LANES", "0",
     "Rails of one operation in an own UCX context, as UCX_MAX_RMA_RAILS; 0: UCX\n"
     "decides. Raise it to use several NICs for one buffer.",
     MKV_OPT(lanes), MKV_OPT_UINT, NULL, 0, MKV_NO_LIMIT},
    {"SGL", "try",
     "Whether a WRITE post is one scatter-gather call of UCX: try (where UCX and the\n"
     "transport are known to do it), yes, or no (one put per piece).",
     MKV_OPT(sgl), MKV_OPT_ENUM, mkv_sgl_names, 0, 0},
    {"SGL_MAX", "8192",
     "Pieces in one scatter-gather call, in pieces. UCX and the transport read the\n"
     "lists of a call several times: 8192 pieces stay in the second-level cache, and\n"
     "take 24 bytes each while they are in flight. Raise it when calls are dear.",
     MKV_OPT(sgl_max), MKV_OPT_SIZE, NULL, 1, MKV_NO_LIMIT},
    {"READ_BY", "auto",
     "How a READ moves: get (a call of UCX for each piece), push (the owner of the\n"
     "blocks puts them as lists, in its progress), or auto (push where that is one\n"
     "call of UCX). An owner that says get is never asked to push: say so where it\n"
     "makes progress too rarely.",
     MKV_OPT(read_by), MKV_OPT_ENUM, mkv_read_by_names, 0, 0},
    {"PUSH_MIN", "64",
     "READ_BY=auto: smallest post that the owner is asked to push, in pieces. Asking\n"
     "costs a message each way: raise it where messages are slow.",
     MKV_OPT(push_min), MKV_OPT_UINT, NULL, 0, MKV_NO_LIMIT},
    {"FENCE", "none",
     "What stands between the last byte in GPU memory and DONE: none (what the\n"
     "transport's flush says is enough), flush (the side that put over RDMA reads a\n"
     "byte back from each GPU allocation of the peer first), or hook (the destination\n"
     "gets MKV_EV_FENCE, and DONE after mkv_fence_done()). Set it where kernels see\n"
     "old bytes after DONE.",
     MKV_OPT(fence), MKV_OPT_ENUM, mkv_fence_names, 0, 0},
    {"FENCE_SAME_HOST", "inherit",
     "FENCE for peers of this host: as above, or inherit (as FENCE says).",
     MKV_OPT(fence_same_host), MKV_OPT_ENUM, mkv_fence_same_host_names, 0, 0},
    {"OVERLAP", "warn",
     "What happens when blocks are exposed to be written to by two transfers at once,\n"
     "of which the first is not quiet: allow (it is not looked for), warn in the log\n"
     "of the first such block, or refuse the second transfer.",
     MKV_OPT(overlap), MKV_OPT_ENUM, mkv_overlap_names, 0, 0},
    {"VERIFY", "units",
     "What the side that exposed blocks compares when the other side says that all have\n"
     "moved: counts (how many), or units (also which, by a sum over them). Counts saves\n"
     "the sum: some nanoseconds for each block.",
     MKV_OPT(verify), MKV_OPT_ENUM, mkv_verify_names, 0, 0},
    {"MAX_INFLIGHT_OPS", "4096",
     "UCX calls in flight to one peer, in calls; the rest waits in order. Lower it\n"
     "when a transport's queues are short on memory.",
     MKV_OPT(max_inflight_ops), MKV_OPT_UINT, NULL, 1, MKV_NO_LIMIT},
    {"MAX_INFLIGHT_BYTES", "4g",
     "Data in flight to one peer, in bytes. Lower it so that small transfers need not\n"
     "wait behind large ones.",
     MKV_OPT(max_inflight_bytes), MKV_OPT_SIZE, NULL, 1, MKV_NO_LIMIT},
    {"NORMAL_SHARE", "100",
     "Part of the two limits above, in percent, beyond which nothing of transfers of\n"
     "normal priority is given to UCX: the rest is left to those of high priority.",
     MKV_OPT(normal_share), MKV_OPT_UINT, NULL, 1, 100},
    {"LOW_SHARE", "50",
     "The same for transfers of low priority: the rest is left to all others.",
     MKV_OPT(low_share), MKV_OPT_UINT, NULL, 1, 100},
    {"MAX_MESSAGE", "64m",
     "Largest control or user message, in bytes, either way. Both sides tell it, and\n"
     "the smaller one holds.",
     MKV_OPT(max_message), MKV_OPT_SIZE, NULL, 4096, UINT32_MAX - 1},
    {"MAX_QUEUED", "256m",
     "Messages waiting per peer, sent or received and not polled, in bytes.",
     MKV_OPT(max_queued), MKV_OPT_SIZE, NULL, 0, MKV_NO_LIMIT},
    {"MAX_PEERS", "16384",
     "Connections that exist at once, those not closed yet included; more are\n"
     "refused. Each takes a UCX endpoint, and up to MAX_QUEUED bytes.",
     MKV_OPT(max_peers), MKV_OPT_UINT, NULL, 1, MKV_NO_LIMIT},
    {"EARLY_MESSAGES", "4096",
     "Block lists kept per peer for transfers that are not open yet, and as many\n"
     "aborts of such, in messages.",
     MKV_OPT(early_messages), MKV_OPT_UINT, NULL, 0, MKV_NO_LIMIT},
    {"FETCH_INLINE", "8k",
     "Largest buffer of host memory that a fetch takes in the answer itself, in bytes.\n"
     "Larger ones are read where they lie.",
     MKV_OPT(fetch_inline), MKV_OPT_SIZE, NULL, 0, MKV_NO_LIMIT},
    {"LIST_CACHE_MAX", "64m",
     "Memory kept for the lists of later posts, in bytes. Raise it when lists_allocated\n"
     "keeps growing.",
     MKV_OPT(list_cache_max), MKV_OPT_SIZE, NULL, 0, MKV_NO_LIMIT},
    {"BIND_TIMEOUT", "60s",
     "Time for the other side to open its half, for a peer to answer, and for a\n"
     "message that later ones have overtaken, in ms unless a unit is given (ms, s, m).",
     MKV_OPT(bind_timeout), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"XFER_TIMEOUT", "300s",
     "Time from bound to complete, in ms unless a unit is given.",
     MKV_OPT(xfer_timeout), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"RELEASE_TIMEOUT", "300s",
     "READ, source: time from bound until all readers released, in ms unless a unit\n"
     "is given.",
     MKV_OPT(release_timeout), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"DRAIN_TIMEOUT", "30s",
     "Time from an error until both sides are quiet; then the connection is cut, in\n"
     "ms unless a unit is given.",
     MKV_OPT(drain_timeout), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"PEER_CHECK", "500",
     "How often to look whether a peer's process on this host is gone, in ms; 0: only\n"
     "when something else is to be looked at, or its end can be told as an event.",
     MKV_OPT(peer_check), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"PEER_DEAD", "0",
     "Give up a peer of which nothing was heard for so long, although it was asked,\n"
     "in ms unless a unit is given; 0: never, leave it to UCX. Set it where UCX's\n"
     "transports have no keepalive, above the longest time in which an application\n"
     "makes no progress.",
     MKV_OPT(peer_dead), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"SHM_DIR", "/dev/shm",
     "Folder in shared memory for the lock files by which processes of one host prove\n"
     "that they cannot touch each other's memory any more. Change it on all sides,\n"
     "when containers share another one.",
     MKV_OPT(shm_dir), MKV_OPT_STRING, NULL, 0, 0},
    {"WAKEUP", "y", "Whether an own UCX context supports mkv_event_fd().",
     MKV_OPT(wakeup), MKV_OPT_BOOL, NULL, 0, 0},
    {"PROGRESS_THREADS", "0",
     "Threads that make progress, 0 to 64, so that nobody has to call\n"
     "mkv_progress(). They serve one worker in turn, so one is enough. Needs an own\n"
     "UCX context and WAKEUP.",
     MKV_OPT(progress_threads), MKV_OPT_UINT, NULL, 0, MKV_MAX_PROGRESS_THREADS},
    {"AM_ID", "77",
     "UCX active message id, below 65536; change it on all sides when an attached\n"
     "worker's owner uses it.",
     MKV_OPT(am_id), MKV_OPT_UINT, NULL, 0, UINT16_MAX},
    {"LOG_LEVEL", "warn", "error, warn, info, debug or trace.", MKV_OPT(log_level),
     MKV_OPT_ENUM, mkv_level_names, 0, 0},
};

#define MKV_NUM_OPTS (sizeof(mkv_opts) / sizeof(mkv_opts[0]))

struct mkv_config {
    mkv_options_t values;
    char text[MKV_NUM_OPTS][MKV_OPTION_SIZE];
    char ignored[256]; /* variables that name no option */
};

static bool mkv_opt_parse_bool(const char *text, uint64_t *value_p)
{
    static const char *const yes[] = {"y", "yes", "1", "on", "true"};
    static const char *const no[] = {"n", "no", "0", "off", "false"};
    size_t i;

    for (i = 0; i < sizeof(yes) / sizeof(yes[0]); ++i) {
        if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
            *value_p = !strcasecmp(text, yes[i]);
            return true;
        }
    }
    return false;
}

static bool mkv_opt_parse_enum(const mkv_opt_t *opt, const char *text,
                               uint64_t *value_p)
{
    size_t i;

    for (i = 0; opt->values[i] != NULL; ++i) {
        if (!strcasecmp(text, opt->values[i])) {
            *value_p = i;
            return true;
        }
    }
    return false;
}

/* Factor of a suffix, 0 if the option does not know it */
static uint64_t mkv_opt_factor(mkv_opt_type_t type, const char *suffix)
{
    static const struct {
        mkv_opt_type_t type;
        const char *suffix;
        uint64_t factor;
    } factors[] = {
        {MKV_OPT_SIZE, "k", 1ull << 10},  {MKV_OPT_SIZE, "m", 1ull << 20},
        {MKV_OPT_SIZE, "g", 1ull << 30},  {MKV_OPT_SIZE, "b", 1},
        {MKV_OPT_SIZE, "kb", 1ull << 10}, {MKV_OPT_SIZE, "mb", 1ull << 20},
        {MKV_OPT_SIZE, "gb", 1ull << 30}, {MKV_OPT_TIME, "ms", 1},
        {MKV_OPT_TIME, "s", 1000},        {MKV_OPT_TIME, "m", 60000},
    };
    size_t i;

    if (*suffix == '\0') {
        return 1;
    }
    for (i = 0; i < sizeof(factors) / sizeof(factors[0]); ++i) {
        if ((factors[i].type == type) && !strcasecmp(suffix, factors[i].suffix)) {
            return factors[i].factor;
        }
    }
    return 0;
}

static bool mkv_opt_parse_number(mkv_opt_type_t type, const char *text,
                                 uint64_t *value_p)
{
    uint64_t factor;
    uint64_t number;
    char *end;

    if (!strcasecmp(text, "inf")) {
        *value_p = (type == MKV_OPT_TIME) ? UINT32_MAX : UINT64_MAX;
        return true;
    }
    if (!isdigit((unsigned char)text[0])) {
        return false; /* strtoull takes a sign */
    }

    errno = 0;
    number = strtoull(text, &end, 10);
    factor = mkv_opt_factor(type, end);
    if ((errno != 0) || (factor == 0) || (number > UINT64_MAX / factor) ||
        ((type == MKV_OPT_TIME) && (number * factor > UINT32_MAX))) {
        return false;
    }

    *value_p = number * factor;
    return true;
}

static bool mkv_opt_parse(const mkv_opt_t *opt, const char *text, void *value)
{
    uint64_t number;

    switch (opt->type) {
    case MKV_OPT_BOOL:
        return mkv_opt_parse_bool(text, value);
    case MKV_OPT_ENUM:
        return mkv_opt_parse_enum(opt, text, value);
    case MKV_OPT_STRING:
        mkv_text(value, MKV_OPTION_SIZE, "%s", text);
        return true;
    default:
        if (!mkv_opt_parse_number(opt->type, text, &number) || (number < opt->min) ||
            (number > opt->max)) {
            return false;
        }
        *(uint64_t *)value = number;
        return true;
    }
}

/* "auto, xgmi or tcp" */
static const char *mkv_opt_names(const mkv_opt_t *opt, char *text, size_t size)
{
    size_t length = 0, i;

    for (i = 0; opt->values[i] != NULL; ++i) {
        mkv_text(text + length, size - length, "%s%s",
                 (i == 0) ? "" : ((opt->values[i + 1] == NULL) ? " or " : ", "),
                 opt->values[i]);
        length += strlen(text + length);
    }
    return text;
}

/* "a size from 4096 to inf, such as 64k or 1g" */
static const char *mkv_opt_range(const mkv_opt_t *opt, const char *what,
                                 const char *example, char *text, size_t size)
{
    char max[24] = "inf";

    if (opt->max != MKV_NO_LIMIT) {
        mkv_text(max, sizeof(max), "%llu", (unsigned long long)opt->max);
    }
    mkv_text(text, size, "a %s from %llu to %s%s", what, (unsigned long long)opt->min,
             max, example);
    return text;
}

/** @param [in] text  Room for it, if it depends on the option. */
static const char *mkv_opt_expected(const mkv_opt_t *opt, char *text, size_t size)
{
    switch (opt->type) {
    case MKV_OPT_BOOL:
        return "y or n";
    case MKV_OPT_SIZE:
        return mkv_opt_range(opt, "size", ", such as 64k or 1g", text, size);
    case MKV_OPT_TIME:
        return mkv_opt_range(opt, "time", ", such as 500ms, 30s or 5m", text, size);
    case MKV_OPT_ENUM:
        return mkv_opt_names(opt, text, size);
    default:
        return mkv_opt_range(opt, "number", "", text, size);
    }
}

static const mkv_opt_t *mkv_opt_find(const char *key)
{
    size_t i;

    for (i = 0; i < MKV_NUM_OPTS; ++i) {
        if (!strcasecmp(key, mkv_opts[i].name)) {
            return &mkv_opts[i];
        }
    }
    return NULL;
}

mkv_status_t mkv_config_set(mkv_config_t *config, const char *key, const char *value)
{
    const mkv_opt_t *opt = mkv_opt_find(key);
    char text[128];

    if (opt == NULL) {
        return mkv_error(NULL, MKV_ERR_NOTFOUND, "no option is called '%s'", key);
    }
    if (strlen(value) >= sizeof(config->text[0])) {
        return mkv_error(NULL, MKV_ERR_INVALID, "%s: value is longer than %zu bytes",
                         opt->name, sizeof(config->text[0]) - 1);
    }
    if (!mkv_opt_parse(opt, value, (char *)&config->values + opt->offset)) {
        return mkv_error(NULL, MKV_ERR_INVALID, "%s: '%s' is not %s", opt->name, value,
                         mkv_opt_expected(opt, text, sizeof(text)));
    }

    strcpy(config->text[opt - mkv_opts], value);
    return MKV_OK;
}

const char *mkv_config_get(const mkv_config_t *config, const char *key)
{
    const mkv_opt_t *opt = mkv_opt_find(key);

    return (opt == NULL) ? NULL : config->text[opt - mkv_opts];
}

#define MKV_KEY_SIZE 64u

/* How many letters to add, drop or change make one name the other (Levenshtein) */
static unsigned mkv_name_distance(const char *a, const char *b)
{
    unsigned row[MKV_KEY_SIZE], corner, above, best;
    size_t length = strlen(b), i, j;

    for (j = 0; j <= length; ++j) {
        row[j] = (unsigned)j;
    }
    for (i = 0; a[i] != '\0'; ++i) {
        corner = row[0]++;
        for (j = 0; j < length; ++j) {
            above = row[j + 1];
            best = corner + (a[i] != b[j]);
            best = (above + 1 < best) ? above + 1 : best;
            row[j + 1] = (row[j] + 1 < best) ? row[j] + 1 : best;
            corner = above;
        }
    }
    return row[length];
}

/* The option that was meant, if a letter or two are wrong */
static const mkv_opt_t *mkv_opt_find_near(const char *key)
{
    unsigned most = (strlen(key) < 8) ? 1 : 2;
    size_t i;

    for (i = 0; i < MKV_NUM_OPTS; ++i) {
        if (mkv_name_distance(key, mkv_opts[i].name) <= most) {
            return &mkv_opts[i];
        }
    }
    return NULL;
}

/* A slip of the pen is an error. All else is somebody's else: Kubernetes puts
 * MORIKV_PORT and more of a service called "morikv" into the environment of every
 * container. */
static mkv_status_t mkv_config_unknown(mkv_config_t *config, const char *prefix,
                                       const char *key)
{
    const mkv_opt_t *near = mkv_opt_find_near(key);
    size_t length = strlen(config->ignored);

    if (near != NULL) {
        return mkv_error(
            NULL, MKV_ERR_INVALID,
            "the environment sets %s%s, but there is no such option; is %s%s "
            "meant?",
            prefix, key, prefix, near->name);
    }
    mkv_text(config->ignored + length, sizeof(config->ignored) - length, " %s%s",
             prefix, key);
    return MKV_OK;
}

static mkv_status_t mkv_config_read_env(mkv_config_t *config, const char *prefix)
{
    char key[MKV_KEY_SIZE];
    char **env;
    const char *value;
    size_t length = strlen(prefix);
    mkv_status_t status;

    for (env = environ; *env != NULL; ++env) {
        if (strncmp(*env, prefix, length) != 0) {
            continue;
        }
        value = strchr(*env, '=');
        if (value == NULL) {
            continue;
        }
        mkv_text(key, sizeof(key), "%.*s", (int)(value - *env - length), *env + length);
        status = mkv_config_set(config, key, value + 1);
        if (status == MKV_ERR_NOTFOUND) {
            status = mkv_config_unknown(config, prefix, key);
        }
        if (status != MKV_OK) {
            return status;
        }
    }
    return MKV_OK;
}

mkv_status_t mkv_config_read(const char *prefix, mkv_config_t **config_p)
{
    mkv_config_t *config = calloc(1, sizeof(*config));
    char long_prefix[128];
    mkv_status_t status;
    size_t i;

    if (config == NULL) {
        return mkv_error(NULL, MKV_ERR_NOMEM, "no memory for the configuration");
    }

    for (i = 0; i < MKV_NUM_OPTS; ++i) {
        status = mkv_config_set(config, mkv_opts[i].name, mkv_opts[i].dfl);
        if (status != MKV_OK) {
            goto err_free;
        }
    }

    status = mkv_config_read_env(config, "MORIKV_");
    if ((status == MKV_OK) && (prefix != NULL)) {
        mkv_text(long_prefix, sizeof(long_prefix), "%s_MORIKV_", prefix);
        status = mkv_config_read_env(config, long_prefix);
    }
    if (status != MKV_OK) {
        goto err_free;
    }

    *config_p = config;
    return MKV_OK;

err_free:
    free(config);
    return status;
}

void mkv_config_release(mkv_config_t *config)
{
    free(config);
}

const char *mkv_config_ignored(const mkv_config_t *config)
{
    return config->ignored;
}

const mkv_options_t *mkv_config_options(const mkv_config_t *config)
{
    return &config->values;
}

const char *mkv_fence_string(mkv_fence_policy_t policy)
{
    return mkv_fence_same_host_names[policy];
}

const char *mkv_config_tls(const mkv_config_t *config)
{
    static const char *const tls[] = {"",
                                      "mori_xgmi,mori_copy,sm,tcp,self",
                                      "rocm,sm,tcp,self",
                                      "mori_rdma,mori_copy,ib,tcp,self",
                                      "sm,self,tcp",
                                      "tcp,self"};
    bool is_given = (config->values.tls[0] != '\0') || (getenv("UCX_TLS") != NULL);

    return is_given ? config->values.tls : tls[config->values.backend];
}

mkv_config_t *mkv_config_copy(const mkv_config_t *config)
{
    mkv_config_t *copy = malloc(sizeof(*copy));

    if (copy != NULL) {
        *copy = *config;
    }
    return copy;
}

void mkv_config_dump(const mkv_config_t *config,
                     void (*write)(void *arg, const char *line), void *arg)
{
    char line[MKV_OPTION_SIZE + 64];
    size_t i;

    for (i = 0; i < MKV_NUM_OPTS; ++i) {
        mkv_text(line, sizeof(line), "%s=%s", mkv_opts[i].name, config->text[i]);
        write(arg, line);
    }
}

/* A text of several lines, one call each */
static void mkv_write_lines(const char *text,
                            void (*write)(void *arg, const char *line), void *arg)
{
    char line[256];
    size_t length;

    for (; *text != '\0'; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        mkv_text(line, sizeof(line), "    %.*s", (int)length, text);
        write(arg, line);
    }
}

void mkv_config_help(void (*write)(void *arg, const char *line), void *arg)
{
    char line[MKV_OPTION_SIZE + 64], text[128];
    size_t i;

    for (i = 0; i < MKV_NUM_OPTS; ++i) {
        mkv_text(line, sizeof(line), "MORIKV_%s=%s", mkv_opts[i].name, mkv_opts[i].dfl);
        write(arg, line);
        mkv_write_lines(mkv_opts[i].help, write, arg);
        if (mkv_opts[i].max > 0) {
            mkv_text(line, sizeof(line), "    Expected: %s.",
                     mkv_opt_expected(&mkv_opts[i], text, sizeof(text)));
            write(arg, line);
        }
    }
}
