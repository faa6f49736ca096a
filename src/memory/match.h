/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_MATCH_H
#define MKV_MATCH_H

/**
 * @file
 * Common part of a local region and the peer's region of the same name. The caller
 * holds the context's lock.
 */

#include "memory/map.h"

/** Add the pairs of two regions to a map, if any. @return As mkv_map_create(). */
mkv_status_t mkv_map_match(mkv_map_t *map, mkv_lregion_t *mine,
                           const mkv_wire_region_t *theirs, mkv_rmem_t *rmem);

#endif
