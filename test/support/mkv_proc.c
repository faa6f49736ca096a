/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>


/* The parent may have ended between fork() and prctl(). */
static void mkv_proc_die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(MKV_TEST_EXIT_HARD);
    }
}

int mkv_proc_fork(mkv_proc_t *proc, mkv_proc_main_t func, void *arg)
{
    pid_t parent = getpid();
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return -1;
    }

    fflush(NULL);
    proc->pid = fork();
    if (proc->pid < 0) {
        close(fds[0]);
        close(fds[1]);
        return -1;
    }

    if (proc->pid == 0) {
        mkv_proc_die_with(parent);
        close(fds[0]);
        exit(func(fds[1], arg));
    }

    close(fds[1]);
    proc->fd = fds[0];
    proc->status = 0;
    return 0;
}

static void mkv_proc_apply_env(const char *const *envv)
{
    for (; (envv != NULL) && (*envv != NULL); ++envv) {
        if (strchr(*envv, '=') != NULL) {
            putenv(strdup(*envv));
        } else {
            unsetenv(*envv);
        }
    }
}

int mkv_proc_spawn(mkv_proc_t *proc, const char *const *argv, const char *const *envv)
{
    pid_t parent = getpid();
    int fds[2];

    if (pipe(fds) != 0) {
        return -1;
    }

    fflush(NULL);
    proc->pid = fork();
    if (proc->pid < 0) {
        close(fds[0]);
        close(fds[1]);
        return -1;
    }

    if (proc->pid == 0) {
        mkv_proc_die_with(parent);
        dup2(fds[1], STDOUT_FILENO);
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        mkv_proc_apply_env(envv);
        execvp(argv[0], (char *const *)argv);
        fprintf(stderr, "execvp(%s) failed: %s\n", argv[0], strerror(errno));
        _exit(127);
    }

    close(fds[1]);
    proc->fd = fds[0];
    proc->status = 0;
    return 0;
}

int mkv_proc_send(int fd, const void *buffer, size_t length)
{
    ssize_t sent;

    do {
        sent = send(fd, buffer, length, MSG_NOSIGNAL);
    } while ((sent < 0) && (errno == EINTR));

    return (sent == (ssize_t)length) ? 0 : -1;
}

/* Wait until the file is readable: 1, 0 at the deadline, -1 on error. */
static int mkv_proc_poll(int fd, int timeout_ms)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    int ret;

    do {
        ret = poll(&pfd, 1, timeout_ms);
    } while ((ret < 0) && (errno == EINTR));

    return ret;
}

ssize_t mkv_proc_recv(int fd, void *buffer, size_t size, int timeout_ms)
{
    ssize_t received;
    int ret;

    ret = mkv_proc_poll(fd, (timeout_ms < 0) ? mkv_test_limit_ms() : timeout_ms);
    if (ret <= 0) {
        errno = (ret == 0) ? ETIMEDOUT : errno;
        return -1;
    }

    do {
        received = recv(fd, buffer, size, 0);
    } while ((received < 0) && (errno == EINTR));

    return received;
}

int mkv_proc_expect(mkv_proc_t *proc, const char *text, char *output, size_t size)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    size_t used = strlen(output);
    char piece[4096];
    ssize_t got;
    size_t room;

    while ((text == NULL) || (strstr(output, text) == NULL)) {
        if ((mkv_test_now_ms() >= deadline) || (mkv_proc_poll(proc->fd, 1000) < 0)) {
            return 0;
        }

        if (mkv_proc_poll(proc->fd, 0) == 0) {
            continue;
        }

        got = read(proc->fd, piece, sizeof(piece));
        if (got <= 0) {
            return text == NULL;
        }

        room = size - 1 - used;
        room = ((size_t)got < room) ? (size_t)got : room;
        memcpy(output + used, piece, room);
        used += room;
        output[used] = '\0';
    }

    return 1;
}

