/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PROCESS_H
#define MKV_PROCESS_H

/**
 * @file
 * Identity of a process, and the proof that it cannot touch our memory any more.
 *
 * A context has a file in a folder that processes of one host share (option SHM_DIR),
 * named after it. For each connection it *claims* one byte of the file, by a lock that
 * belongs to the process, and sends the byte's number to the peer. As long as the claim
 * is held, the context may touch the peer's memory. The claim ends in two ways. The
 * context releases it when nothing of the connection is in flight any more, or the
 * kernel does when the last thread of the process has ended. So the peer needs neither
 * messages nor process ids, and sees a process in other namespaces like any other, as
 * long as that sees the same folder. The claim's number is random and made for the
 * connection: on a cloned host no process holds it.
 *
 * Threads. An object is used by one thread at a time; different objects by any.
 */

#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>

/** Host and process id, for texts; proofs are below. */
void mkv_process_self(mkv_process_t *process);

/** Whether both report the same host, or one reports none. No proof of anything. */
bool mkv_process_is_local(const mkv_process_t *self, const mkv_process_t *process);

/* ---- This context's claims ------------------------------------------------------- */

typedef struct mkv_claims mkv_claims_t;

/**
 * Make the file of a context, and remove those that killed processes left.
 *
 * @param [in] dir    Folder in shared memory.
 * @param [in] owner  The context's ctx_id.
 *
 * @return NULL, with errno set: it cannot be made, so peers will not see claims.
 */
mkv_claims_t *mkv_claims_open(const char *dir, uint64_t owner);

/** Release all claims. NULL: no effect. */
void mkv_claims_close(mkv_claims_t *claims);

/**
 * @param [in] random  Random number that the claim is made from.
 *
 * @return The claim, or 0: no peer will see one.
 */
uint64_t mkv_claims_take(mkv_claims_t *claims, uint64_t random);

/** Release a claim: the context will not touch this peer's memory any more. 0: no
 * effect. */
void mkv_claims_release(mkv_claims_t *claims, uint64_t claim);

/* ---- A peer's claim -------------------------------------------------------------- */

typedef enum mkv_claim_state {
    MKV_CLAIM_UNKNOWN,  /**< No lock seen so far */
    MKV_CLAIM_HELD,     /**< The peer may touch our memory */
    MKV_CLAIM_RELEASED, /**< The peer has ended its access; its process is still alive
                         */
    MKV_CLAIM_GONE      /**< The whole process has ended */
} mkv_claim_state_t;

typedef struct mkv_watch {
    uint64_t owner, claim; /**< ctx_id of the claim's context, and the claim; 0: no
                              claim is watched */
    mkv_claim_state_t state;
    bool is_own; /**< The owner is a context of this process */
    int fd;      /**< Descriptor of the owner's file; -1: the claim was not seen yet */
    int pidfd;   /**< Readable when the process has ended; or -1 */
    int epoll_fd;
} mkv_watch_t;

/**
 * @param [in] epoll_fd  The pidfd that reports the process's end is added to it.
 */
void mkv_watch_init(mkv_watch_t *watch, int epoll_fd);

/** Watch this claim instead of an earlier one; no effect if it is the same. */
void mkv_watch_start(mkv_watch_t *watch, const char *dir, uint64_t owner,
                     uint64_t claim);

/**
 * Check the claim again. A claim of another process must have been seen held before it
 * is reported as released or gone.
 *
 * @param [in] dir  As at the start; searched for the file until it is seen.
 *
 * @return The state; RELEASED and GONE are final.
 */
mkv_claim_state_t mkv_watch_look(mkv_watch_t *watch, const char *dir);

/**
 * Decide about a claim of another process that was never seen held. If another claim of
 * the same owner was seen held, the file belongs to the owner and not to a copy of its
 * machine, so the claim is over.
 *
 * @param [in] seen  Watch of another connection; without effect if it has seen nothing.
 */
void mkv_watch_trust(mkv_watch_t *watch, const char *dir, const mkv_watch_t *seen);

void mkv_watch_stop(mkv_watch_t *watch);

#endif
