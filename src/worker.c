/* SPDX-License-Identifier: BSD-3-Clause */

/* The UCP context and worker under a context, own or attached, and who we are. */

#include "mkv_int.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Process identity ------------------------------------------------------------ */

static size_t mkv_read_file(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t length;

    text[0] = '\0';
    if (file == NULL) {
        return 0;
    }
    length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    fclose(file);
    return length;
}

/* State and start time of a process; the name in between may hold any byte */
static int mkv_process_stat(const char *path, char *state_p, uint64_t *start_p)
{
    char text[1024];
    char *p;
    int i;

    if (mkv_read_file(path, text, sizeof(text)) == 0) {
        return 0;
    }
    p = strrchr(text, ')');
    if (p == NULL) {
        return 0;
    }
    p += 1 + (p[1] == ' ');
    *state_p = *p;
    for (i = 3; (i < 22) && (p != NULL); ++i) { /* the state is field 3 */
        p = strchr(p, ' ');
        p += (p != NULL);
    }
    if (p == NULL) {
        return 0;
    }
    *start_p = strtoull(p, NULL, 10);
    return 1;
}

static uint64_t mkv_hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (; isgraph((unsigned char)*text); ++text) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
    }
    return hash;
}

void mkv_process_self(mkv_process_t *process)
{
    char text[64];
    struct stat st;
    char state;

    memset(process, 0, sizeof(*process));
    process->pid = (uint32_t)getpid();
    if (mkv_read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text)) > 0) {
        process->host_id = mkv_hash_text(text);
    }
    if (stat("/proc/self/ns/pid", &st) == 0) {
        process->pid_ns = st.st_ino;
    }
    (void)mkv_process_stat("/proc/self/stat", &state, &process->start_time);
}

int mkv_process_is_local(const mkv_process_t *self, const mkv_process_t *process)
{
    return (self->host_id == 0) || (self->host_id == process->host_id);
}

int mkv_process_is_gone(const mkv_process_t *self, const mkv_process_t *process)
{
    char path[64];
    uint64_t start;
    char state;

    if ((self->host_id == 0) || (self->host_id != process->host_id) ||
        (self->pid_ns == 0) || (self->pid_ns != process->pid_ns) ||
        (process->start_time == 0) || (process->pid == 0) ||
        (process->pid > INT32_MAX)) {
        return 0; /* it may well be, but nothing here proves it */
    }

    mkv_text(path, sizeof(path), "/proc/%u/stat", process->pid);
    if (!mkv_process_stat(path, &state, &start)) {
        /* No descriptor may be left, or /proc may hide it: that alone proves nothing */
        return (kill((pid_t)process->pid, 0) != 0) && (errno == ESRCH);
    }
    /* A zombie has no memory any more */
    return (start != process->start_time) || (state == 'Z') || (state == 'X');
}

/* ---- UCP ------------------------------------------------------------------------- */

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
    mkv_ucp_modify(ctx, config, "TLS", mkv_config_tls(ctx->config));
    mkv_ucp_modify(ctx, config, "NET_DEVICES", ctx->opts->net_devices);
    mkv_ucp_modify(ctx, config, "MAX_RMA_RAILS", lanes);
    params.features |= ctx->opts->wakeup ? UCP_FEATURE_WAKEUP : 0;
    status = ucp_init(&params, config, &ctx->ucp_context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        return mkv_error(&ctx->log, MKV_ERR_TRANSPORT, "ucp_init() failed: %s",
                         ucs_status_string(status));
    }
    return MKV_OK;
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

void mkv_worker_close(mkv_ctx_t *ctx)
{
    free(ctx->address);
    if (!ctx->is_attached) {
        ucp_worker_destroy(ctx->worker);
        ucp_cleanup(ctx->ucp_context);
    }
}
