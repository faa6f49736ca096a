/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/report/progress.h"
#include "perf/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>


enum {
    PERF_PROGRESS_WIDTH = 30,
    PERF_PROGRESS_PERIOD_NS = 100000000,
    PERF_PROGRESS_LINE_NS = 1000000000
};

static struct {
    uint64_t first_ns; /* 0: nothing was shown */
    uint64_t next_ns;
    uint64_t last_ns, last_bytes; /* for the rate */
    double rate;
    bool is_known; /* whether there is a terminal: once, it is a system call */
    bool is_terminal;
    bool is_wanted;
    bool is_shown;
} perf_progress;


void perf_progress_request(void)
{
    perf_progress.is_wanted = true;
}

bool perf_progress_is_on(void)
{
    if (!perf_progress.is_known) {
        perf_progress.is_known = true;
        perf_progress.is_terminal = isatty(STDERR_FILENO);
    }
    return perf_progress.is_terminal || perf_progress.is_wanted;
}

static double perf_progress_fraction(const perf_position_t *position)
{
    double part =
        (position->whole == 0) ? 0.0 : (double)position->part / (double)position->whole;
    double fraction = ((double)position->done + part) / (double)position->total;

    return (fraction > 1.0) ? 1.0 : fraction;
}

void perf_progress_text(const perf_position_t *position, uint64_t elapsed_ns,
                        double rate, char *text, size_t size)
{
    double fraction = perf_progress_fraction(position);
    int filled = (int)(fraction * PERF_PROGRESS_WIDTH), used;
    uint64_t left_s;

    used = snprintf(text, size, "%s [%.*s%*s] %" PRIu64 "/%" PRIu64, position->what,
                    filled, "##############################",
                    PERF_PROGRESS_WIDTH - filled, "", position->done, position->total);
    if ((rate > 0) && (used > 0) && ((size_t)used < size)) {
        used += snprintf(text + used, size - (size_t)used, ", %.3g GB/s", rate / 1e9);
    }
    if ((fraction > 0) && (used > 0) && ((size_t)used < size)) {
        left_s = (uint64_t)((double)elapsed_ns / 1e9 * (1 / fraction - 1) + 0.5);
        snprintf(text + used, size - (size_t)used, ", %" PRIu64 ":%02" PRIu64 " left",
                 left_s / 60, left_s % 60);
    }
}

/* Whether to print: often on a terminal, where the line is redrawn, else once a
 * second. */
static bool perf_progress_is_due(uint64_t now_ns)
{
    if (!perf_progress_is_on() || (now_ns < perf_progress.next_ns)) {
        return false;
    }
    perf_progress.next_ns =
        now_ns +
        (perf_progress.is_terminal ? PERF_PROGRESS_PERIOD_NS : PERF_PROGRESS_LINE_NS);
    return true;
}

static void perf_progress_print(const char *text)
{
    fprintf(stderr, perf_progress.is_terminal ? "\r\033[K%s" : "%s\n", text);
    perf_progress.is_shown = perf_progress.is_terminal;
}

void perf_progress_phase(const char *what)
{
    perf_progress.next_ns = 0;
    if (perf_progress_is_due(perf_clock_ns())) {
        perf_progress_print(what);
    }
    perf_progress.next_ns = 0;
}

void perf_progress_show(const perf_position_t *position)
{
    uint64_t now_ns = perf_progress_is_on() ? perf_clock_ns() : 0;
    char text[128];

    if ((now_ns == 0) || (position->total == 0)) {
        return;
    }
    if (perf_progress.first_ns == 0) {
        perf_progress.first_ns = perf_progress.last_ns = now_ns;
    }
    if (!perf_progress_is_due(now_ns)) {
        return;
    }
    if ((position->bytes >= perf_progress.last_bytes) &&
        (now_ns > perf_progress.last_ns)) {
        perf_progress.rate = (double)(position->bytes - perf_progress.last_bytes) *
                             1e9 / (double)(now_ns - perf_progress.last_ns);
    }
    perf_progress.last_ns = now_ns;
    perf_progress.last_bytes = position->bytes;
    perf_progress_text(position, now_ns - perf_progress.first_ns, perf_progress.rate,
                       text, sizeof(text));
    perf_progress_print(text);
}

void perf_progress_clear(void)
{
    if (perf_progress.is_shown) {
        fprintf(stderr, "\r\033[K");
        perf_progress.is_shown = false;
    }
}
