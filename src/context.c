/* SPDX-License-Identifier: BSD-3-Clause */

/* Open, progress, close. */

#include "base/abi.h"
#include "base/event.h"
#include "base/name.h"
#include "plan/plan.h"
#include "memory/region.h"
#include "direct/op_watch.h"
#include "message/inbox.h"
#include "peer/path.h"
#include "message/peer_close.h"
#include "peer/process.h"
#include "post/flush.h"
#include "post/gate.h"
#include "post/post.h"
#include "progress.h"
#include "stage/loop.h"
#include "stage/stage_listen.h"
#include "threads.h"
#include "worker.h"
#include "xfer/owner.h"
#include "xfer/watch.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* ---- Open ------------------------------------------------------------------------ */

static void mkv_topology_init(mkv_topology_t *topology)
{
    uint32_t *sizes[] = {&topology->dp_size, &topology->pp_size, &topology->cp_size,
                         &topology->tp_size};
    size_t i;

    for (i = 0; i < 4; ++i) {
        *sizes[i] = (*sizes[i] == 0) ? 1 : *sizes[i];
    }
}

static mkv_status_t mkv_open_check(mkv_ctx_t *ctx)
{
    const mkv_topology_t *topology = &ctx->params.topology;

    if ((ctx->params.ucp_context == NULL) != (ctx->params.ucp_worker == NULL)) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "give both a UCP context and a worker, or none");
    }
    if ((topology->dp_rank >= topology->dp_size) ||
        (topology->pp_rank >= topology->pp_size) ||
        (topology->cp_rank >= topology->cp_size) ||
        (topology->tp_rank >= topology->tp_size)) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "topology dp %u/%u pp %u/%u cp %u/%u tp %u/%u: expected each "
                         "rank below its size",
                         topology->dp_rank, topology->dp_size, topology->pp_rank,
                         topology->pp_size, topology->cp_rank, topology->cp_size,
                         topology->tp_rank, topology->tp_size);
    }
    return MKV_OK;
}

static void mkv_ctx_init_lists(mkv_ctx_t *ctx)
{
    mkv_list_t *lists[] = {&ctx->regions,     &ctx->mems,           &ctx->peers,
                           &ctx->dead_peers,  &ctx->changed_peers,  &ctx->busy_peers,
                           &ctx->xfers,       &ctx->dirty_xfers,    &ctx->events,
                           &ctx->free_events, &ctx->polled_events,  &ctx->free_posts,
                           &ctx->new_events,  &ctx->list_cache,     &ctx->ops,
                           &ctx->dirty_ops,   &ctx->returned_events};
    size_t i;

    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); ++i) {
        mkv_list_init(lists[i]);
    }
    for (i = 0; i < MKV_LIST_CLASSES; ++i) {
        mkv_list_init(&ctx->list_classes[i]);
    }
    for (i = 0; i < MKV_XFER_BUCKETS; ++i) {
        mkv_list_init(&ctx->buckets[i]);
    }
    for (i = 0; i < MKV_PEER_BUCKETS; ++i) {
        mkv_list_init(&ctx->peer_buckets[i]);
    }
}

static void mkv_ctx_init_identity(mkv_ctx_t *ctx)
{
    char host[40] = "host";
    uint64_t random[4] = {0, 0, 0, 0};

    mkv_process_self(&ctx->process);
    mkv_spaces_self(&ctx->process.spaces, ctx->opts->shm_dir);
    if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
        random[0] = mkv_ctx_now(ctx);
    }
    ctx->nonce_state =
        random[0] ^ ((uint64_t)ctx->process.pid << 32) ^ (uint64_t)(uintptr_t)ctx;
    ctx->process.ctx_id = mkv_ctx_nonce(ctx) ^ random[1];
    ctx->process.ctx_id += (ctx->process.ctx_id == 0);
    ctx->proof_key[0] = random[2];
    ctx->proof_key[1] = random[3];
    (void)gethostname(host, sizeof(host) - 1);
    if (ctx->params.name != NULL) {
        mkv_name_set(ctx->name, ctx->params.name);
    } else {
        mkv_text(ctx->name, sizeof(ctx->name), "%s:%u", host, ctx->process.pid);
    }
    ctx->params.name = ctx->name;
    ctx->log.name = ctx->name;
}

