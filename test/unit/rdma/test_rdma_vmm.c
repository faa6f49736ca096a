/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/hip/hipcpu_abi.h"
#include "test/support/rdma_log.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

/*
 * Memory of HIP's virtual memory calls, as used by expandable segments and sleep modes.
 * Chunks come and go at a fixed address, and UCX is not notified. The worker puts into
 * memory of its own process.
 */

#define CHUNK ((size_t)2 << 20)

static ucp_context_h context;
static ucp_worker_h workers[2];
static ucp_ep_h ep;
static ucp_mem_h memh;
static ucp_rkey_h rkey;

/* The library that the module has loaded. */
static void *hip_symbol(const char *name)
{
    void *library = dlopen(HIPCPU_PATH, RTLD_NOW);
    void *symbol;

    ck_assert_msg(library != NULL, "%s", dlerror());
    symbol = dlsym(library, name);
    ck_assert_msg(symbol != NULL, "%s", dlerror());
    return symbol;
}

#define CALL(_name, ...)                                                               \
    do {                                                                               \
        void *symbol_ = hip_symbol(#_name);                                            \
        __typeof__(&_name) call_;                                                      \
        memcpy(&call_, &symbol_, sizeof(call_));                                       \
        ck_assert_int_eq(call_(__VA_ARGS__), 0);                                       \
    } while (0)

static char *reserve(size_t length)
{
    void *address;

    CALL(hipMemAddressReserve, &address, length, 0, NULL, 0);
    return address;
}

static void map_chunk(char *address)
{
    const hipMemAllocationProp prop = {.type = 1, .location = {1, 0}};
    const hipMemAccessDesc access = {.location = {1, 0}, .flags = 3};
    hipMemGenericAllocationHandle_t chunk;

    CALL(hipMemCreate, &chunk, CHUNK, &prop, 0);
    CALL(hipMemMap, address, CHUNK, 0, chunk, 0);
    CALL(hipMemSetAccess, address, CHUNK, &access, 1);
    CALL(hipMemRelease, chunk);
}

static void open_worker(void)
{
    rig_ucp_open(UCP_FEATURE_RMA, &context, workers);
    ck_assert_int_eq(rig_ucp_connect(workers, 0, UCP_ERR_HANDLING_MODE_PEER, NULL, &ep),
                     UCS_OK);
}

static ucs_status_t map_memory(char *address, size_t length)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = address,
        .length = length,
        .memory_type = UCS_MEMORY_TYPE_ROCM,
    };
    ucs_status_t status = ucp_mem_map(context, &params, &memh);
    size_t key_length;
    void *key;

    if (status != UCS_OK) {
        return status;
    }

    ck_assert_int_eq(ucp_rkey_pack(context, memh, &key, &key_length), UCS_OK);
    ck_assert_int_eq(ucp_ep_rkey_unpack(ep, key, &rkey), UCS_OK);
    ucp_rkey_buffer_release(key);
    return UCS_OK;
}

static void unmap_memory(void)
{
    ucp_rkey_destroy(rkey);
    ck_assert_int_eq(ucp_mem_unmap(context, memh), UCS_OK);
}

static void put_and_look(char *address, size_t length, unsigned seed)
{
    const ucp_request_param_t none = {0};
    char *bytes = malloc(length);
    size_t i;

    ck_assert_ptr_nonnull(bytes);
    mkv_pattern_fill(bytes, length, seed, 0);
    ck_assert_int_eq(
        rig_ucp_wait(workers,
                     ucp_put_nbx(ep, bytes, length, (uintptr_t)address, rkey, &none)),
        UCS_OK);
    ck_assert_int_eq(rig_ucp_wait(workers, ucp_ep_flush_nbx(ep, &none)), UCS_OK);
    memset(bytes, 0, length);
    for (i = 0; i < length; i += CHUNK) {
        ck_assert(mkv_hip_copy(bytes + i, address + i, CHUNK));
    }
    ck_assert_uint_eq(mkv_pattern_check(bytes, length, seed, 0), length);
    free(bytes);
}

