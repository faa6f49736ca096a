/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "perf/memory/pool.h"
#include "perf/base/error.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 3, PARTS = 2, BLOCKS = 50 };

static perf_memory_t *memory;
static perf_pool_t *pool;

static const size_t piece_sizes[] = {4096, 1, 7, 8, 9, 1152, 3 << 20};

/* Layers side by side in memory, and the number of copies */
static struct {
    bool is_used;
    char bytes[LAYERS * PARTS * BLOCKS * 64];
    size_t num_used;
    unsigned num_copies;
} arena;

void *__real_perf_memory_alloc(perf_memory_t *of, size_t size);
void __real_perf_memory_free(perf_memory_t *of, void *address, size_t size);
void __real_perf_memory_write(perf_memory_t *of, void *address, const void *host,
                              size_t length);
void __real_perf_memory_read(perf_memory_t *of, void *host, const void *address,
                             size_t length);

void *__wrap_perf_memory_alloc(perf_memory_t *of, size_t size);
void __wrap_perf_memory_free(perf_memory_t *of, void *address, size_t size);
void __wrap_perf_memory_write(perf_memory_t *of, void *address, const void *host,
                              size_t length);
void __wrap_perf_memory_read(perf_memory_t *of, void *host, const void *address,
                             size_t length);

void *__wrap_perf_memory_alloc(perf_memory_t *of, size_t size)
{
    if (!arena.is_used) {
        return __real_perf_memory_alloc(of, size);
    }
    arena.num_used += size;
    return arena.bytes + arena.num_used - size;
}

void __wrap_perf_memory_free(perf_memory_t *of, void *address, size_t size)
{
    if (!arena.is_used) {
        __real_perf_memory_free(of, address, size);
    }
}

/* As a runtime, refuse a copy that reaches into another allocation. */
static void count_copy(const void *address, size_t length)
{
    const size_t layer = PARTS * BLOCKS * 64;
    size_t offset = (size_t)((const char *)address - arena.bytes);

    if (arena.is_used) {
        ck_assert_uint_eq(offset / layer, (offset + length - 1) / layer);
    }
    ++arena.num_copies;
}

void __wrap_perf_memory_write(perf_memory_t *of, void *address, const void *host,
                              size_t length)
{
    count_copy(address, length);
    __real_perf_memory_write(of, address, host, length);
}

void __wrap_perf_memory_read(perf_memory_t *of, void *host, const void *address,
                             size_t length)
{
    count_copy(address, length);
    __real_perf_memory_read(of, host, address, length);
}

static void setup(void)
{
    memset(&arena, 0, sizeof(arena)); /* cases may share a process */
    ck_assert_int_eq(perf_memory_open(PERF_SEGMENT_DRAM, NULL, &memory), 0);
}

static void teardown(void)
{
    perf_memory_close(memory);
}

static void make(size_t piece_bytes)
{
    perf_pool_shape_t shape = {.num_layers = LAYERS,
                               .num_parts = PARTS,
                               .num_blocks = BLOCKS,
                               .piece_bytes = piece_bytes};

    ck_assert_int_eq(perf_pool_create(memory, &shape, 1, &pool), 0);
}

static unsigned char *piece(unsigned layer, unsigned part, uint32_t block)
{
    const perf_pool_shape_t *shape = perf_pool_shape(pool);
    perf_pool_region_t region;

    perf_pool_region(pool, layer, part, &region);
    ck_assert_uint_eq(region.alloc_length, PARTS * BLOCKS * shape->piece_bytes *
                                               (shape->is_slab ? LAYERS : 1));
    ck_assert_uint_le((size_t)((char *)region.base - (char *)region.alloc_base) +
                          region.length,
                      region.alloc_length);
    return (unsigned char *)region.base + block * region.stride;
}

