/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_log.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"
#include "ucx_plugin/rdma/memory/rdma_gpu_way.h"

#include <ucs/config/global_opts.h>
#include <ucs/debug/log_def.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

/*
 * Flushes and the memory of several GPUs of one peer, written to over one endpoint. In
 * the fake libibverbs a write to a GPU is acknowledged at once, and seen when something
 * has been read from the same GPU behind it, on the same queue pair. The GPUs are those
 * of libhipcpu, all on side B.
 */

#define SIZE 262144
#define MAX_GPUS 8
#define BLOCK 1024
#define BLOCKS 64
#define SHIFT 256 /* between the data for one GPU and for the next */

/* How bytes get to a GPU. */
typedef enum how { BY_ZCOPY, BY_SHORT, BY_BCOPY, BY_PIECES, BY_LIST, NUM_HOWS } how_t;

static const size_t lengths[] = {512, 64, 2048, 200000, (size_t)BLOCK *BLOCKS};

static rig_t rig;
static rig_conn_t conn;
static unsigned num_gpus;
static ct_mem_t mems[MAX_GPUS];
static uct_rkey_bundle_t keys[MAX_GPUS];

typedef struct row {
    unsigned num_gpus;
    const char *num_qps;
    const char *depth;
    const char *reads; /* NULL: as many as the devices have */
} row_t;

/* The first rows are the most important. The last have no reads at all. */
static const row_t rows[] = {
    {8, "2", "512"}, {8, "2", "2"},        {8, "1", "512"},
    {8, "1", "2"},   {1, "1", "512"},      {2, "1", "512"},
    {2, "2", "512"}, {8, "2", "512", "0"}, {8, "1", "4", "0"},
};

#define FEW_ROWS 2
#define NUM_ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static void open_gpu(unsigned gpu)
{
    uint8_t key[256];

    ck_assert_msg(mkv_hip_set_device((int)gpu), "%s", mkv_hip_why());
    ck_assert_int_eq(
        ct_mem_create(&rig.side[1], SIZE, UCS_MEMORY_TYPE_ROCM, &mems[gpu]), UCS_OK);
    ck_assert_int_eq(ct_mem_pack(&rig.side[1], &mems[gpu], 0, key), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(rig.side[1].component, key, &keys[gpu]), UCS_OK);
}

static void start(const row_t *row)
{
    unsigned gpu;

    setenv("UCX_MORI_RDMA_NUM_QPS", row->num_qps, 1);
    setenv("UCX_MORI_RDMA_TX_DEPTH", row->depth, 1);
    if (row->reads != NULL) {
        setenv("UCX_MORI_RDMA_MAX_READS", row->reads, 1);
    }
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    fake_verbs_gpu_lookup(mkv_hip_device_of);
    num_gpus = row->num_gpus;
    for (gpu = 0; gpu < num_gpus; gpu++) {
        open_gpu(gpu);
    }
}

static void finish(void)
{
    unsigned gpu;

    for (gpu = 0; gpu < num_gpus; gpu++) {
        uct_rkey_release(rig.side[1].component, &keys[gpu]);
        ct_mem_destroy(&rig.side[1], &mems[gpu]);
    }
    rig_disconnect(&conn);
    rig_close(&rig);
}

/* ---- writing ---- */

/* Source of the data for a GPU; each address is written to once. */
static char *source(unsigned gpu, how_t how)
{
    return (char *)rig.mem[0].addr + ((size_t)MAX_GPUS * how + gpu) * SHIFT;
}

static size_t pack_bytes(void *dest, void *from)
{
    memcpy(dest, from, lengths[BY_BCOPY]);
    return lengths[BY_BCOPY];
}

static ucs_status_t try_list(const unsigned *gpus, char *const *from,
                             const size_t *offsets, unsigned count)
{
    void *buffers[BLOCKS];
    size_t i, sizes[BLOCKS];
    uct_mem_h memhs[BLOCKS];
    uint64_t addrs[BLOCKS];
    uct_rkey_t rkeys[BLOCKS];

    for (i = 0; i < count; i++) {
        buffers[i] = from[i] + offsets[i];
        sizes[i] = BLOCK;
        memhs[i] = rig.mem[0].memh;
        addrs[i] = (uintptr_t)mems[gpus[i]].addr + offsets[i];
        rkeys[i] = keys[gpus[i]].rkey;
    }
    return uct_ep_put_sgl_zcopy(conn.ep[0], buffers, sizes, memhs, addrs, rkeys, NULL,
                                NULL, count, NULL);
}

