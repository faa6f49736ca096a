/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Every call on a transfer, a peer, a map, a plan and an operation in every state that
 * these have, the wrong ones first of all: the status is the documented one, and a
 * refused call has changed nothing.
 */

#include "test/support/mkv_pair.h"

#include "src/direct/op.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUM 4

/* ---- Transfers ------------------------------------------------------------------- */

/* State of a WRITE: of its active side (the source) or the passive one */
typedef enum state {
    ACTIVE_OPEN,
    PASSIVE_OPEN,
    PASSIVE_SHOWN,
    ACTIVE_BOUND,
    PASSIVE_BOUND,
    ACTIVE_POSTED, /* in flight */
    ACTIVE_SEALED, /* in flight */
    ACTIVE_DONE,
    PASSIVE_DONE,
    ACTIVE_ABORTED,
    PASSIVE_ABORTED,
    ACTIVE_DRAINING, /* aborted, with calls in flight */
    NUM_STATES
} state_t;

static mkv_xfer_t *active, *passive;
static mkv_plan_t *plan;

static void bring_to(state_t state)
{
    pair_setup();
    active = (state != PASSIVE_OPEN) ? pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC) : NULL;
    passive = (state != ACTIVE_OPEN) ? pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST) : NULL;
    if (state == PASSIVE_SHOWN) { /* the peer has not opened it yet */
        OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
        OK(mkv_xfer_close(active));
        OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
        pair_run();
        OK(mkv_xfer_close(passive));
        active = NULL;
        passive = pair_xfer(B, 0, 2, MKV_WRITE, MKV_DST);
    }
    if (state >= PASSIVE_SHOWN) {
        pair_expose(passive, 0, NUM);
        pair_run();
    }
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    if ((state == ACTIVE_POSTED) || (state == ACTIVE_SEALED) ||
        (state == ACTIVE_DRAINING)) {
        fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    }
    if (state >= ACTIVE_POSTED) {
        OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    }
    if ((state >= ACTIVE_SEALED) && (state <= PASSIVE_DONE)) {
        OK(mkv_xfer_seal(active, 0));
    }
    if (state >= ACTIVE_ABORTED) {
        OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    }
    pair_run();
}

static mkv_xfer_t *of(state_t state)
{
    switch (state) {
    case PASSIVE_OPEN:
    case PASSIVE_SHOWN:
    case PASSIVE_BOUND:
    case PASSIVE_DONE:
    case PASSIVE_ABORTED:
        return passive;
    default:
        return active;
    }
}

static void end(void)
{
    mkv_xfer_t *both[] = {active, passive};
    unsigned i;

    fake_ucp_hold(0);
    for (i = 0; i < 2; ++i) {
        if (both[i] != NULL) {
            OK(mkv_xfer_abort(both[i], MKV_ERR_ABORTED, NULL));
        }
    }
    pair_run();
    pair_now += 1000 * MKV_NSEC_PER_MSEC; /* a peer that was declared dead is noticed */
    pair_run();
    pair_now += 1000 * MKV_NSEC_PER_MSEC;
    pair_run();
    for (i = 0; i < 2; ++i) {
        if (both[i] != NULL) {
            OK(mkv_xfer_close(both[i]));
        }
    }
    OK(mkv_plan_destroy(plan));
    pair_teardown();
}

static mkv_status_t request(mkv_xfer_t *xfer)
{
    return mkv_xfer_request(xfer, 0, "x", 1);
}

static mkv_status_t request_no_leg(mkv_xfer_t *xfer)
{
    return mkv_xfer_request(xfer, 7, "x", 1);
}

static mkv_status_t expose(mkv_xfer_t *xfer)
{
    static const uint32_t blocks[] = {20, 21};
    const mkv_units_t units = {.num_local = 2, .local = blocks};

    return mkv_xfer_expose(xfer, 0, &units, 1, NULL, 0);
}

static mkv_status_t post(mkv_xfer_t *xfer)
{
    return mkv_xfer_post(xfer, 0, plan, NULL, NULL);
}

