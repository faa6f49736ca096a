/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * Cost for the host of a work request of mori_rdma: instructions, doorbells and time,
 * on the fake libibverbs with a device that completes at once and moves nothing. Run it
 * by test/bench/bench_rdma.sh, which counts the instructions of our module and of UCX
 * with callgrind and leaves out those of the fake and of this file.
 */

#if defined(__has_include) && __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT (void)0
#endif

#define BLOCK 64   /* of any size: nothing is moved */
#define STRIDE 128 /* no two blocks are neighbours */

typedef struct bench_row {
    const char *op; /* put: one call a block; list: as few as the interface allows;
                       key: a remote key packed, unpacked and released */
    unsigned blocks;
    unsigned batch; /* of key: keys that a packed one has room for */
} bench_row_t;

static const bench_row_t rows[] = {
    {"put", 1024, 1},    {"put", 1024, 4},    {"put", 1024, 16},  {"put", 1024, 32},
    {"put", 1024, 64},   {"put", 32768, 1},   {"put", 32768, 16}, {"put", 32768, 32},
    {"put", 32768, 64},  {"list", 1024, 1},   {"list", 1024, 4},  {"list", 1024, 16},
    {"list", 1024, 32},  {"list", 1024, 64},  {"list", 32768, 1}, {"list", 32768, 16},
    {"list", 32768, 32}, {"list", 32768, 64}, {"key", 1024, 1},   {"key", 1024, 32},
};

#define NUM_ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

typedef struct bench {
    rig_t rig;
    rig_conn_t conn;
    void **buffers;
    size_t *lengths;
    uct_mem_h *memhs;
    uint64_t *addrs;
    uct_rkey_t *rkeys;
    uct_completion_t comp;
} bench_t;

static bench_t bench;

static void bench_called(uct_completion_t *comp)
{
    (void)comp;
}

static void bench_open(const bench_row_t *row)
{
    char text[16];
    unsigned i;

    snprintf(text, sizeof(text), "%u", row->batch);
    setenv("UCX_MORI_RDMA_POST_BATCH", text, 1);
    if (row->op[0] == 'k') {
        setenv("UCX_MORI_RDMA_MAX_MR_SIZE", (row->batch == 1) ? "inf" : "1g", 1);
    }
    rig_open(&bench.rig, (size_t)row->blocks * STRIDE);
    rig_connect(&bench.rig, &bench.conn);
    bench.buffers = calloc(row->blocks, sizeof(*bench.buffers));
    bench.lengths = calloc(row->blocks, sizeof(*bench.lengths));
    bench.memhs = calloc(row->blocks, sizeof(*bench.memhs));
    bench.addrs = calloc(row->blocks, sizeof(*bench.addrs));
    bench.rkeys = calloc(row->blocks, sizeof(*bench.rkeys));
    ck_assert(bench.buffers && bench.lengths && bench.memhs && bench.addrs &&
              bench.rkeys);
    for (i = 0; i < row->blocks; i++) {
        bench.buffers[i] = (char *)bench.rig.mem[0].addr + (size_t)i * STRIDE;
        bench.lengths[i] = BLOCK;
        bench.memhs[i] = bench.rig.mem[0].memh;
        bench.addrs[i] = (uintptr_t)bench.rig.mem[1].addr + (uint64_t)i * STRIDE;
        bench.rkeys[i] = bench.rig.rkey[1].rkey;
    }
    bench.comp.func = bench_called;
}

static void bench_close(void)
{
    free(bench.buffers);
    free(bench.lengths);
    free(bench.memhs);
    free(bench.addrs);
    free(bench.rkeys);
    rig_disconnect(&bench.conn);
    rig_close(&bench.rig);
}

static int bench_puts(unsigned blocks)
{
    const uct_ep_h ep = bench.conn.ep[0];
    uct_iov_t iov = {.count = 1};
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < blocks; i++) {
        iov.buffer = bench.buffers[i];
        iov.length = bench.lengths[i];
        iov.memh = bench.memhs[i];
        while ((status = uct_ep_put_zcopy(ep, &iov, 1, bench.addrs[i], bench.rkeys[i],
                                          &bench.comp)) == UCS_ERR_NO_RESOURCE) {
            uct_worker_progress(bench.rig.side[0].worker);
        }
        if (UCS_STATUS_IS_ERR(status)) {
            return -1;
        }
    }

    return 0;
}

