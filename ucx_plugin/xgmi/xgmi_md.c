/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "xgmi/xgmi_md.h"

#include "base/muct_bytes.h"
#include "base/muct_gpu_tl.h"
#include "base/muct_lock.h"
#include "base/muct_log.h"
#include "base/muct_stub_ops.h"
#include "base/muct_ucx_rocm.h"
#include "xgmi/copy/xgmi_code.h"
#include "xgmi/copy/xgmi_queue.h"
#include "xgmi/memory/xgmi_rkey.h"

#include <ucs/config/parser.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes UCX may add to a range it registers: a page, less one. */
#define MUCT_XGMI_MD_MAX_ROUNDING 4096

typedef struct muct_xgmi_md_config {
    uct_md_config_t super;
    char *shm_dir;
    unsigned max_idle_regions;
    size_t max_idle_size;
    double open_timeout;
    double invalidate_timeout;
    int detect;
    int has_private;
} muct_xgmi_md_config_t;


static ucs_config_field_t muct_xgmi_md_config_table[] = {
    {"", "", NULL, ucs_offsetof(muct_xgmi_md_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},

    {"SHM_DIR", "/dev/shm",
     "Folder in shared memory for one small file a process, a path. Processes reach\n"
     "each other when it is the same file system; set it when containers share a\n"
     "folder other than /dev/shm.",
     ucs_offsetof(muct_xgmi_md_config_t, shm_dir), UCS_CONFIG_TYPE_STRING},

    {"MAX_IDLE_REGIONS", "inf",
     "Peers' allocations kept mapped after their last use, a number. Lower it when\n"
     "the runtime runs out of IPC mappings.",
     ucs_offsetof(muct_xgmi_md_config_t, max_idle_regions), UCS_CONFIG_TYPE_UINT},

    {"MAX_IDLE_SIZE", "4t",
     "Peers' memory kept mapped after its last use, in bytes. Lower it when peers run\n"
     "out of memory that they have freed, or GPU address space is short.",
     ucs_offsetof(muct_xgmi_md_config_t, max_idle_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"OPEN_TIMEOUT", "1s",
     "Time that unpacking a key waits for the first memory of a peer to open, a time.\n"
     "If it is not open by then, UCX keeps this transport and copies wait for it. Keys\n"
     "of further memory are unpacked without waiting.",
     ucs_offsetof(muct_xgmi_md_config_t, open_timeout), UCS_CONFIG_TYPE_TIME},

    {"INVALIDATE_TIMEOUT", "1s",
     "Time that invalidating memory waits for other processes' copies, a time. Raise\n"
     "it when a warning reports a living process that has not ended its copies.",
     ucs_offsetof(muct_xgmi_md_config_t, invalidate_timeout), UCS_CONFIG_TYPE_TIME},

    {"DETECT", "y",
     "Report to UCX which memory is GPU memory, y or n. Where UCX cannot see the GPU\n"
     "runtime's allocations by itself, this turns its memory type cache off, which\n"
     "costs host memory operations without a memory handle a query each.",
     ucs_offsetof(muct_xgmi_md_config_t, detect), UCS_CONFIG_TYPE_BOOL},

    {"PRIVATE", "y",
     "Let peers copy from and to private host memory that is mapped with UCX, by\n"
     "process_vm_readv() and process_vm_writev(), y or n. Otherwise UCX emulates\n"
     "their puts and gets by messages.",
     ucs_offsetof(muct_xgmi_md_config_t, has_private), UCS_CONFIG_TYPE_BOOL},

    {NULL, NULL, NULL, 0, {0}}};


int muct_xgmi_md_default_device(const muct_xgmi_md_t *md)
{
    int device = atomic_load_explicit(&muct_xgmi_global.device, memory_order_relaxed);

    if ((device < 0) &&
        (muct_gpu_forget(md->gpu, md->gpu->get_device(&device)) != MUCT_HIP_SUCCESS)) {
        return 0;
    }

    return device;
}


/* ---- memory ---- */

static ucs_status_t muct_xgmi_md_query(uct_md_h md, uct_md_attr_v2_t *attr)
{
    const muct_xgmi_md_t *self = ucs_derived_of(md, muct_xgmi_md_t);
    uint64_t rocm = UCS_BIT(UCS_MEMORY_TYPE_ROCM);
    uint64_t host = self->has_host ? UCS_BIT(UCS_MEMORY_TYPE_HOST) : 0;

    uct_md_base_md_query(attr);
    attr->flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_ALLOC | UCT_MD_FLAG_NEED_MEMH |
                  UCT_MD_FLAG_NEED_RKEY | UCT_MD_FLAG_INVALIDATE |
                  UCT_MD_FLAG_INVALIDATE_RMA;
    attr->reg_mem_types = rocm | host;
    attr->cache_mem_types = rocm | host;
    attr->alloc_mem_types = rocm;
    attr->max_alloc = SIZE_MAX;
    attr->access_mem_types = 0; /* without registration: nothing */
    attr->rkey_packed_size = MUCT_XGMI_KEY_PACKED_SIZE;
    attr->reg_cost = ucs_linear_func_make(1e-6, 0);
    if (self->is_detecting) {
        attr->detect_mem_types = rocm;
    }
    if (self->is_first && muct_gpu_may_export_dmabuf(self->gpu)) {
        attr->dmabuf_mem_types = rocm;
    }

    return UCS_OK;
}

/*
 * Bytes of [address, address + length) in the allocation, 0 when the range is not a
 * piece of it. UCX's registration cache rounds ranges up, so a few excess bytes are cut
 * off.
 */
static uint64_t muct_xgmi_range_fit(const muct_gpu_mem_info_t *info, uintptr_t address,
                                    size_t length)
{
    uint64_t offset = address - info->base;
    uint64_t room;

    if ((address < info->base) || (offset >= info->length)) {
        return 0;
    }

    room = info->length - offset;
    if (length <= room) {
        return length;
    }

    return ((length - room) < MUCT_XGMI_MD_MAX_ROUNDING) ? room : 0;
}

static ucs_status_t muct_xgmi_md_mem_query(uct_md_h md, const void *address,
                                           size_t length, uct_md_mem_attr_v2_t *attr)
{
    const muct_xgmi_md_t *self = ucs_derived_of(md, muct_xgmi_md_t);
    muct_gpu_mem_info_t info;
    ucs_status_t status;
    uint64_t offset = 0;
    int fd = -1;

    status = muct_gpu_query_range(self->gpu, address, length, &info);
    if ((status != UCS_OK) || (info.type != UCS_MEMORY_TYPE_ROCM)) {
        return UCS_ERR_INVALID_ADDR;
    }

    muct_gpu_tl_fill_mem_attr(self->gpu, &info, attr);
    if (attr->field_mask & UCT_MD_MEM_ATTR_V2_FIELD_DMABUF_FD) {
        (void)muct_gpu_export_dmabuf(self->gpu, address, length, &fd, &offset);
        attr->dmabuf_fd = fd;
        attr->dmabuf_offset = offset;
    }

    return UCS_OK;
}

static ucs_status_t muct_xgmi_mem_examine_gpu(const muct_gpu_mem_info_t *info,
                                              void *address, size_t length,
                                              muct_xgmi_mem_t *mem)
{
    mem->length = muct_xgmi_range_fit(info, (uintptr_t)address, length);
    if (mem->length == 0) {
        muct_debug("%p length %zu is not inside the allocation 0x%zx length %zu",
                   address, length, info->base, info->length);
        return UCS_ERR_INVALID_ADDR;
    }

    mem->device = info->device;
    atomic_store_explicit(&muct_xgmi_global.device, info->device, memory_order_relaxed);
    return UCS_OK;
}

/*
 * UCX keeps registrations until the memory is unmapped. The runtime refuses copies
 * across the end of registered memory, also the application's. So memory that an
 * allocator may reuse in other pieces is not pinned: glibc unmaps blocks of at least
 * this size.
 */
#define MUCT_XGMI_MIN_PINNED (32u << 20)

/* These are the flags of ucp_mem_map(); memory without them is that of a message.
 * Memory mapped by UCP_MEM_MAP_NONBLOCK may be larger than physical memory. */
static bool muct_xgmi_mem_may_pin(uint64_t flags, void *address, size_t length)
{
    return !(flags & UCT_MD_MEM_FLAG_NONBLOCK) &&
           ((flags & UCT_MD_MEM_ACCESS_RMA) == UCT_MD_MEM_ACCESS_RMA) &&
           ((length >= MUCT_XGMI_MIN_PINNED) ||
            muct_xgmi_file_is_mapped((uintptr_t)address, length));
}

/* Fill in the attributes of the memory except its range. */
static ucs_status_t muct_xgmi_mem_examine(const muct_xgmi_md_t *md, void *address,
                                          size_t length,
                                          const uct_md_mem_reg_params_t *params,
                                          muct_xgmi_mem_t *mem)
{
    uint64_t flags = MUCT_PARAM(UCT_MD_MEM_REG_FIELD, params, flags, FLAGS, 0);
    ucs_memory_type_t type = MUCT_PARAM(UCT_MD_MEM_REG_FIELD, params, mem_type,
                                        MEM_TYPE, UCS_MEMORY_TYPE_HOST);
    muct_gpu_mem_info_t info;
    uint64_t delta;
    bool is_covered;

    if (muct_gpu_query_range(md->gpu, address, length, &info) == UCS_OK) {
        return muct_xgmi_mem_examine_gpu(&info, address, length, mem);
    }

    mem->is_host = true;
    mem->may_copy = (md->word != NULL) &&
                    ((flags & UCT_MD_MEM_ACCESS_RMA) == UCT_MD_MEM_ACCESS_RMA);
    mem->device = muct_xgmi_md_default_device(md);
    muct_pin_init(&mem->pin, address, length, MUCT_PIN_UNTRIED);
    is_covered = muct_pin_is_covered(md->gpu, &mem->pin, &delta);
    /* otherwise peers would pin it as well */
    mem->is_private = (flags & UCT_MD_MEM_FLAG_NONBLOCK) && !is_covered;
    if ((type != UCS_MEMORY_TYPE_HOST) && !is_covered) {
        muct_debug("%p is neither device memory nor pinned host memory", address);
        return UCS_ERR_INVALID_ADDR;
    }

    if (is_covered || muct_xgmi_mem_may_pin(flags, address, length)) {
        (void)muct_pin(md->gpu, &mem->pin);
    } else {
        muct_pin_init(&mem->pin, address, length, MUCT_PIN_PAGEABLE);
    }
    return UCS_OK;
}

static ucs_status_t muct_xgmi_md_mem_reg(uct_md_h md, void *address, size_t length,
                                         const uct_md_mem_reg_params_t *params,
                                         uct_mem_h *memh_p)
{
    const muct_xgmi_md_t *self = ucs_derived_of(md, muct_xgmi_md_t);
    uint64_t flags = MUCT_PARAM(UCT_MD_MEM_REG_FIELD, params, flags, FLAGS, 0);
    muct_xgmi_mem_t *mem;
    ucs_status_t status;

    mem = calloc(1, sizeof(*mem));
    if (mem == NULL) {
        muct_error("failed to allocate a memory handle");
        return UCS_ERR_NO_MEMORY;
    }

    mem->address = (uintptr_t)address;
    mem->length = length;
    status = muct_xgmi_mem_examine(self, address, length, params, mem);
    if (status != UCS_OK) {
        ucs_log((flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) ? UCS_LOG_LEVEL_DEBUG
                                                      : UCS_LOG_LEVEL_ERROR,
                "registering %p length %zu failed: it is not memory of one GPU "
                "allocation",
                address, length);
        free(mem);
        return status;
    }

    *memh_p = mem;
    return UCS_OK;
}

static ucs_status_t muct_xgmi_md_mem_alloc(uct_md_h md, size_t *length_p,
                                           void **address_p, ucs_memory_type_t mem_type,
                                           ucs_sys_device_t sys_dev, unsigned flags,
                                           const char *alloc_name, uct_mem_h *memh_p)
{
    const muct_xgmi_md_t *self = ucs_derived_of(md, muct_xgmi_md_t);
    const uct_md_mem_reg_params_t params = {.field_mask = 0};
    ucs_status_t status;
    void *address;

    (void)flags;
    status = muct_gpu_tl_alloc(self->gpu, mem_type, sys_dev, *length_p, alloc_name,
                               &address);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_xgmi_md_mem_reg(md, address, *length_p, &params, memh_p);
    if (status != UCS_OK) {
        (void)muct_gpu_forget(self->gpu, self->gpu->mem_free(address));
        return status;
    }

    *address_p = address;
    return UCS_OK;
}

static ucs_status_t muct_xgmi_md_mem_free(uct_md_h md, uct_mem_h memh)
{
    const muct_xgmi_md_t *self = ucs_derived_of(md, muct_xgmi_md_t);
    muct_xgmi_mem_t *mem = memh;
    ucs_status_t status;

    if (mem->has_slot) {
        muct_xgmi_slot_free(mem->slot);
    }

    status = muct_gpu_tl_free(self->gpu, (void *)(uintptr_t)mem->address);
    free(mem);
    return status;
}

/* Guards what a key changes in its handle: UCP has no lock of all workers. */
static pthread_mutex_t muct_xgmi_mkey_lock = PTHREAD_MUTEX_INITIALIZER;
MUCT_FREE_IN_CHILD(muct_xgmi_mkey_lock, &muct_xgmi_mkey_lock)

static void muct_xgmi_mem_warn_several(const muct_xgmi_mem_t *mem)
{
    static atomic_bool has_warned;

    if (!atomic_exchange(&has_warned, true)) {
        muct_warn("0x%" PRIx64 " length %" PRIu64 " covers more than one allocation, "
                  "and an IPC handle covers one: other processes reach it over other "
                  "transports; register each allocation by itself for xGMI",
                  mem->address, mem->length);
    }
}

/* A registration of host memory belongs to one file for its lifetime, or to none. */
static ucs_status_t muct_xgmi_mem_export_file(muct_xgmi_mem_t *mem)
{
    muct_xgmi_export_t *export = &mem->export;

    if (!mem->is_private && (export->length == 0)) {
        mem->is_private =
            (muct_xgmi_file_find(mem->address, mem->length, &mem->file) != UCS_OK);
    }
    if (mem->is_private) {
        return UCS_ERR_UNSUPPORTED;
    }

    export->base = mem->file.base;
    export->length = mem->file.length;
    export->device = mem->device;
    muct_xgmi_file_pack(&mem->file, export->handle);
    return UCS_OK;
}

/* Keys of other memory are packed meanwhile, as the driver may take long. */
static ucs_status_t muct_xgmi_mem_export_gpu(const muct_xgmi_md_t *md,
                                             muct_xgmi_mem_t *mem)
{
    muct_xgmi_export_t export = mem->export;
    ucs_status_t status;

    pthread_mutex_unlock(&muct_xgmi_mkey_lock);
    status = muct_xgmi_export_get(md->gpu, mem->address, &export);
    pthread_mutex_lock(&muct_xgmi_mkey_lock);
    mem->export = export;
    return status;
}

/* Memory that cannot be exported has a key as well: UCX packs keys of all transports or
 * of none. */
static ucs_status_t muct_xgmi_mem_export(const muct_xgmi_md_t *md, muct_xgmi_mem_t *mem,
                                         muct_xgmi_key_t *key)
{
    const muct_xgmi_export_t *export = &mem->export;
    ucs_status_t status;

    status = mem->is_host ? muct_xgmi_mem_export_file(mem)
                          : muct_xgmi_mem_export_gpu(md, mem);
    if (status != UCS_OK) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (mem->address - export->base + mem->length > export->length) {
        muct_xgmi_mem_warn_several(mem);
        return UCS_ERR_UNSUPPORTED;
    }

    key->base = export->base;
    key->alloc_length = export->length;
    key->buffer_id = export->buffer_id;
    key->device = (uint16_t)export->device;
    memcpy(key->handle, export->handle, sizeof(key->handle));
    return UCS_OK;
}

/* Keep the slot as long as the allocation is the same. */
static ucs_status_t muct_xgmi_mem_use_slot(muct_xgmi_mem_t *mem)
{
    ucs_status_t status;

    if (mem->has_slot && (mem->slot_of.base == mem->export.base) &&
        (mem->slot_of.buffer_id == mem->export.buffer_id) &&
        (mem->slot_of.length == mem->export.length)) {
        return UCS_OK;
    }

    if (mem->has_slot) {
        muct_xgmi_slot_free(mem->slot);
        mem->has_slot = false;
    }

    status = muct_xgmi_slot_alloc(&mem->slot, &mem->generation);
    if (status != UCS_OK) {
        muct_diag("all %d slots for exported memory are taken", MUCT_XGMI_MAX_SLOTS);
        return status;
    }

    mem->has_slot = true;
    mem->slot_of = mem->export;
    return UCS_OK;
}

/* Set the key's way to the memory, and the memory's slot if there is a way. */
static void muct_xgmi_mem_set_key(const muct_xgmi_md_t *md, muct_xgmi_mem_t *mem,
                                  muct_xgmi_key_t *key)
{
    bool is_exported = (muct_xgmi_mem_export(md, mem, key) == UCS_OK);

    if (!is_exported) {
        key->base = mem->address;
        key->alloc_length = mem->length;
    }
    if ((is_exported || (mem->is_private && mem->may_copy)) &&
        (muct_xgmi_mem_use_slot(mem) == UCS_OK)) {
        key->kind = !is_exported   ? MUCT_XGMI_KEY_PRIVATE
                    : mem->is_host ? MUCT_XGMI_KEY_FILE
                                   : MUCT_XGMI_KEY_REMOTE;
        key->slot = mem->slot;
        key->generation = mem->generation;
    } else {
        key->kind = MUCT_XGMI_KEY_LOCAL;
    }
}

static ucs_status_t muct_xgmi_md_mkey_pack(uct_md_h md, uct_mem_h memh, void *address,
                                           size_t length,
                                           const uct_md_mkey_pack_params_t *params,
                                           void *buffer)
{
    const muct_xgmi_md_t *self = ucs_derived_of(md, muct_xgmi_md_t);
    unsigned flags = MUCT_PARAM(UCT_MD_MKEY_PACK_FIELD, params, flags, FLAGS, 0);
    muct_xgmi_mem_t *mem = memh;
    muct_xgmi_key_t key = {0};

    /* The key covers the whole registration, not the requested part. */
    (void)address;
    (void)length;
    key.owner = self->self.owner;
    key.address = mem->address;
    key.length = mem->length;
    pthread_mutex_lock(&muct_xgmi_mkey_lock);
    mem->may_invalidate |= !!(flags & UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA);
    muct_xgmi_mem_set_key(self, mem, &key);
    if (key.kind == MUCT_XGMI_KEY_PRIVATE) {
        muct_put_le(key.handle, (uintptr_t)self->word, 8);
    }

    muct_xgmi_key_pack(&key, buffer);
    if (key.kind != MUCT_XGMI_KEY_LOCAL) {
        muct_xgmi_rkey_issue(key.slot, buffer);
    }
    pthread_mutex_unlock(&muct_xgmi_mkey_lock);
    return UCS_OK;
}

static ucs_status_t muct_xgmi_md_mem_dereg(uct_md_h md,
                                           const uct_md_mem_dereg_params_t *params)
{
    muct_xgmi_md_t *self = ucs_derived_of(md, muct_xgmi_md_t);
    muct_xgmi_mem_t *mem = MUCT_PARAM(UCT_MD_MEM_DEREG_FIELD, params, memh, MEMH, NULL);
    unsigned flags = MUCT_PARAM(UCT_MD_MEM_DEREG_FIELD, params, flags, FLAGS, 0);
    uct_completion_t *comp =
        MUCT_PARAM(UCT_MD_MEM_DEREG_FIELD, params, comp, COMPLETION, NULL);
    bool is_invalidating = !!(flags & UCT_MD_MEM_DEREG_FLAG_INVALIDATE);
    muct_xgmi_inval_mem_t what;

    if ((mem == NULL) ||
        (is_invalidating && ((comp == NULL) || !mem->may_invalidate))) {
        return UCS_ERR_INVALID_PARAM;
    }

    if (mem->has_slot && is_invalidating) {
        what = (muct_xgmi_inval_mem_t){mem->slot, mem->address, mem->length};
        muct_xgmi_invals_start(&self->invals, &what, comp);
    } else if (mem->has_slot) {
        muct_xgmi_slot_free(mem->slot);
    } else if (is_invalidating) {
        muct_completion_invoke(comp, UCS_OK);
    }

    if (mem->is_host) {
        muct_pin_drop(self->gpu, &mem->pin);
        if (mem->export.length > 0) {
            muct_xgmi_file_release(&mem->file);
        }
    }
    free(mem);
    return UCS_OK;
}


/* ---- life ---- */

static void muct_xgmi_md_close(uct_md_h md)
{
    muct_xgmi_md_t *self = ucs_derived_of(md, muct_xgmi_md_t);

    muct_xgmi_invals_cleanup(&self->invals);
    muct_xgmi_global_put();
    muct_xgmi_private_unshare(self->word, self->word_pid);
    muct_xgmi_self_close();
    free(self);
}

static MUCT_ABI_PADDED(uct_md_ops_t) muct_xgmi_md_ops = {
    .super =
        {
            .close = muct_xgmi_md_close,
            .query = muct_xgmi_md_query,
            .mem_alloc = muct_xgmi_md_mem_alloc,
            .mem_free = muct_xgmi_md_mem_free,
            .mem_advise = muct_stub_md_mem_advise,
            .mem_reg = muct_xgmi_md_mem_reg,
            .mem_dereg = muct_xgmi_md_mem_dereg,
            .mem_query = muct_xgmi_md_mem_query,
            .mkey_pack = muct_xgmi_md_mkey_pack,
            .mem_attach = muct_stub_md_mem_attach,
            .detect_memory_type = muct_gpu_tl_detect,
            .mem_elem_pack = muct_stub_md_mem_elem_pack,
#if MUCT_ABI_HAVE_MEM_ELEM_RELEASE
            .mem_elem_release = muct_stub_md_mem_elem_release,
#endif
        },
    .spare = MUCT_STUB_SPARE,
};

static ucs_status_t muct_xgmi_md_open(uct_component_t *component, const char *name,
                                      const uct_md_config_t *md_config, uct_md_h *md_p)
{
    const muct_xgmi_md_config_t *config =
        ucs_derived_of(md_config, const muct_xgmi_md_config_t);
    const muct_xgmi_map_config_t map_config = {config->max_idle_regions,
                                               config->max_idle_size,
                                               (unsigned)(config->open_timeout * 1e3)};
    muct_xgmi_md_t *md;
    ucs_status_t status;

    (void)name;
    md = calloc(1, sizeof(*md));
    if (md == NULL) {
        muct_error("failed to allocate a memory domain");
        return UCS_ERR_NO_MEMORY;
    }

    status = muct_gpu_get(&md->gpu);
    if (status != UCS_OK) {
        goto err_free;
    }

    status = muct_xgmi_self_open(config->shm_dir, &md->self);
    if (status != UCS_OK) {
        goto err_free;
    }

    status = muct_xgmi_global_get(md->gpu, &map_config, &md->map);
    if (status != UCS_OK) {
        goto err_close_self;
    }

    md->super.ops = &muct_xgmi_md_ops.super;
    md->super.component = component;
    muct_xgmi_invals_init(&md->invals, (unsigned)(config->invalidate_timeout * 1e3));
    md->is_first = !muct_ucx_rocm_is_used();
    md->is_detecting = config->detect && md->is_first;
    /* UCP takes the fastest lane for host memory. Other lanes reach private memory as
     * well. */
    md->has_host = !muct_ucx_moves_host();
    md->word = config->has_private ? muct_xgmi_private_share(md->self.owner) : NULL;
    md->word_pid = getpid();
    if (md->is_detecting) {
        muct_ucx_rocm_detect_without_cache(md->gpu);
    }

    *md_p = &md->super;
    return UCS_OK;

err_close_self:
    muct_xgmi_self_close();
err_free:
    free(md);
    return status;
}

static ucs_status_t muct_xgmi_query_md_resources(uct_component_t *component,
                                                 uct_md_resource_desc_t **resources_p,
                                                 unsigned *num_resources_p)
{
    const char *kernel =
        muct_xgmi_code_is_empty() ? "no copy kernel" : "copy kernel for ";
    const muct_gpu_t *gpu;

    if (muct_gpu_get(&gpu) == UCS_OK) {
        muct_report(MUCT_REPORT_GPU, "mori_xgmi: %d GPUs, HIP runtime %d, %s%s",
                    gpu->num_devices, gpu->version, kernel, muct_xgmi_code_archs());
    }
    return muct_gpu_tl_query_md_resources(component, resources_p, num_resources_p);
}

muct_xgmi_component_t muct_xgmi_component = {
    .super =
        {
            .name = MUCT_XGMI_NAME,
            .query_md_resources = muct_xgmi_query_md_resources,
            .md_open = muct_xgmi_md_open,
            .cm_open = muct_stub_cm_open,
            .rkey_unpack = muct_xgmi_rkey_unpack,
            .rkey_ptr = muct_xgmi_rkey_ptr,
            .rkey_release = muct_xgmi_rkey_release,
            .rkey_compare = muct_xgmi_rkey_compare,
            .md_config =
                {
                    .name = "mori_xgmi memory domain",
                    .prefix = "MORI_XGMI_",
                    .table = muct_xgmi_md_config_table,
                    .size = sizeof(muct_xgmi_md_config_t),
                },
            .cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
            .tl_list = UCS_LIST_INITIALIZER(&muct_xgmi_component.super.tl_list,
                                            &muct_xgmi_component.super.tl_list),
            .flags = 0,
            .md_vfs_init = muct_stub_md_vfs_init,
        },
    .spare = MUCT_STUB_SPARE,
};
