/* SPDX-License-Identifier: BSD-3-Clause */

/* Puts and gets of lists: one pass from the user's arrays to the kernel's list. */

#include "xgmi/xgmi_sgl.h"

#include "base/muct_log.h"
#include "xgmi/xgmi_rma.h"

#include <stdlib.h>
#include <string.h>


/* Entries that are compared together. */
#define MUCT_XGMI_SGL_STRIDE 256

/* Number of pieces from which a run is searched for and added as one entry. */
#define MUCT_XGMI_SGL_MIN_RUN 3

/* Most entries that are added one by one before the next search for a run. It covers
 * many lists of UCP, which are short, so irregular lists cost one search per batch. */
#define MUCT_XGMI_SGL_MAX_SKIP 4096

/* Longest stride of a run: no multiple of it within a list wraps around. */
#define MUCT_XGMI_SGL_MAX_STRIDE (UINT64_C(1) << 40)

/* Bytes from which an unaligned piece is copied faster by itself, as vectors, than in a
 * run, byte by byte. */
#define MUCT_XGMI_SGL_MIN_RAGGED 64

/* A list as the user passed it. */
typedef struct muct_xgmi_sgl {
    void *const *buffers;
    const size_t *lengths;
    uct_mem_h const *memhs;
    const uint64_t *raddrs;
    uct_rkey_t const *rkeys;
    size_t count;
} muct_xgmi_sgl_t;

/*
 * Memory, key and length of the previous entry. An entry with the same memory and key
 * needs no lookup, and one with the same length a single bounds comparison.
 */
typedef struct muct_xgmi_sgl_last {
    const muct_xgmi_mem_t *mem;
    uct_rkey_t rkey;
    uint64_t local, remote; /* offsets to add to local and remote addresses */
    muct_xgmi_window_t window;
    uint64_t length;
    uint64_t num_tiles;    /* tiles of length aligned bytes; 0: length is not set */
    uint64_t max_distance; /* largest offset in the window at which length bytes fit */
} muct_xgmi_sgl_last_t;

/* The memory or the key differs from the previous entry's. */
static ucs_status_t muct_xgmi_sgl_switch_operands(muct_xgmi_sgl_last_t *last,
                                                  muct_xgmi_queue_t *queue,
                                                  muct_xgmi_mem_t *mem,
                                                  const muct_xgmi_rkey_t *rkey)
{
    const muct_xgmi_window_t *window;
    ucs_status_t status;

    status = muct_xgmi_queue_find(queue, rkey, &window);
    if (status != UCS_OK) {
        return status;
    }

    last->mem = mem;
    last->rkey = (uct_rkey_t)rkey;
    last->window = *window;
    last->num_tiles = 0;
    last->local = muct_xgmi_ep_use_local(queue, mem);
    last->remote = window->delta;
    queue->list.dst_end = UINT64_MAX; /* prevents a join with the next piece */
    return UCS_OK;
}

/*
 * Saves the memory, key and length of an entry, which later ones are likely to share.
 *
 * @return UCS_ERR_NO_ELEM  Its local memory is not on the queue's device.
 */
static UCS_F_ALWAYS_INLINE ucs_status_t
muct_xgmi_sgl_set_last(muct_xgmi_sgl_last_t *last, muct_xgmi_queue_t *queue,
                       const muct_xgmi_sgl_t *sgl, size_t i)
{
    muct_xgmi_mem_t *mem = sgl->memhs[i];
    const uint64_t length = sgl->lengths[i];
    ucs_status_t status;

    if ((mem == NULL) || (mem->device != queue->device)) {
        return UCS_ERR_NO_ELEM;
    }
    if ((mem != last->mem) || (sgl->rkeys[i] != last->rkey)) {
        status = muct_xgmi_sgl_switch_operands(last, queue, mem,
                                               (const muct_xgmi_rkey_t *)sgl->rkeys[i]);
        if (status != UCS_OK) {
            return status;
        }
    }
    if ((length > 0) && (length < queue->min_run) && (length <= last->window.length)) {
        last->length = length;
        last->num_tiles = muct_xgmi_tile_count(0, length);
        last->max_distance = last->window.length - length;
    }
    return UCS_OK;
}

/* Adds an entry with all checks: the first one, and any that is of other memory than
 * the previous one, empty, a long run, or the continuation of one. */
static UCS_F_NOINLINE ucs_status_t muct_xgmi_sgl_add_other(muct_xgmi_sgl_last_t *last,
                                                           muct_xgmi_queue_t *queue,
                                                           muct_xgmi_dir_t dir,
                                                           const muct_xgmi_sgl_t *sgl,
                                                           size_t i)
{
    const uint64_t length = sgl->lengths[i];
    const uint64_t raddr = sgl->raddrs[i];
    uint64_t local, remote;
    ucs_status_t status;

    status = muct_xgmi_sgl_set_last(last, queue, sgl, i);
    if (status != UCS_OK) {
        return status;
    }
    if (!muct_xgmi_window_has(&last->window, raddr, length)) {
        return muct_xgmi_ep_out_of_bounds((const muct_xgmi_rkey_t *)sgl->rkeys[i],
                                          raddr, length);
    }

    local = (uintptr_t)sgl->buffers[i] + last->local;
    remote = raddr + last->remote;
    if (dir == MUCT_XGMI_PUT) {
        muct_xgmi_queue_add(queue, remote, local, length);
    } else {
        muct_xgmi_queue_add(queue, local, remote, length);
    }
    return UCS_OK;
}

