/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_ranks.h"
#include "test/support/mkv_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_UNTOUCHED 0xee
#define RANKS_MAX_ELEMENTS 512u

#define RANKS_OK(_call)                                                                \
    do {                                                                               \
        mkv_status_t _status = (_call);                                                \
        MKV_REQUIRE(_status == MKV_OK, #_call ": %s, %s", mkv_status_string(_status),  \
                    mkv_last_error());                                                 \
    } while (0)

/* ---- Contents of a rank ---------------------------------------------------------- */

/* A unit of a part as one rank has it */
typedef struct ranks_unit {
    uint32_t tokens, num;                  /* at least 1; elements here */
    uint32_t elements[RANKS_MAX_ELEMENTS]; /* of the whole axis, in their order here */
    size_t bytes, stride;
    bool is_heads_first, is_reverse;
} ranks_unit_t;

/* Numbers with gaps, so that none can pass for an index */
static uint32_t ranks_component(uint32_t index)
{
    return 3 * index + 2;
}

static uint32_t ranks_index(uint32_t component)
{
    return (component - 2) / 3;
}

static unsigned ranks_flags(const ranks_part_t *part, int side)
{
    return part->flags | part->side_flags[side];
}

static bool ranks_holds(unsigned flags, uint32_t all, uint32_t element, uint32_t rank,
                        uint32_t num)
{
    if (flags & MKV_REGION_REPLICATED) {
        return true;
    }
    return (num <= all) ? (element * num / all == rank) : (rank * all / num == element);
}

static ranks_unit_t ranks_unit(const ranks_part_t *part, const ranks_rank_t *rank)
{
    uint32_t num_groups = (part->num_groups == 0) ? 1 : part->num_groups;
    unsigned flags = ranks_flags(part, rank->set->side);
    uint32_t tokens = part->tokens[rank->set->side], before = 0, all, i, k;
    ranks_unit_t unit = {.tokens = (tokens == 0) ? 1 : tokens,
                         .is_heads_first = (flags & MKV_REGION_HEADS_FIRST) != 0,
                         .is_reverse = (flags & MKV_REGION_REVERSE) != 0};

    for (i = 0; i < num_groups; ++i, before += all) {
        all = (part->num_groups == 0) ? 1 : part->groups[i];
        for (k = 0; k < all; ++k) {
            if (ranks_holds(flags, all, k, rank->rank, rank->set->num)) {
                MKV_REQUIRE(unit.num < RANKS_MAX_ELEMENTS, "too many elements");
                unit.elements[unit.num++] = before + k;
            }
        }
    }
    unit.bytes = (size_t)part->outer * unit.tokens * unit.num * part->inner;
    unit.stride = unit.bytes + part->gap;
    return unit;
}

static uint8_t ranks_value(uint32_t part, uint32_t layer, uint32_t outer,
                           uint32_t token, uint32_t element, uint32_t byte)
{
    uint32_t x = part * 7919 + layer * 104729 + outer * 1299709 + token * 15485863 +
                 element * 32452843 + byte * 49979687;

    x ^= x >> 13;
    return (uint8_t)((x * 2654435761u) >> 24);
}

/* The block of a position; the two sides' tables differ */
static uint32_t ranks_block(int side, uint32_t position)
{
    return (position * 5 + 3 + 4 * (uint32_t)side) % RANKS_BLOCKS;
}

static uint32_t ranks_num_blocks(const ranks_part_t *part, int side)
{
    uint32_t tokens = (part->tokens[side] == 0) ? 1 : part->tokens[side];

    return (part->num_tokens + tokens - 1) / tokens;
}

static size_t ranks_region_bytes(const ranks_unit_t *unit)
{
    return RANKS_BLOCKS * unit->stride;
}

/* Fill a rank's memory of one layer with the tensor's values. */
static void ranks_fill_layer(const ranks_rank_t *rank, uint32_t index, uint32_t layer,
                             uint8_t *base)
{
    const ranks_part_t *part = &rank->set->parts[index];
    ranks_unit_t unit = ranks_unit(part, rank);
    uint32_t token, outer, i, byte, block;
    uint8_t *at;

    for (token = 0; token < part->num_tokens; ++token) {
        block = ranks_block(rank->set->side, token / unit.tokens);
        block = unit.is_reverse ? RANKS_BLOCKS - 1 - block : block;
        for (outer = 0; outer < part->outer; ++outer) {
            for (i = 0; i < unit.num; ++i) {
                at = base + block * unit.stride +
                     (unit.is_heads_first
                          ? ((outer * unit.num + i) * unit.tokens + token % unit.tokens)
                          : ((outer * unit.tokens + token % unit.tokens) * unit.num +
                             i)) *
                         (size_t)part->inner;
                for (byte = 0; byte < part->inner; ++byte) {
                    at[byte] =
                        ranks_value(index, layer, outer, token, unit.elements[i], byte);
                }
            }
        }
    }
}

