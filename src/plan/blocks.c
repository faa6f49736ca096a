/* SPDX-License-Identifier: BSD-3-Clause */

#include "plan/blocks.h"

#include <stdbool.h>
#include <stdlib.h>

#define MKV_DIGIT_BITS 8
#define MKV_DIGITS (1u << MKV_DIGIT_BITS)

static bool mkv_blocks_are_sorted(const uint32_t *blocks, size_t num)
{
    size_t i;

    for (i = 1; i < num; ++i) {
        if (blocks[i] < blocks[i - 1]) {
            return false;
        }
    }
    return true;
}

/* Extend the last run or start one; 64 bits, because block 2^32 - 1 has no successor */
static inline size_t mkv_runs_append(mkv_run_t *runs, size_t num_runs, uint32_t local,
                                     uint32_t remote, uint32_t pos)
{
    mkv_run_t *last;

    if (num_runs > 0) {
        last = &runs[num_runs - 1];
        if (((uint64_t)last->local + last->count == local) &&
            ((uint64_t)last->remote + last->count == remote)) {
            ++last->count;
            return num_runs;
        }
    }

    last = &runs[num_runs];
    last->local = local;
    last->remote = remote;
    last->count = 1;
    last->pos = pos;
    return num_runs + 1;
}

size_t mkv_runs_merge_ordered(const uint32_t *local, const uint32_t *remote, size_t num,
                              mkv_run_t *runs)
{
    size_t num_runs = 0;
    size_t i;

    for (i = 0; i < num; ++i) {
        num_runs = mkv_runs_append(runs, num_runs, local[i], remote[i], (uint32_t)i);
    }
    return num_runs;
}

/* A pair of blocks in one word: words in order are local blocks in order */
static uint64_t mkv_pair_pack(uint32_t local, uint32_t remote)
{
    return ((uint64_t)local << 32) | remote;
}

/* Pass of a stable radix sort, by one digit */
static void mkv_pairs_pass(const uint64_t *pairs, size_t num, unsigned shift,
                           uint64_t *sorted)
{
    size_t starts[MKV_DIGITS] = {0};
    size_t sum = 0;
    size_t i, count;

    for (i = 0; i < num; ++i) {
        ++starts[(pairs[i] >> shift) % MKV_DIGITS];
    }
    for (i = 0; i < MKV_DIGITS; ++i) {
        count = starts[i];
        starts[i] = sum;
        sum += count;
    }
    for (i = 0; i < num; ++i) {
        sorted[starts[(pairs[i] >> shift) % MKV_DIGITS]++] = pairs[i];
    }
}

/**
 * Sort by the block here; equal blocks keep their order.
 *
 * @param [in] pairs  num pairs, with room for as many again behind them.
 * @param [in] used   Bits that any block here has set: no pass for the others.
 * @return Where the sorted pairs are.
 */
static const uint64_t *mkv_pairs_sort(uint64_t *pairs, size_t num, uint32_t used)
{
    uint64_t *spare = pairs + num;
    uint64_t *swap;
    unsigned shift;

    for (shift = 32; used != 0; shift += MKV_DIGIT_BITS, used >>= MKV_DIGIT_BITS) {
        if ((used % MKV_DIGITS) != 0) {
            mkv_pairs_pass(pairs, num, shift, spare);
            swap = pairs;
            pairs = spare;
            spare = swap;
        }
    }
    return pairs;
}

mkv_status_t mkv_runs_merge(const uint32_t *local, const uint32_t *remote, size_t num,
                            uint32_t flags, mkv_run_t *runs, size_t *num_p)
{
    size_t num_runs = 0;
    uint32_t used = 0;
    const uint64_t *sorted;
    uint64_t *pairs;
    size_t i;

    if ((flags & MKV_PLAN_KEEP_ORDER) || mkv_blocks_are_sorted(local, num)) {
        *num_p = mkv_runs_merge_ordered(local, remote, num, runs);
        return MKV_OK;
    }

    pairs = malloc(2 * num * sizeof(*pairs));
    if (pairs == NULL) {
        return MKV_ERR_NOMEM;
    }

    for (i = 0; i < num; ++i) {
        pairs[i] = mkv_pair_pack(local[i], remote[i]);
        used |= local[i];
    }
    sorted = mkv_pairs_sort(pairs, num, used);
    for (i = 0; i < num; ++i) {
        num_runs = mkv_runs_append(runs, num_runs, (uint32_t)(sorted[i] >> 32),
                                   (uint32_t)sorted[i], (uint32_t)i);
    }

    free(pairs);
    *num_p = num_runs;
    return MKV_OK;
}

size_t mkv_blocks_find_outside(const uint32_t *blocks, size_t num, uint64_t limit)
{
    size_t i;

    for (i = 0; (i < num) && (blocks[i] < limit); ++i) {
    }
    return i;
}

size_t mkv_runs_find(const mkv_run_t *runs, size_t num, uint32_t pos)
{
    size_t lo = 0;
    size_t hi = num;
    size_t mid;

    while (lo < hi) {
        mid = lo + (hi - lo) / 2;
        if ((uint64_t)runs[mid].pos + runs[mid].count <= pos) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

uint32_t mkv_run_clip(const mkv_run_t *run, uint32_t pos_lo, uint32_t pos_hi,
                      mkv_run_t *part)
{
    uint64_t lo = (run->pos > pos_lo) ? run->pos : pos_lo;
    uint64_t hi = (uint64_t)run->pos + run->count;

    hi = (hi < pos_hi) ? hi : pos_hi;
    if (lo >= hi) {
        return 0;
    }

    part->local = run->local + (uint32_t)(lo - run->pos);
    part->remote = run->remote + (uint32_t)(lo - run->pos);
    part->count = (uint32_t)(hi - lo);
    part->pos = (uint32_t)lo;
    return part->count;
}
