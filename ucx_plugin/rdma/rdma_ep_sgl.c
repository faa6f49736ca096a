/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Lists of blocks: chains of work requests on all queue pairs, one completion for all.
 *
 * First every block is checked and the work requests are counted, from above; so a list
 * is taken as a whole or not at all. Then blocks fill work requests, which fill queue
 * pairs up to a fair part of the bytes each.
 *
 * A work request takes up the next block when that is its neighbour in remote memory
 * under the same key: with the same entry when it is the neighbour in local memory,
 * too, with one more entry when not.
 */

#include "rdma/rdma_ep.h"

#include "base/muct_log.h"

/* A list as UCX gives it. */
typedef struct muct_rdma_sgl {
    void *const *buffers;
    const size_t *lengths;
    uct_mem_h const *memhs;
    const uint64_t *remote_addrs;
    uct_rkey_t const *rkeys;
    const size_t *counts;
    const size_t *strides;
    size_t count;
} muct_rdma_sgl_t;

/* Where posting is. */
typedef struct muct_rdma_sgl_writer {
    muct_rdma_ep_t *ep;
    muct_rdma_chan_t *chan;
    struct ibv_send_wr *wr;     /* begun and not ended, or NULL */
    const muct_rdma_key_t *key; /* of wr */
    size_t wr_length;
    uint64_t wr_end;     /* remote address behind it */
    size_t piece;        /* most bytes of a work request */
    uint64_t share;      /* bytes for a queue pair */
    uint64_t chan_bytes; /* of this list, for the present one */
    enum ibv_wr_opcode opcode;
    uct_completion_t *comp;
    int num_segments; /* ended on a queue pair */
    unsigned max_sge;
    bool has_merge;
} muct_rdma_sgl_writer_t;

size_t muct_rdma_ep_max_sgl(const muct_rdma_iface_t *iface)
{
    size_t capacity = (size_t)iface->limits.num_qps * iface->limits.tx_depth;

    /* the rest is for blocks that need several work requests */
    return (capacity > 4) ? capacity - capacity / 4 : 1;
}

static inline size_t muct_rdma_sgl_repeats(const muct_rdma_sgl_t *sgl, size_t i)
{
    return (sgl->counts != NULL) ? sgl->counts[i] : 1;
}

/* ---- check and count ---- */

static ucs_status_t muct_rdma_sgl_check(const muct_rdma_ep_t *ep,
                                        const muct_rdma_sgl_t *sgl, size_t *total_p)
{
    size_t i, total = 0, repeats, length;
    ucs_status_t status;

    if ((sgl->counts != NULL) && (sgl->strides == NULL)) {
        muct_error("list of %zu blocks has counts but no strides", sgl->count);
        return UCS_ERR_INVALID_PARAM;
    }

    for (i = 0; i < sgl->count; ++i) {
        length = sgl->lengths[i];
        repeats = muct_rdma_sgl_repeats(sgl, i);
        if ((length == 0) || (repeats == 0)) {
            continue;
        }

        if (repeats > 1) {
            length += (repeats - 1) * sgl->strides[i];
        }

        status = muct_rdma_ep_check_key(ep, (const muct_rdma_key_t *)sgl->rkeys[i],
                                        sgl->remote_addrs[i], length);
        if (status != UCS_OK) {
            return status;
        }
        total += sgl->lengths[i] * repeats;
    }

    *total_p = total;
    return UCS_OK;
}

/* Work requests of a list, at most. */
static size_t muct_rdma_sgl_bound(const muct_rdma_sgl_t *sgl, size_t piece)
{
    const muct_rdma_key_t *key;
    const muct_rdma_mem_t *mem;
    size_t i, part, repeats, bound = 0;

    for (i = 0; i < sgl->count; ++i) {
        if (sgl->lengths[i] == 0) {
            continue;
        }

        repeats = muct_rdma_sgl_repeats(sgl, i);
        part = 1;
        if (__builtin_expect(sgl->lengths[i] > piece, 0)) {
            part += (sgl->lengths[i] - 1) / piece;
        }

        key = (const muct_rdma_key_t *)sgl->rkeys[i];
        mem = sgl->memhs[i];
        if (__builtin_expect((key->num_rkeys > 1) || (mem->num > 1), 0)) {
            part += (sgl->lengths[i] >> key->chunk_shift) +
                    (sgl->lengths[i] >> mem->chunk_shift) + 2;
        }
        bound += part * repeats;
    }

    return bound;
}

