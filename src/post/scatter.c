/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Whoever asks gets a slot in its turn, and no leg more than half of them at once. The
 * peer may write to a slot until it says that it was filled (SCATTER), or is known to
 * put nothing more; of a leg that is over, it is not given to others before. Where no
 * slot will come back for certain, or not in time, those who wait are refused, and put
 * their pieces one by one.
 *
 * All places of a SCATTER are checked against what was exposed before a byte is copied.
 */

#include "post/scatter.h"

#include "peer/backend.h"
#include "post/copy.h"
#include "post/post_units.h"

#include <stdlib.h>

#define MKV_LEG_SCATTERS 64u /* chunks of one leg; a source has fewer slots */

typedef struct mkv_scatter {
    mkv_list_t list; /**< leg->scatters */
    mkv_list_t wait; /**< pool->waiting; empty: it has a slot */
    mkv_leg_t *leg;
    mkv_pool_t *pool;
    uint32_t serial;
    uint64_t bytes;
    uint64_t deadline; /**< Of waiting */
    bool is_filled;    /**< Being copied */
    mkv_copy_t copy;   /**< With the slot; NULL: none yet */
} mkv_scatter_t;

static bool mkv_scatter_has_slot(const mkv_scatter_t *scatter)
{
    return scatter->copy.slot != NULL;
}

/* Of this pool: another's slots do not come back to it */
static unsigned mkv_leg_num_slots(const mkv_leg_t *leg, const mkv_pool_t *pool)
{
    const mkv_scatter_t *scatter;
    unsigned num = 0;

    mkv_list_for_each(scatter, &leg->scatters, mkv_scatter_t, list)
    {
        num += (scatter->pool == pool) && mkv_scatter_has_slot(scatter);
    }
    return num;
}

/* ---- Slots ----------------------------------------------------------------------- */

static void mkv_scatter_answer(mkv_scatter_t *scatter, mkv_status_t code)
{
    mkv_peer_t *peer = scatter->leg->peer;
    mkv_msg_t msg = {.type = MKV_MSG_STAGED, .serial = scatter->serial, .code = code};
    uint32_t bit = (scatter->pool != NULL) ? 1u << scatter->pool->type : 0;

    if (code == MKV_OK) {
        msg.offset = (uintptr_t)scatter->copy.slot->base;
        if (!(peer->staging_told & bit)) {
            msg.data = scatter->pool->key;
            msg.length = scatter->pool->key_length;
            peer->staging_told |= bit;
        }
    }
    mkv_leg_send_or_fail(scatter->leg, &msg);
}

static void mkv_scatter_free(mkv_scatter_t *scatter)
{
    if (mkv_scatter_has_slot(scatter)) {
        mkv_slot_give(scatter->copy.slot);
    }
    mkv_list_del(&scatter->wait);
    mkv_list_del(&scatter->list);
    free(scatter);
}

/* A slot that a peer may write to for as long as it likes does not count */
static bool mkv_pool_has_hope(const mkv_pool_t *pool)
{
    const mkv_scatter_t *scatter;
    unsigned i;

    for (i = 0; i < MKV_NUM_SLOTS; ++i) {
        scatter = pool->slots[i].user;
        if ((scatter == NULL) || scatter->is_filled || !mkv_leg_is_over(scatter->leg)) {
            return true;
        }
    }
    return false;
}

static void mkv_pool_grant(mkv_pool_t *pool)
{
    mkv_scatter_t *scatter, *next;
    bool has_hope = mkv_pool_has_hope(pool);

    mkv_list_for_each_safe(scatter, next, &pool->waiting, mkv_scatter_t, wait)
    {
        if (!has_hope) {
            mkv_scatter_answer(scatter, MKV_ERR_BUSY);
            mkv_scatter_free(scatter);
        } else if (!mkv_list_is_empty(&pool->free) &&
                   (mkv_leg_num_slots(scatter->leg, pool) < MKV_LEG_SLOTS)) {
            scatter->copy.slot = mkv_slot_take(pool, scatter);
            mkv_list_del(&scatter->wait);
            mkv_scatter_answer(scatter, MKV_OK);
        }
    }
}

