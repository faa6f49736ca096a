/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A request on the wire, behind the header of a message: address at the peer (8), our
 * address (8), key at the peer (4), our key (4), length (4). Answers come in the order
 * of the requests, each behind its write on the same queue pair. The id of an answer
 * has flags.
 *
 * Our key is that of the device that carries the endpoint when the request is sent, and
 * changes if it is posted again by another one. The peer's one is that of the
 * endpoint's own device. A request that was received before the endpoint moved has a
 * key of the old device. Where the peer holds no key of the new one, it writes nothing
 * and answers that we have to send the request again.
 *
 * The peer may read only memory whose key it has: the request is refused unless a
 * region of this device, open to reads, has that key and holds the whole piece.
 *
 * A GPU is flushed in the same way. The request arrives behind our writes, and the NIC
 * reads from the GPU's page to answer it. On PCIe that read pushes the writes, as a
 * read by the peer's queue pair does. Writes of other queue pairs are acknowledged
 * before the request is sent.
 *
 * An answer proves that our device has the peer's write, not that our GPU has it. So a
 * get into a GPU ends only when our device has also read from that GPU: it writes a
 * byte of the GPU's page to the peer's flush page.
 *
 * The peer's requests and our own operations take turns in a full send queue. After
 * answers, the next room is for operations that wait. After that the next room is for
 * answers, and operations wait until it is enough for one.
 */

#include "rdma/op/rdma_pull.h"

#include "base/muct_bytes.h"
#include "base/muct_log.h"
#include "rdma/ep/rdma_carrier.h"
#include "rdma/ep/rdma_ep_flush.h"
#include "rdma/ep/rdma_ep_wait.h"
#include "rdma/memory/rdma_rkeys.h"
#include "rdma/op/rdma_am.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Requests of an endpoint that are not answered yet, at most. */
#define MUCT_RDMA_PULL_DEPTH 16

#define MUCT_RDMA_PULL_SIZE 28
#define MUCT_RDMA_PULL_OUR_KEY 20 /* offset */

/* Flags of an answer */
enum {
    MUCT_RDMA_PULLED_REFUSED = 1 << 0, /* no region has the key */
    MUCT_RDMA_PULLED_READS = 1 << 1,   /* the sender's device has granted reads
                                        * meanwhile */
    MUCT_RDMA_PULLED_AGAIN = 1 << 2 /* our key is of a device that was left; an earlier
                                     * release looks at REFUSED alone */
};

typedef struct muct_rdma_piece {
    uint64_t remote; /* address at the owner of the memory */
    uint64_t local;  /* address at the requesting side */
    uint32_t remote_key;
    uint32_t local_key;
    uint32_t local_device; /* peer's requests: low half of the incarnation of
                              local_key's device */
    uint32_t epoch;        /* own requests: recover.epoch when the request was sent */
    uint32_t length;
} muct_rdma_piece_t;

struct muct_rdma_pull {
    uint32_t num;
    uint32_t sent;
    uint32_t ended;
    bool has_reads;       /* the last answer had flag READS, and this side may read */
    uint64_t gpus;        /* bit mask of our GPUs with writes that no read has pushed */
    muct_rdma_buf_t *buf; /* buffer of the get, which lends its memory to the request;
                             NULL: the get has no buffer */
    muct_rdma_done_t done;
    void *arg;
    muct_rdma_piece_t pieces[];
};

/* Requests of the peer that wait to be served */
struct muct_rdma_served {
    uint32_t head;
    uint32_t tail;
    bool is_our_turn;
    muct_rdma_piece_t ring[MUCT_RDMA_PULL_DEPTH];
};

/* ---- begin, end ---- */

