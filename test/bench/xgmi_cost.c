/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cost of a block for the host in mori_xgmi, from UCT to the kernel's list:
 *
 *   HIPCPU_COPY=0 test/bench/xgmi_cost sgl|single BLOCKS ROUNDS
 *
 * Prints nanoseconds per block, posting alone and until finished. Instructions per
 * block come from two callgrind runs of different ROUNDS. Memory and keys are this
 * process's own, over libhipcpu, but the code is the same as between processes.
 */

#include "base/muct_transport.h"
#include "xgmi/xgmi_tl.h"
#include "xgmi/xgmi_sgl.h"

#include <ucs/async/async_fwd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK_SIZE 4096

static struct {
    ucs_async_context_t *async;
    uct_worker_h worker;
    uct_md_h md;
    uct_iface_h iface;
    uct_ep_h ep;
    char *local, *remote;
    uct_mem_h local_memh, remote_memh;
    uct_rkey_bundle_t rkey;
    size_t count;
    void **buffers;
    size_t *lengths;
    uct_mem_h *memhs;
    uint64_t *raddrs;
    uct_rkey_t *rkeys;
} bench;

static unsigned num_completed;

static void completed(uct_completion_t *comp)
{
    comp->count = 1;
    ++num_completed;
}

static uct_completion_t comp = {completed, 1, UCS_OK};

static void must(const char *what, ucs_status_t status)
{
    if (UCS_STATUS_IS_ERR(status)) {
        fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + ((double)ts.tv_nsec * 1e-9);
}

static void open_iface(void)
{
    uct_iface_params_t params = {
        .field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE,
        .open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
        .mode.device = {.tl_name = "mori_xgmi", .dev_name = "xgmi"},
    };
    uct_component_t *component = muct_xgmi_transport.component;
    uct_iface_config_t *iface_config;
    uct_md_config_t *md_config;

    uct_component_register(component);
    uct_tl_register(component, muct_xgmi_transport.tl);
    must("async",
         ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &bench.async));
    must("worker",
         uct_worker_create(bench.async, UCS_THREAD_MODE_SINGLE, &bench.worker));
    must("config", uct_md_config_read(component, NULL, NULL, &md_config));
    must("md", uct_md_open(component, "mori_xgmi", md_config, &bench.md));
    must("config",
         uct_md_iface_config_read(bench.md, "mori_xgmi", NULL, NULL, &iface_config));
    must("iface",
         uct_iface_open(bench.md, bench.worker, &params, iface_config, &bench.iface));
    uct_iface_progress_enable(bench.iface, UCT_PROGRESS_SEND);
}

static void open_ep(void)
{
    char device_addr[MUCT_XGMI_DEVICE_ADDR_SIZE], iface_addr[MUCT_XGMI_IFACE_ADDR_SIZE];
    uct_ep_params_t params = {
        .field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                      UCT_EP_PARAM_FIELD_IFACE_ADDR,
        .iface = bench.iface,
        .dev_addr = (void *)device_addr,
        .iface_addr = (void *)iface_addr,
    };

    must("address", uct_iface_get_device_address(bench.iface, (void *)device_addr));
    must("address", uct_iface_get_address(bench.iface, (void *)iface_addr));
    must("ep", uct_ep_create(&params, &bench.ep));
}

static void *allocate(size_t length, uct_mem_h *memh)
{
    const muct_gpu_t *gpu;
    void *memory;

    must("gpu", muct_gpu_get(&gpu));
    if (gpu->mem_alloc(&memory, length) != MUCT_HIP_SUCCESS) {
        must("hipMalloc", UCS_ERR_NO_MEMORY);
    }
    must("reg", uct_md_mem_reg(bench.md, memory, length, 0, memh));
    return memory;
}

static void prepare(size_t count)
{
    char key[MUCT_XGMI_KEY_PACKED_SIZE];
    size_t i;

    bench.count = count;
    bench.local = allocate(2 * count * BLOCK_SIZE, &bench.local_memh);
    bench.remote = allocate(2 * count * BLOCK_SIZE, &bench.remote_memh);
    must("pack", uct_md_mkey_pack(bench.md, bench.remote_memh, key));
    must("unpack", uct_rkey_unpack(muct_xgmi_transport.component, key, &bench.rkey));
    bench.buffers = calloc(count, sizeof(*bench.buffers));
    bench.lengths = calloc(count, sizeof(*bench.lengths));
    bench.memhs = calloc(count, sizeof(*bench.memhs));
    bench.raddrs = calloc(count, sizeof(*bench.raddrs));
    bench.rkeys = calloc(count, sizeof(*bench.rkeys));
    for (i = 0; i < count; ++i) { /* every other block, so that none join */
        bench.buffers[i] = bench.local + (2 * i * BLOCK_SIZE);
        bench.raddrs[i] = (uintptr_t)bench.remote + (2 * i * BLOCK_SIZE);
        bench.lengths[i] = BLOCK_SIZE;
        bench.memhs[i] = bench.local_memh;
        bench.rkeys[i] = bench.rkey.rkey;
    }
}

/* Post as UCP does: lists as long as the interface takes them. */
static unsigned post_sgl(void)
{
    unsigned num_lists = 0;
    size_t i, left, num;

    for (i = 0; i < bench.count; i += num, ++num_lists) {
        left = bench.count - i;
        num = (left < MUCT_XGMI_MAX_SGL) ? left : MUCT_XGMI_MAX_SGL;
        must("sgl", muct_xgmi_ep_put_sgl_zcopy(
                        bench.ep, bench.buffers + i, bench.lengths + i, bench.memhs + i,
                        bench.raddrs + i, bench.rkeys + i, NULL, NULL, num, &comp));
    }
    return num_lists;
}

static unsigned post_single(void)
{
    uct_iov_t iov = {.length = BLOCK_SIZE, .memh = bench.local_memh, .count = 1};
    size_t i;

    for (i = 0; i < bench.count; ++i) {
        iov.buffer = bench.buffers[i];
        must("put", uct_ep_put_zcopy(bench.ep, &iov, 1, bench.raddrs[i],
                                     bench.rkey.rkey, &comp));
    }
    return (unsigned)bench.count;
}

int main(int argc, char **argv)
{
    unsigned (*post)(void);
    double start, posted = 0, total = 0;
    unsigned rounds, i, expected;

    if ((argc != 4) || (strcmp(argv[1], "sgl") && strcmp(argv[1], "single"))) {
        fprintf(stderr, "usage: %s sgl|single BLOCKS ROUNDS\n", argv[0]);
        return 1;
    }

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 0);
    post = strcmp(argv[1], "sgl") ? post_single : post_sgl;
    rounds = (unsigned)atoi(argv[3]);
    open_iface();
    open_ep();
    prepare((size_t)atoi(argv[2]));
    for (i = 0; i < rounds; ++i) {
        num_completed = 0;
        start = now();
        expected = post();
        posted += now() - start;
        while (num_completed < expected) {
            uct_worker_progress(bench.worker);
        }
        total += now() - start;
    }

    printf("%s %zu blocks: %.1f ns posted, %.1f ns finished, per block\n", argv[1],
           bench.count, posted * 1e9 / rounds / (double)bench.count,
           total * 1e9 / rounds / (double)bench.count);
    return 0;
}
