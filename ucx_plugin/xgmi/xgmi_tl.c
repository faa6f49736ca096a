/* SPDX-License-Identifier: BSD-3-Clause */

/* Options, attributes, addresses and life of the interface. */

#include "config.h"

#include "xgmi/xgmi_tl.h"

#include "base/muct_am.h"
#include "base/muct_gpu_tl.h"
#include "base/muct_log.h"
#include "base/muct_stub_ops.h"
#include "base/muct_tuning.h"
#include "xgmi/xgmi_am.h"
#include "xgmi/xgmi_ep.h"
#include "xgmi/xgmi_iface.h"
#include "xgmi/xgmi_perf.h"
#include "xgmi/xgmi_progress.h"
#include "xgmi/xgmi_rma.h"
#include "xgmi/xgmi_sgl.h"

#include <ucs/config/parser.h>
#include <ucs/sys/uid.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/epoll.h>
#include <unistd.h>

typedef struct muct_xgmi_iface_config {
    uct_iface_config_t super;
    unsigned list_size;
    int yields_lock;
    int use_kernel;
    unsigned max_blocks;
    char *topology;
    unsigned num_engines;
    size_t min_run;
    size_t seg_size;
    unsigned num_segs;
    size_t max_short;
    double bandwidth;
    double latency;
    double overhead;
    int has_messages;
} muct_xgmi_iface_config_t;


static ucs_config_field_t muct_xgmi_iface_config_table[] = {
    {"", "", NULL, ucs_offsetof(muct_xgmi_iface_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"LIST_SIZE", "16384",
     "Copies a list holds, a number; each takes 64 bytes, 32 of them pinned, and there\n"
     "are 8 lists per device and direction. Lower it when pinned memory is short.",
     ucs_offsetof(muct_xgmi_iface_config_t, list_size), UCS_CONFIG_TYPE_UINT},

    {"YIELD_LOCK", "y",
     "Let a thread that arms sleep without UCX's worker lock while another one posts,\n"
     "y or n. It is meant for progress threads that never sleep, as NIXL's. Turn it\n"
     "off when a thread that arms must be back within 50 us.",
     ucs_offsetof(muct_xgmi_iface_config_t, yields_lock), UCS_CONFIG_TYPE_BOOL},

    {"KERNEL", "y",
     "Copy lists with the copy kernel, y or n. Turn it off to use copy engines only.",
     ucs_offsetof(muct_xgmi_iface_config_t, use_kernel), UCS_CONFIG_TYPE_BOOL},

    {"BLOCKS", "8",
     "Thread blocks of the copy kernel, a number, 1 to 128. The default leaves\n"
     "compute alone; 32 or more fill a link the last few percent when nothing else\n"
     "runs.",
     ucs_offsetof(muct_xgmi_iface_config_t, max_blocks), UCS_CONFIG_TYPE_UINT},

    {"TOPOLOGY", "/sys/class/kfd/kfd/topology",
     "Folder in which AMD's driver reports the links between GPUs, a path. Set it when\n"
     "a container has that folder at another place.",
     ucs_offsetof(muct_xgmi_iface_config_t, topology), UCS_CONFIG_TYPE_STRING},

    {"ENGINES", "1",
     "Streams over which a long run is split, for as many copy engines, a number,\n"
     "0 to 8. One engine fills a link. 0 leaves long runs to the kernel.",
     ucs_offsetof(muct_xgmi_iface_config_t, num_engines), UCS_CONFIG_TYPE_UINT},

    {"MIN_RUN", "4m",
     "Length from which one run of memory goes to the copy engines, in bytes.",
     ucs_offsetof(muct_xgmi_iface_config_t, min_run), UCS_CONFIG_TYPE_MEMUNITS},

    {"SEG_SIZE", "64k",
     "Pinned buffer for data that is in plain host memory, in bytes. Raise it for\n"
     "large transfers between host and GPU memory.",
     ucs_offsetof(muct_xgmi_iface_config_t, seg_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"SEGS", "64",
     "Pinned buffers of an interface, a number. Allocated with the first use.",
     ucs_offsetof(muct_xgmi_iface_config_t, num_segs), UCS_CONFIG_TYPE_UINT},

    {"MAX_SHORT", "1k", "Longest short put, in bytes; at most SEG_SIZE.",
     ucs_offsetof(muct_xgmi_iface_config_t, max_short), UCS_CONFIG_TYPE_MEMUNITS},

    {"BW", "auto",
     "Bandwidth reported to UCX, in bytes per second. It weighs this transport against\n"
     "others and limits nothing. auto: the driver's figure for the link to each peer,\n"
     "or 200GBs for all peers where the driver has none.",
     ucs_offsetof(muct_xgmi_iface_config_t, bandwidth), UCS_CONFIG_TYPE_BW},

    {"LATENCY", "5us", "Latency reported to UCX, a time.",
     ucs_offsetof(muct_xgmi_iface_config_t, latency), UCS_CONFIG_TYPE_TIME},

    {"OVERHEAD", "500ns", "Cost of an operation reported to UCX, a time.",
     ucs_offsetof(muct_xgmi_iface_config_t, overhead), UCS_CONFIG_TYPE_TIME},

    {"MESSAGES", "y",
     "Carry active messages between processes of a host as well, through SHM_DIR, y or\n"
     "n. Turn it off to leave them to another transport of UCX_TLS.",
     ucs_offsetof(muct_xgmi_iface_config_t, has_messages), UCS_CONFIG_TYPE_BOOL},

    {NULL, NULL, NULL, 0, {0}}};


/* ---- attributes and addresses ---- */

static ucs_status_t muct_xgmi_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);

    uct_base_iface_query(&iface->super, attr);
    attr->cap.flags = UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY |
                      UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_BCOPY |
                      UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING |
                      UCT_IFACE_FLAG_CONNECT_TO_IFACE |
                      UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE | UCT_IFACE_FLAG_EP_CHECK;
    attr->cap.event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_FD;

    muct_xgmi_am_query(iface, attr);

    attr->cap.put.max_short = iface->max_short;
    muct_gpu_tl_fill_limits(attr, iface->stage.size);

    attr->device_addr_len = MUCT_XGMI_DEVICE_ADDR_SIZE;
    attr->iface_addr_len = MUCT_XGMI_IFACE_ADDR_SIZE;
    attr->ep_addr_len = 0;
    attr->max_conn_priv = 0;
    attr->latency = ucs_linear_func_make(iface->latency, 0);
    attr->bandwidth = muct_xgmi_perf_bandwidth(iface, iface->bandwidth);
    attr->overhead = iface->overhead;
    attr->priority = 0;
    return UCS_OK;
}

