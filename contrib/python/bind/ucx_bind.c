/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "ucx_bind.h"

#include <ucp/api/ucp.h>

#include <dlfcn.h>
#include <stdio.h>

/* Functions of UCX that libmorikv calls: result, name, parameters, arguments. One that
 * is missing here does not link. Those of the first list exist before a file is bound,
 * too. */
#define UCX_BIND_FIRST(X, V)                                                           \
    X(ucs_status_t, ucp_config_read,                                                   \
      (const char *prefix, const char *file, ucp_config_t **config),                   \
      (prefix, file, config))                                                          \
    V(ucp_get_version, (unsigned *major, unsigned *minor, unsigned *release),          \
      (major, minor, release))                                                         \
    X(const char *, ucs_status_string, (ucs_status_t status), (status))

#define UCX_BIND_OTHERS(X, V)                                                          \
    X(ucs_status_t, ucp_config_modify,                                                 \
      (ucp_config_t * config, const char *name, const char *value),                    \
      (config, name, value))                                                           \
    V(ucp_config_release, (ucp_config_t * config), (config))                           \
    X(ucs_status_t, ucp_init_version,                                                  \
      (unsigned major, unsigned minor, const ucp_params_t *params,                     \
       const ucp_config_t *config, ucp_context_h *context_p),                          \
      (major, minor, params, config, context_p))                                       \
    V(ucp_cleanup, (ucp_context_h context), (context))                                 \
    X(ucs_status_t, ucp_worker_create,                                                 \
      (ucp_context_h context, const ucp_worker_params_t *params,                       \
       ucp_worker_h *worker_p),                                                        \
      (context, params, worker_p))                                                     \
    V(ucp_worker_destroy, (ucp_worker_h worker), (worker))                             \
    X(ucs_status_ptr_t, ucp_worker_flush_nbx,                                          \
      (ucp_worker_h worker, const ucp_request_param_t *param), (worker, param))        \
    X(ucs_status_t, ucp_worker_query, (ucp_worker_h worker, ucp_worker_attr_t * attr), \
      (worker, attr))                                                                  \
    V(ucp_worker_release_address, (ucp_worker_h worker, ucp_address_t * address),      \
      (worker, address))                                                               \
    X(unsigned, ucp_worker_progress, (ucp_worker_h worker), (worker))                  \
    X(ucs_status_t, ucp_worker_get_efd, (ucp_worker_h worker, int *fd_p),              \
      (worker, fd_p))                                                                  \
    X(ucs_status_t, ucp_worker_arm, (ucp_worker_h worker), (worker))                   \
    X(ucs_status_t, ucp_worker_set_am_recv_handler,                                    \
      (ucp_worker_h worker, const ucp_am_handler_param_t *param), (worker, param))     \
    X(ucs_status_t, ucp_ep_create,                                                     \
      (ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep_p),            \
      (worker, params, ep_p))                                                          \
    X(ucs_status_ptr_t, ucp_ep_close_nbx,                                              \
      (ucp_ep_h ep, const ucp_request_param_t *param), (ep, param))                    \
    X(ucs_status_ptr_t, ucp_ep_flush_nbx,                                              \
      (ucp_ep_h ep, const ucp_request_param_t *param), (ep, param))                    \
    X(ucs_status_t, ucp_ep_query, (ucp_ep_h ep, ucp_ep_attr_t * attr), (ep, attr))     \
    X(ucs_status_t, ucp_ep_rkey_unpack,                                                \
      (ucp_ep_h ep, const void *buffer, ucp_rkey_h *rkey_p), (ep, buffer, rkey_p))     \
    V(ucp_rkey_destroy, (ucp_rkey_h rkey), (rkey))                                     \
    X(ucs_status_t, ucp_rkey_pack,                                                     \
      (ucp_context_h context, ucp_mem_h memh, void **buffer_p, size_t *size_p),        \
      (context, memh, buffer_p, size_p))                                               \
    V(ucp_rkey_buffer_release, (void *buffer), (buffer))                               \
    X(ucs_status_t, ucp_mem_map,                                                       \
      (ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memh_p),  \
      (context, params, memh_p))                                                       \
    X(ucs_status_t, ucp_mem_query, (const ucp_mem_h memh, ucp_mem_attr_t *attr),       \
      (memh, attr))                                                                    \
    X(ucs_status_t, ucp_mem_unmap, (ucp_context_h context, ucp_mem_h memh),            \
      (context, memh))                                                                 \
    X(ucs_status_t, ucp_request_query, (void *request, ucp_request_attr_t *attr),      \
      (request, attr))                                                                 \
    X(ucs_status_ptr_t, ucp_put_nbx,                                                   \
      (ucp_ep_h ep, const void *buffer, size_t count, uint64_t address,                \
       ucp_rkey_h rkey, const ucp_request_param_t *param),                             \
      (ep, buffer, count, address, rkey, param))                                       \
    X(ucs_status_ptr_t, ucp_get_nbx,                                                   \
      (ucp_ep_h ep, void *buffer, size_t count, uint64_t address, ucp_rkey_h rkey,     \
       const ucp_request_param_t *param),                                              \
      (ep, buffer, count, address, rkey, param))                                       \
    X(ucs_status_ptr_t, ucp_am_send_nbx,                                               \
      (ucp_ep_h ep, unsigned id, const void *header, size_t header_length,             \
       const void *buffer, size_t count, const ucp_request_param_t *param),            \
      (ep, id, header, header_length, buffer, count, param))                           \
    V(ucp_request_free, (void *request), (request))

