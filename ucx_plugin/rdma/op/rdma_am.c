/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Active messages: sends of one queue pair into receives of the other, in order.
 *
 * Each message on the wire begins with four bytes: id, kind, and the number of credits
 * it gives (2). A credit is a receive that the peer has posted and announced to us.
 *
 * A receive is posted again before the peer learns of it, so no message ever meets an
 * empty queue. Credits travel on messages that go back anyway. When half of all are
 * owed and no message goes back, a separate credit message carries them. Credit
 * messages need no credit: they use receives beyond those the peer has credits for. Two
 * of those are enough. The peer can use the credits of all but the last two credit
 * messages only after it received those messages. MUCT_RDMA_CREDIT_RECEIVES has two to
 * spare.
 *
 * A user may keep a message only while another buffer can be posted in place of the
 * kept one. Otherwise the message is delivered without UCT_CB_PARAM_FLAG_DESC, and the
 * user copies it. So kept messages, however many, never leave a sender without credits.
 */

#include "rdma/op/rdma_am.h"

#include "base/muct_am.h"
#include "base/muct_bytes.h"
#include "base/muct_log.h"
#include "rdma/ep/rdma_ep_flush.h"
#include "rdma/ep/rdma_ep_wait.h"

#include <string.h>

#define MUCT_RDMA_AM_MIN_SHORT 128

unsigned muct_rdma_am_max_short(const muct_rdma_iface_t *iface)
{
    unsigned max = iface->limits.max_inline;

    max = (max > MUCT_RDMA_AM_MIN_SHORT) ? max : MUCT_RDMA_AM_MIN_SHORT;
    max = (max < iface->limits.seg_size) ? max : iface->limits.seg_size;
    return max - MUCT_RDMA_AM_HEADER;
}

static inline void muct_rdma_am_pack_header(muct_rdma_ep_t *ep, void *buffer,
                                            uint8_t id, uint8_t kind)
{
    uint32_t credits = (ep->rx.owed < UINT16_MAX) ? ep->rx.owed : UINT16_MAX;
    uint8_t *header = buffer;

    header[0] = id;
    header[1] = kind;
    muct_put_le(header + 2, credits, 2);
    ep->rx.owed -= credits;
}

/* Whether a message may be sent now. The length is that of the user's data. */
static inline ucs_status_t muct_rdma_am_check(muct_rdma_ep_t *ep, uint8_t id,
                                              size_t length, size_t max)
{
    ucs_status_t status;

    if (__builtin_expect((id >= UCT_AM_ID_MAX) || (length > max), 0)) {
        return muct_am_refuse(id, length, max);
    }

    status = muct_rdma_ep_check_ready(ep);
    if (status != UCS_OK) {
        return status;
    }

    return ((ep->credits == 0) || (muct_rdma_sq_free(&ep->chans[0].sq) == 0))
               ? UCS_ERR_NO_RESOURCE
               : UCS_OK;
}

/* Post a send whose first entry is the header (and what else is contiguous to it). */
static void muct_rdma_am_post(muct_rdma_ep_t *ep, struct ibv_send_wr *wr, void *first,
                              uint32_t length, uint32_t lkey, muct_rdma_done_t done,
                              void *arg, size_t total)
{
    muct_rdma_sq_t *sq = &ep->chans[0].sq;

    wr->sg_list[0].addr = (uint64_t)(uintptr_t)first;
    wr->sg_list[0].length = length;
    wr->sg_list[0].lkey = lkey;
    ++ep->num_sends;
    muct_rdma_sq_end(sq, wr, done, arg, total);
    muct_rdma_sq_kick(sq);
}

/* Begin a message whose bytes are written in place: inline, or in a buffer when @a
 * length exceeds the inline size. */
typedef struct muct_rdma_am_place {
    muct_rdma_buf_t *buf; /* NULL: inline */
    uint8_t *data;
} muct_rdma_am_place_t;

static ucs_status_t muct_rdma_am_get_place(muct_rdma_ep_t *ep, size_t length,
                                           muct_rdma_am_place_t *place)
{
    muct_rdma_sq_t *sq = &ep->chans[0].sq;
    ucs_status_t status;

    if (length <= sq->max_inline) {
        place->buf = NULL;
        place->data = muct_rdma_sq_inline(sq);
        return UCS_OK;
    }

    status = muct_rdma_ep_get_buf(ep, &place->buf);
    if (status != UCS_OK) {
        return status;
    }

    place->data = muct_rdma_buf_data(place->buf);
    return UCS_OK;
}

