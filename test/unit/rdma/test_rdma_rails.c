/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_clock.h"
#include "test/support/rdma_log.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * An endpoint that moves more than once, or breaks while it moves: each side has three
 * devices and one worker, and an endpoint on each to the other side's of the same
 * place.
 */

#define RAILS 3
#define SIZE 65536
#define BLOCK 1024

typedef struct rails {
    ct_side_t side[RAILS];
    ct_mem_t mem[RAILS]; /* the same bytes with each device */
    uct_rkey_bundle_t rkey[RAILS];
    uct_ep_h ep[RAILS];
} rails_t;

static rails_t rails[2]; /* rkey[i] is of the other one's memory */
static rig_comp_t comp;
static uint32_t qp_num_of_rail_0; /* at side A */
static uint32_t newest;           /* queue pair before the latest move */


static const char *const devices[2][RAILS] = {{"fake0", "fake1", "fake2"},
                                              {"fake3", "fake4", "fake5"}};

/* ---- both sides ---- */

static void open_rail(rails_t *of, unsigned which, unsigned rail)
{
    char name[16];
    const ct_target_name_t target = {.tl_name = "mori_rdma", .dev_name = name};
    ct_side_t *side = &of->side[rail];
    ucs_status_t status;

    snprintf(name, sizeof(name), "%s:1", devices[which][rail]);
    status = ct_side_open_beside(side, &target, (rail > 0) ? &of->side[0] : NULL);
    ck_assert_msg(status == UCS_OK, "%s: %s", ucs_status_string(status), side->why);
    if (rail == 0) {
        ck_assert_int_eq(ct_mem_create(side, SIZE, UCS_MEMORY_TYPE_HOST, &of->mem[0]),
                         UCS_OK);
    } else {
        of->mem[rail] = of->mem[0];
        ck_assert_int_eq(ct_mem_register(side, &of->mem[rail]), UCS_OK);
    }
}

static void unpack_keys(rails_t *at, const rails_t *of)
{
    uint8_t key[256];
    unsigned i;

    for (i = 0; i < RAILS; i++) {
        ck_assert_int_eq(ct_mem_pack((ct_side_t *)&of->side[i], &of->mem[i], 0, key),
                         UCS_OK);
        ck_assert_int_eq(uct_rkey_unpack(at->side[i].component, key, &at->rkey[i]),
                         UCS_OK);
    }
}

static void connect_pair(unsigned rail, uct_ep_h *eps[2])
{
    uint8_t dev[2][256], address[2][256];
    unsigned i;

    for (i = 0; i < 2; i++) {
        const uct_ep_params_t params = {.field_mask = UCT_EP_PARAM_FIELD_IFACE,
                                        .iface = rails[i].side[rail].iface};

        ck_assert_int_eq(uct_ep_create(&params, eps[i]), UCS_OK);
        ck_assert_int_eq(
            uct_iface_get_device_address(rails[i].side[rail].iface, (void *)dev[i]),
            UCS_OK);
        ck_assert_int_eq(uct_ep_get_address(*eps[i], (void *)address[i]), UCS_OK);
    }
    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(
            uct_ep_connect_to_ep(*eps[i], (void *)dev[!i], (void *)address[!i]),
            UCS_OK);
    }
}

static void connect_rail(unsigned rail)
{
    uct_ep_h *eps[2] = {&rails[0].ep[rail], &rails[1].ep[rail]};

    connect_pair(rail, eps);
}

static uint32_t find_newest(void)
{
    uint32_t qp_nums[64];
    unsigned num = fake_verbs_qp_list(qp_nums, 64);

    return qp_nums[num - 1];
}

static int has_newer(void)
{
    return find_newest() > newest;
}

static void start_with(const char *qps)
{
    unsigned i, rail;

    setenv("FAKE_VERBS_DEVICES",
           "fake0:mlx5,fake1:mlx5,fake2:mlx5,fake3:mlx5,fake4:mlx5,fake5:mlx5", 1);
    setenv("UCX_MORI_RDMA_NUM_QPS", qps, 1);
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "100s", 1);
    memset(rails, 0, sizeof(rails));
    for (i = 0; i < 2; i++) {
        for (rail = 0; rail < RAILS; rail++) {
            open_rail(&rails[i], i, rail);
        }
    }
    unpack_keys(&rails[0], &rails[1]);
    unpack_keys(&rails[1], &rails[0]);
    for (rail = 0; rail < RAILS; rail++) {
        connect_rail(rail);
    }
    newest = find_newest();
    ck_assert_uint_gt(fake_verbs_qp_list(&qp_num_of_rail_0, 1), 0);
    mkv_pattern_fill(rails[0].mem[0].addr, SIZE, 1, 0);
    memset(rails[1].mem[0].addr, 0, SIZE);
}

static void destroy_ep(unsigned which, unsigned rail)
{
    if (rails[which].ep[rail] != NULL) {
        uct_ep_destroy(rails[which].ep[rail]);
        rails[which].ep[rail] = NULL;
    }
}

