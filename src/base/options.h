/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_OPTIONS_H
#define MKV_OPTIONS_H

/**
 * @file
 * The MORIKV_* options: one table of name, default, help and type.
 *
 * The only reader of the environment. A config object is not shared between threads.
 */

#include "morikv.h"

typedef enum mkv_fence { MKV_FENCE_NONE, MKV_FENCE_FLUSH } mkv_fence_t;

typedef enum mkv_overlap {
    MKV_OVERLAP_ALLOW,
    MKV_OVERLAP_WARN,
    MKV_OVERLAP_REFUSE
} mkv_overlap_t;

typedef enum mkv_sgl_mode { MKV_SGL_NO, MKV_SGL_YES, MKV_SGL_TRY } mkv_sgl_mode_t;

/** Ways to move a READ. */
typedef enum mkv_read_by { MKV_READ_AUTO, MKV_READ_GET, MKV_READ_PUSH } mkv_read_by_t;

/** Longest value as text, with its end: the ports of many NICs fit. */
#define MKV_OPTION_SIZE 1024

/** Parsed values, ready to use. Times in ms, sizes in bytes. */
typedef struct mkv_options {
    uint64_t backend; /**< mkv_backend_t; UNKNOWN is "auto" */
    uint64_t strict;
    char tls[MKV_OPTION_SIZE];
    char net_devices[MKV_OPTION_SIZE];
    uint64_t lanes;
    uint64_t sgl;         /**< mkv_sgl_mode_t */
    uint64_t fence;       /**< mkv_fence_t */
    uint64_t overlap;     /**< mkv_overlap_t */
    uint64_t read_by;     /**< mkv_read_by_t */
    uint64_t stage_below; /**< 0: nothing is staged, and peers get no staging */
    uint64_t max_inflight_ops;
    uint64_t max_inflight_bytes;
    uint64_t max_message;
    uint64_t max_queued;
    uint64_t max_peers;
    uint64_t bind_timeout;
    uint64_t xfer_timeout;
    uint64_t release_timeout;
    uint64_t drain_timeout;
    uint64_t peer_check;
    uint64_t peer_dead;
    char shm_dir[MKV_OPTION_SIZE];
    uint64_t wakeup;
    uint64_t progress_threads;
    uint64_t am_id;
    uint64_t log_level;
} mkv_options_t;

const mkv_options_t *mkv_config_options(const mkv_config_t *config);

/** Environment variables that name no option, each after a blank; empty: none. */
const char *mkv_config_ignored(const mkv_config_t *config);

/** Transports an own UCX context is to use, as UCX_TLS; empty: leave it to UCX. */
const char *mkv_config_tls(const mkv_config_t *config);

/** Call @a write with each "NAME=value". */
void mkv_config_dump(const mkv_config_t *config,
                     void (*write)(void *arg, const char *line), void *arg);

/** @return Copy owned by the caller, or NULL without memory. */
mkv_config_t *mkv_config_copy(const mkv_config_t *config);

#endif
