/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Look for known faults of AMD's runtimes (docs/dev/hipcpu.md) in the runtime of this
 * machine, and test whether mori_xgmi works in spite of them. mori_prove runs it.
 *
 *   gpu_risks [ROUNDS [LISTS [PIECES]]]     launches, allocations and small copies to
 * try, 1000 by default, and as many lists of 4096 pieces of 8 KiB that a consumer
 * checks. RISKS="handles last-error ..." in the environment selects these risks alone,
 * RISKS_LIMIT=SECONDS ends waits for a copy [60].
 *
 * It prints a line per risk: "not seen", or "seen" and the observation, which is the
 * runtime's fault. "BROKEN" is a fault of mori_xgmi, and the exit status is then 1.
 */

#include "config.h"

#include "base/muct_topo.h"
#include "base/muct_tuning.h"
#include "perf/base/leave.h"
#include "perf/risks/risks_chunks.h"
#include "perf/risks/risks_graph.h"
#include "perf/risks/risks_nic.h"
#include "perf/risks/risks_peers.h"
#include "perf/risks/risks_watch.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RISKS_MAX_KB 32768
#define RISKS_NOISE_KB 1024
#define RISKS_LAUNCHES_MS 20e3 /* as WATCH_MS of risks_watch.c */
#define RISKS_FEW 1000         /* rounds of slow operations */
#define RISKS_DEATHS 3         /* of other processes, at most */
#define RISKS_TRIES 5          /* the stream may end while this thread does not run */
#define RISKS_LAUNCHES 4000    /* their memory must be measurable */

/* Functions that the product does not use. */
typedef struct risks_hip {
    int (*stream_begin_capture)(void *stream, int mode);
    int (*stream_end_capture)(void *stream, void **graph);
    int (*mem_get_info)(size_t *available, size_t *total);
    int (*peek_at_last_error)(void);
} risks_hip_t;

typedef struct risks_capture {
    pthread_barrier_t barrier;
    int result;
} risks_capture_t;

static risks_hip_t hip;
static muct_xgmi_queue_t *queue;
static muct_xgmi_queue_config_t config;
static muct_xgmi_rkey_t rkey;
static unsigned num_done, num_failed;
static bool is_without_markers;
static char folder[PATH_MAX]; /* of this run, in TMPDIR or /dev/shm */
static pid_t owner;


static void bind_hip(void)
{
    static const char *const names[] = {"hipStreamBeginCapture", "hipStreamEndCapture",
                                        "hipMemGetInfo", "hipPeekAtLastError"};
    const char *missing = risks_bind(names, 4, &hip);

    risks_need(missing == NULL, missing);
}


/* ---- what the runtime does ---- */

static void risk_handles(const muct_xgmi_export_t *first,
                         const muct_xgmi_export_t *next)
{
    int is_same = !memcmp(first->handle, next->handle, sizeof(first->handle));

    if (is_same && (first->buffer_id == next->buffer_id)) {
        risks_report("handles", "BROKEN", "freed and new memory at 0x%lx look the same",
                     (unsigned long)next->base);
    } else {
        risks_report(
            "handles", is_same ? "seen" : "not seen",
            is_same ? "freed and new memory have the same IPC handle; their buffer "
                      "ids are %lu and %lu"
                    : "buffer ids %lu and %lu",
            (unsigned long)first->buffer_id, (unsigned long)next->buffer_id);
    }
}

/* The closing of an opened allocation beside a busy stream */
typedef struct risks_closing {
    bool was_busy, is_busy;
    double took_ms;
} risks_closing_t;

static void risks_close_beside_stream(void *mapped, risks_closing_t *closing)
{
    void *stream = risks_busy_start();
    double start;

    closing->was_busy = (gpu->stream_query(stream) == MUCT_HIP_NOT_READY);
    start = risks_now_ms();
    risks_need(muct_gpu_ipc_close(gpu, mapped) == 0, "closing IPC memory");
    closing->took_ms = risks_now_ms() - start;
    closing->is_busy = (gpu->stream_query(stream) == MUCT_HIP_NOT_READY);
    risks_busy_end(stream);
}

