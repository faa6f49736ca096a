/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Check that the consumer never reads an old byte. A producer puts scattered pieces of
 * odd lengths into a different process's GPU memory, flushes, and sends a message over
 * a channel; the consumer's kernel then reads all of it, in every round.
 *
 * The kernel that reads is the copy kernel, loaded here by itself: it gathers the
 * region into pinned memory. MKV_TEST_ROUNDS sets the number of rounds (300).
 */

#include "perf/gpu/gpu_runtime.h"
#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <ucp/api/ucp.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUM_PIECES 64
#define PIECE_SLOT 8192
#define REGION_SIZE (NUM_PIECES * PIECE_SLOT)
#define MAX_MESSAGE 4096

/** UCP, GPU and channel of one side. */
typedef struct side {
    int fd;
    gpu_runtime_t gpu;
    gpu_device_t device;
    muct_xgmi_entry_t *memory;
    char *pinned;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_mem_h memh;
} side_t;

/** First message of the consumer: its memory; address and key follow. */
typedef struct hello {
    uint64_t base;
    uint32_t address_length;
    uint32_t rkey_length;
    char bytes[MAX_MESSAGE];
} hello_t;


static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "it_consumer: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

/* Odd places and lengths, the same on both sides. */
static size_t piece_offset(unsigned i)
{
    return ((size_t)i * PIECE_SLOT) + (i % 13);
}

static size_t piece_length(unsigned i)
{
    return 1 + (((size_t)i * 397) % (PIECE_SLOT - 64));
}

static unsigned char expected_byte(unsigned round, unsigned i, size_t at)
{
    return (unsigned char)((round * 31) + (i * 7) + at);
}

static void side_open(side_t *side, int fd, const char *device)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_RMA};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                              UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                              UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                .length = REGION_SIZE,
                                .memory_type = UCS_MEMORY_TYPE_ROCM};

    setenv("HIP_VISIBLE_DEVICES", device, 1);
    memset(side, 0, sizeof(*side));
    side->fd = fd;
    gpu_runtime_load(&side->gpu, NULL);
    gpu_device_init(&side->gpu, &side->device, 0, -1, REGION_SIZE);
    side->memory = gpu_alloc_host(&side->gpu, NUM_PIECES * sizeof(*side->memory));
    side->pinned = gpu_alloc_host(&side->gpu, REGION_SIZE);
    require(ucp_init(&params, NULL, &side->context) == UCS_OK, "ucp_init failed");
    require(ucp_worker_create(side->context, &worker, &side->worker) == UCS_OK,
            "ucp_worker_create failed");
    map.address = side->device.pool;
    require(ucp_mem_map(side->context, &map, &side->memh) == UCS_OK,
            "ucp_mem_map failed");
}

static void side_close(side_t *side)
{
    ucp_mem_unmap(side->context, side->memh);
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
    gpu_free_host(&side->gpu, side->pinned);
    gpu_free_host(&side->gpu, side->memory);
    gpu_device_cleanup(&side->gpu, &side->device);
}

/* A message, with progress until it comes. */
static ssize_t side_receive(side_t *side, void *buffer, size_t size)
{
    struct pollfd event = {.fd = side->fd, .events = POLLIN};

    while (poll(&event, 1, 0) == 0) {
        ucp_worker_progress(side->worker);
    }
    return mkv_proc_recv(side->fd, buffer, size, -1);
}

/* Gather or scatter all pieces between the region and pinned memory. */
static void side_copy(side_t *side, int is_gather)
{
    gpu_lane_t *lane = &side->device.lanes[0];
    uintptr_t region = (uintptr_t)side->device.pool;
    uintptr_t pinned = (uintptr_t)side->pinned;
    muct_xgmi_list_t list;
    unsigned i;
    size_t at;

    muct_xgmi_list_init(&list, side->memory, NUM_PIECES);
    for (i = 0; i < NUM_PIECES; ++i) {
        at = piece_offset(i);
        muct_xgmi_list_add(&list, (is_gather ? pinned : region) + at,
                           (is_gather ? region : pinned) + at, piece_length(i));
    }
    gpu_launch(&side->gpu, &side->device, lane, &list, MUCT_XGMI_DEFAULT_BLOCKS);
    gpu_wait(lane);
}

static void send_hello(side_t *side)
{
    static hello_t hello;
    ucp_address_t *address;
    size_t address_length, rkey_length;
    void *rkey;

    require(ucp_worker_get_address(side->worker, &address, &address_length) == UCS_OK,
            "ucp_worker_get_address failed");
    require(ucp_rkey_pack(side->context, side->memh, &rkey, &rkey_length) == UCS_OK,
            "ucp_rkey_pack failed");
    require(address_length + rkey_length <= sizeof(hello.bytes), "hello is too long");
    hello.base = (uintptr_t)side->device.pool;
    hello.address_length = (uint32_t)address_length;
    hello.rkey_length = (uint32_t)rkey_length;
    memcpy(hello.bytes, address, address_length);
    memcpy(hello.bytes + address_length, rkey, rkey_length);
    ucp_worker_release_address(side->worker, address);
    ucp_rkey_buffer_release(rkey);
    require(mkv_proc_send(side->fd, &hello, sizeof(hello)) == 0, "hello was not sent");
}

