/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Lists of blocks: chains of work requests on all queue pairs, one completion for all.
 *
 * First every block is checked and the work requests are counted, from above; so a list
 * is taken as a whole or not at all. Then blocks fill work requests, which fill queue
 * pairs up to a fair part of the bytes each.
 *
 * A list that may need more work requests than the queues ever hold (blocks larger than
 * the device sends at once, many keys) is copied and becomes a job, which goes on
 * whenever there is room. Until it is posted, other operations wait behind it.
 *
 * A work request takes up the next block when that is its neighbour in remote memory
 * under the same key: with the same entry when it is the neighbour in local memory,
 * too, with one more entry when not.
 */

#include "rdma/rdma_ep.h"

#include "base/muct_log.h"

#include <stdlib.h>
#include <string.h>

#define MUCT_RDMA_MIN_MAX_SGL 256

/* A list as UCX gives it, or as a job keeps it. */
struct muct_rdma_sgl {
    void *const *buffers;
    const size_t *lengths;
    uct_mem_h const *memhs;
    const uint64_t *remote_addrs;
    uct_rkey_t const *rkeys;
    const size_t *counts;
    const size_t *strides;
    size_t count;
};

/* The first byte that is not posted yet. */
typedef struct muct_rdma_sgl_pos {
    size_t index;
    size_t repeat;
    size_t offset; /* in the block */
} muct_rdma_sgl_pos_t;

struct muct_rdma_job {
    muct_rdma_sgl_t sgl;
    muct_rdma_sgl_pos_t pos;
    enum ibv_wr_opcode opcode;
    size_t piece;
    size_t total;
    uct_completion_t *comp; /* one of its counts is the job's */
    uint64_t arrays[];
};

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
    size_t max = (size_t)iface->limits.num_qps * iface->limits.tx_depth * 3 / 4;

    /* a quarter is for blocks that need several work requests; short queues have jobs
     */
    return (max > MUCT_RDMA_MIN_MAX_SGL) ? max : MUCT_RDMA_MIN_MAX_SGL;
}

static inline size_t muct_rdma_sgl_repeats(const muct_rdma_sgl_t *sgl, size_t i)
{
    return (sgl->counts != NULL) ? sgl->counts[i] : 1;
}

/* ---- check and count ---- */

/* Borders of chunks inside a block of @a length bytes at @a offset. */
static inline size_t muct_rdma_sgl_borders(uint64_t offset, size_t length,
                                           uint8_t shift)
{
    return (size_t)(((offset + length - 1) >> shift) - (offset >> shift));
}

