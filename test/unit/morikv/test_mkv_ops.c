/* SPDX-License-Identifier: BSD-3-Clause */

/* Remote memory operations: one side calls alone, on memory that the other side has
 * opened. */

#include "test/support/mkv_pair.h"

#include <stdlib.h>
#include <string.h>

#define ROOM 65536u
#define PIECE 64u
#define A_SEED 5
#define B_SEED 9

static uint8_t mem[2][ROOM];
static mkv_region_id_t ids[2];
static mkv_op_t *op;
static ucs_memory_type_t mem_type = UCS_MEMORY_TYPE_HOST;

static mkv_region_id_t add_region(unsigned index, int32_t layer, void *base,
                                  size_t length, uint16_t flags)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 63,
                           .layer = layer,
                           .flags = (uint16_t)(flags | MKV_REGION_OPTIONAL),
                           .base = base,
                           .length = length,
                           .unit_bytes = length,
                           .n_units = 1,
                           .mem_type = (uint16_t)mem_type};
    mkv_region_id_t id;

    OK(mkv_region_add(pair_sides[index].ctx, &region, &id));
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
    return id;
}

static void setup(void)
{
    pair_setup();
    mkv_pattern_fill(mem[0], ROOM, A_SEED, 0);
    mkv_pattern_fill(mem[1], ROOM, B_SEED, 0);
    ids[0] = add_region(0, 1, mem[0], ROOM, 0);
    ids[1] = add_region(1, 2, mem[1], ROOM, MKV_REGION_ONE_SIDED);
    pair_run();
}

static mkv_op_params_t params_of(mkv_mode_t mode, const mkv_op_piece_t *pieces,
                                 size_t num)
{
    return (mkv_op_params_t){.size = sizeof(mkv_op_params_t),
                             .id = 7,
                             .mode = mode,
                             .pieces = pieces,
                             .num_pieces = num,
                             .user_data = ids};
}

/* Every second piece of the local region to every third place of the remote one */
static void scatter(mkv_op_piece_t *pieces, size_t num)
{
    size_t i;

    for (i = 0; i < num; ++i) {
        pieces[i] =
            (mkv_op_piece_t){ids[0], ids[1], 2 * i * PIECE, 3 * i * PIECE, PIECE};
    }
}

static mkv_op_attr_t query(void)
{
    mkv_op_attr_t attr = {.size = sizeof(attr)};

    OK(mkv_op_query(op, &attr));
    return attr;
}

static const mkv_event_t *last_of(const pair_side_t *side, mkv_event_type_t type)
{
    return pair_last(side, type, NULL);
}

static void check_scattered(mkv_mode_t mode, size_t num)
{
    int is_write = (mode == MKV_WRITE);
    size_t i, moved;

    for (i = 0; i < num; ++i) {
        moved = is_write ? mkv_pattern_check(mem[1] + 3 * i * PIECE, PIECE, A_SEED,
                                             2 * i * PIECE)
                         : mkv_pattern_check(mem[0] + 2 * i * PIECE, PIECE, B_SEED,
                                             3 * i * PIECE);
        ck_assert_uint_eq(moved, PIECE);
        ck_assert_uint_eq(is_write
                              ? mkv_pattern_check(mem[1] + (3 * i + 1) * PIECE, PIECE,
                                                  B_SEED, (3 * i + 1) * PIECE)
                              : mkv_pattern_check(mem[0] + (2 * i + 1) * PIECE, PIECE,
                                                  A_SEED, (2 * i + 1) * PIECE),
                          PIECE);
    }
}

static void finish(void)
{
    if (op != NULL) {
        OK(mkv_op_close(op));
    }
    op = NULL;
    pair_teardown();
}

