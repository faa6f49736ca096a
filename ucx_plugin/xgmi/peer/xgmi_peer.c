/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The control page of this process, the peers, and the slots of peers that copies of
 * this process use.
 *
 * Locks. muct_xgmi_peer_lock guards this process's page state and the list of peers.
 * peer->lock guards the counts of one peer's slots; it is taken alone or inside the
 * first.
 *
 * The process itself is a peer without a file, which is always alive.
 */

#include "config.h"

#include "xgmi/peer/xgmi_peer.h"

#include "base/muct_lock.h"
#include "base/muct_log.h"
#include "xgmi/peer/xgmi_page.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Attempts to create a page: each time its name may be taken, or a sweep may remove it
 */
#define MUCT_XGMI_SHARE_TRIES 100


/* Added to the generation of a void slot when its owner stops waiting. */
#define MUCT_XGMI_EXPIRED 2

#define MUCT_XGMI_NO_USER MUCT_XGMI_MAX_USERS

/* Number of claims after which a refused place is tried again, as each try examines
 * all users */
#define MUCT_XGMI_CLAIMS_TO_TRY 64


struct muct_xgmi_peer {
    muct_xgmi_peer_t *next;
    uint64_t owner;
    atomic_uint refs;        /* the first and the last one change under the lock */
    int fd;                  /* -1: this process */
    int pidfd;               /* -1: none */
    atomic_uint user;        /* our place among the owner's users */
    atomic_uint num_refused; /* failed claims of a place */
    atomic_int is_dead;
    muct_xgmi_page_t *page;
    pthread_mutex_t lock;
    uint32_t *counts; /* nested enters of each slot */
};


static struct {
    unsigned refs;
    pid_t pid; /* process that created the page; getpid() differs after fork() */
    int fd;
    char dir[256];
    muct_xgmi_page_t *page;
    uint32_t next_slot;
    uint32_t next_iface;
    muct_xgmi_self_t self;
    muct_xgmi_peer_t *peers;
} muct_xgmi_process = {.fd = -1};

static pthread_mutex_t muct_xgmi_peer_lock = PTHREAD_MUTEX_INITIALIZER;
MUCT_FREE_IN_CHILD(muct_xgmi_peer_lock, &muct_xgmi_peer_lock)

const char *muct_xgmi_self_dir(void)
{
    return muct_xgmi_process.dir;
}

bool muct_xgmi_self_is_here(void)
{
    return muct_xgmi_process.pid == getpid();
}

/* Close a forked child's copy of the descriptor: it would hold the parent's lock. */
static void muct_xgmi_process_forked(void)
{
    if (muct_xgmi_process.fd >= 0) {
        close(muct_xgmi_process.fd);
        muct_xgmi_process.fd = -1;
    }
}

static void muct_xgmi_process_watch_forks(void)
{
    if (pthread_atfork(NULL, NULL, muct_xgmi_process_forked) != 0) {
        muct_warn(
            "peers of a process that ends before its forked children do not see its "
            "end: pthread_atfork() failed");
    }
}

/* State in a forked child belongs to the parent: drop it. */
static void muct_xgmi_process_forget_parent(void)
{
    if ((muct_xgmi_process.refs > 0) && (muct_xgmi_process.pid != getpid())) {
        munmap(muct_xgmi_process.page, sizeof(*muct_xgmi_process.page));
        muct_xgmi_process_forked();
        muct_xgmi_process.refs = 0;
        muct_xgmi_process.peers = NULL;
    }
}

/* Create a page under a new number. A process that sweeps old files takes a page
 * that is not locked yet for a dead process's page; retry until the sweep has ended. */
static ucs_status_t muct_xgmi_process_share(const char *dir)
{
    ucs_status_t status = UCS_ERR_BUSY;
    unsigned i;

    for (i = 0; (i < MUCT_XGMI_SHARE_TRIES) && (status == UCS_ERR_BUSY); ++i) {
        status = muct_xgmi_page_identify(dir, &muct_xgmi_process.self);
        if (status == UCS_OK) {
            status =
                muct_xgmi_page_create(dir, &muct_xgmi_process.self,
                                      &muct_xgmi_process.fd, &muct_xgmi_process.page);
        }
    }
    if (status == UCS_ERR_BUSY) {
        muct_error("%u control pages in %s were removed while they were made", i, dir);
        return UCS_ERR_IO_ERROR;
    }
    return status;
}

