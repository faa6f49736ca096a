/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

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

/* Worker that registers nothing while it is created */
#define NEITHER 2

static void on_failure(void *arg, ucp_ep_h failed, ucs_status_t status)
{
    (void)arg;
    (void)failed;
    (void)status;
}

static ucs_status_t connect_workers(ucp_err_handling_mode_t mode)
{
    return rig_ucp_connect(workers, 0, mode,
                           (mode == UCP_ERR_HANDLING_MODE_PEER) ? on_failure : NULL,
                           &ep);
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

static ucp_mem_h open_workers(int without)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA};
    const ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                    UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                      .address = target,
                                      .length = SIZE};
    const ucp_worker_params_t worker_params = {0};
    ucp_mem_h memh;
    int i;

    ck_assert_int_eq(ucp_init(&params, NULL, &context), UCS_OK);
    for (i = 0; i < 2; i++) {
        if (i == without) {
            fake_verbs_fail_call("ibv_reg_mr", 1, 1000000, ENOMEM);
        }
        ck_assert_int_eq(ucp_worker_create(context, &worker_params, &workers[i]),
                         UCS_OK);
        if (i == without) {
            fake_verbs_reset();
        }
    }
    ck_assert_int_eq(ucp_mem_map(context, &map, &memh), UCS_OK);
    return memh;
}

static void close_workers(ucp_mem_h memh)
{
    fake_verbs_objects_t objects;

    ck_assert_int_eq(ucp_mem_unmap(context, memh), UCS_OK);
    rig_ucp_close(context, workers, NULL);
    fake_verbs_reset();
    fake_verbs_objects(&objects);
    ck_assert_uint_eq(objects.qps + objects.cqs + objects.mrs + objects.contexts, 0);
}

/* @return Calls to fail that did not come; the put ends in any case. */
static unsigned try_all(const char *verb, unsigned nth, unsigned count, int error,
                        ucs_status_t *status_p)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucp_mem_h memh = open_workers(NEITHER);
    unsigned unmet;

    fake_verbs_fail_call(verb, nth, count, error);
    *status_p = connect_workers(UCP_ERR_HANDLING_MODE_PEER);
    if (*status_p == UCS_OK) {
        *status_p = put(memh);
        (void)rig_ucp_wait(workers, ucp_ep_close_nbx(ep, &force));
    }
    unmet = fake_verbs_faults_unmet();
    close_workers(memh);
    return unmet;
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
    ucs_status_t status;
    unsigned nth = 1;

    while (try_all(verb->name, nth, verb->count, verb->error, &status) == 0) {
        ++nth; /* until there is no such call */
    }
    ck_assert_uint_gt(nth, 1);
    ck_assert_int_eq(status, UCS_OK);
}
END_TEST

/* tcp is there, so workers are made. */
START_TEST(device_that_registers_nothing_is_left_out)
{
    fake_verbs_objects_t objects;
    ucs_status_t status;

    fake_verbs_fail_call("ibv_reg_mr", 1, (_i == 0) ? 1 : 1000000, ENOMEM);
    rig_ucp_open(UCP_FEATURE_RMA, &context, workers);
    rig_ucp_close(context, workers, NULL);
    fake_verbs_reset();
    fake_verbs_objects(&objects);
    ck_assert_uint_eq(objects.mrs + objects.contexts, 0);
    (void)try_all("ibv_create_qp", 1000, 1, ENOMEM, &status);
    ck_assert_int_eq(status, UCS_OK);
}
END_TEST

static uint64_t wire_bytes(void)
{
    uint64_t out, in;

    fake_verbs_wire_bytes("fake0", &out, &in);
    return out + in;
}

/* A client that does not handle errors would wait for ever for a peer that cannot
 * create its endpoint, so a port without receives must not be offered. */
START_TEST(port_without_receives_is_left_out)
{
    const ucp_request_param_t none = {0};
    ucp_mem_h memh = open_workers(_i);
    const uint64_t before = wire_bytes();

    ck_assert_int_eq(connect_workers(UCP_ERR_HANDLING_MODE_NONE), UCS_OK);
    ck_assert_int_eq(put(memh), UCS_OK);
    ck_assert_int_eq(rig_ucp_wait(workers, ucp_ep_close_nbx(ep, &none)), UCS_OK);
    ck_assert_int_eq(wire_bytes() - before >= SIZE, _i == NEITHER);
    close_workers(memh);
}
END_TEST

/* The memory that is left is too little for the receives of a second endpoint. */
START_TEST(second_endpoint_without_receives_ends_with_an_error)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucp_mem_h memh = open_workers(NEITHER);
    ucp_ep_h first;

    ck_assert_int_eq(connect_workers(UCP_ERR_HANDLING_MODE_PEER), UCS_OK);
    ck_assert_int_eq(put(memh), UCS_OK);
    first = ep;
    fake_verbs_fail_call("ibv_reg_mr", 1, 1000000, ENOMEM);
    ck_assert_int_eq(connect_workers(UCP_ERR_HANDLING_MODE_PEER), UCS_OK);
    ck_assert_int_ne(put(memh), UCS_OK);
    (void)rig_ucp_wait(workers, ucp_ep_close_nbx(ep, &force));
    ep = first;
    ck_assert_int_eq(put(memh), UCS_OK);
    (void)rig_ucp_wait(workers, ucp_ep_close_nbx(ep, &force));
    close_workers(memh);
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
    tcase_add_loop_test(tcase, port_without_receives_is_left_out, 0, NEITHER + 1);
    tcase_add_test(tcase, second_endpoint_without_receives_ends_with_an_error);
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
