/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef SRC_PAIR_H
#define SRC_PAIR_H

/**
 * @file
 * Contexts that communicate through fake_ucp in one process, on one clock that the test
 * moves.
 */

#include "test/fake/ucp/fake_ucp.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include "src/message/inbox.h"
#include "src/peer/process.h"
#include "src/xfer/xfer.h"

#define PAIR_PARTS 2
#define PAIR_BLOCKS 32
#define PAIR_BYTES 64
#define PAIR_MAX_EVENTS 4096
#define PAIR_MAX_SIDES 5
#define PAIR_MAX_OPTIONS 12

typedef struct pair_side {
    mkv_ctx_t *ctx;
    uint8_t *mem;
    size_t length;
    mkv_peer_t *peers[PAIR_MAX_SIDES]; /**< Entries by index of the other side */
    mkv_map_t *maps[PAIR_MAX_SIDES];
    int is_stopped; /**< pair_run() leaves it alone */
    size_t num_events;
    mkv_event_t events[PAIR_MAX_EVENTS]; /**< Megabytes, so not cleared between cases */
} pair_side_t;

extern pair_side_t pair_sides[PAIR_MAX_SIDES];
extern uint32_t pair_layers;            /**< 4, unless set before pair_setup() */
extern ucs_memory_type_t pair_mem_type; /**< ROCM, unless set before opening */
/** Skip the probe for lists before the first put; true, unless set before connecting.
 */
extern bool pair_knows_lists;
extern uint64_t pair_now;  /**< ns */
extern uint64_t pair_tick; /**< ns that each look at the clock takes; 0 at first */

#define A (&pair_sides[0])
#define B (&pair_sides[1])

/** Option for the contexts opened later by this case. */
void pair_set(const char *key, const char *value);

/**
 * Teardown of every case, whether it failed or not. If Check does not fork, the next
 * case must find neither its options nor objects left by a failure.
 */
void pair_cleanup(void);

/** Its context is closed, or left: the side is as before pair_open(). */
void pair_forget(pair_side_t *side);

/** Open a side with a cache filled by its index; not connected. */
void pair_open(unsigned index);

/** Open a side without a cache. @param params  NULL: defaults. */
void pair_open_bare(unsigned index, const mkv_open_params_t *params);

/** Four units of 16 bytes of the host's memory. */
mkv_region_t pair_region(void *base, uint32_t component, int32_t layer);

/** Add a region; it is not committed. */
void pair_add(mkv_ctx_t *ctx, const mkv_region_t *region);

/** Let calls of lists go to all memory that the peer has exported by now. */
void pair_allow_lists(const mkv_peer_t *peer);

/** Connect two sides and make maps both ways. */
void pair_connect(unsigned a, unsigned b);

/** Two sides, connected. */
void pair_setup(void);

/** ... whose lane has this name, of a transport of UCX. */
void pair_setup_over(const char *transport);

/** Close what is open; every side must close without complaint. */
void pair_teardown(void);

/** Progress all sides until nothing moves, and collect events. */
void pair_run(void);

/** Progress the first two until nothing moves; their events wait for a poll. */
void pair_run_unpolled(void);

/** Number of events of a type (and transfer, unless NULL) seen by a side. */
unsigned pair_count(const pair_side_t *side, mkv_event_type_t type,
                    const mkv_xfer_t *xfer);

/** The last one; fails the test if there is none. */
const mkv_event_t *pair_last(const pair_side_t *side, mkv_event_type_t type,
                             const mkv_xfer_t *xfer);

mkv_xfer_t *pair_xfer(pair_side_t *side, unsigned other, uint64_t id, mkv_mode_t mode,
                      mkv_role_t role);

/** A WRITE of id 1, in one of its epochs. */
mkv_xfer_t *pair_xfer_epoch(pair_side_t *side, unsigned other, mkv_role_t role,
                            uint32_t epoch);

/** Expose blocks [first, first + num) to leg 0. */
void pair_expose(mkv_xfer_t *xfer, uint32_t first, uint32_t num);

/**
 * Transfer 1, a WRITE from A to blocks [0, num) of B.
 *
 * @param [out] passive_p  B's side of it.
 *
 * @return A's side.
 */
mkv_xfer_t *pair_bind_write(uint32_t num, mkv_xfer_t **passive_p);

/** Plan of own blocks [mine, mine + num) and remote ones [theirs, theirs + num). */
mkv_plan_t *pair_plan(pair_side_t *side, unsigned other, uint32_t mine, uint32_t theirs,
                      uint32_t num, uint32_t flags);

/** Close both sides of a transfer, and the plan unless it is NULL. */
void pair_close(mkv_xfer_t *active, mkv_xfer_t *passive, mkv_plan_t *plan);

/**
 * Have a context receive a message that carries a context's blob: HELLO or REGIONS.
 * @param [in] msg         Type and addresses.
 * @param [in] of          Context that the blob describes.
 * @param [in] connection  Its number, in the blob.
 * @param [in] seq         The message's.
 */
void pair_receive_blob(mkv_ctx_t *receiver, mkv_msg_t msg, mkv_ctx_t *of,
                       uint64_t connection, uint32_t seq);

mkv_xfer_attr_t pair_query(const mkv_xfer_t *xfer);
mkv_stats_t pair_stats(const pair_side_t *side);

/** Byte that a side's block held when it was opened. */
uint8_t pair_byte(unsigned index, uint32_t layer, uint32_t part, uint32_t block,
                  uint32_t byte);

/** Whether a side's block holds the original bytes of a block of either side, all
 * layers. */
int pair_holds(const pair_side_t *side, uint32_t block, unsigned origin,
               uint32_t origin_block);

/** Add the tests of a program here. */
TCase *pair_tcase(const char *name);

/** Run them. @return What main() returns. */
int pair_main(const char *name, TCase *tcase);

#define OK(_call) ck_assert_msg((_call) == MKV_OK, #_call ": %s", mkv_last_error())
#define IS(_call, _status) ck_assert_int_eq((_call), (_status))

#endif
