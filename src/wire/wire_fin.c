/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The message that ends a leg; the other side waits for it:
 *
 *   bytes 8, components 1, of each: number 1, units 4, sum 8; then items
 *
 * With header and transfer a FIN of one component has 90 bytes. A message of UCX's
 * shared memory holds 92 bytes of the sender in its queue element, and stores longer
 * ones elsewhere, which costs the receiver a fetch.
 */

#include "wire/codec.h"

/* Items at the end; unknown types are skipped */
enum { MKV_FIN_ITEM_DATA = 1 };

#define MKV_FIN_BYTES 9u      /* before the components */
#define MKV_FIN_UNITS 13u     /* per component */
#define MKV_FIN_HAS_SUM 0x80u /* flag beside a component's number */

static void mkv_msg_put_fin_data(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    if (msg->length > 0) {
        mkv_wbuf_put_u32(wbuf, MKV_FIN_ITEM_DATA);
        mkv_wbuf_put_u32(wbuf, (uint32_t)msg->length);
        mkv_wbuf_put(wbuf, msg->data, msg->length);
    }
}

void mkv_msg_put_fin(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    const mkv_wire_units_t *units = msg->units, *end = units + msg->num_units;
    size_t room = MKV_FIN_BYTES + MKV_FIN_UNITS * (size_t)msg->num_units;
    uint8_t *p = mkv_wbuf_room(wbuf, room);

    if (p == NULL) {
        return;
    }
    mkv_wire_store(p, msg->bytes, 8);
    p[8] = (uint8_t)msg->num_units;
    for (p += MKV_FIN_BYTES; units < end; ++units) {
        p[0] = (uint8_t)(units->component | (units->has_sum ? MKV_FIN_HAS_SUM : 0));
        mkv_wire_store(p + 1, units->num, 4);
        mkv_wire_store(p + 5, units->has_sum ? units->sum : 0, 8);
        p += MKV_FIN_UNITS;
    }
    mkv_msg_put_fin_data(msg, wbuf);
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

void mkv_msg_get_fin(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    const uint8_t *p = mkv_rbuf_get(rbuf, MKV_FIN_BYTES);
    mkv_wire_units_t *units = msg->units, *end;

    if ((p == NULL) || (p[8] > MKV_MAX_COMPONENTS)) {
        rbuf->is_bad = true;
        return;
    }
    msg->bytes = mkv_wire_load(p, 8);
    msg->num_units = p[8];
    p = mkv_rbuf_get(rbuf, MKV_FIN_UNITS * (size_t)msg->num_units);
    for (end = units + msg->num_units; (p != NULL) && (units < end); ++units) {
        units->component = p[0] & ~MKV_FIN_HAS_SUM;
        units->num = (uint32_t)mkv_wire_load(p + 1, 4);
        units->has_sum = (p[0] & MKV_FIN_HAS_SUM) != 0;
        units->sum = mkv_wire_load(p + 5, 8);
        rbuf->is_bad |= (units->component >= MKV_MAX_COMPONENTS);
        p += MKV_FIN_UNITS;
    }
    mkv_msg_get_fin_items(rbuf, msg);
}
