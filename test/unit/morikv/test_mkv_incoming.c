/* SPDX-License-Identifier: BSD-3-Clause */

/* Late peers: transfers that one side requests, and roles that change. */

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 4u

static mkv_xfer_t *active, *passive;
static mkv_plan_t *plan;

/* Move blocks between `side` and the other one, until the transfer ends */
static void move(pair_side_t *side, unsigned other)
{
    pair_run();
    plan = pair_plan(side, other, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_OK);
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    pair_close(active, passive, plan);
}

/* IN-01 */
START_TEST(a_reader_requests_from_an_unprepared_source)
{
    const mkv_event_t *event;

    pair_setup();
    active = pair_xfer(A, 1, 9, MKV_READ, MKV_DST);
    OK(mkv_xfer_request(active, MKV_LEG_ALL, "prefix", 6));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_INCOMING, NULL), 1);
    event = pair_last(B, MKV_EV_INCOMING, NULL);
    ck_assert_ptr_eq(event->peer, B->peers[0]);
    ck_assert_uint_eq(event->id, 9);
    ck_assert_uint_eq(event->epoch, 0);
    ck_assert_uint_eq(event->value, MKV_READ);
    ck_assert_uint_eq(event->length, 6);
    ck_assert_uint_eq(event->num_units, 0);
    passive = pair_xfer(B, 0, event->id, MKV_READ, MKV_SRC);
    pair_expose(passive, 0, NUM);
    move(A, 1);
    ck_assert(pair_holds(A, 0, 1, NUM - 1));
    pair_teardown();
}
END_TEST

/* The bytes of an event are valid until the next poll, which pair_run() does */
/* IN-01 */
START_TEST(a_destination_exposes_its_units_and_requests)
{
    const uint32_t blocks[] = {7, 3, 11};
    const mkv_units_t units = {.num_local = 3, .local = blocks};
    mkv_event_t event;
    size_t count = 0;

    pair_setup();
    passive = pair_xfer(B, 0, 5, MKV_WRITE, MKV_DST);
    OK(mkv_xfer_expose(passive, 0, &units, 1, "meta!", 5));
    OK(mkv_xfer_request(passive, 0, "come", 4));
    while (count == 0) {
        mkv_progress(B->ctx);
        mkv_progress(A->ctx);
        OK(mkv_poll(A->ctx, &event, sizeof(event), 1, &count));
        if ((count > 0) && (event.type != MKV_EV_INCOMING)) {
            count = 0;
        }
    }
    ck_assert_ptr_eq(event.peer, A->peers[1]);
    ck_assert_uint_eq(event.value, MKV_WRITE);
    ck_assert_uint_eq(event.num_units, 1);
    ck_assert_uint_eq(event.units[0].num_remote, 3);
    ck_assert_mem_eq(event.units[0].remote, blocks, sizeof(blocks));
    ck_assert_uint_eq(event.header_length, 5);
    ck_assert_mem_eq(event.header, "meta!", 5);
    ck_assert_uint_eq(event.length, 4);
    ck_assert_mem_eq(event.data, "come", 4);
    active = pair_xfer(A, 1, 5, MKV_WRITE, MKV_SRC);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_EXPOSED, active), 1);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* Data kept of the first request must not serve as the block list of the second */
START_TEST(a_question_may_be_repeated)
{
    const mkv_event_t *event;
    unsigned i;

    pair_setup();
    active = pair_xfer(A, 1, 9, MKV_READ, MKV_DST);
    for (i = 1; i < 3; ++i) {
        OK(mkv_xfer_request(active, 0, "prefix", 6));
        pair_run();
        ck_assert_uint_eq(pair_count(B, MKV_EV_INCOMING, NULL), i);
        event = pair_last(B, MKV_EV_INCOMING, NULL);
        ck_assert_uint_eq(event->length, 6);
        ck_assert_uint_eq(event->header_length, 0);
        ck_assert_uint_eq(event->num_units, 0);
    }
    passive = pair_xfer(B, 0, 9, MKV_READ, MKV_SRC);
    pair_expose(passive, 0, NUM);
    move(A, 1);
    pair_teardown();
}
END_TEST

