/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LIST_H
#define MKV_LIST_H

/**
 * @file
 * Doubly linked list of UCX (ucs_list_link_t), embedded in its elements; no locks.
 *
 * An element that is in no list points to itself, so that mkv_list_del() may be called
 * twice and mkv_list_is_empty() shows whether an element is in a list.
 */

#include <ucs/datastruct/list.h>
#include <ucs/sys/compiler_def.h>

typedef ucs_list_link_t mkv_list_t;

#define mkv_list_init ucs_list_head_init
#define mkv_list_is_empty ucs_list_is_empty
#define mkv_list_add_tail ucs_list_add_tail
#define mkv_list_length ucs_list_length

static inline void mkv_list_del(mkv_list_t *item)
{
    ucs_list_del(item);
    ucs_list_head_init(item);
}

/** Append if the item is in no list. */
static inline void mkv_list_queue(mkv_list_t *list, mkv_list_t *item)
{
    if (ucs_list_is_empty(item)) {
        ucs_list_add_tail(list, item);
    }
}

/** Move all items to the tail of another list. */
static inline void mkv_list_splice(mkv_list_t *from, mkv_list_t *to)
{
    ucs_list_splice_tail(to, from);
    ucs_list_head_init(from);
}

/** First element; the list must not be empty. */
#define mkv_list_head ucs_list_head

#define mkv_container_of ucs_container_of

#define mkv_list_for_each(_elem, _list, _member)                                       \
    ucs_list_for_each(_elem, _list, _member)

/** The body may remove the current element. */
#define mkv_list_for_each_safe(_elem, _tmp, _list, _member)                            \
    ucs_list_for_each_safe(_elem, _tmp, _list, _member)

#endif
