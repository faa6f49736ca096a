/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Interface attributes: capabilities, addresses, and reachability of peers.
 */

#include "rdma/rdma_query.h"
#include "rdma/op/rdma_sgl_check.h"

#include "rdma/ep/rdma_ep.h"
#include "rdma/op/rdma_am.h"

#include <string.h>

/* Bytes that a RoCE v2 packet adds to its data on the wire: Ethernet with preamble,
 * check sum and gap, IPv4, UDP, the transport's header and its check sum. The first
 * packet of a message also carries the remote address. */
#define MUCT_RDMA_PACKET_COST 82.0
#define MUCT_RDMA_MESSAGE_COST 16.0

/* Routes are read again after so many milliseconds. */
#define MUCT_RDMA_ROUTES_MS 1000

/* ---- capabilities ---- */

/* Use whole packets only: the rest of a buffer would be a nearly empty packet. */
static size_t muct_rdma_max_copied(const muct_rdma_limits_t *limits)
{
    const size_t mtu = (size_t)1 << limits->mtu_shift;

    return (limits->seg_size < mtu) ? limits->seg_size : limits->seg_size & ~(mtu - 1);
}

static void muct_rdma_iface_query_rma(const muct_rdma_iface_t *iface,
                                      uct_iface_attr_t *attr)
{
    const muct_rdma_limits_t *limits = &iface->limits;
    size_t max_zcopy = muct_rdma_max_zcopy(limits);

    attr->cap.put.max_short = muct_rdma_am_max_short(iface);
    attr->cap.put.max_bcopy = muct_rdma_max_copied(limits);
    attr->cap.put.min_zcopy = 0;
    attr->cap.put.max_zcopy = max_zcopy;
    attr->cap.put.max_iov = limits->max_sge;
    attr->cap.put.opt_zcopy_align = 512;
    attr->cap.put.align_mtu = (size_t)1 << limits->mtu_shift;
    attr->cap.get.max_bcopy = muct_rdma_max_copied(limits);
    attr->cap.get.min_zcopy = 0;
    attr->cap.get.max_zcopy = max_zcopy;
    attr->cap.get.max_iov = limits->max_sge;
    attr->cap.get.opt_zcopy_align = 512;
    attr->cap.get.align_mtu = (size_t)1 << limits->mtu_shift;
}

static void muct_rdma_iface_query_am(const muct_rdma_iface_t *iface,
                                     uct_iface_attr_t *attr)
{
    const muct_rdma_limits_t *limits = &iface->limits;
    size_t max = limits->seg_size - MUCT_RDMA_AM_HEADER;

    attr->cap.am.max_short = muct_rdma_am_max_short(iface);
    attr->cap.am.max_bcopy = max;
    attr->cap.am.opt_zcopy_align = 512;
    attr->cap.am.align_mtu = (size_t)1 << limits->mtu_shift;
    if (limits->max_sge > 1) {
        attr->cap.flags |= UCT_IFACE_FLAG_AM_ZCOPY;
        attr->cap.am.min_zcopy = 0;
        attr->cap.am.max_zcopy = max;
        attr->cap.am.max_hdr = max / 2;
        attr->cap.am.max_iov = limits->max_sge - 1;
    }
}

static void muct_rdma_iface_query_atomics(const muct_rdma_iface_t *iface,
                                          uct_iface_attr_t *attr)
{
    if (!iface->limits.has_atomics) {
        return;
    }

    attr->cap.flags |= UCT_IFACE_FLAG_ATOMIC_DEVICE;
    attr->cap.atomic64.op_flags = UCS_BIT(UCT_ATOMIC_OP_ADD);
    attr->cap.atomic64.fop_flags =
        UCS_BIT(UCT_ATOMIC_OP_ADD) | UCS_BIT(UCT_ATOMIC_OP_CSWAP);
}

