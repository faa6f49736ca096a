/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The core: the transports, compiled for one minor version of UCX. The loader opens it,
 * binds it to the UCX that asks for modules and calls its one exported function; see
 * loader/loader_core.h. Another core, opened from another folder for the same UCX,
 * finds the components registered and does nothing.
 */

#include "config.h"

#include "base/muct_gpu.h"
#include "base/muct_lock.h"
#include "base/muct_log.h"
#include "base/muct_transport.h"
#include "copy/copy_tl.h"
#include "loader/loader_core.h"
#ifdef HAVE_VERBS
#include "rdma/rdma_tl.h"
#endif
#include "xgmi/xgmi_tl.h"

#include <string.h>

/* Terminated by NULL; one line a transport. */
static const muct_transport_t *const muct_transports[] = {
    &muct_xgmi_transport,
    &muct_copy_transport,
#ifdef HAVE_VERBS
    &muct_rdma_transport,
#endif
    NULL,
};

static bool muct_core_is_registered(const char *name)
{
    uct_component_t *component;

    ucs_list_for_each(component, &uct_components_list, list)
    {
        if (!strcmp(component->name, name)) {
            return true;
        }
    }

    return false;
}

static void muct_core_register_transport(const muct_transport_t *transport)
{
    uct_component_t *component = transport->component;

    if (muct_core_is_registered(component->name)) {
        muct_debug("component %s is already registered", component->name);
        return;
    }

    uct_component_register(component);
    uct_tl_register(component, transport->tl);
}

static bool muct_core_has_entry(const char *prefix)
{
    ucs_config_global_list_entry_t *entry;

    ucs_list_for_each(entry, &ucs_config_global_list, list)
    {
        if ((entry->prefix != NULL) && !strcmp(entry->prefix, prefix)) {
            return true;
        }
    }

    return false;
}

__attribute__((visibility("default"))) void muct_core_register(const char *core,
                                                               const char *ucs);

void muct_core_register(const char *core, const char *ucs)
{
    const muct_transport_t *const *transport;

    muct_info("%s serves %s", core, ucs);
    muct_lock_watch_forks();
    if (!muct_core_has_entry(muct_gpu_config_entry.prefix)) {
        ucs_list_add_tail(&ucs_config_global_list, &muct_gpu_config_entry.list);
    }

#ifndef HAVE_VERBS
    muct_report(MUCT_REPORT_RDMA, "mori_rdma is not built (no libibverbs)");
#endif
    for (transport = muct_transports; *transport != NULL; ++transport) {
        muct_core_register_transport(*transport);
    }
}
