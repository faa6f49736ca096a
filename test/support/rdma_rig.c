/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RIG_SEED 77
#define RIG_FIRST_SIZE 4096
#define RIG_NUM_QPS "UCX_MORI_RDMA_NUM_QPS"

static unsigned rig_num_calls;

typedef struct rig_am_args {
    uint64_t number;
    size_t length;
} rig_am_args_t;

static uint64_t rig_am_sent[2];

static ucs_status_t rig_receive(rig_t *rig, unsigned at, const void *data,
                                size_t length)
{
    uint64_t number = UINT64_MAX;

    /* a message is where the transport received it, on any boundary */
    if (length >= sizeof(number)) {
        memcpy(&number, data, sizeof(number));
        length -= sizeof(number);
    }
    if ((number != rig->num_am[at]) ||
        (mkv_pattern_check((const char *)data + sizeof(number), length, number, 0) !=
         length)) {
        rig->bad_am[at]++;
    }
    rig->num_am[at]++;
    return UCS_OK;
}

static ucs_status_t rig_receive_a(void *arg, void *data, size_t length, unsigned flags)
{
    (void)flags;
    return rig_receive(arg, 0, data, length);
}

static ucs_status_t rig_receive_b(void *arg, void *data, size_t length, unsigned flags)
{
    (void)flags;
    return rig_receive(arg, 1, data, length);
}

static void rig_open_side(rig_t *rig, unsigned which, size_t length)
{
    static const char *const devices[] = {"fake0:1", "fake1:1"};
    const ct_target_name_t name = {.tl_name = "mori_rdma", .dev_name = devices[which]};
    ct_side_t *side = &rig->side[which];
    uint8_t key[256];
    ucs_status_t status;

    status = ct_side_open(side, &name);
    ck_assert_msg(status == UCS_OK, "%s: %s", ucs_status_string(status), side->why);
    status = uct_iface_set_am_handler(
        side->iface, RIG_AM_ID, (which == 0) ? rig_receive_a : rig_receive_b, rig, 0);
    ck_assert_int_eq(status, UCS_OK);

    status = ct_mem_create(side, length, UCS_MEMORY_TYPE_HOST, &rig->mem[which]);
    ck_assert_msg(status == UCS_OK, "%s: %s", ucs_status_string(status), side->why);
    ck_assert_uint_le(side->md_attr.rkey_packed_size, sizeof(key));
    ck_assert_int_eq(ct_mem_pack(side, &rig->mem[which], 0, key), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(side->component, key, &rig->rkey[which]), UCS_OK);
}

void rig_open(rig_t *rig, size_t length)
{
    memset(rig, 0, sizeof(*rig));
    memset(rig_am_sent, 0, sizeof(rig_am_sent));
    rig_num_calls = 0;
    setenv(RIG_NUM_QPS, "1", 0); /* whatever the device's default is */
    rig_open_side(rig, 0, length);
    rig_open_side(rig, 1, length);
    rig_fill(rig);
}

void rig_close(rig_t *rig)
{
    fake_verbs_objects_t objects;
    unsigned i;

    for (i = 0; i < 2; i++) {
        uct_rkey_release(rig->side[i].component, &rig->rkey[i]);
        ct_mem_destroy(&rig->side[i], &rig->mem[i]);
    }
    for (i = 0; i < 2; i++) {
        ct_side_close(&rig->side[i]);
    }

    fake_verbs_objects(&objects);
    ck_assert_msg(objects.contexts + objects.pds + objects.mrs + objects.cqs +
                          objects.qps + objects.channels + objects.tds ==
                      0,
                  "left: %u contexts %u pds %u mrs %u cqs %u qps %u channels %u tds",
                  objects.contexts, objects.pds, objects.mrs, objects.cqs, objects.qps,
                  objects.channels, objects.tds);
}

