/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/engine/ucp_notify.h"
#include "perf/base/error.h"

#include <string.h>


enum { PERF_UCP_NOTIFY_AM = 1 };


static void perf_ucp_notify_fail(perf_ucp_notify_t *notify, const char *what,
                                 ucs_status_t status)
{
    if (notify->status == UCS_OK) {
        perf_error("%s: %s", what, ucs_status_string(status));
        notify->status = status;
    }
}

/* The other process is the same build; a message that names no known job is still an
   error.
 */
static ucs_status_t perf_ucp_notify_received(void *arg, const void *header,
                                             size_t header_length, void *data,
                                             size_t length,
                                             const ucp_am_recv_param_t *param)
{
    perf_ucp_notify_t *notify = arg;
    uint64_t id = 0;
    unsigned i;

    (void)header;
    if ((header_length == 0) && (length == sizeof(id)) &&
        !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        memcpy(&id, data, sizeof(id));
        for (i = 0; i < notify->num_jobs; ++i) {
            if (notify->jobs[i]->id == id) {
                ++notify->jobs[i]->num_arrived;
                return UCS_OK;
            }
        }
    }
    perf_ucp_notify_fail(notify, "a notification of no job here",
                         UCS_ERR_INVALID_PARAM);
    return UCS_OK;
}

ucs_status_t perf_ucp_notify_init(perf_ucp_notify_t *notify, ucp_worker_h worker)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = PERF_UCP_NOTIFY_AM,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = perf_ucp_notify_received,
        .arg = notify,
    };

    return ucp_worker_set_am_recv_handler(worker, &param);
}

int perf_ucp_notify_add(perf_ucp_notify_t *notify, perf_job_t *job)
{
    if (notify->num_jobs == PERF_UCP_NOTIFY_JOBS) {
        perf_error("%u jobs wait for notifications; expected no more",
                   notify->num_jobs);
        return -1;
    }
    notify->jobs[notify->num_jobs++] = job;
    return 0;
}

void perf_ucp_notify_remove(perf_ucp_notify_t *notify, const perf_job_t *job)
{
    unsigned i;

    for (i = 0; i < notify->num_jobs; ++i) {
        if (notify->jobs[i] == job) {
            notify->jobs[i] = notify->jobs[--notify->num_jobs];
            return;
        }
    }
}

static void perf_ucp_notify_sent(void *request, ucs_status_t status, void *user_data)
{
    perf_ucp_notify_t *notify = user_data;

    --notify->num_sending;
    if (status != UCS_OK) {
        perf_ucp_notify_fail(notify, "ucp_am_send_nbx", status);
    }
    ucp_request_free(request);
}

void perf_ucp_notify_send(perf_ucp_notify_t *notify, ucp_ep_h ep, const perf_job_t *job)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = perf_ucp_notify_sent,
        .user_data = notify,
    };
    void *request;

    request = ucp_am_send_nbx(ep, PERF_UCP_NOTIFY_AM, NULL, 0, &job->id,
                              sizeof(job->id), &param);
    if (UCS_PTR_IS_PTR(request)) {
        ++notify->num_sending; /* the callback runs in progress, not in the call */
    } else if (UCS_PTR_IS_ERR(request)) {
        perf_ucp_notify_fail(notify, "ucp_am_send_nbx", UCS_PTR_STATUS(request));
    }
}
