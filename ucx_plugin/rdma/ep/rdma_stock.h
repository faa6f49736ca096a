/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_STOCK_H
#define MUCT_RDMA_STOCK_H

/**
 * @file
 * Endpoints that are made ahead. UCT wants the address of an endpoint as soon as it
 * exists, and the address contains the numbers of its queue pairs. Answering a peer
 * makes an endpoint on each NIC within one progress. So an interface that has a few
 * peers, and is likely to get more, keeps the next endpoints ready: progress makes
 * them, one queue pair at a time. If none is ready, the endpoint is made when it is
 * requested.
 *
 * Used by the interface's thread alone.
 */

#include "base/muct_uct_abi.h"

#include <ucs/datastruct/list.h>

#include <stdbool.h>

struct muct_rdma_ep;
struct muct_rdma_iface;

typedef struct muct_rdma_stock {
    ucs_list_link_t ready; /**< Complete endpoints without a user, by ep->list */
    unsigned num_ready;
    struct muct_rdma_ep *next; /**< Endpoint being created, or NULL */
    bool has_failed;           /**< The device refused one: no more are made */
} muct_rdma_stock_t;

void muct_rdma_stock_init(muct_rdma_stock_t *stock);

/** Destroy all unused endpoints: at the end, or when something they use is broken. */
void muct_rdma_stock_drop(muct_rdma_stock_t *stock);

/** ep_create: return an endpoint created ahead, or create one now. */
ucs_status_t muct_rdma_ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p);

/**
 * Make or destroy one queue pair, according to the number of endpoints.
 *
 * @return Whether more remain.
 */
bool muct_rdma_stock_progress(struct muct_rdma_iface *iface);

#endif
