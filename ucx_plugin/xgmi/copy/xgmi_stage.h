/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_STAGE_H
#define MUCT_XGMI_STAGE_H

/**
 * @file
 * Pinned buffers for data that is not in GPU memory: short and buffered operations.
 *
 * A fixed number of buffers of one size, allocated with the first use. Threads: one at
 * a time.
 */

#include "base/muct_uct_abi.h"
#include "base/muct_gpu.h"


typedef struct muct_xgmi_stage muct_xgmi_stage_t;

/** Staging buffer, and the data needed when its operation is over. */
typedef struct muct_xgmi_buffer {
    struct muct_xgmi_buffer *next;
    muct_xgmi_stage_t *stage;        /**< Pool that the buffer is returned to */
    void *data;                      /**< Pinned, same address on all devices */
    uct_unpack_callback_t unpack_cb; /**< Callback of a get, or NULL */
    void *unpack_arg;
    size_t length;          /**< Bytes to unpack */
    uct_completion_t *comp; /**< Completion of a get, or NULL */
} muct_xgmi_buffer_t;

/** The buffers of one interface. */
struct muct_xgmi_stage {
    const muct_gpu_t *gpu;
    size_t size; /**< Bytes of a buffer */
    unsigned count;
    void *memory; /**< NULL until the first use */
    muct_xgmi_buffer_t *buffers;
    muct_xgmi_buffer_t *free;
};


/** Prepare buffers; allocates nothing. */
void muct_xgmi_stage_init(muct_xgmi_stage_t *stage, const muct_gpu_t *gpu, size_t size,
                          unsigned count);


/** Free the memory; all buffers must be back. */
void muct_xgmi_stage_cleanup(muct_xgmi_stage_t *stage);


/** Allocate the memory of all buffers, on the device's node of the host. */
ucs_status_t muct_xgmi_stage_fill(muct_xgmi_stage_t *stage, int device);


/**
 * Take a buffer.
 *
 * @param [in] device  The first one that copies from or to a buffer.
 *
 * @return UCS_OK, UCS_ERR_NO_RESOURCE until one comes back, or UCS_ERR_NO_MEMORY.
 */
static inline ucs_status_t muct_xgmi_stage_get(muct_xgmi_stage_t *stage, int device,
                                               muct_xgmi_buffer_t **buffer_p)
{
    muct_xgmi_buffer_t *buffer;
    ucs_status_t status;

    if (stage->memory == NULL) {
        status = muct_xgmi_stage_fill(stage, device);
        if (status != UCS_OK) {
            return status;
        }
    }

    buffer = stage->free;
    if (buffer == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }

    stage->free = buffer->next;
    *buffer_p = buffer;
    return UCS_OK;
}


/** Give a buffer back. */
static inline void muct_xgmi_stage_put(muct_xgmi_buffer_t *buffer)
{
    buffer->next = buffer->stage->free;
    buffer->stage->free = buffer;
}

#endif
