/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/ep/rdma_carrier.h"

#include "base/muct_lock.h"
#include "base/muct_log.h"
#include "rdma/memory/rdma_md_reg.h"
#include "rdma/memory/rdma_mr.h"

#include <inttypes.h>
#include <pthread.h>

/* All interfaces of the process. Of an interface of another worker, only the worker is
 * read: everything else belongs to the thread of that worker. */
static pthread_mutex_t muct_rdma_carrier_lock = PTHREAD_MUTEX_INITIALIZER;
MUCT_FREE_IN_CHILD(muct_rdma_carrier_lock, &muct_rdma_carrier_lock)
static UCS_LIST_HEAD(muct_rdma_carrier_ifaces);

void muct_rdma_carrier_enter(muct_rdma_iface_t *iface)
{
    pthread_mutex_lock(&muct_rdma_carrier_lock);
    ucs_list_add_tail(&muct_rdma_carrier_ifaces, &iface->move_list);
    pthread_mutex_unlock(&muct_rdma_carrier_lock);
}

void muct_rdma_carrier_leave(muct_rdma_iface_t *iface)
{
    pthread_mutex_lock(&muct_rdma_carrier_lock);
    ucs_list_del(&iface->move_list);
    pthread_mutex_unlock(&muct_rdma_carrier_lock);
}

muct_rdma_iface_t *muct_rdma_carrier_next(const muct_rdma_iface_t *of,
                                          const muct_rdma_iface_t *after)
{
    muct_rdma_iface_t *iface, *next = NULL;
    bool is_behind = (after == NULL);

    pthread_mutex_lock(&muct_rdma_carrier_lock);
    ucs_list_for_each(iface, &muct_rdma_carrier_ifaces, move_list)
    {
        if (is_behind && (iface->super.worker == of->super.worker)) {
            next = iface;
            break;
        }
        is_behind = is_behind || (iface == after);
    }
    pthread_mutex_unlock(&muct_rdma_carrier_lock);
    return next;
}

/* Register memory with the carrier's device too. This registration ends with the one
 * of the endpoint's own device, which the user keeps until the operation ends; other
 * registrations of the same memory may end earlier. */
static bool muct_rdma_carrier_register(const muct_rdma_ep_t *ep, muct_rdma_md_t *md,
                                       uint64_t address, uint64_t length)
{
    const muct_rdma_md_t *own = muct_rdma_iface_md(muct_rdma_ep_iface(ep));
    muct_rdma_mem_params_t params = {
        .chunk_shift = md->chunk_shift, .max_chunks = md->num_rkeys, .dmabuf_fd = -1};
    muct_rdma_mem_extent_t extent;
    muct_rdma_mem_t *twin;

    if (!muct_rdma_mem_find_extent(own->pd, address, length, &extent)) {
        return false;
    }

    params.access = extent.access;
    params.is_gpu = extent.is_gpu;
    if (muct_rdma_md_reg(md, (void *)(uintptr_t)extent.base, (size_t)extent.length,
                         &params, &twin) != UCS_OK) {
        return false;
    }
    if (!muct_rdma_mem_add_twin(own->pd, address, length, twin)) {
        muct_rdma_mem_destroy(twin); /* the memory was deregistered meanwhile */
        return false;
    }

    return true;
}

typedef bool (*muct_rdma_carrier_find_t)(const struct ibv_pd *pd, uint64_t address,
                                         uint64_t length, uint32_t *key_p);

static bool muct_rdma_carrier_key(const muct_rdma_ep_t *ep, uint64_t address,
                                  uint64_t length, muct_rdma_carrier_find_t find,
                                  uint32_t *key_p)
{
    muct_rdma_md_t *md = muct_rdma_iface_md(ep->carrier);

    if (find(md->pd, address, length, key_p) ||
        (muct_rdma_carrier_register(ep, md, address, length) &&
         find(md->pd, address, length, key_p))) {
        return true;
    }

    muct_error("local memory 0x%" PRIx64 " length %" PRIu64 " has no key with %s",
               address, length, md->device.name);
    return false;
}

bool muct_rdma_carrier_lkey(const muct_rdma_ep_t *ep, uint64_t address, uint64_t length,
                            uint32_t *lkey_p)
{
    return muct_rdma_carrier_key(ep, address, length, muct_rdma_mem_find_lkey, lkey_p);
}

bool muct_rdma_carrier_rkey(const muct_rdma_ep_t *ep, uint64_t address, uint64_t length,
                            uint32_t *rkey_p)
{
    return muct_rdma_carrier_key(ep, address, length, muct_rdma_mem_find_rkey, rkey_p);
}
