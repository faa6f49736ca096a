/* SPDX-License-Identifier: BSD-3-Clause */

/* How an unmodified UCX loads the module: names, folders, switches, versions. */

#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <ucp/api/ucp_version.h>
#include <unistd.h>

#define IT_COMPONENT_LINE "Memory domain: mori_xgmi"


static const char *const it_info[] = {"ucx_info", "-d", NULL};

/* A folder with a copy of the module, its loader under one name. */
static void it_install(char *dir, size_t size, const char *name)
{
    char text[PATH_MAX * 3];

    snprintf(dir, size, "%s/mori-XXXXXX", P_tmpdir);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(text, sizeof(text), "cp '%s' '%s/%s'",
             it_build_path(".libs/libuct_mori.so"), dir, name);
    ck_assert_int_eq(system(text), 0);
    snprintf(text, sizeof(text), "cp '%s'/mori-core-*.so '%s'", it_build_path(".libs"),
             dir);
    ck_assert_int_eq(system(text), 0);
}

static void it_remove(const char *dir)
{
    char text[PATH_MAX];

    snprintf(text, sizeof(text), "rm -r '%.*s'", PATH_MAX - 10, dir);
    ck_assert_int_eq(system(text), 0);
}

static it_result_t it_info_with(const char *path, const char *more)
{
    char text[PATH_MAX * 2];
    const char *env[] = {text, more, NULL};

    snprintf(text, sizeof(text), "UCX_PLUGIN_PATH=%s", path);
    return it_run(it_info, env);
}

START_TEST(transport_is_listed_by_ucx_info)
{
    it_result_t result = it_run(it_info, NULL);

    it_expect(&result, "Transport: mori_xgmi\n");
    ck_assert_uint_eq(it_count(&result, IT_COMPONENT_LINE), 1);
    it_expect(&result, "peer failure");
    mkv_test_pass("transport_is_listed_by_ucx_info", "one memory domain");
    it_result_free(&result);
}
END_TEST

/* mori_xgmi's variables, also of streams (ENGINES): each is listed with its help and
 * its value */
static const char *const xgmi_options[] = {
    "UCX_MORI_XGMI_SHM_DIR=/tmp",
    "UCX_MORI_XGMI_MAX_IDLE_REGIONS=7",
    "UCX_MORI_XGMI_MAX_IDLE_SIZE=3M",
    "UCX_MORI_XGMI_OPEN_TIMEOUT=300000.00us",
    "UCX_MORI_XGMI_DETECT=n",
    "UCX_MORI_XGMI_INVALIDATE_TIMEOUT=7000000.00us",
    "UCX_MORI_XGMI_LIST_SIZE=1000",
    "UCX_MORI_XGMI_YIELD_LOCK=n",
    "UCX_MORI_XGMI_KERNEL=n",
    "UCX_MORI_XGMI_BLOCKS=9",
    "UCX_MORI_XGMI_ENGINES=3",
    "UCX_MORI_XGMI_TOPOLOGY=/nowhere/nodes",
    "UCX_MORI_XGMI_MIN_RUN=5M",
    "UCX_MORI_XGMI_SEG_SIZE=32K",
    "UCX_MORI_XGMI_SEGS=60",
    "UCX_MORI_XGMI_MAX_SHORT=2K",
    "UCX_MORI_XGMI_LATENCY=6.00us",
    "UCX_MORI_XGMI_OVERHEAD=0.70us",
    "UCX_MORI_XGMI_MESSAGES=n",
    "UCX_MORI_XGMI_PRIVATE=n",
    NULL};

static void expect_option(const it_result_t *result, const char *option)
{
    char line[128];

    snprintf(line, sizeof(line), "#\n%s\n", option); /* behind its text */
    it_expect(result, line);
}

/* CF-08 */
START_TEST(options_are_listed_with_their_help)
{
    static const char *const argv[] = {"ucx_info", "-cf", NULL};
    it_result_t result = it_run(argv, xgmi_options);
    size_t i;

    for (i = 0; xgmi_options[i] != NULL; ++i) {
        expect_option(&result, xgmi_options[i]);
    }
    /* and BW, and three that every interface of UCX has */
    ck_assert_uint_eq(it_count(&result, "\nUCX_MORI_XGMI_"), i + 4);
    mkv_test_pass("options_are_listed_with_their_help", "%zu variables of mori_xgmi",
                  i);
    it_result_free(&result);
}
END_TEST

/* UCX loads only the name that ends like the name of its own library. */
START_TEST(only_the_right_file_name_is_loaded)
{
    static const struct {
        const char *name;
        int is_loaded;
    } names[] = {{"libuct_mori.so.0", 1},
                 {"libuct_mori.so", 0},
                 {"libuct_mori.so.0.0.0", 0},
                 {"libuct_mori.so.1", 0},
                 {"uct_mori.so.0", 0}};
    it_result_t result;
    char dir[PATH_MAX];
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        it_install(dir, sizeof(dir), names[i].name);
        result = it_info_with(dir, NULL);
        ck_assert_msg(
            it_count(&result, IT_COMPONENT_LINE) == (unsigned)names[i].is_loaded,
            "%s: listed %u times", names[i].name, it_count(&result, IT_COMPONENT_LINE));
        it_expect_status(&result, 0);
        it_result_free(&result);
        it_remove(dir);
    }

    mkv_test_pass("only_the_right_file_name_is_loaded", "%zu names",
                  sizeof(names) / sizeof(names[0]));
}
END_TEST

