/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MORIKV_H
#define MORIKV_H

/**
 * @file
 * libmorikv: moves "layers x block lists" of a KV cache between processes over UCP.
 *
 * Five questions, five objects:
 * - what memory: a **region**, one (component, layer, part) of the cache;
 * - who: a **peer**, another process with its own context;
 * - which pairs: a **map**, local and remote regions paired by component, layer, part;
 * - which units: a **plan**, block lists of both sides merged into runs, reusable for
 *   every layer of its map;
 * - when: a **transfer** ("xfer"), to which plans are posted, whole, by layer or by
 *   position, each behind an optional gate.
 *
 * A transfer has one *active* side, which moves the bytes (the source in WRITE, the
 * destination in READ), and one *passive* side, which exposes its block list first.
 * Both open it under the same (id, epoch). No port and no IP
 * address, and no thread unless option PROGRESS_THREADS asks for it.
 *
 * **Status and quiet are two things.** The status says what to tell a scheduler; quiet
 * says that nobody, here or there, touches this side's blocks for this transfer any
 * more. Only quiet frees memory.
 *
 * Errors. Functions return @ref mkv_status_t; on an error nothing has changed and
 * mkv_last_error() names the value and what was expected. A transfer keeps its first
 * error for ever, with a text that names peer, component, layer and unit.
 *
 * Threads. All calls on one context may be made from any thread; one lock a context
 * serialises them, so no call waits longer than a progress call of another thread.
 * Callbacks (log, gate, clock, mem_query) run with that lock held, in the thread that
 * makes progress (option PROGRESS_THREADS: one of the library's), and must not call
 * this library on the same context. With an attached worker the caller must not use the
 * worker while another thread is inside a call on the context.
 *
 * Structures begin with a `size` member: set it to sizeof the structure and zero the
 * rest; zero means the default that is documented. Members are only ever added at the
 * end, and a program and a library of different versions work together:
 * - an older program's structure is shorter: what it lacks is zero to the library, and
 *   the library writes no more than the program has room for;
 * - a newer program's is longer: members that the library does not know must be zero,
 * or the call is refused with MKV_ERR_UNSUPPORTED and a text that names the place; in
 *   structures that the library fills they read as zero.
 * Elements of arrays have a fixed size instead, with reserved members that must be zero
 * and are judged in the same way. Enumerations grow at the end, too: ignore events of a
 * type that you do not know. docs/abi.md has the whole policy.
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

/** Version of this header; of the library that was loaded: mkv_version_number(). */
#define MKV_API_MAJOR 0
#define MKV_API_MINOR 1
#define MKV_API_PATCH 0
#define MKV_VERSION_NUMBER(_major, _minor, _patch)                                     \
    (((_major) << 16) | ((_minor) << 8) | (_patch))
#define MKV_API_VERSION MKV_VERSION_NUMBER(MKV_API_MAJOR, MKV_API_MINOR, MKV_API_PATCH)

/* ---- Status ---------------------------------------------------------------------- */

typedef enum mkv_status {
    MKV_OK = 0,
    MKV_INPROGRESS = 1,         /**< Not finished; an event will tell */
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
    MKV_ERR_TOPOLOGY = -11,     /**< Ranks that must not talk, or unequal TP */
    MKV_ERR_STALE = -12,        /**< Regions were dropped since the map was made */
    MKV_ERR_DUPLICATE = -13,    /**< Exists already under this key */
    MKV_ERR_NOTFOUND = -14,     /**< No such object */
    MKV_ERR_BIND_TIMEOUT = -15, /**< The other side did not come forward in time */
    MKV_ERR_XFER_TIMEOUT = -16, /**< Bound, but not complete in time */
    MKV_ERR_RELEASE_TIMEOUT = -17, /**< A reader did not release our blocks in time */
    MKV_ERR_DRAIN_TIMEOUT = -18,   /**< Could not be proven quiet in time */
    MKV_ERR_ABORTED = -19,         /**< Aborted by a caller, here or there */
    MKV_ERR_PEER = -20,            /**< The peer died or its connection failed */
    MKV_ERR_TRANSPORT = -21,       /**< UCX refused or failed an operation */
    MKV_ERR_BACKEND = -22,     /**< Strict mode: another backend class would carry it */
    MKV_ERR_GATE = -23,        /**< A gate reported failure */
    MKV_ERR_UNSUPPORTED = -24, /**< Not possible with this UCX or this build */
    MKV_ERR_PROTOCOL = -25,    /**< The peer sent what no correct library sends */
    MKV_ERR_LAST = -26
} mkv_status_t;

