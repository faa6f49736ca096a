/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * All calls that threads may make on two contexts, at once and in any order. Each
 * couple opens both sides of transfers of its own, in either mode and direction, and
 * lets them end or not. Others make progress, poll, open gates, put with notes and read
 * the statistics. Every byte of completed transfers is compared. Under ThreadSanitizer
 * this finds races (contrib/test tsan); MKV_STRESS_SECONDS sets the duration, the
 * default is some rounds.
 */

#include "test/support/mkv_pair.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define COUPLES 4u
#define BLOCKS (PAIR_BLOCKS / COUPLES) /* of each side, for a couple alone */
#define NOTE_BYTES 20000u
#define ROUNDS 40u

typedef struct couple {
    unsigned index;
    unsigned seed;
    uint64_t round;
    uint64_t wanted; /* next value of its gate; atomic */
} couple_t;

static couple_t couples[COUPLES];
static uint8_t note_memory[2][NOTE_BYTES];
static mkv_region_id_t note_ids[2];
static uint64_t num_events[2][MKV_EV_ARRIVED + 1]; /* atomic */
static uint64_t end_ms;                            /* of the stress; 0: by rounds */
static int are_couples_over, is_over;              /* atomic */

/* Check's own asserts are for the first thread */
#define MUST(_condition)                                                               \
    do {                                                                               \
        if (!(_condition)) {                                                           \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #_condition,        \
                    mkv_last_error());                                                 \
            abort();                                                                   \
        }                                                                              \
    } while (0)

static uint64_t seen(unsigned side, mkv_event_type_t type)
{
    return __atomic_load_n(&num_events[side][type], __ATOMIC_ACQUIRE);
}

static void wait_seen(unsigned side, mkv_event_type_t type, uint64_t num)
{
    unsigned empty = 0;

    while (seen(side, type) < num) {
        mkv_test_pause(&empty);
    }
}

/* ---- A couple: both sides of its transfers --------------------------------------- */

static uint8_t *block_of(unsigned side, uint32_t layer, uint32_t part, uint32_t block)
{
    return pair_sides[side].mem +
           (((size_t)layer * PAIR_PARTS + part) * PAIR_BLOCKS + block) * PAIR_BYTES;
}

/* Blocks of the couple, all layers: each run of them has bytes of its own */
static void fill(const couple_t *couple, unsigned side, uint64_t seed)
{
    uint32_t layer, part;

    for (layer = 0; layer < pair_layers; ++layer) {
        for (part = 0; part < PAIR_PARTS; ++part) {
            mkv_pattern_fill(block_of(side, layer, part, couple->index * BLOCKS),
                             BLOCKS * PAIR_BYTES, seed, layer * PAIR_PARTS + part);
        }
    }
}

static void check(const couple_t *couple, unsigned side, uint64_t seed)
{
    const size_t length = BLOCKS * PAIR_BYTES;
    uint32_t layer, part;

    for (layer = 0; layer < pair_layers; ++layer) {
        for (part = 0; part < PAIR_PARTS; ++part) {
            MUST(mkv_pattern_check(block_of(side, layer, part, couple->index * BLOCKS),
                                   length, seed, layer * PAIR_PARTS + part) == length);
        }
    }
}

static mkv_xfer_attr_t query(const mkv_xfer_t *xfer)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};

    MUST(mkv_xfer_query(xfer, &attr) == MKV_OK);
    return attr;
}

static mkv_xfer_t *open_side(couple_t *couple, unsigned side, mkv_mode_t mode,
                             mkv_role_t role)
{
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = ((uint64_t)couple->index << 32) + couple->round,
                                .mode = mode,
                                .role = role,
                                .legs = &pair_sides[side].maps[1 - side],
                                .num_legs = 1};
    mkv_xfer_t *xfer;

    MUST(mkv_xfer_open(pair_sides[side].ctx, &params, &xfer) == MKV_OK);
    return xfer;
}

static mkv_units_t units_of(const couple_t *couple, uint32_t blocks[BLOCKS])
{
    uint32_t i;

    for (i = 0; i < BLOCKS; ++i) {
        blocks[i] = couple->index * BLOCKS + i;
    }
    return (mkv_units_t){
        .num_local = BLOCKS, .num_remote = BLOCKS, .local = blocks, .remote = blocks};
}

