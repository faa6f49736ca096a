/* SPDX-License-Identifier: BSD-3-Clause */

#include "wire/codec.h"

#include <stdlib.h>
#include <string.h>

/* Flags of TERM */
enum { MKV_TERM_DRAINED = 1 << 0, MKV_TERM_ANSWER = 1 << 1 };

#define MKV_MSG_MAGIC 0x4d564b4du /* "MKVM" */
#define MKV_MSG_SEQ_OFFSET 24
#define MKV_MSG_CHECK_OFFSET 32

void mkv_wbuf_init(mkv_wbuf_t *wbuf)
{
    memset(wbuf, 0, sizeof(*wbuf));
}

void mkv_wbuf_cleanup(mkv_wbuf_t *wbuf)
{
    free(wbuf->data);
    mkv_wbuf_init(wbuf);
}

/* Room for `length` more bytes, or NULL */
static uint8_t *mkv_wbuf_extend(mkv_wbuf_t *wbuf, size_t length)
{
    size_t capacity;
    uint8_t *data;

    if (wbuf->has_failed || (length > SIZE_MAX / 2 - wbuf->length)) {
        wbuf->has_failed = 1;
        return NULL;
    }

    if (wbuf->length + length > wbuf->capacity) {
        capacity = (wbuf->length + length) * 3 / 2 + 128;
        data = realloc(wbuf->data, capacity);
        if (data == NULL) {
            wbuf->has_failed = 1;
            return NULL;
        }
        wbuf->data = data;
        wbuf->capacity = capacity;
    }

    data = wbuf->data + wbuf->length;
    wbuf->length += length;
    return data;
}

void mkv_wbuf_put(mkv_wbuf_t *wbuf, const void *data, size_t length)
{
    uint8_t *p = mkv_wbuf_extend(wbuf, length);

    if ((p != NULL) && (length > 0)) {
        memcpy(p, data, length);
    }
}

static inline void mkv_wbuf_put_uint(mkv_wbuf_t *wbuf, uint64_t value, unsigned bytes)
{
    uint8_t *p = mkv_wbuf_extend(wbuf, bytes);

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
    size_t i;

    text[0] = '\0';
    if (p == NULL) {
        return;
    }
    length = (length < size) ? length : size - 1;
    for (i = 0; i < length; ++i) {
        text[i] = ((p[i] >= ' ') && (p[i] < 127)) ? (char)p[i] : '?';
    }
    text[length] = '\0';
}

static uint64_t mkv_wire_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9fb21c651e98df25ull;
    return hash ^ (hash >> 29);
}

uint64_t mkv_wire_checksum(uint64_t seed, const void *data, size_t length)
{
    const uint8_t *p = data;
    uint64_t hash = mkv_wire_mix(seed, length);

    for (; length >= 8; p += 8, length -= 8) {
        hash = mkv_wire_mix(hash, mkv_wire_load(p, 8));
    }
    return mkv_wire_mix(hash, (length > 0) ? mkv_wire_load(p, (unsigned)length) : 0);
}

static uint64_t mkv_msg_checksum(const uint8_t *data, size_t length)
{
    return mkv_wire_checksum(mkv_wire_checksum(0, data, MKV_MSG_CHECK_OFFSET),
                             data + MKV_MSG_HEADER_SIZE, length - MKV_MSG_HEADER_SIZE);
}

uint32_t mkv_wire_word(const uint8_t *words, size_t index)
{
    return (uint32_t)mkv_wire_load(words + 4 * index, 4);
}

const char *mkv_msg_string(mkv_msg_type_t type)
{
    static const char *const names[] = {"none", "HELLO",   "HELLO_ACK", "REGIONS",
                                        "BYE",  "EXPOSE",  "BIND",      "FIN",
                                        "TERM", "DRAINED", "USER"};

    return ((unsigned)type < MKV_MSG_LAST) ? names[type] : "unknown";
}

/* ---- Encoding -------------------------------------------------------------------- */

static void mkv_msg_put_text(mkv_wbuf_t *wbuf, const char *text)
{
    size_t length = strlen(text);

    mkv_wbuf_put_u16(wbuf, (uint16_t)length);
    mkv_wbuf_put(wbuf, text, length);
}

static void mkv_msg_put_bytes(mkv_wbuf_t *wbuf, const void *data, size_t length)
{
    mkv_wbuf_put_u32(wbuf, (uint32_t)length);
    mkv_wbuf_put(wbuf, data, length);
}

static void mkv_msg_put_xfer(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u64(wbuf, msg->id);
    mkv_wbuf_put_u32(wbuf, msg->epoch);
    mkv_wbuf_put_u64(wbuf, msg->from_nonce);
    mkv_wbuf_put_u64(wbuf, msg->to_nonce);
}

static void mkv_msg_put_expose(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    uint32_t i;

    mkv_wbuf_put_u8(wbuf, (uint8_t)msg->mode);
    mkv_wbuf_put_u32(wbuf, msg->num_units);
    for (i = 0; i < msg->num_units; ++i) {
        mkv_wbuf_put_u32(wbuf, msg->units[i].component);
        mkv_wbuf_put_u32(wbuf, msg->units[i].expect);
        mkv_wbuf_put_u32(wbuf, msg->units[i].num);
        mkv_wbuf_put(wbuf, msg->units[i].ids, (size_t)msg->units[i].num * 4);
    }
    mkv_msg_put_bytes(wbuf, msg->data, msg->length);
}

