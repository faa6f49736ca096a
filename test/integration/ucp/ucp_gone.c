/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A server that prints its address and port, and clients that kill themselves in the
 * middle of connecting or run to the end. SIGTERM ends the server: a server that ended
 * with the last message of a client would reset the connection under that client's
 * flush.
 */

#include "test/support/mkv_test.h"

#include <ucp/api/ucp.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GONE_HELLO 1
#define GONE_BYE 2
#define GONE_MAX_ADDRESS 4096
#define GONE_LENGTH 5000


typedef struct gone {
    ucp_context_h context;
    ucp_worker_h worker;
    uint64_t deadline;
    unsigned empty;
    unsigned num_hello, num_bye, num_errors;
} gone_t;


static void gone_need(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        printf("error %s: %s\n", what, ucs_status_string(status));
        exit(MKV_TEST_EXIT_FAIL);
    }
}

static void gone_progress(gone_t *gone)
{
    if (ucp_worker_progress(gone->worker) == 0) {
        mkv_test_pause(&gone->empty);
    }
    if (mkv_test_now_ms() > gone->deadline) {
        printf("hang\n");
        exit(MKV_TEST_EXIT_FAIL);
    }
}

/* Frees the request; the error handler prints the cause of a failure. */
static ucs_status_t gone_wait(gone_t *gone, void *request)
{
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        gone_progress(gone);
    }
    ucp_request_free(request);
    return status;
}

static void gone_close_by_force(ucp_ep_h ep)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    void *request = ucp_ep_close_nbx(ep, &param);

    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

static void gone_on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    gone_t *gone = arg;

    ++gone->num_errors;
    printf("endpoint: %s\n", ucs_status_string(status));
    gone_close_by_force(ep);
}

/* The payload fills more than one message. */
static void *gone_send(ucp_ep_h ep, unsigned id)
{
    static char bytes[GONE_LENGTH];
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_REPLY};

    return ucp_am_send_nbx(ep, id, NULL, 0, bytes, sizeof(bytes), &param);
}

static ucs_status_t gone_on_hello(void *arg, const void *header, size_t header_length,
                                  void *data, size_t length,
                                  const ucp_am_recv_param_t *param)
{
    gone_t *gone = arg;
    void *request;

    (void)header, (void)header_length, (void)data, (void)length;
    ++gone->num_hello;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) {
        request = gone_send(param->reply_ep, GONE_BYE);
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_free(request);
        }
    }
    return UCS_OK;
}

static ucs_status_t gone_on_bye(void *arg, const void *header, size_t header_length,
                                void *data, size_t length,
                                const ucp_am_recv_param_t *param)
{
    (void)header, (void)header_length, (void)data, (void)length, (void)param;
    printf("bye %u\n", ++((gone_t *)arg)->num_bye);
    return UCS_OK;
}

static void gone_set_handler(gone_t *gone, unsigned id, ucp_am_recv_callback_t cb)
{
    const ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                        UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                          .id = id,
                                          .cb = cb,
                                          .arg = gone};

    gone_need(ucp_worker_set_am_recv_handler(gone->worker, &param), "handler");
}

static void gone_open(gone_t *gone)
{
    const ucp_worker_params_t worker_params = {.field_mask =
                                                   UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                               .thread_mode = UCS_THREAD_MODE_SINGLE};
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_RMA};

    *gone = (gone_t){.deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms()};
    gone_need(ucp_init(&params, NULL, &gone->context), "ucp_init");
    gone_need(ucp_worker_create(gone->context, &worker_params, &gone->worker),
              "ucp_worker_create");
    gone_set_handler(gone, GONE_HELLO, gone_on_hello);
    gone_set_handler(gone, GONE_BYE, gone_on_bye);
}

static void gone_close(gone_t *gone)
{
    ucp_worker_destroy(gone->worker);
    ucp_cleanup(gone->context);
}


/* ---- server ---- */

static void gone_on_connect(ucp_conn_request_h request, void *arg)
{
    gone_t *gone = arg;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .conn_request = request,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = gone_on_error, .arg = gone}};
    ucs_status_t status;
    ucp_ep_h ep;

    status = ucp_ep_create(gone->worker, &params, &ep);
    printf("accept: %s\n", ucs_status_string(status));
}

