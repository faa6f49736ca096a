/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_INT_H
#define MKV_INT_H

/**
 * @file
 * The private objects and what they ask of each other.
 *
 * Who owns whom: context > {regions > mems}, {peers > remote mems}, {xfers > legs >
 * posts}, events. A map holds its local regions, remote mems and peer; a plan its map;
 * a post its plan; a leg its map and peer. Everything is guarded by ctx->lock, which
 * public functions take; UCX callbacks run inside mkv_progress() or a posting call, so
 * under it.
 *
 * Callbacks of UCX only note what happened and queue the object (ctx->dirty_xfers,
 * ctx->failed_peers); decisions are taken in mkv_ctx_step(), so that no object is freed
 * or failed below a function that still uses it.
 */

#include "cache/blocks.h"
#include "base/list.h"
#include "base/log.h"
#include "morikv.h"
#include "base/options.h"
#include "wire/wire.h"

#include <ucp/api/ucp.h>

#include <pthread.h>

#define MKV_NSEC_PER_MSEC 1000000ull
#define MKV_NEVER UINT64_MAX
#define MKV_XFER_BUCKETS 1024u
#define MKV_TOMBSTONES 4096u
#define MKV_REORDER_WINDOW 4096u
#define MKV_PEER_EVENTS 2u /* ready, failed */
#define MKV_XFER_EVENTS 3u /* terminal, quiet, warning; and one a leg */

/** Array of one repeated pointer; blocks once handed out stay until cleanup. */
typedef struct mkv_fill_block {
    struct mkv_fill_block *older;
    size_t num;
    void *items[];
} mkv_fill_block_t;

/** A stretch of memory registered with UCX; holds any number of regions. */
typedef struct mkv_mem {
    mkv_list_t list;
    uint32_t id;
    ucs_memory_type_t type;
    uint64_t base, length;
    ucp_mem_h memh;
    void *rkey; /* of ucp_rkey_pack or ucp_memh_pack */
    size_t rkey_length;
    unsigned num_regions;
    mkv_fill_block_t *fill; /* memh, repeated */
} mkv_mem_t;

typedef struct mkv_lregion {
    mkv_list_t list;
    mkv_region_id_t id;
    mkv_region_t info; /* strides and allocation resolved */
    mkv_mem_t *mem;    /* NULL until committed */
    unsigned num_maps;
} mkv_lregion_t;

/** A peer's mem, with its key unpacked once. */
typedef struct mkv_rmem {
    mkv_list_t list;
    uint32_t id;
    ucs_memory_type_t type;
    uint64_t base, length;
    ucp_rkey_h rkey;
    unsigned num_pairs; /* of maps */
    int is_current;     /* in the peer's latest table */
    mkv_fill_block_t *fill;
} mkv_rmem_t;

/** Counters that a context and each of its peers keep. */
typedef struct mkv_counters {
    uint64_t xfers_opened, xfers_done, xfers_failed;
    uint64_t bytes_written, bytes_read;
    uint64_t elements_posted, elements_completed;
    uint64_t ucp_calls, flushes;
    uint64_t msgs_sent, msgs_received;
    uint64_t msgs_malformed, msgs_stale, msgs_early, msgs_dropped;
    uint64_t hellos, plans_created, plan_posts, lists_reused, arena_allocs;
} mkv_counters_t;

/** Memory for the arrays of a list, kept for the next one. */
typedef struct mkv_arena_block {
    mkv_list_t list;    /* ctx->arena, while nobody uses it */
    mkv_list_t meaning; /* of who may ask for its contents again */
    unsigned num_users;
    size_t size;
    char data[];
} mkv_arena_block_t;

/** Blocks that somebody uses. */
typedef struct mkv_arena_uses {
    mkv_arena_block_t **blocks;
    size_t num, max;
} mkv_arena_uses_t;

typedef struct mkv_event_node {
    mkv_list_t list;
    mkv_event_t event;
    void *owned; /* freed after the next poll */
    size_t owned_length;
} mkv_event_node_t;

