/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_PERF_H
#define MUCT_XGMI_PERF_H

/**
 * @file
 * Performance attributes that an interface reports, by which UCX chooses lanes.
 */

#include "xgmi/xgmi_iface.h"


/**
 * Determine the bandwidth of links. The slowest one counts where pairs of GPUs differ,
 * as UCX requests one number for all of them.
 *
 * @param [in] topology   The driver's folder.
 * @param [in] bandwidth  Bytes per second for all links, or UCS_CONFIG_DBL_AUTO.
 */
void muct_xgmi_perf_find_links(muct_xgmi_iface_t *iface, const char *topology,
                               double bandwidth);


/** A bandwidth: per peer where the links are known, otherwise shared by all peers. */
uct_ppn_bandwidth_t muct_xgmi_perf_bandwidth(const muct_xgmi_iface_t *iface,
                                             double bandwidth);


/** iface_estimate_perf: of the interface, or of the pair of GPUs in @a attr. */
ucs_status_t muct_xgmi_perf_estimate(uct_iface_h iface, uct_perf_attr_t *attr);

#endif
