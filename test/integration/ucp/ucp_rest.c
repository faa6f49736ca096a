/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A process that sleeps by ucp_worker_arm(), and peers that send, close and are killed:
 *
 *     ucp_rest EVERY           runs each EVERY-th order of these actions
 *     ucp_rest peer ADDRESS    is a peer
 *
 * After each order the worker must come to rest: its descriptor is not readable again
 * and again while arming finds nothing to do. At the end it is watched for longer than
 * the timers of the transports run. The bytes of messages are GPU memory, so that
 * mori_copy takes part.
 */

#include "test/support/mkv_hip.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define REST_ID 1
#define REST_LENGTH 5000 /* bytes of a message */
#define REST_MAX_ADDRESS 2048
#define REST_ACTIONS 4
#define REST_ORDERS 96      /* of four actions, two ends, asleep between them or not */
#define REST_QUIET 20       /* armed looks of 5 ms without a wake: it rests */
#define REST_MAX_WAKES 1000 /* until then, in an order */
#define REST_WATCH_MS 1500  /* longer than a timer of a transport */
#define REST_MAX_WATCHED 50 /* wakes meanwhile */

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep; /* NULL: closed */
static void *bytes;
static unsigned num_come;
static char self_path[4096];


/* ---- UCP ---- */

static void rest_need(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        printf("error %s: %s\n", what, ucs_status_string(status));
        exit(MKV_TEST_EXIT_FAIL);
    }
}

static ucs_status_t rest_on_message(void *arg, const void *header, size_t header_length,
                                    void *data, size_t length,
                                    const ucp_am_recv_param_t *param)
{
    (void)arg, (void)header, (void)header_length, (void)data, (void)length, (void)param;
    ++num_come;
    return UCS_OK;
}

static void rest_open(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    const ucp_worker_params_t worker_params = {.field_mask = 0};
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
        .id = REST_ID,
        .cb = rest_on_message};

    rest_need(ucp_init(&params, NULL, &context), "ucp_init");
    rest_need(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
    rest_need(ucp_worker_set_am_recv_handler(worker, &handler), "handler");
    bytes = mkv_hip_alloc(REST_LENGTH);
    if (bytes == NULL) {
        printf("error memory: %s\n", mkv_hip_why());
        exit(MKV_TEST_EXIT_FAIL);
    }
}

static void rest_close(void)
{
    ucp_worker_destroy(worker);
    (void)mkv_hip_free(bytes);
    ucp_cleanup(context);
}

static void rest_close_ep(void)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    void *request = NULL;

    if (ep != NULL) {
        request = ucp_ep_close_nbx(ep, &param);
    }
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
    ep = NULL;
}

static void rest_on_error(void *arg, ucp_ep_h failed, ucs_status_t status)
{
    (void)arg, (void)failed, (void)status;
    rest_close_ep();
}

static void rest_connect(const void *address)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                    .address = address,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = rest_on_error}};

    rest_need(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
}

/* Send a message without waiting for its completion. */
static void rest_send(void)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .memory_type = UCS_MEMORY_TYPE_ROCM};
    void *request = NULL;

    if (ep != NULL) {
        request = ucp_am_send_nbx(ep, REST_ID, NULL, 0, bytes, REST_LENGTH, &param);
    }
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}


/* ---- addresses as text ---- */

static void rest_print_address(char *text, size_t size)
{
    ucp_address_t *address;
    size_t length, i;

    rest_need(ucp_worker_get_address(worker, &address, &length), "address");
    for (i = 0; (i < length) && ((2 * i) + 3 < size); ++i) {
        snprintf(text + (2 * i), size - (2 * i), "%02x", ((unsigned char *)address)[i]);
    }
    ucp_worker_release_address(worker, address);
}

static void rest_connect_text(const char *text)
{
    static unsigned char address[REST_MAX_ADDRESS];
    size_t length;

    for (length = 0; (length < sizeof(address)) &&
                     (sscanf(text + (2 * length), "%2hhx", &address[length]) == 1);
         ++length) {
    }
    rest_connect(address);
}


/* ---- peer ---- */

/* SIGUSR1: a message, SIGUSR2: the endpoint is closed */
static void rest_be_peer(const char *to)
{
    static char text[(2 * REST_MAX_ADDRESS) + 1];
    const struct timespec pause = {.tv_nsec = 1000000};
    sigset_t set;
    int signum;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    rest_open();
    rest_print_address(text, sizeof(text));
    rest_connect_text(to);
    printf("address %s.\n", text);
    fflush(stdout);
    for (;;) {
        while (ucp_worker_progress(worker) > 0) {
        }
        signum = sigtimedwait(&set, NULL, &pause);
        if (signum == SIGUSR1) {
            rest_send();
        } else if (signum == SIGUSR2) {
            rest_close_ep();
        }
    }
}


/* ---- sleep ---- */

