/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The event queue and the file descriptor to sleep on. Terminal events must never be
 * lost, so their nodes are reserved when the object they report is made.
 */

#include "base/event.h"

#include "base/abi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

const char *mkv_event_string(mkv_event_type_t type)
{
    static const char *const names[] = {
        "PEER_READY", "PEER_FAILED", "PEER_CLOSED", "EXPOSED", "DONE",
        "FAILED",     "ABORTED",     "QUIET",       "MSG",     "WARN"};

    return ((unsigned)type <= MKV_EV_WARN) ? names[type] : "unknown";
}

mkv_status_t mkv_event_reserve(mkv_ctx_t *ctx, unsigned num)
{
    mkv_event_node_t *node;

    ctx->num_reserved_events += num;
    while (ctx->num_free_events < ctx->num_reserved_events) {
        node = calloc(1, sizeof(*node));
        if (node == NULL) {
            return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for events");
        }
        mkv_list_init(&node->list);
        mkv_list_add_tail(&ctx->free_events, &node->list);
        ++ctx->num_free_events;
    }
    return MKV_OK;
}

void mkv_event_unreserve(mkv_ctx_t *ctx, unsigned num)
{
    ctx->num_reserved_events -= num;
}

mkv_event_t *mkv_event_add_owned(mkv_ctx_t *ctx, mkv_event_type_t type, void *owned,
                                 size_t length)
{
    mkv_event_node_t *node;

    if (mkv_list_is_empty(&ctx->free_events)) {
        node = malloc(sizeof(*node));
        if (node == NULL) {
            mkv_log_error(ctx, "no memory for event %s", mkv_event_string(type));
            return NULL;
        }
    } else {
        node = mkv_list_head(&ctx->free_events, mkv_event_node_t, list);
        mkv_list_del(&node->list);
        --ctx->num_free_events;
    }

    memset(node, 0, sizeof(*node));
    mkv_list_init(&node->list);
    node->event.type = type;
    node->owned = owned;
    node->owned_length = length;
    ctx->queued_event_bytes += length;
    mkv_list_add_tail(&ctx->events, &node->list);
    return &node->event;
}

mkv_event_t *mkv_event_add(mkv_ctx_t *ctx, mkv_event_type_t type)
{
    return mkv_event_add_owned(ctx, type, NULL, 0);
}

/* The application has polled again: it is done with these */
static void mkv_events_recycle(mkv_ctx_t *ctx)
{
    mkv_event_node_t *node;

    while (!mkv_list_is_empty(&ctx->polled_events)) {
        node = mkv_list_head(&ctx->polled_events, mkv_event_node_t, list);
        mkv_list_del(&node->list);
        free(node->owned);
        if (ctx->num_free_events >= ctx->num_reserved_events) {
            free(node);
            continue;
        }
        node->owned = NULL;
        mkv_list_add_tail(&ctx->free_events, &node->list);
        ++ctx->num_free_events;
    }
}

mkv_status_t mkv_poll(mkv_ctx_t *ctx, mkv_event_t *events, size_t event_size,
                      size_t max, size_t *count_p)
{
    mkv_event_node_t *node;
    size_t count = 0;

    if (event_size < mkv_struct_event.minimum) {
        return mkv_error(
            &ctx->log, MKV_ERR_INVALID,
            "poll: event_size is %zu, expected sizeof(mkv_event_t), %zu or "
            "more",
            event_size, mkv_struct_event.minimum);
    }
    mkv_enter(ctx);
    mkv_events_recycle(ctx);
    while ((count < max) && !mkv_list_is_empty(&ctx->events)) {
        node = mkv_list_head(&ctx->events, mkv_event_node_t, list);
        mkv_list_del(&node->list);
        mkv_struct_write_sized(&mkv_struct_event, &node->event, event_size,
                               (char *)events + event_size * count++);
        ctx->queued_event_bytes -= node->owned_length;
        mkv_list_add_tail(&ctx->polled_events, &node->list);
    }
    mkv_leave_quietly(ctx);

    *count_p = count;
    return MKV_OK;
}

void mkv_events_forget(mkv_ctx_t *ctx, const mkv_xfer_t *xfer, const mkv_peer_t *peer)
{
    mkv_event_node_t *node;

    mkv_list_for_each(node, &ctx->events, mkv_event_node_t, list)
    {
        if ((xfer != NULL) && (node->event.xfer == xfer)) {
            node->event.xfer = NULL;
            node->event.units = NULL;
            node->event.num_units = 0;
            node->event.data = NULL;
            node->event.length = 0;
        }
        if ((peer != NULL) && (node->event.peer == peer)) {
            node->event.peer = NULL;
        }
    }
}

static void mkv_events_free(mkv_list_t *events)
{
    mkv_event_node_t *node;

    while (!mkv_list_is_empty(events)) {
        node = mkv_list_head(events, mkv_event_node_t, list);
        mkv_list_del(&node->list);
        free(node->owned);
        free(node);
    }
}

/* ---- Sleeping -------------------------------------------------------------------- */

