/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * closer->lock guards everything; it is not held while the runtime closes. The thread
 * frees a closer that was given up, because then it holds the last reference.
 */

#include "xgmi/memory/xgmi_closer.h"

#include "base/muct_log.h"
#include "xgmi/peer/xgmi_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

typedef struct muct_xgmi_closing {
    struct muct_xgmi_closing *next;
    muct_xgmi_mapping_t mapping;
    int device;
} muct_xgmi_closing_t;

struct muct_xgmi_closer {
    const muct_gpu_t *gpu;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    muct_xgmi_closing_t *first; /* mappings to close, in the order of the calls */
    muct_xgmi_closing_t **last;
    unsigned num_left; /* mappings to close, and the one that is being closed */
    bool has_thread;
    bool is_stopping;
    bool is_given_up;
    pthread_t thread;
};


static void muct_xgmi_closer_free(muct_xgmi_closer_t *closer)
{
    pthread_cond_destroy(&closer->changed);
    pthread_mutex_destroy(&closer->lock);
    free(closer);
}

static void *muct_xgmi_closer_main(void *arg)
{
    muct_xgmi_closer_t *closer = arg;
    muct_xgmi_closing_t *closing;
    bool is_given_up;

    (void)prctl(PR_SET_NAME, "mori-closer"); /* a thread inherits its creator's name */
    (void)muct_gpu_relax(closer->gpu);
    pthread_mutex_lock(&closer->lock);
    for (;;) {
        while ((closer->first == NULL) && !closer->is_stopping) {
            pthread_cond_wait(&closer->changed, &closer->lock);
        }
        closing = closer->first;
        if (closing == NULL) {
            break;
        }
        closer->first = closing->next;
        if (closer->first == NULL) {
            closer->last = &closer->first;
        }
        pthread_mutex_unlock(&closer->lock);
        muct_xgmi_mapping_close(closer->gpu, closing->device, &closing->mapping);
        free(closing);
        pthread_mutex_lock(&closer->lock);
        --closer->num_left;
        pthread_cond_broadcast(&closer->changed);
    }
    is_given_up = closer->is_given_up;
    pthread_mutex_unlock(&closer->lock);
    if (is_given_up) {
        muct_xgmi_closer_free(closer);
    }
    return NULL;
}

ucs_status_t muct_xgmi_closer_create(const muct_gpu_t *gpu,
                                     muct_xgmi_closer_t **closer_p)
{
    muct_xgmi_closer_t *closer = calloc(1, sizeof(*closer));
    pthread_condattr_t attr;

    if (closer == NULL) {
        muct_error("failed to allocate the closer of peer memory");
        return UCS_ERR_NO_MEMORY;
    }

    closer->gpu = gpu;
    closer->last = &closer->first;
    pthread_mutex_init(&closer->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&closer->changed, &attr);
    pthread_condattr_destroy(&attr);
    *closer_p = closer;
    return UCS_OK;
}

/* Locked. */
static void muct_xgmi_closer_start(muct_xgmi_closer_t *closer)
{
    closer->has_thread =
        (muct_xgmi_thread_start(&closer->thread, muct_xgmi_closer_main, closer) == 0);
}

void muct_xgmi_closer_add(muct_xgmi_closer_t *closer, int device,
                          const muct_xgmi_mapping_t *mapping)
{
    muct_xgmi_closing_t *closing = calloc(1, sizeof(*closing));

    if (closing == NULL) {
        muct_warn("%p on device %d stays mapped: no memory", mapping->address, device);
        return;
    }

    closing->mapping = *mapping;
    closing->device = device;
    pthread_mutex_lock(&closer->lock);
    *closer->last = closing;
    closer->last = &closing->next;
    ++closer->num_left;
    if (!closer->has_thread) {
        muct_xgmi_closer_start(closer);
    }
    pthread_cond_broadcast(&closer->changed);
    pthread_mutex_unlock(&closer->lock);
}

/* Locked. */
static bool muct_xgmi_closer_wait_locked(muct_xgmi_closer_t *closer, unsigned limit_ms)
{
    struct timespec until;
    int error = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += limit_ms / 1000;
    until.tv_nsec += (long)(limit_ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while ((closer->num_left > 0) && (error == 0)) {
        error = pthread_cond_timedwait(&closer->changed, &closer->lock, &until);
    }
    return closer->num_left == 0;
}

int muct_xgmi_closer_wait(muct_xgmi_closer_t *closer, unsigned limit_ms)
{
    bool is_closed;

    pthread_mutex_lock(&closer->lock);
    is_closed = muct_xgmi_closer_wait_locked(closer, limit_ms);
    pthread_mutex_unlock(&closer->lock);
    return is_closed;
}

void muct_xgmi_closer_destroy(muct_xgmi_closer_t *closer, unsigned limit_ms)
{
    bool has_thread;

    pthread_mutex_lock(&closer->lock);
    closer->is_stopping = true;
    pthread_cond_broadcast(&closer->changed);
    has_thread = closer->has_thread;
    if (has_thread && !muct_xgmi_closer_wait_locked(closer, limit_ms)) {
        muct_warn("%u regions of peers stay mapped: hipIpcCloseMemHandle() waits for "
                  "the device's work for more than %u ms",
                  closer->num_left, limit_ms);
        closer->is_given_up = true;
        pthread_detach(closer->thread);
        pthread_mutex_unlock(&closer->lock);
        return;
    }
    pthread_mutex_unlock(&closer->lock);
    if (has_thread) {
        pthread_join(closer->thread, NULL);
    }
    muct_xgmi_closer_free(closer);
}