static void ranks_fill(const ranks_rank_t *rank, uint8_t *mem)
{
    uint32_t index, layer;
    ranks_unit_t unit;

    for (index = 0; index < rank->set->num_parts; ++index) {
        unit = ranks_unit(&rank->set->parts[index], rank);
        for (layer = 0; layer < RANKS_LAYERS; ++layer) {
            ranks_fill_layer(rank, index, layer, mem);
            mem += ranks_region_bytes(&unit);
        }
    }
}

/* ---- Opening --------------------------------------------------------------------- */

/* The layers of a part */
static void ranks_add_part(ranks_rank_t *rank, uint32_t index, uint8_t *at)
{
    const ranks_part_t *part = &rank->set->parts[index];
    ranks_unit_t unit = ranks_unit(part, rank);
    mkv_region_t region = {.size = sizeof(region),
                           .component = ranks_component(index),
                           .flags = (uint16_t)ranks_flags(part, rank->set->side),
                           .length = ranks_region_bytes(&unit),
                           .unit_bytes = unit.bytes,
                           .unit_stride = unit.stride,
                           .n_units = RANKS_BLOCKS,
                           .mem_type = (rank->set->gpu != NULL) ? UCS_MEMORY_TYPE_ROCM
                                                                : UCS_MEMORY_TYPE_HOST,
                           .tokens_per_unit = part->tokens[rank->set->side],
                           .outer = part->outer,
                           .inner_bytes = part->inner,
                           .num_groups = part->num_groups,
                           .alloc_base = rank->mem,
                           .alloc_length = rank->length};
    mkv_region_id_t id;
    uint32_t layer;

    memcpy(region.groups, part->groups, sizeof(region.groups));
    for (layer = 0; layer < RANKS_LAYERS; ++layer, at += region.length) {
        region.layer = (int32_t)layer;
        region.base = at;
        RANKS_OK(mkv_region_add(rank->ctx, &region, &id));
    }
}

/* A source's components in the order of their numbers, a destination's in reverse */
static void ranks_add_regions(ranks_rank_t *rank)
{
    bool is_reverse = (rank->set->side == RANKS_DST);
    uint8_t *at = rank->mem + (is_reverse ? rank->length : 0);
    uint32_t i, index;
    ranks_unit_t unit;
    size_t length;

    for (i = 0; i < rank->set->num_parts; ++i) {
        index = is_reverse ? rank->set->num_parts - 1 - i : i;
        unit = ranks_unit(&rank->set->parts[index], rank);
        length = RANKS_LAYERS * ranks_region_bytes(&unit);
        at -= is_reverse ? length : 0;
        ranks_add_part(rank, index, at);
        at += is_reverse ? 0 : length;
    }
    RANKS_OK(mkv_regions_commit(rank->ctx, NULL));
}

static void ranks_copy(const ranks_rank_t *rank, void *to, const void *from,
                       size_t length)
{
    if (rank->set->gpu == NULL) {
        memcpy(to, from, length);
    } else {
        MKV_REQUIRE(rank->set->gpu->copy(to, from, length), "no copy");
    }
}

static void ranks_alloc(ranks_rank_t *rank)
{
    const ranks_gpu_t *gpu = rank->set->gpu;
    uint8_t *contents = malloc(rank->length);

    MKV_REQUIRE(contents != NULL, "no memory");
    memset(contents, RANKS_UNTOUCHED, rank->length);
    if (rank->set->side == RANKS_SRC) {
        ranks_fill(rank, contents);
    }
    rank->mem = (gpu != NULL) ? gpu->alloc(rank->length) : malloc(rank->length);
    MKV_REQUIRE(rank->mem != NULL, "no memory");
    ranks_copy(rank, rank->mem, contents, rank->length);
    free(contents);
}

