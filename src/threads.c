/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Threads that make progress for the application (option PROGRESS_THREADS).
 *
 * All threads of a context serve its one worker, one at a time, under its lock. One
 * that finds nothing to do arms the worker under the lock, and sleeps. From then on it
 * is woken by UCX, by the next deadline, by whoever leaves the context after a call
 * that may have left something to do, and by the end.
 */

#include "threads.h"

#include "base/event.h"
#include "progress.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MKV_THREAD_NAP_NS MKV_NSEC_PER_MSEC /* while a gate has to be asked */
#define MKV_THREAD_SLEEP_NS                                                            \
    (100 * MKV_NSEC_PER_MSEC) /* a clock of the caller's may jump */

struct mkv_threads {
    int worker_fd; /* UCX's */
    int wake_fd, stop_fd;
    unsigned num;
    pthread_t id[];
};

typedef struct mkv_threads mkv_threads_t;

/* How long nothing is due; 0: there is something to do */
static uint64_t mkv_thread_arm(mkv_ctx_t *ctx)
{
    uint64_t now = mkv_ctx_now(ctx), wait = MKV_THREAD_SLEEP_NS, count;

    mkv_ctx_look_for_ends(ctx);
    if (!mkv_list_is_empty(&ctx->dirty_xfers) ||
        !mkv_list_is_empty(&ctx->changed_peers) || (ctx->next_deadline <= now)) {
        return 0;
    }
    if (ctx->num_asking_gates > 0) {
        return MKV_THREAD_NAP_NS;
    }

    (void)!read(ctx->threads->wake_fd, &count, sizeof(count));
    if (mkv_ctx_has_signals(ctx) || (ucp_worker_arm(ctx->worker) != UCS_OK)) {
        return 0;
    }
    return (ctx->next_deadline - now < wait) ? ctx->next_deadline - now : wait;
}

/* One round under the lock. @return as above. */
static uint64_t mkv_thread_round(mkv_ctx_t *ctx)
{
    uint64_t wait = 0;

    pthread_mutex_lock(&ctx->lock);
    if (mkv_progress_locked(ctx) == 0) {
        wait = mkv_thread_arm(ctx);
    }
    if (mkv_ctx_has_events(ctx)) {
        mkv_ctx_wake(ctx);
    }
    mkv_leave_quietly(ctx);
    return wait;
}

static void *mkv_thread_main(void *arg)
{
    mkv_ctx_t *ctx = arg;
    mkv_threads_t *threads = ctx->threads;
    struct pollfd fds[] = {{.fd = threads->worker_fd, .events = POLLIN},
                           {.fd = threads->wake_fd, .events = POLLIN},
                           {.fd = threads->stop_fd, .events = POLLIN},
                           {.fd = ctx->ends_fd, .events = POLLIN}};
    uint64_t wait;

    (void)prctl(PR_SET_NAME, "mkv-progress");
    for (;;) {
        wait = mkv_thread_round(ctx);
        (void)poll(fds, sizeof(fds) / sizeof(fds[0]),
                   (int)((wait + MKV_NSEC_PER_MSEC - 1) / MKV_NSEC_PER_MSEC));
        if (fds[2].revents != 0) {
            return NULL;
        }
        /* the lock goes to whoever lets go of it last: let others have it, too */
        while (__atomic_load_n(&ctx->num_waiting, __ATOMIC_RELAXED) > 0) {
            sched_yield();
        }
    }
}

static mkv_status_t mkv_threads_open(mkv_ctx_t *ctx, mkv_threads_t *threads)
{
    ucs_status_t status;

    if (ctx->is_attached) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "PROGRESS_THREADS=%u: the caller's own UCP worker is for its "
                         "own threads, expected 0",
                         (unsigned)ctx->opts->progress_threads);
    }
    status = mkv_worker_efd(ctx, &threads->worker_fd);
    if (status != UCS_OK) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "PROGRESS_THREADS=%u: ucp_worker_get_efd() failed: %s; "
                         "expected WAKEUP=y",
                         (unsigned)ctx->opts->progress_threads,
                         ucs_status_string(status));
    }
    threads->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    threads->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if ((threads->wake_fd < 0) || (threads->stop_fd < 0)) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "eventfd() failed: %s",
                         strerror(errno));
    }
    return MKV_OK;
}

/* Signals are the application's */
static int mkv_threads_create(mkv_ctx_t *ctx, mkv_threads_t *threads, unsigned num)
{
    sigset_t all, old;
    int err = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while ((threads->num < num) && (err == 0)) {
        err = pthread_create(&threads->id[threads->num], NULL, mkv_thread_main, ctx);
        threads->num += (err == 0);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
}

mkv_status_t mkv_threads_start(mkv_ctx_t *ctx)
{
    const uint64_t num = ctx->opts->progress_threads;
    mkv_status_t status;
    int err;

    if (num == 0) {
        return MKV_OK;
    }
    ctx->threads = calloc(1, sizeof(*ctx->threads) + num * sizeof(pthread_t));
    if (ctx->threads == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for threads");
    }

    ctx->threads->wake_fd = ctx->threads->stop_fd = -1;
    status = mkv_threads_open(ctx, ctx->threads);
    if (status == MKV_OK) {
        ctx->threads_fd = ctx->threads->wake_fd;
        err = mkv_threads_create(ctx, ctx->threads, (unsigned)num);
        if (err != 0) {
            status = mkv_error(&ctx->log, MKV_ERR_NOMEM,
                               "PROGRESS_THREADS=%u: pthread_create() failed: %s",
                               (unsigned)num, strerror(err));
        }
    }
    if (status != MKV_OK) {
        mkv_threads_stop(ctx);
    }
    return status;
}

void mkv_threads_stop(mkv_ctx_t *ctx)
{
    mkv_threads_t *threads = ctx->threads;
    uint64_t one = 1;
    unsigned i;

    if (threads == NULL) {
        return;
    }
    (void)!write(threads->stop_fd, &one, sizeof(one));
    for (i = 0; i < threads->num; ++i) {
        pthread_join(threads->id[i], NULL);
    }
    if (threads->wake_fd >= 0) {
        close(threads->wake_fd);
    }
    if (threads->stop_fd >= 0) {
        close(threads->stop_fd);
    }
    ctx->threads = NULL;
    ctx->threads_fd = -1;
    free(threads);
}
