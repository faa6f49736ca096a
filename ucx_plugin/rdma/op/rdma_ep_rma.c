/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Puts and gets. One work request each, unless the bytes are worth several queue pairs,
 * are more than the device sends at once, or lie under several keys.
 */

#include "rdma/op/rdma_ep_rma.h"

#include "base/muct_log.h"
#include "rdma/op/rdma_sgl_check.h"
#include "rdma/ep/rdma_ep_flush.h"
#include "rdma/ep/rdma_ep_wait.h"
#include "rdma/op/rdma_am.h"
#include "rdma/op/rdma_pull.h"

#include <inttypes.h>
#include <string.h>

static inline const muct_rdma_key_t *muct_rdma_key_of(uct_rkey_t rkey)
{
    return (const muct_rdma_key_t *)rkey;
}

static inline void muct_rdma_wr_set_remote(struct ibv_send_wr *wr,
                                           const muct_rdma_key_t *key, uint64_t address)
{
    wr->wr.rdma.remote_addr = address;
    wr->wr.rdma.rkey = key->rkeys[muct_rdma_key_chunk(key, address)];
}

/* Check that the bytes fit one buffer and lie within one key. */
static ucs_status_t muct_rdma_ep_check_bcopy(muct_rdma_ep_t *ep,
                                             const muct_rdma_key_t *key,
                                             uint64_t address, size_t length)
{
    ucs_status_t status = muct_rdma_ep_check_key(ep, key, address, length);

    if (status != UCS_OK) {
        return status;
    }

    if ((length > muct_rdma_ep_iface(ep)->tx_pool.size) ||
        (muct_rdma_key_chunk_left(key, address) < length)) {
        muct_error("buffered access to 0x%" PRIx64
                   " length %zu is longer than SEG_SIZE, or "
                   "crosses the border of two keys of its region",
                   address, length);
        return UCS_ERR_INVALID_PARAM;
    }

    return UCS_OK;
}

/* Make all checks of a short or buffered operation before a buffer is allocated. */
static ucs_status_t muct_rdma_ep_begin_bcopy(muct_rdma_ep_t *ep,
                                             const muct_rdma_key_t *key,
                                             uint64_t address, size_t length,
                                             muct_rdma_chan_t **chan_p)
{
    ucs_status_t status = muct_rdma_ep_check_ready(ep);

    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_ep_check_bcopy(ep, key, address, length);
    if (status != UCS_OK) {
        return status;
    }

    *chan_p = muct_rdma_ep_chan(ep);
    return (*chan_p != NULL) ? UCS_OK : UCS_ERR_NO_RESOURCE;
}

/* ---- short, buffered ---- */

/* Put from a pool buffer, which the put owns from now on. */
static void muct_rdma_chan_put_buf(muct_rdma_chan_t *chan, muct_rdma_buf_t *buf,
                                   uint32_t length, const muct_rdma_key_t *key,
                                   uint64_t address)
{
    struct ibv_send_wr *wr = muct_rdma_sq_begin(&chan->sq, IBV_WR_RDMA_WRITE);

    wr->num_sge = 1;
    wr->sg_list[0].addr = (uint64_t)(uintptr_t)muct_rdma_buf_data(buf);
    wr->sg_list[0].length = length;
    wr->sg_list[0].lkey = buf->lkey;
    muct_rdma_wr_set_remote(wr, key, address);
    muct_rdma_chan_wrote(chan, key);
    muct_rdma_sq_end_only(&chan->sq, wr, muct_rdma_done_buf, buf, length);
}

