/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Waiting for a process that measures, by a clock that the test moves: a measurement
 * may take longer than --timeout, but must not stand still.
 */

#include "test/support/mkv_check.h"

#include "perf/kv_perf/engine/run.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "test/unit/perf/clock_here.h"

#include <sys/socket.h>

#define TIMEOUT_S 2u
#define MS UINT64_C(1000000)

typedef struct two {
    perf_run_t center; /* measures */
    perf_run_t leaf;   /* waits for it */
    uint64_t end_ns;   /* when the center has measured all */
    bool is_still;     /* it stands still */
} two_t;

static void two_setup(two_t *two)
{
    int fds[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    *two =
        (two_t){.center = {.num_channels = 1}, .leaf = {.rank = 1, .num_channels = 1}};
    two->center.channels[0] =
        (perf_channel_t){.fd = fds[0], .timeout_s = TIMEOUT_S, .name = "decode"};
    two->leaf.channels[0] =
        (perf_channel_t){.fd = fds[1], .timeout_s = TIMEOUT_S, .name = "prefill"};
}

static void two_teardown(two_t *two)
{
    perf_channel_close(&two->center.channels[0]);
    perf_channel_close(&two->leaf.channels[0]);
}

/* The leaf waits; meanwhile the center moves its blocks, and sends START in the end. */
static void two_idle(void *arg)
{
    two_t *two = arg;

    if (clock_ns >= two->end_ns) {
        return;
    }
    clock_ns += 5 * MS;
    if (clock_ns >= two->end_ns) {
        ck_assert_int_eq(
            perf_channel_send(&two->center.channels[0], PERF_CHANNEL_START, NULL, 0),
            0);
    } else if (!two->is_still) {
        perf_run_going(&two->center, clock_ns);
    }
}

START_TEST(measurement_that_gets_on_may_take_longer_than_the_timeout)
{
    two_t two;

    two_setup(&two);
    two.end_ns = clock_ns + 10 * TIMEOUT_S * 1000 * MS;
    ck_assert_int_eq(perf_run_barrier(&two.leaf, two_idle, &two), 0);
    ck_assert_uint_ge(clock_ns, two.end_ns);
    two_teardown(&two);
}
END_TEST

START_TEST(measurement_that_stands_still_is_an_error)
{
    uint64_t start_ns = clock_ns;
    two_t two;

    two_setup(&two);
    two.is_still = true;
    two.end_ns = clock_ns + 10 * TIMEOUT_S * 1000 * MS;
    ck_assert_int_eq(perf_run_barrier(&two.leaf, two_idle, &two), -1);
    ck_assert_str_eq(perf_last_error(),
                     "the prefill process sent nothing for 2 s; see --timeout");
    ck_assert_uint_lt(clock_ns - start_ns, 2 * TIMEOUT_S * 1000 * MS);
    two_teardown(&two);
}
END_TEST

START_TEST(progress_is_printed_four_times_a_second)
{
    char bytes[1024];
    two_t two;
    unsigned i;

    two_setup(&two);
    for (i = 0; i < 1000; ++i) {
        perf_run_going(&two.center, clock_ns + i * MS);
    }
    /* a type and a length of 32 bits each */
    ck_assert_int_eq(recv(two.leaf.channels[0].fd, bytes, sizeof(bytes), MSG_DONTWAIT),
                     4 * 8);
    two_teardown(&two);
}
END_TEST

START_TEST(unread_progress_messages_block_no_sender)
{
    two_t two;
    unsigned i;

    two_setup(&two);
    for (i = 0; i < 100000; ++i) {
        perf_channel_notify_progress(&two.center.channels[0]);
    }
    two_teardown(&two);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_channel");
    TCase *tcase = tcase_create("all");

    tcase_add_test(tcase, measurement_that_gets_on_may_take_longer_than_the_timeout);
    tcase_add_test(tcase, measurement_that_stands_still_is_an_error);
    tcase_add_test(tcase, progress_is_printed_four_times_a_second);
    tcase_add_test(tcase, unread_progress_messages_block_no_sender);
    suite_add_tcase(suite, tcase);
    return mkv_check_run(suite, CK_FORK_GETENV, CK_ENV);
}
