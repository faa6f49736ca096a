/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/xgmi_am.h"

#include "base/muct_am.h"
#include "base/muct_log.h"
#include "xgmi/xgmi_rma.h"

#include <inttypes.h>
#include <string.h>


/* ---- the interface ---- */

void muct_xgmi_am_init(muct_xgmi_iface_t *iface)
{
    ucs_status_t status;

    if (!iface->has_messages || (iface->addr.id.slot == MUCT_XGMI_NO_IFACE_SLOT)) {
        return;
    }

    status = muct_xgmi_inbox_create(muct_xgmi_self_dir(), iface->addr.owner,
                                    iface->addr.id, &iface->inbox);
    if (status != UCS_OK) {
        iface->inbox = NULL; /* the reason is in the log */
        return;
    }
    muct_xgmi_iface_watch_bell(iface);
}

void muct_xgmi_am_cleanup(muct_xgmi_iface_t *iface)
{
    muct_xgmi_iface_drop_held(iface);
    if (iface->inbox != NULL) {
        muct_xgmi_inbox_destroy(iface->inbox);
    }
}

void muct_xgmi_am_query(const muct_xgmi_iface_t *iface, uct_iface_attr_t *attr)
{
    if (iface->inbox == NULL) {
        return;
    }

    attr->cap.flags |=
        UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_CB_SYNC;
    attr->cap.event_flags |= UCT_IFACE_FLAG_EVENT_RECV;
    attr->cap.am.max_short = MUCT_XGMI_RING_MAX_MESSAGE;
    attr->cap.am.max_bcopy = MUCT_XGMI_RING_MAX_MESSAGE;
    attr->cap.am.opt_zcopy_align = 1;
    attr->cap.am.align_mtu = 1;
    attr->cap.am.max_iov = MUCT_XGMI_AM_MAX_IOV;
}

/* Pass a message to its handler. The id comes from another process and is checked. */
static void muct_xgmi_am_receive(void *arg, const muct_xgmi_ring_message_t *message)
{
    muct_xgmi_iface_t *iface = arg;

    if (message->id >= UCT_AM_ID_MAX) {
        (void)muct_am_refuse(message->id, message->length, MUCT_XGMI_RING_MAX_MESSAGE);
        return;
    }

    muct_am_trace(&iface->super, UCT_AM_TRACE_TYPE_RECV, message->id, message->data,
                  message->length);
    (void)muct_iface_invoke_am(&iface->super, message->id, message->data,
                               message->length, 0);
}

unsigned muct_xgmi_am_progress(muct_xgmi_iface_t *iface)
{
    return muct_xgmi_inbox_poll(iface->inbox, MUCT_XGMI_AM_AT_ONCE,
                                muct_xgmi_am_receive, iface);
}

bool muct_xgmi_am_has(const muct_xgmi_iface_t *iface)
{
    return (iface->inbox != NULL) && muct_xgmi_inbox_has(iface->inbox);
}


/* ---- sending ---- */

/*
 * The peer has no place for our messages, because a third process took the last one
 * meanwhile. The peer may have a place here all the same, and would wait for answers.
 */
static void muct_xgmi_am_refuse_peer(muct_xgmi_ep_t *ep)
{
    const muct_xgmi_iface_t *iface =
        ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t);
    muct_xgmi_box_place_t *place =
        muct_xgmi_outbox_place_of(iface->inbox->box, ep->owner, ep->peer_iface);

    muct_error("process 0x%" PRIx64 " or this one has %d senders of messages already",
               ep->owner, MUCT_XGMI_BOX_RINGS);
    if (place != NULL) {
        muct_xgmi_inbox_refuse(iface->inbox, place); /* the sender's endpoint fails */
    }
}

/* Prepare the claimed ring at the first message. A live receiver without a box supports
 * no messages: UCP sends none then, except keepalive messages. */
static ucs_status_t muct_xgmi_am_connect(muct_xgmi_ep_t *ep)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t);
    ucs_status_t status = UCS_OK;

    if ((ep->claim != NULL) && muct_xgmi_outbox_is_broken(ep->claim)) {
        muct_xgmi_outbox_close(ep->claim);
        ep->claim = NULL;
    }
    if (ep->claim == NULL) {
        status =
            muct_xgmi_iface_claim(iface, ep->owner, ep->peer_iface, false, &ep->claim);
    }
    if (status == UCS_OK) {
        status = muct_xgmi_outbox_begin(ep->claim, muct_xgmi_self_dir());
    }
    if (status == UCS_OK) {
        ep->outbox = ep->claim;
        return UCS_OK;
    }

    if (status == UCS_ERR_EXCEEDS_LIMIT) {
        muct_xgmi_am_refuse_peer(ep);
    }
    if ((status != UCS_ERR_UNREACHABLE) && (status != UCS_ERR_UNSUPPORTED)) {
        muct_xgmi_ep_set_error(ep, status);
        return ep->status;
    }
    (void)muct_xgmi_ep_check(&ep->super.super, 0, NULL);
    return (ep->status == UCS_OK) ? UCS_ERR_UNSUPPORTED : ep->status;
}