ucs_status_t muct_xgmi_self_open(const char *dir, muct_xgmi_self_t *self)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    ucs_status_t status = UCS_OK;

    (void)pthread_once(&once, muct_xgmi_process_watch_forks);
    pthread_mutex_lock(&muct_xgmi_peer_lock);
    muct_xgmi_process_forget_parent();
    if (muct_xgmi_process.refs == 0) {
        muct_xgmi_page_sweep(dir);
        status = muct_xgmi_process_share(dir);
        if (status != UCS_OK) {
            goto out;
        }
        muct_xgmi_process.pid = getpid();
        muct_xgmi_process.next_slot = 0;
        muct_xgmi_process.next_iface = 0;
        snprintf(muct_xgmi_process.dir, sizeof(muct_xgmi_process.dir), "%s", dir);
    }

    ++muct_xgmi_process.refs;
    *self = muct_xgmi_process.self;
out:
    pthread_mutex_unlock(&muct_xgmi_peer_lock);
    return status;
}

void muct_xgmi_self_close(void)
{
    pthread_mutex_lock(&muct_xgmi_peer_lock);
    muct_xgmi_process_forget_parent();
    if ((muct_xgmi_process.refs > 0) && (--muct_xgmi_process.refs == 0)) {
        muct_xgmi_page_remove(muct_xgmi_process.dir, muct_xgmi_process.self.owner);
        munmap(muct_xgmi_process.page, sizeof(*muct_xgmi_process.page));
        close(muct_xgmi_process.fd);
        muct_xgmi_process.page = NULL;
        muct_xgmi_process.fd = -1;
    }
    pthread_mutex_unlock(&muct_xgmi_peer_lock);
}

static _Atomic uint64_t *muct_xgmi_slot_word(muct_xgmi_slot_t *slot, unsigned user)
{
    return &slot->users[user / 64];
}

static uint64_t muct_xgmi_slot_bit(unsigned user)
{
    return UINT64_C(1) << (user % 64);
}

static bool muct_xgmi_slot_has_users(const muct_xgmi_slot_t *slot)
{
    unsigned i;

    for (i = 0; i < MUCT_XGMI_MAX_USERS / 64; ++i) {
        if (atomic_load(&slot->users[i]) != 0) {
            return true;
        }
    }
    return false;
}

/* Do not take a slot under which other processes still copy, as they have announced no
 * other slot. */
static bool muct_xgmi_slot_take(uint32_t *slot_p, uint32_t *generation_p)
{
    muct_xgmi_slot_t *slot;
    uint32_t i, index, generation, num_slots;
    bool is_taken = false;

    pthread_mutex_lock(&muct_xgmi_peer_lock);
    num_slots = muct_xgmi_page_num_slots(muct_xgmi_process.page);
    for (i = 0; (i < num_slots) && !is_taken; ++i) {
        /* Round robin: a slot rests as long as possible before it is used again. */
        index = (muct_xgmi_process.next_slot + i) % num_slots;
        slot = &muct_xgmi_process.page->slots[index];
        generation = atomic_load(&slot->generation);
        if ((generation & 1) || muct_xgmi_slot_has_users(slot)) {
            continue;
        }

        atomic_store(&slot->generation, generation + 1);
        muct_xgmi_process.next_slot = index + 1;
        *slot_p = index;
        *generation_p = generation + 1;
        is_taken = true;
    }
    pthread_mutex_unlock(&muct_xgmi_peer_lock);
    return is_taken;
}

/* @return Whether there are more slots than @a num_slots. */
static bool muct_xgmi_slot_grow(uint32_t num_slots)
{
    muct_xgmi_page_t *page = muct_xgmi_process.page;
    bool has_grown;

    pthread_mutex_lock(&muct_xgmi_peer_lock);
    has_grown = (muct_xgmi_page_num_slots(page) > num_slots) ||
                muct_xgmi_page_add_slots(muct_xgmi_process.fd, page);
    pthread_mutex_unlock(&muct_xgmi_peer_lock);
    return has_grown;
}

ucs_status_t muct_xgmi_slot_alloc(uint32_t *slot_p, uint32_t *generation_p)
{
    uint32_t index, num_slots;

    do {
        num_slots = muct_xgmi_page_num_slots(muct_xgmi_process.page);
        if (muct_xgmi_slot_take(slot_p, generation_p)) {
            return UCS_OK;
        }
    } while (muct_xgmi_slot_grow(num_slots));

    for (index = 0; index < num_slots; ++index) {
        muct_xgmi_slot_drop_dead(index);
    }
    return muct_xgmi_slot_take(slot_p, generation_p) ? UCS_OK : UCS_ERR_EXCEEDS_LIMIT;
}

