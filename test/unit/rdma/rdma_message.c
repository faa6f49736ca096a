/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/unit/rdma/rdma_message.h"

#include "rdma/device/rdma_verbs.h"
#include "rdma/ep/rdma_ep_flush.h"
#include "rdma/op/rdma_am.h"


bool rdma_message_send(uct_ep_h tl_ep, uint8_t kind, uint8_t id, uint16_t credits,
                       const void *data, size_t length)
{
    muct_rdma_ep_t *ep = ucs_derived_of(tl_ep, muct_rdma_ep_t);

    /* this program has a module of its own beside the one that UCX has loaded */
    if ((muct_rdma_verbs_load() != UCS_OK) ||
        (muct_rdma_ep_check_ready(ep) != UCS_OK) || (ep->credits == 0) ||
        (muct_rdma_sq_free(&ep->chans[0].sq) == 0)) {
        return false;
    }

    ep->rx.owed = credits;
    return muct_rdma_am_send_own(ep, kind, id, data, length, NULL);
}
