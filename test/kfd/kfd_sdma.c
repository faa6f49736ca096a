/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Packets of SDMA 4.4.2 (sdma_registers.h of ROCr; amdgpu's vega10_sdma_pkt_open.h).
 * Pointers of the ring count bytes.
 *
 * A read pointer behind a copy does not show its end. ROCr puts an atomic operation or
 * a fence behind copies (SubmitCommand() of amd_blit_sdma.cpp), and amdgpu a fence
 * (sdma_v4_4_2_ring_emit_fence()): copies and fills are played when one of these comes.
 */

#include "kfd_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    KFD_SDMA_NOP = 0,
    KFD_SDMA_COPY = 1,
    KFD_SDMA_FENCE = 5,
    KFD_SDMA_TRAP = 6,
    KFD_SDMA_POLL_REGMEM = 8,
    KFD_SDMA_ATOMIC = 10,
    KFD_SDMA_CONST_FILL = 11,
    KFD_SDMA_TIMESTAMP = 13
};

#define KFD_SDMA_MAX_DWORDS 13
#define KFD_SDMA_COPY_LINEAR 0
#define KFD_SDMA_COPY_RECT 4
#define KFD_SDMA_ATOMIC_ADD64 47
#define KFD_SDMA_TIME_GET_GLOBAL 2

/* POLL_REGMEM: a bit of its header, and the word by which ROCr requests a flush of the
 * HDP (hdp_flush_cmd of amd_blit_sdma.cpp) */
#define KFD_SDMA_POLL_MEMORY (1u << 31)
#define KFD_SDMA_HDP_FLUSH 0x80000000u

static uint64_t kfd_sdma_address(const uint32_t *dword)
{
    return dword[0] | ((uint64_t)dword[1] << 32);
}

/* Start of a row of a sub-window: pitches and offsets in elements. */
static uint64_t kfd_sdma_row(const uint32_t *d, uint32_t y, uint32_t z, uint32_t log2)
{
    uint64_t pitch = ((d[3] >> 13) & 0x7ffff) + 1, slice = (d[4] & 0xfffffff) + 1;
    uint64_t offset = (((d[3] & 0x7ff) + z) * slice) +
                      ((((d[2] >> 16) & 0x3fff) + y) * pitch) + (d[2] & 0x3fff);

    return kfd_sdma_address(d) + (offset << log2);
}

static bool kfd_sdma_copy_rect(kfd_queue_t *queue, const uint32_t *d)
{
    uint32_t log2 = d[0] >> 29, rows = ((d[11] >> 16) & 0x3fff) + 1;
    uint64_t bytes = ((d[11] & 0x3fffull) + 1) << log2;
    uint32_t slices = (d[12] & 0x7ff) + 1, y, z;

    for (z = 0; z < slices; ++z) {
        for (y = 0; y < rows; ++y) {
            if (!kfd_copy(queue, kfd_sdma_row(d + 6, y, z, log2),
                          kfd_sdma_row(d + 1, y, z, log2), bytes)) {
                return false;
            }
        }
    }
    return true;
}

static bool kfd_sdma_compare(uint32_t function, uint32_t value, uint32_t reference)
{
    switch (function) {
    case 0:
        return true;
    case 1:
        return value < reference;
    case 2:
        return value <= reference;
    case 3:
        return value == reference;
    case 4:
        return value != reference;
    case 5:
        return value >= reference;
    default:
        return value > reference;
    }
}

static bool kfd_sdma_poll(kfd_queue_t *queue, const uint32_t *d)
{
    unsigned turns = 0;
    uint32_t value;

    if ((d[0] == KFD_SDMA_POLL_REGMEM) && (d[2] == KFD_SDMA_HDP_FLUSH)) {
        return true; /* of the host's data path to VRAM: there is none to flush */
    }
    if (!(d[0] & KFD_SDMA_POLL_MEMORY)) {
        kfd_die("queue %u: POLL_REGMEM %08x of a register is not played", queue->id,
                d[0]);
    }
    do {
        if (!kfd_load32(queue, kfd_sdma_address(d + 1), &value)) {
            return false;
        }
        if (kfd_sdma_compare((d[0] >> 28) & 7, value & d[4], d[3])) {
            return true;
        }
    } while (kfd_queue_relax(queue, &turns));
    return false;
}

/* Dwords of a packet; 0: not known. */
static uint32_t kfd_sdma_length(const uint32_t *d)
{
    uint32_t sub = (d[0] >> 8) & 0xff;

    switch (d[0] & 0xff) {
    case KFD_SDMA_NOP:
        return 1 + ((d[0] >> 16) & 0x3fff);
    case KFD_SDMA_COPY:
        return (sub == KFD_SDMA_COPY_LINEAR) ? 7 : (sub == KFD_SDMA_COPY_RECT) ? 13 : 0;
    case KFD_SDMA_FENCE:
        return 4;
    case KFD_SDMA_TRAP:
        return 2;
    case KFD_SDMA_POLL_REGMEM:
        return (sub == 0) ? 6 : 0;
    case KFD_SDMA_ATOMIC:
        return (((d[0] >> 25) & 0x7f) == KFD_SDMA_ATOMIC_ADD64) ? 8 : 0;
    case KFD_SDMA_CONST_FILL:
        return 5;
    case KFD_SDMA_TIMESTAMP:
        return (sub == KFD_SDMA_TIME_GET_GLOBAL) ? 3 : 0;
    }
    return 0;
}

