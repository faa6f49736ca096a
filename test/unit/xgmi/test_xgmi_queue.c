/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "test/support/xgmi_owner.h"
#include "xgmi/copy/xgmi_batch.h"
#include "xgmi/copy/xgmi_queue_arm.h"
#include "xgmi/copy/xgmi_queue_streams.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#define LIST_SIZE 64
#define NUM_LISTS 3
#define LENGTH (1u << 20)
#define MIN_RUN (64u << 10)
#define LIMIT_S 300

static char dir[] = "/tmp/test_xgmi_queue.XXXXXX";
static const muct_gpu_t *gpu;
static muct_xgmi_queue_config_t config;
static muct_xgmi_map_t *map;
static muct_xgmi_wake_t *wake;
static muct_xgmi_queue_t *queue;
static muct_xgmi_rkey_t rkey;
static unsigned char *local, *remote;
static unsigned num_done;
static ucs_status_t last_status;
static char owner;

static void setup(void)
{
    const muct_xgmi_map_config_t map_config = {16, SIZE_MAX, 1000};
    muct_xgmi_self_t self;
    unsigned i;

    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    gpu = xgmi_owner_gpu();
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_map_create(gpu, &map_config, &map), UCS_OK);
    ck_assert_int_eq(muct_xgmi_wake_create(&wake), UCS_OK);
    ck_assert_int_eq(gpu->mem_alloc((void **)&local, LENGTH), 0);
    ck_assert_int_eq(gpu->mem_alloc((void **)&remote, LENGTH), 0);
    for (i = 0; i < LENGTH; ++i) {
        local[i] = (unsigned char)(i * 7 + (i >> 8));
    }
    memset(remote, 0, LENGTH);

    memset(&rkey, 0, sizeof(rkey));
    rkey.uid = 1;
    rkey.key.kind = MUCT_XGMI_KEY_REMOTE;
    rkey.key.owner = self.owner;
    rkey.key.address = (uintptr_t)remote;
    rkey.key.length = LENGTH;
    rkey.key.base = (uintptr_t)remote;
    rkey.key.alloc_length = LENGTH;
    ck_assert_int_eq(muct_xgmi_slot_alloc(&rkey.key.slot, &rkey.key.generation),
                     UCS_OK);
    ck_assert_int_eq(muct_xgmi_peer_get(self.owner, &rkey.peer), UCS_OK);

    config = (muct_xgmi_queue_config_t){.num_lists = NUM_LISTS,
                                        .list_size = LIST_SIZE,
                                        .max_started = 2,
                                        .max_calls = 2,
                                        .max_blocks = 8,
                                        .num_launch_streams = 2,
                                        .late_ms = 30000,
                                        .num_engines = 2,
                                        .min_run = MIN_RUN,
                                        .has_kernel = 1};
    ck_assert_int_eq(muct_xgmi_queue_create(gpu, map, wake, &config, 0, &queue),
                     UCS_OK);
    num_done = 0;
}

/* Each launch is over when its call returns: nothing but the rules makes lists wait. */
static void setup_inline(void)
{
    setenv("HIPCPU_INLINE", "1", 1);
    setup();
}

static void teardown(void)
{
    char command[64];
    void (*reset)(void);
    void *symbol = fake_hip_symbol("hipcpu_reset");

    memcpy(&reset, &symbol, sizeof(reset));
    reset();
    muct_xgmi_queue_destroy(queue, UCS_ERR_CANCELED);
    muct_xgmi_wake_put(wake);
    muct_xgmi_peer_put(rkey.peer);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 1);
    muct_xgmi_map_destroy(map);
    gpu->mem_free(local);
    gpu->mem_free(remote);
    muct_xgmi_self_close();
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static void done(muct_xgmi_op_t *op, ucs_status_t status)
{
    ck_assert(op->owner == NULL || op->owner == &owner);
    last_status = (op->owner == NULL) ? UCS_ERR_CANCELED : status;
    ++num_done;
}

static ucs_status_t put(size_t offset, size_t length)
{
    const muct_xgmi_window_t *window;
    ucs_status_t status;

    status = muct_xgmi_queue_reserve(queue, 1);
    if (status != UCS_OK) {
        return status;
    }
    status = muct_xgmi_queue_find(queue, &rkey, &window);
    if (status != UCS_OK) {
        return status;
    }
    muct_xgmi_queue_set_operands(queue, local, rkey.uid);
    muct_xgmi_queue_add(queue, (uintptr_t)remote + offset + window->delta,
                        (uintptr_t)local + offset, length);
    muct_xgmi_queue_commit(queue, done, &owner, NULL);
    return UCS_OK;
}

static void finish(unsigned count)
{
    while (num_done < count) {
        (void)muct_xgmi_queue_poll(queue);
        muct_xgmi_queue_kick(queue);
    }
    ck_assert_uint_eq(num_done, count);
}

/* Poll so often that the runtime is queried, too; @return how many batches ended. A
 * single assertion covers all, as Check writes each of them to a file. */
static unsigned poll_for_long(void)
{
    unsigned count = 0;
    unsigned i;

    for (i = 0; i < 200000; ++i) {
        count += muct_xgmi_queue_poll(queue);
    }
    return count;
}

START_TEST(pieces_between_two_progress_calls_are_one_launch)
{
    unsigned long launches = fake_hip_calls("hipModuleLaunchKernel");
    unsigned long copies = fake_hip_calls("hipMemcpyAsync");
    unsigned i;

    for (i = 0; i < LIST_SIZE; ++i) {
        ck_assert_int_eq(put(i * 1000, 500), UCS_OK);
    }
    ck_assert_uint_eq(num_done, 0);
    finish(LIST_SIZE);
    ck_assert_uint_eq(fake_hip_calls("hipModuleLaunchKernel"), launches + 1);
    ck_assert_uint_eq(fake_hip_calls("hipMemcpyAsync"), copies);
    for (i = 0; i < LIST_SIZE; ++i) {
        ck_assert_mem_eq(remote + (i * 1000), local + (i * 1000), 500);
        ck_assert_uint_eq(remote[(i * 1000) + 500], 0);
    }
}
END_TEST

START_TEST(few_pieces_are_copy_calls)
{
    unsigned long launches = fake_hip_calls("hipModuleLaunchKernel");
    unsigned long copies = fake_hip_calls("hipMemcpyAsync");

    ck_assert_int_eq(put(0, 100), UCS_OK);
    ck_assert_int_eq(put(5000, 100), UCS_OK);
    finish(2);
    ck_assert_uint_eq(fake_hip_calls("hipModuleLaunchKernel"), launches);
    ck_assert_uint_eq(fake_hip_calls("hipMemcpyAsync"), copies + 2);
    ck_assert_mem_eq(remote + 5000, local + 5000, 100);
}
END_TEST

