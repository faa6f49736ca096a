/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/progress.h"
#include "perf/workload/clock.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>


enum { PERF_PROGRESS_WIDTH = 40, PERF_PROGRESS_PERIOD_NS = 100000000 };

static struct {
    uint64_t next_ns;
    bool is_asked; /* whether there is a terminal */
    bool is_terminal;
    bool is_shown;
} perf_progress;


void perf_progress_show(const char *what, uint64_t done, uint64_t total)
{
    uint64_t now_ns;
    int filled;

    if (!perf_progress.is_asked) { /* once: it is a system call */
        perf_progress.is_asked = true;
        perf_progress.is_terminal = isatty(STDERR_FILENO);
    }
    if (!perf_progress.is_terminal || (total == 0)) {
        return;
    }
    now_ns = perf_clock_ns();
    if ((now_ns < perf_progress.next_ns) && (done < total)) {
        return;
    }

    perf_progress.next_ns = now_ns + PERF_PROGRESS_PERIOD_NS;
    perf_progress.is_shown = true;
    filled = (int)(done * PERF_PROGRESS_WIDTH / total);
    fprintf(stderr, "\r\033[K%s [%.*s%*s] %" PRIu64 "/%" PRIu64, what, filled,
            "########################################", PERF_PROGRESS_WIDTH - filled,
            "", done, total);
}

void perf_progress_clear(void)
{
    if (perf_progress.is_shown) {
        fprintf(stderr, "\r\033[K");
        perf_progress.is_shown = false;
    }
}