uint32_t muct_xgmi_slot_void(uint32_t index)
{
    muct_xgmi_slot_t *slot = &muct_xgmi_process.page->slots[index];
    uint32_t generation;

    if (!muct_xgmi_self_is_here()) {
        return 0; /* in a forked child the slot is the parent's */
    }
    pthread_mutex_lock(&muct_xgmi_peer_lock);
    generation = atomic_load(&slot->generation);
    if (generation & 1) {
        atomic_store(&slot->generation, ++generation);
    }
    pthread_mutex_unlock(&muct_xgmi_peer_lock);
    return generation;
}

void muct_xgmi_slot_free(uint32_t index)
{
    (void)muct_xgmi_slot_void(index);
}

bool muct_xgmi_slot_is_used(uint32_t index, uint32_t generation)
{
    muct_xgmi_slot_t *slot = &muct_xgmi_process.page->slots[index];

    /* the generation differs: the slot was unused when it was taken again */
    return muct_xgmi_self_is_here() && (atomic_load(&slot->generation) == generation) &&
           muct_xgmi_slot_has_users(slot);
}

void muct_xgmi_slot_expire(uint32_t index, uint32_t generation)
{
    muct_xgmi_slot_t *slot = &muct_xgmi_process.page->slots[index];

    pthread_mutex_lock(&muct_xgmi_peer_lock);
    if (atomic_load(&slot->generation) == generation) {
        atomic_store(&slot->generation, generation + MUCT_XGMI_EXPIRED);
    }
    pthread_mutex_unlock(&muct_xgmi_peer_lock);
}

muct_xgmi_iface_id_t muct_xgmi_iface_id_open(void)
{
    muct_xgmi_iface_id_t id = {MUCT_XGMI_NO_IFACE_SLOT, 0};
    _Atomic uint32_t *ifaces;
    uint32_t i, index;

    pthread_mutex_lock(&muct_xgmi_peer_lock);
    ifaces = muct_xgmi_process.page->ifaces;
    for (i = 0; i < MUCT_XGMI_MAX_IFACES; ++i) {
        index = (muct_xgmi_process.next_iface + i) % MUCT_XGMI_MAX_IFACES;
        if (!(atomic_load(&ifaces[index]) & 1)) {
            id.slot = index;
            id.generation = atomic_fetch_add(&ifaces[index], 1) + 1;
            muct_xgmi_process.next_iface = index + 1;
            break;
        }
    }
    pthread_mutex_unlock(&muct_xgmi_peer_lock);
    if (id.slot == MUCT_XGMI_NO_IFACE_SLOT) {
        muct_diag(
            "%d interfaces are open: peers of this one see the end of its process, "
            "but not of the interface",
            MUCT_XGMI_MAX_IFACES);
    }
    return id;
}

void muct_xgmi_iface_id_close(muct_xgmi_iface_id_t id)
{
    /* in a forked child the slot is the parent's, and its peers must not see an end */
    if ((id.slot != MUCT_XGMI_NO_IFACE_SLOT) && muct_xgmi_self_is_here()) {
        atomic_fetch_add(&muct_xgmi_process.page->ifaces[id.slot], 1);
    }
}

bool muct_xgmi_owner_is_dead(uint64_t owner)
{
    muct_xgmi_peer_t *peer;
    ucs_status_t status;

    if (owner == 0) {
        return true;
    }

    status = muct_xgmi_peer_get(owner, &peer);
    if (status == UCS_OK) {
        muct_xgmi_peer_put(peer);
    }
    return status == UCS_ERR_CONNECTION_RESET;
}

/* Clear the bits of processes that died between enter and leave. */
void muct_xgmi_slot_drop_dead(uint32_t index)
{
    muct_xgmi_page_t *page = muct_xgmi_process.page;
    _Atomic uint64_t *word;
    unsigned i;

    for (i = 0; i < MUCT_XGMI_MAX_USERS; ++i) {
        word = muct_xgmi_slot_word(&page->slots[index], i);
        if ((atomic_load(word) & muct_xgmi_slot_bit(i)) &&
            muct_xgmi_owner_is_dead(atomic_load(&page->users[i]))) {
            atomic_fetch_and(word, ~muct_xgmi_slot_bit(i));
        }
    }
}

