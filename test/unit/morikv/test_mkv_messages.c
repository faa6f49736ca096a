/* SPDX-License-Identifier: BSD-3-Clause */

/* Bytes of the connector: those with DONE, and messages that cannot be sent. */

#include "src/message/credit.h"
#include "src/message/hello.h"
#include "src/message/message.h"

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 4u
#define MAX_DATA 65536u

static mkv_xfer_t *active, *passive;
static mkv_plan_t *plan;

static void bind_mode(mkv_mode_t mode)
{
    int is_write = (mode == MKV_WRITE);

    active = pair_xfer(A, 1, 1, mode, is_write ? MKV_SRC : MKV_DST);
    passive = pair_xfer(B, 0, 1, mode, is_write ? MKV_DST : MKV_SRC);
    pair_expose(passive, 0, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
}

static void finish(void)
{
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_OK);
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    pair_close(active, passive, plan);
    pair_teardown();
}

/* Loop index: mode and size */
/* AX-01, AX-04, PY-08 */
START_TEST(bytes_come_with_done)
{
    static const size_t sizes[] = {1, 3, MAX_DATA};
    static uint8_t data[MAX_DATA];
    const size_t length = sizes[_i / 2];
    const mkv_event_t *event;
    const void *again;
    size_t again_length;

    pair_setup();
    bind_mode((_i % 2 == 0) ? MKV_WRITE : MKV_READ);
    mkv_pattern_fill(data, length, 7, 0);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST | FAKE_UCP_GET);
    OK(mkv_xfer_seal_data(active, 0, data, length));
    memset(data, 0, length); /* it was copied */
    pair_run();
    fake_ucp_hold(0);
    pair_run();
    event = pair_last(B, MKV_EV_DONE, passive);
    ck_assert_uint_eq(event->length, length);
    ck_assert_uint_eq(mkv_pattern_check(event->data, length, 7, 0), length);
    OK(mkv_xfer_done_data(passive, 0, &again, &again_length));
    ck_assert_ptr_eq(again, event->data);
    ck_assert_uint_eq(again_length, length);
    ck_assert_uint_eq(pair_last(A, MKV_EV_DONE, active)->length, 0);
    finish();
}
END_TEST

/* AX-04 */
START_TEST(a_seal_without_bytes_brings_none)
{
    const void *data = "";
    size_t length = 1;

    pair_setup();
    bind_mode(MKV_WRITE);
    IS(mkv_xfer_done_data(passive, 0, &data, &length), MKV_ERR_INVALID);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_uint_eq(pair_last(B, MKV_EV_DONE, passive)->length, 0);
    ck_assert_ptr_null(pair_last(B, MKV_EV_DONE, passive)->data);
    OK(mkv_xfer_done_data(passive, 0, &data, &length));
    ck_assert_ptr_null(data);
    ck_assert_uint_eq(length, 0);
    IS(mkv_xfer_done_data(passive, 1, &data, &length), MKV_ERR_INVALID);
    IS(mkv_xfer_done_data(active, 0, &data, &length), MKV_ERR_INVALID);
    finish();
}
END_TEST

/* Two sources write into one destination: the event has the bytes of the first that
 * sent some, and each leg's can be queried. Loop index 1: neither sent any, and the
 * event is of the first. */
/* AX-04 */
START_TEST(each_leg_has_its_own_bytes)
{
    mkv_xfer_params_t params = {
        .size = sizeof(params), .id = 1, .mode = MKV_WRITE, .role = MKV_DST};
    mkv_map_t *legs[2];
    mkv_xfer_t *sources[2];
    mkv_plan_t *plans[2];
    const void *data;
    size_t length;

    pair_setup();
    pair_open(2);
    pair_connect(2, 1);
    legs[0] = B->maps[0];
    legs[1] = B->maps[2];
    params.legs = legs;
    params.num_legs = 2;
    OK(mkv_xfer_open(B->ctx, &params, &passive));
    pair_expose(passive, 0, NUM);
    sources[0] = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    sources[1] = pair_xfer(&pair_sides[2], 1, 1, MKV_WRITE, MKV_SRC);
    pair_run();
    plans[0] = pair_plan(A, 1, 0, 0, NUM, 0);
    plans[1] = pair_plan(&pair_sides[2], 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(sources[0], 0, plans[0], NULL, NULL));
    OK(mkv_xfer_post(sources[1], 0, plans[1], NULL, NULL));
    OK(mkv_xfer_seal(sources[0], 0));
    OK(mkv_xfer_seal_data(sources[1], 0, "two", _i ? 0 : 3));
    pair_run();
    ck_assert_uint_eq(pair_last(B, MKV_EV_DONE, passive)->leg, _i ? 0 : 1);
    ck_assert_uint_eq(pair_last(B, MKV_EV_DONE, passive)->length, _i ? 0 : 3);
    if (!_i) {
        ck_assert_mem_eq(pair_last(B, MKV_EV_DONE, passive)->data, "two", 3);
    }
    OK(mkv_xfer_done_data(passive, 0, &data, &length));
    ck_assert_uint_eq(length, 0);
    OK(mkv_xfer_done_data(passive, 1, &data, &length));
    ck_assert_uint_eq(length, _i ? 0 : 3);
    OK(mkv_xfer_close(sources[1]));
    OK(mkv_plan_destroy(plans[1]));
    pair_close(sources[0], passive, plans[0]);
    pair_teardown();
}
END_TEST

