/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_NAME_H
#define MKV_NAME_H

/**
 * @file
 * Names of contexts and peers.
 */

/** Bytes of a name, with its end. */
#define MKV_NAME_SIZE 64u

/**
 * Copy a name. One that does not fit, or is no valid UTF-8, is cut and ends in '~' and
 * a hash of the whole name, so that different names stay different.
 *
 * @param [out] name  MKV_NAME_SIZE bytes; valid UTF-8.
 */
void mkv_name_set(char *name, const char *given);

#endif
