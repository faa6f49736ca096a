/* SPDX-License-Identifier: BSD-3-Clause */

/* Plans, posts and credits on a UCP held by the test. */

#include "test/support/mkv_pair.h"

#include "src/post/post.h"

#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CALLS (FAKE_UCP_PUT | FAKE_UCP_GET | FAKE_UCP_LIST)

START_TEST(plans_refuse_what_does_not_fit)
{
    const uint32_t blocks[] = {0, 1, PAIR_BLOCKS};
    mkv_units_t units[2] = {
        {.num_local = 2, .num_remote = 2, .local = blocks, .remote = blocks},
        {.num_local = 2, .num_remote = 2, .local = blocks, .remote = blocks}};
    mkv_plan_t *plan;

    pair_setup();
    IS(mkv_plan_create(A->maps[1], units, 2, 0, &plan), MKV_ERR_DUPLICATE);
    units[0].num_remote = 1;
    IS(mkv_plan_create(A->maps[1], units, 1, 0, &plan), MKV_ERR_LENGTH);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "2 blocks here, 1 at peer B"));
    units[0].num_local = units[0].num_remote = 3;
    IS(mkv_plan_create(A->maps[1], units, 1, 0, &plan), MKV_ERR_BOUNDS);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "block 32 at position 2"));
    units[1].local = NULL;
    IS(mkv_plan_create(A->maps[1], &units[1], 1, 0, &plan), MKV_ERR_INVALID);
    units[1].local = blocks;
    units[1].remote = NULL;
    IS(mkv_plan_create(A->maps[1], &units[1], 1, 0, &plan), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(
        strstr(mkv_last_error(), "component 0: a block list is NULL"));
    units[0].component = 1;
    IS(mkv_plan_create(A->maps[1], units, 1, 0, &plan), MKV_ERR_PAIRING);
    IS(mkv_plan_create(A->maps[1], units, 0, 8, &plan), MKV_ERR_UNSUPPORTED);
    pair_teardown();
}
END_TEST

/* The plan is refused here; the text goes to the other side with the abort */
/* PL-03 */
START_TEST(a_block_count_mismatch_is_reported_to_both_sides)
{
    const uint32_t blocks[] = {0, 1};
    mkv_units_t units = {
        .num_local = 2, .num_remote = 1, .local = blocks, .remote = blocks};
    const char *what = "2 blocks here, 1 at peer B";
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_setup();
    active = pair_bind_write(1, &passive);
    IS(mkv_plan_create(A->maps[1], &units, 1, 0, &plan), MKV_ERR_LENGTH);
    OK(mkv_xfer_abort(active, MKV_ERR_LENGTH, mkv_last_error()));
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_LENGTH);
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_LENGTH);
    ck_assert_ptr_nonnull(strstr(pair_query(active).error, what));
    ck_assert_ptr_nonnull(strstr(pair_last(B, MKV_EV_FAILED, passive)->text, what));
    ck_assert_uint_eq(fake_ucp_num_calls(CALLS), 0);
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* A mistake of one moved nothing, and nothing was reported */
START_TEST(layers_that_the_map_does_not_have_are_refused)
{
    static const int32_t layers[][2] = {{0, 5}, {4, 5}, {-1, 2}, {0, INT32_MAX}};
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS};
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_setup();
    active = pair_bind_write(4, &passive);
    plan = pair_plan(A, 1, 0, 0, 4, 0);
    sel.layer_lo = layers[_i][0];
    sel.layer_hi = layers[_i][1];
    IS(mkv_xfer_post(active, 0, plan, &sel, NULL), MKV_ERR_BOUNDS);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "expected some of [0, 4)"));
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* PL-02 */
START_TEST(one_plan_serves_all_layers_without_allocating)
{
    mkv_xfer_t *active, *passive;
    uint64_t allocs = 0;
    mkv_plan_t *plan;
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS};
    int32_t layer;

    pair_layers = 61;
    pair_setup();
    active = pair_bind_write(8, &passive);
    plan = pair_plan(A, 1, 0, 0, 8, 0);
    for (layer = 0; layer < (int32_t)pair_layers; ++layer) {
        sel.layer_lo = layer;
        sel.layer_hi = layer + 1;
        OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
        pair_run();
        allocs = (layer == 0) ? pair_stats(A).lists_allocated : allocs;
    }
    ck_assert_uint_eq(pair_stats(A).plans_created, 1);
    ck_assert_uint_eq(pair_stats(A).plan_posts, pair_layers);
    ck_assert_uint_eq(pair_stats(A).lists_allocated, allocs);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST), pair_layers);
    ck_assert_uint_eq(fake_ucp_num_pieces(), pair_layers * PAIR_PARTS * 8);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* A hundred thousand pieces through sixteen places. Loop index: lists. There are never
 * more lists than places, so that their memory does not grow either. */
