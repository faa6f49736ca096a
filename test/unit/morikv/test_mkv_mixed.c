/* SPDX-License-Identifier: BSD-3-Clause */

/* A cache in memory of two kinds: beside the keys and values of each layer, in GPU
 * memory, a component in memory of each layer's own, by default host memory. */

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 8u
#define STRETCH (PAIR_BLOCKS * PAIR_BYTES)

static uint8_t host[2][4][STRETCH];
static mkv_xfer_t *active, *passive;
static mkv_plan_t *plan;
static ucs_memory_type_t second_type = UCS_MEMORY_TYPE_HOST;

static void add_second_component(pair_side_t *side, unsigned index)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 1,
                           .length = STRETCH,
                           .unit_bytes = PAIR_BYTES,
                           .n_units = PAIR_BLOCKS,
                           .mem_type = (uint16_t)second_type};
    mkv_region_id_t id;
    uint32_t layer;

    for (layer = 0; layer < pair_layers; ++layer) {
        memset(host[index][layer], (int)(1 + 10 * index + layer), STRETCH);
        region.layer = (int32_t)layer;
        region.base = host[index][layer];
        OK(mkv_region_add(side->ctx, &region, &id));
    }
    OK(mkv_regions_commit(side->ctx, NULL));
}

/* A writes these of its units of both components to those of B */
static void bind_units(const char *transport, const mkv_units_t units[2])
{
    mkv_units_t shown[2] = {units[0], units[1]};

    fake_ucp_reset();
    fake_ucp_set_transport(transport);
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    add_second_component(A, 0);
    add_second_component(B, 1);
    pair_connect(0, 1);
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    shown[0].local = units[0].remote;
    shown[1].local = units[1].remote;
    OK(mkv_xfer_expose(passive, MKV_LEG_ALL, shown, 2, NULL, 0));
    pair_run();
    OK(mkv_plan_create(A->maps[1], units, 2, 0, &plan));
}

static mkv_units_t units_of(uint32_t component, const uint32_t *from,
                            const uint32_t *to, uint32_t num)
{
    return (mkv_units_t){.component = component,
                         .num_local = num,
                         .num_remote = num,
                         .local = from,
                         .remote = to};
}

/* Blocks that do not merge go to the same blocks of B */
static void bind_mixed(const char *transport)
{
    static const uint32_t blocks[NUM] = {0, 2, 4, 6, 8, 10, 12, 14};
    const mkv_units_t units[2] = {units_of(0, blocks, blocks, NUM),
                                  units_of(1, blocks, blocks, NUM)};

    bind_units(transport, units);
}

static void post_all(void)
{
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
}

static void check_moved(void)
{
    uint32_t layer, i;

    ck_assert_int_eq(pair_query(active).status, MKV_OK);
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    for (i = 0; i < NUM; ++i) {
        ck_assert(pair_holds(B, 2 * i, 0, 2 * i));
        ck_assert(pair_holds(B, 2 * i + 1, 1, 2 * i + 1));
        for (layer = 0; layer < pair_layers; ++layer) {
            ck_assert_uint_eq(host[1][layer][2 * i * PAIR_BYTES], 1 + layer);
            ck_assert_uint_eq(host[1][layer][(2 * i + 1) * PAIR_BYTES], 11 + layer);
        }
    }
}

static void close_mixed(void)
{
    pair_close(active, passive, plan);
    pair_teardown();
    second_type = UCS_MEMORY_TYPE_HOST;
}

/* AUX data of a connector: a slot of some host buffers, written to a different slot at
 * the peer along with the request's blocks. It is a component like any other, so it
 * arrives before DONE and needs no message. Loop index: the memory has a lane, or UCX
 * moves it by messages. */
/* AX-01, AX-02 */
START_TEST(a_control_structure_comes_with_its_blocks)
{
    static const uint32_t blocks[] = {0, 2, 4}, slot[] = {6}, other_slot[] = {10};
    const mkv_units_t units[2] = {units_of(0, blocks, blocks, 3),
                                  units_of(1, slot, other_slot, 1)};
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_COMPONENTS};
    uint32_t layer;

    bind_units("mori_xgmi", units);
    if (_i == 1) {
        for (layer = 0; layer < pair_layers; ++layer) {
            fake_ucp_close_way(host[1][layer]);
        }
    }
    sel.component_mask = 1;
    OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    for (layer = 0; layer < pair_layers; ++layer) { /* written when prefill has ended */
        memset(&host[0][layer][6 * PAIR_BYTES], 0xa0 + (int)layer, PAIR_BYTES);
    }
    fake_ucp_hold(FAKE_UCP_PUT);
    sel.component_mask = 2;
    OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, passive), 0);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, passive), 1);
    ck_assert(pair_holds(B, 4, 0, 4));
    for (layer = 0; layer < pair_layers; ++layer) {
        ck_assert_uint_eq(host[1][layer][10 * PAIR_BYTES], 0xa0 + layer);
        ck_assert_uint_eq(host[1][layer][11 * PAIR_BYTES - 1], 0xa0 + layer);
        ck_assert_uint_eq(host[1][layer][11 * PAIR_BYTES], 11 + layer);
        ck_assert_uint_eq(host[1][layer][6 * PAIR_BYTES], 11 + layer);
    }
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), pair_layers);
    close_mixed();
}
END_TEST