/* Whether all of the values are the same: the array is its own continuation. */
static UCS_F_ALWAYS_INLINE int muct_xgmi_sgl_is_one_value(const void *values,
                                                          size_t num)
{
    const uint64_t *value = values;

    return memcmp(value, value + 1, (num - 1) * sizeof(*value)) == 0;
}

/* Number of entries from i on that are of the same memory, compared a few at a time. */
static UCS_F_ALWAYS_INLINE size_t muct_xgmi_sgl_count_same(
    const muct_xgmi_sgl_t *sgl, const muct_xgmi_sgl_last_t *last, size_t i)
{
    size_t left = sgl->count - i;
    size_t num = (left < MUCT_XGMI_SGL_STRIDE) ? left : MUCT_XGMI_SGL_STRIDE;
    size_t k;

    _Static_assert((sizeof(*sgl->memhs) == 8) && (sizeof(*sgl->rkeys) == 8),
                   "arrays of values of 8 bytes");
    if ((num > 0) && (sgl->memhs[i] == last->mem) && (sgl->rkeys[i] == last->rkey) &&
        muct_xgmi_sgl_is_one_value(sgl->memhs + i, num) &&
        muct_xgmi_sgl_is_one_value(sgl->rkeys + i, num)) {
        return num;
    }

    for (k = 0; (k < num) && (sgl->memhs[i + k] == last->mem) &&
                (sgl->rkeys[i + k] == last->rkey);
         ++k) {
    }
    return k;
}

/*
 * Adds entries of the same memory, as long as each is a separate piece. Works on local
 * copies, which stay in registers, because writes to the list cannot change them.
 *
 * @return Number of entries added.
 */
static UCS_F_ALWAYS_INLINE size_t muct_xgmi_sgl_add_same(
    muct_xgmi_list_t *list, const muct_xgmi_dir_t dir, const muct_xgmi_sgl_t *sgl,
    size_t i, size_t num, const muct_xgmi_sgl_last_t *last, const uint64_t max_piece)
{
    void *const *const buffers = sgl->buffers + i;
    const size_t *const lengths = sgl->lengths + i;
    const uint64_t *const raddrs = sgl->raddrs + i;
    const muct_xgmi_sgl_last_t same = *last;
    muct_xgmi_entry_t *next = list->next;
    uint64_t num_tiles = list->num_tiles;
    uint64_t dst_end = list->dst_end;
    uint64_t length, local, remote, dst, src;
    size_t k;

    for (k = 0; k < num; ++k) {
        length = lengths[k];
        local = (uintptr_t)buffers[k] + same.local;
        remote = raddrs[k] + same.remote;
        dst = (dir == MUCT_XGMI_PUT) ? remote : local;
        src = (dir == MUCT_XGMI_PUT) ? local : remote;
        if (ucs_unlikely(dst == dst_end) &&
            (src == ((k > 0) ? next[k - 1].src + next[k - 1].length : list->src_end))) {
            break;
        }

        next[k].place = num_tiles;
        if (ucs_likely((length == same.length) &&
                       !(dst & (MUCT_XGMI_VECTOR_SIZE - 1)))) {
            if (ucs_unlikely((raddrs[k] - same.window.start) > same.max_distance)) {
                break;
            }
            num_tiles += same.num_tiles;
        } else {
            if (((length - 1) >= max_piece) || /* 0 - 1 is more than any piece */
                !muct_xgmi_window_has(&same.window, raddrs[k], length)) {
                break;
            }
            num_tiles += muct_xgmi_tile_count(dst, length);
        }

        next[k].dst = dst;
        next[k].src = src;
        next[k].length = length;
        dst_end = dst + length;
    }

    if (k > 0) {
        list->next = next + k;
        list->num_tiles = num_tiles;
        list->dst_end = dst_end;
        list->src_end = next[k - 1].src + next[k - 1].length;
    }
    return k;
}

/* Two values of an array, at any alignment. */
typedef uint64_t muct_xgmi_sgl_pair_t
    __attribute__((vector_size(16), aligned(8), may_alias));

static UCS_F_ALWAYS_INLINE muct_xgmi_sgl_pair_t muct_xgmi_sgl_pair(const void *array,
                                                                   size_t i)
{
    return *(const muct_xgmi_sgl_pair_t *)((const uint64_t *)array + i);
}

