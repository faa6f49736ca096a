/* SPDX-License-Identifier: BSD-3-Clause */

/* Order in which posts go to UCX by priority, and the share left to later ones. */

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 8u /* blocks of a transfer, of one piece each in a layer's part */
#define PIECES (NUM * 4 * PAIR_PARTS)
#define CALLS (FAKE_UCP_PUT | FAKE_UCP_GET)

typedef struct job {
    mkv_xfer_t *active, *passive; /* of A and of B */
    mkv_plan_t *plan;
} job_t;

static mkv_mode_t mode;

static mkv_xfer_t *open_side(pair_side_t *side, unsigned other, uint64_t id,
                             mkv_role_t role, mkv_priority_t priority)
{
    const mkv_xfer_params_t params = {.size = sizeof(params),
                                      .id = id,
                                      .mode = mode,
                                      .role = role,
                                      .legs = &side->maps[other],
                                      .num_legs = 1,
                                      .priority = priority};
    mkv_xfer_t *xfer;

    OK(mkv_xfer_open(side->ctx, &params, &xfer));
    return xfer;
}

/* Transfer @a id moves blocks of its own */
static job_t post_blocks(uint64_t id, mkv_priority_t priority, uint32_t num)
{
    uint32_t first = (uint32_t)(id - 1) * NUM;
    job_t job;

    job.active = open_side(A, 1, id, (mode == MKV_WRITE) ? MKV_SRC : MKV_DST, priority);
    job.passive = open_side(B, 0, id, (mode == MKV_WRITE) ? MKV_DST : MKV_SRC,
                            MKV_PRIORITY_NORMAL);
    pair_expose(job.passive, first, num);
    pair_run();
    job.plan = pair_plan(A, 1, first, first, num, 0);
    OK(mkv_xfer_post(job.active, 0, job.plan, NULL, NULL));
    OK(mkv_xfer_seal(job.active, 0));
    pair_run();
    return job;
}

static job_t post(uint64_t id, mkv_priority_t priority)
{
    return post_blocks(id, priority, NUM);
}

static uint64_t calls(const job_t *job)
{
    return pair_query(job->active).num_ucp_calls;
}

/* Complete the calls in flight and hold the ones that follow */
static void end_calls(void)
{
    fake_ucp_hold(0);
    (void)mkv_progress(A->ctx);
    fake_ucp_hold(CALLS);
    pair_run();
}

static void finish(job_t *jobs, unsigned num)
{
    unsigned i;

    fake_ucp_hold(0);
    pair_run();
    for (i = 0; i < num; ++i) {
        ck_assert_int_eq(pair_query(jobs[i].active).state, MKV_XFER_DONE);
        ck_assert_uint_eq(calls(&jobs[i]), PIECES);
        pair_close(jobs[i].active, jobs[i].passive, jobs[i].plan);
    }
    pair_teardown();
}

static void setup(mkv_mode_t the_mode, const char *key, const char *limit)
{
    mode = the_mode;
    pair_set("SGL", "no");
    pair_set("READ_BY", "get");
    pair_set(key, limit);
    pair_setup();
    fake_ucp_hold(CALLS);
}

/* Loop index: mode */
/* XF-12 */
START_TEST(a_transfer_of_high_priority_goes_first)
{
    job_t jobs[3];

    setup(_i ? MKV_READ : MKV_WRITE, "MAX_INFLIGHT_OPS", "8");
    jobs[0] = post(1, MKV_PRIORITY_LOW);
    ck_assert_uint_eq(calls(&jobs[0]), 4); /* half of the credits */
    jobs[1] = post(2, MKV_PRIORITY_NORMAL);
    jobs[2] = post(3, MKV_PRIORITY_HIGH);
    ck_assert_uint_eq(calls(&jobs[1]), 4);
    ck_assert_uint_eq(calls(&jobs[2]), 0); /* none is left, but it is the next one */
    end_calls();
    ck_assert_uint_eq(calls(&jobs[2]), 8);
    while (calls(&jobs[2]) < PIECES) {
        ck_assert_uint_eq(calls(&jobs[1]), 4);
        end_calls();
    }
    ck_assert_uint_eq(calls(&jobs[0]), 4);
    while (calls(&jobs[1]) < PIECES) {
        ck_assert_uint_eq(calls(&jobs[0]), 4);
        end_calls();
    }
    finish(jobs, 3);
}
END_TEST

