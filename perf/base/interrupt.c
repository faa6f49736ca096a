/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/base/interrupt.h"

#include <stddef.h>


volatile sig_atomic_t perf_is_interrupted;

static void (*perf_interrupt_forward)(int number);


static void perf_interrupt_set(int number)
{
    (void)number;
    perf_is_interrupted = 1;
}

static void perf_interrupt_pass(int number, siginfo_t *info, void *context)
{
    (void)context;
    perf_is_interrupted = 1;
    if (info->si_code == SI_USER) {
        perf_interrupt_forward(number);
    }
}

void perf_interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = perf_interrupt_set,
                               .sa_flags = (int)SA_RESETHAND};

    sigaction(SIGINT, &action, NULL);
}

void perf_interrupt_leave(void (*forward)(int number))
{
    struct sigaction action = {.sa_sigaction = perf_interrupt_pass,
                               .sa_flags = SA_SIGINFO};

    perf_interrupt_forward = forward;
    sigaction(SIGINT, &action, NULL);
}
