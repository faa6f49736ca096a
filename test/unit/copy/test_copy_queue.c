/* SPDX-License-Identifier: BSD-3-Clause */

#include "copy/copy_queue.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SEG_SIZE 4096
#define LENGTH (5 * SEG_SIZE + 3)
#define MUCT_HIP_LAUNCH_FAILURE 719

static muct_gpu_t gpu;
static muct_copy_queue_t *queue;
static unsigned char *device_memory, host[LENGTH], back[LENGTH];
static unsigned num_done;
static uct_completion_t *last_done;


/* If tests do not fork, the runtime is in the state that the case before has left. */
static void restore_runtime(void)
{
    void (*reset)(void);
    void *symbol = fake_hip_symbol("hipcpu_reset");

    memcpy(&reset, &symbol, sizeof(reset));
    reset();
    fake_hip_set_version(6, 4);
}

static void on_done(uct_completion_t *comp)
{
    ++num_done;
    last_done = comp;
}

static void init_comp(uct_completion_t *comp)
{
    comp->func = on_done;
    comp->count = 1;
    comp->status = UCS_OK;
}

static void setup(void)
{
    unsigned i;

    restore_runtime();
    ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
    ck_assert_int_eq(muct_copy_queue_create(&gpu, 0, SEG_SIZE, &queue), UCS_OK);
    ck_assert_int_eq(gpu.mem_alloc((void **)&device_memory, LENGTH), 0);
    for (i = 0; i < LENGTH; ++i) {
        host[i] = (unsigned char)(i * 7 + (i >> 8));
    }
    num_done = 0;
}

static void teardown(void)
{
    muct_copy_queue_destroy(queue);
    ck_assert_int_eq(gpu.mem_free(device_memory), 0);
    ck_assert_int_eq(gpu.get_last_error(), 0); /* none is left for the application */
}

static int malloc_device; /* Current device of the allocation */

static int note_malloc(void **memory_p, size_t size, unsigned flags)
{
    ck_assert_int_eq(gpu.get_device(&malloc_device), 0);
    return gpu.host_malloc(memory_p, size, flags);
}

/* The runtime allocates on the node of the current device, which may be any. */
START_TEST(segments_are_near_the_device_that_uses_them)
{
    muct_copy_queue_t *other;
    muct_gpu_t noting = gpu;
    int device;

    noting.host_malloc = note_malloc;
    ck_assert_int_eq(gpu.set_device(0), 0);
    ck_assert_int_eq(muct_copy_queue_create(&noting, 1, SEG_SIZE, &other), UCS_OK);
    ck_assert_int_eq(malloc_device, 1);
    ck_assert_int_eq(gpu.get_device(&device), 0);
    ck_assert_int_eq(device, 0);
    muct_copy_queue_destroy(other);
}
END_TEST

START_TEST(any_length_goes_in_and_out)
{
    static const size_t lengths[] = {
        1, SEG_SIZE - 1, SEG_SIZE, SEG_SIZE + 1, 2 * SEG_SIZE, LENGTH};
    size_t i, j;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
        for (j = 0; j < LENGTH; ++j) {
            host[j] = (unsigned char)(host[j] + 31);
        }
        memset(back, 0xaa, sizeof(back));
        ck_assert_int_eq(
            muct_copy_queue_move_in(queue, device_memory, host, lengths[i]), UCS_OK);
        ck_assert_int_eq(
            muct_copy_queue_move_out(queue, back, device_memory, lengths[i]), UCS_OK);
        ck_assert_mem_eq(back, host, lengths[i]);
        ck_assert((lengths[i] == LENGTH) || (back[lengths[i]] == 0xaa));
    }
}
END_TEST