START_TEST(the_short_status_is_that_of_the_query)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;
    uint64_t completed;

    pair_setup();
    active = pair_bind_write(PAIR_BLOCKS, &passive);
    plan = pair_plan(A, 1, 0, 0, PAIR_BLOCKS, 0);
    IS(mkv_xfer_status(active, &completed), MKV_INPROGRESS);
    ck_assert_uint_eq(completed, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    IS(mkv_xfer_status(active, &completed), MKV_OK);
    ck_assert_uint_gt(completed, 0);
    ck_assert_uint_eq(completed, pair_query(active).completed);
    pair_close(active, passive, plan);

    active = pair_bind_write(4, &passive);
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
    pair_run();
    IS(mkv_xfer_status(active, NULL), MKV_ERR_ABORTED);
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* CC-07 */
START_TEST(credits_bound_what_is_in_flight)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;
    unsigned rounds, lists, i;

    pair_set("MAX_INFLIGHT_OPS", "16");
    mkv_tuning.sgl_max = 7;
    pair_setup();
    fake_ucp_set_lists(_i);
    active = pair_bind_write(PAIR_BLOCKS, &passive);
    plan = pair_plan(A, 1, 0, 0, PAIR_BLOCKS, 0);
    rounds = 100000 / (PAIR_BLOCKS * pair_layers * PAIR_PARTS) + 1;
    for (i = 0; i < rounds; ++i) {
        OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
        ck_assert_uint_le(fake_ucp_num_waiting(CALLS), 16);
    }
    ck_assert_uint_eq(pair_stats(A).inflight_ops, 16);
    while (pair_query(active).completed < pair_query(active).posted) {
        (void)mkv_progress(A->ctx);
        ck_assert_uint_le(fake_ucp_num_waiting(CALLS), 16);
    }
    ck_assert_uint_ge(pair_query(active).completed, 100000);
    ck_assert_uint_ge(_i ? fake_ucp_num_pieces() : fake_ucp_num_calls(FAKE_UCP_PUT),
                      100000);
    lists = PAIR_BLOCKS * pair_layers * PAIR_PARTS / 7 + 1; /* of one post */
    ck_assert_uint_le(pair_stats(A).lists_allocated,
                      _i ? 2 * lists : 1); /* one is refused */
    ck_assert_uint_eq(pair_stats(A).inflight_ops, 0);
    ck_assert_uint_eq(pair_stats(A).inflight_bytes, 0);
    ck_assert_uint_eq(pair_stats(A).queued_posts, 0);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* CC-07 */
START_TEST(byte_credits_return_exactly)
{
    mkv_xfer_t *active, *passive;
    const mkv_post_t *post;
    mkv_plan_t *plan;

    pair_set("MAX_INFLIGHT_BYTES", "1000");
    mkv_tuning.sgl_max = 7;
    pair_setup();
    active = pair_bind_write(PAIR_BLOCKS, &passive);
    plan = pair_plan(A, 1, 0, 0, PAIR_BLOCKS, 0);
    fake_ucp_hold(CALLS);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    ck_assert_uint_eq(fake_ucp_num_waiting(CALLS), 3); /* 3 x 7 x 64 >= 1000 */
    ck_assert_uint_eq(pair_stats(A).inflight_bytes, 3 * 7 * PAIR_BYTES);
    post = mkv_list_head(&active->legs[0].posts, mkv_post_t, list);
    ck_assert_uint_eq(post->call_bytes, 7 * PAIR_BYTES); /* places that each returns */
    fake_ucp_hold(0);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_stats(A).inflight_bytes, 0);
    ck_assert_uint_eq(pair_stats(A).bytes_written, pair_query(passive).bytes);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* PL-06 */
START_TEST(chunks_of_positions_equal_one_shot)
{
    static const uint32_t ends[] = {1, 4, 5, 11, 12, 13, 20};
    mkv_xfer_t *active, *passive;
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_POSITIONS};
    mkv_plan_t *plan;
    uint32_t i;

    pair_setup();
    active = pair_bind_write(20, &passive);
    plan = pair_plan(A, 1, 0, 0, 20, 0);
    sel.pos_hi = 1;
    IS(mkv_xfer_post(active, 0, plan, &sel, NULL), MKV_ERR_INVALID);
    OK(mkv_plan_destroy(plan));
    plan = pair_plan(A, 1, 0, 0, 20, MKV_PLAN_KEEP_ORDER);
    for (i = 0; i < 7; ++i) {
        sel.pos_lo = (i == 0) ? 0 : ends[i - 1];
        sel.pos_hi = ends[i];
        OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    }
    sel.pos_hi = 21;
    IS(mkv_xfer_post(active, 0, plan, &sel, NULL), MKV_ERR_BOUNDS);
    OK(mkv_xfer_seal(active, 0));
    IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_INVALID);
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    for (i = 0; i < 20; ++i) {
        ck_assert(pair_holds(B, 19 - i, 0, i));
    }
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Components 1 and 2 of layer 0: memory of another type, and of another allocation */
static void add_two_components(pair_side_t *side, char *host, char *gpu)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 1,
                           .base = host,
                           .length = PAIR_BLOCKS * PAIR_BYTES,
                           .unit_bytes = PAIR_BYTES,
                           .n_units = PAIR_BLOCKS,
                           .mem_type = UCS_MEMORY_TYPE_HOST};
    mkv_region_id_t id;

    OK(mkv_region_add(side->ctx, &region, &id));
    region.component = 2;
    region.base = gpu;
    region.mem_type = UCS_MEMORY_TYPE_ROCM;
    OK(mkv_region_add(side->ctx, &region, &id));
    OK(mkv_regions_commit(side->ctx, NULL));
}