static void close_iface(unsigned which, unsigned rail)
{
    ct_side_t *side = &rails[which].side[rail];

    if (side->iface != NULL) {
        destroy_ep(which, rail);
        uct_iface_close(side->iface);
        side->iface = NULL;
    }
}

static void drop_memory(rails_t *of, unsigned rail)
{
    uct_rkey_release(of->side[rail].component, &of->rkey[rail]);
    if (rail > 0) {
        ck_assert_int_eq(uct_md_mem_dereg(of->side[rail].md, of->mem[rail].memh),
                         UCS_OK);
    } else {
        ct_mem_destroy(&of->side[0], &of->mem[0]);
    }
}

static void close_ifaces(void)
{
    unsigned i;

    for (i = 0; i < 2 * RAILS; i++) {
        close_iface(i % 2, i / 2);
    }
}

/* UCP's order: close all interfaces, deregister all memory, close all devices. */
static void finish(void)
{
    unsigned i, rail;

    close_ifaces();
    for (i = 0; i < 2; i++) {
        for (rail = RAILS; rail > 0; rail--) {
            drop_memory(&rails[i], rail - 1);
        }
        for (rail = RAILS; rail > 0; rail--) {
            ct_side_close(&rails[i].side[rail - 1]);
        }
    }
}

static void progress(void)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        uct_worker_progress(rails[i].side[0].worker);
    }
}

static void progress_until(int (*is_done)(unsigned arg), unsigned arg)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    while (!is_done(arg)) {
        progress();
        ck_assert_msg(mkv_test_now_ms() < limit, "it does not come; errors: %u and %u",
                      rails[0].side[0].events.num_ep_errors,
                      rails[1].side[0].events.num_ep_errors);
    }
}

static int is_met(unsigned arg)
{
    (void)arg;
    return fake_verbs_faults_unmet() == 0;
}

static int is_error_reported(unsigned at)
{
    return rails[at].side[0].events.num_ep_errors > 0;
}

static int is_called(unsigned arg)
{
    (void)arg;
    return comp.num_calls > 0;
}

static ucs_status_t put_by(uct_ep_h ep, unsigned rail, uct_completion_t *uct)
{
    const uct_iov_t iov = {.buffer = rails[0].mem[0].addr,
                           .length = BLOCK,
                           .memh = rails[0].mem[rail].memh,
                           .count = 1};

    return uct_ep_put_zcopy(ep, &iov, 1, (uintptr_t)rails[1].mem[0].addr,
                            rails[0].rkey[rail].rkey, uct);
}

static ucs_status_t put(unsigned rail, uct_completion_t *uct)
{
    return put_by(rails[0].ep[rail], rail, uct);
}

static void expect_well(void)
{
    unsigned i, rail;

    progress_until(is_called, 0);
    ck_assert_int_eq(comp.status, UCS_OK);
    ck_assert_uint_eq(mkv_pattern_check(rails[1].mem[0].addr, BLOCK, 1, 0), BLOCK);
    for (i = 0; i < 2; i++) {
        for (rail = 0; rail < RAILS; rail++) {
            ck_assert_uint_eq(rails[i].side[rail].events.num_ep_errors, 0);
        }
    }
}

static int is_taken(unsigned arg)
{
    (void)arg;
    return put(0, &comp.uct) == UCS_INPROGRESS;
}

static void put_well(void)
{
    rig_comp_init(&comp);
    progress_until(is_taken, 0);
    expect_well();
}

/* ---- keys ---- */

/* Work requests stay in queue pairs that are made meanwhile, too. */
static int is_posted(unsigned count)
{
    fake_verbs_stats_t stats;
    uint32_t qp_nums[64];
    unsigned i, num;

    fake_verbs_hold(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND);
    num = fake_verbs_qp_list(qp_nums, 64);
    for (i = 0; i < num; i++) {
        fake_verbs_qp_stats(qp_nums[i], &stats);
        if ((qp_nums[i] > newest) && (stats.sends == count)) {
            newest = find_newest();
            return 1;
        }
    }
    return 0;
}

static void flush_put(void)
{
    rig_comp_init(&comp);
    fake_verbs_hold(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND);
    ck_assert_int_eq(put(0, NULL), UCS_INPROGRESS);
    ck_assert_int_eq(uct_ep_flush(rails[0].ep[0], UCT_FLUSH_FLAG_REMOTE, &comp.uct),
                     UCS_INPROGRESS);
}

/* The page that a flush reads from has another key with each of the peer's devices. */
/* RC-05 */
START_TEST(flush_on_its_way_moves_again)
{
    start_with("1");
    flush_put();
    fake_verbs_remove("fake0");
    progress_until(is_posted, 2);
    fake_verbs_remove("fake1");
    progress_until(is_posted, 2);
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    expect_well();
    finish();
}
END_TEST

/* ---- memory ---- */

static ct_mem_t own; /* registered with side A's first device alone */

