/* SPDX-License-Identifier: BSD-3-Clause */

#include "isa_code.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>


#define CODE_MAGIC "__CLANG_OFFLOAD_BUNDLE__"

/* Spare bytes after the end, which a disassembler may read as part of an instruction */
#define CODE_SPARE 64

/* The code object of an architecture: "hipv4-amdgcn-amd-amdhsa--gfx942" */
static const uint8_t *code_find(const uint8_t *bundle, const char *arch)
{
    uint64_t count, offset, length;
    const uint8_t *at;
    size_t suffix = strlen(arch);

    if (memcmp(bundle, CODE_MAGIC, strlen(CODE_MAGIC)) != 0) {
        return NULL;
    }
    at = bundle + strlen(CODE_MAGIC);
    memcpy(&count, at, sizeof(count));
    at += sizeof(count);
    while (count-- > 0) {
        memcpy(&offset, at, sizeof(offset));
        memcpy(&length, at + 16, sizeof(length));
        at += 24 + length;
        if ((length > suffix + 1) && (at[-1 - (long)suffix] == '-') &&
            (memcmp(at - suffix, arch, suffix) == 0)) {
            return bundle + offset;
        }
    }
    return NULL;
}

static const Elf64_Phdr *code_segment(const uint8_t *elf, unsigned number)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)elf;

    return (number < header->e_phnum)
               ? (const Elf64_Phdr *)(elf + header->e_phoff) + number
               : NULL;
}

int isa_code_load(const void *bundle, const char *arch, isa_code_t *code)
{
    const uint8_t *elf = code_find(bundle, arch);
    const Elf64_Phdr *segment;
    unsigned i;

    if ((elf == NULL) || (memcmp(elf, ELFMAG, SELFMAG) != 0)) {
        return -1;
    }
    code->size = 0;
    for (i = 0; (segment = code_segment(elf, i)) != NULL; ++i) {
        if ((segment->p_type == PT_LOAD) &&
            (segment->p_vaddr + segment->p_memsz > code->size)) {
            code->size = segment->p_vaddr + segment->p_memsz;
        }
    }
    code->size += CODE_SPARE;
    code->base = mmap(NULL, code->size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code->base == MAP_FAILED) {
        return -1;
    }
    for (i = 0; (segment = code_segment(elf, i)) != NULL; ++i) {
        if (segment->p_type == PT_LOAD) {
            memcpy(code->base + segment->p_vaddr, elf + segment->p_offset,
                   segment->p_filesz);
        }
    }
    return 0;
}

void isa_code_unload(isa_code_t *code)
{
    munmap(code->base, code->size);
}

static const Elf64_Dyn *code_dynamic(const isa_code_t *code, int64_t tag)
{
    const Elf64_Dyn *dyn;
    const Elf64_Phdr *segment;
    unsigned i;

    for (i = 0; (segment = code_segment(code->base, i)) != NULL; ++i) {
        if (segment->p_type != PT_DYNAMIC) {
            continue;
        }
        dyn = (const Elf64_Dyn *)(code->base + segment->p_vaddr);
        for (; dyn->d_tag != DT_NULL; ++dyn) {
            if (dyn->d_tag == tag) {
                return dyn;
            }
        }
    }
    return NULL;
}

void *isa_code_symbol(const isa_code_t *code, const char *name, size_t *size_p)
{
    const Elf64_Dyn *symtab = code_dynamic(code, DT_SYMTAB);
    const Elf64_Dyn *strtab = code_dynamic(code, DT_STRTAB);
    const Elf64_Dyn *hash = code_dynamic(code, DT_HASH);
    const Elf64_Sym *symbol;
    uint32_t count, i;

    if ((symtab == NULL) || (strtab == NULL) || (hash == NULL)) {
        return NULL;
    }
    count = ((const uint32_t *)(code->base + hash->d_un.d_ptr))[1];
    symbol = (const Elf64_Sym *)(code->base + symtab->d_un.d_ptr);
    for (i = 0; i < count; ++i) {
        if (strcmp((const char *)code->base + strtab->d_un.d_ptr + symbol[i].st_name,
                   name) == 0) {
            if (size_p != NULL) {
                *size_p = symbol[i].st_size;
            }
            return code->base + symbol[i].st_value;
        }
    }
    return NULL;
}