static muct_rdma_pull_t *muct_rdma_pull_new(size_t num, muct_rdma_done_t done,
                                            void *arg)
{
    muct_rdma_pull_t *pull =
        (num <= UINT32_MAX) ? calloc(1, sizeof(*pull) + num * sizeof(pull->pieces[0]))
                            : NULL;

    if (pull == NULL) {
        muct_error("failed to allocate a get of %zu pieces", num);
        return NULL;
    }

    pull->done = done;
    pull->arg = arg;
    return pull;
}

static void muct_rdma_pull_start(muct_rdma_ep_t *ep, muct_rdma_pull_t *pull)
{
    ep->pull = pull;
    muct_rdma_ep_add_work(ep);
}

static void muct_rdma_pull_end(muct_rdma_ep_t *ep, ucs_status_t status)
{
    muct_rdma_pull_t *pull = ep->pull;

    ep->pull = NULL;
    ep->has_event = true;
    if (pull->has_reads) {
        ep->is_pulling = false;
    }
    if (ep->is_job_fenced) {
        ep->is_job_fenced = false;
        (void)muct_rdma_ep_fence(&ep->super.super, 0);
    }
    if (ep->pending.head != NULL) {
        muct_rdma_ep_add_work(ep);
    }
    if (pull->done != NULL) {
        pull->done(pull->arg, status);
    }
    free(pull);
}

void muct_rdma_pull_cleanup(muct_rdma_ep_t *ep, ucs_status_t status)
{
    free(ep->served);
    ep->served = NULL;
    ep->is_held = false;
    if (ep->pull != NULL) {
        muct_rdma_pull_end(ep, status);
    }
}

/* ---- pieces of a request ---- */

/* Cut a block where a key ends; count only, without @a pieces. */
static size_t muct_rdma_pull_block(const muct_rdma_ep_t *ep, const muct_rdma_mem_t *mem,
                                   uint64_t local, const muct_rdma_key_t *key,
                                   uint64_t remote, size_t length,
                                   muct_rdma_piece_t *pieces)
{
    const uint64_t max = muct_rdma_ep_iface(ep)->limits.max_msg_size;
    uint64_t part, left;
    size_t num = 0;

    for (; length > 0; length -= part, local += part, remote += part, ++num) {
        part = (length < max) ? length : max;
        left = muct_rdma_key_chunk_left(key, remote);
        part = (part < left) ? part : left;
        left = muct_rdma_mem_chunk_left(mem, local);
        part = (part < left) ? part : left;
        if (pieces != NULL) {
            pieces[num] = (muct_rdma_piece_t){
                .remote = remote,
                .local = local,
                .remote_key = key->rkeys[muct_rdma_key_chunk(key, remote)],
                .local_key = muct_rdma_mem_rkey(mem, local),
                .length = (uint32_t)part,
            };
        }
    }

    return num;
}

static size_t muct_rdma_pull_blocks(const muct_rdma_ep_t *ep,
                                    const muct_rdma_sgl_t *sgl,
                                    muct_rdma_piece_t *pieces)
{
    size_t i, repeat, offset, num = 0;

    for (i = 0; i < sgl->count; ++i) {
        for (repeat = 0; repeat < muct_rdma_sgl_repeats(sgl, i); ++repeat) {
            offset = (repeat > 0) ? repeat * sgl->strides[i] : 0;
            num += muct_rdma_pull_block(
                ep, sgl->memhs[i], (uint64_t)(uintptr_t)sgl->buffers[i] + offset,
                (const muct_rdma_key_t *)sgl->rkeys[i], sgl->remote_addrs[i] + offset,
                sgl->lengths[i], (pieces != NULL) ? pieces + num : NULL);
        }
    }

    return num;
}

static uint64_t muct_rdma_pull_gpus(const muct_rdma_sgl_t *sgl)
{
    const muct_rdma_mem_t *mem;
    uint64_t gpus = 0;
    size_t i;

    for (i = 0; i < sgl->count; ++i) {
        mem = sgl->memhs[i];
        if ((sgl->lengths[i] > 0) && (mem->page != NULL)) {
            gpus |= 1ull << mem->page->gpu;
        }
    }

    return gpus;
}

