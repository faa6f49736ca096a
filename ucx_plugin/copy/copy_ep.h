/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_COPY_EP_H
#define MUCT_COPY_EP_H

/**
 * @file
 * Endpoints of mori_copy: operations between memory of this process.
 *
 * "Remote" memory is at an address of this process, without a key. Both ends of an
 * operation may be memory of any type.
 *
 * Short and buffered operations are over when they return. UCP ends the process when a
 * short one fails, so they fail only when the GPU runtime refuses a copy, which is
 * logged. Zero-copy operations end in progress. No operation ever returns
 * UCS_ERR_NO_RESOURCE: UCP would treat it as a failed copy.
 */

#include "copy/copy_iface.h"


/** An endpoint. */
typedef struct muct_copy_ep {
    uct_base_ep_t super;
} muct_copy_ep_t;


ucs_status_t muct_copy_ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p);
void muct_copy_ep_destroy(uct_ep_h ep);

ucs_status_t muct_copy_ep_put_short(uct_ep_h ep, const void *buffer, unsigned length,
                                    uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t muct_copy_ep_get_short(uct_ep_h ep, void *buffer, unsigned length,
                                    uint64_t remote_addr, uct_rkey_t rkey);
ssize_t muct_copy_ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack_cb, void *arg,
                               uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t muct_copy_ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack_cb,
                                    void *arg, size_t length, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t muct_copy_ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey,
                                    uct_completion_t *comp);
ucs_status_t muct_copy_ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey,
                                    uct_completion_t *comp);

ucs_status_t muct_copy_ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t muct_copy_ep_fence(uct_ep_h ep, unsigned flags);
ucs_status_t muct_copy_ep_check(uct_ep_h ep, unsigned flags, uct_completion_t *comp);

/** @return UCS_ERR_BUSY always: no operation has to wait. */
ucs_status_t muct_copy_ep_pending_add(uct_ep_h ep, uct_pending_req_t *req,
                                      unsigned flags);
void muct_copy_ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t cb,
                                void *arg);

#endif
