/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The event queue and the file descriptor to sleep on. Terminal events must never be
 * lost, so their nodes are reserved when the object they report is made.
 */

#include "base/event.h"

#include "base/abi.h"
#include "base/latency.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

const char *mkv_event_string(mkv_event_type_t type)
{
    static const char *const names[] = {
        "PEER_READY",   "PEER_FAILED", "PEER_CLOSED", "EXPOSED", "DONE", "FAILED",
        "ABORTED",      "QUIET",       "MSG",         "WARN",    "NOTE", "INCOMING",
        "PEER_REGIONS", "LEG",         "LOCAL_DONE",  "ARRIVED"};

    return ((unsigned)type < sizeof(names) / sizeof(names[0])) ? names[type]
                                                               : "unknown";
}

static void mkv_event_node_clear(mkv_event_node_t *node)
{
    free(node->owned);
    free(node->event.text);
    node->owned = NULL;
    node->event.text = NULL;
}

static void mkv_event_nodes_free(mkv_list_t *nodes)
{
    mkv_event_node_t *node;

    while (!mkv_list_is_empty(nodes)) {
        node = mkv_list_head(nodes, mkv_event_node_t, list);
        mkv_list_del(&node->list);
        mkv_event_node_clear(node);
        free(node);
    }
}

/* More nodes than are reserved need not be kept */
static void mkv_event_nodes_keep(mkv_ctx_t *ctx, mkv_list_t *nodes)
{
    mkv_event_node_t *node;

    while (!mkv_list_is_empty(nodes) &&
           (ctx->num_free_events < ctx->num_reserved_events)) {
        node = mkv_list_head(nodes, mkv_event_node_t, list);
        mkv_list_del(&node->list);
        mkv_list_add_tail(&ctx->free_events, &node->list);
        ++ctx->num_free_events;
    }
    mkv_event_nodes_free(nodes);
}

/* Polls run without the context's lock and return nodes in a list of their own */
static void mkv_event_nodes_take_back(mkv_ctx_t *ctx)
{
    mkv_list_t nodes;

    mkv_list_init(&nodes);
    pthread_mutex_lock(&ctx->event_lock);
    mkv_list_splice(&ctx->returned_events, &nodes);
    ctx->num_returned_events = 0;
    pthread_mutex_unlock(&ctx->event_lock);
    mkv_event_nodes_keep(ctx, &nodes);
}

mkv_status_t mkv_event_reserve(mkv_ctx_t *ctx, unsigned num)
{
    mkv_event_node_t *node;
    mkv_list_t nodes;
    unsigned i;

    MKV_ADD(ctx->num_reserved_events, num);
    mkv_event_nodes_take_back(ctx);
    mkv_list_init(&nodes);
    for (i = ctx->num_free_events; i < ctx->num_reserved_events; ++i) {
        node = calloc(1, sizeof(*node));
        if (node == NULL) {
            mkv_event_nodes_free(&nodes);
            return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for events");
        }
        mkv_list_init(&node->list);
        mkv_list_add_tail(&nodes, &node->list);
    }
    mkv_event_nodes_keep(ctx, &nodes);
    return MKV_OK;
}

void mkv_event_unreserve(mkv_ctx_t *ctx, unsigned num)
{
    MKV_ADD(ctx->num_reserved_events, -num);
}

/* Events of other types come as often as a peer or the caller likes. They take
 * no node from the reserved types; without memory they are not raised. */
static bool mkv_event_is_reserved(mkv_event_type_t type)
{
    static const unsigned others = (1u << MKV_EV_MSG) | (1u << MKV_EV_NOTE) |
                                   (1u << MKV_EV_INCOMING) |
                                   (1u << MKV_EV_PEER_REGIONS) |
                                   (1u << MKV_EV_LOCAL_DONE) | (1u << MKV_EV_ARRIVED);

    return !(others & (1u << type));
}

