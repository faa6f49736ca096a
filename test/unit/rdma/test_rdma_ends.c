/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

/*
 * A plain UCP program in which one side cannot create or connect a queue pair: every
 * operation ends, with all bytes or with an error, and nothing is left. Both workers
 * are in this process, so a failed call hits either side.
 */

#define SIZE 65536

static ucp_context_h context;
static ucp_worker_h workers[2];
static ucp_ep_h ep;
static char source[SIZE], target[SIZE];

static void on_failure(void *arg, ucp_ep_h failed, ucs_status_t status)
{
    (void)arg;
    (void)failed;
    (void)status;
}

static ucs_status_t connect_workers(void)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler.cb = on_failure};
    ucp_address_t *address;
    ucs_status_t status;
    size_t length;

    ck_assert_int_eq(ucp_worker_get_address(workers[1], &address, &length), UCS_OK);
    params.address = address;
    status = ucp_ep_create(workers[0], &params, &ep);
    ucp_worker_release_address(workers[1], address);
    return status;
}

static ucs_status_t put(ucp_mem_h memh)
{
    const ucp_request_param_t none = {0};
    ucs_status_t status;
    ucp_rkey_h rkey;
    size_t length;
    void *key;

    ck_assert_int_eq(ucp_rkey_pack(context, memh, &key, &length), UCS_OK);
    ck_assert_int_eq(ucp_ep_rkey_unpack(ep, key, &rkey), UCS_OK);
    ucp_rkey_buffer_release(key);
    memset(target, 0, SIZE);
    mkv_pattern_fill(source, SIZE, 3, 0);
    status = rig_ucp_wait(
        workers, ucp_put_nbx(ep, source, SIZE, (uintptr_t)target, rkey, &none));
    if (status == UCS_OK) {
        status = rig_ucp_wait(workers, ucp_ep_flush_nbx(ep, &none));
    }
    if (status == UCS_OK) {
        ck_assert_uint_eq(mkv_pattern_check(target, SIZE, 3, 0), SIZE);
    }
    ucp_rkey_destroy(rkey);
    return status;
}

/* @return Whether the put ended well; ends in any case. */
static int try_all(const char *verb, unsigned nth, unsigned count, int error)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA};
    const ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                    UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                      .address = target,
                                      .length = SIZE};
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    const ucp_worker_params_t worker_params = {0};
    ucs_status_t status;
    ucp_mem_h memh;
    unsigned i;

    ck_assert_int_eq(ucp_init(&params, NULL, &context), UCS_OK);
    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(ucp_worker_create(context, &worker_params, &workers[i]),
                         UCS_OK);
    }
    ck_assert_int_eq(ucp_mem_map(context, &map, &memh), UCS_OK);
    fake_verbs_fail_call(verb, nth, count, error);
    status = connect_workers();
    if (status == UCS_OK) {
        status = put(memh);
        (void)rig_ucp_wait(workers, ucp_ep_close_nbx(ep, &force));
    }
    ck_assert_int_eq(ucp_mem_unmap(context, memh), UCS_OK);
    ucp_worker_destroy(workers[0]);
    ucp_worker_destroy(workers[1]);
    ucp_cleanup(context);
    return status == UCS_OK;
}

typedef struct verb {
    const char *name;
    unsigned count; /**< Calls in a row that fail */
    int error;
} verb_t;

static const verb_t verbs[] = {
    {"ibv_create_qp", 1000000, ENOMEM}, {"ibv_create_qp", 1, EFAULT},
    {"ibv_create_cq", 1, ENOMEM},       {"ibv_modify_qp", 1, ENOMEM},
    {"ibv_modify_qp", 8, EINVAL},       {"ibv_post_recv", 1, ENOMEM},
};

START_TEST(peer_without_a_queue_pair_is_an_error)
{
    const verb_t *verb = &verbs[_i];
    fake_verbs_objects_t objects;
    unsigned nth, unmet = 0;

    for (nth = 1; unmet == 0; nth++) { /* until there is no such call */
        (void)try_all(verb->name, nth, verb->count, verb->error);
        unmet = fake_verbs_faults_unmet();
        fake_verbs_reset();
        fake_verbs_objects(&objects);
        ck_assert_msg(objects.qps + objects.cqs + objects.mrs + objects.contexts == 0,
                      "%s, call %u: something is left", verb->name, nth);
    }
    ck_assert_uint_gt(nth, 2);
    ck_assert(try_all("ibv_create_qp", 1000, 1, ENOMEM));
}
END_TEST

/* tcp is there, so a worker is made. */
START_TEST(device_that_registers_nothing_is_left_out)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA};
    const ucp_worker_params_t worker_params = {0};
    fake_verbs_objects_t objects;

    fake_verbs_fail_call("ibv_reg_mr", 1, (_i == 0) ? 1 : 1000000, ENOMEM);
    ck_assert_int_eq(ucp_init(&params, NULL, &context), UCS_OK);
    ck_assert_int_eq(ucp_worker_create(context, &worker_params, &workers[0]), UCS_OK);
    ucp_worker_destroy(workers[0]);
    ucp_cleanup(context);
    fake_verbs_reset();
    fake_verbs_objects(&objects);
    ck_assert_uint_eq(objects.mrs + objects.contexts, 0);
    ck_assert(try_all("ibv_create_qp", 1000, 1, ENOMEM));
}
END_TEST

/* UCP frees an endpoint without its wireup proxy (ucp_wireup_ep_t) when a lane of it
 * cannot be made: err_delete of ucp_ep_create_to_worker_addr() in UCX 1.22.0 and 1.23.
 */
static void leaks_checked(int checked)
{
#ifdef __SANITIZE_ADDRESS__
    if (checked) {
        __lsan_enable();
    } else {
        __lsan_disable();
    }
#else
    (void)checked;
#endif
}

/* Error handling is off, so no error would wake a caller that waits for its peer: the
 * error is returned by ucp_ep_create() itself. */
START_TEST(endpoint_without_receives_is_an_error_at_once)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA};
    const ucp_worker_params_t worker_params = {0};
    fake_verbs_objects_t objects;
    unsigned i;

    ck_assert_int_eq(ucp_init(&params, NULL, &context), UCS_OK);
    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(ucp_worker_create(context, &worker_params, &workers[i]),
                         UCS_OK);
    }
    fake_verbs_fail_call("ibv_reg_mr", 1, 1000000, ENOMEM);
    leaks_checked(0);
    ck_assert_int_eq(connect_workers(), UCS_ERR_NO_MEMORY);
    leaks_checked(1);
    ucp_worker_destroy(workers[0]);
    ucp_worker_destroy(workers[1]);
    ucp_cleanup(context);
    fake_verbs_reset();
    fake_verbs_objects(&objects);
    ck_assert_uint_eq(objects.qps + objects.mrs + objects.contexts, 0);
}
END_TEST

static Suite *ends_suite(void)
{
    Suite *suite = suite_create("mori_rdma ends");
    TCase *tcase = tcase_create("ends");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, peer_without_a_queue_pair_is_an_error, 0,
                        sizeof(verbs) / sizeof(verbs[0]));
    tcase_add_loop_test(tcase, device_that_registers_nothing_is_left_out, 0, 2);
    tcase_add_test(tcase, endpoint_without_receives_is_an_error_at_once);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    rig_ucp_environment(NULL);
    setenv("UCX_MORI_RDMA_TIMEOUT", "4ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "500ms", 1);
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    ct_side_find_module();
    mkv_test_init();
    return mkv_check_run_forked(ends_suite());
}
