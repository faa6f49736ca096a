/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Calls of several threads on one context. Calls that must not block are made while a
 * second thread is inside UCX and holds the lock until the test releases it: a call
 * that blocks hangs the test.
 */

#include "test/support/mkv_pair.h"

#include "src/direct/op.h"
#include "src/message/hello.h"
#include "src/post/post.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NUM 8u
#define DATA (FAKE_UCP_PUT | FAKE_UCP_GET | FAKE_UCP_LIST)

static mkv_xfer_t *active, *passive;
static mkv_plan_t *plan;

static void *progress_once(void *arg)
{
    (void)mkv_progress(arg);
    return NULL;
}

/* A thread is inside the progress of A, with the lock */
static pthread_t go_inside(void)
{
    pthread_t thread;

    fake_ucp_block(fake_ucp_worker(0));
    ck_assert_int_eq(pthread_create(&thread, NULL, progress_once, A->ctx), 0);
    fake_ucp_wait_blocked();
    ck_assert_int_ne(pthread_mutex_trylock(&A->ctx->lock), 0);
    return thread;
}

static void come_out(pthread_t thread)
{
    fake_ucp_block(NULL);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static void bind_write(void)
{
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
}

static void finish(void)
{
    pair_close(active, passive, plan);
    pair_teardown();
}

/* ---- Calls that do not wait ------------------------------------------------------ */

/* CC-03 */
START_TEST(a_poll_waits_for_no_progress)
{
    mkv_event_t event;
    pthread_t thread;
    size_t count;

    pair_setup();
    bind_write();
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, "test")); /* an event waits */
    thread = go_inside();
    OK(mkv_poll(A->ctx, &event, sizeof(event), 1, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(event.type, MKV_EV_ABORTED);
    ck_assert_ptr_eq(event.xfer, active);
    OK(mkv_poll(A->ctx, &event, sizeof(event), 1, &count));
    ck_assert_uint_le(count, 1); /* QUIET, if it came earlier */
    come_out(thread);
    pair_run();
    finish();
}
END_TEST

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Time of one call of each kind together, in ns: the median, because other work on the
 * machine may delay a single call */
static uint64_t median_of_query(void)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    static uint64_t ns[1001];
    struct timespec before, after;
    mkv_event_t event;
    size_t count, i;

    for (i = 0; i < 1001; ++i) {
        clock_gettime(CLOCK_MONOTONIC, &before);
        (void)mkv_xfer_status(active, NULL);
        OK(mkv_xfer_query(active, &attr));
        OK(mkv_poll(A->ctx, &event, sizeof(event), 1, &count));
        clock_gettime(CLOCK_MONOTONIC, &after);
        ns[i] = (uint64_t)(after.tv_sec - before.tv_sec) * 1000000000u +
                (uint64_t)after.tv_nsec - (uint64_t)before.tv_nsec;
    }
    qsort(ns, 1001, sizeof(ns[0]), compare_ns);
    return ns[500];
}

/* The three calls together stay below the limit of one. Valgrind is too slow for it */
START_TEST(a_query_takes_twenty_microseconds_while_another_thread_reads)
{
    pthread_t thread;
    uint64_t ns;

    pair_setup();
    bind_write();
    fake_ucp_hold(DATA);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    thread = go_inside();
    ns = median_of_query();
    come_out(thread);
    if (getenv("MKV_UNDER_VALGRIND") == NULL) {
        ck_assert_uint_le(ns, 20000);
    }
    fake_ucp_hold(0);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    finish();
}
END_TEST

/* CC-03 */
START_TEST(a_query_waits_for_no_progress)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    uint64_t completed;
    pthread_t thread;

    pair_setup();
    bind_write();
    fake_ucp_hold(DATA);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    thread = go_inside();
    IS(mkv_xfer_status(active, &completed), MKV_INPROGRESS);
    ck_assert_uint_eq(completed, 0);
    OK(mkv_xfer_query(active, &attr));
    ck_assert_int_eq(attr.state, MKV_XFER_ACTIVE);
    ck_assert_uint_eq(attr.posted, NUM * pair_layers * PAIR_PARTS);
    ck_assert_str_eq(attr.waiting_for, "leg 0 (peer B): calls in flight");
    come_out(thread);
    OK(mkv_xfer_abort(active, MKV_ERR_GATE, "why"));
    fake_ucp_hold(0);
    thread = go_inside();
    IS(mkv_xfer_status(active, NULL), MKV_ERR_GATE);
    OK(mkv_xfer_query(active, &attr));
    ck_assert_int_eq(attr.state, MKV_XFER_FAILED);
    ck_assert_ptr_nonnull(strstr(attr.error, "why"));
    come_out(thread);
    pair_run();
    OK(mkv_xfer_query(active, &attr));
    ck_assert(attr.is_quiet);
    finish();
}
END_TEST

/* Posts are made in their order when the lock is free, and the seal comes behind them
 */
/* CC-01 */
START_TEST(a_post_waits_for_no_progress)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS};
    mkv_post_t *post;
    pthread_t thread;
    int32_t layer;

    pair_set("MAX_INFLIGHT_OPS", "1");
    pair_setup();
    bind_write();
    fake_ucp_hold(DATA);
    thread = go_inside();
    for (layer = 0; layer < (int32_t)pair_layers; ++layer) {
        sel.layer_lo = layer;
        sel.layer_hi = layer + 1;
        OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
    }
    ck_assert_uint_eq(fake_ucp_num_calls(DATA), 0);
    come_out(thread);
    ck_assert_uint_eq(fake_ucp_num_calls(DATA), 1); /* posted without a further call */
    layer = 1;
    mkv_list_for_each(post, &active->legs[0].posts, list)
    {
        ck_assert_int_eq(post->sel.layer_lo, layer++);
    }
    ck_assert_int_eq(layer, (int32_t)pair_layers);
    OK(mkv_xfer_seal(active, 0));
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    finish();
}
END_TEST

/* Loop index: a block that was not exposed; another map's plan; the passive side */
/* CC-01 */
START_TEST(a_bad_post_is_refused_at_once)
{
    mkv_plan_t *other;
    pthread_t thread;

    pair_setup();
    bind_write();
    other = (_i == 1) ? pair_plan(B, 0, 0, 0, NUM, 0) : pair_plan(A, 1, 0, 9, NUM, 0);
    thread = go_inside();
    if (_i == 2) {
        fake_ucp_block(NULL); /* the other context's lock is free */
        IS(mkv_xfer_post(passive, 0, other, NULL, NULL), MKV_ERR_INVALID);
    } else {
        IS(mkv_xfer_post(active, 0, other, NULL, NULL),
           (_i == 1) ? MKV_ERR_INVALID : MKV_ERR_BOUNDS);
    }
    come_out(thread);
    ck_assert_int_eq(pair_query(active).status, MKV_INPROGRESS);
    ck_assert_uint_eq(fake_ucp_num_calls(DATA), 0);
    OK(mkv_plan_destroy(other));
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    finish();
}
END_TEST

/* The peer aborts during the progress call that the post runs into: the post is
 * dropped, and the transfer reports the reason */
START_TEST(a_post_for_what_ends_meanwhile_is_dropped)
{
    pthread_t thread;

    pair_setup();
    bind_write();
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, "not needed"));
    (void)mkv_progress(B->ctx);
    thread = go_inside();
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    come_out(thread);
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_ABORTED);
    ck_assert_uint_eq(fake_ucp_num_calls(DATA), 0);
    ck_assert(pair_query(active).is_quiet);
    finish();
}
END_TEST

typedef struct gate_calls {
    bool is_open;
    unsigned num;
    pthread_t first;   /* the first thread that queried */
    unsigned num_held; /* the calls in it that a close waits for */
} gate_calls_t;

