/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_KEY_H
#define MUCT_XGMI_KEY_H

/**
 * @file
 * The remote key of memory as bytes, and nothing else: no state, no calls.
 *
 * A key names the process incarnation that owns the memory, the allocation (base,
 * length, IPC handle, number), the registered part of it, and the slot of the owner's
 * control page that shows whether the key is still valid (see xgmi_peer.h). A checksum
 * covers the whole key, because the GPU driver may not detect a wrong byte in the
 * handle.
 */

#include <ucs/type/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes of an IPC memory handle */
#define MUCT_XGMI_HANDLE_SIZE 64

/** Bytes of a packed key */
#define MUCT_XGMI_KEY_PACKED_SIZE 136


/** Processes that can use the memory of a key */
typedef enum muct_xgmi_key_kind {
    MUCT_XGMI_KEY_REMOTE = 1, /**< Other processes, through the IPC handle */
    MUCT_XGMI_KEY_LOCAL =
        2, /**< Only the owner may use it: the memory cannot be exported */
    MUCT_XGMI_KEY_FILE = 3, /**< Other processes may use it: host memory of a file */
    MUCT_XGMI_KEY_PRIVATE =
        4 /**< Other processes may have the kernel copy it: private host memory */
} muct_xgmi_key_kind_t;


/** A registered piece of memory, as another process needs it. */
typedef struct muct_xgmi_key {
    muct_xgmi_key_kind_t kind;
    uint64_t owner;        /**< Process incarnation, not a pid */
    uint64_t address;      /**< Start of the registered part, owner's address */
    uint64_t length;       /**< Bytes of the registered part */
    uint64_t base;         /**< Start of the allocation, owner's address */
    uint64_t alloc_length; /**< Bytes of the allocation */
    uint64_t buffer_id;    /**< Allocation; 0: unknown. Handles may be reused */
    uint32_t slot;         /**< Slot in the owner's control page */
    uint32_t generation;   /**< Generation of that slot while the key is valid */
    uint16_t device;       /**< Owner's ordinal of the device */
    unsigned char handle[MUCT_XGMI_HANDLE_SIZE]; /**< IPC handle, file or owner */
} muct_xgmi_key_t;


/**
 * Write a key.
 *
 * @param [in]  key     Key; the registered part must be inside the allocation.
 * @param [out] buffer  @ref MUCT_XGMI_KEY_PACKED_SIZE bytes.
 */
void muct_xgmi_key_pack(const muct_xgmi_key_t *key, void *buffer);


/**
 * Read a key that came from another process.
 *
 * @param [in]  buffer  Bytes.
 * @param [in] length   Length of the buffer.
 * @param [out] key     Filled only on UCS_OK.
 *
 * @return UCS_OK                 The key is complete and consistent.
 * @return UCS_ERR_INVALID_PARAM  Too short, damaged or inconsistent.
 * @return UCS_ERR_UNSUPPORTED    Written by another version of this format.
 */
ucs_status_t muct_xgmi_key_unpack(const void *buffer, size_t length,
                                  muct_xgmi_key_t *key);


/** Whether other processes use the memory as host memory. */
static inline bool muct_xgmi_key_is_host(const muct_xgmi_key_t *key)
{
    return key->kind == MUCT_XGMI_KEY_FILE;
}


/** Whether [address, address + length) is in the registered part. */
static inline bool muct_xgmi_key_has(const muct_xgmi_key_t *key, uint64_t address,
                                     uint64_t length)
{
    return (length <= key->length) &&
           ((address - key->address) <= (key->length - length));
}


/** Order of two keys: negative, 0 when they name the same registration, positive. */
int muct_xgmi_key_compare(const muct_xgmi_key_t *key1, const muct_xgmi_key_t *key2);

#endif
