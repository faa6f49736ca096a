/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/launch.h"
#include "perf/workload/error.h"
#include "perf/workload/options.h"
#include "perf/kv_perf/run.h"
#include "src/morikv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>


/* Both sides must mean the same run; on one host they do unless the parent erred. */
static int perf_agree(perf_run_t *run)
{
    char mine[1024], other[sizeof(mine)];
    unsigned i;

    memset(mine, 0, sizeof(mine));
    perf_options_agreement(run->options, mine, sizeof(mine));
    for (i = 0; i < run->num_channels; ++i) {
        if ((perf_channel_send(&run->channels[i], PERF_CHANNEL_AGREEMENT, mine,
                               sizeof(mine)) != 0) ||
            (perf_channel_recv(&run->channels[i], PERF_CHANNEL_AGREEMENT, other,
                               sizeof(other), NULL, NULL, NULL) != 0)) {
            return -1;
        }
        if (memcmp(mine, other, sizeof(mine)) != 0) {
            other[sizeof(other) - 1] = '\0';
            perf_error("the two sides run different things; here: %s; there: %s", mine,
                       other);
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
    if ((run->rank == 0) && (perf_report_close(&report) != 0)) {
        ret = -1;
    }
    return ret;
}

/* One of the processes that do the work. */
static int perf_run(const perf_options_t *options, int argc, char **argv)
{
    perf_run_t run = {.options = options, .rank = options->rank};
    char prefix[64];
    unsigned i;
    int ret = -1;

    snprintf(prefix, sizeof(prefix), (run.rank > 1) ? "%s %u)" : "%s)",
             (run.rank == 0) ? "mori_kv_perf(prefill" : "mori_kv_perf(decode",
             run.rank);
    perf_message_prefix(prefix);
    if (perf_launch_channels(options, run.channels, &run.num_channels) != 0) {
        return -1;
    }

    if ((perf_agree(&run) == 0) &&
        (perf_memory_open((run.rank == 0) ? options->initiator_segment
                                          : options->target_segment,
                          options->hip_library, &run.memory) == 0)) {
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

    if ((argc == 2) && !strcmp(argv[1], "--config")) {
        mkv_config_help(perf_print_line, NULL);
        return EXIT_SUCCESS;
    }
    ret = perf_options_parse(argc, argv, &options);
    if (ret <= 0) {
        return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
    }

    ret = (options.role == PERF_ROLE_PARENT) ? perf_launch(&options, argc, argv)
                                             : perf_run(&options, argc, argv);
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
