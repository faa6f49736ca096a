/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef HIPCPU_RULES_H
#define HIPCPU_RULES_H

/**
 * @file
 * Effects of AMD's runtimes on correct programs, each rule by its release.
 *
 * docs/dev/hipcpu.md has a row for each: the effect, its source, and the test.
 */

#include <stdbool.h>

/** A rule; the names in HIPCPU_RULES are those of the table in hipcpu_rules.c. */
typedef enum hipcpu_rule {
    HIPCPU_RULE_BUFFER_ID_AGAIN, /**< A buffer's number comes again with its address */
    HIPCPU_RULE_CALLBACK_LOST,   /**< A callback behind copies is never called */
    HIPCPU_RULE_CAPTURED_EVENT, /**< Asking an event of a stream that captures ends that
                                 */
    HIPCPU_RULE_CAPTURE_ALLOC,  /**< Calls that allocate fail while a thread captures */
    HIPCPU_RULE_CAPTURE_MARK,   /**< Marks after copies end captures, too */
    HIPCPU_RULE_CAPTURE_SYNC,   /**< Synchronous copies end captures in all modes */
    HIPCPU_RULE_CAPTURE_STREAM, /**< Stream queries end others' captures */
    HIPCPU_RULE_CAPTURE_EVENT,  /**< Event queries end others' captures, too */
    HIPCPU_RULE_CAPTURE_EVENT_ANY, /**< Queries end captures even in the relaxed mode */
    HIPCPU_RULE_CLOSE_LOCKS,       /**< All other calls wait for a closing */
    HIPCPU_RULE_CLOSE_RACES,       /**< Closing crashes beside calls of other threads */
    HIPCPU_RULE_CLOSE_WAITS,       /**< Closing memory waits for the whole device */
    HIPCPU_RULE_COMMANDS_KEPT,     /**< Commands live until the stream has a marker */
    HIPCPU_RULE_COMMANDS_LEAK,     /**< Commands are always leaked, and large */
    HIPCPU_RULE_DMABUF_OFFSET,     /**< Each dma-buf's offset is reported as 0 */
    HIPCPU_RULE_EARLY_FLAG,        /**< A flag passes its bytes whatever the code */
    HIPCPU_RULE_ERRORS_OVERWRITTEN, /**< Each call overwrites the last error */
    HIPCPU_RULE_EXIT_ABORTS,        /**< exit() aborts a process that exported */
    HIPCPU_RULE_EXPORT_LEAKS,       /**< An exported allocation is never given back */
    HIPCPU_RULE_EXPORT_VMM_ENDS,    /**< Exporting mapped memory ends the process */
    HIPCPU_RULE_FEW_QUEUES,         /**< Streams share hardware queues */
    HIPCPU_RULE_IPC_ADDRESS,        /**< A handle names an address of the exporter */
    HIPCPU_RULE_IPC_OVERLAP,        /**< Overlaps of freed memory do not open */
    HIPCPU_RULE_IPC_SERVER,         /**< Opening queries the exporter's process */
    HIPCPU_RULE_LATE_CACHES,        /**< A flag from inside a kernel passes its bytes */
    HIPCPU_RULE_LATE_END,           /**< Work ends later than its flag is written */
    HIPCPU_RULE_LATE_EVENT,         /**< With late-mark: an event releases nothing */
    HIPCPU_RULE_LATE_MARK,          /**< A number behind a copy passes its bytes */
    HIPCPU_RULE_MARK_LOST,          /**< Numbers behind copies are not written */
    HIPCPU_RULE_ODD_SIZE,           /**< hipIpcGetMemHandle() of an odd size ends */
    HIPCPU_RULE_OLD_DRIVER,         /**< The driver exports no dma-bufs */
    HIPCPU_RULE_REPLAY_STALE,       /**< Each 16th replay of a graph lacks its end */
    HIPCPU_RULE_RETAIN_CRASH,       /**< hipMemRetainAllocationHandle() reads NULL */
    HIPCPU_RULE_RETAIN_NO_REFERENCE, /**< Retain takes no reference */
    HIPCPU_RULE_OPEN_OTHER,          /**< A handle opens as other, shorter memory */
    HIPCPU_RULE_REFUSAL_STICKS,      /**< A refused copy makes all later ones fail */
    HIPCPU_RULE_STALE_MAP,           /**< Kernels find an old byte behind a remap */
    HIPCPU_RULE_STALE_READS,         /**< Without engines, reads find an old byte */
    HIPCPU_RULE_STALE_STAGING,       /**< Copies to pinned memory lose their ends */
    HIPCPU_RULE_WRONG_BYTE,          /**< A kernel changes one byte of each long run */
    HIPCPU_NUM_RULES
} hipcpu_rule_t;

/** Whether a rule holds now. */
bool hipcpu_rule(hipcpu_rule_t rule);

/** Read HIPCPU_RULES; called once, after the release is known. */
void hipcpu_rules_read(void);

#endif
