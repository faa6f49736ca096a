/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Statistics of an interface's posts. Users find them in UCX's VFS while the interface
 * lives (ucx_vfs mounts it), and in the log when it is closed. Another thread reads the
 * numbers while they are counted. Each is an aligned 64-bit value, so the reader sees
 * an old value or a new one.
 */

#include "rdma/ep/rdma_stats.h"

#include "base/muct_log.h"

#include <ucs/vfs/base/vfs_cb.h>
#include <ucs/vfs/base/vfs_obj.h>

#include <inttypes.h>

void muct_rdma_iface_vfs_refresh(uct_iface_h tl_iface)
{
    muct_rdma_iface_t *iface = (muct_rdma_iface_t *)tl_iface;
    const struct {
        const char *name;
        unsigned *value;
    } limits[] = {{"num_qps", &iface->limits.num_qps},
                  {"post_batch", &iface->limits.batch},
                  {"tx_depth", &iface->limits.tx_depth},
                  {"num_eps", &iface->num_eps}};
    muct_rdma_sq_stats_t *stats;
    unsigned i;

    for (i = 0; i < sizeof(limits) / sizeof(limits[0]); ++i) {
        ucs_vfs_obj_add_ro_file(iface, ucs_vfs_show_primitive, limits[i].value,
                                UCS_VFS_TYPE_U32, "%s", limits[i].name);
    }

    ucs_vfs_obj_add_ro_file(iface, ucs_vfs_show_primitive,
                            &iface->recovery_stats.connections, UCS_VFS_TYPE_ULONG,
                            "recovery/connections");
    ucs_vfs_obj_add_ro_file(iface, ucs_vfs_show_primitive, &iface->recovery_stats.wrs,
                            UCS_VFS_TYPE_ULONG, "recovery/work_requests");
    ucs_vfs_obj_add_ro_file(iface, ucs_vfs_show_primitive, &iface->recovery_stats.moves,
                            UCS_VFS_TYPE_ULONG, "recovery/moves");
    for (i = 0; i < iface->limits.num_qps; ++i) {
        stats = &iface->stats[i];
        ucs_vfs_obj_add_ro_file(iface, ucs_vfs_show_primitive, &stats->doorbells,
                                UCS_VFS_TYPE_ULONG, "qp/%u/doorbells", i);
        ucs_vfs_obj_add_ro_file(iface, ucs_vfs_show_primitive, &stats->wrs,
                                UCS_VFS_TYPE_ULONG, "qp/%u/work_requests", i);
        ucs_vfs_obj_add_ro_file(iface, ucs_vfs_show_primitive, &stats->bytes,
                                UCS_VFS_TYPE_ULONG, "qp/%u/bytes", i);
    }
}

void muct_rdma_iface_log_stats(const muct_rdma_iface_t *iface)
{
    const muct_rdma_sq_stats_t *stats;
    unsigned i;

    if (iface->recovery_stats.connections > 0) {
        muct_info("%s:%u: %" PRIu64 " connections recovered, %" PRIu64
                  " work requests posted again",
                  muct_rdma_iface_md(iface)->device.name, iface->port.num,
                  iface->recovery_stats.connections, iface->recovery_stats.wrs);
    }

    for (i = 0; i < iface->limits.num_qps; ++i) {
        stats = &iface->stats[i];
        if (stats->doorbells > 0) {
            muct_info("%s:%u: queue pair %u of %u, POST_BATCH %u: %" PRIu64
                      " work requests, %" PRIu64 " doorbells, %" PRIu64 " bytes",
                      muct_rdma_iface_md(iface)->device.name, iface->port.num, i,
                      iface->limits.num_qps, iface->limits.batch, stats->wrs,
                      stats->doorbells, stats->bytes);
        }
    }
}
