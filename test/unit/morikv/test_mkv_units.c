/* SPDX-License-Identifier: BSD-3-Clause */

/* Exposed units are the only ones written: the library checks posts and the seal
 * against them. */

#include "plan/plan.h"
#include "plan/unit_set.h"
#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 8u

static mkv_xfer_t *active, *passive;

static void bind_mode(mkv_mode_t mode, uint32_t first, uint32_t num)
{
    int is_write = (mode == MKV_WRITE);

    pair_setup();
    active = pair_xfer(A, 1, 1, mode, is_write ? MKV_SRC : MKV_DST);
    passive = pair_xfer(B, 0, 1, mode, is_write ? MKV_DST : MKV_SRC);
    pair_expose(passive, first, num);
    pair_run();
}

static void give_up(void)
{
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    ck_assert_uint_eq(pair_stats(A).ucp_calls, 0);
    pair_close(active, passive, NULL);
    pair_teardown();
}

/* Ids around the ends of words and pages */
START_TEST(a_set_contains_its_ids)
{
    static const uint32_t ids[] = {0,    1,    63,   64,         127,       1023,
                                   1024, 4095, 4096, 0x7fffffff, UINT32_MAX};
    const unsigned num = sizeof(ids) / sizeof(ids[0]);
    mkv_unit_set_t set = {0};
    uint32_t id;
    unsigned i;

    ck_assert(mkv_unit_set_find(&set, ids[_i], 1, 0, &id));
    ck_assert_int_eq(mkv_unit_set_add(&set, ids[_i], 1), 0);
    for (i = 0; i < num; ++i) {
        ck_assert_int_eq(mkv_unit_set_find(&set, ids[i], 1, 1, &id), i == (unsigned)_i);
        ck_assert_int_eq(mkv_unit_set_find(&set, ids[i], 1, 0, &id), i != (unsigned)_i);
    }
    mkv_unit_set_cleanup(&set);
}
END_TEST

START_TEST(a_set_contains_ranges)
{
    mkv_unit_set_t set = {0};
    uint32_t id = 0;

    ck_assert_int_eq(mkv_unit_set_add(&set, 60, 5000), 0);
    ck_assert(!mkv_unit_set_find(&set, 60, 5000, 0, &id));
    ck_assert(mkv_unit_set_find(&set, 59, 5000, 0, &id));
    ck_assert_uint_eq(id, 59);
    ck_assert(mkv_unit_set_find(&set, 4000, 2000, 0, &id));
    ck_assert_uint_eq(id, 5060);
    ck_assert(mkv_unit_set_find(&set, 0, 1000, 1, &id));
    ck_assert_uint_eq(id, 60);
    ck_assert(!mkv_unit_set_find(&set, 5060, 100000, 1, &id));
    mkv_unit_set_cleanup(&set);
}
END_TEST

/* Its index reaches as far as pages that came before and behind the first one */
START_TEST(a_set_grows_either_way)
{
    static const uint32_t ids[] = {5000, 3000, 9000, 0, 1u << 20, 5001};
    const unsigned num = sizeof(ids) / sizeof(ids[0]);
    mkv_unit_set_t set = {0};
    unsigned i, k;
    uint32_t id;

    for (i = 0; i < num; ++i) {
        ck_assert_int_eq(mkv_unit_set_add(&set, ids[i], 1), 0);
        for (k = 0; k < num; ++k) {
            ck_assert_int_eq(mkv_unit_set_find(&set, ids[k], 1, 1, &id), k <= i);
        }
    }
    ck_assert(mkv_unit_set_find(&set, 5002, 3998, 0, &id));
    ck_assert(!mkv_unit_set_find(&set, 5002, 3998, 1, &id));
    mkv_unit_set_cleanup(&set);
}
END_TEST

/* Loop index: READ or WRITE */
START_TEST(a_block_that_was_not_exposed_is_refused)
{
    mkv_plan_t *plan;

    bind_mode(_i ? MKV_WRITE : MKV_READ, 4, NUM);
    plan = pair_plan(A, 1, 0, 5, NUM, 0); /* 5 to 12 of 4 to 11 */
    IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_BOUNDS);
    ck_assert_str_eq(mkv_last_error(),
                     "post: component 0: peer B has not exposed block "
                     "12 to transfer 1; expected blocks of its exposed lists");
    OK(mkv_plan_destroy(plan));
    give_up();
}
END_TEST

/* A post needs the selected units of the plan to be exposed; a full post needs all of
 * them */
