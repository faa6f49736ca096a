/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The contract of libhipcpu: AMD's rules for programs that are right, an abort for
 * those that are wrong. Each test runs in a process of its own and may choose the
 * environment before its first call.
 */

#include "test/fake/hip/hipcpu.h"
#include "test/fake/hip/hipcpu_abi.h"
#include "test/support/mkv_check.h"
#include "xgmi/copy/xgmi_list.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 10000

#define ok(_call) ck_assert_int_eq(_call, hipSuccess)

/* Objects that a test does not destroy, for leak checkers: its process ends right
 * after. */
static void *volatile kept[32];
static unsigned num_kept;

static void *keep(void *handle)
{
    kept[num_kept++] = handle;
    return handle;
}

static char *device_alloc(size_t size)
{
    void *ptr;

    ok(hipMalloc(&ptr, size));
    ck_assert_ptr_nonnull(ptr);
    return ptr;
}

static char *host_alloc(size_t size)
{
    void *ptr;

    ok(hipHostMalloc(&ptr, size, 0));
    return ptr;
}

static hipStream_t stream_create(void)
{
    hipStream_t stream;

    ok(hipStreamCreateWithPriority(&stream, hipStreamNonBlocking, -1));
    return keep(stream);
}

START_TEST(bytes_go_to_the_device_and_back)
{
    char *device = device_alloc(LENGTH);
    char data[LENGTH];

    memset(data, 'a', sizeof(data));
    ok(hipMemcpy(device, data, LENGTH, hipMemcpyHostToDevice));
    ok(hipMemset(device + 100, 'b', 100));
    memset(data, 0, sizeof(data));
    ok(hipMemcpy(data, device, LENGTH, hipMemcpyDeviceToHost));
    ck_assert_int_eq(data[99], 'a');
    ck_assert_int_eq(data[100], 'b');
    ck_assert_int_eq(data[199], 'b');
    ck_assert_int_eq(data[200], 'a');
    ck_assert_uint_eq(hipcpu_live(HIPCPU_ALLOCATIONS), 1);
    ok(hipFree(device));
    ck_assert_uint_eq(hipcpu_live(HIPCPU_ALLOCATIONS), 0);
}
END_TEST

/* Check each kind of memory in turn: a copy of so many bytes shows in one count. */
static void expect_counted(hipcpu_direction_t direction, void *dst, const void *src,
                           size_t size)
{
    const unsigned long before[] = {
        hipcpu_copied(HIPCPU_DEVICE_TO_DEVICE), hipcpu_copied(HIPCPU_DEVICE_TO_HOST),
        hipcpu_copied(HIPCPU_HOST_TO_DEVICE), hipcpu_copied(HIPCPU_HOST_TO_HOST)};
    int i;

    ok(hipMemcpy(dst, src, size, hipMemcpyDefault));
    for (i = HIPCPU_DEVICE_TO_DEVICE; i <= HIPCPU_HOST_TO_HOST; ++i) {
        ck_assert_uint_eq(hipcpu_copied((hipcpu_direction_t)i) - before[i],
                          (i == (int)direction) ? size : 0);
    }
}

/* TR-01 */
START_TEST(bytes_are_counted_by_their_direction)
{
    char *device = device_alloc(LENGTH), *pinned = host_alloc(LENGTH);
    char plain[LENGTH] = "", registered[LENGTH] = "";
    char *of_host[] = {plain, pinned, registered, NULL};
    void *other, *managed;
    unsigned i;

    ok(hipHostRegister(registered, sizeof(registered), 0));
    ok(hipMallocManaged(&managed, LENGTH, 1));
    ok(hipSetDevice(1));
    other = device_alloc(LENGTH);
    of_host[3] = managed; /* wherever it is: the processor reads it */
    expect_counted(HIPCPU_DEVICE_TO_DEVICE, other, device, LENGTH);
    expect_counted(HIPCPU_DEVICE_TO_DEVICE, device, device + 5000, 3);
    for (i = 0; i < 4; ++i) {
        expect_counted(HIPCPU_HOST_TO_DEVICE, device, of_host[i], 100 + i);
        expect_counted(HIPCPU_DEVICE_TO_HOST, of_host[i], other, LENGTH - i);
        expect_counted(HIPCPU_HOST_TO_HOST, of_host[i], of_host[3 - i], 7);
    }
    ok(hipHostUnregister(registered));

    hipcpu_set_copy(false); /* nothing moves */
    i = (unsigned)hipcpu_copied(HIPCPU_HOST_TO_DEVICE);
    ok(hipMemcpy(device, plain, LENGTH, hipMemcpyHostToDevice));
    ck_assert_uint_eq(hipcpu_copied(HIPCPU_HOST_TO_DEVICE), i);
}
END_TEST

