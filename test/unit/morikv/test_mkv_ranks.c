/* SPDX-License-Identifier: BSD-3-Clause */

/* Transfers between ranks of unequal numbers and blocks of unequal sizes; every byte.
 */

#include "test/fake/ucp/fake_ucp.h"
#include "test/support/mkv_pair.h"
#include "test/support/mkv_ranks.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static ranks_set_t source, target;

static void run(void)
{
    bool has_moved;

    do {
        has_moved = ranks_step(&source);
        has_moved |= ranks_step(&target);
    } while (has_moved);
}

static void open_sets(const ranks_part_t *parts, uint32_t num_parts,
                      uint32_t num_sources, uint32_t num_targets, mkv_mode_t mode)
{
    static char blobs[65536];
    size_t length;

    fake_ucp_reset();
    fake_ucp_set_transport("mori_rdma");
    memset(&source, 0, sizeof(source));
    source.parts = parts;
    source.num_parts = num_parts;
    source.mode = mode;
    target = source;
    source.side = RANKS_SRC;
    target.side = RANKS_DST;
    source.num = target.num_others = num_sources;
    target.num = source.num_others = num_targets;
    ranks_open(&source);
    ranks_open(&target);
    length = ranks_blobs(&target, blobs, sizeof(blobs));
    ranks_connect(&source, blobs, length);
    run();
    ck_assert(ranks_are_connected(&source) && ranks_are_connected(&target));
}

static void move_all(void)
{
    char text[160];

    ck_assert(!ranks_are_right(&target, text, sizeof(text)));
    ranks_start(&target);
    ranks_start(&source);
    run();
    ck_assert(ranks_are_quiet(&source) && ranks_are_quiet(&target));
    ck_assert_msg(ranks_are_right(&target, text, sizeof(text)), "%s", text);
    ranks_check_maps(&target);
}

static void close_sets(void)
{
    ranks_close(&source);
    ranks_close(&target);
    fake_ucp_reset();
}

static void expect_error(const char *text)
{
    ck_assert_msg(strstr(mkv_last_error(), text) != NULL, "'%s' is not in '%s'", text,
                  mkv_last_error());
}

#define TOKENS {4, 4}, 22

/* All layouts at once */
static const ranks_part_t cache[] = {
    {0, {0, 0}, 1, 8, 1, {8}, TOKENS, 0},                      /* heads, NHD */
    {MKV_REGION_HEADS_FIRST, {0, 0}, 2, 6, 1, {8}, TOKENS, 0}, /* K and V, HND */
    {0, {0, 0}, 1, 4, 2, {4, 4}, TOKENS, 5}, /* K and V of a token, 4 heads, gaps */
    {MKV_REGION_REPLICATED, {0, 0}, 1, 36, 0, {0}, TOKENS, 0}, /* latent */
    {0, {0, 0}, 1, 6, 3, {16, 16, 32}, {0, 0}, 1, 3},          /* convolution */
    {0, {0, 0}, 1, 64, 1, {8}, {0, 0}, 1, 0},                  /* state of heads */
    {0, {MKV_REGION_HEADS_FIRST, 0}, 2, 4, 1, {8}, TOKENS, 0}, /* HND to NHD */
    {0, {0, MKV_REGION_REVERSE}, 1, 8, 1, {8}, TOKENS, 0},     /* a ring from its end */
    {0, {0, 0}, 1, 8, 1, {2}, {4, 4}, 6, 0}, /* a window: two blocks, 2 heads */
};
#define NUM_PARTS (sizeof(cache) / sizeof(cache[0]))

static const uint32_t sizes[][2] = {{4, 2}, {2, 4}, {4, 1}, {1, 4}, {2, 2},
                                    {8, 2}, {2, 8}, {8, 4}, {4, 8}};

/* Loop index: sizes; WRITE, READ by gets, and READ by the owners' puts. Each byte of
 * the destinations moves once */
/* ST-01, TP-01, TP-06, TP-07, TP-08, TS-06 */
START_TEST(any_number_of_ranks_gives_to_any)
{
    pair_set("READ_BY", (_i % 3 == 2) ? "push" : "get");
    open_sets(cache, NUM_PARTS, sizes[_i / 3][0], sizes[_i / 3][1],
              (_i % 3 == 0) ? MKV_WRITE : MKV_READ);
    move_all();
    ck_assert_uint_eq(ranks_bytes(&target), ranks_held_bytes(&target));
    ck_assert_int_eq(fake_ucp_num_calls(FAKE_UCP_GET) > 0, _i % 3 == 1);
    close_sets();
}
END_TEST

