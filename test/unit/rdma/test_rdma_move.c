/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A rail breaks in the middle of a libmorikv transfer. The same transfer completes over
 * the other rail, a GPU kernel sees every byte, and DONE is reported once. Both sides
 * are in this process with two devices each: fake0 and fake1, fake2 and fake3.
 */

#include "config.h"

#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"
#include "test/support/rdma_pair.h"
#include "test/support/rdma_rig.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS 512
#define NUM 170

static uint32_t blocks[NUM];

static void connect_sides(void)
{
    setenv("UCX_NET_DEVICES", "fake0:1,fake1:1,lo", 1);
    rdma_pair_open(&rdma_pair[0], "source", BLOCKS, 0);
    setenv("UCX_NET_DEVICES", "fake2:1,fake3:1,lo", 1);
    rdma_pair_open(&rdma_pair[1], "destination", BLOCKS, 0);
    rdma_pair_connect();
}

static void expect_bytes(const char *memory, unsigned seed)
{
    size_t i;

    for (i = 0; i < NUM; ++i) {
        ck_assert_uint_eq(
            mkv_pattern_check(memory + (size_t)blocks[i] * RDMA_PAIR_BLOCK_BYTES,
                              RDMA_PAIR_BLOCK_BYTES, seed,
                              (size_t)blocks[i] * RDMA_PAIR_BLOCK_BYTES),
            RDMA_PAIR_BLOCK_BYTES);
    }
}

/* Usually this works at once. A connection may be recovering: with a timeout of a
 * millisecond it may fail on a busy machine. */
static void release_some(void)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    do {
        rdma_pair_progress();
        ck_assert_msg(mkv_test_now_ms() < limit, "nothing is sent");
    } while (fake_verbs_release(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND, 9) == 0);
}

/* Write the blocks; @a breaks is called when some are on their way and some are not. */
static void write_blocks(unsigned round, void (*breaks)(unsigned rail), unsigned rail)
{
    mkv_units_t units = {.num_local = NUM, .local = blocks};
    mkv_xfer_t *source, *destination;
    mkv_plan_t *plan;

    mkv_pattern_fill(rdma_pair[0].memory, BLOCKS * RDMA_PAIR_BLOCK_BYTES, round, 0);
    source = rdma_pair_xfer(&rdma_pair[0], MKV_SRC, round);
    destination = rdma_pair_xfer(&rdma_pair[1], MKV_DST, round);
    rdma_pair_ok(mkv_xfer_expose(destination, 0, &units, 1, NULL, 0));
    rdma_pair_wait(&rdma_pair[0], MKV_EV_EXPOSED, round);
    units.remote = blocks;
    units.num_remote = NUM;
    rdma_pair_ok(mkv_plan_create(rdma_pair[0].map, &units, 1, 0, &plan));
    if (breaks != NULL) {
        fake_verbs_hold(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND);
    }
    rdma_pair_ok(mkv_xfer_post(source, 0, plan, NULL, NULL));
    rdma_pair_ok(mkv_xfer_seal(source, 0));
    if (breaks != NULL) {
        release_some();
        breaks(rail);
        fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    }
    rdma_pair_wait(&rdma_pair[1], MKV_EV_DONE, round);
    expect_bytes(rdma_pair[1].memory, round);
    rdma_pair_wait(&rdma_pair[0], MKV_EV_QUIET, round);
    rdma_pair_ok(mkv_xfer_close(source));
    rdma_pair_ok(mkv_xfer_close(destination));
    rdma_pair_ok(mkv_plan_destroy(plan));
    ck_assert_uint_eq(rdma_pair[1].num_events[MKV_EV_DONE], round);
}

static void close_sides(void)
{
    unsigned i;

    for (i = 0; i < 2; ++i) {
        rdma_pair_ok(mkv_map_destroy(rdma_pair[i].map));
    }
    rdma_pair_ok(mkv_peer_close(rdma_pair[0].peer, MKV_CLOSE_FLUSH));
    rdma_pair_wait(&rdma_pair[1], MKV_EV_PEER_CLOSED, 1);
    for (i = 0; i < 2; ++i) {
        rdma_pair_close(&rdma_pair[i]);
    }
}

/* ---- failures ---- */

static const char *const devices[2][2] = {{"fake0", "fake1"}, {"fake2", "fake3"}};

static void link_at_the_source(unsigned rail)
{
    fake_verbs_link(devices[0][rail], 0);
}

static void link_at_both(unsigned rail)
{
    fake_verbs_link(devices[0][rail], 0);
    fake_verbs_link(devices[1][rail], 0);
}

