/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Alternatives that were considered for a core's references to the calling UCX:
 * - a dependency by name (DT_NEEDED): every wheel has other names, and where the plain
 *   name is found too, a second UCX is loaded and takes the memory hooks of the first;
 * - RTLD_GLOBAL for the UCX found: changes the scope of everything loaded later,
 *   modules of other UCX libraries included, and has no effect where one is global
 *   already;
 * - RTLD_DEEPBIND: puts libc before a preloaded allocator as well;
 * - a separate namespace (dlmopen): a second libc, a second HIP runtime;
 * - a copy of the core in memory, its dependencies renamed or its symbols made
 *   absolute: debuggers, profilers and valgrind do not find its file, and hardened
 *   hosts forbid it;
 * - a table of pointers: UCX compares addresses of its functions with those in our
 *   tables.
 *
 * Therefore the references are weak, the file is opened unchanged, and the loader then
 * resolves the references as the dynamic linker would.
 */

#include "config.h"

#include "loader/loader_bind.h"

#include "loader/loader_image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Range that is write-protected after loading, in whole pages. */
typedef struct muct_loader_relro {
    uintptr_t base;
    uintptr_t start;
    size_t size;
} muct_loader_relro_t;

static int muct_loader_find_relro(struct dl_phdr_info *info, size_t size, void *arg)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start;
    muct_loader_relro_t *relro = arg;
    int i;

    (void)size;
    if (info->dlpi_addr != relro->base) {
        return 0;
    }

    for (i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
            start = relro->base + info->dlpi_phdr[i].p_vaddr;
            relro->start = start & ~(page - 1);
            relro->size =
                ((start + info->dlpi_phdr[i].p_memsz) & ~(page - 1)) - relro->start;
        }
    }
    return 1;
}

static int muct_loader_protect(const muct_loader_relro_t *relro, int how)
{
    return (relro->size == 0) ? 0 : mprotect((void *)relro->start, relro->size, how);
}

static bool muct_loader_is_of_ucx(const muct_loader_ref_t *ref)
{
    return !ref->is_defined &&
           (!strncmp(ref->name, "uct_", 4) || !strncmp(ref->name, "ucs_", 4) ||
            !strncmp(ref->name, "ucm_", 4));
}

static int muct_loader_fill(const muct_loader_image_t *image,
                            const muct_loader_ucx_t *ucx, char *reason, size_t size)
{
    size_t count = muct_loader_image_count(image), i;
    muct_loader_ref_t ref;
    const void *found;

    for (i = 0; i < count; ++i) {
        ref = muct_loader_image_ref(image, i);
        if (!muct_loader_is_of_ucx(&ref)) {
            continue;
        }

        found = muct_loader_ucx_symbol(ucx, ref.name);
        if ((found == NULL) || (ref.kind == MUCT_LOADER_UNKNOWN)) {
            snprintf(reason, size, "%s %s",
                     (found == NULL) ? "this UCX has no"
                                     : "unknown kind of reference to",
                     ref.name);
            return -1;
        }
        *ref.place = (uintptr_t)found + ref.addend;
    }

    return 0;
}

int muct_loader_bind(const struct link_map *core, const muct_loader_ucx_t *ucx,
                     char *reason, size_t size)
{
    muct_loader_relro_t relro = {.base = core->l_addr};
    muct_loader_image_t image;
    int ret;

    muct_loader_image_open(core, &image);
    (void)dl_iterate_phdr(muct_loader_find_relro, &relro);
    if (muct_loader_protect(&relro, PROT_READ | PROT_WRITE)) {
        snprintf(reason, size, "mprotect(%zu bytes, writable) failed: %s", relro.size,
                 strerror(errno));
        return -1;
    }

    ret = muct_loader_fill(&image, ucx, reason, size);
    (void)muct_loader_protect(&relro, PROT_READ);
    return ret;
}