static void muct_rdma_am_post_place(muct_rdma_ep_t *ep,
                                    const muct_rdma_am_place_t *place, size_t length)
{
    struct ibv_send_wr *wr = muct_rdma_sq_begin(&ep->chans[0].sq, IBV_WR_SEND);

    wr->num_sge = 1;
    if (place->buf == NULL) {
        wr->send_flags |= IBV_SEND_INLINE;
        muct_rdma_am_post(ep, wr, place->data, (uint32_t)length, 0, NULL, NULL, length);
    } else {
        muct_rdma_am_post(ep, wr, place->data, (uint32_t)length, place->buf->lkey,
                          muct_rdma_done_buf, place->buf, length);
    }
}

ucs_status_t muct_rdma_ep_am_short(uct_ep_h tl_ep, uint8_t id, uint64_t header,
                                   const void *payload, unsigned length)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    size_t total = MUCT_RDMA_AM_HEADER + sizeof(header) + length;
    muct_rdma_am_place_t place;
    ucs_status_t status;

    status = muct_rdma_am_check(ep, id, sizeof(header) + length,
                                muct_rdma_am_max_short(muct_rdma_ep_iface(ep)));
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_am_get_place(ep, total, &place);
    if (status != UCS_OK) {
        return status;
    }

    muct_rdma_am_pack_header(ep, place.data, id, MUCT_RDMA_AM_MESSAGE);
    memcpy(place.data + MUCT_RDMA_AM_HEADER, &header, sizeof(header));
    if (length > 0) {
        memcpy(place.data + MUCT_RDMA_AM_HEADER + sizeof(header), payload, length);
    }
    muct_am_trace(&muct_rdma_ep_iface(ep)->super, UCT_AM_TRACE_TYPE_SEND, id,
                  place.data + MUCT_RDMA_AM_HEADER, sizeof(header) + length);
    --ep->credits;
    muct_rdma_am_post_place(ep, &place, total);
    return UCS_OK;
}

ucs_status_t muct_rdma_ep_am_short_iov(uct_ep_h tl_ep, uint8_t id, const uct_iov_t *iov,
                                       size_t iovcnt)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    size_t i, offset = MUCT_RDMA_AM_HEADER, length;
    muct_rdma_am_place_t place;
    ucs_status_t status;

    status = muct_am_iov_length(iov, iovcnt, &length);
    if (status == UCS_OK) {
        status = muct_rdma_am_check(ep, id, length,
                                    muct_rdma_am_max_short(muct_rdma_ep_iface(ep)));
    }
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_am_get_place(ep, MUCT_RDMA_AM_HEADER + length, &place);
    if (status != UCS_OK) {
        return status;
    }

    muct_rdma_am_pack_header(ep, place.data, id, MUCT_RDMA_AM_MESSAGE);
    for (i = 0; i < iovcnt; ++i) {
        if (iov[i].length > 0) {
            memcpy(place.data + offset, iov[i].buffer, iov[i].length);
            offset += iov[i].length;
        }
    }
    muct_am_trace(&muct_rdma_ep_iface(ep)->super, UCT_AM_TRACE_TYPE_SEND, id,
                  place.data + MUCT_RDMA_AM_HEADER, length);
    --ep->credits;
    muct_rdma_am_post_place(ep, &place, MUCT_RDMA_AM_HEADER + length);
    return UCS_OK;
}