static mkv_status_t post_no_leg(mkv_xfer_t *xfer)
{
    return mkv_xfer_post(xfer, 7, plan, NULL, NULL);
}

static mkv_status_t seal(mkv_xfer_t *xfer)
{
    return mkv_xfer_seal(xfer, 0);
}

static mkv_status_t seal_data(mkv_xfer_t *xfer)
{
    return mkv_xfer_seal_data(xfer, 0, "token", 5);
}

static mkv_status_t done_data(mkv_xfer_t *xfer)
{
    const void *data;
    size_t length;

    return mkv_xfer_done_data(xfer, 0, &data, &length);
}

static mkv_status_t extend(mkv_xfer_t *xfer)
{
    return mkv_xfer_extend(xfer, 0);
}

static mkv_status_t query_no_leg(mkv_xfer_t *xfer)
{
    mkv_leg_attr_t attr = {.size = sizeof(attr)};

    return mkv_xfer_query_leg(xfer, 7, &attr);
}

static mkv_status_t abort_no_leg(mkv_xfer_t *xfer)
{
    return mkv_xfer_abort_leg(xfer, 7, MKV_ERR_ABORTED, NULL);
}

static mkv_status_t abort_with_success(mkv_xfer_t *xfer)
{
    return mkv_xfer_abort(xfer, MKV_OK, NULL);
}

enum {
    OKAY = MKV_OK,
    INVAL = MKV_ERR_INVALID,
    BUSY = MKV_ERR_BUSY,
    TWICE = MKV_ERR_DUPLICATE,
    FEW = MKV_ERR_LENGTH, /* as nothing was posted; it ends the transfer */
    GAVE = MKV_ERR_ABORTED,
    NONE = MKV_ERR_NOTFOUND,
    PEER = MKV_ERR_PEER
};

/* Expected status of each call, in the order of the states */
static const struct {
    const char *name;
    mkv_status_t (*call)(mkv_xfer_t *xfer);
    int expected[NUM_STATES];
} calls[] = {
    {"request",
     request,
     {OKAY, OKAY, OKAY, OKAY, OKAY, OKAY, OKAY, INVAL, INVAL, GAVE, GAVE, GAVE}},
    {"expose",
     expose,
     {INVAL, OKAY, TWICE, INVAL, TWICE, INVAL, INVAL, INVAL, INVAL, INVAL, GAVE,
      INVAL}},
    {"post",
     post,
     {BUSY, INVAL, INVAL, OKAY, INVAL, OKAY, INVAL, INVAL, INVAL, GAVE, INVAL, GAVE}},
    {"seal",
     seal,
     {BUSY, INVAL, INVAL, FEW, INVAL, OKAY, INVAL, INVAL, INVAL, GAVE, INVAL, GAVE}},
    {"seal_data",
     seal_data,
     {BUSY, INVAL, INVAL, FEW, INVAL, OKAY, INVAL, INVAL, INVAL, GAVE, INVAL, GAVE}},
    {"done_data",
     done_data,
     {INVAL, INVAL, INVAL, INVAL, INVAL, INVAL, INVAL, INVAL, OKAY, INVAL, INVAL,
      INVAL}},
    {"declare_dead",
     mkv_xfer_declare_dead,
     {BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, OKAY, OKAY, OKAY, OKAY, OKAY}},
    {"close",
     mkv_xfer_close,
     {BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, OKAY, OKAY, OKAY, OKAY, BUSY}}};

/* Calls that are wrong in every state */
static mkv_status_t (*const nevers[])(mkv_xfer_t *xfer) = {
    request_no_leg, post_no_leg,  extend,
    query_no_leg,   abort_no_leg, abort_with_success};

static void expect_unchanged(const mkv_xfer_t *xfer, const mkv_xfer_attr_t *before)
{
    mkv_xfer_attr_t after = pair_query(xfer);

    ck_assert_int_eq(after.state, before->state);
    ck_assert_int_eq(after.status, before->status);
    ck_assert_int_eq(after.is_quiet, before->is_quiet);
    ck_assert_uint_eq(after.posted, before->posted);
    ck_assert_uint_eq(after.completed, before->completed);
    ck_assert_str_eq(after.error, before->error);
    ck_assert_str_eq(after.waiting_for, before->waiting_for);
}

