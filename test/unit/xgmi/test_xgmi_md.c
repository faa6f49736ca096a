/* SPDX-License-Identifier: BSD-3-Clause */

/* The memory domain beside ROCm support of UCX's own. */

#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "xgmi/xgmi_md.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH 65536

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

/* Check the domain's claims when UCX's component has so many domains; the rest is the
 * same. */
static void claims(unsigned num_domains, uint64_t detected, uint64_t dmabuf)
{
    const uint64_t rocm = UCS_BIT(UCS_MEMORY_TYPE_ROCM);
    uct_md_mem_attr_v2_t where = {.field_mask = UCT_MD_MEM_ATTR_V2_FIELD_SYS_DEV};
    uct_md_attr_v2_t attr = {.flags = 0};
    uct_md_config_t *config;
    const muct_gpu_t *gpu;
    void *memory;
    uct_md_h md;

    num_rocm_domains = num_domains;
    ck_assert_int_eq(
        uct_md_config_read(&muct_xgmi_component.super, NULL, NULL, &config), UCS_OK);
    ck_assert_int_eq(
        uct_md_open(&muct_xgmi_component.super, MUCT_XGMI_NAME, config, &md), UCS_OK);
    uct_config_release(config);
    ck_assert_int_eq(md->ops->query(md, &attr), UCS_OK);
    ck_assert_msg(attr.detect_mem_types == detected, "%u domains, UCX_TLS=%s",
                  num_domains, getenv("UCX_TLS"));
    ck_assert_uint_eq(attr.dmabuf_mem_types, dmabuf);
    ck_assert_uint_eq(attr.reg_mem_types, rocm);

    ck_assert_int_eq(muct_gpu_get(&gpu), UCS_OK);
    ck_assert_int_eq(gpu->mem_alloc(&memory, LENGTH), 0);
    ck_assert_int_eq(md->ops->mem_query(md, memory, LENGTH, &where), UCS_OK);
    ck_assert_uint_ne(where.sys_dev, UCS_SYS_DEVICE_ID_UNKNOWN);
    ck_assert_int_eq(gpu->mem_free(memory), 0);
    uct_md_close(md);
}

START_TEST(ucx_own_support_recognises_memory_where_it_is_used)
{
    const uint64_t rocm = UCS_BIT(UCS_MEMORY_TYPE_ROCM);

    uct_component_register(&rocm_component);
    claims(1, 0, 0);
    claims(0, rocm, rocm); /* it is there, and finds no device */
    setenv("UCX_TLS", "mori_xgmi,mori_copy,tcp", 1);
    claims(1, rocm, rocm); /* no other component may */
    setenv("UCX_TLS", "mori_xgmi,rocm_copy,tcp", 1);
    claims(1, 0, 0);
    uct_component_unregister(&rocm_component);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_md");
    TCase *tcase = tcase_create("xgmi_md");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    tcase_add_test(tcase, ucx_own_support_recognises_memory_where_it_is_used);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
