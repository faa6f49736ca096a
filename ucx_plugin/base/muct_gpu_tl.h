/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_GPU_TL_H
#define MUCT_GPU_TL_H

/**
 * @file
 * Common parts of the transports that copy GPU memory. Their memory domains are found,
 * detect memory and allocate it in the same way, and their interfaces copy the same
 * kinds of memory. Threads: any.
 */

#include "base/muct_gpu.h"
#include "base/muct_uct_abi.h"


/** Report a single memory domain if there is a GPU, none otherwise. For
 * query_md_resources. */
ucs_status_t muct_gpu_tl_query_md_resources(uct_component_t *component,
                                            uct_md_resource_desc_t **resources_p,
                                            unsigned *num_resources_p);


/** Fill in the attributes of the runtime's memory, except for its dma-buf.
 */
void muct_gpu_tl_fill_mem_attr(const muct_gpu_t *gpu, const muct_gpu_mem_info_t *info,
                               uct_md_mem_attr_v2_t *attr);


/** The type of memory, by the domain's own mem_query. For detect_memory_type. */
ucs_status_t muct_gpu_tl_detect(uct_md_h md, const void *address, size_t length,
                                ucs_memory_type_t *type_p);


/**
 * Allocate memory on the GPU that is a system device, or on the current one when UCX
 * names none.
 *
 * @param [in]  name       Caller, for the message.
 * @param [out] address_p  To be freed with @ref muct_gpu_tl_free.
 *
 * @return UCS_OK; UCS_ERR_UNSUPPORTED: another type of memory, or no such GPU;
 *         UCS_ERR_NO_MEMORY.
 */
ucs_status_t muct_gpu_tl_alloc(const muct_gpu_t *gpu, ucs_memory_type_t mem_type,
                               ucs_sys_device_t sys_dev, size_t length,
                               const char *name, void **address_p);


/** @return UCS_OK, or UCS_ERR_IO_ERROR: the runtime refused; the reason is in the
 * log. */
ucs_status_t muct_gpu_tl_free(const muct_gpu_t *gpu, void *address);


/** Limits of puts and gets: any zero-copy of one piece, and @a max_bcopy bytes. */
void muct_gpu_tl_fill_limits(uct_iface_attr_t *attr, size_t max_bcopy);

#endif
