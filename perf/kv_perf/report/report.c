/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/report/report.h"
#include "perf/kv_perf/report/link.h"
#include "perf/workload/benchmarks.h"
#include "perf/base/error.h"
#include "perf/base/table.h"

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

/* Times in microseconds and rates have three significant digits. */
static void perf_json_real(json_object *object, const char *name, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.3f", value);
    json_object_object_add(object, name, json_object_new_double_s(value, text));
}

/* Latencies that 0, 5, .. 100 per cent of the requests do not exceed: a distribution.
 */
static json_object *perf_json_steps(const perf_histogram_t *histogram)
{
    json_object *steps = json_object_new_array();
    char text[32];
    unsigned permille;
    double us;

    for (permille = 0; permille <= 1000; permille += 50) {
        us = perf_us((double)perf_histogram_permille(histogram, permille));
        snprintf(text, sizeof(text), "%.3f", us);
        json_object_array_add(steps, json_object_new_double_s(us, text));
    }
    return steps;
}

/* Number of requests by latency, so that rows of several runs can be added up. */
static json_object *perf_json_counts(const perf_histogram_t *histogram)
{
    json_object *counts = json_object_new_object();
    char us[32];
    unsigned i;

    for (i = 0; i < PERF_HISTOGRAM_BUCKETS; ++i) {
        if (histogram->buckets[i] > 0) {
            snprintf(us, sizeof(us), "%.3f", perf_us((double)perf_histogram_upper(i)));
            perf_json_u64(counts, us, histogram->buckets[i]);
        }
    }
    return counts;
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

/* The bandwidth of one link between two GPUs; none for two processes on one GPU. */
static double perf_report_link(const perf_options_t *options,
                               const perf_result_t *result)
{
    const bool is_no_pair = (strstr(result->path, "mori_xgmi/") != NULL) &&
                            ((options->initiator_dev == options->target_dev) ||
                             (options->num_target_dev > 1));

    return is_no_pair ? 0 : perf_link_rate(result->path, "/sys");
}

static json_object *perf_json_row(const perf_options_t *options,
                                  const perf_result_t *result)
{
    json_object *row = json_object_new_object();

    perf_json_u64(row, "block_size", result->block_size);
    perf_json_u64(row, "requests", result->num_requests);
    perf_json_u64(row, "bytes", result->bytes);
    perf_json_u64(row, "wall_ns", result->wall_ns);
    perf_json_real(row, "gb_per_s",
                   perf_ratio((double)result->bytes, (double)result->wall_ns));
    perf_json_real(row, "link_gb_per_s", perf_report_link(options, result));
    perf_json_ends(row, "there", &result->there);
    perf_json_ends(row, "back", &result->back);
    perf_json_u64(row, "descs_before", result->num_descs);
    perf_json_u64(row, "descs_after", result->num_merged);
    perf_json_u64(row, "ucp_calls", result->num_ucp_calls);
    perf_json_real(row, "cpu_ns_per_block",
                   perf_ratio((double)result->cpu_ns, (double)result->num_descs));
    perf_json_u64(row, "pieces_moved", result->num_posted);
    perf_json_u64(row, "pieces_moved_beside_compute", result->num_beside);
    perf_json_u64(row, "layers", result->num_layers);
    perf_json_u64(row, "prompt_blocks", result->total_blocks);
    perf_json_u64(row, "shared_blocks", result->shared_blocks);
    json_object_object_add(row, "checked", json_object_new_boolean(result->is_checked));
    perf_json_histogram(row, "prep_us", &result->prep);
    perf_json_histogram(row, "post_us", &result->post);
    perf_json_histogram(row, "tx_us", &result->tx);
    json_object_object_add(row, "tx_us_by_5_percent", perf_json_steps(&result->tx));
    json_object_object_add(row, "tx_us_counts", perf_json_counts(&result->tx));
    perf_json_text(row, "label", result->label);
    perf_json_text(row, "device", result->device);
    perf_json_text(row, "path", result->path);
    return row;
}

/* Settings that change the measured figures. */
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

/* The time of day, UTC; "?" when there is none */
static void perf_date(char *date, size_t size)
{
    time_t now = time(NULL);
    struct tm utc;

    if ((gmtime_r(&now, &utc) == NULL) || (strftime(date, size, "%FT%TZ", &utc) == 0)) {
        snprintf(date, size, "?");
    }
}

/* Description of the run for a later reader of the file. */
static json_object *perf_json_head(const perf_options_t *options, int argc, char **argv,
                                   const char *ucx)
{
    json_object *head = json_object_new_object(), *command = json_object_new_array();
    struct utsname system;
    char date[32];
    int i;

    /* the parent adds the words that begin with --_ */
    for (i = 0; (i < argc) && (strncmp(argv[i], "--_", 3) != 0); ++i) {
        json_object_array_add(
            command, json_object_new_string((i == 0) ? "mori_kv_perf" : argv[i]));
    }
    perf_json_text(head, "tool", "mori_kv_perf");
    perf_json_text(head, "version", PACKAGE_VERSION);
    perf_json_text(head, "ucx", ucx);
    perf_date(date, sizeof(date));
    perf_json_text(head, "date", date);
    if (uname(&system) == 0) {
        perf_json_text(head, "host", system.nodename);
        perf_json_text(head, "kernel", system.release);
    }
    perf_json_text(head, "op", perf_op_name(options->op));
    perf_json_text(head, "api", perf_api_name(options->api));
    perf_json_text(head, "workload",
                   (options->model != NULL) ? options->model : "a sweep");
    perf_json_u64(head, "layer_us", options->layer_us);
    json_object_object_add(head, "command", command);
    json_object_object_add(head, "environment", perf_json_environment());
    json_object_object_add(head, "rows", json_object_new_array());
    return head;
}

/* ---- The table ------------------------------------------------------------------- */

/* A column for each, in this order */
enum {
    PERF_COL_BLOCK,
    PERF_COL_BATCH,
    PERF_COL_RATE,
    PERF_COL_LATENCY,
    PERF_COL_PREP,
    PERF_COL_PREP_P99,
    PERF_COL_POST,
    PERF_COL_POST_P99,
    PERF_COL_TX,
    PERF_COL_TX_P50,
    PERF_COL_TX_P99,
    PERF_COL_TX_P999,
    PERF_COL_CPU,
    PERF_COL_DESCS,
    PERF_COL_MERGED,
    PERF_NUM_COLS
};

/* Narrow columns leave room for a note */
static const perf_column_t perf_columns[PERF_NUM_COLS] = {
    [PERF_COL_BLOCK] = {"Block Size", "B", 10, 0, false},
    [PERF_COL_BATCH] = {"Batch Size", "pieces", 10, 0, false},
    [PERF_COL_RATE] = {"B/W", "GB/s", 8, 3, false},
    [PERF_COL_LATENCY] = {"Avg Lat.", "us", 9, 3, false},
    [PERF_COL_PREP] = {"Avg Prep", "us", 10, 1, true},
    [PERF_COL_PREP_P99] = {"P99 Prep", "us", 10, 1, true},
    [PERF_COL_POST] = {"Avg Post", "us", 10, 1, true},
    [PERF_COL_POST_P99] = {"P99 Post", "us", 10, 1, true},
    [PERF_COL_TX] = {"Avg Tx", "us", 10, 1, false},
    [PERF_COL_TX_P50] = {"P50 Tx", "us", 10, 1, true},
    [PERF_COL_TX_P99] = {"P99 Tx", "us", 10, 1, false},
    [PERF_COL_TX_P999] = {"P999 Tx", "us", 10, 1, true},
    [PERF_COL_CPU] = {"CPU", "ns/block", 9, 1, false},
    [PERF_COL_DESCS] = {"Descs before", "pieces", 12, 0, true},
    [PERF_COL_MERGED] = {"Descs after", "pieces", 12, 0, true},
};

/* Tables of other projects' benchmarks, with their column names */
enum {
    PERF_BENCH_BLOCK,
    PERF_BENCH_BATCH,
    PERF_BENCH_TOTAL,
    PERF_BENCH_MAX_RATE,
    PERF_BENCH_RATE,
    PERF_BENCH_GBIT,
    PERF_BENCH_OPS,
    PERF_BENCH_MIN,
    PERF_BENCH_MEAN,
    PERF_BENCH_TIME,
    PERF_BENCH_P99,
    PERF_NUM_BENCH
};

static const perf_column_t perf_bench_columns[PERF_NUM_BENCH] = {
    [PERF_BENCH_BLOCK] = {"MsgSize", "B", 10, 0, false},
    [PERF_BENCH_BATCH] = {"BatchSize", "", 9, 0, false},
    [PERF_BENCH_TOTAL] = {"TotalSize", "MB", 9, 2, false},
    [PERF_BENCH_MAX_RATE] = {"Max BW", "GB/s", 8, 2, false},
    [PERF_BENCH_RATE] = {"Avg BW", "GB/s", 8, 2, false},
    [PERF_BENCH_GBIT] = {"Rate", "Gbit/s", 8, 1, false},
    [PERF_BENCH_OPS] = {"Writes", "M op/s", 8, 3, false},
    [PERF_BENCH_MIN] = {"Min Lat", "us", 10, 2, false},
    [PERF_BENCH_MEAN] = {"Avg Lat", "us", 10, 2, false},
    [PERF_BENCH_TIME] = {"Time", "ms", 10, 3, false},
    [PERF_BENCH_P99] = {"P99", "ms", 10, 3, false},
};

/* Which of these a format has, a bit each */
#define PERF_BIT(_column) (1u << PERF_BENCH_##_column)
static const unsigned perf_bench_formats[] = {
    [PERF_FORMAT_MORI] = PERF_BIT(BLOCK) | PERF_BIT(BATCH) | PERF_BIT(TOTAL) |
                         PERF_BIT(MAX_RATE) | PERF_BIT(RATE) | PERF_BIT(MIN) |
                         PERF_BIT(MEAN),
    [PERF_FORMAT_PAGES] =
        PERF_BIT(BLOCK) | PERF_BIT(BATCH) | PERF_BIT(GBIT) | PERF_BIT(OPS),
    [PERF_FORMAT_TIME] = PERF_BIT(BLOCK) | PERF_BIT(BATCH) | PERF_BIT(TOTAL) |
                         PERF_BIT(RATE) | PERF_BIT(TIME) | PERF_BIT(P99),
};

static size_t perf_bench_select(perf_format_t format, perf_column_t *columns,
                                perf_cell_t *cells)
{
    size_t i, num = 0;

    for (i = 0; i < PERF_NUM_BENCH; ++i) {
        if (perf_bench_formats[format] & (1u << i)) {
            columns[num] = perf_bench_columns[i];
            cells[num++] = cells[i];
        }
    }
    return num;
}

static void perf_bench_cells(const perf_result_t *result, perf_cell_t *cells)
{
    const double bytes =
        perf_ratio((double)result->bytes, (double)result->num_requests);
    const double wall = (double)result->wall_ns;

    cells[PERF_BENCH_BLOCK].number = (double)result->block_size;
    cells[PERF_BENCH_BATCH].number =
        perf_ratio((double)result->num_descs, (double)result->num_requests);
    cells[PERF_BENCH_TOTAL].number = bytes / 1e6;
    cells[PERF_BENCH_MAX_RATE].number = perf_ratio(bytes, (double)result->tx.min);
    cells[PERF_BENCH_RATE].number = perf_ratio((double)result->bytes, wall);
    cells[PERF_BENCH_GBIT].number = 8 * perf_ratio((double)result->bytes, wall);
    cells[PERF_BENCH_OPS].number = 1e3 * perf_ratio((double)result->num_descs, wall);
    cells[PERF_BENCH_MIN].number = perf_us((double)result->tx.min);
    cells[PERF_BENCH_MEAN].number = perf_us(perf_histogram_mean(&result->tx));
    cells[PERF_BENCH_TIME].number = perf_us(perf_histogram_mean(&result->tx)) / 1e3;
    cells[PERF_BENCH_P99].number =
        perf_us((double)perf_histogram_permille(&result->tx, 990)) / 1e3;
}

/* Print a row in the benchmark's own format, with the table's head before the first. */
static void perf_report_bench(const perf_report_t *report, const perf_result_t *result)
{
    const perf_benchmark_t *benchmark = perf_benchmark_find(report->options->benchmark);
    perf_cell_t cells[PERF_NUM_BENCH] = {0};
    perf_column_t columns[PERF_NUM_BENCH];
    perf_table_t table = {columns, 0, false};
    char note[64];

    perf_bench_cells(result, cells);
    table.num_columns = perf_bench_select(benchmark->format, columns, cells);
    if (report->num_rows == 0) {
        perf_table_text(&table, benchmark->about);
        perf_table_head(&table);
    }
    snprintf(note, sizeof(note), "%s%s%s", result->label,
             ((result->label[0] != '\0') && result->is_checked) ? ", " : "",
             result->is_checked ? "every byte checked" : "");
    perf_table_row(&table, cells, note);
}

static perf_table_t perf_report_table(const perf_report_t *report)
{
    return (perf_table_t){perf_columns, PERF_NUM_COLS, report->options->is_wide};
}

/* Where and when */
static void perf_report_place(const perf_table_t *table, const char *ucx)
{
    struct utsname system;
    char date[32], text[256];

    perf_date(date, sizeof(date));
    snprintf(text, sizeof(text), "mori_kv_perf %s | host %s | UCX %s | %s",
             PACKAGE_VERSION, (uname(&system) == 0) ? system.nodename : "?", ucx, date);
    perf_table_text(table, text);
}

static void perf_report_model(const perf_table_t *table, const perf_options_t *options)
{
    char text[512], blocks[32];

    snprintf(blocks, sizeof(blocks), "%u", options->block_tokens);
    if (options->decode_block_tokens != options->block_tokens) {
        snprintf(blocks, sizeof(blocks), "%u to %u", options->block_tokens,
                 options->decode_block_tokens);
    }
    snprintf(
        text, sizeof(text),
        "model %s | tp %u | block %s tokens | dtype %s | requests %u from %s | post %s",
        options->model, options->tp, blocks, options->dtype, options->num_requests,
        (options->trace != NULL) ? options->trace : "generator",
        (options->post == PERF_POST_LAYER) ? "by layer" : "all at once");
    perf_table_text(table, text);
}

static void perf_report_sweep(const perf_table_t *table, const perf_options_t *options)
{
    char text[128];

    snprintf(text, sizeof(text), "scheme %s | targets %u%s",
             perf_scheme_name(options->scheme), options->num_target_dev,
             (options->scheme == PERF_SCHEME_PINGPONG)
                 ? " | Tx: put and notification, half a round trip"
                 : "");
    perf_table_text(table, text);
}

static void perf_report_header(const perf_report_t *report, const perf_result_t *result)
{
    const perf_options_t *options = report->options;
    const perf_table_t table = perf_report_table(report);
    char text[sizeof(result->path) + 512];
    double link;

    perf_report_place(&table, report->ucx);
    snprintf(text, sizeof(text), "op %s | api %s | initiator %s (%s) | target %s",
             perf_op_name(options->op), perf_api_name(options->api),
             perf_segment_name(options->initiator_segment), result->device,
             perf_segment_name(options->target_segment));
    perf_table_text(&table, text);
    if (options->is_memory_chosen &&
        (options->initiator_segment == PERF_SEGMENT_DRAM)) {
        perf_table_text(&table,
                        "host memory, as this machine has no AMD GPU (/dev/kfd); "
                        "--initiator_seg_type and --target_seg_type select it");
    }
    snprintf(text, sizeof(text), "path %s", result->path);
    perf_table_text(&table, text);
    link = perf_report_link(options, result);
    if (link > 0) {
        snprintf(text, sizeof(text), "link %.1f GB/s in one direction", link);
        perf_table_text(&table, text);
    }
    if (options->model != NULL) {
        perf_report_model(&table, options);
    } else {
        perf_report_sweep(&table, options);
    }
    if (options->benchmark == NULL) {
        perf_table_head(&table);
    }
}

static void perf_cells_histogram(perf_cell_t *avg, perf_cell_t *p99,
                                 const perf_histogram_t *histogram)
{
    avg->number = perf_us(perf_histogram_mean(histogram));
    p99->number = perf_us((double)perf_histogram_permille(histogram, 990));
}

static void perf_report_cells(const perf_result_t *result, perf_cell_t *cells)
{
    const double descs = (double)result->num_descs, wall = (double)result->wall_ns;

    cells[PERF_COL_BLOCK].number = (double)result->block_size;
    cells[PERF_COL_BATCH].number = perf_ratio(descs, (double)result->num_requests);
    cells[PERF_COL_RATE].number = perf_ratio((double)result->bytes, wall);
    cells[PERF_COL_LATENCY].number = perf_us(perf_ratio(wall, descs));
    perf_cells_histogram(&cells[PERF_COL_PREP], &cells[PERF_COL_PREP_P99],
                         &result->prep);
    perf_cells_histogram(&cells[PERF_COL_POST], &cells[PERF_COL_POST_P99],
                         &result->post);
    perf_cells_histogram(&cells[PERF_COL_TX], &cells[PERF_COL_TX_P99], &result->tx);
    cells[PERF_COL_TX_P50].number =
        perf_us((double)perf_histogram_permille(&result->tx, 500));
    cells[PERF_COL_TX_P999].number =
        perf_us((double)perf_histogram_permille(&result->tx, 999));
    cells[PERF_COL_CPU].number = perf_ratio((double)result->cpu_ns, descs);
    cells[PERF_COL_DESCS].number = descs;
    cells[PERF_COL_MERGED].number = (double)result->num_merged;
}

static void perf_report_ends(const char *way, const perf_ends_t *ends)
{
    if (ends->num_flows > 1) {
        printf("  first of %" PRIu64 "%s ends at %.0f %%", ends->num_flows, way,
               100 * perf_ratio((double)ends->first_ns, (double)ends->last_ns));
    }
}

/* A line of its own, when there are several flows */
static void perf_report_flows(const perf_result_t *result)
{
    perf_report_ends("", &result->there);
    perf_report_ends((result->there.num_flows > 0) ? " back" : "", &result->back);
    if ((result->there.num_flows > 1) || (result->back.num_flows > 1)) {
        putchar('\n');
        fflush(stdout);
    }
}

/* Share of all pieces of layers that take time to compute; the last layer's move
 * afterwards. */
static void perf_report_overlap(const perf_report_t *report,
                                const perf_result_t *result)
{
    if ((report->options->layer_us != 0) && (result->num_posted > 0)) {
        printf("  overlap %.3f: moved before the last of %u layers was computed\n",
               perf_ratio((double)result->num_beside, (double)result->num_posted),
               result->num_layers);
        fflush(stdout);
    }
}

void perf_report_row(perf_report_t *report, const perf_result_t *result)
{
    const perf_table_t table = perf_report_table(report);
    perf_cell_t cells[PERF_NUM_COLS] = {0};

    if (report->num_rows == 0) {
        perf_report_header(report, result);
    }
    if (report->options->benchmark != NULL) {
        perf_report_bench(report, result);
    } else {
        perf_report_cells(result, cells);
        perf_table_row(&table, cells, result->is_checked ? "every byte checked" : "");
    }
    perf_report_flows(result);
    perf_report_overlap(report, result);
    if (report->json != NULL) {
        json_object_array_add(json_object_object_get(report->json, "rows"),
                              perf_json_row(report->options, result));
    }
    ++report->num_rows;
}

int perf_report_open(const perf_options_t *options, const char *ucx, int argc,
                     char **argv, perf_report_t *report)
{
    report->options = options;
    report->ucx = ucx;
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
    report->json = perf_json_head(options, argc, argv, ucx);
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