/* Each of these invalidates graphs that other threads capture, on some release. */
START_TEST(no_copy_queries_the_runtime_for_its_end)
{
    static const char *const hazards[] = {
        "hipStreamQuery",      "hipEventQuery", "hipStreamSynchronize",
        "hipEventSynchronize", "hipMemcpy",     "hipHostMalloc",
        "hipDeviceSynchronize"};
    struct timespec start, end;
    unsigned long before[7];
    uct_completion_t comp;
    ucs_status_t status;
    size_t i;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (i = 0; i < 7; ++i) {
        before[i] = fake_hip_calls(hazards[i]);
    }

    for (i = 0; i < 100; ++i) {
        ck_assert_int_eq(muct_copy_queue_move_in(queue, device_memory, host, LENGTH),
                         UCS_OK);
        ck_assert_int_eq(muct_copy_queue_move_out(queue, back, device_memory, LENGTH),
                         UCS_OK);
        init_comp(&comp);
        num_done = 0;
        status = muct_copy_queue_start(queue, queue->segs[0], device_memory, SEG_SIZE,
                                       &comp);
        while ((status == UCS_INPROGRESS) && (num_done == 0)) {
            muct_copy_queue_poll(queue);
        }
    }

    clock_gettime(CLOCK_MONOTONIC, &end);
    /* a stream that is silent for a second is queried */
    for (i = (end.tv_sec - start.tv_sec > 1) ? 1 : 0; i < 7; ++i) {
        ck_assert_msg(fake_hip_calls(hazards[i]) == before[i], "%s was called",
                      hazards[i]);
    }
}
END_TEST

START_TEST(completions_come_in_order_and_once)
{
    uct_completion_t comps[3], flush;
    unsigned i;

    fake_hip_hold("hipcpu_hold", queue->stream);
    for (i = 0; i < 3; ++i) {
        init_comp(&comps[i]);
        ck_assert_int_eq(muct_copy_queue_start(queue, queue->segs[0], device_memory,
                                               SEG_SIZE, &comps[i]),
                         UCS_INPROGRESS);
    }
    init_comp(&flush);
    ck_assert_int_eq(muct_copy_queue_notify(queue, &flush), UCS_INPROGRESS);
    ck_assert_uint_eq(muct_copy_queue_poll(queue), 0);
    ck_assert(!muct_copy_queue_is_idle(queue));

    fake_hip_hold("hipcpu_release", queue->stream);
    while (num_done < 4) {
        muct_copy_queue_poll(queue);
        if ((num_done > 0) && (num_done < 4)) {
            ck_assert_ptr_eq(last_done, &comps[num_done - 1]);
        }
    }
    ck_assert_ptr_eq(last_done, &flush);
    ck_assert(muct_copy_queue_is_idle(queue));
    ck_assert_uint_eq(muct_copy_queue_poll(queue), 0);
    ck_assert_int_eq(muct_copy_queue_notify(queue, &flush), UCS_OK);
}
END_TEST

START_TEST(refused_copy_is_an_error_and_the_next_one_works)
{
    uct_completion_t comp;

    init_comp(&comp);
    fake_hip_fail("hipMemcpyAsync", 1, MUCT_HIP_INVALID_VALUE);
    ck_assert_int_eq(
        muct_copy_queue_start(queue, queue->segs[0], device_memory, 64, &comp),
        UCS_ERR_IO_ERROR);
    fake_hip_fail("hipMemcpyAsync", 2, MUCT_HIP_INVALID_VALUE);
    ck_assert_int_eq(muct_copy_queue_move_in(queue, device_memory, host, LENGTH),
                     UCS_ERR_IO_ERROR);
    fake_hip_fail("hipMemcpyAsync", 2, MUCT_HIP_INVALID_VALUE);
    ck_assert_int_eq(muct_copy_queue_move_out(queue, back, device_memory, LENGTH),
                     UCS_ERR_IO_ERROR);
    ck_assert_uint_eq(muct_copy_queue_poll(queue), 0);
    ck_assert_uint_eq(num_done, 0);

    ck_assert_int_eq(muct_copy_queue_move_in(queue, device_memory, host, LENGTH),
                     UCS_OK);
    ck_assert_int_eq(muct_copy_queue_move_out(queue, back, device_memory, LENGTH),
                     UCS_OK);
    ck_assert_mem_eq(back, host, LENGTH);
}
END_TEST

START_TEST(stream_that_takes_no_mark_is_waited_for)
{
    unsigned long before = fake_hip_calls("hipStreamSynchronize");

    fake_hip_fail((_i == 0) ? "hipStreamWriteValue32" : "hipEventRecord", 0,
                  MUCT_HIP_INVALID_VALUE);
    ck_assert_int_eq(muct_copy_queue_move_in(queue, device_memory, host, LENGTH),
                     UCS_OK);
    ck_assert_int_eq(muct_copy_queue_move_out(queue, back, device_memory, LENGTH),
                     UCS_OK);
    ck_assert_mem_eq(back, host, LENGTH);
    ck_assert_uint_gt(fake_hip_calls("hipStreamSynchronize"), before);
}
END_TEST

