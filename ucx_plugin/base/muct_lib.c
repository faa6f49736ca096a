/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "base/muct_lib.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void muct_lib_file(const void *function, char path[PATH_MAX])
{
    Dl_info info;
    void *address;

    memcpy(&address, function, sizeof(address));
    if ((dladdr(address, &info) == 0) || (info.dli_fname == NULL) ||
        (realpath(info.dli_fname, path) == NULL)) {
        strcpy(path, "unknown");
    }
}