static void put_own(void)
{
    uct_iov_t iov = {.length = BLOCK, .count = 1};

    ck_assert_int_eq(ct_mem_create(&rails[0].side[0], SIZE, UCS_MEMORY_TYPE_HOST, &own),
                     UCS_OK);
    mkv_pattern_fill(own.addr, SIZE, 1, 0);
    iov.buffer = own.addr;
    iov.memh = own.memh;
    rig_comp_init(&comp);
    ck_assert_int_eq(uct_ep_put_zcopy(rails[0].ep[0], &iov, 1,
                                      (uintptr_t)rails[1].mem[0].addr,
                                      rails[0].rkey[0].rkey, &comp.uct),
                     UCS_INPROGRESS);
}

/* A second registration of the same memory is made later. It is dropped while data is
 * in flight on the device to which its endpoint moved. */
/* RC-05 */
START_TEST(memory_that_moved_ends_with_its_own_registration)
{
    ct_mem_t others;

    start_with("1");
    fake_verbs_hold(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND);
    put_own();
    others = own;
    ck_assert_int_eq(ct_mem_register(&rails[1].side[0], &others), UCS_OK);
    fake_verbs_remove("fake0");
    progress_until(is_posted, 1);
    ck_assert_int_eq(uct_md_mem_dereg(rails[1].side[0].md, others.memh), UCS_OK);
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    expect_well();
    close_ifaces();
    ct_mem_destroy(&rails[0].side[0], &own);
    finish();
}
END_TEST

/* The memory is registered with the second device since its endpoint moved there; that
 * device is closed first. */
/* RC-05 */
START_TEST(device_may_be_closed_before_memory_that_moved_to_it)
{
    fake_verbs_objects_t objects;
    unsigned rail;

    start_with("1");
    fake_verbs_remove("fake0");
    put_own();
    expect_well();
    close_ifaces();
    for (rail = RAILS; rail > 0; rail--) {
        drop_memory(&rails[0], rail - 1);
        drop_memory(&rails[1], rail - 1);
    }
    for (rail = RAILS; rail > 1; rail--) {
        ct_side_close(&rails[0].side[rail - 1]);
        ct_side_close(&rails[1].side[rail - 1]);
    }
    ct_mem_destroy(&rails[0].side[0], &own);
    ct_side_close(&rails[0].side[0]);
    ct_side_close(&rails[1].side[0]);
    fake_verbs_objects(&objects);
    ck_assert_uint_eq(objects.mrs, 0);
    ck_assert_uint_eq(objects.pds, 0);
    ck_assert_uint_eq(objects.contexts, 0);
}
END_TEST

/* Another registration of a rail's memory, of which the peer still has the key */
static void add_stale_key(unsigned of, unsigned rail, ct_mem_t mem,
                          uct_rkey_bundle_t *rkey)
{
    ct_side_t *side = &rails[of].side[rail];
    uint8_t key[256];

    ck_assert_int_eq(ct_mem_register(side, &mem), UCS_OK);
    ck_assert_int_eq(ct_mem_pack(side, &mem, 0, key), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(rails[!of].side[rail].component, key, rkey),
                     UCS_OK);
    ck_assert_int_eq(uct_md_mem_dereg(side->md, mem.memh), UCS_OK);
}

static void release_keys(uct_rkey_bundle_t *rkeys, unsigned first)
{
    unsigned rail;

    for (rail = first; rail < RAILS; rail++) {
        uct_rkey_release(rails[0].side[rail].component, &rkeys[rail]);
    }
}

/* The peer's memory was registered twice with each device; one registration has
 * ended. Loop index: its keys are unpacked last; first; first, and one is released
 * then; first, and one is never unpacked. */
/* RC-05 */
START_TEST(put_that_moves_takes_the_key_of_its_own_registration)
{
    const unsigned begin = _i == 3, end = _i >= 2;
    uct_rkey_bundle_t stale[RAILS];
    unsigned rail;

    start_with("1");
    for (rail = begin; rail < RAILS; rail++) {
        add_stale_key(1, rail, rails[1].mem[0], &stale[rail]);
    }
    if (_i > 0) {
        release_keys(rails[0].rkey, 0);
        if (end > begin) {
            uct_rkey_release(rails[0].side[0].component, &stale[0]);
        }
        unpack_keys(&rails[0], &rails[1]);
    }
    rig_comp_init(&comp);
    fake_verbs_hold(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND);
    ck_assert_int_eq(put(0, &comp.uct), UCS_INPROGRESS);
    fake_verbs_remove("fake0");
    progress_until(is_posted, 1);
    fake_verbs_remove("fake1");
    progress_until(is_posted, 1);
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    expect_well();
    put_well();
    release_keys(stale, end);
    finish();
}
END_TEST

/* Another UCP context of the process uses the first device alone. It has unpacked the
 * same key later. */
/* RC-05 */
START_TEST(put_that_moves_finds_its_key_beside_another_context)
{
    ct_side_t *side;
    uct_rkey_bundle_t rkey;
    uint8_t key[256];

    start_with("1");
    side = &rails[1].side[0];
    ck_assert_int_eq(ct_mem_pack(side, &rails[1].mem[0], 0, key), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(rails[0].side[0].component, key, &rkey), UCS_OK);
    fake_verbs_remove("fake0");
    put_well();
    uct_rkey_release(rails[0].side[0].component, &rkey);
    finish();
}
END_TEST

