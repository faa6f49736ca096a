/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A destination, which also judges. Transfers get its blocks, which are free again when
 * these are quiet. Free blocks are filled with canaries. If a canary has changed when
 * the block is used again, the block was written to after quiet.
 */

#include "soak.h"

#include "test/support/mkv_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SOAK_CANARY 0xee
#define SOAK_ADD_MS 100

typedef struct soak_take {
    mkv_xfer_t *xfer; /* NULL: free */
    mkv_plan_t *plan;
    soak_link_t *link;
    uint64_t seed;
    mkv_mode_t mode;
    bool is_free;      /* Its blocks are */
    bool aborts_later; /* Some time after it was exposed */
    uint32_t blocks[SOAK_XFER_BLOCKS];
} soak_take_t;

/* Last transfer of a block */
typedef struct soak_last {
    uint64_t id, free_ms;
    mkv_mode_t mode;
    mkv_status_t status; /* How the transfer ended */
    unsigned who;
} soak_last_t;

static soak_take_t *takes;
static soak_last_t last[SOAK_BLOCKS];
static uint32_t free_blocks[SOAK_BLOCKS]; /* ring, oldest first */
static uint32_t first_free, num_free;
static uint64_t last_id, next_add_ms;
static ino_t blobs[SOAK_PREFILLS]; /* the blobs that were added last */

/* ---- Blocks ---------------------------------------------------------------------- */

static void soak_block_free(soak_worker_t *worker, uint32_t block)
{
    char canary[SOAK_BLOCK_BYTES];
    unsigned region;

    memset(canary, SOAK_CANARY, sizeof(canary));
    for (region = 0; region < SOAK_REGIONS; ++region) {
        soak_write(worker, region, block, canary, sizeof(canary));
    }
    free_blocks[(first_free + num_free++) % SOAK_BLOCKS] = block;
}

static void soak_block_is_late(soak_worker_t *worker, uint32_t block, unsigned region)
{
    const soak_last_t *was = &last[block];

    ++worker->slot->late;
    soak_complain(
        worker,
        "block %u, region %u was written to after quiet, within %llu ms: it was "
        "transfer %llx's, a %s with worker %u that ended with %s",
        block, region, (unsigned long long)(mkv_test_now_ms() - was->free_ms),
        (unsigned long long)was->id, (was->mode == MKV_READ) ? "READ" : "WRITE",
        was->who, mkv_status_string(was->status));
}

static void soak_block_check(soak_worker_t *worker, uint32_t block)
{
    char canary[SOAK_BLOCK_BYTES], bytes[SOAK_BLOCK_BYTES];
    unsigned region;

    memset(canary, SOAK_CANARY, sizeof(canary));
    for (region = 0; region < SOAK_REGIONS; ++region) {
        soak_read(worker, region, block, bytes);
        if (memcmp(bytes, canary, sizeof(canary)) != 0) {
            soak_block_is_late(worker, block, region);
            return;
        }
    }
}

static uint32_t soak_block_take(soak_worker_t *worker)
{
    uint32_t block = free_blocks[first_free];

    first_free = (first_free + 1) % SOAK_BLOCKS;
    --num_free;
    soak_block_check(worker, block);
    return block;
}

static void soak_take_filled(soak_worker_t *worker)
{
    char *canaries = malloc(SOAK_REGION_BYTES);
    uint32_t i;

    for (i = 0; (canaries != NULL) && (i < SOAK_REGIONS); ++i) {
        memset(canaries, SOAK_CANARY, SOAK_REGION_BYTES);
        soak_write(worker, i, 0, canaries, SOAK_REGION_BYTES);
    }
    free(canaries);
    for (i = 0; i < SOAK_BLOCKS; ++i) {
        free_blocks[i] = i;
    }
    first_free = 0;
    num_free = SOAK_BLOCKS;
}

/* Free the blocks of a transfer that has ended or, for the control, of one that may
 * still be written to */
static void soak_take_free(soak_worker_t *worker, soak_take_t *take)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    unsigned i;

    SOAK_OK(worker, mkv_xfer_query(take->xfer, &attr));
    for (i = 0; !take->is_free && (i < SOAK_XFER_BLOCKS); ++i) {
        soak_block_free(worker, take->blocks[i]);
        last[take->blocks[i]] = (soak_last_t){.id = attr.id,
                                              .free_ms = mkv_test_now_ms(),
                                              .mode = take->mode,
                                              .status = attr.status,
                                              .who = take->link->who};
    }
    take->is_free = true;
}

/* ---- Transfers ------------------------------------------------------------------- */

static void soak_take_check(soak_worker_t *worker, const soak_take_t *take)
{
    char want[SOAK_BLOCK_BYTES], bytes[SOAK_BLOCK_BYTES];
    uint32_t theirs[SOAK_XFER_BLOCKS];
    unsigned region, i;

    soak_wished(take->seed, theirs);
    for (i = 0; i < SOAK_XFER_BLOCKS; ++i) {
        for (region = 0; region < SOAK_REGIONS; ++region) {
            soak_pattern(take->link->who, region, theirs[i], want, sizeof(want));
            soak_read(worker, region, take->blocks[i], bytes);
            worker->slot->wrong += memcmp(want, bytes, sizeof(want)) != 0;
        }
    }
}

