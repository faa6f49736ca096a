/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "rdma/device/rdma_device.h"

#include "base/muct_lib.h"
#include "base/muct_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Fill in the names of InfiniBand and RoCE devices, and return their number. iWARP
 * connects over the kernel's TCP (rdma_cm) alone; UCX leaves such devices out as well
 * (openucx/ucx issue 2507). */
static unsigned muct_rdma_device_names(struct ibv_device **list, int num,
                                       uct_md_resource_desc_t *names)
{
    unsigned count = 0;
    const char *name;
    int i;

    for (i = 0; i < num; ++i) {
        name = muct_rdma_verbs.get_device_name(list[i]);
        if (list[i]->transport_type == IBV_TRANSPORT_IWARP) {
            muct_debug("mori_rdma does not use %s, which is an iWARP device", name);
            continue;
        }
        snprintf(names[count].md_name, sizeof(names[count].md_name), "%s", name);
        ++count;
    }

    return count;
}

ucs_status_t muct_rdma_device_list(uct_md_resource_desc_t **names_p, unsigned *num_p)
{
    struct ibv_device **list;
    uct_md_resource_desc_t *names = NULL;
    ucs_status_t status;
    int num = 0;

    status = muct_rdma_verbs_load();
    if (status != UCS_OK) {
        return status;
    }

    list = muct_rdma_verbs.get_device_list(&num);
    if (list == NULL) {
        muct_report(MUCT_REPORT_RDMA,
                    "mori_rdma is not used: ibv_get_device_list() failed: %m (ENOSYS: "
                    "the kernel module ib_uverbs is not loaded)");
        return UCS_ERR_NO_DEVICE;
    }

    if (num > 0) {
        names = calloc((size_t)num, sizeof(*names));
        if (names == NULL) {
            muct_error("failed to allocate a list of %d devices", num);
            muct_rdma_verbs.free_device_list(list);
            return UCS_ERR_NO_MEMORY;
        }
    }

    *names_p = names;
    *num_p = muct_rdma_device_names(list, num, names);
    muct_rdma_verbs.free_device_list(list);
    if (*num_p > 0) {
        muct_report(MUCT_REPORT_RDMA, "mori_rdma: %u RDMA devices", *num_p);
    } else {
        muct_report(MUCT_REPORT_RDMA,
                    "mori_rdma is not used: this machine has no verbs device%s",
                    (num > 0) ? " of InfiniBand or RoCE" : "");
    }

    return UCS_OK;
}

/* Remedy for a device that does not open, as text. */
static const char *muct_rdma_device_remedy(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return "give this user access to /dev/infiniband/uverbs*, in a container pass "
               "the devices in";
    case ENOENT:
    case ENODEV:
        return "load the kernel module ib_uverbs and check that /dev/infiniband is "
               "there";
    case ENOSYS:
    case EINVAL:
    case EPROTONOSUPPORT:
        return "kernel driver and user-space provider do not fit together: install the "
               "rdma-core that belongs to the driver";
    case ENOMEM:
        return "raise the limit of locked memory (ulimit -l unlimited)";
    default:
        return "check dmesg and ibv_devinfo";
    }
}

static struct ibv_context *muct_rdma_device_open_context(const char *name)
{
    struct ibv_context *context = NULL;
    struct ibv_device **list;
    int i, num = 0, error = ENODEV;

    list = muct_rdma_verbs.get_device_list(&num);
    for (i = 0; (list != NULL) && (i < num); ++i) {
        if (strcmp(muct_rdma_verbs.get_device_name(list[i]), name) == 0) {
            errno = 0;
            context = muct_rdma_verbs.open_device(list[i]);
            error = (errno != 0) ? errno : EIO;
            break;
        }
    }

    if (list != NULL) {
        muct_rdma_verbs.free_device_list(list);
    }

    if (context == NULL) {
        muct_error("ibv_open_device(%s) failed: %s; %s", name, strerror(error),
                   muct_rdma_device_remedy(error));
    }