/* All blocks to one GPU, backwards: none is the next one's neighbour. */
static ucs_status_t try_blocks(unsigned gpu)
{
    unsigned i, gpus[BLOCKS];
    size_t offsets[BLOCKS];
    char *from[BLOCKS];

    for (i = 0; i < BLOCKS; i++) {
        gpus[i] = gpu;
        from[i] = source(gpu, BY_LIST);
        offsets[i] = (size_t)(BLOCKS - 1 - i) * BLOCK;
    }
    return try_list(gpus, from, offsets, BLOCKS);
}

static ucs_status_t try_write(unsigned gpu, how_t how)
{
    const uint64_t address = (uintptr_t)mems[gpu].addr;
    char *from = source(gpu, how);
    uct_iov_t iov = {
        .buffer = from, .length = lengths[how], .memh = rig.mem[0].memh, .count = 1};
    ssize_t length;

    switch (how) {
    case BY_SHORT:
        return uct_ep_put_short(conn.ep[0], from, (unsigned)lengths[how], address,
                                keys[gpu].rkey);
    case BY_BCOPY:
        length =
            uct_ep_put_bcopy(conn.ep[0], pack_bytes, from, address, keys[gpu].rkey);
        return (length < 0) ? (ucs_status_t)length : UCS_OK;
    case BY_LIST:
        return try_blocks(gpu);
    default:
        return uct_ep_put_zcopy(conn.ep[0], &iov, 1, address, keys[gpu].rkey, NULL);
    }
}

static void write_to(unsigned gpu, how_t how)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;

    while ((status = try_write(gpu, how)) == UCS_ERR_NO_RESOURCE) {
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "there is never room");
    }
    ck_assert_msg(!UCS_STATUS_IS_ERR(status), "%s", ucs_status_string(status));
}

static void flush_with(unsigned flags)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;

    do {
        status = uct_ep_flush(conn.ep[0], flags, NULL);
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "the flush does not end");
    } while ((status == UCS_INPROGRESS) || (status == UCS_ERR_NO_RESOURCE));
    ck_assert_int_eq(status, UCS_OK);
}

/* Progress until the device has acknowledged all work requests; nothing is flushed. */
static void wait_acknowledged(void)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    uint32_t empty = 0;

    do {
        empty = (uct_worker_progress(rig.side[0].worker) == 0) ? empty + 1 : 0;
        uct_worker_progress(rig.side[1].worker);
        ck_assert_msg(mkv_test_now_ms() < limit, "completions do not end");
    } while (empty < 4);
}

static int is_seen(unsigned gpu, how_t how)
{
    return memcmp(mems[gpu].addr, source(gpu, how), lengths[how]) == 0;
}

static uint64_t num_sends(void)
{
    fake_verbs_stats_t stats;
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < conn.num_qps; i++) {
        fake_verbs_qp_stats(conn.qp_nums[0][i], &stats);
        sum += stats.sends;
    }

    return sum;
}

/* ---- tests ---- */

/* FN-02 */
START_TEST(consumer_on_every_gpu_sees_what_was_flushed)
{
    unsigned gpu;
    how_t how;

    start(&rows[_i / 2]);
    for (how = 0; how < NUM_HOWS; how++) {
        for (gpu = 0; gpu < num_gpus; gpu++) {
            write_to(gpu, how);
        }
        wait_acknowledged();
        for (gpu = 0; gpu < num_gpus; gpu++) {
            /* acknowledged, but not visible yet: otherwise this test would prove
             * nothing */
            ck_assert(!is_seen(gpu, how));
        }

        flush_with((_i % 2 == 0) ? UCT_FLUSH_FLAG_LOCAL : UCT_FLUSH_FLAG_REMOTE);
        for (gpu = 0; gpu < num_gpus; gpu++) {
            ck_assert_msg(is_seen(gpu, how), "GPU %u, written in way %d, is old", gpu,
                          (int)how);
        }
    }
    finish();
}
END_TEST

/* The control of all of these: without the page nothing is read, and nothing seen. */
START_TEST(without_the_page_a_flush_does_not_get_to_the_gpu)
{
    setenv("UCX_MORI_RDMA_GPU_FLUSH", "n", 1);
    start(&rows[0]);
    write_to(0, BY_ZCOPY);
    flush_with(UCT_FLUSH_FLAG_LOCAL);
    flush_with(UCT_FLUSH_FLAG_REMOTE);
    ck_assert(!is_seen(0, BY_ZCOPY));
    finish();
}
END_TEST