static void check_round(const side_t *side, unsigned round)
{
    const unsigned char *bytes;
    unsigned i;
    size_t at;

    for (i = 0; i < NUM_PIECES; ++i) {
        bytes = (const unsigned char *)side->pinned + piece_offset(i);
        for (at = 0; at < piece_length(i); ++at) {
            if (bytes[at] != expected_byte(round, i, at)) {
                fprintf(stderr,
                        "it_consumer: round %u piece %u byte %zu is %u, expected %u\n",
                        round, i, at, bytes[at], expected_byte(round, i, at));
                exit(EXIT_FAILURE);
            }
        }
    }
}

static int consumer_main(int fd, void *arg)
{
    side_t side;
    unsigned round;

    (void)arg;
    side_open(&side, fd, "1");
    send_hello(&side);
    while (side_receive(&side, &round, sizeof(round)) == sizeof(round)) {
        side_copy(&side, 1);
        check_round(&side, round);
        require(mkv_proc_send(fd, &round, sizeof(round)) == 0, "no answer was sent");
    }
    side_close(&side);
    return EXIT_SUCCESS;
}

static void wait_for(side_t *side, ucs_status_ptr_t request, const char *what)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        do {
            ucp_worker_progress(side->worker);
            status = ucp_request_check_status(request);
        } while (status == UCS_INPROGRESS);
        ucp_request_free(request);
    }
    require(status == UCS_OK, what);
}

static void produce(side_t *side, ucp_ep_h ep, ucp_rkey_h rkey, uint64_t remote,
                    unsigned round)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH |
                                                 UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .memh = side->memh,
                                 .memory_type = UCS_MEMORY_TYPE_ROCM};
    ucp_request_param_t flush = {.op_attr_mask = 0};
    ucs_status_ptr_t request;
    unsigned i;
    size_t at;

    for (i = 0; i < NUM_PIECES; ++i) {
        for (at = 0; at < piece_length(i); ++at) {
            side->pinned[piece_offset(i) + at] = (char)expected_byte(round, i, at);
        }
    }
    side_copy(side, 0);
    for (i = 0; i < NUM_PIECES; ++i) {
        request = ucp_put_nbx(ep, side->device.pool + piece_offset(i), piece_length(i),
                              remote + piece_offset(i), rkey, &param);
        require(!UCS_PTR_IS_ERR(request), "ucp_put_nbx failed");
        if (request != NULL) {
            ucp_request_free(request);
        }
    }
    wait_for(side, ucp_ep_flush_nbx(ep, &flush), "the flush failed");
}

static int producer_main(int fd, unsigned rounds)
{
    static hello_t hello;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    ucp_request_param_t close_param = {.op_attr_mask = 0};
    unsigned round, answer;
    ucp_rkey_h rkey;
    ucp_ep_h ep;
    side_t side;

    side_open(&side, fd, "0");
    require(side_receive(&side, &hello, sizeof(hello)) == sizeof(hello),
            "the consumer did not start");
    params.address = (const ucp_address_t *)hello.bytes;
    require(ucp_ep_create(side.worker, &params, &ep) == UCS_OK, "ucp_ep_create failed");
    require(ucp_ep_rkey_unpack(ep, hello.bytes + hello.address_length, &rkey) == UCS_OK,
            "ucp_ep_rkey_unpack failed");
    for (round = 1; round <= rounds; ++round) {
        produce(&side, ep, rkey, hello.base, round);
        require(mkv_proc_send(fd, &round, sizeof(round)) == 0, "the consumer is gone");
        require(side_receive(&side, &answer, sizeof(answer)) == sizeof(answer),
                "the consumer saw an old byte");
    }
    ucp_rkey_destroy(rkey);
    wait_for(&side, ucp_ep_close_nbx(ep, &close_param), "the close failed");
    side_close(&side);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    const char *text = getenv("MKV_TEST_ROUNDS");
    unsigned rounds = (text == NULL) ? 300 : (unsigned)strtoul(text, NULL, 10);
    mkv_proc_t consumer;
    int status;

    (void)argc;
    it_start_again("mori_xgmi,tcp", argv);
    mkv_test_init();
    if (!it_has_hipcpu()) {
        return mkv_test_exit_status(
            mkv_test_skip("gpu", "consumer", "there is no HIP runtime"));
    }
    require(mkv_proc_fork(&consumer, consumer_main, NULL) == 0, "fork failed");
    status = producer_main(consumer.fd, rounds);
    close(consumer.fd);
    consumer.fd = -1;
    require(mkv_proc_wait(&consumer) == 0, "the consumer does not end");
    require(mkv_proc_exit_status(&consumer) == 0, "the consumer failed");
    printf("ok   consumer_never_sees_an_old_byte: %u rounds of %d pieces\n", rounds,
           NUM_PIECES);
    return status;
}
