/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/report.h"
#include "perf/workload/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif


static double perf_us(double ns)
{
    return ns / 1000.0;
}

static double perf_ratio(double a, double b)
{
    return (b == 0.0) ? 0.0 : a / b;
}

static void perf_json_u64(json_object *object, const char *name, uint64_t value)
{
    json_object_object_add(object, name, json_object_new_int64((int64_t)value));
}

static void perf_json_text(json_object *object, const char *name, const char *text)
{
    json_object_object_add(object, name, json_object_new_string(text));
}

/* Three digits are what a time in microseconds and a rate are worth. */
static void perf_json_real(json_object *object, const char *name, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.3f", value);
    json_object_object_add(object, name, json_object_new_double_s(value, text));
}

static void perf_json_histogram(json_object *row, const char *name,
                                const perf_histogram_t *histogram)
{
    json_object *object = json_object_new_object();

    perf_json_real(object, "avg", perf_us(perf_histogram_mean(histogram)));
    perf_json_real(object, "p50",
                   perf_us((double)perf_histogram_permille(histogram, 500)));
    perf_json_real(object, "p99",
                   perf_us((double)perf_histogram_permille(histogram, 990)));
    perf_json_real(object, "p999",
                   perf_us((double)perf_histogram_permille(histogram, 999)));
    perf_json_real(object, "max", perf_us((double)histogram->max));
    json_object_object_add(row, name, object);
}

static void perf_json_ends(json_object *row, const char *name, const perf_ends_t *ends)
{
    json_object *object = json_object_new_object();

    perf_json_u64(object, "flows", ends->num_flows);
    perf_json_u64(object, "first_end_ns", ends->first_ns);
    perf_json_u64(object, "last_end_ns", ends->last_ns);
    json_object_object_add(row, name, object);
}

static json_object *perf_json_row(const perf_result_t *result)
{
    json_object *row = json_object_new_object();

    perf_json_u64(row, "block_size", result->block_size);
    perf_json_u64(row, "requests", result->num_requests);
    perf_json_u64(row, "bytes", result->bytes);
    perf_json_u64(row, "wall_ns", result->wall_ns);
    perf_json_real(row, "gb_per_s",
                   perf_ratio((double)result->bytes, (double)result->wall_ns));
    perf_json_ends(row, "there", &result->there);
    perf_json_ends(row, "back", &result->back);
    perf_json_u64(row, "descs_before", result->num_descs);
    perf_json_u64(row, "descs_after", result->num_merged);
    perf_json_u64(row, "ucp_calls", result->num_ucp_calls);
    perf_json_real(row, "cpu_ns_per_block",
                   perf_ratio((double)result->cpu_ns, (double)result->num_descs));
    perf_json_u64(row, "prompt_blocks", result->total_blocks);
    perf_json_u64(row, "shared_blocks", result->shared_blocks);
    json_object_object_add(row, "checked", json_object_new_boolean(result->is_checked));
    perf_json_histogram(row, "prep_us", &result->prep);
    perf_json_histogram(row, "post_us", &result->post);
    perf_json_histogram(row, "tx_us", &result->tx);
    perf_json_text(row, "device", result->device);
    perf_json_text(row, "path", result->path);
    return row;
}

/* Settings that change what is measured. */
static json_object *perf_json_environment(void)
{
    static const char *const prefixes[] = {"UCX_", "MORIKV_", "HIP", "ROCR_"};
    json_object *object = json_object_new_object();
    char name[64];
    const char *value;
    char **entry;
    size_t i;

    for (entry = environ; *entry != NULL; ++entry) {
        for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); ++i) {
            value = strchr(*entry, '=');
            if ((value != NULL) && (value - *entry < (long)sizeof(name)) &&
                (strncmp(*entry, prefixes[i], strlen(prefixes[i])) == 0)) {
                snprintf(name, sizeof(name), "%.*s", (int)(value - *entry), *entry);
                perf_json_text(object, name, value + 1);
            }
        }
    }
    return object;
}

/* What a reader who finds the file later wants to know of the run. */
static json_object *perf_json_head(int argc, char **argv)
{
    json_object *head = json_object_new_object(), *command = json_object_new_array();
    time_t now = time(NULL);
    struct utsname system;
    struct tm utc;
    char date[32];
    int i;

    /* words that begin with --_ are the parent's own */
    for (i = 0; (i < argc) && (strncmp(argv[i], "--_", 3) != 0); ++i) {
        json_object_array_add(
            command, json_object_new_string((i == 0) ? "mori_kv_perf" : argv[i]));
    }
    perf_json_text(head, "tool", "mori_kv_perf");
    perf_json_text(head, "version", PACKAGE_VERSION);
    if ((gmtime_r(&now, &utc) != NULL) &&
        (strftime(date, sizeof(date), "%FT%TZ", &utc) > 0)) {
        perf_json_text(head, "date", date);
    }
    if (uname(&system) == 0) {
        perf_json_text(head, "host", system.nodename);
        perf_json_text(head, "kernel", system.release);
    }
    json_object_object_add(head, "command", command);
    json_object_object_add(head, "environment", perf_json_environment());
    json_object_object_add(head, "rows", json_object_new_array());
    return head;
}

