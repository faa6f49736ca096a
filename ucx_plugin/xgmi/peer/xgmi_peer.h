/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_PEER_H
#define MUCT_XGMI_PEER_H

/**
 * @file
 * State that processes share: whether a process lives, whether a key is still valid,
 * and which processes use a registration at present.
 *
 * Each process shares one control page, a file in shared memory named by its
 * incarnation, which is a random number and never used again. The page has a slot for
 * each exported registration. A key is valid as long as the slot's generation is the
 * key's. A process that starts copies under a key sets its bit in the slot first and
 * reads the generation second; the owner changes the generation first and reads the
 * bits second. So after an invalidation either the copy was refused, or the owner waits
 * for it.
 *
 * Death. The owner holds a POSIX lock on its page; the kernel drops it when the process
 * ends for any reason, also across PID namespaces and never for a reused pid. In a
 * shared PID namespace, a pidfd reports the same as an event.
 *
 * Closing. The page also has a slot for each interface. Its generation is in the
 * interface's address and changes when the interface is closed, so that the peers of an
 * interface notice its end also when the process lives on.
 *
 * Guarantee. Once a void slot is unused, no copy of another process under an older key
 * runs or will start, and only then the slot is taken again. A process that is stopped
 * in the middle of copies cannot report that they ended: the owner's wait then ends by
 * timeout (xgmi_inval.h), and the generation records it, also for copies that the other
 * process has announced and not started.
 *
 * State is per process; after fork() the child has its own. Thread safe.
 */

#include "xgmi/peer/xgmi_addr.h"

#include <ucs/type/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Exported registrations a process can have at a time */
#define MUCT_XGMI_MAX_SLOTS 65536

/** Interfaces of a process with an end that is visible to peers; for further interfaces
 * peers see only the end of the process */
#define MUCT_XGMI_MAX_IFACES 4096

/** Processes that may use one process's memory at a time: the bits that a slot of a
 * cache line has beside its generation */
#define MUCT_XGMI_MAX_USERS 448


/** A process: a peer, or this one. */
typedef struct muct_xgmi_peer muct_xgmi_peer_t;

/** Identity of this process in addresses and keys. */
typedef struct muct_xgmi_self {
    uint64_t owner;   /**< Incarnation; never 0 */
    uint64_t shm_dir; /**< Identity of the page's folder: file system and number */
    uint64_t pid_namespace; /**< Inode of the PID namespace */
    uint32_t pid;           /**< Process id in that namespace */
} muct_xgmi_self_t;


/**
 * Share a control page; calls nest.
 *
 * @param [in]  dir   Folder in shared memory; the first call of a process decides.
 * @param [out] self  Filled only on UCS_OK.
 *
 * @return UCS_OK, or UCS_ERR_IO_ERROR with the reason in the log.
 */
ucs_status_t muct_xgmi_self_open(const char *dir, muct_xgmi_self_t *self);


/** Undo one @ref muct_xgmi_self_open; the last one withdraws the page. */
void muct_xgmi_self_close(void);


/**
 * Take a slot for an exported registration.
 *
 * @return UCS_OK, or UCS_ERR_EXCEEDS_LIMIT when all are taken.
 */
ucs_status_t muct_xgmi_slot_alloc(uint32_t *slot_p, uint32_t *generation_p);


/** Release the slot and invalidate its keys. Does not wait. */
void muct_xgmi_slot_free(uint32_t slot);


/**
 * Like @ref muct_xgmi_slot_free.
 *
 * @return Generation for @ref muct_xgmi_slot_is_used.
 */
uint32_t muct_xgmi_slot_void(uint32_t slot);


/**
 * Whether a process that may be alive can still copy under invalidated keys. Copies of
 * this process itself are ignored.
 *
 * @param [in] generation  From @ref muct_xgmi_slot_void.
 */
bool muct_xgmi_slot_is_used(uint32_t slot, uint32_t generation);


/** Detect dead processes that use a slot; takes some system calls. */
void muct_xgmi_slot_drop_dead(uint32_t slot);


/**
 * Stop waiting for copies under the void keys: copies that have not started must not
 * start.
 *
 * @param [in] generation  From @ref muct_xgmi_slot_void.
 */
void muct_xgmi_slot_expire(uint32_t slot, uint32_t generation);


/** Folder of the page, as long as it is open. */
const char *muct_xgmi_self_dir(void);


/** Whether this process created its page; false in a forked child, which has its
 * parent's: there the calls that release slots and places change nothing. */
