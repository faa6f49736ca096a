/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/fake_verbs.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"
#include "test/fake/verbs/verbs_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The switches of the fake, its devices, its aborts; test_verbs_contract tests the
 * contract. */

#define SIZE 4096
#define FAR (VERBS_PAIR_BUFFER / 2)

static verbs_side_t side[2], other[2];

static int write_one(verbs_side_t *pair, uint64_t wr_id, unsigned flags)
{
    return verbs_post(pair[0].qp, &pair[0], &pair[1], IBV_WR_RDMA_WRITE, wr_id, 0, FAR,
                      64, flags);
}

static void write_signalled(verbs_side_t *pair, uint64_t wr_id)
{
    ck_assert_int_eq(write_one(pair, wr_id, IBV_SEND_SIGNALED), 0);
}

static enum ibv_event_type next_event(verbs_side_t *at)
{
    struct ibv_async_event event;

    ck_assert_int_eq(ibv_get_async_event(at->context, &event), 0);
    ibv_ack_async_event(&event);
    return event.event_type;
}

/* ---- order ---- */

START_TEST(held_sends_go_on_in_the_order_of_release)
{
    verbs_pair_connect(side, &verbs_patient);
    verbs_pair_connect(other, &verbs_patient);
    fake_verbs_hold(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND);
    write_signalled(side, 1);
    write_signalled(side, 2);
    write_signalled(other, 3);
    verbs_expect_none(side[0].send_cq);
    ck_assert_uint_eq(side[1].buffer[FAR], 0);

    ck_assert_uint_eq(fake_verbs_release(other[0].qp->qp_num, FAKE_VERBS_HOLD_SEND, 5),
                      1);
    verbs_expect(other[0].send_cq, 3, IBV_WC_SUCCESS);
    verbs_expect_none(side[0].send_cq);
    ck_assert_uint_eq(fake_verbs_release(side[0].qp->qp_num, FAKE_VERBS_HOLD_SEND, 1),
                      1);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    verbs_expect_none(side[0].send_cq);
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    verbs_expect(side[0].send_cq, 2, IBV_WC_SUCCESS);
    verbs_pair_close(other);
    verbs_pair_close(side);
}
END_TEST

START_TEST(held_completions_have_done_their_work)
{
    verbs_pair_connect(side, &verbs_patient);
    fake_verbs_hold(side[0].qp->qp_num, FAKE_VERBS_HOLD_CQE);
    write_signalled(side, 1);
    write_signalled(side, 2);
    verbs_expect_none(side[0].send_cq);
    ck_assert_uint_eq(mkv_pattern_check(side[1].buffer + FAR, 64, 1, 0), 64);
    ck_assert_uint_eq(fake_verbs_release(side[0].qp->qp_num, FAKE_VERBS_HOLD_CQE, 1),
                      1);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    verbs_expect_none(side[0].send_cq);
    fake_verbs_reset();
    verbs_expect(side[0].send_cq, 2, IBV_WC_SUCCESS);
    verbs_pair_close(side);
}
END_TEST

START_TEST(queue_entries_are_free_when_polled_not_before)
{
    unsigned i;

    verbs_pair_connect(side, &verbs_patient);
    for (i = 0; i < VERBS_PAIR_DEPTH - 1; i++) {
        ck_assert_int_eq(write_one(side, i, 0), 0);
    }
    write_signalled(side, 77);
    ck_assert_int_eq(write_one(side, 78, 0), ENOMEM);
    verbs_expect(side[0].send_cq, 77, IBV_WC_SUCCESS);
    for (i = 0; i < VERBS_PAIR_DEPTH; i++) {
        ck_assert_int_eq(write_one(side, i, 0), 0);
    }
    ck_assert_int_eq(write_one(side, 79, 0), ENOMEM); /* nothing will ever free it */
    verbs_expect_none(side[0].send_cq);
    ck_assert_int_eq(write_one(side, 79, 0), ENOMEM);
    verbs_pair_close(side);
}
END_TEST

