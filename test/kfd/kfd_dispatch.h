/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef KFD_DISPATCH_H
#define KFD_DISPATCH_H

/**
 * @file
 * Kernels that a queue of the stand-in dispatches, and the interface of an interpreter.
 *
 * A dispatch goes to the interpreter that KFDCPU_INTERPRETER names, a shared object
 * that defines kfd_interpret(). Kernels that it does not take, and all kernels without
 * it, are played by the C functions of kfd_kernels.c, which are found by the kernel's
 * symbol. A kernel that neither knows ends the process.
 */

#include <stdbool.h>
#include <stdint.h>

/** Fields of a kernel dispatch packet (HSA Runtime 1.2, 2.9.6), and where it runs. */
typedef struct kfd_dispatch {
    unsigned gpu;           /**< Number of the GPU, from 0 */
    unsigned target;        /**< gfx_target_version of the topology, such as 90402 */
    uint64_t packet;        /**< Address of the packet in its ring */
    uint64_t kernel_object; /**< Address of the kernel descriptor (64 bytes) */
    uint64_t kernarg;       /**< Address of the kernel's arguments */
    uint32_t grid[3];       /**< Work-items */
    uint16_t workgroup[3];  /**< Work-items of a workgroup */
    uint32_t private_size;  /**< Scratch of a work-item, in bytes */
    uint32_t group_size;    /**< LDS of a workgroup, in bytes */
    uint16_t acquire_fence; /**< 0 none, 1 agent, 2 system */
    uint16_t release_fence; /**< 0 none, 1 agent, 2 system */
} kfd_dispatch_t;

/** Services of the stand-in for an interpreter. GPU addresses are addresses of the
 * process. */
typedef struct kfd_dispatch_host {
    /** Whether the range is mapped to the GPU (MAP_MEMORY_TO_GPU or SVM attributes). */
    bool (*may_access)(unsigned gpu, uint64_t address, uint64_t length);

    /** Raise a memory fault as amdkfd does; the HSA runtime then ends the process. */
    void (*fault)(unsigned gpu, uint64_t address);

    /** Symbol of a kernel descriptor, with ".kd"; NULL if no code object is around it.
     */
    const char *(*kernel_name)(uint64_t kernel_object);

    /** Whether the queue was destroyed and the kernel has to end. */
    bool (*stopped)(const kfd_dispatch_t *dispatch);
} kfd_dispatch_host_t;

/**
 * Run one dispatch to its end.
 *
 * Called by the thread of a queue; several queues call at the same time. All stores of
 * the kernel are visible to the process at the return.
 *
 * @return 0 The kernel has run.
 * @return 1 The interpreter does not take this kernel; nothing has happened.
 */
int kfd_interpret(const kfd_dispatch_t *dispatch, const kfd_dispatch_host_t *host);

typedef int (*kfd_interpret_t)(const kfd_dispatch_t *dispatch,
                               const kfd_dispatch_host_t *host);

/** Run a dispatch by the interpreter or by a C function; end the process if neither
 * can. */
void kfd_dispatch(const kfd_dispatch_t *dispatch);

#endif
