/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hipcpu_captures_lock guards the captures, which are few. A thread's mode is its own:
 * the default, global, lets the captures of all threads forbid its calls.
 */

#include "hipcpu_capture.h"

#include "hipcpu_impl.h"

#include <stdlib.h>
#include <string.h>

#define HIPCPU_GRAPH_OPS 16
#define HIPCPU_REPLAYS_A_LOSS 16

struct hipcpu_graph {
    unsigned num_ops, num_launches;
    hipcpu_op_t ops[HIPCPU_GRAPH_OPS];
};

typedef struct hipcpu_capture {
    hipGraph_t graph;
    hipStream_t stream;
    int mode;
    bool is_broken;
    pthread_t thread;
    struct hipcpu_capture *next;
} hipcpu_capture_t;

static pthread_mutex_t hipcpu_captures_lock = PTHREAD_MUTEX_INITIALIZER;
static hipcpu_capture_t *hipcpu_captures;
static _Thread_local int hipcpu_capture_mode = hipStreamCaptureModeGlobal;


/* Locked; the link that leads to a stream's capture, or to the end. */
static hipcpu_capture_t **hipcpu_capture_link(hipStream_t stream)
{
    hipcpu_capture_t **link = &hipcpu_captures;

    while ((*link != NULL) && ((*link)->stream != stream)) {
        link = &(*link)->next;
    }
    return link;
}

bool hipcpu_capture_takes(hipStream_t stream, const hipcpu_op_t *op)
{
    const hipcpu_capture_t *capture;

    if (stream == NULL) {
        return false;
    }
    pthread_mutex_lock(&hipcpu_captures_lock);
    capture = *hipcpu_capture_link(stream);
    if ((capture != NULL) && (op->uses != NULL)) {
        if (capture->graph->num_ops == HIPCPU_GRAPH_OPS) {
            hipcpu_misuse("a graph of more than %d nodes", HIPCPU_GRAPH_OPS);
        }
        capture->graph->ops[capture->graph->num_ops++] = *op;
    }
    pthread_mutex_unlock(&hipcpu_captures_lock);
    return capture != NULL;
}

/*
 * Whether a capture forbids a call of this thread. A capture in global mode forbids the
 * calls of all threads, except allocations of threads in another mode.
 */
static bool hipcpu_capture_forbids(const hipcpu_capture_t *capture, hipcpu_rule_t rule,
                                   hipStream_t stream)
{
    bool is_own = pthread_equal(capture->thread, pthread_self());
    bool is_asked = (stream != NULL) && (capture->stream == stream);

    if (hipcpu_capture_mode == hipStreamCaptureModeRelaxed) {
        return is_asked || ((rule == HIPCPU_RULE_CAPTURE_EVENT) &&
                            hipcpu_rule(HIPCPU_RULE_CAPTURE_EVENT_ANY));
    }
    if ((rule == HIPCPU_RULE_CAPTURE_ALLOC) &&
        (hipcpu_capture_mode == hipStreamCaptureModeThreadLocal)) {
        return is_own;
    }
    return is_asked || (capture->mode == hipStreamCaptureModeGlobal) ||
           (is_own && (capture->mode == hipStreamCaptureModeThreadLocal));
}

hipError_t hipcpu_capture_check(hipcpu_rule_t rule, hipStream_t stream)
{
    hipcpu_capture_t *capture;
    bool is_forbidden = false;

    if (!hipcpu_rule(rule)) {
        return hipSuccess;
    }

    pthread_mutex_lock(&hipcpu_captures_lock);
    for (capture = hipcpu_captures; capture != NULL; capture = capture->next) {
        if (hipcpu_capture_forbids(capture, rule, stream)) {
            is_forbidden = true;
            capture->is_broken = true;
        }
    }
    pthread_mutex_unlock(&hipcpu_captures_lock);
    return is_forbidden ? hipcpu_result(hipErrorStreamCaptureUnsupported) : hipSuccess;
}

hipError_t hipcpu_capture_check_sync(hipError_t error)
{
    hipcpu_capture_t *capture;
    bool is_forbidden;

    if (!hipcpu_rule(HIPCPU_RULE_CAPTURE_SYNC)) {
        return hipSuccess;
    }

    pthread_mutex_lock(&hipcpu_captures_lock);
    is_forbidden = hipcpu_captures != NULL;
    for (capture = hipcpu_captures; capture != NULL; capture = capture->next) {
        capture->is_broken = true;
    }
    pthread_mutex_unlock(&hipcpu_captures_lock);
    return is_forbidden ? hipcpu_result(error) : hipSuccess;
}

