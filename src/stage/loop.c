/* SPDX-License-Identifier: BSD-3-Clause */

#include "stage/loop.h"

#include "peer/backend.h"
#include "peer/path.h"

#include <stdlib.h>

struct mkv_loop {
    ucp_ep_h ep;      /* NULL: UCX could not make it, or it is closed */
    bool takes_lists; /* copies may be given to the endpoint; false for good after a
                         failure */
    bool is_known;    /* UCX was queried for the lane that carries copies */
    bool is_closing;
};

static void mkv_loop_distrust(mkv_ctx_t *ctx, const char *what, const char *reason)
{
    if (ctx->loop->takes_lists) {
        mkv_log_warn(ctx, "%s: %s; short pieces are no longer staged", what, reason);
    }
    ctx->loop->takes_lists = false;
}

static void mkv_loop_error_cb(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    mkv_loop_distrust(arg, "the connection of the worker to itself failed",
                      ucs_status_string(status));
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
        mkv_log_warn(ctx,
                     "ucp_ep_create() of the worker to itself failed: %s; short pieces "
                     "are not staged",
                     ucs_status_string(status));
        return;
    }
    loop->takes_lists = mkv_ep_takes_gpu_lists(ctx, loop->ep);
    if (!loop->takes_lists) {
        mkv_log_warn(ctx, "mori_xgmi does not connect the worker to itself; short "
                          "pieces are not staged");
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

ucs_status_ptr_t mkv_loop_put(mkv_ctx_t *ctx, mkv_list_put_t *list,
                              ucp_send_nbx_callback_t cb, void *user_data)
{
    ctx->round_cost += list->num;
    list->is_queried = !ctx->loop->is_known;
    return mkv_ep_put_list(ctx->loop->ep, list, cb, user_data);
}

/* UCX need not choose a lane that takes lists: by a NIC, copies cost the work requests
 * that staging saves */
static void mkv_loop_note(mkv_ctx_t *ctx, void *request)
{
    char text[256] = "";
    mkv_backend_t backend = mkv_path_of(request, text, sizeof(text));

    ctx->loop->is_known = true;
    mkv_log_info(ctx, "copies between blocks and staging: %s", text);
    if ((backend != MKV_BACKEND_XGMI) && (backend != MKV_BACKEND_UNKNOWN)) {
        mkv_loop_distrust(ctx, "UCX copies within the process by another lane", text);
    }
}

void mkv_loop_ended(mkv_ctx_t *ctx, void *request, ucs_status_t status)
{
    if (status != UCS_OK) {
        mkv_loop_distrust(ctx, "a copy within the process failed",
                          ucs_status_string(status));
    } else if ((request != NULL) && !ctx->loop->is_known) {
        mkv_loop_note(ctx, request);
    }
}

ucp_rkey_h mkv_loop_unpack(const mkv_ctx_t *ctx, const void *key)
{
    ucp_rkey_h rkey = NULL;

    return (ucp_ep_rkey_unpack(ctx->loop->ep, key, &rkey) == UCS_OK) ? rkey : NULL;
}

ucp_rkey_h mkv_loop_key(const mkv_ctx_t *ctx, mkv_mem_t *mem)
{
    if (mem->loop_key == NULL) {
        mem->loop_key = mkv_loop_unpack(ctx, mem->rkey);
    }
    return mem->loop_key;
}

static void mkv_loop_closed_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_loop_t *loop = user_data;

    (void)status; /* closed it is */
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
    loop->is_closing = UCS_PTR_IS_PTR(ucp_ep_close_nbx(loop->ep, &param));
    loop->ep = NULL;
}

bool mkv_loop_is_closed(const mkv_ctx_t *ctx)
{
    return (ctx->loop == NULL) || !ctx->loop->is_closing;
}

/* A close in flight still calls back, so its object is leaked */
void mkv_loop_cleanup(mkv_ctx_t *ctx)
{
    if (mkv_loop_is_closed(ctx)) {
        free(ctx->loop);
    }
}
