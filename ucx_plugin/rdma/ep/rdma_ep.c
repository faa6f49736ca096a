/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/ep/rdma_ep.h"

#include "base/muct_log.h"
#include "rdma/ep/rdma_chan.h"
#include "rdma/ep/rdma_ep_wait.h"
#include "rdma/queue/rdma_wc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- create, destroy ---- */

muct_rdma_ep_t *muct_rdma_ep_new(muct_rdma_iface_t *iface)
{
    muct_rdma_ep_t *ep;

    ep = calloc(1, sizeof(*ep) + iface->limits.num_qps * sizeof(ep->chans[0]));
    if (ep == NULL) {
        muct_error("failed to allocate an endpoint");
        return NULL;
    }

    ep->super.super.iface = &iface->super.super;
    ep->carrier = iface;
    ep->state = MUCT_RDMA_EP_INIT;
    ep->num_qps = (uint8_t)iface->limits.num_qps;
    if (getrandom(&ep->psn, sizeof(ep->psn), 0) != sizeof(ep->psn)) {
        ep->psn =
            1; /* the number only separates stray packets of an earlier connection */
    }
    ep->psn &= 0xffffff;
    return ep;
}

void muct_rdma_ep_delete(muct_rdma_ep_t *ep)
{
    muct_rdma_ep_destroy_chans(ep, 0);
    muct_rdma_ep_iface(ep)->listener->stopped(ep, UCS_ERR_CANCELED);
    free(ep);
}

ucs_status_t muct_rdma_ep_make(muct_rdma_ep_t *ep)
{
    ucs_status_t status = muct_rdma_ep_create_chan(ep);

    if (status != UCS_OK) {
        return status;
    }

    if (ep->num_created < ep->num_qps) {
        return UCS_INPROGRESS;
    }

    muct_rdma_ep_offer_ece(ep);
    return muct_rdma_ep_iface(ep)->listener->made(ep);
}

/* The address needs a control queue pair number to which the peer sends for the
 * endpoint. */
void muct_rdma_ep_set_doom(muct_rdma_ep_t *ep, ucs_status_t status)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);

    muct_rdma_ep_destroy_chans(ep, 0);
    iface->listener->stopped(ep, status);
    if (ep->chans[0].first_qp_num == 0) {
        ep->chans[0].first_qp_num =
            (iface->ctl.ibv != NULL) ? iface->ctl.ibv->qp_num : 2;
    }
    ep->doom = status;
    iface->has_doomed = true;
    iface->async_countdown = 1;
}

/* End all operations. The queue pairs go first: callers may free their memory in the
 * callbacks, and the device must not use it any more. */
static void muct_rdma_ep_stop(muct_rdma_ep_t *ep, ucs_status_t status)
{
    const muct_rdma_ep_listener_t *listener = muct_rdma_ep_iface(ep)->listener;
    unsigned i;

    listener->stopping(ep);
    ep->state = MUCT_RDMA_EP_FAILED;
    ep->status = status;
    ep->has_event = true;
    for (i = 0; i < ep->num_created; ++i) {
        muct_rdma_chan_stop(&ep->chans[i]);
    }

    for (i = 0; i < ep->num_created; ++i) {
        muct_rdma_sq_purge(&ep->chans[i].sq, status);
    }

    listener->stopped(ep, status);
    if (ep->pending.head != NULL) {
        muct_rdma_ep_add_work(ep);
    }
}

void muct_rdma_ep_destroy(uct_ep_h tl_ep)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);

    if (ep->state != MUCT_RDMA_EP_FAILED) {
        muct_rdma_ep_stop(ep, UCS_ERR_CANCELED);
    }

    if (ep->pending.head != NULL) {
        muct_warn("endpoint %p is destroyed with requests waiting", (void *)ep);
    }

    muct_rdma_ep_destroy_chans(ep, 0);
    if (ep->has_work) {
        ucs_list_del(&ep->work);
    }
    ucs_list_del(&ep->list);
    --iface->num_eps;
    free(ep);
}

/* ---- connect ---- */

/* Reads that the endpoint answers at once: the agreed number, or before that as many as
 * earlier endpoints were granted. */
static uint8_t muct_rdma_ep_dest_reads(const muct_rdma_ep_t *ep)
{
    return ep->is_agreed ? ep->dest_reads
                         : (uint8_t)muct_rdma_ep_iface(ep)->limits.max_dest_reads;
}

