/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "xgmi/copy/xgmi_list.h"

#include <stdlib.h>

#define CAPACITY 4096

static muct_xgmi_entry_t *memory;
static muct_xgmi_list_t list;

static void setup(void)
{
    memory = aligned_alloc(64, CAPACITY * sizeof(*memory));
    ck_assert_ptr_nonnull(memory);
    muct_xgmi_list_init(&list, memory, CAPACITY);
}

static void teardown(void)
{
    free(memory);
}

START_TEST(layout_is_the_same_for_every_compiler)
{
    ck_assert_uint_eq(sizeof(muct_xgmi_entry_t), 32);
    ck_assert_uint_eq(offsetof(muct_xgmi_copy_args_t, entries), 24);
    ck_assert_uint_eq(offsetof(muct_xgmi_copy_args_t, sequence), 48);
    ck_assert_uint_eq(offsetof(muct_xgmi_copy_args_t, first_entry), 56);
    ck_assert_uint_eq(sizeof(muct_xgmi_shape_t), 40);
    ck_assert_uint_eq(offsetof(muct_xgmi_copy_args_t, shapes),
                      56 + (4 * (MUCT_XGMI_MAX_BLOCKS + 2)));
    ck_assert_uint_eq(sizeof(muct_xgmi_copy_args_t),
                      56 + (4 * (MUCT_XGMI_MAX_BLOCKS + 2)) +
                          (40 * MUCT_XGMI_MAX_SHAPES));
}
END_TEST

START_TEST(tiles_cover_each_entry_once)
{
    static const uint64_t lengths[] = {1,    2,    15,   16,    17,    4080, 4081,
                                       4095, 4096, 4097, 4111,  4112,  4113, 8191,
                                       8192, 8193, 8207, 12288, 65536, 65551};
    muct_xgmi_entry_t entry = {.dst = 0x10000 + (uint64_t)_i};
    uint64_t tile, count, begin, end, expected;
    size_t i;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
        entry.length = lengths[i];
        count = muct_xgmi_tile_count(entry.dst, entry.length);
        expected = 0;
        for (tile = 0; tile < count; ++tile) {
            begin = muct_xgmi_tile_start(entry.dst, tile);
            end = muct_xgmi_tile_end(entry.dst, entry.length, tile);
            ck_assert_uint_eq(begin, expected);
            ck_assert_uint_gt(end, begin);
            ck_assert_uint_le(end - begin, MUCT_XGMI_TILE_SIZE + 15);
            ck_assert(tile == 0 || ((entry.dst + begin) % 16 == 0));
            expected = end;
        }
        ck_assert_uint_eq(expected, entry.length);
    }
}
END_TEST

START_TEST(a_block_is_one_tile_whatever_its_alignment)
{
    ck_assert_uint_eq(muct_xgmi_tile_count((uint64_t)_i, 4096), 1);
    ck_assert_uint_eq(muct_xgmi_tile_count((uint64_t)_i, 1), 1);
}
END_TEST

START_TEST(neighbours_on_both_sides_become_one)
{
    ck_assert(muct_xgmi_list_add(&list, 0x1000, 0x9000, 0x800));
    ck_assert(muct_xgmi_list_add(&list, 0x1800, 0x9800, 0x1800));
    ck_assert_uint_eq(muct_xgmi_list_count(&list), 1);
    ck_assert_uint_eq(memory[0].length, 0x2000);
    ck_assert_uint_eq(list.num_tiles, 2);

    ck_assert(muct_xgmi_list_add(&list, 0x3000, 0xc000, 0x1000));
    ck_assert(muct_xgmi_list_add(&list, 0x5000, 0xd000, 0x1000));
    ck_assert_uint_eq(muct_xgmi_list_count(&list), 3);
    ck_assert_uint_eq(memory[2].place, 3);
}
END_TEST

