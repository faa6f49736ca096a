/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Credits for messages of the caller, and for notes. Posting an operation takes the
 * credit of its note.
 *
 * Each side counts the bytes sent under a connection and the bytes polled, with a fixed
 * part for each message. The receiver reports its MAX_QUEUED in HELLO. By CREDIT it
 * reports the bytes polled, whenever they have grown by a quarter of MAX_QUEUED. The
 * sender's count may lag by that quarter. So while at most a quarter seems to wait, a
 * message of any size is sent.
 */

#include "message/credit.h"

#include "base/event.h"
#include "message/message.h"

/* Credit before the peer's first CREDIT. A peer that is not ready yet keeps messages
 * as if they had arrived out of order */
#define MKV_CREDIT_FIRST (MKV_REORDER_WINDOW / 2)

static bool mkv_credit_fits(uint64_t waiting, uint64_t cost, uint64_t room)
{
    return (waiting <= room / 4) || ((waiting <= room) && (cost <= room - waiting));
}

bool mkv_credit_has(const mkv_peer_t *peer, size_t length)
{
    const mkv_credit_t *credit = &peer->credit;

    if (!credit->has_report && (credit->num_sent >= MKV_CREDIT_FIRST)) {
        return false;
    }
    return mkv_credit_fits(credit->sent - credit->polled_there,
                           MKV_CREDIT_MESSAGE + (uint64_t)length,
                           peer->remote.info.max_queued);
}

void mkv_credit_sent(mkv_peer_t *peer, size_t length)
{
    peer->credit.sent += MKV_CREDIT_MESSAGE + (uint64_t)length;
    ++peer->credit.num_sent;
}

/* Accept messages in any order, and a single larger one, from a sender that keeps to
 * its credit. */
bool mkv_credit_receive(mkv_peer_t *peer, size_t length)
{
    mkv_credit_t *credit = &peer->credit;
    uint64_t waiting = credit->received - mkv_polled(&credit->polled);
    uint64_t room = peer->ctx->opts->max_queued;

    if ((waiting > room) && (waiting - room > peer->ctx->opts->max_message)) {
        return false;
    }
    credit->received += MKV_CREDIT_MESSAGE + (uint64_t)length;
    return true;
}

/* The count comes from the peer: at most the bytes sent, at least the last count */
void mkv_credit_update(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_credit_t *credit = &peer->credit;

    if (msg->bytes - credit->polled_there > credit->sent - credit->polled_there) {
        mkv_peer_fail(peer, MKV_ERR_PROTOCOL,
                      "it reports %llu bytes polled, of %llu sent",
                      (unsigned long long)msg->bytes, (unsigned long long)credit->sent);
        return;
    }
    credit->polled_there = msg->bytes;
    credit->has_report = true;
}

void mkv_credit_report(mkv_peer_t *peer)
{
    mkv_msg_t msg = {.type = MKV_MSG_CREDIT, .bytes = mkv_polled(&peer->credit.polled)};

    peer->credit.reported = msg.bytes;
    if (mkv_message_send(peer, &msg) != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "%s", mkv_last_error());
    }
}

unsigned mkv_credits_report(mkv_ctx_t *ctx)
{
    unsigned count = 0;
    mkv_peer_t *peer;

    if (!__atomic_load_n(&ctx->is_credit_due, __ATOMIC_SEQ_CST)) {
        return 0;
    }
    __atomic_store_n(&ctx->is_credit_due, false, __ATOMIC_SEQ_CST);
    mkv_list_for_each(peer, &ctx->peers, list)
    {
        if ((peer->state == MKV_CONN_READY) &&
            (mkv_polled(&peer->credit.polled) - peer->credit.reported >
             ctx->opts->max_queued / 4)) {
            mkv_credit_report(peer);
            ++count;
        }
    }
    return count;
}