/* Expected values of four entries of a run. */
typedef struct muct_xgmi_sgl_four {
    muct_xgmi_sgl_pair_t locals, remotes;           /* addresses of the first two */
    muct_xgmi_sgl_pair_t next_locals, next_remotes; /* step to the next two entries */
    muct_xgmi_sgl_pair_t lengths;
} muct_xgmi_sgl_four_t;

/* The first four entries of the run that begins at i. */
static UCS_F_ALWAYS_INLINE muct_xgmi_sgl_four_t muct_xgmi_sgl_first_four(
    const muct_xgmi_sgl_t *sgl, size_t i, uint64_t local_stride, uint64_t remote_stride)
{
    const uint64_t local = (uintptr_t)sgl->buffers[i], remote = sgl->raddrs[i];

    return (muct_xgmi_sgl_four_t){
        .locals = {local, local + local_stride},
        .remotes = {remote, remote + remote_stride},
        .next_locals = {2 * local_stride, 2 * local_stride},
        .next_remotes = {2 * remote_stride, 2 * remote_stride},
        .lengths = {sgl->lengths[i], sgl->lengths[i]}};
}

/* Bits in which four entries from i on differ from these. Moves on to the next four. */
static UCS_F_ALWAYS_INLINE muct_xgmi_sgl_pair_t
muct_xgmi_sgl_differ(const muct_xgmi_sgl_t *sgl, size_t i, muct_xgmi_sgl_four_t *four)
{
    muct_xgmi_sgl_pair_t other;

    other = (muct_xgmi_sgl_pair(sgl->buffers, i) ^ four->locals) |
            (muct_xgmi_sgl_pair(sgl->raddrs, i) ^ four->remotes) |
            (muct_xgmi_sgl_pair(sgl->lengths, i) ^ four->lengths);
    four->locals += four->next_locals;
    four->remotes += four->next_remotes;
    other |= (muct_xgmi_sgl_pair(sgl->buffers, i + 2) ^ four->locals) |
             (muct_xgmi_sgl_pair(sgl->raddrs, i + 2) ^ four->remotes) |
             (muct_xgmi_sgl_pair(sgl->lengths, i + 2) ^ four->lengths);
    four->locals += four->next_locals;
    four->remotes += four->next_remotes;
    return other;
}

/* Entries from i on, of num, that continue the first two: none when these are of
 * different lengths. Four at a time, and the rest one by one. */
static UCS_F_ALWAYS_INLINE size_t muct_xgmi_sgl_count_run(const muct_xgmi_sgl_t *sgl,
                                                          size_t i, size_t num,
                                                          uint64_t local_stride,
                                                          uint64_t remote_stride)
{
    const uint64_t local = (uintptr_t)sgl->buffers[i], remote = sgl->raddrs[i];
    const uint64_t length = sgl->lengths[i];
    muct_xgmi_sgl_four_t four =
        muct_xgmi_sgl_first_four(sgl, i, local_stride, remote_stride);
    muct_xgmi_sgl_pair_t other;
    size_t k = 0;

    for (; k + 4 <= num; k += 4) {
        other = muct_xgmi_sgl_differ(sgl, i + k, &four);
        if ((other[0] | other[1]) != 0) {
            break;
        }
    }
    while ((k < num) && (sgl->lengths[i + k] == length) &&
           ((uintptr_t)sgl->buffers[i + k] == local + (k * local_stride)) &&
           (sgl->raddrs[i + k] == remote + (k * remote_stride))) {
        ++k;
    }
    return k;
}

static UCS_F_ALWAYS_INLINE int muct_xgmi_sgl_is_near(uint64_t stride)
{
    return (stride + MUCT_XGMI_SGL_MAX_STRIDE) < (2 * MUCT_XGMI_SGL_MAX_STRIDE);
}

/* Whether pieces at a short stride are in the window; the last piece is the
 * farthest. */
static UCS_F_ALWAYS_INLINE int muct_xgmi_sgl_window_has_run(
    const muct_xgmi_window_t *window, uint64_t raddr, uint64_t stride, size_t count,
    uint64_t length)
{
    return muct_xgmi_window_has(window, raddr, length) &&
           muct_xgmi_window_has(window, raddr + ((count - 1) * stride), length);
}

/* Whether this many entries from i on are contiguous. */
static UCS_F_ALWAYS_INLINE int muct_xgmi_sgl_is_run(const muct_xgmi_sgl_t *sgl,
                                                    size_t i, size_t count,
                                                    uint64_t local_stride,
                                                    uint64_t remote_stride)
{
    const uint64_t local = (uintptr_t)sgl->buffers[i], remote = sgl->raddrs[i];
    const uint64_t length = sgl->lengths[i];
    muct_xgmi_sgl_four_t four =
        muct_xgmi_sgl_first_four(sgl, i, local_stride, remote_stride);
    muct_xgmi_sgl_pair_t other = {0, 0};
    size_t k;

    for (k = 0; k + 4 <= count; k += 4) {
        other |= muct_xgmi_sgl_differ(sgl, i + k, &four);
    }
    for (; k < count; ++k) {
        other[0] |= (sgl->lengths[i + k] ^ length) |
                    ((uintptr_t)sgl->buffers[i + k] ^ (local + (k * local_stride))) |
                    (sgl->raddrs[i + k] ^ (remote + (k * remote_stride)));
    }
    return (other[0] | other[1]) == 0;
}

