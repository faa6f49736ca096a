/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Limits of an interface: those that it reports, ids, and the null and invalid handles
 * that UCT allows. An operation beyond a limit is refused before anything is posted,
 * and the endpoint works as before.
 */

#include "test/conformance/ct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CT_LIMIT_MAX_IOV 64
#define CT_LIMIT_MAX_LENGTH ((size_t)1 << 20)


typedef struct ct_limit {
    ct_mem_t local;
    ct_remote_t remote;
} ct_limit_t;

static void ct_limit_open(ct_t *ct, ct_limit_t *limit)
{
    ct_connect(ct);
    ct_remote_create(ct, CT_LIMIT_MAX_LENGTH, 0, &limit->remote);
    ck_assert_int_eq(ct_mem_create(&ct->side, CT_LIMIT_MAX_LENGTH,
                                   ct->variant->local_type, &limit->local),
                     UCS_OK);
}

static void ct_limit_close(ct_t *ct, ct_limit_t *limit)
{
    ct_mem_destroy(&ct->side, &limit->local);
    ct_remote_destroy(ct, &limit->remote);
}

static int ct_limit_has(const ct_t *ct, uint64_t flag)
{
    return (ct->side.attr.cap.flags & flag) != 0;
}

static void ct_limit_expect(ucs_status_t status, const char *what)
{
    ck_assert_msg(status == UCS_ERR_INVALID_PARAM, "%s: %s", what,
                  ucs_status_string(status));
}

/* A vector of @a count blocks of @a length bytes. */
static ucs_status_t ct_limit_vector(ct_t *ct, const ct_limit_t *limit, size_t length,
                                    size_t count, int is_get)
{
    uct_iov_t iov[CT_LIMIT_MAX_IOV];
    size_t i;

    for (i = 0; i < count; ++i) {
        iov[i].buffer = (char *)limit->local.addr + i * length;
        iov[i].length = length;
        iov[i].memh = limit->local.memh;
        iov[i].stride = 0;
        iov[i].count = 1;
    }
    return is_get ? uct_ep_get_zcopy(ct->ep, iov, count, limit->remote.addr,
                                     limit->remote.rkey.rkey, NULL)
                  : uct_ep_put_zcopy(ct->ep, iov, count, limit->remote.addr,
                                     limit->remote.rkey.rkey, NULL);
}

static void ct_limit_check_zcopy(ct_t *ct, ct_limit_t *limit, int is_get)
{
    const uct_iface_attr_t *attr = &ct->side.attr;
    const size_t max_iov = is_get ? attr->cap.get.max_iov : attr->cap.put.max_iov;
    const size_t max = is_get ? attr->cap.get.max_zcopy : attr->cap.put.max_zcopy;

    if (max_iov < CT_LIMIT_MAX_IOV) {
        ct_limit_expect(ct_limit_vector(ct, limit, 8, max_iov + 1, is_get),
                        "too many blocks");
    }
    if (max < CT_LIMIT_MAX_LENGTH) {
        ct_limit_expect(ct_limit_vector(ct, limit, max + 1, 1, is_get),
                        "too many bytes");
    }
}

static void transfer_over_a_limit_is_refused(ct_t *ct)
{
    const size_t max_short = ct->side.attr.cap.put.max_short;
    ct_limit_t limit;
    void *bytes;

    ct_limit_open(ct, &limit);
    if (ct_limit_has(ct, UCT_IFACE_FLAG_PUT_ZCOPY)) {
        ct_limit_check_zcopy(ct, &limit, 0);
    }
    if (ct_limit_has(ct, UCT_IFACE_FLAG_GET_ZCOPY)) {
        ct_limit_check_zcopy(ct, &limit, 1);
    }
    if (ct_limit_has(ct, UCT_IFACE_FLAG_PUT_SHORT) &&
        (max_short < CT_LIMIT_MAX_LENGTH)) {
        bytes = calloc(1, max_short + 1);
        ck_assert_ptr_nonnull(bytes);
        ct_limit_expect(uct_ep_put_short(ct->ep, bytes, (unsigned)max_short + 1,
                                         limit.remote.addr, limit.remote.rkey.rkey),
                        "short put");
        free(bytes);
    }
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    ct_limit_close(ct, &limit);
    snprintf(ct->covered, sizeof(ct->covered), "blocks, bytes, short puts");
}

