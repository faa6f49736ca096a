/* SPDX-License-Identifier: BSD-3-Clause */

/* Blob codec: a header, then items of type, flags, length, value */

#include "wire/blob_shape.h"

#include <stdlib.h>
#include <string.h>

#define MKV_BLOB_MAGIC 0x42564b4du /* "MKVB" */
#define MKV_BLOB_HEADER_SIZE 20u
#define MKV_ITEM_CRITICAL 1u

enum {
    MKV_ITEM_PROCESS = 1,
    MKV_ITEM_NAME,
    MKV_ITEM_ADDRESS,
    MKV_ITEM_TOPOLOGY,
    MKV_ITEM_LAYOUT,
    MKV_ITEM_EPOCH,
    MKV_ITEM_MEMS,
    MKV_ITEM_REGIONS,
    MKV_ITEM_CONNECTION,
    MKV_ITEM_FEATURES,
    MKV_ITEM_CLAIM,
    MKV_ITEM_SHAPES,
    MKV_ITEM_SINCE,
    MKV_ITEM_SPACES /* not critical: an older library skips it */
};

#define MKV_ITEMS_REQUIRED                                                             \
    ((1u << MKV_ITEM_PROCESS) | (1u << MKV_ITEM_ADDRESS) | (1u << MKV_ITEM_TOPOLOGY) | \
     (1u << MKV_ITEM_LAYOUT) | (1u << MKV_ITEM_FEATURES))

bool mkv_region_is_sound(uint64_t base, uint64_t length, uint64_t unit_bytes,
                         uint64_t unit_stride, uint64_t n_units)
{
    if ((unit_bytes == 0) || (n_units == 0) || (n_units > UINT32_MAX) ||
        (unit_stride < unit_bytes) || (unit_bytes > length) ||
        (length > UINT64_MAX - base)) {
        return false;
    }
    return (n_units - 1) <= (length - unit_bytes) / unit_stride;
}

/* ---- Encoding -------------------------------------------------------------------- */

static size_t mkv_item_begin_with(mkv_wbuf_t *wbuf, unsigned type, unsigned flags)
{
    mkv_wbuf_put_u16(wbuf, (uint16_t)type);
    mkv_wbuf_put_u16(wbuf, (uint16_t)flags);
    mkv_wbuf_put_u32(wbuf, 0);
    return wbuf->length;
}

static size_t mkv_item_begin(mkv_wbuf_t *wbuf, unsigned type)
{
    return mkv_item_begin_with(wbuf, type, MKV_ITEM_CRITICAL);
}

static void mkv_item_end(mkv_wbuf_t *wbuf, size_t start)
{
    if (!wbuf->has_failed) {
        mkv_wire_store(wbuf->data + start - 4, wbuf->length - start, 4);
    }
}

static void mkv_blob_put_process(mkv_wbuf_t *wbuf, const mkv_process_t *process)
{
    size_t item = mkv_item_begin(wbuf, MKV_ITEM_PROCESS);

    mkv_wbuf_put_u64(wbuf, process->ctx_id);
    mkv_wbuf_put_u64(wbuf, process->host_id);
    mkv_wbuf_put_u32(wbuf, process->pid);
    mkv_item_end(wbuf, item);
}

static void mkv_blob_put_spaces(mkv_wbuf_t *wbuf, const mkv_spaces_t *spaces)
{
    size_t item = mkv_item_begin_with(wbuf, MKV_ITEM_SPACES, 0);

    mkv_wbuf_put_u64(wbuf, spaces->shm);
    mkv_wbuf_put_u64(wbuf, spaces->network);
    mkv_wbuf_put_u64(wbuf, spaces->pids);
    mkv_wbuf_put_u32(wbuf, spaces->user);
    mkv_item_end(wbuf, item);
}

