/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_CTX_H
#define MKV_CTX_H

/**
 * @file
 * The context: state that all objects of one mkv_open() share.
 *
 * ctx->lock guards everything. Public functions take it; UCX callbacks run inside
 * mkv_progress() or a posting call, so under it. A call with many steps releases it
 * between rounds. Progress may hold it for long, so three calls do not wait for it. A
 * poll takes events from a queue of its own, which is filled when the lock is released.
 * A post that finds the lock taken is queued, and the lock's holder gives it to UCX. A
 * query reads atomic values.
 *
 * Callbacks only record events and queue the object (ctx->dirty_xfers,
 * ctx->changed_peers). mkv_ctx_step() decides, so that no object is freed or failed
 * below a function that still uses it.
 *
 * Ownership: context > {regions > mems}, {peers > remote mems}, {transfers > legs >
 * posts}, events. A map holds its local regions, remote mems and peer; a plan its map;
 * a post its plan; a leg its map and peer.
 */

#include "base/list.h"
#include "base/log.h"
#include "base/name.h"
#include "base/options.h"
#include "base/table.h"
#include "base/tuning.h"
#include "morikv.h"
#include "wire/wire.h"

#include <ucp/api/ucp.h>

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#define MKV_NSEC_PER_MSEC 1000000ull
#define MKV_NEVER UINT64_MAX
#define MKV_XFER_BUCKETS 1024u
#define MKV_PEER_BUCKETS 1024u
#define MKV_LIST_CLASSES 256u
#define MKV_GATE_BUCKETS 1024u
#define MKV_TOMBSTONES 4096u

/* Bounds of one round, so that the lock is not held for long: cost of calls given to
 * UCX, about as many calls as MAX_INFLIGHT_OPS allows in flight to a peer */
#define MKV_ROUND_COST 32768u
#define MKV_CALL_COST 8u      /* a piece of a list costs 1 */
#define MKV_ROUND_STEPS 1024u /* of a loop over regions, below a microsecond each */
#define MKV_MAX_PEER_LISTENERS 3u

/* clang-format off */
/** The counters that mkv_stats_t has under the same names, once. */
#define MKV_COUNTERS(_do) \
    _do(xfers_opened) _do(xfers_done) _do(xfers_failed) _do(bytes_written) \
    _do(bytes_read) _do(elements_posted) _do(elements_completed) _do(ucp_calls) \
    _do(flushes) _do(msgs_sent) _do(msgs_received) _do(msgs_malformed) \
    _do(msgs_stale) _do(msgs_early) _do(msgs_dropped) _do(hellos) _do(plans_created) \
    _do(plan_posts) _do(lists_reused) _do(lists_allocated) _do(pulls_sent) \
    _do(pulls_refused) _do(pulls_served) _do(bytes_pushed)
/* clang-format on */

/** Counters of a context and of each peer. */
typedef struct mkv_counters {
#define MKV_COUNTER(_name) uint64_t _name;
    MKV_COUNTERS(MKV_COUNTER)
#undef MKV_COUNTER
    uint64_t expose_to_done[MKV_LATENCY_BUCKETS];
} mkv_counters_t;

struct mkv_calls;
struct mkv_claims;
struct mkv_threads;
struct mkv_peer_listener;
struct mkv_leg_listener;
typedef struct mkv_loop mkv_loop_t;

struct mkv_ctx {
    pthread_mutex_t lock;
    unsigned num_held; /* calls that mkv_close() waits for; atomic */
    /* guards the events that polls take; taken inside lock, and never held across a
     * call of UCX or of the caller's functions */
    pthread_mutex_t event_lock;
    pthread_mutex_t mem_lock; /* serializes changes of regions; taken first of all */
    /* keeps regions from being dropped while a map pairs them; taken before lock */
    pthread_mutex_t pair_lock;
    unsigned num_waiting;        /* threads that wait for the lock; atomic */
    unsigned num_turns;          /* number of times the lock was taken; atomic */
    struct mkv_threads *threads; /* NULL: PROGRESS_THREADS is 0 */
    int threads_fd;              /* wakes the threads; -1: there are none */
    unsigned num_asleep;         /* threads asleep or about to be; atomic */
    mkv_config_t *config;
    const mkv_options_t *opts;
    mkv_tuning_t tuning;
    mkv_log_t log;
    mkv_open_params_t params;
    char name[MKV_NAME_SIZE];
    mkv_process_t process;
    uint64_t nonce_state;
    uint64_t proof_key[2];     /* random key of mkv_proof() */
    struct mkv_claims *claims; /* claims on peers' memory; NULL: no peer can see them */
    uint64_t num_idle;         /* rounds of progress in which UCX found nothing */
    int ends_fd;               /* epoll(7) over peers' pidfds; or -1 */

