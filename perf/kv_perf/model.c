/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The processes go through the same requests in the same order, each with its own block
 * tables, a few in flight at a time. A request's transfer has its number as id.
 * libmorikv carries the information of a router, the first blocks that the decode side
 * has already: in WRITE as meta data of the exposed blocks, in READ as a message before
 * prefill exposes them.
 *
 * When the sides have unequal numbers of ranks, this process has a leg to each rank of
 * the other side that it shares data with; each has its own blocks.
 *
 * A slot owns a request from its admission until its transfer is quiet; the slot's
 * transfer, plans and blocks go together.
 */

#include "perf/base/clock.h"
#include "perf/kv_perf/caches.h"
#include "perf/kv_perf/compute.h"
#include "perf/kv_perf/engine/mkv_session.h"
#include "perf/base/error.h"
#include "perf/kv_perf/report/progress.h"
#include "perf/kv_perf/engine/run.h"
#include "perf/base/interrupt.h"
#include "perf/memory/engine_side.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define PERF_MODEL_NO_START UINT32_MAX

typedef struct perf_model_run perf_model_run_t;

typedef struct perf_slot {
    perf_model_run_t *model; /* NULL while free */
    uint64_t number;
    perf_admitted_t blocks;
    mkv_xfer_t *xfer;
    mkv_plan_t *plans[PERF_MAX_LEAVES]; /* plan of each leg */
    uint64_t start_ns;                  /* time of the first post; 0: none yet */
    perf_compute_t compute;
} perf_slot_t;

struct perf_model_run {
    perf_run_t *run;
    const perf_options_t *options;
    bool is_prefill;
    bool is_active;
    unsigned num_legs;
    perf_engine_side_t side;
    perf_caches_t caches;
    perf_session_t kv;
    perf_slot_t *slots;
    /* READ: first block to move of request n by a leg, at [n % pipeline_depth][leg] */
    uint32_t *starts;
    perf_compute_layer_t *layers; /* layers of all slots */
    uint64_t num_finished;
    uint64_t finished_bytes; /* bytes of the finished requests, moved by either side */
    uint64_t first_ns;
    uint64_t last_ns;
    uint64_t warmup_cpu_ns;
    uint64_t check_ns; /* time spent in filling and checking blocks */
    bool is_failed;
    perf_result_t result;
};


/* Layers [lo, hi), once they have been computed */
static int perf_slot_post_part(perf_slot_t *slot, uint32_t leg, uint32_t lo,
                               uint32_t hi)
{
    const mkv_gate_t gate = perf_compute_gate(&slot->compute, hi - 1);
    const mkv_sel_t sel = {.size = sizeof(sel),
                           .fields = MKV_SEL_LAYERS,
                           .layer_lo = (int32_t)lo,
                           .layer_hi = (int32_t)hi};
    const bool is_all = (hi - lo == slot->compute.num_layers);

    return (mkv_xfer_post(slot->xfer, leg, slot->plans[leg], is_all ? NULL : &sel,
                          (slot->model->options->layer_us != 0) ? &gate : NULL) ==
            MKV_OK)
               ? 0
               : perf_session_error("mkv_xfer_post");
}

static int perf_slot_post(perf_slot_t *slot, uint32_t leg)
{
    const uint32_t num = slot->compute.num_layers;
    const uint32_t step = (slot->model->options->post == PERF_POST_LAYER) ? 1 : num;
    uint32_t layer;
    int ret = 0;

    for (layer = 0; (ret == 0) && (layer < num); layer += step) {
        ret = perf_slot_post_part(slot, leg, layer, layer + step);
    }
    return ret;
}

static bool perf_slot_is_measured(const perf_slot_t *slot)
{
    return slot->number >= slot->model->options->warmup_requests;
}

static void perf_model_account(perf_model_run_t *model, const perf_slot_t *slot,
                               uint32_t leg, uint64_t prep_ns, uint64_t post_ns)
{
    mkv_plan_attr_t attr = {.size = sizeof(attr)};
    perf_result_t *result = &model->result;

    if (!perf_slot_is_measured(slot)) {
        return;
    }

    if (mkv_plan_query(slot->plans[leg], &attr) == MKV_OK) {
        result->num_merged += attr.num_elements;
        result->bytes += attr.bytes;
    }
    perf_histogram_add(&result->prep, prep_ns);
    perf_histogram_add(&result->post, post_ns);
    result->cpu_ns += prep_ns + post_ns;
}

