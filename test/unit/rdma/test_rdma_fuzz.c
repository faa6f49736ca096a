/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/verbs_pair.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"
#include "test/support/rdma_rig.h"
#include "test/unit/rdma/rdma_message.h"

#include "base/muct_bytes.h"
#include "rdma/device/rdma_addr.h"
#include "rdma/ep/rdma_ctl_msg.h"
#include "rdma/memory/rdma_key.h"

#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

/*
 * Random numbers in addresses, keys, datagrams of recovery, requests for gets, their
 * answers and credits, as a peer could send them. Nothing may crash or wait forever,
 * and a connection that was left alone moves its bytes. A round depends on its number
 * alone, so a failure comes again.
 */

#define SIZE 65536
#define LIMIT_S 300
#define NUM_ROUNDS 4    /* in CI */
#define MANY_ROUNDS 200 /* nightly */
#define NUM_STEPS 40    /* of a round */
#define QKEY 0x4d4f5249 /* of rdma_ctl.c */
#define GRH 40
#define CTL_SLOT 256 /* bytes that a datagram may have there, with its header */

static rig_t rig;
static rig_conn_t good, bad;
static uint8_t dev_bytes[64], ep_bytes[256]; /* addresses of bad.ep[1] */

/* ---- random numbers ---- */

static uint64_t state;

static uint64_t next_random(void)
{
    return mkv_test_random(&state);
}

static uint64_t below(uint64_t end)
{
    return next_random() % end;
}

/* Often one that could be a number of a queue pair, or the end of a range */
static uint64_t random_word(void)
{
    static const uint64_t ends[] = {0, 1, 2, 255, 0xfffffe, 0xffffff, UINT64_MAX};
    const uint64_t word = next_random();

    switch (below(4)) {
    case 0:
        return ends[below(7)];
    case 1:
        return word & 0xff;
    case 2:
        return word & 0xffffff;
    default:
        return word;
    }
}

static void flip_bytes(uint8_t *bytes, size_t length)
{
    unsigned i;

    for (i = 1 + (unsigned)below(3); i > 0; --i) {
        bytes[below(length)] ^= (uint8_t)next_random();
    }
}

/* ---- connections ---- */

/* Each refusal is a line. */
static ucs_log_func_rc_t drop_line(const char *file, unsigned line,
                                   const char *function, ucs_log_level_t level,
                                   const ucs_log_component_config_t *component,
                                   const char *format, va_list args)
{
    (void)file;
    (void)line;
    (void)function;
    (void)component;
    (void)format;
    (void)args;
    return (level > UCS_LOG_LEVEL_FATAL) ? UCS_LOG_FUNC_RC_STOP
                                         : UCS_LOG_FUNC_RC_CONTINUE;
}

static void begin(int round)
{
    state = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(round + 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &good);
    ucs_log_push_handler(drop_line);
}

static void connect_bad(void)
{
    rig_connect(&rig, &bad);
    ck_assert_int_eq(uct_iface_get_device_address(rig.side[1].iface, (void *)dev_bytes),
                     UCS_OK);
    ck_assert_int_eq(uct_ep_get_address(bad.ep[1], (void *)ep_bytes), UCS_OK);
}

static muct_rdma_ep_addr_t unpack_ep(const uint8_t *bytes)
{
    muct_rdma_ep_addr_t addr;
    muct_rdma_fault_t fault = {0};

    MKV_REQUIRE(muct_rdma_ep_addr_unpack(bytes, SIZE_MAX, &addr, &fault) == 0,
                MUCT_RDMA_FAULT_FMT, MUCT_RDMA_FAULT_ARG(&fault));
    return addr;
}

static muct_rdma_dev_addr_t unpack_dev(const uint8_t *bytes)
{
    muct_rdma_dev_addr_t addr;
    muct_rdma_fault_t fault = {0};

    MKV_REQUIRE(muct_rdma_dev_addr_unpack(bytes, SIZE_MAX, &addr, &fault) == 0,
                MUCT_RDMA_FAULT_FMT, MUCT_RDMA_FAULT_ARG(&fault));
    return addr;
}

