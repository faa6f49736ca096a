/* SPDX-License-Identifier: BSD-3-Clause */

/* First steps of a HIP program, in order; the bytes of each are compared. */

#include "hip_lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOUR_SIZE ((size_t)1 << 20)

typedef struct tour {
    char *device;
    char *pinned;
    char *pageable;
} tour_t;

static void tour_devices(int expected)
{
    hipDeviceProp_t properties;
    int count = 0, can = 0, i;
    char bus[32];

    HIP_OK(hipInit, 0);
    HIP_OK(hipGetDeviceCount, &count);
    HIP_TRUE(count == expected);
    for (i = 0; i < count; ++i) {
        HIP_OK(hipGetDeviceProperties, &properties, i);
        HIP_OK(hipDeviceGetPCIBusId, bus, sizeof(bus), i);
        printf("%d: %s %s %s %zu\n", i, properties.name, properties.gcnArchName, bus,
               properties.totalGlobalMem);
        if (i > 0) {
            HIP_OK(hipDeviceCanAccessPeer, &can, 0, i);
            HIP_TRUE(can == 1);
        }
    }
}

static void tour_allocate(tour_t *tour)
{
    HIP_OK(hipMalloc, (void **)&tour->device, TOUR_SIZE);
    HIP_OK(hipHostMalloc, (void **)&tour->pinned, TOUR_SIZE, 0);
    tour->pageable = malloc(TOUR_SIZE);
    HIP_TRUE(tour->pageable != NULL);
}

static void tour_copies(tour_t *tour)
{
    char *other;

    HIP_OK(hipMalloc, (void **)&other, TOUR_SIZE);
    hip_pattern(tour->pageable, TOUR_SIZE, 1);
    HIP_OK(hipMemcpy, tour->device, tour->pageable, TOUR_SIZE, hipMemcpyHostToDevice);
    HIP_OK(hipMemcpy, other, tour->device, TOUR_SIZE, hipMemcpyDeviceToDevice);
    HIP_OK(hipMemcpy, tour->pinned, other, TOUR_SIZE, hipMemcpyDeviceToHost);
    HIP_TRUE(hip_pattern_good(tour->pinned, TOUR_SIZE, 1) == TOUR_SIZE);
    HIP_OK(hipMemset, other, 0x5a, TOUR_SIZE);
    HIP_OK(hipMemcpy, tour->pageable, other, TOUR_SIZE, hipMemcpyDeviceToHost);
    memset(tour->pinned, 0x5a, TOUR_SIZE);
    HIP_TRUE(memcmp(tour->pageable, tour->pinned, TOUR_SIZE) == 0);
    HIP_OK(hipFree, other);
}

static void tour_streams(tour_t *tour)
{
    hipEvent_t begin, end;
    hipStream_t stream;
    float ms = -1;

    HIP_OK(hipStreamCreateWithFlags, &stream, hipStreamNonBlocking);
    HIP_OK(hipEventCreate, &begin);
    HIP_OK(hipEventCreate, &end);
    hip_pattern(tour->pageable, TOUR_SIZE, 2);
    HIP_OK(hipEventRecord, begin, stream);
    HIP_OK(hipMemcpyAsync, tour->device, tour->pageable, TOUR_SIZE,
           hipMemcpyHostToDevice, stream);
    HIP_OK(hipMemcpyAsync, tour->pinned, tour->device, TOUR_SIZE, hipMemcpyDeviceToHost,
           stream);
    HIP_OK(hipEventRecord, end, stream);
    HIP_OK(hipEventSynchronize, end);
    HIP_TRUE(hip_pattern_good(tour->pinned, TOUR_SIZE, 2) == TOUR_SIZE);
    HIP_OK(hipEventElapsedTime, &ms, begin, end);
    HIP_TRUE(ms >= 0);
    HIP_OK(hipStreamWriteValue32, stream, tour->device, 77, 0);
    HIP_OK(hipStreamSynchronize, stream);
    HIP_OK(hipMemcpy, tour->pageable, tour->device, 4, hipMemcpyDeviceToHost);
    HIP_TRUE(*(int *)(void *)tour->pageable == 77);
    HIP_OK(hipEventDestroy, begin);
    HIP_OK(hipEventDestroy, end);
    HIP_OK(hipStreamDestroy, stream);
}

/* A wait holds its stream until the number has come. */
static void tour_wait(unsigned flags, uint32_t held, uint32_t expected, uint32_t mask,
                      uint32_t free)
{
    hipStream_t stream;
    uint32_t *number;

    HIP_OK(hipStreamCreateWithFlags, &stream, hipStreamNonBlocking);
    HIP_OK(hipHostMalloc, (void **)&number, sizeof(*number), 0);
    *number = held;
    HIP_OK(hipStreamWaitValue32, stream, number, expected, flags, mask);
    usleep(2000);
    HIP_TRUE(HIP(hipStreamQuery)(stream) == hipErrorNotReady);
    __atomic_store_n(number, free, __ATOMIC_RELEASE);
    HIP_OK(hipStreamSynchronize, stream);
    HIP_OK(hipHostFree, number);
    HIP_OK(hipStreamDestroy, stream);
}

