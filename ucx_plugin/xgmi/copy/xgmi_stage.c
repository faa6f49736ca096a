/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/copy/xgmi_stage.h"

#include "base/muct_log.h"

#include <stdlib.h>
#include <string.h>

void muct_xgmi_stage_init(muct_xgmi_stage_t *stage, const muct_gpu_t *gpu, size_t size,
                          unsigned count)
{
    memset(stage, 0, sizeof(*stage));
    stage->gpu = gpu;
    stage->size = size;
    stage->count = count;
}

/* AMD's runtime allocates from the NUMA node nearest to the current device (clr of ROCm
 * 6.2, ihipMalloc() and roc::Device::setupCpuAgent()). */
static ucs_status_t muct_xgmi_stage_alloc(muct_xgmi_stage_t *stage, int device)
{
    int prev, ret;

    if (muct_gpu_push_device(stage->gpu, device, &prev) != UCS_OK) {
        return UCS_ERR_NO_MEMORY; /* logged */
    }

    ret = muct_gpu_forget(
        stage->gpu,
        stage->gpu->host_malloc(&stage->memory, stage->size * stage->count,
                                MUCT_HIP_HOST_PORTABLE | MUCT_HIP_HOST_MAPPED));
    muct_gpu_pop_device(stage->gpu, device, prev);
    if (ret == MUCT_HIP_SUCCESS) {
        return UCS_OK;
    }

    muct_error("hipHostMalloc(%u buffers of %zu bytes) failed: %s", stage->count,
               stage->size, muct_gpu_error_name(stage->gpu, ret));
    stage->memory = NULL;
    return UCS_ERR_NO_MEMORY;
}

ucs_status_t muct_xgmi_stage_fill(muct_xgmi_stage_t *stage, int device)
{
    muct_xgmi_buffer_t *buffer;
    ucs_status_t status;
    unsigned i;
    int mode;

    stage->buffers = calloc(stage->count, sizeof(*stage->buffers));
    if (stage->buffers == NULL) {
        muct_error("failed to allocate %u pinned buffers", stage->count);
        return UCS_ERR_NO_MEMORY;
    }

    mode = muct_gpu_relax(stage->gpu);
    status = muct_xgmi_stage_alloc(stage, device);
    muct_gpu_unrelax(stage->gpu, mode);
    if (status != UCS_OK) {
        free(stage->buffers);
        stage->buffers = NULL;
        return status;
    }

    for (i = 0; i < stage->count; ++i) {
        buffer = &stage->buffers[i];
        buffer->stage = stage;
        buffer->data = (char *)stage->memory + (i * stage->size);
        muct_xgmi_stage_put(buffer);
    }

    return UCS_OK;
}

void muct_xgmi_stage_cleanup(muct_xgmi_stage_t *stage)
{
    int mode;

    if (stage->memory != NULL) {
        mode = muct_gpu_relax(stage->gpu);
        (void)muct_gpu_forget(stage->gpu, stage->gpu->host_free(stage->memory));
        muct_gpu_unrelax(stage->gpu, mode);
        free(stage->buffers);
    }
}
