/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_RING_H
#define MUCT_XGMI_RING_H

/**
 * @file
 * Messages from one process to another through a ring in shared memory: one side
 * writes, the other one reads. Each message is contiguous and begins with a cache line
 * of its own, which also holds the flag that it is valid: the reader polls the line of
 * the next message, and a short message moves one cache line.
 *
 * A sender that dies in the middle of a message leaves nothing visible. Each side keeps
 * its own position and bounds the values of the other side; the reader reports an
 * impossible value and reads nothing more from that ring.
 *
 * Threads. One on each side at a time.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


/** Bytes of a ring; a power of two */
#define MUCT_XGMI_RING_SIZE UINT64_C(65536)

/** A line of the caches: where messages begin */
#define MUCT_XGMI_RING_LINE UINT64_C(64)

/** Longest message, in bytes; less than half of a ring, so that every message fits
 * after a while */
#define MUCT_XGMI_RING_MAX_MESSAGE 16384


/** Positions that both sides write in shared memory, beside the data; initially zero.
 */
typedef struct muct_xgmi_ring_state {
    _Atomic uint64_t head;       /**< Bytes that were read since the beginning */
    _Atomic uint32_t wants_room; /**< The sender sleeps until head moves */
    _Atomic uint32_t is_broken;  /**< The receiver reads no more */
} muct_xgmi_ring_state_t;

/** The side of a ring that writes. */
typedef struct muct_xgmi_ring_tx {
    muct_xgmi_ring_state_t *state;
    unsigned char *bytes;
    uint64_t position; /**< Bytes written since the beginning */
    uint64_t head;     /**< Value of state->head when last read */
} muct_xgmi_ring_tx_t;

/** The side of a ring that reads. */
typedef struct muct_xgmi_ring_rx {
    muct_xgmi_ring_state_t *state;
    unsigned char *bytes;
    uint64_t position; /**< Bytes read since the beginning */
    uint64_t given;    /**< Bytes read that the sender may reuse */
} muct_xgmi_ring_rx_t;

/** A message in the ring, valid until @ref muct_xgmi_ring_skip. */
typedef struct muct_xgmi_ring_message {
    void *data; /**< Aligned to 8 */
    uint32_t length;
    uint8_t id;
} muct_xgmi_ring_message_t;

/** Result of @ref muct_xgmi_ring_next. */
typedef enum muct_xgmi_ring_found {
    MUCT_XGMI_RING_NOTHING,
    MUCT_XGMI_RING_MESSAGE,
    MUCT_XGMI_RING_BROKEN /**< The sender has written an impossible value */
} muct_xgmi_ring_found_t;


/**
 * Continue to write where an earlier sender has ended.
 *
 * @return Whether all messages of that sender were read. If not, the ring must not be
 *         used.
 */
bool muct_xgmi_ring_tx_init(muct_xgmi_ring_tx_t *tx, muct_xgmi_ring_state_t *state,
                            unsigned char *bytes);


/**
 * Reserve room for a message of up to @a max bytes, at most @ref
 * MUCT_XGMI_RING_MAX_MESSAGE.
 *
 * @return Where to write it, aligned to 8, or NULL: there is no room now. The receiver
 *         sees nothing of it before @ref muct_xgmi_ring_commit, which need not follow.
 */
void *muct_xgmi_ring_reserve(muct_xgmi_ring_tx_t *tx, size_t max);


/** Publish the reserved space as a message of @a length bytes. */
void muct_xgmi_ring_commit(muct_xgmi_ring_tx_t *tx, uint8_t id, size_t length);


/** Whether the receiver's position is invalid, so that the ring will never have room.
 */
bool muct_xgmi_ring_has_wrong_head(const muct_xgmi_ring_tx_t *tx);


/** Whether there is room for @a max bytes. */
bool muct_xgmi_ring_has_room(muct_xgmi_ring_tx_t *tx, size_t max);


/** Variant before a sleep: without room, @ref muct_xgmi_ring_give_room returns true
 * later. */
bool muct_xgmi_ring_want_room(muct_xgmi_ring_tx_t *tx, size_t max);


/**
 * Continue to read at the ring's present position.
 *
 * @return Whether a message can begin there; else the ring must not be read.
 */
bool muct_xgmi_ring_rx_init(muct_xgmi_ring_rx_t *rx, muct_xgmi_ring_state_t *state,
                            unsigned char *bytes);


/** Return the next message without removing it. */
muct_xgmi_ring_found_t muct_xgmi_ring_next(muct_xgmi_ring_rx_t *rx,
                                           muct_xgmi_ring_message_t *message);


/** Release the current message. */
void muct_xgmi_ring_skip(muct_xgmi_ring_rx_t *rx,
                         const muct_xgmi_ring_message_t *message);


/**
 * Return the room of messages that were read to the sender.
 *
 * @return Whether the sender sleeps until then and must be woken.
 */
bool muct_xgmi_ring_give_room(muct_xgmi_ring_rx_t *rx);

#endif
