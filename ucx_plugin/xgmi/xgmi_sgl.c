/* SPDX-License-Identifier: BSD-3-Clause */

/* Puts and gets of lists: one pass from the user's arrays to the kernel's list. */

#include "xgmi/xgmi_rma.h"

#include "base/muct_log.h"


/* One list as the user gave it. */
typedef struct muct_xgmi_sgl {
    void *const *buffers;
    const size_t *lengths;
    uct_mem_h const *memhs;
    const uint64_t *raddrs;
    uct_rkey_t const *rkeys;
    size_t count;
} muct_xgmi_sgl_t;

/* A piece that is empty, a long run, or continues the one before it. */
static UCS_F_NOINLINE void muct_xgmi_sgl_add_slow(muct_xgmi_queue_t *queue,
                                                  uint64_t dst, uint64_t src,
                                                  uint64_t length)
{
    muct_xgmi_queue_add(queue, dst, src, length);
}

/* The end of the source follows from the last entry. */
static UCS_F_ALWAYS_INLINE void muct_xgmi_sgl_write_back(muct_xgmi_list_t *list,
                                                         muct_xgmi_entry_t *next,
                                                         uint64_t num_tiles,
                                                         uint64_t dst_end)
{
    list->next = next;
    list->num_tiles = num_tiles;
    list->dst_end = dst_end;
    list->src_end = ((dst_end == UINT64_MAX) || (next == list->begin))
                        ? UINT64_MAX
                        : next[-1].src + next[-1].length;
}

/*
 * Adds the entries from *index_p to end whose local memory is on the queue's device, in
 * one pass: what is the same as in the entry before is not looked up again. The open
 * list is held in local variables, that is, in registers; its members are written back
 * around the slow half and at the end. After an error the caller rolls back.
 */
static UCS_F_ALWAYS_INLINE ucs_status_t muct_xgmi_sgl_add(muct_xgmi_queue_t *queue,
                                                          const muct_xgmi_dir_t dir,
                                                          const muct_xgmi_sgl_t *sgl,
                                                          size_t end, size_t *index_p)
{
    const uint64_t max_piece = queue->min_run - 1;
    muct_xgmi_list_t *list = &queue->list;
    muct_xgmi_entry_t *next = list->next;
    uint64_t num_tiles = list->num_tiles;
    uint64_t dst_end = list->dst_end;
    const muct_xgmi_mem_t *mem = NULL;
    const muct_xgmi_rkey_t *rkey = NULL;
    muct_xgmi_window_t window = {0};
    uint64_t delta = 0;
    const muct_xgmi_window_t *found;
    uint64_t local, remote, raddr, length, dst, src;
    ucs_status_t status;
    size_t i;

    for (i = *index_p; i < end; ++i) {
        if (ucs_unlikely((sgl->memhs[i] != mem) ||
                         (sgl->rkeys[i] != (uct_rkey_t)rkey))) {
            mem = sgl->memhs[i];
            if ((mem == NULL) || (mem->device != queue->device)) {
                break;
            }
            delta = mem->delta;
            rkey = (const muct_xgmi_rkey_t *)sgl->rkeys[i];
            status = muct_xgmi_queue_find(queue, rkey, &found);
            if (status != UCS_OK) {
                return status;
            }
            window = *found;
            dst_end = UINT64_MAX; /* other memory: not to be joined */
        }

        raddr = sgl->raddrs[i];
        length = sgl->lengths[i];
        if (ucs_unlikely(!muct_xgmi_window_has(&window, raddr, length))) {
            return muct_xgmi_ep_out_of_bounds(rkey, raddr, length);
        }

        local = (uintptr_t)sgl->buffers[i] + delta;
        remote = raddr + window.delta;
        dst = (dir == MUCT_XGMI_PUT) ? remote : local;
        src = (dir == MUCT_XGMI_PUT) ? local : remote;
        /* one look for both: 0 - 1 is more than any run */
        if (ucs_unlikely(((length - 1) >= max_piece) || (dst == dst_end))) {
            muct_xgmi_sgl_write_back(list, next, num_tiles, dst_end);
            muct_xgmi_sgl_add_slow(queue, dst, src, length);
            next = list->next;
            num_tiles = list->num_tiles;
            dst_end = list->dst_end;
            continue;
        }

        next->dst = dst;
        next->src = src;
        next->length = length;
        next->first_tile = num_tiles;
        num_tiles += muct_xgmi_tile_count(dst, length);
        dst_end = dst + length;
        ++next;
    }

    muct_xgmi_sgl_write_back(list, next, num_tiles, dst_end);
    queue->last_local = NULL;
    *index_p = i;
    return UCS_OK;
}