/* The leg stays unsealed, and can be sealed with less */
/* AX-04 */
START_TEST(more_bytes_than_a_message_holds_are_refused)
{
    static const uint8_t data[4096];

    pair_set("MAX_MESSAGE", "8k");
    pair_setup();
    bind_mode(MKV_WRITE);
    IS(mkv_xfer_seal_data(active, 0, data, 8192 - 1535), MKV_ERR_LENGTH);
    ck_assert_str_eq(mkv_last_error(),
                     "seal: 6657 bytes for peer B, MAX_MESSAGE of both "
                     "sides leaves room for 6656");
    OK(mkv_xfer_seal_data(active, 0, data, sizeof(data)));
    finish();
}
END_TEST

/* The receiver takes less than the sender */
/* AX-04 */
START_TEST(the_limit_is_the_smaller_one)
{
    static const uint8_t data[8192];

    fake_ucp_reset();
    pair_open(0);
    pair_set("MAX_MESSAGE", "8k");
    pair_open(1);
    pair_connect(0, 1);
    bind_mode(MKV_WRITE);
    IS(mkv_xfer_seal_data(active, 0, data, sizeof(data)), MKV_ERR_LENGTH);
    OK(mkv_xfer_seal_data(active, 0, data, 1));
    finish();
}
END_TEST

/* BIND alone */
START_TEST(a_side_with_the_blocks_sends_no_wait)
{
    uint64_t sent;

    pair_setup();
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    pair_expose(passive, 0, NUM);
    pair_run();
    sent = pair_stats(A).msgs_sent;
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    pair_run();
    ck_assert_uint_eq(pair_stats(A).msgs_sent, sent + 1);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

static mkv_status_t add_peer(pair_side_t *side, const pair_side_t *other,
                             mkv_peer_t **peer_p)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);

    OK(mkv_blob(other->ctx, MKV_BLOB_ADDR, blob, &length));
    return mkv_peer_add(side->ctx, blob, length, NULL, peer_p);
}

/* Messages and maps need a ready peer, and a context is not its own peer */
START_TEST(only_a_peer_that_is_ready_is_used)
{
    mkv_map_params_t params = {.size = sizeof(params), .flags = 1u << 31};
    mkv_map_t *map;
    mkv_peer_t *peer;

    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    IS(add_peer(A, A, &peer), MKV_ERR_INVALID);
    OK(add_peer(A, B, &peer));
    ck_assert_int_eq(peer->state, MKV_CONN_CONNECTING);
    IS(mkv_send(peer, 0, 0, NULL, 0, NULL, 0), MKV_ERR_BUSY);
    IS(mkv_map_create(peer, NULL, &map), MKV_ERR_BUSY);
    pair_run();
    OK(mkv_send(peer, 0, 0, NULL, 0, NULL, 0));
    IS(mkv_map_create(peer, &params, &map), MKV_ERR_UNSUPPORTED);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pair_run();
    IS(mkv_send(peer, 0, 0, NULL, 0, NULL, 0), MKV_ERR_PEER);
    IS(mkv_map_create(peer, NULL, &map), MKV_ERR_PEER);
    pair_teardown();
}
END_TEST

/* This side checks the limit, whatever the peer's room is; both parts of a message
 * count */
