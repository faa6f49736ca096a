/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/copy/xgmi_queue.h"

#include "base/muct_lock.h"
#include "base/muct_log.h"
#include "xgmi/copy/xgmi_queue_streams.h"
#include "xgmi/copy/xgmi_batch.h"
#include "xgmi/copy/xgmi_loader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


/* Tiles of a list that occupies the device for longer than a launch takes. */
#define MUCT_XGMI_MAX_GATHERED_TILES 1024

/* Operations of a batch from which completing them takes longer than a thread's turn.
 */
#define MUCT_XGMI_MANY_OPS 256

/* Polls between two readings of the clock while a batch is not over. */
#define MUCT_XGMI_WAITS_TO_LOOK 64


/* ---- starting ---- */

void muct_xgmi_queue_start(muct_xgmi_queue_t *queue)
{
    muct_xgmi_batch_t *batch = queue->open;
    int prev;

    if (batch == NULL) {
        return;
    }

    queue->open = NULL;
    muct_xgmi_gather_close(&queue->gather, (size_t)(queue->next_op - batch->ops));
    batch->end_op = queue->next_op;
    batch->next = NULL;
    if (muct_gpu_push_device(queue->gpu, queue->device, &prev) == UCS_OK) {
        muct_xgmi_batch_start(queue, batch);
        muct_gpu_pop_device(queue->gpu, queue->device, prev);
    } else {
        batch->status = UCS_ERR_IO_ERROR;
    }

    pthread_mutex_lock(&queue->lock);
    *queue->tail = batch;
    queue->tail = &batch->next;
    ++queue->num_started;
    pthread_mutex_unlock(&queue->lock);
}

bool muct_xgmi_queue_should_gather(muct_xgmi_queue_t *queue)
{
    return (queue->num_runs == 0) &&
           (queue->list.num_tiles < MUCT_XGMI_MAX_GATHERED_TILES) &&
           muct_xgmi_gather_is_open_ended(
               &queue->gather) && /* reading the clock is slow */
           muct_xgmi_gather_should_wait(&queue->gather,
                                        (size_t)(queue->next_op - queue->open->ops),
                                        muct_xgmi_wake_now_ns());
}

bool muct_xgmi_queue_wants_more(const muct_xgmi_queue_t *queue)
{
    const muct_xgmi_batch_t *batch;
    unsigned num_running = 0;

    for (batch = queue->head; batch != NULL; batch = batch->next) {
        num_running +=
            (batch->waits_for != 0) ||
            (batch->has_launch && !muct_xgmi_batch_is_launch_over(queue, batch));
    }

    return (queue->free != NULL) && (num_running < queue->config->max_started);
}

void muct_xgmi_queue_start_early(muct_xgmi_queue_t *queue)
{
    if (muct_xgmi_queue_wants_more(queue)) {
        muct_xgmi_queue_start(queue);
    } else {
        queue->early = queue->list.next + queue->config->early_start;
    }
}

ucs_status_t muct_xgmi_queue_make_room(muct_xgmi_queue_t *queue, size_t count)
{
    if (queue->open != NULL) {
        if (queue->free == NULL) {
            return UCS_ERR_NO_RESOURCE;
        }
        muct_xgmi_queue_start(queue);
    }

    if (queue->free == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }

    muct_xgmi_batch_open(queue, queue->free);
    return (count <= queue->config->list_size) ? UCS_OK : UCS_ERR_EXCEEDS_LIMIT;
}