/*
 * Add a run with the layout of the previous run, which is the usual case, by one check
 * per entry.
 *
 * @return Number of entries in the run; 0: the layout differs.
 */
static UCS_F_ALWAYS_INLINE size_t muct_xgmi_sgl_add_alike(
    muct_xgmi_list_t *list, const muct_xgmi_dir_t dir, const muct_xgmi_sgl_t *sgl,
    size_t i, size_t num, const muct_xgmi_sgl_last_t *last)
{
    const muct_xgmi_alike_t *alike = &list->alike;
    const uint64_t local_stride =
        (dir == MUCT_XGMI_PUT) ? alike->src_stride : alike->dst_stride;
    const uint64_t remote_stride =
        (dir == MUCT_XGMI_PUT) ? alike->dst_stride : alike->src_stride;
    const size_t count = alike->count;
    uint64_t local, remote;

    if ((count == 0) || (count > num) || (sgl->lengths[i] != alike->piece) ||
        !muct_xgmi_sgl_is_run(sgl, i, count, local_stride, remote_stride)) {
        return 0;
    }

    local = (uintptr_t)sgl->buffers[i];
    remote = sgl->raddrs[i];
    if (((count < num) &&
         ((uintptr_t)sgl->buffers[i + count] == local + (count * local_stride)) &&
         (sgl->raddrs[i + count] == remote + (count * remote_stride))) ||
        !muct_xgmi_sgl_window_has_run(&last->window, remote, remote_stride, count,
                                      alike->piece)) {
        return 0;
    }

    local += last->local;
    remote += last->remote;
    return muct_xgmi_list_add_alike(list, (dir == MUCT_XGMI_PUT) ? remote : local,
                                    (dir == MUCT_XGMI_PUT) ? local : remote)
               ? count
               : 0;
}

/*
 * Adds a run of pieces at constant strides as one entry, if one begins at i.
 *
 * @return Number of entries in the run; 0: none was added.
 */
static UCS_F_ALWAYS_INLINE size_t muct_xgmi_sgl_add_run(
    muct_xgmi_list_t *list, const muct_xgmi_dir_t dir, const muct_xgmi_sgl_t *sgl,
    size_t i, size_t num, const muct_xgmi_sgl_last_t *last, const uint64_t max_piece)
{
    muct_xgmi_strided_t run;
    uint64_t local, remote, local_stride, remote_stride, length;
    size_t count;

    length = sgl->lengths[i];
    if ((num < MUCT_XGMI_SGL_MIN_RUN) || (length > MUCT_XGMI_TILE_SIZE / 2)) {
        return 0;
    }
    local = (uintptr_t)sgl->buffers[i];
    remote = sgl->raddrs[i];
    local_stride = (uintptr_t)sgl->buffers[i + 1] - local;
    remote_stride = sgl->raddrs[i + 1] - remote;
    if ((((uintptr_t)sgl->buffers[i + 2] - local) != (2 * local_stride)) ||
        ((sgl->raddrs[i + 2] - remote) != (2 * remote_stride)) ||
        ((length - 1) >= max_piece) || /* 0 - 1 is more than any piece */
        ((local_stride == length) && (remote_stride == length)) || /* to be joined */
        !muct_xgmi_sgl_is_near(local_stride) || !muct_xgmi_sgl_is_near(remote_stride) ||
        ((((local | remote | local_stride | remote_stride | length) % 4) != 0) &&
         (length >= MUCT_XGMI_SGL_MIN_RAGGED))) {
        return 0;
    }

    count = muct_xgmi_sgl_count_run(sgl, i, num, local_stride, remote_stride);
    if ((count < MUCT_XGMI_SGL_MIN_RUN) ||
        !muct_xgmi_sgl_window_has_run(&last->window, remote, remote_stride, count,
                                      length)) {
        return 0;
    }

    local += last->local;
    remote += last->remote;
    run.dst = (dir == MUCT_XGMI_PUT) ? remote : local;
    run.src = (dir == MUCT_XGMI_PUT) ? local : remote;
    run.dst_stride = (dir == MUCT_XGMI_PUT) ? remote_stride : local_stride;
    run.src_stride = (dir == MUCT_XGMI_PUT) ? local_stride : remote_stride;
    run.piece = (uint32_t)length;
    run.count = (uint32_t)count;
    return muct_xgmi_list_add_run(list, &run) ? count : 0;
}

/*
 * Adds entries of the same memory: runs where they begin, else single pieces, with a
 * search for a run after 1, 8, 64 of them and so on, counted over all lists.
 *
 * @return Number of entries added.
 */