START_TEST(neighbours_are_one_piece)
{
    unsigned long copies = fake_hip_calls("hipMemcpyAsync");
    unsigned i;

    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(put(i * 100, 100), UCS_OK);
    }
    finish(10);
    ck_assert_uint_eq(fake_hip_calls("hipMemcpyAsync"), copies + 1);
    ck_assert_mem_eq(remote, local, 1000);
}
END_TEST

START_TEST(long_run_goes_to_the_copy_engines)
{
    unsigned long copies = fake_hip_calls("hipMemcpyAsync");
    unsigned i;

    ck_assert_int_eq(put(0, MIN_RUN + 1), UCS_OK);
    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(put((MIN_RUN * 2) + (i * 1000), 10), UCS_OK);
    }
    finish(11);
    ck_assert_uint_eq(fake_hip_calls("hipMemcpyAsync"), copies + 1);
    ck_assert_mem_eq(remote, local, MIN_RUN + 1);
    ck_assert_uint_eq(remote[MIN_RUN + 1], 0);
}
END_TEST

START_TEST(engines_are_made_with_the_first_long_run)
{
    unsigned long streams = fake_hip_calls("hipStreamCreateWithPriority");

    ck_assert_uint_eq(queue->num_streams, queue->num_launch_streams);
    ck_assert_int_eq(put(0, MIN_RUN - 1), UCS_OK);
    finish(1);
    ck_assert_uint_eq(fake_hip_calls("hipStreamCreateWithPriority"), streams);
    ck_assert_int_eq(put(0, MIN_RUN), UCS_OK);
    finish(2);
    ck_assert_int_eq(put(0, MIN_RUN), UCS_OK);
    finish(3);
    ck_assert_uint_eq(fake_hip_calls("hipStreamCreateWithPriority"), streams + 2);
}
END_TEST

START_TEST(device_without_engines_copies_long_runs)
{
    unsigned long streams = fake_hip_calls("hipStreamCreateWithPriority");
    unsigned i;

    fake_hip_fail("hipStreamCreateWithPriority", 1, 2);
    for (i = 0; i < 2; ++i) {
        memset(remote, 0, MIN_RUN + 2);
        ck_assert_int_eq(put(1, MIN_RUN), UCS_OK);
        finish(i + 1);
        ck_assert_int_eq(last_status, UCS_OK);
        ck_assert_uint_eq(remote[0], 0);
        ck_assert_mem_eq(remote + 1, local + 1, MIN_RUN);
        ck_assert_uint_eq(remote[MIN_RUN + 1], 0);
    }
    ck_assert_uint_eq(fake_hip_calls("hipStreamCreateWithPriority"), streams + 1);
}
END_TEST

START_TEST(full_queue_refuses_and_recovers)
{
    unsigned added = 0;

    fake_hip_hold("hipcpu_hold", NULL);
    while (put((added % 1000) * 1000, 10) == UCS_OK) {
        ck_assert_uint_le(++added, NUM_LISTS * LIST_SIZE);
    }
    ck_assert_uint_eq(added, NUM_LISTS * LIST_SIZE);
    ck_assert_int_eq(put(0, 10), UCS_ERR_NO_RESOURCE);
    fake_hip_hold("hipcpu_release", NULL);
    finish(added);
    ck_assert_int_eq(put(0, 10), UCS_OK);
    finish(added + 1);
}
END_TEST

static unsigned num_late;

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t count_late(
    const char *file, unsigned number, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list args)
{
    char text[512];

    (void)file, (void)number, (void)function, (void)component;
    vsnprintf(text, sizeof(text), format, args);
    num_late +=
        (level == UCS_LOG_LEVEL_WARN) && (strstr(text, "have not ended") != NULL);
    return UCS_LOG_FUNC_RC_STOP;
}

static void poll_some(void)
{
    unsigned i;

    for (i = 0; i < 10000; ++i) {
        (void)muct_xgmi_queue_poll(queue);
    }
}

/* Each batch that is late is reported once; with a limit of an hour none is. */
START_TEST(copies_that_do_not_end_are_reported)
{
    unsigned round;

    ucs_log_push_handler(count_late);
    for (round = 0; round < 3; ++round) {
        config.late_ms = (round < 2) ? 0 : 3600 * 1000;
        num_late = 0;
        fake_hip_hold("hipcpu_hold", NULL);
        ck_assert_int_eq(put(0, 10), UCS_OK);
        muct_xgmi_queue_kick(queue);
        poll_some();
        ck_assert_uint_eq(num_late, round < 2);
        fake_hip_hold("hipcpu_release", NULL);
        finish(round + 1);
    }
    ucs_log_pop_handler();
}
END_TEST

START_TEST(more_is_gathered_while_enough_runs)
{
    unsigned long launches;
    unsigned i;

    fake_hip_hold("hipcpu_hold", NULL);
    for (i = 0; i < 2; ++i) { /* max_started */
        ck_assert_int_eq(put(i * 1000, 10), UCS_OK);
        muct_xgmi_queue_kick(queue);
    }
    launches = fake_hip_calls("hipModuleLaunchKernel");
    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(put(i * 1000, 10), UCS_OK);
        muct_xgmi_queue_kick(queue);
    }
    ck_assert_uint_eq(fake_hip_calls("hipModuleLaunchKernel"), launches);
    fake_hip_hold("hipcpu_release", NULL);
    finish(12);
    ck_assert_uint_eq(fake_hip_calls("hipModuleLaunchKernel"), launches + 1);
}
END_TEST

START_TEST(rolled_back_pieces_are_not_copied)
{
    const muct_xgmi_window_t *window;
    muct_xgmi_mark_t mark;
    unsigned i;

    ck_assert_int_eq(put(0, 10), UCS_OK);
    muct_xgmi_queue_mark(queue, &mark);
    ck_assert_int_eq(muct_xgmi_queue_find(queue, &rkey, &window), UCS_OK);
    muct_xgmi_queue_add(queue, (uintptr_t)remote + 10, (uintptr_t)local + 10, 10);
    for (i = 1; i < 5; ++i) {
        muct_xgmi_queue_add(queue, (uintptr_t)remote + (i * 1000),
                            (uintptr_t)local + (i * 1000), 10);
    }
    muct_xgmi_queue_add(queue, (uintptr_t)remote + MIN_RUN, (uintptr_t)local, MIN_RUN);
    muct_xgmi_queue_rollback(queue, &mark);
    finish(1);
    ck_assert_mem_eq(remote, local, 10);
    ck_assert_uint_eq(remote[10], 0);
    ck_assert_uint_eq(remote[1000], 0);
    ck_assert_uint_eq(remote[MIN_RUN + 1], 0);
}
END_TEST