START_TEST(what_is_sent_is_bounded_in_bytes)
{
    static const uint8_t data[40000];

    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(1);
    pair_set("MAX_QUEUED", "64k");
    pair_open(0);
    pair_connect(0, 1);
    IS(mkv_send(A->peers[1], 0, 0, data, SIZE_MAX, data, 1), MKV_ERR_LENGTH);
    IS(mkv_send(A->peers[1], 0, 0, data, 1, data, SIZE_MAX), MKV_ERR_LENGTH);
    fake_ucp_hold(FAKE_UCP_AM);
    OK(mkv_send(A->peers[1], 0, 0, NULL, 0, data, sizeof(data)));
    IS(mkv_send(A->peers[1], 0, 0, NULL, 0, data, sizeof(data)), MKV_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "wait to be sent"));
    fake_ucp_hold(0);
    pair_run();
    OK(mkv_send(A->peers[1], 0, 0, NULL, 0, data, sizeof(data)));
    pair_run();
    pair_teardown();
}
END_TEST

/* The HELLO is repeated under its number, so no message may follow it */
START_TEST(nothing_follows_a_hello_that_is_not_answered)
{
    static uint8_t memory[64];
    const mkv_region_t region = {.size = sizeof(region),
                                 .component = 9,
                                 .base = memory,
                                 .length = 64,
                                 .unit_bytes = 64,
                                 .n_units = 1};
    mkv_region_id_t id;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    OK(add_peer(A, B, &A->peers[1]));
    OK(mkv_region_add(A->ctx, &region, &id));
    OK(mkv_regions_commit(A->ctx, NULL));
    ck_assert_uint_eq(pair_stats(A).msgs_sent, 1);
    fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    pair_run();
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_READY);
    pair_teardown();
}
END_TEST

/* The connection fails while UCX flushes */
START_TEST(a_way_that_is_proven_too_late_is_none)
{
    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(add_peer(A, B, &A->peers[1]));
    pair_run();
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_SHAKING);
    mkv_peer_fail(A->peers[1], MKV_ERR_PROTOCOL, "of the test");
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_READY, NULL), 0);
    pair_teardown();
}
END_TEST

/* Loop index: UCX reports it later, or in the call. UCX gets nothing afterwards. */
/* Messages of the library wait, and the peer accepts none of them. @return Number of
 * messages before. */
static uint64_t fill(mkv_peer_t *peer)
{
    uint64_t before = peer->tx_bytes;

    peer->tx_bytes = before + 3 * peer->ctx->opts->max_queued;
    return before;
}

/* A transfer whose message is lost would wait for ever. Loop index: the reader's
 * request for its blocks; the writer's last message, whose bytes are there */
START_TEST(a_lost_message_of_a_transfer_fails_the_peer)
{
    mkv_mode_t mode = _i ? MKV_WRITE : MKV_READ;
    uint64_t before;

    pair_set("READ_BY", "push");
    pair_setup();
    active = pair_xfer(A, 1, 1, mode, _i ? MKV_SRC : MKV_DST);
    passive = pair_xfer(B, 0, 1, mode, _i ? MKV_DST : MKV_SRC);
    pair_expose(passive, 0, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    before = fill(A->peers[1]);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    while (mkv_progress(A->ctx) > 0) {
    }
    A->peers[1]->tx_bytes = before;
    pair_run();
    ck_assert_int_eq(A->peers[1]->status, MKV_ERR_BUSY);
    ck_assert_int_eq(pair_query(active).status, _i ? MKV_OK : MKV_ERR_BUSY);
    pair_now += 31000 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_int_lt(pair_query(passive).status, MKV_OK);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* The same holds without a transfer. Loop index: the answer to its HELLO, a new key,
 * new regions */
START_TEST(a_lost_message_about_regions_fails_the_peer)
{
    mkv_msg_t msg = {.type = MKV_MSG_HELLO_ACK};
    mkv_peer_t *peer;
    uint64_t before;

    pair_setup();
    peer = A->peers[1];
    before = fill(peer);
    if (_i == 0) {
        msg.from = B->ctx->process.ctx_id;
        msg.to = A->ctx->process.ctx_id;
        peer->sent_epoch = 0;
        ++B->peers[0]->tx_seq;
        pair_receive_blob(A->ctx, msg, B->ctx, 1, peer->rx_seq);
    } else if (_i == 1) {
        IS(mkv_hello_send_keys(peer), MKV_ERR_BUSY);
    } else {
        peer->sent_epoch = 0;
        mkv_hello_send_regions(A->ctx);
    }
    peer->tx_bytes = before;
    ck_assert_int_eq(peer->state, MKV_CONN_FAILED);
    ck_assert_ptr_nonnull(
        strstr(peer->error, (_i == 0) ? "answering HELLO failed" : "sending the "));
    pair_run();
    pair_teardown();
}
END_TEST

START_TEST(a_failed_send_is_reported)
{
    mkv_msg_t msg = {.type = MKV_MSG_PING};
    unsigned calls;

    pair_setup();
    fake_ucp_set_inline(_i ? FAKE_UCP_AM : 0);
    fake_ucp_fail(FAKE_UCP_AM, 0, UCS_ERR_IO_ERROR);
    OK(mkv_send(A->peers[1], 1, 1, NULL, 0, NULL, 0));
    pair_run();
    ck_assert_int_eq(A->peers[1]->status, MKV_ERR_PEER);
    ck_assert_ptr_nonnull(strstr(A->peers[1]->error, "could not be sent"));
    ck_assert_uint_eq(A->peers[1]->tx_bytes, 0);
    pair_now += 31000 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_GONE);
    calls = fake_ucp_num_calls(FAKE_UCP_AM);
    IS(mkv_message_send(A->peers[1], &msg), MKV_ERR_PEER);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_AM), calls);
    pair_teardown();
}
END_TEST

