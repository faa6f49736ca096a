/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Packets of HSA's queues (HSA Runtime Programmer's Reference 1.2, 2.9; AMD's formats:
 * amd_hsa_queue.h, amd_hsa_signal.h and hsa_ven_amd_aqlprofile.h of ROCr). A queue
 * plays one packet after the other, so that the barrier bit has no further effect.
 */

#include "kfd_impl.h"
#include "kfd_dispatch.h"

#include <stddef.h>

enum {
    KFD_AQL_VENDOR = 0,
    KFD_AQL_INVALID = 1,
    KFD_AQL_DISPATCH = 2,
    KFD_AQL_BARRIER_AND = 3,
    KFD_AQL_BARRIER_OR = 5
};

/* Formats of AMD's vendor packets (hsa_amd_packet_type8_t, and PM4 in an IB) */
enum { KFD_AQL_AMD_PM4 = 1, KFD_AQL_AMD_BARRIER_VALUE = 2 };

#define KFD_AQL_DEPS 5

typedef struct kfd_aql_packet {
    uint16_t header;
    uint16_t setup; /* Vendor packets: the format */
    union {
        struct {
            uint16_t workgroup[3];
            uint16_t reserved0;
            uint32_t grid[3];
            uint32_t private_size, group_size;
            uint64_t kernel_object, kernarg;
            uint64_t reserved2;
        } __attribute__((packed)) dispatch;
        struct {
            uint32_t reserved1;
            uint64_t dep[KFD_AQL_DEPS];
            uint64_t reserved2;
        } __attribute__((packed)) barrier;
        struct {
            uint32_t reserved0;
            uint64_t signal;
            int64_t value;
            int64_t mask;
            uint32_t condition;
        } __attribute__((packed)) value;
    };
    uint64_t completion;
} kfd_aql_packet_t;

_Static_assert(sizeof(kfd_aql_packet_t) == 64, "size of an AQL packet");

/* amd_signal_t */
typedef struct kfd_signal {
    int64_t kind;
    int64_t value;
    uint64_t mailbox;
    uint32_t event_id;
    uint32_t reserved1;
    uint64_t start, end;
    uint64_t queue;
    uint32_t reserved3[2];
} kfd_signal_t;

_Static_assert(sizeof(kfd_signal_t) == 64, "size of a signal");

static bool kfd_signal_value(kfd_queue_t *queue, uint64_t signal, int64_t *value)
{
    return kfd_load64(queue, signal + offsetof(kfd_signal_t, value), (uint64_t *)value);
}

static bool kfd_signal_complete(kfd_queue_t *queue, uint64_t address, uint64_t start)
{
    kfd_signal_t *signal = (kfd_signal_t *)(uintptr_t)address;
    uint64_t mailbox, old;
    uint32_t id;

    if (address == 0) {
        return true;
    }
    if (!kfd_may(queue, address, sizeof(*signal), true)) {
        return false;
    }
    signal->start = start;
    signal->end = kfd_clock();
    mailbox = signal->mailbox; /* the signal may be gone once its value is there */
    id = signal->event_id;
    if (!kfd_add64(queue, address + offsetof(kfd_signal_t, value), UINT64_MAX, &old)) {
        return false;
    }
    if (mailbox != 0) {
        if (!kfd_store64(queue, mailbox, id)) {
            return false;
        }
        kfd_event_fire(id);
    }
    return true;
}

static bool kfd_barrier_and(kfd_queue_t *queue, const kfd_aql_packet_t *packet)
{
    unsigned turns, i;
    int64_t value;

    for (i = 0; i < KFD_AQL_DEPS; ++i) {
        turns = 0;
        for (;;) {
            if (packet->barrier.dep[i] == 0) {
                break;
            }
            if (!kfd_signal_value(queue, packet->barrier.dep[i], &value)) {
                return false;
            }
            if (value == 0) {
                break;
            }
            if (!kfd_queue_relax(queue, &turns)) {
                return false;
            }
        }
    }
    return true;
}

static bool kfd_barrier_or(kfd_queue_t *queue, const kfd_aql_packet_t *packet)
{
    unsigned turns = 0, i;
    bool any, done;
    int64_t value;

    do {
        any = false;
        done = false;
        for (i = 0; i < KFD_AQL_DEPS; ++i) {
            if (packet->barrier.dep[i] == 0) {
                continue;
            }
            any = true;
            if (!kfd_signal_value(queue, packet->barrier.dep[i], &value)) {
                return false;
            }
            done |= value == 0;
        }
        if (!any || done) {
            return true;
        }
    } while (kfd_queue_relax(queue, &turns));
    return false;
}