ucs_status_t muct_xgmi_queue_add_window(muct_xgmi_queue_t *queue,
                                        const muct_xgmi_rkey_t *rkey,
                                        muct_xgmi_window_t *window)
{
    muct_xgmi_batch_t *batch = queue->open;
    const muct_xgmi_region_t *region;
    muct_xgmi_use_t *use;
    ucs_status_t status;

    if (!muct_xgmi_peer_was_alive(rkey->peer)) {
        return UCS_ERR_UNREACHABLE;
    }
    if (rkey->key.kind == MUCT_XGMI_KEY_PRIVATE) {
        return UCS_ERR_NOT_IMPLEMENTED;
    }

    use = muct_xgmi_batch_new_use(batch);
    if (use == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    if (!muct_xgmi_peer_enter(rkey->peer, rkey->key.slot, rkey->key.generation)) {
        muct_debug("key of 0x%" PRIx64 " length %" PRIu64 " of peer 0x%" PRIx64
                   " is no longer valid",
                   rkey->key.address, rkey->key.length, rkey->key.owner);
        return UCS_ERR_REJECTED;
    }

    status =
        muct_xgmi_map_try(queue->map, rkey->peer, &rkey->key, queue->device, &region);
    if (status == UCS_INPROGRESS) {
        muct_xgmi_map_put(queue->map, region);
    }
    if (status != UCS_OK) {
        muct_xgmi_peer_leave(rkey->peer, rkey->key.slot);
        return status;
    }

    use->peer = muct_xgmi_peer_ref(rkey->peer);
    use->region = region;
    use->slot = rkey->key.slot;
    use->generation = rkey->key.generation;
    use->start = rkey->key.address + region->delta;
    use->length = rkey->key.length;
    ++batch->num_uses;
    queue->is_by_calls |= region->is_pageable;
    muct_xgmi_batch_count_peer(batch, rkey->peer);

    window->uid = rkey->uid;
    window->stamp = queue->stamp;
    window->start = rkey->key.address;
    window->length = rkey->key.length;
    window->delta = region->delta;
    return UCS_OK;
}


/* ---- finishing ---- */

static void muct_xgmi_queue_finish_head(muct_xgmi_queue_t *queue, ucs_status_t status)
{
    muct_xgmi_batch_t *batch = queue->head;

    pthread_mutex_lock(&queue->lock);
    muct_xgmi_batch_release_uses(queue, batch);
    queue->head = batch->next;
    if (queue->head == NULL) {
        queue->tail = &queue->head;
    }
    --queue->num_started;
    pthread_mutex_unlock(&queue->lock);
    queue->num_polls = 0;
    queue->num_waits = 0;
    queue->waits_since_ns = 0;
    queue->is_notifying = false;
    muct_xgmi_batch_finish(queue, batch, status);
}

static bool muct_xgmi_queue_has_many(const muct_xgmi_batch_t *batch)
{
    return (batch->end_op - batch->ops) >= MUCT_XGMI_MANY_OPS;
}

/* Grows with each operation, and with each list. */
static uint64_t muct_xgmi_queue_num_posted(const muct_xgmi_queue_t *queue)
{
    return (queue->stamp << 32) +
           ((queue->open == NULL) ? 0 : (uint64_t)(queue->next_op - queue->open->ops));
}

/* Leave a finished head to its posting thread only while enough lists are free. When
 * free lists are short, the posting thread would wait for this one. */
static bool muct_xgmi_queue_leaves_head(muct_xgmi_queue_t *queue)
{
    const muct_xgmi_batch_t *batch = queue->head;

    return muct_xgmi_queue_has_many(batch) &&
           !pthread_equal(batch->thread, pthread_self()) &&
           (2 * queue->num_started <= queue->config->num_lists) &&
           muct_xgmi_leave_should(&queue->leave, muct_xgmi_queue_num_posted(queue),
                                  muct_xgmi_wake_now_ns());
}

/* Report a head that is late, once. Reading the clock is slow. */
static void muct_xgmi_queue_wait(muct_xgmi_queue_t *queue)
{
    const uint64_t late_ns = queue->config->late_ms * UINT64_C(1000000);
    uint64_t now_ns;

    if ((++queue->num_waits % MUCT_XGMI_WAITS_TO_LOOK) != 0) {
        return;
    }

    now_ns = muct_xgmi_wake_now_ns();
    if (queue->waits_since_ns == 0) {
        queue->waits_since_ns = now_ns;
    } else if ((now_ns > queue->waits_since_ns) &&
               (now_ns - queue->waits_since_ns >= late_ns)) {
        queue->waits_since_ns = UINT64_MAX;
        muct_warn(
            "copies on device %d have not ended in %u ms, and operations wait for "
            "them: its work is held up by a kernel that does not end, or the GPU "
            "has stalled, see dmesg",
            queue->device, queue->config->late_ms);
    }
}

unsigned muct_xgmi_queue_poll(muct_xgmi_queue_t *queue)
{
    unsigned count = 0;

    if ((queue->head != NULL) && muct_xgmi_queue_has_many(queue->head) &&
        pthread_equal(queue->head->thread, pthread_self())) {
        muct_xgmi_leave_came(&queue->leave);
    }

    while ((queue->head != NULL) && muct_xgmi_batch_is_over(queue, queue->head)) {
        if ((count == 0) && muct_xgmi_queue_leaves_head(queue)) {
            return 0;
        }
        muct_xgmi_leave_end(&queue->leave);
        muct_xgmi_queue_finish_head(queue, queue->head->status);
        ++count;
    }
    if (queue->head != NULL) {
        muct_xgmi_queue_wait(queue);
    }

    return count;
}

static muct_xgmi_batch_t *muct_xgmi_batches_find(muct_xgmi_batch_t *batch,
                                                 uint64_t stamp)
{
    while ((batch != NULL) && (batch->stamp != stamp)) {
        batch = batch->next;
    }
    return batch;
}

bool muct_xgmi_queue_add_marker(muct_xgmi_queue_t *queue, uint64_t stamp,
                                muct_xgmi_marker_t *marker)
{
    muct_xgmi_batch_t *batch = muct_xgmi_batches_find(queue->head, stamp);

    if (batch == NULL) {
        batch = muct_xgmi_batches_find(queue->ending, stamp);
    }
    if ((queue->open != NULL) && (queue->open->stamp == stamp)) {
        batch = queue->open;
        muct_xgmi_gather_hurry(&queue->gather);
        muct_xgmi_wake_hurry(queue->wake);
    }
    if (batch == NULL) {
        return false;
    }

    marker->next = NULL;
    *batch->markers_tail = marker;
    batch->markers_tail = &marker->next;
    return true;
}

static void muct_xgmi_ops_disown(muct_xgmi_op_t *op, const muct_xgmi_op_t *end,
                                 const void *owner)
{
    for (; op < end; ++op) {
        if (op->owner == owner) {
            op->owner = NULL;
        }
    }
}

static void muct_xgmi_batches_disown(muct_xgmi_batch_t *batch, const void *owner)
{
    for (; batch != NULL; batch = batch->next) {
        muct_xgmi_ops_disown(batch->ops, batch->end_op, owner);
    }
}

void muct_xgmi_queue_disown(muct_xgmi_queue_t *queue, const void *owner)
{
    muct_xgmi_batches_disown(queue->head, owner);
    muct_xgmi_batches_disown(queue->ending, owner);
    if (queue->open != NULL) {
        muct_xgmi_ops_disown(queue->open->ops, queue->next_op, owner);
    }
}


/* ---- releasing what ended copies use ---- */

/*
 * Two processes that invalidate memory at the same time wait for each other's copies,
 * and neither makes progress meanwhile: UCP requires the invalidation to end before the
 * call returns. The call itself therefore releases what the ended copies of its own
 * process use.
 *
 * muct_xgmi_queues_lock guards the list of queues; the lock of each queue guards its
 * started batches. Only the progress thread modifies a started batch; its completion
 * counters are not read here.
 */

static pthread_mutex_t muct_xgmi_queues_lock = PTHREAD_MUTEX_INITIALIZER;
static muct_xgmi_queue_t *muct_xgmi_queues;

/* In a forked child the parent's queues may be locked, and must not start anything */
static void muct_xgmi_queues_forked(void)
{
    (void)pthread_mutex_init(&muct_xgmi_queues_lock, NULL);
    muct_xgmi_queues = NULL;
}
MUCT_CALL_IN_CHILD(muct_xgmi_queues_forked)


static void muct_xgmi_queue_enlist(muct_xgmi_queue_t *queue)
{
    queue->thread = pthread_self();
    pthread_mutex_lock(&muct_xgmi_queues_lock);
    queue->next = muct_xgmi_queues;
    muct_xgmi_queues = queue;
    pthread_mutex_unlock(&muct_xgmi_queues_lock);
}

static void muct_xgmi_queue_delist(muct_xgmi_queue_t *queue)
{
    muct_xgmi_queue_t **link;

    pthread_mutex_lock(&muct_xgmi_queues_lock);
    for (link = &muct_xgmi_queues; *link != NULL; link = &(*link)->next) {
        if (*link == queue) {
            *link = queue->next;
            break;
        }
    }
    pthread_mutex_unlock(&muct_xgmi_queues_lock);
}

static bool muct_xgmi_batch_has_ended(const muct_xgmi_queue_t *queue,
                                      const muct_xgmi_batch_t *batch)
{
    unsigned i;
    int ret;

    if (batch->was_launched && !muct_xgmi_batch_is_launch_over(queue, batch)) {
        return false;
    }

    for (i = 0; i < MUCT_XGMI_MAX_STREAMS; ++i) {
        if (!(batch->used & MUCT_XGMI_WAITS_FOR(i))) {
            continue;
        }
        if (!queue->gpu->may_query_events) {
            if (!muct_xgmi_word_reached(muct_xgmi_queue_mark_at(queue, i),
                                        batch->marks[i])) {
                return false;
            }
            continue;
        }
        ret = muct_gpu_forget(queue->gpu, queue->gpu->event_query(batch->events[i]));
        if (muct_gpu_is_not_ready(ret)) {
            return false;
        }
    }
    return true;
}

/* Start the gathered copies too, if no other thread can be about to start them. */
static void muct_xgmi_queue_start_own(muct_xgmi_queue_t *queue)
{
    if (queue->config->has_one_thread && pthread_equal(queue->thread, pthread_self())) {
        muct_xgmi_queue_start(queue);
    }
}

void muct_xgmi_queues_release(void)
{
    muct_xgmi_queue_t *queue;
    muct_xgmi_batch_t *batch;

    pthread_mutex_lock(&muct_xgmi_queues_lock);
    for (queue = muct_xgmi_queues; queue != NULL; queue = queue->next) {
        muct_xgmi_queue_start_own(queue);
        pthread_mutex_lock(&queue->lock);
        for (batch = queue->head; batch != NULL; batch = batch->next) {
            if (!muct_xgmi_batch_has_ended(queue, batch)) {
                break; /* batches complete in order: later ones wait even if they have
                          ended */
            }
            muct_xgmi_batch_release_uses(queue, batch);
        }
        pthread_mutex_unlock(&queue->lock);
    }
    pthread_mutex_unlock(&muct_xgmi_queues_lock);
}


/* ---- life ---- */

/* A single stream suffices; with more, launches overlap. */
static ucs_status_t muct_xgmi_queue_create_launch_streams(muct_xgmi_queue_t *queue)
{
    int ret = muct_xgmi_queue_add_streams(queue, queue->config->num_launch_streams);

    queue->num_launch_streams = queue->num_streams;
    if (ret == MUCT_HIP_SUCCESS) {
        return UCS_OK;
    }
    if (queue->num_streams > 0) {
        muct_warn("device %d has %u of %u streams for launches: "
                  "hipStreamCreateWithPriority() = %s",
                  queue->device, queue->num_streams, queue->config->num_launch_streams,
                  muct_gpu_error_name(queue->gpu, ret));
        return UCS_OK;
    }

    muct_error("hipStreamCreateWithPriority() on device %d failed: %s", queue->device,
               muct_gpu_error_name(queue->gpu, ret));
    return UCS_ERR_NO_DEVICE;
}

static ucs_status_t muct_xgmi_queue_create_flags(muct_xgmi_queue_t *queue)
{
    const size_t size =
        (MUCT_XGMI_MAX_LAUNCH_STREAMS + MUCT_XGMI_MAX_STREAMS) * MUCT_XGMI_LINE_SIZE;
    void *flags;
    int ret;

    ret = queue->gpu->host_malloc(&flags, size,
                                  MUCT_HIP_HOST_PORTABLE | MUCT_HIP_HOST_MAPPED |
                                      MUCT_HIP_HOST_COHERENT);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipHostMalloc(%zu) failed: %s", size,
                   muct_gpu_error_name(queue->gpu, ret));
        return UCS_ERR_NO_MEMORY;
    }

    memset(flags, 0, size);
    queue->flags = flags;
    ret = queue->gpu->event_create_with_flags(&queue->marker,
                                              MUCT_HIP_EVENT_DISABLE_TIMING);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipEventCreateWithFlags() on device %d failed: %s", queue->device,
                   muct_gpu_error_name(queue->gpu, ret));
        queue->marker = NULL;
        return UCS_ERR_NO_DEVICE;
    }

    return UCS_OK;
}