static mkv_status_t expose(const couple_t *couple, mkv_xfer_t *xfer)
{
    uint32_t blocks[BLOCKS];
    mkv_units_t units = units_of(couple, blocks);

    units.num_remote = 0;
    units.remote = NULL;
    return mkv_xfer_expose(xfer, MKV_LEG_ALL, &units, 1, NULL, 0);
}

/* Post layer by layer, some behind a gate that another thread opens. A post is refused
 * if the other side has ended the transfer meanwhile. */
static mkv_status_t post(couple_t *couple, mkv_xfer_t *xfer, mkv_plan_t *plan)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS};
    mkv_gate_t gate = {.size = sizeof(gate), .id = couple->index + 1};
    mkv_status_t status = MKV_OK;
    uint32_t i;

    for (i = 0; (status == MKV_OK) && (i < pair_layers); ++i) {
        sel.layer_lo = (int32_t)i;
        sel.layer_hi = (int32_t)i + 1;
        gate.value = couple->round * pair_layers + i + 1;
        status = mkv_xfer_post(xfer, 0, plan, &sel,
                               (rand_r(&couple->seed) % 2) ? &gate : NULL);
    }
    __atomic_store_n(&couple->wanted, (couple->round + 1) * pair_layers,
                     __ATOMIC_RELEASE);
    return status;
}

/* Fates: either side gives up before the posts (0, 1) or behind them (2, 3), or none */
static void give_up(unsigned fate, unsigned when, mkv_xfer_t *const xfers[2])
{
    if (fate / 2 == when) {
        MUST(mkv_xfer_abort(xfers[fate % 2], MKV_ERR_ABORTED, "stress") == MKV_OK);
    }
}

static void wait_quiet(mkv_xfer_t *const xfers[2])
{
    unsigned i, empty = 0;
    uint64_t completed;

    for (i = 0; i < 2; ++i) {
        while (!query(xfers[i]).is_quiet) {
            (void)mkv_xfer_status(xfers[1 - i], &completed);
            mkv_test_pause(&empty);
        }
    }
}

/* xfers: the active side's first */
static void run_transfer(couple_t *couple, mkv_xfer_t *const xfers[2], mkv_plan_t *plan,
                         unsigned fate)
{
    mkv_status_t status;
    unsigned empty = 0;

    give_up(fate, 0, xfers);
    status = expose(couple, xfers[1]);
    while ((status == MKV_OK) && (query(xfers[0]).state == MKV_XFER_INIT)) {
        mkv_test_pause(&empty);
    }
    status = (status == MKV_OK) ? post(couple, xfers[0], plan) : status;
    give_up(fate, 1, xfers);
    status = (status == MKV_OK) ? mkv_xfer_seal(xfers[0], 0) : status;
    MUST((status == MKV_OK) || (fate < 4));
    if (status != MKV_OK) { /* the other side gets no other notification */
        give_up(0, 0, xfers);
        give_up(1, 0, xfers);
    }
    wait_quiet(xfers);
}

static void move(couple_t *couple, unsigned from, mkv_mode_t mode, unsigned fate)
{
    const mkv_role_t roles[2] = {(mode == MKV_WRITE) ? MKV_SRC : MKV_DST,
                                 (mode == MKV_WRITE) ? MKV_DST : MKV_SRC};
    unsigned to = 1 - from, active = (mode == MKV_WRITE) ? from : to, i;
    uint32_t blocks[BLOCKS];
    mkv_units_t units = units_of(couple, blocks);
    mkv_xfer_t *xfers[2];
    mkv_plan_t *plan;

    fill(couple, from, couple->round);
    fill(couple, to, ~couple->round);
    for (i = 0; i < 2; ++i) {
        xfers[i] = open_side(couple, (i == 0) ? active : 1 - active, mode, roles[i]);
    }
    MUST(mkv_plan_create(pair_sides[active].maps[1 - active], &units, 1, 0, &plan) ==
         MKV_OK);
    run_transfer(couple, xfers, plan, fate);
    i = (to == active) ? 0 : 1;
    if ((fate >= 4) || (query(xfers[i]).state == MKV_XFER_DONE)) {
        MUST(query(xfers[i]).state == MKV_XFER_DONE);
        check(couple, to, couple->round);
    }
    for (i = 0; i < 2; ++i) {
        MUST(mkv_xfer_close(xfers[i]) == MKV_OK);
    }
    MUST(mkv_plan_destroy(plan) == MKV_OK);
}