ucs_status_t muct_rdma_ep_put_short(uct_ep_h tl_ep, const void *buffer, unsigned length,
                                    uint64_t remote_addr, uct_rkey_t rkey)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    const muct_rdma_key_t *key = muct_rdma_key_of(rkey);
    struct ibv_send_wr *wr;
    muct_rdma_chan_t *chan;
    muct_rdma_buf_t *buf;
    ucs_status_t status;

    if (length == 0) {
        return UCS_OK;
    }

    if (length > muct_rdma_am_max_short(muct_rdma_ep_iface(ep))) {
        muct_error("short put of length %u: expected at most %u bytes", length,
                   muct_rdma_am_max_short(muct_rdma_ep_iface(ep)));
        return UCS_ERR_INVALID_PARAM;
    }

    status = muct_rdma_ep_begin_bcopy(ep, key, remote_addr, length, &chan);
    if (status != UCS_OK) {
        return status;
    }

    muct_trace_op("put short", length, remote_addr);
    if (length > chan->sq.max_inline) {
        status = muct_rdma_ep_get_buf(ep, &buf);
        if (status != UCS_OK) {
            return status;
        }
        memcpy(muct_rdma_buf_data(buf), buffer, length);
        muct_rdma_chan_put_buf(chan, buf, length, key, remote_addr);
        return UCS_OK;
    }

    wr = muct_rdma_sq_begin(&chan->sq, IBV_WR_RDMA_WRITE);
    wr->send_flags |= IBV_SEND_INLINE;
    wr->num_sge = 1;
    wr->sg_list[0].addr = (uint64_t)(uintptr_t)muct_rdma_sq_inline(&chan->sq);
    wr->sg_list[0].length = length;
    memcpy(muct_rdma_sq_inline(&chan->sq), buffer, length);
    muct_rdma_wr_set_remote(wr, key, remote_addr);
    muct_rdma_chan_wrote(chan, key);
    muct_rdma_sq_end_only(&chan->sq, wr, NULL, NULL, length);
    return UCS_OK;
}

ssize_t muct_rdma_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack, void *arg,
                               uint64_t remote_addr, uct_rkey_t rkey)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    const muct_rdma_key_t *key = muct_rdma_key_of(rkey);
    muct_rdma_chan_t *chan;
    muct_rdma_buf_t *buf;
    ucs_status_t status;
    size_t length;

    status = muct_rdma_ep_check_ready(ep);
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

    length = pack(muct_rdma_buf_data(buf), arg);
    /* an operation of no bytes may lack a key */
    status =
        (length > 0) ? muct_rdma_ep_check_bcopy(ep, key, remote_addr, length) : UCS_OK;
    if ((status != UCS_OK) || (length == 0)) {
        muct_rdma_buf_put(buf);
        return status;
    }

    muct_trace_op("put bcopy", length, remote_addr);
    muct_rdma_chan_put_buf(chan, buf, (uint32_t)length, key, remote_addr);
    return (ssize_t)length;
}

ucs_status_t muct_rdma_ep_get_bcopy(uct_ep_h tl_ep, uct_unpack_callback_t unpack,
                                    void *arg, size_t length, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    const muct_rdma_key_t *key = muct_rdma_key_of(rkey);
    struct ibv_send_wr *wr;
    muct_rdma_chan_t *chan;
    muct_rdma_buf_t *buf;
    ucs_status_t status;

    if (length == 0) {
        return UCS_OK;
    }

    status = muct_rdma_ep_begin_bcopy(ep, key, remote_addr, length, &chan);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_ep_get_buf(ep, &buf);
    if (status != UCS_OK) {
        return status;
    }

    muct_trace_op("get bcopy", length, remote_addr);
    buf->unpack = unpack;
    buf->arg = arg;
    buf->comp = comp;
    buf->length = (uint32_t)length;
    if (ep->is_pulling) {
        status = muct_rdma_pull_buf(ep, buf, remote_addr,
                                    key->rkeys[muct_rdma_key_chunk(key, remote_addr)]);
        if (status != UCS_INPROGRESS) {
            muct_rdma_buf_put(buf);
        }
        return status;
    }

    wr = muct_rdma_sq_begin(&chan->sq, IBV_WR_RDMA_READ);
    wr->num_sge = 1;
    wr->sg_list[0].addr = (uint64_t)(uintptr_t)muct_rdma_buf_data(buf);
    wr->sg_list[0].length = (uint32_t)length;
    wr->sg_list[0].lkey = buf->lkey;
    muct_rdma_wr_set_remote(wr, key, remote_addr);
    muct_rdma_sq_end_only(&chan->sq, wr, muct_rdma_done_unpack, buf, length);
    return UCS_INPROGRESS;
}

