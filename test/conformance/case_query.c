/* SPDX-License-Identifier: BSD-3-Clause */

/* Reports of a transport: attributes, addresses, reachability. */

#include "test/conformance/ct.h"
#include "test/support/mkv_hip.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


static void ct_expect_zcopy_limits(size_t min, size_t max, size_t max_iov,
                                   const char *op)
{
    ck_assert_msg(min <= max, "%s: min_zcopy %zu > max_zcopy %zu", op, min, max);
    ck_assert_msg(max > 0, "%s: max_zcopy is 0", op);
    ck_assert_msg(max_iov > 0, "%s: max_iov is 0", op);
}

static void interface_attributes_are_sane(ct_t *ct)
{
    const uct_iface_attr_t *attr = &ct->side.attr;
    const uint64_t flags = attr->cap.flags;
    double bandwidth = attr->bandwidth.dedicated + attr->bandwidth.shared;
    uct_iface_attr_t again;

    ck_assert_msg(isfinite(bandwidth) && (bandwidth > 0), "bandwidth %g", bandwidth);
    ck_assert_msg(isfinite(attr->latency.c) && (attr->latency.c >= 0), "latency %g",
                  attr->latency.c);
    ck_assert_msg(isfinite(attr->overhead) && (attr->overhead >= 0), "overhead %g",
                  attr->overhead);
    ck_assert(flags & (UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_CONNECT_TO_EP));
    ck_assert_uint_le(attr->device_addr_len, 1024);
    ck_assert_uint_le(attr->iface_addr_len, 1024);
    ck_assert_uint_le(attr->ep_addr_len, 1024);
    ck_assert_uint_ge(attr->dev_num_paths, 1);
    ck_assert_uint_gt(attr->max_num_eps, 0);

    if (flags & UCT_IFACE_FLAG_PUT_ZCOPY) {
        ct_expect_zcopy_limits(attr->cap.put.min_zcopy, attr->cap.put.max_zcopy,
                               attr->cap.put.max_iov, "put");
    }
    if (flags & UCT_IFACE_FLAG_GET_ZCOPY) {
        ct_expect_zcopy_limits(attr->cap.get.min_zcopy, attr->cap.get.max_zcopy,
                               attr->cap.get.max_iov, "get");
    }
    if (flags & UCT_IFACE_FLAG_PUT_SHORT) {
        ck_assert_uint_gt(attr->cap.put.max_short, 0);
    }
    if (flags & UCT_IFACE_FLAG_AM_BCOPY) {
        ck_assert_uint_gt(attr->cap.am.max_bcopy, 0);
    }

    memset(&again, 0xaa, sizeof(again));
    ck_assert_int_eq(uct_iface_query(ct->side.iface, &again), UCS_OK);
    ck_assert_msg(memcmp(&again.cap.flags, &attr->cap.flags, sizeof(flags)) == 0,
                  "a second query says other flags");
    snprintf(ct->covered, sizeof(ct->covered),
             "flags 0x%zx events 0x%zx bandwidth %.0f MB/s latency %.0f ns",
             (size_t)flags, (size_t)attr->cap.event_flags, bandwidth / 1e6,
             attr->latency.c * 1e9);
}

/* UCP drops a lane from its put protocols when the smallest piece is not 0, and
 * requires a reliable error when a peer dies. A transport without keys has no peers. */
static void interface_suits_ucp_in_peer_failure_mode(ct_t *ct)
{
    const uct_iface_attr_t *attr = &ct->side.attr;

    ck_assert_uint_eq(attr->cap.put.min_zcopy, 0);
    ck_assert_uint_eq(attr->cap.get.min_zcopy, 0);
    ck_assert(attr->cap.flags & UCT_IFACE_FLAG_PENDING);
    ck_assert(attr->cap.flags & UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE);
    if (attr->cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) {
        ck_assert(ct->side.md_attr.cap.flags & CT_MD_FLAG_INVALIDATE_RMA);
    }
    snprintf(ct->covered, sizeof(ct->covered), "min_zcopy 0, pending, peer failure");
}

static void memory_domain_attributes_are_sane(ct_t *ct)
{
    const uct_md_attr_t *attr = &ct->side.md_attr;

    ck_assert_int_gt((int)strnlen(attr->component_name, UCT_COMPONENT_NAME_MAX), 0);
    ck_assert_uint_le(attr->rkey_packed_size, 255); /* UCP packs it in one byte */
    if (attr->cap.flags & UCT_MD_FLAG_REG) {
        ck_assert_uint_ne(attr->cap.reg_mem_types, 0);
        ck_assert_uint_gt(attr->cap.max_reg, 0);
    }
    if (attr->cap.flags & UCT_MD_FLAG_ALLOC) {
        ck_assert_uint_ne(attr->cap.alloc_mem_types, 0);
    }
    ck_assert(isfinite(attr->reg_cost.c) && (attr->reg_cost.c >= 0));
    snprintf(ct->covered, sizeof(ct->covered),
             "component %s flags 0x%zx reg types 0x%zx key %zu bytes",
             attr->component_name, (size_t)attr->cap.flags,
             (size_t)attr->cap.reg_mem_types, attr->rkey_packed_size);
}

static void component_is_listed_once(ct_t *ct)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};
    uct_component_h *components;
    unsigned num, i, num_same = 0;

    ck_assert_int_eq(uct_query_components(&components, &num), UCS_OK);
    for (i = 0; i < num; ++i) {
        ck_assert_int_eq(uct_component_query(components[i], &attr), UCS_OK);
        num_same += strcmp(attr.name, ct->side.md_attr.component_name) == 0;
    }

    uct_release_component_list(components);
    ck_assert_uint_eq(num_same, 1);
    snprintf(ct->covered, sizeof(ct->covered), "%u components, %s once", num,
             ct->side.md_attr.component_name);
}