static mkv_status_t mkv_ctx_init(mkv_ctx_t *ctx, const mkv_open_params_t *params)
{
    mkv_status_t status = MKV_OK;
    pthread_mutexattr_t attr;

    if (params != NULL) {
        status = mkv_struct_read(NULL, &mkv_struct_open_params, params, &ctx->params);
    }
    if (status != MKV_OK) {
        return status;
    }
    ctx->log.level = (mkv_log_level_t)ctx->opts->log_level;
    ctx->log.sink = ctx->params.log;
    ctx->log.arg = ctx->params.log_arg;
    ctx->epoll_fd = ctx->wake_fd = ctx->timer_fd = ctx->threads_fd = ctx->ends_fd = -1;
    ctx->next_deadline = MKV_NEVER;
    ctx->is_progress_due = true;
    ctx->features = MKV_FEATURES;
    if (ctx->opts->read_by == MKV_READ_GET) {
        ctx->features &= ~(uint64_t)MKV_FEATURE_PUSH;
    }
    if (ctx->opts->stage_below == 0) {
        ctx->features &= ~(uint64_t)MKV_FEATURE_STAGE;
    }
    mkv_topology_init(&ctx->params.topology);
    mkv_ctx_init_identity(ctx);

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&ctx->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_mutex_init(&ctx->event_lock, NULL);
    pthread_mutex_init(&ctx->mem_lock, NULL);
    pthread_mutex_init(&ctx->pair_lock, NULL);
    return MKV_OK;
}

static void mkv_ctx_open_claims(mkv_ctx_t *ctx)
{
    ctx->claims = mkv_claims_open(ctx->opts->shm_dir, ctx->process.ctx_id);
    if (ctx->claims == NULL) {
        mkv_log_warn(ctx,
                     "no lock file in %s: %s; when this process ends, peers on this "
                     "host cannot prove that their blocks are free",
                     ctx->opts->shm_dir, strerror(errno));
    }
    ctx->ends_fd = epoll_create1(EPOLL_CLOEXEC); /* optional: without epoll, the ends of
                                                  * processes are polled */
}

static void mkv_ctx_close_claims(mkv_ctx_t *ctx)
{
    mkv_claims_close(ctx->claims);
    if (ctx->ends_fd >= 0) {
        close(ctx->ends_fd);
    }
}

/* A context with its options, and nothing that would have to be closed */
static mkv_status_t mkv_ctx_create(const mkv_config_t *config, mkv_ctx_t **ctx_p)
{
    mkv_ctx_t *ctx = calloc(1, sizeof(*ctx));
    mkv_status_t status;

    if (ctx == NULL) {
        return mkv_error(NULL, MKV_ERR_NOMEM, "no memory for a context");
    }
    ctx->num_forks = mkv_num_forks;
    mkv_ctx_init_lists(ctx);
    mkv_progress_init(ctx);
    mkv_xfers_listen(ctx);
    mkv_stage_listen(ctx);
    mkv_posts_listen(ctx);
    mkv_ops_listen(ctx);

    if (config == NULL) {
        status = mkv_config_read(NULL, &ctx->config);
    } else {
        ctx->config = mkv_config_copy(config);
        status = (ctx->config != NULL) ? MKV_OK : MKV_ERR_NOMEM;
    }
    if (status != MKV_OK) {
        free(ctx);
        return status;
    }
    ctx->opts = mkv_config_options(ctx->config);
    ctx->tuning = mkv_tuning;
    *ctx_p = ctx;
    return MKV_OK;
}

/* Start UCX and the progress threads; both may call into the context from then on */
static mkv_status_t mkv_ctx_start(mkv_ctx_t *ctx)
{
    mkv_status_t status = mkv_worker_open(ctx);

    if (status != MKV_OK) {
        return status;
    }
    status = mkv_inbox_open(ctx);
    if (status != MKV_OK) {
        goto err_worker;
    }
    mkv_ctx_open_claims(ctx);
    status = mkv_threads_start(ctx);
    if (status != MKV_OK) {
        goto err_claims;
    }
    return MKV_OK;

err_claims:
    mkv_ctx_close_claims(ctx);
    mkv_inbox_close(ctx);
err_worker:
    mkv_worker_close(ctx);
    return status;
}

