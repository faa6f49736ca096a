/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/muct_lock.h"

/* The linker sets the bounds of a section with such a name. */
extern void (*const __start_muct_in_child[])(void)
    __attribute__((weak, visibility("hidden")));
extern void (*const __stop_muct_in_child[])(void)
    __attribute__((weak, visibility("hidden")));


static void muct_lock_forked(void)
{
    void (*const *function)(void);

    for (function = __start_muct_in_child; function != __stop_muct_in_child;
         ++function) {
        (*function)();
    }
}

static void muct_lock_register(void)
{
    (void)pthread_atfork(NULL, NULL, muct_lock_forked);
}

void muct_lock_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, muct_lock_register);
}