static UCS_F_NOINLINE size_t muct_xgmi_sgl_add_known(
    muct_xgmi_queue_t *queue, const muct_xgmi_dir_t dir, const muct_xgmi_sgl_t *sgl,
    size_t i, size_t num, muct_xgmi_sgl_last_t *last, const uint64_t max_piece)
{
    size_t done = 0, part, wanted;

    while (done < num) {
        if (queue->skip == 0) {
            part = muct_xgmi_sgl_add_alike(&queue->list, dir, sgl, i + done, num - done,
                                           last);
            if (part == 0) {
                part = muct_xgmi_sgl_add_run(&queue->list, dir, sgl, i + done,
                                             num - done, last, max_piece);
            }
            if (part > 0) {
                queue->next_skip = 1;
                done += part;
                continue;
            }
            queue->skip = queue->next_skip;
            queue->next_skip = ucs_min(8 * queue->next_skip, MUCT_XGMI_SGL_MAX_SKIP);
        }
        wanted = ucs_min(queue->skip, num - done);
        part = muct_xgmi_sgl_add_same(&queue->list, dir, sgl, i + done, wanted, last,
                                      max_piece);
        queue->skip -= part;
        done += part;
        if (part < wanted) {
            break;
        }
    }
    return done;
}

/*
 * Add the first entries at once, when the previous list had runs.
 *
 * @return Number of added entries, all of the first entry's memory.
 */
static UCS_F_NOINLINE size_t muct_xgmi_sgl_add_first(muct_xgmi_sgl_last_t *last,
                                                     muct_xgmi_queue_t *queue,
                                                     const muct_xgmi_dir_t dir,
                                                     const muct_xgmi_sgl_t *sgl,
                                                     size_t i)
{
    if ((sgl->lengths[i] > MUCT_XGMI_TILE_SIZE / 2) || (queue->skip != 0) ||
        (queue->kernel == NULL) ||
        (muct_xgmi_sgl_set_last(last, queue, sgl, i) != UCS_OK) ||
        (last->num_tiles == 0)) {
        return 0;
    }
    return muct_xgmi_sgl_add_known(queue, dir, sgl, i,
                                   muct_xgmi_sgl_count_same(sgl, last, i), last,
                                   queue->min_run - 1);
}

/*
 * Adds the entries from *index_p on in one pass, as long as their local memory is on
 * the queue's device. After an error the caller rolls back.
 */
static UCS_F_ALWAYS_INLINE ucs_status_t muct_xgmi_sgl_add(muct_xgmi_queue_t *queue,
                                                          const muct_xgmi_dir_t dir,
                                                          const muct_xgmi_sgl_t *sgl,
                                                          size_t *index_p)
{
    muct_xgmi_sgl_last_t last = {.mem = NULL};
    ucs_status_t status = UCS_OK;
    size_t i = *index_p, known = 0; /* end of the entries with the last one's memory */
    size_t num;

    i += muct_xgmi_sgl_add_first(&last, queue, dir, sgl, i);
    while (i < sgl->count) {
        status = muct_xgmi_sgl_add_other(&last, queue, dir, sgl, i);
        if (status != UCS_OK) {
            break;
        }
        ++i;
        if (last.num_tiles == 0) {
            continue;
        }
        do {
            if (i >= known) {
                known = i + muct_xgmi_sgl_count_same(sgl, &last, i);
            }
            /* Pieces as long as these fill tiles by themselves. Without a kernel each
             * piece is a call, and the entries of a batch bound its calls. */
            num = ((last.length > MUCT_XGMI_TILE_SIZE / 2) || (queue->kernel == NULL))
                      ? muct_xgmi_sgl_add_same(&queue->list, dir, sgl, i, known - i,
                                               &last, queue->min_run - 1)
                      : muct_xgmi_sgl_add_known(queue, dir, sgl, i, known - i, &last,
                                                queue->min_run - 1);
            i += num;
        } while ((num > 0) && (i == known));
    }

    queue->last_local = NULL;
    *index_p = i;
    return (status == UCS_ERR_NO_ELEM) ? UCS_OK : status;
}

/* The queues that a list has changed, each with its state before the list. */
typedef struct muct_xgmi_sgl_queues {
    unsigned num;
    uint64_t seen; /* bit mask of the devices with a queue in touched */
    struct {
        muct_xgmi_queue_t *queue;
        muct_xgmi_mark_t mark;
    } touched[MUCT_XGMI_MAX_DEVICES];
} muct_xgmi_sgl_queues_t;

/* The entry's queue, with room for the whole list */
static ucs_status_t muct_xgmi_sgl_touch(muct_xgmi_sgl_queues_t *queues,
                                        muct_xgmi_iface_t *iface, muct_xgmi_dir_t dir,
                                        const muct_xgmi_sgl_t *sgl, size_t index,
                                        muct_xgmi_queue_t **queue_p)
{
    const muct_xgmi_mem_t *mem = sgl->memhs[index];
    ucs_status_t status;

    if (mem == NULL) {
        muct_error("local memory %p of list entry %zu was not registered",
                   sgl->buffers[index], index);
        return UCS_ERR_INVALID_PARAM;
    }

    status = muct_xgmi_iface_queue(iface, dir, mem->device, queue_p);
    if ((status != UCS_OK) || ((queues->seen >> mem->device) & 1)) {
        return status;
    }

    status = muct_xgmi_queue_reserve(*queue_p, sgl->count);
    if (status == UCS_OK) {
        queues->seen |= UINT64_C(1) << mem->device;
        queues->touched[queues->num].queue = *queue_p;
        muct_xgmi_queue_mark(*queue_p, &queues->touched[queues->num++].mark);
    }

    return status;
}

