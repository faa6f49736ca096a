/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Queues: each is a thread that reads a ring from its position to the write pointer.
 *
 * Stores to a doorbell cannot be seen. A thread whose ring is empty is parked, and a
 * further thread, the bell, looks at the write pointers of all parked queues: often
 * while packets come, then less and less often, and at once when a thread of the
 * process waits for an event. kfd_park_lock guards the set of parked queues.
 */

#include "kfd_impl.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define KFD_MAX_QUEUES 1024

/* Polls of an empty ring before its thread is parked */
#define KFD_YIELDS 20

typedef struct kfd_thread {
    kfd_queue_t queue;
    pthread_t thread;
    pthread_cond_t unpark;
    bool parked;
    int64_t stall_after;
} kfd_thread_t;

static kfd_thread_t kfd_threads[KFD_MAX_QUEUES];
static unsigned kfd_num_threads; /* No queue has been behind it */
static pthread_mutex_t kfd_queue_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t kfd_park_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t kfd_bell_cond = PTHREAD_COND_INITIALIZER;
static bool kfd_has_bell;
static unsigned kfd_quiet_looks; /* Polls of the bell since it found work */

static bool kfd_is_stopped(const kfd_queue_t *queue)
{
    return __atomic_load_n(&queue->stop, __ATOMIC_ACQUIRE);
}

/* Sleep longer with each poll that finds nothing. */
static uint64_t kfd_pause_ns(unsigned looks)
{
    return (looks < 50) ? 20000 : (looks < 150) ? 100000 : 1000000;
}

bool kfd_queue_relax(kfd_queue_t *queue, unsigned *turns)
{
    struct timespec ts = {0, 0};

    if (*turns < KFD_YIELDS) {
        sched_yield();
    } else {
        ts.tv_nsec = (long)kfd_pause_ns(*turns - KFD_YIELDS);
        nanosleep(&ts, NULL);
    }
    ++*turns;
    return !kfd_is_stopped(queue);
}

void kfd_queue_poke(void)
{
    pthread_mutex_lock(&kfd_park_lock);
    kfd_quiet_looks = 0;
    pthread_cond_signal(&kfd_bell_cond);
    pthread_mutex_unlock(&kfd_park_lock);
}

static bool kfd_has_packet(const kfd_queue_t *queue)
{
    return !queue->halted &&
           ((queue->type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL) ? kfd_aql_has(queue)
                                                            : kfd_sdma_has(queue));
}

/* Let the threads of rings with packets go on; returns how many. The lock is held. */
static unsigned kfd_ring_bells(void)
{
    unsigned end = __atomic_load_n(&kfd_num_threads, __ATOMIC_ACQUIRE), count = 0, i;
    kfd_thread_t *thread;

    for (i = 0; i < end; ++i) {
        thread = &kfd_threads[i];
        if (thread->parked && kfd_has_packet(&thread->queue)) {
            thread->parked = false;
            pthread_cond_signal(&thread->unpark);
            count++;
        }
    }
    return count;
}

static void *kfd_bell_main(void *arg)
{
    struct timespec end;
    uint64_t ns;

    (void)arg;
    prctl(PR_SET_TIMERSLACK, 1ul); /* or each short sleep lasts 50 us longer */
    pthread_mutex_lock(&kfd_park_lock);
    for (;;) {
        kfd_quiet_looks = (kfd_ring_bells() > 0) ? 0 : kfd_quiet_looks + 1;
        clock_gettime(CLOCK_REALTIME, &end);
        ns = (uint64_t)end.tv_nsec + kfd_pause_ns(kfd_quiet_looks);
        end.tv_sec += (time_t)(ns / 1000000000);
        end.tv_nsec = (long)(ns % 1000000000);
        pthread_cond_timedwait(&kfd_bell_cond, &kfd_park_lock, &end);
    }
    return NULL;
}

/* Wait for packets, or for the end of the queue. */
static void kfd_park(kfd_thread_t *thread)
{
    pthread_mutex_lock(&kfd_park_lock);
    thread->parked = true;
    while (thread->parked && !kfd_is_stopped(&thread->queue)) {
        pthread_cond_wait(&thread->unpark, &kfd_park_lock);
    }
    thread->parked = false;
    pthread_mutex_unlock(&kfd_park_lock);
}

bool kfd_queue_stalls(kfd_queue_t *queue)
{
    const kfd_thread_t *thread = (const kfd_thread_t *)queue;

    if (queue->halted) {
        return true;
    }
    if ((thread->stall_after >= 0) &&
        (queue->num_played >= (uint64_t)thread->stall_after)) {
        kfd_log(1, "queue %u stalls after %lld packets", queue->id,
                (long long)thread->stall_after);
        queue->halted = true;
    }
    return queue->halted;
}

static void *kfd_queue_main(void *arg)
{
    kfd_thread_t *thread = arg;
    kfd_queue_t *queue = &thread->queue;
    bool is_aql = queue->type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
    unsigned turns = 0;

    prctl(PR_SET_TIMERSLACK, 1ul);
    while (!kfd_is_stopped(queue)) {
        if (kfd_has_packet(queue) && !kfd_queue_stalls(queue)) {
            queue->num_played += is_aql ? kfd_aql_play(queue) : kfd_sdma_play(queue);
            turns = 0;
        } else if (turns < KFD_YIELDS) {
            kfd_queue_relax(queue, &turns);
        } else {
            kfd_park(thread);
        }
    }
    return NULL;
}

/* kfd_queue_acquire_buffers() of Linux 6.12: a queue's buffers must be mapped. */
static bool kfd_queue_is_mapped(int gpu, const struct kfd_ioctl_create_queue_args *a)
{
    return kfd_map_allows(gpu, a->ring_base_address, a->ring_size) &&
           kfd_map_allows(gpu, a->write_pointer_address, 8) &&
           kfd_map_allows(gpu, a->read_pointer_address, 8);
}

