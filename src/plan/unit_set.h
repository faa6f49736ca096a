/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_UNIT_SET_H
#define MKV_UNIT_SET_H

/**
 * @file
 * A set of block ids: bits in pages that are made when an id of theirs is added, and an
 * index of the pages between the first and the last of them; one page has none. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MKV_UNIT_PAGE_BITS 10u
#define MKV_UNIT_PAGE_WORDS ((1u << MKV_UNIT_PAGE_BITS) / 64)

/** Zero is the empty set. */
typedef struct mkv_unit_set {
    union {
        uint64_t *page;   /**< The page of bits, if num_pages is 1 */
        uint64_t **pages; /**< Pages by number less first, if num_pages is larger; NULL:
                             no id of the page is in the set */
    };
    uint32_t first;     /**< Number of the first page: its ids >> MKV_UNIT_PAGE_BITS */
    uint32_t num_pages; /**< Pages from the first to the last, missing ones included */
} mkv_unit_set_t;

/** @return 0, or -1 without memory. */
int mkv_unit_set_add(mkv_unit_set_t *set, uint32_t first, uint32_t count);

/**
 * @param [in]  count  At least 1, and first + count at most 2^32.
 * @param [out] id_p   The first of the ids that is not (@a is_in) or is (!is_in) in the
 *                     set.
 *
 * @return Whether there is such an id.
 */
bool mkv_unit_set_find(const mkv_unit_set_t *set, uint32_t first, uint32_t count,
                       bool is_in, uint32_t *id_p);

void mkv_unit_set_cleanup(mkv_unit_set_t *set);

/** Summand of an order-independent sum that distinguishes sets of ids. */
static inline uint64_t mkv_unit_mix(uint32_t id)
{
    uint64_t h = ((uint64_t)id + 1) * 0x9e3779b97f4a7c15ull;

    return h ^ (h >> 32);
}

/** Sum of it over the parts of blocks. */
uint64_t mkv_units_sum(const uint32_t *blocks, uint32_t num, uint32_t parts);

#endif
