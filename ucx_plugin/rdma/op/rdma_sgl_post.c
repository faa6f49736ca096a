/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Lists of blocks into chains of work requests: blocks fill work requests, which fill
 * queue pairs up to a fair part of the bytes each.
 *
 * A work request takes up the next block when that is its neighbour in remote memory
 * under the same key: with the same entry when it is the neighbour in local memory,
 * too, with one more entry when not.
 */

#include "rdma/op/rdma_sgl.h"

#include "rdma/ep/rdma_ep_flush.h"

/* State of posting a list. */
typedef struct muct_rdma_sgl_writer {
    muct_rdma_ep_t *ep;
    muct_rdma_chan_t *chan;
    struct ibv_send_wr *wr;     /* the open work request, or NULL */
    const muct_rdma_key_t *key; /* remote key of wr */
    size_t wr_length;
    uint64_t wr_end;     /* remote address behind wr */
    size_t piece;        /* most bytes of a work request */
    uint64_t share;      /* bytes for a queue pair */
    uint64_t chan_bytes; /* bytes of this list on the present queue pair */
    enum ibv_wr_opcode opcode;
    uct_completion_t *comp;
    int num_segments; /* parts of the list that were ended, each on a queue pair */
    size_t
        run_end; /* blocks before this index have the same keys as their predecessor */
    unsigned max_sge;
} muct_rdma_sgl_writer_t;

static inline void muct_rdma_sgl_end_wr(muct_rdma_sgl_writer_t *writer)
{
    muct_rdma_sq_end_silent(&writer->chan->sq, writer->wr, writer->wr_length);
    writer->wr = NULL;
}

/* Finish the queue pair's part: the completion of its last work request covers all
 * earlier ones. */
static void muct_rdma_sgl_end_chan(muct_rdma_sgl_writer_t *writer)
{
    muct_rdma_sq_t *sq = &writer->chan->sq;
    muct_rdma_mark_t *mark;

    if (writer->wr != NULL) {
        muct_rdma_sgl_end_wr(writer);
    }

    if (writer->comp != NULL) {
        mark = muct_rdma_sq_last_mark(sq);
        mark->done = muct_rdma_done_comp;
        mark->arg = writer->comp;
    }

    muct_rdma_sq_ring(sq);
    writer->chan = NULL;
    ++writer->num_segments;
}

