/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Copies and fills. Both ends are checked when a copy is queued, while the faulty
 * caller is still on the stack, and again when it runs. Pageable host memory is copied
 * before the call returns, as the real runtime does.
 */

#include "hipcpu_capture.h"
#include "hipcpu_impl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define HIPCPU_COPIES_A_LOSS 16
#define HIPCPU_LOST_BYTES ((size_t)512)
#define HIPCPU_STALE_FROM 4096

static bool hipcpu_is_device_end(int kind, bool is_dst)
{
    return (kind == hipMemcpyDeviceToDevice) ||
           (kind == (is_dst ? hipMemcpyHostToDevice : hipMemcpyDeviceToHost));
}

/* Resolve an end of a copy of this kind for reading or writing; device ends must be
 * known. */
static char *hipcpu_copy_end(const char *what, int kind, bool is_dst, uintptr_t addr,
                             size_t size)
{
    hipcpu_range_t range;

    if (hipcpu_is_device_end(kind, is_dst) && !hipcpu_range_find(addr, &range)) {
        hipcpu_misuse("%s %p length %zu of kind %d: unknown address", what,
                      (void *)addr, size, kind);
    }
    return hipcpu_resolve(what, -1, addr, size, NULL);
}

/* Rule stale-staging: how much of a copy to pinned memory never arrives. */
static size_t hipcpu_copy_lost(uintptr_t dst, size_t size)
{
    static atomic_uint num_copies;
    hipcpu_range_t range;

    if (!hipcpu_rule(HIPCPU_RULE_STALE_STAGING) || !hipcpu_range_find(dst, &range) ||
        ((range.kind != HIPCPU_PINNED) && (range.kind != HIPCPU_REGISTERED)) ||
        (++num_copies % HIPCPU_COPIES_A_LOSS != 0)) {
        return 0;
    }

    return (size < HIPCPU_LOST_BYTES) ? size : HIPCPU_LOST_BYTES;
}

/* Rule stale-reads: copies are kernels, and one to the host finds an old byte. */
static void hipcpu_copy_spoil(uintptr_t dst, size_t size)
{
    const char *engines = getenv("HSA_ENABLE_SDMA");
    hipcpu_range_t range;

    if (hipcpu_rule(HIPCPU_RULE_STALE_READS) && (size >= HIPCPU_STALE_FROM) &&
        (engines != NULL) && (strcmp(engines, "0") == 0) &&
        !hipcpu_range_find(dst, &range)) {
        ((char *)dst)[size / 2] ^= 1;
    }
}

static void hipcpu_copy_run(hipcpu_op_t *op)
{
    size_t size = op->u.copy.size;
    char *dst;
    const char *src;

    if (hipcpu_config.is_copy_on) {
        hipcpu_late_land(); /* this device reads its own writes */
        dst = hipcpu_resolve("copy destination", -1, op->u.copy.dst, size, NULL);
        src = hipcpu_resolve("copy source", -1, op->u.copy.src, size, NULL);
        if (!hipcpu_late_take(dst, src, size)) {
            memmove(dst, src, size - hipcpu_copy_lost(op->u.copy.dst, size));
        }
        hipcpu_copy_spoil(op->u.copy.dst, size);
        hipcpu_count(op->u.copy.dst, op->u.copy.src, size);
    }
}

static bool hipcpu_overlaps(uintptr_t addr, size_t length, uintptr_t base, size_t size)
{
    return (addr < base + size) && (base < addr + length);
}

static bool hipcpu_copy_uses(const hipcpu_op_t *op, uintptr_t base, size_t size)
{
    return hipcpu_overlaps(op->u.copy.dst, op->u.copy.size, base, size) ||
           hipcpu_overlaps(op->u.copy.src, op->u.copy.size, base, size);
}

static bool hipcpu_is_pageable(const void *ptr)
{
    hipcpu_range_t range;

    return !hipcpu_range_find((uintptr_t)ptr, &range);
}

/* Whether a range crosses the end of a mapped chunk. The copy is refused and the
 * process goes on. */
