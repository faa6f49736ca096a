/* SPDX-License-Identifier: BSD-3-Clause */

/* Version reported by a newer libucp, preloaded to see the module refuse it. It is
 * linked to libucs, so the loader regards it as part of that UCX. */

#include <ucs/config/global_opts.h>

extern const void *const ucp_next_refers_to;

__attribute__((visibility("default"))) void ucp_get_version(unsigned *major,
                                                            unsigned *minor,
                                                            unsigned *release);

const void *const ucp_next_refers_to = &ucs_global_opts;

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
    *major = 1;
    *minor = 99;
    *release = 0;
}
