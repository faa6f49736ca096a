/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/slots.h"
#include "perf/base/error.h"
#include "perf/base/random.h"

#include <stdlib.h>


struct perf_slots {
    unsigned per_request;
    bool is_ring;
    uint32_t num_free;
    uint32_t free[]; /* blocks, or with rings the numbers of these */
};


int perf_slots_create(uint32_t num_requests, unsigned per_request, bool is_ring,
                      uint64_t seed, perf_slots_t **slots_p)
{
    uint32_t num = is_ring ? num_requests : num_requests * per_request;
    perf_slots_t *slots = malloc(sizeof(*slots) + num * sizeof(slots->free[0]));
    uint32_t i, other, block;

    if (slots == NULL) {
        perf_error("no memory for %u slots", num);
        return -1;
    }

    slots->per_request = per_request;
    slots->is_ring = is_ring;
    slots->num_free = num;
    for (i = 0; i < num; ++i) {
        slots->free[i] = i;
    }
    for (i = 0; i < num; ++i) {
        other = i + perf_random_below(&seed, num - i);
        block = slots->free[i];
        slots->free[i] = slots->free[other];
        slots->free[other] = block;
    }
    *slots_p = slots;
    return 0;
}

void perf_slots_destroy(perf_slots_t *slots)
{
    free(slots);
}

int perf_slots_get(perf_slots_t *slots, unsigned num, unsigned first, uint32_t *blocks)
{
    uint32_t needed = slots->is_ring ? 1 : num, ring;
    unsigned i;

    if (slots->num_free < needed) {
        return -1;
    }
    slots->num_free -= needed;
    ring = slots->free[slots->num_free];
    for (i = 0; i < num; ++i) {
        blocks[i] = slots->is_ring
                        ? ring * slots->per_request + (first + i) % slots->per_request
                        : slots->free[slots->num_free + i];
    }
    return 0;
}

void perf_slots_put(perf_slots_t *slots, unsigned num, const uint32_t *blocks)
{
    unsigned i;

    if (slots->is_ring) {
        slots->free[slots->num_free++] = blocks[0] / slots->per_request;
        return;
    }
    for (i = 0; i < num; ++i) {
        slots->free[slots->num_free++] = blocks[i];
    }
}
