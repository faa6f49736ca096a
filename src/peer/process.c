/* SPDX-License-Identifier: BSD-3-Clause */

/* Process identity, as Linux tells it. */

#include "peer/process.h"

#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t mkv_read_file(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t length;

    text[0] = '\0';
    if (file == NULL) {
        return 0;
    }
    length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    fclose(file);
    return length;
}

/* State and start time of a process; the name in between may hold any byte */
static int mkv_process_stat(const char *path, char *state_p, uint64_t *start_p)
{
    char text[1024];
    char *p;
    int i;

    if (mkv_read_file(path, text, sizeof(text)) == 0) {
        return 0;
    }
    p = strrchr(text, ')');
    if (p == NULL) {
        return 0;
    }
    p += 1 + (p[1] == ' ');
    *state_p = *p;
    for (i = 3; (i < 22) && (p != NULL); ++i) { /* the state is field 3 */
        p = strchr(p, ' ');
        p += (p != NULL);
    }
    if (p == NULL) {
        return 0;
    }
    *start_p = strtoull(p, NULL, 10);
    return 1;
}

static uint64_t mkv_hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (; isgraph((unsigned char)*text); ++text) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
    }
    return hash;
}

void mkv_process_self(mkv_process_t *process)
{
    char text[64];
    struct stat st;
    char state;

    memset(process, 0, sizeof(*process));
    process->pid = (uint32_t)getpid();
    if (mkv_read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text)) > 0) {
        process->host_id = mkv_hash_text(text);
    }
    if (stat("/proc/self/ns/pid", &st) == 0) {
        process->pid_ns = st.st_ino;
    }
    (void)mkv_process_stat("/proc/self/stat", &state, &process->start_time);
}

int mkv_process_is_local(const mkv_process_t *self, const mkv_process_t *process)
{
    return (self->host_id == 0) || (self->host_id == process->host_id);
}

int mkv_process_is_gone(const mkv_process_t *self, const mkv_process_t *process)
{
    char path[64];
    uint64_t start;
    char state;

    if ((self->host_id == 0) || (self->host_id != process->host_id) ||
        (self->pid_ns == 0) || (self->pid_ns != process->pid_ns) ||
        (process->start_time == 0) || (process->pid == 0) ||
        (process->pid > INT32_MAX)) {
        return 0; /* it may well be, but nothing here proves it */
    }

    mkv_text(path, sizeof(path), "/proc/%u/stat", process->pid);
    if (!mkv_process_stat(path, &state, &start)) {
        /* No descriptor may be left, or /proc may hide it: that alone proves nothing */
        return (kill((pid_t)process->pid, 0) != 0) && (errno == ESRCH);
    }
    /* A zombie has no memory any more */
    return (start != process->start_time) || (state == 'Z') || (state == 'X');
}
