/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/report.h"
#include "perf/workload/error.h"

#include <inttypes.h>
#include <string.h>

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

static void perf_json_string(FILE *json, const char *text)
{
    fputc('"', json);
    for (; *text != '\0'; ++text) {
        if ((*text == '"') || (*text == '\\')) {
            fprintf(json, "\\%c", *text);
        } else if ((unsigned char)*text < ' ') {
            fprintf(json, "\\u%04x", (unsigned char)*text);
        } else {
            fputc(*text, json);
        }
    }
    fputc('"', json);
}

static void perf_json_histogram(FILE *json, const char *name,
                                const perf_histogram_t *histogram)
{
    fprintf(
        json,
        ", \"%s_us\": {\"avg\": %.3f, \"p50\": %.3f, \"p99\": %.3f, \"p999\": %.3f, "
        "\"max\": %.3f}",
        name, perf_us(perf_histogram_mean(histogram)),
        perf_us((double)perf_histogram_permille(histogram, 500)),
        perf_us((double)perf_histogram_permille(histogram, 990)),
        perf_us((double)perf_histogram_permille(histogram, 999)),
        perf_us((double)histogram->max));
}

static void perf_json_row(FILE *json, const perf_result_t *result)
{
    fprintf(json, "    {\"block_size\": %" PRIu64 ", \"requests\": %" PRIu64,
            result->block_size, result->num_requests);
    fprintf(json, ", \"bytes\": %" PRIu64 ", \"wall_ns\": %" PRIu64, result->bytes,
            result->wall_ns);
    fprintf(json, ", \"gb_per_s\": %.3f",
            perf_ratio((double)result->bytes, (double)result->wall_ns));
    fprintf(json,
            ", \"flows\": %" PRIu64 ", \"first_end_ns\": %" PRIu64
            ", \"last_end_ns\": %" PRIu64,
            result->num_flows, result->first_end_ns, result->last_end_ns);
    fprintf(json, ", \"descs_before\": %" PRIu64 ", \"descs_after\": %" PRIu64,
            result->num_descs, result->num_merged);
    fprintf(json, ", \"ucp_calls\": %" PRIu64, result->num_ucp_calls);
    fprintf(json, ", \"cpu_ns_per_block\": %.3f",
            perf_ratio((double)result->cpu_ns, (double)result->num_descs));
    fprintf(json, ", \"prompt_blocks\": %" PRIu64 ", \"shared_blocks\": %" PRIu64,
            result->total_blocks, result->shared_blocks);
    fprintf(json, ", \"checked\": %s", result->is_checked ? "true" : "false");
    perf_json_histogram(json, "prep", &result->prep);
    perf_json_histogram(json, "post", &result->post);
    perf_json_histogram(json, "tx", &result->tx);
    fprintf(json, ", \"device\": ");
    perf_json_string(json, result->device);
    fprintf(json, ", \"path\": ");
    perf_json_string(json, result->path);
    fputc('}', json);
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
               options->is_per_layer ? "by layer" : "all at once");
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
    if (result->num_flows > 1) {
        printf("  first of %" PRIu64 " ends at %.0f %%", result->num_flows,
               100 * perf_ratio((double)result->first_end_ns,
                                (double)result->last_end_ns));
    }
    printf("%s\n", result->is_checked ? "  every byte checked" : "");
    fflush(stdout);

    if (report->json != NULL) {
        fputs((report->num_rows == 0) ? "\n" : ",\n", report->json);
        perf_json_row(report->json, result);
    }
    ++report->num_rows;
}

int perf_report_open(const perf_options_t *options, int argc, char **argv,
                     perf_report_t *report)
{
    int i;

    report->options = options;
    report->json = NULL;
    report->num_rows = 0;
    if (options->json == NULL) {
        return 0;
    }

    report->json = fopen(options->json, "we");
    if (report->json == NULL) {
        perf_error("--json '%s' cannot be written: %m", options->json);
        return -1;
    }

    fprintf(report->json, "{\"tool\": \"mori_kv_perf\", \"version\": ");
    perf_json_string(report->json, PACKAGE_VERSION);
    fprintf(report->json, ",\n \"command\": [");
    for (i = 0; (i < argc) && (strncmp(argv[i], "--_", 3) != 0); ++i) {
        fputs((i == 0) ? "" : ", ", report->json);
        perf_json_string(report->json, (i == 0) ? "mori_kv_perf" : argv[i]);
    }
    fprintf(report->json, "],\n \"rows\": [");
    return 0;
}

int perf_report_close(perf_report_t *report)
{
    int is_bad;

    if (report->json == NULL) {
        return 0;
    }

    fprintf(report->json, "\n ]}\n");
    is_bad = ferror(report->json);
    if ((fclose(report->json) != 0) || is_bad) {
        perf_error("--json '%s' could not be written: %m", report->options->json);
        return -1;
    }
    return 0;
}
