/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_NOWAIT_H
#define MKV_NOWAIT_H

/**
 * @file
 * Detect a waiting thread without a clock: the kernel refuses it every system call by
 * which a thread waits (seccomp(2)).
 */

/** Exit status of a process in which a thread tried to wait. */
#define MKV_NOWAIT_EXIT 3

/**
 * From now on this thread ends the process when it sleeps, polls, yields the processor,
 * or waits for a lock that another thread holds, for a child or for a signal. A text
 * names the call's number. It may read and write: a test that relies on this makes its
 * descriptors O_NONBLOCK. It may also wait for a lock inside libc, such as the heap's.
 *
 * @return 0, or -1 with errno set: this kernel or container has no such filters.
 */
int mkv_nowait_begin(void);

#endif
