/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages about a transfer that is not open here yet: each is kept for that transfer
 * alone, within bounds, and is dropped in time. */

#include "src/message/early.h"
#include "src/peer/packet.h"

#include "test/support/mkv_pair.h"

#include <string.h>

static mkv_xfer_t *open_epoch(pair_side_t *side, mkv_mode_t mode, mkv_role_t role,
                              uint64_t id, uint32_t epoch)
{
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = id,
                                .epoch = epoch,
                                .mode = mode,
                                .role = role,
                                .legs = &side->maps[(side == A) ? 1 : 0],
                                .num_legs = 1};
    mkv_xfer_t *xfer;

    OK(mkv_xfer_open(side->ctx, &params, &xfer));
    return xfer;
}

static void give_up(mkv_xfer_t *xfer)
{
    OK(mkv_xfer_abort(xfer, MKV_ERR_ABORTED, NULL));
    pair_run();
    OK(mkv_xfer_close(xfer));
}

/* Each message has a short block list and long caller data */
/* SM-07 */
START_TEST(lists_that_wait_are_bounded_in_bytes)
{
    static const uint8_t meta[30000];
    const uint32_t block = 0;
    const mkv_units_t units = {.num_local = 1, .local = &block};
    mkv_xfer_t *passive[3];
    unsigned i;

    pair_set("MAX_QUEUED", "64k");
    pair_set("OVERLAP", "allow");
    pair_setup();
    for (i = 0; i < 3; ++i) {
        passive[i] = pair_xfer(B, 0, 1 + i, MKV_WRITE, MKV_DST);
        OK(mkv_xfer_expose(passive[i], 0, &units, 1, meta, sizeof(meta)));
        pair_run();
    }
    ck_assert_int_eq(pair_query(passive[1]).status, MKV_INPROGRESS);
    ck_assert_int_eq(pair_query(passive[2]).status, MKV_ERR_BUSY);
    ck_assert_uint_eq(A->peers[1]->num_early, 2);
    give_up(passive[0]);
    give_up(passive[1]);
    OK(mkv_xfer_close(passive[2]));
    ck_assert_uint_eq(A->peers[1]->early_bytes, 0);
    pair_teardown();
}
END_TEST

/* Loop index: the other one is of another id, or of another epoch */
START_TEST(a_list_is_of_its_id_and_epoch)
{
    mkv_xfer_t *wanted, *other, *active;

    pair_setup();
    wanted = open_epoch(B, MKV_WRITE, MKV_DST, 1, 0);
    pair_expose(wanted, 0, 4);
    other = open_epoch(B, MKV_WRITE, MKV_DST, 1 + (_i == 0), (_i != 0));
    pair_expose(other, 8, 2);
    pair_run();
    ck_assert_uint_eq(A->peers[1]->num_early, 2);
    active = open_epoch(A, MKV_WRITE, MKV_SRC, 1, 0);
    ck_assert_uint_eq(A->peers[1]->num_early, 1);
    pair_run();
    ck_assert_int_eq(wanted->legs[0].state, MKV_LEG_BOUND);
    ck_assert_int_eq(other->legs[0].state, MKV_LEG_EXPOSED);
    give_up(other);
    ck_assert_int_eq(pair_query(active).status, MKV_INPROGRESS);
    give_up(active);
    OK(mkv_xfer_close(wanted));
    pair_teardown();
}
END_TEST

/* As above */
START_TEST(an_abort_is_of_its_id_and_epoch)
{
    mkv_xfer_t *active;

    pair_setup();
    give_up(open_epoch(B, MKV_WRITE, MKV_DST, 1 + (_i == 0), (_i != 0)));
    ck_assert_uint_eq(A->peers[1]->num_early_aborts, 1);
    active = open_epoch(A, MKV_WRITE, MKV_SRC, 1, 0);
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_INPROGRESS);
    ck_assert_uint_eq(A->peers[1]->num_early_aborts, 1);
    give_up(active);
    pair_teardown();
}
END_TEST

