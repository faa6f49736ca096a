/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_BELL_H
#define MUCT_XGMI_BELL_H

/**
 * @file
 * Wakes a sleeping thread of another process: a named pipe beside the control
 * pages, which works wherever they are shared. Both sides open it for reading and
 * writing, so that the end of one side causes no error on the other. Threads. Any, at
 * any time.
 */

#include "xgmi/peer/xgmi_addr.h"


/**
 * Create the bell of an interface of this process.
 *
 * @return Its descriptor, readable after a ring; -1 with errno.
 */
int muct_xgmi_bell_create(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id);


/** Take it down. */
void muct_xgmi_bell_remove(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id,
                           int fd);


/** Open the bell of an interface of another process. @return Its descriptor, or -1. */
int muct_xgmi_bell_open(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id);


/** Wake the thread that sleeps on the pipe. */
void muct_xgmi_bell_ring(int fd);


/** Drain the pipe. */
void muct_xgmi_bell_silence(int fd);

#endif
