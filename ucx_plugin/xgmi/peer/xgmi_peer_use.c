/* SPDX-License-Identifier: BSD-3-Clause */

/* Copies under keys of a peer: which of its slots this process uses, told in its page.
 */

#include "xgmi/peer/xgmi_peer_int.h"

#include "base/muct_log.h"

#include <inttypes.h>


void muct_xgmi_peer_release_user(muct_xgmi_peer_t *peer)
{
    if (peer->user != MUCT_XGMI_NO_USER) {
        atomic_store(&peer->page->users[peer->user], 0);
    }
}

/* Finds this process a place among the owner's users; dead ones lose theirs. */
static unsigned muct_xgmi_peer_claim_user(muct_xgmi_peer_t *peer)
{
    muct_xgmi_page_t *page = peer->page;
    uint64_t expected;
    unsigned i, slot;
    int pass;

    for (pass = 0; pass < 2; ++pass) {
        for (i = 0; i < MUCT_XGMI_MAX_USERS; ++i) {
            expected = (pass == 0) ? 0 : atomic_load(&page->users[i]);
            if ((pass != 0) && !muct_xgmi_owner_is_dead(expected)) {
                continue;
            }
            if (!atomic_compare_exchange_strong(&page->users[i], &expected,
                                                muct_xgmi_self_owner())) {
                continue;
            }
            for (slot = 0; (pass != 0) && (slot < MUCT_XGMI_MAX_SLOTS); ++slot) {
                atomic_fetch_and(&page->slots[slot].users, ~(UINT64_C(1) << i));
            }
            return i;
        }
    }

    muct_error("process 0x%" PRIx64 " has %d users of its memory already", peer->owner,
               MUCT_XGMI_MAX_USERS);
    return MUCT_XGMI_NO_USER;
}

bool muct_xgmi_peer_enter(muct_xgmi_peer_t *peer, uint32_t index, uint32_t generation)
{
    muct_xgmi_slot_t *slot;

    if (index >= MUCT_XGMI_MAX_SLOTS) {
        return false;
    }

    slot = &peer->page->slots[index];
    if (peer->fd < 0) {
        return atomic_load(&slot->generation) == generation;
    }

    if (peer->user == MUCT_XGMI_NO_USER) {
        /* Before the lock: looking at other users takes the outer one. */
        unsigned user = muct_xgmi_peer_claim_user(peer);

        if (user == MUCT_XGMI_NO_USER) {
            return false;
        }
        pthread_mutex_lock(&peer->lock);
        if (peer->user == MUCT_XGMI_NO_USER) {
            peer->user = user;
        } else {
            atomic_store(&peer->page->users[user], 0);
        }
        pthread_mutex_unlock(&peer->lock);
    }

    pthread_mutex_lock(&peer->lock);
    if (peer->counts[index]++ == 0) {
        atomic_fetch_or(&slot->users, UINT64_C(1) << peer->user);
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
    if (--peer->counts[index] == 0) {
        atomic_fetch_and(&peer->page->slots[index].users, ~(UINT64_C(1) << peer->user));
    }
    pthread_mutex_unlock(&peer->lock);
}

bool muct_xgmi_peer_has_expired(const muct_xgmi_peer_t *peer, uint32_t index,
                                uint32_t generation)
{
    /* of this process itself nobody waits for copies */
    return (peer->fd >= 0) && ((atomic_load(&peer->page->slots[index].generation) -
                                generation) >= MUCT_XGMI_EXPIRED);
}
