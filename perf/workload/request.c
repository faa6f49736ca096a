/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/request.h"


int perf_source_next(perf_source_t *source, const perf_request_t **request_p)
{
    return source->next(source, request_p);
}

void perf_source_destroy(perf_source_t *source)
{
    source->destroy(source);
}
