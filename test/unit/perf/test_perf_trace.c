/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "perf/workload/trace.h"
#include "perf/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


static char path[] = "perf_trace_XXXXXX";

static void write_file(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

static perf_source_t *trace(const char *text)
{
    perf_source_t *source;

    write_file(text, strlen(text));
    ck_assert_int_eq(perf_trace_open(path, &source), 0);
    return source;
}

START_TEST(lines_come_in_order_and_end_with_zero)
{
    perf_source_t *source = trace(
        "{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 7, "
        "\"hash_ids\": [0, 14]}\n"
        "\n"
        "{\"hash_ids\":[9007199254740991],\"output_length\":1,\"input_length\":512,"
        "\"timestamp\":27482}\r\n");
    const perf_request_t *request;

    ck_assert_int_eq(perf_source_next(source, &request), 1);
    ck_assert_uint_eq(request->input_length, 513);
    ck_assert_uint_eq(request->output_length, 7);
    ck_assert_uint_eq(request->num_hashes, 2);
    ck_assert_uint_eq(request->hashes[0], 0);
    ck_assert_uint_eq(request->hashes[1], 14);
    ck_assert_int_eq(perf_source_next(source, &request), 1);
    ck_assert_uint_eq(request->timestamp_ms, 27482);
    ck_assert_uint_eq(request->hashes[0], UINT64_C(9007199254740991));
    ck_assert_int_eq(perf_source_next(source, &request), 0);
    ck_assert_int_eq(perf_source_next(source, &request), 0);
    perf_source_destroy(source);
}
END_TEST

START_TEST(other_members_and_fractions_of_a_timestamp_are_taken)
{
    perf_source_t *source =
        trace("{\"chat_id\":159, \"parent\":{\"id\":[-1]}, \"timestamp\":61.914, "
              "\"type\":\"text\", \"input_length\":7, \"output_length\":2, "
              "\"hash_ids\":[3]}\n");
    const perf_request_t *request;

    ck_assert_int_eq(perf_source_next(source, &request), 1);
    ck_assert_uint_eq(request->timestamp_ms, 61);
    ck_assert_uint_eq(request->hashes[0], 3);
    perf_source_destroy(source);
}
END_TEST

START_TEST(long_hash_lists_grow)
{
    enum { HASHES = 3000 };
    static char text[HASHES * 8 + 200];
    perf_source_t *source;
    const perf_request_t *request;
    size_t used;
    unsigned i;

    used = (size_t)sprintf(text,
                           "{\"timestamp\":1,\"input_length\":%u,"
                           "\"output_length\":1,\"hash_ids\":[0",
                           HASHES * 512);
    for (i = 1; i < HASHES; ++i) {
        used += (size_t)sprintf(text + used, ",%u", i);
    }
    sprintf(text + used, "]}");
    source = trace(text);
    ck_assert_int_eq(perf_source_next(source, &request), 1);
    ck_assert_uint_eq(request->num_hashes, HASHES);
    ck_assert_uint_eq(request->hashes[HASHES - 1], HASHES - 1);
    perf_source_destroy(source);
}
END_TEST

#define GOOD                                                                           \
    "{\"timestamp\":5,\"input_length\":9,\"output_length\":1,\"hash_ids\":[4]}\n"

static const struct {
    const char *line;
    const char *text;
} refusals[] = {
    {"[]", ":2: found [ ]; expected an object, '{'"},
    {"{\"timestamp\":-1}", ":2: timestamp is -1; expected a number from 0 to 9007199"},
    {"{\"timestamp\":\"1\"}", ":2: timestamp is \"1\"; expected a number"},
    {"{\"timestamp\":1e99}", "timestamp is 1e99; expected a number from 0"},
    {"{\"timestamp\":01}", ":2:16: found '01'; expected a JSON object"},
    {"{\"timestamp\":6}", ":2: there is no input_length"},
    {"{\"input_length\":9}", ":2: there is no timestamp"},
    {"{\"timestamp\":6,\"input_length\":0}",
     "input_length is 0; expected a whole number from 1 to 2147483647"},
    {"{\"timestamp\":6,\"input_length\":9.5}",
     "input_length is 9.5; expected a whole number"},
    {"{\"timestamp\":6,\"input_length\":9,\"output_length\":99999999999999999999}",
     "found '99999999999999999999'; expected a JSON object"},
    {"{\"timestamp\":6,\"input_length\":9,\"output_length\":1,\"hash_ids\":7}",
     "hash_ids is 7; expected an array of 1, one number for each 512 tokens"},
    {"{\"timestamp\":6,\"input_length\":513,\"output_length\":1,\"hash_ids\":[4]}",
     "hash_ids is [ 4 ]; expected an array of 2"},
    {"{\"timestamp\":6,\"input_length\":9,\"output_length\":1,\"hash_ids\":[null]}",
     "a hash is null; expected a whole number"},
    {"{\"timestamp\":6,\"input_length\":9,\"output_length\":1,"
     "\"hash_ids\":[9007199254740992]}",
     "a hash is 9007199254740992; expected a whole number from 0 to 9007199254740991"},
    {"{\"hash_ids\":[7 8]}", ":2:16: found '8'; expected a JSON object"},
    {"{\"timestamp\" 6}", "found '6'; expected a JSON object"},
    {"{\"timestamp\":6;", "found '6;'; expected a JSON object"},
    {"{\"timestamp\":6", "found '6' (end of line); expected a JSON object"},
    {"{\"timestamp\":4}",
     ":2: timestamp 4 is before the one above; expected at least 5"},
    {GOOD "x", ":3:1: found 'x'; expected a JSON object"},
    {"{\"timestamp\":6,\"input_length\":9,\"output_length\":1,\"hash_ids\":[4]} x",
     "found 'x'; expected a JSON object"},
};

START_TEST(bad_lines_are_named_with_file_line_and_value)
{
    char text[512];
    perf_source_t *source;
    const perf_request_t *request;
    int ret;

    snprintf(text, sizeof(text), "%s%s", GOOD, refusals[_i].line);
    source = trace(text);
    while ((ret = perf_source_next(source, &request)) == 1) {
    }
    ck_assert_int_eq(ret, -1);
    ck_assert_msg(strncmp(perf_last_error(), path, strlen(path)) == 0, "%s",
                  perf_last_error());
    ck_assert_msg(strstr(perf_last_error(), refusals[_i].text) != NULL, "%s",
                  perf_last_error());
    perf_source_destroy(source);
}
END_TEST

START_TEST(zero_byte_is_refused)
{
    static const char text[] = "{\"timestamp\":5}\0,\"x\":1}\n";
    perf_source_t *source;
    const perf_request_t *request;

    write_file(text, sizeof(text) - 1);
    ck_assert_int_eq(perf_trace_open(path, &source), 0);
    ck_assert_int_eq(perf_source_next(source, &request), -1);
    ck_assert_ptr_nonnull(strstr(perf_last_error(), ":1: a zero byte"));
    perf_source_destroy(source);
}
END_TEST

/* Every cut and every changed byte of a good line: refused or read, never a crash. */
START_TEST(hostile_bytes_are_survived)
{
    static const char good[] = GOOD;
    char text[sizeof(good)];
    perf_source_t *source;
    const perf_request_t *request;
    size_t length = (size_t)_i / 4 + 1;

    memcpy(text, good, sizeof(good));
    text[length - 1] = (char)(text[length - 1] ^ (1 << (_i % 4 * 2)));
    write_file(text, (_i & 1) ? sizeof(good) - 1 : length);
    ck_assert_int_eq(perf_trace_open(path, &source), 0);
    while (perf_source_next(source, &request) == 1) {
        ck_assert_uint_eq(request->num_hashes, 1);
    }
    perf_source_destroy(source);
}
END_TEST

START_TEST(missing_file_is_named)
{
    perf_source_t *source;

    ck_assert_int_eq(perf_trace_open("no/such/trace", &source), -1);
    ck_assert_ptr_nonnull(strstr(perf_last_error(), "trace 'no/such/trace' cannot be "
                                                    "opened: No such file"));
}
END_TEST

START_TEST(directory_is_an_error_not_an_empty_trace)
{
    perf_source_t *source;
    const perf_request_t *request;

    ck_assert_int_eq(perf_trace_open(".", &source), 0);
    ck_assert_int_eq(perf_source_next(source, &request), -1);
    ck_assert_ptr_nonnull(
        strstr(perf_last_error(), "reading failed after line 0: Is a directory"));
    perf_source_destroy(source);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_trace");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed, fd;

    fd = mkstemp(path);
    if (fd < 0) {
        perror("mkstemp");
        return EXIT_FAILURE;
    }
    close(fd);

    tcase_add_test(tcase, lines_come_in_order_and_end_with_zero);
    tcase_add_test(tcase, other_members_and_fractions_of_a_timestamp_are_taken);
    tcase_add_test(tcase, long_hash_lists_grow);
    tcase_add_loop_test(tcase, bad_lines_are_named_with_file_line_and_value, 0,
                        sizeof(refusals) / sizeof(refusals[0]));
    tcase_add_test(tcase, zero_byte_is_refused);
    tcase_add_loop_test(tcase, hostile_bytes_are_survived, 0,
                        4 * (int)(sizeof(GOOD) - 1));
    tcase_add_test(tcase, missing_file_is_named);
    tcase_add_test(tcase, directory_is_an_error_not_an_empty_trace);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    unlink(path);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