/* Active side: the other side's blocks are known. */
static int perf_slot_move(perf_slot_t *slot, const mkv_event_t *event, uint32_t start)
{
    perf_model_run_t *model = slot->model;
    mkv_units_t units[PERF_MAX_COMPONENTS];
    uint64_t prep_ns, start_ns, post_ns;
    size_t num_units;

    if (perf_caches_pair(&model->caches, &slot->blocks, event, start, units,
                         &num_units) != 0) {
        return -1;
    }

    prep_ns = perf_clock_ns();
    if ((model->first_ns == 0) && perf_slot_is_measured(slot)) {
        model->first_ns = prep_ns;
        model->warmup_cpu_ns = model->kv.cpu_ns;
        model->check_ns = 0;
    }
    if (mkv_plan_create(model->kv.maps[event->leg], units, num_units, 0,
                        &slot->plans[event->leg]) != MKV_OK) {
        return perf_session_error("mkv_plan_create");
    }

    start_ns = perf_clock_ns();
    if (slot->start_ns == 0) {
        slot->start_ns = start_ns;
        perf_compute_start(&slot->compute, slot->xfer, model->options->layer_us);
    }
    if (perf_slot_post(slot, event->leg) != 0) {
        return -1;
    }
    post_ns = perf_clock_ns();
    if (mkv_xfer_seal(slot->xfer, event->leg) != MKV_OK) {
        return perf_session_error("mkv_xfer_seal");
    }

    if (perf_slot_is_measured(slot)) {
        model->result.num_descs +=
            perf_caches_pieces(model->kv.maps[event->leg], units, num_units);
    }
    perf_model_account(model, slot, event->leg, start_ns - prep_ns, post_ns - start_ns);
    return 0;
}

static int perf_slot_expose(perf_slot_t *slot, uint32_t leg, uint32_t start)
{
    mkv_units_t units[PERF_MAX_COMPONENTS];
    size_t num_units =
        perf_caches_units(&slot->model->caches, &slot->blocks, start, units);

    return (mkv_xfer_expose(slot->xfer, leg, units, num_units, &start, sizeof(start)) ==
            MKV_OK)
               ? 0
               : perf_session_error("mkv_xfer_expose");
}

/* Prefill computes the tokens that it does not have. */
static int perf_slot_compute(perf_slot_t *slot)
{
    uint64_t start_ns = perf_clock_ns();
    int ret;

    ret = perf_caches_fill(&slot->model->caches, &slot->blocks);
    slot->model->check_ns += perf_clock_ns() - start_ns;
    return ret;
}

static int perf_slot_verify(perf_slot_t *slot)
{
    uint64_t start_ns = perf_clock_ns();
    int ret;

    ret = perf_caches_check(&slot->model->caches, &slot->blocks);
    slot->model->check_ns += perf_clock_ns() - start_ns;
    if (ret != 0) {
        perf_error("request %" PRIu64 " of %u blocks arrived wrong: %s", slot->number,
                   slot->blocks.lists[0].num, perf_last_error());
    }
    return ret;
}

/* Decode's side of an admission: compute the blocks to come, and notify prefill. */
static int perf_slot_start_decode(perf_slot_t *slot)
{
    const perf_list_t *list = &slot->blocks.lists[0];
    perf_model_run_t *model = slot->model;
    uint32_t start = perf_caches_start(&model->caches, &slot->blocks);
    unsigned leg;

    if (model->options->is_check) {
        perf_caches_expect(&model->caches, &slot->blocks);
    }
    model->result.total_blocks += list->num;
    model->result.shared_blocks += list->num_shared;
    if (!model->is_active) {
        return perf_slot_expose(slot, MKV_LEG_ALL, start);
    }
    for (leg = 0; leg < model->num_legs; ++leg) {
        if (mkv_send(model->kv.peers[leg], slot->number, 0, &start, sizeof(start), NULL,
                     0) != MKV_OK) {
            return perf_session_error("mkv_send");
        }
    }
    return 0;
}