static int count_gate_call(void *arg)
{
    gate_calls_t *calls = arg;

    if (calls->num++ == 0) {
        calls->first = pthread_self();
        calls->num_held = __atomic_load_n(&A->ctx->num_held, __ATOMIC_SEQ_CST);
    }
    return calls->is_open;
}

/* Loop index: whether another thread is in progress, which checks before it leaves */
/* CC-01 */
START_TEST(a_gate_is_checked_by_the_posting_or_progressing_thread)
{
    gate_calls_t calls = {.num = 0};
    mkv_gate_t gate = {.size = sizeof(gate), .ready = count_gate_call, .arg = &calls};
    pthread_t thread = pthread_self();
    unsigned num;

    pair_setup();
    bind_write();
    if (_i == 1) {
        thread = go_inside();
    }
    OK(mkv_xfer_post(active, 0, plan, NULL, &gate));
    if (_i == 1) {
        ck_assert_uint_eq(calls.num, 0);
        come_out(thread);
    }
    ck_assert_uint_gt(calls.num, 0);
    ck_assert(pthread_equal(calls.first, thread));
    ck_assert_uint_eq(calls.num_held, 1); /* the post or the progress */
    ck_assert_uint_eq(fake_ucp_num_calls(DATA), 0);
    OK(mkv_xfer_seal(active, 0));
    num = calls.num;
    calls.is_open = true;
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    ck_assert_uint_eq(calls.num, num + 1); /* it is not queried again */
    finish();
}
END_TEST

/* The post already returned success to its caller */
START_TEST(a_post_that_cannot_be_made_meanwhile_fails_its_transfer)
{
    pthread_t thread;

    pair_setup();
    bind_write();
    thread = go_inside();
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    A->maps[1]->is_stale = true; /* set as if the peer had dropped a region */
    come_out(thread);
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_STALE);
    ck_assert_ptr_nonnull(strstr(pair_query(active).error, "a post is refused"));
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_STALE);
    ck_assert_uint_eq(fake_ucp_num_calls(DATA), 0);
    finish();
}
END_TEST

START_TEST(a_plan_with_a_post_on_its_way_is_kept)
{
    pthread_t thread;

    pair_setup();
    bind_write();
    fake_ucp_hold(DATA);
    thread = go_inside();
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    come_out(thread);
    IS(mkv_plan_destroy(plan), MKV_ERR_BUSY);
    OK(mkv_xfer_seal(active, 0));
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    finish();
}
END_TEST

/* ---- How long the lock is held --------------------------------------------------- */

/* Calls that complete inside take no credits; a round ends all the same. Loop index:
 * lists */
/* CC-03 */
START_TEST(a_round_has_an_end)
{
    unsigned max = MKV_ROUND_COST / (_i ? 1 : MKV_CALL_COST), before, i;
    const mkv_gate_t gate = {.size = sizeof(gate), .id = 1, .value = 1};
    unsigned (*count)(void) = fake_ucp_num_pieces;
    uint64_t posted;

    pair_layers = 61;
    mkv_tuning.sgl_max = 512;
    pair_setup();
    fake_ucp_set_lists(_i);
    fake_ucp_set_inline(DATA);
    active = pair_bind_write(PAIR_BLOCKS, &passive);
    plan = pair_plan(A, 1, 0, 0, PAIR_BLOCKS, 0);
    fake_ucp_set_inline(0);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    fake_ucp_set_inline(DATA);
    for (i = 0; i < 16; ++i) {
        OK(mkv_xfer_post(active, 0, plan, NULL, &gate));
    }
    ck_assert_uint_eq(fake_ucp_num_calls(DATA), 0);
    OK(mkv_gate_signal(A->ctx, 1, 1));
    posted = pair_query(active).posted;
    ck_assert_uint_eq(posted, 16ull * 61 * PAIR_PARTS * PAIR_BLOCKS);
    while (pair_query(active).completed < posted) {
        before = _i ? count() : fake_ucp_num_calls(FAKE_UCP_PUT);
        ck_assert_uint_gt(mkv_progress(A->ctx), 0); /* the thread must not sleep now */
        ck_assert_uint_le((_i ? count() : fake_ucp_num_calls(FAKE_UCP_PUT)) - before,
                          max + 512);
    }
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    fake_ucp_hold(0);
    pair_run();
    pair_layers = 4;
    finish();
}
END_TEST

/* A peer accepts no more data; the two other peers are not delayed */
/* CC-08 */
START_TEST(a_stalled_peer_delays_no_other)
{
    mkv_xfer_t *to[3], *at[3];
    mkv_plan_t *plans[3];
    unsigned i;

    pair_set("MAX_INFLIGHT_OPS", "4");
    pair_setup();
    pair_open(2);
    pair_open(3);
    pair_connect(0, 2);
    pair_connect(0, 3);
    for (i = 0; i < 3; ++i) {
        to[i] = pair_xfer(A, i + 1, 7, MKV_WRITE, MKV_SRC);
        at[i] = pair_xfer(&pair_sides[i + 1], 0, 7, MKV_WRITE, MKV_DST);
        pair_expose(at[i], 0, NUM);
    }
    pair_run();
    for (i = 0; i < 3; ++i) {
        plans[i] = pair_plan(A, i + 1, 0, 0, NUM, 0);
    }
    fake_ucp_set_lists(0);
    fake_ucp_hold_peer(fake_ucp_worker(1));
    for (i = 0; i < 3; ++i) {
        OK(mkv_xfer_post(to[i], 0, plans[i], NULL, NULL));
        OK(mkv_xfer_seal(to[i], 0));
    }
    pair_run();
    ck_assert_int_eq(pair_query(to[0]).status, MKV_INPROGRESS);
    ck_assert_uint_eq(pair_query(to[0]).completed, 0);
    ck_assert_int_eq(pair_query(at[1]).state, MKV_XFER_DONE);
    ck_assert_int_eq(pair_query(at[2]).state, MKV_XFER_DONE);
    fake_ucp_hold_peer(NULL);
    pair_run();
    for (i = 0; i < 3; ++i) {
        ck_assert_int_eq(pair_query(at[i]).state, MKV_XFER_DONE);
        pair_close(to[i], at[i], plans[i]);
    }
    pair_teardown();
}
END_TEST

/* Contexts share no lock, so threads that have one each do not wait for each other: two
 * are opened, connected, move blocks and are closed while a third one is inside UCX */
/* CC-02 */
START_TEST(a_context_waits_for_no_other)
{
    mkv_xfer_t *to, *at;
    mkv_plan_t *other_plan;
    pthread_t thread;
    unsigned i;

    pair_setup();
    bind_write();
    thread = go_inside();
    A->is_stopped = 1; /* pair_run() would wait for it */
    pair_open(2);
    pair_open(3);
    pair_connect(2, 3);
    to = pair_xfer(&pair_sides[2], 3, 7, MKV_WRITE, MKV_SRC);
    at = pair_xfer(&pair_sides[3], 2, 7, MKV_WRITE, MKV_DST);
    pair_expose(at, 0, NUM);
    pair_run();
    other_plan = pair_plan(&pair_sides[2], 3, 0, 0, NUM, 0);
    OK(mkv_xfer_post(to, 0, other_plan, NULL, NULL));
    OK(mkv_xfer_seal(to, 0));
    pair_run();
    ck_assert_int_eq(pair_query(at).state, MKV_XFER_DONE);
    pair_close(to, at, other_plan);
    for (i = 2; i < 4; ++i) {
        OK(mkv_map_destroy(pair_sides[i].maps[5 - i]));
        OK(mkv_peer_close(pair_sides[i].peers[5 - i], MKV_CLOSE_FLUSH));
    }
    pair_run();
    for (i = 2; i < 4; ++i) {
        OK(mkv_close(pair_sides[i].ctx));
        pair_sides[i].ctx = NULL;
        free(pair_sides[i].mem);
    }
    ck_assert_int_ne(pthread_mutex_trylock(&A->ctx->lock), 0); /* still inside */
    come_out(thread);
    A->is_stopped = 0;
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, "test"));
    pair_run();
    finish();
}
END_TEST

