/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Loads, stores and atomic operations on memory (AMD Instinct MI300 ISA, chapters 8 and
 * 10). All flat addresses are taken for global ones: LDS and scratch have none here.
 */

#include "isa_impl.h"

#include <string.h>


#define MEM_SCOPES (ISA_MOD_SC0 | ISA_MOD_SC1 | ISA_MOD_GLC | ISA_MOD_DLC)
#define MEM_MODIFIERS (MEM_SCOPES | ISA_MOD_OFFSET | ISA_MOD_NT | ISA_MOD_SLC)

/* Bits of isa_op_t.arg */
#define MEM_FLAT 1u
#define MEM_SIGNED 2u
#define MEM_KEEP_HIGH 4u
#define MEM_COMPARE 8u /* an atomic with two operands */

static bool is_system_scope(const isa_wave_t *wave, const isa_inst_t *inst)
{
    return wave->gpu->arch->scopes_by_bit && (inst->modifiers & ISA_MOD_SC0) &&
           (inst->modifiers & ISA_MOD_SC1);
}

static unsigned load_flags(const isa_wave_t *wave, const isa_inst_t *inst)
{
    unsigned bypass = wave->gpu->arch->scopes_by_bit ? ISA_MOD_SC1 : ISA_MOD_GLC;

    return ((inst->modifiers & bypass) ? ISA_BYPASS_L1 : 0) |
           (is_system_scope(wave, inst) ? ISA_BYPASS_L2 : 0);
}

/* Addresses of all lanes; operand number `at` is the vector, the last one may be a
 * scalar base. */
static void mem_addresses(isa_wave_t *wave, const isa_inst_t *inst, unsigned at,
                          isa_pending_t *pending)
{
    const isa_operand_t *vector = &inst->operand[at];
    const isa_operand_t *base = &inst->operand[inst->num_operands - 1];
    uint64_t scalar = 0;
    unsigned width = 2;
    unsigned lane;

    if (!(inst->op->arg & MEM_FLAT) && (base->kind == ISA_SCALAR)) {
        scalar = isa_read_scalar(wave, base, 2);
        width = 1;
    }
    pending->low = UINT64_MAX;
    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if (((pending->exec >> lane) & 1) == 0) {
            continue;
        }
        pending->address[lane] =
            scalar + isa_read_lane(wave, vector, width, lane) + (uint64_t)inst->offset;
        if (pending->address[lane] < pending->low) {
            pending->low = pending->address[lane];
        }
        if (pending->address[lane] + pending->size > pending->high) {
            pending->high = pending->address[lane] + pending->size;
        }
    }
}

static void mem_data(isa_wave_t *wave, const isa_operand_t *operand,
                     isa_pending_t *pending)
{
    isa_operand_t one = *operand;
    unsigned lane, i;

    for (i = 0; i < (pending->size + 3) / 4; ++i, ++one.index) {
        for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
            if ((pending->exec >> lane) & 1) {
                pending->data[i][lane] = (uint32_t)isa_read_lane(wave, &one, 1, lane);
            }
        }
    }
}

static void perform_load(isa_wave_t *wave, isa_pending_t *pending)
{
    const isa_op_t *op = pending->inst->op;
    uint32_t words[ISA_MAX_DWORDS];
    unsigned lane, i;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if (((pending->exec >> lane) & 1) == 0) {
            continue;
        }
        memset(words, 0, sizeof(words));
        isa_load(wave, pending->address[lane], words, pending->size, pending->flags);
        if ((op->arg & MEM_SIGNED) && (pending->size < 4)) {
            unsigned shift = 32 - (8 * pending->size);

            words[0] = (uint32_t)((int32_t)(words[0] << shift) >> shift);
        }
        for (i = 0; i < ISA_MAX_DWORDS; ++i) {
            pending->data[i][lane] = words[i];
        }
    }
}

static void perform_store(isa_wave_t *wave, isa_pending_t *pending)
{
    uint32_t words[ISA_MAX_DWORDS];
    unsigned lane, i;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if (((pending->exec >> lane) & 1) == 0) {
            continue;
        }
        for (i = 0; i < ISA_MAX_DWORDS; ++i) {
            words[i] = pending->data[i][lane];
        }
        isa_store(wave, pending->address[lane], words, pending->size, pending->flags);
    }
}