ucs_status_t muct_rdma_ep_get_address(uct_ep_h tl_ep, uct_ep_addr_t *addr)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    muct_rdma_ep_addr_t ep_addr;
    unsigned i;

    if (ep->state == MUCT_RDMA_EP_FAILED) {
        return ep->status;
    }

    /* queue pairs that the peer does not use are destroyed; an endpoint that is to fail
     * has only a number */
    ep_addr.num_qps = (ep->num_created > 0) ? ep->num_created : 1;
    ep_addr.psn = ep->psn;
    ep_addr.num_receives =
        (uint16_t)((ep->doom == UCS_OK) ? ep->rx.first : iface->limits.rx_first);
    ep_addr.receive_size = iface->limits.seg_size;
    ep_addr.max_reads = ep->announced_reads = muct_rdma_ep_dest_reads(ep);
    ep_addr.is_read_wish = !ep->is_agreed && iface->limits.shares_reads;
    ep_addr.flush_addr = iface->flush_mem->base;
    ep_addr.flush_rkey = iface->flush_mem->mrs[0]->rkey;
    ep_addr.has_ece = iface->has_ece;
    ep_addr.ece = ep->ece;
    /* a broken control channel gets another number soon; the peer is notified then */
    ep_addr.ctl_qp = ((iface->ctl.ibv != NULL) && !iface->ctl.is_given_up)
                         ? iface->ctl.ibv->qp_num
                         : 0;
    for (i = 0; i < ep_addr.num_qps; ++i) {
        ep_addr.qp_nums[i] = ep->chans[i].first_qp_num;
    }

    if (ep->state == MUCT_RDMA_EP_INIT) {
        ep->recover.announced_ctl_qp = ep_addr.ctl_qp;
    }
    memset(addr, 0, muct_rdma_iface_ep_addr_size(iface));
    muct_rdma_ep_addr_pack(&ep_addr, addr);
    return UCS_OK;
}

void muct_rdma_ep_fill_path(const muct_rdma_ep_t *ep, muct_rdma_qp_path_t *path)
{
    const muct_rdma_limits_t *limits = &muct_rdma_ep_iface(ep)->limits;

    *path = ep->carrier->path;
    path->remote = ep->peer;
    path->local_psn = ep->psn;
    path->remote_psn = ep->peer_ep.psn;
    path->max_dest_reads = muct_rdma_ep_dest_reads(ep);
    path->may_answer_none = limits->shares_reads;
    path->max_reads =
        (uint8_t)((limits->max_reads < ep->peer_ep.max_reads) ? limits->max_reads
                                                              : ep->peer_ep.max_reads);
    path->mtu_shift = (limits->mtu_shift < ep->peer.mtu_shift) ? limits->mtu_shift
                                                               : ep->peer.mtu_shift;
    if (path->mtu_shift > ep->carrier->limits.mtu_shift) {
        path->mtu_shift = ep->carrier->limits.mtu_shift;
    }
}

void muct_rdma_ep_set_reads(muct_rdma_ep_t *ep, uint8_t num, bool is_wish)
{
    ep->peer_ep.max_reads = num;
    ep->is_pulling =
        is_wish || (num == 0) || (muct_rdma_ep_iface(ep)->limits.max_reads == 0);
}

static ucs_status_t muct_rdma_ep_set_peer(muct_rdma_ep_t *ep, const void *device_addr,
                                          size_t device_length, const void *ep_addr,
                                          size_t ep_length)
{
    const muct_rdma_limits_t *limits = &muct_rdma_ep_iface(ep)->limits;
    muct_rdma_fault_t fault;

    if ((muct_rdma_dev_addr_unpack(device_addr, device_length, &ep->peer, &fault) !=
         0) ||
        (muct_rdma_ep_addr_unpack(ep_addr, ep_length, &ep->peer_ep, &fault) != 0)) {
        muct_error("the peer's address is refused: " MUCT_RDMA_FAULT_FMT,
                   MUCT_RDMA_FAULT_ARG(&fault));
        return UCS_ERR_INVALID_ADDR;
    }

    if (ep->peer_ep.receive_size < limits->seg_size) {
        muct_error("the peer receives messages of at most %u bytes, we send up to %u: "
                   "UCX_MORI_RDMA_SEG_SIZE must be equal on both sides",
                   ep->peer_ep.receive_size, limits->seg_size);
        return UCS_ERR_UNREACHABLE;
    }

    muct_rdma_ep_set_reads(ep, ep->peer_ep.max_reads, ep->peer_ep.is_read_wish);
    ep->recover.first_peer = ep->peer;
    ep->recover.peer_incarnation = ep->peer.incarnation;
    ep->recover.conn_incarnation = ep->peer.incarnation;
    ep->recover.first_ctl_qp = ep->peer_ep.ctl_qp;
    ep->recover.peer_ctl_qp = ep->peer_ep.ctl_qp;
    return UCS_OK;
}

