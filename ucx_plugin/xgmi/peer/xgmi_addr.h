/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_ADDR_H
#define MUCT_XGMI_ADDR_H

/**
 * @file
 * Addresses of a mori_xgmi device and interface as bytes, and whether two of them can
 * reach each other. Pure: no state, no calls.
 *
 * The device address identifies where control pages can be shared: the host, and the
 * folder that holds them. The file system and inode number of the folder distinguish
 * containers with separate /dev/shm. The interface address names the process and the
 * interface in it.
 *
 * Reachability depends on these addresses, and on free places for messages of each side
 * at the other one. It is the same on both sides unless a third process takes the last
 * place meanwhile: only the own place is reserved, and a refusal stays for a second.
 * Then the endpoints of both sides fail: that of the side without a place at its first
 * message with UCS_ERR_EXCEEDS_LIMIT and an error line, the other one at its next
 * operation or keepalive with UCS_ERR_CONNECTION_RESET. A new endpoint uses other
 * transports.
 * Liveness of the other side is not examined; its endpoint reports it.
 *
 * Both carry the version of this format. Processes of different versions do not reach
 * each other and log the reason; UCX takes another lane.
 */

#include <ucs/type/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes of the packed addresses; UCP takes device addresses of less than 32 */
#define MUCT_XGMI_DEVICE_ADDR_SIZE 24
#define MUCT_XGMI_IFACE_ADDR_SIZE 32


typedef struct muct_xgmi_device_addr {
    uint64_t host;    /**< Identity of the machine since its last boot */
    uint64_t shm_dir; /**< Identity of the control pages' folder */
    uint32_t network; /**< Network namespace that IPC depends on; 0: none */
} muct_xgmi_device_addr_t;

/** An interface of a process, from its opening to its closing. */
typedef struct muct_xgmi_iface_id {
    uint32_t slot; /**< Slot in the control page, or @ref MUCT_XGMI_NO_IFACE_SLOT */
    uint32_t generation; /**< Value of that slot while the interface is open */
} muct_xgmi_iface_id_t;

/** No slot: the interface's end is not visible to peers, only its process's end */
#define MUCT_XGMI_NO_IFACE_SLOT UINT32_MAX

typedef struct muct_xgmi_iface_addr {
    uint64_t owner;          /**< Process incarnation */
    uint64_t pid_namespace;  /**< Inode of the process's PID namespace */
    uint32_t pid;            /**< Process id in that namespace */
    muct_xgmi_iface_id_t id; /**< The interface */
} muct_xgmi_iface_addr_t;


void muct_xgmi_device_addr_pack(const muct_xgmi_device_addr_t *addr, void *buffer);
void muct_xgmi_iface_addr_pack(const muct_xgmi_iface_addr_t *addr, void *buffer);


/**
 * Read an address that came from another process.
 *
 * @param [in]  buffer  Bytes; the caller has made sure that there are
 *                      MUCT_XGMI_*_ADDR_SIZE of them.
 * @param [out] addr    Filled only on UCS_OK.
 *
 * @return UCS_OK, or UCS_ERR_UNSUPPORTED for another version of this format.
 */
ucs_status_t muct_xgmi_device_addr_unpack(const void *buffer,
                                          muct_xgmi_device_addr_t *addr);
ucs_status_t muct_xgmi_iface_addr_unpack(const void *buffer,
                                         muct_xgmi_iface_addr_t *addr);


/**
 * Whether this process can use memory of another one.
 *
 * @param [in]  my_device     This side.
 * @param [in]  my_iface      This side.
 * @param [in]  peer_device   Other side.
 * @param [in]  peer_iface    Other side.
 * @param [out] reason  Reason as text. Terminated when the result is false.
 * @param [in]  size          Bytes in @a reason.
 *
 * @return Whether it can.
 */
bool muct_xgmi_addr_can_reach(const muct_xgmi_device_addr_t *my_device,
                              const muct_xgmi_iface_addr_t *my_iface,
                              const muct_xgmi_device_addr_t *peer_device,
                              const muct_xgmi_iface_addr_t *peer_iface, char *reason,
                              size_t size);

#endif