/* Loop index: state */
/* SM-08 */
START_TEST(every_call_on_a_transfer_in_every_state)
{
    mkv_xfer_attr_t before;
    mkv_status_t status;
    mkv_xfer_t *xfer;
    unsigned i;

    for (i = 0; i < sizeof(calls) / sizeof(calls[0]); ++i) {
        bring_to((state_t)_i);
        xfer = of((state_t)_i);
        before = pair_query(xfer);
        status = calls[i].call(xfer);
        ck_assert_msg(status == calls[i].expected[_i], "%s in state %d is %s (%s)",
                      calls[i].name, _i, mkv_status_string(status), mkv_last_error());
        if ((status == MKV_OK) && (calls[i].call == mkv_xfer_close)) {
            *((xfer == active) ? &active : &passive) = NULL;
        } else if ((status != MKV_OK) && (status != MKV_ERR_LENGTH)) {
            ck_assert_str_ne(mkv_last_error(), "");
            pair_run();
            expect_unchanged(xfer, &before);
        }
        end();
    }
}
END_TEST

/* Loop index: state */
/* SM-08 */
START_TEST(what_is_never_right_changes_nothing)
{
    mkv_xfer_attr_t before;
    mkv_xfer_t *xfer;
    unsigned i;

    bring_to((state_t)_i);
    xfer = of((state_t)_i);
    before = pair_query(xfer);
    for (i = 0; i < sizeof(nevers) / sizeof(nevers[0]); ++i) {
        IS(nevers[i](xfer), MKV_ERR_INVALID);
    }
    pair_run();
    expect_unchanged(xfer, &before);
    end();
}
END_TEST

/* ---- Peers ----------------------------------------------------------------------- */

typedef enum peer_state {
    PEER_CONNECTING,
    PEER_READY,
    PEER_FAILED,
    PEER_LEFT,
    NUM_PEER_STATES
} peer_state_t;

static mkv_region_id_t region;
static uint8_t buffer[64];

static mkv_status_t map_create(mkv_peer_t *peer)
{
    mkv_map_t *map;
    mkv_status_t status = mkv_map_create(peer, NULL, &map);

    if (status == MKV_OK) {
        OK(mkv_map_destroy(map));
    }
    return status;
}

static mkv_status_t send_note(mkv_peer_t *peer)
{
    return mkv_send(peer, 1, 1, NULL, 0, "x", 1);
}

static mkv_status_t post_op(mkv_peer_t *peer)
{
    const mkv_op_params_t params = {
        .size = sizeof(params), .flags = MKV_OP_NOTIFY, .note = "x", .note_length = 1};
    mkv_op_t *op;
    mkv_status_t status = mkv_op_post(peer, &params, &op);

    if (status == MKV_OK) {
        pair_run();
        OK(mkv_op_close(op));
    }
    return status;
}

static mkv_status_t refuse(mkv_peer_t *peer)
{
    return mkv_xfer_refuse(peer, 1, 0, MKV_ERR_ABORTED, NULL);
}

static mkv_status_t refuse_with_success(mkv_peer_t *peer)
{
    return mkv_xfer_refuse(peer, 1, 0, MKV_OK, NULL);
}

static mkv_status_t close_peer(mkv_peer_t *peer)
{
    mkv_status_t status = mkv_peer_close(peer, MKV_CLOSE_FLUSH);

    A->peers[1] = (status == MKV_OK) ? NULL : peer;
    return status;
}

static const struct {
    const char *name;
    mkv_status_t (*call)(mkv_peer_t *peer);
    int expected[NUM_PEER_STATES];
} peer_calls[] = {{"map_create", map_create, {BUSY, OKAY, PEER, PEER}},
                  {"send", send_note, {BUSY, OKAY, PEER, PEER}},
                  {"op_post", post_op, {BUSY, OKAY, PEER, PEER}},
                  {"refuse", refuse, {NONE, NONE, NONE, NONE}},
                  {"refuse, OK", refuse_with_success, {INVAL, INVAL, INVAL, INVAL}},
                  {"declare_dead", mkv_peer_declare_dead, {OKAY, OKAY, OKAY, OKAY}},
                  {"close", close_peer, {OKAY, OKAY, OKAY, OKAY}}};

