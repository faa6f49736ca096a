/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/device/rdma_addr.h"

#include "base/muct_bytes.h"

#include <string.h>

#define MUCT_RDMA_ADDR_PREFIX_SIZE 8 /* default prefix of an InfiniBand GID */

bool muct_rdma_rules_hold(const muct_rdma_rule_t *rules, size_t num,
                          muct_rdma_fault_t *fault)
{
    size_t i;

    for (i = 0; i < num; ++i) {
        if (!rules[i].is_good) {
            *fault = rules[i].fault;
            return false;
        }
    }

    return true;
}

static bool muct_rdma_qp_num_is_new(const uint32_t *qp_nums, unsigned num)
{
    unsigned i;

    for (i = 0; i < num; ++i) {
        if (qp_nums[i] == qp_nums[num]) {
            return false;
        }
    }

    return true;
}

bool muct_rdma_qp_nums_are_good(const uint32_t *qp_nums, unsigned num,
                                muct_rdma_fault_t *fault)
{
    unsigned i;

    for (i = 0; i < num; ++i) {
        *fault = (muct_rdma_fault_t){"queue pair number", qp_nums[i],
                                     MUCT_RDMA_QP_NUM_EXPECTED ", none twice"};
        if (!muct_rdma_is_qp_num(qp_nums[i]) || !muct_rdma_qp_num_is_new(qp_nums, i)) {
            return false;
        }
    }

    return true;
}

void muct_rdma_dev_addr_pack(const muct_rdma_dev_addr_t *addr, void *buffer)
{
    uint8_t *p = buffer;

    p[0] = MUCT_RDMA_ADDR_VERSION;
    p[1] = addr->link;
    p[2] = addr->mtu_shift;
    p[3] = addr->rail;
    muct_put_le(p + 4, addr->lid, 2);
    muct_put_le(p + 6, addr->incarnation, 8);
    memcpy(p + 14, addr->gid, sizeof(addr->gid));
}

/* Check the number of bytes first, then the version, on which the rest depends. */
static bool muct_rdma_addr_is_ours(const uint8_t *p, size_t length, size_t least,
                                   muct_rdma_fault_t *fault)
{
    const muct_rdma_rule_t rules[] = {
        {length >= least, {"length", length, "the length of an address"}},
        {(length < least) || (p[0] == MUCT_RDMA_ADDR_VERSION),
         {"version", (length > 0) ? p[0] : 0, "that of this release of ucx-mori"}},
    };

    return muct_rdma_rules_hold(rules, 2, fault);
}

static int muct_rdma_dev_addr_check(const muct_rdma_dev_addr_t *addr,
                                    muct_rdma_fault_t *fault)
{
    static const uint8_t none[sizeof(addr->gid)];
    const muct_rdma_rule_t rules[] = {
        {(addr->link >= MUCT_RDMA_LINK_IB) && (addr->link <= MUCT_RDMA_LINK_ROCE_V2),
         {"link", addr->link, "1 to 3"}},
        {(addr->mtu_shift >= 8) && (addr->mtu_shift <= 12),
         {"log2(mtu)", addr->mtu_shift, "8 to 12"}},
        {(addr->link != MUCT_RDMA_LINK_IB) || (addr->lid < 0xc000),
         {"lid", addr->lid, "below 0xc000: a unicast one"}},
        {addr->incarnation != 0, {"incarnation", 0, "another number"}},
        {memcmp(addr->gid, none, sizeof(none)) != 0, {"gid", 0, "an address"}},
        {addr->gid[0] != 0xff, {"first byte of the gid", 0xff, "a unicast address"}},
    };

    return muct_rdma_rules_hold(rules, sizeof(rules) / sizeof(rules[0]), fault) ? 0
                                                                                : -1;
}

int muct_rdma_dev_addr_unpack(const void *buffer, size_t length,
                              muct_rdma_dev_addr_t *addr, muct_rdma_fault_t *fault)
{
    const uint8_t *p = buffer;

    if (!muct_rdma_addr_is_ours(p, length, MUCT_RDMA_DEV_ADDR_SIZE, fault)) {
        return -1;
    }

    addr->link = p[1];
    addr->mtu_shift = p[2];
    addr->rail = p[3];
    addr->lid = (uint16_t)muct_get_le(p + 4, 2);
    addr->incarnation = muct_get_le(p + 6, 8);
    memcpy(addr->gid, p + 14, sizeof(addr->gid));
    return muct_rdma_dev_addr_check(addr, fault);
}

void muct_rdma_ece_pack(const muct_rdma_ece_t *ece, void *buffer)
{
    muct_put_le(buffer, ece->vendor_id, 4);
    muct_put_le((uint8_t *)buffer + 4, ece->options, 4);
}

void muct_rdma_ece_unpack(const void *buffer, muct_rdma_ece_t *ece)
{
    ece->vendor_id = (uint32_t)muct_get_le(buffer, 4);
    ece->options = (uint32_t)muct_get_le((const uint8_t *)buffer + 4, 4);
}

void muct_rdma_ep_addr_pack(const muct_rdma_ep_addr_t *addr, void *buffer)
{
    uint8_t *p = buffer;
    unsigned i;

    p[0] = MUCT_RDMA_ADDR_VERSION;
    p[1] = addr->num_qps;
    muct_put_le(p + 2, addr->psn, 3);
    muct_put_le(p + 5, addr->num_receives, 2);
    muct_put_le(p + 7, addr->receive_size / 16, 2);
    p[9] = addr->max_reads | (addr->is_read_wish ? MUCT_RDMA_ADDR_WISH : 0);
    muct_put_le(p + 10, addr->flush_addr, 8);
    muct_put_le(p + 18, addr->flush_rkey, 4);
    muct_put_le(p + 22, addr->ctl_qp, 3);
    for (i = 0; i < addr->num_qps; ++i) {
        muct_put_le(p + 25 + 3 * i, addr->qp_nums[i], 3);
    }
    if (addr->has_ece) {
        muct_rdma_ece_pack(&addr->ece, p + MUCT_RDMA_EP_ADDR_SIZE(addr->num_qps));
    }
}

