/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/hip/hipcpu_abi.h"
#include "test/support/rdma_log.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <dlfcn.h>
#include <stdbool.h>
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

static unsigned long num_allocations(void)
{
    void *symbol = hip_symbol("hipcpu_calls");
    unsigned long (*num_calls)(const char *function);

    memcpy(&num_calls, &symbol, sizeof(num_calls));
    return num_calls("hipMalloc");
}

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
    rig_ucp_open(UCP_FEATURE_RMA | UCP_FEATURE_TAG, &context, workers);
    ck_assert_int_eq(rig_ucp_connect(workers, 0, UCP_ERR_HANDLING_MODE_PEER, NULL, &ep),
                     UCS_OK);
}

static ucs_status_t map_only(ucs_memory_type_t type, char *address, size_t length,
                             ucp_mem_h *handle)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = address,
        .length = length,
        .memory_type = type,
    };

    return ucp_mem_map(context, &params, handle);
}

static ucs_status_t map_memory_of(ucs_memory_type_t type, char *address, size_t length)
{
    ucs_status_t status = map_only(type, address, length, &memh);
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

static ucs_status_t map_memory(char *address, size_t length)
{
    return map_memory_of(UCS_MEMORY_TYPE_ROCM, address, length);
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

typedef enum { GET, PUT, PUT_LIST, MESSAGE } way_t;

/* Put by a new handle and pack no key of it, because packing would renew the region. */
static ucs_status_t put_list(char *chunk, uint64_t remote)
{
    void *buffers[] = {chunk, chunk + CHUNK / 2};
    uint64_t remotes[] = {remote, remote + CHUNK / 2};
    size_t lengths[] = {CHUNK / 2, CHUNK / 2};
    ucp_rkey_h rkeys[] = {rkey, rkey};
    ucp_mem_h handles[2];
    const ucp_dt_local_sgl_t from = {.field_mask = UCP_DT_LOCAL_SGL_FIELD_BUFFERS |
                                                   UCP_DT_LOCAL_SGL_FIELD_LENGTHS |
                                                   UCP_DT_LOCAL_SGL_FIELD_MEMHS,
                                     .buffers = buffers,
                                     .lengths = lengths,
                                     .memhs = handles};
    const ucp_dt_remote_sgl_t to = {.field_mask = UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS |
                                                  UCP_DT_REMOTE_SGL_FIELD_LENGTHS |
                                                  UCP_DT_REMOTE_SGL_FIELD_RKEYS,
                                    .remote_addrs = remotes,
                                    .lengths = lengths,
                                    .rkeys = rkeys};
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE |
                        UCP_OP_ATTR_FIELD_REMOTE | UCP_OP_ATTR_FIELD_REMOTE_COUNT,
        .datatype = ucp_dt_make_sgl(),
        .remote_datatype = ucp_dt_make_sgl(),
        .remote = &to,
        .remote_count = 2};
    ucs_status_t status;

    ck_assert_int_eq(map_only(UCS_MEMORY_TYPE_ROCM, chunk, CHUNK, &handles[0]), UCS_OK);
    handles[1] = handles[0];
    status = rig_ucp_wait(workers, ucp_put_nbx(ep, &from, 2, UCP_REMOTE_ADDR_INVALID,
                                               UCP_RKEY_INVALID, &param));
    ck_assert_int_eq(ucp_mem_unmap(context, handles[0]), UCS_OK);
    return status;
}

/* Eagerly, from the memory itself. */
static ucs_status_t send_message(char *chunk, char *host,
                                 const ucp_request_param_t *param)
{
    const ucp_request_param_t none = {0};
    ucs_status_ptr_t received = ucp_tag_recv_nbx(workers[1], host, CHUNK, 0, 0, &none);
    ucs_status_t status =
        rig_ucp_wait(workers, ucp_tag_send_nbx(ep, chunk, CHUNK, 0, param));

    ck_assert_int_eq(rig_ucp_wait(workers, received), UCS_OK);
    return status;
}

/* Move a chunk of the GPU to memory of the host or back by UCP. */
static ucs_status_t move(way_t way, char *chunk, char *host)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .memory_type = UCS_MEMORY_TYPE_ROCM};
    const uint64_t remote = (uintptr_t)host;

    switch (way) {
    case GET:
        return rig_ucp_wait(workers,
                            ucp_get_nbx(ep, chunk, CHUNK, remote, rkey, &param));
    case PUT:
        return rig_ucp_wait(workers,
                            ucp_put_nbx(ep, chunk, CHUNK, remote, rkey, &param));
    case PUT_LIST:
        return put_list(chunk, remote);
    default:
        return send_message(chunk, host, &param);
    }
}

