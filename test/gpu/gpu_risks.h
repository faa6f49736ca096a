/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef GPU_RISKS_H
#define GPU_RISKS_H

/**
 * @file
 * Common parts of gpu_risks.
 */

#include "xgmi/memory/xgmi_export.h"
#include "xgmi/copy/xgmi_queue.h"

#include <sys/types.h>

#define RISKS_LENGTH ((size_t)8 << 20)

/** The process' runtime, mappings and waker; its own control page is open. */
extern const muct_gpu_t *gpu;
extern muct_xgmi_map_t *map;
extern muct_xgmi_wake_t *wake;
extern muct_xgmi_self_t self;


/** Namespaces of the other process. */
typedef enum risks_where {
    RISKS_HERE,
    RISKS_OTHER_NETWORK,
    RISKS_OTHER_PIDS,
    RISKS_NUM_WHERE
} risks_where_t;

/** Process that allocates and exports. */
typedef struct risks_exporter {
    int commands;
    int answers;
    pid_t pid;
} risks_exporter_t;

/** Memory of another process. */
typedef struct risks_memory {
    int error; /**< System error if the process could not be there, or 0 */
    muct_xgmi_export_t export;
    uint64_t owner;
    uint32_t slot, generation;
} risks_memory_t;


/** A line of the report; "BROKEN" makes the program fail. */
void tell(const char *risk, const char *how, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** End the program when a thing that the runtime must do has failed. */
void need(int is_good, const char *what);

double now_ms(void);

/** A function of the runtime in use, or NULL. */
void *find_symbol(const char *name);

/** The window of a key in the queue's open batch; waits until its memory is open. */
const muct_xgmi_window_t *risks_find(muct_xgmi_queue_t *used,
                                     const muct_xgmi_rkey_t *rkey);

/** Work that lasts a while, on a stream of its own; returns the stream. */
void *busy_start(void);
void busy_end(void *stream);


/** Start a process before this one uses the runtime; @a dir for its control page. */
void exporter_start(risks_exporter_t *exporter, risks_where_t where, const char *dir);

/** Have it free what it had, and allocate and export. */
void exporter_alloc(const risks_exporter_t *exporter, risks_memory_t *memory);

/** Are there ways to processes in other namespaces? */
void risk_namespaces(const risks_exporter_t *network, const risks_exporter_t *pids);

/** Does a peer's death block the survivor while the device is busy? */
void risk_dead_peer(const risks_exporter_t *exporter);


/** Is memory that the application has mapped chunk by chunk described correctly? */
void risk_chunks(void);


/** Does a kernel that spins already ever see an old byte behind the flag? */
void risk_consumer(unsigned rounds);

#endif
