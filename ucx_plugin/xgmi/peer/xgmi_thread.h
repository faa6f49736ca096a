/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_THREAD_H
#define MUCT_XGMI_THREAD_H

/** @file Threads of the module in the application's process. */

#include <pthread.h>
#include <signal.h>


/** Like pthread_create(), but with all signals blocked, so that the application's
 * threads get them. */
static inline int muct_xgmi_thread_start(pthread_t *thread, void *(*run)(void *arg),
                                         void *arg)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

#endif
