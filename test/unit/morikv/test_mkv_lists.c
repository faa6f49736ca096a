/* SPDX-License-Identifier: BSD-3-Clause */

/* Lists that posts share: built once, and never used for other blocks. */

#include "src/plan/list_cache.h"
#include "src/peer/list_put.h"

#include "test/support/mkv_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALLS (FAKE_UCP_PUT | FAKE_UCP_LIST)
#define COMPONENTS 3u
#define NUM 24u /* blocks of a plan: groups of 1, 2 or 4 */
#define PLANS 3u
#define SEL(_field) .size = sizeof(mkv_sel_t), .fields = MKV_SEL_##_field
#define STRETCH (PAIR_BLOCKS * PAIR_BYTES)

/* Beside the cache, which is component 0: component 1 in host memory, component 2 in an
 * allocation of its own; B has another one for the next connection */
static uint8_t extra[2][COMPONENTS][STRETCH], extra_again[STRETCH];

/* Expected contents of B's cache and of extra[1] */
static uint8_t *want_cache, want[COMPONENTS][STRETCH];

static uint8_t *gpu_of_b;
static mkv_xfer_t *active, *passive;
static unsigned seed;

static struct {
    mkv_plan_t *plan;
    uint32_t local[NUM], remote[NUM];
} plans[PLANS];

static unsigned below(unsigned limit)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % limit;
}

/* ---- Two sides ------------------------------------------------------------------- */

static void add_component(pair_side_t *side, uint32_t component, uint8_t *base,
                          ucs_memory_type_t type, mkv_region_id_t *id)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = component,
                           .base = base,
                           .length = STRETCH,
                           .unit_bytes = PAIR_BYTES,
                           .n_units = PAIR_BLOCKS,
                           .mem_type = type};

    OK(mkv_region_add(side->ctx, &region, id));
    OK(mkv_regions_commit(side->ctx, NULL));
}

/* New bytes at A, so that a repeated post moves something */
static void refill(void)
{
    size_t i;

    for (i = 0; i < A->length; ++i) {
        A->mem[i] = (uint8_t)below(256);
    }
    for (i = 0; i < sizeof(extra[0]); ++i) {
        ((uint8_t *)extra[0])[i] = (uint8_t)below(256);
    }
}

static void open_sides(mkv_region_id_t *gpu_id)
{
    mkv_region_id_t id;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    gpu_of_b = extra[1][2];
    add_component(A, 1, extra[0][1], UCS_MEMORY_TYPE_HOST, &id);
    add_component(A, 2, extra[0][2], UCS_MEMORY_TYPE_ROCM, &id);
    add_component(B, 1, extra[1][1], UCS_MEMORY_TYPE_HOST, &id);
    add_component(B, 2, gpu_of_b, UCS_MEMORY_TYPE_ROCM, gpu_id);
    memset(extra, 0, sizeof(extra));
    memset(want, 0, sizeof(want));
    want_cache = malloc(B->length);
    ck_assert_ptr_nonnull(want_cache);
    memcpy(want_cache, B->mem, B->length);
}

static void units_of(unsigned index, mkv_units_t *units)
{
    uint32_t i;

    for (i = 0; i < COMPONENTS; ++i) {
        units[i] = (mkv_units_t){.component = i,
                                 .num_local = NUM,
                                 .num_remote = NUM,
                                 .local = plans[index].local,
                                 .remote = plans[index].remote};
    }
}

/* Bind a write from A to B whose number of posts is not declared */
static void bind_write(void)
{
    mkv_units_t units[COMPONENTS];
    uint32_t all[PAIR_BLOCKS], i;

    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    for (i = 0; i < PAIR_BLOCKS; ++i) {
        all[i] = i;
    }
    for (i = 0; i < COMPONENTS; ++i) {
        units[i] =
            (mkv_units_t){.component = i, .num_local = PAIR_BLOCKS, .local = all};
    }
    OK(mkv_xfer_expose(passive, MKV_LEG_ALL, units, COMPONENTS, NULL, 0));
    pair_run();
}

static void unbind(void)
{
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    pair_close(active, passive, NULL);
}

