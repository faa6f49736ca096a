/* SPDX-License-Identifier: BSD-3-Clause */

#include "stage/stage_buf.h"

#include "stage/loop.h"
#include "wire/wire.h"

#include <stdlib.h>

static ucs_status_t mkv_stage_buf_map(mkv_ctx_t *ctx, mkv_stage_buf_t *buf)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE |
                                                 UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = MKV_STAGE_SLOTS * buf->slot,
                                   .memory_type = buf->type,
                                   .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucs_status_t status = ucp_mem_map(ctx->ucp_context, &params, &buf->memh);

    if (status != UCS_OK) {
        buf->memh = NULL;
        return status;
    }
    status = ucp_mem_query(buf->memh, &attr);
    buf->base = (uintptr_t)attr.address;
    return (status == UCS_OK)
               ? ucp_rkey_pack(ctx->ucp_context, buf->memh, &buf->key, &buf->key_length)
               : status;
}

static ucs_status_t mkv_stage_buf_init(mkv_ctx_t *ctx, mkv_stage_buf_t *buf,
                                       ucs_memory_type_t type)
{
    ucs_status_t status;

    buf->type = type;
    buf->slot = ctx->tuning.stage_slot;
    status = mkv_stage_buf_map(ctx, buf);
    if (status != UCS_OK) {
        return status;
    }
    if (buf->key_length > MKV_MAX_RKEY_SIZE) {
        return UCS_ERR_BUFFER_TOO_SMALL;
    }
    buf->loop_key = mkv_loop_unpack(ctx, buf->key);
    return (buf->loop_key != NULL) ? UCS_OK : UCS_ERR_UNREACHABLE;
}

mkv_stage_buf_t *mkv_stage_buf_create(mkv_ctx_t *ctx, ucs_memory_type_t type)
{
    mkv_stage_buf_t *buf = calloc(1, sizeof(*buf));
    ucs_status_t status =
        (buf != NULL) ? mkv_stage_buf_init(ctx, buf, type) : UCS_ERR_NO_MEMORY;

    if (status == UCS_OK) {
        return buf;
    }
    if (!ctx->has_warned_of_staging) {
        mkv_log_warn(ctx,
                     "UCX gives no %llu bytes of memory type %d for staging: %s; short "
                     "pieces are put one by one",
                     (unsigned long long)(MKV_STAGE_SLOTS * ctx->tuning.stage_slot),
                     (int)type, ucs_status_string(status));
    }
    ctx->has_warned_of_staging = true;
    mkv_stage_buf_destroy(ctx, buf);
    return NULL;
}

void mkv_stage_buf_destroy(mkv_ctx_t *ctx, mkv_stage_buf_t *buf)
{
    if (buf == NULL) {
        return;
    }
    if (buf->loop_key != NULL) {
        ucp_rkey_destroy(buf->loop_key);
    }
    if (buf->key != NULL) {
        ucp_rkey_buffer_release(buf->key);
    }
    if (buf->memh != NULL) {
        (void)ucp_mem_unmap(ctx->ucp_context, buf->memh);
    }
    mkv_repeat_cleanup(&buf->memhs);
    mkv_repeat_cleanup(&buf->rkeys);
    free(buf);
}