static void gone_print_address(gone_t *gone)
{
    ucp_address_t *address;
    size_t length, i;

    gone_need(ucp_worker_get_address(gone->worker, &address, &length), "address");
    printf("address ");
    for (i = 0; i < length; ++i) {
        printf("%02x", ((unsigned char *)address)[i]);
    }
    printf("\n");
    ucp_worker_release_address(gone->worker, address);
}

static ucp_listener_h gone_listen(gone_t *gone)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    ucp_listener_params_t params = {
        .field_mask =
            UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr = {.addr = (struct sockaddr *)&addr, .addrlen = sizeof(addr)},
        .conn_handler = {.cb = gone_on_connect, .arg = gone}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_listener_h listener;

    gone_need(ucp_listener_create(gone->worker, &params, &listener), "listen");
    gone_need(ucp_listener_query(listener, &attr), "port");
    memcpy(&addr, &attr.sockaddr, sizeof(addr));
    printf("port %u\n", ntohs(addr.sin_port));
    return listener;
}

static volatile sig_atomic_t gone_is_over;

static void gone_on_term(int signum)
{
    (void)signum;
    gone_is_over = 1;
}

static int gone_serve(void)
{
    ucp_listener_h listener;
    gone_t gone;

    signal(SIGTERM, gone_on_term);
    gone_open(&gone);
    gone_print_address(&gone);
    listener = gone_listen(&gone);
    printf("ready\n");
    while (!gone_is_over) {
        gone_progress(&gone);
    }
    ucp_listener_destroy(listener);
    gone_close(&gone);
    printf("server done: %u hellos, %u byes, %u errors\n", gone.num_hello, gone.num_bye,
           gone.num_errors);
    return MKV_TEST_EXIT_OK;
}


/* ---- client ---- */

static ucp_ep_h gone_connect(gone_t *gone, const char *to)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    static unsigned char address[GONE_MAX_ADDRESS];
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = gone_on_error, .arg = gone}};
    ucp_ep_h ep;
    size_t i;

    if (to[0] == ':') {
        addr.sin_port = htons((uint16_t)atoi(to + 1));
        params.field_mask |= UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
        params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
        params.sockaddr.addr = (struct sockaddr *)&addr;
        params.sockaddr.addrlen = sizeof(addr);
    } else {
        for (i = 0; (i < sizeof(address)) && (to[2 * i] != '\0'); ++i) {
            sscanf(to + 2 * i, "%2hhx", &address[i]);
        }
        params.field_mask |= UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = (const ucp_address_t *)address;
    }
    gone_need(ucp_ep_create(gone->worker, &params, &ep), "connect");
    return ep;
}

/* @param num_progress  Calls of progress before SIGKILL; negative: run to the end. */
static int gone_visit(const char *to, int num_progress)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    void *request;
    gone_t gone;
    ucp_ep_h ep;

    gone_open(&gone);
    ep = gone_connect(&gone, to);
    request = gone_send(ep, GONE_HELLO);
    if (num_progress >= 0) {
        for (; num_progress > 0; --num_progress) {
            (void)ucp_worker_progress(gone.worker);
        }
        fflush(stdout);
        raise(SIGKILL);
    }

    gone_need(gone_wait(&gone, request), "hello");
    while (gone.num_bye == 0) {
        gone_progress(&gone);
    }
    gone_need(gone_wait(&gone, gone_send(ep, GONE_BYE)), "bye");
    gone_need(gone_wait(&gone, ucp_ep_flush_nbx(ep, &param)), "flush");
    if (gone.num_errors == 0) { /* otherwise the handler closed it */
        gone_close_by_force(ep);
    }
    gone_close(&gone);
    printf("client done\n");
    return MKV_TEST_EXIT_OK;
}

/* ucp_gone server | ucp_gone client ADDRESS|:PORT PROGRESS */
int main(int argc, char **argv)
{
    mkv_test_init();
    if ((argc == 2) && (strcmp(argv[1], "server") == 0)) {
        return gone_serve();
    }
    if ((argc == 4) && (strcmp(argv[1], "client") == 0)) {
        return gone_visit(argv[2], atoi(argv[3]));
    }
    fprintf(stderr, "usage: ucp_gone server | client ADDRESS|:PORT PROGRESS\n");
    return MKV_TEST_EXIT_HARD;
}
