/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/conformance/ct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CT_GUARD 64 /* bytes on each side of a piece that must not change */
#define CT_SEED_DATA 11
#define CT_SEED_GUARD 22


static void ct_comp_call(uct_completion_t *comp)
{
    ++ucs_container_of(comp, ct_comp_t, uct)->num_calls;
}

void ct_comp_init(ct_comp_t *comp)
{
    comp->uct.func = ct_comp_call;
    comp->uct.count = 1;
    comp->uct.status = UCS_OK;
    comp->num_calls = 0;
}

size_t ct_op_max(const ct_t *ct, ct_op_t op)
{
    switch (op) {
    case CT_PUT_SHORT:
        return ct->side.attr.cap.put.max_short;
    case CT_PUT_BCOPY:
        return ct->side.attr.cap.put.max_bcopy;
    case CT_PUT_ZCOPY:
    case CT_PUT_SGL:
        return ct->side.attr.cap.put.max_zcopy;
    case CT_GET_SHORT:
        return ct->side.attr.cap.get.max_short;
    case CT_GET_BCOPY:
        return ct->side.attr.cap.get.max_bcopy;
    default:
        return ct->side.attr.cap.get.max_zcopy;
    }
}

size_t ct_op_min(const ct_t *ct, ct_op_t op)
{
    if (op == CT_PUT_ZCOPY) {
        return ct->side.attr.cap.put.min_zcopy;
    }

    return (op == CT_GET_ZCOPY) ? ct->side.attr.cap.get.min_zcopy : 0;
}

int ct_op_is_get(ct_op_t op)
{
    return (op == CT_GET_SHORT) || (op == CT_GET_BCOPY) || (op == CT_GET_ZCOPY) ||
           (op == CT_GET_SGL);
}

static int ct_op_is_zcopy(ct_op_t op)
{
    return (op == CT_PUT_ZCOPY) || (op == CT_GET_ZCOPY) || (op == CT_PUT_SGL) ||
           (op == CT_GET_SGL);
}

ucs_memory_type_t ct_op_local_type(const ct_t *ct, ct_op_t op)
{
    return ct_op_is_zcopy(op) ? ct->variant->local_type : UCS_MEMORY_TYPE_HOST;
}

typedef struct ct_copy {
    const void *from;
    void *to;
    size_t length;
} ct_copy_t;

static size_t ct_pack(void *dest, void *arg)
{
    const ct_copy_t *copy = arg;

    memcpy(dest, copy->from, copy->length);
    return copy->length;
}

/* The argument of a buffered get is the destination, which outlives the call. */
static void ct_unpack(void *arg, const void *data, size_t length)
{
    memcpy(arg, data, length);
}

static ucs_status_t ct_post_sgl(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                                const ct_remote_t *remote, const ct_piece_t *pieces,
                                size_t count, ct_comp_t *comp)
{
    ct_sgl_func_t func = uct_ep_put_sgl_zcopy;
    size_t *lengths = calloc(count + 1, sizeof(*lengths));
    void **buffers = calloc(count + 1, sizeof(*buffers));
    uct_mem_h *memhs = calloc(count + 1, sizeof(*memhs));
    uint64_t *addrs = calloc(count + 1, sizeof(*addrs));
    uct_rkey_t *rkeys = calloc(count + 1, sizeof(*rkeys));
    size_t *counts = calloc(count + 1, sizeof(*counts));
    size_t *strides = calloc(count + 1, sizeof(*strides));
    int has_counts = 0;
    ucs_status_t status;
    size_t i;

#if UCT_VERNO_MINOR >= 23
    func = (op == CT_GET_SGL) ? uct_ep_get_sgl_zcopy : func;
#else
    (void)op;
#endif
    for (i = 0; i < count; ++i) {
        lengths[i] = pieces[i].length;
        buffers[i] = (char *)local->addr + pieces[i].local_offset;
        memhs[i] = local->memh;
        addrs[i] = remote->addr + pieces[i].remote_offset;
        rkeys[i] = remote->rkey.rkey;
        counts[i] = 1 + pieces[i].repeats;
        strides[i] = pieces[i].stride;
        has_counts |= (pieces[i].repeats > 0);
    }

    status =
        func(ct->ep, buffers, lengths, memhs, addrs, rkeys, has_counts ? counts : NULL,
             has_counts ? strides : NULL, count, &comp->uct);
    /* The arrays belong to the caller again as soon as the call returns; the
     * poison shows a transport that keeps pointers into them. */
    memset(lengths, 0xee, count * sizeof(*lengths));
    memset(buffers, 0xee, count * sizeof(*buffers));
    memset(memhs, 0xee, count * sizeof(*memhs));
    memset(addrs, 0xee, count * sizeof(*addrs));
    memset(rkeys, 0xee, count * sizeof(*rkeys));
    memset(counts, 0xee, count * sizeof(*counts));
    memset(strides, 0xee, count * sizeof(*strides));
    free(counts);
    free(strides);
    free(lengths);
    free(buffers);
    free(memhs);
    free(addrs);
    free(rkeys);
    return status;
}

