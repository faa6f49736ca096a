/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Lists of blocks: chains of work requests on all queue pairs, one completion for all.
 *
 * First every block is checked and the work requests are counted, as an upper bound; so
 * a list is accepted as a whole or not at all.
 */

#include "rdma/op/rdma_sgl_check.h"

#include "base/muct_log.h"
#include "rdma/op/rdma_pull.h"
#include "rdma/op/rdma_sgl.h"
#include "rdma/op/rdma_sgl_defer.h"
#include "rdma/ep/rdma_ep_flush.h"
#include "rdma/ep/rdma_ep_wait.h"

#define MUCT_RDMA_MIN_MAX_SGL 256

size_t muct_rdma_ep_max_sgl(const muct_rdma_iface_t *iface)
{
    size_t max = (size_t)iface->limits.num_qps * iface->limits.tx_depth * 3 / 4;

    /* a quarter is for blocks of several work requests; short queues use jobs */
    return (max > MUCT_RDMA_MIN_MAX_SGL) ? max : MUCT_RDMA_MIN_MAX_SGL;
}

/* ---- check and count ---- */

/* Borders of chunks inside a block of @a length bytes at @a offset. */
static inline size_t muct_rdma_sgl_borders(uint64_t offset, size_t length,
                                           uint8_t shift)
{
    return (size_t)(((offset + length - 1) >> shift) - (offset >> shift));
}

/* Check a block that is not plain: repeated, or spanning several keys. */
static ucs_status_t muct_rdma_sgl_check_general(const muct_rdma_ep_t *ep,
                                                const muct_rdma_sgl_t *sgl, size_t i,
                                                size_t *total_p, size_t *bound_p)
{
    const muct_rdma_key_t *key = (const muct_rdma_key_t *)sgl->rkeys[i];
    size_t length = sgl->lengths[i], repeats = muct_rdma_sgl_repeats(sgl, i);
    const muct_rdma_mem_t *mem = sgl->memhs[i];
    ucs_status_t status;
    size_t span;

    if ((length == 0) || (repeats == 0)) {
        return UCS_OK;
    }

    if (__builtin_mul_overflow(repeats - 1, (repeats > 1) ? sgl->strides[i] : 0,
                               &span) ||
        __builtin_add_overflow(span, length, &span)) {
        span = SIZE_MAX; /* more than any memory */
    }
    if (!muct_rdma_mem_has(mem, sgl->buffers[i], span)) {
        return muct_rdma_mem_refuse(mem, sgl->buffers[i], span);
    }

    status = muct_rdma_ep_check_key(ep, key, sgl->remote_addrs[i], span);
    if (status != UCS_OK) {
        return status;
    }

    *total_p += length * repeats;
    *bound_p += repeats *
                (1 + ((repeats > 1) ? 2 : 0) +
                 muct_rdma_sgl_borders(sgl->remote_addrs[i] - key->base, length,
                                       key->chunk_shift) +
                 muct_rdma_sgl_borders((uint64_t)(uintptr_t)sgl->buffers[i] - mem->base,
                                       length, mem->chunk_shift));
    return UCS_OK;
}

/* Whether a block can begin a run: one key on each side, and a key of the peer. */
static inline bool muct_rdma_sgl_is_plain(const muct_rdma_ep_t *ep,
                                          const muct_rdma_mem_t *mem,
                                          const muct_rdma_key_t *key)
{
    return (mem != NULL) && (mem->num == 1) && key->is_single &&
           (key->incarnation == ep->peer.incarnation);
}

/*
 * Check plain blocks from @a i on, as long as they have the keys of the first one and
 * lie inside its region. Returns the number of the first that does not. This loop is
 * the cost of a block; it is not inlined, so that it has all registers.
 */
static UCS_F_NOINLINE size_t muct_rdma_sgl_check_run(const muct_rdma_sgl_t *sgl,
                                                     size_t i, size_t *total_p,
                                                     size_t *lengths_p)
{
    const muct_rdma_key_t *key = (const muct_rdma_key_t *)sgl->rkeys[i];
    const uint64_t base = key->base, size = key->length;
    const uint64_t *const remote_addrs = sgl->remote_addrs;
    const uct_rkey_t *const rkeys = sgl->rkeys, rkey = rkeys[i];
    const uct_mem_h *const memhs = sgl->memhs, memh = memhs[i];
    const size_t *const all = sgl->lengths, count = sgl->count;
    size_t length, lengths = 0, total = 0;

    do {
        length = all[i];
        /* the first check rejects zero bytes as well */
        if ((length - 1 >= size) || (remote_addrs[i] - base > size - length)) {
            break;
        }
        total += length;
        lengths |= length;
        ++i;
    } while ((i < count) && (memhs[i] == memh) && (rkeys[i] == rkey));

    *total_p += total;
    *lengths_p |= lengths;
    return i;
}