static const muct_xgmi_strided_t pieces = {.dst = 0x10000,
                                           .src = 0x90000,
                                           .dst_stride = 0x200,
                                           .src_stride = 0x100,
                                           .piece = 0x100,
                                           .count = 33};

START_TEST(a_run_of_pieces_is_one_entry)
{
    ck_assert(muct_xgmi_list_add(&list, 0x1000, 0x9000, 0x1800));
    ck_assert(muct_xgmi_list_add_run(&list, &pieces));
    ck_assert(muct_xgmi_list_add_run(&list, &pieces));
    /* neither end of a run is joined */
    ck_assert(muct_xgmi_list_add(&list, 0x10000 + (33 * 0x200), 0x90000 + (33 * 0x100),
                                 0x100));
    ck_assert_uint_eq(muct_xgmi_list_count(&list), 4);
    ck_assert_uint_eq(muct_xgmi_place_shape(memory[0].place), 0);
    ck_assert_uint_eq(muct_xgmi_place_shape(memory[1].place), 1);
    ck_assert_uint_eq(muct_xgmi_place_shape(memory[2].place), 1);
    ck_assert_uint_eq(muct_xgmi_place_tile(memory[2].place), 2 + 3);
    ck_assert_uint_eq(memory[3].place, 2 + 3 + 3);
    ck_assert_uint_eq(list.num_tiles, 9);
}
END_TEST

START_TEST(no_piece_joins_a_run_alike)
{
    ck_assert(muct_xgmi_list_add_run(&list, &pieces));
    ck_assert(muct_xgmi_list_add(&list, 0x1000, 0x9000, 0x100));
    ck_assert(muct_xgmi_list_add_alike(&list, 0x20000, 0xa0000));
    ck_assert(muct_xgmi_list_add(&list, 0x1100, 0x9100, 0x100));
    ck_assert_uint_eq(muct_xgmi_list_count(&list), 4);
    ck_assert_uint_eq(memory[2].length, pieces.count);
    ck_assert_uint_eq(list.num_tiles, 3 + 1 + 3 + 1);
}
END_TEST

/* ---- random lists, and the same in their pieces ---- */

#define MAX_SPANS 20000

typedef struct span {
    uint64_t dst;
    uint64_t src;
    uint64_t length;
} span_t;

/* The first one is empty. */
typedef struct spans {
    size_t count;
    span_t all[MAX_SPANS + 1];
} spans_t;

static spans_t wanted, made;
/* The last piece that was added alone */
static muct_xgmi_strided_t single = {.dst = 1u << 20, .src = 1u << 24};

static void spans_add(spans_t *spans, const muct_xgmi_strided_t *run)
{
    span_t *last = &spans->all[spans->count];
    span_t next = {run->dst, run->src, run->piece};
    uint32_t i;

    for (i = 0; i < run->count; ++i) {
        if ((next.dst == last->dst + last->length) &&
            (next.src == last->src + last->length)) {
            last->length += next.length;
        } else {
            MKV_REQUIRE(++spans->count <= MAX_SPANS, "more than %d pieces", MAX_SPANS);
            *++last = next;
        }
        next.dst += run->dst_stride;
        next.src += run->src_stride;
    }
}

static void add_single(uint64_t dst, uint64_t src)
{
    static const uint32_t lengths[] = {16, 256, 5000, 3};
    const uint32_t length = lengths[rand() % 4];

    single = (muct_xgmi_strided_t){.dst = dst, .src = src, .piece = length, .count = 1};
    MKV_REQUIRE(muct_xgmi_list_add(&list, dst, src, length), "the list is full");
    spans_add(&wanted, &single);
}

