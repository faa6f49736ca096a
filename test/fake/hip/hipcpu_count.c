/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Bytes copied in each direction, so that a test can detect a copy through the host.
 * All code that moves bytes counts them, copies and kernels alike.
 */

#include "hipcpu.h"
#include "hipcpu_impl.h"

static atomic_ulong hipcpu_bytes[HIPCPU_HOST_TO_HOST + 1];

/* Managed memory may be the host's at any moment, and counts as such. */
static bool hipcpu_is_of_device(uintptr_t addr)
{
    hipcpu_range_t range;

    return hipcpu_range_find(addr, &range) &&
           ((range.kind == HIPCPU_DEVICE) || (range.kind == HIPCPU_IMPORTED));
}

void hipcpu_count(uintptr_t dst, uintptr_t src, size_t size)
{
    if (hipcpu_is_of_device(src)) {
        hipcpu_bytes[hipcpu_is_of_device(dst) ? HIPCPU_DEVICE_TO_DEVICE
                                              : HIPCPU_DEVICE_TO_HOST] += size;
    } else {
        hipcpu_bytes[hipcpu_is_of_device(dst) ? HIPCPU_HOST_TO_DEVICE
                                              : HIPCPU_HOST_TO_HOST] += size;
    }
}

unsigned long hipcpu_copied(hipcpu_direction_t direction)
{
    return hipcpu_bytes[direction];
}
