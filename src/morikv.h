/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MORIKV_H
#define MORIKV_H

/**
 * @file
 * libmorikv: moves "layers x block lists" of a KV cache between processes over UCP.
 *
 * Objects:
 * - a **region** is memory: one (component, layer, part) of the cache;
 * - a **peer** is another process with its own context;
 * - a **map** pairs local and remote regions by component, layer and part;
 * - a **plan** holds block lists of both sides, merged into runs; it can be reused for
 *   every layer of its map;
 * - a **transfer** ("xfer") takes posts of plans: whole, by layer or by position, each
 *   behind an optional gate.
 *
 * A transfer has one *active* side, which moves the bytes (the source in WRITE, the
 * destination in READ), and one *passive* side, which exposes its block list first.
 * Both open it under the same (id, epoch). The library opens no port and starts no
 * thread unless option PROGRESS_THREADS is set.
 *
 * **Status and quiet are different.** The status is the result for a scheduler. Quiet
 * means that neither side touches this side's blocks for the transfer any more. Memory
 * may be reused only after quiet.
 *
 * Errors. Functions return @ref mkv_status_t. On an error nothing has changed, and
 * mkv_last_error() names the value and the expectation. A transfer keeps its first
 * error, with a text that names peer, component, layer and unit.
 *
 * Threads. All calls on one context may be made from any thread. One lock per context
 * serialises them. Contexts share nothing, so threads with a context each do not wait
 * for each other.
 * - mkv_poll(), mkv_xfer_status(), mkv_xfer_query(), mkv_gate_signal() and
 *   mkv_xfer_post() do not wait for another thread's progress. A post that finds the
 *   lock taken is checked and queued. The thread that holds the lock makes it before it
 *   returns, in the order of posts.
 * - Other calls wait for at most one round of progress, or of a call with many steps. A
 *   round makes a bounded number of UCX calls, or about a thousand steps over regions.
 * - Some steps are one round whatever their size:
 *   - the check and copy of a list of blocks, at most MAX_MESSAGE bytes (100 000 blocks
 *     take 0.6 ms);
 *   - a pass over the posts of a transfer that fails;
 *   - a pass over all transfers in mkv_stats().
 * - Loops over all regions are one round, too, with some nanoseconds for each region:
 *   - the end of mkv_map_create(), in which a new map takes its pairs;
 *   - the end of mkv_regions_commit();
 *   - each description of regions or keys that is made or received, with a check of
 *     each map of its peer.
 * - If regions of a side change three times during mkv_map_create(), all of the call is
 *   one round.
 * - mkv_region_add(), mkv_regions_commit(), mkv_regions_drop() and a dump of regions
 *   wait for each other. So do mkv_map_create() and mkv_regions_drop().
 *
 * Forks. A child process cannot use its parent's objects: calls return MKV_ERR_INVALID,
 * and calls that close or destroy do nothing and return MKV_OK. A child can open
 * contexts.
 *
 * Callbacks must not call this library on the same context. Gates, accept and mem_query
 * are called with the lock held, so they must not wait for a lock that another thread
 * holds around a call on the context. They run in the thread that makes progress (with
 * PROGRESS_THREADS, one of the library's); gates also run in a thread that posts. log
 * and clock run in any thread that makes a call. With an attached worker the caller
 * must not use the worker while another thread is inside a call on the context.
 *
 * Structures begin with a `size` member: set it to sizeof the structure and zero the
 * rest; zero means the default that is documented. Members are only ever added at the
 * end, and a program and a library of different versions work together:
 * - an older program's structure is shorter: the library reads missing members as zero
 *   and writes only as much as the program has room for;
 * - a newer program's structure is longer: members that the library does not support
 *   must be zero, or the call is refused with MKV_ERR_UNSUPPORTED and a text that names
 *   the structure and the member's offset; in structures that the library fills they
 *   read as zero.
 *
 * Elements of arrays have a fixed size instead, with reserved members that must be zero
 * and are checked in the same way. Enumerations grow at the end as well: ignore events
 * of an unknown type. docs/dev/abi.md has the complete policy.
 */

#include <ucp/api/ucp_def.h>
#include <ucs/memory/memory_type.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/** Version of this header; mkv_version_string() is that of the loaded library. */
#define MKV_API_MAJOR 0
#define MKV_API_MINOR 1
#define MKV_API_PATCH 0
#define MKV_VERSION_NUMBER(_major, _minor, _patch)                                     \
    (((_major) << 16) | ((_minor) << 8) | (_patch))
#define MKV_API_VERSION MKV_VERSION_NUMBER(MKV_API_MAJOR, MKV_API_MINOR, MKV_API_PATCH)

/* ---- Status ---------------------------------------------------------------------- */

typedef enum mkv_status {
    MKV_OK = 0,
    MKV_INPROGRESS = 1,         /**< Pending; an event follows */
    MKV_ERR_INVALID = -1,       /**< Argument out of its documented range */
    MKV_ERR_NOMEM = -2,         /**< Out of host memory */
    MKV_ERR_BUSY = -3,          /**< Still in use, or not ready yet; try later */
    MKV_ERR_VERSION = -4,       /**< Bytes of another, incompatible library version */
    MKV_ERR_GEOMETRY = -5,      /**< Unit sizes or model fingerprints differ */
    MKV_ERR_LENGTH = -6,        /**< Lengths or counts of the two sides differ */
    MKV_ERR_BOUNDS = -7,        /**< A unit or a byte range is outside its region */
    MKV_ERR_PAIRING = -8,       /**< Regions of the two sides do not pair up */
    MKV_ERR_DTYPE = -9,         /**< Data types of the two sides differ */
    MKV_ERR_PAGE = -10,         /**< Tokens per page of the two sides differ */
    MKV_ERR_TOPOLOGY = -11,     /**< Ranks that do not pair, or unequal TP */
    MKV_ERR_STALE = -12,        /**< Regions were dropped since the map was made */
    MKV_ERR_DUPLICATE = -13,    /**< Exists already under this key */
    MKV_ERR_NOTFOUND = -14,     /**< No such object */
    MKV_ERR_BIND_TIMEOUT = -15, /**< The other side did not open in time */
    MKV_ERR_XFER_TIMEOUT = -16, /**< Bound, but not complete in time */
    MKV_ERR_RELEASE_TIMEOUT = -17, /**< A reader did not release our blocks in time */
    MKV_ERR_DRAIN_TIMEOUT = -18,   /**< Could not be proven quiet in time */
    MKV_ERR_ABORTED = -19,         /**< Aborted by a caller, here or there */
    MKV_ERR_PEER = -20,            /**< The peer died or its connection failed */
    MKV_ERR_TRANSPORT = -21,       /**< UCX refused or failed an operation */
    MKV_ERR_BACKEND = -22,     /**< Strict mode: another backend class would carry it */
    MKV_ERR_GATE = -23,        /**< A gate reported failure */
    MKV_ERR_UNSUPPORTED = -24, /**< Impossible with this UCX or this build */
    MKV_ERR_PROTOCOL = -25,    /**< The peer sent an invalid message */
    MKV_ERR_LAST = -26
} mkv_status_t;

/** Short name of a status, never NULL. */
const char *mkv_status_string(mkv_status_t status);

/** Text of the last error returned to this thread; valid until its next error. */
const char *mkv_last_error(void);

/** Library version as text, "major.minor.patch". */
const char *mkv_version_string(void);

/* ---- Objects --------------------------------------------------------------------- */

typedef struct mkv_config mkv_config_t; /**< Options, read before open */
typedef struct mkv_ctx mkv_ctx_t;       /**< Usually one per process and GPU */
typedef struct mkv_peer mkv_peer_t;
typedef struct mkv_map mkv_map_t;
typedef struct mkv_plan mkv_plan_t;
typedef struct mkv_xfer mkv_xfer_t;
typedef struct mkv_op mkv_op_t;   /**< One-sided operation: mkv_op_post() */
typedef uint32_t mkv_region_id_t; /**< Never 0, never used twice in one context */

/* ---- 1. Configuration and context ------------------------------------------------ */

/**
 * Read the options from the environment.
 *
 * Every option NAME is taken from MORIKV_NAME and then, if @a prefix is given, from
 * <prefix>_MORIKV_NAME, which wins. docs/morikv.md lists the options.
 *
 * @param [in]  prefix    Application's prefix, or NULL.
 * @param [out] config_p  Owned by the caller, see @ref mkv_config_release.
 *
 * mkv_open() warns of variables that name no option and ignores them. A name that is
 * one or two letters away from an option is an error.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, or MKV_ERR_INVALID: a value does not parse, or the
 *         name of an option is misspelt.
 */
mkv_status_t mkv_config_read(const char *prefix, mkv_config_t **config_p);

