/* SPDX-License-Identifier: BSD-3-Clause */

#include "wire/blob_shape.h"

/* A peer that does not know one of these flags would misread the region's memory */
#define MKV_SHAPE_FLAGS                                                                \
    (MKV_REGION_BYTES | MKV_REGION_REPLICATED | MKV_REGION_CP_REPLICATED |             \
     MKV_REGION_HEADS_FIRST | MKV_REGION_REVERSE)

bool mkv_blob_is_plain(const mkv_blob_info_t *info)
{
    const mkv_wire_shape_t *shape;
    uint32_t i;

    for (i = 0; i < info->num_regions; ++i) {
        shape = &info->regions[i].shape;
        if ((info->regions[i].flags & MKV_SHAPE_FLAGS) ||
            ((shape->outer | shape->inner_bytes | shape->num_groups) != 0) ||
            ((shape->size != 0) && ((shape->size != info->topology.tp_size) ||
                                    (shape->rank != info->topology.tp_rank)))) {
            return false;
        }
    }
    return true;
}

static void mkv_blob_put_shape(mkv_wbuf_t *wbuf, const mkv_wire_shape_t *shape)
{
    uint32_t i;

    mkv_wbuf_put_u32(wbuf, 28 + 4 * shape->num_groups);
    mkv_wbuf_put_u64(wbuf, shape->outer);
    mkv_wbuf_put_u64(wbuf, shape->inner_bytes);
    mkv_wbuf_put_u32(wbuf, shape->rank);
    mkv_wbuf_put_u32(wbuf, shape->size);
    mkv_wbuf_put_u32(wbuf, shape->num_groups);
    for (i = 0; i < shape->num_groups; ++i) {
        mkv_wbuf_put_u32(wbuf, shape->groups[i]);
    }
}

void mkv_blob_put_shapes(mkv_wbuf_t *wbuf, const mkv_blob_info_t *info)
{
    uint32_t i;

    mkv_wbuf_put_u32(wbuf, info->num_regions);
    for (i = 0; i < info->num_regions; ++i) {
        mkv_blob_put_shape(wbuf, &info->regions[i].shape);
    }
}

static void mkv_blob_get_shape(mkv_rbuf_t *rbuf, mkv_wire_shape_t *shape)
{
    uint32_t i;

    shape->outer = mkv_rbuf_get_u64(rbuf);
    shape->inner_bytes = mkv_rbuf_get_u64(rbuf);
    shape->rank = mkv_rbuf_get_u32(rbuf);
    shape->size = mkv_rbuf_get_u32(rbuf);
    shape->num_groups = mkv_rbuf_get_u32(rbuf);
    if ((shape->num_groups > MKV_MAX_GROUPS) || (shape->rank >= shape->size) ||
        (shape->size > MKV_MAX_SHARDS)) {
        rbuf->is_bad = true;
        return;
    }
    for (i = 0; i < shape->num_groups; ++i) {
        shape->groups[i] = mkv_rbuf_get_u32(rbuf);
        rbuf->is_bad |= (shape->groups[i] == 0);
    }
}

void mkv_blob_get_shapes(mkv_rbuf_t *rbuf, mkv_blob_info_t *info)
{
    uint32_t num = mkv_rbuf_get_u32(rbuf), i;
    mkv_rbuf_t record;

    if (!info->has_regions || (num != info->num_regions)) {
        rbuf->is_bad = true;
        return;
    }
    for (i = 0; (i < num) && !rbuf->is_bad; ++i) {
        record = mkv_rbuf_record(rbuf);
        mkv_blob_get_shape(&record, &info->regions[i].shape);
        rbuf->is_bad |= record.is_bad;
    }
}
