/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Regions and the memory registered for them.
 *
 * A commit gives every new region a mem: one that is registered already and covers it,
 * or a new one that covers all new regions of the same allocation. A mem lives until
 * its last region is dropped; it never grows, because peers hold keys of it.
 */

#include "memory/region.h"

#include "base/abi.h"
#include "memory/mem_index.h"
#include "memory/region_shape.h"
#include "memory/span.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MKV_REGION_FLAGS                                                               \
    ((unsigned)(MKV_REGION_OPTIONAL | MKV_REGION_BYTES | MKV_REGION_ONE_SIDED |        \
                MKV_REGION_REPLICATED | MKV_REGION_CP_REPLICATED |                     \
                MKV_REGION_HEADS_FIRST | MKV_REGION_REVERSE))

/* ---- Adding ---------------------------------------------------------------------- */

/* Memory without units is one unit of all its bytes */
static mkv_status_t mkv_region_take_bytes(mkv_ctx_t *ctx, mkv_region_t *info)
{
    if (!(info->flags & MKV_REGION_BYTES)) {
        return MKV_OK;
    }
    if ((info->n_units | info->unit_bytes | info->unit_stride |
         info->tokens_per_unit) != 0) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "component %u layer %d part %u: MKV_REGION_BYTES and %llu "
                         "units of %llu bytes, expected none",
                         info->component, info->layer, info->part,
                         (unsigned long long)info->n_units,
                         (unsigned long long)info->unit_bytes);
    }
    info->n_units = 1;
    info->unit_bytes = info->unit_stride = info->length;
    return MKV_OK;
}

static mkv_status_t mkv_region_check_name(mkv_ctx_t *ctx, const mkv_region_t *region)
{
    if (region->flags & ~MKV_REGION_FLAGS) {
        return mkv_error(&ctx->log, MKV_ERR_UNSUPPORTED,
                         "region: flags 0x%x, libmorikv %s supports 0x%x",
                         region->flags, mkv_version_string(), MKV_REGION_FLAGS);
    }
    if ((region->component >= MKV_MAX_COMPONENTS) || (region->layer == INT32_MAX)) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "region: component %u layer %d, expected a component below %u "
                         "and a layer below %d",
                         region->component, region->layer, MKV_MAX_COMPONENTS,
                         INT32_MAX);
    }
    if (region->base == NULL) {
        return mkv_error(
            &ctx->log, MKV_ERR_INVALID,
            "region: component %u layer %d part %u: base is NULL, expected "
            "the address of its memory",
            region->component, region->layer, region->part);
    }
    if ((unsigned)region->mem_type >= UCS_MEMORY_TYPE_LAST) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "region: component %u layer %d part %u: memory type %d, "
                         "expected UCS_MEMORY_TYPE_* below %d",
                         region->component, region->layer, region->part,
                         (int)region->mem_type, (int)UCS_MEMORY_TYPE_LAST);
    }
    return MKV_OK;
}

/* Units that fit without overlap */
static uint64_t mkv_region_max_units(const mkv_region_t *region)
{
    uint64_t stride =
        (region->unit_stride == 0) ? region->unit_bytes : region->unit_stride;

    return ((region->unit_bytes == 0) || (region->unit_bytes > region->length) ||
            (region->unit_bytes > stride))
               ? 0
               : 1 + (region->length - region->unit_bytes) / stride;
}

static mkv_status_t mkv_region_check_units(mkv_ctx_t *ctx, const mkv_region_t *region)
{
    uint64_t base = (uintptr_t)region->base;
    uint64_t stride = region->unit_stride;
    mkv_shape_t shape;

    if (!mkv_region_is_sound(base, region->length, region->unit_bytes,
                             stride == 0 ? region->unit_bytes : stride,
                             region->n_units)) {
        return mkv_error(
            &ctx->log, MKV_ERR_BOUNDS,
            "component %u layer %d part %u: %llu units of %llu bytes, "
            "stride %llu, do not "
            "fit into %llu bytes at %p without overlap; %llu fit",
            region->component, region->layer, region->part,
            (unsigned long long)region->n_units, (unsigned long long)region->unit_bytes,
            (unsigned long long)stride, (unsigned long long)region->length,
            region->base, (unsigned long long)mkv_region_max_units(region));
    }
    return mkv_region_has_shape(region)
               ? mkv_region_shape(&ctx->log, "", region, &shape)
               : MKV_OK;
}

