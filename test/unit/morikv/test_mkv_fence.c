/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Option FENCE: what a destination waits for between the last byte and DONE.
 */

#include "test/support/mkv_pair.h"

#include <string.h>
#include <sys/mman.h>

#define NUM 4
#define FIRST 8 /* block of the destination */

static mkv_xfer_t *source, *destination;
static mkv_plan_t *plan;

/* All bytes have come. Blocks 8, 9, 10 and, in a WRITE of B's, no others. */
static void move_all(mkv_mode_t mode)
{
    mkv_xfer_t *active, *passive;

    source =
        pair_xfer((mode == MKV_WRITE) ? A : B, mode == MKV_WRITE, 1, mode, MKV_SRC);
    destination =
        pair_xfer((mode == MKV_WRITE) ? B : A, mode != MKV_WRITE, 1, mode, MKV_DST);
    active = (mode == MKV_WRITE) ? source : destination;
    passive = (mode == MKV_WRITE) ? destination : source;
    pair_expose(passive, FIRST, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, FIRST, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
}

static void finish(mkv_mode_t mode)
{
    pair_close((mode == MKV_WRITE) ? source : destination,
               (mode == MKV_WRITE) ? destination : source, plan);
    pair_teardown();
}

static void setup_hook(void)
{
    pair_set("FENCE", "hook");
    pair_setup();
}

/* Of each layer and part, the blocks that were exposed: neighbours are one range */
static void check_ranges(const mkv_event_t *event)
{
    const mkv_range_t *ranges = event->data;
    uint32_t i;

    ck_assert_uint_eq(event->length, pair_layers * PAIR_PARTS * sizeof(*ranges));
    for (i = 0; i < pair_layers * PAIR_PARTS; ++i) {
        ck_assert_ptr_eq(ranges[i].address,
                         B->mem + ((size_t)i * PAIR_BLOCKS + FIRST) * PAIR_BYTES);
        ck_assert_uint_eq(ranges[i].length, NUM * PAIR_BYTES);
    }
}

START_TEST(done_waits_for_the_callers_fence)
{
    mkv_xfer_attr_t attr;

    setup_hook();
    move_all(MKV_WRITE);
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_count(B, MKV_EV_FENCE, destination), 1);
    check_ranges(pair_last(B, MKV_EV_FENCE, destination));
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, destination), 0);
    attr = pair_query(destination);
    ck_assert_str_eq(attr.waiting_for, "mkv_fence_done()");
    ck_assert(!attr.is_quiet);
    OK(mkv_fence_done(destination, MKV_OK));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, destination), 1);
    ck_assert(pair_query(destination).is_quiet);
    ck_assert_uint_eq(pair_count(A, MKV_EV_FENCE, NULL), 0);
    IS(mkv_fence_done(destination, MKV_OK), MKV_ERR_INVALID);
    finish(MKV_WRITE);
}
END_TEST

/* Blocks that are no neighbours: a range each, and more than there is room for at once
 */
START_TEST(every_block_that_came_has_its_range)
{
    const size_t num = (size_t)pair_layers * PAIR_PARTS * PAIR_BLOCKS / 2;
    const mkv_range_t *ranges;
    uint32_t blocks[PAIR_BLOCKS / 2];
    const mkv_units_t units = {.num_local = PAIR_BLOCKS / 2,
                               .num_remote = PAIR_BLOCKS / 2,
                               .local = blocks,
                               .remote = blocks};
    size_t i;

    for (i = 0; i < PAIR_BLOCKS / 2; ++i) {
        blocks[i] = 2 * (uint32_t)i + 1;
    }
    setup_hook();
    source = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    destination = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    OK(mkv_xfer_expose(destination, 0, &units, 1, NULL, 0));
    pair_run();
    OK(mkv_plan_create(A->maps[1], &units, 1, 0, &plan));
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(source, 0));
    pair_run();
    ranges = pair_last(B, MKV_EV_FENCE, destination)->data;
    ck_assert_uint_eq(pair_last(B, MKV_EV_FENCE, destination)->length,
                      num * sizeof(*ranges));
    for (i = 0; i < num; ++i) {
        ck_assert_ptr_eq(ranges[i].address, B->mem + (2 * i + 1) * PAIR_BYTES);
        ck_assert_uint_eq(ranges[i].length, PAIR_BYTES);
    }
    OK(mkv_fence_done(destination, MKV_OK));
    pair_run();
    finish(MKV_WRITE);
}
END_TEST

