/* SPDX-License-Identifier: BSD-3-Clause */

/* Bytes that cross processes: keys and addresses of mori_rdma. */

#include "test/support/mkv_check.h"

#include "base/muct_bytes.h"
#include "rdma/device/rdma_addr.h"
#include "rdma/ep/rdma_ctl_msg.h"
#include "rdma/memory/rdma_key.h"
#include "rdma/memory/rdma_rkeys.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 4
#define PACKED MUCT_RDMA_KEY_PACKED_SIZE(SLOTS)

static muct_rdma_fault_t fault;
static muct_rdma_key_t key;
static uint8_t packed[PACKED];

static void setup(void)
{
    memset(&key, 0, sizeof(key));
    key.incarnation = 0x1122334455667788u;
    key.base = 0x7f0000001000u;
    key.length = 3 * 4096 - 1;
    key.flags = MUCT_RDMA_KEY_FLAG_GPU;
    key.chunk_shift = 12;
    key.gpu = 7;
    key.page_address = 0x7f00deadb0c0u;
    key.page_rkey = 0x55;
    key.num_rkeys = 3;
    key.rkeys[0] = 0x100;
    key.rkeys[1] = 0xffffffff;
    key.rkeys[2] = 0x102;
    muct_rdma_key_pack(&key, SLOTS, packed);
}

START_TEST(key_comes_back_as_it_was)
{
    muct_rdma_key_t other;

    memset(&other, 0, sizeof(other));
    ck_assert_int_eq(muct_rdma_key_unpack(packed, PACKED, &other), MUCT_RDMA_KEY_OK);
    ck_assert_mem_eq(&other, &key, sizeof(key));
}
END_TEST

START_TEST(key_bytes_do_not_change_between_releases)
{
    ck_assert_uint_eq(packed[0], 3);
    ck_assert_uint_eq(packed[5], 7);
    ck_assert_uint_eq(packed[8], 0x88);
    ck_assert_uint_eq(packed[15], 0x11);
    ck_assert_uint_eq(packed[17], 0x10);
    ck_assert_uint_eq(packed[32], 0xc0);
    ck_assert_uint_eq(packed[40], 0x55);
    ck_assert_uint_eq(packed[48 + 4], 0xff);
    ck_assert_uint_eq(PACKED, 68);
}
END_TEST