/* ---- zero copy ---- */

/* Position of the rest of a transfer. */
typedef struct muct_rdma_cursor {
    const uct_iov_t *iov;
    size_t iovcnt;
    size_t offset; /* in *iov */
    uint64_t remote;
    size_t left;
} muct_rdma_cursor_t;

/* A block that repeats is a longer one: check_iov() refuses those with gaps. */
static size_t muct_rdma_iov_length(const uct_iov_t *iov)
{
    return iov->length * ((iov->count > 1) ? iov->count : 1);
}

/* Check the memory handles of a vector and return its length. Memory without a handle
 * is invalid unless the device supports implicit access; the device reports the error.
 */
static ucs_status_t muct_rdma_ep_check_iov(const muct_rdma_ep_t *ep,
                                           const uct_iov_t *iov, size_t iovcnt,
                                           size_t *total_p)
{
    const muct_rdma_limits_t *limits = &muct_rdma_ep_iface(ep)->limits;
    size_t i, length, total = 0;
    ucs_status_t status;

    if (iovcnt > limits->max_sge) {
        muct_error("transfer of %zu blocks: expected at most %u", iovcnt,
                   limits->max_sge);
        return UCS_ERR_INVALID_PARAM;
    }

    for (i = 0; i < iovcnt; ++i) {
        length = muct_rdma_iov_length(&iov[i]);
        if ((iov[i].count > 1) && (iov[i].stride != iov[i].length)) {
            muct_error("block %zu of a transfer comes %u times at a stride of %zu "
                       "bytes: expected once, or its length of %zu as the stride",
                       i, iov[i].count, iov[i].stride, iov[i].length);
            return UCS_ERR_INVALID_PARAM;
        }
        if ((length > 0) && !muct_rdma_mem_has(iov[i].memh, iov[i].buffer, length)) {
            return muct_rdma_mem_refuse(iov[i].memh, iov[i].buffer, length);
        }
        status = muct_rdma_ep_keep_up(ep, iov[i].memh, iov[i].buffer, length);
        if (status != UCS_OK) {
            return status;
        }
        total += length;
    }

    if (total > muct_rdma_max_zcopy(limits)) {
        muct_error("transfer of %zu bytes: expected at most %zu", total,
                   muct_rdma_max_zcopy(limits));
        return UCS_ERR_INVALID_PARAM;
    }

    *total_p = total;
    return UCS_OK;
}

/*
 * Next piece of at most @a max bytes: scatter entries into @a sges (which may be NULL,
 * to count), and its length as the result. It ends where a remote key ends.
 */
static size_t muct_rdma_cursor_next(muct_rdma_cursor_t *cursor,
                                    const muct_rdma_key_t *key, size_t max,
                                    unsigned max_sge, struct ibv_sge *sges, int *num_p)
{
    size_t piece = 0, part, chunk,
           limit = muct_rdma_key_chunk_left(key, cursor->remote);
    unsigned num = 0;
    uint64_t address;

    limit = (limit < max) ? limit : max;
    limit = (limit < cursor->left) ? limit : cursor->left;
    while ((piece < limit) && (num < max_sge)) {
        part = muct_rdma_iov_length(cursor->iov) - cursor->offset;
        if (part == 0) {
            ++cursor->iov;
            cursor->offset = 0;
            continue;
        }

        address = (uint64_t)(uintptr_t)cursor->iov->buffer + cursor->offset;
        part = (part < limit - piece) ? part : limit - piece;
        chunk = muct_rdma_mem_chunk_left(cursor->iov->memh, address);
        part = (part < chunk) ? part : chunk;
        if (sges != NULL) {
            sges[num].addr = address;
            sges[num].length = (uint32_t)part;
            sges[num].lkey = muct_rdma_mem_lkey(cursor->iov->memh, address);
        }
        ++num;
        piece += part;
        cursor->offset += part;
    }

    cursor->left -= piece;
    cursor->remote += piece;
    *num_p = (int)num;
    return piece;
}

