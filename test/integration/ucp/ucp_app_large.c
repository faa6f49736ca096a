/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory of many gigabytes in the small UCP application, made and compared in seconds.
 * The pattern's length divides no power of two, so that a piece which is lost, cut to
 * 32 bits or put elsewhere is detected.
 */

#include "test/integration/ucp/ucp_app.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PERIOD ((size_t)16381 * 4096) /* a prime number of pages */
#define CHUNK ((size_t)4 << 20)


/* Create a single copy of the pattern, in a file that can be mapped again and again. */
static char *large_pattern(uint64_t seed, int *fd_p)
{
    int fd = memfd_create("ucp_app", MFD_CLOEXEC);
    void *pattern = MAP_FAILED;

    if ((fd >= 0) && (ftruncate(fd, (off_t)PERIOD) == 0)) {
        pattern = mmap(NULL, PERIOD, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (pattern == MAP_FAILED) {
        close(fd);
        return NULL;
    }

    mkv_pattern_fill(pattern, PERIOD, seed, 0);
    *fd_p = fd;
    return pattern;
}

/* A device of libhipcpu takes its memory from where the address leads, so that all of
 * it can be the same pages. */
static int large_place(const ucp_app_mem_t *mem, size_t at, size_t length, int fd,
                       const char *pattern)
{
    char *addr = (char *)mem->addr + at;

    if (getenv("MKV_TEST_REAL_HIP") != NULL) {
        return mkv_hip_copy(addr, pattern, length);
    }

    return mmap(addr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
           MAP_FAILED;
}

int ucp_app_mem_fill_large(const ucp_app_mem_t *mem, uint64_t seed)
{
    size_t done, length;
    char *pattern;
    int is_ok = 1;
    int fd;

    pattern = large_pattern(seed, &fd);
    if (pattern == NULL) {
        return 0;
    }

    for (done = 0; is_ok && (done < mem->length); done += length) {
        length = (mem->length - done < PERIOD) ? mem->length - done : PERIOD;
        is_ok = large_place(mem, done, length, fd, pattern);
    }

    munmap(pattern, PERIOD);
    close(fd);
    return is_ok;
}

size_t ucp_app_mem_check_large(const ucp_app_mem_t *mem, uint64_t seed)
{
    char *buffer = malloc(CHUNK), *pattern;
    size_t done = 0, in_period, length;
    int fd;

    pattern = large_pattern(seed, &fd);
    while ((buffer != NULL) && (pattern != NULL) && (done < mem->length)) {
        in_period = done % PERIOD;
        length = (PERIOD - in_period < CHUNK) ? PERIOD - in_period : CHUNK;
        length = (mem->length - done < length) ? mem->length - done : length;
        if (!mkv_hip_copy(buffer, (char *)mem->addr + done, length) ||
            (memcmp(buffer, pattern + in_period, length) != 0)) {
            break;
        }
        done += length;
    }

    if (pattern != NULL) {
        munmap(pattern, PERIOD);
        close(fd);
    }
    free(buffer);
    return done;
}
