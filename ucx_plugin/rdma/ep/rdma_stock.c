/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/ep/rdma_stock.h"

#include "base/muct_log.h"
#include "rdma/ep/rdma_ep.h"

/* Endpoints per endpoint made ahead: an interface that has many is likely to get more.
 */
#define MUCT_RDMA_STOCK_PART 4
#define MUCT_RDMA_STOCK_MOST 8

static uint64_t muct_rdma_ep_serial;

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

static muct_rdma_ep_t *muct_rdma_stock_take(muct_rdma_stock_t *stock)
{
    muct_rdma_ep_t *ep;

    while ((ep = muct_rdma_stock_pop(stock)) != NULL) {
        if (ep->state == MUCT_RDMA_EP_INIT) {
            return ep;
        }
        muct_rdma_ep_delete(ep); /* the endpoint failed before it was handed out */
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
        muct_rdma_stock_drop(
            stock); /* release the resources of endpoints created ahead */
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

/* ---- ep_create ---- */

static ucs_status_t muct_rdma_ep_make_whole(muct_rdma_iface_t *iface,
                                            muct_rdma_ep_t **ep_p)
{
    muct_rdma_ep_t *ep = muct_rdma_ep_new(iface);
    ucs_status_t status;

    if (ep == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    do {
        status = muct_rdma_ep_make(ep);
    } while (status == UCS_INPROGRESS);

    if (status != UCS_OK) {
        muct_rdma_ep_set_doom(ep, status);
    }

    *ep_p = ep;
    return UCS_OK;
}

ucs_status_t muct_rdma_ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p)
{
    muct_rdma_iface_t *iface = (muct_rdma_iface_t *)params->iface;
    ucs_status_t status;
    muct_rdma_ep_t *ep;

    *ep_p = NULL; /* UCP expects no endpoint after an error */
    if (iface->is_dead) {
        return UCS_ERR_NO_DEVICE;
    }

    ep = muct_rdma_stock_take(&iface->stock);
    if (ep == NULL) {
        status = muct_rdma_ep_make_whole(iface, &ep);
        if (status != UCS_OK) {
            return status;
        }
    }

    ep->is_ahead = false;
    ep->serial = __atomic_add_fetch(&muct_rdma_ep_serial, 1, __ATOMIC_RELAXED);
    ucs_list_add_tail(&iface->eps, &ep->list);
    ++iface->num_eps;
    iface->async_countdown = 1; /* the next progress refills the stock */
    *ep_p = &ep->super.super;
    return UCS_OK;
}
