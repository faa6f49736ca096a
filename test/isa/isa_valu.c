/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Vector instructions but for comparisons (AMD Instinct MI300 ISA, chapter 6 and 16.7
 * to 16.12). A pair that gfx11 issues together reads all its sources first.
 */

#include "isa_impl.h"

#include <stdlib.h>


/* Name, dwords of the result and of the sources, result. */
#define VALU_OPS(_X)                                                                   \
    _X(v_mov_b32, 1, 1, 0, 0, a)                                                       \
    _X(v_mov_b64, 2, 2, 0, 0, a)                                                       \
    _X(v_not_b32, 1, 1, 0, 0, ~a)                                                      \
    _X(v_add_u32, 1, 1, 1, 0, a + b)                                                   \
    _X(v_sub_u32, 1, 1, 1, 0, a - b)                                                   \
    _X(v_subrev_u32, 1, 1, 1, 0, b - a)                                                \
    _X(v_mul_lo_u32, 1, 1, 1, 0, a *b)                                                 \
    _X(v_mul_hi_u32, 1, 1, 1, 0, (a * b) >> 32)                                        \
    _X(v_mul_u32_u24, 1, 1, 1, 0, (a & 0xffffff) * (b & 0xffffff))                     \
    _X(v_mad_u32_u24, 1, 1, 1, 1, ((a & 0xffffff) * (b & 0xffffff)) + c)               \
    _X(v_min_u32, 1, 1, 1, 0, (a < b) ? a : b)                                         \
    _X(v_max_u32, 1, 1, 1, 0, (a >= b) ? a : b)                                        \
    _X(v_min3_u32, 1, 1, 1, 1, valu_min(valu_min(a, b), c))                            \
    _X(v_and_b32, 1, 1, 1, 0, a &b)                                                    \
    _X(v_or_b32, 1, 1, 1, 0, a | b)                                                    \
    _X(v_xor_b32, 1, 1, 1, 0, a ^ b)                                                   \
    _X(v_and_or_b32, 1, 1, 1, 1, (a & b) | c)                                          \
    _X(v_or3_b32, 1, 1, 1, 1, a | b | c)                                               \
    _X(v_add3_u32, 1, 1, 1, 1, a + b + c)                                              \
    _X(v_lshl_add_u32, 1, 1, 1, 1, (a << (b & 31)) + c)                                \
    _X(v_add_lshl_u32, 1, 1, 1, 1, (a + b) << (c & 31))                                \
    _X(v_lshl_or_b32, 1, 1, 1, 1, (a << (b & 31)) | c)                                 \
    _X(v_lshl_add_u64, 2, 2, 1, 2, (a << (b & 7)) + c)                                 \
    _X(v_lshlrev_b32, 1, 1, 1, 0, b << (a & 31))                                       \
    _X(v_lshrrev_b32, 1, 1, 1, 0, b >> (a & 31))                                       \
    _X(v_ashrrev_i32, 1, 1, 1, 0, (uint64_t)((int32_t)b >> (a & 31)))                  \
    _X(v_lshlrev_b64, 2, 1, 2, 0, b << (a & 63))                                       \
    _X(v_lshrrev_b64, 2, 1, 2, 0, b >> (a & 63))                                       \
    _X(v_ashrrev_i64, 2, 1, 2, 0, (uint64_t)((int64_t)b >> (a & 63)))                  \
    _X(v_alignbit_b32, 1, 1, 1, 1, ((a << 32) | b) >> (c & 31))                        \
    _X(v_bfe_u32, 1, 1, 1, 1, (a >> (b & 31)) & ((UINT64_C(1) << (c & 31)) - 1))

/* The sum or difference in 33 bits, of which the highest is the carry or borrow. */
#define VALU_CARRY_OPS(_X)                                                             \
    _X(v_add_co_u32, a + b)                                                            \
    _X(v_addc_co_u32, a + b + c)                                                       \
    _X(v_sub_co_u32, a - b)                                                            \
    _X(v_subb_co_u32, a - b - c)                                                       \
    _X(v_subrev_co_u32, b - a)                                                         \
    _X(v_subbrev_co_u32, b - a - c)

static uint64_t valu_min(uint64_t a, uint64_t b)
{
    return (a < b) ? a : b;
}

#define VALU_VALUE(_name, _value)                                                      \
    static uint64_t value_##_name(uint64_t a, uint64_t b, uint64_t c)                  \
    {                                                                                  \
        (void)b;                                                                       \
        (void)c;                                                                       \
        return (_value);                                                               \
    }
#define VALU_FUNCTION(_name, _d, _a, _b, _c, _value) VALU_VALUE(_name, _value)
VALU_OPS(VALU_FUNCTION)
VALU_CARRY_OPS(VALU_VALUE)

