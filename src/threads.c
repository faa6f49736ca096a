/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Threads that make progress for the application (option PROGRESS_THREADS).
 *
 * All threads of a context serve its one worker, one at a time, under its lock. A
 * thread that finds nothing to do arms the worker under the lock and sleeps. It is
 * woken by UCX, by the next deadline, by a call that leaves work behind when it leaves
 * the context, and by the end of the context.
 *
 * While calls are in flight, a thread keeps polling for a while (progress_spin): with
 * few lists in flight, a lane would idle from a completion until the posting thread
 * wakes. A thread that waits for the lock spins first as well: a post holds the lock
 * for some microseconds, and waking a thread takes longer.
 */

#include "threads.h"

#include "base/event.h"
#include "peer/peer.h"
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

#define MKV_THREAD_NAP_NS MKV_NSEC_PER_MSEC /* while a gate has to be queried */
#define MKV_THREAD_SLEEP_NS                                                            \
    (100 * MKV_NSEC_PER_MSEC)     /* a clock of the caller's may jump */
#define MKV_THREAD_TRIES 1000     /* spins for the lock before the thread sleeps */
#define MKV_THREAD_PAUSES 10      /* between rounds, for threads at the lock */
#define MKV_THREAD_ALONE_NS 50000 /* after which others may have the processor */
#define MKV_THREAD_YIELDS 16 /* rounds between two such offers, each a system call */
#define MKV_THREAD_LOOKS 256 /* rounds between looks for peers that ended */

struct mkv_thread;

struct mkv_threads {
    const struct mkv_thread *hot; /* the only thread that may poll without sleeping;
                                     NULL: none. Under the lock */
    int worker_fd;                /* descriptor of UCX's worker; not owned */
    int wake_fd, stop_fd;         /* eventfds: work is queued; all threads must exit */
    bool is_stopping;             /* atomic */
    unsigned num;
    pthread_t id[];
};

typedef struct mkv_threads mkv_threads_t;

/* State that a thread keeps between rounds */
typedef struct mkv_thread {
    mkv_ctx_t *ctx;
    uint64_t moved_at;  /* time of the last round that found something, in ns */
    uint64_t num_calls; /* ctx->count.ucp_calls at the end of that round */
    unsigned num_hot;   /* rounds that the thread has polled since it last slept */
    bool is_patient;    /* nothing has moved for a while */
} mkv_thread_t;

static void mkv_thread_pause(unsigned num)
{
    while (num-- > 0) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#else
        __asm__ volatile("" ::: "memory");
#endif
    }
}

/* Between two rounds */
static void mkv_thread_rest(const mkv_thread_t *thread)
{
    if (thread->is_patient && (thread->num_hot % MKV_THREAD_YIELDS == 0)) {
        sched_yield();
    } else {
        mkv_thread_pause(MKV_THREAD_PAUSES);
    }
}

static void mkv_thread_enter(mkv_ctx_t *ctx)
{
    unsigned i;

    for (i = 0; i < MKV_THREAD_TRIES; ++i) {
        if (pthread_mutex_trylock(&ctx->lock) == 0) {
            return;
        }
        mkv_thread_pause(1);
    }
    pthread_mutex_lock(&ctx->lock);
}

static bool mkv_ctx_has_calls(const mkv_ctx_t *ctx)
{
    const mkv_peer_t *peer;

    mkv_list_for_each(peer, &ctx->peers, list)
    {
        if (peer->inflight_ops > 0) {
            return true;
        }
    }
    return ctx->num_scatters > 0;
}

static bool mkv_thread_cool(mkv_thread_t *thread)
{
    if (thread->num_hot > 0) {
        thread->num_hot = 0;
        thread->ctx->threads->hot = NULL;
    }
    return false;
}

/* Whether the thread keeps polling instead of sleeping. While it polls, it checks now
 * and then for peers that ended. */
static bool mkv_thread_is_hot(mkv_thread_t *thread, unsigned count)
{
    mkv_ctx_t *ctx = thread->ctx;
    uint64_t spin = ctx->tuning.progress_spin * 1000, waited;
    bool has_moved = (count > 0) || (ctx->count.ucp_calls != thread->num_calls);

    if ((thread->num_hot == 0) && (!has_moved || (ctx->threads->hot != NULL))) {
        return false; /* one is enough */
    }
    if ((spin == 0) || (ctx->num_asking_gates > 0) || !mkv_ctx_has_calls(ctx)) {
        return mkv_thread_cool(thread);
    }
    ctx->threads->hot = thread;
    if (++thread->num_hot % MKV_THREAD_LOOKS == 0) {
        mkv_ctx_poll_ends(ctx);
    }
    if (has_moved) {
        thread->moved_at = mkv_ctx_now(ctx);
        thread->num_calls = ctx->count.ucp_calls;
        thread->is_patient = false;
        return true;
    }
    waited = mkv_ctx_now(ctx) - thread->moved_at;
    thread->is_patient = (waited > MKV_THREAD_ALONE_NS);
    return (waited < spin) || mkv_thread_cool(thread);
}

