/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Two ends of an application that uses every API of UCP on memory of every type:
 *
 *   ucp_copy MAX_LENGTH none|peer API..
 *
 * For each API (tag, am, stream, put, get, atomic), each pair of memory types and each
 * length from 0 to MAX_LENGTH an operation runs between two processes, and its bytes
 * and those around them are compared. A line for each API; exit status 0 when all
 * arrived. "peer" selects endpoints in peer-failure mode.
 *
 * The peer is forked before UCX is used. The first process sends requests, the peer
 * answers.
 */

#include "test/support/mkv_hip.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <ucp/api/ucp.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UC_GUARD ((size_t)64)
#define UC_CHUNK ((size_t)1 << 20)
#define UC_MAX_DATA 4096
#define UC_AM_ID 7
#define UC_TAG 0x1234
#define UC_SEED_GUARD 99
#define UC_MAX_WORD 8 /* bytes of an atomic operation */

typedef enum uc_api {
    UC_TAG_API,
    UC_AM,
    UC_STREAM,
    UC_PUT,
    UC_GET,
    UC_ATOMIC
} uc_api_t;

static const char *const uc_api_names[] = {"tag", "am",     "stream", "put",
                                           "get", "atomic", NULL};

static const char *const uc_type_names[] = {"host", "rocm"};

static const size_t uc_lengths[] = {0,      1,       7,       8,       64,
                                    1000,   4096,    8192,    8193,    65535,
                                    262145, 1 << 20, 3 << 20, 8 << 20, 64u << 20};

typedef struct uc_mem {
    char *base; /**< Guard, bytes, guard */
    char *data;
    size_t length;
    int is_device;
} uc_mem_t;

/** Request of the first process to the peer, and the answer. */
typedef struct uc_msg {
    enum { UC_HELLO, UC_RECV, UC_EXPOSE, UC_CHECK, UC_EXIT } cmd;
    uc_api_t api;
    int is_device;
    int is_error;
    uint64_t length;
    uint64_t seed;
    uint64_t address;
    size_t data_length;
    char text[128];
    char data[UC_MAX_DATA];
} uc_msg_t;

typedef struct uc_side {
    const char *name;
    int fd;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucp_address_t *address;
    size_t address_length;
    void *am_data; /**< Message with unread data */
    size_t am_length;
    int has_am;
    ucs_status_t ep_status;
} uc_side_t;


static void uc_die(const char *what, const char *why)
{
    printf("error %s: %s\n", what, why);
    fflush(stdout);
    exit(MKV_TEST_EXIT_FAIL);
}

static void uc_check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        uc_die(what, ucs_status_string(status));
    }
}


/* ---- memory ---- */

static void uc_mem_move(const uc_mem_t *mem, void *to, const void *from, size_t length)
{
    if (!mem->is_device) {
        memcpy(to, from, length);
    } else if (!mkv_hip_copy(to, from, length)) {
        uc_die("memory", "hipMemcpy() failed");
    }
}

static void uc_mem_fill_at(const uc_mem_t *mem, char *at, size_t length, uint64_t seed)
{
    char *chunk = malloc(UC_CHUNK);
    size_t done, piece;

    for (done = 0; done < length; done += piece) {
        piece = (length - done < UC_CHUNK) ? length - done : UC_CHUNK;
        mkv_pattern_fill(chunk, piece, seed, done);
        uc_mem_move(mem, at + done, chunk, piece);
    }
    free(chunk);
}

/* Returns how many bytes are right. */
static size_t uc_mem_check_at(const uc_mem_t *mem, const char *at, size_t length,
                              uint64_t seed)
{
    char *chunk = malloc(UC_CHUNK);
    size_t done, piece, same;

    for (done = 0; done < length; done += same) {
        piece = (length - done < UC_CHUNK) ? length - done : UC_CHUNK;
        uc_mem_move(mem, chunk, at + done, piece);
        same = mkv_pattern_check(chunk, piece, seed, done);
        if (same < piece) {
            done += same;
            break;
        }
    }
    free(chunk);
    return done;
}

static void uc_mem_create(uc_mem_t *mem, size_t length, int is_device)
{
    size_t size = length + (2 * UC_GUARD);

    mem->length = length;
    mem->is_device = is_device;
    mem->base = is_device ? mkv_hip_alloc(size) : malloc(size);
    if (mem->base == NULL) {
        uc_die("memory", is_device ? mkv_hip_why() : "none left");
    }
    mem->data = mem->base + UC_GUARD;
    uc_mem_fill_at(mem, mem->base, UC_GUARD, UC_SEED_GUARD);
    uc_mem_fill_at(mem, mem->data + length, UC_GUARD, UC_SEED_GUARD);
}

