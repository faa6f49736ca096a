/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_QUEUE_H
#define MUCT_XGMI_QUEUE_H

/**
 * @file
 * Copies of one device in one direction: gathered, started together, and completed in
 * order.
 *
 * Everything added since the last start is one batch. A batch becomes one launch of the
 * copy kernel, or a few copy calls when it has few entries; runs of several MiB go to
 * the copy engines beside it. Batches of a queue start in the order in which they were
 * filled and are found finished in that order; those that follow one another run on
 * launch streams in turn, so that a kernel starts while the one before it ends.
 *
 * The windows of a batch hold the addresses of remote memory in this process. A window
 * is made once per batch and remote key, and holds the mapping and its announcement to
 * the owner until the batch is over.
 *
 * Back-pressure. The lists and operations of all batches are allocated ahead. When they
 * are used up, muct_xgmi_queue_reserve() returns UCS_ERR_NO_RESOURCE and nothing has
 * happened.
 *
 * Threads. One at a time.
 */

#include "base/muct_gpu.h"
#include "xgmi/copy/xgmi_gather.h"
#include "xgmi/memory/xgmi_leave.h"
#include "xgmi/copy/xgmi_list.h"
#include "xgmi/memory/xgmi_map.h"
#include "xgmi/memory/xgmi_rkey.h"
#include "xgmi/peer/xgmi_wake.h"

#include <stdbool.h>

/** Windows that a batch finds without a look-up in the map; a power of 2 */
#define MUCT_XGMI_NUM_WINDOWS 256

/** Long runs that a batch can give to the copy engines */
#define MUCT_XGMI_MAX_RUNS 32

/** 32-bit words of a cache line: each device writes to lines of its own */
#define MUCT_XGMI_WORDS_PER_LINE 16
#define MUCT_XGMI_LINE_SIZE (MUCT_XGMI_WORDS_PER_LINE * sizeof(uint32_t))

/** Peers of a batch that are counted */
#define MUCT_XGMI_MAX_COUNTED_PEERS 8

/** Number of unsuccessful polls of the head's word, after which the runtime is queried
 * for errors. */
#define MUCT_XGMI_POLLS_TO_LOOK 65536

/** Streams for launches and calls */
#define MUCT_XGMI_MAX_LAUNCH_STREAMS 4

/** Streams for long runs */
#define MUCT_XGMI_MAX_ENGINES 8

/** All streams: a queue's first ones are for launches */
#define MUCT_XGMI_MAX_STREAMS (MUCT_XGMI_MAX_LAUNCH_STREAMS + MUCT_XGMI_MAX_ENGINES)


typedef struct muct_xgmi_op muct_xgmi_op_t;

/** Called once, from @ref muct_xgmi_queue_poll, when the batch of the operation is
 * over. UCS_ERR_IO_ERROR: the device has failed, or the runtime has refused a piece of
 * this operation, whose is_refused is set then. */
typedef void (*muct_xgmi_op_done_t)(muct_xgmi_op_t *op, ucs_status_t status);

/** Operation to complete when a batch is over. */
struct muct_xgmi_op {
    muct_xgmi_op_done_t done;
    void *owner;        /**< Object that posted the operation; NULL after its end */
    void *arg;          /**< Data for the callback, such as the user's completion */
    uint32_t end_entry; /**< End of its pieces in the list */
    uint8_t end_run;    /**< End of its runs in the runs of the batch */
    bool is_refused;    /**< The runtime refused some of its pieces; pieces of other
                             operations are copied */
};


/** An operation that waits for a batch and all earlier ones. */
typedef struct muct_xgmi_marker {
    struct muct_xgmi_marker *next;
    muct_xgmi_op_t op;
} muct_xgmi_marker_t;