static uint32_t *perf_model_start(perf_model_run_t *model, uint64_t number,
                                  unsigned leg)
{
    return &model->starts[number % model->options->pipeline_depth * PERF_MAX_LEAVES +
                          leg];
}

/* READ at prefill: decode's message, which may precede the request's admission here. */
static int perf_slot_expose_received(perf_slot_t *slot)
{
    perf_model_run_t *model = slot->model;
    uint32_t *start;
    unsigned leg;

    for (leg = 0; leg < model->num_legs; ++leg) {
        start = perf_model_start(model, slot->number, leg);
        if (*start == PERF_MODEL_NO_START) {
            continue;
        }
        if (perf_slot_expose(slot, leg, *start) != 0) {
            return -1;
        }
        *start = PERF_MODEL_NO_START;
    }
    return 0;
}

static int perf_slot_start(perf_slot_t *slot)
{
    perf_model_run_t *model = slot->model;
    mkv_xfer_params_t params = {.size = sizeof(params)};

    if (model->is_prefill && model->options->is_check &&
        (perf_slot_compute(slot) != 0)) {
        return -1;
    }

    params.id = slot->number;
    params.mode = (model->options->op == PERF_OP_WRITE) ? MKV_WRITE : MKV_READ;
    params.role = model->is_prefill ? MKV_SRC : MKV_DST;
    params.legs = model->kv.maps;
    params.num_legs = model->num_legs;
    params.user_data = slot;
    if (mkv_xfer_open(model->kv.ctx, &params, &slot->xfer) != MKV_OK) {
        return perf_session_error("mkv_xfer_open");
    }
    if (!model->is_prefill) {
        return perf_slot_start_decode(slot);
    }
    return model->is_active ? 0 : perf_slot_expose_received(slot);
}

static void perf_slot_account_end(perf_slot_t *slot, const mkv_xfer_attr_t *attr)
{
    perf_result_t *result = &slot->model->result;

    if (!perf_slot_is_measured(slot)) {
        return;
    }
    result->num_ucp_calls += attr->num_ucp_calls;
    if (slot->model->is_active) {
        result->num_posted += attr->posted;
        result->num_beside += perf_compute_moved(&slot->compute);
    }
}

/* The transfer is quiet: blocks may be used for others. */
static int perf_slot_finish(perf_slot_t *slot)
{
    perf_model_run_t *model = slot->model;
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    unsigned leg;

    if (mkv_xfer_query(slot->xfer, &attr) == MKV_OK) {
        model->finished_bytes += attr.bytes;
        perf_slot_account_end(slot, &attr);
    }
    if (mkv_xfer_close(slot->xfer) != MKV_OK) {
        return perf_session_error("mkv_xfer_close");
    }
    for (leg = 0; leg < model->num_legs; ++leg) {
        if ((slot->plans[leg] != NULL) &&
            (mkv_plan_destroy(slot->plans[leg]) != MKV_OK)) {
            return perf_session_error("mkv_plan_destroy");
        }
        slot->plans[leg] = NULL;
    }

    perf_engine_side_finish(&model->side, &slot->blocks);
    slot->model = NULL;
    ++model->num_finished;
    return 0;
}

static int perf_slot_done(perf_slot_t *slot)
{
    perf_model_run_t *model = slot->model;

    if (model->is_active && perf_slot_is_measured(slot)) {
        model->last_ns = perf_clock_ns();
        perf_histogram_add(&model->result.tx, model->last_ns - slot->start_ns);
        ++model->result.num_requests;
        perf_run_going(model->run, model->last_ns);
    }
    return (!model->is_prefill && model->options->is_check) ? perf_slot_verify(slot)
                                                            : 0;
}

static int perf_slot_exposed(perf_slot_t *slot, const mkv_event_t *event)
{
    uint32_t start;

    if (event->length != sizeof(start)) {
        perf_error("request %" PRIu64 " came with %zu bytes of meta data; expected %zu",
                   slot->number, event->length, sizeof(start));
        return -1;
    }
    memcpy(&start, event->data, sizeof(start));
    return perf_slot_move(slot, event, start);
}

static unsigned perf_model_leg(const perf_model_run_t *model, const mkv_peer_t *peer)
{
    unsigned leg = 0;

    while ((leg + 1 < model->num_legs) && (model->kv.peers[leg] != peer)) {
        ++leg;
    }
    return leg;
}