mkv_status_t mkv_open(const mkv_config_t *config, const mkv_open_params_t *params,
                      mkv_ctx_t **ctx_p)
{
    mkv_ctx_t *ctx = NULL;
    mkv_status_t status;

    status = mkv_forks_watch();
    if (status != MKV_OK) {
        return status;
    }
    status = mkv_ctx_create(config, &ctx);
    if (status != MKV_OK) {
        return status;
    }
    status = mkv_ctx_init(ctx, params);
    if (status != MKV_OK) {
        goto err_free;
    }

    if (mkv_config_ignored(ctx->config)[0] != '\0') {
        mkv_log_warn(ctx, "unknown options are ignored:%s",
                     mkv_config_ignored(ctx->config));
    }
    status = mkv_open_check(ctx);
    if (status == MKV_OK) {
        status = mkv_ctx_start(ctx);
    }
    if (status != MKV_OK) {
        goto err_lock;
    }
    mkv_ctx_enlist(ctx);
    *ctx_p = ctx;
    return MKV_OK;

err_lock:
    pthread_mutex_destroy(&ctx->lock);
    pthread_mutex_destroy(&ctx->event_lock);
    pthread_mutex_destroy(&ctx->mem_lock);
    pthread_mutex_destroy(&ctx->pair_lock);
err_free:
    mkv_config_release(ctx->config);
    free(ctx);
    return status;
}

/* ---- Close ----------------------------------------------------------------------- */

/* Time for the steps after connections were cut at DRAIN_TIMEOUT */
#define MKV_CLOSE_CUT_MS 5000
/* Calls end without the peers. Some hold peers, so the timed waits come behind them. */
#define MKV_CLOSE_EVER_MS (UINT64_MAX / MKV_NSEC_PER_MSEC)

/* Progress until the condition holds or the time is over */
static bool mkv_close_wait(mkv_ctx_t *ctx, bool (*is_over)(mkv_ctx_t *ctx),
                           uint64_t timeout_ms)
{
    struct timespec pause = {0, 50000};
    uint64_t start = mkv_ctx_now(ctx);

    while (!is_over(ctx)) {
        if (mkv_ctx_now(ctx) - start > timeout_ms * MKV_NSEC_PER_MSEC) {
            return false;
        }
        if (mkv_progress_locked(ctx) == 0) {
            nanosleep(&pause, NULL); /* the peer's thread may share our core */
        }
        mkv_pause(ctx); /* calls in rounds go on */
    }
    return true;
}

static bool mkv_close_is_quiet(mkv_ctx_t *ctx)
{
    mkv_xfer_t *xfer;

    mkv_list_for_each(xfer, &ctx->xfers, list)
    {
        if (!xfer->is_quiet) {
            return false;
        }
    }
    return mkv_ops_are_quiet(ctx);
}

static bool mkv_close_is_disconnected(mkv_ctx_t *ctx)
{
    mkv_peer_t *peer;

    mkv_list_for_each(peer, &ctx->dead_peers, list)
    {
        if (!mkv_peer_is_gone(peer)) {
            return false;
        }
    }
    return true;
}

/* Calls of other threads have ended, and no new one begins */
static bool mkv_close_is_alone(mkv_ctx_t *ctx)
{
    return __atomic_load_n(&ctx->num_held, __ATOMIC_SEQ_CST) == 0;
}

/* A post may have been queued behind the last round */
static void mkv_close_wait_for_calls(mkv_ctx_t *ctx)
{
    (void)mkv_close_wait(ctx, mkv_close_is_alone, MKV_CLOSE_EVER_MS);
    (void)ctx->take(ctx);
}

static bool mkv_close_is_settled(mkv_ctx_t *ctx)
{
    return !ctx->is_settling && mkv_loop_is_closed(ctx);
}

/* Objects the application left open, for the text of MKV_ERR_BUSY */
typedef struct mkv_close_left {
    unsigned xfers, ops, maps;
} mkv_close_left_t;

/* Abort the open transfers and notify their peers */
static mkv_status_t mkv_close_xfers(mkv_ctx_t *ctx, mkv_close_left_t *left)
{
    mkv_xfer_t *xfer;

    mkv_list_for_each(xfer, &ctx->xfers, list)
    {
        mkv_log_warn(ctx, "close: transfer %llu epoch %u is still open",
                     (unsigned long long)xfer->id, xfer->epoch);
        mkv_xfer_fail(xfer, MKV_ERR_ABORTED, "context %s was closed", ctx->name);
        ++left->xfers;
    }
    left->ops = mkv_ops_abort(ctx);
    if (!mkv_close_wait(ctx, mkv_close_is_quiet, ctx->opts->drain_timeout)) {
        mkv_log_error(ctx, "close: a peer may still access exposed memory");
        return MKV_ERR_DRAIN_TIMEOUT;
    }
    return MKV_OK;
}

