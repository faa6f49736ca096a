/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/benchmarks.h"
#include "perf/base/error.h"

#include <stddef.h>
#include <stdio.h>
#include <strings.h>

#define PERF_ROWS(_rows) sizeof(_rows) / sizeof((_rows)[0]), (_rows)

/* An entry of 4 tokens in a compressed layer of DeepSeek-V4-Pro, and its layers; a
 * request of 32k tokens with all else that is kept */
enum { PERF_CSA_ENTRY = 576, PERF_CSA_LAYERS = 30, PERF_DSV4_32K = 183066624 };

/* A prompt of so many tokens in pages of so many tokens, layer by layer */
#define PERF_CSA(_tokens, _page, _label)                                               \
    {(uint64_t)(_page) / 4 * PERF_CSA_ENTRY, (_tokens) / (_page) * PERF_CSA_LAYERS,    \
     (_label)}

static const perf_bench_row_t perf_collectivex[] = {
    {PERF_DSV4_32K, 1, "bulk, 32k"},
    PERF_CSA(8192, 64, "paged-64, 8k"),
    PERF_CSA(32768, 64, "paged-64, 32k handoff"),
    PERF_CSA(131072, 64, "paged-64, 128k"),
    PERF_CSA(8192, 16, "paged-16, 8k"),
    PERF_CSA(32768, 16, "paged-16, 32k"),
};

static const perf_bench_row_t perf_mori[] = {
    {1 << 10, 128, ""}, {1 << 11, 128, ""}, {1 << 12, 128, ""}, {1 << 13, 128, ""},
    {1 << 14, 128, ""}, {1 << 15, 128, ""}, {1 << 16, 128, ""}, {1 << 17, 128, ""},
    {1 << 18, 128, ""}, {1 << 19, 128, ""}, {1 << 20, 128, ""},
};

static const perf_bench_row_t perf_lmcache[] = {{1 << 10, 256, ""}, {4 << 10, 256, ""}};

static const perf_bench_row_t perf_vllm_d2d[] = {
    {4 << 10, 4096, "published: 22.4, 10.5 ms"}};

static const perf_bench_row_t perf_pages[] = {
    {1 << 10, 4096, ""},  {8 << 10, 4096, ""},         {16 << 10, 4096, ""},
    {64 << 10, 4096, ""}, {32 << 10, 1024, "a layer"},
};

const perf_benchmark_t perf_benchmarks[] = {
    {"collectivex", "CollectiveX kv-transfer, its kv-dsv4's CSA pages",
     PERF_FORMAT_TIME, PERF_ROWS(perf_collectivex)},
    {"mori", "MORI-IO's batches of 128, 1 KiB to 1 MiB", PERF_FORMAT_MORI,
     PERF_ROWS(perf_mori)},
    {"lmcache", "256 vectors of 1 and 4 KiB (LMCache #4161)", PERF_FORMAT_TIME,
     PERF_ROWS(perf_lmcache)},
    {"vllm-d2d", "4096 blocks of 4 KB in one node (vLLM #40549)", PERF_FORMAT_TIME,
     PERF_ROWS(perf_vllm_d2d)},
    {"paged-writes", "pages of 1 to 64 KiB, and 1024 of 32 KiB a layer",
     PERF_FORMAT_PAGES, PERF_ROWS(perf_pages)},
    {NULL, NULL, PERF_FORMAT_OURS, 0, NULL},
};

const perf_benchmark_t *perf_benchmark_find(const char *name)
{
    char known[256] = "";
    const perf_benchmark_t *benchmark;
    size_t used = 0;

    for (benchmark = perf_benchmarks; benchmark->name != NULL; ++benchmark) {
        if (strcasecmp(benchmark->name, name) == 0) {
            return benchmark;
        }
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                 (used > 0) ? ", " : "", benchmark->name);
    }
    perf_error("--benchmark is '%s'; expected one of %s", name, known);
    return NULL;
}