/* ---- carriers that go ---- */

/* The first queue pair has moved from the second device to the third, the other not. */
/* RC-05 */
START_TEST(carrier_may_be_closed_when_half_of_an_endpoint_has_left_it)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    start_with("2");
    flush_put();
    fake_verbs_remove("fake0");
    progress_until(is_posted, 2);
    destroy_ep(0, 1); /* its queue pairs would be among those that are made */
    fake_verbs_remove("fake1");
    while (!has_newer()) {
        uct_worker_progress(rails[0].side[0].worker);
        ck_assert_uint_lt(mkv_test_now_ms(), limit);
    }
    ck_assert_uint_eq(comp.num_calls, 0);
    close_iface(0, 1);
    ck_assert_uint_eq(comp.num_calls, 1);
    ck_assert_int_eq(comp.status, UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(rails[0].side[0].events.num_ep_errors, 1);
    progress();
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    finish();
}
END_TEST

/* ---- devices that refuse ---- */

/* The event of the removal is still unread. */
/* RC-05 */
START_TEST(post_that_a_removed_device_refuses_moves)
{
    start_with("1");
    fake_verbs_remove("fake0");
    fake_verbs_fail_call("ibv_post_send", 1, 1, EIO);
    put_well();
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 0);
    put_well();
    finish();
}
END_TEST

static rdma_log_watch_t errors[] = {
    {UCS_LOG_LEVEL_ERROR, "failed: Input/output error", 0},
    {UCS_LOG_LEVEL_ERROR, "inline", 0}};

static rig_comp_t first;

static int is_first_called(unsigned arg)
{
    (void)arg;
    return first.num_calls > 0;
}

/* A post is refused and no event reports the reason. An earlier post on a different
 * endpoint never completes. */
/* RC-05 */
START_TEST(device_that_is_gone_untold_is_left_by_all)
{
    uct_ep_h more[2] = {NULL, NULL}, *eps[2] = {&more[0], &more[1]};

    start_with("1");
    connect_pair(0, eps);
    fake_verbs_fail_call("ibv_get_async_event", 1, 1000000, EAGAIN);
    fake_verbs_remove("fake0");
    rig_comp_init(&first);
    ck_assert_int_eq(put_by(more[0], 0, &first.uct), UCS_INPROGRESS);
    fake_verbs_fail_call("ibv_post_send", 1, 1, EIO);
    put_well();
    progress_until(is_first_called, 0);
    ck_assert_int_eq(first.status, UCS_OK);
    uct_ep_destroy(more[0]);
    uct_ep_destroy(more[1]);
    finish();
}
END_TEST

/* A device that is removed during the reconnection, or that has no queue pairs left,
 * behaves in this way. A retry with less inline data is not made: it would fail as
 * well. */
/* RC-05 */
START_TEST(device_that_makes_no_queue_pair_is_left)
{
    start_with("1");
    rdma_log_watch(errors, 2);
    fake_verbs_fail_call("ibv_create_qp", 1, 1, EIO);
    fake_verbs_qp_fatal(qp_num_of_rail_0);
    progress_until(is_met, 0);
    put_well();
    ck_assert_uint_eq(errors[0].num, 1);
    ck_assert_uint_eq(errors[1].num, 0);
    finish();
}
END_TEST

/* All devices refuse to make a queue pair. */
START_TEST(devices_that_make_no_queue_pair_fail_the_endpoint)
{
    start_with("1");
    fake_verbs_fail_call("ibv_create_qp", 1, 1000, EIO);
    fake_verbs_qp_fatal(qp_num_of_rail_0);
    progress_until(is_error_reported, 0);
    fake_verbs_reset();
    finish();
}
END_TEST

/* ---- gets by messages ---- */

typedef ucs_status_t (*op_t)(void);

static char unpacked[BLOCK];

static void unpack(void *arg, const void *data, size_t length)
{
    (void)arg;
    ck_assert_uint_eq(length, BLOCK);
    memcpy(unpacked, data, length);
}

static ucs_status_t get_own(void)
{
    const uct_iov_t iov = {
        .buffer = own.addr, .length = BLOCK, .memh = own.memh, .count = 1};

    return uct_ep_get_zcopy(rails[0].ep[0], &iov, 1, (uintptr_t)rails[1].mem[0].addr,
                            rails[0].rkey[0].rkey, &comp.uct);
}

static ucs_status_t get_buffered(void)
{
    return uct_ep_get_bcopy(rails[0].ep[0], unpack, NULL, BLOCK,
                            (uintptr_t)rails[1].mem[0].addr, rails[0].rkey[0].rkey,
                            &comp.uct);
}

static ucs_status_t flush_written(void)
{
    const ucs_status_t status =
        uct_ep_flush(rails[0].ep[0], UCT_FLUSH_FLAG_REMOTE, &comp.uct);

    comp.num_calls += status == UCS_OK;
    return status;
}

