/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages that are delivered, and messages of another connection or context, too early
 * or too late. */

#include "test/support/mkv_pair.h"

#include "src/peer/proof.h"

/* A message of B to A, as its connection would send it under this number */
static void receive(mkv_msg_type_t type, uint64_t to, uint32_t seq, unsigned spoilt)
{
    mkv_msg_t msg = {.type = type,
                     .from = B->ctx->process.ctx_id,
                     .to = to,
                     .id = seq,
                     .from_nonce = 7};
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    OK(mkv_msg_encode(&msg, &wbuf));
    mkv_msg_finish(wbuf.data, wbuf.length, seq);
    wbuf.data[wbuf.length - 1] ^= (uint8_t)spoilt;
    mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
    mkv_wbuf_cleanup(&wbuf);
}

static void send_value(uint32_t value)
{
    OK(mkv_send(B->peers[0], 0, value, NULL, 0, NULL, 0));
    pair_run();
}

/* Numbers ahead of the one that is missing. Loop index: it comes twice */
START_TEST(a_number_that_comes_twice_is_one_message)
{
    uint64_t me, stale;
    uint32_t seq;
    int i;

    pair_setup();
    me = A->ctx->process.ctx_id;
    seq = A->peers[1]->rx_seq;
    stale = pair_stats(A).msgs_stale;
    for (i = 0; i <= _i; ++i) {
        receive(MKV_MSG_USER, me, seq + 1, 0);
    }
    receive(MKV_MSG_USER, me, seq, 0);
    B->peers[0]->tx_seq += 2;
    send_value(5);
    ck_assert_uint_eq(pair_stats(A).msgs_stale, stale + (unsigned)_i);
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), 3);
    ck_assert_uint_eq(pair_last(A, MKV_EV_MSG, NULL)->value, 5);
    ck_assert_uint_eq(A->peers[1]->reorder_bytes, 0);
    pair_teardown();
}
END_TEST

/* A message reaches a process at an address that another one had before. Loop index:
 * the message is correct; it cannot be read */
START_TEST(what_is_sent_to_another_context_changes_nothing)
{
    uint32_t seq;

    pair_setup();
    seq = A->peers[1]->rx_seq;
    receive(MKV_MSG_USER, A->ctx->process.ctx_id + 1, seq, (unsigned)_i);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), 0);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    ck_assert_uint_eq(A->peers[1]->rx_seq, seq);
    send_value(5);
    ck_assert_uint_eq(pair_last(A, MKV_EV_MSG, NULL)->value, 5);
    pair_teardown();
}
END_TEST

/* Loop index: to another; the control */
START_TEST(a_hello_to_another_context_opens_nothing)
{
    mkv_msg_t msg = {.type = MKV_MSG_HELLO};

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    msg.from = B->ctx->process.ctx_id;
    msg.to = A->ctx->process.ctx_id + (_i == 0);
    pair_receive_blob(A->ctx, msg, B->ctx, 1, 1u << 20);
    ck_assert_int_eq(mkv_list_is_empty(&A->ctx->peers), _i == 0);
    pair_teardown();
}
END_TEST

/* The sequence numbers of a connection are unknown until its first message arrives */
START_TEST(what_a_former_connection_sent_is_forgotten_with_the_first_message)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    receive(MKV_MSG_USER, A->ctx->process.ctx_id,
            A->peers[1]->rx_seq + MKV_REORDER_WINDOW + 1, 0);
    ck_assert_uint_eq(A->peers[1]->num_reorder, 1);
    pair_run();
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_READY);
    ck_assert_uint_eq(A->peers[1]->num_reorder, 0);
    pair_teardown();
}
END_TEST

/* Messages arrive in reverse order, mixed with one of a former connection */
START_TEST(what_overtakes_the_first_message_follows_it)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob), i;
    uint32_t seq;
    uint64_t me;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    me = A->ctx->process.ctx_id;
    seq = A->peers[1]->rx_seq;
    for (i = 3; i > 0; --i) {
        receive(MKV_MSG_USER, me, seq + (uint32_t)i, 0);
    }
    receive(MKV_MSG_USER, me, seq + 2 * MKV_REORDER_WINDOW, 0);
    pair_run();
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_READY);
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), 3);
    ck_assert_uint_eq(pair_last(A, MKV_EV_MSG, NULL)->id, seq + 3);
    ck_assert_uint_eq(A->peers[1]->num_reorder, 0);
    ck_assert_uint_eq(A->peers[1]->reorder_bytes, 0);
    pair_teardown();
}
END_TEST