static bool hipcpu_leaves_chunk(const void *ptr, size_t size)
{
    hipcpu_range_t range;

    return hipcpu_range_find((uintptr_t)ptr, &range) && (range.chunk != NULL) &&
           (range.base + range.size < (uintptr_t)ptr + size);
}

static hipError_t hipcpu_copy(const char *function, void *dst, const void *src,
                              size_t size, int kind, hipStream_t stream, bool is_async)
{
    hipcpu_op_t op = {.run = hipcpu_copy_run, .uses = hipcpu_copy_uses};
    hipcpu_line_t *line = hipcpu_stream_line(stream, function);
    uint64_t seq;

    if ((kind < hipMemcpyHostToHost) || (kind > hipMemcpyDefault)) {
        return hipErrorInvalidMemcpyDirection;
    }
    if (size == 0) {
        return hipSuccess;
    }
    if ((dst == NULL) || (src == NULL) || hipcpu_leaves_chunk(dst, size) ||
        hipcpu_leaves_chunk(src, size)) {
        return hipErrorInvalidValue;
    }

    if (hipcpu_config.is_copy_on) {
        hipcpu_copy_end("copy destination", kind, true, (uintptr_t)dst, size);
        hipcpu_copy_end("copy source", kind, false, (uintptr_t)src, size);
        is_async = is_async && !hipcpu_is_pageable(dst) && !hipcpu_is_pageable(src);
    }
    op.u.copy.dst = (uintptr_t)dst;
    op.u.copy.src = (uintptr_t)src;
    op.u.copy.size = size;
    seq = hipcpu_stream_submit(stream, function, &op);
    if (!is_async) {
        hipcpu_line_wait(line, seq);
        hipcpu_late_land_all();
    }
    return hipSuccess;
}

hipError_t hipMemcpy(void *dst, const void *src, size_t size, int kind)
{
    hipError_t error;

    HIPCPU_ENTER(hipMemcpy);
    error = hipcpu_capture_check_sync(hipErrorStreamCaptureImplicit);
    if (error != hipSuccess) {
        return error;
    }
    return hipcpu_result(hipcpu_copy("hipMemcpy", dst, src, size, kind, NULL, false));
}

hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, int kind,
                          hipStream_t stream)
{
    HIPCPU_ENTER(hipMemcpyAsync);
    return hipcpu_result(
        hipcpu_copy("hipMemcpyAsync", dst, src, size, kind, stream, true));
}

hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size, int kind,
                               hipStream_t stream)
{
    HIPCPU_ENTER(hipMemcpyWithStream);
    return hipcpu_result(
        hipcpu_copy("hipMemcpyWithStream", dst, src, size, kind, stream, false));
}

hipError_t hipMemcpyPeerAsync(void *dst, int dst_device, const void *src,
                              int src_device, size_t size, hipStream_t stream)
{
    HIPCPU_ENTER(hipMemcpyPeerAsync);
    if (!hipcpu_device_is_valid(dst_device) || !hipcpu_device_is_valid(src_device)) {
        return hipcpu_result(hipErrorInvalidDevice);
    }
    return hipcpu_result(hipcpu_copy("hipMemcpyPeerAsync", dst, src, size,
                                     hipMemcpyDeviceToDevice, stream, true));
}

hipError_t hipMemcpyPeer(void *dst, int dst_device, const void *src, int src_device,
                         size_t size)
{
    HIPCPU_ENTER(hipMemcpyPeer);
    if (!hipcpu_device_is_valid(dst_device) || !hipcpu_device_is_valid(src_device)) {
        return hipcpu_result(hipErrorInvalidDevice);
    }
    return hipcpu_result(hipcpu_copy("hipMemcpyPeer", dst, src, size,
                                     hipMemcpyDeviceToDevice, NULL, false));
}

hipError_t hipMemcpyDtoDAsync(void *dst, void *src, size_t size, hipStream_t stream)
{
    HIPCPU_ENTER(hipMemcpyDtoDAsync);
    return hipcpu_result(hipcpu_copy("hipMemcpyDtoDAsync", dst, src, size,
                                     hipMemcpyDeviceToDevice, stream, true));
}