    ucp_context_h ucp_context;
    ucp_worker_h worker;
    bool is_attached;
    unsigned num_unmade;  /**< Endpoints that UCX could not make */
    bool is_worker_left;  /**< Worker outlives the context */
    bool is_settling;     /* UCX has not released all resources of cut connections */
    bool is_closing;      /* atomic */
    pthread_t closer;     /* the thread in mkv_close(), if is_closing */
    unsigned num_forks;   /* mkv_num_forks at open */
    uint64_t features;    /* MKV_FEATURE_* announced to peers */
    mkv_ctx_t *next_kept; /* link in the list of contexts that could not be closed */
    mkv_ctx_t *next_open; /* link in the list of this process's open contexts */
    unsigned ucp_version; /* minor version of the loaded UCX */
    void *address;
    size_t address_length;

    /* Hooks of the modules above; set once, at open */
    unsigned (*step)(mkv_ctx_t *ctx);
    unsigned (*progress)(mkv_ctx_t *ctx);
    unsigned (*take)(mkv_ctx_t *ctx); /* gives the posts in submissions to their legs */
    const struct mkv_peer_listener *peer_listeners[MKV_MAX_PEER_LISTENERS];
    unsigned num_peer_listeners;
    /* the one listener of each type of message; NULL: none */
    const struct mkv_peer_listener *message_listeners[MKV_MSG_LAST];
    const struct mkv_leg_listener *leg_listener;

    /* Changed under both mem_lock and lock; either suffices to read */
    mkv_list_t regions; /* all regions, ordered by id */
    mkv_table_t regions_by_name, regions_by_id;
    mkv_list_t mems;
    mkv_region_id_t last_region_id;
    uint32_t last_mem_id;
    uint64_t last_plan;
    uint64_t last_connection;
    uint64_t epoch;
    uint64_t removed_epoch; /* epoch of the last removal of regions */
    unsigned num_regions;

    mkv_list_t peers;
    mkv_list_t dead_peers; /* peers that the caller has closed and UCX has not */
    mkv_list_t peer_buckets[MKV_PEER_BUCKETS]; /* hash table of all peers, by ctx_id */
    mkv_list_t changed_peers;
    mkv_list_t busy_peers; /* peers with legs that have posts queued */
    uint64_t round_cost;   /* cost of calls given to UCX since the lock was taken */

    mkv_list_t xfers;
    mkv_list_t buckets[MKV_XFER_BUCKETS]; /* legs by transfer id */
    mkv_list_t dirty_xfers;
    /* Number of owners of each block, followed by those of each token: xfer/owner.c */
    uint8_t *owners[2 * MKV_MAX_COMPONENTS];
    uint64_t num_owners[2 * MKV_MAX_COMPONENTS];
    bool has_warned_of_overlap;
    mkv_list_t ops;                      /* open one-sided operations */
    mkv_list_t dirty_ops;                /* operations with something to do */
    uint64_t tombstones[MKV_TOMBSTONES]; /* nonces of remote instances that ended */
    uint64_t next_deadline;
    uint64_t time;        /* see mkv_ctx_time(); 0: to be read */
    bool is_in_callbacks; /* UCX's callbacks run; this round handles their results */
    unsigned num_asking_gates;          /* gates with a callback; they prevent sleep */
    struct mkv_signal *signals;         /* queue of new signals; atomic */
    struct mkv_submission *submissions; /* queue of new posts; atomic */
    struct mkv_signal *gates[MKV_GATE_BUCKETS];

