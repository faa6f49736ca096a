/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ucp_mem_map() of one range over two allocations, as an allocator of a framework does
 * with its arena. hipMemRetainAllocationHandle() of such memory ends the process on
 * 6.4.3 and 7.2.4, so the module must not call it there.
 */

#include "hip_lib.h"

#include <stdio.h>
#include <ucp/api/ucp.h>

#define SIZE ((size_t)1 << 20)

static void neighbours_allocate(char **first, char **second)
{
    void *memory;

    HIP_OK(hipMalloc, &memory, SIZE);
    *first = memory;
    HIP_OK(hipMalloc, &memory, SIZE);
    *second = memory;
    if (*first > *second) {
        *second = *first;
        *first = memory;
    }
}

/* Map the memory and pack its key; either may fail, with a status. */
static ucs_status_t neighbours_map(ucp_context_h context, void *address, size_t length)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .address = address,
                                   .length = length,
                                   .memory_type = UCS_MEMORY_TYPE_ROCM};
    ucs_status_t status;
    ucp_mem_h memory;
    size_t size;
    void *key;

    status = ucp_mem_map(context, &params, &memory);
    if (status != UCS_OK) {
        return status;
    }
    status = ucp_rkey_pack(context, memory, &key, &size);
    if (status == UCS_OK) {
        ucp_rkey_buffer_release(key);
    }
    HIP_TRUE(ucp_mem_unmap(context, memory) == UCS_OK);
    return status;
}

int main(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_RMA};
    char *first, *second;
    ucp_context_h context;

    neighbours_allocate(&first, &second);
    HIP_TRUE(second == first + SIZE); /* or this shows nothing */
    HIP_TRUE(ucp_init(&params, NULL, &context) == UCS_OK);
    HIP_TRUE(neighbours_map(context, first, SIZE) == UCS_OK);
    printf("both: %s\n", ucs_status_string(neighbours_map(context, first, 2 * SIZE)));
    ucp_cleanup(context);
    HIP_OK(hipFree, first);
    HIP_OK(hipFree, second);
    return 0;
}
