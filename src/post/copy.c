/* SPDX-License-Identifier: BSD-3-Clause */

#include "post/copy.h"

#include "peer/list_put.h"
#include "peer/loop.h"

#include <stdlib.h>
#include <string.h>

#define MKV_COPY_ENTRY_BYTES 40u

static bool mkv_copy_is_of_host(const mkv_copy_t *copy)
{
    return copy->slot->pool->type == UCS_MEMORY_TYPE_HOST;
}

bool mkv_copy_knows(mkv_ctx_t *ctx, ucs_memory_type_t type)
{
    return (type == UCS_MEMORY_TYPE_HOST) || mkv_loop_takes_lists(ctx);
}

/* A slot keeps the longest arrays that it has needed */
static bool mkv_slot_reserve(mkv_slot_t *slot, size_t bytes)
{
    if (slot->room < bytes) {
        free(slot->arrays);
        slot->arrays = malloc(bytes);
        slot->room = (slot->arrays != NULL) ? bytes : 0;
    }
    return slot->arrays != NULL;
}

bool mkv_copy_begin(mkv_copy_t *copy, size_t max)
{
    char *p;

    copy->max = max;
    if (mkv_copy_is_of_host(copy)) {
        return true;
    }
    if (!mkv_slot_reserve(copy->slot, max * MKV_COPY_ENTRY_BYTES)) {
        return false;
    }
    p = copy->slot->arrays;
    copy->from = (void **)p;
    copy->lengths = (size_t *)(p + max * 8);
    copy->to = (uint64_t *)(p + max * 16);
    copy->memhs = (ucp_mem_h *)(p + max * 24);
    copy->rkeys = (ucp_rkey_h *)(p + max * 32);
    return true;
}

static bool mkv_copy_add_gpu(mkv_copy_t *copy, mkv_mem_t *mem, char *address,
                             char *staged, size_t length)
{
    mkv_pool_t *pool = copy->slot->pool;
    size_t i = copy->num;

    copy->lengths[i] = length;
    if (copy->is_gather) {
        copy->from[i] = address;
        copy->memhs[i] = mem->memh;
        copy->to[i] = (uintptr_t)staged;
        copy->rkeys[i] = mkv_loop_pool_key(copy->ctx, pool);
    } else {
        copy->from[i] = staged;
        copy->memhs[i] = pool->memh;
        copy->to[i] = (uintptr_t)address;
        copy->rkeys[i] = mkv_loop_key(copy->ctx, mem);
    }
    return copy->rkeys[i] != NULL;
}

bool mkv_copy_add(mkv_copy_t *copy, mkv_mem_t *mem, char *address, size_t length)
{
    char *staged = copy->slot->base + copy->bytes;

    if (!mkv_copy_is_of_host(copy)) {
        if (!mkv_copy_add_gpu(copy, mem, address, staged, length)) {
            return false;
        }
    } else if (copy->is_gather) {
        memcpy(staged, address, length);
    } else {
        memcpy(address, staged, length);
    }
    copy->bytes += length;
    ++copy->num;
    return true;
}

static void mkv_copy_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_copy_t *copy = user_data;

    if (status != UCS_OK) {
        mkv_loop_distrust(copy->ctx, status);
    } else if ((request != NULL) && !mkv_loop_is_known(copy->ctx)) {
        mkv_loop_note(copy->ctx, request);
    }
    copy->done(copy->arg, status);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

void mkv_copy_start(mkv_copy_t *copy)
{
    ucs_status_ptr_t request = NULL;
    mkv_list_put_t list = {.buffers = copy->from,
                           .lengths = copy->lengths,
                           .memhs = copy->memhs,
                           .remotes = copy->to,
                           .rkeys = copy->rkeys,
                           .num = copy->num};

    if (!mkv_copy_is_of_host(copy)) {
        copy->ctx->round_cost += copy->num;
        list.is_asked = !mkv_loop_is_known(copy->ctx);
        request = mkv_ep_put_list(mkv_loop_ep(copy->ctx), &list, mkv_copy_cb, copy);
    }
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_copy_cb(NULL, UCS_PTR_RAW_STATUS(request), copy);
    }
}