START_TEST(read_without_a_fence_is_late)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr[2] = {
        {.wr_id = 1, .next = &wr[1], .sg_list = &sge, .num_sge = 1},
        {.wr_id = 2, .sg_list = &sge, .num_sge = 1}};
    struct ibv_send_wr *bad;

    setenv("FAKE_VERBS_MODE", "late", 1);
    verbs_pair_connect(side, &verbs_patient);
    verbs_recv(side[1].qp, &side[1], 5, FAR, SIZE);
    sge = (struct ibv_sge){.addr = (uintptr_t)side[0].buffer + FAR,
                           .length = SIZE,
                           .lkey = side[0].mr->lkey};
    wr[0].opcode = IBV_WR_RDMA_READ;
    wr[0].wr.rdma.remote_addr = (uintptr_t)side[1].buffer;
    wr[0].wr.rdma.rkey = side[1].mr->rkey;
    wr[1].opcode = IBV_WR_SEND;
    wr[1].send_flags = IBV_SEND_SIGNALED;
    ck_assert_int_eq(ibv_post_send(side[0].qp, wr, &bad), 0);
    verbs_expect(side[0].send_cq, 2, IBV_WC_SUCCESS);
    ck_assert_uint_eq(side[1].buffer[FAR], 0); /* contents from before the read */
    ck_assert_uint_eq(mkv_pattern_check(side[0].buffer + FAR, SIZE, 2, 0), SIZE);
    verbs_pair_close(side);
}
END_TEST

/* ---- faults ---- */

START_TEST(nth_call_fails_and_the_next_works)
{
    struct ibv_pd *pd;

    verbs_pair_open(side);
    fake_verbs_fail_call("ibv_alloc_pd", 2, 2, ENOSPC);
    pd = ibv_alloc_pd(side[0].context);
    ck_assert_ptr_nonnull(pd);
    ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 1);
    errno = 0;
    ck_assert_ptr_null(ibv_alloc_pd(side[0].context));
    ck_assert_int_eq(errno, ENOSPC);
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 0);
    ck_assert_ptr_null(ibv_alloc_pd(side[0].context));
    pd = ibv_alloc_pd(side[0].context);
    ck_assert_ptr_nonnull(pd);
    ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
    verbs_pair_close(side);
}
END_TEST

