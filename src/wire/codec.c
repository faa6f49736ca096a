/* SPDX-License-Identifier: BSD-3-Clause */

#include "wire/codec.h"

#include "wire/utf8.h"

#include <stdlib.h>

void mkv_wbuf_init(mkv_wbuf_t *wbuf)
{
    memset(wbuf, 0, sizeof(*wbuf));
}

void mkv_wbuf_cleanup(mkv_wbuf_t *wbuf)
{
    free(wbuf->data);
    mkv_wbuf_init(wbuf);
}

/* A failed buffer has no capacity left, so that every further byte comes here */
uint8_t *mkv_wbuf_grow(mkv_wbuf_t *wbuf, size_t length)
{
    size_t capacity;
    uint8_t *data = NULL;

    if (!wbuf->has_failed && (length <= SIZE_MAX / 2 - wbuf->length)) {
        capacity = (wbuf->length + length) * 3 / 2 + 128;
        data = realloc(wbuf->data, capacity);
    }
    if (data == NULL) {
        wbuf->has_failed = true;
        wbuf->capacity = wbuf->length;
        return NULL;
    }

    wbuf->data = data;
    wbuf->capacity = capacity;
    data += wbuf->length;
    wbuf->length += length;
    return data;
}

void mkv_wbuf_put(mkv_wbuf_t *wbuf, const void *data, size_t length)
{
    uint8_t *p = (length > 0) ? mkv_wbuf_room(wbuf, length) : NULL;

    if (p != NULL) {
        memcpy(p, data, length);
    }
}

static inline void mkv_wbuf_put_uint(mkv_wbuf_t *wbuf, uint64_t value, unsigned bytes)
{
    uint8_t *p = mkv_wbuf_room(wbuf, bytes);

    if (p != NULL) {
        mkv_wire_store(p, value, bytes);
    }
}

void mkv_wbuf_put_u8(mkv_wbuf_t *wbuf, uint8_t value)
{
    mkv_wbuf_put_uint(wbuf, value, 1);
}

void mkv_wbuf_put_u16(mkv_wbuf_t *wbuf, uint16_t value)
{
    mkv_wbuf_put_uint(wbuf, value, 2);
}

void mkv_wbuf_put_u32(mkv_wbuf_t *wbuf, uint32_t value)
{
    mkv_wbuf_put_uint(wbuf, value, 4);
}

void mkv_wbuf_put_u64(mkv_wbuf_t *wbuf, uint64_t value)
{
    mkv_wbuf_put_uint(wbuf, value, 8);
}

void mkv_rbuf_get_text(mkv_rbuf_t *rbuf, size_t length, char *text, size_t size)
{
    const uint8_t *p = mkv_rbuf_get(rbuf, length);

    text[0] = '\0';
    if (p == NULL) {
        return;
    }
    (void)mkv_utf8_copy(text, size, p, length);
}

static uint64_t mkv_wire_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9fb21c651e98df25ull;
    return hash ^ (hash >> 29);
}

uint64_t mkv_wire_checksum(uint64_t seed, const void *data, size_t length)
{
    const uint8_t *p = data, *end = p + length / 8 * 8;
    uint64_t hash = mkv_wire_mix(seed, length);

    for (; p < end; p += 8) {
        hash = mkv_wire_mix(hash, mkv_wire_load(p, 8));
    }
    length %= 8;
    return mkv_wire_mix(hash, (length > 0) ? mkv_wire_load(p, (unsigned)length) : 0);
}

uint32_t mkv_wire_word(const uint8_t *words, size_t index)
{
    return (uint32_t)mkv_wire_load(words + 4 * index, 4);
}
