/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/memory/rdma_rkeys.h"

#include "base/muct_lock.h"
#include "base/muct_log.h"

#include <ucs/datastruct/list.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

typedef struct muct_rdma_rkeys_entry {
    muct_rdma_key_t key; /* first member: callers hold a pointer to the key */
    ucs_list_link_t list;
    uint64_t group; /* number that the keys of one region with all devices share */
} muct_rdma_rkeys_entry_t;

/* A process holds tens of thousands of keys, those of one device are some hundred. */
#define MUCT_RDMA_RKEYS_LISTS_SHIFT 10

static struct {
    pthread_mutex_t lock;
    /* entries by hash of their incarnation; a list of zeros is empty */
    ucs_list_link_t lists[1 << MUCT_RDMA_RKEYS_LISTS_SHIFT];
    uint64_t num_groups;
    pid_t pid; /* process that drew the number below; a forked child draws another */
    uint64_t process; /* upper 48 bits of the process's incarnations; the lower are 0 */
    uint16_t num_openings;
} muct_rdma_rkeys = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
};
MUCT_FREE_IN_CHILD(muct_rdma_rkeys, &muct_rdma_rkeys.lock)

/* The key that this thread added last, and its group */
static _Thread_local struct {
    uint64_t group; /* 0: none */
    uint64_t incarnation;
    uint64_t base;
    uint64_t length;
} muct_rdma_rkeys_last;

/* ---- incarnations ---- */

ucs_status_t muct_rdma_incarnation_next(uint64_t *incarnation_p)
{
    ucs_status_t status = UCS_OK;
    uint64_t process;

    pthread_mutex_lock(&muct_rdma_rkeys.lock);
    if (muct_rdma_rkeys.pid != getpid()) {
        if (getrandom(&process, sizeof(process), 0) == sizeof(process)) {
            muct_rdma_rkeys.process = process & ~0xffffull;
            muct_rdma_rkeys.pid = getpid();
        } else {
            muct_error("getrandom() failed: %m");
            status = UCS_ERR_IO_ERROR;
        }
    }
    if (status == UCS_OK) {
        *incarnation_p = muct_rdma_rkeys.process | ++muct_rdma_rkeys.num_openings;
    }
    pthread_mutex_unlock(&muct_rdma_rkeys.lock);
    return status;
}

/* ---- keys ---- */

/* The list with the keys of a device, and of some others. */
static ucs_list_link_t *muct_rdma_rkeys_list(uint64_t incarnation)
{
    const uint64_t hash = incarnation * 0x9e3779b97f4a7c15u;
    ucs_list_link_t *list =
        &muct_rdma_rkeys.lists[hash >> (64 - MUCT_RDMA_RKEYS_LISTS_SHIFT)];

    if (list->next == NULL) {
        ucs_list_head_init(list);
    }

    return list;
}

muct_rdma_key_t *muct_rdma_rkeys_alloc(void)
{
    muct_rdma_rkeys_entry_t *entry = malloc(sizeof(*entry));

    if (entry == NULL) {
        return NULL;
    }

    ucs_list_head_init(&entry->list);
    return &entry->key;
}

static const muct_rdma_rkeys_entry_t *muct_rdma_rkeys_of_group(uint64_t group,
                                                               uint64_t incarnation)
{
    const muct_rdma_rkeys_entry_t *entry;

    ucs_list_for_each(entry, muct_rdma_rkeys_list(incarnation), list)
    {
        if ((entry->group == group) && (entry->key.incarnation == incarnation)) {
            return entry;
        }
    }

    return NULL;
}

/* Whether the key is for the same region as the previous one, with a device that was
 * opened later. */
static bool muct_rdma_rkeys_is_next(const muct_rdma_key_t *key)
{
    return (muct_rdma_rkeys_last.group != 0) &&
           (key->base == muct_rdma_rkeys_last.base) &&
           (key->length == muct_rdma_rkeys_last.length) &&
           muct_rdma_incarnation_is_near(key->incarnation,
                                         muct_rdma_rkeys_last.incarnation) &&
           ((int16_t)(key->incarnation - muct_rdma_rkeys_last.incarnation) > 0);
}

/* UCP unpacks the keys of a region in a row, in the order in which their owner opened
 * the devices. A group ends with the region, or where a device was not opened later
 * than the previous one. */