static void mkv_msg_put_fin(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    uint32_t i;

    mkv_wbuf_put_u64(wbuf, msg->bytes);
    mkv_wbuf_put_u32(wbuf, msg->num_units);
    for (i = 0; i < msg->num_units; ++i) {
        mkv_wbuf_put_u32(wbuf, msg->units[i].component);
        mkv_wbuf_put_u32(wbuf, msg->units[i].num);
    }
}

static void mkv_msg_put_body(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    if ((msg->type >= MKV_MSG_EXPOSE) && (msg->type <= MKV_MSG_DRAINED)) {
        mkv_msg_put_xfer(msg, wbuf);
    }

    switch (msg->type) {
    case MKV_MSG_EXPOSE:
        mkv_msg_put_expose(msg, wbuf);
        break;
    case MKV_MSG_FIN:
        mkv_msg_put_fin(msg, wbuf);
        break;
    case MKV_MSG_TERM:
        mkv_wbuf_put_u32(wbuf, (uint32_t)msg->code);
        mkv_wbuf_put_u8(wbuf, (uint8_t)((msg->is_drained ? MKV_TERM_DRAINED : 0) |
                                        (msg->is_answer ? MKV_TERM_ANSWER : 0)));
        mkv_msg_put_text(wbuf, msg->text);
        break;
    case MKV_MSG_BYE:
        mkv_msg_put_text(wbuf, msg->text);
        break;
    case MKV_MSG_USER:
        mkv_wbuf_put_u64(wbuf, msg->id);
        mkv_wbuf_put_u32(wbuf, msg->value);
        mkv_msg_put_bytes(wbuf, msg->header, msg->header_length);
        mkv_msg_put_bytes(wbuf, msg->data, msg->length);
        break;
    case MKV_MSG_BIND:
    case MKV_MSG_DRAINED:
        break;
    default: /* HELLO, HELLO_ACK, REGIONS */
        mkv_wbuf_put(wbuf, msg->data, msg->length);
        break;
    }
}

mkv_status_t mkv_msg_encode(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    size_t start = wbuf->length;
    size_t length;

    mkv_wbuf_put_u32(wbuf, MKV_MSG_MAGIC);
    mkv_wbuf_put_u8(wbuf, MKV_WIRE_MAJOR);
    mkv_wbuf_put_u8(wbuf, MKV_WIRE_MINOR);
    mkv_wbuf_put_u16(wbuf, (uint16_t)msg->type);
    mkv_wbuf_put_u64(wbuf, msg->from);
    mkv_wbuf_put_u64(wbuf, msg->to);
    mkv_wbuf_put_u32(wbuf, 0); /* sequence number */
    mkv_wbuf_put_u32(wbuf, 0); /* body length */
    mkv_wbuf_put_u64(wbuf, 0); /* checksum */
    mkv_msg_put_body(msg, wbuf);
    if (wbuf->has_failed) {
        return MKV_ERR_NOMEM;
    }

    length = wbuf->length - start;
    if (length >= UINT32_MAX) {
        return MKV_ERR_LENGTH;
    }
    mkv_wire_store(wbuf->data + start + 28, length - MKV_MSG_HEADER_SIZE, 4);
    return MKV_OK;
}

uint32_t mkv_msg_answer_seq(uint32_t seq)
{
    return (uint32_t)((seq * 0x9e3779b97f4a7c15ull) >> 32);
}

void mkv_msg_finish(void *data, size_t length, uint32_t seq)
{
    uint8_t *p = data;

    mkv_wire_store(p + MKV_MSG_SEQ_OFFSET, seq, 4);
    mkv_wire_store(p + MKV_MSG_CHECK_OFFSET, mkv_msg_checksum(p, length), 8);
}

/* ---- Decoding -------------------------------------------------------------------- */

static void mkv_msg_get_xfer(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->id = mkv_rbuf_get_u64(rbuf);
    msg->epoch = mkv_rbuf_get_u32(rbuf);
    msg->from_nonce = mkv_rbuf_get_u64(rbuf);
    msg->to_nonce = mkv_rbuf_get_u64(rbuf);
    rbuf->is_bad |= (msg->from_nonce == 0);
}

static void mkv_msg_get_expose(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    mkv_wire_units_t *units;
    uint32_t i;

    msg->mode = mkv_rbuf_get_u8(rbuf);
    msg->num_units = mkv_rbuf_get_u32(rbuf);
    if ((msg->num_units > MKV_MAX_COMPONENTS) || (msg->mode > MKV_READ)) {
        rbuf->is_bad = 1;
        return;
    }
    for (i = 0; i < msg->num_units; ++i) {
        units = &msg->units[i];
        units->component = mkv_rbuf_get_u32(rbuf);
        units->expect = mkv_rbuf_get_u32(rbuf);
        units->num = mkv_rbuf_get_u32(rbuf);
        units->ids = mkv_rbuf_get(rbuf, (size_t)units->num * 4);
        rbuf->is_bad |= (units->component >= MKV_MAX_COMPONENTS);
    }
    msg->length = mkv_rbuf_get_u32(rbuf);
    msg->data = mkv_rbuf_get(rbuf, msg->length);
}