START_TEST(nth_work_request_fails_unsignalled_too)
{
    verbs_pair_connect(side, &verbs_patient);
    fake_verbs_fail_wr(side[0].qp->qp_num, 2, IBV_WC_RETRY_EXC_ERR);
    write_signalled(side, 1);
    ck_assert_int_eq(write_one(side, 2, 0), 0);
    ck_assert_int_eq(write_one(side, 3, 0), 0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    verbs_expect(side[0].send_cq, 2, IBV_WC_RETRY_EXC_ERR);
    verbs_expect(side[0].send_cq, 3, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(fake_verbs_qp_state(side[0].qp->qp_num), IBV_QPS_ERR);
    ck_assert_int_eq(fake_verbs_qp_state(side[1].qp->qp_num), IBV_QPS_RTS);
    verbs_pair_close(side);
}
END_TEST

START_TEST(lost_packets_cost_exactly_the_retry_budget)
{
    const uint64_t budget =
        (UINT64_C(4096) << verbs_hasty.timeout) * (verbs_hasty.retry_cnt + 1u);

    verbs_pair_connect(side, &verbs_hasty);
    fake_verbs_stop_clock();
    fake_verbs_lose(side[0].qp->qp_num, 1);
    write_signalled(side, 1);
    fake_verbs_advance(budget - 1);
    verbs_expect_none(side[0].send_cq);
    fake_verbs_advance(1);
    verbs_expect(side[0].send_cq, 1, IBV_WC_RETRY_EXC_ERR);
    verbs_pair_close(side);
}
END_TEST

START_TEST(link_that_comes_back_in_time_loses_nothing)
{
    struct ibv_port_attr attr;

    verbs_pair_connect(side, &verbs_patient);
    fake_verbs_stop_clock();
    fake_verbs_link("fake0", 0);
    ck_assert_int_eq(next_event(&side[0]), IBV_EVENT_PORT_ERR);
    ck_assert_int_eq(ibv_query_port(side[0].context, 1, &attr), 0);
    ck_assert_int_eq(attr.state, IBV_PORT_DOWN);
    write_signalled(side, 1);
    verbs_expect_none(side[0].send_cq);
    fake_verbs_link("fake0", 1);
    ck_assert_int_eq(next_event(&side[0]), IBV_EVENT_PORT_ACTIVE);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    verbs_pair_close(side);
}
END_TEST

/* The kernel's ib_resolve_unicast_gid_dmac() queries the network. */
START_TEST(address_handle_needs_a_peer_that_answers)
{
    struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1};
    struct ibv_ah *ah;

    verbs_pair_connect(side, &verbs_patient);
    attr.grh.dgid = side[1].gid;
    attr.grh.sgid_index = (uint8_t)side[0].gid_index;
    fake_verbs_lose_device("fake1", 1);
    ck_assert_ptr_null(ibv_create_ah(side[0].pd, &attr));
    ck_assert_int_eq(errno, ETIMEDOUT);
    fake_verbs_lose_device("fake1", 0);
    ah = ibv_create_ah(side[0].pd, &attr);
    ck_assert_ptr_nonnull(ah);
    ck_assert_int_eq(ibv_destroy_ah(ah), 0);
    verbs_pair_close(side);
}
END_TEST

START_TEST(lost_answers_leave_the_work_done_once)
{
    const verbs_path_t path = {
        .timeout = 10, .retry_cnt = 2, .rnr_retry = 7, .access = verbs_patient.access};

    fake_verbs_stop_clock();
    verbs_pair_connect(side, &path);
    verbs_recv(side[1].qp, &side[1], 7, FAR + SIZE, 64);
    fake_verbs_lose_acks(side[0].qp->qp_num, 1);
    write_signalled(side, 1);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_SEND, 2, 0, 0,
                                64, IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[1].recv_cq, 7, IBV_WC_SUCCESS);
    verbs_expect_none(side[0].send_cq);
    ck_assert_uint_eq(mkv_pattern_check(side[1].buffer + FAR, 64, 1, 0), 64);
    verbs_expect_none(side[1].recv_cq);
    fake_verbs_advance(UINT64_C(1) << 40);
    verbs_expect(side[0].send_cq, 1, IBV_WC_RETRY_EXC_ERR);
    verbs_expect(side[0].send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    verbs_pair_close(side);
}
END_TEST

START_TEST(removed_device_answers_nothing_any_more)
{
    struct ibv_device_attr attr;

    verbs_pair_connect(side, &verbs_hasty);
    fake_verbs_hold(side[0].qp->qp_num, FAKE_VERBS_HOLD_SEND);
    write_signalled(side, 1);
    fake_verbs_remove("fake0");
    ck_assert_int_eq(next_event(&side[0]), IBV_EVENT_DEVICE_FATAL);
    fake_verbs_release(side[0].qp->qp_num, FAKE_VERBS_HOLD_SEND, 1);
    verbs_expect_none(side[0].send_cq);
    ck_assert_ptr_null(ibv_alloc_pd(side[0].context));
    ck_assert_int_eq(errno, EIO);
    ck_assert_int_eq(verbs_qp_to(side[0].qp, IBV_QPS_ERR), EIO);
    ck_assert_int_eq(ibv_query_device(side[0].context, &attr), EIO);
    verbs_pair_close(side);
}
END_TEST

START_TEST(fatal_queue_pair_raises_an_event_and_flushes)
{
    verbs_pair_connect(side, &verbs_patient);
    fake_verbs_hold(side[0].qp->qp_num, FAKE_VERBS_HOLD_SEND);
    verbs_recv(side[0].qp, &side[0], 9, FAR, 64);
    ck_assert_int_eq(write_one(side, 1, 0), 0);
    fake_verbs_qp_fatal(side[0].qp->qp_num);
    ck_assert_int_eq(next_event(&side[0]), IBV_EVENT_QP_FATAL);
    verbs_expect(side[0].recv_cq, 9, IBV_WC_WR_FLUSH_ERR);
    verbs_expect(side[0].send_cq, 1, IBV_WC_WR_FLUSH_ERR);
    verbs_pair_close(side);
}
END_TEST

/* ---- misuse that real devices answer with corruption ---- */

START_TEST(overrun_of_a_completion_queue_aborts)
{
    struct ibv_qp *qp;
    unsigned i;

    verbs_pair_connect(side, &verbs_patient);
    ck_assert_int_eq(ibv_destroy_qp(side[0].qp), 0);
    ck_assert_int_eq(ibv_destroy_cq(side[0].send_cq), 0);
    side[0].send_cq = ibv_create_cq(side[0].context, 4, NULL, NULL, 0);
    ck_assert_ptr_nonnull(side[0].send_cq);
    qp = side[0].qp = verbs_qp_create(&side[0]);
    verbs_qp_to_init(qp, 0);
    verbs_qp_to_init(side[1].qp = verbs_qp_create(&side[1]), IBV_ACCESS_REMOTE_WRITE);
    verbs_qp_to_rtr(qp, &side[1], side[1].qp, side[0].gid_index);
    verbs_qp_to_rtr(side[1].qp, &side[0], qp, side[1].gid_index);
    verbs_qp_to_rts(qp, &verbs_patient);
    for (i = 0; i < 5; i++) {
        write_signalled(side, i);
    }
}
END_TEST

START_TEST(second_deregistration_aborts)
{
    struct ibv_mr copy;

    verbs_pair_open(side);
    copy = *side[0].mr;
    ck_assert_int_eq(ibv_dereg_mr(side[0].mr), 0);
    ibv_dereg_mr(&copy);
}
END_TEST

START_TEST(closing_a_device_in_use_aborts)
{
    verbs_pair_open(side);
    ibv_close_device(side[0].context);
}
END_TEST

/* ---- devices ---- */

static void expect_create(int sge, int inline_data, int expected)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = side[0].send_cq,
        .recv_cq = side[0].recv_cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1,
                .max_send_sge = (uint32_t)sge,
                .max_inline_data = (uint32_t)inline_data},
    };
    struct ibv_qp *qp;

    errno = 0;
    qp = ibv_create_qp(side[0].pd, &attr);
    ck_assert_int_eq((qp == NULL) ? errno : 0, expected);
    if (qp != NULL) {
        ibv_destroy_qp(qp);
    }
}