/* ---- Calls with many steps ------------------------------------------------------- */

#define FEIGNED 1u /* A waiting thread that never takes the lock */
#define NUM_PIECES (3 * MKV_ROUND_COST + 1)
#define NUM_ALLOCS 12u
#define ROOM 4096u

typedef struct long_call {
    mkv_status_t (*run)(void);
    void (*at_pause)(unsigned count); /* has the lock; or NULL */
    mkv_status_t status;
    char text[256];
    bool is_back; /* atomic */
    bool is_free; /* it stops in no further pause; atomic */
    sem_t stopped, next;
} long_call_t;

/* The call of this thread, if its pauses are counted */
static _Thread_local long_call_t *counted;

/* The library yields in a pause, without its lock, while another thread waits */
int sched_yield(void)
{
    if ((counted == NULL) || __atomic_load_n(&counted->is_free, __ATOMIC_RELAXED)) {
        return (int)syscall(SYS_sched_yield);
    }
    ck_assert_int_eq(sem_post(&counted->stopped), 0);
    ck_assert_int_eq(sem_wait(&counted->next), 0);
    return 0;
}

static mkv_region_id_t ids[2], alloc_ids[NUM_ALLOCS];
static uint8_t bytes_here[ROOM], bytes_there[ROOM];
static uint8_t allocs[NUM_ALLOCS][ROOM];
static mkv_op_t *op;

static void *make_call(void *arg)
{
    long_call_t *call = arg;

    call->status = call->run();
    (void)snprintf(call->text, sizeof(call->text), "%s", mkv_last_error());
    __atomic_store_n(&call->is_back, true, __ATOMIC_RELAXED);
    return NULL;
}

static void *make_counted_call(void *arg)
{
    counted = arg;
    (void)make_call(counted);
    ck_assert_int_eq(sem_post(&counted->stopped), 0);
    return NULL;
}

static pthread_t start_counted(long_call_t *call)
{
    pthread_t thread;

    ck_assert_int_eq(sem_init(&call->stopped, 0, 0), 0);
    ck_assert_int_eq(sem_init(&call->next, 0, 0), 0);
    __atomic_add_fetch(&A->ctx->num_waiting, FEIGNED, __ATOMIC_RELAXED);
    ck_assert_int_eq(pthread_create(&thread, NULL, make_counted_call, call), 0);
    return thread;
}

/* Wait until the call stops in a pause. @return false: it has returned. */
static bool is_in_pause(long_call_t *call)
{
    ck_assert_int_eq(sem_wait(&call->stopped), 0);
    return !__atomic_load_n(&call->is_back, __ATOMIC_RELAXED);
}

/* The call stops in each pause until this thread counts a turn for the simulated
 * waiter.
 * @return How many pauses the call made. */
static unsigned count_pauses(long_call_t *call)
{
    pthread_t thread = start_counted(call);
    unsigned count = 0;

    while (is_in_pause(call)) {
        pthread_mutex_lock(&A->ctx->lock);
        __atomic_add_fetch(&A->ctx->num_turns, 1, __ATOMIC_RELAXED);
        ++count;
        if (call->at_pause != NULL) {
            call->at_pause(count);
        }
        ck_assert_int_eq(sem_post(&call->next), 0);
        pthread_mutex_unlock(&A->ctx->lock);
    }
    __atomic_sub_fetch(&A->ctx->num_waiting, FEIGNED, __ATOMIC_RELAXED);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return count;
}

static mkv_status_t add_bytes(const pair_side_t *side, int32_t layer, void *base,
                              mkv_region_id_t *id_p)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 63,
                           .layer = layer,
                           .flags = MKV_REGION_OPTIONAL | MKV_REGION_BYTES |
                                    MKV_REGION_ONE_SIDED,
                           .base = base,
                           .length = ROOM,
                           .alloc_base = base, /* not joined with its neighbours */
                           .alloc_length = ROOM};

    return mkv_region_add(side->ctx, &region, id_p);
}

static mkv_region_id_t odd_id; /* of every other piece */

static void add_ends(void)
{
    OK(add_bytes(A, 1, bytes_here, &ids[0]));
    OK(add_bytes(B, 2, bytes_there, &ids[1]));
    OK(mkv_regions_commit(A->ctx, NULL));
    OK(mkv_regions_commit(B->ctx, NULL));
    odd_id = ids[0];
    pair_run();
}

static mkv_status_t post_many(void)
{
    static mkv_op_piece_t pieces[NUM_PIECES];
    const mkv_op_params_t params = {.size = sizeof(params),
                                    .mode = MKV_WRITE,
                                    .pieces = pieces,
                                    .num_pieces = NUM_PIECES};
    size_t i;

    for (i = 0; i < NUM_PIECES; ++i) {
        pieces[i] = (mkv_op_piece_t){(i % 2 == 0) ? ids[0] : odd_id, ids[1],
                                     2 * (i % 1000), 3 * (i % 1000), 1};
    }
    return mkv_op_post(A->peers[1], &params, &op);
}

static void regions_in_use_stay(unsigned count)
{
    ck_assert(mkv_list_is_empty(&A->ctx->ops)); /* not posted yet */
    if (count == 1) {
        IS(mkv_regions_drop(A->ctx, ids, 1), MKV_ERR_BUSY);
    }
}

static void the_peer_ends(unsigned count)
{
    if (count == 2) {
        OK(mkv_peer_declare_dead(A->peers[1]));
    }
}

static void the_peer_is_closed(unsigned count)
{
    if (count == 2) {
        OK(mkv_map_destroy(A->maps[1]));
        A->maps[1] = NULL;
        OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH));
        pair_run();
        ck_assert(!mkv_list_is_empty(&A->ctx->dead_peers)); /* the post holds it */
    }
}

/* Loop index: the peer ends before the last round, or is closed */
START_TEST(a_post_of_many_pieces_lets_other_threads_in)
{
    static void (*const at_pause[])(unsigned) = {regions_in_use_stay, the_peer_ends,
                                                 the_peer_is_closed};
    long_call_t call = {.run = post_many, .at_pause = at_pause[_i]};

    pair_setup();
    add_ends();
    ck_assert_uint_eq(count_pauses(&call), _i ? 2 : 3);
    ck_assert_int_eq(call.status, _i ? MKV_ERR_PEER : MKV_OK);
    pair_run();
    if (_i == 0) {
        ck_assert_int_eq(mkv_op_status(op), MKV_OK);
        OK(mkv_op_close(op));
    } else {
        ck_assert_ptr_nonnull(strstr(call.text, "is not ready"));
    }
    ck_assert(mkv_list_is_empty(&A->ctx->ops));
    ck_assert(mkv_list_is_empty(&A->ctx->dead_peers));
    OK(mkv_regions_drop(A->ctx, ids, 1)); /* in use by nothing */
    pair_teardown();
}
END_TEST

static mkv_status_t close_op(void)
{
    return mkv_op_close(op);
}

static void what_is_not_released_yet_stays(unsigned count)
{
    ck_assert(count < 4);
    IS(mkv_regions_drop(A->ctx, ids, 1), MKV_ERR_BUSY);
}

