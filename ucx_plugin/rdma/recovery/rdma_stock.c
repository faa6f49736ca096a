/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/recovery/rdma_stock.h"

#include "base/muct_log.h"
#include "rdma/ep/rdma_ep.h"

/* Who has so many endpoints gets more, one in this part of what there are. */
#define MUCT_RDMA_STOCK_PART 4
#define MUCT_RDMA_STOCK_MOST 8

void muct_rdma_stock_init(muct_rdma_stock_t *stock)
{
    ucs_list_head_init(&stock->ready);
}

static muct_rdma_ep_t *muct_rdma_stock_pop(muct_rdma_stock_t *stock)
{
    if (stock->num_ready == 0) {
        return NULL;
    }

    --stock->num_ready;
    return ucs_list_extract_head(&stock->ready, muct_rdma_ep_t, list);
}

void muct_rdma_stock_drop(muct_rdma_stock_t *stock)
{
    muct_rdma_ep_t *ep;

    while ((ep = muct_rdma_stock_pop(stock)) != NULL) {
        muct_rdma_ep_delete(ep);
    }

    if (stock->next != NULL) {
        muct_rdma_ep_delete(stock->next);
        stock->next = NULL;
    }
}

muct_rdma_ep_t *muct_rdma_stock_take(muct_rdma_stock_t *stock)
{
    muct_rdma_ep_t *ep;

    while ((ep = muct_rdma_stock_pop(stock)) != NULL) {
        if (ep->state == MUCT_RDMA_EP_INIT) {
            return ep;
        }
        muct_rdma_ep_delete(ep); /* it failed before anybody had it */
    }

    return NULL;
}

static unsigned muct_rdma_stock_wanted(const muct_rdma_iface_t *iface)
{
    const unsigned num = iface->num_eps / MUCT_RDMA_STOCK_PART;

    if (iface->is_dead || iface->stock.has_failed) {
        return 0;
    }

    return (num < MUCT_RDMA_STOCK_MOST) ? num : MUCT_RDMA_STOCK_MOST;
}

static void muct_rdma_stock_make(muct_rdma_iface_t *iface)
{
    muct_rdma_stock_t *stock = &iface->stock;
    ucs_status_t status = UCS_ERR_NO_MEMORY;

    if (stock->next == NULL) {
        stock->next = muct_rdma_ep_new(iface);
    }

    if (stock->next != NULL) {
        stock->next->is_ahead = true;
        status = muct_rdma_ep_make(stock->next);
    }

    if (status == UCS_OK) {
        ucs_list_add_tail(&stock->ready, &stock->next->list);
        stock->next = NULL;
        ++stock->num_ready;
    } else if (status != UCS_INPROGRESS) {
        stock->has_failed = true;
        muct_rdma_stock_drop(stock); /* others may need what they have */
    }
}

bool muct_rdma_stock_progress(muct_rdma_iface_t *iface)
{
    muct_rdma_stock_t *stock = &iface->stock;
    const unsigned wanted = muct_rdma_stock_wanted(iface);

    if (stock->num_ready > wanted) {
        muct_rdma_ep_delete(muct_rdma_stock_pop(stock));
    } else if (stock->num_ready < wanted) {
        muct_rdma_stock_make(iface);
    }

    return stock->num_ready != muct_rdma_stock_wanted(iface);
}
