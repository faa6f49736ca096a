/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The other process is killed or stopped at every step of a transfer: a typed error
 * with a text, no hang, no byte outside the blocks that were shown, and quiet only when
 * it is proven.
 */

#include "kv_side.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NUM 16
#define MINE 5
#define THEIRS 77

enum { STEP_CONNECTED, STEP_OPEN, STEP_POSTED, STEP_SEALED, STEP_RANDOM, NUM_STEPS };

typedef struct plot {
    mkv_mode_t mode;
    int is_victim_active;
    int step;
} plot_t;

static mkv_role_t role_of(mkv_mode_t mode, int is_active)
{
    return ((mode == MKV_WRITE) == is_active) ? MKV_SRC : MKV_DST;
}

static int closed_gate(void *arg)
{
    (void)arg;
    return 0;
}

/* Half of the layers, the others behind a gate that stays closed */
static void post_some(kv_side_t *side, mkv_xfer_t *xfer, mkv_plan_t *plan, int step)
{
    mkv_gate_t gate = {.size = sizeof(gate), .ready = closed_gate};
    mkv_sel_t sel = {.size = sizeof(sel),
                     .fields = MKV_SEL_LAYERS,
                     .layer_hi = (int32_t)side->shape.layers / 2};

    KV_OK(mkv_xfer_post(xfer, 0, plan, &sel, NULL));
    sel.layer_lo = sel.layer_hi;
    sel.layer_hi = (int32_t)side->shape.layers;
    KV_OK(mkv_xfer_post(xfer, 0, plan, &sel, (step == STEP_RANDOM) ? NULL : &gate));
    if (step >= STEP_SEALED) {
        KV_OK(mkv_xfer_seal(xfer, 0));
    }
}

/* Go as far as the step says; the plan is leaked to the end of the test */
static mkv_xfer_t *play(kv_side_t *side, const plot_t *plot, int is_active,
                        uint32_t seed)
{
    static uint32_t blocks[NUM];
    mkv_event_t exposed;
    mkv_xfer_t *xfer;

    xfer = kv_open_xfer(side, 1, plot->mode, role_of(plot->mode, is_active));
    kv_random_blocks(blocks, NUM, side->shape.blocks, seed);
    if (!is_active) {
        kv_expose(xfer, blocks, NUM);
        return xfer;
    }
    if (plot->step >= STEP_POSTED) {
        exposed = kv_wait_event(side, MKV_EV_EXPOSED, xfer);
        post_some(side, xfer, kv_plan(side, blocks, NUM, &exposed, 0), plot->step);
    }
    return xfer;
}

static int victim(int fd, void *arg)
{
    const plot_t *plot = arg;
    kv_side_t side = {0};

    kv_side_open(&side, "dst", fd, &kv_shape_default, THEIRS);
    kv_side_connect_map(&side, 0);
    if (plot->step >= STEP_OPEN) {
        (void)play(&side, plot, plot->is_victim_active, 2);
    }
    kv_say(&side, "ready");
    for (;;) {
        kv_side_progress(&side);
    }
    return 0;
}

static mkv_xfer_attr_t query(const mkv_xfer_t *xfer)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};

    KV_OK(mkv_xfer_query(xfer, &attr));
    return attr;
}

/* Loop index: step, then READ, then the victim's side */
static plot_t plot_of(int index)
{
    return (plot_t){.mode = (index / NUM_STEPS) & 1 ? MKV_READ : MKV_WRITE,
                    .is_victim_active = ((index / NUM_STEPS) & 2) != 0,
                    .step = index % NUM_STEPS};
}

static void start(kv_side_t *side, mkv_proc_t *proc, plot_t *plot, mkv_xfer_t **xfer_p)
{
    struct timespec pause = {0, 0};
    uint64_t random = (uint64_t)plot->mode + 7;

    kv_set_option("PEER_CHECK", "50");
    kv_set_option("LOG_LEVEL", "error");
    ck_assert_int_eq(mkv_proc_fork(proc, victim, plot), 0);
    kv_side_open(side, "src", proc->fd, &kv_shape_default, MINE);
    side->xfer_timeout_ms = 5000; /* long enough to get to the step */
    side->drain_timeout_ms = 300;
    kv_side_connect_map(side, 1);
    *xfer_p = play(side, plot, !plot->is_victim_active, 1);
    kv_expect(side, "ready");
    if (plot->step == STEP_RANDOM) {
        pause.tv_nsec = (long)(mkv_test_random(&random) % 3000000);
        nanosleep(&pause, NULL); /* anywhere in the middle; no result depends on it */
    }
}