/* One entry for several blocks. */
static void block_with_repetitions_is_refused(ct_t *ct)
{
    uct_iov_t iov = {.length = 8, .stride = 64, .count = 2};
    ct_limit_t limit;

    ct_limit_open(ct, &limit);
    iov.buffer = limit.local.addr;
    iov.memh = limit.local.memh;
    if (ct_limit_has(ct, UCT_IFACE_FLAG_PUT_ZCOPY)) {
        ct_limit_expect(uct_ep_put_zcopy(ct->ep, &iov, 1, limit.remote.addr,
                                         limit.remote.rkey.rkey, NULL),
                        "put");
    }
    if (ct_limit_has(ct, UCT_IFACE_FLAG_GET_ZCOPY)) {
        ct_limit_expect(uct_ep_get_zcopy(ct->ep, &iov, 1, limit.remote.addr,
                                         limit.remote.rkey.rkey, NULL),
                        "get");
    }
    if (ct_limit_has(ct, UCT_IFACE_FLAG_AM_SHORT)) {
        ct_limit_expect(uct_ep_am_short_iov(ct->ep, CT_AM_ID, &iov, 1), "message");
    }
    if (ct_limit_has(ct, UCT_IFACE_FLAG_AM_ZCOPY)) {
        ct_limit_expect(uct_ep_am_zcopy(ct->ep, CT_AM_ID, NULL, 0, &iov, 1, 0, NULL),
                        "zcopy message");
    }
    ct_limit_close(ct, &limit);
    snprintf(ct->covered, sizeof(ct->covered), "puts, gets and messages");
}

static size_t ct_limit_pack(void *dest, void *arg)
{
    memset(dest, 0, *(size_t *)arg);
    return *(size_t *)arg;
}

static void message_over_a_limit_is_refused(ct_t *ct)
{
    const uct_iface_attr_t *attr = &ct->side.attr;
    const size_t length = attr->cap.am.max_short;
    char *bytes = calloc(1, length + 1);
    size_t none = 0;

    ck_assert_ptr_nonnull(bytes);
    ct_connect(ct);
    ct_limit_expect(uct_ep_am_short(ct->ep, UCT_AM_ID_MAX, 0, NULL, 0), "short id");
    ct_limit_expect(uct_ep_am_short(ct->ep, CT_AM_ID, 0, bytes,
                                    (unsigned)(length - sizeof(uint64_t) + 1)),
                    "short message");
    if (ct_limit_has(ct, UCT_IFACE_FLAG_AM_BCOPY)) {
        ct_limit_expect((ucs_status_t)uct_ep_am_bcopy(ct->ep, UCT_AM_ID_MAX,
                                                      ct_limit_pack, &none, 0),
                        "bcopy id");
    }
    if (ct_limit_has(ct, UCT_IFACE_FLAG_AM_ZCOPY)) {
        ct_limit_expect(
            uct_ep_am_zcopy(ct->ep, UCT_AM_ID_MAX, NULL, 0, NULL, 0, 0, NULL),
            "zcopy id");
        ct_limit_expect(uct_ep_am_zcopy(ct->ep, CT_AM_ID, bytes,
                                        (unsigned)attr->cap.am.max_hdr + 1, NULL, 0, 0,
                                        NULL),
                        "zcopy header");
    }
    free(bytes);
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    snprintf(ct->covered, sizeof(ct->covered), "ids, lengths, headers");
}

/* ---- handles ---- */

static size_t ct_limit_unpack_calls;

static void ct_limit_unpack(void *arg, const void *data, size_t length)
{
    (void)arg;
    (void)data;
    (void)length;
    ct_limit_unpack_calls++;
}

typedef enum ct_nothing {
    CT_NOTHING_PUT_SHORT,
    CT_NOTHING_PUT_BCOPY,
    CT_NOTHING_PUT_ZCOPY,
    CT_NOTHING_GET_BCOPY,
    CT_NOTHING_GET_ZCOPY,
    CT_NUM_NOTHINGS
} ct_nothing_t;

