/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Branches, barriers, waits and cache control (AMD Instinct MI300 ISA, chapter 4 and
 * 16.5; AMDGPUUsage for the meaning of cache instructions).
 */

#include "isa_impl.h"


typedef enum flow_condition {
    FLOW_ALWAYS,
    FLOW_SCC0,
    FLOW_SCC1,
    FLOW_VCCZ,
    FLOW_VCCNZ,
    FLOW_EXECZ,
    FLOW_EXECNZ,
} flow_condition_t;

static bool flow_holds(isa_wave_t *wave, flow_condition_t condition)
{
    const isa_operand_t vcc = {.kind = ISA_SCALAR, .index = ISA_VCC};

    switch (condition) {
    case FLOW_SCC0:
        return wave->scc == 0;
    case FLOW_SCC1:
        return wave->scc != 0;
    case FLOW_VCCZ:
        return isa_read_mask(wave, &vcc) == 0;
    case FLOW_VCCNZ:
        return isa_read_mask(wave, &vcc) != 0;
    case FLOW_EXECZ:
        return isa_exec_mask(wave) == 0;
    case FLOW_EXECNZ:
        return isa_exec_mask(wave) != 0;
    default:
        return true;
    }
}

/* The offset is in words and begins at the next instruction. */
static void flow_exec_branch(isa_wave_t *wave, const isa_inst_t *inst)
{
    if (flow_holds(wave, (flow_condition_t)inst->op->arg)) {
        wave->pc += (uint64_t)((int64_t)(int16_t)inst->operand[0].value * 4);
    }
}

static void flow_exec_end(isa_wave_t *wave, const isa_inst_t *inst)
{
    (void)inst;
    wave->state = ISA_ENDED;
    ++wave->group->num_ended;
}

static void flow_exec_barrier(isa_wave_t *wave, const isa_inst_t *inst)
{
    (void)inst;
    wave->state = ISA_AT_BARRIER;
    ++wave->group->num_at_barrier;
}

static void flow_exec_wait(isa_wave_t *wave, const isa_inst_t *inst)
{
    isa_wait(wave, inst->waits);
}

static void flow_exec_wait_vs(isa_wave_t *wave, const isa_inst_t *inst)
{
    unsigned counts[ISA_NUM_COUNTERS] = {ISA_NO_WAIT, ISA_NO_WAIT, ISA_NO_WAIT,
                                         ISA_NO_WAIT};

    counts[ISA_VS] = (unsigned)inst->operand[1].value;
    isa_wait(wave, counts);
}

static void flow_exec_nothing(isa_wave_t *wave, const isa_inst_t *inst)
{
    (void)wave;
    (void)inst;
}

static void perform_write_back(isa_wave_t *wave, isa_pending_t *pending)
{
    isa_write_lines(wave->gpu, pending->lines);
}

/*
 * Begin to write back the present contents of this die's L2. They include earlier
 * stores of the same wave, which are in front of it in the same queue; those of other
 * waves only if they have been waited for.
 */
static void flow_exec_wbl2(isa_wave_t *wave, const isa_inst_t *inst)
{
    unsigned system = ISA_MOD_SC0 | ISA_MOD_SC1;
    isa_pending_t *pending;

    if (wave->gpu->arch->scopes_by_bit && ((inst->modifiers & system) != system)) {
        isa_fail(wave->gpu, "'%s' is not implemented: system scope only", inst->text);
        return;
    }
    pending = isa_pending_create(wave, inst);
    if (pending == NULL) {
        return;
    }
    isa_perform_memory(wave);
    pending->perform = perform_write_back;
    pending->lines = isa_cache_take_dirty(&wave->gpu->l2[wave->group->die]);
    isa_issue(wave, ISA_VM, pending);
}

static void flow_exec_inv_l1(isa_wave_t *wave, const isa_inst_t *inst)
{
    (void)inst;
    isa_cache_invalidate(&wave->group->l1);
}

static void flow_exec_inv_l2(isa_wave_t *wave, const isa_inst_t *inst)
{
    (void)inst;
    isa_cache_invalidate(&wave->gpu->l2[wave->group->die]);
}

/* Bits of gfx942's instruction select its scope. */
static void flow_exec_inv(isa_wave_t *wave, const isa_inst_t *inst)
{
    flow_exec_inv_l1(wave, inst);
    if (inst->modifiers & ISA_MOD_SC1) {
        flow_exec_inv_l2(wave, inst);
    }
}

#define FLOW_BRANCH(_name, _condition)                                                 \
    {.name = _name, .exec = flow_exec_branch, .arg = _condition},
#define FLOW_HINT(_name)                                                               \
    {.name = _name, .exec = flow_exec_nothing, .modifiers = ISA_MOD_ANY},

const isa_op_t isa_flow_ops[] = {
    FLOW_BRANCH("s_branch", FLOW_ALWAYS) FLOW_BRANCH("s_cbranch_scc0", FLOW_SCC0)
        FLOW_BRANCH("s_cbranch_scc1", FLOW_SCC1) FLOW_BRANCH(
            "s_cbranch_vccz", FLOW_VCCZ) FLOW_BRANCH("s_cbranch_vccnz", FLOW_VCCNZ)
            FLOW_BRANCH("s_cbranch_execz", FLOW_EXECZ) FLOW_BRANCH(
                "s_cbranch_execnz", FLOW_EXECNZ) FLOW_HINT("s_nop") FLOW_HINT("s_sleep")
                FLOW_HINT("s_clause") FLOW_HINT("s_delay_alu") FLOW_HINT("s_setprio")
                    FLOW_HINT("s_set_inst_prefetch_distance"){.name = "s_endpgm",
                                                              .exec = flow_exec_end},
    {.name = "s_code_end", .exec = flow_exec_end},
    {.name = "s_barrier", .exec = flow_exec_barrier},
    {.name = "s_waitcnt", .exec = flow_exec_wait, .modifiers = ISA_MOD_WAITS},
    {.name = "s_waitcnt_vscnt", .exec = flow_exec_wait_vs},
    {.name = "buffer_wbl2",
     .exec = flow_exec_wbl2,
     .modifiers = ISA_MOD_SC0 | ISA_MOD_SC1},
    {.name = "buffer_inv",
     .exec = flow_exec_inv,
     .modifiers = ISA_MOD_SC0 | ISA_MOD_SC1},
    {.name = "buffer_invl2", .exec = flow_exec_inv_l2},
    {.name = "buffer_wbinvl1_vol", .exec = flow_exec_inv_l1},
    {.name = "buffer_gl0_inv", .exec = flow_exec_inv_l1},
    {.name = "buffer_gl1_inv", .exec = flow_exec_inv_l1},
    {.name = NULL},
};
