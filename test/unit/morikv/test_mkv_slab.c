/* SPDX-License-Identifier: BSD-3-Clause */

/* A packed slab: the layers of a block lie side by side. They are one piece a block. */

#include "test/support/mkv_pair.h"

#include <string.h>

#define LAYERS 6u
#define BLOCKS 16u
#define STRIDE 128u

/* Bytes of each layer in a block: 104 of 128, so that blocks never adjoin */
static const uint32_t sizes[LAYERS] = {8, 40, 8, 24, 16, 8};
static uint8_t slab[2][BLOCKS * STRIDE], wanted[BLOCKS * STRIDE];
static mkv_xfer_t *active, *passive;
static mkv_plan_t *plan;

/* Layers in order, with an unused gap of four bytes after each */
static const uint32_t spread[LAYERS] = {0, 1, 2, 3, 4, 5};

/* Layer by layer or, at side 1, in another order of memory */
static uint32_t offset_of(uint32_t layer, const uint32_t *order)
{
    uint32_t offset = 0, i;

    for (i = 0; order[i] != layer; ++i) {
        offset += sizes[order[i]] + ((order == spread) ? 4 : 0);
    }
    return offset;
}

static void add_slab(unsigned index, const uint32_t *order, uint32_t stride)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 1,
                           .unit_stride = stride,
                           .alloc_base = slab[index],
                           .alloc_length = sizeof(slab[index]),
                           .n_units = BLOCKS};
    mkv_region_id_t id;
    uint32_t i;

    for (i = 0; i < sizeof(slab[index]); ++i) {
        slab[index][i] = (uint8_t)(index * 101 + i * 3 + i / 256);
    }
    for (i = 0; i < LAYERS; ++i) {
        region.layer = (int32_t)i;
        region.unit_bytes = sizes[i];
        region.base = slab[index] + offset_of(i, order);
        region.length = (BLOCKS - 1) * stride + sizes[i];
        OK(mkv_region_add(pair_sides[index].ctx, &region, &id));
    }
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

static const uint32_t forward[LAYERS] = {0, 1, 2, 3, 4, 5};
static const uint32_t mine[] = {1, 3, 4, 9}, theirs[] = {2, 5, 6, 0};

static void bind_slabs(const uint32_t *my_order, const uint32_t *their_order,
                       uint32_t stride)
{
    const mkv_units_t units = {.component = 1,
                               .num_local = 4,
                               .num_remote = 4,
                               .local = mine,
                               .remote = theirs};
    const mkv_units_t exposed = {.component = 1, .num_local = 4, .local = theirs};

    fake_ucp_reset();
    fake_ucp_set_transport("tcp");
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    add_slab(0, my_order, stride);
    add_slab(1, their_order, stride);
    pair_connect(0, 1);
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    OK(mkv_xfer_expose(passive, 0, &exposed, 1, NULL, 0));
    pair_run();
    OK(mkv_plan_create(A->maps[1], &units, 1, MKV_PLAN_KEEP_ORDER, &plan));
    memcpy(wanted, slab[1], sizeof(wanted));
}

/* The pieces of positions [lo, hi) of these layers have moved */
static void want(const uint32_t *my_order, const uint32_t *their_order, uint32_t stride,
                 uint32_t layer_lo, uint32_t layer_hi, uint32_t lo, uint32_t hi)
{
    uint32_t layer, i;

    for (layer = layer_lo; layer < layer_hi; ++layer) {
        for (i = lo; i < hi; ++i) {
            memcpy(wanted + theirs[i] * stride + offset_of(layer, their_order),
                   slab[0] + mine[i] * stride + offset_of(layer, my_order),
                   sizes[layer]);
        }
    }
}

static unsigned post(uint32_t layer_lo, uint32_t layer_hi, uint32_t lo, uint32_t hi)
{
    mkv_sel_t sel = {.size = sizeof(sel),
                     .fields = MKV_SEL_LAYERS | MKV_SEL_POSITIONS,
                     .layer_lo = (int32_t)layer_lo,
                     .layer_hi = (int32_t)layer_hi,
                     .pos_lo = lo,
                     .pos_hi = hi};
    unsigned before = fake_ucp_num_calls(FAKE_UCP_PUT);

    OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    pair_run();
    return fake_ucp_num_calls(FAKE_UCP_PUT) - before;
}