/* mori_xgmi takes lists of GPU memory only; loop index: with credit for all of the
 * post, or for one call at a time */
START_TEST(each_part_of_a_post_goes_its_own_way)
{
    pair_set("MAX_INFLIGHT_OPS", _i ? "1" : "4096");
    bind_mixed("mori_xgmi");
    post_all();
    check_moved();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST), pair_layers);
    ck_assert_uint_eq(fake_ucp_num_pieces(), pair_layers * PAIR_PARTS * NUM);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), pair_layers * NUM);
    close_mixed();
}
END_TEST

/* A lane that takes lists of GPU memory refuses that of host memory: in the call or
 * later (loop index). It is given again piece by piece, and the others stay lists. */
START_TEST(a_list_is_judged_by_its_own_memory)
{
    bind_mixed("mori_rdma");
    fake_ucp_set_inline(_i ? FAKE_UCP_LIST : 0);
    fake_ucp_fail(FAKE_UCP_LIST, 1, UCS_ERR_UNSUPPORTED);
    post_all();
    check_moved();
    ck_assert_int_eq(A->peers[1]->sgl[UCS_MEMORY_TYPE_ROCM][UCS_MEMORY_TYPE_ROCM],
                     MKV_SGL_GOOD);
    ck_assert_int_eq(A->peers[1]->sgl[UCS_MEMORY_TYPE_HOST][UCS_MEMORY_TYPE_HOST],
                     MKV_SGL_BAD);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), pair_layers * NUM);
    close_mixed();
}
END_TEST

/* All of it is GPU memory: the cache's, and one memory a layer. The first put to each
 * goes by itself, and later posts are lists alone. Loop index: calls complete within
 * the call */
START_TEST(the_first_put_to_gpu_memory_goes_by_itself)
{
    unsigned asked;

    pair_knows_lists = false;
    second_type = UCS_MEMORY_TYPE_ROCM;
    bind_mixed("mori_xgmi");
    fake_ucp_set_inline(_i ? FAKE_UCP_PUT | FAKE_UCP_LIST : 0);
    post_all();
    check_moved();
    asked = 1 + pair_layers;
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), asked);
    ck_assert_uint_eq(fake_ucp_num_pieces() + asked,
                      pair_layers * NUM * (PAIR_PARTS + 1));
    close_mixed();
}
END_TEST

/* The key of one memory has no lane. Its data moves piece by piece and the rest moves
 * by lists, as the fake would abort on a list. Loop index: a layer's own memory, the
 * cache's. */
START_TEST(memory_without_a_lane_gets_pieces)
{
    unsigned i;

    for (i = 0; i < 2; ++i) {
        pair_knows_lists = false;
        second_type = UCS_MEMORY_TYPE_ROCM;
        bind_mixed("mori_xgmi");
        fake_ucp_close_way((_i == 0) ? (void *)host[1][2] : B->mem);
        fake_ucp_set_inline(i ? FAKE_UCP_PUT | FAKE_UCP_LIST : 0);
        post_all();
        check_moved();
        ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT),
                          (_i == 0) ? pair_layers + NUM
                                    : pair_layers + pair_layers * NUM * PAIR_PARTS);
        close_mixed();
    }
}
END_TEST

/* Lists of this memory worked before. One fails now, and the error names the memory */
START_TEST(a_list_that_fails_late_is_named)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS, .layer_hi = 1};

    bind_mixed("mori_rdma");
    OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    pair_run();
    fake_ucp_fail(FAKE_UCP_LIST, 5, UCS_ERR_IO_ERROR); /* host memory of layer 3 */
    sel.layer_lo = 1;
    sel.layer_hi = 4;
    OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_TRANSPORT);
    ck_assert_ptr_nonnull(strstr(pair_query(active).error,
                                 "list put of 8 pieces(component 1 layer 3 part 0 "
                                 "from local block 0) failed: Input/output error"));
    close_mixed();
}
END_TEST

static void check_error(const char *text)
{
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_TRANSPORT);
    ck_assert_msg(strstr(pair_query(active).error, text) != NULL, "'%s' is not in '%s'",
                  text, pair_query(active).error);
}

