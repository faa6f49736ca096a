/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A region's memory, shared out. Stretches lie in one list in the order of their
 * offsets, free ones never beside each other; those that are allocated are found by a
 * hash of their offset. First fit: the first free stretch that is long enough.
 */

#include "base/abi.h"
#include "cache/region.h"

#include <stdlib.h>

#define MKV_SLAB_BUCKETS 4096u

typedef struct mkv_slab_part {
    mkv_list_t list; /**< slab->parts, by offset */
    mkv_list_t hash; /**< slab->buckets; in no list: it is free */
    uint64_t offset, length;
} mkv_slab_part_t;

struct mkv_slab {
    mkv_ctx_t *ctx;
    mkv_lregion_t *region;
    uint64_t align;
    mkv_list_t parts;
    mkv_list_t buckets[MKV_SLAB_BUCKETS];
    uint64_t num_allocated, allocated;
};

static bool mkv_slab_part_is_free(const mkv_slab_part_t *part)
{
    return mkv_list_is_empty(&part->hash);
}

static mkv_list_t *mkv_slab_bucket(mkv_slab_t *slab, uint64_t offset)
{
    return &slab->buckets[(offset / slab->align * 0x9e3779b97f4a7c15ull >> 40) %
                          MKV_SLAB_BUCKETS];
}

/* Before `next`, or at the end */
static mkv_slab_part_t *mkv_slab_part_add(mkv_list_t *next, uint64_t offset,
                                          uint64_t length)
{
    mkv_slab_part_t *part = malloc(sizeof(*part));

    if (part != NULL) {
        mkv_list_init(&part->list);
        mkv_list_init(&part->hash);
        part->offset = offset;
        part->length = length;
        mkv_list_add_tail(next, &part->list);
    }
    return part;
}

static void mkv_slab_part_free(mkv_slab_part_t *part)
{
    mkv_list_del(&part->list);
    free(part);
}

/* ---- Create and destroy ---------------------------------------------------------- */

static mkv_status_t mkv_slab_check(mkv_ctx_t *ctx, const mkv_lregion_t *region,
                                   mkv_region_id_t id, uint64_t align)
{
    if (region == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOTFOUND, "slab: there is no region %u",
                         id);
    }
    if ((align == 0) || (align & (align - 1)) || (align > region->info.length)) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "slab: an alignment of %llu, expected a power of 2 up to the "
                         "region's %llu bytes",
                         (unsigned long long)align,
                         (unsigned long long)region->info.length);
    }
    return MKV_OK;
}

static mkv_slab_t *mkv_slab_make(mkv_ctx_t *ctx, mkv_lregion_t *region, uint64_t align)
{
    mkv_slab_t *slab = calloc(1, sizeof(*slab));
    unsigned i;

    if (slab == NULL) {
        return NULL;
    }
    slab->ctx = ctx;
    slab->region = region;
    slab->align = align;
    mkv_list_init(&slab->parts);
    for (i = 0; i < MKV_SLAB_BUCKETS; ++i) {
        mkv_list_init(&slab->buckets[i]);
    }
    if (mkv_slab_part_add(&slab->parts, 0, region->info.length & ~(align - 1)) ==
        NULL) {
        free(slab);
        return NULL;
    }
    ++region->num_ops;
    return slab;
}

mkv_status_t mkv_slab_create(mkv_ctx_t *ctx, mkv_region_id_t id, uint64_t align,
                             mkv_slab_t **slab_p)
{
    mkv_lregion_t *region;
    mkv_status_t status;

    mkv_enter(ctx);
    region = mkv_region_by_id(ctx, id);
    status = mkv_slab_check(ctx, region, id, align);
    if (status == MKV_OK) {
        *slab_p = mkv_slab_make(ctx, region, align);
        if (*slab_p == NULL) {
            status = mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for a slab");
        }
    }
    mkv_leave(ctx);
    return status;
}

mkv_status_t mkv_slab_destroy(mkv_slab_t *slab)
{
    mkv_ctx_t *ctx = slab->ctx;

    mkv_enter(ctx);
    if (slab->num_allocated > 0) {
        return mkv_leave_status(ctx,
                                mkv_error(&ctx->log, MKV_ERR_BUSY,
                                          "slab: %llu stretches are allocated",
                                          (unsigned long long)slab->num_allocated));
    }
    while (!mkv_list_is_empty(&slab->parts)) {
        mkv_slab_part_free(mkv_list_head(&slab->parts, mkv_slab_part_t, list));
    }
    --slab->region->num_ops;
    free(slab);
    return mkv_leave_status(ctx, MKV_OK);
}