START_TEST(module_loaded_twice_registers_once)
{
    char first[PATH_MAX], second[PATH_MAX], both[PATH_MAX * 2 + 2],
        preload[PATH_MAX * 2];
    const char *env[] = {both, preload, NULL};
    it_result_t result;

    it_install(first, sizeof(first), "libuct_mori.so.0");
    it_install(second, sizeof(second), "libuct_mori.so.0");

    snprintf(both, sizeof(both), "UCX_PLUGIN_PATH=%.4000s:%.4000s", first, second);
    result = it_run(it_info, (const char *[]){both, NULL});
    ck_assert_uint_eq(it_count(&result, IT_COMPONENT_LINE), 1);
    it_result_free(&result);

    /* A second copy is in the process before UCX looks for modules. */
    snprintf(both, sizeof(both), "UCX_PLUGIN_PATH=%.4000s", first);
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%.4000s/libuct_mori.so.0", second);
    result = it_run(it_info, env);
    it_expect_status(&result, 0);
    ck_assert_uint_eq(it_count(&result, IT_COMPONENT_LINE), 1);
    it_result_free(&result);

    it_remove(first);
    it_remove(second);
    mkv_test_pass("module_loaded_twice_registers_once", "two folders; preloaded too");
}
END_TEST

START_TEST(module_can_be_switched_off)
{
    const char *path = getenv("UCX_PLUGIN_PATH");
    it_result_t result = it_info_with(path, "UCX_MODULES=^mori");

    it_expect_status(&result, 0);
    ck_assert_uint_eq(it_count(&result, IT_COMPONENT_LINE), 0);
    it_result_free(&result);

    result = it_info_with(path, "UCX_MODULES=mori");
    ck_assert_uint_eq(it_count(&result, IT_COMPONENT_LINE), 1);
    it_result_free(&result);
    mkv_test_pass("module_can_be_switched_off", "UCX_MODULES=^mori and mori");
}
END_TEST

/* A stand-in for libucp reports another version, as a newer UCX would. */
START_TEST(unknown_ucx_gives_one_line_and_no_transport)
{
    char preload[PATH_MAX + 64];
    const char *env[] = {preload, "UCX_LOG_LEVEL=warn", NULL};
    it_result_t result;

    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s",
             it_build_path("test/integration/ucp/.libs/libucp_next.so"));
    result = it_run(it_info, env);
    it_expect_status(&result, 0);
    ck_assert_uint_eq(it_count(&result, IT_COMPONENT_LINE), 0);
    it_expect(&result, "1.99");
    it_expect(&result, "install a newer ucx-mori"); /* ./configure refuses that UCX */
    ck_assert_uint_eq(it_count(&result, "UCX  WARN"), 1);
    mkv_test_pass("unknown_ucx_gives_one_line_and_no_transport", "UCX 1.99");
    it_result_free(&result);
}
END_TEST

/* Minor version of the UCX that ucx_info runs with, which may be older than the
 * headers. */
static int ucx_minor(void)
{
    FILE *pipe = popen("ucx_info -v", "r");
    char line[256];
    int minor = -1;

    ck_assert_ptr_ne(pipe, NULL);
    while (fgets(line, sizeof(line), pipe) != NULL) {
        (void)sscanf(line, "# Library version: 1.%d", &minor);
    }
    (void)pclose(pipe);
    ck_assert_int_ge(minor, 0);
    return minor;
}

/* A single warning names the UCX version, the available cores and the remedy; the rest
 * works. */
START_TEST(absent_core_gives_one_line_and_no_transport)
{
    char dir[PATH_MAX], text[PATH_MAX + 64];
    it_result_t result;

    it_install(dir, sizeof(dir), "libuct_mori.so.0");
    snprintf(text, sizeof(text), "rm '%.4000s'/mori-core-1.%d.so", dir, ucx_minor());
    ck_assert_int_eq(system(text), 0);
    result = it_info_with(dir, "UCX_LOG_LEVEL=warn");
    it_expect_status(&result, 0);
    it_expect(&result, "Transport: tcp");
    ck_assert_uint_eq(it_count(&result, IT_COMPONENT_LINE), 0);
    ck_assert_uint_eq(it_count(&result, "UCX  WARN"), 1);
    snprintf(text, sizeof(text), "is UCX 1.%d", ucx_minor());
    it_expect(&result, text);
    it_expect(&result, "--with-ucx=DIR");
    it_expect(&result, "libucs.so");
    it_result_free(&result);

    result = it_info_with(dir, "UCX_LOG_LEVEL=error");
    ck_assert_uint_eq(it_count(&result, "WARN"), 0);
    it_result_free(&result);
    it_remove(dir);
    mkv_test_pass("absent_core_gives_one_line_and_no_transport", "UCX 1.%d",
                  ucx_minor());
}
END_TEST

