/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Devices and their limits as the kernel's drivers report them. Limits that come from
 * firmware are those that such devices are known to report. The numbers of queue pairs
 * and regions (max_qp, max_mr) are the fake's own, and smaller.
 */

#define FV_SPEED_EDR 32
#define FV_SPEED_NDR 128
#define FV_WIDTH_4X 2

/* ConnectX-7 with either link. All values come from firmware (mlx5_ib_query_device in
 * hw/mlx5/main.c: max_sge of max_wqe_sz_sq and _rq, max_msg_sz of log_max_msg). The
 * meaning of the ECE options is private to the firmware; the highest four bits are a
 * version. */
#define FV_MLX5                                                                        \
    .vendor_id = 0x02c9, .part_id = 4129, .max_qp = 4000, .max_qp_wr = 32768,          \
    .max_sge = 30, .max_inline = 828, .inline_errno = EINVAL, .max_cqe = 4194303,      \
    .max_mr = 65000, .max_mr_size = UINT64_MAX, .max_msg_sz = 1u << 30,                \
    .max_rd_atom = 16, .max_init_rd_atom = 16, .max_srq = 8388608,                     \
    .max_srq_wr = 32767, .max_srq_sge = 31, .atomics = true, .dmabuf = true,           \
    .td = true, .ece = 0x30000003, .active_speed = FV_SPEED_NDR,                       \
    .active_width = FV_WIDTH_4X

/* Fields common to ionic and pollara */
#define FV_IONIC                                                                       \
    .vendor_id = 0x1dd8, .part_id = 0x1003, .max_qp = 2048, .max_qp_wr = 65535,        \
    .max_sge = 8, .max_inline = 480, .inline_errno = EINVAL, .max_cqe = 65435,         \
    .max_mr = 32768, .max_msg_sz = 1u << 31, .max_rd_atom = 16, .max_res_rd_atom = 16, \
    .max_init_rd_atom = 16, .max_srq = 0, .atomics = true, .no_gpu_atomics = true,     \
    .dmabuf = true, .td = true, .forgets = true, .active_speed = FV_SPEED_NDR,         \
    .active_width = FV_WIDTH_4X

/* Fields common to bnxt and thor2 */
#define FV_BNXT                                                                        \
    .vendor_id = 0x14e4, .max_qp = 4000, .max_qp_wr = 65407, .max_sge = 6,             \
    .max_inline = 96, .inline_errno = ENOMEM, .max_cqe = 131072, .max_mr = 32768,      \
    .max_mr_size = UINT64_C(1) << 39, .max_msg_sz = 1u << 30, .max_rd_atom = 126,      \
    .max_init_rd_atom = 126, .max_srq = 256, .max_srq_wr = 65407, .max_srq_sge = 6,    \
    .atomics = true, .no_gpu_atomics = true, .dmabuf = true, .td = true,               \
    .active_speed = FV_SPEED_NDR, .active_width = FV_WIDTH_4X

