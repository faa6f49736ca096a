/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "xgmi/copy/xgmi_mover.h"

#include "base/muct_log.h"
#include "xgmi/peer/xgmi_thread.h"

#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>


/* Read the CPUs that the threads may use. @return their number. */
static long muct_xgmi_mover_read_cpus(muct_xgmi_mover_t *mover)
{
    mover->has_cpus = sched_getaffinity(0, sizeof(mover->cpus), &mover->cpus) == 0;
    return mover->has_cpus
               ? CPU_COUNT(&mover->cpus)
               : sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than the set holds */
}

void muct_xgmi_mover_init(muct_xgmi_mover_t *mover, muct_xgmi_wake_t *wake)
{
    long num_cpus;

    memset(mover, 0, sizeof(*mover));
    num_cpus = muct_xgmi_mover_read_cpus(mover);
    mover->wake = wake;
    mover->pid = getpid();
    mover->last = &mover->first;
    mover->max_threads = (num_cpus > MUCT_XGMI_MAX_MOVERS) ? MUCT_XGMI_MAX_MOVERS : 1;
    pthread_mutex_init(&mover->lock, NULL);
    pthread_cond_init(&mover->changed, NULL);
}

/* Locked. */
static void muct_xgmi_mover_end_job(muct_xgmi_mover_t *mover, muct_xgmi_job_t *job)
{
    job->next = mover->done;
    mover->done = job;
    atomic_store(&mover->has_done, true);
    if (atomic_exchange(&mover->is_awaited, false)) {
        muct_xgmi_wake_signal(mover->wake);
    }
}

static void *muct_xgmi_mover_main(void *arg)
{
    muct_xgmi_mover_t *mover = arg;
    muct_xgmi_job_t *job;

    (void)prctl(PR_SET_NAME, "mori-mover"); /* a thread inherits its creator's name */
    if (mover->has_cpus) {
        /* a cgroup may have none of them by now */
        (void)sched_setaffinity(0, sizeof(mover->cpus), &mover->cpus);
    }
    pthread_mutex_lock(&mover->lock);
    while (!mover->is_ending) {
        job = mover->first;
        if (job == NULL) {
            ++mover->num_idle;
            pthread_cond_wait(&mover->changed, &mover->lock);
            --mover->num_idle;
            continue;
        }
        mover->first = job->next;
        if (mover->first == NULL) {
            mover->last = &mover->first;
        }
        pthread_mutex_unlock(&mover->lock);
        job->run(job);
        pthread_mutex_lock(&mover->lock);
        muct_xgmi_mover_end_job(mover, job);
    }
    pthread_mutex_unlock(&mover->lock);
    return NULL;
}

/* Locked. */
static void muct_xgmi_mover_start(muct_xgmi_mover_t *mover)
{
    int error = muct_xgmi_thread_start(&mover->threads[mover->num_threads],
                                       muct_xgmi_mover_main, mover);

    if (error == 0) {
        ++mover->num_threads;
    } else {
        muct_diag("failed to start a thread that copies host memory: %s",
                  strerror(error));
    }
}

void muct_xgmi_mover_cleanup(muct_xgmi_mover_t *mover)
{
    if (mover->pid != getpid()) {
        return; /* a forked child has no threads; its copy of the lock may be held */
    }

    pthread_mutex_lock(&mover->lock);
    mover->is_ending = true;
    pthread_cond_broadcast(&mover->changed);
    pthread_mutex_unlock(&mover->lock);
    while (mover->num_threads > 0) {
        pthread_join(mover->threads[--mover->num_threads], NULL);
    }
    pthread_cond_destroy(&mover->changed);
    pthread_mutex_destroy(&mover->lock);
}

void muct_xgmi_mover_add(muct_xgmi_mover_t *mover, muct_xgmi_job_t *job)
{
    job->next = NULL;
    pthread_mutex_lock(&mover->lock);
    if ((mover->num_idle == 0) && (mover->num_threads < mover->max_threads)) {
        muct_xgmi_mover_start(mover);
    }
    if (mover->num_threads > 0) {
        *mover->last = job;
        mover->last = &job->next;
        pthread_cond_signal(&mover->changed);
    } else {
        job->run(job);
        muct_xgmi_mover_end_job(mover, job);
    }
    pthread_mutex_unlock(&mover->lock);
}

muct_xgmi_job_t *muct_xgmi_mover_take(muct_xgmi_mover_t *mover)
{
    muct_xgmi_job_t *done;

    if (!atomic_load_explicit(&mover->has_done, memory_order_relaxed)) {
        return NULL;
    }
    pthread_mutex_lock(&mover->lock);
    done = mover->done;
    mover->done = NULL;
    atomic_store(&mover->has_done, false);
    pthread_mutex_unlock(&mover->lock);
    return done;
}

bool muct_xgmi_mover_arm(muct_xgmi_mover_t *mover)
{
    atomic_store(&mover->is_awaited, true);
    return !atomic_load(&mover->has_done);
}
