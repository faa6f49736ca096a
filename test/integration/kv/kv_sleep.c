/* SPDX-License-Identifier: BSD-3-Clause */

/* A thread sleeps on the event descriptor, without a limit, while another thread of the
 * process makes the calls. */

#include "kv_side.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NUM 16u

typedef struct sleeper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned num_sleeps, seen;
    mkv_ctx_t *ctx;
} sleeper_t;

/* Event loop of the library's header, until the transfer is quiet */
static void *sleeper_main(void *arg)
{
    struct pollfd pfd = {.events = POLLIN};
    sleeper_t *sleeper = arg;
    mkv_status_t status;
    mkv_event_t event;
    size_t count;

    KV_OK(mkv_event_fd(sleeper->ctx, &pfd.fd));
    for (;;) {
        (void)mkv_progress(sleeper->ctx);
        KV_OK(mkv_poll(sleeper->ctx, &event, sizeof(event), 1, &count));
        if ((count > 0) && (event.type == MKV_EV_QUIET)) {
            return NULL;
        }
        status = (count > 0) ? MKV_ERR_BUSY : mkv_arm(sleeper->ctx);
        if (status == MKV_ERR_BUSY) {
            continue;
        }
        KV_OK(status);
        pthread_mutex_lock(&sleeper->lock);
        ++sleeper->num_sleeps;
        pthread_cond_signal(&sleeper->changed);
        pthread_mutex_unlock(&sleeper->lock);
        (void)poll(&pfd, 1, -1);
    }
}

/* Wait until the sleeper has gone to sleep since the last call */
static void wait_asleep(sleeper_t *sleeper)
{
    pthread_mutex_lock(&sleeper->lock);
    while (sleeper->num_sleeps == sleeper->seen) {
        pthread_cond_wait(&sleeper->changed, &sleeper->lock);
    }
    sleeper->seen = sleeper->num_sleeps;
    pthread_mutex_unlock(&sleeper->lock);
}

/* Wait until all posts are complete, which needs the sleeper's progress, and it sleeps
 * again */
static void wait_completed(sleeper_t *sleeper, const mkv_xfer_t *xfer)
{
    const struct timespec pause = {0, 1000000};
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};

    for (;;) {
        KV_OK(mkv_xfer_query(xfer, &attr));
        if (attr.completed == attr.posted) {
            break;
        }
        nanosleep(&pause, NULL);
    }
    wait_asleep(sleeper);
}

static int dst_main(int fd, void *arg)
{
    const kv_shape_t *shape = arg;
    uint32_t blocks[NUM];
    kv_side_t side = {0};
    mkv_xfer_t *xfer;

    kv_side_open(&side, "dst", fd, shape, 90);
    kv_side_connect_map(&side, 0);
    kv_random_blocks(blocks, NUM, shape->blocks, 1);
    xfer = kv_open_xfer(&side, 1, MKV_WRITE, MKV_DST);
    kv_expose(xfer, blocks, NUM);
    (void)kv_wait_event(&side, MKV_EV_DONE, xfer);
    (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
    KV_OK(mkv_xfer_close(xfer));
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

/* A post waits for its gate; the signal, another post and the seal come from here,
 * while the other thread sleeps: each must wake it */
static void call_while_asleep(kv_side_t *side, sleeper_t *sleeper, mkv_xfer_t *xfer,
                              mkv_plan_t *plan)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS, .layer_hi = 1};
    mkv_gate_t gate = {.size = sizeof(gate), .id = 7, .value = 1};

    KV_OK(mkv_xfer_post(xfer, 0, plan, &sel, &gate));
    sleeper->ctx = side->ctx;
    pthread_mutex_init(&sleeper->lock, NULL);
    pthread_cond_init(&sleeper->changed, NULL);
    ck_assert_int_eq(pthread_create(&sleeper->thread, NULL, sleeper_main, sleeper), 0);
    wait_asleep(sleeper);
    KV_OK(mkv_gate_signal(side->ctx, gate.id, 1));
    wait_completed(sleeper, xfer);
    sel.layer_lo = 1;
    sel.layer_hi = (int32_t)side->shape.layers;
    KV_OK(mkv_xfer_post(xfer, 0, plan, &sel, NULL));
    wait_completed(sleeper, xfer);
    KV_OK(mkv_xfer_seal(xfer, 0));
    pthread_join(sleeper->thread, NULL);
}