/* Two transfers send requests, and one of them is refused, with a status that came from
 * a later version. Loop index as above */
START_TEST(what_is_refused_is_of_its_id_and_epoch)
{
    const mkv_status_t code = (mkv_status_t)(MKV_ERR_LAST - 5);
    mkv_xfer_t *first, *second;

    pair_setup();
    first = open_epoch(A, MKV_READ, MKV_DST, 1, 0);
    second = open_epoch(A, MKV_READ, MKV_DST, 1 + (_i == 0), (_i != 0));
    OK(mkv_xfer_request(first, 0, NULL, 0));
    OK(mkv_xfer_request(second, 0, NULL, 0));
    pair_run();
    ck_assert_uint_eq(pair_last(B, MKV_EV_INCOMING, NULL)->id, second->id);
    ck_assert_uint_eq(pair_last(B, MKV_EV_INCOMING, NULL)->epoch, second->epoch);
    IS(mkv_xfer_refuse(B->peers[0], second->id, second->epoch, MKV_OK, NULL),
       MKV_ERR_INVALID);
    OK(mkv_xfer_refuse(B->peers[0], second->id, second->epoch, code, NULL));
    pair_run();
    ck_assert_int_eq(pair_query(first).status, MKV_INPROGRESS);
    ck_assert_int_eq(pair_query(second).status, code);
    OK(mkv_xfer_close(second));
    give_up(first);
    pair_teardown();
}
END_TEST

/* Twice the time in which it had to be opened */
/* SM-07 */
START_TEST(unopened_messages_are_dropped)
{
    mkv_xfer_t *passive;
    uint64_t dropped;

    pair_set("BIND_TIMEOUT", "1s");
    pair_setup();
    give_up(open_epoch(B, MKV_WRITE, MKV_DST, 1, 0));
    passive = open_epoch(B, MKV_WRITE, MKV_DST, 2, 0);
    pair_expose(passive, 0, 4);
    pair_run();
    dropped = pair_stats(A).msgs_dropped;
    B->is_stopped = 1; /* B's own deadline would expire first */
    pair_now += 1900 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_uint_eq(A->peers[1]->num_early, 1);
    ck_assert_uint_eq(A->peers[1]->num_early_aborts, 1);
    pair_now += 200 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_uint_eq(A->peers[1]->num_early, 0);
    ck_assert_uint_eq(A->peers[1]->num_early_aborts, 0);
    ck_assert_uint_eq(pair_stats(A).msgs_dropped, dropped + 1);
    B->is_stopped = 0;
    pair_run();
    OK(mkv_xfer_close(passive));
    pair_teardown();
}
END_TEST

/* The sender's own deadline is later */
START_TEST(a_list_that_is_dropped_fails_its_transfer)
{
    mkv_xfer_t *early;

    pair_set("BIND_TIMEOUT", "1s");
    pair_setup();
    early = open_epoch(B, MKV_WRITE, MKV_DST, 1, 0);
    OK(mkv_xfer_extend(early, 100000));
    pair_expose(early, 0, 4);
    pair_run();
    pair_now += 1900 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_int_eq(pair_query(early).status, MKV_INPROGRESS);
    pair_now += 200 * MKV_NSEC_PER_MSEC;
    pair_run();
    pair_run(); /* UCX sends it in the next round */
    ck_assert_int_eq(pair_query(early).status, MKV_ERR_BIND_TIMEOUT);
    ck_assert_ptr_nonnull(
        strstr(pair_query(early).error, "A did not open it in 2000 ms"));
    ck_assert(pair_query(early).is_quiet);
    OK(mkv_xfer_close(early));
    pair_teardown();
}
END_TEST