/* Three decoders ask one source, each with its own id; the source serves those that
 * came */
/* IN-01 */
START_TEST(any_of_several_peers_may_request)
{
    mkv_xfer_t *readers[3], *sources[3];
    mkv_plan_t *plans[3];
    unsigned i, n = 0;
    size_t k;

    pair_setup();
    for (i = 2; i < 4; ++i) {
        pair_open(i);
        pair_connect(i, 1);
    }
    for (i = 0; i < 3; ++i) {
        readers[i] =
            pair_xfer(&pair_sides[i == 0 ? 0 : i + 1], 1, 40 + i, MKV_READ, MKV_DST);
        OK(mkv_xfer_request(readers[i], 0, NULL, 0));
    }
    pair_run();
    for (k = 0; k < B->num_events; ++k) {
        if (B->events[k].type == MKV_EV_INCOMING) {
            for (i = 0; B->peers[i] != B->events[k].peer; ++i) {
            }
            sources[n] = pair_xfer(B, i, B->events[k].id, MKV_READ, MKV_SRC);
            pair_expose(sources[n++], 0, NUM);
        }
    }
    ck_assert_uint_eq(n, 3);
    pair_run();
    for (i = 0; i < 3; ++i) {
        plans[i] = pair_plan(&pair_sides[i == 0 ? 0 : i + 1], 1, 0, 0, NUM, 0);
        OK(mkv_xfer_post(readers[i], 0, plans[i], NULL, NULL));
        OK(mkv_xfer_seal(readers[i], 0));
    }
    pair_run();
    for (i = 0; i < 3; ++i) {
        ck_assert_int_eq(pair_query(readers[i]).status, MKV_OK);
        pair_close(readers[i], sources[i], plans[i]);
    }
    pair_teardown();
}
END_TEST

/* IN-02 */
START_TEST(a_question_can_be_refused)
{
    pair_setup();
    active = pair_xfer(A, 1, 9, MKV_READ, MKV_DST);
    OK(mkv_xfer_request(active, 0, NULL, 0));
    pair_run();
    IS(mkv_xfer_refuse(B->peers[0], 9, 1, MKV_ERR_NOTFOUND, NULL), MKV_ERR_NOTFOUND);
    IS(mkv_xfer_refuse(B->peers[0], 9, 0, MKV_OK, NULL), MKV_ERR_INVALID);
    OK(mkv_xfer_refuse(B->peers[0], 9, 0, MKV_ERR_NOTFOUND, "no such prefix"));
    IS(mkv_xfer_refuse(B->peers[0], 9, 0, MKV_ERR_NOTFOUND, NULL), MKV_ERR_NOTFOUND);
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_NOTFOUND);
    ck_assert_ptr_nonnull(strstr(pair_query(active).error, "no such prefix by B"));
    ck_assert_int_eq(pair_query(active).is_quiet, 1);
    IS(mkv_xfer_request(active, 0, NULL, 0), MKV_ERR_NOTFOUND);
    OK(mkv_xfer_close(active));
    pair_teardown();
}
END_TEST

/* The second request is sent before the refusal arrives; the refusal ends both */
START_TEST(a_question_that_crosses_its_refusal_is_forgotten)
{
    pair_setup();
    active = pair_xfer(A, 1, 9, MKV_READ, MKV_DST);
    OK(mkv_xfer_request(active, 0, NULL, 0));
    pair_run();
    OK(mkv_xfer_refuse(B->peers[0], 9, 0, MKV_ERR_NOTFOUND, NULL));
    OK(mkv_xfer_request(active, 0, NULL, 0));
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_NOTFOUND);
    ck_assert_uint_eq(B->peers[0]->num_early, 0);
    IS(mkv_xfer_refuse(B->peers[0], 9, 0, MKV_ERR_NOTFOUND, NULL), MKV_ERR_NOTFOUND);
    OK(mkv_xfer_close(active));
    pair_teardown();
}
END_TEST