enum { ODD = 4099, DISTANCE = 65537, FAR_UNITS = 70000 }; /* more than 2^32 bytes */

static void open_far(unsigned index, uint8_t *memory, uint16_t flags)
{
    const mkv_region_t region = {.size = sizeof(region),
                                 .flags = flags,
                                 .mem_type = UCS_MEMORY_TYPE_ROCM,
                                 .base = memory,
                                 .length = (uint64_t)FAR_UNITS * DISTANCE,
                                 .unit_bytes = ODD,
                                 .unit_stride = DISTANCE,
                                 .n_units = FAR_UNITS};

    pair_open_bare(index, NULL);
    pair_add(pair_sides[index].ctx, &region);
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

/* Units of an odd size at an odd distance, below and above 2^31 and 2^32 bytes. Loop
 * index 1: they are counted from the end */
START_TEST(ranges_are_exact_at_any_size_and_distance)
{
    static const uint32_t blocks[] = {0, 1, 32767, 32768, 65535, 65536, FAR_UNITS - 1};
    const uint32_t num = sizeof(blocks) / sizeof(blocks[0]);
    const mkv_units_t units = {
        .num_local = num, .num_remote = num, .local = blocks, .remote = blocks};
    const size_t length = (size_t)FAR_UNITS * DISTANCE;
    const mkv_range_t *ranges;
    uint8_t *memory[2];
    size_t unit;
    uint32_t i;

    fake_ucp_reset();
    pair_set("FENCE", "hook");
    for (i = 0; i < 2; ++i) { /* what is not touched takes no memory */
        memory[i] = mmap(NULL, length, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ck_assert_ptr_ne(memory[i], MAP_FAILED);
        open_far(i, memory[i], _i ? MKV_REGION_REVERSE : 0);
    }
    pair_connect(0, 1);
    source = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    destination = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    OK(mkv_xfer_expose(destination, 0, &units, 1, NULL, 0));
    pair_run();
    OK(mkv_plan_create(A->maps[1], &units, 1, 0, &plan));
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(source, 0));
    pair_run();
    ranges = pair_last(B, MKV_EV_FENCE, destination)->data;
    ck_assert_uint_eq(pair_last(B, MKV_EV_FENCE, destination)->length,
                      num * sizeof(*ranges));
    for (i = 0; i < num; ++i) {
        unit = _i ? FAR_UNITS - 1 - blocks[i] : blocks[i];
        ck_assert_ptr_eq(ranges[i].address, memory[1] + unit * DISTANCE);
        ck_assert_uint_eq(ranges[i].length, ODD);
    }
    OK(mkv_fence_done(destination, MKV_OK));
    pair_run();
    finish(MKV_WRITE);
    munmap(memory[0], length);
    munmap(memory[1], length);
}
END_TEST

enum { TOKENS = 4, TOKEN_BYTES = 16, TOKEN_BLOCKS = 8 };

static void open_tokens(unsigned index, uint8_t *memory, uint16_t flags)
{
    const mkv_region_t region = {.size = sizeof(region),
                                 .flags = flags,
                                 .mem_type = UCS_MEMORY_TYPE_ROCM,
                                 .base = memory,
                                 .length = TOKEN_BLOCKS * TOKENS * TOKEN_BYTES,
                                 .unit_bytes = TOKENS * TOKEN_BYTES,
                                 .n_units = TOKEN_BLOCKS,
                                 .tokens_per_unit = TOKENS,
                                 .inner_bytes = TOKEN_BYTES};

    pair_open_bare(index, NULL);
    pair_add(pair_sides[index].ctx, &region);
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

static void use_tokens(pair_side_t *side, unsigned other)
{
    const mkv_map_params_t params = {.size = sizeof(params), .flags = MKV_MAP_TOKENS};

    OK(mkv_map_destroy(side->maps[other]));
    OK(mkv_map_create(side->peers[other], &params, &side->maps[other]));
}

/* Lists are of tokens, ranges of the blocks that they lie in: tokens 2, 4, 5, 6 and 13
 * of blocks 0, 1 and 3. Loop index 1: blocks are counted from the end */
START_TEST(the_blocks_of_tokens_are_fenced)
{
    static const uint32_t tokens[] = {2, 4, 5, 6, 13};
    static uint8_t memory[2][TOKEN_BLOCKS * TOKENS * TOKEN_BYTES];
    const size_t block = (size_t)TOKENS * TOKEN_BYTES;
    const mkv_units_t units = {
        .num_local = 5, .num_remote = 5, .local = tokens, .remote = tokens};
    const mkv_range_t *ranges;
    uint32_t i;

    fake_ucp_reset();
    pair_set("FENCE", "hook");
    for (i = 0; i < 2; ++i) {
        open_tokens(i, memory[i], _i ? MKV_REGION_REVERSE : 0);
    }
    pair_connect(0, 1);
    use_tokens(A, 1);
    use_tokens(B, 0);
    source = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    destination = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    OK(mkv_xfer_expose(destination, 0, &units, 1, NULL, 0));
    pair_run();
    OK(mkv_plan_create(A->maps[1], &units, 1, 0, &plan));
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(source, 0));
    pair_run();
    ranges = pair_last(B, MKV_EV_FENCE, destination)->data;
    ck_assert_uint_eq(pair_last(B, MKV_EV_FENCE, destination)->length,
                      2 * sizeof(*ranges));
    ck_assert_ptr_eq(ranges[0].address, memory[1] + (_i ? 6 * block : 0));
    ck_assert_uint_eq(ranges[0].length, 2 * block);
    ck_assert_ptr_eq(ranges[1].address, memory[1] + (_i ? 4 : 3) * block);
    ck_assert_uint_eq(ranges[1].length, block);
    OK(mkv_fence_done(destination, MKV_OK));
    pair_run();
    finish(MKV_WRITE);
}
END_TEST

START_TEST(a_reader_fences_what_it_has_posted)
{
    setup_hook();
    move_all(MKV_READ);
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_last(A, MKV_EV_FENCE, destination)->length, 0);
    ck_assert_uint_eq(pair_count(A, MKV_EV_DONE, destination), 0);
    OK(mkv_fence_done(destination, MKV_OK));
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_DONE, destination), 1);
    finish(MKV_READ);
}
END_TEST

