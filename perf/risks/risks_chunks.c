/* SPDX-License-Identifier: BSD-3-Clause */

/* Memory that the application maps itself, as PyTorch's expandable segments do: the
 * runtime reports one chunk of it, and mori_xgmi registers all. */

#include "config.h"

#include "perf/risks/risks_chunks.h"
#include "perf/risks/risks_base.h"
#include "perf/risks/risks_nic.h"

#include <string.h>

#define CHUNKS_NUM 2

/* Same layout as hipMemAllocationProp. */
typedef struct chunks_prop {
    int type;
    int handle_types;
    struct {
        int type;
        int id;
    } location;
    void *win32;
    unsigned char flags[64];
} chunks_prop_t;

typedef struct chunks_access {
    struct {
        int type;
        int id;
    } location;
    int flags;
} chunks_access_t;

/* Functions that the product does not use. */
typedef struct chunks_hip {
    int (*reserve)(void **address, size_t size, size_t alignment, void *at,
                   unsigned long long flags);
    int (*create)(void **chunk, size_t size, const chunks_prop_t *prop,
                  unsigned long long flags);
    int (*map)(void *address, size_t size, size_t offset, void *chunk,
               unsigned long long flags);
    int (*set_access)(void *address, size_t size, const chunks_access_t *access,
                      size_t count);
    int (*unmap)(void *address, size_t size);
    int (*release)(void *chunk);
    int (*free)(void *address, size_t size);
} chunks_hip_t;


static bool chunks_bind(chunks_hip_t *hip)
{
    static const char *const names[] = {
        "hipMemAddressReserve", "hipMemCreate",  "hipMemMap",        "hipMemSetAccess",
        "hipMemUnmap",          "hipMemRelease", "hipMemAddressFree"};

    return risks_bind(names, sizeof(names) / sizeof(names[0]), hip) == NULL;
}

static bool chunks_map(const chunks_hip_t *hip, char *memory, size_t num_chunks)
{
    const chunks_prop_t prop = {.type = 1, .location = {1, 0}};
    const chunks_access_t access = {.location = {1, 0}, .flags = 3};
    void *chunk;
    size_t i;

    for (i = 0; i < num_chunks; ++i) {
        if ((hip->create(&chunk, RISKS_LENGTH, &prop, 0) != 0) ||
            (hip->map(memory + (i * RISKS_LENGTH), RISKS_LENGTH, 0, chunk, 0) != 0) ||
            (hip->release(chunk) != 0)) {
            return false;
        }
    }
    return hip->set_access(memory, num_chunks * RISKS_LENGTH, &access, 1) == 0;
}

void risk_chunks(void)
{
    const size_t length = CHUNKS_NUM * RISKS_LENGTH;
    muct_gpu_mem_info_t whole, first;
    ucs_status_t status;
    void *memory = NULL;
    chunks_hip_t hip;
    size_t i;

    if (!chunks_bind(&hip) || (hip.reserve(&memory, length, 0, NULL, 0) != 0) ||
        !chunks_map(&hip, memory, CHUNKS_NUM)) {
        risks_report("chunks", "not looked at", "the runtime maps no memory");
        return;
    }

    status = muct_gpu_query_range(gpu, memory, length, &whole);
    risks_need(muct_gpu_query_range(gpu, memory, 1, &first) == UCS_OK,
               "a chunk's range");
    risks_report("chunks",
                 ((status != UCS_OK) || (whole.length < length)) ? "BROKEN"
                 : (first.length < length)                       ? "seen"
                                                                 : "not seen",
                 "the runtime reports %zu of %zu mapped bytes, mori_xgmi finds %zu",
                 first.length, length, (status == UCS_OK) ? whole.length : 0);
    for (i = 0; i < CHUNKS_NUM; ++i) {
        (void)hip.unmap((char *)memory + (i * RISKS_LENGTH), RISKS_LENGTH);
    }
    (void)hip.free(memory, length);
}

void risk_wake_up(unsigned rounds, void (*copy)(void *))
{
    unsigned i, num_bad = 0;
    void *memory = NULL;
    chunks_hip_t hip;

    if (!chunks_bind(&hip) || (hip.reserve(&memory, RISKS_LENGTH, 0, NULL, 0) != 0) ||
        !chunks_map(&hip, memory, 1)) {
        risks_report("wake-up", "not looked at", "the runtime maps no memory");
        return;
    }

    for (i = 0; (i < rounds) && (num_bad == 0); ++i) {
        risks_need((i == 0) || chunks_map(&hip, memory, 1), "hipMemMap");
        risks_fill(memory, RISKS_COPIED, i);
        copy(memory);
        num_bad += !risks_is_filled(remote, RISKS_COPIED, i);
        risks_need(hip.unmap(memory, RISKS_LENGTH) == 0, "hipMemUnmap");
    }
    risks_report("wake-up", (num_bad == 0) ? "not seen" : "BROKEN",
                 "%u times mapped at one address, copied and unmapped%s", i,
                 (num_bad > 0) ? ", old bytes behind a copy" : "");
    (void)hip.free(memory, RISKS_LENGTH);
}

static const char chunks_old[] = "old bytes behind a put";

/* @return NULL, or what is wrong. */
static const char *chunks_put_by_nic(char *from, char *to, uint32_t seed)
{
    const char *fault = risks_nic_map(to, RISKS_LENGTH);

    if (fault != NULL) {
        return fault;
    }
    fault = risks_nic_put(from, to, RISKS_COPIED);
    if ((fault == NULL) && !risks_is_filled(to, RISKS_COPIED, seed)) {
        fault = chunks_old;
    }
    risks_nic_unmap();
    return fault;
}

void risk_nic_anew(unsigned rounds)
{
    bool is_out_of_reach = false; /* the NIC takes no mapped memory here */
    const char *fault = NULL;
    chunks_hip_t hip;
    void *from, *to;
    unsigned i;

    if (!chunks_bind(&hip) || (hip.reserve(&from, RISKS_LENGTH, 0, NULL, 0) != 0) ||
        (hip.reserve(&to, RISKS_LENGTH, 0, NULL, 0) != 0) ||
        !chunks_map(&hip, from, 1) || !chunks_map(&hip, to, 1)) {
        risks_report("nic-anew", "not looked at", "the runtime maps no memory");
        return;
    }

    for (i = 0; (i < rounds) && (fault == NULL); ++i) {
        risks_need((i == 0) || (chunks_map(&hip, from, 1) && chunks_map(&hip, to, 1)),
                   "hipMemMap");
        risks_fill(from, RISKS_COPIED, i);
        fault = chunks_put_by_nic(from, to, i);
        is_out_of_reach = (i == 0) && (fault != NULL) && (fault != chunks_old) &&
                          !risks_nic_is_broken();
        if (risks_nic_is_broken()) {
            break; /* the NIC may still use the memory */
        }
        risks_need((hip.unmap(from, RISKS_LENGTH) == 0) &&
                       (hip.unmap(to, RISKS_LENGTH) == 0),
                   "hipMemUnmap");
    }
    risks_report("nic-anew",
                 (fault == NULL)   ? "not seen"
                 : is_out_of_reach ? "not looked at"
                                   : "BROKEN",
                 "%u times mapped at one address, put and unmapped%s%s", i,
                 (fault != NULL) ? ", " : "", (fault != NULL) ? fault : "");
    if (!risks_nic_is_broken()) {
        (void)hip.free(from, RISKS_LENGTH);
        (void)hip.free(to, RISKS_LENGTH);
    }
}
