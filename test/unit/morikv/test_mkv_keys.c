/* SPDX-License-Identifier: BSD-3-Clause */

/* A peer receives the keys of regions that the maps of both sides name, and no others.
 */

#include "src/memory/map.h"
#include "src/peer/self_blob.h"

#include "test/support/mkv_pair.h"

#include <stdlib.h>
#include <string.h>

#define ROOM 4096u
#define NUM 4u

/* Two components of each side: 0 is pair_open()'s, 1 is this one */
static uint8_t mem[2][2 * ROOM];
static ucs_memory_type_t mem_type;

static mkv_region_id_t add_region(unsigned index, uint32_t component, void *base,
                                  uint32_t flags)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = component,
                           .flags = (uint16_t)flags,
                           .mem_type = (uint16_t)mem_type,
                           .base = base,
                           .length = ROOM,
                           .unit_bytes = PAIR_BYTES,
                           .n_units = ROOM / PAIR_BYTES};
    mkv_region_id_t id;

    OK(mkv_region_add(pair_sides[index].ctx, &region, &id));
    return id;
}

/* Call fake_ucp_reset() first */
static void open_both(void)
{
    mem_type = UCS_MEMORY_TYPE_HOST;
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
}

/* READY, and without maps */
static void connect_both(void)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);

    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    pair_run();
    B->peers[0] = mkv_peer_find(B->ctx, A->ctx->process.ctx_id);
    ck_assert_ptr_nonnull(B->peers[0]);
}

static void add_component(unsigned index)
{
    (void)add_region(index, 1, mem[index], 0);
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

/* Map one component, or all with NULL */
static void make_map(unsigned index, const uint32_t *component)
{
    mkv_map_params_t params = {
        .size = sizeof(params), .components = component, .num_components = 1};

    OK(mkv_map_create(pair_sides[index].peers[!index],
                      (component != NULL) ? &params : NULL,
                      &pair_sides[index].maps[!index]));
    pair_run();
}

static unsigned count_keys(const pair_side_t *side)
{
    const mkv_peer_t *peer = side->peers[side == A];
    const mkv_rmem_t *rmem;
    unsigned count = 0;

    mkv_list_for_each(rmem, &peer->remote.mems, list)
    {
        count += (rmem->rkey != NULL);
    }
    return count;
}

static bool has_key(const pair_side_t *side, uint32_t component)
{
    mkv_rmem_t *rmem = NULL;

    ck_assert_ptr_nonnull(
        mkv_remote_find(&side->peers[side == A]->remote, component, 0, 0, &rmem));
    return rmem->rkey != NULL;
}

/* RG-05 */
START_TEST(a_key_is_sent_when_its_owner_makes_a_map)
{
    fake_ucp_reset();
    open_both();
    connect_both();
    ck_assert_uint_eq(count_keys(A) + count_keys(B), 0);
    make_map(1, NULL);
    ck_assert_uint_eq(count_keys(A), 1);
    ck_assert_uint_eq(count_keys(B), 0);
    make_map(0, NULL);
    ck_assert_uint_eq(count_keys(B), 1);
    pair_teardown();
}
END_TEST

/* Components that one side lacks are in no map. Loop index: the component of the map */
/* RG-05 */
START_TEST(a_map_sends_the_keys_of_its_components_alone)
{
    const uint32_t component = (uint32_t)_i;

    fake_ucp_reset();
    open_both();
    add_component(0);
    add_component(1);
    (void)add_region(1, 2, mem[1] + ROOM, MKV_REGION_OPTIONAL);
    OK(mkv_regions_commit(B->ctx, NULL));
    connect_both();
    make_map(1, &component);
    ck_assert_uint_eq(count_keys(A), 1);
    ck_assert(has_key(A, component));
    OK(mkv_map_destroy(B->maps[0]));
    make_map(1, NULL);
    ck_assert(has_key(A, 0) && has_key(A, 1));
    ck_assert(!has_key(A, 2));
    pair_teardown();
}
END_TEST

/* Host memory that adjoins is one registration, unless its components differ. Loop
 * index: they do */
/* RG-05 */
START_TEST(registrations_are_of_one_component)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 1 + (uint32_t)_i,
                           .part = 1,
                           .base = mem[1] + ROOM,
                           .length = ROOM,
                           .unit_bytes = PAIR_BYTES,
                           .n_units = ROOM / PAIR_BYTES};
    mkv_region_id_t id;

    fake_ucp_reset();
    open_both();
    (void)add_region(1, 1, mem[1], 0);
    OK(mkv_region_add(B->ctx, &region, &id));
    OK(mkv_regions_commit(B->ctx, NULL));
    ck_assert_uint_eq(mkv_list_length(&B->ctx->mems), 2 + (unsigned)_i);
    pair_teardown();
}
END_TEST

START_TEST(what_is_open_to_everybody_has_its_key_at_once)
{
    fake_ucp_reset();
    open_both();
    (void)add_region(1, 1, mem[1], MKV_REGION_ONE_SIDED);
    OK(mkv_regions_commit(B->ctx, NULL));
    connect_both();
    ck_assert_uint_eq(count_keys(A), 1);
    ck_assert(has_key(A, 1));
    pair_teardown();
}
END_TEST

