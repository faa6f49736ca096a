/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The message that ends a leg, which the other side waits for. It has two forms:
 *
 *   FIN        bytes 8, components 4, of each: number 4, units 4; items: sums, data
 *   FIN_SHORT  bytes 8, components 1, of each: number 1, units 4, sum 8; items: data
 *
 * With header and names a short one of one component has 90 bytes, and so travels in
 * one piece: of the 128 that a message has in the queue of UCX's shared memory, 92 are
 * the sender's, and what is larger lies elsewhere, for the receiver to fetch.
 */

#include "wire/codec.h"

/* Items at the end of FIN; one of an unknown type is skipped */
enum { MKV_FIN_ITEM_DATA = 1, MKV_FIN_ITEM_SUMS = 2 };

#define MKV_FIN_ITEM_SIZE 8u    /* its type and length, before what it has */
#define MKV_FIN_SUM_BYTES 12u   /* of a component: its number, the sum */
#define MKV_FIN_SHORT_BYTES 9u  /* before the components */
#define MKV_FIN_SHORT_UNITS 13u /* of a component */
#define MKV_FIN_HAS_SUM 0x80u   /* beside a component's number, in the short form */

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

void mkv_msg_put_fin_short(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    const mkv_wire_units_t *units = msg->units, *end = units + msg->num_units;
    size_t room = MKV_FIN_SHORT_BYTES + MKV_FIN_SHORT_UNITS * (size_t)msg->num_units;
    uint8_t *start = mkv_wbuf_room(wbuf, room), *p = start;

    if (p == NULL) {
        return;
    }
    mkv_wire_store(p, msg->bytes, 8);
    p[8] = (uint8_t)msg->num_units;
    for (p += MKV_FIN_SHORT_BYTES; units < end; ++units) {
        p[0] = (uint8_t)(units->component | (units->has_sum ? MKV_FIN_HAS_SUM : 0));
        mkv_wire_store(p + 1, units->num, 4);
        mkv_wire_store(p + 5, units->has_sum ? units->sum : 0, 8);
        p += MKV_FIN_SHORT_UNITS;
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

void mkv_msg_get_fin_short(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    const uint8_t *p = mkv_rbuf_get(rbuf, MKV_FIN_SHORT_BYTES);
    mkv_wire_units_t *units = msg->units, *end;

    if ((p == NULL) || (p[8] > MKV_MAX_COMPONENTS)) {
        rbuf->is_bad = true;
        return;
    }
    msg->bytes = mkv_wire_load(p, 8);
    msg->num_units = p[8];
    p = mkv_rbuf_get(rbuf, MKV_FIN_SHORT_UNITS * (size_t)msg->num_units);
    for (end = units + msg->num_units; (p != NULL) && (units < end); ++units) {
        units->component = p[0] & ~MKV_FIN_HAS_SUM;
        units->num = (uint32_t)mkv_wire_load(p + 1, 4);
        units->has_sum = (p[0] & MKV_FIN_HAS_SUM) != 0;
        units->sum = mkv_wire_load(p + 5, 8);
        rbuf->is_bad |= (units->component >= MKV_MAX_COMPONENTS);
        p += MKV_FIN_SHORT_UNITS;
    }
    mkv_msg_get_fin_items(rbuf, msg);
}
