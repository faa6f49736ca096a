/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The client of the small UCP application. Actions, in the order given:
 *
 *   mem=host|rocm        type of all later memory
 *   alloc=LENGTH[,host]  memory here and at the server; its key. "host": there it is
 *                        private host memory
 *   connect              endpoint to the server
 *   key=flip,BYTE        unpack a changed key (also: cut,BYTES; version)
 *   unpack               unpack the right key
 *   put=LENGTH[,COUNT]   write, flush, compare at the server; the pieces are there in
 *                        the opposite order
 *   get=LENGTH[,COUNT]   read, compare here
 *   greet                send a message that could be answered: when it has come, the
 *                        server has an endpoint and its resources as well
 *   count                from here on each put and get prints the bytes that the GPU
 *                        runtimes copied from and to host memory, at either end
 *   large                write all memory in one operation, compare at the server
 *   post=LENGTH,COUNT    start writes and do not wait
 *   flush                start a flush and do not wait
 *   drain                wait for all started operations
 *   kill=SIGNAL          send the server a signal
 *   fail                 go on writing until the endpoint reports its failure
 *   for=MILLISECONDS     make progress for this time: the length of an outage
 *   free=first|properly  the server frees its memory
 *   run=VARIABLE         run the command in that environment variable
 *   try=LENGTH           write without comparing; an error is a valid result
 *   close                close the endpoint
 *   cut                  close it by force, whatever was started
 *
 * Every action prints one line. An error of UCP is printed ("error NAME: STATUS") and
 * the next action follows: a test decides what it means. Wrong bytes end the program
 * with status 3, a wait over the limit with status 4.
 */

#include "test/integration/ucp/ucp_app.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_MAX_POSTED 4096
#define CLIENT_EXIT_WRONG 3
#define CLIENT_EXIT_HANG 4


typedef struct client {
    ucp_app_t *app;
    int is_device;
    int is_counting;
    pid_t server;
    ucp_ep_h ep;
    ucp_rkey_h rkey;
    ucp_app_mem_t mem;
    uint64_t remote_addr;
    uint8_t key[UCP_APP_MAX_DATA];
    size_t key_length;
    uint8_t address[UCP_APP_MAX_DATA];
    unsigned num_ep_errors;
    ucs_status_t ep_status;
    uint64_t seed;
    void *posted[CLIENT_MAX_POSTED];
    size_t num_posted;
} client_t;


static void client_print_error(const char *what, ucs_status_t status)
{
    printf("error %s: %s\n", what, ucs_status_string(status));
}

static void client_on_ep_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    client_t *client = arg;

    (void)ep;
    ++client->num_ep_errors;
    client->ep_status = status;
    client_print_error("endpoint", status);
}

static void client_hang(const char *what)
{
    printf("hang: %s\n", what);
    exit(CLIENT_EXIT_HANG);
}

static void client_progress(client_t *client, unsigned *empty)
{
    if (ucp_worker_progress(client->app->worker) == 0) {
        mkv_test_pause(empty);
    } else {
        *empty = 0;
    }
}

/* Requests are freed here; an immediate end has none. */
static ucs_status_t client_wait(client_t *client, void *request, const char *what)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;
    unsigned empty = 0;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }

    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        client_progress(client, &empty);
        if (mkv_test_now_ms() > deadline) {
            client_hang(what);
        }
    }

    ucp_request_free(request);
    return status;
}

/* Returns zero if the server is gone. */
static int client_call(client_t *client, ucp_app_msg_t *msg)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ssize_t got = -1;

    if (mkv_proc_send(client->app->fd, msg, sizeof(*msg)) != 0) {
        printf("the server is gone\n");
        return 0;
    }

    while (got < 0) {
        ucp_worker_progress(client->app->worker);
        got = mkv_proc_recv(client->app->fd, msg, sizeof(*msg), 1);
        if (mkv_test_now_ms() > deadline) {
            client_hang("the server's answer");
        }
    }

    if (got == 0) {
        printf("the server is gone\n");
    }
    return got > 0;
}

