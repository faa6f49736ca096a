/* SPDX-License-Identifier: BSD-3-Clause */

/* Registration and remote keys: packing, comparison, errors, invalidation. */

#include "test/conformance/ct.h"
#include "test/support/mkv_hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CT_KEY_SPACE ((size_t)64 << 10)


/* An operation for one attempt at the target's memory, any that is claimed. */
static int ct_key_op(ct_t *ct, ct_op_t *op)
{
    const uint64_t flags = ct->side.attr.cap.flags;

    *op = (flags & UCT_IFACE_FLAG_PUT_ZCOPY)   ? CT_PUT_ZCOPY
          : (flags & UCT_IFACE_FLAG_PUT_BCOPY) ? CT_PUT_BCOPY
                                               : CT_PUT_SHORT;
    if (flags & (UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_PUT_BCOPY |
                 UCT_IFACE_FLAG_PUT_SHORT)) {
        return 1;
    }

    snprintf(ct->skip, sizeof(ct->skip), "the transport claims no put");
    return 0;
}

static void ct_key_open(ct_t *ct, ct_op_t op, ct_mem_t *local, ct_remote_t *remote,
                        unsigned pack_flags)
{
    ct_connect(ct);
    ct_remote_create(ct, CT_KEY_SPACE, pack_flags, remote);
    ck_assert_int_eq(
        ct_mem_create(&ct->side, CT_KEY_SPACE, ct_op_local_type(ct, op), local),
        UCS_OK);
    ck_assert(ct_mem_fill(local, 0, CT_KEY_SPACE, 1, 0));
    ct_cmd(ct, CT_CMD_FILL, remote->region, 0, CT_KEY_SPACE, 2, 0);
}

static void ct_key_close(ct_t *ct, ct_mem_t *local, ct_remote_t *remote)
{
    ct_mem_destroy(&ct->side, local);
    ct_remote_destroy(ct, remote);
}

static void ct_key_expect_untouched(ct_t *ct, const ct_remote_t *remote)
{
    ck_assert_uint_eq(
        ct_cmd(ct, CT_CMD_CHECK, remote->region, 0, CT_KEY_SPACE, 2, 0)->a[0],
        CT_KEY_SPACE);
}

static void key_can_be_unpacked_many_times(ct_t *ct)
{
    enum { NUM_KEYS = 50 };
    ct_piece_t piece = {.local_offset = 10, .remote_offset = 20, .length = 64};
    uct_rkey_bundle_t keys[NUM_KEYS];
    ct_remote_t remote, same;
    ct_mem_t local;
    ct_op_t op;
    int i;

    if (!ct_key_op(ct, &op)) {
        return;
    }

    ct_key_open(ct, op, &local, &remote, 0);
    for (i = 0; i < NUM_KEYS; ++i) {
        ck_assert_int_eq(uct_rkey_unpack(ct->side.component, remote.key, &keys[i]),
                         UCS_OK);
    }

    same = remote;
    for (i = 0; i < NUM_KEYS; ++i) { /* each works, also after others are released */
        same.rkey = keys[i];
        ct_check_piece(ct, op, &local, &same, &piece);
        ck_assert_int_eq(uct_rkey_release(ct->side.component, &keys[i]), UCS_OK);
    }

    ct_check_piece(ct, op, &local, &remote, &piece);
    ct_key_close(ct, &local, &remote);
    snprintf(ct->covered, sizeof(ct->covered), "%d times, released one by one",
             NUM_KEYS);
}

static int ct_key_compare(ct_t *ct, const ct_remote_t *a, const ct_remote_t *b)
{
    uct_rkey_compare_params_t params = {.field_mask = 0};
    ucs_status_t status;
    int result = 12345;

    status = uct_rkey_compare(ct->side.component, a->rkey.rkey, b->rkey.rkey, &params,
                              &result);
    ck_assert_msg(status == UCS_OK, "uct_rkey_compare: %s", ucs_status_string(status));
    return result;
}

