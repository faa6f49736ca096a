/* SPDX-License-Identifier: BSD-3-Clause */

/* Clock, nonces and waking. */

#include "base/ctx.h"

#include <time.h>
#include <unistd.h>

unsigned mkv_num_forks;

static pthread_once_t mkv_forks_once = PTHREAD_ONCE_INIT;
static int mkv_forks_error;

static pthread_mutex_t mkv_open_lock = PTHREAD_MUTEX_INITIALIZER;
static mkv_ctx_t *mkv_open_ctxs;

static void mkv_forked(void)
{
    ++mkv_num_forks;
    mkv_open_ctxs = NULL; /* in a forked child, the entries belong to the parent */
    (void)pthread_mutex_init(&mkv_open_lock,
                             NULL); /* a thread of the parent may hold it */
}

static void mkv_forks_init(void)
{
    mkv_forks_error = pthread_atfork(NULL, NULL, mkv_forked);
}

mkv_status_t mkv_forks_watch(void)
{
    (void)pthread_once(&mkv_forks_once, mkv_forks_init);
    return (mkv_forks_error == 0)
               ? MKV_OK
               : mkv_error(NULL, MKV_ERR_NOMEM, "pthread_atfork() failed: error %d",
                           mkv_forks_error);
}

mkv_status_t mkv_ctx_refuse(const mkv_ctx_t *ctx, const char *call)
{
    if (ctx == NULL) {
        return mkv_error(NULL, MKV_ERR_INVALID,
                         "mkv_%s(): the context is NULL, expected one of mkv_open()",
                         call);
    }
    return mkv_error(NULL, MKV_ERR_INVALID,
                     "mkv_%s(): context %s was opened before fork(); open one in the "
                     "child",
                     call, ctx->name);
}

mkv_status_t mkv_ctx_refuse_closing(const mkv_ctx_t *ctx, const char *call)
{
    return pthread_equal(ctx->closer, pthread_self())
               ? MKV_OK
               : mkv_error(&ctx->log, MKV_ERR_INVALID,
                           "mkv_%s(): context %s is being closed", call, ctx->name);
}

void mkv_ctx_enlist(mkv_ctx_t *ctx)
{
    pthread_mutex_lock(&mkv_open_lock);
    ctx->next_open = mkv_open_ctxs;
    mkv_open_ctxs = ctx;
    pthread_mutex_unlock(&mkv_open_lock);
}

void mkv_ctx_delist(mkv_ctx_t *ctx)
{
    mkv_ctx_t **at;

    pthread_mutex_lock(&mkv_open_lock);
    for (at = &mkv_open_ctxs; (*at != NULL) && (*at != ctx); at = &(*at)->next_open) {
    }
    if (*at != NULL) {
        *at = ctx->next_open;
    }
    pthread_mutex_unlock(&mkv_open_lock);
}

bool mkv_ctx_is_open(uint64_t ctx_id)
{
    const mkv_ctx_t *ctx;

    pthread_mutex_lock(&mkv_open_lock);
    for (ctx = mkv_open_ctxs; (ctx != NULL) && (ctx->process.ctx_id != ctx_id);
         ctx = ctx->next_open) {
    }
    pthread_mutex_unlock(&mkv_open_lock);
    return ctx != NULL;
}

uint64_t mkv_ctx_now(mkv_ctx_t *ctx)
{
    struct timespec now;

    if (ctx->params.clock_ns != NULL) {
        return ctx->params.clock_ns(ctx->params.clock_arg);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* The coarse clock, which needs no read of the processor's counter, lags by at most one
 * tick of 10 ms. */
#define MKV_TICK_NS (20 * MKV_NSEC_PER_MSEC)

bool mkv_ctx_may_be_due(const mkv_ctx_t *ctx, uint64_t time)
{
    struct timespec now;

    if ((time == MKV_NEVER) || (ctx->params.clock_ns != NULL)) {
        return time != MKV_NEVER;
    }
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec + MKV_TICK_NS >=
           time;
}

/* Map a counter with a random start through a bijection */
uint64_t mkv_ctx_nonce(mkv_ctx_t *ctx)
{
    uint64_t z;

    do {
        z = ctx->nonce_state += 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        z ^= z >> 31;
    } while (z == 0);
    return z;
}

void mkv_ctx_deadline(mkv_ctx_t *ctx, uint64_t deadline)
{
    if (deadline < ctx->next_deadline) {
        ctx->next_deadline = deadline;
    }
}

void mkv_ctx_publish(mkv_ctx_t *ctx)
{
    pthread_mutex_lock(&ctx->event_lock);
    mkv_list_splice(&ctx->new_events, &ctx->events);
    __atomic_store_n(&ctx->num_events, ctx->num_events + ctx->num_new_events,
                     __ATOMIC_RELEASE);
    pthread_mutex_unlock(&ctx->event_lock);
    ctx->num_new_events = 0;
}

void mkv_ctx_wake(mkv_ctx_t *ctx)
{
    uint64_t one = 1;

    if (ctx->is_armed) {
        ctx->is_armed = false;
        (void)!write(ctx->wake_fd, &one, sizeof(one));
    }
}

void mkv_ctx_wake_threads(mkv_ctx_t *ctx)
{
    uint64_t one = 1;

    /* a sleeping thread is counted before its last check for work */
    if (__atomic_load_n(&ctx->num_asleep, __ATOMIC_SEQ_CST) > 0) {
        (void)!write(ctx->threads_fd, &one, sizeof(one)); /* fails when full: the
                                                           * threads are awake */
    }
}

void mkv_ctx_wake_all(mkv_ctx_t *ctx)
{
    int fd = __atomic_load_n(&ctx->wake_fd, __ATOMIC_SEQ_CST);
    uint64_t one = 1;

    if (fd >= 0) {
        (void)!write(fd, &one, sizeof(one)); /* fails when full: the thread is awake */
    }
    if (ctx->threads_fd >= 0) {
        mkv_ctx_wake_threads(ctx);
    }
}
