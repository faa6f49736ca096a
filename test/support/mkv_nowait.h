/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_NOWAIT_H
#define MKV_NOWAIT_H

/**
 * @file
 * Detect a waiting thread without a clock: the kernel refuses it every system call by
 * which a thread waits (seccomp(2)).
 */

/** Exit status of a process one of whose threads wanted to wait. */
#define MKV_NOWAIT_EXIT 3

/**
 * This thread ends the process, from now on and until the thread ends, with a text that
 * names the call's number when it sleeps, polls, waits for a lock that another thread
 * holds, for a child or for a signal, or yields the processor. It may read and write: a
 * test that relies on this makes its descriptors O_NONBLOCK. It may also wait for a
 * lock inside libc, such as the heap's.
 *
 * @return 0, or -1 with errno set: this kernel or container has no such filters.
 */
int mkv_nowait_begin(void);

#endif
