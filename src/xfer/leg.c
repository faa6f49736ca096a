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

#include "xfer/leg.h"

#include "peer/message.h"
#include "peer/peer_close.h"
#include "xfer/tombstone.h"

#include <stdlib.h>

mkv_list_t *mkv_leg_bucket(mkv_ctx_t *ctx, uint64_t id)
{
    id *= 0x9e3779b97f4a7c15ull;
    return &ctx->buckets[(id >> 40) % MKV_XFER_BUCKETS];
}

mkv_leg_t *mkv_leg_find(mkv_peer_t *peer, uint64_t id, uint32_t epoch)
{
    mkv_leg_t *leg;

    mkv_list_for_each(leg, mkv_leg_bucket(peer->ctx, id), mkv_leg_t, hash)
    {
        if ((leg->peer == peer) && (leg->xfer->id == id) &&
            (leg->xfer->epoch == epoch)) {
            return leg;
        }
    }
    return NULL;
}

mkv_status_t mkv_leg_take(mkv_leg_t *leg, mkv_leg_event_t event)
{
    mkv_leg_state_t before = leg->state;
    mkv_status_t status = mkv_leg_state_take(&leg->state, event);

    if (status != MKV_OK) {
        mkv_log_error(leg->xfer->ctx, "transfer %llu, peer %s, leg %u: %s while %s: %s",
                      (unsigned long long)leg->xfer->id, leg->peer->name, leg->index,
                      mkv_leg_event_string(event), mkv_leg_state_string(before),
                      mkv_status_string(status));
    }
    return status;
}

/* ---- Sending --------------------------------------------------------------------- */

mkv_status_t mkv_leg_send(mkv_leg_t *leg, mkv_msg_t *msg)
{
    msg->id = leg->xfer->id;
    msg->epoch = leg->xfer->epoch;
    msg->from_nonce = leg->xfer->nonce;
    msg->to_nonce = leg->remote_nonce;
    return mkv_message_send(leg->peer, msg);
}

void mkv_leg_send_or_fail(mkv_leg_t *leg, mkv_msg_t *msg)
{
    mkv_status_t status = mkv_leg_send(leg, msg);

    if ((status != MKV_OK) && (leg->peer->state == MKV_CONN_READY)) {
        mkv_peer_fail(leg->peer, status, "%s", mkv_last_error());
    }
}

/* ---- Finishing ------------------------------------------------------------------- */

/* READ: the reader may say that it takes less than what is exposed */
static uint32_t mkv_leg_expected(const mkv_leg_t *leg, uint32_t component)
{
    const mkv_xfer_t *xfer = leg->xfer;
    uint32_t i;

    for (i = 0; i < xfer->num_expect; ++i) {
        if (xfer->expect[i].component == component) {
            return xfer->expect[i].num_units;
        }
    }
    for (i = 0; i < leg->num_units; ++i) {
        if (leg->units[i].component == component) {
            return leg->expect[i];
        }
    }
    return 0;
}

/* Whether these are the blocks that were exposed; where all of them are expected */
static int mkv_leg_is_sum_right(const mkv_leg_t *leg, uint32_t pair, uint32_t component,
                                uint64_t expected)
{
    uint32_t i;

    for (i = 0; i < leg->num_units; ++i) {
        if ((leg->units[i].component == component) &&
            (leg->units[i].num_remote == expected)) {
            return leg->posted_sums[pair] == leg->sums[i];
        }
    }
    return 1;
}