/** @return MKV_OK, MKV_ERR_NOTFOUND: no such option, MKV_ERR_INVALID: a bad value. */
mkv_status_t mkv_config_set(mkv_config_t *config, const char *key, const char *value);

/** The value as text, or NULL if there is no such option. Valid until it is set. */
const char *mkv_config_get(const mkv_config_t *config, const char *key);

void mkv_config_release(mkv_config_t *config);

/** Write name, default and help of every option through @a write:
 *  "MORIKV_NAME=default", followed by lines of help. */
void mkv_config_help(void (*write)(void *arg, const char *line), void *arg);

/** Ranks of this process; a size of 0 counts as 1. */
typedef struct mkv_topology {
    uint32_t dp_rank, dp_size;
    uint32_t pp_rank, pp_size;
    uint32_t cp_rank, cp_size;
    uint32_t tp_rank, tp_size;
    uint32_t reserved[4]; /**< 0 */
} mkv_topology_t;

typedef enum mkv_log_level {
    MKV_LOG_ERROR,
    MKV_LOG_WARN,
    MKV_LOG_INFO,
    MKV_LOG_DEBUG,
    MKV_LOG_TRACE
} mkv_log_level_t;

/** A connecting context, described by itself; no field is verified. */
typedef struct mkv_caller {
    size_t size;      /**< Set by the library */
    const char *name; /**< Valid during the call */
    uint64_t context; /**< Random number of the context; changes with a restart */
    uint32_t pid;     /**< Process id in the peer's namespace */
    uint32_t is_same_host;
    mkv_topology_t topology;
    uint64_t model; /**< See mkv_open_params_t */
} mkv_caller_t;

typedef struct mkv_open_params {
    size_t size;
    const char *name; /**< UTF-8, for logs here and at peers; default "host:pid". More
                           than 63 bytes are cut, and end in "~" and a hash */
    mkv_topology_t topology;
    uint32_t page_tokens;    /**< Compared with the peer's if both are non-zero */
    uint32_t dtype;          /**< Caller's tag, compared likewise */
    uint32_t total_kv_heads; /**< Heads of all TP ranks together, compared likewise */
    uint32_t reserved;       /**< 0 */
    uint64_t model;          /**< Fingerprint of the model, compared the same way */

    /** Attach to these instead of making own ones; both or none. The context needs
     *  UCP_FEATURE_RMA and UCP_FEATURE_AM, and UCP_FEATURE_WAKEUP for
     *  mkv_event_fd(). They must outlive the mkv context. The active message id is
     *  option AM_ID. */
    ucp_context_h ucp_context;
    ucp_worker_h ucp_worker;

    /** Sink of log lines up to option LOG_LEVEL; default stderr. */
    void (*log)(void *arg, mkv_log_level_t level, const char *text);
    void *log_arg;

    /** Allocation that holds [address, address+length), for memory whose region names
     *  none (HIP: hipMemGetAddressRange). Return MKV_OK, or an error for "unknown". */
    mkv_status_t (*mem_query)(void *arg, const void *address, size_t length,
                              void **base_p, size_t *length_p);
    void *mem_query_arg;

    /** Clock of all deadlines, in ns, monotonic; default CLOCK_MONOTONIC. */
    uint64_t (*clock_ns)(void *arg);
    void *clock_arg;

    /** Decides whether a context that was not added here may connect; NULL: any may.
     *  Any status but MKV_OK refuses it: the context gets no answer and fails by its
     *  BIND_TIMEOUT. Called again on each attempt. */
    mkv_status_t (*accept)(void *arg, const mkv_caller_t *caller);
    void *accept_arg;
} mkv_open_params_t;

/**
 * Open a context.
 *
 * @param [in]  config  Copied; NULL reads the environment.
 * @param [in]  params  Copied; NULL for all defaults.
 * @param [out] ctx_p   Set only on MKV_OK.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_INVALID, MKV_ERR_UNSUPPORTED: the loaded UCX
 *         is older than 1.22, MKV_ERR_TRANSPORT: UCX failed.
 */
mkv_status_t mkv_open(const mkv_config_t *config, const mkv_open_params_t *params,
                      mkv_ctx_t **ctx_p);

/**
 * Abort running transfers and operations, and close peers, regions and UCX objects.
 *
 * Waits for calls of other threads that have begun, except mkv_poll() and
 * mkv_xfer_status(), which must have returned. Calls on the context that begin while it
 * runs return MKV_ERR_INVALID, mkv_progress() 0; none may begin after its return. All
 * handles made from the context are void from its beginning on, except in callbacks of
 * the closing thread, and unless MKV_ERR_INVALID is returned. It blocks up to option
 * DRAIN_TIMEOUT for transfers to become quiet, and about as long again to close the
 * connections. Peers need not be closed before.
 *
 * @return MKV_OK
 * @return MKV_ERR_INVALID        The context is NULL, or the call is made in a callback
 *                                by one of the context's progress threads, which would
 *                                wait for itself: nothing has changed. In a callback of
 *                                one of the caller's threads it hangs, as any call
 *                                does.
 * @return MKV_ERR_BUSY           Transfers, operations, plans or maps had been left
 *                                open; they are logged by name and closed.
 * @return MKV_ERR_DRAIN_TIMEOUT  A transfer could not be proven quiet, or a connection
 *                                or its operations did not end: a peer or UCX may still
 *                                touch memory of regions, which must not be freed.
 *                                Objects that UCX still uses are leaked. Has precedence
 *                                over MKV_ERR_BUSY.
 * @return MKV_ERR_TRANSPORT      UCX failed to deregister memory of regions, which must
 *                                not be freed either. Has precedence over MKV_ERR_BUSY.
 */
mkv_status_t mkv_close(mkv_ctx_t *ctx);

/* ---- 2. Regions ------------------------------------------------------------------ */

enum {
    MKV_REGION_OPTIONAL = 1 << 0, /**< A map needs no such region at the peer */
    MKV_REGION_BYTES = 1 << 1, /**< Memory without units, for plans of bytes: n_units,
                                     unit_bytes and unit_stride are 0. It is exposed as
                                     block 0, and may be of another length there */
    MKV_REGION_ONE_SIDED = 1 << 2,  /**< Peers may read and write all of it at any time,
                                        by mkv_op_post(); without the flag they access
                                        only blocks that a transfer exposes */
    MKV_REGION_REPLICATED = 1 << 3, /**< Every TP rank holds the same data */
    MKV_REGION_CP_REPLICATED = 1 << 4, /**< Every CP rank holds the same data; else each
                                            has its own tokens and its own list */
    MKV_REGION_HEADS_FIRST = 1 << 5, /**< In a unit the axis is outside of the tokens */
    MKV_REGION_REVERSE = 1 << 6      /**< Unit 0 is the last one in memory */
};

#define MKV_MAX_COMPONENTS 64
#define MKV_MAX_GROUPS 7
#define MKV_MAX_SHARDS 1024

/**
 * `n_units` units of `unit_bytes` bytes, `unit_stride` bytes apart, from `base` on.
 *
 * A unit is a block (page) of one layer. (component, layer, part) names the region and
 * is unique in the context: component 0 could be the KV cache, 1 the indexer, 2 the
 * state; parts of a component share one block list (part 0 keys, part 1 values).
 *
 * The members from @a outer on describe the layout of a unit, for peers with a
 * different TP size or block size. A unit is then
 *
 *     outer x tokens_per_unit x axis x inner_bytes, or with MKV_REGION_HEADS_FIRST
 *     outer x axis x tokens_per_unit x inner_bytes
 *
 * (tokens_per_unit 0 counts as 1), where the axis holds this rank's share of each
 * group, one group after the other. A group of F elements over all R ranks is F / R
 * elements of every rank or, with more ranks than elements, one element that R / F
 * neighbouring ranks hold alike. Examples, with the numbers of the whole model:
 * - heads: groups {num_kv_heads}, inner_bytes head_size * element size; outer 2 where
 *   keys and values adjoin in a block, groups {heads, heads} where they do in a token;
 * - latents (MLA): no groups, MKV_REGION_REPLICATED;
 * - convolution state: groups {keys, keys, values} in channels; state of heads: groups
 *   {heads}, inner_bytes bytes of one head's state.
 */