int mkv_proc_wait(mkv_proc_t *proc)
{
    int pidfd, ended;

    if (proc->pid < 0) {
        return 0;
    }

    pidfd = (int)syscall(SYS_pidfd_open, proc->pid, 0);
    ended = (pidfd < 0) || (mkv_proc_poll(pidfd, mkv_test_limit_ms()) > 0);
    if (pidfd >= 0) {
        close(pidfd);
    }

    if (!ended) {
        kill(proc->pid, SIGKILL);
    }

    while ((waitpid(proc->pid, &proc->status, 0) < 0) && (errno == EINTR)) {
    }

    proc->pid = -1;
    return ended ? 0 : -1;
}

/* Read the line of a file of a thread, without its end. */
static void mkv_proc_read_line(const char *dir, const char *name, char *line,
                               size_t size)
{
    char path[352];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "r");
    if ((file == NULL) || (fgets(line, (int)size, file) == NULL)) {
        snprintf(line, size, "?");
    }
    if (file != NULL) {
        fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
}

void mkv_proc_describe(const mkv_proc_t *proc, char *text, size_t size)
{
    static const char *const names[] = {"stat", "wchan", "syscall"};
    char tasks[32], dir[320], line[256];
    struct dirent *entry;
    size_t used = 0, i;
    DIR *handle;

    text[0] = '\0';
    snprintf(tasks, sizeof(tasks), "/proc/%d/task", (int)proc->pid);
    handle = opendir(tasks);
    if (handle == NULL) {
        return;
    }

    while (((entry = readdir(handle)) != NULL) && (used + 1 < size)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(dir, sizeof(dir), "%s/%s", tasks, entry->d_name);
        for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
            mkv_proc_read_line(dir, names[i], line, sizeof(line));
            snprintf(text + used, size - used, "%s %s: %.*s\n", entry->d_name, names[i],
                     100, line);
            used += strlen(text + used);
        }
    }
    closedir(handle);
}

void mkv_proc_kill(mkv_proc_t *proc, int signum)
{
    if (proc->pid > 0) {
        kill(proc->pid, signum);
    }
}

void mkv_proc_stop(mkv_proc_t *proc)
{
    siginfo_t info;

    if (proc->pid <= 0) {
        return;
    }
    mkv_proc_kill(proc, SIGSTOP);
    /* examined, not reaped: the caller that reaps it needs the status */
    while ((waitid(P_PID, (id_t)proc->pid, &info, WSTOPPED | WEXITED | WNOWAIT) != 0) &&
           (errno == EINTR)) {
    }
}

void mkv_proc_resume(mkv_proc_t *proc)
{
    char dir[32], line[256], *state;

    snprintf(dir, sizeof(dir), "/proc/%d", (int)proc->pid);
    mkv_proc_read_line(dir, "stat", line, sizeof(line));
    state = strrchr(line, ')'); /* the name before it may hold anything */
    if ((state != NULL) && (strncmp(state, ") T", 3) == 0)) {
        mkv_proc_kill(proc, SIGCONT);
    }
}

/* The kernel clears the word, and wakes its waiter, at the end of the thread */
static int leader_is_there = 1;

void mkv_proc_end_leader(void)
{
    (void)syscall(SYS_set_tid_address, &leader_is_there);
    pthread_exit(NULL);
}


void mkv_proc_wait_leader(void)
{
    while (__atomic_load_n(&leader_is_there, __ATOMIC_ACQUIRE)) {
        (void)syscall(SYS_futex, &leader_is_there, FUTEX_WAIT, 1, NULL, NULL, 0);
    }
}


void mkv_proc_cleanup(mkv_proc_t *proc)
{
    if (proc->pid > 0) {
        kill(proc->pid, SIGKILL);
        mkv_proc_wait(proc);
    }

    if (proc->fd >= 0) {
        close(proc->fd);
        proc->fd = -1;
    }
}

int mkv_proc_exit_status(const mkv_proc_t *proc)
{
    return WIFEXITED(proc->status) ? WEXITSTATUS(proc->status)
                                   : 128 + WTERMSIG(proc->status);
}