START_TEST(every_changed_bit_of_a_key_is_refused)
{
    muct_rdma_key_t other = {.num_rkeys = 77};
    size_t bit;

    for (bit = 0; bit < 8 * PACKED; ++bit) {
        packed[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        ck_assert_int_ne(muct_rdma_key_unpack(packed, PACKED, &other),
                         MUCT_RDMA_KEY_OK);
        packed[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    ck_assert_uint_eq(other.num_rkeys, 77);
}
END_TEST

START_TEST(key_cut_anywhere_is_refused)
{
    muct_rdma_key_t other;
    uint8_t *exact;
    size_t length;

    /* on the heap, so that tools see a read beyond the end */
    for (length = 0; length < PACKED; ++length) {
        exact = malloc(length + 1);
        memcpy(exact, packed, length);
        ck_assert_int_ne(muct_rdma_key_unpack(exact, length, &other), MUCT_RDMA_KEY_OK);
        free(exact);
    }
}
END_TEST

static void expect_reason(muct_rdma_key_result_t result, const char *text)
{
    char reason[256];

    ck_assert_ptr_nonnull(
        strstr(muct_rdma_key_explain(result, packed, reason, sizeof(reason)), text));
}

START_TEST(key_without_sense_is_refused_with_a_reason)
{
    muct_rdma_key_t other;

    key.length = 64 * 4096; /* needs 64 keys */
    muct_rdma_key_pack(&key, SLOTS, packed);
    ck_assert_int_eq(muct_rdma_key_unpack(packed, PACKED, &other), MUCT_RDMA_KEY_COUNT);

    key.length = 4096 * 2 + 1;
    key.base = UINT64_MAX - 4096;
    muct_rdma_key_pack(&key, SLOTS, packed);
    ck_assert_int_eq(muct_rdma_key_unpack(packed, PACKED, &other), MUCT_RDMA_KEY_RANGE);
    expect_reason(MUCT_RDMA_KEY_RANGE, "wraps");

    setup();
    key.gpu = MUCT_RDMA_KEY_NUM_GPUS;
    muct_rdma_key_pack(&key, SLOTS, packed);
    ck_assert_int_eq(muct_rdma_key_unpack(packed, PACKED, &other),
                     MUCT_RDMA_KEY_NO_GPU);
    expect_reason(MUCT_RDMA_KEY_NO_GPU, "GPU 64");

    setup();
    key.flags |= 4;
    muct_rdma_key_pack(&key, SLOTS, packed);
    ck_assert_int_eq(muct_rdma_key_unpack(packed, PACKED, &other), MUCT_RDMA_KEY_FLAGS);
    expect_reason(MUCT_RDMA_KEY_FLAGS, "flags 0x5");

    setup();
    key.flags = 0; /* host memory with a GPU's page */
    muct_rdma_key_pack(&key, SLOTS, packed);
    ck_assert_int_eq(muct_rdma_key_unpack(packed, PACKED, &other), MUCT_RDMA_KEY_PAGE);
    expect_reason(MUCT_RDMA_KEY_PAGE, "page 0x7f00deadb0c0");
    setup();
    key.page_address = 0;
    muct_rdma_key_pack(&key, SLOTS, packed);
    ck_assert_int_eq(muct_rdma_key_unpack(packed, PACKED, &other), MUCT_RDMA_KEY_PAGE);

    setup();
    key.length = 0; /* of three keys */
    muct_rdma_key_pack(&key, SLOTS, packed);
    ck_assert_int_eq(muct_rdma_key_unpack(packed, PACKED, &other), MUCT_RDMA_KEY_COUNT);
}
END_TEST

START_TEST(key_covers_its_region_and_nothing_else)
{
    ck_assert(muct_rdma_key_covers(&key, key.base, key.length));
    ck_assert(muct_rdma_key_covers(&key, key.base + key.length - 1, 1));
    ck_assert(muct_rdma_key_covers(&key, key.base + key.length, 0));
    ck_assert(!muct_rdma_key_covers(&key, key.base, key.length + 1));
    ck_assert(!muct_rdma_key_covers(&key, key.base - 1, 1));
    ck_assert(!muct_rdma_key_covers(&key, key.base + key.length, 1));
    ck_assert(!muct_rdma_key_covers(&key, key.base + 1, SIZE_MAX));
    ck_assert(!muct_rdma_key_covers(&key, UINT64_MAX, 2));
}
END_TEST

START_TEST(chunks_meet_at_their_borders)
{
    ck_assert_uint_eq(muct_rdma_key_chunk(&key, key.base), 0);
    ck_assert_uint_eq(muct_rdma_key_chunk(&key, key.base + 4095), 0);
    ck_assert_uint_eq(muct_rdma_key_chunk(&key, key.base + 4096), 1);
    ck_assert_uint_eq(muct_rdma_key_chunk_left(&key, key.base), 4096);
    ck_assert_uint_eq(muct_rdma_key_chunk_left(&key, key.base + 4095), 1);
    ck_assert_uint_eq(muct_rdma_key_chunk_left(&key, key.base + 4096), 4096);
}
END_TEST

static const muct_rdma_dev_addr_t device = {
    .link = MUCT_RDMA_LINK_ROCE_V2,
    .mtu_shift = 12,
    .rail = 3,
    .lid = 0x1234,
    .incarnation = 0x8877665544332211u,
    .gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1},
};

START_TEST(device_address_comes_back_as_it_was)
{
    uint8_t bytes[MUCT_RDMA_DEV_ADDR_SIZE];
    muct_rdma_dev_addr_t other;

    ck_assert_uint_le(MUCT_RDMA_DEV_ADDR_SIZE, 31); /* UCX's maximum */
    muct_rdma_dev_addr_pack(&device, bytes);
    memset(&other, 0, sizeof(other));
    ck_assert_int_eq(muct_rdma_dev_addr_unpack(bytes, sizeof(bytes), &other, &fault),
                     0);
    ck_assert_uint_eq(other.link, device.link);
    ck_assert_uint_eq(other.mtu_shift, device.mtu_shift);
    ck_assert_uint_eq(other.rail, device.rail);
    ck_assert_uint_eq(other.lid, device.lid);
    ck_assert_uint_eq(other.incarnation, device.incarnation);
    ck_assert_mem_eq(other.gid, device.gid, 16);
}
END_TEST

START_TEST(device_address_without_sense_is_refused)
{
    uint8_t bytes[MUCT_RDMA_DEV_ADDR_SIZE];
    muct_rdma_dev_addr_t other;
    static const struct {
        unsigned at;
        uint8_t value;
        const char *field;
    } bad[] = {
        {0, 0, "version"},
        {0, 2, "version"},
        {0, 4, "version"},
        {1, 0, "link"},
        {1, 4, "link"},
        {2, 7, "log2(mtu)"},
        {2, 13, "log2(mtu)"},
        {2, 255, "log2(mtu)"},
        {14, 0xff, "first byte of the gid"},
    };
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
        muct_rdma_dev_addr_pack(&device, bytes);
        bytes[bad[i].at] = bad[i].value;
        ck_assert_int_ne(
            muct_rdma_dev_addr_unpack(bytes, sizeof(bytes), &other, &fault), 0);
        ck_assert_str_eq(fault.field, bad[i].field);
        ck_assert_uint_eq(fault.value, bad[i].value);
    }

    muct_rdma_dev_addr_pack(&device, bytes);
    for (i = 0; i < sizeof(bytes); ++i) {
        ck_assert_int_ne(muct_rdma_dev_addr_unpack(bytes, i, &other, &fault), 0);
        ck_assert_str_eq(fault.field, "length");
    }

    memset(bytes + 14, 0, 16);
    ck_assert_int_ne(muct_rdma_dev_addr_unpack(bytes, sizeof(bytes), &other, &fault),
                     0);
    ck_assert_str_eq(fault.field, "gid");
    muct_rdma_dev_addr_pack(&device, bytes);
    memset(bytes + 6, 0, 8);
    ck_assert_int_ne(muct_rdma_dev_addr_unpack(bytes, sizeof(bytes), &other, &fault),
                     0);
    ck_assert_str_eq(fault.field, "incarnation");
    muct_rdma_dev_addr_pack(&device, bytes);
    bytes[1] = MUCT_RDMA_LINK_IB;
    bytes[5] = 0xc0;
    ck_assert_int_ne(muct_rdma_dev_addr_unpack(bytes, sizeof(bytes), &other, &fault),
                     0);
    ck_assert_str_eq(fault.field, "lid");
}
END_TEST

START_TEST(endpoint_address_comes_back_as_it_was)
{
    muct_rdma_ep_addr_t addr = {.num_qps = (uint8_t)_i,
                                .psn = 0xabcdef,
                                .num_receives = 64,
                                .receive_size = 8256,
                                .max_reads = 16,
                                .flush_addr = 0x7fffdeadbeef,
                                .flush_rkey = 0xfffffffe,
                                .ctl_qp = 0xfedcba};
    uint8_t bytes[MUCT_RDMA_EP_ADDR_SIZE(MUCT_RDMA_ADDR_MAX_QPS)];
    muct_rdma_ep_addr_t other;
    int i;

    for (i = 0; i < _i; ++i) {
        addr.qp_nums[i] = 0xfffff0 + (uint32_t)i;
    }

    ck_assert_uint_le(sizeof(bytes), 63); /* UCX's maximum */
    muct_rdma_ep_addr_pack(&addr, bytes);
    memset(&other, 0, sizeof(other));
    ck_assert_int_eq(
        muct_rdma_ep_addr_unpack(bytes, MUCT_RDMA_EP_ADDR_SIZE(_i), &other, &fault), 0);
    ck_assert_mem_eq(&other, &addr, sizeof(addr));
    ck_assert_int_ne(
        muct_rdma_ep_addr_unpack(bytes, MUCT_RDMA_EP_ADDR_SIZE(_i) - 1, &other, &fault),
        0);
}
END_TEST

START_TEST(endpoint_address_has_a_place_for_ece_behind_it)
{
    muct_rdma_ep_addr_t addr = {.num_qps = MUCT_RDMA_ECE_MAX_QPS,
                                .num_receives = 64,
                                .receive_size = 8256,
                                .flush_addr = 0x1000,
                                .qp_nums = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
                                .has_ece = true,
                                .ece = {0xfffe15b3, 0x30000001}};
    const size_t least = MUCT_RDMA_EP_ADDR_SIZE(MUCT_RDMA_ECE_MAX_QPS);
    uint8_t bytes[MUCT_RDMA_EP_ADDR_SIZE(MUCT_RDMA_ECE_MAX_QPS) + MUCT_RDMA_ECE_SIZE];
    muct_rdma_ep_addr_t other;
    size_t length;

    ck_assert_uint_le(sizeof(bytes), 63); /* UCX's maximum */
    muct_rdma_ep_addr_pack(&addr, bytes);
    memset(&other, 0, sizeof(other));
    ck_assert_int_eq(muct_rdma_ep_addr_unpack(bytes, sizeof(bytes), &other, &fault), 0);
    ck_assert_mem_eq(&other, &addr, sizeof(addr));

    /* addresses without ECE: absent, cut off at it, or of unknown length */
    for (length = least; length < sizeof(bytes); ++length) {
        ck_assert_int_eq(muct_rdma_ep_addr_unpack(bytes, length, &other, &fault), 0);
        ck_assert(!other.has_ece);
        ck_assert_uint_eq(other.ece.options, 0);
    }
    ck_assert_int_eq(muct_rdma_ep_addr_unpack(bytes, SIZE_MAX, &other, &fault), 0);
    ck_assert_uint_eq(other.ece.options, 0);
}
END_TEST

static muct_rdma_ctl_msg_t full_message(void)
{
    muct_rdma_ctl_msg_t msg = {
        .type = MUCT_RDMA_CTL_RENEW,
        .incarnation = 0x0123456789abcdef,
        .to = {0xfffffe, 0x123456},
        .from = {0x654321, 0xfedcba},
        .epoch = 0xfffffffe,
        .to_ctl_qp = 0x13579b,
        .received = 0x89abcdef,
        .psn = 0xabcdef,
        .ctl_qp = 0x778899,
        .dev = {.link = MUCT_RDMA_LINK_ROCE_V2,
                .mtu_shift = 12,
                .incarnation = 99,
                .gid = {1}},
        .num_qps = MUCT_RDMA_ADDR_MAX_QPS,
    };
    uint32_t i;

    for (i = 0; i < MUCT_RDMA_ADDR_MAX_QPS; ++i) {
        msg.qp_nums[i] = 0xfffff0 + i;
    }
    msg.ece.vendor_id = 0xfffe15b3;
    msg.ece.options = 0x30000001;
    msg.is_answer = true;
    msg.own_ctl_qp = 0xa1b2c3;
    msg.max_reads = 9;
    return msg;
}

START_TEST(control_message_comes_back_equal)
{
    const muct_rdma_ctl_msg_t msg = full_message();
    uint8_t bytes[MUCT_RDMA_CTL_MSG_SIZE];
    muct_rdma_ctl_msg_t other;

    ck_assert_uint_le(sizeof(bytes), 256); /* in one packet of any path */
    muct_rdma_ctl_msg_pack(&msg, bytes);
    memset(&other, 0, sizeof(other));
    ck_assert_int_eq(muct_rdma_ctl_msg_unpack(bytes, sizeof(bytes), &other, &fault), 0);
    ck_assert_mem_eq(&other, &msg, sizeof(msg));
}
END_TEST

START_TEST(control_message_without_sense_is_refused)
{
    const struct {
        unsigned at;
        uint32_t value; /* of three bytes */
        const char *field;
    } bad[] = {
        {0, 0x010002, "version"},
        {0, 0x010004, "version"},
        {0, 0xef0003, "type"},
        {0, 0xef0303, "type"},
        {16, 0, "sender"},
        {16, 1, "sender"},
        {33, 0, "control queue pair"},
        {33, 0xffffff, "control queue pair"},
        {36, 0x0c0300, "version"},
        {36, 0x0c0003, "link"},
        {66, 0xfff000, "number of queue pairs"},
        {66, 0xfff00d, "number of queue pairs"},
        {66, 0xfff0ff, "number of queue pairs"},
        {67, 0, "queue pair number"},
        {70, 0xffffff, "queue pair number"},
        {70, 0xfffff0, "queue pair number"}, /* the first one again */
        {115, 1, "own control queue pair"},
        {116, 0x80a1b2, "reads"},
    };
    const muct_rdma_ctl_msg_t msg = full_message();
    uint8_t bytes[MUCT_RDMA_CTL_MSG_SIZE];
    muct_rdma_ctl_msg_t other;
    unsigned i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
        muct_rdma_ctl_msg_pack(&msg, bytes);
        muct_put_le(bytes + bad[i].at, bad[i].value, 3);
        ck_assert_int_ne(muct_rdma_ctl_msg_unpack(bytes, sizeof(bytes), &other, &fault),
                         0);
        ck_assert_str_eq(fault.field, bad[i].field);
    }
    muct_rdma_ctl_msg_pack(&msg, bytes);
    ck_assert_int_ne(
        muct_rdma_ctl_msg_unpack(bytes, MUCT_RDMA_CTL_MSG_SIZE - 1, &other, &fault), 0);
}
END_TEST

