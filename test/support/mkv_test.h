/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_TEST_H
#define MKV_TEST_H

/**
 * @file
 * Common parts of test programs: exit statuses, skips with a reason, data patterns and
 * the one time limit.
 *
 * A test program exits with 0 (passed), 1 (failed), 77 (everything was skipped) or 99
 * (could not even start). The environment variable MKV_TEST_REQUIRE names the resources
 * of this machine, separated by commas or spaces (for example "rxe,gpu"): a skip for
 * lack of one of them is then a failure, so that a green run cannot hide that nothing
 * ran.
 *
 * Counters live in memory shared with forked children, so a skip inside a test that
 * Check runs in its own process is counted by the program.
 *
 * Threads. Calls may come from any process that descends from the one that called
 * mkv_test_init(), one thread in each.
 */

#include <stddef.h>
#include <stdint.h>


#define MKV_TEST_EXIT_OK 0
#define MKV_TEST_EXIT_FAIL 1
#define MKV_TEST_EXIT_SKIP 77
#define MKV_TEST_EXIT_HARD 99

/**
 * The one limit of every wait, in milliseconds. It only turns a hang into a
 * failure; no test passes because time went by. MKV_TEST_LIMIT_S changes it.
 */
#define MKV_TEST_LIMIT_MS 300000


/** Prepare the counters; the first call of main(). */
void mkv_test_init(void);


/** @return Limit of one wait in milliseconds, MKV_TEST_LIMIT_MS by default. */
int mkv_test_limit_ms(void);


/** @return Milliseconds of a clock that only goes forward. */
uint64_t mkv_test_now_ms(void);


/**
 * Yield the processor after a poll that found nothing, as the awaited process may need
 * it: at first to other threads, then for 100 microseconds, in the end for one
 * millisecond.
 *
 * @param [inout] empty  Empty polls in a row; the caller sets it to 0 after a hit.
 */
void mkv_test_pause(unsigned *empty);


/**
 * Rounds of a loop that repeats the same computation.
 *
 * @return @a all, or @a few where a program is many times slower: under valgrind, where
 *         contrib/under_valgrind sets MKV_UNDER_VALGRIND.
 */
unsigned mkv_test_rounds(unsigned all, unsigned few);


/** @return Nonzero if MKV_TEST_REQUIRE names @a what. */
int mkv_test_is_required(const char *what);


/**
 * @return Entries of a folder without "." and ".."; for /proc/self/fd including the
 *         descriptor that reads it.
 */
unsigned mkv_test_num_files(const char *folder);


/** @return Mappings of this process with @a word in their line of /proc/self/maps. */
unsigned mkv_test_num_mapped(const char *word);


/** Lower a limit of this process (RLIMIT_), or raise it as far as it may be raised. */
void mkv_test_set_limit(int resource, uint64_t most);


/**
 * Count and print a skipped test.
 *
 * @param [in] what    What is missing, a word MKV_TEST_REQUIRE may name.
 * @param [in] test    Name of the test.
 * @param [in] reason  Why, as printf() format, without a newline.
 *
 * @return 0, or nonzero if MKV_TEST_REQUIRE names @a what: then the caller
 *         must fail.
 */
int mkv_test_skip(const char *what, const char *test, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));


/** Count and print a passed test, @a covered as printf() format. */
void mkv_test_pass(const char *test, const char *covered, ...)
    __attribute__((format(printf, 2, 3)));


/**
 * Exit status of the program.
 *
 * @param [in] num_failed  Tests that failed.
 *
 * @return 1 if something failed, 77 if nothing ran, otherwise 0.
 */
int mkv_test_exit_status(int num_failed);


/**
 * Fill memory with bytes that depend on the seed and the position, so that a
 * misplaced, repeated or stale piece is seen.
 *
 * @param [in] offset  Position of the first byte inside the pattern.
 */
void mkv_pattern_fill(void *buffer, size_t length, uint64_t seed, uint64_t offset);


/**
 * Compare memory with a pattern.
 *
 * @return Index of the first byte that differs, or @a length if none does.
 */
size_t mkv_pattern_check(const void *buffer, size_t length, uint64_t seed,
                         uint64_t offset);


/** Next number of a repeatable sequence; @a state is the seed and changes. */
uint64_t mkv_test_random(uint64_t *state);

#endif