static void ct_key_refuse_params(ct_t *ct, const ct_remote_t *a)
{
    uct_rkey_compare_params_t params = {.field_mask = 0};
    int result;

    ck_assert_int_eq(
        uct_rkey_compare(ct->side.component, a->rkey.rkey, a->rkey.rkey, &params, NULL),
        UCS_ERR_INVALID_PARAM);
    params.field_mask = 1;
    ck_assert_int_eq(uct_rkey_compare(ct->side.component, a->rkey.rkey, a->rkey.rkey,
                                      &params, &result),
                     UCS_ERR_INVALID_PARAM);
}

static void keys_can_be_compared(ct_t *ct)
{
    ct_remote_t a, b;

    ct_connect(ct);
    ct_remote_create(ct, CT_KEY_SPACE, 0, &a);
    ct_remote_create(ct, CT_KEY_SPACE, 0, &b);
    ck_assert_int_eq(ct_key_compare(ct, &a, &a), 0);
    ck_assert_int_ne(ct_key_compare(ct, &a, &b), 0);
    ck_assert_msg((ct_key_compare(ct, &a, &b) < 0) == (ct_key_compare(ct, &b, &a) > 0),
                  "the order of two keys depends on who asks");
    ct_key_refuse_params(ct, &a);
    ct_remote_destroy(ct, &b);
    ct_remote_destroy(ct, &a);
    snprintf(ct->covered, sizeof(ct->covered),
             "equal, different, antisymmetric, bad parameters refused");
}

/* Bytes from another process: refused, or as good as before; never a crash and
 * never a write to another place. */
static void ct_key_try_bad(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                           const ct_remote_t *remote, const uint8_t *key,
                           unsigned *num_refused)
{
    ct_piece_t piece = {.local_offset = 0, .remote_offset = 0, .length = 64};
    ct_remote_t bad = *remote;
    ucs_status_t status;

    bad.rkey.rkey = UCT_INVALID_RKEY;
    status = uct_rkey_unpack(ct->side.component, key, &bad.rkey);
    if (UCS_STATUS_IS_ERR(status)) {
        ++*num_refused;
        return;
    }

    status = ct_do(ct, op, local, &bad, &piece, 1);
    ck_assert_msg(UCS_STATUS_IS_ERR(status), "a changed key was accepted");
    uct_rkey_release(ct->side.component, &bad.rkey);
}

static void changed_key_is_refused(ct_t *ct)
{
    const size_t length = ct->side.md_attr.rkey_packed_size;
    unsigned num_refused = 0, num = 0;
    uint8_t *key = malloc(length);
    ct_remote_t remote;
    ct_mem_t local;
    size_t i, bit;
    ct_op_t op;

    if (!ct_key_op(ct, &op)) {
        free(key);
        return;
    }

    ct_key_open(ct, op, &local, &remote, 0);
    for (i = 0; i < length; ++i) {
        for (bit = 0; bit < 8; ++bit) {
            memcpy(key, remote.key, length);
            key[i] ^= (uint8_t)(1u << bit);
            ct_key_try_bad(ct, op, &local, &remote, key, &num_refused);
            ++num;
        }
    }
    for (i = 0; i < length; ++i) { /* the rest cut off, by zeros and by ones */
        memcpy(key, remote.key, length);
        memset(key + i, (i & 1) ? 0xff : 0, length - i);
        if (memcmp(key, remote.key, length) != 0) {
            ct_key_try_bad(ct, op, &local, &remote, key, &num_refused);
            ++num;
        }
    }

    ct_key_expect_untouched(ct, &remote);
    ct_key_close(ct, &local, &remote);
    free(key);
    snprintf(ct->covered, sizeof(ct->covered),
             "%u changed keys of %zu bytes, %u refused by unpack", num, length,
             num_refused);
}

