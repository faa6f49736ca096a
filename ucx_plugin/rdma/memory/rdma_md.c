/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/memory/rdma_md.h"

#include "base/muct_gpu.h"
#include "base/muct_log.h"
#include "base/muct_stub_ops.h"
#include "rdma/device/rdma_family.h"
#include "rdma/memory/rdma_md_reg.h"
#include "rdma/memory/rdma_rkeys.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MUCT_RDMA_MD_PREFIX "MORI_RDMA_"
#define MUCT_RDMA_MD_TRY_SHIFT 36 /* 64 GiB */

static ucs_config_field_t muct_rdma_md_config_table[] = {
    {"", "", NULL, ucs_offsetof(muct_rdma_md_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},

    {"DEVICES", "all",
     "Devices or ports to use: a comma-separated list of \"device\" or\n"
     "\"device:port\", \"^\" in front of it to use all but those. The order does not\n"
     "matter. Exclude what is not cabled for the GPUs, such as storage or\n"
     "management ports.",
     ucs_offsetof(muct_rdma_md_config_t, devices), UCS_CONFIG_TYPE_ALLOW_LIST},

    {"ATOMICS", "n",
     "Register memory for the device's 64-bit atomics and offer them: y, n, or try where\n"
     "the device has them. Some devices refuse memory of GPUs for atomics. Choose y for\n"
     "programs that call UCT's atomics; UCP does not use them.",
     ucs_offsetof(muct_rdma_md_config_t, atomics), UCS_CONFIG_TYPE_TERNARY},

    {"DMABUF", "try",
     "Register GPU memory by dma-buf: y (by nothing else), n (never), try (first or\n"
     "second, by device, kernel and release of ROCm). Choose n when the kernel's dma-buf\n"
     "path is slower than peer memory.",
     ucs_offsetof(muct_rdma_md_config_t, dmabuf), UCS_CONFIG_TYPE_TERNARY},

    {"PEERMEM", "try",
     "Register GPU memory by its address, which needs the GPU driver's peer memory: y (by\n"
     "nothing else), n (never), try (first or second, as DMABUF). Choose n to get an\n"
     "error when dma-buf does not work.",
     ucs_offsetof(muct_rdma_md_config_t, peermem), UCS_CONFIG_TYPE_TERNARY},

    {"DMABUF_CANARY", "try",
     "Check that the device and the GPU see the same bytes of GPU memory registered by\n"
     "dma-buf, and refuse it otherwise: y, n, or try at UCX_LOG_LEVEL=debug. Choose y\n"
     "once for a new driver or allocator. Memory whose bytes are all alike is written to\n"
     "for a moment.",
     ucs_offsetof(muct_rdma_md_config_t, dmabuf_canary), UCS_CONFIG_TYPE_TERNARY},

    {"GPU_DIRECT", "try",
     "Register GPU memory: y, n, or try (where some of it can be registered when\n"
     "the device is opened). Without it, mori_copy or UCX's rocm_copy moves GPU\n"
     "memory through host memory.",
     ucs_offsetof(muct_rdma_md_config_t, gpu_direct), UCS_CONFIG_TYPE_TERNARY},

    {"GPU_FLUSH", "y",
     "Let peers flush their writes to our GPUs: a page of each GPU is registered\n"
     "for them to read, and the end of their flush proves that the GPU sees the\n"
     "bytes. n saves a read per flush; choose it only where the device needs none.",
     ucs_offsetof(muct_rdma_md_config_t, gpu_flush), UCS_CONFIG_TYPE_BOOL},

    {"RELAXED_ORDERING", "try",
     "Register memory for relaxed PCIe ordering: y, n, or try on AMD processors.\n"
     "Faster between some hosts and devices; writes may then become visible out of\n"
     "order until a flush.",
     ucs_offsetof(muct_rdma_md_config_t, relaxed_ordering), UCS_CONFIG_TYPE_TERNARY},

    {"FORK", "try",
     "Keep registered memory out of processes that this one forks: y, n, or try.\n"
     "Kernels from 5.12 on do it by themselves; older ones may give the child the\n"
     "memory that a device writes to. It makes each registration a little slower there.",
     ucs_offsetof(muct_rdma_md_config_t, fork), UCS_CONFIG_TYPE_TERNARY},

    {"MAX_MR_SIZE", "inf",
     "Most bytes registered under one key; larger regions have several keys. The\n"
     "device's own limit counts in any case. Rounded down to a power of two, 4k at\n"
     "least.",
     ucs_offsetof(muct_rdma_md_config_t, max_mr_size), UCS_CONFIG_TYPE_MEMUNITS},

    {NULL, NULL, NULL, 0, {0}}};

/* ---- component ---- */

static ucs_status_t muct_rdma_component_query_md_resources(
    uct_component_t *component, uct_md_resource_desc_t **resources_p,
    unsigned *num_resources_p)
{
    ucs_status_t status = muct_rdma_device_list(resources_p, num_resources_p);

    (void)component;
    if (status == UCS_ERR_NO_DEVICE) {
        *resources_p = NULL;
        *num_resources_p = 0;
        return UCS_OK;
    }

    return status;
}

static ucs_status_t muct_rdma_component_rkey_unpack(
    uct_component_t *component, const void *rkey_buffer,
    const uct_rkey_unpack_params_t *params, uct_rkey_t *rkey_p, void **handle_p)
{
    muct_rdma_key_result_t result;
    muct_rdma_key_t *key;
    char text[256];

    (void)component;
    (void)params;
    key = muct_rdma_rkeys_alloc();
    if (key == NULL) {
        muct_error("failed to allocate a remote key");
        return UCS_ERR_NO_MEMORY;
    }

    result = muct_rdma_key_unpack(rkey_buffer, SIZE_MAX, key);
    if (result != MUCT_RDMA_KEY_OK) {
        muct_error("failed to unpack a remote key of mori_rdma: %s",
                   muct_rdma_key_explain(result, rkey_buffer, text, sizeof(text)));
        muct_rdma_rkeys_free(key);
        return UCS_ERR_INVALID_PARAM;
    }

    if (key->flags & MUCT_RDMA_KEY_FLAG_NONE) {
        muct_rdma_rkeys_free(key);
        return UCS_ERR_UNREACHABLE; /* UCP then selects another transport */
    }

    muct_rdma_rkeys_add(key);
    *rkey_p = (uct_rkey_t)key;
    *handle_p = key;
    return UCS_OK;
}

static ucs_status_t muct_rdma_component_rkey_release(uct_component_t *component,
                                                     uct_rkey_t rkey, void *handle)
{
    (void)component;
    (void)rkey;
    muct_rdma_rkeys_free(handle);
    return UCS_OK;
}

static ucs_status_t muct_rdma_component_rkey_compare(
    uct_component_t *component, uct_rkey_t rkey1, uct_rkey_t rkey2,
    const uct_rkey_compare_params_t *params, int *result)
{
    const muct_rdma_key_t *key1 = (const muct_rdma_key_t *)rkey1;
    const muct_rdma_key_t *key2 = (const muct_rdma_key_t *)rkey2;

    (void)component;
    if ((params->field_mask != 0) || (result == NULL)) {
        return UCS_ERR_INVALID_PARAM;
    }

    if (key1->incarnation != key2->incarnation) {
        *result = (key1->incarnation < key2->incarnation) ? -1 : 1;
    } else if (key1->rkeys[0] != key2->rkeys[0]) {
        *result = (key1->rkeys[0] < key2->rkeys[0]) ? -1 : 1;
    } else {
        *result = 0;
    }

    return UCS_OK;
}

/* ---- memory domain ---- */

static uint8_t muct_rdma_md_chunk_shift(const muct_rdma_device_t *device,
                                        size_t max_mr_size)
{
    uint64_t limit = device->attr.max_mr_size;
    uint8_t shift = 12;

    if ((limit == 0) || (limit > max_mr_size)) {
        limit = max_mr_size;
    }

    while ((shift < MUCT_RDMA_KEY_ONE_CHUNK) && ((2ull << shift) <= limit)) {
        ++shift;
    }

    /* larger than any region: one key covers all */
    return (shift >= 47) ? MUCT_RDMA_KEY_ONE_CHUNK : shift;
}

/* log2 of the chunk tried first: as large as the option allows, and 64 GiB at most. */
static uint8_t muct_rdma_md_try_shift(size_t max_mr_size)
{
    uint8_t shift = MUCT_RDMA_MD_TRY_SHIFT;

    while ((shift > 12) && ((1ull << shift) > max_mr_size)) {
        --shift;
    }

    return shift;
}

/* Room for keys in a packed key. Every rendezvous carries one, so it is small when a
 * chunk has a TiB. */
static uint8_t muct_rdma_md_num_rkeys(uint8_t chunk_shift)
{
    if (chunk_shift == MUCT_RDMA_KEY_ONE_CHUNK) {
        return 1;
    }

    return (chunk_shift >= 40) ? 4 : MUCT_RDMA_KEY_MAX_RKEYS;
}

/* Index among the devices that this process uses, equal in all processes of a
 * machine. */
static uint8_t muct_rdma_md_rail(const muct_rdma_md_config_t *config, const char *name)
{
    uct_md_resource_desc_t *names = NULL;
    unsigned i, num = 0;
    uint8_t rail = 0;

    if (muct_rdma_device_list(&names, &num) != UCS_OK) {
        return 0;
    }

    for (i = 0; i < num; ++i) {
        if (strcmp(names[i].md_name, name) == 0) {
            break;
        }
        if (muct_rdma_device_is_listed(&config->devices, names[i].md_name, 1)) {
            ++rail;
        }
    }

    free(names);
    return rail;
}

static ucs_status_t muct_rdma_md_set_gpu_ways(muct_rdma_md_t *md,
                                              const muct_rdma_md_config_t *config)
{
    const muct_rdma_family_t *family = muct_rdma_family_of(&md->device);
    muct_rdma_gpu_way_params_t params = {
        .dmabuf = (ucs_ternary_auto_value_t)config->dmabuf,
        .peermem = (ucs_ternary_auto_value_t)config->peermem,
        .has_call = muct_rdma_verbs.reg_dmabuf_mr != NULL,
        .is_peermem_first = family->is_peermem_first,
        .needs_dmabuf = family->needs_dmabuf};
    const muct_gpu_t *gpu;
    struct utsname kernel;

    if (muct_gpu_get(&gpu) == UCS_OK) {
        params.hip_version = gpu->version;
    }
    if (uname(&kernel) == 0) {
        muct_rdma_kernel_lack("", kernel.release, md->kernel_lack,
                              sizeof(md->kernel_lack));
    }
    params.kernel_lack = (md->kernel_lack[0] != '\0') ? md->kernel_lack : NULL;
    return muct_rdma_gpu_ways_init(&params, &md->gpu_ways);
}

static ucs_status_t muct_rdma_md_set_access(muct_rdma_md_t *md,
                                            const muct_rdma_md_config_t *config)
{
    if ((config->atomics == UCS_YES) && !md->device.has_atomics) {
        muct_error("%s: UCX_MORI_RDMA_ATOMICS=y, but the device has none",
                   md->device.name);
        return UCS_ERR_UNSUPPORTED;
    }

    md->device.has_atomics = md->device.has_atomics && (config->atomics != UCS_NO);
    md->access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (md->device.has_atomics) {
        md->access |= IBV_ACCESS_REMOTE_ATOMIC;
    }
    if ((config->relaxed_ordering == UCS_YES) ||
        ((config->relaxed_ordering == UCS_TRY) &&
         muct_rdma_family_has_relaxed_ordering())) {
        md->access |= IBV_ACCESS_RELAXED_ORDERING;
    }

    return UCS_OK;
}

static ucs_status_t muct_rdma_md_set_config(muct_rdma_md_t *md,
                                            const muct_rdma_md_config_t *config,
                                            const char *name)
{
    ucs_status_t status;

    status = muct_rdma_md_set_access(md, config);
    if (status != UCS_OK) {
        return status;
    }

    md->chunk_shift = muct_rdma_md_chunk_shift(&md->device, config->max_mr_size);
    md->num_rkeys = muct_rdma_md_num_rkeys(md->chunk_shift);
    if (muct_rdma_family_of(&md->device)->has_larger_mrs) {
        md->try_shift = muct_rdma_md_try_shift(config->max_mr_size);
    }
    md->rail = muct_rdma_md_rail(config, name);
    md->has_gpu_flush = config->gpu_flush != 0;
    md->dmabuf_canary = (ucs_ternary_auto_value_t)config->dmabuf_canary;
    status = muct_rdma_md_set_gpu_ways(md, config);
    if (status != UCS_OK) {
        return status;
    }

    return ucs_config_clone_allow_list(&config->devices, &md->devices,
                                       &ucs_config_array_string);
}

/* Open the device and its protection domain, and draw a number for this incarnation */
static ucs_status_t muct_rdma_md_open_device(muct_rdma_md_t *md, const char *md_name)
{
    ucs_status_t status;

    status = muct_rdma_incarnation_next(&md->incarnation);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_device_open(md_name, &md->device);
    if (status != UCS_OK) {
        return status;
    }

    md->pd = muct_rdma_verbs.alloc_pd(md->device.context);
    if (md->pd == NULL) {
        muct_error("ibv_alloc_pd(%s) failed: %m", md_name);
        muct_rdma_device_close(&md->device);
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

static ucs_status_t muct_rdma_md_open(uct_component_t *component, const char *md_name,
                                      const uct_md_config_t *uct_config, uct_md_h *md_p)
{
    const muct_rdma_md_config_t *config = (const muct_rdma_md_config_t *)uct_config;
    ucs_status_t status;
    muct_rdma_md_t *md;

    md = calloc(1, sizeof(*md));
    if (md == NULL) {
        muct_error("failed to allocate a memory domain");
        return UCS_ERR_NO_MEMORY;
    }

    md->super.ops = &muct_rdma_md_ops.super;
    md->super.component = component;
    status = muct_rdma_verbs_protect_fork((ucs_ternary_auto_value_t)config->fork);
    if (status != UCS_OK) {
        goto err_free;
    }

    status = muct_rdma_md_open_device(md, md_name);
    if (status != UCS_OK) {
        goto err_free;
    }

    status = muct_rdma_md_set_config(md, config, md_name);
    if (status != UCS_OK) {
        goto err_close;
    }

    md->has_gpu_direct = (config->gpu_direct == UCS_TRY)
                             ? muct_rdma_md_try_gpu_direct(md)
                             : (config->gpu_direct == UCS_YES);
    muct_rdma_md_count(1);
    muct_rdma_gpu_pages_init(&md->gpu_pages);
    muct_rdma_async_init(&md->async, md->device.context, md->device.name);
    *md_p = &md->super;
    return UCS_OK;

err_close:
    muct_rdma_verbs.dealloc_pd(md->pd);
    muct_rdma_device_close(&md->device);
err_free:
    free(md);
    return status;
}

static void muct_rdma_md_close(uct_md_h uct_md)
{
    muct_rdma_md_t *md = (muct_rdma_md_t *)uct_md;
    int error;

    if (md->flush_mem != NULL) {
        muct_rdma_mem_destroy(md->flush_mem);
        free(md->flush_page);
    }
    muct_rdma_gpu_pages_cleanup(&md->gpu_pages);
    muct_rdma_async_cleanup(&md->async);
    ucs_config_release_allow_list(&md->devices, &ucs_config_array_string);
    muct_rdma_mem_forget(md->pd);
    error = muct_rdma_verbs.dealloc_pd(md->pd);
    if (error != 0) {
        muct_warn("ibv_dealloc_pd(%s) failed: %s", md->device.name, strerror(error));
    }
    muct_rdma_device_close(&md->device);
    muct_rdma_md_count(-1);
    free(md);
}

static ucs_status_t muct_rdma_md_query(uct_md_h uct_md, uct_md_attr_v2_t *attr)
{
    muct_rdma_md_t *md = (muct_rdma_md_t *)uct_md;

    uct_md_base_md_query(attr);
    attr->flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY |
                  UCT_MD_FLAG_INVALIDATE | UCT_MD_FLAG_INVALIDATE_RMA |
                  UCT_MD_FLAG_INVALIDATE_AMO;
    attr->reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    if (md->has_gpu_direct) {
        attr->reg_mem_types |= UCS_BIT(UCS_MEMORY_TYPE_ROCM);
        attr->flags |= (md->gpu_ways.list[0] == MUCT_RDMA_GPU_WAY_DMABUF)
                           ? UCT_MD_FLAG_REG_DMABUF
                           : 0; /* without dma-buf UCP need not export one first */
    }

    attr->cache_mem_types = UCS_MASK(UCS_MEMORY_TYPE_LAST);
    attr->access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->max_reg = (md->chunk_shift == MUCT_RDMA_KEY_ONE_CHUNK)
                        ? SIZE_MAX
                        : (size_t)md->num_rkeys
                              << ucs_max(md->chunk_shift, md->try_shift);
    attr->reg_cost = ucs_linear_func_make(16e-6, 0.06e-9);
    attr->rkey_packed_size = MUCT_RDMA_KEY_PACKED_SIZE(md->num_rkeys);
    memcpy(attr->global_id, &md->device.attr.node_guid,
           sizeof(md->device.attr.node_guid));
    return UCS_OK;
}

/* ---- tables ---- */

muct_rdma_md_ops_t muct_rdma_md_ops = {
    .super =
        {
            .close = muct_rdma_md_close,
            .query = muct_rdma_md_query,
            .mem_alloc = muct_stub_md_mem_alloc,
            .mem_free = muct_stub_md_mem_free,
            .mem_advise = muct_stub_md_mem_advise,
            .mem_reg = muct_rdma_md_mem_reg,
            .mem_dereg = muct_rdma_md_mem_dereg,
            .mem_query = muct_stub_md_mem_query,
            .mkey_pack = muct_rdma_md_mkey_pack,
            .mem_attach = muct_stub_md_mem_attach,
            .detect_memory_type = muct_stub_md_detect_memory_type,
            .mem_elem_pack = muct_stub_md_mem_elem_pack,
#if MUCT_ABI_HAVE_MEM_ELEM_RELEASE
            .mem_elem_release = muct_stub_md_mem_elem_release,
#endif
        },
    .spare = MUCT_STUB_SPARE,
};

muct_rdma_component_t muct_rdma_component = {
    .super =
        {
            .name = "mori_rdma",
            .query_md_resources = muct_rdma_component_query_md_resources,
            .md_open = muct_rdma_md_open,
            .cm_open = muct_stub_cm_open,
            .rkey_unpack = muct_rdma_component_rkey_unpack,
            .rkey_ptr = muct_stub_rkey_ptr,
            .rkey_release = muct_rdma_component_rkey_release,
            .rkey_compare = muct_rdma_component_rkey_compare,
            .md_config =
                {
                    .name = "mori_rdma memory domain",
                    .prefix = MUCT_RDMA_MD_PREFIX,
                    .table = muct_rdma_md_config_table,
                    .size = sizeof(muct_rdma_md_config_t),
                },
            .cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
            .tl_list = UCS_LIST_INITIALIZER(&muct_rdma_component.super.tl_list,
                                            &muct_rdma_component.super.tl_list),
            .flags = 0,
            .md_vfs_init = muct_stub_md_vfs_init,
        },
    .spare = MUCT_STUB_SPARE,
};