static void uc_mem_destroy(uc_mem_t *mem)
{
    if (mem->is_device) {
        mkv_hip_free(mem->base);
    } else {
        free(mem->base);
    }
}

/* The bytes and those around them; the reason when something is wrong, else NULL. */
static const char *uc_mem_verify(const uc_mem_t *mem, uint64_t seed)
{
    static char text[128];
    size_t same = uc_mem_check_at(mem, mem->data, mem->length, seed);

    if (same < mem->length) {
        snprintf(text, sizeof(text), "byte %zu of %zu in %s memory is wrong", same,
                 mem->length, uc_type_names[mem->is_device]);
        return text;
    }

    if ((uc_mem_check_at(mem, mem->base, UC_GUARD, UC_SEED_GUARD) < UC_GUARD) ||
        (uc_mem_check_at(mem, mem->data + mem->length, UC_GUARD, UC_SEED_GUARD) <
         UC_GUARD)) {
        snprintf(text, sizeof(text), "bytes around %zu in %s memory were written",
                 mem->length, uc_type_names[mem->is_device]);
        return text;
    }

    return NULL;
}


/* ---- UCP ---- */

static ucs_status_t uc_on_am(void *arg, const void *header, size_t header_length,
                             void *data, size_t length,
                             const ucp_am_recv_param_t *param)
{
    uc_side_t *side = arg;

    (void)header;
    (void)header_length;
    if (!(param->recv_attr &
          (UCP_AM_RECV_ATTR_FLAG_DATA | UCP_AM_RECV_ATTR_FLAG_RNDV))) {
        uc_die("am", "data that may not be kept");
    }
    side->am_data = data;
    side->am_length = length;
    side->has_am = 1;
    return UCS_INPROGRESS;
}

static void uc_on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    uc_side_t *side = arg;

    (void)ep;
    side->ep_status = status;
    printf("%s: endpoint failed: %s\n", side->name, ucs_status_string(status));
}

static void uc_open(uc_side_t *side)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_AM |
                                             UCP_FEATURE_STREAM | UCP_FEATURE_RMA |
                                             UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64};
    const ucp_worker_params_t worker_params = {.field_mask =
                                                   UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                               .thread_mode = UCS_THREAD_MODE_SINGLE};
    const ucp_am_handler_param_t am_params = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = UC_AM_ID,
        .flags = UCP_AM_FLAG_PERSISTENT_DATA,
        .cb = uc_on_am,
        .arg = side};

    uc_check(ucp_init(&params, NULL, &side->context), "ucp_init");
    uc_check(ucp_worker_create(side->context, &worker_params, &side->worker),
             "ucp_worker_create");
    uc_check(ucp_worker_set_am_recv_handler(side->worker, &am_params), "am handler");
    uc_check(
        ucp_worker_get_address(side->worker, &side->address, &side->address_length),
        "ucp_worker_get_address");
}

static void uc_connect(uc_side_t *side, const void *address, int is_peer_mode)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = address,
                                    .err_mode = is_peer_mode
                                                    ? UCP_ERR_HANDLING_MODE_PEER
                                                    : UCP_ERR_HANDLING_MODE_NONE,
                                    .err_handler = {.cb = uc_on_error, .arg = side}};

    uc_check(ucp_ep_create(side->worker, &params, &side->ep), "ucp_ep_create");
}

/* Yield: the other end may need this processor. */
static void uc_progress(uc_side_t *side)
{
    if (ucp_worker_progress(side->worker) == 0) {
        sched_yield();
    }
}

static void uc_wait(uc_side_t *side, ucs_status_ptr_t request, const char *what)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;

    if (request == NULL) {
        return;
    }
    if (UCS_PTR_IS_ERR(request)) {
        uc_die(what, ucs_status_string(UCS_PTR_STATUS(request)));
    }

    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        uc_progress(side);
        if (mkv_test_now_ms() > deadline) {
            uc_die(what, "it does not end");
        }
    }
    ucp_request_free(request);
    uc_check(status, what);
}

static void uc_flush(uc_side_t *side)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    uc_wait(side, ucp_ep_flush_nbx(side->ep, &param), "flush");
}

