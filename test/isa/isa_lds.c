/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * LDS, and exchange between lanes through its crossbar (AMD Instinct MI300 ISA, chapter
 * 11). An access outside the workgroup's part is an error here, where hardware reads 0.
 */

#include "isa_impl.h"

#include <string.h>


static uint8_t *lds_at(isa_wave_t *wave, uint64_t address, unsigned length)
{
    if (address + length <= wave->group->lds_size) {
        return wave->group->lds + address;
    }
    isa_fail(wave->gpu, "LDS fault: %u bytes at %lu of %u, by the instruction at 0x%lx",
             length, (unsigned long)address, wave->group->lds_size,
             (unsigned long)wave->pc);
    return NULL;
}

static void perform_read(isa_wave_t *wave, isa_pending_t *pending)
{
    uint32_t words[ISA_MAX_DWORDS] = {0};
    const uint8_t *from;
    unsigned lane, i;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if (((pending->exec >> lane) & 1) == 0) {
            continue;
        }
        from = lds_at(wave, pending->address[lane], pending->size);
        if (from == NULL) {
            return;
        }
        memcpy(words, from, pending->size);
        for (i = 0; i < ISA_MAX_DWORDS; ++i) {
            pending->data[i][lane] = words[i];
        }
    }
}

static void perform_write(isa_wave_t *wave, isa_pending_t *pending)
{
    uint32_t words[ISA_MAX_DWORDS];
    unsigned lane, i;
    uint8_t *to;

    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        if (((pending->exec >> lane) & 1) == 0) {
            continue;
        }
        to = lds_at(wave, pending->address[lane], pending->size);
        if (to == NULL) {
            return;
        }
        for (i = 0; i < ISA_MAX_DWORDS; ++i) {
            words[i] = pending->data[i][lane];
        }
        memcpy(to, words, pending->size);
    }
}

static void lds_exec(isa_wave_t *wave, const isa_inst_t *inst)
{
    isa_pending_t *pending = isa_pending_create(wave, inst);
    bool is_write = (inst->op->arg != 0);
    isa_operand_t data;
    unsigned lane, i;

    if (pending == NULL) {
        return;
    }
    pending->size = inst->op->width[0];
    pending->perform = is_write ? perform_write : perform_read;
    if (!is_write) {
        pending->result = inst->operand[0];
    }
    data = inst->operand[1];
    for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
        pending->address[lane] =
            (uint32_t)(isa_read_lane(wave, &inst->operand[is_write ? 0 : 1], 1, lane) +
                       (uint64_t)inst->offset);
    }
    for (i = 0; is_write && (i < (pending->size + 3) / 4); ++i, ++data.index) {
        for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
            pending->data[i][lane] = (uint32_t)isa_read_lane(wave, &data, 1, lane);
        }
    }
    isa_issue(wave, ISA_LGKM, pending);
}

/* Each lane takes the value of the lane at its address / 4; 0 of one that is off. */
static void lds_exec_bpermute(isa_wave_t *wave, const isa_inst_t *inst)
{
    isa_pending_t *pending = isa_pending_create(wave, inst);
    unsigned lanes = wave->gpu->arch->lanes;
    unsigned lane, from;

    if (pending == NULL) {
        return;
    }
    pending->result = inst->operand[0];
    for (lane = 0; lane < lanes; ++lane) {
        from = (unsigned)((isa_read_lane(wave, &inst->operand[1], 1, lane) +
                           (uint64_t)inst->offset) /
                          4 % lanes);
        if ((pending->exec >> from) & 1) {
            pending->data[0][lane] =
                (uint32_t)isa_read_lane(wave, &inst->operand[2], 1, from);
        }
    }
    isa_issue(wave, ISA_LGKM, pending);
}

#define LDS_ROW(_name, _size, _is_write)                                               \
    {.name = _name,                                                                    \
     .exec = lds_exec,                                                                 \
     .width = {_size},                                                                 \
     .modifiers = ISA_MOD_OFFSET,                                                      \
     .arg = _is_write},

const isa_op_t isa_lds_ops[] = {
    LDS_ROW("ds_read_b32", 4, 0) LDS_ROW("ds_read_b64", 8, 0)
        LDS_ROW("ds_read_b96", 12, 0) LDS_ROW("ds_read_b128", 16, 0)
            LDS_ROW("ds_write_b32", 4, 1) LDS_ROW("ds_write_b64", 8, 1)
                LDS_ROW("ds_write_b96", 12, 1) LDS_ROW("ds_write_b128", 16, 1)
    /* the same by gfx11's names */
    LDS_ROW("ds_load_b32", 4, 0) LDS_ROW("ds_load_b64", 8, 0)
        LDS_ROW("ds_load_b96", 12, 0) LDS_ROW("ds_load_b128", 16, 0)
            LDS_ROW("ds_store_b32", 4, 1) LDS_ROW("ds_store_b64", 8, 1)
                LDS_ROW("ds_store_b96", 12, 1)
                    LDS_ROW("ds_store_b128", 16, 1){.name = "ds_bpermute_b32",
                                                    .exec = lds_exec_bpermute,
                                                    .modifiers = ISA_MOD_OFFSET},
    {.name = NULL},
};
