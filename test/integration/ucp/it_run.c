/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_port.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IT_MAX_ARGS 64


const char *it_build_path(const char *name)
{
    static char path[PATH_MAX];
    const char *build = getenv("MKV_BUILD_DIR");
    char cwd[PATH_MAX - 256];

    if (build == NULL) {
        build = getcwd(cwd, sizeof(cwd));
    }

    snprintf(path, sizeof(path), "%.3800s/%.200s", build, name);
    return path;
}

int it_has_hipcpu(void)
{
    return (getenv("MKV_TEST_REAL_HIP") != NULL) ||
           (access(it_build_path("test/fake/hip/lib/libamdhip64.so.6"), R_OK) == 0);
}

void it_use_libraries(const char *folder)
{
    const char *path = getenv("LD_LIBRARY_PATH");
    char text[PATH_MAX * 2];

    snprintf(text, sizeof(text), "%s%s%s", it_build_path(folder),
             (path != NULL) ? ":" : "", (path != NULL) ? path : "");
    setenv("LD_LIBRARY_PATH", text, 1);
}

void it_init(void)
{
    if (getenv("UCX_PLUGIN_PATH") == NULL) {
        setenv("UCX_PLUGIN_PATH", it_build_path(".libs"), 1);
    }

    if (it_has_hipcpu() && (getenv("MKV_TEST_REAL_HIP") == NULL)) {
        it_use_libraries("test/fake/hip/lib");
    }

    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
}

void it_start_again(const char *tls, char **argv)
{
    if (getenv("IT_STARTED_AGAIN") == NULL) {
        it_init();
        setenv("UCX_TLS", tls, 1);
        setenv("IT_STARTED_AGAIN", "y", 1);
        execv("/proc/self/exe", argv);
        fprintf(stderr, "%s could not start again: %s\n", argv[0], strerror(errno));
        exit(EXIT_FAILURE);
    }
}

/* Collect the output first: it ends when the program ends. */
static it_result_t it_finish(mkv_proc_t *proc)
{
    it_result_t result = {.output = calloc(1, IT_MAX_OUTPUT)};
    size_t used;
    int is_over;

    is_over = mkv_proc_expect(proc, NULL, result.output, IT_MAX_OUTPUT);
    if (!is_over) {
        used = strlen(result.output);
        mkv_proc_describe(proc, result.output + used, IT_MAX_OUTPUT - used);
        mkv_proc_kill(proc, SIGKILL);
    }

    if ((mkv_proc_wait(proc) != 0) || !is_over) {
        result.status = -1;
    } else {
        result.status = mkv_proc_exit_status(proc);
    }

    mkv_proc_cleanup(proc);
    return result;
}

#ifdef __SANITIZE_ADDRESS__
void __asan_init(void);

/* AddressSanitizer's runtime must be the first library of a process that loads ours */
static const char *it_first_library(void)
{
    void (*init)(void) = __asan_init;
    Dl_info info;
    void *addr;

    memcpy(&addr, &init, sizeof(addr));
    return (dladdr(addr, &info) != 0) ? info.dli_fname : "";
}
#else
static const char *it_first_library(void)
{
    return "";
}
#endif

/* The environment of a program of UCX's, which is built without sanitizers. */
typedef struct it_foreign {
    char preload[PATH_MAX * 2];
    const char *env[IT_MAX_ENV + 2];
} it_foreign_t;

static const char *const *it_foreign_env(it_foreign_t *foreign, const char *const *env)
{
    static const char name[] = "LD_PRELOAD=";
    const char *loaded = getenv("LD_PRELOAD"); /* the stand-in of test/kfd */
    const char *more = "";
    size_t count = 0;

    for (; (env != NULL) && (*env != NULL); ++env) {
        MKV_REQUIRE(count < IT_MAX_ENV, "too many variables");
        if (strncmp(*env, name, strlen(name)) == 0) {
            more = *env + strlen(name);
        } else {
            foreign->env[count++] = *env;
        }
    }
    snprintf(foreign->preload, sizeof(foreign->preload), "%s%.1000s:%.4000s:%.1000s",
             name, it_first_library(), more, (loaded != NULL) ? loaded : "");
    foreign->env[count++] = foreign->preload;
    foreign->env[count] = NULL;
    return foreign->env;
}