static ucs_status_t muct_xgmi_iface_query_v2(uct_iface_h tl_iface,
                                             uct_iface_attr_v2_t *attr)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);
    ucs_status_t status = uct_iface_base_query_v2(tl_iface, attr);

    if (status != UCS_OK) {
        return status;
    }

    if (attr->field_mask & UCT_IFACE_ATTR_FIELD_CAP_FLAGS) {
        attr->cap.flags |= UCT_IFACE_FLAG_V2_PUT_SGL_ZCOPY;
#if MUCT_ABI_HAVE_GET_SGL
        attr->cap.flags |= UCT_IFACE_FLAG_V2_GET_SGL_ZCOPY;
#endif
    }
    if (attr->field_mask & UCT_IFACE_ATTR_FIELD_MAX_PUT_SGL_ZCOPY_COUNT) {
        attr->max_put_sgl_zcopy_count = iface->max_sgl;
    }
#if MUCT_ABI_HAVE_GET_SGL
    if (attr->field_mask & UCT_IFACE_ATTR_FIELD_MAX_GET_SGL_ZCOPY_COUNT) {
        attr->max_get_sgl_zcopy_count = iface->max_sgl;
    }
#endif

    return UCS_OK;
}

static ucs_status_t muct_xgmi_iface_get_device_address(uct_iface_h tl_iface,
                                                       uct_device_addr_t *addr)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);

    muct_xgmi_device_addr_pack(&iface->device_addr, addr);
    return UCS_OK;
}

static ucs_status_t muct_xgmi_iface_get_address(uct_iface_h tl_iface,
                                                uct_iface_addr_t *addr)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);

    muct_xgmi_iface_addr_pack(&iface->addr, addr);
    return UCS_OK;
}

/* Warn that two processes share the host and /dev/shm but cannot use IPC: other
 * transports are many times slower. */