START_TEST(failing_launch_falls_back_to_calls)
{
    unsigned i;

    fake_hip_fail("hipModuleLaunchKernel", 1, 719);
    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(put(i * 1000, 500), UCS_OK);
    }
    finish(10);
    ck_assert_int_eq(last_status, UCS_OK);
    ck_assert_mem_eq(remote + 9000, local + 9000, 500);
}
END_TEST

START_TEST(failing_call_is_an_error_of_its_batch)
{
    static const char *const functions[] = {"hipMemcpyAsync", "hipEventCreateWithFlags",
                                            "hipEventRecord", "hipEventQuery",
                                            "hipGetDevice"};

    if (strcmp(functions[_i], "hipEventCreateWithFlags") != 0) {
        ck_assert_int_eq(put(0, 10), UCS_OK); /* maps, and creates the event */
        finish(1);
    }
    fake_hip_fail(functions[_i], 1, 999);
    ck_assert_int_eq(put(0, 10), UCS_OK);
    finish(num_done + 1);
    ck_assert_int_eq(last_status, UCS_ERR_IO_ERROR);
    ck_assert_int_eq(put(0, 10), UCS_OK);
    finish(num_done + 1);
    ck_assert_int_eq(last_status, UCS_OK);
}
END_TEST

static void done_one(muct_xgmi_op_t *op, ucs_status_t status)
{
    ucs_status_t *status_p = op->arg;

    ck_assert_int_eq(op->is_refused, status == UCS_ERR_IO_ERROR);
    *status_p = status;
    ++num_done;
}

/* Calls, runs, and neighbours that are one piece. */
START_TEST(refused_copy_fails_its_own_operation)
{
    static const struct {
        size_t offset, length;
    } pieces[][3] = {{{0, 10}, {5000, 10}, {5010, 10}},
                     {{0, MIN_RUN}, {2 * MIN_RUN, MIN_RUN}, {4 * MIN_RUN, MIN_RUN}},
                     {{0, MIN_RUN}, {2 * MIN_RUN, 10}, {2 * MIN_RUN + 10, 10}}};
    static const ucs_status_t expected[][3] = {
        {UCS_OK, UCS_ERR_IO_ERROR, UCS_ERR_IO_ERROR},
        {UCS_OK, UCS_ERR_IO_ERROR, UCS_OK},
        {UCS_OK, UCS_ERR_IO_ERROR, UCS_ERR_IO_ERROR}};
    ucs_status_t statuses[3];
    unsigned i;

    ck_assert_int_eq(put(0, 1), UCS_OK); /* maps */
    finish(1);
    fake_hip_fail("hipMemcpyAsync", 2, 1);
    for (i = 0; i < 3; ++i) {
        ck_assert_int_eq(put(pieces[_i][i].offset, pieces[_i][i].length), UCS_OK);
        queue->next_op[-1].done = done_one;
        queue->next_op[-1].arg = &statuses[i];
    }
    finish(4);
    for (i = 0; i < 3; ++i) {
        ck_assert_int_eq(statuses[i], expected[_i][i]);
        if (statuses[i] == UCS_OK) {
            ck_assert_mem_eq(remote + pieces[_i][i].offset,
                             local + pieces[_i][i].offset, pieces[_i][i].length);
        }
    }
}
END_TEST

START_TEST(device_that_refuses_makes_no_queue)
{
    static const char *const functions[] = {"hipStreamCreateWithPriority",
                                            "hipHostMalloc", "hipGetDevice"};
    muct_xgmi_queue_t *other = NULL;

    fake_hip_fail(functions[_i], 1, 999);
    ck_assert_int_ne(muct_xgmi_queue_create(gpu, map, wake, &config, 0, &other),
                     UCS_OK);
    ck_assert_ptr_null(other);
    ck_assert_int_eq(put(0, 1), UCS_OK); /* teardown counts one region */
    finish(1);
}
END_TEST

START_TEST(device_without_the_kernel_copies_by_calls)
{
    muct_xgmi_queue_t *with_kernel = queue;
    unsigned i;

    fake_hip_fail("hipModuleLoadData", 1, 209);
    ck_assert_int_eq(muct_xgmi_queue_create(gpu, map, wake, &config, 0, &queue),
                     UCS_OK);
    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(put(i * 1000, 500), UCS_OK);
    }
    finish(10);
    ck_assert_mem_eq(remote + 9000, local + 9000, 500);
    muct_xgmi_queue_destroy(with_kernel, UCS_OK);
}
END_TEST

/* A device whose kernel cannot write its caches back: its flag would come first. */
static void setup_without_write_back(void)
{
    setenv("HIPCPU_RULES", "late-caches", 1);
    setenv("HIPCPU_ARCH", "gfx1100", 1);
    setup();
}

START_TEST(launch_without_write_back_ends_by_an_event)
{
    unsigned long launches = fake_hip_calls("hipModuleLaunchKernel");
    unsigned i;

    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(put(i * 1000, 500), UCS_OK);
    }
    finish(10);
    ck_assert_mem_eq(remote + 9000, local + 9000, 500);
    ck_assert_uint_eq(fake_hip_calls("hipModuleLaunchKernel"), launches + 1);
}
END_TEST

/* Calls, a launch and long runs, by a queue that is made meanwhile. The test waits for
 * all so long that the runtime is queried, too. */
START_TEST(capture_of_another_thread_and_copies_leave_each_other_alone)
{
    static const char *const releases[] = {"5.7", "6.1", "6.2", "6.4", "7.0", "7.3"};
    muct_xgmi_queue_t *first;
    fake_hip_capture_t capture;
    unsigned i;

    setenv("HIPCPU_VERSION", releases[_i / 2], 1);
    setenv("HIPCPU_RULES", "amd,-few-queues", 1);
    setup();
    fake_hip_capture_start(&capture);
    first = queue;
    ck_assert_int_eq(muct_xgmi_queue_create(gpu, map, wake, &config, 0, &queue),
                     UCS_OK);
    fake_hip_hold("hipcpu_hold", NULL);
    if (_i % 2 == 0) { /* calls are the head, or the launch is */
        ck_assert_int_eq(put(0, 100), UCS_OK);
        muct_xgmi_queue_start(queue);
    }
    ck_assert_int_eq(put(MIN_RUN, MIN_RUN), UCS_OK);
    for (i = 0; i < 11 + (unsigned)(_i % 2); ++i) {
        ck_assert_int_eq(put((4 * MIN_RUN) + (i * 1000), 500), UCS_OK);
    }
    muct_xgmi_queue_start(queue);
    ck_assert_uint_eq(poll_for_long(), 0);
    fake_hip_hold("hipcpu_release", NULL);
    finish(13);
    ck_assert_int_eq(last_status, UCS_OK);
    ck_assert_mem_eq(remote + MIN_RUN, local + MIN_RUN, MIN_RUN);
    muct_xgmi_queue_destroy(queue, UCS_OK);
    queue = first;
    ck_assert_int_eq(fake_hip_capture_end(&capture), 0);
    teardown();
}
END_TEST

