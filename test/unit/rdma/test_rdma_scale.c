/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * A process with a thousand peers: one interface of it is here, with the default
 * options, and the other side is all of the peers. A machine has eight such interfaces.
 */

#define SIZE 4096
#define NUM_PEERS 1000
#define NUM_NICS 8
#define MAX_MEMORY (1ull << 30)
#define MAX_POLLS 16
#define MAX_DEPTH 180 /* on average */

static rig_t rig;
static uct_ep_h eps[2][NUM_PEERS];

/* Bytes of an entry in queues of the device's own, which its library allocates */
typedef struct row {
    const char *devices;
    const char *tx_depth;
    unsigned send; /* with TX_MAX_SGE and TX_INLINE of the family, a power of two */
    unsigned completion;
} row_t;

/* Heap bytes in use. The device's queues are not included. */
static uint64_t allocated(void)
{
    const struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static void connect_peer(unsigned peer)
{
    uint8_t device[2][64], address[2][64];
    unsigned i;

    for (i = 0; i < 2; i++) {
        const uct_ep_params_t params = {.field_mask = UCT_EP_PARAM_FIELD_IFACE,
                                        .iface = rig.side[i].iface};

        ck_assert_int_eq(uct_ep_create(&params, &eps[i][peer]), UCS_OK);
        ck_assert_int_eq(
            uct_iface_get_device_address(rig.side[i].iface, (void *)device[i]), UCS_OK);
        ck_assert_int_eq(uct_ep_get_address(eps[i][peer], (void *)address[i]), UCS_OK);
    }
    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(
            uct_ep_connect_to_ep(eps[i][peer], (void *)device[!i], (void *)address[!i]),
            UCS_OK);
    }
}

/* A write of each to the same peer's memory, as a transfer of lists has it */
static void put_to_all(void)
{
    unsigned i;

    for (i = 0; i < NUM_PEERS; i++) {
        ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, eps[0][i], 0, 0, 64, NULL)));
    }
    for (i = 0; i < NUM_PEERS; i++) {
        ck_assert_int_eq(rig_flush(&rig, eps[0][i]), UCS_OK);
    }
}

/* Loop index: by two queue pairs, by one, and by one of the user's depth */
/* RT-03 */
START_TEST(thousand_peers_are_not_too_many)
{
    static const row_t rows[] = {{"fake0:ionic,fake1:ionic", NULL, 64, 32},
                                 {"fake0:mlx5,fake1:mlx5", NULL, 256, 64},
                                 {"fake0:mlx5,fake1:mlx5", "100", 256, 64}};
    const row_t *row = &rows[_i];
    fake_verbs_objects_t before, after;
    uint64_t start, memory, queues;
    unsigned i;

    setenv("FAKE_VERBS_DEVICES", row->devices, 1);
    setenv("FAKE_VERBS_CAPS", "max_qp=4096", 1);
    setenv("UCX_MORI_RDMA_NUM_QPS", "auto", 1);
    if (row->tx_depth != NULL) {
        setenv("UCX_MORI_RDMA_TX_DEPTH", row->tx_depth, 1);
    }
    rig_open(&rig, SIZE);
    start = allocated();
    for (i = 0; i < NUM_PEERS; i++) {
        connect_peer(i);
    }
    put_to_all();

    memory = (allocated() - start) / 2 * NUM_NICS; /* of both sides, here */
    fake_verbs_objects(&before);
    uct_iface_progress(rig.side[0].iface);
    fake_verbs_objects(&after);
    queues = (after.sq_entries * row->send + after.cq_entries * row->completion) / 2 *
             NUM_NICS;
    printf("%llu MB, %llu of them registered, and %llu of the device's queues; %llu "
           "queues polled, depth %llu\n",
           (unsigned long long)memory >> 20,
           (unsigned long long)(after.mr_bytes / 2 * NUM_NICS) >> 20,
           (unsigned long long)queues >> 20,
           (unsigned long long)(after.polls - before.polls) * NUM_NICS,
           (unsigned long long)after.sq_entries / after.qps);
    ck_assert_uint_le((after.polls - before.polls) * NUM_NICS, MAX_POLLS);
    ck_assert_uint_le(memory + queues, MAX_MEMORY);
    if (row->tx_depth != NULL) {
        ck_assert_uint_ge(after.sq_entries, 2 * NUM_PEERS * 100);
    } else {
        ck_assert_uint_le(after.sq_entries, (uint64_t)after.qps * MAX_DEPTH);
    }
    for (i = 0; i < NUM_PEERS; i++) {
        uct_ep_destroy(eps[0][i]);
        uct_ep_destroy(eps[1][i]);
    }
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite;
    TCase *tcase;

    if (getenv("MKV_UNDER_VALGRIND") != NULL) {
        puts("SKIP: valgrind's allocator does not tell how much it has given");
        return 77;
    }
    suite = suite_create("mori_rdma scale");
    tcase = tcase_create("scale");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, thousand_peers_are_not_too_many, 0, 3);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    return mkv_check_run_forked(suite);
}
