/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "copy/copy_ep.h"

#include "base/muct_log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/** A copy and its queue. */
typedef struct muct_copy_job {
    void *dst;
    const void *src;
    size_t length;
    muct_gpu_place_t dst_place;
    muct_gpu_place_t src_place;
    muct_copy_queue_t *queue; /**< Queue that copies; NULL: the processor copies */
} muct_copy_job_t;


/* ---- copies ---- */

/* Select the device that copies: the destination's if both ends are on devices. */
static ucs_status_t muct_copy_job_init(muct_copy_iface_t *iface, void *dst,
                                       const void *src, size_t length,
                                       muct_copy_job_t *job)
{
    const muct_gpu_t *gpu = iface->md->gpu;
    int device = -1;

    job->dst = dst;
    job->src = src;
    job->length = length;
    job->queue = NULL;
    job->src_place = muct_gpu_place(gpu, src, &device);
    job->dst_place = muct_gpu_place(gpu, dst, &device);
    return (device < 0) ? UCS_OK : muct_copy_iface_queue(iface, device, &job->queue);
}

static ucs_status_t muct_copy_job_run(const muct_copy_job_t *job)
{
    ucs_status_t status;

    if (job->queue == NULL) {
        memmove(job->dst, job->src, job->length);
        return UCS_OK;
    }

    if (job->src_place == MUCT_GPU_PLACE_HOST) {
        return muct_copy_queue_move_in(job->queue, job->dst, job->src, job->length);
    }

    if (job->dst_place == MUCT_GPU_PLACE_HOST) {
        return muct_copy_queue_move_out(job->queue, job->dst, job->src, job->length);
    }

    status = muct_copy_queue_start(job->queue, job->dst, job->src, job->length, NULL);
    return UCS_STATUS_IS_ERR(status) ? status : muct_copy_queue_wait(job->queue);
}

/* Copy synchronously. UCP ends the process when a short copy fails, so it fails only if
 * the runtime refuses the copy, not if a queue lacks resources. */
static ucs_status_t muct_copy_ep_copy(uct_ep_h tl_ep, void *dst, const void *src,
                                      size_t length)
{
    muct_copy_iface_t *iface = ucs_derived_of(tl_ep->iface, muct_copy_iface_t);
    muct_copy_job_t job;
    ucs_status_t status;

    if (length == 0) {
        return UCS_OK;
    }

    status = muct_copy_job_init(iface, dst, src, length, &job);
    return (status == UCS_OK)
               ? muct_copy_job_run(&job)
               : muct_copy_queue_do_without(iface->md->gpu, dst, src, length);
}

/* Start a copy; pin host memory first where this is allowed. */
static ucs_status_t muct_copy_ep_start(uct_ep_h tl_ep, void *dst, const void *src,
                                       const uct_iov_t *iov, uct_completion_t *comp)
{
    muct_copy_iface_t *iface = ucs_derived_of(tl_ep->iface, muct_copy_iface_t);
    muct_copy_job_t job;
    ucs_status_t status;

    status = muct_copy_job_init(iface, dst, src, iov->length, &job);
    if (status != UCS_OK) {
        return status;
    }

    if (job.queue == NULL) {
        return muct_copy_job_run(&job);
    }

    if ((iov->memh != UCT_MEM_HANDLE_NULL) &&
        (((iov->buffer == src) ? job.src_place : job.dst_place) ==
         MUCT_GPU_PLACE_HOST)) {
        muct_pin(iface->md->gpu, iov->memh);
    }

    if (iface->is_armed) {
        muct_copy_iface_wake(iface);
    }
    return muct_copy_queue_start(job.queue, dst, src, iov->length, comp);
}


/* ---- operations ---- */

ucs_status_t muct_copy_ep_put_short(uct_ep_h ep, const void *buffer, unsigned length,
                                    uint64_t remote_addr, uct_rkey_t rkey)
{
    (void)rkey;
    muct_trace_op("put short", length, remote_addr);
    return muct_copy_ep_copy(ep, (void *)remote_addr, buffer, length);
}

ucs_status_t muct_copy_ep_get_short(uct_ep_h ep, void *buffer, unsigned length,
                                    uint64_t remote_addr, uct_rkey_t rkey)
{
    (void)rkey;
    muct_trace_op("get short", length, remote_addr);
    return muct_copy_ep_copy(ep, buffer, (const void *)remote_addr, length);
}

ssize_t muct_copy_ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack_cb, void *arg,
                               uint64_t remote_addr, uct_rkey_t rkey)
{
    muct_copy_iface_t *iface = ucs_derived_of(ep->iface, muct_copy_iface_t);
    char *buffer = malloc(iface->seg_size);
    ucs_status_t status;
    size_t length;

    (void)rkey;
    if (buffer == NULL) {
        muct_error("failed to allocate %zu bytes for a buffered put", iface->seg_size);
        return UCS_ERR_NO_MEMORY;
    }

    length = pack_cb(buffer, arg);
    muct_trace_op("put bcopy", length, remote_addr);
    status = muct_copy_ep_copy(ep, (void *)remote_addr, buffer, length);
    free(buffer);
    return (status == UCS_OK) ? (ssize_t)length : (ssize_t)status;
}

