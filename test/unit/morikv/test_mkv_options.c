/* SPDX-License-Identifier: BSD-3-Clause */

/* Options from the environment and by call; an invalid text changes nothing. */

#include "test/support/mkv_check.h"

#include "src/base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mkv_config_t *read_config(const char *prefix)
{
    mkv_config_t *config;

    ck_assert_int_eq(mkv_config_read(prefix, &config), MKV_OK);
    return config;
}

/* CF-01 */
START_TEST(defaults_parse_and_deadlines_are_on)
{
    mkv_config_t *config = read_config(NULL);
    const mkv_options_t *opts = mkv_config_options(config);

    ck_assert_uint_eq(opts->bind_timeout, 60000);
    ck_assert_uint_eq(opts->xfer_timeout, 300000);
    ck_assert_uint_gt(opts->release_timeout, 0);
    ck_assert_uint_gt(opts->drain_timeout, 0);
    ck_assert_uint_eq(opts->max_inflight_bytes, 4ull << 30);
    ck_assert_uint_eq(opts->sgl, MKV_SGL_TRY);
    mkv_config_release(config);
}
END_TEST

START_TEST(prefix_wins_over_the_common_variable)
{
    mkv_config_t *config;

    setenv("MORIKV_BIND_TIMEOUT", "7s", 1);
    setenv("VLLM_MORIKV_BIND_TIMEOUT", "9s", 1);
    config = read_config("VLLM");
    ck_assert_uint_eq(mkv_config_options(config)->bind_timeout, 9000);
    ck_assert_str_eq(mkv_config_get(config, "BIND_TIMEOUT"), "9s");
    mkv_config_release(config);
    config = read_config(NULL);
    ck_assert_uint_eq(mkv_config_options(config)->bind_timeout, 7000);
    mkv_config_release(config);
    unsetenv("MORIKV_BIND_TIMEOUT");
    unsetenv("VLLM_MORIKV_BIND_TIMEOUT");
}
END_TEST

/* CF-07 */
START_TEST(unknown_variable_is_an_error_that_names_it)
{
    mkv_config_t *config;

    setenv("MORIKV_BIND_TIMEUOT", "7s", 1);
    ck_assert_int_eq(mkv_config_read(NULL, &config), MKV_ERR_INVALID);
    ck_assert_str_eq(mkv_last_error(),
                     "the environment sets MORIKV_BIND_TIMEUOT, but there is no such "
                     "option; is MORIKV_BIND_TIMEOUT meant?");
    unsetenv("MORIKV_BIND_TIMEUOT");
}
END_TEST

/* Variables that Kubernetes sets for services called morikv and morikv-decode; and a
 * long list */
/* CF-07 */
START_TEST(foreign_variables_are_ignored_and_logged)
{
    static const char *const names[] = {
        "MORIKV_PORT",
        "MORIKV_SERVICE_HOST",
        "MORIKV_SERVICE_PORT",
        "MORIKV_PORT_80_TCP",
        "MORIKV_PORT_80_TCP_PROTO",
        "MORIKV_HOME",
        "MORIKV_DECODE_PORT",
        "MORIKV_DECODE_SERVICE_HOST",
        "MORIKV_PORT_80_TCP_ADDR",
        "MORIKV_A_NAME_THAT_IS_LONGER_THAN_THE_ROOM_FOR_A_NAME_HERE_IS_EVER"};
    mkv_config_t *config;
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        setenv(names[i], "tcp://10.96.0.1:80", 1);
    }
    config = read_config(NULL);
    for (i = 0; i < 6; ++i) {
        ck_assert_ptr_nonnull(strstr(mkv_config_ignored(config), names[i]));
    }
    mkv_config_release(config);
    for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        unsetenv(names[i]);
    }
    config = read_config(NULL);
    ck_assert_str_eq(mkv_config_ignored(config), "");
    mkv_config_release(config);
}
END_TEST

