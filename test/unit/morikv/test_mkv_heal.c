/* SPDX-License-Identifier: BSD-3-Clause */

/* A connection that loses a message fails at once, and is made again. */

#include "test/support/mkv_pair.h"

#include "src/message/credit.h"
#include "src/message/heartbeat.h"
#include "src/message/hello.h"

#include <stdlib.h>
#include <string.h>

/* ---- Messages that cannot be read ------------------------------------------------ */

/* A message of B to A under the number that A expects next, plus `ahead` */
static mkv_wbuf_t forge(uint32_t ahead, size_t length)
{
    static uint8_t bytes[8192];
    mkv_msg_t msg = {.type = MKV_MSG_USER, .data = bytes, .length = length};
    mkv_wbuf_t wbuf;

    msg.from = B->ctx->process.ctx_id;
    msg.to = A->ctx->process.ctx_id;
    mkv_wbuf_init(&wbuf);
    OK(mkv_msg_encode(&msg, &wbuf));
    mkv_msg_finish(wbuf.data, wbuf.length, A->peers[1]->rx_seq + ahead);
    return wbuf;
}

typedef struct spoil {
    const char *text;
    mkv_status_t status;
    size_t length;
    unsigned at, value; /* byte that is changed; behind the end: none */
    int is_summed;      /* the checksum is right again */
} spoil_t;

static const spoil_t spoils[] = {
    {"larger than option MAX_MESSAGE, 4096", MKV_ERR_LENGTH, 5000, 60000, 0, 0},
    {"that cannot be read", MKV_ERR_PROTOCOL, 100, 60, 1, 0},
    {"that cannot be read", MKV_ERR_PROTOCOL, 100, 57, 255, 1}, /* its inner length */
    {"of another version", MKV_ERR_VERSION, 100, 4, MKV_WIRE_MAJOR + 1, 1},
    {"of another version", MKV_ERR_VERSION, 100, 6, MKV_MSG_LAST + 100, 1},
};

#define NUM_SPOILS (sizeof(spoils) / sizeof(spoils[0]))

static void receive_spoilt(const spoil_t *spoil, uint32_t ahead)
{
    mkv_wbuf_t wbuf = forge(ahead, spoil->length);
    uint32_t seq = A->peers[1]->rx_seq + ahead;

    if (spoil->at < wbuf.length) {
        wbuf.data[spoil->at] = (uint8_t)spoil->value;
    }
    if (spoil->is_summed) {
        mkv_msg_finish(wbuf.data, wbuf.length, seq);
    }
    mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
    mkv_wbuf_cleanup(&wbuf);
}

/* SM-03 */
START_TEST(an_unreadable_message_fails_its_sender)
{
    const mkv_event_t *event;

    pair_set("MAX_MESSAGE", "4k");
    pair_setup();
    receive_spoilt(&spoils[_i], 3); /* ahead of others: it will never be delivered */
    pair_run();
    event = pair_last(A, MKV_EV_PEER_FAILED, NULL);
    ck_assert_int_eq(event->status, spoils[_i].status);
    ck_assert_msg(strstr(event->text, spoils[_i].text) != NULL, "%s", event->text);
    ck_assert_uint_eq(pair_stats(A).msgs_malformed, 1);
    pair_teardown();
}
END_TEST

/* Control: a message outside the connection's sequence fails nothing. Loop index: a
 * number of a former connection, an unknown sender, bytes that are no message. */
/* SM-03 */
START_TEST(a_message_without_a_place_fails_nothing)
{
    mkv_wbuf_t wbuf;

    pair_setup();
    wbuf = forge((_i == 0) ? MKV_REORDER_WINDOW : 0, 100);
    wbuf.data[wbuf.length - 1] ^= 1;
    wbuf.data[8] ^= (_i == 1);
    wbuf.data[0] ^= (_i == 2);
    mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
    mkv_wbuf_cleanup(&wbuf);
    pair_run();
    ck_assert_uint_eq(pair_stats(A).msgs_malformed, 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    pair_teardown();
}
END_TEST

/* SM-03 */
START_TEST(a_message_of_a_later_version_is_skipped_in_its_turn)
{
    mkv_wbuf_t wbuf;

    pair_setup();
    wbuf = forge(0, 100);
    wbuf.data[6] = MKV_MSG_LAST;
    wbuf.data[7] = MKV_MSG_MAY_SKIP >> 8;
    mkv_msg_finish(wbuf.data, wbuf.length, B->peers[0]->tx_seq++);
    mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
    mkv_wbuf_cleanup(&wbuf);
    OK(mkv_send(B->peers[0], 0, 0, NULL, 0, "after it", 8));
    pair_run();
    ck_assert_uint_eq(pair_last(A, MKV_EV_MSG, NULL)->length, 8);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    pair_teardown();
}
END_TEST

/* Each side announces its limits: a message that the other would refuse is not sent */
/* SM-03 */
START_TEST(what_the_peer_would_refuse_is_not_sent)
{
    static uint8_t bytes[20000];

    fake_ucp_reset();
    pair_open(0);
    pair_set("MAX_MESSAGE", "8k");
    pair_open(1);
    pair_connect(0, 1);
    IS(mkv_send(A->peers[1], 0, 0, NULL, 0, bytes, sizeof(bytes)), MKV_ERR_LENGTH);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "than the peer's MAX_MESSAGE"));
    IS(mkv_send(B->peers[0], 0, 0, NULL, 0, bytes, sizeof(bytes)), MKV_ERR_LENGTH);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "larger than option MAX_MESSAGE"));
    OK(mkv_send(A->peers[1], 0, 0, NULL, 0, bytes, 100));
    pair_run();
    ck_assert_uint_eq(pair_last(B, MKV_EV_MSG, NULL)->length, 100);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 0);
    pair_teardown();
}
END_TEST

