/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_BYTES_H
#define MUCT_BYTES_H

/**
 * @file
 * Little-endian numbers to and from bytes that cross processes, at most eight. Pure;
 * the caller has checked that the bytes are there.
 */

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* memcpy() compiles to one access when the size is constant, and not to a loop. */
static inline void muct_put_le(void *bytes, uint64_t value, unsigned size)
{
    const uint64_t le = htole64(value);

    memcpy(bytes, &le, size);
}

static inline uint64_t muct_get_le(const void *bytes, unsigned size)
{
    uint64_t le = 0;

    memcpy(&le, bytes, size);
    return le64toh(le);
}

#endif