START_TEST(the_first_reason_stays)
{
    pair_setup();
    mkv_peer_fail(A->peers[1], MKV_ERR_PROTOCOL, "first");
    mkv_peer_fail(A->peers[1], MKV_ERR_BUSY, "second");
    pair_run();
    mkv_peer_fail(A->peers[1], MKV_ERR_BUSY, "third");
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 1);
    ck_assert_int_eq(A->peers[1]->status, MKV_ERR_PROTOCOL);
    ck_assert_str_eq(A->peers[1]->error, "first");
    pair_teardown();
}
END_TEST

/* Ids of the peers share hash buckets. A closed peer is still found while its messages
 * arrive. */
START_TEST(a_peer_is_found_by_its_number_until_it_is_closed)
{
    mkv_peer_t *peer;
    uint32_t seq;
    uint64_t id;

    pair_setup();
    peer = A->peers[1];
    seq = peer->rx_seq;
    id = B->ctx->process.ctx_id;
    ck_assert_ptr_eq(mkv_peer_find(A->ctx, id), peer);
    ck_assert_ptr_null(mkv_peer_find(A->ctx, id + MKV_PEER_BUCKETS));
    ck_assert_ptr_null(mkv_peer_find_former(A->ctx, id, seq));
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_peer_close(peer, MKV_CLOSE_FLUSH));
    A->peers[1] = NULL;
    ck_assert_ptr_null(mkv_peer_find(A->ctx, id));
    ck_assert_ptr_eq(mkv_peer_find_former(A->ctx, id, seq), peer);
    ck_assert_ptr_null(mkv_peer_find_former(A->ctx, id + MKV_PEER_BUCKETS, seq));
    ck_assert_ptr_null(mkv_peer_find_former(A->ctx, id, seq - 1));
    pair_teardown();
}
END_TEST

/* A later message with the same number would be mistaken for the hello. Messages wait
 * while the peer does not accept them. */
START_TEST(a_hello_that_cannot_be_repeated_keeps_its_number)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_peer_t *peer;
    uint64_t waiting;
    uint32_t seq;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &peer));
    seq = peer->tx_seq;
    waiting = 3 * A->ctx->opts->max_queued;
    peer->tx_bytes += waiting;
    IS(mkv_hello_repeat(peer), MKV_ERR_BUSY);
    ck_assert_uint_eq(peer->tx_seq, seq);
    peer->tx_bytes -= waiting;
    OK(mkv_hello_repeat(peer));
    ck_assert_uint_eq(peer->tx_seq, seq);
    pair_run();
    ck_assert_int_eq(peer->state, MKV_CONN_READY);
    pair_teardown();
}
END_TEST

/* Loop index: regions; the answer to a HELLO */
START_TEST(a_description_that_cannot_be_read_fails_its_sender)
{
    const mkv_msg_type_t type = _i ? MKV_MSG_HELLO_ACK : MKV_MSG_REGIONS;
    mkv_msg_t msg = {.type = type, .data = (const uint8_t *)"no blob", .length = 7};
    const char *text;

    pair_setup();
    OK(mkv_message_send(A->peers[1], &msg));
    pair_run();
    ck_assert_int_lt(B->peers[0]->status, MKV_OK);
    text = pair_last(B, MKV_EV_PEER_FAILED, NULL)->text;
    ck_assert_msg(strstr(text, mkv_msg_string(type)) != NULL, "%s", text);
    ck_assert_msg(strstr(text, "cannot be read") != NULL, "%s", text);
    pair_teardown();
}
END_TEST

