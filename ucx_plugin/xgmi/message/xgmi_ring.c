/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/message/xgmi_ring.h"

#include <string.h>

/* First word of a message: its size and identity. Zero: no message yet. */
#define MUCT_XGMI_RING_IS_MESSAGE 1
#define MUCT_XGMI_RING_IS_END 2 /* the next message is at the beginning of the ring */

typedef struct muct_xgmi_ring_head {
    uint32_t length;
    uint8_t id;
    uint8_t kind;
    uint16_t reserved;
} muct_xgmi_ring_head_t;

/* Lines ahead of the next message that a sender prefetches: most messages take two */
#define MUCT_XGMI_RING_AHEAD 3

_Static_assert(sizeof(muct_xgmi_ring_head_t) == sizeof(uint64_t), "read in one piece");
_Static_assert((MUCT_XGMI_RING_SIZE & (MUCT_XGMI_RING_SIZE - 1)) == 0, "power of two");
_Static_assert((2 * (MUCT_XGMI_RING_MAX_MESSAGE + (2 * MUCT_XGMI_RING_LINE))) <
                   MUCT_XGMI_RING_SIZE,
               "one that does not fit before the end fits behind it");


static uint64_t muct_xgmi_ring_step(uint64_t length)
{
    return (sizeof(muct_xgmi_ring_head_t) + length + MUCT_XGMI_RING_LINE - 1) &
           ~(MUCT_XGMI_RING_LINE - 1);
}

static unsigned char *muct_xgmi_ring_at(unsigned char *bytes, uint64_t position)
{
    return bytes + (position & (MUCT_XGMI_RING_SIZE - 1));
}

static uint64_t muct_xgmi_ring_to_end(uint64_t position)
{
    return MUCT_XGMI_RING_SIZE - (position & (MUCT_XGMI_RING_SIZE - 1));
}

static _Atomic uint64_t *muct_xgmi_ring_word(unsigned char *bytes, uint64_t position)
{
    return (_Atomic uint64_t *)(void *)muct_xgmi_ring_at(bytes, position);
}

static muct_xgmi_ring_head_t muct_xgmi_ring_look(unsigned char *bytes,
                                                 uint64_t position)
{
    uint64_t word = atomic_load(muct_xgmi_ring_word(bytes, position));
    muct_xgmi_ring_head_t head;

    memcpy(&head, &word, sizeof(head));
    return head;
}


/* ---- sender ---- */

bool muct_xgmi_ring_tx_init(muct_xgmi_ring_tx_t *tx, muct_xgmi_ring_state_t *state,
                            unsigned char *bytes)
{
    const uint64_t head = atomic_load(&state->head);

    *tx = (muct_xgmi_ring_tx_t){
        .state = state, .bytes = bytes, .position = head, .head = head};
    return ((head & (MUCT_XGMI_RING_LINE - 1)) == 0) &&
           (muct_xgmi_ring_look(bytes, head).kind == 0);
}

/* Including the line after it, which marks the end */
static uint64_t muct_xgmi_ring_need(const muct_xgmi_ring_tx_t *tx, size_t max)
{
    uint64_t step = muct_xgmi_ring_step(max);
    uint64_t to_end = muct_xgmi_ring_to_end(tx->position);

    return ((step <= to_end) ? step : to_end + step) + MUCT_XGMI_RING_LINE;
}

static bool muct_xgmi_ring_is_there_room(const muct_xgmi_ring_tx_t *tx, size_t max)
{
    const uint64_t used = tx->position - tx->head; /* an invalid head: see
                                                    * has_wrong_head */

    return (used <= MUCT_XGMI_RING_SIZE) &&
           (muct_xgmi_ring_need(tx, max) <= MUCT_XGMI_RING_SIZE - used);
}

bool muct_xgmi_ring_has_wrong_head(const muct_xgmi_ring_tx_t *tx)
{
    return tx->position - atomic_load(&tx->state->head) > MUCT_XGMI_RING_SIZE;
}

bool muct_xgmi_ring_has_room(muct_xgmi_ring_tx_t *tx, size_t max)
{
    if (muct_xgmi_ring_is_there_room(tx, max)) {
        return true;
    }

    tx->head = atomic_load_explicit(&tx->state->head, memory_order_acquire);
    return muct_xgmi_ring_is_there_room(tx, max);
}

bool muct_xgmi_ring_want_room(muct_xgmi_ring_tx_t *tx, size_t max)
{
    atomic_store(&tx->state->wants_room, 1); /* then check: see give_room */
    tx->head = atomic_load(&tx->state->head);
    return muct_xgmi_ring_is_there_room(tx, max);
}

/*
 * Publish the last message in the ring. Sequentially consistent with the armed flag: if
 * the sender reads "awake", the receiver sees the message before it sleeps
 * (muct_xgmi_outbox_commit()).
 */
