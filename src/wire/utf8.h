/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_UTF8_H
#define MKV_UTF8_H

/**
 * @file
 * Text of other processes and of callers, as valid UTF-8. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

/**
 * Copy text and terminate it. Bytes that are no valid UTF-8 and control characters
 * become '?'; text that is too long is cut behind a whole character.
 *
 * @param [out] text  @a size bytes, at least 1.
 *
 * @return Whether @a text holds the same bytes as @a data.
 */
bool mkv_utf8_copy(char *text, size_t size, const void *data, size_t length);

#endif
