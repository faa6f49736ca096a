/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/memory/rdma_canary.h"

#include "base/muct_gpu.h"
#include "base/muct_log.h"
#include "rdma/device/rdma_time.h"
#include "rdma/queue/rdma_qp.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MUCT_RDMA_CANARY_BYTES 64u
#define MUCT_RDMA_CANARY_PAGE 4096u
#define MUCT_RDMA_CANARY_MS 2000 /* limit of an answer of the device */

/* A queue pair that is connected to itself, and the target of its reads. */
typedef struct muct_rdma_canary {
    struct ibv_pd *pd;
    muct_rdma_port_t port;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint8_t *page;
    muct_rdma_mem_t *mem;
    const muct_gpu_t *gpu;
    muct_hip_stream_t stream;
} muct_rdma_canary_t;

/* ---- the queue pair ---- */

static ucs_status_t muct_rdma_canary_find_port(const muct_rdma_device_t *device,
                                               muct_rdma_port_t *port)
{
    uint8_t num;

    for (num = 1; num <= device->attr.phys_port_cnt; ++num) {
        if (muct_rdma_port_is_active(device, num) &&
            (muct_rdma_port_query(device, num, MUCT_RDMA_GID_AUTO, 0, port) ==
             UCS_OK)) {
            return UCS_OK;
        }
    }

    muct_debug("%s has no port that is up", device->name);
    return UCS_ERR_UNSUPPORTED;
}

static ucs_status_t muct_rdma_canary_connect(muct_rdma_canary_t *canary)
{
    const muct_rdma_port_t *port = &canary->port;
    muct_rdma_qp_path_t path = {.port = port,
                                .remote = {.link = port->link, .lid = port->lid},
                                .mtu_shift = port->mtu_shift,
                                .hop_limit = 255,
                                .timeout = muct_rdma_qp_timeout_code(0.067),
                                .retry_count = 3,
                                .rnr_retry = 3,
                                .max_reads = 1,
                                .max_dest_reads = 1};
    ucs_status_t status;

    memcpy(path.remote.gid, port->gid.raw, sizeof(path.remote.gid));
    status = muct_rdma_qp_to_init(canary->qp, port, false);
    return (status == UCS_OK)
               ? muct_rdma_qp_connect(canary->qp, &path, canary->qp->qp_num)
               : status;
}

static ucs_status_t muct_rdma_canary_create_qp(muct_rdma_canary_t *canary)
{
    muct_rdma_qp_caps_t caps = {.send_depth = 2, .recv_depth = 1, .max_sge = 1};
    ucs_status_t status;

    canary->cq = muct_rdma_verbs.create_cq(canary->pd->context, 4, NULL, NULL, 0);
    if (canary->cq == NULL) {
        muct_debug("ibv_create_cq(4 entries) failed: %m");
        return UCS_ERR_IO_ERROR;
    }

    status = muct_rdma_qp_create(canary->pd, canary->cq, &caps, &canary->qp);
    if (status != UCS_OK) {
        goto err_cq;
    }

    status = muct_rdma_canary_connect(canary);
    if (status != UCS_OK) {
        goto err_qp;
    }

    return UCS_OK;

err_qp:
    muct_rdma_qp_destroy(canary->qp);
err_cq:
    (void)muct_rdma_verbs.destroy_cq(canary->cq);
    return status;
}

static ucs_status_t muct_rdma_canary_create_page(muct_rdma_canary_t *canary)
{
    const muct_rdma_mem_params_t params = {.access = IBV_ACCESS_LOCAL_WRITE,
                                           .chunk_shift = MUCT_RDMA_KEY_ONE_CHUNK,
                                           .is_quiet = true,
                                           .dmabuf_fd = -1};
    void *page;
    ucs_status_t status;

    if (posix_memalign(&page, MUCT_RDMA_CANARY_PAGE, MUCT_RDMA_CANARY_PAGE) != 0) {
        return UCS_ERR_NO_MEMORY;
    }

    memset(page, 0, MUCT_RDMA_CANARY_PAGE);
    status = muct_rdma_mem_create(canary->pd, page, MUCT_RDMA_CANARY_PAGE, &params,
                                  &canary->mem);
    if (status != UCS_OK) {
        free(page);
        return status;
    }

    canary->page = page;
    return UCS_OK;
}

/* ---- reads by the GPU and by the device ---- */

static bool muct_rdma_canary_copy(const muct_rdma_canary_t *canary, void *to,
                                  const void *from, size_t length)
{
    const muct_gpu_t *gpu = canary->gpu;

    return (muct_gpu_forget(gpu, muct_gpu_copy(gpu, to, from, length,
                                               canary->stream)) == MUCT_HIP_SUCCESS) &&
           (muct_gpu_forget(gpu, gpu->stream_synchronize(canary->stream)) ==
            MUCT_HIP_SUCCESS);
}