/** Settings of copies. Read by every queue of an interface. */
typedef struct muct_xgmi_queue_config {
    unsigned num_lists;   /**< Batches that can exist at a time, at least 2 */
    unsigned list_size;   /**< Entries, and operations, of a batch */
    unsigned max_started; /**< Started batches after which more is gathered */
    unsigned early_start; /**< Entries from which posting starts a list, more when half
                               of the lists are used; 0: never */
    unsigned max_calls;   /**< Entries up to which copy calls are made */
    unsigned max_blocks;  /**< Thread blocks of a launch to one peer */
    unsigned peer_blocks; /**< Additional thread blocks for each further peer */
    unsigned most_blocks; /**< Limit including these */
    unsigned num_launch_streams; /**< Launches that may run at a time, at least 1 */
    unsigned num_engines;        /**< Streams a long run is split over */
    unsigned late_ms;            /**< Wait for a batch after which it is reported */
    size_t min_run;              /**< Bytes from which a run goes to the copy engines */
    bool has_kernel;     /**< Use the copy kernel if there is one for the device */
    bool has_one_thread; /**< Only the first thread of a queue uses it */
} muct_xgmi_queue_config_t;


/** Thread blocks of a launch whose copies are to or from so many peers. */
static inline unsigned muct_xgmi_queue_num_blocks(
    const muct_xgmi_queue_config_t *config, unsigned num_peers)
{
    unsigned others = (num_peers > 1) ? num_peers - 1 : 0;
    unsigned count = config->max_blocks + (others * config->peer_blocks);

    return ((count > config->most_blocks) && (count > config->max_blocks))
               ? ((config->most_blocks > config->max_blocks) ? config->most_blocks
                                                             : config->max_blocks)
               : count;
}


/** Location of remote memory, valid as long as the batch lives. */
typedef struct muct_xgmi_window {
    uint64_t uid;    /**< Remote key's number */
    uint64_t stamp;  /**< Batch's stamp; if it differs, the window is stale */
    uint64_t start;  /**< First byte that may be used, owner's address */
    uint64_t length; /**< Bytes that may be used */
    uint64_t delta;  /**< Difference of our address and the owner's; may wrap */
} muct_xgmi_window_t;


/** A stream of launches, which share a flag and a counter of arrivals. */
typedef struct muct_xgmi_launch_stream {
    uint32_t sequence;     /**< Last launch's number */
    unsigned num_unmarked; /**< Launches since the stream got a marker */
} muct_xgmi_launch_stream_t;


typedef struct muct_xgmi_batch muct_xgmi_batch_t;

typedef struct muct_xgmi_run {
    uint64_t dst;
    uint64_t src;
    uint64_t length;
} muct_xgmi_run_t;

/**
 * A queue. Its members belong to this file, xgmi_queue*.c and xgmi_batch.c; xgmi_sgl.c
 * fills its list and reads its device.
 */
typedef struct muct_xgmi_queue {
    muct_xgmi_list_t list;  /**< Open batch's list */
    uint64_t stamp;         /**< Open batch's stamp */
    const void *last_local; /**< Local memory of the last piece; NULL: none */
    uint64_t last_remote;   /**< uid of the remote key of the last piece */
    size_t min_run;
    size_t skip;      /**< Pieces of lists to add before the next search for a run */
    size_t next_skip; /**< Pieces to skip when a search finds no run */
    muct_xgmi_op_t *next_op; /**< Next operation of the open batch */
    muct_xgmi_op_t *end_op;
    muct_xgmi_batch_t *open;        /**< Batch being filled, or NULL */
    const muct_xgmi_entry_t *early; /**< Entry at which to check for an early start */
    unsigned num_runs;              /**< Runs of the open batch */
    bool is_by_calls; /**< The open batch has memory that kernels cannot use */
    muct_xgmi_run_t *runs;
    muct_xgmi_gather_t gather; /**< Whether the open batch waits for more operations */
    muct_xgmi_leave_t leave;   /**< Whether a finished head is left to its thread */
    muct_xgmi_window_t windows[MUCT_XGMI_NUM_WINDOWS];

    const muct_gpu_t *gpu;
    const muct_xgmi_queue_config_t *config;
    muct_xgmi_map_t *map;
    muct_xgmi_wake_t *wake;
    int device;
    unsigned index; /**< Index among its owner's queues; the owner sets it */
    muct_xgmi_batch_t *batches; /**< All batches */
    muct_xgmi_batch_t *free;    /**< Batches neither open nor started */
    muct_xgmi_batch_t *head;    /**< Started, oldest first */
    muct_xgmi_batch_t **tail;
    muct_xgmi_batch_t *ending; /**< Finished batches that complete their operations now,
                                  the innermost first */
    unsigned num_started;
    pthread_mutex_t lock; /**< Guards the list of started batches and what they use */
    pthread_t thread;     /**< The first thread that used the queue */
    struct muct_xgmi_queue *next; /**< Link of the queues of the process */
    unsigned num_polls;      /**< Polls since the runtime was queried for the head */
    bool is_notifying;       /**< The runtime calls back at the head's end, or has */
    unsigned num_waits;      /**< Polls that found the head not over */
    uint64_t waits_since_ns; /**< Time from which late_ms counts for the head; 0: not
                                set yet; UINT64_MAX: the delay was reported */
    muct_xgmi_launch_stream_t launch_streams[MUCT_XGMI_MAX_LAUNCH_STREAMS];
    unsigned num_launch_streams;
    unsigned launch_stream;   /**< Index of the launch stream that was used last */
    volatile uint32_t *flags; /**< Pinned: for each launch stream the sequence of its
                                 last ended launch, followed by the last mark that each
                                 stream has reached */
    uint32_t marks[MUCT_XGMI_MAX_STREAMS]; /**< The last mark written to each stream */
    /** Event that is recorded before marks and now and then after launches, to release
     *  copies and resources; never queried */
    muct_hip_event_t marker;
    void *arrivals; /**< Device memory for the kernel: a line a launch stream */
    /** The first ones for launches and calls, the others for long runs */
    muct_hip_stream_t streams[MUCT_XGMI_MAX_STREAMS];
    muct_hip_event_t events[MUCT_XGMI_MAX_STREAMS]; /**< Events for ordering */
    unsigned recorded;                              /**< Bit mask of valid events */
    unsigned num_streams;
    muct_hip_module_t module;
    muct_hip_function_t kernel; /**< NULL: copy calls only */
    bool is_flag_last;          /**< The kernel's flag follows its bytes */
} muct_xgmi_queue_t;