static void close_sides(void)
{
    unsigned i;

    unbind();
    for (i = 0; i < PLANS; ++i) {
        if (plans[i].plan != NULL) {
            OK(mkv_plan_destroy(plans[i].plan));
            plans[i].plan = NULL;
        }
    }
    free(want_cache);
    pair_teardown();
}

/* ---- Plans and posts ------------------------------------------------------------- */

/* Shuffle the blocks and keep groups of neighbours together. A group is one run if both
 * sides use this group size */
static void shuffle(uint32_t *blocks, uint32_t group)
{
    uint32_t first[PAIR_BLOCKS], i, other;

    for (i = 0; i < PAIR_BLOCKS / group; ++i) {
        other = below(i + 1);
        first[i] = first[other];
        first[other] = i * group;
    }
    for (i = 0; i < NUM; ++i) {
        blocks[i] = first[i / group] + i % group;
    }
}

static void make_plan(unsigned index)
{
    mkv_units_t units[COMPONENTS];

    shuffle(plans[index].local, 1u << index);
    shuffle(plans[index].remote, 1u << index);
    units_of(index, units);
    OK(mkv_plan_create(A->maps[1], units, COMPONENTS, MKV_PLAN_KEEP_ORDER,
                       &plans[index].plan));
}

static void move(uint8_t *to, const uint8_t *from, unsigned index, const mkv_sel_t *sel)
{
    uint32_t last = (sel->fields & MKV_SEL_POSITIONS) ? sel->pos_hi : NUM, i;

    for (i = sel->pos_lo; i < last; ++i) {
        memcpy(to + plans[index].remote[i] * PAIR_BYTES,
               from + plans[index].local[i] * PAIR_BYTES, PAIR_BYTES);
    }
}

/* Apply a post to the expected contents of B, piece by piece */
static void expect(unsigned index, const mkv_sel_t *sel)
{
    int32_t hi = (sel->fields & MKV_SEL_LAYERS) ? sel->layer_hi : (int32_t)pair_layers;
    uint64_t mask =
        (sel->fields & MKV_SEL_COMPONENTS) ? sel->component_mask : UINT64_MAX;
    int32_t layer;
    size_t at;
    unsigned i;

    for (layer = sel->layer_lo; layer < hi; ++layer) {
        for (i = 0; (i < PAIR_PARTS) && (mask & 1); ++i) {
            at = ((size_t)layer * PAIR_PARTS + i) * STRETCH;
            move(want_cache + at, A->mem + at, index, sel);
        }
        for (i = 1; (i < COMPONENTS) && (layer == 0); ++i) {
            if (mask & (1ull << i)) {
                move(want[i], extra[0][i], index, sel);
            }
        }
    }
}

static void post(unsigned index, const mkv_sel_t *sel)
{
    OK(mkv_xfer_post(active, 0, plans[index].plan, sel, NULL));
    expect(index, sel);
}

/* Every byte of B */
static void settle(void)
{
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_query(active).completed, pair_query(active).posted);
    ck_assert_uint_eq(pair_stats(A).inflight_ops, 0);
    ck_assert_uint_eq(pair_stats(A).inflight_bytes, 0);
    ck_assert_mem_eq(B->mem, want_cache, B->length);
    ck_assert_mem_eq(extra[1][1], want[1], STRETCH);
    ck_assert_mem_eq(gpu_of_b, want[2], STRETCH);
}

/* ---- Tests ----------------------------------------------------------------------- */

/* Loop index: bit 0 in flight at once, bit 1 lists of a few pieces */
/* PL-02 */
START_TEST(a_repeated_post_builds_nothing)
{
    const mkv_sel_t cache = {SEL(COMPONENTS), .component_mask = 1};
    uint64_t pieces = (uint64_t)pair_layers * PAIR_PARTS * NUM, lists, i;
    mkv_region_id_t id;

    seed = (unsigned)_i;
    mkv_tuning.sgl_max = (_i & 2) ? 5 : 8192;
    lists = (_i & 2) ? (pieces + 4) / 5 : 1;
    open_sides(&id);
    pair_connect(0, 1);
    make_plan(0);
    bind_write();
    for (i = 0; i < 5; ++i) {
        if (_i & 1) {
            fake_ucp_hold(CALLS);
        } else {
            refill();
        }
        post(0, &cache);
        if (!(_i & 1)) {
            settle();
        }
    }
    if (_i & 1) {
        ck_assert_uint_eq(fake_ucp_num_waiting(CALLS), 5 * lists);
    }
    ck_assert_uint_eq(fake_ucp_num_pieces(), 5 * pieces);
    ck_assert_uint_eq(pair_stats(A).lists_allocated, lists);
    ck_assert_uint_eq(pair_stats(A).lists_reused, 4 * lists);
    settle();
    close_sides();
}
END_TEST

