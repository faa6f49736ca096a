/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_BYTES_H
#define MUCT_BYTES_H

/**
 * @file
 * Little-endian numbers to and from bytes that cross processes. Pure; the caller
 * has checked that the bytes are there.
 */

#include <stdint.h>

static inline void muct_put_le(uint8_t *bytes, uint64_t value, unsigned size)
{
    unsigned i;

    for (i = 0; i < size; ++i) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline uint64_t muct_get_le(const uint8_t *bytes, unsigned size)
{
    uint64_t value = 0;
    unsigned i;

    for (i = 0; i < size; ++i) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }

    return value;
}

#endif