START_TEST(failed_stream_ends_what_waits)
{
    uct_completion_t comp;

    init_comp(&comp);
    fake_hip_hold("hipcpu_hold", queue->stream);
    ck_assert_int_eq(
        muct_copy_queue_start(queue, queue->segs[0], device_memory, 64, &comp),
        UCS_INPROGRESS);
    fake_hip_fail("hipStreamQuery", 0, MUCT_HIP_LAUNCH_FAILURE);
    while (num_done == 0) {
        muct_copy_queue_poll(queue);
    }
    ck_assert_int_eq(comp.status, UCS_ERR_IO_ERROR);
    ck_assert_int_eq(muct_copy_queue_wait(queue), UCS_ERR_IO_ERROR);
    restore_runtime(); /* no call fails any more, and the stream runs */
    ck_assert_int_eq(muct_copy_queue_wait(queue), UCS_OK);
}
END_TEST

static void wait_for_question(unsigned long before)
{
    while (fake_hip_calls("hipStreamQuery") == before) {
        ck_assert_uint_eq(muct_copy_queue_poll(queue), 0);
    }
}

/* While a thread captures, the runtime refuses queries; the copy goes on. */
START_TEST(refused_question_is_no_failure)
{
    static const int answers[] = {MUCT_HIP_CAPTURE_UNSUPPORTED, MUCT_HIP_CAPTURED_EVENT,
                                  MUCT_HIP_NOT_READY};
    unsigned long before = fake_hip_calls("hipStreamQuery");
    uct_completion_t comp;

    init_comp(&comp);
    fake_hip_hold("hipcpu_hold", queue->stream);
    fake_hip_fail("hipStreamQuery", 0, answers[_i]);
    ck_assert_int_eq(
        muct_copy_queue_start(queue, queue->segs[0], device_memory, 64, &comp),
        UCS_INPROGRESS);
    wait_for_question(before);
    fake_hip_hold("hipcpu_release", queue->stream);
    while (num_done == 0) {
        muct_copy_queue_poll(queue);
    }
    ck_assert_int_eq(comp.status, UCS_OK);
}
END_TEST

/* A device's first copy, a copy that takes long, a stream without marks, the end. */
START_TEST(capture_of_another_thread_is_left_alone)
{
    static const int releases[][2] = {{5, 7}, {6, 4}, {7, 0}};
    unsigned long before = fake_hip_calls("hipStreamQuery");
    muct_copy_queue_t *other;
    uct_completion_t comp;
    fake_hip_capture_t capture;

    fake_hip_set_version(releases[_i][0], releases[_i][1]);
    fake_hip_capture_start(&capture);
    ck_assert_int_eq(muct_copy_queue_create(&gpu, 1, SEG_SIZE, &other), UCS_OK);
    fake_hip_fail("hipStreamWriteValue32", 1, MUCT_HIP_INVALID_VALUE);
    ck_assert_int_eq(muct_copy_queue_move_in(other, device_memory, host, LENGTH),
                     UCS_OK);
    init_comp(&comp);
    fake_hip_hold("hipcpu_hold", queue->stream);
    ck_assert_int_eq(
        muct_copy_queue_start(queue, queue->segs[0], device_memory, 64, &comp),
        UCS_INPROGRESS);
    wait_for_question(before);
    ck_assert_uint_eq(num_done, 0);
    fake_hip_hold("hipcpu_release", queue->stream);
    while (num_done == 0) {
        muct_copy_queue_poll(queue);
    }
    ck_assert_int_eq(comp.status, UCS_OK);
    muct_copy_queue_destroy(other);

    ck_assert_int_eq(fake_hip_capture_end(&capture), 0);
}
END_TEST

/* Since ROCm 7.3 the bytes of a short copy come with an event after it. */
START_TEST(copies_are_over_when_their_bytes_are_there)
{
    uct_completion_t comp;
    unsigned i;

    fake_hip_set_version(7, 3);
    for (i = 0; i < 100; ++i) {
        memset(host, (int)i + 1, LENGTH);
        ck_assert_int_eq(muct_copy_queue_move_in(queue, device_memory, host, LENGTH),
                         UCS_OK);
        ck_assert_uint_eq(device_memory[LENGTH - 1], i + 1);
        ck_assert_int_eq(muct_copy_queue_move_out(queue, back, device_memory, LENGTH),
                         UCS_OK);
        ck_assert_mem_eq(back, host, LENGTH);

        init_comp(&comp);
        num_done = 0;
        if (muct_copy_queue_start(queue, queue->segs[1], device_memory, SEG_SIZE,
                                  &comp) == UCS_INPROGRESS) {
            while (num_done == 0) {
                muct_copy_queue_poll(queue);
            }
        }
        ck_assert_mem_eq(queue->segs[1], host, SEG_SIZE);
    }
}
END_TEST