/** Saved state of the open batch, for a rollback. */
typedef struct muct_xgmi_mark {
    muct_xgmi_list_mark_t list;
    muct_xgmi_entry_t last;
    unsigned num_runs;
} muct_xgmi_mark_t;


/**
 * Create a queue and all that it ever allocates, except the streams for long runs.
 *
 * @param [in]  gpu      Runtime.
 * @param [in]  map      Mappings; must outlive the queue.
 * @param [in]  wake     Wakes the progress thread; must outlive the queue.
 * @param [in]  config   How to copy; must outlive the queue.
 * @param [in]  device   Ordinal of the device that copies.
 * @param [out] queue_p  Set only on UCS_OK.
 *
 * @return UCS_OK, UCS_ERR_NO_MEMORY, or UCS_ERR_NO_DEVICE when the device refuses.
 */
ucs_status_t muct_xgmi_queue_create(const muct_gpu_t *gpu, muct_xgmi_map_t *map,
                                    muct_xgmi_wake_t *wake,
                                    const muct_xgmi_queue_config_t *config, int device,
                                    muct_xgmi_queue_t **queue_p);


/** Wait for all copies, finish their operations with @a status, free the queue. */
void muct_xgmi_queue_destroy(muct_xgmi_queue_t *queue, ucs_status_t status);


/** Flag to which the launches of a stream store their sequence number at their end. */
static inline volatile uint32_t *muct_xgmi_queue_flag_at(const muct_xgmi_queue_t *queue,
                                                         unsigned launch_stream)
{
    return queue->flags + (launch_stream * MUCT_XGMI_WORDS_PER_LINE);
}


/** Arrival counter of the kernels of a stream. */
static inline void *muct_xgmi_queue_arrivals_at(const muct_xgmi_queue_t *queue,
                                                unsigned launch_stream)
{
    return (uint32_t *)queue->arrivals + (launch_stream * MUCT_XGMI_WORDS_PER_LINE);
}


/** Mark that shows the progress of a stream: a word in a cache line of its own. */
static inline volatile uint32_t *muct_xgmi_queue_mark_at(const muct_xgmi_queue_t *queue,
                                                         unsigned stream)
{
    return queue->flags +
           ((MUCT_XGMI_MAX_LAUNCH_STREAMS + stream) * MUCT_XGMI_WORDS_PER_LINE);
}


/**
 * Whether the device has written this value or a later one. Acquire: data that the
 * device wrote before is visible then.
 */
