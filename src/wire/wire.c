/* SPDX-License-Identifier: BSD-3-Clause */

#include "wire/codec.h"

#include <string.h>

/* Flags of TERM */
enum { MKV_TERM_DRAINED = 1 << 0, MKV_TERM_ANSWER = 1 << 1 };

/* Items at the end of FIN; one of an unknown type is skipped */
enum { MKV_FIN_ITEM_DATA = 1 };

#define MKV_MSG_MAGIC 0x4d564b4du /* "MKVM" */
#define MKV_MSG_SEQ_OFFSET 24
#define MKV_MSG_CHECK_OFFSET 32

static uint64_t mkv_msg_checksum(const uint8_t *data, size_t length)
{
    return mkv_wire_checksum(mkv_wire_checksum(0, data, MKV_MSG_CHECK_OFFSET),
                             data + MKV_MSG_HEADER_SIZE, length - MKV_MSG_HEADER_SIZE);
}

const char *mkv_msg_string(mkv_msg_type_t type)
{
    static const char *const names[] = {
        "none",   "HELLO", "HELLO_ACK", "REGIONS", "BYE",   "EXPOSE",  "BIND",
        "FIN",    "TERM",  "DRAINED",   "USER",    "PING",  "PONG",    "PULL",
        "PULLED", "NOTE",  "ASK",       "CREDIT",  "FETCH", "FETCHED", "RELEASE"};

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
    if (msg->length > 0) {
        mkv_wbuf_put_u32(wbuf, MKV_FIN_ITEM_DATA);
        mkv_msg_put_bytes(wbuf, msg->data, msg->length);
    }
}

static void mkv_msg_put_body(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    if (mkv_msg_is_of_xfer(msg->type)) {
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
    case MKV_MSG_PULL:
        mkv_msg_put_pull(msg, wbuf);
        break;
    case MKV_MSG_PULLED:
        mkv_msg_put_pulled(msg, wbuf);
        break;
    case MKV_MSG_FETCH:
        mkv_msg_put_fetch(msg, wbuf);
        break;
    case MKV_MSG_FETCHED:
        mkv_msg_put_fetched(msg, wbuf);
        break;
    case MKV_MSG_RELEASE:
        mkv_wbuf_put_u64(wbuf, msg->lease);
        break;
    case MKV_MSG_ASK:
        mkv_wbuf_put_u8(wbuf, (uint8_t)msg->mode);
        mkv_msg_put_bytes(wbuf, msg->data, msg->length);
        break;
    case MKV_MSG_NOTE:
        mkv_wbuf_put_u64(wbuf, msg->id);
        mkv_wbuf_put_u8(wbuf, (uint8_t)msg->mode);
        mkv_wbuf_put_u32(wbuf, (uint32_t)msg->code);
        mkv_wbuf_put_u64(wbuf, msg->bytes);
        mkv_msg_put_bytes(wbuf, msg->data, msg->length);
        break;
    case MKV_MSG_CREDIT:
        mkv_wbuf_put_u64(wbuf, msg->bytes);
        break;
    case MKV_MSG_BIND:
    case MKV_MSG_DRAINED:
    case MKV_MSG_PING:
    case MKV_MSG_PONG:
        break;
    default: /* HELLO, HELLO_ACK, REGIONS */
        mkv_wbuf_put(wbuf, msg->data, msg->length);
        break;
    }
}

static unsigned mkv_msg_skip_bit(mkv_msg_type_t type)
{
    return ((type == MKV_MSG_PING) || (type == MKV_MSG_PONG) ||
            (type == MKV_MSG_CREDIT))
               ? MKV_MSG_MAY_SKIP
               : 0;
}

