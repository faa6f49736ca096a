/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PROC_H
#define MKV_PROC_H

/**
 * @file
 * Processes for tests: a forked peer with a message channel, and commands whose
 * output is kept. Every wait ends at the common limit (mkv_test.h).
 *
 * A peer dies with its parent, so an aborted test leaves nothing behind.
 *
 * Threads. An object is used by one thread.
 */

#include <stddef.h>
#include <sys/types.h>


/** A child process. */
typedef struct mkv_proc {
    pid_t pid;  /**< -1 after its end was collected */
    int fd;     /**< Channel to a peer, or the output of a command; -1 if closed */
    int status; /**< Status of waitpid(2), valid when pid is -1 */
} mkv_proc_t;


/** Main function of a peer; its value is the exit status of the process. */
typedef int (*mkv_proc_main_t)(int fd, void *arg);


/**
 * Fork a peer. Call before any library is initialised that does not survive a
 * fork (UCX does not).
 *
 * @return 0, or -1 with errno set.
 */
int mkv_proc_fork(mkv_proc_t *proc, mkv_proc_main_t func, void *arg);


/**
 * Start a command, standard output and error going to one pipe.
 *
 * @param [in] argv  Program, looked up in PATH, and arguments; ends with NULL.
 * @param [in] envv  "NAME=value" changes to the environment, or "NAME" to remove
 *                   it; ends with NULL. May be NULL.
 *
 * @return 0, or -1 with errno set.
 */
int mkv_proc_spawn(mkv_proc_t *proc, const char *const *argv, const char *const *envv);


/**
 * Send one message to the other end of a channel.
 *
 * @return 0, or -1 with errno set (EPIPE: the other process is gone).
 */
int mkv_proc_send(int fd, const void *buffer, size_t length);


/**
 * Receive one message.
 *
 * @param [in] timeout_ms  Give up after this time; negative for the common limit.
 *
 * @return Length of the message, 0 if the other process closed its end, or -1
 *         with errno set (ETIMEDOUT after the limit).
 */
ssize_t mkv_proc_recv(int fd, void *buffer, size_t size, int timeout_ms);


/**
 * Read a command's output until a text appears or the output ends.
 *
 * @param [in]    text    To wait for; NULL reads to the end.
 * @param [inout] output  Text so far, NUL-terminated; grows up to @a size - 1
 *                        bytes, the rest is dropped.
 *
 * @return Nonzero if @a text was seen (or, with NULL, the end was reached).
 */
int mkv_proc_expect(mkv_proc_t *proc, const char *text, char *output, size_t size);


/**
 * Wait until the process ends, killing it at the limit.
 *
 * @return 0 if it ended by itself, -1 if it had to be killed.
 */
int mkv_proc_wait(mkv_proc_t *proc);


/**
 * Print the state of each thread of a process that does not end: name, state, the
 * kernel function it waits in and the system call. Linux alone reports it, and not
 * always all.
 */
void mkv_proc_describe(const mkv_proc_t *proc, char *text, size_t size);


/** Send a signal; nothing if the process was collected. */
void mkv_proc_kill(mkv_proc_t *proc, int signum);


/**
 * Stop a child, and wait until it stands still or has ended. A busy machine may take
 * long to report it, and until then @ref mkv_proc_resume finds nothing to do.
 */
void mkv_proc_stop(mkv_proc_t *proc);


/**
 * Let a process go on that a signal has stopped; nothing if none has. A SIGCONT to a
 * running process has an effect: it cancels the stop by which LeakSanitizer's tracer
 * attaches at the end of the process, and the tracer then waits for ever.
 */
void mkv_proc_resume(mkv_proc_t *proc);


/**
 * End the first thread of this process, which calls it, while others go on.
 */
void mkv_proc_end_leader(void) __attribute__((noreturn));


/**
 * Wait until the first thread of this process is gone. pthread_join() cannot be used
 * for it, as AddressSanitizer has records only of threads whose creation it has seen.
 */
void mkv_proc_wait_leader(void);


/** Kill the process, collect its status and close the channel, if they are left. */
void mkv_proc_cleanup(mkv_proc_t *proc);


/**
 * @return Exit status, or 128 + signal, as in a shell.
 */
int mkv_proc_exit_status(const mkv_proc_t *proc);

#endif
