/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_NUMBER_TABLE_H
#define MKV_NUMBER_TABLE_H

/**
 * @file
 * Objects by a number of 64 bits, in constant time. Zeroes are an empty table. The
 * caller owns the objects and sees to the locking.
 */

#include "morikv.h"

#include <stdbool.h>

typedef struct mkv_table_slot {
    uint64_t key;
    void *value; /**< NULL: free */
} mkv_table_slot_t;

typedef struct mkv_table {
    mkv_table_slot_t *slots;
    size_t num_slots; /**< A power of 2, or 0 */
    size_t count;
} mkv_table_t;

/** @return NULL: there is none. */
void *mkv_table_find(const mkv_table_t *table, uint64_t key);

/**
 * @param [in] value  Must not be NULL.
 *
 * @return MKV_OK, MKV_ERR_DUPLICATE: the key is there, MKV_ERR_NOMEM.
 */
mkv_status_t mkv_table_add(mkv_table_t *table, uint64_t key, void *value);

/** Harmless if it is not there. */
void mkv_table_remove(mkv_table_t *table, uint64_t key);

void mkv_table_cleanup(mkv_table_t *table);

/** Slots that a search for the key looks at. */
size_t mkv_table_distance(const mkv_table_t *table, uint64_t key);

#endif
