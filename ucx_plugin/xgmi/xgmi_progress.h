/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_PROGRESS_H
#define MUCT_XGMI_PROGRESS_H

/**
 * @file
 * Progress and events of an interface of mori_xgmi, for its operation table.
 */

#include "xgmi/xgmi_iface.h"


void muct_xgmi_iface_progress_enable(uct_iface_h iface, unsigned flags);
void muct_xgmi_iface_progress_disable(uct_iface_h iface, unsigned flags);
unsigned muct_xgmi_iface_progress(uct_iface_h iface);
ucs_status_t muct_xgmi_iface_event_arm(uct_iface_h iface, unsigned events);
ucs_status_t muct_xgmi_iface_event_fd_get(uct_iface_h iface, int *fd_p);

#endif
