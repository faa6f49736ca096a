/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LIST_H
#define MKV_LIST_H

/**
 * @file
 * Doubly linked list, embedded in its elements. Pure; no locks.
 *
 * An element that is in no list points to itself, so that mkv_list_del() may be called
 * twice and mkv_list_is_empty() shows whether an element is in a list.
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct mkv_list {
    struct mkv_list *prev, *next;
} mkv_list_t;

static inline void mkv_list_init(mkv_list_t *list)
{
    list->prev = list->next = list;
}

static inline bool mkv_list_is_empty(const mkv_list_t *list)
{
    return list->next == list;
}

static inline void mkv_list_del(mkv_list_t *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    mkv_list_init(item);
}

/** Append; the item must be in no list. */
static inline void mkv_list_add_tail(mkv_list_t *list, mkv_list_t *item)
{
    item->prev = list->prev;
    item->next = list;
    list->prev->next = item;
    list->prev = item;
}

/** Append if the item is in no list. */
static inline void mkv_list_queue(mkv_list_t *list, mkv_list_t *item)
{
    if (mkv_list_is_empty(item)) {
        mkv_list_add_tail(list, item);
    }
}

static inline size_t mkv_list_length(const mkv_list_t *list)
{
    const mkv_list_t *item;
    size_t length = 0;

    for (item = list->next; item != list; item = item->next) {
        ++length;
    }
    return length;
}

/** Move all items to the tail of another list. */
static inline void mkv_list_splice(mkv_list_t *from, mkv_list_t *to)
{
    if (mkv_list_is_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    mkv_list_init(from);
}

#define mkv_container_of(_ptr, _type, _member)                                         \
    ((_type *)((char *)(_ptr) - offsetof(_type, _member)))

/** First element; the list must not be empty. */
#define mkv_list_head(_list, _type, _member)                                           \
    mkv_container_of((_list)->next, _type, _member)

#define mkv_list_for_each(_elem, _list, _type, _member)                                \
    for ((_elem) = mkv_container_of((_list)->next, _type, _member);                    \
         &(_elem)->_member != (_list);                                                 \
         (_elem) = mkv_container_of((_elem)->_member.next, _type, _member))

/** The current element may be removed in the body. */
#define mkv_list_for_each_safe(_elem, _tmp, _list, _type, _member)                     \
    for ((_elem) = mkv_container_of((_list)->next, _type, _member),                    \
        (_tmp) = mkv_container_of((_elem)->_member.next, _type, _member);              \
         &(_elem)->_member != (_list); (_elem) = (_tmp),                               \
        (_tmp) = mkv_container_of((_elem)->_member.next, _type, _member))

#endif