/* ---- post ---- */

static void muct_rdma_sgl_end_wr(muct_rdma_sgl_writer_t *writer, bool is_last)
{
    bool has_comp = is_last && (writer->comp != NULL);

    muct_rdma_sq_end(&writer->chan->sq, writer->wr,
                     has_comp ? muct_rdma_done_comp : NULL, writer->comp,
                     writer->wr_length);
    writer->wr = NULL;
}

/* The queue pair has its part: the last work request tells of the end of all of it. */
static void muct_rdma_sgl_end_chan(muct_rdma_sgl_writer_t *writer)
{
    muct_rdma_sgl_end_wr(writer, true);
    muct_rdma_sq_ring(&writer->chan->sq);
    ++writer->num_segments;
}

/* Have a queue pair that can take one more work request. */
static bool muct_rdma_sgl_next_chan(muct_rdma_sgl_writer_t *writer)
{
    if (writer->chan != NULL) {
        if ((muct_rdma_sq_free(&writer->chan->sq) > 1) &&
            ((writer->chan_bytes < writer->share) || (writer->ep->num_qps == 1))) {
            muct_rdma_sgl_end_wr(writer, false);
            return muct_rdma_sq_free(&writer->chan->sq) > 0;
        }
        muct_rdma_sgl_end_chan(writer);
    }

    writer->chan = muct_rdma_ep_least(writer->ep);
    writer->chan_bytes = 0;
    return writer->chan != NULL;
}

static bool muct_rdma_sgl_begin_wr(muct_rdma_sgl_writer_t *writer,
                                   const muct_rdma_key_t *key, uint64_t remote)
{
    struct ibv_send_wr *wr;

    if (!muct_rdma_sgl_next_chan(writer)) {
        return false;
    }

    wr = muct_rdma_sq_begin(&writer->chan->sq, writer->opcode);
    wr->num_sge = 0;
    wr->wr.rdma.remote_addr = remote;
    wr->wr.rdma.rkey = key->rkeys[muct_rdma_key_chunk(key, remote)];
    if (writer->opcode == IBV_WR_RDMA_WRITE) {
        muct_rdma_chan_wrote(writer->chan, key, remote, wr->wr.rdma.rkey);
    }
    writer->wr = wr;
    writer->key = key;
    writer->wr_length = 0;
    writer->wr_end = remote;
    return true;
}

/* Whether the open work request takes up a part; it does then. */
static inline bool muct_rdma_sgl_extend(muct_rdma_sgl_writer_t *writer,
                                        const muct_rdma_key_t *key, uint64_t remote,
                                        uint64_t local, uint32_t lkey, size_t part)
{
    struct ibv_send_wr *wr = writer->wr;
    struct ibv_sge *sge;

    if ((wr == NULL) || (remote != writer->wr_end) || (key != writer->key) ||
        (writer->wr_length + part > writer->piece) || !writer->has_merge ||
        (key->rkeys[muct_rdma_key_chunk(key, remote)] != wr->wr.rdma.rkey)) {
        return false;
    }

    sge = &wr->sg_list[wr->num_sge - 1];
    if ((sge->addr + sge->length == local) && (sge->lkey == lkey)) {
        sge->length += (uint32_t)part;
    } else if ((unsigned)wr->num_sge < writer->max_sge) {
        ++sge;
        ++wr->num_sge;
        sge->addr = local;
        sge->length = (uint32_t)part;
        sge->lkey = lkey;
    } else {
        return false;
    }

    return true;
}

static bool muct_rdma_sgl_put_block(muct_rdma_sgl_writer_t *writer, uint64_t local,
                                    const muct_rdma_mem_t *mem, uint64_t remote,
                                    const muct_rdma_key_t *key, size_t length)
{
    size_t part, left;
    uint32_t lkey;

    while (length > 0) {
        part = (length < writer->piece) ? length : writer->piece;
        left = muct_rdma_key_chunk_left(key, remote);
        part = (part < left) ? part : left;
        left = muct_rdma_mem_chunk_left(mem, local);
        part = (part < left) ? part : left;
        lkey = muct_rdma_mem_lkey(mem, local);

        if (!muct_rdma_sgl_extend(writer, key, remote, local, lkey, part)) {
            if (!muct_rdma_sgl_begin_wr(writer, key, remote)) {
                return false;
            }
            writer->wr->num_sge = 1;
            writer->wr->sg_list[0].addr = local;
            writer->wr->sg_list[0].length = (uint32_t)part;
            writer->wr->sg_list[0].lkey = lkey;
        }

        writer->wr_length += part;
        writer->wr_end += part;
        writer->chan_bytes += part;
        local += part;
        remote += part;
        length -= part;
    }

    return true;
}

