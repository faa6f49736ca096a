/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A job is one transfer and one plan, posted again and again; or, with is_recreate, a
 * transfer and a plan for each post, as requests of an inference engine are. With
 * is_notified, a transfer for each post and one plan: all are open and exposed before
 * the first post, and closed after the last one. A post seals its transfer; the
 * destination's DONE is the notification.
 *
 * Every transfer has a record from its open to its quiet; events find it through the
 * transfer's user data. Records of a job go back to its pool, so none is allocated once
 * the pipeline is full.
 */

#include "perf/kv_perf/engine/engine.h"
#include "perf/base/clock.h"
#include "perf/kv_perf/engine/mkv_session.h"
#include "perf/base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


typedef struct perf_mkv_job perf_mkv_job_t;

typedef struct perf_mkv_xfer {
    struct perf_mkv_xfer *next; /* link in the job's list of xfer, quiet or free */
    struct perf_mkv_xfer *made; /* link in the job's list of all records */
    perf_mkv_job_t *owner;
    mkv_xfer_t *xfer;
    mkv_plan_t *plan; /* with is_recreate: plan of this transfer alone */
} perf_mkv_xfer_t;

struct perf_mkv_job {
    perf_mkv_job_t *next;
    perf_job_t *job;
    bool is_served;
    mkv_plan_t *plan;
    perf_mkv_xfer_t *xfer;  /* transfer of the next post; NULL with is_recreate */
    perf_mkv_xfer_t **last; /* end of the list that begins at xfer */
    perf_mkv_xfer_t *quiet; /* with is_notified: quiet transfers, to be closed */
    perf_mkv_xfer_t *free;
    perf_mkv_xfer_t *made; /* all records, also those in no other list */
    uint64_t num_opened;
    uint64_t num_open;
    uint64_t num_bound;
    uint64_t num_elements; /* pieces of a post, after merging */
};

struct perf_engine {
    const perf_engine_params_t *params;
    const perf_options_t *options;
    perf_session_t kv;
    perf_mkv_job_t *jobs;
    bool is_failed;
};


/* A transfer that serves all posts. */
static bool perf_mkv_is_reused(const perf_job_t *job)
{
    return !job->is_recreate && !job->is_notified;
}

static mkv_units_t perf_mkv_units(const perf_job_t *job)
{
    mkv_units_t units = {.component = job->view};

    units.num_local = units.num_remote = job->num_blocks;
    units.local = job->local;
    units.remote = job->remote;
    return units;
}

static int perf_mkv_plan(perf_engine_t *engine, perf_job_t *job, mkv_plan_t **plan_p)
{
    mkv_plan_attr_t attr = {.size = sizeof(attr)};
    mkv_units_t units = perf_mkv_units(job);
    uint64_t start_ns = perf_clock_ns();

    if (mkv_plan_create(engine->kv.maps[job->peer], &units, 1, 0, plan_p) != MKV_OK) {
        return perf_session_error("mkv_plan_create");
    }
    job->prep_ns += perf_clock_ns() - start_ns;
    if (mkv_plan_query(*plan_p, &attr) != MKV_OK) {
        return perf_session_error("mkv_plan_query");
    }
    job->num_merged = attr.num_elements;
    return 0;
}

/* Take an unused record from the job's pool. */
static perf_mkv_xfer_t *perf_mkv_get_xfer(perf_mkv_job_t *mkv)
{
    perf_mkv_xfer_t *xfer = mkv->free;

    if (xfer != NULL) {
        mkv->free = xfer->next;
        return xfer;
    }

    xfer = calloc(1, sizeof(*xfer));
    if (xfer == NULL) {
        perf_error("no memory for a transfer");
        return NULL;
    }
    xfer->owner = mkv;
    xfer->made = mkv->made;
    mkv->made = xfer;
    return xfer;
}

/* Open one side of the job's next transfer, and expose its blocks if this process
 * serves it. */