static void soak_take_expose(soak_worker_t *worker, soak_take_t *take)
{
    mkv_units_t units = {.num_local = SOAK_XFER_BLOCKS, .local = take->blocks};
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};

    if (mkv_xfer_expose(take->xfer, 0, &units, 1, NULL, 0) != MKV_OK) {
        SOAK_OK(worker, mkv_xfer_query(take->xfer, &attr));
        if (attr.status == MKV_INPROGRESS) {
            soak_complain(worker, "expose: %s", mkv_last_error());
        }
    }
}

static void soak_take_open(soak_worker_t *worker, soak_take_t *take, soak_link_t *link)
{
    soak_wish_t wish = {.seed = mkv_test_random(&worker->random)};
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = ((uint64_t)worker->random << 20) | ++last_id,
                                .role = MKV_DST,
                                .legs = &link->map,
                                .num_legs = 1,
                                .user_data = take};
    unsigned i;

    wish.mode = soak_below(worker, 2) ? MKV_READ : MKV_WRITE;
    params.mode = (mkv_mode_t)wish.mode;
    *take = (soak_take_t){.link = link, .seed = wish.seed, .mode = params.mode};
    if (mkv_xfer_open(worker->ctx, &params, &take->xfer) != MKV_OK) {
        take->xfer = NULL; /* the connection has ended, or regions have changed */
        return;
    }
    for (i = 0; i < SOAK_XFER_BLOCKS; ++i) {
        take->blocks[i] = soak_block_take(worker);
    }
    ++link->num_xfers;
    ++worker->num_open;
    ++worker->slot->opened;
    if (take->mode == MKV_WRITE) {
        soak_take_expose(worker, take);
    }
    take->aborts_later = soak_below(worker, worker->shared->frees_early ? 2 : 50) == 0;
    if ((mkv_send(link->peer, params.id, SOAK_MSG_WISH, &wish, sizeof(wish), NULL, 0) !=
         MKV_OK) ||
        (soak_below(worker, 100) == 0)) {
        SOAK_OK(worker, mkv_xfer_abort(take->xfer, MKV_ERR_ABORTED, "at once"));
    }
}

static void soak_take_read(soak_worker_t *worker, soak_take_t *take,
                           const mkv_units_t *exposed)
{
    mkv_units_t units = *exposed;

    units.local = take->blocks;
    units.num_local = SOAK_XFER_BLOCKS;
    if (mkv_plan_create(take->link->map, &units, 1, 0, &take->plan) != MKV_OK) {
        SOAK_OK(worker, mkv_xfer_abort(take->xfer, MKV_ERR_ABORTED, mkv_last_error()));
        return;
    }
    (void)mkv_xfer_post(take->xfer, 0, take->plan, NULL, NULL);
    (void)mkv_xfer_seal(take->xfer, 0);
}

static void soak_take_quiet(soak_worker_t *worker, soak_take_t *take)
{
    soak_take_free(worker, take);
    SOAK_OK(worker, mkv_xfer_close(take->xfer));
    if (take->plan != NULL) {
        SOAK_OK(worker, mkv_plan_destroy(take->plan));
    }
    --take->link->num_xfers;
    --worker->num_open;
    take->xfer = NULL;
}

static soak_take_t *soak_take_by_id(soak_worker_t *worker, uint64_t id)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    unsigned i;

    for (i = 0; i < worker->shared->window; ++i) {
        if (takes[i].xfer != NULL) {
            SOAK_OK(worker, mkv_xfer_query(takes[i].xfer, &attr));
            if (attr.id == id) {
                return &takes[i];
            }
        }
    }
    return NULL;
}

static void soak_take_ended(soak_worker_t *worker, const mkv_event_t *event)
{
    soak_take_t *take = event->user_data;

    if (event->type == MKV_EV_DONE) {
        ++worker->slot->done;
        soak_take_check(worker, take);
    } else if (event->type == MKV_EV_ABORTED) {
        ++worker->slot->aborted;
    } else {
        ++worker->slot->failed;
    }
    if (worker->shared->frees_early) {
        soak_take_free(worker, take);
    }
}

static void soak_take_event(soak_worker_t *worker, const mkv_event_t *event)
{
    soak_take_t *take;

    if ((event->type == MKV_EV_MSG) && (event->value == SOAK_MSG_NO)) {
        take = soak_take_by_id(worker, event->id);
        if (take != NULL) {
            SOAK_OK(worker, mkv_xfer_abort(take->xfer, MKV_ERR_ABORTED, "refused"));
        }
    }
    if ((event->xfer == NULL) || (event->user_data == NULL)) {
        return;
    }
    if ((event->type == MKV_EV_EXPOSED) && (event->xfer != NULL)) {
        soak_take_read(worker, event->user_data, event->units);
    } else if ((event->type == MKV_EV_DONE) || (event->type == MKV_EV_ABORTED) ||
               (event->type == MKV_EV_FAILED)) {
        soak_take_ended(worker, event);
    } else if (event->type == MKV_EV_QUIET) {
        soak_take_quiet(worker, event->user_data);
    }
}

