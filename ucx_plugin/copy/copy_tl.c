/* SPDX-License-Identifier: BSD-3-Clause */

/* Options, attributes, progress and life of the interface. */

#include "config.h"

#include "copy/copy_tl.h"

#include "base/muct_gpu_tl.h"
#include "base/muct_log.h"
#include "base/muct_stub_ops.h"
#include "copy/copy_ep.h"
#include "copy/copy_iface.h"

#include <ucs/config/parser.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define MUCT_COPY_MIN_SEG_SIZE 256

typedef struct muct_copy_iface_config {
    uct_iface_config_t super;
    size_t seg_size;
    double bandwidth;
    double staged_bandwidth;
    double latency;
    double overhead;
} muct_copy_iface_config_t;

static ucs_config_field_t muct_copy_iface_config_table[] = {
    {"", "", NULL, ucs_offsetof(muct_copy_iface_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"SEG_SIZE", "256k",
     "Size of the pinned segments through which unpinned host memory is copied, in\n"
     "bytes; a device in use has two. Raise it when large messages of GPU memory are\n"
     "bound by the copies.",
     ucs_offsetof(muct_copy_iface_config_t, seg_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"BW", "20GBs",
     "Bandwidth of a copy from or to pinned memory reported to UCX, in bytes per\n"
     "second. It weighs protocols and limits nothing.",
     ucs_offsetof(muct_copy_iface_config_t, bandwidth), UCS_CONFIG_TYPE_BW},

    {"STAGED_BW", "8GBs",
     "Bandwidth of a copy through the segments reported to UCX, in bytes per second.",
     ucs_offsetof(muct_copy_iface_config_t, staged_bandwidth), UCS_CONFIG_TYPE_BW},

    {"LATENCY", "8us", "Latency of a copy reported to UCX, a time.",
     ucs_offsetof(muct_copy_iface_config_t, latency), UCS_CONFIG_TYPE_TIME},

    {"OVERHEAD", "2us", "Cost of starting a copy reported to UCX, a time.",
     ucs_offsetof(muct_copy_iface_config_t, overhead), UCS_CONFIG_TYPE_TIME},

    {NULL, NULL, NULL, 0, {0}}};


/* ---- progress ---- */

static unsigned muct_copy_iface_progress(uct_iface_h tl_iface)
{
    muct_copy_iface_t *iface = ucs_derived_of(tl_iface, muct_copy_iface_t);
    unsigned count = 0, i;

    for (i = 0; i < iface->num_queues; ++i) {
        if (iface->queues[i] != NULL) {
            count += muct_copy_queue_poll(iface->queues[i]);
        }
    }

    return count;
}


/* ---- flush and fence ---- */

static ucs_status_t muct_copy_iface_flush(uct_iface_h tl_iface, unsigned flags,
                                          uct_completion_t *comp)
{
    (void)flags;
    return muct_copy_iface_start_flush(ucs_derived_of(tl_iface, muct_copy_iface_t),
                                       comp);
}

/* Two devices have two streams, and the processor copies too. A caller that needs an
 * order between two copies within one process waits for the first one. */
static ucs_status_t muct_copy_iface_fence(uct_iface_h tl_iface, unsigned flags)
{
    (void)flags;
    return muct_copy_iface_wait(ucs_derived_of(tl_iface, muct_copy_iface_t));
}


/* ---- events ---- */

static ucs_status_t muct_copy_iface_event_fd_get(uct_iface_h tl_iface, int *fd_p)
{
    *fd_p = ucs_derived_of(tl_iface, muct_copy_iface_t)->event_fd;
    return UCS_OK;
}

/* Refuse to arm while a copy runs: it takes microseconds, and a callback by the runtime
 * costs more than that. */
static ucs_status_t muct_copy_iface_event_arm(uct_iface_h tl_iface, unsigned events)
{
    muct_copy_iface_t *iface = ucs_derived_of(tl_iface, muct_copy_iface_t);
    uint64_t count;
    ssize_t ret;

    (void)events;
    if (!muct_copy_iface_is_idle(iface)) {
        return UCS_ERR_BUSY;
    }

    ret = read(iface->event_fd, &count, sizeof(count));
    (void)ret; /* the descriptor had nothing to read */
    iface->is_armed = true;
    return UCS_OK;
}


/* ---- attributes and addresses ---- */

static ucs_status_t muct_copy_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    muct_copy_iface_t *iface = ucs_derived_of(tl_iface, muct_copy_iface_t);

    uct_base_iface_query(&iface->super, attr);
    attr->cap.flags = UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY |
                      UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_SHORT |
                      UCT_IFACE_FLAG_GET_BCOPY | UCT_IFACE_FLAG_GET_ZCOPY |
                      UCT_IFACE_FLAG_PENDING | UCT_IFACE_FLAG_CONNECT_TO_IFACE;
    /* UCP requires both for a lane that may sleep; no peer sends to this one */
    attr->cap.event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV |
                            UCT_IFACE_FLAG_EVENT_FD;

    /* UCP packs and unpacks with short operations of any length */
    attr->cap.put.max_short = UINT32_MAX;
    attr->cap.get.max_short = UINT32_MAX;
    muct_gpu_tl_fill_limits(attr, iface->seg_size);

    attr->device_addr_len = 0;
    attr->iface_addr_len = sizeof(iface->id);
    attr->ep_addr_len = 0;
    attr->max_conn_priv = 0;
    attr->latency = ucs_linear_func_make(iface->latency, 0);
    attr->bandwidth.dedicated = 0;
    attr->bandwidth.shared = iface->bandwidth;
    attr->overhead = iface->overhead;
    attr->priority = 0;
    return UCS_OK;
}

/* UCP packs with short operations, and stages with zero-copy ones. Nothing is received.
 */
static ucs_status_t muct_copy_iface_estimate_perf(uct_iface_h tl_iface,
                                                  uct_perf_attr_t *attr)
{
    muct_copy_iface_t *iface = ucs_derived_of(tl_iface, muct_copy_iface_t);
    uct_ppn_bandwidth_t bandwidth = {.shared = iface->staged_bandwidth};
    ucs_status_t status = uct_base_iface_estimate_perf(tl_iface, attr);

    if (status != UCS_OK) {
        return status;
    }

    if (attr->field_mask & UCT_PERF_ATTR_FIELD_RECV_OVERHEAD) {
        attr->recv_overhead = 0;
    }
    if (!(attr->field_mask & UCT_PERF_ATTR_FIELD_OPERATION) ||
        (attr->operation == UCT_EP_OP_PUT_ZCOPY) ||
        (attr->operation == UCT_EP_OP_GET_ZCOPY)) {
        return UCS_OK;
    }

    if (attr->field_mask & UCT_PERF_ATTR_FIELD_BANDWIDTH) {
        attr->bandwidth = bandwidth;
    }
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH) {
        attr->path_bandwidth = bandwidth;
    }
    return UCS_OK;
}