START_TEST(a_close_of_many_regions_lets_other_threads_in)
{
    long_call_t call = {.run = close_op, .at_pause = what_is_not_released_yet_stays};

    pair_setup();
    add_ends();
    OK(add_bytes(A, 3, allocs[0], &odd_id));
    OK(mkv_regions_commit(A->ctx, NULL));
    pair_run();
    OK(post_many());
    pair_run();
    ck_assert_int_eq(mkv_op_status(op), MKV_OK);
    ck_assert_uint_eq(count_pauses(&call), 3);
    OK(call.status);
    ck_assert(mkv_list_is_empty(&A->ctx->ops));
    OK(mkv_regions_drop(A->ctx, ids, 1));
    OK(mkv_regions_drop(A->ctx, &odd_id, 1));
    pair_teardown();
}
END_TEST

static mkv_status_t commit(void)
{
    return mkv_regions_commit(A->ctx, NULL);
}

static mkv_status_t drop(void)
{
    return mkv_regions_drop(A->ctx, alloc_ids, NUM_ALLOCS);
}

static unsigned num_memh(void)
{
    mkv_stats_t stats = {.size = sizeof(stats)};

    OK(mkv_stats(A->ctx, NULL, &stats));
    return (unsigned)stats.num_memh;
}

/* Each pause of a commit comes behind one more registration */
static void one_more_is_registered(unsigned count)
{
    ck_assert_uint_ge(num_memh(), count);
}

static unsigned num_mems_known_of_a(void)
{
    const mkv_rmem_t *mem;
    unsigned num = 0;

    mkv_list_for_each(mem, &B->peers[0]->remote.mems, list)
    {
        num += mem->is_current;
    }
    return num;
}

/* Another thread's call that sends all regions and keys, between a drop's rounds */
static void the_keys_are_sent(unsigned count)
{
    if (count == 1) {
        OK(mkv_hello_send_keys(A->peers[1]));
    }
}

START_TEST(registrations_let_other_threads_in)
{
    long_call_t committing = {.run = commit, .at_pause = one_more_is_registered};
    long_call_t dropping = {.run = drop, .at_pause = the_keys_are_sent};
    unsigned before, i;

    pair_setup();
    before = num_memh();
    for (i = 0; i < NUM_ALLOCS; ++i) {
        OK(add_bytes(A, (int32_t)i, allocs[i], &alloc_ids[i]));
    }
    ck_assert_uint_eq(count_pauses(&committing), NUM_ALLOCS - 1);
    OK(committing.status);
    ck_assert_uint_eq(num_memh(), before + NUM_ALLOCS);
    ck_assert_uint_eq(count_pauses(&dropping), NUM_ALLOCS);
    OK(dropping.status);
    ck_assert_uint_eq(num_memh(), before);
    pair_run();
    ck_assert(mkv_conn_is_alive(B->peers[0]->state));
    ck_assert_uint_eq(B->peers[0]->remote.epoch, A->ctx->epoch);
    ck_assert_uint_eq(num_mems_known_of_a(), before);
    pair_teardown();
}
END_TEST

#define NUM_REGIONS (3 * MKV_ROUND_STEPS)

static mkv_region_id_t region_ids[NUM_REGIONS + 1]; /* the last one is of no region */
static mkv_op_t *one_op;

static mkv_region_id_t add_at(const pair_side_t *side, int32_t layer, void *base)
{
    mkv_region_id_t id;

    OK(add_bytes(side, layer, base, &id));
    return id;
}

/* All names of A at one place, and of B at another */
static void add_many(void)
{
    unsigned i;

    for (i = 0; i < NUM_REGIONS; ++i) {
        region_ids[i] = add_at(A, 100 + (int32_t)i, bytes_here);
        ids[1] = add_at(B, 100 + (int32_t)i, bytes_there);
    }
    (void)add_at(A, 99, bytes_here); /* keeps their memory registered */
    (void)add_at(B, 99, bytes_there);
    OK(mkv_regions_commit(A->ctx, NULL));
    OK(mkv_regions_commit(B->ctx, NULL));
    pair_run();
}

static mkv_status_t post_byte(mkv_region_id_t id)
{
    const mkv_op_piece_t piece = {id, ids[1], 0, 0, 1};
    const mkv_op_params_t params = {
        .size = sizeof(params), .mode = MKV_WRITE, .pieces = &piece, .num_pieces = 1};

    return mkv_op_post(A->peers[1], &params, &one_op);
}

static unsigned num_leaving; /* pauses in which the regions are leaving */

static void a_leaving_region_is_not_found(unsigned count)
{
    if (count <= num_leaving) {
        IS(post_byte(region_ids[0]), MKV_ERR_NOTFOUND);
    }
}

static mkv_status_t drop_many(void)
{
    return mkv_regions_drop(A->ctx, region_ids, NUM_REGIONS);
}

static mkv_status_t drop_one_too_many(void)
{
    return mkv_regions_drop(A->ctx, region_ids, NUM_REGIONS + 1);
}

/* A region cannot be found from the first round of its drop on; a refused drop restores
 * all regions */
START_TEST(a_drop_of_many_regions_lets_other_threads_in)
{
    long_call_t call = {.run = drop_one_too_many,
                        .at_pause = a_leaving_region_is_not_found};

    pair_setup();
    add_many();
    num_leaving = 3;
    ck_assert_uint_eq(count_pauses(&call), 6);
    IS(call.status, MKV_ERR_NOTFOUND);
    OK(post_byte(region_ids[0]));
    pair_run();
    OK(mkv_op_close(one_op));
    call = (long_call_t){.run = drop_many, .at_pause = a_leaving_region_is_not_found};
    num_leaving = 6;
    ck_assert_uint_eq(count_pauses(&call), 6);
    OK(call.status);
    ck_assert_ptr_null(mkv_region_by_id(A->ctx, region_ids[0]));
    pair_run();
    pair_teardown();
}
END_TEST

static mkv_map_t *new_map;

static mkv_status_t create_map(void)
{
    return mkv_map_create(A->peers[1], NULL, &new_map);
}

static mkv_status_t destroy_map(void)
{
    return mkv_map_destroy(new_map);
}

static uint32_t num_pairs_of(const mkv_map_t *map)
{
    mkv_map_attr_t attr = {.size = sizeof(attr)};

    OK(mkv_map_query(map, &attr));
    return attr.num_pairs;
}

static void the_peer_ends_late(unsigned count)
{
    the_peer_ends((count == 9) ? 2 : 0);
}

static void the_peer_is_closed_late(unsigned count)
{
    the_peer_is_closed((count == 9) ? 2 : 0);
}

/* Loop index: in the last pause of pairing the peer ends, or is closed */
START_TEST(a_map_of_a_peer_that_ends_meanwhile_is_refused)
{
    static void (*const at_pause[])(unsigned) = {the_peer_ends_late,
                                                 the_peer_is_closed_late};
    long_call_t call = {.run = create_map, .at_pause = at_pause[_i]};

    pair_setup();
    add_many();
    ck_assert_uint_eq(count_pauses(&call), 9);
    IS(call.status, MKV_ERR_PEER);
    ck_assert_ptr_nonnull(strstr(call.text, "is not ready"));
    pair_run();
    ck_assert(mkv_list_is_empty(&A->ctx->dead_peers));
    OK(mkv_regions_drop(A->ctx, region_ids, NUM_REGIONS)); /* in use by nothing */
    pair_teardown();
}
END_TEST

static void the_peer_drops_a_region(unsigned count)
{
    if (count == 8) {
        OK(mkv_regions_drop(B->ctx, &ids[1], 1));
        pair_run();
    }
}

static unsigned num_refs;

/* A close does not free the peer in front of its map */
static void the_peer_is_held(unsigned count)
{
    (void)count;
    ck_assert_uint_gt(A->peers[1]->num_refs, num_refs);
}

