/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Bandwidth of UCP's puts to a process that sleeps meanwhile, as the server of
 * ib_write_bw does and that of ucx_perftest does not. Two processes: the target waits
 * on its worker's descriptor, or polls. The initiator does the same, and keeps 128 puts
 * in flight, as ib_write_bw does. Prints MB (2^20 bytes) a second, as both do.
 *
 *   bench_put BYTES COUNT TARGET-DEVICES DEVICES [TARGET-WAIT [WAIT]]
 *
 * DEVICES are UCX_NET_DEVICES of either process, waits are "sleep" or "poll". By
 * default the target sleeps and the initiator polls.
 */

#include "perf/base/clock.h"
#include "perf/base/error.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { BENCH_DEPTH = 128, BENCH_MAX_MESSAGE = 1 << 16 };

typedef struct bench_side {
    const char *devices;
    bool is_sleeping;
    int channel; /* socket to the other process */
    int fd;      /* event descriptor of the worker */
    ucp_context_h context;
    ucp_worker_h worker;
    char *buffer;
    size_t length;
    ucp_mem_h memh;
    ucp_ep_h ep;
    ucp_rkey_h rkey;
    uint64_t remote;
    unsigned num_under_way;
    ucs_status_t status;
} bench_side_t;

static int bench_check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        perf_error("%s: %s", what, ucs_status_string(status));
    }
    return (status == UCS_OK) ? 0 : -1;
}

/* ---- messages between the two ---- */

static int bench_send(bench_side_t *side, const void *data, size_t length)
{
    if (send(side->channel, data, length, MSG_NOSIGNAL) != (ssize_t)length) {
        perf_error("the other process is gone");
        return -1;
    }
    return 0;
}

static ssize_t bench_recv(bench_side_t *side, void *data, size_t max)
{
    ssize_t length = recv(side->channel, data, max, 0);

    if (length <= 0) {
        perf_error("the other process is gone");
        return -1;
    }
    return length;
}

/* ---- both ---- */

/* Progress the worker. If there was nothing to do and the test sleeps, block until
 * the worker or the channel is readable. @return Whether the channel is. */
static bool bench_wait(bench_side_t *side, bool is_channel)
{
    struct pollfd fds[2] = {{.fd = side->fd, .events = POLLIN},
                            {.fd = side->channel, .events = POLLIN}};
    int timeout_ms = 0;

    if (ucp_worker_progress(side->worker) != 0) {
        return false;
    }
    if (side->is_sleeping) {
        if (ucp_worker_arm(side->worker) != UCS_OK) {
            return false;
        }
        timeout_ms = -1;
    }
    if (side->is_sleeping || is_channel) {
        (void)poll(fds, is_channel ? 2 : 1, timeout_ms);
    }
    return fds[1].revents != 0;
}

static int bench_open(bench_side_t *side)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_RMA | (side->is_sleeping ? UCP_FEATURE_WAKEUP : 0)};
    const ucp_worker_params_t worker = {.field_mask =
                                            UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                              UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = side->length};

    side->fd = -1;
    if ((setenv("UCX_NET_DEVICES", side->devices, 1) != 0) ||
        (posix_memalign((void **)&side->buffer, 4096, side->length) != 0)) {
        perf_error("no memory for %zu bytes", side->length);
        return -1;
    }
    memset(side->buffer, 1, side->length);
    map.address = side->buffer;
    return (bench_check(ucp_init(&params, NULL, &side->context), "ucp_init()") ||
            bench_check(ucp_worker_create(side->context, &worker, &side->worker),
                        "ucp_worker_create()") ||
            (side->is_sleeping &&
             bench_check(ucp_worker_get_efd(side->worker, &side->fd),
                         "ucp_worker_get_efd()")) ||
            bench_check(ucp_mem_map(side->context, &map, &side->memh), "ucp_mem_map()"))
               ? -1
               : 0;
}

/* ---- the target ---- */

static int bench_invite(bench_side_t *side)
{
    uint64_t where = (uintptr_t)side->buffer;
    size_t address_length, key_length;
    ucp_address_t *address;
    void *key;

    return (bench_check(ucp_worker_get_address(side->worker, &address, &address_length),
                        "ucp_worker_get_address()") ||
            bench_check(ucp_rkey_pack(side->context, side->memh, &key, &key_length),
                        "ucp_rkey_pack()") ||
            bench_send(side, &where, sizeof(where)) ||
            bench_send(side, address, address_length) ||
            bench_send(side, key, key_length))
               ? -1
               : 0;
}

