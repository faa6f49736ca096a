/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sorted by the peer's offset, because then pieces that adjoin on both sides are
 * neighbours, and pieces that overlap there are found by looking at neighbours. A slice
 * stays one entry; only where slices interlock are their pieces looked at one by one.
 */

#include "plan/byte_list.h"

#include <stdlib.h>

#define MKV_MAX_DIGIT_BITS 11u
#define MKV_MAX_DIGITS (1u << MKV_MAX_DIGIT_BITS)

/* ---- Sorting --------------------------------------------------------------------- */

typedef struct mkv_byte_key {
    uint64_t at;
    uint64_t value; /* caller's value for this position */
} mkv_byte_key_t;

static void mkv_byte_keys_pass(const mkv_byte_key_t *keys, size_t num, unsigned shift,
                               unsigned bits, mkv_byte_key_t *sorted)
{
    size_t starts[MKV_MAX_DIGITS] = {0};
    const uint64_t mask = (1u << bits) - 1;
    size_t sum = 0;
    size_t i, count;

    for (i = 0; i < num; ++i) {
        ++starts[(keys[i].at >> shift) & mask];
    }
    for (i = 0; i <= mask; ++i) {
        count = starts[i];
        starts[i] = sum;
        sum += count;
    }
    for (i = 0; i < num; ++i) {
        sorted[starts[(keys[i].at >> shift) & mask]++] = keys[i];
    }
}

/* Radix sort by the bits in which any two differ. @return The keys or the room behind
 * them. */
static mkv_byte_key_t *mkv_byte_keys_sort(mkv_byte_key_t *keys, size_t num)
{
    mkv_byte_key_t *spare = keys + num, *swap;
    unsigned shift, end, passes, bits;
    uint64_t differ = 0;
    size_t i;

    for (i = 1; i < num; ++i) {
        differ |= keys[i].at ^ keys[0].at;
    }
    if (differ == 0) {
        return keys;
    }
    shift = (unsigned)__builtin_ctzll(differ);
    end = 64 - (unsigned)__builtin_clzll(differ);
    passes = (end - shift + MKV_MAX_DIGIT_BITS - 1) / MKV_MAX_DIGIT_BITS;
    bits = (end - shift + passes - 1) / passes;
    for (; shift < end; shift += bits) {
        mkv_byte_keys_pass(keys, num, shift, bits, spare);
        swap = keys;
        keys = spare;
        spare = swap;
    }
    return keys;
}

/* ---- Checks of the entries ------------------------------------------------------- */

/* End of an entry's pieces on one side; 0: the range wraps past 2^64 */
static uint64_t mkv_byte_end(uint64_t offset, uint64_t length, uint64_t count,
                             uint64_t step)
{
    uint64_t end;

    return (__builtin_mul_overflow(count - 1, step, &end) ||
            __builtin_add_overflow(end, offset, &end) ||
            __builtin_add_overflow(end, length, &end))
               ? 0
               : end;
}

static mkv_status_t mkv_byte_fault(mkv_byte_fault_t *fault, size_t index,
                                   bool is_remote, uint64_t offset, uint64_t end,
                                   mkv_status_t status)
{
    *fault = (mkv_byte_fault_t){index, is_remote, offset, end};
    return status;
}

static mkv_status_t mkv_byte_check(const mkv_bytes_t *bytes, size_t i,
                                   uint64_t local_limit, uint64_t remote_limit,
                                   mkv_byte_fault_t *fault)
{
    uint64_t count = (bytes->count == NULL) ? 1 : bytes->count[i];
    uint64_t end;

    if ((bytes->length[i] == 0) || (count == 0) || (count > UINT32_MAX)) {
        return mkv_byte_fault(fault, i, 0, bytes->local[i], 0, MKV_ERR_INVALID);
    }
    end = mkv_byte_end(bytes->local[i], bytes->length[i], count,
                       (count > 1) ? bytes->local_stride[i] : 0);
    if ((end == 0) || (end > local_limit)) {
        return mkv_byte_fault(fault, i, 0, bytes->local[i], end, MKV_ERR_BOUNDS);
    }
    end = mkv_byte_end(bytes->remote[i], bytes->length[i], count,
                       (count > 1) ? bytes->remote_stride[i] : 0);
    if ((end == 0) || (end > remote_limit)) {
        return mkv_byte_fault(fault, i, 1, bytes->remote[i], end, MKV_ERR_BOUNDS);
    }
    return MKV_OK;
}

static bool mkv_byte_is_inside(uint64_t offset, uint64_t length, uint64_t limit)
{
    return (length - 1 < limit) && (offset <= limit - length);
}

