/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * UCP as NIXL's UCX backend drives it: endpoints in peer failure mode, one call for
 * each block with a memory handle, requests of all but the last freed at once, one
 * endpoint flush behind them; its end completes the post. With SGL, the blocks are one
 * call on arrays that were made when the job was started.
 *
 * A post is complete exactly once, when its flush is; flushes of one endpoint end in
 * order. The other process is notified there and then, without another progress call.
 */

#include "perf/kv_perf/engine/engine.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "perf/base/backoff.h"
#include "perf/kv_perf/engine/ucp_arrays.h"
#include "perf/kv_perf/engine/ucp_notify.h"
#include "perf/kv_perf/engine/ucp_path.h"

#include <ucp/api/ucp.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


enum { PERF_UCP_MAX_ADDRESS = 1 << 16 };

/* Message to the other processes; packed key and worker address follow. */
typedef struct perf_ucp_hello {
    uint64_t buffer;
    uint64_t size;
    uint64_t rkey_length;
} perf_ucp_hello_t;

typedef struct perf_ucp_peer {
    ucp_ep_h ep;
    ucp_rkey_h rkey;
    uint64_t buffer;
    char path[512]; /* UCX's text of the path of the job's first call */
    bool is_queried;
} perf_ucp_peer_t;

struct perf_engine {
    const perf_engine_params_t *params;
    const perf_options_t *options;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_mem_h memh;
    unsigned num_peers;
    perf_ucp_peer_t peers[PERF_MAX_LEAVES];
    perf_ucp_notify_t notify;
    ucs_status_t status; /* first error of any operation */
    uint64_t cpu_ns;
    unsigned num_empty;
    bool is_closing;
};


static int perf_ucp_error(const char *what, ucs_status_t status)
{
    perf_error("%s: %s", what, ucs_status_string(status));
    return -1;
}

/* Request active messages only for notifications: they may add a lane. */
static bool perf_ucp_is_notified(const perf_engine_t *engine)
{
    return engine->options->scheme == PERF_SCHEME_PINGPONG;
}

static bool perf_ucp_is_read(const perf_engine_t *engine)
{
    return engine->options->op == PERF_OP_READ;
}

/* UCX closes by force only endpoints that report a failed peer. */
static bool perf_ucp_reports_failures(const perf_engine_t *engine)
{
    return engine->options->error_mode == PERF_ERROR_MODE_PEER;
}

static void perf_ucp_ep_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    perf_engine_t *engine = arg;
    const char *path = "";
    unsigned i;

    if ((engine->status != UCS_OK) || engine->is_closing) {
        return;
    }
    for (i = 0; i < engine->num_peers; ++i) {
        if (engine->peers[i].ep == ep) {
            path = engine->peers[i].path;
        }
    }
    /* this may precede UCP's cancel of the flush; the path may be the cause */
    perf_error("an endpoint failed: %s%s%s", ucs_status_string(status),
               (path[0] == '\0') ? "" : "; ", path);
    engine->status = status;
}

static int perf_ucp_open_context(perf_engine_t *engine)
{
    const perf_engine_params_t *params = engine->params;
    ucp_params_t context_params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                   .features = UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucp_mem_map_params_t map_params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = params->buffer,
        .length = params->size,
        .memory_type = perf_memory_type(params->run->memory),
    };
    ucs_status_t status;

    context_params.features |= perf_ucp_is_notified(engine) ? UCP_FEATURE_AM : 0;
    status = ucp_init(&context_params, NULL, &engine->context);
    if (status != UCS_OK) {
        return perf_ucp_error("ucp_init", status);
    }

    status = ucp_worker_create(engine->context, &worker_params, &engine->worker);
    if (status != UCS_OK) {
        perf_ucp_error("ucp_worker_create", status);
        goto err_cleanup;
    }

    if (perf_ucp_is_notified(engine)) {
        status = perf_ucp_notify_init(&engine->notify, engine->worker);
        if (status != UCS_OK) {
            perf_ucp_error("ucp_worker_set_am_recv_handler", status);
            goto err_destroy;
        }
    }

    status = ucp_mem_map(engine->context, &map_params, &engine->memh);
    if (status != UCS_OK) {
        perf_ucp_error("ucp_mem_map", status);
        goto err_destroy;
    }
    return 0;