typedef struct mkv_region {
    size_t size;
    uint32_t component; /**< Below MKV_MAX_COMPONENTS */
    int32_t layer;      /**< Global layer number, below INT32_MAX */
    uint16_t part;
    uint16_t flags;             /**< MKV_REGION_* */
    ucs_memory_type_t mem_type; /**< UCS_MEMORY_TYPE_* */
    void *base;                 /**< Caller's memory; must outlive the region */
    uint64_t length;            /**< Bytes from base that belong to the region */
    uint64_t unit_bytes;        /**< Bytes moved per unit, at least 1 */
    uint64_t unit_stride;       /**< Bytes from unit to unit; 0: unit_bytes */
    uint64_t n_units;           /**< 1 to 2^32 - 1 */
    uint32_t tokens_per_unit;   /**< Compared with the peer's if both are non-zero */
    uint32_t dtype;             /**< Caller's tag, compared the same way */
    void *alloc_base;           /**< Allocation around base, if known, else NULL */
    uint64_t alloc_length;      /**< Bytes of that allocation; 0 if unknown */
    uint64_t outer;             /**< Repetitions of the rest of a unit; 0 counts as 1 */
    uint64_t inner_bytes; /**< 0: the rest of unit_bytes; needed to move parts of a
                               unit's tokens */
    uint32_t num_groups;  /**< 0: one element, which is not divided among ranks */
    uint32_t groups[MKV_MAX_GROUPS]; /**< Elements over all ranks; the rest is 0 */
    uint32_t shard_rank;             /**< Rank among those that share the axis */
    uint32_t shard_size; /**< Ranks that share the region; 0: all TP ranks */
} mkv_region_t;

/**
 * Describe memory; it becomes usable with @ref mkv_regions_commit.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_INVALID, MKV_ERR_DUPLICATE: (component, layer,
 *         part) exists, MKV_ERR_BOUNDS: a unit ends behind `length`, units overlap, or
 *         the region is not inside its allocation.
 */
mkv_status_t mkv_region_add(mkv_ctx_t *ctx, const mkv_region_t *region,
                            mkv_region_id_t *id_p);

/**
 * Register added regions with UCX and announce them to connected peers.
 *
 * One UCX registration per allocation, however many regions lie in it: regions of one
 * memory type that overlap, host regions that adjoin, and all regions of one stated (or
 * queried) allocation share one. All or nothing.
 *
 * @param [out] epoch_p  Number of this set of regions, may be NULL.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_TRANSPORT: UCX cannot register one of them, or
 *         MKV_ERR_INVALID: host memory is not mapped, or regions give one memory two
 * types.
 */
mkv_status_t mkv_regions_commit(mkv_ctx_t *ctx, uint64_t *epoch_p);

/**
 * Deregister regions; their memory may be freed after MKV_OK. All or nothing, except
 * for MKV_ERR_TRANSPORT.
 *
 * Peers are notified, and their maps on these regions turn stale. An engine drops its
 * regions to sleep, and adds and commits them to resume.
 *
 * @return MKV_OK, MKV_ERR_NOTFOUND, or MKV_ERR_BUSY: a map or an operation of this side
 *         uses one of them. Operations of peers (MKV_REGION_ONE_SIDED) are unknown
 *         here: agree with the peers first. MKV_ERR_TRANSPORT: all regions are dropped,
 *         but UCX failed to deregister memory. That memory must not be freed, as a
 *         device may still reach it.
 */
mkv_status_t mkv_regions_drop(mkv_ctx_t *ctx, const mkv_region_id_t *ids,
                              size_t num_ids);

/* ---- 3. Peers -------------------------------------------------------------------- */

typedef enum mkv_blob_kind {
    MKV_BLOB_ADDR, /**< Identity and address; UCX fetches the rest. Small */
    MKV_BLOB_FULL  /**< Includes the regions committed so far, without keys */
} mkv_blob_kind_t;

/**
 * Describe this context for @ref mkv_peer_add in another process; send the bytes over
 * any channel.
 *
 * @param [out]    buffer    May be NULL when *length_p is 0.
 * @param [in,out] length_p  In: room, out: bytes needed, in both cases below.
 *
 * @return MKV_OK, or MKV_ERR_LENGTH: the room is too small, nothing written.
 */
mkv_status_t mkv_blob(mkv_ctx_t *ctx, mkv_blob_kind_t kind, void *buffer,
                      size_t *length_p);

/**
 * Connect to the context that made the blob. The call does not block; any number of
 * peers can connect at the same time.
 *
 * The two contexts exchange topology and regions (HELLO). MKV_EV_PEER_READY or
 * MKV_EV_PEER_FAILED reports the result on both sides, so one side's call suffices.
 * Calling it again, or on both sides, gives the same peer: the context identifies the
 * peer, not the blob.
 *
 * If that peer has failed, or the other side has closed it, a new connection is made
 * with a new handle. The former handle stays valid until it is closed. The other side
 * need not do anything: it also gets MKV_EV_PEER_READY with a new handle. A restarted
 * process has a new context and so is a new peer, even under the same name. Maps belong
 * to a handle: maps of the former handle are refused with MKV_ERR_PEER, and new maps
 * need no change of regions.
 *
 * @param [in] name     Name in texts here; NULL: the peer's own name.
 * @param [out] peer_p  Valid until @ref mkv_peer_close.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_VERSION, MKV_ERR_PROTOCOL: malformed bytes,
 *         MKV_ERR_TRANSPORT: UCX cannot reach the address, MKV_ERR_BUSY: there are
 *         MAX_PEERS already.
 */
mkv_status_t mkv_peer_add(mkv_ctx_t *ctx, const void *blob, size_t length,
                          const char *name, mkv_peer_t **peer_p);

typedef enum mkv_peer_state {
    MKV_PEER_CONNECTING,
    MKV_PEER_READY,
    MKV_PEER_FAILED, /**< Final: close the peer. Adding it again returns a new handle */
    MKV_PEER_CLOSED /**< Like FAILED, but the peer has closed the connection in order */
} mkv_peer_state_t;

/** Transport that carries the data of a peer, best first. */
typedef enum mkv_backend {
    MKV_BACKEND_UNKNOWN, /**< Connection is not made yet */
    MKV_BACKEND_XGMI,    /**< mori_xgmi */
    MKV_BACKEND_IPC,     /**< Other GPU IPC transport of UCX */
    MKV_BACKEND_RDMA,    /**< mori_rdma or UCX's verbs transports */
    MKV_BACKEND_SHM,     /**< Shared memory, cma, xpmem, self: host memory */
    MKV_BACKEND_TCP
} mkv_backend_t;

/** Why GPU memory takes a slow path to a peer; mkv_peer_attr_t::slow_text has more. */
typedef enum mkv_slow {
    MKV_SLOW_NO,      /**< No slow path was taken */
    MKV_SLOW_OTHER,   /**< A reason that is not listed below */
    MKV_SLOW_TLS,     /**< UCX_TLS or option TLS leaves mori's transports out */
    MKV_SLOW_MODULE,  /**< UCX_PLUGIN_PATH does not lead to the module */
    MKV_SLOW_SHM,     /**< Another /dev/shm */
    MKV_SLOW_USER,    /**< Another user */
    MKV_SLOW_PID,     /**< The same pid in another pid namespace */
    MKV_SLOW_NETWORK, /**< Another network namespace */
    MKV_SLOW_LAST
} mkv_slow_t;

#define MKV_SLOW_TEXT_SIZE 252

typedef struct mkv_peer_attr {
    size_t size;
    mkv_peer_state_t state;
    mkv_status_t status; /**< Reason of the states FAILED and CLOSED */
    char error[256];
    char name[64];
    char transports[192]; /**< "mori_xgmi/xgmi0 tcp/lo", empty before READY */
    /** Slowest transport that UCX chose for calls made here so far, as UCX reports it
     * for the first call of each kind. Before the first call: the best connected
     * transport, which may not reach all memory. */
    mkv_backend_t backend;
    int is_same_host;
    int has_sgl_put;        /**< A WRITE of GPU memory is one UCX call */
    uint32_t num_regions;   /**< Regions that the peer has announced; 0 after its end */
    uint64_t regions_epoch; /**< Epoch of the announced regions */
    mkv_topology_t topology;
    /** Transport that UCX chose for each kind of call and pair of memory types, in
     * UCX's words: "put host>host: tcp (software emulation tcp/lo); list put rocm>rocm:
     * xgmi (...)". Each pair is source>destination. Empty before the first call. Puts
     * for a READ are listed at the peer that makes them. UCX may choose other
     * transports for lengths that differ from the first one. */
    char paths[512];
    mkv_slow_t slow; /**< Reason of the first slow path of GPU memory to it */
    char slow_text[MKV_SLOW_TEXT_SIZE]; /**< Reason and remedy; empty: no such path */
} mkv_peer_attr_t;

/** @return MKV_OK, MKV_ERR_INVALID: attr->size. */
mkv_status_t mkv_peer_query(mkv_peer_t *peer, mkv_peer_attr_t *attr);

typedef enum mkv_close_mode {
    MKV_CLOSE_FLUSH, /**< Refused while transfers use the peer */
    MKV_CLOSE_FORCE  /**< Its transfers fail with MKV_ERR_PEER */
} mkv_close_mode_t;