START_TEST(ionic_has_the_limits_of_its_driver)
{
    verbs_pair_open(side);
    ck_assert_int_eq(side[0].attr.max_srq, 0);
    ck_assert_int_ne(side[0].attr.atomic_cap, IBV_ATOMIC_NONE);
    ck_assert_int_eq(side[0].attr.max_qp_wr, 65535);
    ck_assert_int_eq(side[0].attr.max_cqe, 65435);
    expect_create(8, 480, 0);
    expect_create(9, 0, EINVAL);
    expect_create(1, 481, EINVAL);
    verbs_pair_close(side);
}
END_TEST

static int create_srq(uint32_t max_wr, uint32_t max_sge)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = max_wr, .max_sge = max_sge}};
    struct ibv_srq *srq = ibv_create_srq(side[0].pd, &attr);

    return (srq != NULL) ? ibv_destroy_srq(srq) : errno;
}

/* Loop index: ionic; mlx5, whose completions do not change */
START_TEST(ionic_forgets_in_error_what_was_not_polled)
{
    setenv("FAKE_VERBS_DEVICES",
           (_i == 0) ? "fake0:ionic,fake1:ionic" : "fake0:mlx5,fake1:mlx5", 1);
    verbs_pair_connect(side, &verbs_patient);
    verbs_recv(side[1].qp, &side[1], 5, FAR, 64);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_SEND, 1, 0, 0,
                                64, IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    ck_assert_int_eq(verbs_qp_to(side[1].qp, IBV_QPS_ERR), 0);
    verbs_expect(side[1].recv_cq, 5, (_i == 0) ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
    verbs_pair_close(side);
}
END_TEST

START_TEST(shared_receives_are_had_where_the_driver_has_them)
{
    static const struct {
        const char *devices;
        uint32_t max_wr;
        uint32_t max_sge;
    } has[] = {{"a:mlx5,b:mlx5", 32767, 31},
               {"a:bnxt,b:bnxt", 65407, 6},
               {"a:rxe,b:rxe", 1048576, 27}};

    if (_i == 3) {
        verbs_pair_open(side); /* ionic */
        ck_assert_int_eq(create_srq(16, 1), EOPNOTSUPP);
    } else {
        setenv("FAKE_VERBS_DEVICES", has[_i].devices, 1);
        verbs_pair_open(side);
        ck_assert_int_gt(side[0].attr.max_srq, 0);
        ck_assert_uint_eq((uint32_t)side[0].attr.max_srq_wr, has[_i].max_wr);
        if (getenv("MKV_UNDER_VALGRIND") == NULL) { /* a wire is small there */
            ck_assert_int_eq(create_srq(has[_i].max_wr, 1), 0);
        }
        ck_assert_int_eq(create_srq(16, has[_i].max_sge), 0);
        ck_assert_int_eq(create_srq(has[_i].max_wr + 1, 1), EINVAL);
        ck_assert_int_eq(create_srq(16, has[_i].max_sge + 1), EINVAL);
        ck_assert_int_eq(create_srq(0, 1), EINVAL);
    }
    verbs_pair_close(side);
}
END_TEST

START_TEST(shared_receives_keep_their_size)
{
    struct ibv_srq_attr attr = {.max_wr = 8};

    setenv("FAKE_VERBS_DEVICES", "a:mlx5,b:mlx5", 1);
    verbs_pair_shared = true;
    verbs_pair_open(side);
    ck_assert_int_eq(ibv_modify_srq(side[0].srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
    verbs_pair_close(side);
}
END_TEST

START_TEST(shared_receive_lets_a_sender_go_on_at_once)
{
    fake_verbs_stats_t stats;

    setenv("FAKE_VERBS_DEVICES", "a:mlx5,b:mlx5", 1);
    verbs_pair_shared = true;
    verbs_pair_connect(side, &verbs_patient);
    fake_verbs_stop_clock(); /* no thread retries later */
    ck_assert_int_eq(
        verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_SEND, 1, 0, 0, SIZE, 0), 0);
    verbs_recv(side[1].qp, &side[1], 2, FAR, SIZE);
    fake_verbs_qp_stats(side[0].qp->qp_num, &stats);
    ck_assert_uint_eq(stats.rnr, 1);
    ck_assert_uint_eq(stats.bytes_out, SIZE);
    verbs_pair_close(side);
}
END_TEST

START_TEST(bnxt_runs_out_of_memory_on_long_inline)
{
    setenv("FAKE_VERBS_DEVICES", "bnxt_re0:bnxt,bnxt_re1:bnxt@0000:43:00.0", 1);
    setenv("FAKE_VERBS_CAPS", "max_mr_size=1m,max_sge=3", 1);
    verbs_pair_open(side);
    ck_assert_str_eq(ibv_get_device_name(side[1].context->device), "bnxt_re1");
    ck_assert_uint_eq(side[0].attr.max_mr_size, 1 << 20);
    expect_create(3, 96, 0);
    expect_create(1, 97, ENOMEM);
    expect_create(4, 0, EINVAL);
    verbs_pair_close(side);
}
END_TEST

START_TEST(addresses_of_two_kinds_do_not_meet)
{
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5", 1); /* with both kinds */
    verbs_pair_open(side);
    ck_assert_int_eq(ibv_query_gid(side[1].context, 1, 2, &side[1].gid), 0);
    verbs_qp_to_init(side[0].qp, 0);
    verbs_qp_to_init(side[1].qp, IBV_ACCESS_REMOTE_WRITE);
    verbs_qp_to_rtr(side[0].qp, &side[1], side[1].qp, 3); /* RoCE v2 */
    verbs_qp_to_rtr(side[1].qp, &side[0], side[0].qp, 2); /* RoCE v1 */
    verbs_qp_to_rts(side[0].qp, &verbs_hasty);
    write_signalled(side, 1);
    verbs_expect(side[0].send_cq, 1, IBV_WC_RETRY_EXC_ERR);
    verbs_pair_close(side);
}
END_TEST

START_TEST(dma_buf_is_reached_at_its_offset)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    const uint64_t iova = 0x7000100; /* as a GPU's address: nothing is mapped there */
    struct ibv_sge sge = {.length = 64};
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    struct ibv_mr *mr;
    char *map;
    int fd;

    verbs_pair_connect(side, &verbs_patient);
    fd = memfd_create("hipcpu", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, (off_t)(4 * page)), 0);
    map = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);

    mr = ibv_reg_dmabuf_mr(side[1].pd, page + 256, 1024, iova, fd, access);
    ck_assert_ptr_nonnull(mr);
    sge.addr = (uintptr_t)side[0].buffer;
    sge.lkey = side[0].mr->lkey;
    wr.wr.rdma.remote_addr = iova + 960;
    wr.wr.rdma.rkey = mr->rkey;
    ck_assert_int_eq(ibv_post_send(side[0].qp, &wr, &bad), 0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(mkv_pattern_check(map + page + 256 + 960, 64, 1, 0), 64);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);

    /* a place in the page that is not the offset's, and more than there is */
    ck_assert_ptr_null(ibv_reg_dmabuf_mr(side[1].pd, 256, 64, 0x7000000, fd, access));
    ck_assert_ptr_null(
        ibv_reg_dmabuf_mr(side[1].pd, 3 * page, 2 * page, 0x7000000, fd, access));
    munmap(map, 4 * page);
    close(fd);
    verbs_pair_close(side);
}
END_TEST

