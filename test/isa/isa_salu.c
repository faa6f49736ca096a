/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Scalar instructions (AMD Instinct MI300 ISA, chapter 5 and 16.1 to 16.4).
 */

#include "isa_impl.h"


#define LOW(_value) ((uint32_t)(_value))
#define SIGN(_value) (((_value) >> 31) & 1)

/*
 * Name, dwords of the result and of both sources, result d, new SCC. `carry` is the
 * SCC before.
 */
#define SALU_OPS(_X)                                                                   \
    _X(s_mov_b32, 1, 1, 0, a, carry)                                                   \
    _X(s_mov_b64, 2, 2, 0, a, carry)                                                   \
    _X(s_not_b32, 1, 1, 0, ~a, LOW(d) != 0)                                            \
    _X(s_not_b64, 2, 2, 0, ~a, d != 0)                                                 \
    _X(s_add_u32, 1, 1, 1, a + b, (d >> 32) & 1)                                       \
    _X(s_addc_u32, 1, 1, 1, a + b + carry, (d >> 32) & 1)                              \
    _X(s_sub_u32, 1, 1, 1, a - b, b > a)                                               \
    _X(s_subb_u32, 1, 1, 1, a - b - carry, b + carry > a)                              \
    _X(s_add_i32, 1, 1, 1, a + b, (SIGN(a) == SIGN(b)) && (SIGN(a) != SIGN(d)))        \
    _X(s_sub_i32, 1, 1, 1, a - b, (SIGN(a) != SIGN(b)) && (SIGN(a) != SIGN(d)))        \
    _X(s_mul_i32, 1, 1, 1, a *b, carry)                                                \
    _X(s_mul_hi_u32, 1, 1, 1, (a * b) >> 32, carry)                                    \
    _X(s_min_u32, 1, 1, 1, (a < b) ? a : b, a < b)                                     \
    _X(s_max_u32, 1, 1, 1, (a >= b) ? a : b, a >= b)                                   \
    _X(s_min_i32, 1, 1, 1, ((int32_t)a < (int32_t)b) ? a : b, (int32_t)a < (int32_t)b) \
    _X(s_and_b32, 1, 1, 1, a &b, LOW(d) != 0)                                          \
    _X(s_and_b64, 2, 2, 2, a &b, d != 0)                                               \
    _X(s_or_b32, 1, 1, 1, a | b, LOW(d) != 0)                                          \
    _X(s_or_b64, 2, 2, 2, a | b, d != 0)                                               \
    _X(s_xor_b32, 1, 1, 1, a ^ b, LOW(d) != 0)                                         \
    _X(s_xor_b64, 2, 2, 2, a ^ b, d != 0)                                              \
    _X(s_andn2_b32, 1, 1, 1, a & ~b, LOW(d) != 0)                                      \
    _X(s_andn2_b64, 2, 2, 2, a & ~b, d != 0)                                           \
    _X(s_orn2_b32, 1, 1, 1, a | ~b, LOW(d) != 0)                                       \
    _X(s_orn2_b64, 2, 2, 2, a | ~b, d != 0)                                            \
    _X(s_lshl_b32, 1, 1, 1, a << (b & 31), LOW(d) != 0)                                \
    _X(s_lshl_b64, 2, 2, 1, a << (b & 63), d != 0)                                     \
    _X(s_lshr_b32, 1, 1, 1, a >> (b & 31), LOW(d) != 0)                                \
    _X(s_lshr_b64, 2, 2, 1, a >> (b & 63), d != 0)                                     \
    _X(s_ashr_i32, 1, 1, 1, (uint64_t)((int32_t)a >> (b & 31)), LOW(d) != 0)           \
    _X(s_bfe_u32, 1, 1, 1, salu_bits(a >> (b & 31), (b >> 16) & 127), LOW(d) != 0)     \
    _X(s_bcnt1_i32_b32, 1, 1, 0, (unsigned)__builtin_popcountll(a), d != 0)            \
    _X(s_bcnt1_i32_b64, 1, 2, 0, (unsigned)__builtin_popcountll(a), d != 0)            \
    _X(s_ff1_i32_b32, 1, 1, 0, a ? (uint64_t)__builtin_ctzll(a) : UINT64_MAX, carry)   \
    _X(s_ff1_i32_b64, 1, 2, 0, a ? (uint64_t)__builtin_ctzll(a) : UINT64_MAX, carry)   \
    _X(s_cselect_b32, 1, 1, 1, carry ? a : b, carry)                                   \
    _X(s_cselect_b64, 2, 2, 2, carry ? a : b, carry)                                   \
    _X(s_cmp_eq_u32, 0, 1, 1, a, a == b)                                               \
    _X(s_cmp_lg_u32, 0, 1, 1, a, a != b)                                               \
    _X(s_cmp_lt_u32, 0, 1, 1, a, a < b)                                                \
    _X(s_cmp_le_u32, 0, 1, 1, a, a <= b)                                               \
    _X(s_cmp_gt_u32, 0, 1, 1, a, a > b)                                                \
    _X(s_cmp_ge_u32, 0, 1, 1, a, a >= b)                                               \
    _X(s_cmp_eq_i32, 0, 1, 1, a, a == b)                                               \
    _X(s_cmp_lg_i32, 0, 1, 1, a, a != b)                                               \
    _X(s_cmp_lt_i32, 0, 1, 1, a, (int32_t)a < (int32_t)b)                              \
    _X(s_cmp_le_i32, 0, 1, 1, a, (int32_t)a <= (int32_t)b)                             \
    _X(s_cmp_gt_i32, 0, 1, 1, a, (int32_t)a > (int32_t)b)                              \
    _X(s_cmp_ge_i32, 0, 1, 1, a, (int32_t)a >= (int32_t)b)                             \
    _X(s_cmp_eq_u64, 0, 2, 2, a, a == b)                                               \
    _X(s_cmp_lg_u64, 0, 2, 2, a, a != b)                                               \
    _X(s_bitcmp0_b32, 0, 1, 1, a, ((a >> (b & 31)) & 1) == 0)                          \
    _X(s_bitcmp1_b32, 0, 1, 1, a, ((a >> (b & 31)) & 1) == 1)

