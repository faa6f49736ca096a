/* SPDX-License-Identifier: BSD-3-Clause */

#include "wire/codec.h"

#include <string.h>

/* Flags of TERM */
enum { MKV_TERM_DRAINED = 1 << 0, MKV_TERM_ANSWER = 1 << 1 };

#define MKV_MSG_MAGIC 0x4d564b4du /* "MKVM" */
#define MKV_MSG_SEQ_OFFSET 24
#define MKV_MSG_LENGTH_OFFSET 28
#define MKV_MSG_CHECK_OFFSET 32
#define MKV_MSG_XFER_SIZE 28 /* the names of a transfer */

static uint64_t mkv_msg_checksum(const uint8_t *data, size_t length)
{
    return mkv_wire_checksum(mkv_wire_checksum(0, data, MKV_MSG_CHECK_OFFSET),
                             data + MKV_MSG_HEADER_SIZE, length - MKV_MSG_HEADER_SIZE);
}

const char *mkv_msg_string(mkv_msg_type_t type)
{
    static const char *const names[] = {
        "none", "HELLO",   "HELLO_ACK", "REGIONS", "BYE",     "EXPOSE",
        "BIND", "FIN",     "TERM",      "DRAINED", "USER",    "PING",
        "PONG", "PULL",    "PULLED",    "NOTE",    "REQUEST", "CREDIT",
        "OPEN", "ARRIVED", "STAGE",     "STAGED"};

    return ((unsigned)type < MKV_MSG_LAST) ? names[type] : "unknown";
}

/* ---- Bodies, written ------------------------------------------------------------- */

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
    uint8_t *p = mkv_wbuf_room(wbuf, MKV_MSG_XFER_SIZE);

    if (p != NULL) {
        mkv_wire_store(p, msg->id, 8);
        mkv_wire_store(p + 8, msg->epoch, 4);
        mkv_wire_store(p + 12, msg->from_nonce, 8);
        mkv_wire_store(p + 20, msg->to_nonce, 8);
    }
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

static void mkv_msg_put_term(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u32(wbuf, (uint32_t)msg->code);
    mkv_wbuf_put_u8(wbuf, (uint8_t)((msg->is_drained ? MKV_TERM_DRAINED : 0) |
                                    (msg->is_answer ? MKV_TERM_ANSWER : 0)));
    mkv_msg_put_text(wbuf, msg->text);
}

static void mkv_msg_put_bye(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_msg_put_text(wbuf, msg->text);
}

static void mkv_msg_put_user(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u64(wbuf, msg->id);
    mkv_wbuf_put_u32(wbuf, msg->value);
    mkv_msg_put_bytes(wbuf, msg->header, msg->header_length);
    mkv_msg_put_bytes(wbuf, msg->data, msg->length);
}

static void mkv_msg_put_request(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u8(wbuf, (uint8_t)msg->mode);
    mkv_msg_put_bytes(wbuf, msg->data, msg->length);
}

static void mkv_msg_put_note(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u64(wbuf, msg->id);
    mkv_wbuf_put_u8(wbuf, (uint8_t)msg->mode);
    mkv_wbuf_put_u32(wbuf, (uint32_t)msg->code);
    mkv_wbuf_put_u64(wbuf, msg->bytes);
    mkv_msg_put_bytes(wbuf, msg->data, msg->length);
}

static void mkv_msg_put_credit(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u64(wbuf, msg->bytes);
}

static void mkv_msg_put_arrived(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u32(wbuf, msg->value);
}

static void mkv_msg_put_blob(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put(wbuf, msg->data, msg->length);
}

/* ---- Bodies, read ---------------------------------------------------------------- */

static void mkv_msg_get_xfer(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    const uint8_t *p = mkv_rbuf_get(rbuf, MKV_MSG_XFER_SIZE);

    if (p == NULL) {
        return;
    }
    msg->id = mkv_wire_load(p, 8);
    msg->epoch = (uint32_t)mkv_wire_load(p + 8, 4);
    msg->from_nonce = mkv_wire_load(p + 12, 8);
    msg->to_nonce = mkv_wire_load(p + 20, 8);
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
    rbuf->is_bad |= (msg->mode > MKV_READ) || (msg->code > MKV_OK);
}

