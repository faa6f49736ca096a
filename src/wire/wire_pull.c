/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages by which a reader requests puts from the owner of blocks. */

#include "wire/codec.h"

#define MKV_RUN_BYTES 16u

_Static_assert(sizeof(mkv_run_t) == MKV_RUN_BYTES,
               "runs are sent as they lie in memory");

static void mkv_msg_put_sel(const mkv_sel_t *sel, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u32(wbuf, sel->fields);
    mkv_wbuf_put_u64(wbuf, sel->component_mask);
    mkv_wbuf_put_u32(wbuf, (uint32_t)sel->layer_lo);
    mkv_wbuf_put_u32(wbuf, (uint32_t)sel->layer_hi);
    mkv_wbuf_put_u32(wbuf, sel->pos_lo);
    mkv_wbuf_put_u32(wbuf, sel->pos_hi);
}

static void mkv_msg_get_sel(mkv_rbuf_t *rbuf, mkv_sel_t *sel)
{
    *sel = (mkv_sel_t){.size = sizeof(*sel)};
    sel->fields = mkv_rbuf_get_u32(rbuf);
    sel->component_mask = mkv_rbuf_get_u64(rbuf);
    sel->layer_lo = (int32_t)mkv_rbuf_get_u32(rbuf);
    sel->layer_hi = (int32_t)mkv_rbuf_get_u32(rbuf);
    sel->pos_lo = mkv_rbuf_get_u32(rbuf);
    sel->pos_hi = mkv_rbuf_get_u32(rbuf);
}

void mkv_msg_put_pull(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    uint32_t i;

    mkv_wbuf_put_u32(wbuf, msg->serial);
    mkv_wbuf_put_u64(wbuf, msg->plan);
    mkv_wbuf_put_u64(wbuf, msg->digest);
    mkv_wbuf_put_u64(wbuf, msg->bytes);
    mkv_msg_put_sel(&msg->sel, wbuf);
    mkv_wbuf_put_u32(wbuf, msg->num_units);
    for (i = 0; i < msg->num_units; ++i) {
        mkv_wbuf_put_u32(wbuf, msg->units[i].component);
        mkv_wbuf_put_u32(wbuf, msg->units[i].num);
        mkv_wbuf_put(wbuf, msg->units[i].ids,
                     (size_t)msg->units[i].num * MKV_RUN_BYTES);
    }
}

void mkv_msg_get_pull(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    mkv_wire_units_t *units;
    uint32_t i;

    msg->serial = mkv_rbuf_get_u32(rbuf);
    msg->plan = mkv_rbuf_get_u64(rbuf);
    msg->digest = mkv_rbuf_get_u64(rbuf);
    msg->bytes = mkv_rbuf_get_u64(rbuf);
    mkv_msg_get_sel(rbuf, &msg->sel);
    msg->num_units = mkv_rbuf_get_u32(rbuf);
    if ((msg->num_units > MKV_MAX_COMPONENTS) || (msg->plan == 0)) {
        rbuf->is_bad = true;
        return;
    }
    for (i = 0; i < msg->num_units; ++i) {
        units = &msg->units[i];
        units->component = mkv_rbuf_get_u32(rbuf);
        units->expect = 0;
        units->num = mkv_rbuf_get_u32(rbuf);
        units->ids = mkv_rbuf_get(rbuf, (size_t)units->num * MKV_RUN_BYTES);
        rbuf->is_bad |= (units->component >= MKV_MAX_COMPONENTS);
    }
}

void mkv_msg_put_pulled(const mkv_msg_t *msg, mkv_wbuf_t *wbuf)
{
    mkv_wbuf_put_u32(wbuf, msg->serial);
    mkv_wbuf_put_u32(wbuf, (uint32_t)msg->code);
    mkv_wbuf_put_u64(wbuf, msg->bytes);
}

void mkv_msg_get_pulled(mkv_rbuf_t *rbuf, mkv_msg_t *msg)
{
    msg->serial = mkv_rbuf_get_u32(rbuf);
    msg->code = (int32_t)mkv_rbuf_get_u32(rbuf);
    msg->bytes = mkv_rbuf_get_u64(rbuf);
    rbuf->is_bad |= (msg->code > MKV_OK);
}

void mkv_wire_run(const uint8_t *runs, size_t index, mkv_run_t *run)
{
    runs += index * MKV_RUN_BYTES;
    run->local = mkv_wire_word(runs, 0);
    run->remote = mkv_wire_word(runs, 1);
    run->count = mkv_wire_word(runs, 2);
    run->pos = mkv_wire_word(runs, 3);
}
