/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "xgmi/peer/xgmi_addr.h"
#include "xgmi/memory/xgmi_key.h"

#include <stdlib.h>
#include <string.h>

static const muct_xgmi_key_t sample = {
    .kind = MUCT_XGMI_KEY_REMOTE,
    .owner = UINT64_C(0x0123456789abcdef),
    .address = UINT64_C(0x7f0000001000),
    .length = 4096,
    .base = UINT64_C(0x7f0000000000),
    .alloc_length = UINT64_C(6) << 30,
    .slot = 77,
    .buffer_id = UINT64_C(0x123456789a),
    .generation = 0xfffffffd,
    .device = 5,
    .handle = "sixty-four bytes of a handle",
};

static unsigned char packed[MUCT_XGMI_KEY_PACKED_SIZE];

static void setup(void)
{
    muct_xgmi_key_pack(&sample, packed);
}

START_TEST(packed_key_comes_back)
{
    muct_xgmi_key_t key;

    ck_assert_int_eq(muct_xgmi_key_unpack(packed, sizeof(packed), &key), UCS_OK);
    ck_assert_int_eq(key.kind, sample.kind);
    ck_assert_uint_eq(key.owner, sample.owner);
    ck_assert_uint_eq(key.address, sample.address);
    ck_assert_uint_eq(key.length, sample.length);
    ck_assert_uint_eq(key.base, sample.base);
    ck_assert_uint_eq(key.alloc_length, sample.alloc_length);
    ck_assert_uint_eq(key.slot, sample.slot);
    ck_assert_uint_eq(key.generation, sample.generation);
    ck_assert_uint_eq(key.buffer_id, sample.buffer_id);
    ck_assert_uint_eq(key.device, sample.device);
    ck_assert_mem_eq(key.handle, sample.handle, sizeof(key.handle));
    ck_assert_int_eq(muct_xgmi_key_compare(&key, &sample), 0);
}
END_TEST

START_TEST(truncated_key_is_refused)
{
    muct_xgmi_key_t key = sample;
    unsigned char *exact;
    size_t length;

    for (length = 0; length < sizeof(packed); ++length) {
        exact = malloc(length + 1); /* the sanitizer sees a read beyond it */
        ck_assert_ptr_nonnull(exact);
        memcpy(exact, packed, length);
        exact = realloc(exact, (length == 0) ? 1 : length);
        ck_assert_int_ne(muct_xgmi_key_unpack(exact, length, &key), UCS_OK);
        free(exact);
    }
    ck_assert_uint_eq(key.slot, sample.slot);
}
END_TEST

START_TEST(flipped_bit_is_found)
{
    muct_xgmi_key_t key;
    unsigned bit;

    for (bit = 0; bit < 8 * sizeof(packed); ++bit) {
        packed[bit / 8] ^= (unsigned char)(1u << (bit % 8));
        ck_assert_int_ne(muct_xgmi_key_unpack(packed, sizeof(packed), &key), UCS_OK);
        packed[bit / 8] ^= (unsigned char)(1u << (bit % 8));
    }
    ck_assert_int_eq(muct_xgmi_key_unpack(packed, sizeof(packed), &key), UCS_OK);
}
END_TEST

START_TEST(other_version_is_distinguished_from_damage)
{
    muct_xgmi_key_t key;

    packed[0] = 1;
    ck_assert_int_eq(muct_xgmi_key_unpack(packed, sizeof(packed), &key),
                     UCS_ERR_UNSUPPORTED);
}
END_TEST

/* Complete keys with impossible values. */
START_TEST(contradicting_key_is_refused)
{
    muct_xgmi_key_t keys[7], key;
    unsigned i;

    for (i = 0; i < 7; ++i) {
        keys[i] = sample;
    }
    keys[0].address = sample.base - 1;
    keys[1].length = sample.alloc_length;
    keys[2].length = UINT64_MAX;
    keys[3].alloc_length = UINT64_MAX;
    keys[4].kind = (muct_xgmi_key_kind_t)0;
    keys[5].kind = (muct_xgmi_key_kind_t)5;
    keys[6].address = sample.base + sample.alloc_length + 1;
    for (i = 0; i < 7; ++i) {
        muct_xgmi_key_pack(&keys[i], packed);
        ck_assert_int_eq(muct_xgmi_key_unpack(packed, sizeof(packed), &key),
                         UCS_ERR_INVALID_PARAM);
    }
}
END_TEST