err_destroy:
    ucp_worker_destroy(engine->worker);
err_cleanup:
    ucp_cleanup(engine->context);
    return -1;
}

static int perf_ucp_send_hello(perf_engine_t *engine, perf_channel_t *channel)
{
    perf_ucp_hello_t hello = {(uintptr_t)engine->params->buffer, engine->params->size,
                              0};
    size_t address_length, rkey_length;
    ucp_address_t *address;
    ucs_status_t status;
    int ret = -1;
    void *rkey;

    status = ucp_worker_get_address(engine->worker, &address, &address_length);
    if (status != UCS_OK) {
        return perf_ucp_error("ucp_worker_get_address", status);
    }

    status = ucp_rkey_pack(engine->context, engine->memh, &rkey, &rkey_length);
    if (status == UCS_OK) {
        hello.rkey_length = rkey_length;
        ret = ((perf_channel_send(channel, PERF_CHANNEL_ADDRESS, &hello,
                                  sizeof(hello)) == 0) &&
               (perf_channel_send(channel, PERF_CHANNEL_ADDRESS, rkey, rkey_length) ==
                0) &&
               (perf_channel_send(channel, PERF_CHANNEL_ADDRESS, address,
                                  address_length) == 0))
                  ? 0
                  : -1;
        ucp_rkey_buffer_release(rkey);
    } else {
        perf_ucp_error("ucp_rkey_pack", status);
    }
    ucp_worker_release_address(engine->worker, address);
    return ret;
}

static int perf_ucp_connect_to(perf_engine_t *engine, perf_ucp_peer_t *peer,
                               const void *rkey, const void *address)
{
    ucp_ep_params_t ep_params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = perf_ucp_ep_failed, .arg = engine},
    };
    ucs_status_t status;

    if (!perf_ucp_reports_failures(engine)) {
        ep_params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    }

    status = ucp_ep_create(engine->worker, &ep_params, &peer->ep);
    if (status != UCS_OK) {
        return perf_ucp_error("ucp_ep_create", status);
    }
    ++engine->num_peers;

    status = ucp_ep_rkey_unpack(peer->ep, rkey, &peer->rkey);
    return (status == UCS_OK) ? 0 : perf_ucp_error("ucp_ep_rkey_unpack", status);
}

static int perf_ucp_receive_hello(perf_engine_t *engine, perf_channel_t *channel,
                                  perf_ucp_peer_t *peer)
{
    perf_ucp_hello_t hello;
    size_t length;
    char *room;
    int ret;

    ret = perf_channel_recv(channel, PERF_CHANNEL_ADDRESS, &hello, sizeof(hello), NULL,
                            NULL, NULL);
    if ((ret != 0) || (hello.rkey_length > PERF_UCP_MAX_ADDRESS)) {
        return -1;
    }
    if (hello.size != engine->params->size) {
        perf_error("the other process has %" PRIu64 " bytes; expected %zu", hello.size,
                   engine->params->size);
        return -1;
    }

    room = malloc(2 * PERF_UCP_MAX_ADDRESS);
    if (room == NULL) {
        perf_error("no memory for an address");
        return -1;
    }

    peer->buffer = hello.buffer;
    ret =
        ((perf_channel_recv(channel, PERF_CHANNEL_ADDRESS, room, hello.rkey_length,
                            NULL, NULL, NULL) == 0) &&
         (perf_channel_recv(channel, PERF_CHANNEL_ADDRESS, room + PERF_UCP_MAX_ADDRESS,
                            PERF_UCP_MAX_ADDRESS, &length, NULL, NULL) == 0) &&
         (perf_ucp_connect_to(engine, peer, room, room + PERF_UCP_MAX_ADDRESS) == 0))
            ? 0
            : -1;
    free(room);
    return ret;
}