/* Loop index: of calls, of bytes */
/* XF-12 */
START_TEST(a_share_is_left_to_those_in_a_hurry)
{
    job_t jobs[2];

    mkv_tuning.normal_share = 75;
    setup(MKV_WRITE, _i ? "MAX_INFLIGHT_BYTES" : "MAX_INFLIGHT_OPS", _i ? "512" : "8");
    jobs[0] = post(1, MKV_PRIORITY_NORMAL);
    ck_assert_uint_eq(calls(&jobs[0]), 6); /* of 64 bytes each */
    jobs[1] = post(2, MKV_PRIORITY_HIGH);
    ck_assert_uint_eq(calls(&jobs[1]), 2);
    finish(jobs, 2);
}
END_TEST

/* A small control structure (AUX), in front of which all credits are taken and hundreds
 * of pieces wait. It comes behind the pieces in flight, not behind those that wait, so
 * that its time is bounded by the credits. A message waits for nothing at all. Loop
 * index 1: the control, of no higher priority */
/* AX-03 */
START_TEST(a_control_structure_passes_what_waits)
{
    uint64_t before = 0;
    job_t jobs[3], aux;
    unsigned i;

    setup(MKV_WRITE, "MAX_INFLIGHT_OPS", "8");
    for (i = 0; i < 3; ++i) {
        jobs[i] = post(i + 1, MKV_PRIORITY_NORMAL);
    }
    OK(mkv_send(A->peers[1], 1, 2, NULL, 0, "first token", 11));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_MSG, NULL), 1);
    ck_assert_uint_eq(pair_stats(A).elements_completed, 0);
    aux = post_blocks(4, _i ? MKV_PRIORITY_NORMAL : MKV_PRIORITY_HIGH, 1);
    while (pair_count(B, MKV_EV_DONE, aux.passive) == 0) {
        end_calls();
    }
    for (i = 0; i < 3; ++i) {
        before += calls(&jobs[i]);
    }
    if (_i) {
        ck_assert_uint_gt(before, 16);
    } else {
        ck_assert_uint_le(before, 16); /* in flight at its post, and at its flush */
    }
    fake_ucp_hold(0);
    pair_run();
    pair_close(aux.active, aux.passive, aux.plan);
    finish(jobs, 3);
}
END_TEST

/* Control: posts of equal priority take turns */
START_TEST(equals_take_turns)
{
    job_t jobs[2];

    setup(MKV_WRITE, "MAX_INFLIGHT_OPS", "8");
    jobs[0] = post(1, MKV_PRIORITY_NORMAL);
    jobs[1] = post(2, MKV_PRIORITY_NORMAL);
    ck_assert_uint_eq(calls(&jobs[0]), 8);
    end_calls();
    end_calls();
    ck_assert_uint_eq(calls(&jobs[0]), 16);
    ck_assert_uint_eq(calls(&jobs[1]), 8);
    finish(jobs, 2);
}
END_TEST

START_TEST(no_share_is_nothing)
{
    job_t job;

    mkv_tuning.low_share = 1;
    setup(MKV_WRITE, "MAX_INFLIGHT_OPS", "8");
    job = post(1, MKV_PRIORITY_LOW);
    ck_assert_uint_eq(calls(&job), 1);
    finish(&job, 1);
}
END_TEST

START_TEST(there_are_three_priorities)
{
    mkv_xfer_params_t params = {
        .size = sizeof(params), .id = 1, .num_legs = 1, .priority = (mkv_priority_t)3};
    mkv_xfer_t *xfer;

    pair_setup();
    params.legs = &A->maps[1];
    IS(mkv_xfer_open(A->ctx, &params, &xfer), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "priority 3"));
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("priority");

    tcase_add_loop_test(tcase, a_transfer_of_high_priority_goes_first, 0, 2);
    tcase_add_loop_test(tcase, a_share_is_left_to_those_in_a_hurry, 0, 2);
    tcase_add_loop_test(tcase, a_control_structure_passes_what_waits, 0, 2);
    tcase_add_test(tcase, equals_take_turns);
    tcase_add_test(tcase, no_share_is_nothing);
    tcase_add_test(tcase, there_are_three_priorities);
    return pair_main("mkv_priority", tcase);
}
