/* SPDX-License-Identifier: BSD-3-Clause */

#include "copy/copy_iface.h"

#include "base/muct_log.h"

#include <stdlib.h>
#include <unistd.h>

/** A flush that ends after the copies of all queues. */
typedef struct muct_copy_flush {
    uct_completion_t super;
    uct_completion_t *user;
} muct_copy_flush_t;


ucs_status_t muct_copy_iface_add_queue(muct_copy_iface_t *iface, int device,
                                       muct_copy_queue_t **queue_p)
{
    ucs_status_t status;

    if ((unsigned)device >= MUCT_COPY_MAX_DEVICES) {
        muct_error("memory of device %d: expected 0 to %d", device,
                   MUCT_COPY_MAX_DEVICES - 1);
        return UCS_ERR_NO_DEVICE;
    }

    status = muct_copy_queue_create(iface->md->gpu, device, iface->seg_size,
                                    &iface->queues[device]);
    if (status != UCS_OK) {
        return status;
    }

    muct_debug("iface %p copies from and to device %d", (void *)iface, device);
    if (iface->num_queues <= (unsigned)device) {
        iface->num_queues = (unsigned)device + 1;
    }
    *queue_p = iface->queues[device];
    return UCS_OK;
}

bool muct_copy_iface_is_idle(const muct_copy_iface_t *iface)
{
    unsigned i;

    for (i = 0; i < iface->num_queues; ++i) {
        if ((iface->queues[i] != NULL) &&
            ((iface->queues[i]->head != NULL) ||
             !muct_copy_queue_is_idle(iface->queues[i]))) {
            return false;
        }
    }

    return true;
}

ucs_status_t muct_copy_iface_wait(muct_copy_iface_t *iface)
{
    ucs_status_t status = UCS_OK;
    unsigned i;

    for (i = 0; (i < iface->num_queues) && (status == UCS_OK); ++i) {
        if (iface->queues[i] != NULL) {
            status = muct_copy_queue_wait(iface->queues[i]);
        }
    }

    return status;
}

static void muct_copy_flush_done(uct_completion_t *super)
{
    muct_copy_flush_t *flush = ucs_container_of(super, muct_copy_flush_t, super);

    muct_completion_invoke(flush->user, super->status);
    free(flush);
}

ucs_status_t muct_copy_iface_start_flush(muct_copy_iface_t *iface,
                                         uct_completion_t *comp)
{
    muct_copy_flush_t *flush;
    unsigned i;

    if (muct_copy_iface_is_idle(iface)) {
        return UCS_OK;
    }
    if (comp == NULL) {
        return UCS_INPROGRESS;
    }

    flush = malloc(sizeof(*flush));
    if (flush == NULL) {
        return muct_copy_iface_wait(iface);
    }

    /* this function holds one count until all queues were checked */
    flush->super.func = muct_copy_flush_done;
    flush->super.count = 1;
    flush->super.status = UCS_OK;
    flush->user = comp;
    for (i = 0; i < iface->num_queues; ++i) {
        if (iface->queues[i] != NULL) {
            flush->super.count +=
                muct_copy_queue_notify(iface->queues[i], &flush->super) ==
                UCS_INPROGRESS;
        }
    }

    if (flush->super.count == 1) {
        free(flush);
        return UCS_OK;
    }

    --flush->super.count;
    return UCS_INPROGRESS;
}

void muct_copy_iface_wake(muct_copy_iface_t *iface)
{
    uint64_t one = 1;
    ssize_t ret;

    iface->is_armed = false;
    ret = write(iface->event_fd, &one, sizeof(one));
    (void)ret; /* fails when the counter is full, which wakes as well */
}
