/* SPDX-License-Identifier: BSD-3-Clause */

/* A core with a second reference that UCX does not define; it_module opens it in place
 * of a real one. */

#include "loader/loader_core.h"

extern int ucs_global_opts __attribute__((weak));
extern int ucs_function_of_the_future __attribute__((weak));

__attribute__((visibility("default"))) void muct_core_register(const char *core,
                                                               const char *ucs);

int *core_odd_references[] = {&ucs_global_opts, &ucs_function_of_the_future};

void muct_core_register(const char *core, const char *ucs)
{
    /* the loader must not reach this */
    __builtin_trap();
    (void)core;
    (void)ucs;
}
