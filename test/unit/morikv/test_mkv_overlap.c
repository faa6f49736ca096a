/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Blocks that two transfers would write to at once (option OVERLAP).
 */

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 8
#define FIRST 16

static char last_warning[256];

static void keep_warning(void *arg, mkv_log_level_t level, const char *text)
{
    (void)arg;
    if (level == MKV_LOG_WARN) {
        mkv_text(last_warning, sizeof(last_warning), "%s", text);
    }
}

/* B exposes its blocks [first, first + NUM) to be written to or, READ, to be read */
static mkv_status_t expose(uint64_t id, mkv_mode_t mode, uint32_t first,
                           mkv_xfer_t **xfer_p)
{
    uint32_t blocks[NUM], i;
    mkv_units_t units = {.num_local = NUM, .local = blocks};

    for (i = 0; i < NUM; ++i) {
        blocks[i] = first + i;
    }
    *xfer_p = pair_xfer(B, 0, id, mode, (mode == MKV_WRITE) ? MKV_DST : MKV_SRC);
    return mkv_xfer_expose(*xfer_p, 0, &units, 1, NULL, 0);
}

static void setup(const char *overlap)
{
    pair_set("OVERLAP", overlap);
    pair_setup();
    last_warning[0] = '\0';
    B->ctx->log.sink = keep_warning;
}

static void end(mkv_xfer_t *xfer)
{
    OK(mkv_xfer_abort(xfer, MKV_ERR_ABORTED, NULL));
    pair_run();
    OK(mkv_xfer_close(xfer));
}

/* OB-05 */
START_TEST(a_block_of_a_transfer_that_is_not_quiet_is_refused)
{
    mkv_xfer_t *first, *second;

    setup("refuse");
    OK(expose(1, MKV_WRITE, FIRST, &first));
    IS(expose(2, MKV_WRITE, FIRST + NUM - 1, &second), MKV_ERR_DUPLICATE);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(),
                                 "component 0 block 23 is exposed to transfer 1 epoch "
                                 "0, which is not quiet"));
    end(second);
    IS(expose(2, MKV_WRITE, FIRST, &second), MKV_ERR_DUPLICATE); /* the first has it */
    end(second);
    OK(expose(2, MKV_WRITE, FIRST - NUM, &second)); /* the refused one kept no block */
    end(second);
    end(first); /* and with it, quiet */
    OK(expose(3, MKV_WRITE, FIRST, &second));
    end(second);
    pair_teardown();
}
END_TEST

/* Aborted, but a put may be in flight */
/* OB-05 */
START_TEST(a_block_is_owned_until_its_transfer_is_quiet)
{
    mkv_xfer_t *active, *first, *second;
    mkv_plan_t *plan;

    setup("refuse");
    active = pair_bind_write(NUM, &first);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_abort(first, MKV_ERR_ABORTED, NULL));
    pair_run();
    IS(expose(2, MKV_WRITE, 0, &second), MKV_ERR_DUPLICATE);
    end(second);
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(first).is_quiet);
    OK(expose(3, MKV_WRITE, 0, &second));
    end(second);
    pair_close(active, first, plan);
    pair_teardown();
}
END_TEST

/* Loop index: OVERLAP=warn, OVERLAP=allow. Neither refuses. An application that does so
 * all the time gets one line, not its log filled. */
/* OB-05 */
START_TEST(overlap_is_warned_of_once_unless_allowed)
{
    mkv_xfer_t *first, *second;

    setup(_i ? "allow" : "warn");
    OK(expose(1, MKV_WRITE, FIRST, &first));
    OK(expose(2, MKV_WRITE, FIRST, &second));
    ck_assert_int_eq(strstr(last_warning, "transfer 2: expose: component 0 block 16 is "
                                          "exposed to transfer 1") != NULL,
                     !_i);
    end(second);
    last_warning[0] = '\0';
    OK(expose(3, MKV_WRITE, FIRST, &second));
    ck_assert_str_eq(last_warning, "");
    end(second);
    end(first);
    pair_teardown();
}
END_TEST

/* OB-05 */
START_TEST(readers_may_share_blocks)
{
    mkv_xfer_t *first, *second;

    setup("refuse");
    OK(expose(1, MKV_READ, FIRST, &first));
    OK(expose(2, MKV_READ, FIRST, &second));
    end(first);
    end(second);
    pair_teardown();
}
END_TEST

/* Several sources of one unit, and a list that names a block twice. These blocks are
 * closed to other transfers, and all of them are released. Loop index: legs together.
 */