static inline bool muct_xgmi_word_reached(const volatile uint32_t *word, uint32_t value)
{
    return muct_xgmi_flag_reached(__atomic_load_n(word, __ATOMIC_ACQUIRE), value);
}


/** Slow half of @ref muct_xgmi_queue_reserve. */
ucs_status_t muct_xgmi_queue_make_room(muct_xgmi_queue_t *queue, size_t count);


/** Slow half of @ref muct_xgmi_queue_find. */
ucs_status_t muct_xgmi_queue_add_window(muct_xgmi_queue_t *queue,
                                        const muct_xgmi_rkey_t *rkey,
                                        muct_xgmi_window_t *window);


/**
 * Release the resources of finished batches in all queues of the process, and start
 * gathered copies if this thread may. Progress still calls the completions of the
 * operations. Any thread may call this, even from an operation.
 */
void muct_xgmi_queues_release(void);


/** Start the gathered list, if there is one, beside running batches. */
void muct_xgmi_queue_start(muct_xgmi_queue_t *queue);


/**
 * Whether the device will soon be idle, so that the open list should start without
 * waiting for progress. True only if another list is free. Completes nothing.
 */
bool muct_xgmi_queue_wants_more(const muct_xgmi_queue_t *queue);


/** Slow half of @ref muct_xgmi_queue_commit. */
void muct_xgmi_queue_start_early(muct_xgmi_queue_t *queue);


/**
 * Complete finished batches, except those left to the posting thread, which makes
 * progress itself.
 *
 * @return Batches that were finished; one may have had no operation, and its list is
 *         free all the same.
 */
unsigned muct_xgmi_queue_poll(muct_xgmi_queue_t *queue);


/** Whether the open list should collect more operations before it starts. There must
 * be an open list. */
bool muct_xgmi_queue_should_gather(muct_xgmi_queue_t *queue);


/** Whether fewer than max_started lists run, so that one more may start. A list left
 * to another thread counts as ended. */
static inline bool muct_xgmi_queue_may_start(const muct_xgmi_queue_t *queue)
{
    return (queue->num_started < queue->config->max_started) ||
           (muct_xgmi_leave_is_on(&queue->leave) && muct_xgmi_queue_wants_more(queue));
}


/** Start the open list unless enough lists run already or more operations are
 * expected. */
static inline void muct_xgmi_queue_kick(muct_xgmi_queue_t *queue)
{
    if ((queue->open != NULL) && muct_xgmi_queue_may_start(queue) &&
        !muct_xgmi_queue_should_gather(queue)) {
        muct_xgmi_queue_start(queue);
    }
}


/** Whether nothing is gathered, nothing runs, and all operations were called. */
static inline bool muct_xgmi_queue_is_idle(const muct_xgmi_queue_t *queue)
{
    return (queue->head == NULL) && (queue->open == NULL) && (queue->ending == NULL);
}


/** Clear the owner of its pending operations, because it is being destroyed. An
 * operation may call this. */
void muct_xgmi_queue_disown(muct_xgmi_queue_t *queue, const void *owner);


/**
 * Register an operation to be called when a batch and those before it are over. An open
 * batch is started soon.
 *
 * @param [in] stamp   Stamp that the queue had while the batch was open.
 * @param [in] marker  Lent by the caller; its operation is called once, after the
 *                     batches' own.
 *
 * @return Whether it will be called; false: the batch is over.
 */
bool muct_xgmi_queue_add_marker(muct_xgmi_queue_t *queue, uint64_t stamp,
                                muct_xgmi_marker_t *marker);


/**
 * Make sure that @a count entries and one operation can be added.
 *
 * @return UCS_OK, or UCS_ERR_NO_RESOURCE until something is over. @a count must not be
 *         more than the list size.
 */
static inline ucs_status_t muct_xgmi_queue_reserve(muct_xgmi_queue_t *queue,
                                                   size_t count)
{
    if ((queue->open != NULL) && (muct_xgmi_list_room(&queue->list) >= count) &&
        (queue->next_op < queue->end_op)) {
        return UCS_OK;
    }

    return muct_xgmi_queue_make_room(queue, count);
}


