/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Blocks live in one array. Free ones are linked in a ring through a sentinel at index
 * num_blocks: next of the sentinel is the block free longest. Those with a key are
 * also in an open-addressing table, at most half full, from which entries are removed
 * by moving later ones of their chain up, so no tombstones build up over long traces.
 */

#include "perf/workload/allocator.h"
#include "perf/base/error.h"

#include <assert.h>
#include <stdlib.h>


#define PERF_SLOT_EMPTY UINT32_MAX

typedef struct perf_block {
    uint64_t key;
    uint32_t refs;
    uint32_t prev;
    uint32_t next;
} perf_block_t;

struct perf_allocator {
    uint32_t num_blocks;
    uint32_t num_free;
    uint32_t slot_mask;
    perf_block_t *blocks; /* the last one is the free ring's sentinel */
    uint32_t *slots;      /* block number, or PERF_SLOT_EMPTY */
};


static uint32_t perf_slot_home(const perf_allocator_t *allocator, uint64_t key)
{
    return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
           allocator->slot_mask;
}

/* The slot that holds the key, or the empty one where it would go. */
static uint32_t perf_slot_find(const perf_allocator_t *allocator, uint64_t key)
{
    uint32_t slot = perf_slot_home(allocator, key);

    while ((allocator->slots[slot] != PERF_SLOT_EMPTY) &&
           (allocator->blocks[allocator->slots[slot]].key != key)) {
        slot = (slot + 1) & allocator->slot_mask;
    }
    return slot;
}

static void perf_slot_remove(perf_allocator_t *allocator, uint32_t hole)
{
    uint32_t slot = hole, home;

    for (;;) {
        slot = (slot + 1) & allocator->slot_mask;
        if (allocator->slots[slot] == PERF_SLOT_EMPTY) {
            break;
        }
        home = perf_slot_home(allocator, allocator->blocks[allocator->slots[slot]].key);
        /* an entry may move up only if the hole is not before its home */
        if (((slot - home) & allocator->slot_mask) >=
            ((slot - hole) & allocator->slot_mask)) {
            allocator->slots[hole] = allocator->slots[slot];
            hole = slot;
        }
    }
    allocator->slots[hole] = PERF_SLOT_EMPTY;
}

static void perf_block_forget(perf_allocator_t *allocator, uint32_t block)
{
    uint64_t key = allocator->blocks[block].key;
    uint32_t slot;

    if (key != 0) {
        slot = perf_slot_find(allocator, key);
        if (allocator->slots[slot] == block) { /* else an equal one came first */
            perf_slot_remove(allocator, slot);
        }
        allocator->blocks[block].key = 0;
    }
}

static void perf_block_learn(perf_allocator_t *allocator, uint32_t block, uint64_t key)
{
    uint32_t slot;

    allocator->blocks[block].key = key;
    if (key != 0) {
        slot = perf_slot_find(allocator, key);
        if (allocator->slots[slot] == PERF_SLOT_EMPTY) {
            allocator->slots[slot] = block;
        }
    }
}

static void perf_free_unlink(perf_allocator_t *allocator, uint32_t block)
{
    perf_block_t *b = &allocator->blocks[block];

    allocator->blocks[b->prev].next = b->next;
    allocator->blocks[b->next].prev = b->prev;
    --allocator->num_free;
}

static void perf_free_append(perf_allocator_t *allocator, uint32_t block)
{
    perf_block_t *sentinel = &allocator->blocks[allocator->num_blocks];
    perf_block_t *b = &allocator->blocks[block];

    b->prev = sentinel->prev;
    b->next = allocator->num_blocks;
    allocator->blocks[sentinel->prev].next = block;
    sentinel->prev = block;
    ++allocator->num_free;
}

static void perf_block_hold(perf_allocator_t *allocator, uint32_t block)
{
    if (allocator->blocks[block].refs++ == 0) {
        perf_free_unlink(allocator, block);
    }
}

