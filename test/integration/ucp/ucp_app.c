/* SPDX-License-Identifier: BSD-3-Clause */

/* The small UCP application: common code of both ends, and the server. */

#include "test/integration/ucp/ucp_app.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UCP_APP_CHUNK ((size_t)1 << 20)


static ucs_status_t ucp_app_on_greeting(void *arg, const void *header, size_t length,
                                        void *data, size_t data_length,
                                        const ucp_am_recv_param_t *param)
{
    ucp_app_t *app = arg;

    (void)header;
    (void)length;
    (void)data;
    (void)data_length;
    app->num_greetings += (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
    return UCS_OK;
}

static ucs_status_t ucp_app_accept_greetings(ucp_app_t *app)
{
    const ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                        UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                          .id = UCP_APP_GREETING,
                                          .cb = ucp_app_on_greeting,
                                          .arg = app};

    return ucp_worker_set_am_recv_handler(app->worker, &param);
}

ucs_status_t ucp_app_init(ucp_app_t *app, int fd)
{
    ucp_worker_params_t worker_params = {.field_mask =
                                             UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_params_t params = {.field_mask =
                               UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                           .features = UCP_FEATURE_RMA | UCP_FEATURE_AM,
                           .name = "ucp_app"};
    ucp_config_t *config;
    ucs_status_t status;

    memset(app, 0, sizeof(*app));
    app->fd = fd;
    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        printf("error config: %s\n", ucs_status_string(status));
        return status;
    }

    status = ucp_init(&params, config, &app->context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        printf("error init: %s\n", ucs_status_string(status));
        return status;
    }

    status = ucp_worker_create(app->context, &worker_params, &app->worker);
    if (status != UCS_OK) {
        printf("error worker: %s\n", ucs_status_string(status));
        goto err_cleanup;
    }

    status = ucp_app_accept_greetings(app);
    if (status == UCS_OK) {
        status =
            ucp_worker_get_address(app->worker, &app->address, &app->address_length);
    }
    if (status != UCS_OK) {
        printf("error address: %s\n", ucs_status_string(status));
        goto err_destroy_worker;
    }

    return UCS_OK;

err_destroy_worker:
    ucp_worker_destroy(app->worker);
err_cleanup:
    ucp_cleanup(app->context);
    return status;
}

void ucp_app_cleanup(ucp_app_t *app)
{
    ucp_worker_release_address(app->worker, app->address);
    ucp_worker_destroy(app->worker);
    ucp_cleanup(app->context);
}

static void *ucp_app_alloc(size_t length, int is_device)
{
    void *addr = NULL;

    if (!is_device) {
        return (posix_memalign(&addr, 4096, length) == 0) ? addr : NULL;
    }

    if (mkv_hip_num_devices() == 0) {
        printf("error device: %s\n", mkv_hip_why());
        return NULL;
    }

    return mkv_hip_alloc(length);
}

static void ucp_app_free(ucp_app_mem_t *mem)
{
    if (mem->is_device) {
        mkv_hip_free(mem->addr);
    } else {
        free(mem->addr);
    }
}

ucs_status_t ucp_app_mem_create(ucp_app_t *app, size_t length, int is_device,
                                ucp_app_mem_t *mem)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .length = length,
        .memory_type = is_device ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_t status;

    mem->length = length;
    mem->is_device = is_device;
    mem->addr = ucp_app_alloc(length, is_device);
    if (mem->addr == NULL) {
        printf("error alloc: no memory for %zu bytes\n", length);
        return UCS_ERR_NO_MEMORY;
    }

    params.address = mem->addr;
    status = ucp_mem_map(app->context, &params, &mem->memh);
    if (status != UCS_OK) {
        printf("error map: %s\n", ucs_status_string(status));
        ucp_app_free(mem);
        mem->addr = NULL;
    }
    return status;
}

void ucp_app_mem_destroy(ucp_app_t *app, ucp_app_mem_t *mem, int free_first)
{
    if (mem->addr == NULL) {
        return;
    }

    if (free_first) {
        ucp_app_free(mem);
    }

    ucp_mem_unmap(app->context, mem->memh);
    if (!free_first) {
        ucp_app_free(mem);
    }
    mem->addr = NULL;
}

static int ucp_app_copy(const ucp_app_mem_t *mem, void *to, const void *from,
                        size_t length)
{
    if (mem->is_device) {
        return mkv_hip_copy(to, from, length);
    }

    memcpy(to, from, length);
    return 1;
}

int ucp_app_mem_fill(const ucp_app_mem_t *mem, size_t offset, size_t length,
                     uint64_t seed, uint64_t pattern_offset)
{
    char *buffer = malloc(UCP_APP_CHUNK);
    size_t done, chunk;
    int is_ok = 1;

    for (done = 0; is_ok && (done < length); done += chunk) {
        chunk = (length - done < UCP_APP_CHUNK) ? length - done : UCP_APP_CHUNK;
        mkv_pattern_fill(buffer, chunk, seed, pattern_offset + done);
        is_ok = ucp_app_copy(mem, (char *)mem->addr + offset + done, buffer, chunk);
    }

    free(buffer);
    return is_ok;
}

