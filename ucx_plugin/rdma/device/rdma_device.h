/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_DEVICE_H
#define MUCT_RDMA_DEVICE_H

/**
 * @file A verbs device and its ports: capabilities, place in the machine, addresses.
 * Threads. One thread per object; the functions that make lists may run in several.
 */

#include "base/muct_uct_abi.h"
#include "rdma/device/rdma_addr.h"
#include "rdma/device/rdma_net.h"
#include "rdma/device/rdma_verbs.h"

#include <stdbool.h>

#define MUCT_RDMA_GID_AUTO (-1)

typedef struct muct_rdma_device {
    struct ibv_context *context; /**< Device context with nonblocking async_fd */
    struct ibv_device_attr attr; /**< Attributes reported by the device */
    char name[UCT_MD_NAME_MAX];
    bool has_atomics;            /**< 64-bit fetch-add and compare-swap are supported
                                  *   and in use */
    ucs_sys_device_t sys_device; /**< UCS_SYS_DEVICE_ID_UNKNOWN for virtual devices */
} muct_rdma_device_t;

/** Attributes of a port that an interface needs. */
typedef struct muct_rdma_port {
    uint8_t num;
    uint8_t link;      /**< muct_rdma_link_t */
    uint8_t mtu_shift; /**< log2 of the active MTU, bytes */
    bool is_active;    /**< State now; an inactive port may come up later */
    bool needs_grh;    /**< Accepts only packets with a global header */
    uint16_t lid;
    uint8_t gid_index;
    union ibv_gid gid;
    char net[MUCT_RDMA_NET_NAME_MAX]; /**< Network interface, "" when not known */
    uint16_t pkey_index;
    uint32_t max_msg_size; /**< Bytes of one work request */
    double bandwidth;      /**< Bytes per second, of the link */
} muct_rdma_port_t;

/**
 * Names of the InfiniBand and RoCE devices of this machine, in the library's order.
 *
 * @param [out] names_p  Array to be freed by the caller, or NULL.
 * @param [out] num_p    How many.
 *
 * @return UCS_OK, also without devices; UCS_ERR_NO_DEVICE when there is no usable
 *         libibverbs; UCS_ERR_NO_MEMORY.
 */
ucs_status_t muct_rdma_device_list(uct_md_resource_desc_t **names_p, unsigned *num_p);

/**
 * Open a device by name.
 *
 * @return UCS_OK
 * @return UCS_ERR_NO_DEVICE  No such device, or it cannot be opened; logged as an
 *                            error, with the remedy for what the system's reason
 *                            suggests.
 */
ucs_status_t muct_rdma_device_open(const char *name, muct_rdma_device_t *device);

/** Close the device; all objects created from it must have been destroyed. */
void muct_rdma_device_close(muct_rdma_device_t *device);

/**
 * Look up a port.
 *
 * @param [in]  gid_index  Entry of the GID table, or MUCT_RDMA_GID_AUTO for the best:
 *                         those of our network namespace before others, RoCE version
 *                         2 before 1, IPv4 before global IPv6 before link-local, low
 *                         index before high.
 * @param [in]  pkey       Partition key (15 bits) to look for, 0 for the first one.
 * @param [out] port       Filled only on UCS_OK.
 *
 * @return UCS_OK
 * @return UCS_ERR_NO_DEVICE      The port cannot be queried, or its link type is not
 *                                supported.
 * @return UCS_ERR_INVALID_PARAM  No such GID or partition key; logged as an error.
 */
ucs_status_t muct_rdma_port_query(const muct_rdma_device_t *device, uint8_t num,
                                  int gid_index, unsigned pkey, muct_rdma_port_t *port);

/** Whether the port's link is up now. False when the device is gone. */
bool muct_rdma_port_is_active(const muct_rdma_device_t *device, uint8_t num);

/**
 * Find the port's GID again after a change of the GID table, at any index. If the table
 * lacks it, take the best GID as at the beginning or, with @a is_fixed, the one that is
 * at its index now.
 *
 * @return Whether the port's index or address changed.
 */
bool muct_rdma_port_renew_gid(const muct_rdma_device_t *device, bool is_fixed,
                              muct_rdma_port_t *port);

/** Score of a GID table entry; 0 for an entry that cannot be used. */
unsigned muct_rdma_gid_score(const union ibv_gid *gid, uint8_t link);

/** Bytes per second of a link from the numbers of ibv_port_attr. */
double muct_rdma_link_bandwidth(unsigned active_speed, unsigned active_width);

/**
 * Whether an include or exclude list ("a,b" or "^a,b"; entries "device" or
 * "device:port") lets a port through.
 */
bool muct_rdma_device_is_listed(const ucs_config_allow_list_t *list, const char *device,
                                unsigned port);

#endif