static void mkv_fds_close(mkv_ctx_t *ctx)
{
    int *fds[] = {&ctx->epoll_fd, &ctx->wake_fd, &ctx->timer_fd};
    size_t i;

    for (i = 0; i < sizeof(fds) / sizeof(fds[0]); ++i) {
        if (*fds[i] >= 0) {
            close(*fds[i]);
        }
        *fds[i] = -1;
    }
}

void mkv_events_cleanup(mkv_ctx_t *ctx)
{
    mkv_events_free(&ctx->events);
    mkv_events_free(&ctx->polled_events);
    mkv_events_free(&ctx->free_events);
    mkv_fds_close(ctx);
}

static int mkv_fds_add(mkv_ctx_t *ctx, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return (fd >= 0) && (epoll_ctl(ctx->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* Without wakeup a UCX built without parameter checks says OK, and -1 */
ucs_status_t mkv_worker_efd(mkv_ctx_t *ctx, int *fd_p)
{
    ucs_status_t status = ucp_worker_get_efd(ctx->worker, fd_p);

    return ((status == UCS_OK) && (*fd_p < 0)) ? UCS_ERR_INVALID_PARAM : status;
}

static mkv_status_t mkv_fds_open(mkv_ctx_t *ctx)
{
    ucs_status_t status;
    int worker_fd;

    status = mkv_worker_efd(ctx, &worker_fd);
    if (status != UCS_OK) {
        return mkv_error(&ctx->log, MKV_ERR_UNSUPPORTED,
                         "ucp_worker_get_efd() failed: %s; the UCX context needs the "
                         "wakeup feature (option WAKEUP)",
                         ucs_status_string(status));
    }

    ctx->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    __atomic_store_n(&ctx->wake_fd, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                     __ATOMIC_SEQ_CST);
    ctx->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if ((ctx->epoll_fd < 0) || !mkv_fds_add(ctx, worker_fd) ||
        !mkv_fds_add(ctx, ctx->wake_fd) || !mkv_fds_add(ctx, ctx->timer_fd)) {
        mkv_fds_close(ctx);
        return mkv_error(&ctx->log, MKV_ERR_UNSUPPORTED,
                         "could not make the event descriptor: %s", strerror(errno));
    }
    return MKV_OK;
}

mkv_status_t mkv_event_fd(mkv_ctx_t *ctx, int *fd_p)
{
    mkv_status_t status = MKV_OK;

    mkv_enter(ctx);
    if (ctx->epoll_fd < 0) {
        status = mkv_fds_open(ctx);
    }
    if (status == MKV_OK) {
        *fd_p = ctx->epoll_fd;
    }
    mkv_leave_quietly(ctx);
    return status;
}

static void mkv_fds_arm(mkv_ctx_t *ctx)
{
    struct itimerspec timer;
    uint64_t now = mkv_ctx_now(ctx);
    uint64_t count, wait;

    (void)!read(ctx->wake_fd, &count, sizeof(count));
    memset(&timer, 0, sizeof(timer)); /* no deadline: off */
    if (ctx->next_deadline != MKV_NEVER) {
        wait = (ctx->next_deadline > now) ? ctx->next_deadline - now : 1;
        timer.it_value.tv_sec = (time_t)(wait / 1000000000ull);
        timer.it_value.tv_nsec = (long)(wait % 1000000000ull);
    }
    timerfd_settime(ctx->timer_fd, 0, &timer, NULL);
}

/* UCX may be armed only when its progress has found nothing: what a transport has taken
 * from the wire and not told yet makes no descriptor readable */
static mkv_status_t mkv_arm_locked(mkv_ctx_t *ctx)
{
    ucs_status_t status;

    if (ctx->epoll_fd < 0) {
        return mkv_error(&ctx->log, MKV_ERR_UNSUPPORTED, "call mkv_event_fd() first");
    }
    if (ctx->is_progress_due || !mkv_list_is_empty(&ctx->events) ||
        (ctx->num_asking_gates > 0) || !mkv_list_is_empty(&ctx->dirty_xfers) ||
        !mkv_list_is_empty(&ctx->changed_peers) ||
        (ctx->next_deadline <= mkv_ctx_now(ctx))) {
        return MKV_ERR_BUSY;
    }

    mkv_fds_arm(ctx);
    if (mkv_ctx_has_signals(ctx)) { /* its write to the descriptor may just be read */
        return MKV_ERR_BUSY;
    }
    status = ucp_worker_arm(ctx->worker);
    if (status == UCS_ERR_BUSY) {
        return MKV_ERR_BUSY;
    }
    if (status != UCS_OK) {
        return mkv_error(&ctx->log, MKV_ERR_TRANSPORT, "ucp_worker_arm() failed: %s",
                         ucs_status_string(status));
    }
    ctx->is_armed = 1;
    return MKV_OK;
}

mkv_status_t mkv_arm(mkv_ctx_t *ctx)
{
    mkv_status_t status;

    mkv_enter(ctx);
    status = mkv_arm_locked(ctx);
    mkv_leave_quietly(ctx);
    return status;
}