/* The packed key lies at the end of readable memory: unpack reads no further. */
static void unpack_reads_only_the_key(ct_t *ct)
{
    const size_t length = ct->side.md_attr.rkey_packed_size;
    uct_rkey_bundle_t rkey;
    ct_remote_t remote;
    uint8_t *exact;

    ct_connect(ct);
    ct_remote_create(ct, CT_KEY_SPACE, 0, &remote);
    exact = malloc(length);
    memcpy(exact, remote.key, length); /* a sanitizer watches the end */
    ck_assert_int_eq(uct_rkey_unpack(ct->side.component, exact, &rkey), UCS_OK);
    memset(exact, 0xee, length); /* the caller may reuse the buffer */
    free(exact);
    uct_rkey_release(ct->side.component, &rkey);
    ct_remote_destroy(ct, &remote);
    snprintf(ct->covered, sizeof(ct->covered), "%zu bytes", length);
}

static void access_beyond_the_key_is_an_error(ct_t *ct)
{
    static const struct {
        int64_t offset;
        size_t length;
    } pieces[] = {{CT_KEY_SPACE - 10, 11},   {CT_KEY_SPACE, 1}, {-1, 1}, {-100, 101},
                  {CT_KEY_SPACE + 65536, 8}, {-(1ll << 40), 8}};
    ct_remote_t remote, moved;
    ct_piece_t piece = {0};
    ucs_status_t status;
    ct_mem_t local;
    ct_op_t op;
    size_t i;

    if (!ct_key_op(ct, &op)) {
        return;
    }

    ct_key_open(ct, op, &local, &remote, 0);
    for (i = 0; i < CT_ARRAY_SIZE(pieces); ++i) {
        moved = remote;
        moved.addr = remote.addr + (uint64_t)pieces[i].offset;
        piece.length = pieces[i].length;
        status = ct_do(ct, op, &local, &moved, &piece, 1);
        ck_assert_msg(UCS_STATUS_IS_ERR(status), "offset %lld length %zu: accepted",
                      (long long)pieces[i].offset, pieces[i].length);
        if (ct->side.events.num_ep_errors > 0) {
            ct->side.events.num_ep_errors = 0; /* RDMA: it ends the endpoint */
            uct_ep_destroy(ct->ep);
            ct->ep = NULL;
            if (!(ct->side.attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE)) {
                ++i;
                break;
            }
            ct_connect(ct);
        }
    }

    ct_key_expect_untouched(ct, &remote);
    ct_key_close(ct, &local, &remote);
    snprintf(ct->covered, sizeof(ct->covered), "%zu places outside", i);
}

static void invalidated_key_is_refused(ct_t *ct)
{
    ct_piece_t piece = {.local_offset = 0, .remote_offset = 0, .length = 4096};
    ct_remote_t remote, other;
    ucs_status_t status;
    ct_mem_t local;
    ct_op_t op;

    if (!ct_key_op(ct, &op)) {
        return;
    }

    ct_key_open(ct, op, &local, &remote, CT_PACK_INVALIDATE_RMA);
    ct_remote_create(ct, CT_KEY_SPACE, CT_PACK_INVALIDATE_RMA, &other);
    piece.length =
        (piece.length < ct_op_max(ct, op)) ? piece.length : ct_op_max(ct, op);
    ct_check_piece(ct, op, &local, &remote, &piece);
    ct_cmd(ct, CT_CMD_FILL, remote.region, 0, CT_KEY_SPACE, 2, 0);

    ck_assert_uint_eq(ct_cmd(ct, CT_CMD_INVALIDATE, remote.region, 0, 0, 0, 0)->a[0],
                      1);
    status = ct_do(ct, op, &local, &remote, &piece, 1);
    ck_assert_msg(UCS_STATUS_IS_ERR(status), "access after invalidation: %s",
                  ucs_status_string(status));
    ct_key_expect_untouched(ct, &remote);
    if (ct->side.events.num_ep_errors == 0) { /* other operations work */
        ct_check_piece(ct, op, &local, &other, &piece);
    }

    ct_remote_destroy(ct, &other);
    ct_key_close(ct, &local, &remote);
    snprintf(ct->covered, sizeof(ct->covered), "access after it: %s",
             ucs_status_string(status));
}

