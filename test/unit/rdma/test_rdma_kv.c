/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * libmorikv over mori_rdma, to GPU memory that shows what was written to it only after
 * a read behind it, as PCIe allows (fake_verbs.h): at DONE the bytes are there.
 */

#include "config.h"

#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"
#include "test/support/rdma_rig.h"

#include <morikv.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 64
#define BLOCK_BYTES 4096
#define NUM 16

typedef struct side {
    mkv_ctx_t *ctx;
    char *memory;
    mkv_peer_t *peer;
    mkv_map_t *map;
} side_t;

static side_t sides[2];

static void ok(mkv_status_t status)
{
    ck_assert_msg(status == MKV_OK, "%s: %s", mkv_status_string(status),
                  mkv_last_error());
}

static void open_side(side_t *side, const char *name, int byte)
{
    mkv_open_params_t params = {.size = sizeof(params), .name = name};
    mkv_region_t region = {.size = sizeof(region),
                           .mem_type = UCS_MEMORY_TYPE_ROCM,
                           .length = BLOCKS * BLOCK_BYTES,
                           .unit_bytes = BLOCK_BYTES,
                           .n_units = BLOCKS,
                           .alloc_length = BLOCKS * BLOCK_BYTES};
    mkv_region_id_t id;

    ck_assert_msg(mkv_hip_set_device(0), "%s", mkv_hip_why());
    side->memory = mkv_hip_alloc(BLOCKS * BLOCK_BYTES);
    ck_assert_ptr_nonnull(side->memory);
    memset(side->memory, byte, BLOCKS * BLOCK_BYTES);
    ok(mkv_open(NULL, &params, &side->ctx));
    region.base = region.alloc_base = side->memory;
    ok(mkv_region_add(side->ctx, &region, &id));
    ok(mkv_regions_commit(side->ctx, NULL));
}

/* Progress of both sides until this one has the event */
static mkv_event_t wait_event(side_t *side, mkv_event_type_t type)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    mkv_event_t event;
    size_t count;

    for (;;) {
        mkv_progress(sides[0].ctx);
        mkv_progress(sides[1].ctx);
        ok(mkv_poll(side->ctx, &event, sizeof(event), 1, &count));
        if ((count == 1) && (event.type == type)) {
            return event;
        }
        ck_assert_msg(mkv_test_now_ms() < limit, "no event %s", mkv_event_string(type));
    }
}

static mkv_xfer_t *open_xfer(side_t *side, mkv_role_t role)
{
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1,
                                .role = role,
                                .legs = &side->map,
                                .num_legs = 1};
    mkv_xfer_t *xfer;

    ok(mkv_xfer_open(side->ctx, &params, &xfer));
    return xfer;
}

static void connect_sides(void)
{
    char blob[8192];
    size_t length = sizeof(blob);

    open_side(&sides[0], "source", 0x11);
    open_side(&sides[1], "destination", 0x22);
    fake_verbs_gpu_lookup(mkv_hip_device_of);
    ok(mkv_blob(sides[1].ctx, MKV_BLOB_ADDR, blob, &length));
    ok(mkv_peer_add(sides[0].ctx, blob, length, NULL, &sides[0].peer));
    (void)wait_event(&sides[0], MKV_EV_PEER_READY);
    sides[1].peer = wait_event(&sides[1], MKV_EV_PEER_READY).peer;
    ok(mkv_map_create(sides[0].peer, NULL, &sides[0].map));
    ok(mkv_map_create(sides[1].peer, NULL, &sides[1].map));
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
    source = open_xfer(&sides[0], MKV_SRC);
    destination = open_xfer(&sides[1], MKV_DST);
    ok(mkv_xfer_expose(destination, 0, &units, 1, NULL, 0));
    (void)wait_event(&sides[0], MKV_EV_EXPOSED);
    units.remote = blocks;
    units.num_remote = NUM;
    ok(mkv_plan_create(sides[0].map, &units, 1, 0, &plan));
    ok(mkv_xfer_post(source, 0, plan, NULL, NULL));
    ok(mkv_xfer_seal(source, 0));
    (void)wait_event(&sides[1], MKV_EV_DONE);
    for (i = 0; i < NUM; ++i) {
        num_old += (sides[1].memory[(size_t)blocks[i] * BLOCK_BYTES] != 0x11) ||
                   (sides[1].memory[(size_t)(blocks[i] + 1) * BLOCK_BYTES - 1] != 0x11);
    }
    (void)wait_event(&sides[0], MKV_EV_QUIET);
    ok(mkv_xfer_close(source));
    ok(mkv_xfer_close(destination));
    ok(mkv_plan_destroy(plan));
    return num_old;
}

static void close_sides(void)
{
    unsigned i;

    for (i = 0; i < 2; ++i) {
        ok(mkv_map_destroy(sides[i].map));
        ok(mkv_close(sides[i].ctx));
        ck_assert(mkv_hip_free(sides[i].memory));
    }
}

/* Loop index: mori_rdma's own read, or, without that, the library's */
START_TEST(a_gpu_sees_the_bytes_at_done)
{
    if (_i) {
        setenv("UCX_MORI_RDMA_GPU_FLUSH", "n", 1);
        setenv("MORIKV_FENCE", "flush", 1);
    }
    connect_sides();
    ck_assert_uint_eq(write_and_count_old_blocks(), 0);
    close_sides();
}
END_TEST

/* The control: such memory does show old bytes to who reads nothing back */
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