static void mkv_blob_put_topology(mkv_wbuf_t *wbuf, const mkv_topology_t *topology)
{
    size_t item = mkv_item_begin(wbuf, MKV_ITEM_TOPOLOGY);

    mkv_wbuf_put_u32(wbuf, topology->dp_rank);
    mkv_wbuf_put_u32(wbuf, topology->dp_size);
    mkv_wbuf_put_u32(wbuf, topology->pp_rank);
    mkv_wbuf_put_u32(wbuf, topology->pp_size);
    mkv_wbuf_put_u32(wbuf, topology->cp_rank);
    mkv_wbuf_put_u32(wbuf, topology->cp_size);
    mkv_wbuf_put_u32(wbuf, topology->tp_rank);
    mkv_wbuf_put_u32(wbuf, topology->tp_size);
    mkv_item_end(wbuf, item);
}

static void mkv_blob_put_connection(mkv_wbuf_t *wbuf, const mkv_blob_info_t *info)
{
    size_t item = mkv_item_begin(wbuf, MKV_ITEM_CONNECTION);

    mkv_wbuf_put_u64(wbuf, info->connection);
    mkv_wbuf_put_u64(wbuf, info->proof);
    mkv_wbuf_put_u64(wbuf, info->max_message);
    mkv_wbuf_put_u64(wbuf, info->max_queued);
    mkv_item_end(wbuf, item);
}

static void mkv_blob_put_mem(mkv_wbuf_t *wbuf, const mkv_wire_mem_t *mem)
{
    size_t start = wbuf->length;

    mkv_wbuf_put_u32(wbuf, 0);
    mkv_wbuf_put_u32(wbuf, mem->id);
    mkv_wbuf_put_u32(wbuf, mem->mem_type);
    mkv_wbuf_put_u64(wbuf, mem->base);
    mkv_wbuf_put_u64(wbuf, mem->length);
    mkv_wbuf_put_u32(wbuf, mem->rkey_length);
    mkv_wbuf_put(wbuf, mem->rkey, mem->rkey_length);
    if (!wbuf->has_failed) {
        mkv_wire_store(wbuf->data + start, wbuf->length - start - 4, 4);
    }
}

static void mkv_blob_put_region(mkv_wbuf_t *wbuf, const mkv_wire_region_t *region)
{
    size_t start = wbuf->length;

    mkv_wbuf_put_u32(wbuf, 0);
    mkv_wbuf_put_u32(wbuf, region->id);
    mkv_wbuf_put_u32(wbuf, region->component);
    mkv_wbuf_put_u32(wbuf, (uint32_t)region->layer);
    mkv_wbuf_put_u16(wbuf, region->part);
    mkv_wbuf_put_u16(wbuf, region->flags);
    mkv_wbuf_put_u32(wbuf, region->mem);
    mkv_wbuf_put_u64(wbuf, region->base);
    mkv_wbuf_put_u64(wbuf, region->length);
    mkv_wbuf_put_u64(wbuf, region->unit_bytes);
    mkv_wbuf_put_u64(wbuf, region->unit_stride);
    mkv_wbuf_put_u64(wbuf, region->n_units);
    mkv_wbuf_put_u32(wbuf, region->tokens_per_unit);
    mkv_wbuf_put_u32(wbuf, region->dtype);
    if (!wbuf->has_failed) {
        mkv_wire_store(wbuf->data + start, wbuf->length - start - 4, 4);
    }
}

static void mkv_blob_put_number(mkv_wbuf_t *wbuf, unsigned type, uint64_t value)
{
    size_t item = mkv_item_begin(wbuf, type);

    mkv_wbuf_put_u64(wbuf, value);
    mkv_item_end(wbuf, item);
}

static void mkv_blob_put_regions(mkv_wbuf_t *wbuf, const mkv_blob_info_t *info)
{
    size_t item;
    uint32_t i;

    mkv_blob_put_number(wbuf, MKV_ITEM_EPOCH, info->epoch);
    if (info->since != 0) {
        mkv_blob_put_number(wbuf, MKV_ITEM_SINCE, info->since);
    }

    item = mkv_item_begin(wbuf, MKV_ITEM_MEMS);
    mkv_wbuf_put_u32(wbuf, info->num_mems);
    for (i = 0; i < info->num_mems; ++i) {
        mkv_blob_put_mem(wbuf, &info->mems[i]);
    }
    mkv_item_end(wbuf, item);

    item = mkv_item_begin(wbuf, MKV_ITEM_REGIONS);
    mkv_wbuf_put_u32(wbuf, info->num_regions);
    for (i = 0; i < info->num_regions; ++i) {
        mkv_blob_put_region(wbuf, &info->regions[i]);
    }
    mkv_item_end(wbuf, item);
    if (!mkv_blob_is_plain(info)) {
        item = mkv_item_begin(wbuf, MKV_ITEM_SHAPES);
        mkv_blob_put_shapes(wbuf, info);
        mkv_item_end(wbuf, item);
    }
}

