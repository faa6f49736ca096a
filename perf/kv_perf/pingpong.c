/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Rounds come in bursts. The resources of a request, transfers opened and exposed on
 * both sides, are prepared before a burst and released after it: an inference engine
 * prepares them while it computes the prompt, long before the blocks can move.
 */

#include "perf/kv_perf/pingpong.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"


enum {
    PERF_PINGPONG_BURST = 128,
    PERF_PINGPONG_CHECKED = 100,  /* rounds with a check of the bytes */
    PERF_PINGPONG_LOOKS = 1 << 16 /* polls between two reads of the clock */
};

/* The two flows of a process. */
typedef struct perf_pingpong {
    perf_sweep_t *sweep;
    perf_flow_t *mine, *theirs;
} perf_pingpong_t;


static void perf_pingpong_init(perf_pingpong_t *pingpong, perf_sweep_t *sweep)
{
    unsigned mine = sweep->flows[0].is_mine ? 0 : 1;

    pingpong->sweep = sweep;
    pingpong->mine = &sweep->flows[mine];
    pingpong->theirs = &sweep->flows[1 - mine];
}

/* Prepare rounds on both sides. */
static int perf_pingpong_begin(perf_pingpong_t *pingpong, uint64_t num)
{
    perf_sweep_t *sweep = pingpong->sweep;
    perf_flow_t *flow;

    ++sweep->next_job;
    for (flow = sweep->flows; flow < sweep->flows + 2; ++flow) {
        flow->num_posted = 0;
        flow->job.id = (sweep->next_job * PERF_MAX_FLOWS + flow->number) << 32;
        flow->job.num_posts = num;
        flow->job.num_completed = flow->job.num_arrived = 0;
        flow->job.prep_ns = 0; /* of the last burst's plan */
    }
    return ((perf_sweep_each(sweep, false, sweep->ops->serve) == 0) &&
            (perf_sweep_barrier(sweep) == 0) &&
            (perf_sweep_each(sweep, true, sweep->ops->start) == 0) &&
            (perf_sweep_barrier(sweep) == 0))
               ? 0
               : -1;
}

static int perf_pingpong_end(perf_pingpong_t *pingpong)
{
    perf_sweep_t *sweep = pingpong->sweep;

    return ((perf_sweep_each(sweep, true, sweep->ops->stop) == 0) &&
            (perf_sweep_barrier(sweep) == 0) &&
            (perf_sweep_each(sweep, false, sweep->ops->unserve) == 0))
               ? 0
               : -1;
}

/* Wait until the other process has sent that many notifications. */
static int perf_pingpong_wait(perf_pingpong_t *pingpong, uint64_t num)
{
    perf_sweep_t *sweep = pingpong->sweep;
    uint64_t timeout_s = sweep->options->timeout_s, deadline_ns = 0, now_ns;
    unsigned num_looks = 0;

    while (pingpong->theirs->job.num_arrived < num) {
        if (sweep->ops->progress(sweep->engine) != 0) {
            return -1;
        }
        if (++num_looks % PERF_PINGPONG_LOOKS != 0) {
            continue;
        }
        now_ns = perf_clock_ns();
        if (deadline_ns == 0) {
            deadline_ns = now_ns + timeout_s * UINT64_C(1000000000);
        } else if (now_ns > deadline_ns) {
            perf_error(
                "no notification came from the other process for %u s; see --timeout",
                sweep->options->timeout_s);
            return -1;
        }
    }
    return 0;
}

/* ---- Measuring ------------------------------------------------------------------- */

static int perf_pingpong_round(perf_pingpong_t *pingpong, uint64_t round, bool is_timed)
{
    uint64_t warmup = is_timed ? 0 : UINT64_MAX;
    perf_sweep_t *sweep = pingpong->sweep;

    if (sweep->run->rank != 0) {
        return ((perf_pingpong_wait(pingpong, round + 1) == 0) &&
                (perf_flow_post(sweep, pingpong->mine, warmup) == 0))
                   ? 0
                   : -1;
    }

    if ((perf_flow_post(sweep, pingpong->mine, warmup) != 0) ||
        (perf_pingpong_wait(pingpong, round + 1) != 0)) {
        return -1;
    }
    if (is_timed) {
        perf_histogram_add(&sweep->result.tx,
                           (perf_clock_ns() - pingpong->mine->posted_ns[0]) / 2);
    }
    return 0;
}