bool muct_xgmi_self_is_here(void);


/** Take a slot for an interface of this process. */
muct_xgmi_iface_id_t muct_xgmi_iface_id_open(void);


/** Release the slot of a closed interface; peers see the interface's end. */
void muct_xgmi_iface_id_close(muct_xgmi_iface_id_t id);


/**
 * Look up a process.
 *
 * @param [in]  owner   Its incarnation.
 * @param [out] peer_p  A reference, to be returned with @ref muct_xgmi_peer_put. Set
 *                      only on UCS_OK.
 *
 * @return UCS_OK                    It lives and shares its page.
 * @return UCS_ERR_CONNECTION_RESET  It is dead.
 * @return UCS_ERR_UNREACHABLE       Its page cannot be used; a warning was logged.
 * @return UCS_ERR_NO_MEMORY
 */
ucs_status_t muct_xgmi_peer_get(uint64_t owner, muct_xgmi_peer_t **peer_p);


/**
 * Like @ref muct_xgmi_peer_get, but it also finds a dead process while this process
 * still holds a reference from before its death. Otherwise returns UCS_ERR_UNREACHABLE.
 */
ucs_status_t muct_xgmi_peer_get_known(uint64_t owner, muct_xgmi_peer_t **peer_p);


/**
 * Whether resources of a process can be reused: the process is certainly dead, or @a
 * owner is 0. A process that cannot be examined now, for lack of memory or descriptors
 * or because its page is not accessible, may live.
 */
bool muct_xgmi_owner_is_dead(uint64_t owner);


/** Take one more reference. */
muct_xgmi_peer_t *muct_xgmi_peer_ref(muct_xgmi_peer_t *peer);


/** Return a reference. */
void muct_xgmi_peer_put(muct_xgmi_peer_t *peer);


/** Whether the process lives; one system call. A process that was found dead stays
 * dead. */
bool muct_xgmi_peer_is_alive(muct_xgmi_peer_t *peer);


/**
 * Whether the process is dead by a deadline. A killed process loses its memory before
 * its lock, so a missing file is stronger evidence than the lock. Waits only for a
 * living process with a pidfd.
 */
bool muct_xgmi_peer_ends(muct_xgmi_peer_t *peer, int timeout_ms);


/** Last result of @ref muct_xgmi_peer_is_alive; no system call. */
bool muct_xgmi_peer_was_alive(const muct_xgmi_peer_t *peer);


/**
 * Address to read whether an interface of the process is open.
 *
 * @param [in] id  From the interface's address.
 *
 * @return Its present generation, valid while the reference is held; NULL when the slot
 *         is out of range.
 */
const _Atomic uint32_t *muct_xgmi_peer_iface(const muct_xgmi_peer_t *peer,
                                             const muct_xgmi_iface_id_t *id);


/** Descriptor that becomes readable when the process ends; -1 when there is none. */
int muct_xgmi_peer_fd(const muct_xgmi_peer_t *peer);


/** Process id in this PID namespace; 0 when the peer is in another one. */
pid_t muct_xgmi_peer_pid(const muct_xgmi_peer_t *peer);


/** Whether the peer is this process. */
bool muct_xgmi_peer_is_self(const muct_xgmi_peer_t *peer);


/** Incarnation of the process. */
uint64_t muct_xgmi_peer_owner(const muct_xgmi_peer_t *peer);


/**
 * Register this process as a user of a peer's memory, for as long as the peer is
 * referenced. Logs a warning once if the peer has no free place.
 *
 * @return Whether this process has a place; it needs none for its own memory.
 */
bool muct_xgmi_peer_claim(muct_xgmi_peer_t *peer);


/**
 * Announce copies under a key; calls nest.
 *
 * @return true: the key is valid, and the announcement holds until the matching leave.
 * @return false: the key is invalid, and there must be no leave.
 */
bool muct_xgmi_peer_enter(muct_xgmi_peer_t *peer, uint32_t slot, uint32_t generation);


/**
 * Whether the owner has stopped waiting for announced copies, which must not start
 * then.
 */
bool muct_xgmi_peer_has_expired(const muct_xgmi_peer_t *peer, uint32_t slot,
                                uint32_t generation);


/** End the announcement of one @ref muct_xgmi_peer_enter, when its copies are over. */
void muct_xgmi_peer_leave(muct_xgmi_peer_t *peer, uint32_t slot);

#endif
