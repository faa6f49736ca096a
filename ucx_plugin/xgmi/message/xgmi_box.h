/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_BOX_H
#define MUCT_XGMI_BOX_H

/**
 * @file
 * Layout of the file in shared memory that holds the messages for an interface, for
 * xgmi_inbox.h, which reads them, and xgmi_outbox.h, which writes them.
 *
 * A ring (xgmi_ring.h) belongs to one sender at a time, so that no sender waits for
 * another. Memory of a ring is reserved by the first sender that takes it. A sender
 * that ends returns its ring with the messages in it; a ring of a dead or ended sender
 * can be taken again once all of it was read.
 *
 * A ring that may have messages has a bit, so that the others cost the receiver
 * nothing. The sender publishes a message first and reads the bit second, and sets it
 * when it is clear. The receiver clears the bit first and reads the ring second. So
 * either the receiver finds the message, or the sender finds the bit clear.
 */

#include "xgmi/peer/xgmi_addr.h"
#include "xgmi/peer/xgmi_page.h"
#include "xgmi/message/xgmi_ring.h"

#include <unistd.h>


/** Senders of an interface at a time */
#define MUCT_XGMI_BOX_RINGS 1024

/** Words with a bit for each ring */
#define MUCT_XGMI_BOX_WORDS (MUCT_XGMI_BOX_RINGS / 64)

#define MUCT_XGMI_BOX_MAGIC UINT64_C(0x33786f622d78696d) /* "mix-box3" */

/** Owner value of a released ring that may still have messages; no process has this
 * incarnation */
#define MUCT_XGMI_BOX_GIVEN_BACK UINT64_C(1)


/** Slot of a sender. The reader bounds every value and trusts none. */
typedef struct muct_xgmi_box_place {
    _Alignas(64) muct_xgmi_ring_state_t ring;
    _Atomic uint64_t owner;     /**< Incarnation of the sender; 0: free */
    _Atomic uint32_t bell_slot; /**< Sender's interface, woken when room is free */
    _Atomic uint32_t bell_generation;
} muct_xgmi_box_place_t;

/** The file, without the rings. */
typedef struct muct_xgmi_box {
    _Alignas(4096) uint64_t magic;
    uint64_t owner;
    _Alignas(64) _Atomic uint32_t
        num_used;               /**< Number of leading places that have had a sender */
    _Atomic uint32_t is_polled; /**< A sender has prepared a ring for messages */
    _Alignas(64) _Atomic uint64_t ready[MUCT_XGMI_BOX_WORDS]; /**< A bit for each place
                                                               *   to be polled */
    _Alignas(64) _Atomic uint32_t is_armed; /**< The next sender must ring the bell */
    _Atomic uint32_t num_rung; /**< Number of times that the bell was rung */
    muct_xgmi_box_place_t places[MUCT_XGMI_BOX_RINGS];
} muct_xgmi_box_t;


/** Bit of a place in its word of @ref muct_xgmi_box_t::ready. */
static inline uint64_t muct_xgmi_box_bit(unsigned index)
{
    return UINT64_C(1) << (index % 64);
}


/** Make the receiver poll a place. The memory of its ring must be reserved. */
static inline void muct_xgmi_box_set_ready(muct_xgmi_box_t *box, unsigned index)
{
    _Atomic uint64_t *word = &box->ready[index / 64];

    if (!(atomic_load(word) & muct_xgmi_box_bit(index))) {
        atomic_fetch_or(word, muct_xgmi_box_bit(index));
    }
}


/** Offset of a ring in the file; whole pages of this machine. */
static inline uint64_t muct_xgmi_box_offset(unsigned index)
{
    const uint64_t page = (uint64_t)getpagesize();
    const uint64_t first = (sizeof(muct_xgmi_box_t) + page - 1) & ~(page - 1);

    return first + (index * MUCT_XGMI_RING_SIZE);
}


/** Bytes of the file, which is sparse. */
static inline uint64_t muct_xgmi_box_size(void)
{
    return muct_xgmi_box_offset(MUCT_XGMI_BOX_RINGS);
}


/** Whether RLIMIT_FSIZE allows a box. */
static inline bool muct_xgmi_box_is_allowed(void)
{
    return muct_xgmi_page_file_limit() >= muct_xgmi_box_size();
}

#endif
