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
} muct_rdma_rkeys_entry_t;

static struct {
    pthread_mutex_t lock;
    ucs_list_link_t list;
    pid_t pid; /* a child is another process */
    uint64_t process;
    uint16_t num_openings;
} muct_rdma_rkeys = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .list = UCS_LIST_INITIALIZER(&muct_rdma_rkeys.list, &muct_rdma_rkeys.list),
};
MUCT_FREE_IN_CHILD(muct_rdma_rkeys, &muct_rdma_rkeys.lock)

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

muct_rdma_key_t *muct_rdma_rkeys_alloc(void)
{
    muct_rdma_rkeys_entry_t *entry = malloc(sizeof(*entry));

    if (entry == NULL) {
        return NULL;
    }

    ucs_list_head_init(&entry->list);
    return &entry->key;
}

void muct_rdma_rkeys_add(muct_rdma_key_t *key)
{
    muct_rdma_rkeys_entry_t *entry = (muct_rdma_rkeys_entry_t *)key;

    pthread_mutex_lock(&muct_rdma_rkeys.lock);
    ucs_list_add_head(&muct_rdma_rkeys.list, &entry->list);
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

/* Number of the GPU whose page this is, in any key of the process; -1 for none. */
static int muct_rdma_rkeys_gpu_of(uint64_t incarnation, uint64_t page_address)
{
    const muct_rdma_rkeys_entry_t *entry;

    ucs_list_for_each(entry, &muct_rdma_rkeys.list, list)
    {
        if ((entry->key.flags & MUCT_RDMA_KEY_FLAG_GPU) &&
            (entry->key.page_address == page_address) &&
            muct_rdma_incarnation_is_near(entry->key.incarnation, incarnation)) {
            return entry->key.gpu;
        }
    }

    return -1;
}

static const muct_rdma_key_t *muct_rdma_rkeys_of_page(uint64_t incarnation, int gpu)
{
    const muct_rdma_rkeys_entry_t *entry;

    ucs_list_for_each(entry, &muct_rdma_rkeys.list, list)
    {
        if ((entry->key.incarnation == incarnation) &&
            (entry->key.flags & MUCT_RDMA_KEY_FLAG_GPU) && (entry->key.gpu == gpu)) {
            return &entry->key;
        }
    }

    return NULL;
}

static const muct_rdma_key_t *muct_rdma_rkeys_of_memory(uint64_t incarnation,
                                                        uint64_t address,
                                                        uint64_t length)
{
    const muct_rdma_rkeys_entry_t *entry;

    ucs_list_for_each(entry, &muct_rdma_rkeys.list, list)
    {
        if ((entry->key.incarnation == incarnation) &&
            muct_rdma_key_covers(&entry->key, address, length) &&
            (length <= muct_rdma_key_chunk_left(&entry->key, address))) {
            return &entry->key;
        }
    }

    return NULL;
}

bool muct_rdma_rkeys_find(uint64_t incarnation, uint64_t *address, uint64_t length,
                          uint32_t *rkey_p)
{
    const muct_rdma_key_t *key;
    int gpu;

    pthread_mutex_lock(&muct_rdma_rkeys.lock);
    gpu = muct_rdma_rkeys_gpu_of(incarnation, *address);
    if (gpu >= 0) {
        key = muct_rdma_rkeys_of_page(incarnation, gpu);
        if (key != NULL) {
            *address = key->page_address;
            *rkey_p = key->page_rkey;
        }
    } else {
        key = muct_rdma_rkeys_of_memory(incarnation, *address, length);
        if (key != NULL) {
            *rkey_p = key->rkeys[muct_rdma_key_chunk(key, *address)];
        }
    }
    pthread_mutex_unlock(&muct_rdma_rkeys.lock);
    return key != NULL;
}
