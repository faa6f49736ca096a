/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/fake_verbs.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"
#include "test/fake/verbs/verbs_pair.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Devices as they were measured, where that is less than their drivers report. */

#define GIB ((size_t)1 << 30)
#define NUM_QPS 64

static verbs_side_t side[2];

static void open_as(const char *devices)
{
    setenv("FAKE_VERBS_DEVICES", devices, 1);
    verbs_pair_open(side);
}

static int to_rtr(struct ibv_qp *qp, uint8_t reads)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = side[1].qp->qp_num,
        .max_dest_rd_atomic = reads,
        .ah_attr = {.port_num = 1,
                    .is_global = 1,
                    .grh = {.dgid = side[1].gid,
                            .sgid_index = (uint8_t)side[0].gid_index,
                            .hop_limit = 16}}};

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                             IBV_QP_MIN_RNR_TIMER);
}

START_TEST(queue_pairs_of_pollara_share_what_answers_reads)
{
    struct ibv_qp *second;

    open_as("fake0:pollara,fake1:pollara");
    ck_assert_int_eq(side[0].attr.max_qp_rd_atom, 16);
    ck_assert_int_eq(side[0].attr.max_res_rd_atom, 16);
    second = verbs_qp_create(&side[0]);
    verbs_qp_to_init(side[0].qp, IBV_ACCESS_REMOTE_READ);
    verbs_qp_to_init(second, IBV_ACCESS_REMOTE_READ);
    ck_assert_int_eq(to_rtr(side[0].qp, 16), 0);
    ck_assert_int_eq(to_rtr(second, 1), EINVAL);
    ck_assert_int_eq(verbs_qp_to(side[0].qp, IBV_QPS_RESET), 0);
    ck_assert_int_eq(to_rtr(second, 8), 0);
    verbs_qp_to_init(side[0].qp, IBV_ACCESS_REMOTE_READ);
    ck_assert_int_eq(to_rtr(side[0].qp, 9), EINVAL);
    ck_assert_int_eq(to_rtr(side[0].qp, 8), 0);
    ck_assert_int_eq(ibv_destroy_qp(second), 0);
    verbs_pair_close(side);
}
END_TEST

static void *map(size_t length, int is_large)
{
    void *address = mmap(NULL, length + (2u << 20), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ck_assert_ptr_ne(address, MAP_FAILED);
    if (is_large && (madvise(address, length + (2u << 20), MADV_HUGEPAGE) != 0)) {
        return NULL;
    }
    return address;
}

static struct ibv_mr *reg(void *address, size_t length)
{
    return ibv_reg_mr(side[0].pd, address, length, IBV_ACCESS_LOCAL_WRITE);
}

START_TEST(page_table_of_pollara_is_small)
{
    struct ibv_mr *mrs[4];
    char *small = map(4 * GIB, 0);
    unsigned i;

    open_as("fake0:pollara,fake1:pollara");
    ck_assert_uint_eq(side[0].attr.max_mr_size, 2 * GIB);
    ck_assert_ptr_null(reg(small, 3 * GIB));
    ck_assert_int_eq(errno, ENOMEM);
    for (i = 0; i < 3; i++) {
        mrs[i] = reg(small + i * GIB, GIB);
        ck_assert_ptr_nonnull(mrs[i]);
    }
    ck_assert_ptr_null(reg(small + 3 * GIB, GIB));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(ibv_dereg_mr(mrs[2]), 0);
    mrs[2] = reg(small + 3 * GIB, GIB);
    ck_assert_ptr_nonnull(mrs[2]);
    for (i = 0; i < 3; i++) {
        ck_assert_int_eq(ibv_dereg_mr(mrs[i]), 0);
    }
    verbs_pair_close(side);
}
END_TEST

START_TEST(large_pages_pass_the_size_that_pollara_reports)
{
    char *large = map(64 * GIB, 1);
    struct ibv_mr *mr;

    open_as("fake0:pollara,fake1:pollara");
    if (large != NULL) {
        mr = reg(large, 64 * GIB);
        ck_assert_ptr_nonnull(mr);
        ck_assert_int_eq(ibv_dereg_mr(mr), 0);
        /* one page of 4 KiB */
        ck_assert_int_eq(madvise(large + GIB, 4096, MADV_NOHUGEPAGE), 0);
        ck_assert_ptr_null(reg(large, 64 * GIB));
        ck_assert_int_eq(errno, ENOMEM);
    }
    verbs_pair_close(side);
}
END_TEST

START_TEST(memory_of_a_gpu_takes_no_atomics)
{
    static const char *const devices[] = {
        "fake0:ionic,fake1:ionic", "fake0:pollara,fake1:pollara",
        "fake0:bnxt,fake1:bnxt", "fake0:thor2,fake1:thor2"};
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct ibv_mr *mr;
    void *address;
    int fd;

    open_as(devices[_i]);
    fd = memfd_create("hipcpu", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 8192), 0);
    address = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(address, MAP_FAILED);
    ck_assert_ptr_null(
        ibv_reg_mr(side[0].pd, address, 8192, access | IBV_ACCESS_REMOTE_ATOMIC));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(ibv_reg_dmabuf_mr(side[0].pd, 0, 8192, (uintptr_t)address, fd,
                                         access | IBV_ACCESS_REMOTE_ATOMIC));
    ck_assert_int_eq(errno, EINVAL);
    mr = ibv_reg_mr(side[0].pd, address, 8192, access);
    ck_assert_int_eq(mr == NULL, _i == 1); /* pollara takes it by dma-buf alone */
    if (mr == NULL) {
        mr = ibv_reg_dmabuf_mr(side[0].pd, 0, 8192, (uintptr_t)address, fd, access);
    }
    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    munmap(address, 8192);
    close(fd);
    verbs_pair_close(side);
}
END_TEST

static void *make_queue_pairs(void *arg)
{
    struct ibv_qp_init_attr attr = {.send_cq = side[0].send_cq,
                                    .recv_cq = side[0].recv_cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {1, 1, 1, 1, 0}};
    unsigned i, *made = arg;
    struct ibv_qp *qp;

    for (i = 0; i < NUM_QPS; i++) {
        qp = ibv_create_qp(side[0].pd, &attr);
        *made += qp != NULL;
        if (qp != NULL) {
            ck_assert_int_eq(ibv_destroy_qp(qp), 0);
        } else {
            ck_assert_int_eq(errno, EFAULT);
        }
    }
    return NULL;
}

START_TEST(old_provider_of_thor2_fails_off_the_main_thread)
{
    unsigned made = 0;
    pthread_t thread;

    open_as("fake0:thor2,fake1:thor2");
    (void)make_queue_pairs(&made);
    ck_assert_uint_eq(made, NUM_QPS);
    made = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, make_queue_pairs, &made), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(made, NUM_QPS / 8);
    verbs_pair_close(side);
}
END_TEST

static Suite *measured_suite(void)
{
    Suite *suite = suite_create("fake verbs, devices as measured");
    TCase *tcase = tcase_create("measured");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, queue_pairs_of_pollara_share_what_answers_reads);
    tcase_add_test(tcase, page_table_of_pollara_is_small);
    tcase_add_test(tcase, large_pages_pass_the_size_that_pollara_reports);
    tcase_add_loop_test(tcase, memory_of_a_gpu_takes_no_atomics, 0, 4);
    tcase_add_test(tcase, old_provider_of_thor2_fails_off_the_main_thread);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    mkv_test_init();
    return mkv_check_run_forked(measured_suite());
}