/* A block that is not plain: repeated, or under several keys. */
static ucs_status_t muct_rdma_sgl_check_odd(const muct_rdma_ep_t *ep,
                                            const muct_rdma_sgl_t *sgl, size_t i,
                                            size_t *total_p, size_t *bound_p)
{
    const muct_rdma_key_t *key = (const muct_rdma_key_t *)sgl->rkeys[i];
    size_t length = sgl->lengths[i], repeats = muct_rdma_sgl_repeats(sgl, i);
    const muct_rdma_mem_t *mem = sgl->memhs[i];
    ucs_status_t status;

    if ((length == 0) || (repeats == 0)) {
        return UCS_OK;
    }

    if (mem == NULL) {
        muct_error("block %zu of a list has no memory handle", i);
        return UCS_ERR_INVALID_PARAM;
    }

    status = muct_rdma_ep_check_key(
        ep, key, sgl->remote_addrs[i],
        length + ((repeats > 1) ? (repeats - 1) * sgl->strides[i] : 0));
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

/* Bytes of a list, and work requests it may need when none is too long for one. */
static ucs_status_t muct_rdma_sgl_check(const muct_rdma_ep_t *ep,
                                        const muct_rdma_sgl_t *sgl, size_t *total_p,
                                        size_t *bound_p)
{
    const muct_rdma_key_t *key;
    const muct_rdma_mem_t *mem;
    size_t i, length, total = 0, bound = 0;
    ucs_status_t status;

    if ((sgl->counts != NULL) && (sgl->strides == NULL)) {
        muct_error("list of %zu blocks has counts but no strides", sgl->count);
        return UCS_ERR_INVALID_PARAM;
    }

    for (i = 0; i < sgl->count; ++i) {
        key = (const muct_rdma_key_t *)sgl->rkeys[i];
        mem = sgl->memhs[i];
        length = sgl->lengths[i];
        if (__builtin_expect(
                (sgl->counts == NULL) && (length > 0) && (mem != NULL) &&
                    (mem->num == 1) && (key->num_rkeys == 1) &&
                    (key->incarnation == ep->peer.incarnation) &&
                    muct_rdma_key_covers(key, sgl->remote_addrs[i], length),
                1)) {
            total += length;
            ++bound;
            continue;
        }

        status = muct_rdma_sgl_check_odd(ep, sgl, i, &total, &bound);
        if (status != UCS_OK) {
            return status;
        }
    }

    *total_p = total;
    *bound_p = bound;
    return UCS_OK;
}

/* ---- post ---- */

static inline void muct_rdma_sgl_end_wr(muct_rdma_sgl_writer_t *writer)
{
    muct_rdma_sq_end(&writer->chan->sq, writer->wr, NULL, NULL, writer->wr_length);
    writer->wr = NULL;
}

/* The queue pair has its part: its last work request tells of the end of all of it. */
static void muct_rdma_sgl_end_chan(muct_rdma_sgl_writer_t *writer)
{
    muct_rdma_sq_t *sq = &writer->chan->sq;
    muct_rdma_slot_t *slot;

    if (writer->wr != NULL) {
        muct_rdma_sgl_end_wr(writer);
    }

    if (writer->comp != NULL) {
        slot = &sq->slots[(sq->head - 1) & sq->mask];
        slot->done = muct_rdma_done_comp;
        slot->arg = writer->comp;
    }

    muct_rdma_sq_ring(sq);
    writer->chan = NULL;
    ++writer->num_segments;
}

/* Have a queue pair that can take one more work request. */
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

/* Post a block; how many of its bytes found room. */
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

/*
 * The common block: under one key on each side, no longer than a work request, no
 * neighbour of the one before, and the queue pair is not done. False when it is
 * another.
 */
static inline bool muct_rdma_sgl_put_plain(muct_rdma_sgl_writer_t *writer,
                                           const muct_rdma_sgl_t *sgl, size_t i)
{
    const muct_rdma_key_t *key = (const muct_rdma_key_t *)sgl->rkeys[i];
    const muct_rdma_mem_t *mem = sgl->memhs[i];
    uint64_t remote = sgl->remote_addrs[i];
    size_t length = sgl->lengths[i];
    struct ibv_send_wr *wr;
    muct_rdma_sq_t *sq;

    /* a block of no bytes may have no key and no handle */
    if ((writer->wr == NULL) || (length == 0) || (key->num_rkeys != 1) ||
        (mem->num != 1) || (length > writer->piece) || (remote == writer->wr_end) ||
        (writer->chan_bytes >= writer->share)) {
        return false;
    }

    sq = &writer->chan->sq;
    muct_rdma_sgl_end_wr(writer);
    if (muct_rdma_sq_free(sq) == 0) {
        return false;
    }

    wr = muct_rdma_sq_begin(sq, writer->opcode);
    wr->num_sge = 1;
    wr->sg_list[0].addr = (uint64_t)(uintptr_t)sgl->buffers[i];
    wr->sg_list[0].length = (uint32_t)length;
    wr->sg_list[0].lkey = mem->mrs[0]->lkey;
    wr->wr.rdma.remote_addr = remote;
    wr->wr.rdma.rkey = key->rkeys[0];
    if (writer->opcode == IBV_WR_RDMA_WRITE) {
        muct_rdma_chan_wrote(writer->chan, key, remote, key->rkeys[0]);
    }
    writer->wr = wr;
    writer->key = key;
    writer->wr_length = length;
    writer->wr_end = remote + length;
    writer->chan_bytes += length;
    return true;
}

/* Post from a position on, and move it; true when the end was reached. */
static bool muct_rdma_sgl_put_from(muct_rdma_sgl_writer_t *writer,
                                   const muct_rdma_sgl_t *sgl, muct_rdma_sgl_pos_t *pos)
{
    size_t offset, left;

    for (; pos->index < sgl->count; ++pos->index, pos->repeat = 0) {
        if ((sgl->counts == NULL) && (pos->offset == 0) && (pos->repeat == 0) &&
            muct_rdma_sgl_put_plain(writer, sgl, pos->index)) {
            continue;
        }

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
                return false;
            }
            pos->offset = 0;
        }
    }

    return true;
}

/* Post from a position on; how many parts of the list will complete on their own. */
static int muct_rdma_sgl_post(muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode,
                              const muct_rdma_sgl_t *sgl, muct_rdma_sgl_pos_t *pos,
                              size_t total, size_t piece, uct_completion_t *comp)
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

    if (ep->num_qps == 1) {
        writer.share = UINT64_MAX;
    } else if (writer.share < iface->limits.stripe_size) {
        writer.share = iface->limits.stripe_size;
    }

    (void)muct_rdma_sgl_put_from(&writer, sgl, pos);
    if (writer.chan != NULL) {
        muct_rdma_sgl_end_chan(&writer);
    }

    return writer.num_segments;
}