/* Ignore the status: the other side may have closed first. */
static void perf_ucp_close_ep(perf_engine_t *engine, ucp_ep_h ep, bool is_forced)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = is_forced ? UCP_EP_CLOSE_FLAG_FORCE : 0,
    };
    void *request = ucp_ep_close_nbx(ep, &param);

    if (UCS_PTR_IS_PTR(request)) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(engine->worker);
        }
        ucp_request_free(request);
    }
}

static void perf_ucp_end_of_test(perf_engine_t *engine)
{
    engine->is_closing = true;
}

static void perf_ucp_close(perf_engine_t *engine)
{
    perf_ucp_peer_t *peer;
    bool is_bad = (engine->status != UCS_OK) || (engine->notify.status != UCS_OK);

    engine->is_closing = true;
    for (peer = engine->peers; peer < engine->peers + engine->num_peers; ++peer) {
        if (peer->rkey != NULL) {
            ucp_rkey_destroy(peer->rkey);
        }
        /* else ucp_worker_destroy() ends the endpoint */
        if (!is_bad || perf_ucp_reports_failures(engine)) {
            perf_ucp_close_ep(engine, peer->ep, is_bad);
        }
    }
    ucp_mem_unmap(engine->context, engine->memh);
    ucp_worker_destroy(engine->worker);
    ucp_cleanup(engine->context);
    free(engine);
}

static int perf_ucp_open(const perf_engine_params_t *params, perf_engine_t **engine_p)
{
    perf_run_t *run = params->run;
    perf_engine_t *engine;
    unsigned i;

    engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        perf_error("no memory for an engine");
        return -1;
    }

    engine->params = params;
    engine->options = run->options;
    if (perf_ucp_open_context(engine) != 0) {
        free(engine);
        return -1;
    }

    for (i = 0; i < run->num_channels; ++i) {
        if ((perf_ucp_send_hello(engine, &run->channels[i]) != 0) ||
            (perf_ucp_receive_hello(engine, &run->channels[i], &engine->peers[i]) !=
             0)) {
            engine->status = UCS_ERR_UNREACHABLE;
            perf_ucp_close(engine);
            return -1;
        }
    }

    *engine_p = engine;
    return 0;
}

static void perf_ucp_arrays_fill(perf_engine_t *engine, const perf_job_t *job,
                                 perf_ucp_arrays_t *arrays)
{
    const perf_ucp_peer_t *peer = &engine->peers[job->peer];
    size_t block_size = engine->params->block_sizes[job->view];
    uint32_t i;

    for (i = 0; i < job->num_blocks; ++i) {
        arrays->buffers[i] =
            (char *)engine->params->buffer + job->local[i] * block_size;
        arrays->lengths[i] = block_size;
        arrays->memhs[i] = engine->memh;
        arrays->remote_addrs[i] = peer->buffer + job->remote[i] * block_size;
        arrays->rkeys[i] = peer->rkey;
    }
}

static int perf_ucp_start(perf_engine_t *engine, perf_job_t *job)
{
    uint64_t start_ns = perf_clock_ns();
    perf_ucp_arrays_t *arrays;

    arrays = perf_ucp_arrays_create(job->num_blocks);
    if (arrays == NULL) {
        perf_error("no memory for lists of %u blocks", job->num_blocks);
        return -1;
    }

    perf_ucp_arrays_fill(engine, job, arrays);
    arrays->engine = engine;
    arrays->job = job;
    engine->peers[job->peer].is_queried = false;
    job->num_merged = job->num_blocks;
    job->prep_ns += perf_clock_ns() - start_ns;
    job->priv = arrays;
    return 0;
}

