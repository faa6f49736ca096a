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
 * Have bytes of a file be there, now: the first write to a hole is a SIGBUS when the
 * file system is full. A signal to the thread is no end of it, as it may be in tmpfs.
 *
 * @return Whether they are; else errno says why not.
 */
static inline bool muct_shm_reserve(int fd, off_t offset, off_t length)
{
    do {
        errno = posix_fallocate(fd, offset, length);
    } while (errno == EINTR);
    return errno == 0;
}

#endif