static uint64_t client_command(client_t *client, int cmd, uint64_t a0, uint64_t a1)
{
    ucp_app_msg_t msg = {.a = {a0, a1}};

    msg.cmd = cmd;
    return client_call(client, &msg) ? msg.a[0] : 0;
}

static void client_alloc(client_t *client, const char *arg)
{
    size_t length = strtoull(arg, NULL, 0);
    bool is_there = client->is_device && (strchr(arg, ',') == NULL);
    ucp_app_msg_t msg = {.cmd = UCP_APP_ALLOC, .a = {length, (uint64_t)is_there}};

    ucp_app_mem_destroy(client->app, &client->mem, 0);
    if (ucp_app_mem_create(client->app, length, client->is_device, &client->mem) !=
        UCS_OK) {
        return;
    }

    if (!client_call(client, &msg) || msg.is_error) {
        printf("error alloc: the server could not\n");
        return;
    }

    client->remote_addr = msg.a[0];
    client->key_length = msg.data_length;
    memcpy(client->key, msg.data, msg.data_length);
    printf("alloc %zu key %zu at 0x%" PRIx64 "\n", length, msg.data_length, msg.a[0]);
}

static void client_connect(client_t *client)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)client->address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = client_on_ep_error, .arg = client},
    };
    ucs_status_t status;

    status = ucp_ep_create(client->app->worker, &params, &client->ep);
    if (status != UCS_OK) {
        client_print_error("connect", status);
        return;
    }

    printf("connect ok\n");
}

static void client_unpack(client_t *client, const void *key, const char *what)
{
    ucs_status_t status;

    if (client->ep == NULL) {
        return;
    }

    if (client->rkey != NULL) {
        ucp_rkey_destroy(client->rkey);
        client->rkey = NULL;
    }

    status = ucp_ep_rkey_unpack(client->ep, key, &client->rkey);
    if (status != UCS_OK) {
        client->rkey = NULL; /* not set on errors */
        client_print_error(what, status);
        return;
    }

    printf("%s ok\n", what);
}

/* A changed copy of the key, in memory of just its length. */
static void client_bad_key(client_t *client, const char *arg)
{
    uint8_t *key = malloc(client->key_length + 1);
    size_t where;

    memcpy(key, client->key, client->key_length);
    if (sscanf(arg, "flip,%zu", &where) == 1) {
        key[where % client->key_length] ^= 0x10;
    } else if (sscanf(arg, "cut,%zu", &where) == 1) {
        where = (where < client->key_length) ? where : client->key_length;
        memset(key + client->key_length - where, 0, where);
    }

    client_unpack(client, key, "key");
    free(key);
}

static ucp_request_param_t client_param(const client_t *client)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .memh = client->mem.memh,
        .memory_type = client->is_device ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST,
    };

    return param;
}

static int client_is_ready(const client_t *client, const char *what)
{
    if ((client->ep == NULL) || (client->rkey == NULL) || (client->mem.addr == NULL)) {
        printf("error %s: nothing to use\n", what);
        return 0;
    }

    return 1;
}

/* Operations of one length on adjacent memory, in the opposite order at the server, so
 * that no two merge into one run. */
static ucs_status_t client_transfer(client_t *client, size_t length, size_t count,
                                    int is_get)
{
    ucp_request_param_t param = client_param(client);
    ucs_status_t status = UCS_OK, first = UCS_OK;
    void **requests = calloc(count, sizeof(*requests));
    size_t i;

    for (i = 0; i < count; ++i) {
        char *here = (char *)client->mem.addr + i * length;
        uint64_t there = client->remote_addr + (count - 1 - i) * length;

        requests[i] =
            is_get ? ucp_get_nbx(client->ep, here, length, there, client->rkey, &param)
                   : ucp_put_nbx(client->ep, here, length, there, client->rkey, &param);
    }

    for (i = 0; i < count; ++i) {
        status = client_wait(client, requests[i], is_get ? "get" : "put");
        first = (first == UCS_OK) ? status : first;
    }

    free(requests);
    if (first == UCS_OK) {
        param.op_attr_mask = 0;
        first = client_wait(client, ucp_ep_flush_nbx(client->ep, &param), "flush");
    }
    return first;
}

