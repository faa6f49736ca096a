/* SPDX-License-Identifier: BSD-3-Clause */

/* Plans of bytes: exactly the given bytes move; impossible ones are refused. */

#include "plan/byte_list.h"
#include "test/support/mkv_pair.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH 4096u
#define MAX 64u

static uint8_t memory[2][LENGTH], wanted[LENGTH];
static uint64_t local[MAX], remote[MAX], length[MAX], count[MAX], here[MAX], there[MAX];
static mkv_xfer_t *active, *passive;

/* Pieces or slices of a test, from the arrays above */
static mkv_bytes_t bytes_of(uint64_t num, int has_slices)
{
    mkv_bytes_t bytes = {
        .component = 1, .num = num, .local = local, .remote = remote, .length = length};

    if (has_slices) {
        bytes.count = count;
        bytes.local_stride = here;
        bytes.remote_stride = there;
    }
    return bytes;
}

static void piece(unsigned i, uint64_t from, uint64_t to, uint64_t size)
{
    local[i] = from;
    remote[i] = to;
    length[i] = size;
}

static void slice(unsigned i, uint64_t num, uint64_t my_step, uint64_t their_step)
{
    count[i] = num;
    here[i] = my_step;
    there[i] = their_step;
}

/* Memory of component 1; the regions of @a pattern differ from side to side by it */
static void add_memory(unsigned index, const mkv_region_t *pattern)
{
    mkv_region_t region = *pattern;
    mkv_region_id_t id;
    unsigned i;

    for (i = 0; i < LENGTH; ++i) {
        memory[index][i] = (uint8_t)(index * 128 + (i * 7 + i / 256) % 128);
    }
    region.size = sizeof(region);
    region.component = 1;
    region.base = memory[index];
    OK(mkv_region_add(pair_sides[index].ctx, &region, &id));
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

/* A and B have memory of component 1 beside that of component 0, which has units */
static void connect_bytes(const char *transport, const mkv_region_t *mine,
                          const mkv_region_t *theirs)
{
    fake_ucp_reset();
    fake_ucp_set_transport(transport);
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    add_memory(0, mine);
    add_memory(1, theirs);
    pair_connect(0, 1);
}

/* A moves bytes to or from B, which exposes these blocks of component 1 */
static void bind_bytes(mkv_mode_t mode, const char *transport, const mkv_region_t *mine,
                       const mkv_region_t *theirs, const uint32_t *blocks, uint32_t num,
                       const mkv_expect_t *expect)
{
    const mkv_units_t units = {.component = 1, .num_local = num, .local = blocks};
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1,
                                .mode = mode,
                                .role = (mode == MKV_WRITE) ? MKV_DST : MKV_SRC,
                                .num_legs = 1,
                                .expect = expect,
                                .num_expect = (expect != NULL)};

    connect_bytes(transport, mine, theirs);
    active = pair_xfer(A, 1, 1, mode, (mode == MKV_WRITE) ? MKV_SRC : MKV_DST);
    params.legs = &B->maps[0];
    OK(mkv_xfer_open(B->ctx, &params, &passive));
    OK(mkv_xfer_expose(passive, 0, &units, 1, NULL, 0));
    pair_run();
}

static const mkv_region_t whole = {.flags = MKV_REGION_BYTES, .length = LENGTH};
static const uint32_t block_0[] = {0};

static void bind_whole(mkv_mode_t mode)
{
    bind_bytes(mode, "tcp", &whole, &whole, block_0, 1, NULL);
}

static mkv_plan_t *plan_of(uint64_t num, int has_slices, uint32_t flags)
{
    mkv_bytes_t bytes = bytes_of(num, has_slices);
    mkv_plan_t *plan;

    OK(mkv_plan_create_bytes(A->maps[1], &bytes, 1, flags, &plan));
    return plan;
}

static mkv_status_t refused(uint64_t num, int has_slices)
{
    mkv_bytes_t bytes = bytes_of(num, has_slices);
    mkv_plan_t *plan;

    return mkv_plan_create_bytes(A->maps[1], &bytes, 1, 0, &plan);
}

static void expect_error(const char *text)
{
    ck_assert_msg(strstr(mkv_last_error(), text) != NULL, "'%s' is not in '%s'", text,
                  mkv_last_error());
}

