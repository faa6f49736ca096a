/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Transfers of both modes and directions between two sides that act in random order.
 * The transport delays, reorders, loses, duplicates and fails messages, and one side is
 * killed and comes back. In every case a transfer ends once and becomes quiet once,
 * DONE means correct data, blocks that are quiet are not touched, and everything works
 * again afterwards.
 *
 * A seed determines the whole run. The name of a failed test contains its seed ("5" of
 * any_faults:5). MKV_TEST_SEED=5 runs that seed alone, MKV_TEST_SEEDS=1000 runs that
 * many.
 */

#include "test/support/mkv_pair.h"

#include <stdlib.h>
#include <string.h>

#define NUM_REQUESTS 6
#define NUM_BLOCKS 4 /* of each */
#define NUM_STEPS 400
#define NUM_OLD 256

enum { TAG_NEW = 0x11, TAG_FREE = 0xee };

/* State of one side of a request */
typedef struct half {
    mkv_xfer_t *xfer;
    mkv_plan_t *plan;
    bool is_active, is_source;
    bool is_shown;  /* it has seen the other side's blocks */
    bool is_posted; /* all of it */
    bool has_ended, is_quiet;
} half_t;

typedef struct request {
    mkv_mode_t mode;
    uint32_t epoch;
    half_t halves[2];
} request_t;

static request_t requests[NUM_REQUESTS];
/* Maps of failed peers, kept while a transfer or plan still uses them */
static mkv_map_t *old_maps[2][NUM_OLD];
static unsigned num_old[2], num_done;
static uint64_t chance;
static ucp_worker_h workers[2];

static unsigned dice(unsigned sides)
{
    return (unsigned)(mkv_test_random(&chance) % sides);
}

/* ---- Memory ---------------------------------------------------------------------- */

static uint8_t tag_of(const request_t *request)
{
    return (uint8_t)(0x20 + request->epoch % 0xc0);
}

static uint8_t *block_of(unsigned side, unsigned i, unsigned list)
{
    return pair_sides[side].mem +
           ((size_t)list * PAIR_BLOCKS + i * NUM_BLOCKS) * PAIR_BYTES;
}

static void fill(unsigned side, unsigned i, uint8_t tag)
{
    unsigned list;

    for (list = 0; list < pair_layers * PAIR_PARTS; ++list) {
        memset(block_of(side, i, list), tag, NUM_BLOCKS * PAIR_BYTES);
    }
}

static void expect_filled(unsigned side, unsigned i, uint8_t tag, const char *when)
{
    unsigned list, byte;

    for (list = 0; list < pair_layers * PAIR_PARTS; ++list) {
        for (byte = 0; byte < NUM_BLOCKS * PAIR_BYTES; ++byte) {
            ck_assert_msg(block_of(side, i, list)[byte] == tag,
                          "%s: side %u, request %u, list %u, byte %u is %02x, not %02x",
                          when, side, i, list, byte, block_of(side, i, list)[byte],
                          tag);
        }
    }
}

/* ---- Events ---------------------------------------------------------------------- */

static void end(unsigned side, unsigned i, mkv_event_type_t type)
{
    half_t *half = &requests[i].halves[side];

    ck_assert(!half->has_ended && !half->is_quiet);
    half->has_ended = true;
    num_done += (type == MKV_EV_DONE);
    if ((type == MKV_EV_DONE) && !half->is_source) {
        expect_filled(side, i, tag_of(&requests[i]), "DONE");
    }
}

/* Reuse the blocks: the caller overwrites them */
static void become_quiet(unsigned side, unsigned i)
{
    half_t *half = &requests[i].halves[side];

    ck_assert(half->has_ended && !half->is_quiet);
    half->is_quiet = true;
    fill(side, i, TAG_FREE);
}

static void take_xfer_event(unsigned side, unsigned i, const mkv_event_t *event)
{
    switch (event->type) {
    case MKV_EV_EXPOSED:
        requests[i].halves[side].is_shown = true;
        break;
    case MKV_EV_DONE:
    case MKV_EV_FAILED:
    case MKV_EV_ABORTED:
        ck_assert((event->type == MKV_EV_DONE) || (event->text[0] != '\0'));
        end(side, i, event->type);
        break;
    case MKV_EV_QUIET:
        become_quiet(side, i);
        break;
    default:
        break;
    }
}

