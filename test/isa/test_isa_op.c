/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Instructions alone: each arithmetic one, each executor of the others.
 */

#include "isa_impl.h"
#include "isa_op_rows.h"

#include "test/support/mkv_check.h"

#include <stdio.h>
#include <string.h>

#define OP_LANE 5 /* the lane that is looked at; 6 is off */
#define OP_NOISE 0xabababab

static struct isa_gpu *gpu;
static isa_group_t group;
static isa_wave_t wave;
static uint32_t vectors[32][ISA_MAX_LANES];
static uint8_t lds[256];

static void setup_arch(const char *arch)
{
    gpu = isa_gpu_create(arch, NULL, ISA_EARLY, 1);
    ck_assert_ptr_nonnull(gpu);
    memset(&group, 0, sizeof(group));
    group.gpu = gpu;
    group.num_waves = 1;
    group.waves = &wave;
    group.lds = lds;
    group.lds_size = sizeof(lds);
    memset(&wave, 0, sizeof(wave));
    memset(wave.scalar, 0xab, sizeof(wave.scalar));
    memset(vectors, 0xab, sizeof(vectors));
    wave.gpu = gpu;
    wave.group = &group;
    wave.vector = vectors;
    wave.num_vectors = 32;
    wave.scalar[ISA_EXEC] = ~(1u << (OP_LANE + 1));
    wave.scalar[ISA_EXEC + 1] = UINT32_MAX;
}

static void setup(void)
{
    setup_arch("gfx942");
}

static void teardown(void)
{
    isa_cache_clear(&group.l1);
    isa_gpu_destroy(gpu);
}

/* Text is the disassembler's output. */
static void execute(const char *text)
{
    isa_inst_t inst = {.size = 4};

    gpu->failed = false;
    snprintf(inst.text, sizeof(inst.text), "%s", text);
    ck_assert_msg(isa_parse(gpu, &inst), "%s", gpu->error);
    inst.op->exec(&wave, &inst);
    ck_assert_msg(!gpu->failed, "%s: %s", text, gpu->error);
    free(inst.dual);
}

static void set_pair(uint32_t *registers, size_t stride, uint64_t value)
{
    registers[0] = (uint32_t)value;
    registers[stride] = (uint32_t)(value >> 32);
}

static void check_scalar(const op_row_t *row)
{
    unsigned i;
    uint64_t result;

    for (i = 0; i < 3; ++i) {
        set_pair(&wave.scalar[2 + (2 * i)], 1, row->source[i]);
    }
    wave.scc = row->carry_in;
    execute(row->text);
    ck_assert_msg(wave.scc == row->carry_out, "%s: SCC %u", row->text, wave.scc);
    if (strstr(row->text, "s10") != NULL) {
        ck_assert_msg(wave.scalar[10] == (uint32_t)row->result, "%s: 0x%x, not 0x%x",
                      row->text, wave.scalar[10], (uint32_t)row->result);
    } else if (strstr(row->text, "s[10") != NULL) {
        result = wave.scalar[10] | ((uint64_t)wave.scalar[11] << 32);
        ck_assert_msg(result == row->result, "%s: 0x%lx", row->text,
                      (unsigned long)result);
    }
}

static void check_vector(const op_row_t *row)
{
    unsigned i;
    uint64_t result;

    for (i = 0; i < 3; ++i) {
        set_pair(&vectors[2 + (2 * i)][OP_LANE], ISA_MAX_LANES, row->source[i]);
    }
    wave.scalar[ISA_VCC] = row->carry_in << OP_LANE;
    wave.scalar[ISA_VCC + 1] = 0;
    vectors[10][OP_LANE + 1] = OP_NOISE;
    execute(row->text);
    ck_assert_uint_eq(vectors[10][OP_LANE + 1], OP_NOISE);
    if (strstr(row->text, "s[10") != NULL) { /* a mask, 0 where a lane is off */
        ck_assert_msg(((wave.scalar[10] >> OP_LANE) & 3) == row->carry_out, "%s: 0x%x",
                      row->text, wave.scalar[10]);
    }
    if (strstr(row->text, "v10") != NULL) {
        ck_assert_msg(vectors[10][OP_LANE] == (uint32_t)row->result,
                      "%s: 0x%x, not 0x%x", row->text, vectors[10][OP_LANE],
                      (uint32_t)row->result);
    } else if (strstr(row->text, "v[10") != NULL) {
        result = vectors[10][OP_LANE] | ((uint64_t)vectors[11][OP_LANE] << 32);
        ck_assert_msg(result == row->result, "%s: 0x%lx", row->text,
                      (unsigned long)result);
    }
}