static int is_accepted(unsigned op)
{
    static const op_t ops[] = {get_own, get_own, get_buffered, flush_written};
    const ucs_status_t status = ops[op]();

    ck_assert(!UCS_STATUS_IS_ERR(status) || (status == UCS_ERR_NO_RESOURCE));
    return status != UCS_ERR_NO_RESOURCE;
}

static void expect_got(unsigned op)
{
    char bytes[BLOCK];

    rig_comp_init(&comp);
    progress_until(is_accepted, op);
    progress_until(is_called, 0);
    ck_assert_int_eq(comp.status, UCS_OK);
    ck_assert_uint_eq(rails[0].side[0].events.num_ep_errors, 0);
    ck_assert_uint_eq(rails[1].side[0].events.num_ep_errors, 0);
    if (op == 2) {
        memcpy(bytes, unpacked, BLOCK);
    } else {
        ck_assert(mkv_hip_copy(bytes, own.addr, BLOCK));
    }
    ck_assert((op == 3) || (mkv_pattern_check(bytes, BLOCK, 2, 0) == BLOCK));
}

/*
 * The getting side's memory is registered with the first device alone; the owner of the
 * bytes holds a key of it with the second device that has ended. A get into a GPU ends
 * by a write to the flush page. Loop index: the operation, and on which side the device
 * is removed.
 */
/* RC-05 */
START_TEST(gets_by_messages_go_on_over_another_rail)
{
    const unsigned op = (unsigned)_i / 2;
    uct_rkey_bundle_t stale;

    setenv("UCX_MORI_RDMA_MAX_READS", "0", 1);
    start_with("1");
    fake_verbs_gpu_lookup(mkv_hip_device_of);
    ck_assert(mkv_hip_set_device(0));
    ck_assert_int_eq(
        ct_mem_create(&rails[0].side[0], SIZE,
                      (op == 1) ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST, &own),
        UCS_OK);
    add_stale_key(0, 1, own, &stale);
    fake_verbs_remove(devices[_i % 2][0]);
    put_well();
    mkv_pattern_fill(rails[1].mem[0].addr, SIZE, 2, 0);
    if (op == 3) {
        ck_assert_int_eq(put(0, NULL), UCS_INPROGRESS);
    }
    expect_got(op);
    expect_got(op);
    fake_verbs_gpu_lookup(NULL);
    close_ifaces();
    uct_rkey_release(rails[1].side[1].component, &stale);
    ct_mem_destroy(&rails[0].side[0], &own);
    finish();
}
END_TEST

static void start_gets(bool has_key)
{
    setenv("UCX_MORI_RDMA_MAX_READS", "0", 1);
    start_with("1");
    mkv_pattern_fill(rails[1].mem[0].addr, SIZE, 2, 0);
    own = rails[0].mem[0];
    if (!has_key) {
        ck_assert_int_eq(
            ct_mem_create(&rails[0].side[0], SIZE, UCS_MEMORY_TYPE_HOST, &own), UCS_OK);
    }
}

static void finish_gets(void)
{
    close_ifaces();
    if (own.addr != rails[0].mem[0].addr) {
        ct_mem_destroy(&rails[0].side[0], &own);
    }
    finish();
}

static void begin_get(void)
{
    rig_comp_init(&comp);
    progress_until(is_accepted, 0);
    progress();
    progress();
    ck_assert_uint_eq(comp.num_calls, 0);
}

/* The request has the key of the first device. Loop index: whether it is inline. */
/* RC-05 */
START_TEST(request_of_a_get_is_posted_again_with_another_key)
{
    setenv("UCX_MORI_RDMA_TX_INLINE", (_i == 0) ? "0" : "64", 1);
    start_gets(false);
    fake_verbs_hold(qp_num_of_rail_0, FAKE_VERBS_HOLD_SEND);
    begin_get();
    fake_verbs_remove("fake0");
    progress_until(is_called, 0);
    ck_assert_int_eq(comp.status, UCS_OK);
    ck_assert_uint_eq(mkv_pattern_check(own.addr, BLOCK, 2, 0), BLOCK);
    finish_gets();
}
END_TEST

static uint32_t queue_pair_of_owner(void)
{
    uint32_t qp_nums[2];

    ck_assert_uint_ge(fake_verbs_qp_list(qp_nums, 2), 2);
    return qp_nums[1];
}

static void fill_queue_of_owner(void)
{
    fake_verbs_hold(queue_pair_of_owner(), FAKE_VERBS_HOLD_SEND);
    while (uct_ep_put_short(rails[1].ep[0], "", 1,
                            (uintptr_t)rails[0].mem[0].addr + SIZE / 2,
                            rails[1].rkey[0].rkey) == UCS_OK) {
    }
}

/*
 * The request has arrived when the device goes. The owner's send queue is full, or the
 * write is on its way. Without a key of the getting side's memory with the other
 * devices, the owner has it sent again. Loop index: whether the owner has such
 * keys, and whether its queue is full.
 */