/** A message on its way out, or kept on its way in. */
typedef struct mkv_packet {
    mkv_list_t list;
    struct mkv_peer *peer;
    uint32_t seq;
    uint64_t id; /* kept: of the transfer */
    uint32_t epoch;
    uint64_t from_nonce;
    uint64_t deadline; /* kept: drop it then */
    size_t length;
    uint8_t *data;
} mkv_packet_t;

typedef enum mkv_sgl_state {
    MKV_SGL_UNKNOWN,
    MKV_SGL_GOOD,
    MKV_SGL_BAD
} mkv_sgl_state_t;

/** Threads that make progress: threads.c. */
typedef struct mkv_threads {
    int worker_fd; /* UCX's */
    int kick_fd, stop_fd;
    unsigned num;
    pthread_t id[];
} mkv_threads_t;

struct mkv_ctx {
    pthread_mutex_t lock;
    unsigned num_waiting;   /* for the lock; atomic */
    mkv_threads_t *threads; /* NULL: PROGRESS_THREADS is 0 */
    mkv_config_t *config;
    const mkv_options_t *opts;
    mkv_log_t log;
    mkv_open_params_t params;
    char name[64];
    mkv_process_t process;
    uint64_t nonce_state;

    ucp_context_h ucp_context;
    ucp_worker_h worker;
    int is_attached;
    int is_closing;
    unsigned ucp_version; /* minor, of the loaded library */
    void *address;
    size_t address_length;

    mkv_list_t regions; /* by id */
    mkv_list_t mems;
    mkv_region_id_t last_region_id;
    uint32_t last_mem_id;
    uint64_t epoch;
    unsigned num_regions;

    mkv_list_t peers;
    mkv_list_t dead_peers; /* closed by the caller, not gone yet */
    mkv_list_t failed_peers;
    mkv_list_t busy_peers; /* with legs that have something to post */

    mkv_list_t xfers;
    mkv_list_t buckets[MKV_XFER_BUCKETS]; /* of legs, by transfer id */
    mkv_list_t dirty_xfers;
    uint64_t tombstones[MKV_TOMBSTONES]; /* nonces of remote instances that ended */
    uint64_t next_deadline;
    unsigned num_asking_gates; /* with a callback, so nobody can sleep */

    mkv_list_t events;
    mkv_list_t free_events;
    mkv_list_t polled_events; /* their memory is void at the next poll */
    size_t queued_event_bytes;
    unsigned num_free_events, num_reserved_events;

    mkv_list_t free_posts;
    struct mkv_calls *free_calls;
    mkv_list_t arena;
    size_t arena_bytes;

    int epoll_fd, wake_fd, timer_fd; /* -1 until mkv_event_fd() */
    mkv_counters_t count;
    unsigned num_peers, num_xfers;
};

/* Kinds of use of a peer object; it is freed when the last is gone */
struct mkv_peer {
    mkv_list_t list;      /* ctx->peers or dead_peers */
    mkv_list_t fail_list; /* ctx->failed_peers */
    mkv_list_t busy_list; /* ctx->busy_peers */
    mkv_ctx_t *ctx;
    char name[64];
    mkv_peer_state_t state;
    mkv_status_t status;
    char error[256];
    mkv_blob_info_t info; /* without pointers */
    mkv_process_t process;
    int is_same_host;
    int is_closed;     /* by the caller */
    unsigned num_refs; /* maps, legs, packets, requests */

    ucp_ep_h ep;
    int is_ep_closing, is_ep_gone;     /* gone: close request complete */
    int has_said_bye;                  /* the peer drained its side and left */
    int is_cut;                        /* we closed the connection, it did not fail */
    int is_ep_failed;                  /* seen by UCX's callback */
    int is_leaving;                    /* closed here: flush and BYE are on their way */
    int is_close_waiting;              /* failed: close when no call is in flight */
    int has_ack, has_info, is_flushed; /* the three parts of READY */
    uint64_t deadline;                 /* of CONNECTING, or of closing */
    mkv_status_t fail_status;          /* noted by a callback */
    char fail_text[200];