static void progress_some(void)
{
    unsigned i;

    for (i = 0; i < 20; ++i) {
        (void)rig_progress(&rig);
    }
}

static void expect_good(void)
{
    rig_comp_t comp;

    rig_fill(&rig);
    rig_comp_init(&comp);
    ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, good.ep[0], 0, 0, SIZE, &comp)));
    ck_assert_int_eq(rig_flush(&rig, good.ep[0]), UCS_OK);
    rig_check(&rig, 0, SIZE);
}

static void finish(void)
{
    expect_good();
    ucs_log_pop_handler();
    rig_disconnect(&good);
    rig_close(&rig);
}

/* Use an endpoint; any result is valid, and nothing is waited for. */
static void use_ep(uct_ep_h ep)
{
    (void)rig_try_put(&rig, ep, 0, 0, 64, NULL);
    (void)rig_try_am(&rig, ep, 0, 32);
    (void)uct_ep_flush(ep, 0, NULL);
    progress_some();
}

/* ---- addresses ---- */

static void change_ep_addr(uint8_t *bytes)
{
    muct_rdma_ep_addr_t addr = unpack_ep(bytes);

    switch (below(8)) {
    case 0:
        addr.num_qps = (uint8_t)(1 + below(MUCT_RDMA_ADDR_MAX_QPS));
        break;
    case 1:
        addr.psn = (uint32_t)random_word();
        break;
    case 2:
        addr.num_receives = (uint16_t)random_word();
        break;
    case 3:
        addr.receive_size = (uint32_t)random_word();
        break;
    case 4:
        addr.max_reads = (uint8_t)random_word();
        break;
    case 5:
        addr.flush_addr = random_word();
        break;
    case 6:
        addr.ctl_qp = (uint32_t)random_word();
        break;
    default:
        addr.qp_nums[0] = (uint32_t)random_word();
    }
    muct_rdma_ep_addr_pack(&addr, bytes);
}

static void use_address(void)
{
    uint8_t dev[64], addr[256];
    const uct_iface_is_reachable_params_t params = {
        .field_mask = CT_REACH_FIELD_DEVICE_ADDR,
        .device_addr = (uct_device_addr_t *)(void *)dev,
    };
    rig_conn_t conn;
    uct_ep_h ep;

    memcpy(dev, dev_bytes, sizeof(dev));
    memcpy(addr, ep_bytes, sizeof(addr));
    switch (below(3)) {
    case 0:
        flip_bytes(dev, rig.side[1].attr.device_addr_len);
        break;
    case 1:
        flip_bytes(addr, rig.side[1].attr.ep_addr_len);
        break;
    default:
        change_ep_addr(addr);
    }
    (void)uct_iface_is_reachable_v2(rig.side[0].iface, &params);
    ep = rig_create_ep(&rig, 0, &conn);
    if (rig_connect_to(ep, (void *)dev, (void *)addr,
                       (below(4) > 0)
                           ? rig.side[1].attr.ep_addr_len
                           : below(rig.side[1].attr.ep_addr_len)) == UCS_OK) {
        use_ep(ep);
    }
    uct_ep_destroy(ep);
}

START_TEST(numbers_of_an_address_end_nothing)
{
    unsigned i;

    begin(_i);
    connect_bad();
    for (i = 0; i < NUM_STEPS; ++i) {
        use_address();
    }
    rig_disconnect(&bad);
    finish();
}
END_TEST

/* ---- keys ---- */

/* The check sums will be right. */
static void change_key(muct_rdma_key_t *key)
{
    switch (below(9)) {
    case 0:
        key->incarnation = random_word();
        break;
    case 1:
        key->base = random_word();
        break;
    case 2:
        key->length = random_word();
        break;
    case 3:
        key->flags = (uint8_t)random_word();
        break;
    case 4:
        key->chunk_shift = (uint8_t)random_word();
        break;
    case 5:
        key->gpu = (uint8_t)random_word();
        break;
    case 6:
        key->page_address = random_word();
        break;
    case 7:
        key->num_rkeys = (uint8_t)(1 + below(MUCT_RDMA_KEY_MAX_RKEYS));
        break;
    default:
        key->rkeys[0] = (uint32_t)random_word();
    }
}

