/* SPDX-License-Identifier: BSD-3-Clause */

/* Atomic operations on the target's memory, those the interface lists. */

#include "test/conformance/ct.h"

#include <stdio.h>
#include <string.h>

#define CT_ATOMIC_OLD UINT64_C(0x1122334455667788)
#define CT_ATOMIC_ARG UINT64_C(0x0f0f00ff12340001)


static uint64_t ct_atomic_apply(uct_atomic_op_t op, uint64_t old, uint64_t arg)
{
    switch (op) {
    case UCT_ATOMIC_OP_ADD:
        return old + arg;
    case UCT_ATOMIC_OP_AND:
        return old & arg;
    case UCT_ATOMIC_OP_OR:
        return old | arg;
    case UCT_ATOMIC_OP_XOR:
        return old ^ arg;
    default:
        return arg; /* swap, and compare-swap that matches */
    }
}

static uint64_t ct_atomic_mask(size_t size)
{
    return (size == 8) ? UINT64_MAX : UINT32_MAX;
}

static void ct_atomic_set(ct_t *ct, const ct_remote_t *remote)
{
    ct_msg_t req = {.cmd = CT_CMD_WRITE, .a = {remote->region, 64}, .data_length = 8};
    uint64_t old = CT_ATOMIC_OLD;

    memcpy(req.data, &old, sizeof(old));
    ct_call(ct, &req);
}

static uint64_t ct_atomic_get(ct_t *ct, const ct_remote_t *remote)
{
    uint64_t value;

    memcpy(&value, ct_cmd(ct, CT_CMD_READ, remote->region, 64, 8, 0, 0)->data,
           sizeof(value));
    return value;
}

/* The bytes beside a 32-bit operation stay as they were. */
static uint64_t ct_atomic_merge(uint64_t value, size_t size)
{
    uint64_t mask = ct_atomic_mask(size);

    return (value & mask) | (CT_ATOMIC_OLD & ~mask);
}

static ucs_status_t ct_atomic_post(ct_t *ct, uct_atomic_op_t op, size_t size,
                                   const ct_remote_t *remote)
{
    uint64_t addr = remote->addr + 64;

    return (size == 8) ? uct_ep_atomic64_post(ct->ep, op, CT_ATOMIC_ARG, addr,
                                              remote->rkey.rkey)
                       : uct_ep_atomic32_post(ct->ep, op, (uint32_t)CT_ATOMIC_ARG, addr,
                                              remote->rkey.rkey);
}

static ucs_status_t ct_atomic_fetch(ct_t *ct, uct_atomic_op_t op, size_t size,
                                    const ct_remote_t *remote, uint64_t *result,
                                    ct_comp_t *comp)
{
    uint64_t addr = remote->addr + 64;
    uct_rkey_t rkey = remote->rkey.rkey;

    if (op == UCT_ATOMIC_OP_CSWAP) {
        return (size == 8) ? uct_ep_atomic_cswap64(ct->ep, CT_ATOMIC_OLD, CT_ATOMIC_ARG,
                                                   addr, rkey, result, &comp->uct)
                           : uct_ep_atomic_cswap32(ct->ep, (uint32_t)CT_ATOMIC_OLD,
                                                   (uint32_t)CT_ATOMIC_ARG, addr, rkey,
                                                   (uint32_t *)result, &comp->uct);
    }

    return (size == 8)
               ? uct_ep_atomic64_fetch(ct->ep, op, CT_ATOMIC_ARG, result, addr, rkey,
                                       &comp->uct)
               : uct_ep_atomic32_fetch(ct->ep, op, (uint32_t)CT_ATOMIC_ARG,
                                       (uint32_t *)result, addr, rkey, &comp->uct);
}

static void ct_atomic_try_post(ct_t *ct, uct_atomic_op_t op, size_t size,
                               const ct_remote_t *remote)
{
    ucs_status_t status;

    ct_atomic_set(ct, remote);
    while ((status = ct_atomic_post(ct, op, size, remote)) == UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
    }
    ck_assert_msg(!UCS_STATUS_IS_ERR(status), "operation %d: %s", op,
                  ucs_status_string(status));
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    ck_assert_uint_eq(
        ct_atomic_get(ct, remote),
        ct_atomic_merge(ct_atomic_apply(op, CT_ATOMIC_OLD, CT_ATOMIC_ARG), size));
}

static void ct_atomic_try_fetch(ct_t *ct, uct_atomic_op_t op, size_t size,
                                const ct_remote_t *remote)
{
    uint64_t result = 0;
    ucs_status_t status;
    ct_comp_t comp;

    ct_atomic_set(ct, remote);
    ct_comp_init(&comp);
    while ((status = ct_atomic_fetch(ct, op, size, remote, &result, &comp)) ==
           UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
    }
    ck_assert_msg(!UCS_STATUS_IS_ERR(status), "operation %d: %s", op,
                  ucs_status_string(status));
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    ck_assert_uint_eq(comp.num_calls, status == UCS_INPROGRESS);
    ck_assert_uint_eq(result, CT_ATOMIC_OLD & ct_atomic_mask(size));
    ck_assert_uint_eq(
        ct_atomic_get(ct, remote),
        ct_atomic_merge(ct_atomic_apply(op, CT_ATOMIC_OLD, CT_ATOMIC_ARG), size));
}

static void atomics_have_their_defined_results(ct_t *ct)
{
    const uct_iface_attr_t *attr = &ct->side.attr;
    const uint64_t posts[] = {attr->cap.atomic32.op_flags, attr->cap.atomic64.op_flags};
    const uint64_t fetches[] = {attr->cap.atomic32.fop_flags,
                                attr->cap.atomic64.fop_flags};
    unsigned num = 0, i;
    ct_remote_t remote;
    int op;

    if ((posts[0] | posts[1] | fetches[0] | fetches[1]) == 0) {
        snprintf(ct->skip, sizeof(ct->skip), "the transport claims no atomics");
        return;
    }

    ct_connect(ct);
    ct_remote_create(ct, 4096, 0, &remote);
    for (i = 0; i < 2; ++i) {
        for (op = 0; op < UCT_ATOMIC_OP_LAST; ++op) {
            if (posts[i] & UCS_BIT(op)) {
                ct_atomic_try_post(ct, (uct_atomic_op_t)op, (i + 1) * 4, &remote);
                ++num;
            }
            if (fetches[i] & UCS_BIT(op)) {
                ct_atomic_try_fetch(ct, (uct_atomic_op_t)op, (i + 1) * 4, &remote);
                ++num;
            }
        }
    }

    ct_remote_destroy(ct, &remote);
    snprintf(ct->covered, sizeof(ct->covered), "%u operations of 32 and 64 bits", num);
}


const ct_case_t ct_cases_atomic[] = {
    {"atomics_have_their_defined_results", .run = atomics_have_their_defined_results},
    {NULL}};