/* The strides of the two sides give different orders. Loop index: to NHD, to HND; maps
 * of one direction, of both */
/* XF-10 */
START_TEST(owners_put_what_has_its_heads_first_on_one_side)
{
    ranks_part_t part = {0, {0, 0}, 2, 4, 1, {8}, TOKENS, 0};

    part.side_flags[_i % 2] = MKV_REGION_HEADS_FIRST;
    pair_set("READ_BY", "push");
    open_sets(&part, 1, 1, 1, MKV_READ);
    source.is_two_way = target.is_two_way = (_i / 2);
    move_all();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 0);
    close_sets();
}
END_TEST

/* Blocks of 8 tokens to blocks of 2, 4 to 16, equal sizes of blocks, of three layouts.
 * The last block is not full. Loop index: WRITE, READ by gets, and READ by the owners'
 * puts; tokens; sizes of blocks */
/* PL-07, XF-10 */
START_TEST(blocks_may_be_of_unequal_size)
{
    static const uint32_t tokens[][2] = {{8, 2}, {2, 8}, {4, 8}, {4, 4}};
    ranks_part_t parts[4] = {
        {0, {0, 0}, 1, 8, 1, {4}, {0, 0}, 22, 0},
        {MKV_REGION_HEADS_FIRST, {0, 0}, 2, 8, 1, {4}, {0, 0}, 22, 7},
        {MKV_REGION_REPLICATED, {0, 0}, 2, 12, 0, {0}, {0, 0}, 22, 0},
        {0, {0, 0}, 1, 64, 1, {8}, {0, 0}, 1, 0}};
    uint32_t i;

    for (i = 0; i < 3; ++i) {
        parts[i].tokens[0] = tokens[_i / 6][0];
        parts[i].tokens[1] = tokens[_i / 6][1];
    }
    pair_set("READ_BY", (_i % 3 == 2) ? "push" : "get");
    open_sets(parts, 4, 2, 4, (_i % 3 == 0) ? MKV_WRITE : MKV_READ);
    source.map_flags = target.map_flags = (_i / 3 % 2) ? MKV_MAP_TOKENS : 0;
    move_all();
    ck_assert_uint_eq(ranks_bytes(&target), ranks_held_bytes(&target));
    ck_assert_int_eq(fake_ucp_num_calls(FAKE_UCP_GET) > 0, _i % 3 == 1);
    close_sets();
}
END_TEST

static const ranks_part_t eights_to_twos = {0, {0, 0}, 1, 8, 1, {4}, {8, 2}, 8, 0};

/* Loop index: the owner takes parts of blocks; it is of an earlier version and does not
 */
/* WR-01, XF-10 */
START_TEST(parts_of_blocks_are_put_by_owners_that_announce_it)
{
    pair_set("READ_BY", "push");
    open_sets(&eights_to_twos, 1, 1, 1, MKV_READ);
    if (_i) { /* announced with the keys */
        source.ranks[0].ctx->features = MKV_FEATURE_PUSH;
    }
    move_all();
    ck_assert_int_eq(fake_ucp_num_calls(FAKE_UCP_GET) > 0, _i);
    close_sets();
}
END_TEST

/* Poll the context until it has the event */
static mkv_event_t wait_for(mkv_ctx_t *ctx, mkv_event_type_t type)
{
    mkv_event_t event;
    size_t count;

    do {
        while (mkv_progress(source.ranks[0].ctx) + mkv_progress(target.ranks[0].ctx) >
               0) {
        }
        OK(mkv_poll(ctx, &event, sizeof(event), 1, &count));
        ck_assert_uint_eq(count, 1);
    } while (event.type != type);
    return event;
}

/* A reader without checks of its own requests parts. Loop index: parts of the block
 * before the exposed one, of that block, and the first part behind it */
