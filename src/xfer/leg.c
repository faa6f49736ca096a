/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The protocol between the two sides of one leg.
 *
 *   passive                                  active
 *     EXPOSE(nonce p, blocks, meta)  ------->  event EXPOSED
 *     <-----------------------------  BIND(nonce a)
 *                                              puts or gets
 *                                              WRITE: flush
 *     <-----------------------------  FIN(counts)
 *     verify, DONE                             DONE
 *
 *   either side, at any time:  TERM(code, text, drained) ... DRAINED
 *
 * Nonces name the instances of a transfer, because ids are used again: what is
 * addressed to another instance is dropped and counted. A TERM is always answered by
 * DRAINED when nothing of the answering side is in flight any more; only then is the
 * passive side's memory quiet. A TERM for what is not here is answered at once.
 */

#include "mkv_int.h"

#include <stdlib.h>

/* ---- Sending --------------------------------------------------------------------- */

mkv_status_t mkv_leg_send(mkv_leg_t *leg, mkv_msg_t *msg)
{
    msg->id = leg->xfer->id;
    msg->epoch = leg->xfer->epoch;
    msg->from_nonce = leg->xfer->nonce;
    msg->to_nonce = leg->remote_nonce;
    return mkv_notify_send(leg->peer, msg);
}

void mkv_leg_send_or_fail(mkv_leg_t *leg, mkv_msg_t *msg)
{
    mkv_status_t status = mkv_leg_send(leg, msg);

    if ((status != MKV_OK) && (leg->peer->state == MKV_PEER_READY)) {
        mkv_peer_fail(leg->peer, status, "%s", mkv_last_error());
    }
}

static void mkv_reply_drained(mkv_peer_t *peer, const mkv_msg_t *term)
{
    mkv_msg_t msg = {.type = MKV_MSG_DRAINED,
                     .id = term->id,
                     .epoch = term->epoch,
                     .to_nonce = term->from_nonce};

    msg.from_nonce = (term->to_nonce != 0) ? term->to_nonce : mkv_ctx_nonce(peer->ctx);
    if (mkv_notify_send(peer, &msg) != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "%s", mkv_last_error());
    }
}

/* What is not here and cannot be kept: tell the sender why */
static void mkv_reply_term(mkv_peer_t *peer, const mkv_msg_t *expose,
                           mkv_status_t status, const char *text)
{
    mkv_msg_t msg = {.type = MKV_MSG_TERM,
                     .id = expose->id,
                     .epoch = expose->epoch,
                     .from_nonce = mkv_ctx_nonce(peer->ctx),
                     .to_nonce = expose->from_nonce,
                     .code = status,
                     .is_drained = 1};

    mkv_text(msg.text, sizeof(msg.text), "%s", text);
    if (mkv_notify_send(peer, &msg) != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "%s", mkv_last_error());
    }
}

/* ---- Finishing ------------------------------------------------------------------- */

static uint32_t mkv_fin_count(const mkv_msg_t *fin, uint32_t component)
{
    uint32_t i;

    for (i = 0; i < fin->num_units; ++i) {
        if (fin->units[i].component == component) {
            return fin->units[i].num;
        }
    }
    return 0;
}

static void mkv_leg_fin_received(mkv_leg_t *leg, const mkv_msg_t *fin)
{
    mkv_xfer_t *xfer = leg->xfer;
    uint32_t i, count;

    leg->is_peer_drained = 1;
    mkv_xfer_dirty(xfer);
    if (mkv_xfer_is_terminal(xfer) || leg->is_finished) {
        return;
    }

    for (i = 0; (xfer->mode == MKV_WRITE) && (i < leg->num_units); ++i) {
        count = mkv_fin_count(fin, leg->units[i].component);
        if (count != leg->expect[i]) {
            mkv_xfer_fail(
                xfer, MKV_ERR_LENGTH,
                "peer %s, leg %u: component %u: %u units arrived, %u expected",
                leg->peer->name, leg->index, leg->units[i].component, count,
                leg->expect[i]);
            return;
        }
    }
    leg->is_finished = 1;
    leg->bytes = fin->bytes;
    xfer->bytes += fin->bytes;
}

static uint32_t mkv_leg_expected(const mkv_leg_t *leg, uint32_t component)
{
    uint32_t i;

    for (i = 0; i < leg->num_units; ++i) {
        if (leg->units[i].component == component) {
            return leg->expect[i];
        }
    }
    return 0;
}