/* Posts of plans that come and go, at random: whatever is in flight or kept, and
 * however lists are cut, the blocks are those of the plan and the selection.
 * Loop index: the seed, and the options. */
/* PL-02 */
START_TEST(posts_move_their_own_blocks)
{
    static const uint64_t sgl_max[] = {1, 3, 7, 8192};
    static const mkv_sel_t sels[] = {
        {.size = sizeof(mkv_sel_t)},
        {SEL(COMPONENTS), .component_mask = 1},
        {SEL(COMPONENTS), .component_mask = 6},
        {SEL(LAYERS), .layer_lo = 0, .layer_hi = 1},
        {SEL(LAYERS), .layer_lo = 1, .layer_hi = 3},
        {SEL(LAYERS), .layer_lo = 1, .layer_hi = 4},
        {SEL(POSITIONS), .pos_lo = 0, .pos_hi = 9},
        {SEL(POSITIONS), .pos_lo = 0, .pos_hi = NUM},
        {SEL(POSITIONS), .pos_lo = 4, .pos_hi = 9},
        {SEL(POSITIONS), .pos_lo = 5, .pos_hi = 9},
        {SEL(POSITIONS), .pos_lo = 5, .pos_hi = 10},
        {SEL(COMPONENTS)},
        {SEL(LAYERS)},
        {SEL(LAYERS), .layer_lo = 2, .layer_hi = 2},
        {SEL(POSITIONS)},
        {SEL(POSITIONS), .pos_lo = 5, .pos_hi = 5},
        {.size = sizeof(mkv_sel_t),
         .fields = MKV_SEL_COMPONENTS | MKV_SEL_LAYERS | MKV_SEL_POSITIONS,
         .component_mask = 5,
         .layer_hi = 2,
         .pos_lo = 4,
         .pos_hi = 9}};
    unsigned round, num, index, sel = 0;
    mkv_region_id_t id;

    seed = (unsigned)_i * 77;
    mkv_tuning.sgl_max = sgl_max[_i % 4];
    pair_set("MAX_INFLIGHT_OPS", (_i & 4) ? "3" : "4096");
    pair_set("MAX_INFLIGHT_BYTES", (_i & 2) ? "2000" : "4g");
    mkv_tuning.list_cache_max = (_i & 8) ? 3 << 10 : 64 << 20;
    open_sides(&id);
    pair_connect(0, 1);
    for (index = 0; index < PLANS; ++index) {
        make_plan(index);
    }
    bind_write();
    index = 0;
    for (round = 0; round < 100; ++round) {
        refill();
        fake_ucp_hold(below(2) ? CALLS : 0);
        for (num = below(8); num > 0; --num) {
            index = below(2) ? index : below(PLANS);
            sel = below(2) ? sel : below(sizeof(sels) / sizeof(sels[0]));
            if (below(8) == 0) {
                settle();
                OK(mkv_plan_destroy(plans[index].plan));
                make_plan(index);
            }
            post(index, &sels[sel]);
            (void)mkv_progress(A->ctx);
        }
        settle();
    }
    ck_assert_uint_gt(pair_stats(A).lists_reused, (_i & 8) ? 0 : 100);
    close_sides();
}
END_TEST

