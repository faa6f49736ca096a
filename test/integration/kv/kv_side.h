/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef KV_SIDE_H
#define KV_SIDE_H

/**
 * @file
 * A process of two in a libmorikv test: a context, a cache in one allocation, a peer.
 *
 * The parent is the source, the forked peer the destination, unless a test says
 * otherwise. The processes meet through the channel of mkv_proc.h, which carries blobs
 * and the test's own words. MKV_TEST_MEM=gpu puts the cache into GPU memory, each side
 * on its own device; mixed does so for the side src alone; pinned puts it into host
 * memory that the GPU runtime has pinned.
 *
 * Waits progress the context and end at the common limit; conditions that do not hold
 * fail the test, in either process.
 */

#include "test/support/mkv_check.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <morikv.h>

#include <stdint.h>

/** Shape of the cache, the same on both sides. */
typedef struct kv_shape {
    uint32_t layers, parts, blocks;
    size_t block_bytes;
    size_t stride; /**< 0: block_bytes */
} kv_shape_t;

#define KV_MAX_PENDING 512

typedef struct kv_side {
    mkv_ctx_t *ctx;
    int fd;
    kv_shape_t shape;
    int is_gpu, is_pinned;
    int has_threads; /**< Progress is the library's (option PROGRESS_THREADS) */
    int sleeps;      /**< Waits on the event descriptor alone, without a limit */
    int expects;     /**< Waits for a word of the other side, too */
    char *mem;       /**< Memory of its runtime */
    size_t mem_length;
    mkv_region_id_t ids[512];
    size_t num_ids;
    mkv_peer_t *peer;
    mkv_map_t *map;
    mkv_event_t pending[KV_MAX_PENDING];
    size_t num_pending;
    uint32_t xfer_timeout_ms;  /**< Timeout of later transfers; 0: default */
    uint32_t drain_timeout_ms; /**< Same for draining */
} kv_side_t;

/** Default shape: 8 layers, 2 parts, 64 blocks of 4 KiB. */
extern const kv_shape_t kv_shape_default;

/** Sides opened later in this process wait as the library's header describes: progress,
 * poll, arm, and sleep until the event descriptor is readable. */
extern int kv_sides_sleep;

/** MKV_REGION_* of the regions that sides opened later in this process add. */
extern uint16_t kv_region_flags;

/** Set an option of the contexts opened later in this process; NULL value: unset. */
void kv_set_option(const char *key, const char *value);

/** Open a context and its cache, filled with a pattern of @a seed, and commit it. */
void kv_side_open(kv_side_t *side, const char *name, int fd, const kv_shape_t *shape,
                  uint8_t seed);

/** Open only the context. */
void kv_side_open_ctx(kv_side_t *side, const char *name, int fd);

/** Exchange address blobs; the side that @a calls adds the peer, both wait for READY.
 */
void kv_side_connect(kv_side_t *side, int calls);

/** kv_side_connect(), and a map. */
void kv_side_connect_map(kv_side_t *side, int calls);

/** Close everything; fails the test if an object is still open. */
void kv_side_close(kv_side_t *side);

/** Free the cache alone, after the context was closed in another way. */
void kv_side_free(kv_side_t *side);

/** Make one round of progress, unless the library's threads do; events go to
 * side->pending. */
void kv_side_progress(kv_side_t *side);

/** Take the first event of this type (and transfer, unless NULL); waits for it. */
mkv_event_t kv_wait_event(kv_side_t *side, mkv_event_type_t type,
                          const mkv_xfer_t *xfer);

/** Whether such an event is pending; does not wait. */
int kv_has_event(const kv_side_t *side, mkv_event_type_t type, const mkv_xfer_t *xfer);

/** Progress until the other side's next word, which must be @a text. */
void kv_expect(kv_side_t *side, const char *text);

/** Send a word to the other side. */
void kv_send_word(kv_side_t *side, const char *text);

/** Progress until *condition* is nonzero. */
#define KV_PROGRESS_UNTIL(_side, _condition)                                           \
    do {                                                                               \
        uint64_t _start = mkv_test_now_ms();                                           \
        while (!(_condition)) {                                                        \
            kv_side_progress(_side);                                                   \
            MKV_REQUIRE(mkv_test_now_ms() - _start < (uint64_t)mkv_test_limit_ms(),    \
                        "time is over: " #_condition);                                 \
        }                                                                              \
    } while (0)

/** Open the usual transfer with one leg. */
mkv_xfer_t *kv_open_xfer(kv_side_t *side, uint64_t id, mkv_mode_t mode,
                         mkv_role_t role);

/** Expose @a num blocks of component 0. */
void kv_expose(mkv_xfer_t *xfer, const uint32_t *blocks, uint32_t num);

/** Plan from own blocks to those of an EXPOSED event. */
mkv_plan_t *kv_plan(kv_side_t *side, const uint32_t *blocks, uint32_t num,
                    const mkv_event_t *exposed, uint32_t flags);

/** Fill all blocks with a pattern of the seed. */
void kv_fill(kv_side_t *side, uint8_t seed);

/** Read one block to host memory. */
void kv_read_block(kv_side_t *side, uint32_t layer, uint32_t part, uint32_t block,
                   void *buffer);

/** Block @a mine holds the bytes that a side of @a seed has in its block @a theirs. */
void kv_check_block(kv_side_t *side, uint32_t mine, uint8_t seed, uint32_t theirs);

/** All blocks but those listed hold this side's own pattern. */
void kv_check_others(kv_side_t *side, const uint32_t *blocks, uint32_t num,
                     uint8_t own_seed);

/** A random list of different blocks. */
void kv_random_blocks(uint32_t *blocks, uint32_t num, uint32_t max, uint32_t seed);

mkv_stats_t kv_stats(kv_side_t *side);

#define KV_OK(_call)                                                                   \
    do {                                                                               \
        mkv_status_t _status = (_call);                                                \
        MKV_REQUIRE(_status == MKV_OK, #_call ": %s, %s", mkv_status_string(_status),  \
                    mkv_last_error());                                                 \
    } while (0)

#define KV_IS(_call, _expected)                                                        \
    do {                                                                               \
        mkv_status_t _status = (_call);                                                \
        MKV_REQUIRE(_status == (_expected), #_call ": got %s, %s",                     \
                    mkv_status_string(_status), mkv_last_error());                     \
    } while (0)

/** Main function of a test program: run its suite unless memory is missing. */
int kv_main(Suite *suite);

#endif