static void leave_peer(unsigned side)
{
    pair_side_t *at = &pair_sides[side];

    if (at->maps[!side] != NULL) {
        ck_assert_uint_lt(num_old[side], NUM_OLD);
        old_maps[side][num_old[side]++] = at->maps[!side];
    }
    at->maps[!side] = NULL;
    at->peers[!side] = NULL;
}

static void take_event(unsigned side, const mkv_event_t *event)
{
    pair_side_t *at = &pair_sides[side];
    unsigned i;

    if (event->peer == NULL) { /* not of one, or it was closed meanwhile */
    } else if (event->type == MKV_EV_PEER_READY) {
        if ((at->peers[!side] != NULL) && (at->peers[!side] != event->peer)) {
            OK(mkv_peer_close(at->peers[!side], MKV_CLOSE_FORCE));
            leave_peer(side);
        }
        at->peers[!side] = event->peer;
    } else if ((event->type == MKV_EV_PEER_FAILED) ||
               (event->type == MKV_EV_PEER_CLOSED)) {
        if (at->peers[!side] == event->peer) {
            leave_peer(side);
        }
        OK(mkv_peer_close(event->peer, MKV_CLOSE_FORCE));
    }
    for (i = 0; i < NUM_REQUESTS; ++i) {
        if ((event->xfer != NULL) && (requests[i].halves[side].xfer == event->xfer)) {
            take_xfer_event(side, i, event);
        }
    }
}

static void progress(unsigned side)
{
    mkv_ctx_t *ctx = pair_sides[side].ctx;
    mkv_event_t event;
    size_t count;
    unsigned i;

    mkv_progress(ctx);
    /* one by one: a peer that is closed for one event may be in the next */
    for (i = 0; i < 8; ++i) {
        OK(mkv_poll(ctx, &event, sizeof(event), 1, &count));
        if (count > 0) {
            take_event(side, &event);
        }
    }
    for (i = 0; i < NUM_REQUESTS; ++i) {
        if (requests[i].halves[side].is_quiet) {
            expect_filled(side, i, TAG_FREE, "quiet");
        }
    }
}

/* ---- What the two sides do ------------------------------------------------------- */

static void meet(void)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_peer_t *peer;

    if ((A->peers[1] == NULL) &&
        (mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length) == 0)) {
        OK(mkv_peer_add(A->ctx, blob, length, NULL, &peer));
        A->peers[1] = peer;
    }
}

static bool has_map(unsigned side)
{
    pair_side_t *at = &pair_sides[side];

    return (at->maps[!side] != NULL) ||
           ((at->peers[!side] != NULL) &&
            (mkv_map_create(at->peers[!side], NULL, &at->maps[!side]) == MKV_OK));
}

/* A new one, when both have closed their parts of the former */
static void begin(request_t *request)
{
    static uint32_t epoch;

    *request = (request_t){.mode = dice(2) ? MKV_READ : MKV_WRITE, .epoch = ++epoch};
    request->halves[dice(2)].is_source = true;
    request->halves[0].is_active =
        request->halves[0].is_source == (request->mode == MKV_WRITE);
    request->halves[1].is_active = !request->halves[0].is_active;
}

static bool is_over(const half_t *half)
{
    return (half->xfer == NULL) && half->is_quiet;
}

static void open_half(unsigned side, unsigned i)
{
    request_t *request = &requests[i];
    half_t *half = &request->halves[side];
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1 + i,
                                .mode = request->mode,
                                .num_legs = 1,
                                .priority = (mkv_priority_t)(i % 3)};

    if (is_over(&request->halves[0]) && is_over(&request->halves[1])) {
        begin(request);
    }
    if ((half->xfer != NULL) || half->is_quiet || !has_map(side)) {
        return;
    }
    params.epoch = request->epoch;
    params.role = half->is_source ? MKV_SRC : MKV_DST;
    params.legs = &pair_sides[side].maps[!side];
    fill(side, i, half->is_source ? tag_of(request) : TAG_NEW);
    if (mkv_xfer_open(pair_sides[side].ctx, &params, &half->xfer) != MKV_OK) {
        half->xfer = NULL;
    }
}