/* The exporter frees memory that the other end has mapped: an error, or the old memory,
 * but neither a crash nor a byte in other memory. */
static void freed_memory_is_not_used_for_another_buffer(ct_t *ct)
{
    ct_piece_t piece = {.local_offset = 0, .remote_offset = 0, .length = 4096};
    ct_remote_t remote, other;
    ucs_status_t status;
    ct_mem_t local;
    ct_op_t op;

    if (!ct_key_op(ct, &op)) {
        return;
    }

    ct_key_open(ct, op, &local, &remote, 0);
    piece.length =
        (piece.length < ct_op_max(ct, op)) ? piece.length : ct_op_max(ct, op);
    ct_check_piece(ct, op, &local, &remote, &piece);
    ct_cmd(ct, CT_CMD_FREE, remote.region, 0, 0, 0, 0);

    /* The next allocation may well get the freed address. */
    ct_remote_create(ct, CT_KEY_SPACE, 0, &other);
    ct_cmd(ct, CT_CMD_FILL, other.region, 0, CT_KEY_SPACE, 2, 0);
    status = ct_do(ct, op, &local, &remote, &piece, 1);
    ct_key_expect_untouched(ct, &other);
    if (ct->side.events.num_ep_errors == 0) {
        ct_check_piece(ct, op, &local, &other, &piece);
    }

    uct_rkey_release(ct->side.component, &remote.rkey);
    ct_remote_destroy(ct, &other);
    ct_mem_destroy(&ct->side, &local);
    snprintf(ct->covered, sizeof(ct->covered), "access to freed memory: %s",
             ucs_status_string(status));
}

/* A KV cache is one allocation with hundreds of registered parts. */
static void parts_of_one_allocation_have_their_own_keys(ct_t *ct)
{
    enum { NUM_PARTS = 200 };
    uct_md_mem_reg_params_t reg = {.field_mask =
                                       CT_REG_FIELD_FLAGS | CT_REG_FIELD_MEM_TYPE,
                                   .flags = UCT_MD_MEM_ACCESS_ALL,
                                   .mem_type = ct->variant->local_type};
    uct_md_mkey_pack_params_t pack = {.field_mask = CT_PACK_FIELD_FLAGS, .flags = 0};
    uint8_t *key = malloc(ct->side.md_attr.rkey_packed_size + 1);
    size_t part = 4096 + 128, i;
    uct_mem_h memhs[NUM_PARTS];
    uct_rkey_bundle_t rkey;
    ct_mem_t whole;
    char *addr;

    ck_assert_int_eq(
        ct_mem_create(&ct->side, part * NUM_PARTS, ct->variant->local_type, &whole),
        UCS_OK);
    for (i = 0; i < NUM_PARTS; ++i) { /* each overlaps the next one */
        addr = (char *)whole.addr + i * part;
        ck_assert_int_eq(uct_md_mem_reg_v2(ct->side.md, addr,
                                           (i + 1 < NUM_PARTS) ? part + 64 : part, &reg,
                                           &memhs[i]),
                         UCS_OK);
        ck_assert_int_eq(
            uct_md_mkey_pack_v2(ct->side.md, memhs[i], addr, part, &pack, key), UCS_OK);
        ck_assert_int_eq(uct_rkey_unpack(ct->side.component, key, &rkey), UCS_OK);
        ck_assert_int_eq(uct_rkey_release(ct->side.component, &rkey), UCS_OK);
    }

    for (i = 0; i < NUM_PARTS; ++i) {
        ck_assert_int_eq(uct_md_mem_dereg(ct->side.md, memhs[(i * 7) % NUM_PARTS]),
                         UCS_OK);
    }
    ct_mem_destroy(&ct->side, &whole);
    free(key);
    snprintf(ct->covered, sizeof(ct->covered), "%d overlapping parts", NUM_PARTS);
}