static void regions_always_change(unsigned count)
{
    (void)count;
    ++A->peers[1]->remote.num_updates;
}

/* Loop index: nothing changes meanwhile; a region there is dropped, and pairing begins
 * again; the peer's regions change in each round, and the fourth trial makes no pause
 */
START_TEST(a_map_of_many_regions_lets_other_threads_in)
{
    static const struct {
        void (*at_pause)(unsigned count);
        unsigned num_pauses, num_dropped;
    } cases[] = {
        {NULL, 9, 0}, {the_peer_drops_a_region, 17, 1}, {regions_always_change, 3, 0}};
    long_call_t call = {.run = create_map, .at_pause = cases[_i].at_pause};
    uint32_t num;

    pair_setup();
    add_many();
    num = num_pairs_of(A->maps[1]) + NUM_REGIONS + 1;
    ck_assert_uint_eq(count_pauses(&call), cases[_i].num_pauses);
    OK(call.status);
    ck_assert_uint_eq(num_pairs_of(new_map), num - cases[_i].num_dropped);
    num_refs = A->peers[1]->num_refs;
    call = (long_call_t){.run = destroy_map, .at_pause = the_peer_is_held};
    ck_assert_uint_eq(count_pauses(&call), 3);
    ck_assert_uint_eq(A->peers[1]->num_refs, num_refs);
    OK(call.status);
    OK(mkv_regions_drop(A->ctx, region_ids + 1, NUM_REGIONS - 1)); /* not in use */
    pair_run();
    pair_teardown();
}
END_TEST

static void pairing_waits(unsigned count)
{
    (void)count;
    ck_assert_int_eq(pthread_mutex_trylock(&A->ctx->pair_lock), EBUSY);
}

static pthread_t other_thread;
static long_call_t other_call;

static void start_other(mkv_status_t (*run)(void))
{
    other_call = (long_call_t){.run = run};
    ck_assert_int_eq(pthread_create(&other_thread, NULL, make_call, &other_call), 0);
}

/* Return when the call holds the peer and waits for the end of the drop */
static void a_map_is_created(unsigned count)
{
    unsigned refs = A->peers[1]->num_refs, empty = 0;

    pairing_waits(count);
    if (count > 1) {
        return;
    }
    start_other(create_map);
    while (A->peers[1]->num_refs == refs) {
        pthread_mutex_unlock(&A->ctx->lock);
        mkv_test_pause(&empty);
        pthread_mutex_lock(&A->ctx->lock);
    }
}

/* Pairing has passed the region, and sorts in some of the later pauses */
static void all_regions_are_dropped(unsigned count)
{
    pairing_waits(count);
    if (count == 8) {
        start_other(drop_many);
    }
}

static mkv_status_t post_plan(void)
{
    return mkv_xfer_post(active, 0, plan, NULL, NULL);
}

/* This thread is inside, so the post of another one is queued */
static void queue_a_post(void)
{
    mkv_enter(A->ctx);
    start_other(post_plan);
    ck_assert_int_eq(pthread_join(other_thread, NULL), 0);
    OK(other_call.status);
    ck_assert(mkv_ctx_has_submissions(A->ctx));
}

/* The open makes the post first, then receives a block list that was kept for it */
START_TEST(an_open_behind_a_queued_post_has_its_own_times)
{
    mkv_xfer_attr_t attr;
    mkv_xfer_t *to, *at;

    pair_setup();
    bind_write();
    at = pair_xfer(B, 0, 2, MKV_WRITE, MKV_DST);
    pair_expose(at, NUM, NUM);
    pair_run();
    queue_a_post();
    pair_tick = 1000;
    to = pair_xfer(A, 1, 2, MKV_WRITE, MKV_SRC);
    pair_tick = 0;
    mkv_leave_quietly(A->ctx);
    attr = pair_query(to);
    ck_assert_uint_gt(attr.exposed_ns, 0);
    ck_assert_uint_le(attr.exposed_ns, attr.age_ns);
    ck_assert_uint_gt(attr.bound_ns, 0);
    ck_assert_uint_le(attr.bound_ns, attr.age_ns);
    OK(mkv_xfer_abort(to, MKV_ERR_ABORTED, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    pair_close(to, at, NULL);
    finish();
}
END_TEST

/* A leaving call makes as much of the post as one round may; the thread of the progress
 * must go on with it */
START_TEST(a_post_that_a_leaving_call_takes_in_prevents_sleep)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), event_fd;

    ck_assert_int_ge(fd, 0);
    pair_layers = 80;
    pair_setup();
    fake_ucp_set_lists(0);
    fake_ucp_set_efd(fd);
    OK(mkv_event_fd(A->ctx, &event_fd));
    active = pair_bind_write(PAIR_BLOCKS, &passive);
    plan = pair_plan(A, 1, 0, 0, PAIR_BLOCKS, 0);
    pair_run();
    OK(mkv_arm(A->ctx));
    fake_ucp_set_inline(DATA);
    queue_a_post();
    mkv_leave_quietly(A->ctx);
    ck_assert_uint_lt(pair_query(active).completed, pair_query(active).posted);
    IS(mkv_arm(A->ctx), MKV_ERR_BUSY);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    fake_ucp_set_inline(0);
    pair_layers = 4;
    finish();
    close(fd);
}
END_TEST

/* A map neither lacks regions that a refused drop gives back, nor takes some that are
 * being dropped */
START_TEST(a_map_and_a_drop_wait_for_each_other)
{
    long_call_t dropping = {.run = drop_one_too_many, .at_pause = a_map_is_created};
    long_call_t pairing = {.run = create_map, .at_pause = all_regions_are_dropped};
    uint32_t num;

    pair_setup();
    add_many();
    num = num_pairs_of(A->maps[1]) + NUM_REGIONS + 1;
    ck_assert_uint_eq(count_pauses(&dropping), 6);
    IS(dropping.status, MKV_ERR_NOTFOUND);
    ck_assert_int_eq(pthread_join(other_thread, NULL), 0);
    OK(other_call.status);
    ck_assert_uint_eq(num_pairs_of(new_map), num);
    OK(destroy_map());
    ck_assert_uint_eq(count_pauses(&pairing), 9);
    OK(pairing.status);
    ck_assert_int_eq(pthread_join(other_thread, NULL), 0);
    IS(other_call.status, MKV_ERR_BUSY);
    ck_assert_uint_eq(num_pairs_of(new_map), num);
    OK(destroy_map());
    pair_teardown();
}
END_TEST

static void a_map_is_created_and_the_peer_closed(unsigned count)
{
    a_map_is_created(count);
    the_peer_is_closed(count);
}

/* The map's call keeps the peer while it waits for the drop */
START_TEST(a_map_that_waits_for_a_drop_keeps_its_peer)
{
    long_call_t dropping = {.run = drop_one_too_many,
                            .at_pause = a_map_is_created_and_the_peer_closed};

    pair_setup();
    add_many();
    ck_assert_uint_eq(count_pauses(&dropping), 6);
    ck_assert_int_eq(pthread_join(other_thread, NULL), 0);
    IS(other_call.status, MKV_ERR_PEER);
    ck_assert_ptr_nonnull(strstr(other_call.text, "is not ready"));
    pair_run();
    ck_assert(mkv_list_is_empty(&A->ctx->dead_peers));
    pair_teardown();
}
END_TEST

static mkv_status_t close_context(void)
{
    return mkv_close(A->ctx);
}

/* The library writes the flag with the lock held. */
static bool is_closing(void)
{
    bool result;

    if (pthread_mutex_trylock(&A->ctx->lock) != 0) {
        return false;
    }
    result = A->ctx->is_closing;
    ck_assert_int_eq(pthread_mutex_unlock(&A->ctx->lock), 0);
    return result;
}

