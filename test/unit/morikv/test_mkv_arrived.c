/* SPDX-License-Identifier: BSD-3-Clause */

/* Posts with MKV_SEL_NOTIFY: both sides get an event while the transfer runs. */

#include "test/support/mkv_pair.h"

#include "src/plan/plan.h"
#include "src/message/message.h"

#include <string.h>

#define NUM 8u
#define LAYERS 4

static mkv_xfer_t *active, *passive; /* of A and of B */
static mkv_plan_t *plan;

static void bind_both(mkv_mode_t mode)
{
    active = pair_xfer(A, 1, 1, mode, (mode == MKV_WRITE) ? MKV_SRC : MKV_DST);
    passive = pair_xfer(B, 0, 1, mode, (mode == MKV_WRITE) ? MKV_DST : MKV_SRC);
    pair_expose(passive, 0, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
}

static mkv_sel_t layer_sel(int32_t layer)
{
    return (mkv_sel_t){.size = sizeof(mkv_sel_t),
                       .fields = MKV_SEL_LAYERS | MKV_SEL_NOTIFY,
                       .layer_lo = layer,
                       .layer_hi = layer + 1,
                       .notify = 70 + (uint32_t)layer};
}

static void post_layer(int32_t layer)
{
    mkv_sel_t sel = layer_sel(layer);

    OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    pair_run();
}

static void post_all(void)
{
    int32_t layer;

    for (layer = 0; layer < LAYERS; ++layer) {
        post_layer(layer);
    }
}

static void finish(void)
{
    pair_close(active, passive, plan);
    pair_teardown();
}

/* The event number @a nth of this type, from 0 */
static const mkv_event_t *event_at(const pair_side_t *side, mkv_event_type_t type,
                                   unsigned nth)
{
    size_t i;

    for (i = 0; i < side->num_events; ++i) {
        if ((side->events[i].type == type) && (nth-- == 0)) {
            return &side->events[i];
        }
    }
    ck_abort_msg("%s is missing", mkv_event_string(type));
    return NULL;
}

static void check_events(const pair_side_t *side, const mkv_xfer_t *xfer,
                         mkv_event_type_t type, unsigned num)
{
    const mkv_event_t *event;
    unsigned i;

    ck_assert_uint_eq(pair_count(side, type, xfer), num);
    for (i = 0; i < num; ++i) {
        event = event_at(side, type, i);
        ck_assert_uint_eq(event->value, 70 + i);
        ck_assert_uint_eq(event->id, 1);
        ck_assert_uint_eq(event->leg, 0);
        ck_assert_ptr_eq(event->xfer, xfer);
        ck_assert_ptr_eq(event->peer, side->peers[(side == A) ? 1 : 0]);
        ck_assert_int_eq(event->status, MKV_OK);
        ck_assert_str_eq(event->text, "");
    }
}

/* ---- WRITE ----------------------------------------------------------------------- */

/* OB-09 */
START_TEST(a_layer_has_arrived_when_its_flush_has_ended)
{
    pair_setup_over("mori_rdma");
    bind_both(MKV_WRITE);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    post_layer(0);
    check_events(A, active, MKV_EV_LOCAL_DONE, 1);
    check_events(B, passive, MKV_EV_ARRIVED, 0);
    post_layer(1); /* the running flush does not cover it */
    check_events(A, active, MKV_EV_LOCAL_DONE, 2);
    ck_assert_uint_eq(pair_stats(A).flushes, 1);
    fake_ucp_hold(0);
    pair_run();
    check_events(B, passive, MKV_EV_ARRIVED, 2);
    ck_assert_uint_eq(pair_stats(A).flushes, 2);
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_BOUND);
    post_layer(2);
    post_layer(3);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    check_events(A, active, MKV_EV_LOCAL_DONE, LAYERS);
    check_events(B, passive, MKV_EV_ARRIVED, LAYERS);
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    finish();
}
END_TEST

/* Lists of mori_xgmi need no flush, so nothing waits for one. Loop index: 0 lists; the
 * controls are 1 a fence by flush and 2 single calls */
START_TEST(a_layer_of_mori_xgmi_has_arrived_when_it_is_complete)
{
    const unsigned num = (_i == 0);

    if (_i == 1) {
        pair_set("FENCE", "flush");
    } else if (_i == 2) {
        pair_set("SGL", "no");
    }
    pair_setup();
    bind_both(MKV_WRITE);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    post_layer(0);
    check_events(B, passive, MKV_EV_ARRIVED, num);
    ck_assert_uint_eq(pair_stats(A).flushes, !num);
    post_layer(1);
    post_layer(2);
    post_layer(3);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, num ? MKV_OK : MKV_INPROGRESS);
    fake_ucp_hold(0);
    pair_run();
    check_events(B, passive, MKV_EV_ARRIVED, LAYERS);
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    finish();
}
END_TEST

