/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Many lists at once: 200 registered regions of one allocation of GPU memory, and 160
 * lists of pieces of 1 byte to 64 MiB at odd places, all posted before any of them may
 * end. Then the same pieces are read back, a call each. Every byte of both allocations
 * is compared, those between the pieces too.
 */

#include "perf/gpu/gpu_runtime.h"
#include "perf/base/random.h"
#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <ucp/api/ucp.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define NUM_REGIONS 200
#define NUM_LARGE 8 /* regions, after the one of the longest piece */
#define LONGEST (64 * MIB)
#define SLACK 64 /* of a region: behind the places that pieces take */

#define NUM_LISTS 160
#define MIN_IN_FLIGHT 128
#define MAX_ENTRIES 512
#define MAX_PIECES 16384
#define MAX_ADDRESS 4096
#define MAX_KEY 512

/** A piece has one place on the side that is written, and one near it on the other. */
typedef struct piece {
    unsigned region;
    size_t offset; /**< Offset in the pool */
    size_t shift;  /**< Distance to the source */
    size_t length;
} piece_t;

/** A list in the form in which UCP takes it. */
typedef struct list {
    unsigned count;
    void *buffers[MAX_ENTRIES];
    size_t lengths[MAX_ENTRIES];
    ucp_mem_h memhs[MAX_ENTRIES];
    uint64_t remotes[MAX_ENTRIES];
    ucp_rkey_h rkeys[MAX_ENTRIES];
} list_t;

typedef struct side {
    int fd;
    gpu_runtime_t gpu;
    gpu_device_t device;
    char *bytes;    /**< The pool */
    char *expected; /**< Expected pool */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_mem_h memhs[NUM_REGIONS];
} side_t;

/** First message of the target; its keys follow. */
typedef struct hello {
    uint64_t base;
    size_t address_length;
    char address[MAX_ADDRESS];
} hello_t;

typedef struct packed_key {
    size_t length;
    char bytes[MAX_KEY];
} packed_key_t;

static size_t region_begin[NUM_REGIONS + 1];
static piece_t pieces[MAX_PIECES];
static unsigned num_pieces;
static list_t lists[NUM_LISTS];


static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "it_lists: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static void layout_regions(void)
{
    size_t size;
    unsigned i;

    for (i = 0; i < NUM_REGIONS; ++i) {
        size = (i == 0) ? LONGEST + (4 * KIB) : (i <= NUM_LARGE) ? 4 * MIB : 256 * KIB;
        region_begin[i + 1] = region_begin[i] + size;
    }
}

static void add_piece(unsigned region, size_t offset, size_t length, uint64_t *random)
{
    require(num_pieces < MAX_PIECES, "there are too many pieces");
    pieces[num_pieces++] = (piece_t){.region = region,
                                     .offset = region_begin[region] + offset,
                                     .shift = perf_random_below(random, 16),
                                     .length = length};
}

/* Fill a region with as many short pieces as long ones, with gaps of a few bytes or
 * none. */
static void fill_region(unsigned region, uint64_t *random)
{
    size_t end = region_begin[region + 1] - region_begin[region] - SLACK;
    unsigned bits = (end > MIB) ? 22 : 18;
    size_t at = perf_random_below(random, 16);
    size_t length;

    for (;;) {
        length = 1 + perf_random_below(random, 1u << perf_random_below(random, bits));
        if (at + length > end) {
            break;
        }
        add_piece(region, at, length, random);
        at += length + perf_random_below(random, 16);
    }
}

/* The same on both sides. */
static void layout_pieces(void)
{
    uint64_t random = 20240607;
    unsigned i;

    layout_regions();
    add_piece(0, 13, LONGEST, &random);
    for (i = 1; i < NUM_REGIONS; ++i) {
        add_piece(i, 0, 1, &random);
        pieces[num_pieces - 1].offset = region_begin[i + 1] - SLACK;
        fill_region(i, &random);
    }
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
                                .memory_type = UCS_MEMORY_TYPE_ROCM};
    size_t size = region_begin[NUM_REGIONS];
    unsigned i;

    setenv("HIP_VISIBLE_DEVICES", device, 1);
    memset(side, 0, sizeof(*side));
    side->fd = fd;
    gpu_runtime_load(&side->gpu, NULL);
    gpu_device_init(&side->gpu, &side->device, 0, -1, size);
    side->bytes = gpu_alloc_host(&side->gpu, size);
    side->expected = gpu_alloc_host(&side->gpu, size);
    require(ucp_init(&params, NULL, &side->context) == UCS_OK, "ucp_init failed");
    require(ucp_worker_create(side->context, &worker, &side->worker) == UCS_OK,
            "ucp_worker_create failed");
    for (i = 0; i < NUM_REGIONS; ++i) {
        map.address = side->device.pool + region_begin[i];
        map.length = region_begin[i + 1] - region_begin[i];
        require(ucp_mem_map(side->context, &map, &side->memhs[i]) == UCS_OK,
                "ucp_mem_map failed");
    }
}

