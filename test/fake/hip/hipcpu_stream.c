/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Streams and events: handles for lines and for positions on them. A dead handle's
 * memory is kept for a while with another mark, so that its use is seen.
 */

#include "hipcpu_capture.h"
#include "hipcpu_impl.h"
#include "hipcpu_rules.h"

#include <stdlib.h>
#include <time.h>

#define HIPCPU_STREAM_ALIVE 0x53545245u
#define HIPCPU_EVENT_ALIVE 0x45564e54u
#define HIPCPU_HANDLE_DEAD 0x44454144u

struct hipcpu_stream {
    uint32_t mark;
    unsigned flags;
    int priority;
    int device;
    unsigned queue; /* of the device and priority */
    hipcpu_line_t *line;
};

struct hipcpu_event {
    uint32_t mark;
    unsigned flags;
    _Atomic unsigned refs; /* the handle, and each record on its way */
    bool is_held;
    hipStream_t stream;  /* that it was recorded in last */
    hipcpu_line_t *line; /* NULL: never recorded */
    uint64_t seq;
    _Atomic double time_ms;
};

/* Guards where events are, and whether they are held; they are few. References and
 * times are atomic. */
static pthread_mutex_t hipcpu_events_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hipcpu_events_changed = PTHREAD_COND_INITIALIZER;


hipcpu_line_t *hipcpu_stream_line(hipStream_t stream, const char *function)
{
    if (stream == NULL) {
        return hipcpu_line_default(hipcpu_device_current());
    }
    if (stream->mark != HIPCPU_STREAM_ALIVE) {
        hipcpu_misuse("%s(%p): %s", function, (void *)stream,
                      (stream->mark == HIPCPU_HANDLE_DEAD) ? "stream was destroyed"
                                                           : "not a stream");
    }
    return stream->line;
}

static void hipcpu_event_check(hipEvent_t event, const char *function)
{
    if ((event == NULL) || (event->mark != HIPCPU_EVENT_ALIVE)) {
        hipcpu_misuse("%s(%p): %s", function, (void *)event,
                      ((event != NULL) && (event->mark == HIPCPU_HANDLE_DEAD))
                          ? "event was destroyed"
                          : "not an event");
    }
}

uint64_t hipcpu_stream_submit(hipStream_t stream, const char *function, hipcpu_op_t *op)
{
    hipcpu_line_t *line = hipcpu_stream_line(stream, function);

    if (hipcpu_capture_takes(stream, op)) {
        return hipcpu_line_last(line);
    }
    if (stream == NULL) {
        op->device = hipcpu_device_current();
        return hipcpu_line_submit(line, op);
    }
    op->device = stream->device;
    return hipcpu_hwq_submit(line, stream->priority, stream->queue, op);
}

static hipError_t hipcpu_stream_create(hipStream_t *stream_p, unsigned flags,
                                       int priority)
{
    hipStream_t stream;

    if (hipcpu_config.num_devices == 0) {
        return hipErrorNoDevice;
    }
    if ((flags & ~(unsigned)hipStreamNonBlocking) != 0) {
        return hipErrorInvalidValue;
    }

    stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return hipErrorOutOfMemory;
    }
    stream->device = hipcpu_device_current();
    stream->line = hipcpu_line_create(stream->device, flags == 0);
    if (stream->line == NULL) {
        free(stream);
        return hipErrorOutOfMemory;
    }

    stream->mark = HIPCPU_STREAM_ALIVE;
    stream->flags = flags;
    stream->priority = (priority < -1) ? -1 : (priority > 1) ? 1 : priority;
    stream->queue = hipcpu_hwq_choose(stream->device, stream->priority);
    ++hipcpu_counts[HIPCPU_STREAMS];
    *stream_p = stream;
    return hipSuccess;
}

hipError_t hipStreamCreate(hipStream_t *stream)
{
    HIPCPU_ENTER(hipStreamCreate);
    return hipcpu_result(hipcpu_stream_create(stream, 0, 0));
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    HIPCPU_ENTER(hipStreamCreateWithFlags);
    return hipcpu_result(hipcpu_stream_create(stream, flags, 0));
}

hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags,
                                       int priority)
{
    HIPCPU_ENTER(hipStreamCreateWithPriority);
    return hipcpu_result(hipcpu_stream_create(stream, flags, priority));
}

hipError_t hipStreamDestroy(hipStream_t stream)
{
    hipcpu_line_t *line;

    HIPCPU_ENTER(hipStreamDestroy);
    if (stream == NULL) {
        return hipcpu_result(hipErrorInvalidHandle);
    }
    line = hipcpu_stream_line(stream, "hipStreamDestroy");
    if (!hipcpu_line_retire(line)) {
        hipcpu_misuse("hipStreamDestroy(%p): %zu pieces of work are unfinished",
                      (void *)stream, hipcpu_line_pending(line));
    }

    hipcpu_drop_commands(line);
    stream->mark = HIPCPU_HANDLE_DEAD;
    hipcpu_line_put(line);
    hipcpu_quarantine(stream);
    --hipcpu_counts[HIPCPU_STREAMS];
    return hipSuccess;
}

