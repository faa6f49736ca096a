/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * All kinds of memory of a hybrid model in one transfer: a paged cache, the rings of
 * sliding windows, an indexer, and the convolution's and the recurrence's state, a slot
 * of each for a request. Both sides' memory is compared with a copy that is kept beside
 * it.
 */

#include "test/support/mkv_pair.h"

#include <stdlib.h>
#include <string.h>

enum { PAGED, WINDOW, INDEXER, CONV, SSM, NUM_KINDS };

/* The paged cache is the pair's own */
static const struct {
    uint32_t layers, parts, units;
    uint64_t bytes, stride;
} kinds[NUM_KINDS] = {[WINDOW] = {2, 2, 8, 48, 64},
                      [INDEXER] = {3, 1, PAIR_BLOCKS, 20, 20},
                      [CONV] = {2, 1, 6, 96, 96},
                      [SSM] = {2, 1, 6, 256, 272}};

#define ARENA 16384u

static uint8_t arena[2][ARENA], expected[2][ARENA];

typedef struct list {
    uint32_t num;
    uint32_t mine[PAIR_BLOCKS], theirs[PAIR_BLOCKS];
} list_t;

static list_t lists[NUM_KINDS];
static mkv_xfer_t *source, *destination;
static mkv_plan_t *plan;

/* Offset of a region's unit in an arena */
static size_t place(int kind, uint32_t layer, uint32_t part, uint32_t unit)
{
    size_t at = 0;
    int i;

    for (i = WINDOW; i < kind; ++i) {
        at +=
            (size_t)kinds[i].layers * kinds[i].parts * kinds[i].units * kinds[i].stride;
    }
    return at +
           ((size_t)(layer * kinds[kind].parts + part) * kinds[kind].units + unit) *
               kinds[kind].stride;
}

static void add_regions(pair_side_t *side, uint8_t *memory)
{
    mkv_region_t region = {.size = sizeof(region)};
    mkv_region_id_t id;
    uint32_t layer, part;
    int kind;

    for (kind = WINDOW; kind < NUM_KINDS; ++kind) {
        for (layer = 0; layer < kinds[kind].layers; ++layer) {
            for (part = 0; part < kinds[kind].parts; ++part) {
                region.component = (uint32_t)kind;
                region.layer = (int32_t)layer;
                region.part = (uint16_t)part;
                region.base = memory + place(kind, layer, part, 0);
                region.length = kinds[kind].units * kinds[kind].stride;
                region.unit_bytes = kinds[kind].bytes;
                region.unit_stride = kinds[kind].stride;
                region.n_units = kinds[kind].units;
                OK(mkv_region_add(side->ctx, &region, &id));
            }
        }
    }
    OK(mkv_regions_commit(side->ctx, NULL));
}

/* Different units of both sides, in any order */
static void fill_list(list_t *list, uint32_t num, uint32_t units, uint64_t *seed)
{
    uint32_t i, other, swap;

    for (i = 0; i < units; ++i) {
        list->mine[i] = list->theirs[i] = i;
    }
    for (i = 0; i < units; ++i) {
        other = i + (uint32_t)(mkv_test_random(seed) % (units - i));
        swap = list->mine[i];
        list->mine[i] = list->mine[other];
        list->mine[other] = swap;
        other = i + (uint32_t)(mkv_test_random(seed) % (units - i));
        swap = list->theirs[i];
        list->theirs[i] = list->theirs[other];
        list->theirs[other] = swap;
    }
    list->num = num;
}

static void setup(uint64_t seed)
{
    unsigned i;

    fake_ucp_reset();
    pair_now = 1000000000ull;
    for (i = 0; i < 2; ++i) {
        pair_open(i);
        memset(arena[i], (int)(0x51 + i), ARENA); /* between units, too */
        add_regions(&pair_sides[i], arena[i]);
    }
    for (i = 0; i < 2 * ARENA; ++i) {
        arena[i / ARENA][i % ARENA] = (uint8_t)mkv_test_random(&seed);
    }
    memcpy(expected, arena, sizeof(arena));
    pair_connect(0, 1);
    fill_list(&lists[PAGED], 12, PAIR_BLOCKS, &seed);
    fill_list(&lists[WINDOW], 3, kinds[WINDOW].units, &seed);
    fill_list(&lists[INDEXER], 12, PAIR_BLOCKS, &seed);
    fill_list(&lists[CONV], 1, kinds[CONV].units, &seed);
    lists[SSM] = lists[CONV]; /* one slot for both */
}

