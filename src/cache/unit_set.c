/* SPDX-License-Identifier: BSD-3-Clause */

#include "cache/unit_set.h"

#include <stdlib.h>
#include <string.h>

/* Bits [at, at + count) of a word */
static uint64_t mkv_unit_mask(unsigned at, unsigned count)
{
    return (UINT64_MAX >> (64 - count)) << at;
}

/* How many of the ids from this one on lie in its word */
static unsigned mkv_unit_in_word(uint64_t id, uint64_t end)
{
    unsigned room = 64 - (unsigned)(id % 64);

    return (end - id < room) ? (unsigned)(end - id) : room;
}

static uint64_t *mkv_unit_set_page(mkv_unit_set_t *set, uint64_t index)
{
    uint64_t **pages;

    if (index >= set->num_pages) {
        pages = realloc(set->pages, (index + 1) * sizeof(*pages));
        if (pages == NULL) {
            return NULL;
        }
        memset(pages + set->num_pages, 0,
               (index + 1 - set->num_pages) * sizeof(*pages));
        set->pages = pages;
        set->num_pages = index + 1;
    }
    if (set->pages[index] == NULL) {
        set->pages[index] = calloc(MKV_UNIT_PAGE_WORDS, sizeof(uint64_t));
    }
    return set->pages[index];
}

int mkv_unit_set_add(mkv_unit_set_t *set, uint32_t first, uint32_t count)
{
    uint64_t id = first, end = id + count;
    uint64_t *page;
    unsigned num;

    for (; id < end; id += num) {
        page = mkv_unit_set_page(set, id >> MKV_UNIT_PAGE_BITS);
        if (page == NULL) {
            return -1;
        }
        num = mkv_unit_in_word(id, end);
        page[(id / 64) % MKV_UNIT_PAGE_WORDS] |= mkv_unit_mask(id % 64, num);
    }
    return 0;
}

static uint64_t mkv_unit_set_word(const mkv_unit_set_t *set, uint64_t id)
{
    uint64_t index = id >> MKV_UNIT_PAGE_BITS;

    return ((index < set->num_pages) && (set->pages[index] != NULL))
               ? set->pages[index][(id / 64) % MKV_UNIT_PAGE_WORDS]
               : 0;
}

bool mkv_unit_set_find(const mkv_unit_set_t *set, uint32_t first, uint32_t count,
                       bool is_in, uint32_t *id_p)
{
    uint64_t id = first, end = id + count, word;
    unsigned num;

    for (; id < end; id += num) {
        num = mkv_unit_in_word(id, end);
        word = mkv_unit_set_word(set, id);
        word = (is_in ? word : ~word) & mkv_unit_mask(id % 64, num);
        if (word != 0) {
            *id_p = (uint32_t)(id - id % 64 + (unsigned)__builtin_ctzll(word));
            return true;
        }
    }
    return false;
}

void mkv_unit_set_cleanup(mkv_unit_set_t *set)
{
    uint64_t i;

    for (i = 0; i < set->num_pages; ++i) {
        free(set->pages[i]);
    }
    free(set->pages);
    set->pages = NULL;
    set->num_pages = 0;
}

/* Where a block is one part, as mostly, a load and the mixing are all */
uint64_t mkv_units_sum(const uint32_t *blocks, uint32_t num, uint32_t parts)
{
    uint64_t sum = 0;
    uint32_t i, k;

    if (parts == 1) {
        for (i = 0; i < num; ++i) {
            sum += mkv_unit_mix(blocks[i]);
        }
        return sum;
    }
    for (i = 0; i < num; ++i) {
        for (k = 0; k < parts; ++k) {
            sum += mkv_unit_mix(blocks[i] * parts + k);
        }
    }
    return sum;
}