static void cable(unsigned rail)
{
    fake_verbs_lose_device(devices[1][rail], 1);
}

static void device_at_the_source(unsigned rail)
{
    fake_verbs_remove(devices[0][rail]);
}

static void device_at_the_destination(unsigned rail)
{
    fake_verbs_remove(devices[1][rail]);
}

#define MAX_QPS 256

static unsigned num_in_use(const uint32_t *qp_nums, unsigned num)
{
    unsigned i, in_use = 0;

    for (i = 0; i < num; ++i) {
        in_use += fake_verbs_qp_state(qp_nums[i]) == IBV_QPS_RTS;
    }
    return in_use;
}

/* Break the completion queues and progress until the event is read; before that, all
 * transfers would complete. The queue pairs are in error or destroyed afterwards. */
static void queues_at_the_source(unsigned rail)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    uint32_t qp_nums[MAX_QPS];
    unsigned num = fake_verbs_qp_list(qp_nums, MAX_QPS), before;

    ck_assert_uint_le(num, MAX_QPS);
    before = num_in_use(qp_nums, num);
    fake_verbs_device_cqs_fatal(devices[0][rail]);
    while (num_in_use(qp_nums, num) == before) {
        rdma_pair_progress();
        ck_assert_msg(mkv_test_now_ms() < limit, "the queues are still used");
    }
}

static void (*const faults[])(unsigned rail) = {
    link_at_the_source,        link_at_both,        cable, device_at_the_source,
    device_at_the_destination, queues_at_the_source};
#define NUM_FAULTS ((int)(sizeof(faults) / sizeof(faults[0])))

/* Register more memory; it is registered with the devices that are left. */
static void register_more(void)
{
    static char memory[2][65536];
    unsigned i;

    for (i = 0; i < 2; ++i) {
        mkv_region_t region = {.size = sizeof(region),
                               .mem_type = UCS_MEMORY_TYPE_HOST,
                               .base = memory[i],
                               .length = sizeof(memory[i]),
                               .unit_bytes = RDMA_PAIR_BLOCK_BYTES,
                               .n_units = sizeof(memory[i]) / RDMA_PAIR_BLOCK_BYTES,
                               .layer = 1,
                               .alloc_base = memory[i],
                               .alloc_length = sizeof(memory[i])};
        mkv_region_id_t id;

        rdma_pair_ok(mkv_region_add(rdma_pair[i].ctx, &region, &id));
        rdma_pair_ok(mkv_regions_commit(rdma_pair[i].ctx, NULL));
    }
}

/* RC-05 */
START_TEST(transfer_ends_over_the_other_rail)
{
    unsigned i;

    for (i = 0; i < NUM; ++i) {
        blocks[i] = 3 * i;
    }
    connect_sides();
    write_blocks(1, NULL, 0);
    write_blocks(2, faults[_i / 2], (unsigned)_i % 2);
    write_blocks(3, NULL, 0);
    register_more();
    close_sides();
}
END_TEST

/* The event of the removal is still unread. */
/* RC-05 */
START_TEST(memory_is_registered_before_the_removal_is_reported)
{
    unsigned i;

    for (i = 0; i < NUM; ++i) {
        blocks[i] = 3 * i;
    }
    connect_sides();
    write_blocks(1, NULL, 0);
    fake_verbs_remove(devices[0][_i]);
    register_more();
    write_blocks(2, NULL, 0);
    close_sides();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mori_rdma that loses a rail");
    TCase *tcase = tcase_create("rails");
    const int is_short = getenv("MKV_UNDER_VALGRIND") != NULL;

    rig_ucp_environment(HIPCPU_PATH);
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5,fake2:mlx5,fake3:mlx5", 1);
    setenv("UCX_MAX_RMA_RAILS", "2", 1);
    setenv("UCX_MAX_RNDV_RAILS", "2", 1);
    setenv("UCX_MORI_RDMA_TIMEOUT", "16ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    setenv("UCX_MORI_RDMA_PORT_DOWN_TIMEOUT", "50ms", 1);
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "8s", 1);
    tcase_set_timeout(tcase, 120);
    /* valgrind takes long: a silent rail, and a device that is gone */
    tcase_add_loop_test(tcase, transfer_ends_over_the_other_rail, is_short ? 5 : 0,
                        is_short ? 7 : 2 * NUM_FAULTS);
    tcase_add_loop_test(tcase, memory_is_registered_before_the_removal_is_reported, 0,
                        2);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    return mkv_check_run_forked(suite);
}