static void give_up(void)
{
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    pair_close(active, passive, NULL);
    pair_teardown();
}

static void move(mkv_plan_t *plan)
{
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
}

static void check_done(mkv_plan_t *plan)
{
    ck_assert_msg(pair_query(passive).status == MKV_OK, "%s",
                  pair_query(passive).error);
    ck_assert_int_eq(pair_query(active).status, MKV_OK);
    pair_close(active, passive, plan);
    pair_teardown();
}

static mkv_plan_attr_t attr_of(const mkv_plan_t *plan)
{
    mkv_plan_attr_t attr = {.size = sizeof(attr)};

    OK(mkv_plan_query(plan, &attr));
    return attr;
}

/* Random pieces and slices, to and fro, as lists and call by call, against a copy by
 * bytes. Loop index: bit 0 WRITE, bit 1 slices, bit 2 lists */
/* PL-08 */
START_TEST(what_is_given_moves_and_nothing_else)
{
    mkv_mode_t mode = (_i & 1) ? MKV_WRITE : MKV_READ;
    unsigned source = (mode == MKV_WRITE) ? 0 : 1, target = 1 - source, i, j, k;
    uint64_t from, to;
    mkv_plan_t *plan;

    bind_bytes(mode, (_i & 4) ? "mori_rdma" : "tcp", &whole, &whole, block_0, 1, NULL);
    memcpy(wanted, memory[target], LENGTH);
    srand(7 + (unsigned)_i);
    for (i = 0; i < MAX; ++i) { /* entry i stays inside 64 bytes there */
        piece(i, (unsigned)rand() % (LENGTH - 64), 64 * ((i * 37) % MAX),
              1 + (unsigned)rand() % 8);
        slice(i, 1 + (unsigned)rand() % 4, (unsigned)rand() % 17,
              length[i] + (unsigned)rand() % 8);
        if (mode == MKV_READ) { /* the target must not be written twice here either */
            from = local[i];
            piece(i, remote[i], from, length[i]);
            slice(i, count[i], there[i], here[i]);
        }
        for (j = 0; j < ((_i & 2) ? count[i] : 1); ++j) {
            from =
                (mode == MKV_WRITE) ? local[i] + j * here[i] : remote[i] + j * there[i];
            to =
                (mode == MKV_WRITE) ? remote[i] + j * there[i] : local[i] + j * here[i];
            for (k = 0; k < length[i]; ++k) {
                wanted[to + k] = memory[source][from + k];
            }
        }
    }
    plan = plan_of(MAX, _i & 2, 0);
    move(plan);
    ck_assert_mem_eq(memory[target], wanted, LENGTH);
    ck_assert_uint_eq(pair_query(active).bytes, attr_of(plan).bytes);
    if ((_i & 1) && (_i & 4)) {
        ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST), 1);
    }
    check_done(plan);
}
END_TEST

START_TEST(pieces_that_adjoin_are_one)
{
    unsigned i;

    bind_whole(MKV_WRITE);
    for (i = 0; i < 16; ++i) { /* backwards, and a gap here in the middle */
        piece(i, 1000 + 8 * (15 - i) + ((i < 8) ? 4 : 0), 8 * (15 - i), 8);
    }
    mkv_plan_t *plan = plan_of(16, 0, 0);
    ck_assert_uint_eq(attr_of(plan).num_runs, 2);
    ck_assert_uint_eq(attr_of(plan).num_elements, 2);
    ck_assert_uint_eq(attr_of(plan).bytes, 128);
    move(plan);
    check_done(plan);
}
END_TEST