/* ---- Time ------------------------------------------------------------------------ */

static void pass_ms(uint64_t ms)
{
    pair_now += ms * MKV_NSEC_PER_MSEC;
    pair_run();
}

START_TEST(a_message_that_never_comes_ends_the_connection)
{
    const mkv_event_t *event;
    mkv_wbuf_t wbuf;

    pair_set("BIND_TIMEOUT", "500");
    pair_setup();
    wbuf = forge(1, 100);
    mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
    mkv_wbuf_cleanup(&wbuf);
    pass_ms(499);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    pass_ms(1);
    event = pair_last(A, MKV_EV_PEER_FAILED, NULL);
    ck_assert_int_eq(event->status, MKV_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(event->text, "1 later ones wait for it since 500 ms"));
    pair_teardown();
}
END_TEST

/* Control: overtaken and late, again and again, but there; each has its own time */
START_TEST(messages_that_come_late_are_waited_for)
{
    mkv_wbuf_t early, late;
    unsigned i;

    pair_set("BIND_TIMEOUT", "500");
    pair_setup();
    for (i = 1; i <= 4; ++i) {
        early = forge(1, 100);
        late = forge(0, 100);
        mkv_inbox_receive(A->ctx, early.data, early.length);
        pass_ms(400);
        mkv_inbox_receive(A->ctx, late.data, late.length);
        mkv_wbuf_cleanup(&early);
        mkv_wbuf_cleanup(&late);
        pass_ms(0);
        ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), 2 * i);
    }
    B->peers[0]->tx_seq += 2 * (i - 1);
    pass_ms(1000);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    pair_teardown();
}
END_TEST

/* When one gap is closed the next one has its own time */
START_TEST(every_gap_has_its_own_time)
{
    static const uint32_t order[] = {1, 3, 0, 2};
    mkv_wbuf_t messages[4];
    unsigned i;

    pair_set("BIND_TIMEOUT", "500");
    pair_setup();
    for (i = 0; i < 4; ++i) {
        messages[i] = forge(order[i], 100);
    }
    for (i = 0; i < 4; ++i) {
        mkv_inbox_receive(A->ctx, messages[i].data, messages[i].length);
        mkv_wbuf_cleanup(&messages[i]);
        pass_ms((i > 0) ? 400 : 0);
    }
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), 4);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    B->peers[0]->tx_seq += 4;
    pair_teardown();
}
END_TEST

/* Later messages are refused, too */
START_TEST(a_gap_is_not_prolonged_by_what_waits_for_it)
{
    mkv_wbuf_t wbuf;
    uint32_t i;

    pair_set("BIND_TIMEOUT", "500");
    pair_set("PEER_CHECK", "0");
    pair_setup();
    for (i = 1; i <= 2; ++i) {
        wbuf = forge(i, 100);
        mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
        mkv_wbuf_cleanup(&wbuf);
        ck_assert_uint_eq(A->ctx->next_deadline, A->peers[1]->beat.gap_deadline);
        pass_ms(300);
    }
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 1);
    pair_teardown();
}
END_TEST

/* The peer's UCX still accepts everything, as that of a stopped process does */
/* AB-03, PY-03 */
START_TEST(a_silent_peer_is_given_up_in_time)
{
    const mkv_event_t *event;
    unsigned i;

    pair_set("PEER_DEAD", "1000");
    pair_set("PEER_CHECK", "0");
    pair_setup();
    for (i = 0; i < 10; ++i) { /* idle, but alive */
        pass_ms(250);
    }
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    for (i = 0; i < 25; ++i) { /* calls before the deadline: no probe is due */
        mkv_ctx_deadline(A->ctx, 0);
        pass_ms(10);
    }
    pass_ms(250);
    pass_ms(250);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    pass_ms(250);
    pass_ms(250); /* the last probe before the silence was answered */
    event = pair_last(A, MKV_EV_PEER_FAILED, NULL);
    ck_assert_int_eq(event->status, MKV_ERR_PEER);
    ck_assert_ptr_nonnull(strstr(event->text, "no message came from it for 1000 ms"));
    fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    pair_run();
    pair_teardown();
}
END_TEST

/* A single side sends the probes, beginning when the connection is made, whatever else
 * is due */
/* AB-03 */
START_TEST(one_probing_side_is_enough)
{
    uint64_t sent;
    unsigned i;

    fake_ucp_reset();
    pair_open(1);
    pair_set("PEER_DEAD", "1000");
    pair_set("PEER_CHECK", "0");
    pair_open(0);
    pair_connect(0, 1);
    sent = pair_stats(A).msgs_sent;
    for (i = 0; i < 10; ++i) {
        pass_ms(250);
        ck_assert_uint_eq(pair_stats(A).msgs_sent, sent + 1 + i);
    }
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    pair_teardown();
}
END_TEST

/* A process that was stopped finds that much time has passed and messages are unread.
 * It must not declare its peers dead */
/* AB-03 */
START_TEST(a_pause_of_this_process_fails_no_peer)
{
    unsigned i;

    pair_set("PEER_DEAD", "1000");
    pair_setup();
    pass_ms(250);
    for (i = 0; i < 3; ++i) {
        fake_ucp_stop_worker(fake_ucp_worker(1), 1);
        pass_ms(10000);
        fake_ucp_stop_worker(fake_ucp_worker(1), 0);
        pass_ms(0);
    }
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 0);
    pair_teardown();
}
END_TEST

