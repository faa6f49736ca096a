/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef HIPCPU_IMPL_H
#define HIPCPU_IMPL_H

/**
 * @file
 * Declarations shared by the files of libhipcpu.
 *
 * Memory (hipcpu_memory.c) is a table of address ranges. Work (hipcpu_line.c) is done
 * on lines: a line is an ordered queue with a thread of its own, started with its first
 * piece of work. A stream has a line, and so has each device for the default stream;
 * events remember a line and a position on it.
 */

#include "hipcpu.h"
#include "hipcpu_abi.h"

#include "perf/risks/risks_kernel.h"
#include "xgmi/copy/xgmi_kernel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define HIPCPU_MAX_DEVICES 16
#define HIPCPU_PAGE_SIZE 4096

/** Seconds after which waiting for held work is a fault of the test */
#define HIPCPU_PATIENCE 120


/* core */

typedef struct hipcpu_config {
    int major;
    int minor;
    int num_devices;                 /**< Visible to this process */
    int devices[HIPCPU_MAX_DEVICES]; /**< Their numbers on the machine */
    size_t memory;                   /**< Bytes of a device */
    int partitions;                  /**< Devices of one GPU */
    atomic_bool is_copy_on;
    bool is_inline;
    bool is_guarded;
    unsigned delay_us;
    unsigned ipc_timeout_ms;
    unsigned ipc_delay_ms; /**< Delay of each opening */
    const char *hold_file;
    const char *arch; /**< Name like "gfx942" */
} hipcpu_config_t;

extern hipcpu_config_t hipcpu_config;

/** Calls of one function of the interface. */
typedef struct hipcpu_call {
    const char *name;
    atomic_ulong count;
    struct hipcpu_call *next;
} hipcpu_call_t;

/** Count a call. @return The error that it must return. */
int hipcpu_enter(hipcpu_call_t *call);

/* Every function of the interface begins with this, hence the return. */
/** Apply the rules close-locks and close-races: wait, or end the process, while another
 * thread closes memory of a different process. */
void hipcpu_close_wait(const char *call);

