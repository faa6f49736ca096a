/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/queue/rdma_domain.h"

#include "base/muct_log.h"

#include <string.h>

static ucs_status_t muct_rdma_domain_make(struct ibv_pd *pd, muct_rdma_domain_t *domain)
{
    struct ibv_td_init_attr td_attr = {0};
    struct ibv_parent_domain_init_attr pd_attr = {.pd = pd};

    domain->td = ibv_alloc_td(pd->context, &td_attr);
    if (domain->td == NULL) {
        muct_debug("ibv_alloc_td() failed: %m");
        return UCS_ERR_UNSUPPORTED;
    }

    pd_attr.td = domain->td;
    domain->pd = ibv_alloc_parent_domain(pd->context, &pd_attr);
    if (domain->pd == NULL) {
        muct_debug("ibv_alloc_parent_domain() failed: %m");
        (void)ibv_dealloc_td(domain->td);
        return UCS_ERR_UNSUPPORTED;
    }

    return UCS_OK;
}

ucs_status_t muct_rdma_domain_open(struct ibv_pd *pd, ucs_ternary_auto_value_t mode,
                                   muct_rdma_domain_t *domain)
{
    if ((mode != UCS_NO) && (muct_rdma_domain_make(pd, domain) == UCS_OK)) {
        return UCS_OK;
    }

    if (mode == UCS_YES) {
        muct_error("UCX_MORI_RDMA_THREAD_DOMAIN=y, but the device has none: %m");
        return UCS_ERR_UNSUPPORTED;
    }

    domain->pd = pd;
    domain->td = NULL;
    return UCS_OK;
}

void muct_rdma_domain_close(muct_rdma_domain_t *domain)
{
    int error;

    if (domain->td == NULL) {
        return;
    }

    error = muct_rdma_verbs.dealloc_pd(domain->pd);
    if (error == 0) {
        error = ibv_dealloc_td(domain->td);
    }
    if (error != 0) {
        muct_warn("thread domain cannot be freed: %s", strerror(error));
    }
}