ucs_status_t rig_connect_to(uct_ep_h ep, const void *dev, const void *addr,
                            size_t length)
{
    const uct_ep_connect_to_ep_params_t params = {
        .field_mask = CT_CONNECT_FIELD_EP_ADDR_LENGTH, .ep_addr_length = length};

    return uct_ep_connect_to_ep_v2(ep, dev, addr, &params);
}

uct_ep_h rig_create_ep(rig_t *rig, unsigned which, rig_conn_t *conn)
{
    const uct_ep_params_t params = {.field_mask = UCT_EP_PARAM_FIELD_IFACE,
                                    .iface = rig->side[which].iface};
    uint32_t all[64];
    unsigned before = fake_verbs_qp_list(all, 64), after;
    uct_ep_h ep;

    ck_assert_int_eq(uct_ep_create(&params, &ep), UCS_OK);
    after = fake_verbs_qp_list(all, 64);
    ck_assert_uint_le(after, 64);
    ck_assert_uint_gt(after, before);
    conn->num_qps = after - before;
    memcpy(conn->qp_nums[which], &all[before], conn->num_qps * sizeof(all[0]));
    return ep;
}

void rig_connect(rig_t *rig, rig_conn_t *conn)
{
    uint8_t dev[2][256], ep[2][1024];
    unsigned i;

    for (i = 0; i < 2; i++) {
        conn->ep[i] = rig_create_ep(rig, i, conn);
        ck_assert_uint_le(rig->side[i].attr.device_addr_len, sizeof(dev[i]));
        ck_assert_uint_le(rig->side[i].attr.ep_addr_len, sizeof(ep[i]));
        ck_assert_int_eq(
            uct_iface_get_device_address(rig->side[i].iface, (void *)dev[i]), UCS_OK);
        ck_assert_int_eq(uct_ep_get_address(conn->ep[i], (void *)ep[i]), UCS_OK);
    }
    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(rig_connect_to(conn->ep[i], dev[!i], ep[!i],
                                        rig->side[!i].attr.ep_addr_len),
                         UCS_OK);
    }
}

/* Use the places that rdma_addr.h gives. */
uint32_t rig_datagram_qp(uct_ep_h ep)
{
    uint8_t bytes[256] = {0};

    ck_assert_int_eq(uct_ep_get_address(ep, (uct_ep_addr_t *)bytes), UCS_OK);
    return bytes[22] | ((uint32_t)bytes[23] << 8) | ((uint32_t)bytes[24] << 16);
}

void rig_disconnect(rig_conn_t *conn)
{
    uct_ep_destroy(conn->ep[0]);
    uct_ep_destroy(conn->ep[1]);
}

unsigned rig_progress(rig_t *rig)
{
    unsigned i, num_events = 0;

    for (i = 0; i < 2; i++) {
        if (!rig->hold[i]) {
            num_events += uct_worker_progress(rig->side[i].worker);
            ucs_async_poll(rig->side[i].async);
        }
    }
    return num_events;
}

void rig_wait(rig_t *rig, int (*is_done)(void *arg), void *arg)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned empty = 0;

    while (!is_done(arg)) {
        if (rig_progress(rig) == 0) {
            mkv_test_pause(&empty);
        } else {
            empty = 0;
        }
        ck_assert_msg(mkv_test_now_ms() < limit,
                      "nothing happened for %d ms; errors told to A: %u, to B: %u",
                      mkv_test_limit_ms(), rig->side[0].events.num_ep_errors,
                      rig->side[1].events.num_ep_errors);
    }
}

static int rig_is_replaced(void *arg)
{
    return fake_verbs_qp_state(*(uint32_t *)arg) == IBV_QPS_UNKNOWN;
}

void rig_wait_replaced(rig_t *rig, uint32_t qp_num)
{
    rig_wait(rig, rig_is_replaced, &qp_num);
}

typedef struct rig_count {
    rig_comp_t *comps;
    unsigned count;
    rig_t *rig;
    unsigned at;
} rig_count_t;

static int rig_all_called(void *arg)
{
    const rig_count_t *wait = arg;
    unsigned i;

    for (i = 0; i < wait->count; i++) {
        if (wait->comps[i].num_calls == 0) {
            return 0;
        }
    }

    return 1;
}