START_TEST(arithmetic)
{
    const size_t count = sizeof(op_rows) / sizeof(op_rows[0]);
    size_t i;

    ck_assert_uint_gt(count, 300);
    for (i = 0; i < count; ++i) {
        if (op_rows[i].text[0] == 's') {
            check_scalar(&op_rows[i]);
        } else {
            check_vector(&op_rows[i]);
        }
    }
}
END_TEST

/* Names that share the computation are tried once. */
static bool has_row(const isa_op_t *op)
{
    const isa_op_t *other;
    char name[64];
    size_t i;

    for (i = 0; i < sizeof(op_rows) / sizeof(op_rows[0]); ++i) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(op_rows[i].text, " "),
                 op_rows[i].text);
        other = isa_op_find(name);
        if ((other != NULL) && (other->value == op->value) &&
            (other->scalar == op->scalar)) {
            return true;
        }
    }
    return false;
}

START_TEST(each_arithmetic_instruction_has_rows)
{
    static const isa_op_t *const tables[] = {isa_salu_ops, isa_valu_ops,
                                             isa_compare_ops};
    const isa_op_t *op;
    size_t i;

    for (i = 0; i < sizeof(tables) / sizeof(tables[0]); ++i) {
        for (op = tables[i]; op->name != NULL; ++op) {
            if ((op->value != NULL) || (op->scalar != NULL)) {
                ck_assert_msg(has_row(op), "%s", op->name);
            }
        }
    }
}
END_TEST

/* MI300 ISA 16.3: EXEC is kept and combined. */
START_TEST(saveexec)
{
    static const struct {
        const char *text;
        uint32_t exec;
    } rows[] = {
        {"s_and_saveexec_b64 s[10:11], s[2:3]", 0x0f0f0f0f & 0x12345678},
        {"s_or_saveexec_b64 s[10:11], s[2:3]", 0x0f0f0f0f | 0x12345678},
        {"s_andn2_saveexec_b64 s[10:11], s[2:3]", 0x0f0f0f0f & ~0x12345678u},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        wave.scalar[ISA_EXEC] = 0x12345678;
        wave.scalar[2] = 0x0f0f0f0f;
        execute(rows[i].text);
        ck_assert_uint_eq(wave.scalar[10], 0x12345678);
        ck_assert_uint_eq(wave.scalar[ISA_EXEC], rows[i].exec);
        ck_assert_uint_eq(wave.scc, 1);
    }
}
END_TEST

START_TEST(scalar_constants_of_16_bits)
{
    execute("s_movk_i32 s10, 0xfff0");
    ck_assert_uint_eq(wave.scalar[10], 0xfffffff0);
    wave.scalar[10] = 0x7fffffff;
    execute("s_addk_i32 s10, 0x1");
    ck_assert_uint_eq(wave.scalar[10], 0x80000000);
    ck_assert_uint_eq(wave.scc, 1);
}
END_TEST