START_TEST(a_fence_that_fails_fails_the_transfer)
{
    setup_hook();
    move_all(MKV_WRITE);
    IS(mkv_fence_done(destination, MKV_INPROGRESS), MKV_ERR_INVALID);
    IS(mkv_fence_done(destination, MKV_ERR_LAST), MKV_ERR_INVALID);
    OK(mkv_fence_done(destination, MKV_ERR_TRANSPORT));
    pair_run();
    ck_assert_int_eq(pair_query(destination).status, MKV_ERR_TRANSPORT);
    ck_assert_ptr_nonnull(strstr(pair_query(destination).error, "fence failed"));
    ck_assert(pair_query(destination).is_quiet);
    finish(MKV_WRITE);
}
END_TEST

/* Loop index: aborted, or its time is over. What comes later changes nothing. */
START_TEST(a_transfer_may_end_while_its_fence_runs)
{
    setup_hook();
    move_all(MKV_WRITE);
    if (_i) {
        pair_now += 300001 * MKV_NSEC_PER_MSEC;
        pair_run();
        ck_assert_int_eq(pair_query(destination).status, MKV_ERR_XFER_TIMEOUT);
        ck_assert_ptr_nonnull(
            strstr(pair_query(destination).error, "waiting for mkv_fence_done()"));
    } else {
        OK(mkv_xfer_abort(destination, MKV_ERR_ABORTED, NULL));
    }
    OK(mkv_fence_done(destination, MKV_OK));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, destination), 0);
    ck_assert(pair_query(destination).is_quiet);
    finish(MKV_WRITE);
}
END_TEST