hipError_t hipStreamQuery(hipStream_t stream)
{
    hipcpu_line_t *line;

    HIPCPU_ENTER(hipStreamQuery);
    /* 6.4.3 and 7.2.4 allow the query of the null stream */
    if (stream != NULL) {
        HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_STREAM, stream);
    }
    line = hipcpu_stream_line(stream, "hipStreamQuery");
    hipcpu_drop_commands(line);
    return (hipcpu_line_pending(line) == 0) ? hipSuccess : hipErrorNotReady;
}

hipError_t hipStreamSynchronize(hipStream_t stream)
{
    hipcpu_line_t *line;

    HIPCPU_ENTER(hipStreamSynchronize);
    if (stream != NULL) {
        HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_STREAM, stream);
    }
    line = hipcpu_stream_line(stream, "hipStreamSynchronize");
    hipcpu_drop_commands(line);
    hipcpu_line_wait(line, hipcpu_line_last(line));
    hipcpu_late_land_all();
    hipcpu_pools_settle();
    return hipSuccess;
}

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *flags)
{
    HIPCPU_ENTER(hipStreamGetFlags);
    hipcpu_stream_line(stream, "hipStreamGetFlags");
    *flags = (stream == NULL) ? 0 : stream->flags;
    return hipSuccess;
}

hipError_t hipStreamGetPriority(hipStream_t stream, int *priority)
{
    HIPCPU_ENTER(hipStreamGetPriority);
    hipcpu_stream_line(stream, "hipStreamGetPriority");
    *priority = (stream == NULL) ? 0 : stream->priority;
    return hipSuccess;
}

hipError_t hipStreamGetDevice(hipStream_t stream, int *device)
{
    HIPCPU_ENTER(hipStreamGetDevice);
    hipcpu_stream_line(stream, "hipStreamGetDevice");
    *device = (stream == NULL) ? hipcpu_device_current() : stream->device;
    return hipSuccess;
}

static void hipcpu_write_run(hipcpu_op_t *op)
{
    char *dst =
        hipcpu_resolve("value", op->device, op->u.set.dst, op->u.set.size, NULL);

    /* release: a thread that sees the value sees the stream's earlier writes */
    if (hipcpu_rule(HIPCPU_RULE_MARK_LOST) && (op->u.set.value > 1)) {
        return;
    }
    op->is_flagged = true;
    if (op->u.set.width == 4) {
        __atomic_store_n((uint32_t *)(void *)dst, (uint32_t)op->u.set.value,
                         __ATOMIC_RELEASE);
    } else {
        __atomic_store_n((uint64_t *)(void *)dst, op->u.set.value, __ATOMIC_RELEASE);
    }
}

static bool hipcpu_write_uses(const hipcpu_op_t *op, uintptr_t base, size_t size)
{
    return (op->u.set.dst >= base) && (op->u.set.dst < base + size);
}

static hipError_t hipcpu_stream_write(hipStream_t stream, const char *function,
                                      void *ptr, uint64_t value, unsigned width)
{
    hipcpu_op_t op = {.run = hipcpu_write_run, .uses = hipcpu_write_uses};

    if (((uintptr_t)ptr % width) != 0) {
        return hipErrorInvalidValue;
    }
    op.u.set.dst = (uintptr_t)ptr;
    op.u.set.size = width;
    op.u.set.width = width;
    op.u.set.value = value;
    hipcpu_stream_submit(stream, function, &op);
    return hipSuccess;
}

hipError_t hipStreamWriteValue32(hipStream_t stream, void *ptr, uint32_t value,
                                 unsigned flags)
{
    HIPCPU_ENTER(hipStreamWriteValue32);
    HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_MARK, NULL);
    (void)flags; /* AMD's runtime ignores them */
    return hipcpu_result(
        hipcpu_stream_write(stream, "hipStreamWriteValue32", ptr, value, 4));
}

hipError_t hipStreamWriteValue64(hipStream_t stream, void *ptr, uint64_t value,
                                 unsigned flags)
{
    HIPCPU_ENTER(hipStreamWriteValue64);
    (void)flags;
    return hipcpu_result(
        hipcpu_stream_write(stream, "hipStreamWriteValue64", ptr, value, 8));
}