static void uc_recv_msg(uc_side_t *side, uc_msg_t *msg)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ssize_t got;

    do {
        got = mkv_proc_recv(side->fd, msg, sizeof(*msg),
                            (ucp_worker_progress(side->worker) > 0) ? 0 : 1);
        if ((got == 0) || ((got < 0) && (errno != ETIMEDOUT))) {
            uc_die(side->name, "the other end is gone");
        }
    } while ((got < 0) && (mkv_test_now_ms() < deadline));
    if (got < 0) {
        uc_die(side->name, "the other end says nothing");
    }
}

static void uc_send_msg(uc_side_t *side, const uc_msg_t *msg)
{
    if (mkv_proc_send(side->fd, msg, sizeof(*msg)) != 0) {
        uc_die(side->name, "the other end is gone");
    }
}


/* ---- the peer ---- */

static void uc_receive_am(uc_side_t *side, const uc_mem_t *mem)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    while (!side->has_am) {
        uc_progress(side);
        if (mkv_test_now_ms() > deadline) {
            uc_die("am", "no message came");
        }
    }
    side->has_am = 0;
    if (side->am_length != mem->length) {
        uc_die("am", "a message of another length came");
    }
    uc_wait(side,
            ucp_am_recv_data_nbx(side->worker, side->am_data, mem->data, mem->length,
                                 &param),
            "am receive");
}

static void uc_receive(uc_side_t *side, uc_api_t api, const uc_mem_t *mem)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    size_t length = 0;

    if (api == UC_TAG_API) {
        uc_wait(side,
                ucp_tag_recv_nbx(side->worker, mem->data, mem->length, UC_TAG,
                                 UINT64_MAX, &param),
                "tag receive");
    } else if (api == UC_AM) {
        uc_receive_am(side, mem);
    } else {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_STREAM_RECV_FLAG_WAITALL;
        uc_wait(side,
                ucp_stream_recv_nbx(side->ep, mem->data, mem->length, &length, &param),
                "stream receive");
    }
}

static void uc_expose(uc_side_t *side, const uc_mem_t *mem, ucp_mem_h *memh,
                      uc_msg_t *rep)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                         .address = mem->base,
                                         .length = mem->length + (2 * UC_GUARD)};
    void *key;

    uc_check(ucp_mem_map(side->context, &params, memh), "ucp_mem_map");
    uc_check(ucp_rkey_pack(side->context, *memh, &key, &rep->data_length),
             "ucp_rkey_pack");
    if (rep->data_length > UC_MAX_DATA) {
        uc_die("key", "it is too long");
    }
    memcpy(rep->data, key, rep->data_length);
    ucp_rkey_buffer_release(key);
    rep->address = (uintptr_t)mem->data;
}

static void uc_verify(const uc_mem_t *mem, uint64_t seed, uc_msg_t *rep)
{
    const char *why = uc_mem_verify(mem, seed);

    rep->is_error = (why != NULL);
    snprintf(rep->text, sizeof(rep->text), "%.120s", (why != NULL) ? why : "");
}

static void uc_serve(uc_side_t *side)
{
    static uc_msg_t req, rep;
    ucp_mem_h memh = NULL;
    uc_mem_t mem;

    do {
        uc_recv_msg(side, &req);
        memset(&rep, 0, sizeof(rep));
        rep.cmd = req.cmd;
        if (req.cmd == UC_RECV) {
            uc_mem_create(&mem, req.length, req.is_device);
            uc_receive(side, req.api, &mem);
            uc_verify(&mem, req.seed, &rep);
            uc_mem_destroy(&mem);
        } else if (req.cmd == UC_EXPOSE) {
            uc_mem_create(&mem, req.length, req.is_device);
            uc_mem_fill_at(&mem, mem.data, mem.length, req.seed);
            uc_expose(side, &mem, &memh, &rep);
        } else if (req.cmd == UC_CHECK) {
            uc_verify(&mem, req.seed, &rep);
            ucp_mem_unmap(side->context, memh);
            uc_mem_destroy(&mem);
        }
        uc_send_msg(side, &rep);
    } while (req.cmd != UC_EXIT);
}


/* ---- the first process ---- */

static void uc_expect(uc_side_t *side, uc_msg_t *msg, const char *what)
{
    uc_recv_msg(side, msg);
    if (msg->is_error) {
        uc_die(what, msg->text);
    }
}