/*
 * Each stream clears its own counter, so that no post waits for the runtime's cost of a
 * stream's first use. The flags are zero and serve as a source of zero bytes.
 */
static int muct_xgmi_queue_clear_arrivals(muct_xgmi_queue_t *queue)
{
    int ret = MUCT_HIP_SUCCESS;
    unsigned i;

    for (i = 0; (i < queue->num_launch_streams) && (ret == MUCT_HIP_SUCCESS); ++i) {
        ret = queue->gpu->memcpy_async(muct_xgmi_queue_arrivals_at(queue, i),
                                       (const void *)queue->flags, sizeof(uint32_t),
                                       MUCT_HIP_MEMCPY_DEFAULT, queue->streams[i]);
        if (ret == MUCT_HIP_SUCCESS) {
            ret = queue->gpu->stream_synchronize(queue->streams[i]);
        }
    }
    return ret;
}

/* If there is no kernel, the queue makes copy calls. */
static void muct_xgmi_queue_load_kernel(muct_xgmi_queue_t *queue)
{
    const size_t size = queue->num_launch_streams * MUCT_XGMI_LINE_SIZE;
    int ret;

    if (!queue->config->has_kernel) {
        return;
    }

    ret = queue->gpu->mem_alloc(&queue->arrivals, size);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_diag("device %d copies without the kernel: hipMalloc(%zu) = %s",
                  queue->device, size, muct_gpu_error_name(queue->gpu, ret));
        queue->arrivals = NULL;
        return;
    }

    ret = muct_xgmi_queue_clear_arrivals(queue);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_diag(
            "device %d copies without the kernel: clearing its counter failed: %s",
            queue->device, muct_gpu_error_name(queue->gpu, ret));
        return;
    }

    muct_xgmi_loader_load(queue->gpu, queue->device, &queue->module, &queue->kernel,
                          &queue->is_flag_last);
}

