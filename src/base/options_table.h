/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_OPTIONS_TABLE_H
#define MKV_OPTIONS_TABLE_H

/**
 * @file
 * Every option: its name, default, help, type and range. Constant.
 */

#include "base/options.h"

#include <stddef.h>
#include <stdint.h>

#define MKV_NUM_OPTS 26u

typedef enum mkv_opt_type {
    MKV_OPT_BOOL,
    MKV_OPT_UINT,
    MKV_OPT_SIZE,
    MKV_OPT_TIME,
    MKV_OPT_ENUM,
    MKV_OPT_STRING
} mkv_opt_type_t;

typedef struct mkv_opt {
    const char *name;
    const char *dfl;
    const char *help;
    size_t offset;
    mkv_opt_type_t type;
    const char *const *values; /* MKV_OPT_ENUM: index is the value */
    uint64_t min, max;         /* of numbers, sizes and times */
} mkv_opt_t;

/** Largest value of the type, "inf" */
#define MKV_NO_LIMIT UINT64_MAX

#define MKV_MAX_PROGRESS_THREADS 64

extern const mkv_opt_t mkv_opts[MKV_NUM_OPTS];

#endif