static mkv_status_t mkv_region_check_alloc(mkv_ctx_t *ctx, const mkv_region_t *region)
{
    uint64_t base = (uintptr_t)region->base;
    uint64_t alloc = (uintptr_t)region->alloc_base;

    if ((region->alloc_base != NULL) &&
        ((alloc > base) || (region->alloc_length > UINT64_MAX - alloc) ||
         (base + region->length > alloc + region->alloc_length))) {
        return mkv_error(
            &ctx->log, MKV_ERR_BOUNDS,
            "component %u layer %d part %u: %llu bytes at %p are not inside "
            "the allocation of %llu bytes at %p",
            region->component, region->layer, region->part,
            (unsigned long long)region->length, region->base,
            (unsigned long long)region->alloc_length, region->alloc_base);
    }
    return MKV_OK;
}

static mkv_status_t mkv_region_check(mkv_ctx_t *ctx, const mkv_region_t *region)
{
    mkv_status_t status = mkv_region_check_name(ctx, region);

    if (status == MKV_OK) {
        status = mkv_region_check_units(ctx, region);
    }
    return (status == MKV_OK) ? mkv_region_check_alloc(ctx, region) : status;
}

/* Set the ranks that share the axis, and check the layout of units */
static mkv_status_t mkv_region_take_shape(mkv_ctx_t *ctx, mkv_region_t *info)
{
    uint32_t i;

    if (info->shard_size == 0) {
        info->shard_size = ctx->params.topology.tp_size;
        info->shard_rank = ctx->params.topology.tp_rank;
    }
    if ((info->shard_rank >= info->shard_size) || (info->shard_size > MKV_MAX_SHARDS) ||
        (info->num_groups > MKV_MAX_GROUPS)) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "component %u layer %d part %u: shard_rank %u of "
                         "shard_size %u, expected a rank below the size and a size of "
                         "at most %u; %u groups, expected at most %u; set unused "
                         "members to 0",
                         info->component, info->layer, info->part, info->shard_rank,
                         info->shard_size, MKV_MAX_SHARDS, info->num_groups,
                         MKV_MAX_GROUPS);
    }
    for (i = 0; i < MKV_MAX_GROUPS; ++i) {
        if ((info->groups[i] != 0) != (i < info->num_groups)) {
            return mkv_error(
                &ctx->log, MKV_ERR_INVALID,
                "component %u layer %d part %u: group %u of %u has %u "
                "elements, expected some below num_groups and 0 from there",
                info->component, info->layer, info->part, i, info->num_groups,
                info->groups[i]);
        }
    }
    if (mkv_region_has_shape(info) && (info->flags & MKV_REGION_BYTES)) {
        return mkv_error(
            &ctx->log, MKV_ERR_INVALID,
            "component %u layer %d part %u: MKV_REGION_BYTES and a layout of "
            "units, expected none",
            info->component, info->layer, info->part);
    }
    return MKV_OK;
}

mkv_lregion_t *mkv_region_by_name(const mkv_ctx_t *ctx, uint32_t component,
                                  int32_t layer, uint16_t part)
{
    return mkv_table_find(&ctx->regions_by_name,
                          mkv_region_name(component, layer, part));
}

/* Enter both tables or none; the name is free */
static mkv_status_t mkv_region_enter(mkv_ctx_t *ctx, mkv_lregion_t *region)
{
    uint64_t name =
        mkv_region_name(region->info.component, region->info.layer, region->info.part);
    mkv_status_t status = mkv_table_add(&ctx->regions_by_name, name, region);

    if (status == MKV_OK) {
        status = mkv_table_add(&ctx->regions_by_id, region->id, region);
        if (status != MKV_OK) {
            mkv_table_remove(&ctx->regions_by_name, name);
        }
    }
    return status;
}