static void risk_import(const muct_xgmi_export_t *export)
{
    risks_closing_t closing = {.is_busy = false};
    double start = risks_now_ms(), took, least = 0;
    muct_hip_ipc_mem_handle_t handle;
    bool is_seen = false;
    void *mapped;
    int ret, i;

    memcpy(&handle, export->handle, sizeof(handle));
    ret = gpu->ipc_open_mem_handle(&mapped, handle, gpu->ipc_flags);
    if (ret != 0) {
        risks_report("import", "seen",
                     "hipIpcOpenMemHandle() = %s after %.1f ms: no way to "
                     "other processes' memory",
                     muct_gpu_error_name(gpu, ret), risks_now_ms() - start);
        return;
    }

    for (i = 0; (i < RISKS_TRIES) && !closing.is_busy; ++i) {
        if (i > 0) {
            start = risks_now_ms();
            risks_need(gpu->ipc_open_mem_handle(&mapped, handle, gpu->ipc_flags) == 0,
                       "opening memory again");
        }
        took = risks_now_ms() - start;
        least = ((i == 0) || (took < least)) ? took : least;
        risks_close_beside_stream(mapped, &closing);
        is_seen = is_seen || closing.was_busy;
    }
    risks_report("import", (least > 1000) ? "seen" : "not seen", "%.1f ms", least);
    risks_report("close-waits", (!closing.is_busy && is_seen) ? "seen" : "not seen",
                 "closing took %.1f ms beside a busy stream%s", closing.took_ms,
                 closing.was_busy ? "" : " that was over too soon");
}


/* ---- mori_xgmi's copies ---- */

static void put_done(muct_xgmi_op_t *op, ucs_status_t status)
{
    (void)op;
    ++num_done;
    num_failed += (status != UCS_OK);
}

/* Copy by calls, a launch, or a run for the engines. Adjacent pieces are not added one
 * after the other, so they do not merge into one call. */
static void put_from(char *from, size_t at, unsigned count, size_t length)
{
    const muct_xgmi_window_t *window;
    unsigned i, before = num_done;
    double start = risks_now_ms();
    size_t place;

    risks_need(muct_xgmi_queue_reserve(queue, count) == UCS_OK, "reserve");
    window = risks_find(queue, &rkey);
    muct_xgmi_queue_set_operands(queue, from, rkey.uid);
    for (i = 0; i < count; ++i) {
        place = at + (((i * 29) % count) * RISKS_PIECE);
        muct_xgmi_queue_add(queue, (uintptr_t)remote + place + window->delta,
                            (uintptr_t)from + place, length);
    }
    muct_xgmi_queue_commit(queue, put_done, NULL, NULL);
    muct_xgmi_queue_start(queue);
    while (num_done == before) {
        (void)muct_xgmi_queue_poll(queue);
        risks_need(!risks_is_late(start), "waiting for a copy's end");
        if (is_without_markers) {
            queue->num_polls = 0; /* a query is a marker, too */
            queue->launch_streams[0].num_unmarked = 0;
        }
    }
}

static void put_and_wait(unsigned count, size_t length)
{
    put_from(local, 0, count, length);
}

static void queue_open(void)
{
    const muct_xgmi_map_config_t map_config = {16, SIZE_MAX, 1000};

    risks_need(muct_xgmi_self_open(folder, &self) == UCS_OK, "control page");
    risks_need(muct_xgmi_map_create(gpu, &map_config, &map) == UCS_OK, "map");
    risks_need(muct_xgmi_wake_create(&wake) == UCS_OK, "wake");
    risks_need(gpu->mem_alloc((void **)&local, RISKS_LENGTH) == 0, "hipMalloc");
    risks_need(gpu->mem_alloc((void **)&remote, RISKS_LENGTH) == 0, "hipMalloc");
    rkey.uid = 1;
    rkey.key.kind = MUCT_XGMI_KEY_REMOTE;
    rkey.key.owner = self.owner;
    rkey.key.address = rkey.key.base = (uintptr_t)remote;
    rkey.key.length = rkey.key.alloc_length = RISKS_LENGTH;
    risks_need(muct_xgmi_slot_alloc(&rkey.key.slot, &rkey.key.generation) == UCS_OK,
               "slot");
    risks_need(muct_xgmi_peer_get(self.owner, &rkey.peer) == UCS_OK, "peer");
    config = (muct_xgmi_queue_config_t){.num_lists = 4,
                                        .list_size = 1024,
                                        .max_started = 2,
                                        .max_calls = 2,
                                        .max_blocks = 8,
                                        .num_launch_streams = 2,
                                        .num_engines = 2,
                                        .min_run = RISKS_RUN,
                                        .late_ms = MUCT_XGMI_LATE_MS,
                                        .has_kernel = 1};
    risks_need(muct_xgmi_queue_create(gpu, map, wake, &config, 0, &queue) == UCS_OK,
               "queue");
}