static void perf_report_header(const perf_options_t *options,
                               const perf_result_t *result)
{
    printf("op %s | api %s | initiator %s (%s) | target %s | path %s\n",
           perf_op_name(options->op), perf_api_name(options->api),
           perf_segment_name(options->initiator_segment), result->device,
           perf_segment_name(options->target_segment), result->path);
    if (options->model != NULL) {
        printf("model %s | tp %u | block %u tokens | dtype %s | requests %u from %s | "
               "post %s\n",
               options->model, options->tp, options->block_tokens, options->dtype,
               options->num_requests,
               (options->trace != NULL) ? options->trace : "generator",
               (options->post == PERF_POST_LAYER) ? "by layer" : "all at once");
    } else {
        printf("scheme %s | targets %u%s\n", perf_scheme_name(options->scheme),
               options->num_target_dev,
               (options->scheme == PERF_SCHEME_PINGPONG)
                   ? " | Tx: put and notification, half a round trip"
                   : "");
    }
    printf(
        "%14s %10s %12s %13s %13s %13s %13s %13s %13s %13s %13s %13s %14s %12s %12s\n",
        "Block Size (B)", "Batch Size", "B/W (GB/Sec)", "Avg Lat. (us)",
        "Avg Prep (us)", "P99 Prep (us)", "Avg Post (us)", "P99 Post (us)",
        "Avg Tx (us)", "P50 Tx (us)", "P99 Tx (us)", "P999 Tx (us)", "CPU (ns/block)",
        "Descs before", "Descs after");
}

static void perf_report_ends(const char *way, const perf_ends_t *ends)
{
    if (ends->num_flows > 1) {
        printf("  first of %" PRIu64 "%s ends at %.0f %%", ends->num_flows, way,
               100 * perf_ratio((double)ends->first_ns, (double)ends->last_ns));
    }
}

void perf_report_row(perf_report_t *report, const perf_result_t *result)
{
    if (report->num_rows == 0) {
        perf_report_header(report->options, result);
    }

    printf("%14" PRIu64
           " %10.0f %12.3f %13.3f %13.1f %13.1f %13.1f %13.1f %13.1f %13.1f "
           "%13.1f %13.1f %14.1f %12" PRIu64 " %12" PRIu64,
           result->block_size,
           perf_ratio((double)result->num_descs, (double)result->num_requests),
           perf_ratio((double)result->bytes, (double)result->wall_ns),
           perf_us(perf_ratio((double)result->wall_ns, (double)result->num_descs)),
           perf_us(perf_histogram_mean(&result->prep)),
           perf_us((double)perf_histogram_permille(&result->prep, 990)),
           perf_us(perf_histogram_mean(&result->post)),
           perf_us((double)perf_histogram_permille(&result->post, 990)),
           perf_us(perf_histogram_mean(&result->tx)),
           perf_us((double)perf_histogram_permille(&result->tx, 500)),
           perf_us((double)perf_histogram_permille(&result->tx, 990)),
           perf_us((double)perf_histogram_permille(&result->tx, 999)),
           perf_ratio((double)result->cpu_ns, (double)result->num_descs),
           result->num_descs, result->num_merged);
    perf_report_ends("", &result->there);
    perf_report_ends((result->there.num_flows > 0) ? " back" : "", &result->back);
    printf("%s\n", result->is_checked ? "  every byte checked" : "");
    fflush(stdout);

    if (report->json != NULL) {
        json_object_array_add(json_object_object_get(report->json, "rows"),
                              perf_json_row(result));
    }
    ++report->num_rows;
}

int perf_report_open(const perf_options_t *options, int argc, char **argv,
                     perf_report_t *report)
{
    report->options = options;
    report->json_fd = -1;
    report->json = NULL;
    report->num_rows = 0;
    if (options->json == NULL) {
        return 0;
    }

    report->json_fd = open(options->json, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (report->json_fd < 0) {
        perf_error("--json '%s' cannot be written: %m", options->json);
        return -1;
    }
    report->json = perf_json_head(argc, argv);
    return 0;
}

int perf_report_close(perf_report_t *report)
{
    const int flags = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                      JSON_C_TO_STRING_NOSLASHESCAPE;
    bool is_bad;

    if (report->json == NULL) {
        return 0;
    }

    /* a pipe or a terminal has no length to cut */
    is_bad = ((ftruncate(report->json_fd, 0) != 0) && (errno != EINVAL)) ||
             (json_object_to_fd(report->json_fd, report->json, flags) != 0);
    json_object_put(report->json);
    if ((close(report->json_fd) != 0) || is_bad) {
        perf_error("--json '%s' could not be written: %m", report->options->json);
        return -1;
    }
    return 0;
}