/* The connection may end: all bytes have come */
START_TEST(a_fence_outlives_its_connection)
{
    setup_hook();
    move_all(MKV_WRITE);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pair_run();
    ck_assert_int_eq(pair_query(destination).status, MKV_INPROGRESS);
    OK(mkv_fence_done(destination, MKV_OK));
    pair_run();
    ck_assert_int_eq(pair_query(destination).state, MKV_XFER_DONE);
    finish(MKV_WRITE);
}
END_TEST

/* Loop index: host memory, or no option */
START_TEST(nothing_is_fenced_without_need)
{
    if (_i) {
        pair_setup();
    } else {
        pair_mem_type = UCS_MEMORY_TYPE_HOST;
        setup_hook();
    }
    move_all(MKV_WRITE);
    ck_assert_int_eq(pair_query(destination).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_count(B, MKV_EV_FENCE, NULL), 0);
    IS(mkv_fence_done(destination, MKV_OK), MKV_ERR_INVALID);
    finish(MKV_WRITE);
}
END_TEST

static void setup_flush(const char *transport, const char *fence)
{
    fake_ucp_reset();
    fake_ucp_set_transport(transport);
    pair_now = 1000000000ull;
    pair_set("FENCE", fence);
    pair_open(0);
    pair_open(1);
    pair_connect(0, 1);
}

/* A byte of the one allocation is read behind what was put, and then DONE is told. Loop
 * index 1: another lane is connected and better, and UCX does not take it. */
START_TEST(done_waits_until_a_byte_was_read_back)
{
    setup_flush(_i ? "mori_xgmi" : "rc_verbs", "flush");
    fake_ucp_set_path("zero-copy rc_verbs/fake0");
    fake_ucp_hold(FAKE_UCP_GET);
    move_all(MKV_WRITE);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 1);
    ck_assert_int_eq(pair_query(source).status, MKV_INPROGRESS);
    ck_assert_int_eq(pair_query(destination).status, MKV_INPROGRESS);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_DONE);
    ck_assert_int_eq(pair_query(destination).state, MKV_XFER_DONE);
    finish(MKV_WRITE);
}
END_TEST

START_TEST(a_byte_that_cannot_be_read_back_fails_both_sides)
{
    setup_flush("rc_verbs", "flush");
    fake_ucp_set_inline(_i ? FAKE_UCP_GET : 0);
    fake_ucp_fail(FAKE_UCP_GET, 0, UCS_ERR_IO_ERROR);
    move_all(MKV_WRITE);
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_TRANSPORT);
    ck_assert_ptr_nonnull(strstr(pair_query(source).error, "flush failed"));
    ck_assert_int_eq(pair_query(destination).status, MKV_ERR_TRANSPORT);
    finish(MKV_WRITE);
}
END_TEST

/* Nor is there memory for it */
START_TEST(a_byte_that_has_no_place_fails_both_sides)
{
    setup_flush("rc_verbs", "flush");
    fake_ucp_fail_map(1);
    move_all(MKV_WRITE);
    fake_ucp_fail_map(0);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 0);
    ck_assert_int_lt(pair_query(source).status, MKV_OK);
    ck_assert_ptr_nonnull(strstr(pair_query(source).error, "flush failed"));
    ck_assert_int_lt(pair_query(destination).status, MKV_OK);
    finish(MKV_WRITE);
}
END_TEST

START_TEST(a_flush_that_fails_is_not_mended_by_a_read)
{
    setup_flush("rc_verbs", "flush");
    fake_ucp_fail(FAKE_UCP_FLUSH, 0, UCS_ERR_IO_ERROR);
    move_all(MKV_WRITE);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 0);
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_TRANSPORT);
    ck_assert_int_eq(pair_query(destination).status, MKV_ERR_TRANSPORT);
    finish(MKV_WRITE);
}
END_TEST

