/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Work requests of the old connection that the new one has to repeat.
 *
 * The peer's device executes a queue pair in order. So the number of messages that have
 * arrived proves that everything before the last of them was executed. Writes before it
 * have arrived and must not be repeated: the peer may have reused the memory since. The
 * data of reads may have been lost on the way, so reads are posted again. The exception
 * is a read followed by a fence and by a message that has arrived: that message was
 * sent after the read had ended.
 *
 * How much of the work after the last arrived message was executed is unknown. Writes
 * and reads are posted again: the same bytes to the same place. Atomics must not be
 * repeated, so recovery is given up if there is one. The same holds for a write right
 * after a fence. A program notifies a peer that polls memory by such a write; the peer
 * may have seen it and begun to use the place again.
 *
 * Work that need not be repeated becomes a write of zero bytes, which keeps all
 * numbers.
 */

#include "rdma/recovery/rdma_replay.h"

#include "base/muct_log.h"

/* Counts of a queue pair: earlier work requests have certainly been executed. */
typedef struct muct_rdma_replay {
    uint32_t arrived; /* executed by the peer's device */
    uint32_t ended;   /* completed with all answers */
} muct_rdma_replay_t;

static bool muct_rdma_is_before(uint32_t index, uint32_t other)
{
    return (int32_t)(index - other) < 0;
}

static uint32_t muct_rdma_replay_num_sends(const muct_rdma_sq_t *sq, uint32_t end)
{
    uint32_t index, num = 0;

    for (index = sq->tail; index != end; ++index) {
        num += muct_rdma_sq_at(sq, index)->opcode == IBV_WR_SEND;
    }

    return num;
}

/* False when the peer's count is impossible. */
static bool muct_rdma_replay_find(const muct_rdma_ep_t *ep, uint32_t received,
                                  muct_rdma_replay_t *replay)
{
    const muct_rdma_sq_t *sq = &ep->chans[0].sq;
    uint32_t ended = ep->num_sends - muct_rdma_replay_num_sends(sq, sq->head);
    uint32_t left = received - ended;

    replay->arrived = sq->tail;
    replay->ended = sq->tail;
    if (left > muct_rdma_replay_num_sends(sq, sq->posted)) {
        muct_error("the peer has received %u messages, where %u have ended and %u are "
                   "on their way",
                   received, ended, muct_rdma_replay_num_sends(sq, sq->posted));
        return false;
    }

    while (left > 0) {
        if (muct_rdma_sq_at(sq, replay->arrived)->send_flags & IBV_SEND_FENCE) {
            replay->ended = replay->arrived;
        }
        left -= muct_rdma_sq_at(sq, replay->arrived)->opcode == IBV_WR_SEND;
        ++replay->arrived;
    }

    return true;
}

typedef enum {
    MUCT_RDMA_REPLAY_AGAIN,
    MUCT_RDMA_REPLAY_DONE,
    MUCT_RDMA_REPLAY_UNKNOWN
} muct_rdma_replay_fate_t;

static muct_rdma_replay_fate_t muct_rdma_replay_fate(const muct_rdma_replay_t *replay,
                                                     const struct ibv_send_wr *wr,
                                                     uint32_t index)
{
    bool has_arrived = muct_rdma_is_before(index, replay->arrived);
    bool has_ended = muct_rdma_is_before(index, replay->ended);

    switch (wr->opcode) {
    case IBV_WR_SEND:
        return has_arrived ? MUCT_RDMA_REPLAY_DONE : MUCT_RDMA_REPLAY_AGAIN;
    case IBV_WR_RDMA_READ:
        return has_ended ? MUCT_RDMA_REPLAY_DONE : MUCT_RDMA_REPLAY_AGAIN;
    case IBV_WR_RDMA_WRITE:
        if (has_arrived) {
            return MUCT_RDMA_REPLAY_DONE;
        }
        return (wr->send_flags & IBV_SEND_FENCE) ? MUCT_RDMA_REPLAY_UNKNOWN
                                                 : MUCT_RDMA_REPLAY_AGAIN;
    default:
        return has_ended ? MUCT_RDMA_REPLAY_DONE : MUCT_RDMA_REPLAY_UNKNOWN;
    }
}

static void muct_rdma_replay_clear(struct ibv_send_wr *wr)
{
    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->send_flags = 0;
    wr->num_sge = 0;
    wr->wr.rdma.remote_addr = 0;
    wr->wr.rdma.rkey = 0;
}

static const char *muct_rdma_replay_name(const struct ibv_send_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
        return "a put right behind a fence";
    case IBV_WR_RDMA_READ:
        return "a get, of which the peer answers none any more";
    default:
        return "an atomic";
    }
}

static bool muct_rdma_replay_chan(const muct_rdma_chan_t *chan,
                                  const muct_rdma_replay_t *replay)
{
    muct_rdma_replay_fate_t fate;
    struct ibv_send_wr *wr;
    uint32_t index;

    for (index = chan->sq.tail; index != chan->sq.posted; ++index) {
        wr = muct_rdma_sq_at(&chan->sq, index);
        fate = muct_rdma_replay_fate(replay, wr, index);
        if ((wr->opcode == IBV_WR_RDMA_READ) && chan->ep->is_pulling &&
            (fate == MUCT_RDMA_REPLAY_AGAIN)) {
            fate = MUCT_RDMA_REPLAY_UNKNOWN;
        }
        if (fate == MUCT_RDMA_REPLAY_UNKNOWN) {
            muct_debug("work request %u of %u to %u may have been carried out and "
                       "cannot be repeated: %s",
                       index, chan->sq.tail, chan->sq.posted,
                       muct_rdma_replay_name(wr));
            return false;
        }
        if (fate == MUCT_RDMA_REPLAY_DONE) {
            muct_rdma_replay_clear(wr);
        }
    }

    return true;
}

bool muct_rdma_replay_prepare(muct_rdma_ep_t *ep, uint32_t received)
{
    muct_rdma_replay_t replay;
    unsigned i;

    if (!muct_rdma_replay_find(ep, received, &replay)) {
        return false;
    }

    for (i = 0; i < ep->num_qps; ++i) {
        if (i > 0) { /* these queue pairs carry no messages */
            replay.arrived = ep->chans[i].sq.tail;
            replay.ended = ep->chans[i].sq.tail;
        }
        if (!muct_rdma_replay_chan(&ep->chans[i], &replay)) {
            return false;
        }
    }

    return true;
}