static uint32_t perf_ucp_query_flag(const perf_ucp_peer_t *peer)
{
    return peer->is_queried ? 0 : UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
}

/* Once a job: the first call leaves a request, which names its transport. */
static void perf_ucp_note_path(perf_engine_t *engine, perf_ucp_peer_t *peer,
                               void *request)
{
    if (!peer->is_queried && UCS_PTR_IS_PTR(request)) {
        perf_ucp_path_query(engine->options, request, peer->path, sizeof(peer->path));
        peer->is_queried = true;
    }
}

/* All blocks; the request of the last one that did not complete at once. */
static void *perf_ucp_post_loop(perf_engine_t *engine, const perf_job_t *job,
                                const perf_ucp_arrays_t *arrays)
{
    perf_ucp_peer_t *peer = &engine->peers[job->peer];
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FIELD_FLAGS |
                        perf_ucp_query_flag(peer),
        .memh = engine->memh,
        .flags = UCP_OP_ATTR_FLAG_MULTI_SEND,
    };
    void *request = NULL;
    uint32_t i;

    for (i = 0; i < job->num_blocks; ++i) {
        if (request != NULL) {
            ucp_request_free(request);
        }
        request = perf_ucp_is_read(engine)
                      ? ucp_get_nbx(peer->ep, arrays->buffers[i], arrays->lengths[i],
                                    arrays->remote_addrs[i], peer->rkey, &param)
                      : ucp_put_nbx(peer->ep, arrays->buffers[i], arrays->lengths[i],
                                    arrays->remote_addrs[i], peer->rkey, &param);
        if (UCS_PTR_IS_ERR(request)) {
            break;
        }
        if (i == 0) {
            perf_ucp_note_path(engine, peer, request);
            param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        }
    }
    return request;
}

static void *perf_ucp_post_sgl(perf_engine_t *engine, const perf_job_t *job,
                               const perf_ucp_arrays_t *arrays)
{
    ucp_dt_local_sgl_t local = {
        .field_mask = UCP_DT_LOCAL_SGL_FIELD_BUFFERS | UCP_DT_LOCAL_SGL_FIELD_LENGTHS |
                      UCP_DT_LOCAL_SGL_FIELD_MEMHS,
        .buffers = arrays->buffers,
        .lengths = arrays->lengths,
        .memhs = arrays->memhs,
    };
    ucp_dt_remote_sgl_t remote = {
        .field_mask = UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS |
                      UCP_DT_REMOTE_SGL_FIELD_LENGTHS | UCP_DT_REMOTE_SGL_FIELD_RKEYS,
        .remote_addrs = arrays->remote_addrs,
        .lengths = arrays->lengths,
        .rkeys = arrays->rkeys,
    };
    perf_ucp_peer_t *peer = &engine->peers[job->peer];
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE |
                        UCP_OP_ATTR_FIELD_REMOTE | UCP_OP_ATTR_FIELD_REMOTE_COUNT |
                        perf_ucp_query_flag(peer),
        .datatype = ucp_dt_make_sgl(),
        .remote_datatype = ucp_dt_make_sgl(),
        .remote = &remote,
        .remote_count = job->num_blocks,
    };
    void *request;

    request = ucp_put_nbx(peer->ep, &local, job->num_blocks, UCP_REMOTE_ADDR_INVALID,
                          UCP_RKEY_INVALID, &param);
    perf_ucp_note_path(engine, peer, request);
    return request;
}

static void perf_ucp_is_there(perf_engine_t *engine, perf_job_t *job)
{
    ++job->num_completed;
    if (job->is_notified) {
        perf_ucp_notify_send(&engine->notify, engine->peers[job->peer].ep, job);
    }
}

