/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/muct_gpu.h"
#include "base/muct_log.h"
#include "base/muct_topo.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"

#include <ucs/config/global_opts.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* UCX chooses a GPU's NIC by its PCI address. Partitions of a GPU are functions of one
 * address, of which sysfs has function 0 alone. */
/* TR-15 */
START_TEST(gpus_are_the_system_device_of_their_pci_address)
{
    ucs_sys_device_t sys_devs[4];
    char bdf[32];
    muct_gpu_t gpu;
    int i;

    setenv("HIPCPU_DEVICES", "4", 1);
    setenv("HIPCPU_PARTITIONS", "2", 1);
    ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
    for (i = 0; i < 4; ++i) {
        sys_devs[i] = muct_topo_sys_dev(&gpu, i);
        ck_assert_uint_ne(sys_devs[i], UCS_SYS_DEVICE_ID_UNKNOWN);
        ck_assert_uint_eq(sys_devs[i], muct_topo_sys_dev(&gpu, i));
    }
    ck_assert_uint_eq(sys_devs[0], sys_devs[1]);
    ck_assert_uint_ne(sys_devs[1], sys_devs[2]);
    ck_assert_uint_eq(sys_devs[2], sys_devs[3]);
    ucs_topo_sys_device_bdf_name(sys_devs[2], bdf, sizeof(bdf));
    ck_assert_str_eq(bdf, "0000:1c:00.0");
    ck_assert_int_eq(muct_topo_device(&gpu, sys_devs[3]), 2);
    ck_assert_int_eq(muct_topo_device(&gpu, UCS_SYS_DEVICE_ID_UNKNOWN), 0);
    ck_assert_uint_eq(muct_topo_sys_dev(&gpu, 77), UCS_SYS_DEVICE_ID_UNKNOWN);
}
END_TEST

/* As flag.h of ROCr: rocm-6.2.4 is always in legacy mode ("1" and others), the branch
 * of 6.4 leaves it by "0" alone, and 7.2 enters it by "1" alone. */
START_TEST(need_of_the_exporter_follows_release_and_setting)
{
    static const char *const values[] = {NULL, "", "0", "1", "00", "01", "no", "false"};
    static const struct {
        int major, minor;
        const char *asks_owner; /* a digit for each value */
    } releases[] = {{5, 7, "00000000"}, {6, 2, "00000000"}, {6, 3, "00100000"},
                    {6, 4, "00100000"}, {7, 1, "00100000"}, {7, 2, "11101111"},
                    {8, 0, "11101111"}};
    muct_gpu_t gpu;
    size_t i;

    fake_hip_set_version(releases[_i].major, releases[_i].minor);
    for (i = 0; i < sizeof(values) / sizeof(values[0]); ++i) {
        unsetenv("HSA_ENABLE_IPC_MODE_LEGACY");
        if (values[i] != NULL) {
            setenv("HSA_ENABLE_IPC_MODE_LEGACY", values[i], 1);
        }
        ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
        ck_assert_int_eq(gpu.ipc_needs_owner, releases[_i].asks_owner[i] == '1');
    }
}
END_TEST

START_TEST(missing_runtime_is_no_device)
{
    muct_gpu_t gpu = {0};

    ck_assert_int_eq(muct_gpu_bind("/nonexistent/libamdhip64.so", &gpu),
                     UCS_ERR_NO_DEVICE);
    ck_assert_ptr_null((void *)(uintptr_t)gpu.num_devices);
}
END_TEST

START_TEST(library_without_the_functions_is_no_device)
{
    muct_gpu_t gpu = {0};

    ck_assert_int_eq(muct_gpu_bind("libc.so.6", &gpu), UCS_ERR_NO_DEVICE);
    ck_assert(gpu.get_device_count == NULL);
}
END_TEST

START_TEST(runtime_that_fails_is_no_device)
{
    static const char *const functions[] = {"hipGetDeviceCount",
                                            "hipRuntimeGetVersion"};
    muct_gpu_t gpu = {0};

    fake_hip_fail(functions[_i], 1, MUCT_HIP_NO_DEVICE);
    ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_ERR_NO_DEVICE);
    ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
    ck_assert_int_ge(gpu.num_devices, 1);
}
END_TEST

