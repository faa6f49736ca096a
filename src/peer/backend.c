/* SPDX-License-Identifier: BSD-3-Clause */

/* Transports that carry a peer's data, and the kinds of calls that they support. */

#include "peer/backend.h"

#include <stdio.h>
#include <string.h>

#define MKV_MAX_TRANSPORTS 32

enum {
    MKV_TL_SGL = 1 << 0,     /* supports lists of all memory that it can register */
    MKV_TL_SGL_GPU = 1 << 1, /* takes lists with GPU memory on one side or both */
    MKV_TL_SGL_123 = 1 << 2, /* like MKV_TL_SGL, from UCX 1.23 on */
    MKV_TL_MORE = 1 << 3     /* not all lanes were reported */
};

static const struct {
    const char *prefix;
    mkv_backend_t backend;
    unsigned flags;
} mkv_tls[] = {
    {"mori_xgmi", MKV_BACKEND_XGMI, MKV_TL_SGL_GPU},
    {"rocm_ipc", MKV_BACKEND_IPC, 0},
    {"cuda_ipc", MKV_BACKEND_IPC, 0},
    {"ze_ipc", MKV_BACKEND_IPC, 0},
    {"mori_rdma", MKV_BACKEND_RDMA, MKV_TL_SGL},
    {"rc_mlx5", MKV_BACKEND_RDMA, MKV_TL_SGL_123},
    {"rc_verbs", MKV_BACKEND_RDMA, 0},
    {"rc_gda", MKV_BACKEND_RDMA, 0},
    {"dc_mlx5", MKV_BACKEND_RDMA, 0},
    {"srd", MKV_BACKEND_RDMA, 0},
    {"cma", MKV_BACKEND_SHM, 0},
    {"xpmem", MKV_BACKEND_SHM, 0},
    {"knem", MKV_BACKEND_SHM, 0},
    {"sysv", MKV_BACKEND_SHM, 0},
    {"posix", MKV_BACKEND_SHM, 0},
    {"self", MKV_BACKEND_SHM, 0},
    {"tcp", MKV_BACKEND_TCP, 0},
};

#define MKV_NUM_TLS (sizeof(mkv_tls) / sizeof(mkv_tls[0]))

const char *mkv_backend_string(mkv_backend_t backend)
{
    static const char *const names[] = {"unknown", "xgmi", "ipc", "rdma", "shm", "tcp"};

    return ((unsigned)backend <= MKV_BACKEND_TCP) ? names[backend] : "unknown";
}

mkv_status_t mkv_status_of_ucs(ucs_status_t status)
{
    switch (status) {
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_REJECTED:
    case UCS_ERR_CANCELED:
        return MKV_ERR_PEER;
    case UCS_ERR_NO_MEMORY:
        return MKV_ERR_NOMEM;
    default:
        return MKV_ERR_TRANSPORT;
    }
}

/* Any transport that is not known to need our own socket or queue pair counts */
static bool mkv_tl_is_local(const char *name)
{
    size_t i;

    for (i = 0; i < MKV_NUM_TLS; ++i) {
        if (strncmp(name, mkv_tls[i].prefix, strlen(mkv_tls[i].prefix)) == 0) {
            return (mkv_tls[i].backend != MKV_BACKEND_RDMA) &&
                   (mkv_tls[i].backend != MKV_BACKEND_TCP);
        }
    }
    return (strncmp(name, "ud_", 3) != 0);
}

/* Whether the text has a word "PREFIX.../DEVICE" */
static bool mkv_text_names(const char *text, const char *prefix)
{
    const char *at = text;

    while ((at = strstr(at, prefix)) != NULL) {
        if (((at == text) || (strchr(" (,[", at[-1]) != NULL)) &&
            (at[strcspn(at, " ,;)]/")] == '/')) {
            return true;
        }
        ++at;
    }
    return false;
}

mkv_backend_t mkv_backend_of_text(const char *text)
{
    mkv_backend_t backend = MKV_BACKEND_UNKNOWN;
    size_t i;

    for (i = 0; i < MKV_NUM_TLS; ++i) {
        if ((mkv_tls[i].backend > backend) && mkv_text_names(text, mkv_tls[i].prefix)) {
            backend = mkv_tls[i].backend;
        }
    }
    /* UCX sends mori_xgmi's messages through shared memory, like those of these */
    return ((backend == MKV_BACKEND_XGMI) && (strstr(text, "emulation") != NULL))
               ? MKV_BACKEND_SHM
               : backend;
}

static void mkv_peer_note_transport(mkv_peer_t *peer, const char *name)
{
    size_t i;

    peer->has_local_lane |= mkv_tl_is_local(name);
    for (i = 0; i < MKV_NUM_TLS; ++i) {
        if (strncmp(name, mkv_tls[i].prefix, strlen(mkv_tls[i].prefix)) == 0) {
            peer->transport_flags |= mkv_tls[i].flags;
            if ((peer->backend == MKV_BACKEND_UNKNOWN) ||
                (mkv_tls[i].backend < peer->backend)) {
                peer->backend = mkv_tls[i].backend;
            }
        }
    }
}

static ucs_status_t mkv_ep_transports(ucp_ep_h ep, ucp_transport_entry_t *entries,
                                      ucp_ep_attr_t *attr)
{
    *attr = (ucp_ep_attr_t){.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS};
    attr->transports.entries = entries;
    attr->transports.num_entries = MKV_MAX_TRANSPORTS;
    attr->transports.entry_size = sizeof(entries[0]);
    return ucp_ep_query(ep, attr);
}