ucs_status_t muct_copy_ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack_cb,
                                    void *arg, size_t length, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp)
{
    char *buffer = malloc(length + 1); /* an address is needed for no bytes as well */
    ucs_status_t status;

    (void)rkey;
    (void)comp; /* the copy is over on return */
    if (buffer == NULL) {
        muct_error("failed to allocate %zu bytes for a buffered get", length);
        return UCS_ERR_NO_MEMORY;
    }

    muct_trace_op("get bcopy", length, remote_addr);
    status = muct_copy_ep_copy(ep, buffer, (const void *)remote_addr, length);
    if (status == UCS_OK) {
        unpack_cb(arg, buffer, length);
    }
    free(buffer);
    return status;
}

/* Refuse more than a single piece, according to max_iov. */
static ucs_status_t muct_copy_ep_check_iov(const uct_iov_t *iov, size_t iovcnt)
{
    if ((iovcnt > 1) || (iov->count > 1)) {
        muct_error("%zu pieces of local memory, the first one repeated %u times: one "
                   "was expected",
                   iovcnt, iov->count);
        return UCS_ERR_INVALID_PARAM;
    }

    return UCS_OK;
}

ucs_status_t muct_copy_ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey,
                                    uct_completion_t *comp)
{
    ucs_status_t status;

    (void)rkey;
    if ((iovcnt == 0) || (iov->length == 0)) {
        return UCS_OK;
    }

    status = muct_copy_ep_check_iov(iov, iovcnt);
    if (status != UCS_OK) {
        return status;
    }

    muct_trace_op("put zcopy", iov->length, remote_addr);
    return muct_copy_ep_start(ep, (void *)remote_addr, iov->buffer, iov, comp);
}

ucs_status_t muct_copy_ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey,
                                    uct_completion_t *comp)
{
    ucs_status_t status;

    (void)rkey;
    if ((iovcnt == 0) || (iov->length == 0)) {
        return UCS_OK;
    }

    status = muct_copy_ep_check_iov(iov, iovcnt);
    if (status != UCS_OK) {
        return status;
    }

    muct_trace_op("get zcopy", iov->length, remote_addr);
    return muct_copy_ep_start(ep, iov->buffer, (const void *)remote_addr, iov, comp);
}


/* ---- order ---- */

ucs_status_t muct_copy_ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *comp)
{
    (void)flags;
    return muct_copy_iface_start_flush(ucs_derived_of(ep->iface, muct_copy_iface_t),
                                       comp);
}

ucs_status_t muct_copy_ep_fence(uct_ep_h ep, unsigned flags)
{
    return ep->iface->ops.iface_fence(ep->iface, flags);
}

/* The other end is this process. */
ucs_status_t muct_copy_ep_check(uct_ep_h ep, unsigned flags, uct_completion_t *comp)
{
    (void)ep;
    (void)flags;
    (void)comp;
    return UCS_OK;
}

ucs_status_t muct_copy_ep_pending_add(uct_ep_h ep, uct_pending_req_t *req,
                                      unsigned flags)
{
    (void)ep;
    (void)req;
    (void)flags;
    return UCS_ERR_BUSY;
}

void muct_copy_ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t cb, void *arg)
{
    (void)ep;
    (void)cb;
    (void)arg;
}


/* ---- life ---- */

ucs_status_t muct_copy_ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p)
{
    muct_copy_iface_t *iface;
    muct_copy_ep_t *ep;
    ucs_status_t status;

    *ep_p = NULL; /* UCP expects no endpoint after an error */
    if (!(params->field_mask & UCT_EP_PARAM_FIELD_IFACE)) {
        muct_error("an endpoint needs an interface (fields 0x%" PRIx64 ")",
                   params->field_mask);
        return UCS_ERR_INVALID_PARAM;
    }

    ep = calloc(1, sizeof(*ep));
    if (ep == NULL) {
        muct_error("failed to allocate an endpoint");
        return UCS_ERR_NO_MEMORY;
    }

    iface = ucs_derived_of(params->iface, muct_copy_iface_t);
    status = UCS_CLASS_INIT(uct_base_ep_t, &ep->super, &iface->super);
    if (status != UCS_OK) {
        free(ep);
        return status;
    }

    *ep_p = &ep->super.super;
    return UCS_OK;
}

/* Copies in flight complete normally; they belong to the interface. */
void muct_copy_ep_destroy(uct_ep_h tl_ep)
{
    muct_copy_ep_t *ep = ucs_derived_of(tl_ep, muct_copy_ep_t);

    UCS_CLASS_CLEANUP(uct_base_ep_t, &ep->super);
    free(ep);
}