mkv_status_t mkv_msg_encode(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    size_t start = wbuf->length;
    size_t length;

    mkv_wbuf_put_u32(wbuf, MKV_MSG_MAGIC);
    mkv_wbuf_put_u8(wbuf, MKV_WIRE_MAJOR);
    mkv_wbuf_put_u8(wbuf, MKV_WIRE_MINOR);
    mkv_wbuf_put_u16(wbuf, (uint16_t)(msg->type | mkv_msg_skip_bit(msg->type)));
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
    if ((msg->num_units > MKV_MAX_COMPONENTS) ||
        ((msg->mode & ~MKV_EXPOSE_TOKENS) > MKV_READ)) {
        rbuf->is_bad = true;
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

static void mkv_msg_get_fin_items(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    const uint8_t *data;
    uint32_t type, length;

    while ((mkv_rbuf_left(rbuf) > 0) && !rbuf->is_bad) {
        type = mkv_rbuf_get_u32(rbuf);
        length = mkv_rbuf_get_u32(rbuf);
        data = mkv_rbuf_get(rbuf, length);
        if (type == MKV_FIN_ITEM_DATA) {
            msg->data = data;
            msg->length = length;
        }
    }
}

static void mkv_msg_get_fin(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    uint32_t i;

    msg->bytes = mkv_rbuf_get_u64(rbuf);
    msg->num_units = mkv_rbuf_get_u32(rbuf);
    if (msg->num_units > MKV_MAX_COMPONENTS) {
        rbuf->is_bad = true;
        return;
    }
    for (i = 0; i < msg->num_units; ++i) {
        msg->units[i].component = mkv_rbuf_get_u32(rbuf);
        msg->units[i].num = mkv_rbuf_get_u32(rbuf);
        rbuf->is_bad |= (msg->units[i].component >= MKV_MAX_COMPONENTS);
    }
    mkv_msg_get_fin_items(rbuf, msg);
}

static void mkv_msg_get_text(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    size_t length = mkv_rbuf_get_u16(rbuf);

    mkv_rbuf_get_text(rbuf, length, msg->text, sizeof(msg->text));
}

static void mkv_msg_get_note(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->id = mkv_rbuf_get_u64(rbuf);
    msg->mode = mkv_rbuf_get_u8(rbuf);
    msg->code = (int32_t)mkv_rbuf_get_u32(rbuf);
    msg->bytes = mkv_rbuf_get_u64(rbuf);
    msg->length = mkv_rbuf_get_u32(rbuf);
    msg->data = mkv_rbuf_get(rbuf, msg->length);
    rbuf->is_bad |=
        (msg->mode > MKV_READ) || (msg->code > MKV_OK) || (msg->code <= MKV_ERR_LAST);
}

static void mkv_msg_get_body(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    unsigned flags;

    if (mkv_msg_is_of_xfer(msg->type)) {
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
    case MKV_MSG_PULL:
        mkv_msg_get_pull(rbuf, msg);
        break;
    case MKV_MSG_PULLED:
        mkv_msg_get_pulled(rbuf, msg);
        break;
    case MKV_MSG_FETCH:
        mkv_msg_get_fetch(rbuf, msg);
        break;
    case MKV_MSG_FETCHED:
        mkv_msg_get_fetched(rbuf, msg);
        break;
    case MKV_MSG_RELEASE:
        msg->lease = mkv_rbuf_get_u64(rbuf);
        break;
    case MKV_MSG_ASK:
        msg->mode = mkv_rbuf_get_u8(rbuf);
        msg->length = mkv_rbuf_get_u32(rbuf);
        msg->data = mkv_rbuf_get(rbuf, msg->length);
        rbuf->is_bad |= (msg->mode > MKV_READ);
        break;
    case MKV_MSG_NOTE:
        mkv_msg_get_note(rbuf, msg);
        break;
    case MKV_MSG_CREDIT:
        msg->bytes = mkv_rbuf_get_u64(rbuf);
        break;
    case MKV_MSG_BIND:
    case MKV_MSG_DRAINED:
    case MKV_MSG_PING:
    case MKV_MSG_PONG:
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
    uint16_t type;
    uint8_t major;

    /* Not all of it: the table of components is large and set by its count */
    memset(msg, 0, offsetof(mkv_msg_t, units));
    msg->bytes = 0;
    msg->code = 0;
    msg->is_drained = msg->is_answer = false;
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
    type = mkv_rbuf_get_u16(&rbuf);
    msg->type = (mkv_msg_type_t)(type & ~MKV_MSG_MAY_SKIP);
    msg->from = mkv_rbuf_get_u64(&rbuf);
    msg->to = mkv_rbuf_get_u64(&rbuf);
    msg->seq = mkv_rbuf_get_u32(&rbuf);
    body_length = mkv_rbuf_get_u32(&rbuf);
    checksum = mkv_rbuf_get_u64(&rbuf);

    if (major != MKV_WIRE_MAJOR) {
        return MKV_ERR_VERSION;
    }
    if ((body_length != mkv_rbuf_left(&rbuf)) || (msg->from == 0) || (msg->type == 0) ||
        (checksum != mkv_msg_checksum(data, length))) {
        return MKV_ERR_PROTOCOL;
    }
    if (msg->type >= MKV_MSG_LAST) {
        msg->type = MKV_MSG_SKIPPED;
        return (type & MKV_MSG_MAY_SKIP) ? MKV_OK : MKV_ERR_VERSION;
    }

    mkv_msg_get_body(&rbuf, msg);
    return rbuf.is_bad ? MKV_ERR_PROTOCOL : MKV_OK;
}

int mkv_msg_peek(const void *data, size_t length, mkv_msg_t *msg)
{
    mkv_rbuf_t rbuf = {data, (const uint8_t *)data + length, 0};

    if ((length < MKV_MSG_HEADER_SIZE) || (mkv_rbuf_get_u32(&rbuf) != MKV_MSG_MAGIC)) {
        return 0;
    }
    (void)mkv_rbuf_get_u32(&rbuf); /* version and type */
    msg->from = mkv_rbuf_get_u64(&rbuf);
    msg->to = mkv_rbuf_get_u64(&rbuf);
    msg->seq = mkv_rbuf_get_u32(&rbuf);
    return 1;
}
