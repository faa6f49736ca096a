/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_TUNING_H
#define MKV_TUNING_H

/**
 * @file
 * Values that users cannot choose without reading the code, so they are no options.
 */

#include <stdint.h>

typedef struct mkv_tuning {
    /** Pieces in one scatter-gather call. UCX and the transport read the lists of a
     *  call several times: 8192 pieces stay in the second-level cache. */
    uint64_t sgl_max;
    /** READ_BY=auto: smallest post that a reader has the owner push, in pieces. */
    uint64_t push_min;
    /** STAGE_BELOW: bytes of a slot of staging, and pieces of the smallest list that is
     *  staged. */
    uint64_t stage_slot, stage_min;
    /** Percent of MAX_INFLIGHT_OPS and _BYTES that posts of normal and of low priority
     *  fill at most; the rest is left for higher priorities. */
    uint64_t normal_share, low_share;
    /** Block lists kept per peer for transfers that are not open yet, and as many
     *  aborts of such transfers. */
    uint64_t early_messages;
    /** Memory kept for the lists of later posts, in bytes. */
    uint64_t list_cache_max;
    /** How long a progress thread polls without sleeping after a call has ended while
     *  others are in flight, in us. */
    uint64_t progress_spin;
} mkv_tuning_t;

#define MKV_TUNING_DEFAULT                                                             \
    {.sgl_max = 8192,                                                                  \
     .push_min = 64,                                                                   \
     .stage_slot = 1u << 20,                                                           \
     .stage_min = 64,                                                                  \
     .normal_share = 100,                                                              \
     .low_share = 50,                                                                  \
     .early_messages = 4096,                                                           \
     .list_cache_max = 64u << 20,                                                      \
     .progress_spin = 10000}

/** Copied by mkv_open(). Written by unit tests only. */
extern mkv_tuning_t mkv_tuning;

#endif