/* Ask the caller's hook for the allocation, if the region names none */
static void mkv_region_resolve(mkv_ctx_t *ctx, mkv_region_t *info)
{
    uint64_t base = (uintptr_t)info->base;
    void *alloc_base = NULL;
    size_t alloc_length = 0;

    info->unit_stride = (info->unit_stride == 0) ? info->unit_bytes : info->unit_stride;
    if ((info->alloc_base != NULL) || (ctx->params.mem_query == NULL) ||
        (ctx->params.mem_query(ctx->params.mem_query_arg, info->base, info->length,
                               &alloc_base, &alloc_length) != MKV_OK)) {
        return;
    }

    if (((uintptr_t)alloc_base > base) ||
        (base + info->length > (uintptr_t)alloc_base + alloc_length)) {
        mkv_log_warn(
            ctx,
            "mem_query returned for %llu bytes at %p an allocation that does not hold "
            "them, %zu bytes at %p; ignored",
            (unsigned long long)info->length, info->base, alloc_length, alloc_base);
        return;
    }
    info->alloc_base = alloc_base;
    info->alloc_length = alloc_length;
}

static mkv_status_t mkv_region_add_locked(mkv_ctx_t *ctx, const mkv_region_t *info,
                                          mkv_region_id_t *id_p)
{
    mkv_status_t status = mkv_region_check(ctx, info);
    mkv_lregion_t *region;

    if (status != MKV_OK) {
        return status;
    }
    if (mkv_region_by_name(ctx, info->component, info->layer, info->part) != NULL) {
        return mkv_error(&ctx->log, MKV_ERR_DUPLICATE,
                         "component %u layer %d part %u is added already: give another "
                         "name, or drop that region first",
                         info->component, info->layer, info->part);
    }

    region = calloc(1, sizeof(*region));
    if (region == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for a region");
    }
    mkv_list_init(&region->list);
    region->info = *info;
    region->id = ++ctx->last_region_id;
    if (mkv_region_enter(ctx, region) != MKV_OK) {
        free(region);
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for a region");
    }
    mkv_region_resolve(ctx, &region->info);
    mkv_list_add_tail(&ctx->regions, &region->list);
    ++ctx->num_regions;
    *id_p = region->id;
    return MKV_OK;
}

mkv_status_t mkv_region_add(mkv_ctx_t *ctx, const mkv_region_t *region,
                            mkv_region_id_t *id_p)
{
    mkv_region_t info;
    mkv_status_t status;

    MKV_HOLD(ctx, "region_add", return MKV_ERR_INVALID);
    status = mkv_struct_read(&ctx->log, &mkv_struct_region, region, &info);
    if (status == MKV_OK) {
        status = mkv_region_take_bytes(ctx, &info);
    }
    if (status == MKV_OK) {
        status = mkv_region_take_shape(ctx, &info);
    }
    if (status != MKV_OK) {
        return status;
    }

    pthread_mutex_lock(&ctx->mem_lock);
    mkv_enter(ctx);
    status = mkv_region_add_locked(ctx, &info, id_p);
    mkv_leave(ctx);
    pthread_mutex_unlock(&ctx->mem_lock);
    return status;
}

/* ---- Committing ------------------------------------------------------------------ */

/* @return MKV_OK, MKV_ERR_TRANSPORT: devices may still reach the memory. */
static mkv_status_t mkv_mem_destroy(mkv_ctx_t *ctx, mkv_mem_t *mem)
{
    ucs_status_t status = UCS_OK;
    mkv_status_t result = MKV_OK;

    mkv_list_del(&mem->list);
    mkv_repeat_cleanup(&mem->repeat);
    if (mem->loop_key != NULL) {
        ucp_rkey_destroy(mem->loop_key);
    }
    if (mem->rkey != NULL) {
        ucp_rkey_buffer_release(mem->rkey);
    }
    if (mem->memh != NULL) {
        status = ucp_mem_unmap(ctx->ucp_context, mem->memh);
    }
    if (status != UCS_OK) {
        mkv_log_error(ctx, "ucp_mem_unmap(%llu bytes at 0x%llx) failed: %s",
                      (unsigned long long)mem->length, (unsigned long long)mem->base,
                      ucs_status_string(status));
        result = mkv_error(&ctx->log, MKV_ERR_TRANSPORT,
                           "ucp_mem_unmap(%llu bytes at 0x%llx) failed: %s; a device "
                           "may still reach the memory",
                           (unsigned long long)mem->length,
                           (unsigned long long)mem->base, ucs_status_string(status));
    }
    free(mem);
    return result;
}