static void ranks_open_one(ranks_set_t *set, uint32_t index)
{
    mkv_open_params_t params = {.size = sizeof(params),
                                .topology = {.tp_rank = index, .tp_size = set->num}};
    ranks_rank_t *rank = &set->ranks[index];
    ranks_unit_t unit;
    char name[16];
    uint32_t i;

    memset(rank, 0, sizeof(*rank));
    rank->set = set;
    rank->rank = index;
    snprintf(name, sizeof(name), "%c%u", (set->side == RANKS_SRC) ? 's' : 'd', index);
    params.name = name;
    RANKS_OK(mkv_open(NULL, &params, &rank->ctx));
    for (i = 0; i < set->num_parts; ++i) {
        unit = ranks_unit(&set->parts[i], rank);
        rank->length += RANKS_LAYERS * ranks_region_bytes(&unit);
    }
    ranks_alloc(rank);
    ranks_add_regions(rank);
}

void ranks_open(ranks_set_t *set)
{
    uint32_t i;

    for (i = 0; i < set->num; ++i) {
        ranks_open_one(set, i);
    }
}

size_t ranks_blobs(ranks_set_t *set, void *buffer, size_t size)
{
    size_t at = 0, length;
    uint32_t i;

    for (i = 0; i < set->num; ++i) {
        MKV_REQUIRE(size - at > sizeof(length), "no room for a blob");
        length = size - at - sizeof(length);
        RANKS_OK(mkv_blob(set->ranks[i].ctx, MKV_BLOB_ADDR,
                          (char *)buffer + at + sizeof(length), &length));
        memcpy((char *)buffer + at, &length, sizeof(length));
        at += sizeof(length) + length;
    }
    return at;
}

void ranks_connect(ranks_set_t *set, const void *blobs, size_t size)
{
    mkv_peer_t *peer;
    size_t at, length;
    uint32_t i;

    for (i = 0; i < set->num; ++i) {
        for (at = 0; at < size; at += sizeof(length) + length) {
            memcpy(&length, (const char *)blobs + at, sizeof(length));
            RANKS_OK(mkv_peer_add(set->ranks[i].ctx,
                                  (const char *)blobs + at + sizeof(length), length,
                                  NULL, &peer));
        }
    }
}

/* ---- Moving ---------------------------------------------------------------------- */

static bool ranks_is_active(const ranks_set_t *set)
{
    return (set->mode == MKV_WRITE) == (set->side == RANKS_SRC);
}

/* Ids of the request's blocks, or with MKV_MAP_TOKENS of its tokens */
static uint32_t ranks_list(const ranks_set_t *set, uint32_t index, int side,
                           uint32_t *ids)
{
    const ranks_part_t *part = &set->parts[index];
    uint32_t tokens = (part->tokens[side] == 0) ? 1 : part->tokens[side], i;

    if (!(set->map_flags & MKV_MAP_TOKENS)) {
        for (i = 0; i < ranks_num_blocks(part, side); ++i) {
            ids[i] = ranks_block(side, i);
        }
        return i;
    }
    for (i = 0; i < part->num_tokens; ++i) {
        ids[i] = ranks_block(side, i / tokens) * tokens + i % tokens;
    }
    return i;
}

static void ranks_post(ranks_rank_t *rank, const mkv_event_t *event)
{
    uint32_t ids[RANKS_MAX][256];
    mkv_units_t units[RANKS_MAX];
    uint32_t i;

    MKV_REQUIRE(event->num_units == rank->set->num_parts, "%zu components are exposed",
                event->num_units);
    for (i = 0; i < event->num_units; ++i) {
        units[i] = event->units[i];
        units[i].num_local = ranks_list(rank->set, ranks_index(units[i].component),
                                        rank->set->side, ids[i]);
        units[i].local = ids[i];
    }
    RANKS_OK(mkv_plan_create(rank->maps[event->leg], units, event->num_units, 0,
                             &rank->plans[event->leg]));
    RANKS_OK(
        mkv_xfer_post(rank->xfer, event->leg, rank->plans[event->leg], NULL, NULL));
    RANKS_OK(mkv_xfer_seal(rank->xfer, event->leg));
}

