/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_MOVER_H
#define MUCT_XGMI_MOVER_H

/**
 * @file
 * Threads that copy between this process's host memory and that of others, beside the
 * thread that makes progress.
 *
 * A thread is started when a job comes and none is idle, up to a limit. Jobs end in any
 * order.
 *
 * CPUs. As UCX's own thread, the threads use the CPUs of the thread that has opened the
 * interface, at that time. An application may bind its threads later, each to a CPU.
 *
 * Threads. One at a time calls; @a run is called in the mover's.
 */

#include "xgmi/peer/xgmi_wake.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/** Threads of a mover. One moves 5 to 8 GB/s, which the processor limits. */
#define MUCT_XGMI_MAX_MOVERS 4


/** A copy; a member of the caller's object. */
typedef struct muct_xgmi_job {
    struct muct_xgmi_job *next;
    void (*run)(struct muct_xgmi_job *job);
} muct_xgmi_job_t;

/** A mover: zeros, and a wake. */
typedef struct muct_xgmi_mover {
    muct_xgmi_wake_t *wake; /**< Signalled once after @ref muct_xgmi_mover_arm */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    muct_xgmi_job_t *first, **last; /**< Jobs that no thread has taken, oldest first */
    muct_xgmi_job_t *done;          /**< Ended jobs, until muct_xgmi_mover_take() */
    _Atomic bool has_done;
    _Atomic bool is_awaited; /**< The next job that ends signals wake, once */
    bool is_ending;
    pid_t pid;
    cpu_set_t cpus; /**< CPUs that the threads use */
    bool has_cpus;  /**< cpus is set; else a thread uses the CPUs of its creator */
    unsigned num_threads, num_idle, max_threads;
    pthread_t threads[MUCT_XGMI_MAX_MOVERS];
} muct_xgmi_mover_t;


/** Prepare; starts no thread. */
void muct_xgmi_mover_init(muct_xgmi_mover_t *mover, muct_xgmi_wake_t *wake);


/** Drop the jobs that wait, wait for those that run, and end the threads. */
void muct_xgmi_mover_cleanup(muct_xgmi_mover_t *mover);


/** Start a job. If no thread can be started, the calling thread runs it. */
void muct_xgmi_mover_add(muct_xgmi_mover_t *mover, muct_xgmi_job_t *job);


/** Take the jobs that have ended, linked by @a next, or NULL. */
muct_xgmi_job_t *muct_xgmi_mover_take(muct_xgmi_mover_t *mover);


/** Let the next job that ends wake the sleeping thread. @return false: a job has ended
 * already. */
bool muct_xgmi_mover_arm(muct_xgmi_mover_t *mover);

#endif
