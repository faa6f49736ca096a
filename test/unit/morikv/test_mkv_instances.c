/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Instances of one transfer are kept apart. A message changes nothing if it is
 * addressed to a different instance, or comes from a different or ended one.
 */

#include "src/xfer/leg.h"

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 4
#define WRONG 0x5555555555555555ull

static mkv_xfer_t *active, *passive; /* of A and of B */

static void bind_setup(void)
{
    pair_setup();
    active = pair_bind_write(NUM, &passive);
    ck_assert_uint_eq(passive->legs[0].remote_nonce, active->nonce);
}

static void finish(void)
{
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED,
                      NULL)); /* it may know the other instance by mistake */
    pair_run();
    pair_close(active, passive, NULL);
    pair_teardown();
}

/* Deliver a message as if the other side had sent it */
static void inject(pair_side_t *to, mkv_msg_type_t type, uint64_t from_nonce,
                   uint64_t to_nonce)
{
    pair_side_t *from = (to == A) ? B : A;
    mkv_peer_t *peer = to->peers[(to == A) ? 1 : 0];
    mkv_msg_t msg = {.type = type,
                     .from = from->ctx->process.ctx_id,
                     .to = to->ctx->process.ctx_id,
                     .id = 1,
                     .from_nonce = from_nonce,
                     .to_nonce = to_nonce,
                     .code = MKV_ERR_ABORTED,
                     .is_drained = true};
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    OK(mkv_msg_encode(&msg, &wbuf));
    mkv_msg_finish(wbuf.data, wbuf.length, peer->rx_seq);
    ++from->peers[(to == A) ? 0 : 1]->tx_seq;
    mkv_inbox_receive(to->ctx, wbuf.data, wbuf.length);
    mkv_wbuf_cleanup(&wbuf);
    pair_run();
}

static void expect_untouched(const mkv_xfer_t *xfer, mkv_leg_state_t state)
{
    ck_assert_int_eq(pair_query(xfer).status, MKV_INPROGRESS);
    ck_assert_int_eq(xfer->legs[0].state, state);
    ck_assert(!xfer->legs[0].is_peer_drained);
}

static const mkv_msg_type_t types[] = {MKV_MSG_BIND, MKV_MSG_FIN, MKV_MSG_TERM,
                                       MKV_MSG_DRAINED};

/* Loop index: message, side that gets it */
/* SM-01 */
START_TEST(a_message_needs_the_nonces_of_both_sides)
{
    mkv_msg_type_t type = types[_i / 2];
    pair_side_t *to = (_i % 2) ? A : B;
    mkv_xfer_t *mine, *theirs;

    bind_setup();
    mine = (to == A) ? active : passive;
    theirs = (to == A) ? passive : active;
    inject(to, type, theirs->nonce, WRONG);
    expect_untouched(mine, MKV_LEG_BOUND);
    inject(to, type, WRONG, mine->nonce);
    expect_untouched(mine, MKV_LEG_BOUND);
    inject(to, type, WRONG, WRONG);
    expect_untouched(mine, MKV_LEG_BOUND);
    if ((type == MKV_MSG_TERM) || (type == MKV_MSG_DRAINED)) { /* control */
        inject(to, type, theirs->nonce, mine->nonce);
        ck_assert(mine->legs[0].is_peer_drained);
    }
    finish();
}
END_TEST

/* Abort alone may carry no receiver nonce, as its sender may not know our instance yet.
 * It counts if it comes from the known instance, or while no instance is known yet.
 * Loop index: message, side. */
/* SM-01 */
START_TEST(only_an_abort_may_lack_a_receiver_nonce)
{
    mkv_msg_type_t type = types[_i / 2];
    pair_side_t *to = (_i % 2) ? A : B;
    mkv_xfer_t *mine, *theirs;

    bind_setup();
    mine = (to == A) ? active : passive;
    theirs = (to == A) ? passive : active;
    inject(to, type, WRONG, 0);
    expect_untouched(mine, MKV_LEG_BOUND);
    inject(to, type, theirs->nonce, 0);
    if (type == MKV_MSG_TERM) { /* control */
        ck_assert_int_eq(pair_query(mine).status, MKV_ERR_ABORTED);
    } else {
        expect_untouched(mine, MKV_LEG_BOUND);
    }
    finish();
}
END_TEST

/* A block list that arrives twice does not count for the next instance */
/* CN-05, SM-01 */
START_TEST(a_block_list_counts_once)
{
    bind_setup();
    inject(A, MKV_MSG_EXPOSE, passive->nonce, 0);
    expect_untouched(active, MKV_LEG_BOUND);
    ck_assert_uint_eq(A->peers[1]->num_early, 0);
    finish();
}
END_TEST

/* Neither does a list, an abort or a request of an instance that has ended. Loop index:
 * whether the next instance is open when they come. */
