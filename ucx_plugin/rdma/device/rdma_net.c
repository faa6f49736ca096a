/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/device/rdma_net.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>

void muct_rdma_net_name(const struct ibv_device *device, unsigned port, unsigned index,
                        char name[MUCT_RDMA_NET_NAME_MAX])
{
    char path[512];
    FILE *file;

    name[0] = '\0';
    snprintf(path, sizeof(path), "%s/ports/%u/gid_attrs/ndevs/%u", device->ibdev_path,
             port, index);
    file = fopen(path, "r");
    if (file == NULL) {
        return;
    }

    if (fscanf(file, "%15s", name) != 1) {
        name[0] = '\0';
    }
    fclose(file);
}

bool muct_rdma_net_is_foreign(const struct ibv_device *device, unsigned port,
                              unsigned index, unsigned ifindex)
{
    char name[MUCT_RDMA_NET_NAME_MAX];
    unsigned ours;

    muct_rdma_net_name(device, port, index, name);
    ours = if_nametoindex(name);
    return (name[0] != '\0') && ((ours == 0) || ((ifindex != 0) && (ifindex != ours)));
}

/* Build a path in the same sysfs tree: the device's folder is
 * .../class/infiniband/NAME. */
static void muct_rdma_net_path(const struct ibv_device *device, const char *name,
                               const char *file, char *path, size_t size)
{
    const char *end = strstr(device->ibdev_path, "/infiniband/");
    int length = (end != NULL) ? (int)(end - device->ibdev_path) : 0;

    snprintf(path, size, "%.*s/net/%s/%s", length, device->ibdev_path, name, file);
}

unsigned muct_rdma_net_num_links(const struct ibv_device *device, const char *name)
{
    unsigned num = 1;
    char path[512];
    FILE *file;

    muct_rdma_net_path(device, name, "bonding/ad_num_ports", path, sizeof(path));
    file = fopen(path, "r");
    if (file == NULL) {
        return 1;
    }

    if ((fscanf(file, "%u", &num) != 1) || (num == 0)) {
        num = 1;
    }
    fclose(file);
    return num;
}