START_TEST(a_process_sees_the_devices_it_is_given)
{
    char bus_id[32], other[32];
    int count, device;

    setenv("HIPCPU_DEVICES", "4", 1);
    setenv("HIP_VISIBLE_DEVICES", "3,1", 1);
    ok(hipGetDeviceCount(&count));
    ck_assert_int_eq(count, 2);
    ok(hipDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0));
    ok(hipDeviceGetPCIBusId(other, sizeof(other), 1));
    ck_assert_str_eq(bus_id, "0000:3c:00.0");
    ck_assert_str_eq(other, "0000:1c:00.0");
    ok(hipDeviceGetByPCIBusId(&device, "0000:1c:00.0"));
    ck_assert_int_eq(device, 1);
    ck_assert_int_eq(hipSetDevice(2), hipErrorInvalidDevice);
}
END_TEST

START_TEST(without_a_device_nothing_works_and_nothing_breaks)
{
    hipStream_t stream;
    void *ptr;
    int count;

    setenv("HIP_VISIBLE_DEVICES", "-1", 1);
    ck_assert_int_eq(hipGetDeviceCount(&count), hipErrorNoDevice);
    ck_assert_int_eq(count, 0);
    ck_assert_int_eq(hipMalloc(&ptr, 1), hipErrorNoDevice);
    ck_assert_int_eq(hipStreamCreate(&stream), hipErrorNoDevice);
}
END_TEST

START_TEST(memory_ends)
{
    void *ptr;

    setenv("HIPCPU_MEMORY", "1048576", 1);
    ck_assert_int_eq(hipMalloc(&ptr, 1048577), hipErrorOutOfMemory);
    ok(hipMalloc(&ptr, 1048576));
    ck_assert_int_eq(hipMalloc(&ptr, 1), hipErrorOutOfMemory);
}
END_TEST

START_TEST(addresses_are_explained_by_the_rules_of_the_version)
{
    static const struct {
        const char *version;
        int host, device, managed, unknown;
    } rules[] = {{"5.7", 0, 1, 4, hipErrorInvalidValue}, {"6.4", 1, 2, 3, hipSuccess}};
    hipPointerAttribute_t attr;
    char *device, *host;
    void *managed, *base;
    size_t size = 0;

    setenv("HIPCPU_VERSION", rules[_i].version, 1);
    ok(hipSetDevice(1));
    device = device_alloc(LENGTH);
    host = host_alloc(LENGTH);
    ok(hipMallocManaged(&managed, LENGTH, 1));

    ok(hipPointerGetAttributes(&attr, device + LENGTH - 1));
    ck_assert_int_eq(attr.type, rules[_i].device);
    ck_assert_int_eq(attr.device, 1);
    ok(hipPointerGetAttributes(&attr, host));
    ck_assert_int_eq(attr.type, rules[_i].host);
    ok(hipPointerGetAttributes(&attr, managed));
    ck_assert_int_eq(attr.type, rules[_i].managed);
    ck_assert_int_eq(attr.isManaged, 1);
    ck_assert_int_eq(hipPointerGetAttributes(&attr, &size), rules[_i].unknown);

    ok(hipMemGetAddressRange(&base, &size, device + 77));
    ck_assert_ptr_eq(base, device);
    ck_assert_uint_eq(size, LENGTH);
    ck_assert_int_eq(hipMemGetAddressRange(&base, &size, &size), hipErrorNotFound);
}
END_TEST

START_TEST(freed_addresses_come_again)
{
    char *first = device_alloc(LENGTH);
    char *second;

    ok(hipFree(first));
    ck_assert(!hipcpu_is_mapped(first));
    second = device_alloc(LENGTH);
    ck_assert_ptr_eq(first, second);
}
END_TEST

START_TEST(a_stream_works_on_its_own_and_in_order)
{
    hipStream_t stream = stream_create();
    char *device = device_alloc(LENGTH);
    char *host = host_alloc(LENGTH);

    hipcpu_hold(stream);
    ok(hipMemsetAsync(device, 'x', LENGTH, stream));
    ok(hipMemcpyAsync(host, device, LENGTH, hipMemcpyDeviceToHost, stream));
    ck_assert_int_eq(hipStreamQuery(stream), hipErrorNotReady);
    ck_assert_uint_eq(hipcpu_pending(stream), 2);
    ck_assert_int_eq(host[0], 0);
    hipcpu_release(stream);
    ok(hipStreamSynchronize(stream));
    ok(hipStreamQuery(stream));
    ck_assert_int_eq(host[LENGTH - 1], 'x');
    ok(hipStreamDestroy(stream));
}
END_TEST

START_TEST(an_event_orders_two_streams)
{
    hipStream_t first = stream_create();
    hipStream_t second = stream_create();
    char *device = device_alloc(LENGTH);
    char *host = host_alloc(LENGTH);
    hipEvent_t event, later;
    float ms;

    ok(hipEventCreate(&event));
    ok(hipEventCreate(&later));
    ok(hipEventQuery(event));
    hipcpu_hold(first);
    ok(hipMemsetAsync(device, 'x', LENGTH, first));
    ok(hipEventRecord(event, first));
    ok(hipStreamWaitEvent(second, event, 0));
    ok(hipMemcpyAsync(host, device, LENGTH, hipMemcpyDefault, second));
    ok(hipEventRecord(later, second));
    ck_assert_int_eq(hipEventQuery(event), hipErrorNotReady);
    ck_assert_int_eq(hipStreamQuery(second), hipErrorNotReady);
    hipcpu_release(first);
    ok(hipEventSynchronize(later));
    ok(hipEventQuery(event));
    ck_assert_int_eq(host[5], 'x');
    ok(hipEventElapsedTime(&ms, event, later));
    ck_assert(ms >= 0);
    ok(hipEventDestroy(event));
    ok(hipEventDestroy(later));
    ok(hipStreamDestroy(first));
    ok(hipStreamDestroy(second));
    ck_assert_uint_eq(hipcpu_live(HIPCPU_EVENTS) + hipcpu_live(HIPCPU_STREAMS), 0);
}
END_TEST

