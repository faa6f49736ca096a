/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Events, as kfd_events.c of amdkfd has them. One lock guards all of them, and a
 * condition wakes all waiters, which look again: a process has few of them.
 */

#include "kfd_impl.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

/* Events that are no signals are numbered behind those: KFD_FIRST_NONSIGNAL_EVENT_ID.
 */
#define KFD_MAX_OTHER_EVENTS 256
#define KFD_MAX_EVENTS (KFD_SIGNAL_EVENT_LIMIT + KFD_MAX_OTHER_EVENTS)

typedef struct kfd_event {
    bool used;
    bool set;
    bool auto_reset;
    uint32_t type;
    uint64_t age;        /* Starts at 1; each firing adds 1 */
    uint32_t generation; /* A wait ends when its event was destroyed */
    struct kfd_hsa_memory_exception_data fault;
} kfd_event_t;

static kfd_event_t kfd_events[KFD_MAX_EVENTS];
static pthread_mutex_t kfd_event_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t kfd_event_cond;
static pthread_once_t kfd_event_once = PTHREAD_ONCE_INIT;

static void kfd_event_init(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&kfd_event_cond, &attr);
    pthread_condattr_destroy(&attr);
}

static void kfd_events_lock(void)
{
    pthread_once(&kfd_event_once, kfd_event_init);
    pthread_mutex_lock(&kfd_event_lock);
}

static void kfd_events_unlock(void)
{
    pthread_mutex_unlock(&kfd_event_lock);
}

/* The lock is held. */
static kfd_event_t *kfd_event_find(uint32_t id)
{
    return ((id < KFD_MAX_EVENTS) && kfd_events[id].used) ? &kfd_events[id] : NULL;
}

static void kfd_event_set_locked(kfd_event_t *event)
{
    event->set = true;
    event->age++;
    pthread_cond_broadcast(&kfd_event_cond);
}

void kfd_event_fire(uint32_t id)
{
    kfd_event_t *event;

    kfd_events_lock();
    event = kfd_event_find(id);
    if (event != NULL) {
        kfd_event_set_locked(event);
    }
    kfd_events_unlock();
}

void kfd_event_memory_fault(int gpu, uint64_t va, bool is_write)
{
    kfd_event_t *event;
    unsigned i, count = 0;

    kfd_events_lock();
    for (i = KFD_SIGNAL_EVENT_LIMIT; i < KFD_MAX_EVENTS; ++i) {
        event = &kfd_events[i];
        if (event->used && (event->type == KFD_IOC_EVENT_MEMORY)) {
            event->fault = (struct kfd_hsa_memory_exception_data){
                .failure = {.NotPresent = 1, .ReadOnly = is_write},
                .va = va & ~4095ull,
                .gpu_id = KFD_GPU_ID(gpu),
            };
            kfd_event_set_locked(event);
            count++;
        }
    }
    kfd_events_unlock();
    if (count == 0) {
        kfd_die("the program has no event for memory faults");
    }
}

int kfd_event_create(void *arg)
{
    struct kfd_ioctl_create_event_args *a = arg;
    bool is_signal = a->event_type == KFD_IOC_EVENT_SIGNAL;
    uint32_t id = is_signal ? 1 : KFD_SIGNAL_EVENT_LIMIT;
    uint32_t end = is_signal ? KFD_SIGNAL_EVENT_LIMIT : KFD_MAX_EVENTS;
    kfd_event_t *event;

    kfd_events_lock();
    while ((id < end) && kfd_events[id].used) {
        ++id;
    }
    if (id == end) {
        kfd_events_unlock();
        return kfd_error(ENOSPC);
    }
    event = &kfd_events[id];
    event->used = true;
    event->set = false;
    event->auto_reset = a->auto_reset != 0;
    event->type = a->event_type;
    event->age = 1;
    event->generation++;
    kfd_events_unlock();
    /* not 0, or libhsakmt gives the signal no mailbox, and its waiters no interrupt */
    a->event_page_offset = 4096;
    a->event_id = id;
    a->event_slot_index = id;
    a->event_trigger_data = id;
    return 0;
}

int kfd_event_destroy(void *arg)
{
    kfd_event_t *event;

    kfd_events_lock();
    event = kfd_event_find(((struct kfd_ioctl_destroy_event_args *)arg)->event_id);
    if (event != NULL) {
        event->used = false;
        event->generation++;
        pthread_cond_broadcast(&kfd_event_cond);
    }
    kfd_events_unlock();
    return (event != NULL) ? 0 : kfd_error(EINVAL);
}