START_TEST(a_selection_is_judged_by_itself)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_POSITIONS, .pos_hi = 4};
    mkv_plan_t *plan, *rest;

    bind_mode(MKV_WRITE, 8, 4);
    plan = pair_plan(A, 1, 0, 4, NUM, MKV_PLAN_KEEP_ORDER); /* 11 to 4 */
    OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    sel.pos_hi = 5;
    IS(mkv_xfer_post(active, 0, plan, &sel, NULL), MKV_ERR_BOUNDS);
    IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_BOUNDS);
    rest = pair_plan(A, 1, 0, 7, 1, 0);
    IS(mkv_xfer_post(active, 0, rest, NULL, NULL), MKV_ERR_BOUNDS);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    ck_assert(pair_holds(B, 11, 0, 0) && pair_holds(B, 7, 1, 7));
    OK(mkv_plan_destroy(rest));
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

static mkv_plan_t *plan_of(const uint32_t *remote, uint32_t num, uint32_t flags)
{
    static const uint32_t local[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const mkv_units_t units = {
        .num_local = num, .num_remote = num, .local = local, .remote = remote};
    mkv_plan_t *plan;

    OK(mkv_plan_create(A->maps[1], &units, 1, flags, &plan));
    return plan;
}

/* A reader may request a block twice in a READ if its plan allows it. In a WRITE the
 * order of two puts is undefined. Loop index: READ or WRITE */
START_TEST(a_block_that_occurs_twice_is_refused)
{
    static const uint32_t twice[] = {5, 4, 5, 6};
    mkv_plan_t *plan;

    bind_mode(_i ? MKV_WRITE : MKV_READ, 4, 4);
    plan = plan_of(twice, 4, MKV_PLAN_KEEP_ORDER);
    if (_i) {
        IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_DUPLICATE);
        ck_assert_ptr_nonnull(
            strstr(mkv_last_error(), "block 5 of peer B occurs twice"));
        IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_DUPLICATE);
        OK(mkv_plan_destroy(plan));
        give_up();
        return;
    }
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    IS(mkv_xfer_seal(active, 0), MKV_ERR_DUPLICATE);
    pair_run();
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* The search result is kept in the plan and serves every transfer */
START_TEST(a_plan_is_searched_once_for_a_block_that_occurs_twice)
{
    static const uint32_t apart[] = {5, 7, 4, 6};
    mkv_plan_t *plan;

    bind_mode(MKV_WRITE, 4, 4);
    plan = plan_of(apart, 4, MKV_PLAN_KEEP_ORDER);
    ck_assert(!plan->parts[0].is_distinct);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    ck_assert(plan->parts[0].is_distinct);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* A chunk is posted twice and a second one is missing: the count alone is right */
START_TEST(a_chunk_for_another_fails_both_sides)
{
    mkv_plan_t *plan;

    bind_mode(MKV_WRITE, 4, 8);
    plan = pair_plan(A, 1, 0, 4, 4, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    IS(mkv_xfer_seal(active, 0), MKV_ERR_DUPLICATE);
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_DUPLICATE);
    ck_assert_ptr_nonnull(strstr(pair_query(passive).error, "posted twice"));
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Chunks in any order, by several plans and by positions, add up */
START_TEST(chunks_add_up_in_any_order)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_POSITIONS};
    mkv_plan_t *first, *last;

    bind_mode(MKV_WRITE, 4, 8);
    first = pair_plan(A, 1, 0, 4, 4, MKV_PLAN_KEEP_ORDER);
    last = pair_plan(A, 1, 4, 8, 4, 0);
    OK(mkv_xfer_post(active, 0, last, NULL, NULL));
    sel.pos_lo = 1;
    sel.pos_hi = 4;
    OK(mkv_xfer_post(active, 0, first, &sel, NULL));
    sel.pos_lo = 0;
    sel.pos_hi = 1;
    OK(mkv_xfer_post(active, 0, first, &sel, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    OK(mkv_plan_destroy(last));
    pair_close(active, passive, first);
    pair_teardown();
}
END_TEST

/* Loop index: nothing is posted; part of it; the reader has declared that it takes a
 * part */
START_TEST(a_read_takes_all_exposed_blocks_or_declares_fewer)
{
    const mkv_expect_t part = {.num_units = 3};
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1,
                                .mode = MKV_READ,
                                .role = MKV_DST,
                                .num_legs = 1,
                                .expect = (_i == 2) ? &part : NULL,
                                .num_expect = (_i == 2)};
    mkv_plan_t *plan;

    pair_setup();
    params.legs = &A->maps[1];
    OK(mkv_xfer_open(A->ctx, &params, &active));
    passive = pair_xfer(B, 0, 1, MKV_READ, MKV_SRC);
    pair_expose(passive, 4, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, 5, 3, 0);
    if (_i > 0) {
        OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    }
    IS(mkv_xfer_seal(active, 0), (_i == 2) ? MKV_OK : MKV_ERR_LENGTH);
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, (_i == 2) ? MKV_OK : MKV_ERR_LENGTH);
    ck_assert_int_eq(pair_query(active).status, (_i == 2) ? MKV_OK : MKV_ERR_LENGTH);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* A plan that is not checked here is still compared by the other side, at the end. */
/* PL-03 */
START_TEST(an_unchecked_plan_is_compared_by_the_other_side_alone)
{
    static const uint32_t others[] = {20, 21, 22, 20};
    mkv_plan_t *plan;

    bind_mode(MKV_WRITE, 4, 4);
    plan = plan_of(others, 4, MKV_PLAN_UNCHECKED);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_BOUNDS);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Loop index: the layer, of four, and then the control */
/* PL-03 */
START_TEST(one_layer_of_other_blocks_is_noticed)
{
    static const uint32_t blocks[] = {4, 5, 6, 7}, others[] = {4, 5, 6, 4};
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS};
    mkv_plan_t *plan, *wrong;
    int32_t layer;

    bind_mode(MKV_WRITE, 4, 4);
    plan = plan_of(blocks, 4, 0);
    wrong = plan_of(others, 4, MKV_PLAN_UNCHECKED);
    for (layer = 0; layer < 4; ++layer) {
        sel.layer_lo = layer;
        sel.layer_hi = layer + 1;
        OK(mkv_xfer_post(active, 0, (layer == _i) ? wrong : plan, &sel, NULL));
    }
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, (_i < 4) ? MKV_ERR_BOUNDS : MKV_OK);
    OK(mkv_plan_destroy(wrong));
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Falsify the active side's record of posted units, as a bug would */
static void believe(int num_units, uint64_t sum)
{
    mkv_leg_t *leg = &active->legs[0];
    uint32_t i;

    for (i = 0; i < leg->map->num_pairs; ++i) {
        leg->posted[i] += (uint64_t)num_units;
        leg->posted_sums[i] += sum;
    }
}

