/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_log.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucp/api/ucp.h>

/*
 * Memory that a device registers in large pages alone, or not at all. ucp_mem_map()
 * succeeds, and UCP's messages carry data that the device did not register. Worker 0
 * puts into memory of worker 1.
 */

#define GIB ((size_t)1 << 30)
#define LENGTH (1u << 20) /* of a put */

static ucp_context_h context;
static ucp_worker_h workers[2];
static ucp_ep_h ep;
static ucp_mem_h memh;
static ucp_rkey_h rkey;
static rdma_log_watch_t bare = {UCS_LOG_LEVEL_WARN, "has no key with this device", 0};

static void open_workers(void)
{
    const ucp_request_param_t none = {0};

    rdma_log_watch(&bare, 1);
    rig_ucp_open(UCP_FEATURE_RMA | UCP_FEATURE_AM, &context, workers);
    ck_assert_int_eq(rig_ucp_connect(workers, 0, UCP_ERR_HANDLING_MODE_PEER, NULL, &ep),
                     UCS_OK);
    ck_assert_int_eq(rig_ucp_wait(workers, ucp_ep_flush_nbx(ep, &none)), UCS_OK);
}

static void map(void *address, size_t length, ucs_memory_type_t type)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = address,
        .length = length,
        .memory_type = type,
    };
    void *key;

    ck_assert_int_eq(ucp_mem_map(context, &params, &memh), UCS_OK);
    ck_assert_int_eq(ucp_rkey_pack(context, memh, &key, &length), UCS_OK);
    ck_assert_int_eq(ucp_ep_rkey_unpack(ep, key, &rkey), UCS_OK);
    ucp_rkey_buffer_release(key);
}

/* Put with the region's keys, or by UCP's messages. */
static void expect_put(char *to, int has_keys)
{
    const ucp_request_param_t none = {0};
    fake_verbs_stats_t stats;
    uint64_t before;
    char *from = malloc(LENGTH);

    ck_assert_ptr_nonnull(from);
    mkv_pattern_fill(from, LENGTH, 5, 0);
    fake_verbs_device_stats("fake0", &stats);
    before = stats.sends;
    ck_assert_int_eq(rig_ucp_wait(workers, ucp_put_nbx(ep, from, LENGTH, (uintptr_t)to,
                                                       rkey, &none)),
                     UCS_OK);
    ck_assert_int_eq(rig_ucp_wait(workers, ucp_ep_flush_nbx(ep, &none)), UCS_OK);
    ck_assert_uint_eq(mkv_pattern_check(to, LENGTH, 5, 0), LENGTH);
    fake_verbs_device_stats("fake0", &stats);
    ck_assert_msg((stats.sends - before < 32) == has_keys, "%llu work requests",
                  (unsigned long long)(stats.sends - before));
    ck_assert_uint_eq(bare.num, !has_keys);
    free(from);
}

static void finish(void)
{
    ucp_rkey_destroy(rkey);
    ck_assert_int_eq(ucp_mem_unmap(context, memh), UCS_OK);
    rig_ucp_close(context, workers, ep);
}

static char *reserve(size_t length)
{
    void *address = mmap(NULL, length, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ck_assert_ptr_ne(address, MAP_FAILED);
    return address;
}

/* The region has one or two keys per 64 GiB on a device that reports 2 GiB. */
START_TEST(region_in_huge_pages_has_few_keys)
{
    static const size_t rows[][2] = {{3, 1}, {64, 1}, {66, 2}, {150, 3}};
    const size_t length = rows[_i][0] * GIB;
    fake_verbs_objects_t before, after;
    char *address = reserve(length);

    if (madvise(address, length, MADV_HUGEPAGE) != 0) {
        return; /* this kernel has none */
    }
    open_workers();
    fake_verbs_objects(&before);
    map(address, length, UCS_MEMORY_TYPE_HOST);
    fake_verbs_objects(&after);
    ck_assert_uint_eq(after.mrs - before.mrs, rows[_i][1]);
    expect_put(address + length - LENGTH, 1);
    finish();
}
END_TEST

START_TEST(region_beyond_the_page_table_goes_by_messages)
{
    const size_t length = ((_i == 0) ? 5 : 66) * GIB;
    char *address = reserve(length);

    open_workers();
    map(address, length, UCS_MEMORY_TYPE_HOST);
    expect_put(address, 0);
    finish();
}
END_TEST

/* Memory that no transport can register stays an error. */
START_TEST(region_that_is_not_there_is_refused)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = LENGTH};

    open_workers();
    params.address = reserve(LENGTH);
    ck_assert_int_eq(munmap(params.address, LENGTH), 0);
    ck_assert(UCS_STATUS_IS_ERR(ucp_mem_map(context, &params, &memh)));
    params.address = reserve(LENGTH);
    map(params.address, LENGTH, UCS_MEMORY_TYPE_HOST);
    finish();
}
END_TEST

static Suite *large_suite(void)
{
    Suite *suite = suite_create("mori_rdma large memory");
    TCase *tcase = tcase_create("large");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, region_in_huge_pages_has_few_keys, 0, 4);
    tcase_add_loop_test(tcase, region_beyond_the_page_table_goes_by_messages, 0, 2);
    tcase_add_test(tcase, region_that_is_not_there_is_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    rig_ucp_environment(NULL);
    setenv("FAKE_VERBS_DEVICES", "fake0:pollara", 1);
    setenv("UCX_TLS", "mori_rdma,tcp", 1);
    ct_side_find_module();
    mkv_test_init();
    return mkv_check_run_forked(large_suite());
}