START_TEST(queue_that_cannot_be_made_leaves_nothing)
{
    static const char *const functions[] = {
        "hipSetDevice", "hipStreamCreateWithPriority", "hipEventCreateWithFlags",
        "hipHostMalloc", "hipHostGetDevicePointer"};
    muct_copy_queue_t *other = NULL;
    size_t before[5];
    int i;

    for (i = 0; i < 5; ++i) {
        before[i] = fake_hip_live(i);
    }
    fake_hip_fail(functions[_i], 1, MUCT_HIP_OUT_OF_MEMORY);
    ck_assert_int_ne(muct_copy_queue_create(&gpu, 1, SEG_SIZE, &other), UCS_OK);
    ck_assert_ptr_null(other);
    for (i = 0; i < 5; ++i) {
        ck_assert_uint_eq(fake_hip_live(i), before[i]);
    }
    ck_assert_int_eq(gpu.get_last_error(), 0);
}
END_TEST

/* TR-12 */
START_TEST(current_device_of_the_caller_stays)
{
    muct_copy_queue_t *other;
    int device = -1;

    ck_assert_int_eq(muct_copy_queue_create(&gpu, 1, SEG_SIZE, &other), UCS_OK);
    ck_assert_int_eq(gpu.get_device(&device), 0);
    ck_assert_int_eq(device, 0);
    muct_copy_queue_destroy(other);
    ck_assert_int_eq(gpu.get_device(&device), 0);
    ck_assert_int_eq(device, 0);

    fake_hip_fail("hipStreamCreateWithPriority", 1, MUCT_HIP_OUT_OF_MEMORY);
    ck_assert_int_ne(muct_copy_queue_create(&gpu, 1, SEG_SIZE, &other), UCS_OK);
    ck_assert_int_eq(gpu.get_device(&device), 0);
    ck_assert_int_eq(device, 0);
}
END_TEST

START_TEST(copy_without_a_queue_is_over_on_return)
{
    ck_assert_int_eq(muct_copy_queue_do_without(&gpu, device_memory, host, LENGTH),
                     UCS_OK);
    ck_assert_int_eq(muct_copy_queue_do_without(&gpu, back, device_memory, LENGTH),
                     UCS_OK);
    ck_assert_mem_eq(back, host, LENGTH);

    fake_hip_fail("hipMemcpyAsync", 1, MUCT_HIP_INVALID_VALUE);
    ck_assert_int_eq(muct_copy_queue_do_without(&gpu, device_memory, host, LENGTH),
                     UCS_ERR_IO_ERROR);
    fake_hip_fail("hipStreamSynchronize", 1, MUCT_HIP_LAUNCH_FAILURE);
    ck_assert_int_eq(muct_copy_queue_do_without(&gpu, device_memory, host, LENGTH),
                     UCS_ERR_IO_ERROR);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copy_queue");
    TCase *tcase = tcase_create("copy_queue");
    SRunner *runner;
    int num_failed;

    setenv("HIPCPU_DEVICES", "2", 1);
    setenv("HIPCPU_RULES", "amd,-few-queues", 1);
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, segments_are_near_the_device_that_uses_them);
    tcase_add_test(tcase, any_length_goes_in_and_out);
    tcase_add_test(tcase, no_copy_queries_the_runtime_for_its_end);
    tcase_add_test(tcase, completions_come_in_order_and_once);
    tcase_add_test(tcase, refused_copy_is_an_error_and_the_next_one_works);
    tcase_add_loop_test(tcase, stream_that_takes_no_mark_is_waited_for, 0, 2);
    tcase_add_test(tcase, failed_stream_ends_what_waits);
    tcase_add_loop_test(tcase, refused_question_is_no_failure, 0, 3);
    tcase_add_loop_test(tcase, capture_of_another_thread_is_left_alone, 0, 3);
    tcase_add_test(tcase, copies_are_over_when_their_bytes_are_there);
    tcase_add_loop_test(tcase, queue_that_cannot_be_made_leaves_nothing, 0, 5);
    tcase_add_test(tcase, current_device_of_the_caller_stays);
    tcase_add_test(tcase, copy_without_a_queue_is_over_on_return);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (num_failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