/* After slots came back, or a leg is over that has some */
static void mkv_pools_grant(mkv_ctx_t *ctx)
{
    unsigned type;

    for (type = 0; type < UCS_MEMORY_TYPE_LAST; ++type) {
        if (ctx->pools[MKV_POOL_RECEIVE][type] != NULL) {
            mkv_pool_grant(ctx->pools[MKV_POOL_RECEIVE][type]);
        }
    }
}

void mkv_scatters_drop(mkv_leg_t *leg)
{
    mkv_scatter_t *scatter, *next;

    if (mkv_list_is_empty(&leg->scatters)) {
        return;
    }
    mkv_list_for_each_safe(scatter, next, &leg->scatters, mkv_scatter_t, list)
    {
        if (!mkv_scatter_has_slot(scatter)) {
            mkv_scatter_free(scatter);
        }
    }
    mkv_pools_grant(leg->xfer->ctx);
}

void mkv_scatters_settled(mkv_leg_t *leg)
{
    mkv_scatter_t *scatter, *next;

    if (mkv_list_is_empty(&leg->scatters)) {
        return;
    }
    mkv_list_for_each_safe(scatter, next, &leg->scatters, mkv_scatter_t, list)
    {
        if (!scatter->is_filled) {
            mkv_scatter_free(scatter);
        }
    }
    mkv_pools_grant(leg->xfer->ctx);
}

/* The one that waits longest is the first. @return MKV_NEVER: nobody waits; 0: some
 * have gone on, and progress is due */
static uint64_t mkv_pool_refuse_late(mkv_pool_t *pool, uint64_t now)
{
    uint64_t next = MKV_NEVER;
    mkv_scatter_t *scatter;

    while (!mkv_list_is_empty(&pool->waiting)) {
        scatter = mkv_list_head(&pool->waiting, mkv_scatter_t, wait);
        if (scatter->deadline > now) {
            return (next == 0) ? 0 : scatter->deadline;
        }
        next = 0;
        mkv_scatter_answer(scatter, MKV_ERR_BUSY);
        mkv_scatter_free(scatter);
    }
    return next;
}

uint64_t mkv_scatters_expire(mkv_ctx_t *ctx, uint64_t now)
{
    uint64_t next = MKV_NEVER, each;
    unsigned type;

    for (type = 0; type < UCS_MEMORY_TYPE_LAST; ++type) {
        if (ctx->pools[MKV_POOL_RECEIVE][type] != NULL) {
            each = mkv_pool_refuse_late(ctx->pools[MKV_POOL_RECEIVE][type], now);
            next = (each < next) ? each : next;
        }
    }
    return next;
}

/* ---- STAGE ----------------------------------------------------------------------- */

/* @return MKV_OK, or why the source has to do without. */
static mkv_status_t mkv_scatter_find_pool(mkv_leg_t *leg, const mkv_msg_t *msg,
                                          mkv_pool_t **pool_p)
{
    mkv_ctx_t *ctx = leg->xfer->ctx;

    if (msg->bytes > mkv_staging_chunk(ctx)) {
        return MKV_ERR_LENGTH;
    }
    if ((leg->map->flags & MKV_MAP_TOKENS) || (msg->value >= UCS_MEMORY_TYPE_LAST) ||
        !mkv_copy_knows(ctx, (ucs_memory_type_t)msg->value)) {
        return MKV_ERR_UNSUPPORTED;
    }
    *pool_p = mkv_pool_get(ctx, MKV_POOL_RECEIVE, (ucs_memory_type_t)msg->value);
    return (*pool_p != NULL) ? MKV_OK : MKV_ERR_UNSUPPORTED;
}

static void mkv_scatter_refuse(mkv_leg_t *leg, uint32_t serial, mkv_status_t code)
{
    mkv_scatter_t scatter = {.leg = leg, .serial = serial};

    mkv_scatter_answer(&scatter, code);
}

static mkv_scatter_t *mkv_scatter_create(mkv_leg_t *leg, mkv_pool_t *pool,
                                         const mkv_msg_t *msg)
{
    mkv_scatter_t *scatter = calloc(1, sizeof(*scatter));

    if (scatter != NULL) {
        scatter->leg = leg;
        scatter->pool = pool;
        scatter->serial = msg->serial;
        scatter->bytes = msg->bytes;
        scatter->deadline = mkv_ctx_now(leg->xfer->ctx) + MKV_SLOT_PATIENCE;
        mkv_ctx_deadline(leg->xfer->ctx, scatter->deadline);
        mkv_list_init(&scatter->list);
        mkv_list_init(&scatter->wait);
        mkv_list_add_tail(&leg->scatters, &scatter->list);
        mkv_list_add_tail(&pool->waiting, &scatter->wait);
    }
    return scatter;
}