static void finish(void)
{
    ck_assert_mem_eq(slab[1], wanted, sizeof(wanted));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_msg(pair_query(passive).status == MKV_OK, "%s",
                  pair_query(passive).error);
    ck_assert_uint_eq(pair_query(active).completed, pair_query(active).posted);
    pair_close(active, passive, plan);
    pair_teardown();
}

/* Loop index: the order of layers in memory */
/* PL-09 */
START_TEST(layers_side_by_side_are_one_piece_a_block)
{
    static const uint32_t orders[3][LAYERS] = {
        {0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {2, 5, 0, 1, 4, 3}};
    mkv_plan_attr_t attr = {.size = sizeof(attr)};

    bind_slabs(orders[_i], orders[_i], STRIDE);
    OK(mkv_plan_query(plan, &attr));
    ck_assert_uint_eq(attr.num_elements, 4);
    ck_assert_uint_eq(attr.bytes, 4 * 104);
    ck_assert_uint_eq(post(0, LAYERS, 0, 4), 4);
    want(orders[_i], orders[_i], STRIDE, 0, LAYERS, 0, 4);
    finish();
}
END_TEST

/* The selected layers move, in one piece where they adjoin */
/* PL-09 */
START_TEST(a_part_of_the_layers_moves_alone)
{
    static const uint32_t order[LAYERS] = {2, 5, 0, 1, 4, 3};

    bind_slabs(order, order, STRIDE);
    ck_assert_uint_eq(post(1, 3, 0, 3), 3 * 2); /* 1 and 2 are apart */
    want(order, order, STRIDE, 1, 3, 0, 3);
    ck_assert_mem_eq(slab[1], wanted, sizeof(wanted));
    ck_assert_uint_eq(post(3, 6, 0, 2), 2 * 2); /* 4 and 3 adjoin */
    want(order, order, STRIDE, 3, 6, 0, 2);
    ck_assert_mem_eq(slab[1], wanted, sizeof(wanted));
    (void)post(3, 6, 2, 4);
    (void)post(0, 1, 0, 4);
    (void)post(1, 3, 3, 4);
    want(order, order, STRIDE, 0, LAYERS, 0, 4);
    finish();
}
END_TEST

/* Layers that adjoin on one side only move as separate pieces */
START_TEST(layers_apart_at_the_peer_stay_apart)
{
    static const uint32_t other[LAYERS] = {0, 1, 3, 2, 5, 4};

    bind_slabs(forward, other, STRIDE);
    ck_assert_uint_eq(post(0, LAYERS, 0, 4), 4 * 5); /* 0 and 1 */
    want(forward, other, STRIDE, 0, LAYERS, 0, 4);
    finish();
}
END_TEST

START_TEST(layers_with_gaps_at_the_peer_stay_apart)
{
    bind_slabs(forward, spread, STRIDE);
    ck_assert_uint_eq(post(0, LAYERS, 0, 4), 4 * LAYERS);
    want(forward, spread, STRIDE, 0, LAYERS, 0, 4);
    finish();
}
END_TEST

/* Layers that fill the stride: blocks that adjoin are one piece, all layers of them */
START_TEST(blocks_of_a_full_slab_merge)
{
    bind_slabs(forward, forward, 104);
    ck_assert_uint_eq(post(0, LAYERS, 0, 4), 3); /* 3 and 4 to 5 and 6 */
    want(forward, forward, 104, 0, LAYERS, 0, 4);
    finish();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("slab");

    tcase_add_loop_test(tcase, layers_side_by_side_are_one_piece_a_block, 0, 3);
    tcase_add_test(tcase, a_part_of_the_layers_moves_alone);
    tcase_add_test(tcase, layers_apart_at_the_peer_stay_apart);
    tcase_add_test(tcase, layers_with_gaps_at_the_peer_stay_apart);
    tcase_add_test(tcase, blocks_of_a_full_slab_merge);
    return pair_main("mkv_slab", tcase);
}