    uint32_t tx_seq, rx_seq; /* of the next message; random at first */
    int is_rx_started;       /* rx_seq is his; before, it is the one he answers with */
    mkv_list_t rx_reorder;   /* packets, by seq */
    unsigned num_reorder;
    size_t reorder_bytes;
    mkv_list_t early; /* packets for transfers not open here */
    unsigned num_early;
    size_t early_bytes;
    size_t tx_bytes;

    mkv_list_t rmems;
    mkv_wire_region_t *regions; /* by id; mem indexes region_mems */
    mkv_rmem_t **region_mems;   /* parallel to regions */
    uint32_t num_regions;
    uint64_t regions_epoch; /* of his that we know */
    uint64_t told_epoch;    /* of ours that he was told */
    mkv_list_t maps;

    char transports[192];
    unsigned transport_flags; /* what those take: backend.c */
    mkv_backend_t backend;
    mkv_sgl_state_t sgl[UCS_MEMORY_TYPE_LAST][UCS_MEMORY_TYPE_LAST]; /* here, there */

    mkv_list_t legs;      /* all */
    mkv_list_t busy_legs; /* with queued posts */
    uint64_t inflight_ops;
    mkv_list_t flush_waiting; /* legs */
    mkv_list_t flush_running;
    uint64_t inflight_bytes; /* beside inflight_ops, GCC would add vectors: slower */
    int is_flushing;
    mkv_counters_t count;
};

typedef struct mkv_pair {
    mkv_lregion_t *local;
    mkv_mem_t *mem;
    mkv_rmem_t *rmem;
    uint32_t remote_id;
    uint32_t component; /* index into map->components */
    int32_t layer;
    uint16_t part;
    uint8_t is_dense; /* a run of units is one piece on both sides */
    char *local_base;
    uint64_t remote_base;
    uint64_t unit_bytes, local_stride, remote_stride;
} mkv_pair_t;

struct mkv_map {
    mkv_list_t list; /* peer->maps */
    mkv_ctx_t *ctx;
    mkv_peer_t *peer;
    mkv_pair_t *pairs; /* by layer, component, part */
    uint32_t num_pairs;
    mkv_map_component_t *components; /* by number */
    uint32_t num_components;
    int is_stale;
    unsigned num_uses; /* plans and legs */
    mkv_list_t plans;
};

typedef struct mkv_plan_part {
    mkv_run_t *runs;
    size_t num_runs;
    uint32_t num_units;
} mkv_plan_part_t;

struct mkv_plan {
    mkv_list_t list; /* map->plans */
    mkv_ctx_t *ctx;
    mkv_map_t *map;
    uint32_t flags;
    unsigned num_posts;
    uint64_t num_elements, bytes;
    size_t memory;
    mkv_list_t lists;        /* arena blocks that hold a list of it, oldest use first */
    mkv_plan_part_t parts[]; /* parallel to map->components */
};

typedef enum mkv_gate_state {
    MKV_GATE_OPEN,
    MKV_GATE_ASK,
    MKV_GATE_WAIT
} mkv_gate_state_t;

/** A place in a plan. */
typedef struct mkv_cursor {
    uint32_t pair;
    uint32_t unit; /* in the run, when pieces are single units */
    size_t run;    /* in the pair's runs */
} mkv_cursor_t;

typedef struct mkv_post {
    mkv_list_t list; /* leg->posts or running */
    struct mkv_leg *leg;
    mkv_plan_t *plan;
    mkv_sel_t sel;
    mkv_gate_t gate;
    mkv_gate_state_t gate_state;

    mkv_cursor_t at;          /* next piece to give to UCX */
    int must_repeat;          /* a list was refused: once more, piece by piece */
    uint64_t num_elements;    /* of the whole post */
    uint64_t elements, bytes; /* given to UCX so far */
    uint64_t num_inflight;    /* UCX calls */
    uint64_t call_bytes;      /* of each of them, on average */
    uint64_t inflight_bytes;
    mkv_arena_uses_t lists; /* of the calls in flight */
} mkv_post_t;