static const fv_caps_t fv_profiles[] = {
    /* hw/ionic/ionic_ibdev.c: max_qp_wr IONIC_MAX_DEPTH, max_send_sge at most
     * IONIC_SPEC_HIGH, max_cqe IONIC_MAX_CQ_DEPTH less IONIC_CQ_GRACE, atomics
     * IB_ATOMIC_GLOB, max_msg_sz 0x80000000, IONIC_MAX_RD_ATOM, no SRQ. max_inline is
     * what an entry of 512 bytes, the largest with an express doorbell, has behind 32
     * bytes of header (ionic_fw.h). max_mr_size is half of the page table entries that
     * firmware grants, in pages. no_gpu_atomics: ROCm/mori issue 497 and PR 682.
     * forgets: ionic_flush_qp() of rdma-core's providers/ionic, after which
     * ionic_poll_recv() and ionic_poll_send() look at no completion of the queue pair
     * any more. */
    {.profile = "ionic", .max_mr_size = UINT64_C(1) << 40, FV_IONIC},
    /* ionic as it was measured: 16 responder resources of all queue pairs together
     * (ROCm/ATOM issue 2097, Mooncake PR 3977); max_mr_size 2 GiB, which larger regions
     * of large pages pass (Mooncake PR 4168); a page table whose entries are pages of
     * 4 KiB, or of 2 MiB where all of the region is in such, a power of two of them for
     * a region: host memory of 3968 MiB in all, and none of 3 GiB in pages of 4 KiB
     * (InferenceX PR 3330: firmware 1.117.5-a-45); GPU memory by dma-buf alone (ATOM
     * issue 2097). */
    {.profile = "pollara",
     .max_mr_size = UINT64_C(1) << 31,
     .max_entries = (1 << 20) - (1 << 15),
     .shares_rd_atom = true,
     .no_peermem = true,
     FV_IONIC},
    /* hw/bnxt_re: max_qp_wr 65535 less BNXT_QPLIB_RESERVED_QP_WRS, max_sge of chips of
     * generation P5 (qplib_sp.c), max_mr_size BNXT_RE_MAX_MR_SIZE_HIGH, max_msg_sz
     * BNXT_RE_MAX_MR_SIZE_LOW, BNXT_QPLIB_MAX_OUT_RD_ATOM; the others from firmware.
     * no_gpu_atomics: rocm-systems PR 8100. */
    {.profile = "bnxt", .part_id = 0x1750, FV_BNXT},
    /* BCM57608 with rdma-core 39 to 50, whose provider spoils the command of a queue
     * pair off worker threads: EFAULT, and 33 to 66 of 512 are made (ROCm/MAD PR 215).
     */
    {.profile = "thor2", .part_id = 0x1760, .efault = true, FV_BNXT},
    {.profile = "mlx5", FV_MLX5},
    {.profile = "mlx5_ib", .ib = true, FV_MLX5},
    /* sw/rxe/rxe_param.h: DEFAULT_MAX_VALUE for what has no limit, RXE_MAX_SGE, inline
     * data in place of 32 entries, RXE_MAX_LOG_CQE, RXE_PORT_MAX_MSG_SZ. */
    {.profile = "rxe",
     .vendor_id = 0xffffff,
     .part_id = 0,
     .max_qp = 4000,
     .max_qp_wr = 1048576,
     .max_sge = 32,
     .max_inline = 512,
     .inline_errno = EINVAL,
     .max_cqe = 32767,
     .max_mr = 65000,
     .max_mr_size = UINT64_MAX,
     .max_msg_sz = 1u << 23,
     .max_rd_atom = 128,
     .max_init_rd_atom = 128,
     .max_srq = 917503,
     .max_srq_wr = 1048576,
     .max_srq_sge = 27,
     .atomics = true,
     .dmabuf = false,
     .active_speed = FV_SPEED_EDR,
     .active_width = 1},
    /* sw/siw/siw.h: SIW_VENDOR_ID, SIW_MAX_QP_WR, SIW_MAX_SGE, SIW_MAX_INLINE,
     * SIW_MAX_CQE, SIW_MAX_ORD_QP; no atomics. max_mr_size is the limit of locked
     * memory there. */
    {.profile = "siw",
     .iwarp = true,
     .vendor_id = 0x626d74,
     .part_id = 1,
     .max_qp = 4000,
     .max_qp_wr = 32768,
     .max_sge = 6,
     .max_inline = 80,
     .inline_errno = EINVAL,
     .max_cqe = 3276800,
     .max_mr = 65000,
     .max_mr_size = UINT64_MAX,
     .max_msg_sz = 1u << 31,
     .max_rd_atom = 128,
     .max_init_rd_atom = 128,
     .max_srq = 0,
     .atomics = false,
     .dmabuf = false,
     .active_speed = FV_SPEED_EDR,
     .active_width = 1},
    /* No real device: each limit has the least value that verbs allow. */
    {.profile = "tiny",
     .vendor_id = 0x0001,
     .part_id = 1,
     .max_qp = 64,
     .max_qp_wr = 16,
     .max_sge = 1,
     .max_inline = 0,
     .inline_errno = EINVAL,
     .max_cqe = 255,
     .max_mr = 64,
     .max_mr_size = 1u << 20,
     .max_msg_sz = 1u << 16,
     .max_rd_atom = 1,
     .max_init_rd_atom = 1,
     .max_srq = 0,
     .atomics = false,
     .dmabuf = true,
     .active_speed = 1,
     .active_width = 1},
};