/* Loop index: mode, and whether the lane takes lists */
/* OS-01 */
START_TEST(scattered_bytes_move_while_the_peer_calls_nothing)
{
    mkv_mode_t mode = (_i % 2 == 0) ? MKV_WRITE : MKV_READ;
    mkv_op_piece_t pieces[100];
    mkv_op_params_t params = params_of(mode, pieces, 100);
    int takes_lists = (_i / 2 == 0);
    unsigned i;
    size_t n;

    pair_set("SGL", takes_lists ? "yes" : "no");
    setup();
    scatter(pieces, 100);
    OK(mkv_op_post(A->peers[1], &params, &op));
    for (i = 0; i < 100; ++i) {
        mkv_progress(A->ctx); /* B is not progressed */
    }
    check_scattered(mode, 100);
    ck_assert_int_eq(mkv_op_status(op), MKV_OK);
    ck_assert_int_eq(query().is_quiet, 1);
    ck_assert_uint_eq(query().bytes, 100 * PIECE);
    ck_assert_uint_eq(query().pieces, 100);
    ck_assert_uint_eq(query().num_ucp_calls,
                      ((mode == MKV_WRITE) && takes_lists) ? 1 : 100);
    n = B->num_events;
    pair_run();
    ck_assert_uint_eq(B->num_events, n); /* the peer's application gets no event */
    ck_assert_ptr_eq(last_of(A, MKV_EV_DONE)->op, op);
    ck_assert_ptr_null(last_of(A, MKV_EV_DONE)->xfer);
    ck_assert_uint_eq(last_of(A, MKV_EV_DONE)->id, 7);
    ck_assert_ptr_eq(last_of(A, MKV_EV_DONE)->user_data, ids);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, NULL), 1);
    finish();
}
END_TEST

/* The lane refuses the first list, unlike expected: no piece is lost */
/* OS-01 */
START_TEST(a_refused_list_goes_piece_by_piece)
{
    mkv_op_piece_t pieces[50];
    mkv_op_params_t params = params_of(MKV_WRITE, pieces, 50);

    pair_set("SGL", "yes");
    setup();
    fake_ucp_set_lists(0);
    scatter(pieces, 50);
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_run();
    check_scattered(MKV_WRITE, 50);
    ck_assert_int_eq(mkv_op_status(op), MKV_OK);
    ck_assert_uint_eq(query().num_ucp_calls, 51);
    finish();
}
END_TEST

/* GPU memory: the first put to each memory goes alone and shows whether lists may
 * follow. The second memory has no lane. Loop index: UCX completes calls immediately */
START_TEST(memory_without_a_lane_gets_pieces)
{
    static uint8_t other[ROOM];
    mkv_op_piece_t pieces[40];
    mkv_op_params_t params = params_of(MKV_WRITE, pieces, 40);
    mkv_region_id_t id;
    size_t i;

    mem_type = UCS_MEMORY_TYPE_ROCM;
    setup();
    id = add_region(1, 3, other, ROOM, MKV_REGION_ONE_SIDED);
    pair_run();
    mem_type = UCS_MEMORY_TYPE_HOST;
    fake_ucp_close_way(other);
    fake_ucp_set_inline(_i ? FAKE_UCP_PUT | FAKE_UCP_LIST : 0);
    scatter(pieces, 40);
    for (i = 20; i < 40; ++i) {
        pieces[i].remote = id;
    }
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_run();
    ck_assert_int_eq(mkv_op_status(op), MKV_OK);
    check_scattered(MKV_WRITE, 20);
    for (i = 20; i < 40; ++i) {
        ck_assert_uint_eq(
            mkv_pattern_check(other + 3 * i * PIECE, PIECE, A_SEED, 2 * i * PIECE),
            PIECE);
    }
    ck_assert_uint_eq(fake_ucp_num_pieces(), 19);
    ck_assert_uint_eq(query().num_ucp_calls, 1 + 1 + 20);
    finish();
}
END_TEST