static const uint64_t ct_nothing_flags[] = {
    UCT_IFACE_FLAG_PUT_SHORT, UCT_IFACE_FLAG_PUT_BCOPY, UCT_IFACE_FLAG_PUT_ZCOPY,
    UCT_IFACE_FLAG_GET_BCOPY, UCT_IFACE_FLAG_GET_ZCOPY};

static ucs_status_t ct_limit_post_nothing(ct_t *ct, ct_nothing_t what)
{
    const uct_rkey_t rkey = UCT_INVALID_RKEY;
    const uct_iov_t iov = {.count = 1};
    const uint64_t addr = 4096;
    size_t none = 0;

    switch (what) {
    case CT_NOTHING_PUT_SHORT:
        return uct_ep_put_short(ct->ep, NULL, 0, addr, rkey);
    case CT_NOTHING_PUT_BCOPY:
        return (ucs_status_t)uct_ep_put_bcopy(ct->ep, ct_limit_pack, &none, addr, rkey);
    case CT_NOTHING_PUT_ZCOPY:
        return uct_ep_put_zcopy(ct->ep, &iov, 1, addr, rkey, NULL);
    case CT_NOTHING_GET_BCOPY:
        return uct_ep_get_bcopy(ct->ep, ct_limit_unpack, NULL, 0, addr, rkey, NULL);
    default:
        return uct_ep_get_zcopy(ct->ep, &iov, 1, addr, rkey, NULL);
    }
}

/* A key of no bytes may be absent. */
static void transfer_of_nothing_needs_no_key(ct_t *ct)
{
    const uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;
    unsigned i;

    ct_connect(ct);
    for (i = 0; i < CT_NUM_NOTHINGS; ++i) {
        if (!ct_limit_has(ct, ct_nothing_flags[i])) {
            continue;
        }
        while ((status = ct_limit_post_nothing(ct, (ct_nothing_t)i)) ==
               UCS_ERR_NO_RESOURCE) {
            ct_progress(ct);
            ck_assert_msg(mkv_test_now_ms() < deadline, "no resources in time");
        }
        ck_assert_msg(!UCS_STATUS_IS_ERR(status), "operation %u: %s", i,
                      ucs_status_string(status));
    }
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    snprintf(ct->covered, sizeof(ct->covered), "every put and get there is");
}

/* Done or refused, as a whole. */
static void list_with_nothing_in_it_fails_no_peer(ct_t *ct)
{
    const uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    void *buffers[2] = {NULL, NULL};
    size_t lengths[2] = {0, 64};
    uct_mem_h memhs[2] = {NULL, NULL};
    uct_rkey_t rkeys[2] = {UCT_INVALID_RKEY, UCT_INVALID_RKEY};
    uint64_t addrs[2] = {0, 0};
    ucs_status_t status;
    ct_limit_t limit;
    ct_comp_t comp;

    ct_limit_open(ct, &limit);
    buffers[1] = limit.local.addr;
    memhs[1] = limit.local.memh;
    rkeys[1] = limit.remote.rkey.rkey;
    addrs[1] = limit.remote.addr;
    ct_comp_init(&comp);
    while ((status = uct_ep_put_sgl_zcopy(ct->ep, buffers, lengths, memhs, addrs, rkeys,
                                          NULL, NULL, 2, &comp.uct)) ==
           UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "no resources in time");
    }
    if (UCS_STATUS_IS_ERR(status)) {
        ct_limit_expect(status, "list");
    }
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    ct_limit_close(ct, &limit);
    snprintf(ct->covered, sizeof(ct->covered), "a block of no bytes, one of 64: %s",
             UCS_STATUS_IS_ERR(status) ? "refused" : "done");
}

static void ct_limit_expect_error(ct_t *ct, ucs_status_t status, const char *what)
{
    if (status == UCS_INPROGRESS) { /* the device fails the endpoint */
        ck_assert_msg(UCS_STATUS_IS_ERR(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL)),
                      "%s did not fail", what);
        ct->is_hurt = 1;
        return;
    }
    ct_limit_expect(status, what);
}