static void perform_atomic(isa_wave_t *wave, isa_pending_t *pending)
{
    const isa_op_t *op = pending->inst->op;
    uint64_t value[2];
    unsigned lane;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if (((pending->exec >> lane) & 1) == 0) {
            continue;
        }
        value[0] = pending->data[0][lane];
        value[1] = pending->data[1][lane];
        if (pending->size == 8) {
            value[0] |= value[1] << 32;
            value[1] =
                pending->data[2][lane] | ((uint64_t)pending->data[3][lane] << 32);
        }
        value[0] = isa_atomic(wave, pending->address[lane], pending->size, op->value,
                              value[0], value[1]);
        pending->data[0][lane] = (uint32_t)value[0];
        pending->data[1][lane] = (uint32_t)(value[0] >> 32);
    }
}

/* Flat operations count among those of LDS as well. */
static void mem_issue(isa_wave_t *wave, isa_pending_t *pending, bool is_store)
{
    bool is_flat = (pending->inst->op->arg & MEM_FLAT) != 0;
    isa_pending_t *token;

    pending->out_of_order = is_flat && !wave->gpu->arch->flat_in_order;
    if (is_flat) {
        token = isa_pending_create(wave, pending->inst);
        if (token != NULL) {
            token->out_of_order = pending->out_of_order;
            isa_issue(wave, ISA_LGKM, token);
        }
    }
    isa_issue(wave, (is_store && wave->gpu->arch->has_vs) ? ISA_VS : ISA_VM, pending);
}

static void mem_exec_load(isa_wave_t *wave, const isa_inst_t *inst)
{
    isa_pending_t *pending = isa_pending_create(wave, inst);

    if (pending == NULL) {
        return;
    }
    pending->size = inst->op->width[0];
    pending->perform = perform_load;
    pending->flags = load_flags(wave, inst);
    pending->result = inst->operand[0];
    pending->keep_high = (inst->op->arg & MEM_KEEP_HIGH) != 0;
    mem_addresses(wave, inst, 1, pending);
    mem_issue(wave, pending, false);
}

static void mem_exec_store(isa_wave_t *wave, const isa_inst_t *inst)
{
    isa_pending_t *pending = isa_pending_create(wave, inst);

    if (pending == NULL) {
        return;
    }
    pending->size = inst->op->width[0];
    pending->perform = perform_store;
    pending->flags = is_system_scope(wave, inst) ? ISA_BYPASS_L2 : 0;
    mem_addresses(wave, inst, 0, pending);
    mem_data(wave, &inst->operand[1], pending);
    pending->at_once =
        (pending->flags != 0) ||
        ((wave->gpu->memory.is_uncached != NULL) && (pending->high > 0) &&
         wave->gpu->memory.is_uncached(wave->gpu->memory.arg, pending->low));
    mem_issue(wave, pending, true);
}

/* sc0 or glc requests the old value; then there is a result in front. */
static void mem_exec_atomic(isa_wave_t *wave, const isa_inst_t *inst)
{
    unsigned wanted = wave->gpu->arch->scopes_by_bit ? ISA_MOD_SC0 : ISA_MOD_GLC;
    bool has_result = (inst->modifiers & wanted) != 0;
    isa_pending_t *pending = isa_pending_create(wave, inst);

    if (pending == NULL) {
        return;
    }
    pending->size = inst->op->width[0];
    pending->perform = perform_atomic;
    pending->at_once = true;
    mem_addresses(wave, inst, has_result ? 1 : 0, pending);
    if (has_result) {
        pending->result = inst->operand[0];
    }
    pending->size *= (inst->op->arg & MEM_COMPARE) ? 2 : 1;
    mem_data(wave, &inst->operand[has_result ? 2 : 1], pending);
    pending->size = inst->op->width[0];
    mem_issue(wave, pending, !has_result);
}

static void perform_scalar_load(isa_wave_t *wave, isa_pending_t *pending)
{
    isa_load(wave, pending->address[0], pending->data[0], pending->size, ISA_BYPASS_L1);
}

/* Scalar loads read memory that does not change during a launch; the scalar cache is
 * not modelled. */
static void mem_exec_scalar(isa_wave_t *wave, const isa_inst_t *inst)
{
    isa_pending_t *pending = isa_pending_create(wave, inst);

    if (pending == NULL) {
        return;
    }
    pending->size = inst->op->width[0];
    pending->perform = perform_scalar_load;
    pending->out_of_order = true;
    pending->result = inst->operand[0];
    pending->address[0] =
        (isa_read_scalar(wave, &inst->operand[1], 2) +
         isa_read_scalar(wave, &inst->operand[2], 1) + (uint64_t)inst->offset) &
        ~UINT64_C(3);
    isa_issue(wave, ISA_LGKM, pending);
}

static uint64_t value_add(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return a + b;
}

static uint64_t value_or(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return a | b;
}

static uint64_t value_swap(uint64_t a, uint64_t b, uint64_t c)
{
    (void)a;
    (void)c;
    return b;
}