/* The first piece of each pair of memory types is looked at, and no other */
START_TEST(strict_mode_fails_what_another_class_carries)
{
    static uint8_t other[ROOM];
    mkv_op_piece_t pieces[40];
    mkv_op_params_t params = params_of(MKV_READ, pieces, 40);
    mkv_region_id_t id;
    size_t i;

    pair_set("BACKEND", "xgmi");
    pair_set("STRICT", "y");
    pair_set("MAX_INFLIGHT_OPS", "20");
    mem_type = UCS_MEMORY_TYPE_ROCM;
    setup();
    mem_type = UCS_MEMORY_TYPE_HOST;
    id = add_region(1, 3, other, ROOM, MKV_REGION_ONE_SIDED);
    pair_run();
    scatter(pieces, 40);
    for (i = 20; i < 40; ++i) {
        pieces[i].remote = id;
    }
    OK(mkv_op_post(A->peers[1], &params, &op));
    ck_assert_uint_eq(query().num_ucp_calls, 20);
    fake_ucp_set_path("software emulation tcp/fake0");
    pair_run();
    ck_assert_int_eq(mkv_op_status(op), MKV_ERR_BACKEND);
    ck_assert_ptr_nonnull(strstr(query().error, "a get of host memory into rocm"));
    ck_assert_uint_eq(query().num_ucp_calls, 21);
    finish();
}
END_TEST

/* OS-01 */
START_TEST(neighbours_on_both_sides_are_one_piece)
{
    static const uint64_t offsets[][3] = {
        {0, 128, 64}, {64, 192, 64}, {128, 300, 64}, {200, 364, 64}, {1000, 1000, 1}};
    mkv_op_piece_t pieces[5];
    mkv_op_params_t params = params_of(MKV_WRITE, pieces, 5);
    size_t i;

    setup();
    for (i = 0; i < 5; ++i) {
        pieces[i] = (mkv_op_piece_t){ids[0], ids[1], offsets[i][0], offsets[i][1],
                                     offsets[i][2]};
    }
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_run();
    ck_assert_uint_eq(query().pieces, 4);
    ck_assert_uint_eq(mkv_pattern_check(mem[1] + 128, 128, A_SEED, 0), 128);
    ck_assert_uint_eq(mkv_pattern_check(mem[1] + 300, 64, A_SEED, 128), 64);
    ck_assert_uint_eq(mkv_pattern_check(mem[1] + 364, 64, A_SEED, 200), 64);
    finish();
}
END_TEST

/* OS-02 */
START_TEST(memory_that_was_not_opened_is_refused)
{
    mkv_op_piece_t piece = {0, 0, 0, 0, 1};
    mkv_op_params_t params = params_of(MKV_READ, &piece, 1);
    mkv_region_id_t other;

    setup();
    other = add_region(1, 3, mem[1] + 1024, 1024, 0);
    pair_run();
    piece.local = ids[0];
    piece.remote = other;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "without MKV_REGION_ONE_SIDED"));
    piece.remote = 4711;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_NOTFOUND);
    piece.remote = ids[1];
    piece.local = 4711;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_NOTFOUND);
    ck_assert_uint_eq(pair_stats(A).ucp_calls, 0);
    finish();
}
END_TEST

/* Loop index: which rule */
/* OS-02 */
START_TEST(bad_pieces_are_refused_by_place)
{
    static const struct {
        uint64_t local, remote, length;
        mkv_status_t status;
        const char *text;
    } rows[] = {
        {ROOM - 1, 0, 2, MKV_ERR_BOUNDS,
         "operation: piece 1: 2 bytes from byte 65535 on, the local region has 65536"},
        {0, ROOM, 1, MKV_ERR_BOUNDS,
         "operation: piece 1: 1 bytes from byte 65536 on, the peer's region has 65536"},
        {UINT64_MAX, 0, 2, MKV_ERR_BOUNDS, "from byte 18446744073709551615 on"},
        {0, 2, UINT64_MAX, MKV_ERR_BOUNDS, "18446744073709551615 bytes"},
        {0, 0, 0, MKV_ERR_INVALID, "operation: piece 1 has no bytes"},
    };
    mkv_op_piece_t pieces[2];
    mkv_op_params_t params = params_of(MKV_WRITE, pieces, 2);

    setup();
    pieces[0] = (mkv_op_piece_t){ids[0], ids[1], 0, 0, ROOM};
    pieces[1] = (mkv_op_piece_t){ids[0], ids[1], rows[_i].local, rows[_i].remote,
                                 rows[_i].length};
    IS(mkv_op_post(A->peers[1], &params, &op), rows[_i].status);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), rows[_i].text));
    ck_assert_uint_eq(pair_stats(A).ucp_calls, 0);
    OK(mkv_regions_drop(A->ctx, ids, 1)); /* the refused one holds nothing */
    finish();
}
END_TEST