/* Errors of the runtime for an event or a stream that is involved in a capture. */
START_TEST(query_during_a_capture_is_in_progress)
{
    static const int errors[] = {900, 907};

    setenv("HIPCPU_VERSION", (_i < 2) ? "6.4" : "7.0", 1);
    setup();
    fake_hip_hold("hipcpu_hold", NULL);
    ck_assert_int_eq(put(0, 100), UCS_OK);
    muct_xgmi_queue_start(queue);
    fake_hip_fail((_i < 2) ? "hipEventQuery" : "hipStreamQuery", 1, errors[_i % 2]);
    ck_assert_uint_eq(poll_for_long(), 0);
    fake_hip_hold("hipcpu_release", NULL);
    finish(1);
    ck_assert_int_eq(last_status, UCS_OK);
    teardown();
}
END_TEST

/* ROCm 7 keeps an error until the application queries it. */
START_TEST(pending_error_stays_the_applications_own)
{
    int (*peek)(void);
    void *symbol;

    setenv("HIPCPU_VERSION", "7.0", 1);
    setup();
    symbol = fake_hip_symbol("hipPeekAtLastError");
    memcpy(&peek, &symbol, sizeof(peek));
    ck_assert_int_eq(gpu->memcpy_async(local, local, 8, 77, NULL), 21);
    fake_hip_hold("hipcpu_hold", NULL);
    ck_assert_int_eq(put(0, 100), UCS_OK);
    muct_xgmi_queue_start(queue);
    ck_assert_uint_eq(poll_for_long(), 0);
    fake_hip_hold("hipcpu_release", NULL);
    finish(1);
    ck_assert_int_eq(peek(), 21);
    teardown();
}
END_TEST

/* ROCm 6.2 and 6.3 keep the resources of a launch until the stream gets a marker. */
START_TEST(launches_leave_no_more_than_a_bounded_rest)
{
    unsigned i, k;

    setenv("HIPCPU_VERSION", "6.3", 1);
    setenv("HIPCPU_RULES", "amd", 1);
    setup();
    for (i = 1; i <= 500; ++i) {
        for (k = 0; k < 4; ++k) {
            ck_assert_int_eq(put(k * 1000, 500), UCS_OK);
        }
        finish(4 * i);
        ck_assert_uint_le(fake_hip_live(6 /* HIPCPU_COMMANDS */), 64);
    }
    teardown();
}
END_TEST

START_TEST(posting_starts_an_idle_device_early)
{
    unsigned long launches;
    unsigned i;

    config.early_start = 16;
    fake_hip_hold("hipcpu_hold", NULL);
    launches = fake_hip_calls("hipModuleLaunchKernel");
    for (i = 0; i < 15; ++i) {
        ck_assert_int_eq(put(i * 1000, 500), UCS_OK);
    }
    ck_assert_uint_eq(fake_hip_calls("hipModuleLaunchKernel"), launches);
    ck_assert_int_eq(put(i++ * 1000, 500), UCS_OK);
    ck_assert_uint_eq(fake_hip_calls("hipModuleLaunchKernel"), launches + 1);
    for (; i < 16 + 31; ++i) {
        ck_assert_int_eq(put(i * 1000, 500), UCS_OK);
    }
    /* the second one is twice as long */
    ck_assert_uint_eq(fake_hip_calls("hipModuleLaunchKernel"), launches + 1);
    for (; i < 100; ++i) {
        ck_assert_int_eq(put(i * 1000, 500), UCS_OK);
    }
    /* two are enough: the rest is gathered */
    ck_assert_uint_eq(fake_hip_calls("hipModuleLaunchKernel"), launches + 2);
    ck_assert_uint_eq(num_done, 0);
    fake_hip_hold("hipcpu_release", NULL);
    finish(100);
    for (i = 0; i < 100; ++i) {
        ck_assert_mem_eq(remote + (i * 1000), local + (i * 1000), 500);
    }
}
END_TEST

/* A thread that waits for each operation before the next one does not wait for progress
 * to start it. */
START_TEST(posting_starts_what_comes_one_at_a_time)
{
    unsigned long copies;
    unsigned i;

    config.early_start = (unsigned)_i * 1024;
    for (i = 0; i <= MUCT_XGMI_GATHER_ALONE; ++i) {
        copies = fake_hip_calls("hipMemcpyAsync");
        ck_assert_int_eq(put(i * 1000, 500), UCS_OK);
        ck_assert_uint_eq(fake_hip_calls("hipMemcpyAsync") - copies,
                          _i * (i / MUCT_XGMI_GATHER_ALONE));
        finish(i + 1);
    }
}
END_TEST

/* Helper thread that makes progress, one call at a time. */
typedef struct helper {
    pthread_t thread;
    sem_t go, done;
    int is_ending;
} helper_t;

static void *help(void *arg)
{
    helper_t *helper = arg;

    while ((sem_wait(&helper->go) == 0) && !helper->is_ending) {
        (void)muct_xgmi_queue_poll(queue);
        muct_xgmi_queue_kick(queue);
        sem_post(&helper->done);
    }
    return NULL;
}

static void helper_start(helper_t *helper)
{
    helper->is_ending = 0;
    ck_assert_int_eq(sem_init(&helper->go, 0, 0), 0);
    ck_assert_int_eq(sem_init(&helper->done, 0, 0), 0);
    ck_assert_int_eq(pthread_create(&helper->thread, NULL, help, helper), 0);
}

static void helper_progress(helper_t *helper)
{
    sem_post(&helper->go);
    while (sem_wait(&helper->done) != 0) {
    }
}

static void helper_end(helper_t *helper)
{
    helper->is_ending = 1;
    sem_post(&helper->go);
    pthread_join(helper->thread, NULL);
}

static unsigned long starts(void)
{
    return fake_hip_calls("hipModuleLaunchKernel") + fake_hip_calls("hipMemcpyAsync");
}

