/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_ABI_H
#define MKV_ABI_H

/**
 * @file
 * Structures of callers compiled with an older or a newer morikv.h. Pure.
 *
 * The library works on structures of its own size: it copies the caller's values in,
 * and results out.
 */

#include "base/log.h"

/** Public structure with a size member. */
typedef struct mkv_struct {
    const char *name;
    size_t known;   /**< Size in this build */
    size_t minimum; /**< Size in the first release */
    struct {
        const char *name;
        size_t offset, size;
    } reserved[3]; /**< Members that must be zero */
} mkv_struct_t;

extern const mkv_struct_t mkv_struct_open_params, mkv_struct_region,
    mkv_struct_peer_attr, mkv_struct_map_params, mkv_struct_map_attr,
    mkv_struct_plan_attr, mkv_struct_xfer_params, mkv_struct_sel, mkv_struct_gate,
    mkv_struct_xfer_attr, mkv_struct_leg_attr, mkv_struct_stats, mkv_struct_event,
    mkv_struct_op_params, mkv_struct_op_attr;

/**
 * Copy in.
 *
 * @param [out] copy  A structure of the library's size; its size member says so.
 *
 * @return MKV_OK
 * @return MKV_ERR_INVALID      The size is less than any release has had.
 * @return MKV_ERR_UNSUPPORTED  A member is set that this library does not support.
 */
mkv_status_t mkv_struct_read(const mkv_log_t *log, const mkv_struct_t *type,
                             const void *given, void *copy);

/**
 * Copy out, as far as there is room; the rest of a larger structure becomes zero, and
 * the size member stays the caller's.
 *
 * @return MKV_OK, or MKV_ERR_INVALID: the size is less than any release has had.
 * Nothing was written then.
 */
mkv_status_t mkv_struct_write(const mkv_log_t *log, const mkv_struct_t *type,
                              const void *values, void *given);

/** Like mkv_struct_write(), for structures of this size without a size member. */
void mkv_struct_write_sized(const mkv_struct_t *type, const void *values, size_t size,
                            void *given);

/** @return MKV_OK, or MKV_ERR_UNSUPPORTED: a reserved member is not zero. */
mkv_status_t mkv_units_check_reserved(const mkv_log_t *log, const mkv_units_t *units,
                                      size_t num_units);

#endif