/**
 * Disconnect; the handle is void on MKV_OK. Maps of the peer stay valid handles, and
 * transfers on them fail. The other side sees MKV_EV_PEER_CLOSED.
 *
 * @return MKV_OK, or MKV_ERR_BUSY: MKV_CLOSE_FLUSH and transfers are open.
 */
mkv_status_t mkv_peer_close(mkv_peer_t *peer, mkv_close_mode_t mode);

/**
 * Declare that the peer cannot touch memory of this context any more: its host was
 * switched off, its GPU reset, or its container removed. Transfers that only wait for a
 * proof of that become quiet with the next progress, and their quarantined blocks are
 * free.
 *
 * The library cannot check this: a peer that is still alive overwrites blocks of
 * others. A connection that has not failed yet fails with MKV_ERR_PEER.
 *
 * @return MKV_OK.
 */
mkv_status_t mkv_peer_declare_dead(mkv_peer_t *peer);

/* ---- 4. Maps and plans ----------------------------------------------------------- */

enum {
    MKV_MAP_INTERSECT = 1 << 0, /**< Pair what both have (pipeline stages, draft
                                     layers); default: every region must pair */
    MKV_MAP_ANY_RANK = 1 << 1,  /**< Replicated data comes from this peer, even if other
                                     ranks hold it as well: TP ranks need not be equal,
                                     and no source is elected */
    MKV_MAP_SRC = 1 << 2,       /**< The map is for transfers in which this side is the
                                 *   source */
    MKV_MAP_DST = 1 << 3,       /**< The map is for transfers in which this side is the
                                 *   destination */
    MKV_MAP_TOKENS = 1 << 4 /**< Block lists are token lists: token t is the token t %
                                 tokens_per_unit of block t / tokens_per_unit. On
                                 both sides alike */
};

typedef struct mkv_map_params {
    size_t size;
    uint32_t flags;             /**< MKV_MAP_* */
    uint32_t reserved;          /**< 0 */
    const uint32_t *components; /**< NULL: all */
    size_t num_components;
} mkv_map_params_t;

/**
 * Pair local and remote regions by (component, layer, part).
 *
 * **Unequal ranks.** If the regions describe the layout of their units, the map holds
 * the common part of this rank's units and the peer's. If several sources hold the same
 * data, one is elected for each destination: the one nearest to its place among all. So
 * the maps of a destination with all ranks of the source write each of its bytes once;
 * this is proven when the map is made. A map may be empty: then the other side expects
 * nothing from it, and its leg completes when it is sealed. The election depends on
 * which side is the source: set MKV_MAP_SRC or MKV_MAP_DST unless it makes no
 * difference.
 *
 * **Unequal blocks.** Where one side's tokens_per_unit is k times the other's, one of
 * its blocks pairs with k of the other's; see mkv_plan_create().
 *
 * @param [in]  params  NULL for defaults.
 *
 * @return MKV_OK
 * @return MKV_ERR_BUSY      The peer is not ready yet.
 * @return MKV_ERR_PEER      The peer has failed.
 * @return MKV_ERR_TOPOLOGY  TP sizes, or TP ranks without MKV_MAP_ANY_RANK, differ and
 *         a region does not describe the layout of its units; elements cannot be
 *         divided among ranks; or MKV_MAP_SRC or MKV_MAP_DST is needed.
 * @return MKV_ERR_PAGE, MKV_ERR_DTYPE, MKV_ERR_GEOMETRY  These differ; see
 *         mkv_last_error() for where.
 * @return MKV_ERR_PAIRING   A region has no partner, or there is no pair at all.
 */
mkv_status_t mkv_map_create(mkv_peer_t *peer, const mkv_map_params_t *params,
                            mkv_map_t **map_p);

typedef struct mkv_map_component {
    uint32_t component;
    uint32_t num_pairs; /**< Regions, or parts of them; 0: another source is elected */
    uint64_t local_units; /**< Units a block id may address: smallest n_units */
    uint64_t remote_units;
    uint64_t bytes_per_unit; /**< Bytes of one local block (MKV_MAP_TOKENS: one token)
                                over all pairs, layers and parts */
    uint64_t dst_bytes_per_unit; /**< Bytes of one unit at the destination: the maps
                                    with all its sources move each once */
    uint32_t num_sources;        /**< Ranks that send to the destination, each of which
                                      needs a leg. Without MKV_MAP_DST: for the peer as
                                      destination */
    uint32_t num_destinations;   /**< Ranks that the source sends to */
    uint64_t reserved[2];        /**< 0 */
} mkv_map_component_t;

typedef struct mkv_map_attr {
    size_t size;
    mkv_peer_t *peer; /**< NULL after mkv_peer_close() */
    uint32_t num_pairs;
    int32_t layer_lo, layer_hi; /**< [lo, hi) covers all pairs */
    uint32_t num_components;
    const mkv_map_component_t *components; /**< Owned by the map */
    int is_stale;
    uint32_t reserved; /**< 0 */
} mkv_map_attr_t;

mkv_status_t mkv_map_query(const mkv_map_t *map, mkv_map_attr_t *attr);

/** @return MKV_OK, or MKV_ERR_BUSY: a plan or a transfer uses it. */
mkv_status_t mkv_map_destroy(mkv_map_t *map);

/**
 * Block lists of one component. Position i of one list belongs to i of the other; where
 * a block of one side is as long as k of the other, it belongs to the positions from k
 * * i on, and the last one may have fewer.
 */
typedef struct mkv_units {
    uint32_t component;
    uint32_t num_local, num_remote;
    uint32_t flags;         /**< 0 */
    const uint32_t *local;  /**< Block ids in this process */
    const uint32_t *remote; /**< Block ids in the peer's process */
    uint64_t reserved[2];   /**< 0 */
} mkv_units_t;

enum {
    MKV_PLAN_KEEP_ORDER = 1 << 0, /**< Keep the given order; needed to post ranges of
                                       positions. Default: sort by local block, which
                                       merges more */
    MKV_PLAN_UNCHECKED = 1 << 1   /**< Posts are not compared with what was exposed; the
                                       other side still does so at the end */
};

/**
 * Merge block lists into runs: neighbours that are neighbours on both sides.
 *
 * The plan serves every layer and part of its map, and any number of posts. Lists are
 * copied. A component without entry has no units; zero units are legal. Other calls on
 * the context need not wait for this one.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_INVALID, MKV_ERR_LENGTH: num_local and
 *         num_remote differ, MKV_ERR_BOUNDS: a block is not in the regions,
 *         MKV_ERR_PAIRING: the map has no such component, MKV_ERR_DUPLICATE: a
 *         component occurs twice.
 */
mkv_status_t mkv_plan_create(mkv_map_t *map, const mkv_units_t *units, size_t num_units,
                             uint32_t flags, mkv_plan_t **plan_p);

/**
 * Pieces of memory of one pair of regions. Piece i is `length[i]` bytes from the offset
 * `local[i]` of the region here and `remote[i]` of the peer's, both from its base.
 *
 * With @a count the entries are slices: entry i is `count[i]` such pieces, each
 * `local_stride[i]` and `remote_stride[i]` bytes after the one before it. A slice takes
 * no memory for its pieces.
 */
typedef struct mkv_bytes {
    uint32_t component;
    int32_t layer;
    uint16_t part;
    uint16_t flags;                /**< 0 */
    uint32_t reserved;             /**< 0 */
    uint64_t num;                  /**< Entries of each array */
    const uint64_t *local;         /**< Offsets here */
    const uint64_t *remote;        /**< Offsets there */
    const uint64_t *length;        /**< At least 1 */
    const uint64_t *count;         /**< 1 to 2^32 - 1; NULL: pieces, not slices */
    const uint64_t *local_stride;  /**< NULL exactly when count is NULL */
    const uint64_t *remote_stride; /**< NULL exactly when count is NULL */
    uint64_t reserved_end[2];      /**< 0 */
} mkv_bytes_t;

/**
 * Plan of bytes instead of blocks, for memory without blocks (@ref MKV_REGION_BYTES) or
 * for parts of blocks. Pieces that adjoin on both sides are merged; order does not
 * matter.
 *
 * Arrays are copied. The plan serves any number of posts, by component and layer; it
 * has no positions. Other calls on the context need not wait for this one.
 *
 * A piece may be posted if every unit of the peer's region that it touches was exposed
 * to the transfer. In WRITE no byte of the peer may occur twice.
 * A component to which bytes were posted is not counted in units at the seal: see
 * mkv_expect_t.num_bytes.
 *
 * @param [in] bytes  At most one for each pair of regions.
 * @param [in] flags  MKV_PLAN_UNCHECKED or 0.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_INVALID: an array is missing, or a length or
 *         count is 0, MKV_ERR_BOUNDS: a piece is not inside its regions, or holds bytes
 *         between their units, MKV_ERR_PAIRING: the map has no such pair,
 *         MKV_ERR_DUPLICATE: a pair occurs twice.
 */