static void uc_message(uc_side_t *side, const uc_msg_t *req, const uc_mem_t *mem)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    static uc_msg_t rep;
    ucs_status_ptr_t request;

    uc_send_msg(side, req);
    if (req->api == UC_TAG_API) {
        request = ucp_tag_send_nbx(side->ep, mem->data, mem->length, UC_TAG, &param);
    } else if (req->api == UC_AM) {
        request = ucp_am_send_nbx(side->ep, UC_AM_ID, NULL, 0, mem->data, mem->length,
                                  &param);
    } else {
        request = ucp_stream_send_nbx(side->ep, mem->data, mem->length, &param);
    }
    uc_wait(side, request, "send");
    uc_expect(side, &rep, "message");
}

/* The peer's memory holds the seed's bytes; its later contents are the result. */
static void uc_one_sided(uc_side_t *side, const uc_msg_t *req, uc_mem_t *mem)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    static uc_msg_t msg;
    ucp_rkey_h rkey;
    const char *why;

    msg = *req;
    msg.seed = req->seed + (req->api == UC_PUT);
    uc_send_msg(side, &msg);
    uc_expect(side, &msg, "expose");
    uc_check(ucp_ep_rkey_unpack(side->ep, msg.data, &rkey), "ucp_ep_rkey_unpack");
    if (req->api == UC_PUT) {
        uc_wait(
            side,
            ucp_put_nbx(side->ep, mem->data, mem->length, msg.address, rkey, &param),
            "put");
        uc_flush(side);
    } else {
        uc_mem_fill_at(mem, mem->data, mem->length, req->seed + 1);
        uc_wait(
            side,
            ucp_get_nbx(side->ep, mem->data, mem->length, msg.address, rkey, &param),
            "get");
        why = uc_mem_verify(mem, req->seed);
        if (why != NULL) {
            uc_die("get", why);
        }
    }
    ucp_rkey_destroy(rkey);
    msg.cmd = UC_CHECK;
    msg.seed = req->seed;
    uc_send_msg(side, &msg);
    uc_expect(side, &msg, "check");
}

/* A swap of 4 or 8 bytes: the reply may be in memory of any type, the value may not. */
static void uc_swap(uc_side_t *side, const uc_msg_t *req, uc_mem_t *mem)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE |
                                                 UCP_OP_ATTR_FIELD_REPLY_BUFFER,
                                 .datatype = ucp_dt_make_contig(req->length),
                                 .reply_buffer = mem->data};
    char operand[UC_MAX_WORD];
    static uc_msg_t msg;
    ucp_rkey_h rkey;
    const char *why;

    mkv_pattern_fill(operand, req->length, req->seed, 0);
    msg = *req;
    msg.is_device = 0;
    msg.seed = req->seed + 1;
    uc_send_msg(side, &msg);
    uc_expect(side, &msg, "expose");
    uc_check(ucp_ep_rkey_unpack(side->ep, msg.data, &rkey), "ucp_ep_rkey_unpack");
    uc_wait(side,
            ucp_atomic_op_nbx(side->ep, UCP_ATOMIC_OP_SWAP, operand, 1, msg.address,
                              rkey, &param),
            "swap");
    why = uc_mem_verify(mem, req->seed + 1);
    if (why != NULL) {
        uc_die("swap", why);
    }
    ucp_rkey_destroy(rkey);
    msg.cmd = UC_CHECK;
    msg.seed = req->seed;
    uc_send_msg(side, &msg);
    uc_expect(side, &msg, "check");
}

/* Run an operation; returns 0 if the API has no such operation. */
static int uc_run_one(uc_side_t *side, uc_api_t api, size_t length, int here, int there)
{
    static uc_msg_t req;
    static uint64_t seed = 1000;
    uc_mem_t mem;

    if (((api == UC_STREAM) && (length == 0)) ||
        ((api == UC_ATOMIC) && (((length != 4) && (length != 8)) || there))) {
        return 0;
    }

    seed += 2;
    memset(&req, 0, sizeof(req));
    req.cmd = ((api == UC_TAG_API) || (api == UC_AM) || (api == UC_STREAM)) ? UC_RECV
                                                                            : UC_EXPOSE;
    req.api = api;
    req.is_device = there;
    req.length = length;
    req.seed = seed;
    uc_mem_create(&mem, length, here);
    uc_mem_fill_at(&mem, mem.data, length, seed);
    if (req.cmd == UC_RECV) {
        uc_message(side, &req, &mem);
    } else if (api == UC_ATOMIC) {
        uc_swap(side, &req, &mem);
    } else {
        uc_one_sided(side, &req, &mem);
    }
    uc_mem_destroy(&mem);
    return 1;
}