/* READ at prefill: decode sent the blocks that it needs. */
static int perf_model_message(perf_model_run_t *model, const mkv_event_t *event)
{
    uint32_t depth = model->options->pipeline_depth, start, i;
    unsigned leg = perf_model_leg(model, event->peer);

    if (event->header_length != sizeof(start)) {
        perf_error("a message of %zu bytes came; expected %zu", event->header_length,
                   sizeof(start));
        return -1;
    }

    memcpy(&start, event->header, sizeof(start));
    for (i = 0; i < depth; ++i) {
        if ((model->slots[i].model != NULL) && (model->slots[i].number == event->id)) {
            return perf_slot_expose(&model->slots[i], leg, start);
        }
    }
    *perf_model_start(model, event->id, leg) = start; /* not admitted here yet */
    return 0;
}

static void perf_model_event(void *arg, const mkv_event_t *event)
{
    perf_model_run_t *model = arg;
    perf_slot_t *slot = event->user_data;
    int ret = 0;

    switch (event->type) {
    case MKV_EV_EXPOSED:
        ret = perf_slot_exposed(slot, event);
        break;
    case MKV_EV_DONE:
        ret = perf_slot_done(slot);
        break;
    case MKV_EV_QUIET:
        ret = model->kv.is_failed ? 0 : perf_slot_finish(slot);
        break;
    case MKV_EV_MSG:
        ret = perf_model_message(model, event);
        break;
    default:
        break;
    }
    model->is_failed |= (ret != 0);
}

/* Admit the next request if there is a slot and room. */
static int perf_model_admit(perf_model_run_t *model)
{
    perf_slot_t *slot = NULL;
    uint32_t i;
    int ret;

    for (i = 0; (slot == NULL) && (i < model->options->pipeline_depth); ++i) {
        slot = (model->slots[i].model == NULL) ? &model->slots[i] : NULL;
    }
    if (slot == NULL) {
        return 0;
    }

    slot->number = model->side.num_admitted;
    ret = perf_engine_side_admit(&model->side, &slot->blocks);
    if (ret <= 0) {
        return ret;
    }
    slot->model = model;
    slot->start_ns = 0;
    slot->compute.num_layers = model->side.geometry.num_layers;
    slot->compute.layers =
        model->layers + (size_t)(slot - model->slots) * slot->compute.num_layers;
    return perf_slot_start(slot);
}

static void perf_model_show(const perf_model_run_t *model)
{
    if ((model->run->rank == 0) && perf_progress_is_on()) {
        perf_progress_show(&(perf_position_t){.what = "requests",
                                              .done = model->num_finished,
                                              .total = model->side.num_requests,
                                              .bytes = model->finished_bytes});
    }
}

/* Run all requests to their end, or until SIGINT. */
static int perf_model_loop(perf_model_run_t *model)
{
    while ((model->num_finished < model->side.num_requests) && !perf_is_interrupted) {
        if ((perf_model_admit(model) != 0) && !perf_is_interrupted) {
            return -1;
        }
        perf_session_progress(&model->kv);
        /* the other process may have ended first after SIGINT */
        if ((model->is_failed || model->kv.is_failed) && !perf_is_interrupted) {
            return -1;
        }
        perf_model_show(model);
    }
    return 0;
}

static int perf_model_result(perf_model_run_t *model)
{
    perf_result_t *result = &model->result;
    uint64_t wall_ns = model->last_ns - model->first_ns;

    result->is_active = (uint32_t)model->is_active;
    result->is_checked = (uint32_t)(model->options->is_check && !perf_is_interrupted);
    result->block_size = model->side.geometry.piece_bytes;
    result->num_layers = model->side.geometry.num_layers;
    result->wall_ns = (wall_ns > model->check_ns) ? wall_ns - model->check_ns : wall_ns;
    result->cpu_ns += model->kv.cpu_ns - model->warmup_cpu_ns;
    snprintf(result->device, sizeof(result->device), "%s",
             perf_memory_device(model->run->memory));
    perf_session_path(&model->kv, 0, result->path, sizeof(result->path));
    return perf_run_report(model->run, result, perf_session_idle, &model->kv);
}

