/* SPDX-License-Identifier: BSD-3-Clause */

/* A thread sleeps on the event descriptor, without a limit, while another thread of the
 * process makes the calls. */

#include "kv_side.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define NUM 16u

typedef struct sleeper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned num_sleeps, seen;
    mkv_ctx_t *ctx;
} sleeper_t;

/* What the library's header tells, until the transfer is quiet */
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

/* Until it has gone to sleep since the last call */
static void wait_asleep(sleeper_t *sleeper)
{
    pthread_mutex_lock(&sleeper->lock);
    while (sleeper->num_sleeps == sleeper->seen) {
        pthread_cond_wait(&sleeper->changed, &sleeper->lock);
    }
    sleeper->seen = sleeper->num_sleeps;
    pthread_mutex_unlock(&sleeper->lock);
}

/* What was posted is complete, which only the sleeper's progress makes it, and then it
 * has gone to sleep again */
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

    kv_set_option("PEER_CHECK", "0"); /* no timer helps */
    setenv("UCX_KEEPALIVE_INTERVAL", "inf", 1);
    ck_assert_int_eq(mkv_proc_fork(&proc, dst_main, &shape), 0);
    kv_set_option("PROGRESS_THREADS", _i ? "1" : "0");
    kv_side_open(&side, "src", proc.fd, &shape, 3);
    kv_side_connect_map(&side, 1);
    kv_random_blocks(blocks, NUM, shape.blocks, 2);
    xfer = kv_open_xfer(&side, 1, MKV_WRITE, MKV_SRC);
    exposed = kv_wait_event(&side, MKV_EV_EXPOSED, xfer);
    plan = kv_plan(&side, blocks, NUM, &exposed, 0);
    call_while_asleep(&side, &sleeper, xfer, plan);
    KV_OK(mkv_xfer_close(xfer));
    KV_OK(mkv_plan_destroy(plan));
    kv_say(&side, "bye");
    kv_side_close(&side);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_sleep");
    TCase *tcase = tcase_create("another thread");

    tcase_set_timeout(tcase, 60); /* who is not woken sleeps for ever */
    tcase_add_loop_test(tcase, calls_of_other_threads_end_a_sleep, 0, 2);
    suite_add_tcase(suite, tcase);
    return kv_main(suite);
}
