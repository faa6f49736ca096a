/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hip_calls       run all probes, each in a process of its own
 * hip_calls NAME  run one
 */

#include "hip_calls.h"

#include "perf/base/leave.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *calls_self;

void hip_print(const char *label, long number)
{
    printf("%s=%ld ", label, number);
}

/* Relation of a pointer of the attributes to the queried one. */
static const char *calls_relation(const void *pointer, const void *address)
{
    return (pointer == address) ? "same" : (pointer != NULL) ? "other" : "0";
}

void hip_print_attributes(const char *label, const void *address)
{
    hipPointerAttribute_t a;
    int rc;

    memset(&a, 0x55, sizeof(a));
    rc = (int)HIP(hipPointerGetAttributes)(&a, address);
    if (rc != 0) {
        hip_print(label, rc);
        (void)HIP(hipGetLastError)();
        return;
    }
    printf("%s=type%d/device%d/dp-%s/hp-%s/managed%d ", label, (int)a.type, a.device,
           calls_relation(a.devicePointer, address),
           calls_relation(a.hostPointer, address), a.isManaged);
}

void hip_print_range(const char *label, void *address)
{
    hipDeviceptr_t base = NULL;
    size_t size = 0;
    int rc = (int)HIP(hipMemGetAddressRange)(&base, &size, address);

    if (rc != 0) {
        hip_print(label, rc);
        (void)HIP(hipGetLastError)();
        return;
    }
    printf("%s=offset%ld/size%zu ", label, (long)((char *)address - (char *)base),
           size);
}

char *hip_device_memory(size_t size)
{
    void *memory;

    HIP_OK(hipMalloc, &memory, size);
    return memory;
}

char *hip_host_memory(size_t size)
{
    void *memory;

    HIP_OK(hipHostMalloc, &memory, size, 0);
    return memory;
}

char *hip_chunk_memory(hipMemGenericAllocationHandle_t *handles)
{
    hipMemAccessDesc access = {{hipMemLocationTypeDevice, 0},
                               hipMemAccessFlagsProtReadWrite};
    hipMemAllocationProp prop;
    void *range;
    int i;

    memset(&prop, 0, sizeof(prop));
    prop.type = hipMemAllocationTypePinned;
    prop.location.type = hipMemLocationTypeDevice;
    HIP_OK(hipMemAddressReserve, &range, 2 * CALLS_CHUNK, 0, NULL, 0);
    for (i = 0; i < 2; ++i) {
        HIP_OK(hipMemCreate, &handles[i], CALLS_CHUNK, &prop, 0);
        HIP_OK(hipMemMap, (char *)range + (i * CALLS_CHUNK), CALLS_CHUNK, 0, handles[i],
               0);
    }
    HIP_OK(hipMemSetAccess, range, 2 * CALLS_CHUNK, &access, 1);
    return range;
}

hipStream_t hip_stream(void)
{
    hipStream_t stream;

    HIP_OK(hipStreamCreateWithFlags, &stream, hipStreamNonBlocking);
    return stream;
}

/* Run a probe in a process; returns its status. */
static int calls_run(const char *name, const void *input, size_t size)
{
    int pipes[2], status;
    pid_t pid;

    HIP_TRUE(pipe(pipes) == 0);
    pid = fork();
    HIP_TRUE(pid >= 0);
    if (pid == 0) {
        dup2(pipes[0], STDIN_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        execl(calls_self, calls_self, name, (char *)NULL);
        _exit(127);
    }
    close(pipes[0]);
    HIP_TRUE(write(pipes[1], input, size) == (ssize_t)size);
    close(pipes[1]);
    HIP_TRUE(waitpid(pid, &status, 0) == pid);
    return status;
}

void hip_run_probe(const char *name, const void *input, size_t size)
{
    calls_run(name, input, size);
}

static const hip_probe_t *const calls_tables[] = {hip_probes_memory, hip_probes_share,
                                                  hip_probes_capture};

#define CALLS_TABLES (sizeof(calls_tables) / sizeof(*calls_tables))

/* A probe whose name begins with "-" is one that others start. */
static void calls_run_all(void)
{
    const hip_probe_t *probe;
    size_t i;
    int status;

    for (i = 0; i < CALLS_TABLES; ++i) {
        for (probe = calls_tables[i]; probe->name != NULL; ++probe) {
            if (probe->name[0] == '-') {
                continue;
            }
            printf("%s: ", probe->name);
            fflush(stdout);
            status = calls_run(probe->name, NULL, 0);
            if (WIFSIGNALED(status)) {
                printf("signal=%d", WTERMSIG(status));
            } else if (WEXITSTATUS(status) != 0) {
                printf("exit=%d", WEXITSTATUS(status));
            }
            puts("");
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv)
{
    const hip_probe_t *probe;
    size_t i;

    calls_self = argv[0];
    if (argc == 1) {
        calls_run_all();
        return 0;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    for (i = 0; i < CALLS_TABLES; ++i) {
        for (probe = calls_tables[i]; probe->name != NULL; ++probe) {
            if (strcmp(probe->name, argv[1]) == 0) {
                probe->run();
                perf_leave(0); /* exporters may abort in exit() */
            }
        }
    }
    fprintf(stderr, "no probe '%s'\n", argv[1]);
    return 2;
}