/* Each call of progress finds new operations, and a device with nothing to do. */
START_TEST(posts_beside_anothers_progress_are_gathered)
{
    muct_xgmi_queue_t *small = queue;
    muct_xgmi_queue_config_t large = config;
    muct_xgmi_marker_t marker = {.op = {.done = done, .owner = &owner}};
    unsigned long before, limit;
    uint64_t start_ns;
    helper_t helper;
    unsigned i;

    large.list_size = 8192;
    large.early_start = 1024;
    ck_assert_int_eq(muct_xgmi_queue_create(gpu, map, wake, &large, 0, &queue), UCS_OK);
    helper_start(&helper);
    before = starts();
    start_ns = muct_xgmi_wake_now_ns();
    for (i = 0; i < 4096; ++i) {
        ck_assert_int_eq(put((i * 251) % LENGTH, 100), UCS_OK);
        if (i % 8 == 7) {
            helper_progress(&helper);
        }
    }
    /* no wait for the row's end: a flush reports it */
    i += (unsigned)muct_xgmi_queue_add_marker(queue, queue->stamp, &marker);
    while (num_done < i) {
        helper_progress(&helper);
    }
    limit = 8 + (muct_xgmi_wake_now_ns() - start_ns) / MUCT_XGMI_GATHER_MAX_NS;
    ck_assert_msg(starts() - before <= limit, "%lu launches and copy calls, not %lu",
                  starts() - before, limit);
    helper_end(&helper);
    muct_xgmi_queue_destroy(queue, UCS_OK);
    queue = small;
}
END_TEST

/* A queue whose lists hold many operations and end when they start. */
static muct_xgmi_queue_t *use_long_lists(unsigned num_lists)
{
    static muct_xgmi_queue_config_t large;
    muct_xgmi_queue_t *small = queue;

    large = config;
    large.num_lists = num_lists;
    large.list_size = 1024;
    ck_assert_int_eq(muct_xgmi_queue_create(gpu, map, wake, &large, 0, &queue), UCS_OK);
    return small;
}

static void use_short_lists(muct_xgmi_queue_t *small)
{
    muct_xgmi_queue_destroy(queue, UCS_OK);
    queue = small;
}

static void start_list(unsigned count)
{
    unsigned i;

    for (i = 0; i < count; ++i) {
        ck_assert_int_eq(put((i * 251) % LENGTH, 100), UCS_OK);
    }
    muct_xgmi_queue_start(queue);
}

/* Its thread was seen to make progress. */
static void finish_own_list(unsigned count)
{
    start_list(count);
    finish(count);
    ck_assert_uint_eq(queue->gather.num_closed, count); /* it was not looked at */
    num_done = 0;
}

START_TEST(long_list_is_left_to_the_thread_that_posted_it)
{
    muct_xgmi_queue_t *small = use_long_lists(8);
    uint64_t now_ns = muct_xgmi_wake_now_ns();
    helper_t helper;

    helper_start(&helper);
    finish_own_list(256);
    start_list(256);
    helper_progress(&helper);
    ck_assert_uint_eq(num_done, 0);
    /* a sleeping thread must look again: the GPU has nothing more to report */
    ck_assert_int_eq(muct_xgmi_queue_arm(queue, now_ns), UCS_OK);
    ck_assert_uint_eq(wake->timer_at_ns, now_ns + MUCT_XGMI_LEAVE_BEHIND_NS);
    ck_assert_int_eq(muct_xgmi_queue_arm(queue, now_ns + 1000000000), UCS_OK);
    ck_assert(!queue->is_notifying);
    (void)muct_xgmi_queue_poll(queue);
    ck_assert_uint_eq(num_done, 256);
    ck_assert(!muct_xgmi_leave_is_on(&queue->leave));

    /* it does not come, so the next list does not wait for it */
    start_list(256);
    while (num_done < 512) {
        helper_progress(&helper);
    }
    start_list(256);
    helper_progress(&helper);
    ck_assert_uint_eq(num_done, 768);
    helper_end(&helper);
    use_short_lists(small);
}
END_TEST

/* Few operations, or few lists. */
START_TEST(list_is_not_left_where_that_saves_little)
{
    muct_xgmi_queue_t *small = use_long_lists(3);
    helper_t helper;

    helper_start(&helper);
    finish_own_list(256);
    if (_i == 0) {
        start_list(255);
    } else {
        start_list(256);
        start_list(256);
    }
    helper_progress(&helper);
    ck_assert_uint_eq(num_done, (_i == 0) ? 255 : 512);
    helper_end(&helper);
    use_short_lists(small);
}
END_TEST

/* Two lists that are over and were left do not count as running: others are gathered or
 * started. */
START_TEST(lists_that_are_left_hold_up_no_others)
{
    muct_xgmi_queue_t *small = use_long_lists(8);
    helper_t helper;

    helper_start(&helper);
    finish_own_list(256);
    start_list(256);
    start_list(256);
    helper_progress(&helper);
    ck_assert_uint_eq(num_done, 0);
    ck_assert_int_eq(put(0, 100), UCS_OK);
    helper_progress(&helper);
    ck_assert((queue->open == NULL) || (queue->gather.count == 1));
    while (num_done < 513) {
        helper_progress(&helper);
    }
    helper_end(&helper);
    use_short_lists(small);
}
END_TEST

/* A sleeping thread may be the only one to make progress. */
START_TEST(what_another_thread_posts_wakes)
{
    struct pollfd fds[] = {{.fd = wake->event_fd, .events = POLLIN},
                           {.fd = wake->timer_fd, .events = POLLIN}};
    helper_t helper;

    ck_assert_int_eq(put(0, 10), UCS_OK);
    finish(1);
    ck_assert_int_eq(muct_xgmi_queue_arm(queue, muct_xgmi_wake_now_ns()), UCS_OK);
    wake->is_armed = true;
    ck_assert_int_eq(poll(fds, 2, 0), 0);
    ck_assert_int_eq(put(0, 10), UCS_OK);
    ck_assert_int_eq(poll(fds, 1, 0), 1);
    ck_assert(muct_xgmi_wake_drain(wake, muct_xgmi_wake_now_ns()));
    ck_assert_int_eq(poll(fds, 1, 0), 0);
    helper_start(&helper);
    while (num_done < 2) {
        helper_progress(&helper);
    }
    helper_end(&helper);
}
END_TEST

static int launch_nothing(muct_hip_function_t function, unsigned grid_x,
                          unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes,
                          muct_hip_stream_t stream, void **params, void **extra)
{
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x;
    (void)block_y, (void)block_z, (void)shared_bytes, (void)stream, (void)params;
    (void)extra;
    return MUCT_HIP_SUCCESS;
}

static int fail_query(muct_hip_stream_t stream)
{
    (void)stream;
    return 719;
}