/* 2^20 pieces of slices are as many entries as slices; a dense one is one piece */
/* PL-08 */
START_TEST(a_slice_takes_no_entry_for_its_pieces)
{
    uint64_t memory_of_one;
    mkv_plan_t *plan;

    bind_whole(MKV_WRITE);
    piece(0, 0, 0, 1);
    slice(0, 2, 2, 2);
    plan = plan_of(1, 1, 0);
    memory_of_one = attr_of(plan).memory;
    OK(mkv_plan_destroy(plan));
    slice(0, 2000, 2, 2);
    plan = plan_of(1, 1, 0);
    ck_assert_uint_eq(attr_of(plan).memory, memory_of_one);
    ck_assert_uint_eq(attr_of(plan).num_elements, 2000);
    OK(mkv_plan_destroy(plan));
    slice(0, 4000, 1, 1);
    plan = plan_of(1, 1, 0);
    ck_assert_uint_eq(attr_of(plan).num_elements, 1);
    ck_assert_uint_eq(attr_of(plan).bytes, 4000);
    OK(mkv_plan_destroy(plan));
    give_up();
}
END_TEST

/* The order of two puts is undefined. Loop index: pieces; slices that cross; a slice
 * that overlaps itself */
/* PL-08 */
START_TEST(bytes_that_occur_twice_are_refused_in_a_write)
{
    mkv_plan_t *plan;

    bind_whole(MKV_WRITE);
    piece(0, 0, 96, 8);
    piece(1, 100, 80, 17);
    slice(0, 1, 0, 0);
    slice(1, (_i == 1) ? 3 : 1, 20, 20);
    if (_i == 1) {
        piece(1, 100, 70, 8); /* 70, 90, 110 */
    }
    if (_i == 2) {
        piece(1, 100, 800, 8);
        slice(1, 4, 8, 7);
    }
    plan = plan_of(2, _i, 0);
    IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_DUPLICATE);
    expect_error((_i == 2) ? "byte 807 of peer B occurs twice"
                           : "byte 96 of peer B occurs twice");
    OK(mkv_plan_destroy(plan));
    give_up();
}
END_TEST

START_TEST(slices_may_interlock)
{
    mkv_plan_t *plan;

    bind_whole(MKV_WRITE);
    piece(0, 0, 0, 8);
    slice(0, 16, 8, 16);
    piece(1, 200, 8, 8);
    slice(1, 16, 8, 16);
    plan = plan_of(2, 1, 0);
    move(plan);
    ck_assert_mem_eq(memory[1] + 8, memory[0] + 200, 8);
    ck_assert_mem_eq(memory[1] + 15 * 16, memory[0] + 15 * 8, 8);
    check_done(plan);
}
END_TEST

START_TEST(a_piece_may_be_read_twice)
{
    mkv_plan_t *plan;

    bind_whole(MKV_READ);
    piece(0, 0, 96, 8);
    piece(1, 100, 92, 8);
    plan = plan_of(2, 0, 0);
    move(plan);
    check_done(plan);
}
END_TEST

/* PL-08 */
START_TEST(what_is_no_piece_of_the_regions_is_refused)
{
    bind_whole(MKV_WRITE);
    piece(0, 0, 0, LENGTH);
    piece(1, 1, 0, LENGTH);
    IS(refused(2, 0), MKV_ERR_BOUNDS);
    expect_error("piece 1: bytes [1, 4097) of the region of 4096 here");
    piece(1, 0, LENGTH - 7, 8);
    IS(refused(2, 0), MKV_ERR_BOUNDS);
    expect_error("piece 1: bytes [4089, 4097) of the region of 4096 at peer B");
    piece(1, UINT64_MAX, 0, 2);
    IS(refused(2, 0), MKV_ERR_BOUNDS);
    piece(1, 0, 0, 0);
    IS(refused(2, 0), MKV_ERR_INVALID);
    expect_error("piece 1: length 0");
    piece(0, 0, 0, 8);
    slice(0, 3, 2048, 8);
    IS(refused(1, 1), MKV_ERR_BOUNDS);
    slice(0, 3, 8, UINT64_MAX / 2);
    IS(refused(1, 1), MKV_ERR_BOUNDS);
    slice(0, 0, 8, 8);
    IS(refused(1, 1), MKV_ERR_INVALID);
    slice(0, 1ull << 32, 0, 0);
    IS(refused(1, 1), MKV_ERR_INVALID);
    give_up();
}
END_TEST

