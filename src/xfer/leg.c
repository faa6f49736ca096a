/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The protocol between the two sides of one leg.
 *
 *   passive                                  active
 *     <-----------------------------  OPEN, unless the blocks are here already
 *     EXPOSE(nonce p, blocks, meta)  ------->  event EXPOSED
 *     <-----------------------------  BIND(nonce a)
 *                                              puts or gets
 *                                              WRITE: flush
 *     <-----------------------------  FIN(counts)
 *     verify, DONE                             DONE
 *
 * READ, instead of gets, where the passive side can put lists:
 *
 *     <-----------------------------  PULL(runs of a plan, selection)
 *     puts, flush
 *     PULLED(bytes)  ----------------------->  the post is complete
 *
 * A WRITE to host memory that only its owner's GPU reaches is requested in the same
 * way: the passive side gets, without a flush.
 *
 * The active side's memory is quiet when the owner's puts or gets have ended, as the
 * passive side's of a WRITE is: by PULLED, by DRAINED, or by a connection that carries
 * nothing more.
 *
 *   either side, at any time:  TERM(code, text, drained) ... DRAINED
 *
 * OPEN finds two sides that are both active, and EXPOSE two that are both passive: the
 * side that opens last sends TERM to the other one, and gets its TERM.
 *
 * Nonces name the instances of a transfer, because ids are used again. A message for
 * another instance is dropped and counted. A side answers a TERM by DRAINED when
 * nothing of it is in flight any more; only then is the passive side's memory quiet. A
 * TERM for an unknown transfer is answered at once.
 */

#include "xfer/leg.h"

#include "message/message.h"
#include "message/peer_close.h"
#include "xfer/xfer_events.h"
#include "base/tombstone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mkv_list_t *mkv_leg_bucket(mkv_ctx_t *ctx, uint64_t id)
{
    id *= 0x9e3779b97f4a7c15ull;
    return &ctx->buckets[(id >> 40) % MKV_XFER_BUCKETS];
}

mkv_leg_t *mkv_leg_find(mkv_peer_t *peer, uint64_t id, uint32_t epoch)
{
    mkv_leg_t *leg;

    mkv_list_for_each(leg, mkv_leg_bucket(peer->ctx, id), hash)
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
    mkv_leg_state_t state = leg->state;
    mkv_status_t status = mkv_leg_state_take(&state, event);

    __atomic_store_n(&leg->state, state, __ATOMIC_RELEASE);
    if (status != MKV_OK) {
        mkv_log_error(leg->xfer->ctx, "transfer %llu, peer %s, leg %u: %s while %s: %s",
                      (unsigned long long)leg->xfer->id, leg->peer->name, leg->index,
                      mkv_leg_event_string(event), mkv_leg_state_string(state),
                      mkv_status_string(status));
    }
    if (event != MKV_LEG_FIN) { /* the transfer ends, and the next step acts on it */
        mkv_leg_note(leg);
    }
    return status;
}

mkv_status_t mkv_leg_error(const mkv_leg_t *leg)
{
    return mkv_error(&leg->xfer->ctx->log, leg->status, "leg %u has ended: %s",
                     leg->index, (leg->error != NULL) ? leg->error : "");
}

/* ---- Sending --------------------------------------------------------------------- */

static void mkv_leg_address(const mkv_leg_t *leg, mkv_msg_t *msg)
{
    msg->id = leg->xfer->id;
    msg->epoch = leg->xfer->epoch;
    msg->from_nonce = leg->xfer->nonce;
    msg->to_nonce = leg->remote_nonce;
}

mkv_status_t mkv_leg_send(mkv_leg_t *leg, mkv_msg_t *msg)
{
    mkv_leg_address(leg, msg);
    return mkv_message_send(leg->peer, msg);
}

mkv_status_t mkv_leg_prepare(mkv_leg_t *leg, mkv_msg_t *msg, mkv_list_t *packets)
{
    mkv_packet_t *packet;
    mkv_status_t status;

    mkv_leg_address(leg, msg);
    packet = mkv_message_prepare(leg->peer, msg, &status);
    if (packet != NULL) {
        mkv_list_add_tail(packets, &packet->list);
    }
    return status;
}

void mkv_leg_send_or_fail(mkv_leg_t *leg, mkv_msg_t *msg)
{
    mkv_status_t status = mkv_leg_send(leg, msg);

    if ((status != MKV_OK) && (leg->peer->state == MKV_CONN_READY)) {
        mkv_peer_fail(leg->peer, status, "%s", mkv_last_error());
    }
}

