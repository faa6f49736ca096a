/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Arming while another thread fills a list. The interface here is a stub with the
 * members in use, and the test holds the worker's lock as UCP does.
 */

#include "base/muct_lock.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"
#include "xgmi/xgmi_progress.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Consecutive times that the lock is left. */
#define MAX_ASIDE 4

/* Ticks of UCX's clock: milliseconds at most. */
#define MANY_TICKS 100000

static muct_xgmi_queue_config_t config = {.max_started = 2};
static ucs_recursive_spinlock_t lock; /* first members of an asynchronous context */
static uct_priv_worker_t worker = {.async = (ucs_async_context_t *)&lock};
static muct_xgmi_queue_t queue;
static muct_xgmi_iface_t iface;
static muct_xgmi_md_t md; /* nothing is being invalidated */

static void *open_list(void *arg)
{
    muct_xgmi_gather_open(arg, true);
    return NULL;
}

/* A different thread has been filling a list for a long time. */
static void setup(void)
{
    pthread_t thread;

    memset(&queue, 0, sizeof(queue));
    memset(&iface, 0, sizeof(iface));
    ck_assert_int_eq(ucs_recursive_spinlock_init(&lock, 0), UCS_OK);
    ck_assert_int_eq(muct_xgmi_wake_create(&iface.wake), UCS_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, open_list, &queue.gather), 0);
    pthread_join(thread, NULL);
    queue.config = &config;
    queue.wake = iface.wake;
    queue.open = (muct_xgmi_batch_t *)&queue; /* its fields are not read */
    queue.gather.count = 1;
    iface.md = &md;
    iface.super.worker = &worker;
    iface.all[0] = &queue;
    iface.num_queues = 1;
    iface.yields_lock = true;
    ucs_list_head_init(&iface.eps);
    ucs_list_head_init(&iface.waiting_eps);
    ucs_list_head_init(&iface.apart_eps);
}

static void teardown(void)
{
    muct_xgmi_wake_put(iface.wake);
}

static ucs_status_t arm(void)
{
    return muct_xgmi_iface_event_arm(&iface.super.super, 0);
}

static void *post(void *arg)
{
    ucs_recursive_spin_lock(&lock);
    *(unsigned *)arg = 1;
    ucs_recursive_spin_unlock(&lock);
    return NULL;
}

START_TEST(lock_is_left_to_the_thread_that_posts)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned has_posted = 0;
    pthread_t thread;

    ucs_recursive_spin_lock(&lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, post, &has_posted), 0);
    while (!has_posted) {
        (void)arm();
        ck_assert_msg(mkv_test_now_ms() < deadline, "the lock was never left");
    }
    ck_assert_int_eq(lock.count, 1);
    ck_assert(ucs_recursive_spin_is_owner(&lock, pthread_self()));
    ucs_recursive_spin_unlock(&lock);
    pthread_join(thread, NULL);
}
END_TEST

/* Arming must end: the thread may have other workers and other work. */
START_TEST(arming_has_an_end)
{
    unsigned round, i;

    ucs_recursive_spin_lock(&lock);
    for (round = 0; round < 2; ++round) {
        for (i = 0; i < MAX_ASIDE; ++i) {
            ck_assert_int_eq(arm(), UCS_ERR_BUSY);
            ck_assert(!iface.wake->is_aside);
        }
        ck_assert_int_eq(arm(), UCS_OK);
    }
    ucs_recursive_spin_unlock(&lock);
}
END_TEST

/* State that another thread found while this one stood aside. */
typedef struct found {
    unsigned is_over; /* only the lock's holder reads it without the lock */
    bool is_aside, opened, hurried;
} found_t;

static bool is_signalled(void)
{
    struct pollfd entry = {.fd = iface.wake->event_fd, .events = POLLIN};

    return poll(&entry, 1, 0) == 1;
}

/* Behaves like a thread of the runtime that was preempted after its write. */
START_TEST(signal_is_drained_as_soon_as_it_is_readable)
{
    const uint64_t one = 1;

    ck_assert(!muct_xgmi_wake_drain(iface.wake, 0));
    ck_assert_int_eq(write(iface.wake->event_fd, &one, sizeof(one)), sizeof(one));
    ck_assert(is_signalled());
    ck_assert(muct_xgmi_wake_drain(iface.wake, 0));
    ck_assert(!is_signalled());
    ck_assert(!muct_xgmi_wake_drain(iface.wake, 0));
}
END_TEST

static void *open_and_flush(void *arg)
{
    found_t *found = arg;

    ucs_recursive_spin_lock(&lock);
    found->is_aside = iface.wake->is_aside;
    muct_xgmi_wake_if_armed(iface.wake);
    found->opened = is_signalled();
    muct_xgmi_wake_hurry(iface.wake);
    found->hurried = is_signalled();
    found->is_over = 1;
    ucs_recursive_spin_unlock(&lock);
    return NULL;
}