    mkv_list_t new_events;        /* events that polls see when lock is released */
    mkv_list_t free_events;       /* nodes for new events */
    unsigned num_free_events;     /* length of free_events */
    unsigned num_reserved_events; /* number of nodes to keep; atomic */
    unsigned num_new_events;
    /* under event_lock */
    mkv_list_t events;
    unsigned num_events;        /* length of events; atomic */
    mkv_list_t polled_events;   /* taken events, kept in memory until the next poll */
    bool has_polled;            /* polled_events is not empty; atomic */
    mkv_list_t returned_events; /* empty nodes, which the next holder of lock moves to
                                   free_events */
    unsigned num_returned_events;
    bool is_credit_due; /* messages of peers were polled; atomic */

    void *read_back; /* page for bytes that flush.c reads from peers and ignores; NULL
                        until the first flush with such a read */
    ucp_mem_h read_back_memh;
    mkv_loop_t *loop; /* endpoint to this worker itself: stage/loop.h */
    bool has_warned_of_staging;
    unsigned num_scatters; /* copies from staging in flight */
    mkv_list_t free_posts;
    struct mkv_calls *free_calls;
    mkv_list_t list_cache; /* lists that no post uses, the oldest first */
    mkv_list_t list_classes[MKV_LIST_CLASSES]; /* the same lists, by class of size */
    size_t list_cache_bytes;

    int epoll_fd, wake_fd, timer_fd; /* -1 until mkv_event_fd() */
    bool is_progress_due; /* the last round moved something, or a call followed it */
    bool is_armed;        /* a thread may sleep on epoll_fd */
    mkv_counters_t count;
    uint64_t event_to_poll[MKV_LATENCY_BUCKETS]; /* atomic */
    unsigned num_peers;
};

/** Forks since the library was loaded, in this process and its ancestors. */
extern unsigned mkv_num_forks;

/** Count forks from now on. @return MKV_OK, MKV_ERR_NOMEM. */
mkv_status_t mkv_forks_watch(void);

/** Whether the context belongs to a parent process. Its lock may be held forever, and
 * UCX's objects are not usable here. */
static inline bool mkv_ctx_is_forked(const mkv_ctx_t *ctx)
{
    return ctx->num_forks != mkv_num_forks;
}

/** Set the text for mkv_ctx_check(). @return MKV_ERR_INVALID. */
mkv_status_t mkv_ctx_refuse(const mkv_ctx_t *ctx, const char *call);

/** First check of each public call. @return MKV_OK, MKV_ERR_INVALID: there is no
 * context, or it is forked. */
static inline mkv_status_t mkv_ctx_check(const mkv_ctx_t *ctx, const char *call)
{
    return ((ctx != NULL) && !mkv_ctx_is_forked(ctx)) ? MKV_OK
                                                      : mkv_ctx_refuse(ctx, call);
}

/** Set the text for a call that begins in mkv_close(). @return MKV_ERR_INVALID, or
 * MKV_OK: the closing thread itself makes the call, in a callback. */
mkv_status_t mkv_ctx_refuse_closing(const mkv_ctx_t *ctx, const char *call);

/** As mkv_ctx_check(), or MKV_ERR_INVALID: the context is being closed. Without a hold
 * the close does not wait for the call: mkv_close() names those calls. */
static inline mkv_status_t mkv_ctx_check_open(const mkv_ctx_t *ctx, const char *call)
{
    mkv_status_t status = mkv_ctx_check(ctx, call);

    return ((status == MKV_OK) && __atomic_load_n(&ctx->is_closing, __ATOMIC_SEQ_CST))
               ? mkv_ctx_refuse_closing(ctx, call)
               : status;
}

/** The last access of a call that holds the context, behind its last mkv_leave(). */
static inline void mkv_let_go(mkv_ctx_t *ctx)
{
    __atomic_sub_fetch(&ctx->num_held, 1, __ATOMIC_RELEASE);
}

/** Hold the context over a call. mkv_close() waits for mkv_let_go() before it frees
 * anything. The order of both accesses is the reverse of mkv_close()'s.
 * @return As mkv_ctx_check_open(). */