/* Each poll stands for a second of sleep. */
START_TEST(failed_device_is_found_beside_sleep)
{
    uint64_t now_ns = muct_xgmi_wake_now_ns() - 10000000000; /* timers fire at once */
    muct_gpu_t failed = *gpu;
    unsigned i;

    failed.module_launch_kernel = launch_nothing;
    failed.stream_query = fail_query;
    queue->gpu = &failed;
    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(put(i * 1000, 10), UCS_OK);
    }
    muct_xgmi_queue_start(queue);
    ck_assert_int_eq(muct_xgmi_queue_arm(queue, now_ns), UCS_OK);
    now_ns += 1000000;
    (void)muct_xgmi_wake_drain(wake, now_ns);
    ck_assert_int_eq(muct_xgmi_queue_arm(queue, now_ns), UCS_OK);
    ck_assert(queue->is_notifying);
    for (i = 0; i < 1000; ++i) { /* a thread that stays awake does not query */
        (void)muct_xgmi_queue_poll(queue);
        ck_assert_int_eq(muct_xgmi_queue_arm(queue, now_ns), UCS_OK);
    }
    ck_assert_uint_eq(num_done, 0);
    for (i = 0; (i < 3) && (num_done == 0); ++i) {
        now_ns += 1000000000;
        ck_assert_uint_eq(wake->timer_at_ns, now_ns);
        (void)muct_xgmi_wake_drain(wake, now_ns);
        (void)muct_xgmi_queue_poll(queue);
        ck_assert_int_eq(muct_xgmi_queue_arm(queue, now_ns), UCS_OK);
    }
    ck_assert_uint_eq(num_done, 10);
    ck_assert_int_eq(last_status, UCS_ERR_IO_ERROR);
    queue->gpu = gpu;
}
END_TEST

/* Whichever stream of a batch ends last, its end wakes. */
START_TEST(every_stream_of_a_batch_wakes)
{
    const uint64_t late_ns = muct_xgmi_wake_now_ns() + 1000000;
    struct pollfd fd = {.fd = wake->event_fd, .events = POLLIN};
    unsigned last = (unsigned)_i, i;

    ck_assert_int_eq(put(0, LENGTH), UCS_OK); /* a run, on a stream of its own */
    finish(1);
    for (i = 0; i < 2; ++i) {
        fake_hip_hold("hipcpu_hold", queue->streams[i * queue->num_launch_streams]);
    }
    ck_assert_int_eq(put(0, LENGTH), UCS_OK);
    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(put(i * 1000, 10), UCS_OK);
    }
    muct_xgmi_queue_kick(queue);
    /* the first time only the clock is read */
    ck_assert_int_eq(muct_xgmi_queue_arm(queue, late_ns), UCS_OK);
    ck_assert_int_eq(muct_xgmi_queue_arm(queue, late_ns + 1000000), UCS_OK);
    for (i = 0; i < 2; ++i) {
        if (i != last) {
            fake_hip_hold("hipcpu_release",
                          queue->streams[i * queue->num_launch_streams]);
            ck_assert_int_eq(poll(&fd, 1, LIMIT_S * 1000), 1);
            while (!muct_xgmi_wake_drain(wake, late_ns)) {
            }
        }
    }
    (void)muct_xgmi_queue_poll(queue);
    ck_assert_uint_eq(num_done, 1);
    fake_hip_hold("hipcpu_release", queue->streams[last * queue->num_launch_streams]);
    ck_assert_int_eq(poll(&fd, 1, LIMIT_S * 1000), 1);
    finish(12);
}
END_TEST

START_TEST(queue_is_recorded_once_for_all_behind_it)
{
    muct_xgmi_queue_t *second;
    unsigned long before;
    unsigned i;

    ck_assert_int_eq(muct_xgmi_queue_create(gpu, map, wake, &config, 0, &second),
                     UCS_OK);
    fake_hip_hold("hipcpu_hold", NULL);
    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(put(i * 1000, 10), UCS_OK);
    }
    muct_xgmi_queue_start(queue);
    before = fake_hip_calls("hipEventRecord");
    ck_assert_int_eq(muct_xgmi_queue_record(queue), UCS_OK);
    ck_assert_int_eq(muct_xgmi_queue_record(second), UCS_OK); /* idle */
    ck_assert_int_eq(muct_xgmi_queue_order_after(queue, queue), UCS_OK);
    ck_assert_int_eq(muct_xgmi_queue_order_after(second, queue), UCS_OK);
    ck_assert_int_eq(muct_xgmi_queue_order_after(queue, second), UCS_OK);
    ck_assert_uint_eq(fake_hip_calls("hipEventRecord"), before + 1); /* stream in use */
    fake_hip_hold("hipcpu_release", NULL);
    finish(10);
    muct_xgmi_queue_destroy(second, UCS_OK);
}
END_TEST

static void expect_device(int expected, const char *call)
{
    int device = -1;

    ck_assert_int_eq(gpu->get_device(&device), 0);
    ck_assert_msg(device == expected, "%s left device %d", call, device);
}

/* TR-12 */
START_TEST(current_device_of_the_caller_stays)
{
    muct_xgmi_queue_t *second;

    ck_assert_int_eq(muct_xgmi_queue_create(gpu, map, wake, &config, 0, &second),
                     UCS_OK);
    fake_hip_hold("hipcpu_hold", NULL);
    ck_assert_int_eq(put(0, 10), UCS_OK);
    muct_xgmi_queue_start(queue);
    ck_assert_int_eq(gpu->set_device(1), 0);
    ck_assert_int_eq(muct_xgmi_queue_record(queue), UCS_OK);
    expect_device(1, "muct_xgmi_queue_record");
    ck_assert_int_eq(muct_xgmi_queue_order_after(second, queue), UCS_OK);
    expect_device(1, "muct_xgmi_queue_order_after");
    fake_hip_hold("hipcpu_release", NULL);
    muct_xgmi_queue_destroy(second, UCS_OK);
    expect_device(1, "muct_xgmi_queue_destroy");
    ck_assert_int_eq(gpu->set_device(0), 0); /* for cases that do not fork */
    finish(1);
}
END_TEST