/* The source, beside a process that is the target; no timer helps either */
static void start_src(kv_side_t *side, mkv_proc_t *proc, mkv_proc_main_t target,
                      kv_shape_t *shape, int has_thread)
{
    kv_set_option("PEER_CHECK", "0");
    setenv("UCX_KEEPALIVE_INTERVAL", "inf", 1);
    ck_assert_int_eq(mkv_proc_fork(proc, target, shape), 0);
    kv_set_option("PROGRESS_THREADS", has_thread ? "1" : "0");
    kv_side_open(side, "src", proc->fd, shape, 3);
    kv_side_connect_map(side, 1);
}

/* Check that the first transport of UCX_TLS carried the bytes */
static void check_lane(const kv_side_t *side)
{
    static const struct {
        const char *name;
        mkv_backend_t backend;
    } lanes[] = {{"mori_xgmi", MKV_BACKEND_XGMI}, {"mori_rdma", MKV_BACKEND_RDMA}};
    mkv_peer_attr_t attr = {.size = sizeof(attr)};
    const char *tls = getenv("UCX_TLS");
    size_t i;

    KV_OK(mkv_peer_query(side->peer, &attr));
    for (i = 0; (tls != NULL) && (i < sizeof(lanes) / sizeof(lanes[0])); ++i) {
        ck_assert_msg((strncmp(tls, lanes[i].name, strlen(lanes[i].name)) != 0) ||
                          (attr.backend == lanes[i].backend),
                      "UCX_TLS=%s, and %s", tls, attr.paths);
    }
}

static void end_src(kv_side_t *side, mkv_proc_t *proc)
{
    check_lane(side);
    kv_send_word(side, "bye");
    kv_side_close(side);
    ck_assert_int_eq(mkv_proc_wait(proc), 0);
    ck_assert_int_eq(proc->status, 0);
}

/* Loop index: progress is the application's, or the library's own thread makes it */
START_TEST(calls_of_other_threads_end_a_sleep)
{
    kv_shape_t shape = kv_shape_default;
    sleeper_t sleeper = {0};
    kv_side_t side = {0};
    mkv_event_t exposed;
    uint32_t blocks[NUM];
    mkv_proc_t proc;
    mkv_plan_t *plan;
    mkv_xfer_t *xfer;

    start_src(&side, &proc, dst_main, &shape, _i);
    kv_random_blocks(blocks, NUM, shape.blocks, 2);
    xfer = kv_open_xfer(&side, 1, MKV_WRITE, MKV_SRC);
    exposed = kv_wait_event(&side, MKV_EV_EXPOSED, xfer);
    plan = kv_plan(&side, blocks, NUM, &exposed, 0);
    call_while_asleep(&side, &sleeper, xfer, plan);
    KV_OK(mkv_xfer_close(xfer));
    KV_OK(mkv_plan_destroy(plan));
    end_src(&side, &proc);
}
END_TEST

/* ---- Any order ------------------------------------------------------------------- */

#define NUM_ORDERS 4u /* before post 1, after it, after post 2, after the seal */
#define NUM_PAUSES 4u

static unsigned num_rounds(void)
{
    const char *rounds = getenv("KV_SLEEP_ROUNDS");

    return (rounds != NULL) ? (unsigned)atoi(rounds) : 10 * NUM_ORDERS * NUM_PAUSES;
}

