/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "xgmi/copy/xgmi_code.h"
#include "xgmi/copy/xgmi_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A bundle: magic, count, then offset, size, length of the target's name, name. */
typedef struct code_object {
    uint64_t offset;
    uint64_t size;
    uint64_t name_length;
} code_object_t;

/* The object of an architecture, or NULL. */
static const char *find_object(const char *arch, size_t *size_p)
{
    const char *image = muct_xgmi_code_image();
    const char *place = image + 32;
    code_object_t object;
    char target[64];
    uint64_t count, i;

    memcpy(&count, image + 24, sizeof(count));
    for (i = 0; i < count; ++i) {
        memcpy(&object, place, sizeof(object));
        snprintf(target, sizeof(target), "%.*s", (int)object.name_length,
                 place + sizeof(object));
        place += sizeof(object) + object.name_length;
        if (strstr(target, arch) != NULL) {
            *size_p = object.size;
            return image + object.offset;
        }
    }
    return NULL;
}

static int contains(const char *data, size_t size, const char *text)
{
    size_t length = strlen(text);
    size_t i;

    for (i = 0; i + length <= size; ++i) {
        if (memcmp(data + i, text, length) == 0) {
            return 1;
        }
    }
    return 0;
}

#ifdef HAVE_KERNEL_CODE
/* Architectures that the log offers when a device has no code. */
START_TEST(architectures_have_their_code)
{
    char archs[128], *arch, *rest;
    unsigned count = 0;
    size_t size;

    snprintf(archs, sizeof(archs), "%s", muct_xgmi_code_archs());
    for (arch = strtok_r(archs, " ", &rest); arch != NULL;
         arch = strtok_r(NULL, " ", &rest)) {
        ck_assert_msg(find_object(arch, &size) != NULL, "no code for %s", arch);
        ++count;
    }
    ck_assert_uint_ge(count, 4);
}
END_TEST
#endif

START_TEST(the_image_is_a_bundle)
{
    ck_assert(memcmp(muct_xgmi_code_image(), "__CLANG_OFFLOAD_BUNDLE__", 24) == 0);
}
END_TEST

#ifdef HAVE_KERNEL_CODE
START_TEST(every_architecture_has_the_kernel)
{
    static const char *const archs[] = {"gfx90a", "gfx942", "gfx950", "gfx1100"};
    size_t size;
    const char *object = find_object(archs[_i], &size);

    ck_assert(!muct_xgmi_code_is_empty());
    ck_assert_ptr_nonnull(object);
    ck_assert(memcmp(object, "\177ELF", 4) == 0);
    ck_assert(contains(object, size, MUCT_XGMI_KERNEL_NAME ".kd"));
}
END_TEST
#else
START_TEST(without_a_compiler_the_bundle_is_empty)
{
    size_t size = 0;

    ck_assert(muct_xgmi_code_is_empty());
    ck_assert_ptr_null(find_object("gfx942", &size));
    ck_assert(!contains("", size, MUCT_XGMI_KERNEL_NAME));
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("xgmi_code");
    TCase *tcase = tcase_create("code");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, the_image_is_a_bundle);
#ifdef HAVE_KERNEL_CODE
    tcase_add_loop_test(tcase, every_architecture_has_the_kernel, 0, 4);
    tcase_add_test(tcase, architectures_have_their_code);
#else
    tcase_add_test(tcase, without_a_compiler_the_bundle_is_empty);
#endif
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