static muct_xgmi_peer_t *muct_xgmi_peer_alloc(uint64_t owner)
{
    muct_xgmi_peer_t *peer = calloc(1, sizeof(*peer));

    if (peer == NULL) {
        muct_error("failed to allocate %zu bytes for peer 0x%" PRIx64, sizeof(*peer),
                   owner);
        return NULL;
    }

    peer->owner = owner;
    atomic_init(&peer->refs, 1);
    peer->fd = -1;
    peer->pidfd = -1;
    peer->user = MUCT_XGMI_NO_USER;
    pthread_mutex_init(&peer->lock, NULL);
    return peer;
}

static void muct_xgmi_peer_open_pidfd(muct_xgmi_peer_t *peer)
{
#ifdef SYS_pidfd_open
    if (peer->page->pid_namespace == muct_xgmi_process.self.pid_namespace) {
        peer->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)peer->page->pid, 0);
    }
#endif
}

static ucs_status_t muct_xgmi_peer_create(uint64_t owner, muct_xgmi_peer_t **peer_p)
{
    muct_xgmi_peer_t *peer = muct_xgmi_peer_alloc(owner);
    ucs_status_t status = UCS_ERR_NO_MEMORY;

    if (peer == NULL) {
        return status;
    }

    if (owner == muct_xgmi_process.self.owner) {
        peer->page = muct_xgmi_process.page;
        ++muct_xgmi_process.refs; /* the page stays mapped as long as the peer exists */
        *peer_p = peer;
        return UCS_OK;
    }

    peer->counts = calloc(MUCT_XGMI_MAX_SLOTS, sizeof(*peer->counts));
    if (peer->counts == NULL) {
        muct_error("failed to allocate slot counts of peer 0x%" PRIx64, owner);
        goto err_free;
    }

    status = muct_xgmi_page_map(muct_xgmi_process.dir, owner, &peer->fd, &peer->page);
    if (status != UCS_OK) {
        goto err_free;
    }

    muct_xgmi_peer_open_pidfd(peer);
    /* check the lock after opening the pidfd: a process that holds the lock now is the
     * one of the pidfd */
    if (muct_xgmi_page_is_locked(peer->fd)) {
        *peer_p = peer;
        return UCS_OK;
    }

    muct_debug("process 0x%" PRIx64 " (pid %u) is dead", owner, peer->page->pid);
    status = UCS_ERR_CONNECTION_RESET;
    if (peer->pidfd >= 0) {
        close(peer->pidfd);
    }
    munmap(peer->page, sizeof(*peer->page));
    close(peer->fd);
err_free:
    free(peer->counts);
    pthread_mutex_destroy(&peer->lock);
    free(peer);
    return status;
}

/* The caller holds a reference or the lock */
muct_xgmi_peer_t *muct_xgmi_peer_ref(muct_xgmi_peer_t *peer)
{
    atomic_fetch_add_explicit(&peer->refs, 1, memory_order_relaxed);
    return peer;
}

/* @return Whether other references remain. The last one is released under the lock,
 * because a lookup may find the peer meanwhile. */