START_TEST(slab_has_a_block_s_layers_side_by_side)
{
    perf_pool_shape_t shape = {.num_layers = LAYERS,
                               .num_parts = PARTS,
                               .num_blocks = BLOCKS,
                               .piece_bytes = 100,
                               .is_slab = true};
    static const uint32_t block = 5;
    static const uint64_t key = 77;

    ck_assert_int_eq(perf_pool_create(memory, &shape, 1, &pool), 0);
    ck_assert_ptr_eq(piece(0, 1, 3), piece(0, 0, 3) + 100);
    ck_assert_ptr_eq(piece(1, 0, 3), piece(0, 0, 3) + PARTS * 100);
    ck_assert_ptr_eq(piece(0, 0, 4), piece(0, 0, 3) + LAYERS * PARTS * 100);
    ck_assert_int_eq(perf_pool_fill(pool, &block, &key, 1), 0);
    ck_assert_int_eq(perf_pool_check_all(pool), 0);
    *piece(LAYERS - 1, PARTS - 1, BLOCKS - 1) ^= 1;
    ck_assert_int_eq(perf_pool_check_all(pool), -1);
    perf_pool_destroy(pool);
}
END_TEST

static unsigned char *first_piece(void)
{
    perf_pool_region_t region;

    perf_pool_region(pool, 0, 0, &region);
    return region.base;
}

/* Two heads of four: each head of a rank is held by another rank as well. */
START_TEST(elements_have_equal_bytes_on_all_ranks)
{
    perf_pool_shape_t shape = {.num_layers = 1, .num_parts = 1, .num_blocks = 1};
    static const uint32_t block = 0;
    static const uint64_t key = 77;
    unsigned char two[2 * 2 * 6];

    shape.piece_bytes = sizeof(two);
    shape.cells = (perf_cells_t){.num_groups = 1,
                                 .first = {2},
                                 .num = {2},
                                 .outer = 1,
                                 .entries = 2,
                                 .inner_bytes = 6};
    ck_assert_int_eq(perf_pool_create(memory, &shape, 1, &pool), 0);
    ck_assert_int_eq(perf_pool_fill(pool, &block, &key, 1), 0);
    ck_assert_int_eq(perf_pool_check_all(pool), 0);
    memcpy(two, first_piece(), sizeof(two));
    perf_pool_destroy(pool);

    shape.piece_bytes = sizeof(two) / 2;
    shape.cells.first[0] = 3;
    shape.cells.num[0] = 1;
    ck_assert_int_eq(perf_pool_create(memory, &shape, 1, &pool), 0);
    ck_assert_int_eq(perf_pool_fill(pool, &block, &key, 1), 0);
    ck_assert_mem_eq(first_piece(), two + 6, 6);      /* row 0, head 3 */
    ck_assert_mem_eq(first_piece() + 6, two + 18, 6); /* row 1 */
    ck_assert_mem_ne(first_piece() + 6, two + 12, 6);
    first_piece()[11] ^= 1;
    ck_assert_int_eq(perf_pool_check_all(pool), -1);
    perf_pool_destroy(pool);
}
END_TEST

/* Blocks of four tokens, of which two have a key, and blocks of two: equal bytes. A key
 * of zero leaves a part as it is. */
START_TEST(contents_do_not_depend_on_the_length_of_blocks)
{
    perf_pool_shape_t shape = {.num_layers = 1, .num_parts = 1, .num_blocks = 2};
    static const uint32_t blocks[] = {0, 1};
    static const uint64_t keys[] = {77, 88, PERF_POOL_UNTOUCHED, 99};
    const bool has_heads_first = (_i == 1);
    unsigned char longer[4 * 2 * 6];
    int head;

    shape.piece_bytes = sizeof(longer);
    shape.num_keys = 2;
    shape.cells = (perf_cells_t){.num_groups = 1,
                                 .num = {2},
                                 .outer = 1,
                                 .entries = 4,
                                 .has_heads_first = has_heads_first,
                                 .inner_bytes = 6};
    ck_assert_int_eq(perf_pool_create(memory, &shape, 1, &pool), 0);
    ck_assert_int_eq(perf_pool_fill(pool, blocks, keys, 1), 0);
    ck_assert_int_eq(perf_pool_fill(pool, blocks, keys + 2, 1), 0);
    ck_assert_int_eq(perf_pool_check_all(pool), 0);
    memcpy(longer, first_piece(), sizeof(longer));
    first_piece()[has_heads_first ? 12 : 24] ^= 1; /* third token */
    ck_assert_int_eq(perf_pool_check_all(pool), -1);
    perf_pool_destroy(pool);

    shape.piece_bytes = sizeof(longer) / 2;
    shape.num_keys = 1;
    shape.cells.entries = 2;
    ck_assert_int_eq(perf_pool_create(memory, &shape, 1, &pool), 0);
    ck_assert_int_eq(perf_pool_fill(pool, blocks, (uint64_t[]){77, 99}, 2), 0);
    if (!has_heads_first) {
        ck_assert_mem_eq(first_piece(), longer, sizeof(longer));
    }
    for (head = 0; has_heads_first && (head < 2); ++head) {
        ck_assert_mem_eq(first_piece() + head * 12, longer + head * 24, 12);
        ck_assert_mem_eq(first_piece() + 24 + head * 12, longer + head * 24 + 12, 12);
    }
    perf_pool_destroy(pool);
}
END_TEST