mkv_status_t mkv_leg_check_seal(mkv_leg_t *leg, char *text, size_t size)
{
    uint64_t expected[MKV_MAX_COMPONENTS];
    const mkv_pair_t *pair;
    uint32_t component, i;

    for (i = 0; i < leg->map->num_components; ++i) {
        expected[i] = mkv_leg_expected(leg, leg->map->components[i].component);
    }
    for (i = 0; i < leg->map->num_pairs; ++i) {
        pair = &leg->map->pairs[i];
        component = leg->map->components[pair->component].component;
        if (leg->posted[i] != expected[pair->component]) {
            mkv_text(text, size,
                     "component %u layer %d part %u: %llu units posted, %llu expected",
                     component, pair->layer, pair->part,
                     (unsigned long long)leg->posted[i],
                     (unsigned long long)expected[pair->component]);
            return MKV_ERR_LENGTH;
        }
        if (!leg->is_unchecked &&
            !mkv_leg_is_sum_right(leg, i, component, expected[pair->component])) {
            mkv_text(text, size,
                     "component %u layer %d part %u: a unit was posted twice, and "
                     "another one not at all",
                     component, pair->layer, pair->part);
            return MKV_ERR_DUPLICATE;
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
    if (mkv_leg_take(leg, MKV_LEG_FIN) == MKV_OK) {
        mkv_leg_send_or_fail(leg, &msg);
    }
}

/* ---- Ending by error ------------------------------------------------------------- */

static int mkv_leg_is_drained(const mkv_leg_t *leg)
{
    return mkv_list_is_empty(&leg->posts) && mkv_list_is_empty(&leg->running) &&
           ((leg->puts == MKV_PUTS_ARRIVED) ||
            ((leg->puts == MKV_PUTS_GIVEN) && (leg->peer->state == MKV_CONN_GONE)));
}

int mkv_leg_is_quiet(const mkv_leg_t *leg)
{
    if (leg->xfer->is_active) {
        return mkv_leg_is_drained(leg);
    }
    return (leg->units == NULL) || (leg->state == MKV_LEG_FINISHED) ||
           leg->is_peer_drained || mkv_peer_is_harmless(leg->peer);
}

void mkv_leg_terminate(mkv_leg_t *leg)
{
    mkv_xfer_t *xfer = leg->xfer;
    mkv_msg_t msg = {.type = MKV_MSG_TERM, .code = xfer->status};

    xfer->ctx->leg_listener->ended(leg);
    if (leg->state >= MKV_LEG_FINISHED) {
        return;
    }
    if (mkv_conn_is_cut_off(leg->peer->state)) {
        (void)mkv_leg_take(leg, MKV_LEG_CUT);
        return;
    }
    msg.is_drained = mkv_leg_is_drained(leg);
    msg.is_answer = leg->is_answer;
    mkv_text(msg.text, sizeof(msg.text), "%s", xfer->error);
    (void)mkv_leg_take(leg, MKV_LEG_TELL);
    if (msg.is_drained) {
        (void)mkv_leg_take(leg, MKV_LEG_DRAIN);
    }
    mkv_leg_send_or_fail(leg, &msg);
}

/* Completed here is not arrived there */
static void mkv_leg_want_flush(mkv_leg_t *leg)
{
    leg->puts = MKV_PUTS_FLUSHING;
    mkv_list_queue(&leg->peer->flush_waiting, &leg->flush);
}

static void mkv_leg_step_terminal(mkv_leg_t *leg)
{
    mkv_msg_t msg = {.type = MKV_MSG_DRAINED};

    if (mkv_conn_is_cut_off(leg->peer->state)) {
        return;
    }
    if ((leg->puts == MKV_PUTS_GIVEN) && mkv_list_is_empty(&leg->running)) {
        mkv_leg_want_flush(leg);
    }
    if ((leg->state == MKV_LEG_TERM) && mkv_leg_is_drained(leg) &&
        (mkv_leg_take(leg, MKV_LEG_DRAIN) == MKV_OK)) {
        mkv_leg_send_or_fail(leg, &msg);
    }
}

void mkv_leg_step(mkv_leg_t *leg)
{
    if (mkv_xfer_is_terminal(leg->xfer)) {
        mkv_leg_step_terminal(leg);
        return;
    }
    if ((leg->state != MKV_LEG_SEALED) || (leg->puts == MKV_PUTS_FLUSHING) ||
        !mkv_list_is_empty(&leg->posts) || !mkv_list_is_empty(&leg->running)) {
        return;
    }
    if (leg->puts == MKV_PUTS_GIVEN) {
        mkv_leg_want_flush(leg);
    } else if (!mkv_conn_is_cut_off(leg->peer->state)) {
        mkv_leg_send_fin(leg);
    }
}

void mkv_leg_cleanup(mkv_leg_t *leg)
{
    uint32_t i;

    if (leg->peer == NULL) {
        return;
    }
    leg->xfer->ctx->leg_listener->ended(leg);
    while (!mkv_list_is_empty(&leg->running)) {
        mkv_list_del(leg->running.next); /* UCX may call back: rather a leak */
    }
    mkv_tombstone_add(leg->xfer->ctx, leg->remote_nonce);
    mkv_list_del(&leg->hash);
    mkv_list_del(&leg->list);
    mkv_list_del(&leg->flush);
    for (i = 0; (leg->sets != NULL) && (i < leg->num_units); ++i) {
        mkv_unit_set_cleanup(&leg->sets[i]);
    }
    free(leg->sets);
    free(leg->posted);
    free(leg->units);
    free(leg->meta);
    --leg->map->num_uses;
}
