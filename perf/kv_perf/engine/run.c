/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/engine/run.h"
#include "perf/base/error.h"
#include "perf/base/interrupt.h"
#include "perf/kv_perf/report/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>


/* After SIGINT the others send their part of the row at once or not at all. */
enum { PERF_LAST_WORDS_S = 20 };

/* The least --timeout is a second. */
#define PERF_GOING_NS UINT64_C(250000000)

static bool perf_run_is_center(const perf_run_t *run)
{
    return run->rank == 0;
}

void perf_run_phase(const perf_run_t *run, const char *what)
{
    if (perf_run_is_center(run)) {
        perf_progress_phase(what);
    }
}

void perf_run_going(perf_run_t *run, uint64_t now_ns)
{
    unsigned i;

    if (now_ns < run->going_ns) {
        return;
    }
    run->going_ns = now_ns + PERF_GOING_NS;
    for (i = 0; i < run->num_channels; ++i) {
        perf_channel_notify_progress(&run->channels[i]);
    }
}

int perf_run_barrier(perf_run_t *run, perf_idle_t idle, void *arg)
{
    perf_channel_type_t mine, other;
    unsigned i;

    mine = perf_run_is_center(run) ? PERF_CHANNEL_START : PERF_CHANNEL_READY;
    other = perf_run_is_center(run) ? PERF_CHANNEL_READY : PERF_CHANNEL_START;
    for (i = 0; perf_run_is_center(run) && (i < run->num_channels); ++i) {
        if (perf_channel_recv(&run->channels[i], other, NULL, 0, NULL, idle, arg) !=
            0) {
            return -1;
        }
    }
    for (i = 0; i < run->num_channels; ++i) {
        if (perf_channel_send(&run->channels[i], mine, NULL, 0) != 0) {
            return -1;
        }
    }
    return perf_run_is_center(run)
               ? 0
               : perf_channel_recv(&run->channels[0], other, NULL, 0, NULL, idle, arg);
}

/* A shared lock is granted when no process has the exclusive one. */
static int perf_run_wait_for_lock(const char *path)
{
    int fd, ret;

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        perf_error("--start_lock is '%s', which cannot be opened: %m; expected a file",
                   path);
        return -1;
    }

    do {
        ret = flock(fd, LOCK_SH);
    } while ((ret != 0) && (errno == EINTR));
    if (ret != 0) {
        perf_error("--start_lock is '%s', which cannot be locked: %m", path);
    }
    close(fd);
    return ret;
}

int perf_run_start(perf_run_t *run, perf_idle_t idle, void *arg)
{
    const char *path = run->options->start_lock;

    if ((perf_run_barrier(run, idle, arg) != 0) ||
        (perf_run_is_center(run) && (path != NULL) &&
         (perf_run_wait_for_lock(path) != 0))) {
        return -1;
    }
    return perf_run_barrier(run, idle, arg);
}

static int perf_run_gather(perf_run_t *run, perf_result_t *result, perf_result_t *other,
                           perf_idle_t idle, void *arg)
{
    unsigned i;

    for (i = 0; i < run->num_channels; ++i) {
        if (perf_is_interrupted) { /* the other process may have nothing left to send */
            run->channels[i].is_last = true;
            run->channels[i].timeout_s = PERF_LAST_WORDS_S;
        }
        if (perf_channel_recv(&run->channels[i], PERF_CHANNEL_RESULT, other,
                              sizeof(*other), NULL, idle, arg) != 0) {
            return -1;
        }
        perf_result_merge(result, other);
    }

    perf_progress_clear();
    if (result->num_requests == 0) {
        perf_error("nothing was measured: no request was moved");
        return -1;
    }
    perf_report_row(run->report, result);
    return 0;
}

int perf_run_report(perf_run_t *run, perf_result_t *result, perf_idle_t idle, void *arg)
{
    perf_result_t *other;
    int ret;

    if (!perf_run_is_center(run)) {
        return perf_channel_send(&run->channels[0], PERF_CHANNEL_RESULT, result,
                                 sizeof(*result));
    }

    other = malloc(sizeof(*other));
    if (other == NULL) {
        perf_error("no memory for a result");
        return -1;
    }
    ret = perf_run_gather(run, result, other, idle, arg);
    free(other);
    return ret;
}