typedef struct mkv_leg {
    mkv_list_t hash;  /* ctx->buckets */
    mkv_list_t list;  /* peer->legs */
    mkv_list_t busy;  /* peer->busy_legs */
    mkv_list_t flush; /* peer->flush_waiting or _running */
    struct mkv_xfer *xfer;
    mkv_peer_t *peer;
    mkv_map_t *map;
    uint32_t index;
    uint64_t remote_nonce; /* 0 until the other side is known */

    mkv_list_t posts;   /* not or partly given to UCX, in order */
    mkv_list_t running; /* wholly given to UCX */
    uint64_t *posted;   /* active: units per pair */
    uint64_t bytes;     /* completed */

    mkv_units_t *units; /* exposed, here or there; ids follow in the same block */
    uint32_t *expect;   /* parallel to units */
    uint32_t num_units;
    void *meta;
    size_t meta_length;

    unsigned is_exposed : 1; /* block list sent (passive) or received (active) */
    unsigned is_sealed : 1;
    unsigned is_flushing : 1;
    unsigned needs_flush : 1; /* puts that may not have arrived yet */
    unsigned is_finished : 1; /* FIN sent (active) or received and verified (passive) */
    unsigned is_term_sent : 1;
    unsigned is_told_drained : 1;
    unsigned is_peer_drained : 1; /* the peer cannot touch our memory any more */
} mkv_leg_t;

enum {
    MKV_TIMEOUT_BIND,
    MKV_TIMEOUT_XFER,
    MKV_TIMEOUT_RELEASE,
    MKV_TIMEOUT_DRAIN,
    MKV_NUM_TIMEOUTS
};

struct mkv_xfer {
    mkv_list_t list;
    mkv_list_t dirty;
    mkv_ctx_t *ctx;
    uint64_t id;
    uint32_t epoch;
    uint64_t nonce;
    mkv_mode_t mode;
    mkv_role_t role;
    int is_active;
    mkv_xfer_state_t state;
    mkv_status_t status;
    char error[256];
    int is_quiet, is_quarantined;
    uint64_t open_time, deadline;
    mkv_status_t deadline_status;
    uint64_t timeouts[MKV_NUM_TIMEOUTS]; /* in ns */
    void *user_data;
    mkv_expect_t *expect;
    size_t num_expect;
    uint64_t posted, completed, bytes, num_ucp_calls;
    unsigned num_events; /* reserved */
    uint32_t num_legs;
    mkv_leg_t legs[];
};

/* context.c */
uint64_t mkv_ctx_now(mkv_ctx_t *ctx);
uint64_t mkv_ctx_nonce(mkv_ctx_t *ctx);
void mkv_ctx_deadline(mkv_ctx_t *ctx, uint64_t deadline);
/** Take the decisions that callbacks left; returns how many. */
unsigned mkv_ctx_step(mkv_ctx_t *ctx);

unsigned mkv_progress_locked(mkv_ctx_t *ctx);

/* threads.c */
mkv_status_t mkv_threads_start(mkv_ctx_t *ctx);
/** Without the lock. */
void mkv_threads_stop(mkv_ctx_t *ctx);
void mkv_threads_kick(mkv_threads_t *threads);

static inline void mkv_enter(mkv_ctx_t *ctx)
{
    if (pthread_mutex_trylock(&ctx->lock) != 0) {
        __atomic_add_fetch(&ctx->num_waiting, 1, __ATOMIC_RELAXED);
        pthread_mutex_lock(&ctx->lock);
        __atomic_sub_fetch(&ctx->num_waiting, 1, __ATOMIC_RELAXED);
    }
}

