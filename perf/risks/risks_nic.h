/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RISKS_NIC_H
#define RISKS_NIC_H

/** @file GPU memory by a NIC, between two workers of UCP in this process. */

#include <stdbool.h>
#include <stddef.h>

/** Connect over mori_rdma. @return Why there is no such way, or NULL. */
const char *risks_nic_open(void);
void risks_nic_close(void);

/**
 * Register a GPU's memory as the target of puts, until the other call.
 *
 * @return NULL, or what failed.
 */
const char *risks_nic_map(char *memory, size_t length);
void risks_nic_unmap(void);

/**
 * Put from a GPU's memory, which UCP registers itself, and flush.
 *
 * @return NULL, or what failed: a call, no end in time, or another path than one of
 *         mori_rdma alone in UCP's own words.
 */
const char *risks_nic_put(const char *from, char *to, size_t length);

/** Whether a put failed or did not end: its memory is then left as it is. */
bool risks_nic_is_broken(void);

#endif