START_TEST(keys_of_two_registrations_differ)
{
    muct_xgmi_key_t other = sample;

    other.buffer_id += 1; /* freed, and allocated at the same place */
    ck_assert_int_ne(muct_xgmi_key_compare(&sample, &other), 0);
    other = sample;
    other.generation += 2;
    ck_assert_int_ne(muct_xgmi_key_compare(&sample, &other), 0);
    ck_assert_int_eq(muct_xgmi_key_compare(&sample, &other) < 0,
                     muct_xgmi_key_compare(&other, &sample) > 0);
}
END_TEST

START_TEST(addresses_reach_by_host_and_namespace)
{
    muct_xgmi_device_addr_t here = {1, 2}, other_host = {9, 2}, other_shm = {1, 9};
    muct_xgmi_device_addr_t network = {1, 2, 5}, other_network = {1, 2, 6};
    muct_xgmi_iface_addr_t me = {10, 20, 30, {0, 1}}, friend = {11, 20, 31, {0, 1}},
                           twin = {12, 21, 30, {0, 1}};
    char reason[256] = "";

    ck_assert(muct_xgmi_addr_can_reach(&here, &me, &here, &me, reason, 160));
    ck_assert(muct_xgmi_addr_can_reach(&here, &me, &here, &friend, reason, 160));
    ck_assert(!muct_xgmi_addr_can_reach(&here, &me, &other_host, &friend, reason, 160));
    ck_assert_ptr_nonnull(strstr(reason, "host id"));
    ck_assert(!muct_xgmi_addr_can_reach(&here, &me, &other_shm, &friend, reason, 160));
    ck_assert_ptr_nonnull(strstr(reason, "/dev/shm"));
    ck_assert(!muct_xgmi_addr_can_reach(&network, &me, &other_network, &friend, reason,
                                        sizeof(reason)));
    ck_assert_ptr_nonnull(strstr(reason, "--network=host"));
    ck_assert(muct_xgmi_addr_can_reach(&network, &me, &network, &friend, reason, 160));
    ck_assert(muct_xgmi_addr_can_reach(&here, &me, &network, &friend, reason, 160));
    ck_assert(
        muct_xgmi_addr_can_reach(&network, &me, &other_network, &me, reason, 160));
    ck_assert(!muct_xgmi_addr_can_reach(&here, &me, &here, &twin, reason, 160));
    ck_assert_ptr_nonnull(strstr(reason, "same pid 30"));
}
END_TEST

START_TEST(address_of_another_version_is_refused)
{
    unsigned char device[MUCT_XGMI_DEVICE_ADDR_SIZE], iface[MUCT_XGMI_IFACE_ADDR_SIZE];
    muct_xgmi_device_addr_t device_addr = {1, 2, 3};
    muct_xgmi_iface_addr_t iface_addr = {3, 4, 5, {6, 7}};

    muct_xgmi_device_addr_pack(&device_addr, device);
    muct_xgmi_iface_addr_pack(&iface_addr, iface);
    ck_assert_int_eq(muct_xgmi_device_addr_unpack(device, &device_addr), UCS_OK);
    ck_assert_int_eq(muct_xgmi_iface_addr_unpack(iface, &iface_addr), UCS_OK);
    ck_assert_uint_eq(device_addr.network, 3);
    ck_assert_uint_eq(iface_addr.pid, 5);
    ck_assert_uint_eq(iface_addr.id.slot, 6);
    ck_assert_uint_eq(iface_addr.id.generation, 7);
    device[0] ^= 1;
    iface[0] ^= 1;
    ck_assert_int_eq(muct_xgmi_device_addr_unpack(device, &device_addr),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(muct_xgmi_iface_addr_unpack(iface, &iface_addr),
                     UCS_ERR_UNSUPPORTED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_key");
    TCase *tcase = tcase_create("key");
    SRunner *runner;
    int num_failed;

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, packed_key_comes_back);
    tcase_add_test(tcase, truncated_key_is_refused);
    tcase_add_test(tcase, flipped_bit_is_found);
    tcase_add_test(tcase, other_version_is_distinguished_from_damage);
    tcase_add_test(tcase, contradicting_key_is_refused);
    tcase_add_test(tcase, keys_of_two_registrations_differ);
    tcase_add_test(tcase, addresses_reach_by_host_and_namespace);
    tcase_add_test(tcase, address_of_another_version_is_refused);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (num_failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
