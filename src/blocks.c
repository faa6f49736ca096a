/* SPDX-License-Identifier: BSD-3-Clause */

#include "blocks.h"

#include <stdlib.h>

typedef struct mkv_block_pair {
    uint32_t local, remote;
    uint32_t pos; /* keeps the sort stable */
} mkv_block_pair_t;

static int mkv_block_pair_compare(const void *a, const void *b)
{
    const mkv_block_pair_t *pa = a;
    const mkv_block_pair_t *pb = b;

    if (pa->local != pb->local) {
        return (pa->local < pb->local) ? -1 : 1;
    }
    return (pa->pos < pb->pos) ? -1 : (pa->pos > pb->pos);
}

static int mkv_blocks_are_sorted(const uint32_t *blocks, size_t num)
{
    size_t i;

    for (i = 1; i < num; ++i) {
        if (blocks[i] < blocks[i - 1]) {
            return 0;
        }
    }
    return 1;
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

mkv_status_t mkv_runs_merge(const uint32_t *local, const uint32_t *remote, size_t num,
                            uint32_t flags, mkv_run_t *runs, size_t *num_p)
{
    mkv_block_pair_t *pairs;
    size_t num_runs = 0;
    size_t i;

    if ((flags & MKV_PLAN_KEEP_ORDER) || mkv_blocks_are_sorted(local, num)) {
        *num_p = mkv_runs_merge_ordered(local, remote, num, runs);
        return MKV_OK;
    }

    pairs = malloc(num * sizeof(*pairs));
    if (pairs == NULL) {
        return MKV_ERR_NOMEM;
    }

    for (i = 0; i < num; ++i) {
        pairs[i].local = local[i];
        pairs[i].remote = remote[i];
        pairs[i].pos = (uint32_t)i;
    }
    qsort(pairs, num, sizeof(*pairs), mkv_block_pair_compare);
    for (i = 0; i < num; ++i) {
        num_runs = mkv_runs_append(runs, num_runs, pairs[i].local, pairs[i].remote,
                                   (uint32_t)i);
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
