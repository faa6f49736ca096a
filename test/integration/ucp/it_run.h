/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef IT_RUN_H
#define IT_RUN_H

/**
 * @file
 * Runs programs over the built module: pairs of the small UCP application, pairs
 * of ucx_perftest, and ucx_info. The test itself never touches UCX, so that every
 * program starts with the environment a user would give it.
 *
 * Threads. One thread.
 */

#include <stddef.h>

#define IT_MAX_ENV 32
#define IT_MAX_OUTPUT ((size_t)4 << 20)

struct Suite; /* Check's */


/** Output and exit status of a program. */
typedef struct it_result {
    int status;   /**< Exit status, 128 + signal, or -1 if it had to be killed */
    char *output; /**< Standard output and error, NUL-terminated */
} it_result_t;


/** Results of a client and its server. */
typedef struct it_pair {
    it_result_t client;
    it_result_t server;
} it_pair_t;


/**
 * Prepare the environment of all programs: the module by UCX_PLUGIN_PATH, the
 * HIP runtime on the CPU by the library path unless MKV_TEST_REAL_HIP is set.
 * The build folder is the current one or MKV_BUILD_DIR.
 */
void it_init(void);

/**
 * @ref it_init for the calling program itself: UCX and the loader read the environment
 * before main(), so it is set, with UCX_TLS, and the program starts again. Returns in
 * the restarted program. First in main().
 */
void it_start_again(const char *tls, char **argv);

/** @return A file of the build folder, in a buffer overwritten by later calls. */
const char *it_build_path(const char *name);

/** Have programs look for libraries in a folder of the build before all others. */
void it_use_libraries(const char *folder);

/** @return Nonzero if the HIP runtime on the CPU was built. */
int it_has_hipcpu(void);

/** @return Nonzero if the module was built and UCX lists its transport. */
int it_has_transport(const char *tl_name);

/**
 * @ref it_init and the counters, of a program whose tests need a transport. First in
 * main().
 *
 * @param [in] name  Of the tests, where they are skipped.
 *
 * @return -1: UCX lists it. Else the exit status of the program, which ends with it.
 */
int it_begin(const char *tl_name, const char *name);

/**
 * Run a suite and free it.
 *
 * @param [in] num_failed  Failures so far.
 *
 * @return The exit status of the program.
 */
int it_end(struct Suite *suite, int num_failed);

/** Run a command to its end; @a env as for mkv_proc_spawn(), may be NULL. */
it_result_t it_run(const char *const *argv, const char *const *env);

/**
 * Run client and server of the small UCP application, each seeing one device.
 *
 * @param [in] tls      UCX_TLS of both.
 * @param [in] env      Changes for both, or NULL.
 * @param [in] client   Changes for the client alone, or NULL.
 * @param [in] actions  Actions of the client, separated by spaces.
 */
it_pair_t it_run_app(const char *tls, const char *const *env, const char *const *client,
                     const char *actions);

/**
 * Run ucx_perftest between two processes, each seeing one device.
 *
 * @param [in] args  Test and its options, separated by spaces.
 */
it_pair_t it_run_perftest(const char *tls, const char *const *env, const char *args);

void it_result_free(it_result_t *result);
void it_pair_free(it_pair_t *pair);

/** Print the output; Check's own messages are too short for it. */
void it_show(const it_result_t *result);

/** Print the output and fail the test unless the text is in it. */
void it_expect(const it_result_t *result, const char *text);

/** Print the output and fail the test if the text is in it. */
void it_expect_no(const it_result_t *result, const char *text);

/** Print the output and fail the test unless it ended with that status. */
void it_expect_status(const it_result_t *result, int status);

/** Names of the operations in UCP's tables of protocols. */
#define IT_PUT "remote memory write by ucp_put"
#define IT_GET "remote memory read by ucp_get"

/**
 * Print the output and fail the test unless UCP's tables (UCX_PROTO_INFO=y) contain
 * zero-copy over that transport for this operation on device memory.
 */
void it_expect_zcopy(const it_result_t *result, const char *operation, const char *tl);

/** Number of times a text occurs. */
unsigned it_count(const it_result_t *result, const char *text);

#endif
