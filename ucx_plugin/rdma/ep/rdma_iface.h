/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_IFACE_H
#define MUCT_RDMA_IFACE_H

/**
 * @file
 * Interface of mori_rdma: one port of one device, for one worker.
 *
 * Owns the completion queues, the buffers, and the table that finds the queue pair of a
 * completion. One thread at a time, as UCT requires; only the asynchronous events have
 * a lock.
 *
 * A completion finds its queue pair by wr_id, never by number: bits 63 receive, 52-62
 * generation, 32-51 place in the table, 0-31 index. Some devices keep completions of
 * destroyed queue pairs; their generation differs from that of the place's present
 * owner, and they are dropped.
 */

#include "base/muct_uct_abi.h"
#include "rdma/device/rdma_async.h"
#include "rdma/memory/rdma_buf.h"
#include "rdma/device/rdma_config.h"
#include "rdma/queue/rdma_cq.h"
#include "rdma/ep/rdma_ctl.h"
#include "rdma/queue/rdma_domain.h"
#include "rdma/memory/rdma_md.h"
#include "rdma/queue/rdma_qp.h"
#include "rdma/device/rdma_route.h"
#include "rdma/queue/rdma_sq.h"
#include "rdma/ep/rdma_stock.h"
#include "rdma/device/rdma_time.h"

#define MUCT_RDMA_WR_ID_GEN_SHIFT 52
#define MUCT_RDMA_WR_ID_GEN_MASK 0x7ffu
#define MUCT_RDMA_WR_ID_SLOT_SHIFT 32
#define MUCT_RDMA_WR_ID_SLOT_MASK 0xfffffu

typedef struct muct_rdma_chan muct_rdma_chan_t;
typedef struct muct_rdma_ep muct_rdma_ep_t;
typedef struct muct_rdma_ep_listener muct_rdma_ep_listener_t;

/** A place in the table of queue pairs. */
typedef struct muct_rdma_place {
    muct_rdma_chan_t *chan; /**< NULL when free */
    uint32_t gen;
    uint32_t next_free;
} muct_rdma_place_t;

typedef struct muct_rdma_iface {
    uct_base_iface_t super;
    muct_rdma_port_t port;
    muct_rdma_limits_t limits;
    muct_rdma_domain_t domain;
    muct_rdma_qp_path_t path; /**< Part of the path that all endpoints share */
    muct_rdma_cq_set_t cqs;
    unsigned next_cq; /**< Index of the queue polled last, where not all are polled */
    muct_rdma_buf_pool_t tx_pool;
    muct_rdma_buf_pool_t rx_pool;
    muct_rdma_mem_t *flush_mem; /**< The memory domain's flush page; it also takes the
                                 *   bytes that reads of peers' flush pages return */
    const muct_rdma_ep_listener_t *listener; /**< Listener of all endpoints */
    ucs_list_link_t eps;
    muct_rdma_stock_t stock;
    ucs_list_link_t recovering;
    unsigned commands_left; /**< Budget of this progress for recovery */
    bool has_steps;         /**< Recovery continues in the next progress */
    ucs_list_link_t work;   /**< Endpoints with requests waiting or credits to give */
    ucs_list_link_t dirty;  /**< Send queues with a chain to post */
    muct_rdma_place_t *places;
    uint32_t num_places;
    uint32_t free_place;
    unsigned num_eps;
    bool has_doomed;      /**< Some endpoints fail in the next progress */
    bool has_auto_depth;  /**< TX_DEPTH is auto: many endpoints get shorter queues */
    unsigned num_missing; /**< Receives of all endpoints that are not posted */
    muct_rdma_sq_stats_t stats[MUCT_RDMA_ADDR_MAX_QPS]; /**< Sums over the i-th queue
                                                           pairs of all endpoints */
    muct_rdma_ctl_t ctl;
    bool has_tried_ctl;
    bool is_left_out;        /**< Receives could not be registered: the interface has no
                              *   capabilities */
    unsigned recovery_tries; /**< Most recoveries of an endpoint in a row; 0: off */
    uint64_t recovery_timeout_ms;
    struct {
        uint64_t connections; /**< Connections re-established */
        uint64_t wrs;         /**< Work requests posted again */
        uint64_t moves;       /**< Endpoints moved to another device */
    } recovery_stats;
    ucs_list_link_t move_list; /**< Link for rdma_move.c */
    bool is_dead;              /**< The device is gone */
    bool has_left; /**< The endpoints of the dead device have moved or failed */
    bool same_rail;
    unsigned long ece;  /**< The user's setting, or 0 where the device has no ECE */
    bool has_ece;       /**< Endpoint addresses have a field for ECE */
    bool has_fixed_gid; /**< The user has chosen the GID's index (GID_INDEX) */
    muct_rdma_reachability_t reachability;
    bool has_routes;
    uint64_t routes_ms; /**< Time at which routes was last read */
    muct_rdma_routes_t routes;
    uct_recv_desc_t release_desc;
    size_t rx_headroom;
    size_t rx_offset; /**< Offset of a message's data in its receive buffer */
    int event_fd;     /**< epoll of the channel, the events and the timer */
    int timer_fd;     /**< Expires when the link has been down for too long */
    muct_rdma_async_sub_t async;
    unsigned async_countdown;
    uint64_t async_time_ms;
    uint64_t recover_time_ms; /**< Time at which the timer was last set for recovery; 0:
                                 not set */
    uint64_t port_down_ms;    /**< Time at which the link went down; 0: it is up */
    uint64_t port_down_timeout_ms;
    uint64_t watch_ms;      /**< Time within which a queue pair completes something;
                               rdma_watch.h */
    uint64_t watch_time_ms; /**< Time of the last check of all queue pairs */
    bool has_watch_timer;   /**< timer_fd is set for the next check */
} muct_rdma_iface_t;

/** Rounds of progress between two reads of the device's events. */
#define MUCT_RDMA_ASYNC_ROUNDS 64

/** The current device address. */
void muct_rdma_iface_device_address(const muct_rdma_iface_t *iface,
                                    muct_rdma_dev_addr_t *addr);

/** Share of a resource for the next endpoint. With many peers, each has few operations
 * in flight: from 128 endpoints on the share is halved, and again for each doubling,
 * until it is @a least or less. */
unsigned muct_rdma_iface_share(const muct_rdma_iface_t *iface, unsigned whole,
                               unsigned least);

static inline muct_rdma_md_t *muct_rdma_iface_md(const muct_rdma_iface_t *iface)
{
    return (muct_rdma_md_t *)iface->super.md;
}

/** Bytes of an endpoint address, whichever endpoint it is of */
static inline size_t muct_rdma_iface_ep_addr_size(const muct_rdma_iface_t *iface)
{
    return MUCT_RDMA_EP_ADDR_SIZE(iface->limits.num_qps) +
           (iface->has_ece ? MUCT_RDMA_ECE_SIZE : 0);
}

/** Target of the byte that is read behind writes to the peer's host or to a GPU. The
 * address separates the two kinds when the work request moves, however often. */
static inline uint64_t muct_rdma_iface_read_back(const muct_rdma_iface_t *iface,
                                                 bool is_host)
{
    return iface->flush_mem->base + iface->flush_mem->length / 2 + is_host;
}

#endif
