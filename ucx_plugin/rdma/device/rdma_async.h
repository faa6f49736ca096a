/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_ASYNC_H
#define MUCT_RDMA_ASYNC_H

/**
 * @file
 * Asynchronous events of one device, passed on to its interfaces.
 *
 * A device has one event queue, which any thread may read, and perhaps many interfaces
 * in many threads. Progress of any interface reads the queue. Each event is kept for
 * every interface it concerns, and that interface is woken. The interface takes its
 * events in its own progress.
 *
 * One lock guards the list of interfaces and the events kept for them. It is never held
 * while code outside this file is called.
 */

#include "base/muct_uct_abi.h"
#include "rdma/device/rdma_verbs.h"

#include <pthread.h>
#include <stdbool.h>

/** Events since the interface last took its events. */
enum {
    MUCT_RDMA_ASYNC_PORT_DOWN = 1 << 0,
    MUCT_RDMA_ASYNC_PORT_UP = 1 << 1,
    MUCT_RDMA_ASYNC_ADDRESS = 1 << 2, /**< GID, LID or partition table changed */
    MUCT_RDMA_ASYNC_FATAL = 1 << 3,   /**< The device is gone */
    MUCT_RDMA_ASYNC_QP = 1 << 4,      /**< Queue pairs in qp_nums failed */
    MUCT_RDMA_ASYNC_CQ = 1 << 5       /**< Completion queues in cqs failed */
};

#define MUCT_RDMA_ASYNC_MAX_QPS 64
#define MUCT_RDMA_ASYNC_MAX_CQS 16

typedef struct muct_rdma_async_events {
    unsigned flags;   /**< MUCT_RDMA_ASYNC_* */
    unsigned num_qps; /**< More than MUCT_RDMA_ASYNC_MAX_QPS: check all queue pairs */
    uint32_t qp_nums[MUCT_RDMA_ASYNC_MAX_QPS];
    unsigned num_cqs; /**< More than MUCT_RDMA_ASYNC_MAX_CQS: check all queues */
    struct ibv_cq *cqs[MUCT_RDMA_ASYNC_MAX_CQS]; /**< Compare only; never dereference */
} muct_rdma_async_events_t;

typedef struct muct_rdma_async_sub {
    ucs_list_link_t list;
    uint8_t port;
    int wake_fd; /**< eventfd, readable when there are events */
    muct_rdma_async_events_t events;
} muct_rdma_async_sub_t;

typedef struct muct_rdma_async {
    struct ibv_context *context;
    const char *name;
    pthread_mutex_t lock;
    ucs_list_link_t subs;
} muct_rdma_async_t;

/** @a context and @a name must outlive it; the context's async_fd must not block. */
void muct_rdma_async_init(muct_rdma_async_t *async, struct ibv_context *context,
                          const char *name);

void muct_rdma_async_cleanup(muct_rdma_async_t *async);

/** Subscribe to events of a port. @return UCS_OK, or UCS_ERR_IO_ERROR, logged. */
ucs_status_t muct_rdma_async_add(muct_rdma_async_t *async, muct_rdma_async_sub_t *sub,
                                 uint8_t port);

void muct_rdma_async_remove(muct_rdma_async_t *async, muct_rdma_async_sub_t *sub);

/**
 * Read the device's events, store them for all subscribers, and return those of one.
 *
 * @param [out] events  Filled when true is returned.
 *
 * @return Whether there were events.
 */
bool muct_rdma_async_take(muct_rdma_async_t *async, muct_rdma_async_sub_t *sub,
                          muct_rdma_async_events_t *events);

#endif