static mkv_event_node_t *mkv_event_node_get(mkv_ctx_t *ctx, mkv_event_type_t type)
{
    mkv_event_node_t *node;

    if (!mkv_event_is_reserved(type)) {
        return malloc(sizeof(*node));
    }
    if (ctx->num_free_events == 0) {
        mkv_event_nodes_take_back(ctx);
    }
    if (ctx->num_free_events == 0) {
        return malloc(sizeof(*node));
    }
    node = mkv_list_head(&ctx->free_events, mkv_event_node_t, list);
    mkv_list_del(&node->list);
    --ctx->num_free_events;
    return node;
}

static mkv_news_t *mkv_event_queue(mkv_ctx_t *ctx, mkv_event_type_t type, void *owned,
                                   mkv_event_node_t *node)
{
    if (node == NULL) {
        mkv_log_error(ctx, "no memory for event %s", mkv_event_string(type));
        return NULL;
    }
    memset(&node->event, 0, sizeof(*node) - offsetof(mkv_event_node_t, event));
    node->event.type = type;
    node->owned = owned;
    node->time = mkv_ctx_time(ctx);
    ++ctx->num_new_events;
    mkv_list_add_tail(&ctx->new_events, &node->list);
    return &node->event;
}

mkv_news_t *mkv_event_add_owned(mkv_ctx_t *ctx, mkv_event_type_t type, void *owned)
{
    return mkv_event_queue(ctx, type, owned, mkv_event_node_get(ctx, type));
}

mkv_news_t *mkv_event_add(mkv_ctx_t *ctx, mkv_event_type_t type)
{
    return mkv_event_add_owned(ctx, type, NULL);
}

mkv_news_t *mkv_event_add_extra(mkv_ctx_t *ctx, mkv_event_type_t type)
{
    return mkv_event_queue(ctx, type, NULL, malloc(sizeof(mkv_event_node_t)));
}

void mkv_event_text(mkv_news_t *event, const char *fmt, ...)
{
    char text[sizeof(((mkv_event_t *)NULL)->text)];
    va_list args;

    va_start(args, fmt);
    mkv_text_va(text, sizeof(text), fmt, args);
    va_end(args);
    free(event->text);
    event->text = (text[0] != '\0') ? strdup(text) : NULL;
}

void mkv_event_count(mkv_news_t *event, uint64_t *counter, uint64_t amount)
{
    mkv_event_node_t *node = mkv_container_of(event, mkv_event_node_t, event);

    node->counter = counter;
    node->amount = amount;
}

/* Called under event_lock. Keeps at most as many nodes as are reserved. @return Whether
 * the node is kept. */
static bool mkv_event_node_return(mkv_ctx_t *ctx, mkv_event_node_t *node)
{
    if (ctx->num_returned_events >=
        __atomic_load_n(&ctx->num_reserved_events, __ATOMIC_RELAXED)) {
        return false;
    }
    mkv_list_add_tail(&ctx->returned_events, &node->list);
    ++ctx->num_returned_events;
    return true;
}

/* Called under event_lock. A node without owned memory can be reused at once. */
static void mkv_event_node_polled(mkv_ctx_t *ctx, mkv_event_node_t *node)
{
    if ((node->owned != NULL) || (node->event.text != NULL) ||
        !mkv_event_node_return(ctx, node)) {
        mkv_list_add_tail(&ctx->polled_events, &node->list);
    }
}

/* The next poll ends the use of these events. Nothing is freed under the lock. */
static void mkv_events_recycle(mkv_ctx_t *ctx, mkv_list_t *nodes)
{
    mkv_event_node_t *node, *next;

    if (mkv_list_is_empty(nodes)) {
        return;
    }
    mkv_list_for_each(node, nodes, list)
    {
        mkv_event_node_clear(node);
    }
    pthread_mutex_lock(&ctx->event_lock);
    mkv_list_for_each_safe(node, next, nodes, list)
    {
        mkv_list_del(&node->list);
        if (!mkv_event_node_return(ctx, node)) {
            mkv_list_add_tail(nodes, &node->list);
            break;
        }
    }
    pthread_mutex_unlock(&ctx->event_lock);
    mkv_event_nodes_free(nodes);
}