static bool muct_xgmi_peer_unref(muct_xgmi_peer_t *peer)
{
    unsigned refs = atomic_load_explicit(&peer->refs, memory_order_relaxed);

    while (refs > 1) {
        if (atomic_compare_exchange_weak_explicit(&peer->refs, &refs, refs - 1,
                                                  memory_order_release,
                                                  memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static ucs_status_t muct_xgmi_peer_look_up(uint64_t owner, bool may_be_dead,
                                           muct_xgmi_peer_t **peer_p)
{
    ucs_status_t status = UCS_ERR_UNREACHABLE;
    muct_xgmi_peer_t *peer;

    pthread_mutex_lock(&muct_xgmi_peer_lock);
    muct_xgmi_process_forget_parent();
    if (muct_xgmi_process.refs == 0) {
        goto out;
    }

    for (peer = muct_xgmi_process.peers; peer != NULL; peer = peer->next) {
        if (peer->owner == owner) {
            status = UCS_ERR_CONNECTION_RESET;
            if (muct_xgmi_peer_is_alive(peer) || may_be_dead) {
                *peer_p = muct_xgmi_peer_ref(peer);
                status = UCS_OK;
            }
            goto out;
        }
    }

    status = muct_xgmi_peer_create(owner, &peer);
    if (status == UCS_OK) {
        peer->next = muct_xgmi_process.peers;
        muct_xgmi_process.peers = peer;
        *peer_p = peer;
    }
out:
    pthread_mutex_unlock(&muct_xgmi_peer_lock);
    return status;
}

ucs_status_t muct_xgmi_peer_get(uint64_t owner, muct_xgmi_peer_t **peer_p)
{
    return muct_xgmi_peer_look_up(owner, false, peer_p);
}

ucs_status_t muct_xgmi_peer_get_known(uint64_t owner, muct_xgmi_peer_t **peer_p)
{
    ucs_status_t status = muct_xgmi_peer_look_up(owner, true, peer_p);

    return (status == UCS_ERR_CONNECTION_RESET) ? UCS_ERR_UNREACHABLE : status;
}

static void muct_xgmi_peer_release_user(muct_xgmi_peer_t *peer)
{
    /* in a forked child the place is the parent's */
    if ((peer->user != MUCT_XGMI_NO_USER) && muct_xgmi_self_is_here()) {
        atomic_store(&peer->page->users[peer->user], 0);
    }
}

void muct_xgmi_peer_put(muct_xgmi_peer_t *peer)
{
    muct_xgmi_peer_t **link;

    if (muct_xgmi_peer_unref(peer)) {
        return;
    }
    pthread_mutex_lock(&muct_xgmi_peer_lock);
    if (atomic_fetch_sub(&peer->refs, 1) > 1) { /* a lookup has found it meanwhile */
        pthread_mutex_unlock(&muct_xgmi_peer_lock);
        return;
    }

    for (link = &muct_xgmi_process.peers; *link != NULL; link = &(*link)->next) {
        if (*link == peer) {
            *link = peer->next;
            break;
        }
    }
    pthread_mutex_unlock(&muct_xgmi_peer_lock);

    if (peer->fd >= 0) {
        muct_xgmi_peer_release_user(peer);
        munmap(peer->page, sizeof(*peer->page));
        close(peer->fd);
    } else {
        muct_xgmi_self_close();
    }
    if (peer->pidfd >= 0) {
        close(peer->pidfd);
    }
    free(peer->counts);
    pthread_mutex_destroy(&peer->lock);
    free(peer);
}

bool muct_xgmi_peer_is_alive(muct_xgmi_peer_t *peer)
{
    struct pollfd pidfd = {.fd = peer->pidfd, .events = POLLIN};

    if (!muct_xgmi_peer_was_alive(peer)) {
        return false;
    }

    /* the lock alone does not prove life: a raw child (clone(2), _Fork()) inherits
     * it */
    if (((peer->pidfd < 0) || (poll(&pidfd, 1, 0) <= 0)) &&
        ((peer->fd < 0) || muct_xgmi_page_is_locked(peer->fd))) {
        return true;
    }

    atomic_store(&peer->is_dead, 1);
    return false;
}

bool muct_xgmi_peer_ends(muct_xgmi_peer_t *peer, int timeout_ms)
{
    struct pollfd pidfd = {.fd = peer->pidfd, .events = POLLIN};

    if ((peer->pidfd < 0) || (poll(&pidfd, 1, timeout_ms) <= 0)) {
        return !muct_xgmi_peer_is_alive(peer);
    }

    atomic_store(&peer->is_dead, 1);
    return true;
}

bool muct_xgmi_peer_was_alive(const muct_xgmi_peer_t *peer)
{
    return !atomic_load_explicit(&peer->is_dead, memory_order_relaxed);
}

const _Atomic uint32_t *muct_xgmi_peer_iface(const muct_xgmi_peer_t *peer,
                                             const muct_xgmi_iface_id_t *id)
{
    if (id->slot == MUCT_XGMI_NO_IFACE_SLOT) {
        return (const _Atomic uint32_t *)&id->generation;
    }
    return (id->slot < MUCT_XGMI_MAX_IFACES) ? &peer->page->ifaces[id->slot] : NULL;
}

int muct_xgmi_peer_fd(const muct_xgmi_peer_t *peer)
{
    return peer->pidfd;
}

pid_t muct_xgmi_peer_pid(const muct_xgmi_peer_t *peer)
{
    if (muct_xgmi_peer_is_self(peer)) {
        return getpid();
    }

    return (peer->page->pid_namespace == muct_xgmi_process.self.pid_namespace)
               ? (pid_t)peer->page->pid
               : 0;
}

bool muct_xgmi_peer_is_self(const muct_xgmi_peer_t *peer)
{
    return peer->fd < 0;
}

uint64_t muct_xgmi_peer_owner(const muct_xgmi_peer_t *peer)
{
    return peer->owner;
}


/* ---- use of slots ---- */

/* Find a place for this process among the owner's users; places of dead users are
 * freed. */
static unsigned muct_xgmi_peer_find_place(muct_xgmi_peer_t *peer)
{
    muct_xgmi_page_t *page = peer->page;
    const uint32_t num_slots = muct_xgmi_page_num_slots(peer->page);
    uint64_t expected;
    unsigned i, slot;
    int pass;

    for (pass = 0; pass < 2; ++pass) {
        for (i = 0; i < MUCT_XGMI_MAX_USERS; ++i) {
            expected = atomic_load(&page->users[i]);
            if ((pass == 0) ? (expected != 0) : !muct_xgmi_owner_is_dead(expected)) {
                continue;
            }
            if (!atomic_compare_exchange_strong(&page->users[i], &expected,
                                                muct_xgmi_process.self.owner)) {
                continue;
            }
            for (slot = 0; (pass != 0) && (slot < num_slots); ++slot) {
                atomic_fetch_and(muct_xgmi_slot_word(&page->slots[slot], i),
                                 ~muct_xgmi_slot_bit(i));
            }
            return i;
        }
    }
    return MUCT_XGMI_NO_USER;
}

/* Not under the lock: examining other users takes the outer one. */
static void muct_xgmi_peer_take_place(muct_xgmi_peer_t *peer)
{
    const unsigned user = muct_xgmi_peer_find_place(peer);

    if (user == MUCT_XGMI_NO_USER) {
        return;
    }
    pthread_mutex_lock(&peer->lock);
    if (peer->user == MUCT_XGMI_NO_USER) {
        peer->user = user;
    } else {
        atomic_store(&peer->page->users[user], 0);
    }
    pthread_mutex_unlock(&peer->lock);
}

bool muct_xgmi_peer_claim(muct_xgmi_peer_t *peer)
{
    unsigned num_refused;

    if ((peer->fd < 0) || (peer->user != MUCT_XGMI_NO_USER)) {
        return true;
    }

    num_refused = atomic_load(&peer->num_refused);
    if (num_refused % MUCT_XGMI_CLAIMS_TO_TRY == 0) {
        muct_xgmi_peer_take_place(peer);
        if (peer->user != MUCT_XGMI_NO_USER) {
            return true;
        }
        if (num_refused == 0) {
            muct_warn("mori_xgmi does not copy to or from the memory of process "
                      "0x%" PRIx64 ": %d processes use it already; other transports "
                      "carry it. Spread the peers over more processes",
                      peer->owner, MUCT_XGMI_MAX_USERS);
        }
    }
    atomic_fetch_add(&peer->num_refused, 1);
    return false;
}

bool muct_xgmi_peer_enter(muct_xgmi_peer_t *peer, uint32_t index, uint32_t generation)
{
    muct_xgmi_slot_t *slot;

    if ((index >= muct_xgmi_page_num_slots(peer->page)) ||
        !muct_xgmi_peer_claim(peer)) {
        return false;
    }

    slot = &peer->page->slots[index];
    if (peer->fd < 0) {
        return atomic_load(&slot->generation) == generation;
    }

    pthread_mutex_lock(&peer->lock);
    if (peer->counts[index]++ == 0) {
        atomic_fetch_or(muct_xgmi_slot_word(slot, peer->user),
                        muct_xgmi_slot_bit(peer->user));
    }
    pthread_mutex_unlock(&peer->lock);

    /* bit before generation: see muct_xgmi_slot_void */
    if (atomic_load(&slot->generation) == generation) {
        return true;
    }

    muct_xgmi_peer_leave(peer, index);
    return false;
}

void muct_xgmi_peer_leave(muct_xgmi_peer_t *peer, uint32_t index)
{
    if (peer->fd < 0) {
        return;
    }

    pthread_mutex_lock(&peer->lock);
    /* a forked child has closed the descriptor: the announcement is the parent's */
    if ((--peer->counts[index] == 0) && (muct_xgmi_process.fd >= 0)) {
        atomic_fetch_and(muct_xgmi_slot_word(&peer->page->slots[index], peer->user),
                         ~muct_xgmi_slot_bit(peer->user));
    }
    pthread_mutex_unlock(&peer->lock);
}

bool muct_xgmi_peer_has_expired(const muct_xgmi_peer_t *peer, uint32_t index,
                                uint32_t generation)
{
    /* a process does not wait for its own copies */
    return (peer->fd >= 0) && ((atomic_load(&peer->page->slots[index].generation) -
                                generation) >= MUCT_XGMI_EXPIRED);
}