START_TEST(a_blob_for_any_peer_has_no_keys)
{
    uint8_t blob[8192];
    size_t length = sizeof(blob);
    mkv_blob_info_t info;

    fake_ucp_reset();
    open_both();
    OK(mkv_blob(A->ctx, MKV_BLOB_FULL, blob, &length));
    OK(mkv_blob_decode(blob, length, &info));
    ck_assert_uint_eq(info.num_mems, 1);
    ck_assert_uint_eq(info.mems[0].rkey_length, 0);
    mkv_blob_info_cleanup(&info);
    pair_teardown();
}
END_TEST

/* The map of one side may be made long before the other's, which exposes by it */
/* RG-05 */
START_TEST(a_transfer_finds_the_keys_that_it_needs)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    fake_ucp_reset();
    open_both();
    connect_both();
    make_map(0, NULL);
    OK(mkv_map_create(B->peers[0], NULL, &B->maps[0]));
    ck_assert(A->maps[1]->lacks_keys);
    active = pair_bind_write(NUM, &passive); /* nothing was run in between */
    ck_assert(!A->maps[1]->lacks_keys);
    plan = pair_plan(A, 1, NUM, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    ck_assert(pair_holds(B, 0, 0, 2 * NUM - 1));
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* B's map has component 0 alone, so that no key of 1 is here: UCX would end the process
 */
START_TEST(a_post_without_a_key_is_refused)
{
    const uint32_t zero = 0, blocks[] = {0, 1};
    mkv_units_t units = {.component = 1,
                         .num_local = 2,
                         .num_remote = 2,
                         .local = blocks,
                         .remote = blocks};
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    fake_ucp_reset();
    open_both();
    add_component(0);
    add_component(1);
    connect_both();
    make_map(0, NULL);
    make_map(1, &zero);
    active = pair_bind_write(NUM, &passive);
    OK(mkv_plan_create(A->maps[1], &units, 1, 0, &plan));
    IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_PAIRING);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "has sent no key"));
    OK(mkv_plan_destroy(plan));
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* The owner does not put to a reader that has sent no key: the reader gets */
START_TEST(an_owner_without_a_key_does_not_put)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;
    mkv_rmem_t *rmem;
    ucp_rkey_h rkey;

    pair_set("READ_BY", "push");
    pair_setup();
    rmem = mkv_list_head(&B->peers[0]->remote.mems, mkv_rmem_t, list);
    rkey = rmem->rkey;
    rmem->rkey = NULL;
    B->maps[0]->lacks_keys = true;
    active = pair_xfer(A, 1, 1, MKV_READ, MKV_DST);
    passive = pair_xfer(B, 0, 1, MKV_READ, MKV_SRC);
    pair_expose(passive, 0, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_OK);
    ck_assert_uint_eq(pair_stats(B).pulls_served, 0);
    ck_assert(pair_holds(A, 0, 1, NUM - 1));
    rmem->rkey = rkey;
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* The library reads back a readable byte of A's map, and then sends DONE */
START_TEST(what_has_no_key_is_not_read_back)
{
    const uint32_t zero = 0;
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    fake_ucp_reset();
    fake_ucp_set_transport("rc_verbs");
    fake_ucp_set_path("zero-copy rc_verbs/fake0");
    pair_set("FENCE", "flush");
    open_both();
    mem_type = pair_mem_type;
    add_component(0);
    add_component(1);
    connect_both();
    make_map(0, NULL);
    make_map(1, &zero);
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 1);
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Connect both sides. @return Piece for an operation of A on memory that B has opened.
 */
static mkv_op_piece_t open_one_sided(void)
{
    mkv_op_piece_t piece = {.length = PAIR_BYTES};

    fake_ucp_reset();
    open_both();
    piece.local = add_region(0, 1, mem[0], 0);
    piece.remote = add_region(1, 1, mem[1], MKV_REGION_ONE_SIDED);
    OK(mkv_regions_commit(A->ctx, NULL));
    OK(mkv_regions_commit(B->ctx, NULL));
    connect_both();
    return piece;
}

/* The peer announces an open region but sends no key for it */
START_TEST(an_operation_without_a_key_is_refused)
{
    mkv_op_piece_t piece;
    mkv_op_params_t params = {
        .size = sizeof(params), .mode = MKV_WRITE, .pieces = &piece, .num_pieces = 1};
    mkv_rmem_t *rmem = NULL;
    ucp_rkey_h rkey;
    mkv_op_t *op;

    piece = open_one_sided();
    ck_assert_ptr_nonnull(mkv_remote_find(&A->peers[1]->remote, 1, 0, 0, &rmem));
    rkey = rmem->rkey;
    rmem->rkey = NULL;
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_PROTOCOL);
    rmem->rkey = rkey;
    pair_teardown();
}
END_TEST

