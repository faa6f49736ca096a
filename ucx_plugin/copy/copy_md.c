/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "copy/copy_md.h"

#include "base/muct_gpu_tl.h"
#include "base/muct_log.h"
#include "base/muct_stub_ops.h"
#include "base/muct_ucx_rocm.h"

#include <ucs/config/parser.h>

#include <stdlib.h>

typedef struct muct_copy_md_config {
    uct_md_config_t super;
    ucs_ternary_auto_value_t enable;
    int detect;
    int pin;
} muct_copy_md_config_t;


static ucs_config_field_t muct_copy_md_config_table[] = {
    {"", "", NULL, ucs_offsetof(muct_copy_md_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},

    {"ENABLE", "auto",
     "Copy GPU memory, yes, no or auto. \"auto\" is no where UCX has a rocm_copy of\n"
     "its own and UCX_TLS allows it. Set it to yes to have both.",
     ucs_offsetof(muct_copy_md_config_t, enable), UCS_CONFIG_TYPE_TERNARY_AUTO},

    {"DETECT", "y",
     "Report to UCX which memory is GPU memory, y or n. Where UCX cannot see the GPU\n"
     "runtime's allocations by itself, this turns its memory type cache off, which\n"
     "costs host memory operations without a memory handle a query each.",
     ucs_offsetof(muct_copy_md_config_t, detect), UCS_CONFIG_TYPE_BOOL},

    {"PIN", "y",
     "Pin registered host memory when it is first copied from or to a GPU, y or n.\n"
     "This concerns UCX's staging buffers. Turn it off when pinned memory is short.",
     ucs_offsetof(muct_copy_md_config_t, pin), UCS_CONFIG_TYPE_BOOL},

    {NULL, NULL, NULL, 0, {0}}};


/* ---- memory ---- */

static ucs_status_t muct_copy_md_query(uct_md_h md, uct_md_attr_v2_t *attr)
{
    const muct_copy_md_t *self = ucs_derived_of(md, muct_copy_md_t);
    const uint64_t device =
        UCS_BIT(UCS_MEMORY_TYPE_ROCM) | UCS_BIT(UCS_MEMORY_TYPE_ROCM_MANAGED);

    uct_md_base_md_query(attr);
    attr->rkey_packed_size = 0; /* the caller is in this process */
    if (!self->is_active) {
        return UCS_OK;
    }

    attr->flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_ALLOC;
    attr->reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->alloc_mem_types = UCS_BIT(UCS_MEMORY_TYPE_ROCM);
    attr->max_alloc = SIZE_MAX;
    attr->access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST) | device;
    if (self->is_detecting) {
        attr->detect_mem_types = device;
    }

    return UCS_OK;
}

static ucs_status_t muct_copy_md_mem_query(uct_md_h md, const void *address,
                                           size_t length, uct_md_mem_attr_v2_t *attr)
{
    const muct_copy_md_t *self = ucs_derived_of(md, muct_copy_md_t);
    muct_gpu_mem_info_t info;

    if (muct_gpu_query_range(self->gpu, address, length, &info) != UCS_OK) {
        return UCS_ERR_INVALID_ADDR;
    }

    muct_gpu_tl_fill_mem_attr(self->gpu, &info, attr);
    return UCS_OK;
}

static ucs_status_t muct_copy_md_mem_reg(uct_md_h md, void *address, size_t length,
                                         const uct_md_mem_reg_params_t *params,
                                         uct_mem_h *memh_p)
{
    const muct_copy_md_t *self = ucs_derived_of(md, muct_copy_md_t);
    muct_pin_t *mem = malloc(sizeof(*mem));

    (void)params;
    if (mem == NULL) {
        muct_error("failed to allocate a memory handle");
        return UCS_ERR_NO_MEMORY;
    }

    muct_pin_init(mem, address, length,
                  self->is_pinning ? MUCT_PIN_UNTRIED : MUCT_PIN_PAGEABLE);
    *memh_p = mem;
    return UCS_OK;
}

static ucs_status_t muct_copy_md_mem_dereg(uct_md_h md,
                                           const uct_md_mem_dereg_params_t *params)
{
    muct_pin_t *mem = MUCT_PARAM(UCT_MD_MEM_DEREG_FIELD, params, memh, MEMH, NULL);
    unsigned flags = MUCT_PARAM(UCT_MD_MEM_DEREG_FIELD, params, flags, FLAGS, 0);

    if (flags & UCT_MD_MEM_DEREG_FLAG_INVALIDATE) {
        return UCS_ERR_UNSUPPORTED; /* there are no keys */
    }
    if (mem == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }

    muct_pin_drop(ucs_derived_of(md, muct_copy_md_t)->gpu, mem);
    free(mem);
    return UCS_OK;
}

/* The handle of allocated memory is its address: copies need no more. */
static ucs_status_t muct_copy_md_mem_alloc(uct_md_h md, size_t *length_p,
                                           void **address_p, ucs_memory_type_t mem_type,
                                           ucs_sys_device_t sys_dev, unsigned flags,
                                           const char *alloc_name, uct_mem_h *memh_p)
{
    const muct_copy_md_t *self = ucs_derived_of(md, muct_copy_md_t);
    ucs_status_t status;

    (void)flags;
    status = muct_gpu_tl_alloc(self->gpu, mem_type, sys_dev, *length_p, alloc_name,
                               address_p);
    if (status == UCS_OK) {
        *memh_p = *address_p;
    }

    return status;
}