/* OB-05 */
START_TEST(legs_of_one_transfer_may_share_blocks)
{
    uint32_t blocks[] = {FIRST, FIRST + 1, FIRST, FIRST + 2, FIRST};
    mkv_units_t units = {.num_local = 5, .local = blocks};
    mkv_xfer_params_t params = {
        .size = sizeof(params), .id = 1, .mode = MKV_WRITE, .role = MKV_DST};
    mkv_map_t *maps[2];
    mkv_xfer_t *xfer, *other;

    setup("refuse");
    pair_open(2);
    pair_connect(1, 2);
    maps[0] = B->maps[0];
    maps[1] = B->maps[2];
    params.legs = maps;
    params.num_legs = 2;
    OK(mkv_xfer_open(B->ctx, &params, &xfer));
    OK(mkv_xfer_expose(xfer, _i ? MKV_LEG_ALL : 0, &units, 1, NULL, 0));
    if (!_i) {
        OK(mkv_xfer_expose(xfer, 1, &units, 1, NULL, 0));
    }
    IS(expose(2, MKV_WRITE, FIRST, &other), MKV_ERR_DUPLICATE);
    end(other);
    end(xfer);
    OK(expose(3, MKV_WRITE, FIRST, &other));
    end(other);
    pair_teardown();
}
END_TEST

/* More bytes than a message holds are given with it */
START_TEST(blocks_that_were_not_exposed_after_all_have_no_owner)
{
    static const uint8_t meta[8192];
    const uint32_t block = FIRST;
    const mkv_units_t units = {.num_local = 1, .local = &block};
    mkv_xfer_t *first, *second;

    pair_set("MAX_MESSAGE", "4k");
    setup("refuse");
    first = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    IS(mkv_xfer_expose(first, 0, &units, 1, meta, sizeof(meta)), MKV_ERR_LENGTH);
    ck_assert_uint_eq(first->legs[0].num_units, 0); /* no units kept */
    OK(expose(2, MKV_WRITE, FIRST, &second));
    end(second);
    end(first);
    pair_teardown();
}
END_TEST

/* B exposes these blocks to be written to */
static mkv_status_t expose_list(uint64_t id, const uint32_t *blocks, uint32_t num,
                                mkv_xfer_t **xfer_p)
{
    const mkv_units_t units = {.num_local = num, .local = blocks};

    *xfer_p = pair_xfer(B, 0, id, MKV_WRITE, MKV_DST);
    return mkv_xfer_expose(*xfer_p, 0, &units, 1, NULL, 0);
}

/* Lists are compared four by four, and then the rest. Loop index: its place. */
START_TEST(a_block_is_found_wherever_it_is_in_a_list)
{
    static const uint32_t blocks[] = {3, 4, 5, 6, 7, 8, 9}, far = 30;
    mkv_xfer_t *other, *owner, *second;
    char text[64];

    setup("refuse");
    OK(expose_list(1, &far, 1, &other));
    OK(expose_list(2, &blocks[_i], 1, &owner));
    IS(expose_list(3, blocks, 7, &second), MKV_ERR_DUPLICATE);
    mkv_text(text, sizeof(text), "block %u is exposed to transfer 2 ", blocks[_i]);
    ck_assert_msg(strstr(mkv_last_error(), text) != NULL, "%s", mkv_last_error());
    end(second);
    end(owner);
    end(other);
    pair_teardown();
}
END_TEST

