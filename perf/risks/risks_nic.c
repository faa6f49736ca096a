/* SPDX-License-Identifier: BSD-3-Clause */

/* GPU memory by a NIC, between two workers of UCP in this process. The transports are
 * this program's choice, and UCP names the one that carries the bytes of each put. */

#include "config.h"

#include "perf/risks/risks_nic.h"
#include "perf/risks/risks_base.h"

#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>

static ucp_context_h nic_context;
static ucp_worker_h nic_workers[2];
static ucp_ep_h nic_ep;
static ucp_mem_h nic_memh;
static ucp_rkey_h nic_rkey;
static bool nic_is_broken; /* a request failed or never ended, and may hold memory */


static ucs_status_t nic_wait(void *request)
{
    const double start = risks_now_ms();
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        (void)ucp_worker_progress(nic_workers[0]);
        (void)ucp_worker_progress(nic_workers[1]);
        if (risks_is_late(start)) {
            return UCS_ERR_TIMED_OUT;
        }
    }
    ucp_request_free(request);
    return status;
}

static const char *nic_fault(const char *what, const char *reason)
{
    static char text[640];

    snprintf(text, sizeof(text), "%s: %s", what, reason);
    return text;
}

static ucs_status_t nic_connect(void)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    const ucp_request_param_t none = {0};
    ucp_address_t *address;
    ucs_status_t status;
    size_t length;

    status = ucp_worker_get_address(nic_workers[1], &address, &length);
    if (status != UCS_OK) {
        return status;
    }
    params.address = address;
    status = ucp_ep_create(nic_workers[0], &params, &nic_ep);
    ucp_worker_release_address(nic_workers[1], address);
    return (status == UCS_OK) ? nic_wait(ucp_ep_flush_nbx(nic_ep, &none)) : status;
}

const char *risks_nic_open(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA};
    const ucp_worker_params_t worker_params = {0};
    ucp_config_t *config;
    ucs_status_t status;
    unsigned i;

    risks_need(ucp_config_read(NULL, NULL, &config) == UCS_OK, "ucp_config_read");
    risks_need(ucp_config_modify(config, "TLS", "mori_rdma,mori_copy,tcp") == UCS_OK,
               "ucp_config_modify");
    status = ucp_init(&params, config, &nic_context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        return ucs_status_string(status);
    }
    for (i = 0; i < 2; ++i) {
        risks_need(ucp_worker_create(nic_context, &worker_params, &nic_workers[i]) ==
                       UCS_OK,
                   "ucp_worker_create");
    }
    status = nic_connect();
    return (status == UCS_OK) ? NULL : ucs_status_string(status);
}

void risks_nic_close(void)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    unsigned i;

    if ((nic_ep == NULL) || nic_is_broken) {
        return;
    }
    (void)nic_wait(ucp_ep_close_nbx(nic_ep, &force));
    for (i = 0; i < 2; ++i) {
        ucp_worker_destroy(nic_workers[i]);
    }
    ucp_cleanup(nic_context);
}

const char *risks_nic_map(char *memory, size_t length)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = memory,
        .length = length,
        .memory_type = UCS_MEMORY_TYPE_ROCM};
    ucs_status_t status;
    size_t size;
    void *key;

    status = ucp_mem_map(nic_context, &params, &nic_memh);
    if (status != UCS_OK) {
        return nic_fault("ucp_mem_map()", ucs_status_string(status));
    }
    status = ucp_rkey_pack(nic_context, nic_memh, &key, &size);
    if (status == UCS_OK) {
        status = ucp_ep_rkey_unpack(nic_ep, key, &nic_rkey);
        ucp_rkey_buffer_release(key);
    }
    if (status != UCS_OK) {
        (void)ucp_mem_unmap(nic_context, nic_memh);
        return nic_fault("a key of its memory", ucs_status_string(status));
    }
    return NULL;
}

void risks_nic_unmap(void)
{
    if (nic_is_broken) {
        return;
    }
    ucp_rkey_destroy(nic_rkey);
    risks_need(ucp_mem_unmap(nic_context, nic_memh) == UCS_OK, "ucp_mem_unmap");
}

bool risks_nic_is_broken(void)
{
    return nic_is_broken;
}

/* UCP writes to a target without a key by rendezvous. That path names mori_rdma, too.
 */
static bool nic_is_direct(const char *path)
{
    static const char *const others[] = {"mori_copy", "tcp", "emulation", "rndv"};
    size_t i;

    for (i = 0; i < sizeof(others) / sizeof(others[0]); ++i) {
        if (strstr(path, others[i]) != NULL) {
            return false;
        }
    }
    return strstr(path, "mori_rdma/") != NULL;
}

const char *risks_nic_put(const char *from, char *to, size_t length)
{
    const ucp_request_param_t none = {0};
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                                                       UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .memory_type = UCS_MEMORY_TYPE_ROCM};
    char path[512] = "";
    ucp_request_attr_t attr = {.field_mask = UCP_REQUEST_ATTR_FIELD_INFO_STRING |
                                             UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE,
                               .debug_string = path,
                               .debug_string_size = sizeof(path)};
    ucs_status_t status;
    void *request;

    request = ucp_put_nbx(nic_ep, from, length, (uintptr_t)to, nic_rkey, &param);
    if (UCS_PTR_IS_PTR(request)) {
        (void)ucp_request_query(request, &attr);
    }
    status = nic_wait(request);
    if (status == UCS_OK) {
        status = nic_wait(ucp_ep_flush_nbx(nic_ep, &none));
    }
    if (status != UCS_OK) {
        /* mori_rdma refuses so what it cannot register */
        nic_is_broken =
            (status != UCS_ERR_INVALID_PARAM) && (status != UCS_ERR_UNSUPPORTED);
        return nic_fault("a put and its flush", ucs_status_string(status));
    }
    return nic_is_direct(path) ? NULL : nic_fault("a put went by", path);
}
