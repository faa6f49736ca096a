/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages of keyed buffers. */

#include "wire/codec.h"

void mkv_msg_put_fetch(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u64(wbuf, msg->id);
    mkv_wbuf_put_u8(wbuf, (uint8_t)msg->mode);
    mkv_wbuf_put_u64(wbuf, msg->bytes);
    mkv_wbuf_put_u32(wbuf, msg->room);
    mkv_wbuf_put_u32(wbuf, msg->value);
    mkv_wbuf_put_u32(wbuf, (uint32_t)msg->header_length);
    mkv_wbuf_put(wbuf, msg->header, msg->header_length);
}

void mkv_msg_get_fetch(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->id = mkv_rbuf_get_u64(rbuf);
    msg->mode = mkv_rbuf_get_u8(rbuf);
    msg->bytes = mkv_rbuf_get_u64(rbuf);
    msg->room = mkv_rbuf_get_u32(rbuf);
    msg->value = mkv_rbuf_get_u32(rbuf);
    msg->header_length = mkv_rbuf_get_u32(rbuf);
    msg->header = mkv_rbuf_get(rbuf, msg->header_length);
    rbuf->is_bad |= (msg->mode > MKV_WIRE_FETCH_UP_TO) || (msg->header_length == 0) ||
                    (msg->header_length > MKV_MAX_KEY);
}

void mkv_msg_put_fetched(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u64(wbuf, msg->id);
    mkv_wbuf_put_u32(wbuf, (uint32_t)msg->code);
    mkv_wbuf_put_u64(wbuf, msg->bytes);
    mkv_wbuf_put_u64(wbuf, msg->lease);
    mkv_wbuf_put_u32(wbuf, msg->region);
    mkv_wbuf_put_u64(wbuf, msg->offset);
    mkv_wbuf_put_u32(wbuf, (uint32_t)msg->length);
    mkv_wbuf_put(wbuf, msg->data, msg->length);
}

/* With bytes there is no lease, and all of them are here */
void mkv_msg_get_fetched(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->id = mkv_rbuf_get_u64(rbuf);
    msg->code = (int32_t)mkv_rbuf_get_u32(rbuf);
    msg->bytes = mkv_rbuf_get_u64(rbuf);
    msg->lease = mkv_rbuf_get_u64(rbuf);
    msg->region = mkv_rbuf_get_u32(rbuf);
    msg->offset = mkv_rbuf_get_u64(rbuf);
    msg->length = mkv_rbuf_get_u32(rbuf);
    msg->data = mkv_rbuf_get(rbuf, msg->length);
    rbuf->is_bad |=
        (msg->code > MKV_OK) || (msg->code <= MKV_ERR_LAST) ||
        ((msg->code == MKV_OK) && (msg->lease == 0) && (msg->length != msg->bytes));
}