/* The engines' streams are made behind the fence, and obey it. */
START_TEST(first_long_run_copies_after_the_fence_before_it)
{
    const muct_xgmi_window_t *window;

    fake_hip_hold("hipcpu_hold", queue->streams[0]);
    ck_assert_int_eq(put(1, 1000), UCS_OK);
    muct_xgmi_queue_start(queue);
    ck_assert_int_eq(muct_xgmi_queue_record(queue), UCS_OK);
    ck_assert_int_eq(muct_xgmi_queue_order_after(queue, queue), UCS_OK);

    ck_assert_int_eq(muct_xgmi_queue_reserve(queue, 1), UCS_OK);
    ck_assert_int_eq(muct_xgmi_queue_find(queue, &rkey, &window), UCS_OK);
    muct_xgmi_queue_set_operands(queue, local, rkey.uid);
    muct_xgmi_queue_add(queue, (uintptr_t)remote + MIN_RUN + window->delta,
                        (uintptr_t)remote, MIN_RUN);
    muct_xgmi_queue_commit(queue, done, &owner, NULL);
    muct_xgmi_queue_start(queue);
    ck_assert_uint_eq(poll_for_long(), 0);
    fake_hip_hold("hipcpu_release", queue->streams[0]);
    finish(2);
    ck_assert_mem_eq(remote + MIN_RUN + 1, local + 1, 1000);
}
END_TEST

/* Pieces enough for a launch, at a place of its own for each list. */
static void start_launch(unsigned list)
{
    unsigned i;

    for (i = 0; i < 4; ++i) {
        ck_assert_int_eq(put((list * 10000) + (i * 1000), 500), UCS_OK);
    }
    muct_xgmi_queue_start(queue);
}

static bool is_copied(unsigned list)
{
    return memcmp(remote + (list * 10000), local + (list * 10000), 500) == 0;
}

/* The device's flag shows the end; the queue is not queried. */
static void wait_for_last_launch(void)
{
    unsigned stream = queue->launch_stream;

    while (!muct_xgmi_word_reached(muct_xgmi_queue_flag_at(queue, stream),
                                   queue->launch_streams[stream].sequence)) {
        usleep(100);
    }
}

/* Ended in another order than started, they are found finished in that of the start. */
START_TEST(launch_does_not_wait_for_the_one_before_it)
{
    fake_hip_hold("hipcpu_hold", queue->streams[0]);
    start_launch(0);
    start_launch(1);
    wait_for_last_launch();
    ck_assert(is_copied(1) && !is_copied(0));
    ck_assert_uint_eq(poll_for_long(), 0);
    start_launch(2); /* the second stream has nothing to do, again */
    wait_for_last_launch();
    ck_assert(is_copied(2));
    fake_hip_hold("hipcpu_release", queue->streams[0]);
    finish(12);
    ck_assert(is_copied(0));
}
END_TEST

START_TEST(launches_of_busy_streams_take_turns)
{
    unsigned i;

    muct_xgmi_queue_destroy(queue, UCS_OK);
    config.num_lists = 8;
    ck_assert_int_eq(muct_xgmi_queue_create(gpu, map, wake, &config, 0, &queue),
                     UCS_OK);
    fake_hip_hold("hipcpu_hold", NULL);
    for (i = 0; i < 6; ++i) {
        start_launch(i);
        ck_assert_uint_eq(queue->launch_stream, i % 2);
    }
    fake_hip_hold("hipcpu_release", NULL);
    finish(24);
    for (i = 0; i < 6; ++i) {
        ck_assert(is_copied(i));
    }
    start_launch(6);
    ck_assert_uint_eq(queue->launch_stream, 0); /* all is over: the first one */
    finish(28);
}
END_TEST

/* Launches that run at one time share no counter: libhipcpu ends the process otherwise.
 */
START_TEST(launches_of_two_streams_count_apart)
{
    unsigned round, list, i;

    for (round = 1; round <= 200; ++round) {
        fake_hip_hold("hipcpu_hold", NULL);
        for (list = 0; list < 2; ++list) {
            for (i = 0; i < 4; ++i) {
                ck_assert_int_eq(put(((list * 4) + i) * 2 * MIN_RUN, MIN_RUN - 1),
                                 UCS_OK);
            }
            muct_xgmi_queue_start(queue);
        }
        fake_hip_hold("hipcpu_release", NULL);
        finish(8 * round);
    }
}
END_TEST

static void expect_not_copied(unsigned list)
{
    unsigned i;

    for (i = 0; i < 100; ++i) {
        usleep(100);
        ck_assert(!is_copied(list));
    }
}

START_TEST(fence_holds_between_launch_streams)
{
    fake_hip_hold("hipcpu_hold", queue->streams[0]);
    start_launch(0);
    ck_assert_int_eq(muct_xgmi_queue_record(queue), UCS_OK);
    ck_assert_int_eq(muct_xgmi_queue_order_after(queue, queue), UCS_OK);
    start_launch(1);
    ck_assert_uint_eq(queue->launch_stream, 1);
    expect_not_copied(1);
    fake_hip_hold("hipcpu_release", queue->streams[0]);
    finish(8);
    ck_assert(is_copied(0) && is_copied(1));
}
END_TEST

START_TEST(fence_holds_for_each_launch_stream)
{
    unsigned i;

    for (i = 0; i < 2; ++i) {
        fake_hip_hold("hipcpu_hold", queue->streams[i]);
        start_launch(i);
    }
    ck_assert_int_eq(muct_xgmi_queue_record(queue), UCS_OK);
    ck_assert_int_eq(muct_xgmi_queue_order_after(queue, queue), UCS_OK);
    fake_hip_hold("hipcpu_release", queue->streams[0]);
    finish(4);
    start_launch(2);
    ck_assert_uint_eq(queue->launch_stream, 0);
    expect_not_copied(2);
    fake_hip_hold("hipcpu_release", queue->streams[1]);
    finish(12);
    ck_assert(is_copied(1) && is_copied(2));
}
END_TEST

/* A device with few streams left: the queue does with one. */
START_TEST(second_launch_stream_that_is_refused_is_done_without)
{
    muct_xgmi_queue_destroy(queue, UCS_OK);
    fake_hip_fail("hipStreamCreateWithPriority", 2, 999);
    ck_assert_int_eq(muct_xgmi_queue_create(gpu, map, wake, &config, 0, &queue),
                     UCS_OK);
    ck_assert_uint_eq(queue->num_launch_streams, 1);
    start_launch(0);
    start_launch(1);
    finish(8);
    ck_assert_int_eq(put(0, LENGTH), UCS_OK);
    finish(9);
    ck_assert_uint_eq(queue->num_streams, 1 + config.num_engines);
}
END_TEST