/* This end's pieces, so that the other end has the pattern from its start. */
static void client_fill_pieces(client_t *client, size_t length, size_t count,
                               uint64_t seed)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        ucp_app_mem_fill(&client->mem, i * length, length, seed,
                         (count - 1 - i) * length);
    }
}

static size_t client_check_pieces(client_t *client, size_t length, size_t count)
{
    size_t same = 0, i;

    for (i = 0; (i < count) && (same == i * length); ++i) {
        same += ucp_app_mem_check(&client->mem, i * length, length, client->seed,
                                  (count - 1 - i) * length);
    }

    return same;
}

static void client_greet(client_t *client)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_AM_SEND_FLAG_REPLY};
    ucs_status_t status;

    if (client->ep == NULL) {
        return;
    }

    status = client_wait(
        client, ucp_am_send_nbx(client->ep, UCP_APP_GREETING, NULL, 0, NULL, 0, &param),
        "greet");
    if (status != UCS_OK) {
        client_print_error("greet", status);
        return;
    }

    while (client_command(client, UCP_APP_GREETED, 0, 0) == 0) {
        if (mkv_test_now_ms() > deadline) {
            client_hang("a greeting that does not come");
        }
    }
    printf("greet ok\n");
}

/* Read the bytes copied by the GPU runtimes of both ends; nonzero if counted. */
static int client_copied(client_t *client, uint64_t copied[4])
{
    ucp_app_msg_t msg = {.cmd = UCP_APP_COPIED};

    if (!client_call(client, &msg) || msg.is_error ||
        !mkv_hip_copied(&copied[0], &copied[1])) {
        return 0;
    }

    copied[2] = msg.a[0];
    copied[3] = msg.a[1];
    return 1;
}

/* A transfer, and the copies that it took. */
static ucs_status_t client_transfer_counted(client_t *client, size_t length,
                                            size_t count, int is_get)
{
    uint64_t before[4], after[4];
    ucs_status_t status;

    if (!client->is_counting) {
        return client_transfer(client, length, count, is_get);
    }

    if (!client_copied(client, before)) {
        return UCS_ERR_UNSUPPORTED;
    }
    status = client_transfer(client, length, count, is_get);
    if (!client_copied(client, after)) {
        return UCS_ERR_UNSUPPORTED;
    }

    printf("copied by %s %zu x %zu: here %" PRIu64 " from the host %" PRIu64
           " to it, there %" PRIu64 " from the host %" PRIu64 " to it\n",
           is_get ? "get" : "put", count, length, after[0] - before[0],
           after[1] - before[1], after[2] - before[2], after[3] - before[3]);
    return status;
}

static int client_move(client_t *client, const char *arg, int is_get)
{
    const char *what = is_get ? "get" : "put";
    size_t length = 0, count = 1, total, same;
    ucs_status_t status;

    sscanf(arg, "%zu,%zu", &length, &count);
    total = length * count;
    if (!client_is_ready(client, what)) {
        return 0;
    }

    ++client->seed;
    client_fill_pieces(client, length, count, client->seed + (is_get ? 1000 : 0));
    client_command(client, UCP_APP_FILL, total, client->seed + (is_get ? 0 : 1000));
    status = client_transfer_counted(client, length, count, is_get);
    if (status != UCS_OK) {
        client_print_error(what, status);
        return 0;
    }

    same = is_get ? client_check_pieces(client, length, count)
                  : client_command(client, UCP_APP_CHECK, total, client->seed);
    if (same != total) {
        printf("WRONG %s %zu x %zu: byte %zu differs\n", what, count, length, same);
        return CLIENT_EXIT_WRONG;
    }

    printf("%s %zu x %zu ok\n", what, count, length);
    return 0;
}