static void ranks_handle(ranks_rank_t *rank, const mkv_event_t *event)
{
    mkv_peer_attr_t attr = {.size = sizeof(attr)};

    switch (event->type) {
    case MKV_EV_PEER_READY:
        RANKS_OK(mkv_peer_query(event->peer, &attr));
        rank->peers[atoi(attr.name + 1)] = event->peer;
        break;
    case MKV_EV_EXPOSED:
        ranks_post(rank, event);
        break;
    case MKV_EV_DONE:
        rank->is_done = true;
        break;
    case MKV_EV_QUIET:
        rank->is_quiet = true;
        break;
    case MKV_EV_FAILED:
    case MKV_EV_ABORTED:
    case MKV_EV_PEER_FAILED:
        MKV_REQUIRE(false, "%s: %s", mkv_event_string(event->type), event->text);
        break;
    default:
        break;
    }
}

bool ranks_step(ranks_set_t *set)
{
    bool has_moved = false;
    mkv_event_t event;
    size_t count;
    uint32_t i;

    for (i = 0; i < set->num; ++i) {
        has_moved |= (mkv_progress(set->ranks[i].ctx) > 0);
        RANKS_OK(mkv_poll(set->ranks[i].ctx, &event, sizeof(event), 1, &count));
        if (count > 0) {
            ranks_handle(&set->ranks[i], &event);
            has_moved = true;
        }
    }
    return has_moved;
}

bool ranks_are_connected(const ranks_set_t *set)
{
    uint32_t i, k;

    for (i = 0; i < set->num; ++i) {
        for (k = 0; k < set->num_others; ++k) {
            if (set->ranks[i].peers[k] == NULL) {
                return false;
            }
        }
    }
    return true;
}

static void ranks_expose(ranks_rank_t *rank)
{
    uint32_t ids[RANKS_MAX][256];
    mkv_units_t units[RANKS_MAX] = {{0}};
    uint32_t i;

    for (i = 0; i < rank->set->num_parts; ++i) {
        units[i].component = ranks_component(i);
        units[i].num_local = ranks_list(rank->set, i, rank->set->side, ids[i]);
        units[i].local = ids[i];
    }
    RANKS_OK(
        mkv_xfer_expose(rank->xfer, MKV_LEG_ALL, units, rank->set->num_parts, NULL, 0));
}

void ranks_start(ranks_set_t *set)
{
    mkv_map_params_t map = {.size = sizeof(map), .flags = set->map_flags};
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1,
                                .mode = set->mode,
                                .role = (set->side == RANKS_SRC) ? MKV_SRC : MKV_DST,
                                .num_legs = set->num_others};
    uint32_t i, k;

    if (!set->is_two_way) {
        map.flags |= (set->side == RANKS_SRC) ? MKV_MAP_SRC : MKV_MAP_DST;
    }
    for (i = 0; i < set->num; ++i) {
        for (k = 0; k < set->num_others; ++k) {
            RANKS_OK(
                mkv_map_create(set->ranks[i].peers[k], &map, &set->ranks[i].maps[k]));
        }
        params.legs = set->ranks[i].maps;
        RANKS_OK(mkv_xfer_open(set->ranks[i].ctx, &params, &set->ranks[i].xfer));
        if (!ranks_is_active(set)) {
            ranks_expose(&set->ranks[i]);
        }
    }
}

bool ranks_are_quiet(const ranks_set_t *set)
{
    uint32_t i;

    for (i = 0; i < set->num; ++i) {
        if (!set->ranks[i].is_done || !set->ranks[i].is_quiet) {
            return false;
        }
    }
    return true;
}

/* ---- Checking -------------------------------------------------------------------- */

static bool ranks_is_right(const ranks_rank_t *rank, char *text, size_t size)
{
    uint8_t *wanted = malloc(2 * rank->length);
    uint8_t *found = wanted + rank->length;
    size_t i = 0;

    MKV_REQUIRE(wanted != NULL, "no memory");
    ranks_copy(rank, found, rank->mem, rank->length);
    memset(wanted, RANKS_UNTOUCHED, rank->length);
    ranks_fill(rank, wanted);
    while ((i < rank->length) && (found[i] == wanted[i])) {
        ++i;
    }
    if (i < rank->length) {
        snprintf(text, size, "rank %u of %u: byte %zu of %zu is %u, expected %u",
                 rank->rank, rank->set->num, i, rank->length, found[i], wanted[i]);
    }
    free(wanted);
    return i == rank->length;
}

bool ranks_are_right(const ranks_set_t *set, char *text, size_t size)
{
    uint32_t i;

    for (i = 0; i < set->num; ++i) {
        if (!ranks_is_right(&set->ranks[i], text, size)) {
            return false;
        }
    }
    return true;
}

