/* SPDX-License-Identifier: BSD-3-Clause */

/* The memory domain, as UCT calls it, with and without a ROCm support of UCX's own. */

#include "base/muct_ucx_rocm.h"
#include "copy/copy_md.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH 65536
#define HOST_MEMORY 1 /* hipcpu_live(): pinned and registered */

static const uint64_t device_types =
    UCS_BIT(UCS_MEMORY_TYPE_ROCM) | UCS_BIT(UCS_MEMORY_TYPE_ROCM_MANAGED);
static const muct_gpu_t *gpu;
static char host[LENGTH];


static size_t live_host_memory(void)
{
    return fake_hip_live(HOST_MEMORY);
}

static uct_md_h open_md(void)
{
    uct_md_config_t *config;
    uct_md_h md;

    ck_assert_int_eq(
        uct_md_config_read(&muct_copy_component.super, NULL, NULL, &config), UCS_OK);
    ck_assert_int_eq(
        uct_md_open(&muct_copy_component.super, MUCT_COPY_NAME, config, &md), UCS_OK);
    uct_config_release(config);
    ck_assert_int_eq(muct_gpu_get(&gpu), UCS_OK);
    return md;
}

static muct_pin_t *reg_host(uct_md_h md)
{
    uct_mem_h memh;

    ck_assert_int_eq(uct_md_mem_reg(md, host, LENGTH, UCT_MD_MEM_ACCESS_ALL, &memh),
                     UCS_OK);
    return memh;
}

static void pin(uct_md_h md, muct_pin_t *mem)
{
    muct_pin(ucs_derived_of(md, muct_copy_md_t)->gpu, mem);
}

START_TEST(host_memory_is_pinned_with_its_first_copy)
{
    uct_md_h md = open_md();
    muct_pin_t *mem = reg_host(md);

    ck_assert_uint_eq(live_host_memory(), 0);
    pin(md, mem);
    ck_assert_uint_eq(live_host_memory(), 1);
    pin(md, mem);
    ck_assert_uint_eq(live_host_memory(), 1);
    ck_assert_int_eq(uct_md_mem_dereg(md, mem), UCS_OK);
    ck_assert_uint_eq(live_host_memory(), 0);
    uct_md_close(md);
}
END_TEST

START_TEST(memory_the_application_pinned_stays_its_own)
{
    uct_md_h md = open_md();
    muct_pin_t *mem = reg_host(md);

    ck_assert_int_eq(gpu->host_register(host + 4096, 8192, 0), 0);
    pin(md, mem);
    ck_assert_int_eq(uct_md_mem_dereg(md, mem), UCS_OK);
    ck_assert_uint_eq(live_host_memory(), 1);
    ck_assert_int_eq(gpu->get_last_error(), 0);
    ck_assert_int_eq(gpu->host_unregister(host + 4096), 0);
    uct_md_close(md);
}
END_TEST

/* On 6.4.3 and 7.2.4 a second registration succeeds, and one call ends both. */
START_TEST(memory_the_application_registered_stays_registered)
{
    uct_md_h md = open_md();
    muct_pin_t *mem = reg_host(md);

    ck_assert_int_eq(gpu->host_register(mem->address, mem->length, 0), 0);
    pin(md, mem);
    ck_assert_int_eq(uct_md_mem_dereg(md, mem), UCS_OK);
    ck_assert_uint_eq(live_host_memory(), 1);
    ck_assert_int_eq(gpu->get_last_error(), 0);
    ck_assert_int_eq(gpu->host_unregister(host), 0);
    uct_md_close(md);
}
END_TEST

START_TEST(nothing_is_pinned_against_the_users_will)
{
    muct_pin_t *mem;
    uct_md_h md;

    setenv("UCX_MORI_COPY_PIN", "n", 1);
    md = open_md();
    mem = reg_host(md);
    pin(md, mem);
    ck_assert_uint_eq(live_host_memory(), 0);
    ck_assert_int_eq(uct_md_mem_dereg(md, mem), UCS_OK);
    uct_md_close(md);
}
END_TEST

