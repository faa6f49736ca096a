/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TEST_SOAK_H
#define TEST_SOAK_H

/**
 * @file
 * Prefill and decode processes that transfer, abort, sleep, are stopped and die, and
 * their findings. The gardener in soak.c starts and disturbs them.
 */

#include <morikv.h>

#include <stdbool.h>
#include <stdint.h>

#define SOAK_PREFILLS 2u
#define SOAK_DECODES 4u
#define SOAK_WORKERS (SOAK_PREFILLS + SOAK_DECODES)
#define SOAK_LAYERS 2u
#define SOAK_PARTS 2u
#define SOAK_REGIONS (SOAK_LAYERS * SOAK_PARTS)
#define SOAK_BLOCKS 8192u
#define SOAK_BLOCK_BYTES 512u
#define SOAK_REGION_BYTES ((size_t)SOAK_BLOCKS * SOAK_BLOCK_BYTES)
#define SOAK_XFER_BLOCKS 8u
#define SOAK_MAX_LINKS 64u

typedef enum soak_phase { SOAK_RUN, SOAK_DRAIN, SOAK_CLOSE } soak_phase_t;

/** Requests to a worker, and its reports. The memory is shared by all, so that it
 * outlives a killed worker. */
typedef struct soak_slot {
    bool must_sleep; /**< Drop and make all regions anew */
    bool must_leave; /**< End in order */
    bool is_drained; /**< Decode: nothing is open, all blocks are back */
    uint64_t opened, done, aborted, failed, sleeps, peers;
    uint64_t open_now, open_most, quarantined_most;
    uint64_t wrong;              /**< Blocks with wrong contents at DONE */
    uint64_t late;               /**< Free blocks that were written to */
    uint64_t lost;               /**< Blocks that did not come back */
    uint64_t complaints;         /**< Calls that failed but must be OK */
    uint64_t rss_kib[2], fds[2]; /**< Most of the second and of the last quarter */
} soak_slot_t;

typedef struct soak_shared {
    volatile soak_phase_t phase;
    volatile unsigned quarter; /**< Of the run */
    char dir[128];             /**< Folder of the blobs */
    bool is_gpu;
    bool frees_early; /**< The control: blocks are free before they are quiet */
    unsigned window;  /**< Transfers of a decode at once */
    volatile soak_slot_t slots[SOAK_WORKERS];
} soak_shared_t;

/** A connection, as long as it or a transfer on it exists. */
typedef struct soak_link {
    mkv_peer_t *peer;
    mkv_map_t *map;
    unsigned who; /**< Worker */
    unsigned num_xfers;
    bool is_over, is_stale;
} soak_link_t;

typedef struct soak_worker soak_worker_t;

/** A worker's own part. */
typedef struct soak_role {
    void (*start)(soak_worker_t *worker);
    void (*event)(soak_worker_t *worker, const mkv_event_t *event);
    /** Start pending requests; called again and again. */
    void (*step)(soak_worker_t *worker);
    /** The cache was made anew. */
    void (*filled)(soak_worker_t *worker);
} soak_role_t;

struct soak_worker {
    soak_shared_t *shared;
    volatile soak_slot_t *slot;
    const soak_role_t *role;
    unsigned index;
    mkv_ctx_t *ctx;
    char *mem;
    mkv_region_id_t ids[SOAK_REGIONS];
    soak_link_t links[SOAK_MAX_LINKS];
    uint64_t random;
    unsigned num_open;  /**< Transfers that are not closed */
    bool is_winding_up; /**< No new transfers: it sleeps, leaves, or all is over */
};

extern const soak_role_t soak_prefill, soak_decode;

/** A decode's wish, sent to a prefill; its blocks follow from the seed. */
typedef struct soak_wish {
    uint64_t seed;
    uint32_t mode;
    uint32_t reserved;
} soak_wish_t;

enum { SOAK_MSG_WISH = 1, SOAK_MSG_NO = 2 };

/** Main function of a worker. @return Its exit status. */
int soak_work(soak_shared_t *shared, unsigned index);

/** Something that must not happen; the first few are printed. */
void soak_complain(soak_worker_t *worker, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define SOAK_OK(_worker, _call)                                                        \
    do {                                                                               \
        mkv_status_t _status = (_call);                                                \
        if (_status != MKV_OK) {                                                       \
            soak_complain(_worker, #_call ": %s, %s", mkv_status_string(_status),      \
                          mkv_last_error());                                           \
        }                                                                              \
    } while (0)

uint32_t soak_below(soak_worker_t *worker, uint32_t limit);

soak_link_t *soak_link_of(soak_worker_t *worker, const mkv_peer_t *peer);

/** The blocks of a prefill that a wish is about. */
void soak_wished(uint64_t seed, uint32_t blocks[SOAK_XFER_BLOCKS]);

/** A block of this worker, to host memory. */
void soak_read(soak_worker_t *worker, unsigned region, uint32_t block, void *to);

/** So many bytes from a block on, from host memory. */
void soak_write(soak_worker_t *worker, unsigned region, uint32_t block,
                const void *from, size_t length);

/** Pattern that a prefill holds from a block on. */
void soak_pattern(unsigned who, unsigned region, uint32_t block, void *to,
                  size_t length);

#endif