static void hipcpu_call_run(hipcpu_op_t *op)
{
    hipcpu_late_land();
    if (op->u.call.callback != NULL) {
        if (!hipcpu_rule(HIPCPU_RULE_CALLBACK_LOST)) {
            op->u.call.callback(op->u.call.stream, hipSuccess, op->u.call.arg);
        }
    } else {
        op->u.call.function(op->u.call.arg);
    }
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *arg)
{
    hipcpu_op_t op = {.run = hipcpu_call_run};

    HIPCPU_ENTER(hipLaunchHostFunc);
    if (function == NULL) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    op.u.call.function = function;
    op.u.call.arg = arg;
    hipcpu_stream_submit(stream, "hipLaunchHostFunc", &op);
    return hipSuccess;
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback,
                                void *arg, unsigned flags)
{
    hipcpu_op_t op = {.run = hipcpu_call_run};

    HIPCPU_ENTER(hipStreamAddCallback);
    if ((callback == NULL) || (flags != 0)) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    hipcpu_drop_commands(hipcpu_stream_line(stream, "hipStreamAddCallback"));
    op.u.call.callback = callback;
    op.u.call.stream = stream;
    op.u.call.arg = arg;
    hipcpu_stream_submit(stream, "hipStreamAddCallback", &op);
    return hipSuccess;
}

hipError_t hipEventCreateWithFlags(hipEvent_t *event_p, unsigned flags)
{
    hipEvent_t event;

    HIPCPU_ENTER(hipEventCreateWithFlags);
    if (hipcpu_config.num_devices == 0) {
        return hipcpu_result(hipErrorNoDevice);
    }
    event = calloc(1, sizeof(*event));
    if (event == NULL) {
        return hipcpu_result(hipErrorOutOfMemory);
    }
    event->mark = HIPCPU_EVENT_ALIVE;
    event->flags = flags;
    event->refs = 1;
    ++hipcpu_counts[HIPCPU_EVENTS];
    *event_p = event;
    return hipSuccess;
}

hipError_t hipEventCreate(hipEvent_t *event)
{
    HIPCPU_ENTER(hipEventCreate);
    return hipEventCreateWithFlags(event, hipEventDefault);
}

/* Takes no lock: a record may end under that of its line. */
static void hipcpu_event_put(hipEvent_t event)
{
    if (--event->refs == 0) {
        if (event->line != NULL) {
            hipcpu_line_put(event->line);
        }
        hipcpu_quarantine(event);
    }
}

hipError_t hipEventDestroy(hipEvent_t event)
{
    HIPCPU_ENTER(hipEventDestroy);
    hipcpu_event_check(event, "hipEventDestroy");
    event->mark = HIPCPU_HANDLE_DEAD;
    hipcpu_event_put(event);
    --hipcpu_counts[HIPCPU_EVENTS];
    return hipSuccess;
}

void hipcpu_event_run(hipcpu_op_t *op)
{
    struct timespec now;

    if (!hipcpu_rule(HIPCPU_RULE_LATE_EVENT)) {
        hipcpu_late_land();
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    op->u.event->time_ms = ((double)now.tv_sec * 1e3) + ((double)now.tv_nsec / 1e6);
    hipcpu_event_put(op->u.event);
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    hipcpu_op_t op = {.run = hipcpu_event_run};
    hipcpu_line_t *line, *old;
    uint64_t seq;

    HIPCPU_ENTER(hipEventRecord);
    HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_MARK, NULL);
    hipcpu_event_check(event, "hipEventRecord");
    line = hipcpu_line_get(hipcpu_stream_line(stream, "hipEventRecord"));
    ++event->refs;
    op.u.event = event;
    hipcpu_drop_commands(line);
    seq = hipcpu_line_submit(line, &op);

    pthread_mutex_lock(&hipcpu_events_lock);
    old = event->line;
    event->line = line;
    event->seq = seq;
    event->stream = stream;
    pthread_mutex_unlock(&hipcpu_events_lock);
    if (old != NULL) {
        hipcpu_line_put(old);
    }
    return hipSuccess;
}

/* Get the position of an event, with a reference to the line; false: it is over. */
static bool hipcpu_event_position(hipEvent_t event, hipcpu_wait_t *wait)
{
    pthread_mutex_lock(&hipcpu_events_lock);
    wait->seq = event->seq;
    wait->line = (event->line == NULL) ? NULL : hipcpu_line_get(event->line);
    pthread_mutex_unlock(&hipcpu_events_lock);
    if ((wait->line != NULL) && hipcpu_line_is_done(wait->line, wait->seq)) {
        hipcpu_line_put(wait->line);
        wait->line = NULL;
    }
    return wait->line != NULL;
}

