/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The identity of a UCX is the address of its global options, as its libraries see
 * them: in libucs, or in the program when that is linked to libucs and holds a copy.
 *
 * Names are collected first and opened afterwards, because the dynamic linker's lock on
 * its list is held during dl_iterate_phdr().
 */

#include "config.h"

#include "loader/loader_ucx.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#define MUCT_LOADER_IDENTITY "ucs_global_opts"

typedef struct muct_loader_names {
    char **names;
    size_t count;
} muct_loader_names_t;

typedef void (*muct_loader_get_version_func_t)(unsigned *major, unsigned *minor,
                                               unsigned *release);

static int muct_loader_collect(struct dl_phdr_info *info, size_t size, void *arg)
{
    muct_loader_names_t *list = arg;
    char **names = realloc(list->names, (list->count + 1) * sizeof(*names));

    (void)size;
    if (names == NULL) {
        return 1;
    }

    list->names = names;
    names[list->count] = strdup(info->dlpi_name);
    if (names[list->count] == NULL) {
        return 1;
    }

    ++list->count;
    return 0;
}

static void muct_loader_names_free(muct_loader_names_t *list)
{
    size_t i;

    for (i = 0; i < list->count; ++i) {
        free(list->names[i]);
    }
    free(list->names);
}

static void *muct_loader_reopen(const char *name)
{
    /* the main program has no name */
    return dlopen((name[0] == '\0') ? NULL : name,
                  RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
}

static struct link_map *muct_loader_map_of(const void *address)
{
    struct link_map *map = NULL;
    Dl_info info;

    return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

static const void *muct_loader_map_sees(const struct link_map *map, const char *name)
{
    muct_loader_image_t image;

    muct_loader_image_open(map, &image);
    return muct_loader_image_sees(&image, name);
}

/* Address of a symbol as a library resolves it, or in the library that defines it when
 * the first one does not refer to it. */
static const void *muct_loader_sees(void *lib, const char *name)
{
    const void *found = dlsym(lib, name), *seen;
    struct link_map *map;

    if ((found == NULL) || dlinfo(lib, RTLD_DI_LINKMAP, &map)) {
        return NULL;
    }

    seen = muct_loader_map_sees(map, name);
    if (seen == NULL) {
        map = muct_loader_map_of(found);
        seen = (map == NULL) ? NULL : muct_loader_map_sees(map, name);
    }
    return (seen == NULL) ? found : seen;
}

/* Whether this library defines the symbol itself, not by a dependency. */
static bool muct_loader_defines(void *lib, const char *name)
{
    const void *symbol = dlsym(lib, name);
    struct link_map *map;

    return (symbol != NULL) && (dlinfo(lib, RTLD_DI_LINKMAP, &map) == 0) &&
           (muct_loader_map_of(symbol) == map);
}

/* The library of this UCX that defines a symbol; closed by the caller. */
static void *muct_loader_find_library(const muct_loader_names_t *list,
                                      const void *identity, const char *defined)
{
    size_t i;
    void *lib;

    for (i = 0; i < list->count; ++i) {
        lib = muct_loader_reopen(list->names[i]);
        if (lib == NULL) {
            continue;
        }
        if (muct_loader_defines(lib, defined) &&
            (muct_loader_sees(lib, MUCT_LOADER_IDENTITY) == identity)) {
            return lib;
        }
        dlclose(lib);
    }

    return NULL;
}

static void muct_loader_query(const muct_loader_names_t *list, muct_loader_ucx_t *ucx)
{
    muct_loader_facts_t *facts = &ucx->facts;
    void *ucp = muct_loader_find_library(list, ucx->identity, "ucp_get_version");
    unsigned major, minor, release;
    muct_loader_get_version_func_t get;
    void *symbol;

    facts->major = -1;
    facts->minor = -1;
    if (ucp != NULL) {
        symbol = dlsym(ucp, "ucp_get_version");
        memcpy(&get, &symbol, sizeof(get));
        get(&major, &minor, &release);
        facts->major = (int)major;
        facts->minor = (int)minor;
        dlclose(ucp);
    }

    facts->has_put_sgl = dlsym(ucx->uct, "uct_ep_put_sgl_zcopy") != NULL;
    facts->has_get_sgl = dlsym(ucx->uct, "uct_ep_get_sgl_zcopy") != NULL;
    facts->has_statistics = dlsym(ucx->uct, "ucs_stats_node_alloc") != NULL;
}

const void *muct_loader_ucx_symbol(const muct_loader_ucx_t *ucx, const char *name)
{
    const void *seen = muct_loader_image_sees(&ucx->images[0], name);

    if (seen == NULL) {
        seen = muct_loader_image_sees(&ucx->images[1], name);
    }
    return (seen == NULL) ? dlsym(ucx->uct, name) : seen;
}

char *muct_loader_ucx_stray(const muct_loader_ucx_t *ucx)
{
    const void *ours = muct_loader_sees(ucx->uct, "uct_components_list");
    muct_loader_names_t list = {NULL, 0};
    char *file = NULL;
    size_t i;
    void *lib;

    (void)dl_iterate_phdr(muct_loader_collect, &list);
    for (i = 0; (i < list.count) && (file == NULL); ++i) {
        lib = muct_loader_reopen(list.names[i]);
        if (lib == NULL) {
            continue;
        }
        if (muct_loader_defines(lib, "uct_component_register") &&
            (muct_loader_sees(lib, MUCT_LOADER_IDENTITY) == ucx->identity) &&
            (muct_loader_sees(lib, "uct_components_list") != ours)) {
            file = strdup(list.names[i]);
        }
        dlclose(lib);
    }

    muct_loader_names_free(&list);
    return file;
}

int muct_loader_ucx_find(const void *in_ucs, muct_loader_ucx_t *ucx)
{
    struct link_map *map = muct_loader_map_of(in_ucs), *uct_map;
    muct_loader_names_t list = {NULL, 0};
    void *ucs;

    ucs = (map == NULL) ? NULL : muct_loader_reopen(map->l_name);
    if (ucs == NULL) {
        return -1;
    }

    ucx->identity = muct_loader_sees(ucs, MUCT_LOADER_IDENTITY);
    dlclose(ucs);
    if (ucx->identity == NULL) {
        return -1;
    }

    (void)dl_iterate_phdr(muct_loader_collect, &list);
    ucx->uct = muct_loader_find_library(&list, ucx->identity, "uct_component_register");
    ucx->file = strdup((map->l_name[0] == '\0') ? "the main program" : map->l_name);
    if ((ucx->uct != NULL) && (ucx->file != NULL) &&
        (dlinfo(ucx->uct, RTLD_DI_LINKMAP, &uct_map) == 0)) {
        muct_loader_image_open(uct_map, &ucx->images[0]);
        muct_loader_image_open(map, &ucx->images[1]);
        muct_loader_query(&list, ucx);
    } else {
        free(ucx->file);
        ucx->file = NULL;
    }

    muct_loader_names_free(&list);
    return (ucx->file == NULL) ? -1 : 0;
}