static void mkv_msg_get_term(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    unsigned flags;

    msg->code = (int32_t)mkv_rbuf_get_u32(rbuf);
    flags = mkv_rbuf_get_u8(rbuf);
    msg->is_drained = (flags & MKV_TERM_DRAINED) != 0;
    msg->is_answer = (flags & MKV_TERM_ANSWER) != 0;
    mkv_msg_get_text(rbuf, msg);
    rbuf->is_bad |= (msg->code >= MKV_OK);
}

static void mkv_msg_get_user(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->id = mkv_rbuf_get_u64(rbuf);
    msg->value = mkv_rbuf_get_u32(rbuf);
    msg->header_length = mkv_rbuf_get_u32(rbuf);
    msg->header = mkv_rbuf_get(rbuf, msg->header_length);
    msg->length = mkv_rbuf_get_u32(rbuf);
    msg->data = mkv_rbuf_get(rbuf, msg->length);
}

static void mkv_msg_get_request(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->mode = mkv_rbuf_get_u8(rbuf);
    msg->length = mkv_rbuf_get_u32(rbuf);
    msg->data = mkv_rbuf_get(rbuf, msg->length);
    rbuf->is_bad |= (msg->mode > MKV_READ);
}

static void mkv_msg_get_credit(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->bytes = mkv_rbuf_get_u64(rbuf);
}

static void mkv_msg_get_arrived(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->value = mkv_rbuf_get_u32(rbuf);
}

static void mkv_msg_get_blob(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->length = mkv_rbuf_left(rbuf);
    msg->data = mkv_rbuf_get(rbuf, msg->length);
}

/* ---- Messages -------------------------------------------------------------------- */

/* Bodies behind the header, and the transfer's names if it belongs to one. Types that
 * are absent have no body */
static const struct {
    void (*put)(const mkv_msg_t *msg, mkv_wbuf_t *wbuf);
    void (*get)(mkv_rbuf_t *rbuf, mkv_msg_t *msg);
} mkv_msg_bodies[MKV_MSG_LAST] = {
    [MKV_MSG_HELLO] = {mkv_msg_put_blob, mkv_msg_get_blob},
    [MKV_MSG_HELLO_ACK] = {mkv_msg_put_blob, mkv_msg_get_blob},
    [MKV_MSG_REGIONS] = {mkv_msg_put_blob, mkv_msg_get_blob},
    [MKV_MSG_BYE] = {mkv_msg_put_bye, mkv_msg_get_text},
    [MKV_MSG_EXPOSE] = {mkv_msg_put_expose, mkv_msg_get_expose},
    [MKV_MSG_FIN] = {mkv_msg_put_fin, mkv_msg_get_fin},
    [MKV_MSG_TERM] = {mkv_msg_put_term, mkv_msg_get_term},
    [MKV_MSG_USER] = {mkv_msg_put_user, mkv_msg_get_user},
    [MKV_MSG_PULL] = {mkv_msg_put_pull, mkv_msg_get_pull},
    [MKV_MSG_PULLED] = {mkv_msg_put_pulled, mkv_msg_get_pulled},
    [MKV_MSG_NOTE] = {mkv_msg_put_note, mkv_msg_get_note},
    [MKV_MSG_REQUEST] = {mkv_msg_put_request, mkv_msg_get_request},
    [MKV_MSG_CREDIT] = {mkv_msg_put_credit, mkv_msg_get_credit},
    [MKV_MSG_ARRIVED] = {mkv_msg_put_arrived, mkv_msg_get_arrived},
    [MKV_MSG_STAGE] = {mkv_msg_put_stage, mkv_msg_get_stage},
    [MKV_MSG_STAGED] = {mkv_msg_put_staged, mkv_msg_get_staged},
};

static void mkv_msg_put_body(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    if (mkv_msg_is_of_xfer(msg->type)) {
        mkv_msg_put_xfer(msg, wbuf);
    }
    if (mkv_msg_bodies[msg->type].put != NULL) {
        mkv_msg_bodies[msg->type].put(msg, wbuf);
    }
}

static void mkv_msg_get_body(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    if (mkv_msg_is_of_xfer(msg->type)) {
        mkv_msg_get_xfer(rbuf, msg);
    }
    if (mkv_msg_bodies[msg->type].get != NULL) {
        mkv_msg_bodies[msg->type].get(rbuf, msg);
    }
}