/* Constants that ROCm 6.0 changed under the same names. */
START_TEST(versions_differ_only_here)
{
    static const struct {
        int major, minor;
        unsigned ipc_flags;
    } releases[] = {{5, 7, 0}, {6, 4, 1}, {7, 0, 1}};
    muct_gpu_mem_info_t info;
    void *device, *pinned;
    muct_gpu_t gpu;
    int on_stack = 0;

    fake_hip_set_version(releases[_i].major, releases[_i].minor);
    ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
    ck_assert_uint_eq(gpu.ipc_flags, releases[_i].ipc_flags);
    ck_assert_int_eq(gpu.mem_alloc(&device, 10000), 0);
    ck_assert_int_eq(gpu.host_malloc(&pinned, 10000, 0), 0);

    ck_assert_int_eq(muct_gpu_query(&gpu, (char *)device + 5000, &info), UCS_OK);
    ck_assert_int_eq(info.type, UCS_MEMORY_TYPE_ROCM);
    ck_assert_uint_eq(info.base, (uintptr_t)device);
    ck_assert_uint_ge(info.length, 10000);
    ck_assert_int_eq(muct_gpu_query(&gpu, pinned, &info), UCS_ERR_NO_ELEM);
    ck_assert_int_eq(muct_gpu_query(&gpu, &on_stack, &info), UCS_ERR_NO_ELEM);
    ck_assert_int_eq(gpu.get_last_error(), 0); /* none is left for the application */

    gpu.mem_free(device);
    gpu.host_free(pinned);
}
END_TEST

START_TEST(each_kind_of_address_is_classified)
{
    static const int releases[] = {5, 6, 7};
    void *device, *pinned;
    int on_stack = 0, ordinal = -1;
    muct_gpu_t gpu;

    fake_hip_set_version(releases[_i], 0);
    ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
    ck_assert_int_eq(gpu.set_device(1), 0);
    ck_assert_int_eq(gpu.mem_alloc(&device, 10000), 0);
    ck_assert_int_eq(gpu.host_malloc(&pinned, 10000, 0), 0);

    ck_assert_int_eq(muct_gpu_place(&gpu, pinned, &ordinal), MUCT_GPU_PLACE_PINNED);
    ck_assert_int_eq(muct_gpu_place(&gpu, &on_stack, &ordinal), MUCT_GPU_PLACE_HOST);
    ck_assert_int_eq(ordinal, -1);
    ck_assert_int_eq(muct_gpu_place(&gpu, (char *)device + 9999, &ordinal),
                     MUCT_GPU_PLACE_DEVICE);
    ck_assert_int_eq(ordinal, 1);
    ck_assert_int_eq(gpu.get_last_error(), 0);

    gpu.mem_free(device);
    gpu.host_free(pinned);
}
END_TEST

/* TR-12 */
START_TEST(current_device_is_put_back)
{
    muct_gpu_t gpu;
    int prev, now;

    ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
    ck_assert_int_ge(gpu.num_devices, 2);
    ck_assert_int_eq(gpu.set_device(1), 0);
    ck_assert_int_eq(muct_gpu_push_device(&gpu, 0, &prev), UCS_OK);
    gpu.get_device(&now);
    ck_assert_int_eq(now, 0);
    muct_gpu_pop_device(&gpu, 0, prev);
    gpu.get_device(&now);
    ck_assert_int_eq(now, 1);

    fake_hip_fail("hipSetDevice", 1, 101);
    ck_assert_int_eq(muct_gpu_push_device(&gpu, 0, &prev), UCS_ERR_NO_DEVICE);
    ck_assert_int_eq(gpu.get_last_error(), 0);
    gpu.get_device(&now);
    ck_assert_int_eq(now, 1);
}
END_TEST

/* A message clears the application's error, whether or not the log level shows it. */
START_TEST(hidden_message_forgets_the_error)
{
    static const char *const levels[] = {"fatal", "warn", "debug"};
    muct_gpu_t gpu;
    int ret;

    ck_assert_int_eq(ucs_global_opts_set_value("LOG_LEVEL", levels[_i]), UCS_OK);
    fake_hip_set_version(7, 0);
    ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
    ret = gpu.set_device(1000);
    ck_assert_int_ne(ret, 0);
    muct_diag("hipSetDevice(1000) failed: %s", muct_gpu_error_name(&gpu, ret));
    ck_assert_int_eq(gpu.get_last_error(), 0);
}
END_TEST

START_TEST(unknown_error_has_a_name)
{
    muct_gpu_t gpu;

    ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
    ck_assert_ptr_nonnull(muct_gpu_error_name(&gpu, 987654));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tcase = tcase_create("base");

    setenv("HIPCPU_DEVICES", "2", 1);
    tcase_add_test(tcase, missing_runtime_is_no_device);
    tcase_add_test(tcase, library_without_the_functions_is_no_device);
    tcase_add_loop_test(tcase, runtime_that_fails_is_no_device, 0, 2);
    tcase_add_loop_test(tcase, versions_differ_only_here, 0, 3);
    tcase_add_loop_test(tcase, each_kind_of_address_is_classified, 0, 3);
    tcase_add_test(tcase, current_device_is_put_back);
    tcase_add_loop_test(tcase, need_of_the_exporter_follows_release_and_setting, 0, 7);
    tcase_add_test(tcase, gpus_are_the_system_device_of_their_pci_address);
    tcase_add_loop_test(tcase, hidden_message_forgets_the_error, 0, 3);
    tcase_add_test(tcase, unknown_error_has_a_name);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