static ucs_status_t muct_copy_iface_get_device_address(uct_iface_h tl_iface,
                                                       uct_device_addr_t *addr)
{
    (void)tl_iface;
    (void)addr;
    return UCS_OK;
}

static ucs_status_t muct_copy_iface_get_address(uct_iface_h tl_iface,
                                                uct_iface_addr_t *addr)
{
    muct_copy_iface_t *iface = ucs_derived_of(tl_iface, muct_copy_iface_t);

    memcpy(addr, &iface->id, sizeof(iface->id));
    return UCS_OK;
}

static int muct_copy_iface_is_reachable_v2(
    const uct_iface_h tl_iface, const uct_iface_is_reachable_params_t *params)
{
    const muct_copy_iface_t *iface = ucs_derived_of(tl_iface, muct_copy_iface_t);
    uint64_t id;

    if (!(params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR) ||
        (params->iface_addr == NULL)) {
        uct_iface_fill_info_str_buf(params, "an interface address is needed");
        return 0;
    }

    if ((params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR_LENGTH) &&
        (params->iface_addr_length < sizeof(id))) {
        uct_iface_fill_info_str_buf(params, "the address is too short");
        return 0;
    }

    memcpy(&id, params->iface_addr, sizeof(id));
    if (id != iface->id) {
        uct_iface_fill_info_str_buf(params,
                                    "interface 0x%" PRIx64
                                    " is another one than 0x%" PRIx64
                                    ", and mori_copy reaches itself only",
                                    id, iface->id);
        return 0;
    }

    return 1; /* for every scope */
}


