/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The operations of a batch are called when it leaves the started list; it becomes free
 * after the last of them returned, so that callbacks may add to the queue, destroy the
 * owner of later ones, and add markers behind them. Mappings of a batch and its
 * announcements to owners are released before the operations are called: when a user is
 * notified of the end of a copy, it may notify the owner.
 *
 * The kernel's flag and arrivals are shared by the launches of a stream, which it
 * orders.
 */

#include "xgmi/copy/xgmi_batch.h"

#include "base/muct_log.h"
#include "xgmi/copy/xgmi_queue_streams.h"

#include <inttypes.h>
#include <stdlib.h>

/* Number of launches after which the stream gets a marker. */
#define MUCT_XGMI_LAUNCHES_TO_MARK 64

/* The smallest part of a run that is worth an engine of its own. */
#define MUCT_XGMI_MIN_PART (1u << 20)


/* ---- life ---- */

void muct_xgmi_batch_release_uses(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch)
{
    muct_xgmi_use_t *use;

    for (use = batch->uses; use < batch->uses + batch->num_uses; ++use) {
        muct_xgmi_map_put(queue->map, use->region);
        muct_xgmi_peer_leave(use->peer, use->slot);
        muct_xgmi_peer_put(use->peer);
    }
    batch->num_uses = 0;
}

void muct_xgmi_batch_count_peer(muct_xgmi_batch_t *batch, const muct_xgmi_peer_t *peer)
{
    unsigned i;

    for (i = 0; i < batch->num_peers; ++i) {
        if (batch->peers[i] == peer) {
            return;
        }
    }
    if (batch->num_peers < MUCT_XGMI_MAX_COUNTED_PEERS) {
        batch->peers[batch->num_peers++] = peer;
    }
}

muct_xgmi_use_t *muct_xgmi_batch_new_use(muct_xgmi_batch_t *batch)
{
    unsigned max_uses;
    void *uses;

    if (batch->num_uses == batch->max_uses) {
        max_uses = (batch->max_uses == 0) ? 16 : 2 * batch->max_uses;
        uses = realloc(batch->uses, max_uses * sizeof(*batch->uses));
        if (uses == NULL) {
            muct_error("failed to allocate %u mappings of a batch", max_uses);
            return NULL;
        }
        batch->uses = uses;
        batch->max_uses = max_uses;
    }

    return &batch->uses[batch->num_uses];
}

ucs_status_t muct_xgmi_batch_init(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch)
{
    size_t count = queue->config->list_size;
    void *entries;
    int ret;

    batch->ops = malloc(count * sizeof(*batch->ops));
    if (batch->ops == NULL) {
        muct_error("failed to allocate %zu operations of a batch", count);
        return UCS_ERR_NO_MEMORY;
    }

    ret = queue->gpu->host_malloc(&entries, count * sizeof(*batch->entries),
                                  MUCT_HIP_HOST_PORTABLE | MUCT_HIP_HOST_MAPPED);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipHostMalloc(list of %zu entries) failed: %s", count,
                   muct_gpu_error_name(queue->gpu, ret));
        free(batch->ops);
        batch->ops = NULL;
        return UCS_ERR_NO_MEMORY;
    }

    batch->entries = entries;
    return UCS_OK;
}

/*
 * Number of entries from which posting starts the batch. A long list is posted without
 * progress, and only progress finishes batches. Once half of the batches are used, each
 * further one takes twice as many entries, so that free batches remain. An operation
 * that is likely to be alone starts at once and need not wait for progress.
 */
static size_t muct_xgmi_queue_early_start(const muct_xgmi_queue_t *queue)
{
    size_t count = queue->config->early_start;
    unsigned i;

    if ((count != 0) && muct_xgmi_gather_is_alone(&queue->gather)) {
        return 1;
    }
    for (i = queue->config->num_lists / 2;
         (i <= queue->num_started) && (count <= queue->config->list_size); ++i) {
        count *= 2;
    }
    return (count == 0) ? queue->config->list_size + 1 : count;
}