/* A list that continues behind a component without blocks takes the handles and keys of
 * the place, wherever the lists before it were cut (loop index) */
/* PL-05 */
START_TEST(lists_skip_an_empty_component)
{
    static char host[2][PAIR_BLOCKS * PAIR_BYTES], gpu[2][PAIR_BLOCKS * PAIR_BYTES];
    uint32_t blocks[PAIR_BLOCKS], i;
    mkv_units_t units[2] = {{.num_local = PAIR_BLOCKS,
                             .num_remote = PAIR_BLOCKS,
                             .local = blocks,
                             .remote = blocks},
                            {.component = 2,
                             .num_local = PAIR_BLOCKS,
                             .num_remote = PAIR_BLOCKS,
                             .local = blocks,
                             .remote = blocks}};
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    mkv_tuning.sgl_max = (uint64_t)_i;
    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    add_two_components(A, host[0], gpu[0]);
    add_two_components(B, host[1], gpu[1]);
    pair_connect(0, 1);
    for (i = 0; i < PAIR_BLOCKS; ++i) { /* every second one first: nothing merges */
        blocks[i] = (2 * i) % PAIR_BLOCKS + (2 * i) / PAIR_BLOCKS;
    }
    for (i = 0; i < sizeof(gpu[0]); ++i) {
        gpu[0][i] = (char)(i * 7 + 1);
    }
    memset(gpu[1], 0, sizeof(gpu[1]));

    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    OK(mkv_xfer_expose(passive, MKV_LEG_ALL, units, 2, NULL, 0));
    pair_run();
    OK(mkv_plan_create(A->maps[1], units, 2, MKV_PLAN_KEEP_ORDER, &plan));
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    ck_assert_uint_eq(fake_ucp_num_pieces(),
                      (pair_layers * PAIR_PARTS + 1) * PAIR_BLOCKS);
    ck_assert_mem_eq(gpu[1], gpu[0], sizeof(gpu[0]));
    for (i = 0; i < PAIR_BLOCKS; ++i) {
        ck_assert(pair_holds(B, i, 0, i));
    }
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* PL-03 */
START_TEST(seal_refuses_a_forgotten_layer_on_both_sides)
{
    mkv_xfer_t *active, *passive;
    mkv_sel_t sel = {.size = sizeof(sel),
                     .fields = MKV_SEL_LAYERS,
                     .layer_hi = (int32_t)pair_layers - 1};
    mkv_plan_t *plan;

    pair_setup();
    active = pair_bind_write(8, &passive);
    plan = pair_plan(A, 1, 0, 0, 8, 0);
    OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    IS(mkv_xfer_seal(active, 0), MKV_ERR_LENGTH);
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_LENGTH);
    ck_assert_ptr_nonnull(strstr(pair_query(passive).error,
                                 "layer 3 part 0: 0 units posted, 8 expected"));
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Loop index: the signal comes after the post, before it, and before it with more */
START_TEST(gates_open_by_signal)
{
    mkv_gate_t gate = {.size = sizeof(gate), .id = 5, .value = 7};
    mkv_xfer_t *active, *passive;
    mkv_xfer_attr_t attr;
    mkv_plan_t *plan;

    pair_setup();
    active = pair_bind_write(8, &passive);
    plan = pair_plan(A, 1, 0, 0, 8, 0);
    OK(mkv_gate_signal(A->ctx, 5, 6));
    OK(mkv_gate_signal(A->ctx, 6, 7));
    if (_i > 0) {
        OK(mkv_gate_signal(A->ctx, 5, (_i == 2) ? 100 : 7));
        OK(mkv_gate_signal(A->ctx, 5, 2)); /* it never falls */
    }
    OK(mkv_xfer_post(active, 0, plan, NULL, &gate));
    OK(mkv_xfer_seal(active, 0));
    if (_i == 0) {
        pair_run();
        ck_assert_uint_eq(fake_ucp_num_calls(CALLS), 0);
        attr = pair_query(active);
        ck_assert_str_eq(attr.waiting_for, "leg 0 (peer B): a gate");
        OK(mkv_gate_signal(A->ctx, 5, 7));
    }
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

START_TEST(a_forgotten_gate_waits_again)
{
    mkv_gate_t gate = {.size = sizeof(gate), .id = 5};
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_setup();
    active = pair_bind_write(8, &passive);
    plan = pair_plan(A, 1, 0, 0, 8, 0);
    IS(mkv_xfer_post(active, 0, plan, NULL, &gate), MKV_ERR_INVALID);
    gate.value = 1;
    OK(mkv_gate_signal(A->ctx, 5, 1));
    OK(mkv_gate_forget(A->ctx, 5));
    OK(mkv_gate_forget(A->ctx, 5));
    OK(mkv_xfer_post(active, 0, plan, NULL, &gate));
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_calls(CALLS), 0);
    OK(mkv_gate_signal(A->ctx, 5, 1));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Ids share their buckets, which are fewer than these */
START_TEST(signals_of_others_open_no_gate)
{
    mkv_gate_t gate = {.size = sizeof(gate), .id = 1, .value = 1};
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;
    uint64_t id;

    pair_setup();
    active = pair_bind_write(8, &passive);
    plan = pair_plan(A, 1, 0, 0, 8, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, &gate));
    OK(mkv_xfer_seal(active, 0));
    for (id = 2; id < 4 * MKV_GATE_BUCKETS; ++id) {
        OK(mkv_gate_signal(A->ctx, id, 1));
    }
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_calls(CALLS), 0);
    OK(mkv_gate_signal(A->ctx, 1, 1));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Wake a thread that sleeps on the descriptor, which workers of the fake do not have */
START_TEST(a_signal_ends_a_sleep)
{
    uint64_t count = 0;
    int fd;

    pair_setup();
    ck_assert_int_lt(A->ctx->wake_fd, 0);
    fd = A->ctx->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    OK(mkv_gate_signal(A->ctx, 5, 1));
    ck_assert_int_eq(read(fd, &count, sizeof(count)), sizeof(count));
    ck_assert_uint_eq(count, 1);
    A->ctx->wake_fd = -1;
    close(fd);
    pair_teardown();
}
END_TEST

/* Two transfers that end with a flush, of which the first one's runs */
static void start_two(mkv_xfer_t *active[2], mkv_xfer_t *passive[2],
                      mkv_plan_t *plans[2])
{
    unsigned i;

    pair_setup_over("mori_rdma");
    fake_ucp_hold(FAKE_UCP_FLUSH);
    for (i = 0; i < 2; ++i) {
        active[i] = pair_xfer(A, 1, i, MKV_WRITE, MKV_SRC);
        passive[i] = pair_xfer(B, 0, i, MKV_WRITE, MKV_DST);
        pair_expose(passive[i], 8 * i, 8);
        pair_run();
        plans[i] = pair_plan(A, 1, 0, 8 * i, 8, 0);
        OK(mkv_xfer_post(active[i], 0, plans[i], NULL, NULL));
        OK(mkv_xfer_seal(active[i], 0));
        pair_run();
        ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_FLUSH), 1);
    }
}

