/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A program of a wheel. It is a shared object, ../lib/NAME.so or ../../lib/NAME.so
 * beside this file's copy NAME. The object is linked without UCX: LIBMORIKV_UCX, which
 * `python -m morikv` sets, names the UCX to load; without it the linker finds one.
 */

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*run_main_t)(int argc, char **argv);


static int run_failed(const char *name, const char *remedy)
{
    fprintf(stderr, "%s: %s; %s\n", name, dlerror(), remedy);
    return EXIT_FAILURE;
}

/* The shared object of the program NAME in a folder. */
static void *run_open(const char *folder, const char *name)
{
    static const char *const ways[] = {"../../lib", "../lib"};
    char path[2 * PATH_MAX];
    void *program = NULL;
    size_t i;

    for (i = 0; (i < 2) && (program == NULL); ++i) {
        (void)snprintf(path, sizeof(path), "%s/%s/%s.so", folder, ways[i], name);
        if ((i > 0) || (access(path, F_OK) == 0)) {
            return dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
    }
    return program;
}

int main(int argc, char **argv)
{
    const char *ucx = getenv("LIBMORIKV_UCX");
    char self[PATH_MAX] = "";
    char *name = NULL;
    void *program, *symbol;
    run_main_t run;

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) > 0) {
        name = strrchr(self, '/');
    }
    if (name == NULL) {
        fprintf(stderr, "mori_kv_perf: /proc/self/exe cannot be read; mount /proc\n");
        return EXIT_FAILURE;
    }
    *name++ = '\0';

    if (dlopen((ucx != NULL) ? ucx : "libucp.so.0", RTLD_NOW | RTLD_GLOBAL) == NULL) {
        return run_failed(name,
                          "expected a UCX where the linker looks, or the file of its "
                          "libucp in LIBMORIKV_UCX, which python -m morikv sets");
    }
    program = run_open(self, name);
    if (program == NULL) {
        return run_failed(name, "install the wheel again");
    }
    symbol = dlsym(program, "main");
    if (symbol == NULL) {
        return run_failed(name, "install the wheel again");
    }
    memcpy(&run, &symbol, sizeof(run));
    return run(argc, argv);
}