/* Connect as many queue pairs as both sides have. After an error the endpoint fails
 * with all queue pairs that are connected already. */
static ucs_status_t muct_rdma_ep_connect_qps(muct_rdma_ep_t *ep,
                                             muct_rdma_qp_path_t *path)
{
    ucs_status_t status = UCS_OK;
    unsigned i;

    if (ep->peer_ep.num_qps < ep->num_qps) {
        ep->num_qps = ep->peer_ep.num_qps;
        muct_rdma_ep_destroy_chans(ep, ep->num_qps);
    }
    muct_rdma_ece_choose(ep->carrier->ece, &ep->ece, &ep->peer_ep.ece, &path->ece);
    for (i = 0; (i < ep->num_qps) && (status == UCS_OK); ++i) {
        status = muct_rdma_qp_connect(ep->chans[i].ibv, path, ep->peer_ep.qp_nums[i]);
    }
    if (status == UCS_OK) {
        muct_rdma_ece_agreed(ep->chans[0].ibv, &path->ece, &ep->ece);
    }
    return status;
}

/* Later endpoints request reads again: some may have been returned. */
static void muct_rdma_ep_warn_no_reads(const muct_rdma_iface_t *iface)
{
    muct_rdma_md_t *md = muct_rdma_iface_md(iface);

    if ((iface->limits.max_dest_reads > 0) && !md->has_logged_reads) {
        md->has_logged_reads = true;
        muct_warn("%s: all %d responder resources are in use (ibv_devinfo -v: "
                  "max_res_rd_atom): gets of further peers go by messages, and this "
                  "process has to progress for them; lower UCX_MORI_RDMA_NUM_QPS, or "
                  "spread peers and threads over more devices",
                  md->device.name, md->device.attr.max_res_rd_atom);
    }
}

/* Check that our address announced the number of reads that we answer. If it announced
 * more, make a new connection with the right number, which an existing connection
 * cannot change.
 */
static ucs_status_t muct_rdma_ep_agree_reads(muct_rdma_ep_t *ep, uint8_t granted)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);

    ep->dest_reads = granted;
    ep->is_agreed = true;
    if (granted == 0) {
        muct_rdma_ep_warn_no_reads(iface);
    } else if (granted < iface->limits.max_dest_reads) {
        iface->limits.max_dest_reads = granted; /* the limit for further endpoints */
        muct_info("%s: a queue pair answers %u reads at once: the device refused more",
                  muct_rdma_iface_md(iface)->device.name, granted);
    }

    if ((ep->announced_reads <= granted) || (granted == 0) ||
        muct_rdma_ep_iface(ep)->listener->broke(ep, UCS_ERR_CONNECTION_RESET)) {
        return UCS_OK;
    }

    muct_error("this side announced %u concurrent reads to the peer, but the device "
               "grants %u: set UCX_MORI_RDMA_MAX_READS=%u",
               ep->announced_reads, granted, granted);
    return UCS_ERR_UNREACHABLE;
}

/* Longest message that is posted to one queue pair as a single work request */
static void muct_rdma_ep_set_max_simple(muct_rdma_ep_t *ep,
                                        const muct_rdma_limits_t *limits)
{
    ep->max_simple = limits->max_msg_size;
    if ((ep->num_qps > 1) && (limits->stripe_size <= ep->max_simple / 2)) {
        ep->max_simple = 2 * limits->stripe_size - 1;
    }
    if (ucs_log_is_enabled(UCS_LOG_LEVEL_TRACE_DATA)) {
        ep->max_simple = 0; /* traced operations take the slow path */
    }
}