/* The new value comes first, then the one to compare with. */
static uint64_t value_cmpswap(uint64_t a, uint64_t b, uint64_t c)
{
    return (a == c) ? b : a;
}

#define MEM_ROW(_name, _exec, _size, _arg, _value)                                     \
    {.name = _name,                                                                    \
     .exec = _exec,                                                                    \
     .value = _value,                                                                  \
     .width = {_size},                                                                 \
     .modifiers = MEM_MODIFIERS,                                                       \
     .arg = _arg},
#define MEM_LOAD(_name, _size, _arg)                                                   \
    MEM_ROW("global_load_" _name, mem_exec_load, _size, _arg, NULL)                    \
    MEM_ROW("flat_load_" _name, mem_exec_load, _size, (_arg) | MEM_FLAT, NULL)
#define MEM_STORE(_name, _size)                                                        \
    MEM_ROW("global_store_" _name, mem_exec_store, _size, 0, NULL)                     \
    MEM_ROW("flat_store_" _name, mem_exec_store, _size, MEM_FLAT, NULL)
#define MEM_ATOMIC(_name, _size, _value, _arg)                                         \
    MEM_ROW("global_atomic_" _name, mem_exec_atomic, _size, _arg, _value)              \
    MEM_ROW("flat_atomic_" _name, mem_exec_atomic, _size, (_arg) | MEM_FLAT, _value)
#define MEM_SCALAR(_name, _size)                                                       \
    {.name = "s_load_" _name,                                                          \
     .exec = mem_exec_scalar,                                                          \
     .width = {_size},                                                                 \
     .modifiers = ISA_MOD_OFFSET},

const isa_op_t isa_mem_ops[] = {
    MEM_LOAD("ubyte", 1, 0) MEM_LOAD("sbyte", 1, MEM_SIGNED) MEM_LOAD("ushort", 2, 0)
        MEM_LOAD("sshort", 2, MEM_SIGNED) MEM_LOAD("dword", 4, 0) MEM_LOAD(
            "dwordx2", 8, 0) MEM_LOAD("dwordx3", 12, 0) MEM_LOAD("dwordx4", 16, 0)
            MEM_STORE("byte", 1) MEM_STORE("short", 2) MEM_STORE("dword", 4) MEM_STORE(
                "dwordx2", 8) MEM_STORE("dwordx3", 12) MEM_STORE("dwordx4", 16)
                MEM_ATOMIC("add", 4, value_add, 0) MEM_ATOMIC("add_x2", 8, value_add, 0)
                    MEM_ATOMIC("or", 4, value_or,
                               0) MEM_ATOMIC("swap", 4, value_swap,
                                             0) MEM_ATOMIC("swap_x2", 8, value_swap, 0)
                        MEM_ATOMIC("cmpswap", 4, value_cmpswap, MEM_COMPARE)
                            MEM_ATOMIC("cmpswap_x2", 8, value_cmpswap, MEM_COMPARE)
                                MEM_SCALAR("dword", 4) MEM_SCALAR("dwordx2", 8)
                                    MEM_SCALAR("dwordx4", 16) MEM_SCALAR("dwordx8", 32)
                                        MEM_SCALAR("dwordx16", 64)
    /* the same by gfx11's names */
    MEM_LOAD("u8", 1, 0) MEM_LOAD("i8", 1, MEM_SIGNED) MEM_LOAD("u16", 2, 0)
        MEM_LOAD("i16", 2, MEM_SIGNED) MEM_LOAD("d16_u8", 1, MEM_KEEP_HIGH) MEM_LOAD(
            "d16_b16", 2, MEM_KEEP_HIGH) MEM_LOAD("b32", 4, 0) MEM_LOAD("b64", 8, 0)
            MEM_LOAD("b96", 12, 0) MEM_LOAD("b128", 16, 0) MEM_STORE("b8", 1) MEM_STORE(
                "b16", 2) MEM_STORE("b32", 4) MEM_STORE("b64", 8) MEM_STORE("b96", 12)
                MEM_STORE("b128", 16) MEM_ATOMIC("add_u32", 4, value_add, 0)
                    MEM_ATOMIC("add_u64", 8, value_add, 0)
                        MEM_ATOMIC("or_b32", 4, value_or, 0)
                            MEM_ATOMIC("swap_b32", 4, value_swap, 0)
                                MEM_ATOMIC("cmpswap_b32", 4, value_cmpswap, MEM_COMPARE)
                                    MEM_SCALAR("b32", 4) MEM_SCALAR("b64", 8)
                                        MEM_SCALAR("b128", 16) MEM_SCALAR("b256", 32)
                                            MEM_SCALAR("b512", 64){.name = NULL},
};
