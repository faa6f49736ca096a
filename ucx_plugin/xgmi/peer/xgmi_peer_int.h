/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_PEER_INT_H
#define MUCT_XGMI_PEER_INT_H

/**
 * @file
 * The inside of a peer, for xgmi_peer.c and xgmi_peer_use.c.
 */

#include "xgmi/peer/xgmi_page.h"
#include "xgmi/peer/xgmi_peer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the generation of a void slot goes on by when its owner waits no longer. */
#define MUCT_XGMI_EXPIRED 2

#define MUCT_XGMI_NO_USER MUCT_XGMI_MAX_USERS


struct muct_xgmi_peer {
    muct_xgmi_peer_t *next;
    uint64_t owner;
    atomic_uint refs; /* the first and the last under the lock */
    int fd;           /* -1: this process */
    int pidfd;        /* -1: none */
    atomic_uint user; /* our place among the owner's users */
    atomic_int is_dead;
    muct_xgmi_page_t *page;
    pthread_mutex_t lock;
    uint32_t *counts; /* by slot: nested enters */
};


/** The incarnation of this process, as long as its page is open. */
uint64_t muct_xgmi_self_owner(void);


/** Give the place among the owner's users back. */
void muct_xgmi_peer_release_user(muct_xgmi_peer_t *peer);

#endif
