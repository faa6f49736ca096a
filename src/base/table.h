/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_NUMBER_TABLE_H
#define MKV_NUMBER_TABLE_H

/**
 * @file
 * Objects by a number of 64 bits: khash of UCX. Zeroes are an empty table. The caller
 * owns the objects and serializes the calls.
 */

#include "morikv.h"

#include <ucs/datastruct/khash.h>

/* Names and ids are close to each other in low or in high bits; khash masks the low
 * ones. */
static inline khint_t mkv_table_hash(uint64_t key)
{
    key = (key ^ (key >> 32)) * 0x9e3779b97f4a7c15ull;
    return (khint_t)(key >> 32);
}

KHASH_INIT(mkv_table, uint64_t, void *, 1, mkv_table_hash, kh_int64_hash_equal)

typedef khash_t(mkv_table) mkv_table_t;

/** @return NULL: the key is not in the table. */
static inline void *mkv_table_find(const mkv_table_t *table, uint64_t key)
{
    khint_t slot = kh_get(mkv_table, table, key);

    return (slot == kh_end(table)) ? NULL : kh_value(table, slot);
}

/**
 * @param [in] value  Must not be NULL.
 *
 * @return MKV_OK, MKV_ERR_DUPLICATE: the key is in the table, MKV_ERR_NOMEM.
 */
static inline mkv_status_t mkv_table_add(mkv_table_t *table, uint64_t key, void *value)
{
    khint_t slot;
    int put;

    slot = kh_put(mkv_table, table, key, &put);
    if (put == UCS_KH_PUT_FAILED) {
        return MKV_ERR_NOMEM;
    } else if (put == UCS_KH_PUT_KEY_PRESENT) {
        return MKV_ERR_DUPLICATE;
    }
    kh_value(table, slot) = value;
    return MKV_OK;
}

/** Does nothing when the key is not in the table. */
static inline void mkv_table_remove(mkv_table_t *table, uint64_t key)
{
    khint_t slot = kh_get(mkv_table, table, key);

    if (slot != kh_end(table)) {
        kh_del(mkv_table, table, slot);
    }
}

static inline void mkv_table_cleanup(mkv_table_t *table)
{
    kh_destroy_inplace(mkv_table, table);
    kh_init_inplace(mkv_table, table);
}

#endif
