/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Share of a request that is moved while its layers are computed: over the fake UCP, by
 * a clock that the test moves, so that the figures depend on no machine.
 */

#include "perf/kv_perf/compute.h"
#include "test/support/mkv_pair.h"
#include "test/unit/perf/clock_here.h"

#define LAYERS 16u
#define LAYER_US 10u
#define NUM 4u                    /* blocks of the request */
#define PIECES (NUM * PAIR_PARTS) /* of a layer */
#define DATA (FAKE_UCP_PUT | FAKE_UCP_LIST)

typedef struct request {
    perf_compute_layer_t layers[LAYERS];
    perf_compute_t compute;
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;
} request_t;

/* Layers of a post: 1, or LAYERS for all at once. The gates were not polled yet. */
static void begin(request_t *request, uint32_t step)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS};
    mkv_gate_t gate;
    uint32_t layer;

    pair_layers = LAYERS;
    pair_setup();
    request->active = pair_bind_write(NUM, &request->passive);
    request->plan = pair_plan(A, 1, 0, 0, NUM, 0);
    request->compute =
        (perf_compute_t){.num_layers = LAYERS, .layers = request->layers};
    perf_compute_start(&request->compute, request->active, LAYER_US);
    for (layer = 0; layer < LAYERS; layer += step) {
        sel.layer_lo = (int32_t)layer;
        sel.layer_hi = (int32_t)(layer + step);
        gate = perf_compute_gate(&request->compute, layer + step - 1);
        OK(mkv_xfer_post(request->active, 0, request->plan, &sel, &gate));
    }
    OK(mkv_xfer_seal(request->active, 0));
}

/* Compute @a num more layers; every block that can move now moves. */
static void compute(unsigned num)
{
    clock_ns += num * LAYER_US * 1000ull;
    pair_run();
}

static void end(request_t *request)
{
    pair_run();
    ck_assert_int_eq(pair_query(request->passive).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_query(request->active).posted, LAYERS * PIECES);
    pair_close(request->active, request->passive, request->plan);
    pair_teardown();
}

/* DO-11 */
START_TEST(layer_by_layer_all_but_the_last_moves_beside_compute)
{
    request_t request;
    unsigned i;

    begin(&request, 1);
    for (i = 0; i < LAYERS; ++i) {
        ck_assert_uint_eq(pair_query(request.active).completed, i * PIECES);
        compute(1);
    }
    ck_assert_uint_eq(perf_compute_moved(&request.compute), (LAYERS - 1) * PIECES);
    end(&request);
}
END_TEST

/* DO-11 */
START_TEST(at_once_nothing_moves_beside_compute)
{
    request_t request;
    unsigned i;

    begin(&request, LAYERS);
    for (i = 0; i < LAYERS; ++i) {
        ck_assert_uint_eq(pair_query(request.active).completed, 0);
        compute(1);
    }
    ck_assert_uint_eq(perf_compute_moved(&request.compute), 0);
    end(&request);
}
END_TEST

/* Layers that take no time, or so little that no poll happened meanwhile */
/* DO-11 */
START_TEST(without_compute_there_is_nothing_to_be_beside)
{
    request_t request;

    begin(&request, 1);
    compute(LAYERS);
    ck_assert_uint_eq(pair_query(request.active).completed, LAYERS * PIECES);
    ck_assert_uint_eq(perf_compute_moved(&request.compute), 0);
    end(&request);
}
END_TEST

/* Blocks that the lane has not moved when the last layer ends are not counted. */
/* DO-11 */
START_TEST(what_a_slow_lane_moves_afterwards_is_not_beside)
{
    request_t request;
    unsigned i;

    begin(&request, 1);
    compute(LAYERS / 2);
    fake_ucp_hold(DATA);
    for (i = LAYERS / 2; i < LAYERS; ++i) {
        compute(1);
    }
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_query(request.active).completed, LAYERS * PIECES);
    ck_assert_uint_eq(perf_compute_moved(&request.compute), LAYERS / 2 * PIECES);
    end(&request);
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("compute");

    tcase_add_test(tcase, layer_by_layer_all_but_the_last_moves_beside_compute);
    tcase_add_test(tcase, at_once_nothing_moves_beside_compute);
    tcase_add_test(tcase, without_compute_there_is_nothing_to_be_beside);
    tcase_add_test(tcase, what_a_slow_lane_moves_afterwards_is_not_beside);
    return pair_main("perf_compute", tcase);
}
