/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Devices, contexts, their attributes, and their asynchronous events. */

fv_device_t *fv_device_of(const struct ibv_context *context)
{
    return fv_container_of(context->device, fv_device_t, ibv);
}

fv_context_t *fv_context_of(struct ibv_context *context)
{
    return fv_container_of(context, fv_context_t, verbs.context);
}

bool fv_gone(const struct ibv_context *context)
{
    return fv.wire->device[fv_device_of(context)->index].removed;
}

void fv_context_put(struct ibv_context *context)
{
    fv_context_of(context)->users--;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    struct ibv_device **list;
    unsigned i, count = 0;

    fv_init();
    if (fv_call_fails("ibv_get_device_list")) {
        return NULL;
    }

    list = calloc(fv.num_devices + 1, sizeof(*list));
    if (list == NULL) {
        return NULL;
    }

    for (i = 0; i < fv.num_devices; i++) {
        if (!fv.wire->device[i].removed) {
            list[count++] = &fv.device[i].ibv;
        }
    }

    if (num_devices != NULL) {
        *num_devices = (int)count;
    }

    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
    return (int)fv_container_of(device, fv_device_t, ibv)->index;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
    return htobe64(UINT64_C(0x020000fffe000000) +
                   fv_container_of(device, fv_device_t, ibv)->index + 1);
}

/* These calls return the reason, and need not set errno:
 * ibv_query_device(3) and ibv_query_port(3) of rdma-core. */
static int fv_query_fails(const char *name)
{
    int error;

    if (!fv_call_fails(name)) {
        return 0;
    }

    error = errno;
    errno = 0;
    return error;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    const fv_device_t *device = fv_device_of(context);
    const fv_caps_t *caps = &device->caps;
    int error;

    error = fv_query_fails("ibv_query_device");
    if (error != 0) {
        return error;
    }
    if (fv_gone(context)) {
        return EIO;
    }

    memset(attr, 0, sizeof(*attr));
    snprintf(attr->fw_ver, sizeof(attr->fw_ver), "fake.%s", caps->profile);
    attr->node_guid = ibv_get_device_guid(context->device);
    attr->sys_image_guid = attr->node_guid;
    attr->max_mr_size = caps->max_mr_size;
    attr->page_size_cap = ~UINT64_C(4095);
    attr->vendor_id = caps->vendor_id;
    attr->vendor_part_id = caps->part_id;
    attr->max_qp = caps->max_qp;
    attr->max_qp_wr = caps->max_qp_wr;
    attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID;
    attr->max_sge = caps->max_sge;
    attr->max_sge_rd = caps->max_sge;
    attr->max_cq = FV_MAX_CQS;
    attr->max_cqe = caps->max_cqe;
    attr->max_mr = caps->max_mr;
    attr->max_pd = 1024;
    attr->max_qp_rd_atom = caps->max_rd_atom;
    attr->max_res_rd_atom = (caps->max_res_rd_atom != 0)
                                ? caps->max_res_rd_atom
                                : caps->max_rd_atom * caps->max_qp;
    attr->max_qp_init_rd_atom = caps->max_init_rd_atom;
    attr->atomic_cap = caps->atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
    attr->max_srq = caps->max_srq;
    attr->max_srq_wr = caps->max_srq_wr;
    attr->max_srq_sge = caps->max_srq_sge;
    attr->max_pkeys = 1;
    attr->local_ca_ack_delay = 15;
    attr->phys_port_cnt = 1;
    return 0;
}

static int fv_query_device_ex(struct ibv_context *context,
                              const struct ibv_query_device_ex_input *input,
                              struct ibv_device_attr_ex *attr, size_t size)
{
    struct ibv_device_attr_ex full = {.phys_port_cnt_ex = 1};
    int ret;

    if ((input != NULL) && (input->comp_mask != 0)) {
        return EINVAL;
    }

    ret = ibv_query_device(context, &full.orig_attr);
    if (ret == 0) {
        memcpy(attr, &full, (size < sizeof(full)) ? size : sizeof(full));
    }

    return ret;
}

static int fv_query_port(struct ibv_context *context, uint8_t port,
                         struct ibv_port_attr *out, size_t size)
{
    const fv_device_t *device = fv_device_of(context);
    const bool down = fv.wire->device[device->index].down;
    struct ibv_port_attr attr = {
        .state = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = IBV_MTU_4096,
        .port_cap_flags = IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = device->caps.max_msg_sz,
        .pkey_tbl_len = (uint16_t)(1 + device->caps.limited),
        .lid = fv_lid(device),
        .sm_lid = fv_lid(device) ? 1 : 0,
        .max_vl_num = 1,
        .active_width = device->caps.active_width,
        .active_speed = device->caps.active_speed,
        .phys_state = down ? 3 : 5,
        .link_layer =
            device->caps.ib ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET,
        .flags = device->caps.grh ? IBV_QPF_GRH_REQUIRED : 0,
    };
    union ibv_gid gid;
    unsigned type;
    int error;

