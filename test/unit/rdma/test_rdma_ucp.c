/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

/*
 * Data in GPU memory at the time UCP reports the end of a put, for each kind of end.
 * The fake libibverbs makes a write to a GPU visible after a later read from the same
 * GPU. Worker 0 writes to GPUs of worker 1; GPUs are libhipcpu's.
 */

#define SIZE 262144
#define NUM_GPUS 2
#define AM_ID 7

/* Operation whose completion promises that the data has arrived. */
typedef enum end { EP_FLUSH, WORKER_FLUSH, FENCE_AND_MESSAGE, NUM_ENDS } end_t;

static ucp_context_h context;
static ucp_worker_h workers[2];
static ucp_ep_h ep;
static char *source;
static char *gpus[NUM_GPUS];
static ucp_mem_h source_memh, gpu_memhs[NUM_GPUS];
static ucp_rkey_h rkeys[NUM_GPUS];
static unsigned num_messages, num_failures;

static void on_failure(void *arg, ucp_ep_h failed, ucs_status_t status)
{
    (void)arg;
    (void)failed;
    (void)status;
    num_failures++;
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length,
                               void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    num_messages++;
    return UCS_OK;
}

static ucp_mem_h map_memory(void *address, ucs_memory_type_t type)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = address,
        .length = SIZE,
        .memory_type = type,
    };
    ucp_mem_h memh;

    ck_assert_int_eq(ucp_mem_map(context, &params, &memh), UCS_OK);
    return memh;
}

static void open_gpu(unsigned gpu)
{
    void *key;
    size_t length;

    ck_assert_msg(mkv_hip_set_device((int)gpu), "%s", mkv_hip_why());
    gpus[gpu] = mkv_hip_alloc(SIZE);
    ck_assert_ptr_nonnull(gpus[gpu]);
    memset(gpus[gpu], 0, SIZE);
    gpu_memhs[gpu] = map_memory(gpus[gpu], UCS_MEMORY_TYPE_ROCM);
    ck_assert_int_eq(ucp_rkey_pack(context, gpu_memhs[gpu], &key, &length), UCS_OK);
    ck_assert_int_eq(ucp_ep_rkey_unpack(ep, key, &rkeys[gpu]), UCS_OK);
    ucp_rkey_buffer_release(key);
}

static void connect_workers(void)
{
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
        .id = AM_ID,
        .cb = on_message};
    const ucp_request_param_t none = {0};

    ck_assert_int_eq(ucp_worker_set_am_recv_handler(workers[1], &handler), UCS_OK);
    ck_assert_int_eq(
        rig_ucp_connect(workers, 0, UCP_ERR_HANDLING_MODE_PEER, on_failure, &ep),
        UCS_OK);
    ck_assert_int_eq(rig_ucp_wait(workers, ucp_ep_flush_nbx(ep, &none)), UCS_OK);
}

static void start(void)
{
    unsigned i;

    rig_ucp_open(UCP_FEATURE_RMA | UCP_FEATURE_AM, &context, workers);
    connect_workers();
    source = malloc(SIZE);
    ck_assert_ptr_nonnull(source);
    mkv_pattern_fill(source, SIZE, 1, 0);
    source_memh = map_memory(source, UCS_MEMORY_TYPE_HOST);
    for (i = 0; i < NUM_GPUS; i++) {
        open_gpu(i);
    }
    fake_verbs_gpu_lookup(mkv_hip_device_of);
}

static void finish(void)
{
    unsigned i;

    for (i = 0; i < NUM_GPUS; i++) {
        ucp_rkey_destroy(rkeys[i]);
        if (gpu_memhs[i] != NULL) {
            ck_assert_int_eq(ucp_mem_unmap(context, gpu_memhs[i]), UCS_OK);
        }
        ck_assert(mkv_hip_free(gpus[i]));
    }
    ck_assert_int_eq(ucp_mem_unmap(context, source_memh), UCS_OK);
    free(source);
    rig_ucp_close(context, workers, ep);
}

static void put_to(unsigned gpu, size_t length)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH |
                                                       UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .memh = source_memh,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};

    ck_assert_int_eq(
        rig_ucp_wait(workers, ucp_put_nbx(ep, source, length, (uintptr_t)gpus[gpu],
                                          rkeys[gpu], &param)),
        UCS_OK);
}

static void wait_message(void)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const ucp_request_param_t none = {0};
    const unsigned before = num_messages;

    ck_assert_int_eq(
        rig_ucp_wait(workers, ucp_am_send_nbx(ep, AM_ID, NULL, 0, source, 64, &none)),
        UCS_OK);
    while (num_messages == before) {
        ucp_worker_progress(workers[1]);
        ucp_worker_progress(workers[0]);
        ck_assert_msg(mkv_test_now_ms() < limit, "no message");
    }
}

static void wait_end(end_t end)
{
    const ucp_request_param_t none = {0};

    switch (end) {
    case EP_FLUSH:
        ck_assert_int_eq(rig_ucp_wait(workers, ucp_ep_flush_nbx(ep, &none)), UCS_OK);
        break;
    case WORKER_FLUSH:
        ck_assert_int_eq(rig_ucp_wait(workers, ucp_worker_flush_nbx(workers[0], &none)),
                         UCS_OK);
        break;
    default:
        ck_assert_int_eq(ucp_worker_fence(workers[0]), UCS_OK);
        wait_message();
        break;
    }
}

static int is_seen(unsigned gpu, size_t length)
{
    return memcmp(gpus[gpu], source, length) == 0;
}

/* FN-02 */
START_TEST(gpu_sees_all_reported_data)
{
    static const size_t lengths[] = {64, 4096, SIZE};
    unsigned gpu, i;

    start();
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (gpu = 0; gpu < NUM_GPUS; gpu++) {
            memset(gpus[gpu], 0, SIZE);
            put_to(gpu, lengths[i]);
        }
        wait_end((end_t)_i);
        for (gpu = 0; gpu < NUM_GPUS; gpu++) {
            ck_assert_msg(is_seen(gpu, lengths[i]), "GPU %u sees old bytes (%zu)", gpu,
                          lengths[i]);
        }
    }
    finish();
}
END_TEST

/* The control: without the page this test sees old bytes. */
START_TEST(without_the_page_a_gpu_may_see_old_bytes)
{
    setenv("UCX_MORI_RDMA_GPU_FLUSH", "n", 1);
    start();
    put_to(0, SIZE);
    wait_end((end_t)_i);
    ck_assert(!is_seen(0, SIZE));
    finish();
}
END_TEST

START_TEST(memory_that_its_owner_has_unmapped_fails_no_peer)
{
    start();
    put_to(0, SIZE);
    put_to(1, SIZE);
    ck_assert_int_eq(ucp_mem_unmap(context, gpu_memhs[0]), UCS_OK);
    gpu_memhs[0] = NULL;
    wait_end((end_t)_i);
    ck_assert(is_seen(1, SIZE));
    put_to(1, 4096);
    wait_end((end_t)_i);
    ck_assert_uint_eq(num_failures, 0);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mori_rdma under UCP");
    TCase *tcase = tcase_create("end of a put");

    rig_ucp_environment(HIPCPU_PATH);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, gpu_sees_all_reported_data, 0, NUM_ENDS);
    tcase_add_loop_test(tcase, without_the_page_a_gpu_may_see_old_bytes, 0, NUM_ENDS);
    tcase_add_loop_test(tcase, memory_that_its_owner_has_unmapped_fails_no_peer, 0,
                        NUM_ENDS);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    return mkv_check_run_forked(suite);
}
