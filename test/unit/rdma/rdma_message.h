/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TEST_RDMA_MESSAGE_H
#define TEST_RDMA_MESSAGE_H

/**
 * @file
 * Internal messages of mori_rdma with any contents. A file of its own, because the
 * module and the tests each declare the parts of UCX that it does not install.
 */

#include <stdbool.h>
#include <uct/api/uct.h>


/** Send a message with @a credits. @return false: the endpoint cannot send now. */
bool rdma_message_send(uct_ep_h ep, uint8_t kind, uint8_t id, uint16_t credits,
                       const void *data, size_t length);

#endif