/* Block by block another GPU. */
/* FN-02 */
START_TEST(list_may_go_to_several_gpus)
{
    unsigned i, gpus[BLOCKS];
    size_t offsets[BLOCKS];
    ucs_status_t status;
    char *from[BLOCKS];

    start(&rows[_i]);
    for (i = 0; i < BLOCKS; i++) {
        gpus[i] = i % num_gpus;
        from[i] = source(gpus[i], BY_LIST);
        offsets[i] = (size_t)2 * BLOCK * (i / num_gpus);
    }
    status = try_list(gpus, from, offsets, BLOCKS);
    ck_assert_msg(status == UCS_INPROGRESS, "%s", ucs_status_string(status));
    flush_with(UCT_FLUSH_FLAG_LOCAL);
    for (i = 0; i < BLOCKS; i++) {
        ck_assert_mem_eq((char *)mems[gpus[i]].addr + offsets[i], from[i] + offsets[i],
                         BLOCK);
    }
    finish();
}
END_TEST

static rdma_log_watch_t no_atomics = {UCS_LOG_LEVEL_WARN, "is registered without them",
                                      0};

/* ionic and bnxt_re refuse it for atomics, which are off by default. */
/* TR-12 */
START_TEST(memory_refused_for_atomics_is_registered_without_them)
{
    static const char *const devices[] = {"fake0:ionic,fake1:ionic",
                                          "fake0:bnxt,fake1:bnxt"};
    const row_t row = {2, "1", "512"};

    setenv("FAKE_VERBS_DEVICES", devices[_i / 2], 1);
    if ((_i & 1) == 1) {
        setenv("UCX_MORI_RDMA_ATOMICS", "y", 1);
    }
    rdma_log_watch(&no_atomics, 1);
    start(&row);
    ck_assert_uint_eq(no_atomics.num, _i & 1); /* once, of two */
    finish();
}
END_TEST

START_TEST(atomic_on_every_gpu_is_flushed)
{
    unsigned gpu, i;

    setenv("UCX_MORI_RDMA_ATOMICS", "y", 1);
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5", 1);
    start(&rows[_i]);
    for (i = 0; i < 2; i++) {
        for (gpu = 0; gpu < num_gpus; gpu++) {
            while (uct_ep_atomic64_post(conn.ep[0], UCT_ATOMIC_OP_ADD, gpu + 1,
                                        (uintptr_t)mems[gpu].addr,
                                        keys[gpu].rkey) == UCS_ERR_NO_RESOURCE) {
                rig_progress(&rig);
            }
        }
    }
    wait_acknowledged();
    ck_assert_uint_ne(*(uint64_t *)mems[num_gpus - 1].addr, 2 * num_gpus);
    flush_with(UCT_FLUSH_FLAG_LOCAL);
    for (gpu = 0; gpu < num_gpus; gpu++) {
        ck_assert_uint_eq(*(uint64_t *)mems[gpu].addr, 2 * (gpu + 1));
    }
    finish();
}
END_TEST

/* The answer to a first flush by messages reports that the peer's device has granted
 * reads. */
static void learn_of_reads(void)
{
    write_to(0, BY_ZCOPY);
    flush_with(UCT_FLUSH_FLAG_LOCAL);
}

START_TEST(flush_reads_once_from_each_gpu_written_to)
{
    const row_t row = {8, "1", "512"};
    uint64_t before;
    unsigned i;

    start(&row);
    learn_of_reads();
    for (i = 0; i < 3 * num_gpus; i++) {
        write_to(i % num_gpus, BY_ZCOPY);
    }
    wait_acknowledged();
    before = num_sends();
    flush_with(UCT_FLUSH_FLAG_LOCAL);
    ck_assert_uint_eq(num_sends() - before, num_gpus);

    before = num_sends();
    flush_with(UCT_FLUSH_FLAG_LOCAL);
    ck_assert_uint_eq(num_sends() - before, 0);

    write_to(5, BY_SHORT);
    before = num_sends();
    flush_with(UCT_FLUSH_FLAG_REMOTE);
    ck_assert_uint_eq(num_sends() - before, 2); /* and memory of the host */
    ck_assert(is_seen(5, BY_SHORT));
    finish();
}
END_TEST

START_TEST(flush_of_host_memory_costs_nothing)
{
    const row_t row = {1, "2", "512"};
    uint64_t before;

    start(&row);
    ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, conn.ep[0], 0, 0, SIZE, NULL)));
    wait_acknowledged();
    before = num_sends();
    flush_with(UCT_FLUSH_FLAG_LOCAL);
    ck_assert_int_eq(uct_ep_fence(conn.ep[0], 0), UCS_OK);
    ck_assert_uint_eq(num_sends() - before, 0);
    rig_check(&rig, 0, SIZE);
    finish();
}
END_TEST

