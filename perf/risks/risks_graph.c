/* SPDX-License-Identifier: BSD-3-Clause */

/* A graph of copies is captured once and replayed beside mori_xgmi's copies, as engines
 * replay a decode step beside transfers. */

#include "config.h"

#include "perf/risks/risks_graph.h"
#include "perf/risks/risks_base.h"

#include <string.h>

#define GRAPH_LENGTH ((size_t)1 << 20)
#define GRAPH_NODES 4

/* Functions that the product does not use. */
typedef struct graph_hip {
    int (*begin_capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, void *node, char *log, size_t size);
    int (*launch)(void *exec, void *stream);
    int (*exec_destroy)(void *exec);
    int (*destroy)(void *graph);
} graph_hip_t;


static bool graph_bind(graph_hip_t *hip)
{
    static const char *const names[] = {"hipStreamBeginCapture", "hipStreamEndCapture",
                                        "hipGraphInstantiate",   "hipGraphLaunch",
                                        "hipGraphExecDestroy",   "hipGraphDestroy"};

    return risks_bind(names, sizeof(names) / sizeof(names[0]), hip) == NULL;
}

/* @return NULL: the runtime does not capture these copies. */
static void *graph_capture(const graph_hip_t *hip, void *stream, char *to, char *from)
{
    const size_t length = GRAPH_LENGTH / GRAPH_NODES;
    void *graph = NULL, *exec = NULL;
    unsigned num_failed = 0;
    size_t i;

    if (hip->begin_capture(stream, 0) != 0) {
        return NULL;
    }
    for (i = 0; i < GRAPH_NODES; ++i) {
        num_failed += (gpu->memcpy_async(to + (i * length), from + (i * length), length,
                                         MUCT_HIP_MEMCPY_DEFAULT, stream) != 0);
    }
    if ((hip->end_capture(stream, &graph) != 0) || (num_failed > 0) ||
        (hip->instantiate(&exec, graph, NULL, NULL, 0) != 0)) {
        return NULL;
    }
    risks_need(hip->destroy(graph) == 0, "hipGraphDestroy");
    return exec;
}

void risk_replay(unsigned rounds, void (*copy)(void *))
{
    unsigned i, bad_graphs = 0, bad_copies = 0;
    void *stream, *exec;
    char *to, *from;
    graph_hip_t hip;

    if (!graph_bind(&hip)) {
        risks_report("replay", "not looked at", "the runtime replays no graphs");
        return;
    }

    risks_need(gpu->stream_create_with_priority(&stream, 1, 0) == 0, "hipStreamCreate");
    risks_need(gpu->mem_alloc((void **)&to, GRAPH_LENGTH) == 0, "hipMalloc");
    risks_need(gpu->mem_alloc((void **)&from, GRAPH_LENGTH) == 0, "hipMalloc");
    exec = graph_capture(&hip, stream, to, from);
    if (exec == NULL) {
        risks_report("replay", "not looked at", "the runtime captures no copies");
        return;
    }
    for (i = 0; (i < rounds) && (bad_graphs == 0) && (bad_copies == 0); ++i) {
        risks_fill(from, GRAPH_LENGTH, i);
        risks_fill(local, RISKS_COPIED, i + 1);
        risks_need(hip.launch(exec, stream) == 0, "hipGraphLaunch");
        copy(NULL);
        risks_need(gpu->stream_synchronize(stream) == 0, "hipStreamSynchronize");
        bad_graphs += !risks_is_filled(to, GRAPH_LENGTH, i);
        bad_copies += !risks_is_filled(remote, RISKS_COPIED, i + 1);
    }
    risks_report("replay", (bad_graphs + bad_copies == 0) ? "not seen" : "BROKEN",
                 "%u replays beside mori_xgmi's copies%s%s", i,
                 (bad_graphs > 0) ? ", old bytes behind the graph" : "",
                 (bad_copies > 0) ? ", old bytes behind the copies" : "");
    (void)hip.exec_destroy(exec);
    (void)gpu->mem_free(from);
    (void)gpu->mem_free(to);
    (void)gpu->stream_destroy(stream);
}
