/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Machine code to text, by AMD's code object manager, and to the internal form. An
 * instruction is decoded once and again when its bytes have changed.
 */

#include "isa_impl.h"

#include <amd_comgr/amd_comgr.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


static uint64_t decode_read(uint64_t from, char *to, uint64_t size, void *arg)
{
    (void)arg;
    memcpy(to, (const void *)(uintptr_t)from, size);
    return size;
}

static void decode_text(const char *text, void *arg)
{
    struct isa_gpu *gpu = arg;

    text += strspn(text, " \t");
    snprintf(gpu->decoding->text, sizeof(gpu->decoding->text), "%s", text);
}

static void decode_address(uint64_t address, void *arg)
{
    (void)address;
    (void)arg;
}

int isa_decoder_open(struct isa_gpu *gpu)
{
    amd_comgr_disassembly_info_t info;
    char name[64];

    snprintf(name, sizeof(name), "amdgcn-amd-amdhsa--%s", gpu->arch->name);
    if (amd_comgr_create_disassembly_info(name, decode_read, decode_text,
                                          decode_address,
                                          &info) != AMD_COMGR_STATUS_SUCCESS) {
        return -1;
    }
    gpu->decoder = info.handle;
    return 0;
}

void isa_decoder_close(struct isa_gpu *gpu)
{
    amd_comgr_disassembly_info_t info = {.handle = gpu->decoder};
    unsigned i;

    amd_comgr_destroy_disassembly_info(info);
    for (i = 0; i < ISA_PROGRAM_SIZE; ++i) {
        if (gpu->program[i] != NULL) {
            free(gpu->program[i]->dual);
            free(gpu->program[i]);
        }
    }
}

static bool decode_one(struct isa_gpu *gpu, isa_inst_t *inst, uint64_t address)
{
    amd_comgr_disassembly_info_t info = {.handle = gpu->decoder};

    free(inst->dual);
    memset(inst, 0, sizeof(*inst));
    inst->address = address;
    gpu->decoding = inst;
    if (amd_comgr_disassemble_instruction(info, address, gpu, &inst->size) !=
        AMD_COMGR_STATUS_SUCCESS) {
        isa_fail(gpu, "no instruction at 0x%lx: 0x%08x", (unsigned long)address,
                 *(const uint32_t *)(uintptr_t)address);
        return false;
    }
    if (inst->size > sizeof(inst->bytes)) {
        isa_fail(gpu, "'%s' has %lu bytes", inst->text, (unsigned long)inst->size);
        return false;
    }
    memcpy(inst->bytes, (const void *)(uintptr_t)address, inst->size);
    return isa_parse(gpu, inst);
}

const isa_inst_t *isa_decode(struct isa_gpu *gpu, uint64_t address)
{
    isa_inst_t **slot = &gpu->program[(address / 4) % ISA_PROGRAM_SIZE];
    isa_inst_t *inst = *slot;

    if ((inst != NULL) && (inst->address == address) &&
        (memcmp(inst->bytes, (const void *)(uintptr_t)address, inst->size) == 0)) {
        return inst;
    }
    if (inst == NULL) {
        inst = calloc(1, sizeof(*inst));
        if (inst == NULL) {
            isa_fail(gpu, "no memory for an instruction");
            return NULL;
        }
        *slot = inst;
    }
    if (!decode_one(gpu, inst, address)) {
        inst->address = 0;
        return NULL;
    }
    return inst;
}

const char *isa_gpu_text(isa_gpu_t *gpu, uint64_t address, uint64_t *size_p)
{
    amd_comgr_disassembly_info_t info = {.handle = gpu->decoder};

    gpu->shown.text[0] = '\0';
    gpu->decoding = &gpu->shown;
    *size_p = 4;
    amd_comgr_disassemble_instruction(info, address, gpu, size_p);
    return gpu->shown.text;
}

int isa_gpu_check_code(isa_gpu_t *gpu, uint64_t address, uint64_t length)
{
    uint64_t end = address + length;
    const isa_inst_t *inst;

    gpu->failed = false;
    while (address < end) {
        inst = isa_decode(gpu, address);
        if (inst == NULL) {
            return -1;
        }
        address += inst->size;
    }
    return 0;
}