/* The receiver may ignore this sender by now. */
static ucs_status_t muct_xgmi_am_no_room(muct_xgmi_ep_t *ep)
{
    if (muct_xgmi_ep_has_broken_ring(ep)) {
        return ep->status;
    }

    ep->is_opening = false;
    ep->wants_room = true;
    return UCS_ERR_NO_RESOURCE;
}

/* Reserve room for a message of up to @a max bytes. */
static ucs_status_t muct_xgmi_am_reserve(muct_xgmi_ep_t *ep, uint8_t id, size_t max,
                                         void **data_p)
{
    const muct_xgmi_iface_t *iface =
        ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t);
    ucs_status_t status;

    if (ucs_unlikely((id >= UCT_AM_ID_MAX) || (max > MUCT_XGMI_RING_MAX_MESSAGE))) {
        return muct_am_refuse(id, max, MUCT_XGMI_RING_MAX_MESSAGE);
    }

    status = muct_xgmi_ep_may_post(ep);
    if (ucs_unlikely(status != UCS_OK)) {
        return status;
    }
    if (ucs_unlikely(iface->fences.count > 0)) {
        return muct_xgmi_ep_no_resource(ep, UCS_ERR_NO_RESOURCE);
    }
    if (ucs_unlikely(ep->outbox == NULL)) {
        status = muct_xgmi_am_connect(ep);
        if (status != UCS_OK) {
            return status;
        }
    }

    *data_p = muct_xgmi_ring_reserve(&ep->outbox->ring, max);
    return ucs_likely(*data_p != NULL) ? UCS_OK : muct_xgmi_am_no_room(ep);
}

static void muct_xgmi_am_send(muct_xgmi_ep_t *ep, uint8_t id, const void *data,
                              size_t length)
{
    muct_am_trace(&ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t)->super,
                  UCT_AM_TRACE_TYPE_SEND, id, data, length);
    ep->wants_room = false;
    ep->has_sent = true;
    muct_xgmi_outbox_commit(ep->outbox, id, length);
}

ucs_status_t muct_xgmi_ep_am_short(uct_ep_h tl_ep, uint8_t id, uint64_t header,
                                   const void *payload, unsigned length)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    ucs_status_t status;
    void *data = NULL;

    status = muct_xgmi_am_reserve(ep, id, sizeof(header) + length, &data);
    if (status != UCS_OK) {
        return status;
    }

    memcpy(data, &header, sizeof(header));
    if (length > 0) { /* zero bytes need no address */
        memcpy((char *)data + sizeof(header), payload, length);
    }
    muct_xgmi_am_send(ep, id, data, sizeof(header) + length);
    return UCS_OK;
}

ucs_status_t muct_xgmi_ep_am_short_iov(uct_ep_h tl_ep, uint8_t id, const uct_iov_t *iov,
                                       size_t iovcnt)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    size_t i, length, offset = 0;
    ucs_status_t status;
    void *data = NULL;

    status = muct_am_iov_length(iov, iovcnt, &length);
    if (status == UCS_OK) {
        status = muct_xgmi_am_reserve(ep, id, length, &data);
    }
    if (status != UCS_OK) {
        return status;
    }

    for (i = 0; i < iovcnt; ++i) {
        if (iov[i].length > 0) {
            memcpy((char *)data + offset, iov[i].buffer, iov[i].length);
            offset += iov[i].length;
        }
    }
    muct_xgmi_am_send(ep, id, data, length);
    return UCS_OK;
}

/* Pack the message and drop it, as a receiver that ignores this sender would */
static ssize_t muct_xgmi_am_forget(uct_pack_callback_t pack, void *arg)
{
    _Alignas(uint64_t) char data[MUCT_XGMI_RING_MAX_MESSAGE];

    return (ssize_t)pack(data, arg);
}

ssize_t muct_xgmi_ep_am_bcopy(uct_ep_h tl_ep, uint8_t id, uct_pack_callback_t pack,
                              void *arg, unsigned flags)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    ucs_status_t status;
    void *data = NULL;
    size_t length;

    status = muct_xgmi_am_reserve(ep, id, MUCT_XGMI_RING_MAX_MESSAGE, &data);
    if (status != UCS_OK) {
        if ((status == UCS_ERR_UNSUPPORTED) && (flags & UCT_SEND_FLAG_PEER_CHECK)) {
            return muct_xgmi_am_forget(pack, arg);
        }
        return status;
    }

    length = pack(data, arg);
    if (length > MUCT_XGMI_RING_MAX_MESSAGE) {
        return muct_am_refuse(id, length, MUCT_XGMI_RING_MAX_MESSAGE);
    }
    muct_xgmi_am_send(ep, id, data, length);
    return (ssize_t)length;
}
