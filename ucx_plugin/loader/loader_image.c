/* SPDX-License-Identifier: BSD-3-Clause */

/* The kinds of reference are those of x86-64 and aarch64. */

#include "config.h"

#include "loader/loader_image.h"

#include <string.h>

#if defined(__x86_64__)
#define MUCT_LOADER_R_DATA R_X86_64_64
#define MUCT_LOADER_R_GLOBAL R_X86_64_GLOB_DAT
#define MUCT_LOADER_R_FUNCTION R_X86_64_JUMP_SLOT
#elif defined(__aarch64__)
#define MUCT_LOADER_R_DATA R_AARCH64_ABS64
#define MUCT_LOADER_R_GLOBAL R_AARCH64_GLOB_DAT
#define MUCT_LOADER_R_FUNCTION R_AARCH64_JUMP_SLOT
#else
#error "loader_image.c knows the relocations of x86-64 and aarch64"
#endif

static const void *muct_loader_image_pointer(const muct_loader_image_t *image,
                                             const ElfW(Dyn) * entry)
{
    uintptr_t value = entry->d_un.d_ptr;

    /* glibc has added the base already, other libraries have not */
    return (const void *)((value < image->base) ? value + image->base : value);
}

void muct_loader_image_open(const struct link_map *map, muct_loader_image_t *image)
{
    const ElfW(Dyn) * dyn;
    size_t num_relative = 0;

    memset(image, 0, sizeof(*image));
    image->base = map->l_addr;
    for (dyn = map->l_ld; dyn->d_tag != DT_NULL; ++dyn) {
        if (dyn->d_tag == DT_SYMTAB) {
            image->symbols = muct_loader_image_pointer(image, dyn);
        } else if (dyn->d_tag == DT_STRTAB) {
            image->strings = muct_loader_image_pointer(image, dyn);
        } else if (dyn->d_tag == DT_RELA) {
            image->relas[0] = muct_loader_image_pointer(image, dyn);
        } else if (dyn->d_tag == DT_JMPREL) {
            image->relas[1] = muct_loader_image_pointer(image, dyn);
        } else if (dyn->d_tag == DT_RELASZ) {
            image->counts[0] = dyn->d_un.d_val / sizeof(ElfW(Rela));
        } else if (dyn->d_tag == DT_PLTRELSZ) {
            image->counts[1] = dyn->d_un.d_val / sizeof(ElfW(Rela));
        } else if (dyn->d_tag == DT_RELACOUNT) {
            num_relative = dyn->d_un.d_val;
        }
    }

    /* relative relocations come first and have no symbol */
    image->relas[0] += num_relative;
    image->counts[0] -= num_relative;
}

size_t muct_loader_image_count(const muct_loader_image_t *image)
{
    return image->counts[0] + image->counts[1];
}

static muct_loader_kind_t muct_loader_image_kind(unsigned long type)
{
    switch (type) {
    case MUCT_LOADER_R_DATA:
        return MUCT_LOADER_DATA;
    case MUCT_LOADER_R_GLOBAL:
        return MUCT_LOADER_GLOBAL;
    case MUCT_LOADER_R_FUNCTION:
        return MUCT_LOADER_FUNCTION;
    default:
        return MUCT_LOADER_UNKNOWN;
    }
}

muct_loader_ref_t muct_loader_image_ref(const muct_loader_image_t *image, size_t index)
{
    int table = index >= image->counts[0];
    const ElfW(Rela) *rela =
        &image->relas[table][table ? index - image->counts[0] : index];
    const ElfW(Sym) *symbol = &image->symbols[ELF64_R_SYM(rela->r_info)];
    muct_loader_ref_t ref;

    ref.name = &image->strings[symbol->st_name];
    ref.is_defined = symbol->st_shndx != SHN_UNDEF;
    ref.kind = muct_loader_image_kind(ELF64_R_TYPE(rela->r_info));
    ref.place = (uintptr_t *)(image->base + rela->r_offset);
    ref.addend = (ref.kind == MUCT_LOADER_DATA) ? (uintptr_t)rela->r_addend : 0;
    return ref;
}

const void *muct_loader_image_sees(const muct_loader_image_t *image, const char *name)
{
    muct_loader_ref_t ref;
    size_t i;

    for (i = 0; i < image->counts[0];
         ++i) { /* references to functions are not resolved yet */
        ref = muct_loader_image_ref(image, i);
        if (((ref.kind == MUCT_LOADER_DATA) || (ref.kind == MUCT_LOADER_GLOBAL)) &&
            !strcmp(ref.name, name)) {
            return (const void *)(*ref.place - ref.addend);
        }
    }

    return NULL;
}
