/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_BLOCKS_H
#define MKV_BLOCKS_H

/**
 * @file
 * Pure arithmetic on block lists: merging, bounds, ranges of positions.
 *
 * mkv_runs_merge() of morikv.h lives here too. Nothing here allocates except its sort.
 */

#include "morikv.h"

/** Like mkv_runs_merge() with MKV_PLAN_KEEP_ORDER: needs no memory, cannot fail. */
size_t mkv_runs_merge_ordered(const uint32_t *local, const uint32_t *remote, size_t num,
                              mkv_run_t *runs);

/**
 * Find the first block that is not below @a limit.
 *
 * @return Its position, or @a num if all are.
 */
size_t mkv_blocks_find_outside(const uint32_t *blocks, size_t num, uint64_t limit);

/**
 * First run that holds a position >= @a pos, in runs ordered by position.
 *
 * @return Its index, or @a num if there is none.
 */
size_t mkv_runs_find(const mkv_run_t *runs, size_t num, uint32_t pos);

/**
 * The part of a run inside the positions [pos_lo, pos_hi).
 *
 * @return Blocks in the part; 0 if there is none and *part is not set.
 */
uint32_t mkv_run_clip(const mkv_run_t *run, uint32_t pos_lo, uint32_t pos_hi,
                      mkv_run_t *part);

#endif
