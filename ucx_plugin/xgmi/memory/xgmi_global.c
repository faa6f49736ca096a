/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cache of mappings belongs to the process, because UCX unpacks keys for a
 * component and not for a memory domain, and because a handle must not be opened twice.
 */

#include "xgmi/memory/xgmi_global.h"

#include "base/muct_lock.h"

#include <pthread.h>


/* Guards creation and destruction; map and gpu do not change in between. */
static pthread_mutex_t muct_xgmi_global_lock = PTHREAD_MUTEX_INITIALIZER;
MUCT_FREE_IN_CHILD(muct_xgmi_global_lock, &muct_xgmi_global_lock)

muct_xgmi_global_t muct_xgmi_global = {.next_uid = 1, .device = -1};


ucs_status_t muct_xgmi_global_get(const muct_gpu_t *gpu,
                                  const muct_xgmi_map_config_t *config,
                                  muct_xgmi_map_t **map_p)
{
    ucs_status_t status = UCS_OK;

    pthread_mutex_lock(&muct_xgmi_global_lock);
    if (muct_xgmi_global.refs == 0) {
        muct_xgmi_global.gpu = gpu;
        status = muct_xgmi_map_create(gpu, config, &muct_xgmi_global.map);
    }
    if (status == UCS_OK) {
        ++muct_xgmi_global.refs;
        *map_p = muct_xgmi_global.map;
    }
    pthread_mutex_unlock(&muct_xgmi_global_lock);
    return status;
}

void muct_xgmi_global_put(void)
{
    pthread_mutex_lock(&muct_xgmi_global_lock);
    if (--muct_xgmi_global.refs == 0) {
        muct_xgmi_map_destroy(muct_xgmi_global.map);
        muct_xgmi_global.map = NULL;
    }
    pthread_mutex_unlock(&muct_xgmi_global_lock);
}