/* Unpack the optional ECE bytes that follow the fixed part. */
static void muct_rdma_ep_addr_unpack_ece(const uint8_t *p, size_t length,
                                         muct_rdma_ep_addr_t *addr)
{
    const size_t size = MUCT_RDMA_EP_ADDR_SIZE(addr->num_qps);

    memset(&addr->ece, 0, sizeof(addr->ece));
    addr->has_ece = (length != SIZE_MAX) && (length >= size + MUCT_RDMA_ECE_SIZE);
    if (addr->has_ece) {
        muct_rdma_ece_unpack(p + size, &addr->ece);
    }
}

static bool muct_rdma_ep_addr_has_qps(const uint8_t *p, size_t length,
                                      muct_rdma_fault_t *fault)
{
    const muct_rdma_rule_t rules[] = {
        {(p[1] >= 1) && (p[1] <= MUCT_RDMA_ADDR_MAX_QPS),
         {"number of queue pairs", p[1], "1 to 12"}},
        {length >= MUCT_RDMA_EP_ADDR_SIZE(p[1]),
         {"length", length, "25 bytes and 3 a queue pair"}},
    };

    return muct_rdma_rules_hold(rules, 2, fault);
}

static int muct_rdma_ep_addr_check(const muct_rdma_ep_addr_t *addr,
                                   muct_rdma_fault_t *fault)
{
    const muct_rdma_rule_t rules[] = {
        {(addr->ctl_qp == 0) || muct_rdma_is_qp_num(addr->ctl_qp),
         {"control queue pair", addr->ctl_qp, "0 or " MUCT_RDMA_QP_NUM_EXPECTED}},
        {addr->num_receives > 0, {"number of receives", 0, "1 or more"}},
        {addr->receive_size > 0, {"receive size", 0, "16 bytes or more"}},
        {addr->flush_addr != 0, {"flush address", 0, "memory of the peer"}},
    };

    return (muct_rdma_qp_nums_are_good(addr->qp_nums, addr->num_qps, fault) &&
            muct_rdma_rules_hold(rules, sizeof(rules) / sizeof(rules[0]), fault))
               ? 0
               : -1;
}

int muct_rdma_ep_addr_unpack(const void *buffer, size_t length,
                             muct_rdma_ep_addr_t *addr, muct_rdma_fault_t *fault)
{
    const uint8_t *p = buffer;
    unsigned i;

    if (!muct_rdma_addr_is_ours(p, length, MUCT_RDMA_EP_ADDR_SIZE(1), fault) ||
        !muct_rdma_ep_addr_has_qps(p, length, fault)) {
        return -1;
    }

    addr->num_qps = p[1];
    addr->psn = (uint32_t)muct_get_le(p + 2, 3);
    addr->num_receives = (uint16_t)muct_get_le(p + 5, 2);
    addr->receive_size = 16 * (uint32_t)muct_get_le(p + 7, 2);
    addr->max_reads = p[9] & (MUCT_RDMA_ADDR_WISH - 1);
    addr->is_read_wish = (p[9] & MUCT_RDMA_ADDR_WISH) != 0;
    addr->flush_addr = muct_get_le(p + 10, 8);
    addr->flush_rkey = (uint32_t)muct_get_le(p + 18, 4);
    addr->ctl_qp = (uint32_t)muct_get_le(p + 22, 3);
    for (i = 0; i < addr->num_qps; ++i) {
        addr->qp_nums[i] = (uint32_t)muct_get_le(p + 25 + 3 * i, 3);
    }
    muct_rdma_ep_addr_unpack_ece(p, length, addr);

    return muct_rdma_ep_addr_check(addr, fault);
}

typedef enum {
    MUCT_RDMA_GID_IPV4,
    MUCT_RDMA_GID_IPV6,
    MUCT_RDMA_GID_LINK_LOCAL
} muct_rdma_gid_family_t;

static muct_rdma_gid_family_t muct_rdma_gid_family(const uint8_t *gid)
{
    static const uint8_t ipv4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    if (memcmp(gid, ipv4, sizeof(ipv4)) == 0) {
        return MUCT_RDMA_GID_IPV4;
    }

    return ((gid[0] == 0xfe) && ((gid[1] & 0xc0) == 0x80)) ? MUCT_RDMA_GID_LINK_LOCAL
                                                           : MUCT_RDMA_GID_IPV6;
}

const char *muct_rdma_dev_addr_unreachable(const muct_rdma_dev_addr_t *local,
                                           const muct_rdma_dev_addr_t *remote,
                                           int same_rail)
{
    if (local->link != remote->link) {
        return "link layer or RoCE version differs";
    }

    if ((local->link == MUCT_RDMA_LINK_ROCE_V2) &&
        (muct_rdma_gid_family(local->gid) != muct_rdma_gid_family(remote->gid))) {
        return "one address is IPv4, IPv6 or link-local and the other is not: set "
               "UCX_MORI_RDMA_GID_INDEX, or give both ports an address of one kind";
    }

    if ((local->link == MUCT_RDMA_LINK_IB) &&
        (memcmp(local->gid, remote->gid, MUCT_RDMA_ADDR_PREFIX_SIZE) != 0)) {
        return "InfiniBand subnet prefix differs";
    }

    if (same_rail && (local->rail != remote->rail)) {
        return "rail differs and UCX_MORI_RDMA_RAIL_AFFINITY is on";
    }

    return NULL;
}