/* The first entry that may be bad; most lists are of single pieces, and good */
static size_t mkv_bytes_find_suspect(const mkv_bytes_t *bytes, uint64_t local_limit,
                                     uint64_t remote_limit)
{
    size_t i = 0;

    while ((bytes->count == NULL) && (i < bytes->num) &&
           mkv_byte_is_inside(bytes->local[i], bytes->length[i], local_limit) &&
           mkv_byte_is_inside(bytes->remote[i], bytes->length[i], remote_limit)) {
        ++i;
    }
    return i;
}

static bool mkv_bytes_are_sorted(const mkv_bytes_t *bytes)
{
    size_t i;

    for (i = 1; i < bytes->num; ++i) {
        if (bytes->remote[i] < bytes->remote[i - 1]) {
            return false;
        }
    }
    return true;
}

/* ---- Merging --------------------------------------------------------------------- */

/* Append an entry, or let the last one grow */
static inline void mkv_byte_list_append(mkv_byte_list_t *list, mkv_byte_piece_t piece,
                                        mkv_byte_steps_t steps)
{
    mkv_byte_piece_t *last = (list->num > 0) ? &list->pieces[list->num - 1] : NULL;

    if ((steps.local == piece.length) && (steps.remote == piece.length)) {
        piece.length *= steps.count;
        steps.count = 1;
    }
    list->bytes += piece.length * steps.count;
    if ((last != NULL) && (steps.count == 1) &&
        (mkv_byte_list_count(list, list->num - 1) == 1) &&
        (last->local + last->length == piece.local) &&
        (last->remote + last->length == piece.remote)) {
        last->length += piece.length;
        return;
    }
    if (list->steps != NULL) {
        list->steps[list->num] = steps;
    }
    list->pieces[list->num++] = piece;
    list->num_pieces += steps.count;
}

static inline mkv_byte_piece_t mkv_bytes_piece(const mkv_bytes_t *bytes, size_t i)
{
    return (mkv_byte_piece_t){bytes->local[i], bytes->remote[i], bytes->length[i]};
}

static inline mkv_byte_steps_t mkv_bytes_steps(const mkv_bytes_t *bytes, size_t i)
{
    return (bytes->count == NULL)
               ? (mkv_byte_steps_t){.count = 1}
               : (mkv_byte_steps_t){bytes->local_stride[i], bytes->remote_stride[i],
                                    bytes->count[i]};
}

/* Keep members of an entry side by side: sorting reads entries in random order */
typedef struct mkv_byte_entry {
    mkv_byte_piece_t piece;
    mkv_byte_steps_t steps;
} mkv_byte_entry_t;

static void mkv_byte_list_fill_pieces(mkv_byte_list_t *list, const mkv_bytes_t *bytes,
                                      const mkv_byte_key_t *sorted,
                                      mkv_byte_piece_t *room)
{
    const mkv_byte_steps_t one = {.count = 1};
    size_t i;

    for (i = 0; i < bytes->num; ++i) {
        room[i] = mkv_bytes_piece(bytes, i);
    }
    for (i = 0; i < bytes->num; ++i) {
        mkv_byte_list_append(list, room[sorted[i].value], one);
    }
}

static void mkv_byte_list_fill_slices(mkv_byte_list_t *list, const mkv_bytes_t *bytes,
                                      const mkv_byte_key_t *sorted,
                                      mkv_byte_entry_t *room)
{
    size_t i;

    for (i = 0; i < bytes->num; ++i) {
        room[i] =
            (mkv_byte_entry_t){mkv_bytes_piece(bytes, i), mkv_bytes_steps(bytes, i)};
    }
    for (i = 0; i < bytes->num; ++i) {
        mkv_byte_list_append(list, room[sorted[i].value].piece,
                             room[sorted[i].value].steps);
    }
}

static mkv_status_t mkv_byte_list_fill_sorted(mkv_byte_list_t *list,
                                              const mkv_bytes_t *bytes)
{
    size_t size =
        (list->steps == NULL) ? sizeof(mkv_byte_piece_t) : sizeof(mkv_byte_entry_t);
    mkv_byte_key_t *keys = malloc(2 * bytes->num * sizeof(*keys));
    void *room = malloc(bytes->num * size);
    mkv_status_t status = MKV_ERR_NOMEM;
    const mkv_byte_key_t *sorted;
    size_t i;

    if ((keys != NULL) && (room != NULL)) {
        for (i = 0; i < bytes->num; ++i) {
            keys[i] = (mkv_byte_key_t){bytes->remote[i], i};
        }
        sorted = mkv_byte_keys_sort(keys, bytes->num);
        if (list->steps == NULL) {
            mkv_byte_list_fill_pieces(list, bytes, sorted, room);
        } else {
            mkv_byte_list_fill_slices(list, bytes, sorted, room);
        }
        status = MKV_OK;
    }
    free(room);
    free(keys);
    return status;
}

