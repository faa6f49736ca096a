/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "rdma/rdma_tl.h"

#include "base/muct_am.h"
#include "base/muct_log.h"
#include "rdma/op/rdma_sgl_defer.h"
#include "rdma/op/rdma_sgl_check.h"
#include "rdma/op/rdma_am_recv.h"
#include "rdma/recovery/rdma_offer.h"
#include "base/muct_stub_ops.h"
#include "rdma/device/rdma_family.h"
#include "rdma/ep/rdma_carrier.h"
#include "rdma/ep/rdma_ep.h"
#include "rdma/ep/rdma_ep_flush.h"
#include "rdma/ep/rdma_ep_wait.h"
#include "rdma/ep/rdma_stats.h"
#include "rdma/op/rdma_am.h"
#include "rdma/op/rdma_ep_amo.h"
#include "rdma/op/rdma_ep_rma.h"
#include "rdma/op/rdma_pull.h"
#include "rdma/rdma_progress.h"
#include "rdma/rdma_query.h"
#include "rdma/recovery/rdma_move.h"
#include "rdma/recovery/rdma_recover.h"
#include "rdma/recovery/rdma_renew.h"
#include "rdma/recovery/rdma_watch.h"

#include <ucs/sys/string.h>

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static ucs_status_t muct_rdma_iface_add_fd(muct_rdma_iface_t *iface, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (epoll_ctl(iface->event_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        muct_error("epoll_ctl(add fd %d) failed: %m", fd);
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

static ucs_status_t muct_rdma_iface_init_events(muct_rdma_iface_t *iface)
{
    muct_rdma_md_t *md = muct_rdma_iface_md(iface);
    ucs_status_t status;

    iface->event_fd = epoll_create1(EPOLL_CLOEXEC);
    if (iface->event_fd < 0) {
        muct_error("epoll_create1() failed: %m");
        return UCS_ERR_IO_ERROR;
    }

    iface->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (iface->timer_fd < 0) {
        muct_error("timerfd_create() failed: %m");
        status = UCS_ERR_IO_ERROR;
        goto err_close;
    }

    status = muct_rdma_async_add(&md->async, &iface->async, iface->port.num);
    if (status != UCS_OK) {
        goto err_close_timer;
    }

    status = muct_rdma_iface_add_fd(iface, iface->cqs.channel->fd);
    if (status == UCS_OK) {
        status = muct_rdma_iface_add_fd(iface, md->device.context->async_fd);
    }
    if (status == UCS_OK) {
        status = muct_rdma_iface_add_fd(iface, iface->async.wake_fd);
    }
    if (status == UCS_OK) {
        status = muct_rdma_iface_add_fd(iface, iface->timer_fd);
    }
    if (status == UCS_OK) {
        return UCS_OK;
    }

    muct_rdma_async_remove(&md->async, &iface->async);
err_close_timer:
    close(iface->timer_fd);
err_close:
    close(iface->event_fd);
    return status;
}

static void muct_rdma_iface_cleanup_events(muct_rdma_iface_t *iface)
{
    muct_rdma_async_remove(&muct_rdma_iface_md(iface)->async, &iface->async);
    close(iface->timer_fd);
    close(iface->event_fd);
}

/* ---- notifications of endpoints ---- */

static ucs_status_t muct_rdma_tl_ep_made(muct_rdma_ep_t *ep)
{
    muct_rdma_recover_open(muct_rdma_ep_iface(ep));
    return muct_rdma_am_init(ep);
}

static void muct_rdma_tl_ep_stopped(muct_rdma_ep_t *ep, ucs_status_t status)
{
    if (ep->job != NULL) {
        muct_rdma_job_end(ep, status);
    }
    muct_rdma_pull_cleanup(ep, status);
    muct_rdma_am_cleanup(ep);
}

static void muct_rdma_tl_ep_progress(muct_rdma_ep_t *ep)
{
    muct_rdma_am_progress(ep);
    muct_rdma_pull_progress(ep);
    if ((ep->job != NULL) && !ep->is_held) {
        muct_rdma_job_progress(ep);
    }
}

static bool muct_rdma_tl_ep_has_work(const muct_rdma_ep_t *ep)
{
    return muct_rdma_am_has_work(ep) || muct_rdma_pull_has_work(ep);
}

static bool muct_rdma_tl_ep_is_runnable(const muct_rdma_ep_t *ep)
{
    return muct_rdma_am_is_runnable(ep) || muct_rdma_pull_is_runnable(ep);
}

static const muct_rdma_ep_listener_t muct_rdma_tl_ep_listener = {
    .made = muct_rdma_tl_ep_made,
    .connected = muct_rdma_recover_connected,
    .broke = muct_rdma_recover_begin,
    .flushed = muct_rdma_recover_flushed,
    .failing = muct_rdma_recover_announce,
    .stopping = muct_rdma_recover_cancel,
    .stopped = muct_rdma_tl_ep_stopped,
    .progress = muct_rdma_tl_ep_progress,
    .pull_pages = muct_rdma_pull_pages,
    .has_work = muct_rdma_tl_ep_has_work,
    .is_runnable = muct_rdma_tl_ep_is_runnable,
};

/* ---- open, close ---- */

static void muct_rdma_iface_release_desc(uct_recv_desc_t *self, void *desc)
{
    muct_rdma_iface_t *iface = ucs_container_of(self, muct_rdma_iface_t, release_desc);
    char *data = (char *)desc + iface->rx_headroom;

    muct_rdma_buf_put((muct_rdma_buf_t *)(void *)(data - iface->rx_offset) - 1);
}

/* Query the port, and set the options that depend on it */
static ucs_status_t muct_rdma_iface_set_port(muct_rdma_iface_t *iface,
                                             muct_rdma_iface_config_t *config,
                                             const char *dev_name)
{
    const muct_rdma_device_t *device = &muct_rdma_iface_md(iface)->device;
    const char *colon = strrchr(dev_name, ':');
    int gid_index = MUCT_RDMA_GID_AUTO;
    ucs_status_t status;

    if (config->gid_index != UCS_ULUNITS_AUTO) {
        gid_index = (config->gid_index < INT_MAX) ? (int)config->gid_index : INT_MAX;
    }

    status =
        muct_rdma_port_query(device, (uint8_t)((colon != NULL) ? atoi(colon + 1) : 1),
                             gid_index, config->pkey, &iface->port);
    if (status != UCS_OK) {
        return status;
    }

    iface->has_auto_depth = config->tx_depth == UCS_ULUNITS_AUTO;
    muct_rdma_family_fill(device, &iface->port, config);
    return muct_rdma_limits_init(config, device, &iface->port, &iface->limits);
}

static uint64_t muct_rdma_iface_ms(double seconds)
{
    return (isfinite(seconds) && (seconds < 1e12)) ? (uint64_t)(seconds * 1e3)
                                                   : MUCT_RDMA_NEVER_MS;
}

static void muct_rdma_iface_set_path(muct_rdma_iface_t *iface,
                                     const muct_rdma_iface_config_t *config)
{
    muct_rdma_qp_path_t *path = &iface->path;

    path->port = &iface->port;
    path->sl = (uint8_t)config->sl;
    path->traffic_class = (config->traffic_class == UCS_ULUNITS_AUTO)
                              ? muct_rdma_family_traffic_class(
                                    &muct_rdma_iface_md(iface)->device, &iface->port)
                              : (uint8_t)config->traffic_class;
    path->hop_limit = (uint8_t)config->hop_limit;
    path->timeout = muct_rdma_qp_timeout_code(config->timeout);
    path->retry_count = (uint8_t)config->retry_count;
    path->rnr_retry = (uint8_t)config->rnr_retry;
    path->min_rnr_timer = muct_rdma_qp_rnr_code(config->rnr_timer);
    path->has_atomics = iface->limits.has_atomics;
    iface->same_rail = config->rail_affinity != 0;
    iface->has_ece = (config->ece != 0) && (muct_rdma_verbs.query_ece != NULL) &&
                     (iface->limits.num_qps <= MUCT_RDMA_ECE_MAX_QPS);
    iface->ece = iface->has_ece ? config->ece : 0;
    iface->has_fixed_gid = config->gid_index != UCS_ULUNITS_AUTO;
    iface->reachability = (muct_rdma_reachability_t)config->reachability;
    iface->port_down_timeout_ms = muct_rdma_iface_ms(config->port_down_timeout);
    iface->watch_ms = muct_rdma_watch_limit(path);
    iface->recovery_tries = config->recovery;
    iface->recovery_timeout_ms = muct_rdma_iface_ms(config->recovery_timeout);
}

/* Alignment the user wants for received data: the byte at @a offset is at a multiple of
 * @a align. */
static ucs_status_t muct_rdma_iface_am_alignment(const uct_iface_params_t *params,
                                                 size_t *align_p, size_t *offset_p)
{
    ucs_status_t status;
    size_t align;

    status = muct_am_check_alignment(params, &align);
    if (status != UCS_OK) {
        return status;
    }

    /* an offset beyond the alignment is reduced modulo it, as UCP passes such
     * offsets */
    *align_p = (align > MUCT_RDMA_BUF_ALIGN) ? align : MUCT_RDMA_BUF_ALIGN;
    *offset_p =
        MUCT_PARAM(UCT_IFACE_PARAM_FIELD, params, am_align_offset, AM_ALIGN_OFFSET, 0) &
        (align - 1);
    return UCS_OK;
}

static ucs_status_t muct_rdma_iface_init_pools(muct_rdma_iface_t *iface,
                                               const uct_iface_params_t *params,
                                               const muct_rdma_iface_config_t *config)
{
    struct ibv_pd *pd = muct_rdma_iface_md(iface)->pd;
    size_t align, offset;
    ucs_status_t status;

    status = muct_rdma_iface_am_alignment(params, &align, &offset);
    if (status != UCS_OK) {
        return status;
    }

    /* in front of the data is our header, or the user's headroom behind the pointer by
     * which the user returns the buffer */
    iface->rx_headroom =
        MUCT_PARAM(UCT_IFACE_PARAM_FIELD, params, rx_headroom, RX_HEADROOM, 0);
    iface->rx_offset = iface->rx_headroom + sizeof(void *) + MUCT_RDMA_AM_HEADER;
    iface->rx_offset =
        ((iface->rx_offset + offset + align - 1) & ~(align - 1)) - offset;
    iface->release_desc.cb = muct_rdma_iface_release_desc;
    muct_rdma_buf_pool_init(&iface->tx_pool, pd, iface->limits.seg_size,
                            MUCT_RDMA_BUF_ALIGN, 64, config->max_bufs, "send");
    muct_rdma_buf_pool_init(&iface->rx_pool, pd,
                            iface->rx_offset + iface->limits.seg_size, align,
                            iface->limits.rx_depth + MUCT_RDMA_CREDIT_RECEIVES,
                            config->max_bufs, "receive");
    iface->tx_pool.is_open = true; /* peers write answers of gets to it; rdma_pull.c */
    return UCS_OK;
}

/* Register the receives of the first endpoint while the interface can still be left
 * out: UCP answers no wire-up whose endpoint cannot be created, and the peer would wait
 * forever. */
static void muct_rdma_iface_reserve_receives(muct_rdma_iface_t *iface)
{
    const unsigned num = iface->limits.rx_first + MUCT_RDMA_CREDIT_RECEIVES;

    if (muct_rdma_buf_pool_reserve(&iface->rx_pool, num) == UCS_OK) {
        return;
    }

    iface->is_left_out = true;
    muct_warn("%s:%u is not used: ibv_reg_mr() of %u receive buffers of %zu bytes "
              "failed: %m%s",
              muct_rdma_iface_md(iface)->device.name, iface->port.num, num,
              iface->rx_pool.size, muct_rdma_mr_remedy(errno));
}

static unsigned muct_rdma_iface_cpu(const uct_iface_params_t *params)
{
    int cpu;

    if (params->field_mask & UCT_IFACE_PARAM_FIELD_CPU_MASK) {
        for (cpu = 0; cpu < UCS_CPU_SETSIZE; ++cpu) {
            if (ucs_cpu_is_set(cpu, &params->cpu_mask)) {
                return (unsigned)cpu;
            }
        }
    }

    cpu = sched_getcpu();
    return (cpu < 0) ? 0 : (unsigned)cpu;
}

static ucs_status_t muct_rdma_iface_init(muct_rdma_iface_t *iface,
                                         const uct_iface_params_t *params,
                                         const muct_rdma_iface_config_t *user_config)
{
    muct_rdma_md_t *md = muct_rdma_iface_md(iface);
    muct_rdma_iface_config_t filled = *user_config;
    const muct_rdma_iface_config_t *config = &filled;
    ucs_status_t status;

    iface->listener = &muct_rdma_tl_ep_listener;
    muct_rdma_stock_init(&iface->stock);
    ucs_list_head_init(&iface->eps);
    ucs_list_head_init(&iface->recovering);
    ucs_list_head_init(&iface->work);
    ucs_list_head_init(&iface->dirty);
    iface->free_place = UINT32_MAX;
    iface->async_countdown = MUCT_RDMA_ASYNC_ROUNDS;
    status = muct_rdma_iface_set_port(iface, &filled, params->mode.device.dev_name);
    if (status != UCS_OK) {
        return status;
    }

    muct_rdma_iface_set_path(iface, config);
    status = muct_rdma_iface_init_pools(iface, params, config);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_md_get_flush_page(md, &iface->flush_mem);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_cq_set_init(&iface->cqs, &md->device, iface->limits.cq_depth,
                                   muct_rdma_iface_cpu(params));
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_domain_open(
        md->pd, (ucs_ternary_auto_value_t)config->thread_domain, &iface->domain);
    if (status != UCS_OK) {
        goto err_cqs;
    }

    status = muct_rdma_iface_init_events(iface);
    if (status != UCS_OK) {
        goto err_domain;
    }

    muct_rdma_carrier_enter(iface);
    muct_rdma_iface_reserve_receives(iface);
    return UCS_OK;

err_domain:
    muct_rdma_domain_close(&iface->domain);
err_cqs:
    muct_rdma_cq_set_cleanup(&iface->cqs);
    return status;
}

static void muct_rdma_iface_close(uct_iface_h tl_iface)
{
    muct_rdma_iface_t *iface = (muct_rdma_iface_t *)tl_iface;
    muct_rdma_ep_t *ep;

    uct_base_iface_progress_disable(tl_iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    while (!ucs_list_is_empty(&iface->eps)) { /* UCP does not destroy some endpoints
                                               * that failed early */
        ep = ucs_list_head(&iface->eps, muct_rdma_ep_t, list);
        muct_debug("interface is closed with endpoint %p", (void *)ep);
        muct_rdma_ep_destroy(&ep->super.super);
    }

    muct_rdma_stock_drop(&iface->stock);
    muct_rdma_move_leave(iface);
    muct_rdma_carrier_leave(iface);
    muct_rdma_iface_log_stats(iface);
    muct_rdma_iface_cleanup_events(iface);
    muct_rdma_ctl_close(&iface->ctl);
    muct_rdma_domain_close(&iface->domain);
    muct_rdma_cq_set_cleanup(&iface->cqs);
    muct_rdma_buf_pool_cleanup(&iface->tx_pool);
    muct_rdma_buf_pool_cleanup(&iface->rx_pool);
    free(iface->places);
    UCS_CLASS_CLEANUP(uct_base_iface_t, &iface->super);
    free(iface);
}

/* ---- tables ---- */

static MUCT_ABI_PADDED(uct_iface_ops_t) muct_rdma_iface_ops = {
    .super =
        {
            .ep_put_short = muct_rdma_ep_put_short,
            .ep_put_bcopy = muct_rdma_ep_put_bcopy,
            .ep_put_zcopy = muct_rdma_ep_put_zcopy,
            .ep_get_short = muct_stub_ep_get_short, /* reads are never short */
            .ep_get_bcopy = muct_rdma_ep_get_bcopy,
            .ep_get_zcopy = muct_rdma_ep_get_zcopy,
            .ep_am_short = muct_rdma_ep_am_short,
            .ep_am_short_iov = muct_rdma_ep_am_short_iov,
            .ep_am_bcopy = muct_rdma_ep_am_bcopy,
            .ep_am_zcopy = muct_rdma_ep_am_zcopy,
            .ep_atomic_cswap64 = muct_rdma_ep_atomic_cswap64,
            .ep_atomic_cswap32 = muct_stub_ep_atomic_cswap32, /* verbs has 64-bit
                                                               * atomics only */
            .ep_atomic32_post = muct_stub_ep_atomic32_post,
            .ep_atomic64_post = muct_rdma_ep_atomic64_post,
            .ep_atomic32_fetch = muct_stub_ep_atomic32_fetch,
            .ep_atomic64_fetch = muct_rdma_ep_atomic64_fetch,
            .ep_pending_add = muct_rdma_ep_pending_add,
            .ep_pending_purge = muct_rdma_ep_pending_purge,
            .ep_flush = muct_rdma_ep_flush,
            .ep_fence = muct_rdma_ep_fence,
            .ep_check = muct_rdma_ep_check,
            .ep_create = muct_rdma_ep_create,
            .ep_destroy = muct_rdma_ep_destroy,
            .ep_get_address = muct_rdma_ep_get_address,
            .ep_connect_to_ep = uct_base_ep_connect_to_ep,
            .iface_flush = muct_rdma_iface_flush,
            .iface_fence = muct_rdma_iface_fence,
            .iface_progress_enable = uct_base_iface_progress_enable,
            .iface_progress_disable = uct_base_iface_progress_disable,
            .iface_progress = muct_rdma_iface_progress,
            .iface_event_fd_get = muct_rdma_iface_event_fd_get,
            .iface_event_arm = muct_rdma_iface_event_arm,
            .iface_close = muct_rdma_iface_close,
            .iface_query = muct_rdma_iface_query,
            .iface_get_device_address = muct_rdma_iface_get_device_address,
            .iface_get_address = muct_rdma_iface_get_address,
            .iface_is_reachable = uct_base_iface_is_reachable,
            MUCT_STUB_IFACE_OPS_COMMON,
        },
    .spare = MUCT_STUB_SPARE,
};

static MUCT_ABI_PADDED(uct_iface_internal_ops_t) muct_rdma_iface_internal_ops = {
    .super =
        {
            .iface_query_v2 = muct_rdma_iface_query_v2,
            .iface_estimate_perf = muct_rdma_iface_estimate_perf,
            .iface_vfs_refresh = muct_rdma_iface_vfs_refresh,
            .ep_query = muct_rdma_ep_query,
            .ep_invalidate = muct_rdma_ep_invalidate,
            .ep_connect_to_ep_v2 = muct_rdma_ep_connect_to_ep_v2,
            .iface_is_reachable_v2 = muct_rdma_iface_is_reachable_v2,
            .ep_is_connected = muct_rdma_ep_is_connected,
            .ep_get_device_ep = muct_stub_ep_get_device_ep,
            .ep_put_sgl_zcopy = muct_rdma_ep_put_sgl_zcopy,
#if MUCT_ABI_HAVE_GET_SGL
            .ep_get_sgl_zcopy = muct_rdma_ep_get_sgl_zcopy,
#endif
#if MUCT_ABI_HAVE_OUTSTANDING_PURGE
            .ep_outstanding_purge = muct_stub_ep_outstanding_purge,
#endif
        },
    .spare = MUCT_STUB_SPARE,
};

/* ---- open ---- */

static ucs_status_t muct_rdma_iface_open(uct_md_h md, uct_worker_h worker,
                                         const uct_iface_params_t *params,
                                         const uct_iface_config_t *uct_config,
                                         uct_iface_h *iface_p)
{
    const muct_rdma_iface_config_t *config =
        (const muct_rdma_iface_config_t *)uct_config;
    muct_rdma_iface_t *iface;
    ucs_status_t status;

    if (!(params->field_mask & UCT_IFACE_PARAM_FIELD_OPEN_MODE) ||
        !(params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE)) {
        muct_error("mori_rdma opens interfaces by device, expected "
                   "UCT_IFACE_OPEN_MODE_DEVICE");
        return UCS_ERR_UNSUPPORTED;
    }

    iface = calloc(1, sizeof(*iface));
    if (iface == NULL) {
        muct_error("failed to allocate an interface");
        return UCS_ERR_NO_MEMORY;
    }

    status = UCS_CLASS_INIT(uct_base_iface_t, &iface->super, &muct_rdma_iface_ops.super,
                            &muct_rdma_iface_internal_ops.super, md, worker, params,
                            uct_config);
    if (status != UCS_OK) {
        goto err_free;
    }

    status = muct_rdma_iface_init(iface, params, config);
    if (status != UCS_OK) {
        goto err_cleanup;
    }

    *iface_p = &iface->super.super;
    return UCS_OK;

err_cleanup:
    UCS_CLASS_CLEANUP(uct_base_iface_t, &iface->super);
err_free:
    free(iface);
    return status;
}

static ucs_status_t muct_rdma_tl_query_devices(uct_md_h uct_md,
                                               uct_tl_device_resource_t **devices_p,
                                               unsigned *num_p)
{
    muct_rdma_md_t *md = (muct_rdma_md_t *)uct_md;
    unsigned port, num = 0, num_ports = md->device.attr.phys_port_cnt;
    uct_tl_device_resource_t *devices;
    muct_rdma_mem_t *flush_mem;
    muct_rdma_port_t attr;

    devices = calloc((num_ports > 0) ? num_ports : 1, sizeof(*devices));
    if (devices == NULL) {
        muct_error("failed to allocate a list of %u ports", num_ports);
        return UCS_ERR_NO_MEMORY;
    }

    if (muct_rdma_md_get_flush_page(md, &flush_mem) != UCS_OK) {
        num_ports = 0;
        muct_warn("%s is not used: registering host memory failed", md->device.name);
    }

    for (port = 1; port <= num_ports; ++port) {
        if (!muct_rdma_device_is_listed(&md->devices, md->device.name, port)) {
            muct_debug("%s:%u is excluded by UCX_MORI_RDMA_DEVICES", md->device.name,
                       port);
            continue;
        }

        if ((muct_rdma_port_query(&md->device, (uint8_t)port, MUCT_RDMA_GID_AUTO, 0,
                                  &attr) != UCS_OK) ||
            !attr.is_active) {
            muct_debug("%s:%u is not active", md->device.name, port);
            continue;
        }

        snprintf(devices[num].name, sizeof(devices[num].name), "%.*s:%u",
                 UCT_DEVICE_NAME_MAX - 5, md->device.name, port);
        devices[num].type = UCT_DEVICE_TYPE_NET;
        devices[num].sys_device = md->device.sys_device;
        ++num;
    }

    *devices_p = devices;
    *num_p = num;
    return UCS_OK;
}

/* ---- transport ---- */

static uct_tl_t muct_rdma_tl = {
    .name = "mori_rdma",
    .query_devices = muct_rdma_tl_query_devices,
    .iface_open = muct_rdma_iface_open,
    .config =
        {
            .name = "mori_rdma transport",
            .prefix = "MORI_RDMA_",
            .table = muct_rdma_iface_config_table,
            .size = sizeof(muct_rdma_iface_config_t),
        },
};

const muct_transport_t muct_rdma_transport = {
    .component = &muct_rdma_component.super,
    .tl = &muct_rdma_tl,
};
