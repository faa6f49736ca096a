/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Whether the copy kernel's machine code stores its flag after its bytes, and whether a
 * launch reads the present contents of memory, under the memory model of README.md. The
 * same launches produce wrong bytes when the instructions for it are removed.
 */

#include "copy_rig.h"

#include "test/support/mkv_check.h"

#include <string.h>

/* s_nop 0, on all architectures; v_add_f32, which is not implemented */
#define MODEL_NOP 0xbf800000u
#define MODEL_FLOAT 0x02000200u
#define MODEL_RUNS 24
#define MODEL_SIZE (1 << 15)

/* The last block writes back the stores of all blocks if a GPU has a single L2. */
static const char *const archs[] = {"gfx942", "gfx950", "gfx90a"};
#define MODEL_DIES 2 /* architectures with several */
#define MODEL_ALL 3

static void add_pieces(copy_rig_t *rig)
{
    size_t from, to, length;

    for (to = 0; to + 1500 < rig->size; to += length + ((size_t)rand() % 20)) {
        length = 1 + ((size_t)rand() % 1400);
        from = (size_t)rand() % (rig->size - length);
        copy_rig_add(rig, to, from, length);
    }
}

/* Runs in which the host saw the flag before some byte. */
static unsigned count_early(copy_rig_t *rig)
{
    unsigned early = 0;
    unsigned i;

    for (i = 0; i < MODEL_RUNS; ++i) {
        memset(rig->dst, 0, rig->size);
        rig->arrivals = 0;
        MKV_REQUIRE(copy_rig_run(rig, 6, 128, i % 2, ISA_SCOPE_AGENT) == 0, "%s: %s",
                    rig->arch, isa_gpu_error(rig->gpu));
        MKV_REQUIRE(rig->num_flags == 1, "%s: the flag came %u times", rig->arch,
                    rig->num_flags);
        early += rig->flag_was_early;
    }
    return early;
}

typedef struct place {
    uint8_t *code;
    uint64_t size;
} place_t;

/* The instruction that begins with a text, number @a skip of them from a place on. */
static place_t find(copy_rig_t *rig, const void *from, const char *text, unsigned skip)
{
    place_t place = {.code = isa_code_symbol(&rig->code, MUCT_XGMI_KERNEL_NAME, NULL)};
    const char *found;

    for (;; place.code += place.size) {
        found = isa_gpu_text(rig->gpu, (uintptr_t)place.code, &place.size);
        MKV_REQUIRE(strcmp(found, "s_endpgm") != 0, "%s: no '%s'", rig->arch, text);
        if ((place.code >= (const uint8_t *)from) &&
            (strncmp(found, text, strlen(text)) == 0) && (skip-- == 0)) {
            return place;
        }
    }
}

static void take_out(place_t place)
{
    const uint32_t nop = MODEL_NOP;
    uint64_t i;

    for (i = 0; i < place.size; i += sizeof(nop)) {
        memcpy(place.code + i, &nop, sizeof(nop));
    }
}

static void rig_init(copy_rig_t *rig, const char *arch)
{
    copy_rig_init(rig, arch, ISA_LATE, 5, MODEL_SIZE);
    add_pieces(rig);
}

START_TEST(the_flag_is_behind_the_bytes)
{
    copy_rig_t rig;

    rig_init(&rig, archs[_i]);
    ck_assert_uint_eq(count_early(&rig), 0);
    copy_rig_destroy(&rig);
}
END_TEST

/* The fault of LLVM before 23 (llvm-project 178316) */
START_TEST(no_wait_behind_the_write_back)
{
    place_t write_back;
    copy_rig_t rig;

    rig_init(&rig, archs[_i]);
    write_back = find(&rig, NULL, "buffer_wbl2", 0);
    take_out(find(&rig, write_back.code, "s_waitcnt", 0));
    ck_assert_uint_gt(count_early(&rig), 0);
    copy_rig_destroy(&rig);
}
END_TEST

START_TEST(no_write_back_by_each_block)
{
    copy_rig_t rig;

    rig_init(&rig, archs[_i]);
    take_out(find(&rig, NULL, "buffer_wbl2", 0));
    ck_assert_uint_gt(count_early(&rig), 0);
    copy_rig_destroy(&rig);
}
END_TEST

START_TEST(no_write_back_at_all)
{
    copy_rig_t rig;

    rig_init(&rig, archs[_i]);
    take_out(find(&rig, NULL, "buffer_wbl2", 1));
    take_out(find(&rig, NULL, "buffer_wbl2", 0));
    ck_assert_uint_gt(count_early(&rig), 0);
    copy_rig_destroy(&rig);
}
END_TEST

