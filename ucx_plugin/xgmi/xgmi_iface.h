/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_IFACE_H
#define MUCT_XGMI_IFACE_H

/**
 * @file
 * Interface of mori_xgmi: the queues of one worker, their progress, and events of
 * peers.
 */

#include "base/muct_links.h"
#include "xgmi/peer/xgmi_addr.h"
#include "xgmi/message/xgmi_inbox.h"
#include "xgmi/message/xgmi_outbox.h"
#include "xgmi/xgmi_md.h"
#include "xgmi/copy/xgmi_queue.h"
#include "xgmi/copy/xgmi_stage.h"
#include "xgmi/xgmi_moves.h"

#include <stdbool.h>

/** Devices that one process can use: eight GPUs with eight partitions each */
#define MUCT_XGMI_MAX_DEVICES 64

/** Direction of a copy, seen from this process */
typedef enum muct_xgmi_dir {
    MUCT_XGMI_PUT,
    MUCT_XGMI_GET,
    MUCT_XGMI_NUM_DIRS
} muct_xgmi_dir_t;

/**
 * Longest list of one call, in entries; UCP cuts longer ones. It copies handles and
 * keys of a list before each call: on its stack, when an array is no longer than
 * UCS_ALLOCA_MAX_SIZE, 150 entries, else into memory that it allocates for every call.
 * Blocks that a change of layout splits have 16, 32, 64 or 128 tokens, so a power of 2
 * splits none of their runs.
 */
#define MUCT_XGMI_MAX_SGL 128

#define MUCT_XGMI_MAX_QUEUES (MUCT_XGMI_MAX_DEVICES * MUCT_XGMI_NUM_DIRS)


/** A flush that waits for operations posted before it. */
typedef struct muct_xgmi_flush {
    struct muct_xgmi_flush *next;
    uct_completion_t *comp;
    ucs_status_t status;
    unsigned num_left;
    muct_xgmi_marker_t markers[MUCT_XGMI_MAX_QUEUES];
    muct_xgmi_moves_marker_t moves;
} muct_xgmi_flush_t;

/** An interface. */
typedef struct muct_xgmi_iface {
    uct_base_iface_t super;
    muct_xgmi_md_t *md;
    muct_xgmi_queue_t *queues[MUCT_XGMI_NUM_DIRS][MUCT_XGMI_MAX_DEVICES];
    muct_xgmi_queue_t *all[MUCT_XGMI_MAX_QUEUES]; /**< The existing queues, by index */
    unsigned num_queues;
    bool has_messages;         /**< Option MESSAGES: the interface may carry messages */
    bool is_out_of_resources;  /**< Set until an operation ends */
    bool has_unreported_error; /**< An endpoint has failed and its error is not reported
                                  yet */
    unsigned num_progress;
    ucs_list_link_t eps;
    ucs_list_link_t waiting_eps; /**< Endpoints with pending requests, served in turn */
    ucs_list_link_t apart_eps;   /**< Endpoints that wait for a mapping or a ring */
    ucs_list_link_t
        outboxes; /**< One outbox for each interface that messages are sent to */
    muct_xgmi_outbox_t *held; /**< Claim for UCP's next endpoint, or NULL */
    struct {
        uint64_t owner; /**< 0: none */
        muct_xgmi_iface_id_t id;
        uint64_t at_ns;
    } refused; /**< The last peer without a place */
    muct_xgmi_map_watch_t map_watch;
    unsigned open_limit_ms; /**< Time after which opening a peer's memory fails */
    muct_xgmi_stage_t stage;
    muct_xgmi_moves_t moves;
    muct_xgmi_flush_t *free_flushes;
    uct_completion_t fences;  /**< count is the number of fences that wait for copies */
    muct_xgmi_inbox_t *inbox; /**< NULL: no messages */
    int epoll_fd;
    bool yields_lock;       /**< Arming may release the worker's lock */
    unsigned num_aside;     /**< Times in a row that arming released it */
    unsigned stops;         /**< UCT's progress flags to remove when all copies are
                             *   over */
    bool was_armed;         /**< An event was armed since the last check of
                             *   peers */
    uint64_t peers_seen_ns; /**< Time of the last check of peers */
    muct_xgmi_wake_t *wake;
    muct_xgmi_inval_watch_t inval_watch;
    muct_xgmi_queue_config_t queue_config;
    size_t max_short;
    unsigned max_sgl;
    double bandwidth; /**< Bandwidth of a link where links are known, otherwise of all
                         peers together */
    muct_links_t links;
    double latency;
    double overhead;
    muct_xgmi_device_addr_t device_addr;
    muct_xgmi_iface_addr_t addr;
} muct_xgmi_iface_t;


