/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The copy kernel's machine code on every architecture of the bundle: each path of a
 * tile, alignment and tail that test_xgmi_kernel.c runs of the source.
 */

#include "copy_rig.h"

#include "test/support/mkv_check.h"

#include <string.h>


static void run(copy_rig_t *rig, uint32_t max_blocks, uint32_t block_size,
                bool with_tail)
{
    MKV_REQUIRE(copy_rig_run(rig, max_blocks, block_size, with_tail, ISA_SCOPE_AGENT) ==
                    0,
                "%s: %s", rig->arch, isa_gpu_error(rig->gpu));
    MKV_REQUIRE(memcmp(rig->dst, rig->expected, rig->size) == 0,
                "%s: bytes differ: %u blocks, with a tail: %d", rig->arch, max_blocks,
                with_tail);
    MKV_REQUIRE(rig->arrivals == 0, "%s: arrivals is %u", rig->arch, rig->arrivals);
    MKV_REQUIRE(rig->num_flags == (rig->has_flag ? 1 : 0), "%s: the flag came %u times",
                rig->arch, rig->num_flags);
    MKV_REQUIRE(!rig->flag_was_early, "%s: the flag is before the bytes", rig->arch);
}

START_TEST(every_instruction_is_implemented)
{
    static const char *const kernels[] = {MUCT_XGMI_KERNEL_NAME,
                                          MUCT_XGMI_FLAG_IS_LAST_NAME};
    copy_rig_t rig;
    size_t size, i;
    void *code;

    copy_rig_init(&rig, copy_rig_archs[_i], ISA_LATE, 1, 1);
    ck_assert_int_eq(rig.has_flag, strcmp(rig.arch, "gfx1100") != 0);
    for (i = 0; i < sizeof(kernels) / sizeof(kernels[0]); ++i) {
        code = isa_code_symbol(&rig.code, kernels[i], &size);
        if (code != NULL) {
            ck_assert_msg(isa_gpu_check_code(rig.gpu, (uintptr_t)code, size) == 0,
                          "%s: %s", rig.arch, isa_gpu_error(rig.gpu));
        }
    }
    copy_rig_destroy(&rig);
}
END_TEST

/* Every pair of alignments and every length; nothing else is read or written. */
START_TEST(one_piece_of_any_alignment)
{
    static const size_t lengths[] = {1,   15,  16,   17,   63,   64,   65,
                                     100, 300, 4095, 4096, 4111, 4112, 8200};
    static const size_t offsets[] = {0, 1, 4, 8, 9, 15};
    const size_t count = sizeof(offsets) / sizeof(offsets[0]);
    const size_t size = 8200 + 15;
    copy_rig_t rig;
    size_t i, j;

    copy_rig_init(&rig, copy_rig_archs[_i], ISA_LATE, 1, size);
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
        for (j = 0; j < count * count; ++j) {
            copy_rig_clear(&rig);
            /* at both ends of the memory that the kernel may touch */
            copy_rig_add(&rig, size - lengths[i] - offsets[j / count],
                         offsets[j % count], lengths[i]);
            run(&rig, 2, (j % 2) ? 64 : 192, j % 3 == 0);
        }
    }
    ck_assert_uint_gt(isa_gpu_executed(rig.gpu), 1000);
    copy_rig_destroy(&rig);
}
END_TEST

static void add_random_pieces(copy_rig_t *rig)
{
    size_t from, to, length;

    for (to = 0; to + 100000 < rig->size; to += length + ((size_t)rand() % 20)) {
        length = 1 + ((size_t)rand() % ((rand() % 50 == 0) ? 99000 : 300));
        from = (size_t)rand() % (rig->size - length);
        if (!copy_rig_add(rig, to, from, length)) {
            break;
        }
    }
}

START_TEST(random_lists)
{
    static const isa_timing_t timings[] = {ISA_EARLY, ISA_LATE, ISA_RANDOM};
    copy_rig_t rig;
    unsigned i;

    for (i = 0; i < 4; ++i) {
        copy_rig_init(&rig, copy_rig_archs[_i], timings[i % 3], 100 + i, 1 << 18);
        add_random_pieces(&rig);
        run(&rig, 1 + (i * 2), 0, false);
        memset(rig.dst, 0, rig.size);
        run(&rig, 1 + (i * 2), 256, true);
        copy_rig_destroy(&rig);
    }
}
END_TEST

/* Whole tiles by many blocks, most of them from the tail */
START_TEST(a_long_piece)
{
    copy_rig_t rig;

    copy_rig_init(&rig, copy_rig_archs[_i], ISA_RANDOM, 7, 1 << 20);
    copy_rig_add(&rig, 16, 0, (1 << 20) - 16);
    run(&rig, 12, 0, true);
    copy_rig_destroy(&rig);
}
END_TEST

/* Pieces of each unit: some of a tile, whole tiles, and a rest, at either end of the
 * memory that may be touched; the source runs forwards or backwards. */
START_TEST(runs_of_pieces)
{
    static const uint32_t units[] = {16, 8, 4, 1};
    static const uint32_t lengths[] = {1, 3, 16, 37, 128};
    const size_t size = 1 << 15;
    muct_xgmi_strided_t pieces;
    uint32_t unit, i, j, tile;
    copy_rig_t rig;

    copy_rig_init(&rig, copy_rig_archs[_i], ISA_RANDOM, 3, size);
    for (i = 0; i < sizeof(units) / sizeof(units[0]); ++i) {
        unit = units[i];
        for (j = 0; j < sizeof(lengths) / sizeof(lengths[0]); ++j) {
            copy_rig_clear(&rig);
            tile = MUCT_XGMI_TILE_UNITS / lengths[j];
            pieces.piece = lengths[j] * unit;
            pieces.count = 1 + tile + (tile / 2);
            pieces.dst_stride = pieces.piece + (2 * unit);
            pieces.src_stride = (j % 2 == 0) ? 0 - (uint64_t)pieces.piece
                                             : pieces.piece + (3 * (uint64_t)unit);
            pieces.dst = unit % 16;
            pieces.src = (j % 2 == 0) ? size - pieces.piece : unit % 16;
            ck_assert(copy_rig_add_run(&rig, &pieces));
            run(&rig, 2, (j % 2) ? 64 : 192, i % 2 == 0);
        }
    }
    copy_rig_destroy(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("isa_copy");
    TCase *tcase = tcase_create("copy");
    int count = 0;

    while (copy_rig_archs[count] != NULL) {
        ++count;
    }
    tcase_set_timeout(tcase, 240);
    tcase_add_loop_test(tcase, every_instruction_is_implemented, 0, count);
    tcase_add_loop_test(tcase, one_piece_of_any_alignment, 0, count);
    tcase_add_loop_test(tcase, random_lists, 0, count);
    tcase_add_loop_test(tcase, a_long_piece, 0, count);
    tcase_add_loop_test(tcase, runs_of_pieces, 0, count);
    suite_add_tcase(suite, tcase);
    return mkv_check_run(suite, CK_FORK_GETENV, CK_ENV);
}