/* Loop index: 0 the peer's GPU may still reach the blocks; 1 its messages may still be
 * in flight, and no claim proves the contrary */
/* AB-03 */
START_TEST(silence_alone_proves_nothing_quiet)
{
    mkv_xfer_t *active, *passive;
    unsigned i;

    pair_set("PEER_DEAD", "1000");
    if (_i) {
        pair_set("SHM_DIR", "/nowhere");
        pair_set("LOG_LEVEL", "error");
    }
    fake_ucp_reset();
    fake_ucp_set_transport(_i ? "tcp" : "mori_xgmi");
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    pair_connect(0, 1);
    active = pair_bind_write(8, &passive);
    pass_ms(250);
    B->peers[0]->is_same_host = 0;
    fake_ucp_stop_worker(fake_ucp_worker(0), 1);
    for (i = 0; i < 6; ++i) {
        pass_ms(250);
    }
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_PEER);
    ck_assert_int_eq(B->peers[0]->state, MKV_CONN_GONE);
    ck_assert(!pair_query(passive).is_quiet);
    fake_ucp_stop_worker(fake_ucp_worker(0), 0);
    pair_run();
    OK(mkv_xfer_close(active));
    OK(mkv_xfer_declare_dead(passive));
    pair_run();
    OK(mkv_xfer_close(passive));
    pair_teardown();
}
END_TEST

/* Loop index: the second of two questions for the peer's description is the one that
 * is taken; both are */
/* MD-04 */
START_TEST(hello_is_repeated_until_it_is_answered)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    uint64_t sent;

    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    if (_i == 0) {
        B->ctx->closer = pthread_self();
        B->ctx->is_closing = 1; /* it ignores messages */
    } else {
        fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    }
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    pair_run();
    sent = pair_stats(A).msgs_sent;
    pass_ms(999);
    ck_assert_uint_eq(pair_stats(A).msgs_sent, sent);
    B->ctx->is_closing = 0;
    pass_ms(1);
    ck_assert_uint_eq(pair_stats(A).msgs_sent, sent + 1);
    if (_i == 1) {
        pass_ms(1999);
        ck_assert_uint_eq(pair_stats(A).msgs_sent, ++sent);
        pass_ms(1);
        ck_assert_uint_eq(pair_stats(A).msgs_sent, sent + 1);
    }
    fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_READY, NULL), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_READY, NULL), 1);
    OK(mkv_send(A->peers[1], 0, 0, NULL, 0, "x", 1));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_MSG, NULL), 1);
    pass_ms(100000);
    ck_assert_uint_eq(pair_stats(A).msgs_sent, sent + 3); /* and CREDIT */
    pair_teardown();
}
END_TEST

/* Add a region of a component that the other side lacks, and announce it to that side
 */
static void add_region(const pair_side_t *side, mkv_region_id_t *id_p)
{
    static char memory[64];
    mkv_region_t region = {.size = sizeof(region),
                           .component = 1,
                           .base = memory,
                           .length = 64,
                           .unit_bytes = 16,
                           .n_units = 4};

    OK(mkv_region_add(side->ctx, &region, id_p));
    OK(mkv_regions_commit(side->ctx, NULL));
}

/* The sender cannot know which of two equal hellos arrives, so regions that the first
 * one lacked are announced afterwards */
START_TEST(regions_of_a_repeated_hello_are_announced)
{
    mkv_peer_attr_t attr = {.size = sizeof(attr)};
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_region_id_t id;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    add_region(A, &id);
    pass_ms(0);
    pass_ms(1000);
    fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    pair_run();
    B->peers[0] = mkv_peer_find(B->ctx, A->ctx->process.ctx_id);
    ck_assert_ptr_nonnull(B->peers[0]);
    OK(mkv_peer_query(B->peers[0], &attr));
    ck_assert_uint_eq(attr.num_regions, pair_stats(A).num_regions);
    pair_teardown();
}
END_TEST

/* ---- Connecting again ------------------------------------------------------------ */

/* Use a new handle as a connector does: create a map, then run a transfer */
static void use_again(pair_side_t *side, unsigned other, mkv_peer_t *peer)
{
    side->peers[other] = peer;
    OK(mkv_map_destroy(side->maps[other]));
    OK(mkv_map_create(peer, NULL, &side->maps[other]));
}

static void add_again(pair_side_t *side, const pair_side_t *other, mkv_peer_t **peer_p)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);

    OK(mkv_blob(other->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(side->ctx, blob, length, NULL, peer_p));
}

static void move_eight(void)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    active = pair_bind_write(8, &passive);
    plan = pair_plan(A, 1, 8, 0, 8, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    ck_assert(pair_holds(B, 7, 0, 8));
    pair_close(active, passive, plan);
}

/* B's application never closes its failed peer, and touches no region.
 * Loop index: the connection broke, and A closes it or does not; A left in order. */