/* WRITE from A to B, or READ of A by B */
static void bind_both(mkv_mode_t mode)
{
    mkv_units_t units[NUM_KINDS];
    pair_side_t *active = (mode == MKV_WRITE) ? A : B;
    int i;

    source = pair_xfer(A, 1, 1, mode, MKV_SRC);
    destination = pair_xfer(B, 0, 1, mode, MKV_DST);
    for (i = 0; i < NUM_KINDS; ++i) {
        units[i] = (mkv_units_t){.component = (uint32_t)i,
                                 .num_local = lists[i].num,
                                 .num_remote = lists[i].num};
        units[i].local = (mode == MKV_WRITE) ? lists[i].theirs : lists[i].mine;
    }
    OK(mkv_xfer_expose((mode == MKV_WRITE) ? destination : source, 0, units, NUM_KINDS,
                       NULL, 0));
    pair_run();
    for (i = 0; i < NUM_KINDS; ++i) {
        units[i].remote = units[i].local;
        units[i].local = (mode == MKV_WRITE) ? lists[i].mine : lists[i].theirs;
    }
    OK(mkv_plan_create(active->maps[(mode == MKV_WRITE) ? 1 : 0], units, NUM_KINDS, 0,
                       &plan));
}

static void post(uint64_t mask)
{
    mkv_sel_t sel = {
        .size = sizeof(sel), .fields = MKV_SEL_COMPONENTS, .component_mask = mask};
    uint32_t layer, part, i;
    int kind;

    OK(mkv_xfer_post(source->is_active ? source : destination, 0, plan, &sel, NULL));
    pair_run();
    for (kind = WINDOW; kind < NUM_KINDS; ++kind) {
        for (layer = 0; (mask & (1ull << kind)) && (layer < kinds[kind].layers);
             ++layer) {
            for (part = 0; part < kinds[kind].parts; ++part) {
                for (i = 0; i < lists[kind].num; ++i) {
                    memcpy(expected[1] +
                               place(kind, layer, part, lists[kind].theirs[i]),
                           arena[0] + place(kind, layer, part, lists[kind].mine[i]),
                           kinds[kind].bytes);
                }
            }
        }
    }
}

/* Every byte of both arenas, and of the paged cache */
static void check(int has_paged)
{
    uint32_t block, i;
    int origin;

    ck_assert_mem_eq(arena, expected, sizeof(arena));
    for (block = 0; block < PAIR_BLOCKS; ++block) {
        origin = -1;
        for (i = 0; has_paged && (i < lists[PAGED].num); ++i) {
            origin =
                (lists[PAGED].theirs[i] == block) ? (int)lists[PAGED].mine[i] : origin;
        }
        ck_assert(pair_holds(A, block, 0, block));
        ck_assert((origin >= 0) ? pair_holds(B, block, 0, (uint32_t)origin)
                                : pair_holds(B, block, 1, block));
    }
}

/* Loop index: mode and order of the lists */
/* ST-01, ST-02 */
START_TEST(one_transfer_moves_every_kind_by_its_mask)
{
    mkv_mode_t mode = (_i % 2) ? MKV_READ : MKV_WRITE;
    mkv_xfer_t *active;

    setup(77 + (uint64_t)_i);
    bind_both(mode);
    check(0);
    post(1ull << CONV | 1ull << SSM);
    check(0);
    post(1ull << PAGED | 1ull << INDEXER);
    check(1);
    post(1ull << WINDOW);
    check(1);
    active = source->is_active ? source : destination;
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_DONE);
    ck_assert_int_eq(pair_query(destination).state, MKV_XFER_DONE);
    pair_close(source, destination, plan);
    pair_teardown();
}
END_TEST

/* Pages of the prefix that the destination already has do not move again: none, a part,
 * or all of them. The state moves in full. Loop index: size of that prefix, and mode */
