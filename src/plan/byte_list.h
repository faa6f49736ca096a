/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_BYTE_LIST_H
#define MKV_BYTE_LIST_H

/**
 * @file
 * Pieces of memory by their offsets in two regions: in the order of the peer's memory,
 * neighbours merged. Pure.
 */

#include "morikv.h"

#include <stdbool.h>

/** Single piece, or the first piece of a slice. */
typedef struct mkv_byte_piece {
    uint64_t local, remote; /**< Offsets */
    uint64_t length;
} mkv_byte_piece_t;

/** Repetition of a piece: the second to last pieces of a slice. */
typedef struct mkv_byte_steps {
    uint64_t local, remote; /**< Bytes from piece to piece */
    uint64_t count;         /**< Pieces, at least 1 */
} mkv_byte_steps_t;

typedef struct mkv_byte_list {
    mkv_byte_piece_t *pieces;
    mkv_byte_steps_t *steps; /**< Parallel to pieces; NULL: one piece each */
    size_t num;
    uint64_t num_pieces, bytes;
    bool has_overlap; /**< Two pieces contain the same byte of the peer */
    uint64_t overlap; /**< Offset of that byte */
} mkv_byte_list_t;

/** Fault that mkv_byte_list_make() found in an entry. */
typedef struct mkv_byte_fault {
    size_t index;
    bool is_remote;
    uint64_t offset, end; /**< Range of all its pieces; end 0: beyond 2^64 */
} mkv_byte_fault_t;

/**
 * Make a list of the given pieces: checked, sorted and merged.
 *
 * @param [in]  local_limit  Bytes of the region here; remote_limit: at the peer.
 * @param [out] list         Release with mkv_byte_list_cleanup(); set only on MKV_OK.
 * @param [out] fault        Set on the errors below but MKV_ERR_NOMEM.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_INVALID: a length or a count is 0, a count
 *         beyond 2^32 - 1, MKV_ERR_BOUNDS: a piece is not inside its region.
 */
mkv_status_t mkv_byte_list_make(const mkv_bytes_t *bytes, uint64_t local_limit,
                                uint64_t remote_limit, mkv_byte_list_t *list,
                                mkv_byte_fault_t *fault);

void mkv_byte_list_cleanup(mkv_byte_list_t *list);

/** Pieces of an entry. */
static inline uint64_t mkv_byte_list_count(const mkv_byte_list_t *list, size_t index)
{
    return (list->steps == NULL) ? 1 : list->steps[index].count;
}

#endif
