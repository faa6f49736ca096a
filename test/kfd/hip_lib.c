/* SPDX-License-Identifier: BSD-3-Clause */

#include "hip_lib.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *hip_library(void)
{
    static void *library;
    const char *path = getenv("HIP_LIBRARY");

    if (library == NULL) {
        library =
            dlopen((path != NULL) ? path : "libamdhip64.so.6", RTLD_NOW | RTLD_GLOBAL);
    }
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return library;
}

int hip_has(const char *name)
{
    return dlsym(hip_library(), name) != NULL;
}

void *hip_symbol(const char *name)
{
    void *symbol = dlsym(hip_library(), name);

    if (symbol == NULL) {
        fprintf(stderr, "the runtime has no %s\n", name);
        exit(1);
    }
    return symbol;
}

void hip_fail(const char *file, int line, const char *what, int code)
{
    if (code != 0) {
        fprintf(stderr, "%s:%d: %s returned %d (%s)\n", file, line, what, code,
                HIP(hipGetErrorString)((hipError_t)code));
    } else {
        fprintf(stderr, "%s:%d: %s does not hold\n", file, line, what);
    }
    exit(1);
}

static unsigned char hip_byte(size_t i, unsigned seed)
{
    return (unsigned char)((i * 13) + (i >> 8) + seed);
}

void hip_pattern(void *buffer, size_t length, unsigned seed)
{
    unsigned char *p = buffer;
    size_t i;

    for (i = 0; i < length; ++i) {
        p[i] = hip_byte(i, seed);
    }
}

size_t hip_pattern_good(const void *buffer, size_t length, unsigned seed)
{
    const unsigned char *p = buffer;
    size_t i, good = 0;

    for (i = 0; i < length; ++i) {
        good += p[i] == hip_byte(i, seed);
    }
    return good;
}