mkv_status_t mkv_leg_check_seal(mkv_leg_t *leg, char *text, size_t size)
{
    uint64_t expected[MKV_MAX_COMPONENTS];
    const mkv_pair_t *pair;
    uint32_t i;

    /* WRITE: what the peer waits for; READ: any number, but for all layers the same */
    for (i = 0; i < leg->map->num_components; ++i) {
        expected[i] = (leg->xfer->mode == MKV_WRITE)
                          ? mkv_leg_expected(leg, leg->map->components[i].component)
                          : UINT64_MAX;
    }
    for (i = 0; i < leg->map->num_pairs; ++i) {
        pair = &leg->map->pairs[i];
        if (expected[pair->component] == UINT64_MAX) {
            expected[pair->component] = leg->posted[i];
        }
        if (leg->posted[i] != expected[pair->component]) {
            mkv_text(text, size,
                     "component %u layer %d part %u: %llu units posted, %llu expected",
                     leg->map->components[pair->component].component, pair->layer,
                     pair->part, (unsigned long long)leg->posted[i],
                     (unsigned long long)expected[pair->component]);
            return MKV_ERR_LENGTH;
        }
    }
    return MKV_OK;
}

static void mkv_leg_send_fin(mkv_leg_t *leg)
{
    mkv_msg_t msg = {.type = MKV_MSG_FIN, .bytes = leg->bytes};
    uint32_t i;

    for (i = 0; i < leg->map->num_pairs; ++i) {
        if (leg->map->pairs[i].component >= msg.num_units) {
            msg.num_units = leg->map->pairs[i].component + 1;
        }
        msg.units[leg->map->pairs[i].component].component =
            leg->map->components[leg->map->pairs[i].component].component;
        msg.units[leg->map->pairs[i].component].num = (uint32_t)leg->posted[i];
    }
    leg->is_finished = 1;
    mkv_leg_send_or_fail(leg, &msg);
}

/* ---- Ending by error ------------------------------------------------------------- */

int mkv_leg_is_drained(const mkv_leg_t *leg)
{
    return mkv_list_is_empty(&leg->posts) && mkv_list_is_empty(&leg->running) &&
           !leg->is_flushing && (!leg->needs_flush || leg->peer->is_ep_gone);
}

int mkv_leg_is_quiet(const mkv_leg_t *leg)
{
    if (leg->xfer->is_active) {
        return mkv_leg_is_drained(leg);
    }
    return !leg->is_exposed || leg->is_finished || leg->is_peer_drained ||
           mkv_peer_is_harmless(leg->peer);
}

void mkv_leg_terminate(mkv_leg_t *leg)
{
    mkv_xfer_t *xfer = leg->xfer;
    mkv_msg_t msg = {.type = MKV_MSG_TERM, .code = xfer->status};

    mkv_leg_cancel_posts(leg);
    if (leg->is_finished || leg->is_term_sent || mkv_peer_is_cut_off(leg->peer)) {
        return;
    }
    msg.is_drained = mkv_leg_is_drained(leg);
    mkv_text(msg.text, sizeof(msg.text), "%s", xfer->error);
    leg->is_term_sent = 1;
    leg->is_told_drained = msg.is_drained != 0;
    mkv_leg_send_or_fail(leg, &msg);
}

static void mkv_leg_step_terminal(mkv_leg_t *leg)
{
    mkv_msg_t msg = {.type = MKV_MSG_DRAINED};

    if (leg->needs_flush && !leg->is_flushing && !leg->is_finished &&
        mkv_list_is_empty(&leg->running) && !mkv_peer_is_cut_off(leg->peer)) {
        leg->is_flushing = 1; /* completed here is not arrived there */
        mkv_list_queue(&leg->peer->flush_waiting, &leg->flush);
    }
    if (leg->is_term_sent && !leg->is_told_drained && mkv_leg_is_drained(leg) &&
        !mkv_peer_is_cut_off(leg->peer)) {
        leg->is_told_drained = 1;
        mkv_leg_send_or_fail(leg, &msg);
    }
}

void mkv_leg_step(mkv_leg_t *leg)
{
    mkv_xfer_t *xfer = leg->xfer;

    if (mkv_xfer_is_terminal(xfer)) {
        mkv_leg_step_terminal(leg);
        return;
    }
    if (!xfer->is_active || !leg->is_sealed || leg->is_finished || leg->is_flushing ||
        !mkv_list_is_empty(&leg->posts) || !mkv_list_is_empty(&leg->running)) {
        return;
    }
    if (leg->needs_flush) {
        leg->is_flushing = 1;
        mkv_list_queue(&leg->peer->flush_waiting, &leg->flush);
        return;
    }
    mkv_leg_send_fin(leg);
}

/* ---- Receiving ------------------------------------------------------------------- */

static void mkv_leg_stale(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    MKV_COUNT(peer, msgs_stale, 1);
    mkv_log_debug(peer->ctx, "peer %s: stale %s of transfer %llu epoch %u", peer->name,
                  mkv_msg_string(msg->type), (unsigned long long)msg->id, msg->epoch);
}