static void use_key(const void *packed)
{
    const uct_rkey_bundle_t own = rig.rkey[1];

    if (uct_rkey_unpack(rig.side[0].component, packed, &rig.rkey[1]) == UCS_OK) {
        use_ep(bad.ep[0]);
        (void)rig_get(&rig, bad.ep[0], 0, 0, 64, NULL);
        progress_some();
        rig_disconnect(&bad);
        connect_bad();
        uct_rkey_release(rig.side[0].component, &rig.rkey[1]);
    }
    rig.rkey[1] = own;
}

START_TEST(numbers_of_a_key_end_nothing)
{
    uint8_t packed[256], changed[256] = {0};
    muct_rdma_key_t key;
    unsigned i, k;

    begin(_i);
    connect_bad();
    ck_assert_int_eq(ct_mem_pack(&rig.side[1], &rig.mem[1], 0, packed), UCS_OK);
    for (i = 0; i < NUM_STEPS; ++i) {
        ck_assert_int_eq(muct_rdma_key_unpack(packed, sizeof(packed), &key),
                         MUCT_RDMA_KEY_OK);
        for (k = 1 + (unsigned)below(2); k > 0; --k) {
            change_key(&key);
        }
        muct_rdma_key_pack(&key, MUCT_RDMA_KEY_MAX_RKEYS, changed);
        if (below(4) == 0) {
            flip_bytes(changed, MUCT_RDMA_KEY_PACKED_SIZE(1));
        }
        use_key(changed);
    }
    rig_disconnect(&bad);
    finish();
}
END_TEST

/* ---- datagrams ---- */

static verbs_side_t sides[2];
static struct ibv_qp *qp;
static struct ibv_ah *ah;

static void modify(enum ibv_qp_state to, int mask)
{
    struct ibv_qp_attr attr = {.qp_state = to, .port_num = 1, .qkey = QKEY};

    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask), 0);
}

/* A queue pair beside mori_rdma's, on the device of side 0 */
static void open_datagrams(void)
{
    struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1};
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_UD,
        .cap = {
            .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};

    verbs_pair_open(sides);
    init.send_cq = sides[0].send_cq;
    init.recv_cq = sides[0].recv_cq;
    qp = ibv_create_qp(sides[0].pd, &init);
    ck_assert_ptr_nonnull(qp);
    modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    modify(IBV_QPS_RTR, 0);
    modify(IBV_QPS_RTS, IBV_QP_SQ_PSN);
    attr.dlid = sides[1].port.lid;
    attr.grh.dgid = sides[1].gid;
    attr.grh.sgid_index = (uint8_t)sides[0].gid_index;
    attr.grh.hop_limit = 16;
    ah = ibv_create_ah(sides[0].pd, &attr);
    ck_assert_ptr_nonnull(ah);
}

static void close_datagrams(void)
{
    ck_assert_int_eq(ibv_destroy_ah(ah), 0);
    ck_assert_int_eq(ibv_destroy_qp(qp), 0);
    verbs_pair_close(sides);
}

static void send_datagram(uint32_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)sides[0].buffer,
                          .length = length,
                          .lkey = sides[0].mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.ud = {.ah = ah,
                                       .remote_qpn = rig_datagram_qp(good.ep[1]),
                                       .remote_qkey = QKEY}};
    struct ibv_send_wr *failed;

    ck_assert_int_eq(ibv_post_send(qp, &wr, &failed), 0);
    verbs_expect(sides[0].send_cq, 0, IBV_WC_SUCCESS);
}

