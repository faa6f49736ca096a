/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Open addressing: a key is in the first free slot from its own one on. At most half of
 * the slots are taken, and removing closes the gap, so that searches stay short.
 */

#include "base/table.h"

#include <stdlib.h>

#define MKV_TABLE_MIN 16u

/* Names and ids are numbers close to each other, in low bits or in high ones */
static size_t mkv_table_home(const mkv_table_t *table, uint64_t key)
{
    key = (key ^ (key >> 32)) * 0x9e3779b97f4a7c15ull;
    key = (key ^ (key >> 29)) * 0x9e3779b97f4a7c15ull;
    return (size_t)(key ^ (key >> 32)) & (table->num_slots - 1);
}

static size_t mkv_table_next(const mkv_table_t *table, size_t slot)
{
    return (slot + 1) & (table->num_slots - 1);
}

/* The slot of the key, or the free one where it would be; there are some */
static size_t mkv_table_slot(const mkv_table_t *table, uint64_t key)
{
    size_t slot = mkv_table_home(table, key);

    while ((table->slots[slot].value != NULL) && (table->slots[slot].key != key)) {
        slot = mkv_table_next(table, slot);
    }
    return slot;
}

void *mkv_table_find(const mkv_table_t *table, uint64_t key)
{
    return (table->num_slots == 0) ? NULL
                                   : table->slots[mkv_table_slot(table, key)].value;
}

size_t mkv_table_distance(const mkv_table_t *table, uint64_t key)
{
    return ((mkv_table_slot(table, key) - mkv_table_home(table, key)) &
            (table->num_slots - 1)) +
           1;
}

static mkv_status_t mkv_table_grow(mkv_table_t *table)
{
    mkv_table_t grown = {.num_slots = (table->num_slots == 0) ? MKV_TABLE_MIN
                                                              : 2 * table->num_slots,
                         .count = table->count};
    size_t i;

    grown.slots = calloc(grown.num_slots, sizeof(*grown.slots));
    if (grown.slots == NULL) {
        return MKV_ERR_NOMEM;
    }
    for (i = 0; i < table->num_slots; ++i) {
        if (table->slots[i].value != NULL) {
            grown.slots[mkv_table_slot(&grown, table->slots[i].key)] = table->slots[i];
        }
    }
    free(table->slots);
    *table = grown;
    return MKV_OK;
}

mkv_status_t mkv_table_add(mkv_table_t *table, uint64_t key, void *value)
{
    mkv_status_t status = MKV_OK;
    mkv_table_slot_t *slot;

    if (2 * (table->count + 1) > table->num_slots) {
        status = mkv_table_grow(table);
    }
    if (status != MKV_OK) {
        return status;
    }
    slot = &table->slots[mkv_table_slot(table, key)];
    if (slot->value != NULL) {
        return MKV_ERR_DUPLICATE;
    }
    *slot = (mkv_table_slot_t){key, value};
    ++table->count;
    return MKV_OK;
}

/* Entries that follow without a gap may have been displaced by the removed one: add
 * them again */
void mkv_table_remove(mkv_table_t *table, uint64_t key)
{
    mkv_table_slot_t moved;
    size_t slot;

    if (mkv_table_find(table, key) == NULL) {
        return;
    }
    slot = mkv_table_slot(table, key);
    table->slots[slot].value = NULL;
    --table->count;
    for (slot = mkv_table_next(table, slot); table->slots[slot].value != NULL;
         slot = mkv_table_next(table, slot)) {
        moved = table->slots[slot];
        table->slots[slot].value = NULL;
        table->slots[mkv_table_slot(table, moved.key)] = moved;
    }
}

void mkv_table_cleanup(mkv_table_t *table)
{
    free(table->slots);
    *table = (mkv_table_t){NULL, 0, 0};
}