static void tour_waits(void)
{
    tour_wait(hipStreamWaitValueGte, 76, 77, UINT32_MAX, 78);
    tour_wait(hipStreamWaitValueGte, 77, UINT32_C(1) << 31, UINT32_MAX, UINT32_MAX);
    tour_wait(hipStreamWaitValueEq, 0x14d, 0x4d, 0x1ff, 0xe4d);
    tour_wait(hipStreamWaitValueAnd, 0x32, 0x0f, 0x7d, 0x34);
    tour_wait(hipStreamWaitValueNor, 0xf2, 0x0f, 0xff, 0x72);
}

/* A box of two rows is set and goes to another pitch; lengths and places that take
 * units of 1, 4 and 16 bytes. */
static void tour_box(tour_t *tour, size_t unit, size_t width)
{
    const size_t pitch = 4096, other = 8192;
    char *copy;
    size_t i, byte;

    HIP_OK(hipMalloc, (void **)&copy, TOUR_SIZE);
    hip_pattern(tour->pageable, TOUR_SIZE, 4);
    HIP_OK(hipMemcpy, tour->device, tour->pageable, TOUR_SIZE, hipMemcpyHostToDevice);
    HIP_OK(hipMemset2D, tour->device + unit, pitch, 0x33, width, 2);
    HIP_OK(hipMemset, copy, 0, TOUR_SIZE);
    HIP_OK(hipMemcpy2D, copy, other, tour->device, pitch, width + (2 * unit), 3,
           hipMemcpyDeviceToDevice);
    HIP_OK(hipMemcpy, tour->pinned, copy, TOUR_SIZE, hipMemcpyDeviceToHost);
    for (i = 0; i < 2; ++i) {
        memset(tour->pageable + (i * pitch) + unit, 0x33, width);
    }
    for (i = 0; i < 4; ++i) {
        byte = (i < 3) ? width + (2 * unit) : 0;
        HIP_TRUE(memcmp(tour->pinned + (i * other), tour->pageable + (i * pitch),
                        byte) == 0);
        HIP_TRUE(tour->pinned[(i * other) + byte] == 0);
    }
    HIP_OK(hipFree, copy);
}

static void tour_boxes(tour_t *tour)
{
    tour_box(tour, 1, 333);
    tour_box(tour, 4, 68);
    tour_box(tour, 16, 256);
}

static void tour_pointers(tour_t *tour)
{
    hipPointerAttribute_t attributes;
    hipDeviceptr_t base;
    size_t size;

    HIP_OK(hipPointerGetAttributes, &attributes, tour->device + 100);
    HIP_TRUE(attributes.type == hipMemoryTypeDevice);
    HIP_TRUE(attributes.device == 0);
    HIP_OK(hipMemGetAddressRange, &base, &size, tour->device + 100);
    HIP_TRUE((base == tour->device) && (size == TOUR_SIZE));
}

/* Memory of the last GPU, which it copies to from the first one's. */
static void tour_peer(tour_t *tour, int peer)
{
    char *other;

    HIP_OK(hipSetDevice, peer);
    HIP_OK(hipMalloc, (void **)&other, TOUR_SIZE);
    HIP_OK(hipDeviceEnablePeerAccess, 0, 0);
    hip_pattern(tour->pageable, TOUR_SIZE, 3);
    HIP_OK(hipMemcpy, tour->device, tour->pageable, TOUR_SIZE, hipMemcpyHostToDevice);
    HIP_OK(hipMemcpyPeer, other, peer, tour->device, 0, TOUR_SIZE);
    HIP_OK(hipMemcpy, tour->pinned, other, TOUR_SIZE, hipMemcpyDeviceToHost);
    HIP_TRUE(hip_pattern_good(tour->pinned, TOUR_SIZE, 3) == TOUR_SIZE);
    HIP_OK(hipFree, other);
    HIP_OK(hipSetDevice, 0);
}

/* VRAM has the size in the topology; all of it and more cannot be allocated. */
static void tour_limits(void)
{
    size_t left, total;
    void *all;

    HIP_OK(hipMemGetInfo, &left, &total);
    HIP_TRUE(left <= total);
    HIP_TRUE(HIP(hipMalloc)(&all, total + 4096) == hipErrorOutOfMemory);
    (void)HIP(hipGetLastError)();
}

int main(int argc, char **argv)
{
    int count = (argc > 1) ? atoi(argv[1]) : 2;
    tour_t tour;

    tour_devices(count);
    tour_allocate(&tour);
    tour_copies(&tour);
    tour_streams(&tour);
    tour_waits();
    tour_boxes(&tour);
    tour_pointers(&tour);
    if (count > 1) {
        tour_peer(&tour, count - 1);
    }
    tour_limits();
    HIP_OK(hipFree, tour.device);
    HIP_OK(hipHostFree, tour.pinned);
    free(tour.pageable);
    puts("tour done");
    return 0;
}
