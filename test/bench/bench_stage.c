/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/fake_verbs.h"
#include "test/support/ct_side.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <morikv.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What a small piece of a WRITE costs over mori_rdma: work requests, doorbells and
 * instructions of each side, as a list and through staging. Two contexts of
 * this process, host memory, the fake libibverbs. Run it by test/bench/bench_stage.sh,
 * which counts the instructions with callgrind and leaves out the fake's and this
 * file's.
 */

#if defined(__has_include) && __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT (void)0
#endif

#define PIECES 4096u
#define ROUNDS 3u /* the first one touches everything once */

static const unsigned sizes[] = {128, 256, 512, 1024, 2048, 4096, 8192, 16384};

#define NUM_ROWS ((int)(2 * sizeof(sizes) / sizeof(sizes[0])))

typedef struct bench_side {
    mkv_ctx_t *ctx;
    mkv_peer_t *peer;
    mkv_map_t *map;
    char *memory;
    unsigned num_done;
    bool is_counted;
} bench_side_t;

static bench_side_t sides[2]; /* source, destination */
static int counted_side;

static void ok(mkv_status_t status)
{
    ck_assert_msg(status == MKV_OK, "%s", mkv_last_error());
}

/* Begin or end what is counted as this side's */
static void toggle(const bench_side_t *side)
{
    if (side->is_counted && (side == &sides[counted_side])) {
        CALLGRIND_TOGGLE_COLLECT;
    }
}

static void progress(void)
{
    mkv_event_t event;
    size_t num, i;

    for (i = 0; i < 2; ++i) {
        toggle(&sides[i]);
        mkv_progress(sides[i].ctx);
        toggle(&sides[i]);
        ok(mkv_poll(sides[i].ctx, &event, sizeof(event), 1, &num));
        if (num == 0) {
            continue;
        }
        sides[i].num_done += (event.type == MKV_EV_QUIET);
        if (event.type == MKV_EV_PEER_READY) {
            sides[i].peer = event.peer;
        }
        ck_assert_int_ne(event.type, MKV_EV_FAILED);
    }
}

/* Every second block is used, so that nothing merges */
static void open_side(bench_side_t *side, unsigned size)
{
    mkv_region_t region = {.size = sizeof(region),
                           .length = 2ull * PIECES * size,
                           .unit_bytes = size,
                           .n_units = 2ull * PIECES,
                           .mem_type = UCS_MEMORY_TYPE_HOST};
    mkv_region_id_t id;

    memset(side, 0, sizeof(*side));
    side->memory = aligned_alloc(4096, region.length);
    ck_assert_ptr_nonnull(side->memory);
    memset(side->memory, 1, region.length);
    ok(mkv_open(NULL, NULL, &side->ctx));
    region.base = side->memory;
    ok(mkv_region_add(side->ctx, &region, &id));
    ok(mkv_regions_commit(side->ctx, NULL));
}

static void connect_sides(void)
{
    char blob[8192];
    size_t length = sizeof(blob), i;

    ok(mkv_blob(sides[1].ctx, MKV_BLOB_ADDR, blob, &length));
    ok(mkv_peer_add(sides[0].ctx, blob, length, NULL, &sides[0].peer));
    sides[0].peer = NULL;
    while ((sides[0].peer == NULL) || (sides[1].peer == NULL)) {
        progress();
    }
    for (i = 0; i < 2; ++i) {
        ok(mkv_map_create(sides[i].peer, NULL, &sides[i].map));
    }
}

static mkv_xfer_t *open_xfer(bench_side_t *side, mkv_role_t role, uint64_t id)
{
    mkv_xfer_params_t params;
    mkv_xfer_t *xfer;

    memset(&params, 0, sizeof(params)); /* what lies between members, too */
    params.size = sizeof(params);
    params.id = id;
    params.role = role;
    params.legs = &side->map;
    params.num_legs = 1;
    ok(mkv_xfer_open(side->ctx, &params, &xfer));
    return xfer;
}

/* The peer's blocks in no order, and no two of ours side by side */
static void choose(uint32_t *local, uint32_t *remote)
{
    uint64_t state = 1;
    uint32_t i, k, swap;

    for (i = 0; i < PIECES; ++i) {
        local[i] = remote[i] = 2 * i;
    }
    for (i = PIECES - 1; i > 0; --i) {
        k = (uint32_t)(mkv_test_random(&state) % (i + 1));
        swap = remote[i];
        remote[i] = remote[k];
        remote[k] = swap;
    }
}