static int perf_model_move(perf_model_run_t *model)
{
    perf_run_phase(model->run, "registering and connecting");
    if ((perf_caches_add(&model->caches, &model->kv,
                         perf_memory_type(model->run->memory)) != 0) ||
        (perf_session_connect(&model->kv, model->run->channels, model->num_legs) !=
         0) ||
        (perf_run_start(model->run, perf_session_idle, &model->kv) != 0) ||
        (perf_model_loop(model) != 0)) {
        model->kv.is_failed = true;
        return -1;
    }
    if (perf_is_interrupted) { /* bytes moved until now count */
        model->kv.is_failed = true;
        return perf_model_result(model);
    }
    if (perf_run_barrier(model->run, perf_session_idle, &model->kv) != 0) {
        model->kv.is_failed = true;
        return -1;
    }

    perf_session_end_of_test(&model->kv);
    /* blocks that nothing was moved to are checked here, too */
    if (model->options->is_check && (perf_caches_check_all(&model->caches) != 0)) {
        return -1;
    }
    return perf_model_result(model);
}

/* This process's rank and the number of ranks. With equal sides each pair runs apart
 * from the others. */
static perf_session_rank_t perf_model_rank(const perf_model_run_t *model)
{
    const perf_options_t *options = model->options;

    if (!perf_options_is_cut(options)) {
        return (perf_session_rank_t){0};
    }
    /* the center is rank 0 and shares its data with the first ranks of the others */
    return (perf_session_rank_t){
        .tp_rank = (model->run->rank == 0) ? 0 : model->run->rank - 1,
        .tp_size = model->is_prefill ? options->tp : options->decode_tp,
        .map_flags = model->is_prefill ? MKV_MAP_SRC : MKV_MAP_DST};
}

static int perf_model_open(perf_model_run_t *model)
{
    const perf_options_t *options = model->options;
    uint32_t i;

    if (perf_engine_side_open(options, model->is_prefill,
                              perf_model_rank(model).tp_rank, &model->side) != 0) {
        return -1;
    }

    model->slots = calloc(options->pipeline_depth, sizeof(*model->slots));
    model->starts =
        calloc(options->pipeline_depth * PERF_MAX_LEAVES, sizeof(*model->starts));
    model->layers =
        calloc((size_t)options->pipeline_depth * model->side.geometry.num_layers,
               sizeof(*model->layers));
    if ((model->slots == NULL) || (model->starts == NULL) || (model->layers == NULL)) {
        perf_error("no memory for %u requests in flight", options->pipeline_depth);
        return -1;
    }
    for (i = 0; i < options->pipeline_depth * PERF_MAX_LEAVES; ++i) {
        model->starts[i] = PERF_MODEL_NO_START;
    }

    perf_run_phase(model->run, "allocating");
    return perf_caches_open(model->run->memory, &model->side, options->is_check,
                            &model->caches);
}

static void perf_model_close(perf_model_run_t *model)
{
    uint32_t i;

    for (i = 0; (model->slots != NULL) && (i < model->options->pipeline_depth); ++i) {
        if (model->slots[i].model != NULL) { /* cut short by an error */
            perf_engine_side_drop(&model->side, &model->slots[i].blocks);
        }
    }
    perf_caches_close(&model->caches);
    perf_engine_side_close(&model->side);
    free(model->layers);
    free(model->starts);
    free(model->slots);
}

int perf_model_run(perf_run_t *run)
{
    perf_model_run_t *model;
    perf_session_rank_t rank;
    int ret;

    model = calloc(1, sizeof(*model));
    if (model == NULL) {
        perf_error("no memory to run a model");
        return -1;
    }

    model->run = run;
    model->options = run->options;
    model->is_prefill = perf_options_is_prefill(run->options, run->rank);
    model->num_legs = run->num_channels;
    model->is_active = (model->is_prefill == (run->options->op == PERF_OP_WRITE));
    perf_result_init(&model->result);

    rank = perf_model_rank(model);
    ret = perf_model_open(model);
    if ((ret == 0) && ((ret = perf_session_open(run->options, &rank, perf_model_event,
                                                model, &model->kv)) == 0)) {
        ret = perf_model_move(model);
        perf_session_close(&model->kv);
    }
    perf_model_close(model);
    free(model);
    return ret;
}
