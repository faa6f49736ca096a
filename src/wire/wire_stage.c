/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages by which small pieces move through staging: src/stage. */

#include "wire/codec.h"

void mkv_msg_put_stage(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u32(wbuf, msg->serial);
    mkv_wbuf_put_u32(wbuf, msg->value);
    mkv_wbuf_put_u64(wbuf, msg->bytes);
    mkv_wbuf_put_u32(wbuf, (uint32_t)(msg->length / MKV_PLACES_BYTES));
    mkv_wbuf_put(wbuf, msg->data, msg->length);
}

void mkv_msg_get_stage(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->serial = mkv_rbuf_get_u32(rbuf);
    msg->value = mkv_rbuf_get_u32(rbuf);
    msg->bytes = mkv_rbuf_get_u64(rbuf);
    msg->length = (size_t)mkv_rbuf_get_u32(rbuf) * MKV_PLACES_BYTES;
    msg->data = mkv_rbuf_get(rbuf, msg->length);
}

void mkv_msg_put_staged(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u32(wbuf, msg->serial);
    mkv_wbuf_put_u32(wbuf, (uint32_t)msg->code);
    mkv_wbuf_put_u64(wbuf, msg->address);
    mkv_wbuf_put_u64(wbuf, msg->bytes);
    mkv_wbuf_put_u32(wbuf, (uint32_t)msg->length);
    mkv_wbuf_put(wbuf, msg->data, msg->length);
}

void mkv_msg_get_staged(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->serial = mkv_rbuf_get_u32(rbuf);
    msg->code = (int32_t)mkv_rbuf_get_u32(rbuf);
    msg->address = mkv_rbuf_get_u64(rbuf);
    msg->bytes = mkv_rbuf_get_u64(rbuf);
    msg->length = mkv_rbuf_get_u32(rbuf);
    msg->data = mkv_rbuf_get(rbuf, msg->length);
    rbuf->is_bad |= (msg->code > MKV_OK) || (msg->length > MKV_MAX_RKEY_SIZE);
}

void mkv_wire_put_places(mkv_wbuf_t *wbuf, const mkv_places_t *places)
{
    mkv_wbuf_put_u64(wbuf, places->address);
    mkv_wbuf_put_u64(wbuf, places->stride);
    mkv_wbuf_put_u32(wbuf, places->length);
    mkv_wbuf_put_u32(wbuf, places->count);
}

void mkv_wire_places(const mkv_msg_t *msg, size_t index, mkv_places_t *places)
{
    const uint8_t *p = msg->data + index * MKV_PLACES_BYTES;

    places->address = mkv_wire_load(p, 8);
    places->stride = mkv_wire_load(p + 8, 8);
    places->length = (uint32_t)mkv_wire_load(p + 16, 4);
    places->count = (uint32_t)mkv_wire_load(p + 20, 4);
}
