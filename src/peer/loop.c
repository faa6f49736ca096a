/* SPDX-License-Identifier: BSD-3-Clause */

#include "peer/loop.h"

#include "peer/backend.h"
#include "peer/path.h"

#include <stdlib.h>

struct mkv_loop {
    ucp_ep_h ep; /**< NULL: UCX could not make it, or it is closed */
    bool takes_lists;
    bool is_known; /**< What carries copies */
    bool is_closing;
};

void mkv_loop_distrust(mkv_ctx_t *ctx, ucs_status_t status)
{
    if (ctx->loop->takes_lists) {
        mkv_log_warn(ctx,
                     "a copy by the connection to ourselves failed: %s; GPU memory is "
                     "staged no more",
                     ucs_status_string(status));
    }
    ctx->loop->takes_lists = false;
}

static void mkv_loop_error_cb(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    mkv_loop_distrust(arg, status);
}

static void mkv_loop_connect(mkv_ctx_t *ctx)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = ctx->address,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {mkv_loop_error_cb, ctx}};
    mkv_loop_t *loop = ctx->loop;
    ucs_status_t status = ucp_ep_create(ctx->worker, &params, &loop->ep);

    if (status != UCS_OK) {
        loop->ep = NULL;
        ++ctx->num_unmade;
        mkv_log_warn(ctx, "no connection to ourselves: ucp_ep_create() failed: %s",
                     ucs_status_string(status));
        return;
    }
    loop->takes_lists = mkv_ep_takes_gpu_lists(ctx, loop->ep);
    if (!loop->takes_lists) {
        mkv_log_info(ctx, "no lane to ourselves takes lists of GPU memory, which is "
                          "not staged");
    }
}

bool mkv_loop_takes_lists(mkv_ctx_t *ctx)
{
    if (ctx->loop == NULL) {
        ctx->loop = calloc(1, sizeof(*ctx->loop));
        if (ctx->loop == NULL) {
            return false;
        }
        mkv_loop_connect(ctx);
    }
    return ctx->loop->takes_lists;
}

bool mkv_loop_is_known(const mkv_ctx_t *ctx)
{
    return ctx->loop->is_known;
}

/* A lane that is there need not be the one that UCX takes: over a NIC small pieces
 * would cost what staging is to save */
void mkv_loop_note(mkv_ctx_t *ctx, void *request)
{
    char text[256] = "";
    mkv_backend_t backend = mkv_path_of(request, text, sizeof(text));

    ctx->loop->is_known = true;
    mkv_log_info(ctx, "copies between GPU memory and staging: %s", text);
    if ((backend != MKV_BACKEND_XGMI) && (backend != MKV_BACKEND_UNKNOWN)) {
        ctx->loop->takes_lists = false;
        mkv_log_warn(
            ctx, "UCX copies within the process by %s; GPU memory is not staged", text);
    }
}

ucp_ep_h mkv_loop_ep(const mkv_ctx_t *ctx)
{
    return ctx->loop->ep;
}

static ucp_rkey_h mkv_loop_unpack(const mkv_ctx_t *ctx, const void *key,
                                  ucp_rkey_h *rkey)
{
    if ((*rkey == NULL) && (ucp_ep_rkey_unpack(ctx->loop->ep, key, rkey) != UCS_OK)) {
        *rkey = NULL;
    }
    return *rkey;
}

ucp_rkey_h mkv_loop_key(const mkv_ctx_t *ctx, mkv_mem_t *mem)
{
    return mkv_loop_unpack(ctx, mem->rkey, &mem->loop_key);
}

ucp_rkey_h mkv_loop_pool_key(const mkv_ctx_t *ctx, mkv_pool_t *pool)
{
    return mkv_loop_unpack(ctx, pool->key, &pool->loop_key);
}

static void mkv_loop_closed_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_loop_t *loop = user_data;

    (void)status; /* it is closed by force */
    loop->is_closing = false;
    ucp_request_free(request);
}

void mkv_loop_close(mkv_ctx_t *ctx)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE,
                                 .cb.send = mkv_loop_closed_cb,
                                 .user_data = ctx->loop};
    mkv_loop_t *loop = ctx->loop;

    if ((loop == NULL) || (loop->ep == NULL)) {
        return;
    }
    loop->takes_lists = false;
    loop->is_closing = true; /* the callback may come within the call */
    if (!UCS_PTR_IS_PTR(ucp_ep_close_nbx(loop->ep, &param))) {
        loop->is_closing = false;
    }
    loop->ep = NULL;
}

bool mkv_loop_is_closed(mkv_ctx_t *ctx)
{
    return (ctx->loop == NULL) || !ctx->loop->is_closing;
}

/* A close that is not over calls back, if the worker's owner makes progress: rather a
 * leak */
void mkv_loop_cleanup(mkv_ctx_t *ctx)
{
    if (mkv_loop_is_closed(ctx)) {
        free(ctx->loop);
    }
}
