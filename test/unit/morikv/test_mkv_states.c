/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The tables of states, walked whole, against drawings of their own: a row is a state,
 * a column an event, and a cell what the event leads to. "." is an error.
 */

#include "test/support/mkv_pair.h"

#include "src/peer/conn.h"

#include <string.h>

/* Where an event of a table leads, and with which status */
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
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("states");

    tcase_add_test(tcase, every_event_of_a_connection_has_its_place);
    tcase_add_test(tcase, callers_see_three_states);
    tcase_add_test(tcase, an_unknown_event_is_an_error_and_changes_nothing);
    tcase_add_test(tcase, a_message_out_of_place_fails_its_sender);
    return pair_main("mkv_states", tcase);
}