static const struct {
    const char *key, *value;
    mkv_status_t status;
    uint64_t number;
    size_t offset;
} sets[] = {
    {"MAX_INFLIGHT_BYTES", "64k", MKV_OK, 65536,
     offsetof(mkv_options_t, max_inflight_bytes)},
    {"max_inflight_bytes", "2GB", MKV_OK, 2ull << 30,
     offsetof(mkv_options_t, max_inflight_bytes)},
    {"MAX_QUEUED", "inf", MKV_OK, UINT64_MAX, offsetof(mkv_options_t, max_queued)},
    {"XFER_TIMEOUT", "5m", MKV_OK, 300000, offsetof(mkv_options_t, xfer_timeout)},
    {"XFER_TIMEOUT", "250", MKV_OK, 250, offsetof(mkv_options_t, xfer_timeout)},
    {"BACKEND", "XGMI", MKV_OK, MKV_BACKEND_XGMI, offsetof(mkv_options_t, backend)},
    {"STRICT", "yes", MKV_OK, 1, offsetof(mkv_options_t, strict)},
    {"XFER_TIMEOUT", "-1", MKV_ERR_INVALID, 0, 0},
    {"XFER_TIMEOUT", "1h", MKV_ERR_INVALID, 0, 0},
    {"XFER_TIMEOUT", "99999999999s", MKV_ERR_INVALID, 0, 0},
    {"MAX_INFLIGHT_BYTES", "99999999999g", MKV_ERR_INVALID, 0, 0},
    {"MAX_INFLIGHT_OPS", "", MKV_ERR_INVALID, 0, 0},
    {"MAX_INFLIGHT_OPS", "16k", MKV_ERR_INVALID, 0, 0},
    {"MAX_INFLIGHT_OPS", "0", MKV_ERR_INVALID, 0, 0},
    {"MAX_MESSAGE", "4095", MKV_ERR_INVALID, 0, 0},
    {"MAX_MESSAGE", "4k", MKV_OK, 4096, offsetof(mkv_options_t, max_message)},
    {"MAX_MESSAGE", "4g", MKV_ERR_INVALID, 0, 0},
    {"AM_ID", "65536", MKV_ERR_INVALID, 0, 0},
    {"PROGRESS_THREADS", "65", MKV_ERR_INVALID, 0, 0},
    {"BACKEND", "fastest", MKV_ERR_INVALID, 0, 0},
    {"STRICT", "maybe", MKV_ERR_INVALID, 0, 0},
    {"NO_SUCH", "1", MKV_ERR_NOTFOUND, 0, 0},
};

/* CF-01 */
START_TEST(values_are_parsed_or_refused)
{
    mkv_config_t *config = read_config(NULL);
    mkv_options_t before = *mkv_config_options(config);

    ck_assert_int_eq(mkv_config_set(config, sets[_i].key, sets[_i].value),
                     sets[_i].status);
    if (sets[_i].status == MKV_OK) {
        ck_assert_uint_eq(*(const uint64_t *)((const char *)mkv_config_options(config) +
                                              sets[_i].offset),
                          sets[_i].number);
        ck_assert_str_eq(mkv_config_get(config, sets[_i].key), sets[_i].value);
    } else {
        ck_assert_mem_eq(&before, mkv_config_options(config), sizeof(before));
        ck_assert_ptr_nonnull(strstr(mkv_last_error(), sets[_i].key));
    }
    mkv_config_release(config);
}
END_TEST

START_TEST(a_refused_word_is_logged_with_the_valid_ones)
{
    mkv_config_t *config = read_config(NULL);

    ck_assert_int_eq(mkv_config_set(config, "BACKEND", "foo"), MKV_ERR_INVALID);
    ck_assert_str_eq(mkv_last_error(),
                     "BACKEND: 'foo' is not auto, xgmi, ipc, rdma, shm or tcp");
    ck_assert_int_eq(mkv_config_set(config, "BACKENT", "tcp"), MKV_ERR_NOTFOUND);
    ck_assert_str_eq(mkv_last_error(),
                     "no option is called 'BACKENT'; is BACKEND meant?");
    ck_assert_int_eq(mkv_config_set(config, "FOO", "1"), MKV_ERR_NOTFOUND);
    ck_assert_str_eq(mkv_last_error(), "no option is called 'FOO'");
    ck_assert_int_eq(mkv_config_set(config, "SGL", "maybe"), MKV_ERR_INVALID);
    ck_assert_str_eq(mkv_last_error(), "SGL: 'maybe' is not no, yes or try");
    ck_assert_int_eq(mkv_config_set(config, "AM_ID", "-1"), MKV_ERR_INVALID);
    ck_assert_str_eq(mkv_last_error(), "AM_ID: '-1' is not a number from 0 to 65535");
    ck_assert_int_eq(mkv_config_set(config, "MAX_MESSAGE", "1"), MKV_ERR_INVALID);
    ck_assert_str_eq(mkv_last_error(), "MAX_MESSAGE: '1' is not a size from 4096 to "
                                       "4294967294, such as 64k or 1g");
    ck_assert_int_eq(mkv_config_set(config, "PEER_CHECK", "x"), MKV_ERR_INVALID);
    ck_assert_str_eq(mkv_last_error(), "PEER_CHECK: 'x' is not a time from 0 to inf, "
                                       "such as 500ms, 30s or 5m");
    mkv_config_release(config);
}
END_TEST