mkv_status_t mkv_plan_create_bytes(mkv_map_t *map, const mkv_bytes_t *bytes,
                                   size_t num_bytes, uint32_t flags,
                                   mkv_plan_t **plan_p);

typedef struct mkv_plan_attr {
    size_t size;
    uint64_t num_units; /**< Pairs of blocks given, over all components */
    uint64_t num_runs; /**< Runs after merging, over all components; for plans of bytes:
                          entries */
    uint64_t num_elements; /**< Pieces of memory moved when all layers are posted */
    uint64_t bytes;        /**< Bytes moved when all layers are posted */
    uint64_t memory;       /**< Bytes of host memory the plan occupies */
} mkv_plan_attr_t;

mkv_status_t mkv_plan_query(const mkv_plan_t *plan, mkv_plan_attr_t *attr);

/** @return MKV_OK, or MKV_ERR_BUSY: a post uses it. */
mkv_status_t mkv_plan_destroy(mkv_plan_t *plan);

/* ---- 5. Transfers ---------------------------------------------------------------- */

typedef enum mkv_mode {
    MKV_WRITE, /**< The source puts, or has the destination's library get (option
                    READ_BY); the destination exposes its blocks */
    MKV_READ   /**< The destination gets, or has the source's library put (option
                    READ_BY); the source exposes its blocks */
} mkv_mode_t;

typedef enum mkv_role { MKV_SRC, MKV_DST } mkv_role_t;

typedef enum mkv_xfer_state {
    MKV_XFER_INIT,   /**< Waiting for the other side */
    MKV_XFER_BOUND,  /**< Every leg has received the other side's identity */
    MKV_XFER_ACTIVE, /**< Something was posted */
    MKV_XFER_SEALED, /**< All legs sealed, not all complete */
    MKV_XFER_DONE,   /**< Terminal: complete and verified */
    MKV_XFER_FAILED, /**< Terminal */
    MKV_XFER_ABORTED /**< Terminal */
} mkv_xfer_state_t;

/** Units of one component that each leg must move; see mkv_xfer_params_t. */
typedef struct mkv_expect {
    uint32_t component;
    uint32_t num_units;
    uint64_t num_bytes; /**< WRITE by plans of bytes: bytes that each leg must deliver,
                             in place of num_units; 0: unknown and not checked */
} mkv_expect_t;

/**
 * Order of posts that wait for one peer's credits (options MAX_INFLIGHT_OPS and
 * _BYTES). A call given to UCX cannot be overtaken. So posts of low priority fill at
 * most half of the credits, and the rest is free for higher priorities.
 */
typedef enum mkv_priority {
    MKV_PRIORITY_NORMAL,
    MKV_PRIORITY_HIGH, /**< A user waits for the first token */
    MKV_PRIORITY_LOW   /**< Moves when others leave room, for as long as its deadlines
                            allow: offload, prefetch */
} mkv_priority_t;

typedef struct mkv_xfer_params {
    size_t size;
    uint64_t id;    /**< Same on both sides, unique among open ones */
    uint32_t epoch; /**< Generation of the id, same on both sides */
    mkv_mode_t mode;
    mkv_role_t role;
    uint32_t flags;             /**< 0 */
    mkv_map_t *const *legs;     /**< Maps, a different peer each; copied */
    size_t num_legs;            /**< At least 1 */
    const mkv_expect_t *expect; /**< Passive side: units that every leg must deliver.
                                     Active side of a READ: units that it reads over
                                     each leg. NULL: all units exposed */
    size_t num_expect;
    uint32_t bind_timeout_ms; /**< 0: options BIND_TIMEOUT, XFER_TIMEOUT, ... */
    uint32_t xfer_timeout_ms;
    uint32_t release_timeout_ms;
    uint32_t drain_timeout_ms;
    void *user_data; /**< Comes back in events */
    /** Called once when the transfer is done, failed or aborted, before the event can
     * be polled: for streams of a GPU that wait for the data, e.g. on a word of host
     * memory that the callback sets. Runs in the thread that detects the end, with the
     * lock held: it must not call this library on the same context. NULL: none. */
    void (*ended)(void *arg, mkv_status_t status);
    void *ended_arg;
    mkv_priority_t priority; /**< Priority of this side's posts, if it puts or gets */
    uint32_t reserved;       /**< 0 */
} mkv_xfer_params_t;

/**
 * Open one side of a transfer.
 *
 * Messages that the other side sent before the open were kept, for twice this context's
 * option BIND_TIMEOUT, and are handled now. When that time is over, a side that has
 * exposed fails with MKV_ERR_BIND_TIMEOUT. If the other side has given up already, the
 * transfer fails at once, with its code and text. A later instance of the same (id,
 * epoch) on the other side fails too, so a retry must use another epoch. Two sides that
 * would both expose fail with MKV_ERR_INVALID. Two sides that both wait for the other's
 * blocks cannot detect it and end by the deadline.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_INVALID, MKV_ERR_DUPLICATE: (id, epoch) is
 *         open on one of these peers, MKV_ERR_PEER: a peer has failed, MKV_ERR_STALE.
 */
mkv_status_t mkv_xfer_open(mkv_ctx_t *ctx, const mkv_xfer_params_t *params,
                           mkv_xfer_t **xfer_p);

#define MKV_LEG_ALL UINT32_MAX

/**
 * Request a transfer that the other side may not expect. Unless the other side has
 * opened it, MKV_EV_INCOMING is raised there. The other side then makes a map of the
 * requesting peer and opens its side as usual, or calls mkv_xfer_refuse(), or lets the
 * deadlines expire.
 *
 * A reader calls this if the source has no list of its readers. The destination of a
 * WRITE exposes first and then calls this, so that the event shows its units to the
 * source.
 *
 * @param [in] leg   Index into the legs, or MKV_LEG_ALL. Nothing is sent to a side that
 *                   has opened already, or on a leg that has failed.
 * @param [in] data  Any bytes for the other connector; copied.
 *
 * @return MKV_OK, MKV_ERR_INVALID: no such leg, MKV_ERR_LENGTH: larger than option
 * MAX_MESSAGE, MKV_ERR_PEER, MKV_ERR_NOMEM, or the transfer's error when it is
 * terminal.
 */
mkv_status_t mkv_xfer_request(mkv_xfer_t *xfer, uint32_t leg, const void *data,
                              size_t length);

/**
 * Refuse a transfer that a peer requested or exposed and that is not open here: the
 * peer's transfer fails.
 *
 * @param [in] code    Negative.
 * @param [in] reason  Reaches the other side's text; may be NULL.
 *
 * @return MKV_OK, MKV_ERR_INVALID, MKV_ERR_NOTFOUND: the peer has no such request (any
 *         more).
 */
mkv_status_t mkv_xfer_refuse(mkv_peer_t *peer, uint64_t id, uint32_t epoch,
                             mkv_status_t code, const char *reason);

/**
 * Passive side: expose blocks to the active side, which gets MKV_EV_EXPOSED.
 *
 * @param [in] leg       Index into the legs, or MKV_LEG_ALL: those that have not
 * failed; each leg once.
 * @param [in] units     Only the local lists are used; copied. Zero units are legal:
 *                       the leg completes when the active side seals.
 * @param [in] meta      Any bytes for the other connector; copied.
 *
 * @return MKV_OK, MKV_ERR_INVALID, MKV_ERR_BOUNDS, MKV_ERR_PAIRING, MKV_ERR_DUPLICATE:
 *         exposed already, or, with option OVERLAP=refuse, a block is exposed to
 *         another WRITE that is not quiet, MKV_ERR_LENGTH: larger than MAX_MESSAGE,
 *         MKV_ERR_NOMEM, or the transfer's error when it is terminal.
 */
mkv_status_t mkv_xfer_expose(mkv_xfer_t *xfer, uint32_t leg, const mkv_units_t *units,
                             size_t num_units, const void *meta, size_t meta_length);

/** Members of a selection that are set; the others must be 0 and select everything.
 */
enum {
    MKV_SEL_COMPONENTS = 1 << 0,
    MKV_SEL_LAYERS = 1 << 1,
    MKV_SEL_POSITIONS = 1 << 2,
    MKV_SEL_NOTIFY = 1 << 3 /**< Report this post while the transfer runs */
};