/* Loop index: at once or late */
START_TEST(a_piece_that_fails_is_named)
{
    bind_mixed("tcp");
    fake_ucp_set_inline(_i ? 0 : FAKE_UCP_PUT);
    fake_ucp_fail(FAKE_UCP_PUT, 85, UCS_ERR_IO_ERROR);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    pair_run();
    check_error("put(component 0 layer 3 part 1 from local block 10) failed: Input");
    close_mixed();
}
END_TEST

#define MANY 256u

static void add_many(pair_side_t *side, uint8_t *base)
{
    const mkv_region_t region = {.size = sizeof(region),
                                 .component = 1,
                                 .base = base,
                                 .length = MANY * 8,
                                 .unit_bytes = 8,
                                 .n_units = MANY};
    mkv_region_id_t id;

    OK(mkv_region_add(side->ctx, &region, &id));
    OK(mkv_regions_commit(side->ctx, NULL));
}

/* More calls in flight than share a group (64); loop index: which of them fails */
START_TEST(one_of_many_calls_is_named)
{
    static const unsigned skips[] = {0, 63, 64, 127};
    static uint8_t many[2][MANY * 8];
    uint32_t blocks[MANY / 2], i;
    const mkv_units_t units = {.component = 1,
                               .num_local = MANY / 2,
                               .num_remote = MANY / 2,
                               .local = blocks,
                               .remote = blocks};
    char text[80];

    for (i = 0; i < MANY / 2; ++i) {
        blocks[i] = 2 * i;
    }
    fake_ucp_reset();
    fake_ucp_set_transport("tcp");
    pair_open(0);
    pair_open(1);
    add_many(A, many[0]);
    add_many(B, many[1]);
    pair_connect(0, 1);
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    OK(mkv_xfer_expose(passive, MKV_LEG_ALL, &units, 1, NULL, 0));
    pair_run();
    OK(mkv_plan_create(A->maps[1], &units, 1, 0, &plan));
    fake_ucp_fail(FAKE_UCP_PUT, skips[_i], UCS_ERR_IO_ERROR);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    pair_run();
    mkv_text(text, sizeof(text), "layer 0 part 0 from local block %u) failed",
             2 * skips[_i]);
    check_error(text);
    close_mixed();
}
END_TEST

static const uint32_t eight[NUM] = {0, 1, 2, 3, 4, 5, 6, 7};

/* Less of one component than is exposed, and all of the other one. Loop index: the
 * reader requests it, or the destination of a WRITE. */
START_TEST(what_is_expected_is_of_its_component)
{
    const mkv_expect_t expect = {.component = 1, .num_units = 2};
    const mkv_units_t shown[2] = {units_of(0, eight, eight, NUM),
                                  units_of(1, eight, eight, NUM)};
    const mkv_units_t moved[2] = {shown[0], units_of(1, eight, eight, 2)};
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1,
                                .mode = _i ? MKV_WRITE : MKV_READ,
                                .role = MKV_DST,
                                .num_legs = 1,
                                .expect = &expect,
                                .num_expect = 1};

    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    add_second_component(A, 0);
    add_second_component(B, 1);
    pair_connect(0, 1);
    params.legs = _i ? &B->maps[0] : &A->maps[1];
    OK(mkv_xfer_open(_i ? B->ctx : A->ctx, &params, _i ? &passive : &active));
    if (_i) {
        active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    } else {
        passive = pair_xfer(B, 0, 1, MKV_READ, MKV_SRC);
    }
    OK(mkv_xfer_expose(passive, 0, shown, 2, NULL, 0));
    pair_run();
    OK(mkv_plan_create(A->maps[1], moved, 2, 0, &plan));
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_OK);
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    close_mixed();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("mixed");

    tcase_add_loop_test(tcase, a_control_structure_comes_with_its_blocks, 0, 2);
    tcase_add_loop_test(tcase, each_part_of_a_post_goes_its_own_way, 0, 2);
    tcase_add_loop_test(tcase, a_list_is_judged_by_its_own_memory, 0, 2);
    tcase_add_loop_test(tcase, the_first_put_to_gpu_memory_goes_by_itself, 0, 2);
    tcase_add_loop_test(tcase, memory_without_a_lane_gets_pieces, 0, 2);
    tcase_add_test(tcase, a_list_that_fails_late_is_named);
    tcase_add_loop_test(tcase, a_piece_that_fails_is_named, 0, 2);
    tcase_add_loop_test(tcase, one_of_many_calls_is_named, 0, 4);
    tcase_add_loop_test(tcase, what_is_expected_is_of_its_component, 0, 2);
    return pair_main("mkv_mixed", tcase);
}
