/* SPDX-License-Identifier: BSD-3-Clause */

/* Election of the source among several holders of the same data, beyond the ranks of
 * one TP group; checks of the units that a peer announces. */

#include "test/support/mkv_pair.h"
#include "wire/wire.h"

#include <string.h>

#define C (&pair_sides[2])

static uint8_t memory[3][4][1024];

/* A side whose place is another one; the pair's own regions stay whole ones */
static void open_at(unsigned index, uint32_t tp_rank, uint32_t tp_size,
                    uint32_t cp_rank, uint32_t cp_size)
{
    mkv_topology_t *topology;

    pair_open(index);
    topology = &pair_sides[index].ctx->params.topology;
    topology->tp_rank = tp_rank;
    topology->tp_size = tp_size;
    topology->cp_rank = cp_rank;
    topology->cp_size = cp_size;
}

static void add(unsigned index, uint32_t component, int32_t layer, unsigned flags,
                uint32_t shard_size)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = component,
                           .layer = layer,
                           .flags = (uint16_t)flags,
                           .base = memory[index][layer],
                           .length = 1024,
                           .unit_bytes = 64,
                           .n_units = 16,
                           .shard_size = shard_size};
    mkv_region_id_t id;

    memset(memory[index][layer], (int)(index + 1), 1024);
    OK(mkv_region_add(pair_sides[index].ctx, &region, &id));
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

static void begin(void)
{
    fake_ucp_reset();
    pair_now = 1000000000ull;
}

/* The peers of two sides, without the maps that pair_connect() makes */
static void meet(unsigned a, unsigned b)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);

    OK(mkv_blob(pair_sides[b].ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(pair_sides[a].ctx, blob, length, NULL, &pair_sides[a].peers[b]));
    pair_run();
    pair_sides[b].peers[a] =
        mkv_peer_find(pair_sides[b].ctx, pair_sides[a].ctx->process.ctx_id);
    ck_assert_ptr_nonnull(pair_sides[b].peers[a]);
}

static mkv_status_t map(unsigned from, unsigned to, uint32_t component, uint32_t flags)
{
    mkv_map_params_t params = {.size = sizeof(params),
                               .flags = flags,
                               .components = &component,
                               .num_components = 1};
    mkv_map_t *made;
    mkv_status_t status;

    status = mkv_map_create(pair_sides[from].peers[to], &params, &made);
    if (status == MKV_OK) {
        pair_sides[from].maps[to] = made;
    }
    return status;
}

static mkv_map_attr_t attr_of(unsigned from, unsigned to)
{
    mkv_map_attr_t attr = {.size = sizeof(attr)};

    OK(mkv_map_query(pair_sides[from].maps[to], &attr));
    return attr;
}

static void expect_error(const char *text)
{
    ck_assert_msg(strstr(mkv_last_error(), text) != NULL, "'%s' is not in '%s'", text,
                  mkv_last_error());
}