static uint64_t fv_number(const char *text, const char *where)
{
    char *end;
    uint64_t value = strtoull(text, &end, 0);

    switch (*end) {
    case 'k':
        value <<= 10;
        end++;
        break;
    case 'm':
        value <<= 20;
        end++;
        break;
    case 'g':
        value <<= 30;
        end++;
        break;
    default:
        break;
    }

    if ((end == text) || (*end != '\0')) {
        fv_abort("%s: '%s' is not a number", where, text);
    }

    return value;
}

static void fv_cap_set(fv_caps_t *caps, const char *name, uint64_t value)
{
    const struct {
        const char *name;
        int *field;
    } ints[] = {
        {"max_qp", &caps->max_qp},
        {"max_qp_wr", &caps->max_qp_wr},
        {"max_sge", &caps->max_sge},
        {"max_inline", &caps->max_inline},
        {"max_cqe", &caps->max_cqe},
        {"max_mr", &caps->max_mr},
        {"max_rd_atom", &caps->max_rd_atom},
        {"max_res_rd_atom", &caps->max_res_rd_atom},
        {"max_entries", &caps->max_entries},
        {"max_init_rd_atom", &caps->max_init_rd_atom},
        {"ifindex", &caps->ifindex},
        {"grh", &caps->grh},
        {"limited", &caps->limited},
    };
    unsigned i;

    for (i = 0; i < sizeof(ints) / sizeof(ints[0]); i++) {
        if (strcmp(name, ints[i].name) == 0) {
            *ints[i].field = (int)value;
            return;
        }
    }

    if (strcmp(name, "max_mr_size") == 0) {
        caps->max_mr_size = value;
    } else if (strcmp(name, "max_msg_sz") == 0) {
        caps->max_msg_sz = (uint32_t)value;
    } else if (strcmp(name, "atomics") == 0) {
        caps->atomics = value != 0;
    } else if (strcmp(name, "dmabuf") == 0) {
        caps->dmabuf = value != 0;
    } else if (strcmp(name, "speed") == 0) {
        caps->active_speed = (uint8_t)value;
    } else if (strcmp(name, "width") == 0) {
        caps->active_width = (uint8_t)value;
    } else {
        fv_abort("FAKE_VERBS_CAPS: there is no capability '%s'", name);
    }
}

static void fv_caps_override(fv_caps_t *caps)
{
    const char *env = getenv("FAKE_VERBS_CAPS");
    char *copy, *field, *value, *save;

    if (env == NULL) {
        return;
    }

    copy = strdup(env);
    for (field = strtok_r(copy, ",", &save); field != NULL;
         field = strtok_r(NULL, ",", &save)) {
        value = strchr(field, '=');
        if (value == NULL) {
            fv_abort("FAKE_VERBS_CAPS: expected field=value, got '%s'", field);
        }
        *value++ = '\0';
        fv_cap_set(caps, field, fv_number(value, "FAKE_VERBS_CAPS"));
    }
    free(copy);
}

/* Make the sysfs entry of a device on PCI: its link ends in the address. */
static void fv_sysfs_make(const fv_device_t *device)
{
    char dir[IBV_SYSFS_PATH_MAX + 64], link[IBV_SYSFS_PATH_MAX + 64];
    const char *root = getenv("FAKE_VERBS_SYSFS");

    if ((root == NULL) || (device->pci[0] == '\0')) {
        return;
    }

    mkdir(root, 0755);
    snprintf(dir, sizeof(dir), "%.180s/infiniband", root);
    mkdir(dir, 0755);
    mkdir(device->ibv.ibdev_path, 0755);
    snprintf(dir, sizeof(dir), "%.180s/%.31s", root, device->pci);
    mkdir(dir, 0755);
    snprintf(link, sizeof(link), "%s/device", device->ibv.ibdev_path);
    snprintf(dir, sizeof(dir), "../../%.31s", device->pci);
    if ((symlink(dir, link) != 0) && (errno != EEXIST)) {
        fv_abort("FAKE_VERBS_SYSFS=%s: %s", root, strerror(errno));
    }
}