/* AB-03 */
START_TEST(a_peer_comes_back_before_it_was_closed_here)
{
    mkv_peer_t *former_a, *former_b, *again;
    mkv_peer_attr_t attr = {.size = sizeof(attr)};
    mkv_xfer_params_t params = {.size = sizeof(params), .num_legs = 1};
    mkv_xfer_t *xfer;
    unsigned memhs;

    pair_setup();
    former_a = A->peers[1];
    former_b = B->peers[0];
    if (_i < 2) {
        fake_ucp_break(UCS_ERR_CONNECTION_RESET);
        pair_run();
    }
    if (_i > 0) {
        OK(mkv_peer_close(former_a, MKV_CLOSE_FLUSH));
        pair_run();
    }
    memhs = fake_ucp_num_memh();
    add_again(A, B, &again);
    pair_run();
    ck_assert(pair_last(B, MKV_EV_PEER_READY, NULL)->peer != former_b);
    OK(mkv_peer_query(former_b, &attr));
    ck_assert_int_eq(attr.state, (_i < 2) ? MKV_PEER_FAILED : MKV_PEER_CLOSED);
    params.legs = &B->maps[0];
    IS(mkv_xfer_open(B->ctx, &params, &xfer), MKV_ERR_PEER);

    use_again(A, 1, again);
    use_again(B, 0, pair_last(B, MKV_EV_PEER_READY, NULL)->peer);
    move_eight();
    ck_assert_uint_eq(fake_ucp_num_memh(), memhs);
    OK(mkv_peer_close(former_b, MKV_CLOSE_FLUSH));
    if (_i == 0) {
        ck_assert(again != former_a);
        OK(mkv_peer_close(former_a, MKV_CLOSE_FLUSH));
    }
    add_again(A, B, &again);
    ck_assert_ptr_eq(again, A->peers[1]);
    pair_run();
    move_eight();
    pair_teardown();
}
END_TEST

/* A has lost its side and connects again, of which B has seen nothing. B's transfers
 * on the former connection have some time to end; nothing proves them quiet. */
/* AB-03 */
START_TEST(a_newer_connection_supersedes_one_that_lives)
{
    mkv_xfer_t *active, *passive;
    mkv_peer_t *former, *again;
    mkv_event_t event;

    pair_set("DRAIN_TIMEOUT", "2s");
    pair_set("SHM_DIR", "/nowhere"); /* else it detects the end of the claim at once */
    pair_set("LOG_LEVEL", "error");
    pair_setup();
    former = B->peers[0];
    active = pair_bind_write(8, &passive);
    mkv_peer_fail(A->peers[1], MKV_ERR_PEER, "of the test");
    (void)mkv_progress(A->ctx);
    OK(mkv_xfer_close(active));
    add_again(A, B, &again);
    pass_ms(0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_READY, NULL), 2);
    ck_assert_ptr_eq(mkv_peer_find(B->ctx, A->ctx->process.ctx_id),
                     pair_last(B, MKV_EV_PEER_READY, NULL)->peer);
    pass_ms(2000);
    event = *pair_last(B, MKV_EV_PEER_FAILED, NULL);
    ck_assert_ptr_eq(event.peer, former);
    ck_assert_int_eq(event.status, MKV_ERR_PEER);
    ck_assert_ptr_nonnull(strstr(event.text, "it has reconnected"));
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_PEER);
    ck_assert(!pair_query(passive).is_quiet);
    ck_assert_int_eq(again->state, MKV_CONN_READY);
    OK(mkv_xfer_declare_dead(passive));
    pair_run();
    OK(mkv_xfer_close(passive));
    pair_teardown();
}
END_TEST

/* Control: the superseded connection still receives its own messages in flight */
/* AB-03 */
START_TEST(a_goodbye_finds_the_connection_it_ends)
{
    mkv_peer_t *former, *again;
    mkv_peer_attr_t attr = {.size = sizeof(attr)};

    pair_setup();
    former = B->peers[0];
    OK(mkv_map_destroy(A->maps[1]));
    fake_ucp_hold(FAKE_UCP_FLUSH); /* the goodbye waits for the flush */
    OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH));
    add_again(A, B, &again);
    pair_run();
    ck_assert_int_eq(former->state, MKV_CONN_READY);
    fake_ucp_hold(0);
    pair_run();
    OK(mkv_peer_query(former, &attr));
    ck_assert_int_eq(attr.state, MKV_PEER_CLOSED);
    ck_assert_int_eq(again->state, MKV_CONN_READY);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 0);
    A->peers[1] = again;
    OK(mkv_map_create(again, NULL, &A->maps[1]));
    use_again(B, 0, pair_last(B, MKV_EV_PEER_READY, NULL)->peer);
    move_eight();
    pair_teardown();
}
END_TEST

/* The peer did not answer the hello in time, and connects later by itself */
/* AB-03 */
START_TEST(a_peer_that_was_too_slow_may_come_later)
{
    mkv_peer_t *former;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    B->ctx->closer = pthread_self();
    B->ctx->is_closing = true; /* it ignores messages */
    add_again(A, B, &former);
    pass_ms(0);
    pass_ms(60000);
    ck_assert_int_eq(pair_last(A, MKV_EV_PEER_FAILED, NULL)->status,
                     MKV_ERR_BIND_TIMEOUT);
    B->ctx->is_closing = false;
    add_again(B, A, &B->peers[0]);
    pair_run();
    A->peers[1] = pair_last(A, MKV_EV_PEER_READY, NULL)->peer;
    ck_assert(A->peers[1] != former);
    OK(mkv_map_create(A->peers[1], NULL, &A->maps[1]));
    OK(mkv_map_create(B->peers[0], NULL, &B->maps[0]));
    move_eight();
    pair_teardown();
}
END_TEST

static void receive_hello(uint64_t connection)
{
    mkv_msg_t msg = {.type = MKV_MSG_HELLO};

    msg.from = A->ctx->process.ctx_id;
    msg.to = B->ctx->process.ctx_id;
    pair_receive_blob(B->ctx, msg, A->ctx, connection,
                      B->peers[0]->rx_seq + (1u << 20));
}

/* Loop index: the number of the one that is there, and a lower one; the connection has
 * failed, or lives */