/* The number in the sequence, the body's length and the checksum follow later */
static void mkv_msg_put_header(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    uint8_t *p = mkv_wbuf_room(wbuf, MKV_MSG_HEADER_SIZE);

    if (p == NULL) {
        return;
    }
    mkv_wire_store(p, MKV_MSG_MAGIC, 4);
    mkv_wire_store(p + 4, MKV_WIRE_MAJOR, 1);
    mkv_wire_store(p + 5, MKV_WIRE_MINOR, 1);
    mkv_wire_store(p + 6, msg->type, 2);
    mkv_wire_store(p + 8, msg->from, 8);
    mkv_wire_store(p + 16, msg->to, 8);
    mkv_wire_store(p + MKV_MSG_SEQ_OFFSET, 0, 4);
    mkv_wire_store(p + MKV_MSG_LENGTH_OFFSET, 0, 4);
    mkv_wire_store(p + MKV_MSG_CHECK_OFFSET, 0, 8);
}

mkv_status_t mkv_msg_encode(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    size_t start = wbuf->length;
    size_t length;

    mkv_msg_put_header(msg, wbuf);
    mkv_msg_put_body(msg, wbuf);
    if (wbuf->has_failed) {
        return MKV_ERR_NOMEM;
    }

    length = wbuf->length - start;
    if (length >= UINT32_MAX) {
        return MKV_ERR_LENGTH;
    }
    mkv_wire_store(wbuf->data + start + MKV_MSG_LENGTH_OFFSET,
                   length - MKV_MSG_HEADER_SIZE, 4);
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

void mkv_msg_clear(mkv_msg_t *msg)
{
    memset(msg, 0, offsetof(mkv_msg_t, units));
    msg->bytes = 0;
    msg->code = 0;
    msg->is_drained = msg->is_answer = false;
    msg->text[0] = '\0';
    msg->value = 0;
    msg->header = msg->data = NULL;
    msg->header_length = msg->length = 0;
}

/* Check everything before the body: a complete message of this library, in a supported
 * version.
 * @param [out] type_p  The type as it is on the wire. */
static mkv_status_t mkv_msg_get_header(mkv_rbuf_t *rbuf, mkv_msg_t *msg,
                                       uint16_t *type_p)
{
    size_t length = mkv_rbuf_left(rbuf);
    const uint8_t *p = mkv_rbuf_get(rbuf, MKV_MSG_HEADER_SIZE);
    uint64_t checksum;
    uint32_t body_length;
    uint8_t major;

    if ((p == NULL) || (mkv_wire_load(p, 4) != MKV_MSG_MAGIC)) {
        return MKV_ERR_PROTOCOL;
    }
    major = p[4]; /* p[5] is the minor one: nothing depends on it yet */
    *type_p = (uint16_t)mkv_wire_load(p + 6, 2);
    msg->type = (mkv_msg_type_t)(*type_p & ~MKV_MSG_MAY_SKIP);
    msg->from = mkv_wire_load(p + 8, 8);
    msg->to = mkv_wire_load(p + 16, 8);
    msg->seq = (uint32_t)mkv_wire_load(p + MKV_MSG_SEQ_OFFSET, 4);
    body_length = (uint32_t)mkv_wire_load(p + MKV_MSG_LENGTH_OFFSET, 4);
    checksum = mkv_wire_load(p + MKV_MSG_CHECK_OFFSET, 8);

    if (major != MKV_WIRE_MAJOR) {
        return MKV_ERR_VERSION;
    }
    return ((body_length != mkv_rbuf_left(rbuf)) || (msg->from == 0) ||
            (msg->type == 0) || (checksum != mkv_msg_checksum(p, length)))
               ? MKV_ERR_PROTOCOL
               : MKV_OK;
}

mkv_status_t mkv_msg_decode(const void *data, size_t length, mkv_msg_t *msg)
{
    mkv_rbuf_t rbuf = {data, (const uint8_t *)data + length, 0};
    mkv_status_t status;
    uint16_t type;

    mkv_msg_clear(msg);
    status = mkv_msg_get_header(&rbuf, msg, &type);
    if (status != MKV_OK) {
        return status;
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
