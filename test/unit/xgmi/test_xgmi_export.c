/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/muct_lock.h"
#include "test/fake/hip/hipcpu.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "test/support/xgmi_owner.h"
#include "xgmi/memory/xgmi_export.h"

#include <ucs/debug/log_def.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 65536
#define NUM_PIECES 100

static const muct_gpu_t *gpu;
static char *memory;

static unsigned long num_exports(void)
{
    return fake_hip_calls("hipIpcGetMemHandle");
}

static void setup(void)
{
    gpu = xgmi_owner_gpu();
    ck_assert_int_eq(gpu->mem_alloc((void **)&memory, LENGTH), 0);
}

static void teardown(void)
{
    ck_assert_int_eq(gpu->mem_free(memory), 0);
}

/* The pieces of an allocation, each requested twice: registrations, and messages. */
static void export_pieces(muct_xgmi_export_t *exports)
{
    unsigned i;

    for (i = 0; i < 2 * NUM_PIECES; ++i) {
        ck_assert_int_eq(
            muct_xgmi_export_get(gpu, (uintptr_t)memory + ((i % NUM_PIECES) * 500),
                                 &exports[i % NUM_PIECES]),
            UCS_OK);
    }
}

START_TEST(an_allocation_is_exported_once)
{
    muct_xgmi_export_t exports[NUM_PIECES] = {{0}};
    unsigned i;

    export_pieces(exports);
    ck_assert_uint_eq(num_exports(), 1);
    for (i = 0; i < NUM_PIECES; ++i) {
        ck_assert_uint_eq(exports[i].base, (uintptr_t)memory);
        ck_assert_uint_eq(exports[i].length, LENGTH);
        ck_assert_mem_eq(exports[i].handle, exports[0].handle, MUCT_XGMI_HANDLE_SIZE);
    }
}
END_TEST

START_TEST(memory_allocated_again_is_exported_again)
{
    muct_xgmi_export_t export = {0}, again;
    char *old = memory;

    ck_assert_int_eq(muct_xgmi_export_get(gpu, (uintptr_t)memory, &export), UCS_OK);
    again = export;
    ck_assert_int_eq(gpu->mem_free(memory), 0);
    ck_assert_int_eq(gpu->mem_alloc((void **)&memory, LENGTH), 0);
    ck_assert_ptr_eq(memory, old);
    ck_assert_int_eq(muct_xgmi_export_get(gpu, (uintptr_t)memory, &again), UCS_OK);
    ck_assert_uint_eq(num_exports(), 2);
    ck_assert_uint_ne(again.buffer_id, export.buffer_id);
}
END_TEST

/* The runtime then cannot show whether it is the same memory. */
START_TEST(without_buffer_ids_each_call_exports)
{
    muct_xgmi_export_t exports[NUM_PIECES] = {{0}};

    fake_hip_fail("hipPointerGetAttribute", 0, 1);
    export_pieces(exports);
    ck_assert_uint_eq(num_exports(), 2 * NUM_PIECES);
}
END_TEST

static char warning[1024];
static unsigned num_warnings;

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t keep_warning(
    const char *file, unsigned number, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list args)
{
    (void)file, (void)number, (void)function, (void)component;
    if (level <= UCS_LOG_LEVEL_WARN) {
        vsnprintf(warning, sizeof(warning), format, args);
        ++num_warnings;
    }
    return UCS_LOG_FUNC_RC_STOP;
}

