/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_UCP_NOTIFY_H
#define PERF_UCP_NOTIFY_H

/**
 * @file
 * Notifications over UCP as NIXL sends them: an eager active message without a header;
 * its payload identifies the subject, here the number of a job.
 *
 * Threads. That of the worker.
 */

#include "perf/kv_perf/engine/engine.h"

#include <ucp/api/ucp.h>


/** Jobs that one process serves at a time. */
enum { PERF_UCP_NOTIFY_JOBS = 2 * PERF_MAX_LEAVES };

typedef struct perf_ucp_notify {
    perf_job_t *jobs[PERF_UCP_NOTIFY_JOBS]; /**< Jobs that this process serves */
    unsigned num_jobs;
    unsigned num_sending;
    ucs_status_t status; /**< First error, sending or receiving */
} perf_ucp_notify_t;


/**
 * Receive notifications, on a worker of a context with active messages.
 *
 * @param [in] notify  Must outlive the worker.
 *
 * @return UCS_OK, or UCP's status.
 */
ucs_status_t perf_ucp_notify_init(perf_ucp_notify_t *notify, ucp_worker_h worker);

/** Count arrivals for a job in its num_arrived. @return 0, or -1: too many jobs. */
int perf_ucp_notify_add(perf_ucp_notify_t *notify, perf_job_t *job);

void perf_ucp_notify_remove(perf_ucp_notify_t *notify, const perf_job_t *job);

/**
 * Notify the other process that a post of a job has arrived; num_sending reaches 0 when
 * all notifications are on their way.
 */
void perf_ucp_notify_send(perf_ucp_notify_t *notify, ucp_ep_h ep,
                          const perf_job_t *job);

#endif
