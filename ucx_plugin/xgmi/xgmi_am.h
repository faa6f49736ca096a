/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_AM_H
#define MUCT_XGMI_AM_H

/**
 * @file
 * Active messages of mori_xgmi, through shared memory: sends of its endpoints and
 * receives of its interface.
 *
 * The receiver can read a message when the call that sends it returns. It overtakes
 * copies, as they overtake each other, but not those before a fence.
 *
 * Statuses of sends, beside those of xgmi_ep.h: UCS_ERR_NO_RESOURCE: the ring is full,
 * or copies before a fence are still running; add a pending request.
 * UCS_ERR_INVALID_PARAM: no id, or too long. UCS_ERR_UNSUPPORTED: this interface
 * carries no messages, or the peer lives and carries none, and the endpoint lives on; a
 * message that only checks that the peer lives (UCT_SEND_FLAG_PEER_CHECK) counts as
 * sent.
 */

#include "xgmi/xgmi_iface.h"


/** Most messages that one progress call delivers */
#define MUCT_XGMI_AM_AT_ONCE 16

/** Reported limit of the pieces of a short message; any number would do */
#define MUCT_XGMI_AM_MAX_IOV 16


/** Make an interface receive messages. On failure it carries none, and logs the reason.
 */
void muct_xgmi_am_init(muct_xgmi_iface_t *iface);


/** Undo it. */
void muct_xgmi_am_cleanup(muct_xgmi_iface_t *iface);


/** Fill in the message capabilities of an interface. */
void muct_xgmi_am_query(const muct_xgmi_iface_t *iface, uct_iface_attr_t *attr);


/** Call the handlers of received messages. @return Number of messages. */
unsigned muct_xgmi_am_progress(muct_xgmi_iface_t *iface);


/** Whether messages wait for progress. */
bool muct_xgmi_am_has(const muct_xgmi_iface_t *iface);


ucs_status_t muct_xgmi_ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header,
                                   const void *payload, unsigned length);
ucs_status_t muct_xgmi_ep_am_short_iov(uct_ep_h ep, uint8_t id, const uct_iov_t *iov,
                                       size_t iovcnt);
ssize_t muct_xgmi_ep_am_bcopy(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack,
                              void *arg, unsigned flags);

#endif
