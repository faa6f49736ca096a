/* SPDX-License-Identifier: BSD-3-Clause */

/* Mappings of a peer's memory, and the thread that closes them. */

#include "config.h"

#include "test/fake/hip/hipcpu.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "test/support/xgmi_owner.h"
#include "xgmi/memory/xgmi_closer.h"
#include "xgmi/memory/xgmi_mapping.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH 8192
#define NUM_KEYS 3
#define LIMIT_S 300

static char dir[] = "/tmp/test_xgmi_mapping.XXXXXX";
static const muct_gpu_t *gpu;
static muct_xgmi_self_t self;
static xgmi_owner_t owner;
static muct_xgmi_peer_t *peer;
static muct_xgmi_key_t keys[NUM_KEYS];


static void setup(void)
{
    unsigned i;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    xgmi_owner_start(&owner, dir);
    for (i = 0; i < NUM_KEYS; ++i) {
        xgmi_owner_alloc(&owner, LENGTH, &keys[i]);
    }
    gpu = xgmi_owner_gpu();
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_peer_get(keys[0].owner, &peer), UCS_OK);
}

static void teardown(void)
{
    char command[64];

    muct_xgmi_peer_put(peer);
    muct_xgmi_self_close();
    xgmi_owner_kill(&owner);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static size_t num_mappings(void)
{
    return fake_hip_live(HIPCPU_MAPPINGS);
}

static ucs_status_t open_key(unsigned i, int device, muct_xgmi_mapping_t *mapping)
{
    memset(mapping, 0, sizeof(*mapping));
    return muct_xgmi_mapping_open(gpu, peer, &keys[i], device, mapping);
}

static void expect_device(int expected)
{
    int device = -1;

    ck_assert_int_eq(gpu->get_device(&device), 0);
    ck_assert_int_eq(device, expected);
}

START_TEST(mapping_opens_and_closes_on_the_named_device)
{
    muct_xgmi_mapping_t mapping;

    ck_assert_int_eq(open_key(0, 1, &mapping), UCS_OK);
    ck_assert(!mapping.is_self);
    ck_assert_uint_eq(num_mappings(), 1);
    expect_device(0);
    muct_xgmi_mapping_close(gpu, 1, &mapping);
    ck_assert_uint_eq(num_mappings(), 0);
    expect_device(0);
}
END_TEST

START_TEST(errors_of_the_runtime_are_mapped)
{
    static const struct {
        int error;
        ucs_status_t status;
    } cases[] = {{MUCT_HIP_OUT_OF_MEMORY, UCS_ERR_NO_MEMORY},
                 {MUCT_HIP_ALREADY_MAPPED, UCS_ERR_BUSY},
                 {MUCT_HIP_INVALID_CONTEXT, UCS_ERR_UNSUPPORTED},
                 {MUCT_HIP_PEER_UNSUPPORTED, UCS_ERR_UNSUPPORTED},
                 {MUCT_HIP_INVALID_VALUE, UCS_ERR_IO_ERROR}};
    muct_xgmi_mapping_t mapping;

    fake_hip_fail("hipIpcOpenMemHandle", 1, cases[_i].error);
    ck_assert_int_eq(open_key(0, 0, &mapping), cases[_i].status);
    ck_assert_ptr_nonnull(mapping.error);
    ck_assert_uint_eq(num_mappings(), 0);
    expect_device(0);
}
END_TEST

/* The key was invalidated: another try cannot succeed, so it is no I/O error. */
START_TEST(failure_under_a_void_key_is_unreachable)
{
    muct_xgmi_mapping_t mapping;

    ck_assert_int_eq(xgmi_owner_invalidate(&owner, &keys[0], LIMIT_S * 1000), UCS_OK);
    fake_hip_fail("hipIpcOpenMemHandle", 1, MUCT_HIP_INVALID_VALUE);
    ck_assert_int_eq(open_key(0, 0, &mapping), UCS_ERR_UNREACHABLE);
}
END_TEST

START_TEST(mapping_of_a_dead_peer_calls_no_runtime)
{
    muct_xgmi_mapping_t mapping;
    unsigned long calls = fake_hip_calls("hipIpcOpenMemHandle");

    kill(owner.pid, SIGKILL);
    while (muct_xgmi_peer_is_alive(peer)) {
        sched_yield();
    }
    ck_assert_int_eq(open_key(0, 0, &mapping), UCS_ERR_UNREACHABLE);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), calls);
}
END_TEST