static void skip_line(void *arg, const char *line)
{
    (void)arg;
    (void)line;
}

static mkv_status_t dump_regions(void)
{
    return mkv_dump(A->ctx, MKV_DUMP_REGIONS, skip_line, NULL);
}

/* A close that has no more to wait for frees its objects within fewer turns */
#define MANY_TURNS 500u

static void wait_for_turns(void)
{
    unsigned start, empty = 0;

    while (!is_closing()) {
        mkv_test_pause(&empty);
    }
    __atomic_sub_fetch(&A->ctx->num_waiting, FEIGNED, __ATOMIC_RELAXED);
    start = __atomic_load_n(&A->ctx->num_turns, __ATOMIC_RELAXED);
    while (
        !__atomic_load_n(&other_call.is_back, __ATOMIC_RELAXED) &&
        (__atomic_load_n(&A->ctx->num_turns, __ATOMIC_RELAXED) - start < MANY_TURNS)) {
        mkv_test_pause(&empty);
    }
    ck_assert(!__atomic_load_n(&other_call.is_back, __ATOMIC_RELAXED));
}

static void no_call_on_a_transfer_begins(void)
{
    mkv_xfer_t xfer = {.ctx = A->ctx};
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    mkv_leg_attr_t leg = {.size = sizeof(leg)};
    const void *data;
    size_t length;

    IS(mkv_xfer_open(A->ctx, NULL, &active), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "is being closed"));
    IS(mkv_xfer_refuse(A->peers[1], 1, 1, MKV_ERR_ABORTED, NULL), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "is being closed"));
    IS(mkv_xfer_request(&xfer, 0, NULL, 0), MKV_ERR_INVALID);
    IS(mkv_xfer_expose(&xfer, 0, NULL, 0, NULL, 0), MKV_ERR_INVALID);
    IS(mkv_xfer_post(&xfer, 0, plan, NULL, NULL), MKV_ERR_INVALID);
    IS(mkv_xfer_seal(&xfer, 0), MKV_ERR_INVALID);
    IS(mkv_xfer_seal_data(&xfer, 0, NULL, 0), MKV_ERR_INVALID);
    IS(mkv_xfer_done_data(&xfer, 0, &data, &length), MKV_ERR_INVALID);
    IS(mkv_xfer_query(&xfer, &attr), MKV_ERR_INVALID);
    IS(mkv_xfer_query_leg(&xfer, 0, &leg), MKV_ERR_INVALID);
    IS(mkv_xfer_status(&xfer, NULL), MKV_ERR_INVALID);
    IS(mkv_xfer_abort(&xfer, MKV_ERR_ABORTED, NULL), MKV_ERR_INVALID);
    IS(mkv_xfer_abort_leg(&xfer, 0, MKV_ERR_ABORTED, NULL), MKV_ERR_INVALID);
    IS(mkv_xfer_extend(&xfer, 1), MKV_ERR_INVALID);
    IS(mkv_xfer_declare_dead(&xfer), MKV_ERR_INVALID);
    IS(mkv_xfer_close(&xfer), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "is being closed"));
}

static void no_call_on_another_object_begins(void)
{
    mkv_op_t some_op = {.ctx = A->ctx};
    mkv_plan_t some_plan = {.ctx = A->ctx};
    mkv_op_attr_t op_attr = {.size = sizeof(op_attr)};
    mkv_map_attr_t map_attr = {.size = sizeof(map_attr)};
    mkv_peer_attr_t peer_attr = {.size = sizeof(peer_attr)};
    mkv_plan_attr_t plan_attr = {.size = sizeof(plan_attr)};

    IS(mkv_op_query(&some_op, &op_attr), MKV_ERR_INVALID);
    IS(mkv_op_status(&some_op), MKV_ERR_INVALID);
    IS(mkv_op_abort(&some_op), MKV_ERR_INVALID);
    IS(mkv_op_close(&some_op), MKV_ERR_INVALID);
    IS(mkv_map_query(A->maps[1], &map_attr), MKV_ERR_INVALID);
    IS(mkv_map_destroy(A->maps[1]), MKV_ERR_INVALID);
    IS(mkv_plan_query(&some_plan, &plan_attr), MKV_ERR_INVALID);
    IS(mkv_plan_destroy(&some_plan), MKV_ERR_INVALID);
    IS(mkv_peer_query(A->peers[1], &peer_attr), MKV_ERR_INVALID);
    IS(mkv_peer_declare_dead(A->peers[1]), MKV_ERR_INVALID);
    IS(mkv_peer_close(A->peers[1], MKV_CLOSE_FORCE), MKV_ERR_INVALID);
    IS(mkv_send(A->peers[1], 1, 1, NULL, 0, NULL, 0), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "is being closed"));
}

static void no_call_on_the_context_begins(void)
{
    mkv_stats_t stats = {.size = sizeof(stats)};
    size_t length = 0, count;
    mkv_event_t event;
    int fd;

    ck_assert_uint_eq(mkv_progress(A->ctx), 0);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "is being closed"));
    IS(mkv_poll(A->ctx, &event, sizeof(event), 1, &count), MKV_ERR_INVALID);
    IS(mkv_event_fd(A->ctx, &fd), MKV_ERR_INVALID);
    IS(mkv_arm(A->ctx), MKV_ERR_INVALID);
    IS(mkv_stats(A->ctx, NULL, &stats), MKV_ERR_INVALID);
    IS(mkv_gate_forget(A->ctx, 1), MKV_ERR_INVALID);
    IS(mkv_blob(A->ctx, MKV_BLOB_ADDR, NULL, &length), MKV_ERR_INVALID);
    IS(mkv_peer_add(A->ctx, "", 0, NULL, &A->peers[2]), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "is being closed"));
}

static void nothing_begins_in_a_close(void)
{
    mkv_region_id_t id;

    no_call_on_the_context_begins();
    no_call_on_another_object_begins();
    no_call_on_a_transfer_begins();
    IS(add_bytes(A, 9, bytes_here, &id), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "is being closed"));
    IS(commit(), MKV_ERR_INVALID);
    IS(drop_many(), MKV_ERR_INVALID);
    IS(create_map(), MKV_ERR_INVALID);
    IS(post_byte(region_ids[0]), MKV_ERR_INVALID);
    IS(dump_regions(), MKV_ERR_INVALID);
    IS(mkv_plan_create(A->maps[1], NULL, 0, 0, &plan), MKV_ERR_INVALID);
    IS(mkv_plan_create_bytes(A->maps[1], NULL, 0, 0, &plan), MKV_ERR_INVALID);
    IS(mkv_gate_signal(A->ctx, 1, 1), MKV_ERR_INVALID);
}

static void make_op(void)
{
    add_ends();
    OK(add_bytes(A, 3, allocs[0], &odd_id)); /* a reference for each piece */
    OK(mkv_regions_commit(A->ctx, NULL));
    pair_run();
    OK(post_many());
    pair_run();
    ck_assert_int_eq(mkv_op_status(op), MKV_OK);
}

static void make_map(void)
{
    add_many();
    OK(create_map());
}

static void add_ranges(void)
{
    unsigned i;

    for (i = 0; i < NUM_ALLOCS; ++i) {
        OK(add_bytes(A, (int32_t)i, allocs[i], &alloc_ids[i]));
    }
}

/* A close lets each call in rounds go on, and frees nothing before its end, however
 * long it takes: each look at the clock is a second later. The map of the pair is left
 * to the close. Loop index: the call */
