/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_test.h"

#include <dirent.h>
#include <endian.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

/* Most events come within the polls that yield; each poll takes a while on a busy
   machine.
 */
enum { MKV_TEST_YIELDS = 20, MKV_TEST_SHORT_PAUSES = 200 };

/* Shared with every forked child; written by one process at a time. */
static struct {
    int num_passed;
    int num_skipped;
} *mkv_test_counters;


void mkv_test_init(void)
{
    mkv_test_counters = mmap(NULL, sizeof(*mkv_test_counters), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mkv_test_counters == MAP_FAILED) {
        perror("mmap of the test counters");
        exit(MKV_TEST_EXIT_HARD);
    }

    setvbuf(stdout, NULL, _IOLBF, 0);
}

int mkv_test_limit_ms(void)
{
    const char *text = getenv("MKV_TEST_LIMIT_S");

    return (text != NULL) && (atoi(text) > 0) ? atoi(text) * 1000 : MKV_TEST_LIMIT_MS;
}

uint64_t mkv_test_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ((uint64_t)ts.tv_sec * 1000) + ((uint64_t)ts.tv_nsec / 1000000);
}

void mkv_test_pause(unsigned *empty)
{
    struct timespec pause = {.tv_nsec = 100000};

    if (++*empty < MKV_TEST_YIELDS) {
        sched_yield();
        return;
    }

    if (*empty > MKV_TEST_SHORT_PAUSES) {
        pause.tv_nsec = 1000000;
    }
    nanosleep(&pause, NULL);
}

unsigned mkv_test_rounds(unsigned all, unsigned few)
{
    return (getenv("MKV_UNDER_VALGRIND") != NULL) ? few : all;
}


int mkv_test_is_required(const char *what)
{
    const char *list = getenv("MKV_TEST_REQUIRE");
    size_t length = strlen(what);

    while ((list != NULL) && (*list != '\0')) {
        if ((strcspn(list, ", ") == length) && (strncmp(list, what, length) == 0)) {
            return 1;
        }

        list += strcspn(list, ", ");
        list += strspn(list, ", ");
    }

    return 0;
}

int mkv_test_skip(const char *what, const char *test, const char *reason, ...)
{
    int is_required = mkv_test_is_required(what);
    char text[512];
    va_list ap;

    va_start(ap, reason);
    vsnprintf(text, sizeof(text), reason, ap);
    va_end(ap);

    printf("%s %s: %s%s\n", is_required ? "FAIL" : "skip", test, text,
           is_required ? " (MKV_TEST_REQUIRE asks for it)" : "");
    if (!is_required) {
        ++mkv_test_counters->num_skipped;
    }
    return is_required;
}

void mkv_test_pass(const char *test, const char *covered, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, covered);
    vsnprintf(text, sizeof(text), covered, ap);
    va_end(ap);

    printf("ok   %s: %s\n", test, text);
    ++mkv_test_counters->num_passed;
}

unsigned mkv_test_num_files(const char *folder)
{
    DIR *handle = opendir(folder);
    struct dirent *entry;
    unsigned count = 0;

    if (handle == NULL) {
        fprintf(stderr, "%s cannot be read\n", folder);
        exit(MKV_TEST_EXIT_HARD);
    }
    while ((entry = readdir(handle)) != NULL) {
        count +=
            (strcmp(entry->d_name, ".") != 0) && (strcmp(entry->d_name, "..") != 0);
    }
    closedir(handle);
    return count;
}

unsigned mkv_test_num_mapped(const char *word)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned count = 0;
    char line[1024];

    if (maps == NULL) {
        fprintf(stderr, "/proc/self/maps cannot be read\n");
        exit(MKV_TEST_EXIT_HARD);
    }
    while (fgets(line, sizeof(line), maps) != NULL) {
        count += (strstr(line, word) != NULL);
    }
    fclose(maps);
    return count;
}

void mkv_test_set_limit(int resource, uint64_t most)
{
    struct rlimit limit;
    int ret = getrlimit(resource, &limit);

    limit.rlim_cur = (most < limit.rlim_max) ? most : limit.rlim_max;
    if ((ret != 0) || (setrlimit(resource, &limit) != 0)) {
        fprintf(stderr, "limit %d cannot be set\n", resource);
        exit(MKV_TEST_EXIT_HARD);
    }
}

int mkv_test_exit_status(int num_failed)
{
    printf("%d passed, %d skipped, %d failed\n", mkv_test_counters->num_passed,
           mkv_test_counters->num_skipped, num_failed);
    if (num_failed > 0) {
        return MKV_TEST_EXIT_FAIL;
    }

    return (mkv_test_counters->num_passed == 0) ? MKV_TEST_EXIT_SKIP : MKV_TEST_EXIT_OK;
}

/* splitmix64: every 8 bytes of a pattern are one hash of seed and position. */
static uint64_t mkv_test_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    x ^= x >> 31;
    return x;
}

static uint64_t mkv_pattern_word(uint64_t seed, uint64_t position)
{
    return mkv_test_mix((seed + 1) * 0x9e3779b97f4a7c15ull + (position >> 3));
}

static uint8_t mkv_pattern_byte(uint64_t seed, uint64_t position)
{
    return (uint8_t)(mkv_pattern_word(seed, position) >> ((position & 7) * 8));
}

/* Whole words of the pattern at once, which nearly all of a large buffer is. */
static int mkv_pattern_is_word(uint64_t position, size_t length)
{
    return ((position & 7) == 0) && (length >= sizeof(uint64_t));
}

void mkv_pattern_fill(void *buffer, size_t length, uint64_t seed, uint64_t offset)
{
    uint8_t *p = buffer;
    uint64_t word;
    size_t i = 0;

    while (i < length) {
        if (mkv_pattern_is_word(offset + i, length - i)) {
            word = htole64(mkv_pattern_word(seed, offset + i));
            memcpy(&p[i], &word, sizeof(word));
            i += sizeof(word);
        } else {
            p[i] = mkv_pattern_byte(seed, offset + i);
            ++i;
        }
    }
}

size_t mkv_pattern_check(const void *buffer, size_t length, uint64_t seed,
                         uint64_t offset)
{
    const uint8_t *p = buffer;
    uint64_t word;
    size_t i = 0;

    while (i < length) {
        if (mkv_pattern_is_word(offset + i, length - i)) {
            word = htole64(mkv_pattern_word(seed, offset + i));
            if (memcmp(&p[i], &word, sizeof(word)) == 0) {
                i += sizeof(word);
                continue;
            }
        }
        if (p[i] != mkv_pattern_byte(seed, offset + i)) {
            break;
        }
        ++i;
    }

    return i;
}

uint64_t mkv_test_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ull;
    return mkv_test_mix(*state);
}
