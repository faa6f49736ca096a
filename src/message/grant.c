/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A table of ids, which are never used twice, for each peer. It is trimmed when half of
 * its ids are gone.
 */

#include "message/grant.h"

#include "memory/map.h"

mkv_status_t mkv_grant_mem(mkv_peer_t *peer, const mkv_mem_t *mem, bool *is_new_p)
{
    mkv_table_t *granted = &peer->remote.granted;

    if (mkv_remote_has_grant(&peer->remote, mem->id)) {
        return MKV_OK;
    }
    if (mkv_table_add(granted, mem->id, granted) != MKV_OK) {
        return mkv_error(&peer->ctx->log, MKV_ERR_NOMEM, "no memory for a key");
    }
    *is_new_p = true;
    return MKV_OK;
}

mkv_status_t mkv_grant_map(mkv_peer_t *peer, const mkv_map_t *map, bool *is_new_p)
{
    mkv_status_t status = MKV_OK;
    uint32_t i;

    for (i = 0; (i < map->num_pairs) && (status == MKV_OK); ++i) {
        status = mkv_grant_mem(peer, map->pairs[i].mem, is_new_p);
    }
    return status;
}

void mkv_grants_trim(mkv_peer_t *peer)
{
    mkv_table_t *granted = &peer->remote.granted, kept = {0};
    mkv_mem_t *mem;

    if (kh_size(granted) <= 2 * mkv_list_length(&peer->ctx->mems)) {
        return;
    }
    mkv_list_for_each(mem, &peer->ctx->mems, list)
    {
        if (mkv_remote_has_grant(&peer->remote, mem->id) &&
            (mkv_table_add(&kept, mem->id, granted) != MKV_OK)) {
            mkv_table_cleanup(&kept); /* another time */
            return;
        }
    }
    mkv_table_cleanup(granted);
    *granted = kept;
}
