/* SPDX-License-Identifier: BSD-3-Clause */

/* Tests of libhipcpu when it is configured to be as strict as AMD's runtimes. */

#include "hipcpu.h"
#include "hipcpu_abi.h"
#include "test/support/mkv_check.h"

#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE 8192
#define SMALLER 8000 /* as many pages */
#define LIMIT_S 60

/* Process that exports memory, once for each command. */
typedef struct exporter {
    pid_t pid;
    int commands;
    int answers;
} exporter_t;

static void ok(hipError_t error)
{
    ck_assert_msg(error == hipSuccess, "%s", hipGetErrorName(error));
}

static void exporter_main(int commands, int answers)
{
    hipIpcMemHandle_t handle;
    char command;
    void *memory = NULL;
    size_t size;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(commands, &command, 1) == 1) {
        if ((memory != NULL) && (hipFree(memory) != hipSuccess)) {
            _exit(1);
        }
        size = (size_t)(isupper((unsigned char)command) ? SMALLER : SIZE);
        if ((hipMalloc(&memory, size) != hipSuccess) ||
            (hipMemset(memory, command, size) != hipSuccess) ||
            (hipIpcGetMemHandle(&handle, memory) != hipSuccess) ||
            (write(answers, &handle, sizeof(handle)) != (ssize_t)sizeof(handle))) {
            _exit(1);
        }
    }
    _exit(0);
}

static void exporter_start(exporter_t *exporter)
{
    int commands[2], answers[2];

    ck_assert_int_eq(pipe(commands), 0);
    ck_assert_int_eq(pipe(answers), 0);
    exporter->pid = fork();
    ck_assert_int_ge(exporter->pid, 0);
    if (exporter->pid == 0) {
        close(commands[1]);
        exporter_main(commands[0], answers[1]);
    }
    close(commands[0]);
    close(answers[1]);
    exporter->commands = commands[1];
    exporter->answers = answers[0];
}

/* Memory full of a character, of a capital smaller; earlier memory is freed, and this
 * one is at its place. */
static hipIpcMemHandle_t exporter_alloc(const exporter_t *exporter, char fill)
{
    hipIpcMemHandle_t handle;

    ck_assert_int_eq(write(exporter->commands, &fill, 1), 1);
    ck_assert_int_eq(read(exporter->answers, &handle, sizeof(handle)),
                     (ssize_t)sizeof(handle));
    return handle;
}

static void exporter_end(const exporter_t *exporter)
{
    int status;

    close(exporter->commands);
    ck_assert_int_eq(waitpid(exporter->pid, &status, 0), exporter->pid);
    ck_assert_int_eq(status, 0);
}

START_TEST(a_buffer_has_a_number_that_never_comes_again)
{
    unsigned first = 0, second = 0;
    char *memory, *again;

    ok(hipMalloc((void **)&memory, SIZE));
    ok(hipPointerGetAttribute(&first, HIP_POINTER_ATTRIBUTE_BUFFER_ID, memory + 5));
    ok(hipFree(memory));
    ok(hipMalloc((void **)&again, SIZE));
    ok(hipPointerGetAttribute(&second, HIP_POINTER_ATTRIBUTE_BUFFER_ID, again));
    ck_assert_ptr_eq(memory, again);
    ck_assert_uint_ne(first, second);
    ok(hipFree(again));
    ck_assert_int_eq(
        hipPointerGetAttribute(&first, HIP_POINTER_ATTRIBUTE_BUFFER_ID, again),
        hipErrorInvalidValue);
}
END_TEST

static int pointer_type(const void *address)
{
    hsa_amd_pointer_info_t info = {.size = sizeof(info)};

    ck_assert_int_eq(hsa_amd_pointer_info(address, &info, NULL, NULL, NULL), 0);
    return info.type;
}