START_TEST(a_close_waits_for_calls_in_rounds)
{
    static const struct {
        void (*prepare)(void);
        mkv_status_t (*run)(void);
    } cases[] = {{make_map, destroy_map},  {make_op, close_op},  {add_many, drop_many},
                 {add_many, dump_regions}, {add_ranges, commit}, {add_many, create_map},
                 {add_ends, post_many}};
    long_call_t call = {.run = cases[_i].run};
    pthread_t thread;

    pair_setup();
    cases[_i].prepare();
    thread = start_counted(&call);
    ck_assert(is_in_pause(&call));
    pair_tick = 1000 * MKV_NSEC_PER_MSEC;
    start_other(close_context);
    wait_for_turns();
    nothing_begins_in_a_close();
    __atomic_store_n(&call.is_free, true, __ATOMIC_RELAXED);
    ck_assert_int_eq(sem_post(&call.next), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    OK(call.status); /* nothing that it uses has ended */
    ck_assert_int_eq(pthread_join(other_thread, NULL), 0);
    pair_tick = 0;
    IS(other_call.status, MKV_ERR_BUSY); /* a map was open */
    A->ctx = NULL;
    free(A->mem);
    pair_teardown();
}
END_TEST

static unsigned num_held(void)
{
    return __atomic_load_n(&A->ctx->num_held, __ATOMIC_SEQ_CST);
}

static mkv_status_t poll_one(void)
{
    mkv_event_t event;
    size_t count;

    return mkv_poll(A->ctx, &event, sizeof(event), 1, &count);
}

/* A close waits for both. The poll waits for this thread, which has the lock of events
 */
START_TEST(progress_and_a_poll_hold_their_context)
{
    pthread_t thread;
    unsigned empty = 0;

    pair_setup();
    bind_write();
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, "test")); /* an event waits */
    thread = go_inside();
    ck_assert_uint_eq(num_held(), 1);
    come_out(thread);
    ck_assert_uint_eq(num_held(), 0);
    ck_assert_int_eq(pthread_mutex_lock(&A->ctx->event_lock), 0);
    start_other(poll_one);
    while (num_held() == 0) {
        mkv_test_pause(&empty);
    }
    ck_assert_int_eq(pthread_mutex_unlock(&A->ctx->event_lock), 0);
    ck_assert_int_eq(pthread_join(other_thread, NULL), 0);
    OK(other_call.status);
    ck_assert_uint_eq(num_held(), 0);
    pair_run();
    finish();
}
END_TEST

static void call_at_the_end(void *arg, mkv_status_t status)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    mkv_status_t *results = arg;

    results[0] = status;
    results[1] = mkv_xfer_query(active, &attr);
    results[2] = poll_one();
    results[3] = mkv_gate_signal(A->ctx, 1, 1);
    results[4] = mkv_xfer_status(active, NULL);
}

/* A close refuses calls of other threads alone */
START_TEST(a_close_refuses_no_call_of_its_own_callbacks)
{
    mkv_status_t results[5] = {MKV_OK};
    const mkv_xfer_params_t params = {.size = sizeof(params),
                                      .id = 1,
                                      .legs = &A->maps[1],
                                      .num_legs = 1,
                                      .ended = call_at_the_end,
                                      .ended_arg = results};

    pair_setup();
    OK(mkv_xfer_open(A->ctx, &params, &active));
    IS(close_context(), MKV_ERR_BUSY); /* the transfer was open */
    A->ctx = NULL;
    free(A->mem);
    IS(results[0], MKV_ERR_ABORTED);
    OK(results[1]);
    OK(results[2]);
    OK(results[3]);
    IS(results[4], MKV_ERR_ABORTED);
    pair_teardown();
}
END_TEST

START_TEST(regions_for_many_peers_let_other_threads_in)
{
    long_call_t call = {.run = commit};
    unsigned i;

    pair_setup();
    for (i = 2; i < PAIR_MAX_SIDES; ++i) {
        pair_open(i);
        pair_connect(0, i);
    }
    (void)add_at(A, 1, bytes_here);
    ck_assert_uint_eq(count_pauses(&call), PAIR_MAX_SIDES - 2);
    OK(call.status);
    pair_run();
    for (i = 1; i < PAIR_MAX_SIDES; ++i) {
        ck_assert_uint_eq(pair_sides[i].peers[0]->remote.epoch, A->ctx->epoch);
    }
    pair_teardown();
}
END_TEST

static void *try_lock(void *arg)
{
    int *result = arg;

    *result = pthread_mutex_trylock(&A->ctx->lock);
    if (*result == 0) {
        pthread_mutex_unlock(&A->ctx->lock);
    }
    return NULL;
}

static void write_without_lock(void *arg, const char *line)
{
    pthread_t thread;
    int result = -1;

    ck_assert_ptr_nonnull(line);
    ++*(unsigned *)arg;
    ck_assert_int_eq(pthread_create(&thread, NULL, try_lock, &result), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(result, 0);
}

START_TEST(a_dump_lets_other_threads_in)
{
    long_call_t call = {.run = dump_regions};
    unsigned num_lines = 0;

    pair_setup();
    OK(mkv_dump(A->ctx, MKV_DUMP_ALL, write_without_lock, &num_lines));
    ck_assert_uint_gt(num_lines, 10);
    add_many();
    ck_assert_uint_eq(count_pauses(&call), 3);
    OK(call.status);
    pair_teardown();
}
END_TEST

/* A thread has the lock, and the blocks are wrong: the error needs no lock */
START_TEST(blocks_are_checked_without_the_lock)
{
    const uint32_t outside = UINT32_MAX;
    const mkv_units_t units = {
        .num_local = 1, .num_remote = 1, .local = &outside, .remote = &outside};
    mkv_plan_t *none = NULL;
    pthread_t thread;

    pair_setup();
    bind_write();
    thread = go_inside();
    IS(mkv_plan_create(A->maps[1], &units, 1, 0, &none), MKV_ERR_BOUNDS);
    come_out(thread);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, "test"));
    pair_run();
    finish();
}
END_TEST

/* ---- All at once ----------------------------------------------------------------- */

#define ROUNDS 60u

static int is_over;

static void *progress_all_along(void *arg)
{
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        (void)mkv_progress(arg);
    }
    return NULL;
}

static void *query_all_along(void *arg)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    uint64_t completed, last = 0;

    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        if (mkv_xfer_query(arg, &attr) != MKV_OK) {
            abort();
        }
        (void)mkv_xfer_status(arg, &completed);
        if (completed < last) {
            abort();
        }
        last = completed;
    }
    return NULL;
}

/* Events of a side until one of this kind; others are dropped */
static mkv_event_t wait_event(pair_side_t *side, mkv_event_type_t type)
{
    mkv_event_t event;
    size_t count;

    for (;;) {
        OK(mkv_poll(side->ctx, &event, sizeof(event), 1, &count));
        if ((count == 1) && (event.type == type)) {
            return event;
        }
    }
}

/* ---- The library's own threads --------------------------------------------------- */

static unsigned rounds_of_threads(unsigned num)
{
    /* arms first, so that those of the counted rounds are all counted */
    unsigned arms = fake_ucp_num_arms(), start = fake_ucp_num_progress(), empty = 0;

    while (fake_ucp_num_progress() - start < num) {
        mkv_test_pause(&empty);
    }
    return fake_ucp_num_arms() - arms;
}

static unsigned num_asleep(void)
{
    return __atomic_load_n(&A->ctx->num_asleep, __ATOMIC_SEQ_CST);
}

static void open_with_threads(int fd)
{
    ck_assert_int_ge(fd, 0);
    fake_ucp_reset();
    fake_ucp_set_efd(fd);
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    pair_connect(0, 1);
    bind_write();
}

/* Post; the block list may still be with the thread that receives it. */
static void post_when_bound(const mkv_gate_t *gate)
{
    mkv_status_t status;
    unsigned empty = 0;

    while ((status = mkv_xfer_post(active, 0, plan, NULL, gate)) == MKV_ERR_BUSY) {
        mkv_test_pause(&empty);
    }
    OK(status);
}

