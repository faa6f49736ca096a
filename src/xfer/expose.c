/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Block lists of a leg. The passive side checks, keeps and sends them. The active side
 * checks a received list against its map and notifies its caller.
 */

#include "xfer/expose.h"

#include "base/abi.h"
#include "message/message.h"
#include "plan/blocks.h"
#include "xfer/owner.h"
#include "xfer/trace.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "block lists are sent as they lie in memory");

static uint32_t mkv_expose_mode(const mkv_leg_t *leg)
{
    return (uint32_t)leg->xfer->mode |
           ((leg->map->flags & MKV_MAP_TOKENS) ? MKV_EXPOSE_TOKENS : 0);
}

/* ---- Exposing, passive side ------------------------------------------------------ */

/* Copy units with room for num_ids ids behind them: one block */
static mkv_units_t *mkv_units_alloc(uint32_t num_units, uint64_t num_ids,
                                    uint32_t **expect_p, uint32_t **ids_p)
{
    mkv_units_t *units = malloc(num_units * (sizeof(*units) + sizeof(**expect_p)) +
                                num_ids * sizeof(**ids_p) + 1);

    if (units != NULL) {
        *expect_p = (uint32_t *)(units + num_units);
        *ids_p = *expect_p + num_units;
    }
    return units;
}

static uint32_t mkv_leg_expects(const mkv_leg_t *leg, const mkv_units_t *units)
{
    const mkv_map_component_t *component =
        mkv_map_component(leg->map, units->component);
    const mkv_xfer_t *xfer = leg->xfer;
    size_t i;

    if ((component == NULL) || (component->num_pairs == 0)) {
        return 0; /* this source sends no units */
    }

    for (i = 0; i < xfer->num_expect; ++i) {
        if (xfer->expect[i].component == units->component) {
            return xfer->expect[i].num_units;
        }
    }
    return units->num_local;
}

static mkv_status_t mkv_expose_check(mkv_leg_t *leg, const mkv_units_t *units,
                                     size_t num_units)
{
    const mkv_log_t *log = &leg->xfer->ctx->log;
    const mkv_map_component_t *component;
    uint64_t seen = 0;
    size_t i, j;

    for (i = 0; i < num_units; ++i) {
        component = mkv_map_component(leg->map, units[i].component);
        if (component == NULL) {
            return mkv_error(log, MKV_ERR_PAIRING,
                             "expose: the map of leg %u has no component %u",
                             leg->index, units[i].component);
        }
        if ((units[i].num_local > 0) && (units[i].local == NULL)) {
            return mkv_error(log, MKV_ERR_INVALID,
                             "expose: component %u: no block list", units[i].component);
        }
        if (seen & (1ull << units[i].component)) {
            return mkv_error(log, MKV_ERR_DUPLICATE,
                             "expose: component %u occurs twice", units[i].component);
        }
        seen |= 1ull << units[i].component;
        j = mkv_blocks_find_outside(units[i].local, units[i].num_local,
                                    component->local_units);
        if (j < units[i].num_local) {
            return mkv_error(log, MKV_ERR_BOUNDS,
                             "expose: component %u: block %u at position %zu, the "
                             "regions have %llu; expected below that",
                             units[i].component, units[i].local[j], j,
                             (unsigned long long)component->local_units);
        }
    }
    return MKV_OK;
}

static mkv_status_t mkv_expose_keep(mkv_leg_t *leg, const mkv_units_t *units,
                                    size_t num_units)
{
    uint64_t num_ids = 0;
    uint32_t *ids;
    size_t i;

    for (i = 0; i < num_units; ++i) {
        num_ids += units[i].num_local;
    }
    leg->units = mkv_units_alloc((uint32_t)num_units, num_ids, &leg->expect, &ids);
    if (leg->units == NULL) {
        return mkv_error(&leg->xfer->ctx->log, MKV_ERR_NOMEM,
                         "no memory for %llu blocks", (unsigned long long)num_ids);
    }

    leg->num_units = (uint32_t)num_units;
    for (i = 0; i < num_units; ++i) {
        leg->units[i] = units[i];
        leg->units[i].local = ids;
        leg->units[i].remote = NULL;
        leg->units[i].num_remote = 0;
        leg->expect[i] = mkv_leg_expects(leg, &units[i]);
        if (units[i].num_local > 0) {
            memcpy(ids, units[i].local, units[i].num_local * sizeof(*ids));
        }
        ids += units[i].num_local;
    }
    return MKV_OK;
}

