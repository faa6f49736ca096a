/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Registers the transports when the module is loaded, whoever loads it: UCX from
 * UCX_PLUGIN_PATH, a library that names it as a dependency, or LD_PRELOAD. A copy of
 * the module under another name, or a second load, finds the components registered
 * and does nothing. The module is linked with -z nodelete, because UCX keeps pointers
 * to the components for ever.
 */

#include "config.h"

#include "base/muct_gpu.h"
#include "base/muct_log.h"
#include "base/muct_transport.h"
#include "base/muct_version.h"

#include <string.h>

extern const muct_transport_t muct_copy_transport;
extern const muct_transport_t muct_xgmi_transport;
#ifdef HAVE_VERBS
extern const muct_transport_t muct_rdma_transport;
#endif

/* Terminated by NULL; one line a transport. */
static const muct_transport_t *const muct_transports[] = {
    &muct_xgmi_transport,
    &muct_copy_transport,
#ifdef HAVE_VERBS
    &muct_rdma_transport,
#endif
    NULL,
};

static int muct_module_is_registered(const char *name)
{
    uct_component_t *component;

    ucs_list_for_each(component, &uct_components_list, list)
    {
        if (!strcmp(component->name, name)) {
            return 1;
        }
    }

    return 0;
}

static void muct_module_register(const muct_transport_t *transport)
{
    uct_component_t *component = transport->component;

    if (muct_module_is_registered(component->name)) {
        muct_debug("component %s is already registered", component->name);
        return;
    }

    uct_component_register(component);
    uct_tl_register(component, transport->tl);
}

static int muct_module_has_entry(const char *prefix)
{
    ucs_config_global_list_entry_t *entry;

    ucs_list_for_each(entry, &ucs_config_global_list, list)
    {
        if ((entry->prefix != NULL) && !strcmp(entry->prefix, prefix)) {
            return 1;
        }
    }

    return 0;
}

__attribute__((constructor)) static void muct_module_init(void)
{
    const muct_transport_t *const *transport;
    muct_version_facts_t facts;
    char reason[128];

    muct_version_collect(&facts);
    if (!muct_version_is_supported(&facts, MUCT_UCX_MINOR, reason, sizeof(reason))) {
        muct_warn("ucx-mori is not used: %s", reason);
        return;
    }

    if (!muct_module_has_entry(muct_gpu_config_entry.prefix)) {
        ucs_list_add_tail(&ucs_config_global_list, &muct_gpu_config_entry.list);
    }

    for (transport = muct_transports; *transport != NULL; ++transport) {
        muct_module_register(*transport);
    }
}