static int goes_on(uint64_t round)
{
    return (end_ms != 0) ? mkv_test_now_ms() < end_ms
                         : round < mkv_test_rounds(ROUNDS, ROUNDS / 10);
}

static void *run_couple(void *arg)
{
    couple_t *couple = arg;

    for (; goes_on(couple->round); ++couple->round) {
        move(couple, (unsigned)rand_r(&couple->seed) % 2,
             (rand_r(&couple->seed) % 2) ? MKV_WRITE : MKV_READ,
             (unsigned)rand_r(&couple->seed) % 12);
    }
    return NULL;
}

/* ---- Beside them ----------------------------------------------------------------- */

static int is_on(void)
{
    return !__atomic_load_n(&is_over, __ATOMIC_ACQUIRE);
}

static void *run_progress(void *arg)
{
    unsigned empty = 0;

    while (is_on()) {
        if (mkv_progress(arg) > 0) {
            empty = 0;
        } else {
            mkv_test_pause(&empty);
        }
    }
    return NULL;
}

static void drop_line(void *arg, const char *line)
{
    (void)arg;
    (void)line;
}

/* Count events; now and then query everything. */
static void *run_poller(void *arg)
{
    unsigned side = (unsigned)((pair_side_t *)arg - pair_sides), empty = 0, i;
    mkv_stats_t stats = {.size = sizeof(stats)};
    mkv_ctx_t *ctx = pair_sides[side].ctx;
    mkv_event_t events[8];
    size_t count, k;

    for (i = 0; is_on(); ++i) {
        MUST(mkv_poll(ctx, events, sizeof(events[0]), 8, &count) == MKV_OK);
        for (k = 0; k < count; ++k) {
            __atomic_add_fetch(&num_events[side][events[k].type], 1, __ATOMIC_RELEASE);
        }
        if ((i % 16) == 0) {
            MUST(mkv_stats(ctx, NULL, &stats) == MKV_OK);
            MUST(mkv_dump(ctx, MKV_DUMP_ALL, drop_line, NULL) == MKV_OK);
        }
        if (count > 0) {
            empty = 0;
        } else {
            mkv_test_pause(&empty);
        }
    }
    return NULL;
}

/* Open gates as the callback of a GPU does. Both contexts have gates, as either side
 * may be active */
static void *run_gates(void *arg)
{
    uint64_t told[COUPLES] = {0}, wanted;
    unsigned i, side, empty = 0;

    while (is_on()) {
        for (i = 0; i < COUPLES; ++i) {
            wanted = __atomic_load_n(&couples[i].wanted, __ATOMIC_ACQUIRE);
            while (told[i] < wanted) {
                ++told[i];
                for (side = 0; side < 2; ++side) {
                    MUST(mkv_gate_signal(pair_sides[side].ctx, i + 1, told[i]) ==
                         MKV_OK);
                }
                empty = 0;
            }
        }
        mkv_test_pause(&empty);
    }
    return arg;
}

static void put_with_note(uint64_t length, uint64_t round)
{
    const mkv_op_piece_t piece = {
        .local = note_ids[0], .remote = note_ids[1], .length = length};
    mkv_op_params_t params = {.size = sizeof(params),
                              .mode = MKV_WRITE,
                              .flags = MKV_OP_NOTIFY,
                              .pieces = &piece,
                              .num_pieces = 1,
                              .note = "n",
                              .note_length = 1};
    uint64_t notes = seen(1, MKV_EV_NOTE);
    mkv_op_attr_t attr = {.size = sizeof(attr)};
    unsigned empty = 0;
    mkv_op_t *op;

    mkv_pattern_fill(note_memory[0], length, ~round, 0);
    MUST(mkv_op_post(A->peers[1], &params, &op) == MKV_OK);
    wait_seen(1, MKV_EV_NOTE, notes + 1);
    MUST(mkv_pattern_check(note_memory[1], length, ~round, 0) == length);
    do {
        MUST(mkv_op_query(op, &attr) == MKV_OK);
        mkv_test_pause(&empty);
    } while (!attr.is_quiet);
    MUST(mkv_op_close(op) == MKV_OK);
}