START_TEST(vector_instructions_of_other_shape)
{
    vectors[2][OP_LANE] = 0x11223344;
    vectors[4][OP_LANE] = 7;
    wave.scalar[ISA_VCC] = 1u << OP_LANE;
    execute("v_cndmask_b32_e32 v10, v2, v4, vcc");
    ck_assert_uint_eq(vectors[10][OP_LANE], 7);
    ck_assert_uint_eq(vectors[10][OP_LANE + 1], OP_NOISE);
    execute("v_cmp_eq_u32_sdwa s[10:11], v2, v4 src0_sel:BYTE_3 src1_sel:DWORD");
    ck_assert_uint_eq(wave.scalar[10], 0);
    vectors[4][OP_LANE] = 0x11;
    execute("v_cmp_eq_u32_sdwa s[10:11], v2, v4 src0_sel:BYTE_3 src1_sel:DWORD");
    ck_assert_uint_eq(wave.scalar[10], 1u << OP_LANE);
    execute("v_readfirstlane_b32 s10, v2");
    ck_assert_uint_eq(wave.scalar[10], OP_NOISE);
    wave.scalar[2] = OP_LANE;
    execute("v_readlane_b32 s10, v2, s2");
    ck_assert_uint_eq(wave.scalar[10], 0x11223344);
    execute("v_writelane_b32 v12, s10, s2");
    ck_assert_uint_eq(vectors[12][OP_LANE], 0x11223344);
    execute("v_mbcnt_lo_u32_b32 v10, -1, 0");
    ck_assert_uint_eq(vectors[10][OP_LANE], OP_LANE);
    execute("v_mbcnt_hi_u32_b32 v10, -1, v10");
    ck_assert_uint_eq(vectors[10][40], 32 + 8);
    vectors[6][OP_LANE] = 1;
    vectors[7][OP_LANE] = 0;
    execute("v_mad_u64_u32 v[10:11], s[10:11], v2, v4, v[6:7]");
    ck_assert_uint_eq(vectors[10][OP_LANE], (0x11223344ull * 0x11 + 1) & UINT32_MAX);
    ck_assert_uint_eq(vectors[11][OP_LANE], (0x11223344ull * 0x11 + 1) >> 32);
    vectors[3][OP_LANE] = 9;
    execute("v_pk_mov_b32 v[10:11], v[2:3], v[2:3] op_sel:[0,1]");
    ck_assert_uint_eq(vectors[10][OP_LANE], 0x11223344);
    ck_assert_uint_eq(vectors[11][OP_LANE], 9);
    execute("v_bitop3_b32 v10, v2, v4, v6 bitop3:0xc8"); /* b & (a | c) */
    ck_assert_uint_eq(vectors[10][OP_LANE], 0x11 & (0x11223344 | 1));
    execute("v_cmpx_eq_u32 vcc, v2, v2");
    ck_assert_uint_eq(wave.scalar[ISA_EXEC], ~(1u << (OP_LANE + 1)));
}
END_TEST

/* RDNA3 ISA 7.6: both halves read before one writes. v_cmpx has no result but EXEC. */
START_TEST(a_pair)
{
    teardown();
    setup_arch("gfx1100");
    vectors[2][OP_LANE] = 1;
    vectors[3][OP_LANE] = 2;
    execute("v_dual_mov_b32 v2, v3 :: v_dual_mov_b32 v3, v2");
    ck_assert_uint_eq(vectors[2][OP_LANE], 2);
    ck_assert_uint_eq(vectors[3][OP_LANE], 1);
    execute("v_cmpx_gt_u32_e64 v2, v3");
    ck_assert_uint_eq(wave.scalar[ISA_EXEC], 1u << OP_LANE);
}
END_TEST

static void set_address(unsigned index, const void *address)
{
    unsigned lane;

    for (lane = 0; lane < ISA_MAX_LANES; ++lane) {
        set_pair(&vectors[index][lane], ISA_MAX_LANES, (uintptr_t)address);
    }
}

/* MI300 ISA chapters 8, 10 and 11; in one lane */
START_TEST(memory_operations)
{
    _Alignas(16) uint32_t memory[8] = {0x80000081, 2, 3, 4, 5, 6, 7, 8};

    wave.scalar[ISA_EXEC] = 1u << OP_LANE;
    wave.scalar[ISA_EXEC + 1] = 0;
    set_address(2, memory);
    execute("global_load_sbyte v10, v[2:3], off");
    ck_assert_uint_eq(vectors[10][OP_LANE], 0xffffff81);
    execute("global_load_ubyte v10, v[2:3], off");
    ck_assert_uint_eq(vectors[10][OP_LANE], 0x81);
    execute("flat_load_dwordx4 v[10:13], v[2:3] offset:8");
    ck_assert_uint_eq(vectors[10][OP_LANE], 3);
    ck_assert_uint_eq(vectors[13][OP_LANE], 6);
    set_pair(&wave.scalar[2], 1, (uintptr_t)memory);
    vectors[4][OP_LANE] = 4;
    execute("global_load_dword v10, v4, s[2:3] offset:-4");
    ck_assert_uint_eq(vectors[10][OP_LANE], 0x80000081);
    execute("global_store_dwordx3 v[2:3], v[11:13], off offset:16");
    ck_assert_uint_eq(memory[4], 4);
    ck_assert_uint_eq(memory[6], 6);
    ck_assert_uint_eq(memory[7], 8);
    execute("global_store_byte v[2:3], v12, off");
    ck_assert_uint_eq(memory[0], 0x80000005);
    execute("flat_atomic_add v10, v[2:3], v4 sc0");
    ck_assert_uint_eq(vectors[10][OP_LANE], 0x80000005);
    ck_assert_uint_eq(memory[0], 0x80000009);
    execute("global_atomic_add v[2:3], v4, off");
    ck_assert_uint_eq(memory[0], 0x8000000d);
    vectors[12][OP_LANE] = 77;
    vectors[13][OP_LANE] = 0x8000000d;
    execute("global_atomic_cmpswap v10, v[2:3], v[12:13], off sc0");
    ck_assert_uint_eq(vectors[10][OP_LANE], 0x8000000d);
    ck_assert_uint_eq(memory[0], 77);
    execute("s_load_dwordx4 s[12:15], s[2:3], 0x4");
    ck_assert_uint_eq(wave.scalar[12], 2);
    ck_assert_uint_eq(wave.scalar[15], 4);
    vectors[4][OP_LANE] = 16;
    execute("ds_write_b96 v4, v[11:13] offset:16");
    execute("ds_read_b128 v[20:23], v4 offset:16");
    ck_assert_uint_eq(vectors[21][OP_LANE], 77);
    ck_assert_uint_eq(vectors[22][OP_LANE], 0x8000000d);
}
END_TEST