/* ---- jobs ---- */

static void *muct_rdma_job_copy(uint64_t **array_p, const void *from, size_t count)
{
    uint64_t *array = *array_p;

    if (from == NULL) {
        return NULL;
    }

    memcpy(array, from, count * sizeof(*array));
    *array_p += count;
    return array;
}

void muct_rdma_job_end(muct_rdma_ep_t *ep, ucs_status_t status)
{
    muct_rdma_job_t *job = ep->job;

    ep->job = NULL;
    if (ep->is_job_fenced) {
        ep->is_job_fenced = false;
        (void)muct_rdma_ep_fence(&ep->super.super, 0);
    }

    if (job->comp != NULL) {
        muct_completion_invoke(job->comp, status);
    }
    free(job);
}

void muct_rdma_job_progress(muct_rdma_ep_t *ep)
{
    muct_rdma_job_t *job = ep->job;
    int num;

    num = muct_rdma_sgl_post(ep, job->opcode, &job->sgl, &job->pos, job->total,
                             job->piece, job->comp);
    if (job->comp != NULL) {
        job->comp->count += num;
    }

    if (job->pos.index == job->sgl.count) {
        muct_rdma_job_end(ep, UCS_OK);
    }
}

/* Every array's elements are as large as a pointer. */
static ucs_status_t muct_rdma_job_start(muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode,
                                        const muct_rdma_sgl_t *sgl, size_t total,
                                        size_t piece, uct_completion_t *comp)
{
    size_t n = sgl->count;
    muct_rdma_job_t *job = malloc(sizeof(*job) + 7 * n * sizeof(job->arrays[0]));
    uint64_t *array;

    if (job == NULL) {
        muct_error("failed to allocate a list of %zu blocks", n);
        return UCS_ERR_NO_MEMORY;
    }

    memset(job, 0, sizeof(*job));
    array = job->arrays;
    job->sgl.buffers = muct_rdma_job_copy(&array, sgl->buffers, n);
    job->sgl.lengths = muct_rdma_job_copy(&array, sgl->lengths, n);
    job->sgl.memhs = muct_rdma_job_copy(&array, sgl->memhs, n);
    job->sgl.remote_addrs = muct_rdma_job_copy(&array, sgl->remote_addrs, n);
    job->sgl.rkeys = muct_rdma_job_copy(&array, sgl->rkeys, n);
    job->sgl.counts = muct_rdma_job_copy(&array, sgl->counts, n);
    job->sgl.strides = muct_rdma_job_copy(&array, sgl->strides, n);
    job->sgl.count = n;
    job->opcode = opcode;
    job->piece = piece;
    job->total = total;
    job->comp = comp;
    ep->job = job;
    ep->has_event = true;
    muct_rdma_ep_add_work(ep);
    return UCS_INPROGRESS;
}

/* ---- operations ---- */

static ucs_status_t muct_rdma_ep_sgl(muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode,
                                     const muct_rdma_sgl_t *sgl, uct_completion_t *comp)
{
    const muct_rdma_limits_t *limits = &muct_rdma_ep_iface(ep)->limits;
    muct_rdma_sgl_pos_t pos = {0, 0, 0};
    size_t total, piece, bound;
    ucs_status_t status;
    int num;

    status = muct_rdma_sgl_check(ep, sgl, &total, &bound);
    if ((status != UCS_OK) || (total == 0)) {
        return status;
    }

    piece = (total + ep->num_qps - 1) / ep->num_qps;
    piece = (piece > limits->stripe_size) ? (piece + 4095) & ~(size_t)4095
                                          : limits->stripe_size;
    piece = ((ep->num_qps > 1) && (piece < limits->max_msg_size))
                ? piece
                : limits->max_msg_size;
    bound += total / piece; /* a block is cut at every piece of it at most */
    if (bound > muct_rdma_ep_free(ep)) {
        if (bound > (size_t)ep->num_qps * ep->chans[0].sq.depth) {
            return muct_rdma_job_start(ep, opcode, sgl, total, piece, comp);
        }
        return UCS_ERR_NO_RESOURCE;
    }

    num = muct_rdma_sgl_post(ep, opcode, sgl, &pos, total, piece, comp);
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

    status = muct_rdma_ep_check_ready(ep);
    if (status != UCS_OK) {
        return status;
    }

    if (sgl->count > max) {
        muct_error("list of %zu blocks: at most %zu are possible", sgl->count, max);
        return UCS_ERR_INVALID_PARAM;
    }

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
