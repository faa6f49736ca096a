/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_LINK_H
#define PERF_LINK_H

/**
 * @file
 * Rate of the links below a path, as the kernel reports it: of an RDMA port, of a
 * network device, or of xGMI between GPUs.
 */

/**
 * @param [in] path  With UCX's words: "put host>host: rdma (zero-copy
 * mori_rdma/nic0:1)".
 * @param [in] sys   "/sys", or another folder in a test.
 *
 * @return GB/s in one direction, the sum of all devices that the path names; 0 if the
 *         rate of one of them is unknown, if they are of several kinds, or if xGMI
 * links differ.
 */
double perf_link_rate(const char *path, const char *sys);

#endif