void rig_wait_comps(rig_t *rig, rig_comp_t *comps, unsigned count)
{
    rig_count_t wait = {.comps = comps, .count = count};
    unsigned i;

    rig_wait(rig, rig_all_called, &wait);
    for (i = 0; i < count; i++) {
        ck_assert_uint_eq(comps[i].num_calls, 1);
    }
}

static int rig_all_errors_reported(void *arg)
{
    const rig_count_t *wait = arg;

    return wait->rig->side[wait->at].events.num_ep_errors >= wait->count;
}

void rig_wait_errors(rig_t *rig, unsigned at, unsigned count)
{
    rig_count_t wait = {.rig = rig, .at = at, .count = count};

    rig_wait(rig, rig_all_errors_reported, &wait);
    ck_assert_uint_eq(rig->side[at].events.num_ep_errors, count);
}

static void rig_comp_call(uct_completion_t *uct)
{
    rig_comp_t *comp = ucs_container_of(uct, rig_comp_t, uct);

    comp->num_calls++;
    comp->order = rig_num_calls++;
    comp->status = uct->status;
}

void rig_comp_init(rig_comp_t *comp)
{
    memset(comp, 0, sizeof(*comp));
    comp->uct.func = rig_comp_call;
    comp->uct.count = 1;
    comp->uct.status = UCS_OK;
}

ucs_status_t rig_flush(rig_t *rig, uct_ep_h ep)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;

    do {
        status = uct_ep_flush(ep, 0, NULL);
        rig_progress(rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "the flush does not end");
    } while ((status == UCS_INPROGRESS) || (status == UCS_ERR_NO_RESOURCE));

    return status;
}

static void rig_iov(rig_t *rig, unsigned from, size_t offset, size_t length,
                    uct_iov_t *iov)
{
    iov->buffer = (char *)rig->mem[from].addr + offset;
    iov->length = length;
    iov->memh = rig->mem[from].memh;
    iov->stride = 0;
    iov->count = 1;
}

ucs_status_t rig_try_put(rig_t *rig, uct_ep_h ep, unsigned from, size_t offset,
                         size_t length, rig_comp_t *comp)
{
    uct_iov_t iov;

    rig_iov(rig, from, offset, length, &iov);
    return uct_ep_put_zcopy(ep, &iov, 1, (uintptr_t)rig->mem[!from].addr + offset,
                            rig->rkey[!from].rkey, (comp == NULL) ? NULL : &comp->uct);
}

static void rig_room(rig_t *rig, uint64_t limit)
{
    rig_progress(rig);
    ck_assert_msg(mkv_test_now_ms() < limit, "there is never room");
}

/* A put or get in as many calls as the interface takes; the completion is for all. */
static ucs_status_t rig_move(rig_t *rig, uct_ep_h ep, unsigned from, size_t offset,
                             size_t length, rig_comp_t *comp, int is_get)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const size_t max = is_get ? rig->side[from].attr.cap.get.max_zcopy
                              : rig->side[from].attr.cap.put.max_zcopy;
    uct_completion_t *uct = (comp == NULL) ? NULL : &comp->uct;
    ucs_status_t status;
    uct_iov_t iov;
    size_t part;

    if (uct != NULL) {
        uct->count = (length > max) ? (int)((length + max - 1) / max) : 1;
    }
    do {
        part = (length < max) ? length : max;
        rig_iov(rig, from, offset, part, &iov);
        while ((status = (is_get ? uct_ep_get_zcopy : uct_ep_put_zcopy)(
                    ep, &iov, 1, (uintptr_t)rig->mem[!from].addr + offset,
                    rig->rkey[!from].rkey, uct)) == UCS_ERR_NO_RESOURCE) {
            rig_room(rig, limit);
        }
        offset += part;
        length -= part;
    } while ((length > 0) && !UCS_STATUS_IS_ERR(status));

    return status;
}

