/* SPDX-License-Identifier: BSD-3-Clause */

/* A thread that must not wait: waiting is detected, and a thread that does not
 * continues. */

#include "test/support/mkv_check.h"
#include "test/support/mkv_nowait.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void polls(void)
{
    (void)poll(NULL, 0, 0);
}

static void sleeps(void)
{
    const struct timespec short_time = {.tv_nsec = 1};

    (void)nanosleep(&short_time, NULL);
}

static void yields(void)
{
    (void)sched_yield();
}

/* A lock of its own, which is never unlocked */
static void locks_what_is_held(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock);
}

static void locks_what_is_free(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

static void allocates_and_writes(void)
{
    void *memory = malloc(1 << 20);

    (void)!write(STDERR_FILENO, &memory, 0);
    free(memory);
}

/* Too large and too many for a thread's own cache of free memory */
static void *allocate_much(void *arg)
{
    void *memory[32];
    int i, k;

    for (i = 0; i < 20000; ++i) {
        for (k = 0; k < 32; ++k) {
            memory[k] = malloc(2000);
        }
        for (k = 0; k < 32; ++k) {
            free(memory[k]);
        }
    }
    return arg;
}

static void allocates_beside_another(void)
{
    (void)allocate_much(NULL);
}

/* The locks of a sanitizer's heap are not libc's */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NUM_CASES_LEFT_OUT 1
#else
#define NUM_CASES_LEFT_OUT 0
#endif

static const struct {
    void (*run)(void);
    int status;
} cases[] = {{polls, MKV_NOWAIT_EXIT},     {sleeps, MKV_NOWAIT_EXIT},
             {yields, MKV_NOWAIT_EXIT},    {locks_what_is_held, MKV_NOWAIT_EXIT},
             {locks_what_is_free, 0},      {allocates_and_writes, 0},
             {allocates_beside_another, 0}};

static void *run_without_waiting(void *arg)
{
    void (*const *run)(void) = arg;

    if (mkv_nowait_begin() != 0) {
        _exit(MKV_TEST_EXIT_SKIP);
    }
    (*run)();
    return NULL;
}

static void run_case(void (*run)(void))
{
    pthread_t thread, beside;

    mallopt(M_ARENA_MAX, 1); /* one heap for all threads */
    if ((pthread_create(&beside, NULL, allocate_much, NULL) != 0) ||
        (pthread_create(&thread, NULL, run_without_waiting, &run) != 0) ||
        (pthread_join(thread, NULL) != 0)) {
        _exit(MKV_TEST_EXIT_HARD);
    }
    polls(); /* another thread may */
    _exit(0);
}

START_TEST(a_waiting_caller_is_seen)
{
    pid_t pid = fork();
    int status;

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        run_case(cases[_i].run);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == MKV_TEST_EXIT_SKIP) {
        ck_assert_int_eq(mkv_test_skip("seccomp", "a_waiting_caller_is_seen",
                                       "there are no filters of system calls here"),
                         0);
        return;
    }
    ck_assert_int_eq(WEXITSTATUS(status), cases[_i].status);
}
END_TEST

int main(void)
{
    Suite *suite;
    TCase *tcase;

    if (getenv("MKV_UNDER_VALGRIND") != NULL) {
        puts("SKIP: valgrind's threads wait for one another in each thread's place");
        return MKV_TEST_EXIT_SKIP;
    }
    suite = suite_create("mkv_nowait");
    tcase = tcase_create("seccomp");
    mkv_test_init();
    tcase_add_loop_test(tcase, a_waiting_caller_is_seen, 0,
                        (int)(sizeof(cases) / sizeof(cases[0])) - NUM_CASES_LEFT_OUT);
    suite_add_tcase(suite, tcase);
    return mkv_check_run(suite, CK_FORK_GETENV, CK_NORMAL);
}