/* ---- life ---- */

static void muct_copy_iface_close(uct_iface_h tl_iface)
{
    muct_copy_iface_t *iface = ucs_derived_of(tl_iface, muct_copy_iface_t);
    unsigned i;

    uct_base_iface_progress_disable(tl_iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    for (i = 0; i < iface->num_queues; ++i) {
        if (iface->queues[i] != NULL) {
            muct_copy_queue_destroy(iface->queues[i]);
        }
    }
    close(iface->event_fd);
    UCS_CLASS_CLEANUP(uct_base_iface_t, &iface->super);
    free(iface);
}

static uct_iface_ops_t muct_copy_iface_ops = {
    MUCT_STUB_IFACE_OPS_COMMON,
    .ep_put_short = muct_copy_ep_put_short,
    .ep_put_bcopy = muct_copy_ep_put_bcopy,
    .ep_put_zcopy = muct_copy_ep_put_zcopy,
    .ep_get_short = muct_copy_ep_get_short,
    .ep_get_bcopy = muct_copy_ep_get_bcopy,
    .ep_get_zcopy = muct_copy_ep_get_zcopy,
    .ep_am_short = muct_stub_ep_am_short, /* the interface copies and carries no
                                           * messages */
    .ep_am_short_iov = muct_stub_ep_am_short_iov,
    .ep_am_bcopy = muct_stub_ep_am_bcopy,
    .ep_am_zcopy = muct_stub_ep_am_zcopy,
    .ep_atomic_cswap64 = muct_stub_ep_atomic_cswap64,
    .ep_atomic_cswap32 = muct_stub_ep_atomic_cswap32,
    .ep_atomic32_post = muct_stub_ep_atomic32_post,
    .ep_atomic64_post = muct_stub_ep_atomic64_post,
    .ep_atomic32_fetch = muct_stub_ep_atomic32_fetch,
    .ep_atomic64_fetch = muct_stub_ep_atomic64_fetch,
    .ep_pending_add = muct_copy_ep_pending_add,
    .ep_pending_purge = muct_copy_ep_pending_purge,
    .ep_flush = muct_copy_ep_flush,
    .ep_fence = muct_copy_ep_fence,
    .ep_check = muct_copy_ep_check,
    .ep_create = muct_copy_ep_create,
    .ep_destroy = muct_copy_ep_destroy,
    .ep_get_address = muct_stub_ep_get_address,
    .ep_connect_to_ep = muct_stub_ep_connect_to_ep,
    .iface_flush = muct_copy_iface_flush,
    .iface_fence = muct_copy_iface_fence,
    .iface_progress_enable = uct_base_iface_progress_enable,
    .iface_progress_disable = uct_base_iface_progress_disable,
    .iface_progress = muct_copy_iface_progress,
    .iface_event_fd_get = muct_copy_iface_event_fd_get,
    .iface_event_arm = muct_copy_iface_event_arm,
    .iface_close = muct_copy_iface_close,
    .iface_query = muct_copy_iface_query,
    .iface_get_device_address = muct_copy_iface_get_device_address,
    .iface_get_address = muct_copy_iface_get_address,
    .iface_is_reachable = uct_base_iface_is_reachable,
};

static MUCT_ABI_PADDED(uct_iface_internal_ops_t) muct_copy_iface_internal_ops = {
    .super =
        {
            .iface_query_v2 = uct_iface_base_query_v2,
            .iface_estimate_perf = muct_copy_iface_estimate_perf,
            .iface_vfs_refresh = muct_stub_iface_vfs_refresh,
            .ep_query = muct_stub_ep_query,
            .ep_invalidate = muct_stub_ep_invalidate,
            .ep_connect_to_ep_v2 = muct_stub_ep_connect_to_ep_v2,
            .iface_is_reachable_v2 = muct_copy_iface_is_reachable_v2,
            .ep_is_connected = uct_base_ep_is_connected,
            .ep_get_device_ep = muct_stub_ep_get_device_ep,
            .ep_put_sgl_zcopy = muct_stub_ep_put_sgl_zcopy,
#if MUCT_ABI_HAVE_GET_SGL
            .ep_get_sgl_zcopy = muct_stub_ep_get_sgl_zcopy,
#endif
#if MUCT_ABI_HAVE_OUTSTANDING_PURGE
            .ep_outstanding_purge = muct_stub_ep_outstanding_purge,
#endif
        },
    .spare = MUCT_STUB_SPARE,
};

static void muct_copy_iface_configure(muct_copy_iface_t *iface,
                                      const muct_copy_iface_config_t *config)
{
    iface->seg_size = config->seg_size;
    if (iface->seg_size < MUCT_COPY_MIN_SEG_SIZE) {
        muct_warn("UCX_MORI_COPY_SEG_SIZE=%zu is less than %d, using %d",
                  iface->seg_size, MUCT_COPY_MIN_SEG_SIZE, MUCT_COPY_MIN_SEG_SIZE);
        iface->seg_size = MUCT_COPY_MIN_SEG_SIZE;
    }

    iface->bandwidth = config->bandwidth;
    iface->staged_bandwidth = config->staged_bandwidth;
    iface->latency = config->latency;
    iface->overhead = config->overhead;
}

static ucs_status_t muct_copy_iface_open(uct_md_h md, uct_worker_h worker,
                                         const uct_iface_params_t *params,
                                         const uct_iface_config_t *tl_config,
                                         uct_iface_h *iface_p)
{
    muct_copy_iface_t *iface = calloc(1, sizeof(*iface));
    ucs_status_t status;

    if (iface == NULL) {
        muct_error("failed to allocate an interface");
        return UCS_ERR_NO_MEMORY;
    }

    iface->md = ucs_derived_of(md, muct_copy_md_t);
    muct_copy_iface_configure(
        iface, ucs_derived_of(tl_config, const muct_copy_iface_config_t));
    if (getrandom(&iface->id, sizeof(iface->id), 0) != sizeof(iface->id)) {
        muct_error("getrandom() failed: %m");
        status = UCS_ERR_IO_ERROR;
        goto err_free;
    }

    iface->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (iface->event_fd < 0) {
        muct_error("eventfd() failed: %m");
        status = UCS_ERR_IO_ERROR;
        goto err_free;
    }

    status = UCS_CLASS_INIT(uct_base_iface_t, &iface->super, &muct_copy_iface_ops,
                            &muct_copy_iface_internal_ops.super, md, worker, params,
                            tl_config);
    if (status != UCS_OK) {
        goto err_close;
    }

    *iface_p = &iface->super.super;
    return UCS_OK;

err_close:
    close(iface->event_fd);
err_free:
    free(iface);
    return status;
}

static ucs_status_t muct_copy_query_devices(uct_md_h md,
                                            uct_tl_device_resource_t **devices_p,
                                            unsigned *num_devices_p)
{
    return uct_single_device_resource(md, "gpu", UCT_DEVICE_TYPE_ACC,
                                      UCS_SYS_DEVICE_ID_UNKNOWN, devices_p,
                                      num_devices_p);
}

static uct_tl_t muct_copy_tl = {
    .name = MUCT_COPY_NAME,
    .query_devices = muct_copy_query_devices,
    .iface_open = muct_copy_iface_open,
    .config =
        {
            .name = "mori_copy transport",
            .prefix = "MORI_COPY_",
            .table = muct_copy_iface_config_table,
            .size = sizeof(muct_copy_iface_config_t),
        },
};

const muct_transport_t muct_copy_transport = {
    .component = &muct_copy_component.super,
    .tl = &muct_copy_tl,
};