void muct_xgmi_batch_open(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch)
{
    batch->markers = NULL;
    batch->markers_tail = &batch->markers;
    batch->thread = pthread_self();
    batch->waits_for = 0;
    batch->has_launch = false;
    batch->used = 0;
    batch->num_peers = 0;
    batch->was_launched = false;
    batch->armed_at_ns = 0;
    batch->status = UCS_OK;
    queue->free = batch->next;
    queue->open = batch;
    muct_xgmi_gather_open(&queue->gather, queue->head == NULL);
    muct_xgmi_wake_if_armed(queue->wake);
    queue->next_op = batch->ops;
    queue->end_op = batch->ops + queue->config->list_size;
    queue->runs = batch->runs;
    queue->num_runs = 0;
    queue->is_by_calls = false;
    batch->stamp = ++queue->stamp;
    muct_xgmi_list_init(&queue->list, batch->entries, queue->config->list_size);
    queue->early = batch->entries + muct_xgmi_queue_early_start(queue);
}

void muct_xgmi_batch_cleanup(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch)
{
    unsigned i;

    for (i = 0; i < queue->num_streams; ++i) {
        if (batch->events[i] != NULL) {
            (void)muct_gpu_forget(queue->gpu,
                                  queue->gpu->event_destroy(batch->events[i]));
        }
    }
    if (batch->entries != NULL) {
        (void)muct_gpu_forget(queue->gpu, queue->gpu->host_free(batch->entries));
    }
    free(batch->ops);
    free(batch->uses);
}


/* ---- starting ---- */

/*
 * For releases whose event queries may break captures: the stream writes a number. The
 * number alone does not order the copies before it (rocm-systems 2304): a short copy is
 * a kernel that releases to its own device. The event releases to the system, and
 * recording it breaks no capture; it is never queried.
 */
static int muct_xgmi_batch_record_mark(muct_xgmi_queue_t *queue,
                                       muct_xgmi_batch_t *batch, unsigned stream)
{
    int ret = queue->gpu->event_record(queue->marker, queue->streams[stream]);

    if (ret != MUCT_HIP_SUCCESS) {
        return ret;
    }

    batch->marks[stream] = ++queue->marks[stream];
    return queue->gpu->stream_write_value32(
        queue->streams[stream], (void *)muct_xgmi_queue_mark_at(queue, stream),
        batch->marks[stream], 0);
}

static int muct_xgmi_batch_record_event(muct_xgmi_queue_t *queue,
                                        muct_xgmi_batch_t *batch, unsigned stream)
{
    muct_hip_event_t *event = &batch->events[stream];
    int ret = MUCT_HIP_SUCCESS;

    if (*event == NULL) {
        ret = queue->gpu->event_create_with_flags(event, MUCT_HIP_EVENT_DISABLE_TIMING);
    }
    if (ret == MUCT_HIP_SUCCESS) {
        ret = queue->gpu->event_record(*event, queue->streams[stream]);
    }
    return ret;
}

/* Make the batch wait for everything in the stream so far. */
static void muct_xgmi_batch_record(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch,
                                   unsigned stream)
{
    int ret = queue->gpu->may_query_events
                  ? muct_xgmi_batch_record_event(queue, batch, stream)
                  : muct_xgmi_batch_record_mark(queue, batch, stream);

    if (ret == MUCT_HIP_SUCCESS) {
        batch->waits_for |= MUCT_XGMI_WAITS_FOR(stream);
        return;
    }

    muct_error("%s on device %d failed: %s",
               queue->gpu->may_query_events
                   ? "hipEventRecord()"
                   : "hipEventRecord() or hipStreamWriteValue32()",
               queue->device, muct_gpu_error_name(queue->gpu, ret));
    batch->status = UCS_ERR_IO_ERROR;
    muct_xgmi_queue_sync(queue, stream);
}

/*
 * Some runtimes keep the resources of each launch until the stream has an event, and a
 * queue of launches alone would never have one. The event is never queried.
 */
static void muct_xgmi_batch_clear_launches(muct_xgmi_queue_t *queue, unsigned stream)
{
    muct_xgmi_launch_stream_t *launches = &queue->launch_streams[stream];
    int ret;

    if (++launches->num_unmarked < MUCT_XGMI_LAUNCHES_TO_MARK) {
        return;
    }

    launches->num_unmarked = 0;
    ret = queue->gpu->event_record(queue->marker, queue->streams[stream]);
    (void)muct_gpu_forget(queue->gpu, ret);
}

static bool muct_xgmi_batch_call(muct_xgmi_queue_t *queue, unsigned stream,
                                 uint64_t dst, uint64_t src, uint64_t length)
{
    int ret;

    ret = muct_gpu_copy(queue->gpu, (void *)(uintptr_t)dst,
                        (const void *)(uintptr_t)src, length, queue->streams[stream]);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipMemcpyAsync(0x%" PRIx64 " from 0x%" PRIx64 " length %" PRIu64
                   ") on device %d failed: %s",
                   dst, src, length, queue->device,
                   muct_gpu_error_name(queue->gpu, ret));
    }
    return ret == MUCT_HIP_SUCCESS;
}

