/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/xgmi_perf.h"

#include "base/muct_topo.h"

#include <ucs/config/parser.h>

/* Default in bytes per second where links are unknown: below NVLink of H200. */
#define MUCT_XGMI_UNKNOWN_BANDWIDTH (200.0 * UCS_GBYTE)

/* Cost of a message through host memory: latency and overhead of each side in seconds,
 * and bytes per second, measured between two processors of one socket (perf/results,
 * 2026-11-26). */
#define MUCT_XGMI_MESSAGE_LATENCY 0.2e-6
#define MUCT_XGMI_MESSAGE_OVERHEAD 0.1e-6
#define MUCT_XGMI_MESSAGE_BANDWIDTH (10.0 * UCS_GBYTE)

/* Host memory that a GPU copies: bytes per second of PCI Express 4 with 16 lanes, and
 * seconds of a launch with its end. UCP compares messages with it. In a rendezvous the
 * side with the host memory should move the data, because private memory of a peer
 * turns out to be unreachable only when its key is unpacked. So remote host memory
 * counts as slower. */
#define MUCT_XGMI_HOST_BANDWIDTH (25.0 * UCS_GBYTE)
#define MUCT_XGMI_HOST_LATENCY 8e-6
#define MUCT_XGMI_REMOTE_HOST_FACTOR 0.5


void muct_xgmi_perf_find_links(muct_xgmi_iface_t *iface, const char *topology,
                               double bandwidth)
{
    double slowest;

    muct_links_read(topology, &iface->links);
    slowest = muct_links_bandwidth(&iface->links, NULL, NULL);
    iface->bandwidth = !UCS_CONFIG_DBL_IS_AUTO(bandwidth) ? bandwidth
                       : (slowest > 0)                    ? slowest
                                                          : MUCT_XGMI_UNKNOWN_BANDWIDTH;
}

/* Processes of a host do not share a link when each pair of GPUs has its own. */
uct_ppn_bandwidth_t muct_xgmi_perf_bandwidth(const muct_xgmi_iface_t *iface,
                                             double bandwidth)
{
    uct_ppn_bandwidth_t result = {.dedicated = 0, .shared = 0};

    if (iface->links.count > 0) {
        result.dedicated = bandwidth;
    } else {
        result.shared = bandwidth;
    }
    return result;
}

/* Bandwidth of a pair of GPUs; 0 unless both are named and their link is known. */
static double muct_xgmi_perf_pair(const muct_xgmi_iface_t *iface,
                                  const uct_perf_attr_t *attr)
{
    const uint64_t both =
        UCT_PERF_ATTR_FIELD_LOCAL_SYS_DEVICE | UCT_PERF_ATTR_FIELD_REMOTE_SYS_DEVICE;
    char from[MUCT_TOPO_BDF_SIZE], to[MUCT_TOPO_BDF_SIZE];

    if ((attr->field_mask & both) != both) {
        return 0;
    }

    ucs_topo_sys_device_bdf_name(attr->local_sys_device, from, sizeof(from));
    ucs_topo_sys_device_bdf_name(attr->remote_sys_device, to, sizeof(to));
    return muct_links_bandwidth(&iface->links, from, to);
}

static bool muct_xgmi_perf_is_message(const uct_perf_attr_t *attr)
{
    return (attr->field_mask & UCT_PERF_ATTR_FIELD_OPERATION) &&
           ((attr->operation == UCT_EP_OP_AM_SHORT) ||
            (attr->operation == UCT_EP_OP_AM_BCOPY));
}

static bool muct_xgmi_perf_is_zcopy(const uct_perf_attr_t *attr)
{
    return (attr->field_mask & UCT_PERF_ATTR_FIELD_OPERATION) &&
           ((attr->operation == UCT_EP_OP_PUT_ZCOPY) ||
            (attr->operation == UCT_EP_OP_GET_ZCOPY));
}

/* Share of the bus that a zero-copy of host memory gets; 0: no host memory. For
 * buffered puts and gets UCP adds the copies to pinned buffers. */
static double muct_xgmi_perf_host_share(const uct_perf_attr_t *attr)
{
    if (!muct_xgmi_perf_is_zcopy(attr)) {
        return 0;
    }
    if ((attr->field_mask & UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE) &&
        (attr->remote_memory_type == UCS_MEMORY_TYPE_HOST)) {
        return MUCT_XGMI_REMOTE_HOST_FACTOR;
    }

    return ((attr->field_mask & UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE) &&
            (attr->local_memory_type == UCS_MEMORY_TYPE_HOST))
               ? 1
               : 0;
}

static void muct_xgmi_perf_of_message(uct_perf_attr_t *attr)
{
    const uct_ppn_bandwidth_t bandwidth = {.dedicated = MUCT_XGMI_MESSAGE_BANDWIDTH};

    if (attr->field_mask & UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD) {
        attr->send_pre_overhead = MUCT_XGMI_MESSAGE_OVERHEAD;
    }
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_RECV_OVERHEAD) {
        attr->recv_overhead = MUCT_XGMI_MESSAGE_OVERHEAD;
    }
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_LATENCY) {
        attr->latency = ucs_linear_func_make(MUCT_XGMI_MESSAGE_LATENCY, 0);
    }
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_BANDWIDTH) {
        attr->bandwidth = bandwidth;
    }
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH) {
        attr->path_bandwidth = bandwidth;
    }
}

ucs_status_t muct_xgmi_perf_estimate(uct_iface_h tl_iface, uct_perf_attr_t *attr)
{
    const muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);
    ucs_status_t status = uct_base_iface_estimate_perf(tl_iface, attr);
    double bandwidth = muct_xgmi_perf_pair(iface, attr);
    double host_share = muct_xgmi_perf_host_share(attr);

    if ((status == UCS_OK) && muct_xgmi_perf_is_message(attr)) {
        muct_xgmi_perf_of_message(attr);
        return UCS_OK;
    }
    if ((status == UCS_OK) && (host_share > 0)) {
        bandwidth = host_share * MUCT_XGMI_HOST_BANDWIDTH;
        if (attr->field_mask & UCT_PERF_ATTR_FIELD_LATENCY) {
            attr->latency =
                ucs_linear_func_make(MUCT_XGMI_HOST_LATENCY / host_share, 0);
        }
    }
    if ((status == UCS_OK) && (bandwidth > 0)) {
        if (attr->field_mask & UCT_PERF_ATTR_FIELD_BANDWIDTH) {
            attr->bandwidth = muct_xgmi_perf_bandwidth(iface, bandwidth);
        }
        if (attr->field_mask & UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH) {
            attr->path_bandwidth = muct_xgmi_perf_bandwidth(iface, bandwidth);
        }
    }
    return status;
}