ucs_status_t muct_rdma_ep_connect_to_ep_v2(uct_ep_h tl_ep,
                                           const uct_device_addr_t *device_addr,
                                           const uct_ep_addr_t *ep_addr,
                                           const uct_ep_connect_to_ep_params_t *params)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    muct_rdma_qp_path_t path;
    ucs_status_t status;

    if (ep->state != MUCT_RDMA_EP_INIT) {
        return (ep->state == MUCT_RDMA_EP_FAILED) ? ep->status : UCS_ERR_ALREADY_EXISTS;
    }

    status = muct_rdma_ep_set_peer(
        ep, device_addr,
        MUCT_PARAM(UCT_EP_CONNECT_TO_EP_PARAM_FIELD, params, device_addr_length,
                   DEVICE_ADDR_LENGTH, SIZE_MAX),
        ep_addr,
        MUCT_PARAM(UCT_EP_CONNECT_TO_EP_PARAM_FIELD, params, ep_addr_length,
                   EP_ADDR_LENGTH, SIZE_MAX));
    if (status != UCS_OK) {
        return status;
    }

    if (ep->doom != UCS_OK) {
        return UCS_OK;
    }

    muct_rdma_ep_fill_path(ep, &path);
    status = muct_rdma_ep_connect_qps(ep, &path);
    if (status != UCS_OK) {
        muct_rdma_ep_set_doom(ep, status);
        return UCS_OK;
    }

    muct_rdma_ep_set_max_simple(ep, &muct_rdma_ep_iface(ep)->limits);
    ep->credits = ep->peer_ep.num_receives;
    ep->state = MUCT_RDMA_EP_CONNECTED;
    ep->has_event = true;
    muct_rdma_ep_iface(ep)->listener->connected(ep);
    muct_debug("endpoint %p: %u queue pairs from 0x%x to 0x%x, mtu %u, credits %u",
               (void *)ep, ep->num_qps, ep->chans[0].ibv->qp_num,
               ep->peer_ep.qp_nums[0], 1u << path.mtu_shift, ep->credits);
    return muct_rdma_ep_agree_reads(ep, path.max_dest_reads);
}

int muct_rdma_ep_is_connected(uct_ep_h tl_ep,
                              const uct_ep_is_connected_params_t *params)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    muct_rdma_dev_addr_t device;
    muct_rdma_fault_t fault;
    muct_rdma_ep_addr_t addr;

    if ((ep->state != MUCT_RDMA_EP_CONNECTED) ||
        !(params->field_mask & UCT_EP_IS_CONNECTED_FIELD_DEVICE_ADDR) ||
        !(params->field_mask & UCT_EP_IS_CONNECTED_FIELD_EP_ADDR) ||
        (muct_rdma_dev_addr_unpack(params->device_addr, SIZE_MAX, &device, &fault) !=
         0) ||
        (muct_rdma_ep_addr_unpack(params->ep_addr, SIZE_MAX, &addr, &fault) != 0)) {
        return 0;
    }

    return (device.incarnation == ep->peer.incarnation) &&
           (addr.qp_nums[0] == ep->peer_ep.qp_nums[0]) && (addr.psn == ep->peer_ep.psn);
}

ucs_status_t muct_rdma_ep_query(uct_ep_h tl_ep, uct_ep_attr_t *attr)
{
    (void)tl_ep;
    return ((attr->field_mask &
             (UCT_EP_ATTR_FIELD_LOCAL_SOCKADDR | UCT_EP_ATTR_FIELD_REMOTE_SOCKADDR |
              UCT_EP_ATTR_FIELD_TX_TOKEN)) != 0)
               ? UCS_ERR_UNSUPPORTED
               : UCS_OK;
}

/* ---- failure ---- */

ucs_status_t muct_rdma_ep_invalidate(uct_ep_h tl_ep,
                                     const uct_ep_invalidate_params_t *params)
{
    (void)params;
    muct_rdma_ep_fail((muct_rdma_ep_t *)tl_ep, UCS_ERR_ENDPOINT_TIMEOUT, true);
    return UCS_OK;
}

void muct_rdma_ep_fail(muct_rdma_ep_t *ep, ucs_status_t status, bool is_unexpected)
{
    if (ep->state == MUCT_RDMA_EP_FAILED) {
        return;
    }

    if (is_unexpected) {
        muct_rdma_ep_iface(ep)->listener->failing(ep);
    }
    muct_rdma_ep_stop(ep, status);
    if (is_unexpected && !ep->is_canceled) {
        (void)uct_iface_handle_ep_err(ep->super.super.iface, &ep->super.super, status);
    }
}

void muct_rdma_ep_broke(muct_rdma_ep_t *ep, ucs_status_t status)
{
    if (!muct_rdma_ep_iface(ep)->listener->broke(ep, status)) {
        muct_rdma_ep_fail(ep, status, true);
    }
}

