/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_TELL_H
#define MKV_TELL_H

/**
 * @file
 * What the caller is told of a transfer and its legs.
 */

#include "xfer/xfer.h"

/** An event of the transfer that names this leg. @return NULL: no memory. */
mkv_news_t *mkv_leg_event(const mkv_leg_t *leg, mkv_event_type_t type);

/** An event of the transfer, naming the leg that is why, else the first one. @return
 *  NULL: no memory. */
mkv_news_t *mkv_xfer_event(mkv_xfer_t *xfer, mkv_event_type_t type);

/**
 * The leg is complete (MKV_OK), or has failed: its status, once, and MKV_EV_LEG where
 * there are several.
 *
 * @param [in] text  Copied; may be NULL.
 */
void mkv_leg_end(mkv_leg_t *leg, mkv_status_t status, const char *text);

#endif