/* An allocator gives the same address again; the handle may be the same, too. */
static void memory_allocated_again_is_written_anew(ct_t *ct)
{
    ct_piece_t piece = {.length = CT_KEY_SPACE};
    ct_remote_t first, second;
    ct_mem_t local;

    ct_key_open(ct, CT_PUT_ZCOPY, &local, &first, 0);
    ck_assert_int_eq(ct_do(ct, CT_PUT_ZCOPY, &local, &first, &piece, 1), UCS_OK);
    ct_remote_destroy(ct, &first);
    ct_remote_create(ct, CT_KEY_SPACE, 0, &second);
    ct_cmd(ct, CT_CMD_FILL, second.region, 0, CT_KEY_SPACE, 2, 0);
    ck_assert_int_eq(ct_do(ct, CT_PUT_ZCOPY, &local, &second, &piece, 1), UCS_OK);
    ck_assert_uint_eq(
        ct_cmd(ct, CT_CMD_CHECK, second.region, 0, CT_KEY_SPACE, 1, 0)->a[0],
        CT_KEY_SPACE);
    snprintf(ct->covered, sizeof(ct->covered), "%s address",
             (second.addr == first.addr) ? "the same" : "another");
    ct_key_close(ct, &local, &second);
}

static void impossible_registration_is_an_error(ct_t *ct)
{
    uct_md_mem_reg_params_t reg = {
        .field_mask = CT_REG_FIELD_FLAGS | CT_REG_FIELD_MEM_TYPE,
        .flags = UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS,
        .mem_type = UCS_MEMORY_TYPE_ROCM};
    uct_mem_h memh = UCT_MEM_HANDLE_NULL;
    ucs_status_t status;

    if (!(ct->side.md_attr.cap.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_ROCM))) {
        snprintf(ct->skip, sizeof(ct->skip), "the memory domain takes no ROCm memory");
        return;
    }

    status =
        uct_md_mem_reg_v2(ct->side.md, (void *)UINT64_C(0x7000), 4096, &reg, &memh);
    ck_assert_msg(UCS_STATUS_IS_ERR(status), "unmapped address: %s",
                  ucs_status_string(status));
    ck_assert(memh == UCT_MEM_HANDLE_NULL);
    snprintf(ct->covered, sizeof(ct->covered), "an unmapped address: %s",
             ucs_status_string(status));
}


const ct_case_t ct_cases_key[] = {
    {"key_can_be_unpacked_many_times", .traits = CT_TRAIT_RKEY,
     .run = key_can_be_unpacked_many_times},
    {"keys_can_be_compared", .traits = CT_TRAIT_RKEY | CT_TRAIT_CHECKED_KEYS,
     .run = keys_can_be_compared},
    {"changed_key_is_refused", .traits = CT_TRAIT_RKEY | CT_TRAIT_CHECKED_KEYS,
     .run = changed_key_is_refused},
    {"unpack_reads_only_the_key", .traits = CT_TRAIT_RKEY,
     .run = unpack_reads_only_the_key},
    {"access_beyond_the_key_is_an_error",
     .traits = CT_TRAIT_RKEY | CT_TRAIT_CHECKED_KEYS,
     .run = access_beyond_the_key_is_an_error},
    {"invalidated_key_is_refused", .traits = CT_TRAIT_RKEY | CT_TRAIT_INVALIDATE,
     .run = invalidated_key_is_refused},
    {"freed_memory_is_not_used_for_another_buffer",
     .traits = CT_TRAIT_RKEY | CT_TRAIT_CHECKED_KEYS,
     .run = freed_memory_is_not_used_for_another_buffer},
    {"memory_allocated_again_is_written_anew", .flags = UCT_IFACE_FLAG_PUT_ZCOPY,
     .traits = CT_TRAIT_RKEY, .run = memory_allocated_again_is_written_anew},
    {"parts_of_one_allocation_have_their_own_keys",
     .traits = CT_TRAIT_RKEY | CT_TRAIT_REG,
     .run = parts_of_one_allocation_have_their_own_keys},
    {"impossible_registration_is_an_error",
     .traits = CT_TRAIT_REG | CT_TRAIT_CHECKED_KEYS,
     .run = impossible_registration_is_an_error},
    {NULL}};