/* All memory in one operation, of any length. */
static int client_large(client_t *client)
{
    ucs_status_t status;
    size_t same;

    if (!client_is_ready(client, "large")) {
        return 0;
    }

    ++client->seed;
    if (!ucp_app_mem_fill_large(&client->mem, client->seed)) {
        printf("error large: memory of %zu bytes was not filled\n", client->mem.length);
        return 0;
    }

    status = client_transfer(client, client->mem.length, 1, 0);
    if (status != UCS_OK) {
        client_print_error("large", status);
        return 0;
    }

    same = client_command(client, UCP_APP_CHECK_LARGE, client->seed, 0);
    if (same != client->mem.length) {
        printf("WRONG large %zu: differs after byte %zu\n", client->mem.length, same);
        return CLIENT_EXIT_WRONG;
    }

    printf("large %zu ok\n", same);
    return 0;
}

/* Write and do not compare the bytes. */
static void client_try(client_t *client, const char *arg)
{
    ucs_status_t status;

    if (!client_is_ready(client, "try")) {
        return;
    }

    status = client_transfer(client, strtoull(arg, NULL, 0), 1, 0);
    if (status == UCS_OK) {
        printf("try %s ok\n", arg);
    } else {
        client_print_error("try", status);
    }
}

static void client_post(client_t *client, const char *arg)
{
    ucp_request_param_t param = client_param(client);
    size_t length = 0, count = 1, i;
    void *request;

    sscanf(arg, "%zu,%zu", &length, &count);
    if (!client_is_ready(client, "post")) {
        return;
    }

    for (i = 0; (i < count) && (client->num_posted < CLIENT_MAX_POSTED); ++i) {
        request = ucp_put_nbx(client->ep, client->mem.addr, length, client->remote_addr,
                              client->rkey, &param);
        if (UCS_PTR_IS_ERR(request)) {
            client_print_error("post", UCS_PTR_STATUS(request));
            return;
        }
        if (request != NULL) {
            client->posted[client->num_posted++] = request;
        }
    }

    printf("post %zu in progress\n", client->num_posted);
}

static void client_flush(client_t *client)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    void *request;

    if (client->ep == NULL) {
        return;
    }

    request = ucp_ep_flush_nbx(client->ep, &param);
    if (UCS_PTR_IS_ERR(request)) {
        client_print_error("flush", UCS_PTR_STATUS(request));
    } else if (request != NULL) {
        client->posted[client->num_posted++] = request;
        printf("flush in progress\n");
    } else {
        printf("flush ok\n");
    }
}

static void client_drain(client_t *client)
{
    size_t num_ok = 0, num_failed = 0, i;
    ucs_status_t status, last = UCS_OK;

    for (i = 0; i < client->num_posted; ++i) {
        status = client_wait(client, client->posted[i], "drain");
        if (status == UCS_OK) {
            ++num_ok;
        } else {
            ++num_failed;
            last = status;
        }
    }

    client->num_posted = 0;
    printf("drain %zu ok %zu failed: %s\n", num_ok, num_failed,
           ucs_status_string(last));
}

/* Continue until an application would detect the failure: an operation fails or the
 * handler runs. */
static void client_fail(client_t *client)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucp_request_param_t param = client_param(client);
    ucs_status_t status = UCS_OK;

    if (!client_is_ready(client, "fail")) {
        return;
    }

    while ((client->num_ep_errors == 0) && (status == UCS_OK)) {
        status = client_wait(client,
                             ucp_put_nbx(client->ep, client->mem.addr, 100,
                                         client->remote_addr, client->rkey, &param),
                             "put to a dead peer");
        ucp_worker_progress(client->app->worker);
        if (mkv_test_now_ms() > deadline) {
            client_hang("the end of the peer is never told");
        }
    }

    client_print_error("fail", (status != UCS_OK) ? status : client->ep_status);
}

static void client_for(client_t *client, const char *arg)
{
    const uint64_t end = mkv_test_now_ms() + strtoul(arg, NULL, 10);
    unsigned empty = 0;

    while (mkv_test_now_ms() < end) {
        client_progress(client, &empty);
    }
    printf("for %s ms\n", arg);
}

/* Run a command that disturbs the network at this place of the list. */
static void client_run(const char *variable)
{
    const char *command = getenv(variable);
    int status = (command != NULL) ? system(command) : -1;

    if (status != 0) {
        printf("error run: %s ended with %d\n", variable, status);
    } else {
        printf("run %s\n", variable);
    }
    fflush(stdout);
}

