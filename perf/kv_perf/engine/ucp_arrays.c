/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/engine/ucp_arrays.h"

#include <stdlib.h>


void perf_ucp_arrays_free(perf_ucp_arrays_t *arrays)
{
    free(arrays->buffers);
    free(arrays->lengths);
    free(arrays->memhs);
    free(arrays->remote_addrs);
    free(arrays->rkeys);
    free(arrays);
}

perf_ucp_arrays_t *perf_ucp_arrays_create(uint32_t num)
{
    perf_ucp_arrays_t *arrays;

    arrays = calloc(1, sizeof(*arrays));
    if (arrays == NULL) {
        return NULL;
    }

    arrays->buffers = calloc(num, sizeof(*arrays->buffers));
    arrays->lengths = calloc(num, sizeof(*arrays->lengths));
    arrays->memhs = calloc(num, sizeof(*arrays->memhs));
    arrays->remote_addrs = calloc(num, sizeof(*arrays->remote_addrs));
    arrays->rkeys = calloc(num, sizeof(*arrays->rkeys));
    if ((arrays->buffers == NULL) || (arrays->lengths == NULL) ||
        (arrays->memhs == NULL) || (arrays->remote_addrs == NULL) ||
        (arrays->rkeys == NULL)) {
        perf_ucp_arrays_free(arrays);
        return NULL;
    }
    return arrays;
}