static void mkv_blob_put_bytes(mkv_wbuf_t *wbuf, unsigned type, const void *data,
                               size_t length)
{
    size_t item = mkv_item_begin(wbuf, type);

    mkv_wbuf_put(wbuf, data, length);
    mkv_item_end(wbuf, item);
}

static void mkv_blob_put_layout(mkv_wbuf_t *wbuf, const mkv_blob_info_t *info)
{
    size_t item = mkv_item_begin(wbuf, MKV_ITEM_LAYOUT);

    mkv_wbuf_put_u32(wbuf, info->page_tokens);
    mkv_wbuf_put_u32(wbuf, info->dtype);
    mkv_wbuf_put_u32(wbuf, info->total_kv_heads);
    mkv_wbuf_put_u64(wbuf, info->model);
    mkv_item_end(wbuf, item);
}

static void mkv_blob_put_items(mkv_wbuf_t *wbuf, const mkv_blob_info_t *info)
{
    mkv_blob_put_process(wbuf, &info->process);
    mkv_blob_put_spaces(wbuf, &info->process.spaces);
    mkv_blob_put_bytes(wbuf, MKV_ITEM_NAME, info->name, strlen(info->name));
    mkv_blob_put_bytes(wbuf, MKV_ITEM_ADDRESS, info->address, info->address_length);
    mkv_blob_put_topology(wbuf, &info->topology);
    mkv_blob_put_layout(wbuf, info);
    if (info->connection != 0) {
        mkv_blob_put_connection(wbuf, info);
    }
    mkv_blob_put_number(wbuf, MKV_ITEM_FEATURES, info->features);
    if (info->claim != 0) {
        mkv_blob_put_number(wbuf, MKV_ITEM_CLAIM, info->claim);
    }
    if (info->has_regions) {
        mkv_blob_put_regions(wbuf, info);
    }
}

mkv_status_t mkv_blob_encode(const mkv_blob_info_t *info, mkv_wbuf_t *wbuf)
{
    size_t start = wbuf->length;
    size_t length;

    mkv_wbuf_put_u32(wbuf, MKV_BLOB_MAGIC);
    mkv_wbuf_put_u8(wbuf, MKV_WIRE_MAJOR);
    mkv_wbuf_put_u8(wbuf, MKV_WIRE_MINOR);
    mkv_wbuf_put_u16(wbuf, 0);
    mkv_wbuf_put_u32(wbuf, 0); /* length */
    mkv_wbuf_put_u64(wbuf, 0); /* checksum */
    mkv_blob_put_items(wbuf, info);
    if (wbuf->has_failed) {
        return MKV_ERR_NOMEM;
    }

    length = wbuf->length - start;
    mkv_wire_store(wbuf->data + start + 8, length, 4);
    mkv_wire_store(wbuf->data + start + 12,
                   mkv_wire_checksum(length, wbuf->data + start + MKV_BLOB_HEADER_SIZE,
                                     length - MKV_BLOB_HEADER_SIZE),
                   8);
    return MKV_OK;
}

/* ---- Decoding -------------------------------------------------------------------- */

static void mkv_blob_get_process(mkv_rbuf_t *rbuf, mkv_process_t *process)
{
    process->ctx_id = mkv_rbuf_get_u64(rbuf);
    process->host_id = mkv_rbuf_get_u64(rbuf);
    process->pid = mkv_rbuf_get_u32(rbuf);
    rbuf->is_bad |= (process->ctx_id == 0);
}