static void reconnect(mkv_region_id_t *gpu_id)
{
    OK(mkv_map_destroy(A->maps[1]));
    OK(mkv_map_destroy(B->maps[0]));
    A->maps[1] = B->maps[0] = NULL;
    OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH));
    pair_run();
    OK(mkv_peer_close(B->peers[0], MKV_CLOSE_FLUSH));
    pair_run();
    gpu_of_b = (gpu_of_b == extra_again) ? extra[1][2] : extra_again;
    memset(gpu_of_b, 0, STRETCH);
    memset(want[2], 0, STRETCH);
    OK(mkv_regions_drop(B->ctx, gpu_id, 1));
    add_component(B, 2, gpu_of_b, UCS_MEMORY_TYPE_ROCM, gpu_id);
    pair_connect(0, 1);
}

/* The same blocks by another connection: its keys, and memory that lies elsewhere */
START_TEST(a_new_connection_has_its_own_lists)
{
    const mkv_sel_t all = {.size = sizeof(all)};
    mkv_region_id_t id;
    unsigned round;

    open_sides(&id);
    pair_connect(0, 1);
    for (round = 0; round < 6; ++round) {
        seed = 5; /* the same plan */
        refill();
        make_plan(0);
        bind_write();
        post(0, &all);
        settle();
        refill();
        post(0, &all);
        settle();
        if (round < 5) {
            unbind();
            OK(mkv_plan_destroy(plans[0].plan));
            reconnect(&id);
        }
    }
    ck_assert_uint_gt(pair_stats(A).lists_reused, 0);
    close_sides();
}
END_TEST

/* Connected, with a plan of several lists and a transfer */
static void open_short_lists(void)
{
    mkv_region_id_t id;

    mkv_tuning.sgl_max = 50;
    open_sides(&id);
    pair_connect(0, 1);
    refill();
    make_plan(0);
    bind_write();
}

/* A list that two posts share is refused to the first, which is then repeated piece by
 * piece */
START_TEST(a_refused_list_is_let_go_by_its_post)
{
    const mkv_sel_t cache = {SEL(COMPONENTS), .component_mask = 1};

    open_short_lists();
    fake_ucp_hold(CALLS);
    fake_ucp_fail(FAKE_UCP_LIST, 0, UCS_ERR_UNSUPPORTED);
    post(0, &cache);
    post(0, &cache);
    ck_assert_uint_eq(fake_ucp_num_waiting(CALLS), 8);
    ck_assert_uint_eq(pair_stats(A).lists_reused, 4);
    settle();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST), 8);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), pair_layers * PAIR_PARTS * NUM);
    ck_assert_uint_eq(pair_stats(A).lists_reused, 4);
    close_sides();
}
END_TEST

/* A transfer fails with some of its lists in flight; the next one shares them */
START_TEST(lists_outlive_a_transfer_that_fails)
{
    const mkv_sel_t cache = {SEL(COMPONENTS), .component_mask = 1};
    mkv_xfer_t *failed, *failed_passive;

    open_short_lists();
    failed = active;
    failed_passive = passive;
    fake_ucp_hold(CALLS);
    fake_ucp_fail(FAKE_UCP_LIST, 1, UCS_ERR_IO_ERROR);
    post(0, &cache);
    pair_run();
    ck_assert_int_eq(pair_query(failed).status, MKV_ERR_TRANSPORT);
    ck_assert_uint_eq(pair_stats(A).inflight_ops, 3);

    active = pair_xfer(A, 1, 2, MKV_WRITE, MKV_SRC);
    passive = pair_xfer(B, 0, 2, MKV_WRITE, MKV_DST);
    pair_expose(passive, 0, PAIR_BLOCKS);
    pair_run();
    post(0, &cache);
    ck_assert_uint_eq(pair_stats(A).lists_reused, 4);
    settle();
    OK(mkv_xfer_close(failed));
    OK(mkv_xfer_close(failed_passive));
    close_sides();
}
END_TEST

#define MANY_LISTS 20000u

static uint64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Least time of the processor for one list to be taken and given back */
static uint64_t cost_of_one(mkv_ctx_t *ctx, mkv_list_uses_t *uses)
{
    uint64_t least = UINT64_MAX, start, spent;
    unsigned round, i;

    for (round = 0; round < 20; ++round) {
        start = cpu_ns();
        for (i = 0; i < 100; ++i) {
            ck_assert_ptr_nonnull(mkv_list_cache_get(ctx, 500 + i % 7, uses));
            mkv_list_cache_put(ctx, uses);
        }
        spent = cpu_ns() - start;
        least = (spent < least) ? spent : least;
    }
    return least;
}