ucs_status_t muct_rdma_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    muct_rdma_iface_t *iface = (muct_rdma_iface_t *)tl_iface;

    uct_base_iface_query(&iface->super, attr);
    attr->device_addr_len = MUCT_RDMA_DEV_ADDR_SIZE;
    attr->iface_addr_len = 0;
    attr->ep_addr_len = muct_rdma_iface_ep_addr_size(iface);
    attr->max_conn_priv = 0;
    attr->cap.flags =
        UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_PUT_SHORT |
        UCT_IFACE_FLAG_PUT_BCOPY | UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_BCOPY |
        UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING |
        UCT_IFACE_FLAG_CONNECT_TO_EP | UCT_IFACE_FLAG_CB_SYNC |
        UCT_IFACE_FLAG_EP_CHECK | UCT_IFACE_FLAG_INTER_NODE |
        UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE | UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF |
        UCT_IFACE_FLAG_ERRHANDLE_REMOTE_MEM;
    attr->cap.event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV |
                            UCT_IFACE_FLAG_EVENT_FD;
    muct_rdma_iface_query_rma(iface, attr);
    muct_rdma_iface_query_am(iface, attr);
    muct_rdma_iface_query_atomics(iface, attr);
    attr->latency = ucs_linear_func_make(1e-6, 1e-9);
    attr->overhead = 75e-9;
    attr->bandwidth.dedicated = 0;
    attr->bandwidth.shared = iface->port.bandwidth;
    attr->priority = 50;
    attr->dev_num_paths = 1;
    if (iface->is_left_out) {
        attr->cap.flags = UCT_IFACE_FLAG_CONNECT_TO_EP | UCT_IFACE_FLAG_CB_SYNC;
    }
    return UCS_OK;
}

ucs_status_t muct_rdma_iface_query_v2(uct_iface_h tl_iface, uct_iface_attr_v2_t *attr)
{
    size_t max = muct_rdma_ep_max_sgl((muct_rdma_iface_t *)tl_iface);

    if (attr->field_mask & UCT_IFACE_ATTR_FIELD_MAX_PUT_SGL_ZCOPY_COUNT) {
        attr->max_put_sgl_zcopy_count = max;
    }
#if MUCT_ABI_HAVE_GET_SGL
    if (attr->field_mask & UCT_IFACE_ATTR_FIELD_MAX_GET_SGL_ZCOPY_COUNT) {
        attr->max_get_sgl_zcopy_count = max;
    }
#endif
    if (attr->field_mask & UCT_IFACE_ATTR_FIELD_CAP_FLAGS) {
        attr->cap.flags = UCT_IFACE_FLAG_V2_PUT_SGL_ZCOPY;
#if MUCT_ABI_HAVE_GET_SGL
        attr->cap.flags |= UCT_IFACE_FLAG_V2_GET_SGL_ZCOPY;
#endif
    }
    if (attr->field_mask & UCT_IFACE_ATTR_FIELD_TX_TOKEN_LENGTH) {
        attr->tx_token_length = 0;
    }
    if (attr->field_mask & UCT_IFACE_ATTR_FIELD_RX_TOKEN_LENGTH) {
        attr->rx_token_length = 0;
    }

    return UCS_OK;
}

/* Whether UCP cuts this operation into messages of at most SEG_SIZE. */
static bool muct_rdma_op_is_cut(uct_ep_operation_t op)
{
    return (op == UCT_EP_OP_AM_BCOPY) || (op == UCT_EP_OP_AM_ZCOPY) ||
           (op == UCT_EP_OP_PUT_BCOPY) || (op == UCT_EP_OP_GET_BCOPY);
}

/* Share of a long message's bandwidth that a sequence of short messages reaches. */
static double muct_rdma_cut_share(const muct_rdma_limits_t *limits)
{
    const size_t mtu = (size_t)1 << limits->mtu_shift;
    const size_t length = muct_rdma_max_copied(limits);
    const double packets = (double)((length + mtu - 1) >> limits->mtu_shift);
    const double cut = (double)length / ((double)length + MUCT_RDMA_MESSAGE_COST +
                                         packets * MUCT_RDMA_PACKET_COST);
    const double whole = (double)mtu / ((double)mtu + MUCT_RDMA_PACKET_COST);

    return cut / whole;
}

/* Lower the bandwidth of operations that are cut into messages. If the link is slower
 * than a copy, UCP would otherwise see no cost in copying into many messages, and would
 * copy everything it sends. */
ucs_status_t muct_rdma_iface_estimate_perf(uct_iface_h tl_iface, uct_perf_attr_t *attr)
{
    const muct_rdma_iface_t *iface = (const muct_rdma_iface_t *)tl_iface;
    ucs_status_t status = uct_base_iface_estimate_perf(tl_iface, attr);
    double share;

    if ((status != UCS_OK) || !(attr->field_mask & UCT_PERF_ATTR_FIELD_OPERATION) ||
        !muct_rdma_op_is_cut(attr->operation)) {
        return status;
    }

    share = muct_rdma_cut_share(&iface->limits);
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_BANDWIDTH) {
        attr->bandwidth.shared *= share;
    }
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH) {
        attr->path_bandwidth.shared *= share;
    }
    return UCS_OK;
}