ssize_t muct_rdma_ep_am_bcopy(uct_ep_h tl_ep, uint8_t id, uct_pack_callback_t pack,
                              void *arg, unsigned flags)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    muct_rdma_am_place_t place;
    ucs_status_t status;
    size_t length;

    (void)flags;
    status = muct_rdma_am_check(ep, id, 0, 0); /* packing returns the length */
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_ep_get_buf(ep, &place.buf);
    if (status != UCS_OK) {
        return status;
    }

    place.data = muct_rdma_buf_data(place.buf);
    length = pack(place.data + MUCT_RDMA_AM_HEADER, arg);
    if (length > muct_rdma_ep_iface(ep)->limits.seg_size - MUCT_RDMA_AM_HEADER) {
        muct_rdma_buf_put(place.buf);
        return muct_am_refuse(
            id, length, muct_rdma_ep_iface(ep)->limits.seg_size - MUCT_RDMA_AM_HEADER);
    }

    muct_rdma_am_pack_header(ep, place.data, id, MUCT_RDMA_AM_MESSAGE);
    muct_am_trace(&muct_rdma_ep_iface(ep)->super, UCT_AM_TRACE_TYPE_SEND, id,
                  place.data + MUCT_RDMA_AM_HEADER, length);
    --ep->credits;
    muct_rdma_am_post_place(ep, &place, MUCT_RDMA_AM_HEADER + length);
    return (ssize_t)length;
}

/* Check a zero-copy message against the limits and handles that the interface reports.
 */
static ucs_status_t muct_rdma_am_check_zcopy(const muct_rdma_ep_t *ep, uint8_t id,
                                             unsigned header_length,
                                             const uct_iov_t *iov, size_t iovcnt)
{
    const size_t max = muct_rdma_ep_iface(ep)->limits.seg_size - MUCT_RDMA_AM_HEADER;
    ucs_status_t status;
    size_t i, length;

    if (iovcnt >= ep->chans[0].sq.max_sge) {
        muct_error("message in %zu blocks: at most %u are possible", iovcnt,
                   ep->chans[0].sq.max_sge - 1);
        return UCS_ERR_INVALID_PARAM;
    }

    status = muct_am_iov_length(iov, iovcnt, &length);
    if (status != UCS_OK) {
        return status;
    }
    if ((id >= UCT_AM_ID_MAX) || (header_length > max / 2) ||
        (header_length + length > max)) {
        return muct_am_refuse(id, header_length + length, max);
    }

    for (i = 0; i < iovcnt; ++i) {
        if ((iov[i].length > 0) &&
            !muct_rdma_mem_has(iov[i].memh, iov[i].buffer, iov[i].length)) {
            return muct_rdma_mem_refuse(iov[i].memh, iov[i].buffer, iov[i].length);
        }
        status = muct_rdma_ep_keep_up(ep, iov[i].memh, iov[i].buffer, iov[i].length);
        if (status != UCS_OK) {
            return status;
        }
    }

    return UCS_OK;
}

/* A user's block takes one entry unless it spans several keys. */
static ucs_status_t muct_rdma_am_fill_sges(const muct_rdma_ep_t *ep,
                                           const uct_iov_t *iov, size_t iovcnt,
                                           struct ibv_send_wr *wr)
{
    const uint8_t *data;
    struct ibv_sge *sge;
    size_t i, left, part;

    wr->num_sge = 1;
    for (i = 0; i < iovcnt; ++i) {
        data = iov[i].buffer;
        for (left = iov[i].length; left > 0; left -= part, data += part) {
            if ((unsigned)wr->num_sge == ep->chans[0].sq.max_sge) {
                muct_error("message of %zu blocks spans more keys than a work "
                           "request has entries, %u",
                           iovcnt, ep->chans[0].sq.max_sge - 1);
                return UCS_ERR_INVALID_PARAM;
            }
            part = muct_rdma_mem_chunk_left(iov[i].memh, (uintptr_t)data);
            part = (part < left) ? part : left;
            sge = &wr->sg_list[wr->num_sge++];
            sge->addr = (uintptr_t)data;
            sge->length = (uint32_t)part;
            sge->lkey = muct_rdma_mem_lkey(iov[i].memh, (uintptr_t)data);
        }
    }

    return UCS_OK;
}

static size_t muct_rdma_am_total(const struct ibv_send_wr *wr)
{
    size_t total = 0;
    int i;

    for (i = 0; i < wr->num_sge; ++i) {
        total += wr->sg_list[i].length;
    }

    return total;
}

