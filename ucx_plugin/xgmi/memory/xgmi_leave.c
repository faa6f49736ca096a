/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/memory/xgmi_leave.h"


bool muct_xgmi_leave_should(muct_xgmi_leave_t *leave, uint64_t posted, uint64_t now_ns)
{
    if (!leave->comes) {
        return false;
    }

    if (leave->over_at == 0) {
        leave->over_at = now_ns;
        leave->posted_at = now_ns;
    }
    if (posted != leave->posted) {
        leave->posted = posted;
        leave->posted_at = now_ns;
    }
    if ((now_ns - leave->posted_at) >= MUCT_XGMI_LEAVE_BEHIND_NS) {
        leave->comes = false; /* until that thread makes progress again */
        return false;
    }

    return (now_ns - leave->over_at) < MUCT_XGMI_LEAVE_MAX_NS;
}