START_TEST(what_was_filled_checks)
{
    static const uint32_t blocks[] = {7, 3, 49};
    static const uint64_t keys[] = {11, 22, 33};

    make(piece_sizes[_i]);
    ck_assert_int_eq(perf_pool_check_all(pool), 0);
    ck_assert_int_eq(perf_pool_fill(pool, blocks, keys, 3), 0);
    ck_assert_int_eq(perf_pool_check(pool, blocks, 3), 0);
    ck_assert_int_eq(perf_pool_check_all(pool), 0);
    perf_pool_destroy(pool);
}
END_TEST

/* Every piece, its first and its last byte. */
START_TEST(one_wrong_bit_anywhere_is_found)
{
    static const uint32_t block = 5;
    static const uint64_t key = 77;
    unsigned layer, part, last;
    unsigned char *byte;

    make(piece_sizes[_i]);
    ck_assert_int_eq(perf_pool_fill(pool, &block, &key, 1), 0);
    for (layer = 0; layer < LAYERS; ++layer) {
        for (part = 0; part < PARTS; ++part) {
            for (last = 0; last < 2; ++last) {
                byte = piece(layer, part, 5) + (last ? piece_sizes[_i] - 1 : 0);
                *byte ^= 0x10;
                ck_assert_int_eq(perf_pool_check(pool, &block, 1), -1);
                *byte ^= 0x10;
            }
        }
    }
    ck_assert_int_eq(perf_pool_check(pool, &block, 1), 0);
    perf_pool_destroy(pool);
}
END_TEST

START_TEST(pieces_side_by_side_share_a_copy)
{
    static const uint32_t blocks[] = {7, 8, 3};
    static const uint64_t keys[] = {11, 22, 33};

    arena.is_used = true;
    make(64);
    ck_assert_uint_eq(arena.num_copies, LAYERS);
    ck_assert_int_eq(perf_pool_check_all(pool), 0);
    ck_assert_uint_eq(arena.num_copies, 2 * LAYERS);
    ck_assert_int_eq(perf_pool_fill(pool, blocks, keys, 3), 0);
    ck_assert_uint_eq(arena.num_copies, 2 * LAYERS + 2 * LAYERS * PARTS);
    ck_assert_int_eq(perf_pool_check_all(pool), 0);
    perf_pool_destroy(pool);
}
END_TEST

START_TEST(message_has_place_and_cause)
{
    static const uint32_t block = 5;
    static const uint64_t key = 77;
    char text[128];
    unsigned char *byte;

    make(4096);
    perf_pool_fill(pool, &block, &key, 1);
    byte = piece(2, 1, 5) + 1234;
    snprintf(text, sizeof(text),
             "layer 2 part 1 block 5 at byte 1234 of 4096: found 0x%02x, expected "
             "0x%02x (what was moved there, key 0x4d)",
             *byte ^ 1, *byte);
    *byte ^= 1;
    ck_assert_int_eq(perf_pool_check_all(pool), -1);
    ck_assert_msg(strstr(perf_last_error(), text) != NULL, "%s", perf_last_error());
    perf_pool_destroy(pool);
}
END_TEST

START_TEST(stray_write_to_an_untouched_block_is_found)
{
    make(4096);
    piece(0, 0, 17)[4095] ^= 0x80;
    ck_assert_int_eq(perf_pool_check_all(pool), -1);
    ck_assert_ptr_nonnull(
        strstr(perf_last_error(), "a block that no transfer may write"));
    perf_pool_destroy(pool);
}
END_TEST

