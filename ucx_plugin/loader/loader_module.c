/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * libuct_mori: the module that UCX finds in UCX_PLUGIN_PATH. It needs no UCX library
 * and has no symbol of one, so any UCX can open it, and it brings no second UCX into
 * the process. UCX calls its entry; the return address shows which UCX that is. The
 * core for that UCX's minor version lies beside this file. It is opened, bound to that
 * UCX, and registers.
 *
 * A process may hold several UCX. Each calls and gets a core of its own, as a core
 * holds the addresses of one UCX. If two have one minor version, the second gets a copy
 * of the core's file, in memory.
 *
 * If no core fits, UCX works as without this module, and one line gives the reason. The
 * module stays in memory (-z nodelete), as UCX keeps pointers into the core.
 */

#include "config.h"

#include "loader/loader_bind.h"
#include "loader/loader_core.h"
#include "loader/loader_log.h"
#include "loader/loader_ucx.h"
#include "loader/loader_version.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MUCT_LOADER_MAX_UCX 16

/* UCX that were served, by identity, and the core's minor version; under the lock. */
static pthread_mutex_t muct_loader_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const void *identity;
    int minor;
} muct_loader_served[MUCT_LOADER_MAX_UCX];
static unsigned muct_loader_num_served;

/* Another thread may have held the lock at the fork, and does not exist in the child */
static void muct_loader_forked(void)
{
    (void)pthread_mutex_init(&muct_loader_lock, NULL);
}

__attribute__((constructor)) static void muct_loader_watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, muct_loader_forked);
}

/* UCX's name for a module's entry. Returns a ucs_status_t; 0 is UCS_OK. */
__attribute__((visibility("default"))) int muct_loader_entry(void) __asm__(
    "ucs_module_global_init");

/* The folder of this shared object. */
static int muct_loader_folder(char *folder, size_t size)
{
    Dl_info info;
    char *slash;

    if (!dladdr(&muct_loader_lock, &info) ||
        (snprintf(folder, size, "%s", info.dli_fname) >= (int)size)) {
        return -1;
    }

    slash = strrchr(folder, '/');
    if (slash == NULL) {
        return -1;
    }
    *slash = '\0';
    return 0;
}

/* Installed cores, as "1.22, 1.23". */
static void muct_loader_list_cores(const char *folder, char *text, size_t size)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    size_t length = 0;
    int minor, end;

    text[0] = '\0';
    if (dir == NULL) {
        return;
    }

    while ((length < size) && ((entry = readdir(dir)) != NULL)) {
        end = 0;
        if ((sscanf(entry->d_name, "mori-core-1.%d.so%n", &minor, &end) == 1) &&
            (end > 0) && (entry->d_name[end] == '\0')) {
            length += (size_t)snprintf(&text[length], size - length, "%s1.%d",
                                       (length == 0) ? "" : ", ", minor);
        }
    }
    closedir(dir);
}