static void open_one(unsigned index)
{
    mkv_region_t info = pair_region(buffer, 0, 0);

    pair_open_bare(index, NULL);
    OK(mkv_region_add(pair_sides[index].ctx, &info, &region));
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

static void bring_peer_to(peer_state_t state)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);

    fake_ucp_reset();
    open_one(1);
    open_one(0);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    if (state == PEER_CONNECTING) {
        return;
    }
    pair_run();
    if (state == PEER_FAILED) {
        mkv_peer_fail(A->peers[1], MKV_ERR_PEER, "of the test");
    } else if (state == PEER_LEFT) {
        OK(mkv_peer_close(mkv_peer_find(B->ctx, A->ctx->process.ctx_id),
                          MKV_CLOSE_FLUSH));
    }
    pair_run();
}

/* Loop index: state */
/* SM-08 */
START_TEST(every_call_on_a_peer_in_every_state)
{
    mkv_status_t status;
    unsigned i;

    pair_set("LOG_LEVEL", "error");
    for (i = 0; i < sizeof(peer_calls) / sizeof(peer_calls[0]); ++i) {
        bring_peer_to((peer_state_t)_i);
        status = peer_calls[i].call(A->peers[1]);
        ck_assert_msg(status == peer_calls[i].expected[_i], "%s in state %d is %s (%s)",
                      peer_calls[i].name, _i, mkv_status_string(status),
                      mkv_last_error());
        pair_run();
        pair_teardown();
    }
}
END_TEST

/* ---- Objects in use -------------------------------------------------------------- */

/* Objects in use are not released: regions of a map, a map of a plan and a transfer, a
 * plan of a post, a peer of a transfer */
/* SM-08 */
START_TEST(what_is_in_use_stays)
{
    mkv_region_id_t first = 1;

    bring_to(ACTIVE_POSTED);
    IS(mkv_regions_drop(A->ctx, &first, 1), MKV_ERR_BUSY);
    IS(mkv_map_destroy(A->maps[1]), MKV_ERR_BUSY);
    IS(mkv_map_destroy(B->maps[0]), MKV_ERR_BUSY);
    IS(mkv_plan_destroy(plan), MKV_ERR_BUSY);
    IS(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH), MKV_ERR_BUSY);
    first = 1000;
    IS(mkv_regions_drop(A->ctx, &first, 1), MKV_ERR_NOTFOUND);
    OK(mkv_gate_forget(A->ctx, 5));
    fake_ucp_hold(0);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    end();
}
END_TEST

/* ---- No context, or another process' --------------------------------------------- */

static mkv_status_t null_blob(mkv_ctx_t *ctx)
{
    size_t length = 0;

    return mkv_blob(ctx, MKV_BLOB_ADDR, NULL, &length);
}

static mkv_status_t null_poll(mkv_ctx_t *ctx)
{
    mkv_event_t event;
    size_t count;

    return mkv_poll(ctx, &event, sizeof(event), 1, &count);
}

static mkv_status_t null_region(mkv_ctx_t *ctx)
{
    mkv_region_t nothing = {.size = sizeof(nothing)};
    mkv_region_id_t id;

    return mkv_region_add(ctx, &nothing, &id);
}

static mkv_status_t null_commit(mkv_ctx_t *ctx)
{
    return mkv_regions_commit(ctx, NULL);
}

static mkv_status_t null_open(mkv_ctx_t *ctx)
{
    mkv_xfer_params_t params = {.size = sizeof(params)};
    mkv_xfer_t *xfer;

    return mkv_xfer_open(ctx, &params, &xfer);
}

static mkv_status_t null_signal(mkv_ctx_t *ctx)
{
    return mkv_gate_signal(ctx, 1, 1);
}

