/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/device/rdma_config.h"

#include "base/muct_log.h"
#include "base/muct_tuning.h"
#include "rdma/device/rdma_family.h"

#include <ucs/sys/string.h>

#include <limits.h>

#define MUCT_RDMA_RX_DEPTH 64
#define MUCT_RDMA_LEAST_INLINE 4 /* a header: answers and credits need no buffer */
#define MUCT_RDMA_CQ_DEPTH 16384
/* Queue pairs that share a device's responder resources, where those are few. */
#define MUCT_RDMA_RESPONDER_SHARES 16

#define MUCT_RDMA_QPS_TEXT UCS_PP_MAKE_STRING(MUCT_RDMA_ADDR_MAX_QPS)

/* Path MTUs of the standard: powers of two from 256 to 4096. */
static const char *muct_rdma_config_mtu_names[] = {"default", "256",  "512", "1024",
                                                   "2048",    "4096", NULL};

static const char *muct_rdma_config_reach_names[] = {[MUCT_RDMA_REACH_ROUTE] = "route",
                                                     [MUCT_RDMA_REACH_LOCAL_SUBNET] =
                                                         "local_subnet",
                                                     [MUCT_RDMA_REACH_ALL] = "all",
                                                     NULL};

ucs_config_field_t muct_rdma_iface_config_table[] = {
    {"", "", NULL, ucs_offsetof(muct_rdma_iface_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"NUM_QPS", "auto",
     "Queue pairs of each endpoint, 1 to " MUCT_RDMA_QPS_TEXT
     ". More than one lets a device work on\n"
     "one transfer in parallel and costs memory for each; auto by device, and one for\n"
     "each link of a bond up to 4.",
     ucs_offsetof(muct_rdma_iface_config_t, num_qps), UCS_CONFIG_TYPE_ULUNITS},

    {"TX_DEPTH", "auto",
     "Work requests that may be posted to a queue pair, 2 to 1048576; auto by\n"
     "device, and less for endpoints beyond the first 128. Raise it for long lists of\n"
     "small blocks, lower it when queue pairs cannot be created for lack of memory.",
     ucs_offsetof(muct_rdma_iface_config_t, tx_depth), UCS_CONFIG_TYPE_ULUNITS},

    {"RX_DEPTH", UCS_PP_MAKE_STRING(MUCT_RDMA_RX_DEPTH),
     "Active messages a peer may send before it waits for credits, 1 to 32768; each\n"
     "costs SEG_SIZE bytes an endpoint. Raise it when streams of small messages stall.",
     ucs_offsetof(muct_rdma_iface_config_t, rx_depth), UCS_CONFIG_TYPE_UINT},

    {"CQ_DEPTH", UCS_PP_MAKE_STRING(MUCT_RDMA_CQ_DEPTH),
     "Entries of a completion queue, 1 to 4194304; more queues are made as endpoints\n"
     "need them. Lower it when completion queues cannot be created for lack of memory.",
     ucs_offsetof(muct_rdma_iface_config_t, cq_depth), UCS_CONFIG_TYPE_UINT},

    {"TX_MAX_SGE", "auto",
     "Scattered local blocks one work request may gather, 1 to 32 entries; auto\n"
     "by device. Some devices are faster with fewer.",
     ucs_offsetof(muct_rdma_iface_config_t, max_sge), UCS_CONFIG_TYPE_ULUNITS},

    {"TX_INLINE", "auto",
     "Bytes of a message put into the work request itself, 0 to 65536; auto by\n"
     "device. 0 on devices where inline data is slow.",
     ucs_offsetof(muct_rdma_iface_config_t, max_inline), UCS_CONFIG_TYPE_ULUNITS},

    {"POST_BATCH", "auto",
     "Most work requests posted with one doorbell; auto is 32. It is post_batch_size of\n"
     "MORI-IO and of engines that use it: 1 for the lowest latency of each, more for\n"
     "less cost a request.",
     ucs_offsetof(muct_rdma_iface_config_t, post_batch), UCS_CONFIG_TYPE_ULUNITS},

    {"SEG_SIZE", "8256",
     "Largest buffered message, 256 to 524288 bytes, its header of 4 included. Must\n"
     "be equal on both sides.",
     ucs_offsetof(muct_rdma_iface_config_t, seg_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"STRIPE_SIZE", "64k",
     "Least bytes of a transfer worth a queue pair of their own when NUM_QPS is\n"
     "more than 1, at least 512. Lower it to spread smaller transfers.",
     ucs_offsetof(muct_rdma_iface_config_t, stripe_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"TIMEOUT", "0",
     "Time without an answer until a packet is sent again, in seconds; 0 by\n"
     "device. The device doubles 4.096 us to reach it and may take up to four\n"
     "times as long. A broken path is an error after TIMEOUT x RETRY_COUNT.",
     ucs_offsetof(muct_rdma_iface_config_t, timeout), UCS_CONFIG_TYPE_TIME},

    {"RETRY_COUNT", "auto",
     "Times a packet is sent again, 0 to 7; auto by device. Raise it on lossy\n"
     "networks; but 7 means forever on some devices (soft-RoCE), which then never\n"
     "report a dead peer.",
     ucs_offsetof(muct_rdma_iface_config_t, retry_count), UCS_CONFIG_TYPE_ULUNITS},

    {"RNR_RETRY_COUNT", "7",
     "Times a message that found no receive is sent again, 0 to 7; 7: forever.\n"
     "Credits keep this from happening.",
     ucs_offsetof(muct_rdma_iface_config_t, rnr_retry), UCS_CONFIG_TYPE_UINT},

    {"RNR_TIMEOUT", "1ms", "Time between repetitions of RNR_RETRY_COUNT, in seconds.",
     ucs_offsetof(muct_rdma_iface_config_t, rnr_timer), UCS_CONFIG_TYPE_TIME},

    {"SL", "0",
     "Service level, 0 to 15 (on Ethernet: VLAN priority, 0 to 7). Set what the\n"
     "fabric's quality of service expects.",
     ucs_offsetof(muct_rdma_iface_config_t, sl), UCS_CONFIG_TYPE_UINT},

    {"TRAFFIC_CLASS", "auto",
     "Traffic class of Ethernet packets (DSCP x 4), 0 to 255; auto is the port's,\n"
     "else 106 on RoCE version 2. Set what the fabric's lossless class expects.",
     ucs_offsetof(muct_rdma_iface_config_t, traffic_class), UCS_CONFIG_TYPE_ULUNITS},

    {"HOP_LIMIT", "255", "Routers a packet may cross, 1 to 255.",
     ucs_offsetof(muct_rdma_iface_config_t, hop_limit), UCS_CONFIG_TYPE_UINT},

    {"GID_INDEX", "auto",
     "Entry of the port's GID table. auto prefers RoCE version 2 and IPv4. Set it\n"
     "where a port has several networks.",
     ucs_offsetof(muct_rdma_iface_config_t, gid_index), UCS_CONFIG_TYPE_ULUNITS},

    {"PATH_MTU", "default",
     "Path MTU in bytes; default is the port's, or the peer's when that is less.\n"
     "Lower it when a switch between has less.",
     ucs_offsetof(muct_rdma_iface_config_t, path_mtu),
     UCS_CONFIG_TYPE_ENUM(muct_rdma_config_mtu_names)},

    {"PKEY", "0x0",
     "InfiniBand partition key, 15 bits; 0 is the first one of the port's table that\n"
     "it is a full member of.",
     ucs_offsetof(muct_rdma_iface_config_t, pkey), UCS_CONFIG_TYPE_HEX},

    {"MAX_READS", "auto",
     "Reads and atomics of a queue pair in flight at once. auto is the limit of both\n"
     "devices, and 1 where a device answers few of all its queue pairs (ionic).\n"
     "Raise it there when gets are slow and peers are few; a device that refuses gives\n"
     "8, 4 or 1.",
     ucs_offsetof(muct_rdma_iface_config_t, max_reads), UCS_CONFIG_TYPE_ULUNITS},

    {"ECE", "auto",
     "Enhanced connection establishment: devices of one vendor agree on features beyond\n"
     "the standard (selective repeat on mlx5). auto takes those that both devices have,\n"
     "inf all, 0 none; else 32 bits that the vendor defines, in decimal and equal on\n"
     "both sides. Set it to 0 if the firmwares of the two sides are incompatible.",
     ucs_offsetof(muct_rdma_iface_config_t, ece), UCS_CONFIG_TYPE_ULUNITS},

    {"RAIL_AFFINITY", "n",
     "Connect only devices of equal index on both sides: y or n. y where the\n"
     "network joins rail i with rail i only.",
     ucs_offsetof(muct_rdma_iface_config_t, rail_affinity), UCS_CONFIG_TYPE_BOOL},

    {"REACHABILITY", "route",
     "Peers that a port of RoCE version 2 can reach: route (those that a route by its\n"
     "network interface leads to), local_subnet (those of its own subnets), or all. UCP\n"
     "takes another port, or tcp, for a peer that is not reached. Choose local_subnet\n"
     "where routers between rails drop RDMA, and all where routes do not show it.",
     ucs_offsetof(muct_rdma_iface_config_t, reachability),
     UCS_CONFIG_TYPE_ENUM(muct_rdma_config_reach_names)},

    {"PORT_DOWN_TIMEOUT", "0",
     "Time a link may be down until its endpoints fail, in seconds; 0 by device,\n"
     "inf leaves it to TIMEOUT and RETRY_COUNT.",
     ucs_offsetof(muct_rdma_iface_config_t, port_down_timeout), UCS_CONFIG_TYPE_TIME},

    {"RECOVERY", "3",
     "Times in a row that a broken connection is recovered without an operation ending\n"
     "on it in between, 0 to 1000; 0 fails the endpoint at once. Set it to 0 for\n"
     "programs that poll memory which peers put into.",
     ucs_offsetof(muct_rdma_iface_config_t, recovery), UCS_CONFIG_TYPE_UINT},

    {"RECOVERY_TIMEOUT", "0",
     "Time to recover a connection, in seconds; 0 by device. Raise it above the longest\n"
     "outage of the network that programs must survive.",
     ucs_offsetof(muct_rdma_iface_config_t, recovery_timeout), UCS_CONFIG_TYPE_TIME},

    {"MAX_BUFS", "inf",
     "Most buffers of SEG_SIZE for sending, of one interface; as many more for\n"
     "receiving. Lower it to bound memory: senders then wait.",
     ucs_offsetof(muct_rdma_iface_config_t, max_bufs), UCS_CONFIG_TYPE_UINT},

    {"THREAD_DOMAIN", "try",
     "Queue pairs of an interface in a thread domain, so that the device's library\n"
     "takes no lock to post: y, n, or try where the device has them. Choose n where\n"
     "doorbells of the device are scarce: each interface takes one.",
     ucs_offsetof(muct_rdma_iface_config_t, thread_domain), UCS_CONFIG_TYPE_TERNARY},

    {NULL, NULL, NULL, 0, {0}}};

/* Reduce a value to the device's limit. Only a value that the user set gets a
 * warning. */
static unsigned long muct_rdma_config_clamp(const muct_rdma_device_t *device,
                                            const char *option, unsigned long value,
                                            unsigned long by_default,
                                            unsigned long limit)
{
    if (value <= limit) {
        return value;
    }

    if (value != by_default) {
        muct_warn("%s: UCX_MORI_RDMA_%s=%lu is more than the device has, using %lu",
                  device->name, option, value, limit);
    }

    return limit;
}

static ucs_status_t muct_rdma_config_check(const char *option, unsigned long value,
                                           unsigned long low, unsigned long high)
{
    if ((value >= low) && (value <= high)) {
        return UCS_OK;
    }

    muct_error("UCX_MORI_RDMA_%s=%lu: expected %lu to %lu", option, value, low, high);
    return UCS_ERR_INVALID_PARAM;
}

static ucs_status_t muct_rdma_config_check_all(const muct_rdma_iface_config_t *config)
{
    const struct {
        const char *option;
        unsigned long value, low, high;
    } rows[] = {
        {"NUM_QPS", config->num_qps, 1, MUCT_RDMA_ADDR_MAX_QPS},
        {"TX_DEPTH", config->tx_depth, 2, 1u << 20},
        {"RX_DEPTH", config->rx_depth, 1, 32768},
        {"CQ_DEPTH", config->cq_depth, 1, 1u << 22},
        {"TX_MAX_SGE", config->max_sge, 1, 32},
        {"TX_INLINE", config->max_inline, 0, 1u << 16},
        {"SEG_SIZE", config->seg_size, 256, 1u << 19},
        {"STRIPE_SIZE", config->stripe_size, 512, SIZE_MAX},
        {"RETRY_COUNT", config->retry_count, 0, 7},
        {"RNR_RETRY_COUNT", config->rnr_retry, 0, 7},
        {"SL", config->sl, 0, 15},
        {"HOP_LIMIT", config->hop_limit, 1, 255},
        {"PKEY", config->pkey, 0, 0xffff},
        {"RECOVERY", config->recovery, 0, 1000},
    };
    unsigned i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        if (muct_rdma_config_check(rows[i].option, rows[i].value, rows[i].low,
                                   rows[i].high) != UCS_OK) {
            return UCS_ERR_INVALID_PARAM;
        }
    }

    if ((config->traffic_class != UCS_ULUNITS_AUTO) && (config->traffic_class > 255)) {
        return muct_rdma_config_check("TRAFFIC_CLASS", config->traffic_class, 0, 255);
    }

    if ((config->ece != UCS_ULUNITS_AUTO) && (config->ece != UCS_ULUNITS_INF) &&
        (config->ece > UINT32_MAX)) {
        return muct_rdma_config_check("ECE", config->ece, 0, UINT32_MAX);
    }

    if ((config->post_batch != UCS_ULUNITS_AUTO) && (config->post_batch < 1)) {
        return muct_rdma_config_check("POST_BATCH", config->post_batch, 1, ULONG_MAX);
    }

    return UCS_OK;
}

static unsigned muct_rdma_config_reads(const muct_rdma_iface_config_t *config,
                                       const muct_rdma_device_t *device, int device_max)
{
    unsigned limit = (device_max > 0) ? (unsigned)device_max : 1;

    limit = (limit < 127) ? limit : 127;
    if (config->max_reads == UCS_ULUNITS_AUTO) {
        return limit;
    }

    return (unsigned)muct_rdma_config_clamp(device, "MAX_READS", config->max_reads, 0,
                                            limit);
}

/* The queues of one queue pair have to fit one completion queue. */
static void muct_rdma_limits_set_depths(const muct_rdma_iface_config_t *config,
                                        const muct_rdma_device_t *device,
                                        muct_rdma_limits_t *limits)
{
    const muct_rdma_family_t *family = muct_rdma_family_of(device);
    unsigned max_wr = (unsigned)device->attr.max_qp_wr;
    unsigned max_cqe = (unsigned)device->attr.max_cqe, need;

    limits->tx_depth = (unsigned)muct_rdma_config_clamp(
        device, "TX_DEPTH", config->tx_depth, family->tx_depth, max_wr);
    limits->rx_depth = (unsigned)muct_rdma_config_clamp(
        device, "RX_DEPTH", config->rx_depth, MUCT_RDMA_RX_DEPTH,
        (max_wr > MUCT_RDMA_CREDIT_RECEIVES) ? max_wr - MUCT_RDMA_CREDIT_RECEIVES : 1);
    limits->cq_depth = (unsigned)muct_rdma_config_clamp(
        device, "CQ_DEPTH", config->cq_depth, MUCT_RDMA_CQ_DEPTH, max_cqe);

    need = limits->tx_depth + limits->rx_depth + MUCT_RDMA_CREDIT_RECEIVES;
    if (need > limits->cq_depth) {
        limits->cq_depth = (need < max_cqe) ? need : max_cqe;
    }
    if (need > limits->cq_depth) {
        limits->rx_depth =
            (unsigned)muct_rdma_config_clamp(device, "RX_DEPTH", limits->rx_depth,
                                             MUCT_RDMA_RX_DEPTH, limits->cq_depth / 4);
        limits->tx_depth = (unsigned)muct_rdma_config_clamp(
            device, "TX_DEPTH", limits->tx_depth, family->tx_depth,
            limits->cq_depth - limits->rx_depth - MUCT_RDMA_CREDIT_RECEIVES);
    }
}

/* A chain is at most half the queue, so that the next one is filled while the device
 * processes it */
static void muct_rdma_limits_set_batch(const muct_rdma_iface_config_t *config,
                                       muct_rdma_limits_t *limits)
{
    unsigned long batch = (config->post_batch == UCS_ULUNITS_AUTO)
                              ? MUCT_RDMA_POST_BATCH_AUTO
                              : config->post_batch;

    limits->batch =
        (unsigned)((batch < limits->tx_depth / 2) ? batch : limits->tx_depth / 2);
}

/* Set the MTU: the port's, or a smaller one that the user requests. */
static void muct_rdma_limits_set_mtu(const muct_rdma_iface_config_t *config,
                                     const muct_rdma_device_t *device,
                                     const muct_rdma_port_t *port,
                                     muct_rdma_limits_t *limits)
{
    limits->mtu_shift = port->mtu_shift;
    if (config->path_mtu != 0) {
        limits->mtu_shift = (uint8_t)(7 + config->path_mtu);
        if (limits->mtu_shift > port->mtu_shift) {
            limits->mtu_shift = port->mtu_shift;
            (void)muct_rdma_config_clamp(device, "PATH_MTU",
                                         1ul << (7 + config->path_mtu), 0,
                                         1ul << port->mtu_shift);
        }
    }
}

/* Divide the responder resources of a device that has few (ionic: 16 in all) among its
 * queue pairs. A flush of GPU memory needs one concurrent read. */
static int muct_rdma_config_dest_reads(const muct_rdma_device_t *device)
{
    const int max = device->attr.max_qp_rd_atom;
    const int part = device->attr.max_res_rd_atom / MUCT_RDMA_RESPONDER_SHARES;

    if ((device->attr.max_res_rd_atom == 0) || (part >= max)) {
        return max;
    }

    return (part > 1) ? part : 1;
}

static void muct_rdma_limits_set_reads(const muct_rdma_iface_config_t *config,
                                       const muct_rdma_device_t *device,
                                       muct_rdma_limits_t *limits)
{
    const int max = device->attr.max_qp_rd_atom;
    const int part = muct_rdma_config_dest_reads(device);

    limits->max_reads =
        muct_rdma_config_reads(config, device, device->attr.max_qp_init_rd_atom);
    limits->max_dest_reads = muct_rdma_config_reads(
        config, device, (config->max_reads == UCS_ULUNITS_AUTO) ? part : max);
    /* atomics need responder resources */
    limits->has_atomics =
        device->has_atomics && (limits->max_reads > 0) && (limits->max_dest_reads > 0);
    limits->shares_reads = (part < max) && !limits->has_atomics;
}

ucs_status_t muct_rdma_limits_init(const muct_rdma_iface_config_t *config,
                                   const muct_rdma_device_t *device,
                                   const muct_rdma_port_t *port,
                                   muct_rdma_limits_t *limits)
{
    if (muct_rdma_config_check_all(config) != UCS_OK) {
        return UCS_ERR_INVALID_PARAM;
    }

    muct_rdma_limits_set_depths(config, device, limits);
    limits->rx_first =
        (MUCT_RDMA_RX_FIRST < limits->rx_depth) ? MUCT_RDMA_RX_FIRST : limits->rx_depth;
    limits->num_qps = (unsigned)config->num_qps;
    limits->max_sge = (unsigned)muct_rdma_config_clamp(
        device, "TX_MAX_SGE", config->max_sge, muct_rdma_family_of(device)->max_sge,
        (unsigned)device->attr.max_sge);
    limits->max_inline = (config->max_inline > MUCT_RDMA_LEAST_INLINE)
                             ? (unsigned)config->max_inline
                             : MUCT_RDMA_LEAST_INLINE;
    limits->seg_size = (unsigned)(config->seg_size & ~(size_t)15);
    limits->stripe_size = config->stripe_size;
    limits->max_msg_size = port->max_msg_size & ~4095u;
    muct_rdma_limits_set_batch(config, limits);
    muct_rdma_limits_set_mtu(config, device, port, limits);
    muct_rdma_limits_set_reads(config, device, limits);
    return UCS_OK;
}