/* One of few kinds, at a place of its own or behind the last single piece. */
static void add_run(uint64_t dst, uint64_t src)
{
    const muct_xgmi_alike_t *alike = &list.alike;
    muct_xgmi_strided_t run = {.dst = dst,
                               .src = src,
                               .dst_stride = (rand() % 3 == 0) ? 512 : 256,
                               .src_stride = 512,
                               .piece = 128,
                               .count = 3 + (uint32_t)(rand() % 2)};

    if ((alike->count != run.count) || (alike->dst_stride != run.dst_stride) ||
        !muct_xgmi_list_add_alike(&list, dst, src)) {
        MKV_REQUIRE(muct_xgmi_list_add_run(&list, &run), "a run was refused");
    }
    spans_add(&wanted, &run);
}

static void add_something(void)
{
    const uint64_t at = (uint64_t)(1 + (rand() % 100000)) << 20;

    switch (rand() % 6) {
    case 0:
        add_single(at, at << 4);
        break;
    case 1:
    case 2:
        add_single(single.dst + single.piece, single.src + single.piece);
        break;
    case 3:
        add_run(single.dst + single.piece, single.src + single.piece);
        break;
    default:
        add_run(at, at << 4);
    }
}

/* As a list of UCP that is refused in its middle. */
static void add_and_take_back(void)
{
    const muct_xgmi_list_mark_t mark = muct_xgmi_list_mark(&list);
    const muct_xgmi_strided_t before = single;
    const span_t last = wanted.all[wanted.count];
    const size_t count = wanted.count;
    muct_xgmi_entry_t entry = {0};
    int i;

    if (!muct_xgmi_list_is_empty(&list)) {
        entry = list.next[-1];
    }
    for (i = rand() % 4; i > 0; --i) {
        add_something();
    }
    muct_xgmi_list_rollback(&list, &mark);
    if (!muct_xgmi_list_is_empty(&list)) {
        list.next[-1] = entry;
    }
    wanted.count = count;
    wanted.all[count] = last;
    single = before;
}

/* @return Number of tiles. */
static uint64_t take_apart(const muct_xgmi_entry_t *entry)
{
    muct_xgmi_strided_t run = {.dst = entry->dst, .src = entry->src, .count = 1};
    const muct_xgmi_shape_t *shape;

    if (muct_xgmi_place_shape(entry->place) == 0) {
        run.piece = (uint32_t)entry->length;
        spans_add(&made, &run);
        return muct_xgmi_tile_count(entry->dst, entry->length);
    }
    shape = muct_xgmi_list_shape_of(&list, entry);
    run.dst_stride = shape->dst_stride;
    run.src_stride = shape->src_stride;
    run.piece = shape->piece;
    run.count = (uint32_t)entry->length;
    spans_add(&made, &run);
    return muct_xgmi_shape_tiles(shape, run.count);
}

START_TEST(random_lists_have_the_pieces_that_were_added)
{
    int rounds = (getenv("MKV_UNDER_VALGRIND") != NULL) ? 5 : 100;
    const muct_xgmi_entry_t *entry;
    uint64_t tiles;
    int round, i;

    srand((unsigned)_i + 1);
    for (round = 0; round < rounds; ++round) {
        muct_xgmi_list_init(&list, memory, CAPACITY);
        wanted.count = made.count = 0;
        for (i = rand() % 500; i >= 0; --i) {
            (rand() % 20 == 0) ? add_and_take_back() : add_something();
        }
        tiles = 0;
        for (entry = list.begin; entry < list.next; ++entry) {
            MKV_REQUIRE(muct_xgmi_place_tile(entry->place) == tiles,
                        "entry %td of round %d", entry - list.begin, round);
            tiles += take_apart(entry);
        }
        ck_assert_uint_eq(list.num_tiles, tiles);
        ck_assert_uint_eq(made.count, wanted.count);
        ck_assert_mem_eq(made.all, wanted.all, (made.count + 1) * sizeof(*made.all));
    }
}
END_TEST