START_TEST(every_kind_of_device_memory_is_recognised)
{
    int (*malloc_managed)(void **, size_t, unsigned);
    ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
    void *symbol, *memory;
    uct_md_h md = open_md();
    uct_md_attr_t attr;

    symbol = fake_hip_symbol("hipMallocManaged");
    memcpy(&malloc_managed, &symbol, sizeof(malloc_managed));
    ck_assert_int_eq(uct_md_query(md, &attr), UCS_OK);
    ck_assert_uint_eq(attr.cap.detect_mem_types, device_types);
    ck_assert_uint_eq(attr.cap.access_mem_types,
                      device_types | UCS_BIT(UCS_MEMORY_TYPE_HOST));

    ck_assert_int_eq(gpu->mem_alloc(&memory, LENGTH), 0);
    ck_assert_int_eq(uct_md_detect_memory_type(md, memory, LENGTH, &type), UCS_OK);
    ck_assert_int_eq(type, UCS_MEMORY_TYPE_ROCM);
    ck_assert_int_eq(gpu->mem_free(memory), 0);

    ck_assert_int_eq(malloc_managed(&memory, LENGTH, 1), 0);
    ck_assert_int_eq(uct_md_detect_memory_type(md, memory, LENGTH, &type), UCS_OK);
    ck_assert_int_eq(type, UCS_MEMORY_TYPE_ROCM_MANAGED);
    ck_assert_int_eq(gpu->mem_free(memory), 0);

    ck_assert_int_eq(uct_md_detect_memory_type(md, host, LENGTH, &type),
                     UCS_ERR_INVALID_ADDR);
    uct_md_close(md);
}
END_TEST


/* ---- beside UCX's own support ---- */

static unsigned num_rocm_domains;

static ucs_status_t query_rocm(uct_component_t *component,
                               uct_md_resource_desc_t **resources_p, unsigned *num_p)
{
    (void)component;
    *resources_p = calloc(1, sizeof(**resources_p));
    *num_p = num_rocm_domains;
    return UCS_OK;
}

static uct_component_t rocm_component = {.name = "rocm_cpy",
                                         .query_md_resources = query_rocm};

/* Memory types that the domain accesses when UCX's component has so many domains. */
static uint64_t accessed(unsigned num_domains)
{
    uct_md_attr_t attr;
    uct_md_h md;

    num_rocm_domains = num_domains;
    md = open_md();
    ck_assert_int_eq(uct_md_query(md, &attr), UCS_OK);
    ck_assert_uint_eq(attr.cap.detect_mem_types,
                      attr.cap.access_mem_types & device_types);
    ck_assert_uint_eq(!(attr.cap.flags & UCT_MD_FLAG_ALLOC),
                      attr.cap.access_mem_types == 0);
    uct_md_close(md);
    return attr.cap.access_mem_types;
}

START_TEST(ucx_own_support_keeps_what_it_claims)
{
    const uint64_t all = device_types | UCS_BIT(UCS_MEMORY_TYPE_HOST);

    uct_component_register(&rocm_component);
    ck_assert_uint_eq(accessed(1), 0);
    ck_assert_uint_eq(accessed(0), all); /* it is there, and finds no device */

    setenv("UCX_TLS", "mori_xgmi,mori_copy,tcp", 1);
    ck_assert_uint_eq(accessed(1), all); /* no other component may copy */
    setenv("UCX_TLS", "mori_copy,rocm,tcp", 1);
    ck_assert_uint_eq(accessed(1), 0);
    setenv("UCX_MORI_COPY_ENABLE", "y", 1);
    ck_assert_uint_eq(accessed(1), all);
    setenv("UCX_MORI_COPY_ENABLE", "n", 1);
    ck_assert_uint_eq(accessed(0), 0);
    uct_component_unregister(&rocm_component);
}
END_TEST

START_TEST(lists_of_transports_are_read_as_ucx_does)
{
    static const struct {
        const char *tls;
        int is_allowed;
    } cases[] = {
        {"all", 1},
        {"rocm", 1},
        {"tcp,rocm_copy", 1},
        {"\\rocm_copy,tcp", 1},
        {"tcp,all", 1},
        {"tcp", 0},
        {"", 0},
        {"rocm_ipc,tcp", 0},
        {"rocm_copyx", 0},
        {"mori_copy,mori_xgmi,tcp", 0},
        {"^rocm", 0},
        {"^tcp,rocm_copy", 0},
        {"^tcp", 1},
        {"^rocm_ipc", 1},
    };
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        ck_assert_msg(muct_ucx_rocm_is_allowed(cases[i].tls) == cases[i].is_allowed,
                      "UCX_TLS=%s", cases[i].tls);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copy_md");
    TCase *tcase = tcase_create("copy_md");
    SRunner *runner;
    int num_failed;

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    tcase_add_test(tcase, host_memory_is_pinned_with_its_first_copy);
    tcase_add_test(tcase, memory_the_application_pinned_stays_its_own);
    tcase_add_test(tcase, memory_the_application_registered_stays_registered);
    tcase_add_test(tcase, nothing_is_pinned_against_the_users_will);
    tcase_add_test(tcase, every_kind_of_device_memory_is_recognised);
    tcase_add_test(tcase, ucx_own_support_keeps_what_it_claims);
    tcase_add_test(tcase, lists_of_transports_are_read_as_ucx_does);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (num_failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