typedef struct closing {
    pthread_t caller; /* of the post */
    mkv_status_t status;
    char text[256];
} closing_t;

static int close_in_gate(void *arg)
{
    closing_t *closing = arg;

    if (pthread_equal(closing->caller, pthread_self())) {
        return 0; /* the post checks first */
    }

    closing->status = mkv_close(A->ctx);
    snprintf(closing->text, sizeof(closing->text), "%s", mkv_last_error());
    return 1;
}

/* The close would wait for the end of its own thread. */
/* CC-02 */
START_TEST(a_callback_of_its_own_thread_cannot_close_a_context)
{
    closing_t closing = {.caller = pthread_self(), .status = MKV_OK};
    mkv_gate_t gate = {.size = sizeof(gate), .ready = close_in_gate, .arg = &closing};
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    pair_set("PROGRESS_THREADS", "1");
    open_with_threads(fd);
    post_when_bound(&gate);
    OK(mkv_xfer_seal(active, 0));
    (void)wait_event(B, MKV_EV_QUIET);
    pair_run();
    IS(closing.status, MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(closing.text, "expected another thread"));
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    finish();
    close(fd);
}
END_TEST

/* A thread sleeps after each round that finds nothing, except while calls are in
 * flight, as the lane's next call waits for that thread. Loop index: 0 PROGRESS_SPIN is
 * 2000; 1 it is 0 (control); 2 one of four threads spins. */
/* CF-04 */
START_TEST(a_thread_goes_on_while_calls_are_in_flight)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool is_asleep = (_i != 2);
    unsigned i;

    pair_set("PROGRESS_THREADS", (_i == 2) ? "4" : "1");
    mkv_tuning.progress_spin = (_i == 1) ? 0 : 2000;
    open_with_threads(fd);
    ck_assert_uint_gt(rounds_of_threads(20), 0);
    fake_ucp_hold(DATA);
    post_when_bound(NULL);
    (void)rounds_of_threads(20); /* until the others sleep */
    if (_i == 1) {
        ck_assert_uint_gt(rounds_of_threads(4), 0);
    } else {
        /* others may wake, and the thread that goes on may stand still */
        for (i = 0; (i < 10) && (rounds_of_threads(2000) >= 500); ++i) {
        }
        ck_assert_uint_lt(i, 10);
        for (i = 0; (i < 500) && !is_asleep; ++i) {
            (void)rounds_of_threads(200); /* woken threads wait for the lock */
            is_asleep = (num_asleep() > 0);
        }
        ck_assert(is_asleep);
    }
    OK(mkv_xfer_seal(active, 0));
    fake_ucp_hold(0);
    (void)wait_event(B, MKV_EV_QUIET);
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    finish();
    close(fd);
}
END_TEST

/* Threads of both sides make progress, one queries, and this one posts layer by layer
 * and polls. Loop index: READ. Under ThreadSanitizer this finds races. */
/* CC-02 */
START_TEST(many_threads_at_once)
{
    mkv_mode_t mode = _i ? MKV_READ : MKV_WRITE;
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS};
    pthread_t threads[4];
    unsigned round, i;

    mkv_tuning.push_min = 1;
    pair_setup();
    for (round = 0; round < mkv_test_rounds(ROUNDS, 6); ++round) {
        is_over = 0;
        active = pair_xfer(A, 1, round, mode, _i ? MKV_DST : MKV_SRC);
        passive = pair_xfer(B, 0, round, mode, _i ? MKV_SRC : MKV_DST);
        plan = pair_plan(A, 1, 0, 16, NUM, 0);
        for (i = 0; i < 3; ++i) {
            ck_assert_int_eq(pthread_create(&threads[i], NULL, progress_all_along,
                                            (i == 2) ? B->ctx : A->ctx),
                             0);
        }
        ck_assert_int_eq(pthread_create(&threads[3], NULL, query_all_along, active), 0);
        pair_expose(passive, 16, NUM);
        (void)wait_event(A, MKV_EV_EXPOSED);
        for (i = 0; i < pair_layers; ++i) {
            sel.layer_lo = (int32_t)i;
            sel.layer_hi = (int32_t)i + 1;
            OK(mkv_xfer_post(active, 0, plan, &sel, NULL));
        }
        OK(mkv_xfer_seal(active, 0));
        (void)wait_event(A, MKV_EV_QUIET);
        (void)wait_event(B, MKV_EV_QUIET);
        __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
        for (i = 0; i < 4; ++i) {
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        }
        ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
        for (i = 0; i < NUM; ++i) {
            ck_assert(_i ? pair_holds(A, i, 1, 16 + NUM - 1 - i)
                         : pair_holds(B, 16 + NUM - 1 - i, 0, i));
        }
        pair_close(active, passive, plan);
    }
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("threads");

    tcase_add_test(tcase, a_poll_waits_for_no_progress);
    tcase_add_test(tcase, a_query_waits_for_no_progress);
    tcase_add_test(tcase, a_query_takes_twenty_microseconds_while_another_thread_reads);
    tcase_add_test(tcase, a_post_waits_for_no_progress);
    tcase_add_loop_test(tcase, a_bad_post_is_refused_at_once, 0, 3);
    tcase_add_test(tcase, a_post_for_what_ends_meanwhile_is_dropped);
    tcase_add_loop_test(tcase, a_gate_is_checked_by_the_posting_or_progressing_thread,
                        0, 2);
    tcase_add_test(tcase, a_post_that_cannot_be_made_meanwhile_fails_its_transfer);
    tcase_add_test(tcase, a_plan_with_a_post_on_its_way_is_kept);
    tcase_add_loop_test(tcase, a_round_has_an_end, 0, 2);
    tcase_add_test(tcase, a_stalled_peer_delays_no_other);
    tcase_add_test(tcase, a_context_waits_for_no_other);
    tcase_add_loop_test(tcase, a_thread_goes_on_while_calls_are_in_flight, 0, 3);
    tcase_add_test(tcase, a_callback_of_its_own_thread_cannot_close_a_context);
    tcase_add_loop_test(tcase, a_post_of_many_pieces_lets_other_threads_in, 0, 3);
    tcase_add_test(tcase, a_close_of_many_regions_lets_other_threads_in);
    tcase_add_test(tcase, registrations_let_other_threads_in);
    tcase_add_test(tcase, a_drop_of_many_regions_lets_other_threads_in);
    tcase_add_loop_test(tcase, a_map_of_many_regions_lets_other_threads_in, 0, 3);
    tcase_add_loop_test(tcase, a_map_of_a_peer_that_ends_meanwhile_is_refused, 0, 2);
    tcase_add_test(tcase, an_open_behind_a_queued_post_has_its_own_times);
    tcase_add_test(tcase, a_post_that_a_leaving_call_takes_in_prevents_sleep);
    tcase_add_test(tcase, a_map_and_a_drop_wait_for_each_other);
    tcase_add_test(tcase, a_map_that_waits_for_a_drop_keeps_its_peer);
    tcase_add_loop_test(tcase, a_close_waits_for_calls_in_rounds, 0, 7);
    tcase_add_test(tcase, progress_and_a_poll_hold_their_context);
    tcase_add_test(tcase, a_close_refuses_no_call_of_its_own_callbacks);
    tcase_add_test(tcase, regions_for_many_peers_let_other_threads_in);
    tcase_add_test(tcase, a_dump_lets_other_threads_in);
    tcase_add_test(tcase, blocks_are_checked_without_the_lock);
    tcase_add_loop_test(tcase, many_threads_at_once, 0, 2);
    return pair_main("mkv_threads", tcase);
}