/* @return Number of transfers that were open. */
static unsigned mkv_close_maps(mkv_peer_t *peer)
{
    unsigned count = 0;
    mkv_map_t *map, *next_map;
    mkv_plan_t *plan, *next_plan;

    mkv_list_for_each_safe(map, next_map, &peer->remote.maps, list)
    {
        mkv_log_warn(peer->ctx, "close: a map of peer %s is still open", peer->name);
        mkv_list_for_each_safe(plan, next_plan, &map->plans, list)
        {
            mkv_plan_free(plan);
        }
        mkv_map_free(map, true);
        ++count;
    }
    return count;
}

static void mkv_close_log_connections(mkv_ctx_t *ctx)
{
    mkv_peer_t *peer;

    mkv_list_for_each(peer, &ctx->dead_peers, list)
    {
        if (!mkv_peer_is_gone(peer)) {
            mkv_log_error(ctx,
                          "close: peer %s: %s, %llu calls in flight, %u references",
                          peer->name, mkv_conn_state_string(peer->state),
                          (unsigned long long)peer->inflight_ops, peer->num_refs);
        }
    }
}

/* @return 0: a connection does not close. */
static bool mkv_close_connections(mkv_ctx_t *ctx)
{
    mkv_peer_t *peer, *next;

    mkv_list_for_each_safe(peer, next, &ctx->peers, list)
    {
        (void)mkv_peer_close_locked(peer, MKV_CLOSE_FORCE);
    }
    if (mkv_close_wait(ctx, mkv_close_is_disconnected,
                       ctx->opts->drain_timeout + MKV_CLOSE_CUT_MS)) {
        return true;
    }
    mkv_close_log_connections(ctx);
    return false;
}

/* Close connections before transfers: callbacks of calls in flight refer to posts */
static void mkv_close_objects(mkv_ctx_t *ctx, mkv_close_left_t *left)
{
    mkv_peer_t *peer, *next;
    mkv_xfer_t *xfer, *next_xfer;

    mkv_list_for_each_safe(xfer, next_xfer, &ctx->xfers, list)
    {
        mkv_xfer_free(xfer);
    }
    mkv_ops_cleanup(ctx);
    mkv_list_for_each(peer, &ctx->dead_peers, list)
    {
        left->maps += mkv_close_maps(peer);
    }
    mkv_list_for_each_safe(peer, next, &ctx->dead_peers, list)
    {
        mkv_stage_cleanup(peer);
        mkv_peer_destroy(peer);
    }
}

/* Keep the context reachable, so that leak checkers do not report it */
static void mkv_ctx_keep(mkv_ctx_t *ctx)
{
    static mkv_ctx_t *kept;

    ctx->next_kept = __atomic_exchange_n(&kept, ctx, __ATOMIC_ACQ_REL);
}

/* UCX still has calls in flight. It asserts that a destroyed worker has none, and
 * their memory must stay mapped. So leak both, instead of aborting the process or
 * copying freed memory. */
static mkv_status_t mkv_close_keep(mkv_ctx_t *ctx, const char *reason)
{
    mkv_log_error(ctx, "close: %s; memory stays registered and UCX stays open", reason);
    mkv_leave_quietly(ctx);
    mkv_ctx_keep(ctx);
    return mkv_error(&ctx->log, MKV_ERR_DRAIN_TIMEOUT,
                     "close of context %s: %s within DRAIN_TIMEOUT, %llu ms; memory of "
                     "its regions must not be freed",
                     ctx->name, reason, (unsigned long long)ctx->opts->drain_timeout);
}

static void mkv_ctx_free(mkv_ctx_t *ctx)
{
    pthread_mutex_destroy(&ctx->lock);
    pthread_mutex_destroy(&ctx->event_lock);
    pthread_mutex_destroy(&ctx->mem_lock);
    pthread_mutex_destroy(&ctx->pair_lock);
    mkv_config_release(ctx->config);
    if (ctx->is_worker_left) {
        mkv_ctx_keep(ctx);
    } else {
        free(ctx);
    }
}