/* AB-03 */
START_TEST(a_hello_that_is_not_newer_changes_nothing)
{
    uint64_t connection, stale;
    uint64_t num_peers;

    pair_setup();
    connection = A->peers[1]->connection;
    if (_i & 2) {
        fake_ucp_break(UCS_ERR_CONNECTION_RESET);
        pair_run();
    }
    stale = pair_stats(B).msgs_stale;
    num_peers = pair_stats(B).num_peers;
    receive_hello(connection - (unsigned)(_i & 1));
    pair_run();
    ck_assert_uint_eq(pair_stats(B).num_peers, num_peers);
    ck_assert_uint_eq(pair_stats(B).msgs_stale, stale + 1);
    pair_teardown();
}
END_TEST

/* Blobs and headers have A's number, so anybody can send a HELLO in its name. Loop
 * index: with A's proof, which is the control */
START_TEST(a_hello_in_anothers_name_ends_no_connection)
{
    mkv_peer_t *peer;

    pair_set("DRAIN_TIMEOUT", "2s");
    pair_set("LOG_LEVEL", "error");
    pair_setup();
    peer = B->peers[0];
    A->ctx->proof_key[0] ^= (_i == 0);
    receive_hello(UINT64_MAX);
    A->ctx->proof_key[0] ^= (_i == 0);
    pass_ms(0);
    pass_ms(3000);
    ck_assert_int_eq(peer->is_superseded, _i);
    ck_assert_uint_eq(pair_stats(B).num_peers, 1 + (unsigned)_i);
    if (_i == 0) {
        ck_assert_int_eq(peer->state, MKV_CONN_READY);
        ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 0);
    }
    pair_teardown();
}
END_TEST

/* The envelope is A's, and its contents describe another context */
START_TEST(a_hello_that_describes_another_is_dropped)
{
    mkv_msg_t msg = {.type = MKV_MSG_HELLO};

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    pair_open(2);
    msg.from = A->ctx->process.ctx_id;
    msg.to = B->ctx->process.ctx_id;
    pair_receive_blob(B->ctx, msg, pair_sides[2].ctx, 1, 1u << 20);
    pair_run();
    ck_assert(mkv_list_is_empty(&B->ctx->peers));
    ck_assert_uint_eq(B->num_events, 0);
    pair_teardown();
}
END_TEST

/* A peer's message about its regions does not change those of another peer. Loop index:
 * of another; the control */
START_TEST(regions_of_another_context_fail_their_sender)
{
    mkv_msg_t msg = {.type = MKV_MSG_REGIONS};

    pair_setup();
    pair_open(2);
    msg.from = A->ctx->process.ctx_id;
    msg.to = B->ctx->process.ctx_id;
    ++A->peers[1]->tx_seq;
    pair_receive_blob(B->ctx, msg, (_i == 0) ? pair_sides[2].ctx : A->ctx, 1,
                      B->peers[0]->rx_seq);
    ck_assert_int_eq(B->peers[0]->status, (_i == 0) ? MKV_ERR_PROTOCOL : MKV_OK);
    ck_assert_msg((_i == 1) || (strstr(B->peers[0]->error,
                                       "it describes a different context") != NULL),
                  "%s", B->peers[0]->error);
    pair_run();
    pair_teardown();
}
END_TEST

/* The first message never comes, so that its number is unknown. Each goes before the
 * others. */
START_TEST(messages_before_the_first_are_bounded_in_number)
{
    mkv_wbuf_t wbuf;
    uint32_t i;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    add_again(A, B, &A->peers[1]);
    for (i = 0; i <= MKV_REORDER_WINDOW; ++i) {
        ck_assert_int_eq(A->peers[1]->state, MKV_CONN_CONNECTING);
        wbuf = forge(2 * MKV_REORDER_WINDOW - i, 1);
        mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
        mkv_wbuf_cleanup(&wbuf);
    }
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_FAILED);
    ck_assert_int_eq(A->peers[1]->status, MKV_ERR_BUSY);
    pair_run();
    ck_assert_ptr_nonnull(
        strstr(pair_last(A, MKV_EV_PEER_FAILED, NULL)->text, "4096 messages"));
    pair_teardown();
}
END_TEST

/* The process has the same name, and all else is new; A only makes a map */
/* AB-03 */
START_TEST(a_restarted_process_is_taken_in)
{
    mkv_peer_t *former;
    uint64_t epoch;

    pair_setup();
    former = A->peers[1];
    epoch = A->ctx->epoch;
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pair_run();
    OK(mkv_map_destroy(B->maps[0]));
    OK(mkv_close(B->ctx));
    free(B->mem);
    pair_open(1);
    add_again(B, A, &B->peers[0]);
    pair_run();
    ck_assert_str_eq(pair_last(A, MKV_EV_PEER_READY, NULL)->peer->name, former->name);
    OK(mkv_map_create(B->peers[0], NULL, &B->maps[0]));
    use_again(A, 1, pair_last(A, MKV_EV_PEER_READY, NULL)->peer);
    move_eight();
    ck_assert_uint_eq(A->ctx->epoch, epoch);
    OK(mkv_peer_close(former, MKV_CLOSE_FLUSH));
    pair_teardown();
}
END_TEST

/* ---- Floods ---------------------------------------------------------------------- */

static void progress(void)
{
    unsigned i;

    for (i = 0; i < 3; ++i) {
        if (pair_sides[i].ctx != NULL) {
            (void)mkv_progress(pair_sides[i].ctx);
        }
    }
}

/* Send until a message is refused, while the receiver does not poll. @return Number of
 * messages sent. */