/* Promise of UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF: an error, and no more. */
static void local_memory_outside_its_handle_is_an_error(ct_t *ct)
{
    ct_limit_t limit;
    uct_iov_t iov = {.length = 4096, .count = 1};
    uint64_t addr;

    ct_limit_open(ct, &limit);
    addr = (uintptr_t)limit.local.addr + 4 * CT_LIMIT_MAX_LENGTH;
    iov.buffer = (void *)(uintptr_t)addr;
    iov.memh = limit.local.memh;
    ct_limit_expect_error(ct,
                          uct_ep_put_zcopy(ct->ep, &iov, 1, limit.remote.addr,
                                           limit.remote.rkey.rkey, NULL),
                          "put from outside");
    ct_limit_close(ct, &limit);
    snprintf(ct->covered, sizeof(ct->covered), "a put from beyond the region");
}

static void zero_copy_message_without_a_handle_is_an_error(ct_t *ct)
{
    uct_iov_t iov = {.length = 64, .count = 1};
    char bytes[64] = "";

    if (!(ct->side.md_attr.cap.flags & UCT_MD_FLAG_NEED_MEMH)) {
        snprintf(ct->skip, sizeof(ct->skip), "the domain needs no handles");
        return;
    }

    ct_connect(ct);
    iov.buffer = bytes;
    ct_limit_expect(uct_ep_am_zcopy(ct->ep, CT_AM_ID, NULL, 0, &iov, 1, 0, NULL),
                    "message without a handle");
    snprintf(ct->covered, sizeof(ct->covered), "a block without a handle");
}

/* UCP asserts in ucp_wireup_ep_connect() that a failure leaves no endpoint behind. */
static void endpoint_that_cannot_be_made_is_null(ct_t *ct)
{
    const uct_ep_params_t params = {.iface = ct->side.iface}; /* no field is valid */
    const int not_an_ep = 0;
    uct_ep_h ep = (uct_ep_h)&not_an_ep;
    ucs_status_t status = ct->side.iface->ops.ep_create(&params, &ep);

    if (status == UCS_OK) {
        uct_ep_destroy(ep);
        snprintf(ct->skip, sizeof(ct->skip), "an endpoint needs no address");
        return;
    }
    ck_assert_msg(ep == NULL, "%s leaves an endpoint", ucs_status_string(status));
    snprintf(ct->covered, sizeof(ct->covered), "no address: %s",
             ucs_status_string(status));
}


const ct_case_t ct_cases_limit[] = {
    {"endpoint_that_cannot_be_made_is_null", .traits = CT_TRAIT_CHECKED_KEYS,
     .run = endpoint_that_cannot_be_made_is_null},
    {"transfer_over_a_limit_is_refused", .traits = CT_TRAIT_CHECKED_KEYS,
     .run = transfer_over_a_limit_is_refused},
    {"block_with_repetitions_is_refused", .traits = CT_TRAIT_CHECKED_KEYS,
     .run = block_with_repetitions_is_refused},
    {"message_over_a_limit_is_refused", .flags = UCT_IFACE_FLAG_AM_SHORT,
     .traits = CT_TRAIT_CHECKED_KEYS, .run = message_over_a_limit_is_refused},
    {"transfer_of_nothing_needs_no_key", .run = transfer_of_nothing_needs_no_key},
    {"list_with_nothing_in_it_fails_no_peer", .v2_flags = CT_V2_PUT_SGL,
     .run = list_with_nothing_in_it_fails_no_peer},
    {"local_memory_outside_its_handle_is_an_error",
     .flags = UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF,
     .traits = CT_TRAIT_CHECKED_KEYS | CT_TRAIT_OTHER_PROCESS | CT_TRAIT_REG,
     .run = local_memory_outside_its_handle_is_an_error},
    {"zero_copy_message_without_a_handle_is_an_error", .flags = UCT_IFACE_FLAG_AM_ZCOPY,
     .traits = CT_TRAIT_CHECKED_KEYS,
     .run = zero_copy_message_without_a_handle_is_an_error},
    {NULL}};