/* A message behind a fence notifies the peer that the data has arrived. */
START_TEST(message_behind_a_fence_comes_after_what_was_written)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;
    unsigned gpu;

    start(&rows[_i]);
    for (gpu = 0; gpu < num_gpus; gpu++) {
        write_to(gpu, BY_PIECES);
    }
    ck_assert_int_eq(uct_ep_fence(conn.ep[0], 0), UCS_OK);
    while ((status = rig_try_am(&rig, conn.ep[0], 0, 64)) == UCS_ERR_NO_RESOURCE) {
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "the fence does not pass");
    }
    ck_assert_int_eq(status, UCS_OK);
    while (rig.num_am[1] == 0) {
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "no message");
    }
    for (gpu = 0; gpu < num_gpus; gpu++) {
        ck_assert(is_seen(gpu, BY_PIECES));
    }
    finish();
}
END_TEST

/* A pending request as UCP adds it: a flush that found no room. */
typedef struct request {
    uct_pending_req_t uct;
    unsigned num_calls;
    rig_comp_t comp;
} request_t;

static ucs_status_t flush_again(uct_pending_req_t *req)
{
    request_t *request = ucs_container_of(req, request_t, uct);
    ucs_status_t status;

    request->num_calls++;
    status = uct_ep_flush(conn.ep[0], UCT_FLUSH_FLAG_LOCAL, &request->comp.uct);
    return (status == UCS_INPROGRESS) ? UCS_OK : status;
}

START_TEST(flush_of_more_gpus_than_there_is_room_for)
{
    const row_t row = {8, "1", "4"};
    static request_t request;
    uint64_t before;
    unsigned gpu;

    start(&row);
    learn_of_reads();
    for (gpu = 0; gpu < num_gpus; gpu++) {
        write_to(gpu, BY_ZCOPY);
    }
    wait_acknowledged();

    before = num_sends();
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_CQE);
    request.uct.func = flush_again;
    rig_comp_init(&request.comp);
    ck_assert_int_eq(flush_again(&request.uct), UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(flush_again(&request.uct), UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(uct_ep_pending_add(conn.ep[0], &request.uct, 0), UCS_OK);
    ck_assert_uint_eq(num_sends() - before, 4);
    fake_verbs_unhold(conn.qp_nums[0][0]);
    rig_wait_comps(&rig, &request.comp, 1);
    ck_assert_int_eq(request.comp.status, UCS_OK);
    ck_assert_uint_gt(request.num_calls, 2);
    ck_assert_uint_eq(num_sends() - before, num_gpus); /* none was read twice */
    for (gpu = 0; gpu < num_gpus; gpu++) {
        ck_assert(is_seen(gpu, BY_ZCOPY));
    }
    finish();
}
END_TEST

/* The peer frees the memory when it is notified; other endpoints flush later. */
START_TEST(memory_gone_before_the_flush_is_no_failure)
{
    const row_t row = {2, "1", "512"};

    start(&row);
    write_to(0, BY_ZCOPY);
    write_to(1, BY_ZCOPY);
    wait_acknowledged();
    ck_assert_int_eq(uct_md_mem_dereg(rig.side[1].md, mems[0].memh), UCS_OK);
    mems[0].memh = UCT_MEM_HANDLE_NULL;
    flush_with(UCT_FLUSH_FLAG_LOCAL);
    ck_assert(is_seen(1, BY_ZCOPY));
    write_to(1, BY_SHORT);
    flush_with(UCT_FLUSH_FLAG_LOCAL);
    ck_assert(is_seen(1, BY_SHORT));
    ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
    finish();
}
END_TEST

/* The last row gets by messages as long as it does not know of the peer's reads. */
static const row_t pull_rows[] = {
    {8, "2", "512", "0"}, {8, "1", "4", "0"}, {1, "1", "512", "0"}, {8, "1", "512"}};

/* The owner's write may still be in our own device when the owner's answer arrives. */
START_TEST(get_by_messages_ends_when_every_gpu_has_the_bytes)
{
    size_t sizes[MAX_GPUS];
    void *buffers[MAX_GPUS];
    uct_mem_h memhs[MAX_GPUS];
    uint64_t addrs[MAX_GPUS];
    uct_rkey_t rkeys[MAX_GPUS];
    rig_comp_t comp;
    unsigned gpu;

    start(&pull_rows[_i]);
    for (gpu = 0; gpu < num_gpus; gpu++) {
        buffers[gpu] = mems[gpu].addr;
        sizes[gpu] = lengths[BY_ZCOPY];
        memhs[gpu] = mems[gpu].memh;
        addrs[gpu] = (uintptr_t)source(gpu, BY_ZCOPY);
        rkeys[gpu] = rig.rkey[0].rkey;
    }
    rig_comp_init(&comp);
    ck_assert_int_eq(uct_ep_get_sgl_zcopy(conn.ep[1], buffers, sizes, memhs, addrs,
                                          rkeys, NULL, NULL, num_gpus, &comp.uct),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_OK);
    for (gpu = 0; gpu < num_gpus; gpu++) {
        ck_assert_msg(is_seen(gpu, BY_ZCOPY), "GPU %u is old", gpu);
    }
    finish();
}
END_TEST

/* Answers to the peer's gets are work requests of the first queue pair, too, which is
 * therefore never idle. */
START_TEST(flush_by_messages_waits_for_no_idle_queue_pair)
{
    const row_t row = {1, "1", "512", "0"};
    uint64_t before;
    unsigned i;

    start(&row);
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_CQE);
    write_to(0, BY_ZCOPY);
    before = num_sends();
    ck_assert_int_eq(uct_ep_flush(conn.ep[0], UCT_FLUSH_FLAG_LOCAL, NULL),
                     UCS_ERR_NO_RESOURCE);
    for (i = 0; i < 4; i++) {
        rig_progress(&rig);
    }
    ck_assert_uint_eq(num_sends() - before, 1);
    fake_verbs_unhold(conn.qp_nums[0][0]);
    flush_with(UCT_FLUSH_FLAG_LOCAL);
    ck_assert(is_seen(0, BY_ZCOPY));
    finish();
}
END_TEST