START_TEST(what_is_given_wrongly_is_refused)
{
    mkv_bytes_t bytes[2] = {bytes_of(1, 0), bytes_of(1, 0)};
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_POSITIONS};
    const uint64_t *none = NULL;
    mkv_plan_t *plan;

    bind_whole(MKV_WRITE);
    piece(0, 0, 0, 8);
    IS(mkv_plan_create_bytes(A->maps[1], bytes, 2, 0, &plan), MKV_ERR_DUPLICATE);
    IS(mkv_plan_create_bytes(A->maps[1], bytes, 1, MKV_PLAN_KEEP_ORDER, &plan),
       MKV_ERR_UNSUPPORTED);
    bytes[0].layer = 1;
    IS(mkv_plan_create_bytes(A->maps[1], bytes, 1, 0, &plan), MKV_ERR_PAIRING);
    expect_error("no component 1 layer 1 part 0");
    bytes[0] = bytes[1];
    bytes[0].reserved_end[1] = 1;
    IS(mkv_plan_create_bytes(A->maps[1], bytes, 1, 0, &plan), MKV_ERR_UNSUPPORTED);
    bytes[0] = bytes[1];
    bytes[0].remote = none;
    IS(mkv_plan_create_bytes(A->maps[1], bytes, 1, 0, &plan), MKV_ERR_INVALID);
    bytes[0] = bytes_of(1, 1);
    bytes[0].local_stride = none;
    IS(mkv_plan_create_bytes(A->maps[1], bytes, 1, 0, &plan), MKV_ERR_INVALID);
    plan = plan_of(1, 0, 0);
    IS(mkv_xfer_post(active, 0, plan, &sel, NULL), MKV_ERR_INVALID);
    expect_error("a plan of bytes has no positions");
    OK(mkv_plan_destroy(plan));
    give_up();
}
END_TEST

static const mkv_region_t units_of_64 = {
    .length = LENGTH, .unit_bytes = 48, .unit_stride = 64, .n_units = 64};
static const uint32_t blocks_3_5[] = {3, 5};

/* Bytes between the units belong to others. Loop index: here or there */
/* PL-08 */
START_TEST(bytes_between_units_are_refused)
{
    bind_bytes(MKV_WRITE, "tcp", &units_of_64, &units_of_64, blocks_3_5, 2, NULL);
    piece(0, _i ? 64 : 5 * 64, _i ? 5 * 64 : 64, 49);
    IS(refused(1, 0), MKV_ERR_BOUNDS);
    expect_error("are not all of a unit: units have 48 bytes of each 64");
    piece(0, _i ? 0 : 47, _i ? 47 : 0, 2);
    IS(refused(1, 0), MKV_ERR_BOUNDS);
    piece(0, 0, 0, 48);
    slice(0, 3, _i ? 64 : 63, _i ? 63 : 64);
    IS(refused(1, 1), MKV_ERR_BOUNDS);
    expect_error(_i ? "bytes [63, 111) at peer B" : "bytes [63, 111) here");
    give_up();
}
END_TEST

/* A piece of an exposed unit is exposed, and no other one is. Loop index: a piece; one
 * of a slice; unchecked */
/* PL-08 */
START_TEST(a_piece_of_a_unit_not_exposed_is_refused)
{
    mkv_plan_t *plan;

    bind_bytes(MKV_WRITE, "tcp", &units_of_64, &units_of_64, blocks_3_5, 2, NULL);
    piece(0, 0, 3 * 64 + 47, 1);
    slice(0, 2, 64, 128);
    plan = plan_of(1, 1, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    pair_run();
    OK(mkv_plan_destroy(plan));
    ck_assert_uint_eq(memory[1][5 * 64 + 47], memory[0][64]);
    slice(0, 2, 64, 64);
    piece(1, 0, 2 * 64, 4);
    slice(1, 1, 0, 0);
    plan = plan_of((_i == 1) ? 1 : 2, _i == 1, (_i == 2) ? MKV_PLAN_UNCHECKED : 0);
    if (_i == 2) {
        OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
        pair_run();
    } else {
        IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_BOUNDS);
        expect_error(
            _i ? "peer B has not exposed block 4 to transfer 1"
               : "4 bytes from 128 on: peer B has not exposed block 2 to transfer 1");
    }
    OK(mkv_plan_destroy(plan));
    give_up();
}
END_TEST

static const mkv_region_t dense = {.length = LENGTH, .unit_bytes = 64, .n_units = 64};