static void side_close(side_t *side)
{
    unsigned i;

    for (i = 0; i < NUM_REGIONS; ++i) {
        ucp_mem_unmap(side->context, side->memhs[i]);
    }
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
    gpu_free_host(&side->gpu, side->expected);
    gpu_free_host(&side->gpu, side->bytes);
    gpu_device_cleanup(&side->gpu, &side->device);
}

/* Other bytes on each side and in each phase. */
static void make_bytes(char *bytes, uint64_t seed)
{
    size_t at;
    uint64_t word;

    for (at = 0; at < region_begin[NUM_REGIONS]; at += sizeof(word)) {
        word = perf_mix(seed + at);
        memcpy(bytes + at, &word, sizeof(word));
    }
}

static void write_pool(side_t *side, uint64_t seed)
{
    make_bytes(side->expected, seed);
    gpu_check(
        side->gpu.copy(side->device.pool, side->expected, region_begin[NUM_REGIONS], 4),
        "hipMemcpy");
}

/* Compute the expected pool after all pieces came from a pool with these bytes. */
static void expect_pieces(side_t *side, const char *source)
{
    const piece_t *piece;

    for (piece = pieces; piece < pieces + num_pieces; ++piece) {
        memcpy(side->expected + piece->offset, source + piece->offset + piece->shift,
               piece->length);
    }
}

static void check_pool(side_t *side, const char *what)
{
    size_t size = region_begin[NUM_REGIONS], at = 0;

    gpu_check(side->gpu.copy(side->bytes, side->device.pool, size, 4), "hipMemcpy");
    if (memcmp(side->bytes, side->expected, size) == 0) {
        return;
    }
    while (side->bytes[at] == side->expected[at]) {
        ++at;
    }
    fprintf(stderr, "it_lists: %s: byte %zu is %u, expected %u\n", what, at,
            (unsigned char)side->bytes[at], (unsigned char)side->expected[at]);
    exit(EXIT_FAILURE);
}

/* A message, with progress until it comes. */
static void side_receive(side_t *side, void *buffer, size_t size, const char *what)
{
    struct pollfd event = {.fd = side->fd, .events = POLLIN};

    while (poll(&event, 1, 0) == 0) {
        ucp_worker_progress(side->worker);
    }
    require(mkv_proc_recv(side->fd, buffer, size, -1) == (ssize_t)size, what);
}

static void send_bytes(int fd, const void *message, size_t length)
{
    require(mkv_proc_send(fd, message, length) == 0, "the other process is gone");
}

/* ---- target ---- */

static void send_hello(side_t *side)
{
    static hello_t hello;
    static packed_key_t key;
    ucp_address_t *address;
    unsigned i;
    void *rkey;

    require(ucp_worker_get_address(side->worker, &address, &hello.address_length) ==
                UCS_OK,
            "ucp_worker_get_address failed");
    require(hello.address_length <= MAX_ADDRESS, "the address is too long");
    hello.base = (uintptr_t)side->device.pool;
    memcpy(hello.address, address, hello.address_length);
    ucp_worker_release_address(side->worker, address);
    send_bytes(side->fd, &hello, sizeof(hello));
    for (i = 0; i < NUM_REGIONS; ++i) {
        require(ucp_rkey_pack(side->context, side->memhs[i], &rkey, &key.length) ==
                    UCS_OK,
                "ucp_rkey_pack failed");
        require(key.length <= MAX_KEY, "a key is too long");
        memcpy(key.bytes, rkey, key.length);
        ucp_rkey_buffer_release(rkey);
        send_bytes(side->fd, &key, sizeof(key));
    }
}

static int target_main(int fd, void *arg)
{
    side_t side;
    char word;

    (void)arg;
    layout_pieces();
    side_open(&side, fd, "1");
    write_pool(&side, 1);
    send_hello(&side);
    side_receive(&side, &word, 1, "the lists were not put");
    make_bytes(side.bytes, 2);
    expect_pieces(&side, side.bytes);
    check_pool(&side, "after the lists");
    write_pool(&side, 3);
    send_bytes(fd, "3", 1);
    side_receive(&side, &word, 1, "the pieces were not read");
    check_pool(&side, "after the reads");
    side_close(&side);
    return EXIT_SUCCESS;
}

/* ---- initiator ---- */

static ucs_status_ptr_t put_list(ucp_ep_h ep, list_t *list)
{
    ucp_dt_local_sgl_t local = {.field_mask = UCP_DT_LOCAL_SGL_FIELD_BUFFERS |
                                              UCP_DT_LOCAL_SGL_FIELD_LENGTHS |
                                              UCP_DT_LOCAL_SGL_FIELD_MEMHS,
                                .buffers = list->buffers,
                                .lengths = list->lengths,
                                .memhs = list->memhs};
    ucp_dt_remote_sgl_t remote = {.field_mask = UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS |
                                                UCP_DT_REMOTE_SGL_FIELD_LENGTHS |
                                                UCP_DT_REMOTE_SGL_FIELD_RKEYS,
                                  .remote_addrs = list->remotes,
                                  .lengths = list->lengths,
                                  .rkeys = list->rkeys};
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE |
                        UCP_OP_ATTR_FIELD_REMOTE | UCP_OP_ATTR_FIELD_REMOTE_COUNT,
        .datatype = ucp_dt_make_sgl(),
        .remote_datatype = ucp_dt_make_sgl(),
        .remote = &remote,
        .remote_count = list->count};

    return ucp_put_nbx(ep, &local, list->count, UCP_REMOTE_ADDR_INVALID,
                       UCP_RKEY_INVALID, &param);
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