/* How many first keys are in the pool; counts those of them that are free now. */
static uint32_t perf_allocator_match(const perf_allocator_t *allocator,
                                     const uint64_t *keys, uint32_t num_keys,
                                     uint32_t *blocks, uint32_t *num_free_p)
{
    uint32_t i, block, num_free = 0;

    for (i = 0; (i < num_keys) && (keys[i] != 0); ++i) {
        block = allocator->slots[perf_slot_find(allocator, keys[i])];
        if (block == PERF_SLOT_EMPTY) {
            break;
        }
        num_free += (allocator->blocks[block].refs == 0);
        blocks[i] = block;
    }
    *num_free_p = num_free;
    return i;
}

int perf_allocator_get(perf_allocator_t *allocator, const uint64_t *keys,
                       uint32_t num_keys, uint32_t *blocks, uint32_t *num_shared_p)
{
    uint32_t i, num_shared, num_shared_free;

    num_shared =
        perf_allocator_match(allocator, keys, num_keys, blocks, &num_shared_free);
    if ((num_keys - num_shared) > (allocator->num_free - num_shared_free)) {
        return -1;
    }

    /* all shared ones first, or taking new ones could evict them */
    for (i = 0; i < num_shared; ++i) {
        perf_block_hold(allocator, blocks[i]);
    }
    for (; i < num_keys; ++i) {
        blocks[i] = allocator->blocks[allocator->num_blocks].next;
        perf_block_hold(allocator, blocks[i]);
        perf_block_forget(allocator, blocks[i]);
        perf_block_learn(allocator, blocks[i], keys[i]);
    }

    *num_shared_p = num_shared;
    return 0;
}

void perf_allocator_put(perf_allocator_t *allocator, const uint32_t *blocks,
                        uint32_t num_blocks)
{
    uint32_t i;

    for (i = num_blocks; i > 0; --i) {
        assert(blocks[i - 1] < allocator->num_blocks);
        assert(allocator->blocks[blocks[i - 1]].refs > 0);
        if (--allocator->blocks[blocks[i - 1]].refs == 0) {
            perf_free_append(allocator, blocks[i - 1]);
        }
    }
}

uint32_t perf_allocator_num_free(const perf_allocator_t *allocator)
{
    return allocator->num_free;
}

uint64_t perf_allocator_key(const perf_allocator_t *allocator, uint32_t block)
{
    return allocator->blocks[block].key;
}

int perf_allocator_create(uint32_t num_blocks, perf_allocator_t **allocator_p)
{
    perf_allocator_t *allocator;
    uint32_t i, num_slots = 2;

    if ((num_blocks == 0) || (num_blocks > (UINT32_C(1) << 30))) {
        perf_error("pool of %u blocks; expected 1 to %u", num_blocks,
                   UINT32_C(1) << 30);
        return -1;
    }

    while (num_slots < 2 * num_blocks) {
        num_slots *= 2;
    }

    allocator = calloc(1, sizeof(*allocator));
    if (allocator == NULL) {
        goto err;
    }

    allocator->num_blocks = num_blocks;
    allocator->slot_mask = num_slots - 1;
    allocator->blocks = calloc((size_t)num_blocks + 1, sizeof(*allocator->blocks));
    allocator->slots = malloc(num_slots * sizeof(*allocator->slots));
    if ((allocator->blocks == NULL) || (allocator->slots == NULL)) {
        goto err_destroy;
    }

    for (i = 0; i < num_slots; ++i) {
        allocator->slots[i] = PERF_SLOT_EMPTY;
    }
    allocator->blocks[num_blocks].prev = allocator->blocks[num_blocks].next =
        num_blocks;
    for (i = 0; i < num_blocks; ++i) {
        perf_free_append(allocator, i);
    }

    *allocator_p = allocator;
    return 0;

err_destroy:
    perf_allocator_destroy(allocator);
err:
    perf_error("failed to allocate the tables of a pool of %u blocks", num_blocks);
    return -1;
}

void perf_allocator_destroy(perf_allocator_t *allocator)
{
    free(allocator->slots);
    free(allocator->blocks);
    free(allocator);
}