START_TEST(a_run_that_has_no_place_is_refused)
{
    muct_xgmi_strided_t run = pieces;
    unsigned i;

    for (i = 0; i < MUCT_XGMI_MAX_SHAPES; ++i) {
        run.dst_stride += 0x100;
        ck_assert(muct_xgmi_list_add_run(&list, &run));
    }
    ck_assert(!muct_xgmi_list_add_run(&list, &pieces));
    ck_assert_uint_eq(muct_xgmi_list_count(&list), MUCT_XGMI_MAX_SHAPES);
    run.count = MUCT_XGMI_MAX_PIECES + 1;
    ck_assert(!muct_xgmi_list_add_run(&list, &run));

    muct_xgmi_list_init(&list, memory, 1);
    run = pieces;
    run.piece = 16 * MUCT_XGMI_MAX_UNITS + 16;
    ck_assert(!muct_xgmi_list_add_run(&list, &run));
    run.piece -= 4; /* the unit is 4 */
    ck_assert(!muct_xgmi_list_add_run(&list, &run));
    run.piece = 0;
    ck_assert(!muct_xgmi_list_add_run(&list, &run));
    ck_assert_uint_eq(list.num_tiles, 0);
    ck_assert(muct_xgmi_list_add_run(&list, &pieces));
    ck_assert(!muct_xgmi_list_add_run(&list, &pieces));
}
END_TEST

START_TEST(divisions_by_a_shape_are_exact)
{
    muct_xgmi_shape_t shape;
    uint32_t units, i;

    for (units = 1; units <= MUCT_XGMI_MAX_UNITS; ++units) {
        muct_xgmi_shape_init(&shape, 16, 16 * units, 0, 0);
        for (i = 0; i < MUCT_XGMI_TILE_UNITS; ++i) {
            ck_assert_uint_eq(muct_xgmi_shape_piece(&shape, i), i / units);
        }
        for (i = 1; i <= MUCT_XGMI_MAX_PIECES; i += 1 + (i / 64)) {
            ck_assert_uint_eq(muct_xgmi_shape_tiles(&shape, i),
                              (i + shape.tile_pieces - 1) / shape.tile_pieces);
        }
    }
}
END_TEST

START_TEST(zero_bytes_add_nothing)
{
    ck_assert(muct_xgmi_list_add(&list, 0x1000, 0x9000, 0));
    ck_assert(muct_xgmi_list_is_empty(&list));
    ck_assert(muct_xgmi_list_add(&list, 0x1000, 0x9000, 1));
    ck_assert(muct_xgmi_list_add(&list, 0x1001, 0x9001, 0));
    ck_assert_uint_eq(muct_xgmi_list_count(&list), 1);
    ck_assert_uint_eq(list.num_tiles, 1);
}
END_TEST

START_TEST(a_full_list_refuses_and_keeps_what_it_has)
{
    uint64_t i;

    for (i = 0; i < CAPACITY; ++i) {
        ck_assert_uint_eq(muct_xgmi_list_room(&list), CAPACITY - i);
        ck_assert(muct_xgmi_list_add(&list, 0x10000 * i, 0x10000 * i, 0x1000));
    }
    ck_assert(!muct_xgmi_list_add(&list, 1, 2, 3));
    ck_assert_uint_eq(muct_xgmi_list_count(&list), CAPACITY);
    ck_assert_uint_eq(list.num_tiles, CAPACITY);

    /* a continuation of the last entry needs no room */
    ck_assert(muct_xgmi_list_add(&list, (0x10000 * (i - 1)) + 0x1000,
                                 (0x10000 * (i - 1)) + 0x1000, 0x1000));
    ck_assert_uint_eq(list.num_tiles, CAPACITY + 1);
}
END_TEST

static void check_entry_of(uint32_t number, uint64_t tile)
{
    const muct_xgmi_entry_t *entry = &memory[number];
    uint64_t count = muct_xgmi_tile_count(entry->dst, entry->length);

    ck_assert_uint_le(entry->place, tile);
    ck_assert_uint_lt(tile, entry->place + count);
}

/* Every tile belongs to one block or to the tail, and each begins in the right entry.
 */