/* ---- Allocate and free ----------------------------------------------------------- */

static mkv_slab_part_t *mkv_slab_find_free(mkv_slab_t *slab, uint64_t length)
{
    mkv_slab_part_t *part;

    mkv_list_for_each(part, &slab->parts, mkv_slab_part_t, list)
    {
        if (mkv_slab_part_is_free(part) && (part->length >= length)) {
            return part;
        }
    }
    return NULL;
}

static mkv_status_t mkv_slab_alloc_locked(mkv_slab_t *slab, uint64_t wanted,
                                          uint64_t *offset_p)
{
    uint64_t length = (wanted + slab->align - 1) & ~(slab->align - 1);
    const mkv_log_t *log = &slab->ctx->log;
    mkv_slab_part_t *part;

    if (wanted == 0) {
        return mkv_error(log, MKV_ERR_INVALID, "slab: 0 bytes");
    }
    part = (length >= wanted) ? mkv_slab_find_free(slab, length) : NULL;
    if (part == NULL) {
        return mkv_error(log, MKV_ERR_BUSY, "slab: no stretch of %llu bytes is free",
                         (unsigned long long)wanted);
    }
    if (part->length > length) {
        if (mkv_slab_part_add(part->list.next, part->offset + length,
                              part->length - length) == NULL) {
            return mkv_error(log, MKV_ERR_NOMEM, "no memory for a stretch of a slab");
        }
        part->length = length;
    }
    mkv_list_add_tail(mkv_slab_bucket(slab, part->offset), &part->hash);
    ++slab->num_allocated;
    slab->allocated += length;
    *offset_p = part->offset;
    return MKV_OK;
}

mkv_status_t mkv_slab_alloc(mkv_slab_t *slab, uint64_t length, uint64_t *offset_p)
{
    mkv_status_t status;

    mkv_enter(slab->ctx);
    status = mkv_slab_alloc_locked(slab, length, offset_p);
    mkv_leave(slab->ctx);
    return status;
}

static mkv_slab_part_t *mkv_slab_find(mkv_slab_t *slab, uint64_t offset)
{
    mkv_slab_part_t *part;

    mkv_list_for_each(part, mkv_slab_bucket(slab, offset), mkv_slab_part_t, hash)
    {
        if (part->offset == offset) {
            return part;
        }
    }
    return NULL;
}

/* The second of two neighbours joins the first, if both are free */
static void mkv_slab_join(mkv_slab_t *slab, mkv_list_t *first, mkv_list_t *second)
{
    mkv_slab_part_t *a, *b;

    if ((first == &slab->parts) || (second == &slab->parts)) {
        return;
    }
    a = mkv_container_of(first, mkv_slab_part_t, list);
    b = mkv_container_of(second, mkv_slab_part_t, list);
    if (mkv_slab_part_is_free(a) && mkv_slab_part_is_free(b)) {
        a->length += b->length;
        mkv_slab_part_free(b);
    }
}

mkv_status_t mkv_slab_free(mkv_slab_t *slab, uint64_t offset)
{
    mkv_slab_part_t *part;

    mkv_enter(slab->ctx);
    part = mkv_slab_find(slab, offset);
    if (part == NULL) {
        return mkv_leave_status(slab->ctx,
                                mkv_error(&slab->ctx->log, MKV_ERR_NOTFOUND,
                                          "slab: nothing is allocated at byte %llu",
                                          (unsigned long long)offset));
    }
    mkv_list_del(&part->hash);
    --slab->num_allocated;
    slab->allocated -= part->length;
    mkv_slab_join(slab, &part->list, part->list.next);
    mkv_slab_join(slab, part->list.prev, &part->list);
    return mkv_leave_status(slab->ctx, MKV_OK);
}

mkv_status_t mkv_slab_query(mkv_slab_t *slab, mkv_slab_attr_t *attr)
{
    mkv_slab_attr_t values = {.size = sizeof(values)};
    mkv_slab_part_t *part;

    mkv_enter(slab->ctx);
    values.length = slab->region->info.length;
    values.allocated = slab->allocated;
    values.num_allocated = slab->num_allocated;
    mkv_list_for_each(part, &slab->parts, mkv_slab_part_t, list)
    {
        if (mkv_slab_part_is_free(part)) {
            ++values.num_free;
            values.largest_free = (part->length > values.largest_free)
                                      ? part->length
                                      : values.largest_free;
        }
    }
    mkv_leave_quietly(slab->ctx);
    return mkv_struct_write(&slab->ctx->log, &mkv_struct_slab_attr, &values, attr);
}