static unsigned flood(mkv_peer_t *peer, size_t length)
{
    static uint8_t bytes[1 << 20];
    unsigned num;

    for (num = 0; num < 100000; ++num) {
        if (mkv_send(peer, 0, num, NULL, 0, bytes, length) != MKV_OK) {
            break;
        }
        progress();
    }
    return num;
}

/* A's application does not poll while C floods it: C waits, B does not, and nothing is
 * lost. Loop index: empty messages, which take an event each, and large ones. */
/* CC-08 */
START_TEST(a_flood_is_the_floods_own_wait)
{
    size_t length = _i ? 10000 : 0;
    unsigned num, more;

    pair_set("MAX_QUEUED", "64k");
    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    pair_open(2);
    pair_connect(1, 0);
    pair_connect(2, 0);
    num = flood(pair_sides[2].peers[0], length);
    IS(mkv_send(pair_sides[2].peers[0], 0, 0, NULL, 0, A->mem, length), MKV_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "its MAX_QUEUED is 65536"));
    ck_assert_uint_le(num * (length + 1024), 65536);
    ck_assert_uint_gt((num + 1) * (length + 1024), 65536);
    OK(mkv_send(B->peers[0], 7, 7, NULL, 0, "B's", 3));
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), num + 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    more = flood(pair_sides[2].peers[0], length);
    ck_assert_uint_eq(more, num);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), num + 1 + more);
    pair_teardown();
}
END_TEST

/* A receiver returns credits once, after it has polled, when many are free */
/* CC-08 */
START_TEST(credits_are_returned_seldom_and_once)
{
    mkv_event_t event;
    uint64_t sent;
    size_t count;
    unsigned i;

    pair_set("MAX_QUEUED", "64k");
    pair_setup();
    ck_assert_uint_eq(flood(A->peers[1], 0), 64);
    for (i = 0; i < 17; ++i) {
        sent = pair_stats(B).msgs_sent;
        OK(mkv_poll(B->ctx, &event, sizeof(event), 1, &count));
        ck_assert_uint_eq(count, 1);
        if (event.type != MKV_EV_MSG) {
            --i;
            continue;
        }
        ck_assert(mkv_ctx_has_signals(B->ctx)); /* the thread must not sleep now */
        progress();
        ck_assert(!B->ctx->is_credit_due);
        ck_assert_uint_eq(pair_stats(B).msgs_sent, sent + (i == 16));
    }
    sent = pair_stats(B).msgs_sent;
    OK(mkv_poll(B->ctx, &event, sizeof(event), 1, &count));
    progress();
    ck_assert_uint_eq(pair_stats(B).msgs_sent, sent);
    pair_teardown();
}
END_TEST

/* The peer may be gone when its messages are polled */
START_TEST(what_a_closed_peer_sent_is_nobodys_room)
{
    mkv_peer_t *peer;
    uint64_t polled;
    mkv_event_t events[8];
    size_t count;

    pair_setup();
    peer = B->peers[0];
    OK(mkv_send(A->peers[1], 0, 0, NULL, 0, NULL, 0));
    progress();
    polled = peer->credit.polled;
    ck_assert_uint_gt(peer->credit.received, polled);
    OK(mkv_map_destroy(B->maps[0]));
    B->maps[0] = NULL;
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_peer_close(peer, MKV_CLOSE_FLUSH));
    OK(mkv_poll(B->ctx, events, sizeof(events[0]), 8, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_ptr_null(events[0].peer);
    ck_assert_uint_eq(peer->credit.polled, polled);
    fake_ucp_hold(0);
    pair_run();
    pair_teardown();
}
END_TEST

/* Answers to a peer that sends requests and receives nothing */
/* CC-08 */
START_TEST(what_waits_to_be_sent_is_bounded)
{
    unsigned i;

    pair_set("MAX_QUEUED", "64k");
    pair_setup();
    fake_ucp_hold(FAKE_UCP_AM);
    for (i = 0; i < 1000; ++i) {
        if (mkv_hello_send(A->peers[1], MKV_MSG_REGIONS) != MKV_OK) {
            break;
        }
    }
    ck_assert_uint_lt(i, 1000);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "twice MAX_QUEUED waits"));
    ck_assert_uint_gt(A->peers[1]->tx_bytes, 2 * 65536);
    ck_assert_uint_lt(A->peers[1]->tx_bytes, 3 * 65536);
    fake_ucp_hold(0);
    pair_run();
    pair_teardown();
}
END_TEST

/* A message that is larger than all the room is sent alone */
/* CC-08 */
START_TEST(a_message_larger_than_the_room_goes_alone)
{
    static uint8_t bytes[100000];
    unsigned i;

    pair_set("MAX_QUEUED", "256k");
    pair_setup();
    A->peers[1]->remote.info.max_queued = 65536;
    for (i = 0; i < 5; ++i) {
        OK(mkv_send(A->peers[1], 0, i, NULL, 0, bytes, sizeof(bytes)));
        IS(mkv_send(A->peers[1], 0, i, NULL, 0, bytes, sizeof(bytes)), MKV_ERR_BUSY);
        pair_run();
        ck_assert_uint_eq(pair_count(B, MKV_EV_MSG, NULL), i + 1);
    }
    pair_teardown();
}
END_TEST