static mkv_units_t units_of(unsigned i, uint32_t blocks[NUM_BLOCKS])
{
    unsigned k;

    for (k = 0; k < NUM_BLOCKS; ++k) {
        blocks[k] = i * NUM_BLOCKS + k;
    }
    return (mkv_units_t){.num_local = NUM_BLOCKS,
                         .num_remote = NUM_BLOCKS,
                         .local = blocks,
                         .remote = blocks};
}

static int gate_opens(void *arg)
{
    (void)arg;
    return dice(3) > 0;
}

static void post_layers(unsigned leg_layers, half_t *half, const mkv_gate_t *gate)
{
    uint32_t layer;

    for (layer = 0; layer < pair_layers; layer += leg_layers) {
        const mkv_sel_t sel = {.size = sizeof(sel),
                               .fields = MKV_SEL_LAYERS | MKV_SEL_NOTIFY,
                               .layer_lo = (int32_t)layer,
                               .layer_hi = (int32_t)(layer + leg_layers),
                               .notify = layer};
        (void)mkv_xfer_post(half->xfer, 0, half->plan, &sel, gate);
    }
}

static void post(unsigned side, unsigned i)
{
    half_t *half = &requests[i].halves[side];
    const mkv_gate_t gate = {.size = sizeof(gate),
                             .ready = dice(2) ? gate_opens : NULL,
                             .id = dice(4),
                             .value = 1};
    uint32_t blocks[NUM_BLOCKS];
    const mkv_units_t units = units_of(i, blocks);

    if (!half->is_shown || half->is_posted) {
        return;
    }
    /* the map of the transfer may be a former one by now */
    if ((half->plan == NULL) &&
        (mkv_plan_create(half->xfer->legs[0].map, &units, 1, MKV_PLAN_KEEP_ORDER,
                         &half->plan) != MKV_OK)) {
        half->plan = NULL;
        return;
    }
    half->is_posted = true;
    post_layers(1u << dice(3), half, dice(2) ? &gate : NULL);
}

static void show_or_post(unsigned side, unsigned i)
{
    half_t *half = &requests[i].halves[side];
    uint32_t blocks[NUM_BLOCKS];
    const mkv_units_t units = units_of(i, blocks);

    if (half->xfer == NULL) {
        return;
    }
    if (half->is_active) {
        post(side, i);
    } else {
        (void)mkv_xfer_expose(half->xfer, 0, &units, 1, "m", 1);
    }
}

static void close_half(unsigned side, unsigned i)
{
    half_t *half = &requests[i].halves[side];

    if ((half->xfer == NULL) || !half->is_quiet) {
        return;
    }
    OK(mkv_xfer_close(half->xfer));
    half->xfer = NULL;
    if (half->plan != NULL) {
        OK(mkv_plan_destroy(half->plan));
        half->plan = NULL;
    }
}

static void give_up(unsigned side, unsigned i)
{
    half_t *half = &requests[i].halves[side];

    if (half->xfer != NULL) {
        OK(mkv_xfer_abort(half->xfer, MKV_ERR_ABORTED, "of the test"));
    } else {
        half->is_quiet = half->has_ended = true; /* it never comes */
        fill(side, i, TAG_FREE);
    }
}

static void step(unsigned side, unsigned i)
{
    half_t *half = &requests[i].halves[side];

    switch (dice(12)) {
    case 0:
    case 1:
        open_half(side, i);
        break;
    case 2:
    case 3:
    case 4:
        show_or_post(side, i);
        break;
    case 5:
    case 6:
        if ((half->xfer != NULL) && half->is_posted) {
            (void)mkv_xfer_seal(half->xfer, 0);
        }
        break;
    case 7:
        if (dice(6) == 0) {
            give_up(side, i);
        }
        break;
    case 8:
        close_half(side, i);
        break;
    case 9:
        OK(mkv_gate_signal(pair_sides[side].ctx, dice(4), 1));
        break;
    default:
        progress(dice(2));
        break;
    }
}

/* ---- What happens to them -------------------------------------------------------- */