    return context;
}

/* The PCI address is the last component of the device link's target. */
static ucs_sys_device_t muct_rdma_device_sys_device(const struct ibv_context *context,
                                                    const char *name)
{
    ucs_sys_device_t sys_device = UCS_SYS_DEVICE_ID_UNKNOWN;
    char path[512], target[4096];
    const char *bdf;

    /* use the path of libibverbs: the name in /sys may differ */
    snprintf(path, sizeof(path), "%s/device", context->device->ibdev_path);
    if (realpath(path, target) == NULL) {
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    }

    bdf = strrchr(target, '/');
    if ((bdf == NULL) ||
        (ucs_topo_find_device_by_bdf_name(bdf + 1, &sys_device) != UCS_OK)) {
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    }

    ucs_topo_sys_device_set_name(sys_device, name, 10);
    return sys_device;
}

/* Log the provider library, which polls the queues. mori_doctor reads this line. */
static void muct_rdma_device_log(const muct_rdma_device_t *device)
{
    char provider[PATH_MAX], library[PATH_MAX];

    muct_lib_file(&device->context->ops.poll_cq, provider);
    muct_lib_file(&muct_rdma_verbs.open_device, library);
    muct_debug("verbs device %s: firmware %.64s, provider %s, libibverbs %s",
               device->name, device->attr.fw_ver, provider, library);
}

ucs_status_t muct_rdma_device_open(const char *name, muct_rdma_device_t *device)
{
    struct ibv_context *context;
    int error, flags;

    context = muct_rdma_device_open_context(name);
    if (context == NULL) {
        return UCS_ERR_NO_DEVICE;
    }

    error = muct_rdma_verbs.query_device(context, &device->attr);
    if (error != 0) {
        muct_error("ibv_query_device(%s) failed: %s", name, strerror(error));
        goto err_close;
    }

    flags = fcntl(context->async_fd, F_GETFL);
    if ((flags < 0) || (fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)) {
        muct_error("fcntl(async_fd of %s, O_NONBLOCK) failed: %m", name);
        goto err_close;
    }

    device->context = context;
    device->has_atomics = (device->attr.atomic_cap != IBV_ATOMIC_NONE) &&
                          (device->attr.max_qp_init_rd_atom > 0);
    device->sys_device = muct_rdma_device_sys_device(context, name);
    snprintf(device->name, sizeof(device->name), "%s", name);
    muct_rdma_device_log(device);
    return UCS_OK;

err_close:
    muct_rdma_verbs.close_device(context);
    return UCS_ERR_NO_DEVICE;
}

void muct_rdma_device_close(muct_rdma_device_t *device)
{
    if (muct_rdma_verbs.close_device(device->context) != 0) {
        muct_warn("ibv_close_device(%s) failed: %m", device->name);
    }
}

/* Query the full structure where the library has it: the compatible call reports no
 * fast speeds. */
static int muct_rdma_port_attr(struct ibv_context *context, uint8_t num,
                               struct ibv_port_attr *attr)
{
    struct verbs_context *verbs = verbs_get_ctx_op(context, query_port);

    memset(attr, 0, sizeof(*attr));
    if (verbs != NULL) {
        return verbs->query_port(context, num, attr, sizeof(*attr));
    }

    return muct_rdma_verbs.query_port(context, num, attr);
}

static double muct_rdma_lane_gbps(unsigned active_speed)
{
    static const struct {
        unsigned code;
        double gbps; /* data rate, after coding */
    } speeds[] = {{1, 2.0},    {2, 4.0},   {4, 8.0},   {8, 10.0 * 64 / 66},
                  {16, 13.64}, {32, 25.0}, {64, 50.0}, {128, 100.0},
                  {256, 200.0}};
    unsigned i;

    for (i = 0; i < sizeof(speeds) / sizeof(speeds[0]); ++i) {
        if (speeds[i].code == active_speed) {
            return speeds[i].gbps;
        }
    }

    return speeds[0].gbps;
}

