/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rest of libibverbs: texts for enumerators, and calls that it does not support. */

/* not in the installed headers of every release, but exported */
struct ibv_buf;
struct ibv_comp_cntr_caps;
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
                              size_t length, int access);
int _ibv_query_comp_cntr_caps(struct ibv_context *context,
                              struct ibv_comp_cntr_caps *caps, size_t size);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);

#define FV_NAME(_table, _value)                                                        \
    ((((size_t)(_value) < sizeof(_table) / sizeof((_table)[0])) &&                     \
      ((_table)[_value] != NULL))                                                      \
         ? (_table)[_value]                                                            \
         : "unknown")

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    static const char *const names[] = {
        [IBV_WC_SUCCESS] = "success",
        [IBV_WC_LOC_LEN_ERR] = "local length error",
        [IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
        [IBV_WC_LOC_PROT_ERR] = "local protection error",
        [IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
        [IBV_WC_LOC_ACCESS_ERR] = "local access error",
        [IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
        [IBV_WC_REM_ACCESS_ERR] = "remote access error",
        [IBV_WC_REM_OP_ERR] = "remote operation error",
        [IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
        [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
        [IBV_WC_FATAL_ERR] = "fatal error",
        [IBV_WC_RESP_TIMEOUT_ERR] = "response timeout error",
        [IBV_WC_GENERAL_ERR] = "general error",
    };

    return FV_NAME(names, status);
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
    static const char *const names[] = {
        [IBV_EVENT_CQ_ERR] = "CQ error",
        [IBV_EVENT_QP_FATAL] = "local work queue catastrophic error",
        [IBV_EVENT_QP_REQ_ERR] = "invalid request local work queue error",
        [IBV_EVENT_QP_ACCESS_ERR] = "local access violation work queue error",
        [IBV_EVENT_COMM_EST] = "communication established",
        [IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ limit reached",
        [IBV_EVENT_QP_LAST_WQE_REACHED] = "last WQE reached",
        [IBV_EVENT_DEVICE_FATAL] = "local catastrophic error",
        [IBV_EVENT_PORT_ACTIVE] = "port active",
        [IBV_EVENT_PORT_ERR] = "port error",
        [IBV_EVENT_LID_CHANGE] = "LID change",
        [IBV_EVENT_PKEY_CHANGE] = "PKey change",
        [IBV_EVENT_SM_CHANGE] = "SM change",
        [IBV_EVENT_GID_CHANGE] = "GID table change",
    };

    return FV_NAME(names, event);
}

const char *ibv_port_state_str(enum ibv_port_state state)
{
    static const char *const names[] = {
        [IBV_PORT_DOWN] = "PORT_DOWN",
        [IBV_PORT_INIT] = "PORT_INIT",
        [IBV_PORT_ARMED] = "PORT_ARMED",
        [IBV_PORT_ACTIVE] = "PORT_ACTIVE",
    };

    return FV_NAME(names, state);
}

const char *ibv_node_type_str(enum ibv_node_type type)
{
    return (type == IBV_NODE_CA) ? "InfiniBand channel adapter" : "unknown";
}

const char *ibv_get_sysfs_path(void)
{
    return "/sys";
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
    char path[512];
    size_t length;
    FILE *stream;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    stream = fopen(path, "re");
    if (stream == NULL) {
        return -1;
    }

    length = fread(buf, 1, size - 1, stream);
    fclose(stream);
    if ((length > 0) && (buf[length - 1] == '\n')) {
        length--;
    }
    buf[length] = '\0';
    return (int)length;
}

int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
    (void)context;
    (void)port;
    (void)speed;
    return EOPNOTSUPP;
}

/* The pingpongs of rdma-core take their buffers here. */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
    void *addr = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);

    (void)pd;
    *buf = addr;
    return addr;
}

void ibv_free_buf(struct ibv_buf *buf)
{
    free(buf);
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
                              size_t length, int access)
{
    (void)buf;
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

int _ibv_query_comp_cntr_caps(struct ibv_context *context,
                              struct ibv_comp_cntr_caps *caps, size_t size)
{
    (void)context;
    (void)caps;
    (void)size;
    return EOPNOTSUPP;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    (void)qp;
    return NULL; /* the ibv_wr_*() calls are not here */
}

/* FAKE_VERBS_FORK=old selects the state of kernels before 5.12. */
static enum ibv_fork_status fv_fork = IBV_FORK_DISABLED;

int ibv_fork_init(void)
{
    if (fv_call_fails("ibv_fork_init")) {
        return errno;
    }

    fv_fork = IBV_FORK_ENABLED;
    return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return (getenv("FAKE_VERBS_FORK") != NULL) ? fv_fork : IBV_FORK_UNNEEDED;
}