static void add_states(unsigned index)
{
    static uint8_t states[2][PAIR_BLOCKS][PAIR_BYTES];
    const mkv_region_t region = {.size = sizeof(region),
                                 .component = 1,
                                 .base = states[index],
                                 .length = sizeof(states[index]),
                                 .unit_bytes = PAIR_BYTES,
                                 .n_units = PAIR_BLOCKS,
                                 .mem_type = UCS_MEMORY_TYPE_HOST};
    mkv_region_id_t id;

    OK(mkv_region_add(pair_sides[index].ctx, &region, &id));
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

/* Numbers of blocks are those of a component */
START_TEST(a_block_is_of_its_component)
{
    static const uint32_t five = 5, six = 6;
    const mkv_units_t owned[] = {{.component = 1, .num_local = 1, .local = &five}},
                      wanted[] = {{.component = 0, .num_local = 1, .local = &six},
                                  {.component = 1, .num_local = 1, .local = &five}};
    mkv_xfer_t *other, *owner, *second;

    pair_set("OVERLAP", "refuse");
    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    add_states(0);
    add_states(1);
    pair_connect(0, 1);
    OK(expose_list(1, &five, 1, &other));
    owner = pair_xfer(B, 0, 2, MKV_WRITE, MKV_DST);
    OK(mkv_xfer_expose(owner, 0, owned, 1, NULL, 0));
    second = pair_xfer(B, 0, 3, MKV_WRITE, MKV_DST);
    IS(mkv_xfer_expose(second, 0, wanted, 2, NULL, 0), MKV_ERR_DUPLICATE);
    ck_assert_ptr_nonnull(strstr(
        mkv_last_error(), "component 1 block 5 is exposed to transfer 2 epoch 0"));
    end(second);
    end(owner);
    end(other);
    pair_teardown();
}
END_TEST

/* Regions of four tokens a block, and a map of each kind between the same two */
static void setup_tokens(mkv_map_t **tokens_p)
{
    static uint8_t memory[2][8 * 64];
    const mkv_map_params_t params = {.size = sizeof(params), .flags = MKV_MAP_TOKENS};
    mkv_region_t region;
    unsigned i;

    pair_set("OVERLAP", "refuse");
    fake_ucp_reset();
    for (i = 0; i < 2; ++i) {
        pair_open_bare(i, NULL);
        region = (mkv_region_t){.size = sizeof(region),
                                .base = memory[i],
                                .length = sizeof(memory[i]),
                                .unit_bytes = 64,
                                .n_units = 8,
                                .tokens_per_unit = 4,
                                .inner_bytes = 16};
        pair_add(pair_sides[i].ctx, &region);
        OK(mkv_regions_commit(pair_sides[i].ctx, NULL));
    }
    pair_connect(0, 1);
    OK(mkv_map_create(B->peers[0], &params, tokens_p));
}

static mkv_status_t expose_one(uint64_t id, mkv_map_t *map, uint32_t number,
                               mkv_xfer_t **xfer_p)
{
    const mkv_xfer_params_t params = {.size = sizeof(params),
                                      .id = id,
                                      .mode = MKV_WRITE,
                                      .role = MKV_DST,
                                      .legs = &map,
                                      .num_legs = 1};
    const mkv_units_t units = {.num_local = 1, .local = &number};

    OK(mkv_xfer_open(B->ctx, &params, xfer_p));
    return mkv_xfer_expose(*xfer_p, 0, &units, 1, NULL, 0);
}

/* Token 5 is no block 5, and tokens 4 and 5 may come from two writers into one block */
/* OB-05 */
START_TEST(a_token_is_no_block)
{
    mkv_xfer_t *block, *token, *neighbour, *same;
    mkv_map_t *tokens;

    setup_tokens(&tokens);
    OK(expose_one(1, B->maps[0], 5, &block));
    OK(expose_one(2, tokens, 5, &token));
    OK(expose_one(3, tokens, 4, &neighbour));
    IS(expose_one(4, tokens, 5, &same), MKV_ERR_DUPLICATE);
    ck_assert_str_eq(mkv_last_error(),
                     "expose: component 0 token 5 is exposed to transfer 2 epoch 0, "
                     "which is not quiet");
    end(same);
    IS(expose_one(4, B->maps[0], 5, &same), MKV_ERR_DUPLICATE);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "block 5 is exposed to transfer 1"));
    end(same);
    end(neighbour);
    end(token);
    end(block);
    OK(mkv_map_destroy(tokens));
    pair_teardown();
}
END_TEST

/* Counters of a region with very many units are allocated up to the largest id in use
 */
START_TEST(a_large_region_is_counted_as_far_as_it_is_used)
{
    static const uint32_t few[] = {2, 1}, far[] = {30, 5};
    mkv_map_component_t *component;
    mkv_xfer_t *first, *second, *third;
    uint64_t num;

    setup("refuse");
    component = &B->maps[0]->components[0];
    num = component->local_units;
    component->local_units = (1u << 24) + 1;
    OK(expose_list(1, few, 2, &first));
    ck_assert_uint_eq(B->ctx->num_owners[0], 3);
    OK(expose_list(2, far, 2, &second));
    ck_assert_uint_eq(B->ctx->num_owners[0], 31);
    IS(expose_list(3, few, 1, &third), MKV_ERR_DUPLICATE); /* they were kept */
    ck_assert_uint_eq(B->ctx->num_owners[0], 31);
    end(third);
    end(first);
    OK(expose_list(3, few, 1, &third));
    end(third);
    end(second);
    component->local_units = num;
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("overlap");

    tcase_add_test(tcase, a_block_of_a_transfer_that_is_not_quiet_is_refused);
    tcase_add_test(tcase, a_block_is_owned_until_its_transfer_is_quiet);
    tcase_add_loop_test(tcase, overlap_is_warned_of_once_unless_allowed, 0, 2);
    tcase_add_test(tcase, readers_may_share_blocks);
    tcase_add_loop_test(tcase, legs_of_one_transfer_may_share_blocks, 0, 2);
    tcase_add_test(tcase, blocks_that_were_not_exposed_after_all_have_no_owner);
    tcase_add_loop_test(tcase, a_block_is_found_wherever_it_is_in_a_list, 0, 7);
    tcase_add_test(tcase, a_block_is_of_its_component);
    tcase_add_test(tcase, a_token_is_no_block);
    tcase_add_test(tcase, a_large_region_is_counted_as_far_as_it_is_used);
    return pair_main("test_mkv_overlap", tcase);
}
