/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Atomics of the device: 64-bit fetch-and-add and compare-and-swap. The old value lands
 * in a buffer of ours and is copied to the caller's.
 */

#include "rdma/op/rdma_ep_amo.h"

#include "base/muct_log.h"
#include "rdma/ep/rdma_ep_flush.h"
#include "rdma/ep/rdma_ep_wait.h"

#include <inttypes.h>
#include <string.h>

static void muct_rdma_done_amo(void *arg, ucs_status_t status)
{
    muct_rdma_buf_t *buf = arg;

    if ((status == UCS_OK) && (buf->arg != NULL)) {
        memcpy(buf->arg, muct_rdma_buf_data(buf), sizeof(uint64_t));
    }
    muct_rdma_done_buf_comp(buf, status);
}

/* Devices refuse other atomics, and the connection fails. */
static ucs_status_t muct_rdma_ep_check_atomic(const muct_rdma_ep_t *ep,
                                              uint64_t remote_addr)
{
    if (!muct_rdma_ep_iface(ep)->limits.has_atomics || (ep->peer_ep.max_reads == 0)) {
        return UCS_ERR_UNSUPPORTED;
    }

    if ((remote_addr % sizeof(uint64_t)) != 0) {
        muct_error("atomic at 0x%" PRIx64 ": the address is no multiple of 8",
                   remote_addr);
        return UCS_ERR_INVALID_PARAM;
    }

    return UCS_OK;
}

static ucs_status_t muct_rdma_ep_atomic(muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode,
                                        uint64_t compare_add, uint64_t swap,
                                        uint64_t *result, uint64_t remote_addr,
                                        uct_rkey_t rkey, uct_completion_t *comp)
{
    const muct_rdma_key_t *key = (const muct_rdma_key_t *)rkey;
    muct_rdma_chan_t *chan;
    struct ibv_send_wr *wr;
    muct_rdma_buf_t *buf;
    ucs_status_t status;

    status = muct_rdma_ep_check_ready(ep);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_ep_check_atomic(ep, remote_addr);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_ep_check_key(ep, key, remote_addr, sizeof(uint64_t));
    if (status != UCS_OK) {
        return status;
    }

    chan = muct_rdma_ep_chan(ep);
    if (chan == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }

    status = muct_rdma_ep_get_buf(ep, &buf);
    if (status != UCS_OK) {
        return status;
    }

    muct_trace_op("atomic of bytes", sizeof(uint64_t), remote_addr);
    buf->comp = comp;
    buf->arg = result;
    wr = muct_rdma_sq_begin(&chan->sq, opcode);
    wr->num_sge = 1;
    wr->sg_list[0].addr = (uint64_t)(uintptr_t)muct_rdma_buf_data(buf);
    wr->sg_list[0].length = sizeof(uint64_t);
    wr->sg_list[0].lkey = buf->lkey;
    wr->wr.atomic.remote_addr = remote_addr;
    wr->wr.atomic.rkey = key->rkeys[muct_rdma_key_chunk(key, remote_addr)];
    wr->wr.atomic.compare_add = compare_add;
    wr->wr.atomic.swap = swap;
    muct_rdma_chan_wrote(chan, key);
    muct_rdma_sq_end_only(&chan->sq, wr, muct_rdma_done_amo, buf, sizeof(uint64_t));
    return UCS_INPROGRESS;
}

ucs_status_t muct_rdma_ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap,
                                         uint64_t remote_addr, uct_rkey_t rkey,
                                         uint64_t *result, uct_completion_t *comp)
{
    return muct_rdma_ep_atomic((muct_rdma_ep_t *)ep, IBV_WR_ATOMIC_CMP_AND_SWP, compare,
                               swap, result, remote_addr, rkey, comp);
}

ucs_status_t muct_rdma_ep_atomic64_post(uct_ep_h ep, unsigned opcode, uint64_t value,
                                        uint64_t remote_addr, uct_rkey_t rkey)
{
    ucs_status_t status;

    if (opcode != UCT_ATOMIC_OP_ADD) {
        return UCS_ERR_UNSUPPORTED;
    }

    status = muct_rdma_ep_atomic((muct_rdma_ep_t *)ep, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                 value, 0, NULL, remote_addr, rkey, NULL);
    return (status == UCS_INPROGRESS) ? UCS_OK : status;
}

ucs_status_t muct_rdma_ep_atomic64_fetch(uct_ep_h ep, unsigned opcode, uint64_t value,
                                         uint64_t *result, uint64_t remote_addr,
                                         uct_rkey_t rkey, uct_completion_t *comp)
{
    if (opcode != UCT_ATOMIC_OP_ADD) {
        return UCS_ERR_UNSUPPORTED;
    }

    return muct_rdma_ep_atomic((muct_rdma_ep_t *)ep, IBV_WR_ATOMIC_FETCH_AND_ADD, value,
                               0, result, remote_addr, rkey, comp);
}
