/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_EVENT_H
#define MKV_EVENT_H

/**
 * @file
 * The events that wait for mkv_poll(), and the descriptor to sleep on.
 *
 * Terminal events must never be lost, so their nodes are reserved when the object they
 * report is made. The caller holds the context's lock, except of mkv_poll(), which must
 * not wait for it: events are new until the lock is left, and only then can be polled.
 */

#include "base/ctx.h"

/** An event that was not polled yet: the members of mkv_event_t, with the text
 * allocated only if there is one. The struct is small because thousands are
 * reserved. */
typedef struct mkv_news {
    mkv_event_type_t type;
    mkv_status_t status;
    mkv_peer_t *peer;
    mkv_xfer_t *xfer;
    mkv_op_t *op;
    uint64_t id;
    uint32_t epoch, leg, value;
    void *user_data;
    const mkv_units_t *units;
    size_t num_units;
    const void *header;
    size_t header_length;
    const void *data;
    size_t length;
    char *text; /**< Set by mkv_event_text(); NULL: none */
} mkv_news_t;

/** Entry of the event queue. */
typedef struct mkv_event_node {
    mkv_list_t list;
    mkv_news_t event;
    uint64_t time; /**< Time of the event */
    void *owned;   /**< Memory that the event refers to; freed by the poll after the one
                      that takes the event */
    uint64_t *counter; /**< Counter of the event's peer; NULL: no counter */
    uint64_t amount;   /**< Growth of the counter when it is polled */
} mkv_event_node_t;

/** Get UCX's event descriptor. @return UCS_OK, or UCX's reason for having none. */
ucs_status_t mkv_worker_efd(mkv_ctx_t *ctx, int *fd_p);

/** Reserve nodes for @a num events of an object that is being made. */
mkv_status_t mkv_event_reserve(mkv_ctx_t *ctx, unsigned num);

/** Release the nodes that were reserved for a destroyed object. */
void mkv_event_unreserve(mkv_ctx_t *ctx, unsigned num);

/** Queue; never fails for reserved events. NULL only without memory. */
mkv_news_t *mkv_event_add(mkv_ctx_t *ctx, mkv_event_type_t type);

/** Like @ref mkv_event_add; frees @a owned after the poll. NULL: not queued, not freed.
 */
mkv_news_t *mkv_event_add_owned(mkv_ctx_t *ctx, mkv_event_type_t type, void *owned);

/** Like @ref mkv_event_add, but uses no reserved node: for events that a peer can
 * cause any number of times. */
mkv_news_t *mkv_event_add_extra(mkv_ctx_t *ctx, mkv_event_type_t type);

/** Set the text of an event. Without memory, it has none. */
void mkv_event_text(mkv_news_t *event, const char *fmt, ...) MKV_PRINTF(2, 3);

/** Add @a amount to a counter of the event's peer when it is polled. */
void mkv_event_count(mkv_news_t *event, uint64_t *counter, uint64_t amount);

/** Read such a counter: polls add to it without the context's lock. */
static inline uint64_t mkv_polled(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/** Clear references to an object in queued events; NULL: no object of that kind. */
void mkv_events_forget(mkv_ctx_t *ctx, const mkv_xfer_t *xfer, const mkv_peer_t *peer);

/** Like mkv_events_forget(), for a one-sided operation. */
void mkv_events_forget_op(mkv_ctx_t *ctx, const mkv_op_t *op);

/** Schedule a check of all peers if the process of one has ended. */
void mkv_ctx_poll_ends(mkv_ctx_t *ctx);

void mkv_events_cleanup(mkv_ctx_t *ctx);

#endif