static void queue_close(void)
{
    muct_xgmi_queue_destroy(queue, UCS_OK);
    muct_xgmi_peer_put(rkey.peer);
    muct_xgmi_map_destroy(map);
    muct_xgmi_wake_put(wake);
    muct_xgmi_self_close();
    (void)gpu->mem_free(local);
    (void)gpu->mem_free(remote);
}

/* Capture in global mode in a thread, as torch.cuda.graph() does. */
static void *capture_main(void *arg)
{
    risks_capture_t *capture = arg;
    void *stream, *graph = NULL;

    risks_need(gpu->stream_create_with_priority(&stream, 1, 0) == 0, "hipStreamCreate");
    risks_need(hip.stream_begin_capture(stream, 0) == 0, "hipStreamBeginCapture");
    pthread_barrier_wait(&capture->barrier);
    pthread_barrier_wait(&capture->barrier);
    capture->result = hip.stream_end_capture(stream, &graph);
    (void)gpu->stream_destroy(stream);
    return NULL;
}

/* The result of a capture beside calls of this thread. */
static int capture_beside(void (*call)(void *), void *arg)
{
    risks_capture_t capture;
    pthread_t thread;

    risks_need(pthread_barrier_init(&capture.barrier, NULL, 2) == 0, "barrier");
    risks_need(pthread_create(&thread, NULL, capture_main, &capture) == 0, "thread");
    pthread_barrier_wait(&capture.barrier);
    call(arg);
    pthread_barrier_wait(&capture.barrier);
    risks_need(pthread_join(thread, NULL) == 0, "join");
    pthread_barrier_destroy(&capture.barrier);
    return capture.result;
}

static void call_stream_query(void *arg)
{
    (void)gpu->stream_query(arg);
}

static void call_event_query(void *arg)
{
    (void)gpu->event_query(arg);
}

static void call_relaxed_event_query(void *arg)
{
    int mode = muct_gpu_relax(gpu);

    (void)gpu->event_query(arg);
    muct_gpu_unrelax(gpu, mode);
}

static void call_puts(void *arg)
{
    char *from = (arg == NULL) ? local : arg;

    /* each way has separate bytes, so that no other way can hide old ones */
    put_from(from, 0, 1, RISKS_RUN);
    put_from(from, RISKS_RUN, RISKS_PIECES, RISKS_PIECE);
    put_from(from, RISKS_RUN + (RISKS_PIECES * RISKS_PIECE), 1, RISKS_PIECE);
}

static void risk_capture(unsigned rounds)
{
    static const struct {
        const char *name;
        void (*call)(void *);
        int is_event;
    } calls[] = {{"capture-stream", call_stream_query, 0},
                 {"capture-event", call_event_query, 1},
                 {"capture-relaxed", call_relaxed_event_query, 1}};
    void *stream, *event;
    unsigned i;
    int ret;

    risks_need(gpu->stream_create_with_priority(&stream, 1, 0) == 0, "hipStreamCreate");
    risks_need(gpu->event_create_with_flags(&event, 2) == 0, "hipEventCreate");
    for (i = 0; i < 3; ++i) {
        ret = capture_beside(calls[i].call, calls[i].is_event ? event : stream);
        risks_report(calls[i].name, (ret == 0) ? "not seen" : "seen",
                     "hipStreamEndCapture() = %d beside another thread's query", ret);
    }
    num_failed = 0;
    for (i = 0, ret = 0; (i < rounds) && (ret == 0) && (num_failed == 0); ++i) {
        ret = capture_beside(call_puts, NULL);
    }
    risks_report(
        "capture-copies", ((ret == 0) && (num_failed == 0)) ? "not seen" : "BROKEN",
        "%u graphs beside mori_xgmi's copies, the last capture %d, %u copies failed", i,
        ret, num_failed);
    (void)gpu->event_destroy(event);
    (void)gpu->stream_destroy(stream);
}

