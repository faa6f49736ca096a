/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Arrays that repeat one pointer, as UCP's lists need for memory handles and keys.
 */

#include "memory/repeat.h"

#include <stdlib.h>

void *mkv_repeat_get(mkv_repeat_t **fill, void *item, size_t num)
{
    mkv_repeat_t *block = *fill;
    size_t capacity;
    size_t i;

    if ((block != NULL) && (block->num >= num)) {
        return block->items;
    }

    capacity = (block == NULL) ? num : 2 * block->num;
    capacity = (capacity < num) ? num : capacity;
    block = malloc(sizeof(*block) + capacity * sizeof(block->items[0]));
    if (block == NULL) {
        return NULL;
    }
    for (i = 0; i < capacity; ++i) {
        block->items[i] = item;
    }
    block->num = capacity;
    block->older = *fill; /* may be in use by calls in flight */
    *fill = block;
    return block->items;
}

void mkv_repeat_cleanup(mkv_repeat_t **fill)
{
    mkv_repeat_t *block;

    while (*fill != NULL) {
        block = *fill;
        *fill = block->older;
        free(block);
    }
}