/** Short name of a status, never NULL. */
const char *mkv_status_string(mkv_status_t status);

/** Text of the last error returned to this thread; valid until its next error. */
const char *mkv_last_error(void);

/** Library version as text, "major.minor.patch". */
const char *mkv_version_string(void);

/** Library version, to be compared with MKV_VERSION_NUMBER(). */
uint32_t mkv_version_number(void);

/* ---- Objects --------------------------------------------------------------------- */

typedef struct mkv_config mkv_config_t; /**< Options, read before open */
typedef struct mkv_ctx mkv_ctx_t;       /**< One per process and GPU, usually */
typedef struct mkv_peer mkv_peer_t;
typedef struct mkv_map mkv_map_t;
typedef struct mkv_plan mkv_plan_t;
typedef struct mkv_xfer mkv_xfer_t;
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
 * A variable that names no option is ignored, and told as a warning by mkv_open(); if a
 * letter or two away from one that does, it is taken for a mistake.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, or MKV_ERR_INVALID: a value does not parse, or the
 * name of an option is misspelt.
 */
mkv_status_t mkv_config_read(const char *prefix, mkv_config_t **config_p);

/** @return MKV_OK, MKV_ERR_NOTFOUND: no such option, MKV_ERR_INVALID: a bad value. */
mkv_status_t mkv_config_set(mkv_config_t *config, const char *key, const char *value);

/** The value as text, or NULL if there is no such option. Valid until it is set. */
const char *mkv_config_get(const mkv_config_t *config, const char *key);

void mkv_config_release(mkv_config_t *config);

/** Write name, default and help of every option through @a write: "MORIKV_NAME=default"
 *  and, in lines that follow, what it does. */
void mkv_config_help(void (*write)(void *arg, const char *line), void *arg);

/** This process' place; a size of 0 counts as 1. */
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