static void move_and_look(way_t way, char *chunk, char *host, unsigned seed)
{
    const ucp_request_param_t none = {0};
    char *expected = malloc(CHUNK);

    ck_assert_ptr_nonnull(expected);
    mkv_pattern_fill(expected, CHUNK, seed, 0);
    ck_assert(mkv_hip_copy((way == GET) ? host : chunk, expected, CHUNK));
    ck_assert_int_eq(move(way, chunk, host), UCS_OK);
    ck_assert_int_eq(rig_ucp_wait(workers, ucp_ep_flush_nbx(ep, &none)), UCS_OK);
    memset(expected, 0, CHUNK);
    ck_assert(mkv_hip_copy(expected, (way == GET) ? chunk : host, CHUNK));
    ck_assert_uint_eq(mkv_pattern_check(expected, CHUNK, seed, 0), CHUNK);
    free(expected);
}

/* UCP's cache keeps the handle of the chunk that was mapped before. */
START_TEST(memory_mapped_anew_is_not_taken_for_the_earlier_one)
{
    char *chunk, *host = aligned_alloc(4096, CHUNK);
    unsigned round;

    setenv("UCX_RNDV_THRESH", "inf", 1);
    ck_assert_ptr_nonnull(host);
    ck_assert(mkv_hip_set_device(0));
    chunk = reserve(CHUNK);
    open_worker();
    ck_assert_int_eq(map_memory_of(UCS_MEMORY_TYPE_HOST, host, CHUNK), UCS_OK);
    for (round = 0; round < 3; round++) {
        map_chunk(chunk);
        move_and_look((way_t)_i, chunk, host, round + 1);
        CALL(hipMemUnmap, chunk, CHUNK);
    }
    unmap_memory();
    rig_ucp_close(context, workers, ep);
    free(host);
}
END_TEST