START_TEST(an_event_can_be_held)
{
    hipStream_t stream = stream_create();
    hipEvent_t event;

    ok(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    keep(event);
    ok(hipEventRecord(event, stream));
    hipcpu_hold_event(event);
    ok(hipStreamSynchronize(stream));
    ck_assert_int_eq(hipEventQuery(event), hipErrorNotReady);
    hipcpu_release_event(event);
    ok(hipEventQuery(event));
}
END_TEST

START_TEST(the_default_stream_waits_for_blocking_streams)
{
    char *device = device_alloc(LENGTH);
    char *host = host_alloc(LENGTH);
    hipStream_t stream;

    ok(hipStreamCreate(&stream));
    hipcpu_hold(keep(stream));
    ok(hipMemsetAsync(device, 'x', LENGTH, stream));
    ok(hipMemcpyAsync(host, device, LENGTH, hipMemcpyDefault, NULL));
    ck_assert_int_eq(hipStreamQuery(NULL), hipErrorNotReady);
    hipcpu_release(stream);
    ok(hipStreamSynchronize(NULL));
    ck_assert_int_eq(host[0], 'x');
}
END_TEST

static void raise_value(void *arg)
{
    ++*(int *)arg;
}

static void raise_value_of_stream(hipStream_t stream, hipError_t status, void *arg)
{
    ck_assert_ptr_nonnull(stream);
    ok(status);
    ++*(int *)arg;
}

START_TEST(a_stream_calls_and_writes)
{
    hipStream_t stream = stream_create();
    char *host = host_alloc(64);
    int value = 0;
    uint64_t wide;
    uint32_t narrow;

    ok(hipLaunchHostFunc(stream, raise_value, &value));
    ok(hipStreamAddCallback(stream, raise_value_of_stream, &value, 0));
    ok(hipStreamWriteValue32(stream, host, 7, 0));
    ok(hipStreamWriteValue64(stream, host + 8, 1ull << 40, 0));
    ok(hipStreamSynchronize(stream));
    ck_assert_int_eq(value, 2);
    memcpy(&narrow, host, sizeof(narrow));
    memcpy(&wide, host + 8, sizeof(wide));
    ck_assert_uint_eq(narrow, 7);
    ck_assert_uint_eq(wide, 1ull << 40);
}
END_TEST

START_TEST(registered_memory_is_pinned_memory)
{
    char *data = malloc(LENGTH);
    hipPointerAttribute_t attr;
    void *ptr;

    ok(hipHostRegister(data, LENGTH, 0));
    ok(hipHostRegister(data + 1, 1, 0)); /* one hipHostUnregister() ends both */
    ok(hipHostGetDevicePointer(&ptr, data + 5, 0));
    ck_assert_ptr_eq(ptr, data + 5);
    ok(hipPointerGetAttributes(&attr, data));
    ck_assert_int_eq(attr.type, HIPCPU_V6_MEMORY_HOST);
    ok(hipHostUnregister(data));
    ck_assert_int_eq(hipHostGetDevicePointer(&ptr, data, 0), hipErrorInvalidValue);
    free(data);
}
END_TEST

START_TEST(peers_are_enabled_once)
{
    int can;

    ok(hipDeviceCanAccessPeer(&can, 0, 1));
    ck_assert_int_eq(can, 1);
    ok(hipDeviceCanAccessPeer(&can, 0, 0));
    ck_assert_int_eq(can, 0);
    ck_assert_int_eq(hipDeviceDisablePeerAccess(1), hipErrorPeerAccessNotEnabled);
    ok(hipDeviceEnablePeerAccess(1, 0));
    ck_assert_int_eq(hipDeviceEnablePeerAccess(1, 0), hipErrorPeerAccessAlreadyEnabled);
}
END_TEST

START_TEST(a_call_fails_as_configured)
{
    void *ptr;

    hipcpu_fail("hipMalloc", 2, hipErrorOutOfMemory);
    ok(hipMalloc(&ptr, 1));
    ck_assert_int_eq(hipMalloc(&ptr, 1), hipErrorOutOfMemory);
    ck_assert_int_eq(hipGetLastError(), hipErrorOutOfMemory);
    ok(hipGetLastError());
    ok(hipMalloc(&ptr, 1));
    hipcpu_fail("hipMalloc", 0, hipErrorUnknown);
    ck_assert_int_eq(hipMalloc(&ptr, 1), hipErrorUnknown);
    ck_assert_int_eq(hipMalloc(&ptr, 1), hipErrorUnknown);
    hipcpu_reset();
    ok(hipMalloc(&ptr, 1));
    ck_assert_uint_eq(hipcpu_calls("hipMalloc"), 6);
}
END_TEST

START_TEST(a_fault_can_come_from_the_environment)
{
    hipStream_t stream;
    void *ptr;

    setenv("HIPCPU_FAIL", "hipMalloc:2:2,hipStreamCreate:1:999", 1);
    ok(hipMalloc(&ptr, 1));
    ck_assert_int_eq(hipMalloc(&ptr, 1), hipErrorOutOfMemory);
    ck_assert_int_eq(hipStreamCreate(&stream), hipErrorUnknown);
}
END_TEST

START_TEST(without_copies_work_ends_at_once)
{
    hipStream_t stream;
    char *device, *host;

    setenv("HIPCPU_COPY", "0", 1);
    stream = stream_create();
    device = device_alloc(LENGTH);
    host = host_alloc(LENGTH);
    ok(hipMemsetAsync(device, 1, LENGTH, stream));
    ok(hipMemcpyAsync(host, device, LENGTH, hipMemcpyDefault, stream));
    ok(hipStreamQuery(stream));
    ck_assert_int_eq(host[0], 0);
    ok(hipStreamWriteValue32(stream, host, 5, 0));
    ck_assert_int_eq(host[0], 5);
}
END_TEST

START_TEST(a_stream_waits_while_a_file_is_there)
{
    char path[] = "/tmp/hipcpu-hold-XXXXXX";
    int fd = mkstemp(path);
    hipStream_t stream;
    char *host;

    ck_assert_int_ge(fd, 0);
    setenv("HIPCPU_HOLD", path, 1);
    stream = stream_create();
    host = host_alloc(64);
    ok(hipStreamWriteValue32(stream, host, 5, 0));
    ck_assert_int_eq(hipStreamQuery(stream), hipErrorNotReady);
    unlink(path);
    close(fd);
    ok(hipStreamSynchronize(stream));
    ck_assert_int_eq(host[0], 5);
}
END_TEST

START_TEST(a_child_goes_on_with_streams_of_its_own)
{
    hipStream_t stream = stream_create();
    char *host = host_alloc(64);
    int status;
    pid_t pid;

    ok(hipStreamWriteValue32(stream, host, 5, 0));
    ok(hipStreamSynchronize(stream));
    pid = fork();
    if (pid == 0) {
        if ((hipStreamWriteValue32(stream, host, 6, 0) != hipSuccess) ||
            (hipStreamSynchronize(stream) != hipSuccess)) {
            _exit(1);
        }
        _exit((host[0] == 6) ? 0 : 2);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ok(hipStreamDestroy(stream));
}
END_TEST

START_TEST(a_dma_buf_is_the_memory_itself)
{
    char *device, *view;
    uint64_t offset;
    int fd;

    setenv("HIPCPU_VERSION", "7.0", 1);
    device = device_alloc(3 * LENGTH);
    ok(hsa_amd_portable_export_dmabuf(device + 4100, LENGTH, &fd, &offset));
    ck_assert_uint_eq(offset, 4100);
    view = mmap(NULL, 3 * LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(view, MAP_FAILED);
    view[offset] = 'z';
    ck_assert_int_eq(device[4100], 'z');
    munmap(view, 3 * LENGTH);
    ok(hsa_amd_portable_close_dmabuf(fd));

    ok(hipMemGetHandleForAddressRange(&fd, device, LENGTH, 1, 0));
    close(fd);
    hipcpu_set_version(6, 4);
    ck_assert_int_eq(hipMemGetHandleForAddressRange(&fd, device, LENGTH, 1, 0),
                     hipErrorNotSupported);
}
END_TEST

/* ---- The kernel ---- */

typedef struct kernel {
    hipModule_t module;
    hipFunction_t function;
    hipStream_t stream;
    void *arrivals;
    uint32_t *flag;
    muct_xgmi_entry_t *memory;
    muct_xgmi_list_t list;
} kernel_t;

#define CAPACITY 1000

static void kernel_setup(kernel_t *kernel)
{
    ok(hipModuleLoadData(&kernel->module, "__CLANG_OFFLOAD_BUNDLE__\0\0\0\0\0\0\0\0"));
    keep(kernel->module);
    ok(hipModuleGetFunction(&kernel->function, kernel->module, MUCT_XGMI_KERNEL_NAME));
    kernel->stream = stream_create();
    kernel->arrivals = device_alloc(4);
    kernel->flag = (void *)host_alloc(64);
    kernel->memory = (void *)host_alloc(CAPACITY * sizeof(*kernel->memory));
    muct_xgmi_list_init(&kernel->list, kernel->memory, CAPACITY);
}

static void kernel_launch(kernel_t *kernel, uint32_t sequence)
{
    muct_xgmi_launch_t launch;
    void *params[] = {&launch.args};

    muct_xgmi_list_finish(&kernel->list, 8, &launch);
    launch.args.arrivals = (uintptr_t)kernel->arrivals;
    launch.args.flag = (uintptr_t)kernel->flag;
    launch.args.sequence = sequence;
    ok(hipModuleLaunchKernel(kernel->function, launch.num_blocks, 1, 1,
                             launch.block_size, 1, 1, 0, kernel->stream, params, NULL));
}

START_TEST(the_kernel_copies_every_byte_of_a_list)
{
    const size_t size = 4 << 20;
    char *src = device_alloc(size);
    char *dst = device_alloc(size);
    char *expected = calloc(1, size);
    size_t from, to, length, i, sum = 0;
    kernel_t kernel;

    srand((unsigned)_i);
    for (i = 0; i < size; ++i) {
        src[i] = (char)rand();
    }
    kernel_setup(&kernel);
    for (to = 0; to + 70000 < size; to += length + ((size_t)rand() % 3)) {
        length = 1 + ((size_t)rand() % ((rand() % 4 == 0) ? 60000 : 300));
        from = (size_t)rand() % (size - length);
        if (!muct_xgmi_list_add(&kernel.list, (uintptr_t)dst + to,
                                (uintptr_t)src + from, length)) {
            break;
        }
        memcpy(expected + to, src + from, length);
        sum += length;
    }
    kernel_launch(&kernel, 41);
    ok(hipStreamSynchronize(kernel.stream));
    ck_assert_uint_eq(*kernel.flag, 41);
    ck_assert(memcmp(dst, expected, size) == 0);
    ck_assert_uint_eq(hipcpu_copied(HIPCPU_DEVICE_TO_DEVICE), sum);
    free(expected);
}
END_TEST

START_TEST(what_the_kernel_takes_from_the_host_is_counted)
{
    char *device = device_alloc(LENGTH), *pinned = host_alloc(LENGTH);
    kernel_t kernel;

    kernel_setup(&kernel);
    ck_assert(
        muct_xgmi_list_add(&kernel.list, (uintptr_t)device, (uintptr_t)pinned, LENGTH));
    kernel_launch(&kernel, 1);
    ok(hipStreamSynchronize(kernel.stream));
    ck_assert_uint_eq(hipcpu_copied(HIPCPU_HOST_TO_DEVICE), LENGTH);
    ck_assert_uint_eq(hipcpu_copied(HIPCPU_DEVICE_TO_DEVICE), 0);
}
END_TEST

START_TEST(the_kernel_ends_after_what_is_held)
{
    char *device = device_alloc(2 * LENGTH);
    kernel_t kernel;

    kernel_setup(&kernel);
    ck_assert(muct_xgmi_list_add(&kernel.list, (uintptr_t)device,
                                 (uintptr_t)device + LENGTH, LENGTH));
    hipcpu_hold(kernel.stream);
    kernel_launch(&kernel, 1);
    ck_assert_uint_eq(*kernel.flag, 0);
    hipcpu_release(kernel.stream);
    ok(hipStreamSynchronize(kernel.stream));
    ck_assert_uint_eq(*kernel.flag, 1);
    ok(hipModuleUnload(kernel.module));
}
END_TEST

START_TEST(a_module_has_the_one_kernel)
{
    hipFunction_t function;
    hipModule_t module;

    ck_assert_int_eq(hipModuleLoadData(&module, "anything else, as long as this"),
                     hipErrorInvalidImage);
    ok(hipModuleLoadData(&module, "__CLANG_OFFLOAD_BUNDLE__"));
    ck_assert_int_eq(hipModuleGetFunction(&function, module, "other"),
                     hipErrorNotFound);
    ok(hipModuleUnload(module));
}
END_TEST

/* ---- Other processes ---- */

/* An exporter that obeys one letter at a time: f frees, anything else ends it. */
typedef struct exporter {
    pid_t pid;
    int commands;
    int answers;
    hipIpcMemHandle_t handle;
} exporter_t;

#define EXPORT_SIZE 20000
#define EXPORT_OFFSET 4800

static void exporter_run(int commands, int answers)
{
    hipIpcMemHandle_t handle;
    void *memory;
    char command;

    setenv("HIP_VISIBLE_DEVICES", "1", 1);
    if ((hipMalloc(&memory, EXPORT_SIZE) != hipSuccess) ||
        (hipMemset(memory, 'e', EXPORT_SIZE) != hipSuccess) ||
        (hipIpcGetMemHandle(&handle, (char *)memory + EXPORT_OFFSET) != hipSuccess) ||
        (write(answers, &handle, sizeof(handle)) != sizeof(handle))) {
        _exit(1);
    }
    while ((read(commands, &command, 1) == 1) && (command == 'f')) {
        if ((hipFree(memory) != hipSuccess) || (write(answers, "f", 1) != 1)) {
            _exit(2);
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
    if (exporter->pid == 0) {
        close(commands[1]);
        exporter_run(commands[0], answers[1]);
    }
    close(commands[0]);
    close(answers[1]);
    exporter->commands = commands[1];
    exporter->answers = answers[0];
    ck_assert_int_eq(read(exporter->answers, &exporter->handle, 64), 64);
    setenv("HIP_VISIBLE_DEVICES", "0", 1);
}

static void exporter_free(exporter_t *exporter)
{
    char answer;

    ck_assert_int_eq(write(exporter->commands, "f", 1), 1);
    ck_assert_int_eq(read(exporter->answers, &answer, 1), 1);
}

static void exporter_end(exporter_t *exporter, int signum)
{
    int status;

    if (signum == 0) {
        close(exporter->commands);
    } else {
        kill(exporter->pid, signum);
    }
    ck_assert_int_eq(waitpid(exporter->pid, &status, 0), exporter->pid);
}

static char *exporter_open(const exporter_t *exporter)
{
    void *ptr;

    ok(hipIpcOpenMemHandle(&ptr, exporter->handle, 1));
    return ptr;
}

START_TEST(an_import_begins_at_the_exported_address)
{
    exporter_t exporter;
    void *base;
    size_t size;
    char *ptr;

    exporter_start(&exporter);
    ptr = exporter_open(&exporter);
    ok(hipMemGetAddressRange(&base, &size, ptr));
    ck_assert_ptr_eq((char *)base + EXPORT_OFFSET, ptr);
    ck_assert_uint_eq(size, EXPORT_SIZE);
    ck_assert_int_eq(ptr[0], 'e');
    ok(hipMemset(ptr, 'i', 10));
    ok(hipIpcCloseMemHandle(ptr));
    ck_assert(!hipcpu_is_mapped(ptr));
    ptr = exporter_open(&exporter);
    ck_assert_int_eq(ptr[9], 'i');
    ok(hipIpcCloseMemHandle(ptr));
    exporter_end(&exporter, 0);
}
END_TEST

START_TEST(a_handle_holds_process_size_and_offset_where_amd_has_them)
{
    exporter_t exporter;
    uint64_t size, offset;
    int32_t pid;

    exporter_start(&exporter);
    memcpy(&size, exporter.handle.reserved + 32, 8);
    memcpy(&offset, exporter.handle.reserved + 40, 8);
    memcpy(&pid, exporter.handle.reserved + 48, 4);
    ck_assert_uint_eq(size, EXPORT_SIZE);
    ck_assert_uint_eq(offset, EXPORT_OFFSET);
    ck_assert_int_eq(pid, exporter.pid);
    exporter_end(&exporter, 0);
}
END_TEST

START_TEST(a_second_open_follows_the_version)
{
    exporter_t exporter;
    char *first, *second;

    exporter_start(&exporter);
    hipcpu_set_version(_i, 0);
    first = exporter_open(&exporter);
    second = exporter_open(&exporter);
    ck_assert((first == second) == (_i >= 7));
    ck_assert_uint_eq(hipcpu_live(HIPCPU_MAPPINGS), 2);
    ok(hipIpcCloseMemHandle(first));
    ck_assert(hipcpu_is_mapped(second));
    ok(hipIpcCloseMemHandle(second));
    ck_assert_uint_eq(hipcpu_live(HIPCPU_MAPPINGS), 0);
    exporter_end(&exporter, 0);
}
END_TEST

START_TEST(the_open_flag_follows_the_version)
{
    exporter_t exporter;
    void *ptr;

    exporter_start(&exporter);
    ck_assert_int_eq(hipIpcOpenMemHandle(&ptr, exporter.handle, 0),
                     hipErrorInvalidValue);
    hipcpu_set_version(5, 7);
    ck_assert_int_eq(hipIpcOpenMemHandle(&ptr, exporter.handle, 1),
                     hipErrorInvalidValue);
    ok(hipIpcOpenMemHandle(&ptr, exporter.handle, 0));
    exporter_end(&exporter, 0);
}
END_TEST

START_TEST(an_own_handle_is_refused)
{
    hipIpcMemHandle_t handle;
    void *ptr;

    ok(hipIpcGetMemHandle(&handle, device_alloc(100)));
    ck_assert_int_eq(hipIpcOpenMemHandle(&ptr, handle, 1), hipErrorInvalidContext);
    ck_assert_int_eq(hipIpcGetMemHandle(&handle, host_alloc(100)),
                     hipErrorInvalidValue);
}
END_TEST

START_TEST(a_handle_dies_with_its_memory)
{
    exporter_t exporter;
    char *ptr;
    void *other;

    exporter_start(&exporter);
    ptr = exporter_open(&exporter);
    exporter_free(&exporter);
    ck_assert_int_eq(hipIpcOpenMemHandle(&other, exporter.handle, 1),
                     hipErrorInvalidDevicePointer);
    /* mapped memory stays mapped, with the bytes of the other process */
    ck_assert_int_ne(ptr[0], 'e');
    ok(hipIpcCloseMemHandle(ptr));
    exporter_end(&exporter, 0);
}
END_TEST

START_TEST(a_handle_dies_with_its_process)
{
    exporter_t exporter;
    char *ptr;
    void *other;

    exporter_start(&exporter);
    ptr = exporter_open(&exporter);
    exporter_end(&exporter, SIGKILL);
    ck_assert_int_eq(hipIpcOpenMemHandle(&other, exporter.handle, 1),
                     hipErrorInvalidDevicePointer);
    ck_assert_int_eq(ptr[EXPORT_SIZE - EXPORT_OFFSET - 1], 'e');
    ok(hipIpcCloseMemHandle(ptr));
}
END_TEST

START_TEST(a_handle_with_any_bit_flipped_is_refused_or_harmless)
{
    exporter_t exporter;
    hipIpcMemHandle_t handle;
    void *ptr;
    int bit;

    exporter_start(&exporter);
    for (bit = 0; bit < 64 * 8; ++bit) {
        handle = exporter.handle;
        handle.reserved[bit / 8] = (char)(handle.reserved[bit / 8] ^ (1 << (bit % 8)));
        if (hipIpcOpenMemHandle(&ptr, handle, 1) == hipSuccess) {
            ok(hipIpcCloseMemHandle(ptr));
        }
    }
    exporter_end(&exporter, 0);
}
END_TEST

START_TEST(the_cpu_cannot_touch_guarded_memory)
{
    char *device;

    setenv("HIPCPU_GUARD", "1", 1);
    device = device_alloc(LENGTH);
    ok(hipMemset(device, 1, LENGTH));
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would explain instead */
    *(volatile char *)device = 2;
}
END_TEST

/* ---- Aborts ---- */

static void misuse_free_twice(void)
{
    char *device = device_alloc(LENGTH);

    hipFree(device);
    hipFree(device);
}

static void misuse_free_inside(void)
{
    hipFree(device_alloc(LENGTH) + 1);
}

static void misuse_free_host_memory(void)
{
    hipFree(host_alloc(LENGTH));
}

static void misuse_overrun(void)
{
    char *device = device_alloc(LENGTH);

    device[LENGTH] = 0;
    hipFree(device);
}

static void misuse_copy_too_long(void)
{
    char *device = device_alloc(LENGTH);

    hipMemcpy(device + 1, device_alloc(LENGTH), LENGTH, hipMemcpyDefault);
}

static void misuse_copy_from_nowhere(void)
{
    char data[16];

    hipMemcpy(device_alloc(LENGTH), data, sizeof(data), hipMemcpyDeviceToDevice);
}

static void misuse_copy_freed(void)
{
    char *device = device_alloc(LENGTH);

    hipFree(device);
    hipMemcpy(device, device_alloc(2 * LENGTH), 10, hipMemcpyDefault);
}

static void misuse_destroy_busy_stream(void)
{
    hipStream_t stream = stream_create();

    hipcpu_hold(stream);
    hipMemsetAsync(device_alloc(10), 0, 10, stream);
    hipStreamDestroy(stream);
}

static void misuse_dead_stream(void)
{
    hipStream_t stream = stream_create();

    hipStreamDestroy(stream);
    hipStreamQuery(stream);
}

static void misuse_dead_event(void)
{
    hipEvent_t event;

    hipEventCreate(&event);
    hipEventDestroy(event);
    hipEventDestroy(event);
}

static void misuse_unregister_in_use(void)
{
    hipStream_t stream = stream_create();
    static char data[LENGTH];

    hipHostRegister(data, LENGTH, 0);
    hipcpu_hold(stream);
    hipMemcpyAsync(data, device_alloc(10), 10, hipMemcpyDefault, stream);
    hipHostUnregister(data);
}

static void misuse_close_in_use(void)
{
    hipStream_t stream;
    exporter_t exporter;
    kernel_t kernel;
    char *ptr;

    exporter_start(&exporter);
    stream = stream_create();
    hipStreamDestroy(stream);
    ptr = exporter_open(&exporter);
    kernel_setup(&kernel);
    hipcpu_hold(kernel.stream);
    muct_xgmi_list_add(&kernel.list, (uintptr_t)device_alloc(10), (uintptr_t)ptr, 10);
    kernel_launch(&kernel, 1);
    hipIpcCloseMemHandle(ptr);
}

static void misuse_close_twice(void)
{
    exporter_t exporter;
    char *ptr;

    exporter_start(&exporter);
    ptr = exporter_open(&exporter);
    hipIpcCloseMemHandle(ptr);
    hipIpcCloseMemHandle(ptr);
}

static void misuse_free_imported(void)
{
    exporter_t exporter;

    exporter_start(&exporter);
    hipFree(exporter_open(&exporter) - EXPORT_OFFSET);
}

static void misuse_kernel_beyond(void)
{
    char *device = device_alloc(LENGTH);
    kernel_t kernel;

    kernel_setup(&kernel);
    muct_xgmi_list_add(&kernel.list, (uintptr_t)device, (uintptr_t)kernel.flag, 65);
    kernel_launch(&kernel, 1);
    hipStreamSynchronize(kernel.stream);
}

static void misuse_kernel_without_peer_access(void)
{
    char *device = device_alloc(LENGTH);
    kernel_t kernel;

    hipSetDevice(1);
    kernel_setup(&kernel);
    muct_xgmi_list_add(&kernel.list, (uintptr_t)device, (uintptr_t)kernel.flag, 64);
    kernel_launch(&kernel, 1);
    hipStreamSynchronize(kernel.stream);
}

static void misuse_kernel_dirty_arrivals(void)
{
    char *device = device_alloc(LENGTH);
    kernel_t kernel;

    kernel_setup(&kernel);
    hipMemset(kernel.arrivals, 1, 4);
    muct_xgmi_list_add(&kernel.list, (uintptr_t)device, (uintptr_t)kernel.flag, 64);
    kernel_launch(&kernel, 1);
    hipStreamSynchronize(kernel.stream);
}

static void (*const misuses[])(void) = {
    misuse_free_twice,
    misuse_free_inside,
    misuse_free_host_memory,
    misuse_overrun,
    misuse_copy_too_long,
    misuse_copy_from_nowhere,
    misuse_copy_freed,
    misuse_destroy_busy_stream,
    misuse_dead_stream,
    misuse_dead_event,
    misuse_unregister_in_use,
    misuse_close_in_use,
    misuse_close_twice,
    misuse_free_imported,
    misuse_kernel_beyond,
    misuse_kernel_without_peer_access,
    misuse_kernel_dirty_arrivals,
};

START_TEST(misuse_aborts)
{
    misuses[_i]();
}
END_TEST

static TCase *rules_case(void)
{
    TCase *tcase = tcase_create("rules");

    tcase_add_test(tcase, bytes_go_to_the_device_and_back);
    tcase_add_test(tcase, bytes_are_counted_by_their_direction);
    tcase_add_test(tcase, a_process_sees_the_devices_it_is_given);
    tcase_add_test(tcase, without_a_device_nothing_works_and_nothing_breaks);
    tcase_add_test(tcase, memory_ends);
    tcase_add_loop_test(tcase, addresses_are_explained_by_the_rules_of_the_version, 0,
                        2);
    tcase_add_test(tcase, freed_addresses_come_again);
    tcase_add_test(tcase, a_stream_works_on_its_own_and_in_order);
    tcase_add_test(tcase, an_event_orders_two_streams);
    tcase_add_test(tcase, an_event_can_be_held);
    tcase_add_test(tcase, the_default_stream_waits_for_blocking_streams);
    tcase_add_test(tcase, a_stream_calls_and_writes);
    tcase_add_test(tcase, registered_memory_is_pinned_memory);
    tcase_add_test(tcase, peers_are_enabled_once);
    tcase_add_test(tcase, a_call_fails_as_configured);
    tcase_add_test(tcase, a_fault_can_come_from_the_environment);
    tcase_add_test(tcase, without_copies_work_ends_at_once);
    tcase_add_test(tcase, a_stream_waits_while_a_file_is_there);
    tcase_add_test(tcase, a_child_goes_on_with_streams_of_its_own);
    tcase_add_test(tcase, a_dma_buf_is_the_memory_itself);
    tcase_add_loop_test(tcase, the_kernel_copies_every_byte_of_a_list, 0, 3);
    tcase_add_test(tcase, what_the_kernel_takes_from_the_host_is_counted);
    tcase_add_test(tcase, the_kernel_ends_after_what_is_held);
    tcase_add_test(tcase, a_module_has_the_one_kernel);
    return tcase;
}

static TCase *process_case(void)
{
    TCase *tcase = tcase_create("processes");

    tcase_add_test(tcase, an_import_begins_at_the_exported_address);
    tcase_add_test(tcase, a_handle_holds_process_size_and_offset_where_amd_has_them);
    tcase_add_loop_test(tcase, a_second_open_follows_the_version, 6, 8);
    tcase_add_test(tcase, the_open_flag_follows_the_version);
    tcase_add_test(tcase, an_own_handle_is_refused);
    tcase_add_test(tcase, a_handle_dies_with_its_memory);
    tcase_add_test(tcase, a_handle_dies_with_its_process);
    tcase_add_test(tcase, a_handle_with_any_bit_flipped_is_refused_or_harmless);
    return tcase;
}

static TCase *misuse_case(void)
{
    const char *preload = getenv("LD_PRELOAD");
    TCase *tcase = tcase_create("misuse");

    /* valgrind counts the access as an error of ours */
    if ((preload == NULL) || (strstr(preload, "vgpreload") == NULL)) {
        tcase_add_test_raise_signal(tcase, the_cpu_cannot_touch_guarded_memory,
                                    SIGSEGV);
    }
    tcase_add_loop_test_raise_signal(tcase, misuse_aborts, SIGABRT, 0,
                                     (int)(sizeof(misuses) / sizeof(misuses[0])));
    return tcase;
}

int main(void)
{
    TCase *cases[] = {rules_case(), process_case(), misuse_case()};
    Suite *suite = suite_create("hipcpu");
    SRunner *runner;
    int failed, i;

    for (i = 0; i < 3; ++i) {
        tcase_set_timeout(cases[i], 120);
        suite_add_tcase(suite, cases[i]);
    }
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
