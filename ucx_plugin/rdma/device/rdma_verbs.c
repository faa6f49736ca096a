/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/device/rdma_verbs.h"

#include "base/muct_log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define MUCT_RDMA_VERBS_LIB "libibverbs.so.1"

/* Filled once, before the first UCS_OK is returned; never changed afterwards. */
muct_rdma_verbs_t muct_rdma_verbs;

typedef struct muct_rdma_verbs_symbol {
    const char *name;
    void **slot;
    bool is_required;
} muct_rdma_verbs_symbol_t;

#define MUCT_RDMA_VERBS_ROW_REQUIRED(_member, _ret, _symbol, _args)                    \
    {_symbol, (void **)&muct_rdma_verbs._member, 1},
#define MUCT_RDMA_VERBS_ROW_OPTIONAL(_member, _ret, _symbol, _args)                    \
    {_symbol, (void **)&muct_rdma_verbs._member, 0},

static const muct_rdma_verbs_symbol_t muct_rdma_verbs_symbols[] = {
    MUCT_RDMA_VERBS_REQUIRED(MUCT_RDMA_VERBS_ROW_REQUIRED)
        MUCT_RDMA_VERBS_OPTIONAL(MUCT_RDMA_VERBS_ROW_OPTIONAL)};

static ucs_status_t muct_rdma_verbs_status;

static void muct_rdma_verbs_bind(void)
{
    const muct_rdma_verbs_symbol_t *symbol;
    const size_t count =
        sizeof(muct_rdma_verbs_symbols) / sizeof(muct_rdma_verbs_symbols[0]);
    void *lib;

    muct_rdma_verbs_status = UCS_ERR_NO_DEVICE;

    /* never closed: the library starts threads and keeps provider state */
    lib = dlopen(MUCT_RDMA_VERBS_LIB, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (lib == NULL) {
        muct_report(MUCT_REPORT_RDMA,
                    "mori_rdma is not used: %s (install libibverbs1 for it)",
                    dlerror());
        return;
    }

    for (symbol = muct_rdma_verbs_symbols; symbol < muct_rdma_verbs_symbols + count;
         ++symbol) {
        *symbol->slot = dlsym(lib, symbol->name);
        if ((*symbol->slot == NULL) && symbol->is_required) {
            muct_report(MUCT_REPORT_RDMA, "mori_rdma is not used: %s has no %s",
                        MUCT_RDMA_VERBS_LIB, symbol->name);
            return;
        }
    }

    muct_rdma_verbs_status = UCS_OK;
}

ucs_status_t muct_rdma_verbs_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, muct_rdma_verbs_bind);
    return muct_rdma_verbs_status;
}

ucs_status_t muct_rdma_verbs_protect_fork(ucs_ternary_auto_value_t mode)
{
    int error;

    if ((mode == UCS_NO) || (muct_rdma_verbs.fork_init == NULL) ||
        ((muct_rdma_verbs.is_fork_initialized != NULL) &&
         (muct_rdma_verbs.is_fork_initialized() != IBV_FORK_DISABLED))) {
        return UCS_OK;
    }

    error = muct_rdma_verbs.fork_init();
    if (error == 0) {
        return UCS_OK;
    }

    ucs_log((mode == UCS_YES) ? UCS_LOG_LEVEL_ERROR : UCS_LOG_LEVEL_DEBUG,
            "ibv_fork_init() failed: %s; a child of this process may get memory that a "
            "device writes to",
            strerror(error));
    return (mode == UCS_YES) ? UCS_ERR_UNSUPPORTED : UCS_OK;
}