static inline mkv_status_t mkv_hold(mkv_ctx_t *ctx, const char *call)
{
    mkv_status_t status = mkv_ctx_check(ctx, call);

    if (status != MKV_OK) {
        return status;
    }
    __atomic_add_fetch(&ctx->num_held, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ctx->is_closing, __ATOMIC_SEQ_CST)) {
        status = mkv_ctx_refuse_closing(ctx, call);
    }
    if (status != MKV_OK) {
        mkv_let_go(ctx);
    }
    return status;
}

static inline void mkv_held_cleanup(mkv_ctx_t **held)
{
    if (*held != NULL) {
        mkv_let_go(*held);
    }
}

/** Hold the context until the function returns, or do @a _refused, which returns. Each
 * public call begins with it. */
#define MKV_HOLD(_ctx, _call, _refused)                                                \
    __attribute__((cleanup(mkv_held_cleanup))) mkv_ctx_t *mkv_held =                   \
        (mkv_hold(_ctx, _call) == MKV_OK) ? (_ctx) : NULL;                             \
    if (mkv_held == NULL) {                                                            \
        _refused;                                                                      \
    }

/** Add an open context to the process's list, or remove it at its close. */
void mkv_ctx_enlist(mkv_ctx_t *ctx);
void mkv_ctx_delist(mkv_ctx_t *ctx);

/** Whether the context of this number is open in this process. */
bool mkv_ctx_is_open(uint64_t ctx_id);

/** Time of the caller's clock, or of CLOCK_MONOTONIC. */
uint64_t mkv_ctx_now(mkv_ctx_t *ctx);
/** Time of mkv_ctx_now(), read once per entry or round, for reports. */
static inline uint64_t mkv_ctx_time(mkv_ctx_t *ctx)
{
    if (ctx->time == 0) {
        ctx->time = mkv_ctx_now(ctx);
    }
    return ctx->time;
}
/** Whether @a time may have come already. A false costs less than mkv_ctx_now(), which
 * a round of progress would otherwise call for nothing. */
bool mkv_ctx_may_be_due(const mkv_ctx_t *ctx, uint64_t time);
/** Name of an instance: never reused here, unlikely to repeat elsewhere. */
uint64_t mkv_ctx_nonce(mkv_ctx_t *ctx);
/** Check deadlines at this time at the latest. */
void mkv_ctx_deadline(mkv_ctx_t *ctx, uint64_t deadline);
/** Run the steps that UCX's callbacks have deferred. @return Number of steps. */
static inline unsigned mkv_ctx_step(mkv_ctx_t *ctx)
{
    return ctx->step(ctx);
}
/** Whether mkv_ctx_step() has deferred work. */
static inline bool mkv_ctx_has_steps(const mkv_ctx_t *ctx)
{
    return !mkv_list_is_empty(&ctx->dirty_xfers) ||
           !mkv_list_is_empty(&ctx->changed_peers);
}
/** One round of progress. @return How much it moved. */
static inline unsigned mkv_ctx_progress(mkv_ctx_t *ctx)
{
    return ctx->progress(ctx);
}

/** Whether other threads queued posts while the lock was taken. Needs no lock. */
static inline bool mkv_ctx_has_submissions(const mkv_ctx_t *ctx)
{
    return __atomic_load_n(&ctx->submissions, __ATOMIC_SEQ_CST) != NULL;
}

/** Whether gates were signalled, posts queued or messages polled since the last round
 * looked. Needs no lock. */
static inline bool mkv_ctx_has_signals(const mkv_ctx_t *ctx)
{
    return (__atomic_load_n(&ctx->signals, __ATOMIC_SEQ_CST) != NULL) ||
           __atomic_load_n(&ctx->is_credit_due, __ATOMIC_SEQ_CST) ||
           mkv_ctx_has_submissions(ctx);
}

/** Whether polls see events. Needs no lock. */
static inline bool mkv_ctx_has_published(const mkv_ctx_t *ctx)
{
    return __atomic_load_n(&ctx->num_events, __ATOMIC_ACQUIRE) > 0;
}

/** Whether events are queued, or will be queued when the lock is released. */
static inline bool mkv_ctx_has_events(const mkv_ctx_t *ctx)
{
    return (ctx->num_new_events > 0) || mkv_ctx_has_published(ctx);
}

