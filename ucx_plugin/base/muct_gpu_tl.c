/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "base/muct_gpu_tl.h"

#include "base/muct_log.h"
#include "base/muct_topo.h"

ucs_status_t muct_gpu_tl_query_md_resources(uct_component_t *component,
                                            uct_md_resource_desc_t **resources_p,
                                            unsigned *num_resources_p)
{
    const muct_gpu_t *gpu;

    if (muct_gpu_get(&gpu) != UCS_OK) {
        return uct_md_query_empty_md_resource(resources_p, num_resources_p);
    }

    return uct_md_query_single_md_resource(component, resources_p, num_resources_p);
}

void muct_gpu_tl_fill_mem_attr(const muct_gpu_t *gpu, const muct_gpu_mem_info_t *info,
                               uct_md_mem_attr_v2_t *attr)
{
    attr->mem_type = info->type;
    attr->sys_dev = muct_topo_sys_dev(gpu, info->device);
    attr->base_address = (void *)info->base;
    attr->alloc_length = info->length;
    if (attr->field_mask & UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS) {
        attr->mem_flags = UCS_MEM_FLAG_REGISTRABLE;
    }
    if (attr->field_mask & UCT_MD_MEM_ATTR_V2_FIELD_DMABUF_FD) {
        attr->dmabuf_fd = -1;
        attr->dmabuf_offset = 0;
    }
}

ucs_status_t muct_gpu_tl_detect(uct_md_h md, const void *address, size_t length,
                                ucs_memory_type_t *type_p)
{
    uct_md_mem_attr_v2_t attr = {.field_mask = UCT_MD_MEM_ATTR_V2_FIELD_MEM_TYPE};
    ucs_status_t status = md->ops->mem_query(md, address, length, &attr);

    if (status == UCS_OK) {
        *type_p = attr.mem_type;
    }

    return status;
}

ucs_status_t muct_gpu_tl_alloc(const muct_gpu_t *gpu, ucs_memory_type_t mem_type,
                               ucs_sys_device_t sys_dev, size_t length,
                               const char *name, void **address_p)
{
    int device = muct_topo_device(gpu, sys_dev);
    int mode, prev, ret;

    if ((mem_type != UCS_MEMORY_TYPE_ROCM) || (device < 0) ||
        (muct_gpu_push_device(gpu, device, &prev) != UCS_OK)) {
        return UCS_ERR_UNSUPPORTED;
    }

    mode = muct_gpu_relax(gpu);
    ret = gpu->mem_alloc(address_p, length);
    muct_gpu_unrelax(gpu, mode);
    muct_gpu_pop_device(gpu, device, prev);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipMalloc(%s, %zu bytes) failed: %s", name, length,
                   muct_gpu_error_name(gpu, ret));
        return UCS_ERR_NO_MEMORY;
    }

    return UCS_OK;
}

ucs_status_t muct_gpu_tl_free(const muct_gpu_t *gpu, void *address)
{
    int mode = muct_gpu_relax(gpu);
    int ret = gpu->mem_free(address);

    muct_gpu_unrelax(gpu, mode);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipFree(%p) failed: %s", address, muct_gpu_error_name(gpu, ret));
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

void muct_gpu_tl_fill_limits(uct_iface_attr_t *attr, size_t max_bcopy)
{
    attr->cap.put.max_bcopy = max_bcopy;
    attr->cap.put.min_zcopy = 0;
    attr->cap.put.max_zcopy = SIZE_MAX;
    attr->cap.put.opt_zcopy_align = 1;
    attr->cap.put.align_mtu = 1;
    attr->cap.put.max_iov = 1;

    attr->cap.get.max_bcopy = max_bcopy;
    attr->cap.get.min_zcopy = 0;
    attr->cap.get.max_zcopy = SIZE_MAX;
    attr->cap.get.opt_zcopy_align = 1;
    attr->cap.get.align_mtu = 1;
    attr->cap.get.max_iov = 1;
}
