/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PACKET_H
#define MKV_PACKET_H

/**
 * @file
 * Encoded message: queued to be sent, or received and kept.
 */

#include "base/ctx.h"

typedef struct mkv_packet {
    mkv_list_t list;
    struct mkv_peer *peer;
    uint32_t seq;
    uint64_t id; /**< Id of the transfer; set, like the next three, in early.c */
    uint32_t epoch;
    uint64_t from_nonce;
    uint64_t deadline; /**< Time at which a kept packet is dropped */
    size_t length;
    uint8_t data[];
} mkv_packet_t;

/** Make a packet with a copy of the bytes, in no list; NULL: no memory. */
mkv_packet_t *mkv_packet_copy(const void *data, size_t length);

void mkv_packet_free(mkv_packet_t *packet);
void mkv_packets_cleanup(mkv_list_t *packets);

#endif