static int bench_lists(unsigned blocks)
{
    const size_t max = bench.rig.side[0].max_put_sgl;
    const uct_ep_h ep = bench.conn.ep[0];
    ucs_status_t status;
    size_t i, n;

    for (i = 0; i < blocks; i += n) {
        n = (blocks - i < max) ? blocks - i : max;
        while ((status = uct_ep_put_sgl_zcopy(ep, &bench.buffers[i], &bench.lengths[i],
                                              &bench.memhs[i], &bench.addrs[i],
                                              &bench.rkeys[i], NULL, NULL, n,
                                              &bench.comp)) == UCS_ERR_NO_RESOURCE) {
            uct_worker_progress(bench.rig.side[0].worker);
        }
        if (UCS_STATUS_IS_ERR(status)) {
            return -1;
        }
    }

    return 0;
}

/* Unpack as UCP does with each key that a peer sends. */
static int bench_keys(unsigned num)
{
    ct_side_t *side = &bench.rig.side[1];
    uct_rkey_bundle_t key;
    uint8_t packed[256];
    unsigned i;

    for (i = 0; i < num; i++) {
        if ((ct_mem_pack(side, &bench.rig.mem[1], 0, packed) != UCS_OK) ||
            (uct_rkey_unpack(side->component, packed, &key) != UCS_OK)) {
            return -1;
        }
        uct_rkey_release(side->component, &key);
    }

    return 0;
}

static int bench_post(const bench_row_t *row)
{
    int ret;

    /* one call of the callback a post at most: it never gets to zero before the end */
    bench.comp.count = (int)row->blocks + 1;
    bench.comp.status = UCS_OK;
    if (row->op[0] == 'k') {
        return bench_keys(row->blocks);
    }
    ret = (row->op[0] == 'p') ? bench_puts(row->blocks) : bench_lists(row->blocks);
    while ((ret == 0) && (uct_ep_flush(bench.conn.ep[0], 0, NULL) == UCS_INPROGRESS)) {
        uct_worker_progress(bench.rig.side[0].worker);
    }

    return ret;
}

static uint64_t bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

START_TEST(row)
{
    const bench_row_t *r = &rows[_i];
    fake_verbs_stats_t before, after;
    uint64_t start, nsec, num;
    char name[64];
    int ret;

    bench_open(r);
    ck_assert_int_eq(bench_post(r), 0); /* touch everything once */
    fake_verbs_qp_stats(bench.conn.qp_nums[0][0], &before);
    start = bench_now();
    CALLGRIND_TOGGLE_COLLECT;
    ret = bench_post(r);
    CALLGRIND_TOGGLE_COLLECT;
    nsec = bench_now() - start;
    fake_verbs_qp_stats(bench.conn.qp_nums[0][0], &after);
    ck_assert_int_eq(ret, 0);

    num = (r->op[0] == 'k') ? r->blocks : after.sends - before.sends;
    snprintf(name, sizeof(name), "%s %u %u", r->op, r->blocks, r->batch);
    printf("row %s wrs %llu doorbells %llu signalled %llu ns %.1f\n", name,
           (unsigned long long)num,
           (unsigned long long)(after.doorbells - before.doorbells),
           (unsigned long long)(after.signalled - before.signalled),
           (double)nsec / (double)num);
    bench_close();
}
END_TEST

/* Their names alone, in the order of their numbers. */
static int list_rows(void)
{
    int i;

    for (i = 0; i < NUM_ROWS; i++) {
        printf("%s %u %u\n", rows[i].op, rows[i].blocks, rows[i].batch);
    }
    return MKV_TEST_EXIT_OK;
}

static int run_rows(int first, int end)
{
    Suite *suite = suite_create("bench_rdma");
    TCase *tcase = tcase_create("rows");
    SRunner *runner;
    int failed;

    ct_side_find_module();
    mkv_test_init();
    setenv("FAKE_VERBS_MODE", "null", 1);
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5", 1);
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, row, first, end);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_MINIMAL);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? MKV_TEST_EXIT_OK : MKV_TEST_EXIT_FAIL;
}

/* bench_rdma [--list | ROW]: one row alone, as callgrind counts a whole process. */
int main(int argc, char **argv)
{
    if ((argc > 1) && (strcmp(argv[1], "--list") == 0)) {
        return list_rows();
    }
    return (argc > 1) ? run_rows(atoi(argv[1]), atoi(argv[1]) + 1)
                      : run_rows(0, NUM_ROWS);
}