static void mkv_blob_get_spaces(mkv_rbuf_t *rbuf, mkv_spaces_t *spaces)
{
    spaces->shm = mkv_rbuf_get_u64(rbuf);
    spaces->network = mkv_rbuf_get_u64(rbuf);
    spaces->pids = mkv_rbuf_get_u64(rbuf);
    spaces->user = mkv_rbuf_get_u32(rbuf);
}

static void mkv_blob_get_topology(mkv_rbuf_t *rbuf, mkv_topology_t *topology)
{
    topology->dp_rank = mkv_rbuf_get_u32(rbuf);
    topology->dp_size = mkv_rbuf_get_u32(rbuf);
    topology->pp_rank = mkv_rbuf_get_u32(rbuf);
    topology->pp_size = mkv_rbuf_get_u32(rbuf);
    topology->cp_rank = mkv_rbuf_get_u32(rbuf);
    topology->cp_size = mkv_rbuf_get_u32(rbuf);
    topology->tp_rank = mkv_rbuf_get_u32(rbuf);
    topology->tp_size = mkv_rbuf_get_u32(rbuf);
    rbuf->is_bad |= (topology->dp_rank >= topology->dp_size) ||
                    (topology->pp_rank >= topology->pp_size) ||
                    (topology->cp_rank >= topology->cp_size) ||
                    (topology->tp_rank >= topology->tp_size);
}

static void mkv_blob_get_mem(mkv_rbuf_t *rbuf, mkv_wire_mem_t *mem)
{
    mem->id = mkv_rbuf_get_u32(rbuf);
    mem->mem_type = mkv_rbuf_get_u32(rbuf);
    mem->base = mkv_rbuf_get_u64(rbuf);
    mem->length = mkv_rbuf_get_u64(rbuf);
    mem->rkey_length = mkv_rbuf_get_u32(rbuf);
    mem->rkey = mkv_rbuf_get(rbuf, mem->rkey_length);
    rbuf->is_bad |= (mem->id == 0) || (mem->length > UINT64_MAX - mem->base) ||
                    (mem->rkey_length > MKV_MAX_RKEY_SIZE);
}

static void mkv_blob_get_region(mkv_rbuf_t *rbuf, mkv_wire_region_t *region)
{
    region->id = mkv_rbuf_get_u32(rbuf);
    region->component = mkv_rbuf_get_u32(rbuf);
    region->layer = (int32_t)mkv_rbuf_get_u32(rbuf);
    region->part = mkv_rbuf_get_u16(rbuf);
    region->flags = mkv_rbuf_get_u16(rbuf);
    region->mem = mkv_rbuf_get_u32(rbuf);
    region->base = mkv_rbuf_get_u64(rbuf);
    region->length = mkv_rbuf_get_u64(rbuf);
    region->unit_bytes = mkv_rbuf_get_u64(rbuf);
    region->unit_stride = mkv_rbuf_get_u64(rbuf);
    region->n_units = mkv_rbuf_get_u64(rbuf);
    region->tokens_per_unit = mkv_rbuf_get_u32(rbuf);
    region->dtype = mkv_rbuf_get_u32(rbuf);
    rbuf->is_bad |=
        (region->id == 0) || (region->component >= MKV_MAX_COMPONENTS) ||
        !mkv_region_is_sound(region->base, region->length, region->unit_bytes,
                             region->unit_stride, region->n_units);
}

/* Allocate `num` records of at least `min` bytes each. NULL: the input is too short, or
 * there is no memory; *status_p has the reason */
static void *mkv_blob_alloc(const mkv_rbuf_t *rbuf, uint32_t num, size_t min,
                            size_t size, mkv_status_t *status_p)
{
    void *array;

    if ((uint64_t)num * min > mkv_rbuf_left(rbuf)) {
        return NULL;
    }
    array = calloc(num == 0 ? 1 : num, size);
    if (array == NULL) {
        *status_p = MKV_ERR_NOMEM;
    }
    return array;
}