/**
 * Part of a plan; a field that is set but empty selects nothing.
 *
 * With MKV_SEL_NOTIFY both sides get an event for this post alone, with a number chosen
 * here: a layer, or a chunk of a prefill. The source of a WRITE gets MKV_EV_LOCAL_DONE
 * when its blocks are not read for this post any more. The destination of either mode
 * gets MKV_EV_ARRIVED when the bytes have arrived. The first event costs nothing. The
 * second one costs a flush and a message in WRITE; posts that end while a flush runs
 * share the next one.
 */
typedef struct mkv_sel {
    size_t size;
    uint32_t fields;         /**< MKV_SEL_*; 0: everything */
    uint32_t reserved;       /**< 0 */
    uint64_t component_mask; /**< Bit c: component c */
    int32_t layer_lo,
        layer_hi;            /**< [lo, hi), within the layers of this side's regions */
    uint32_t pos_lo, pos_hi; /**< [lo, hi) of each component's positions; needs
                                  MKV_PLAN_KEEP_ORDER */
    uint32_t notify;         /**< Value of the events of this post */
    uint32_t reserved_end;   /**< 0 */
} mkv_sel_t;

/** Delays a post until its source data is complete. */
typedef struct mkv_gate {
    size_t size;
    /** Returns 1: open, 0: not yet, negative: fail with MKV_ERR_GATE. NULL: open when
     *  @a id was signalled with @a value or a greater one. Called with the lock held
     *  while the post is the first of its leg, until the gate is open. Callers are
     *  mkv_xfer_post() to the peer, the thread that holds the lock meanwhile, and
     *  progress. */
    int (*ready)(void *arg);
    void *arg;
    uint64_t id;    /**< For mkv_gate_signal(); any number of posts may share it */
    uint64_t value; /**< At least 1, without @a ready */
} mkv_gate_t;

/**
 * Active side: move a part of a plan. Never waits and never reports "queue full": posts
 * without credit are queued, in order per leg. A gated post holds back later ones of
 * its leg only.
 *
 * Nothing is allocated for a repeated post. The plan must live until the transfer is
 * quiet.
 *
 * @param [in] sel   NULL: everything.
 * @param [in] gate  NULL: open. Copied.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_BUSY: event EXPOSED has not come yet,
 *         MKV_ERR_INVALID: e.g. not the active side, sealed, plan of another map,
 *         MKV_ERR_BOUNDS: positions outside the
 *         plan, or a block that the peer has not exposed to this transfer,
 *         MKV_ERR_DUPLICATE: WRITE, and a block of the peer occurs twice in the plan,
 * MKV_ERR_STALE, or the transfer's error when it is terminal.
 */
mkv_status_t mkv_xfer_post(mkv_xfer_t *xfer, uint32_t leg, mkv_plan_t *plan,
                           const mkv_sel_t *sel, const mkv_gate_t *gate);

/**
 * Raise the value of an id to at least @a value: gates that wait for this value or less
 * are open, whether they were posted before or later. A stream that counts its finished
 * steps needs one id; values begin at 0 and never fall.
 *
 * Any thread may call it, also in callbacks of a GPU runtime: it takes no lock, does
 * not wait, and wakes a thread that sleeps on mkv_event_fd(). Posts move in progress.
 *
 * @return MKV_OK, MKV_ERR_NOMEM.
 */
mkv_status_t mkv_gate_signal(mkv_ctx_t *ctx, uint64_t id, uint64_t value);

/** Reset the value of an id to 0 and free its memory. @return MKV_OK. */
mkv_status_t mkv_gate_forget(mkv_ctx_t *ctx, uint64_t id);

/**
 * Active side: no more posts on the leg (or MKV_LEG_ALL: those that have not failed).
 *
 * When all its posts are complete and, in WRITE, flushed to the peer's memory, the
 * passive side is notified and verifies the counts. May be called before any post is
 * complete.
 *
 * @return MKV_OK, MKV_ERR_BUSY: event EXPOSED has not come yet, MKV_ERR_INVALID: not
 *         the active side, or sealed already, MKV_ERR_LENGTH: a layer got more or fewer
 *         units than expected, MKV_ERR_DUPLICATE: a unit was posted twice and a second
 *         one not at all (in both cases the transfer fails), or the transfer's error
 *         when it is terminal.
 */
mkv_status_t mkv_xfer_seal(mkv_xfer_t *xfer, uint32_t leg);

/**
 * Seal like mkv_xfer_seal(), with bytes for the passive side's connector (a first
 * token). The bytes come with its MKV_EV_DONE, never without it. Copied.
 *
 * @param [in] length  Up to option MAX_MESSAGE less 1 KiB.
 *
 * @return Statuses of mkv_xfer_seal(), MKV_ERR_LENGTH: more bytes than allowed, or
 *         MKV_ERR_NOMEM. In the latter two cases the leg is not sealed.
 */
mkv_status_t mkv_xfer_seal_data(mkv_xfer_t *xfer, uint32_t leg, const void *data,
                                size_t length);

/**
 * Passive side that is DONE: the bytes that came with a leg's seal.
 *
 * @param [out] data_p    Valid until the transfer is closed; NULL: none.
 * @param [out] length_p  0: none.
 *
 * @return MKV_OK, MKV_ERR_INVALID: another side, not DONE, no such leg.
 */
mkv_status_t mkv_xfer_done_data(const mkv_xfer_t *xfer, uint32_t leg,
                                const void **data_p, size_t *length_p);

typedef struct mkv_xfer_attr {
    size_t size;
    uint64_t id;
    uint32_t epoch;
    mkv_xfer_state_t state;
    mkv_status_t status; /**< MKV_INPROGRESS, MKV_OK, or the first error */
    int is_quiet;
    int is_quarantined; /**< Drain timed out: quiet only when a peer proves it */
    uint32_t reserved;  /**< 0 */
    char error[256];
    char waiting_for[128];      /**< Leg and condition that the transfer waits for */
    uint64_t posted, completed; /**< Pieces of memory */
    uint64_t bytes; /**< Completed; passive side: as the DONE message reports */
    uint64_t age_ns;
    void *user_data;
    uint64_t num_ucp_calls; /**< Data calls made into UCX so far */
    /** Time of each step, in ns since the open; 0: not yet. The passive side sets
     * exposed, bound, ended and quiet; it sets posted to flushed if it puts for a
     * reader. */
    uint64_t exposed_ns; /**< The first block list was sent, or came */
    uint64_t bound_ns;   /**< Every leg has received the other side's identity */
    uint64_t posted_ns;  /**< First post */
    uint64_t moved_ns;   /**< Last post so far that is complete */
    uint64_t sealed_ns;  /**< Every leg is sealed */
    uint64_t flushed_ns; /**< Last arrival of a post so far, or last flush */
    uint64_t ended_ns;   /**< Done, failed or aborted */
    uint64_t quiet_ns;
} mkv_xfer_attr_t;

mkv_status_t mkv_xfer_query(const mkv_xfer_t *xfer, mkv_xfer_attr_t *attr);

typedef struct mkv_leg_attr {
    size_t size;
    mkv_peer_t *peer;    /**< NULL: it was closed */
    mkv_status_t status; /**< MKV_INPROGRESS, MKV_OK: complete, or its error */
    int is_quiet;   /**< Leg has ended, and no side touches this side's blocks for it */
    uint64_t bytes; /**< Completed; passive side: as its end reports */
    char error[256];       /**< Empty unless the leg has failed */
    char waiting_for[128]; /**< Empty: nothing */
} mkv_leg_attr_t;

/**
 * Query one leg of a transfer. Legs of a source end independently: if a destination
 * aborts or its connection fails, its leg ends and the others continue. The transfer
 * ends when all legs have ended, with the error of the first one that failed. A
 * destination needs all its sources, so its first error ends the transfer.
 *
 * @param [in] leg  Index into the legs.
 *
 * @return MKV_OK, MKV_ERR_INVALID: no such leg.
 */
mkv_status_t mkv_xfer_query_leg(const mkv_xfer_t *xfer, uint32_t leg,
                                mkv_leg_attr_t *attr);

/**
 * Query status and progress only, without the texts; cheap enough for every round.
 *
 * @param [out] completed_p  As mkv_xfer_attr_t::completed; may be NULL.
 *
 * @return Status, see mkv_xfer_attr_t::status.
 */
mkv_status_t mkv_xfer_status(const mkv_xfer_t *xfer, uint64_t *completed_p);

/**
 * End the transfer with an error now, here and at every leg that has not ended; quiet
 * follows. Harmless on a terminal transfer.
 *
 * @param [in] code    Negative; MKV_ERR_ABORTED makes the state ABORTED, others FAILED.
 * @param [in] reason  Reaches the other sides' text; may be NULL.
 *
 * @return MKV_OK, MKV_ERR_INVALID.
 */
mkv_status_t mkv_xfer_abort(mkv_xfer_t *xfer, mkv_status_t code, const char *reason);