static void put_lists(side_t *side, ucp_ep_h ep, const ucp_rkey_h *rkeys, uint64_t base)
{
    static ucs_status_ptr_t requests[NUM_LISTS];
    uint64_t random = 7;
    unsigned num_in_flight = 0, i;
    const piece_t *piece;
    list_t *list;

    for (piece = pieces; piece < pieces + num_pieces; ++piece) {
        list = &lists[perf_random_below(&random, NUM_LISTS)];
        require(list->count < MAX_ENTRIES, "a list is too long");
        i = list->count++;
        list->buffers[i] = side->device.pool + piece->offset + piece->shift;
        list->lengths[i] = piece->length;
        list->memhs[i] = side->memhs[piece->region];
        list->remotes[i] = base + piece->offset;
        list->rkeys[i] = rkeys[piece->region];
    }

    for (i = 0; i < NUM_LISTS; ++i) {
        requests[i] = put_list(ep, &lists[i]);
        num_in_flight += UCS_PTR_IS_PTR(requests[i]);
    }
    require(num_in_flight >= MIN_IN_FLIGHT, "too few lists are in flight");
    for (i = 0; i < NUM_LISTS; ++i) {
        wait_for(side, requests[i], "a list failed");
    }
    printf("ok   many_lists_in_flight: %u lists of %u pieces\n", num_in_flight,
           num_pieces);
}

static void get_pieces(side_t *side, ucp_ep_h ep, const ucp_rkey_h *rkeys,
                       uint64_t base)
{
    static ucs_status_ptr_t requests[MAX_PIECES];
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH |
                                                 UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .memory_type = UCS_MEMORY_TYPE_ROCM};
    const piece_t *piece = pieces;
    unsigned i;

    for (i = 0; i < num_pieces; ++i, ++piece) {
        param.memh = side->memhs[piece->region];
        requests[i] = ucp_get_nbx(ep, side->device.pool + piece->offset, piece->length,
                                  base + piece->offset + piece->shift,
                                  rkeys[piece->region], &param);
    }
    for (i = 0; i < num_pieces; ++i) {
        wait_for(side, requests[i], "a get failed");
    }
}

static void flush(side_t *side, ucp_ep_h ep)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    wait_for(side, ucp_ep_flush_nbx(ep, &param), "the flush failed");
}

static int initiator_main(int fd)
{
    static hello_t hello;
    static packed_key_t key;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    ucp_request_param_t close_param = {.op_attr_mask = 0};
    ucp_rkey_h rkeys[NUM_REGIONS];
    side_t side;
    unsigned i;
    ucp_ep_h ep;
    char word;

    layout_pieces();
    side_open(&side, fd, "0");
    side_receive(&side, &hello, sizeof(hello), "the target did not start");
    params.address = (const ucp_address_t *)hello.address;
    require(ucp_ep_create(side.worker, &params, &ep) == UCS_OK, "ucp_ep_create failed");
    for (i = 0; i < NUM_REGIONS; ++i) {
        side_receive(&side, &key, sizeof(key), "a key did not come");
        require(ucp_ep_rkey_unpack(ep, key.bytes, &rkeys[i]) == UCS_OK,
                "ucp_ep_rkey_unpack failed");
    }

    write_pool(&side, 2);
    put_lists(&side, ep, rkeys, hello.base);
    flush(&side, ep);
    send_bytes(fd, "2", 1);

    side_receive(&side, &word, 1, "the target saw a wrong byte");
    get_pieces(&side, ep, rkeys, hello.base);
    flush(&side, ep);
    make_bytes(side.bytes, 3);
    expect_pieces(&side, side.bytes);
    check_pool(&side, "what was read");
    send_bytes(fd, "4", 1);

    for (i = 0; i < NUM_REGIONS; ++i) {
        ucp_rkey_destroy(rkeys[i]);
    }
    wait_for(&side, ucp_ep_close_nbx(ep, &close_param), "the close failed");
    side_close(&side);
    printf("ok   what_was_read_is_right\n");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    mkv_proc_t target;
    int status;

    (void)argc;
    it_start_again("mori_xgmi,tcp", argv);
    mkv_test_init();
    if (!it_has_hipcpu()) {
        return mkv_test_exit_status(
            mkv_test_skip("gpu", "lists", "there is no HIP runtime"));
    }
    require(mkv_proc_fork(&target, target_main, NULL) == 0, "fork failed");
    status = initiator_main(target.fd);
    close(target.fd);
    target.fd = -1;
    require(mkv_proc_wait(&target) == 0, "the target does not end");
    require(mkv_proc_exit_status(&target) == 0, "the target failed");
    return status;
}