static ucs_status_t muct_copy_md_mem_free(uct_md_h md, uct_mem_h memh)
{
    return muct_gpu_tl_free(ucs_derived_of(md, muct_copy_md_t)->gpu, memh);
}

/* No bytes: rkey_packed_size is 0. */
static ucs_status_t muct_copy_md_mkey_pack(uct_md_h md, uct_mem_h memh, void *address,
                                           size_t length,
                                           const uct_md_mkey_pack_params_t *params,
                                           void *buffer)
{
    (void)md;
    (void)memh;
    (void)address;
    (void)length;
    (void)params;
    (void)buffer;
    return UCS_OK;
}

static ucs_status_t muct_copy_rkey_unpack(uct_component_t *component,
                                          const void *buffer,
                                          const uct_rkey_unpack_params_t *params,
                                          uct_rkey_t *rkey_p, void **handle_p)
{
    (void)component;
    (void)buffer;
    (void)params;
    *rkey_p = 0;
    *handle_p = NULL;
    return UCS_OK;
}

static ucs_status_t muct_copy_rkey_release(uct_component_t *component, uct_rkey_t rkey,
                                           void *handle)
{
    (void)component;
    (void)rkey;
    (void)handle;
    return UCS_OK;
}


/* ---- life ---- */

static void muct_copy_md_close(uct_md_h md)
{
    free(ucs_derived_of(md, muct_copy_md_t));
}

static MUCT_ABI_PADDED(uct_md_ops_t) muct_copy_md_ops = {
    .super =
        {
            .close = muct_copy_md_close,
            .query = muct_copy_md_query,
            .mem_alloc = muct_copy_md_mem_alloc,
            .mem_free = muct_copy_md_mem_free,
            .mem_advise = muct_stub_md_mem_advise,
            .mem_reg = muct_copy_md_mem_reg,
            .mem_dereg = muct_copy_md_mem_dereg,
            .mem_query = muct_copy_md_mem_query,
            .mkey_pack = muct_copy_md_mkey_pack,
            .mem_attach = muct_stub_md_mem_attach,
            .detect_memory_type = muct_gpu_tl_detect,
            .mem_elem_pack = muct_stub_md_mem_elem_pack,
#if MUCT_ABI_HAVE_MEM_ELEM_RELEASE
            .mem_elem_release = muct_stub_md_mem_elem_release,
#endif
        },
    .spare = MUCT_STUB_SPARE,
};

static bool muct_copy_md_may_be_active(const muct_copy_md_config_t *config)
{
    if (config->enable != UCS_AUTO) {
        return config->enable != UCS_NO;
    }

    if (muct_ucx_rocm_is_used()) {
        muct_debug("GPU memory is left to UCX's own rocm_copy");
        return false;
    }

    return true;
}

static ucs_status_t muct_copy_md_open(uct_component_t *component, const char *name,
                                      const uct_md_config_t *md_config, uct_md_h *md_p)
{
    const muct_copy_md_config_t *config =
        ucs_derived_of(md_config, const muct_copy_md_config_t);
    muct_copy_md_t *md;
    ucs_status_t status;

    (void)name;
    md = calloc(1, sizeof(*md));
    if (md == NULL) {
        muct_error("failed to allocate a memory domain");
        return UCS_ERR_NO_MEMORY;
    }

    status = muct_gpu_get(&md->gpu);
    if (status != UCS_OK) {
        free(md);
        return status;
    }

    md->super.ops = &muct_copy_md_ops.super;
    md->super.component = component;
    md->is_active = muct_copy_md_may_be_active(config);
    md->is_detecting = config->detect;
    md->is_pinning = config->pin;
    if (md->is_active && md->is_detecting) {
        muct_ucx_rocm_detect_without_cache(md->gpu);
    }

    *md_p = &md->super;
    return UCS_OK;
}

muct_copy_component_t muct_copy_component = {
    .super =
        {
            .name = MUCT_COPY_NAME,
            .query_md_resources = muct_gpu_tl_query_md_resources,
            .md_open = muct_copy_md_open,
            .cm_open = muct_stub_cm_open,
            .rkey_unpack = muct_copy_rkey_unpack,
            .rkey_ptr = muct_stub_rkey_ptr,
            .rkey_release = muct_copy_rkey_release,
            .rkey_compare = uct_base_rkey_compare,
            .md_config =
                {
                    .name = "mori_copy memory domain",
                    .prefix = "MORI_COPY_",
                    .table = muct_copy_md_config_table,
                    .size = sizeof(muct_copy_md_config_t),
                },
            .cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
            .tl_list = UCS_LIST_INITIALIZER(&muct_copy_component.super.tl_list,
                                            &muct_copy_component.super.tl_list),
            .flags = 0,
            .md_vfs_init = muct_stub_md_vfs_init,
        },
    .spare = MUCT_STUB_SPARE,
};