static const muct_rdma_ep_addr_t good_addr = {.num_qps = 3,
                                              .num_receives = 64,
                                              .receive_size = 8256,
                                              .flush_addr = 0x1000,
                                              .ctl_qp = 2,
                                              .qp_nums = {17, 18, 19}};

/* The expected field of an address is refused, of a known length and without one. */
static void expect_refused(const muct_rdma_ep_addr_t *addr, const char *field)
{
    uint8_t bytes[MUCT_RDMA_EP_ADDR_SIZE(3)];
    muct_rdma_ep_addr_t other;

    muct_rdma_ep_addr_pack(addr, bytes);
    ck_assert_int_ne(muct_rdma_ep_addr_unpack(bytes, sizeof(bytes), &other, &fault), 0);
    ck_assert_str_eq(fault.field, field);
    ck_assert_int_ne(muct_rdma_ep_addr_unpack(bytes, SIZE_MAX, &other, &fault), 0);
    ck_assert_str_eq(fault.field, field);
}

START_TEST(endpoint_address_without_sense_is_refused)
{
    static const uint32_t bad[] = {0, 1, 0xffffff, 17};
    uint8_t bytes[MUCT_RDMA_EP_ADDR_SIZE(3)];
    muct_rdma_ep_addr_t addr, other;
    unsigned i;

    muct_rdma_ep_addr_pack(&good_addr, bytes);
    bytes[1] = 0;
    ck_assert_int_ne(muct_rdma_ep_addr_unpack(bytes, sizeof(bytes), &other, &fault), 0);
    bytes[1] = MUCT_RDMA_ADDR_MAX_QPS + 1;
    ck_assert_int_ne(muct_rdma_ep_addr_unpack(bytes, SIZE_MAX, &other, &fault), 0);

    for (i = 0; i < 4; ++i) {
        addr = good_addr;
        addr.qp_nums[2] = bad[i];
        expect_refused(&addr, "queue pair number");
    }
    addr = good_addr;
    addr.ctl_qp = 1;
    expect_refused(&addr, "control queue pair");
    addr = good_addr;
    addr.num_receives = 0; /* no peer could ever send to it */
    expect_refused(&addr, "number of receives");
    addr = good_addr;
    addr.receive_size = 0;
    expect_refused(&addr, "receive size");
    addr = good_addr;
    addr.flush_addr = 0;
    expect_refused(&addr, "flush address");
}
END_TEST

