/* SPDX-License-Identifier: BSD-3-Clause */

/* Active messages: every length, order, descriptors kept by the receiver. */

#include "test/conformance/ct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


typedef enum ct_am { CT_AM_SHORT, CT_AM_BCOPY, CT_AM_ZCOPY } ct_am_t;

/* Longest payload after the 8 bytes of the seed. */
static size_t ct_am_max(const ct_t *ct, ct_am_t kind)
{
    const uct_iface_attr_t *attr = &ct->side.attr;

    switch (kind) {
    case CT_AM_SHORT:
        return attr->cap.am.max_short - sizeof(uint64_t);
    case CT_AM_BCOPY:
        return attr->cap.am.max_bcopy - sizeof(uint64_t);
    default:
        return attr->cap.am.max_zcopy - sizeof(uint64_t);
    }
}

typedef struct ct_am_source {
    uint64_t seed;
    const void *payload;
    size_t length;
} ct_am_source_t;

static size_t ct_am_pack(void *dest, void *arg)
{
    const ct_am_source_t *source = arg;

    memcpy(dest, &source->seed, sizeof(source->seed));
    memcpy((char *)dest + sizeof(source->seed), source->payload, source->length);
    return sizeof(source->seed) + source->length;
}

/* The header travels in the message if the transport takes one of 8 bytes,
 * otherwise it is the first piece of the vector. */
static ucs_status_t ct_am_post_zcopy(ct_t *ct, const ct_mem_t *mem, uint64_t seed,
                                     size_t length, ct_comp_t *comp)
{
    uct_iov_t iov = {.buffer = mem->addr, .memh = mem->memh, .count = 1};

    if (ct->side.attr.cap.am.max_hdr >= sizeof(seed)) {
        iov.buffer = (char *)mem->addr + sizeof(seed);
        iov.length = length;
        return uct_ep_am_zcopy(ct->ep, CT_AM_ID, &seed, sizeof(seed), &iov, 1, 0,
                               &comp->uct);
    }

    iov.length = sizeof(seed) + length;
    return uct_ep_am_zcopy(ct->ep, CT_AM_ID, NULL, 0, &iov, 1, 0, &comp->uct);
}

static ucs_status_t ct_am_post(ct_t *ct, ct_am_t kind, const ct_mem_t *mem,
                               uint64_t seed, size_t length, ct_comp_t *comp)
{
    ct_am_source_t source = {
        .seed = seed, .payload = (char *)mem->addr + sizeof(seed), .length = length};
    ssize_t packed;

    switch (kind) {
    case CT_AM_SHORT:
        return uct_ep_am_short(ct->ep, CT_AM_ID, seed, source.payload,
                               (unsigned)length);
    case CT_AM_BCOPY:
        packed = uct_ep_am_bcopy(ct->ep, CT_AM_ID, ct_am_pack, &source, 0);
        ck_assert((packed < 0) || (packed == (ssize_t)(length + sizeof(seed))));
        return (packed < 0) ? (ucs_status_t)packed : UCS_OK;
    default:
        return ct_am_post_zcopy(ct, mem, seed, length, comp);
    }
}

/* The memory must not change before a zero-copy message has left it. */
static void ct_am_send(ct_t *ct, ct_am_t kind, const ct_mem_t *mem, uint64_t seed,
                       size_t length)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;
    ct_comp_t comp;

    ck_assert(ct_mem_write(mem, 0, &seed, sizeof(seed)));
    ck_assert(ct_mem_fill(mem, sizeof(seed), length, seed, 0));
    ct_comp_init(&comp);
    while ((status = ct_am_post(ct, kind, mem, seed, length, &comp)) ==
           UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "no resources in time");
    }

    ck_assert_msg(!UCS_STATUS_IS_ERR(status), "message of %zu bytes: %s", length,
                  ucs_status_string(status));
    while ((status == UCS_INPROGRESS) && (comp.num_calls == 0)) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "no completion in time");
    }
    if (status == UCS_INPROGRESS) {
        ck_assert_int_eq(comp.uct.status, UCS_OK);
    }
}

static void ct_am_expect(ct_t *ct, uint64_t count, uint64_t bytes)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const ct_msg_t *rep;

    do {
        ct_progress(ct);
        rep = ct_cmd(ct, CT_CMD_AM_STATS, 0, 0, 0, 0, 0);
    } while ((rep->a[0] < count) && (mkv_test_now_ms() < deadline));

    ck_assert_uint_eq(rep->a[0], count);
    ck_assert_uint_eq(rep->a[1], bytes);
    ck_assert_uint_eq(rep->a[2], 0);
}

