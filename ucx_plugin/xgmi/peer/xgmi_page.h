/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_PAGE_H
#define MUCT_XGMI_PAGE_H

/**
 * @file
 * The control page of a process as a file in shared memory; internals of xgmi_peer.h.
 *
 * All files of a process are in one folder. Only its user may enter the folder, and its
 * name is the process's incarnation. So another user sees the name, but cannot create
 * or open any of the files. Each open checks owner and type of the folder and of the
 * file.
 *
 * The owner holds a lock on the file as long as it lives, by an open file that a forked
 * child closes at once. Each copy of this code in the process is a separate owner.
 * Where the kernel has only locks of processes, a process can have one copy.
 */

#include "xgmi/peer/xgmi_peer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>


/* Shared with other processes: its values are bounded before use, never trusted. */
typedef struct muct_xgmi_slot {
    _Alignas(64) _Atomic uint32_t
        generation; /* odd: in use, keys with this generation are valid */
    _Atomic uint64_t users[MUCT_XGMI_MAX_USERS / 64]; /* bit i: users[i] runs copies */
} muct_xgmi_slot_t;

typedef struct muct_xgmi_page {
    uint64_t magic;
    uint64_t owner;
    uint64_t pid_namespace;
    uint32_t pid;
    _Atomic uint32_t num_slots; /* first slots, for which memory is reserved */
    _Atomic uint64_t users[MUCT_XGMI_MAX_USERS];   /* incarnations */
    _Atomic uint32_t ifaces[MUCT_XGMI_MAX_IFACES]; /* generation; odd: open */
    muct_xgmi_slot_t slots[MUCT_XGMI_MAX_SLOTS];
} muct_xgmi_page_t;


/** Number of slots that have memory. It is bounded, as other processes can write to the
 * page. */
static inline uint32_t muct_xgmi_page_num_slots(const muct_xgmi_page_t *page)
{
    const uint32_t num_slots = atomic_load(&page->num_slots);

    return (num_slots < MUCT_XGMI_MAX_SLOTS) ? num_slots : MUCT_XGMI_MAX_SLOTS;
}


/** Slots for which memory is reserved at a time */
#define MUCT_XGMI_PAGE_SLOTS 1024


/** Name of a page's file. */
void muct_xgmi_page_path(const char *dir, uint64_t owner, char *path, size_t size);


/** Suffixes of the other files of a process: messages to one of its interfaces, and the
 * pipe that wakes it. They are removed with its page. */
#define MUCT_XGMI_BOX_SUFFIX ".box"
#define MUCT_XGMI_BELL_SUFFIX ".bell"


/**
 * Bytes that a file of this process may have (ulimit -f), UINT64_MAX for no limit. A
 * process that extends a file beyond it receives SIGXFSZ, which ends it.
 */
uint64_t muct_xgmi_page_file_limit(void);


/** Advice for the errno of a file in shared memory: a sentence without its full stop.
 */
const char *muct_xgmi_page_remedy(int error);


/** Name of a file of an interface. */
void muct_xgmi_page_iface_path(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id,
                               const char *suffix, char *path, size_t size);


/**
 * Open a file of an interface for reading and writing, if this user owns it.
 *
 * @param [in] type  S_IFREG or S_IFIFO.
 *
 * @return Descriptor, or -1 with errno; EPERM: another user owns it, or it is of
 *         another type or has a second name.
 */
int muct_xgmi_page_open_iface(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id,
                              const char *suffix, mode_t type);


/** Whether the owner of the page lives; true if a lack of memory prevents the check. */
bool muct_xgmi_page_is_locked(int fd);


/** Remove the files that killed processes left behind. */
void muct_xgmi_page_sweep(const char *dir);


/** Identify this process, with a new incarnation. */
ucs_status_t muct_xgmi_page_identify(const char *dir, muct_xgmi_self_t *self);


/**
 * Create this process's folder and page.
 *
 * @return UCS_OK, or UCS_ERR_IO_ERROR with the reason in the log.
 * @return UCS_ERR_BUSY  The name is taken, or a sweep has removed the page before it
 *                       was locked: try again, under another incarnation.
 */
ucs_status_t muct_xgmi_page_create(const char *dir, const muct_xgmi_self_t *self,
                                   int *fd_p, muct_xgmi_page_t **page_p);


/** Remove the folder of this process with all files. */
void muct_xgmi_page_remove(const char *dir, uint64_t owner);


/**
 * Reserve memory for further slots.
 *
 * @param [in] fd  Of this process's page.
 *
 * @return Whether slots were added.
 */
bool muct_xgmi_page_add_slots(int fd, muct_xgmi_page_t *page);


/**
 * Map another process's page.
 *
 * @return UCS_OK
 * @return UCS_ERR_CONNECTION_RESET The page does not exist: its owner has ended.
 * @return UCS_ERR_UNREACHABLE The file belongs to another user, cannot be opened, or is
 *         not a page.
 */
ucs_status_t muct_xgmi_page_map(const char *dir, uint64_t owner, int *fd_p,
                                muct_xgmi_page_t **page_p);

#endif