/* XF-10 */
START_TEST(parts_of_blocks_that_were_not_exposed_are_not_put)
{
    static const uint32_t twos[] = {0, 1, 2, 3};
    ranks_rank_t *reader = &target.ranks[0], *owner = &source.ranks[0];
    mkv_map_params_t map = {.size = sizeof(map), .flags = MKV_MAP_DST};
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1,
                                .mode = MKV_READ,
                                .role = MKV_DST,
                                .num_legs = 1};
    mkv_units_t units = {
        .num_local = (_i == 2) ? 1 : 4, .local = twos, .num_remote = 1};
    uint32_t block;

    pair_set("READ_BY", "push");
    open_sets(&eights_to_twos, 1, 1, 1, MKV_READ);
    ranks_start(&source);
    OK(mkv_map_create(reader->peers[0], &map, &reader->maps[0]));
    params.legs = reader->maps;
    OK(mkv_xfer_open(reader->ctx, &params, &reader->xfer));
    units.component = wait_for(reader->ctx, MKV_EV_EXPOSED).units[0].component;
    block = owner->xfer->legs[0].units[0].local[0] + (uint32_t)_i - 1;
    ck_assert_uint_lt(block, RANKS_BLOCKS);
    units.remote = &block;
    OK(mkv_plan_create(reader->maps[0], &units, 1, MKV_PLAN_UNCHECKED,
                       &reader->plans[0]));
    OK(mkv_xfer_post(reader->xfer, 0, reader->plans[0], NULL, NULL));
    while (mkv_progress(owner->ctx) + mkv_progress(reader->ctx) > 0) {
    }
    ck_assert_int_eq(pair_query(owner->xfer).status,
                     (_i == 1) ? MKV_INPROGRESS : MKV_ERR_BOUNDS);
    ck_assert_int_eq(fake_ucp_num_calls(FAKE_UCP_PUT | FAKE_UCP_LIST) > 0, _i == 1);
    if (_i == 1) {
        OK(mkv_xfer_abort(reader->xfer, MKV_ERR_ABORTED, NULL));
        (void)wait_for(reader->ctx, MKV_EV_QUIET);
    }
    close_sets();
}
END_TEST

/* ---- Plans ----------------------------------------------------------------------- */

static mkv_status_t plan_blocks(uint32_t num_local, const uint32_t *local,
                                uint32_t num_remote, const uint32_t *remote)
{
    const mkv_units_t units = {.component = 2,
                               .num_local = num_local,
                               .num_remote = num_remote,
                               .local = local,
                               .remote = remote};

    return mkv_plan_create(source.ranks[0].maps[0], &units, 1, 0,
                           &source.ranks[0].plans[0]);
}

static void open_pair(uint32_t my_tokens, uint32_t their_tokens)
{
    const ranks_part_t part = {0, {0, 0}, 1, 8, 1, {4}, {my_tokens, their_tokens},
                               8, 0};

    open_sets(&part, 1, 1, 1, MKV_WRITE);
    OK(mkv_map_create(source.ranks[0].peers[0], NULL, &source.ranks[0].maps[0]));
}

/* A block of one side is four of the other, and no more blocks are there for that */
START_TEST(a_block_behind_the_last_one_is_refused)
{
    const uint32_t good[] = {0, 1, 2, 3}, bad[] = {0, 1, 2, RANKS_BLOCKS};

    open_pair(8, 2);
    IS(plan_blocks(1, &bad[3], 4, good), MKV_ERR_BOUNDS);
    expect_error("local block 16 at position 0, the regions have 16");
    IS(plan_blocks(1, good, 4, bad), MKV_ERR_BOUNDS);
    expect_error("remote block 16 at position 3");
    close_sets();
    open_pair(2, 8);
    IS(plan_blocks(4, bad, 1, good), MKV_ERR_BOUNDS);
    IS(plan_blocks(4, good, 1, &bad[3]), MKV_ERR_BOUNDS);
    expect_error("remote block 16 at position 0, peer d0 has 16");
    OK(plan_blocks(4, good, 1, good));
    close_sets();
}
END_TEST

/* All that is one after the other on both sides, whatever the blocks */
START_TEST(blocks_of_unequal_size_without_gaps_are_one_piece)
{
    const uint32_t mine[] = {3, 4}, theirs[] = {4, 5, 6, 7, 8, 9, 10, 11};
    mkv_plan_attr_t attr = {.size = sizeof(attr)};

    open_pair(8, 2);
    OK(plan_blocks(2, mine, 8, theirs));
    OK(mkv_plan_query(source.ranks[0].plans[0], &attr));
    ck_assert_uint_eq(attr.num_runs, 1);
    ck_assert_uint_eq(attr.num_elements, RANKS_LAYERS);
    close_sets();
}
END_TEST

/* ---- Impossible cases ------------------------------------------------------------ */