static void mkv_event_fill(const mkv_news_t *news, mkv_event_t *event)
{
    event->type = news->type;
    event->status = news->status;
    event->peer = news->peer;
    event->xfer = news->xfer;
    event->id = news->id;
    event->epoch = news->epoch;
    event->leg = news->leg;
    event->value = news->value;
    event->reserved = 0;
    event->user_data = news->user_data;
    event->units = news->units;
    event->num_units = news->num_units;
    event->header = news->header;
    event->header_length = news->header_length;
    event->data = news->data;
    event->length = news->length;
    event->op = news->op;
    event->text[0] = '\0';
    if (news->text != NULL) {
        strcpy(event->text, news->text); /* mkv_event_text() has truncated it to fit */
    }
}

/* Write an event in the caller's layout; mostly it equals ours and is written in place
 */
static void mkv_event_write(const mkv_news_t *news, size_t size, void *given)
{
    mkv_event_t event;

    if (size == sizeof(event)) {
        mkv_event_fill(news, given);
        return;
    }
    memset(&event, 0, sizeof(event));
    mkv_event_fill(news, &event);
    mkv_struct_write_sized(&mkv_struct_event, &event, size, given);
}

/* Apart from mkv_poll(), so that a poll without events saves no registers */
static mkv_status_t __attribute__((noinline)) mkv_poll_queue(
    mkv_ctx_t *ctx, mkv_event_t *events, size_t event_size, size_t max, size_t *count_p)
{
    mkv_event_node_t *node;
    bool is_credit_due = false;
    uint64_t now = 0;
    size_t count = 0;
    mkv_list_t old;

    MKV_HOLD(ctx, "poll", return MKV_ERR_INVALID);
    if (mkv_ctx_has_published(ctx)) {
        now = mkv_ctx_now(ctx);
    }
    mkv_list_init(&old);
    pthread_mutex_lock(&ctx->event_lock);
    mkv_list_splice(&ctx->polled_events, &old);
    while ((count < max) && !mkv_list_is_empty(&ctx->events)) {
        node = mkv_list_head(&ctx->events, mkv_event_node_t, list);
        mkv_list_del(&node->list);
        mkv_event_write(&node->event, event_size,
                        (char *)events + event_size * count++);
        mkv_latency_add(ctx->event_to_poll, (now > node->time) ? now - node->time : 0);
        if (node->counter != NULL) {
            __atomic_add_fetch(node->counter, node->amount, __ATOMIC_RELAXED);
            is_credit_due = true;
        }
        mkv_event_node_polled(ctx, node);
    }
    __atomic_store_n(&ctx->has_polled, !mkv_list_is_empty(&ctx->polled_events),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&ctx->num_events, ctx->num_events - (unsigned)count,
                     __ATOMIC_RELEASE);
    pthread_mutex_unlock(&ctx->event_lock);
    mkv_events_recycle(ctx, &old);
    if (is_credit_due) { /* the progress thread must notify peers */
        __atomic_store_n(&ctx->is_credit_due, true, __ATOMIC_SEQ_CST);
        mkv_ctx_wake_all(ctx);
    }

    *count_p = count;
    return MKV_OK;
}

mkv_status_t mkv_poll(mkv_ctx_t *ctx, mkv_event_t *events, size_t event_size,
                      size_t max, size_t *count_p)
{
    if (mkv_ctx_check_open(ctx, "poll") != MKV_OK) {
        return MKV_ERR_INVALID;
    }
    if (event_size < mkv_struct_event.minimum) {
        return mkv_error(
            &ctx->log, MKV_ERR_INVALID,
            "poll: event_size is %zu, expected sizeof(mkv_event_t), %zu or "
            "more",
            event_size, mkv_struct_event.minimum);
    }
    *count_p = 0;
    if (!mkv_ctx_has_published(ctx) &&
        !__atomic_load_n(&ctx->has_polled, __ATOMIC_RELAXED)) {
        return MKV_OK; /* the common case of a thread that waits */
    }
    return mkv_poll_queue(ctx, events, event_size, max, count_p);
}

static void mkv_events_forget_in(mkv_list_t *events, const mkv_xfer_t *xfer,
                                 const mkv_peer_t *peer, const mkv_op_t *op)
{
    mkv_event_node_t *node;

    mkv_list_for_each(node, events, list)
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
            node->counter = NULL;
        }
        if ((op != NULL) && (node->event.op == op)) {
            node->event.op = NULL;
        }
    }
}