static void interface_reaches_itself(ct_t *ct)
{
    ct_addr_t own;

    ck_assert_int_eq(ct_addr_get(&ct->side, NULL, &own), UCS_OK);
    ck_assert(
        uct_iface_is_reachable(ct->side.iface, ct_addr_dev(&own), ct_addr_iface(&own)));
    snprintf(ct->covered, sizeof(ct->covered), "device %s", ct->side.dev_name);
}

static void changed_address_is_unreachable_with_a_text(ct_t *ct)
{
    uct_iface_is_reachable_params_t params;
    unsigned i, length, num_unreachable = 0;
    ct_addr_t addr;
    char info[256];

    ck_assert_int_eq(ct_addr_get(&ct->side, NULL, &addr), UCS_OK);
    length = (addr.dev_length > 0) ? addr.dev_length : addr.iface_length;
    for (i = 0; i < length; ++i) {
        memset(&params, 0, sizeof(params));
        params.field_mask = CT_REACH_FIELD_DEVICE_ADDR | CT_REACH_FIELD_IFACE_ADDR |
                            CT_REACH_FIELD_INFO_STRING |
                            CT_REACH_FIELD_INFO_STRING_LENGTH;
        params.device_addr = ct_addr_dev(&addr);
        params.iface_addr = ct_addr_iface(&addr);
        params.info_string = info;
        params.info_string_length = sizeof(info);
        info[0] = '\0';

        addr.bytes[i] ^= 0x40;
        if (!uct_iface_is_reachable_v2(ct->side.iface, &params)) {
            ++num_unreachable;
            ck_assert_msg(info[0] != '\0', "no text for a change of byte %u", i);
        }
        addr.bytes[i] ^= 0x40;
    }

    ck_assert_uint_gt(num_unreachable, 0);
    snprintf(ct->covered, sizeof(ct->covered),
             "%u of %u changed bytes, last text: %.120s", num_unreachable, length,
             info);
}

static void interface_opens_again_after_close(ct_t *ct)
{
    static ct_side_t other;
    int i;

    for (i = 0; i < 5; ++i) {
        ck_assert_msg(ct_side_open(&other, ct->name) == UCS_OK, "%s", other.why);
        ct_side_close(&other);
    }
    snprintf(ct->covered, sizeof(ct->covered), "5 times beside an open one");
}

static void device_memory_is_recognised(ct_t *ct)
{
    const size_t length = 1 << 20;
    uct_md_mem_attr_t attr = {.field_mask = UCT_MD_MEM_ATTR_FIELD_MEM_TYPE |
                                            UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS |
                                            UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH};
    ucs_memory_type_t type = UCS_MEMORY_TYPE_LAST;
    char on_stack[64];
    char *addr;

    if (!(ct->side.md_attr.cap.detect_mem_types & UCS_BIT(UCS_MEMORY_TYPE_ROCM))) {
        snprintf(ct->skip, sizeof(ct->skip),
                 "the memory domain detects no ROCm memory");
        return;
    }

    addr = mkv_hip_alloc(length);
    ck_assert_ptr_nonnull(addr);
    ck_assert_int_eq(uct_md_detect_memory_type(ct->side.md, addr + 100, 10, &type),
                     UCS_OK);
    ck_assert_int_eq(type, UCS_MEMORY_TYPE_ROCM);
    ck_assert_int_eq(uct_md_mem_query(ct->side.md, addr + 4096, 8192, &attr), UCS_OK);
    ck_assert_int_eq(attr.mem_type, UCS_MEMORY_TYPE_ROCM);
    ck_assert_ptr_eq(attr.base_address, addr);
    ck_assert_uint_ge(attr.alloc_length, length);

    type = UCS_MEMORY_TYPE_LAST;
    ck_assert((uct_md_detect_memory_type(ct->side.md, on_stack, 8, &type) != UCS_OK) ||
              (type == UCS_MEMORY_TYPE_HOST));
    ck_assert(mkv_hip_free(addr));
    snprintf(ct->covered, sizeof(ct->covered), "type, base and length inside 1 MiB");
}


const ct_case_t ct_cases_query[] = {
    {"interface_attributes_are_sane", .run = interface_attributes_are_sane},
    {"interface_suits_ucp_in_peer_failure_mode",
     .flags = UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_ZCOPY,
     .traits = CT_TRAIT_CHECKED_KEYS | CT_TRAIT_RKEY,
     .run = interface_suits_ucp_in_peer_failure_mode},
    {"memory_domain_attributes_are_sane", .traits = CT_TRAIT_LOCAL,
     .run = memory_domain_attributes_are_sane},
    {"component_is_listed_once", .traits = CT_TRAIT_LOCAL,
     .run = component_is_listed_once},
    {"interface_reaches_itself", .traits = CT_TRAIT_LOCAL,
     .run = interface_reaches_itself},
    {"changed_address_is_unreachable_with_a_text",
     .traits = CT_TRAIT_LOCAL | CT_TRAIT_CHECKED_KEYS,
     .run = changed_address_is_unreachable_with_a_text},
    {"interface_opens_again_after_close", .traits = CT_TRAIT_LOCAL,
     .run = interface_opens_again_after_close},
    {"device_memory_is_recognised", .traits = CT_TRAIT_DEVICE_MEM,
     .run = device_memory_is_recognised},
    {NULL}};