/* What bad.ep[0] would send to bad.ep[1], which has lost the connection */
static muct_rdma_ctl_msg_t offer_of(void)
{
    muct_rdma_ctl_msg_t msg = {.type = MUCT_RDMA_CTL_RENEW, .epoch = 1, .max_reads = 1};
    const muct_rdma_ep_addr_t to = unpack_ep(ep_bytes);
    muct_rdma_ep_addr_t from;
    uint8_t bytes[256];

    ck_assert_int_eq(uct_ep_get_address(bad.ep[0], (void *)bytes), UCS_OK);
    from = unpack_ep(bytes);
    ck_assert_int_eq(uct_iface_get_device_address(rig.side[0].iface, (void *)bytes),
                     UCS_OK);
    msg.dev = unpack_dev(bytes);
    msg.incarnation = unpack_dev(dev_bytes).incarnation;
    msg.to = (muct_rdma_ctl_id_t){to.qp_nums[0], to.psn};
    msg.to_ctl_qp = to.ctl_qp;
    msg.from = (muct_rdma_ctl_id_t){from.qp_nums[0], from.psn};
    msg.ctl_qp = msg.own_ctl_qp = from.ctl_qp;
    msg.num_qps = from.num_qps;
    memcpy(msg.qp_nums, from.qp_nums, sizeof(msg.qp_nums));
    return msg;
}

static void change_message(muct_rdma_ctl_msg_t *msg)
{
    switch (below(10)) {
    case 0:
        msg->type = (uint8_t)(1 + below(2));
        break;
    case 1:
        msg->epoch = (uint32_t)random_word();
        break;
    case 2:
        msg->received = (uint32_t)random_word();
        break;
    case 3:
        msg->ctl_qp = (uint32_t)random_word();
        break;
    case 4:
        msg->own_ctl_qp = (uint32_t)random_word();
        break;
    case 5:
        msg->num_qps = (uint8_t)below(MUCT_RDMA_ADDR_MAX_QPS + 1);
        break;
    case 6:
        msg->qp_nums[below(2)] = (uint32_t)random_word();
        break;
    case 7:
        msg->max_reads = (uint8_t)random_word();
        break;
    case 8:
        msg->is_answer = below(2) != 0;
        break;
    default:
        msg->dev.gid[below(16)] ^= (uint8_t)next_random();
    }
}

static void use_message(void)
{
    muct_rdma_ctl_msg_t msg = offer_of();
    uint32_t length = MUCT_RDMA_CTL_MSG_SIZE;
    unsigned k;

    for (k = (unsigned)below(4); k > 0; --k) {
        change_message(&msg);
    }
    muct_rdma_ctl_msg_pack(&msg, sides[0].buffer);
    switch (below(4)) {
    case 0:
        flip_bytes(sides[0].buffer, MUCT_RDMA_CTL_MSG_SIZE);
        break;
    case 1:
        length = (uint32_t)below(CTL_SLOT - GRH + 1);
        break;
    default:
        break;
    }
    send_datagram(length);
    progress_some();
}

START_TEST(numbers_of_a_datagram_end_nothing)
{
    unsigned i;

    begin(_i);
    connect_bad();
    open_datagrams();
    for (i = 0; i < NUM_STEPS; ++i) {
        use_message();
        use_ep(bad.ep[0]);
        rig_disconnect(&bad);
        connect_bad();
    }
    close_datagrams();
    rig_disconnect(&bad);
    finish();
}
END_TEST

/* ---- requests for gets, answers, credits ---- */

enum { PULL = 2, PULLED = 3, PULL_SIZE = 28 }; /* rdma_am.h, rdma_pull.c */

static uint32_t key_of(unsigned which)
{
    uint8_t packed[256];
    muct_rdma_key_t key;

    ck_assert_int_eq(ct_mem_pack(&rig.side[which], &rig.mem[which], 0, packed), UCS_OK);
    ck_assert_int_eq(muct_rdma_key_unpack(packed, sizeof(packed), &key),
                     MUCT_RDMA_KEY_OK);
    return key.rkeys[0];
}