static mkv_scatter_t *mkv_scatter_find(mkv_leg_t *leg, uint32_t serial)
{
    mkv_scatter_t *scatter;

    mkv_list_for_each(scatter, &leg->scatters, mkv_scatter_t, list)
    {
        if (scatter->serial == serial) {
            return scatter;
        }
    }
    return NULL;
}

static void mkv_scatter_protocol(mkv_leg_t *leg, const mkv_msg_t *msg, const char *what)
{
    mkv_leg_fail(leg, MKV_ERR_PROTOCOL, "peer %s, leg %u: it sent %s of chunk %u, %s",
                 leg->peer->name, leg->index, mkv_msg_string(msg->type), msg->serial,
                 what);
}

static void mkv_scatter_asked(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    mkv_pool_t *pool = NULL;
    mkv_status_t status;

    if ((mkv_scatter_find(leg, msg->serial) != NULL) ||
        (mkv_list_length(&leg->scatters) >= MKV_LEG_SCATTERS)) {
        mkv_scatter_protocol(leg, msg, "which it has asked for, or has too many");
        return;
    }
    status = mkv_scatter_find_pool(leg, msg, &pool);
    if ((status == MKV_OK) && (mkv_scatter_create(leg, pool, msg) == NULL)) {
        status = MKV_ERR_NOMEM;
    }
    if (status != MKV_OK) {
        mkv_scatter_refuse(leg, msg->serial, status);
        return;
    }
    mkv_pool_grant(pool);
}

/* ---- SCATTER --------------------------------------------------------------------- */

static const mkv_pair_t *mkv_scatter_pair(const mkv_map_t *map, uint32_t region,
                                          const mkv_pair_t *last)
{
    uint32_t i;

    if ((last != NULL) && (last->local->id == region)) {
        return last;
    }
    for (i = 0; i < map->num_pairs; ++i) {
        if (map->pairs[i].local->id == region) {
            return &map->pairs[i];
        }
    }
    return NULL;
}

/* The units that these bytes touch, all of them exposed; they lie inside the region */
static bool mkv_place_is_exposed(const mkv_unit_set_t *set, const mkv_extent_t *extent,
                                 uint64_t offset, uint64_t length)
{
    uint64_t first = offset / extent->stride;
    uint64_t last = (offset + length - 1) / extent->stride;
    uint32_t id;

    id = (uint32_t)(extent->is_reverse ? extent->n_units - 1 - last : first);
    return !mkv_unit_set_find(set, id, (uint32_t)(last - first + 1), 0, &id);
}

/* What is wrong with these places; NULL: nothing */
static const char *mkv_places_fault(mkv_leg_t *leg, const mkv_pair_t *pair,
                                    const mkv_wire_places_t *places)
{
    const mkv_unit_set_t *set = mkv_leg_exposed_units(leg, pair);
    const mkv_extent_t *mine = &pair->mine;
    uint64_t at = places->offset;
    uint32_t i;

    if (set == NULL) {
        return "for which there is no memory";
    }
    for (i = 0; i < places->count; ++i, at += places->stride) {
        if ((at > mine->length) || (places->length > mine->length - at) ||
            !mkv_extent_holds(mine, at, places->length)) {
            return "with bytes that are outside of blocks";
        }
        if (!mkv_place_is_exposed(set, mine, at, places->length)) {
            return "with bytes of a block that was not exposed to it";
        }
    }
    return NULL;
}

/* Everything about a SCATTER, before anything is copied */
static const char *mkv_scatter_fault(const mkv_scatter_t *scatter, const mkv_msg_t *msg,
                                     size_t *num_p)
{
    size_t num = msg->length / MKV_WIRE_PLACES_BYTES, i;
    const mkv_pair_t *pair = NULL;
    mkv_wire_places_t places;
    const char *fault = NULL;
    uint64_t bytes = 0;

    for (i = 0, *num_p = 0; (i < num) && (fault == NULL); ++i) {
        mkv_wire_get_places(msg, i, &places);
        pair = mkv_scatter_pair(scatter->leg->map, places.region, pair);
        bytes += (uint64_t)places.count * places.length;
        *num_p += places.count;
        if ((places.length == 0) || (bytes > scatter->bytes) ||
            (*num_p > MKV_COPY_MAX_PIECES)) {
            return "with more than it has put";
        }
        if ((pair == NULL) || (pair->mem->type != scatter->pool->type)) {
            return "with a region that is none of the map's, or of other memory";
        }
        fault = mkv_places_fault(scatter->leg, pair, &places);
    }
    return ((fault == NULL) && (bytes != scatter->bytes)) ? "with less than it has put"
                                                          : fault;
}