static mkv_status_t (*const ctx_calls[])(mkv_ctx_t *ctx) = {
    null_blob, null_poll, null_region, null_commit, null_open, null_signal, mkv_arm};

#define NUM_CTX_CALLS (sizeof(ctx_calls) / sizeof(ctx_calls[0]))

START_TEST(a_call_without_a_context_is_refused)
{
    IS(ctx_calls[_i](NULL), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "the context is NULL"));
    ck_assert_uint_eq(mkv_progress(NULL), 0);
    IS(mkv_close(NULL), MKV_ERR_INVALID);
}
END_TEST

/* Run the checks of the child. @return Number of the failed check, 0 if none failed. */
static int in_the_child(void)
{
    const mkv_xfer_t xfer = {.ctx = A->ctx};
    const mkv_op_t op = {.ctx = A->ctx};
    mkv_ctx_t *own;
    size_t i;

    for (i = 0; i < NUM_CTX_CALLS; ++i) {
        if ((ctx_calls[i](A->ctx) != MKV_ERR_INVALID) ||
            (strstr(mkv_last_error(), "before fork()") == NULL)) {
            return 1 + (int)i;
        }
    }
    if ((mkv_progress(A->ctx) != 0) || (send_note(A->peers[1]) != MKV_ERR_INVALID)) {
        return 20;
    }
    if ((mkv_op_status(&op) != MKV_ERR_INVALID) ||
        (mkv_xfer_status(&xfer, NULL) != MKV_ERR_INVALID)) {
        return 23;
    }
    if ((mkv_map_destroy(A->maps[1]) != MKV_OK) ||
        (mkv_peer_close(A->peers[1], MKV_CLOSE_FORCE) != MKV_OK) ||
        (mkv_close(A->ctx) != MKV_OK)) {
        return 21;
    }
    return ((mkv_open(NULL, NULL, &own) == MKV_OK) && (mkv_close(own) == MKV_OK)) ? 0
                                                                                  : 22;
}

static void *hold_the_lock(void *arg)
{
    mkv_enter(A->ctx);
    pthread_barrier_wait(arg);
    pthread_barrier_wait(arg);
    mkv_leave_quietly(A->ctx);
    return NULL;
}

/* At the fork a thread that the child does not have holds the lock */
START_TEST(a_forked_child_cannot_use_a_context)
{
    pthread_barrier_t barrier;
    pthread_t thread;
    int status;
    pid_t pid;

    pair_setup();
    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, hold_the_lock, &barrier), 0);
    pthread_barrier_wait(&barrier);
    pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit(in_the_child());
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    pthread_barrier_wait(&barrier);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&barrier);
    ck_assert_int_eq(status, 0);
    pair_run();
    OK(send_note(A->peers[1])); /* the parent's context is as it was */
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_MSG, NULL), 1);
    pair_teardown();
}
END_TEST

/* The last error describes this call and not an earlier failure */
START_TEST(a_close_that_finds_something_open_names_it)
{
    pair_setup();
    (void)ctx_calls[0](NULL);
    IS(mkv_close(A->ctx), MKV_ERR_BUSY);
    A->ctx = NULL;
    free(A->mem);
    A->mem = NULL;
    ck_assert_ptr_nonnull(
        strstr(mkv_last_error(), "0 transfers, 0 operations and 1 maps"));
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("wrong");

    tcase_add_loop_test(tcase, a_call_without_a_context_is_refused, 0, NUM_CTX_CALLS);
    tcase_add_test(tcase, a_forked_child_cannot_use_a_context);
    tcase_add_test(tcase, a_close_that_finds_something_open_names_it);

    tcase_add_loop_test(tcase, every_call_on_a_transfer_in_every_state, 0, NUM_STATES);
    tcase_add_loop_test(tcase, what_is_never_right_changes_nothing, 0, NUM_STATES);
    tcase_add_loop_test(tcase, every_call_on_a_peer_in_every_state, 0, NUM_PEER_STATES);
    tcase_add_test(tcase, what_is_in_use_stays);
    return pair_main("mkv_wrong", tcase);
}
