/* SPDX-License-Identifier: BSD-3-Clause */

#include "plan/unit_set.h"

#include <stdlib.h>
#include <string.h>

/* Bits [at, at + count) of a word */
static uint64_t mkv_unit_mask(unsigned at, unsigned count)
{
    return (UINT64_MAX >> (64 - count)) << at;
}

/* Number of ids of [id, end) in the same word as id */
static unsigned mkv_unit_in_word(uint64_t id, uint64_t end)
{
    unsigned room = 64 - (unsigned)(id % 64);

    return (end - id < room) ? (unsigned)(end - id) : room;
}

static uint64_t *mkv_unit_page_new(void)
{
    return calloc(MKV_UNIT_PAGE_WORDS, sizeof(uint64_t));
}

/* Extend the index to this page, at least to twice its size, so that the cost of all
 * extensions is linear in the number of ids for any order of them.
 * @return 0, or -1 without memory. */
static int mkv_unit_set_reach(mkv_unit_set_t *set, uint32_t number)
{
    uint32_t num = set->num_pages, first = set->first, end = first + num;
    uint64_t **pages;

    if (number < first) {
        first -= (first < num) ? first : num;
        first = (number < first) ? number : first;
    } else {
        end = (number < end + num) ? end + num : number + 1;
    }
    pages = calloc(end - first, sizeof(*pages));
    if (pages == NULL) {
        return -1;
    }
    if (num == 1) {
        pages[set->first - first] = set->page;
    } else {
        memcpy(pages + (set->first - first), set->pages, num * sizeof(*pages));
        free(set->pages);
    }
    set->pages = pages;
    set->first = first;
    set->num_pages = end - first;
    return 0;
}

static uint64_t *mkv_unit_set_page(mkv_unit_set_t *set, uint32_t number)
{
    uint64_t **page_p;

    if (set->num_pages == 0) {
        set->page = mkv_unit_page_new();
        set->first = number;
        set->num_pages = (set->page != NULL) ? 1 : 0;
        return set->page;
    }
    if ((number - set->first >= set->num_pages) &&
        (mkv_unit_set_reach(set, number) != 0)) {
        return NULL;
    }
    page_p = (set->num_pages == 1) ? &set->page : &set->pages[number - set->first];
    if (*page_p == NULL) {
        *page_p = mkv_unit_page_new();
    }
    return *page_p;
}

int mkv_unit_set_add(mkv_unit_set_t *set, uint32_t first, uint32_t count)
{
    uint64_t id = first, end = id + count;
    uint64_t *page;
    unsigned num;

    for (; id < end; id += num) {
        page = mkv_unit_set_page(set, (uint32_t)(id >> MKV_UNIT_PAGE_BITS));
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
    uint32_t index = (uint32_t)(id >> MKV_UNIT_PAGE_BITS) - set->first;
    const uint64_t *page;

    if (index >= set->num_pages) {
        return 0;
    }
    page = (set->num_pages == 1) ? set->page : set->pages[index];
    return (page != NULL) ? page[(id / 64) % MKV_UNIT_PAGE_WORDS] : 0;
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
    uint32_t i;

    for (i = 0; (set->num_pages > 1) && (i < set->num_pages); ++i) {
        free(set->pages[i]);
    }
    free((set->num_pages == 1) ? (void *)set->page : (void *)set->pages);
    *set = (mkv_unit_set_t){0};
}

/* Common case of one part per block: a load and the mixing */
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