/* A list that failed may have moved in part: quiet behind a flush */
START_TEST(a_list_of_mori_xgmi_that_failed_is_quiet_behind_its_flush)
{
    pair_setup();
    bind_both(MKV_WRITE);
    post_layer(0); /* a failed later list is no refusal of the lane */
    fake_ucp_fail(FAKE_UCP_LIST, 0, UCS_ERR_IO_ERROR);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    post_layer(1);
    pair_run();
    ck_assert_int_lt(pair_query(active).status, MKV_OK);
    ck_assert(!pair_query(active).is_quiet);
    ck_assert(!pair_query(passive).is_quiet);
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(active).is_quiet);
    ck_assert(pair_query(passive).is_quiet);
    finish();
}
END_TEST

/* Loop index: kinds of calls that end within the call, or in progress */
/* OB-09 */
START_TEST(all_layers_are_reported_before_the_end)
{
    pair_setup();
    fake_ucp_set_inline(_i ? FAKE_UCP_PUT | FAKE_UCP_LIST | FAKE_UCP_FLUSH : 0);
    bind_both(MKV_WRITE);
    fake_ucp_hold(_i ? 0 : FAKE_UCP_FLUSH);
    post_all();
    OK(mkv_xfer_seal(active, 0));
    fake_ucp_hold(0);
    pair_run();
    check_events(A, active, MKV_EV_LOCAL_DONE, LAYERS);
    check_events(B, passive, MKV_EV_ARRIVED, LAYERS);
    ck_assert(event_at(A, MKV_EV_LOCAL_DONE, LAYERS - 1) < event_at(A, MKV_EV_DONE, 0));
    ck_assert(event_at(B, MKV_EV_ARRIVED, LAYERS - 1) < event_at(B, MKV_EV_DONE, 0));
    finish();
}
END_TEST

START_TEST(unrequested_layers_are_not_reported)
{
    mkv_sel_t sel = {
        .size = sizeof(sel), .fields = MKV_SEL_LAYERS, .layer_lo = 1, .layer_hi = 4};

    pair_setup();
    bind_both(MKV_WRITE);
    post_layer(0);
    OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    check_events(A, active, MKV_EV_LOCAL_DONE, 1);
    check_events(B, passive, MKV_EV_ARRIVED, 1);
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    finish();
}
END_TEST

/* Loop index: 0 the passive side aborts, 1 the active side aborts, 2 a flush fails */
/* OB-09 */
START_TEST(no_layer_is_reported_after_an_error)
{
    pair_setup_over("mori_rdma");
    bind_both(MKV_WRITE);
    if (_i == 2) {
        fake_ucp_fail(FAKE_UCP_FLUSH, 0, UCS_ERR_IO_ERROR);
    } else {
        fake_ucp_hold(FAKE_UCP_FLUSH);
    }
    post_layer(0);
    if (_i < 2) {
        OK(mkv_xfer_abort(_i ? active : passive, MKV_ERR_ABORTED, NULL));
        pair_run();
        fake_ucp_hold(0);
    }
    pair_run();
    check_events(A, active, MKV_EV_LOCAL_DONE, 1);
    check_events(B, passive, MKV_EV_ARRIVED, 0);
    ck_assert_int_lt(pair_query(active).status, MKV_OK);
    ck_assert_int_lt(pair_query(passive).status, MKV_OK);
    finish();
}
END_TEST

/* A connection that breaks during a notification ends the transfer once */
START_TEST(a_peer_that_goes_meanwhile_gets_no_notification)
{
    pair_setup_over("mori_rdma");
    bind_both(MKV_WRITE);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    post_all();
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    fake_ucp_hold(0);
    pair_run();
    check_events(B, passive, MKV_EV_ARRIVED, 0);
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_PEER);
    pair_now += 1000000000000ull;
    pair_run();
    OK(mkv_peer_declare_dead(A->peers[1]));
    OK(mkv_peer_declare_dead(B->peers[0]));
    pair_run();
    finish();
}
END_TEST

/* A notification that cannot be sent fails the connection; its posts are freed once */
START_TEST(a_notification_that_cannot_be_sent_fails_the_peer)
{
    pair_setup_over("mori_rdma");
    bind_both(MKV_WRITE);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    post_all();
    fake_ucp_fail(FAKE_UCP_AM, 0, UCS_ERR_NO_MEMORY);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_lt(pair_query(active).status, MKV_OK);
    pair_now += 1000000000000ull;
    pair_run();
    OK(mkv_peer_declare_dead(A->peers[1]));
    OK(mkv_peer_declare_dead(B->peers[0]));
    pair_run();
    ck_assert_int_eq(plan->num_posts, 0);
    finish();
}
END_TEST

/* ---- READ ------------------------------------------------------------------------ */