static ucs_status_t ct_post_iov(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                                const ct_remote_t *remote, const ct_piece_t *pieces,
                                size_t count, ct_comp_t *comp)
{
    uint64_t addr = remote->addr + pieces[0].remote_offset;
    uct_iov_t *iov = calloc(count, sizeof(*iov));
    ucs_status_t status;
    size_t i;

    for (i = 0; i < count; ++i) {
        iov[i].buffer = (char *)local->addr + pieces[i].local_offset;
        iov[i].length = pieces[i].length;
        iov[i].memh = local->memh;
        iov[i].count = 1;
    }

    if (op == CT_PUT_ZCOPY) {
        status =
            uct_ep_put_zcopy(ct->ep, iov, count, addr, remote->rkey.rkey, &comp->uct);
    } else {
        status =
            uct_ep_get_zcopy(ct->ep, iov, count, addr, remote->rkey.rkey, &comp->uct);
    }

    free(iov);
    return status;
}

ucs_status_t ct_post_list(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                          const ct_remote_t *remote, const ct_piece_t *pieces,
                          size_t count, ct_comp_t *comp)
{
    if ((op == CT_PUT_SGL) || (op == CT_GET_SGL)) {
        return ct_post_sgl(ct, op, local, remote, pieces, count, comp);
    }

    if (ct_op_is_zcopy(op)) {
        return ct_post_iov(ct, op, local, remote, pieces, count, comp);
    }

    ck_assert_uint_eq(count, 1);
    return ct_post(ct, op, local, remote, pieces, comp);
}

ucs_status_t ct_post(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                     const ct_remote_t *remote, const ct_piece_t *piece,
                     ct_comp_t *comp)
{
    char *here = (char *)local->addr + piece->local_offset;
    ct_copy_t copy = {.from = here, .length = piece->length};
    uint64_t addr = remote->addr + piece->remote_offset;
    ssize_t packed;

    switch (op) {
    case CT_PUT_SHORT:
        return uct_ep_put_short(ct->ep, here, (unsigned)piece->length, addr,
                                remote->rkey.rkey);
    case CT_PUT_BCOPY:
        packed = uct_ep_put_bcopy(ct->ep, ct_pack, &copy, addr, remote->rkey.rkey);
        ck_assert_msg((packed < 0) || (packed == (ssize_t)piece->length),
                      "put of %zu bytes says %zd", piece->length, packed);
        return (packed < 0) ? (ucs_status_t)packed : UCS_OK;
    case CT_GET_SHORT:
        return uct_ep_get_short(ct->ep, here, (unsigned)piece->length, addr,
                                remote->rkey.rkey);
    case CT_GET_BCOPY:
        return uct_ep_get_bcopy(ct->ep, ct_unpack, here, piece->length, addr,
                                remote->rkey.rkey, &comp->uct);
    default:
        return ct_post_list(ct, op, local, remote, piece, 1, comp);
    }
}

typedef struct ct_end {
    ct_t *ct;
    ct_comp_t *comp;
} ct_end_t;

static int ct_is_ended(void *arg)
{
    const ct_end_t *end = arg;

    return end->comp->num_calls > 0;
}

ucs_status_t ct_do(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                   const ct_remote_t *remote, const ct_piece_t *pieces, size_t count)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ct_comp_t comp;
    ct_end_t end = {.ct = ct, .comp = &comp};
    ucs_status_t status;

    ct_comp_init(&comp);
    while ((status = ct_post_list(ct, op, local, remote, pieces, count, &comp)) ==
           UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "no resources in time");
    }

    if (status == UCS_INPROGRESS) {
        ct_wait(ct, ct_is_ended, &end, "a completion");
        status = comp.uct.status;
    } else {
        ck_assert_uint_eq(comp.num_calls, 0); /* an immediate end has no callback */
    }

    if (status == UCS_OK) {
        status = ct_flush(ct, UCT_FLUSH_FLAG_LOCAL);
    }

    ck_assert_uint_le(comp.num_calls, 1);
    return (ct->side.events.num_ep_errors > 0) ? ct->side.events.ep_status : status;
}

void ct_warm_up(ct_t *ct, ct_op_t op, const ct_mem_t *local, const ct_remote_t *remote)
{
    const ct_piece_t piece = {.length = 1};

    ck_assert_int_eq(ct_do(ct, op, local, remote, &piece, 1), UCS_OK);
}