/* Each rank has tokens, and one of them gives the state */
/* TP-04 */
START_TEST(state_of_context_parallel_ranks_is_given_once)
{
    begin();
    open_at(0, 0, 1, 0, 2);
    open_at(1, 0, 1, 0, 1);
    open_at(2, 0, 1, 1, 2);
    add(0, 1, 0, MKV_REGION_REPLICATED, 0);
    add(1, 1, 0, MKV_REGION_REPLICATED, 0);
    add(2, 1, 0, MKV_REGION_REPLICATED, 0);
    add(0, 2, 1, MKV_REGION_REPLICATED | MKV_REGION_CP_REPLICATED, 0);
    add(1, 2, 1, MKV_REGION_REPLICATED | MKV_REGION_CP_REPLICATED, 0);
    add(2, 2, 1, MKV_REGION_REPLICATED | MKV_REGION_CP_REPLICATED, 0);
    meet(0, 1);
    meet(2, 1);
    IS(map(0, 1, 2, 0), MKV_ERR_TOPOLOGY);
    expect_error("expected MKV_MAP_SRC or MKV_MAP_DST");
    OK(map(0, 1, 1, 0));
    ck_assert_uint_eq(attr_of(0, 1).num_pairs, 1);
    OK(map(2, 1, 1, 0));
    ck_assert_uint_eq(attr_of(2, 1).num_pairs, 1);
    OK(mkv_map_destroy(A->maps[1]));
    OK(mkv_map_destroy(C->maps[1]));
    OK(map(0, 1, 2, MKV_MAP_SRC));
    ck_assert_uint_eq(attr_of(0, 1).num_pairs, 1);
    OK(map(2, 1, 2, MKV_MAP_SRC));
    ck_assert_uint_eq(attr_of(2, 1).num_pairs, 0);
    OK(map(1, 2, 2, MKV_MAP_DST));
    ck_assert_uint_eq(attr_of(1, 2).num_pairs, 0);
    pair_teardown();
}
END_TEST

/* Latents of four ranks for one. Loop index: the rank. Only with ANY_RANK other ranks
 * give it */
/* TP-06, TP-08 */
START_TEST(replicated_data_come_from_the_elected_or_from_any)
{
    begin();
    open_at(0, (uint32_t)_i, 4, 0, 1);
    open_at(1, 0, 1, 0, 1);
    add(0, 1, 0, MKV_REGION_REPLICATED, 0);
    add(1, 1, 0, MKV_REGION_REPLICATED, 0);
    meet(0, 1);
    OK(map(0, 1, 1, MKV_MAP_SRC));
    ck_assert_ptr_eq(attr_of(0, 1).peer, A->peers[1]);
    ck_assert_uint_eq(attr_of(0, 1).num_components, 1);
    ck_assert_uint_eq(attr_of(0, 1).num_pairs, _i == 0);
    ck_assert_uint_eq(attr_of(0, 1).components[0].num_sources, 1);
    ck_assert_uint_eq(attr_of(0, 1).components[0].num_destinations, _i == 0);
    ck_assert_uint_eq(attr_of(0, 1).components[0].dst_bytes_per_unit, 64);
    OK(mkv_map_destroy(A->maps[1]));
    OK(map(0, 1, 1, MKV_MAP_ANY_RANK));
    ck_assert_uint_eq(attr_of(0, 1).num_pairs, 1);
    ck_assert_uint_eq(attr_of(0, 1).components[0].bytes_per_unit, 64);
    ck_assert_uint_eq(attr_of(0, 1).components[0].num_sources, 1);
    ck_assert_uint_eq(attr_of(0, 1).components[0].num_destinations, 1);
    pair_teardown();
}
END_TEST

/* Attention is not sharded over the TP group: the region states which ranks share it */
/* TP-06, TP-08 */
START_TEST(a_region_may_be_shared_by_others_than_the_tp_group)
{
    begin();
    open_at(0, 3, 4, 0, 1);
    open_at(1, 0, 2, 0, 1);
    add(0, 1, 0, 0, 1);
    add(1, 1, 0, 0, 1);
    add(0, 2, 1, 0, 0);
    add(1, 2, 1, 0, 0);
    meet(0, 1);
    OK(map(0, 1, 1, 0));
    ck_assert_uint_eq(attr_of(0, 1).num_pairs, 1);
    ck_assert_uint_eq(attr_of(0, 1).components[0].num_sources, 1);
    ck_assert_uint_eq(attr_of(0, 1).components[0].num_destinations, 1);
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    IS(map(0, 1, 2, 0), MKV_ERR_TOPOLOGY);
    expect_error(
        "tp size is 4 here and 2 there, expected equal, as component 2 layer 1 part 0");
    pair_teardown();
}
END_TEST