/* The request is dropped: it cannot be refused, and a late open fails at once */
/* IN-02 */
START_TEST(an_aborted_request_is_withdrawn)
{
    pair_setup();
    active = pair_xfer(A, 1, 9, MKV_READ, MKV_DST);
    OK(mkv_xfer_request(active, 0, NULL, 0));
    pair_run();
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, "not needed"));
    pair_run();
    IS(mkv_xfer_refuse(B->peers[0], 9, 0, MKV_ERR_NOTFOUND, NULL), MKV_ERR_NOTFOUND);
    passive = pair_xfer(B, 0, 9, MKV_READ, MKV_SRC);
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_ABORTED);
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* IN-02 */
START_TEST(an_open_transfer_makes_no_request_event)
{
    uint64_t sent;

    pair_setup();
    active = pair_xfer(A, 1, 9, MKV_READ, MKV_DST);
    passive = pair_xfer(B, 0, 9, MKV_READ, MKV_SRC);
    IS(mkv_xfer_request(active, 1, NULL, 0), MKV_ERR_INVALID);
    OK(mkv_xfer_request(active, 0, NULL, 0));
    pair_run();
    pair_expose(passive, 0, NUM);
    pair_run();
    sent = pair_stats(A).msgs_sent;
    OK(mkv_xfer_request(active, 0, NULL, 0)); /* it is bound */
    ck_assert_uint_eq(pair_stats(A).msgs_sent, sent);
    move(A, 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_INCOMING, NULL), 0);
    pair_teardown();
}
END_TEST

/* The last of too many requests is refused; the others stay */
/* IN-02 */
START_TEST(questions_are_bounded)
{
    mkv_xfer_t *readers[3];
    unsigned i;

    mkv_tuning.early_messages = 2;
    pair_setup();
    for (i = 0; i < 3; ++i) {
        readers[i] = pair_xfer(A, 1, i, MKV_READ, MKV_DST);
        OK(mkv_xfer_request(readers[i], 0, NULL, 0));
    }
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_INCOMING, NULL), 2);
    ck_assert_int_eq(pair_query(readers[1]).status, MKV_INPROGRESS);
    ck_assert_int_eq(pair_query(readers[2]).status, MKV_ERR_BUSY);
    for (i = 0; i < 3; ++i) {
        OK(mkv_xfer_abort(readers[i], MKV_ERR_ABORTED, NULL));
    }
    pair_run();
    for (i = 0; i < 3; ++i) {
        OK(mkv_xfer_close(readers[i]));
    }
    pair_teardown();
}
END_TEST

/* Each side was source and destination, active and passive, of transfers after each
 * other and of two at once */
/* IN-03 */
START_TEST(roles_switch_on_one_connection)
{
    uint64_t hellos;
    unsigned i;

    pair_setup();
    hellos = pair_stats(A).hellos;
    for (i = 0; i < 8; ++i) {
        pair_side_t *side = (i & 1) ? A : B;
        pair_side_t *other = (i & 1) ? B : A;
        mkv_mode_t mode = (i & 2) ? MKV_WRITE : MKV_READ;
        unsigned index = (i & 1) ? 1 : 0;

        active =
            pair_xfer(side, index, i, mode, (mode == MKV_WRITE) ? MKV_SRC : MKV_DST);
        passive = pair_xfer(other, 1 - index, i, mode,
                            (mode == MKV_WRITE) ? MKV_DST : MKV_SRC);
        pair_expose(passive, 0, NUM);
        move(side, index);
    }
    ck_assert_uint_eq(pair_stats(A).hellos, hellos);
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("incoming");

    tcase_add_test(tcase, a_reader_requests_from_an_unprepared_source);
    tcase_add_test(tcase, a_destination_exposes_its_units_and_requests);
    tcase_add_test(tcase, a_question_may_be_repeated);
    tcase_add_test(tcase, any_of_several_peers_may_request);
    tcase_add_test(tcase, a_question_can_be_refused);
    tcase_add_test(tcase, a_question_that_crosses_its_refusal_is_forgotten);
    tcase_add_test(tcase, an_aborted_request_is_withdrawn);
    tcase_add_test(tcase, an_open_transfer_makes_no_request_event);
    tcase_add_test(tcase, questions_are_bounded);
    tcase_add_test(tcase, roles_switch_on_one_connection);
    return pair_main("mkv_incoming", tcase);
}