static int perf_pingpong_burst(perf_pingpong_t *pingpong, uint64_t num, bool is_timed)
{
    perf_sweep_t *sweep = pingpong->sweep;
    uint64_t start_ns, cpu_ns, round;

    if (perf_pingpong_begin(pingpong, num) != 0) {
        return -1;
    }

    cpu_ns = sweep->ops->cpu_ns(sweep->engine);
    start_ns = perf_clock_ns();
    for (round = 0; round < num; ++round) {
        if (perf_pingpong_round(pingpong, round, is_timed) != 0) {
            return -1;
        }
    }
    if (is_timed) {
        sweep->result.wall_ns += perf_clock_ns() - start_ns;
        sweep->result.cpu_ns += sweep->ops->cpu_ns(sweep->engine) - cpu_ns;
    }
    return perf_pingpong_end(pingpong);
}

static int perf_pingpong_rounds(perf_pingpong_t *pingpong, uint64_t total,
                                bool is_timed)
{
    uint64_t num, done;

    for (done = 0; done < total; done += num) {
        num = total - done;
        num = (num > PERF_PINGPONG_BURST) ? PERF_PINGPONG_BURST : num;
        if (perf_pingpong_burst(pingpong, num, is_timed) != 0) {
            return -1;
        }
    }
    return 0;
}

int perf_pingpong_measure(perf_sweep_t *sweep, uint32_t batch, uint64_t num_iter,
                          uint64_t warmup)
{
    perf_pingpong_t pingpong;

    perf_pingpong_init(&pingpong, sweep);
    if ((perf_pingpong_rounds(&pingpong, warmup, false) != 0) ||
        (perf_pingpong_rounds(&pingpong, num_iter, true) != 0)) {
        return -1;
    }
    perf_sweep_account(sweep, batch, num_iter, warmup);
    return 0;
}

/* ---- Checking -------------------------------------------------------------------- */

static int perf_pingpong_send_checked(perf_pingpong_t *pingpong, perf_pool_t *pool,
                                      uint32_t batch, uint64_t round)
{
    perf_sweep_t *sweep = pingpong->sweep;

    return ((perf_sweep_fill(sweep, pool, batch, round, true) == 0) &&
            (perf_flow_post(sweep, pingpong->mine, UINT64_MAX) == 0))
               ? 0
               : -1;
}

/* The bytes must be new at the notification, not some time after it. */
static int perf_pingpong_receive_checked(perf_pingpong_t *pingpong, perf_pool_t *pool,
                                         uint32_t batch, uint64_t round)
{
    return ((perf_pingpong_wait(pingpong, round + 1) == 0) &&
            (perf_sweep_fill(pingpong->sweep, pool, batch, round, false) == 0) &&
            (perf_pool_check(pool, pingpong->theirs->local, batch) == 0))
               ? 0
               : -1;
}

static int perf_pingpong_round_checked(perf_pingpong_t *pingpong, perf_pool_t *pool,
                                       uint32_t batch, uint64_t round)
{
    bool is_first = (pingpong->sweep->run->rank == 0);

    if (is_first && (perf_pingpong_send_checked(pingpong, pool, batch, round) != 0)) {
        return -1;
    }
    if (perf_pingpong_receive_checked(pingpong, pool, batch, round) != 0) {
        return -1;
    }
    return is_first ? 0 : perf_pingpong_send_checked(pingpong, pool, batch, round);
}

int perf_pingpong_check(perf_sweep_t *sweep, perf_pool_t *pool, uint32_t batch)
{
    perf_pingpong_t pingpong;
    uint64_t round;

    perf_pingpong_init(&pingpong, sweep);
    if (perf_pingpong_begin(&pingpong, PERF_PINGPONG_CHECKED) != 0) {
        return -1;
    }
    for (round = 0; round < PERF_PINGPONG_CHECKED; ++round) {
        if (perf_pingpong_round_checked(&pingpong, pool, batch, round) != 0) {
            return -1;
        }
    }
    return perf_pingpong_end(&pingpong);
}