/* A foreign active message uses the same id, so its data may not have arrived yet. Loop
 * index: it has a header; it comes by rendezvous; the control */
START_TEST(what_this_library_does_not_send_is_not_looked_at)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = (_i == 1) ? UCP_AM_SEND_FLAG_RNDV : 0};
    ucs_status_ptr_t request;
    uint64_t malformed;
    mkv_msg_t msg;
    mkv_wbuf_t wbuf;

    pair_setup();
    malformed = A->ctx->count.msgs_malformed;
    msg = (mkv_msg_t){.type = MKV_MSG_USER,
                      .from = B->ctx->process.ctx_id,
                      .to = A->ctx->process.ctx_id};
    mkv_wbuf_init(&wbuf);
    OK(mkv_msg_encode(&msg, &wbuf));
    mkv_msg_finish(wbuf.data, wbuf.length, A->peers[1]->rx_seq);
    request = ucp_am_send_nbx(B->peers[0]->ep, (unsigned)B->ctx->opts->am_id, "head",
                              (_i == 0) ? 4 : 0, wbuf.data, wbuf.length, &param);
    pair_run();
    ck_assert_uint_eq(A->ctx->count.msgs_malformed, malformed + (_i < 2));
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), (_i == 2));
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_READY);
    ucp_request_free(request);
    mkv_wbuf_cleanup(&wbuf);
    B->peers[0]->tx_seq += (_i == 2);
    pair_teardown();
}
END_TEST

/* The caller has no handle of a peer that is not ready */
START_TEST(nothing_of_a_peer_is_delivered_before_it_is_ready)
{
    pair_setup();
    A->peers[1]->state = MKV_CONN_SHAKING;
    send_value(5);
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), 0);
    A->peers[1]->state = MKV_CONN_READY;
    mkv_inbox_resume(A->peers[1]);
    pair_run();
    ck_assert_uint_eq(pair_last(A, MKV_EV_MSG, NULL)->value, 5);
    pair_teardown();
}
END_TEST

/* Closed, and the last message is not sent yet */
START_TEST(messages_of_a_closed_peer_are_not_delivered)
{
    mkv_peer_t *peer;

    pair_setup();
    peer = A->peers[1];
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_peer_close(peer, MKV_CLOSE_FLUSH));
    A->peers[1] = NULL;
    ck_assert(!mkv_conn_is_cut_off(peer->state));
    send_value(5);
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), 0);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(pair_last(B, MKV_EV_PEER_CLOSED, NULL)->status, MKV_OK);
    pair_teardown();
}
END_TEST

/* A peer cannot derive another peer's proof from its own */
START_TEST(a_proof_is_for_one_peer)
{
    /* of SipHash's reference, key 00 to 0f, bytes 00 to 07 */
    const uint64_t key[2] = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};

    ck_assert_uint_eq(mkv_proof(key, 0x0706050403020100ull), 0x93f5f5799a932462ull);
    ck_assert_uint_ne(mkv_proof(key, 1), mkv_proof(key, 2));
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("inbox");

    tcase_add_test(tcase, a_proof_is_for_one_peer);
    tcase_add_loop_test(tcase, a_number_that_comes_twice_is_one_message, 0, 2);
    tcase_add_loop_test(tcase, what_is_sent_to_another_context_changes_nothing, 0, 2);
    tcase_add_test(tcase,
                   what_a_former_connection_sent_is_forgotten_with_the_first_message);
    tcase_add_test(tcase, what_overtakes_the_first_message_follows_it);
    tcase_add_loop_test(tcase, what_this_library_does_not_send_is_not_looked_at, 0, 3);
    tcase_add_loop_test(tcase, a_hello_to_another_context_opens_nothing, 0, 2);
    tcase_add_test(tcase, nothing_of_a_peer_is_delivered_before_it_is_ready);
    tcase_add_test(tcase, messages_of_a_closed_peer_are_not_delivered);
    return pair_main("mkv_inbox", tcase);
}