/* A get of side @a which, as the head of rdma_pull.c has it, with some other numbers */
static void random_request(unsigned which, uint8_t *bytes)
{
    const size_t offset = below(SIZE), length = 1 + below(SIZE - offset);
    const uint64_t words[] = {(uintptr_t)rig.mem[!which].addr + offset,
                              (uintptr_t)rig.mem[which].addr + offset, key_of(!which),
                              key_of(which), length};
    static const uint8_t sizes[] = {8, 8, 4, 4, 4};
    unsigned i, at = 0;

    for (i = 0; i < 5; at += sizes[i++]) {
        muct_put_le(bytes + at, (below(8) == 0) ? random_word() : words[i], sizes[i]);
    }
}

static void use_own_message(void)
{
    const unsigned which = (unsigned)below(2);
    const uint8_t kind = (uint8_t)((below(16) == 0) ? next_random() : 1 + below(3));
    uint8_t bytes[PULL_SIZE + 36] = {0};
    size_t length = (kind == PULL) ? PULL_SIZE : 0;

    random_request(which, bytes);
    if (below(8) == 0) {
        length = below(sizeof(bytes) + 1);
    }
    if (below(2) == 0) { /* an answer may be of this one */
        (void)rig_get(&rig, bad.ep[!which], !which, 0, 64, NULL);
    }
    (void)rdma_message_send(
        bad.ep[which], kind, (uint8_t)((kind == PULLED) ? below(8) : random_word()),
        (uint16_t)((below(2) == 0) ? random_word() : 0), bytes, length);
    if (below(2) == 0) {
        progress_some();
    }
}

/* Without reads of a device, gets are requested by messages. */
START_TEST(numbers_of_requests_and_credits_end_nothing)
{
    unsigned i, k;

    setenv("UCX_MORI_RDMA_MAX_READS", "0", 1);
    begin(_i);
    connect_bad();
    for (i = 0; i < NUM_STEPS; ++i) {
        for (k = (unsigned)below(24); k > 0; --k) {
            use_own_message();
        }
        use_ep(bad.ep[below(2)]);
        rig_disconnect(&bad);
        connect_bad();
    }
    rig_disconnect(&bad);
    finish();
}
END_TEST

/* The peer answers that a get has to be requested again, on the same connection. */
START_TEST(peer_cannot_have_a_get_requested_forever)
{
    const uint8_t refused_again = 5; /* rdma_pull.c */
    rig_comp_t comp;

    setenv("UCX_MORI_RDMA_MAX_READS", "0", 1);
    begin(0);
    connect_bad();
    rig.hold[1] = 1;
    rig_comp_init(&comp);
    ck_assert_int_eq(rig_get(&rig, bad.ep[0], 0, 0, 64, &comp), UCS_INPROGRESS);
    ck_assert(rdma_message_send(bad.ep[1], PULLED, refused_again, 0, NULL, 0));
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_ERR_CONNECTION_RESET);
    rig.hold[1] = 0;
    rig_disconnect(&bad);
    finish();
}
END_TEST

int main(void)
{
    const bool is_full =
        (getenv("MKV_TEST_NIGHTLY") != NULL) && (getenv("MKV_TEST_FEWER") == NULL);
    const int num =
        (int)mkv_test_rounds(is_full ? MANY_ROUNDS : NUM_ROUNDS, NUM_ROUNDS);
    Suite *suite = suite_create("rdma fuzz");
    TCase *tcase = tcase_create("fuzz");

    ct_side_find_module();
    mkv_test_init();
    setenv("UCX_MORI_RDMA_NUM_QPS", "2", 1);
    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_loop_test(tcase, numbers_of_an_address_end_nothing, 0, num);
    tcase_add_loop_test(tcase, numbers_of_a_key_end_nothing, 0, num);
    tcase_add_loop_test(tcase, numbers_of_a_datagram_end_nothing, 0, num);
    tcase_add_loop_test(tcase, numbers_of_requests_and_credits_end_nothing, 0, num);
    tcase_add_test(tcase, peer_cannot_have_a_get_requested_forever);
    suite_add_tcase(suite, tcase);
    return rig_run_forked(suite);
}
