/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Vector comparisons (AMD Instinct MI300 ISA, 16.9): a bit a lane, 0 for lanes that
 * EXEC turns off. v_cmpx writes EXEC; on GFX9 VCC or another mask beside it.
 */

#include "isa_impl.h"


#define COMPARE_OPS(_X, _type, _t, _width)                                             \
    _X(eq_##_type, _t, _width, ==)                                                     \
    _X(ne_##_type, _t, _width, !=)                                                     \
    _X(lt_##_type, _t, _width, <)                                                      \
    _X(le_##_type, _t, _width, <=)                                                     \
    _X(gt_##_type, _t, _width, >)                                                      \
    _X(ge_##_type, _t, _width, >=)

#define COMPARE_ALL(_X)                                                                \
    COMPARE_OPS(_X, u32, uint32_t, 1)                                                  \
    COMPARE_OPS(_X, i32, int32_t, 1)                                                   \
    COMPARE_OPS(_X, u64, uint64_t, 2)                                                  \
    COMPARE_OPS(_X, i64, int64_t, 2)

#define COMPARE_FUNCTION(_name, _t, _width, _relation)                                 \
    static uint64_t value_##_name(uint64_t a, uint64_t b, uint64_t c)                  \
    {                                                                                  \
        (void)c;                                                                       \
        return (_t)a _relation(_t) b;                                                  \
    }
COMPARE_ALL(COMPARE_FUNCTION)

static uint64_t compare(isa_wave_t *wave, const isa_inst_t *inst,
                        const isa_operand_t *source)
{
    uint64_t exec = isa_exec_mask(wave);
    unsigned width = inst->op->width[1];
    uint64_t mask = 0;
    unsigned lane;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if ((exec >> lane) & 1) {
            mask |= inst->op->value(isa_read_lane(wave, &source[0], width, lane),
                                    isa_read_lane(wave, &source[1], width, lane), 0)
                    << lane;
        }
    }
    return mask;
}

static void compare_exec(isa_wave_t *wave, const isa_inst_t *inst)
{
    isa_write_mask(wave, &inst->operand[0], compare(wave, inst, &inst->operand[1]));
}

static void compare_exec_x(isa_wave_t *wave, const isa_inst_t *inst)
{
    const isa_operand_t exec = {.kind = ISA_SCALAR, .index = ISA_EXEC};
    bool has_mask = (inst->num_operands == 3);
    uint64_t mask = compare(wave, inst, &inst->operand[has_mask ? 1 : 0]);

    if (has_mask) {
        isa_write_mask(wave, &inst->operand[0], mask);
    }
    isa_write_mask(wave, &exec, mask);
}

#define COMPARE_ROW(_name, _t, _width, _relation)                                      \
    {.name = "v_cmp_" #_name,                                                          \
     .exec = compare_exec,                                                             \
     .value = value_##_name,                                                           \
     .width = {0, _width, _width, 0},                                                  \
     .modifiers = ISA_MOD_SDWA},                                                       \
        {.name = "v_cmpx_" #_name,                                                     \
         .exec = compare_exec_x,                                                       \
         .value = value_##_name,                                                       \
         .width = {0, _width, _width, 0}},

const isa_op_t isa_compare_ops[] = {
    COMPARE_ALL(COMPARE_ROW){.name = NULL},
};