static void client_close_with(client_t *client, unsigned flags)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = flags};
    ucs_status_t status;

    if (client->ep == NULL) {
        return;
    }

    if (client->rkey != NULL) {
        ucp_rkey_destroy(client->rkey);
        client->rkey = NULL;
    }

    status = client_wait(client, ucp_ep_close_nbx(client->ep, &param), "close");
    client->ep = NULL;
    if (status != UCS_OK) {
        client_print_error("close", status);
    } else {
        printf("close ok\n");
    }
}

static void client_close(client_t *client)
{
    client_close_with(client,
                      (client->num_ep_errors > 0) ? UCP_EP_CLOSE_FLAG_FORCE : 0);
}

static int client_do(client_t *client, const char *name, const char *arg)
{
    if (strcmp(name, "mem") == 0) {
        client->is_device = strcmp(arg, "rocm") == 0;
    } else if (strcmp(name, "alloc") == 0) {
        client_alloc(client, arg);
    } else if (strcmp(name, "connect") == 0) {
        client_connect(client);
    } else if (strcmp(name, "unpack") == 0) {
        client_unpack(client, client->key, "unpack");
    } else if (strcmp(name, "key") == 0) {
        client_bad_key(client, arg);
    } else if (strcmp(name, "put") == 0) {
        return client_move(client, arg, 0);
    } else if (strcmp(name, "get") == 0) {
        return client_move(client, arg, 1);
    } else if (strcmp(name, "greet") == 0) {
        client_greet(client);
    } else if (strcmp(name, "count") == 0) {
        client->is_counting = 1;
    } else if (strcmp(name, "large") == 0) {
        return client_large(client);
    } else if (strcmp(name, "try") == 0) {
        client_try(client, arg);
    } else if (strcmp(name, "post") == 0) {
        client_post(client, arg);
    } else if (strcmp(name, "flush") == 0) {
        client_flush(client);
    } else if (strcmp(name, "drain") == 0) {
        client_drain(client);
    } else if (strcmp(name, "kill") == 0) {
        kill(client->server, atoi(arg));
        printf("kill %s\n", arg);
    } else if (strcmp(name, "run") == 0) {
        client_run(arg);
    } else if (strcmp(name, "for") == 0) {
        client_for(client, arg);
    } else if (strcmp(name, "fail") == 0) {
        client_fail(client);
    } else if (strcmp(name, "free") == 0) {
        client_command(client, UCP_APP_FREE, strcmp(arg, "first") == 0, 0);
        printf("free %s\n", arg);
    } else if (strcmp(name, "close") == 0) {
        client_close(client);
    } else if (strcmp(name, "cut") == 0) {
        client_close_with(client, UCP_EP_CLOSE_FLAG_FORCE);
    } else {
        printf("unknown action '%s'\n", name);
        return MKV_TEST_EXIT_HARD;
    }

    return 0;
}

int ucp_app_act(ucp_app_t *app, int argc, char **argv)
{
    static client_t client;
    ucp_app_msg_t hello = {.cmd = UCP_APP_HELLO};
    ucp_app_msg_t bye = {.cmd = UCP_APP_EXIT};
    char name[64];
    const char *arg;
    int ret = 0, i;

    client.app = app;
    if (!client_call(&client, &hello)) {
        return MKV_TEST_EXIT_FAIL;
    }

    client.server = (pid_t)hello.a[0];
    memcpy(client.address, hello.data, hello.data_length);
    for (i = 0; (i < argc) && (ret == 0); ++i) {
        arg = strchr(argv[i], '=');
        snprintf(name, sizeof(name), "%.*s",
                 (int)((arg != NULL) ? arg - argv[i] : (long)strlen(argv[i])), argv[i]);
        ret = client_do(&client, name, (arg != NULL) ? arg + 1 : "");
    }

    client_drain(&client);
    client_close(&client);
    ucp_app_mem_destroy(app, &client.mem, 0);
    mkv_proc_send(app->fd, &bye, sizeof(bye));
    printf("client done\n");
    return ret;
}