static void check_launch(const muct_xgmi_launch_t *launch)
{
    const muct_xgmi_copy_args_t *args = &launch->args;
    uint64_t tail = muct_xgmi_block_tile(args, launch->num_blocks);
    uint32_t tail_entry = args->first_entry[launch->num_blocks];
    uint64_t tile, next;
    uint32_t block;

    ck_assert_uint_eq(muct_xgmi_block_tile(args, 0), 0);
    for (block = 0; block < launch->num_blocks; ++block) {
        tile = muct_xgmi_block_tile(args, block);
        next = muct_xgmi_block_tile(args, block + 1);
        ck_assert_uint_lt(tile, next);
        ck_assert_uint_le(next - tile, (tail / launch->num_blocks) + 1);
        check_entry_of(args->first_entry[block], tile);
    }

    ck_assert_uint_le(tail, args->num_tiles);
    if (tail == args->num_tiles) {
        ck_assert_uint_eq(tail_entry, args->num_entries);
    } else {
        ck_assert_uint_gt(launch->num_blocks, 1);
        ck_assert_uint_le(args->num_tiles - tail, MUCT_XGMI_MAX_TAIL_TILES);
        check_entry_of(tail_entry, tail);
    }
}

static uint64_t tail_of(const muct_xgmi_launch_t *launch)
{
    return launch->args.num_tiles -
           muct_xgmi_block_tile(&launch->args, launch->num_blocks);
}

START_TEST(the_tail_of_a_long_list_is_in_no_range)
{
    muct_xgmi_launch_t launch;
    uint64_t i;

    for (i = 0; i < CAPACITY; ++i) {
        ck_assert(muct_xgmi_list_add(&list, i << 32, i << 33, 65536));
    }
    muct_xgmi_list_finish(&list, 8, &launch);
    check_launch(&launch);
    ck_assert_uint_eq(tail_of(&launch), CAPACITY * 16 / 32);
    muct_xgmi_list_finish(&list, 10, &launch);
    check_launch(&launch);
    ck_assert_uint_eq(tail_of(&launch), CAPACITY * 16 / 4);

    /* there is no tail if no other block could share it, or if it is too short */
    muct_xgmi_list_finish(&list, 1, &launch);
    check_launch(&launch);
    ck_assert_uint_eq(tail_of(&launch), 0);
    muct_xgmi_list_init(&list, memory, CAPACITY);
    for (i = 0; i < CAPACITY; ++i) {
        ck_assert(muct_xgmi_list_add(&list, i << 32, i << 33, 4096));
    }
    muct_xgmi_list_finish(&list, 8, &launch);
    check_launch(&launch);
    ck_assert_uint_eq(tail_of(&launch), 0);
}
END_TEST

START_TEST(one_long_entry_among_short_ones_is_shared_by_all_blocks)
{
    muct_xgmi_launch_t launch;
    uint64_t i;

    for (i = 0; i < 1000; ++i) {
        ck_assert(
            muct_xgmi_list_add(&list, i << 32, i << 33, (i == 77) ? 64 << 20 : 4096));
    }
    muct_xgmi_list_finish(&list, 8, &launch);
    ck_assert_uint_eq(launch.num_blocks, 8);
    ck_assert_uint_eq(launch.block_size, MUCT_XGMI_MAX_THREADS);
    ck_assert_uint_eq(launch.args.version, MUCT_XGMI_KERNEL_VERSION);
    ck_assert_uint_eq(launch.args.num_entries, 1000);
    ck_assert_uint_eq(launch.args.flag, 0);
    check_launch(&launch);
}
END_TEST