/** Let polls see the new events. */
void mkv_ctx_publish(mkv_ctx_t *ctx);

/** Wake the thread that sleeps on mkv_event_fd(). */
void mkv_ctx_wake(mkv_ctx_t *ctx);
/** Wake all threads when work was queued without the lock. Queue the work first: an
 * arming thread looks for such work when it has read its descriptor. */
void mkv_ctx_wake_all(mkv_ctx_t *ctx);
/** Wake the threads that make progress. */
void mkv_ctx_wake_threads(mkv_ctx_t *ctx);

/** Process work submitted by other threads before the caller's own. */
static inline void mkv_entered(mkv_ctx_t *ctx)
{
    __atomic_store_n(&ctx->num_turns, ctx->num_turns + 1, __ATOMIC_RELAXED);
    ctx->time = 0;
    if (mkv_ctx_has_submissions(ctx)) {
        (void)ctx->take(ctx);
    }
}

/** Enter unless another thread is inside. */
static inline bool mkv_try_enter(mkv_ctx_t *ctx)
{
    if (pthread_mutex_trylock(&ctx->lock) != 0) {
        return false;
    }
    mkv_entered(ctx);
    return true;
}

static inline void mkv_enter(mkv_ctx_t *ctx)
{
    if (pthread_mutex_trylock(&ctx->lock) != 0) {
        __atomic_add_fetch(&ctx->num_waiting, 1, __ATOMIC_RELAXED);
        pthread_mutex_lock(&ctx->lock);
        __atomic_sub_fetch(&ctx->num_waiting, 1, __ATOMIC_RELAXED);
    }
    mkv_entered(ctx);
}

/** Leave after a call that creates no further work. Submissions of other threads are
 * taken in before the lock is free for long: their callers may not call again. */
static inline void mkv_leave_quietly(mkv_ctx_t *ctx)
{
    do {
        if (ctx->num_new_events > 0) {
            mkv_ctx_publish(ctx);
        }
        pthread_mutex_unlock(&ctx->lock);
    } while (mkv_ctx_has_submissions(ctx) && mkv_try_enter(ctx));
}

/** Let a waiting thread take the lock between two rounds of a long call. Without the
 * yield this thread would mostly win the lock again. */
static inline void mkv_pause(mkv_ctx_t *ctx)
{
    unsigned turn = ctx->num_turns;

    mkv_leave_quietly(ctx);
    while ((__atomic_load_n(&ctx->num_waiting, __ATOMIC_RELAXED) > 0) &&
           (__atomic_load_n(&ctx->num_turns, __ATOMIC_RELAXED) == turn)) {
        sched_yield();
    }
    mkv_enter(ctx);
}

/** Pause after every MKV_ROUND_STEPS steps. @return Whether the call paused. */
static inline bool mkv_pause_at(mkv_ctx_t *ctx, size_t step)
{
    bool is_due = (step % MKV_ROUND_STEPS == MKV_ROUND_STEPS - 1);

    if (is_due) {
        mkv_pause(ctx);
    }
    return is_due;
}

/** Leave after a call that may have left work for UCX, a queue or the clock. */
static inline void mkv_leave(mkv_ctx_t *ctx)
{
    ctx->is_progress_due = true;
    mkv_ctx_wake(ctx);
    if (ctx->threads_fd >= 0) {
        mkv_ctx_wake_threads(ctx);
    }
    mkv_leave_quietly(ctx);
}

/** Leave and return, in one line. */
static inline mkv_status_t mkv_leave_status(mkv_ctx_t *ctx, mkv_status_t status)
{
    mkv_leave(ctx);
    return status;
}

/** Add to a counter that is written under the lock and read by queries without it. */
#define MKV_ADD(_variable, _n)                                                         \
    __atomic_store_n(&(_variable), (_variable) + (_n), __ATOMIC_RELAXED)

#define MKV_COUNT(_peer, _counter, _n)                                                 \
    do {                                                                               \
        (_peer)->count._counter += (_n);                                               \
        (_peer)->ctx->count._counter += (_n);                                          \
    } while (0)

#endif