static ucs_status_t muct_xgmi_queue_create_batches(muct_xgmi_queue_t *queue)
{
    ucs_status_t status;
    unsigned i;

    queue->batches = calloc(queue->config->num_lists, sizeof(*queue->batches));
    if (queue->batches == NULL) {
        muct_error("failed to allocate %u batches", queue->config->num_lists);
        return UCS_ERR_NO_MEMORY;
    }

    for (i = 0; i < queue->config->num_lists; ++i) {
        status = muct_xgmi_batch_init(queue, &queue->batches[i]);
        if (status != UCS_OK) {
            return status;
        }
        queue->batches[i].next = queue->free;
        queue->free = &queue->batches[i];
    }

    return UCS_OK;
}

static void muct_xgmi_queue_free(muct_xgmi_queue_t *queue)
{
    const muct_gpu_t *gpu = queue->gpu;
    unsigned i;
    int mode, prev;

    if (muct_gpu_push_device(gpu, queue->device, &prev) != UCS_OK) {
        return; /* the device is gone: leak the memory */
    }

    mode = muct_gpu_relax(gpu);
    for (i = 0; (queue->batches != NULL) && (i < queue->config->num_lists); ++i) {
        muct_xgmi_batch_cleanup(queue, &queue->batches[i]);
    }
    free(queue->batches);
    for (i = 0; i < queue->num_streams; ++i) {
        if (queue->events[i] != NULL) {
            (void)muct_gpu_forget(gpu, gpu->event_destroy(queue->events[i]));
        }
        (void)muct_gpu_forget(gpu, gpu->stream_destroy(queue->streams[i]));
    }
    if (queue->marker != NULL) {
        (void)muct_gpu_forget(gpu, gpu->event_destroy(queue->marker));
    }
    if (queue->module != NULL) {
        (void)muct_gpu_forget(gpu, gpu->module_unload(queue->module));
    }
    if (queue->arrivals != NULL) {
        (void)muct_gpu_forget(gpu, gpu->mem_free(queue->arrivals));
    }
    if (queue->flags != NULL) {
        (void)muct_gpu_forget(gpu, gpu->host_free((void *)queue->flags));
    }
    muct_gpu_unrelax(gpu, mode);
    muct_gpu_pop_device(gpu, queue->device, prev);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/* Create the queue's objects on its device, which is the current one. */
static ucs_status_t muct_xgmi_queue_create_parts(muct_xgmi_queue_t *queue)
{
    int mode = muct_gpu_relax(queue->gpu);
    ucs_status_t status = muct_xgmi_queue_create_launch_streams(queue);

    if (status == UCS_OK) {
        status = muct_xgmi_queue_create_flags(queue);
    }
    if (status == UCS_OK) {
        status = muct_xgmi_queue_create_batches(queue);
    }
    if (status == UCS_OK) {
        muct_xgmi_queue_load_kernel(queue);
    }
    muct_gpu_unrelax(queue->gpu, mode);
    return status;
}

ucs_status_t muct_xgmi_queue_create(const muct_gpu_t *gpu, muct_xgmi_map_t *map,
                                    muct_xgmi_wake_t *wake,
                                    const muct_xgmi_queue_config_t *config, int device,
                                    muct_xgmi_queue_t **queue_p)
{
    muct_xgmi_queue_t *queue = calloc(1, sizeof(*queue));
    ucs_status_t status;
    int prev;

    if (queue == NULL) {
        muct_error("failed to allocate a queue for device %d", device);
        return UCS_ERR_NO_MEMORY;
    }

    queue->gpu = gpu;
    queue->map = map;
    queue->wake = wake;
    queue->config = config;
    queue->device = device;
    queue->tail = &queue->head;
    pthread_mutex_init(&queue->lock, NULL);
    queue->min_run = (config->num_engines > 0) ? config->min_run : SIZE_MAX;
    queue->next_skip = 1;
    status = muct_gpu_push_device(gpu, device, &prev);
    if (status != UCS_OK) {
        pthread_mutex_destroy(&queue->lock);
        free(queue);
        return status;
    }

    status = muct_xgmi_queue_create_parts(queue);
    muct_gpu_pop_device(gpu, device, prev);
    if (status != UCS_OK) {
        muct_xgmi_queue_free(queue);
        return status;
    }

    muct_debug("device %d copies %s, %u lists of %u", device,
               (queue->kernel == NULL) ? "by calls" : "by kernel", config->num_lists,
               config->list_size);
    muct_xgmi_queue_enlist(queue);
    *queue_p = queue;
    return UCS_OK;
}

void muct_xgmi_queue_destroy(muct_xgmi_queue_t *queue, ucs_status_t status)
{
    unsigned i;
    int prev;

    muct_xgmi_queue_delist(queue);
    muct_xgmi_queue_start(queue);
    if (muct_gpu_push_device(queue->gpu, queue->device, &prev) == UCS_OK) {
        for (i = 0; i < queue->num_streams; ++i) {
            muct_xgmi_queue_sync(queue, i);
        }
        muct_gpu_pop_device(queue->gpu, queue->device, prev);
    }

    while (queue->head != NULL) {
        muct_xgmi_queue_finish_head(queue, status);
    }
    muct_xgmi_queue_free(queue);
}