START_TEST(random_lists_are_split_evenly)
{
    muct_xgmi_launch_t launch;
    int rounds = (getenv("MKV_UNDER_VALGRIND") != NULL) ? 2 : 50;
    int i, round, count;

    srand((unsigned)_i + 1);
    for (round = 0; round < rounds; ++round) {
        muct_xgmi_list_init(&list, memory, CAPACITY);
        count = 1 + (rand() % CAPACITY);
        for (i = 0; i < count; ++i) {
            ck_assert(muct_xgmi_list_add(&list, ((uint64_t)i << 40) + (rand() % 64),
                                         ((uint64_t)i << 40) + (rand() % 64),
                                         1 + ((uint64_t)rand() >> (rand() % 30))));
        }
        muct_xgmi_list_finish(&list, 1 + ((uint32_t)rand() % MUCT_XGMI_MAX_BLOCKS),
                              &launch);
        check_launch(&launch);
    }
}
END_TEST

START_TEST(short_lists_use_small_launches)
{
    muct_xgmi_launch_t launch;

    ck_assert(muct_xgmi_list_add(&list, 0x1000, 0x9000, 8));
    muct_xgmi_list_finish(&list, 8, &launch);
    ck_assert_uint_eq(launch.num_blocks, 1);
    ck_assert_uint_eq(launch.block_size, MUCT_XGMI_MIN_THREADS);

    ck_assert(muct_xgmi_list_add(&list, 0x100000, 0x900000, 16 * 4096));
    muct_xgmi_list_finish(&list, 8, &launch);
    ck_assert_uint_eq(launch.num_blocks, 2);
    ck_assert_uint_eq(launch.block_size, MUCT_XGMI_MAX_THREADS);
    check_launch(&launch);
}
END_TEST

START_TEST(lists_beyond_four_gigabytes_are_counted_right)
{
    muct_xgmi_launch_t launch;

    ck_assert(muct_xgmi_list_add(&list, 0, 1ull << 50, 1ull << 43));
    ck_assert(muct_xgmi_list_add(&list, 1ull << 48, 1ull << 51, 5));
    muct_xgmi_list_finish(&list, MUCT_XGMI_MAX_BLOCKS, &launch);
    ck_assert_uint_eq(launch.args.num_tiles, (1ull << 31) + 1);
    check_launch(&launch);
}
END_TEST

START_TEST(a_flag_that_wraps_around_is_still_reached)
{
    ck_assert(muct_xgmi_flag_reached(5, 5));
    ck_assert(!muct_xgmi_flag_reached(4, 5));
    ck_assert(muct_xgmi_flag_reached(2, UINT32_MAX));
    ck_assert(!muct_xgmi_flag_reached(UINT32_MAX, 2));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_list");
    TCase *tcase = tcase_create("list");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, layout_is_the_same_for_every_compiler);
    tcase_add_loop_test(tcase, tiles_cover_each_entry_once, 0, 32);
    tcase_add_loop_test(tcase, a_block_is_one_tile_whatever_its_alignment, 0, 16);
    tcase_add_test(tcase, neighbours_on_both_sides_become_one);
    tcase_add_test(tcase, zero_bytes_add_nothing);
    tcase_add_test(tcase, a_run_of_pieces_is_one_entry);
    tcase_add_test(tcase, no_piece_joins_a_run_alike);
    tcase_add_loop_test(tcase, random_lists_have_the_pieces_that_were_added, 0, 4);
    tcase_add_test(tcase, a_run_that_has_no_place_is_refused);
    tcase_add_test(tcase, divisions_by_a_shape_are_exact);
    tcase_add_test(tcase, a_full_list_refuses_and_keeps_what_it_has);
    tcase_add_test(tcase, the_tail_of_a_long_list_is_in_no_range);
    tcase_add_test(tcase, one_long_entry_among_short_ones_is_shared_by_all_blocks);
    tcase_add_loop_test(tcase, random_lists_are_split_evenly, 0, 4);
    tcase_add_test(tcase, short_lists_use_small_launches);
    tcase_add_test(tcase, lists_beyond_four_gigabytes_are_counted_right);
    tcase_add_test(tcase, a_flag_that_wraps_around_is_still_reached);
    suite_add_tcase(suite, tcase);

    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
