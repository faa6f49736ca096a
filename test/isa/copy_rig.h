/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef COPY_RIG_H
#define COPY_RIG_H

/**
 * @file
 * The copy kernel's machine code of the bundle that the module ships, with lists to
 * copy.
 */

#include "isa.h"
#include "isa_code.h"

#include "xgmi/copy/xgmi_list.h"

#define COPY_RIG_MAX_ENTRIES 2000
#define COPY_RIG_SEQUENCE 77

typedef struct copy_rig {
    const char *arch;
    bool has_flag;   /**< The code has an instruction that writes its caches back */
    isa_code_t code; /**< May be changed between launches */
    isa_gpu_t *gpu;
    uint8_t *src; /**< Bytes that are copied, of exactly this size */
    uint8_t *dst;
    uint8_t *expected; /**< Contents of dst when the flag is stored */
    size_t size;
    muct_xgmi_entry_t *memory;
    muct_xgmi_list_t list;
    uint32_t arrivals;
    uint32_t flag;
    uint8_t kernarg[sizeof(muct_xgmi_copy_args_t) + 256];
    unsigned num_flags;  /**< Times that the flag was stored */
    bool flag_was_early; /**< Some byte was not in memory then */
} copy_rig_t;


/** Architectures of the bundle, to loop over; NULL at the end. */
extern const char *const copy_rig_archs[];


/** Load the code and make buffers of @a size bytes, the source with random bytes. */
void copy_rig_init(copy_rig_t *rig, const char *arch, isa_timing_t timing,
                   uint64_t seed, size_t size);


void copy_rig_destroy(copy_rig_t *rig);


/** Bytes 0 in dst and expected, an empty list. */
void copy_rig_clear(copy_rig_t *rig);


/** Add a copy of bytes of src to bytes of dst. @return false: the list is full. */
bool copy_rig_add(copy_rig_t *rig, size_t to, size_t from, size_t length);


/** Add a run of pieces, by offsets and strides in bytes. */
bool copy_rig_add_run(copy_rig_t *rig, const muct_xgmi_strided_t *run);


/**
 * Run the list.
 *
 * @param [in] with_tail  Give half of the tiles to a tail, which short lists have not.
 *
 * @return 0   It ran; dst holds the bytes that the host sees after the launch.
 * @return -1  isa_gpu_error(rig->gpu) has the reason.
 */
int copy_rig_run(copy_rig_t *rig, uint32_t max_blocks, uint32_t block_size,
                 bool with_tail, isa_scope_t acquire);

#endif
