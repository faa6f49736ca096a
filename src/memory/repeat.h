/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_REPEAT_H
#define MKV_REPEAT_H

/**
 * @file
 * Arrays of one repeated pointer, as UCP's lists need for memory handles and keys.
 */

#include <stddef.h>

/** The newest and largest array, and the ones before it; all stay until cleanup. */
typedef struct mkv_repeat {
    struct mkv_repeat *older;
    size_t num;
    void *items[];
} mkv_repeat_t;

/** At least @a num times @a item, valid until mkv_repeat_cleanup(); NULL: no memory. */
void *mkv_repeat_get(mkv_repeat_t **repeat, void *item, size_t num);
void mkv_repeat_cleanup(mkv_repeat_t **repeat);

#endif
