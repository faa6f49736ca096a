/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * An expandable segment as PyTorch makes it: one reserved range, several chunks mapped
 * into it, registered as one by ucp_mem_map(). It is put to the memory of a peer
 * process, got from there and put by that peer; every byte is compared.
 */

#include "hip_lib.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define CHUNK ((size_t)2 << 20)
#define CHUNKS 3
#define LENGTH (CHUNKS * CHUNK)
#define MAX_BYTES 4096

/** Message of a side: the address of its worker, of its memory, and the key. */
typedef struct hello {
    uint64_t memory;
    size_t address_length;
    size_t key_length;
    char address[MAX_BYTES];
    char key[MAX_BYTES];
} hello_t;

typedef struct side {
    int fd;
    char *memory;
    char *host;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_mem_h memh;
    ucp_ep_h ep;
    ucp_rkey_h rkey;
    hello_t peer;
} side_t;

static char *segment_map(void)
{
    hipMemAccessDesc access = {{hipMemLocationTypeDevice, 0},
                               hipMemAccessFlagsProtReadWrite};
    hipMemGenericAllocationHandle_t chunk;
    hipMemAllocationProp prop;
    void *range;
    int i;

    memset(&prop, 0, sizeof(prop));
    prop.type = hipMemAllocationTypePinned;
    prop.location.type = hipMemLocationTypeDevice;
    HIP_OK(hipMemAddressReserve, &range, LENGTH, 0, NULL, 0);
    for (i = 0; i < CHUNKS; ++i) {
        HIP_OK(hipMemCreate, &chunk, CHUNK, &prop, 0);
        HIP_OK(hipMemMap, (char *)range + (i * CHUNK), CHUNK, 0, chunk, 0);
        HIP_OK(hipMemRelease, chunk);
    }
    HIP_OK(hipMemSetAccess, range, LENGTH, &access, 1);
    return range;
}

static void side_fill(side_t *side, unsigned seed)
{
    hip_pattern(side->host, LENGTH, seed);
    HIP_OK(hipMemcpy, side->memory, side->host, LENGTH, hipMemcpyHostToDevice);
}

static void side_check(side_t *side, unsigned seed)
{
    memset(side->host, 0, LENGTH);
    HIP_OK(hipMemcpy, side->host, side->memory, LENGTH, hipMemcpyDeviceToHost);
    HIP_TRUE(hip_pattern_good(side->host, LENGTH, seed) == LENGTH);
}

static void side_meet(side_t *side)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    hello_t hello = {.memory = (uintptr_t)side->memory};
    ucp_address_t *address;
    void *key;

    HIP_TRUE(ucp_worker_get_address(side->worker, &address, &hello.address_length) ==
             UCS_OK);
    HIP_TRUE(ucp_rkey_pack(side->context, side->memh, &key, &hello.key_length) ==
             UCS_OK);
    HIP_TRUE((hello.address_length <= MAX_BYTES) && (hello.key_length <= MAX_BYTES));
    memcpy(hello.address, address, hello.address_length);
    memcpy(hello.key, key, hello.key_length);
    ucp_worker_release_address(side->worker, address);
    ucp_rkey_buffer_release(key);
    HIP_TRUE(send(side->fd, &hello, sizeof(hello), 0) == sizeof(hello));
    HIP_TRUE(recv(side->fd, &side->peer, sizeof(hello), MSG_WAITALL) == sizeof(hello));
    params.address = (ucp_address_t *)side->peer.address;
    HIP_TRUE(ucp_ep_create(side->worker, &params, &side->ep) == UCS_OK);
    HIP_TRUE(ucp_ep_rkey_unpack(side->ep, side->peer.key, &side->rkey) == UCS_OK);
}

static void side_open(side_t *side)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_RMA};
    ucp_worker_params_t worker = {.field_mask = 0};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                              UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                              UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                .address = side->memory,
                                .length = LENGTH,
                                .memory_type = UCS_MEMORY_TYPE_ROCM};

    side->host = malloc(LENGTH);
    HIP_TRUE(side->host != NULL);
    HIP_TRUE(ucp_init(&params, NULL, &side->context) == UCS_OK);
    HIP_TRUE(ucp_worker_create(side->context, &worker, &side->worker) == UCS_OK);
    HIP_TRUE(ucp_mem_map(side->context, &map, &side->memh) == UCS_OK);
    side_meet(side);
}

static void side_wait(side_t *side, ucs_status_ptr_t request)
{
    HIP_TRUE(!UCS_PTR_IS_ERR(request));
    if (request == NULL) {
        return;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(side->worker);
    }
    HIP_TRUE(ucp_request_check_status(request) == UCS_OK);
    ucp_request_free(request);
}

static void side_move(side_t *side, int is_get)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
                                 .memh = side->memh};
    ucp_request_param_t none = {.op_attr_mask = 0};

    side_wait(side, is_get ? ucp_get_nbx(side->ep, side->memory, LENGTH,
                                         side->peer.memory, side->rkey, &param)
                           : ucp_put_nbx(side->ep, side->memory, LENGTH,
                                         side->peer.memory, side->rkey, &param));
    side_wait(side, ucp_ep_flush_nbx(side->ep, &none));
}

static void side_signal(side_t *side)
{
    HIP_TRUE(send(side->fd, "", 1, 0) == 1);
}

/* Progress until the peer's signal comes. */
static void side_await(side_t *side)
{
    ssize_t count;
    char byte;

    do {
        ucp_worker_progress(side->worker);
        count = recv(side->fd, &byte, 1, MSG_DONTWAIT);
    } while (count < 0);
    HIP_TRUE(count == 1);
}

static void side_close(side_t *side)
{
    ucp_rkey_destroy(side->rkey);
    HIP_TRUE(ucp_mem_unmap(side->context, side->memh) == UCS_OK);
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
    free(side->host);
}

static void peer_main(side_t *side)
{
    void *memory;

    setenv("HIP_VISIBLE_DEVICES", "1", 1);
    unsetenv("UCX_PROTO_INFO");
    HIP_OK(hipMalloc, &memory, LENGTH);
    side->memory = memory;
    side_open(side);
    side_await(side);
    side_check(side, 1);
    side_fill(side, 2);
    side_signal(side);
    side_await(side);
    side_fill(side, 3);
    side_move(side, 0);
    side_signal(side);
    side_await(side);
    side_close(side);
}

static void segment_main(side_t *side)
{
    setenv("HIP_VISIBLE_DEVICES", "0", 1);
    side->memory = segment_map();
    side_open(side);
    side_fill(side, 1);
    side_move(side, 0);
    side_signal(side);
    side_await(side);
    side_move(side, 1);
    side_check(side, 2);
    side_signal(side);
    side_await(side);
    side_check(side, 3);
    side_signal(side);
    side_close(side);
    puts("segments done");
}

int main(void)
{
    side_t side = {0};
    int fds[2], status;
    pid_t peer;

    HIP_TRUE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    peer = fork(); /* before the runtime has threads */
    HIP_TRUE(peer >= 0);
    side.fd = fds[peer == 0];
    close(fds[peer != 0]);
    if (peer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no output behind the end of the program */
        peer_main(&side);
        return 0;
    }
    segment_main(&side);
    HIP_TRUE((waitpid(peer, &status, 0) == peer) && (status == 0));
    return 0;
}