static bool mkv_page_is_mapped(uint64_t address)
{
    uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned char is_resident;

    return (mincore((void *)(uintptr_t)(address / size * size), 1, &is_resident) ==
            0) ||
           (errno != ENOMEM);
}

/* Transports that register no host memory, such as tcp, would first touch it in a
 * transfer. The first and the last page stand for all. */
static mkv_status_t mkv_mem_check_mapped(const mkv_ctx_t *ctx, const mkv_mem_t *mem)
{
    if ((mem->type != UCS_MEMORY_TYPE_HOST) ||
        (mkv_page_is_mapped(mem->base) &&
         mkv_page_is_mapped(mem->base + mem->length - 1))) {
        return MKV_OK;
    }
    return mkv_error(&ctx->log, MKV_ERR_INVALID,
                     "%llu bytes of host memory at 0x%llx are not mapped; expected "
                     "memory that stays until its regions are dropped",
                     (unsigned long long)mem->length, (unsigned long long)mem->base);
}

static mkv_status_t mkv_mem_register(mkv_ctx_t *ctx, mkv_mem_t *mem)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .address = (void *)(uintptr_t)mem->base,
                                   .length = mem->length,
                                   .memory_type = mem->type};
    const char *what = "ucp_mem_map";
    ucs_status_t status;

    status = ucp_mem_map(ctx->ucp_context, &params, &mem->memh);
    if (status == UCS_OK) {
        what = "ucp_rkey_pack";
        status =
            ucp_rkey_pack(ctx->ucp_context, mem->memh, &mem->rkey, &mem->rkey_length);
    }
    if (status != UCS_OK) {
        return mkv_error(&ctx->log, MKV_ERR_TRANSPORT,
                         "%s(%llu bytes of memory type %d at 0x%llx) failed: %s; "
                         "expected memory of that ucs_memory_type_t",
                         what, (unsigned long long)mem->length, (int)mem->type,
                         (unsigned long long)mem->base, ucs_status_string(status));
    }
    if (mem->rkey_length > MKV_MAX_RKEY_SIZE) {
        return mkv_error(&ctx->log, MKV_ERR_TRANSPORT,
                         "UCX packs a key of %zu bytes, expected at most %u",
                         mem->rkey_length, MKV_MAX_RKEY_SIZE);
    }
    return MKV_OK;
}

static mkv_status_t mkv_mem_create(mkv_ctx_t *ctx, const mkv_span_t *span)
{
    mkv_mem_t *mem = calloc(1, sizeof(*mem));
    mkv_status_t status;

    if (mem == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for a registration");
    }
    mkv_list_init(&mem->list);
    mem->id = ++ctx->last_mem_id;
    mem->type = span->type;
    mem->base = span->base;
    mem->length = span->end - span->base;
    status = mkv_mem_check_mapped(ctx, mem);
    if (status == MKV_OK) {
        status = mkv_mem_register(ctx, mem);
    }
    if (status != MKV_OK) {
        (void)mkv_mem_destroy(ctx, mem);
        return status;
    }

    mkv_list_add_tail(&ctx->mems, &mem->list);
    mkv_log_debug(ctx, "mem %u: registered %llu bytes of memory type %d at 0x%llx",
                  mem->id, (unsigned long long)mem->length, (int)mem->type,
                  (unsigned long long)mem->base);
    return MKV_OK;
}

/* The lock is released in between. @return The first error, as mkv_mem_destroy(). */
static mkv_status_t mkv_mems_destroy_unused(mkv_ctx_t *ctx)
{
    mkv_status_t status, first = MKV_OK;
    mkv_mem_t *mem, *next;

    mkv_list_for_each_safe(mem, next, &ctx->mems, list)
    {
        if (mem->num_regions == 0) {
            mkv_pause(ctx);
            status = mkv_mem_destroy(ctx, mem);
            first = (first == MKV_OK) ? status : first;
        }
    }
    return first;
}