/* RC-05 */
START_TEST(get_that_waits_at_its_owner_moves)
{
    setenv("UCX_MORI_RDMA_TX_DEPTH", "4", 1);
    start_gets((_i & 1) != 0);
    if (_i & 2) {
        fill_queue_of_owner();
    } else {
        fake_verbs_hold(queue_pair_of_owner(), FAKE_VERBS_HOLD_SEND);
    }
    begin_get();
    fake_verbs_remove("fake0");
    progress_until(is_called, 0);
    ck_assert_int_eq(comp.status, UCS_OK);
    ck_assert_uint_eq(mkv_pattern_check(own.addr, BLOCK, 2, 0), BLOCK);
    ck_assert_uint_eq(rails[0].side[0].events.num_ep_errors, 0);
    ck_assert_uint_eq(rails[1].side[0].events.num_ep_errors, 0);
    finish_gets();
}
END_TEST

static int is_by_another_rail(unsigned arg)
{
    (void)arg;
    return (find_newest() > newest) &&
           (fake_verbs_qp_state(find_newest()) == IBV_QPS_RTS);
}

/* Move the first rail's endpoint to the second device and back. */
static void go_and_return(void)
{
    fake_verbs_link("fake2", 0);
    fake_verbs_link("fake0", 0);
    fake_verbs_qp_fatal(qp_num_of_rail_0);
    progress_until(is_by_another_rail, 0);
    put_well();
    fake_verbs_link("fake0", 1);
    newest = find_newest();
    fake_verbs_link("fake1", 0);
    fake_verbs_qp_fatal(newest);
    progress_until(is_by_another_rail, 0);
    put_well();
}

/* The endpoint is on its own device again. Its memory was registered a second time
 * there, and that registration ends while the bytes are on their way. */
/* RC-05 */
START_TEST(get_on_the_own_device_again_keeps_its_key)
{
    ct_mem_t others;

    start_gets(false);
    mkv_pattern_fill(rails[0].mem[0].addr, SIZE, 1, 0);
    go_and_return();
    mkv_pattern_fill(rails[1].mem[0].addr, SIZE, 2, 0);
    others = own;
    ck_assert_int_eq(ct_mem_register(&rails[0].side[0], &others), UCS_OK);
    fake_verbs_hold(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND);
    begin_get();
    ck_assert_int_eq(uct_md_mem_dereg(rails[0].side[0].md, others.memh), UCS_OK);
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    progress_until(is_called, 0);
    ck_assert_int_eq(comp.status, UCS_OK);
    ck_assert_uint_eq(mkv_pattern_check(own.addr, BLOCK, 2, 0), BLOCK);
    finish_gets();
}
END_TEST

/* Get by the last rail; the peer makes no progress. */
static void request_by_last_rail(void)
{
    const unsigned rail = RAILS - 1;
    const uct_iov_t iov = {.buffer = own.addr,
                           .length = BLOCK,
                           .memh = rails[0].mem[rail].memh,
                           .count = 1};

    rig_comp_init(&comp);
    ck_assert_int_eq(uct_ep_get_zcopy(rails[0].ep[rail], &iov, 1,
                                      (uintptr_t)rails[1].mem[0].addr,
                                      rails[0].rkey[rail].rkey, &comp.uct),
                     UCS_INPROGRESS);
    uct_worker_progress(rails[0].side[0].worker);
}

/* The offer of another device is read before the request, which arrived earlier, as the
 * first interface is polled first. */
/* RC-05 */
START_TEST(request_read_behind_the_move_has_the_key_of_the_old_device)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    start_gets(true);
    request_by_last_rail();
    fake_verbs_remove(devices[0][RAILS - 1]);
    while (!has_newer()) {
        uct_worker_progress(rails[0].side[0].worker);
        ck_assert_uint_lt(mkv_test_now_ms(), limit);
    }
    uct_worker_progress(rails[0].side[0].worker);
    progress_until(is_called, 0);
    ck_assert_int_eq(comp.status, UCS_OK);
    ck_assert_uint_eq(mkv_pattern_check(own.addr, BLOCK, 2, 0), BLOCK);
    finish_gets();
}
END_TEST

/* ---- receives ---- */

static rdma_log_watch_t no_key = {UCS_LOG_LEVEL_ERROR, "has no key with fake1", 0};
static unsigned num_received;

static ucs_status_t receive(void *arg, void *data, size_t length, unsigned flags)
{
    (void)arg;
    (void)data;
    (void)length;
    (void)flags;
    num_received++;
    return UCS_OK;
}

/* Receives grow with use; the device that carries the endpoint has no memory for more
 * of them. */
/* RC-05 */
START_TEST(receives_without_a_key_of_the_new_device_are_given_up)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned i, sent = 0;

    start_with("1");
    fake_verbs_remove("fake0");
    put_well();
    rdma_log_watch(&no_key, 1);
    ck_assert_int_eq(
        uct_iface_set_am_handler(rails[0].side[0].iface, RIG_AM_ID, receive, NULL, 0),
        UCS_OK);
    fake_verbs_fail_call("ibv_reg_mr", 1, 1000000, ENOMEM);
    while (num_received < 200) {
        sent += (sent < 200) &&
                (uct_ep_am_short(rails[1].ep[0], RIG_AM_ID, 0, NULL, 0) == UCS_OK);
        progress();
        ck_assert_msg(mkv_test_now_ms() < limit, "%u of %u", num_received, sent);
    }
    for (i = 0; i < 1000; i++) {
        progress();
    }
    ck_assert_uint_gt(no_key.num, 0);
    ck_assert_uint_le(no_key.num, 20);
    fake_verbs_reset();
    finish();
}
END_TEST

