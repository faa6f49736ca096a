/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LINKS_H
#define MUCT_LINKS_H

/**
 * @file
 * Links between pairs of GPUs of this host, from AMD's driver in sysfs, including GPUs
 * that the process does not see. Threads: one reads, then any.
 */

#include <stddef.h>
#include <stdint.h>


/** A link from one GPU to another one. */
typedef struct muct_link {
    uint32_t from; /**< PCI addresses, domain << 16 | bus << 8 | device << 3 */
    uint32_t to;
    double bandwidth; /**< Bytes per second */
} muct_link_t;

/** All links; the reader owns the array: free(3). */
typedef struct muct_links {
    muct_link_t *links;
    size_t count;
} muct_links_t;


/**
 * Read the xGMI links of this host.
 *
 * @param [in]  dir    The driver's folder, /sys/class/kfd/kfd/topology.
 * @param [out] links  Empty where there is no such driver, no such link, or no memory.
 */
void muct_links_read(const char *dir, muct_links_t *links);


/**
 * Bandwidth of the link of a pair of GPUs.
 *
 * @param [in] from, to PCI addresses as the runtime writes them, "0000:0c:00.0", of any
 * partition; NULL: the slowest link of all GPUs counts.
 *
 * @return Bytes per second, or 0: the link is unknown.
 */
double muct_links_bandwidth(const muct_links_t *links, const char *from,
                            const char *to);

#endif