/* Nothing but the blocks that were shown may have changed */
static void check_bytes(kv_side_t *side, const plot_t *plot, mkv_xfer_t *xfer)
{
    uint32_t blocks[NUM], theirs[NUM], i;

    kv_random_blocks(blocks, NUM, side->shape.blocks, 1);
    kv_random_blocks(theirs, NUM, side->shape.blocks, 2);
    kv_check_others(side, blocks, NUM, MINE);
    if ((query(xfer).state == MKV_XFER_DONE) &&
        (role_of(plot->mode, !plot->is_victim_active) == MKV_DST)) {
        for (i = 0; i < NUM; ++i) {
            kv_check_block(side, blocks[i], THEIRS, theirs[i]);
        }
    }
}

static void finish(kv_side_t *side, mkv_proc_t *proc, mkv_xfer_t *xfer)
{
    KV_OK(mkv_xfer_close(xfer));
    mkv_proc_kill(proc, SIGKILL);
    (void)mkv_proc_wait(proc);
    (void)mkv_close(side->ctx); /* a plan is left: BUSY */
    kv_side_free(side);
}

/* Without a lane that moves bytes by itself, UCX moves them by messages. Who receives
 * one answers it inside the handler (rma_sw.c:67 for a put, :185 for a get), and when
 * the lane back has failed meanwhile, ucp_request_try_send() ends the process: "Fatal:
 * unexpected error" (ucp_request.inl:356). So in UCX 1.22.0 and 1.23.0; nothing above
 * can prevent it. */
static int is_emulated(const plot_t *plot)
{
    const char *tls = getenv("UCX_TLS");

    return plot->is_victim_active && (plot->step >= STEP_POSTED) &&
           ((tls == NULL) || (strstr(tls, "mori_") == NULL));
}

START_TEST(killed_peer_is_a_typed_error_and_quiet)
{
    plot_t plot = plot_of(_i);
    mkv_event_t failed;
    kv_side_t side = {0};
    mkv_proc_t proc;
    mkv_xfer_t *xfer;

    if (is_emulated(&plot)) {
        ck_assert_int_eq(mkv_test_skip("rma", "killed_peer_is_a_typed_error_and_quiet",
                                       "case %d: UCX emulates puts and gets here", _i),
                         0);
        return;
    }
    start(&side, &proc, &plot, &xfer);
    mkv_proc_kill(&proc, SIGKILL);
    failed = kv_wait_event(&side, MKV_EV_PEER_FAILED, NULL);
    ck_assert_int_eq(failed.status, MKV_ERR_PEER);
    ck_assert_ptr_nonnull(strstr(failed.text, "dst"));
    (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
    if (query(xfer).state != MKV_XFER_DONE) {
        ck_assert_int_eq(query(xfer).status, MKV_ERR_PEER);
        ck_assert_ptr_nonnull(strstr(query(xfer).error, "dst"));
    }
    check_bytes(&side, &plot, xfer);
    finish(&side, &proc, xfer);
}
END_TEST

START_TEST(stopped_peer_ends_by_deadline)
{
    plot_t plot = plot_of(_i);
    kv_side_t side = {0};
    mkv_proc_t proc;
    mkv_xfer_t *xfer;

    start(&side, &proc, &plot, &xfer);
    mkv_proc_kill(&proc, SIGSTOP);
    KV_OK(mkv_xfer_extend(xfer, 300));
    KV_PROGRESS_UNTIL(&side, query(xfer).status != MKV_INPROGRESS);
    if (query(xfer).status != MKV_OK) {
        ck_assert_msg((query(xfer).status == MKV_ERR_BIND_TIMEOUT) ||
                          (query(xfer).status == MKV_ERR_XFER_TIMEOUT) ||
                          (query(xfer).status == MKV_ERR_RELEASE_TIMEOUT),
                      "status is %s", mkv_status_string(query(xfer).status));
    }
    /* Own calls end when the connection is cut; his can only be waited for */
    KV_PROGRESS_UNTIL(&side, query(xfer).is_quiet || query(xfer).is_quarantined);
    if (plot.is_victim_active && (plot.step >= STEP_POSTED) &&
        (query(xfer).status != MKV_OK)) {
        ck_assert(!query(xfer).is_quiet);
    }
    mkv_proc_kill(&proc, SIGKILL);
    (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
    check_bytes(&side, &plot, xfer);
    finish(&side, &proc, xfer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_fault");
    TCase *tcase = tcase_create("the other process");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, killed_peer_is_a_typed_error_and_quiet, 0,
                        4 * NUM_STEPS);
    tcase_add_loop_test(tcase, stopped_peer_ends_by_deadline, 0, 4 * NUM_STEPS);
    suite_add_tcase(suite, tcase);
    return kv_main(suite);
}
