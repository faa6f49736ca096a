/* SPDX-License-Identifier: BSD-3-Clause */

#include "peer/list_put.h"

#include "peer/backend.h"
#include "peer/path.h"

#include <inttypes.h>

/*
 * A list put without a lane that supports lists breaks the endpoint: UCX 1.22 cancels
 * the request or asserts, and 1.23 fails the endpoint in peer failure mode. So lists
 * are posted only where the transport is known to support them, and the first one is a
 * probe.
 */
bool mkv_peer_may_sgl(mkv_peer_t *peer, ucs_memory_type_t local,
                      ucs_memory_type_t remote)
{
    const mkv_options_t *opts = peer->ctx->opts;

    if ((opts->sgl == MKV_SGL_NO) || (peer->sgl[local][remote] == MKV_SGL_BAD)) {
        return false;
    }
    return (opts->sgl == MKV_SGL_YES) || mkv_peer_has_sgl_lane(peer, local, remote);
}

mkv_list_use_t mkv_peer_list_use(mkv_peer_t *peer, ucs_memory_type_t local,
                                 const mkv_rmem_t *rmem)
{
    if (!mkv_peer_may_sgl(peer, local, rmem->type)) {
        return MKV_LIST_USE_NONE;
    }
    if ((peer->ctx->opts->sgl == MKV_SGL_YES) ||
        (rmem->lists == MKV_RMEM_LISTS_TAKEN) ||
        !mkv_peer_needs_list_query(peer, local, rmem->type)) {
        return MKV_LIST_USE_FULL;
    }
    return (rmem->lists == MKV_RMEM_LISTS_UNKNOWN) ? MKV_LIST_USE_PROBE
                                                   : MKV_LIST_USE_NONE;
}

void mkv_peer_note_list_support(mkv_peer_t *peer, mkv_rmem_t *rmem, void *request)
{
    rmem->lists = mkv_path_lists(peer, request);
    if (rmem->lists == MKV_RMEM_LISTS_TAKEN) {
        return;
    }
    mkv_log_info(peer->ctx,
                 "peer %s: no lane of UCX supports lists to memory of %" PRIu64
                 " bytes at 0x%" PRIx64 ", posting piece by piece",
                 peer->name, rmem->length, rmem->base);
}

ucs_status_ptr_t mkv_ep_put_list(ucp_ep_h ep, const mkv_list_put_t *list,
                                 ucp_send_nbx_callback_t cb, void *user_data)
{
    ucp_dt_local_sgl_t local = {.field_mask = UCP_DT_LOCAL_SGL_FIELD_BUFFERS |
                                              UCP_DT_LOCAL_SGL_FIELD_LENGTHS |
                                              UCP_DT_LOCAL_SGL_FIELD_MEMHS,
                                .buffers = list->buffers,
                                .lengths = list->lengths,
                                .memhs = list->memhs};
    ucp_dt_remote_sgl_t remote = {.field_mask = UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS |
                                                UCP_DT_REMOTE_SGL_FIELD_LENGTHS |
                                                UCP_DT_REMOTE_SGL_FIELD_RKEYS,
                                  .remote_addrs = list->remotes,
                                  .lengths = list->lengths,
                                  .rkeys = list->rkeys};
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE |
                        UCP_OP_ATTR_FIELD_REMOTE | UCP_OP_ATTR_FIELD_REMOTE_COUNT,
        .cb.send = cb,
        .user_data = user_data,
        .datatype = ucp_dt_make_sgl(),
        .remote_datatype = ucp_dt_make_sgl(),
        .remote = &remote,
        .remote_count = list->num};

    if (list->is_queried) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    }
    return ucp_put_nbx(ep, &local, list->num, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID,
                       &param);
}

/* Statuses that UCX returns when a lane supports no lists; the connection stays
 * usable */
static bool mkv_status_is_no_sgl(ucs_status_t status)
{
    return (status == UCS_ERR_UNSUPPORTED) || (status == UCS_ERR_INVALID_PARAM) ||
           (status == UCS_ERR_CANCELED) || (status == UCS_ERR_NOT_IMPLEMENTED);
}

/* The first list of such memory may be refused. In that case no byte was moved, or all
 * bytes are moved again */
mkv_list_end_t mkv_peer_list_ended(mkv_peer_t *peer, ucs_memory_type_t local,
                                   ucs_memory_type_t remote, ucs_status_t status)
{
    mkv_sgl_state_t *state = &peer->sgl[local][remote];

    if (status == UCS_OK) {
        *state = (*state == MKV_SGL_BAD) ? MKV_SGL_BAD : MKV_SGL_GOOD;
        return MKV_LIST_MOVED;
    }
    if (!mkv_status_is_no_sgl(status) || (peer->state != MKV_CONN_READY) ||
        (*state == MKV_SGL_GOOD)) {
        return MKV_LIST_FAILED;
    }

    if (*state != MKV_SGL_BAD) {
        mkv_log_info(peer->ctx,
                     "peer %s: UCX refused a list from memory type %d to %d (%s), "
                     "posting piece by piece",
                     peer->name, (int)local, (int)remote, ucs_status_string(status));
    }
    *state = MKV_SGL_BAD;
    return MKV_LIST_REFUSED;
}
