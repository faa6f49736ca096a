/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_GRANT_H
#define MKV_GRANT_H

/**
 * @file Registrations that a map with a peer uses: the peer is granted their keys. The
 * next description sent to the peer contains their keys. The caller holds the
 * context's lock.
 */

#include "memory/region.h"
#include "peer/peer.h"

/**
 * Grant a registration to the peer.
 *
 * @param [out] is_new_p  Set when it was not granted before; else left alone.
 *
 * @return MKV_OK, MKV_ERR_NOMEM.
 */
mkv_status_t mkv_grant_mem(mkv_peer_t *peer, const mkv_mem_t *mem, bool *is_new_p);

/** Grant the memory that the map's pairs lie in; see mkv_grant_mem(). */
mkv_status_t mkv_grant_map(mkv_peer_t *peer, const mkv_map_t *map, bool *is_new_p);

/** Drop memory that is no longer registered. */
void mkv_grants_trim(mkv_peer_t *peer);

#endif