static void refused(const ranks_part_t *mine, const ranks_part_t *theirs,
                    uint32_t num_sources, uint32_t num_targets, uint32_t flags,
                    mkv_status_t status, const char *text)
{
    mkv_map_params_t params = {.size = sizeof(params), .flags = flags};
    static char blobs[65536];
    mkv_map_t *map;
    size_t length;

    fake_ucp_reset();
    memset(&source, 0, sizeof(source));
    target = source;
    source.parts = mine;
    target.parts = theirs;
    source.num_parts = target.num_parts = 1;
    target.side = RANKS_DST;
    source.num = target.num_others = num_sources;
    target.num = source.num_others = num_targets;
    ranks_open(&source);
    ranks_open(&target);
    length = ranks_blobs(&target, blobs, sizeof(blobs));
    ranks_connect(&source, blobs, length);
    run();
    ck_assert_int_eq(mkv_map_create(source.ranks[0].peers[0], &params, &map), status);
    expect_error(text);
    close_sets();
}

/* MD-02, TP-05 */
START_TEST(what_cannot_be_cut_is_refused_with_its_numbers)
{
    const ranks_part_t heads = {0, {0, 0}, 1, 8, 1, {8}, {4, 4}, 4, 0};
    const ranks_part_t latent = {
        MKV_REGION_REPLICATED, {0, 0}, 1, 8, 0, {0}, {4, 4}, 4, 0};
    ranks_part_t other = heads;

    other.groups[0] = 4;
    refused(&heads, &other, 2, 4, MKV_MAP_SRC, MKV_ERR_GEOMETRY,
            "a group's elements is 8 here and 4 there");
    other = heads;
    other.outer = 2;
    refused(&heads, &other, 2, 4, MKV_MAP_SRC, MKV_ERR_GEOMETRY,
            "outer is 1 here and 2 there");
    other = heads;
    other.inner = 16;
    refused(&heads, &other, 2, 4, MKV_MAP_SRC, MKV_ERR_GEOMETRY,
            "inner_bytes is 8 here and 16 there");
    other = heads;
    other.num_groups = 2;
    other.groups[1] = 8;
    refused(&heads, &other, 2, 4, MKV_MAP_SRC, MKV_ERR_GEOMETRY,
            "num_groups is 1 here and 2 there");
    other = heads;
    other.tokens[1] = 6;
    refused(&heads, &other, 2, 4, MKV_MAP_SRC, MKV_ERR_PAGE,
            "tokens per unit is 4 here and 6 there, expected one to be a multiple");
    refused(&latent, &latent, 4, 2, 0, MKV_ERR_TOPOLOGY,
            "expected MKV_MAP_SRC or MKV_MAP_DST");
    refused(&latent, &latent, 4, 2, MKV_MAP_SRC | MKV_MAP_DST, MKV_ERR_INVALID,
            "not both");
}
END_TEST

/* Reserved memory, which is never accessed */
static void *reserve(uint64_t length)
{
    const uint64_t size = 1ull << 32;
    static void *base;

    ck_assert_uint_le(length, size);
    if (base == NULL) {
        base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
        ck_assert_ptr_ne(base, MAP_FAILED);
    }
    return base;
}