/** After a call that leaves nothing to do. */
static inline void mkv_leave_quietly(mkv_ctx_t *ctx)
{
    pthread_mutex_unlock(&ctx->lock);
}

static inline void mkv_leave(mkv_ctx_t *ctx)
{
    if (ctx->threads != NULL) {
        mkv_threads_kick(ctx->threads);
    }
    mkv_leave_quietly(ctx);
}

/** Leave and return, in one line. */
static inline mkv_status_t mkv_leave_status(mkv_ctx_t *ctx, mkv_status_t status)
{
    mkv_leave(ctx);
    return status;
}

/** No message and no call may be given to the endpoint any more. */
static inline int mkv_peer_is_cut_off(const mkv_peer_t *peer)
{
    return peer->is_ep_closing || peer->is_close_waiting ||
           (peer->fail_status != MKV_OK);
}

#define MKV_COUNT(_peer, _counter, _n)                                                 \
    do {                                                                               \
        (_peer)->count._counter += (_n);                                               \
        (_peer)->ctx->count._counter += (_n);                                          \
    } while (0)

/* worker.c */
mkv_status_t mkv_worker_open(mkv_ctx_t *ctx);
void mkv_worker_close(mkv_ctx_t *ctx);
void mkv_process_self(mkv_process_t *process);
/** The process is proven gone: same boot, same pid namespace, other start time. */
int mkv_process_is_gone(const mkv_process_t *self, const mkv_process_t *process);
int mkv_process_is_local(const mkv_process_t *self, const mkv_process_t *process);

/* mem.c */
void mkv_mems_cleanup(mkv_ctx_t *ctx);

/* fill.c */
/** At least @a num times @a item, valid until mkv_fill_cleanup(); NULL: no memory. */
void *mkv_fill_get(mkv_fill_block_t **fill, void *item, size_t num);
void mkv_fill_cleanup(mkv_fill_block_t **fill);

/* describe.c */
/** Blob of this context; the arrays of the encoder are temporary. */
mkv_status_t mkv_ctx_blob(mkv_ctx_t *ctx, mkv_blob_kind_t kind, mkv_wbuf_t *wbuf);

/* remote.c */
mkv_status_t mkv_remote_update(mkv_peer_t *peer, const mkv_blob_info_t *info);
void mkv_remote_cleanup(mkv_peer_t *peer);
void mkv_rmem_put(mkv_peer_t *peer, mkv_rmem_t *rmem);
const mkv_wire_region_t *mkv_remote_find(const mkv_peer_t *peer, uint32_t component,
                                         int32_t layer, uint16_t part,
                                         mkv_rmem_t **rmem_p);

/* peer.c */
mkv_peer_t *mkv_peer_find(mkv_ctx_t *ctx, uint64_t ctx_id);
/** One that was closed here but still listens, for the end of its transfers. */
mkv_peer_t *mkv_peer_find_closed(mkv_ctx_t *ctx, uint64_t ctx_id, uint32_t seq);
mkv_status_t mkv_peer_announce(mkv_peer_t *peer, mkv_msg_type_t type);
/** A HELLO of somebody unknown: make a peer of him. */
mkv_peer_t *mkv_peer_accept(mkv_ctx_t *ctx, const mkv_msg_t *msg);
/**
 * Flush the endpoint and hold the peer, then call @a next with it: from here, without a
 * request, or from progress. @a next puts the peer and frees the request.
 */
void mkv_peer_flush(mkv_peer_t *peer, ucp_send_nbx_callback_t next);
void mkv_peer_hello(mkv_peer_t *peer, const mkv_msg_t *msg);
void mkv_peer_get(mkv_peer_t *peer);
void mkv_peer_put(mkv_peer_t *peer);