/* A note reserves its room when its operation is posted, and messages respect that */
/* CC-08 */
START_TEST(notes_share_the_room_of_messages)
{
    mkv_op_params_t params = {.size = sizeof(params), .flags = MKV_OP_NOTIFY};
    mkv_op_t *op, *ops[100];
    unsigned num;

    pair_set("MAX_QUEUED", "64k");
    pair_setup();
    for (num = 0; num < 100; ++num) {
        if (mkv_op_post(A->peers[1], &params, &ops[num]) != MKV_OK) {
            break;
        }
        progress();
    }
    ck_assert_uint_eq(num, 64);
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_BUSY);
    IS(mkv_send(A->peers[1], 0, 0, NULL, 0, NULL, 0), MKV_ERR_BUSY);
    params.flags = 0; /* none, no room */
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_NOTE, NULL), 64);
    OK(mkv_send(A->peers[1], 0, 0, NULL, 0, NULL, 0));
    pair_run();
    OK(mkv_op_close(op));
    while (num > 0) {
        OK(mkv_op_close(ops[--num]));
    }
    pair_teardown();
}
END_TEST

/* The sender ignores its credits */
/* CC-08 */
START_TEST(a_sender_beyond_its_credits_is_failed)
{
    unsigned i;

    pair_set("MAX_QUEUED", "64k");
    pair_set("MAX_MESSAGE", "4k");
    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    pair_open(2);
    pair_connect(1, 0);
    pair_connect(2, 0);
    pair_sides[2].peers[0]->remote.info.max_queued = UINT64_MAX;
    pair_sides[2].peers[0]->credit.has_report = true;
    for (i = 0; i < 70; ++i) {
        OK(mkv_send(pair_sides[2].peers[0], 0, i, NULL, 0, NULL, 0));
        progress();
    }
    OK(mkv_send(B->peers[0], 7, 7, NULL, 0, "B's", 3));
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 1);
    ck_assert_int_eq(pair_last(A, MKV_EV_PEER_FAILED, NULL)->status, MKV_ERR_PROTOCOL);
    ck_assert_uint_eq(pair_last(A, MKV_EV_MSG, NULL)->length, 3);
    pair_teardown();
}
END_TEST

START_TEST(a_poll_returns_no_more_than_was_sent)
{
    mkv_msg_t msg = {.type = MKV_MSG_CREDIT};
    mkv_wbuf_t wbuf;

    pair_setup();
    OK(mkv_send(A->peers[1], 0, 0, NULL, 0, NULL, 0));
    pair_run();
    msg.from = B->ctx->process.ctx_id;
    msg.to = A->ctx->process.ctx_id;
    msg.bytes = 1024 + (unsigned)_i;
    mkv_wbuf_init(&wbuf);
    OK(mkv_msg_encode(&msg, &wbuf));
    mkv_msg_finish(wbuf.data, wbuf.length, B->peers[0]->tx_seq++);
    mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
    mkv_wbuf_cleanup(&wbuf);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), (unsigned)_i);
    pair_teardown();
}
END_TEST

/* A peer that is not READY queues early messages, up to a limit */
/* CC-08 */
START_TEST(a_flood_waits_until_the_peer_is_ready)
{
    unsigned num;

    pair_setup();
    ck_assert(A->peers[1]->credit.has_report);
    A->peers[1]->credit.has_report = false;
    B->peers[0]->state = MKV_CONN_SHAKING;
    for (num = 0; num < 10000; ++num) {
        if (mkv_send(A->peers[1], 0, num, NULL, 0, NULL, 0) != MKV_OK) {
            break;
        }
        progress();
    }
    ck_assert_uint_eq(num, MKV_REORDER_WINDOW / 2);
    B->peers[0]->state = MKV_CONN_READY;
    mkv_credit_report(B->peers[0]);
    mkv_inbox_resume(B->peers[0]);
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_MSG, NULL), num);
    OK(mkv_send(A->peers[1], 0, num, NULL, 0, NULL, 0));
    pair_run();
    pair_teardown();
}
END_TEST

/* ---- Regions that change --------------------------------------------------------- */

/* RG-05 */
START_TEST(changed_regions_raise_one_event_until_it_is_polled)
{
    const mkv_event_t *event;
    mkv_region_id_t id;

    pair_setup();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_REGIONS, NULL), 0);
    add_region(B, &id);
    progress();
    OK(mkv_regions_drop(B->ctx, &id, 1));
    progress();
    progress();
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_REGIONS, NULL), 1);
    event = pair_last(A, MKV_EV_PEER_REGIONS, NULL);
    ck_assert_ptr_eq(event->peer, A->peers[1]);
    ck_assert_uint_eq(event->id, 2);
    ck_assert_uint_eq(event->value, 0);

    OK(mkv_map_destroy(B->maps[0]));
    B->maps[0] = NULL;
    id = 1;
    OK(mkv_regions_drop(B->ctx, &id, 1));
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_REGIONS, NULL), 2);
    event = pair_last(A, MKV_EV_PEER_REGIONS, NULL);
    ck_assert_uint_eq(event->id, B->ctx->epoch);
    ck_assert_uint_eq(event->value, 1);               /* A's map */
    OK(mkv_hello_send(B->peers[0], MKV_MSG_REGIONS)); /* nothing new */
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_REGIONS, NULL), 2);
    pair_teardown();
}
END_TEST

/* ---- Permission to connect ------------------------------------------------------- */

static mkv_status_t decide(void *arg, const mkv_caller_t *caller)
{
    ck_assert_str_eq(caller->name, "A");
    ck_assert_uint_eq(caller->size, sizeof(*caller));
    ck_assert_uint_eq(caller->context, A->ctx->process.ctx_id);
    ck_assert_uint_eq(caller->pid, A->ctx->process.pid);
    ck_assert_uint_eq(caller->is_same_host, 1);
    ck_assert_uint_eq(caller->topology.tp_size, 1);
    ck_assert_uint_eq(caller->model, 0);
    return *(mkv_status_t *)arg;
}