/* Four heads of 16 bytes, of which a rank has its part */
static void add_heads(unsigned index, uint32_t rank, uint32_t size)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 1,
                           .base = memory[index][0],
                           .length = 64,
                           .unit_bytes = 64 / size,
                           .n_units = 1,
                           .inner_bytes = 16,
                           .num_groups = 1,
                           .groups = {4},
                           .shard_rank = rank,
                           .shard_size = size};
    mkv_region_id_t id;
    unsigned i;

    for (i = 0; i < 64; ++i) {
        memory[index][0][i] = (uint8_t)(100 * index + i);
    }
    OK(mkv_region_add(pair_sides[index].ctx, &region, &id));
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

/* Second of two ranks that share the heads, in a TP group of its own. Loop index: the
 * peer announces the rank, or it is our own */
START_TEST(a_rank_among_those_that_share_has_its_part)
{
    const uint32_t block = 0;
    const mkv_units_t units = {.component = 1,
                               .num_local = 1,
                               .num_remote = 1,
                               .local = &block,
                               .remote = &block};
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    begin();
    open_at(0, 0, 1, 0, 1);
    open_at(1, 0, 1, 0, 1);
    add_heads(0, 0, 1);
    add_heads(1, 1, 2);
    meet(0, 1);
    OK(map(0, 1, 1, MKV_MAP_SRC));
    OK(map(1, 0, 1, MKV_MAP_DST));
    active = _i ? pair_xfer(B, 0, 1, MKV_READ, MKV_DST)
                : pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    passive = _i ? pair_xfer(A, 1, 1, MKV_READ, MKV_SRC)
                 : pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    OK(mkv_xfer_expose(passive, 0, &units, 1, NULL, 0));
    pair_run();
    OK(mkv_plan_create(_i ? B->maps[0] : A->maps[1], &units, 1, 0, &plan));
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    ck_assert_mem_eq(memory[1][0], memory[0][0] + 32, 32);
    ck_assert_uint_eq(memory[1][0][32], 100 + 32);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Each side has a component and a layer that the other one lacks. The requested map
 * names none of them: regions that are not committed do not count */
START_TEST(unrequested_components_need_not_pair)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 1,
                           .layer = 3,
                           .base = memory[0][3],
                           .length = 64,
                           .unit_bytes = 64,
                           .n_units = 1};
    mkv_region_id_t id;

    begin();
    open_at(0, 0, 1, 0, 1);
    open_at(1, 0, 1, 0, 1);
    add(0, 1, 0, 0, 0);
    add(1, 1, 0, 0, 0);
    add(0, 2, 1, 0, 0);
    add(1, 3, 2, 0, 0);
    OK(mkv_region_add(A->ctx, &region, &id));
    meet(0, 1);
    OK(map(0, 1, 1, 0));
    ck_assert_uint_eq(attr_of(0, 1).num_pairs, 1);
    OK(map(1, 0, 1, 0));
    ck_assert_uint_eq(attr_of(1, 0).num_pairs, 1);
    IS(map(0, 1, 2, 0), MKV_ERR_PAIRING);
    expect_error(
        "1 regions here and 0 there; component 2 layer 1 part 0 is missing there");
    IS(map(0, 1, 4, 0), MKV_ERR_PAIRING);
    expect_error("none of ");
    IS(map(0, 1, 2, MKV_MAP_INTERSECT), MKV_ERR_PAIRING);
    expect_error("none of ");
    pair_teardown();
}
END_TEST