ucs_status_t ct_flush(ct_t *ct, unsigned flags)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ct_comp_t comp;
    ct_end_t end = {.ct = ct, .comp = &comp};
    ucs_status_t status;

    ct_comp_init(&comp);
    while ((status = uct_ep_flush(ct->ep, flags, &comp.uct)) == UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "no resources to flush in time");
    }

    if (status != UCS_INPROGRESS) {
        ck_assert_uint_eq(comp.num_calls, 0);
        return status;
    }

    ct_wait(ct, ct_is_ended, &end, "the end of a flush");
    ck_assert_uint_eq(comp.num_calls, 1);
    return comp.uct.status;
}

/* Bytes of the guard that are inside the memory. */
static size_t ct_guard_length(size_t offset, size_t length, size_t size, int is_after)
{
    size_t room = is_after ? size - offset - length : offset;

    return (room < CT_GUARD) ? room : CT_GUARD;
}

static void ct_expect_local(const ct_mem_t *local, const ct_piece_t *piece)
{
    size_t before =
        ct_guard_length(piece->local_offset, piece->length, local->length, 0);
    size_t after =
        ct_guard_length(piece->local_offset, piece->length, local->length, 1);
    size_t end = piece->local_offset + piece->length;

    ck_assert_uint_eq(
        ct_mem_check(local, piece->local_offset, piece->length, CT_SEED_DATA, 0),
        piece->length);
    ck_assert_uint_eq(
        ct_mem_check(local, piece->local_offset - before, before, CT_SEED_GUARD, 0),
        before);
    ck_assert_uint_eq(ct_mem_check(local, end, after, CT_SEED_GUARD, before), after);
}

static void ct_expect_remote(ct_t *ct, const ct_remote_t *remote,
                             const ct_piece_t *piece)
{
    size_t before =
        ct_guard_length(piece->remote_offset, piece->length, remote->length, 0);
    size_t after =
        ct_guard_length(piece->remote_offset, piece->length, remote->length, 1);
    size_t end = piece->remote_offset + piece->length;

    ck_assert_uint_eq(ct_cmd(ct, CT_CMD_CHECK, remote->region, piece->remote_offset,
                             piece->length, CT_SEED_DATA, 0)
                          ->a[0],
                      piece->length);
    ck_assert_uint_eq(ct_cmd(ct, CT_CMD_CHECK, remote->region,
                             piece->remote_offset - before, before, CT_SEED_GUARD, 0)
                          ->a[0],
                      before);
    ck_assert_uint_eq(
        ct_cmd(ct, CT_CMD_CHECK, remote->region, end, after, CT_SEED_GUARD, before)
            ->a[0],
        after);
}

static void ct_prepare_local(const ct_mem_t *local, const ct_piece_t *piece,
                             int is_source)
{
    size_t before =
        ct_guard_length(piece->local_offset, piece->length, local->length, 0);
    size_t after =
        ct_guard_length(piece->local_offset, piece->length, local->length, 1);

    if (is_source) {
        ct_mem_fill(local, piece->local_offset, piece->length, CT_SEED_DATA, 0);
    } else {
        ct_mem_fill(local, piece->local_offset - before, before, CT_SEED_GUARD, 0);
        ct_mem_fill(local, piece->local_offset, piece->length, CT_SEED_DATA + 1, 0);
        ct_mem_fill(local, piece->local_offset + piece->length, after, CT_SEED_GUARD,
                    before);
    }
}

static void ct_prepare_remote(ct_t *ct, const ct_remote_t *remote,
                              const ct_piece_t *piece, int is_source)
{
    size_t before =
        ct_guard_length(piece->remote_offset, piece->length, remote->length, 0);
    size_t after =
        ct_guard_length(piece->remote_offset, piece->length, remote->length, 1);
    size_t end = piece->remote_offset + piece->length;

    ct_cmd(ct, CT_CMD_FILL, remote->region, piece->remote_offset, piece->length,
           is_source ? CT_SEED_DATA : CT_SEED_DATA + 1, 0);
    if (!is_source) {
        ct_cmd(ct, CT_CMD_FILL, remote->region, piece->remote_offset - before, before,
               CT_SEED_GUARD, 0);
        ct_cmd(ct, CT_CMD_FILL, remote->region, end, after, CT_SEED_GUARD, before);
    }
}

void ct_check_piece(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                    const ct_remote_t *remote, const ct_piece_t *piece)
{
    int is_get = ct_op_is_get(op);
    ucs_status_t status;

    ct_prepare_local(local, piece, !is_get);
    ct_prepare_remote(ct, remote, piece, is_get);

    status = ct_do(ct, op, local, remote, piece, 1);
    ck_assert_msg(status == UCS_OK, "%zu bytes from offset %zu to %zu: %s",
                  piece->length, is_get ? piece->remote_offset : piece->local_offset,
                  is_get ? piece->local_offset : piece->remote_offset,
                  ucs_status_string(status));

    if (is_get) {
        ct_expect_local(local, piece);
    } else {
        ct_expect_remote(ct, remote, piece);
    }
}