/* ---- Finishing ------------------------------------------------------------------- */

/* READ: the reader may announce that it reads fewer than the exposed blocks */
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

/* Peer's blocks that were posted to, even in part */
static uint64_t mkv_leg_posted_blocks(const mkv_leg_t *leg, uint32_t pair)
{
    uint32_t parts = mkv_map_parts(leg->map, leg->map->pairs[pair].component, true);

    return (leg->posted[pair] + parts - 1) / parts;
}

/* Whether these are the exposed blocks; called when all of them are expected */
static bool mkv_leg_is_sum_right(const mkv_leg_t *leg, uint32_t pair,
                                 uint32_t component, uint64_t expected)
{
    uint32_t parts = mkv_map_parts(leg->map, leg->map->pairs[pair].component, true), i;

    if (leg->posted[pair] != expected * parts) {
        return true; /* the last block is posted in part */
    }

    for (i = 0; i < leg->num_units; ++i) {
        if ((leg->units[i].component == component) &&
            (leg->units[i].num_remote == expected)) {
            return leg->posted_sums[pair] == leg->sums[i];
        }
    }
    return true;
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
        if (leg->posted_bytes & (1ull << pair->component)) {
            continue; /* not counted in units */
        }
        component = leg->map->components[pair->component].component;
        if (mkv_leg_posted_blocks(leg, i) != expected[pair->component]) {
            mkv_text(text, size,
                     "component %u layer %d part %u: %llu units posted, %llu expected",
                     component, pair->layer, pair->part,
                     (unsigned long long)mkv_leg_posted_blocks(leg, i),
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

/* Units that FIN reports for a pair */
static uint32_t mkv_leg_fin_units(const mkv_leg_t *leg, uint32_t index)
{
    uint32_t component = leg->map->pairs[index].component;

    return (leg->posted_bytes & (1ull << component))
               ? mkv_leg_expected(leg, leg->map->components[component].component)
               : (uint32_t)mkv_leg_posted_blocks(leg, index);
}

/* Sum that FIN reports, where whole blocks were posted. If a pair differs from the
 * exposed units, its sum is reported, so that a single wrong layer shows. */
static void mkv_leg_add_fin_sum(const mkv_leg_t *leg, uint32_t index, bool is_first,
                                mkv_wire_units_t *units)
{
    uint32_t component = leg->map->pairs[index].component;
    uint32_t parts = mkv_map_parts(leg->map, component, true);

    units->has_sum = (is_first || units->has_sum) &&
                     !(leg->posted_bytes & (1ull << component)) &&
                     (leg->posted[index] % parts == 0);
    if (is_first || !mkv_leg_is_sum_right(leg, index, units->component, units->num)) {
        units->sum = leg->posted_sums[index];
    }
}

static void mkv_leg_make_fin(const mkv_leg_t *leg, uint64_t bytes, mkv_msg_t *msg)
{
    uint64_t seen = 0;
    uint32_t component, i;

    mkv_msg_clear(msg);
    msg->type = MKV_MSG_FIN;
    msg->bytes = bytes;
    msg->data = leg->done_data;
    msg->length = leg->done_length;
    for (i = 0; i < leg->map->num_pairs; ++i) {
        component = leg->map->pairs[i].component;
        while (component >= msg->num_units) {
            memset(&msg->units[msg->num_units++], 0, sizeof(msg->units[0]));
        }
        msg->units[component].component = leg->map->components[component].component;
        msg->units[component].num = mkv_leg_fin_units(leg, i);
        mkv_leg_add_fin_sum(leg, i, !(seen & (1ull << component)),
                            &msg->units[component]);
        seen |= 1ull << component;
    }
}

/* Build FIN while the blocks move, to keep its cost out of the latency. On failure
 * it is built again when they have moved. */
static void mkv_leg_prepare_fin(mkv_leg_t *leg)
{
    mkv_status_t status;
    mkv_msg_t msg;

    leg->fin_bytes = leg->bytes + leg->xfer->ctx->leg_listener->moving(leg);
    mkv_leg_make_fin(leg, leg->fin_bytes, &msg);
    mkv_leg_address(leg, &msg);
    leg->fin = mkv_message_prepare(leg->peer, &msg, &status);
}

static void __attribute__((noinline)) mkv_leg_send_new_fin(mkv_leg_t *leg)
{
    mkv_msg_t msg;

    mkv_leg_make_fin(leg, leg->bytes, &msg);
    mkv_leg_send_or_fail(leg, &msg);
}

static void mkv_leg_send_fin(mkv_leg_t *leg)
{
    mkv_packet_t *fin = leg->fin;

    if (mkv_leg_take(leg, MKV_LEG_FIN) != MKV_OK) {
        return;
    }
    mkv_leg_end(leg, MKV_OK, NULL);
    if ((fin != NULL) && (leg->fin_bytes == leg->bytes) &&
        !mkv_conn_is_cut_off(leg->peer->state)) {
        leg->fin = NULL;
        mkv_message_send_prepared(fin);
    } else {
        mkv_leg_send_new_fin(leg);
    }
}

/* ---- Ending by error ------------------------------------------------------------- */

static bool mkv_leg_is_drained(const mkv_leg_t *leg)
{
    return mkv_list_is_empty(&leg->posts) && mkv_list_is_empty(&leg->running) &&
           (leg->num_scatters == 0) &&
           ((leg->puts == MKV_PUTS_ARRIVED) ||
            ((leg->puts == MKV_PUTS_GIVEN) && (leg->peer->state == MKV_CONN_GONE)));
}

bool mkv_leg_is_pulling(const mkv_leg_t *leg)
{
    return !mkv_list_is_empty(&leg->pulled) || !mkv_list_is_empty(&leg->pushed) ||
           !mkv_list_is_empty(&leg->flushed) ||
           (!leg->xfer->is_active &&
            (!mkv_list_is_empty(&leg->posts) || !mkv_list_is_empty(&leg->running)));
}

/* Whether the peer's message or another proof shows that it does not touch our memory
 * any more */
static bool mkv_leg_is_peer_done(const mkv_leg_t *leg)
{
    return leg->is_peer_drained || mkv_peer_is_harmless(leg->peer);
}

bool mkv_leg_is_quiet(const mkv_leg_t *leg)
{
    if (!mkv_leg_is_drained(leg)) {
        return false;
    }
    if (leg->xfer->is_active) {
        return mkv_list_is_empty(&leg->pulled) || mkv_leg_is_peer_done(leg);
    }
    return (leg->units == NULL) || (leg->state == MKV_LEG_FINISHED) ||
           mkv_leg_is_peer_done(leg);
}

void mkv_leg_check_late_drain(mkv_leg_t *leg)
{
    if (!mkv_leg_is_quiet(leg)) {
        mkv_peer_check_late_drain(leg->peer, !mkv_leg_is_drained(leg), &leg->seen,
                                  "transfer", leg->xfer->id);
    }
}

static const char *mkv_leg_waiting(const mkv_leg_t *leg, bool is_quiet)
{
    if (mkv_leg_is_over(leg)) {
        return is_quiet ? NULL
                        : ((leg->xfer->is_active && mkv_list_is_empty(&leg->pulled))
                               ? "calls in flight"
                               : "the peer's word that it is drained");
    }
    if (leg->state == MKV_LEG_FINISHED) {
        return NULL;
    }
    if (leg->remote_nonce == 0) {
        return leg->xfer->is_active
                   ? "its block list"
                   : ((leg->state == MKV_LEG_EXPOSED) ? "the other side to open"
                                                      : "the expose call");
    }
    if (!leg->xfer->is_active) {
        return (leg->xfer->mode == MKV_WRITE) ? "DONE" : "the release";
    }
    if (!mkv_list_is_empty(&leg->posts)) {
        if (leg->xfer->ctx->leg_listener->has_gate(leg)) {
            return "a gate";
        }
        return "credits";
    }
    if (!mkv_list_is_empty(&leg->running)) {
        return "calls in flight";
    }
    if (!mkv_list_is_empty(&leg->pulled)) {
        return (leg->xfer->mode == MKV_READ) ? "the owner's puts" : "the owner's gets";
    }
    return (leg->puts == MKV_PUTS_FLUSHING)
               ? "the flush"
               : ((leg->state == MKV_LEG_SEALED) ? "progress" : "the seal");
}

void mkv_leg_note(mkv_leg_t *leg)
{
    bool is_quiet = (leg->status != MKV_INPROGRESS) && mkv_leg_is_quiet(leg);

    __atomic_store_n(&leg->waits, mkv_leg_waiting(leg, is_quiet), __ATOMIC_RELAXED);
    __atomic_store_n(&leg->is_quiet, is_quiet, __ATOMIC_RELEASE);
}

static const char *mkv_skip_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) ? text : text + strlen(prefix);
}

/* Reason without the names of this side's transfer and leg: the receiver adds its own.
 */
static const char *mkv_leg_reason(const mkv_leg_t *leg, const char *text)
{
    char prefix[MKV_NAME_SIZE + 32];

    snprintf(prefix, sizeof(prefix),
             "transfer %llu: ", (unsigned long long)leg->xfer->id);
    text = mkv_skip_prefix(text, prefix);
    snprintf(prefix, sizeof(prefix), "peer %s, leg %u: ", leg->peer->name, leg->index);
    return mkv_skip_prefix(text, prefix);
}

void mkv_leg_terminate(mkv_leg_t *leg, mkv_status_t status, const char *text)
{
    mkv_msg_t msg = {.type = MKV_MSG_TERM, .code = status};

    leg->xfer->ctx->leg_listener->ended(leg);
    if (leg->state >= MKV_LEG_FINISHED) {
        return;
    }
    if (mkv_conn_is_cut_off(leg->peer->state)) {
        (void)mkv_leg_take(leg, MKV_LEG_CUT);
        return;
    }
    msg.is_drained = mkv_leg_is_drained(leg);
    msg.is_answer = leg->is_answer;
    mkv_text(msg.text, sizeof(msg.text), "%s", mkv_leg_reason(leg, text));
    (void)mkv_leg_take(leg, MKV_LEG_FAIL);
    if (msg.is_drained) {
        (void)mkv_leg_take(leg, MKV_LEG_DRAIN);
    }
    mkv_leg_send_or_fail(leg, &msg);
}

/* A local completion does not prove arrival. A flush in flight does not cover later
 * puts; its end starts another flush. */
static void mkv_leg_want_flush(mkv_leg_t *leg)
{
    if (mkv_list_is_empty(&leg->flush)) {
        leg->puts = MKV_PUTS_FLUSHING;
        mkv_list_add_tail(&leg->peer->flush_waiting, &leg->flush);
    }
}

static void mkv_leg_step_terminal(mkv_leg_t *leg)
{
    mkv_msg_t msg = {.type = MKV_MSG_DRAINED};

    if (mkv_leg_is_peer_done(leg)) {
        leg->xfer->ctx->leg_listener->settled(leg);
    }
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

/* All calls are posted. Starting the flush before they complete hides its latency. */
static bool mkv_leg_has_put_all(const mkv_leg_t *leg)
{
    return (leg->puts == MKV_PUTS_GIVEN) && (leg->state == MKV_LEG_SEALED) &&
           mkv_list_is_empty(&leg->posts);
}

/* All calls are posted, so the final counts are known; some calls are in flight */
static bool mkv_leg_can_prepare_fin(const mkv_leg_t *leg)
{
    return (leg->fin == NULL) && (leg->fin_bytes == 0) && /* nor tried */
           (leg->state == MKV_LEG_SEALED) && (leg->xfer->mode == MKV_WRITE) &&
           mkv_list_is_empty(&leg->posts) && !mkv_list_is_empty(&leg->running);
}

void mkv_leg_step(mkv_leg_t *leg)
{
    if (mkv_leg_is_over(leg)) {
        mkv_leg_step_terminal(leg);
        return;
    }
    if (mkv_leg_can_prepare_fin(leg)) {
        mkv_leg_prepare_fin(leg);
    }
    if (!mkv_list_is_empty(&leg->pushed) || mkv_leg_has_put_all(leg)) {
        mkv_leg_want_flush(leg);
    }
    if ((leg->state == MKV_LEG_SEALED) && (leg->puts == MKV_PUTS_ARRIVED) &&
        mkv_list_is_empty(&leg->posts) && mkv_list_is_empty(&leg->running) &&
        !mkv_leg_is_pulling(leg) && !mkv_conn_is_cut_off(leg->peer->state)) {
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
    leg->xfer->ctx->leg_listener->freed(leg);
    while (!mkv_list_is_empty(&leg->running)) {
        mkv_list_del(leg->running.next); /* leak the leg, as UCX may call back */
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
    free(leg->done_data);
    if (leg->fin != NULL) {
        mkv_packet_free(leg->fin);
    }
    free(leg->error);
    --leg->map->num_uses;
}
