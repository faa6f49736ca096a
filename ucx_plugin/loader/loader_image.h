/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOADER_IMAGE_H
#define MUCT_LOADER_IMAGE_H

/**
 * @file
 * The relocations of a loaded library: their symbols, their places, and the addresses
 * that the dynamic linker resolved.
 */

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A loaded library. Nothing to be freed; ends with the library. */
typedef struct muct_loader_image {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * relas[2]; /**< Data, functions */
    size_t counts[2];            /**< Entries in each */
} muct_loader_image_t;

/** Kind of a reference. */
typedef enum muct_loader_kind {
    MUCT_LOADER_DATA,   /**< Symbol plus addend; resolved when the library was loaded */
    MUCT_LOADER_GLOBAL, /**< Symbol; resolved when the library was loaded */
    MUCT_LOADER_FUNCTION, /**< Symbol; may be resolved with the first call */
    MUCT_LOADER_UNKNOWN   /**< Another kind */
} muct_loader_kind_t;

/** A reference of a library. */
typedef struct muct_loader_ref {
    const char *name; /**< Symbol; empty when there is none */
    bool is_defined;  /**< The library itself defines it */
    muct_loader_kind_t kind;
    uintptr_t *place; /**< Location of the reference */
    uintptr_t addend; /**< 0 unless MUCT_LOADER_DATA */
} muct_loader_ref_t;


/** Read the dynamic section of a loaded library. */
void muct_loader_image_open(const struct link_map *map, muct_loader_image_t *image);

/** @return Number of references, without most of those that name no symbol. */
size_t muct_loader_image_count(const muct_loader_image_t *image);

/** @return The reference of that index. */
muct_loader_ref_t muct_loader_image_ref(const muct_loader_image_t *image, size_t index);

/**
 * Address that a library uses for a name. This is not always the result of dlsym(3): a
 * program linked to the library may hold the library's variable in its own copy.
 *
 * @return The address its own references to @a name were resolved to; NULL when it has
 *         no resolved reference.
 */
const void *muct_loader_image_sees(const muct_loader_image_t *image, const char *name);

#endif
