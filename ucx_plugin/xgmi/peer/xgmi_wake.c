/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/peer/xgmi_wake.h"

#include "base/muct_log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MUCT_XGMI_NSEC_PER_SEC UINT64_C(1000000000)


ucs_status_t muct_xgmi_wake_create(muct_xgmi_wake_t **wake_p)
{
    muct_xgmi_wake_t *wake = calloc(1, sizeof(*wake));

    if (wake == NULL) {
        muct_error("failed to allocate a wakeup object");
        return UCS_ERR_NO_MEMORY;
    }

    wake->refs = 1;
    wake->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake->event_fd < 0) {
        muct_error("eventfd() failed: %m");
        goto err_free;
    }

    wake->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (wake->timer_fd < 0) {
        muct_error("timerfd_create() failed: %m");
        goto err_close;
    }

    *wake_p = wake;
    return UCS_OK;

err_close:
    close(wake->event_fd);
err_free:
    free(wake);
    return UCS_ERR_IO_ERROR;
}

void muct_xgmi_wake_put(muct_xgmi_wake_t *wake)
{
    if (__atomic_sub_fetch(&wake->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        close(wake->timer_fd);
        close(wake->event_fd);
        free(wake);
    }
}

uint64_t muct_xgmi_wake_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * MUCT_XGMI_NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

void muct_xgmi_wake_signal(muct_xgmi_wake_t *wake)
{
    uint64_t one = 1;

    if (write(wake->event_fd, &one, sizeof(one)) != (ssize_t)sizeof(one)) {
        muct_debug("write(eventfd) failed: %m"); /* a full counter is readable anyway */
    }
}

ucs_status_t muct_xgmi_wake_in(muct_xgmi_wake_t *wake, uint64_t now_ns,
                               uint64_t delay_ns)
{
    uint64_t at_ns = now_ns + delay_ns;
    struct itimerspec timer = {
        .it_value = {.tv_sec = (time_t)(at_ns / MUCT_XGMI_NSEC_PER_SEC),
                     .tv_nsec = (long)(at_ns % MUCT_XGMI_NSEC_PER_SEC)}};

    if ((wake->timer_at_ns != 0) && (wake->timer_at_ns <= at_ns)) {
        return UCS_OK;
    }

    if (timerfd_settime(wake->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL) != 0) {
        muct_error("timerfd_settime(%" PRIu64 " ns) failed: %m", at_ns);
        return UCS_ERR_IO_ERROR;
    }

    wake->timer_at_ns = at_ns;
    return UCS_OK;
}

void muct_xgmi_wake_sleep(muct_xgmi_wake_t *wake, uint64_t ns)
{
    struct pollfd entry = {.fd = wake->event_fd, .events = POLLIN};
    struct timespec limit = {.tv_nsec = (long)ns};

    (void)ppoll(&entry, 1, &limit, NULL); /* an early wakeup is harmless */
}

bool muct_xgmi_wake_drain(muct_xgmi_wake_t *wake, uint64_t now_ns)
{
    uint64_t count;

    if ((wake->timer_at_ns != 0) && (now_ns >= wake->timer_at_ns) &&
        (read(wake->timer_fd, &count, sizeof(count)) == (ssize_t)sizeof(count))) {
        wake->timer_at_ns = 0;
    }

    /* read each time: with a flag beside the eventfd, a thread woken between the two
     * updates would find the eventfd readable without a signal */
    return read(wake->event_fd, &count, sizeof(count)) == (ssize_t)sizeof(count);
}

/* Runs in a thread of the GPU runtime. */
static void muct_xgmi_wake_callback(muct_hip_stream_t stream, int error, void *arg)
{
    muct_xgmi_wake_t *wake = arg;

    (void)stream;
    (void)error;
    muct_xgmi_wake_signal(wake);
    muct_xgmi_wake_put(wake);
}

int muct_xgmi_wake_after(muct_xgmi_wake_t *wake, const muct_gpu_t *gpu,
                         muct_hip_stream_t stream)
{
    int ret;

    __atomic_add_fetch(&wake->refs, 1, __ATOMIC_RELAXED);
    ret = gpu->stream_add_callback(stream, muct_xgmi_wake_callback, wake, 0);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_xgmi_wake_put(wake);
    }
    return ret;
}