/* Keep the blocks, and encode the message that shows them */
static mkv_status_t mkv_leg_prepare_expose(mkv_leg_t *leg, const mkv_units_t *units,
                                           size_t num_units, const void *meta,
                                           size_t meta_length, mkv_list_t *packets)
{
    mkv_msg_t msg = {.type = MKV_MSG_EXPOSE,
                     .mode = mkv_expose_mode(leg),
                     .num_units = (uint32_t)num_units,
                     .data = meta,
                     .length = meta_length};
    mkv_status_t status = mkv_expose_keep(leg, units, num_units);
    size_t i;

    for (i = 0; (status == MKV_OK) && (i < num_units); ++i) {
        msg.units[i].component = units[i].component;
        msg.units[i].expect = leg->expect[i];
        msg.units[i].num = units[i].num_local;
        msg.units[i].ids = (const uint8_t *)leg->units[i].local;
    }
    return (status == MKV_OK) ? mkv_leg_prepare(leg, &msg, packets) : status;
}

static void mkv_leg_end_expose(mkv_leg_t *leg, mkv_status_t status)
{
    if (status == MKV_OK) {
        mkv_xfer_stamp(leg->xfer, MKV_TIME_EXPOSED);
        (void)mkv_leg_take(leg, MKV_LEG_EXPOSE);
    } else {
        free(leg->units);
        leg->units = NULL;
        leg->num_units = 0;
    }
}

/* No leg is exposed before the messages of all of them are made */
static mkv_status_t mkv_legs_expose(mkv_xfer_t *xfer, uint32_t first, uint32_t last,
                                    const mkv_units_t *units, size_t num_units,
                                    const void *meta, size_t meta_length)
{
    mkv_status_t status = MKV_OK;
    mkv_list_t packets;
    uint32_t i;

    mkv_list_init(&packets);
    for (i = first; (status == MKV_OK) && (i < last); ++i) {
        if (!mkv_leg_is_left_out(&xfer->legs[i], last - first)) {
            status = mkv_leg_prepare_expose(&xfer->legs[i], units, num_units, meta,
                                            meta_length, &packets);
        }
    }
    if (status == MKV_OK) {
        mkv_messages_send_prepared(&packets);
    }
    mkv_packets_cleanup(&packets);
    for (i = first; i < last; ++i) {
        if (!mkv_leg_is_left_out(&xfer->legs[i], last - first)) {
            mkv_leg_end_expose(&xfer->legs[i], status);
        }
    }
    if (xfer->legs[first].units == NULL) {
        mkv_owners_return(&xfer->legs[first], units, num_units);
    }
    return status;
}

static mkv_status_t mkv_xfer_expose_check(mkv_xfer_t *xfer, uint32_t first,
                                          uint32_t last, const mkv_units_t *units,
                                          size_t num_units)
{
    const mkv_log_t *log = &xfer->ctx->log;
    mkv_status_t status;
    uint32_t i;

    if (xfer->is_active) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "expose: transfer %llu is the active side, the %s; expected "
                         "the call on the other side",
                         (unsigned long long)xfer->id,
                         (xfer->mode == MKV_WRITE) ? "source of a WRITE"
                                                   : "destination of a READ");
    }
    if (last > xfer->num_legs) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "expose: leg %u, expected below %u, or MKV_LEG_ALL", first,
                         xfer->num_legs);
    }
    if (num_units > MKV_MAX_COMPONENTS) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "expose: %zu components, expected at most %u", num_units,
                         MKV_MAX_COMPONENTS);
    }
    if (mkv_xfer_is_terminal(xfer)) {
        return mkv_error(log, (xfer->status == MKV_OK) ? MKV_ERR_INVALID : xfer->status,
                         "the transfer has ended: %s", xfer->error);
    }
    status = mkv_units_check_reserved(log, units, num_units);
    if (status != MKV_OK) {
        return status;
    }
    for (i = first; i < last; ++i) {
        if (mkv_leg_is_left_out(&xfer->legs[i], last - first)) {
            continue;
        }
        if (xfer->legs[i].status < MKV_OK) {
            return mkv_leg_error(&xfer->legs[i]);
        }
        if (xfer->legs[i].state != MKV_LEG_WAITING) {
            return mkv_error(log, MKV_ERR_DUPLICATE,
                             "leg %u is exposed already; one list a leg is expected",
                             i);
        }
        status = mkv_expose_check(&xfer->legs[i], units, num_units);
        if (status != MKV_OK) {
            return status;
        }
    }
    /* legs exposed together show the same blocks: count the first one's */
    return mkv_owners_take(&xfer->legs[first], units, num_units);
}