double muct_rdma_link_bandwidth(unsigned active_speed, unsigned active_width)
{
    unsigned lanes;

    switch (active_width) {
    case 2:
        lanes = 4;
        break;
    case 4:
        lanes = 8;
        break;
    case 8:
        lanes = 12;
        break;
    case 16:
        lanes = 2;
        break;
    default:
        lanes = 1;
    }

    return muct_rdma_lane_gbps(active_speed) * lanes * 1e9 / 8;
}

unsigned muct_rdma_gid_score(const union ibv_gid *gid, uint8_t link)
{
    static const uint8_t zero[16];
    static const uint8_t ipv4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    unsigned score = (link == MUCT_RDMA_LINK_ROCE_V2) ? 1000 : 500;

    if (memcmp(gid->raw, zero, sizeof(zero)) == 0) {
        return 0;
    }

    if (memcmp(gid->raw, ipv4, sizeof(ipv4)) == 0) {
        return score + 200;
    }

    if ((gid->raw[0] == 0xfe) && ((gid->raw[1] & 0xc0) == 0x80)) {
        return score;
    }

    return score + 100;
}

/* Type of the GID: from the library if it reports the type, else from sysfs. */
static uint8_t muct_rdma_gid_link(const muct_rdma_device_t *device, uint8_t num,
                                  unsigned index)
{
    struct ibv_gid_entry entry;
    char path[512], text[32] = "";
    FILE *file;

    if ((muct_rdma_verbs.query_gid_ex != NULL) &&
        (muct_rdma_verbs.query_gid_ex(device->context, num, index, &entry, 0,
                                      sizeof(entry)) == 0)) {
        return (entry.gid_type == IBV_GID_TYPE_ROCE_V2) ? MUCT_RDMA_LINK_ROCE_V2
                                                        : MUCT_RDMA_LINK_ROCE_V1;
    }

    snprintf(path, sizeof(path), "%s/ports/%u/gid_attrs/types/%u",
             device->context->device->ibdev_path, num, index);
    file = fopen(path, "r");
    if (file != NULL) {
        if (fgets(text, sizeof(text), file) == NULL) {
            text[0] = '\0';
        }
        fclose(file);
    }

    return (strcasestr(text, "v2") != NULL) ? MUCT_RDMA_LINK_ROCE_V2
                                            : MUCT_RDMA_LINK_ROCE_V1;
}

/* Whether an address belongs to an interface of another network namespace. */
static bool muct_rdma_gid_is_foreign(const muct_rdma_device_t *device, uint8_t num,
                                     unsigned index)
{
    struct ibv_gid_entry entry;

    memset(&entry, 0, sizeof(entry));
    if ((muct_rdma_verbs.query_gid_ex != NULL) &&
        (muct_rdma_verbs.query_gid_ex(device->context, num, index, &entry, 0,
                                      sizeof(entry)) != 0)) {
        entry.ndev_ifindex = 0;
    }

    return muct_rdma_net_is_foreign(device->context->device, num, index,
                                    entry.ndev_ifindex);
}

/* Set the netdev's name. A netdev of another network namespace gets no name: looked up
 * here it would name a different device. */
static void muct_rdma_port_set_net(const muct_rdma_device_t *device,
                                   muct_rdma_port_t *port)
{
    muct_rdma_net_name(device->context->device, port->num, port->gid_index, port->net);
    if (muct_rdma_gid_is_foreign(device, port->num, port->gid_index)) {
        port->net[0] = '\0';
    }
}

/* More than any score, so that GIDs of another namespace are used only where this
 * namespace has none, as in a container with the devices and without the network. */
#define MUCT_RDMA_GID_OURS 10000u

