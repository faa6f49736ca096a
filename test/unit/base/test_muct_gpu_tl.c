/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "base/muct_gpu_tl.h"
#include "base/muct_topo.h"
#include "test/fake/hip/hipcpu.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH 8192

static muct_gpu_t gpu;


static void setup(void)
{
    ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
}

/* From this release on the runtime keeps an error until it is read. */
static void setup_kept_errors(void)
{
    fake_hip_set_version(7, 0);
    setup();
}

static ucs_status_t alloc_on(int device, void **address_p)
{
    return muct_gpu_tl_alloc(&gpu, UCS_MEMORY_TYPE_ROCM,
                             muct_topo_sys_dev(&gpu, device), LENGTH, "test",
                             address_p);
}

START_TEST(memory_is_allocated_on_the_named_device)
{
    muct_gpu_mem_info_t info;
    int device = -1;
    void *address;

    ck_assert_int_eq(alloc_on(1, &address), UCS_OK);
    ck_assert_int_eq(muct_gpu_query(&gpu, address, &info), UCS_OK);
    ck_assert_int_eq(info.device, 1);
    ck_assert_uint_eq(info.length, LENGTH);
    ck_assert_int_eq(gpu.get_device(&device), 0);
    ck_assert_int_eq(device, 0);
    ck_assert_int_eq(muct_gpu_tl_free(&gpu, address), UCS_OK);
    ck_assert_uint_eq(fake_hip_live(HIPCPU_ALLOCATIONS), 0);
}
END_TEST

START_TEST(other_memory_and_unknown_devices_are_unsupported)
{
    unsigned long calls = fake_hip_calls("hipSetDevice");
    void *address = NULL;

    ck_assert_int_eq(muct_gpu_tl_alloc(&gpu, UCS_MEMORY_TYPE_HOST,
                                       muct_topo_sys_dev(&gpu, 0), LENGTH, "test",
                                       &address),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(
        muct_gpu_tl_alloc(&gpu, UCS_MEMORY_TYPE_ROCM, 200, LENGTH, "test", &address),
        UCS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(fake_hip_calls("hipSetDevice"), calls);
    ck_assert_uint_eq(fake_hip_live(HIPCPU_ALLOCATIONS), 0);
}
END_TEST

/* The application's next hipGetLastError() must not return an error of the module. */
START_TEST(failed_calls_leave_no_error)
{
    int device = -1;
    void *address;

    fake_hip_fail("hipMalloc", 1, MUCT_HIP_OUT_OF_MEMORY);
    ck_assert_int_eq(alloc_on(1, &address), UCS_ERR_NO_MEMORY);
    ck_assert_int_eq(gpu.get_last_error(), 0);
    ck_assert_int_eq(gpu.get_device(&device), 0);
    ck_assert_int_eq(device, 0);

    ck_assert_int_eq(alloc_on(0, &address), UCS_OK);
    fake_hip_fail("hipFree", 1, MUCT_HIP_INVALID_VALUE);
    ck_assert_int_eq(muct_gpu_tl_free(&gpu, address), UCS_ERR_IO_ERROR);
    ck_assert_int_eq(gpu.get_last_error(), 0);
    ck_assert_int_eq(muct_gpu_tl_free(&gpu, address), UCS_OK);
}
END_TEST

START_TEST(a_capture_of_another_thread_goes_on)
{
    fake_hip_capture_t capture;
    void *address;

    fake_hip_set_rule("capture-alloc", true);
    fake_hip_capture_start(&capture);
    ck_assert_int_eq(alloc_on(0, &address), UCS_OK);
    ck_assert_int_eq(muct_gpu_tl_free(&gpu, address), UCS_OK);
    ck_assert_int_eq(fake_hip_capture_end(&capture), 0);
}
END_TEST

/* The caller sets field_mask; fields outside of it may not exist in its struct. */
START_TEST(only_requested_attributes_are_filled_in)
{
    const muct_gpu_mem_info_t info = {
        .type = UCS_MEMORY_TYPE_ROCM, .device = 1, .base = 4096, .length = LENGTH};
    uct_md_mem_attr_v2_t attr, all;

    memset(&attr, 0x55, sizeof(attr));
    attr.field_mask = UCT_MD_MEM_ATTR_V2_FIELD_MEM_TYPE;
    all = attr;
    muct_gpu_tl_fill_mem_attr(&gpu, &info, &attr);
    ck_assert_int_eq(attr.mem_type, UCS_MEMORY_TYPE_ROCM);
    ck_assert_uint_eq(attr.sys_dev, muct_topo_sys_dev(&gpu, 1));
    ck_assert_ptr_eq(attr.base_address, (void *)4096);
    ck_assert_uint_eq(attr.alloc_length, LENGTH);
    ck_assert_int_eq(attr.dmabuf_fd, all.dmabuf_fd);
    ck_assert_uint_eq(attr.mem_flags, all.mem_flags);

    all.field_mask =
        UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS | UCT_MD_MEM_ATTR_V2_FIELD_DMABUF_FD;
    muct_gpu_tl_fill_mem_attr(&gpu, &info, &all);
    ck_assert_uint_eq(all.mem_flags, UCS_MEM_FLAG_REGISTRABLE);
    ck_assert_int_eq(all.dmabuf_fd, -1);
    ck_assert_uint_eq(all.dmabuf_offset, 0);
}
END_TEST

static ucs_status_t query_result;

static ucs_status_t fake_mem_query(uct_md_h md, const void *address, size_t length,
                                   uct_md_mem_attr_v2_t *attr)
{
    (void)md;
    (void)address;
    (void)length;
    ck_assert_uint_ne(attr->field_mask & UCT_MD_MEM_ATTR_V2_FIELD_MEM_TYPE, 0);
    attr->mem_type = UCS_MEMORY_TYPE_ROCM_MANAGED;
    return query_result;
}

START_TEST(detection_uses_the_query_of_the_domain)
{
    uct_md_ops_t ops = {.mem_query = fake_mem_query};
    ucs_memory_type_t type = UCS_MEMORY_TYPE_UNKNOWN;
    struct uct_md md = {.ops = &ops};

    query_result = UCS_ERR_NO_ELEM;
    ck_assert_int_eq(muct_gpu_tl_detect(&md, &gpu, 1, &type), UCS_ERR_NO_ELEM);
    ck_assert_int_eq(type, UCS_MEMORY_TYPE_UNKNOWN);
    query_result = UCS_OK;
    ck_assert_int_eq(muct_gpu_tl_detect(&md, &gpu, 1, &type), UCS_OK);
    ck_assert_int_eq(type, UCS_MEMORY_TYPE_ROCM_MANAGED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_tl");
    TCase *tcase = tcase_create("gpu_tl");

    setenv("HIPCPU_DEVICES", "2", 1);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, memory_is_allocated_on_the_named_device);
    tcase_add_test(tcase, other_memory_and_unknown_devices_are_unsupported);
    tcase_add_test(tcase, a_capture_of_another_thread_goes_on);
    tcase_add_test(tcase, only_requested_attributes_are_filled_in);
    tcase_add_test(tcase, detection_uses_the_query_of_the_domain);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("kept errors");
    tcase_add_checked_fixture(tcase, setup_kept_errors, NULL);
    tcase_add_test(tcase, failed_calls_leave_no_error);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