/* A mapping shorter than the exported allocation is other memory. */
START_TEST(shorter_memory_is_closed_and_not_used)
{
    muct_xgmi_mapping_t mapping;

    keys[0].alloc_length = 64 * LENGTH;
    ck_assert_int_eq(open_key(0, 0, &mapping), UCS_ERR_IO_ERROR);
    ck_assert_str_eq(mapping.error, "other memory was mapped");
    ck_assert_uint_eq(num_mappings(), 0);
}
END_TEST

static muct_xgmi_key_t own_key(muct_xgmi_peer_t **own_p)
{
    muct_xgmi_key_t key = {.kind = MUCT_XGMI_KEY_REMOTE,
                           .owner = self.owner,
                           .base = 4096,
                           .alloc_length = LENGTH};

    ck_assert_int_eq(muct_xgmi_peer_get(self.owner, own_p), UCS_OK);
    return key;
}

START_TEST(only_own_memory_of_the_device_needs_no_call)
{
    muct_xgmi_mapping_t mapping = {.address = NULL};
    muct_xgmi_peer_t *own;
    muct_xgmi_key_t key = own_key(&own);

    ck_assert(!muct_xgmi_mapping_is_there(peer, &keys[0], 0, &mapping));
    ck_assert(!muct_xgmi_mapping_is_there(own, &key, 1, &mapping));
    key.kind = MUCT_XGMI_KEY_FILE;
    ck_assert(!muct_xgmi_mapping_is_there(own, &key, 0, &mapping));
    ck_assert_ptr_null(mapping.address);
    key.kind = MUCT_XGMI_KEY_REMOTE;
    ck_assert(muct_xgmi_mapping_is_there(own, &key, 0, &mapping));
    ck_assert(mapping.is_self);
    ck_assert_ptr_eq(mapping.address, (void *)4096);
    muct_xgmi_peer_put(own);
}
END_TEST

/* hipDeviceEnablePeerAccess() fails when the application has called it before. The
 * runtime reports no access of a device to itself: that is the last case. */
START_TEST(own_memory_of_another_device_needs_peer_access)
{
    static const struct {
        const char *function;
        int error, device;
        ucs_status_t status;
    } cases[] = {
        {"hipDeviceCanAccessPeer", MUCT_HIP_INVALID_VALUE, 0, UCS_ERR_UNSUPPORTED},
        {"hipDeviceEnablePeerAccess", MUCT_HIP_OUT_OF_MEMORY, 0, UCS_ERR_UNREACHABLE},
        {"hipDeviceEnablePeerAccess", MUCT_HIP_PEER_ALREADY_ENABLED, 0, UCS_OK},
        {NULL, 0, 1, UCS_ERR_UNSUPPORTED}};
    muct_xgmi_mapping_t mapping = {.address = NULL};
    muct_xgmi_peer_t *own;
    muct_xgmi_key_t key = own_key(&own);

    if (cases[_i].function != NULL) {
        fake_hip_fail(cases[_i].function, 1, cases[_i].error);
    }
    key.device = cases[_i].device;
    ck_assert_int_eq(muct_xgmi_mapping_open(gpu, own, &key, 1, &mapping),
                     cases[_i].status);
    ck_assert_int_eq(gpu->get_last_error(), 0);
    expect_device(0);
    muct_xgmi_peer_put(own);
}
END_TEST

static muct_xgmi_closer_t *closer_with_mappings(unsigned count)
{
    muct_xgmi_mapping_t mapping;
    muct_xgmi_closer_t *closer;
    unsigned i;

    ck_assert_int_eq(muct_xgmi_closer_create(gpu, &closer), UCS_OK);
    for (i = 0; i < count; ++i) {
        ck_assert_int_eq(open_key(i, 0, &mapping), UCS_OK);
        muct_xgmi_closer_add(closer, 0, &mapping);
    }
    return closer;
}

START_TEST(closer_closes_all_and_waits)
{
    muct_xgmi_closer_t *closer = closer_with_mappings(NUM_KEYS);

    ck_assert(muct_xgmi_closer_wait(closer, LIMIT_S * 1000));
    ck_assert_uint_eq(num_mappings(), 0);
    ck_assert(muct_xgmi_closer_wait(closer, 0));
    muct_xgmi_closer_destroy(closer, LIMIT_S * 1000);
}
END_TEST