/* A stage has some layers: they pair by their numbers */
/* PL-04 */
START_TEST(stages_pair_by_layer)
{
    begin();
    open_at(0, 1, 2, 0, 1);
    open_at(1, 0, 1, 0, 1);
    add(0, 1, 2, MKV_REGION_REPLICATED, 0);
    add(0, 1, 3, MKV_REGION_REPLICATED, 0);
    add(1, 1, 1, MKV_REGION_REPLICATED, 0);
    add(1, 1, 2, MKV_REGION_REPLICATED, 0);
    add(1, 1, 3, MKV_REGION_REPLICATED, 0);
    meet(0, 1);
    IS(map(0, 1, 1, MKV_MAP_ANY_RANK), MKV_ERR_PAIRING);
    OK(map(0, 1, 1, MKV_MAP_ANY_RANK | MKV_MAP_INTERSECT));
    ck_assert_uint_eq(attr_of(0, 1).num_pairs, 2);
    ck_assert_int_eq(attr_of(0, 1).layer_lo, 2);
    ck_assert_int_eq(attr_of(0, 1).layer_hi, 4);
    pair_teardown();
}
END_TEST

/* ---- On the wire ----------------------------------------------------------------- */

static mkv_status_t recode(const mkv_wire_shape_t *shape, mkv_wire_shape_t *out,
                           size_t *length_p)
{
    mkv_wire_mem_t mem = {
        .id = 1, .length = 64, .rkey = (const uint8_t *)"k", .rkey_length = 1};
    mkv_wire_region_t region = {.id = 1,
                                .length = 64,
                                .unit_bytes = 64,
                                .unit_stride = 64,
                                .n_units = 1,
                                .shape = *shape};
    mkv_blob_info_t info = {.process = {.ctx_id = 1},
                            .address = (const uint8_t *)"a",
                            .address_length = 1,
                            .topology = {0, 1, 0, 1, 0, 1, 0, 1, {0}},
                            .has_regions = true,
                            .mems = &mem,
                            .num_mems = 1,
                            .regions = &region,
                            .num_regions = 1};
    mkv_blob_info_t decoded;
    mkv_status_t status;
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    OK(mkv_blob_encode(&info, &wbuf));
    status = mkv_blob_decode(wbuf.data, wbuf.length, &decoded);
    *length_p = wbuf.length;
    if (status == MKV_OK) {
        *out = decoded.regions[0].shape;
        mkv_blob_info_cleanup(&decoded);
    }
    mkv_wbuf_cleanup(&wbuf);
    return status;
}

START_TEST(shapes_travel_and_only_where_there_are_some)
{
    mkv_wire_shape_t shape = {.rank = 0, .size = 1}, out;
    size_t plain, length;

    OK(recode(&shape, &out, &plain));
    ck_assert_uint_eq(out.size, 0);
    shape = (mkv_wire_shape_t){2, 3, 2, {4, 5}, 6, 7};
    OK(recode(&shape, &out, &length));
    ck_assert_uint_gt(length, plain);
    ck_assert_mem_eq(&shape, &out, sizeof(shape));
}
END_TEST

START_TEST(a_shape_that_cannot_be_is_refused)
{
    static const mkv_wire_shape_t shapes[] = {{1, 1, 1, {4}, 3, 3},
                                              {1, 1, 1, {4}, 0, MKV_MAX_SHARDS + 1},
                                              {1, 1, 2, {4, 0}, 0, 2},
                                              {1, 1, 1, {4}, 0, 0}};
    mkv_wire_shape_t out;
    size_t length;

    IS(recode(&shapes[_i], &out, &length), MKV_ERR_PROTOCOL);
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("elect");

    tcase_add_test(tcase, state_of_context_parallel_ranks_is_given_once);
    tcase_add_loop_test(tcase, replicated_data_come_from_the_elected_or_from_any, 0, 4);
    tcase_add_test(tcase, a_region_may_be_shared_by_others_than_the_tp_group);
    tcase_add_loop_test(tcase, a_rank_among_those_that_share_has_its_part, 0, 2);
    tcase_add_test(tcase, unrequested_components_need_not_pair);
    tcase_add_test(tcase, stages_pair_by_layer);
    tcase_add_test(tcase, shapes_travel_and_only_where_there_are_some);
    tcase_add_loop_test(tcase, a_shape_that_cannot_be_is_refused, 0, 4);
    return pair_main("mkv_elect", tcase);
}
