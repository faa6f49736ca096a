/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_SGL_H
#define MUCT_XGMI_SGL_H

/**
 * @file
 * Puts and gets of lists of the endpoint's operation table.
 */

#include "xgmi/xgmi_ep.h"


ucs_status_t muct_xgmi_ep_put_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                        const size_t *lengths, uct_mem_h const *memhs,
                                        const uint64_t *remote_addrs,
                                        uct_rkey_t const *rkeys, const size_t *counts,
                                        const size_t *strides, size_t count,
                                        uct_completion_t *comp);
ucs_status_t muct_xgmi_ep_get_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                        const size_t *lengths, uct_mem_h const *memhs,
                                        const uint64_t *remote_addrs,
                                        uct_rkey_t const *rkeys, const size_t *counts,
                                        const size_t *strides, size_t count,
                                        uct_completion_t *comp);

#endif