static perf_mkv_xfer_t *perf_mkv_open_xfer(perf_engine_t *engine, perf_mkv_job_t *mkv)
{
    perf_job_t *job = mkv->job;
    mkv_expect_t expect = {.component = job->view, .num_units = job->num_blocks};
    mkv_xfer_params_t params = {.size = sizeof(params)};
    mkv_units_t units = perf_mkv_units(job);
    perf_mkv_xfer_t *xfer = perf_mkv_get_xfer(mkv);

    if (xfer == NULL) {
        return NULL;
    }

    if (perf_mkv_is_reused(job)) {
        expect.num_units = (uint32_t)(job->num_blocks * job->num_posts);
    }
    params.id = job->id + mkv->num_opened;
    params.mode = (engine->options->op == PERF_OP_WRITE) ? MKV_WRITE : MKV_READ;
    params.role = (mkv->is_served != (params.mode == MKV_WRITE)) ? MKV_SRC : MKV_DST;
    params.legs = &engine->kv.maps[job->peer];
    params.num_legs = 1;
    params.expect = mkv->is_served ? &expect : NULL;
    params.num_expect = mkv->is_served;
    params.xfer_timeout_ms = engine->options->timeout_s * 1000;
    params.user_data = xfer;
    if (mkv_xfer_open(engine->kv.ctx, &params, &xfer->xfer) != MKV_OK) {
        perf_session_error("mkv_xfer_open");
        return NULL;
    }

    ++mkv->num_opened;
    ++mkv->num_open;
    if (mkv->is_served &&
        (mkv_xfer_expose(xfer->xfer, 0, &units, 1, NULL, 0) != MKV_OK)) {
        perf_session_error("mkv_xfer_expose");
        return NULL;
    }
    return xfer;
}

/* Serving with is_recreate: keep as many transfers open as may be in flight. */
static int perf_mkv_refill(perf_engine_t *engine, perf_mkv_job_t *mkv)
{
    const perf_job_t *job = mkv->job;
    uint64_t total = perf_mkv_is_reused(job) ? 1 : job->num_posts;
    uint64_t depth = job->is_recreate ? engine->options->pipeline_depth : total;

    while (mkv->is_served && (mkv->num_open < depth) && (mkv->num_opened < total)) {
        if (perf_mkv_open_xfer(engine, mkv) == NULL) {
            return -1;
        }
    }
    return 0;
}

static int perf_mkv_on_exposed(perf_engine_t *engine, perf_mkv_xfer_t *xfer)
{
    perf_job_t *job = xfer->owner->job;

    ++xfer->owner->num_bound;
    if (!job->is_recreate) {
        return 0;
    }
    if (perf_mkv_plan(engine, job, &xfer->plan) != 0) {
        return -1;
    }
    if (mkv_xfer_post(xfer->xfer, 0, xfer->plan, NULL, NULL) != MKV_OK) {
        return perf_session_error("mkv_xfer_post");
    }
    return (mkv_xfer_seal(xfer->xfer, 0) == MKV_OK)
               ? 0
               : perf_session_error("mkv_xfer_seal");
}

static int perf_mkv_close_xfer(perf_mkv_xfer_t *xfer)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    perf_mkv_job_t *mkv = xfer->owner;

    if (mkv_xfer_query(xfer->xfer, &attr) == MKV_OK) {
        mkv->job->num_ucp_calls += attr.num_ucp_calls;
    }
    if (mkv_xfer_close(xfer->xfer) != MKV_OK) {
        return perf_session_error("mkv_xfer_close");
    }
    if ((xfer->plan != NULL) && (mkv_plan_destroy(xfer->plan) != MKV_OK)) {
        return perf_session_error("mkv_plan_destroy");
    }

    xfer->plan = NULL;
    xfer->next = mkv->free;
    mkv->free = xfer;
    return 0;
}

static int perf_mkv_on_quiet(perf_engine_t *engine, perf_mkv_xfer_t *xfer)
{
    perf_mkv_job_t *mkv = xfer->owner;

    --mkv->num_open;
    if (mkv->job->is_notified) { /* not while a process waits for an answer */
        xfer->next = mkv->quiet;
        mkv->quiet = xfer;
        return 0;
    }
    mkv->xfer = NULL;
    return (perf_mkv_close_xfer(xfer) == 0) ? perf_mkv_refill(engine, mkv) : -1;
}

static void perf_mkv_on_done(perf_mkv_job_t *mkv)
{
    if (mkv->is_served) {
        ++mkv->job->num_arrived;
    } else if (!perf_mkv_is_reused(mkv->job)) {
        ++mkv->job->num_completed;
    }
}

static void perf_mkv_event(void *arg, const mkv_event_t *event)
{
    perf_engine_t *engine = arg;
    perf_mkv_xfer_t *xfer = event->user_data;
    int ret = 0;

    if (engine->kv.is_failed) {
        return;
    }
    if (event->type == MKV_EV_EXPOSED) {
        ret = perf_mkv_on_exposed(engine, xfer);
    } else if (event->type == MKV_EV_DONE) {
        perf_mkv_on_done(xfer->owner);
    } else if (event->type == MKV_EV_QUIET) {
        ret = perf_mkv_on_quiet(engine, xfer);
    }
    engine->is_failed |= (ret != 0);
}