/* Post nothing of the list, and wait for its memory that is being opened. */
static UCS_F_NOINLINE ucs_status_t muct_xgmi_sgl_refuse(muct_xgmi_ep_t *ep,
                                                        const muct_xgmi_sgl_t *sgl,
                                                        ucs_status_t status)
{
    muct_xgmi_map_t *map =
        ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t)->md->map;

    if (status == UCS_INPROGRESS) {
        return muct_xgmi_ep_await(ep, 0, sgl->memhs, sgl->rkeys, sgl->count);
    }
    /* a list that has private memory keeps its mappings: it is posted again in parts */
    if ((status != UCS_ERR_NO_RESOURCE) && (status != UCS_ERR_NOT_IMPLEMENTED)) {
        muct_xgmi_ep_let_go(ep, map);
    }
    return muct_xgmi_ep_no_resource(ep, status);
}

/* Post a list with local memory of several devices to all of their queues, or to none.
 * This case is rare, so the code is simple. */
static UCS_F_NOINLINE ucs_status_t muct_xgmi_sgl_post_mixed(muct_xgmi_ep_t *ep,
                                                            muct_xgmi_iface_t *iface,
                                                            muct_xgmi_dir_t dir,
                                                            const muct_xgmi_sgl_t *sgl,
                                                            uct_completion_t *comp)
{
    muct_xgmi_sgl_queues_t queues;
    muct_xgmi_queue_t *queue;
    size_t index = 0;
    ucs_status_t status;
    unsigned t;

    queues.num = 0;
    queues.seen = 0;
    while (index < sgl->count) {
        status = muct_xgmi_sgl_touch(&queues, iface, dir, sgl, index, &queue);
        if (status == UCS_OK) {
            status = muct_xgmi_sgl_add(queue, dir, sgl, &index);
        }
        if (status != UCS_OK) {
            goto err_rollback;
        }
    }

    /* increase the count first: the user's completion ends with the last queue */
    if (comp != NULL) {
        comp->count += (int)queues.num - 1;
    }
    for (t = 0; t < queues.num; ++t) {
        muct_xgmi_ep_commit(ep, queues.touched[t].queue, muct_xgmi_ep_zcopy_done, comp);
    }
    return UCS_INPROGRESS;

err_rollback:
    for (t = 0; t < queues.num; ++t) {
        muct_xgmi_queue_rollback(queues.touched[t].queue, &queues.touched[t].mark);
    }
    return muct_xgmi_sgl_refuse(ep, sgl, status);
}

/* The usual list: all entries use the queue of the first entry's device. If an entry
 * is of another device, the list is started again as a mixed one. */
static UCS_F_ALWAYS_INLINE ucs_status_t muct_xgmi_sgl_post_one(
    muct_xgmi_ep_t *ep, muct_xgmi_iface_t *iface, const muct_xgmi_dir_t dir,
    const muct_xgmi_sgl_t *sgl, const muct_xgmi_mem_t *mem, uct_completion_t *comp)
{
    muct_xgmi_queue_t *queue;
    muct_xgmi_mark_t mark;
    ucs_status_t status;
    size_t index = 0;

    status = muct_xgmi_iface_queue(iface, dir, mem->device, &queue);
    if (status == UCS_OK) {
        status = muct_xgmi_queue_reserve(queue, sgl->count);
    }
    if (status != UCS_OK) {
        return muct_xgmi_ep_no_resource(ep, status);
    }

    muct_xgmi_queue_mark(queue, &mark);
    status = muct_xgmi_sgl_add(queue, dir, sgl, &index);
    if (status != UCS_OK) {
        muct_xgmi_queue_rollback(queue, &mark);
        return muct_xgmi_sgl_refuse(ep, sgl, status);
    }
    if (index < sgl->count) {
        muct_xgmi_queue_rollback(queue, &mark);
        return muct_xgmi_sgl_post_mixed(ep, iface, dir, sgl, comp);
    }

    muct_xgmi_ep_commit(ep, queue, muct_xgmi_ep_zcopy_done, comp);
    return UCS_INPROGRESS;
}

static ucs_status_t muct_xgmi_sgl_post_private(muct_xgmi_ep_t *ep,
                                               muct_xgmi_iface_t *iface,
                                               muct_xgmi_dir_t dir,
                                               const muct_xgmi_sgl_t *sgl,
                                               uct_completion_t *comp);

