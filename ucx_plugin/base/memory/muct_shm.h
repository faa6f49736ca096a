/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_SHM_H
#define MUCT_SHM_H

/**
 * @file
 * Files in shared memory, which have holes until they are written.
 *
 * Threads. Any.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>


/**
 * Allocate bytes of a file now: the first write to a hole raises SIGBUS when the file
 * system is full. Repeats calls that a signal interrupts, as in tmpfs.
 *
 * @return Whether all are allocated; else errno has the reason.
 */
static inline bool muct_shm_reserve(int fd, off_t offset, off_t length)
{
    do {
        errno = posix_fallocate(fd, offset, length);
    } while (errno == EINTR);
    return errno == 0;
}

#endif
