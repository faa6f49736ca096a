/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_NOWAIT_H
#define MKV_NOWAIT_H

/**
 * @file
 * Whether a thread waits, without a clock: the kernel is asked to refuse it every
 * system call by which a thread waits (seccomp(2)).
 */

/** Exit status of a process one of whose threads wanted to wait. */
#define MKV_NOWAIT_EXIT 3

/**
 * From now on and until it ends, this thread ends the process with a text that names
 * the call's number when it sleeps, polls, waits for a lock that another one holds, for
 * a child or for a signal, or gives the processor away. It may read and write: who
 * takes this for a proof sees to it that the descriptors are O_NONBLOCK.
 *
 * @return 0, or -1 with errno set: this kernel or container has no such filters.
 */
int mkv_nowait_begin(void);

#endif
