/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Heap use of an open transfer: bytes allocated and not freed, counted at the calls of
 * the C library made by the library and the fake. The numbers are therefore equal on
 * every machine. The size of the whole process would not show the cost of a single
 * transfer.
 */

#include "test/support/mkv_pair.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* A posted transfer of two blocks, with a map of eight pairs, takes 3673 bytes on both
 * sides together. */
#define MOST_BYTES 3850u

static size_t live_bytes;
static size_t refused_size; /* allocations of this size fail; 0: none */

void *__real_malloc(size_t size);
void *__real_calloc(size_t num, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t num, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static void *counted(void *memory)
{
    live_bytes += (memory != NULL) ? malloc_usable_size(memory) : 0;
    return memory;
}

static bool is_refused(size_t size)
{
    return (refused_size != 0) && (size == refused_size);
}

void *__wrap_malloc(size_t size)
{
    return is_refused(size) ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t num, size_t size)
{
    return is_refused(num * size) ? NULL : counted(__real_calloc(num, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    live_bytes -= (memory != NULL) ? malloc_usable_size(memory) : 0;
    return counted(__real_realloc(memory, size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return counted(__real_aligned_alloc(alignment, size));
}

char *__wrap_strdup(const char *text)
{
    return counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    live_bytes -= (memory != NULL) ? malloc_usable_size(memory) : 0;
    __real_free(memory);
}

#define NUM_XFERS 1000u

static mkv_xfer_t *sources[NUM_XFERS], *destinations[NUM_XFERS];

/* The heap once so many are open, exposed and posted, none sealed */
static size_t bytes_of(unsigned first, unsigned end, mkv_plan_t *plan)
{
    unsigned i;

    for (i = first; i < end; ++i) {
        sources[i] = pair_xfer(A, 1, i + 1, MKV_WRITE, MKV_SRC);
        destinations[i] = pair_xfer(B, 0, i + 1, MKV_WRITE, MKV_DST);
        pair_expose(destinations[i], 0, 2);
    }
    pair_run();
    for (i = first; i < end; ++i) {
        OK(mkv_xfer_post(sources[i], 0, plan, NULL, NULL));
    }
    pair_run();
    return live_bytes;
}

/* CC-05 */
START_TEST(a_thousand_open_transfers_take_little_each)
{
    size_t ten, thousand;
    mkv_plan_t *plan;
    unsigned i;

    pair_set("OVERLAP", "allow");
    pair_setup();
    plan = pair_plan(A, 1, 0, 0, 2, 0);
    ten = bytes_of(0, 10, plan);
    thousand = bytes_of(10, NUM_XFERS, plan);
    ck_assert_uint_eq(pair_count(A, MKV_EV_EXPOSED, NULL), NUM_XFERS);
    printf("%zu bytes of heap with 10 transfers open, %zu more for each of %u\n", ten,
           (thousand - ten) / (NUM_XFERS - 10), NUM_XFERS);
    ck_assert_uint_le((thousand - ten) / (NUM_XFERS - 10), MOST_BYTES);

    for (i = 0; i < NUM_XFERS; ++i) {
        OK(mkv_xfer_seal(sources[i], 0));
    }
    pair_run();
    for (i = 0; i < NUM_XFERS; ++i) {
        pair_close(sources[i], destinations[i], NULL);
    }
    OK(mkv_plan_destroy(plan));
    pair_teardown();
}
END_TEST

#define NUM_TOLD 20u
#define NUM_MESSAGES 200u

/* Unreserved events that wait for a poll do not use the reserved ones. */
START_TEST(the_end_of_a_transfer_is_reported_without_memory)
{
    mkv_plan_t *plan;
    unsigned i;

    pair_set("OVERLAP", "allow");
    pair_setup();
    plan = pair_plan(A, 1, 0, 0, 2, 0);
    (void)bytes_of(0, NUM_TOLD, plan);
    for (i = 0; i < NUM_MESSAGES; ++i) {
        OK(mkv_send(A->peers[1], i, 1, NULL, 0, NULL, 0));
        OK(mkv_send(B->peers[0], i, 1, NULL, 0, NULL, 0));
    }
    pair_run_unpolled();
    refused_size = sizeof(mkv_event_node_t);
    for (i = 0; i < NUM_TOLD; ++i) {
        OK(mkv_xfer_seal(sources[i], 0));
    }
    pair_run_unpolled();
    pair_run();
    refused_size = 0;
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), NUM_MESSAGES);
    for (i = 0; i < NUM_TOLD; ++i) {
        ck_assert_uint_eq(pair_count(A, MKV_EV_DONE, sources[i]), 1);
        ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, sources[i]), 1);
        ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, destinations[i]), 1);
        ck_assert_uint_eq(pair_count(B, MKV_EV_QUIET, destinations[i]), 1);
        pair_close(sources[i], destinations[i], NULL);
    }
    OK(mkv_plan_destroy(plan));
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("footprint");

    tcase_add_test(tcase, a_thousand_open_transfers_take_little_each);
    tcase_add_test(tcase, the_end_of_a_transfer_is_reported_without_memory);
    return pair_main("mkv_footprint", tcase);
}