static void perf_ucp_flushed(void *request, ucs_status_t status, void *user_data)
{
    perf_ucp_arrays_t *arrays = user_data;
    perf_engine_t *engine = arrays->engine;

    if (status == UCS_OK) {
        perf_ucp_is_there(engine, arrays->job);
    } else if (engine->status == UCS_OK) {
        perf_error("ucp_ep_flush_nbx: %s; %s", ucs_status_string(status),
                   engine->peers[arrays->job->peer].path);
        engine->status = status;
    }
    ucp_request_free(request);
}

static int perf_ucp_post(perf_engine_t *engine, perf_job_t *job)
{
    perf_ucp_arrays_t *arrays = job->priv;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = perf_ucp_flushed,
        .user_data = arrays,
    };
    bool is_sgl = (engine->options->api == PERF_API_UCP_SGL);
    uint64_t start_ns;
    void *request;

    if (job->is_recreate) {
        start_ns = perf_clock_ns();
        perf_ucp_arrays_fill(engine, job, arrays);
        job->prep_ns += perf_clock_ns() - start_ns;
    }

    request = is_sgl ? perf_ucp_post_sgl(engine, job, arrays)
                     : perf_ucp_post_loop(engine, job, arrays);
    if (UCS_PTR_IS_ERR(request)) {
        return perf_ucp_error(perf_ucp_is_read(engine) ? "ucp_get_nbx" : "ucp_put_nbx",
                              UCS_PTR_STATUS(request));
    }
    if (request != NULL) { /* the flush covers it */
        ucp_request_free(request);
    }
    job->num_ucp_calls += is_sgl ? 1 : job->num_blocks;

    request = ucp_ep_flush_nbx(engine->peers[job->peer].ep, &param);
    if (UCS_PTR_IS_ERR(request)) {
        return perf_ucp_error("ucp_ep_flush_nbx", UCS_PTR_STATUS(request));
    }
    if (request == NULL) {
        perf_ucp_is_there(engine, job);
    }
    return 0;
}

/* Operations are one-sided, except notifications. */
static int perf_ucp_serve(perf_engine_t *engine, perf_job_t *job)
{
    return job->is_notified ? perf_ucp_notify_add(&engine->notify, job) : 0;
}

static int perf_ucp_unserve(perf_engine_t *engine, perf_job_t *job)
{
    perf_ucp_notify_remove(&engine->notify, job);
    return 0;
}

static int perf_ucp_progress(perf_engine_t *engine)
{
    uint64_t start_ns = perf_clock_ns();

    if (ucp_worker_progress(engine->worker) != 0) {
        engine->cpu_ns += perf_clock_ns() - start_ns;
        perf_backoff(&engine->num_empty, true);
    } else {
        perf_backoff(&engine->num_empty, false);
    }
    return ((engine->status == UCS_OK) && (engine->notify.status == UCS_OK)) ? 0 : -1;
}

static int perf_ucp_stop(perf_engine_t *engine, perf_job_t *job)
{
    /* the other process may receive the last notification before the send completes
     * here */
    while (job->is_notified && ((job->num_completed < job->num_posts) ||
                                (engine->notify.num_sending > 0))) {
        if (perf_ucp_progress(engine) != 0) {
            return -1;
        }
    }
    perf_ucp_arrays_free(job->priv);
    return 0;
}

static void perf_ucp_path(perf_engine_t *engine, unsigned peer, char *path, size_t size)
{
    snprintf(path, size, "%s", engine->peers[peer].path);
}

static uint64_t perf_ucp_cpu_ns(const perf_engine_t *engine)
{
    return engine->cpu_ns;
}

const perf_engine_ops_t perf_engine_ucp = {
    .open = perf_ucp_open,
    .close = perf_ucp_close,
    .end_of_test = perf_ucp_end_of_test,
    .serve = perf_ucp_serve,
    .unserve = perf_ucp_unserve,
    .start = perf_ucp_start,
    .post = perf_ucp_post,
    .stop = perf_ucp_stop,
    .progress = perf_ucp_progress,
    .path = perf_ucp_path,
    .cpu_ns = perf_ucp_cpu_ns,
};