/* An operation with notes notifies the peer after the bytes arrive, in the order of
 * mkv_send() */
/* OS-03 */
START_TEST(a_note_comes_after_the_bytes)
{
    mkv_op_piece_t pieces[4];
    mkv_op_params_t params = params_of(MKV_WRITE, pieces, 4);
    const mkv_event_t *event;

    setup();
    scatter(pieces, 4);
    params.flags = MKV_OP_NOTIFY;
    params.note = "first token";
    params.note_length = 11;
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_NOTE, NULL), 0);
    ck_assert_int_eq(mkv_op_status(op), MKV_INPROGRESS);
    fake_ucp_hold(0);
    pair_run();
    event = last_of(B, MKV_EV_NOTE);
    ck_assert_ptr_eq(event->peer, B->peers[0]);
    ck_assert_uint_eq(event->id, 7);
    ck_assert_int_eq(event->status, MKV_OK);
    ck_assert_uint_eq(event->value, MKV_WRITE);
    ck_assert_uint_eq(event->length, 11);
    check_scattered(MKV_WRITE, 4);
    ck_assert_int_eq(mkv_op_status(op), MKV_OK);
    finish();
}
END_TEST

/* OS-03 */
START_TEST(notes_and_messages_keep_their_order)
{
    mkv_op_params_t params = params_of(MKV_READ, NULL, 0);
    mkv_op_t *ops[3];
    size_t i, n = 0;
    uint64_t want[6] = {100, 0, 101, 1, 102, 2};

    setup();
    params.flags = MKV_OP_NOTIFY;
    for (i = 0; i < 3; ++i) {
        OK(mkv_send(A->peers[1], 100 + i, 0, NULL, 0, NULL, 0));
        params.id = i;
        OK(mkv_op_post(A->peers[1], &params, &ops[i]));
    }
    pair_run();
    for (i = 0; i < B->num_events; ++i) {
        if ((B->events[i].type == MKV_EV_NOTE) || (B->events[i].type == MKV_EV_MSG)) {
            ck_assert_uint_lt(n, 6);
            ck_assert_uint_eq(B->events[i].id, want[n++]);
        }
    }
    ck_assert_uint_eq(n, 6);
    for (i = 0; i < 3; ++i) {
        OK(mkv_op_close(ops[i]));
    }
    finish();
}
END_TEST

/* Loop index: kind of the call that fails */
/* OS-03 */
START_TEST(a_failure_has_its_status_and_reaches_the_peer)
{
    static const unsigned kinds[] = {FAKE_UCP_PUT, FAKE_UCP_GET, FAKE_UCP_LIST,
                                     FAKE_UCP_FLUSH};
    mkv_mode_t mode = (kinds[_i] == FAKE_UCP_GET) ? MKV_READ : MKV_WRITE;
    mkv_op_piece_t pieces[8];
    mkv_op_params_t params = params_of(mode, pieces, 8);

    pair_set("SGL", (kinds[_i] == FAKE_UCP_LIST) ? "yes" : "no");
    setup();
    scatter(pieces, 8);
    params.flags = MKV_OP_NOTIFY;
    fake_ucp_fail(kinds[_i], (kinds[_i] & (FAKE_UCP_PUT | FAKE_UCP_GET)) ? 3 : 0,
                  UCS_ERR_IO_ERROR);
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_run();
    ck_assert_int_eq(mkv_op_status(op), MKV_ERR_TRANSPORT);
    ck_assert_ptr_nonnull(strstr(query().error, "operation 7, peer B: "));
    ck_assert_int_eq(last_of(A, MKV_EV_FAILED)->status, MKV_ERR_TRANSPORT);
    ck_assert_ptr_eq(last_of(A, MKV_EV_FAILED)->op, op);
    ck_assert_uint_eq(pair_count(A, MKV_EV_DONE, NULL), 0);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, NULL), 1);
    ck_assert_int_eq(last_of(B, MKV_EV_NOTE)->status, MKV_ERR_TRANSPORT);
    finish();
}
END_TEST

