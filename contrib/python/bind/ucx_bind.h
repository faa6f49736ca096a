/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef UCX_BIND_H
#define UCX_BIND_H

/**
 * @file
 * The UCX of libmorikv as it is in a wheel: chosen when the process runs.
 *
 * A library that names its UCX when it is linked gets the system's, or none; wheels
 * carry UCX under file names of their own. Here libmorikv's calls of UCX go through a
 * table, which is filled from the file that the caller names. No symbol of that file
 * becomes visible to others, so other copies of UCX in the process are left alone.
 *
 * Threads. To be called before anything else of the library, by one thread.
 */

#include <stddef.h>


/**
 * Take UCX from a file.
 *
 * @param [in]  file     libucp, as dlopen() takes it; the libraries it needs come with
 * it.
 * @param [out] version  At least 32 bytes: "1.22.0".
 * @param [out] error    Why not; cut at @a size bytes.
 * @param [in]  size     Bytes at @a error.
 *
 * @return 0; or -1 when the file cannot be loaded, is of an older minor than the
 * headers that this library was built with, or lacks a function that libmorikv calls,
 * and -2 when another file was taken before. The library then is as it was.
 */
__attribute__((visibility("default"))) int mkv_bind_ucx(const char *file, char *version,
                                                        char *error, size_t size);

#endif