static uint64_t muct_rdma_rkeys_group(const muct_rdma_key_t *key)
{
    if (!muct_rdma_rkeys_is_next(key)) {
        muct_rdma_rkeys_last.group = ++muct_rdma_rkeys.num_groups;
    }

    muct_rdma_rkeys_last.incarnation = key->incarnation;
    muct_rdma_rkeys_last.base = key->base;
    muct_rdma_rkeys_last.length = key->length;
    return muct_rdma_rkeys_last.group;
}

void muct_rdma_rkeys_add(muct_rdma_key_t *key)
{
    muct_rdma_rkeys_entry_t *entry = (muct_rdma_rkeys_entry_t *)key;

    pthread_mutex_lock(&muct_rdma_rkeys.lock);
    entry->group = muct_rdma_rkeys_group(key);
    ucs_list_add_head(muct_rdma_rkeys_list(key->incarnation), &entry->list);
    pthread_mutex_unlock(&muct_rdma_rkeys.lock);
}

void muct_rdma_rkeys_free(muct_rdma_key_t *key)
{
    muct_rdma_rkeys_entry_t *entry = (muct_rdma_rkeys_entry_t *)key;

    pthread_mutex_lock(&muct_rdma_rkeys.lock);
    ucs_list_del(&entry->list);
    pthread_mutex_unlock(&muct_rdma_rkeys.lock);
    free(entry);
}

/* Find the GPU that has this page in any key of the device. Return -1 if none has. */
static int muct_rdma_rkeys_gpu_of(uint64_t incarnation, uint64_t page_address)
{
    const muct_rdma_rkeys_entry_t *entry;

    ucs_list_for_each(entry, muct_rdma_rkeys_list(incarnation), list)
    {
        if ((entry->key.incarnation == incarnation) &&
            (entry->key.flags & MUCT_RDMA_KEY_FLAG_GPU) &&
            (entry->key.page_address == page_address)) {
            return entry->key.gpu;
        }
    }

    return -1;
}

static const muct_rdma_key_t *muct_rdma_rkeys_of_page(uint64_t incarnation, int gpu)
{
    const muct_rdma_rkeys_entry_t *entry;

    ucs_list_for_each(entry, muct_rdma_rkeys_list(incarnation), list)
    {
        if ((entry->key.incarnation == incarnation) &&
            (entry->key.flags & MUCT_RDMA_KEY_FLAG_GPU) && (entry->key.gpu == gpu)) {
            return &entry->key;
        }
    }

    return NULL;
}

/* Whether a work request may have this key. */
static bool muct_rdma_rkeys_is_named(const muct_rdma_key_t *key,
                                     const muct_rdma_rkeys_target_t *target)
{
    return (key->incarnation == target->incarnation) &&
           muct_rdma_key_covers(key, target->address, target->length) &&
           (key->rkeys[muct_rdma_key_chunk(key, target->address)] == target->rkey);
}

/* UCP contexts of the process have groups of their own for one registration, some of
 * them with fewer devices. */
static bool muct_rdma_rkeys_translate_memory(muct_rdma_rkeys_target_t *target,
                                             uint64_t incarnation)
{
    const muct_rdma_rkeys_entry_t *entry, *other;
    const muct_rdma_key_t *key;

    ucs_list_for_each(entry, muct_rdma_rkeys_list(target->incarnation), list)
    {
        if (!muct_rdma_rkeys_is_named(&entry->key, target)) {
            continue;
        }

        other = muct_rdma_rkeys_of_group(entry->group, incarnation);
        if ((other != NULL) && (target->length <= muct_rdma_key_chunk_left(
                                                      &other->key, target->address))) {
            key = &other->key;
            target->rkey = key->rkeys[muct_rdma_key_chunk(key, target->address)];
            return true;
        }
    }

    return false;
}

bool muct_rdma_rkeys_translate(muct_rdma_rkeys_target_t *target, uint64_t incarnation)
{
    const muct_rdma_key_t *key;
    bool is_found;
    int gpu;

    pthread_mutex_lock(&muct_rdma_rkeys.lock);
    gpu = muct_rdma_rkeys_gpu_of(target->incarnation, target->address);
    if (gpu < 0) {
        is_found = muct_rdma_rkeys_translate_memory(target, incarnation);
    } else {
        key = muct_rdma_rkeys_of_page(incarnation, gpu);
        is_found = key != NULL;
        if (is_found) {
            target->address = key->page_address;
            target->rkey = key->page_rkey;
        }
    }
    pthread_mutex_unlock(&muct_rdma_rkeys.lock);
    return is_found;
}