bool mkv_ep_takes_gpu_lists(const mkv_ctx_t *ctx, ucp_ep_h ep)
{
    ucp_transport_entry_t entries[MKV_MAX_TRANSPORTS];
    ucp_ep_attr_t attr;
    bool takes = false;
    unsigned i, k;

    if ((ctx->opts->sgl == MKV_SGL_NO) ||
        (mkv_ep_transports(ep, entries, &attr) != UCS_OK)) {
        return false;
    }
    for (i = 0; i < attr.transports.num_entries; ++i) {
        for (k = 0; k < MKV_NUM_TLS; ++k) {
            takes |= (mkv_tls[k].flags & MKV_TL_SGL_GPU) &&
                     (strncmp(entries[i].transport_name, mkv_tls[k].prefix,
                              strlen(mkv_tls[k].prefix)) == 0);
        }
    }
    return takes;
}

void mkv_peer_query_transports(mkv_peer_t *peer)
{
    ucp_transport_entry_t entries[MKV_MAX_TRANSPORTS];
    ucp_ep_attr_t attr;
    char text[sizeof(peer->transports)] = "";
    size_t length = 0;
    ucs_status_t status;
    unsigned i;
    int n;

    status = mkv_ep_transports(peer->ep, entries, &attr);
    if (status != UCS_OK) {
        mkv_log_warn(peer->ctx, "peer %s: ucp_ep_query() failed: %s", peer->name,
                     ucs_status_string(status));
        return;
    }

    peer->has_local_lane = false;
    peer->backend = MKV_BACKEND_UNKNOWN;
    peer->transport_flags =
        (attr.transports.num_entries < MKV_MAX_TRANSPORTS) ? 0 : MKV_TL_MORE;
    for (i = 0; i < attr.transports.num_entries; ++i) {
        mkv_peer_note_transport(peer, entries[i].transport_name);
    }
    for (i = 0; i < attr.transports.num_entries; ++i) {
        n = snprintf(text + length, sizeof(text) - length, "%s%s/%s",
                     length > 0 ? " " : "", entries[i].transport_name,
                     entries[i].device_name);
        if ((n < 0) || ((size_t)n >= sizeof(text) - length)) {
            break;
        }
        length += (size_t)n;
    }
    memcpy(peer->transports, text, sizeof(text));
}

mkv_status_t mkv_peer_check_backend(mkv_peer_t *peer, char *text, size_t size)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_backend_t wanted = (mkv_backend_t)ctx->opts->backend;

    if ((wanted == MKV_BACKEND_UNKNOWN) || (wanted == peer->backend)) {
        return MKV_OK;
    }

    mkv_text(text, size,
             "backend %s wanted, but %s is the best that UCX connected: [%s]",
             mkv_backend_string(wanted), mkv_backend_string(peer->backend),
             peer->transports);
    return ctx->opts->strict ? MKV_ERR_BACKEND : MKV_OK;
}

/* List better classes than the one in use, each with the known reason */
void mkv_peer_log_rejected(mkv_peer_t *peer)
{
    const char *tls = mkv_config_tls(peer->ctx->config);
    char text[384] = "";
    size_t length = 0;
    mkv_backend_t each;
    bool is_local;

    if ((peer->ctx->opts->backend != MKV_BACKEND_UNKNOWN) ||
        (peer->backend <= MKV_BACKEND_XGMI)) {
        return;
    }
    for (each = MKV_BACKEND_XGMI; each < peer->backend; ++each) {
        is_local = (each != MKV_BACKEND_RDMA);
        mkv_text(text + length, sizeof(text) - length, "%s%s: %s",
                 length > 0 ? ", " : "", mkv_backend_string(each),
                 (is_local && !peer->is_same_host) ? "another host"
                                                   : "no lane connected");
        length = strlen(text);
    }
    mkv_log_info(peer->ctx,
                 "peer %s: %s carries data, as no better backend is there (%s)%s%s",
                 peer->name, mkv_backend_string(peer->backend), text,
                 tls[0] != '\0' ? ", TLS is " : "", tls);
}

bool mkv_text_takes_lists(const char *text, unsigned ucp_version)
{
    unsigned flags =
        MKV_TL_SGL | MKV_TL_SGL_GPU | ((ucp_version > 22) ? MKV_TL_SGL_123 : 0);
    size_t i;

    for (i = 0; i < MKV_NUM_TLS; ++i) {
        if ((mkv_tls[i].flags & flags) && mkv_text_names(text, mkv_tls[i].prefix)) {
            return (strstr(text, "emulation") == NULL) &&
                   (strstr(text, "rndv") == NULL);
        }
    }
    return false;
}

bool mkv_peer_has_sgl_lane(const mkv_peer_t *peer, ucs_memory_type_t local,
                           ucs_memory_type_t remote)
{
    bool is_gpu = (local != UCS_MEMORY_TYPE_HOST) || (remote != UCS_MEMORY_TYPE_HOST);

    return (peer->transport_flags & MKV_TL_SGL) ||
           (is_gpu && (peer->transport_flags & MKV_TL_SGL_GPU)) ||
           ((peer->ctx->ucp_version > 22) && (peer->transport_flags & MKV_TL_SGL_123));
}

bool mkv_peer_needs_list_query(const mkv_peer_t *peer, ucs_memory_type_t local,
                               ucs_memory_type_t remote)
{
    return ((local != UCS_MEMORY_TYPE_HOST) && (remote != UCS_MEMORY_TYPE_HOST)) ||
           (peer->transport_flags & MKV_TL_SGL_GPU);
}

bool mkv_peer_lists_arrive(const mkv_peer_t *peer)
{
    unsigned others =
        MKV_TL_SGL | MKV_TL_MORE | ((peer->ctx->ucp_version > 22) ? MKV_TL_SGL_123 : 0);

    return (peer->ctx->opts->sgl != MKV_SGL_YES) &&
           ((peer->transport_flags & (MKV_TL_SGL_GPU | others)) == MKV_TL_SGL_GPU);
}