hipError_t hipcpu_capture_check_event(hipStream_t stream)
{
    hipcpu_capture_t *capture;
    bool is_captured;

    if ((stream == NULL) || !hipcpu_rule(HIPCPU_RULE_CAPTURED_EVENT)) {
        return hipSuccess;
    }

    pthread_mutex_lock(&hipcpu_captures_lock);
    capture = *hipcpu_capture_link(stream);
    is_captured = (capture != NULL) && !capture->is_broken;
    if (is_captured) {
        capture->is_broken = true;
    }
    pthread_mutex_unlock(&hipcpu_captures_lock);
    return is_captured ? hipcpu_result(hipErrorCapturedEvent) : hipSuccess;
}

hipError_t hipThreadExchangeStreamCaptureMode(int *mode)
{
    int old = hipcpu_capture_mode;

    HIPCPU_ENTER(hipThreadExchangeStreamCaptureMode);
    if ((mode == NULL) || (*mode < hipStreamCaptureModeGlobal) ||
        (*mode > hipStreamCaptureModeRelaxed)) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    hipcpu_capture_mode = *mode;
    *mode = old;
    return hipSuccess;
}

hipError_t hipStreamBeginCapture(hipStream_t stream, int mode)
{
    static const hipcpu_op_t none;
    hipcpu_capture_t *capture;

    HIPCPU_ENTER(hipStreamBeginCapture);
    if ((stream == NULL) || hipcpu_capture_takes(stream, &none)) {
        return hipcpu_result(hipErrorStreamCaptureUnsupported);
    }
    (void)hipcpu_stream_line(stream, "hipStreamBeginCapture");
    capture = calloc(1, sizeof(*capture));
    if (capture != NULL) {
        capture->graph = calloc(1, sizeof(*capture->graph));
    }
    if ((capture == NULL) || (capture->graph == NULL)) {
        free(capture);
        return hipcpu_result(hipErrorOutOfMemory);
    }

    capture->stream = stream;
    capture->mode = mode;
    capture->thread = pthread_self();
    pthread_mutex_lock(&hipcpu_captures_lock);
    capture->next = hipcpu_captures;
    hipcpu_captures = capture;
    pthread_mutex_unlock(&hipcpu_captures_lock);
    return hipSuccess;
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    hipcpu_capture_t **link, *capture;
    hipGraph_t captured;
    bool is_broken;

    HIPCPU_ENTER(hipStreamEndCapture);
    *graph = NULL;
    pthread_mutex_lock(&hipcpu_captures_lock);
    link = hipcpu_capture_link(stream);
    capture = *link;
    if (capture != NULL) {
        *link = capture->next;
    }
    pthread_mutex_unlock(&hipcpu_captures_lock);
    if (capture == NULL) {
        return hipcpu_result(hipErrorIllegalState);
    }

    is_broken = capture->is_broken;
    captured = capture->graph;
    free(capture);
    if (is_broken) {
        free(captured);
        return hipcpu_result(hipErrorStreamCaptureInvalidated);
    }
    *graph = captured;
    return hipSuccess;
}

hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, void *node,
                               char *log, size_t log_size)
{
    HIPCPU_ENTER(hipGraphInstantiate);
    (void)node;
    (void)log;
    (void)log_size;
    *exec = malloc(sizeof(**exec));
    if (*exec == NULL) {
        return hipcpu_result(hipErrorOutOfMemory);
    }
    memcpy(*exec, graph, sizeof(**exec));
    return hipSuccess;
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
    unsigned i, num_ops = exec->num_ops;
    hipcpu_op_t op;

    HIPCPU_ENTER(hipGraphLaunch);
    if ((++exec->num_launches % HIPCPU_REPLAYS_A_LOSS == 0) &&
        hipcpu_rule(HIPCPU_RULE_REPLAY_STALE)) {
        --num_ops;
    }
    for (i = 0; i < num_ops; ++i) {
        memcpy(&op, &exec->ops[i], sizeof(op));
        hipcpu_stream_submit(stream, "hipGraphLaunch", &op);
    }
    return hipSuccess;
}

hipError_t hipGraphExecDestroy(hipGraphExec_t exec)
{
    HIPCPU_ENTER(hipGraphExecDestroy);
    free(exec);
    return hipSuccess;
}

hipError_t hipGraphDestroy(hipGraph_t graph)
{
    HIPCPU_ENTER(hipGraphDestroy);
    if (graph == NULL) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    free(graph);
    return hipSuccess;
}
