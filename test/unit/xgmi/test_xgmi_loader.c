/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "test/support/xgmi_owner.h"
#include "xgmi/copy/xgmi_code.h"
#include "xgmi/copy/xgmi_loader.h"

#include <ucs/debug/log_def.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned num_warnings;
static char warning[512];

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t keep_warning(
    const char *file, unsigned line, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *message, va_list args)
{
    (void)file;
    (void)line;
    (void)function;
    (void)component;
    if (level == UCS_LOG_LEVEL_WARN) {
        vsnprintf(warning, sizeof(warning), message, args);
        ++num_warnings;
    }
    return UCS_LOG_FUNC_RC_CONTINUE;
}

/* The runtime refuses the bundle with hipErrorNoBinaryForGpu. */
static void load_refused(void)
{
    muct_hip_function_t kernel;
    muct_hip_module_t module;
    bool is_flag_last;

    fake_hip_fail("hipModuleLoadData", 1, 209);
    muct_xgmi_loader_load(xgmi_owner_gpu(), 0, &module, &kernel, &is_flag_last);
    ck_assert_ptr_null(module);
    ck_assert_ptr_null(kernel);
    ck_assert(!is_flag_last);
}

/* A build without a kernel warns once, one without code for the device each time. */
START_TEST(device_that_no_kernel_fits_is_reported)
{
    bool is_empty = muct_xgmi_code_is_empty();

    ucs_log_push_handler(keep_warning);
    load_refused();
    ck_assert_uint_eq(num_warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, is_empty ? "this build has no copy kernel"
                                                   : "hipModuleLoadData() = "));
    load_refused();
    ck_assert_uint_eq(num_warnings, is_empty ? 1 : 2);
    ucs_log_pop_handler();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_loader");
    TCase *tcase = tcase_create("loader");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, device_that_no_kernel_fits_is_reported);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