/* Status at once, quiet when nothing is in flight any more. Loop index: mode */
/* OS-04 */
START_TEST(an_aborted_one_is_quiet_after_its_calls)
{
    mkv_mode_t mode = (_i == 0) ? MKV_WRITE : MKV_READ;
    mkv_op_piece_t pieces[8];
    mkv_op_params_t params = params_of(mode, pieces, 8);

    setup();
    scatter(pieces, 8);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_GET | FAKE_UCP_LIST);
    OK(mkv_op_post(A->peers[1], &params, &op));
    OK(mkv_op_abort(op));
    pair_run();
    ck_assert_int_eq(last_of(A, MKV_EV_ABORTED)->status, MKV_ERR_ABORTED);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, NULL), 0);
    IS(mkv_op_close(op), MKV_ERR_BUSY);
    IS(mkv_regions_drop(A->ctx, ids, 1), MKV_ERR_BUSY);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, NULL), (mode == MKV_READ) ? 1 : 0);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, NULL), 1);
    OK(mkv_op_abort(op)); /* harmless */
    ck_assert_uint_eq(pair_count(A, MKV_EV_ABORTED, NULL), 1);
    OK(mkv_op_close(op));
    op = NULL;
    OK(mkv_regions_drop(A->ctx, ids, 1));
    finish();
}
END_TEST

/* Another flush follows it. The note of the failure may have another lane than the
 * puts. */
/* OS-04 */
START_TEST(a_flush_that_fails_proves_nothing)
{
    mkv_op_piece_t pieces[8];
    mkv_op_params_t params = params_of(MKV_WRITE, pieces, 8);

    setup();
    scatter(pieces, 8);
    fake_ucp_fail(FAKE_UCP_FLUSH, 0, UCS_ERR_IO_ERROR);
    OK(mkv_op_post(A->peers[1], &params, &op));
    while (mkv_op_status(op) == MKV_INPROGRESS) {
        (void)mkv_progress(A->ctx);
    }
    fake_ucp_hold(FAKE_UCP_FLUSH);
    pair_run();
    ck_assert_int_eq(mkv_op_status(op), MKV_ERR_TRANSPORT);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, NULL), 0);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, NULL), 1);
    finish();
}
END_TEST

/* Loop index: whether the peer answers, so that the connection stays */
/* OS-04 */
START_TEST(a_deadline_ends_it_and_a_silent_peers_connection)
{
    mkv_op_piece_t pieces[2];
    mkv_op_params_t params = params_of(MKV_WRITE, pieces, 2);
    unsigned i;

    setup();
    scatter(pieces, 2);
    params.timeout_ms = 100;
    params.drain_timeout_ms = 50;
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_now += 99 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_int_eq(mkv_op_status(op), MKV_INPROGRESS);
    pair_now += 1 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_int_eq(mkv_op_status(op), MKV_ERR_XFER_TIMEOUT);
    ck_assert_int_eq(query().is_quiet, 0);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    fake_ucp_stop_worker(fake_ucp_worker(1), !_i);
    for (i = 0; i < 2; ++i) {
        ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
        pair_now += 50 * MKV_NSEC_PER_MSEC;
        pair_run();
        pair_run(); /* the next progress sends a deadline's messages */
    }
    if (_i) {
        ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
        ck_assert_int_eq(query().is_quiet, 0);
        fake_ucp_hold(0);
    } else {
        ck_assert_int_eq(last_of(A, MKV_EV_PEER_FAILED)->status, MKV_ERR_DRAIN_TIMEOUT);
        fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    }
    pair_run();
    ck_assert_int_eq(query().is_quiet, 1);
    finish();
}
END_TEST

