/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages over mori_xgmi under an unmodified UCX: the lane that UCP chooses for them,
 * and clients that are dead when the server reads their connection requests. The server
 * is stopped meanwhile, so that it cannot detect the death in another way.
 */

#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"
#include "xgmi/message/xgmi_box.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define IT_TLS "mori_xgmi,tcp"
#define IT_ALONE_TLS "mori_xgmi,self" /* without another way for messages */
#define IT_ROUNDS 6
#define IT_PROGRESS 200 /* Calls of the second client: UCX's threads work meanwhile */


static int it_rounds(void)
{
    const char *text = getenv("MKV_TEST_ROUNDS");

    return (text != NULL) ? atoi(text) : IT_ROUNDS;
}

static it_result_t it_visit(const char *program, const char *to, int num_progress)
{
    char number[16];
    const char *argv[] = {program, "client", to, number, NULL};

    snprintf(number, sizeof(number), "%d", num_progress);
    return it_run(argv, NULL);
}

/* End the server; a client's end does not show that its last message was read. */
static void it_end_server(mkv_proc_t *server, unsigned num_byes, char *output,
                          size_t size)
{
    char text[32];

    snprintf(text, sizeof(text), "bye %u\n", num_byes);
    ck_assert_msg(mkv_proc_expect(server, text, output, size), "%s", output);
    mkv_proc_kill(server, SIGTERM);
    ck_assert_msg(mkv_proc_expect(server, NULL, output, size), "%s", output);
    mkv_proc_wait(server);
}

/* Get the server's worker address or its port from its output */
static void it_get_target(const char *output, const char *what, char *to, size_t size)
{
    const char *text = strstr(output, what);
    size_t length;

    ck_assert_msg(text != NULL, "no '%s' in '%s'", what, output);
    text += strlen(what);
    length = strcspn(text, "\n");
    ck_assert_uint_lt(length + 1, size);
    snprintf(to, size, "%s%.*s", (what[0] == 'p') ? ":" : "", (int)length, text);
}

static const char *const it_ways[] = {"address ", "port "};

/* Start a server, and find where it is by one of the ways. @a program has PATH_MAX
 * bytes. */
static void it_start_server(mkv_proc_t *server, char *program, const char *const *env,
                            const char *way, char *output, size_t output_size, char *to,
                            size_t to_size)
{
    const char *argv[] = {program, "server", NULL};

    snprintf(program, PATH_MAX, "%s", it_build_path("test/integration/ucp/ucp_gone"));
    ck_assert_int_eq(mkv_proc_spawn(server, argv, env), 0);
    ck_assert_msg(mkv_proc_expect(server, "ready", output, output_size),
                  "no server: %s", output);
    it_get_target(output, way, to, to_size);
}

START_TEST(client_that_dies_connecting_leaves_the_server_to_others)
{
    static char output[65536], program[PATH_MAX], to[8192];
    const int rounds = it_rounds();
    it_result_t result;
    mkv_proc_t server;
    int i;

    it_start_server(&server, program, NULL, it_ways[_i], output, sizeof(output), to,
                    sizeof(to));
    for (i = 0; i < rounds; ++i) {
        mkv_proc_stop(&server);
        result = it_visit(program, to, i * i * IT_PROGRESS);
        mkv_proc_resume(&server);
        it_expect_status(&result, 128 + SIGKILL);
        it_result_free(&result);
    }

    result = it_visit(program, to, -1); /* the server lives and serves */
    it_expect_status(&result, 0);
    it_expect(&result, "client done");
    it_result_free(&result);
    it_end_server(&server, 1, output, sizeof(output));
    result.output = output;
    result.status = mkv_proc_exit_status(&server);
    it_expect_status(&result, 0);
    it_expect(&result, "server done");
    it_expect(&result, " 1 byes");
    mkv_proc_cleanup(&server);
    mkv_test_pass("client_that_dies_connecting_leaves_the_server_to_others",
                  "%d clients by %s", rounds, it_ways[_i]);
}
END_TEST


/* ---- a server with the largest number of senders ---- */

#define IT_SENDERS "senders of messages already"