/* Each lane takes from another, 0 from one that is off. */
START_TEST(exchange_between_lanes)
{
    vectors[4][0] = OP_LANE * 4;
    vectors[4][1] = (OP_LANE + 1) * 4;
    vectors[2][OP_LANE] = 55;
    execute("ds_bpermute_b32 v10, v4, v2");
    ck_assert_uint_eq(vectors[10][0], 55);
    ck_assert_uint_eq(vectors[10][1], 0);
}
END_TEST

START_TEST(branches)
{
    wave.pc = 1000;
    execute("s_branch 65535");
    ck_assert_uint_eq(wave.pc, 996);
    wave.scc = 0;
    execute("s_cbranch_scc1 4");
    ck_assert_uint_eq(wave.pc, 996);
    execute("s_cbranch_scc0 4");
    ck_assert_uint_eq(wave.pc, 1012);
    execute("s_cbranch_execz 4");
    execute("s_cbranch_execnz 1");
    ck_assert_uint_eq(wave.pc, 1016);
    wave.scalar[ISA_VCC] = wave.scalar[ISA_VCC + 1] = 0;
    execute("s_cbranch_vccnz 4");
    execute("s_cbranch_vccz 1");
    ck_assert_uint_eq(wave.pc, 1020);
}
END_TEST

START_TEST(what_is_not_implemented_is_named)
{
    static const char *const texts[] = {
        "v_fma_f32 v0, v1, v2, v3",
        "v_mov_b32_dpp v0, v1 row_shl:1 row_mask:0xf bank_mask:0xf",
        "v_add_u32_e64 v0, v1, v2 clamp",
        "v_mov_b32_e32 v0, src_shared_base",
        "global_load_dword v0, v[2:3], off lds",
    };
    isa_inst_t inst;
    size_t i;

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
        memset(&inst, 0, sizeof(inst));
        gpu->failed = false;
        snprintf(inst.text, sizeof(inst.text), "%s", texts[i]);
        ck_assert_msg(!isa_parse(gpu, &inst), "%s", texts[i]);
        ck_assert_msg(strstr(gpu->error, texts[i]) != NULL, "%s", gpu->error);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("isa_op");
    TCase *tcase = tcase_create("op");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, arithmetic);
    tcase_add_test(tcase, each_arithmetic_instruction_has_rows);
    tcase_add_test(tcase, saveexec);
    tcase_add_test(tcase, scalar_constants_of_16_bits);
    tcase_add_test(tcase, vector_instructions_of_other_shape);
    tcase_add_test(tcase, a_pair);
    tcase_add_test(tcase, memory_operations);
    tcase_add_test(tcase, exchange_between_lanes);
    tcase_add_test(tcase, branches);
    tcase_add_test(tcase, what_is_not_implemented_is_named);
    suite_add_tcase(suite, tcase);
    return mkv_check_run(suite, CK_FORK_GETENV, CK_ENV);
}