/* Loop index: whether it has ended before */
/* OS-04 */
START_TEST(a_broken_connection_ends_it)
{
    mkv_op_piece_t pieces[8];
    mkv_op_params_t params = params_of(MKV_WRITE, pieces, 8);

    setup();
    scatter(pieces, 8);
    fake_ucp_hold(_i ? 0 : FAKE_UCP_PUT | FAKE_UCP_LIST);
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_run();
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(mkv_op_status(op), _i ? MKV_OK : MKV_ERR_PEER);
    ck_assert_int_eq(query().is_quiet, 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, NULL), 1);
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_PEER);
    finish();
}
END_TEST

/* Loop index 0 is a WRITE by messages on a connection that breaks. No bytes can arrive
 * after QUIET in the others: 1 uses a direct path, 2 is a READ, 3 keeps the
 * connection. */
/* OS-04 */
START_TEST(quiet_reports_whether_bytes_may_still_arrive)
{
    mkv_op_piece_t pieces[2];
    mkv_op_params_t params = params_of((_i == 2) ? MKV_READ : MKV_WRITE, pieces, 2);
    const unsigned calls = FAKE_UCP_PUT | FAKE_UCP_LIST | FAKE_UCP_GET;

    setup();
    scatter(pieces, 2);
    fake_ucp_set_path((_i == 1) ? "zero-copy mori_xgmi/xgmi0"
                                : "software emulation tcp/fake0");
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_run();
    ck_assert_uint_eq(last_of(A, MKV_EV_QUIET)->value, 0);
    OK(mkv_op_close(op));

    fake_ucp_hold(calls);
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_run();
    if (_i == 3) {
        OK(mkv_op_abort(op));
    } else {
        fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    }
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_ne(mkv_op_status(op), MKV_OK);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, NULL), 2);
    ck_assert_uint_eq(last_of(A, MKV_EV_QUIET)->value, _i == 0);
    ck_assert_uint_eq(query().may_arrive, _i == 0);
    finish();
}
END_TEST

/* OS-04 */
START_TEST(a_peer_is_not_closed_under_it)
{
    mkv_op_piece_t pieces[2];
    mkv_op_params_t params = params_of(MKV_WRITE, pieces, 2);

    setup();
    scatter(pieces, 2);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    OK(mkv_op_post(A->peers[1], &params, &op));
    IS(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH), MKV_ERR_BUSY);
    ck_assert_str_eq(mkv_last_error(),
                     "peer B is used by open operations, the first is 7");
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FORCE));
    pair_run();
    ck_assert_int_eq(mkv_op_status(op), MKV_ERR_PEER);
    ck_assert_int_eq(query().is_quiet, 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_CLOSED, NULL), 0); /* the close waits */
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(query().is_quiet, 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_CLOSED, NULL), 1);
    finish();
}
END_TEST

START_TEST(an_event_does_not_name_what_was_closed)
{
    mkv_op_params_t params = params_of(MKV_WRITE, NULL, 0);

    setup();
    OK(mkv_op_post(A->peers[1], &params, &op));
    ck_assert_int_eq(query().is_quiet, 1);
    OK(mkv_op_close(op)); /* before mkv_poll() */
    op = NULL;
    pair_run();
    ck_assert_ptr_null(last_of(A, MKV_EV_DONE)->op);
    ck_assert_ptr_null(last_of(A, MKV_EV_QUIET)->op);
    finish();
}
END_TEST

/* Many with few credits: all end, and never more are in flight */
/* OS-01 */
START_TEST(credits_bound_what_is_in_flight)
{
    mkv_op_piece_t pieces[100];
    mkv_op_params_t params = params_of(MKV_READ, pieces, 100);
    mkv_op_t *ops[10];
    size_t i;

    pair_set("MAX_INFLIGHT_OPS", "16");
    setup();
    scatter(pieces, 100);
    fake_ucp_hold(FAKE_UCP_GET);
    for (i = 0; i < 10; ++i) {
        OK(mkv_op_post(A->peers[1], &params, &ops[i]));
        ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_GET), 16);
    }
    ck_assert_uint_eq(pair_stats(A).inflight_ops, 16);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_stats(A).inflight_ops, 0);
    ck_assert_uint_eq(pair_stats(A).inflight_bytes, 0);
    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(mkv_op_status(ops[i]), MKV_OK);
        OK(mkv_op_close(ops[i]));
    }
    finish();
}
END_TEST