ucs_status_t rig_put(rig_t *rig, uct_ep_h ep, unsigned from, size_t offset,
                     size_t length, rig_comp_t *comp)
{
    return rig_move(rig, ep, from, offset, length, comp, 0);
}

ucs_status_t rig_get(rig_t *rig, uct_ep_h ep, unsigned from, size_t offset,
                     size_t length, rig_comp_t *comp)
{
    return rig_move(rig, ep, from, offset, length, comp, 1);
}

typedef struct rig_list {
    void **buffers;
    size_t *lengths;
    uct_mem_h *memhs;
    uint64_t *addrs;
    uct_rkey_t *rkeys;
} rig_list_t;

static void rig_list_make(const rig_t *rig, unsigned from, unsigned count,
                          size_t length, size_t stride, rig_list_t *list)
{
    unsigned i;

    list->buffers = calloc(count, sizeof(*list->buffers));
    list->lengths = calloc(count, sizeof(*list->lengths));
    list->memhs = calloc(count, sizeof(*list->memhs));
    list->addrs = calloc(count, sizeof(*list->addrs));
    list->rkeys = calloc(count, sizeof(*list->rkeys));
    ck_assert(list->buffers && list->lengths && list->memhs && list->addrs &&
              list->rkeys);
    for (i = 0; i < count; i++) {
        list->buffers[i] = (char *)rig->mem[from].addr + i * stride;
        list->lengths[i] = length;
        list->memhs[i] = rig->mem[from].memh;
        list->addrs[i] = (uintptr_t)rig->mem[!from].addr + i * stride;
        list->rkeys[i] = rig->rkey[!from].rkey;
    }
}

static void rig_list_free(rig_list_t *list)
{
    free(list->buffers);
    free(list->lengths);
    free(list->memhs);
    free(list->addrs);
    free(list->rkeys);
}

ucs_status_t rig_put_list(rig_t *rig, uct_ep_h ep, unsigned from, unsigned count,
                          size_t length, size_t stride, rig_comp_t *comp)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const size_t max = rig->side[from].max_put_sgl;
    ucs_status_t status = UCS_OK;
    rig_list_t list;
    size_t i, n;

    rig_list_make(rig, from, count, length, stride, &list);
    comp->uct.count = (int)((count + max - 1) / max);
    for (i = 0; (i < count) && !UCS_STATUS_IS_ERR(status); i += n) {
        n = (count - i < max) ? count - i : max;
        while ((status = uct_ep_put_sgl_zcopy(ep, &list.buffers[i], &list.lengths[i],
                                              &list.memhs[i], &list.addrs[i],
                                              &list.rkeys[i], NULL, NULL, n,
                                              &comp->uct)) == UCS_ERR_NO_RESOURCE) {
            rig_room(rig, limit);
        }
        if ((status == UCS_OK) && (--comp->uct.count == 0)) {
            rig_comp_call(&comp->uct);
        }
    }

    rig_list_free(&list);
    return status;
}

static size_t rig_pack_am(void *dest, void *arg)
{
    const rig_am_args_t *args = arg;

    memcpy(dest, &args->number, sizeof(args->number));
    mkv_pattern_fill((char *)dest + sizeof(args->number),
                     args->length - sizeof(args->number), args->number, 0);
    return args->length;
}

ucs_status_t rig_try_am(rig_t *rig, uct_ep_h ep, unsigned from, size_t length)
{
    rig_am_args_t args = {.number = rig_am_sent[from], .length = length};
    ssize_t ret;

    (void)rig;
    ck_assert_uint_ge(length, sizeof(args.number));
    ret = uct_ep_am_bcopy(ep, RIG_AM_ID, rig_pack_am, &args, 0);
    if (ret < 0) {
        return (ucs_status_t)ret;
    }

    ck_assert_int_eq(ret, (ssize_t)length);
    rig_am_sent[from]++;
    return UCS_OK;
}