/* What a list has done to a queue, for undoing. */
typedef struct muct_xgmi_sgl_queue {
    muct_xgmi_queue_t *queue;
    muct_xgmi_mark_t mark;
} muct_xgmi_sgl_queue_t;

/* Local memory of several devices: rare, so simple. All queues or none. */
static UCS_F_NOINLINE ucs_status_t muct_xgmi_sgl_post_mixed(muct_xgmi_ep_t *ep,
                                                            muct_xgmi_iface_t *iface,
                                                            muct_xgmi_dir_t dir,
                                                            const muct_xgmi_sgl_t *sgl,
                                                            uct_completion_t *comp)
{
    muct_xgmi_sgl_queue_t touched[MUCT_XGMI_MAX_DEVICES];
    const muct_xgmi_mem_t *mem;
    muct_xgmi_queue_t *queue;
    unsigned num_touched = 0;
    uint32_t seen = 0;
    size_t index = 0;
    ucs_status_t status;
    unsigned t;

    while (index < sgl->count) {
        mem = sgl->memhs[index];
        if (mem == NULL) {
            muct_error("local memory %p of list entry %zu was not registered",
                       sgl->buffers[index], index);
            status = UCS_ERR_INVALID_PARAM;
            goto err_rollback;
        }

        status = muct_xgmi_iface_queue(iface, dir, mem->device, &queue);
        if ((status == UCS_OK) && !((seen >> mem->device) & 1)) {
            status = muct_xgmi_queue_reserve(queue, sgl->count);
            if (status == UCS_OK) {
                seen |= UINT32_C(1) << mem->device;
                touched[num_touched].queue = queue;
                muct_xgmi_queue_mark(queue, &touched[num_touched++].mark);
            }
        }
        if (status == UCS_OK) {
            status = muct_xgmi_sgl_add(queue, dir, sgl, sgl->count, &index);
        }
        if (status != UCS_OK) {
            goto err_rollback;
        }
    }

    /* count first: the user's completion ends with the last queue */
    if (comp != NULL) {
        comp->count += (int)num_touched - 1;
    }
    for (t = 0; t < num_touched; ++t) {
        muct_xgmi_ep_commit(ep, touched[t].queue, muct_xgmi_ep_zcopy_done, comp);
    }
    return UCS_INPROGRESS;

err_rollback:
    for (t = 0; t < num_touched; ++t) {
        muct_xgmi_queue_rollback(touched[t].queue, &touched[t].mark);
    }
    return muct_xgmi_ep_no_resource(ep, status);
}

/* Entries to add before looking whether to start: all, unless parts are worth it. */
static size_t muct_xgmi_sgl_first_part(const muct_xgmi_iface_t *iface,
                                       const muct_xgmi_queue_t *queue,
                                       const muct_xgmi_sgl_t *sgl)
{
    size_t part = iface->queue_config.early_start;
    const muct_xgmi_mem_t *mem;
    size_t i;

    if ((part == 0) || (sgl->count < 2 * part) || !muct_xgmi_queue_wants_more(queue)) {
        return sgl->count;
    }

    for (i = 1; i < sgl->count; ++i) { /* parts cannot be taken back */
        mem = sgl->memhs[i];
        if ((mem != sgl->memhs[0]) &&
            ((mem == NULL) || (mem->device != queue->device))) {
            return sgl->count;
        }
    }

    return part;
}

/* What was started goes on; the user learns the error when it is over. */
static void muct_xgmi_sgl_fail_rest(muct_xgmi_ep_t *ep, uct_completion_t *comp,
                                    ucs_status_t status)
{
    if (comp == NULL) {
        muct_xgmi_ep_set_error(ep, status);
        return;
    }

    if (comp->status == UCS_OK) {
        comp->status = status;
    }
    --comp->count; /* the last part's, which there is not; others are not over yet */
}

/*
 * Goes on where the first part was added: each part goes out as soon as the device
 * wants more, so that posting and copying overlap. Local memory is of one device.
 */
