/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The tables of states, walked whole, against drawings of their own: a row is a state,
 * a column an event, and a cell the next state. "." is an error.
 */

#include "test/support/mkv_pair.h"

#include "src/peer/conn.h"
#include "src/message/listen.h"
#include "src/xfer/leg.h"

#include <string.h>

/* Transitions of a state table: the next state and the status of each event */
typedef struct walk {
    mkv_status_t (*take)(unsigned *state, unsigned event);
    const char *letters; /* of the states, by number; "." is none */
    const char *const *rows;
    unsigned num_states, num_events;
    unsigned num_messages; /* events of the peer: the first ones */
} walk_t;

static void walk_table(const walk_t *walk)
{
    unsigned state, event, at;
    mkv_status_t status;
    char expected;

    for (state = 1; state < walk->num_states; ++state) {
        ck_assert_uint_eq(strlen(walk->rows[state]), walk->num_events);
        for (event = 0; event < walk->num_events; ++event) {
            at = state;
            expected = walk->rows[state][event];
            status = walk->take(&at, event);
            if (expected == '.') {
                ck_assert_int_eq(status, (event < walk->num_messages)
                                             ? MKV_ERR_PROTOCOL
                                             : MKV_ERR_INVALID);
                ck_assert_uint_eq(at, state);
            } else {
                ck_assert_int_eq(status, MKV_OK);
                ck_assert_msg(walk->letters[at] == expected,
                              "state %u, event %u lead to %c, expected %c", state,
                              event, walk->letters[at], expected);
            }
        }
        at = state;
        ck_assert_int_lt(walk->take(&at, walk->num_events), MKV_OK);
    }
    at = 0;
    ck_assert_int_lt(walk->take(&at, 0), MKV_OK);
    at = walk->num_states;
    ck_assert_int_lt(walk->take(&at, 0), MKV_OK);
}

static mkv_status_t take_conn(unsigned *state, unsigned event)
{
    mkv_conn_state_t at = (mkv_conn_state_t)*state;
    mkv_status_t status = mkv_conn_take(&at, (mkv_conn_event_t)event);

    *state = at;
    return status;
}

/* Connecting, Shaking, Ready, Failed, Ending, Leaving, cloSing as X, Gone */
START_TEST(every_event_of_a_connection_has_its_place)
{
    /* HELLO REGIONS BYE FLUSHED FAIL BROKEN CLOSE IDLE LEFT DRAINED EXPIRED CLOSED */
    static const char *const rows[] = {
        "",
        "S.F.FFE...F.", /* connecting */
        "SSFRFFE...F.", /* shaking */
        "RRF.FFE.....", /* ready */
        "FFFFFFF..XX.", /* failed */
        "EEEEEF.L..X.", /* ending */
        "LLLLLL..X.X.", /* leaving */
        "...XXXX.X..G", /* closing */
        "...GGGG.G...", /* gone */
    };
    static const walk_t walk = {take_conn,           ".CSRFELXG",         rows,
                                MKV_CONN_NUM_STATES, MKV_CONN_NUM_EVENTS, 3};

    walk_table(&walk);
}
END_TEST

static mkv_status_t take_xfer(unsigned *state, unsigned event)
{
    mkv_xfer_state_t at = (mkv_xfer_state_t)(*state - 1);
    mkv_status_t status = mkv_xfer_state_take(&at, (mkv_xfer_change_t)event);

    *state = (unsigned)at + 1;
    return status;
}

/* SM-08 */
START_TEST(every_event_of_a_transfer_has_its_place)
{
    /* bound, posted, sealed, finished, fail, abort, quiet */
    static const char *const rows[] = {
        "",        "BA..FX.", /* init */
        ".ASDFX.",            /* bound */
        "AAS.FX.",            /* active */
        "...DFX.",            /* sealed */
        "D...DDD",            /* done */
        "F...FFF",            /* failed */
        "X...XXX",            /* aborted */
    };
    static const walk_t walk = {
        take_xfer, ".IBASDFX", rows, MKV_XFER_NUM_STATES + 1, MKV_XFER_NUM_CHANGES, 0};

    walk_table(&walk);
}
END_TEST

static mkv_status_t take_leg(unsigned *state, unsigned event)
{
    mkv_leg_state_t at = (mkv_leg_state_t)*state;
    mkv_status_t status = mkv_leg_state_take(&at, (mkv_leg_event_t)event);

    *state = at;
    return status;
}

/* Waiting, Exposed, Bound, Sealed, Finished, Term, Drained, Lost */
START_TEST(every_event_of_a_leg_has_its_place)
{
    /* Events by column: BIND FIN EXPOSE SEAL FAIL DRAIN CUT */
    static const char *const rows[] = {
        "",        "..E.T.L", /* waiting */
        "B...T.L",            /* exposed */
        ".F.ST.L",            /* bound */
        ".F..T.L",            /* sealed */
        "....F.F",            /* finished */
        "....TDT",            /* term */
        "....D.D",            /* drained */
        "....L.L",            /* lost */
    };
    static const walk_t walk = {take_leg,           ".WEBSFTDL",        rows,
                                MKV_LEG_NUM_STATES, MKV_LEG_NUM_EVENTS, 2};

    walk_table(&walk);
}
END_TEST