static void muct_xgmi_ring_publish(muct_xgmi_ring_tx_t *tx, muct_xgmi_ring_head_t head,
                                   uint64_t step)
{
    uint64_t word;

    memcpy(&word, &head, sizeof(word));
    atomic_store_explicit(muct_xgmi_ring_word(tx->bytes, tx->position + step), 0,
                          memory_order_relaxed);
    atomic_store(muct_xgmi_ring_word(tx->bytes, tx->position), word);
    tx->position += step;
}

void *muct_xgmi_ring_reserve(muct_xgmi_ring_tx_t *tx, size_t max)
{
    uint64_t to_end;

    if (!muct_xgmi_ring_has_room(tx, max)) {
        return NULL;
    }

    to_end = muct_xgmi_ring_to_end(tx->position);
    if (muct_xgmi_ring_step(max) > to_end) {
        muct_xgmi_ring_publish(
            tx, (muct_xgmi_ring_head_t){.kind = MUCT_XGMI_RING_IS_END}, to_end);
    }
    return muct_xgmi_ring_at(tx->bytes, tx->position) + sizeof(muct_xgmi_ring_head_t);
}

/*
 * The next lines are in the receiver's cache, as it read them a round ago. Clear their
 * first words now: this must be done before a message is published in any case, and it
 * fetches the lines before the next message needs them.
 */
static void muct_xgmi_ring_fetch_ahead(muct_xgmi_ring_tx_t *tx)
{
    uint64_t position = tx->position;
    unsigned i;

    for (i = 0; i < MUCT_XGMI_RING_AHEAD; ++i) {
        position += MUCT_XGMI_RING_LINE;
        if (position - tx->head > MUCT_XGMI_RING_SIZE - MUCT_XGMI_RING_LINE) {
            return; /* bytes not read yet according to the last known head */
        }
        atomic_store_explicit(muct_xgmi_ring_word(tx->bytes, position), 0,
                              memory_order_relaxed);
    }
}

void muct_xgmi_ring_commit(muct_xgmi_ring_tx_t *tx, uint8_t id, size_t length)
{
    muct_xgmi_ring_publish(tx,
                           (muct_xgmi_ring_head_t){.length = (uint32_t)length,
                                                   .id = id,
                                                   .kind = MUCT_XGMI_RING_IS_MESSAGE},
                           muct_xgmi_ring_step(length));
    muct_xgmi_ring_fetch_ahead(tx);
}


/* ---- receiver ---- */

bool muct_xgmi_ring_rx_init(muct_xgmi_ring_rx_t *rx, muct_xgmi_ring_state_t *state,
                            unsigned char *bytes)
{
    const uint64_t head = atomic_load(&state->head);

    *rx = (muct_xgmi_ring_rx_t){
        .state = state, .bytes = bytes, .position = head, .given = head};
    return (head & (MUCT_XGMI_RING_LINE - 1)) == 0;
}

muct_xgmi_ring_found_t muct_xgmi_ring_next(muct_xgmi_ring_rx_t *rx,
                                           muct_xgmi_ring_message_t *message)
{
    muct_xgmi_ring_head_t head = muct_xgmi_ring_look(rx->bytes, rx->position);

    if (head.kind == MUCT_XGMI_RING_IS_END) {
        rx->position += muct_xgmi_ring_to_end(rx->position);
        head = muct_xgmi_ring_look(rx->bytes, rx->position);
    }
    if (head.kind == 0) {
        return MUCT_XGMI_RING_NOTHING;
    }
    if ((head.kind != MUCT_XGMI_RING_IS_MESSAGE) ||
        (head.length > MUCT_XGMI_RING_MAX_MESSAGE) ||
        (muct_xgmi_ring_step(head.length) > muct_xgmi_ring_to_end(rx->position))) {
        return MUCT_XGMI_RING_BROKEN;
    }

    message->data = muct_xgmi_ring_at(rx->bytes, rx->position) + sizeof(head);
    message->length = head.length;
    message->id = head.id;
    return MUCT_XGMI_RING_MESSAGE;
}

void muct_xgmi_ring_skip(muct_xgmi_ring_rx_t *rx,
                         const muct_xgmi_ring_message_t *message)
{
    rx->position += muct_xgmi_ring_step(message->length);
}

bool muct_xgmi_ring_give_room(muct_xgmi_ring_rx_t *rx)
{
    if (rx->given == rx->position) {
        return false;
    }

    rx->given = rx->position;
    /* either this side finds the request for room, or the sender finds the room */
    atomic_store(&rx->state->head, rx->position);
    return (atomic_load(&rx->state->wants_room) != 0) &&
           (atomic_exchange(&rx->state->wants_room, 0) != 0);
}