static void muct_xgmi_iface_warn_apart(const muct_xgmi_device_addr_t *mine,
                                       const muct_xgmi_device_addr_t *peer,
                                       const char *reason)
{
    static atomic_bool has_warned;

    if ((mine->host == peer->host) && (mine->shm_dir == peer->shm_dir) &&
        !atomic_exchange(&has_warned, true)) {
        muct_warn("mori_xgmi does not reach a process of this host: %s; other "
                  "transports carry its memory and messages",
                  reason);
    }
}

/* Claim a place among the peer's senders; warn once that there is none. */
static bool muct_xgmi_iface_has_place(muct_xgmi_iface_t *iface,
                                      const muct_xgmi_iface_addr_t *addr,
                                      const uct_iface_is_reachable_params_t *params)
{
    static atomic_bool has_warned;

    if (muct_xgmi_iface_hold(iface, addr)) {
        return true;
    }

    uct_iface_fill_info_str_buf(params,
                                "process 0x%lx (pid %u) or this one has %d senders of "
                                "messages",
                                addr->owner, addr->pid, MUCT_XGMI_BOX_RINGS);
    if (!atomic_exchange(&has_warned, true)) {
        muct_warn("mori_xgmi does not reach process 0x%lx (pid %u): it or this process "
                  "has %d senders of messages already; other transports carry its "
                  "memory and messages. Use more workers, or UCX_MORI_XGMI_MESSAGES=n",
                  addr->owner, addr->pid, MUCT_XGMI_BOX_RINGS);
    }
    return false;
}

static bool muct_xgmi_iface_can_reach(muct_xgmi_iface_t *iface,
                                      const uct_iface_is_reachable_params_t *params)
{
    muct_xgmi_device_addr_t device_addr;
    muct_xgmi_iface_addr_t addr;
    muct_xgmi_peer_t *peer;
    ucs_status_t status;
    char reason[256];

    if ((muct_xgmi_device_addr_unpack(params->device_addr, &device_addr) != UCS_OK) ||
        (muct_xgmi_iface_addr_unpack(params->iface_addr, &addr) != UCS_OK)) {
        uct_iface_fill_info_str_buf(params, "the address is of another version");
        return false;
    }

    if (!muct_xgmi_addr_can_reach(&iface->device_addr, &iface->addr, &device_addr,
                                  &addr, reason, sizeof(reason))) {
        uct_iface_fill_info_str_buf(params, "%s", reason);
        muct_xgmi_iface_warn_apart(&iface->device_addr, &device_addr, reason);
        return false;
    }

    if ((addr.id.slot >= MUCT_XGMI_MAX_IFACES) &&
        (addr.id.slot != MUCT_XGMI_NO_IFACE_SLOT)) {
        uct_iface_fill_info_str_buf(params,
                                    "process 0x%lx (pid %u) has no interface %u",
                                    addr.owner, addr.pid, addr.id.slot);
        return false;
    }

    /* the endpoint reports a dead or closed peer: see xgmi_addr.h */
    status = muct_xgmi_peer_get(addr.owner, &peer);
    if (status == UCS_OK) {
        muct_xgmi_peer_put(peer);
        return muct_xgmi_iface_has_place(iface, &addr, params);
    }
    if (status != UCS_ERR_CONNECTION_RESET) {
        uct_iface_fill_info_str_buf(params,
                                    "the control page of process 0x%lx (pid %u) cannot "
                                    "be used; see its warning",
                                    addr.owner, addr.pid);
        return false;
    }
    return true;
}

static int muct_xgmi_iface_is_reachable_v2(
    const uct_iface_h tl_iface, const uct_iface_is_reachable_params_t *params)
{
    const uint64_t required = UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR |
                              UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR;

    if ((params->field_mask & required) != required) {
        uct_iface_fill_info_str_buf(params, "device and interface address are needed");
        return 0;
    }

    if (((params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR_LENGTH) &&
         (params->device_addr_length < MUCT_XGMI_DEVICE_ADDR_SIZE)) ||
        ((params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR_LENGTH) &&
         (params->iface_addr_length < MUCT_XGMI_IFACE_ADDR_SIZE))) {
        uct_iface_fill_info_str_buf(params, "the address is too short");
        return 0;
    }

    return muct_xgmi_iface_can_reach(ucs_derived_of(tl_iface, muct_xgmi_iface_t),
                                     params) &&
           uct_iface_scope_is_reachable(tl_iface, params);
}


/* ---- life ---- */

