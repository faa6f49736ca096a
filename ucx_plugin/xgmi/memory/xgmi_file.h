/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_FILE_H
#define MUCT_XGMI_FILE_H

/**
 * @file
 * Host memory that processes can share: a shared mapping of a file in memory (memfd,
 * /dev/shm, hugetlbfs).
 *
 * The owner keeps a descriptor of the file. A peer opens it by the owner's entry in
 * /proc, which the kernel allows only to the same user, checks that it is the file of
 * the key, maps it, and pins its mapping for its own GPUs.
 *
 * Threads. All calls may be made from several threads.
 */

#include <ucs/type/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Bytes of a packed file; equals the size of an IPC handle in a key */
#define MUCT_XGMI_FILE_SIZE 64


/** A part of a file that is mapped. */
typedef struct muct_xgmi_file {
    uint64_t base;   /**< Page-aligned address of its mapping in this process */
    uint64_t length; /**< Bytes of the mapping, whole pages */
    uint64_t offset; /**< Offset of base in the file */
    uint64_t device; /**< File system and number of the file */
    uint64_t inode;
    int fd; /**< Descriptor of the file in the owner's process */
} muct_xgmi_file_t;


/**
 * Find the file that is mapped at [address, address + length) and take a descriptor of
 * it. Reads /proc/self/maps.
 *
 * @return UCS_OK, or UCS_ERR_UNSUPPORTED: the memory is private, or no descriptor of
 *         its file is available.
 */
ucs_status_t muct_xgmi_file_find(uint64_t address, uint64_t length,
                                 muct_xgmi_file_t *file);


/** Whether the range is a MAP_SHARED mapping of a file. Reads /proc/self/maps. */
bool muct_xgmi_file_is_mapped(uint64_t address, uint64_t length);


/** Return the descriptor. */
void muct_xgmi_file_release(const muct_xgmi_file_t *file);


/** Pack the file for a peer, @ref MUCT_XGMI_FILE_SIZE bytes. */
void muct_xgmi_file_pack(const muct_xgmi_file_t *file, unsigned char *bytes);


/**
 * Map a file of a peer.
 *
 * @param [in]  bytes   From @ref muct_xgmi_file_pack of the peer.
 * @param [in]  pid     Of the peer, in this process's namespace.
 * @param [in]  length  Bytes to map.
 * @param [out] host_p  Address here; set only on UCS_OK.
 *
 * @return UCS_OK, UCS_ERR_NO_MEMORY, or UCS_ERR_UNSUPPORTED with the reason in the log.
 */
ucs_status_t muct_xgmi_file_map(const unsigned char *bytes, pid_t pid, size_t length,
                                void **host_p);


/** Make all pages of a mapping present. @return Whether processors may access all of
 * them. */
bool muct_xgmi_file_populate(void *host, size_t length);

#endif
