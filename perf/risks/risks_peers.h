/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RISKS_PEERS_H
#define RISKS_PEERS_H

/**
 * @file
 * Risks with other processes: their namespaces, and their ends.
 */

#include "perf/risks/risks_base.h"

#include <sys/types.h>

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
    const char *failed; /**< Step that failed in the other namespace, or NULL */
    int error;          /**< errno value of that step */
    muct_xgmi_export_t export;
    uint64_t owner;
    uint32_t slot, generation;
} risks_memory_t;


/** Start a process before this one uses the runtime; @a dir for its control page. */
void risks_exporter_start(risks_exporter_t *exporter, risks_where_t where,
                          const char *dir);

/** Make the exporter free its old memory, then allocate and export new memory. */
void risks_exporter_alloc(const risks_exporter_t *exporter, risks_memory_t *memory);

/** Can processes in other namespaces be reached? */
void risk_namespaces(const risks_exporter_t *network, const risks_exporter_t *pids);

/**
 * Does a peer's death block the survivor while the device is busy? Kills one exporter
 * after the other, until one death does not.
 */
void risk_dead_peer(const risks_exporter_t *exporters, int num_exporters);

#endif