/** Slow half of @ref muct_xgmi_iface_queue. */
ucs_status_t muct_xgmi_iface_add_queue(muct_xgmi_iface_t *iface, muct_xgmi_dir_t dir,
                                       int device, muct_xgmi_queue_t **queue_p);


/**
 * Get the queue of a device and direction, which is made with its first use.
 *
 * @return UCS_OK, UCS_ERR_NO_DEVICE, UCS_ERR_NO_MEMORY, or UCS_ERR_INVALID_PARAM for an
 *         impossible device.
 */
static inline ucs_status_t muct_xgmi_iface_queue(muct_xgmi_iface_t *iface,
                                                 muct_xgmi_dir_t dir, int device,
                                                 muct_xgmi_queue_t **queue_p)
{
    if ((unsigned)device < MUCT_XGMI_MAX_DEVICES) {
        *queue_p = iface->queues[dir][device];
        if (*queue_p != NULL) {
            return UCS_OK;
        }
    }

    return muct_xgmi_iface_add_queue(iface, dir, device, queue_p);
}


/**
 * Make the queues of the device whose memory was registered last, so that the first
 * copy allocates nothing. No effect if none was; queues of other devices are made with
 * their first use.
 */
void muct_xgmi_iface_prepare(muct_xgmi_iface_t *iface);


/**
 * Start a flush.
 *
 * @param [in] stamps  For each queue, by its index, the last batch to wait for.
 * @param [in] move    Stamp of the last move to wait for.
 * @param [in] comp    Called when these are over.
 *
 * @return UCS_OK             Nothing is left; @a comp is not called.
 * @return UCS_INPROGRESS     @a comp will be called.
 * @return UCS_ERR_NO_MEMORY
 */
ucs_status_t muct_xgmi_iface_start_flush(muct_xgmi_iface_t *iface,
                                         const uint64_t *stamps, uint64_t move,
                                         uct_completion_t *comp);


/** Whether all copies before fences are over. */
void muct_xgmi_iface_fenced(uct_completion_t *fences);


/** Whether no copy of any queue is gathered or running. */
bool muct_xgmi_iface_is_idle(const muct_xgmi_iface_t *iface);


/** iface_flush and iface_fence of the operation table. */
ucs_status_t muct_xgmi_iface_flush(uct_iface_h iface, unsigned flags,
                                   uct_completion_t *comp);
ucs_status_t muct_xgmi_iface_fence(uct_iface_h iface, unsigned flags);


/** Add the peer's end to the events of the interface's descriptor. */
void muct_xgmi_iface_watch_peer(muct_xgmi_iface_t *iface, const muct_xgmi_peer_t *peer);


/** Add messages that arrive during a sleep to the events of the interface's descriptor.
 */
void muct_xgmi_iface_watch_bell(muct_xgmi_iface_t *iface);


/**
 * Undo @ref muct_xgmi_iface_watch_peer, for an endpoint that has left the interface's
 * list. With the last endpoint to a peer its memory is unmapped, as soon as no copy
 * uses it; the next use maps it again.
 */
void muct_xgmi_iface_unwatch_peer(muct_xgmi_iface_t *iface,
                                  const muct_xgmi_peer_t *peer);


/**
 * Take a place among the senders of a peer's interface, or share the one of an earlier
 * endpoint.
 *
 * @param [in]  is_quiet  As @ref muct_xgmi_outbox_claim.
 * @param [out] claim_p   To be closed by the caller; NULL on failure.
 *
 * @return UCS_ERR_UNSUPPORTED    This interface carries no messages.
 * @return UCS_ERR_EXCEEDS_LIMIT  The peer, or this interface, has as many senders as it
 *                                can: both sides send, or none.
 * @return Others as @ref muct_xgmi_outbox_claim.
 */
ucs_status_t muct_xgmi_iface_claim(muct_xgmi_iface_t *iface, uint64_t owner,
                                   muct_xgmi_iface_id_t id, bool is_quiet,
                                   muct_xgmi_outbox_t **claim_p);


/**
 * Claim a place for an endpoint that is not there yet: UCP sees a peer reachable first
 * and makes the endpoint then. The next call of this or of @ref
 * muct_xgmi_iface_drop_held returns it.
 *
 * @return Whether the endpoint has a place or needs none. A refusal is valid for a
 * while.
 */
bool muct_xgmi_iface_hold(muct_xgmi_iface_t *iface, const muct_xgmi_iface_addr_t *addr);


/** Drop the held claim: the endpoint has its own by now. */
void muct_xgmi_iface_drop_held(muct_xgmi_iface_t *iface);


/** Report an endpoint's new error in the next progress. */
void muct_xgmi_iface_set_unreported_error(muct_xgmi_iface_t *iface);

#endif
