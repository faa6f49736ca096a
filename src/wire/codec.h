/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_WIRE_INT_H
#define MKV_WIRE_INT_H

/**
 * @file
 * Primitives shared by the message and the blob codec. Pure.
 */

#include "wire/wire.h"

#include <stdbool.h>
#include <string.h>

/** Bounded input. Reading behind the end gives zeroes and sets is_bad. */
typedef struct mkv_rbuf {
    const uint8_t *p, *end;
    bool is_bad;
} mkv_rbuf_t;

static inline size_t mkv_rbuf_left(const mkv_rbuf_t *rbuf)
{
    return (size_t)(rbuf->end - rbuf->p);
}

/** @return Start of @a length bytes in the input, or NULL. */
static inline const uint8_t *mkv_rbuf_get(mkv_rbuf_t *rbuf, size_t length)
{
    const uint8_t *p = rbuf->p;

    if (length > mkv_rbuf_left(rbuf)) {
        rbuf->is_bad = true;
        rbuf->p = rbuf->end;
        return NULL;
    }
    rbuf->p += length;
    return p;
}

/* The wire's order of bytes, from and to the host's */
static inline uint64_t mkv_wire_order(uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(value);
#else
    return value;
#endif
}

/** Integer of @a bytes bytes at any alignment; a constant number makes it one load. */
static inline uint64_t mkv_wire_load(const uint8_t *p, unsigned bytes)
{
    uint64_t value = 0;

    memcpy(&value, p, bytes);
    return mkv_wire_order(value);
}

/** ... and one store. */
static inline void mkv_wire_store(uint8_t *p, uint64_t value, unsigned bytes)
{
    value = mkv_wire_order(value);
    memcpy(p, &value, bytes);
}

static inline uint64_t mkv_rbuf_get_uint(mkv_rbuf_t *rbuf, unsigned bytes)
{
    const uint8_t *p = mkv_rbuf_get(rbuf, bytes);

    return (p != NULL) ? mkv_wire_load(p, bytes) : 0;
}

#define mkv_rbuf_get_u8(_rbuf) ((uint8_t)mkv_rbuf_get_uint(_rbuf, 1))
#define mkv_rbuf_get_u16(_rbuf) ((uint16_t)mkv_rbuf_get_uint(_rbuf, 2))
#define mkv_rbuf_get_u32(_rbuf) ((uint32_t)mkv_rbuf_get_uint(_rbuf, 4))
#define mkv_rbuf_get_u64(_rbuf) mkv_rbuf_get_uint(_rbuf, 8)

/** Like mkv_wbuf_room(), for a buffer without room. */
uint8_t *mkv_wbuf_grow(mkv_wbuf_t *wbuf, size_t length);

/** Append room for @a length bytes, at least 1. @return Place to write them; NULL: no
 * memory, which the buffer remembers. */
static inline uint8_t *mkv_wbuf_room(mkv_wbuf_t *wbuf, size_t length)
{
    uint8_t *p;

    if (length > wbuf->capacity - wbuf->length) {
        return mkv_wbuf_grow(wbuf, length);
    }
    p = wbuf->data + wbuf->length;
    wbuf->length += length;
    return p;
}

/** A record's bytes; its reader must not look behind them. */
static inline mkv_rbuf_t mkv_rbuf_record(mkv_rbuf_t *rbuf)
{
    uint32_t length = mkv_rbuf_get_u32(rbuf);
    const uint8_t *p = mkv_rbuf_get(rbuf, length);
    mkv_rbuf_t record = {p, p, false};

    if (p != NULL) {
        record.end = p + length;
    } else {
        record.p = record.end = rbuf->end;
    }
    return record;
}

/** Take text of @a length bytes, as mkv_utf8_copy(). */
void mkv_rbuf_get_text(mkv_rbuf_t *rbuf, size_t length, char *text, size_t size);

/* Body of FIN */
void mkv_msg_put_fin(const mkv_msg_t *msg, mkv_wbuf_t *wbuf);
void mkv_msg_get_fin(mkv_rbuf_t *rbuf, mkv_msg_t *msg);

/* Bodies of PULL and PULLED */
void mkv_msg_put_pull(const mkv_msg_t *msg, mkv_wbuf_t *wbuf);
void mkv_msg_get_pull(mkv_rbuf_t *rbuf, mkv_msg_t *msg);
void mkv_msg_put_pulled(const mkv_msg_t *msg, mkv_wbuf_t *wbuf);
void mkv_msg_get_pulled(mkv_rbuf_t *rbuf, mkv_msg_t *msg);

/* Bodies of STAGE and STAGED */
void mkv_msg_put_stage(const mkv_msg_t *msg, mkv_wbuf_t *wbuf);
void mkv_msg_get_stage(mkv_rbuf_t *rbuf, mkv_msg_t *msg);
void mkv_msg_put_staged(const mkv_msg_t *msg, mkv_wbuf_t *wbuf);
void mkv_msg_get_staged(mkv_rbuf_t *rbuf, mkv_msg_t *msg);

/** Checksum that finds cut or flipped bytes; it is not cryptographic. */
uint64_t mkv_wire_checksum(uint64_t seed, const void *data, size_t length);

#endif