/* A repeats its hello, and B accepts it as soon as the callback allows. Peers that
 * B adds itself need no decision of the callback */
/* MD-05 */
START_TEST(a_stranger_is_let_in_by_the_callers_word)
{
    mkv_status_t decision = MKV_ERR_TOPOLOGY;
    mkv_open_params_t params = {
        .size = sizeof(params), .accept = decide, .accept_arg = &decision};
    mkv_stats_t stats;

    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(0);
    OK(mkv_open(NULL, &params, &B->ctx));
    if (_i) {
        add_again(B, A, &B->peers[0]);
    }
    add_again(A, B, &A->peers[1]);
    pair_run();
    ck_assert_uint_eq(pair_stats(B).num_peers, (unsigned)_i);
    if (!_i) {
        stats = pair_stats(B);
        ck_assert_uint_eq(stats.msgs_dropped, 1);
        ck_assert_int_eq(A->peers[1]->state, MKV_CONN_CONNECTING);
        decision = MKV_OK;
        pass_ms(1000);
        pair_run();
    }
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_READY, NULL), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_READY, NULL), 1);
    pair_teardown();
}
END_TEST

/* MD-05 */
START_TEST(there_are_no_more_peers_than_allowed)
{
    mkv_peer_t *peer;

    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(1);
    pair_open(2);
    pair_open(3);
    pair_set("MAX_PEERS", "1");
    pair_open(0);
    pair_connect(1, 0);
    add_again(&pair_sides[2], A, &peer); /* refused: nothing answers */
    pair_run();
    ck_assert_uint_eq(pair_stats(A).num_peers, 1);
    ck_assert_int_eq(peer->state, MKV_CONN_CONNECTING);
    {
        uint8_t blob[4096];
        size_t length = sizeof(blob);

        OK(mkv_blob(pair_sides[3].ctx, MKV_BLOB_ADDR, blob, &length));
        IS(mkv_peer_add(A->ctx, blob, length, NULL, &peer), MKV_ERR_BUSY);
        ck_assert_ptr_nonnull(strstr(mkv_last_error(), "MAX_PEERS is 1"));
    }
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH));
    pass_ms(1000); /* and A sends the request again */
    pair_run();
    ck_assert_uint_eq(pair_count(&pair_sides[2], MKV_EV_PEER_READY, NULL), 1);
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("heal");

    tcase_add_loop_test(tcase, an_unreadable_message_fails_its_sender, 0, NUM_SPOILS);
    tcase_add_loop_test(tcase, a_message_without_a_place_fails_nothing, 0, 3);
    tcase_add_test(tcase, a_message_of_a_later_version_is_skipped_in_its_turn);
    tcase_add_test(tcase, what_the_peer_would_refuse_is_not_sent);
    tcase_add_test(tcase, a_message_that_never_comes_ends_the_connection);
    tcase_add_test(tcase, messages_that_come_late_are_waited_for);
    tcase_add_test(tcase, a_silent_peer_is_given_up_in_time);
    tcase_add_test(tcase, a_pause_of_this_process_fails_no_peer);
    tcase_add_loop_test(tcase, silence_alone_proves_nothing_quiet, 0, 2);
    tcase_add_loop_test(tcase, hello_is_repeated_until_it_is_answered, 0, 2);
    tcase_add_test(tcase, every_gap_has_its_own_time);
    tcase_add_test(tcase, a_gap_is_not_prolonged_by_what_waits_for_it);
    tcase_add_test(tcase, one_probing_side_is_enough);
    tcase_add_test(tcase, regions_of_a_repeated_hello_are_announced);
    tcase_add_loop_test(tcase, a_peer_comes_back_before_it_was_closed_here, 0, 3);
    tcase_add_test(tcase, a_newer_connection_supersedes_one_that_lives);
    tcase_add_test(tcase, a_goodbye_finds_the_connection_it_ends);
    tcase_add_test(tcase, a_peer_that_was_too_slow_may_come_later);
    tcase_add_loop_test(tcase, a_hello_in_anothers_name_ends_no_connection, 0, 2);
    tcase_add_loop_test(tcase, a_hello_that_is_not_newer_changes_nothing, 0, 4);
    tcase_add_test(tcase, a_hello_that_describes_another_is_dropped);
    tcase_add_loop_test(tcase, regions_of_another_context_fail_their_sender, 0, 2);
    tcase_add_test(tcase, messages_before_the_first_are_bounded_in_number);
    tcase_add_test(tcase, a_restarted_process_is_taken_in);
    tcase_add_loop_test(tcase, a_flood_is_the_floods_own_wait, 0, 2);
    tcase_add_test(tcase, credits_are_returned_seldom_and_once);
    tcase_add_test(tcase, what_a_closed_peer_sent_is_nobodys_room);
    tcase_add_test(tcase, what_waits_to_be_sent_is_bounded);
    tcase_add_test(tcase, a_message_larger_than_the_room_goes_alone);
    tcase_add_test(tcase, a_sender_beyond_its_credits_is_failed);
    tcase_add_test(tcase, notes_share_the_room_of_messages);
    tcase_add_loop_test(tcase, a_poll_returns_no_more_than_was_sent, 0, 2);
    tcase_add_test(tcase, a_flood_waits_until_the_peer_is_ready);
    tcase_add_test(tcase, changed_regions_raise_one_event_until_it_is_polled);
    tcase_add_loop_test(tcase, a_stranger_is_let_in_by_the_callers_word, 0, 2);
    tcase_add_test(tcase, there_are_no_more_peers_than_allowed);
    return pair_main("mkv_heal", tcase);
}