/* SM-01 */
START_TEST(messages_of_an_ended_instance_are_ignored)
{
    uint64_t ended;

    bind_setup();
    ended = passive->nonce;
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    pair_close(active, passive, NULL);
    active = (_i == 1) ? pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC) : NULL;
    inject(A, MKV_MSG_EXPOSE, ended, 0);
    if (_i == 0) {
        inject(A, MKV_MSG_TERM, ended, 0);
        inject(A, MKV_MSG_REQUEST, ended, 0);
        ck_assert_uint_eq(pair_count(A, MKV_EV_INCOMING, NULL), 0);
    }
    ck_assert_uint_eq(A->peers[1]->num_early, 0);
    ck_assert_uint_eq(A->peers[1]->num_early_aborts, 0);
    active = (_i == 0) ? pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC) : active;
    expect_untouched(active, MKV_LEG_WAITING);
    ck_assert_uint_eq(active->legs[0].remote_nonce, 0);
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    pair_expose(passive, 0, NUM);
    pair_run();
    ck_assert_uint_eq(active->legs[0].remote_nonce, passive->nonce);
    finish();
}
END_TEST

/* A list of another instance may wait here. Loop index 1: it is its own, the control.
 */
START_TEST(a_question_shows_the_blocks_of_its_own_instance)
{
    pair_setup();
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    pair_expose(passive, 0, NUM);
    pair_run();
    inject(A, MKV_MSG_REQUEST, _i ? passive->nonce : WRONG, 0);
    ck_assert_uint_eq(pair_last(A, MKV_EV_INCOMING, NULL)->num_units, (unsigned)_i);
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
    pair_run();
    OK(mkv_xfer_close(passive));
    pair_teardown();
}
END_TEST

/* Ids share their buckets */
START_TEST(a_leg_is_found_by_its_id)
{
    uint64_t other = 2;

    bind_setup();
    while (mkv_leg_bucket(A->ctx, other) != mkv_leg_bucket(A->ctx, 1)) {
        ++other;
    }
    ck_assert_ptr_eq(mkv_leg_find(A->peers[1], 1, 0), &active->legs[0]);
    ck_assert_ptr_null(mkv_leg_find(A->peers[1], other, 0));
    ck_assert_ptr_null(mkv_leg_find(A->peers[1], 1, 1));
    finish();
}
END_TEST

/* FIN follows the last byte, so a side that has given up meanwhile becomes quiet */
/* CN-05 */
START_TEST(fin_follows_the_last_byte)
{
    bind_setup();
    fake_ucp_hold_peer(fake_ucp_worker(0)); /* delay the abort to the writer */
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
    pair_run();
    ck_assert(!pair_query(passive).is_quiet);
    inject(B, MKV_MSG_FIN, active->nonce, passive->nonce);
    ck_assert(pair_query(passive).is_quiet);
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_ABORTED);
    fake_ucp_hold_peer(NULL);
    pair_run();
    finish();
}
END_TEST

/* Two replicas of one model: B and C have the same ranks, and both have the same
 * request. If one gives up, the other's transfer continues. */
/* TP-09 */
START_TEST(replicas_of_equal_ranks_do_not_mix)
{
    mkv_xfer_t *from[2], *at[2];
    mkv_plan_t *plans[2];
    const mkv_event_t *event;
    unsigned i;

    pair_setup();
    pair_open(2);
    pair_connect(0, 2);
    for (i = 0; i < 2; ++i) {
        from[i] = pair_xfer(&pair_sides[1 + i], 0, 7, MKV_WRITE, MKV_SRC);
        at[i] = pair_xfer(A, 1 + i, 7, MKV_WRITE, MKV_DST);
        pair_expose(at[i], i * NUM, NUM);
    }
    pair_run();
    for (i = 0; i < 2; ++i) {
        plans[i] = pair_plan(&pair_sides[1 + i], 0, 0, i * NUM, NUM, 0);
        OK(mkv_xfer_post(from[i], 0, plans[i], NULL, NULL));
    }
    OK(mkv_xfer_abort(from[1], MKV_ERR_ABORTED, "of one replica"));
    OK(mkv_xfer_seal(from[0], 0));
    pair_run();
    ck_assert_int_eq(pair_query(at[0]).state, MKV_XFER_DONE);
    for (i = 0; i < NUM; ++i) {
        ck_assert(pair_holds(A, i, 1, NUM - 1 - i));
        ck_assert(pair_holds(A, 2 * NUM + i, 0, 2 * NUM + i));
    }
    event = pair_last(A, MKV_EV_ABORTED, at[1]);
    ck_assert_ptr_eq(event->peer, A->peers[2]);
    ck_assert_msg(strstr(event->text, "peer C") != NULL, "%s", event->text);
    ck_assert_uint_eq(pair_count(A, MKV_EV_ABORTED, at[0]), 0);
    for (i = 0; i < 2; ++i) {
        pair_close(from[i], at[i], plans[i]);
    }
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("instances");

    tcase_add_loop_test(tcase, a_message_needs_the_nonces_of_both_sides, 0, 8);
    tcase_add_loop_test(tcase, only_an_abort_may_lack_a_receiver_nonce, 0, 8);
    tcase_add_test(tcase, a_block_list_counts_once);
    tcase_add_loop_test(tcase, messages_of_an_ended_instance_are_ignored, 0, 2);
    tcase_add_loop_test(tcase, a_question_shows_the_blocks_of_its_own_instance, 0, 2);
    tcase_add_test(tcase, a_leg_is_found_by_its_id);
    tcase_add_test(tcase, fin_follows_the_last_byte);
    tcase_add_test(tcase, replicas_of_equal_ranks_do_not_mix);
    return pair_main("mkv_instances", tcase);
}