/* A flush covers earlier puts alone */
START_TEST(one_flush_runs_at_a_time)
{
    mkv_xfer_t *active[2], *passive[2];
    mkv_plan_t *plans[2];
    unsigned i;

    start_two(active, passive, plans);
    fake_ucp_hold(0);
    pair_run();
    for (i = 0; i < 2; ++i) {
        ck_assert_int_eq(pair_query(passive[i]).state, MKV_XFER_DONE);
        pair_close(active[i], passive[i], plans[i]);
    }
    pair_teardown();
}
END_TEST

/* The connection ends while one flush runs and the other waits for its turn */
START_TEST(a_flush_that_waits_ends_with_its_connection)
{
    mkv_xfer_t *active[2], *passive[2];
    mkv_plan_t *plans[2];
    unsigned i;

    start_two(active, passive, plans);
    mkv_peer_fail(A->peers[1], MKV_ERR_DRAIN_TIMEOUT, "of the test");
    pair_run();
    fake_ucp_hold(0);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    for (i = 0; i < 2; ++i) {
        pair_now += 31000 * MKV_NSEC_PER_MSEC;
        pair_run();
    }
    for (i = 0; i < 2; ++i) {
        ck_assert_int_eq(pair_query(active[i]).status, MKV_ERR_DRAIN_TIMEOUT);
        ck_assert_int_ne(active[i]->legs[0].puts, MKV_PUTS_FLUSHING);
        pair_close(active[i], passive[i], plans[i]);
    }
    pair_teardown();
}
END_TEST