static ucs_status_t register_on(unsigned gpu)
{
    ct_mem_t mem;
    ucs_status_t status;

    ck_assert(mkv_hip_set_device((int)gpu));
    status = ct_mem_create(&rig.side[1], SIZE, UCS_MEMORY_TYPE_ROCM, &mem);
    if (status == UCS_OK) {
        ct_mem_destroy(&rig.side[1], &mem);
    }
    return status;
}

/* The first row holds only if this machine's kernel has all that it needs */
/* RT-02 */
START_TEST(way_of_registration_follows_the_device)
{
    static const struct {
        const char *devices, *option, *value;
        int is_dmabuf;
    } ways[] = {
        {"fake0:mlx5,fake1:ionic", "UCX_MORI_RDMA_DMABUF", "try", 1},
        {"fake0:mlx5,fake1:bnxt", "UCX_MORI_RDMA_DMABUF", "try", 0},
        {"fake0:mlx5,fake1:bnxt", "UCX_MORI_RDMA_PEERMEM", "n", 1},
        {"fake0:mlx5,fake1:bnxt", "UCX_MORI_RDMA_DMABUF", "y", 1},
        {"fake0:mlx5,fake1:ionic", "UCX_MORI_RDMA_DMABUF", "n", 0},
        {"fake0:mlx5,fake1:ionic", "UCX_MORI_RDMA_PEERMEM", "y", 0},
        {"fake0:mlx5,fake1:bnxt", "FAKE_VERBS_PEERMEM", "n", 1}, /* the second way */
    };
    fake_verbs_objects_t objects;
    struct utsname kernel;
    char lack[128] = "";

    ck_assert_int_eq(uname(&kernel), 0);
    if (_i == 0) {
        muct_rdma_kernel_lack("", kernel.release, lack, sizeof(lack));
    }
    setenv("FAKE_VERBS_DEVICES", ways[_i].devices, 1);
    setenv(ways[_i].option, ways[_i].value, 1);
    start(&rows[4]);
    fake_verbs_objects(&objects);
    ck_assert_int_eq(objects.dmabuf_mrs > 0, ways[_i].is_dmabuf && (lack[0] == '\0'));
    finish();
}
END_TEST

/* Writes to such memory cannot be flushed, so its visibility is not guaranteed. */
START_TEST(gpu_that_the_runtime_cannot_name_is_refused)
{
    setenv("HIPCPU_FAIL", "hipPointerGetAttributes:0:1", 1);
    setenv("UCX_MORI_RDMA_GPU_FLUSH", (_i == 0) ? "y" : "n", 1);
    rig_open(&rig, SIZE);
    ck_assert_int_eq(register_on(0), (_i == 0) ? UCS_ERR_UNSUPPORTED : UCS_OK);
    rig_close(&rig);
}
END_TEST

static rdma_log_watch_t no_key = {UCS_LOG_LEVEL_WARN, "has no key with this device", 0};

/* The memory spans several chunks, which no dma-buf covers. ucp_mem_map() must not fail
 * for it, as other transports can use it. */