static void mkv_receive_expose(mkv_peer_t *peer, mkv_leg_t *leg, const mkv_msg_t *msg,
                               const void *data, size_t length)
{
    mkv_status_t status;

    if (mkv_tombstone_has(peer->ctx, msg->from_nonce) ||
        ((leg != NULL) && (leg->remote_nonce == msg->from_nonce))) {
        mkv_leg_stale(peer, msg);
        return;
    }
    if ((leg != NULL) && leg->xfer->is_active && (leg->remote_nonce == 0) &&
        !mkv_xfer_is_terminal(leg->xfer)) {
        mkv_leg_exposed(leg, msg);
        return;
    }

    /* For a transfer that will be opened, or opened again, here */
    status = mkv_early_add(peer, msg, data, length);
    if (status != MKV_OK) {
        mkv_reply_term(peer, msg, status, "too many transfers wait to be opened");
    }
}

static int mkv_leg_is_addressed(const mkv_leg_t *leg, const mkv_msg_t *msg)
{
    if (leg == NULL) {
        return 0;
    }
    if (msg->to_nonce == leg->xfer->nonce) {
        return (leg->remote_nonce == 0) || (leg->remote_nonce == msg->from_nonce);
    }
    /* The sender had not heard of us yet */
    return (msg->to_nonce == 0) && (msg->type == MKV_MSG_TERM) &&
           ((leg->remote_nonce == 0) || (leg->remote_nonce == msg->from_nonce));
}

static void mkv_receive_term(mkv_peer_t *peer, mkv_leg_t *leg, const mkv_msg_t *msg,
                             const void *data, size_t length)
{
    int was_early = (leg == NULL) && (peer->num_early > 0);
    unsigned num_early = peer->num_early;

    if (leg == NULL) {
        mkv_early_cancel(peer, msg->from_nonce);
        was_early = was_early && (peer->num_early < num_early);
        if ((msg->to_nonce == 0) && !was_early &&
            !mkv_tombstone_has(peer->ctx, msg->from_nonce)) {
            (void)mkv_early_add(peer, msg, data, length); /* fails the open at once */
        }
        mkv_reply_drained(peer, msg);
        return;
    }

    leg->remote_nonce = msg->from_nonce;
    leg->is_peer_drained |= msg->is_drained != 0;
    leg->is_term_sent = 1; /* he knows; DRAINED is all he needs */
    mkv_xfer_dirty(leg->xfer);
    if (leg->is_finished) {
        mkv_reply_drained(peer, msg);
    } else if (!mkv_xfer_is_terminal(leg->xfer)) {
        mkv_xfer_fail(leg->xfer, (mkv_status_t)msg->code, "peer %s, leg %u: %s",
                      peer->name, leg->index, msg->text);
    }
}

void mkv_leg_receive(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                     size_t length)
{
    mkv_leg_t *leg = mkv_leg_find(peer, msg->id, msg->epoch);

    if (msg->type == MKV_MSG_EXPOSE) {
        mkv_receive_expose(peer, leg, msg, data, length);
        return;
    }

    leg = mkv_leg_is_addressed(leg, msg) ? leg : NULL;
    if (msg->type == MKV_MSG_TERM) {
        mkv_receive_term(peer, leg, msg, data, length);
        return;
    }
    if (msg->type == MKV_MSG_DRAINED) {
        mkv_early_cancel(peer, msg->from_nonce);
    }
    if (leg == NULL) {
        mkv_leg_stale(peer, msg);
        return;
    }

    switch (msg->type) {
    case MKV_MSG_BIND:
        if (!leg->xfer->is_active && leg->is_exposed) {
            leg->remote_nonce = msg->from_nonce;
            mkv_xfer_check_bound(leg->xfer);
        }
        break;
    case MKV_MSG_FIN:
        if (!leg->xfer->is_active && leg->is_exposed) {
            mkv_leg_fin_received(leg, msg);
        }
        break;
    default: /* DRAINED */
        leg->is_peer_drained = 1;
        mkv_xfer_dirty(leg->xfer);
        break;
    }
}

void mkv_leg_cleanup(mkv_leg_t *leg)
{
    mkv_post_t *post, *next;

    if (leg->peer == NULL) {
        return;
    }
    mkv_leg_cancel_posts(leg);
    mkv_list_for_each_safe(post, next, &leg->running, mkv_post_t, list)
    {
        mkv_list_del(&post->list); /* UCX may call back: rather a leak */
    }
    mkv_tombstone_add(leg->xfer->ctx, leg->remote_nonce);
    mkv_list_del(&leg->hash);
    mkv_list_del(&leg->list);
    mkv_list_del(&leg->flush);
    free(leg->posted);
    free(leg->units);
    free(leg->meta);
    --leg->map->num_uses;
    mkv_peer_put(leg->peer);
}
