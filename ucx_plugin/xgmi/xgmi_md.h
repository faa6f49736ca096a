/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_MD_H
#define MUCT_XGMI_MD_H

/**
 * @file
 * Memory domain of mori_xgmi: GPU memory registered here and keys of peers' memory.
 *
 * Memory types. Device memory of the GPU runtime is ROCM memory. It is registered,
 * detected and exported. Host memory is pinned when the application maps it with UCX
 * and it belongs to a file or is large. Other host memory is copied through pinned
 * buffers, or by copy calls for lists and for pieces that are longer than a buffer.
 * Other processes reach host memory that is a shared mapping of a file in memory, and
 * have the kernel copy other host memory that the application has mapped with UCX.
 *
 * Keys. A memory handle gets a slot of this process's control page with its first key.
 * Deregistration makes the keys void; with the invalidate flag its completion comes
 * when no other process copies under them (see xgmi_inval.h).
 */

#include "base/muct_gpu.h"
#include "base/memory/muct_pin.h"
#include "base/muct_transport.h"
#include "xgmi/memory/xgmi_export.h"
#include "xgmi/memory/xgmi_file.h"
#include "xgmi/memory/xgmi_global.h"
#include "xgmi/xgmi_inval.h"
#include "xgmi/memory/xgmi_map.h"
#include "xgmi/peer/xgmi_peer.h"
#include "xgmi/copy/xgmi_queue.h"

#include <stdatomic.h>
#include <stdbool.h>


/** A memory domain. */
typedef struct muct_xgmi_md {
    uct_md_t super;
    const muct_gpu_t *gpu;
    muct_xgmi_map_t *map; /**< Map of the process */
    muct_xgmi_self_t self;
    muct_xgmi_invals_t invals;
    bool is_first; /**< UCX has no ROCm component, so this module takes its place */
    bool is_detecting;
    bool has_host;  /**< Host memory is registered, too */
    uint64_t *word; /**< For copies of private memory (xgmi_private.h), or NULL */
    pid_t word_pid; /**< Process that allocated the word */
} muct_xgmi_md_t;

/** Registered memory. */
typedef struct muct_xgmi_mem {
    uint64_t address;
    uint64_t length;
    int device; /**< Device of the memory; for host memory: the device that copies */
    bool is_host;
    bool is_private;       /**< Not memory of a file that peers can map */
    bool may_copy;         /**< Peers may have the kernel copy it, if it is private */
    muct_pin_t pin;        /**< Pin of host memory */
    muct_xgmi_file_t file; /**< File of host memory, once a key was packed */
    bool has_slot;
    bool may_invalidate; /**< A key was packed with the flag for invalidation */
    uint32_t slot;
    uint32_t generation;
    muct_xgmi_export_t export;  /**< Allocation of the last key */
    muct_xgmi_export_t slot_of; /**< The allocation that the slot is for */
} muct_xgmi_mem_t;


/** Name of the component and its memory domain */
#define MUCT_XGMI_NAME "mori_xgmi"

/** The component, with room for members that point releases append. */
typedef MUCT_ABI_PADDED(uct_component_t) muct_xgmi_component_t;

extern muct_xgmi_component_t muct_xgmi_component;


/** Device that copies when no operand determines it: the one whose memory was
 * registered last. */
int muct_xgmi_md_default_device(const muct_xgmi_md_t *md);

#endif
