/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/launch.h"
#include "perf/base/error.h"
#include "perf/base/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>


enum { PERF_MAX_PROCESSES = PERF_MAX_LEAVES + 1 };

typedef struct perf_launch {
    const perf_options_t *options;
    int argc;
    char **argv;
    unsigned num_leaves;
    int fds[PERF_MAX_LEAVES][2]; /* sockets of the center and of the leaf */
    pid_t pids[PERF_MAX_PROCESSES];
} perf_launch_t;


/* The n-th GPU of those that the user's variables leave visible. HIP reads the second
 * variable where the first one is unset or empty (rocdevice.cpp). */
static void perf_launch_see_device(unsigned device)
{
    const char *visible = getenv("HIP_VISIBLE_DEVICES");
    char chosen[64];
    size_t length;
    unsigned i;

    if ((visible == NULL) || (*visible == '\0')) {
        visible = getenv("CUDA_VISIBLE_DEVICES");
    }
    if ((visible == NULL) || (*visible == '\0')) {
        snprintf(chosen, sizeof(chosen), "%u", device);
    } else {
        for (i = 0; (i < device) && (visible != NULL); ++i) {
            visible = strchr(visible, ',');
            visible = (visible == NULL) ? NULL : visible + 1;
        }
        length = (visible == NULL) ? 0 : strcspn(visible, ",");
        snprintf(chosen, sizeof(chosen), "%.*s", (int)length,
                 (visible == NULL) ? "" : visible);
    }
    setenv("HIP_VISIBLE_DEVICES", chosen, 1);
}

void perf_launch_environment(const perf_options_t *options, unsigned rank)
{
    const bool is_prefill = perf_options_is_prefill(options, rank);
    const unsigned index = (rank == 0) ? 0 : rank - 1;

    if ((is_prefill ? options->initiator_segment : options->target_segment) ==
        PERF_SEGMENT_VRAM) {
        perf_launch_see_device(
            (is_prefill ? options->initiator_dev : options->target_dev) + index);
    }
}

/* Become one of the processes, in the child. Returns only on failure. */
static void perf_launch_exec(const perf_launch_t *launch, unsigned rank)
{
    char **argv, fds[PERF_MAX_LEAVES * 12] = "", number[16];
    size_t used = 0;
    unsigned i;
    int argc = launch->argc;

    for (i = 0; i < launch->num_leaves; ++i) {
        if ((rank == 0) || (rank == i + 1)) {
            used += (size_t)snprintf(fds + used, sizeof(fds) - used, "%s%d",
                                     (used > 0) ? "," : "", launch->fds[i][rank != 0]);
        }
        /* close the other process's socket: its death must close the connection */
        if (rank != 0) {
            close(launch->fds[i][0]);
        }
        if (rank != i + 1) {
            close(launch->fds[i][1]);
        }
    }
    snprintf(number, sizeof(number), "%u", rank);

    argv = calloc((size_t)argc + 5, sizeof(*argv));
    if (argv == NULL) {
        return;
    }
    memcpy(argv, launch->argv, (size_t)argc * sizeof(*argv));
    argv[argc] = (char[]){"--_fds"};
    argv[argc + 1] = fds;
    argv[argc + 2] = (char[]){"--_rank"};
    argv[argc + 3] = number;

    perf_launch_environment(launch->options, rank);
    execv("/proc/self/exe", argv);
}

static int perf_launch_fork(perf_launch_t *launch, unsigned rank)
{
    launch->pids[rank] = fork();
    if (launch->pids[rank] < 0) {
        perf_error("fork failed: %m");
        return -1;
    }
    if (launch->pids[rank] == 0) {
        perf_launch_exec(launch, rank);
        perf_error("executing /proc/self/exe failed: %m");
        _exit(EXIT_FAILURE);
    }
    return 0;
}

/* For the handlers of SIGINT and SIGALRM. */
static const perf_launch_t *perf_launched;