/* Open a context with layers of one component, at an address that is never accessed */
static void open_with(unsigned index, const mkv_region_t *regions, int32_t num)
{
    mkv_open_params_t params = {.size = sizeof(params)};
    mkv_region_t region;
    mkv_region_id_t id;
    int32_t i;

    OK(mkv_open(NULL, &params, &pair_sides[index].ctx));
    for (i = 0; i < num; ++i) {
        region = regions[i];
        region.size = sizeof(region);
        region.layer = i;
        region.length = region.n_units * region.unit_bytes;
        region.base = reserve(region.length);
        OK(mkv_region_add(pair_sides[index].ctx, &region, &id));
    }
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

/* Create the map in both directions. @param text  Expected error text, unless the
 * status is MKV_OK */
static void match(const mkv_region_t *mine, const mkv_region_t *theirs, int32_t num,
                  uint32_t flags, mkv_status_t status, const char *text)
{
    mkv_map_params_t params = {.size = sizeof(params), .flags = flags};
    uint8_t blob[4096];
    size_t length;
    mkv_map_t *map;
    unsigned i;

    for (i = 0; i < 2; ++i) {
        fake_ucp_reset();
        open_with(0, (i == 0) ? mine : theirs, num);
        open_with(1, (i == 0) ? theirs : mine, num);
        length = sizeof(blob);
        OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
        OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
        pair_run();
        IS(mkv_map_create(A->peers[1], &params, &map), status);
        if (status == MKV_OK) {
            OK(mkv_map_destroy(map));
        } else {
            expect_error(text);
        }
        pair_teardown();
    }
}

/* Units of one token, of which a block of 2^31 has so many that ids have no room for
 * them; and blocks that stand for unequal numbers of units within one component */
START_TEST(parts_of_blocks_are_bounded_and_of_one_number)
{
    mkv_region_t one[2] = {
        {.n_units = 4, .unit_bytes = 1, .tokens_per_unit = 1, .inner_bytes = 1}};
    mkv_region_t many[2] = {{.n_units = 1,
                             .unit_bytes = 1ull << 31,
                             .tokens_per_unit = 1u << 31,
                             .inner_bytes = 1}};

    match(one, many, 1, 0, MKV_OK, NULL);
    many[0].n_units = 2;
    match(one, many, 1, 0, MKV_ERR_BOUNDS, "expected at most 2^32 - 1");
    one[1] = one[0];
    many[0].n_units = 1;
    many[1] = one[0];
    match(one, many, 2, 0, MKV_ERR_GEOMETRY,
          "expected those of the component's other regions");
}
END_TEST

/* Heads before tokens on one side: as many pieces as both have, times the number of
 * outer elements */
START_TEST(a_unit_of_too_many_pieces_is_refused)
{
    mkv_region_t mine = {.n_units = 1,
                         .unit_bytes = 64 * 4 * 2 * 2,
                         .flags = MKV_REGION_HEADS_FIRST,
                         .tokens_per_unit = 4,
                         .outer = 64,
                         .inner_bytes = 2,
                         .num_groups = 1,
                         .groups = {2}};
    mkv_region_t theirs = mine;

    theirs.flags = 0;
    match(&mine, &theirs, 1, 0, MKV_OK, NULL);
    mine.outer = theirs.outer = 65;
    mine.unit_bytes = theirs.unit_bytes = 65 * 4 * 2 * 2;
    match(&mine, &theirs, 1, 0, MKV_ERR_GEOMETRY,
          "a unit is 65 times 8 pieces, expected at most 64 times 4294967295");
    mine.outer = theirs.outer = 1;
    mine.inner_bytes = theirs.inner_bytes = 1;
    mine.groups[0] = theirs.groups[0] = 1u << 16;
    mine.tokens_per_unit = theirs.tokens_per_unit = 1u << 16;
    mine.unit_bytes = theirs.unit_bytes = 1ull << 32;
    match(&mine, &theirs, 1, 0, MKV_ERR_GEOMETRY,
          "a unit is 1 times 4294967296 pieces");
}
END_TEST

/* A value that one side does not state is taken from the other. Lists of tokens need
 * the size of a token */
START_TEST(tokens_that_one_side_does_not_state_differ_from_nothing)
{
    mkv_region_t stated = {.n_units = 4, .unit_bytes = 64, .tokens_per_unit = 16};
    mkv_region_t other = {.n_units = 4, .unit_bytes = 64};

    match(&stated, &other, 1, 0, MKV_OK, NULL);
    match(&other, &other, 1, MKV_MAP_TOKENS, MKV_OK, NULL); /* states */
    match(&stated, &other, 1, MKV_MAP_TOKENS, MKV_ERR_GEOMETRY,
          "expected both with MKV_MAP_TOKENS");
    match(&stated, &stated, 1, MKV_MAP_TOKENS, MKV_ERR_GEOMETRY,
          "inner_bytes is 0 here and 0 there, expected both with MKV_MAP_TOKENS");
}
END_TEST

static mkv_status_t add(mkv_region_t *region)
{
    static uint8_t memory[4096];
    mkv_region_id_t id;

    region->size = sizeof(*region);
    region->base = memory;
    region->length = sizeof(memory);
    region->n_units = 4;
    return mkv_region_add(A->ctx, region, &id);
}

/* A rank's unit must have the announced size, checked at once */
/* MD-02, TP-05 */
START_TEST(units_of_a_wrong_size_are_refused)
{
    mkv_region_t region = {.component = 1,
                           .unit_bytes = 4 * 3 * 8,
                           .tokens_per_unit = 4,
                           .inner_bytes = 8,
                           .num_groups = 1,
                           .groups = {12},
                           .shard_rank = 1,
                           .shard_size = 2};

    pair_setup();
    IS(add(&region), MKV_ERR_GEOMETRY);
    expect_error(
        "unit_bytes is 96, but outer 1 x 4 tokens x 6 elements of this rank x 8 bytes is "
        "192");
    region.shard_size = 5;
    IS(add(&region), MKV_ERR_TOPOLOGY);
    expect_error("12 elements cannot be divided among 5 ranks");
    region.shard_size = 1;
    IS(add(&region), MKV_ERR_INVALID);
    expect_error("shard_rank 1 of shard_size 1");
    region.shard_size = 4;
    region.groups[1] = 1;
    IS(add(&region), MKV_ERR_INVALID);
    expect_error("group 1 of 1 has 1 elements");
    region.groups[1] = 0;
    region.num_groups = MKV_MAX_GROUPS + 1;
    IS(add(&region), MKV_ERR_INVALID);
    region.num_groups = 1;
    OK(add(&region));
    pair_teardown();
}
END_TEST

/* A map for one direction is not taken for the other */
START_TEST(a_map_of_a_source_is_for_a_source)
{
    mkv_map_params_t params = {.size = sizeof(params), .flags = MKV_MAP_SRC};
    mkv_xfer_params_t xfer = {.size = sizeof(xfer), .role = MKV_DST, .num_legs = 1};
    mkv_xfer_t *handle;
    mkv_map_t *map;

    pair_setup();
    OK(mkv_map_create(A->peers[1], &params, &map));
    xfer.legs = &map;
    IS(mkv_xfer_open(A->ctx, &xfer, &handle), MKV_ERR_INVALID);
    expect_error("for transfers in which this side is the source");
    OK(mkv_map_destroy(map));
    pair_teardown();
}
END_TEST

/* Tokens on one side only */
/* PL-07 */
START_TEST(both_sides_count_tokens_or_none)
{
    const ranks_part_t heads = {0, {0, 0}, 1, 8, 1, {8}, {4, 4}, 4, 0};
    const ranks_part_t *parts = &heads;
    mkv_xfer_attr_t attr;
    mkv_event_t event;
    size_t count;

    open_sets(parts, 1, 1, 1, MKV_WRITE);
    target.map_flags = MKV_MAP_TOKENS;
    ranks_start(&target);
    ranks_start(&source);
    do {
        count = mkv_progress(source.ranks[0].ctx) + mkv_progress(target.ranks[0].ctx);
    } while (count > 0);
    attr = pair_query(source.ranks[0].xfer);
    ck_assert_int_eq(attr.status, MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(
        strstr(attr.error, "for WRITE, the other for WRITE of tokens"));
    do {
        OK(mkv_poll(source.ranks[0].ctx, &event, sizeof(event), 1, &count));
    } while (count > 0);
    close_sets();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("ranks");

    tcase_add_loop_test(tcase, any_number_of_ranks_gives_to_any, 0,
                        3 * sizeof(sizes) / sizeof(sizes[0]));
    tcase_add_loop_test(tcase, owners_put_what_has_its_heads_first_on_one_side, 0, 4);
    tcase_add_loop_test(tcase, blocks_may_be_of_unequal_size, 0, 24);
    tcase_add_loop_test(tcase, parts_of_blocks_are_put_by_owners_that_announce_it, 0,
                        2);
    tcase_add_loop_test(tcase, parts_of_blocks_that_were_not_exposed_are_not_put, 0, 3);
    tcase_add_test(tcase, a_block_behind_the_last_one_is_refused);
    tcase_add_test(tcase, blocks_of_unequal_size_without_gaps_are_one_piece);
    tcase_add_test(tcase, parts_of_blocks_are_bounded_and_of_one_number);
    tcase_add_test(tcase, a_unit_of_too_many_pieces_is_refused);
    tcase_add_test(tcase, tokens_that_one_side_does_not_state_differ_from_nothing);
    tcase_add_test(tcase, what_cannot_be_cut_is_refused_with_its_numbers);
    tcase_add_test(tcase, units_of_a_wrong_size_are_refused);
    tcase_add_test(tcase, a_map_of_a_source_is_for_a_source);
    tcase_add_test(tcase, both_sides_count_tokens_or_none);
    return pair_main("mkv_ranks", tcase);
}