/* Bytes of a work request that give all queue pairs a fair part of the transfer. */
static size_t muct_rdma_ep_piece(const muct_rdma_ep_t *ep, size_t total)
{
    const muct_rdma_limits_t *limits = &muct_rdma_ep_iface(ep)->limits;
    size_t pieces = total / limits->stripe_size, piece;

    pieces = (pieces < ep->num_qps) ? pieces : ep->num_qps;
    piece = (pieces > 1) ? (total + pieces - 1) / pieces : total;
    piece = (pieces > 1) ? (piece + 4095) & ~(size_t)4095 : piece;
    return (piece < limits->max_msg_size) ? piece : limits->max_msg_size;
}

static void muct_rdma_chan_post_piece(muct_rdma_chan_t *chan, enum ibv_wr_opcode opcode,
                                      muct_rdma_cursor_t *cursor, size_t max,
                                      const muct_rdma_key_t *key,
                                      uct_completion_t *comp)
{
    uint64_t remote = cursor->remote;
    struct ibv_send_wr *wr;
    size_t length;

    wr = muct_rdma_sq_begin(&chan->sq, opcode);
    length = muct_rdma_cursor_next(cursor, key, max, chan->sq.max_sge, wr->sg_list,
                                   &wr->num_sge);
    muct_rdma_wr_set_remote(wr, key, remote);
    if (opcode == IBV_WR_RDMA_WRITE) {
        muct_rdma_chan_wrote(chan, key);
    }
    muct_rdma_sq_end(&chan->sq, wr, (comp != NULL) ? muct_rdma_done_comp : NULL, comp,
                     length);
}

static ucs_status_t muct_rdma_ep_zcopy_pieces(muct_rdma_ep_t *ep,
                                              enum ibv_wr_opcode opcode,
                                              const muct_rdma_cursor_t *start,
                                              const muct_rdma_key_t *key,
                                              uct_completion_t *comp)
{
    size_t piece = muct_rdma_ep_piece(ep, start->left);
    muct_rdma_cursor_t cursor = *start;
    muct_rdma_chan_t *chan;
    unsigned i, num = 0;
    int num_sge;

    while (cursor.left > 0) {
        muct_rdma_cursor_next(&cursor, key, piece,
                              muct_rdma_ep_iface(ep)->limits.max_sge, NULL, &num_sge);
        ++num;
    }

    if (num > muct_rdma_ep_free(ep)) {
        if (muct_rdma_ep_has_to_split(ep, num)) {
            return muct_rdma_ep_iov_job(ep, opcode, start->iov, start->iovcnt,
                                        start->remote, (uct_rkey_t)key, comp);
        }
        return UCS_ERR_NO_RESOURCE;
    }

    cursor = *start;
    for (num = 0; cursor.left > 0; ++num) {
        chan = muct_rdma_ep_least(ep);
        if (chan == NULL) {
            muct_rdma_ep_break(ep);
            break;
        }
        muct_rdma_chan_post_piece(chan, opcode, &cursor, piece, key, comp);
    }

    /* nothing completes before the next progress: counting now is early enough */
    if (comp != NULL) {
        comp->count += (int)num - 1;
    }

    for (i = 0; i < ep->num_qps; ++i) {
        muct_rdma_sq_kick(&ep->chans[i].sq);
    }

    return UCS_INPROGRESS;
}