/* The copy's descriptor stays open: its number is the copy's name. */
static void *muct_loader_open_copy(const char *file)
{
    int from = open(file, O_RDONLY | O_CLOEXEC), to;
    char buffer[65536], name[64];
    ssize_t count = -1;

    to = (from < 0) ? -1 : memfd_create("mori-core", MFD_CLOEXEC);
    if (to >= 0) {
        while (((count = read(from, buffer, sizeof(buffer))) > 0) &&
               (write(to, buffer, (size_t)count) == count)) {
        }
    }
    if (from >= 0) {
        close(from);
    }
    if ((to < 0) || (count != 0)) {
        return NULL;
    }

    snprintf(name, sizeof(name), "/proc/self/fd/%d", to);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static void *muct_loader_open_core(const char *file, int minor)
{
    unsigned i;

    for (i = 0; i < muct_loader_num_served; ++i) {
        if (muct_loader_served[i].minor == minor) {
            return muct_loader_open_copy(file);
        }
    }

    return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

static int muct_loader_start_core(const char *file, int minor,
                                  const muct_loader_ucx_t *ucx, char *reason,
                                  size_t size)
{
    muct_core_register_func_t start;
    struct link_map *map;
    const char *error;
    void *core, *symbol;

    core = muct_loader_open_core(file, minor);
    if (core == NULL) {
        error = dlerror();
        snprintf(reason, size, "%s", (error == NULL) ? strerror(errno) : error);
        return -1;
    }

    symbol = dlsym(core, MUCT_CORE_REGISTER);
    if ((symbol == NULL) || dlinfo(core, RTLD_DI_LINKMAP, &map)) {
        snprintf(reason, size, "it is no core of this ucx-mori");
        goto err_close;
    }
    if (muct_loader_bind(map, ucx, reason, size)) {
        goto err_close;
    }

    memcpy(&start, &symbol, sizeof(start));
    start(file, ucx->file);
    return 0;

err_close:
    dlclose(core);
    return -1;
}

/* ./configure refuses a UCX that base/muct_uct_abi.h does not describe. */
static void muct_loader_warn_missing_core(const muct_loader_ucx_t *ucx, int minor,
                                          const char *folder)
{
    char cores[128];

    muct_loader_list_cores(folder, cores, sizeof(cores));
    if (minor > MUCT_LOADER_NEWEST_MINOR) {
        muct_loader_warn(
            "ucx-mori is not used: %s is UCX 1.%d, and this release serves "
            "UCX 1.22 to 1.%d: install a newer ucx-mori, or use such a UCX",
            ucx->file, minor, MUCT_LOADER_NEWEST_MINOR);
        return;
    }
    muct_loader_warn(
        "ucx-mori is not used: %s is UCX 1.%d, and %s has cores for UCX %s: "
        "add mori-core-1.%d.so, built by ./configure --with-ucx=DIR "
        "against that UCX",
        ucx->file, minor, folder, (cores[0] == '\0') ? "none" : cores, minor);
}

static int muct_loader_serve(const muct_loader_ucx_t *ucx)
{
    char folder[PATH_MAX - 64], file[PATH_MAX], reason[512];
    int minor;

    minor = muct_loader_version_choose(&ucx->facts, reason, sizeof(reason));
    if (minor < 0) {
        muct_loader_warn("ucx-mori is not used: %s (%s)", reason, ucx->file);
        return -1;
    }
    if (muct_loader_folder(folder, sizeof(folder))) {
        muct_loader_warn(
            "ucx-mori is not used: its module was opened without a folder");
        return -1;
    }

    snprintf(file, sizeof(file), "%s/mori-core-1.%d.so", folder, minor);
    if (access(file, F_OK)) {
        muct_loader_warn_missing_core(ucx, minor, folder);
        return -1;
    }
    if (muct_loader_start_core(file, minor, ucx, reason, sizeof(reason))) {
        muct_loader_warn("ucx-mori is not used: %s cannot serve UCX 1.%d, %s: %s", file,
                         minor, ucx->file, reason);
        return -1;
    }

    return minor;
}

static bool muct_loader_was_served(const muct_loader_ucx_t *ucx)
{
    unsigned i;

    for (i = 0; i < muct_loader_num_served; ++i) {
        if (muct_loader_served[i].identity == ucx->identity) {
            return true;
        }
    }

    return false;
}

/* Warn if the call of a libucs that was served comes from another library through it.
 */
static void muct_loader_warn_stray(const muct_loader_ucx_t *ucx)
{
    char *stray = muct_loader_ucx_stray(ucx);

    if (stray != NULL) {
        muct_loader_warn(
            "ucx-mori is not used by %s, which calls the libucs of another "
            "UCX, %s: load the former's UCX first, or one UCX alone",
            stray, ucx->file);
    }
    free(stray);
}

int muct_loader_entry(void)
{
    muct_loader_ucx_t ucx;
    int minor;

    if (muct_loader_ucx_find(__builtin_return_address(0), &ucx)) {
        return 0;
    }

    pthread_mutex_lock(&muct_loader_lock);
    if (muct_loader_was_served(&ucx)) {
        muct_loader_warn_stray(&ucx);
    } else if (muct_loader_num_served < MUCT_LOADER_MAX_UCX) {
        minor = muct_loader_serve(&ucx);
        muct_loader_served[muct_loader_num_served].identity = ucx.identity;
        muct_loader_served[muct_loader_num_served++].minor = minor;
    }
    pthread_mutex_unlock(&muct_loader_lock);

    free(ucx.file);
    return 0; /* UCX unloads a module that fails */
}