int kfd_event_set(void *arg)
{
    kfd_event_t *event;

    kfd_events_lock();
    event = kfd_event_find(((struct kfd_ioctl_set_event_args *)arg)->event_id);
    if (event != NULL) {
        kfd_event_set_locked(event);
    }
    kfd_events_unlock();
    return (event != NULL) ? 0 : kfd_error(EINVAL);
}

int kfd_event_reset(void *arg)
{
    kfd_event_t *event;

    kfd_events_lock();
    event = kfd_event_find(((struct kfd_ioctl_reset_event_args *)arg)->event_id);
    if (event != NULL) {
        event->set = false;
    }
    kfd_events_unlock();
    return (event != NULL) ? 0 : kfd_error(EINVAL);
}

/* init_event_waiter(): an age that is not the last one has fired meanwhile; 0: no ages.
 */
static bool kfd_event_is_ready(const kfd_event_t *event,
                               const struct kfd_event_data *data)
{
    uint64_t age = data->signal_event_data.last_event_age;

    if (event->set) {
        return true;
    }
    return (event->type == KFD_IOC_EVENT_SIGNAL) && (age != 0) && (age != event->age);
}

/* Fill in a waiter's data as copy_signaled_event_data() does. */
static void kfd_event_take(kfd_event_t *event, struct kfd_event_data *data)
{
    if (event->type == KFD_IOC_EVENT_SIGNAL) {
        if (data->signal_event_data.last_event_age != 0) {
            data->signal_event_data.last_event_age = event->age;
        }
    } else if (event->set && (event->type == KFD_IOC_EVENT_MEMORY)) {
        data->memory_exception_data = event->fault;
    }
    if (event->set && event->auto_reset) {
        event->set = false;
    }
}

/* How many of a wait's events are ready; -1: one was destroyed. */
static int kfd_events_ready(const struct kfd_event_data *data, uint32_t count,
                            const uint32_t *generations)
{
    const kfd_event_t *event;
    int ready = 0;
    uint32_t i;

    for (i = 0; i < count; ++i) {
        event = &kfd_events[data[i].event_id];
        if (!event->used || (event->generation != generations[i])) {
            return -1;
        }
        ready += kfd_event_is_ready(event, &data[i]);
    }
    return ready;
}

static struct timespec kfd_deadline(uint32_t timeout_ms)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += (timeout_ms % 1000) * 1000000l;
    if (end.tv_nsec >= 1000000000l) {
        end.tv_nsec -= 1000000000l;
        end.tv_sec++;
    }
    return end;
}

/* Wait until the events are ready; the lock is held. Returns KFD_IOC_WAIT_RESULT_. */
static uint32_t kfd_events_await(struct kfd_ioctl_wait_events_args *a,
                                 const uint32_t *generations)
{
    struct kfd_event_data *data = (void *)(uintptr_t)a->events_ptr;
    struct timespec end = kfd_deadline(a->timeout);
    bool is_late = a->timeout == 0;
    uint32_t i;
    int ready;

    for (;;) {
        ready = kfd_events_ready(data, a->num_events, generations);
        if (ready < 0) {
            return KFD_IOC_WAIT_RESULT_FAIL;
        }
        if ((ready > 0) && (!a->wait_for_all || ((uint32_t)ready == a->num_events))) {
            for (i = 0; i < a->num_events; ++i) {
                kfd_event_take(&kfd_events[data[i].event_id], &data[i]);
            }
            return KFD_IOC_WAIT_RESULT_COMPLETE;
        }
        if (is_late) {
            return KFD_IOC_WAIT_RESULT_TIMEOUT;
        }
        if (a->timeout == UINT32_MAX) {
            pthread_cond_wait(&kfd_event_cond, &kfd_event_lock);
        } else {
            is_late = pthread_cond_timedwait(&kfd_event_cond, &kfd_event_lock, &end) ==
                      ETIMEDOUT;
        }
    }
}

int kfd_event_wait(void *arg)
{
    struct kfd_ioctl_wait_events_args *a = arg;
    struct kfd_event_data *data = (void *)(uintptr_t)a->events_ptr;
    uint32_t generations[KFD_MAX_EVENTS], i;

    if ((a->num_events == 0) || (a->num_events > KFD_MAX_EVENTS)) {
        return kfd_error(EINVAL);
    }
    kfd_queue_poke();
    kfd_events_lock();
    for (i = 0; i < a->num_events; ++i) {
        if (kfd_event_find(data[i].event_id) == NULL) {
            kfd_events_unlock();
            return kfd_error(EINVAL);
        }
        generations[i] = kfd_events[data[i].event_id].generation;
    }
    a->wait_result = kfd_events_await(a, generations);
    kfd_events_unlock();
    return (a->wait_result == KFD_IOC_WAIT_RESULT_FAIL) ? kfd_error(EIO) : 0;
}