START_TEST(contents_differ_by_key_layer_and_part)
{
    static const uint32_t blocks[] = {1, 2};
    static const uint64_t keys[] = {5, 6};

    make(4096);
    perf_pool_fill(pool, blocks, keys, 2);
    ck_assert_mem_ne(piece(0, 0, 1), piece(0, 0, 2), 8);
    ck_assert_mem_ne(piece(0, 0, 1), piece(0, 1, 1), 8);
    ck_assert_mem_ne(piece(0, 0, 1), piece(1, 0, 1), 8);
    ck_assert_mem_ne(piece(0, 0, 1), piece(0, 0, 3), 8);
    perf_pool_destroy(pool);
}
END_TEST

START_TEST(expected_contents_have_to_come)
{
    static const uint32_t blocks[] = {1, 2};
    static const uint64_t key = 5;

    make(4096);
    perf_pool_fill(pool, &blocks[0], &key, 1);
    perf_pool_expect(pool, &blocks[1], &key, 1);
    ck_assert_int_eq(perf_pool_check(pool, &blocks[1], 1), -1);
    for (unsigned i = 0; i < LAYERS * PARTS; ++i) {
        memcpy(piece(i / PARTS, i % PARTS, 2), piece(i / PARTS, i % PARTS, 1), 4096);
    }
    ck_assert_int_eq(perf_pool_check_all(pool), 0);
    perf_pool_destroy(pool);
}
END_TEST

START_TEST(borrowed_memory_is_left_to_its_owner)
{
    perf_pool_shape_t shape = {
        .num_layers = 1, .num_parts = 1, .num_blocks = BLOCKS, .piece_bytes = 64};
    void *layer = malloc(BLOCKS * 64);

    ck_assert_int_eq(perf_pool_create_at(memory, &shape, layer, &pool), 0);
    ck_assert_int_eq(perf_pool_check_all(pool), 0);
    perf_pool_destroy(pool);
    free(layer);
}
END_TEST

/* The descriptor of the file behind shared memory */
static int find_memfd(void)
{
    DIR *dir = opendir("/proc/self/fd");
    char target[256] = "";
    struct dirent *entry;
    int fd = -1;

    ck_assert_ptr_nonnull(dir);
    while ((fd < 0) && ((entry = readdir(dir)) != NULL)) {
        if ((readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) > 0) &&
            (strstr(target, "memfd:mori_kv_perf") != NULL)) {
            fd = atoi(entry->d_name);
        }
    }
    closedir(dir);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Another process' copy would end with SIGBUS */
START_TEST(shared_memory_cannot_be_cut)
{
    const size_t size = 1 << 20;
    perf_memory_t *shared;
    char *address;

    ck_assert_int_eq(perf_memory_open(PERF_SEGMENT_SHM, NULL, &shared), 0);
    address = perf_memory_alloc(shared, size);
    ck_assert_ptr_nonnull(address);
    ck_assert_int_eq(ftruncate(find_memfd(), 0), -1);
    ck_assert_int_eq(errno, EPERM);
    address[size - 1] = 1;
    perf_memory_free(shared, address, size);
    perf_memory_close(shared);
}
END_TEST

START_TEST(missing_gpu_runtime_is_named)
{
    perf_memory_t *gpu;

    ck_assert_int_eq(perf_memory_open(PERF_SEGMENT_VRAM, "/no/such/lib.so", &gpu), -1);
    ck_assert_ptr_nonnull(
        strstr(perf_last_error(), "no HIP runtime for VRAM: /no/such"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_pool");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed, sizes = sizeof(piece_sizes) / sizeof(piece_sizes[0]);

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, what_was_filled_checks, 0, sizes);
    tcase_add_loop_test(tcase, one_wrong_bit_anywhere_is_found, 0, sizes);
    tcase_add_test(tcase, slab_has_a_block_s_layers_side_by_side);
    tcase_add_test(tcase, elements_have_equal_bytes_on_all_ranks);
    tcase_add_loop_test(tcase, contents_do_not_depend_on_the_length_of_blocks, 0, 2);
    tcase_add_test(tcase, pieces_side_by_side_share_a_copy);
    tcase_add_test(tcase, message_has_place_and_cause);
    tcase_add_test(tcase, stray_write_to_an_untouched_block_is_found);
    tcase_add_test(tcase, contents_differ_by_key_layer_and_part);
    tcase_add_test(tcase, expected_contents_have_to_come);
    tcase_add_test(tcase, borrowed_memory_is_left_to_its_owner);
    tcase_add_test(tcase, shared_memory_cannot_be_cut);
    tcase_add_test(tcase, missing_gpu_runtime_is_named);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
