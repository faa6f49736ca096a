/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef ISA_H
#define ISA_H

/**
 * @file
 * Run a kernel of an AMD code object on the CPU, instruction by instruction.
 *
 * Machine code is disassembled by AMD's code object manager (libamd_comgr) and its text
 * is executed. Addresses of the GPU are addresses of the process. Anything that is not
 * implemented ends the launch with an error that names the instruction.
 *
 * Stores and loads go through the caches that LLVM's memory model describes
 * (AMDGPUUsage, "Memory Model GFX90A", "GFX942", "GFX10-GFX11"): a vector L1 per
 * workgroup, an L2 per die. Only memory is visible to the host and to other GPUs.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


/** When memory operations happen, between their issue and the wait for them. */
typedef enum isa_timing {
    ISA_EARLY,  /**< At once, and stores go through to memory */
    ISA_LATE,   /**< At the wait; accesses that bypass caches at once */
    ISA_RANDOM, /**< Any time in between, and dirty lines may be evicted */
} isa_timing_t;


/** Scope of a fence of the dispatch packet (HSA 1.2, 2.9.1). */
typedef enum isa_scope {
    ISA_SCOPE_NONE,
    ISA_SCOPE_AGENT,
    ISA_SCOPE_SYSTEM,
} isa_scope_t;


/** The memory around a GPU; every function may be NULL. */
typedef struct isa_memory {
    void *arg; /**< Passed to each function */

    /** Whether the GPU may access this range; default: yes */
    bool (*may_access)(void *arg, uint64_t address, size_t length);

    /** Whether this byte bypasses the L2 (MTYPE UC: the host's); default: no */
    bool (*is_uncached)(void *arg, uint64_t address);

    /** Memory has new bytes here, which the host may read */
    void (*written)(void *arg, uint64_t address, size_t length);

    /** Whether the launch has to end; default: no */
    bool (*stopped)(void *arg);
} isa_memory_t;


/** A kernel launch, as its dispatch packet describes it. */
typedef struct isa_launch {
    uint64_t kernel_object; /**< Address of the kernel descriptor */
    uint64_t kernarg;       /**< Address of the arguments */
    uint64_t packet;        /**< Address of the packet, or 0 */
    uint32_t grid[3];       /**< Work-items */
    uint16_t workgroup[3];  /**< Work-items of a workgroup */
    uint32_t group_size;    /**< LDS of a workgroup, in bytes */
    isa_scope_t acquire;    /**< Caches invalidated before the launch */
    isa_scope_t release;    /**< Caches written back after it */
} isa_launch_t;


/** A GPU: its caches, and the machine code it has decoded. One thread at a time. */
typedef struct isa_gpu isa_gpu_t;


/**
 * Make a GPU.
 *
 * @param [in] arch    "gfx942" or another one that isa_arch_is_known() accepts.
 * @param [in] memory  Copied; NULL: all memory is the GPU's.
 * @param [in] timing  When memory operations happen.
 * @param [in] seed    Of the schedule and of ISA_RANDOM.
 *
 * @return NULL  The architecture is not known, or there is no memory.
 */
isa_gpu_t *isa_gpu_create(const char *arch, const isa_memory_t *memory,
                          isa_timing_t timing, uint64_t seed);


void isa_gpu_destroy(isa_gpu_t *gpu);


/** Whether the interpreter has the rules of this architecture. */
bool isa_arch_is_known(const char *arch);


/**
 * Run a kernel to its end.
 *
 * @return 0   It has run; bytes that were not released may still be in caches.
 * @return -1  It has not; isa_gpu_error() has the reason.
 */
int isa_gpu_launch(isa_gpu_t *gpu, const isa_launch_t *launch);


/**
 * Check whether a kernel can be launched: its requirements, and its instructions up to
 * the first s_endpgm.
 *
 * @return 0   Launch is possible up to there.
 * @return -1  isa_gpu_error() names the missing instruction; nothing has happened.
 */
int isa_gpu_check_launch(isa_gpu_t *gpu, const isa_launch_t *launch);


/** Why the last launch or decoding failed. */
const char *isa_gpu_error(const isa_gpu_t *gpu);


/**
 * Decode the instructions of a range without running them.
 *
 * @return 0   All of them are implemented.
 * @return -1  isa_gpu_error() names the first that is not.
 */
int isa_gpu_check_code(isa_gpu_t *gpu, uint64_t address, uint64_t length);


/**
 * Text of an instruction, as LLVM prints it, whether it is implemented or not.
 *
 * @param [out] size_p  Its bytes.
 *
 * @return Valid until the next call; "" if there is none.
 */
const char *isa_gpu_text(isa_gpu_t *gpu, uint64_t address, uint64_t *size_p);


/** Instructions executed so far, for a test that must check that there were some. */
uint64_t isa_gpu_executed(const isa_gpu_t *gpu);

#endif