/* peer_close.c */
/** UCX's callback of an endpoint that broke. */
void mkv_peer_error_cb(void *arg, ucp_ep_h ep, ucs_status_t status);
/** Note a failure; acted on in the next step. First reason wins. */
void mkv_peer_fail(mkv_peer_t *peer, mkv_status_t status, const char *fmt, ...)
    MKV_PRINTF(3, 4);
void mkv_peer_step_failed(mkv_peer_t *peer);
/** Close the endpoint of a failed peer when its calls have come back. */
void mkv_peer_step_waiting(mkv_peer_t *peer);
void mkv_peer_close_ep(mkv_peer_t *peer);
/** Closed by the caller: leave when nothing needs the connection any more. */
void mkv_peer_step_closing(mkv_peer_t *peer);
mkv_status_t mkv_peer_close_locked(mkv_peer_t *peer, mkv_close_mode_t mode);
/** Look at deadlines and lost processes. @return The next time to look. */
uint64_t mkv_peer_check(mkv_peer_t *peer, uint64_t now);
/** Its connection is closed and none of its requests will call back any more. */
int mkv_peer_is_gone(const mkv_peer_t *peer);
/** Nothing of this peer can touch our memory any more, as far as can be proven. */
int mkv_peer_is_harmless(mkv_peer_t *peer);
void mkv_peer_destroy(mkv_peer_t *peer);

/* transport.c */
/** What UCX's status of a call means for its transfer. */
mkv_status_t mkv_status_of_ucs(ucs_status_t status);
void mkv_peer_query_transports(mkv_peer_t *peer);
/** @return MKV_OK, or MKV_ERR_BACKEND in strict mode. */
mkv_status_t mkv_peer_check_backend(mkv_peer_t *peer, char *text, size_t size);
void mkv_peer_log_rejected(mkv_peer_t *peer);
int mkv_peer_may_sgl(mkv_peer_t *peer, ucs_memory_type_t local,
                     ucs_memory_type_t remote);

/* notify.c */
mkv_status_t mkv_notify_init(mkv_ctx_t *ctx);
void mkv_notify_cleanup(mkv_ctx_t *ctx);
/** Send; from, to and seq are filled in. @return MKV_OK, _NOMEM, _LENGTH, _PEER. */
mkv_status_t mkv_notify_send(mkv_peer_t *peer, mkv_msg_t *msg);
/** What the UCX handler calls; separate for tests. */
void mkv_notify_receive(mkv_ctx_t *ctx, const void *data, size_t length);
/** Deliver what waited until the peer became ready. */
void mkv_notify_resume(mkv_peer_t *peer);
void mkv_packet_free(mkv_packet_t *packet);
void mkv_packets_cleanup(mkv_list_t *packets);

/* early.c */
mkv_status_t mkv_early_add(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                           size_t length);
void mkv_early_cancel(mkv_peer_t *peer, uint64_t from_nonce);
void mkv_early_apply(mkv_leg_t *leg);
uint64_t mkv_early_expire(mkv_peer_t *peer, uint64_t now);
void mkv_tombstone_add(mkv_ctx_t *ctx, uint64_t nonce);
int mkv_tombstone_has(const mkv_ctx_t *ctx, uint64_t nonce);

/* map.c, plan.c */
mkv_map_component_t *mkv_map_component(const mkv_map_t *map, uint32_t component);
void mkv_map_free(mkv_map_t *map);
void mkv_maps_refresh(mkv_peer_t *peer);
void mkv_plan_free(mkv_plan_t *plan);

/* xfer.c */
/** Where the legs of a transfer's id are found. */
mkv_list_t *mkv_xfer_bucket(mkv_ctx_t *ctx, uint64_t id);
mkv_leg_t *mkv_leg_find(mkv_peer_t *peer, uint64_t id, uint32_t epoch);
void mkv_xfer_dirty(mkv_xfer_t *xfer);
void mkv_xfer_step(mkv_xfer_t *xfer);
void mkv_xfer_fail(mkv_xfer_t *xfer, mkv_status_t status, const char *fmt, ...)
    MKV_PRINTF(3, 4);
