/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Why the copy kernel is as fast as it is on an NVIDIA GPU: what a thread block of
 * 1024 threads reaches when it only reads, only writes, or copies, in its own memory
 * and over the link; when each block has an equal share, and when blocks take their
 * work piece by piece; at which clock; whether cache hints or fewer threads change
 * that; what the kernel's list costs to read and to write.
 *
 *   probe [JSON]
 *
 * Built by pack.sh; no part of the product.
 */

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cuda_runtime.h>

#define GIB (1ul << 30)
#define MIB (1ul << 20)
#define THREADS 1024
#define UNROLL 8
#define STEP ((size_t)THREADS * UNROLL * sizeof(uint4))
#define REPEATS 7
#define MAX_BLOCKS 128
#define ENTRY 32

#define CHECK(_call)                                                                   \
    do {                                                                               \
        cudaError_t error_ = (_call);                                                  \
        if (error_ != cudaSuccess) {                                                   \
            fprintf(stderr, "probe: %s: %s\n", #_call, cudaGetErrorString(error_));    \
            exit(EXIT_FAILURE);                                                        \
        }                                                                              \
    } while (0)

enum kind { COPY, READ, WRITE };
static const char *const kinds[] = {"copy", "read only", "write only"};

/* What a load or a store says to the caches. */
enum hint { PLAIN, STREAM, L2, NO_L1 };
static const char *const hints[] = {"plain", "streaming", "in L2 only", "not in L1"};
static const char *const ways[] = {"in its own memory", "to the other GPU",
                                   "from the other GPU"};

struct stamp {
    unsigned long long begin, end;
    unsigned long long cycles; /* between them */
};

static char *pool[2];
static stamp *stamps;
static unsigned *taken;
static FILE *json;
static int num_rows;
static double clock_mhz; /* of the multiprocessors in the last copy */


static __device__ unsigned long long now_ns()
{
    unsigned long long ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

static __device__ __forceinline__ uint4 load(const uint4 *src, hint how)
{
    uint4 vec;

    switch (how) {
    case STREAM:
        return __ldcs(src);
    case L2:
        return __ldcg(src);
    case NO_L1:
        asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(vec.x), "=r"(vec.y), "=r"(vec.z), "=r"(vec.w)
                     : "l"(src));
        return vec;
    default:
        return *src;
    }
}

static __device__ __forceinline__ void store(uint4 *dst, uint4 vec, hint how)
{
    switch (how) {
    case STREAM:
        __stcs(dst, vec);
        break;
    case L2:
        __stcg(dst, vec);
        break;
    case NO_L1:
        asm volatile("st.global.L1::no_allocate.v4.u32 [%4], {%0, %1, %2, %3};"
                     :
                     : "r"(vec.x), "r"(vec.y), "r"(vec.z), "r"(vec.w), "l"(dst)
                     : "memory");
        break;
    default:
        *dst = vec;
    }
}

/* One tile of each wave; the value that is written or read is of no interest. */
template <kind KIND, hint LOAD = PLAIN, hint STORE = PLAIN>
static __device__ __forceinline__ void do_tile(uint4 *dst, const uint4 *src, uint4 *sum)
{
    uint4 vec[UNROLL];
    int u;

#pragma unroll
    for (u = 0; u < UNROLL; ++u) {
        vec[u] = (KIND == WRITE) ? *sum : load(src + (u * 32), LOAD);
    }
#pragma unroll
    for (u = 0; u < UNROLL; ++u) {
        if (KIND == READ) {
            sum->x ^= vec[u].x ^ vec[u].y ^ vec[u].z ^ vec[u].w;
        } else {
            store(dst + (u * 32), vec[u], STORE);
        }
    }
}

/* The work of a block: an equal share, or chunks that a counter deals. */
template <kind KIND, hint LOAD = PLAIN, hint STORE = PLAIN>
static __global__ void __launch_bounds__(THREADS)
    work(char *dst, const char *src, size_t size, size_t chunk, unsigned *taken,
         stamp *stamps)
{
    __shared__ size_t begin;
    const size_t mine =
        ((threadIdx.x / 32) * UNROLL * 32 + threadIdx.x % 32) * sizeof(uint4);
    const size_t step = (size_t)blockDim.x * UNROLL * sizeof(uint4);
    size_t length = (taken == NULL) ? size / gridDim.x : chunk;
    uint4 sum = make_uint4(1, 2, 3, 4);
    size_t at;

    if (threadIdx.x == 0) {
        stamps[blockIdx.x].begin = now_ns();
        stamps[blockIdx.x].cycles = clock64();
    }
    do {
        __syncthreads();
        if (threadIdx.x == 0) {
            begin = length * ((taken == NULL) ? blockIdx.x : atomicAdd(taken, 1u));
        }
        __syncthreads();
        for (at = begin; (begin < size) && (at < begin + length); at += step) {
            do_tile<KIND, LOAD, STORE>((uint4 *)(dst + at + mine),
                                       (const uint4 *)(src + at + mine), &sum);
        }
    } while ((taken != NULL) && (begin < size));
    if ((KIND == READ) && (sum.x == 0x12345678)) {
        *(uint4 *)dst = sum; /* or the reads would be removed */
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
        stamps[blockIdx.x].end = now_ns();
        stamps[blockIdx.x].cycles = clock64() - stamps[blockIdx.x].cycles;
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

static void row(const char *text, const char *unit, int blocks, double value,
                double spread)
{
    printf("%-76s blocks %3d  %8.1f %s", text, blocks, value, unit);
    if (spread >= 0) {
        printf("  %6.1f a block; the first one ends %.1f %% earlier", value / blocks,
               spread);
    }
    printf("\n");
    if (json != NULL) {
        fprintf(json,
                "%s\n  {\"what\": \"%s\", \"blocks\": %d, \"value\": %.3f, "
                "\"unit\": \"%s\", \"first_ends_earlier_percent\": %.2f}",
                (num_rows == 0) ? "[" : ",", text, blocks, value, unit,
                (spread < 0) ? 0 : spread);
    }
    ++num_rows;
}

template <kind KIND, hint LOAD = PLAIN, hint STORE = PLAIN>
static void rate(int way, int blocks, size_t chunk, int threads = THREADS)
{
    char *src = pool[way == 2], *dst = pool[way == 1] + GIB;
    double rates[REPEATS], spreads[REPEATS], clocks[REPEATS];
    unsigned long long first, last, soonest;
    stamp seen[MAX_BLOCKS];
    char text[128];
    size_t size;
    int length, i, b;

    size = ((blocks < 8) ? 128 * MIB : GIB) / (blocks * STEP) * (blocks * STEP);
    for (i = 0; i < REPEATS; ++i) {
        CHECK(cudaMemset(taken, 0, sizeof(*taken)));
        work<KIND, LOAD, STORE><<<blocks, threads>>>(
            dst, src, size, chunk, (chunk == 0) ? NULL : taken, stamps);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(seen, stamps, blocks * sizeof(*seen), cudaMemcpyDefault));
        first = soonest = ~0ull;
        last = 0;
        for (b = 0; b < blocks; ++b) {
            first = (seen[b].begin < first) ? seen[b].begin : first;
            soonest = (seen[b].end < soonest) ? seen[b].end : soonest;
            last = (seen[b].end > last) ? seen[b].end : last;
        }
        rates[i] = (double)size / (double)(last - first);
        spreads[i] = 100.0 * (double)(last - soonest) / (double)(last - first);
        clocks[i] =
            1e3 * (double)seen[0].cycles / (double)(seen[0].end - seen[0].begin);
    }
    length = snprintf(text, sizeof(text), "%s %s%s", kinds[KIND], ways[way],
                      (chunk == 0) ? "" : ", dealt in pieces of 1 MiB");
    if ((LOAD != PLAIN) || (STORE != PLAIN)) {
        length += snprintf(text + length, sizeof(text) - length,
                           ", loads %s, stores %s", hints[LOAD], hints[STORE]);
    }
    if (threads != THREADS) {
        snprintf(text + length, sizeof(text) - length, ", %d threads", threads);
    }
    row(text, "GB/s", blocks, median(rates, REPEATS), median(spreads, REPEATS));
    clock_mhz = median(clocks, REPEATS);
}

/* What eight blocks could gain. */
static void rate_hints()
{
    int way;

    for (way = 1; way < 3; ++way) {
        rate<COPY, PLAIN, STREAM>(way, 8, MIB);
        rate<COPY, PLAIN, L2>(way, 8, MIB);
        rate<COPY, PLAIN, NO_L1>(way, 8, MIB);
        rate<COPY, STREAM, PLAIN>(way, 8, MIB);
        rate<COPY, L2, PLAIN>(way, 8, MIB);
        rate<COPY, NO_L1, PLAIN>(way, 8, MIB);
        rate<COPY, STREAM, STREAM>(way, 8, MIB);
        rate<COPY, NO_L1, NO_L1>(way, 8, MIB);
        rate<COPY>(way, 8, MIB);
        rate<COPY>(way, 8, MIB, 512);
        rate<COPY>(way, 8, MIB, 256);
    }
}

/* Each block reads so many entries of the list at a time, as the copy kernel does. */
static __global__ void read_list(const uint4 *list, int rounds, int count,
                                 stamp *stamps)
{
    uint4 vec = make_uint4(0, 0, 0, 0);
    unsigned sum = 0;
    int i;

    if (threadIdx.x == 0) {
        stamps[blockIdx.x].begin = now_ns();
    }
    for (i = 0; i < rounds; ++i) {
        if (threadIdx.x < count * 2) {
            vec = __ldcv(list + ((size_t)(blockIdx.x * rounds + i) * count * 2) +
                         threadIdx.x);
        }
        sum += vec.x + vec.y + vec.z + vec.w;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        stamps[blockIdx.x].end = now_ns() + (sum == 0x12345678);
    }
}

static void list_read(const char *where, const uint4 *list, int blocks, int count)
{
    double times[REPEATS];
    stamp seen[MAX_BLOCKS];
    char text[128];
    int i, b;

    for (i = 0; i < REPEATS; ++i) {
        read_list<<<blocks, THREADS>>>(list, 8, count, stamps);
        CHECK(cudaMemcpy(seen, stamps, blocks * sizeof(*seen), cudaMemcpyDefault));
        times[i] = 0;
        for (b = 0; b < blocks; ++b) {
            if ((double)(seen[b].end - seen[b].begin) / 8 > times[i]) {
                times[i] = (double)(seen[b].end - seen[b].begin) / 8;
            }
        }
    }
    snprintf(text, sizeof(text), "%d entries of the list, %s memory", count, where);
    row(text, "ns", blocks, median(times, REPEATS), -1);
}

static double host_now_ns()
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

/* 4096 entries written by the host, with the GPU having read them or not. */
static void list_write(uint64_t *list, int is_read)
{
    double times[REPEATS * 4];
    double start;
    int i, j;

    for (i = 0; i < REPEATS * 4; ++i) {
        if (is_read) {
            read_list<<<8, THREADS>>>((const uint4 *)list, 1, 512, stamps);
            CHECK(cudaDeviceSynchronize());
        }
        start = host_now_ns();
        for (j = 0; j < 4096 * ENTRY / 8; j += 4) {
            ((volatile uint64_t *)list)[j] = j;
            ((volatile uint64_t *)list)[j + 1] = i;
            ((volatile uint64_t *)list)[j + 2] = 4096;
            ((volatile uint64_t *)list)[j + 3] = j;
        }
        times[i] = (host_now_ns() - start) / 4096;
    }
    row(is_read ? "an entry written by the host, which the GPU has read"
                : "an entry written by the host",
        "ns", 0, median(times, REPEATS * 4), -1);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 8};
    static const int sweep[] = {2, 4, 6, 7, 8, 9, 10, 12, 16, 32, 64};
    uint64_t *pinned;
    void *local;
    int way, i;

    if (argc > 1) {
        json = fopen(argv[1], "w");
        if (json == NULL) {
            perror(argv[1]);
            return EXIT_FAILURE;
        }
    }
    for (i = 1; i >= 0; --i) {
        CHECK(cudaSetDevice(i));
        CHECK(cudaDeviceEnablePeerAccess(!i, 0));
        CHECK(cudaMalloc(&pool[i], 2 * GIB));
        CHECK(cudaMemset(pool[i], i + 1, 2 * GIB));
    }
    CHECK(cudaMalloc(&stamps, MAX_BLOCKS * sizeof(*stamps)));
    CHECK(cudaMalloc(&taken, sizeof(*taken)));
    for (way = 0; way < 3; ++way) {
        for (i = 0; i < 2; ++i) {
            rate<READ>(way, counts[i], 0);
            rate<WRITE>(way, counts[i], 0);
            rate<COPY>(way, counts[i], 0);
        }
    }
    for (i = 0; i < (int)(sizeof(sweep) / sizeof(sweep[0])); ++i) {
        rate<COPY>(1, sweep[i], 0);
        rate<COPY>(1, sweep[i], MIB);
        row("clock meanwhile", "MHz", sweep[i], clock_mhz, -1);
    }

    rate_hints();

    CHECK(cudaMallocHost(&pinned, 8 * 8 * 512 * ENTRY));
    CHECK(cudaMalloc(&local, 8 * 8 * 512 * ENTRY));
    CHECK(cudaMemset(local, 0, 8 * 8 * 512 * ENTRY));
    memset(pinned, 0, 8 * 8 * 512 * ENTRY);
    for (i = 0; i < 2; ++i) {
        list_read("pinned", (const uint4 *)pinned, counts[i], 64);
        list_read("pinned", (const uint4 *)pinned, counts[i], 512);
        list_read("device", (const uint4 *)local, counts[i], 64);
        list_read("device", (const uint4 *)local, counts[i], 512);
    }
    list_write(pinned, 0);
    list_write(pinned, 1);
    if (json != NULL) {
        fprintf(json, "\n]\n");
        fclose(json);
    }
    return EXIT_SUCCESS;
}