/* PL-05 */
START_TEST(what_is_there_of_a_prefix_does_not_move)
{
    static const uint32_t hits[] = {0, 5, 12};
    uint32_t hit = hits[_i % 3], num;
    uint64_t bytes;
    int kind;

    setup(31 + (uint64_t)_i);
    for (kind = PAGED; kind < NUM_KINDS; ++kind) {
        if ((kind == PAGED) || (kind == INDEXER)) {
            num = lists[kind].num -= hit;
            memmove(lists[kind].mine, lists[kind].mine + hit, num * sizeof(uint32_t));
            memmove(lists[kind].theirs, lists[kind].theirs + hit,
                    num * sizeof(uint32_t));
        }
    }
    bytes = lists[PAGED].num * (uint64_t)pair_layers * PAIR_PARTS * PAIR_BYTES;
    for (kind = WINDOW; kind < NUM_KINDS; ++kind) {
        bytes += lists[kind].num * kinds[kind].layers * kinds[kind].parts *
                 kinds[kind].bytes;
    }
    bind_both((_i / 3) ? MKV_READ : MKV_WRITE);
    post((1ull << NUM_KINDS) - 1);
    OK(mkv_xfer_seal(source->is_active ? source : destination, 0));
    pair_run();
    check(1);
    ck_assert_int_eq(pair_query(destination).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_query(destination).bytes, bytes);
    pair_close(source, destination, plan);
    pair_teardown();
}
END_TEST

/* A slot of one request: its neighbours on both sides belong to others */
/* ST-03 */
START_TEST(a_slot_goes_to_another_slot_alone)
{
    uint32_t mine, theirs;

    for (mine = 0; mine < kinds[CONV].units; ++mine) {
        theirs = (mine * 5 + 2) % kinds[CONV].units;
        setup(mine);
        memset(lists, 0, sizeof(lists));
        lists[CONV] = (list_t){.num = 1, .mine = {mine}, .theirs = {theirs}};
        lists[SSM] = lists[CONV];
        bind_both(MKV_WRITE);
        post(1ull << CONV | 1ull << SSM);
        check(0);
        ck_assert_uint_eq(pair_query(source).completed, 4); /* two layers of each */
        OK(mkv_xfer_seal(source, 0));
        pair_run();
        ck_assert_int_eq(pair_query(destination).state, MKV_XFER_DONE);
        pair_close(source, destination, plan);
        pair_teardown();
    }
}
END_TEST

/* Windows and states take the merge of any list: as many pieces as neighbours on both
 * sides leave, counted here by hand */
/* ST-04 */
START_TEST(lists_of_every_kind_are_merged)
{
    mkv_plan_attr_t attr = {.size = sizeof(attr)};
    uint64_t pieces = 0;
    uint32_t i;
    int kind;

    setup(5);
    for (kind = WINDOW; kind < NUM_KINDS; ++kind) { /* 4 5 6, a gap, 1: two runs */
        lists[kind] = (list_t){.num = 4, .mine = {1, 2, 3, 5}, .theirs = {2, 3, 4, 1}};
    }
    bind_both(MKV_WRITE);
    OK(mkv_plan_query(plan, &attr));
    for (kind = WINDOW; kind < NUM_KINDS; ++kind) {
        /* gaps between units keep them apart */
        i = (kinds[kind].stride == kinds[kind].bytes) ? 2 : 4;
        pieces += (uint64_t)i * kinds[kind].layers * kinds[kind].parts;
    }
    post(0xfe & ((1ull << NUM_KINDS) - 1));
    check(0);
    ck_assert_uint_eq(pair_query(source).completed, pieces);
    ck_assert_uint_eq(attr.num_units, 12 + 4 * 4);
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    pair_close(source, destination, plan);
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("kinds");

    tcase_add_loop_test(tcase, one_transfer_moves_every_kind_by_its_mask, 0, 8);
    tcase_add_loop_test(tcase, what_is_there_of_a_prefix_does_not_move, 0, 6);
    tcase_add_test(tcase, a_slot_goes_to_another_slot_alone);
    tcase_add_test(tcase, lists_of_every_kind_are_merged);
    return pair_main("mkv_kinds", tcase);
}