/* How many whole posts of the reused transfers are complete. */
static void perf_mkv_count(perf_engine_t *engine)
{
    perf_mkv_job_t *mkv;
    uint64_t completed;

    for (mkv = engine->jobs; mkv != NULL; mkv = mkv->next) {
        if (!mkv->is_served && perf_mkv_is_reused(mkv->job) && (mkv->xfer != NULL) &&
            (mkv_xfer_status(mkv->xfer->xfer, &completed) >= MKV_OK)) {
            mkv->job->num_completed = completed / mkv->num_elements;
        }
    }
}

static int perf_mkv_progress(perf_engine_t *engine)
{
    perf_session_progress(&engine->kv);
    perf_mkv_count(engine);
    return (engine->kv.is_failed || engine->is_failed) ? -1 : 0;
}

static int perf_mkv_wait(perf_engine_t *engine, const perf_mkv_job_t *mkv,
                         bool (*is_over)(const perf_mkv_job_t *mkv), const char *what)
{
    uint64_t deadline_ns =
        perf_clock_ns() + engine->options->timeout_s * UINT64_C(1000000000);

    while (!is_over(mkv)) {
        if (perf_mkv_progress(engine) != 0) {
            return -1;
        }
        if (perf_clock_ns() > deadline_ns) {
            perf_error("%s took more than %u s; see --timeout", what,
                       engine->options->timeout_s);
            return -1;
        }
    }
    return 0;
}

static bool perf_mkv_job_is_bound(const perf_mkv_job_t *mkv)
{
    return mkv->num_bound == mkv->num_opened;
}

static bool perf_mkv_job_is_quiet(const perf_mkv_job_t *mkv)
{
    return mkv->num_open == 0;
}

/* Wait until all transfers of the job have ended on both sides. */
static int perf_mkv_finish(perf_engine_t *engine, perf_mkv_job_t *mkv)
{
    perf_mkv_xfer_t *xfer;

    if (perf_mkv_wait(engine, mkv, perf_mkv_job_is_quiet, "the end of a transfer") !=
        0) {
        return -1;
    }
    while ((xfer = mkv->quiet) != NULL) {
        mkv->quiet = xfer->next;
        if (perf_mkv_close_xfer(xfer) != 0) {
            return -1;
        }
    }
    return 0;
}

static perf_mkv_job_t *perf_mkv_job_create(perf_engine_t *engine, perf_job_t *job,
                                           bool is_served)
{
    perf_mkv_job_t *mkv;

    mkv = calloc(1, sizeof(*mkv));
    if (mkv == NULL) {
        perf_error("no memory for a job");
        return NULL;
    }

    mkv->job = job;
    mkv->last = &mkv->xfer;
    mkv->is_served = is_served;
    mkv->next = engine->jobs;
    engine->jobs = mkv;
    job->priv = mkv;
    return mkv;
}

static void perf_mkv_job_destroy(perf_engine_t *engine, perf_mkv_job_t *mkv)
{
    perf_mkv_job_t **link;
    perf_mkv_xfer_t *xfer;

    for (link = &engine->jobs; *link != mkv; link = &(*link)->next) {
    }
    *link = mkv->next;
    while ((xfer = mkv->made) != NULL) {
        mkv->made = xfer->made;
        free(xfer);
    }
    free(mkv);
}

static int perf_mkv_serve(perf_engine_t *engine, perf_job_t *job)
{
    perf_mkv_job_t *mkv = perf_mkv_job_create(engine, job, true);

    if (perf_mkv_is_reused(job) && (job->num_blocks * job->num_posts > UINT32_MAX)) {
        perf_error("%" PRIu64 " posts of %u blocks; expected fewer than 2^32 blocks in "
                   "all, see --num_iter",
                   job->num_posts, job->num_blocks);
        return -1;
    }
    return (mkv == NULL) ? -1 : perf_mkv_refill(engine, mkv);
}

static int perf_mkv_unserve(perf_engine_t *engine, perf_job_t *job)
{
    perf_mkv_job_t *mkv = job->priv;

    if (perf_mkv_finish(engine, mkv) != 0) {
        return -1;
    }
    perf_mkv_job_destroy(engine, mkv);
    return 0;
}

/* Transfers of all posts to come, in their order. */
static int perf_mkv_open_ahead(perf_engine_t *engine, perf_mkv_job_t *mkv)
{
    uint64_t num = perf_mkv_is_reused(mkv->job) ? 1 : mkv->job->num_posts;
    perf_mkv_xfer_t *xfer;

    while (mkv->num_opened < num) {
        xfer = perf_mkv_open_xfer(engine, mkv);
        if (xfer == NULL) {
            return -1;
        }
        xfer->next = NULL;
        *mkv->last = xfer;
        mkv->last = &xfer->next;
    }
    return perf_mkv_wait(engine, mkv, perf_mkv_job_is_bound, "exposing blocks");
}