static void valu_compute(isa_wave_t *wave, const isa_inst_t *inst, uint64_t *out)
{
    const isa_op_t *op = inst->op;
    uint64_t exec = isa_exec_mask(wave);
    uint64_t value[3] = {0, 0, 0};
    unsigned lane, i;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if (((exec >> lane) & 1) == 0) {
            continue;
        }
        for (i = 0; (i < 3) && op->width[i + 1]; ++i) {
            value[i] =
                isa_read_lane(wave, &inst->operand[i + 1], op->width[i + 1], lane);
        }
        out[lane] = op->value(value[0], value[1], value[2]);
    }
}

/* Which of two values, by a bit of a mask; VCC where the text names none. */
static void valu_compute_select(isa_wave_t *wave, const isa_inst_t *inst, uint64_t *out)
{
    const isa_operand_t vcc = {.kind = ISA_SCALAR, .index = ISA_VCC};
    uint64_t mask =
        isa_read_mask(wave, (inst->num_operands > 3) ? &inst->operand[3] : &vcc);
    unsigned lane;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        out[lane] =
            isa_read_lane(wave, &inst->operand[1 + ((mask >> lane) & 1)], 1, lane);
    }
}

static void valu_results(isa_wave_t *wave, const isa_inst_t *inst, uint64_t *out)
{
    if (inst->op->value == NULL) {
        valu_compute_select(wave, inst, out);
    } else {
        valu_compute(wave, inst, out);
    }
}

static void valu_write(isa_wave_t *wave, const isa_inst_t *inst, const uint64_t *out)
{
    uint64_t exec = isa_exec_mask(wave);
    unsigned lane;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if ((exec >> lane) & 1) {
            isa_write_lane(wave, &inst->operand[0], inst->op->width[0], lane,
                           out[lane]);
        }
    }
}

static void valu_exec(isa_wave_t *wave, const isa_inst_t *inst)
{
    uint64_t first[ISA_MAX_LANES], second[ISA_MAX_LANES];

    valu_results(wave, inst, first);
    if (inst->dual != NULL) {
        valu_results(wave, inst->dual, second);
        valu_write(wave, inst->dual, second);
    }
    valu_write(wave, inst, first);
}

/* Operands: result, carry out, both sources, carry in for some. */
static void valu_exec_carry(isa_wave_t *wave, const isa_inst_t *inst)
{
    uint64_t exec = isa_exec_mask(wave);
    uint64_t in = (inst->num_operands > 4) ? isa_read_mask(wave, &inst->operand[4]) : 0;
    uint64_t out[ISA_MAX_LANES];
    uint64_t carry = 0;
    unsigned lane;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if (((exec >> lane) & 1) == 0) {
            continue;
        }
        out[lane] = inst->op->value(isa_read_lane(wave, &inst->operand[2], 1, lane),
                                    isa_read_lane(wave, &inst->operand[3], 1, lane),
                                    (in >> lane) & 1);
        carry |= ((out[lane] >> 32) & 1) << lane;
    }
    isa_write_mask(wave, &inst->operand[1], carry);
    valu_write(wave, inst, out);
}

/* 32 x 32 + 64 bits; operands as above. */
static void valu_exec_mad_u64(isa_wave_t *wave, const isa_inst_t *inst)
{
    uint64_t exec = isa_exec_mask(wave);
    uint64_t out[ISA_MAX_LANES];
    uint64_t carry = 0;
    uint64_t product;
    unsigned lane;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if (((exec >> lane) & 1) == 0) {
            continue;
        }
        product = isa_read_lane(wave, &inst->operand[2], 1, lane) *
                  isa_read_lane(wave, &inst->operand[3], 1, lane);
        out[lane] = product + isa_read_lane(wave, &inst->operand[4], 2, lane);
        carry |= (uint64_t)(out[lane] < product) << lane;
    }
    isa_write_mask(wave, &inst->operand[1], carry);
    valu_write(wave, inst, out);
}

/* Two registers from a half of each source. */
static void valu_exec_pk_mov(isa_wave_t *wave, const isa_inst_t *inst)
{
    uint64_t out[ISA_MAX_LANES];
    uint64_t low, high;
    unsigned lane;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        low = isa_read_lane(wave, &inst->operand[1], 2, lane);
        high = isa_read_lane(wave, &inst->operand[2], 2, lane);
        low = (uint32_t)(inst->op_sel[0] ? (low >> 32) : low);
        high = (uint32_t)(inst->op_sel[1] ? (high >> 32) : high);
        out[lane] = low | (high << 32);
    }
    valu_write(wave, inst, out);
}

/* A table of eight bits gives the result for each three bits of the sources. */
static void valu_exec_bitop3(isa_wave_t *wave, const isa_inst_t *inst)
{
    uint64_t out[ISA_MAX_LANES];
    uint64_t a, b, c;
    unsigned lane, i;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        a = isa_read_lane(wave, &inst->operand[1], 1, lane);
        b = isa_read_lane(wave, &inst->operand[2], 1, lane);
        c = isa_read_lane(wave, &inst->operand[3], 1, lane);
        out[lane] = 0;
        for (i = 0; i < 8; ++i) {
            if ((inst->bitop3 >> i) & 1) {
                out[lane] |=
                    ((i & 4) ? a : ~a) & ((i & 2) ? b : ~b) & ((i & 1) ? c : ~c);
            }
        }
    }
    valu_write(wave, inst, out);
}

