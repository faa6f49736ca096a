/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory operations between their issue and the wait for them.
 *
 * An operation is performed (memory, a cache or LDS is read or written) some time after
 * its issue, and completed (its registers are written, its counter goes down) at the
 * wait, in the order of issue. Only operations on overlapping addresses are performed
 * in order as well: a store that is not waited for may be behind a later one.
 */

#include "isa_impl.h"

#include <stdlib.h>


isa_pending_t *isa_pending_create(isa_wave_t *wave, const isa_inst_t *inst)
{
    isa_pending_t *pending = calloc(1, sizeof(*pending));

    if (pending == NULL) {
        isa_fail(wave->gpu, "no memory for a memory operation");
        return NULL;
    }
    pending->inst = inst;
    pending->exec = isa_exec_mask(wave);
    return pending;
}

static void pending_free(isa_pending_t *pending)
{
    isa_line_t *line;

    while ((line = pending->lines) != NULL) {
        pending->lines = line->next;
        free(line);
    }
    free(pending);
}

static void queue_perform(isa_wave_t *wave, isa_pending_t *pending)
{
    if (!pending->performed) {
        pending->performed = true;
        if (pending->perform != NULL) {
            pending->perform(wave, pending);
        }
    }
}

/* Perform one before its turn, and before it those that it overlaps. */
static void queue_perform_early(isa_wave_t *wave, isa_queue_t *queue,
                                isa_pending_t *pending)
{
    isa_pending_t *earlier;

    for (earlier = queue->head; earlier != pending; earlier = earlier->next) {
        if (!earlier->performed && (earlier->low < pending->high) &&
            (pending->low < earlier->high)) {
            queue_perform_early(wave, queue, earlier);
        }
    }
    queue_perform(wave, pending);
}

static void pending_write_back(isa_wave_t *wave, const isa_pending_t *pending)
{
    isa_operand_t result = pending->result;
    unsigned lane, i;
    uint32_t value;

    for (i = 0; i < pending->result.count; ++i, ++result.index) {
        if (result.kind == ISA_SCALAR) {
            isa_write_scalar(wave, &result, 1, pending->data[0][i]);
            continue;
        }
        for (lane = 0; lane < wave->gpu->arch->lanes; ++lane) {
            if (((pending->exec >> lane) & 1) == 0) {
                continue;
            }
            value = pending->data[i][lane];
            if (pending->keep_high) {
                value = (value & 0xffff) |
                        ((uint32_t)isa_read_lane(wave, &result, 1, lane) & 0xffff0000);
            }
            isa_write_lane(wave, &result, 1, lane, value);
        }
    }
}

static void queue_complete(isa_wave_t *wave, isa_queue_t *queue)
{
    isa_pending_t *pending = queue->head;

    queue_perform(wave, pending);
    if (pending->result.kind != ISA_OFF) {
        pending_write_back(wave, pending);
    }
    queue->head = pending->next;
    if (queue->head == NULL) {
        queue->tail = NULL;
    }
    --queue->count;
    pending_free(pending);
}

/* A wave waits for its oldest operation when the counter is at its maximum. */
static unsigned queue_limit(const isa_wave_t *wave, isa_counter_t counter)
{
    return ((counter == ISA_LGKM) && (wave->gpu->arch->lanes == 64)) ? 15 : 63;
}

void isa_issue(isa_wave_t *wave, isa_counter_t counter, isa_pending_t *pending)
{
    isa_queue_t *queue = &wave->queue[counter];

    if (queue->tail == NULL) {
        queue->head = pending;
    } else {
        queue->tail->next = pending;
    }
    queue->tail = pending;
    ++queue->count;
    if (queue->count > queue_limit(wave, counter)) {
        queue_complete(wave, queue);
    }
    if (wave->gpu->timing == ISA_EARLY) {
        queue_complete(wave, queue);
    } else if (pending->at_once) {
        queue_perform_early(wave, queue, pending);
    }
}

/* Nothing but a wait for all is certain where some are out of order. */
static bool queue_is_certain(const isa_queue_t *queue, unsigned count)
{
    const isa_pending_t *pending = queue->head;

    while ((pending != NULL) && !pending->out_of_order) {
        pending = pending->next;
    }
    return (count == 0) || (pending == NULL);
}

void isa_wait_end(isa_wave_t *wave)
{
    isa_queue_t *queue;
    unsigned i;

    for (i = 0; i < ISA_NUM_COUNTERS; ++i) {
        queue = &wave->queue[i];
        if ((queue->count <= wave->waits[i]) ||
            !queue_is_certain(queue, wave->waits[i])) {
            continue;
        }
        while (queue->count > wave->waits[i]) {
            queue_complete(wave, queue);
        }
    }
    wave->state = ISA_RUNNING;
}

/* A write-back moves megabytes while others move a line. */
static bool queue_is_slow(isa_wave_t *wave, const isa_queue_t *queue)
{
    const isa_pending_t *pending = queue->head;

    while ((pending != NULL) && (pending->lines == NULL)) {
        pending = pending->next;
    }
    return (pending != NULL) && (isa_random(wave->gpu, 2) == 0);
}

/* Other waves go on while this one waits. */
void isa_wait(isa_wave_t *wave, const unsigned counts[ISA_NUM_COUNTERS])
{
    bool has_to_wait = false;
    unsigned i;

    wave->is_slow = false;
    for (i = 0; i < ISA_NUM_COUNTERS; ++i) {
        wave->waits[i] = counts[i];
        if (wave->queue[i].count > counts[i]) {
            has_to_wait = true;
            wave->is_slow |= queue_is_slow(wave, &wave->queue[i]);
        }
    }
    if (!has_to_wait) {
        return;
    }
    if ((wave->gpu->timing == ISA_LATE) ||
        ((wave->gpu->timing == ISA_RANDOM) && (isa_random(wave->gpu, 2) == 0))) {
        wave->state = ISA_WAITING;
    } else {
        isa_wait_end(wave);
    }
}

void isa_perform_memory(isa_wave_t *wave)
{
    static const isa_counter_t counters[] = {ISA_VM, ISA_VS};
    isa_pending_t *pending;
    unsigned i;

    for (i = 0; i < sizeof(counters) / sizeof(counters[0]); ++i) {
        pending = wave->queue[counters[i]].head;
        for (; pending != NULL; pending = pending->next) {
            queue_perform(wave, pending);
        }
    }
}

/* Complete some accesses between two instructions (ISA_RANDOM). LDS answers a wave in
 * order. */
void isa_complete_some(isa_wave_t *wave)
{
    isa_counter_t counter = (isa_counter_t)isa_random(wave->gpu, ISA_NUM_COUNTERS);
    isa_queue_t *queue = &wave->queue[counter];
    isa_pending_t *pending = queue->head;
    unsigned skip;

    if ((queue->count == 0) || (isa_random(wave->gpu, 4) != 0)) {
        return;
    }
    if (isa_random(wave->gpu, 2) == 0) {
        queue_complete(wave, queue);
        return;
    }
    skip = (counter == ISA_LGKM) ? 0 : isa_random(wave->gpu, queue->count);
    while (skip-- > 0) {
        pending = pending->next;
    }
    queue_perform_early(wave, queue, pending);
}

void isa_drop(isa_wave_t *wave)
{
    isa_pending_t *pending;
    unsigned i;

    for (i = 0; i < ISA_NUM_COUNTERS; ++i) {
        while ((pending = wave->queue[i].head) != NULL) {
            wave->queue[i].head = pending->next;
            pending_free(pending);
        }
        wave->queue[i].tail = NULL;
        wave->queue[i].count = 0;
    }
}