static UCS_F_NOINLINE ucs_status_t
muct_xgmi_sgl_post_parts(muct_xgmi_ep_t *ep, muct_xgmi_queue_t *queue,
                         muct_xgmi_dir_t dir, const muct_xgmi_sgl_t *sgl, size_t index,
                         muct_xgmi_mark_t *mark, uct_completion_t *comp)
{
    const size_t part = queue->config->early_start;
    ucs_status_t status = UCS_OK;
    int is_started = 0;
    size_t end;

    while ((index < sgl->count) && (status == UCS_OK)) {
        if (muct_xgmi_queue_wants_more(queue)) {
            if (comp != NULL) {
                ++comp->count;
            }
            muct_xgmi_ep_commit(ep, queue, muct_xgmi_ep_zcopy_done, comp);
            muct_xgmi_queue_start(queue);
            is_started = 1;
            status = muct_xgmi_queue_reserve(queue, sgl->count - index);
            if (status != UCS_OK) {
                break;
            }
            muct_xgmi_queue_mark(queue, mark);
        }

        end = ((sgl->count - index) < part) ? sgl->count : index + part;
        status = (dir == MUCT_XGMI_PUT)
                     ? muct_xgmi_sgl_add(queue, MUCT_XGMI_PUT, sgl, end, &index)
                     : muct_xgmi_sgl_add(queue, MUCT_XGMI_GET, sgl, end, &index);
        if (status != UCS_OK) {
            muct_xgmi_queue_rollback(queue, mark);
        }
    }

    if (status == UCS_OK) {
        muct_xgmi_ep_commit(ep, queue, muct_xgmi_ep_zcopy_done, comp);
    } else if (is_started) {
        muct_xgmi_sgl_fail_rest(ep, comp, status);
    } else {
        return status;
    }

    return UCS_INPROGRESS;
}

static UCS_F_ALWAYS_INLINE ucs_status_t muct_xgmi_sgl_post(uct_ep_h tl_ep,
                                                           const muct_xgmi_dir_t dir,
                                                           const muct_xgmi_sgl_t *sgl,
                                                           uct_completion_t *comp)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_ep->iface, muct_xgmi_iface_t);
    const muct_xgmi_mem_t *mem;
    muct_xgmi_queue_t *queue;
    muct_xgmi_mark_t mark;
    ucs_status_t status;
    size_t index = 0;
    size_t early;

    status = muct_xgmi_ep_may_post(ep);
    if (status != UCS_OK) {
        return status;
    }
    if (sgl->count == 0) {
        return UCS_OK;
    }
    if (sgl->count > iface->queue_config.list_size) {
        muct_error("a list of %zu entries is longer than %u", sgl->count,
                   iface->queue_config.list_size);
        return UCS_ERR_INVALID_PARAM;
    }

    mem = sgl->memhs[0];
    if (mem == NULL) {
        return muct_xgmi_sgl_post_mixed(ep, iface, dir, sgl, comp);
    }

    status = muct_xgmi_iface_queue(iface, dir, mem->device, &queue);
    if (status == UCS_OK) {
        status = muct_xgmi_queue_reserve(queue, sgl->count);
    }
    if (status != UCS_OK) {
        return muct_xgmi_ep_no_resource(ep, status);
    }

    muct_xgmi_queue_mark(queue, &mark);
    early = muct_xgmi_sgl_first_part(iface, queue, sgl);
    status = muct_xgmi_sgl_add(queue, dir, sgl, early, &index);
    if ((status == UCS_OK) && (early < sgl->count)) {
        return muct_xgmi_sgl_post_parts(ep, queue, dir, sgl, index, &mark, comp);
    }
    if (status != UCS_OK) {
        muct_xgmi_queue_rollback(queue, &mark);
        return status;
    }
    if (index < sgl->count) {
        muct_xgmi_queue_rollback(queue, &mark);
        return muct_xgmi_sgl_post_mixed(ep, iface, dir, sgl, comp);
    }

    muct_xgmi_ep_commit(ep, queue, muct_xgmi_ep_zcopy_done, comp);
    return UCS_INPROGRESS;
}

static UCS_F_ALWAYS_INLINE ucs_status_t
muct_xgmi_sgl_zcopy(uct_ep_h ep, const muct_xgmi_dir_t dir, const muct_xgmi_sgl_t *sgl,
                    const size_t *counts, const size_t *strides, uct_completion_t *comp)
{
    if (ucs_unlikely((counts != NULL) || (strides != NULL))) {
        muct_error("lists with counts or strides are not supported");
        return UCS_ERR_UNSUPPORTED;
    }

    return muct_xgmi_sgl_post(ep, dir, sgl, comp);
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