/* The destination sleeps as well, without a limit */
static int many_dst_main(int fd, void *arg)
{
    const kv_shape_t *shape = arg;
    uint32_t blocks[NUM];
    kv_side_t side = {0};
    mkv_xfer_t *xfer;
    unsigned i;

    kv_sides_sleep = 1;
    kv_side_open(&side, "dst", fd, shape, 90);
    kv_side_connect_map(&side, 0);
    kv_random_blocks(blocks, NUM, shape->blocks, 1);
    for (i = 0; i < num_rounds(); ++i) {
        xfer = kv_open_xfer(&side, i + 1, MKV_WRITE, MKV_DST);
        kv_expose(xfer, blocks, NUM);
        (void)kv_wait_event(&side, MKV_EV_DONE, xfer);
        (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
        KV_OK(mkv_xfer_close(xfer));
    }
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

/* Do not pause, or pause until the sleeper is about to arm or asleep: no result depends
 * on it */
static void pause_of(unsigned round, unsigned step, uint64_t *random)
{
    struct timespec pause = {0, 0};

    pause.tv_nsec = (long)((round / NUM_ORDERS + step) % NUM_PAUSES) * 40000 +
                    (long)(mkv_test_random(random) % 20000);
    nanosleep(&pause, NULL);
}

static void signal_at(kv_side_t *side, unsigned round, unsigned step)
{
    if (round % NUM_ORDERS == step) {
        KV_OK(mkv_gate_signal(side->ctx, 100 + round, 1));
    }
}

static void call_in_order(kv_side_t *side, mkv_xfer_t *xfer, mkv_plan_t *plan,
                          unsigned round, uint64_t *random)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS, .layer_hi = 1};
    mkv_gate_t gate = {.size = sizeof(gate), .id = 100 + round, .value = 1};

    pause_of(round, 0, random);
    signal_at(side, round, 0);
    pause_of(round, 1, random);
    KV_OK(mkv_xfer_post(xfer, 0, plan, &sel, &gate));
    signal_at(side, round, 1);
    pause_of(round, 2, random);
    sel.layer_lo = 1;
    sel.layer_hi = (int32_t)side->shape.layers;
    KV_OK(mkv_xfer_post(xfer, 0, plan, &sel, NULL));
    signal_at(side, round, 2);
    pause_of(round, 3, random);
    KV_OK(mkv_xfer_seal(xfer, 0));
    signal_at(side, round, 3);
}

/* Posts, the seal and the signal of a gate come in all orders, and at any time of the
 * sleeper: before it arms, meanwhile, and after. KV_SLEEP_ROUNDS sets the number of
 * rounds. */
START_TEST(no_order_of_calls_leaves_a_sleeper)
{
    kv_shape_t shape = kv_shape_default;
    kv_side_t side = {0};
    mkv_event_t exposed;
    uint32_t blocks[NUM];
    uint64_t random = 11;
    mkv_proc_t proc;
    mkv_plan_t *plan;
    mkv_xfer_t *xfer;
    unsigned i;

    start_src(&side, &proc, many_dst_main, &shape, _i);
    kv_random_blocks(blocks, NUM, shape.blocks, 2);
    for (i = 0; i < num_rounds(); ++i) {
        sleeper_t sleeper = {.ctx = side.ctx};

        xfer = kv_open_xfer(&side, i + 1, MKV_WRITE, MKV_SRC);
        exposed = kv_wait_event(&side, MKV_EV_EXPOSED, xfer);
        plan = kv_plan(&side, blocks, NUM, &exposed, 0);
        pthread_mutex_init(&sleeper.lock, NULL);
        pthread_cond_init(&sleeper.changed, NULL);
        ck_assert_int_eq(pthread_create(&sleeper.thread, NULL, sleeper_main, &sleeper),
                         0);
        call_in_order(&side, xfer, plan, i, &random);
        pthread_join(sleeper.thread, NULL);
        KV_OK(mkv_xfer_close(xfer));
        KV_OK(mkv_plan_destroy(plan));
    }
    end_src(&side, &proc);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_sleep");
    TCase *tcase = tcase_create("another thread");

    /* a missed wakeup sleeps for ever */
    tcase_set_timeout(tcase, 60 + num_rounds() / 20);
    tcase_add_loop_test(tcase, calls_of_other_threads_end_a_sleep, 0, 2);
    tcase_add_loop_test(tcase, no_order_of_calls_leaves_a_sleeper, 0, 2);
    suite_add_tcase(suite, tcase);
    return kv_main(suite);
}