/* Compare the region once for all of its consecutive blocks. */
static ucs_status_t muct_rdma_sgl_keep_up(const muct_rdma_ep_t *ep,
                                          muct_rdma_mem_t *mem)
{
    const void *base = (mem != NULL) ? (const void *)(uintptr_t)mem->base : NULL;

    return muct_rdma_ep_keep_up(ep, mem, base, (mem != NULL) ? mem->length : 0);
}

/* Check a list and count its bytes and work requests, with one work request for each
 * plain block. @a lengths_p gets the bits of all lengths, which are at least the
 * longest one. */
static ucs_status_t muct_rdma_sgl_check(const muct_rdma_ep_t *ep,
                                        const muct_rdma_sgl_t *sgl,
                                        muct_rdma_sgl_plan_t *plan, size_t *lengths_p)
{
    uct_mem_h memh = NULL;
    size_t i = 0, next;
    ucs_status_t status;

    *lengths_p = 0;
    plan->total = 0;
    plan->bound = 0;
    plan->run_end = 0;
    plan->is_plain = true;
    if ((sgl->counts != NULL) && (sgl->strides == NULL)) {
        muct_error("list of %zu blocks has counts but no strides", sgl->count);
        return UCS_ERR_INVALID_PARAM;
    }

    while (i < sgl->count) {
        if (sgl->memhs[i] != memh) {
            memh = sgl->memhs[i];
            status = muct_rdma_sgl_keep_up(ep, memh);
            if (status != UCS_OK) {
                return status;
            }
        }

        if ((sgl->counts == NULL) && (sgl->lengths[i] > 0) &&
            muct_rdma_sgl_is_plain(ep, sgl->memhs[i],
                                   (const muct_rdma_key_t *)sgl->rkeys[i])) {
            next = muct_rdma_sgl_check_run(sgl, i, &plan->total, lengths_p);
            plan->bound += next - i;
            plan->run_end = (i == 0) ? next : plan->run_end;
            if (next > i) {
                i = next;
                continue;
            }
        }

        status = muct_rdma_sgl_check_general(ep, sgl, i, &plan->total, &plan->bound);
        if (status != UCS_OK) {
            return status;
        }
        plan->is_plain = false;
        ++i;
    }

    return UCS_OK;
}

/* ---- operations ---- */

/* Bytes of a work request that give all queue pairs a fair part of the list. */
static size_t muct_rdma_sgl_piece(const muct_rdma_ep_t *ep, size_t total)
{
    const muct_rdma_limits_t *limits = &muct_rdma_ep_iface(ep)->limits;
    size_t piece;

    if (ep->num_qps == 1) {
        return limits->max_msg_size;
    }

    piece = (total + ep->num_qps - 1) / ep->num_qps;
    piece = (piece > limits->stripe_size) ? (piece + 4095) & ~(size_t)4095
                                          : limits->stripe_size;
    return (piece < limits->max_msg_size) ? piece : limits->max_msg_size;
}

static ucs_status_t muct_rdma_ep_sgl(muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode,
                                     const muct_rdma_sgl_t *sgl, uct_completion_t *comp)
{
    muct_rdma_sgl_pos_t pos = {0, 0, 0};
    muct_rdma_sgl_plan_t plan = {.opcode = opcode, .comp = comp};
    ucs_status_t status;
    size_t lengths;
    int num;

    /* test for room before the check, which would be repeated otherwise */
    if ((sgl->count > muct_rdma_ep_free(ep)) && !muct_rdma_ep_is_idle(ep) &&
        !muct_rdma_ep_has_to_split(ep, sgl->count)) {
        return UCS_ERR_NO_RESOURCE;
    }

    status = muct_rdma_sgl_check(ep, sgl, &plan, &lengths);
    if ((status != UCS_OK) || (plan.total == 0)) {
        return status;
    }

    if ((opcode == IBV_WR_RDMA_READ) && ep->is_pulling) {
        return muct_rdma_pull_sgl(ep, sgl, comp);
    }

    plan.piece = muct_rdma_sgl_piece(ep, plan.total);
    plan.is_plain = plan.is_plain && (lengths <= plan.piece);
    plan.bound += plan.total / plan.piece; /* a block is cut at every piece at most */
    if (plan.bound > muct_rdma_ep_free(ep)) {
        return muct_rdma_ep_has_to_split(ep, plan.bound)
                   ? muct_rdma_job_start(ep, &plan, sgl)
                   : UCS_ERR_NO_RESOURCE;
    }

    num = muct_rdma_sgl_post(ep, &plan, sgl, &pos);
    if (pos.index < sgl->count) {
        muct_rdma_ep_break(ep);
    }

    /* nothing completes before the next progress: counting now is early enough */
    if (comp != NULL) {
        comp->count += num - 1;
    }

    return UCS_INPROGRESS;
}