static void ct_am_any_length(ct_t *ct, ct_am_t kind)
{
    static const size_t lengths[] = {0,  1,   7,   8,   9,    31,   64,
                                     65, 100, 255, 256, 1000, 4000, 8000};
    size_t max = ct_am_max(ct, kind), space, i;
    uint64_t count = 0, bytes = 0;
    ct_mem_t mem;

    ct_connect(ct);
    space = (max < (1 << 20)) ? max : (1 << 20);
    ck_assert_int_eq(
        ct_mem_create(&ct->side, space + sizeof(uint64_t), UCS_MEMORY_TYPE_HOST, &mem),
        UCS_OK);
    for (i = 0; i <= CT_ARRAY_SIZE(lengths); ++i) {
        size_t length = (i < CT_ARRAY_SIZE(lengths)) ? lengths[i] : space;

        if (length <= space) {
            ct_am_send(ct, kind, &mem, 1000 + i, length);
            ++count;
            bytes += length;
        }
    }

    ct_am_expect(ct, count, bytes);
    ct_mem_destroy(&ct->side, &mem);
    snprintf(ct->covered, sizeof(ct->covered), "%zu messages, the longest %zu bytes",
             (size_t)count, space);
}

static void am_short_carries_any_length(ct_t *ct)
{
    ct_am_any_length(ct, CT_AM_SHORT);
}

static void am_bcopy_carries_any_length(ct_t *ct)
{
    ct_am_any_length(ct, CT_AM_BCOPY);
}

static void am_zcopy_carries_any_length(ct_t *ct)
{
    ct_am_any_length(ct, CT_AM_ZCOPY);
}

static size_t ct_am_pack_nothing(void *dest, void *arg)
{
    (void)dest;
    (void)arg;
    return 0;
}

static void empty_am_arrives(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const ct_msg_t *rep;
    ssize_t sent;

    ct_connect(ct);
    while ((sent = uct_ep_am_bcopy(ct->ep, CT_AM_ID_EMPTY, ct_am_pack_nothing, NULL,
                                   0)) == UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
        ck_assert(mkv_test_now_ms() < deadline);
    }
    ck_assert_int_eq(sent, 0);

    do {
        ct_progress(ct);
        rep = ct_cmd(ct, CT_CMD_AM_STATS, 0, 0, 0, 0, 0);
    } while ((rep->a[4] < 1) && (mkv_test_now_ms() < deadline));
    ck_assert_uint_eq(rep->a[4], 1);
    ck_assert_uint_eq(rep->a[2], 0);
    snprintf(ct->covered, sizeof(ct->covered), "one message without a byte");
}

/* Many more than any queue or credit window holds. */
static void many_messages_all_arrive(ct_t *ct)
{
    const uint64_t flags = ct->side.attr.cap.flags;
    size_t max = ct_am_max(ct, CT_AM_BCOPY), length;
    uint64_t bytes = 0, state = 5, i;
    const uint64_t count = 3000;
    ct_am_t kind = CT_AM_BCOPY;
    ct_mem_t mem;

    ct_connect(ct);
    max = (max < 2000) ? max : 2000;
    ck_assert_int_eq(
        ct_mem_create(&ct->side, max + sizeof(uint64_t), UCS_MEMORY_TYPE_HOST, &mem),
        UCS_OK);
    for (i = 0; i < count; ++i) {
        length = mkv_test_random(&state) % (max + 1);
        kind = CT_AM_BCOPY;
        if ((flags & UCT_IFACE_FLAG_AM_SHORT) &&
            (length <= ct_am_max(ct, CT_AM_SHORT)) && (i % 2 == 0)) {
            kind = CT_AM_SHORT;
        } else if ((flags & UCT_IFACE_FLAG_AM_ZCOPY) && (i % 3 == 0)) {
            kind = CT_AM_ZCOPY;
        }
        ct_am_send(ct, kind, &mem, i, length);
        bytes += length;
    }

    ct_am_expect(ct, count, bytes);
    ct_mem_destroy(&ct->side, &mem);
    snprintf(ct->covered, sizeof(ct->covered), "%zu messages, %zu bytes", (size_t)count,
             (size_t)bytes);
}