/* Blocks 7 and 8 are exposed; a piece over both begins in unit @a both of the memory,
 * and one that goes on into block 9 in unit @a beyond */
static void expose_7_and_8(const mkv_region_t *theirs, uint64_t both, uint64_t beyond)
{
    static const uint32_t blocks[] = {7, 8};
    mkv_plan_t *plan;

    bind_bytes(MKV_WRITE, "tcp", &dense, theirs, blocks, 2, NULL);
    piece(0, 0, both * 64 + 10, 65 + 10);
    plan = plan_of(1, 0, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    pair_run();
    OK(mkv_plan_destroy(plan));
    piece(0, 0, beyond * 64 + 10, 64);
    plan = plan_of(1, 0, 0);
    IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_BOUNDS);
    expect_error("has not exposed block 9");
    OK(mkv_plan_destroy(plan));
    give_up();
}

/* Dense units have nothing between them; all that a piece touches must be exposed */
START_TEST(a_piece_may_go_on_into_the_next_unit)
{
    expose_7_and_8(&dense, 7, 8);
}
END_TEST

/* Unit 0 is the last one in memory: blocks 7 and 8 are units 56 and 55 from its start
 */
START_TEST(units_in_reverse_are_found_from_the_end)
{
    mkv_region_t reverse = dense;

    reverse.flags = MKV_REGION_REVERSE;
    expose_7_and_8(&reverse, 55, 54);
}
END_TEST

/* Memory of two lengths pairs up, and takes no block list */
START_TEST(memory_without_units_may_be_of_another_length)
{
    const mkv_region_t half = {.flags = MKV_REGION_BYTES, .length = LENGTH / 2};
    const mkv_units_t units = {.component = 1,
                               .num_local = 1,
                               .num_remote = 1,
                               .local = block_0,
                               .remote = block_0};
    mkv_plan_t *plan;

    bind_bytes(MKV_WRITE, "tcp", &whole, &half, block_0, 1, NULL);
    IS(mkv_plan_create(A->maps[1], &units, 1, 0, &plan), MKV_ERR_GEOMETRY);
    expect_error("expected mkv_plan_create_bytes()");
    piece(0, LENGTH - 8, 0, 8);
    plan = plan_of(1, 0, 0);
    move(plan);
    ck_assert_mem_eq(memory[1], memory[0] + LENGTH - 8, 8);
    check_done(plan);
}
END_TEST

START_TEST(memory_without_units_has_none)
{
    mkv_region_t region = whole;
    mkv_region_id_t id;

    pair_setup();
    region.size = sizeof(region);
    region.component = 1;
    region.base = memory[0];
    region.n_units = 1;
    IS(mkv_region_add(A->ctx, &region, &id), MKV_ERR_INVALID);
    region.n_units = 0;
    OK(mkv_region_add(A->ctx, &region, &id));
    OK(mkv_regions_commit(A->ctx, NULL));
    region.flags = 0;
    region.n_units = 1;
    region.unit_bytes = LENGTH;
    OK(mkv_region_add(B->ctx, &region, &id));
    OK(mkv_regions_commit(B->ctx, NULL));
    pair_run();
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    IS(mkv_map_create(A->peers[1], NULL, &A->maps[1]), MKV_ERR_GEOMETRY);
    expect_error("MKV_REGION_BYTES is 2 here and 0 there");
    A->maps[1] = NULL;
    pair_teardown();
}
END_TEST

/* Loop index: bytes that arrive, of 24 expected */
/* PL-08 */
START_TEST(bytes_are_counted_where_they_are_expected)
{
    const mkv_expect_t expect = {.component = 1, .num_bytes = 24};
    mkv_plan_t *plan;

    bind_bytes(MKV_WRITE, "tcp", &whole, &whole, block_0, 1, &expect);
    piece(0, 0, 0, (uint64_t)_i);
    plan = plan_of(1, 0, 0);
    move(plan);
    if (_i == 24) {
        check_done(plan);
        return;
    }
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_LENGTH);
    ck_assert_ptr_nonnull(
        strstr(pair_query(passive).error, "bytes arrived, 24 expected"));
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* The two components are counted in bytes and in units, and all bytes of the units are
 * expected. Loop index: one unit, or two */