/* Register one range per round, as UCX may need milliseconds for each */
static mkv_status_t mkv_mems_create(mkv_ctx_t *ctx, const mkv_span_t *spans, size_t num)
{
    mkv_status_t status = MKV_OK;
    size_t i;

    mkv_enter(ctx);
    for (i = 0; (i < num) && (status == MKV_OK); ++i) {
        if (i > 0) {
            mkv_pause(ctx);
        }
        status = mkv_mem_create(ctx, &spans[i]);
    }
    mkv_leave_quietly(ctx);
    return status;
}

/* Registers what the regions without memory need. @return As mkv_regions_register(). */
static mkv_status_t mkv_regions_make_mems(mkv_ctx_t *ctx, const mkv_mem_index_t *index)
{
    mkv_span_t *spans = calloc(ctx->num_regions + 1, sizeof(*spans));
    mkv_status_t status;
    mkv_lregion_t *region;
    size_t num = 0;

    if (spans == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory to sort %u regions",
                         ctx->num_regions);
    }
    mkv_list_for_each(region, &ctx->regions, list)
    {
        if ((region->mem == NULL) && (mkv_mem_find(index, &region->info) == NULL)) {
            spans[num++] = mkv_region_span(&region->info);
        }
    }
    num = mkv_spans_join(spans, num);
    status = mkv_spans_check_types(ctx, index, spans, num);
    if (status == MKV_OK) {
        status = mkv_mems_create(ctx, spans, num);
    }
    free(spans);
    return status;
}

/* @param mems  Parallel to ctx->regions; NULL: has one already. */
static void mkv_regions_find_mems(const mkv_ctx_t *ctx, const mkv_mem_index_t *index,
                                  mkv_mem_t **mems)
{
    const mkv_lregion_t *region;
    size_t i = 0;

    mkv_list_for_each(region, &ctx->regions, list)
    {
        mems[i++] = (region->mem == NULL) ? mkv_mem_find(index, &region->info) : NULL;
    }
}

static void mkv_regions_take_mems(mkv_ctx_t *ctx, mkv_mem_t *const *mems)
{
    mkv_lregion_t *region;
    size_t i = 0;

    mkv_enter(ctx);
    mkv_list_for_each(region, &ctx->regions, list)
    {
        if (mems[i] != NULL) {
            region->mem = mems[i];
            region->epoch = ctx->epoch + 1;
            ++region->mem->num_regions;
        }
        ++i;
    }
    ++ctx->epoch;
    mkv_leave_quietly(ctx);
}

/* Give each region the memory that covers it. @return MKV_OK, MKV_ERR_NOMEM. */
static mkv_status_t mkv_regions_settle(mkv_ctx_t *ctx)
{
    mkv_mem_t **mems = calloc(ctx->num_regions + 1, sizeof(mkv_mem_t *));
    mkv_mem_index_t index;
    mkv_status_t status;

    if (mems == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory to sort %u regions",
                         ctx->num_regions);
    }
    status = mkv_mem_index_make(ctx, &index);
    if (status == MKV_OK) {
        mkv_regions_find_mems(ctx, &index, mems);
        mkv_regions_take_mems(ctx, mems);
    }
    mkv_mem_index_cleanup(&index);
    free(mems);
    return status;
}

mkv_status_t mkv_regions_register(mkv_ctx_t *ctx)
{
    mkv_mem_index_t index;
    mkv_status_t status = mkv_mem_index_make(ctx, &index);

    if (status == MKV_OK) {
        status = mkv_regions_make_mems(ctx, &index);
    }
    mkv_mem_index_cleanup(&index);
    if (status == MKV_OK) {
        status = mkv_regions_settle(ctx);
    }
    if (status != MKV_OK) {
        mkv_enter(ctx);
        (void)mkv_mems_destroy_unused(ctx);
        mkv_leave_quietly(ctx);
    }
    return status;
}

/* ---- Dropping -------------------------------------------------------------------- */

mkv_lregion_t *mkv_region_by_id(mkv_ctx_t *ctx, mkv_region_id_t id)
{
    return mkv_table_find(&ctx->regions_by_id, id);
}

