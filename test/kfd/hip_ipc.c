/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory of one process in another, on another GPU: hip_ipc exports, and starts itself
 * as the process that opens, reads and writes. With "killed", that process ends by a
 * signal with the memory open, and the exporter's memory goes on working. With
 * "killed-reader" it ends in the middle of a copy from there: some bytes have arrived.
 */

#include "hip_lib.h"

#include "perf/base/leave.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define IPC_SIZE ((size_t)3 << 20)

/* Message from the exporter to the importer's standard input */
typedef struct ipc_message {
    hipIpcMemHandle_t handle;
    size_t offset; /* Place of the memory in its allocation */
} ipc_message_t;

/* Ends in the middle of a copy from the exporter's memory. */
static void ipc_end_in_a_read(char *own, const char *opened)
{
    const volatile char *first = own + 1, *last = own + IPC_SIZE - 1;

    memset(own, 0, IPC_SIZE); /* the host reaches VRAM */
    HIP_OK(hipMemcpyAsync, own, opened, IPC_SIZE, hipMemcpyDeviceToDevice, NULL);
    while ((*first == 0) && (HIP(hipStreamQuery)(NULL) == hipErrorNotReady)) {
        usleep(1000);
    }
    HIP_TRUE((*first != 0) && (*last == 0));
    raise(SIGKILL);
}

static int ipc_importer(const char *role)
{
    hipPointerAttribute_t attributes;
    char *opened, *own, *buffer = malloc(IPC_SIZE);
    ipc_message_t message;
    int count;

    HIP_TRUE(read(STDIN_FILENO, &message, sizeof(message)) == sizeof(message));
    HIP_OK(hipGetDeviceCount, &count);
    HIP_OK(hipSetDevice, count - 1);
    HIP_OK(hipMalloc, (void **)&own, IPC_SIZE);
    HIP_OK(hipIpcOpenMemHandle, (void **)&opened, message.handle,
           hipIpcMemLazyEnablePeerAccess);
    opened += message.offset;
    if (strcmp(role, "reader") == 0) {
        ipc_end_in_a_read(own, opened);
    }
    HIP_OK(hipMemcpy, own, opened, IPC_SIZE, hipMemcpyDeviceToDevice);
    HIP_OK(hipMemcpy, buffer, own, IPC_SIZE, hipMemcpyDeviceToHost);
    HIP_TRUE(hip_pattern_good(buffer, IPC_SIZE, 5) == IPC_SIZE);
    HIP_OK(hipPointerGetAttributes, &attributes, opened);
    HIP_TRUE(attributes.type == hipMemoryTypeDevice);
    hip_pattern(buffer, IPC_SIZE, 6);
    HIP_OK(hipMemcpy, own, buffer, IPC_SIZE, hipMemcpyHostToDevice);
    HIP_OK(hipMemcpy, opened, own, IPC_SIZE, hipMemcpyDeviceToDevice);
    HIP_OK(hipDeviceSynchronize);
    if (strcmp(role, "victim") == 0) {
        raise(SIGKILL);
    }
    HIP_OK(hipIpcCloseMemHandle, opened - message.offset);
    free(buffer);
    return 0;
}

/* Start this program again as the importer, with the message as its input. */
static int ipc_run(char *self, char *role, const ipc_message_t *message)
{
    char *argv[] = {self, role, NULL};
    int pipes[2], status;
    pid_t pid;

    HIP_TRUE(pipe(pipes) == 0);
    pid = fork();
    HIP_TRUE(pid >= 0);
    if (pid == 0) {
        if (strcmp(role, "reader") == 0) {
            setenv("KFDCPU_SLOW_COPY", "600000000", 1); /* it is killed meanwhile */
        }
        dup2(pipes[0], STDIN_FILENO);
        close(pipes[1]);
        execv(self, argv);
        _exit(127);
    }
    close(pipes[0]);
    HIP_TRUE(write(pipes[1], message, sizeof(*message)) == sizeof(*message));
    close(pipes[1]);
    HIP_TRUE(waitpid(pid, &status, 0) == pid);
    return status;
}

static void ipc_exporter(char *self, char *role)
{
    const int is_killed = strcmp(role, "importer") != 0;
    const unsigned after = (strcmp(role, "reader") == 0) ? 5 : 6;
    char *memory, *buffer = malloc(IPC_SIZE), importer[] = "importer";
    ipc_message_t message;
    hipDeviceptr_t base;
    size_t size;
    int status;

    HIP_OK(hipMalloc, (void **)&memory, IPC_SIZE);
    hip_pattern(buffer, IPC_SIZE, 5);
    HIP_OK(hipMemcpy, memory, buffer, IPC_SIZE, hipMemcpyHostToDevice);
    HIP_OK(hipDeviceSynchronize);
    HIP_OK(hipIpcGetMemHandle, &message.handle, memory);
    HIP_OK(hipMemGetAddressRange, &base, &size, memory);
    message.offset = (size_t)(memory - (char *)base);
    status = ipc_run(self, role, &message);
    HIP_TRUE(is_killed ? (WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL))
                       : (status == 0));
    HIP_OK(hipMemcpy, buffer, memory, IPC_SIZE, hipMemcpyDeviceToHost);
    HIP_TRUE(hip_pattern_good(buffer, IPC_SIZE, after) == IPC_SIZE);
    if (is_killed) { /* and opens again, in another process */
        hip_pattern(buffer, IPC_SIZE, 5);
        HIP_OK(hipMemcpy, memory, buffer, IPC_SIZE, hipMemcpyHostToDevice);
        HIP_TRUE(ipc_run(self, importer, &message) == 0);
    }
    HIP_OK(hipFree, memory);
    free(buffer);
}

int main(int argc, char **argv)
{
    char importer[] = "importer", victim[] = "victim", reader[] = "reader";
    const char *role = (argc > 1) ? argv[1] : "";

    if ((strcmp(role, importer) == 0) || (strcmp(role, victim) == 0) ||
        (strcmp(role, reader) == 0)) {
        return ipc_importer(role);
    }
    ipc_exporter(argv[0], (strcmp(role, "killed") == 0)          ? victim
                          : (strcmp(role, "killed-reader") == 0) ? reader
                                                                 : importer);
    puts("ipc done");
    perf_leave(0); /* exporters may abort in exit() */
}
