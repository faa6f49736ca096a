/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory of hipMemMap(): copies across two chunks of one range, and sleep and wake-up,
 * in which chunks are unmapped and others are mapped to their addresses.
 */

#include "hip_lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)2 << 20)

typedef struct chunks {
    char *range; /* Two chunks */
    hipMemGenericAllocationHandle_t handle[2];
    char *host;
    char *device;
} chunks_t;

static void chunks_map(chunks_t *chunks)
{
    hipMemAccessDesc access = {{hipMemLocationTypeDevice, 0},
                               hipMemAccessFlagsProtReadWrite};
    hipMemAllocationProp prop;
    int i;

    memset(&prop, 0, sizeof(prop));
    prop.type = hipMemAllocationTypePinned;
    prop.location.type = hipMemLocationTypeDevice;
    for (i = 0; i < 2; ++i) {
        HIP_OK(hipMemCreate, &chunks->handle[i], CHUNK, &prop, 0);
        HIP_OK(hipMemMap, chunks->range + (i * CHUNK), CHUNK, 0, chunks->handle[i], 0);
    }
    HIP_OK(hipMemSetAccess, chunks->range, 2 * CHUNK, &access, 1);
}

static void chunks_unmap(chunks_t *chunks)
{
    int i;

    HIP_OK(hipDeviceSynchronize);
    for (i = 0; i < 2; ++i) {
        HIP_OK(hipMemUnmap, chunks->range + (i * CHUNK), CHUNK);
        HIP_OK(hipMemRelease, chunks->handle[i]);
    }
}

/* The bytes of both chunks, each by a copy of its own. */
static void chunks_check(chunks_t *chunks, unsigned seed)
{
    memset(chunks->host, 0, 2 * CHUNK);
    HIP_OK(hipMemcpy, chunks->host, chunks->range, CHUNK, hipMemcpyDeviceToHost);
    HIP_OK(hipMemcpy, chunks->host + CHUNK, chunks->range + CHUNK, CHUNK,
           hipMemcpyDeviceToHost);
    HIP_TRUE(hip_pattern_good(chunks->host, 2 * CHUNK, seed) == 2 * CHUNK);
}

static void chunks_copies(chunks_t *chunks)
{
    hip_pattern(chunks->host, 2 * CHUNK, 1);
    HIP_OK(hipMemcpy, chunks->range, chunks->host, 2 * CHUNK, hipMemcpyHostToDevice);
    chunks_check(chunks, 1);
    hip_pattern(chunks->host, 2 * CHUNK, 2);
    HIP_OK(hipMemcpy, chunks->device, chunks->host, 2 * CHUNK, hipMemcpyHostToDevice);
    HIP_OK(hipMemcpy, chunks->range, chunks->device, 2 * CHUNK,
           hipMemcpyDeviceToDevice);
    chunks_check(chunks, 2);
    HIP_OK(hipMemcpy, chunks->host, chunks->range, 2 * CHUNK, hipMemcpyDeviceToHost);
    HIP_TRUE(hip_pattern_good(chunks->host, 2 * CHUNK, 2) == 2 * CHUNK);
    HIP_OK(hipMemset, chunks->range, 6, 2 * CHUNK);
    HIP_OK(hipMemcpy, chunks->host, chunks->range + CHUNK - 8, 16,
           hipMemcpyDeviceToHost);
    HIP_TRUE((chunks->host[0] == 6) && (chunks->host[15] == 6));
}

static void chunks_sleep(chunks_t *chunks)
{
    chunks_unmap(chunks);
    chunks_map(chunks);
    hip_pattern(chunks->host, 2 * CHUNK, 3);
    HIP_OK(hipMemcpy, chunks->range, chunks->host, 2 * CHUNK, hipMemcpyHostToDevice);
    chunks_check(chunks, 3);
}

int main(void)
{
    chunks_t chunks;

    HIP_OK(hipInit, 0);
    HIP_OK(hipMemAddressReserve, (void **)&chunks.range, 2 * CHUNK, 0, NULL, 0);
    HIP_OK(hipMalloc, (void **)&chunks.device, 2 * CHUNK);
    HIP_OK(hipHostMalloc, (void **)&chunks.host, 2 * CHUNK, 0);
    chunks_map(&chunks);
    chunks_copies(&chunks);
    chunks_sleep(&chunks);
    chunks_unmap(&chunks);
    HIP_OK(hipMemAddressFree, chunks.range, 2 * CHUNK);
    HIP_OK(hipFree, chunks.device);
    HIP_OK(hipHostFree, chunks.host);
    puts("chunks done");
    return 0;
}