/* Neighbours that the program has mapped: one for kernels, two for the runtime. */
START_TEST(chunks_of_mapped_memory_are_allocations_of_their_own)
{
    const hipMemAllocationProp prop = {.type = 1, .location = {1, 0}};
    const hipMemAccessDesc access = {.location = {1, 0}, .flags = 3};
    hipMemGenericAllocationHandle_t chunks[2], retained;
    hipIpcMemHandle_t handle;
    size_t chunk, size;
    char *memory, *other;
    void *base;
    int i;

    ok(hipMemGetAllocationGranularity(&chunk, &prop, 0));
    ok(hipMemAddressReserve((void **)&memory, 2 * chunk, 0, NULL, 0));
    for (i = 0; i < 2; ++i) {
        ok(hipMemCreate(&chunks[i], chunk, &prop, 0));
        ok(hipMemMap(memory + ((size_t)i * chunk), chunk, 0, chunks[i], 0));
        ok(hipMemRelease(chunks[i]));
    }
    ok(hipMemSetAccess(memory, 2 * chunk, &access, 1));
    ok(hipMalloc((void **)&other, 2 * chunk));

    ok(hipMemGetAddressRange(&base, &size, memory + chunk + 5));
    ck_assert_ptr_eq(base, memory + chunk);
    ck_assert_uint_eq(size, chunk);
    ok(hipMemRetainAllocationHandle(&retained, memory + 5));
    ck_assert_ptr_eq(retained, chunks[0]);
    ok(hipMemRelease(retained));
    ck_assert_int_eq(hipMemRetainAllocationHandle(&retained, other),
                     hipErrorInvalidValue);
    ck_assert_int_eq(hipIpcGetMemHandle(&handle, memory), hipErrorInvalidValue);
    ck_assert_int_eq(pointer_type(memory + 5), HIPCPU_HSA_POINTER_RESERVED);
    hipcpu_set_version(7, 2);
    ck_assert_int_eq(pointer_type(memory + 5), HIPCPU_HSA_POINTER_VMEM);
    ck_assert_int_eq(pointer_type(other), HIPCPU_HSA_POINTER_HSA);
    ck_assert_int_eq(pointer_type(&chunks), HIPCPU_HSA_POINTER_UNKNOWN);
    ok(hipMemset(memory, 7, chunk));
    ok(hipMemset(memory + chunk, 7, chunk));
    ok(hipMemcpy(other, memory, chunk, hipMemcpyDefault));
    ck_assert_int_eq(other[chunk - 1], 7);
    ck_assert_int_eq(hipMemcpy(other, memory, chunk + 1, hipMemcpyDefault),
                     hipErrorInvalidValue);
    ck_assert_int_eq(hipMemcpy(memory + 1, other, chunk, hipMemcpyDefault),
                     hipErrorInvalidValue);

    ok(hipFree(other));
    for (i = 0; i < 2; ++i) {
        ok(hipMemUnmap(memory + ((size_t)i * chunk), chunk));
    }
    ok(hipMemAddressFree(memory, 2 * chunk));
}
END_TEST

START_TEST(memory_of_a_stream_has_a_handle_by_the_rule_of_the_release)
{
    hipIpcMemHandle_t handle;
    hipStream_t stream;
    void *memory;

    hipcpu_set_version((_i == 0) ? 6 : 7, 2);
    ok(hipStreamCreate(&stream));
    ok(hipMallocAsync(&memory, SIZE, stream));
    ok(hipMemsetAsync(memory, 1, SIZE, stream));
    ck_assert_int_eq(hipIpcGetMemHandle(&handle, memory),
                     (_i == 0) ? hipSuccess : hipErrorInvalidValue);
    ck_assert_int_eq(pointer_type(memory),
                     (_i == 0) ? HIPCPU_HSA_POINTER_HSA : HIPCPU_HSA_POINTER_VMEM);
    ok(hipFreeAsync(memory, stream));
    ck_assert_uint_eq(hipcpu_live(HIPCPU_ALLOCATIONS), 0);
    ok(hipStreamSynchronize(stream));
    ck_assert_int_eq(pointer_type(memory), HIPCPU_HSA_POINTER_UNKNOWN);
    ok(hipStreamDestroy(stream));
}
END_TEST

static unsigned buffer_id(void *memory)
{
    unsigned id;

    ok(hipPointerGetAttribute(&id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, memory));
    return id;
}

/* One of the application's own: 0 kept, 1 given back when synchronized, 2 trimmed,
 * 3 of another size */
