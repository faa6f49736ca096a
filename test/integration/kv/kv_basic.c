/* SPDX-License-Identifier: BSD-3-Clause */

/* Two processes move blocks, WRITE and READ; every byte of the cache is checked. */

#include "kv_side.h"

#include "test/support/mkv_hip.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SRC_SEED 11
#define DST_SEED 101
#define NUM 24

static mkv_xfer_attr_t query(const mkv_xfer_t *xfer)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};

    KV_OK(mkv_xfer_query(xfer, &attr));
    return attr;
}

static void finish(kv_side_t *side, mkv_xfer_t *xfer)
{
    (void)kv_wait_event(side, MKV_EV_DONE, xfer);
    (void)kv_wait_event(side, MKV_EV_QUIET, xfer);
    KV_OK(mkv_xfer_close(xfer));
}

/* ---- WRITE ----------------------------------------------------------------------- */

/* The destination's transfer, open and exposed, and which blocks are the source's */
static mkv_xfer_t *expose_dst(kv_side_t *side, int fd, const kv_shape_t *shape,
                              uint32_t mine[NUM], uint32_t theirs[NUM])
{
    mkv_xfer_t *xfer;

    kv_side_open(side, "dst", fd, shape, DST_SEED);
    kv_side_connect_map(side, 0);
    kv_random_blocks(mine, NUM, shape->blocks, 1);
    kv_random_blocks(theirs, NUM, shape->blocks, 2);
    xfer = kv_open_xfer(side, 1, MKV_WRITE, MKV_DST);
    kv_expose(xfer, mine, NUM);
    return xfer;
}

