/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef ISA_CODE_H
#define ISA_CODE_H

/**
 * @file
 * A code object in memory, as AMD's loader leaves it: for tests of the bundle that the
 * module ships.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct isa_code {
    uint8_t *base; /**< Address 0 of the code object; may be changed */
    size_t size;
} isa_code_t;


/**
 * Load the code object of an architecture from a clang offload bundle.
 *
 * @return 0   Loaded; free it with isa_code_unload().
 * @return -1  The bundle has none for it, or is damaged.
 */
int isa_code_load(const void *bundle, const char *arch, isa_code_t *code);


void isa_code_unload(isa_code_t *code);


/** Address of a symbol such as "muct_xgmi_copy.kd"; NULL if there is none. */
void *isa_code_symbol(const isa_code_t *code, const char *name, size_t *size_p);

#endif
