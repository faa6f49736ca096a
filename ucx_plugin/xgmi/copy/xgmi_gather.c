/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/copy/xgmi_gather.h"

/* Time between two operations until one was measured. */
#define MUCT_XGMI_GATHER_INTERVAL_NS 125

/* A burst of operations ends after a pause of this many intervals. */
#define MUCT_XGMI_GATHER_QUIET_FACTOR 8
#define MUCT_XGMI_GATHER_MIN_QUIET_NS 1000
#define MUCT_XGMI_GATHER_MAX_QUIET_NS 10000

/* Time per operation since the last check; a series continues below it. */
#define MUCT_XGMI_GATHER_ROW_NS 1000

/* Time for which a series is checked in every call of progress. */
#define MUCT_XGMI_GATHER_STEADY_NS 10000


void muct_xgmi_gather_open(muct_xgmi_gather_t *gather, bool is_at_rest)
{
    if (!is_at_rest) {
        gather->num_alone = 0;
    }
    gather->thread = pthread_self();
    gather->is_urgent = false;
    gather->count = 0;
    /* one slow series must not delay the later ones */
    gather->interval_ns = (gather->interval_ns + MUCT_XGMI_GATHER_INTERVAL_NS) / 2;
}

static uint64_t muct_xgmi_gather_quiet_ns(const muct_xgmi_gather_t *gather)
{
    uint64_t quiet_ns = gather->interval_ns * MUCT_XGMI_GATHER_QUIET_FACTOR;

    if (quiet_ns < MUCT_XGMI_GATHER_MIN_QUIET_NS) {
        return MUCT_XGMI_GATHER_MIN_QUIET_NS;
    }
    return (quiet_ns < MUCT_XGMI_GATHER_MAX_QUIET_NS) ? quiet_ns
                                                      : MUCT_XGMI_GATHER_MAX_QUIET_NS;
}

bool muct_xgmi_gather_should_wait(muct_xgmi_gather_t *gather, size_t count,
                                  uint64_t now_ns)
{
    uint64_t interval_ns;

    if ((count == 0) || !muct_xgmi_gather_is_open_ended(gather)) {
        return false;
    }

    if (gather->count == 0) {
        gather->opened_at = now_ns;
        if ((now_ns - gather->grown_at) >
            (count + gather->num_closed) * MUCT_XGMI_GATHER_ROW_NS) {
            gather->row_at = now_ns;
        }
        gather->num_closed = 0;
    }
    if (count == gather->count) {
        if ((now_ns - gather->grown_at) >= muct_xgmi_gather_quiet_ns(gather)) {
            return false;
        }
    } else {
        if (gather->count != 0) {
            interval_ns = (now_ns - gather->grown_at) / (count - gather->count);
            gather->interval_ns = (3 * gather->interval_ns + interval_ns) / 4;
        }
        gather->count = count;
        gather->grown_at = now_ns;
    }

    return (now_ns - gather->opened_at) < MUCT_XGMI_GATHER_MAX_NS;
}

bool muct_xgmi_gather_is_steady(const muct_xgmi_gather_t *gather, uint64_t now_ns)
{
    return (gather->count != 0) && muct_xgmi_gather_is_open_ended(gather) &&
           ((now_ns - gather->row_at) >= MUCT_XGMI_GATHER_STEADY_NS);
}