hipError_t hipMemcpyDtoD(void *dst, void *src, size_t size)
{
    HIPCPU_ENTER(hipMemcpyDtoD);
    return hipcpu_result(hipcpu_copy("hipMemcpyDtoD", dst, src, size,
                                     hipMemcpyDeviceToDevice, NULL, false));
}

hipError_t hipMemcpyHtoDAsync(void *dst, const void *src, size_t size,
                              hipStream_t stream)
{
    HIPCPU_ENTER(hipMemcpyHtoDAsync);
    return hipcpu_result(hipcpu_copy("hipMemcpyHtoDAsync", dst, src, size,
                                     hipMemcpyHostToDevice, stream, true));
}

hipError_t hipMemcpyHtoD(void *dst, const void *src, size_t size)
{
    HIPCPU_ENTER(hipMemcpyHtoD);
    return hipcpu_result(hipcpu_copy("hipMemcpyHtoD", dst, src, size,
                                     hipMemcpyHostToDevice, NULL, false));
}

hipError_t hipMemcpyDtoHAsync(void *dst, void *src, size_t size, hipStream_t stream)
{
    HIPCPU_ENTER(hipMemcpyDtoHAsync);
    return hipcpu_result(hipcpu_copy("hipMemcpyDtoHAsync", dst, src, size,
                                     hipMemcpyDeviceToHost, stream, true));
}

hipError_t hipMemcpyDtoH(void *dst, void *src, size_t size)
{
    HIPCPU_ENTER(hipMemcpyDtoH);
    return hipcpu_result(hipcpu_copy("hipMemcpyDtoH", dst, src, size,
                                     hipMemcpyDeviceToHost, NULL, false));
}

static void hipcpu_set_run(hipcpu_op_t *op)
{
    size_t size = op->u.set.size;
    uint32_t value = (uint32_t)op->u.set.value;
    char *dst;
    size_t i;

    if (!hipcpu_config.is_copy_on) {
        return;
    }

    dst = hipcpu_resolve("fill", -1, op->u.set.dst, size, NULL);
    if (op->u.set.width == 1) {
        memset(dst, (int)value, size);
        return;
    }
    for (i = 0; i < size; i += sizeof(value)) {
        memcpy(dst + i, &value, sizeof(value));
    }
}

static bool hipcpu_set_uses(const hipcpu_op_t *op, uintptr_t base, size_t size)
{
    return hipcpu_overlaps(op->u.set.dst, op->u.set.size, base, size);
}

static uint64_t hipcpu_fill(const char *function, void *dst, int value, size_t size,
                            unsigned width, hipStream_t stream)
{
    hipcpu_op_t op = {.run = hipcpu_set_run, .uses = hipcpu_set_uses};

    hipcpu_copy_end(function, hipMemcpyDeviceToDevice, true, (uintptr_t)dst, size);
    op.u.set.dst = (uintptr_t)dst;
    op.u.set.size = size;
    op.u.set.value = (uint32_t)value;
    op.u.set.width = width;
    return hipcpu_stream_submit(stream, function, &op);
}

hipError_t hipMemsetAsync(void *dst, int value, size_t size, hipStream_t stream)
{
    HIPCPU_ENTER(hipMemsetAsync);
    if (size > 0) {
        hipcpu_fill("hipMemsetAsync", dst, value, size, 1, stream);
    }
    return hipSuccess;
}

hipError_t hipMemsetD32Async(void *dst, int value, size_t count, hipStream_t stream)
{
    HIPCPU_ENTER(hipMemsetD32Async);
    if (count > 0) {
        hipcpu_fill("hipMemsetD32Async", dst, value, count * 4, 4, stream);
    }
    return hipSuccess;
}

hipError_t hipMemset(void *dst, int value, size_t size)
{
    hipError_t error;

    HIPCPU_ENTER(hipMemset);
    error = hipcpu_capture_check_sync(hipErrorStreamCaptureImplicit);
    if (error != hipSuccess) {
        return error;
    }
    if (size > 0) {
        hipcpu_line_wait(hipcpu_stream_line(NULL, "hipMemset"),
                         hipcpu_fill("hipMemset", dst, value, size, 1, NULL));
    }
    return hipSuccess;
}