static int bench_target(bench_side_t *side)
{
    char word;

    if ((bench_open(side) != 0) || (bench_invite(side) != 0)) {
        return EXIT_FAILURE;
    }
    while (!bench_wait(side, true)) {
    }
    return (bench_recv(side, &word, sizeof(word)) > 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- the initiator ---- */

static void bench_ep_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    bench_side_t *side = arg;

    (void)ep;
    side->status = status;
}

static int bench_connect(bench_side_t *side)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = bench_ep_failed, .arg = side},
    };
    static char address[BENCH_MAX_MESSAGE], key[BENCH_MAX_MESSAGE];

    if ((bench_recv(side, &side->remote, sizeof(side->remote)) < 0) ||
        (bench_recv(side, address, sizeof(address)) < 0) ||
        (bench_recv(side, key, sizeof(key)) < 0)) {
        return -1;
    }
    params.address = (const ucp_address_t *)address;
    return (bench_check(ucp_ep_create(side->worker, &params, &side->ep),
                        "ucp_ep_create()") ||
            bench_check(ucp_ep_rkey_unpack(side->ep, key, &side->rkey),
                        "ucp_ep_rkey_unpack()"))
               ? -1
               : 0;
}

static void bench_put_ended(void *request, ucs_status_t status, void *arg)
{
    bench_side_t *side = arg;

    --side->num_under_way;
    if (status != UCS_OK) {
        side->status = status;
    }
    ucp_request_free(request);
}

/* Post puts, at most the depth in flight, until all have ended. */
static int bench_puts(bench_side_t *side, unsigned long count)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = bench_put_ended,
        .user_data = side,
        .memh = side->memh,
    };
    ucs_status_ptr_t request;

    while (((count > 0) || (side->num_under_way > 0)) && (side->status == UCS_OK)) {
        if ((count == 0) || (side->num_under_way == BENCH_DEPTH)) {
            (void)bench_wait(side, false);
            continue;
        }
        --count;
        request = ucp_put_nbx(side->ep, side->buffer, side->length, side->remote,
                              side->rkey, &param);
        if (UCS_PTR_IS_PTR(request)) {
            ++side->num_under_way;
        } else if (UCS_PTR_IS_ERR(request)) {
            side->status = UCS_PTR_STATUS(request);
        }
    }
    return bench_check(side->status, "ucp_put_nbx()");
}

/* Warm up with a tenth of the puts, as the first ones wait for the connection. */
static int bench_source(bench_side_t *side, unsigned long count)
{
    const double mb = (double)side->length * (double)count / (1 << 20);
    uint64_t ns;

    if ((bench_open(side) != 0) || (bench_connect(side) != 0) ||
        (bench_puts(side, (count / 10) + 1) != 0)) {
        return EXIT_FAILURE;
    }
    ns = perf_clock_ns();
    if (bench_puts(side, count) != 0) {
        return EXIT_FAILURE;
    }
    ns = perf_clock_ns() - ns;
    printf("%.2f\n", mb / ((double)ns / 1e9));
    return (bench_send(side, "", 1) == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The processes end without releasing anything. */
static int bench_run(bench_side_t *target, bench_side_t *source, unsigned long count)
{
    int channel[2], ret, status = -1;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel) != 0) {
        perf_error("socketpair() failed: %m");
        return EXIT_FAILURE;
    }
    target->channel = channel[0];
    source->channel = channel[1];
    child = fork();
    if (child < 0) {
        perf_error("fork() failed: %m");
        return EXIT_FAILURE;
    }
    if (child == 0) {
        close(source->channel);
        _exit(bench_target(target));
    }
    close(target->channel);
    ret = bench_source(source, count);
    close(source->channel);
    return ((waitpid(child, &status, 0) == child) && (status == 0)) ? ret
                                                                    : EXIT_FAILURE;
}

static int bench_parse_wait(const char *word, bool *is_sleeping_p)
{
    *is_sleeping_p = (strcmp(word, "sleep") == 0);
    return (*is_sleeping_p || (strcmp(word, "poll") == 0)) ? 0 : -1;
}

int main(int argc, char **argv)
{
    bench_side_t target = {.is_sleeping = true}, source = {.is_sleeping = false};
    unsigned long count;

    perf_message_prefix("bench_put");
    if ((argc < 5) || (argc > 7) ||
        ((argc > 5) && (bench_parse_wait(argv[5], &target.is_sleeping) != 0)) ||
        ((argc > 6) && (bench_parse_wait(argv[6], &source.is_sleeping) != 0))) {
        perf_error("expected BYTES COUNT TARGET-DEVICES DEVICES [sleep|poll "
                   "[sleep|poll]]");
        return EXIT_FAILURE;
    }
    target.length = source.length = strtoul(argv[1], NULL, 0);
    count = strtoul(argv[2], NULL, 0);
    target.devices = argv[3];
    source.devices = argv[4];
    if ((target.length == 0) || (count == 0)) {
        perf_error("BYTES is %s and COUNT %s; expected numbers above 0", argv[1],
                   argv[2]);
        return EXIT_FAILURE;
    }
    return bench_run(&target, &source, count);
}