static mkv_status_t mkv_blob_get_mems(mkv_rbuf_t *rbuf, mkv_blob_info_t *info)
{
    mkv_status_t status = MKV_ERR_PROTOCOL;
    mkv_rbuf_t record;
    uint32_t num = mkv_rbuf_get_u32(rbuf);
    uint32_t i;

    info->mems = mkv_blob_alloc(rbuf, num, 32, sizeof(*info->mems), &status);
    if (info->mems == NULL) {
        return status;
    }
    info->num_mems = num;
    for (i = 0; i < num; ++i) {
        record = mkv_rbuf_record(rbuf);
        mkv_blob_get_mem(&record, &info->mems[i]);
        rbuf->is_bad |= record.is_bad;
    }
    return MKV_OK;
}

static mkv_status_t mkv_blob_get_regions(mkv_rbuf_t *rbuf, mkv_blob_info_t *info)
{
    mkv_status_t status = MKV_ERR_PROTOCOL;
    mkv_rbuf_t record;
    uint32_t num = mkv_rbuf_get_u32(rbuf);
    uint32_t i;

    info->regions = mkv_blob_alloc(rbuf, num, 72, sizeof(*info->regions), &status);
    if (info->regions == NULL) {
        return status;
    }
    info->num_regions = num;
    for (i = 0; i < num; ++i) {
        record = mkv_rbuf_record(rbuf);
        mkv_blob_get_region(&record, &info->regions[i]);
        rbuf->is_bad |= record.is_bad;
    }
    info->has_regions = true;
    return MKV_OK;
}

static mkv_status_t mkv_blob_get_item(unsigned type, unsigned flags, mkv_rbuf_t *rbuf,
                                      mkv_blob_info_t *info)
{
    switch (type) {
    case MKV_ITEM_PROCESS:
        mkv_blob_get_process(rbuf, &info->process);
        return MKV_OK;
    case MKV_ITEM_SPACES:
        mkv_blob_get_spaces(rbuf, &info->process.spaces);
        return MKV_OK;
    case MKV_ITEM_NAME:
        mkv_rbuf_get_text(rbuf, mkv_rbuf_left(rbuf), info->name, sizeof(info->name));
        return MKV_OK;
    case MKV_ITEM_ADDRESS:
        info->address_length = mkv_rbuf_left(rbuf);
        info->address = mkv_rbuf_get(rbuf, info->address_length);
        rbuf->is_bad |= (info->address_length == 0);
        return MKV_OK;
    case MKV_ITEM_TOPOLOGY:
        mkv_blob_get_topology(rbuf, &info->topology);
        return MKV_OK;
    case MKV_ITEM_LAYOUT:
        info->page_tokens = mkv_rbuf_get_u32(rbuf);
        info->dtype = mkv_rbuf_get_u32(rbuf);
        info->total_kv_heads = mkv_rbuf_get_u32(rbuf);
        info->model = mkv_rbuf_get_u64(rbuf);
        return MKV_OK;
    case MKV_ITEM_EPOCH:
        info->epoch = mkv_rbuf_get_u64(rbuf);
        return MKV_OK;
    case MKV_ITEM_FEATURES:
        info->features = mkv_rbuf_get_u64(rbuf);
        return MKV_OK;
    case MKV_ITEM_CLAIM:
        info->claim = mkv_rbuf_get_u64(rbuf);
        return MKV_OK;
    case MKV_ITEM_MEMS:
        return mkv_blob_get_mems(rbuf, info);
    case MKV_ITEM_REGIONS:
        return mkv_blob_get_regions(rbuf, info);
    case MKV_ITEM_SHAPES:
        mkv_blob_get_shapes(rbuf, info);
        return MKV_OK;
    case MKV_ITEM_SINCE:
        info->since = mkv_rbuf_get_u64(rbuf);
        rbuf->is_bad |= (info->since == 0) || (info->since >= info->epoch);
        return MKV_OK;
    case MKV_ITEM_CONNECTION:
        info->connection = mkv_rbuf_get_u64(rbuf);
        info->proof = mkv_rbuf_get_u64(rbuf);
        info->max_message = mkv_rbuf_get_u64(rbuf);
        info->max_queued = mkv_rbuf_get_u64(rbuf);
        return MKV_OK;
    default:
        return (flags & MKV_ITEM_CRITICAL) ? MKV_ERR_VERSION : MKV_OK;
    }
}