static bool kfd_sdma_run(kfd_queue_t *queue, const uint32_t *d)
{
    uint64_t old;

    switch (d[0] & 0xff) {
    case KFD_SDMA_COPY:
        if (((d[0] >> 8) & 0xff) == KFD_SDMA_COPY_RECT) {
            return kfd_sdma_copy_rect(queue, d);
        }
        return kfd_copy(queue, kfd_sdma_address(d + 5), kfd_sdma_address(d + 3),
                        (d[1] & 0x3fffffff) + 1ull);
    case KFD_SDMA_FENCE:
        return kfd_store32(queue, kfd_sdma_address(d + 1), d[3]);
    case KFD_SDMA_TRAP:
        kfd_event_fire(d[1] & 0xfffffff);
        return true;
    case KFD_SDMA_POLL_REGMEM:
        return kfd_sdma_poll(queue, d);
    case KFD_SDMA_ATOMIC:
        return kfd_add64(queue, kfd_sdma_address(d + 1), kfd_sdma_address(d + 3), &old);
    case KFD_SDMA_CONST_FILL:
        return kfd_fill(queue, kfd_sdma_address(d + 1), &d[3], sizeof(d[3]),
                        ((d[4] & 0x3fffff) + 1) / 4);
    case KFD_SDMA_TIMESTAMP:
        return kfd_store64(queue, kfd_sdma_address(d + 1), kfd_clock());
    }
    return true;
}

static bool kfd_sdma_is_copy(const uint32_t *d)
{
    uint32_t packet = d[0] & 0xff;

    return (packet == KFD_SDMA_COPY) || (packet == KFD_SDMA_CONST_FILL);
}

static bool kfd_sdma_is_release(const uint32_t *d)
{
    uint32_t packet = d[0] & 0xff;

    return (packet == KFD_SDMA_FENCE) || (packet == KFD_SDMA_ATOMIC);
}

/* A copy or fill that the next release executes. */
static void kfd_sdma_keep(kfd_queue_t *queue, const uint32_t *d)
{
    size_t size = KFD_SDMA_MAX_DWORDS * sizeof(*d);
    uint32_t *kept = realloc(queue->kept, (queue->num_kept + 1) * size);

    if (kept == NULL) {
        kfd_die("queue %u: no memory for %zu copies", queue->id, queue->num_kept + 1);
    }
    memcpy(&kept[queue->num_kept * KFD_SDMA_MAX_DWORDS], d, size);
    queue->kept = kept;
    ++queue->num_kept;
}

static bool kfd_sdma_run_kept(kfd_queue_t *queue)
{
    size_t i;

    for (i = 0; i < queue->num_kept; ++i) {
        if (!kfd_sdma_run(queue, &queue->kept[i * KFD_SDMA_MAX_DWORDS])) {
            return false;
        }
    }
    queue->num_kept = 0;
    return true;
}

static bool kfd_sdma_take(kfd_queue_t *queue, const uint32_t *d)
{
    if (kfd_sdma_is_copy(d)) {
        kfd_sdma_keep(queue, d);
        return true;
    }
    if (kfd_sdma_is_release(d) && !kfd_sdma_run_kept(queue)) {
        return false;
    }
    return kfd_sdma_run(queue, d);
}

bool kfd_sdma_has(const kfd_queue_t *queue)
{
    return __atomic_load_n(queue->wptr, __ATOMIC_ACQUIRE) != queue->position;
}

bool kfd_sdma_play(kfd_queue_t *queue)
{
    const uint32_t *ring = (const uint32_t *)(uintptr_t)queue->ring;
    uint32_t packet[KFD_SDMA_MAX_DWORDS], dwords = queue->ring_size / 4, length, i;

    for (i = 0; i < KFD_SDMA_MAX_DWORDS; ++i) {
        packet[i] = ring[((queue->position / 4) + i) % dwords];
    }
    length = kfd_sdma_length(packet);
    if (length == 0) {
        kfd_die("queue %u of GPU %d: SDMA packet %08x is not played", queue->id,
                queue->gpu, packet[0]);
    }
    kfd_log(4, "queue %u: SDMA packet %08x", queue->id, packet[0]);
    if (!kfd_sdma_take(queue, packet)) {
        return false;
    }
    queue->position += length * 4ull;
    __atomic_store_n(queue->rptr, queue->position, __ATOMIC_RELEASE);
    return true;
}