static UCS_F_ALWAYS_INLINE ucs_status_t muct_xgmi_sgl_post(muct_xgmi_ep_t *ep,
                                                           muct_xgmi_iface_t *iface,
                                                           const muct_xgmi_dir_t dir,
                                                           const muct_xgmi_sgl_t *sgl,
                                                           uct_completion_t *comp)
{
    const muct_xgmi_mem_t *mem;
    ucs_status_t status;

    if (sgl->count == 0) {
        return UCS_OK;
    }

    muct_trace_op((dir == MUCT_XGMI_PUT) ? "put list of entries"
                                         : "get list of entries",
                  sgl->count, sgl->raddrs[0]);
    if (ucs_unlikely(muct_xgmi_rkey_is_private(sgl->rkeys[0]))) {
        return muct_xgmi_sgl_post_private(ep, iface, dir, sgl, comp); /* no queue yet */
    }
    mem = sgl->memhs[0];
    status = (mem == NULL) ? muct_xgmi_sgl_post_mixed(ep, iface, dir, sgl, comp)
                           : muct_xgmi_sgl_post_one(ep, iface, dir, sgl, mem, comp);
    return ucs_likely(status != UCS_ERR_NOT_IMPLEMENTED)
               ? status
               : muct_xgmi_sgl_post_private(ep, iface, dir, sgl, comp);
}

/* Split the list: @a arrays, five of as many values, take the entries that devices
 * copy. */
static ucs_status_t muct_xgmi_sgl_split(muct_xgmi_ep_t *ep, muct_xgmi_dir_t dir,
                                        const muct_xgmi_sgl_t *sgl,
                                        uct_completion_t *comp, uint64_t *arrays,
                                        size_t *num_rest_p, ucs_list_link_t *moves)
{
    const size_t total = sgl->count;
    muct_xgmi_move_params_t params = {.dir = dir, .comp = comp};
    ucs_status_t status = UCS_OK;
    size_t i, at = 0;

    for (i = 0; (i < total) && (status == UCS_OK); ++i) {
        if (muct_xgmi_rkey_is_private(sgl->rkeys[i])) {
            params.buffer = sgl->buffers[i];
            params.length = sgl->lengths[i];
            params.memh = sgl->memhs[i];
            params.raddr = sgl->raddrs[i];
            params.rkey = (const muct_xgmi_rkey_t *)sgl->rkeys[i];
            status = muct_xgmi_moves_prepare(ep, &params, moves);
            continue;
        }
        arrays[at] = (uintptr_t)sgl->buffers[i];
        arrays[total + at] = sgl->lengths[i];
        arrays[(2 * total) + at] = (uintptr_t)sgl->memhs[i];
        arrays[(3 * total) + at] = sgl->raddrs[i];
        arrays[(4 * total) + at++] = sgl->rkeys[i];
    }
    *num_rest_p = at;
    return status;
}

/* Post a list with private memory of the peer: the kernel copies those entries, and
 * devices copy the others. */
static UCS_F_NOINLINE ucs_status_t muct_xgmi_sgl_post_private(
    muct_xgmi_ep_t *ep, muct_xgmi_iface_t *iface, muct_xgmi_dir_t dir,
    const muct_xgmi_sgl_t *sgl, uct_completion_t *comp)
{
    uint64_t *arrays = malloc(5 * sgl->count * sizeof(*arrays));
    const size_t total = sgl->count;
    muct_xgmi_sgl_t rest = {0};
    ucs_list_link_t moves;
    ucs_status_t status;

    if (arrays == NULL) {
        return muct_xgmi_sgl_refuse(ep, sgl, UCS_ERR_NO_MEMORY);
    }

    ucs_list_head_init(&moves);
    status = muct_xgmi_sgl_split(ep, dir, sgl, comp, arrays, &rest.count, &moves);
    if (status != UCS_OK) {
        status = muct_xgmi_sgl_refuse(ep, sgl, status);
    } else if (rest.count > 0) { /* this call also prepares waiting for memory */
        rest.buffers = (void **)arrays;
        rest.lengths = arrays + total;
        rest.memhs = (uct_mem_h *)(arrays + (2 * total));
        rest.raddrs = arrays + (3 * total);
        rest.rkeys = arrays + (4 * total);
        status = muct_xgmi_sgl_post(ep, iface, dir, &rest, comp);
    }
    if (UCS_STATUS_IS_ERR(status)) {
        muct_xgmi_moves_drop(&moves);
    } else {
        if (comp != NULL) { /* it is called for each move, and once for the rest */
            comp->count += (int)(total - rest.count) - (status != UCS_INPROGRESS);
        }
        muct_xgmi_moves_commit(ep, &moves);
        status = UCS_INPROGRESS;
    }
    free(arrays);
    return status;
}