static ucs_status_t muct_rdma_port_choose_gid(const muct_rdma_device_t *device,
                                              int gid_table_length,
                                              muct_rdma_port_t *port)
{
    unsigned score, best = 0;
    union ibv_gid gid;
    uint8_t link;
    int i;

    for (i = 0; (i < gid_table_length) && (i < 256); ++i) {
        if (muct_rdma_verbs.query_gid(device->context, port->num, i, &gid) != 0) {
            continue;
        }

        link = muct_rdma_gid_link(device, port->num, (unsigned)i);
        score = muct_rdma_gid_score(&gid, link);
        if ((score > 0) && !muct_rdma_gid_is_foreign(device, port->num, (unsigned)i)) {
            score += MUCT_RDMA_GID_OURS;
        }
        if (score > best) {
            best = score;
            port->gid = gid;
            port->gid_index = (uint8_t)i;
            port->link = link;
        }
    }

    if (best == 0) {
        muct_debug("%s:%u has no usable GID: give its network interface an address",
                   device->name, port->num);
        return UCS_ERR_NO_DEVICE;
    }

    return UCS_OK;
}

static ucs_status_t muct_rdma_port_set_gid(const muct_rdma_device_t *device,
                                           const struct ibv_port_attr *attr,
                                           int gid_index, muct_rdma_port_t *port)
{
    bool is_ib = attr->link_layer != IBV_LINK_LAYER_ETHERNET;

    port->link = MUCT_RDMA_LINK_IB;
    port->gid_index = 0;
    if (!is_ib && (gid_index == MUCT_RDMA_GID_AUTO)) {
        return muct_rdma_port_choose_gid(device, attr->gid_tbl_len, port);
    }

    if (gid_index == MUCT_RDMA_GID_AUTO) {
        gid_index = 0;
    }

    if ((gid_index < 0) || (gid_index >= attr->gid_tbl_len) ||
        (gid_index > UINT8_MAX) ||
        (muct_rdma_verbs.query_gid(device->context, port->num, gid_index, &port->gid) !=
         0)) {
        muct_error("%s:%u has no GID %d: expected auto or 0 to %d", device->name,
                   port->num, gid_index, attr->gid_tbl_len - 1);
        return UCS_ERR_INVALID_PARAM;
    }

    port->gid_index = (uint8_t)gid_index;
    if (!is_ib) {
        port->link = muct_rdma_gid_link(device, port->num, (unsigned)gid_index);
    }

    return UCS_OK;
}

/* Whether a partition key is the requested one. If none is requested, any partition
 * fits in which the port is a full member: two limited members cannot communicate. */
static bool muct_rdma_pkey_fits(uint16_t entry, unsigned pkey)
{
    return (pkey == 0) ? (entry & 0x8000) != 0 : (entry & 0x7fff) == (pkey & 0x7fff);
}

static ucs_status_t muct_rdma_port_set_pkey(const muct_rdma_device_t *device,
                                            const struct ibv_port_attr *attr,
                                            unsigned pkey, muct_rdma_port_t *port)
{
    __be16 entry;
    int i;

    port->pkey_index = 0;
    if ((pkey == 0) && (attr->link_layer == IBV_LINK_LAYER_ETHERNET)) {
        return UCS_OK; /* Ethernet uses entry 0 */
    }

    for (i = 0; i < attr->pkey_tbl_len; ++i) {
        if ((muct_rdma_verbs.query_pkey(device->context, port->num, i, &entry) == 0) &&
            muct_rdma_pkey_fits(be16toh(entry), pkey)) {
            port->pkey_index = (uint16_t)i;
            return UCS_OK;
        }
    }

    if (pkey == 0) {
        return UCS_OK; /* the port is a limited member of all partitions: it can reach
                        * full members */
    }

    muct_error("%s:%u has no partition key 0x%x in its table of %u", device->name,
               port->num, pkey, attr->pkey_tbl_len);
    return UCS_ERR_INVALID_PARAM;
}

/* The newer member holds speeds that have no bit in the older one. */
static unsigned muct_rdma_port_speed(const struct ibv_port_attr *attr)
{
#ifdef HAVE_STRUCT_IBV_PORT_ATTR_ACTIVE_SPEED_EX
    if (attr->active_speed_ex != 0) {
        return attr->active_speed_ex;
    }
#endif
    return attr->active_speed;
}