/* Select a queue pair with room for one more work request. */
static bool muct_rdma_sgl_next_chan(muct_rdma_sgl_writer_t *writer)
{
    if (writer->chan != NULL) {
        if (writer->wr != NULL) {
            muct_rdma_sgl_end_wr(writer);
        }
        if ((muct_rdma_sq_free(&writer->chan->sq) > 0) &&
            (writer->chan_bytes < writer->share)) {
            return true;
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
        muct_rdma_chan_wrote(writer->chan, key);
    }
    writer->wr = wr;
    writer->key = key;
    writer->wr_length = 0;
    writer->wr_end = remote;
    return true;
}

/* Append a part to the open work request. @return Whether it fits there. */
static inline bool muct_rdma_sgl_extend(muct_rdma_sgl_writer_t *writer,
                                        const muct_rdma_key_t *key, uint64_t remote,
                                        uint64_t local, uint32_t lkey, size_t part)
{
    struct ibv_send_wr *wr = writer->wr;
    struct ibv_sge *sge;

    if ((wr == NULL) || (remote != writer->wr_end) || (key != writer->key) ||
        (writer->wr_length + part > writer->piece) ||
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

/* Post a block and return how many of its bytes found room. */
static size_t muct_rdma_sgl_put_block(muct_rdma_sgl_writer_t *writer, uint64_t local,
                                      const muct_rdma_mem_t *mem, uint64_t remote,
                                      const muct_rdma_key_t *key, size_t length)
{
    size_t part, left, done = 0;
    uint32_t lkey;

    while (done < length) {
        left = length - done;
        part = (left < writer->piece) ? left : writer->piece;
        left = muct_rdma_key_chunk_left(key, remote);
        part = (part < left) ? part : left;
        left = muct_rdma_mem_chunk_left(mem, local);
        part = (part < left) ? part : left;
        lkey = muct_rdma_mem_lkey(mem, local);

        if (!muct_rdma_sgl_extend(writer, key, remote, local, lkey, part)) {
            if (!muct_rdma_sgl_begin_wr(writer, key, remote)) {
                break;
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
        done += part;
    }

    return done;
}

/* ---- plain blocks ---- */

/* Number of work requests that may be written without another check of the queue. */
static inline uint32_t muct_rdma_sgl_run_room(const muct_rdma_sq_t *sq, size_t blocks)
{
    uint32_t room = muct_rdma_sq_free(sq);
    uint32_t chain = sq->batch - (sq->head - sq->posted);
    /* the low half of wr_ids may wrap where the ring of entries ends */
    uint32_t ring = sq->wr_mask + 1 - (sq->head & sq->wr_mask);

    room = (room < chain) ? room : chain;
    room = (room < ring) ? room : ring;
    return (room < blocks) ? room : (uint32_t)blocks;
}

/*
 * Write a work request for each block of a run, as long as no block is the neighbour of
 * the one before: at least one, and at most @a room. The last one is left open for a
 * neighbour. This loop is the cost of a block: all that can be computed outside is, and
 * it is not inlined, so that it has all registers.
 */
static UCS_F_NOINLINE size_t muct_rdma_sgl_fill_run(muct_rdma_sgl_writer_t *writer,
                                                    const muct_rdma_sgl_t *sgl,
                                                    size_t i, uint32_t room)
{
    muct_rdma_sq_t *sq = &writer->chan->sq;
    struct ibv_send_wr *first = muct_rdma_sq_next(sq), *wr = first;
    const struct ibv_send_wr *end = first + room;
    const muct_rdma_key_t *key = (const muct_rdma_key_t *)sgl->rkeys[i];
    const uint32_t lkey = ((const muct_rdma_mem_t *)sgl->memhs[i])->mrs[0]->lkey;
    const uint32_t rkey = key->rkeys[0];
    const enum ibv_wr_opcode opcode = writer->opcode;
    const uint64_t share = writer->share;
    uint64_t id = sq->id | sq->head, remote = sgl->remote_addrs[i];
    uint64_t bytes = writer->chan_bytes, wr_end;
    size_t length;

    do {
        length = sgl->lengths[i];
        wr->wr_id = id++;
        wr->num_sge = 1;
        wr->opcode = opcode;
        wr->send_flags = 0;
        wr->wr.rdma.remote_addr = remote;
        wr->wr.rdma.rkey = rkey;
        wr->sg_list->addr = (uint64_t)(uintptr_t)sgl->buffers[i];
        wr->sg_list->length = (uint32_t)length;
        wr->sg_list->lkey = lkey;
        bytes += length;
        wr_end = remote + length;
        ++i;
        if (++wr == end) {
            break;
        }
        remote = sgl->remote_addrs[i];
    } while ((remote != wr_end) && (bytes < share));

    --wr;
    sq->head += (uint32_t)(wr - first); /* all except the open one */
    bytes -= writer->chan_bytes;
    writer->chan_bytes += bytes;
    sq->bytes += bytes - length;
    writer->wr = wr;
    writer->wr_length = length;
    writer->wr_end = wr_end;
    writer->key = key;
    return i;
}

/* The first block behind @a i with other keys than block @a i. */
static size_t muct_rdma_sgl_run_end(const muct_rdma_sgl_t *sgl, size_t i)
{
    size_t end = i + 1;

    while ((end < sgl->count) && (sgl->memhs[end] == sgl->memhs[i]) &&
           (sgl->rkeys[end] == sgl->rkeys[i])) {
        ++end;
    }

    return end;
}

/* Post equal blocks from @a i on; 0 when the first needs all checks */
static inline size_t muct_rdma_sgl_put_run(muct_rdma_sgl_writer_t *writer,
                                           const muct_rdma_sgl_t *sgl, size_t i)
{
    const muct_rdma_key_t *key = (const muct_rdma_key_t *)sgl->rkeys[i];
    uint32_t room;

    if ((writer->wr == NULL) || (sgl->remote_addrs[i] == writer->wr_end) ||
        (writer->chan_bytes >= writer->share)) {
        return i;
    }

    if (i >= writer->run_end) {
        writer->run_end = muct_rdma_sgl_run_end(sgl, i);
    }

    muct_rdma_sgl_end_wr(writer);
    room = muct_rdma_sgl_run_room(&writer->chan->sq, writer->run_end - i);
    if (room == 0) {
        return i;
    }

    i = muct_rdma_sgl_fill_run(writer, sgl, i, room);
    if (writer->opcode == IBV_WR_RDMA_WRITE) {
        muct_rdma_chan_wrote(writer->chan, key);
    }
    return i;
}

/* A list of plain blocks: contiguous runs, and single blocks that need all checks
 * between them. Not inlined, so that the loop keeps its variables in registers. */
static UCS_F_NOINLINE void muct_rdma_sgl_put_plain(muct_rdma_sgl_writer_t *writer,
                                                   const muct_rdma_sgl_t *sgl,
                                                   muct_rdma_sgl_pos_t *pos)
{
    size_t i = pos->index, next;

    while (i < sgl->count) {
        next = muct_rdma_sgl_put_run(writer, sgl, i);
        if (next > i) {
            i = next;
            continue;
        }

        if (muct_rdma_sgl_put_block(writer, (uint64_t)(uintptr_t)sgl->buffers[i],
                                    sgl->memhs[i], sgl->remote_addrs[i],
                                    (const muct_rdma_key_t *)sgl->rkeys[i],
                                    sgl->lengths[i]) < sgl->lengths[i]) {
            break;
        }
        ++i;
    }

    pos->index = i;
}

/* ---- all blocks ---- */

/* Post from a position on, and advance it. */
static void muct_rdma_sgl_put_from(muct_rdma_sgl_writer_t *writer,
                                   const muct_rdma_sgl_t *sgl, muct_rdma_sgl_pos_t *pos)
{
    size_t offset, left;

    for (; pos->index < sgl->count; ++pos->index, pos->repeat = 0) {
        for (; pos->repeat < muct_rdma_sgl_repeats(sgl, pos->index); ++pos->repeat) {
            offset = pos->offset;
            if (pos->repeat > 0) {
                offset += pos->repeat * sgl->strides[pos->index];
            }

            left = sgl->lengths[pos->index] - pos->offset;
            pos->offset += muct_rdma_sgl_put_block(
                writer, (uint64_t)(uintptr_t)sgl->buffers[pos->index] + offset,
                sgl->memhs[pos->index], sgl->remote_addrs[pos->index] + offset,
                (const muct_rdma_key_t *)sgl->rkeys[pos->index], left);
            if (pos->offset < sgl->lengths[pos->index]) {
                return;
            }
            pos->offset = 0;
        }
    }
}

int muct_rdma_sgl_post(muct_rdma_ep_t *ep, const muct_rdma_sgl_plan_t *plan,
                       const muct_rdma_sgl_t *sgl, muct_rdma_sgl_pos_t *pos)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    muct_rdma_sgl_writer_t writer = {
        .ep = ep,
        .piece = plan->piece,
        .share = (plan->total + ep->num_qps - 1) / ep->num_qps,
        .opcode = plan->opcode,
        .comp = plan->comp,
        .run_end = plan->run_end,
        .max_sge = iface->limits.max_sge,
    };

    if (ep->num_qps == 1) {
        writer.share = UINT64_MAX;
    } else if (writer.share < iface->limits.stripe_size) {
        writer.share = iface->limits.stripe_size;
    }

    if (plan->is_plain) {
        muct_rdma_sgl_put_plain(&writer, sgl, pos);
    } else {
        muct_rdma_sgl_put_from(&writer, sgl, pos);
    }

    if (writer.chan != NULL) {
        muct_rdma_sgl_end_chan(&writer);
    }

    return writer.num_segments;
}