#define UCX_BIND_ALL(X, V) UCX_BIND_FIRST(X, V) UCX_BIND_OTHERS(X, V)


/* ---- before a file is bound ---- */

static ucs_status_t ucx_unbound_config_read(const char *prefix, const char *file,
                                            ucp_config_t **config)
{
    (void)prefix;
    (void)file;
    (void)config;
    return UCS_ERR_NO_ELEM;
}

static void ucx_unbound_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
    *major = *minor = *release = 0;
}

static const char *ucx_unbound_status_string(ucs_status_t status)
{
    (void)status;
    return "no UCX was bound: expected mkv_bind_ucx() before";
}


/* ---- the table ---- */

#define UCX_BIND_MEMBER(_result, _name, _params, _args) _result(*_name) _params;
#define UCX_BIND_MEMBER_VOID(_name, _params, _args) void(*_name) _params;

typedef struct {
    UCX_BIND_ALL(UCX_BIND_MEMBER, UCX_BIND_MEMBER_VOID)
} ucx_bind_table_t;

static ucx_bind_table_t ucx = {
    .ucp_config_read = ucx_unbound_config_read,
    .ucp_get_version = ucx_unbound_get_version,
    .ucs_status_string = ucx_unbound_status_string,
};

static void *ucx_handle;

#define UCX_BIND_CALL(_result, _name, _params, _args)                                  \
    _result _name _params                                                              \
    {                                                                                  \
        return ucx._name _args;                                                        \
    }
#define UCX_BIND_CALL_VOID(_name, _params, _args)                                      \
    void _name _params                                                                 \
    {                                                                                  \
        ucx._name _args;                                                               \
    }

UCX_BIND_ALL(UCX_BIND_CALL, UCX_BIND_CALL_VOID)


/* ---- binding ---- */

/* A pointer to an object is one to a function where there is a dlsym(). */
#define UCX_BIND_FIND(_result, _name, _params, _args)                                  \
    *(void **)(&table->_name) = dlsym(handle, #_name);                                 \
    if (table->_name == NULL) {                                                        \
        return #_name;                                                                 \
    }
#define UCX_BIND_FIND_VOID(_name, _params, _args)                                      \
    UCX_BIND_FIND(void, _name, _params, _args)

/* @return The function that is missing, or NULL. */
static const char *ucx_bind_fill(void *handle, ucx_bind_table_t *table)
{
    UCX_BIND_ALL(UCX_BIND_FIND, UCX_BIND_FIND_VOID)
    return NULL;
}

int mkv_bind_ucx(const char *file, char *version, char *error, size_t size)
{
    unsigned major, minor, release;
    ucx_bind_table_t table;
    const char *missing;
    void *handle;

    handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        (void)snprintf(error, size, "%s", dlerror());
        return -1;
    }

    missing = ucx_bind_fill(handle, &table);
    if (missing != NULL) {
        (void)snprintf(error, size, "%s has no %s; expected UCX 1.22 or later", file,
                       missing);
        dlclose(handle);
        return -1;
    }
    /* Later minors of a UCX take what an older one's headers say, not the other way. */
    table.ucp_get_version(&major, &minor, &release);
    (void)snprintf(version, 32, "%u.%u.%u", major, minor, release);
    if ((major != UCP_API_MAJOR) || (minor < UCP_API_MINOR)) {
        (void)snprintf(error, size, "%s is UCX %s; expected %d.%d or later", file,
                       version, UCP_API_MAJOR, UCP_API_MINOR);
        dlclose(handle);
        return -1;
    }
    if ((ucx_handle != NULL) && (ucx_handle != handle)) {
        (void)snprintf(error, size, "%s: another UCX was taken before", file);
        dlclose(handle);
        return -2;
    }

    ucx = table;
    ucx_handle = handle;
    return 0;
}
