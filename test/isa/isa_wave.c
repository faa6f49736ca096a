/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Registers of a wave.
 */

#include "isa_impl.h"

#include <string.h>


uint64_t isa_exec_mask(const isa_wave_t *wave)
{
    uint64_t mask = wave->scalar[ISA_EXEC];

    if (wave->gpu->arch->lanes == 64) {
        mask |= (uint64_t)wave->scalar[ISA_EXEC + 1] << 32;
    }
    return mask;
}

/* Constants: integers are sign-extended already, a float has the width of its use. */
static uint64_t read_float(const isa_operand_t *operand, unsigned width)
{
    uint32_t bits;
    double value;
    float single;

    if (width == 2) {
        return operand->value;
    }
    memcpy(&value, &operand->value, sizeof(value));
    single = (float)value;
    memcpy(&bits, &single, sizeof(bits));
    return bits;
}

static uint64_t read_registers(const uint32_t *low, const uint32_t *high,
                               unsigned width)
{
    return (width == 2) ? (*low | ((uint64_t)*high << 32)) : *low;
}

static bool has_registers(isa_wave_t *wave, const isa_operand_t *operand,
                          unsigned width)
{
    unsigned limit =
        (operand->kind == ISA_VECTOR) ? wave->num_vectors : ISA_NUM_SCALARS;

    if (operand->index + width <= limit) {
        return true;
    }
    isa_fail(wave->gpu, "register %u of %u at 0x%lx", operand->index + width - 1, limit,
             (unsigned long)wave->pc);
    return false;
}

uint64_t isa_read_scalar(isa_wave_t *wave, const isa_operand_t *operand, unsigned width)
{
    switch (operand->kind) {
    case ISA_SCALAR:
        if (!has_registers(wave, operand, width)) {
            return 0;
        }
        return read_registers(&wave->scalar[operand->index],
                              &wave->scalar[operand->index + width - 1], width);
    case ISA_CONST:
        return (width == 1) ? (uint32_t)operand->value : operand->value;
    case ISA_FLOAT:
        return read_float(operand, width);
    case ISA_SCC:
        return wave->scc;
    case ISA_NULL:
        return 0;
    default:
        isa_fail(wave->gpu,
                 "a vector register where a scalar one is expected, at 0x%lx",
                 (unsigned long)wave->pc);
        return 0;
    }
}

void isa_write_scalar(isa_wave_t *wave, const isa_operand_t *operand, unsigned width,
                      uint64_t value)
{
    if (operand->kind == ISA_NULL) {
        return;
    }
    if (operand->kind != ISA_SCALAR) {
        isa_fail(wave->gpu, "no scalar register to write, at 0x%lx",
                 (unsigned long)wave->pc);
        return;
    }
    if (!has_registers(wave, operand, width)) {
        return;
    }
    wave->scalar[operand->index] = (uint32_t)value;
    if (width == 2) {
        wave->scalar[operand->index + 1] = (uint32_t)(value >> 32);
    }
}

uint64_t isa_read_lane(isa_wave_t *wave, const isa_operand_t *operand, unsigned width,
                       unsigned lane)
{
    uint64_t value;

    if (operand->kind != ISA_VECTOR) {
        value = isa_read_scalar(wave, operand, width);
    } else if (has_registers(wave, operand, width)) {
        value = read_registers(&wave->vector[operand->index][lane],
                               &wave->vector[operand->index + width - 1][lane], width);
    } else {
        value = 0;
    }
    return (operand->mask == UINT32_MAX) ? value
                                         : ((value >> operand->shift) & operand->mask);
}

void isa_write_lane(isa_wave_t *wave, const isa_operand_t *operand, unsigned width,
                    unsigned lane, uint64_t value)
{
    if (operand->kind != ISA_VECTOR) {
        isa_fail(wave->gpu, "no vector register to write, at 0x%lx",
                 (unsigned long)wave->pc);
        return;
    }
    if (!has_registers(wave, operand, width)) {
        return;
    }
    wave->vector[operand->index][lane] = (uint32_t)value;
    if (width == 2) {
        wave->vector[operand->index + 1][lane] = (uint32_t)(value >> 32);
    }
}

uint64_t isa_read_mask(isa_wave_t *wave, const isa_operand_t *operand)
{
    return isa_read_scalar(wave, operand, wave->gpu->arch->lanes / 32);
}

void isa_write_mask(isa_wave_t *wave, const isa_operand_t *operand, uint64_t value)
{
    isa_write_scalar(wave, operand, wave->gpu->arch->lanes / 32, value);
}