static void *run_notes(void *arg)
{
    uint64_t round;

    for (round = 0; !__atomic_load_n(&are_couples_over, __ATOMIC_ACQUIRE); ++round) {
        put_with_note((round % 2) ? NOTE_BYTES : NOTE_BYTES / 4, round);
    }
    return arg;
}

/* ---- All of it ------------------------------------------------------------------- */

static void add_noted(unsigned index)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 63,
                           .layer = 100 + (int32_t)index,
                           .flags = MKV_REGION_OPTIONAL | MKV_REGION_ONE_SIDED,
                           .base = note_memory[index],
                           .length = NOTE_BYTES,
                           .unit_bytes = NOTE_BYTES,
                           .n_units = 1};

    OK(mkv_region_add(pair_sides[index].ctx, &region, &note_ids[index]));
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

static pthread_t start(void *(*run)(void *), void *arg)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, run, arg), 0);
    return thread;
}

static void start_couples(pthread_t threads[COUPLES])
{
    unsigned i;

    for (i = 0; i < COUPLES; ++i) {
        couples[i] = (couple_t){.index = i, .seed = i + 1};
        threads[i] = start(run_couple, &couples[i]);
    }
}

static void stress(void)
{
    pthread_t beside[7], store, threads[COUPLES];
    unsigned num = 0, i;

    are_couples_over = is_over = 0;
    memset(num_events, 0, sizeof(num_events));
    for (i = 0; i < 2; ++i) {
        beside[num++] = start(run_progress, pair_sides[i].ctx);
        beside[num++] = start(run_progress, pair_sides[i].ctx);
        beside[num++] = start(run_poller, &pair_sides[i]);
    }
    start_couples(threads);
    beside[num++] = start(run_gates, NULL);
    store = start(run_notes, NULL);
    for (i = 0; i < COUPLES; ++i) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    __atomic_store_n(&are_couples_over, 1, __ATOMIC_RELEASE);
    ck_assert_int_eq(pthread_join(store, NULL), 0); /* needs the others' progress */
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    while (num > 0) {
        ck_assert_int_eq(pthread_join(beside[--num], NULL), 0);
    }
}

static unsigned stress_seconds(void)
{
    const char *text = getenv("MKV_STRESS_SECONDS");

    return (text != NULL) ? (unsigned)strtoul(text, NULL, 0) : 0;
}

/* Loop index: threads of the library's as well; half of the time is for each */
/* TS-05 */
START_TEST(threads_do_everything_at_once)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    ck_assert_int_ge(fd, 0);
    mkv_tuning.push_min = (_i == 0) ? 1 : 0;
    pair_set("PROGRESS_THREADS", (_i == 0) ? "0" : "2");
    fake_ucp_reset();
    fake_ucp_set_efd(fd);
    pair_now = 1000000000ull;
    pair_tick = 1;
    pair_open(0);
    pair_open(1);
    pair_connect(0, 1);
    add_noted(0);
    add_noted(1);
    pair_run();
    end_ms = stress_seconds();
    end_ms = (end_ms > 0) ? mkv_test_now_ms() + end_ms * 1000 / 2 : 0;
    stress();
    pair_run();
    printf("%s: %u transfers, %u notes\n",
           (_i == 0) ? "callers' threads" : "threads of the library's as well",
           (unsigned)(couples[0].round + couples[1].round + couples[2].round +
                      couples[3].round),
           (unsigned)seen(1, MKV_EV_NOTE));
    pair_teardown();
    close(fd);
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("stress");

    tcase_set_timeout(tcase, 120 + stress_seconds());
    tcase_add_loop_test(tcase, threads_do_everything_at_once, 0, 2);
    return pair_main("mkv_stress", tcase);
}