/* UCX completes each call at once, so credits alone bound nothing. Loop index: READ */
START_TEST(a_round_gives_ucx_a_bounded_number_of_calls)
{
    enum { NUM = 10000, MAX_CALLS = MKV_ROUND_COST / MKV_CALL_COST };
    static mkv_op_piece_t pieces[NUM];
    mkv_op_params_t params = params_of(_i ? MKV_READ : MKV_WRITE, pieces, NUM);
    uint64_t calls = 0;
    size_t i;

    pair_set("SGL", "no");
    setup();
    fake_ucp_set_inline(FAKE_UCP_PUT | FAKE_UCP_GET);
    for (i = 0; i < NUM; ++i) {
        pieces[i] = (mkv_op_piece_t){ids[0], ids[1], 2 * (i % 1000), 3 * (i % 1000), 1};
    }
    OK(mkv_op_post(A->peers[1], &params, &op));
    do {
        ck_assert_uint_gt(query().num_ucp_calls, calls);
        ck_assert_uint_le(query().num_ucp_calls - calls, MAX_CALLS);
        calls = query().num_ucp_calls;
        (void)mkv_progress(A->ctx);
    } while (query().num_ucp_calls < NUM);
    pair_run();
    ck_assert_int_eq(query().status, MKV_OK);
    ck_assert(query().is_quiet);
    finish();
}
END_TEST

/* OS-04 */
START_TEST(what_is_left_open_is_closed_with_the_context)
{
    mkv_op_piece_t pieces[2];
    mkv_op_params_t params = params_of(MKV_WRITE, pieces, 2);

    setup();
    scatter(pieces, 2);
    OK(mkv_op_post(A->peers[1], &params, &op));
    op = NULL;
    OK(mkv_map_destroy(A->maps[1]));
    IS(mkv_close(A->ctx), MKV_ERR_BUSY);
    free(A->mem);
    pair_forget(A);
    pair_run();
    finish();
}
END_TEST

/* OS-02, SM-08 */
START_TEST(bad_parameters_are_refused)
{
    static const uint8_t note[8192];
    const mkv_op_piece_t piece = {.length = 1};
    mkv_op_params_t params = params_of(MKV_WRITE, NULL, 0);

    pair_set("MAX_MESSAGE", "8k");
    setup();
    params.flags = 1u << 31;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_UNSUPPORTED);
    params.flags = 0;
    params.note = note;
    params.note_length = 1;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_INVALID);
    params.flags = MKV_OP_NOTIFY;
    params.note_length = sizeof(note) - 127;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_LENGTH);
    params.note = NULL;
    params.note_length = 1;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_INVALID);
    params.note_length = 0;
    params.num_pieces = 1;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_INVALID);
    params.pieces = &piece; /* memory cannot hold so many */
    params.num_pieces = SIZE_MAX / 16;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_NOMEM);
    params.pieces = NULL;
    params.num_pieces = 0;
    params.mode = (mkv_mode_t)2;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_INVALID);
    params.size = 8;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_INVALID);
    finish();
}
END_TEST