static void fv_device_add(const char *name, const char *profile, const char *pci)
{
    const char *sysfs = getenv("FAKE_VERBS_SYSFS");
    fv_device_t *device = &fv.device[fv.num_devices];
    unsigned i;

    if (fv.num_devices == FV_MAX_DEVICES) {
        fv_abort("FAKE_VERBS_DEVICES: more than %d devices", FV_MAX_DEVICES);
    }

    for (i = 0; i < sizeof(fv_profiles) / sizeof(fv_profiles[0]); i++) {
        if (strcmp(profile, fv_profiles[i].profile) == 0) {
            device->caps = fv_profiles[i];
        }
    }
    if (device->caps.profile == NULL) {
        fv_abort("FAKE_VERBS_DEVICES: there is no profile '%s'", profile);
    }

    fv_caps_override(&device->caps);
    device->index = fv.num_devices++;
    device->ibv.node_type = device->caps.iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
    device->ibv.transport_type =
        device->caps.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    if (sysfs == NULL) {
        sysfs = "/sys/class";
    }
    snprintf(device->pci, sizeof(device->pci), "%s", pci);
    snprintf(device->ibv.name, sizeof(device->ibv.name), "%s", name);
    snprintf(device->ibv.dev_name, sizeof(device->ibv.dev_name), "uverbs%u",
             device->index);
    snprintf(device->ibv.dev_path, sizeof(device->ibv.dev_path),
             "%.180s/infiniband_verbs/uverbs%u", sysfs, device->index);
    snprintf(device->ibv.ibdev_path, sizeof(device->ibv.ibdev_path),
             "%.180s/infiniband/%.60s", sysfs, name);
    fv_sysfs_make(device);
}

void fv_devices_init(void)
{
    const char *env = getenv("FAKE_VERBS_DEVICES");
    char *copy, *name, *profile, *pci, *save;

    copy = strdup((env == NULL) ? "fake0:ionic,fake1:ionic" : env);
    for (name = strtok_r(copy, ",", &save); name != NULL;
         name = strtok_r(NULL, ",", &save)) {
        pci = strchr(name, '@');
        if (pci != NULL) {
            *pci++ = '\0';
        }
        profile = strchr(name, ':');
        if (profile != NULL) {
            *profile++ = '\0';
        }
        fv_device_add(name, (profile == NULL) ? "ionic" : profile,
                      (pci == NULL) ? "" : pci);
    }
    free(copy);
}

uint16_t fv_lid(const fv_device_t *device)
{
    return device->caps.ib ? (uint16_t)(device->index + 1) : 0;
}

/* InfiniBand: one. RoCE: link-local and IPv4, each as v1 and v2. rxe and ionic
 * (ionic_get_port_immutable() in hw/ionic/ionic_ibdev.c): v2 alone. */
bool fv_gid(const fv_device_t *device, unsigned index, union ibv_gid *gid,
            unsigned *type)
{
    const bool v2 = (strcmp(device->caps.profile, "rxe") == 0) ||
                    (device->caps.vendor_id == 0x1dd8);
    const unsigned count = device->caps.ib ? 1 : (v2 ? 2 : 4);
    const unsigned *swap = device->gid_swap;
    bool ipv4 = false;

    memset(gid, 0, sizeof(*gid));
    if (index >= count) {
        return false;
    }

    if ((index == swap[0]) || (index == swap[1])) {
        index = swap[0] + swap[1] - index;
    }
    ipv4 = v2 ? (index == 1) : (index >= 2);
    if (device->caps.ib) {
        *type = IBV_GID_TYPE_IB;
    } else if (v2 || ((index & 1) == 1)) {
        *type = IBV_GID_TYPE_ROCE_V2;
    } else {
        *type = IBV_GID_TYPE_ROCE_V1;
    }

    if (ipv4) {
        gid->raw[10] = gid->raw[11] = 0xff;
        gid->raw[12] = 10;
        gid->raw[14] = (uint8_t)(device->index + 1);
        gid->raw[15] = 1;
    } else {
        gid->raw[0] = 0xfe;
        gid->raw[1] = 0x80;
        gid->raw[8] = 0x02;
        gid->raw[11] = 0xff;
        gid->raw[12] = 0xfe;
        gid->raw[15] = (uint8_t)(device->index + 1);
    }

    return true;
}

int fv_gid_owner(const union ibv_gid *gid)
{
    union ibv_gid mine;
    unsigned i, j, type;

    for (i = 0; i < fv.num_devices; i++) {
        for (j = 0; fv_gid(&fv.device[i], j, &mine, &type); j++) {
            if (memcmp(gid, &mine, sizeof(mine)) == 0) {
                return (int)i;
            }
        }
    }

    return -1;
}