void mkv_xfer_check_deadline(mkv_xfer_t *xfer, uint64_t now);
/** @param [in] which  MKV_TIMEOUT_*. */
void mkv_xfer_set_deadline(mkv_xfer_t *xfer, unsigned which);
void mkv_xfer_check_bound(mkv_xfer_t *xfer);
void mkv_xfer_waiting(const mkv_xfer_t *xfer, char *text, size_t size);

static inline int mkv_xfer_is_terminal(const mkv_xfer_t *xfer)
{
    return xfer->state >= MKV_XFER_DONE;
}

/* xfer_open.c */
void mkv_xfer_free(mkv_xfer_t *xfer);

/* leg.c: the protocol of one leg */
mkv_status_t mkv_leg_send(mkv_leg_t *leg, mkv_msg_t *msg);
/** A message without which the other side would hang: lost memory fails the peer. */
void mkv_leg_send_or_fail(mkv_leg_t *leg, mkv_msg_t *msg);
void mkv_leg_receive(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                     size_t length);
void mkv_leg_terminate(mkv_leg_t *leg);
void mkv_leg_step(mkv_leg_t *leg);
int mkv_leg_is_quiet(const mkv_leg_t *leg);
int mkv_leg_is_drained(const mkv_leg_t *leg);
mkv_status_t mkv_leg_check_seal(mkv_leg_t *leg, char *text, size_t size);
void mkv_leg_cleanup(mkv_leg_t *leg);

/* expose.c */
/** Active side: the peer's block list has come. */
void mkv_leg_exposed(mkv_leg_t *leg, const mkv_msg_t *msg);

/* post.c */
void mkv_leg_queue(mkv_leg_t *leg); /* it has posts to give */
unsigned mkv_peer_pump(mkv_peer_t *peer);
void mkv_leg_cancel_posts(mkv_leg_t *leg);

/* flush.c */
void mkv_peer_start_flush(mkv_peer_t *peer);

/* post_begin.c */
void mkv_posts_cleanup(mkv_ctx_t *ctx);

/* arena.c */
/** A block of at least @a size bytes, which nobody else uses; NULL: no memory. */
mkv_arena_block_t *mkv_arena_get(mkv_ctx_t *ctx, size_t size, mkv_arena_uses_t *uses);
/** One more user of a block's contents. @return 1, or 0: no memory. */
int mkv_arena_share(mkv_ctx_t *ctx, mkv_arena_block_t *block, mkv_arena_uses_t *uses);
/** The end of all these uses. */
void mkv_arena_put(mkv_ctx_t *ctx, mkv_arena_uses_t *uses);
/** Who links blocks here will not ask for their contents again. */
void mkv_arena_forget(mkv_list_t *meanings);
void mkv_arena_cleanup(mkv_ctx_t *ctx);

/* event.c */
/** UCX's event descriptor. @return UCS_OK, or why there is none. */
ucs_status_t mkv_worker_efd(mkv_ctx_t *ctx, int *fd_p);
/** Have nodes for @a num events of an object that is being made. */
mkv_status_t mkv_event_reserve(mkv_ctx_t *ctx, unsigned num);
/** The object is gone. */
void mkv_event_unreserve(mkv_ctx_t *ctx, unsigned num);
/** Queue; never fails for reserved events. NULL only without memory. */
mkv_event_t *mkv_event_add(mkv_ctx_t *ctx, mkv_event_type_t type);
/** As above, and free @a owned after it was polled; NULL: not queued, not freed. */
mkv_event_t *mkv_event_add_owned(mkv_ctx_t *ctx, mkv_event_type_t type, void *owned,
                                 size_t length);
void mkv_events_forget(mkv_ctx_t *ctx, const mkv_xfer_t *xfer, const mkv_peer_t *peer);
void mkv_events_cleanup(mkv_ctx_t *ctx);
void mkv_ctx_wake(mkv_ctx_t *ctx);

#endif