/*
 * Refuse the operations of a list's entry. Several operations share an entry when their
 * pieces were neighbours: an operation that added no entry continues the last piece
 * before it.
 */
static void muct_xgmi_batch_refuse_entry(muct_xgmi_batch_t *batch, size_t index)
{
    uint32_t begin = 0, begin_run = 0;
    muct_xgmi_op_t *op;

    for (op = batch->ops; op < batch->end_op; ++op) {
        if ((op->end_entry == begin) && (op->end_run == begin_run) && (begin > 0)) {
            --begin;
        }
        op->is_refused |= (index >= begin) && (index < op->end_entry);
        begin = op->end_entry;
        begin_run = op->end_run;
    }
}

static void muct_xgmi_batch_refuse_run(muct_xgmi_batch_t *batch, size_t index)
{
    muct_xgmi_op_t *op = batch->ops;

    while (index >= op->end_run) {
        ++op;
    }
    op->is_refused = true;
}

static bool muct_xgmi_use_has(const muct_xgmi_use_t *use, uint64_t address)
{
    return (address - use->start) < use->length;
}

/* Drop the copies announced to an owner that no longer waits for them. */
static void muct_xgmi_batch_refuse_use(muct_xgmi_queue_t *queue,
                                       muct_xgmi_batch_t *batch,
                                       const muct_xgmi_use_t *use)
{
    size_t count = muct_xgmi_list_count(&queue->list);
    muct_xgmi_entry_t *entry;
    muct_xgmi_run_t *run;
    size_t i;

    muct_diag("copies with a key of peer 0x%" PRIx64 " are dropped: the peer has "
              "invalidated the key and timed out waiting for them",
              muct_xgmi_peer_owner(use->peer));
    for (i = 0; i < count; ++i) {
        entry = &batch->entries[i];
        if (muct_xgmi_use_has(use, entry->dst) || muct_xgmi_use_has(use, entry->src)) {
            entry->length = 0;
            muct_xgmi_batch_refuse_entry(batch, i);
        }
    }
    for (i = 0; i < queue->num_runs; ++i) {
        run = &batch->runs[i];
        if (muct_xgmi_use_has(use, run->dst) || muct_xgmi_use_has(use, run->src)) {
            run->length = 0;
            muct_xgmi_batch_refuse_run(batch, i);
        }
    }
}

static bool muct_xgmi_batch_refuse_expired(muct_xgmi_queue_t *queue,
                                           muct_xgmi_batch_t *batch)
{
    const muct_xgmi_use_t *use;
    bool has_refused = false;

    for (use = batch->uses; use < batch->uses + batch->num_uses; ++use) {
        if (ucs_unlikely(
                muct_xgmi_peer_has_expired(use->peer, use->slot, use->generation))) {
            muct_xgmi_batch_refuse_use(queue, batch, use);
            has_refused = true;
        }
    }
    return has_refused;
}

/* Make a call for each piece of an entry. */
static bool muct_xgmi_batch_call_pieces(muct_xgmi_queue_t *queue, unsigned stream,
                                        const muct_xgmi_entry_t *entry)
{
    const muct_xgmi_shape_t *shape = muct_xgmi_list_shape_of(&queue->list, entry);
    uint64_t i;

    for (i = 0; i < entry->length; ++i) {
        if (!muct_xgmi_batch_call(queue, stream, entry->dst + (i * shape->dst_stride),
                                  entry->src + (i * shape->src_stride), shape->piece)) {
            return false;
        }
    }
    return true;
}

static bool muct_xgmi_batch_call_entry(muct_xgmi_queue_t *queue, unsigned stream,
                                       const muct_xgmi_entry_t *entry)
{
    if (muct_xgmi_place_shape(entry->place) != 0) {
        return muct_xgmi_batch_call_pieces(queue, stream, entry);
    }
    return muct_xgmi_batch_call(queue, stream, entry->dst, entry->src, entry->length);
}

static void muct_xgmi_batch_start_calls(muct_xgmi_queue_t *queue,
                                        muct_xgmi_batch_t *batch)
{
    const muct_xgmi_entry_t *entry;

    for (entry = queue->list.begin; entry < queue->list.next; ++entry) {
        if ((entry->length != 0) &&
            !muct_xgmi_batch_call_entry(queue, batch->launch_stream, entry)) {
            muct_xgmi_batch_refuse_entry(batch, (size_t)(entry - queue->list.begin));
        }
    }
    muct_xgmi_batch_record(queue, batch, batch->launch_stream);
}

