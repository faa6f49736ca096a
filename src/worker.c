/* SPDX-License-Identifier: BSD-3-Clause */

/* The UCP context and worker under a context, own or attached. */

#include "worker.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void mkv_ucp_modify(mkv_ctx_t *ctx, ucp_config_t *config, const char *key,
                           const char *value)
{
    ucs_status_t status;

    if (value[0] == '\0') {
        return;
    }
    status = ucp_config_modify(config, key, value);
    if (status != UCS_OK) {
        mkv_log_warn(ctx, "ucp_config_modify(%s=%s) failed: %s", key, value,
                     ucs_status_string(status));
    }
}

/* Transports that were requested: by our option, or else by UCX's variable */
static const char *mkv_worker_requested(const char *option, const char *variable)
{
    const char *value = (option[0] != '\0') ? option : getenv(variable);

    return (value != NULL) ? value : "all";
}

static mkv_status_t mkv_worker_init_error(const mkv_ctx_t *ctx, ucs_status_t status)
{
    return mkv_error(
        &ctx->log, MKV_ERR_TRANSPORT,
        "ucp_init() failed: %s; requested transports: %s, network devices: %s%s",
        ucs_status_string(status),
        mkv_worker_requested(mkv_config_tls(ctx->config), "UCX_TLS"),
        mkv_worker_requested(ctx->opts->net_devices, "UCX_NET_DEVICES"),
        (status == UCS_ERR_NO_DEVICE)
            ? "; ucx_info -d lists those present; UCX takes those of GPUs only beside "
              "another one, such as tcp"
            : "");
}

static mkv_status_t mkv_worker_init_context(mkv_ctx_t *ctx)
{
    ucp_params_t params = {.field_mask =
                               UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                           .features = UCP_FEATURE_RMA | UCP_FEATURE_AM,
                           .name = "morikv"};
    char lanes[24] = "";
    ucp_config_t *config;
    ucs_status_t status;

    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return mkv_error(&ctx->log, MKV_ERR_TRANSPORT, "ucp_config_read() failed: %s",
                         ucs_status_string(status));
    }

    if (ctx->opts->lanes != 0) {
        mkv_text(lanes, sizeof(lanes), "%llu", (unsigned long long)ctx->opts->lanes);
    }
    mkv_ucp_modify(ctx, config, "PROTO_ENABLE", "y"); /* else UCX refuses put and get */
    mkv_ucp_modify(ctx, config, "TLS", mkv_config_tls(ctx->config));
    mkv_ucp_modify(ctx, config, "NET_DEVICES", ctx->opts->net_devices);
    mkv_ucp_modify(ctx, config, "MAX_RMA_RAILS", lanes);
    /* The owner's GPU moves private memory faster than processors (post/pull.c).
     * UCX 1.23 refuses names of modules that are not there. */
    (void)ucp_config_modify(config, "MORI_XGMI_PRIVATE", "n");
    params.features |= ctx->opts->wakeup ? UCP_FEATURE_WAKEUP : 0;
    status = ucp_init(&params, config, &ctx->ucp_context);
    ucp_config_release(config);
    return (status == UCS_OK) ? MKV_OK : mkv_worker_init_error(ctx, status);
}

static mkv_status_t mkv_worker_create(mkv_ctx_t *ctx)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucs_status_t status;

    status = ucp_worker_create(ctx->ucp_context, &params, &ctx->worker);
    if (status != UCS_OK) {
        return mkv_error(&ctx->log, MKV_ERR_TRANSPORT, "ucp_worker_create() failed: %s",
                         ucs_status_string(status));
    }
    return MKV_OK;
}

static mkv_status_t mkv_worker_check_version(mkv_ctx_t *ctx)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    if ((major != 1) || (minor < 22)) {
        return mkv_error(&ctx->log, MKV_ERR_UNSUPPORTED,
                         "the loaded UCX is %u.%u.%u, expected 1.22 or later 1.x",
                         major, minor, release);
    }
    ctx->ucp_version = minor;
    return MKV_OK;
}

static mkv_status_t mkv_worker_query(mkv_ctx_t *ctx)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucs_status_t status;

    status = ucp_worker_query(ctx->worker, &attr);
    if (status != UCS_OK) {
        return mkv_error(&ctx->log, MKV_ERR_TRANSPORT, "ucp_worker_query() failed: %s",
                         ucs_status_string(status));
    }

    ctx->address = malloc(attr.address_length);
    if (ctx->address != NULL) {
        memcpy(ctx->address, attr.address, attr.address_length);
        ctx->address_length = attr.address_length;
    }
    ucp_worker_release_address(ctx->worker, attr.address);
    return (ctx->address != NULL) ? MKV_OK
                                  : mkv_error(&ctx->log, MKV_ERR_NOMEM,
                                              "no memory for the worker's address");
}

mkv_status_t mkv_worker_open(mkv_ctx_t *ctx)
{
    mkv_status_t status = mkv_worker_check_version(ctx);

    if (status != MKV_OK) {
        return status;
    }

    ctx->is_attached = (ctx->params.ucp_worker != NULL);
    if (ctx->is_attached) {
        ctx->ucp_context = ctx->params.ucp_context;
        ctx->worker = ctx->params.ucp_worker;
    } else {
        status = mkv_worker_init_context(ctx);
        if (status != MKV_OK) {
            return status;
        }
        status = mkv_worker_create(ctx);
        if (status != MKV_OK) {
            goto err_context;
        }
    }

    status = mkv_worker_query(ctx);
    if (status != MKV_OK) {
        goto err_worker;
    }
    return MKV_OK;

err_worker:
    if (!ctx->is_attached) {
        ucp_worker_destroy(ctx->worker);
    }
err_context:
    if (!ctx->is_attached) {
        ucp_cleanup(ctx->ucp_context);
    }
    return status;
}

static void mkv_worker_settled(void *request, ucs_status_t status, void *user_data)
{
    mkv_ctx_t *ctx = user_data;

    (void)status; /* the connection counts as settled in either case */
    ctx->is_settling = false;
    ucp_request_free(request);
}

void mkv_worker_settle(mkv_ctx_t *ctx)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = mkv_worker_settled,
                                 .user_data = ctx};

    if (!ctx->is_attached) {
        ctx->is_settling = UCS_PTR_IS_PTR(ucp_worker_flush_nbx(ctx->worker, &param));
    }
}

void mkv_worker_close(mkv_ctx_t *ctx)
{
    free(ctx->address);
    if (!ctx->is_attached && !ctx->is_worker_left) {
        ucp_worker_destroy(ctx->worker);
        ucp_cleanup(ctx->ucp_context);
    }
}