START_TEST(callers_see_three_states)
{
    ck_assert_int_eq(mkv_conn_public(MKV_CONN_CONNECTING), MKV_PEER_CONNECTING);
    ck_assert_int_eq(mkv_conn_public(MKV_CONN_SHAKING), MKV_PEER_CONNECTING);
    ck_assert_int_eq(mkv_conn_public(MKV_CONN_READY), MKV_PEER_READY);
    ck_assert_int_eq(mkv_conn_public(MKV_CONN_FAILED), MKV_PEER_FAILED);
    ck_assert_int_eq(mkv_conn_public(MKV_CONN_GONE), MKV_PEER_FAILED);
}
END_TEST

START_TEST(an_unknown_event_is_an_error_and_changes_nothing)
{
    pair_setup();
    ck_assert_int_eq(mkv_peer_take(A->peers[1], MKV_CONN_LEFT), MKV_ERR_INVALID);
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_READY);
    pair_teardown();
}
END_TEST

START_TEST(a_message_out_of_place_fails_its_sender)
{
    pair_setup();
    A->peers[1]->state = MKV_CONN_CONNECTING; /* as if no HELLO had come */
    ck_assert_int_eq(mkv_peer_take(A->peers[1], MKV_CONN_REGIONS), MKV_ERR_PROTOCOL);
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_FAILED);
    ck_assert_int_eq(A->peers[1]->status, MKV_ERR_PROTOCOL);
    pair_run();
    ck_assert_ptr_nonnull(strstr(pair_last(A, MKV_EV_PEER_FAILED, NULL)->text,
                                 "sent REGIONS while connecting"));
    pair_teardown();
}
END_TEST

/* Send a message to the open instance, as the peer would */
static void send_to_leg(pair_side_t *side, unsigned from, mkv_leg_t *leg,
                        mkv_msg_type_t type)
{
    mkv_msg_t msg = {.type = type,
                     .id = leg->xfer->id,
                     .epoch = leg->xfer->epoch,
                     .from_nonce = leg->remote_nonce,
                     .to_nonce = leg->xfer->nonce};

    mkv_peer_notify_message(side->peers[from], &msg, NULL, 0);
}

START_TEST(a_second_bind_fails_the_transfer)
{
    mkv_xfer_t *passive, *active;

    pair_setup();
    active = pair_bind_write(4, &passive);
    ck_assert_int_eq(passive->legs[0].state, MKV_LEG_BOUND);
    send_to_leg(B, 0, &passive->legs[0], MKV_MSG_BIND);
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(
        strstr(pair_query(passive).error, "it sent BIND while bound"));
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_PROTOCOL);
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

START_TEST(a_fin_to_the_active_side_fails_the_transfer)
{
    mkv_xfer_t *passive, *active;

    pair_setup();
    active = pair_bind_write(4, &passive);
    send_to_leg(A, 1, &active->legs[0], MKV_MSG_FIN);
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_PROTOCOL);
    pair_run();
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* The counts in an early FIN are ignored: the peer has not even sent the mode yet */
START_TEST(a_fin_before_the_bind_changes_nothing_else)
{
    mkv_msg_t fin = {.type = MKV_MSG_FIN,
                     .id = 1,
                     .from_nonce = 7,
                     .num_units = 1,
                     .units = {{.component = 0, .num = 4}},
                     .bytes = 100};
    mkv_xfer_t *passive;

    pair_setup();
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    pair_expose(passive, 0, 4);
    fin.to_nonce = passive->nonce;
    mkv_peer_notify_message(B->peers[0], &fin, NULL, 0);
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(
        strstr(pair_query(passive).error, "it sent FIN while exposed"));
    ck_assert_uint_eq(pair_query(passive).bytes, 0);
    pair_run();
    OK(mkv_xfer_close(passive));
    pair_teardown();
}
END_TEST

/* The same for messages that only a bound writer or a bound reader sends. Loop index:
 * which */
START_TEST(nothing_moves_before_the_bind)
{
    static const mkv_msg_type_t types[] = {MKV_MSG_ARRIVED, MKV_MSG_PULL};
    static const char *const texts[] = {"it sent ARRIVED while exposed",
                                        "it sent PULL while exposed"};
    mkv_msg_t msg = {.type = types[_i], .id = 1, .from_nonce = 7, .plan = 1};
    mkv_xfer_t *passive;

    pair_setup();
    passive = (_i != 1) ? pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST)
                        : pair_xfer(B, 0, 1, MKV_READ, MKV_SRC);
    pair_expose(passive, 0, 4);
    msg.to_nonce = passive->nonce;
    mkv_peer_notify_message(B->peers[0], &msg, NULL, 0);
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_PROTOCOL);
    ck_assert_msg(strstr(pair_query(passive).error, texts[_i]) != NULL, "%s",
                  pair_query(passive).error);
    ck_assert_uint_eq(pair_count(B, MKV_EV_ARRIVED, NULL), 0);
    pair_run();
    OK(mkv_xfer_close(passive));
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("states");

    tcase_add_test(tcase, every_event_of_a_connection_has_its_place);
    tcase_add_test(tcase, every_event_of_a_transfer_has_its_place);
    tcase_add_test(tcase, every_event_of_a_leg_has_its_place);
    tcase_add_test(tcase, callers_see_three_states);
    tcase_add_test(tcase, an_unknown_event_is_an_error_and_changes_nothing);
    tcase_add_test(tcase, a_message_out_of_place_fails_its_sender);
    tcase_add_test(tcase, a_second_bind_fails_the_transfer);
    tcase_add_test(tcase, a_fin_to_the_active_side_fails_the_transfer);
    tcase_add_test(tcase, a_fin_before_the_bind_changes_nothing_else);
    tcase_add_loop_test(tcase, nothing_moves_before_the_bind, 0, 2);
    return pair_main("mkv_states", tcase);
}