/* Arm and sleep as an application's thread does. @return Whether it was woken. */
static bool rest_sleep(int timeout_ms)
{
    struct pollfd pfd = {.events = POLLIN};

    rest_need(ucp_worker_get_efd(worker, &pfd.fd), "efd");
    for (;;) {
        while (ucp_worker_progress(worker) > 0) {
        }
        if (ucp_worker_arm(worker) == UCS_OK) {
            return poll(&pfd, 1, timeout_ms) > 0;
        }
    }
}

/* @return Wakes until it rested, or REST_MAX_WAKES. */
static unsigned rest_count_wakes(void)
{
    unsigned num_quiet = 0, num_wakes = 0;

    while ((num_quiet < REST_QUIET) && (num_wakes < REST_MAX_WAKES)) {
        if (rest_sleep(5)) {
            num_quiet = 0;
            ++num_wakes;
        } else {
            ++num_quiet;
        }
    }
    return num_wakes;
}

static unsigned rest_watch(void)
{
    const uint64_t end = mkv_test_now_ms() + REST_WATCH_MS;
    unsigned num_wakes = 0;

    while ((mkv_test_now_ms() < end) && (num_wakes < REST_MAX_WAKES)) {
        num_wakes += rest_sleep(100);
    }
    return num_wakes;
}


/* ---- orders ---- */

static void rest_start_peer(mkv_proc_t *peer, const char *address)
{
    static char output[(2 * REST_MAX_ADDRESS) + 4096];
    const char *argv[] = {self_path, "peer", address, NULL};
    const char *env[] = {getenv("REST_PEER_ENV"), NULL};
    const unsigned before = num_come;
    const char *text;

    output[0] = '\0';
    if ((mkv_proc_spawn(peer, argv, env) != 0) ||
        !mkv_proc_expect(peer, ".\n", output, sizeof(output))) {
        printf("error no peer: %s\n", output);
        exit(MKV_TEST_EXIT_FAIL);
    }
    text = strstr(output, "address ");
    rest_connect_text((text != NULL) ? text + strlen("address ") : "");
    rest_send();
    mkv_proc_kill(peer, SIGUSR1);
    while ((num_come == before) && (ep != NULL)) {
        (void)rest_sleep(10);
    }
}

static void rest_act(mkv_proc_t *peer, char action)
{
    switch (action) {
    case 's':
        rest_send();
        break;
    case 'c':
        rest_close_ep();
        break;
    case 'm':
        mkv_proc_kill(peer, SIGUSR1);
        break;
    case 'p':
        mkv_proc_kill(peer, SIGUSR2);
        break;
    default:
        mkv_proc_kill(peer, SIGKILL);
    }
}

/* Our message, the peer's, our close, and the peer's close or its death */
static void rest_make_order(unsigned number, char *order)
{
    char left[REST_ACTIONS + 1];
    unsigned i, k;

    snprintf(left, sizeof(left), "smc%c", (number & 1) ? 'k' : 'p');
    number /= 4;
    for (i = REST_ACTIONS; i > 0; --i) {
        k = number % i;
        number /= i;
        *order++ = left[k];
        memmove(left + k, left + k + 1, strlen(left + k));
    }
    *order = '\0';
}

/* @return Whether the worker came to rest. */
static bool rest_run_order(unsigned number, const char *address)
{
    char order[REST_ACTIONS + 1];
    unsigned num_wakes, i;
    mkv_proc_t peer;

    rest_make_order(number, order);
    rest_start_peer(&peer, address);
    for (i = 0; i < REST_ACTIONS; ++i) {
        rest_act(&peer, order[i]);
        if (number & 2) {
            (void)rest_sleep(50); /* mori_rdma has given up, and recovers */
        }
    }
    num_wakes = rest_count_wakes();
    printf("order %s%s: %u wakes\n", order, (number & 2) ? " asleep" : "", num_wakes);
    mkv_proc_cleanup(&peer);
    return num_wakes < REST_MAX_WAKES;
}

static int rest_run(unsigned every)
{
    static char address[(2 * REST_MAX_ADDRESS) + 1];
    unsigned number, num_wakes;
    int failed = 0;

    rest_open();
    rest_print_address(address, sizeof(address));
    for (number = 0; number < REST_ORDERS; number += every) {
        failed |= !rest_run_order(number, address);
    }
    num_wakes = rest_watch();
    printf("watched: %u wakes\n", num_wakes);
    failed |= (num_wakes > REST_MAX_WATCHED);
    rest_close();
    printf("%s\n", failed ? "spins" : "rests");
    return failed ? MKV_TEST_EXIT_FAIL : MKV_TEST_EXIT_OK;
}

int main(int argc, char **argv)
{
    const ssize_t length = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);

    if ((argc == 3) && (strcmp(argv[1], "peer") == 0)) {
        rest_be_peer(argv[2]);
        return MKV_TEST_EXIT_OK;
    }
    if ((argc != 2) || (atoi(argv[1]) <= 0) || (length <= 0)) {
        fprintf(stderr, "usage: ucp_rest EVERY | ucp_rest peer ADDRESS\n");
        return MKV_TEST_EXIT_HARD;
    }
    return rest_run((unsigned)atoi(argv[1]));
}
