/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/queue/rdma_wc.h"

ucs_status_t muct_rdma_wc_status(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return UCS_OK;
    case IBV_WC_WR_FLUSH_ERR:
        return UCS_ERR_CANCELED;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        return UCS_ERR_ENDPOINT_TIMEOUT;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
        return UCS_ERR_CONNECTION_RESET;
    default:
        return UCS_ERR_IO_ERROR;
    }
}

bool muct_rdma_wc_may_pass(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_LOC_QP_OP_ERR: /* some devices without a link */
        return true;
    default:
        return false;
    }
}

const char *muct_rdma_wc_hint(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "no answer within TIMEOUT x RETRY_COUNT: peer gone, link down, or "
               "packets "
               "lost (PFC/ECN, MTU, route)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "peer had no receive posted";
    case IBV_WC_REM_ACCESS_ERR:
        return "peer refused the remote key: memory was deregistered, or the range or "
               "access is wrong";
    case IBV_WC_REM_INV_REQ_ERR:
        return "peer refused the request: length or atomics";
    case IBV_WC_REM_OP_ERR:
        return "peer could not carry the request out";
    case IBV_WC_LOC_PROT_ERR:
        return "local memory is not registered for it";
    case IBV_WC_LOC_LEN_ERR:
        return "message longer than the receive, or than the device allows";
    case IBV_WC_LOC_QP_OP_ERR:
        return "local queue pair refused it; link down on some devices";
    case IBV_WC_WR_FLUSH_ERR:
        return "queue pair was in error";
    case IBV_WC_FATAL_ERR:
        return "device failed";
    default:
        return "see the device's documentation for the vendor code";
    }
}