static void muct_xgmi_iface_close(uct_iface_h tl_iface)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);
    muct_xgmi_flush_t *flush;
    unsigned i;

    muct_xgmi_iface_id_close(iface->addr.id);
    muct_xgmi_am_cleanup(iface);
    uct_base_iface_progress_disable(tl_iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    muct_xgmi_moves_close(&iface->moves);
    for (i = 0; i < iface->num_queues; ++i) {
        muct_xgmi_queue_destroy(iface->all[i], UCS_ERR_CANCELED);
    }
    muct_xgmi_moves_cleanup(iface);
    muct_xgmi_invals_leave(&iface->md->invals, &iface->inval_watch);
    muct_xgmi_map_leave(iface->md->map, &iface->map_watch);
    muct_xgmi_stage_cleanup(&iface->stage);
    while ((flush = iface->free_flushes) != NULL) {
        iface->free_flushes = flush->next;
        free(flush);
    }
    close(iface->epoll_fd);
    muct_xgmi_wake_put(iface->wake);
    UCS_CLASS_CLEANUP(uct_base_iface_t, &iface->super);
    free(iface->links.links);
    free(iface);
}

static uct_iface_ops_t muct_xgmi_iface_ops = {
    MUCT_STUB_IFACE_OPS_COMMON,
    .ep_put_short = muct_xgmi_ep_put_short,
    .ep_put_bcopy = muct_xgmi_ep_put_bcopy,
    .ep_put_zcopy = muct_xgmi_ep_put_zcopy,
    .ep_get_short = muct_stub_ep_get_short, /* it would block */
    .ep_get_bcopy = muct_xgmi_ep_get_bcopy,
    .ep_get_zcopy = muct_xgmi_ep_get_zcopy,
    .ep_am_short = muct_xgmi_ep_am_short,
    .ep_am_short_iov = muct_xgmi_ep_am_short_iov,
    .ep_am_bcopy = muct_xgmi_ep_am_bcopy,
    .ep_am_zcopy = muct_stub_ep_am_zcopy,
    .ep_atomic_cswap64 = muct_stub_ep_atomic_cswap64,
    .ep_atomic_cswap32 = muct_stub_ep_atomic_cswap32,
    .ep_atomic32_post = muct_stub_ep_atomic32_post,
    .ep_atomic64_post = muct_stub_ep_atomic64_post,
    .ep_atomic32_fetch = muct_stub_ep_atomic32_fetch,
    .ep_atomic64_fetch = muct_stub_ep_atomic64_fetch,
    .ep_pending_add = muct_xgmi_ep_pending_add,
    .ep_pending_purge = muct_xgmi_ep_pending_purge,
    .ep_flush = muct_xgmi_ep_flush,
    .ep_fence = muct_xgmi_ep_fence,
    .ep_check = muct_xgmi_ep_check,
    .ep_create = muct_xgmi_ep_create,
    .ep_destroy = muct_xgmi_ep_destroy,
    .ep_get_address = muct_stub_ep_get_address,
    .ep_connect_to_ep = muct_stub_ep_connect_to_ep,
    .iface_flush = muct_xgmi_iface_flush,
    .iface_fence = muct_xgmi_iface_fence,
    .iface_progress_enable = muct_xgmi_iface_progress_enable,
    .iface_progress_disable = muct_xgmi_iface_progress_disable,
    .iface_progress = muct_xgmi_iface_progress,
    .iface_event_fd_get = muct_xgmi_iface_event_fd_get,
    .iface_event_arm = muct_xgmi_iface_event_arm,
    .iface_close = muct_xgmi_iface_close,
    .iface_query = muct_xgmi_iface_query,
    .iface_get_device_address = muct_xgmi_iface_get_device_address,
    .iface_get_address = muct_xgmi_iface_get_address,
    .iface_is_reachable = uct_base_iface_is_reachable,
};

