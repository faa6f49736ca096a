/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The send queue against a device that takes as many work requests as the test allows.
 */

#include "test/support/mkv_check.h"

#include "rdma/queue/rdma_sq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 12
#define BATCH 4
#define ID (5ull << 32)

/* A device that counts and refuses; it moves no bytes. */
static struct {
    uint64_t wr_ids[4096];
    bool is_signalled[4096];
    const struct ibv_qp *at;
    unsigned num;
    unsigned calls;
    int error;      /* of the next calls, 0 to take all */
    unsigned taken; /* before the error */
} nic;

static struct ibv_context context;
static struct ibv_qp qp;
static ucs_list_link_t dirty;
static muct_rdma_sq_stats_t stats;
static muct_rdma_sq_t sq;
static ucs_status_t statuses[4096];
static unsigned num_done;

static int nic_post_send(struct ibv_qp *q, struct ibv_send_wr *wr,
                         struct ibv_send_wr **bad)
{
    unsigned taken = 0;

    ck_assert_ptr_eq(q, nic.at);
    ++nic.calls;
    for (; wr != NULL; wr = wr->next, ++taken) {
        if ((nic.error != 0) && (taken == nic.taken)) {
            *bad = wr;
            return nic.error;
        }
        nic.wr_ids[nic.num] = wr->wr_id;
        nic.is_signalled[nic.num++] = (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    }
    return 0;
}

static void setup_queue(bool keep)
{
    muct_rdma_sq_params_t params = {.ibv = &qp,
                                    .id = ID,
                                    .depth = DEPTH,
                                    .batch = BATCH,
                                    .max_sge = 2,
                                    .max_inline = 16,
                                    .keep = keep,
                                    .dirty = &dirty,
                                    .stats = &stats};

    memset(&nic, 0, sizeof(nic));
    nic.at = &qp;
    memset(&stats, 0, sizeof(stats));
    num_done = 0;
    context.ops.post_send = nic_post_send;
    qp.context = &context;
    ucs_list_head_init(&dirty);
    ck_assert_int_eq(muct_rdma_sq_init(&sq, &params), UCS_OK);
}

static void setup(void)
{
    setup_queue(false);
}

static void setup_kept(void)
{
    setup_queue(true);
}

static void teardown(void)
{
    muct_rdma_sq_cleanup(&sq);
    ck_assert(ucs_list_is_empty(&dirty));
}

static void done(void *arg, ucs_status_t status)
{
    ck_assert_uint_eq((uintptr_t)arg, num_done); /* in order, each once */
    statuses[num_done++] = status;
}

static void add(unsigned bytes)
{
    struct ibv_send_wr *wr = muct_rdma_sq_begin(&sq, IBV_WR_RDMA_WRITE);

    wr->num_sge = 0;
    muct_rdma_sq_end(&sq, wr, done, (void *)(uintptr_t)sq.head, bytes);
}

static void add_many(unsigned count)
{
    while (count-- > 0) {
        add(8);
    }
}

/* The device's queue, gathered entries and free ones add up to the whole. */
static void expect_sum(void)
{
    ck_assert_uint_eq(
        muct_rdma_sq_free(&sq) + (sq.posted - sq.tail) + (sq.head - sq.posted), DEPTH);
    ck_assert_uint_eq(sq.posted, nic.num);
    ck_assert_uint_eq(stats.wrs, nic.num);
    ck_assert_uint_eq(stats.doorbells, nic.calls);
    ck_assert_uint_eq(stats.bytes, 8ull * nic.num);
    ck_assert_uint_eq(num_done, sq.tail);
    ck_assert_uint_eq(muct_rdma_sq_busy_bytes(&sq), 8ull * (sq.head - sq.tail));
}

START_TEST(idle_queue_posts_at_once)
{
    add(8);
    ck_assert_uint_eq(nic.calls, 0);
    muct_rdma_sq_kick(&sq);
    ck_assert_uint_eq(nic.calls, 1);
    ck_assert(nic.is_signalled[0]);
    ck_assert_uint_eq(nic.wr_ids[0], ID | 0);
    expect_sum();
    muct_rdma_sq_complete(&sq, 0, UCS_OK);
    ck_assert(muct_rdma_sq_is_idle(&sq));
}
END_TEST

START_TEST(busy_queue_gathers_until_the_batch_is_full)
{
    add(8);
    muct_rdma_sq_kick(&sq);
    add_many(3);
    muct_rdma_sq_kick(&sq);
    ck_assert_uint_eq(nic.calls, 1);
    ck_assert(!ucs_list_is_empty(&dirty)); /* the next progress would post them */
    expect_sum();
    add(8);
    ck_assert_uint_eq(nic.calls, 2);
    ck_assert_uint_eq(nic.num, 5);
    ck_assert(ucs_list_is_empty(&dirty));
    ck_assert(!nic.is_signalled[1] && !nic.is_signalled[3] && nic.is_signalled[4]);
    muct_rdma_sq_purge(&sq, UCS_ERR_CANCELED);
}
END_TEST

START_TEST(completion_ends_all_before_it)
{
    add_many(8);
    expect_sum();
    muct_rdma_sq_complete(&sq, 3, UCS_OK);
    ck_assert_uint_eq(num_done, 4);
    expect_sum();
    muct_rdma_sq_complete(&sq, 7, UCS_ERR_IO_ERROR);
    ck_assert_uint_eq(num_done, 8);
    ck_assert_int_eq(statuses[6], UCS_OK); /* no completion means success */
    ck_assert_int_eq(statuses[7], UCS_ERR_IO_ERROR);
    expect_sum();
}
END_TEST

START_TEST(completion_for_nothing_is_ignored)
{
    add_many(5);
    muct_rdma_sq_complete(&sq, 4, UCS_OK); /* gathered, not posted */
    muct_rdma_sq_complete(&sq, 77, UCS_OK);
    ck_assert_uint_eq(num_done, 0);
    muct_rdma_sq_complete(&sq, 3, UCS_OK);
    muct_rdma_sq_complete(&sq, 3, UCS_OK); /* twice */
    ck_assert_uint_eq(num_done, 4);
    muct_rdma_sq_purge(&sq, UCS_ERR_CANCELED);
}
END_TEST

START_TEST(purge_ends_posted_and_gathered_once)
{
    add_many(6);
    expect_sum();
    muct_rdma_sq_purge(&sq, UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(num_done, 6);
    ck_assert_int_eq(statuses[0], UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(statuses[5], UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(muct_rdma_sq_free(&sq), DEPTH);
}
END_TEST

START_TEST(device_that_takes_a_part_gets_the_rest_later)
{
    add_many(4); /* something to complete */
    nic.error = ENOMEM;
    nic.taken = (unsigned)_i;
    add_many(4);
    ck_assert_uint_eq(nic.num, 4 + (unsigned)_i);
    ck_assert_uint_eq(muct_rdma_sq_free(&sq), 0); /* until it has the rest */
    ck_assert_int_eq(sq.error, 0);
    ck_assert(!ucs_list_is_empty(&dirty));

    muct_rdma_sq_complete(&sq, 3, UCS_OK);
    nic.error = 0;
    muct_rdma_sq_ring(&sq);
    expect_sum();
    ck_assert(nic.is_signalled[7]);
    muct_rdma_sq_complete(&sq, 7, UCS_OK);
    ck_assert_uint_eq(num_done, 8);
    ck_assert_uint_eq(muct_rdma_sq_free(&sq), DEPTH);
}
END_TEST

START_TEST(device_that_takes_nothing_while_idle_is_broken)
{
    nic.error = ENOMEM;
    nic.taken = 0;
    add_many(4);
    ck_assert_int_eq(sq.error, ENOMEM);
    muct_rdma_sq_purge(&sq, UCS_ERR_IO_ERROR);
    ck_assert_uint_eq(num_done, 4);
}
END_TEST

START_TEST(other_errors_are_final)
{
    add_many(4);
    nic.error = EINVAL;
    nic.taken = 2;
    add_many(4);
    ck_assert_int_eq(sq.error, EINVAL);
    muct_rdma_sq_ring(&sq);
    ck_assert_uint_eq(nic.calls, 2); /* not tried again */
    muct_rdma_sq_purge(&sq, UCS_ERR_IO_ERROR);
    ck_assert_uint_eq(num_done, 8);
}
END_TEST

START_TEST(accounting_is_exact_over_many_turns)
{
    unsigned seed = 1 + (unsigned)_i, turn, count;

    for (turn = 0; (turn < 1000) && (nic.num < 4000); ++turn) {
        seed = seed * 1103515245u + 12345u;
        count = (seed >> 16) % (muct_rdma_sq_free(&sq) + 1);
        add_many(count);
        if (((seed >> 8) & 3) == 0) {
            muct_rdma_sq_kick(&sq);
        }
        expect_sum();
        if ((sq.posted != sq.tail) && ((seed >> 10) & 1)) {
            muct_rdma_sq_complete(&sq, sq.posted - 1, UCS_OK);
            expect_sum();
        }
    }
    muct_rdma_sq_purge(&sq, UCS_ERR_CANCELED);
    ck_assert_uint_eq(num_done, sq.head);
}
END_TEST

static void post_again(void *arg, ucs_status_t status)
{
    (void)arg;
    (void)status;
    ++num_done;
    if (num_done < 20) {
        struct ibv_send_wr *wr = muct_rdma_sq_begin(&sq, IBV_WR_RDMA_WRITE);

        wr->num_sge = 0;
        muct_rdma_sq_end(&sq, wr, post_again, NULL, 8);
        muct_rdma_sq_kick(&sq);
    }
}

START_TEST(callback_may_post_into_the_slot_it_came_from)
{
    unsigned i;

    for (i = 0; i < DEPTH; ++i) {
        struct ibv_send_wr *wr = muct_rdma_sq_begin(&sq, IBV_WR_RDMA_WRITE);

        wr->num_sge = 0;
        muct_rdma_sq_end(&sq, wr, post_again, NULL, 8);
    }
    ck_assert_uint_eq(muct_rdma_sq_free(&sq), 0);
    muct_rdma_sq_complete(&sq, DEPTH - 1, UCS_OK);
    ck_assert_uint_eq(num_done, DEPTH);
    muct_rdma_sq_ring(&sq);
    muct_rdma_sq_complete(&sq, sq.posted - 1, UCS_OK);
    muct_rdma_sq_purge(&sq, UCS_ERR_CANCELED);
    ck_assert_uint_eq(num_done, sq.head);
}
END_TEST

/* Round the ring of entries more than once, with something on its way at every place.
 */
/* RC-01 */
START_TEST(what_has_not_ended_is_posted_again)
{
    struct ibv_qp other = {.context = &context};
    unsigned i, first;

    for (i = 0; i < 3 * (unsigned)_i; ++i) {
        add(8);
        muct_rdma_sq_ring(&sq);
        muct_rdma_sq_complete(&sq, sq.posted - 1, UCS_OK);
    }
    add_many(2 * BATCH + 1); /* two chains and one that is gathered */
    muct_rdma_sq_complete(&sq, sq.tail, UCS_OK);
    first = sq.tail;
    muct_rdma_sq_suspend(&sq);
    ck_assert_uint_eq(muct_rdma_sq_free(&sq), 0);
    muct_rdma_sq_ring(&sq);
    ck_assert_uint_eq(sq.head - sq.posted, 1); /* still gathered */

    nic.num = 0;
    nic.calls = 0;
    nic.at = &other;
    ck_assert_uint_eq(muct_rdma_sq_resume(&sq, &other, ID << 1), 2 * BATCH - 1);
    ck_assert_uint_eq(nic.calls, 1);
    ck_assert_uint_eq(nic.num, 2 * BATCH);
    for (i = 0; i < nic.num; ++i) {
        ck_assert_uint_eq(nic.wr_ids[i], (ID << 1) | (first + i));
    }
    ck_assert(nic.is_signalled[nic.num - 1]);
    ck_assert_uint_eq(num_done, first);
    muct_rdma_sq_complete(&sq, sq.posted - 1, UCS_OK);
    ck_assert_uint_eq(num_done, sq.head);
    ck_assert_uint_eq(muct_rdma_sq_free(&sq), DEPTH);
}
END_TEST

/* Every other one is inline, the others have two entries; all know their number. */
static void add_known(uint32_t index)
{
    struct ibv_send_wr *wr = muct_rdma_sq_begin(&sq, IBV_WR_RDMA_WRITE);

    wr->wr.rdma.remote_addr = index;
    wr->sg_list[0].length = sizeof(index);
    if (index % 2 == 0) {
        wr->num_sge = 1;
        wr->send_flags |= IBV_SEND_INLINE;
        memcpy(muct_rdma_sq_inline(&sq), &index, sizeof(index));
        wr->sg_list[0].addr = (uintptr_t)muct_rdma_sq_inline(&sq);
    } else {
        wr->num_sge = 2;
        wr->sg_list[0].addr = 1000 + index;
        wr->sg_list[1].addr = 2000 + index;
    }
    muct_rdma_sq_end(&sq, wr, done, (void *)(uintptr_t)sq.head, 8);
}

static void expect_known(uint32_t index)
{
    const struct ibv_send_wr *wr = muct_rdma_sq_at(&sq, index);

    ck_assert_uint_eq(wr->wr.rdma.remote_addr, index);
    ck_assert_uint_eq(wr->wr_id, sq.id | index);
    if (index % 2 == 0) {
        ck_assert_mem_eq((void *)(uintptr_t)wr->sg_list[0].addr, &index, sizeof(index));
        ck_assert_uint_ge(wr->sg_list[0].addr, (uintptr_t)sq.inline_data);
    } else {
        ck_assert_uint_eq(wr->sg_list[0].addr, 1000 + index);
        ck_assert_uint_eq(wr->sg_list[1].addr, 2000 + index);
    }
}

/* Loop index: where in the ring it happens */
/* RT-03 */
START_TEST(places_come_with_use_and_keep_what_is_there)
{
    const uint32_t places = sq.mask;
    uint32_t index, first;

    ck_assert_uint_lt(places + 1, DEPTH);
    for (index = 0; index < (uint32_t)_i; ++index) {
        add_known(index);
        muct_rdma_sq_ring(&sq);
        muct_rdma_sq_complete(&sq, sq.posted - 1, UCS_OK);
    }
    ck_assert_uint_eq(sq.mask, places);
    first = index;
    while (muct_rdma_sq_free(&sq) > 0) {
        add_known(index++);
        muct_rdma_sq_ring(&sq);
    }
    ck_assert_uint_eq(index - first, DEPTH);
    ck_assert_uint_gt(sq.mask, places);
    while (--index + 1 != first) {
        expect_known(index);
    }
    muct_rdma_sq_complete(&sq, sq.posted - 1, UCS_OK);
    ck_assert_uint_eq(num_done, first + DEPTH);
}
END_TEST

/* Post a list: its last work request alone has a waiter. */
static void add_list(unsigned count)
{
    struct ibv_send_wr *wr;
    muct_rdma_mark_t *mark;

    while (count-- > 0) {
        wr = muct_rdma_sq_begin(&sq, IBV_WR_RDMA_WRITE);
        wr->num_sge = 0;
        muct_rdma_sq_end_silent(&sq, wr, 8);
    }
    mark = muct_rdma_sq_last_mark(&sq);
    ck_assert_ptr_eq(mark, muct_rdma_sq_last_mark(&sq)); /* there is one, not two */
    mark->done = done;
    mark->arg = (void *)(uintptr_t)num_done;
    muct_rdma_sq_ring(&sq);
}

START_TEST(list_ends_with_its_last_request)
{
    add_list(7);
    ck_assert_uint_eq(nic.calls, 2);
    muct_rdma_sq_complete(&sq, 3, UCS_OK); /* its first chain */
    ck_assert_uint_eq(num_done, 0);
    ck_assert_uint_eq(muct_rdma_sq_free(&sq), DEPTH - 3);
    ck_assert_uint_eq(muct_rdma_sq_busy_bytes(&sq), 24);
    muct_rdma_sq_complete(&sq, 6, UCS_OK);
    ck_assert_uint_eq(num_done, 1);
    ck_assert(muct_rdma_sq_is_idle(&sq));
    ck_assert_uint_eq(muct_rdma_sq_busy_bytes(&sq), 0);
}
END_TEST

START_TEST(list_that_fails_inside_a_chain_ends_once)
{
    add_list(7);
    muct_rdma_sq_complete(&sq, (unsigned)_i, UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(num_done, (_i == 6) ? 1 : 0);
    ck_assert_uint_eq(sq.tail, (unsigned)_i + 1);
    ck_assert_uint_eq(muct_rdma_sq_free(&sq), DEPTH - 7 + (unsigned)_i + 1);
    muct_rdma_sq_purge(&sq, UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(num_done, 1);
    ck_assert_int_eq(statuses[0], UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(muct_rdma_sq_free(&sq), DEPTH);
    ck_assert_uint_eq(muct_rdma_sq_busy_bytes(&sq), 0);
}
END_TEST

START_TEST(fence_goes_with_the_next_request_alone)
{
    struct ibv_send_wr *wr;

    sq.next_flags = IBV_SEND_FENCE;
    wr = muct_rdma_sq_begin(&sq, IBV_WR_SEND);
    ck_assert_uint_eq(wr->send_flags, IBV_SEND_FENCE);
    wr->num_sge = 0;
    muct_rdma_sq_end(&sq, wr, NULL, NULL, 0);
    wr = muct_rdma_sq_begin(&sq, IBV_WR_SEND);
    ck_assert_uint_eq(wr->send_flags, 0);
    wr->num_sge = 0;
    muct_rdma_sq_end(&sq, wr, NULL, NULL, 0);
    muct_rdma_sq_purge(&sq, UCS_ERR_CANCELED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma send queue");
    TCase *tcase = tcase_create("sq");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, idle_queue_posts_at_once);
    tcase_add_test(tcase, busy_queue_gathers_until_the_batch_is_full);
    tcase_add_test(tcase, completion_ends_all_before_it);
    tcase_add_test(tcase, completion_for_nothing_is_ignored);
    tcase_add_test(tcase, purge_ends_posted_and_gathered_once);
    tcase_add_loop_test(tcase, device_that_takes_a_part_gets_the_rest_later, 0, 4);
    tcase_add_test(tcase, device_that_takes_nothing_while_idle_is_broken);
    tcase_add_test(tcase, other_errors_are_final);
    tcase_add_loop_test(tcase, accounting_is_exact_over_many_turns, 0, 20);
    tcase_add_test(tcase, callback_may_post_into_the_slot_it_came_from);
    tcase_add_test(tcase, list_ends_with_its_last_request);
    tcase_add_loop_test(tcase, list_that_fails_inside_a_chain_ends_once, 0, 7);
    tcase_add_test(tcase, fence_goes_with_the_next_request_alone);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("kept");
    tcase_add_checked_fixture(tcase, setup_kept, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, accounting_is_exact_over_many_turns, 0, 20);
    tcase_add_loop_test(tcase, what_has_not_ended_is_posted_again, 0, 7);
    tcase_add_loop_test(tcase, places_come_with_use_and_keep_what_is_there, 0, 9);
    suite_add_tcase(suite, tcase);

    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