START_TEST(bytes_and_units_are_expected_together)
{
    static const uint32_t blocks[] = {0, 1};
    const mkv_expect_t expect[] = {{.component = 0, .num_units = 1 + (uint32_t)_i},
                                   {.component = 1, .num_bytes = 24}};
    const mkv_units_t units[] = {{.num_local = 1 + (uint32_t)_i, .local = blocks},
                                 {.component = 1, .num_local = 1, .local = block_0}};
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1,
                                .mode = MKV_WRITE,
                                .role = MKV_DST,
                                .num_legs = 1,
                                .expect = expect,
                                .num_expect = 2};
    mkv_plan_t *of_units, *of_bytes;

    connect_bytes("tcp", &whole, &whole);
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    params.legs = &B->maps[0];
    OK(mkv_xfer_open(B->ctx, &params, &passive));
    OK(mkv_xfer_expose(passive, 0, units, 2, NULL, 0));
    pair_run();
    of_units = pair_plan(A, 1, 0, 0, 1 + (uint32_t)_i, 0);
    OK(mkv_xfer_post(active, 0, of_units, NULL, NULL));
    piece(0, 0, 0, 24);
    of_bytes = plan_of(1, 0, 0);
    move(of_bytes);
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    OK(mkv_plan_destroy(of_units));
    pair_close(active, passive, of_bytes);
    pair_teardown();
}
END_TEST

/* Some calls at a time, slices in the middle of which the credit ends. Loop index: as a
 * list or not */
START_TEST(a_slice_goes_on_where_credit_ended)
{
    unsigned i;
    mkv_plan_t *plan;

    pair_set("MAX_INFLIGHT_OPS", "1");
    mkv_tuning.sgl_max = 7;
    bind_bytes(MKV_WRITE, _i ? "mori_rdma" : "tcp", &whole, &whole, block_0, 1, NULL);
    memcpy(wanted, memory[1], LENGTH);
    for (i = 0; i < 4; ++i) {
        piece(i, 512 * i, 1024 * i, 8);
        slice(i, 10 + i, 24, 32);
    }
    for (i = 0; i < 4 * 16; ++i) {
        if (i % 16 < 10 + i / 16) {
            memcpy(wanted + 1024 * (i / 16) + 32 * (i % 16),
                   memory[0] + 512 * (i / 16) + 24 * (i % 16), 8);
        }
    }
    plan = plan_of(4, 1, 0);
    move(plan);
    ck_assert_mem_eq(memory[1], wanted, LENGTH);
    ck_assert_uint_eq(pair_query(active).completed, 10 + 11 + 12 + 13);
    check_done(plan);
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("bytes");

    tcase_add_loop_test(tcase, what_is_given_moves_and_nothing_else, 0, 8);
    tcase_add_test(tcase, pieces_that_adjoin_are_one);
    tcase_add_test(tcase, a_slice_takes_no_entry_for_its_pieces);
    tcase_add_loop_test(tcase, bytes_that_occur_twice_are_refused_in_a_write, 0, 3);
    tcase_add_test(tcase, slices_may_interlock);
    tcase_add_test(tcase, a_piece_may_be_read_twice);
    tcase_add_test(tcase, what_is_no_piece_of_the_regions_is_refused);
    tcase_add_test(tcase, what_is_given_wrongly_is_refused);
    tcase_add_loop_test(tcase, bytes_between_units_are_refused, 0, 2);
    tcase_add_loop_test(tcase, a_piece_of_a_unit_not_exposed_is_refused, 0, 3);
    tcase_add_test(tcase, a_piece_may_go_on_into_the_next_unit);
    tcase_add_test(tcase, units_in_reverse_are_found_from_the_end);
    tcase_add_test(tcase, memory_without_units_may_be_of_another_length);
    tcase_add_test(tcase, memory_without_units_has_none);
    tcase_add_loop_test(tcase, bytes_are_counted_where_they_are_expected, 23, 26);
    tcase_add_loop_test(tcase, bytes_and_units_are_expected_together, 0, 2);
    tcase_add_loop_test(tcase, a_slice_goes_on_where_credit_ended, 0, 2);
    return pair_main("mkv_bytes", tcase);
}