START_TEST(launches_to_more_peers_have_more_blocks)
{
    muct_xgmi_queue_config_t some = {.max_blocks = 8};
    muct_xgmi_batch_t *batch;
    char peers[9];
    unsigned i;

    ck_assert_uint_eq(muct_xgmi_queue_num_blocks(&some, 7), 8);
    some.peer_blocks = 4;
    some.most_blocks = 28;
    ck_assert_uint_eq(muct_xgmi_queue_num_blocks(&some, 0), 8);
    ck_assert_uint_eq(muct_xgmi_queue_num_blocks(&some, 1), 8);
    ck_assert_uint_eq(muct_xgmi_queue_num_blocks(&some, 3), 16);
    ck_assert_uint_eq(muct_xgmi_queue_num_blocks(&some, 7), 28);
    some.max_blocks = 64;
    ck_assert_uint_eq(muct_xgmi_queue_num_blocks(&some, 2), 64);

    ck_assert_int_eq(put(0, 1), UCS_OK);
    batch = queue->open;
    ck_assert_uint_eq(batch->num_peers, 1);
    ck_assert_ptr_eq(batch->peers[0], rkey.peer);
    muct_xgmi_batch_count_peer(batch, rkey.peer);
    ck_assert_uint_eq(batch->num_peers, 1);
    for (i = 0; i < 9; ++i) {
        muct_xgmi_batch_count_peer(batch, (const muct_xgmi_peer_t *)&peers[i]);
    }
    ck_assert_uint_eq(batch->num_peers, MUCT_XGMI_MAX_COUNTED_PEERS);
    finish(1);
}
END_TEST

START_TEST(void_key_has_no_window)
{
    ck_assert_int_eq(put(0, 1), UCS_OK);
    finish(1);
    muct_xgmi_slot_free(rkey.key.slot);
    ck_assert_int_eq(put(0, 1), UCS_ERR_REJECTED);
}
END_TEST

START_TEST(disowned_operation_ends_once_and_cancelled)
{
    fake_hip_hold("hipcpu_hold", NULL);
    ck_assert_int_eq(put(0, 10), UCS_OK);
    muct_xgmi_queue_start(queue);
    ck_assert_int_eq(put(1000, 10), UCS_OK);
    muct_xgmi_queue_disown(queue, &owner);
    fake_hip_hold("hipcpu_release", NULL);
    finish(2);
    ck_assert_int_eq(last_status, UCS_ERR_CANCELED);
}
END_TEST

START_TEST(marker_ends_after_what_was_before_it)
{
    muct_xgmi_marker_t marker = {.op = {.done = done, .owner = &owner}};

    uint64_t first;

    ck_assert(!muct_xgmi_queue_add_marker(queue, queue->stamp, &marker));
    ck_assert_int_eq(put(0, 10), UCS_OK);
    first = queue->stamp;
    ck_assert(muct_xgmi_queue_add_marker(queue, first, &marker));
    finish(2);
    ck_assert(!muct_xgmi_queue_add_marker(queue, first, &marker));
    fake_hip_hold("hipcpu_hold", NULL);
    ck_assert_int_eq(put(0, 10), UCS_OK);
    first = queue->stamp;
    muct_xgmi_queue_start(queue);
    ck_assert_int_eq(put(0, 10), UCS_OK); /* not waited for */
    ck_assert(muct_xgmi_queue_add_marker(queue, first, &marker));
    fake_hip_hold("hipcpu_release", NULL);
    while (num_done < 4) {
        (void)muct_xgmi_queue_poll(queue);
    }
    finish(5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_queue");
    TCase *tcase = tcase_create("queue");

    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, pieces_between_two_progress_calls_are_one_launch);
    tcase_add_test(tcase, few_pieces_are_copy_calls);
    tcase_add_test(tcase, neighbours_are_one_piece);
    tcase_add_test(tcase, long_run_goes_to_the_copy_engines);
    tcase_add_test(tcase, engines_are_made_with_the_first_long_run);
    tcase_add_test(tcase, device_without_engines_copies_long_runs);
    tcase_add_test(tcase, full_queue_refuses_and_recovers);
    tcase_add_test(tcase, copies_that_do_not_end_are_reported);
    tcase_add_test(tcase, more_is_gathered_while_enough_runs);
    tcase_add_test(tcase, rolled_back_pieces_are_not_copied);
    tcase_add_test(tcase, failing_launch_falls_back_to_calls);
    tcase_add_loop_test(tcase, failing_call_is_an_error_of_its_batch, 0, 5);
    tcase_add_loop_test(tcase, refused_copy_fails_its_own_operation, 0, 3);
    tcase_add_loop_test(tcase, device_that_refuses_makes_no_queue, 0, 3);
    tcase_add_test(tcase, device_without_the_kernel_copies_by_calls);
    tcase_add_test(tcase, posting_starts_an_idle_device_early);
    tcase_add_loop_test(tcase, posting_starts_what_comes_one_at_a_time, 0, 2);
    tcase_add_test(tcase, what_another_thread_posts_wakes);
    tcase_add_loop_test(tcase, every_stream_of_a_batch_wakes, 0, 2);
    tcase_add_test(tcase, failed_device_is_found_beside_sleep);
    tcase_add_test(tcase, queue_is_recorded_once_for_all_behind_it);
    tcase_add_test(tcase, current_device_of_the_caller_stays);
    tcase_add_test(tcase, first_long_run_copies_after_the_fence_before_it);
    tcase_add_test(tcase, launch_does_not_wait_for_the_one_before_it);
    tcase_add_test(tcase, launches_of_busy_streams_take_turns);
    tcase_add_test(tcase, launches_of_two_streams_count_apart);
    tcase_add_test(tcase, fence_holds_between_launch_streams);
    tcase_add_test(tcase, fence_holds_for_each_launch_stream);
    tcase_add_test(tcase, second_launch_stream_that_is_refused_is_done_without);
    tcase_add_test(tcase, launches_to_more_peers_have_more_blocks);
    tcase_add_test(tcase, void_key_has_no_window);
    tcase_add_test(tcase, disowned_operation_ends_once_and_cancelled);
    tcase_add_test(tcase, marker_ends_after_what_was_before_it);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("without write-back");
    tcase_add_checked_fixture(tcase, setup_without_write_back, teardown);
    tcase_add_test(tcase, launch_without_write_back_ends_by_an_event);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("threads");
    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup_inline, teardown);
    tcase_add_test(tcase, posts_beside_anothers_progress_are_gathered);
    tcase_add_test(tcase, long_list_is_left_to_the_thread_that_posted_it);
    tcase_add_loop_test(tcase, list_is_not_left_where_that_saves_little, 0, 2);
    tcase_add_test(tcase, lists_that_are_left_hold_up_no_others);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("releases");
    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_loop_test(
        tcase, capture_of_another_thread_and_copies_leave_each_other_alone, 0, 12);
    tcase_add_loop_test(tcase, query_during_a_capture_is_in_progress, 0, 4);
    tcase_add_test(tcase, pending_error_stays_the_applications_own);
    tcase_add_test(tcase, launches_leave_no_more_than_a_bounded_rest);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
