/* SPDX-License-Identifier: BSD-3-Clause */

#include "message/reply.h"

#include "message/message.h"

void mkv_reply_drained(mkv_peer_t *peer, const mkv_msg_t *term)
{
    mkv_msg_t msg = {.type = MKV_MSG_DRAINED,
                     .id = term->id,
                     .epoch = term->epoch,
                     .to_nonce = term->from_nonce};

    msg.from_nonce = (term->to_nonce != 0) ? term->to_nonce : mkv_ctx_nonce(peer->ctx);
    if (mkv_message_send(peer, &msg) != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "%s", mkv_last_error());
    }
}

void mkv_reply_term(mkv_peer_t *peer, const mkv_msg_t *first, mkv_status_t status,
                    const char *text)
{
    mkv_msg_t msg = {.type = MKV_MSG_TERM,
                     .id = first->id,
                     .epoch = first->epoch,
                     .from_nonce = mkv_ctx_nonce(peer->ctx),
                     .to_nonce = first->from_nonce,
                     .code = status,
                     .is_drained = true};

    mkv_text(msg.text, sizeof(msg.text), "%s", text);
    if (mkv_message_send(peer, &msg) != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "%s", mkv_last_error());
    }
}