it_result_t it_run(const char *const *argv, const char *const *env)
{
    it_foreign_t foreign;
    mkv_proc_t proc;

    MKV_REQUIRE(mkv_proc_spawn(&proc, argv, it_foreign_env(&foreign, env)) == 0,
                "cannot start %s", argv[0]);
    return it_finish(&proc);
}

int it_begin(const char *tl_name, const char *name)
{
    mkv_test_init();
    it_init();
    if (it_has_transport(tl_name)) {
        return -1;
    }
    return mkv_test_exit_status(mkv_test_skip(
        tl_name, name, "this UCX lists no %s over the built module", tl_name));
}

int it_end(Suite *suite, int num_failed)
{
    SRunner *runner = srunner_create(suite);

    srunner_run_all(runner, CK_NORMAL);
    num_failed += mkv_check_failed(runner);
    srunner_free(runner);
    return mkv_test_exit_status(num_failed);
}

int it_has_transport(const char *tl_name)
{
    static const char *const argv[] = {"ucx_info", "-d", NULL};
    it_result_t result = it_run(argv, NULL);
    char text[64];
    int has;

    if (result.status != 0) { /* not a reason to skip */
        it_show(&result);
        fprintf(stderr, "ucx_info -d ended with %d\n", result.status);
        exit(MKV_TEST_EXIT_FAIL);
    }
    snprintf(text, sizeof(text), "Transport: %s\n", tl_name);
    has = strstr(result.output, text) != NULL;
    it_result_free(&result);
    return has;
}

static void it_add(const char **list, size_t *count, const char *const *more)
{
    for (; (more != NULL) && (*more != NULL); ++more) {
        MKV_REQUIRE(*count < IT_MAX_ENV + 4, "too many words");
        list[(*count)++] = *more;
    }
    list[*count] = NULL;
}

/* Splits in place; the words live as long as the text. */
static void it_add_words(const char **argv, size_t *count, char *text)
{
    char *word, *rest = NULL;

    for (word = strtok_r(text, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        MKV_REQUIRE(*count < IT_MAX_ARGS - 1, "too many words");
        argv[(*count)++] = word;
    }
    argv[*count] = NULL;
}

static void it_spawn(mkv_proc_t *proc, const char *const *argv, const char *device,
                     const char *tls, const char *const *env, const char *const *more)
{
    const char *list[IT_MAX_ENV + 5];
    char tls_text[128], device_text[64];
    size_t count = 0;

    snprintf(tls_text, sizeof(tls_text), "UCX_TLS=%s", tls);
    snprintf(device_text, sizeof(device_text), "HIP_VISIBLE_DEVICES=%s", device);
    list[count++] = tls_text;
    list[count++] = device_text;
    it_add(list, &count, env);
    it_add(list, &count, more);
    MKV_REQUIRE(mkv_proc_spawn(proc, argv, list) == 0, "cannot start %s", argv[0]);
}

it_pair_t it_run_app(const char *tls, const char *const *env, const char *const *client,
                     const char *actions)
{
    char program[PATH_MAX], fd_text[2][16];
    char *words = strdup(actions);
    const char *server_argv[] = {program, fd_text[1], "server", NULL};
    const char *client_argv[IT_MAX_ARGS] = {program, fd_text[0], "client"};
    mkv_proc_t server_proc, client_proc;
    size_t count = 3;
    it_pair_t pair;
    int fds[2];

    snprintf(program, sizeof(program), "%s",
             it_build_path("test/integration/ucp/ucp_app"));
    MKV_REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0, "socket: %s",
                strerror(errno));
    snprintf(fd_text[0], sizeof(fd_text[0]), "%d", fds[0]);
    snprintf(fd_text[1], sizeof(fd_text[1]), "%d", fds[1]);
    it_add_words(client_argv, &count, words);

    /* If both processes held one end of the channel, the death of one would be hidden.
     */
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    it_spawn(&server_proc, server_argv, "1", tls, env, NULL);
    close(fds[1]);
    fcntl(fds[0], F_SETFD, 0);
    it_spawn(&client_proc, client_argv, "0", tls, env, client);
    close(fds[0]);

    pair.client = it_finish(&client_proc);
    if (pair.client.status < 0) {
        mkv_proc_kill(&server_proc, SIGKILL);
    }
    mkv_proc_resume(&server_proc);
    pair.server = it_finish(&server_proc);
    free(words);
    return pair;
}