static void mkv_scatter_done(void *arg, ucs_status_t status)
{
    mkv_scatter_t *scatter = arg;
    mkv_pool_t *pool = scatter->pool;
    mkv_leg_t *leg = scatter->leg;
    mkv_msg_t msg = {
        .type = MKV_MSG_SCATTERED, .serial = scatter->serial, .bytes = scatter->bytes};

    --leg->num_scatters;
    mkv_scatter_free(scatter);
    mkv_xfer_dirty(leg->xfer);
    if (status != UCS_OK) {
        mkv_leg_fail(leg, mkv_status_of_ucs(status),
                     "peer %s, leg %u: %llu bytes that have arrived in staging cannot "
                     "be copied to their blocks: %s",
                     leg->peer->name, leg->index, (unsigned long long)msg.bytes,
                     ucs_status_string(status));
    } else if (!mkv_leg_is_over(leg)) {
        mkv_leg_send_or_fail(leg, &msg);
    }
    mkv_pool_grant(pool);
}

static bool mkv_scatter_add(mkv_scatter_t *scatter, const mkv_pair_t *pair,
                            const mkv_wire_places_t *places)
{
    char *base = (char *)(uintptr_t)pair->mine.base;
    uint64_t at = places->offset;
    bool is_good = true;
    uint32_t i;

    for (i = 0; is_good && (i < places->count); ++i, at += places->stride) {
        is_good = mkv_copy_add(&scatter->copy, pair->mem, base + at, places->length);
    }
    return is_good;
}

/* @return false: no memory, or UCX has no key. */
static bool mkv_scatter_fill(mkv_scatter_t *scatter, const mkv_msg_t *msg, size_t num)
{
    const mkv_pair_t *pair = NULL;
    mkv_wire_places_t places;
    bool is_good;
    size_t i;

    scatter->copy.ctx = scatter->leg->xfer->ctx;
    scatter->copy.done = mkv_scatter_done;
    scatter->copy.arg = scatter;
    is_good = mkv_copy_begin(&scatter->copy, num);
    for (i = 0; is_good && (i < msg->length / MKV_WIRE_PLACES_BYTES); ++i) {
        mkv_wire_get_places(msg, i, &places);
        pair = mkv_scatter_pair(scatter->leg->map, places.region, pair);
        is_good = (pair != NULL) && mkv_scatter_add(scatter, pair, &places);
    }
    return is_good;
}

static void mkv_scatter_filled(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    mkv_scatter_t *scatter = mkv_scatter_find(leg, msg->serial);
    const char *fault;
    size_t num;

    if ((scatter == NULL) || !mkv_scatter_has_slot(scatter) || scatter->is_filled) {
        mkv_scatter_protocol(leg, msg, "which has no staging to empty");
        return;
    }
    fault = mkv_scatter_fault(scatter, msg, &num);
    if (fault != NULL) {
        mkv_leg_fail(leg, MKV_ERR_BOUNDS,
                     "peer %s, leg %u: it sent SCATTER of chunk %u %s", leg->peer->name,
                     leg->index, msg->serial, fault);
        return;
    }
    scatter->is_filled = true;
    ++leg->num_scatters;
    if (mkv_scatter_fill(scatter, msg, num)) {
        mkv_copy_start(&scatter->copy);
    } else {
        mkv_scatter_done(scatter, UCS_ERR_NO_MEMORY);
    }
}

void mkv_scatter_receive(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    if (!(leg->xfer->ctx->features & MKV_FEATURE_STAGE)) {
        mkv_scatter_protocol(leg, msg, "and was told that nothing is staged here");
    } else if (msg->type == MKV_MSG_STAGE) {
        mkv_scatter_asked(leg, msg);
    } else {
        mkv_scatter_filled(leg, msg);
    }
}