/* Its event was raised, so nothing is lost with the message */
START_TEST(a_request_may_be_followed_after_its_message_is_dropped)
{
    mkv_xfer_t *reader, *source;

    pair_set("BIND_TIMEOUT", "1s");
    pair_setup();
    reader = open_epoch(B, MKV_READ, MKV_DST, 1, 0);
    OK(mkv_xfer_extend(reader, 100000));
    OK(mkv_xfer_request(reader, 0, NULL, 0));
    pair_run();
    pair_now += 2100 * MKV_NSEC_PER_MSEC;
    pair_run();
    pair_run(); /* UCX sends in the next round */
    ck_assert_uint_eq(A->peers[1]->num_early, 0);
    source = open_epoch(A, MKV_READ, MKV_SRC, 1, 0);
    pair_expose(source, 0, 4);
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_EXPOSED, reader), 1);
    OK(mkv_xfer_abort(reader, MKV_ERR_ABORTED, NULL));
    pair_run();
    OK(mkv_xfer_close(reader));
    OK(mkv_xfer_close(source));
    pair_teardown();
}
END_TEST

/* A peer may add bytes to an abort, as those of a later version would */
START_TEST(early_aborts_are_bounded_by_their_bytes)
{
    static uint8_t data[1u << 18];
    mkv_msg_t msg = {.type = MKV_MSG_TERM};
    mkv_peer_t *peer;
    uint64_t dropped;

    pair_set("MAX_MESSAGE", "256k");
    pair_set("MAX_QUEUED", "1m");
    pair_setup();
    peer = A->peers[1];
    dropped = pair_stats(A).msgs_dropped;
    for (msg.id = 1; msg.id <= 6; ++msg.id) {
        mkv_early_add_abort(peer, &msg, data, sizeof(data));
    }
    ck_assert_uint_eq(peer->num_early_aborts, 4);
    ck_assert_uint_eq(pair_stats(A).msgs_dropped, dropped + 2);
    mkv_early_cleanup(peer);
    pair_teardown();
}
END_TEST

/* The block list and the writer's abort, sent without knowledge of it, cross on the
 * way: the writer's answer makes the reader's blocks quiet. Loop index: the writer's
 * transfer is still there, or was closed */
START_TEST(an_early_abort_is_answered_as_drained)
{
    mkv_xfer_t *active, *passive;

    pair_setup();
    active = open_epoch(A, MKV_WRITE, MKV_SRC, 1, 0);
    passive = open_epoch(B, MKV_WRITE, MKV_DST, 1, 0);
    pair_run();
    fake_ucp_hold_peer(fake_ucp_worker(1));
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_expose(passive, 0, 4);
    pair_run();
    if (_i) {
        OK(mkv_xfer_close(active));
    }
    ck_assert_int_eq(pair_query(passive).status, MKV_INPROGRESS);
    fake_ucp_hold_peer(NULL);
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_ABORTED);
    ck_assert(pair_query(passive).is_quiet);
    ck_assert_uint_eq(A->peers[1]->num_early, 0); /* no later transfer finds the list */
    OK(mkv_xfer_close(passive));
    if (!_i) {
        OK(mkv_xfer_close(active));
    }
    pair_teardown();
}
END_TEST

/* A transfer sends requests again and again. Only the last request is kept, refused
 * ones are not, and each one is an event. Loop index: 0 the application does not poll;
 * 1 it polls (control) */
START_TEST(unpolled_requests_are_bounded)
{
    static const uint8_t bytes[10000];
    mkv_xfer_t *active;
    int i, k;

    pair_set("MAX_QUEUED", "64k");
    pair_setup();
    active = open_epoch(A, MKV_READ, MKV_DST, 1, 0);
    for (i = 0; i < 8; ++i) {
        ck_assert_int_eq(pair_query(active).status, MKV_INPROGRESS);
        OK(mkv_xfer_request(active, 0, bytes, sizeof(bytes)));
        fake_ucp_hold_peer(fake_ucp_worker(0)); /* delay the refusal */
        for (k = 0; k < 8; ++k) {
            (void)mkv_progress(A->ctx);
            (void)mkv_progress(B->ctx);
        }
        ck_assert_uint_eq(B->peers[0]->num_early, _i || (i < 6));
        fake_ucp_hold_peer(NULL);
        if (_i || (i == 6)) {
            pair_run();
        }
        if (!_i && (i == 6)) {
            break;
        }
    }
    ck_assert_int_eq(pair_query(active).status, _i ? MKV_INPROGRESS : MKV_ERR_BUSY);
    if (_i) {
        OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
        pair_run();
    }
    OK(mkv_xfer_close(active));
    pair_teardown();
}
END_TEST