static void perf_launch_forward(int number)
{
    unsigned i;

    for (i = 0; i <= perf_launched->num_leaves; ++i) {
        if (perf_launched->pids[i] > 0) {
            kill(perf_launched->pids[i], number);
        }
    }
}

/* Time in which the other processes notice the end of one, and print their errors. */
enum { PERF_OTHERS_END_S = 10 };

static void perf_launch_end_late(int number)
{
    (void)number;
    perf_launch_forward(SIGTERM);
}

/* The printed error may be that of a process which has not ended yet. */
static void perf_launch_let_others_end(void)
{
    struct sigaction action = {.sa_handler = perf_launch_end_late};

    sigaction(SIGALRM, &action, NULL);
    alarm(PERF_OTHERS_END_S);
}

/* Wait for all processes. Report a signal; a process that exits has printed its own
 * error. */
static int perf_launch_wait(perf_launch_t *launch)
{
    int status, result = EXIT_SUCCESS;
    unsigned i;
    pid_t pid;

    while (((pid = wait(&status)) > 0) || (errno == EINTR)) {
        for (i = 0; (i <= launch->num_leaves) && (launch->pids[i] != pid); ++i) {
        }
        if ((pid < 0) || (i > launch->num_leaves)) {
            continue;
        }
        launch->pids[i] = 0;
        if (WIFEXITED(status) && (WEXITSTATUS(status) == 0)) {
            continue;
        }
        if (WIFSIGNALED(status) && (result == 0) && !perf_is_interrupted) {
            perf_error("the %s process was ended by signal %d (%s)",
                       perf_options_is_prefill(launch->options, i) ? "prefill"
                                                                   : "decode",
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
        }
        if ((result == 0) && !perf_is_interrupted) {
            perf_launch_let_others_end();
        }
        result = perf_is_interrupted ? PERF_EXIT_INTERRUPTED : EXIT_FAILURE;
    }
    return result;
}

int perf_launch(const perf_options_t *options, int argc, char **argv)
{
    perf_launch_t launch = {.options = options, .argc = argc, .argv = argv};
    unsigned i;
    bool is_failed = false;

    launch.num_leaves = options->num_target_dev;
    for (i = 0; i < launch.num_leaves; ++i) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, launch.fds[i]) != 0) {
            perf_error("socketpair failed: %m");
            return EXIT_FAILURE;
        }
    }

    perf_launched = &launch;
    perf_interrupt_leave(perf_launch_forward);
    for (i = 0; (i <= launch.num_leaves) && !is_failed; ++i) {
        is_failed = (perf_launch_fork(&launch, i) != 0);
    }
    for (i = 0; i < launch.num_leaves; ++i) {
        close(launch.fds[i][0]);
        close(launch.fds[i][1]);
    }
    if (is_failed) {
        perf_launch_forward(SIGTERM);
    }
    i = (unsigned)perf_launch_wait(&launch);
    return is_failed ? EXIT_FAILURE : (int)i;
}

int perf_launch_channels(const perf_options_t *options, perf_channel_t *channels,
                         unsigned *num_p)
{
    const char *fds = options->fds;
    unsigned num = 0;
    char *end;

    if (fds == NULL) {
        *num_p = 1;
        return perf_channel_open(options->peer, options->role == PERF_ROLE_LEAF,
                                 options->timeout_s, &channels[0]);
    }

    while (num < PERF_MAX_LEAVES) {
        channels[num].fd = (int)strtol(fds, &end, 10);
        channels[num].timeout_s = options->timeout_s;
        channels[num].name =
            perf_options_is_prefill(options, options->rank) ? "decode" : "prefill";
        if ((end == fds) || ((*end != ',') && (*end != '\0'))) {
            perf_error("--_fds is '%s'; expected descriptors from the parent",
                       options->fds);
            return -1;
        }
        ++num;
        if (*end == '\0') {
            *num_p = num;
            return 0;
        }
        fds = end + 1;
    }

    perf_error("--_fds is '%s'; expected at most %u", options->fds, PERF_MAX_LEAVES);
    return -1;
}