static bool kfd_barrier_value(kfd_queue_t *queue, const kfd_aql_packet_t *packet)
{
    int64_t expected = packet->value.value, value;
    unsigned turns = 0;
    bool is_there;

    if (packet->value.signal == 0) {
        return true;
    }
    do {
        if (!kfd_signal_value(queue, packet->value.signal, &value)) {
            return false;
        }
        value &= packet->value.mask;
        switch (packet->value.condition) {
        case 0:
            is_there = value == expected;
            break;
        case 1:
            is_there = value != expected;
            break;
        case 2:
            is_there = value < expected;
            break;
        default:
            is_there = value >= expected;
            break;
        }
        if (is_there) {
            return true;
        }
    } while (kfd_queue_relax(queue, &turns));
    return false;
}

/* The queue of the kernel that a thread plays: an interpreter has the dispatch alone.
 */
static __thread kfd_queue_t *kfd_running;

kfd_queue_t *kfd_running_queue(void)
{
    return kfd_running;
}

static bool kfd_aql_dispatch(kfd_queue_t *queue, const kfd_aql_packet_t *packet)
{
    kfd_dispatch_t dispatch = {
        .gpu = (unsigned)queue->gpu,
        .target = kfd_config()->model->target,
        .packet = (uint64_t)(uintptr_t)packet,
        .kernel_object = packet->dispatch.kernel_object,
        .kernarg = packet->dispatch.kernarg,
        .private_size = packet->dispatch.private_size,
        .group_size = packet->dispatch.group_size,
        .acquire_fence = (packet->header >> 9) & 3,
        .release_fence = (packet->header >> 11) & 3,
    };
    unsigned i, dimensions = packet->setup & 3;

    for (i = 0; i < 3; ++i) {
        dispatch.grid[i] = (i < dimensions) ? packet->dispatch.grid[i] : 1;
        dispatch.workgroup[i] = (i < dimensions) ? packet->dispatch.workgroup[i] : 1;
    }
    kfd_running = queue;
    kfd_dispatch(&dispatch);
    kfd_running = NULL;
    return !queue->halted;
}

static bool kfd_aql_run(kfd_queue_t *queue, const kfd_aql_packet_t *packet)
{
    switch (packet->header & 0xff) {
    case KFD_AQL_DISPATCH:
        return kfd_aql_dispatch(queue, packet);
    case KFD_AQL_BARRIER_AND:
        return kfd_barrier_and(queue, packet);
    case KFD_AQL_BARRIER_OR:
        return kfd_barrier_or(queue, packet);
    case KFD_AQL_VENDOR:
        if ((packet->setup & 0xff) == KFD_AQL_AMD_BARRIER_VALUE) {
            return kfd_barrier_value(queue, packet);
        }
        if ((packet->setup & 0xff) == KFD_AQL_AMD_PM4) {
            return true; /* ROCr invalidates caches with PM4; this player has none */
        }
    }
    kfd_die("queue %u of GPU %d: AQL packet with header %#x, setup %#x is not played",
            queue->id, queue->gpu, packet->header, packet->setup);
}

static kfd_aql_packet_t *kfd_aql_packet(const kfd_queue_t *queue)
{
    uint32_t count = queue->ring_size / sizeof(kfd_aql_packet_t);

    return (kfd_aql_packet_t *)(uintptr_t)queue->ring + (queue->position % count);
}

bool kfd_aql_has(const kfd_queue_t *queue)
{
    return (__atomic_load_n(queue->wptr, __ATOMIC_ACQUIRE) > queue->position) &&
           ((__atomic_load_n(&kfd_aql_packet(queue)->header, __ATOMIC_ACQUIRE) &
             0xff) != KFD_AQL_INVALID);
}

bool kfd_aql_play(kfd_queue_t *queue)
{
    kfd_aql_packet_t *packet = kfd_aql_packet(queue);
    uint64_t start = kfd_clock(), completion;

    kfd_log(4, "queue %u packet %llu: header %#x completion %#llx", queue->id,
            (unsigned long long)queue->position, packet->header,
            (unsigned long long)packet->completion);
    if (!kfd_aql_run(queue, packet)) {
        return false;
    }
    if (kfd_late_releases(packet->header)) {
        kfd_late_land(queue->gpu);
    }
    completion = packet->completion;
    __atomic_store_n(&packet->header, KFD_AQL_INVALID, __ATOMIC_RELEASE);
    queue->position++;
    __atomic_store_n(queue->rptr, queue->position, __ATOMIC_RELEASE);
    return kfd_signal_complete(queue, completion, start);
}