static uint64_t deadline_of(const mkv_list_t *packets)
{
    ck_assert(!mkv_list_is_empty(packets));
    return mkv_list_head(packets, mkv_packet_t, list)->deadline;
}

/* Nothing else is due, so the deadline itself must wake the sleeping thread. Each
 * deadline is checked twice: when it is set, and when it is found to be in the future.
 */
START_TEST(a_sleep_ends_when_a_time_is_over)
{
    const mkv_peer_t *peer;
    mkv_xfer_t *passive;
    unsigned i;

    pair_set("PEER_CHECK", "0");
    pair_setup();
    pair_run();
    peer = A->peers[1];
    passive = open_epoch(B, MKV_WRITE, MKV_DST, 1, 0);
    ck_assert_uint_eq(B->ctx->next_deadline, passive->deadline);
    pair_expose(passive, 0, 4);
    for (i = 0; i < 2; ++i) {
        pair_run();
        ck_assert_uint_eq(A->ctx->next_deadline, deadline_of(&peer->early));
        ck_assert_uint_eq(B->ctx->next_deadline, passive->deadline);
        mkv_ctx_deadline(A->ctx, 0);
        mkv_ctx_deadline(B->ctx, 0);
    }
    pair_run();
    OK(mkv_xfer_extend(passive, 10));
    ck_assert_uint_eq(B->ctx->next_deadline, passive->deadline);
    give_up(passive);
    mkv_ctx_deadline(A->ctx, 0);
    pair_run();
    ck_assert_uint_eq(A->ctx->next_deadline, deadline_of(&peer->early_aborts));
    pair_teardown();
}
END_TEST

/* No work is due but the end of a connection whose calls do not complete */
START_TEST(a_sleep_ends_when_calls_have_had_their_time)
{
    mkv_peer_t *peer;

    pair_set("PEER_CHECK", "0");
    pair_setup();
    pair_run();
    peer = A->peers[1];
    ++peer->inflight_ops; /* one that UCX has lost */
    mkv_peer_fail(peer, MKV_ERR_PEER, "of the test");
    pair_run();
    mkv_ctx_deadline(A->ctx, 0);
    pair_run();
    ck_assert_int_eq(peer->state, MKV_CONN_FAILED);
    ck_assert_uint_eq(A->ctx->next_deadline, peer->deadline);
    --peer->inflight_ops;
    pair_run();
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("early");

    tcase_add_test(tcase, lists_that_wait_are_bounded_in_bytes);
    tcase_add_loop_test(tcase, a_list_is_of_its_id_and_epoch, 0, 2);
    tcase_add_loop_test(tcase, an_abort_is_of_its_id_and_epoch, 0, 2);
    tcase_add_loop_test(tcase, what_is_refused_is_of_its_id_and_epoch, 0, 2);
    tcase_add_test(tcase, unopened_messages_are_dropped);
    tcase_add_test(tcase, a_list_that_is_dropped_fails_its_transfer);
    tcase_add_test(tcase, a_request_may_be_followed_after_its_message_is_dropped);
    tcase_add_loop_test(tcase, unpolled_requests_are_bounded, 0, 2);
    tcase_add_test(tcase, early_aborts_are_bounded_by_their_bytes);
    tcase_add_loop_test(tcase, an_early_abort_is_answered_as_drained, 0, 2);
    tcase_add_test(tcase, a_sleep_ends_when_a_time_is_over);
    tcase_add_test(tcase, a_sleep_ends_when_calls_have_had_their_time);
    return pair_main("mkv_early", tcase);
}
