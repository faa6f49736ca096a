/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages as bytes. */

#include "peer/packet.h"

#include <stdlib.h>
#include <string.h>

mkv_packet_t *mkv_packet_copy(const void *data, size_t length)
{
    mkv_packet_t *packet = malloc(sizeof(*packet) + length);

    if (packet == NULL) {
        return NULL;
    }
    memset(packet, 0, sizeof(*packet));
    memcpy(packet->data, data, length);
    packet->length = length;
    mkv_list_init(&packet->list);
    return packet;
}

void mkv_packet_free(mkv_packet_t *packet)
{
    mkv_list_del(&packet->list);
    free(packet);
}

void mkv_packets_cleanup(mkv_list_t *packets)
{
    while (!mkv_list_is_empty(packets)) {
        mkv_packet_free(mkv_list_head(packets, mkv_packet_t, list));
    }
}
