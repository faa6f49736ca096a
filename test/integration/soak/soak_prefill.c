/* SPDX-License-Identifier: BSD-3-Clause */

/* A source: serves the requests of decodes, in two posts, and now and then gives up. */

#include "soak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct soak_give {
    mkv_xfer_t *xfer;
    mkv_plan_t *plan;
    soak_link_t *link;
    uint64_t seed;
} soak_give_t;

static void soak_give_filled(soak_worker_t *worker)
{
    char *bytes = malloc(SOAK_REGION_BYTES);
    unsigned region;

    for (region = 0; (bytes != NULL) && (region < SOAK_REGIONS); ++region) {
        soak_pattern(worker->index, region, 0, bytes, SOAK_REGION_BYTES);
        soak_write(worker, region, 0, bytes, SOAK_REGION_BYTES);
    }
    free(bytes);
}

static void soak_refuse(soak_worker_t *worker, const mkv_event_t *wish)
{
    (void)worker;
    (void)mkv_send(wish->peer, wish->id, SOAK_MSG_NO, NULL, 0, NULL, 0);
}

/* A call is refused where the transfer was aborted meanwhile, and nowhere else. */
static void soak_give_called(soak_worker_t *worker, soak_give_t *give, const char *call,
                             mkv_status_t status)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    char reason[256];

    if (status == MKV_OK) {
        return;
    }
    snprintf(reason, sizeof(reason), "%s", mkv_last_error());
    SOAK_OK(worker, mkv_xfer_query(give->xfer, &attr));
    if (attr.status == MKV_INPROGRESS) {
        soak_complain(worker, "%s: %s", call, reason);
    }
}

static void soak_give_expose(soak_worker_t *worker, soak_give_t *give)
{
    uint32_t blocks[SOAK_XFER_BLOCKS];
    mkv_units_t units = {.num_local = SOAK_XFER_BLOCKS, .local = blocks};

    soak_wished(give->seed, blocks);
    soak_give_called(worker, give, "expose",
                     mkv_xfer_expose(give->xfer, 0, &units, 1, NULL, 0));
}

static void soak_give_open(soak_worker_t *worker, soak_link_t *link,
                           const mkv_event_t *event)
{
    soak_wish_t wish;
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = event->id,
                                .role = MKV_SRC,
                                .legs = &link->map,
                                .num_legs = 1};
    soak_give_t *give = calloc(1, sizeof(*give));

    memcpy(&wish, event->header, sizeof(wish));
    params.mode = (mkv_mode_t)wish.mode;
    params.user_data = give;
    if ((give == NULL) ||
        (mkv_xfer_open(worker->ctx, &params, &give->xfer) != MKV_OK)) {
        free(give);
        soak_refuse(worker, event);
        return;
    }
    give->link = link;
    give->seed = wish.seed;
    ++link->num_xfers;
    ++worker->num_open;
    ++worker->slot->opened;
    if (wish.mode == MKV_READ) {
        soak_give_expose(worker, give);
    }
    if (soak_below(worker, 100) == 0) {
        SOAK_OK(worker, mkv_xfer_abort(give->xfer, MKV_ERR_ABORTED, "at once"));
    }
}

static void soak_give_move(soak_worker_t *worker, soak_give_t *give,
                           const mkv_units_t *exposed)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS, .layer_hi = 1};
    uint32_t blocks[SOAK_XFER_BLOCKS];
    mkv_units_t units = *exposed;

    soak_wished(give->seed, blocks);
    units.local = blocks;
    units.num_local = SOAK_XFER_BLOCKS;
    if (mkv_plan_create(give->link->map, &units, 1, 0, &give->plan) != MKV_OK) {
        SOAK_OK(worker, mkv_xfer_abort(give->xfer, MKV_ERR_ABORTED, mkv_last_error()));
        return;
    }
    soak_give_called(worker, give, "post",
                     mkv_xfer_post(give->xfer, 0, give->plan, &sel, NULL));
    if (soak_below(worker, 100) == 0) {
        SOAK_OK(worker, mkv_xfer_abort(give->xfer, MKV_ERR_ABORTED, "half way"));
        return;
    }
    sel.layer_lo = 1;
    sel.layer_hi = 2;
    soak_give_called(worker, give, "post",
                     mkv_xfer_post(give->xfer, 0, give->plan, &sel, NULL));
    soak_give_called(worker, give, "seal", mkv_xfer_seal(give->xfer, 0));
}

static void soak_give_close(soak_worker_t *worker, soak_give_t *give)
{
    SOAK_OK(worker, mkv_xfer_close(give->xfer));
    if (give->plan != NULL) {
        SOAK_OK(worker, mkv_plan_destroy(give->plan));
    }
    --give->link->num_xfers;
    --worker->num_open;
    free(give);
}

static void soak_give_event(soak_worker_t *worker, const mkv_event_t *event)
{
    soak_link_t *link = soak_link_of(worker, event->peer);

    if ((event->type == MKV_EV_MSG) && (event->value == SOAK_MSG_WISH)) {
        if (worker->is_winding_up || (link == NULL) || (link->map == NULL) ||
            link->is_stale || link->is_over) {
            soak_refuse(worker, event);
        } else {
            soak_give_open(worker, link, event);
        }
    } else if ((event->type == MKV_EV_EXPOSED) && (event->xfer != NULL)) {
        soak_give_move(worker, event->user_data, event->units);
    } else if (event->type == MKV_EV_DONE) {
        ++worker->slot->done;
    } else if (event->type == MKV_EV_ABORTED) {
        ++worker->slot->aborted;
    } else if (event->type == MKV_EV_FAILED) {
        ++worker->slot->failed;
    } else if ((event->type == MKV_EV_QUIET) && (event->xfer != NULL)) {
        soak_give_close(worker, event->user_data);
    }
}

static void soak_give_start(soak_worker_t *worker)
{
    (void)worker;
}

static void soak_give_step(soak_worker_t *worker)
{
    worker->slot->open_now = worker->num_open;
}

const soak_role_t soak_prefill = {
    .start = soak_give_start,
    .event = soak_give_event,
    .step = soak_give_step,
    .filled = soak_give_filled,
};