/* ---- when ---- */

/* Progress side A alone and move the clock: whether queue pairs of another device exist
 * then. */
static int moves_within(unsigned ms)
{
    const uint32_t before = find_newest();
    unsigned i;

    rdma_clock_advance(ms);
    for (i = 0; i < 10; i++) {
        uct_worker_progress(rails[0].side[0].worker);
    }
    return find_newest() > before;
}

/* The peer never answers. The first device gets a 32nd of the hundred seconds in all,
 * and each next one has twice the time of the one before. */
/* RC-05 */
START_TEST(next_device_is_tried_after_twice_the_time)
{
    static const unsigned expected[] = {3125, 9375, 21875, 46875, 96875};
    const unsigned step = 25;
    unsigned ms, num = 0;

    start_with("1");
    rdma_clock_stop();
    fake_verbs_qp_fatal(qp_num_of_rail_0);
    ck_assert(moves_within(0)); /* its own device again */
    for (ms = step; ms < 100000; ms += step) {
        if (moves_within(step)) {
            ck_assert_uint_lt(num, sizeof(expected) / sizeof(expected[0]));
            ck_assert_uint_eq(ms, expected[num++]);
        }
    }
    ck_assert_uint_eq(num, sizeof(expected) / sizeof(expected[0]));
    ck_assert_uint_eq(rails[0].side[0].events.num_ep_errors, 0);
    (void)moves_within(step);
    ck_assert_uint_eq(rails[0].side[0].events.num_ep_errors, 1);
    finish();
}
END_TEST

/* ---- datagrams ---- */

/* Progress side A alone, so often that it reads the clock, which
 * stands still meanwhile. */
static void advance(unsigned ms)
{
    unsigned i;

    rdma_clock_advance(ms);
    for (i = 0; i < 80; i++) {
        uct_worker_progress(rails[0].side[0].worker);
    }
}

/* The device takes a rail's queue pair of datagrams out of no state any more. */
static void give_up_datagrams(unsigned rail)
{
    unsigned i;

    fake_verbs_fail_call("ibv_modify_qp", 2, 8, EIO); /* behind that to ERR */
    fake_verbs_qp_fatal(rig_datagram_qp(rails[0].ep[rail]));
    for (i = 0; i < 8; i++) {
        advance(128);
    }
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 0);
    /* addresses of later endpoints do not contain a datagram queue pair either */
    ck_assert_uint_eq(rig_datagram_qp(rails[0].ep[rail]), 0);
}

/* The second rail has no datagrams; the clock stands still, so no time limit ends. */
/* RC-05 */
START_TEST(rail_without_datagrams_is_not_chosen)
{
    start_with("1");
    rdma_clock_stop();
    give_up_datagrams(1);
    fake_verbs_qp_fatal(qp_num_of_rail_0);
    fake_verbs_link("fake0", 0);
    rdma_clock_advance(100); /* events are read */
    put_well();
    finish();
}
END_TEST

/* The endpoint's own rail has no datagrams. */
/* RC-05 */
START_TEST(rail_without_datagrams_is_left)
{
    start_with("1");
    rdma_clock_stop();
    give_up_datagrams(0);
    fake_verbs_qp_fatal(qp_num_of_rail_0);
    put_well();
    finish();
}
END_TEST

/* Datagrams are given up after the connection has broken. */
/* RC-05 */
START_TEST(rail_with_failed_datagrams_is_left)
{
    start_with("1");
    rdma_clock_stop();
    fake_verbs_lose_device("fake3", 1);
    fake_verbs_qp_fatal(qp_num_of_rail_0);
    advance(1);
    give_up_datagrams(0);
    put_well();
    finish();
}
END_TEST

/* Put from side B; the peer does not notice that its connection broke. */
static ucs_status_t put_back(uct_completion_t *uct)
{
    const uct_iov_t iov = {.buffer = rails[1].mem[0].addr,
                           .length = BLOCK,
                           .memh = rails[1].mem[0].memh,
                           .count = 1};

    return uct_ep_put_zcopy(rails[1].ep[0], &iov, 1, (uintptr_t)rails[0].mem[0].addr,
                            rails[1].rkey[0].rkey, uct);
}

static int is_put_back(unsigned arg)
{
    (void)arg;
    rdma_clock_advance(10);
    return comp.num_calls > 0;
}

/* Doorbells of side B's second rail, by which it answers. */
static unsigned num_answers(void)
{
    fake_verbs_stats_t stats;

    fake_verbs_qp_stats(rig_datagram_qp(rails[1].ep[1]), &stats);
    return (unsigned)stats.doorbells;
}