size_t ucp_app_mem_check(const ucp_app_mem_t *mem, size_t offset, size_t length,
                         uint64_t seed, uint64_t pattern_offset)
{
    char *buffer = malloc(UCP_APP_CHUNK);
    size_t done = 0, chunk, same;

    while (done < length) {
        chunk = (length - done < UCP_APP_CHUNK) ? length - done : UCP_APP_CHUNK;
        if (!ucp_app_copy(mem, buffer, (char *)mem->addr + offset + done, chunk)) {
            break;
        }

        same = mkv_pattern_check(buffer, chunk, seed, pattern_offset + done);
        done += same;
        if (same < chunk) {
            break;
        }
    }

    free(buffer);
    return done;
}

static ucs_status_t ucp_app_export(ucp_app_t *app, const ucp_app_msg_t *req,
                                   ucp_app_mem_t *mem, ucp_app_msg_t *rep)
{
    ucs_status_t status;
    void *key;

    ucp_app_mem_destroy(app, mem, 0);
    status = ucp_app_mem_create(app, req->a[0], (int)req->a[1], mem);
    if (status != UCS_OK) {
        return status;
    }

    status = ucp_rkey_pack(app->context, mem->memh, &key, &rep->data_length);
    if (status != UCS_OK) {
        printf("error pack: %s\n", ucs_status_string(status));
        ucp_app_mem_destroy(app, mem, 0);
        return status;
    }

    if (rep->data_length <= UCP_APP_MAX_DATA) {
        memcpy(rep->data, key, rep->data_length);
    } else {
        status = UCS_ERR_BUFFER_TOO_SMALL;
    }
    ucp_rkey_buffer_release(key);
    rep->a[0] = (uintptr_t)mem->addr;
    return status;
}

static void ucp_app_answer(ucp_app_t *app, const ucp_app_msg_t *req, ucp_app_mem_t *mem,
                           ucp_app_msg_t *rep)
{
    memset(rep, 0, sizeof(*rep));
    rep->cmd = req->cmd;
    switch (req->cmd) {
    case UCP_APP_HELLO:
        rep->a[0] = (uint64_t)getpid();
        rep->data_length = app->address_length;
        memcpy(rep->data, app->address, app->address_length);
        break;
    case UCP_APP_ALLOC:
        rep->is_error = ucp_app_export(app, req, mem, rep) != UCS_OK;
        break;
    case UCP_APP_FREE:
        ucp_app_mem_destroy(app, mem, (int)req->a[0]);
        break;
    case UCP_APP_FILL:
        rep->is_error = !ucp_app_mem_fill(mem, 0, req->a[0], req->a[1], 0);
        break;
    case UCP_APP_CHECK:
        rep->a[0] = ucp_app_mem_check(mem, 0, req->a[0], req->a[1], 0);
        break;
    case UCP_APP_CHECK_LARGE:
        rep->a[0] = ucp_app_mem_check_large(mem, req->a[0]);
        break;
    case UCP_APP_COPIED:
        rep->is_error = !mkv_hip_copied(&rep->a[0], &rep->a[1]);
        break;
    case UCP_APP_GREETED:
        rep->a[0] = app->num_greetings;
        break;
    default:
        break;
    }
}

int ucp_app_serve(ucp_app_t *app)
{
    static ucp_app_msg_t req, rep;
    ucp_app_mem_t mem = {.addr = NULL};
    ssize_t got;

    for (;;) {
        got = mkv_proc_recv(app->fd, &req, sizeof(req),
                            (ucp_worker_progress(app->worker) > 0) ? 0 : 1);
        if ((got == 0) || ((got < 0) && (errno != ETIMEDOUT))) {
            break;
        }

        if (got > 0) {
            ucp_app_answer(app, &req, &mem, &rep);
            mkv_proc_send(app->fd, &rep, sizeof(rep));
            if (req.cmd == UCP_APP_EXIT) {
                break;
            }
        }
    }

    ucp_app_mem_destroy(app, &mem, 0);
    printf("server done\n");
    return MKV_TEST_EXIT_OK;
}

/* ucp_app FD server | ucp_app FD client ACTION.. */
int main(int argc, char **argv)
{
    ucp_app_t app;
    int ret;

    mkv_test_init();
    if (argc < 3) {
        fprintf(stderr, "usage: ucp_app FD server|client [ACTION..]\n");
        return MKV_TEST_EXIT_HARD;
    }

    if (ucp_app_init(&app, atoi(argv[1])) != UCS_OK) {
        return MKV_TEST_EXIT_FAIL;
    }

    if (strcmp(argv[2], "server") == 0) {
        ret = ucp_app_serve(&app);
    } else {
        ret = ucp_app_act(&app, argc - 3, argv + 3);
    }

    ucp_app_cleanup(&app);
    return ret;
}