/* Loop index: the transfer runs by gets, or by the owner's puts. The owner gets no
 * events of its own posts */
/* OB-09 */
START_TEST(a_reader_gets_notified_of_each_layer)
{
    pair_set("READ_BY", _i ? "push" : "get");
    pair_setup_over("mori_rdma"); /* else no flush is waited for */
    bind_both(MKV_READ);
    fake_ucp_hold(_i ? FAKE_UCP_FLUSH : FAKE_UCP_GET);
    post_layer(0);
    check_events(A, active, MKV_EV_ARRIVED, 0);
    fake_ucp_hold(0);
    pair_run();
    check_events(A, active, MKV_EV_ARRIVED, 1);
    post_layer(1);
    post_layer(2);
    post_layer(3);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    check_events(A, active, MKV_EV_ARRIVED, LAYERS);
    ck_assert_uint_eq(pair_count(A, MKV_EV_LOCAL_DONE, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_LOCAL_DONE, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_ARRIVED, NULL), 0);
    ck_assert_uint_eq(pair_stats(B).pulls_served, _i ? LAYERS : 0);
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    finish();
}
END_TEST

/* ---- Refused cases --------------------------------------------------------------- */

/* Send ARRIVED for transfer 1, as B would send it to A or A to B */
static void inject(pair_side_t *to, pair_side_t *from, const mkv_xfer_t *xfer)
{
    mkv_peer_t *peer = to->peers[(to == A) ? 1 : 0];
    mkv_msg_t msg = {.type = MKV_MSG_ARRIVED,
                     .from = from->ctx->process.ctx_id,
                     .to = to->ctx->process.ctx_id,
                     .id = 1,
                     .from_nonce = xfer->legs[0].remote_nonce,
                     .to_nonce = xfer->nonce,
                     .value = 9};
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    OK(mkv_msg_encode(&msg, &wbuf));
    mkv_msg_finish(wbuf.data, wbuf.length, peer->rx_seq);
    ++from->peers[(from == A) ? 1 : 0]->tx_seq;
    mkv_inbox_receive(to->ctx, wbuf.data, wbuf.length);
    mkv_wbuf_cleanup(&wbuf);
}

/* Loop index: ARRIVED is sent to the writer, or to the owner of a READ, which expects
 * no such message */
START_TEST(an_unexpected_notification_fails_its_sender)
{
    pair_setup();
    bind_both(_i ? MKV_READ : MKV_WRITE);
    inject(_i ? B : A, _i ? A : B, _i ? passive : active);
    pair_run();
    ck_assert_int_eq(pair_query(_i ? passive : active).status, MKV_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(pair_query(_i ? passive : active).error, "ARRIVED"));
    ck_assert_uint_eq(pair_count(A, MKV_EV_ARRIVED, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_ARRIVED, NULL), 0);
    finish();
}
END_TEST

/* Loop index: 0 the application does not poll; 1 it polls (control) */
START_TEST(unpolled_notifications_are_bounded)
{
    unsigned i;

    pair_set("MAX_QUEUED", "64k");
    pair_setup();
    bind_both(MKV_WRITE);
    for (i = 0; i < 1000; ++i) {
        inject(B, A, passive);
        if (_i) {
            (void)mkv_progress(B->ctx);
            pair_run();
            B->num_events = 0;
        } else if (pair_query(passive).status != MKV_INPROGRESS) {
            break;
        }
    }
    ck_assert_int_eq(pair_query(passive).status, _i ? MKV_INPROGRESS : MKV_ERR_BUSY);
    ck_assert_uint_le(i, _i ? 1000 : 65536 / sizeof(mkv_event_node_t));
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    finish();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("arrived");

    tcase_add_test(tcase, a_layer_has_arrived_when_its_flush_has_ended);
    tcase_add_loop_test(tcase, a_layer_of_mori_xgmi_has_arrived_when_it_is_complete, 0,
                        3);
    tcase_add_test(tcase, a_list_of_mori_xgmi_that_failed_is_quiet_behind_its_flush);
    tcase_add_loop_test(tcase, all_layers_are_reported_before_the_end, 0, 2);
    tcase_add_test(tcase, unrequested_layers_are_not_reported);
    tcase_add_loop_test(tcase, no_layer_is_reported_after_an_error, 0, 3);
    tcase_add_test(tcase, a_peer_that_goes_meanwhile_gets_no_notification);
    tcase_add_test(tcase, a_notification_that_cannot_be_sent_fails_the_peer);
    tcase_add_loop_test(tcase, a_reader_gets_notified_of_each_layer, 0, 2);
    tcase_add_loop_test(tcase, an_unexpected_notification_fails_its_sender, 0, 2);
    tcase_add_loop_test(tcase, unpolled_notifications_are_bounded, 0, 2);
    return pair_main("mkv_arrived", tcase);
}