static uint64_t salu_bits(uint64_t value, uint64_t count)
{
    return (count >= 32) ? value : (value & ((UINT64_C(1) << count) - 1));
}

#define SALU_FUNCTION(_name, _d, _a, _b, _value, _scc)                                 \
    static uint64_t value_##_name(uint64_t a, uint64_t b, uint32_t *scc)               \
    {                                                                                  \
        const uint32_t carry = *scc;                                                   \
        const uint64_t d = (_value);                                                   \
                                                                                       \
        (void)b;                                                                       \
        (void)carry;                                                                   \
        *scc = (_scc) ? 1 : 0;                                                         \
        return d;                                                                      \
    }
SALU_OPS(SALU_FUNCTION)

static void salu_exec(isa_wave_t *wave, const isa_inst_t *inst)
{
    const isa_op_t *op = inst->op;
    const isa_operand_t *source = &inst->operand[op->width[0] ? 1 : 0];
    uint64_t a = isa_read_scalar(wave, &source[0], op->width[1]);
    uint64_t b = op->width[2] ? isa_read_scalar(wave, &source[1], op->width[2]) : 0;
    uint64_t d = op->scalar(a, b, &wave->scc);

    if (op->width[0]) {
        isa_write_scalar(wave, &inst->operand[0], op->width[0], d);
    }
}

/* The destination is the first source as well, the second one has 16 bits and a sign.
 */
static void salu_exec_k(isa_wave_t *wave, const isa_inst_t *inst)
{
    const isa_op_t *op = inst->op;
    uint64_t a = isa_read_scalar(wave, &inst->operand[0], 1);
    uint64_t b = (uint32_t)(int32_t)(int16_t)inst->operand[1].value;
    uint64_t d = op->scalar(op->arg ? b : a, op->arg ? 0 : b, &wave->scc);

    if (op->width[0]) {
        isa_write_scalar(wave, &inst->operand[0], 1, d);
    }
}

/* EXEC is kept in the destination and combined with the source. */
static void salu_exec_saveexec(isa_wave_t *wave, const isa_inst_t *inst)
{
    const isa_operand_t exec = {.kind = ISA_SCALAR, .index = ISA_EXEC};
    uint64_t source = isa_read_scalar(wave, &inst->operand[1], inst->op->width[0]);
    uint64_t before = isa_read_scalar(wave, &exec, inst->op->width[0]);
    uint64_t after = inst->op->scalar(source, before, &wave->scc);

    isa_write_scalar(wave, &inst->operand[0], inst->op->width[0], before);
    isa_write_scalar(wave, &exec, inst->op->width[0], after);
}

#define SALU_ROW(_name, _d, _a, _b, _value, _scc)                                      \
    {.name = #_name,                                                                   \
     .exec = salu_exec,                                                                \
     .scalar = value_##_name,                                                          \
     .width = {_d, _a, _b, 0}},
#define SALU_AS(_name, _exec, _like, _d, _arg)                                         \
    {.name = _name,                                                                    \
     .exec = _exec,                                                                    \
     .scalar = value_##_like,                                                          \
     .width = {_d, _d, _d, 0},                                                         \
     .arg = _arg},

const isa_op_t isa_salu_ops[] = {
    SALU_OPS(SALU_ROW)
    /* gfx11 has other names for some */
    SALU_AS("s_and_not1_b32", salu_exec, s_andn2_b32, 1,
            0) SALU_AS("s_and_not1_b64", salu_exec, s_andn2_b64, 2,
                       0) SALU_AS("s_or_not1_b32", salu_exec, s_orn2_b32, 1, 0)
        SALU_AS("s_or_not1_b64", salu_exec, s_orn2_b64, 2,
                0) SALU_AS("s_movk_i32", salu_exec_k, s_mov_b32, 1,
                           1) SALU_AS("s_addk_i32", salu_exec_k, s_add_i32, 1, 0)
            SALU_AS("s_and_saveexec_b32", salu_exec_saveexec, s_and_b32, 1, 0) SALU_AS(
                "s_and_saveexec_b64", salu_exec_saveexec, s_and_b64, 2, 0)
                SALU_AS("s_or_saveexec_b32", salu_exec_saveexec, s_or_b32, 1, 0)
                    SALU_AS("s_or_saveexec_b64", salu_exec_saveexec, s_or_b64, 2, 0)
                        SALU_AS("s_andn2_saveexec_b64", salu_exec_saveexec, s_andn2_b64,
                                2, 0) SALU_AS("s_and_not1_saveexec_b32",
                                              salu_exec_saveexec, s_andn2_b32, 1, 0)
                            SALU_AS("s_and_not1_saveexec_b64", salu_exec_saveexec,
                                    s_andn2_b64, 2, 0){.name = NULL},
};