/* Handle all but the common case. */
static UCS_F_NOINLINE ucs_status_t muct_rdma_ep_zcopy_any(
    muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode, const uct_iov_t *iov, size_t iovcnt,
    uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t *comp)
{
    const muct_rdma_key_t *key = muct_rdma_key_of(rkey);
    muct_rdma_cursor_t cursor = {.iov = iov, .iovcnt = iovcnt, .remote = remote_addr};
    ucs_status_t status;

    muct_trace_op((opcode == IBV_WR_RDMA_WRITE) ? "put zcopy of blocks"
                                                : "get zcopy of blocks",
                  iovcnt, remote_addr);
    status = muct_rdma_ep_check_iov(ep, iov, iovcnt, &cursor.left);
    if ((status != UCS_OK) || (cursor.left == 0)) {
        return status;
    }

    status = muct_rdma_ep_check_ready(ep);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_ep_check_key(ep, key, remote_addr, cursor.left);
    if (status != UCS_OK) {
        return status;
    }

    if ((opcode == IBV_WR_RDMA_READ) && ep->is_pulling) {
        return muct_rdma_ep_iov_job(ep, opcode, iov, iovcnt, remote_addr, rkey, comp);
    }

    return muct_rdma_ep_zcopy_pieces(ep, opcode, &cursor, key, comp);
}

/*
 * Transfer one block under one key on each side, which fits one work request. This is
 * the common case and must cost little. The tests are ordered so that all they read is
 * on three cache lines: endpoint, memory and key.
 */
static inline bool muct_rdma_ep_is_simple(const muct_rdma_ep_t *ep,
                                          const uct_iov_t *iov, size_t iovcnt,
                                          const muct_rdma_key_t *key,
                                          uint64_t remote_addr)
{
    const muct_rdma_mem_t *mem;
    size_t length;

    if (__builtin_expect(iovcnt != 1, 0)) {
        return false;
    }

    mem = iov->memh;
    length = iov->length;
    /* minus one, so that zero bytes leave the common case */
    return (iov->count <= 1) && (length - 1 < ep->max_simple) && (mem != NULL) &&
           mem->is_plain && key->is_single &&
           (key->incarnation == ep->peer.incarnation) &&
           muct_rdma_key_covers(key, remote_addr, length);
}

static UCS_F_ALWAYS_INLINE ucs_status_t muct_rdma_ep_zcopy(
    muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode, const uct_iov_t *iov, size_t iovcnt,
    uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t *comp)
{
    const muct_rdma_key_t *key = muct_rdma_key_of(rkey);
    struct ibv_send_wr *wr;
    muct_rdma_chan_t *chan;

    if (__builtin_expect(!muct_rdma_ep_is_ready(ep) ||
                             ((opcode == IBV_WR_RDMA_READ) && ep->is_pulling) ||
                             !muct_rdma_ep_is_simple(ep, iov, iovcnt, key, remote_addr),
                         0)) {
        return muct_rdma_ep_zcopy_any(ep, opcode, iov, iovcnt, remote_addr, rkey, comp);
    }

    chan = muct_rdma_ep_chan(ep);
    if (chan == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }

    wr = muct_rdma_sq_begin(&chan->sq, opcode);
    wr->num_sge = 1;
    wr->sg_list[0].addr = (uint64_t)(uintptr_t)iov->buffer;
    wr->sg_list[0].length = (uint32_t)iov->length;
    wr->sg_list[0].lkey = ((const muct_rdma_mem_t *)iov->memh)->mrs[0]->lkey;
    wr->wr.rdma.remote_addr = remote_addr;
    wr->wr.rdma.rkey = key->rkeys[0];
    if (opcode == IBV_WR_RDMA_WRITE) {
        muct_rdma_chan_wrote(chan, key);
    }
    muct_rdma_sq_end_only(&chan->sq, wr, (comp != NULL) ? muct_rdma_done_comp : NULL,
                          comp, iov->length);
    return UCS_INPROGRESS;
}

ucs_status_t muct_rdma_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey,
                                    uct_completion_t *comp)
{
    return muct_rdma_ep_zcopy((muct_rdma_ep_t *)tl_ep, IBV_WR_RDMA_WRITE, iov, iovcnt,
                              remote_addr, rkey, comp);
}

ucs_status_t muct_rdma_ep_get_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey,
                                    uct_completion_t *comp)
{
    return muct_rdma_ep_zcopy((muct_rdma_ep_t *)tl_ep, IBV_WR_RDMA_READ, iov, iovcnt,
                              remote_addr, rkey, comp);
}