/* Both ends of the region stay: only its middle is mapped anew. */
START_TEST(chunk_mapped_anew_in_a_region_is_registered_anew)
{
    char *address;
    unsigned i;

    setenv("FAKE_VERBS_PEERMEM", "y", 1); /* no dma-buf spans them */
    ck_assert(mkv_hip_set_device(0));
    address = reserve(3 * CHUNK);
    for (i = 0; i < 3; i++) {
        map_chunk(address + i * CHUNK);
    }
    open_worker();
    ck_assert_int_eq(map_memory(address, 3 * CHUNK), UCS_OK);
    put_and_look(address, 3 * CHUNK, 1);
    unmap_memory();
    CALL(hipMemUnmap, address + CHUNK, CHUNK);
    map_chunk(address + CHUNK);
    ck_assert_int_eq(map_memory(address, 3 * CHUNK), UCS_OK);
    put_and_look(address, 3 * CHUNK, 2);
    unmap_memory();
    for (i = 0; i < 3; i++) {
        CALL(hipMemUnmap, address + i * CHUNK, CHUNK);
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

START_TEST(memory_of_a_stream_has_a_dmabuf_up_to_rocm_6)
{
    void *address;

    setenv("HIPCPU_VERSION", (_i == 6) ? "6.4" : "7.1", 1);
    ck_assert(mkv_hip_set_device(0));
    rdma_log_watch(&no_key, 1);
    open_worker();
    CALL(hipMallocAsync, &address, CHUNK, NULL);
    ck_assert_int_eq(map_memory(address, CHUNK), UCS_OK);
    ck_assert_uint_eq(no_key.num, _i == 7);
    if (_i == 6) {
        put_and_look(address, CHUNK, 8);
    }
    unmap_memory();
    CALL(hipFreeAsync, address, NULL);
    rig_ucp_close(context, workers, ep);
}
END_TEST

static rdma_log_watch_t exports[] = {{UCS_LOG_LEVEL_WARN, "8517", 0},
                                     {UCS_LOG_LEVEL_WARN, "has no key with", 0}};

/* A NIC that takes GPU memory by dma-buf alone: opening exports nothing and allocates
 * nothing on a GPU. With ROCm 7.x the first export logs a warning about what may
 * follow. */
START_TEST(nothing_is_exported_before_it_is_needed)
{
    static const char *const releases[] = {"6.4", "7.1", "7.15", "8.0"};
    const unsigned num_warnings = (releases[_i][0] == '7');
    char *address;

    setenv("HIPCPU_VERSION", releases[_i], 1);
    setenv("HIPCPU_FAIL",
           "hsa_amd_portable_export_dmabuf:1:1,hipMemGetHandleForAddressRange:1:1", 1);
    rdma_log_watch(exports, 2);
    ck_assert(mkv_hip_set_device(0));
    open_worker();
    ck_assert_uint_eq(exports[0].num, 0);
    ck_assert_uint_eq(num_allocations(), 0);
    address = mkv_hip_alloc(CHUNK);
    ck_assert_ptr_nonnull(address);
    ck_assert_int_eq(map_memory(address, CHUNK), UCS_OK);
    ck_assert_uint_eq(exports[0].num, num_warnings);
    ck_assert_uint_eq(exports[1].num, 1); /* it was the first export that failed */
    unmap_memory();
    rig_ucp_close(context, workers, ep);
}
END_TEST

/* A pool gives its address to other memory once it has given the first back. */
START_TEST(memory_of_a_pool_is_registered_as_the_pool_has_it)
{
    uint64_t threshold = CHUNK;
    void *address, *again;
    hipMemPool_t pool;

    setenv("FAKE_VERBS_PEERMEM", "y", 1); /* ROCm 7 has no dma-buf of it */
    ck_assert(mkv_hip_set_device(0));
    open_worker();
    CALL(hipDeviceGetDefaultMemPool, &pool, 0);
    CALL(hipMemPoolSetAttribute, pool, 4, &threshold);
    CALL(hipMallocAsync, &address, CHUNK, NULL);
    ck_assert_int_eq(map_memory(address, CHUNK), UCS_OK);
    put_and_look(address, CHUNK, 1);
    unmap_memory();
    CALL(hipFreeAsync, address, NULL);
    if (_i == 1) {
        CALL(hipMemPoolTrimTo, pool, 0);
    }
    CALL(hipMallocAsync, &again, CHUNK, NULL);
    ck_assert_ptr_eq(again, address);
    ck_assert_int_eq(map_memory(again, CHUNK), UCS_OK);
    put_and_look(again, CHUNK, 2);
    unmap_memory();
    CALL(hipFreeAsync, again, NULL);
    rig_ucp_close(context, workers, ep);
}
END_TEST

/* The GPU's driver exports no dma-bufs, or the device's takes none: no key is tried,
 * and UCP copies the memory. */
START_TEST(gpu_memory_that_no_driver_shares_is_copied)
{
    char *address;

    if (_i == 0) {
        setenv("HIPCPU_RULES", "old-driver", 1);
    } else {
        setenv("FAKE_VERBS_CAPS", "dmabuf=0", 1);
    }
    rdma_log_watch(exports, 2);
    ck_assert(mkv_hip_set_device(0));
    open_worker();
    address = mkv_hip_alloc(CHUNK);
    ck_assert_ptr_nonnull(address);
    ck_assert_int_eq(map_memory(address, CHUNK), UCS_OK);
    ck_assert_uint_eq(exports[0].num, 0);
    ck_assert_uint_eq(exports[1].num, 0);
    put_and_look(address, CHUNK, 3);
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
    tcase_add_loop_test(tcase, memory_mapped_anew_is_not_taken_for_the_earlier_one, GET,
                        MESSAGE + 1);
    tcase_add_test(tcase, chunk_mapped_anew_in_a_region_is_registered_anew);
    tcase_add_loop_test(tcase, memory_of_two_chunks_can_be_mapped, 0, 2);
    tcase_add_loop_test(tcase, memory_of_a_stream_has_a_dmabuf_up_to_rocm_6, 6, 8);
    tcase_add_loop_test(tcase, nothing_is_exported_before_it_is_needed, 0, 4);
    tcase_add_loop_test(tcase, memory_of_a_pool_is_registered_as_the_pool_has_it, 0, 2);
    tcase_add_loop_test(tcase, gpu_memory_that_no_driver_shares_is_copied, 0, 2);
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
