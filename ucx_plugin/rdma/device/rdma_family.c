/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/device/rdma_family.h"

#include "base/muct_log.h"

#include <ucs/sys/math.h>
#include <ucs/sys/string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdio.h>
#include <string.h>

/* AMD's family of the first Zen processors */
#define MUCT_RDMA_FIRST_ZEN 0x17

/* UCX's UCT_IB_DEFAULT_ROCEV2_DSCP: DSCP 26, ECN capable. */
#define MUCT_RDMA_ROCE_V2_TRAFFIC_CLASS 106

/* More queue pairs cost memory, and no published figure shows a gain: MORI tests 2 to
 * 4. */
#define MUCT_RDMA_FAMILY_MAX_QPS 4u

/*
 * Time: 268 ms seven times, 2 to 8 s in all, is between MORI-IO's and Mooncake's 67 ms
 * and UCX's and RCCL's 1 to 4 s. A connection survives a failover of the fabric of one
 * or two seconds. Soft-RoCE treats seven as infinite, so it gets six and a short time.
 * Recovery may take half as long again, so a dead peer is reported after 6 to 12 s.
 *
 * ionic: an entry of its send queue is 64 bytes with two scatter entries and 24 bytes
 * inline, and 511 of them are 32 KB, which the driver keeps in the NIC's own memory
 * (below 128 KB); with 4 entries and 128 bytes inline they would be 256 KB in the
 * host's. These numbers are from rdma-core's provider and the kernel's driver. The NIC
 * has two engines and assigns a queue pair to one of them (udma_count), so one queue
 * pair reaches half of its bandwidth. It registers GPU memory by dma-buf alone:
 * ibv_reg_mr() returns EINVAL (ATOM #2097). It reports a max_mr_size of 2 GiB and
 * registers regions of 4 to 32 GiB in huge pages (Mooncake PR 4168, InferenceX PR
 * 3330).
 *
 * bnxt_re: GPU memory by peer memory first, as MORI-IO does for all devices; on this
 * one it was measured to be fast.
 */
static const muct_rdma_family_t muct_rdma_families[] = {
    {"ionic", 0x1dd8, false, true, true, 2, 511, 2, 24, 7, 0.268, 10, 4},
    {"bnxt_re", 0x14e4, true, false, false, 1, 512, 4, 96, 7, 0.268, 10, 4},
    {"mlx5", 0x02c9, false, false, false, 1, 512, 4, 128, 7, 0.268, 10, 4},
    {"soft-RoCE", 0xffffff, false, false, false, 1, 512, 4, 128, 6, 0.067, 0.5, 1},
    {"other", 0, false, false, false, 1, 512, 4, 128, 7, 0.268, 10, 4},
};

const muct_rdma_family_t *muct_rdma_family_of(const muct_rdma_device_t *device)
{
    const muct_rdma_family_t *family = muct_rdma_families;

    while ((family->vendor_id != 0) && (family->vendor_id != device->attr.vendor_id)) {
        ++family;
    }

    return family;
}

static void muct_rdma_family_put(unsigned long *option, unsigned long value)
{
    *option = (*option == UCS_ULUNITS_AUTO) ? value : *option;
}

/* A bond assigns each connection to one of its links, so use one queue pair per
 * link, like UCX's paths */
static unsigned muct_rdma_family_num_qps(const muct_rdma_device_t *device,
                                         const muct_rdma_port_t *port)
{
    const unsigned by_family = muct_rdma_family_of(device)->num_qps;
    const unsigned links =
        (port->net[0] != '\0')
            ? muct_rdma_net_num_links(device->context->device, port->net)
            : 1;

    return ucs_max(by_family, ucs_min(links, MUCT_RDMA_FAMILY_MAX_QPS));
}

void muct_rdma_family_fill(const muct_rdma_device_t *device,
                           const muct_rdma_port_t *port,
                           muct_rdma_iface_config_t *config)
{
    const muct_rdma_family_t *family = muct_rdma_family_of(device);

    muct_rdma_family_put(&config->num_qps, muct_rdma_family_num_qps(device, port));
    muct_rdma_family_put(&config->tx_depth, family->tx_depth);
    muct_rdma_family_put(&config->max_sge, family->max_sge);
    muct_rdma_family_put(&config->max_inline, family->max_inline);
    muct_rdma_family_put(&config->retry_count, family->retry_count);
    if (config->timeout == 0) {
        config->timeout = family->timeout;
    }
    if (config->port_down_timeout == 0) {
        config->port_down_timeout = family->port_down_timeout;
    }
    if (config->recovery_timeout == 0) {
        config->recovery_timeout = family->recovery_timeout;
    }
    muct_debug(
        "%s: family %s: queue pairs %lu, depth %lu, entries %lu, inline %lu, timeout "
        "%.3f s x %lu",
        device->name, family->name, config->num_qps, config->tx_depth, config->max_sge,
        config->max_inline, config->timeout, config->retry_count);
}

uint8_t muct_rdma_family_traffic_class(const muct_rdma_device_t *device,
                                       const muct_rdma_port_t *port)
{
    unsigned value = 0;
    char path[512];
    FILE *file;
    int num;

    if (port->link != MUCT_RDMA_LINK_ROCE_V2) {
        return 0;
    }

    snprintf(path, sizeof(path), "%s/tc/%u/traffic_class",
             device->context->device->ibdev_path, port->num);
    file = fopen(path, "r");
    if (file != NULL) {
        num = fscanf(file, "Global tclass=%u", &value);
        fclose(file);
        if ((num == 1) && (value <= UINT8_MAX)) {
            return (uint8_t)value;
        }
    }

    return MUCT_RDMA_ROCE_V2_TRAFFIC_CLASS;
}

/* Use the cpuid instruction: the compiler's builtin needs a constructor, which a core
 * must not have. */
bool muct_rdma_family_has_relaxed_ordering(void)
{
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx, family;
    char vendor[12];

    if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx)) {
        return false;
    }
    memcpy(vendor, &ebx, sizeof(ebx));
    memcpy(vendor + 4, &edx, sizeof(edx));
    memcpy(vendor + 8, &ecx, sizeof(ecx));
    if ((memcmp(vendor, "AuthenticAMD", sizeof(vendor)) != 0) ||
        !__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
        return false;
    }

    family = ((eax >> 8) & 0xf) + ((eax >> 20) & 0xff);
    return family >= MUCT_RDMA_FIRST_ZEN;
#else
    return false;
#endif
}