/* Entries of other lists must not slow a search down: a scan of a thousandth of them
 * would take 20 times as long */
START_TEST(finding_a_list_takes_no_longer_for_many)
{
    mkv_list_uses_t many = {0}, one = {0};
    uint64_t few;
    unsigned i;

    fake_ucp_reset();
    pair_open(0);
    few = cost_of_one(A->ctx, &one);
    for (i = 0; i < MANY_LISTS; ++i) {
        ck_assert_ptr_nonnull(
            mkv_list_cache_get(A->ctx, 300 + 64 * (size_t)(i % 40), &many));
    }
    mkv_list_cache_put(A->ctx, &many);
    ck_assert_uint_lt(cost_of_one(A->ctx, &one), 20 * few);
    free(many.lists);
    free(one.lists);
    pair_teardown();
}
END_TEST

/* A block is of its class, and no larger than the requested size and a quarter */
START_TEST(memory_of_a_list_fits)
{
    static const size_t sizes[] = {1,   255,  256,  257,  320,
                                   321, 1000, 1024, 1025, 1 << 20};
    mkv_list_uses_t uses = {0};
    mkv_cached_list_t *list, *again;

    fake_ucp_reset();
    pair_open(0);
    list = mkv_list_cache_get(A->ctx, sizes[_i], &uses);
    ck_assert_uint_ge(list->size, sizes[_i]);
    ck_assert_uint_le(list->size, (sizes[_i] < 256) ? 256 : sizes[_i] + sizes[_i] / 4);
    mkv_list_cache_put(A->ctx, &uses);
    ck_assert_uint_eq(A->ctx->list_cache_bytes, list->size);
    again = mkv_list_cache_get(A->ctx, list->size, &uses);
    ck_assert_ptr_eq(again, list);
    ck_assert_uint_eq(A->ctx->list_cache_bytes, 0);
    mkv_list_cache_put(A->ctx, &uses);
    free(uses.lists);
    pair_teardown();
}
END_TEST

/* UCX may not know before the first one whether a lane takes lists. Later, for other
 * reasons, or when the connection has ended, it is an error. */
START_TEST(a_list_may_be_refused_until_one_was_taken)
{
    const ucs_memory_type_t gpu = UCS_MEMORY_TYPE_ROCM, host = UCS_MEMORY_TYPE_HOST;
    mkv_peer_t *peer;

    pair_setup();
    peer = A->peers[1];
    IS(mkv_peer_list_ended(peer, gpu, gpu, UCS_ERR_IO_ERROR), MKV_LIST_FAILED);
    IS(mkv_peer_list_ended(peer, gpu, gpu, UCS_OK), MKV_LIST_MOVED);
    IS(mkv_peer_list_ended(peer, gpu, gpu, UCS_ERR_UNSUPPORTED), MKV_LIST_FAILED);
    IS(mkv_peer_list_ended(peer, host, gpu, UCS_ERR_UNSUPPORTED), MKV_LIST_REFUSED);
    IS(mkv_peer_list_ended(peer, host, gpu, UCS_ERR_CANCELED), MKV_LIST_REFUSED);
    mkv_peer_fail(peer, MKV_ERR_PEER, "of the test");
    IS(mkv_peer_list_ended(peer, host, gpu, UCS_ERR_CANCELED), MKV_LIST_FAILED);
    pair_run();
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("lists");

    tcase_add_loop_test(tcase, a_repeated_post_builds_nothing, 0, 4);
    tcase_add_loop_test(tcase, posts_move_their_own_blocks, 0, 16);
    tcase_add_test(tcase, a_new_connection_has_its_own_lists);
    tcase_add_test(tcase, finding_a_list_takes_no_longer_for_many);
    tcase_add_loop_test(tcase, memory_of_a_list_fits, 0, 10);
    tcase_add_test(tcase, a_refused_list_is_let_go_by_its_post);
    tcase_add_test(tcase, lists_outlive_a_transfer_that_fails);
    tcase_add_test(tcase, a_list_may_be_refused_until_one_was_taken);
    return pair_main("mkv_lists", tcase);
}