START_TEST(no_barrier_before_the_end)
{
    copy_rig_t rig;

    rig_init(&rig, archs[_i]);
    take_out(find(&rig, NULL, "s_barrier", 1));
    ck_assert_uint_gt(count_early(&rig), 0);
    copy_rig_destroy(&rig);
}
END_TEST

/* A different GPU changes memory that this one has read in an earlier launch. */
static bool reads_what_is_in_memory(copy_rig_t *rig)
{
    size_t i;

    ck_assert_int_eq(copy_rig_run(rig, 4, 128, false, ISA_SCOPE_AGENT), 0);
    ck_assert(memcmp(rig->dst, rig->expected, rig->size) == 0);
    for (i = 0; i < rig->size; ++i) {
        rig->src[i] = (uint8_t)~rig->src[i];
    }
    srand(5);
    copy_rig_clear(rig);
    copy_rig_add(rig, 0, 0, rig->size);
    ck_assert_int_eq(copy_rig_run(rig, 4, 128, false, ISA_SCOPE_AGENT), 0);
    return memcmp(rig->dst, rig->expected, rig->size) == 0;
}

START_TEST(a_launch_reads_what_is_in_memory)
{
    copy_rig_t rig;

    rig_init(&rig, archs[_i]);
    ck_assert(reads_what_is_in_memory(&rig));
    copy_rig_destroy(&rig);
}
END_TEST

START_TEST(no_invalidation)
{
    copy_rig_t rig;

    rig_init(&rig, archs[_i]);
    take_out(find(&rig, NULL, "buffer_inv", 0));
    ck_assert(!reads_what_is_in_memory(&rig));
    copy_rig_destroy(&rig);
}
END_TEST

/* Loads whose registers are read before they are there */
START_TEST(no_wait_for_what_is_stored)
{
    place_t store;
    copy_rig_t rig;
    uint64_t size;
    uint8_t *wait;

    rig_init(&rig, archs[_i]);
    /* the first one is of a run of pieces, which the list has not */
    store = find(&rig, NULL, "global_store_byte", 1);
    wait = store.code - 4;
    ck_assert(strncmp(isa_gpu_text(rig.gpu, (uintptr_t)wait, &size), "s_waitcnt", 9) ==
              0);
    take_out((place_t){.code = wait, .size = size});
    /* or an address is wrong */
    ck_assert((copy_rig_run(&rig, 4, 128, false, ISA_SCOPE_AGENT) != 0) ||
              (memcmp(rig.dst, rig.expected, rig.size) != 0));
    copy_rig_destroy(&rig);
}
END_TEST

START_TEST(an_unknown_instruction_is_named)
{
    const uint32_t word = MODEL_FLOAT;
    copy_rig_t rig;
    place_t place;

    rig_init(&rig, archs[_i]);
    place = find(&rig, NULL, "s_barrier", 0);
    memcpy(place.code, &word, sizeof(word));
    ck_assert_int_eq(copy_rig_run(&rig, 4, 128, false, ISA_SCOPE_AGENT), -1);
    ck_assert_msg(strstr(isa_gpu_error(rig.gpu), "v_add_f32") != NULL, "%s",
                  isa_gpu_error(rig.gpu));
    copy_rig_destroy(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("isa_model");
    TCase *tcase = tcase_create("model");

    tcase_set_timeout(tcase, 240);
    tcase_add_loop_test(tcase, the_flag_is_behind_the_bytes, 0, MODEL_ALL);
    tcase_add_loop_test(tcase, no_wait_behind_the_write_back, 0, MODEL_DIES);
    tcase_add_loop_test(tcase, no_write_back_by_each_block, 0, MODEL_DIES);
    tcase_add_loop_test(tcase, no_write_back_at_all, 0, MODEL_ALL);
    tcase_add_loop_test(tcase, no_barrier_before_the_end, 0, MODEL_DIES);
    tcase_add_loop_test(tcase, a_launch_reads_what_is_in_memory, 0, MODEL_ALL);
    tcase_add_loop_test(tcase, no_invalidation, 0, MODEL_ALL);
    tcase_add_loop_test(tcase, no_wait_for_what_is_stored, 0, MODEL_ALL);
    tcase_add_loop_test(tcase, an_unknown_instruction_is_named, 0, MODEL_ALL);
    suite_add_tcase(suite, tcase);
    return mkv_check_run(suite, CK_FORK_GETENV, CK_ENV);
}