static void uc_run_api(uc_side_t *side, uc_api_t api, size_t max_length)
{
    unsigned count = 0, i;
    int here, there;
    size_t length = 0;

    for (here = 0; here < 2; ++here) {
        for (there = 0; there < 2; ++there) {
            for (i = 0; i < sizeof(uc_lengths) / sizeof(uc_lengths[0]); ++i) {
                length = uc_lengths[i];
                if (length <= max_length) {
                    count += (unsigned)uc_run_one(side, api, length, here, there);
                }
            }
            if (api == UC_ATOMIC) {
                count += (unsigned)uc_run_one(side, api, 4, here, there);
            }
        }
    }
    printf("%s: %u operations between host and rocm memory, every byte compared\n",
           uc_api_names[api], count);
    fflush(stdout);
}


/* ---- life ---- */

static int uc_is_peer_mode;

static void uc_exchange_addresses(uc_side_t *side)
{
    static uc_msg_t own, other;

    own.cmd = UC_HELLO;
    own.data_length = side->address_length;
    if (own.data_length > UC_MAX_DATA) {
        uc_die("address", "it is too long");
    }
    memcpy(own.data, side->address, side->address_length);
    uc_send_msg(side, &own);
    uc_recv_msg(side, &other);
    uc_connect(side, other.data, uc_is_peer_mode);
}

static void uc_start(uc_side_t *side, int device)
{
    if (!mkv_hip_set_device(
            device % ((mkv_hip_num_devices() > 0) ? mkv_hip_num_devices() : 1))) {
        uc_die("device", mkv_hip_why());
    }
    uc_open(side);
    uc_exchange_addresses(side);
}

static void uc_stop(uc_side_t *side)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = uc_is_peer_mode ? UCP_EP_CLOSE_FLAG_FORCE : 0};
    static uc_msg_t msg;

    /* a close may need the other end's progress: each end stays until both have closed
     */
    uc_wait(side, ucp_ep_close_nbx(side->ep, &param), "close");
    uc_send_msg(side, &msg);
    uc_recv_msg(side, &msg);
    ucp_worker_release_address(side->worker, side->address);
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
    if (mkv_hip_last_error() != 0) {
        uc_die("HIP", "an error is left for the application");
    }
}

static int uc_peer_main(int fd, void *arg)
{
    uc_side_t side = {.name = "peer", .fd = fd};

    (void)arg;
    uc_start(&side, 1);
    uc_serve(&side);
    uc_stop(&side);
    return MKV_TEST_EXIT_OK;
}

static int uc_usage(void)
{
    fprintf(stderr, "usage: ucp_copy MAX_LENGTH none|peer API..\n"
                    "APIs: tag am stream put get atomic\n");
    return MKV_TEST_EXIT_HARD;
}

static int uc_find_api(const char *name)
{
    int api;

    for (api = 0; uc_api_names[api] != NULL; ++api) {
        if (strcmp(uc_api_names[api], name) == 0) {
            return api;
        }
    }

    return -1;
}

int main(int argc, char **argv)
{
    uc_side_t side = {.name = "first"};
    static uc_msg_t msg;
    mkv_proc_t peer;
    int i;

    mkv_test_init();
    if (argc < 4) {
        return uc_usage();
    }
    for (i = 3; i < argc; ++i) {
        if (uc_find_api(argv[i]) < 0) {
            return uc_usage();
        }
    }

    uc_is_peer_mode = (strcmp(argv[2], "peer") == 0);
    if (mkv_proc_fork(&peer, uc_peer_main, NULL) != 0) {
        uc_die("fork", strerror(errno));
    }
    side.fd = peer.fd;
    uc_start(&side, 0);
    for (i = 3; i < argc; ++i) {
        uc_run_api(&side, (uc_api_t)uc_find_api(argv[i]), strtoull(argv[1], NULL, 0));
    }

    msg.cmd = UC_EXIT;
    uc_send_msg(&side, &msg);
    uc_expect(&side, &msg, "exit");
    uc_stop(&side);
    if ((mkv_proc_wait(&peer) != 0) || (mkv_proc_exit_status(&peer) != 0)) {
        uc_die("peer", "it did not end well");
    }
    mkv_proc_cleanup(&peer);
    printf("done\n");
    return MKV_TEST_EXIT_OK;
}
