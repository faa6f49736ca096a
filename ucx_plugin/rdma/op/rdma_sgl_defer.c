/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A list that may need more work requests than the queues ever hold (blocks larger than
 * the device sends at once, many keys) is copied and becomes a job, which continues
 * whenever there is room. Until it is posted, other operations wait behind it.
 */

#include "rdma/op/rdma_sgl_defer.h"

#include "base/muct_log.h"
#include "rdma/ep/rdma_ep_flush.h"
#include "rdma/ep/rdma_ep_wait.h"

#include <stdlib.h>
#include <string.h>

struct muct_rdma_job {
    muct_rdma_sgl_t sgl;
    muct_rdma_sgl_pos_t pos;
    muct_rdma_sgl_plan_t plan; /* the job holds one count of the completion */
    uint64_t arrays[];
};

static void *muct_rdma_job_copy(uint64_t **array_p, const void *from, size_t count)
{
    uint64_t *array = *array_p;

    if (from == NULL) {
        return NULL;
    }

    memcpy(array, from, count * sizeof(*array));
    *array_p += count;
    return array;
}

void muct_rdma_job_end(muct_rdma_ep_t *ep, ucs_status_t status)
{
    muct_rdma_job_t *job = ep->job;

    ep->job = NULL;
    if (ep->is_job_fenced) {
        ep->is_job_fenced = false;
        (void)muct_rdma_ep_fence(&ep->super.super, 0);
    }

    if (job->plan.comp != NULL) {
        muct_completion_invoke(job->plan.comp, status);
    }
    free(job);
}

void muct_rdma_job_progress(muct_rdma_ep_t *ep)
{
    muct_rdma_job_t *job = ep->job;
    int num;

    num = muct_rdma_sgl_post(ep, &job->plan, &job->sgl, &job->pos);
    if (job->plan.comp != NULL) {
        job->plan.comp->count += num;
    }

    if (job->pos.index == job->sgl.count) {
        muct_rdma_job_end(ep, UCS_OK);
    }
}

/* Every array's elements are as large as a pointer. */
ucs_status_t muct_rdma_job_start(muct_rdma_ep_t *ep, const muct_rdma_sgl_plan_t *plan,
                                 const muct_rdma_sgl_t *sgl)
{
    size_t n = sgl->count;
    muct_rdma_job_t *job = malloc(sizeof(*job) + 7 * n * sizeof(job->arrays[0]));
    uint64_t *array;

    if (job == NULL) {
        muct_error("failed to allocate a list of %zu blocks", n);
        return UCS_ERR_NO_MEMORY;
    }

    memset(job, 0, sizeof(*job));
    array = job->arrays;
    job->sgl.buffers = muct_rdma_job_copy(&array, sgl->buffers, n);
    job->sgl.lengths = muct_rdma_job_copy(&array, sgl->lengths, n);
    job->sgl.memhs = muct_rdma_job_copy(&array, sgl->memhs, n);
    job->sgl.remote_addrs = muct_rdma_job_copy(&array, sgl->remote_addrs, n);
    job->sgl.rkeys = muct_rdma_job_copy(&array, sgl->rkeys, n);
    job->sgl.counts = muct_rdma_job_copy(&array, sgl->counts, n);
    job->sgl.strides = muct_rdma_job_copy(&array, sgl->strides, n);
    job->sgl.count = n;
    job->plan = *plan;
    ep->job = job;
    ep->has_event = true;
    muct_rdma_ep_add_work(ep);
    return UCS_INPROGRESS;
}
