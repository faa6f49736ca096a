/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef HIPCPU_H
#define HIPCPU_H

/**
 * @file
 * Controls of libhipcpu, the HIP runtime on the CPU, for tests in its process.
 *
 * The runtime obeys AMD's rules for correct programs. A call that is wrong under all
 * rules (freeing twice, a copy beyond an allocation, a stream destroyed while it works)
 * ends the process by abort(3) with a text, so that a test fails where the fault is.
 *
 * Environment, read at the first call into the runtime:
 *
 *   HIPCPU_VERSION=6.4    ROCm release whose rules hold: 5.7 to 7.3
 *   HIPCPU_RULES=LIST     rules that also restrict correct programs: "amd" for all of
 *                         the release, or names of docs/dev/hipcpu.md, with a minus in
 *                         front to leave one out
 *   HIPCPU_ARCH=gfx942    architecture of the devices; gfx1100 has no write-back
 *   HIPCPU_DEVICES=2      devices of the machine, shared by all processes
 *   HIPCPU_PARTITIONS=1   devices a GPU is cut into, functions of its PCI address
 *   HIP_VISIBLE_DEVICES   devices that this process sees, as with AMD
 *   HIPCPU_MEMORY=BYTES   memory of a device (192 GiB, taken when touched)
 *   HIPCPU_COPY=0         copies and kernels move no bytes and end at once, for
 *                         measuring the host's share
 *   HIPCPU_INLINE=1       work is done inside the call that submits it
 *   HIPCPU_DELAY=USEC     extra time of every piece of work
 *   HIPCPU_IPC_TIMEOUT=10000  milliseconds to wait for an exporter (rule ipc-server)
 *   HIPCPU_HOLD=FILE      no stream works while FILE exists
 *   HIPCPU_GUARD=1        the CPU may not touch device memory: SIGSEGV
 *   HIPCPU_FAIL=LIST      faults as with hipcpu_fail(): "hipMalloc:3:2,..." makes
 *                         the third hipMalloc fail with error 2; call 0: all do
 */

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/** Objects that @ref hipcpu_live counts */
typedef enum hipcpu_object {
    HIPCPU_ALLOCATIONS, /**< hipMalloc and its kin */
    HIPCPU_HOST_MEMORY, /**< hipHostMalloc and hipHostRegister */
    HIPCPU_MAPPINGS,    /**< hipIpcOpenMemHandle, counting every open */
    HIPCPU_STREAMS,
    HIPCPU_EVENTS,
    HIPCPU_MODULES,
    HIPCPU_COMMANDS /**< Kept behind launches (rule commands-kept) */
} hipcpu_object_t;


/** Directions that @ref hipcpu_copied counts */
typedef enum hipcpu_direction {
    HIPCPU_DEVICE_TO_DEVICE, /**< Within a device, or between devices or processes */
    HIPCPU_DEVICE_TO_HOST,   /**< Pinned, registered, managed or any other memory */
    HIPCPU_HOST_TO_DEVICE,
    HIPCPU_HOST_TO_HOST
} hipcpu_direction_t;


/**
 * Let a call fail.
 *
 * @param [in] function  Name, such as "hipIpcOpenMemHandle".
 * @param [in] nth       Number of the call from now on: 1 is the next one, 0 all of
 * them.
 * @param [in] error     Its return value; nothing else happens.
 */
void hipcpu_fail(const char *function, unsigned nth, int error);


/** Forget all faults and release everything that is held. */
void hipcpu_reset(void);


/** Calls of a function so far. */
unsigned long hipcpu_calls(const char *function);


/** Objects of a kind that live in this process. */
size_t hipcpu_live(hipcpu_object_t object);


/** Bytes that copies and kernels of this process have moved so far. */
unsigned long hipcpu_copied(hipcpu_direction_t direction);


/** Whether an address belongs to memory of the runtime. */
bool hipcpu_is_mapped(const void *ptr);


/** Follow the rules of another release from now on, e.g. (5, 7). */
void hipcpu_set_version(int major, int minor);


/** Let a rule of docs/dev/hipcpu.md hold from now on, or not, whatever the release. */
void hipcpu_set_rule(const char *name, bool is_on);


/** Whether copies and kernels move bytes. */
void hipcpu_set_copy(bool on);


/**
 * Let a stream stop before its next piece of work; NULL: every stream of the
 * process, those made later too.
 */
void hipcpu_hold(void *stream);


/** End @ref hipcpu_hold. */
void hipcpu_release(void *stream);


/** Let an event not be ready until released, whatever its stream does. */
void hipcpu_hold_event(void *event);


/** End @ref hipcpu_hold_event. */
void hipcpu_release_event(void *event);


/** Pieces of work that a stream has not ended yet. */
size_t hipcpu_pending(void *stream);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