static int write_dst(int fd, void *arg)
{
    const kv_shape_t *shape = arg;
    uint32_t mine[NUM], theirs[NUM], i;
    kv_side_t side = {0};
    mkv_event_t done;
    mkv_xfer_t *xfer;

    xfer = expose_dst(&side, fd, shape, mine, theirs);
    done = kv_wait_event(&side, MKV_EV_DONE, xfer);
    MKV_REQUIRE(done.num_units == 1, "DONE lists the component");
    MKV_REQUIRE(!memcmp(done.units[0].local, mine, sizeof(mine)), "and its units");
    for (i = 0; i < NUM; ++i) {
        kv_check_block(&side, mine[i], SRC_SEED, theirs[i]);
    }
    kv_check_others(&side, mine, NUM, DST_SEED);
    (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
    KV_OK(mkv_xfer_close(xfer));
    kv_send_word(&side, "checked");
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

static uint32_t open_layers;

static int layer_gate(void *arg)
{
    return *(const uint32_t *)arg < open_layers;
}

static void post_layers(const kv_shape_t *shape, mkv_xfer_t *xfer, mkv_plan_t *plan)
{
    static uint32_t layers[64];
    mkv_gate_t gate = {.size = sizeof(gate), .ready = layer_gate};
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS};
    uint32_t layer;

    for (layer = 0; layer < shape->layers; ++layer) {
        layers[layer] = layer;
        gate.arg = &layers[layer];
        sel.layer_lo = (int32_t)layer;
        sel.layer_hi = (int32_t)layer + 1;
        KV_OK(mkv_xfer_post(xfer, 0, plan, &sel, &gate));
    }
}

/* Each loop: whole blocks next to each other, then blocks with gaps */
/* CC-06, CN-04, XF-03 */
START_TEST(write_layer_by_layer_behind_gates)
{
    /* all processes share a GPU's free memory, and a runtime allocates by itself */
    const bool is_real = (getenv("MKV_TEST_REAL_HIP") != NULL);
    uint64_t layer_bytes;
    kv_shape_t shape = kv_shape_default;
    uint32_t theirs[NUM], layer;
    kv_side_t side = {0};
    mkv_event_t exposed;
    mkv_proc_t proc;
    mkv_plan_t *plan;
    mkv_xfer_t *xfer;
    size_t free_bytes, used_bytes;

    shape.layers = 61;
    shape.stride = (_i == 0) ? 0 : 4096 + 512;
    ck_assert_int_eq(mkv_proc_fork(&proc, write_dst, &shape), 0);
    free_bytes = mkv_hip_free_bytes();
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    kv_side_connect_map(&side, 1);
    kv_random_blocks(theirs, NUM, shape.blocks, 2);
    xfer = kv_open_xfer(&side, 1, MKV_WRITE, MKV_SRC);
    exposed = kv_wait_event(&side, MKV_EV_EXPOSED, xfer);
    ck_assert_uint_eq(exposed.num_units, 1);
    ck_assert_uint_eq(exposed.length, 5);
    ck_assert_str_eq(exposed.data, "meta");
    plan = kv_plan(&side, theirs, NUM, &exposed, 0);

    open_layers = 0;
    post_layers(&shape, xfer, plan);
    KV_OK(mkv_xfer_seal(xfer, MKV_LEG_ALL));
    ck_assert_int_eq(query(xfer).state, MKV_XFER_SEALED);
    layer_bytes = (uint64_t)shape.parts * NUM * shape.block_bytes;
    for (layer = 0; layer < shape.layers; ++layer) {
        ck_assert_uint_eq(query(xfer).bytes, layer * layer_bytes);
        open_layers = layer + 1;
        KV_PROGRESS_UNTIL(&side, query(xfer).bytes > layer * layer_bytes);
        ck_assert_uint_eq(query(xfer).bytes, (layer + 1) * layer_bytes);
    }
    ck_assert_uint_eq(kv_stats(&side).plans_created, 1);

    finish(&side, xfer);
    if (side.is_gpu && !is_real) { /* the cache, and a page for each queue's number */
        used_bytes = free_bytes - mkv_hip_free_bytes();
        ck_assert_uint_ge(used_bytes, side.mem_length);
        ck_assert_uint_le(used_bytes, side.mem_length + 2 * 4096);
    }
    kv_expect(&side, "checked");
    KV_OK(mkv_plan_destroy(plan));
    kv_send_word(&side, "bye");
    kv_side_close(&side);
    ck_assert(is_real || (mkv_hip_free_bytes() == free_bytes));
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

/* An engine gives nearly all of a GPU to its cache: we must not take the rest.
 * Connecting takes a number for each queue, so that the first copy allocates nothing.
 */
/* CC-06 */
START_TEST(opening_takes_no_gpu_memory)
{
    mkv_region_t region = {.size = sizeof(region),
                           .mem_type = UCS_MEMORY_TYPE_ROCM,
                           .length = 1 << 20,
                           .unit_bytes = 4096,
                           .n_units = 256};
    const char *memory = getenv("MKV_TEST_MEM");
    kv_side_t side = {0};
    mkv_region_id_t id;
    size_t free_bytes;

    if ((memory == NULL) || (strcmp(memory, "gpu") != 0)) {
        return; /* there is none in this run */
    }
    region.base = mkv_hip_alloc(region.length); /* the GPU is in use */
    ck_assert_ptr_nonnull(region.base);
    free_bytes = mkv_hip_free_bytes();
    ck_assert_uint_gt(free_bytes, 0);
    kv_side_open_ctx(&side, "src", -1);
    ck_assert_uint_eq(mkv_hip_free_bytes(), free_bytes);
    KV_OK(mkv_region_add(side.ctx, &region, &id));
    KV_OK(mkv_regions_commit(side.ctx, NULL));
    ck_assert_uint_eq(mkv_hip_free_bytes(), free_bytes);
    KV_OK(mkv_close(side.ctx));
    ck_assert_uint_eq(mkv_hip_free_bytes(), free_bytes);
    ck_assert(mkv_hip_free(region.base));
}
END_TEST

/* ---- Events while it runs -------------------------------------------------------- */

/* The first @a layers layers of these blocks are the source's */
static void check_layers(kv_side_t *side, const uint32_t *mine, const uint32_t *theirs,
                         uint32_t layers)
{
    const kv_shape_t shape = side->shape;
    uint32_t i;

    side->shape.layers = layers;
    for (i = 0; i < NUM; ++i) {
        kv_check_block(side, mine[i], SRC_SEED, theirs[i]);
    }
    side->shape = shape;
}

static int notified_dst(int fd, void *arg)
{
    const kv_shape_t *shape = arg;
    uint32_t mine[NUM], theirs[NUM], layer;
    kv_side_t side = {0};
    mkv_event_t event;
    mkv_xfer_t *xfer;

    xfer = expose_dst(&side, fd, shape, mine, theirs);
    for (layer = 0; layer < shape->layers; ++layer) {
        event = kv_wait_event(&side, MKV_EV_ARRIVED, xfer);
        MKV_REQUIRE(event.value == layer, "told of %u, expected %u", event.value,
                    layer);
        check_layers(&side, mine, theirs, layer + 1);
        MKV_REQUIRE(!kv_has_event(&side, MKV_EV_DONE, NULL), "done too early");
        kv_send_word(&side, "next");
    }
    finish(&side, xfer);
    kv_check_others(&side, mine, NUM, DST_SEED);
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

/* The source posts a layer when the one before it was seen */
/* OB-09 */
START_TEST(layers_are_complete_when_they_are_reported)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS | MKV_SEL_NOTIFY};
    kv_shape_t shape = kv_shape_default;
    uint32_t theirs[NUM], layer;
    kv_side_t side = {0};
    mkv_event_t exposed;
    mkv_proc_t proc;
    mkv_plan_t *plan;
    mkv_xfer_t *xfer;

    ck_assert_int_eq(mkv_proc_fork(&proc, notified_dst, &shape), 0);
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    kv_side_connect_map(&side, 1);
    kv_random_blocks(theirs, NUM, shape.blocks, 2);
    xfer = kv_open_xfer(&side, 1, MKV_WRITE, MKV_SRC);
    exposed = kv_wait_event(&side, MKV_EV_EXPOSED, xfer);
    plan = kv_plan(&side, theirs, NUM, &exposed, 0);
    for (layer = 0; layer < shape.layers; ++layer) {
        sel.layer_lo = (int32_t)layer;
        sel.layer_hi = (int32_t)layer + 1;
        sel.notify = layer;
        KV_OK(mkv_xfer_post(xfer, 0, plan, &sel, NULL));
        ck_assert_uint_eq(kv_wait_event(&side, MKV_EV_LOCAL_DONE, xfer).value, layer);
        kv_expect(&side, "next");
    }
    KV_OK(mkv_xfer_seal(xfer, MKV_LEG_ALL));
    finish(&side, xfer);
    KV_OK(mkv_plan_destroy(plan));
    kv_send_word(&side, "bye");
    kv_side_close(&side);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

/* ---- READ ------------------------------------------------------------------------ */

typedef struct read_case {
    const char *by; /* option READ_BY of the reader */
    kv_shape_t shape;
} read_case_t;

static int read_src(int fd, void *arg)
{
    const kv_shape_t *shape = &((const read_case_t *)arg)->shape;
    uint32_t mine[NUM];
    kv_side_t side = {0};
    mkv_xfer_t *xfer;

    kv_side_open(&side, "src", fd, shape, SRC_SEED);
    kv_side_connect_map(&side, 0);
    kv_random_blocks(mine, NUM, shape->blocks, 1);
    xfer = kv_open_xfer(&side, 2, MKV_READ, MKV_SRC);
    kv_expose(xfer, mine, NUM);
    finish(&side, xfer);
    kv_check_others(&side, NULL, 0, SRC_SEED);
    MKV_REQUIRE(strcmp(((const read_case_t *)arg)->by, "push") ||
                    (kv_stats(&side).bytes_pushed > 0),
                "the owner puts");
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

/* Loop index: the side that moves the bytes, and whether blocks have gaps between them
 */
/* XF-04, XF-10 */
START_TEST(read_all_at_once_after_exposed)
{
    static const char *const ways[] = {"auto", "get", "push"};
    read_case_t read_case = {.by = ways[_i % 3], .shape = kv_shape_default};
    kv_shape_t shape;
    uint32_t mine[NUM], theirs[NUM], i;
    kv_side_t side = {0};
    mkv_event_t exposed;
    mkv_proc_t proc;
    mkv_plan_t *plan;
    mkv_xfer_t *xfer;

    read_case.shape.stride = (_i < 3) ? 0 : 4096 + 512;
    shape = read_case.shape;
    kv_set_option("READ_BY", (_i % 3 == 1) ? NULL : read_case.by);
    ck_assert_int_eq(mkv_proc_fork(&proc, read_src, &read_case), 0);
    kv_set_option("READ_BY", read_case.by);
    kv_side_open(&side, "dst", proc.fd, &shape, DST_SEED);
    kv_side_connect_map(&side, 1);
    kv_random_blocks(theirs, NUM, shape.blocks, 1);
    kv_random_blocks(mine, NUM, shape.blocks, 2);
    xfer = kv_open_xfer(&side, 2, MKV_READ, MKV_DST);
    exposed = kv_wait_event(&side, MKV_EV_EXPOSED, xfer);
    ck_assert_uint_eq(kv_stats(&side).ucp_calls, 0);
    plan = kv_plan(&side, mine, NUM, &exposed, 0);
    KV_OK(mkv_xfer_post(xfer, 0, plan, NULL, NULL));
    KV_OK(mkv_xfer_seal(xfer, 0));
    finish(&side, xfer);
    for (i = 0; i < NUM; ++i) {
        kv_check_block(&side, mine[i], SRC_SEED, theirs[i]);
    }
    kv_check_others(&side, mine, NUM, DST_SEED);
    if (_i % 3 > 0) {
        ck_assert_uint_eq(kv_stats(&side).pulls_sent, (_i % 3 == 2) ? 1 : 0);
        ck_assert_uint_eq(kv_stats(&side).ucp_calls > 0, (_i % 3 == 1));
    }
    ck_assert_uint_eq(kv_stats(&side).pulls_refused, 0);
    kv_set_option("READ_BY", NULL);
    KV_OK(mkv_plan_destroy(plan));
    kv_send_word(&side, "bye");
    kv_side_close(&side);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_basic");
    TCase *tcase = tcase_create("two processes");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, write_layer_by_layer_behind_gates, 0, 2);
    tcase_add_test(tcase, opening_takes_no_gpu_memory);
    tcase_add_test(tcase, layers_are_complete_when_they_are_reported);
    tcase_add_loop_test(tcase, read_all_at_once_after_exposed, 0, 6);
    suite_add_tcase(suite, tcase);
    return kv_main(suite);
}