START_TEST(gpu_memory_that_no_way_registers_has_no_keys)
{
    uct_rkey_bundle_t bundle;
    rig_comp_t comp;
    uint8_t key[256];
    uct_iov_t iov;
    ct_mem_t mem;

    setenv("FAKE_VERBS_PEERMEM", "n", 1);
    setenv("UCX_MORI_RDMA_GPU_DIRECT", "y", 1);
    setenv("UCX_MORI_RDMA_GPU_FLUSH", "n", 1);
    setenv("UCX_MORI_RDMA_DMABUF", "n", 1);
    rdma_log_watch(&no_key, 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    ck_assert(mkv_hip_set_device(0));
    ck_assert_int_eq(ct_mem_create(&rig.side[0], SIZE, UCS_MEMORY_TYPE_ROCM, &mem),
                     UCS_OK);
    ck_assert_uint_eq(no_key.num, 1);
    ck_assert_int_eq(ct_mem_pack(&rig.side[0], &mem, 0, key), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(rig.side[0].component, key, &bundle),
                     UCS_ERR_UNREACHABLE);
    iov = (uct_iov_t){.buffer = mem.addr, .length = 64, .memh = mem.memh, .count = 1};
    rig_comp_init(&comp);
    ck_assert_int_eq(uct_ep_put_zcopy(conn.ep[0], &iov, 1, (uintptr_t)rig.mem[1].addr,
                                      rig.rkey[1].rkey, &comp.uct),
                     UCS_ERR_INVALID_PARAM);
    ct_mem_destroy(&rig.side[0], &mem);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

START_TEST(gpu_without_memory_for_the_page_is_logged)
{
    setenv("UCX_MORI_RDMA_GPU_DIRECT", "y", 1); /* no trial with memory of its own */
    setenv("HIPCPU_FAIL", "hipMalloc:2:2", 1);  /* the first is the test's own */
    rig_open(&rig, SIZE);
    ck_assert_int_eq(register_on(0), UCS_ERR_NO_MEMORY);
    ck_assert_int_eq(register_on(0), UCS_OK);
    rig_close(&rig);
}
END_TEST

/* No other way of registration is tried: the device would refuse it again. */
START_TEST(memory_of_a_removed_device_is_tried_once)
{
    setenv("UCX_MORI_RDMA_GPU_FLUSH", "n", 1);
    setenv("UCX_MORI_RDMA_DMABUF", (_i == 0) ? "y" : "try", 1);
    rig_open(&rig, SIZE);
    fake_verbs_remove("fake1");
    fake_verbs_fail_call("ibv_reg_dmabuf_mr", 2, 1, EINVAL);
    fake_verbs_fail_call("ibv_reg_mr", 2, 1, EINVAL);
    ck_assert_int_eq(register_on(0), UCS_OK);
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 2);
    fake_verbs_reset();
    rig_close(&rig);
}
END_TEST

/* ---- a dma-buf whose offset is wrong ---- */

#define CANARY_LENGTH 8192

static char *allocation;
static ct_mem_t part; /* of it, behind CANARY_LENGTH bytes */
static char before[2 * CANARY_LENGTH];

/* Index 0: all bytes are alike, as in fresh memory; 1: none are. */
static void open_part(int has_pattern)
{
    size_t i;

    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    fake_verbs_gpu_lookup(mkv_hip_device_of);
    ck_assert(mkv_hip_set_device(0));
    allocation = mkv_hip_alloc(sizeof(before));
    ck_assert_ptr_nonnull(allocation);
    for (i = 0; i < sizeof(before); i++) {
        before[i] = has_pattern ? (char)(i * 7 + i / 256) : 0;
    }
    ck_assert(mkv_hip_copy(allocation, before, sizeof(before)));
    memset(&part, 0, sizeof(part));
    part.addr = allocation + CANARY_LENGTH;
    part.length = CANARY_LENGTH;
    part.type = UCS_MEMORY_TYPE_ROCM;
}

static void expect_unchanged(void)
{
    char after[sizeof(before)];

    ck_assert(mkv_hip_copy(after, allocation, sizeof(after)));
    ck_assert_mem_eq(after, before, sizeof(after));
}

/* Check that a peer's write lands in the part and nowhere else. */
static int is_written_where_it_should(void)
{
    uct_rkey_bundle_t key;
    char after[sizeof(before)];
    uint8_t packed[256];

    ck_assert_int_eq(ct_mem_pack(&rig.side[1], &part, 0, packed), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(rig.side[1].component, packed, &key), UCS_OK);
    ck_assert_int_eq(uct_ep_put_short(conn.ep[0], rig.mem[0].addr, 64,
                                      (uintptr_t)part.addr, key.rkey),
                     UCS_OK);
    flush_with(UCT_FLUSH_FLAG_LOCAL);
    ck_assert(mkv_hip_copy(after, allocation, sizeof(after)));
    uct_rkey_release(rig.side[1].component, &key);
    return (memcmp(after, before, CANARY_LENGTH) == 0) &&
           (memcmp(after + CANARY_LENGTH, rig.mem[0].addr, 64) == 0);
}

static void close_part(void)
{
    if (part.memh != NULL) {
        ck_assert_int_eq(uct_md_mem_dereg(rig.side[1].md, part.memh), UCS_OK);
    }
    mkv_hip_free(allocation);
    rig_disconnect(&conn);
    rig_close(&rig);
}

static unsigned num_dmabufs(void)
{
    fake_verbs_objects_t objects;

    fake_verbs_objects(&objects);
    return objects.dmabuf_mrs;
}

/* Control: without the canary all data goes to a wrong place without an error. */
/* RT-02 */
START_TEST(wrong_offset_goes_unnoticed_without_the_canary)
{
    setenv("HIPCPU_RULES", "dmabuf-offset", 1);
    setenv("UCX_MORI_RDMA_DMABUF", "y", 1);
    setenv("UCX_MORI_RDMA_DMABUF_CANARY", (_i == 0) ? "n" : "try", 1);
    open_part(1);
    ck_assert_int_eq(ct_mem_register(&rig.side[1], &part), UCS_OK);
    ck_assert(!is_written_where_it_should());
    close_part();
}
END_TEST

static unsigned num_warnings;

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t count_warnings(
    const char *file, unsigned line, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list ap)
{
    char text[1024];
    va_list copy;

    (void)file;
    (void)line;
    (void)function;
    (void)component;
    va_copy(copy, ap);
    vsnprintf(text, sizeof(text), format, copy);
    va_end(copy);
    if ((level <= UCS_LOG_LEVEL_WARN) && (strstr(text, "offset") != NULL)) {
        ck_assert_ptr_nonnull(strstr(text, "fake1: GPU memory"));
        ck_assert_msg(strstr(text, "UCX_MORI_RDMA_DMABUF=n") != NULL, "%s", text);
        num_warnings++;
    }
    return UCS_LOG_FUNC_RC_STOP;
}

/* RT-02 */
START_TEST(canary_refuses_a_wrong_offset)
{
    setenv("HIPCPU_RULES", "dmabuf-offset", 1);
    setenv("UCX_MORI_RDMA_DMABUF", "y", 1);
    setenv("UCX_MORI_RDMA_DMABUF_CANARY", (_i < 2) ? "y" : "try", 1);
    open_part(_i % 2);
    if (_i >= 2) {
        ck_assert_int_eq(ucs_global_opts_set_value("LOG_LEVEL", "debug"), UCS_OK);
    }
    ucs_log_push_handler(count_warnings);
    ck_assert_int_eq(ct_mem_register(&rig.side[1], &part), UCS_ERR_IO_ERROR);
    ck_assert_int_eq(ct_mem_register(&rig.side[1], &part), UCS_ERR_IO_ERROR);
    ucs_log_pop_handler();
    ck_assert_uint_eq(num_warnings, 1);
    part.memh = NULL;
    expect_unchanged();
    close_part();
}
END_TEST

START_TEST(canary_lets_a_right_offset_through)
{
    unsigned num;

    setenv("UCX_MORI_RDMA_DMABUF", "y", 1);
    setenv("UCX_MORI_RDMA_DMABUF_CANARY", "y", 1);
    open_part(_i);
    num = num_dmabufs();
    ck_assert_int_eq(ct_mem_register(&rig.side[1], &part), UCS_OK);
    ck_assert_uint_gt(num_dmabufs(), num);
    expect_unchanged();
    ck_assert(is_written_where_it_should());
    close_part();
}
END_TEST

/* The page of the GPU and the canary are made with the first registration. */
/* TR-12 */
START_TEST(current_device_of_the_caller_stays)
{
    setenv("UCX_MORI_RDMA_DMABUF", "y", 1);
    setenv("UCX_MORI_RDMA_DMABUF_CANARY", (_i < 2) ? "y" : "n", 1);
    open_part(_i % 2);
    ck_assert(mkv_hip_set_device(3));
    ck_assert_int_eq(ct_mem_register(&rig.side[1], &part), UCS_OK);
    ck_assert_int_eq(mkv_hip_current_device(), 3);
    close_part();
    ck_assert_int_eq(mkv_hip_current_device(), 3);
}
END_TEST

/* RT-02 */
START_TEST(behind_a_wrong_offset_comes_the_other_way)
{
    unsigned num;

    setenv("HIPCPU_RULES", "dmabuf-offset", 1);
    setenv("UCX_MORI_RDMA_GPU_FLUSH", "n", 1); /* offset whose page is a region, too */
    setenv("UCX_MORI_RDMA_DMABUF_CANARY", "y", 1);
    open_part(_i);
    num = num_dmabufs();
    ck_assert_int_eq(ct_mem_register(&rig.side[1], &part), UCS_OK);
    ck_assert_uint_eq(num_dmabufs(), num);
    expect_unchanged();
    close_part();
}
END_TEST

/* The caller's dma-buf matches the memory at its beginning alone. */
START_TEST(canary_looks_at_the_end_too)
{
    uct_md_mem_reg_params_t params = {.field_mask = CT_REG_FIELD_MEM_TYPE |
                                                    CT_REG_FIELD_DMABUF_FD,
                                      .mem_type = UCS_MEMORY_TYPE_ROCM};
    uct_mem_h memh;

    setenv("UCX_MORI_RDMA_DMABUF", "y", 1);
    setenv("UCX_MORI_RDMA_DMABUF_CANARY", "y", 1);
    open_part(1);
    params.dmabuf_fd = memfd_create("dma-buf", 0);
    ck_assert_int_eq(ftruncate(params.dmabuf_fd, CANARY_LENGTH), 0);
    ck_assert_int_eq(
        pwrite(params.dmabuf_fd, before + CANARY_LENGTH, CANARY_LENGTH - (size_t)_i, 0),
        CANARY_LENGTH - _i);
    ck_assert_int_eq(
        uct_md_mem_reg_v2(rig.side[1].md, part.addr, part.length, &params, &memh),
        (_i == 0) ? UCS_OK : UCS_ERR_IO_ERROR);
    part.memh = (_i == 0) ? memh : NULL;
    close(params.dmabuf_fd);
    close_part();
}
END_TEST

/* A check that cannot be made refuses nothing. */
START_TEST(without_a_look_nothing_is_refused)
{
    static const char *const calls[] = {"ibv_create_cq", "ibv_create_qp"};

    setenv("UCX_MORI_RDMA_DMABUF", "y", 1);
    setenv("UCX_MORI_RDMA_GPU_FLUSH", "n", 1);
    setenv("UCX_MORI_RDMA_DMABUF_CANARY", "y", 1);
    open_part(1);
    fake_verbs_fail_call(calls[_i], 1, 1, ENOMEM);
    ck_assert_int_eq(ct_mem_register(&rig.side[1], &part), UCS_OK);
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 0);
    close_part();
}
END_TEST