ucs_status_t muct_rdma_pull_sgl(muct_rdma_ep_t *ep, const muct_rdma_sgl_t *sgl,
                                uct_completion_t *comp)
{
    const size_t num = muct_rdma_pull_blocks(ep, sgl, NULL);
    muct_rdma_pull_t *pull =
        muct_rdma_pull_new(num, (comp != NULL) ? muct_rdma_done_comp : NULL, comp);

    if (pull == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    pull->num = (uint32_t)muct_rdma_pull_blocks(ep, sgl, pull->pieces);
    pull->gpus = muct_rdma_pull_gpus(sgl);
    muct_rdma_pull_start(ep, pull);
    return UCS_INPROGRESS;
}

ucs_status_t muct_rdma_pull_buf(muct_rdma_ep_t *ep, muct_rdma_buf_t *buf,
                                uint64_t address, uint32_t rkey)
{
    muct_rdma_pull_t *pull = muct_rdma_pull_new(1, muct_rdma_done_unpack, buf);

    if (pull == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    pull->num = 1;
    pull->buf = buf;
    pull->pieces[0] = (muct_rdma_piece_t){
        .remote = address,
        .local = (uint64_t)(uintptr_t)muct_rdma_buf_data(buf),
        .remote_key = rkey,
        .local_key = buf->rkey,
        .length = buf->length,
    };
    muct_rdma_pull_start(ep, pull);
    return UCS_INPROGRESS;
}

static void muct_rdma_pull_add_page(const muct_rdma_ep_t *ep, muct_rdma_pull_t *pull,
                                    bool is_host, uint64_t address, uint32_t rkey)
{
    const muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);

    pull->pieces[pull->num++] = (muct_rdma_piece_t){
        .remote = address,
        .local = muct_rdma_iface_read_back(iface, is_host),
        .remote_key = rkey,
        .local_key = iface->flush_mem->mrs[0]->rkey,
        .length = 1,
    };
}

ucs_status_t muct_rdma_pull_pages(muct_rdma_ep_t *ep, uint64_t gpus, bool is_host)
{
    muct_rdma_pull_t *pull = muct_rdma_pull_new(MUCT_RDMA_KEY_NUM_GPUS + 1, NULL, NULL);
    const muct_rdma_gpu_page_t *page;

    if (pull == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    for (; gpus != 0; gpus &= gpus - 1) {
        page = &ep->gpu_pages[__builtin_ctzll(gpus)];
        muct_rdma_pull_add_page(ep, pull, false, page->address, page->rkey);
    }
    if (is_host) {
        muct_rdma_pull_add_page(ep, pull, true, ep->peer_ep.flush_addr,
                                ep->peer_ep.flush_rkey);
    }
    muct_rdma_pull_start(ep, pull);
    return UCS_OK;
}

/* ---- messages ---- */

static bool muct_rdma_pull_has_room(const muct_rdma_ep_t *ep, unsigned num_wrs)
{
    return (ep->credits > 0) && (muct_rdma_sq_free(&ep->chans[0].sq) >= num_wrs);
}

/*
 * Whether a message can be placed now: inline, or in a buffer that the pool may have.
 */
static bool muct_rdma_pull_may_place(const muct_rdma_ep_t *ep, size_t length)
{
    return muct_rdma_am_is_inline(ep, length) ||
           !muct_rdma_buf_pool_is_dry(&muct_rdma_ep_iface(ep)->tx_pool);
}

static bool muct_rdma_pull_may_send(const muct_rdma_ep_t *ep)
{
    const muct_rdma_pull_t *pull = ep->pull;

    return (pull != NULL) && (pull->sent < pull->num) &&
           (pull->sent - pull->ended < MUCT_RDMA_PULL_DEPTH);
}

static bool muct_rdma_pull_may_serve(const muct_rdma_ep_t *ep)
{
    return (ep->served != NULL) && (ep->served->tail != ep->served->head);
}

/* Whether all answers have arrived, but some GPUs were not read from yet. */
static bool muct_rdma_pull_may_push(const muct_rdma_ep_t *ep)
{
    const muct_rdma_pull_t *pull = ep->pull;

    return (pull != NULL) && (pull->ended == pull->num) && (pull->gpus != 0);
}

static bool muct_rdma_pull_send(muct_rdma_ep_t *ep, const muct_rdma_piece_t *piece)
{
    uint32_t local_key = piece->local_key;
    uint8_t data[MUCT_RDMA_PULL_SIZE];

    if ((ep->carrier != muct_rdma_ep_iface(ep)) &&
        !muct_rdma_carrier_rkey(ep, piece->local, piece->length, &local_key)) {
        muct_rdma_sq_lose(&ep->chans[0].sq, EFAULT);
        return false;
    }

    muct_put_le(data, piece->remote, 8);
    muct_put_le(data + 8, piece->local, 8);
    muct_put_le(data + 16, piece->remote_key, 4);
    muct_put_le(data + MUCT_RDMA_PULL_OUR_KEY, local_key, 4);
    muct_put_le(data + 24, piece->length, 4);
    return muct_rdma_am_send_own(ep, MUCT_RDMA_AM_PULL, 0, data, sizeof(data),
                                 ep->pull->buf);
}

/* The user's key of a request that is not answered, or is being sent. Requests for
 * other bytes may have the same place here, with another key. */
static bool muct_rdma_pull_own_key(const muct_rdma_pull_t *pull, const uint8_t *data,
                                   uint32_t *key_p)
{
    const muct_rdma_piece_t *piece;
    uint32_t i;

    for (i = (pull != NULL) ? pull->ended : 0;
         (pull != NULL) && (i <= pull->sent) && (i < pull->num); ++i) {
        piece = &pull->pieces[i];
        if ((piece->remote == muct_get_le(data, 8)) &&
            (piece->local == muct_get_le(data + 8, 8)) &&
            (piece->length == muct_get_le(data + 24, 4))) {
            *key_p = piece->local_key;
            return true;
        }
    }

    return false;
}

bool muct_rdma_pull_move(const muct_rdma_ep_t *ep, const struct ibv_send_wr *wr)
{
    uint8_t *header = (uint8_t *)(uintptr_t)wr->sg_list[0].addr;
    uint8_t *data = header + MUCT_RDMA_AM_HEADER;
    uint32_t key;

    if (header[1] != MUCT_RDMA_AM_PULL) {
        return true;
    }
    if (!((ep->carrier == muct_rdma_ep_iface(ep)) &&
          muct_rdma_pull_own_key(ep->pull, data, &key)) &&
        !muct_rdma_carrier_rkey(ep, muct_get_le(data + 8, 8), muct_get_le(data + 24, 4),
                                &key)) {
        return false;
    }

    muct_put_le(data + MUCT_RDMA_PULL_OUR_KEY, key, 4);
    return true;
}

/* The peer's request is older than the present connection: the key may be of a device
 * that was left. */
static bool muct_rdma_pull_renew_key(const muct_rdma_ep_t *ep, muct_rdma_piece_t *piece)
{
    const uint64_t incarnation = ep->recover.peer_incarnation;
    muct_rdma_rkeys_target_t target = {
        .incarnation = (incarnation & ~(uint64_t)UINT32_MAX) | piece->local_device,
        .address = piece->local,
        .length = piece->length,
        .rkey = piece->local_key};

    if (target.incarnation == incarnation) {
        return true;
    }
    if (!muct_rdma_rkeys_translate(&target, incarnation)) {
        return false;
    }

    piece->local = target.address;
    piece->local_key = target.rkey;
    piece->local_device = (uint32_t)incarnation;
    return true;
}

bool muct_rdma_pull_give_up(muct_rdma_sq_t *sq, struct ibv_send_wr *wr)
{
    const uint32_t next = (uint32_t)wr->wr_id + 1;
    uint8_t *header;

    if (!muct_rdma_sq_has_final_key(wr) || (next == sq->head)) {
        return false;
    }

    /* its answer follows the write */
    header = (uint8_t *)(uintptr_t)muct_rdma_sq_at(sq, next)->sg_list[0].addr;
    header[0] |= MUCT_RDMA_PULLED_REFUSED | MUCT_RDMA_PULLED_AGAIN;
    wr->num_sge = 0;
    wr->wr.rdma.remote_addr = 0;
    wr->wr.rdma.rkey = 0;
    return true;
}

static void muct_rdma_pull_write(muct_rdma_ep_t *ep, const muct_rdma_piece_t *piece,
                                 uint32_t lkey)
{
    muct_rdma_sq_t *sq = &ep->chans[0].sq;
    struct ibv_send_wr *wr = muct_rdma_sq_begin(sq, IBV_WR_RDMA_WRITE);

    wr->num_sge = 1;
    wr->sg_list[0].addr = piece->remote;
    wr->sg_list[0].length = piece->length;
    wr->sg_list[0].lkey = lkey;
    wr->wr.rdma.remote_addr = piece->local;
    wr->wr.rdma.rkey = piece->local_key;
    muct_rdma_sq_set_final_key(sq, wr, piece->local_device);
    muct_rdma_sq_end(sq, wr, NULL, NULL, piece->length);
}

/* False when there is no buffer for the answer, which has to follow the write. */
static bool muct_rdma_pull_serve(muct_rdma_ep_t *ep, muct_rdma_piece_t *piece)
{
    uint8_t flags = (ep->dest_reads > 0) ? MUCT_RDMA_PULLED_READS : 0;
    uint32_t lkey;

    if (!muct_rdma_mem_find_open(muct_rdma_iface_md(muct_rdma_ep_iface(ep))->pd,
                                 piece->remote_key, piece->remote, piece->length,
                                 &lkey)) {
        muct_error("the peer requested 0x%" PRIx64
                   " length %u with a key of no region: refused",
                   piece->remote, piece->length);
        return muct_rdma_am_send_own(ep, MUCT_RDMA_AM_PULLED,
                                     flags | MUCT_RDMA_PULLED_REFUSED, NULL, 0, NULL);
    }

    if (!muct_rdma_pull_renew_key(ep, piece)) {
        flags |= MUCT_RDMA_PULLED_REFUSED | MUCT_RDMA_PULLED_AGAIN;
        return muct_rdma_am_send_own(ep, MUCT_RDMA_AM_PULLED, flags, NULL, 0, NULL);
    }

    if (!muct_rdma_am_has_place(ep, 0)) {
        return false;
    }

    muct_rdma_pull_write(ep, piece, lkey);
    return muct_rdma_am_send_own(ep, MUCT_RDMA_AM_PULLED, flags, NULL, 0, NULL);
}

static void muct_rdma_pull_serve_all(muct_rdma_ep_t *ep)
{
    muct_rdma_served_t *served = ep->served;

    muct_rdma_ep_begin_extra(ep);
    while (
        muct_rdma_pull_may_serve(ep) && muct_rdma_pull_has_room(ep, 2) &&
        muct_rdma_pull_serve(ep, &served->ring[served->tail % MUCT_RDMA_PULL_DEPTH])) {
        ++served->tail;
    }
    muct_rdma_ep_end_extra(ep);
}

/* Serve the peer when it is its turn, or when no operation of ours waits. */
static void muct_rdma_pull_take_turn(muct_rdma_ep_t *ep)
{
    const bool has_waiting = (ep->pending.head != NULL) || (ep->job != NULL);
    const muct_rdma_sq_t *sq = &ep->chans[0].sq;
    muct_rdma_served_t *served = ep->served;
    uint32_t before;

    ep->is_held = false;
    if (!muct_rdma_pull_may_serve(ep)) {
        return;
    }

    if (has_waiting && served->is_our_turn) {
        served->is_our_turn = muct_rdma_sq_free(sq) == 0;
        return;
    }

    before = served->tail;
    muct_rdma_pull_serve_all(ep);
    served->is_our_turn = served->tail != before;
    ep->is_held = !served->is_our_turn && (ep->credits > 0) &&
                  !muct_rdma_pull_has_room(ep, 2) && muct_rdma_pull_may_place(ep, 0);
}

/* The reads are posted. After a failure the endpoint ends the pull, or posts again. */
static void muct_rdma_pull_pushed(void *arg, ucs_status_t status)
{
    muct_rdma_ep_t *ep = arg;

    if ((status == UCS_OK) && (ep->pull != NULL)) {
        muct_rdma_pull_end(ep, UCS_OK);
    }
}

/* Make our device read from one GPU, which pushes its writes. */
static void muct_rdma_pull_push(muct_rdma_ep_t *ep)
{
    const muct_rdma_gpu_pages_t *pages =
        &muct_rdma_iface_md(muct_rdma_ep_iface(ep))->gpu_pages;
    const muct_rdma_mem_t *page = pages->mems[__builtin_ctzll(ep->pull->gpus)];
    muct_rdma_sq_t *sq = &ep->chans[0].sq;
    struct ibv_send_wr *wr = muct_rdma_sq_begin(sq, IBV_WR_RDMA_WRITE);

    ep->pull->gpus &= ep->pull->gpus - 1;
    wr->num_sge = 1;
    wr->sg_list[0].addr = page->base;
    wr->sg_list[0].length = 1;
    wr->sg_list[0].lkey = page->mrs[0]->lkey;
    wr->wr.rdma.remote_addr = ep->peer_ep.flush_addr;
    wr->wr.rdma.rkey = ep->peer_ep.flush_rkey;
    muct_rdma_sq_end(sq, wr, (ep->pull->gpus == 0) ? muct_rdma_pull_pushed : NULL, ep,
                     1);
    muct_rdma_sq_kick(sq);
}

void muct_rdma_pull_progress(muct_rdma_ep_t *ep)
{
    muct_rdma_sq_t *sq = &ep->chans[0].sq;
    const unsigned flags = sq->next_flags; /* flags of the user's next work request */

    sq->next_flags = 0;
    muct_rdma_pull_take_turn(ep);
    while (muct_rdma_pull_may_send(ep) && muct_rdma_pull_has_room(ep, 1) &&
           muct_rdma_pull_send(ep, &ep->pull->pieces[ep->pull->sent])) {
        ep->pull->pieces[ep->pull->sent++].epoch = ep->recover.epoch;
    }
    while (muct_rdma_pull_may_push(ep) && (muct_rdma_sq_free(sq) > 0)) {
        muct_rdma_pull_push(ep);
    }
    sq->next_flags = flags;
}

bool muct_rdma_pull_has_work(const muct_rdma_ep_t *ep)
{
    return muct_rdma_pull_may_serve(ep) || muct_rdma_pull_may_send(ep) ||
           muct_rdma_pull_may_push(ep);
}

bool muct_rdma_pull_is_runnable(const muct_rdma_ep_t *ep)
{
    return (muct_rdma_pull_may_serve(ep) && muct_rdma_pull_has_room(ep, 2) &&
            muct_rdma_pull_may_place(ep, 0)) ||
           (muct_rdma_pull_may_send(ep) && muct_rdma_pull_has_room(ep, 1) &&
            ((ep->pull->buf != NULL) ||
             muct_rdma_pull_may_place(ep, MUCT_RDMA_PULL_SIZE))) ||
           (muct_rdma_pull_may_push(ep) && (muct_rdma_sq_free(&ep->chans[0].sq) > 0));
}

static bool muct_rdma_pull_requested(muct_rdma_ep_t *ep, const uint8_t *data,
                                     size_t length)
{
    muct_rdma_piece_t *piece;

    if (length != MUCT_RDMA_PULL_SIZE) {
        return false;
    }

    if (ep->served == NULL) {
        ep->served = calloc(1, sizeof(*ep->served));
        if (ep->served == NULL) {
            muct_error("failed to allocate requests of a peer");
            return false;
        }
    }
    if (ep->served->head - ep->served->tail == MUCT_RDMA_PULL_DEPTH) {
        return false;
    }

    piece = &ep->served->ring[ep->served->head++ % MUCT_RDMA_PULL_DEPTH];
    piece->remote = muct_get_le(data, 8);
    piece->local = muct_get_le(data + 8, 8);
    piece->remote_key = (uint32_t)muct_get_le(data + 16, 4);
    piece->local_key = (uint32_t)muct_get_le(data + MUCT_RDMA_PULL_OUR_KEY, 4);
    piece->local_device = (uint32_t)ep->recover.conn_incarnation;
    piece->length = (uint32_t)muct_get_le(data + 24, 4);
    muct_rdma_ep_add_work(ep);
    return true;
}

/* Send the request that was answered last again, behind all others. A peer can cause
 * that once in a connection. */
static ucs_status_t muct_rdma_pull_repeat(muct_rdma_ep_t *ep)
{
    const size_t num = (size_t)ep->pull->num + 1;
    muct_rdma_pull_t *pull = NULL;

    if (num <= UINT32_MAX) {
        pull = realloc(ep->pull, sizeof(*pull) + num * sizeof(pull->pieces[0]));
    }
    if (pull == NULL) {
        muct_error("failed to allocate a get of %zu pieces", num);
        return UCS_ERR_NO_MEMORY;
    }

    ep->pull = pull;
    pull->pieces[pull->num++] = pull->pieces[pull->ended];
    return UCS_OK;
}

static bool muct_rdma_pull_answered(muct_rdma_ep_t *ep, uint8_t flags)
{
    muct_rdma_pull_t *pull = ep->pull;
    ucs_status_t status;

    if ((pull == NULL) || (pull->ended == pull->sent)) {
        return false;
    }

    if ((flags & MUCT_RDMA_PULLED_AGAIN) &&
        (pull->pieces[pull->ended].epoch != ep->recover.epoch)) {
        status = muct_rdma_pull_repeat(ep);
        if (status != UCS_OK) {
            muct_rdma_ep_fail(ep, status, true);
            return true;
        }
        pull = ep->pull;
    } else if (flags & (MUCT_RDMA_PULLED_REFUSED | MUCT_RDMA_PULLED_AGAIN)) {
        muct_error("the peer refused a get of 0x%" PRIx64
                   " length %u: the key is of no region there",
                   pull->pieces[pull->ended].remote, pull->pieces[pull->ended].length);
        muct_rdma_ep_fail(ep, UCS_ERR_CONNECTION_RESET, true);
        return true;
    }

    pull->has_reads = (flags & MUCT_RDMA_PULLED_READS) && (ep->peer_ep.max_reads > 0) &&
                      (muct_rdma_ep_iface(ep)->limits.max_reads > 0);
    if ((++pull->ended == pull->num) && (pull->gpus == 0)) {
        muct_rdma_pull_end(ep, UCS_OK);
    } else {
        muct_rdma_ep_add_work(ep);
    }
    return true;
}

bool muct_rdma_pull_receive(muct_rdma_ep_t *ep, uint8_t kind, uint8_t id,
                            const void *data, size_t length)
{
    return (kind == MUCT_RDMA_AM_PULL) ? muct_rdma_pull_requested(ep, data, length)
                                       : muct_rdma_pull_answered(ep, id);
}