static unsigned num_options, num_help_lines;

static void check_help_line(void *arg, const char *line)
{
    const mkv_config_t *config = arg;
    char name[64];

    ck_assert_ptr_null(strchr(line, '\n'));
    if (sscanf(line, "MORIKV_%63[A-Z_]=", name) == 1) {
        ++num_options;
        ck_assert_str_eq(strchr(line, '=') + 1, mkv_config_get(config, name));
    } else {
        ++num_help_lines;
        ck_assert_int_eq(strspn(line, " "), 4);
    }
}

/* MD-08 */
START_TEST(help_has_every_option_with_its_default)
{
    mkv_config_t *config = read_config(NULL);

    mkv_config_help(check_help_line, config);
    ck_assert_uint_eq(num_options, 26);
    ck_assert_uint_ge(num_help_lines, num_options);
    mkv_config_release(config);
}
END_TEST

/* The ports of sixteen NICs, and a list that is too long even so */
START_TEST(lists_of_devices_have_room)
{
    mkv_config_t *config = read_config(NULL);
    char text[2048] = "";
    int i;

    for (i = 0; i < 16; ++i) {
        sprintf(text + strlen(text), "%srocep%ds0f0np0:1", (i > 0) ? "," : "", 100 + i);
    }
    ck_assert_int_eq(mkv_config_set(config, "NET_DEVICES", text), MKV_OK);
    ck_assert_str_eq(mkv_config_get(config, "NET_DEVICES"), text);
    ck_assert_str_eq(mkv_config_options(config)->net_devices, text);
    memset(text, 'x', sizeof(text) - 1);
    ck_assert_int_eq(mkv_config_set(config, "NET_DEVICES", text), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "1023"));
    mkv_config_release(config);
}
END_TEST

static const char *const chosen[] = {"xgmi:mori_xgmi", "ipc:rocm", "rdma:mori_rdma",
                                     "shm:sm", "tcp:tcp"};

/* Loop index: the backend. UCX_TLS overrides the choice */
/* CF-09, TR-04 */
START_TEST(every_backend_chooses_transports)
{
    mkv_config_t *config = read_config(NULL);
    char name[16] = "";

    ck_assert_str_eq(mkv_config_tls(config), "");
    memcpy(name, chosen[_i], strcspn(chosen[_i], ":"));
    ck_assert_int_eq(mkv_config_set(config, "BACKEND", name), MKV_OK);
    ck_assert_ptr_nonnull(strstr(mkv_config_tls(config), strchr(chosen[_i], ':') + 1));
    setenv("UCX_TLS", "self", 1);
    ck_assert_str_eq(mkv_config_tls(config), "");
    unsetenv("UCX_TLS");
    mkv_config_release(config);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mkv_options");
    TCase *tcase = tcase_create("options");
    SRunner *runner;
    int num_failed;

    tcase_add_test(tcase, defaults_parse_and_deadlines_are_on);
    tcase_add_test(tcase, prefix_wins_over_the_common_variable);
    tcase_add_test(tcase, unknown_variable_is_an_error_that_names_it);
    tcase_add_test(tcase, foreign_variables_are_ignored_and_logged);
    tcase_add_loop_test(tcase, values_are_parsed_or_refused, 0,
                        (int)(sizeof(sets) / sizeof(sets[0])));
    tcase_add_test(tcase, a_refused_word_is_logged_with_the_valid_ones);
    tcase_add_test(tcase, help_has_every_option_with_its_default);
    tcase_add_test(tcase, lists_of_devices_have_room);
    tcase_add_loop_test(tcase, every_backend_chooses_transports, 0,
                        (int)(sizeof(chosen) / sizeof(chosen[0])));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return num_failed != 0;
}
