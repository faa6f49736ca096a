/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RISKS_BASE_H
#define RISKS_BASE_H

/**
 * @file
 * What all risks need: a report, the runtime in use, and work that lasts.
 */

#include "xgmi/memory/xgmi_export.h"
#include "xgmi/copy/xgmi_queue.h"

#define RISKS_LENGTH ((size_t)8 << 20)

/* Copied in three ways: a run for an engine, pieces by a launch, one by a call */
#define RISKS_RUN ((size_t)4 << 20)
#define RISKS_PIECE ((size_t)8192)
#define RISKS_PIECES 64
#define RISKS_COPIED (RISKS_RUN + ((RISKS_PIECES + 1) * RISKS_PIECE))

/** The process' runtime, mappings and waker; its own control page is open. */
extern const muct_gpu_t *gpu;
extern muct_xgmi_map_t *map;
extern muct_xgmi_wake_t *wake;
extern muct_xgmi_self_t self;

/** Two times RISKS_LENGTH of the first device. */
extern char *local, *remote;


/** A line of the report; "BROKEN" is counted. */
void risks_report(const char *risk, const char *how, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

unsigned risks_num_broken(void);

/** Exit when a call that the runtime must support has failed. */
void risks_need(int is_good, const char *what);

double risks_now_ms(void);

/** Whether no copy takes as long: a minute, or RISKS_LIMIT in seconds, are over. */
bool risks_is_late(double start_ms);

/**
 * Find functions of the runtime in use.
 *
 * @param [out] functions  Structure of as many pointers, in the order of @a names; set
 *                         only if all are found.
 *
 * @return NULL, or the first name that the runtime lacks.
 */
const char *risks_bind(const char *const *names, size_t count, void *functions);

/** The window of a key in the queue's open batch; waits until its memory is open. */
const muct_xgmi_window_t *risks_find(muct_xgmi_queue_t *used,
                                     const muct_xgmi_rkey_t *rkey);

/** Fill a GPU's memory with words of a pattern; check whether it holds them. */
void risks_fill(char *memory, size_t length, uint32_t seed);
bool risks_is_filled(const char *memory, size_t length, uint32_t seed);

/** Work that lasts a while, on a stream of its own; returns the stream. */
void *risks_busy_start(void);
void risks_busy_end(void *stream);

#endif