static void *signal_from_afar(void *arg)
{
    OK(mkv_gate_signal(arg, 5, 1));
    return NULL;
}

/* A signal waits for no call of another thread */
START_TEST(a_signal_takes_no_lock)
{
    pthread_t thread;

    fake_ucp_reset();
    pair_open(0);
    mkv_enter(A->ctx);
    ck_assert_int_eq(pthread_create(&thread, NULL, signal_from_afar, A->ctx), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    mkv_leave(A->ctx);
    pair_teardown();
}
END_TEST

/* The text equals the output of printf, for any leg and any buffer size */
/* OB-06 */
START_TEST(the_awaited_message_is_named)
{
    static const uint32_t legs[] = {0, 9, 10, 4096, UINT16_MAX - 1};
    char text[128], expected[128];
    mkv_peer_t *peer = calloc(1, sizeof(*peer));
    mkv_xfer_t *xfer = calloc(1, sizeof(*xfer) + UINT16_MAX * sizeof(xfer->legs[0]));
    size_t size, i;
    uint32_t j;

    ck_assert(peer != NULL && xfer != NULL);
    memset(peer->name, 'p', sizeof(peer->name) - 1);
    xfer->is_active = 1;
    xfer->num_legs = UINT16_MAX;
    for (j = 0; j < xfer->num_legs; ++j) {
        xfer->legs[j].xfer = xfer;
        xfer->legs[j].peer = peer;
        xfer->legs[j].state = MKV_LEG_FINISHED;
    }
    mkv_xfer_waiting(xfer, text, sizeof(text));
    ck_assert_str_eq(text, "");
    for (i = 0; i < sizeof(legs) / sizeof(legs[0]); ++i) {
        xfer->legs[legs[i]].state = MKV_LEG_WAITING;
        mkv_leg_note(&xfer->legs[legs[i]]);
        for (size = 1; size <= sizeof(text); ++size) {
            mkv_xfer_waiting(xfer, text, size);
            mkv_text(expected, size, "leg %u (peer %s): its block list", legs[i],
                     peer->name);
            ck_assert_str_eq(text, expected);
        }
        xfer->legs[legs[i]].state = MKV_LEG_FINISHED;
        mkv_leg_note(&xfer->legs[legs[i]]);
    }
    free(xfer);
    free(peer);
}
END_TEST

/* The source of a READ is quiet after all of its readers, and once */
/* CN-03 */
START_TEST(source_waits_for_all_readers)
{
    unsigned num_readers = (unsigned)_i, i;
    mkv_xfer_params_t params = {.size = sizeof(params), .id = 4, .mode = MKV_READ};
    mkv_xfer_t *source, *readers[4];
    mkv_plan_t *plans[4];

    fake_ucp_reset();
    pair_open(0);
    for (i = 1; i <= num_readers; ++i) {
        pair_open(i);
        pair_connect(0, i);
    }
    params.role = MKV_SRC;
    params.legs = &A->maps[1];
    params.num_legs = num_readers;
    OK(mkv_xfer_open(A->ctx, &params, &source));
    pair_expose(source, 0, 4);
    for (i = 0; i < num_readers; ++i) {
        readers[i] = pair_xfer(&pair_sides[i + 1], 0, 4, MKV_READ, MKV_DST);
        plans[i] = pair_plan(&pair_sides[i + 1], 0, 8, 0, 4, 0);
        pair_run();
        OK(mkv_xfer_post(readers[i], 0, plans[i], NULL, NULL));
    }
    for (i = 0; i < num_readers; ++i) {
        ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, source), 0);
        OK(mkv_xfer_seal(readers[i], 0));
        pair_run();
    }
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, source), 1);
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_DONE);
    OK(mkv_xfer_close(source));
    for (i = 0; i < num_readers; ++i) {
        ck_assert(pair_holds(&pair_sides[i + 1], 8, 0, 3));
        OK(mkv_xfer_close(readers[i]));
        OK(mkv_plan_destroy(plans[i]));
    }
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("post");

    tcase_add_test(tcase, plans_refuse_what_does_not_fit);
    tcase_add_test(tcase, a_block_count_mismatch_is_reported_to_both_sides);
    tcase_add_loop_test(tcase, layers_that_the_map_does_not_have_are_refused, 0, 4);
    tcase_add_test(tcase, one_plan_serves_all_layers_without_allocating);
    tcase_add_test(tcase, the_short_status_is_that_of_the_query);
    tcase_add_loop_test(tcase, credits_bound_what_is_in_flight, 0, 2);
    tcase_add_test(tcase, byte_credits_return_exactly);
    tcase_add_test(tcase, chunks_of_positions_equal_one_shot);
    tcase_add_loop_test(tcase, lists_skip_an_empty_component, 45, 50);
    tcase_add_test(tcase, seal_refuses_a_forgotten_layer_on_both_sides);
    tcase_add_loop_test(tcase, gates_open_by_signal, 0, 3);
    tcase_add_test(tcase, a_forgotten_gate_waits_again);
    tcase_add_test(tcase, a_signal_takes_no_lock);
    tcase_add_test(tcase, the_awaited_message_is_named);
    tcase_add_loop_test(tcase, source_waits_for_all_readers, 1, 5);
    tcase_add_test(tcase, signals_of_others_open_no_gate);
    tcase_add_test(tcase, a_signal_ends_a_sleep);
    tcase_add_test(tcase, one_flush_runs_at_a_time);
    tcase_add_test(tcase, a_flush_that_waits_ends_with_its_connection);
    return pair_main("mkv_post", tcase);
}
