/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_PEER_H
#define MUCT_XGMI_PEER_H

/**
 * @file
 * What processes know of each other: are you alive, does this key still hold, do you
 * use my memory right now?
 *
 * Each process shares one control page, a file in shared memory named by its
 * incarnation, which is a random number and never comes again. The page has a slot for
 * each exported registration. A key holds as long as the slot's generation is the
 * key's. A process that starts copies under a key sets its bit in the slot first and
 * looks at the generation second; the owner changes the generation first and looks at
 * the bits second. So after an invalidation either the copy was refused, or the owner
 * waits for it.
 *
 * Death. The owner holds a POSIX lock on its page; the kernel drops it when the process
 * ends, however that happens, also across PID namespaces and never for a reused pid.
 * Where the PID namespace is shared, a pidfd gives the same news as an event.
 *
 * Closing. The page also has a slot for each interface. Its generation is in the
 * interface's address and changes when the interface is closed, so that the peers of an
 * interface notice its end also when the process lives on.
 *
 * Guarantee. Once a void slot is not used, no copy of another process under an older
 * key runs or will start, and only then the slot is taken again. A process that is
 * stopped in the middle of copies cannot say that they are over: then the owner's wait
 * ends by time-out (xgmi_inval.h), and the generation says so too, for the copies that
 * the other process has announced and not started.
 *
 * State is per process; after fork() the child has its own. Thread safe.
 */

#include "xgmi/peer/xgmi_addr.h"

#include <ucs/type/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Exported registrations a process can have at a time */
#define MUCT_XGMI_MAX_SLOTS 65536

/** Interfaces of a process whose end others see; of further ones only the process' */
#define MUCT_XGMI_MAX_IFACES 4096

/** Processes that may use one process's memory at a time */
#define MUCT_XGMI_MAX_USERS 64


/** Another process, or this one. */
typedef struct muct_xgmi_peer muct_xgmi_peer_t;

/** This process, as others see it. */
typedef struct muct_xgmi_self {
    uint64_t owner;   /**< Incarnation; never 0 */
    uint64_t shm_dir; /**< Identity of the page's folder: file system and number */
    uint64_t pid_namespace; /**< Inode of the PID namespace */
    uint32_t pid;           /**< In that namespace */
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


/** Give the slot back; its keys hold no longer. Does not wait. */
void muct_xgmi_slot_free(uint32_t slot);


/**
 * The same.
 *
 * @return What to ask @ref muct_xgmi_slot_is_used with.
 */
uint32_t muct_xgmi_slot_void(uint32_t slot);


/**
 * Whether a process that was not found dead may copy under the keys that were made
 * void. Copies of this process itself do not count.
 *
 * @param [in] generation  From @ref muct_xgmi_slot_void.
 */
bool muct_xgmi_slot_is_used(uint32_t slot, uint32_t generation);


/** Find processes dead that have a slot; some system calls. */
void muct_xgmi_slot_drop_dead(uint32_t slot);


/**
 * Nobody waits any more for those who copy under the void keys: they are not to start
 * what they have not started.
 *
 * @param [in] generation  From @ref muct_xgmi_slot_void.
 */
void muct_xgmi_slot_expire(uint32_t slot, uint32_t generation);


/** Folder of the page, as long as it is open. */
const char *muct_xgmi_self_dir(void);


/** Whether what this process has is its own; in a forked child it is its parent's. */
bool muct_xgmi_self_is_here(void);


/** Take a slot for an interface of this process. */
muct_xgmi_iface_id_t muct_xgmi_iface_id_open(void);


/** Give it back: the interface is closed, and peers see it. */
void muct_xgmi_iface_id_close(muct_xgmi_iface_id_t id);


/**
 * Get to know a process.
 *
 * @param [in]  owner   Its incarnation.
 * @param [out] peer_p  A reference, to be returned with @ref muct_xgmi_peer_put. Set
 *                      only on UCS_OK.
 *
 * @return UCS_OK                    It lives and shares its page.
 * @return UCS_ERR_CONNECTION_RESET  It is dead.
 * @return UCS_ERR_UNREACHABLE       Its page is not ours to use, as a warning told.
 * @return UCS_ERR_NO_MEMORY
 */
ucs_status_t muct_xgmi_peer_get(uint64_t owner, muct_xgmi_peer_t **peer_p);


/**
 * As @ref muct_xgmi_peer_get, and a process that is dead as long as somebody here has a
 * reference from when it lived; else it is UCS_ERR_UNREACHABLE.
 */
ucs_status_t muct_xgmi_peer_get_known(uint64_t owner, muct_xgmi_peer_t **peer_p);


/**
 * Whether what a process left can be given to others: it is known to be dead, or nobody
 * (0). One that cannot be looked at now, for want of memory or of descriptors or as its
 * page is not ours to use, may live.
 */
bool muct_xgmi_owner_is_dead(uint64_t owner);


/** Take one more reference. */
muct_xgmi_peer_t *muct_xgmi_peer_ref(muct_xgmi_peer_t *peer);


/** Return a reference. */
void muct_xgmi_peer_put(muct_xgmi_peer_t *peer);


/** Whether the process lives; one system call. Once dead, dead for ever. */
bool muct_xgmi_peer_is_alive(muct_xgmi_peer_t *peer);


/**
 * Whether the process is dead by the end of a time. Who is killed loses its memory
 * before its lock, so what is not there any more says more than the lock does. Waits
 * only for a living process with a pidfd.
 */
bool muct_xgmi_peer_ends(muct_xgmi_peer_t *peer, int timeout_ms);


/** What @ref muct_xgmi_peer_is_alive found last; no system call. */
bool muct_xgmi_peer_was_alive(const muct_xgmi_peer_t *peer);


/**
 * Where to look whether an interface of the process is open.
 *
 * @param [in] id  From the interface's address.
 *
 * @return Its generation now, as long as the reference is held; NULL when the slot
 *         cannot be.
 */
const _Atomic uint32_t *muct_xgmi_peer_iface(const muct_xgmi_peer_t *peer,
                                             const muct_xgmi_iface_id_t *id);


/** Descriptor that becomes readable when the process ends; -1 when there is none. */
int muct_xgmi_peer_fd(const muct_xgmi_peer_t *peer);


/** Whether it is this process. */
bool muct_xgmi_peer_is_self(const muct_xgmi_peer_t *peer);


/** Incarnation of the process. */
uint64_t muct_xgmi_peer_owner(const muct_xgmi_peer_t *peer);


/**
 * Announce copies under a key; calls nest.
 *
 * @return true: the key holds, and until the matching leave the owner knows.
 * @return false: the key does not hold; nothing is to be left.
 */
bool muct_xgmi_peer_enter(muct_xgmi_peer_t *peer, uint32_t slot, uint32_t generation);


/**
 * Whether the owner has given up waiting for copies that were announced: they are not
 * to be started.
 */
bool muct_xgmi_peer_has_expired(const muct_xgmi_peer_t *peer, uint32_t slot,
                                uint32_t generation);


/** The copies announced by one @ref muct_xgmi_peer_enter are over. */
void muct_xgmi_peer_leave(muct_xgmi_peer_t *peer, uint32_t slot);

#endif