/* An engine that changes its cache again and again */
/* RG-05 */
START_TEST(grants_end_with_their_registrations)
{
    mkv_region_id_t id;
    unsigned i;

    pair_setup();
    OK(mkv_map_destroy(B->maps[0]));
    (void)add_region(0, 1, mem[0], MKV_REGION_OPTIONAL);
    OK(mkv_regions_commit(A->ctx, NULL));
    (void)add_region(1, 2, mem[1] + ROOM, MKV_REGION_OPTIONAL); /* in no map */
    for (i = 0; i < 50; ++i) {
        id = add_region(1, 1, mem[1], MKV_REGION_OPTIONAL);
        OK(mkv_regions_commit(B->ctx, NULL));
        pair_run();
        make_map(1, NULL);
        ck_assert(has_key(A, 1));
        OK(mkv_map_destroy(B->maps[0]));
        OK(mkv_regions_drop(B->ctx, &id, 1));
        pair_run();
        ck_assert_uint_le(kh_size(&B->peers[0]->remote.granted), 6);
        ck_assert(!has_key(A, 2));
    }
    B->maps[0] = NULL;
    pair_teardown();
}
END_TEST

/* Loop index: the key is used by 0 nothing, 1 an operation, 2 a map */
START_TEST(a_key_goes_with_its_region_and_its_last_user)
{
    mkv_op_piece_t piece;
    mkv_op_params_t params = {
        .size = sizeof(params), .mode = MKV_WRITE, .pieces = &piece, .num_pieces = 1};
    mkv_op_t *op = NULL;
    unsigned num_keys;

    piece = open_one_sided();
    fake_ucp_hold(FAKE_UCP_PUT);
    if (_i == 1) {
        OK(mkv_op_post(A->peers[1], &params, &op));
        pair_run();
        ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_PUT), 1);
    } else if (_i == 2) {
        make_map(0, NULL);
    }
    num_keys = fake_ucp_num_rkeys();
    ck_assert(has_key(A, 1));

    OK(mkv_regions_drop(B->ctx, &piece.remote, 1));
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_rkeys(), num_keys - (_i == 0));
    fake_ucp_hold(0);
    pair_run();
    if (_i == 1) {
        OK(mkv_op_close(op));
    } else if (_i == 2) {
        OK(mkv_map_destroy(A->maps[1]));
        A->maps[1] = NULL;
    }
    ck_assert_uint_eq(fake_ucp_num_rkeys(), num_keys - 1);
    pair_teardown();
}
END_TEST

/* The caller keeps the peer. Loop index as above; the first connection is left, the
 * others break */
START_TEST(keys_end_with_the_connection_and_their_last_user)
{
    mkv_op_piece_t piece = open_one_sided();
    mkv_op_params_t params = {
        .size = sizeof(params), .mode = MKV_WRITE, .pieces = &piece, .num_pieces = 1};
    mkv_peer_attr_t attr = {.size = sizeof(attr)};
    mkv_op_t *op = NULL;

    if (_i == 1) {
        OK(mkv_op_post(A->peers[1], &params, &op));
    } else if (_i == 2) {
        make_map(0, NULL);
    }
    ck_assert(has_key(A, 1));
    OK(mkv_peer_close(B->peers[0], MKV_CLOSE_FORCE));
    if (_i > 0) {
        fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    }
    pair_run();
    OK(mkv_peer_query(A->peers[1], &attr));
    ck_assert_int_gt(attr.state, MKV_PEER_READY);
    ck_assert_uint_eq(attr.num_regions, 0);
    ck_assert_uint_eq(count_keys(A), (_i > 0));
    if (_i == 1) {
        OK(mkv_op_close(op));
    } else if (_i == 2) {
        OK(mkv_map_destroy(A->maps[1]));
        A->maps[1] = NULL;
    }
    ck_assert_uint_eq(count_keys(A), 0);
    IS(mkv_op_post(A->peers[1], &params, &op), MKV_ERR_PEER);
    B->peers[0] = NULL;
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("keys");

    tcase_add_test(tcase, a_key_is_sent_when_its_owner_makes_a_map);
    tcase_add_loop_test(tcase, a_map_sends_the_keys_of_its_components_alone, 0, 2);
    tcase_add_loop_test(tcase, registrations_are_of_one_component, 0, 2);
    tcase_add_test(tcase, what_is_open_to_everybody_has_its_key_at_once);
    tcase_add_test(tcase, a_blob_for_any_peer_has_no_keys);
    tcase_add_test(tcase, a_transfer_finds_the_keys_that_it_needs);
    tcase_add_test(tcase, a_post_without_a_key_is_refused);
    tcase_add_test(tcase, an_owner_without_a_key_does_not_put);
    tcase_add_test(tcase, what_has_no_key_is_not_read_back);
    tcase_add_test(tcase, an_operation_without_a_key_is_refused);
    tcase_add_test(tcase, grants_end_with_their_registrations);
    tcase_add_loop_test(tcase, a_key_goes_with_its_region_and_its_last_user, 0, 3);
    tcase_add_loop_test(tcase, keys_end_with_the_connection_and_their_last_user, 0, 3);
    return pair_main("mkv_keys", tcase);
}