static void calm_down(void)
{
    unsigned side;

    fake_ucp_hold(0);
    fake_ucp_hold_peer(NULL);
    fake_ucp_fail(0, 0, UCS_OK);
    fake_ucp_lose_message(0);
    fake_ucp_double_message(0);
    fake_ucp_set_lists(1);
    for (side = 0; side < 2; ++side) {
        fake_ucp_stop_worker(workers[side], 0);
    }
}

/* Kill a side: its memory and its transfers are gone, and the other side gets no
 * message */
static void kill_side(unsigned side)
{
    pair_side_t *at = &pair_sides[side];
    unsigned i;

    calm_down();
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    leave_peer(side);
    num_old[side] = 0;
    pair_tick = 10 * MKV_NSEC_PER_MSEC;
    (void)mkv_close(at->ctx);
    pair_tick = 0;
    free(at->mem);
    for (i = 0; i < NUM_REQUESTS; ++i) {
        requests[i].halves[side] = (half_t){.has_ended = true, .is_quiet = true};
    }
}

static void come_back(unsigned side)
{
    unsigned i;

    pair_open(side);
    workers[side] = pair_sides[side].ctx->worker;
    for (i = 0; i < NUM_REQUESTS; ++i) {
        fill(side, i, TAG_FREE);
    }
}

static void harm(void)
{
    unsigned side = dice(2);

    switch (dice(14)) {
    case 0:
    case 1:
    case 2:
        fake_ucp_hold(dice(FAKE_UCP_ALL + 1) & dice(FAKE_UCP_ALL + 1) &
                      ~(unsigned)FAKE_UCP_CLOSE);
        break;
    case 3:
        fake_ucp_shuffle(dice(1000));
        break;
    case 4:
        fake_ucp_set_inline(dice(FAKE_UCP_ALL + 1));
        break;
    case 5:
        fake_ucp_fail(1u << dice(5), dice(6), UCS_ERR_IO_ERROR);
        break;
    case 6:
        fake_ucp_break(UCS_ERR_CONNECTION_RESET);
        break;
    case 7:
        fake_ucp_lose_message(1 + dice(6));
        break;
    case 8:
    case 9:
        fake_ucp_double_message(1 + dice(3));
        break;
    case 10:
        fake_ucp_stop_worker(workers[side], (int)dice(2));
        break;
    case 11:
        fake_ucp_set_lists((int)dice(2));
        break;
    case 12:
        pair_now += dice(4000) * MKV_NSEC_PER_MSEC;
        break;
    default:
        if (dice(4) == 0) {
            kill_side(side);
            come_back(side);
        }
        break;
    }
}

/* ---- The end --------------------------------------------------------------------- */

static void pass(unsigned ms)
{
    unsigned i;

    for (i = 0; i < 20; ++i) {
        progress(0);
        progress(1);
    }
    pair_now += ms * MKV_NSEC_PER_MSEC;
}

/* No proof exists for an end before the peer learned of the beginning, so the operator
 * declares the process killed */
static void declare_killed_peers_dead(void)
{
    unsigned i, side;

    for (i = 0; i < NUM_REQUESTS; ++i) {
        for (side = 0; side < 2; ++side) {
            half_t *half = &requests[i].halves[side];
            if ((half->xfer != NULL) && !half->is_quiet &&
                (half->xfer->legs[0].peer->process.ctx_id !=
                 pair_sides[!side].ctx->process.ctx_id)) {
                OK(mkv_xfer_declare_dead(half->xfer));
            }
        }
    }
    pass(100);
}

/* A message may be missing without anybody knowing, as none came behind it */
static void connect_anew(void)
{
    if (A->peers[1] != NULL) {
        OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FORCE));
        leave_peer(0);
    }
    meet();
}

/* Let time pass until the deadlines end the remaining transfers */
static void expect_all_over(void)
{
    unsigned i, side;

    calm_down();
    for (i = 0; i < 150; ++i) {
        pass(100);
    }
    connect_anew();
    for (i = 0; i < 50; ++i) {
        pass(100);
    }
    declare_killed_peers_dead();
    for (i = 0; i < NUM_REQUESTS; ++i) {
        for (side = 0; side < 2; ++side) {
            half_t *half = &requests[i].halves[side];
            if (half->xfer != NULL) {
                ck_assert_msg(half->has_ended, "side %u, request %u waits for %s", side,
                              i, pair_query(half->xfer).waiting_for);
                ck_assert_msg(half->is_quiet, "side %u, request %u is not quiet: %s",
                              side, i, pair_query(half->xfer).error);
            }
            close_half(side, i);
            ck_assert_ptr_null(half->xfer);
        }
    }
}