static int has_answered(unsigned before)
{
    return num_answers() > before;
}

/* Side A's endpoint goes on over the second rail, as the queue of the first one broke,
 * or its link is down for a moment and the queue breaks then. */
static void move_and_break_queue(bool is_later)
{
    unsigned before;

    if (is_later) {
        fake_verbs_link("fake0", 0);
        fake_verbs_qp_fatal(qp_num_of_rail_0);
    } else {
        fake_verbs_device_cqs_fatal("fake0");
    }
    progress_until(is_by_another_rail, 0);
    put_well();
    if (is_later) {
        before = num_answers();
        fake_verbs_link("fake0", 1);
        fake_verbs_device_cqs_fatal("fake0");
        progress_until(has_answered, before);
    }
}

/*
 * The completion queue of side A's first rail breaks: its datagrams have another queue
 * pair. When the rail that the endpoint went to is cut, and the third, side B has only
 * the first one to ask by, and A has no reason to look for B. Loop index: whether it
 * went before that.
 */
/* RC-07 */
START_TEST(moved_endpoints_peer_gets_the_new_datagram_queue)
{
    setenv("UCX_MORI_RDMA_TIMEOUT", "16ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    start_with("1");
    move_and_break_queue(_i == 1);
    fake_verbs_lose_device("fake1", 1);
    fake_verbs_lose_device("fake2", 1);
    rdma_clock_stop();
    rig_comp_init(&comp);
    ck_assert_int_eq(put_back(&comp.uct), UCS_INPROGRESS);
    progress_until(is_put_back, 0);
    ck_assert_int_eq(comp.status, UCS_OK);
    finish();
}
END_TEST

static unsigned waited_ms;

static int is_notified(unsigned at)
{
    rdma_clock_advance(5);
    waited_ms += 5;
    return rails[at].side[0].events.num_ep_errors > 0;
}

/* The endpoint has moved and its peer is destroyed, so no offer comes. After
 * three seconds without an answer the endpoint makes its own. The reply comes long
 * before RECOVERY_TIMEOUT. Loop index: its side. */
/* RC-05 */
START_TEST(moved_endpoint_is_notified_that_its_peer_is_gone)
{
    const unsigned at = (unsigned)_i;

    setenv("UCX_MORI_RDMA_TIMEOUT", "16ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    start_with("1");
    fake_verbs_remove("fake0");
    put_well();
    rdma_clock_stop();
    destroy_ep(!at, 0);
    rig_comp_init(&comp);
    ck_assert_int_eq((at == 0) ? put(0, &comp.uct) : put_back(&comp.uct),
                     UCS_INPROGRESS);
    progress_until(is_notified, at);
    ck_assert_uint_lt(waited_ms, 5000);
    ck_assert(UCS_STATUS_IS_ERR(comp.status));
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mori_rdma over three rails");
    TCase *tcase = tcase_create("rails");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    setenv("UCX_MORI_TEST_HIP", HIPCPU_PATH, 1);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, flush_on_its_way_moves_again);
    tcase_add_test(tcase, memory_that_moved_ends_with_its_own_registration);
    tcase_add_test(tcase, device_may_be_closed_before_memory_that_moved_to_it);
    tcase_add_loop_test(tcase, put_that_moves_takes_the_key_of_its_own_registration, 0,
                        4);
    tcase_add_test(tcase, put_that_moves_finds_its_key_beside_another_context);
    tcase_add_loop_test(tcase, gets_by_messages_go_on_over_another_rail, 0, 8);
    tcase_add_loop_test(tcase, request_of_a_get_is_posted_again_with_another_key, 0, 2);
    tcase_add_loop_test(tcase, get_that_waits_at_its_owner_moves, 0, 4);
    tcase_add_test(tcase, get_on_the_own_device_again_keeps_its_key);
    tcase_add_test(tcase, request_read_behind_the_move_has_the_key_of_the_old_device);
    tcase_add_test(tcase, receives_without_a_key_of_the_new_device_are_given_up);
    tcase_add_test(tcase, carrier_may_be_closed_when_half_of_an_endpoint_has_left_it);
    tcase_add_test(tcase, post_that_a_removed_device_refuses_moves);
    tcase_add_test(tcase, device_that_is_gone_untold_is_left_by_all);
    tcase_add_test(tcase, device_that_makes_no_queue_pair_is_left);
    tcase_add_test(tcase, devices_that_make_no_queue_pair_fail_the_endpoint);
    tcase_add_test(tcase, next_device_is_tried_after_twice_the_time);
    tcase_add_test(tcase, rail_without_datagrams_is_not_chosen);
    tcase_add_test(tcase, rail_without_datagrams_is_left);
    tcase_add_test(tcase, rail_with_failed_datagrams_is_left);
    tcase_add_loop_test(tcase, moved_endpoints_peer_gets_the_new_datagram_queue, 0, 2);
    tcase_add_loop_test(tcase, moved_endpoint_is_notified_that_its_peer_is_gone, 0, 2);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(suite);
}