static MUCT_ABI_PADDED(uct_iface_internal_ops_t) muct_xgmi_iface_internal_ops = {
    .super =
        {
            .iface_query_v2 = muct_xgmi_iface_query_v2,
            .iface_estimate_perf = muct_xgmi_perf_estimate,
            .iface_vfs_refresh = muct_stub_iface_vfs_refresh,
            .ep_query = muct_stub_ep_query,
            .ep_invalidate = muct_stub_ep_invalidate,
            .ep_connect_to_ep_v2 = muct_stub_ep_connect_to_ep_v2,
            .iface_is_reachable_v2 = muct_xgmi_iface_is_reachable_v2,
            .ep_is_connected = muct_xgmi_ep_is_connected,
            .ep_get_device_ep = muct_stub_ep_get_device_ep,
            .ep_put_sgl_zcopy = muct_xgmi_ep_put_sgl_zcopy,
#if MUCT_ABI_HAVE_GET_SGL
            .ep_get_sgl_zcopy = muct_xgmi_ep_get_sgl_zcopy,
#endif
#if MUCT_ABI_HAVE_OUTSTANDING_PURGE
            .ep_outstanding_purge = muct_stub_ep_outstanding_purge,
#endif
        },
    .spare = MUCT_STUB_SPARE,
};

static unsigned muct_xgmi_clamp(const char *name, unsigned value, unsigned min,
                                unsigned max)
{
    unsigned clamped = (value < min) ? min : (value > max) ? max : value;

    if (clamped != value) {
        muct_warn("UCX_MORI_XGMI_%s=%u is not %u to %u, using %u", name, value, min,
                  max, clamped);
    }

    return clamped;
}

static void muct_xgmi_iface_configure(muct_xgmi_iface_t *iface,
                                      const muct_xgmi_iface_config_t *config)
{
    muct_xgmi_queue_config_t *queue = &iface->queue_config;
    size_t seg_size = config->seg_size;

    queue->num_lists = MUCT_XGMI_LISTS;
    queue->late_ms = MUCT_XGMI_LATE_MS;
    queue->list_size = muct_xgmi_clamp("LIST_SIZE", config->list_size, 16, 1 << 24);
    iface->max_sgl =
        (queue->list_size < MUCT_XGMI_MAX_SGL) ? queue->list_size : MUCT_XGMI_MAX_SGL;
    queue->max_started = MUCT_XGMI_MAX_STARTED;
    queue->early_start = MUCT_XGMI_EARLY_START;
    iface->yields_lock = config->yields_lock;
    queue->max_calls = MUCT_XGMI_MAX_CALLS;
    queue->max_blocks =
        muct_xgmi_clamp("BLOCKS", config->max_blocks, 1, MUCT_XGMI_MAX_BLOCKS);
    queue->num_launch_streams = MUCT_XGMI_LAUNCH_STREAMS;
    queue->num_engines =
        muct_xgmi_clamp("ENGINES", config->num_engines, 0, MUCT_XGMI_MAX_ENGINES);
    queue->min_run = config->min_run;
    queue->has_kernel = config->use_kernel;

    if (seg_size < 256) {
        muct_warn("UCX_MORI_XGMI_SEG_SIZE=%zu is less than 256, using 256", seg_size);
        seg_size = 256;
    }
    muct_xgmi_stage_init(&iface->stage, iface->md->gpu, seg_size,
                         muct_xgmi_clamp("SEGS", config->num_segs, 1, 65536));
    iface->max_short = (config->max_short < seg_size) ? config->max_short : seg_size;
    muct_xgmi_perf_find_links(iface, config->topology, config->bandwidth);
    if (iface->links.count > 0) {
        queue->peer_blocks = MUCT_XGMI_PEER_BLOCKS;
        queue->most_blocks = MUCT_XGMI_MOST_BLOCKS;
    }
    iface->has_messages = config->has_messages;
    iface->open_limit_ms = MUCT_XGMI_OPEN_LIMIT_MS;
    iface->latency = config->latency;
    iface->overhead = config->overhead;
}

static ucs_status_t muct_xgmi_iface_create_events(muct_xgmi_iface_t *iface)
{
    struct epoll_event event = {.events = EPOLLIN}, timer = {.events = EPOLLIN};
    ucs_status_t status;

    status = muct_xgmi_wake_create(&iface->wake);
    if (status != UCS_OK) {
        return status;
    }

    iface->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (iface->epoll_fd < 0) {
        muct_error("epoll_create1() failed: %m");
        goto err_put_wake;
    }

    event.data.fd = iface->wake->event_fd;
    timer.data.fd = iface->wake->timer_fd;
    if ((epoll_ctl(iface->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event) != 0) ||
        (epoll_ctl(iface->epoll_fd, EPOLL_CTL_ADD, timer.data.fd, &timer) != 0)) {
        muct_error("epoll_ctl(eventfd, timerfd) failed: %m");
        close(iface->epoll_fd);
        goto err_put_wake;
    }

    return UCS_OK;

err_put_wake:
    muct_xgmi_wake_put(iface->wake);
    return UCS_ERR_IO_ERROR;
}

