/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/memory/xgmi_key.h"

#include "base/muct_bytes.h"

#include <stdbool.h>
#include <string.h>

/* Byte layout, little endian. Bump the version with any change. */
#define MUCT_XGMI_KEY_VERSION 2

enum {
    MUCT_XGMI_KEY_AT_VERSION = 0,
    MUCT_XGMI_KEY_AT_KIND = 1,
    MUCT_XGMI_KEY_AT_DEVICE = 2,
    MUCT_XGMI_KEY_AT_SLOT = 4,
    MUCT_XGMI_KEY_AT_OWNER = 8,
    MUCT_XGMI_KEY_AT_ADDRESS = 16,
    MUCT_XGMI_KEY_AT_LENGTH = 24,
    MUCT_XGMI_KEY_AT_BASE = 32,
    MUCT_XGMI_KEY_AT_ALLOC_LENGTH = 40,
    MUCT_XGMI_KEY_AT_GENERATION = 48,
    MUCT_XGMI_KEY_AT_RESERVED = 52,
    MUCT_XGMI_KEY_AT_HANDLE = 56,
    MUCT_XGMI_KEY_AT_BUFFER_ID = 120,
    MUCT_XGMI_KEY_AT_CHECKSUM = 128,
    MUCT_XGMI_KEY_AT_END = 136
};

_Static_assert((int)MUCT_XGMI_KEY_AT_END == MUCT_XGMI_KEY_PACKED_SIZE, "key size");
_Static_assert((int)MUCT_XGMI_KEY_AT_HANDLE + MUCT_XGMI_HANDLE_SIZE ==
                   (int)MUCT_XGMI_KEY_AT_BUFFER_ID,
               "handle size");


/* 64-bit FNV-1a: any single flipped byte changes it. */
static uint64_t muct_xgmi_key_checksum(const unsigned char *p)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    size_t i;

    for (i = 0; i < MUCT_XGMI_KEY_AT_CHECKSUM; ++i) {
        sum = (sum ^ p[i]) * UINT64_C(0x100000001b3);
    }

    return sum;
}

/* Check that the registered part is inside the allocation, without overflow. */
static bool muct_xgmi_key_is_sane(const muct_xgmi_key_t *key)
{
    uint64_t offset = key->address - key->base;

    return ((key->kind == MUCT_XGMI_KEY_REMOTE) || (key->kind == MUCT_XGMI_KEY_LOCAL) ||
            (key->kind == MUCT_XGMI_KEY_FILE) ||
            (key->kind == MUCT_XGMI_KEY_PRIVATE)) &&
           (key->address >= key->base) && (offset <= key->alloc_length) &&
           (key->length <= key->alloc_length - offset) &&
           (key->base <= UINT64_MAX - key->alloc_length);
}

void muct_xgmi_key_pack(const muct_xgmi_key_t *key, void *buffer)
{
    unsigned char *p = buffer;

    memset(p, 0, MUCT_XGMI_KEY_PACKED_SIZE);
    p[MUCT_XGMI_KEY_AT_VERSION] = MUCT_XGMI_KEY_VERSION;
    p[MUCT_XGMI_KEY_AT_KIND] = (unsigned char)key->kind;
    muct_put_le(p + MUCT_XGMI_KEY_AT_DEVICE, key->device, 2);
    muct_put_le(p + MUCT_XGMI_KEY_AT_SLOT, key->slot, 4);
    muct_put_le(p + MUCT_XGMI_KEY_AT_OWNER, key->owner, 8);
    muct_put_le(p + MUCT_XGMI_KEY_AT_ADDRESS, key->address, 8);
    muct_put_le(p + MUCT_XGMI_KEY_AT_LENGTH, key->length, 8);
    muct_put_le(p + MUCT_XGMI_KEY_AT_BASE, key->base, 8);
    muct_put_le(p + MUCT_XGMI_KEY_AT_ALLOC_LENGTH, key->alloc_length, 8);
    muct_put_le(p + MUCT_XGMI_KEY_AT_GENERATION, key->generation, 4);
    memcpy(p + MUCT_XGMI_KEY_AT_HANDLE, key->handle, MUCT_XGMI_HANDLE_SIZE);
    muct_put_le(p + MUCT_XGMI_KEY_AT_BUFFER_ID, key->buffer_id, 8);
    muct_put_le(p + MUCT_XGMI_KEY_AT_CHECKSUM, muct_xgmi_key_checksum(p), 8);
}

ucs_status_t muct_xgmi_key_unpack(const void *buffer, size_t length,
                                  muct_xgmi_key_t *key)
{
    const unsigned char *p = buffer;
    muct_xgmi_key_t k;

    if (length < 1) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (p[MUCT_XGMI_KEY_AT_VERSION] != MUCT_XGMI_KEY_VERSION) {
        return UCS_ERR_UNSUPPORTED;
    }
    if ((length < MUCT_XGMI_KEY_PACKED_SIZE) ||
        (muct_get_le(p + MUCT_XGMI_KEY_AT_CHECKSUM, 8) != muct_xgmi_key_checksum(p))) {
        return UCS_ERR_INVALID_PARAM;
    }

    k.kind = (muct_xgmi_key_kind_t)p[MUCT_XGMI_KEY_AT_KIND];
    k.device = (uint16_t)muct_get_le(p + MUCT_XGMI_KEY_AT_DEVICE, 2);
    k.slot = (uint32_t)muct_get_le(p + MUCT_XGMI_KEY_AT_SLOT, 4);
    k.owner = muct_get_le(p + MUCT_XGMI_KEY_AT_OWNER, 8);
    k.address = muct_get_le(p + MUCT_XGMI_KEY_AT_ADDRESS, 8);
    k.length = muct_get_le(p + MUCT_XGMI_KEY_AT_LENGTH, 8);
    k.base = muct_get_le(p + MUCT_XGMI_KEY_AT_BASE, 8);
    k.alloc_length = muct_get_le(p + MUCT_XGMI_KEY_AT_ALLOC_LENGTH, 8);
    k.generation = (uint32_t)muct_get_le(p + MUCT_XGMI_KEY_AT_GENERATION, 4);
    k.buffer_id = muct_get_le(p + MUCT_XGMI_KEY_AT_BUFFER_ID, 8);
    memcpy(k.handle, p + MUCT_XGMI_KEY_AT_HANDLE, MUCT_XGMI_HANDLE_SIZE);
    if (!muct_xgmi_key_is_sane(&k)) {
        return UCS_ERR_INVALID_PARAM;
    }

    *key = k;
    return UCS_OK;
}

static int muct_xgmi_key_compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int muct_xgmi_key_compare(const muct_xgmi_key_t *key1, const muct_xgmi_key_t *key2)
{
    int result;

    result = muct_xgmi_key_compare_u64(key1->owner, key2->owner);
    if (result == 0) {
        result = muct_xgmi_key_compare_u64(key1->slot, key2->slot);
    }
    if (result == 0) {
        result = muct_xgmi_key_compare_u64(key1->generation, key2->generation);
    }
    if (result == 0) {
        result = muct_xgmi_key_compare_u64(key1->address, key2->address);
    }
    if (result == 0) {
        result = muct_xgmi_key_compare_u64(key1->length, key2->length);
    }
    if (result == 0) {
        result = muct_xgmi_key_compare_u64(key1->buffer_id, key2->buffer_id);
    }
    if (result == 0) {
        result = memcmp(key1->handle, key2->handle, MUCT_XGMI_HANDLE_SIZE);
    }

    return result;
}