/* ---- Choice of a prefill
   ----------------------------------------------------------------- */

static soak_link_t *soak_link_to(soak_worker_t *worker, unsigned who)
{
    soak_link_t *found = NULL;
    unsigned i;

    for (i = 0; i < SOAK_MAX_LINKS; ++i) {
        if ((worker->links[i].peer != NULL) && (worker->links[i].who == who) &&
            !worker->links[i].is_over) {
            found = &worker->links[i];
        }
    }
    return found;
}

/* A prefill that is not connected is added when there is a blob of it; the same one
 * again only after a while, as it may be that of a process that is gone */
static void soak_add(soak_worker_t *worker, unsigned who)
{
    static uint64_t next_ms[SOAK_PREFILLS];
    static char blob[1 << 16];
    struct stat info;
    mkv_peer_t *peer;
    char path[192];
    size_t length;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%u.blob", worker->shared->dir, who);
    if ((stat(path, &info) != 0) ||
        ((info.st_ino == blobs[who]) && (mkv_test_now_ms() < next_ms[who]))) {
        return;
    }
    file = fopen(path, "r");
    if (file == NULL) {
        return;
    }
    length = fread(blob, 1, sizeof(blob), file);
    fclose(file);
    blobs[who] = info.st_ino;
    next_ms[who] = mkv_test_now_ms() + 4000;
    (void)mkv_peer_add(worker->ctx, blob, length, NULL, &peer);
}

static void soak_take_add(soak_worker_t *worker)
{
    unsigned who;

    if (mkv_test_now_ms() < next_add_ms) {
        return;
    }
    next_add_ms = mkv_test_now_ms() + SOAK_ADD_MS;
    for (who = 0; who < SOAK_PREFILLS; ++who) {
        if (soak_link_to(worker, who) == NULL) {
            soak_add(worker, who);
        }
    }
}

/* ---- Round ----------------------------------------------------------------------- */

static void soak_take_more(soak_worker_t *worker)
{
    soak_link_t *link;
    unsigned i;

    for (i = 0; i < worker->shared->window; ++i) {
        if ((takes[i].xfer != NULL) && takes[i].aborts_later &&
            (soak_below(worker, 64) == 0)) {
            takes[i].aborts_later = false;
            SOAK_OK(worker, mkv_xfer_abort(takes[i].xfer, MKV_ERR_ABORTED, "later"));
        }
        if ((takes[i].xfer != NULL) || worker->is_winding_up ||
            (num_free < SOAK_XFER_BLOCKS)) {
            continue;
        }
        link = soak_link_to(worker, soak_below(worker, SOAK_PREFILLS));
        if ((link != NULL) && (link->map != NULL) && !link->is_stale) {
            soak_take_open(worker, &takes[i], link);
        }
    }
}

static void soak_take_count(soak_worker_t *worker)
{
    mkv_stats_t stats = {.size = sizeof(stats)};
    volatile soak_slot_t *slot = worker->slot;

    SOAK_OK(worker, mkv_stats(worker->ctx, NULL, &stats));
    slot->open_now = worker->num_open;
    if (worker->num_open > slot->open_most) {
        slot->open_most = worker->num_open;
    }
    if (stats.quarantined_xfers > slot->quarantined_most) {
        slot->quarantined_most = stats.quarantined_xfers;
    }
}

/* All transfers are closed: every block is free and unchanged */
static void soak_take_account(soak_worker_t *worker)
{
    uint32_t i;

    worker->slot->lost += SOAK_BLOCKS - num_free;
    for (i = 0; i < num_free; ++i) {
        soak_block_check(worker, free_blocks[(first_free + i) % SOAK_BLOCKS]);
    }
    worker->slot->is_drained = true;
}

static void soak_take_step(soak_worker_t *worker)
{
    soak_take_add(worker);
    soak_take_more(worker);
    soak_take_count(worker);
    if ((worker->shared->phase == SOAK_DRAIN) && (worker->num_open == 0) &&
        (worker->mem != NULL) && !worker->slot->is_drained) {
        soak_take_account(worker); /* a sleeper first needs its cache */
    }
}

static void soak_take_start(soak_worker_t *worker)
{
    takes = calloc(worker->shared->window, sizeof(*takes));
    last_id = (uint64_t)worker->index << 56;
    worker->slot->is_drained = false;
}

const soak_role_t soak_decode = {
    .start = soak_take_start,
    .event = soak_take_event,
    .step = soak_take_step,
    .filled = soak_take_filled,
};
