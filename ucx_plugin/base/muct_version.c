/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * libuct tells no version. libucp does, and is loaded in every UCP application; where
 * it is not, the operations libuct exports give the lowest possible version.
 */

#include "config.h"

#include "base/muct_version.h"

#include "base/muct_log.h"
#include "base/muct_uct_abi.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

typedef void (*muct_version_get_func_t)(unsigned *major, unsigned *minor,
                                        unsigned *release);

static int muct_version_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    muct_version_facts_t *facts = arg;
    const char *base = strrchr(info->dlpi_name, '/');
    unsigned major, minor, release;
    muct_version_get_func_t get;
    void *lib, *symbol;

    (void)size;
    base = (base == NULL) ? info->dlpi_name : base + 1;
    /* Wheels rename their copies: libucp-1a2b3c.so.0.0.0 */
    if (strncmp(base, "libucp", strlen("libucp"))) {
        return 0;
    }

    lib = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (lib == NULL) {
        return 0;
    }

    symbol = dlsym(lib, "ucp_get_version");
    if (symbol != NULL) {
        memcpy(&get, &symbol, sizeof(get));
        get(&major, &minor, &release);
        facts->major = (int)major;
        facts->minor = (int)minor;
    }
    dlclose(lib);
    return symbol != NULL;
}

static int muct_version_has_symbol(const void *in_library, const char *name)
{
    void *lib, *symbol;
    Dl_info info;

    if (!dladdr(in_library, &info)) {
        return 0;
    }

    lib = dlopen(info.dli_fname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (lib == NULL) {
        return 0;
    }

    symbol = dlsym(lib, name);
    dlclose(lib);
    return symbol != NULL;
}

void muct_version_collect(muct_version_facts_t *facts)
{
    const void *in_uct = &uct_components_list;
    const void *in_ucs = &ucs_global_opts;

    facts->major = -1;
    facts->minor = -1;
    (void)dl_iterate_phdr(muct_version_visit, facts);
    facts->has_put_sgl = muct_version_has_symbol(in_uct, "uct_ep_put_sgl_zcopy");
    facts->has_get_sgl = muct_version_has_symbol(in_uct, "uct_ep_get_sgl_zcopy");
    facts->has_statistics = muct_version_has_symbol(in_ucs, "ucs_stats_node_alloc");
}

int muct_version_is_supported(const muct_version_facts_t *facts, int built_for,
                              char *reason, size_t size)
{
    int lowest = facts->has_get_sgl ? 23 : facts->has_put_sgl ? 22 : 0;

    reason[0] = '\0';
    if (facts->has_statistics) {
        snprintf(reason, size,
                 "this UCX was built with statistics (--enable-stats), which changes "
                 "its structures");
        return 0;
    }

    if (facts->minor >= 0) {
        if ((facts->major == 1) && (facts->minor == built_for)) {
            return 1;
        }
        snprintf(reason, size, "it was built for UCX 1.%d and this is UCX %d.%d",
                 built_for, facts->major, facts->minor);
        return 0;
    }

    if (lowest == built_for) {
        return 1;
    }

    if (lowest == 0) {
        snprintf(reason, size, "it was built for UCX 1.%d and this is older than 1.22",
                 built_for);
    } else {
        snprintf(reason, size, "it was built for UCX 1.%d and this is UCX 1.%d",
                 built_for, lowest);
    }
    return 0;
}