START_TEST(memory_of_a_gpu_needs_a_peer_driver)
{
    const int access = IBV_ACCESS_LOCAL_WRITE;
    struct ibv_mr *mr;
    char *map;
    int fd;

    setenv("FAKE_VERBS_PEERMEM", "n", 1);
    verbs_pair_open(side);
    fd = memfd_create("hipcpu", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 8192), 0);
    map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_null(ibv_reg_mr(side[0].pd, map, 8192, access));
    ck_assert_int_eq(errno, EFAULT);
    mr = ibv_reg_dmabuf_mr(side[0].pd, 0, 8192, (uintptr_t)map, fd, access);
    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    munmap(map, 8192);
    ck_assert_ptr_null(ibv_reg_mr(side[0].pd, map, 8192, access)); /* a hole */
    close(fd);
    verbs_pair_close(side);
}
END_TEST

START_TEST(write_to_a_gpu_is_seen_after_a_read_from_the_same_gpu)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE,
                                                 IBV_WR_RDMA_READ, IBV_WR_RDMA_READ,
                                                 IBV_WR_RDMA_READ};
    /* written: GPU 0, GPU 1; read from: host, GPU 1, GPU 0 */
    static const uint32_t places[] = {0, SIZE, FAR, 2 * SIZE - 64, 64};
    static const int seen[][2] = {{0, 0}, {0, 0}, {0, 0}, {0, 1}, {1, 1}};
    unsigned i, gpu;

    verbs_pair_connect(side, &verbs_patient);
    fake_verbs_gpu_memory(side[1].buffer, SIZE, 0);
    fake_verbs_gpu_memory(side[1].buffer + SIZE, SIZE, 1);
    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], opcodes[i], i,
                                    (opcodes[i] == IBV_WR_RDMA_READ) ? FAR : 0,
                                    places[i], 64, IBV_SEND_SIGNALED),
                         0);
        verbs_expect(side[0].send_cq, i, IBV_WC_SUCCESS);
        for (gpu = 0; gpu < 2; gpu++) {
            ck_assert_int_eq(memcmp(side[1].buffer + gpu * SIZE, side[0].buffer, 64) ==
                                 0,
                             seen[i][gpu]);
        }
    }
    verbs_pair_close(side);
}
END_TEST