static mkv_status_t mkv_blob_get_items(mkv_rbuf_t *rbuf, mkv_blob_info_t *info)
{
    uint32_t seen = 0;
    mkv_status_t status;
    const uint8_t *p;
    mkv_rbuf_t item;
    uint16_t type, flags;
    uint32_t length;

    while (mkv_rbuf_left(rbuf) > 0) {
        type = mkv_rbuf_get_u16(rbuf);
        flags = mkv_rbuf_get_u16(rbuf);
        length = mkv_rbuf_get_u32(rbuf);
        p = mkv_rbuf_get(rbuf, length);
        if ((p == NULL) || ((type < 32) && (seen & (1u << type)))) {
            return MKV_ERR_PROTOCOL; /* cut short, or an item occurs twice */
        }
        seen |= (type < 32) ? 1u << type : 0;

        item = (mkv_rbuf_t){p, p + length, 0};
        status = mkv_blob_get_item(type, flags, &item, info);
        if ((status != MKV_OK) || item.is_bad) {
            return (status != MKV_OK) ? status : MKV_ERR_PROTOCOL;
        }
    }
    return ((seen & MKV_ITEMS_REQUIRED) == MKV_ITEMS_REQUIRED) ? MKV_OK
                                                               : MKV_ERR_PROTOCOL;
}

static bool mkv_blob_is_consistent(const mkv_blob_info_t *info)
{
    const mkv_wire_region_t *region;
    const mkv_wire_mem_t *mem;
    uint32_t i;

    for (i = 0; i < info->num_regions; ++i) {
        region = &info->regions[i];
        if (region->mem >= info->num_mems) {
            return false;
        }
        mem = &info->mems[region->mem];
        if ((region->base < mem->base) || (region->length > mem->length) ||
            (region->base - mem->base > mem->length - region->length)) {
            return false;
        }
    }
    return true;
}

/* A later UCX may have more types of memory, and this one has no calls for them */
static void mkv_blob_drop_unknown_types(mkv_blob_info_t *info)
{
    uint32_t i, num = 0;

    for (i = 0; i < info->num_regions; ++i) {
        if (mkv_wire_mem_is_known(&info->mems[info->regions[i].mem])) {
            info->regions[num++] = info->regions[i];
        }
    }
    info->num_regions = num;
}

mkv_status_t mkv_blob_decode(const void *data, size_t length, mkv_blob_info_t *info_p)
{
    mkv_rbuf_t rbuf = {data, (const uint8_t *)data + length, 0};
    mkv_blob_info_t info;
    mkv_status_t status;
    uint64_t checksum;
    uint32_t total;
    uint8_t major;

    if ((length < MKV_BLOB_HEADER_SIZE) ||
        (mkv_rbuf_get_u32(&rbuf) != MKV_BLOB_MAGIC)) {
        return MKV_ERR_PROTOCOL;
    }
    major = mkv_rbuf_get_u8(&rbuf);
    (void)mkv_rbuf_get(&rbuf, 3); /* minor and padding */
    total = mkv_rbuf_get_u32(&rbuf);
    checksum = mkv_rbuf_get_u64(&rbuf);
    if (major != MKV_WIRE_MAJOR) {
        return MKV_ERR_VERSION;
    }
    if ((total != length) ||
        (checksum != mkv_wire_checksum(length, rbuf.p, mkv_rbuf_left(&rbuf)))) {
        return MKV_ERR_PROTOCOL;
    }

    memset(&info, 0, sizeof(info));
    status = mkv_blob_get_items(&rbuf, &info);
    if ((status == MKV_OK) && !mkv_blob_is_consistent(&info)) {
        status = MKV_ERR_PROTOCOL;
    }
    if (status != MKV_OK) {
        mkv_blob_info_cleanup(&info);
        return status;
    }

    mkv_blob_drop_unknown_types(&info);
    *info_p = info;
    return MKV_OK;
}

void mkv_blob_info_cleanup(mkv_blob_info_t *info)
{
    free(info->mems);
    free(info->regions);
    info->mems = NULL;
    info->regions = NULL;
}