/* Time until something is due; 0: there is work now */
static uint64_t mkv_thread_arm(mkv_ctx_t *ctx)
{
    uint64_t now = mkv_ctx_now(ctx), wait = MKV_THREAD_SLEEP_NS, count;

    mkv_ctx_poll_ends(ctx);
    if (mkv_ctx_has_steps(ctx) || (ctx->next_deadline <= now)) {
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

/*
 * Run one round under the lock. The thread counts as asleep before it arms.
 * @return Whether to run the next round at once; else wait_p is the time to sleep.
 */
static bool mkv_thread_round(mkv_thread_t *thread, uint64_t *wait_p)
{
    mkv_ctx_t *ctx = thread->ctx;
    unsigned count;
    bool is_hot;

    mkv_thread_enter(ctx);
    count = mkv_progress_locked(ctx);
    is_hot = mkv_thread_is_hot(thread, count);
    *wait_p = 0;
    if (!is_hot) {
        __atomic_add_fetch(&ctx->num_asleep, 1, __ATOMIC_SEQ_CST);
        if (count == 0) {
            *wait_p = mkv_thread_arm(ctx);
        }
    }
    if (mkv_ctx_has_events(ctx)) {
        mkv_ctx_wake(ctx);
    }
    mkv_leave_quietly(ctx);
    return is_hot;
}

/* @return false: the thread must exit */
static bool mkv_thread_sleep(mkv_ctx_t *ctx, uint64_t wait)
{
    const mkv_threads_t *threads = ctx->threads;
    struct pollfd fds[] = {{.fd = threads->worker_fd, .events = POLLIN},
                           {.fd = threads->wake_fd, .events = POLLIN},
                           {.fd = threads->stop_fd, .events = POLLIN},
                           {.fd = ctx->ends_fd, .events = POLLIN}};

    (void)poll(fds, sizeof(fds) / sizeof(fds[0]),
               (int)((wait + MKV_NSEC_PER_MSEC - 1) / MKV_NSEC_PER_MSEC));
    __atomic_sub_fetch(&ctx->num_asleep, 1, __ATOMIC_SEQ_CST);
    return fds[2].revents == 0;
}

static void *mkv_thread_main(void *arg)
{
    mkv_thread_t thread = {.ctx = arg};
    mkv_ctx_t *ctx = arg;
    bool goes_on = true;
    uint64_t wait;

    (void)prctl(PR_SET_NAME, "mkv-progress");
    while (goes_on) {
        if (mkv_thread_round(&thread, &wait)) {
            mkv_thread_rest(&thread);
            goes_on = !__atomic_load_n(&ctx->threads->is_stopping, __ATOMIC_RELAXED);
        } else {
            goes_on = mkv_thread_sleep(ctx, wait);
        }
        /* without a yield, the thread that released the lock would win it again */
        while (__atomic_load_n(&ctx->num_waiting, __ATOMIC_RELAXED) > 0) {
            sched_yield();
        }
    }
    return NULL;
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
        mkv_threads_cleanup(ctx);
    }
    return status;
}

bool mkv_threads_are_calling(const mkv_ctx_t *ctx)
{
    const mkv_threads_t *threads = ctx->threads;
    unsigned i;

    for (i = 0; (threads != NULL) && (i < threads->num); ++i) {
        if (pthread_equal(threads->id[i], pthread_self())) {
            return true;
        }
    }
    return false;
}

void mkv_threads_stop(mkv_ctx_t *ctx)
{
    mkv_threads_t *threads = ctx->threads;
    uint64_t one = 1;
    unsigned i;

    if (threads == NULL) {
        return;
    }
    __atomic_store_n(&threads->is_stopping, true, __ATOMIC_RELAXED);
    (void)!write(threads->stop_fd, &one, sizeof(one));
    for (i = 0; i < threads->num; ++i) {
        pthread_join(threads->id[i], NULL);
    }
    threads->num = 0;
}

void mkv_threads_cleanup(mkv_ctx_t *ctx)
{
    mkv_threads_t *threads = ctx->threads;

    if (threads == NULL) {
        return;
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
