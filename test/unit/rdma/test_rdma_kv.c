/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * libmorikv over mori_rdma. Writes to the GPU memory become visible only after a later
 * read, as PCIe allows (fake_verbs.h). All bytes must be visible at DONE.
 */

#include "config.h"

#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"
#include "test/support/rdma_pair.h"
#include "test/support/rdma_rig.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS 64
#define NUM 16

static void connect_sides(void)
{
    rdma_pair_open(&rdma_pair[0], "source", BLOCKS, 0x11);
    rdma_pair_open(&rdma_pair[1], "destination", BLOCKS, 0x22);
    rdma_pair_connect();
}

/* @return Blocks of the destination that a kernel sees as they were before. */
static unsigned write_and_count_old_blocks(void)
{
    static uint32_t blocks[NUM];
    mkv_units_t units = {.num_local = NUM, .local = blocks};
    mkv_xfer_t *source, *destination;
    unsigned i, num_old = 0;
    mkv_plan_t *plan;

    for (i = 0; i < NUM; ++i) {
        blocks[i] = 3 * i;
    }
    source = rdma_pair_xfer(&rdma_pair[0], MKV_SRC, 1);
    destination = rdma_pair_xfer(&rdma_pair[1], MKV_DST, 1);
    rdma_pair_ok(mkv_xfer_expose(destination, 0, &units, 1, NULL, 0));
    rdma_pair_wait(&rdma_pair[0], MKV_EV_EXPOSED, 1);
    units.remote = blocks;
    units.num_remote = NUM;
    rdma_pair_ok(mkv_plan_create(rdma_pair[0].map, &units, 1, 0, &plan));
    rdma_pair_ok(mkv_xfer_post(source, 0, plan, NULL, NULL));
    rdma_pair_ok(mkv_xfer_seal(source, 0));
    rdma_pair_wait(&rdma_pair[1], MKV_EV_DONE, 1);
    for (i = 0; i < NUM; ++i) {
        num_old +=
            (rdma_pair[1].memory[(size_t)blocks[i] * RDMA_PAIR_BLOCK_BYTES] != 0x11) ||
            (rdma_pair[1].memory[(size_t)(blocks[i] + 1) * RDMA_PAIR_BLOCK_BYTES - 1] !=
             0x11);
    }
    rdma_pair_wait(&rdma_pair[0], MKV_EV_QUIET, 1);
    rdma_pair_ok(mkv_xfer_close(source));
    rdma_pair_ok(mkv_xfer_close(destination));
    rdma_pair_ok(mkv_plan_destroy(plan));
    return num_old;
}

static void close_sides(void)
{
    unsigned i;

    for (i = 0; i < 2; ++i) {
        rdma_pair_ok(mkv_map_destroy(rdma_pair[i].map));
        rdma_pair_close(&rdma_pair[i]);
    }
}

/* Loop index: mori_rdma's own read, or, without that, the library's */
START_TEST(a_gpu_sees_the_bytes_at_done)
{
    if (_i) {
        setenv("UCX_MORI_RDMA_GPU_FLUSH", "n", 1);
        setenv("MORIKV_FENCE", "flush", 1);
        setenv("UCX_MORI_RDMA_NUM_QPS", "1", 1); /* it reads over this one */
    }
    connect_sides();
    ck_assert_uint_eq(write_and_count_old_blocks(), 0);
    close_sides();
}
END_TEST

/* Control: such memory does show old bytes when nothing is read back. */
START_TEST(without_either_a_gpu_may_see_old_bytes)
{
    setenv("UCX_MORI_RDMA_GPU_FLUSH", "n", 1);
    connect_sides();
    ck_assert_uint_gt(write_and_count_old_blocks(), 0);
    close_sides();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libmorikv over mori_rdma");
    TCase *tcase = tcase_create("GPU memory");

    rig_ucp_environment(HIPCPU_PATH);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_gpu_sees_the_bytes_at_done, 0, 2);
    tcase_add_test(tcase, without_either_a_gpu_may_see_old_bytes);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    return mkv_check_run_forked(suite);
}