/* Count the pieces of repeated entries, which must fit one list of the kernel. */
static ucs_status_t muct_xgmi_sgl_count_pieces(const muct_xgmi_iface_t *iface,
                                               const muct_xgmi_sgl_t *sgl,
                                               const size_t *counts, size_t *total_p)
{
    const size_t max = iface->queue_config.list_size;
    size_t total = 0, i;

    for (i = 0; i < sgl->count; ++i) {
        if (counts[i] > max - total) {
            muct_error("a list of %zu entries has more than %zu pieces: entry %zu "
                       "repeats %zu times (UCX_MORI_XGMI_LIST_SIZE)",
                       sgl->count, max, i, counts[i]);
            return UCS_ERR_INVALID_PARAM;
        }
        total += counts[i];
    }

    *total_p = total;
    return UCS_OK;
}

/* Allocate five arrays of @a total values each. */
static muct_xgmi_sgl_t muct_xgmi_sgl_expand(const muct_xgmi_sgl_t *sgl,
                                            const size_t *counts, const size_t *strides,
                                            uint64_t *arrays, size_t total)
{
    void **buffers = (void **)arrays;
    size_t *lengths = arrays + total;
    uct_mem_h *memhs = (uct_mem_h *)(arrays + (2 * total));
    uint64_t *raddrs = arrays + (3 * total);
    uct_rkey_t *rkeys = arrays + (4 * total);
    size_t at = 0, i, k;

    for (i = 0; i < sgl->count; ++i) {
        for (k = 0; k < counts[i]; ++k, ++at) {
            buffers[at] = UCS_PTR_BYTE_OFFSET(sgl->buffers[i], k * strides[i]);
            lengths[at] = sgl->lengths[i];
            memhs[at] = sgl->memhs[i];
            raddrs[at] = sgl->raddrs[i] + (k * strides[i]);
            rkeys[at] = sgl->rkeys[i];
        }
    }
    return (muct_xgmi_sgl_t){buffers, lengths, memhs, raddrs, rkeys, total};
}

/* Entries that repeat at a stride become pieces, and these runs where the kernel can
 * copy them so. UCP passes no counts. */
static UCS_F_NOINLINE ucs_status_t muct_xgmi_sgl_post_repeated(
    muct_xgmi_ep_t *ep, muct_xgmi_iface_t *iface, muct_xgmi_dir_t dir,
    const muct_xgmi_sgl_t *sgl, const size_t *counts, const size_t *strides,
    uct_completion_t *comp)
{
    muct_xgmi_sgl_t pieces;
    ucs_status_t status;
    uint64_t *arrays;
    size_t total;

    if (strides == NULL) {
        muct_error("a list of %zu entries has counts but no strides", sgl->count);
        return UCS_ERR_INVALID_PARAM;
    }
    status = muct_xgmi_sgl_count_pieces(iface, sgl, counts, &total);
    if ((status != UCS_OK) || (total == 0)) {
        return status;
    }

    arrays = malloc(5 * total * sizeof(*arrays));
    if (arrays == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    pieces = muct_xgmi_sgl_expand(sgl, counts, strides, arrays, total);
    status = muct_xgmi_sgl_post(ep, iface, dir, &pieces, comp);
    free(arrays);
    return status;
}

static UCS_F_ALWAYS_INLINE ucs_status_t muct_xgmi_sgl_zcopy(
    uct_ep_h tl_ep, const muct_xgmi_dir_t dir, const muct_xgmi_sgl_t *sgl,
    const size_t *counts, const size_t *strides, uct_completion_t *comp)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_ep->iface, muct_xgmi_iface_t);
    ucs_status_t status;

    status = muct_xgmi_ep_may_post(ep);
    if (status != UCS_OK) {
        return status;
    }
    if (sgl->count > iface->max_sgl) {
        muct_error("a list of %zu entries is longer than %u", sgl->count,
                   iface->max_sgl);
        return UCS_ERR_INVALID_PARAM;
    }

    return ucs_unlikely(counts != NULL)
               ? muct_xgmi_sgl_post_repeated(ep, iface, dir, sgl, counts, strides, comp)
               : muct_xgmi_sgl_post(ep, iface, dir, sgl, comp);
}

ucs_status_t muct_xgmi_ep_put_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                        const size_t *lengths, uct_mem_h const *memhs,
                                        const uint64_t *remote_addrs,
                                        uct_rkey_t const *rkeys, const size_t *counts,
                                        const size_t *strides, size_t count,
                                        uct_completion_t *comp)
{
    muct_xgmi_sgl_t sgl = {buffers, lengths, memhs, remote_addrs, rkeys, count};

    return muct_xgmi_sgl_zcopy(ep, MUCT_XGMI_PUT, &sgl, counts, strides, comp);
}

ucs_status_t muct_xgmi_ep_get_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                        const size_t *lengths, uct_mem_h const *memhs,
                                        const uint64_t *remote_addrs,
                                        uct_rkey_t const *rkeys, const size_t *counts,
                                        const size_t *strides, size_t count,
                                        uct_completion_t *comp)
{
    muct_xgmi_sgl_t sgl = {buffers, lengths, memhs, remote_addrs, rkeys, count};

    return muct_xgmi_sgl_zcopy(ep, MUCT_XGMI_GET, &sgl, counts, strides, comp);
}