START_TEST(reachability_follows_link_subnet_and_rail)
{
    muct_rdma_dev_addr_t other = device;

    other.gid[15] = 2;
    other.rail = 4;
    ck_assert_ptr_null(muct_rdma_dev_addr_unreachable(&device, &other, 0));
    ck_assert_ptr_nonnull(muct_rdma_dev_addr_unreachable(&device, &other, 1));
    other.rail = 3;
    ck_assert_ptr_null(muct_rdma_dev_addr_unreachable(&device, &other, 1));
    other.link = MUCT_RDMA_LINK_ROCE_V1;
    ck_assert_ptr_nonnull(muct_rdma_dev_addr_unreachable(&device, &other, 0));
}
END_TEST

START_TEST(addresses_of_another_kind_do_not_meet)
{
    static const uint8_t kinds[][16] = {
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 2},
        {0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
        {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1},
    };
    muct_rdma_dev_addr_t one = device, other = device;
    unsigned i, j;

    for (i = 0; i < 3; ++i) {
        for (j = 0; j < 3; ++j) {
            memcpy(one.gid, kinds[i], sizeof(one.gid));
            memcpy(other.gid, kinds[j], sizeof(other.gid));
            ck_assert_int_eq(muct_rdma_dev_addr_unreachable(&one, &other, 0) == NULL,
                             i == j);
        }
    }
}
END_TEST