/* The written device reads from the GPU to send from there. The processor reads what
 * goes inline. Loop index: how it is sent. */
START_TEST(write_to_a_gpu_is_seen_after_a_send_from_it_that_is_not_inline)
{
    const unsigned flags = IBV_SEND_SIGNALED;
    unsigned i;

    verbs_pair_connect(side, &verbs_patient);
    fake_verbs_gpu_memory(side[1].buffer, SIZE, 0);
    for (i = 0; i < side[1].cap.max_send_wr; i++) { /* each entry of the queue */
        ck_assert_int_eq(verbs_post(side[1].qp, &side[1], &side[0], IBV_WR_RDMA_WRITE,
                                    i, SIZE / 2, FAR, 16, flags),
                         0);
        verbs_expect(side[1].send_cq, i, IBV_WC_SUCCESS);
    }
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_RDMA_WRITE, 1, 0,
                                0, 16, flags),
                     0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    ck_assert_int_eq(verbs_post(side[1].qp, &side[1], &side[0], IBV_WR_RDMA_WRITE, 2,
                                SIZE / 2, FAR, 16,
                                flags | ((_i == 0) ? IBV_SEND_INLINE : 0)),
                     0);
    verbs_expect(side[1].send_cq, 2, IBV_WC_SUCCESS);
    ck_assert_int_eq(memcmp(side[1].buffer, side[0].buffer, 16) == 0, _i);
    verbs_pair_close(side);
}
END_TEST