static Suite *gpus_suite(void)
{
    Suite *suite = suite_create("mori_rdma GPUs");
    TCase *tcase = tcase_create("gpus");
    const int num_rows = (getenv("MKV_UNDER_VALGRIND") != NULL) ? FEW_ROWS : NUM_ROWS;

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, consumer_on_every_gpu_sees_what_was_flushed, 0,
                        2 * num_rows);
    tcase_add_loop_test(tcase, list_may_go_to_several_gpus, 0, FEW_ROWS);
    tcase_add_loop_test(tcase, memory_refused_for_atomics_is_registered_without_them, 0,
                        4);
    tcase_add_loop_test(tcase, atomic_on_every_gpu_is_flushed, 0, FEW_ROWS);
    tcase_add_test(tcase, flush_reads_once_from_each_gpu_written_to);
    tcase_add_test(tcase, flush_of_more_gpus_than_there_is_room_for);
    tcase_add_test(tcase, flush_of_host_memory_costs_nothing);
    tcase_add_test(tcase, without_the_page_a_flush_does_not_get_to_the_gpu);
    tcase_add_loop_test(tcase, message_behind_a_fence_comes_after_what_was_written, 0,
                        NUM_ROWS);
    tcase_add_loop_test(tcase, get_by_messages_ends_when_every_gpu_has_the_bytes, 0, 4);
    tcase_add_test(tcase, flush_by_messages_waits_for_no_idle_queue_pair);
    tcase_add_test(tcase, memory_gone_before_the_flush_is_no_failure);
    tcase_add_loop_test(tcase, way_of_registration_follows_the_device, 0, 7);
    tcase_add_loop_test(tcase, gpu_that_the_runtime_cannot_name_is_refused, 0, 2);
    tcase_add_test(tcase, gpu_memory_that_no_way_registers_has_no_keys);
    tcase_add_test(tcase, gpu_without_memory_for_the_page_is_logged);
    tcase_add_loop_test(tcase, memory_of_a_removed_device_is_tried_once, 0, 2);
    tcase_add_loop_test(tcase, wrong_offset_goes_unnoticed_without_the_canary, 0, 2);
    tcase_add_loop_test(tcase, canary_refuses_a_wrong_offset, 0, 4);
    tcase_add_loop_test(tcase, canary_lets_a_right_offset_through, 0, 2);
    tcase_add_loop_test(tcase, current_device_of_the_caller_stays, 0, 4);
    tcase_add_loop_test(tcase, behind_a_wrong_offset_comes_the_other_way, 0, 2);
    tcase_add_loop_test(tcase, canary_looks_at_the_end_too, 0, 2);
    tcase_add_loop_test(tcase, without_a_look_nothing_is_refused, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    setenv("HIPCPU_DEVICES", "8", 1);
    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    setenv("UCX_MORI_TEST_HIP", HIPCPU_PATH, 1);
    ct_side_find_module();
    mkv_test_init();
    return mkv_check_run_forked(gpus_suite());
}
