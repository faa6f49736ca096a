/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_STOCK_H
#define MUCT_RDMA_STOCK_H

/**
 * @file
 * Endpoints that are made ahead. UCT wants the address of an endpoint as soon as there
 * is one, and the numbers of its queue pairs are in it; and who answers a peer makes an
 * endpoint on each NIC within one progress. So whoever has a few peers, and will have
 * more, finds the next endpoints ready: progress makes them, a queue pair at a time.
 * With none ready an endpoint is made when it is asked for.
 *
 * One thread, the interface's.
 */

#include "base/muct_uct_abi.h"

#include <ucs/datastruct/list.h>

#include <stdbool.h>

struct muct_rdma_ep;
struct muct_rdma_iface;

typedef struct muct_rdma_stock {
    ucs_list_link_t ready; /**< By ep->list */
    unsigned num_ready;
    struct muct_rdma_ep *next; /**< Not ready yet; NULL when there is none */
    bool has_failed;           /**< The device gives no more: none is made any more */
} muct_rdma_stock_t;

void muct_rdma_stock_init(muct_rdma_stock_t *stock);

/** Destroy all, used by nobody: at the end, or when something they are of is broken. */
void muct_rdma_stock_drop(muct_rdma_stock_t *stock);

/** ep_create: an endpoint that was made ahead, or one that is made now. */
ucs_status_t muct_rdma_ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p);

/**
 * Make, or destroy, one more queue pair, as the number of endpoints asks for.
 *
 * @return Whether there is more to do.
 */
bool muct_rdma_stock_progress(struct muct_rdma_iface *iface);

#endif