void ranks_spoil(const ranks_set_t *set)
{
    const ranks_rank_t *rank = &set->ranks[set->num - 1];
    uint8_t byte;

    ranks_copy(rank, &byte, &rank->mem[rank->length / 2], 1);
    byte ^= 1;
    ranks_copy(rank, &rank->mem[rank->length / 2], &byte, 1);
}

void ranks_check_maps(const ranks_set_t *set)
{
    mkv_map_attr_t attr = {.size = sizeof(attr)};
    uint64_t moved[RANKS_MAX], parts;
    uint32_t sources[RANKS_MAX], wanted[RANKS_MAX], i, k, c;
    uint64_t bytes[RANKS_MAX];

    for (i = 0; (set->side == RANKS_DST) && (i < set->num); ++i) {
        memset(moved, 0, sizeof(moved));
        memset(sources, 0, sizeof(sources));
        for (k = 0; k < set->num_others; ++k) {
            RANKS_OK(mkv_map_query(set->ranks[i].maps[k], &attr));
            MKV_REQUIRE(attr.num_components == set->num_parts, "%u components of %u",
                        attr.num_components, set->num_parts);
            for (c = 0; c < attr.num_components; ++c) {
                MKV_REQUIRE(attr.components[c].component == ranks_component(c),
                            "component %u is told as number %u",
                            attr.components[c].component, c);
                parts = (set->map_flags & MKV_MAP_TOKENS) ? set->parts[c].tokens[1] : 1;
                moved[c] +=
                    attr.components[c].bytes_per_unit * ((parts == 0) ? 1 : parts);
                sources[c] += (attr.components[c].num_pairs > 0);
                wanted[c] = attr.components[c].num_sources;
                bytes[c] = attr.components[c].dst_bytes_per_unit;
            }
        }
        for (c = 0; c < attr.num_components; ++c) {
            MKV_REQUIRE((sources[c] == wanted[c]) && (moved[c] == bytes[c]),
                        "component %u: %u sources of %u, %llu bytes of %llu", c,
                        sources[c], wanted[c], (unsigned long long)moved[c],
                        (unsigned long long)bytes[c]);
        }
    }
}

uint64_t ranks_bytes(const ranks_set_t *set)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    uint64_t bytes = 0;
    uint32_t i;

    for (i = 0; i < set->num; ++i) {
        RANKS_OK(mkv_xfer_query(set->ranks[i].xfer, &attr));
        bytes += attr.bytes;
    }
    return bytes;
}

/* Tokens that move together: the smaller block, all of it */
static uint32_t ranks_grain(const ranks_set_t *set, const ranks_part_t *part)
{
    uint32_t grain =
        (part->tokens[0] < part->tokens[1]) ? part->tokens[0] : part->tokens[1];

    return ((set->map_flags & MKV_MAP_TOKENS) || (grain == 0)) ? 1 : grain;
}

uint64_t ranks_held_bytes(const ranks_set_t *set)
{
    uint64_t bytes = 0;
    ranks_unit_t unit;
    uint32_t i, k, num, grain;

    for (i = 0; i < set->num; ++i) {
        for (k = 0; k < set->num_parts; ++k) {
            unit = ranks_unit(&set->parts[k], &set->ranks[i]);
            num = set->parts[k].num_tokens;
            grain = ranks_grain(set, &set->parts[k]);
            num = (num + grain - 1) / grain * grain;
            bytes += RANKS_LAYERS * unit.bytes / unit.tokens * num;
        }
    }
    return bytes;
}

void ranks_close(ranks_set_t *set)
{
    ranks_rank_t *rank;
    uint32_t i, k;

    for (i = 0; i < set->num; ++i) {
        rank = &set->ranks[i];
        if (rank->xfer != NULL) {
            RANKS_OK(mkv_xfer_close(rank->xfer));
        }
        for (k = 0; k < set->num_others; ++k) {
            if (rank->plans[k] != NULL) {
                RANKS_OK(mkv_plan_destroy(rank->plans[k]));
            }
            if (rank->maps[k] != NULL) {
                RANKS_OK(mkv_map_destroy(rank->maps[k]));
            }
        }
    }
    for (i = 0; i < set->num; ++i) {
        RANKS_OK(mkv_close(set->ranks[i].ctx));
        if (set->gpu != NULL) {
            MKV_REQUIRE(set->gpu->free(set->ranks[i].mem), "GPU memory was not freed");
        } else {
            free(set->ranks[i].mem);
        }
    }
}