START_TEST(memory_mapped_anew_at_its_address_is_registered_anew)
{
    char *address;
    unsigned round;

    ck_assert(mkv_hip_set_device(0));
    address = reserve(CHUNK);
    open_worker();
    for (round = 0; round < 3; round++) {
        map_chunk(address);
        ck_assert_int_eq(map_memory(address, CHUNK), UCS_OK);
        put_and_look(address, CHUNK, round + 1);
        unmap_memory();
        CALL(hipMemUnmap, address, CHUNK);
    }
    rig_ucp_close(context, workers, ep);
}
END_TEST

static rdma_log_watch_t no_key = {UCS_LOG_LEVEL_WARN, "has no key with this device", 0};

/* No dma-buf spans them; peer memory does. */
START_TEST(memory_of_two_chunks_can_be_mapped)
{
    char *address;

    setenv("FAKE_VERBS_PEERMEM", (_i == 0) ? "n" : "y", 1);
    ck_assert(mkv_hip_set_device(0));
    address = reserve(2 * CHUNK);
    map_chunk(address);
    map_chunk(address + CHUNK);
    rdma_log_watch(&no_key, 1);
    open_worker();
    ck_assert_int_eq(map_memory(address, 2 * CHUNK), UCS_OK);
    ck_assert_uint_eq(no_key.num, _i == 0);
    if (_i == 1) {
        put_and_look(address, 2 * CHUNK, 9);
    }
    unmap_memory();
    CALL(hipMemUnmap, address, CHUNK);
    CALL(hipMemUnmap, address + CHUNK, CHUNK);
    rig_ucp_close(context, workers, ep);
}
END_TEST

static rdma_log_watch_t exports[] = {{UCS_LOG_LEVEL_WARN, "8517", 0},
                                     {UCS_LOG_LEVEL_WARN, "has no key with", 0}};

/* ROCm 7.1 and a NIC that takes GPU memory by dma-buf alone: opening exports nothing,
 * and the first export logs a warning about the consequences. */
START_TEST(nothing_is_exported_before_it_is_needed)
{
    char *address;

    setenv("HIPCPU_FAIL",
           "hsa_amd_portable_export_dmabuf:1:1,hipMemGetHandleForAddressRange:1:1", 1);
    rdma_log_watch(exports, 2);
    ck_assert(mkv_hip_set_device(0));
    open_worker();
    ck_assert_uint_eq(exports[0].num, 0);
    address = mkv_hip_alloc(CHUNK);
    ck_assert_ptr_nonnull(address);
    ck_assert_int_eq(map_memory(address, CHUNK), UCS_OK);
    ck_assert_uint_eq(exports[0].num, 1);
    ck_assert_uint_eq(exports[1].num, 1); /* it was the first export that failed */
    unmap_memory();
    rig_ucp_close(context, workers, ep);
}
END_TEST

static Suite *vmm_suite(void)
{
    Suite *suite = suite_create("mori_rdma chunks");
    TCase *tcase = tcase_create("chunks");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, memory_mapped_anew_at_its_address_is_registered_anew);
    tcase_add_loop_test(tcase, memory_of_two_chunks_can_be_mapped, 0, 2);
    tcase_add_test(tcase, nothing_is_exported_before_it_is_needed);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    rig_ucp_environment(HIPCPU_PATH);
    setenv("FAKE_VERBS_DEVICES", "fake0:ionic", 1);
    setenv("FAKE_VERBS_PEERMEM", "n", 1);
    setenv("HIPCPU_VERSION", "7.1", 1);
    setenv("UCX_TLS", "mori_rdma,mori_copy,tcp", 1);
    setenv("UCX_MORI_RDMA_GPU_FLUSH", "n", 1); /* no pages to export */
    ct_side_find_module();
    mkv_test_init();
    return mkv_check_run_forked(vmm_suite());
}
