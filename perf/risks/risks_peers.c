/* SPDX-License-Identifier: BSD-3-Clause */

/* Risks with other processes: their namespaces and their deaths. */

#include "config.h"

#include "perf/risks/risks_peers.h"
#include "base/muct_tuning.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>


/* Time after which a thread has begun to close. */
#define RISKS_CLOSING_MS 20

/* A query that takes this long has waited for the other process. */
#define RISKS_HELD_UP_MS 5


/* Whether a call waits for the end of the stream while a thread closes the peer's
 * memory. */
static bool is_held_up(void *stream)
{
    double start = risks_now_ms(), before;
    bool is_busy;

    do {
        before = risks_now_ms();
        is_busy = (gpu->stream_query(stream) == MUCT_HIP_NOT_READY);
    } while (is_busy && (before - start < RISKS_CLOSING_MS));
    return !is_busy && (risks_now_ms() - before > RISKS_HELD_UP_MS);
}

static int exporter_move(risks_where_t where)
{
    static const int spaces[] = {
        [RISKS_OTHER_NETWORK] = CLONE_NEWNET, [RISKS_OTHER_PIDS] = CLONE_NEWPID};
    int status = 0;
    pid_t pid;

    if (where == RISKS_HERE) {
        return 0;
    }
    if ((unshare(spaces[where]) != 0) &&
        (unshare(spaces[where] | CLONE_NEWUSER) != 0)) {
        return errno;
    }
    if (where == RISKS_OTHER_PIDS) { /* children alone are in the new one */
        pid = fork();
        risks_need(pid >= 0, "fork");
        if (pid > 0) {
            (void)waitpid(pid, &status, 0);
            _exit(status != 0);
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    return 0;
}

static void exporter_export(risks_memory_t *memory, void **allocated)
{
    if (*allocated != NULL) {
        risks_need(gpu->mem_free(*allocated) == 0, "hipFree");
    }
    risks_need(gpu->mem_alloc(allocated, RISKS_LENGTH) == 0, "hipMalloc");
    memset(&memory->export, 0, sizeof(memory->export));
    risks_need(muct_xgmi_export_get(gpu, (uintptr_t)*allocated, &memory->export) ==
                   UCS_OK,
               "export");
}

/* @return NULL, or the step that failed. */
static const char *exporter_open(risks_where_t where, const char *dir,
                                 risks_memory_t *memory)
{
    muct_xgmi_self_t its_self;

    memory->error = exporter_move(where);
    if (memory->error != 0) {
        return "unshare(2)";
    }
    memory->error = ENODEV;
    if (muct_gpu_get(&gpu) != UCS_OK) {
        risks_need(where != RISKS_HERE, "the other process' runtime");
        return "the GPU runtime";
    }
    risks_need(muct_xgmi_self_open(dir, &its_self) == UCS_OK, "its control page");
    risks_need(muct_xgmi_slot_alloc(&memory->slot, &memory->generation) == UCS_OK,
               "slot");
    memory->owner = its_self.owner;
    return NULL;
}

static void exporter_main(risks_where_t where, const char *dir, int commands,
                          int answers)
{
    risks_memory_t memory = {.failed = NULL};
    void *allocated = NULL;
    bool is_open = false;
    char command;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(commands, &command, 1) == 1) {
        if (!is_open) { /* not earlier: an end of the parent removes the folder */
            is_open = true;
            memory.failed = exporter_open(where, dir, &memory);
        }
        if (memory.failed == NULL) {
            exporter_export(&memory, &allocated);
        }
        risks_need(write(answers, &memory, sizeof(memory)) == (ssize_t)sizeof(memory),
                   "write");
    }
    _exit(0);
}

void risks_exporter_start(risks_exporter_t *exporter, risks_where_t where,
                          const char *dir)
{
    int commands[2], answers[2];

    risks_need((pipe(commands) == 0) && (pipe(answers) == 0), "pipe");
    exporter->pid = fork();
    risks_need(exporter->pid >= 0, "fork");
    if (exporter->pid == 0) {
        close(commands[1]);
        exporter_main(where, dir, commands[0], answers[1]);
    }
    close(commands[0]);
    close(answers[1]);
    exporter->commands = commands[1];
    exporter->answers = answers[0];
}

void risks_exporter_alloc(const risks_exporter_t *exporter, risks_memory_t *memory)
{
    risks_need(write(exporter->commands, "a", 1) == 1, "write");
    risks_need(read(exporter->answers, memory, sizeof(*memory)) ==
                   (ssize_t)sizeof(*memory),
               "the other process");
}

static void risk_namespace(const char *risk, const char *what,
                           const risks_exporter_t *exporter)
{
    muct_hip_ipc_mem_handle_t handle;
    risks_memory_t memory;
    double start;
    void *mapped;
    int ret;

    risks_exporter_alloc(exporter, &memory);
    if (memory.failed != NULL) {
        risks_report(risk, "not looked at", "%s in another %s: %s", memory.failed, what,
                     strerror(memory.error));
        return;
    }

    memcpy(&handle, memory.export.handle, sizeof(handle));
    start = risks_now_ms();
    ret = gpu->ipc_open_mem_handle(&mapped, handle, gpu->ipc_flags);
    if (ret == 0) {
        risks_report(risk, "not seen", "memory from another %s opened after %.1f ms",
                     what, risks_now_ms() - start);
        risks_need(muct_gpu_ipc_close(gpu, mapped) == 0, "closing IPC memory");
        return;
    }
    risks_report(
        risk, "seen",
        "hipIpcOpenMemHandle() = %s after %.1f ms for memory from another %s: run "
        "containers with %s",
        muct_gpu_error_name(gpu, ret), risks_now_ms() - start, what,
        (strcmp(risk, "network") == 0) ? "--network=host" : "--pid=host");
}

void risk_namespaces(const risks_exporter_t *network, const risks_exporter_t *pids)
{
    risk_namespace("network", "network namespace", network);
    risk_namespace("pids", "PID namespace", pids);
}

/* The end of a peer beside a busy stream. */
typedef struct risks_death {
    double took_ms;
    bool was_busy, is_alive, was_late;
} risks_death_t;

/*
 * Handle a dead peer as mori_xgmi does: first if its copies are over, then all.
 * @return Whether its memory could be mapped.
 */
static bool death_try(const risks_exporter_t *exporter, risks_death_t *death)
{
    const muct_xgmi_region_t *region;
    muct_xgmi_key_t key = {.kind = MUCT_XGMI_KEY_REMOTE};
    muct_xgmi_peer_t *peer;
    risks_memory_t memory;
    bool is_busy;
    double start;
    void *stream;

    risks_exporter_alloc(exporter, &memory);
    key.owner = memory.owner;
    key.address = key.base = memory.export.base;
    key.length = key.alloc_length = memory.export.length;
    key.buffer_id = memory.export.buffer_id;
    key.slot = memory.slot;
    key.generation = memory.generation;
    memcpy(key.handle, memory.export.handle, sizeof(key.handle));
    risks_need(muct_xgmi_peer_get(memory.owner, &peer) == UCS_OK,
               "the other process' page");
    if (muct_xgmi_map_get(map, peer, &key, 0, MUCT_XGMI_OPEN_LIMIT_MS, &region) !=
        UCS_OK) {
        muct_xgmi_peer_put(peer);
        return false;
    }

    stream = risks_busy_start();
    risks_need(kill(exporter->pid, SIGKILL) == 0, "kill");
    risks_need(waitpid(exporter->pid, NULL, 0) == exporter->pid, "waitpid");
    death->was_busy = (gpu->stream_query(stream) == MUCT_HIP_NOT_READY);
    start = risks_now_ms();
    muct_xgmi_map_put(map, region);
    muct_xgmi_map_drop_peer(map, memory.owner);
    death->took_ms = risks_now_ms() - start;
    is_busy = (gpu->stream_query(stream) == MUCT_HIP_NOT_READY);
    death->is_alive = muct_xgmi_peer_is_alive(peer);
    death->was_late = death->was_busy && (!is_busy || is_held_up(stream));
    muct_xgmi_peer_put(peer);
    risks_busy_end(stream);
    return true;
}

void risk_dead_peer(const risks_exporter_t *exporters, int num_exporters)
{
    risks_death_t death = {.was_late = true};
    bool is_mapped = true;
    int i;

    /* on a busy machine, a stream may end while this thread does not run */
    for (i = 0; (i < num_exporters) && is_mapped && !death.is_alive &&
                (death.was_late || !death.was_busy);
         ++i) {
        is_mapped = death_try(&exporters[i], &death);
    }
    if (!is_mapped) {
        risks_report("dead-peer", (i > 1) ? "BROKEN" : "not looked at",
                     "memory of process %d cannot be mapped", i);
        return;
    }

    risks_report("dead-peer",
                 (death.is_alive || death.was_late) ? "BROKEN" : "not seen",
                 "forgetting a killed peer took %.1f ms beside a busy stream%s",
                 death.took_ms, death.was_busy ? "" : " that was over too soon");
}
