/* SPDX-License-Identifier: BSD-3-Clause */

/* The message that ends a leg, which the other side waits for. */

#include "wire/codec.h"

/* Items at the end of FIN; one of an unknown type is skipped */
enum { MKV_FIN_ITEM_DATA = 1, MKV_FIN_ITEM_SUMS = 2 };

#define MKV_FIN_ITEM_SIZE 8u  /* its type and length, before what it has */
#define MKV_FIN_SUM_BYTES 12u /* of a component: its number, the sum */

static void mkv_msg_put_fin_data(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    if (msg->length > 0) {
        mkv_wbuf_put_u32(wbuf, MKV_FIN_ITEM_DATA);
        mkv_wbuf_put_u32(wbuf, (uint32_t)msg->length);
        mkv_wbuf_put(wbuf, msg->data, msg->length);
    }
}

/* Of the item with the sums; 0: there is none */
static size_t mkv_msg_fin_sums_size(const mkv_msg_t *msg)
{
    size_t size = 0;
    uint32_t i;

    for (i = 0; i < msg->num_units; ++i) {
        size += msg->units[i].has_sum ? MKV_FIN_SUM_BYTES : 0;
    }
    return (size > 0) ? MKV_FIN_ITEM_SIZE + size : 0;
}

static void mkv_msg_put_fin_sums(const mkv_msg_t *msg, size_t size, uint8_t *p)
{
    uint32_t i;

    mkv_wire_store(p, MKV_FIN_ITEM_SUMS, 4);
    mkv_wire_store(p + 4, size - MKV_FIN_ITEM_SIZE, 4);
    p += MKV_FIN_ITEM_SIZE;
    for (i = 0; i < msg->num_units; ++i) {
        if (msg->units[i].has_sum) {
            mkv_wire_store(p, msg->units[i].component, 4);
            mkv_wire_store(p + 4, msg->units[i].sum, 8);
            p += MKV_FIN_SUM_BYTES;
        }
    }
}

/* What every FIN has is written at once: it is waited for */
void mkv_msg_put_fin(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    size_t sums = mkv_msg_fin_sums_size(msg);
    uint8_t *p = mkv_wbuf_room(wbuf, 12 + 8 * (size_t)msg->num_units + sums);
    uint32_t i;

    if (p == NULL) {
        return;
    }
    mkv_wire_store(p, msg->bytes, 8);
    mkv_wire_store(p + 8, msg->num_units, 4);
    for (p += 12, i = 0; i < msg->num_units; ++i, p += 8) {
        mkv_wire_store(p, msg->units[i].component, 4);
        mkv_wire_store(p + 4, msg->units[i].num, 4);
    }
    if (sums > 0) {
        mkv_msg_put_fin_sums(msg, sums, p);
    }
    mkv_msg_put_fin_data(msg, wbuf);
}

static void mkv_msg_get_fin_sum(mkv_msg_t *msg, uint32_t component, uint64_t sum)
{
    uint32_t i;

    for (i = 0; i < msg->num_units; ++i) {
        if (msg->units[i].component == component) {
            msg->units[i].has_sum = true;
            msg->units[i].sum = sum;
        }
    }
}

static void mkv_msg_get_fin_sums(const uint8_t *data, size_t length, mkv_msg_t *msg)
{
    mkv_rbuf_t rbuf = {data, data + length, false};
    uint32_t component;

    while (mkv_rbuf_left(&rbuf) >= MKV_FIN_SUM_BYTES) {
        component = mkv_rbuf_get_u32(&rbuf);
        mkv_msg_get_fin_sum(msg, component, mkv_rbuf_get_u64(&rbuf));
    }
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
        } else if ((type == MKV_FIN_ITEM_SUMS) && (data != NULL)) {
            mkv_msg_get_fin_sums(data, length, msg);
        }
    }
}

void mkv_msg_get_fin(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
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
        msg->units[i].has_sum = false;
        rbuf->is_bad |= (msg->units[i].component >= MKV_MAX_COMPONENTS);
    }
    mkv_msg_get_fin_items(rbuf, msg);
}