/**
 * Find the window of a remote key in the open batch.
 *
 * @return UCS_OK               @a window_p is set; it holds until the batch starts.
 * @return UCS_INPROGRESS       The memory is being opened; the caller holds it (see
 *                              xgmi_hold.h) and tries again.
 * @return UCS_ERR_REJECTED     The owner has invalidated the key.
 * @return UCS_ERR_UNREACHABLE  The owner is dead, or its memory cannot be mapped.
 * @return UCS_ERR_NOT_IMPLEMENTED  Devices do not reach the memory; see xgmi_moves.h.
 * @return UCS_ERR_NO_MEMORY
 */
static inline ucs_status_t muct_xgmi_queue_find(muct_xgmi_queue_t *queue,
                                                const muct_xgmi_rkey_t *rkey,
                                                const muct_xgmi_window_t **window_p)
{
    muct_xgmi_window_t *window = &queue->windows[rkey->uid % MUCT_XGMI_NUM_WINDOWS];

    *window_p = window;
    if ((window->uid == rkey->uid) && (window->stamp == queue->stamp)) {
        return UCS_OK;
    }

    return muct_xgmi_queue_add_window(queue, rkey, window);
}


/** Whether [raddr, raddr + length) may be used. */
static inline bool muct_xgmi_window_has(const muct_xgmi_window_t *window,
                                        uint64_t raddr, uint64_t length)
{
    return (length <= window->length) &&
           ((raddr - window->start) <= (window->length - length));
}


/**
 * Set the memory of the next pieces. Pieces of different memory are not joined,
 * although they may be neighbours by chance: a copy call refuses to cross allocations.
 */
static inline void muct_xgmi_queue_set_operands(muct_xgmi_queue_t *queue,
                                                const void *local, uint64_t remote_uid)
{
    if ((queue->last_local != local) || (queue->last_remote != remote_uid)) {
        queue->last_local = local;
        queue->last_remote = remote_uid;
        queue->list.dst_end = UINT64_MAX;
        queue->list.src_end = UINT64_MAX;
    }
}


/**
 * Add a piece, after room for it was reserved. It may join the last piece of another
 * operation only if it is the only piece of its own; otherwise set the operands first.
 */
static inline void muct_xgmi_queue_add(muct_xgmi_queue_t *queue, uint64_t dst,
                                       uint64_t src, uint64_t length)
{
    if ((length >= queue->min_run) && (queue->num_runs < MUCT_XGMI_MAX_RUNS)) {
        queue->runs[queue->num_runs++] = (muct_xgmi_run_t){dst, src, length};
        return;
    }

    (void)muct_xgmi_list_add(&queue->list, dst, src, length);
}


/**
 * Set the operation to call when the pieces added so far are copied. May start them
 * when there are many and the device is idle, so that posting and copying overlap.
 */
static inline void muct_xgmi_queue_commit(muct_xgmi_queue_t *queue,
                                          muct_xgmi_op_done_t done, void *owner,
                                          void *arg)
{
    *queue->next_op++ =
        (muct_xgmi_op_t){.done = done,
                         .owner = owner,
                         .arg = arg,
                         .end_entry = (uint32_t)muct_xgmi_list_count(&queue->list),
                         .end_run = (uint8_t)queue->num_runs};
    if (ucs_unlikely(queue->list.next >= queue->early)) {
        muct_xgmi_queue_start_early(queue);
    }
}


/** Save the state of the open batch for @ref muct_xgmi_queue_rollback. */
static inline void muct_xgmi_queue_mark(const muct_xgmi_queue_t *queue,
                                        muct_xgmi_mark_t *mark)
{
    mark->list = muct_xgmi_list_mark(&queue->list);
    mark->num_runs = queue->num_runs;
    if (!muct_xgmi_list_is_empty(&queue->list)) {
        mark->last = queue->list.next[-1];
    }
}


/** Take back the pieces added since the mark; windows stay. */
static inline void muct_xgmi_queue_rollback(muct_xgmi_queue_t *queue,
                                            const muct_xgmi_mark_t *mark)
{
    muct_xgmi_list_rollback(&queue->list, &mark->list);
    queue->num_runs = mark->num_runs;
    if (!muct_xgmi_list_is_empty(&queue->list)) {
        queue->list.next[-1] = mark->last;
    }
}

#endif