ucs_status_t muct_rdma_ep_am_zcopy(uct_ep_h tl_ep, uint8_t id, const void *header,
                                   unsigned header_length, const uct_iov_t *iov,
                                   size_t iovcnt, unsigned flags,
                                   uct_completion_t *comp)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    muct_rdma_sq_t *sq = &ep->chans[0].sq;
    struct ibv_send_wr *wr;
    muct_rdma_buf_t *buf;
    ucs_status_t status;
    uint8_t *data;

    (void)flags;
    status = muct_rdma_am_check_zcopy(ep, id, header_length, iov, iovcnt);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_am_check(ep, id, 0, 0);
    if (status != UCS_OK) {
        return status;
    }

    /* the entry is not committed before its end, so after an early return the next
     * operation fills it in */
    wr = muct_rdma_sq_next(sq);
    status = muct_rdma_am_fill_sges(ep, iov, iovcnt, wr);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_ep_get_buf(ep, &buf);
    if (status != UCS_OK) {
        return status;
    }

    buf->comp = comp;
    data = muct_rdma_buf_data(buf);
    muct_rdma_am_pack_header(ep, data, id, MUCT_RDMA_AM_MESSAGE);
    if (header_length > 0) {
        memcpy(data + MUCT_RDMA_AM_HEADER, header, header_length);
    }
    muct_am_trace(&muct_rdma_ep_iface(ep)->super, UCT_AM_TRACE_TYPE_SEND, id,
                  data + MUCT_RDMA_AM_HEADER, header_length);
    wr = muct_rdma_sq_begin(sq, IBV_WR_SEND);
    --ep->credits;
    wr->sg_list[0].length = MUCT_RDMA_AM_HEADER + header_length;
    muct_rdma_am_post(ep, wr, data, MUCT_RDMA_AM_HEADER + header_length, buf->lkey,
                      muct_rdma_done_buf_comp, buf, muct_rdma_am_total(wr));
    return UCS_INPROGRESS;
}

bool muct_rdma_am_has_place(muct_rdma_ep_t *ep, size_t length)
{
    muct_rdma_buf_pool_t *pool = &muct_rdma_ep_iface(ep)->tx_pool;

    return muct_rdma_am_is_inline(ep, length) || (pool->free != NULL) ||
           (muct_rdma_buf_pool_grow(pool) == UCS_OK);
}

static void muct_rdma_am_pack_own(muct_rdma_ep_t *ep, void *buffer, uint8_t kind,
                                  uint8_t id, const void *data, size_t length)
{
    muct_rdma_am_pack_header(ep, buffer, id, kind);
    if (length > 0) {
        memcpy((uint8_t *)buffer + MUCT_RDMA_AM_HEADER, data, length);
    }
    --ep->credits;
}

bool muct_rdma_am_send_own(muct_rdma_ep_t *ep, uint8_t kind, uint8_t id,
                           const void *data, size_t length, muct_rdma_buf_t *lent)
{
    const size_t total = MUCT_RDMA_AM_HEADER + length;
    muct_rdma_am_place_t place;
    struct ibv_send_wr *wr;

    if ((lent != NULL) && !muct_rdma_am_is_inline(ep, length)) {
        muct_rdma_am_pack_own(ep, muct_rdma_buf_data(lent), kind, id, data, length);
        wr = muct_rdma_sq_begin(&ep->chans[0].sq, IBV_WR_SEND);
        wr->num_sge = 1;
        muct_rdma_am_post(ep, wr, muct_rdma_buf_data(lent), (uint32_t)total, lent->lkey,
                          NULL, NULL, total);
        return true;
    }

    if (muct_rdma_am_get_place(ep, total, &place) != UCS_OK) {
        return false;
    }

    muct_rdma_am_pack_own(ep, place.data, kind, id, data, length);
    muct_rdma_am_post_place(ep, &place, total);
    return true;
}

void muct_rdma_am_send_credits(muct_rdma_ep_t *ep)
{
    muct_rdma_am_place_t place;

    if (muct_rdma_am_get_place(ep, MUCT_RDMA_AM_HEADER, &place) != UCS_OK) {
        return;
    }

    muct_rdma_am_pack_header(ep, place.data, 0, MUCT_RDMA_AM_CREDIT);
    muct_rdma_ep_begin_extra(ep);
    muct_rdma_am_post_place(ep, &place, MUCT_RDMA_AM_HEADER);
    muct_rdma_ep_end_extra(ep);
}
