/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_MOVES_H
#define MUCT_XGMI_MOVES_H

/**
 * @file
 * Puts to and gets from private host memory of other processes.
 *
 * A move is cut into segments. Threads copy them between the peer's memory and host
 * memory of this process (xgmi_mover.h): the user's, or a pinned buffer. A queue copies
 * between that buffer and GPU memory. So one segment crosses the bus while others are
 * copied in memory. Short moves share a segment.
 *
 * Each part of a segment is announced to the owner for as long as the kernel copies it
 * (xgmi_peer.h): invalidation waits for a part, not for a move.
 *
 * Order. Moves are not ordered among each other, nor with copies. Moves before a fence
 * end before anything after it begins.
 *
 * Threads. One at a time.
 */

#include "base/muct_gpu.h"
#include "base/muct_uct_abi.h"
#include "xgmi/copy/xgmi_mover.h"
#include "xgmi/copy/xgmi_queue.h"
#include "xgmi/copy/xgmi_stage.h"

/** Bytes of a segment */
#define MUCT_XGMI_SEGMENT_SIZE ((size_t)256 << 10)

/** Pieces of moves in a segment; not more than the entries of the shortest list */
#define MUCT_XGMI_SEGMENT_PARTS 16

/** Segments of an interface: for each thread one that runs, one that waits, and two on
 * the bus */
#define MUCT_XGMI_NUM_SEGMENTS 16

/** Moves of an interface at a time */
#define MUCT_XGMI_MAX_MOVES 4096


struct muct_xgmi_ep;
struct muct_xgmi_iface;
typedef struct muct_xgmi_move muct_xgmi_move_t;

/** Function that fails an endpoint. */
typedef void (*muct_xgmi_moves_fail_t)(struct muct_xgmi_ep *ep, ucs_status_t status);

/** Flush that waits for moves. */
typedef struct muct_xgmi_moves_marker {
    struct muct_xgmi_moves_marker *next;
    uint64_t stamp; /**< The last move to wait for */
    muct_xgmi_op_t op;
} muct_xgmi_moves_marker_t;

/** Piece of a move. */
typedef struct muct_xgmi_part {
    muct_xgmi_move_t *move;
    uint64_t local;  /**< The user's memory */
    uint64_t host;   /**< local, or the place in the segment's buffer */
    uint64_t remote; /**< The owner's address */
    uint64_t length;
    ucs_status_t status;
} muct_xgmi_part_t;

typedef struct muct_xgmi_segment {
    muct_xgmi_job_t job;
    struct muct_xgmi_segment *next;
    int dir;
    int device;                 /**< -1: the user's memory is the host's */
    muct_xgmi_buffer_t *buffer; /**< NULL if the user's memory is the host's */
    unsigned num_parts;
    muct_xgmi_part_t parts[MUCT_XGMI_SEGMENT_PARTS];
} muct_xgmi_segment_t;

/** The moves of an interface. */
typedef struct muct_xgmi_moves {
    muct_xgmi_mover_t mover;
    muct_xgmi_moves_fail_t fail;
    muct_xgmi_stage_t stage;
    ucs_list_link_t list;   /**< All moves, in the order of posting */
    unsigned count;         /**< Number of moves in the list */
    muct_xgmi_move_t *next; /**< First move with bytes in no segment, or NULL */
    uint64_t stamp;         /**< Stamp of the last move */
    bool is_fenced; /**< A fence waits for moves, and later operations for the fence */
    bool has_work;  /**< Progress may cut a segment */
    bool is_closing;
    muct_xgmi_moves_marker_t *markers, **last_marker;
    muct_xgmi_segment_t *free;
    muct_xgmi_segment_t *read; /**< Segments read from peers, to be copied to a GPU */
    muct_xgmi_segment_t segments[MUCT_XGMI_NUM_SEGMENTS];
} muct_xgmi_moves_t;


/** Prepare; allocates nothing. */
void muct_xgmi_moves_init(muct_xgmi_moves_t *moves, const muct_gpu_t *gpu,
                          muct_xgmi_wake_t *wake, muct_xgmi_moves_fail_t fail);


/** End the threads, before the queues are destroyed. */
void muct_xgmi_moves_close(muct_xgmi_moves_t *moves);


/** End all moves with UCS_ERR_CANCELED, after the queues were destroyed. */
void muct_xgmi_moves_cleanup(struct muct_xgmi_iface *iface);


/** A piece to move. */
typedef struct muct_xgmi_move_params {
    int dir;
    const void *buffer;
    size_t length;
    uct_mem_h memh;
    uint64_t raddr;
    const muct_xgmi_rkey_t *rkey;
    uct_completion_t *comp; /**< May be NULL */
} muct_xgmi_move_params_t;


/**
 * Add a move to the caller's list. It starts with
 * @ref muct_xgmi_moves_commit.
 *
 * @return UCS_OK; UCS_ERR_NO_RESOURCE: add a pending request; or another error.
 */
ucs_status_t muct_xgmi_moves_prepare(struct muct_xgmi_ep *ep,
                                     const muct_xgmi_move_params_t *params,
                                     ucs_list_link_t *list);


/** Forget prepared moves. */
void muct_xgmi_moves_drop(ucs_list_link_t *list);


/** Begin prepared moves. */
void muct_xgmi_moves_commit(struct muct_xgmi_ep *ep, ucs_list_link_t *list);


/** Move a few bytes at once, from or to host memory. */
ucs_status_t muct_xgmi_moves_copy(struct muct_xgmi_ep *ep, int dir,
                                  const muct_xgmi_rkey_t *rkey, void *buffer,
                                  size_t length, uint64_t raddr);


/** Detach the moves of an endpoint that is being destroyed. */
void muct_xgmi_moves_disown(muct_xgmi_moves_t *moves, const struct muct_xgmi_ep *ep);


/** @return Number of moves that have ended. */
unsigned muct_xgmi_moves_progress(struct muct_xgmi_iface *iface);


/** Whether all moves up to a stamp are over; if not, the marker's operation is called
 * once when they are. */
bool muct_xgmi_moves_are_over(muct_xgmi_moves_t *moves, uint64_t stamp,
                              muct_xgmi_moves_marker_t *marker);


/** Whether a sleeping thread is woken for moves; false: progress has work now. */
bool muct_xgmi_moves_arm(muct_xgmi_moves_t *moves);


/** Whether no move is left. */
static inline bool muct_xgmi_moves_are_idle(const muct_xgmi_moves_t *moves)
{
    return moves->count == 0;
}

#endif