ucs_status_t muct_rdma_ep_iov_job(muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode,
                                  const uct_iov_t *iov, size_t iovcnt,
                                  uint64_t remote_addr, uct_rkey_t rkey,
                                  uct_completion_t *comp)
{
    size_t i, lengths[MUCT_RDMA_MAX_IOV];
    uint64_t remote_addrs[MUCT_RDMA_MAX_IOV];
    uct_rkey_t rkeys[MUCT_RDMA_MAX_IOV];
    void *buffers[MUCT_RDMA_MAX_IOV];
    uct_mem_h memhs[MUCT_RDMA_MAX_IOV];
    const muct_rdma_sgl_t sgl = {buffers, lengths, memhs, remote_addrs,
                                 rkeys,   NULL,    NULL,  iovcnt};

    if (iovcnt > MUCT_RDMA_MAX_IOV) {
        muct_error("transfer of %zu blocks: at most %d are possible", iovcnt,
                   MUCT_RDMA_MAX_IOV);
        return UCS_ERR_INVALID_PARAM;
    }

    for (i = 0; i < iovcnt; ++i) {
        buffers[i] = iov[i].buffer;
        lengths[i] = iov[i].length * ((iov[i].count > 1) ? iov[i].count : 1);
        memhs[i] = iov[i].memh;
        remote_addrs[i] = remote_addr;
        rkeys[i] = rkey;
        remote_addr += lengths[i];
    }

    return muct_rdma_ep_sgl(ep, opcode, &sgl, comp);
}

static ucs_status_t muct_rdma_ep_sgl_zcopy(muct_rdma_ep_t *ep,
                                           enum ibv_wr_opcode opcode,
                                           const muct_rdma_sgl_t *sgl,
                                           uct_completion_t *comp)
{
    size_t max = muct_rdma_ep_max_sgl(muct_rdma_ep_iface(ep));
    ucs_status_t status;

    if (sgl->count > max) {
        muct_error("list of %zu blocks: at most %zu are possible", sgl->count, max);
        return UCS_ERR_INVALID_PARAM;
    }

    status = muct_rdma_ep_check_ready(ep);
    if (status != UCS_OK) {
        return status;
    }

    muct_trace_op((opcode == IBV_WR_RDMA_WRITE) ? "put list of blocks"
                                                : "get list of blocks",
                  sgl->count, (sgl->count > 0) ? sgl->remote_addrs[0] : 0);

    return muct_rdma_ep_sgl(ep, opcode, sgl, comp);
}

ucs_status_t muct_rdma_ep_put_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                        const size_t *lengths, uct_mem_h const *memhs,
                                        const uint64_t *remote_addrs,
                                        uct_rkey_t const *rkeys, const size_t *counts,
                                        const size_t *strides, size_t count,
                                        uct_completion_t *comp)
{
    const muct_rdma_sgl_t sgl = {buffers, lengths, memhs,   remote_addrs,
                                 rkeys,   counts,  strides, count};

    return muct_rdma_ep_sgl_zcopy((muct_rdma_ep_t *)ep, IBV_WR_RDMA_WRITE, &sgl, comp);
}

ucs_status_t muct_rdma_ep_get_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                        const size_t *lengths, uct_mem_h const *memhs,
                                        const uint64_t *remote_addrs,
                                        uct_rkey_t const *rkeys, const size_t *counts,
                                        const size_t *strides, size_t count,
                                        uct_completion_t *comp)
{
    const muct_rdma_sgl_t sgl = {buffers, lengths, memhs,   remote_addrs,
                                 rkeys,   counts,  strides, count};

    return muct_rdma_ep_sgl_zcopy((muct_rdma_ep_t *)ep, IBV_WR_RDMA_READ, &sgl, comp);
}