/* Map the only box of another owner; NULL: there is none yet. */
static muct_xgmi_box_t *it_map_box(const char *dir, uint64_t other)
{
    muct_xgmi_box_t *box = NULL, *found = NULL;
    char pattern[PATH_MAX];
    glob_t paths;
    size_t i;
    int fd;

    snprintf(pattern, sizeof(pattern), "%s/*/*" MUCT_XGMI_BOX_SUFFIX, dir);
    ck_assert_int_eq(glob(pattern, 0, NULL, &paths), 0);
    for (i = 0; i < paths.gl_pathc; ++i) {
        fd = open(paths.gl_pathv[i], O_RDWR);
        ck_assert_int_ge(fd, 0);
        box = mmap(NULL, sizeof(*box), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ck_assert_ptr_ne(box, MAP_FAILED);
        close(fd);
        if (box->owner != other) {
            ck_assert_ptr_null(found);
            found = box;
        } else {
            munmap(box, sizeof(*box));
        }
    }
    globfree(&paths);
    return found;
}

static void it_take_places(const char *dir, bool is_taken)
{
    muct_xgmi_box_t *box = it_map_box(dir, 0);
    unsigned i;

    for (i = 0; i < MUCT_XGMI_BOX_RINGS; ++i) {
        atomic_store(&box->places[i].owner, is_taken ? box->owner : 0);
    }
    atomic_store(&box->num_used, MUCT_XGMI_BOX_RINGS);
    munmap(box, sizeof(*box));
}

static void it_expect_visit(const char *program, const char *to, unsigned num_warnings)
{
    it_result_t result = it_visit(program, to, -1);

    it_expect_status(&result, 0);
    it_expect(&result, "client done");
    ck_assert_uint_eq(it_count(&result, IT_SENDERS), num_warnings);
    if (num_warnings > 0) {
        it_expect_no(&result, "am(mori_xgmi");
    } else {
        it_expect(&result, " am(mori_xgmi/xgmi");
    }
    it_result_free(&result);
}

START_TEST(sender_without_a_place_goes_by_tcp)
{
    static char output[65536], program[PATH_MAX], to[8192];
    static const char *const on[] = {"UCX_LOG_LEVEL=info", NULL};
    char dir[] = "/tmp/it_gone.XXXXXX", command[64];
    mkv_proc_t server;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("UCX_MORI_XGMI_SHM_DIR", dir, 1);
    it_start_server(&server, program, on, it_ways[_i], output, sizeof(output), to,
                    sizeof(to));
    setenv("UCX_LOG_LEVEL", "info", 1);
    it_expect_visit(program, to, 0);
    it_take_places(dir, true);
    it_expect_visit(program, to, 1);
    it_take_places(dir, false);
    it_expect_visit(program, to, 0);
    it_end_server(&server, 3, output, sizeof(output));
    mkv_proc_cleanup(&server);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    mkv_test_pass("sender_without_a_place_goes_by_tcp", "%s", it_ways[_i]);
}
END_TEST

/* The client's last place is taken when its endpoint exists, and the server's does not:
 * both fail, and the server goes on. */
START_TEST(endpoints_fail_when_the_last_place_is_lost)
{
    static char output[65536], lost[65536], program[PATH_MAX], to[8192];
    static const char *const on[] = {"UCX_KEEPALIVE_INTERVAL=1s", NULL};
    char dir[] = "/tmp/it_gone.XXXXXX", command[64];
    const char *client_argv[] = {program, "client", to, "-1", NULL};
    muct_xgmi_box_t *theirs, *own;
    mkv_proc_t server, client;
    unsigned i = 0;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("UCX_MORI_XGMI_SHM_DIR", dir, 1);
    it_start_server(&server, program, on, "address ", output, sizeof(output), to,
                    sizeof(to));
    theirs = it_map_box(dir, 0);
    mkv_proc_stop(&server);
    ck_assert_int_eq(mkv_proc_spawn(&client, client_argv, on), 0);
    while (atomic_load(&theirs->is_polled) == 0) { /* a message is prepared */
        mkv_test_pause(&i);
    }
    own = it_map_box(dir, theirs->owner);
    for (i = 0; i < MUCT_XGMI_BOX_RINGS; ++i) {
        atomic_store(&own->places[i].owner, own->owner);
    }
    atomic_store(&own->num_used, MUCT_XGMI_BOX_RINGS);
    mkv_proc_resume(&server);
    ck_assert_msg(mkv_proc_expect(&client, NULL, lost, sizeof(lost)), "%s", lost);
    mkv_proc_wait(&client);
    ck_assert_msg(strstr(lost, "endpoint: Connection reset") != NULL, "%s", lost);
    setenv("UCX_LOG_LEVEL", "info", 1);
    it_expect_visit(program, to, 0);
    it_end_server(&server, 1, output, sizeof(output));
    ck_assert_msg(strstr(output, IT_SENDERS) != NULL, "%s", output);
    mkv_proc_cleanup(&client);
    mkv_proc_cleanup(&server);
    munmap(own, sizeof(*own));
    munmap(theirs, sizeof(*theirs));
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    mkv_test_pass("endpoints_fail_when_the_last_place_is_lost", "%s", "by address");
}
END_TEST


/* ---- lanes ---- */

/* UCP names the lanes for copies of large messages first, and tcp behind them where it
 * carries the messages. */
static void it_expect_lanes(const it_pair_t *pair, const char *lanes)
{
    it_expect_status(&pair->client, 0);
    it_expect_status(&pair->server, 0);
    it_expect(&pair->client, "greet ok");
    it_expect(&pair->client, lanes);
}

START_TEST(lane_of_messages_is_mori_xgmi)
{
    static const char *const off[] = {"UCX_LOG_LEVEL=info", "UCX_MORI_XGMI_MESSAGES=n",
                                      NULL};
    static const char *const on[] = {"UCX_LOG_LEVEL=info", "UCX_MORI_XGMI_MESSAGES=y",
                                     NULL};
    it_pair_t pair = it_run_app(IT_TLS, on, NULL, "connect greet close");

    it_expect_lanes(&pair, " am(mori_xgmi/xgmi) ");
    it_pair_free(&pair);
    pair = it_run_app(IT_TLS, off, NULL, "connect greet close");
    it_expect_lanes(&pair, " am(mori_xgmi/xgmi tcp/");
    it_pair_free(&pair);
    pair = it_run_app(IT_TLS, on, off, "connect greet close"); /* of one side alone */
    it_expect_lanes(&pair, " am(mori_xgmi/xgmi tcp/");
    it_pair_free(&pair);
    pair = it_run_app(IT_TLS, off, on, "connect greet close");
    it_expect_lanes(&pair, " am(mori_xgmi/xgmi tcp/");
    it_pair_free(&pair);
    mkv_test_pass("lane_of_messages_is_mori_xgmi", "and tcp without them");
}
END_TEST

static const char *const it_perftests[] = {
    "-t tag_lat -n 500 -s 8",
    "-t tag_lat -n 200 -s 8 -E sleep",
    "-t tag_lat -n 50 -s 100000",
    "-t ucp_am_lat -n 200 -s 3000",
    "-t ucp_am_lat -n 200 -s 8 -E sleep",
    "-t ucp_am_bw -n 1000 -s 20000",
    "-t stream_lat -n 200 -s 100",
    "-t stream_bw -n 1000 -s 2000 -E sleep",
};

START_TEST(perftest_runs_over_messages)
{
    it_pair_t pair = it_run_perftest(IT_ALONE_TLS, NULL, it_perftests[_i]);

    it_expect_status(&pair.client, 0);
    it_expect_status(&pair.server, 0);
    it_expect(&pair.client, "Final:");
    it_pair_free(&pair);
    mkv_test_pass("perftest_runs_over_messages", "%s", it_perftests[_i]);
}
END_TEST

#define IT_COUNT(_array) ((int)(sizeof(_array) / sizeof((_array)[0])))

int main(void)
{
    int status = it_begin("mori_xgmi", "messages");
    Suite *suite;
    TCase *tcase;

    if (status >= 0) {
        return status;
    }

    suite = suite_create("messages");
    tcase = tcase_create("messages");
    setenv("UCX_TLS", IT_TLS, 1);
    tcase_set_timeout(tcase, 10.0 * mkv_test_limit_ms() / 1000);
    tcase_add_loop_test(tcase, client_that_dies_connecting_leaves_the_server_to_others,
                        0, IT_COUNT(it_ways));
    tcase_add_loop_test(tcase, sender_without_a_place_goes_by_tcp, 0,
                        IT_COUNT(it_ways));
    tcase_add_test(tcase, endpoints_fail_when_the_last_place_is_lost);
    tcase_add_test(tcase, lane_of_messages_is_mori_xgmi);
    tcase_add_loop_test(tcase, perftest_runs_over_messages, 0, IT_COUNT(it_perftests));
    suite_add_tcase(suite, tcase);
    return it_end(suite, 0);
}