/* Read into the page. */
static ucs_status_t muct_rdma_canary_read(const muct_rdma_canary_t *canary,
                                          const muct_rdma_mem_t *mem, uint64_t address,
                                          unsigned length)
{
    const uint64_t limit_ms = muct_rdma_now_ms() + MUCT_RDMA_CANARY_MS;
    struct ibv_sge sge = {
        .addr = canary->mem->base, .length = length, .lkey = canary->mem->mrs[0]->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    struct ibv_wc wc;
    int num = 0;

    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = mem->mrs[(address - mem->base) >> mem->chunk_shift]->rkey;
    memset(canary->page, 0x5a, length);
    if (ibv_post_send(canary->qp, &wr, &bad) != 0) {
        return UCS_ERR_UNSUPPORTED;
    }

    while ((num == 0) && (muct_rdma_now_ms() < limit_ms)) {
        num = ibv_poll_cq(canary->cq, 1, &wc);
        sched_yield();
    }

    if ((num <= 0) || (wc.status == IBV_WC_RETRY_EXC_ERR)) {
        muct_debug("a queue pair connected to itself does not answer");
        return UCS_ERR_UNSUPPORTED;
    }

    return (wc.status == IBV_WC_SUCCESS) ? UCS_OK : UCS_ERR_IO_ERROR;
}

static ucs_status_t muct_rdma_canary_compare(const muct_rdma_canary_t *canary,
                                             const muct_rdma_mem_t *mem,
                                             uint64_t address, const void *bytes,
                                             unsigned length)
{
    ucs_status_t status = muct_rdma_canary_read(canary, mem, address, length);

    if (status != UCS_OK) {
        return status;
    }

    return (memcmp(canary->page, bytes, length) == 0) ? UCS_OK : UCS_ERR_IO_ERROR;
}

static ucs_status_t muct_rdma_canary_look_at(const muct_rdma_canary_t *canary,
                                             const muct_rdma_mem_t *mem,
                                             uint64_t address, unsigned length)
{
    uint8_t bytes[MUCT_RDMA_CANARY_BYTES], other[MUCT_RDMA_CANARY_BYTES];
    void *pointer = (void *)(uintptr_t)address;
    ucs_status_t status;

    if (!muct_rdma_canary_copy(canary, bytes, pointer, length)) {
        return UCS_ERR_UNSUPPORTED;
    }

    status = muct_rdma_canary_compare(canary, mem, address, bytes, length);
    if ((status != UCS_OK) || (memcmp(bytes, bytes + 1, length - 1) != 0) ||
        (getrandom(other, length, 0) != (ssize_t)length)) {
        return status;
    }

    /* all words are equal, as in fresh memory, so wrong memory could match by chance */
    if (!muct_rdma_canary_copy(canary, pointer, other, length)) {
        return UCS_ERR_UNSUPPORTED;
    }
    status = muct_rdma_canary_compare(canary, mem, address, other, length);
    return muct_rdma_canary_copy(canary, pointer, bytes, length) ? status
                                                                 : UCS_ERR_IO_ERROR;
}

/* Check both ends; the last chunk may have fewer bytes than are checked. */
static ucs_status_t muct_rdma_canary_look_at_ends(const muct_rdma_canary_t *canary,
                                                  const muct_rdma_mem_t *mem)
{
    uint64_t left = mem->length - (((uint64_t)mem->num - 1) << mem->chunk_shift);
    unsigned head = (unsigned)ucs_min(mem->length, MUCT_RDMA_CANARY_BYTES);
    unsigned tail = (unsigned)ucs_min(left, MUCT_RDMA_CANARY_BYTES);
    ucs_status_t status;

    status = muct_rdma_canary_look_at(canary, mem, mem->base, head);
    return (status == UCS_OK) ? muct_rdma_canary_look_at(
                                    canary, mem, mem->base + mem->length - tail, tail)
                              : status;
}

/* ---- the check ---- */

static ucs_status_t muct_rdma_canary_look_with_stream(muct_rdma_canary_t *canary,
                                                      const muct_rdma_mem_t *mem)
{
    const muct_gpu_t *gpu = canary->gpu;
    ucs_status_t status;

    if (muct_gpu_forget(gpu, gpu->stream_create_with_priority(
                                 &canary->stream, MUCT_HIP_STREAM_NON_BLOCKING, 0)) !=
        MUCT_HIP_SUCCESS) {
        return UCS_ERR_UNSUPPORTED;
    }

    status = muct_rdma_canary_look_at_ends(canary, mem);
    (void)muct_gpu_forget(gpu, gpu->stream_destroy(canary->stream));
    return status;
}

/* The caller has made the memory's GPU current. */
static ucs_status_t muct_rdma_canary_look_on_gpu(muct_rdma_canary_t *canary,
                                                 const muct_rdma_mem_t *mem)
{
    muct_gpu_mem_info_t info;
    ucs_status_t status;
    int prev, mode;

    if ((muct_gpu_get(&canary->gpu) != UCS_OK) ||
        (muct_gpu_query(canary->gpu, (void *)(uintptr_t)mem->base, &info) != UCS_OK) ||
        (muct_gpu_push_device(canary->gpu, info.device, &prev) != UCS_OK)) {
        return UCS_ERR_UNSUPPORTED;
    }

    mode = muct_gpu_relax(canary->gpu);
    status = muct_rdma_canary_look_with_stream(canary, mem);
    muct_gpu_unrelax(canary->gpu, mode);
    muct_gpu_pop_device(canary->gpu, info.device, prev);
    return status;
}

ucs_status_t muct_rdma_canary_look(muct_rdma_md_t *md, const muct_rdma_mem_t *mem)
{
    muct_rdma_canary_t canary = {.pd = md->pd};
    ucs_status_t status;

    if ((muct_rdma_canary_find_port(&md->device, &canary.port) != UCS_OK) ||
        (muct_rdma_canary_create_page(&canary) != UCS_OK)) {
        return UCS_ERR_UNSUPPORTED;
    }

    if (muct_rdma_canary_create_qp(&canary) != UCS_OK) {
        status = UCS_ERR_UNSUPPORTED;
        goto out_page;
    }

    status = muct_rdma_canary_look_on_gpu(&canary, mem);
    muct_debug("%s: compared GPU memory 0x%llx length %llu by device and GPU: %s",
               md->device.name, (unsigned long long)mem->base,
               (unsigned long long)mem->length, ucs_status_string(status));
    muct_rdma_qp_destroy(canary.qp);
    (void)muct_rdma_verbs.destroy_cq(canary.cq);
out_page:
    muct_rdma_mem_destroy(canary.mem);
    free(canary.page);
    return status;
}