/* UCX 1.22 and 1.23 keep the lanes of an endpoint that they could not make, for us or
 * for a peer that calls, so that the flush of its worker never ends, and devices are
 * still in use when it is destroyed. Where all is quiet nothing but UCX itself waits
 * for that flush, and its worker is left as it is. */
static bool mkv_close_settle(mkv_ctx_t *ctx, mkv_status_t status)
{
    mkv_loop_close(ctx);
    if (ctx->num_unmade == 0) { /* otherwise the flush never ends */
        mkv_worker_settle(ctx);
        if (mkv_close_wait(ctx, mkv_close_is_settled,
                           ctx->opts->drain_timeout + MKV_CLOSE_CUT_MS)) {
            return true;
        }
    }
    if (status == MKV_ERR_DRAIN_TIMEOUT) {
        return false;
    }
    mkv_log_warn(ctx,
                 "close: UCX does not finish its own operations (%u endpoints could "
                 "not be created); its worker stays open",
                 ctx->num_unmade);
    ctx->is_worker_left = !ctx->is_attached;
    return true;
}

/* The result of a close, worst cause first. Registrations set their own error text. */
static mkv_status_t mkv_close_result(mkv_ctx_t *ctx, mkv_status_t quiet,
                                     mkv_status_t memory, const mkv_close_left_t *left)
{
    if (quiet != MKV_OK) {
        return mkv_error(
            &ctx->log, quiet,
            "close of context %s: a transfer or operation was not quiet "
            "within DRAIN_TIMEOUT, %llu ms; memory of its regions must not "
            "be freed",
            ctx->name, (unsigned long long)ctx->opts->drain_timeout);
    }
    if ((memory != MKV_OK) || (left->xfers + left->ops + left->maps == 0)) {
        return memory;
    }
    return mkv_error(
        &ctx->log, MKV_ERR_BUSY,
        "close of context %s: %u transfers, %u operations and %u maps were "
        "open, expected none; they were closed with it",
        ctx->name, left->xfers, left->ops, left->maps);
}

mkv_status_t mkv_close(mkv_ctx_t *ctx)
{
    mkv_close_left_t left = {0};
    mkv_status_t status, memory;
    bool is_disconnected;

    if (ctx == NULL) {
        return mkv_ctx_refuse(NULL, "close");
    }

    if (mkv_ctx_is_forked(ctx)) {
        return MKV_OK; /* the context and its objects belong to the parent process */
    }
    if (mkv_threads_are_calling(ctx)) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "mkv_close() was called in a callback of context %s, by its "
                         "own progress thread, expected another thread; it stays open",
                         ctx->name);
    }
    mkv_threads_stop(ctx);
    mkv_ctx_delist(ctx);
    mkv_enter(ctx);
    ctx->closer = pthread_self();
    __atomic_store_n(&ctx->is_closing, true, __ATOMIC_SEQ_CST);
    mkv_close_wait_for_calls(ctx);
    mkv_threads_cleanup(ctx);
    status = mkv_close_xfers(ctx, &left);
    is_disconnected = mkv_close_connections(ctx);
    mkv_inbox_close(ctx);
    if (!is_disconnected) {
        return mkv_close_keep(ctx, "a connection does not close");
    }
    if (!mkv_close_settle(ctx, status)) {
        return mkv_close_keep(ctx,
                              "UCX does not end what closed connections had begun");
    }
    mkv_close_objects(ctx, &left);
    memory = mkv_regions_cleanup(ctx);
    mkv_events_cleanup(ctx);
    mkv_posts_cleanup(ctx);
    mkv_flush_cleanup(ctx);
    mkv_loop_cleanup(ctx);
    mkv_owners_cleanup(ctx);
    mkv_gates_cleanup(ctx);
    mkv_list_cache_cleanup(ctx);
    mkv_worker_close(ctx);
    mkv_ctx_close_claims(ctx); /* from here on nothing in this context touches a peer's
                                * memory */
    status = mkv_close_result(ctx, status, memory, &left);
    mkv_leave_quietly(ctx);
    while (!mkv_close_is_alone(ctx)) {
        sched_yield(); /* a call is being refused */
    }
    mkv_ctx_free(ctx);
    return status;
}
