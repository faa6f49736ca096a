/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "base/muct_ucx_rocm.h"

#include "base/muct_log.h"
#include "base/muct_uct_abi.h"

#include <ucs/config/global_opts.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* UCX's name for its component of rocm_copy */
#define MUCT_UCX_ROCM_COMPONENT "rocm_cpy"

typedef struct muct_ucx_rocm_config {
    char *tls;
} muct_ucx_rocm_config_t;

/* The part of UCP's options that is needed here. */
static ucs_config_field_t muct_ucx_rocm_config_table[] = {
    {"TLS", "all", "", ucs_offsetof(muct_ucx_rocm_config_t, tls),
     UCS_CONFIG_TYPE_STRING},

    {NULL, NULL, NULL, 0, {0}}};

static ucs_config_global_list_entry_t muct_ucx_rocm_config_entry = {
    .name = "UCX_TLS, read again",
    .prefix = "",
    .table = muct_ucx_rocm_config_table,
    .size = sizeof(muct_ucx_rocm_config_t),
};


static bool muct_ucx_has(const char *name)
{
    uct_md_resource_desc_t *resources = NULL;
    unsigned num_resources = 0;
    uct_component_t *component;

    ucs_list_for_each(component, &uct_components_list, list)
    {
        if (strcmp(component->name, name) != 0) {
            continue;
        }

        if (component->query_md_resources(component, &resources, &num_resources) ==
            UCS_OK) {
            free(resources);
        }
        return num_resources > 0;
    }

    return false;
}

bool muct_ucx_rocm_is_there(void)
{
    return muct_ucx_has(MUCT_UCX_ROCM_COMPONENT);
}

/* Whether a name of the list means rocm_copy; UCX takes "\\name" for a name that is no
 * alias. */
static bool muct_ucx_rocm_is_meant(const void *arg, const char *name, size_t length,
                                   bool is_negated)
{
    static const char *const names[] = {"all", "rocm", "rocm_copy", "\\rocm_copy"};
    size_t i;

    (void)arg;
    (void)is_negated;
    for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if ((strlen(names[i]) == length) && !strncmp(names[i], name, length)) {
            return true;
        }
    }

    return false;
}

/* Whether a list of transports allows one of the names. */
static bool muct_ucx_is_allowed(const char *tls,
                                bool (*is_meant)(const void *arg, const char *name,
                                                 size_t length, bool is_negated),
                                const void *arg)
{
    bool is_negated = (*tls == '^');
    size_t length;

    for (tls += is_negated; *tls != '\0'; tls += (tls[length] == ',') + length) {
        length = strcspn(tls, ",");
        if (is_meant(arg, tls, length, is_negated)) {
            return !is_negated;
        }
    }

    return is_negated;
}

bool muct_ucx_rocm_is_allowed(const char *tls)
{
    return muct_ucx_is_allowed(tls, muct_ucx_rocm_is_meant, NULL);
}

/* A component that moves host memory by zero-copy. Its aliases in UCX_TLS select the
 * whole component; the other names are prefixes of its transports, of which one may
 * be left enabled. */
typedef struct muct_ucx_mover {
    const char *component;
    const char *aliases[5];
    const char *transports[6];
} muct_ucx_mover_t;

static const muct_ucx_mover_t muct_ucx_movers[] = {
    {"mori_rdma", {"mori_rdma"}, {NULL}},
    {"ib", {"ib"}, {"rc", "dc", "ud", "gga", "srd"}},
    {"cma", {"cma", "sm", "shm"}, {NULL}},
    {"knem", {"knem", "sm", "shm"}, {NULL}},
    {"xpmem", {"xpmem", "sm", "shm", "mm"}, {NULL}}};

static bool muct_ucx_mover_is_meant(const void *arg, const char *name, size_t length,
                                    bool is_negated)
{
    const bool is_quoted = (*name == '\\');
    const muct_ucx_mover_t *mover = arg;
    const char *const *one;

    name += is_quoted;
    length -= is_quoted;
    for (one = mover->aliases; *one != NULL; ++one) {
        if ((strlen(*one) == length) && !strncmp(*one, name, length)) {
            return true;
        }
    }
    for (one = mover->transports; (*one != NULL) && !is_negated; ++one) {
        if (!strncmp(*one, name, strlen(*one))) {
            return true;
        }
    }

    return (length == 3) && !strncmp(name, "all", length);
}

static bool muct_ucx_movers_are_allowed(const char *tls)
{
    const size_t num = sizeof(muct_ucx_movers) / sizeof(muct_ucx_movers[0]);
    size_t i;

    for (i = 0; i < num; ++i) {
        if (muct_ucx_is_allowed(tls, muct_ucx_mover_is_meant, &muct_ucx_movers[i]) &&
            muct_ucx_has(muct_ucx_movers[i].component)) {
            return true;
        }
    }

    return false;
}

/* Whether UCX_TLS passes a test. */
static bool muct_ucx_is_used(bool (*is_allowed_by)(const char *tls))
{
    muct_ucx_rocm_config_t config;
    bool is_allowed;

    if (ucs_config_parser_fill_opts(&config, &muct_ucx_rocm_config_entry,
                                    UCS_DEFAULT_ENV_PREFIX, 0) != UCS_OK) {
        return true; /* UCP reports the error in the list */
    }

    is_allowed = is_allowed_by(config.tls);
    ucs_config_parser_release_opts(&config, muct_ucx_rocm_config_table);
    return is_allowed;
}

bool muct_ucx_rocm_is_used(void)
{
    return muct_ucx_rocm_is_there() && muct_ucx_is_used(muct_ucx_rocm_is_allowed);
}

bool muct_ucx_moves_host(void)
{
    return muct_ucx_is_used(muct_ucx_movers_are_allowed);
}

/* Whether UCX sees allocations of the runtime, which requires a runtime on ROCr with
 * UCX's hooks. */
static bool muct_ucx_rocm_feeds_cache(const muct_gpu_t *gpu)
{
    char path[1024];
    Dl_info info;
    char *slash;

    /* a function: a program linked to UCX may hold a copy of a variable */
    if (!gpu->has_hsa || !dladdr((void *)(uintptr_t)ucs_log_dispatch, &info)) {
        return false;
    }

    snprintf(path, sizeof(path), "%s", info.dli_fname);
    slash = strrchr(path, '/');
    if (slash == NULL) {
        return false;
    }

    snprintf(slash, sizeof(path) - (size_t)(slash - path), "/ucx/libucm_rocm.so.0");
    return access(path, F_OK) == 0;
}

void muct_ucx_rocm_detect_without_cache(const muct_gpu_t *gpu)
{
    if (!muct_ucx_rocm_feeds_cache(gpu) &&
        (ucs_global_opts.enable_memtype_cache != UCS_NO)) {
        muct_debug(
            "UCX does not see this runtime's allocations: memory type cache off");
        ucs_global_opts.enable_memtype_cache = UCS_NO;
    }
}
