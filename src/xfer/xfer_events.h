/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_XFER_EVENTS_H
#define MKV_XFER_EVENTS_H

/**
 * @file
 * Events of a transfer and its legs.
 */

#include "xfer/xfer.h"

/**
 * Add an event of the transfer that names this leg.
 * @return NULL: no memory.
 */
mkv_news_t *mkv_leg_event(const mkv_leg_t *leg, mkv_event_type_t type);

/**
 * Add an event of the transfer that names the leg that failed, else the first one.
 * @return NULL: no memory.
 */
mkv_news_t *mkv_xfer_event(mkv_xfer_t *xfer, mkv_event_type_t type);

/**
 * Set the final status of the leg once: MKV_OK or its error. A transfer of several legs
 * gets MKV_EV_LEG.
 *
 * @param [in] text  Copied; may be NULL.
 */
void mkv_leg_end(mkv_leg_t *leg, mkv_status_t status, const char *text);

#endif