/**
 * Source: end one leg with an error, here and at its destination; see
 * mkv_xfer_query_leg(). Harmless on a leg that has ended.
 *
 * @param [in] code    Negative.
 * @param [in] reason  Reaches the other side's text; may be NULL.
 *
 * @return MKV_OK, MKV_ERR_INVALID: no such leg, or this side is the destination.
 */
mkv_status_t mkv_xfer_abort_leg(mkv_xfer_t *xfer, uint32_t leg, mkv_status_t code,
                                const char *reason);

/**
 * Move the present deadline to @a timeout_ms from now.
 *
 * @return MKV_OK, MKV_ERR_INVALID: 0 ms.
 */
mkv_status_t mkv_xfer_extend(mkv_xfer_t *xfer, uint32_t timeout_ms);

/**
 * Call mkv_peer_declare_dead() for every peer that keeps an ended transfer from being
 * quiet, also after mkv_peer_close().
 *
 * @return MKV_OK, MKV_ERR_BUSY: it has not ended; mkv_xfer_abort() first.
 */
mkv_status_t mkv_xfer_declare_dead(mkv_xfer_t *xfer);

/**
 * Free it. Units and meta of its events are void afterwards.
 *
 * @return MKV_OK, or MKV_ERR_BUSY: not terminal or not quiet.
 */
mkv_status_t mkv_xfer_close(mkv_xfer_t *xfer);

/* ---- One-sided operations -------------------------------------------------------- */

/** A range of bytes of a region here and of a region of the peer. */
typedef struct mkv_op_piece {
    mkv_region_id_t local; /**< A committed region of this context */
    /** The peer's region: the number that mkv_region_add() returned there, which the
     * connectors exchange. It needs MKV_REGION_ONE_SIDED. */
    mkv_region_id_t remote;
    uint64_t local_offset, remote_offset; /**< Bytes from the regions' bases */
    uint64_t length;                      /**< At least 1 */
} mkv_op_piece_t;

enum {
    MKV_OP_NOTIFY = 1 << 0, /**< The peer receives MKV_EV_NOTE at the operation's end */
    /** If all bytes have moved when mkv_op_post() returns, the operation is closed
     * already: *op_p is NULL, and no event follows. The call makes up to two rounds of
     * progress, with their callbacks */
    MKV_OP_AT_ONCE = 1 << 1
};

typedef struct mkv_op_params {
    size_t size;
    uint64_t id;     /**< For events, here and at the peer; need not be unique */
    mkv_mode_t mode; /**< MKV_WRITE: from here to the peer, MKV_READ: from the peer */
    uint32_t flags;  /**< MKV_OP_* */
    const mkv_op_piece_t *pieces; /**< Copied. If pieces of one WRITE overlap at the
                                     peer, the result is undefined */
    size_t num_pieces; /**< 0: done at once, which with MKV_OP_NOTIFY is a message */
    const void *note;  /**< Bytes for the peer, with MKV_OP_NOTIFY; copied */
    size_t note_length;
    uint32_t timeout_ms;       /**< Limit until it is done; 0: option XFER_TIMEOUT */
    uint32_t drain_timeout_ms; /**< Limit from failure to quiet; 0: DRAIN_TIMEOUT */
    void *user_data;           /**< Comes back in events */
} mkv_op_params_t;

/**
 * Move bytes to or from memory that the peer has opened for this purpose
 * (MKV_REGION_ONE_SIDED), without a call of the peer's application. If a transport
 * emulates puts and gets (tcp), the peer's UCX worker must be progressed.
 *
 * Never waits and never reports "queue full". Pieces go to UCX as lists where the lane
 * supports lists. The operation ends with MKV_EV_DONE, MKV_EV_FAILED or MKV_EV_ABORTED
 * and then MKV_EV_QUIET, each with event.op. A WRITE that is done has arrived in the
 * peer's memory before the peer gets MKV_EV_NOTE. If an operation fails after the
 * connection was made, the peer gets MKV_EV_NOTE with the error.
 *
 * After MKV_EV_QUIET nothing touches this side's memory for the operation. The peer's
 * memory is not touched either where the transport writes to it directly (mori_xgmi,
 * mori_rdma). Where UCX emulates puts by messages (tcp), bytes of a WRITE that failed
 * may still lie in the peer's sockets, and the peer's UCX writes them later: such
 * memory is safe to reuse when the connection has ended at the peer as well. Then the
 * event's value and may_arrive of mkv_op_attr_t are 1, else 0.
 *
 * Operations are not ordered among each other. Notes arrive in the order in which they
 * were sent, mkv_send()'s messages included.
 *
 * @param [out] op_p  Close it with mkv_op_close(). NULL: see MKV_OP_AT_ONCE.
 *
 * @return MKV_OK
 * @return MKV_ERR_BUSY         The peer is not ready, a local region not committed, or
 *                              there is no room for the note, as for mkv_send().
 * @return MKV_ERR_PEER         The peer has failed.
 * @return MKV_ERR_NOTFOUND     There is no such local region, or the peer has not
 *                              announced the remote one: its commit may be in flight.
 * @return MKV_ERR_INVALID      A flag, a mode, a length of 0, or a region of the peer
 *                              without MKV_REGION_ONE_SIDED.
 * @return MKV_ERR_BOUNDS       A piece leaves its region.
 * @return MKV_ERR_LENGTH       The note is larger than MAX_MESSAGE of either side.
 * @return MKV_ERR_NOMEM
 */
mkv_status_t mkv_op_post(mkv_peer_t *peer, const mkv_op_params_t *params,
                         mkv_op_t **op_p);

typedef struct mkv_op_attr {
    size_t size;
    uint64_t id;
    mkv_status_t status; /**< MKV_INPROGRESS, MKV_OK, or the first error */
    int is_quiet;
    char error[256];
    uint64_t pieces; /**< Pieces that are neighbours on both sides count as one */
    uint64_t bytes;
    uint64_t num_ucp_calls;
    uint64_t age_ns;
    void *user_data;
    uint64_t may_arrive; /**< Value of MKV_EV_QUIET; 0 before it */
} mkv_op_attr_t;

mkv_status_t mkv_op_query(const mkv_op_t *op, mkv_op_attr_t *attr);

/** Member status alone, for callers that poll it in every round of progress. */
mkv_status_t mkv_op_status(const mkv_op_t *op);

/**
 * End the operation with MKV_ERR_ABORTED; it becomes quiet later. No effect if it has
 * ended.
 *
 * @return MKV_OK.
 */
mkv_status_t mkv_op_abort(mkv_op_t *op);

/** Free it. @return MKV_OK, or MKV_ERR_BUSY: not quiet yet. */
mkv_status_t mkv_op_close(mkv_op_t *op);

/* ---- 6. Events and progress ------------------------------------------------------ */

/**
 * Kinds of events.
 *
 * **Visibility of the bytes after MKV_EV_DONE:**
 * - the host, when it reads host memory: always;
 * - a kernel launched after DONE: with mori_xgmi and UCX's GPU IPC, whose copies end
 *   with a release to the system; with mori_rdma, whose flush reads back from every GPU
 *   that it wrote to, unless the owner sets UCX_MORI_RDMA_GPU_FLUSH=n; with UCX's RDMA
 *   transports with FENCE=flush, because their flush covers the NIC only;
 * - a kernel that runs already: with none of them for certain, as its caches may hold
 *   old lines. The kernel must load with system-scope acquire.
 *
 * A READ ends when the bytes have been handed to this side's memory system; nothing is
 * read back for it.
 */