static void mkv_events_forget_all(mkv_ctx_t *ctx, const mkv_xfer_t *xfer,
                                  const mkv_peer_t *peer, const mkv_op_t *op)
{
    mkv_events_forget_in(&ctx->new_events, xfer, peer, op);
    pthread_mutex_lock(&ctx->event_lock);
    mkv_events_forget_in(&ctx->events, xfer, peer, op);
    pthread_mutex_unlock(&ctx->event_lock);
}

void mkv_events_forget(mkv_ctx_t *ctx, const mkv_xfer_t *xfer, const mkv_peer_t *peer)
{
    mkv_events_forget_all(ctx, xfer, peer, NULL);
}

void mkv_events_forget_op(mkv_ctx_t *ctx, const mkv_op_t *op)
{
    mkv_events_forget_all(ctx, NULL, NULL, op);
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
    mkv_event_nodes_free(&ctx->new_events);
    mkv_event_nodes_free(&ctx->events);
    mkv_event_nodes_free(&ctx->polled_events);
    mkv_event_nodes_free(&ctx->returned_events);
    mkv_event_nodes_free(&ctx->free_events);
    mkv_fds_close(ctx);
}

static bool mkv_fds_add(mkv_ctx_t *ctx, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return (fd >= 0) && (epoll_ctl(ctx->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

void mkv_ctx_poll_ends(mkv_ctx_t *ctx)
{
    struct epoll_event event;

    if ((ctx->ends_fd >= 0) && (epoll_wait(ctx->ends_fd, &event, 1, 0) > 0)) {
        ctx->next_deadline = 0;
    }
}

/* A UCX without wakeup and without parameter checks returns OK and -1 */
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
        !mkv_fds_add(ctx, ctx->wake_fd) || !mkv_fds_add(ctx, ctx->timer_fd) ||
        ((ctx->ends_fd >= 0) && !mkv_fds_add(ctx, ctx->ends_fd))) {
        mkv_fds_close(ctx);
        return mkv_error(&ctx->log, MKV_ERR_UNSUPPORTED,
                         "could not make the event descriptor: %s", strerror(errno));
    }
    return MKV_OK;
}

mkv_status_t mkv_event_fd(mkv_ctx_t *ctx, int *fd_p)
{
    mkv_status_t status = MKV_OK;

    MKV_HOLD(ctx, "event_fd", return MKV_ERR_INVALID);
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
    memset(&timer, 0, sizeof(timer)); /* zeroes turn the timer off: no deadline */
    if (ctx->next_deadline != MKV_NEVER) {
        wait = (ctx->next_deadline > now) ? ctx->next_deadline - now : 1;
        timer.it_value.tv_sec = (time_t)(wait / 1000000000ull);
        timer.it_value.tv_nsec = (long)(wait % 1000000000ull);
    }
    timerfd_settime(ctx->timer_fd, 0, &timer, NULL);
}

/* Arm UCX only when its progress has found nothing: data that a transport has read from
 * the wire and not delivered yet makes no descriptor readable */
static mkv_status_t mkv_arm_locked(mkv_ctx_t *ctx)
{
    ucs_status_t status;

    mkv_ctx_poll_ends(ctx);
    if (ctx->epoll_fd < 0) {
        return mkv_error(&ctx->log, MKV_ERR_UNSUPPORTED, "call mkv_event_fd() first");
    }
    if (ctx->is_progress_due || mkv_ctx_has_events(ctx) ||
        (ctx->num_asking_gates > 0) || mkv_ctx_has_steps(ctx) ||
        (ctx->next_deadline <= mkv_ctx_now(ctx))) {
        return MKV_ERR_BUSY;
    }

    mkv_fds_arm(ctx);
    if (mkv_ctx_has_signals(ctx)) { /* the signal's write to the descriptor may just
                                     * have been read */
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
    ctx->is_armed = true;
    return MKV_OK;
}

mkv_status_t mkv_arm(mkv_ctx_t *ctx)
{
    mkv_status_t status;

    MKV_HOLD(ctx, "arm", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    status = mkv_arm_locked(ctx);
    mkv_leave_quietly(ctx);
    return status;
}