static bool muct_rdma_sgl_put_all(muct_rdma_sgl_writer_t *writer,
                                  const muct_rdma_sgl_t *sgl)
{
    size_t i, j, repeats, offset;

    for (i = 0; i < sgl->count; ++i) {
        repeats = muct_rdma_sgl_repeats(sgl, i);
        for (j = 0; j < repeats; ++j) {
            offset = (j > 0) ? j * sgl->strides[i] : 0;
            if (!muct_rdma_sgl_put_block(
                    writer, (uint64_t)(uintptr_t)sgl->buffers[i] + offset,
                    sgl->memhs[i], sgl->remote_addrs[i] + offset,
                    (const muct_rdma_key_t *)sgl->rkeys[i], sgl->lengths[i])) {
                return false;
            }
        }
    }

    return true;
}

static void muct_rdma_sgl_post(muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode,
                               const muct_rdma_sgl_t *sgl, size_t total, size_t piece,
                               uct_completion_t *comp)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    muct_rdma_sgl_writer_t writer = {
        .ep = ep,
        .piece = piece,
        .share = (total + ep->num_qps - 1) / ep->num_qps,
        .opcode = opcode,
        .comp = comp,
        .max_sge = iface->limits.max_sge,
        .has_merge = iface->limits.has_merge,
    };

    if (writer.share < iface->limits.stripe_size) {
        writer.share = iface->limits.stripe_size;
    }

    if (!muct_rdma_sgl_put_all(&writer, sgl)) {
        muct_rdma_ep_break(ep);
    }

    if (writer.wr != NULL) {
        muct_rdma_sgl_end_chan(&writer);
    }

    /* nothing completes before the next progress: counting now is early enough */
    if (comp != NULL) {
        comp->count += writer.num_segments - 1;
    }
}

static ucs_status_t muct_rdma_ep_sgl(muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode,
                                     const muct_rdma_sgl_t *sgl, uct_completion_t *comp)
{
    const muct_rdma_limits_t *limits = &muct_rdma_ep_iface(ep)->limits;
    size_t total, piece, bound, capacity, room = 0;
    ucs_status_t status;
    unsigned i;

    status = muct_rdma_ep_check_ready(ep);
    if (status != UCS_OK) {
        return status;
    }

    if (sgl->count > muct_rdma_ep_max_sgl(muct_rdma_ep_iface(ep))) {
        muct_error("list of %zu blocks: at most %zu are possible", sgl->count,
                   muct_rdma_ep_max_sgl(muct_rdma_ep_iface(ep)));
        return UCS_ERR_INVALID_PARAM;
    }

    status = muct_rdma_sgl_check(ep, sgl, &total);
    if ((status != UCS_OK) || (total == 0)) {
        return status;
    }

    piece = (total + ep->num_qps - 1) / ep->num_qps;
    piece = (piece > limits->stripe_size) ? (piece + 4095) & ~(size_t)4095
                                          : limits->stripe_size;
    piece = ((ep->num_qps > 1) && (piece < limits->max_msg_size))
                ? piece
                : limits->max_msg_size;
    bound = muct_rdma_sgl_bound(sgl, piece);
    capacity = (size_t)ep->num_qps * ep->chans[0].sq.depth;
    if (bound > capacity) {
        muct_error("list of %zu blocks, %zu bytes, may need %zu work requests, and the "
                   "queues hold %zu: raise TX_DEPTH or NUM_QPS, or split it",
                   sgl->count, total, bound, capacity);
        return UCS_ERR_INVALID_PARAM;
    }

    for (i = 0; i < ep->num_qps; ++i) {
        room += muct_rdma_sq_free(&ep->chans[i].sq);
    }

    if (bound > room) {
        return UCS_ERR_NO_RESOURCE;
    }

    muct_rdma_sgl_post(ep, opcode, sgl, total, piece, comp);
    return UCS_INPROGRESS;
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

    return muct_rdma_ep_sgl((muct_rdma_ep_t *)ep, IBV_WR_RDMA_WRITE, &sgl, comp);
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

    return muct_rdma_ep_sgl((muct_rdma_ep_t *)ep, IBV_WR_RDMA_READ, &sgl, comp);
}