void rig_fill(rig_t *rig)
{
    mkv_pattern_fill(rig->mem[0].addr, rig->mem[0].length, RIG_SEED, 0);
    memset(rig->mem[1].addr, 0, rig->mem[1].length);
}

void rig_check(rig_t *rig, size_t offset, size_t length)
{
    ck_assert_uint_eq(
        mkv_pattern_check((char *)rig->mem[1].addr + offset, length, RIG_SEED, offset),
        length);
}

void rig_ucp_open(uint64_t features, ucp_context_h *context, ucp_worker_h workers[2])
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = features};
    const ucp_worker_params_t worker_params = {0};
    unsigned i;

    ck_assert_int_eq(ucp_init(&params, NULL, context), UCS_OK);
    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(ucp_worker_create(*context, &worker_params, &workers[i]),
                         UCS_OK);
    }
}

ucs_status_t rig_ucp_connect(ucp_worker_h workers[2], unsigned from,
                             ucp_err_handling_mode_t mode,
                             ucp_err_handler_cb_t on_failure, ucp_ep_h *ep)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode = mode,
                              .err_handler.cb = on_failure};
    ucp_address_t *address;
    ucs_status_t status;
    size_t length;

    ck_assert_int_eq(ucp_worker_get_address(workers[!from], &address, &length), UCS_OK);
    params.address = address;
    status = ucp_ep_create(workers[from], &params, ep);
    ucp_worker_release_address(workers[!from], address);
    return status;
}

ucs_status_t rig_ucp_wait(ucp_worker_h workers[2], void *request)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }

    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(workers[0]);
        ucp_worker_progress(workers[1]);
        ck_assert_msg(mkv_test_now_ms() < limit, "a request does not end");
    }
    ucp_request_free(request);
    return status;
}

void rig_ucp_close(ucp_context_h context, ucp_worker_h workers[2], ucp_ep_h ep)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};

    if (ep != NULL) {
        ck_assert_int_eq(rig_ucp_wait(workers, ucp_ep_close_nbx(ep, &force)), UCS_OK);
    }
    ucp_worker_destroy(workers[0]);
    ucp_worker_destroy(workers[1]);
    ucp_cleanup(context);
}

void rig_ucp_environment(const char *hip)
{
    setenv("UCX_TLS", "mori_rdma,tcp", 1);
    setenv("UCX_NET_DEVICES", "fake0:1,lo", 1);
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
    if (hip != NULL) {
        setenv("HIPCPU_DEVICES", "2", 1);
        setenv("UCX_MORI_HIP_LIB", hip, 1);
        setenv("UCX_MORI_TEST_HIP", hip, 1);
    }
}

START_TEST(rig_moves_bytes)
{
    rig_comp_t comp;
    rig_conn_t conn;
    rig_t rig;

    rig_open(&rig, RIG_FIRST_SIZE);
    rig_connect(&rig, &conn);
    rig_comp_init(&comp);
    ck_assert_int_eq(rig_put(&rig, conn.ep[0], 0, 0, RIG_FIRST_SIZE, &comp),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* Skip it where the environment names cases: it is none of them. */
static int rig_run_first(void)
{
    Suite *first;
    TCase *tcase;

    if ((getenv("CK_RUN_SUITE") != NULL) || (getenv("CK_RUN_CASE") != NULL)) {
        return MKV_TEST_EXIT_OK;
    }

    first = suite_create("first");
    tcase = tcase_create("first");
    tcase_add_test(tcase, rig_moves_bytes);
    suite_add_tcase(first, tcase);
    return mkv_check_run(first, CK_NOFORK, CK_MINIMAL);
}

int rig_run_forked(Suite *suite)
{
    const int has_num_qps = (getenv(RIG_NUM_QPS) != NULL);

    if (rig_run_first() != MKV_TEST_EXIT_OK) {
        return MKV_TEST_EXIT_FAIL;
    }
    fake_verbs_restart();
    if (!has_num_qps) {
        unsetenv(RIG_NUM_QPS);
    }
    return mkv_check_run_forked(suite);
}