static void mkv_msg_get_fin(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    uint32_t i;

    msg->bytes = mkv_rbuf_get_u64(rbuf);
    msg->num_units = mkv_rbuf_get_u32(rbuf);
    if (msg->num_units > MKV_MAX_COMPONENTS) {
        rbuf->is_bad = 1;
        return;
    }
    for (i = 0; i < msg->num_units; ++i) {
        msg->units[i].component = mkv_rbuf_get_u32(rbuf);
        msg->units[i].num = mkv_rbuf_get_u32(rbuf);
        rbuf->is_bad |= (msg->units[i].component >= MKV_MAX_COMPONENTS);
    }
}

static void mkv_msg_get_text(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    size_t length = mkv_rbuf_get_u16(rbuf);

    mkv_rbuf_get_text(rbuf, length, msg->text, sizeof(msg->text));
}

static void mkv_msg_get_body(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    unsigned flags;

    if ((msg->type >= MKV_MSG_EXPOSE) && (msg->type <= MKV_MSG_DRAINED)) {
        mkv_msg_get_xfer(rbuf, msg);
    }

    switch (msg->type) {
    case MKV_MSG_EXPOSE:
        mkv_msg_get_expose(rbuf, msg);
        break;
    case MKV_MSG_FIN:
        mkv_msg_get_fin(rbuf, msg);
        break;
    case MKV_MSG_TERM:
        msg->code = (int32_t)mkv_rbuf_get_u32(rbuf);
        flags = mkv_rbuf_get_u8(rbuf);
        msg->is_drained = (flags & MKV_TERM_DRAINED) != 0;
        msg->is_answer = (flags & MKV_TERM_ANSWER) != 0;
        mkv_msg_get_text(rbuf, msg);
        rbuf->is_bad |= (msg->code >= MKV_OK) || (msg->code <= MKV_ERR_LAST);
        break;
    case MKV_MSG_BYE:
        mkv_msg_get_text(rbuf, msg);
        break;
    case MKV_MSG_USER:
        msg->id = mkv_rbuf_get_u64(rbuf);
        msg->value = mkv_rbuf_get_u32(rbuf);
        msg->header_length = mkv_rbuf_get_u32(rbuf);
        msg->header = mkv_rbuf_get(rbuf, msg->header_length);
        msg->length = mkv_rbuf_get_u32(rbuf);
        msg->data = mkv_rbuf_get(rbuf, msg->length);
        break;
    case MKV_MSG_BIND:
    case MKV_MSG_DRAINED:
        break;
    default:
        msg->length = mkv_rbuf_left(rbuf);
        msg->data = mkv_rbuf_get(rbuf, msg->length);
        break;
    }
}

mkv_status_t mkv_msg_decode(const void *data, size_t length, mkv_msg_t *msg)
{
    mkv_rbuf_t rbuf = {data, (const uint8_t *)data + length, 0};
    uint64_t checksum;
    uint32_t body_length;
    uint8_t major;

    /* Not all of it: the table of components is large and set by its count */
    memset(msg, 0, offsetof(mkv_msg_t, units));
    msg->bytes = 0;
    msg->code = 0;
    msg->is_drained = msg->is_answer = 0;
    msg->text[0] = '\0';
    msg->value = 0;
    msg->header = msg->data = NULL;
    msg->header_length = msg->length = 0;

    if (length < MKV_MSG_HEADER_SIZE) {
        return MKV_ERR_PROTOCOL;
    }
    if (mkv_rbuf_get_u32(&rbuf) != MKV_MSG_MAGIC) {
        return MKV_ERR_PROTOCOL;
    }
    major = mkv_rbuf_get_u8(&rbuf);
    (void)mkv_rbuf_get_u8(&rbuf); /* minor: nothing depends on it yet */
    msg->type = (mkv_msg_type_t)mkv_rbuf_get_u16(&rbuf);
    msg->from = mkv_rbuf_get_u64(&rbuf);
    msg->to = mkv_rbuf_get_u64(&rbuf);
    msg->seq = mkv_rbuf_get_u32(&rbuf);
    body_length = mkv_rbuf_get_u32(&rbuf);
    checksum = mkv_rbuf_get_u64(&rbuf);

    if (major != MKV_WIRE_MAJOR) {
        return MKV_ERR_VERSION;
    }
    if ((body_length != mkv_rbuf_left(&rbuf)) || (msg->from == 0) || (msg->type == 0) ||
        (msg->type >= MKV_MSG_LAST) || (checksum != mkv_msg_checksum(data, length))) {
        return MKV_ERR_PROTOCOL;
    }

    mkv_msg_get_body(&rbuf, msg);
    return rbuf.is_bad ? MKV_ERR_PROTOCOL : MKV_OK;
}
