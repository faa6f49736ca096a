/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_RANKS_H
#define MKV_RANKS_H

/**
 * @file
 * The ranks of a source and of a destination, each with a cache that is cut out of the
 * same tensors, and one transfer between them; in one process or in two.
 *
 * The contents of a rank are computed element by element here, which checks the
 * library's arithmetic. Needs morikv.h only.
 */

#include <morikv.h>

#include <stdbool.h>

#define RANKS_MAX 16u
#define RANKS_LAYERS 2u
#define RANKS_BLOCKS 16u

enum { RANKS_SRC, RANKS_DST };

/** A component. */
typedef struct ranks_part {
    uint16_t flags;         /**< MKV_REGION_*, of both sides */
    uint16_t side_flags[2]; /**< ... of one */
    uint32_t outer, inner;
    uint32_t num_groups, groups[MKV_MAX_GROUPS];
    uint32_t tokens[2];  /**< Tokens of a block; 0: state */
    uint32_t num_tokens; /**< Blocks of the request; state: 1 */
    uint32_t gap;        /**< Unused bytes between blocks */
} ranks_part_t;

typedef struct ranks_set ranks_set_t;

typedef struct ranks_rank {
    ranks_set_t *set;
    uint32_t rank;
    mkv_ctx_t *ctx;
    uint8_t *mem;
    size_t length;
    mkv_peer_t *peers[RANKS_MAX]; /**< Entries by rank of the other side */
    mkv_map_t *maps[RANKS_MAX];
    mkv_xfer_t *xfer;
    mkv_plan_t *plans[RANKS_MAX];
    bool is_done, is_quiet;
} ranks_rank_t;

/** GPU memory, by the calls of mkv_hip.h. */
typedef struct ranks_gpu {
    void *(*alloc)(size_t length);
    int (*free)(void *addr);
    int (*copy)(void *to, const void *from, size_t length);
} ranks_gpu_t;

/** All ranks of one side. */
struct ranks_set {
    const ranks_part_t *parts;
    uint32_t num_parts;
    int side;
    uint32_t num, num_others;
    mkv_mode_t mode;
    const ranks_gpu_t *gpu; /**< NULL: the caches are in host memory */
    uint32_t map_flags;     /**< Beside MKV_MAP_SRC or _DST */
    bool is_two_way;        /**< Maps have neither of them */
    ranks_rank_t ranks[RANKS_MAX];
};

/** Open all contexts with their caches; the destination's hold nothing of worth. */
void ranks_open(ranks_set_t *set);

/** Add every rank of the other side that a blob of ranks_blobs() describes. */
void ranks_connect(ranks_set_t *set, const void *blobs, size_t length);

/** Blobs of all ranks, for ranks_connect(). @return Their length */
size_t ranks_blobs(ranks_set_t *set, void *buffer, size_t size);

/** Progress all; @return whether anything happened. */
bool ranks_step(ranks_set_t *set);

bool ranks_are_connected(const ranks_set_t *set);

/** Make the maps, open the transfer; the passive side exposes its blocks. */
void ranks_start(ranks_set_t *set);

bool ranks_are_quiet(const ranks_set_t *set);

/**
 * Whether every byte of the side's caches is right: the request's bytes in its blocks,
 * and unchanged bytes elsewhere.
 *
 * @param [out] text  First wrong place.
 */
bool ranks_are_right(const ranks_set_t *set, char *text, size_t size);

/** Change a byte in the middle of the last rank's memory. */
void ranks_spoil(const ranks_set_t *set);

/** Check the maps: parts add up, and the number of sources is that of ranks with data.
 */
void ranks_check_maps(const ranks_set_t *set);

/** Bytes that all ranks' transfers have moved. */
uint64_t ranks_bytes(const ranks_set_t *set);

/** Bytes of the request in all ranks' caches, in whole blocks of the smaller size. */
uint64_t ranks_held_bytes(const ranks_set_t *set);

void ranks_close(ranks_set_t *set);

#endif
