/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cost of a post beside a thread that makes progress, by UCX itself. One thread puts
 * 4096 blocks to memory of this process over the transports of UCX_TLS, and flushes;
 * the other makes no progress, sleeps on the descriptor, or loops without sleeping as
 * NIXL's does: progress, arm, poll() without a timeout.
 *
 *   bench_thread          eight bytes of host memory: little but the worker's lock
 *   bench_thread BYTES    blocks of so many bytes of GPU memory
 */

#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "perf/memory/memory.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

enum { BENCH_POSTS = 4096, BENCH_ROUNDS = 51 };

/* Mode of the other thread. */
typedef enum bench_beside {
    BENCH_NOTHING,
    BENCH_SLEEPS,
    BENCH_SPINS,
} bench_beside_t;

typedef struct bench_side {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucp_mem_h memh;
    ucp_rkey_h rkey;
    char *buffer; /* data of the put, and behind it the target */
    size_t length;
    int fd;
    atomic_bool is_over;
    bench_beside_t beside;
} bench_side_t;

static int bench_check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        perf_error("%s: %s", what, ucs_status_string(status));
    }
    return (status == UCS_OK) ? 0 : -1;
}

static int bench_open_worker(bench_side_t *side)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP};
    const ucp_worker_params_t worker = {.field_mask =
                                            UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_MULTI};

    return (bench_check(ucp_init(&params, NULL, &side->context), "ucp_init()") ||
            bench_check(ucp_worker_create(side->context, &worker, &side->worker),
                        "ucp_worker_create()") ||
            bench_check(ucp_worker_get_efd(side->worker, &side->fd),
                        "ucp_worker_get_efd()"))
               ? -1
               : 0;
}

/* Gaps as large as the blocks separate them, so that each block is an entry. */
static size_t bench_span(const bench_side_t *side)
{
    return 4 * BENCH_POSTS * side->length;
}

/* An endpoint to the worker itself, and a key of its memory. */
static int bench_connect(bench_side_t *side)
{
    const ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                    UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                      .address = side->buffer,
                                      .length = bench_span(side)};
    ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;
    void *key;
    int ret;

    if (bench_check(ucp_worker_get_address(side->worker, &address, &length),
                    "ucp_worker_get_address()") != 0) {
        return -1;
    }
    ep.address = address;
    ret = bench_check(ucp_ep_create(side->worker, &ep, &side->ep), "ucp_ep_create()");
    ucp_worker_release_address(side->worker, address);
    if ((ret != 0) ||
        bench_check(ucp_mem_map(side->context, &map, &side->memh), "ucp_mem_map()") ||
        bench_check(ucp_rkey_pack(side->context, side->memh, &key, &length),
                    "ucp_rkey_pack()")) {
        return -1;
    }
    ret = bench_check(ucp_ep_rkey_unpack(side->ep, key, &side->rkey),
                      "ucp_ep_rkey_unpack()");
    ucp_rkey_buffer_release(key);
    return ret;
}

static void *bench_thread(void *arg)
{
    bench_side_t *side = arg;
    struct pollfd entry = {.fd = side->fd, .events = POLLIN};

    while (!atomic_load(&side->is_over)) {
        while (ucp_worker_progress(side->worker) != 0) {
        }
        if (ucp_worker_arm(side->worker) == UCS_OK) {
            (void)poll(&entry, 1, (side->beside == BENCH_SLEEPS) ? -1 : 0);
        }
    }
    return NULL;
}

static int bench_wait(bench_side_t *side, ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        return bench_check(UCS_PTR_STATUS(request), "a put");
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(side->worker);
    }
    ucp_request_free(request);
    return 0;
}

/* A round of posts and their end; the posts alone are timed. */
static int bench_round(bench_side_t *side, uint64_t *ns_p, uint64_t *all_ns_p)
{
    const ucp_request_param_t none = {0};
    int flush;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
                                       .memh = side->memh};
    const size_t half = bench_span(side) / 2;
    uint64_t start_ns = perf_clock_ns();
    ucs_status_ptr_t request;
    unsigned i;

    for (i = 0; i < BENCH_POSTS; ++i) {
        const char *block = side->buffer + (2 * i * side->length);

        request = ucp_put_nbx(side->ep, block, side->length, (uintptr_t)block + half,
                              side->rkey, &param);
        if (UCS_PTR_IS_ERR(request)) {
            return bench_check(UCS_PTR_STATUS(request), "a put");
        }
        if (request != NULL) {
            ucp_request_free(request); /* the flush waits for it */
        }
    }
    *ns_p = perf_clock_ns() - start_ns;
    flush = bench_wait(side, ucp_ep_flush_nbx(side->ep, &none));
    *all_ns_p = perf_clock_ns() - start_ns;
    return flush;
}

static int bench_compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static int bench_row(bench_side_t *side, bench_beside_t beside, const char *name)
{
    uint64_t ns[BENCH_ROUNDS], all_ns[BENCH_ROUNDS];
    pthread_t thread;
    int ret = 0;
    unsigned i;

    side->beside = beside;
    atomic_store(&side->is_over, false);
    if ((beside != BENCH_NOTHING) &&
        (pthread_create(&thread, NULL, bench_thread, side) != 0)) {
        perf_error("no thread");
        return -1;
    }
    for (i = 0; (i < BENCH_ROUNDS) && (ret == 0); ++i) {
        ret = bench_round(side, &ns[i], &all_ns[i]);
    }
    if (beside != BENCH_NOTHING) {
        atomic_store(&side->is_over, true);
        (void)ucp_worker_signal(side->worker);
        pthread_join(thread, NULL);
    }
    if (ret == 0) {
        qsort(ns, BENCH_ROUNDS, sizeof(*ns), bench_compare);
        qsort(all_ns, BENCH_ROUNDS, sizeof(*all_ns), bench_compare);
        printf("%-28s %8.0f ns a post (best %.0f), %8.0f until flushed (best %.0f)\n",
               name, (double)ns[BENCH_ROUNDS / 2] / BENCH_POSTS,
               (double)ns[0] / BENCH_POSTS,
               (double)all_ns[BENCH_ROUNDS / 2] / BENCH_POSTS,
               (double)all_ns[0] / BENCH_POSTS);
    }
    return ret;
}

int main(int argc, char **argv)
{
    static bench_side_t side;
    perf_memory_t *memory;

    perf_message_prefix("bench_thread");
    side.length = (argc > 1) ? strtoul(argv[1], NULL, 0) : sizeof(uint64_t);
    if ((perf_memory_open((argc > 1) ? PERF_SEGMENT_VRAM : PERF_SEGMENT_DRAM, NULL,
                          &memory) != 0) ||
        ((side.buffer = perf_memory_alloc(memory, bench_span(&side))) == NULL)) {
        return EXIT_FAILURE;
    }
    if ((bench_open_worker(&side) != 0) || (bench_connect(&side) != 0) ||
        (bench_row(&side, BENCH_NOTHING, "no other thread") != 0) ||
        (bench_row(&side, BENCH_SLEEPS, "a thread that sleeps") != 0) ||
        (bench_row(&side, BENCH_SPINS, "a thread that never sleeps") != 0)) {
        return EXIT_FAILURE; /* the process ends without releasing anything */
    }
    return EXIT_SUCCESS;
}
