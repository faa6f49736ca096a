/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_PRIVATE_H
#define MUCT_XGMI_PRIVATE_H

/**
 * @file
 * Private host memory of another process, copied by process_vm_readv() and
 * process_vm_writev().
 *
 * The kernel permits these calls as it permits ptrace(): the same user, no capability
 * that only the owner has, PR_SET_DUMPABLE, and Yama's ptrace_scope, for which UCX's
 * cma sets PR_SET_PTRACER in each process that initializes UCX.
 *
 * Identity. A pid may have been reused. So the owner stores its incarnation in a 64-bit
 * word, on a page that a forked child does not inherit. A put first reads this word.
 * Each call then has the word as its first piece: it works on one address space and
 * ends at the first piece that is not mapped. So a process that gets the pid after the
 * read is not written to either.
 *
 * Threads. All calls may be made from several threads.
 */

#include "xgmi/peer/xgmi_peer.h"


/** An owner of private memory. */
typedef struct muct_xgmi_private {
    pid_t pid;
    uint64_t owner; /**< Its incarnation */
    uint64_t word;  /**< The owner's address of a word with this value */
} muct_xgmi_private_t;


/** Allocate the word of this process. @return NULL without memory. */
uint64_t *muct_xgmi_private_share(uint64_t owner);


/** Free a word; NULL is allowed. @param [in] pid  Process that allocated it. */
void muct_xgmi_private_unshare(uint64_t *word, pid_t pid);


/**
 * Find out whether the kernel permits copies from and to the owner's memory. A refusal
 * is logged once.
 *
 * @param [in]     address  The owner's address of memory that is to be copied.
 * @param [in]     length   Its length.
 * @param [in,out] private  With @a word filled in.
 *
 * @return UCS_OK, also for a dead peer; or UCS_ERR_UNREACHABLE.
 */
ucs_status_t muct_xgmi_private_open(muct_xgmi_peer_t *peer, uint64_t address,
                                    uint64_t length, muct_xgmi_private_t *private);


/**
 * Copy from or to the owner's memory. Blocks until the copy has ended.
 *
 * @param [in] is_put  To the owner's memory.
 * @param [in] local   Address here.
 * @param [in] remote  The owner's address.
 *
 * @return UCS_OK
 * @return UCS_ERR_CONNECTION_RESET  The owner has ended.
 * @return UCS_ERR_IO_ERROR          The kernel refuses, as for memory that the owner
 * has unmapped; an error was logged.
 */
ucs_status_t muct_xgmi_private_copy(const muct_xgmi_private_t *private, bool is_put,
                                    uint64_t local, uint64_t remote, size_t length);

#endif
