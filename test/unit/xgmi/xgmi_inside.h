/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef XGMI_INSIDE_H
#define XGMI_INSIDE_H

/**
 * @file
 * Internals of mori_xgmi for tests that use UCX's calls and are linked with it. They
 * are separate, because the module and the tests each declare the parts that UCX does
 * not install.
 */

#include "xgmi/message/xgmi_inbox.h"
#include "xgmi/message/xgmi_outbox.h"

#include <uct/api/uct.h>


/** Have UCX know the transport; before any other call. */
void xgmi_inside_register(void);


/** An interface's; NULL: it has no messages. */
muct_xgmi_inbox_t *xgmi_inside_inbox(uct_iface_h iface);


/** An endpoint's; NULL before the first message. */
muct_xgmi_outbox_t *xgmi_inside_outbox(uct_ep_h ep);

#endif