/* A flush wakes the waiting thread; one more list of the row does not. */
START_TEST(a_yielding_thread_is_woken_by_a_flush_alone)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    found_t found = {.is_over = 0};
    pthread_t thread;

    ucs_recursive_spin_lock(&lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, open_and_flush, &found), 0);
    while (!found.is_over) {
        (void)arm();
        iface.wake->is_armed = false; /* no other thread sleeps on the descriptor */
        ck_assert_msg(mkv_test_now_ms() < deadline, "the lock was never left");
    }
    ck_assert(!iface.wake->is_aside);
    ucs_recursive_spin_unlock(&lock);
    pthread_join(thread, NULL);
    ck_assert(found.is_aside && !found.opened && found.hurried);
}
END_TEST

/* A caller waits for the list, or a request for room: progress is wanted now. */
START_TEST(no_thread_yields_while_a_caller_waits)
{
    ucs_list_link_t waiting;

    ucs_recursive_spin_lock(&lock);
    if (_i == 0) {
        muct_xgmi_gather_hurry(&queue.gather);
        ck_assert_int_eq(arm(), UCS_ERR_BUSY);
    } else {
        iface.is_out_of_resources = true;
        ucs_list_add_tail(&iface.waiting_eps, &waiting);
        ck_assert_int_eq(arm(), UCS_OK);
    }
    ck_assert_uint_eq(iface.num_aside, 0);
    ucs_recursive_spin_unlock(&lock);
}
END_TEST

/* Option YIELD_LOCK. */
START_TEST(no_thread_yields_when_the_option_is_off)
{
    iface.yields_lock = false;
    ucs_recursive_spin_lock(&lock);
    ck_assert_int_eq(arm(), UCS_OK);
    ucs_recursive_spin_unlock(&lock);
}
END_TEST

/* The lock is only left if the caller alone uses it and holds it once. */
START_TEST(lock_of_others_is_not_left)
{
    int i;

    for (i = 0; i < _i; ++i) {
        ucs_recursive_spin_lock(&lock);
    }
    ck_assert_int_eq(arm(), UCS_OK);
    ck_assert_int_eq(lock.count, _i);
}
END_TEST

/* State of UCX's own context; 0: not queried yet. */
typedef struct answer {
    ucs_async_context_t *async;
    unsigned was_left;
    unsigned is_back;
    unsigned is_asked;
} answer_t;

/* UCX calls it with the lock held. */
static void on_time(int id, ucs_event_set_types_t events, void *arg)
{
    answer_t *answer = arg;

    (void)id;
    (void)events;
    if (__atomic_load_n(&answer->is_asked, __ATOMIC_ACQUIRE)) {
        return;
    }
    answer->was_left = muct_lock_leave(answer->async);
    if (answer->was_left) {
        muct_lock_enter(answer->async);
        answer->is_back = muct_lock_leave(answer->async);
        muct_lock_enter(answer->async);
    }
    __atomic_store_n(&answer->is_asked, 1, __ATOMIC_RELEASE);
}

/* Whether a lock is where base/muct_uct_abi.h expects it. A mutex has no recorded
 * owner. */
START_TEST(lock_of_ucx_is_what_it_is_taken_for)
{
    static const ucs_async_mode_t modes[] = {UCS_ASYNC_MODE_THREAD_SPINLOCK,
                                             UCS_ASYNC_MODE_THREAD_MUTEX};
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    answer_t answer = {.is_asked = 0};
    int id;

    ck_assert_int_eq(ucs_async_context_create(modes[_i], &answer.async), UCS_OK);
    ck_assert(!muct_lock_leave(answer.async));
    ck_assert_int_eq(
        ucs_async_add_timer(modes[_i], MANY_TICKS, on_time, &answer, answer.async, &id),
        UCS_OK);
    while (!__atomic_load_n(&answer.is_asked, __ATOMIC_ACQUIRE)) {
        ck_assert_msg(mkv_test_now_ms() < deadline, "no timer");
    }
    ck_assert_int_eq(ucs_async_remove_handler(id, 1), UCS_OK);
    ck_assert_uint_eq(answer.was_left, _i == 0);
    ck_assert_uint_eq(answer.is_back, _i == 0);
    ucs_async_context_destroy(answer.async);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_aside");
    TCase *tcase = tcase_create("aside");

    mkv_test_init();
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, lock_is_left_to_the_thread_that_posts);
    tcase_add_test(tcase, arming_has_an_end);
    tcase_add_test(tcase, signal_is_drained_as_soon_as_it_is_readable);
    tcase_add_test(tcase, a_yielding_thread_is_woken_by_a_flush_alone);
    tcase_add_loop_test(tcase, no_thread_yields_while_a_caller_waits, 0, 2);
    tcase_add_test(tcase, no_thread_yields_when_the_option_is_off);
    tcase_add_loop_test(tcase, lock_of_others_is_not_left, 0, 1);
    tcase_add_loop_test(tcase, lock_of_others_is_not_left, 2, 3);
    tcase_add_loop_test(tcase, lock_of_ucx_is_what_it_is_taken_for, 0, 2);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
