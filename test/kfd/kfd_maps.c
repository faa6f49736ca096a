/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * /proc/self/maps, in which a buffer object has the path of its render node: on a
 * machine with GPUs it is mapped from there, and UCX looks for that path to find memory
 * that was allocated before its hooks (ucm_rocm_scan_region_cb() of rocmmem.c).
 */

#include "kfd_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KFD_MAPS_NAME "/memfd:kfdbo-"

/* Write a line, with another path where it is a buffer object's. */
static void kfd_put_line(FILE *to, const char *line)
{
    const char *path = strstr(line, KFD_MAPS_NAME);
    unsigned gpu_id;

    if ((path != NULL) && (sscanf(path, KFD_MAPS_NAME "%x", &gpu_id) == 1)) {
        fprintf(to, "%.*s/dev/dri/renderD%u\n", (int)(path - line), line,
                KFD_FIRST_MINOR + gpu_id - KFD_GPU_ID(0));
    } else {
        fputs(line, to);
    }
}

int kfd_maps_open(void)
{
    int from =
        (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    int to = memfd_create("maps", MFD_CLOEXEC), copy;
    FILE *in = (from < 0) ? NULL : fdopen(from, "r"), *out = NULL;
    char line[4096 + 256];

    copy = (to < 0) ? -1 : fcntl(to, F_DUPFD_CLOEXEC, 3);
    out = (copy < 0) ? NULL : fdopen(copy, "w");
    if ((in == NULL) || (out == NULL)) {
        kfd_die("cannot read /proc/self/maps: %s", strerror(errno));
    }
    while (fgets(line, sizeof(line), in) != NULL) {
        kfd_put_line(out, line);
    }
    fclose(in);
    fclose(out);
    lseek(to, 0, SEEK_SET);
    return to;
}