static bool kfd_queue_check(int gpu, const struct kfd_ioctl_create_queue_args *a)
{
    switch (a->queue_type) {
    case KFD_IOC_QUEUE_TYPE_COMPUTE_AQL:
    case KFD_IOC_QUEUE_TYPE_SDMA:
    case KFD_IOC_QUEUE_TYPE_SDMA_XGMI:
    case KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID:
        break;
    default:
        kfd_refuse("CREATE_QUEUE: type %u is not played", a->queue_type);
        return false;
    }
    if ((gpu < 0) || (a->ring_size < KFD_MIN_QUEUE_RING_SIZE) ||
        (a->ring_size & (a->ring_size - 1))) {
        return false;
    }
    if (!kfd_queue_is_mapped(gpu, a)) {
        kfd_log(1, "CREATE_QUEUE: ring %#llx is not mapped to GPU %d",
                (unsigned long long)a->ring_base_address, gpu);
        return false;
    }
    return true;
}

/* No signal handler of the program may run in a thread of the stand-in. */
static int kfd_start(pthread_t *thread, void *(*function)(void *), void *arg)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(thread, NULL, function, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

static int kfd_queue_start(kfd_thread_t *thread)
{
    pthread_t bell;
    int rc = 0;

    pthread_mutex_lock(&kfd_queue_lock);
    if (!kfd_has_bell) {
        rc = kfd_start(&bell, kfd_bell_main, NULL);
        if (rc == 0) {
            pthread_detach(bell);
            kfd_has_bell = true;
        }
    }
    pthread_mutex_unlock(&kfd_queue_lock);
    return (rc == 0) ? kfd_start(&thread->thread, kfd_queue_main, thread) : rc;
}

static kfd_thread_t *kfd_thread_new(unsigned *id)
{
    kfd_thread_t *thread = NULL;

    pthread_mutex_lock(&kfd_queue_lock);
    for (*id = 0; (*id < KFD_MAX_QUEUES) && kfd_threads[*id].queue.used; ++*id) {
    }
    if (*id < KFD_MAX_QUEUES) {
        thread = &kfd_threads[*id];
        memset(thread, 0, sizeof(*thread));
        pthread_cond_init(&thread->unpark, NULL);
        thread->queue.used = true;
        if (*id >= kfd_num_threads) {
            __atomic_store_n(&kfd_num_threads, *id + 1, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&kfd_queue_lock);
    return thread;
}

int kfd_queue_create(void *arg)
{
    struct kfd_ioctl_create_queue_args *a = arg;
    int gpu = kfd_gpu_number(a->gpu_id);
    kfd_thread_t *thread;
    kfd_queue_t *queue;
    unsigned id;

    if (!kfd_queue_check(gpu, a)) {
        return kfd_error(EINVAL);
    }
    thread = kfd_thread_new(&id);
    if (thread == NULL) {
        return kfd_error(ENOMEM);
    }
    queue = &thread->queue;
    queue->id = id;
    queue->type = a->queue_type;
    queue->gpu = gpu;
    queue->ring = a->ring_base_address;
    queue->ring_size = a->ring_size;
    queue->wptr = (uint64_t *)(uintptr_t)a->write_pointer_address;
    queue->rptr = (uint64_t *)(uintptr_t)a->read_pointer_address;
    queue->position = *queue->rptr;
    thread->stall_after =
        (queue->type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL) ? -1 : kfd_fault_stall("sdma");
    a->queue_id = id;
    a->doorbell_offset = kfd_doorbell_offset(gpu, id);
    kfd_log(2, "queue %u of GPU %d: type %u size %u", id, gpu, queue->type,
            queue->ring_size);
    if (kfd_queue_start(thread)) {
        queue->used = false;
        return kfd_error(ENOMEM);
    }
    return 0;
}

int kfd_queue_destroy(void *arg)
{
    uint32_t id = ((struct kfd_ioctl_destroy_queue_args *)arg)->queue_id;
    kfd_queue_t *queue;

    if ((id >= KFD_MAX_QUEUES) || !kfd_threads[id].queue.used) {
        return kfd_error(EINVAL);
    }
    queue = &kfd_threads[id].queue;
    pthread_mutex_lock(&kfd_park_lock);
    __atomic_store_n(&queue->stop, true, __ATOMIC_RELEASE);
    pthread_cond_signal(&kfd_threads[id].unpark);
    pthread_mutex_unlock(&kfd_park_lock);
    pthread_join(kfd_threads[id].thread, NULL);
    kfd_late_land(queue->gpu);
    free(queue->kept);
    queue->used = false;
    return 0;
}

/* Percentage, priority and ring of a queue that runs; a share of 0 would hold it. */
int kfd_queue_update(void *arg)
{
    struct kfd_ioctl_update_queue_args *a = arg;

    if ((a->queue_id >= KFD_MAX_QUEUES) || !kfd_threads[a->queue_id].queue.used) {
        return kfd_error(EINVAL);
    }
    if ((a->queue_percentage == 0) && (a->ring_base_address != 0)) {
        kfd_refuse("UPDATE_QUEUE: a queue without a share is not played");
        return kfd_error(EINVAL);
    }
    return 0;
}

void kfd_queue_forked(void)
{
    memset(kfd_threads, 0, sizeof(kfd_threads));
    kfd_num_threads = 0;
    kfd_has_bell = false;
    pthread_mutex_init(&kfd_queue_lock, NULL);
    pthread_mutex_init(&kfd_park_lock, NULL);
    pthread_cond_init(&kfd_bell_cond, NULL);
}