static void mkv_region_destroy(mkv_ctx_t *ctx, mkv_lregion_t *region)
{
    if (region->mem != NULL) {
        --region->mem->num_regions;
    }
    mkv_table_remove(&ctx->regions_by_id, region->id);
    mkv_table_remove(
        &ctx->regions_by_name,
        mkv_region_name(region->info.component, region->info.layer, region->info.part));
    mkv_list_del(&region->list);
    --ctx->num_regions;
    free(region);
}

/* Mark the region as being dropped: nothing can begin to use it from now on */
static mkv_status_t mkv_region_leave(mkv_ctx_t *ctx, mkv_region_id_t id)
{
    mkv_lregion_t *region = mkv_region_by_id(ctx, id);

    if (region == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOTFOUND, "there is no region %u", id);
    }
    if (region->num_maps > 0) {
        return mkv_error(&ctx->log, MKV_ERR_BUSY,
                         "region %u (component %u layer %d part %u) is used by %u "
                         "maps: destroy them first",
                         region->id, region->info.component, region->info.layer,
                         region->info.part, region->num_maps);
    }
    if (region->num_ops > 0) {
        return mkv_error(
            &ctx->log, MKV_ERR_BUSY,
            "region %u is used by %u one-sided operations: wait until they are quiet",
            region->id, region->num_ops);
    }
    region->is_leaving = true;
    return MKV_OK;
}

/* Drop all of the regions or none */
static mkv_status_t mkv_regions_leave(mkv_ctx_t *ctx, const mkv_region_id_t *ids,
                                      size_t num_ids)
{
    mkv_status_t status = MKV_OK;
    mkv_lregion_t *region;
    size_t i, num;

    for (num = 0; num < num_ids; ++num) {
        status = mkv_region_leave(ctx, ids[num]);
        if (status != MKV_OK) {
            break;
        }
        (void)mkv_pause_at(ctx, num);
    }
    for (i = 0; (status != MKV_OK) && (i < num); ++i) {
        region = mkv_region_by_id(ctx, ids[i]);
        if (region != NULL) {
            region->is_leaving = false;
        }
        (void)mkv_pause_at(ctx, i);
    }
    return status;
}

/* Runs in rounds under pair_lock: a concurrent map might pair a region that is being
 * dropped, or miss a region after its drop is undone */
static mkv_status_t mkv_regions_remove_locked(mkv_ctx_t *ctx,
                                              const mkv_region_id_t *ids,
                                              size_t num_ids)
{
    mkv_status_t status = mkv_regions_leave(ctx, ids, num_ids);
    mkv_lregion_t *region;
    size_t i;

    if (status != MKV_OK) {
        return status;
    }
    for (i = 0; i < num_ids; ++i) {
        region = mkv_region_by_id(ctx, ids[i]);
        if (region != NULL) { /* an id may occur twice */
            mkv_region_destroy(ctx, region);
        }
        (void)mkv_pause_at(ctx, i);
    }
    ctx->removed_epoch = ++ctx->epoch;
    return MKV_OK;
}

mkv_status_t mkv_regions_remove(mkv_ctx_t *ctx, const mkv_region_id_t *ids,
                                size_t num_ids)
{
    mkv_status_t status;

    pthread_mutex_lock(&ctx->pair_lock);
    mkv_enter(ctx);
    status = mkv_regions_remove_locked(ctx, ids, num_ids);
    pthread_mutex_unlock(&ctx->pair_lock);
    if (status == MKV_OK) {
        status = mkv_mems_destroy_unused(ctx);
    }
    mkv_leave_quietly(ctx);
    return status;
}

mkv_status_t mkv_regions_cleanup(mkv_ctx_t *ctx)
{
    mkv_status_t status;
    mkv_lregion_t *region, *next;

    mkv_list_for_each_safe(region, next, &ctx->regions, list)
    {
        mkv_region_destroy(ctx, region);
    }
    status = mkv_mems_destroy_unused(ctx);
    mkv_table_cleanup(&ctx->regions_by_name);
    mkv_table_cleanup(&ctx->regions_by_id);
    return status;
}