#define HIPCPU_ENTER(_name)                                                            \
    do {                                                                               \
        static hipcpu_call_t call_ = {.name = #_name};                                 \
        int error_ = hipcpu_enter(&call_);                                             \
        if (error_ != hipSuccess) {                                                    \
            return error_;                                                             \
        }                                                                              \
    } while (0)

/** End the process: the caller broke a rule for all programs. */
void hipcpu_misuse(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/** Remember and pass on the result of a call. */
hipError_t hipcpu_result(hipError_t error);

/** Keep the memory of a dead handle for a while, so that its use is seen. */
void hipcpu_quarantine(void *handle);

extern atomic_long hipcpu_counts[HIPCPU_COMMANDS + 1];


/* devices */

int hipcpu_device_current(void);
bool hipcpu_device_is_valid(int device);
bool hipcpu_device_can_reach(int device, int peer);


/* memory */

typedef enum hipcpu_kind {
    HIPCPU_DEVICE,
    HIPCPU_MANAGED,
    HIPCPU_PINNED,     /**< hipHostMalloc */
    HIPCPU_REGISTERED, /**< hipHostRegister */
    HIPCPU_IMPORTED,   /**< hipIpcOpenMemHandle */
    HIPCPU_FREED       /**< Kept out of reach, so that its use is seen */
} hipcpu_kind_t;

/** A range of addresses of the runtime. */
typedef struct hipcpu_range {
    uintptr_t base;
    size_t size;   /**< As asked for */
    size_t mapped; /**< Whole pages */
    char *shadow;  /**< Address at which the runtime itself reads and writes it */
    hipcpu_kind_t kind;
    int device;
    int fd; /**< Memory shared with other processes, or -1 */
    unsigned flags;
    bool is_exported;
    hipMemPool_t pool;                     /**< Pool of hipMallocAsync() */
    bool is_kept;                          /**< Freed, and kept by the pool */
    hipMemGenericAllocationHandle_t chunk; /**< Chunk mapped here */
    unsigned id;   /**< Unlike any before in this process; set by the table */
    unsigned refs; /**< Opens of an imported range */
    dev_t dev;     /**< Identity of an imported range */
    ino_t ino;
    int proc;         /**< Process of an imported range */
    uintptr_t place;  /**< Its base there */
    uintptr_t opened; /**< Address that opening an imported range returned */
} hipcpu_range_t;

/**
 * Find the range of an address.
 *
 * @param [in]  addr   Any address.
 * @param [out] range  Copy of its entry.
 *
 * @return Whether there is one; freed memory has one, too.
 */
bool hipcpu_range_find(uintptr_t addr, hipcpu_range_t *range);

/** Allocate device memory, and give it back. */
hipError_t hipcpu_memory_alloc(void **ptr, size_t size, int device);
void hipcpu_memory_release(hipcpu_range_t *range);

/** Put freed memory into its pool. */
void hipcpu_pool_keep(const hipcpu_range_t *range);

/** After a synchronization: pools give back what is above their thresholds. */
void hipcpu_pools_settle(void);

/** Close memory of a different process, in the given call. */
void hipcpu_ipc_close(const char *call, hipcpu_range_t *range);

/** Add a range; the table keeps a copy. */
void hipcpu_range_add(const hipcpu_range_t *range);

/**
 * Change a range in place.
 *
 * @param [in] base    Its start.
 * @param [in] change  Called with the table locked; true: drop the range.
 */
void hipcpu_range_change(uintptr_t base, bool (*change)(hipcpu_range_t *, void *),
                         void *arg);

/** Map pages for a range: @a fd as device memory, at a place of its own. */
bool hipcpu_range_map(hipcpu_range_t *range, int fd);

/** Unmap a range and keep its addresses out of reach. */
void hipcpu_range_retire(hipcpu_range_t *range);

/** Whether a range of addresses is known, wholly or in part. */
bool hipcpu_range_overlaps(uintptr_t base, size_t size);

/** For messages. */
const char *hipcpu_kind_name(hipcpu_kind_t kind);

/** Find an imported range by its memory's identity. */
bool hipcpu_range_find_import(dev_t dev, ino_t ino, hipcpu_range_t *range);

/**
 * Whether memory that a process has at a place overlaps an imported range of it on that
 * device with other bounds, which it has freed then.
 */
bool hipcpu_range_overlaps_import(int proc, int device, uintptr_t place, size_t size);

/** Rule stale-map: was other memory mapped before where this byte is? */
bool hipcpu_is_stale_map(uintptr_t address);

/**
 * Address to read or write for a device.
 *
 * Ends the process when the address is not memory that work on @a device may touch.
 *
 * @param [in]  what    For the message, e.g. "copy destination".
 * @param [in]  device  Device that runs the work; -1: a copy, which reaches everything.
 * @param [in]  addr    First byte.
 * @param [in]  size    Bytes wanted.
 * @param [out] size_p  Bytes that lie in one range; NULL: all must.
 */
char *hipcpu_resolve(const char *what, int device, uintptr_t addr, size_t size,
                     size_t *size_p);

/** Count bytes that have moved (hipcpu_copied()); each end lies in one range. */
void hipcpu_count(uintptr_t dst, uintptr_t src, size_t size);


/* lines */

typedef struct hipcpu_line hipcpu_line_t;
typedef struct hipcpu_op hipcpu_op_t;

/** A position on a line that work has to wait for. */
typedef struct hipcpu_wait {
    hipcpu_line_t *line; /**< Referenced */
    uint64_t seq;
} hipcpu_wait_t;

/** A piece of work. */
struct hipcpu_op {
    void (*run)(hipcpu_op_t *op);
    bool (*uses)(const hipcpu_op_t *op, uintptr_t base, size_t size); /**< Or NULL */
    int device;
    _Atomic bool is_flagged; /**< Its flag is written: it uses no memory any more */
    hipcpu_op_t *next;
    uint64_t seq;
    hipcpu_wait_t *waits; /**< Owned by the line once submitted */
    unsigned num_waits;
    union {
        struct {
            uintptr_t dst, src;
            size_t size;
        } copy;
        struct {
            uintptr_t dst;
            size_t size;
            uint64_t value;
            unsigned width;
        } set;
        struct {
            hipHostFn_t function;
            hipStreamCallback_t callback;
            hipStream_t stream;
            void *arg;
        } call;
        hipEvent_t event;
        struct {
            uint32_t num_blocks;
            bool is_flag_last; /**< The machine code writes caches back itself */
            muct_xgmi_copy_args_t args;
        } launch;
        risks_watch_args_t watch;
    } u;
};

hipcpu_line_t *hipcpu_line_create(int device, bool is_blocking);
hipcpu_line_t *hipcpu_line_default(int device);
hipcpu_line_t *hipcpu_line_get(hipcpu_line_t *line);
void hipcpu_line_put(hipcpu_line_t *line);

/** Give up an idle line: ends its thread. False: it is busy, nothing happened. */
bool hipcpu_line_retire(hipcpu_line_t *line);

/** Queue a copy of @a op; its waits now belong to the line. Returns its position. */
uint64_t hipcpu_line_submit(hipcpu_line_t *line, const hipcpu_op_t *op);

uint64_t hipcpu_line_last(hipcpu_line_t *line);
bool hipcpu_line_is_done(hipcpu_line_t *line, uint64_t seq);
void hipcpu_line_wait(hipcpu_line_t *line, uint64_t seq);
size_t hipcpu_line_pending(hipcpu_line_t *line);
void hipcpu_line_hold(hipcpu_line_t *line, bool is_held);
void hipcpu_lines_hold(bool is_held);

/** Wait for all work; @a device -1: of all devices. */
void hipcpu_lines_drain(int device);

/** End the process if unfinished work uses a range. */
void hipcpu_lines_check(const char *function, uintptr_t base, size_t size);

/** The hardware queue that a new stream shares, and submitting to it. */
unsigned hipcpu_hwq_choose(int device, int priority);
uint64_t hipcpu_hwq_submit(hipcpu_line_t *line, int priority, unsigned queue,
                           hipcpu_op_t *op);

/** A line keeps the resources of a launch until it gets a marker. */
void hipcpu_keep_command(hipcpu_line_t *line);
void hipcpu_drop_commands(const hipcpu_line_t *line);

/* bytes that no command has released to the system yet (hipcpu_late.c) */

/** How late bytes arrive by the rules late-caches and late-mark. */
#define HIPCPU_LATE_NS 2000000

/** Longest copy that is a kernel (ROC_P2P_SDMA_SIZE, GPU_FORCE_BLIT_COPY_SIZE). */
#define HIPCPU_LATE_SIZE ((size_t)1 << 20)

/** Copy late where rule late-mark holds; on a line's thread. */
bool hipcpu_late_take(char *dst, const char *src, size_t size);

/** Release the memory that this line's thread has copied. */
void hipcpu_late_land(void);

/** Release the copies of all lines: the host waits, or memory is freed. */
void hipcpu_late_land_all(void);

/** The line of a stream; checks the handle. */
hipcpu_line_t *hipcpu_stream_line(hipStream_t stream, const char *function);

/** Submit to a stream. */
uint64_t hipcpu_stream_submit(hipStream_t stream, const char *function,
                              hipcpu_op_t *op);

/** Run on a line's thread. */
void hipcpu_event_run(hipcpu_op_t *op);

#endif