static void open_all(void)
{
    unsigned i, side;

    for (i = 0; i < NUM_REQUESTS; ++i) {
        begin(&requests[i]);
        for (side = 0; side < 2; ++side) {
            open_half(side, i);
            ck_assert_msg(requests[i].halves[side].xfer != NULL, "%s",
                          mkv_last_error());
        }
    }
}

static void move_all(void)
{
    unsigned i, side, gate;

    for (side = 0; side < 2; ++side) {
        for (i = 0; i < NUM_REQUESTS; ++i) {
            show_or_post(side, i);
        }
        for (gate = 0; gate < 4; ++gate) {
            OK(mkv_gate_signal(pair_sides[side].ctx, gate, 1));
        }
    }
}

static void seal_all(void)
{
    unsigned i, side;

    for (i = 0; i < NUM_REQUESTS; ++i) {
        side = !requests[i].halves[0].is_active;
        OK(mkv_xfer_seal(requests[i].halves[side].xfer, 0));
    }
}

static void expect_that_all_works(void)
{
    unsigned i, side;

    for (i = 0; (i < 60) && !(has_map(0) && has_map(1)); ++i) {
        meet();
        pass(100);
    }
    num_done = 0;
    open_all();
    move_all();
    pass(1);
    move_all();
    seal_all();
    for (i = 0; i < 20; ++i) {
        pass(1);
    }
    ck_assert_uint_eq(num_done, 2 * NUM_REQUESTS);
    for (side = 0; side < 2; ++side) {
        for (i = 0; i < NUM_REQUESTS; ++i) {
            close_half(side, i);
        }
    }
}

static void finish(void)
{
    unsigned side;

    for (side = 0; side < 2; ++side) {
        while (num_old[side] > 0) {
            OK(mkv_map_destroy(old_maps[side][--num_old[side]]));
        }
    }
    pair_teardown();
}

static void setup(uint64_t seed)
{
    unsigned i, side;

    chance = mkv_test_random(&seed); /* seeds that are neighbours share nothing */
    pair_set("LOG_LEVEL", "error");
    pair_set("BIND_TIMEOUT", "2s");
    pair_set("XFER_TIMEOUT", "3s");
    pair_set("RELEASE_TIMEOUT", "3s");
    pair_set("DRAIN_TIMEOUT", "2s");
    pair_set("MAX_INFLIGHT_OPS", dice(2) ? "3" : "4096");
    pair_set("READ_BY", dice(2) ? "get" : "auto");
    mkv_tuning.push_min = 4;
    pair_setup();
    num_old[0] = num_old[1] = 0;
    for (side = 0; side < 2; ++side) {
        workers[side] = pair_sides[side].ctx->worker;
    }
    for (i = 0; i < NUM_REQUESTS; ++i) {
        begin(&requests[i]);
    }
}

/* TS-11 */
START_TEST(any_faults)
{
    unsigned i;

    setup((uint64_t)_i);
    for (i = 0; i < NUM_STEPS; ++i) {
        step(dice(2), dice(NUM_REQUESTS));
        if (dice(10) == 0) {
            harm();
        }
        if (dice(20) == 0) {
            meet();
        }
    }
    expect_all_over();
    expect_that_all_works();
    finish();
}
END_TEST

/* Seeds [*first_p, returned) */
static int seeds(int *first_p)
{
    const char *one = getenv("MKV_TEST_SEED"), *many = getenv("MKV_TEST_SEEDS");

    *first_p = (one != NULL) ? atoi(one) : 1;
    if (one != NULL) {
        return *first_p + 1;
    }
    return 1 + ((many != NULL) ? atoi(many) : (int)mkv_test_rounds(60, 6));
}

int main(void)
{
    TCase *tcase = pair_tcase("faults");
    int first, behind = seeds(&first);

    tcase_add_loop_test(tcase, any_faults, first, behind);
    return pair_main("mkv_faults", tcase);
}