START_TEST(own_pool_keeps_blocks_as_the_default_does)
{
    const hipMemPoolProps props = {.location = {.id = 0}};
    uint64_t threshold = (_i == 1) ? 0 : SIZE;
    void *memory, *again;
    hipStream_t stream;
    hipMemPool_t pool;
    unsigned id;

    hipcpu_set_version(6, 2);
    ok(hipStreamCreate(&stream));
    ok(hipMemPoolCreate(&pool, &props));
    ok(hipMemPoolSetAttribute(pool, 4, &threshold));
    ok(hipMallocFromPoolAsync(&memory, SIZE, pool, stream));
    id = buffer_id(memory);
    ok(hipFreeAsync(memory, stream));
    ok(hipStreamSynchronize(stream));
    if (_i == 2) {
        ok(hipMemPoolTrimTo(pool, 0));
    }
    ok(hipMallocFromPoolAsync(&again, (_i == 3) ? 2 * SIZE : SIZE, pool, stream));
    ck_assert_int_eq(buffer_id(again) == id, _i == 0);
    ok(hipFree(again));
    ok(hipMemPoolDestroy(pool));
    ok(hipStreamDestroy(stream));
}
END_TEST

static void end_late(void *arg)
{
    (void)usleep(20000);
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

START_TEST(memory_is_freed_behind_the_work_of_its_stream)
{
    hipStream_t stream;
    int is_done = 0;
    void *memory;

    ok(hipStreamCreate(&stream));
    ok(hipMallocAsync(&memory, SIZE, stream));
    ok(hipLaunchHostFunc(stream, end_late, &is_done));
    ok(hipFreeAsync(memory, stream));
    ck_assert_int_eq(__atomic_load_n(&is_done, __ATOMIC_ACQUIRE), 1);
    ok(hipStreamDestroy(stream));
}
END_TEST

/* Ends by SIGABRT */
START_TEST(pool_with_blocks_in_use_is_not_destroyed)
{
    const hipMemPoolProps props = {.location = {.id = 0}};
    hipMemPool_t pool;
    void *memory;

    ok(hipMemPoolCreate(&pool, &props));
    ok(hipMallocFromPoolAsync(&memory, SIZE, pool, NULL));
    (void)hipMemPoolDestroy(pool);
}
END_TEST

static int is_over;

static void *use_pool(void *arg)
{
    void *memory;

    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        ok(hipMallocAsync(&memory, SIZE, arg));
        ok(hipFreeAsync(memory, arg));
        ok(hipStreamSynchronize(arg)); /* it gives the block back */
    }
    return NULL;
}