static bool muct_xgmi_batch_start_kernel(muct_xgmi_queue_t *queue,
                                         muct_xgmi_batch_t *batch)
{
    unsigned stream = batch->launch_stream;
    muct_xgmi_launch_stream_t *launches = &queue->launch_streams[stream];
    muct_xgmi_launch_t launch;
    void *params[] = {&launch.args};
    int ret;

    muct_xgmi_list_finish(&queue->list,
                          muct_xgmi_queue_num_blocks(queue->config, batch->num_peers),
                          &launch);
    launch.args.arrivals = (uintptr_t)muct_xgmi_queue_arrivals_at(queue, stream);
    launch.args.flag =
        queue->is_flag_last ? (uintptr_t)muct_xgmi_queue_flag_at(queue, stream) : 0;
    launch.args.sequence = launches->sequence + 1;
    ret = queue->gpu->module_launch_kernel(queue->kernel, launch.num_blocks, 1, 1,
                                           launch.block_size, 1, 1, 0,
                                           queue->streams[stream], params, NULL);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_diag("hipModuleLaunchKernel(%u x %u) on device %d failed: %s",
                  launch.num_blocks, launch.block_size, queue->device,
                  muct_gpu_error_name(queue->gpu, ret));
        return false;
    }

    if (queue->is_flag_last) {
        batch->sequence = ++launches->sequence;
        batch->has_launch = true;
        muct_xgmi_batch_clear_launches(queue, stream);
    } else {
        muct_xgmi_batch_record(queue, batch, stream);
    }
    return true;
}

/*
 * A run is cut into equal parts, one an engine; without engines the batch's stream
 * takes it whole.
 */
static bool muct_xgmi_batch_start_run(muct_xgmi_queue_t *queue,
                                      const muct_xgmi_batch_t *batch,
                                      const muct_xgmi_run_t *run, unsigned engines,
                                      unsigned *used_p)
{
    unsigned num_parts = (engines == 0) ? 1 : engines;
    uint64_t part = (run->length / num_parts + MUCT_XGMI_MIN_PART - 1) &
                    ~(uint64_t)(MUCT_XGMI_MIN_PART - 1);
    unsigned stream = (engines == 0) ? batch->launch_stream : queue->num_launch_streams;
    unsigned last = stream + num_parts - 1;
    uint64_t offset = 0;
    uint64_t length;
    bool is_good = true;

    for (; offset < run->length; ++stream) {
        length = run->length - offset;
        if ((length > part) && (stream < last)) {
            length = part;
        }
        is_good &= muct_xgmi_batch_call(queue, stream, run->dst + offset,
                                        run->src + offset, length);
        *used_p |= MUCT_XGMI_WAITS_FOR(stream);
        offset += length;
    }
    return is_good;
}

static void muct_xgmi_batch_start_runs(muct_xgmi_queue_t *queue,
                                       muct_xgmi_batch_t *batch)
{
    unsigned engines = muct_xgmi_queue_open_engines(queue);
    unsigned used = 0;
    unsigned i;

    for (i = 0; i < queue->num_runs; ++i) {
        if (!muct_xgmi_batch_start_run(queue, batch, &queue->runs[i], engines, &used)) {
            muct_xgmi_batch_refuse_run(batch, i);
        }
    }
    for (i = 0; i < queue->num_streams; ++i) {
        if (used & MUCT_XGMI_WAITS_FOR(i)) {
            muct_xgmi_batch_record(queue, batch, i);
        }
    }
}

/* Whether copy calls suffice: there are few entries, and none is a run of pieces. */
static bool muct_xgmi_batch_is_few(const muct_xgmi_queue_t *queue)
{
    return (muct_xgmi_list_count(&queue->list) <= queue->config->max_calls) &&
           (queue->list.num_shapes == 0);
}

void muct_xgmi_batch_start(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch)
{
    bool has_refused = muct_xgmi_batch_refuse_expired(queue, batch);

    batch->launch_stream = muct_xgmi_queue_choose_stream(queue);
    if (queue->num_runs > 0) {
        muct_xgmi_batch_start_runs(queue, batch);
    }
    if (!muct_xgmi_list_is_empty(&queue->list) &&
        ((queue->kernel == NULL) || queue->is_by_calls ||
         muct_xgmi_batch_is_few(queue) || has_refused ||
         !muct_xgmi_batch_start_kernel(queue, batch))) {
        muct_xgmi_batch_start_calls(queue, batch);
    }
    batch->used = batch->waits_for;
    batch->was_launched = batch->has_launch;
}