ucs_status_t muct_rdma_port_query(const muct_rdma_device_t *device, uint8_t num,
                                  int gid_index, unsigned pkey, muct_rdma_port_t *port)
{
    struct ibv_port_attr attr;
    ucs_status_t status;
    int error;

    error = muct_rdma_port_attr(device->context, num, &attr);
    if (error != 0) {
        muct_debug("ibv_query_port(%s:%u) failed: %s", device->name, num,
                   strerror(error));
        return UCS_ERR_NO_DEVICE;
    }

    port->num = num;
    status = muct_rdma_port_set_gid(device, &attr, gid_index, port);
    if (status == UCS_OK) {
        status = muct_rdma_port_set_pkey(device, &attr, pkey, port);
    }

    muct_rdma_port_set_net(device, port);
    port->lid = attr.lid;
    port->needs_grh = (attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
    port->is_active = (attr.state == IBV_PORT_ACTIVE);
    port->mtu_shift = (uint8_t)(7 + attr.active_mtu);
    port->max_msg_size = (attr.max_msg_sz != 0) ? attr.max_msg_sz : (1u << 30);
    port->bandwidth =
        muct_rdma_link_bandwidth(muct_rdma_port_speed(&attr), attr.active_width);
    return status;
}

bool muct_rdma_port_is_active(const muct_rdma_device_t *device, uint8_t num)
{
    struct ibv_port_attr attr;

    return (muct_rdma_port_attr(device->context, num, &attr) == 0) &&
           (attr.state == IBV_PORT_ACTIVE);
}

/* The same address and RoCE version at another index */
static bool muct_rdma_port_find_gid(const muct_rdma_device_t *device, int length,
                                    muct_rdma_port_t *port)
{
    union ibv_gid gid;
    int i;

    for (i = 0; (i < length) && (i <= UINT8_MAX); ++i) {
        if ((muct_rdma_verbs.query_gid(device->context, port->num, i, &gid) == 0) &&
            (memcmp(gid.raw, port->gid.raw, sizeof(gid.raw)) == 0) &&
            (muct_rdma_gid_link(device, port->num, (unsigned)i) == port->link)) {
            port->gid_index = (uint8_t)i;
            return true;
        }
    }

    return false;
}

bool muct_rdma_port_renew_gid(const muct_rdma_device_t *device, bool is_fixed,
                              muct_rdma_port_t *port)
{
    const muct_rdma_port_t before = *port;
    struct ibv_port_attr attr;

    if ((port->link == MUCT_RDMA_LINK_IB) ||
        (muct_rdma_port_attr(device->context, port->num, &attr) != 0)) {
        return false;
    }

    if (is_fixed) {
        (void)muct_rdma_verbs.query_gid(device->context, port->num, port->gid_index,
                                        &port->gid);
    } else if (!muct_rdma_port_find_gid(device, attr.gid_tbl_len, port)) {
        (void)muct_rdma_port_choose_gid(device, attr.gid_tbl_len, port);
    }

    muct_rdma_port_set_net(device, port);
    return (port->gid_index != before.gid_index) ||
           (memcmp(port->gid.raw, before.gid.raw, sizeof(before.gid.raw)) != 0);
}

bool muct_rdma_device_is_listed(const ucs_config_allow_list_t *list, const char *device,
                                unsigned port)
{
    char name[UCT_MD_NAME_MAX + 8];
    bool is_found = false;
    unsigned i;

    if (list->mode == UCS_CONFIG_ALLOW_LIST_ALLOW_ALL) {
        return true;
    }

    snprintf(name, sizeof(name), "%s:%u", device, port);
    for (i = 0; (i < list->array.count) && !is_found; ++i) {
        is_found = (strcmp(list->array.names[i], device) == 0) ||
                   (strcmp(list->array.names[i], name) == 0);
    }

    return is_found == (list->mode == UCS_CONFIG_ALLOW_LIST_ALLOW);
}