/* A file that is no core, or a core whose reference UCX does not have. */
START_TEST(broken_core_gives_one_line_and_no_transport)
{
    char dir[PATH_MAX], text[PATH_MAX * 3];
    it_result_t result;

    it_install(dir, sizeof(dir), "libuct_mori.so.0");
    snprintf(text, sizeof(text), "cp '%s' '%.4000s/mori-core-1.%d.so'",
             it_build_path("test/integration/ucp/.libs/core_odd.so"), dir, ucx_minor());
    if (_i == 0) {
        snprintf(text, sizeof(text), "echo text >'%.4000s/mori-core-1.%d.so'", dir,
                 ucx_minor());
    }
    ck_assert_int_eq(system(text), 0);
    result = it_info_with(dir, "UCX_LOG_LEVEL=warn");
    it_expect_status(&result, 0);
    it_expect(&result, "Transport: tcp");
    ck_assert_uint_eq(it_count(&result, "UCX  WARN"), 1);
    it_expect(&result, (_i == 0) ? "file too short" : "ucs_function_of_the_future");
    it_result_free(&result);
    it_remove(dir);
}
END_TEST

/* The module logs nothing when there is no GPU runtime, and UCX works as if unloaded.
 */
/* DO-05 */
START_TEST(missing_hip_library_leaves_ucx_as_it_was)
{
    static const char *const quiet[] = {"UCX_MORI_HIP_LIB=libdoes_not_exist.so",
                                        "UCX_LOG_LEVEL=warn", NULL};
    it_result_t result = it_run(it_info, quiet);

    it_expect_status(&result, 0);
    it_expect(&result, "Transport: tcp");
    it_expect_no(&result, "Transport: mori_xgmi");
    it_expect(&result, "libdoes_not_exist.so"); /* a named library is logged */
    it_result_free(&result);
    mkv_test_pass("missing_hip_library_leaves_ucx_as_it_was", "named and not there");
}
END_TEST

/* A library that exists but cannot be loaded is logged, and UCX works without the
 * module. */
START_TEST(broken_hip_library_is_logged_with_its_cause)
{
    char folder[] = "/tmp/it_module.XXXXXX", path[64], variable[4096];
    const char *others = getenv("LD_LIBRARY_PATH"); /* UCX itself may be there */
    const char *const broken[] = {variable, "UCX_MORI_HIP_LIB=auto",
                                  "UCX_LOG_LEVEL=warn", NULL};
    it_result_t result;
    FILE *file;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/libamdhip64.so.7", folder);
    snprintf(variable, sizeof(variable), "LD_LIBRARY_PATH=%s%s%s", folder,
             (others != NULL) ? ":" : "", (others != NULL) ? others : "");
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_gt(fputs("no library", file), 0);
    ck_assert_int_eq(fclose(file), 0);
    result = it_run(it_info, broken);
    it_expect_status(&result, 0);
    it_expect(&result, "Transport: tcp");
    it_expect(&result, "GPU runtime libamdhip64.so.7 is not used: ");
    it_expect(&result, path); /* and no library that does not exist */
    it_expect_no(&result, "GPU runtime libamdhip64.so.5 is not used");
    it_expect(&result, "set UCX_MORI_HIP_LIB to another one");
    it_result_free(&result);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    mkv_test_pass("broken_hip_library_is_logged_with_its_cause",
                  "found and no library");
}
END_TEST

int main(void)
{
    int status = it_begin("mori_xgmi", "module");
    Suite *suite;
    TCase *tcase;

    if (status >= 0) {
        return status;
    }

    suite = suite_create("module");
    tcase = tcase_create("load");
    tcase_set_timeout(tcase, 4.0 * mkv_test_limit_ms() / 1000);
    tcase_add_test(tcase, transport_is_listed_by_ucx_info);
    tcase_add_test(tcase, options_are_listed_with_their_help);
    tcase_add_test(tcase, only_the_right_file_name_is_loaded);
    tcase_add_test(tcase, module_loaded_twice_registers_once);
    tcase_add_test(tcase, module_can_be_switched_off);
    tcase_add_test(tcase, unknown_ucx_gives_one_line_and_no_transport);
    tcase_add_test(tcase, absent_core_gives_one_line_and_no_transport);
    tcase_add_loop_test(tcase, broken_core_gives_one_line_and_no_transport, 0, 2);
    tcase_add_test(tcase, missing_hip_library_leaves_ucx_as_it_was);
    tcase_add_test(tcase, broken_hip_library_is_logged_with_its_cause);
    suite_add_tcase(suite, tcase);
    return it_end(suite, 0);
}