/*
 * The receiver may keep a message's buffer; it holds its bytes until released. Messages
 * of every length, as many as are kept, stop no sender.
 */
static void kept_messages_stay_whole(ct_t *ct)
{
    const size_t max = ct_am_max(ct, CT_AM_BCOPY);
    const uint64_t count = CT_MAX_KEPT;
    uint64_t num_kept, i, bytes = 0;
    const ct_msg_t *rep;
    ct_mem_t mem;

    ct_connect(ct);
    ck_assert_int_eq(
        ct_mem_create(&ct->side, max + sizeof(uint64_t), UCS_MEMORY_TYPE_HOST, &mem),
        UCS_OK);
    ct_cmd(ct, CT_CMD_AM_KEEP, 1, 0, 0, 0, 0);
    for (i = 0; i < count; ++i) {
        ct_am_send(ct, CT_AM_BCOPY, &mem, i, (i * 37) % (max + 1));
        bytes += (i * 37) % (max + 1);
    }
    ct_am_expect(ct, count, bytes);
    num_kept = ct_cmd(ct, CT_CMD_AM_STATS, 0, 0, 0, 0, 0)->a[3];
    ct_cmd(ct, CT_CMD_AM_KEEP, 0, 0, 0, 0, 0);

    for (i = 0; i < count; ++i) { /* and the transport goes on */
        ct_am_send(ct, CT_AM_BCOPY, &mem, count + i, 5);
    }
    ct_am_expect(ct, 2 * count, bytes + 5 * count);
    rep = ct_cmd(ct, CT_CMD_AM_STATS, 0, 0, 0, 0, 0);
    ck_assert_uint_eq(rep->a[2], 0);
    ct_mem_destroy(&ct->side, &mem);
    snprintf(ct->covered, sizeof(ct->covered), "%zu of %zu were kept", (size_t)num_kept,
             (size_t)count);
}

/* UCP makes an endpoint for each of its own, however many there are to one process */
static void many_endpoints_of_one_interface_all_send(ct_t *ct)
{
    enum { NUM = 1100 };
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    static uct_ep_h eps[NUM];
    ucs_status_t status;
    unsigned i;

    if (ct->side.attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_EP) {
        snprintf(ct->skip, sizeof(ct->skip), "each endpoint is a connection");
        return;
    }

    ct_connect(ct);
    for (i = 0; i < NUM; ++i) {
        ck_assert_int_eq(ct_ep_create(&ct->side, &ct->peer_addr, &eps[i]), UCS_OK);
        while ((status = uct_ep_am_short(eps[i], CT_AM_ID, i, NULL, 0)) ==
               UCS_ERR_NO_RESOURCE) {
            ct_progress(ct);
            ck_assert_msg(mkv_test_now_ms() < deadline, "endpoint %u: no resources", i);
        }
        ck_assert_msg(status == UCS_OK, "endpoint %u: %s", i,
                      ucs_status_string(status));
    }
    ct_am_expect(ct, NUM, 0);
    for (i = 0; i < NUM; ++i) {
        uct_ep_destroy(eps[i]);
    }
    snprintf(ct->covered, sizeof(ct->covered), "%d endpoints", NUM);
}


const ct_case_t ct_cases_am[] = {
    {"am_short_carries_any_length", .flags = UCT_IFACE_FLAG_AM_SHORT,
     .run = am_short_carries_any_length},
    {"am_bcopy_carries_any_length", .flags = UCT_IFACE_FLAG_AM_BCOPY,
     .run = am_bcopy_carries_any_length},
    {"am_zcopy_carries_any_length", .flags = UCT_IFACE_FLAG_AM_ZCOPY,
     .run = am_zcopy_carries_any_length},
    {"empty_am_arrives", .flags = UCT_IFACE_FLAG_AM_BCOPY, .run = empty_am_arrives},
    {"many_messages_all_arrive", .flags = UCT_IFACE_FLAG_AM_BCOPY,
     .run = many_messages_all_arrive},
    {"kept_messages_stay_whole", .flags = UCT_IFACE_FLAG_AM_BCOPY,
     .run = kept_messages_stay_whole},
    {"many_endpoints_of_one_interface_all_send",
     .flags = UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_CONNECT_TO_IFACE,
     .run = many_endpoints_of_one_interface_all_send},
    {NULL}};