/* Loop index: a transport that needs it not, host memory, or no option */
START_TEST(nothing_is_read_back_without_need)
{
    pair_mem_type = (_i == 1) ? UCS_MEMORY_TYPE_HOST : UCS_MEMORY_TYPE_ROCM;
    setup_flush((_i == 0) ? "mori_xgmi" : "rc_verbs", (_i == 2) ? "none" : "flush");
    move_all(MKV_WRITE);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 0);
    ck_assert_int_eq(pair_query(destination).state, MKV_XFER_DONE);
    finish(MKV_WRITE);
}
END_TEST

static const struct {
    const char *all, *same_host;
    int is_other_host;
    const char *told;
} policies[] = {
    {"hook", "none", 0, "fence none"},  {"hook", "none", 1, "fence hook"},
    {"none", "hook", 0, "fence hook"},  {"none", "hook", 1, "fence none"},
    {"flush", "none", 0, "fence none"}, {"none", "flush", 0, "fence flush"},
    {"none", "flush", 1, "fence none"}, {"hook", "inherit", 0, "fence hook"},
};

typedef struct wanted {
    const char *text;
    unsigned num_lines;
} wanted_t;

static void find_text(void *arg, const char *line)
{
    wanted_t *wanted = arg;

    wanted->num_lines += strstr(line, wanted->text) != NULL;
}

/* Of both sides: a NIC may need what copies between GPUs do not */
START_TEST(peers_of_this_host_may_have_a_fence_of_their_own)
{
    bool asks = strcmp(policies[_i].told, "fence hook") == 0;
    bool reads = strcmp(policies[_i].told, "fence flush") == 0;
    wanted_t wanted = {.text = policies[_i].told};

    pair_set("FENCE_SAME_HOST", policies[_i].same_host);
    setup_flush("rc_verbs", policies[_i].all);
    A->peers[1]->is_same_host = B->peers[0]->is_same_host = !policies[_i].is_other_host;
    OK(mkv_dump(A->ctx, MKV_DUMP_PEERS, find_text, &wanted));
    ck_assert_uint_eq(wanted.num_lines, 1);
    move_all(MKV_WRITE);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), reads);
    ck_assert_uint_eq(pair_count(B, MKV_EV_FENCE, destination), asks);
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, destination), !asks);
    if (asks) {
        OK(mkv_fence_done(destination, MKV_OK));
        pair_run();
    }
    ck_assert_int_eq(pair_query(destination).state, MKV_XFER_DONE);
    finish(MKV_WRITE);
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("fence");

    tcase_add_loop_test(tcase, peers_of_this_host_may_have_a_fence_of_their_own, 0,
                        (int)(sizeof(policies) / sizeof(policies[0])));

    tcase_add_test(tcase, done_waits_for_the_callers_fence);
    tcase_add_test(tcase, every_block_that_came_has_its_range);
    tcase_add_loop_test(tcase, ranges_are_exact_at_any_size_and_distance, 0, 2);
    tcase_add_loop_test(tcase, the_blocks_of_tokens_are_fenced, 0, 2);
    tcase_add_test(tcase, a_reader_fences_what_it_has_posted);
    tcase_add_test(tcase, a_fence_that_fails_fails_the_transfer);
    tcase_add_loop_test(tcase, a_transfer_may_end_while_its_fence_runs, 0, 2);
    tcase_add_test(tcase, a_fence_outlives_its_connection);
    tcase_add_loop_test(tcase, nothing_is_fenced_without_need, 0, 2);
    tcase_add_loop_test(tcase, done_waits_until_a_byte_was_read_back, 0, 2);
    tcase_add_loop_test(tcase, a_byte_that_cannot_be_read_back_fails_both_sides, 0, 2);
    tcase_add_test(tcase, a_byte_that_has_no_place_fails_both_sides);
    tcase_add_loop_test(tcase, nothing_is_read_back_without_need, 0, 3);
    tcase_add_test(tcase, a_flush_that_fails_is_not_mended_by_a_read);
    return pair_main("test_mkv_fence", tcase);
}