static const struct {
    mkv_mode_t mode;
    int num_units; /* more than were exposed */
    uint64_t sum;  /* of others: another one, one less, one more, the same in all */
    mkv_status_t status;
    const char *text;
} beliefs[] = {
    {MKV_WRITE, 0, 1, MKV_ERR_BOUNDS, "8 units arrived, but not the"},
    {MKV_READ, 0, 1, MKV_ERR_BOUNDS, "8 units were read, but not the"},
    {MKV_WRITE, -1, 1, MKV_ERR_LENGTH, "7 units arrived, 8 expected"},
    {MKV_WRITE, 1, 1, MKV_ERR_LENGTH, "9 units arrived, 8 expected"},
    {MKV_READ, 1, 1, MKV_OK, ""},  /* and so here */
    {MKV_READ, -1, 1, MKV_OK, ""}, /* the reader has declared so there */
    {MKV_WRITE, 0, 0, MKV_OK, ""},
    {MKV_READ, 0, 0, MKV_OK, ""},
};

/* The exposing side compares the number and the set of moved units, whatever the active
 * side checked */
/* PL-03 */
START_TEST(what_has_moved_is_compared_at_the_end)
{
    mkv_plan_t *plan;

    bind_mode(beliefs[_i].mode, 4, NUM);
    plan = pair_plan(A, 1, 0, 4, NUM, 0);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_GET | FAKE_UCP_LIST | FAKE_UCP_FLUSH);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    believe(beliefs[_i].num_units, beliefs[_i].sum); /* FIN is made in the next step */
    pair_run();
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, beliefs[_i].status);
    ck_assert_ptr_nonnull(strstr(pair_query(passive).error, beliefs[_i].text));
    ck_assert(pair_query(passive).is_quiet);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("units");

    tcase_add_loop_test(tcase, a_set_contains_its_ids, 0, 11);
    tcase_add_test(tcase, a_set_contains_ranges);
    tcase_add_test(tcase, a_set_grows_either_way);
    tcase_add_loop_test(tcase, a_block_that_was_not_exposed_is_refused, 0, 2);
    tcase_add_test(tcase, a_selection_is_judged_by_itself);
    tcase_add_loop_test(tcase, a_block_that_occurs_twice_is_refused, 0, 2);
    tcase_add_test(tcase, a_plan_is_searched_once_for_a_block_that_occurs_twice);
    tcase_add_test(tcase, a_chunk_for_another_fails_both_sides);
    tcase_add_test(tcase, chunks_add_up_in_any_order);
    tcase_add_loop_test(tcase, a_read_takes_all_exposed_blocks_or_declares_fewer, 0, 3);
    tcase_add_test(tcase, an_unchecked_plan_is_compared_by_the_other_side_alone);
    tcase_add_loop_test(tcase, one_layer_of_other_blocks_is_noticed, 0, 5);
    tcase_add_loop_test(tcase, what_has_moved_is_compared_at_the_end, 0,
                        sizeof(beliefs) / sizeof(beliefs[0]));
    return pair_main("mkv_units", tcase);
}