    if (port != 1) {
        return EINVAL;
    }
    error = fv_query_fails("ibv_query_port");
    if (error != 0) {
        return error;
    }
    if (fv_gone(context)) {
        return EIO;
    }

    while (fv_gid(device, (unsigned)attr.gid_tbl_len, &gid, &type)) {
        attr.gid_tbl_len++;
    }

    memcpy(out, &attr, (size < sizeof(attr)) ? size : sizeof(attr));
    return 0;
}

/* The old call, for programs built before the struct grew. */
#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port,
                   struct _compat_ibv_port_attr *attr)
{
    return fv_query_port(context, port, (struct ibv_port_attr *)attr,
                         offsetof(struct ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index,
                  union ibv_gid *gid)
{
    unsigned type;

    if ((port != 1) || (index < 0) || fv_call_fails("ibv_query_gid") ||
        !fv_gid(fv_device_of(context), (unsigned)index, gid, &type)) {
        errno = EINVAL;
        return -1;
    }

    return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    const fv_caps_t *caps = &fv_device_of(context)->caps;
    struct ibv_gid_entry full = {.gid_index = index, .port_num = 1};
    unsigned type;

    if (flags != 0) {
        return EINVAL;
    }
    if ((port != 1) || !fv_gid(fv_device_of(context), index, &full.gid, &type)) {
        return ENODATA;
    }

    full.gid_type = type;
    if (!caps->ib) {
        full.ndev_ifindex = (caps->ifindex != 0) ? (uint32_t)caps->ifindex : 1;
    }
    memcpy(entry, &full, (size < sizeof(full)) ? size : sizeof(full));
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t max, uint32_t flags, size_t size)
{
    ssize_t count = 0;

    while (((size_t)count < max) &&
           (_ibv_query_gid_ex(context, 1, (uint32_t)count,
                              (void *)((char *)entries + (size_t)count * size), flags,
                              size) == 0)) {
        count++;
    }

    return count;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
                       unsigned int *type);

/* Exported for UCX's own transports; RoCE v1 and InfiniBand are one there. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
                       unsigned int *type)
{
    union ibv_gid gid;
    unsigned found;

    if ((port != 1) || !fv_gid(fv_device_of(context), index, &gid, &found)) {
        errno = EINVAL;
        return -1;
    }

    *type = (found == IBV_GID_TYPE_ROCE_V2) ? 1 : 0;
    return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    const int full = fv_device_of(context)->caps.limited;

    if ((port != 1) || (index < 0) || (index > full)) {
        errno = EINVAL;
        return -1;
    }

    *pkey = htobe16((uint16_t)((index == full) ? 0xffff : 0x7fff - 1 - index));
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    return ((port == 1) && (pkey == htobe16(0xffff)))
               ? fv_device_of(context)->caps.limited
               : -1;
}

static int fv_context_register(fv_context_t *context)
{
    unsigned i;

    for (i = 0; i < FV_MAX_CONTEXTS; i++) {
        if (!fv.wire->context[i].used) {
            context->wire = &fv.wire->context[i];
            context->wire->used = true;
            context->wire->pid = fv.pid;
            context->wire->device = fv_device_of(&context->verbs.context)->index;
            context->wire->async_fd = context->write_fd;
            fv.objects.contexts++;
            return 0;
        }
    }

    return ENOMEM;
}

struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
    fv_context_t *context;
    int pipe_fd[2], ret;

    fv_init();
    if (fv_call_fails("ibv_open_device")) {
        return NULL;
    }
    if (fv.wire->device[fv_container_of(ibv, fv_device_t, ibv)->index].removed) {
        errno = ENODEV;
        return NULL;
    }

    context = calloc(1, sizeof(*context));
    if ((context == NULL) || (pipe2(pipe_fd, O_CLOEXEC) != 0)) {
        free(context);
        return NULL;
    }

    fcntl(pipe_fd[1], F_SETFL, O_NONBLOCK);
    context->write_fd = pipe_fd[1];
    context->verbs.sz = sizeof(context->verbs);
    context->verbs.query_device_ex = fv_query_device_ex;
    context->verbs.query_port = fv_query_port;
    context->verbs.create_qp_ex = fv_create_qp_ex;
    context->verbs.alloc_td = fv_alloc_td;
    context->verbs.dealloc_td = fv_dealloc_td;
    context->verbs.alloc_parent_domain = fv_alloc_parent_domain;
    context->verbs.context.device = ibv;
    context->verbs.context.cmd_fd = -1;
    context->verbs.context.async_fd = pipe_fd[0];
    context->verbs.context.num_comp_vectors = FV_NUM_VECTORS;
    context->verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    context->verbs.context.ops.poll_cq = fv_poll_cq;
    context->verbs.context.ops.req_notify_cq = fv_req_notify_cq;
    context->verbs.context.ops.post_send = fv_post_send;
    context->verbs.context.ops.post_recv = fv_post_recv;
    context->verbs.context.ops.post_srq_recv = fv_post_srq_recv;
    pthread_mutex_init(&context->verbs.context.mutex, NULL);

    fv_lock();
    ret = fv_context_register(context);
    fv_unlock();
    if (ret != 0) {
        close(pipe_fd[0]);
        close(pipe_fd[1]);
        free(context);
        errno = ret;
        return NULL;
    }

    return &context->verbs.context;
}

int ibv_close_device(struct ibv_context *ibv)
{
    fv_context_t *context = fv_context_of(ibv);

    fv_lock();
    if (context->users != 0) {
        fv_abort("ibv_close_device(%s) with %u objects alive", ibv->device->name,
                 context->users);
    }
    context->wire->used = false;
    fv.objects.contexts--;
    fv_unlock();

    close(ibv->async_fd);
    close(context->write_fd);
    pthread_mutex_destroy(&ibv->mutex);
    free(context);
    return 0;
}

/* Events of a port go to all contexts of the device, in all processes. */
void fv_async_port(unsigned device, enum ibv_event_type type)
{
    const fv_async_msg_t msg = {.type = type, .port = 1};
    const fv_wire_context_t *context;
    unsigned i;

    for (i = 0; i < FV_MAX_CONTEXTS; i++) {
        context = &fv.wire->context[i];
        if (context->used && (context->device == device)) {
            fv_notify(context->pid, context->async_fd, &msg, sizeof(msg));
        }
    }
}

void fv_async_qp(const fv_wire_qp_t *qp, enum ibv_event_type type)
{
    const fv_async_msg_t msg = {.type = type, .element = qp->owner};

    fv_notify(qp->pid, qp->async_fd, &msg, sizeof(msg));
}

void fv_async_srq(const fv_wire_srq_t *srq, enum ibv_event_type type)
{
    const fv_async_msg_t msg = {.type = type, .element = srq->owner};

    fv_notify(srq->pid, srq->async_fd, &msg, sizeof(msg));
}

static bool fv_async_claim_srq(const fv_async_msg_t *msg, struct ibv_async_event *event)
{
    fv_srq_t *srq;

    for (srq = fv.srqs; srq != NULL; srq = srq->next) {
        if ((uintptr_t)srq == msg->element) {
            event->element.srq = &srq->ibv;
            srq->async_delivered++;
            return true;
        }
    }

    return false;
}

/* Events of a queue that was destroyed meanwhile are dropped, as the kernel does. */
static bool fv_async_claim(struct ibv_context *context, const fv_async_msg_t *msg,
                           struct ibv_async_event *event)
{
    fv_qp_t *qp = NULL;

    memset(event, 0, sizeof(*event));
    event->event_type = msg->type;
    event->element.port_num = (int)msg->port;
    if (msg->element == 0) {
        fv_context_of(context)->async_port_delivered++;
        return true;
    }
    if (msg->type == IBV_EVENT_SRQ_LIMIT_REACHED) {
        return fv_async_claim_srq(msg, event);
    }

    for (qp = fv.qps; qp != NULL; qp = qp->next) {
        if (((uintptr_t)qp == msg->element) && (msg->type == IBV_EVENT_CQ_ERR)) {
            event->element.cq = qp->ibv.send_cq;
            fv_container_of(qp->ibv.send_cq, fv_cq_t, ibv)->async_delivered++;
            return true;
        }
        if ((uintptr_t)qp == msg->element) {
            event->element.qp = &qp->ibv;
            qp->async_delivered++;
            return true;
        }
    }

    return false;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    bool claimed = false;
    fv_async_msg_t msg;
    ssize_t ret;

    if (fv_call_fails("ibv_get_async_event")) {
        return -1;
    }

    while (!claimed) {
        ret = read(context->async_fd, &msg, sizeof(msg));
        if ((ret < 0) && (errno == EINTR)) {
            continue;
        }
        if (ret != sizeof(msg)) {
            return -1;
        }
        fv_lock();
        claimed = fv_async_claim(context, &msg, event);
        fv_unlock();
    }

    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        pthread_mutex_lock(&event->element.qp->mutex);
        event->element.qp->events_completed++;
        pthread_cond_broadcast(&event->element.qp->cond);
        pthread_mutex_unlock(&event->element.qp->mutex);
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        pthread_mutex_lock(&event->element.srq->mutex);
        event->element.srq->events_completed++;
        pthread_cond_broadcast(&event->element.srq->cond);
        pthread_mutex_unlock(&event->element.srq->mutex);
        break;
    case IBV_EVENT_CQ_ERR:
        pthread_mutex_lock(&event->element.cq->mutex);
        event->element.cq->async_events_completed++;
        pthread_cond_broadcast(&event->element.cq->cond);
        pthread_mutex_unlock(&event->element.cq->mutex);
        break;
    default:
        break;
    }
}