void muct_rdma_ep_handle_error(muct_rdma_chan_t *chan, const struct ibv_wc *wc)
{
    ucs_status_t status = muct_rdma_wc_status(wc->status);
    muct_rdma_ep_t *ep = chan->ep;
    const muct_rdma_ep_listener_t *listener = muct_rdma_ep_iface(ep)->listener;
    const uint32_t *peer_qps =
        (ep->recover.epoch > 0) ? ep->recover.offer.qp_nums : ep->peer_ep.qp_nums;
    bool is_recv = (wc->wr_id & MUCT_RDMA_WR_ID_RECV) != 0;

    if (ep->is_ahead) {
        ep->state = MUCT_RDMA_EP_FAILED; /* the endpoint has no user to notify */
        return;
    }

    if (ep->state == MUCT_RDMA_EP_RECOVERING) {
        listener->flushed(chan, wc);
        return;
    }

    if (wc->status == IBV_WC_WR_FLUSH_ERR) {
        status = UCS_ERR_CONNECTION_RESET; /* no completion gives the reason */
    }

    ucs_log(muct_rdma_ep_iface(ep)->super.config.failure_level,
            "%s: %s on qp 0x%x to qp 0x%x failed: %s (vendor 0x%x): %s",
            muct_rdma_iface_md(muct_rdma_ep_iface(ep))->device.name,
            is_recv ? "receive" : "send", chan->ibv->qp_num, peer_qps[chan - ep->chans],
            muct_rdma_verbs.wc_status_str(wc->status), wc->vendor_err,
            muct_rdma_wc_hint(wc->status));
    /* those before the first failed one have succeeded: this connection made progress
     */
    if (!is_recv && (wc->status != IBV_WC_WR_FLUSH_ERR) &&
        ((uint32_t)wc->wr_id != chan->sq.tail)) {
        ep->recover.tries = 0;
    }
    if (muct_rdma_wc_may_pass(wc->status) && listener->broke(ep, status)) {
        listener->flushed(chan, wc);
        return;
    }

    if (!is_recv) {
        muct_rdma_sq_complete(&chan->sq, (uint32_t)wc->wr_id, status);
    }
    muct_rdma_ep_fail(ep, status, true);
}

muct_rdma_chan_t *muct_rdma_ep_least(muct_rdma_ep_t *ep)
{
    muct_rdma_chan_t *least = NULL, *chan;

    for (chan = ep->chans; chan < ep->chans + ep->num_qps; ++chan) {
        if ((muct_rdma_sq_free(&chan->sq) > 0) &&
            ((least == NULL) || (muct_rdma_sq_busy_bytes(&chan->sq) <
                                 muct_rdma_sq_busy_bytes(&least->sq)))) {
            least = chan;
        }
    }

    return least;
}

void muct_rdma_ep_break(muct_rdma_ep_t *ep)
{
    muct_rdma_sq_lose(&ep->chans[0].sq, ENOMEM);
}

ucs_status_t muct_rdma_ep_refuse_key(const muct_rdma_ep_t *ep,
                                     const muct_rdma_key_t *key, uint64_t address,
                                     size_t length)
{
    if (key->incarnation != ep->peer.incarnation) {
        muct_error("remote key of incarnation 0x%" PRIx64
                   " used with a peer of incarnation 0x%" PRIx64
                   ": it belongs to another or an earlier process or device",
                   key->incarnation, ep->peer.incarnation);
    } else {
        muct_error("remote access to 0x%" PRIx64
                   " length %zu is outside its key's region "
                   "0x%" PRIx64 " length %" PRIu64,
                   address, length, key->base, key->length);
    }

    return UCS_ERR_INVALID_PARAM;
}

/* ---- callbacks of work requests ---- */

void muct_rdma_done_comp(void *arg, ucs_status_t status)
{
    muct_completion_invoke(arg, status);
}

void muct_rdma_done_buf(void *arg, ucs_status_t status)
{
    (void)status;
    muct_rdma_buf_put(arg);
}

void muct_rdma_done_buf_comp(void *arg, ucs_status_t status)
{
    muct_rdma_buf_t *buf = arg;
    uct_completion_t *comp = buf->comp;

    muct_rdma_buf_put(buf);
    if (comp != NULL) {
        muct_completion_invoke(comp, status);
    }
}

void muct_rdma_done_unpack(void *arg, ucs_status_t status)
{
    muct_rdma_buf_t *buf = arg;

    if (status == UCS_OK) {
        buf->unpack(buf->arg, muct_rdma_buf_data(buf), buf->length);
    }
    muct_rdma_done_buf_comp(buf, status);
}