it_pair_t it_run_perftest(const char *tls, const char *const *env, const char *args)
{
    char *server_words = strdup(args), *client_words = strdup(args), port[16];
    /* without stdbuf "Waiting for connection" would stay in the server's buffer */
    const char *server_argv[IT_MAX_ARGS] = {"stdbuf", "-oL", "ucx_perftest", "-p",
                                            port};
    const char *client_argv[IT_MAX_ARGS] = {"ucx_perftest", "localhost", "-p", port};
    size_t server_count = 5, client_count = 4;
    char *output = calloc(1, IT_MAX_OUTPUT);
    mkv_proc_t server, client;
    it_foreign_t foreign;
    unsigned number;
    it_pair_t pair;
    int kept;

    kept = mkv_port_keep(&number); /* perftest can only meet at a port */
    MKV_REQUIRE(kept >= 0, "no port: %s", strerror(errno));
    snprintf(port, sizeof(port), "%u", number);
    it_add_words(server_argv, &server_count, server_words);
    it_add_words(client_argv, &client_count, client_words);

    env = it_foreign_env(&foreign, env);
    it_spawn(&server, server_argv, "1", tls, env, NULL);
    MKV_REQUIRE(
        mkv_proc_expect(&server, "Waiting for connection", output, IT_MAX_OUTPUT),
        "the server does not listen: %s", output);
    it_spawn(&client, client_argv, "0", tls, env, NULL);
    pair.client = it_finish(&client);
    if (pair.client.status != 0) {
        mkv_proc_kill(&server, SIGTERM); /* it may wait for the client for ever */
    }
    pair.server = it_finish(&server);
    close(kept);
    free(output);
    free(server_words);
    free(client_words);
    return pair;
}

void it_result_free(it_result_t *result)
{
    free(result->output);
    result->output = NULL;
}

void it_pair_free(it_pair_t *pair)
{
    it_result_free(&pair->client);
    it_result_free(&pair->server);
}

void it_show(const it_result_t *result)
{
    const char *line = result->output;
    size_t length;

    for (; *line != '\0'; line += length + (line[length] == '\n')) {
        length = strcspn(line, "\n");
        printf("  | %.*s\n", (int)length, line);
    }
}

void it_expect(const it_result_t *result, const char *text)
{
    if (strstr(result->output, text) == NULL) {
        it_show(result);
        ck_abort_msg("'%s' is not in the output above", text);
    }
}

void it_expect_no(const it_result_t *result, const char *text)
{
    if (strstr(result->output, text) != NULL) {
        it_show(result);
        ck_abort_msg("'%s' is in the output above", text);
    }
}

void it_expect_status(const it_result_t *result, int status)
{
    if (result->status != status) {
        it_show(result);
        ck_abort_msg("exit status %d instead of %d", result->status, status);
    }
}

/* UCP's table of protocols has a title, a rule, a head, a rule, rows and a rule. Count
 * the zero-copy rows over the lane, in tables for device memory alone. */
static unsigned it_count_zcopy(const it_result_t *result, const char *operation,
                               const char *tl)
{
    char *text = strdup(result->output), *line, *rest = NULL;
    unsigned count = 0, num_rules = 3;

    for (line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strstr(line, operation) != NULL) {
            num_rules = (strstr(line, " rocm/GPU") != NULL) ? 0 : 3;
        } else if (strstr(line, "+--") != NULL) {
            ++num_rules;
        } else if (num_rules == 2) {
            count += (strstr(line, "zero-copy") != NULL) && (strstr(line, tl) != NULL);
        }
    }

    free(text);
    return count;
}

void it_expect_zcopy(const it_result_t *result, const char *operation, const char *tl)
{
    if (it_count_zcopy(result, operation, tl) == 0) {
        it_show(result);
        ck_abort_msg("no '%s' zero-copy on %s in the output above", operation, tl);
    }
}

unsigned it_count(const it_result_t *result, const char *text)
{
    const char *p = result->output;
    unsigned count = 0;

    while ((p = strstr(p, text)) != NULL) {
        ++count;
        p += strlen(text);
    }

    return count;
}