/* Three calls a key, one warning a process, and the next key tries again. */
START_TEST(memory_that_cannot_be_exported_is_tried_again)
{
    muct_xgmi_export_t export = {0};
    unsigned i;

    setenv("HSA_ENABLE_IPC_MODE_LEGACY", "1", 1);
    ucs_log_push_handler(keep_warning);
    for (i = 1; i <= 6; ++i) {
        fake_hip_fail("hipIpcGetMemHandle", 1, 1);
    }
    for (i = 1; i <= 2; ++i) {
        ck_assert_int_eq(muct_xgmi_export_get(gpu, (uintptr_t)memory, &export),
                         UCS_ERR_UNSUPPORTED);
        ck_assert_uint_eq(num_exports(), 3 * i);
    }
    ucs_log_pop_handler();
    ck_assert_uint_eq(num_warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, "hipErrorInvalidValue"));
    ck_assert_ptr_nonnull(
        strstr(warning, "HSA_ENABLE_IPC_MODE_LEGACY=1 is set: unset it"));

    ck_assert_int_eq(muct_xgmi_export_get(gpu, (uintptr_t)&export, &export),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(muct_xgmi_export_get(gpu, (uintptr_t)memory, &export), UCS_OK);
}
END_TEST

START_TEST(export_that_fails_once_is_repeated)
{
    muct_xgmi_export_t export = {0};

    fake_hip_fail("hipIpcGetMemHandle", 1, 1);
    ck_assert_int_eq(muct_xgmi_export_get(gpu, (uintptr_t)memory, &export), UCS_OK);
    ck_assert_uint_eq(num_exports(), 2);
}
END_TEST

static pthread_barrier_t exporting;

static int export_for_long(muct_hip_ipc_mem_handle_t *handle, void *ptr)
{
    pthread_barrier_wait(&exporting);
    pthread_barrier_wait(&exporting);
    return gpu->ipc_get_mem_handle(handle, ptr);
}

static void *export_slowly(void *arg)
{
    muct_gpu_t slow = *gpu;
    muct_xgmi_export_t export = {0};

    slow.ipc_get_mem_handle = export_for_long;
    return (void *)(intptr_t)muct_xgmi_export_get(&slow, (uintptr_t)arg, &export);
}

START_TEST(long_exports_delay_no_memory_that_is_exported_already)
{
    muct_xgmi_export_t export = {0}, again = {0};
    pthread_t thread;
    void *other, *status;

    ck_assert_int_eq(muct_xgmi_export_get(gpu, (uintptr_t)memory, &export), UCS_OK);
    ck_assert_int_eq(gpu->mem_alloc(&other, LENGTH), 0);
    ck_assert_int_eq(pthread_barrier_init(&exporting, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, export_slowly, other), 0);
    pthread_barrier_wait(&exporting);
    ck_assert_int_eq(muct_xgmi_export_get(gpu, (uintptr_t)memory, &again), UCS_OK);
    ck_assert_mem_eq(again.handle, export.handle, MUCT_XGMI_HANDLE_SIZE);
    pthread_barrier_wait(&exporting);
    ck_assert_int_eq(pthread_join(thread, &status), 0);
    ck_assert_int_eq((intptr_t)status, UCS_OK);
    ck_assert_uint_eq(num_exports(), 2);
    pthread_barrier_destroy(&exporting);
    ck_assert_int_eq(gpu->mem_free(other), 0);
}
END_TEST

/* The thread that exports is not in the child; a child that waits for it is killed */
START_TEST(a_child_forked_during_an_export_exports)
{
    muct_xgmi_export_t export = {0};
    pthread_t thread;
    int status;
    pid_t child;

    muct_lock_watch_forks();
    ck_assert_int_eq(pthread_barrier_init(&exporting, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, export_slowly, memory), 0);
    pthread_barrier_wait(&exporting);
    child = fork();
    if (child == 0) {
        (void)alarm(60);
        _exit(muct_xgmi_export_get(gpu, (uintptr_t)memory, &export) != UCS_OK);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    pthread_barrier_wait(&exporting);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&exporting);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_export");
    TCase *tcase = tcase_create("export");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, an_allocation_is_exported_once);
    tcase_add_test(tcase, memory_allocated_again_is_exported_again);
    tcase_add_test(tcase, without_buffer_ids_each_call_exports);
    tcase_add_test(tcase, memory_that_cannot_be_exported_is_tried_again);
    tcase_add_test(tcase, export_that_fails_once_is_repeated);
    tcase_add_test(tcase, long_exports_delay_no_memory_that_is_exported_already);
    tcase_add_test(tcase, a_child_forked_during_an_export_exports);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