static mkv_status_t mkv_byte_list_fill(mkv_byte_list_t *list, const mkv_bytes_t *bytes)
{
    size_t i;

    if (!mkv_bytes_are_sorted(bytes)) {
        return mkv_byte_list_fill_sorted(list, bytes);
    }
    for (i = 0; i < bytes->num; ++i) {
        mkv_byte_list_append(list, mkv_bytes_piece(bytes, i),
                             mkv_bytes_steps(bytes, i));
    }
    return MKV_OK;
}

/* ---- Overlap --------------------------------------------------------------------- */

static void mkv_byte_list_note(mkv_byte_list_t *list, uint64_t offset)
{
    if (!list->has_overlap) {
        list->has_overlap = true;
        list->overlap = offset;
    }
}

/* Expand slices into single pieces in the order of the peer's memory */
static mkv_status_t mkv_byte_list_expand(mkv_byte_list_t *list)
{
    mkv_byte_key_t *keys = malloc(2 * list->num_pieces * sizeof(*keys)), *sorted;
    uint64_t num = 0, i, j;

    if (keys == NULL) {
        return MKV_ERR_NOMEM;
    }
    for (i = 0; i < list->num; ++i) {
        for (j = 0; j < mkv_byte_list_count(list, i); ++j) {
            keys[num].at = list->pieces[i].remote + j * list->steps[i].remote;
            keys[num++].value = list->pieces[i].length;
        }
    }
    sorted = mkv_byte_keys_sort(keys, num);
    for (i = 1; i < num; ++i) {
        if (sorted[i - 1].at + sorted[i - 1].value > sorted[i].at) {
            mkv_byte_list_note(list, sorted[i].at);
        }
    }
    free(keys);
    return MKV_OK;
}

static mkv_status_t mkv_byte_list_find_overlap(mkv_byte_list_t *list)
{
    uint64_t end = 0;
    size_t i;

    for (i = 0; i < list->num; ++i) {
        if (list->pieces[i].remote < end) {
            if (list->steps != NULL) {
                return mkv_byte_list_expand(list); /* slices may interlock */
            }
            mkv_byte_list_note(list, list->pieces[i].remote);
        }
        end = list->pieces[i].remote + list->pieces[i].length;
        if (mkv_byte_list_count(list, i) > 1) {
            if (list->steps[i].remote < list->pieces[i].length) {
                mkv_byte_list_note(list,
                                   list->pieces[i].remote + list->steps[i].remote);
            }
            end += (list->steps[i].count - 1) * list->steps[i].remote;
        }
    }
    return MKV_OK;
}

/* ---- Life ------------------------------------------------------------------------ */

void mkv_byte_list_cleanup(mkv_byte_list_t *list)
{
    free(list->pieces);
    free(list->steps);
    list->pieces = NULL;
    list->steps = NULL;
}

/* Return the memory that merging freed; a failed shrink keeps the larger block */
static void mkv_byte_list_shrink(mkv_byte_list_t *list)
{
    void *pieces = realloc(list->pieces, list->num * sizeof(*list->pieces));
    void *steps;

    list->pieces = (pieces != NULL) ? pieces : list->pieces;
    if (list->steps != NULL) {
        steps = realloc(list->steps, list->num * sizeof(*list->steps));
        list->steps = (steps != NULL) ? steps : list->steps;
    }
}

mkv_status_t mkv_byte_list_make(const mkv_bytes_t *bytes, uint64_t local_limit,
                                uint64_t remote_limit, mkv_byte_list_t *list,
                                mkv_byte_fault_t *fault)
{
    mkv_byte_list_t made = {0};
    mkv_status_t status = MKV_OK;
    size_t i = mkv_bytes_find_suspect(bytes, local_limit, remote_limit);

    for (; (status == MKV_OK) && (i < bytes->num); ++i) {
        status = mkv_byte_check(bytes, i, local_limit, remote_limit, fault);
    }
    if (status != MKV_OK) {
        return status;
    }
    if (bytes->num == 0) {
        *list = made;
        return MKV_OK;
    }

    made.pieces = malloc(bytes->num * sizeof(*made.pieces));
    made.steps =
        (bytes->count == NULL) ? NULL : malloc(bytes->num * sizeof(*made.steps));
    if ((made.pieces == NULL) || ((bytes->count != NULL) && (made.steps == NULL))) {
        status = MKV_ERR_NOMEM;
    }
    if (status == MKV_OK) {
        status = mkv_byte_list_fill(&made, bytes);
    }
    if (status == MKV_OK) {
        mkv_byte_list_shrink(&made);
        status = mkv_byte_list_find_overlap(&made);
    }
    if (status != MKV_OK) {
        mkv_byte_list_cleanup(&made);
        return status;
    }
    *list = made;
    return MKV_OK;
}