static int perf_mkv_start(perf_engine_t *engine, perf_job_t *job)
{
    perf_mkv_job_t *mkv = perf_mkv_job_create(engine, job, false);

    if ((mkv == NULL) || job->is_recreate) {
        return (mkv == NULL) ? -1 : 0;
    }
    if (perf_mkv_plan(engine, job, &mkv->plan) != 0) {
        return -1;
    }

    mkv->num_elements = job->num_merged;
    return perf_mkv_open_ahead(engine, mkv);
}

static int perf_mkv_post(perf_engine_t *engine, perf_job_t *job)
{
    perf_mkv_job_t *mkv = job->priv;
    perf_mkv_xfer_t *xfer = mkv->xfer;

    if (job->is_recreate) { /* the post follows when the other side is there */
        return (perf_mkv_open_xfer(engine, mkv) != NULL) ? 0 : -1;
    }
    if (mkv_xfer_post(xfer->xfer, 0, mkv->plan, NULL, NULL) != MKV_OK) {
        return perf_session_error("mkv_xfer_post");
    }
    if (job->is_notified) {
        mkv->xfer = xfer->next; /* before sealing, which may make it quiet */
        return (mkv_xfer_seal(xfer->xfer, 0) == MKV_OK)
                   ? 0
                   : perf_session_error("mkv_xfer_seal");
    }
    return 0;
}

static int perf_mkv_stop(perf_engine_t *engine, perf_job_t *job)
{
    perf_mkv_job_t *mkv = job->priv;

    if (perf_mkv_is_reused(job) && (mkv_xfer_seal(mkv->xfer->xfer, 0) != MKV_OK)) {
        return perf_session_error("mkv_xfer_seal");
    }
    if (perf_mkv_finish(engine, mkv) != 0) {
        return -1;
    }
    if ((mkv->plan != NULL) && (mkv_plan_destroy(mkv->plan) != MKV_OK)) {
        return perf_session_error("mkv_plan_destroy");
    }
    perf_mkv_job_destroy(engine, mkv);
    return 0;
}

static int perf_mkv_add_views(perf_engine_t *engine)
{
    const perf_engine_params_t *params = engine->params;
    mkv_region_t region = {.size = sizeof(region)};
    mkv_region_id_t id;
    unsigned view;

    region.base = params->buffer;
    region.length = params->size;
    region.mem_type = perf_memory_type(params->run->memory);
    for (view = 0; view < params->num_views; ++view) {
        region.component = view;
        region.unit_bytes = params->block_sizes[view];
        region.n_units = params->size / region.unit_bytes;
        if (mkv_region_add(engine->kv.ctx, &region, &id) != MKV_OK) {
            return perf_session_error("mkv_region_add");
        }
    }
    return 0;
}

static void perf_mkv_end_of_test(perf_engine_t *engine)
{
    perf_session_end_of_test(&engine->kv);
}

static void perf_mkv_close(perf_engine_t *engine)
{
    engine->kv.is_failed |= engine->is_failed;
    perf_session_close(&engine->kv);
    while (engine->jobs != NULL) {
        perf_mkv_job_destroy(engine, engine->jobs);
    }
    free(engine);
}

static int perf_mkv_open(const perf_engine_params_t *params, perf_engine_t **engine_p)
{
    perf_engine_t *engine;

    engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        perf_error("no memory for an engine");
        return -1;
    }

    engine->params = params;
    engine->options = params->run->options;
    if (perf_session_open(engine->options, &(perf_session_rank_t){0}, perf_mkv_event,
                          engine, &engine->kv) != 0) {
        free(engine);
        return -1;
    }
    if ((perf_mkv_add_views(engine) != 0) ||
        (perf_session_connect(&engine->kv, params->run->channels,
                              params->run->num_channels) != 0)) {
        engine->is_failed = true;
        perf_mkv_close(engine);
        return -1;
    }

    *engine_p = engine;
    return 0;
}

static void perf_mkv_path(perf_engine_t *engine, unsigned peer, char *path, size_t size)
{
    perf_session_path(&engine->kv, peer, path, size);
}

static uint64_t perf_mkv_cpu_ns(const perf_engine_t *engine)
{
    return engine->kv.cpu_ns;
}

const perf_engine_ops_t perf_engine_mkv = {
    .open = perf_mkv_open,
    .close = perf_mkv_close,
    .end_of_test = perf_mkv_end_of_test,
    .serve = perf_mkv_serve,
    .unserve = perf_mkv_unserve,
    .start = perf_mkv_start,
    .post = perf_mkv_post,
    .stop = perf_mkv_stop,
    .progress = perf_mkv_progress,
    .path = perf_mkv_path,
    .cpu_ns = perf_mkv_cpu_ns,
};