/* Loop index: mode; the first call of a kind is queried, and never ends at once */
/* OS-01 */
START_TEST(an_operation_that_ends_in_the_call_is_closed_there)
{
    mkv_mode_t mode = (_i == 0) ? MKV_WRITE : MKV_READ;
    mkv_op_piece_t pieces[4];
    mkv_op_params_t params = params_of(mode, pieces, 4);
    size_t num_events;

    setup();
    scatter(pieces, 4);
    OK(mkv_op_post(A->peers[1], &params, &op));
    pair_run();
    OK(mkv_op_close(op));
    mkv_pattern_fill(mem[0], ROOM, A_SEED, 0);
    mkv_pattern_fill(mem[1], ROOM, B_SEED, 0);
    num_events = A->num_events;
    A->ctx->is_armed = true;
    params.flags = MKV_OP_AT_ONCE;
    OK(mkv_op_post(A->peers[1], &params, &op));
    ck_assert_ptr_null(op);
    check_scattered(mode, 4);
    ck_assert(A->ctx->is_armed); /* no thread was woken */
    params.flags |= MKV_OP_NOTIFY;
    OK(mkv_op_post(A->peers[1], &params, &op));
    ck_assert_ptr_null(op);
    ck_assert(!A->ctx->is_armed); /* the note is under way */
    pair_run();
    ck_assert_uint_eq(A->num_events, num_events);
    ck_assert_uint_eq(pair_count(B, MKV_EV_NOTE, NULL), 1);
    OK(mkv_regions_drop(A->ctx, ids, 1)); /* it holds nothing */
    finish();
}
END_TEST

/* Loop index: mode, and whether it fails */
/* OS-01 */
START_TEST(an_operation_that_goes_on_has_its_events)
{
    mkv_mode_t mode = (_i % 2 == 0) ? MKV_WRITE : MKV_READ;
    unsigned call = (mode == MKV_WRITE) ? FAKE_UCP_FLUSH : FAKE_UCP_GET;
    mkv_op_piece_t pieces[4];
    mkv_op_params_t params = params_of(mode, pieces, 4);

    setup();
    scatter(pieces, 4);
    params.flags = MKV_OP_AT_ONCE;
    if (_i / 2 == 0) {
        fake_ucp_hold(call);
    } else {
        fake_ucp_fail(call, 0, UCS_ERR_IO_ERROR);
    }
    OK(mkv_op_post(A->peers[1], &params, &op));
    ck_assert_ptr_nonnull(op);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(A, (_i / 2 == 0) ? MKV_EV_DONE : MKV_EV_FAILED, NULL),
                      1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, NULL), 1);
    finish();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("ops");

    tcase_add_loop_test(tcase, a_round_gives_ucx_a_bounded_number_of_calls, 0, 2);
    tcase_add_loop_test(tcase, scattered_bytes_move_while_the_peer_calls_nothing, 0, 4);
    tcase_add_test(tcase, a_refused_list_goes_piece_by_piece);
    tcase_add_loop_test(tcase, memory_without_a_lane_gets_pieces, 0, 2);
    tcase_add_test(tcase, strict_mode_fails_what_another_class_carries);
    tcase_add_test(tcase, neighbours_on_both_sides_are_one_piece);
    tcase_add_test(tcase, memory_that_was_not_opened_is_refused);
    tcase_add_loop_test(tcase, bad_pieces_are_refused_by_place, 0, 5);
    tcase_add_test(tcase, a_note_comes_after_the_bytes);
    tcase_add_test(tcase, notes_and_messages_keep_their_order);
    tcase_add_loop_test(tcase, a_failure_has_its_status_and_reaches_the_peer, 0, 4);
    tcase_add_loop_test(tcase, an_aborted_one_is_quiet_after_its_calls, 0, 2);
    tcase_add_test(tcase, a_flush_that_fails_proves_nothing);
    tcase_add_loop_test(tcase, a_deadline_ends_it_and_a_silent_peers_connection, 0, 2);
    tcase_add_loop_test(tcase, a_broken_connection_ends_it, 0, 2);
    tcase_add_loop_test(tcase, quiet_reports_whether_bytes_may_still_arrive, 0, 4);
    tcase_add_test(tcase, a_peer_is_not_closed_under_it);
    tcase_add_test(tcase, an_event_does_not_name_what_was_closed);
    tcase_add_test(tcase, credits_bound_what_is_in_flight);
    tcase_add_test(tcase, what_is_left_open_is_closed_with_the_context);
    tcase_add_test(tcase, bad_parameters_are_refused);
    tcase_add_loop_test(tcase, an_operation_that_ends_in_the_call_is_closed_there, 0,
                        2);
    tcase_add_loop_test(tcase, an_operation_that_goes_on_has_its_events, 0, 4);
    return pair_main("mkv_ops", tcase);
}
