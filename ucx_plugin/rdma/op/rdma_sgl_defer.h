/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_SGL_DEFER_H
#define MUCT_RDMA_SGL_DEFER_H

/**
 * @file
 * Lists that wait for room in the send queues: an endpoint has at most one such job.
 */

#include "rdma/op/rdma_sgl.h"

/**
 * Copy a list that may need more work requests than the queues ever hold, to post it in
 * progress. @return UCS_INPROGRESS or UCS_ERR_NO_MEMORY.
 */
ucs_status_t muct_rdma_job_start(muct_rdma_ep_t *ep, const muct_rdma_sgl_plan_t *plan,
                                 const muct_rdma_sgl_t *sgl);

/** Continue ep->job, which ends when all of it is posted. */
void muct_rdma_job_progress(muct_rdma_ep_t *ep);

/** End ep->job, posted or not. */
void muct_rdma_job_end(muct_rdma_ep_t *ep, ucs_status_t status);

#endif
