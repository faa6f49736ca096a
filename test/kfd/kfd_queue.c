/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Queues: each is a thread that reads a ring from its position to the write pointer.
 *
 * Stores to a doorbell cannot be seen, so an idle thread looks at its write pointer,
 * less and less often, and at once when a thread of the process waits for an event.
 */

#include "kfd_impl.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define KFD_MAX_QUEUES 1024

/* Looks of an idle queue: first it yields, then it sleeps shortly, then longer. */
#define KFD_YIELDS 50
#define KFD_SHORT_SLEEPS 1000
#define KFD_SHORT_NS 5000
#define KFD_LONG_NS 1000000

typedef struct kfd_thread {
    kfd_queue_t queue;
    pthread_t thread;
    int64_t stall_after;
} kfd_thread_t;

static kfd_thread_t kfd_threads[KFD_MAX_QUEUES];
static pthread_mutex_t kfd_queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t kfd_poke_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t kfd_poke_cond = PTHREAD_COND_INITIALIZER;
static unsigned kfd_pokes;

static bool kfd_is_stopped(const kfd_queue_t *queue)
{
    return __atomic_load_n(&queue->stop, __ATOMIC_ACQUIRE);
}

/* Sleep until somebody pokes, or for a while; a destroyed queue is poked as well. */
static void kfd_long_sleep(const kfd_queue_t *queue)
{
    struct timespec end;
    unsigned seen;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += KFD_LONG_NS;
    if (end.tv_nsec >= 1000000000l) {
        end.tv_nsec -= 1000000000l;
        end.tv_sec++;
    }
    pthread_mutex_lock(&kfd_poke_lock);
    seen = kfd_pokes;
    while ((seen == kfd_pokes) && !kfd_is_stopped(queue)) {
        if (pthread_cond_timedwait(&kfd_poke_cond, &kfd_poke_lock, &end) == ETIMEDOUT) {
            break;
        }
    }
    pthread_mutex_unlock(&kfd_poke_lock);
}

bool kfd_queue_relax(kfd_queue_t *queue, unsigned *turns)
{
    struct timespec ts = {0, KFD_SHORT_NS};

    ++*turns;
    if (*turns < KFD_YIELDS) {
        sched_yield();
    } else if (*turns < KFD_SHORT_SLEEPS) {
        nanosleep(&ts, NULL);
    } else {
        kfd_long_sleep(queue);
    }
    return !kfd_is_stopped(queue);
}

void kfd_queue_poke(void)
{
    pthread_mutex_lock(&kfd_poke_lock);
    kfd_pokes++;
    pthread_cond_broadcast(&kfd_poke_cond);
    pthread_mutex_unlock(&kfd_poke_lock);
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
    kfd_queue_t *queue = arg;
    bool is_aql = queue->type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
    unsigned turns = 0;

    prctl(PR_SET_TIMERSLACK, 1ul); /* or each short sleep lasts 50 us longer */
    while (!kfd_is_stopped(queue)) {
        if (!queue->halted && (is_aql ? kfd_aql_play(queue) : kfd_sdma_play(queue))) {
            queue->num_played++;
            turns = 0;
        } else {
            kfd_queue_relax(queue, &turns);
        }
    }
    return NULL;
}

/* kfd_queue_acquire_buffers() of Linux 6.12: what a queue reads and writes is mapped.
 */
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

/* No signal of the program may run in a thread that it does not know. */
static int kfd_queue_start(kfd_thread_t *thread)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread->thread, NULL, kfd_queue_main, &thread->queue);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
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
        thread->queue.used = true;
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
    thread->stall_after = kfd_fault_stall(
        (queue->type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL) ? "aql" : "sdma");
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
    __atomic_store_n(&queue->stop, true, __ATOMIC_RELEASE);
    kfd_queue_poke();
    pthread_join(kfd_threads[id].thread, NULL);
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
    pthread_mutex_init(&kfd_queue_lock, NULL);
    pthread_mutex_init(&kfd_poke_lock, NULL);
}