START_TEST(a_child_of_a_thread_that_allocates_has_pools)
{
    uint64_t threshold;
    hipStream_t stream;
    hipMemPool_t pool;
    pthread_t thread;
    int i, status;
    pid_t pid;

    ok(hipStreamCreate(&stream));
    ok(hipDeviceGetDefaultMemPool(&pool, 0));
    ck_assert_int_eq(pthread_create(&thread, NULL, use_pool, stream), 0);
    for (i = 0; i < 200; i++) {
        pid = fork();
        if (pid == 0) {
            alarm(30);
            _exit(hipMemPoolGetAttribute(pool, 4, &threshold) != hipSuccess);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ok(hipStreamDestroy(stream));
}
END_TEST

/* A pool keeps freed memory up to its threshold; what it gives back is new when it is
 * allocated again, and with ROCm 7 what it has kept has a new number as well. */
START_TEST(memory_of_a_pool_is_kept_up_to_its_threshold)
{
    uint64_t threshold = SIZE;
    void *memory, *again;
    hipStream_t stream;
    hipMemPool_t pool;
    unsigned id;

    hipcpu_set_version((_i == 3) ? 7 : 6, 2);
    ok(hipStreamCreate(&stream));
    ok(hipDeviceGetDefaultMemPool(&pool, 0));
    if ((_i == 0) || (_i == 3)) {
        ok(hipMemPoolSetAttribute(pool, 4, &threshold));
    }
    ok(hipMallocAsync(&memory, SIZE, stream));
    id = buffer_id(memory);
    ok(hipFreeAsync(memory, stream));
    ok(hipStreamSynchronize(stream));
    if (_i == 2) {
        ok(hipMemPoolTrimTo(pool, 0));
    }
    ok(hipMallocAsync(&again, SIZE, stream));
    ck_assert_ptr_eq(again, memory);
    ck_assert_int_eq(buffer_id(again) == id, _i == 0);
    ok(hipFree(again));
    ok(hipStreamDestroy(stream));
}
END_TEST

/* Ends by SIGABRT */
START_TEST(memory_that_is_back_in_its_pool_is_not_used)
{
    void *memory;

    ok(hipMallocAsync(&memory, SIZE, NULL));
    ok(hipFreeAsync(memory, NULL));
    if (_i == 0) {
        (void)hipFreeAsync(memory, NULL);
    } else {
        (void)hipMemset(memory, 1, SIZE);
    }
}
END_TEST

/* Map a single chunk, which the program maps and releases itself. */
static void *map_chunk(hipMemGenericAllocationHandle_t *chunk)
{
    const hipMemAllocationProp prop = {.type = 1, .location = {1, 0}};
    size_t size;
    void *memory;

    ok(hipMemGetAllocationGranularity(&size, &prop, 0));
    ok(hipMemAddressReserve(&memory, size, 0, NULL, 0));
    ok(hipMemCreate(chunk, size, &prop, 0));
    ok(hipMemMap(memory, size, 0, *chunk, 0));
    return memory;
}

/* Ends by SIGABRT: allocated memory is retained, or mapped memory exported. */
START_TEST(retaining_aborts_by_the_rule_of_the_release)
{
    hipMemGenericAllocationHandle_t chunk, retained;
    hipIpcMemHandle_t handle;
    void *memory;

    hipcpu_set_rule("amd", true);
    hipcpu_set_version((_i == 0) ? 6 : 7, 2);
    if (_i < 2) {
        ok(hipMalloc(&memory, SIZE));
        (void)hipMemRetainAllocationHandle(&retained, memory);
    } else {
        memory = map_chunk(&chunk);
        (void)hipIpcGetMemHandle(&handle, memory);
    }
}
END_TEST

START_TEST(retaining_takes_a_reference_by_the_rule_of_the_release)
{
    hipMemGenericAllocationHandle_t chunk, retained;
    void *memory;

    hipcpu_set_rule("retain-no-reference", _i == 1);
    memory = map_chunk(&chunk);
    ok(hipMemRetainAllocationHandle(&retained, memory));
    ok(hipMemRelease(retained));
    if (_i == 0) {
        ok(hipMemRelease(chunk));
    } /* else the program's own reference is gone */
    ok(hipMemUnmap(memory, (size_t)2 << 20));
    ok(hipMemAddressFree(memory, (size_t)2 << 20));
}
END_TEST

START_TEST(a_handle_by_address_names_what_is_there_when_it_is_opened)
{
    hipIpcMemHandle_t first, second;
    exporter_t exporter;
    char *old, *now;

    hipcpu_set_rule("ipc-address", true);
    hipcpu_set_version(7, 0); /* each open is a mapping of its own */
    exporter_start(&exporter);
    first = exporter_alloc(&exporter, 'a');
    ok(hipIpcOpenMemHandle((void **)&old, first, 1));
    ck_assert_int_eq(*old, 'a');
    second = exporter_alloc(&exporter, 'b');
    ck_assert_mem_eq(&first, &second, sizeof(first));
    ok(hipIpcOpenMemHandle((void **)&now, first, 1));
    ck_assert_int_eq(*now, 'b');
    ck_assert_int_ne(*old, 'b');
    ok(hipIpcCloseMemHandle(old));
    ok(hipIpcCloseMemHandle(now));
    exporter_end(&exporter);
}
END_TEST

/* A new allocation has the place of one that is still open */
/* XP-03 */
START_TEST(memory_that_overlaps_freed_memory_does_not_open)
{
    hipIpcMemHandle_t first, same, other;
    char *old, *now, *again;
    exporter_t exporter;

    hipcpu_set_rule("ipc-overlap", true);
    hipcpu_set_version(7, 0); /* each open is a mapping of its own */
    exporter_start(&exporter);
    first = exporter_alloc(&exporter, 'a');
    ok(hipIpcOpenMemHandle((void **)&old, first, 1));
    ok(hipIpcOpenMemHandle((void **)&again, first, 1));
    ok(hipIpcCloseMemHandle(again));
    same = exporter_alloc(&exporter, 'b');
    ok(hipIpcOpenMemHandle((void **)&now, same, 1));
    ck_assert_int_eq(*now, 'b');
    ok(hipIpcCloseMemHandle(now));
    other = exporter_alloc(&exporter, 'C');
    ck_assert_int_eq(hipIpcOpenMemHandle((void **)&now, other, 1),
                     hipErrorAlreadyMapped);
    ok(hipIpcCloseMemHandle(old));
    ok(hipIpcOpenMemHandle((void **)&now, other, 1));
    ck_assert_int_eq(*now, 'C');
    ok(hipIpcCloseMemHandle(now));
    exporter_end(&exporter);
}
END_TEST

START_TEST(a_stopped_exporter_answers_no_import)
{
    hipIpcMemHandle_t handle;
    exporter_t exporter;
    void *memory;

    setenv("HIPCPU_IPC_TIMEOUT", "20", 1);
    setenv("HIPCPU_RULES", "ipc-server", 1);
    exporter_start(&exporter);
    handle = exporter_alloc(&exporter, 'a');
    ck_assert_int_eq(kill(exporter.pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(exporter.pid, NULL, WUNTRACED), exporter.pid);
    ck_assert_int_eq(hipIpcOpenMemHandle(&memory, handle, 1),
                     hipErrorInvalidDevicePointer);
    ck_assert_int_eq(kill(exporter.pid, SIGCONT), 0);
    ok(hipIpcOpenMemHandle(&memory, handle, 1));
    ok(hipIpcCloseMemHandle(memory));
    exporter_end(&exporter);
}
END_TEST

static void *event_query(void *arg)
{
    return (void *)(intptr_t)hipEventQuery(arg);
}

static void *relaxed_event_query(void *arg)
{
    int mode = hipStreamCaptureModeRelaxed;

    ok(hipThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, hipStreamCaptureModeGlobal);
    return event_query(arg);
}

static void *stream_query(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)hipStreamQuery(arg);
}

static void *relaxed_stream_query(void *arg)
{
    int mode = hipStreamCaptureModeRelaxed;

    ok(hipThreadExchangeStreamCaptureMode(&mode));
    return stream_query(arg);
}

static void *allocation(void *arg)
{
    void *memory = NULL;
    hipError_t error = hipMalloc(&memory, SIZE);

    (void)arg;
    if (error == hipSuccess) {
        ok(hipFree(memory));
    }
    return (void *)(intptr_t)error;
}

static hipError_t in_thread(void *(*call)(void *), void *arg)
{
    pthread_t thread;
    void *result;

    ck_assert_int_eq(pthread_create(&thread, NULL, call, arg), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return (hipError_t)(intptr_t)result;
}

static void relax(void)
{
    int mode = hipStreamCaptureModeRelaxed;

    ok(hipThreadExchangeStreamCaptureMode(&mode));
}

static void *relaxed_copy(void *arg)
{
    char from[8] = "", to[8];

    (void)arg;
    relax();
    return (void *)(intptr_t)hipMemcpy(to, from, sizeof(to), hipMemcpyHostToHost);
}

static void *relaxed_wait(void *arg)
{
    (void)arg;
    relax();
    return (void *)(intptr_t)hipDeviceSynchronize();
}

static void *registration(void *arg)
{
    static char data[64];

    (void)arg;
    return (void *)(intptr_t)hipHostRegister(data, sizeof(data), 0);
}

/* Effects of a call of another thread on a capture, by the releases' rules. */
START_TEST(a_capture_is_broken_by_the_rule_of_the_release)
{
    static const struct {
        int release[2];
        void *(*call)(void *);
        bool is_event;
        hipError_t call_result, capture_result;
    } cases[] = {
        {{6, 1}, stream_query, false, hipSuccess, hipSuccess},
        {{6, 2}, stream_query, false, 900, 901},
        {{7, 0}, relaxed_stream_query, false, hipSuccess, hipSuccess},
        {{6, 4}, event_query, true, hipSuccess, hipSuccess},
        {{7, 0}, event_query, true, 900, 901},
        {{7, 0}, relaxed_event_query, true, 900, 901},
        {{7, 3}, relaxed_event_query, true, hipSuccess, hipSuccess},
        {{7, 2}, relaxed_event_query, true, hipSuccess, hipSuccess},
        {{6, 4}, allocation, false, 900, 901},
        {{6, 4}, relaxed_copy, false, 906, 901},
        {{7, 2}, relaxed_copy, false, 906, 901},
        {{7, 2}, relaxed_wait, false, 900, 901},
        {{6, 4}, registration, false, 900, 901},
    };
    hipStream_t captured, other;
    hipGraph_t graph;
    hipEvent_t event;

    hipcpu_set_version(cases[_i].release[0], cases[_i].release[1]);
    hipcpu_set_rule("amd", true);
    ok(hipStreamCreate(&captured));
    ok(hipStreamCreate(&other));
    ok(hipEventCreate(&event));
    ok(hipStreamBeginCapture(captured, hipStreamCaptureModeGlobal));
    ck_assert_int_eq(
        in_thread(cases[_i].call, cases[_i].is_event ? (void *)event : (void *)other),
        cases[_i].call_result);
    ck_assert_int_eq(hipStreamEndCapture(captured, &graph), cases[_i].capture_result);
    ck_assert_int_eq(graph != NULL, cases[_i].capture_result == hipSuccess);
    if (graph != NULL) {
        ok(hipGraphDestroy(graph));
    }
    ok(hipEventDestroy(event));
    ok(hipStreamDestroy(captured));
    ok(hipStreamDestroy(other));
}
END_TEST

/* The thread's mode does not matter; the event is of work from before the capture. */
START_TEST(event_of_a_stream_that_captures_ends_the_capture)
{
    static const struct {
        int release[2];
        hipError_t call_result, capture_result;
    } cases[] = {
        {{6, 4}, hipSuccess, hipSuccess}, {{7, 0}, 907, 901}, {{7, 3}, 907, 901}};
    hipStream_t captured;
    hipGraph_t graph;
    hipEvent_t event;

    hipcpu_set_version(cases[_i].release[0], cases[_i].release[1]);
    hipcpu_set_rule("amd", true);
    ok(hipStreamCreate(&captured));
    ok(hipEventCreate(&event));
    ok(hipEventRecord(event, captured));
    ok(hipStreamSynchronize(captured));
    ok(hipStreamBeginCapture(captured, hipStreamCaptureModeRelaxed));
    ck_assert_int_eq(in_thread(relaxed_event_query, event), cases[_i].call_result);
    ck_assert_int_eq(hipStreamEndCapture(captured, &graph), cases[_i].capture_result);
    if (graph != NULL) {
        ok(hipGraphDestroy(graph));
    }
    ok(hipEventDestroy(event));
    ok(hipStreamDestroy(captured));
}
END_TEST

START_TEST(opening_takes_the_configured_time)
{
    struct timespec before, after;
    hipIpcMemHandle_t handle;
    exporter_t exporter;
    void *memory;

    setenv("HIPCPU_IPC_DELAY", "30", 1);
    exporter_start(&exporter);
    handle = exporter_alloc(&exporter, 'a');
    clock_gettime(CLOCK_MONOTONIC, &before);
    ok(hipIpcOpenMemHandle(&memory, handle, 1));
    clock_gettime(CLOCK_MONOTONIC, &after);
    ck_assert(((after.tv_sec - before.tv_sec) * 1000000000) + after.tv_nsec -
                  before.tv_nsec >=
              30000000);
    ok(hipIpcCloseMemHandle(memory));
    exporter_end(&exporter);
}
END_TEST

static void raise_flag(void *arg)
{
    atomic_store((atomic_bool *)arg, true);
}

START_TEST(streams_that_share_a_queue_wait_for_each_other)
{
    enum { NUM = 5 }; /* one more than there are queues */
    hipStream_t streams[NUM];
    atomic_bool done[NUM] = {false};
    int i;

    hipcpu_set_rule("few-queues", true);
    for (i = 0; i < NUM; ++i) {
        ok(hipStreamCreate(&streams[i]));
    }
    hipcpu_hold(streams[0]);
    for (i = 0; i < NUM; ++i) {
        ok(hipLaunchHostFunc(streams[i], raise_flag, &done[i]));
    }
    for (i = 1; i < NUM - 1; ++i) {
        ok(hipStreamSynchronize(streams[i]));
    }
    ck_assert(!done[NUM - 1]);
    hipcpu_release(streams[0]);
    ok(hipStreamSynchronize(streams[NUM - 1]));
    ck_assert(done[0] && done[NUM - 1]);
    for (i = 0; i < NUM; ++i) {
        ok(hipStreamDestroy(streams[i]));
    }
}
END_TEST

static void *close_import(void *arg)
{
    return (void *)(intptr_t)hipIpcCloseMemHandle(arg);
}

START_TEST(closing_memory_waits_for_the_device)
{
    hipIpcMemHandle_t handle;
    exporter_t exporter;
    hipStream_t stream;
    atomic_bool done = false;
    pthread_t thread;
    void *memory, *result;

    hipcpu_set_rule("close-waits", true);
    exporter_start(&exporter);
    handle = exporter_alloc(&exporter, 'a');
    ok(hipIpcOpenMemHandle(&memory, handle, 1));
    ok(hipStreamCreate(&stream));
    hipcpu_hold(stream);
    ok(hipLaunchHostFunc(stream, raise_flag, &done));
    ck_assert_int_eq(pthread_create(&thread, NULL, close_import, memory), 0);
    while (hipcpu_calls("hipIpcCloseMemHandle") == 0) {
        sched_yield();
    }
    ck_assert(hipcpu_is_mapped(memory));
    hipcpu_release(stream);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert(done && !hipcpu_is_mapped(memory));
    ok(hipStreamDestroy(stream));
    exporter_end(&exporter);
}
END_TEST

static void *query_without_end(void *arg)
{
    hipPointerAttribute_t attributes;

    for (;;) {
        (void)hipPointerGetAttributes(&attributes, arg);
    }
    return NULL;
}

/* Closing memory beside calls of another thread, by hipFree() or not */
static void close_beside_calls(hipError_t (*close_it)(void *), unsigned rounds)
{
    hipIpcMemHandle_t handle;
    exporter_t exporter;
    pthread_t thread;
    void *own, *memory;
    unsigned i;

    hipcpu_set_rule("close-races", true);
    exporter_start(&exporter);
    handle = exporter_alloc(&exporter, 'a');
    ok(hipMalloc(&own, SIZE));
    ck_assert_int_eq(pthread_create(&thread, NULL, query_without_end, own), 0);
    for (i = 0; i < rounds; ++i) {
        ok(hipIpcOpenMemHandle(&memory, handle, 1));
        ok(close_it(memory));
        ck_assert(!hipcpu_is_mapped(memory));
    }
    exporter_end(&exporter);
}

START_TEST(closing_memory_beside_a_call_ends_the_process)
{
    close_beside_calls(hipIpcCloseMemHandle, UINT_MAX); /* until a call is beside it */
}
END_TEST

START_TEST(freeing_opened_memory_closes_it_beside_calls)
{
    close_beside_calls(hipFree, 100);
}
END_TEST

START_TEST(exported_memory_is_never_given_back)
{
    hipIpcMemHandle_t handle;
    size_t before, after, total;
    void *memory;

    hipcpu_set_rule("export-leaks", true);
    ok(hipMemGetInfo(&before, &total));
    ok(hipMalloc(&memory, SIZE));
    ok(hipFree(memory));
    ok(hipMemGetInfo(&after, &total));
    ck_assert_uint_eq(before, after);
    ok(hipMalloc(&memory, SIZE));
    ok(hipIpcGetMemHandle(&handle, memory));
    ok(hipFree(memory));
    ok(hipMemGetInfo(&after, &total));
    ck_assert_uint_eq(before, after + SIZE);
}
END_TEST

/* How often the number of hipStreamWriteValue32() is there before the bytes. */
static unsigned count_early_numbers(size_t size, bool has_event)
{
    volatile uint32_t *number;
    unsigned char *src, *dst;
    hipStream_t stream;
    hipEvent_t event;
    unsigned early = 0;
    uint32_t i;

    ok(hipStreamCreate(&stream));
    ok(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    ok(hipHostMalloc((void **)&number, sizeof(*number), 0));
    ok(hipMalloc((void **)&src, size));
    ok(hipMalloc((void **)&dst, size));
    for (i = 1; i <= 200; ++i) {
        memset(src, (int)(i & 0xff), size);
        ok(hipMemcpyAsync(dst, src, size, hipMemcpyDefault, stream));
        if (has_event) {
            ok(hipEventRecord(event, stream));
        }
        ok(hipStreamWriteValue32(stream, (void *)(uintptr_t)number, i, 0));
        while (*number != i) {
            sched_yield();
        }
        early += (dst[size - 1] != (i & 0xff));
        ok(hipStreamSynchronize(stream));
        ck_assert_uint_eq(dst[size - 1], i & 0xff);
    }
    ok(hipFree(dst));
    ok(hipFree(src));
    ok(hipHostFree((void *)(uintptr_t)number));
    ok(hipEventDestroy(event));
    ok(hipStreamDestroy(stream));
    return early;
}

START_TEST(number_behind_a_short_copy_passes_its_bytes)
{
    hipcpu_set_rule("amd", true);
    hipcpu_set_version(7, 2);
    ck_assert_uint_eq(count_early_numbers(SIZE, false), 0);
    hipcpu_set_version(7, 3);
    ck_assert_uint_gt(count_early_numbers(SIZE, false), 0);
    ck_assert_uint_eq(count_early_numbers(SIZE, true), 0);
    ck_assert_uint_eq(count_early_numbers(((size_t)1 << 20) + 1, false), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hipcpu_rules");
    TCase *tcase = tcase_create("rules");

    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_test(tcase, a_buffer_has_a_number_that_never_comes_again);
    tcase_add_test(tcase, chunks_of_mapped_memory_are_allocations_of_their_own);
    tcase_add_loop_test_raise_signal(tcase, retaining_aborts_by_the_rule_of_the_release,
                                     SIGABRT, 0, 3);
    tcase_add_loop_test(tcase, retaining_takes_a_reference_by_the_rule_of_the_release,
                        0, 2);
    tcase_add_loop_test(tcase, memory_of_a_pool_is_kept_up_to_its_threshold, 0, 4);
    tcase_add_loop_test(tcase, own_pool_keeps_blocks_as_the_default_does, 0, 4);
    tcase_add_test(tcase, memory_is_freed_behind_the_work_of_its_stream);
    tcase_add_test_raise_signal(tcase, pool_with_blocks_in_use_is_not_destroyed,
                                SIGABRT);
    tcase_add_test(tcase, a_child_of_a_thread_that_allocates_has_pools);
    tcase_add_loop_test_raise_signal(tcase, memory_that_is_back_in_its_pool_is_not_used,
                                     SIGABRT, 0, 2);
    tcase_add_loop_test(
        tcase, memory_of_a_stream_has_a_handle_by_the_rule_of_the_release, 0, 2);
    tcase_add_test(tcase, a_handle_by_address_names_what_is_there_when_it_is_opened);
    tcase_add_test(tcase, memory_that_overlaps_freed_memory_does_not_open);
    tcase_add_test(tcase, a_stopped_exporter_answers_no_import);
    tcase_add_loop_test(tcase, a_capture_is_broken_by_the_rule_of_the_release, 0, 8);
    tcase_add_loop_test(tcase, event_of_a_stream_that_captures_ends_the_capture, 0, 3);
    tcase_add_test(tcase, opening_takes_the_configured_time);
    tcase_add_test(tcase, streams_that_share_a_queue_wait_for_each_other);
    tcase_add_test(tcase, closing_memory_waits_for_the_device);
    tcase_add_test_raise_signal(tcase, closing_memory_beside_a_call_ends_the_process,
                                SIGABRT);
    tcase_add_test(tcase, freeing_opened_memory_closes_it_beside_calls);
    tcase_add_test(tcase, exported_memory_is_never_given_back);
    tcase_add_test(tcase, number_behind_a_short_copy_passes_its_bytes);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
