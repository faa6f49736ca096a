/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/launch.h"
#include "perf/base/error.h"
#include "perf/base/interrupt.h"
#include "perf/base/leave.h"
#include "perf/workload/model.h"
#include "perf/workload/options.h"
#include "perf/kv_perf/report/progress.h"
#include "perf/kv_perf/engine/run.h"
#include "src/morikv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>


enum { PERF_AGREEMENT = 4096 };

/* Both sides must have the same options; on one host a difference is the parent's
 * fault. */
static int perf_agree_with(perf_channel_t *channel, const char *mine, char *other)
{
    char text[512];

    if ((perf_channel_send(channel, PERF_CHANNEL_AGREEMENT, mine, PERF_AGREEMENT) !=
         0) ||
        (perf_channel_recv(channel, PERF_CHANNEL_AGREEMENT, other, PERF_AGREEMENT, NULL,
                           NULL, NULL) != 0)) {
        return -1;
    }
    other[PERF_AGREEMENT - 1] = '\0';
    if (perf_options_differ(mine, other, text, sizeof(text))) {
        perf_error("the two sides have different options: %s", text);
        return -1;
    }
    return 0;
}

/* When both sides of a connection fail, the center prints the error, unless a leaf's
 * notification arrives first. */
enum { PERF_CENTER_SPEAKS_MS = 5000 };

/* Whether another process has printed its error, or the run was interrupted. If not,
 * notify all others that this process prints its own. */
static bool perf_is_error_elsewhere(void *arg)
{
    perf_run_t *run = arg;
    unsigned i;

    for (i = 0; i < run->num_channels; ++i) {
        if (perf_channel_is_error(&run->channels[i], 0)) {
            return true;
        }
    }
    for (i = 0; i < run->num_channels; ++i) {
        perf_channel_notify_error(&run->channels[i]);
    }
    if ((run->rank != 0) &&
        perf_channel_is_error(&run->channels[0], PERF_CENTER_SPEAKS_MS)) {
        return true;
    }
    return perf_is_interrupted; /* meanwhile, as the process that ended first */
}

static int perf_agree(perf_run_t *run)
{
    char mine[PERF_AGREEMENT] = "", other[PERF_AGREEMENT];
    unsigned i;

    perf_options_agreement(run->options, mine, sizeof(mine));
    for (i = 0; i < run->num_channels; ++i) {
        if (perf_agree_with(&run->channels[i], mine, other) != 0) {
            return -1;
        }
    }
    return 0;
}

static int perf_run_with_report(perf_run_t *run, int argc, char **argv)
{
    perf_report_t report;
    int ret;

    if (run->rank == 0) {
        if (perf_report_open(run->options, ucp_get_version_string(), argc, argv,
                             &report) != 0) {
            return -1;
        }
        run->report = &report;
    }

    ret = (run->options->model != NULL) ? perf_model_run(run) : perf_sweep_run(run);
    if (run->rank != 0) {
        return ret;
    }
    perf_progress_clear();
    if (perf_is_interrupted) {
        fprintf(stderr,
                "mori_kv_perf: interrupted; %u complete rows are in the output\n",
                report.num_rows);
    }
    if (perf_report_close(&report) != 0) {
        ret = -1;
    }
    return ret;
}

/* Main function of a working process. */
static int perf_run(const perf_options_t *options, int argc, char **argv)
{
    perf_run_t run = {.options = options, .rank = options->rank};
    char prefix[64];
    unsigned i;
    int ret = -1;

    snprintf(prefix, sizeof(prefix), (run.rank > 1) ? "%s %u)" : "%s)",
             perf_options_is_prefill(options, run.rank) ? "mori_kv_perf(prefill"
                                                        : "mori_kv_perf(decode",
             run.rank);
    perf_message_prefix(prefix);
    perf_interrupt_catch();
    if (perf_launch_channels(options, run.channels, &run.num_channels) != 0) {
        return -1;
    }

    if (options->fds != NULL) { /* the sides share a terminal */
        perf_message_first_only(perf_is_error_elsewhere, &run);
    }
    if ((perf_agree(&run) == 0) &&
        (perf_memory_open(perf_options_is_prefill(options, run.rank)
                              ? options->initiator_segment
                              : options->target_segment,
                          options->hip_library, &run.memory) == 0)) {
        perf_memory_set_gpu_type(run.memory, options->gpu_type);
        ret = perf_run_with_report(&run, argc, argv);
        perf_memory_close(run.memory);
    }
    for (i = 0; i < run.num_channels; ++i) {
        perf_channel_close(&run.channels[i]);
    }
    return ret;
}

static void perf_print_line(void *arg, const char *line)
{
    (void)arg;
    puts(line);
}

int main(int argc, char **argv)
{
    perf_options_t options;
    int ret;

    if ((argc == 2) && !strcmp(argv[1], "--list_models")) {
        perf_model_list(perf_print_line, NULL);
        return EXIT_SUCCESS;
    }
    if ((argc == 2) && !strcmp(argv[1], "--config")) {
        mkv_config_help(perf_print_line, NULL);
        return EXIT_SUCCESS;
    }
    ret = perf_options_parse(argc, argv, &options);
    if (ret <= 0) {
        return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
    }

    if (options.is_progress) {
        perf_progress_request();
    }
    if (options.role == PERF_ROLE_PARENT) {
        return perf_launch(&options, argc, argv);
    }
    if (options.fds == NULL) { /* --role; the parent does it for its children */
        perf_launch_environment(&options, options.rank);
    }
    ret = perf_run(&options, argc, argv);
    perf_leave(perf_is_interrupted ? PERF_EXIT_INTERRUPTED
               : (ret == 0)        ? EXIT_SUCCESS
                                   : EXIT_FAILURE);
}