/* Entries have no keys, and their bytes change before the device sends. Loop index: by
 * a write, or by a send. */
START_TEST(inline_entries_are_gathered_when_they_are_posted)
{
    char parts[2][10] = {"abcdefghi", "klmnopqrs"};
    struct ibv_sge sge[3];
    struct ibv_send_wr *bad,
        wr = {.wr_id = 1,
              .sg_list = sge,
              .num_sge = 2,
              .opcode = (_i == 0) ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
              .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
    unsigned i;

    verbs_pair_connect(side, &verbs_patient);
    for (i = 0; i < 2; i++) {
        sge[i] = (struct ibv_sge){.addr = (uintptr_t)parts[i], .length = 9 - i};
    }
    wr.wr.rdma.remote_addr = (uintptr_t)side[1].buffer + FAR;
    wr.wr.rdma.rkey = side[1].mr->rkey;
    if (_i != 0) {
        verbs_recv(side[1].qp, &side[1], 5, FAR, 64);
    }
    fake_verbs_hold(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND);
    ck_assert_int_eq(ibv_post_send(side[0].qp, &wr, &bad), 0);
    memset(parts, 0, sizeof(parts));
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    if (_i != 0) {
        ck_assert_uint_eq(verbs_wait(side[1].recv_cq).byte_len, 17);
    }
    ck_assert_mem_eq(side[1].buffer + FAR, "abcdefghiklmnopqr", 17);
    verbs_pair_close(side);
}
END_TEST

/* The rules are those of providers/mlx5 of rdma-core: a ready queue pair refuses
 * changes. */
START_TEST(ece_is_set_before_a_queue_pair_is_ready)
{
    struct ibv_ece ece;

    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:ionic", 1);
    fake_verbs_set_ece("fake0", 3);
    verbs_pair_open(side);
    ck_assert_int_eq(ibv_query_ece(side[1].qp, &ece), EOPNOTSUPP);
    ck_assert_int_eq(ibv_query_ece(side[0].qp, &ece), 0);
    ck_assert_uint_eq(ece.options, 3);
    ece.comp_mask = 1;
    ck_assert_int_eq(ibv_set_ece(side[0].qp, &ece), EINVAL);
    ece.comp_mask = 0;
    ece.vendor_id++;
    ck_assert_int_eq(ibv_set_ece(side[0].qp, &ece), EINVAL);
    ece.vendor_id--;
    ece.options = 5;
    ck_assert_int_eq(ibv_set_ece(side[0].qp, &ece), 0);
    verbs_qp_to_init(side[0].qp, IBV_ACCESS_REMOTE_WRITE);
    verbs_qp_to_rtr(side[0].qp, &side[1], side[1].qp, side[0].gid_index);
    ck_assert_int_eq(ibv_set_ece(side[0].qp, &ece), EINVAL);
    ck_assert_int_eq(ibv_query_ece(side[0].qp, &ece), 0);
    ck_assert_uint_eq(ece.options, 1); /* of the set options, those of the device */
    verbs_pair_close(side);
}
END_TEST

START_TEST(doorbells_and_bytes_are_counted)
{
    fake_verbs_objects_t objects;
    fake_verbs_stats_t stats;
    uint32_t qp_num[8];

    verbs_pair_connect(side, &verbs_patient);
    ck_assert_int_eq(write_one(side, 1, 0), 0);
    ck_assert_int_eq(write_one(side, 2, IBV_SEND_INLINE), EINVAL);
    write_signalled(side, 3);
    verbs_expect(side[0].send_cq, 3, IBV_WC_SUCCESS);
    fake_verbs_qp_stats(side[0].qp->qp_num, &stats);
    ck_assert_uint_eq(stats.doorbells, 2);
    ck_assert_uint_eq(stats.sends, 2);
    ck_assert_uint_eq(stats.signalled, 1);
    ck_assert_uint_eq(stats.bytes_out, 128);
    ck_assert_uint_eq(stats.max_in_use, 2);
    fake_verbs_device_stats("fake0", &stats);
    ck_assert_uint_eq(stats.bytes_out, 128);
    ck_assert_uint_eq(fake_verbs_qp_list(qp_num, 8), 2);
    ck_assert_uint_eq(qp_num[0], side[0].qp->qp_num);
    fake_verbs_objects(&objects);
    ck_assert_uint_eq(objects.mrs, 2);
    verbs_pair_close(side);
    fake_verbs_objects(&objects);
    ck_assert_uint_eq(objects.contexts + objects.pds + objects.mrs + objects.cqs +
                          objects.qps + objects.srqs + objects.channels,
                      0);
}
END_TEST

static Suite *fake_suite(void)
{
    Suite *suite = suite_create("fake verbs");
    TCase *tcase = tcase_create("switches");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, held_sends_go_on_in_the_order_of_release);
    tcase_add_test(tcase, held_completions_have_done_their_work);
    tcase_add_test(tcase, queue_entries_are_free_when_polled_not_before);
    tcase_add_test(tcase, read_without_a_fence_is_late);
    tcase_add_test(tcase, nth_call_fails_and_the_next_works);
    tcase_add_test(tcase, nth_work_request_fails_unsignalled_too);
    tcase_add_test(tcase, lost_packets_cost_exactly_the_retry_budget);
    tcase_add_test(tcase, link_that_comes_back_in_time_loses_nothing);
    tcase_add_test(tcase, address_handle_needs_a_peer_that_answers);
    tcase_add_test(tcase, lost_answers_leave_the_work_done_once);
    tcase_add_test(tcase, removed_device_answers_nothing_any_more);
    tcase_add_test(tcase, fatal_queue_pair_raises_an_event_and_flushes);
    tcase_add_test_raise_signal(tcase, overrun_of_a_completion_queue_aborts, SIGABRT);
    tcase_add_test_raise_signal(tcase, second_deregistration_aborts, SIGABRT);
    tcase_add_test_raise_signal(tcase, closing_a_device_in_use_aborts, SIGABRT);
    tcase_add_test(tcase, ionic_has_the_limits_of_its_driver);
    tcase_add_loop_test(tcase, ionic_forgets_in_error_what_was_not_polled, 0, 2);
    tcase_add_loop_test(tcase, shared_receives_are_had_where_the_driver_has_them, 0, 4);
    tcase_add_test(tcase, shared_receives_keep_their_size);
    tcase_add_test(tcase, shared_receive_lets_a_sender_go_on_at_once);
    tcase_add_test(tcase, bnxt_runs_out_of_memory_on_long_inline);
    tcase_add_test(tcase, addresses_of_two_kinds_do_not_meet);
    tcase_add_test(tcase, dma_buf_is_reached_at_its_offset);
    tcase_add_test(tcase, memory_of_a_gpu_needs_a_peer_driver);
    tcase_add_test(tcase, write_to_a_gpu_is_seen_after_a_read_from_the_same_gpu);
    tcase_add_loop_test(
        tcase, write_to_a_gpu_is_seen_after_a_send_from_it_that_is_not_inline, 0, 2);
    tcase_add_loop_test(tcase, inline_entries_are_gathered_when_they_are_posted, 0, 2);
    tcase_add_test(tcase, ece_is_set_before_a_queue_pair_is_ready);
    tcase_add_test(tcase, doorbells_and_bytes_are_counted);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    mkv_test_init();
    return mkv_check_run_forked(fake_suite());
}