/* Loop index: both parts, no header, no data */
START_TEST(a_message_arrives_as_it_was_sent)
{
    const char *header = (_i == 1) ? "" : "head", *data = (_i == 2) ? "" : "the data";
    mkv_event_t event;
    size_t count;

    pair_setup();
    OK(mkv_send(A->peers[1], 77, 5, header, strlen(header), data, strlen(data)));
    B->is_stopped = 1; /* the bytes are valid until its next poll */
    pair_run();
    while (mkv_progress(B->ctx) > 0) {
    }
    OK(mkv_poll(B->ctx, &event, sizeof(event), 1, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(event.type, MKV_EV_MSG);
    ck_assert_ptr_eq(event.peer, B->peers[0]);
    ck_assert_uint_eq(event.id, 77);
    ck_assert_uint_eq(event.value, 5);
    ck_assert_uint_eq(event.header_length, strlen(header));
    ck_assert_int_eq(memcmp(event.header, header, strlen(header)), 0);
    ck_assert_uint_eq(event.length, strlen(data));
    ck_assert_int_eq(memcmp(event.data, data, strlen(data)), 0);
    B->is_stopped = 0;
    pair_teardown();
}
END_TEST

/* Messages do not use reserved nodes, and keep no more nodes than are reserved */
START_TEST(nodes_of_polled_events_are_kept_as_far_as_they_are_reserved)
{
    const unsigned many = 100;
    mkv_ctx_t *ctx;
    unsigned i;

    pair_setup();
    pair_run();
    ctx = B->ctx;
    ck_assert_uint_gt(ctx->num_reserved_events, 0);
    ck_assert_uint_lt(ctx->num_reserved_events, many);
    for (i = 0; i < many; ++i) {
        OK(mkv_send(A->peers[1], i, 0, NULL, 0, NULL, 0));
    }
    pair_run();
    ck_assert_uint_ge(B->num_events, many);
    ck_assert_uint_le(ctx->num_free_events, ctx->num_reserved_events);
    ck_assert_uint_eq(ctx->num_returned_events, ctx->num_reserved_events);
    OK(mkv_event_reserve(ctx, 0));
    ck_assert_uint_eq(ctx->num_free_events, ctx->num_reserved_events);
    ck_assert(mkv_list_is_empty(&ctx->returned_events));
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("messages");

    tcase_add_loop_test(tcase, a_message_arrives_as_it_was_sent, 0, 3);
    tcase_add_loop_test(tcase, bytes_come_with_done, 0, 6);
    tcase_add_test(tcase, a_seal_without_bytes_brings_none);
    tcase_add_loop_test(tcase, each_leg_has_its_own_bytes, 0, 2);
    tcase_add_test(tcase, more_bytes_than_a_message_holds_are_refused);
    tcase_add_test(tcase, the_limit_is_the_smaller_one);
    tcase_add_test(tcase, a_side_with_the_blocks_sends_no_wait);
    tcase_add_test(tcase, only_a_peer_that_is_ready_is_used);
    tcase_add_test(tcase, what_is_sent_is_bounded_in_bytes);
    tcase_add_test(tcase, nothing_follows_a_hello_that_is_not_answered);
    tcase_add_test(tcase, a_way_that_is_proven_too_late_is_none);
    tcase_add_loop_test(tcase, a_failed_send_is_reported, 0, 2);
    tcase_add_test(tcase, the_first_reason_stays);
    tcase_add_test(tcase, a_peer_is_found_by_its_number_until_it_is_closed);
    tcase_add_test(tcase, a_hello_that_cannot_be_repeated_keeps_its_number);
    tcase_add_loop_test(tcase, a_description_that_cannot_be_read_fails_its_sender, 0,
                        2);
    tcase_add_loop_test(tcase, a_lost_message_of_a_transfer_fails_the_peer, 0, 2);
    tcase_add_loop_test(tcase, a_lost_message_about_regions_fails_the_peer, 0, 3);
    tcase_add_test(tcase, nodes_of_polled_events_are_kept_as_far_as_they_are_reserved);
    return pair_main("mkv_messages", tcase);
}