/* Blocked signals of the thread of this name; 0: there is none. */
static unsigned long blocked_by(const char *name)
{
    char path[288], line[128];
    unsigned long blocked = 0, found = 0;
    bool is_it;
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    FILE *file;

    ck_assert_ptr_nonnull(tasks);
    while ((entry = readdir(tasks)) != NULL) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        file = fopen(path, "r");
        is_it = false;
        while ((file != NULL) && (fgets(line, sizeof(line), file) != NULL)) {
            is_it |= (strncmp(line, "Name:", 5) == 0) && (strstr(line, name) != NULL);
            if (sscanf(line, "SigBlk: %lx", &blocked) == 1) {
                found = is_it ? blocked : found;
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(tasks);
    return found;
}

START_TEST(signals_of_the_application_do_not_reach_the_closer)
{
    muct_xgmi_closer_t *closer = closer_with_mappings(1);
    sigset_t before;

    ck_assert(muct_xgmi_closer_wait(closer, LIMIT_S * 1000)); /* its thread has begun */
    ck_assert_uint_ne(blocked_by("mori-closer") & (1ul << (SIGUSR1 - 1)), 0);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    ck_assert_int_eq(sigismember(&before, SIGUSR1), 0); /* this thread takes them */
    muct_xgmi_closer_destroy(closer, LIMIT_S * 1000);
}
END_TEST

START_TEST(destruction_closes_what_is_left)
{
    muct_xgmi_closer_destroy(closer_with_mappings(NUM_KEYS), LIMIT_S * 1000);
    ck_assert_uint_eq(num_mappings(), 0);
    muct_xgmi_closer_destroy(closer_with_mappings(0), LIMIT_S * 1000);
}
END_TEST

/* The rule lets hipIpcCloseMemHandle() wait for the work of all streams. */
START_TEST(closer_is_given_up_while_a_stream_works)
{
    muct_xgmi_closer_t *closer;
    void *stream, *from, *to;

    fake_hip_set_rule("close-waits", true);
    ck_assert_int_eq(gpu->stream_create_with_priority(&stream, 1, 0), 0);
    ck_assert_int_eq(gpu->mem_alloc(&from, LENGTH), 0);
    ck_assert_int_eq(gpu->mem_alloc(&to, LENGTH), 0);
    fake_hip_hold("hipcpu_hold", stream);
    ck_assert_int_eq(gpu->memcpy_async(to, from, LENGTH, 4, stream), 0);

    closer = closer_with_mappings(NUM_KEYS);
    ck_assert(!muct_xgmi_closer_wait(closer, 1));
    muct_xgmi_closer_destroy(closer, 1);
    ck_assert_uint_eq(num_mappings(), NUM_KEYS);

    fake_hip_hold("hipcpu_release", stream);
    while (num_mappings() > 0) {
        sched_yield();
    }
    ck_assert_int_eq(gpu->stream_destroy(stream), 0);
    ck_assert_int_eq(gpu->mem_free(from), 0);
    ck_assert_int_eq(gpu->mem_free(to), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_mapping");
    TCase *tcase = tcase_create("mapping");

    setenv("HIPCPU_DEVICES", "2", 1);
    setenv("HIPCPU_VERSION", "7.0", 1);
    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, mapping_opens_and_closes_on_the_named_device);
    tcase_add_loop_test(tcase, errors_of_the_runtime_are_mapped, 0, 5);
    tcase_add_test(tcase, failure_under_a_void_key_is_unreachable);
    tcase_add_test(tcase, mapping_of_a_dead_peer_calls_no_runtime);
    tcase_add_test(tcase, shorter_memory_is_closed_and_not_used);
    tcase_add_test(tcase, only_own_memory_of_the_device_needs_no_call);
    tcase_add_loop_test(tcase, own_memory_of_another_device_needs_peer_access, 0, 4);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("closer");
    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, closer_closes_all_and_waits);
    tcase_add_test(tcase, signals_of_the_application_do_not_reach_the_closer);
    tcase_add_test(tcase, destruction_closes_what_is_left);
    tcase_add_test(tcase, closer_is_given_up_while_a_stream_works);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