/* The network namespace in which this process exports memory; 0: IPC does not depend on
 * it. */
static uint32_t muct_xgmi_iface_network(const muct_gpu_t *gpu)
{
    struct stat info;

    return (gpu->ipc_needs_owner && (stat("/proc/self/ns/net", &info) == 0))
               ? (uint32_t)info.st_ino
               : 0;
}

static ucs_status_t muct_xgmi_iface_open(uct_md_h md, uct_worker_h worker,
                                         const uct_iface_params_t *params,
                                         const uct_iface_config_t *tl_config,
                                         uct_iface_h *iface_p)
{
    muct_xgmi_iface_t *iface;
    ucs_status_t status;
    size_t align;

    /* received messages stay in their ring, which satisfies any supported alignment */
    status = muct_am_check_alignment(params, &align);
    if (status != UCS_OK) {
        return status;
    }

    iface = calloc(1, sizeof(*iface));
    if (iface == NULL) {
        muct_error("failed to allocate an interface");
        return UCS_ERR_NO_MEMORY;
    }

    iface->md = ucs_derived_of(md, muct_xgmi_md_t);
    ucs_list_head_init(&iface->eps);
    ucs_list_head_init(&iface->waiting_eps);
    ucs_list_head_init(&iface->apart_eps);
    ucs_list_head_init(&iface->outboxes);
    iface->fences.func = muct_xgmi_iface_fenced;
    iface->device_addr.host = ucs_get_system_id();
    iface->device_addr.shm_dir = iface->md->self.shm_dir;
    iface->device_addr.network = muct_xgmi_iface_network(iface->md->gpu);
    iface->addr.owner = iface->md->self.owner;
    iface->addr.pid = iface->md->self.pid;
    iface->addr.pid_namespace = iface->md->self.pid_namespace;
    muct_xgmi_iface_configure(
        iface, ucs_derived_of(tl_config, const muct_xgmi_iface_config_t));

    status = muct_xgmi_iface_create_events(iface);
    if (status != UCS_OK) {
        goto err_free;
    }

    status = UCS_CLASS_INIT(uct_base_iface_t, &iface->super, &muct_xgmi_iface_ops,
                            &muct_xgmi_iface_internal_ops.super, md, worker, params,
                            tl_config);
    if (status != UCS_OK) {
        goto err_close_events;
    }

    muct_xgmi_moves_init(&iface->moves, iface->md->gpu, iface->wake,
                         muct_xgmi_ep_set_error);
    iface->queue_config.has_one_thread =
        (iface->super.worker->thread_mode == UCS_THREAD_MODE_SINGLE);
    iface->addr.id = muct_xgmi_iface_id_open();
    muct_xgmi_am_init(iface);
    muct_xgmi_invals_join(&iface->md->invals, &iface->inval_watch, iface->wake);
    muct_xgmi_map_join(iface->md->map, &iface->map_watch, iface->wake);
    *iface_p = &iface->super.super;
    return UCS_OK;

err_close_events:
    close(iface->epoll_fd);
    muct_xgmi_wake_put(iface->wake);
err_free:
    free(iface->links.links);
    free(iface);
    return status;
}

static ucs_status_t muct_xgmi_query_devices(uct_md_h md,
                                            uct_tl_device_resource_t **devices_p,
                                            unsigned *num_devices_p)
{
    /* A single device stands for all GPUs, so its location is unknown: near to each of
     * them. */
    return uct_single_device_resource(md, "xgmi", UCT_DEVICE_TYPE_ACC,
                                      UCS_SYS_DEVICE_ID_UNKNOWN, devices_p,
                                      num_devices_p);
}

static uct_tl_t muct_xgmi_tl = {
    .name = MUCT_XGMI_NAME,
    .query_devices = muct_xgmi_query_devices,
    .iface_open = muct_xgmi_iface_open,
    .config =
        {
            .name = "mori_xgmi transport",
            .prefix = "MORI_XGMI_",
            .table = muct_xgmi_iface_config_table,
            .size = sizeof(muct_xgmi_iface_config_t),
        },
};

const muct_transport_t muct_xgmi_transport = {
    .component = &muct_xgmi_component.super,
    .tl = &muct_xgmi_tl,
};
