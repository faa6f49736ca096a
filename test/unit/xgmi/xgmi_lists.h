/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef XGMI_LISTS_H
#define XGMI_LISTS_H

/**
 * @file
 * The configuration of mori_xgmi's interface, for tests that need another one than
 * muct_tuning.h has, and its timer. A file of its own, because the module and the tests
 * each declare the parts of UCX that it does not install.
 */

#include <stdbool.h>
#include <uct/api/uct.h>


/** Set the number of lists of queues that are created after this call. */
void xgmi_lists_set_count(uct_iface_h iface, unsigned num_lists);


/** Set the number of started lists after which copies are gathered. */
void xgmi_lists_set_max_started(uct_iface_h iface, unsigned max_started);


/** Set the time after which peers' memory fails to open. */
void xgmi_lists_set_open_limit(uct_iface_h iface, unsigned limit_ms);


/** Whether the time has come for which a sleeping thread is woken. */
bool xgmi_lists_is_timer_over(uct_iface_h iface);

#endif