/* ---- addresses ---- */

ucs_status_t muct_rdma_iface_get_device_address(uct_iface_h tl_iface,
                                                uct_device_addr_t *buffer)
{
    muct_rdma_dev_addr_t addr;

    muct_rdma_iface_device_address((muct_rdma_iface_t *)tl_iface, &addr);
    muct_rdma_dev_addr_pack(&addr, buffer);
    return UCS_OK;
}

ucs_status_t muct_rdma_iface_get_address(uct_iface_h tl_iface, uct_iface_addr_t *buffer)
{
    (void)tl_iface;
    (void)buffer;
    return UCS_OK;
}

/* Accept a peer by recently read routes. Read them again before refusing one: a link
 * may have come up. */
static bool muct_rdma_iface_has_route(muct_rdma_iface_t *iface, const uint8_t gid[16])
{
    const bool is_local = iface->reachability == MUCT_RDMA_REACH_LOCAL_SUBNET;
    const uint64_t now = muct_rdma_now_ms();

    if (iface->has_routes && (now - iface->routes_ms < MUCT_RDMA_ROUTES_MS) &&
        ((now == iface->routes_ms) ||
         muct_rdma_routes_lead_to(&iface->routes, gid, is_local))) {
        return muct_rdma_routes_lead_to(&iface->routes, gid, is_local);
    }

    muct_rdma_routes_read(iface->port.net, iface->port.gid.raw, &iface->routes);
    iface->has_routes = true;
    iface->routes_ms = now;
    return muct_rdma_routes_lead_to(&iface->routes, gid, is_local);
}

/* Reason why no route leads to the peer; NULL when one does or routes are unknown. */
static const char *muct_rdma_iface_no_route(muct_rdma_iface_t *iface,
                                            const muct_rdma_dev_addr_t *remote)
{
    const bool is_local = iface->reachability == MUCT_RDMA_REACH_LOCAL_SUBNET;

    if ((iface->reachability == MUCT_RDMA_REACH_ALL) ||
        (iface->port.link != MUCT_RDMA_LINK_ROCE_V2) ||
        (remote->gid[0] == 0xfe) || /* link-local */
        (memcmp(remote->gid, iface->port.gid.raw, sizeof(remote->gid)) == 0)) {
        return NULL;
    }

    if (muct_rdma_iface_has_route(iface, remote->gid)) {
        return NULL;
    }

    return is_local
               ? "the peer's address is in no subnet of the port's network interface"
               : "no route by the port's network interface leads to the peer's "
                 "address; UCX_MORI_RDMA_REACHABILITY=all asks for none";
}

int muct_rdma_iface_is_reachable_v2(const uct_iface_h tl_iface,
                                    const uct_iface_is_reachable_params_t *params)
{
    muct_rdma_iface_t *iface = (muct_rdma_iface_t *)tl_iface;
    muct_rdma_dev_addr_t local, remote;
    muct_rdma_fault_t fault;
    const char *reason;
    size_t length;

    if (!(params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR) ||
        (params->device_addr == NULL)) {
        uct_iface_fill_info_str_buf(params, "device address is not given");
        return 0;
    }

    length = MUCT_PARAM(UCT_IFACE_IS_REACHABLE_FIELD, params, device_addr_length,
                        DEVICE_ADDR_LENGTH, SIZE_MAX);
    if (muct_rdma_dev_addr_unpack(params->device_addr, length, &remote, &fault) != 0) {
        uct_iface_fill_info_str_buf(
            params, "the peer's device address is refused: " MUCT_RDMA_FAULT_FMT,
            MUCT_RDMA_FAULT_ARG(&fault));
        return 0;
    }

    muct_rdma_iface_device_address(iface, &local);
    reason = muct_rdma_dev_addr_unreachable(&local, &remote, iface->same_rail);
    if (reason == NULL) {
        reason = muct_rdma_iface_no_route(iface, &remote);
    }
    if (reason != NULL) {
        uct_iface_fill_info_str_buf(params, "%s", reason);
        return 0;
    }

    return uct_iface_scope_is_reachable(tl_iface, params);
}