/* One transfer of all pieces; its post and what follows it are counted */
static void move_all(uint64_t id, mkv_plan_t *plan, const mkv_units_t *shown)
{
    mkv_xfer_t *source = open_xfer(&sides[0], MKV_SRC, id);
    mkv_xfer_t *sink = open_xfer(&sides[1], MKV_DST, id);
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    unsigned i;

    ok(mkv_xfer_expose(sink, MKV_LEG_ALL, shown, 1, NULL, 0));
    do {
        progress();
        ok(mkv_xfer_query(source, &attr));
    } while (attr.exposed_ns == 0 && attr.bound_ns == 0);
    for (i = 0; i < 2; ++i) {
        sides[i].is_counted = (id > 1);
        sides[i].num_done = 0;
    }
    toggle(&sides[0]);
    ok(mkv_xfer_post(source, 0, plan, NULL, NULL));
    toggle(&sides[0]);
    ok(mkv_xfer_seal(source, 0));
    while ((sides[0].num_done == 0) || (sides[1].num_done == 0)) {
        progress();
    }
    sides[0].is_counted = sides[1].is_counted = false;
    ok(mkv_xfer_close(source));
    ok(mkv_xfer_close(sink));
}

static void close_sides(void)
{
    size_t i;

    for (i = 0; i < 2; ++i) {
        ok(mkv_map_destroy(sides[i].map));
    }
    for (i = 0; i < 2; ++i) {
        ok(mkv_close(sides[i].ctx));
        free(sides[i].memory);
    }
}

static void work_requests(fake_verbs_stats_t *sum)
{
    fake_verbs_stats_t each;
    char name[] = "fake0";

    memset(sum, 0, sizeof(*sum));
    for (; name[4] < '2'; ++name[4]) {
        fake_verbs_device_stats(name, &each);
        sum->sends += each.sends;
        sum->doorbells += each.doorbells;
    }
}

START_TEST(row)
{
    static uint32_t local[PIECES], remote[PIECES];
    const unsigned size = sizes[_i / 2];
    const bool is_staged = (_i % 2 == 1);
    mkv_units_t units = {
        .num_local = PIECES, .num_remote = PIECES, .local = local, .remote = remote};
    mkv_units_t shown = {.num_local = PIECES, .local = remote};
    const double num = (double)(ROUNDS - 1) * PIECES;
    fake_verbs_stats_t before, after;
    mkv_plan_t *plan;
    uint64_t id;

    setenv("MORIKV_STAGING_BELOW", is_staged ? "64k" : "0", 1);
    setenv("MORIKV_DRAIN_TIMEOUT", "100", 1);
    open_side(&sides[0], size);
    open_side(&sides[1], size);
    connect_sides();
    choose(local, remote);
    ok(mkv_plan_create(sides[0].map, &units, 1, MKV_PLAN_KEEP_ORDER, &plan));
    for (id = 1; id <= ROUNDS; ++id) {
        move_all(id, plan, &shown);
        if (id == 1) {
            work_requests(&before);
        }
    }
    work_requests(&after);
    printf("row %s size %u wrs %.3f doorbells %.3f\n", is_staged ? "staged" : "list",
           size, (double)(after.sends - before.sends) / num,
           (double)(after.doorbells - before.doorbells) / num);
    ok(mkv_plan_destroy(plan));
    close_sides();
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("bench_stage");
    TCase *tcase = tcase_create("rows");
    SRunner *runner;
    int failed;

    ct_side_find_module();
    mkv_test_init();
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5", 1);
    setenv("UCX_TLS", "mori_rdma,tcp", 1);
    setenv("UCX_NET_DEVICES", "fake0:1,fake1:1,lo", 1);
    tcase_set_timeout(tcase, 0);
    if (argc > 2) { /* one row and one side alone: callgrind counts a whole process */
        counted_side = atoi(argv[2]);
        tcase_add_loop_test(tcase, row, atoi(argv[1]), atoi(argv[1]) + 1);
    } else {
        tcase_add_loop_test(tcase, row, 0, NUM_ROWS);
    }
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_MINIMAL);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? MKV_TEST_EXIT_OK : MKV_TEST_EXIT_FAIL;
}