/* Whether a thread may query an event while others capture. */
static hipError_t hipcpu_event_check_use(hipEvent_t event, const char *function)
{
    hipError_t error;

    hipcpu_event_check(event, function);
    error = hipcpu_capture_check_event(event->stream);
    return (error == hipSuccess) ? hipcpu_capture_check(HIPCPU_RULE_CAPTURE_EVENT, NULL)
                                 : error;
}

hipError_t hipEventQuery(hipEvent_t event)
{
    hipcpu_wait_t wait;
    hipError_t error;

    HIPCPU_ENTER(hipEventQuery);
    error = hipcpu_event_check_use(event, "hipEventQuery");
    if (error != hipSuccess) {
        return error;
    }
    if (hipcpu_event_position(event, &wait)) {
        hipcpu_line_put(wait.line);
        return hipErrorNotReady;
    }
    return event->is_held ? hipErrorNotReady : hipSuccess;
}

hipError_t hipEventSynchronize(hipEvent_t event)
{
    hipcpu_wait_t wait;
    hipError_t error;

    HIPCPU_ENTER(hipEventSynchronize);
    error = hipcpu_event_check_use(event, "hipEventSynchronize");
    if ((error == hipSuccess) && !hipcpu_rule(HIPCPU_RULE_CAPTURE_EVENT)) {
        /* 6.4.3 refuses the wait, and not the query, as it does for a stream */
        error = hipcpu_capture_check(HIPCPU_RULE_CAPTURE_STREAM, NULL);
    }
    if (error != hipSuccess) {
        return error;
    }
    if (hipcpu_event_position(event, &wait)) {
        hipcpu_line_wait(wait.line, wait.seq);
        hipcpu_line_put(wait.line);
    }
    pthread_mutex_lock(&hipcpu_events_lock);
    while (event->is_held) {
        pthread_cond_wait(&hipcpu_events_changed, &hipcpu_events_lock);
    }
    pthread_mutex_unlock(&hipcpu_events_lock);
    return hipSuccess;
}

hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop)
{
    hipcpu_wait_t wait;

    HIPCPU_ENTER(hipEventElapsedTime);
    hipcpu_event_check(start, "hipEventElapsedTime");
    hipcpu_event_check(stop, "hipEventElapsedTime");
    if (((start->flags | stop->flags) & hipEventDisableTiming) ||
        (start->line == NULL) || (stop->line == NULL)) {
        return hipcpu_result(hipErrorInvalidHandle);
    }
    if (hipcpu_event_position(start, &wait) || hipcpu_event_position(stop, &wait)) {
        hipcpu_line_put(wait.line);
        return hipErrorNotReady;
    }
    *ms = (float)(stop->time_ms - start->time_ms);
    return hipSuccess;
}

static void hipcpu_nothing_run(hipcpu_op_t *op)
{
    (void)op;
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    hipcpu_op_t op = {.run = hipcpu_nothing_run};
    hipcpu_wait_t wait;

    HIPCPU_ENTER(hipStreamWaitEvent);
    (void)flags;
    hipcpu_stream_line(stream, "hipStreamWaitEvent");
    hipcpu_event_check(event, "hipStreamWaitEvent");
    if (!hipcpu_event_position(event, &wait)) {
        return hipSuccess;
    }

    op.waits = malloc(sizeof(*op.waits));
    if (op.waits == NULL) {
        hipcpu_line_put(wait.line);
        return hipcpu_result(hipErrorOutOfMemory);
    }
    op.waits[0] = wait;
    op.num_waits = 1;
    hipcpu_stream_submit(stream, "hipStreamWaitEvent", &op);
    return hipSuccess;
}

void hipcpu_hold(void *stream)
{
    if (stream == NULL) {
        hipcpu_lines_hold(true);
    } else {
        hipcpu_line_hold(hipcpu_stream_line(stream, "hipcpu_hold"), true);
    }
}

void hipcpu_release(void *stream)
{
    if (stream == NULL) {
        hipcpu_lines_hold(false);
    } else {
        hipcpu_line_hold(hipcpu_stream_line(stream, "hipcpu_release"), false);
    }
}

static void hipcpu_event_set_held(hipEvent_t event, bool is_held)
{
    pthread_mutex_lock(&hipcpu_events_lock);
    event->is_held = is_held;
    pthread_cond_broadcast(&hipcpu_events_changed);
    pthread_mutex_unlock(&hipcpu_events_lock);
}

void hipcpu_hold_event(void *event)
{
    hipcpu_event_check(event, "hipcpu_hold_event");
    hipcpu_event_set_held(event, true);
}

void hipcpu_release_event(void *event)
{
    hipcpu_event_check(event, "hipcpu_release_event");
    hipcpu_event_set_held(event, false);
}

size_t hipcpu_pending(void *stream)
{
    return hipcpu_line_pending(hipcpu_stream_line(stream, "hipcpu_pending"));
}