/* ---- finishing ---- */

/*
 * Query whether the device has failed, when the batch's word in host memory is not
 * written. The query is rare and breaks no capture.
 */
static bool muct_xgmi_queue_poll_batch(muct_xgmi_queue_t *queue,
                                       muct_xgmi_batch_t *batch, unsigned stream,
                                       const volatile uint32_t *word, uint32_t value)
{
    int mode, ret;

    if (++queue->num_polls < MUCT_XGMI_POLLS_TO_LOOK) {
        return false;
    }

    queue->num_polls = 0;
    mode = muct_gpu_relax(queue->gpu);
    ret = queue->gpu->stream_query(queue->streams[stream]);
    muct_gpu_unrelax(queue->gpu, mode);
    if (muct_gpu_is_not_ready(ret)) {
        (void)muct_gpu_forget(queue->gpu, ret);
        return false;
    }

    if ((ret == MUCT_HIP_SUCCESS) && muct_xgmi_word_reached(word, value)) {
        return true;
    }

    muct_error("stream %u of device %d ended without writing %u: %s", stream,
               queue->device, value, muct_gpu_error_name(queue->gpu, ret));
    batch->status = UCS_ERR_IO_ERROR;
    muct_xgmi_queue_sync(queue, stream); /* later work of the stream may still run */
    return true;
}

/* Whether a stream of the batch has written the word's value. */
static bool muct_xgmi_batch_has_reached(muct_xgmi_queue_t *queue,
                                        muct_xgmi_batch_t *batch, unsigned stream,
                                        const volatile uint32_t *word, uint32_t value)
{
    if (muct_xgmi_word_reached(word, value)) {
        return true;
    }

    return muct_xgmi_queue_poll_batch(queue, batch, stream, word, value);
}

static bool muct_xgmi_batch_is_event_over(muct_xgmi_queue_t *queue,
                                          muct_xgmi_batch_t *batch, unsigned stream)
{
    int ret = queue->gpu->event_query(batch->events[stream]);

    if (muct_gpu_is_not_ready(ret)) {
        (void)muct_gpu_forget(queue->gpu, ret);
        return false;
    }
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("copies on device %d failed: hipEventQuery() = %s", queue->device,
                   muct_gpu_error_name(queue->gpu, ret));
        batch->status = UCS_ERR_IO_ERROR;
        muct_xgmi_queue_sync(queue, stream); /* copies that cannot be queried may run */
    }
    return true;
}

bool muct_xgmi_batch_is_over(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch)
{
    unsigned i;

    if (batch->has_launch &&
        !muct_xgmi_batch_has_reached(
            queue, batch, batch->launch_stream,
            muct_xgmi_queue_flag_at(queue, batch->launch_stream), batch->sequence)) {
        return false;
    }
    batch->has_launch = false;

    for (i = 0; batch->waits_for != 0; ++i) {
        if (!(batch->waits_for & MUCT_XGMI_WAITS_FOR(i))) {
            continue;
        }
        if (queue->gpu->may_query_events
                ? !muct_xgmi_batch_is_event_over(queue, batch, i)
                : !muct_xgmi_batch_has_reached(queue, batch, i,
                                               muct_xgmi_queue_mark_at(queue, i),
                                               batch->marks[i])) {
            return false;
        }
        batch->waits_for &= ~MUCT_XGMI_WAITS_FOR(i);
    }

    return true;
}

void muct_xgmi_batch_finish(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch,
                            ucs_status_t status)
{
    muct_xgmi_marker_t *marker;
    muct_xgmi_op_t *op;

    batch->next = queue->ending;
    queue->ending = batch;
    for (op = batch->ops; op < batch->end_op; ++op) {
        op->is_refused &= (status == UCS_OK); /* else all get the batch's status */
        op->done(op, op->is_refused ? UCS_ERR_IO_ERROR : status);
    }

    while ((marker = batch->markers) != NULL) {
        batch->markers = marker->next;
        if (batch->markers == NULL) {
            batch->markers_tail = &batch->markers;
        }
        marker->op.done(&marker->op, status);
    }

    queue->ending = batch->next;
    batch->next = queue->free;
    queue->free = batch;
}