typedef struct mkv_open_params {
    size_t size;
    const char *name; /**< In texts, here and at peers; default "host:pid" */
    mkv_topology_t topology;
    uint32_t page_tokens;    /**< Compared with the peer's if both are non-zero */
    uint32_t dtype;          /**< Caller's tag, compared the same way */
    uint32_t total_kv_heads; /**< Over all TP ranks, compared the same way */
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
 * Abort what still runs, close peers, regions and UCX objects.
 *
 * Blocks up to option DRAIN_TIMEOUT for transfers to become quiet, and about as long
 * again for peers to be told. Peers need not be closed before: those that connected by
 * themselves are not even known to every caller. All handles made from the context are
 * void afterwards, whatever is returned.
 *
 * @return MKV_OK
 * @return MKV_ERR_BUSY           Transfers, plans or maps had been left open; they are
 *                                logged by name and closed.
 * @return MKV_ERR_DRAIN_TIMEOUT  A transfer could not be proven quiet, or a connection
 *                                did not close: a peer or UCX may still touch memory of
 *                                regions, which must not be freed. What UCX still uses
 *                                is leaked. Also if something had been left open.
 */
mkv_status_t mkv_close(mkv_ctx_t *ctx);

/* ---- 2. Regions ------------------------------------------------------------------ */

enum {
    MKV_REGION_OPTIONAL = 1 << 0 /**< A map is made also if the peer has none */
};

#define MKV_MAX_COMPONENTS 64

/**
 * `n_units` units of `unit_bytes` bytes, `unit_stride` bytes apart, from `base` on.
 *
 * A unit is a block (page) of one layer. (component, layer, part) names the region and
 * is unique in the context: component 0 could be the KV cache, 1 the indexer, 2 the
 * state; parts of a component share one block list (part 0 keys, part 1 values).
 */
typedef struct mkv_region {
    size_t size;
    uint32_t component; /**< Below MKV_MAX_COMPONENTS */
    int32_t layer;      /**< Global layer number, below INT32_MAX */
    uint16_t part;
    uint16_t flags; /**< MKV_REGION_* */
    ucs_memory_type_t
        mem_type;             /**< UCS_MEMORY_TYPE_HOST (0), _ROCM, ...; given to UCX */
    void *base;               /**< Caller's memory; must outlive the region */
    uint64_t length;          /**< Bytes from base that belong to the region */
    uint64_t unit_bytes;      /**< Bytes moved per unit, at least 1 */
    uint64_t unit_stride;     /**< Bytes from unit to unit; 0: unit_bytes */
    uint64_t n_units;         /**< 1 to 2^32 - 1 */
    uint32_t tokens_per_unit; /**< Compared with the peer's if both are non-zero */
    uint32_t dtype;           /**< Caller's tag, compared the same way */
    void *alloc_base;         /**< Allocation around base, if known, else NULL */
    uint64_t alloc_length;    /**< Its bytes; 0 if unknown */
} mkv_region_t;

/**
 * Describe memory; it becomes usable with @ref mkv_regions_commit.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_INVALID, MKV_ERR_DUPLICATE: (component, layer,
 *         part) exists, MKV_ERR_BOUNDS: a unit ends behind `length`, units overlap, or
 * the region is not inside its allocation.
 */
mkv_status_t mkv_region_add(mkv_ctx_t *ctx, const mkv_region_t *region,
                            mkv_region_id_t *id_p);

/**
 * Register added regions with UCX and tell connected peers.
 *
 * One UCX registration per allocation, however many regions lie in it: regions of one
 * memory type that overlap, host regions that adjoin, and all regions of one stated (or
 * queried) allocation share one. All or nothing.
 *
 * @param [out] epoch_p  Number of this set of regions, may be NULL.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_TRANSPORT: UCX cannot register one of them.
 */
mkv_status_t mkv_regions_commit(mkv_ctx_t *ctx, uint64_t *epoch_p);

/**
 * Take regions back; their memory may be freed after MKV_OK. All or nothing.
 *
 * Peers are told and their maps on these regions turn stale. Sleep and resume of an
 * engine is drop, add, commit.
 *
 * @return MKV_OK, MKV_ERR_NOTFOUND, or MKV_ERR_BUSY: a map uses one of them.
 */
mkv_status_t mkv_regions_drop(mkv_ctx_t *ctx, const mkv_region_id_t *ids,
                              size_t num_ids);

/* ---- 3. Peers -------------------------------------------------------------------- */

typedef enum mkv_blob_kind {
    MKV_BLOB_ADDR, /**< Who and where; the rest is asked for over UCX. Small */
    MKV_BLOB_FULL  /**< Also the regions committed so far and their keys */
} mkv_blob_kind_t;

/**
 * Describe this context for @ref mkv_peer_add elsewhere; carry it as you like.
 *
 * @param [out]    buffer    May be NULL when *length_p is 0.
 * @param [in,out] length_p  In: room, out: bytes needed, in both cases below.
 *
 * @return MKV_OK, or MKV_ERR_LENGTH: the room is too small, nothing written.
 */
mkv_status_t mkv_blob(mkv_ctx_t *ctx, mkv_blob_kind_t kind, void *buffer,
                      size_t *length_p);

/**
 * Connect to the context that made the blob. Nonblocking, of any number of peers.
 *
 * The two contexts exchange topology and regions (HELLO); MKV_EV_PEER_READY or
 * MKV_EV_PEER_FAILED tells the result on both sides, so one side's call suffices.
 * Calling it again, or on both sides, gives the same peer: identity is the other
 * context, not the blob.
 *
 * @param [in]  name    Name in texts here; NULL: what the peer calls itself.
 * @param [out] peer_p  Valid until @ref mkv_peer_close.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_VERSION, MKV_ERR_PROTOCOL: malformed bytes,
 *         MKV_ERR_TRANSPORT: UCX cannot reach the address.
 */
mkv_status_t mkv_peer_add(mkv_ctx_t *ctx, const void *blob, size_t length,
                          const char *name, mkv_peer_t **peer_p);

typedef enum mkv_peer_state {
    MKV_PEER_CONNECTING,
    MKV_PEER_READY,
    MKV_PEER_FAILED, /**< For ever; close it, add again when it is back */
    MKV_PEER_CLOSED  /**< As FAILED, but the peer has closed the connection in order */
} mkv_peer_state_t;

/** What carries the data of a peer, best first. */
typedef enum mkv_backend {
    MKV_BACKEND_UNKNOWN, /**< Not connected yet */
    MKV_BACKEND_XGMI,    /**< mori_xgmi */
    MKV_BACKEND_IPC,     /**< Another GPU IPC transport of UCX */
    MKV_BACKEND_RDMA,    /**< mori_rdma or UCX's verbs transports */
    MKV_BACKEND_SHM,     /**< Shared memory, cma, xpmem, self: host memory */
    MKV_BACKEND_TCP
} mkv_backend_t;

const char *mkv_backend_string(mkv_backend_t backend);

typedef struct mkv_peer_attr {
    size_t size;
    mkv_peer_state_t state;
    mkv_status_t status; /**< Why calls fail: reason of FAILED and CLOSED */
    char error[256];
    char name[64];
    char transports[192]; /**< "mori_xgmi/xgmi0 tcp/lo", empty before READY */
    mkv_backend_t backend;
    int is_same_host;
    int has_sgl_put;        /**< A WRITE of GPU memory is one UCX call */
    uint32_t num_regions;   /**< Of the peer, known here */
    uint64_t regions_epoch; /**< Of these */
    mkv_topology_t topology;
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

/* ---- 4. Maps and plans ----------------------------------------------------------- */

enum {
    MKV_MAP_INTERSECT = 1 << 0, /**< Pair what both have (pipeline stages, draft
                                     layers); default: every region must pair */
    MKV_MAP_ANY_RANK = 1 << 1   /**< Replicated data: TP ranks need not be equal */
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
 * @param [in]  params  NULL for defaults.
 *
 * @return MKV_OK
 * @return MKV_ERR_BUSY      The peer is not ready yet.
 * @return MKV_ERR_PEER      The peer has failed.
 * @return MKV_ERR_TOPOLOGY  TP sizes, or TP ranks without MKV_MAP_ANY_RANK, differ.
 * @return MKV_ERR_PAGE, MKV_ERR_DTYPE, MKV_ERR_GEOMETRY  These differ; see
 *         mkv_last_error() for where.
 * @return MKV_ERR_PAIRING   A region has no partner, or there is no pair at all.
 */
mkv_status_t mkv_map_create(mkv_peer_t *peer, const mkv_map_params_t *params,
                            mkv_map_t **map_p);

typedef struct mkv_map_component {
    uint32_t component;
    uint32_t num_pairs;   /**< Regions */
    uint64_t local_units; /**< Units a block id may address: smallest n_units */
    uint64_t remote_units;
    uint64_t bytes_per_unit; /**< Over all pairs: one block, all layers and parts */
    uint64_t reserved[4];    /**< 0 */
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

/** Block lists of one component. Position i of one list belongs to i of the other. */
typedef struct mkv_units {
    uint32_t component;
    uint32_t num_local, num_remote;
    uint32_t flags;         /**< 0 */
    const uint32_t *local;  /**< Block ids in this process */
    const uint32_t *remote; /**< Block ids in the peer's process */
    uint64_t reserved[2];   /**< 0 */
} mkv_units_t;

enum {
    MKV_PLAN_KEEP_ORDER = 1 << 0, /**< Merge only neighbours in the given order; needed
                                       to post ranges of positions. Default: sorted by
                                       local block first, which merges more */
    MKV_PLAN_UNCHECKED = 1 << 1   /**< Posts are not compared with what was exposed */
};

/**
 * Merge block lists into runs: neighbours that are neighbours on both sides.
 *
 * The plan serves every layer and part of its map, and any number of posts. Lists are
 * copied. A component without entry has no units; zero units are legal.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_INVALID, MKV_ERR_LENGTH: num_local and
 *         num_remote differ, MKV_ERR_BOUNDS: a block is not in the regions,
 *         MKV_ERR_PAIRING: the map has no such component, MKV_ERR_DUPLICATE: a
 *         component occurs twice.
 */
mkv_status_t mkv_plan_create(mkv_map_t *map, const mkv_units_t *units, size_t num_units,
                             uint32_t flags, mkv_plan_t **plan_p);

typedef struct mkv_plan_attr {
    size_t size;
    uint64_t num_units;    /**< Pairs of blocks given, over all components */
    uint64_t num_runs;     /**< After merging, over all components */
    uint64_t num_elements; /**< Pieces of memory moved when all layers are posted */
    uint64_t bytes;        /**< Moved when all layers are posted */
    uint64_t memory;       /**< Bytes of host memory the plan occupies */
} mkv_plan_attr_t;

mkv_status_t mkv_plan_query(const mkv_plan_t *plan, mkv_plan_attr_t *attr);

/** @return MKV_OK, or MKV_ERR_BUSY: a post uses it. */
mkv_status_t mkv_plan_destroy(mkv_plan_t *plan);

/* ---- 5. Transfers ---------------------------------------------------------------- */

typedef enum mkv_mode {
    MKV_WRITE, /**< The source puts; the destination exposes its blocks */
    MKV_READ   /**< The destination gets; the source exposes its blocks */
} mkv_mode_t;

typedef enum mkv_role { MKV_SRC, MKV_DST } mkv_role_t;

typedef enum mkv_xfer_state {
    MKV_XFER_INIT,   /**< Waiting for the other side */
    MKV_XFER_BOUND,  /**< All legs know their other side */
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
    uint32_t reserved[2]; /**< 0 */
} mkv_expect_t;

typedef struct mkv_xfer_params {
    size_t size;
    uint64_t id;    /**< Same on both sides, unique among open ones */
    uint32_t epoch; /**< Generation of the id, same on both sides */
    mkv_mode_t mode;
    mkv_role_t role;
    uint32_t flags;             /**< 0 */
    mkv_map_t *const *legs;     /**< One map per peer; peers must differ. Copied */
    size_t num_legs;            /**< At least 1 */
    const mkv_expect_t *expect; /**< Passive side: what every leg must deliver. Active
                                     side of a READ: what it takes of each leg. NULL:
                                     all units exposed */
    size_t num_expect;
    uint32_t bind_timeout_ms; /**< 0: options BIND_TIMEOUT, XFER_TIMEOUT, ... */
    uint32_t xfer_timeout_ms;
    uint32_t release_timeout_ms;
    uint32_t drain_timeout_ms;
    void *user_data; /**< Comes back in events */
} mkv_xfer_params_t;

/**
 * Open one side of a transfer.
 *
 * What the other side sent before the open has been kept and is acted on now. If it has
 * given up already, the transfer fails at once, with its code and text, and so does an
 * instance of the same (id, epoch) that it has opened since: a retry takes another
 * epoch. Two sides that would both expose fail with MKV_ERR_INVALID; two that would
 * both wait for the other's blocks cannot know, and end by the deadline.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_INVALID, MKV_ERR_DUPLICATE: (id, epoch) is
 *         open on one of these peers, MKV_ERR_PEER: a peer has failed, MKV_ERR_STALE.
 */
mkv_status_t mkv_xfer_open(mkv_ctx_t *ctx, const mkv_xfer_params_t *params,
                           mkv_xfer_t **xfer_p);

#define MKV_LEG_ALL UINT32_MAX

/**
 * Passive side: show my blocks to the active side, which gets MKV_EV_EXPOSED.
 *
 * @param [in] leg       Index into the legs, or MKV_LEG_ALL; each leg once.
 * @param [in] units     Only the local lists are used; copied. Zero units are legal:
 *                       the leg completes when the active side seals.
 * @param [in] meta      Any bytes for the other connector; copied.
 *
 * @return MKV_OK, MKV_ERR_INVALID, MKV_ERR_BOUNDS, MKV_ERR_PAIRING, MKV_ERR_DUPLICATE:
 *         exposed already, MKV_ERR_LENGTH: larger than option MAX_MESSAGE,
 *         MKV_ERR_NOMEM, or the transfer's error when it is terminal.
 */
mkv_status_t mkv_xfer_expose(mkv_xfer_t *xfer, uint32_t leg, const mkv_units_t *units,
                             size_t num_units, const void *meta, size_t meta_length);

/** Which parts of a selection are given; the others must be 0, and select everything.
 */
enum {
    MKV_SEL_COMPONENTS = 1 << 0,
    MKV_SEL_LAYERS = 1 << 1,
    MKV_SEL_POSITIONS = 1 << 2
};

/** Part of a plan; what is given and empty selects nothing. */
typedef struct mkv_sel {
    size_t size;
    uint32_t fields;            /**< MKV_SEL_*; 0: everything */
    uint32_t reserved;          /**< 0 */
    uint64_t component_mask;    /**< Bit c: component c */
    int32_t layer_lo, layer_hi; /**< [lo, hi) */
    uint32_t pos_lo, pos_hi;    /**< [lo, hi) of each component's positions; needs
                                     MKV_PLAN_KEEP_ORDER */
} mkv_sel_t;

/** Holds a post back until its data is there. */
typedef struct mkv_gate {
    size_t size;
    /** Asked in progress: 1 open, 0 not yet, negative: fail with MKV_ERR_GATE. NULL:
     *  open when @a id was signalled with @a value or a greater one. */
    int (*ready)(void *arg);
    void *arg;
    uint64_t id;    /**< For mkv_gate_signal(); any number of posts may share it */
    uint64_t value; /**< At least 1, without @a ready */
} mkv_gate_t;

/**
 * Active side: move a part of a plan. Never waits, never reports "queue full": what
 * does not fit is queued, in order per leg. A gated post holds back later ones of its
 * leg only.
 *
 * Nothing is allocated for a repeated post. The plan must live until the transfer is
 * quiet.
 *
 * @param [in] sel   NULL: everything.
 * @param [in] gate  NULL: open. Copied.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_INVALID: e.g. not the active side, leg not
 *         bound, sealed, plan of another map, MKV_ERR_BOUNDS: positions outside the
 *         plan, or a block that the peer has not exposed to this transfer,
 *         MKV_ERR_DUPLICATE: WRITE, and a block of the peer occurs twice in the plan,
 *         MKV_ERR_STALE, or the transfer's error when it is terminal.
 */
mkv_status_t mkv_xfer_post(mkv_xfer_t *xfer, uint32_t leg, mkv_plan_t *plan,
                           const mkv_sel_t *sel, const mkv_gate_t *gate);

/**
 * Let the value of an id be at least @a value: gates that wait for it or less are open,
 * whether they were posted before or come later. A stream that counts what it has
 * computed needs one id; values begin at 0 and never fall.
 *
 * Any thread, also in callbacks of a GPU runtime: it takes no lock, waits for nobody,
 * and wakes who sleeps on mkv_event_fd(). Posts move in progress.
 *
 * @return MKV_OK, MKV_ERR_NOMEM.
 */
mkv_status_t mkv_gate_signal(mkv_ctx_t *ctx, uint64_t id, uint64_t value);

/** The value of an id is 0 again, and takes no memory. @return MKV_OK. */
mkv_status_t mkv_gate_forget(mkv_ctx_t *ctx, uint64_t id);

/**
 * Active side: no more posts on the leg (or MKV_LEG_ALL).
 *
 * When all its posts are complete and, in WRITE, flushed to the peer's memory, the
 * passive side is told and verifies the counts. May be called before anything
 * completed.
 *
 * @return MKV_OK, MKV_ERR_INVALID: not the active side, or sealed already,
 *         MKV_ERR_LENGTH: a layer got more or fewer units than are expected,
 *         MKV_ERR_DUPLICATE: a unit was posted twice and another one not at all (in
 *         both cases the transfer fails), or the transfer's error when it is terminal.
 */
mkv_status_t mkv_xfer_seal(mkv_xfer_t *xfer, uint32_t leg);

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
    char waiting_for[128];      /**< Which leg, and what it waits for */
    uint64_t posted, completed; /**< Pieces of memory */
    uint64_t bytes;             /**< Completed; passive: as told by DONE */
    uint64_t age_ns;
    void *user_data;
    uint64_t num_ucp_calls; /**< Data calls made into UCX so far */
} mkv_xfer_attr_t;

mkv_status_t mkv_xfer_query(const mkv_xfer_t *xfer, mkv_xfer_attr_t *attr);

/**
 * The two members that are asked for in every round of progress, without the texts.
 *
 * @param [out] completed_p  As mkv_xfer_attr_t::completed; may be NULL.
 *
 * @return As mkv_xfer_attr_t::status.
 */
mkv_status_t mkv_xfer_status(const mkv_xfer_t *xfer, uint64_t *completed_p);

/**
 * End it with an error now, here and at every leg; quiet follows. Harmless on a
 * terminal transfer.
 *
 * @param [in] code    Negative; MKV_ERR_ABORTED makes the state ABORTED, others FAILED.
 * @param [in] reason  Reaches the other sides' text; may be NULL.
 *
 * @return MKV_OK, MKV_ERR_INVALID.
 */
mkv_status_t mkv_xfer_abort(mkv_xfer_t *xfer, mkv_status_t code, const char *reason);

/**
 * Let the deadline that runs now end in @a timeout_ms.
 *
 * @return MKV_OK, MKV_ERR_INVALID: 0 ms.
 */
mkv_status_t mkv_xfer_extend(mkv_xfer_t *xfer, uint32_t timeout_ms);

/**
 * Free it. Units and meta of its events are void afterwards.
 *
 * @return MKV_OK, or MKV_ERR_BUSY: not terminal or not quiet.
 */
mkv_status_t mkv_xfer_close(mkv_xfer_t *xfer);

/* ---- 6. Events and progress ------------------------------------------------------ */

typedef enum mkv_event_type {
    MKV_EV_PEER_READY,
    MKV_EV_PEER_FAILED, /**< status, text; after the events of its transfers: those
                             that were not complete have failed */
    MKV_EV_PEER_CLOSED, /**< As PEER_FAILED, with status OK: the peer has closed the
                             connection and touches nothing any more */
    MKV_EV_EXPOSED, /**< Active side, per leg: units (remote lists) and data (meta) */
    MKV_EV_DONE,    /**< Complete; passive side: the units exposed to leg 0 */
    MKV_EV_FAILED,  /**< status, text */
    MKV_EV_ABORTED, /**< status, text */
    MKV_EV_QUIET,   /**< Once per transfer, after its terminal event */
    MKV_EV_MSG,     /**< A peer's mkv_send(): value = type, id, header, data */
    MKV_EV_WARN     /**< text */
} mkv_event_type_t;

const char *mkv_event_string(mkv_event_type_t type);

typedef struct mkv_event {
    mkv_event_type_t type;
    mkv_status_t status;
    mkv_peer_t *peer;
    mkv_xfer_t *xfer; /**< NULL if not about one, or closed meanwhile */
    uint64_t id;      /**< Transfer's id; MSG: as sent */
    uint32_t epoch;
    uint32_t leg;
    uint32_t value;
    uint32_t reserved; /**< 0 */
    void *user_data;
    const mkv_units_t *units; /**< Valid until the transfer is closed */
    size_t num_units;
    const void *header; /**< MSG: valid until the next mkv_poll() */
    size_t header_length;
    const void *data; /**< EXPOSED: as units; MSG: as header */
    size_t length;
    char text[256];
} mkv_event_t;

/** Move everything that can move now; option PROGRESS_THREADS has threads do it.
 *  @return Number of things that happened. */
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
 * Sleeping is this loop, from mkv_open() on, and nothing else: mkv_progress(), then
 * mkv_poll(); without an event mkv_arm(); on MKV_OK sleep until the descriptor is
 * readable; again. Calls and progress of other threads end the sleep, too.
 *
 * @return MKV_OK: sleep, MKV_ERR_BUSY: call mkv_progress() and mkv_poll() first (the
 *         last progress moved something, a call came after it, an event waits, or a
 *         gate has to be asked), MKV_ERR_UNSUPPORTED, MKV_ERR_TRANSPORT.
 */
mkv_status_t mkv_arm(mkv_ctx_t *ctx);

/* ---- 7. Messages ----------------------------------------------------------------- */

/**
 * Send bytes to the peer's connector; ordered per peer. Everything is copied.
 *
 * @return MKV_OK, MKV_ERR_BUSY: the peer is not ready, MKV_ERR_PEER, MKV_ERR_LENGTH:
 *         larger than option MAX_MESSAGE, MKV_ERR_NOMEM.
 */
mkv_status_t mkv_send(mkv_peer_t *peer, uint64_t id, uint32_t type, const void *header,
                      size_t header_length, const void *data, size_t length);

/* ---- 8. Observability ------------------------------------------------------------ */

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
    uint64_t lists_reused; /**< Given to UCX again as an earlier post built them */
    uint64_t arena_allocs; /**< Grows only while posts get larger */
    uint64_t num_memh, num_regions, num_peers;
    uint64_t quarantined_xfers;
} mkv_stats_t;

/** @param [in] peer  Count only this peer's, or NULL: all. @return MKV_OK. */
mkv_status_t mkv_stats(mkv_ctx_t *ctx, const mkv_peer_t *peer, mkv_stats_t *stats);

enum {
    MKV_DUMP_CONFIG = 1 << 0,
    MKV_DUMP_REGIONS = 1 << 1,
    MKV_DUMP_PEERS = 1 << 2,
    MKV_DUMP_XFERS = 1 << 3, /**< Each with state, age and what it waits for */
    MKV_DUMP_STATS = 1 << 4,
    MKV_DUMP_ALL = (1 << 5) - 1
};

/** Write the state as text, line by line without newline, through @a write. */
mkv_status_t mkv_dump(mkv_ctx_t *ctx, uint32_t sections,
                      void (*write)(void *arg, const char *line), void *arg);

/* ---- 9. Pure helpers ------------------------------------------------------------- */

/** `count` blocks that are neighbours on both sides. Complete: it never grows. */
typedef struct mkv_run {
    uint32_t local, remote; /**< First block of each side */
    uint32_t count;
    uint32_t pos; /**< Position of the first block in the (sorted) list */
} mkv_run_t;

/**
 * The merge of mkv_plan_create(), for those who count before they post.
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