typedef enum mkv_event_type {
    MKV_EV_PEER_READY,
    MKV_EV_PEER_FAILED, /**< status, text; after the events of its transfers: those
                             that were not complete have failed */
    MKV_EV_PEER_CLOSED, /**< Like PEER_FAILED, with status OK: the peer has closed the
                           connection and touches nothing any more */
    MKV_EV_EXPOSED, /**< Active side, per leg: units (remote lists) and data (meta) */
    MKV_EV_DONE,    /**< Complete; passive side: the units exposed to leg 0, and data
                         of the first leg (leg) whose seal brought some */
    MKV_EV_FAILED,  /**< status, text; peer and leg, where one of them is why */
    MKV_EV_ABORTED, /**< Like FAILED, with MKV_ERR_ABORTED as status */
    MKV_EV_QUIET,   /**< Once per transfer, after its terminal event; of an operation,
                         value = 1: the peer's UCX may still write, see mkv_op_post() */
    MKV_EV_MSG,     /**< A peer's mkv_send(): value = type, id, header, data */
    MKV_EV_WARN,    /**< text */
    MKV_EV_NOTE, /**< A peer's one-sided operation has ended: id, status (MKV_OK or its
                    error), value = its mkv_mode_t, data = its note */
    MKV_EV_INCOMING, /**< A peer requests a transfer (mkv_xfer_request()) that is not
                         open here: peer, id, epoch, value = its mkv_mode_t, data; if it
                       has exposed, units (remote lists) and header (meta). All valid
                       until the next mkv_poll() */
    MKV_EV_PEER_REGIONS, /**< The peer has committed or dropped regions: id = their
                             epoch, value = number of stale maps of the peer. One event
                             covers all changes until it is polled */
    MKV_EV_LEG, /**< A transfer of several legs: one has ended. Each once, before the
                     transfer's terminal event: leg, peer, status (MKV_OK: complete, or
                     its error), text; see mkv_xfer_query_leg() */
    MKV_EV_LOCAL_DONE, /**< WRITE, source: a post with MKV_SEL_NOTIFY does not read this
                          side's blocks any more, though it may not have arrived: leg,
                          peer, value = mkv_sel_t's. Other posts and transfers may still
                          read the blocks before QUIET */
    MKV_EV_ARRIVED /**< Destination: the bytes of a post with MKV_SEL_NOTIFY are there:
                      leg, peer, value = mkv_sel_t's. Visibility is as after DONE. Comes
                      before DONE, in no order among posts, and never after an error.
                      Only DONE is verified and holds against a faulty peer */
} mkv_event_type_t;

const char *mkv_event_string(mkv_event_type_t type);

typedef struct mkv_event {
    mkv_event_type_t type;
    mkv_status_t status;
    mkv_peer_t *peer; /**< NULL if not about one, or closed meanwhile */
    mkv_xfer_t *xfer; /**< NULL if not about one, or closed meanwhile */
    uint64_t id;      /**< Transfer's id; MSG: as sent; PEER_REGIONS: epoch */
    uint32_t epoch;
    uint32_t leg;
    uint32_t value;
    uint32_t reserved; /**< 0 */
    void *user_data;
    const mkv_units_t *units; /**< Valid until the transfer is closed */
    size_t num_units;
    const void *header; /**< MSG: valid until the next mkv_poll() */
    size_t header_length;
    const void *data; /**< EXPOSED, DONE: valid as units are; MSG, NOTE: as header is */
    size_t length;
    char text[256];
    mkv_op_t *op; /**< DONE, FAILED, ABORTED, QUIET of an operation: then xfer is NULL.
                       NULL if not about one, or closed meanwhile */
} mkv_event_t;

/** Move everything that can move now; with option PROGRESS_THREADS threads call it.
 *  @return Number of steps that were made. */
unsigned mkv_progress(mkv_ctx_t *ctx);

/**
 * Take up to @a max events in order of occurrence. Does not progress.
 *
 * @param [out] events      Array with room for @a max.
 * @param [in]  event_size  sizeof(mkv_event_t): elements are so far apart.
 * @param [out] count_p     Events written.
 *
 * @return MKV_OK, or MKV_ERR_INVALID: event_size is less than any version has had.
 */
mkv_status_t mkv_poll(mkv_ctx_t *ctx, mkv_event_t *events, size_t event_size,
                      size_t max, size_t *count_p);

/**
 * A file descriptor that turns readable when mkv_progress() is due. Owned by the
 * context.
 *
 * @return MKV_OK, or MKV_ERR_UNSUPPORTED: the UCX worker has no wakeup.
 */
mkv_status_t mkv_event_fd(mkv_ctx_t *ctx, int *fd_p);

/**
 * Prepare to sleep on the descriptor; includes the deadlines.
 *
 * A thread that sleeps must run this loop from mkv_open() on: mkv_progress(), then
 * mkv_poll(); without an event mkv_arm(); on MKV_OK sleep until the descriptor is
 * readable; repeat. Calls and progress of other threads end the sleep, too.
 *
 * @return MKV_OK: sleep, MKV_ERR_BUSY: call mkv_progress() and mkv_poll() first (the
 *         last progress moved something, a call came after it, an event waits, or a
 *         gate has to be called), MKV_ERR_UNSUPPORTED, MKV_ERR_TRANSPORT.
 */
mkv_status_t mkv_arm(mkv_ctx_t *ctx);

/* ---- 7. Messages ----------------------------------------------------------------- */

/**
 * Send bytes to the peer's connector; ordered per peer. Everything is copied.
 *
 * The peer's option MAX_QUEUED bounds the bytes that its application has not polled.
 * Messages beyond it are refused here until it polls; other peers do not wait for it.
 *
 * @return MKV_OK, MKV_ERR_BUSY: the peer is not ready, or has not polled enough of the
 *         earlier messages, MKV_ERR_PEER, MKV_ERR_LENGTH: larger than option
 *         MAX_MESSAGE, here or there, MKV_ERR_NOMEM.
 */
mkv_status_t mkv_send(mkv_peer_t *peer, uint64_t id, uint32_t type, const void *header,
                      size_t header_length, const void *data, size_t length);

/* ---- 8. Observability ------------------------------------------------------------ */

#define MKV_LATENCY_BUCKETS 40

typedef struct mkv_stats {
    size_t size;
    uint64_t xfers_opened, xfers_done, xfers_failed, xfers_open;
    uint64_t bytes_written, bytes_read; /**< Completed, by this active side */
    uint64_t elements_posted, elements_completed;
    uint64_t ucp_calls; /**< Data operations given to UCX */
    uint64_t inflight_ops, inflight_bytes;
    uint64_t queued_posts; /**< Held by gates or by credits */
    uint64_t flushes;
    uint64_t msgs_sent, msgs_received;
    uint64_t msgs_malformed, msgs_stale, msgs_early, msgs_dropped;
    uint64_t hellos; /**< Completed HELLO exchanges */
    uint64_t plans_created, plan_posts;
    uint64_t lists_reused;    /**< Given to UCX again as an earlier post built them */
    uint64_t lists_allocated; /**< Grows only while posts get larger */
    uint64_t num_memh, num_regions, num_peers;
    uint64_t quarantined_xfers;
    uint64_t pulls_sent;    /**< Active side: posts that the owner of the other memory
                                 was requested to put or get (option READ_BY) */
    uint64_t pulls_refused; /**< Pulls that were replaced by calls from here */
    uint64_t pulls_served;  /**< Passive side: posts moved for the active side */
    uint64_t bytes_pushed;  /**< Bytes of these posts that have arrived */
    /** Histograms: bucket i counts times from 2^i to below 2^(i+1) ns, the last one all
     *  above. From the first block list to DONE, on this side; and from an event to the
     *  poll that takes it (with a peer given: 0). */
    uint64_t expose_to_done[MKV_LATENCY_BUCKETS];
    uint64_t event_to_poll[MKV_LATENCY_BUCKETS];
    uint64_t blocks_held; /**< Blocks exposed here by transfers that are not quiet */
} mkv_stats_t;

/** @param [in] peer Count only this peer's transfers, or NULL: all. @return MKV_OK. */
mkv_status_t mkv_stats(mkv_ctx_t *ctx, const mkv_peer_t *peer, mkv_stats_t *stats);

enum {
    MKV_DUMP_CONFIG = 1 << 0,
    MKV_DUMP_REGIONS = 1 << 1,
    MKV_DUMP_PEERS = 1 << 2,
    MKV_DUMP_XFERS = 1 << 3, /**< Each with state, age and the condition that it waits
                              *   for */
    MKV_DUMP_STATS = 1 << 4,
    MKV_DUMP_ALL = (1 << 5) - 1
};

/**
 * Write the state as text, line by line without newline, through @a write, which may
 * block: it is called without the library's lock.
 *
 * @return MKV_OK, MKV_ERR_NOMEM: lines are missing.
 */
mkv_status_t mkv_dump(mkv_ctx_t *ctx, uint32_t sections,
                      void (*write)(void *arg, const char *line), void *arg);

/* ---- 9. Pure helpers ------------------------------------------------------------- */

/** `count` blocks that are neighbours on both sides. The structure is complete and
 * never grows. */
typedef struct mkv_run {
    uint32_t local, remote; /**< First block of each side */
    uint32_t count;
    uint32_t pos; /**< Position of the first block in the (sorted) list */
} mkv_run_t;

/**
 * Merge as mkv_plan_create() does, for callers that count before they post.
 *
 * @param [in]  flags   MKV_PLAN_KEEP_ORDER or 0.
 * @param [out] runs    Room for @a num runs.
 * @param [out] num_p   Runs written.
 *
 * @return MKV_OK, MKV_ERR_NOMEM (sorting only).
 */
mkv_status_t mkv_runs_merge(const uint32_t *local, const uint32_t *remote, size_t num,
                            uint32_t flags, mkv_run_t *runs, size_t *num_p);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