START_TEST(infiniband_subnets_do_not_meet)
{
    muct_rdma_dev_addr_t one = device, other;

    one.link = MUCT_RDMA_LINK_IB;
    other = one;
    other.gid[15] = 9;
    ck_assert_ptr_null(muct_rdma_dev_addr_unreachable(&one, &other, 0));
    other.gid[7] = 9;
    ck_assert_ptr_nonnull(muct_rdma_dev_addr_unreachable(&one, &other, 0));
}
END_TEST

#define DEVICES 2048
#define REGIONS 64

/* Keys of many peers. With one list of all keys this takes minutes. */
START_TEST(key_of_another_device_is_found_among_many)
{
    static muct_rdma_key_t *keys[DEVICES * REGIONS];
    unsigned i, nic, region;

    for (i = 0; i < DEVICES * REGIONS; ++i) { /* two devices a process */
        nic = (i / 2 / REGIONS) * 2 + i % 2;
        region = (i / 2) % REGIONS;
        keys[i] = muct_rdma_rkeys_alloc();
        ck_assert_ptr_nonnull(keys[i]);
        *keys[i] = (muct_rdma_key_t){.incarnation =
                                         ((uint64_t)(nic / 2 + 1) << 16) + nic % 2 + 1,
                                     .base = (uint64_t)(region + 1) << 32,
                                     .length = 4096,
                                     .chunk_shift = MUCT_RDMA_KEY_ONE_CHUNK,
                                     .num_rkeys = 1,
                                     .rkeys = {i}};
        muct_rdma_rkeys_add(keys[i]);
    }
    for (i = 0; i < DEVICES * REGIONS; i += 2) {
        muct_rdma_rkeys_target_t target = {.incarnation = keys[i]->incarnation,
                                           .address = keys[i]->base + 1,
                                           .length = 1,
                                           .rkey = i};

        ck_assert(muct_rdma_rkeys_translate(&target, keys[i + 1]->incarnation));
        ck_assert_uint_eq(target.rkey, i + 1);
        target.rkey = i;
        ck_assert(!muct_rdma_rkeys_translate(&target, (1ull << 40) + 2));
    }
    for (i = 0; i < DEVICES * REGIONS; ++i) {
        muct_rdma_rkeys_free(keys[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma wire");
    TCase *tcase = tcase_create("wire");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, key_comes_back_as_it_was);
    tcase_add_test(tcase, key_bytes_do_not_change_between_releases);
    tcase_add_test(tcase, every_changed_bit_of_a_key_is_refused);
    tcase_add_test(tcase, key_cut_anywhere_is_refused);
    tcase_add_test(tcase, key_without_sense_is_refused_with_a_reason);
    tcase_add_test(tcase, key_covers_its_region_and_nothing_else);
    tcase_add_test(tcase, chunks_meet_at_their_borders);
    tcase_add_test(tcase, device_address_comes_back_as_it_was);
    tcase_add_test(tcase, device_address_without_sense_is_refused);
    tcase_add_test(tcase, endpoint_address_has_a_place_for_ece_behind_it);
    tcase_add_loop_test(tcase, endpoint_address_comes_back_as_it_was, 1,
                        MUCT_RDMA_ADDR_MAX_QPS + 1);
    tcase_add_test(tcase, endpoint_address_without_sense_is_refused);
    tcase_add_test(tcase, control_message_comes_back_equal);
    tcase_add_test(tcase, control_message_without_sense_is_refused);
    tcase_add_test(tcase, reachability_follows_link_subnet_and_rail);
    tcase_add_test(tcase, addresses_of_another_kind_do_not_meet);
    tcase_add_test(tcase, infiniband_subnets_do_not_meet);
    tcase_add_test(tcase, key_of_another_device_is_found_among_many);
    suite_add_tcase(suite, tcase);

    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
