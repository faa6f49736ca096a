/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <string.h>

/*
 * Enhanced connection establishment as in providers/mlx5 of rdma-core. A queue pair is
 * made with all options of its device. The user's options take effect when it is ready
 * to receive, restricted to those of the device; later changes are refused. The other
 * providers have neither call.
 */

#define FV_VENDOR_MLX5 0x02c9 /* of ibv_device_attr */
#define FV_ECE_VENDOR_MLX5 0x15b3

static bool fv_ece_is_mlx5(const fv_device_t *device)
{
    return device->caps.vendor_id == FV_VENDOR_MLX5;
}

static uint32_t fv_ece_vendor(const fv_device_t *device)
{
    return fv_ece_is_mlx5(device) ? FV_ECE_VENDOR_MLX5 : device->caps.vendor_id;
}

static bool fv_ece_is_open(const fv_qp_t *qp)
{
    return (qp->wire->state == IBV_QPS_RESET) || (qp->wire->state == IBV_QPS_INIT);
}

static int fv_query_ece(const fv_qp_t *qp, struct ibv_ece *ece)
{
    const fv_device_t *device = fv_device_of(qp->ibv.context);

    if ((device->caps.ece == 0) && !fv_ece_is_mlx5(device)) {
        return EOPNOTSUPP;
    }

    ece->vendor_id = fv_ece_vendor(device);
    ece->options =
        (fv_ece_is_open(qp) && !qp->has_ece) ? device->caps.ece : qp->wire->ece;
    ece->comp_mask = 0;
    return 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    int ret;

    if (fv_call_fails("ibv_query_ece")) {
        return errno;
    }

    fv_lock();
    ret = fv_query_ece(fv_container_of(qp, fv_qp_t, ibv), ece);
    fv_unlock();
    return ret;
}

static int fv_set_ece(fv_qp_t *qp, const struct ibv_ece *ece)
{
    const fv_device_t *device = fv_device_of(qp->ibv.context);

    if ((ece->comp_mask != 0) || (ece->vendor_id != fv_ece_vendor(device)) ||
        !fv_ece_is_open(qp)) {
        return EINVAL;
    }
    if (device->caps.ece == 0) {
        return EOPNOTSUPP;
    }

    qp->has_ece = true;
    qp->ece = ece->options;
    return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    int ret;

    if (fv_call_fails("ibv_set_ece")) {
        return errno;
    }

    fv_lock();
    ret = fv_set_ece(fv_container_of(qp, fv_qp_t, ibv), ece);
    fv_unlock();
    return ret;
}

void fv_ece_enter(fv_qp_t *qp, enum ibv_qp_state state)
{
    if (state == IBV_QPS_RESET) {
        qp->has_ece = false;
        qp->wire->ece = 0;
    } else if (state == IBV_QPS_RTR) {
        qp->wire->ece =
            qp->has_ece ? qp->ece & fv_device_of(qp->ibv.context)->caps.ece : 0;
    }
}

void fv_ece_check(const fv_qp_t *qp, const fv_wire_qp_t *peer)
{
    if (qp->wire->ece != peer->ece) {
        fv_abort("queue pair 0x%x keeps to ECE options 0x%x, its peer 0x%x to 0x%x",
                 qp->ibv.qp_num, qp->wire->ece, peer->qp_num, peer->ece);
    }
}

void fake_verbs_set_ece(const char *device, uint32_t options)
{
    unsigned i;

    fv_init();
    fv_lock();
    for (i = 0; i < fv.num_devices; i++) {
        if (strcmp(fv.device[i].ibv.name, device) == 0) {
            fv.device[i].caps.ece = options;
        }
    }
    fv_unlock();
}

uint32_t fake_verbs_qp_ece(uint32_t qp_num)
{
    const fv_qp_t *qp;
    uint32_t options = 0;

    fv_init();
    fv_lock();
    qp = fv_qp_find(qp_num);
    if (qp != NULL) {
        options = qp->wire->ece;
    }
    fv_unlock();
    return options;
}