mkv_status_t mkv_xfer_expose(mkv_xfer_t *xfer, uint32_t leg, const mkv_units_t *units,
                             size_t num_units, const void *meta, size_t meta_length)
{
    uint32_t first = (leg == MKV_LEG_ALL) ? 0 : leg;
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_status_t status;
    uint32_t last;

    MKV_HOLD(ctx, "xfer_expose", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    last = (leg == MKV_LEG_ALL) ? xfer->num_legs : leg + 1;
    status = mkv_xfer_expose_check(xfer, first, last, units, num_units);
    if (status == MKV_OK) {
        status =
            mkv_legs_expose(xfer, first, last, units, num_units, meta, meta_length);
    }
    mkv_leave(ctx);
    return status;
}

/* ---- Exposed, active side -------------------------------------------------------- */

static mkv_status_t mkv_exposed_check(const mkv_leg_t *leg, const mkv_msg_t *msg,
                                      uint64_t *num_ids_p, char *text, size_t size)
{
    const mkv_map_component_t *component;
    const mkv_wire_units_t *units;
    uint64_t seen = 0;
    uint32_t i, j;

    *num_ids_p = 0;
    if (msg->mode != mkv_expose_mode(leg)) {
        mkv_text(text, size, "one side opened it for %s%s, the other for %s%s",
                 (leg->xfer->mode == MKV_WRITE) ? "WRITE" : "READ",
                 (leg->map->flags & MKV_MAP_TOKENS) ? " of tokens" : "",
                 ((msg->mode & ~MKV_EXPOSE_TOKENS) == MKV_WRITE) ? "WRITE" : "READ",
                 (msg->mode & MKV_EXPOSE_TOKENS) ? " of tokens" : "");
        return MKV_ERR_INVALID;
    }
    for (i = 0; i < msg->num_units; ++i) {
        units = &msg->units[i];
        component = mkv_map_component(leg->map, units->component);
        if ((component == NULL) || (seen & (1ull << units->component))) {
            mkv_text(text, size, "component %u is exposed, but %s", units->component,
                     (component == NULL) ? "not in the other side's map" : "twice");
            return MKV_ERR_PAIRING;
        }
        seen |= 1ull << units->component;
        for (j = 0; j < units->num; ++j) {
            if (mkv_wire_word(units->ids, j) >= component->remote_units) {
                mkv_text(
                    text, size,
                    "component %u: block %u at position %u is exposed, the regions "
                    "have %llu",
                    units->component, mkv_wire_word(units->ids, j), j,
                    (unsigned long long)component->remote_units);
                return MKV_ERR_BOUNDS;
            }
        }
        *num_ids_p += units->num;
    }
    return MKV_OK;
}

/* Index the exposed blocks; posts are compared with it */
static int mkv_exposed_index(mkv_leg_t *leg, uint32_t index)
{
    const mkv_units_t *units = &leg->units[index];
    const mkv_map_t *map = leg->map;
    uint32_t parts, i;

    parts = mkv_map_parts(
        map, (uint32_t)(mkv_map_component(map, units->component) - map->components),
        true);
    leg->sums[index] = mkv_units_sum(units->remote, units->num_remote, parts);
    for (i = 0; i < units->num_remote; ++i) {
        if (mkv_unit_set_add(&leg->sets[index], units->remote[i] * parts, parts) != 0) {
            return -1;
        }
    }
    return 0;
}

static mkv_status_t mkv_exposed_keep(mkv_leg_t *leg, const mkv_msg_t *msg,
                                     uint64_t num_ids)
{
    uint32_t *ids;
    uint32_t i;

    leg->units = mkv_units_alloc(msg->num_units, num_ids, &leg->expect, &ids);
    leg->meta = malloc(msg->length + 1);
    leg->sets = calloc(msg->num_units + 1, sizeof(*leg->sets) + sizeof(*leg->sums));
    if ((leg->units == NULL) || (leg->meta == NULL) || (leg->sets == NULL)) {
        return MKV_ERR_NOMEM;
    }

    leg->sums = (uint64_t *)(leg->sets + msg->num_units + 1);
    leg->num_units = msg->num_units;
    leg->meta_length = msg->length;
    if (msg->length > 0) {
        memcpy(leg->meta, msg->data, msg->length);
    }
    for (i = 0; i < msg->num_units; ++i) {
        leg->units[i] = (mkv_units_t){.component = msg->units[i].component,
                                      .num_remote = msg->units[i].num,
                                      .remote = ids};
        leg->expect[i] = msg->units[i].expect;
        if (msg->units[i].num > 0) {
            memcpy(ids, msg->units[i].ids, msg->units[i].num * sizeof(*ids));
        }
        if (mkv_exposed_index(leg, i) != 0) {
            return MKV_ERR_NOMEM;
        }
        ids += msg->units[i].num;
    }
    return MKV_OK;
}

void mkv_leg_exposed(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    mkv_msg_t bind = {.type = MKV_MSG_BIND};
    mkv_xfer_t *xfer = leg->xfer;
    char text[160] = "no memory for the block list";
    mkv_status_t status;
    mkv_news_t *event;
    uint64_t num_ids;

    leg->remote_nonce = msg->from_nonce;
    status = mkv_exposed_check(leg, msg, &num_ids, text, sizeof(text));
    if (status == MKV_OK) {
        status = mkv_exposed_keep(leg, msg, num_ids);
    }
    if (status != MKV_OK) {
        mkv_leg_fail(leg, status, "peer %s, leg %u: %s", leg->peer->name, leg->index,
                     text);
        return;
    }

    mkv_xfer_stamp(xfer, MKV_TIME_EXPOSED);
    (void)mkv_leg_take(leg, MKV_LEG_EXPOSE);
    (void)mkv_leg_take(leg, MKV_LEG_BIND);
    mkv_leg_send_or_fail(leg, &bind);
    event = mkv_event_add(xfer->ctx, MKV_EV_EXPOSED);
    if (event != NULL) {
        event->peer = leg->peer;
        event->xfer = xfer;
        event->id = xfer->id;
        event->epoch = xfer->epoch;
        event->leg = leg->index;
        event->user_data = xfer->user_data;
        event->units = leg->units;
        event->num_units = leg->num_units;
        event->data = leg->meta;
        event->length = leg->meta_length;
    }
    mkv_xfer_check_bound(xfer);
}

/* ---- Exposed units, both sides --------------------------------------------------- */

const mkv_unit_set_t *mkv_leg_exposed_set(const mkv_leg_t *leg, uint32_t component)
{
    static const mkv_unit_set_t none;
    uint32_t i;

    for (i = 0; i < leg->num_units; ++i) {
        if (leg->units[i].component == component) {
            return &leg->sets[i];
        }
    }
    return &none;
}

mkv_status_t mkv_leg_index_exposed(mkv_leg_t *leg)
{
    const mkv_map_t *map = leg->map;
    uint32_t parts, i, k;
    mkv_unit_set_t *sets;
    int result = 0;

    if (leg->sets != NULL) {
        return MKV_OK;
    }
    sets = calloc(leg->num_units + 1, sizeof(*sets));
    if (sets == NULL) {
        return MKV_ERR_NOMEM;
    }
    for (i = 0; i < leg->num_units; ++i) {
        parts =
            mkv_map_parts(map,
                          (uint32_t)(mkv_map_component(map, leg->units[i].component) -
                                     map->components),
                          false);
        for (k = 0; (result == 0) && (k < leg->units[i].num_local); ++k) {
            result = mkv_unit_set_add(&sets[i], leg->units[i].local[k] * parts, parts);
        }
    }
    if (result == 0) {
        leg->sets = sets;
        return MKV_OK;
    }
    for (i = 0; i < leg->num_units; ++i) {
        mkv_unit_set_cleanup(&sets[i]);
    }
    free(sets);
    return MKV_ERR_NOMEM;
}

const mkv_unit_set_t *mkv_leg_exposed_units(mkv_leg_t *leg, const mkv_pair_t *pair)
{
    return (mkv_leg_index_exposed(leg) == MKV_OK)
               ? mkv_leg_exposed_set(leg,
                                     leg->map->components[pair->component].component)
               : NULL;
}