/* Ones of a mask below the lane, in its lower or upper half. */
static void valu_exec_mbcnt(isa_wave_t *wave, const isa_inst_t *inst)
{
    uint64_t out[ISA_MAX_LANES];
    uint64_t below, mask;
    unsigned lane;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        below = (UINT64_C(1) << lane) - 1;
        mask = isa_read_lane(wave, &inst->operand[1], 1, lane);
        mask &= (uint32_t)(inst->op->arg ? (below >> 32) : below);
        out[lane] = isa_read_lane(wave, &inst->operand[2], 1, lane) +
                    (unsigned)__builtin_popcountll(mask);
    }
    valu_write(wave, inst, out);
}

static void valu_exec_readfirstlane(isa_wave_t *wave, const isa_inst_t *inst)
{
    uint64_t exec = isa_exec_mask(wave);
    unsigned lane = (exec == 0) ? 0 : (unsigned)__builtin_ctzll(exec);

    isa_write_scalar(wave, &inst->operand[0], 1,
                     isa_read_lane(wave, &inst->operand[1], 1, lane));
}

static void valu_exec_readlane(isa_wave_t *wave, const isa_inst_t *inst)
{
    uint64_t lane = isa_read_scalar(wave, &inst->operand[2], 1);

    isa_write_scalar(wave, &inst->operand[0], 1,
                     isa_read_lane(wave, &inst->operand[1], 1,
                                   (unsigned)lane % wave->gpu->arch->lanes));
}

static void valu_exec_writelane(isa_wave_t *wave, const isa_inst_t *inst)
{
    uint64_t lane = isa_read_scalar(wave, &inst->operand[2], 1);

    isa_write_lane(wave, &inst->operand[0], 1, (unsigned)lane % wave->gpu->arch->lanes,
                   isa_read_scalar(wave, &inst->operand[1], 1));
}

#define VALU_AS(_name, _like, _d, _a, _b, _c)                                          \
    {.name = _name,                                                                    \
     .exec = valu_exec,                                                                \
     .value = value_##_like,                                                           \
     .width = {_d, _a, _b, _c},                                                        \
     .modifiers = ISA_MOD_SDWA},
#define VALU_ROW(_name, _d, _a, _b, _c, _value) VALU_AS(#_name, _name, _d, _a, _b, _c)
#define VALU_CARRY_AS(_name, _like)                                                    \
    {.name = _name,                                                                    \
     .exec = valu_exec_carry,                                                          \
     .value = value_##_like,                                                           \
     .width = {1, 1, 1, 0}},
#define VALU_CARRY_ROW(_name, _value) VALU_CARRY_AS(#_name, _name)

const isa_op_t isa_valu_ops[] = {
    VALU_OPS(VALU_ROW) VALU_CARRY_OPS(VALU_CARRY_ROW)
    /* gfx11 has other names for some */
    VALU_AS("v_add_nc_u32", v_add_u32, 1, 1, 1,
            0) VALU_AS("v_sub_nc_u32", v_sub_u32, 1, 1, 1,
                       0) VALU_AS("v_subrev_nc_u32", v_subrev_u32, 1, 1, 1, 0)
        VALU_CARRY_AS("v_add_co_ci_u32", v_addc_co_u32)
            VALU_CARRY_AS("v_sub_co_ci_u32", v_subb_co_u32)
                VALU_CARRY_AS("v_subrev_co_ci_u32", v_subbrev_co_u32){
                    .name = "v_cndmask_b32", .exec = valu_exec, .width = {1, 1, 1, 0}},
    {.name = "v_mad_u64_u32", .exec = valu_exec_mad_u64, .width = {2, 1, 1, 2}},
    {.name = "v_pk_mov_b32",
     .exec = valu_exec_pk_mov,
     .width = {2, 2, 2, 0},
     .modifiers = ISA_MOD_OP_SEL},
    {.name = "v_bitop3_b32",
     .exec = valu_exec_bitop3,
     .width = {1, 1, 1, 1},
     .modifiers = ISA_MOD_BITOP3},
    {.name = "v_mbcnt_lo_u32_b32", .exec = valu_exec_mbcnt, .width = {1, 1, 1, 0}},
    {.name = "v_mbcnt_hi_u32_b32",
     .exec = valu_exec_mbcnt,
     .width = {1, 1, 1, 0},
     .arg = 1},
    {.name = "v_readfirstlane_b32", .exec = valu_exec_readfirstlane},
    {.name = "v_readlane_b32", .exec = valu_exec_readlane},
    {.name = "v_writelane_b32", .exec = valu_exec_writelane},
    {.name = NULL},
};