static long rss_kb(void)
{
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    risks_need((file != NULL) && (fscanf(file, "%ld %ld", &total, &resident) == 2),
               "statm");
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Launch as mori_xgmi did before it put a marker behind each 64th launch. */
static void risk_commands(unsigned rounds)
{
    long before = rss_kb(), kept;
    unsigned i;

    is_without_markers = true;
    for (i = 0; i < rounds; ++i) {
        put_and_wait(4, 64);
    }
    is_without_markers = false;
    kept = rss_kb() - before;
    risks_report("commands-kept", (kept > (long)rounds) ? "seen" : "not seen",
                 "%u launches without a marker leave %ld KiB", rounds, kept);
}

static void risk_launches(unsigned rounds)
{
    const double start = risks_now_ms();
    long before = rss_kb(), limit, taken;
    unsigned i;

    for (i = 0; (i < rounds) && (risks_now_ms() - start < RISKS_LAUNCHES_MS); ++i) {
        put_and_wait(4, 64);
    }
    limit = RISKS_NOISE_KB + (long)i;
    taken = rss_kb() - before;
    risks_report("launch-memory",
                 (taken > ((limit < RISKS_MAX_KB) ? limit : RISKS_MAX_KB)) ? "BROKEN"
                                                                           : "not seen",
                 "%u launches took %ld KiB; they end by %s", i, taken,
                 queue->is_flag_last ? "a flag" : "a mark of the stream");
}

static void risk_exports(unsigned rounds)
{
    size_t before, after, total;
    muct_xgmi_export_t export;
    unsigned i;
    void *memory;

    risks_need(hip.mem_get_info(&before, &total) == 0, "hipMemGetInfo");
    for (i = 0; i < rounds; ++i) {
        memset(&export, 0, sizeof(export));
        risks_need(gpu->mem_alloc(&memory, (size_t)2 << 20) == 0, "hipMalloc");
        (void)muct_xgmi_export_get(gpu, (uintptr_t)memory, &export);
        risks_need(gpu->mem_free(memory) == 0, "hipFree");
    }
    risks_need(hip.mem_get_info(&after, &total) == 0, "hipMemGetInfo");
    risks_report("export-leaks",
                 (before > after + ((size_t)64 << 20)) ? "seen" : "not seen",
                 "%ld MiB less after %u times allocated, exported and freed",
                 ((long)before - (long)after) >> 20, rounds);
}

static void risk_error(void)
{
    int pending;

    (void)gpu->memcpy_async(local, local, 8, 77, NULL);
    pending = hip.peek_at_last_error();
    put_and_wait(1, (size_t)4 << 20);
    risks_report("last-error",
                 (!gpu->keeps_errors || (hip.peek_at_last_error() == pending))
                     ? "not seen"
                     : "BROKEN",
                 "the application's error %d before copies, %d after them", pending,
                 hip.peek_at_last_error());
    (void)gpu->get_last_error();
}

/* Find the NIC that UCX selects for a GPU's memory, the nearest one. @return Whether
 * there is one. */
static bool find_nic(ucs_sys_device_t gpu_dev, char *name, size_t size)
{
    ucs_sys_dev_distance_t distance, best = {.latency = 0, .bandwidth = 0};
    char path[512], target[512];
    ucs_sys_device_t nic_dev;
    const struct dirent *entry;
    ssize_t length;
    DIR *dir = opendir("/sys/class/infiniband");

    name[0] = '\0';
    while ((dir != NULL) && ((entry = readdir(dir)) != NULL)) {
        snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", entry->d_name);
        length = readlink(path, target, sizeof(target) - 1);
        if (length <= 0) {
            continue;
        }
        target[length] = '\0';
        if ((ucs_topo_find_device_by_bdf_name(strrchr(target, '/') + 1, &nic_dev) !=
             UCS_OK) ||
            (ucs_topo_get_distance(gpu_dev, nic_dev, &distance) != UCS_OK)) {
            continue;
        }
        if ((best.bandwidth == 0) || (distance.latency < best.latency) ||
            ((distance.latency == best.latency) &&
             (distance.bandwidth > best.bandwidth))) {
            best = distance;
            snprintf(name, size, "%s", entry->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return name[0] != '\0';
}

static void risk_topology(void)
{
    ucs_sys_device_t sys_dev;
    char bdf[32], nic[256], path[64];
    int i;

    for (i = 0; i < gpu->num_devices; ++i) {
        sys_dev = muct_topo_sys_dev(gpu, i);
        if (sys_dev == UCS_SYS_DEVICE_ID_UNKNOWN) {
            risks_report("topology", "seen",
                         "device %d has no PCI address that UCX knows", i);
            continue;
        }
        ucs_topo_sys_device_bdf_name(sys_dev, bdf, sizeof(bdf));
        snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", bdf);
        if (!find_nic(sys_dev, nic, sizeof(nic))) {
            risks_report("topology", "not looked at", "device %d is at %s; no NIC", i,
                         bdf);
        } else if (access(path, F_OK) != 0) {
            risks_report("topology", "seen",
                         "device %d is at %s, which sysfs does not have", i, bdf);
        } else {
            risks_report("topology", "not seen", "device %d is at %s, next to it %s", i,
                         bdf, nic);
        }
    }
}

static void remove_folder(void)
{
    char command[PATH_MAX + 16];

    if (getpid() == owner) { /* and not a child of it */
        snprintf(command, sizeof(command), "rm -rf '%s'", folder);
        (void)!system(command);
    }
}

static bool make_folder(void)
{
    const char *parent = getenv("TMPDIR");

    (void)snprintf(folder, sizeof(folder), "%s/gpu_risks.XXXXXX",
                   (parent != NULL) ? parent : "/dev/shm");
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return false;
    }
    owner = getpid();
    return atexit(remove_folder) == 0;
}

static void print_environment(void)
{
    static const char *const names[] = {"HSA_ENABLE_IPC_MODE_LEGACY",
                                        "GPU_MAX_HW_QUEUES", "HSA_ENABLE_SDMA"};
    struct stat info = {0};
    size_t i;

    (void)stat("/proc/self/ns/net", &info);
    printf("HIP version %d, %d devices, network namespace %lu\n", gpu->version,
           gpu->num_devices, (unsigned long)info.st_ino);
    for (i = 0; i < 3; ++i) {
        printf("%s=%s\n", names[i], getenv(names[i]) ? getenv(names[i]) : "");
    }
    fflush(stdout);
}

/* Whether RISKS is unset or contains one of these names. */
static bool is_wanted(const char *names)
{
    const char *wanted = getenv("RISKS");
    char copy[256], *name, *rest;

    if (wanted == NULL) {
        return true;
    }
    snprintf(copy, sizeof(copy), "%s", names);
    for (name = strtok_r(copy, " ", &rest); name != NULL;
         name = strtok_r(NULL, " ", &rest)) {
        if (strstr(wanted, name) != NULL) {
            return true;
        }
    }
    return false;
}

static void look_at_copies(unsigned rounds)
{
    if (is_wanted("capture-stream capture-event capture-relaxed capture-copies")) {
        risk_capture((rounds < RISKS_FEW) ? rounds : RISKS_FEW);
    }
    if (is_wanted("replay")) {
        risk_replay((rounds < RISKS_FEW) ? rounds : RISKS_FEW, call_puts);
    }
    if (is_wanted("wake-up")) {
        risk_wake_up((rounds < RISKS_FEW) ? rounds : RISKS_FEW, call_puts);
    }
    if (is_wanted("last-error")) {
        risk_error();
    }
    if (is_wanted("commands-kept launch-memory")) {
        for (unsigned i = 0; i < 100; ++i) {
            put_and_wait(4, 64); /* the first operations allocate memory that is kept */
        }
        risk_commands(RISKS_LAUNCHES);
        risk_launches(rounds);
    }
    if (is_wanted("export-leaks")) {
        risk_exports((rounds < RISKS_FEW) ? rounds : RISKS_FEW);
    }
}

static void look_at_others(const risks_exporter_t *exporters)
{
    risks_memory_t first, next;

    if (is_wanted("handles import close-waits")) {
        risks_exporter_alloc(&exporters[RISKS_HERE], &first);
        risks_exporter_alloc(&exporters[RISKS_HERE], &next);
        risk_handles(&first.export, &next.export);
        risk_import(&next.export);
    }
    if (is_wanted("network pids")) {
        risk_namespaces(&exporters[RISKS_OTHER_NETWORK], &exporters[RISKS_OTHER_PIDS]);
    }
}

/* Call this last: UCP opens the module, which binds the runtime separately. */
static void look_at_nic(unsigned rounds)
{
    const char *names[] = {"nic-flush", "nic-anew"};
    const char *reason = risks_nic_open();
    char *from, *to;
    unsigned i;

    if (reason == NULL) {
        risks_need(gpu->mem_alloc((void **)&from, RISKS_LENGTH) == 0, "hipMalloc");
        risks_need(gpu->mem_alloc((void **)&to, RISKS_LENGTH) == 0, "hipMalloc");
        reason = risks_nic_map(to, RISKS_LENGTH);
        if (reason == NULL) {
            reason = risks_nic_put(from, to, RISKS_LENGTH);
            risks_nic_unmap();
        }
        if (!risks_nic_is_broken()) {
            (void)gpu->mem_free(from);
            (void)gpu->mem_free(to);
        }
    }
    for (i = 0; (reason != NULL) && (i < 2); ++i) {
        risks_report(names[i], risks_nic_is_broken() ? "BROKEN" : "not looked at",
                     "no way by mori_rdma: %s", reason);
    }
    if (reason == NULL) {
        risk_nic_flush(rounds);
    }
    if ((reason == NULL) && !risks_nic_is_broken()) {
        risk_nic_anew((rounds < RISKS_FEW) ? rounds : RISKS_FEW);
    }
    risks_nic_close();
}

int main(int argc, char **argv)
{
    unsigned rounds = (argc > 1) ? (unsigned)strtoul(argv[1], NULL, 0) : 1000;
    unsigned lists = (argc > 2) ? (unsigned)strtoul(argv[2], NULL, 0) : rounds;
    unsigned pieces =
        (argc > 3) ? (unsigned)strtoul(argv[3], NULL, 0) : RISKS_MAX_PIECES;
    risks_exporter_t exporters[RISKS_NUM_WHERE], mortals[RISKS_DEATHS];
    int i;

    risks_need(rounds > 0, "reading ROUNDS: a number is expected, which");
    risks_need((pieces > 0) && (pieces <= RISKS_MAX_PIECES),
               "reading PIECES: 1 to 4096 are expected, which");
    if (!make_folder()) {
        return 77; /* nothing of the GPUs was tried */
    }
    for (i = 0; i < RISKS_NUM_WHERE; ++i) {
        risks_exporter_start(&exporters[i], (risks_where_t)i, folder);
    }
    for (i = 0; is_wanted("dead-peer") && (i < RISKS_DEATHS); ++i) {
        risks_exporter_start(&mortals[i], RISKS_HERE, folder);
    }
    risks_need(muct_gpu_get(&gpu) == UCS_OK, "finding a GPU runtime");
    bind_hip();
    print_environment();
    queue_open();
    look_at_others(exporters);
    look_at_copies(rounds);
    if (is_wanted("chunks")) {
        risk_chunks();
    }
    if (is_wanted("topology")) {
        risk_topology();
    }
    if (is_wanted("consumer")) {
        risk_consumer(lists, pieces);
    }
    if (is_wanted("mark")) {
        risk_mark(rounds);
    }
    if (is_wanted("dead-peer")) {
        risk_dead_peer(mortals, RISKS_DEATHS);
    }
    if (is_wanted("nic-flush nic-anew")) {
        look_at_nic(rounds);
    }
    queue_close();
    printf("%u risks broken\n", risks_num_broken());
    remove_folder();
    perf_leave((risks_num_broken() == 0) ? EXIT_SUCCESS : EXIT_FAILURE);
}
