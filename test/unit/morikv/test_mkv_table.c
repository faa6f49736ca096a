/* SPDX-License-Identifier: BSD-3-Clause */

/* Searches that cost the same however many objects there are: counted, not timed. */

#include "test/support/mkv_pair.h"

#include "src/base/table.h"
#include "src/memory/region.h"
#include "src/memory/remote_mem.h"

#include <stdlib.h>
#include <string.h>

#define NUM_KEYS 1000

START_TEST(a_table_holds_what_was_added_and_not_removed)
{
    static char objects[NUM_KEYS];
    bool is_there[NUM_KEYS] = {false};
    mkv_table_t table = {0};
    uint64_t state = 5 + (unsigned)_i, key;
    unsigned rounds = mkv_test_rounds(200000, 5000), i;
    bool is_right = true;
    size_t count = 0;

    ck_assert_ptr_null(mkv_table_find(&table, 0));
    mkv_table_remove(&table, 0);
    for (i = 0; (i < rounds) && is_right; ++i) {
        key = mkv_test_random(&state) % NUM_KEYS;
        if (mkv_test_random(&state) & 1) {
            is_right = (mkv_table_add(&table, key << (8 * _i), &objects[key]) ==
                        (is_there[key] ? MKV_ERR_DUPLICATE : MKV_OK));
            count += !is_there[key];
            is_there[key] = true;
        } else {
            mkv_table_remove(&table, key << (8 * _i));
            count -= is_there[key];
            is_there[key] = false;
        }
        key = mkv_test_random(&state) % NUM_KEYS;
        is_right = is_right && (kh_size(&table) == count) &&
                   (mkv_table_find(&table, key << (8 * _i)) ==
                    (is_there[key] ? &objects[key] : NULL));
    }
    /* Check's assertions write to a file each time */
    ck_assert_msg(is_right, "wrong after %u operations", i);
    mkv_table_cleanup(&table);
}
END_TEST

/* ---- Regions --------------------------------------------------------------------- */

#define NUM_REGIONS 100000u
#define REGION_BYTES 64u

static void open_with_many(unsigned index, uint32_t num, bool is_joined)
{
    mkv_open_params_t params = {.size = sizeof(params)};
    pair_side_t *side = &pair_sides[index];
    mkv_region_t region = {.size = sizeof(region),
                           .length = REGION_BYTES,
                           .unit_bytes = 16,
                           .n_units = 4,
                           .mem_type = UCS_MEMORY_TYPE_ROCM};
    mkv_region_id_t id;
    uint32_t i, at;

    OK(mkv_open(NULL, &params, &side->ctx));
    side->length = (size_t)num * REGION_BYTES;
    side->mem = malloc(side->length);
    ck_assert_ptr_nonnull(side->mem);
    for (i = 0; i < num; ++i) {
        at = (uint32_t)((i * 7919ull) % num); /* in no order; a prime */
        region.layer = (int32_t)(at / 2);
        region.part = (uint16_t)(at % 2);
        region.base = side->mem + (size_t)at * REGION_BYTES;
        region.alloc_base = is_joined ? side->mem : NULL;
        region.alloc_length = is_joined ? side->length : 0;
        OK(mkv_region_add(side->ctx, &region, &id));
    }
    OK(mkv_regions_commit(side->ctx, NULL));
}

/* Loop index: one registration for all of them, or one each */
/* RG-06 */
START_TEST(a_hundred_thousand_regions_are_paired_and_dropped)
{
    uint32_t num = mkv_test_rounds(NUM_REGIONS, 2000) / (_i ? 5 : 1), i;
    mkv_region_id_t *ids = calloc(num, sizeof(*ids));
    mkv_map_attr_t attr = {.size = sizeof(attr)};
    const mkv_wire_region_t *theirs;
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_lregion_t *mine;
    mkv_rmem_t *rmem;

    fake_ucp_reset();
    open_with_many(0, num, !_i);
    open_with_many(1, num, !_i);
    ck_assert_uint_eq(fake_ucp_num_memh(), _i ? 2 * num : 2);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    pair_run();
    OK(mkv_map_create(A->peers[1], NULL, &A->maps[1]));
    OK(mkv_map_query(A->maps[1], &attr));
    ck_assert_uint_eq(attr.num_pairs, num);
    for (i = 0; i < num; ++i) {
        mine = mkv_region_by_name(A->ctx, 0, (int32_t)(i / 2), (uint16_t)(i % 2));
        ck_assert_ptr_nonnull(mine);
        ck_assert_ptr_eq(mkv_region_by_id(A->ctx, mine->id), mine);
        ck_assert_ptr_eq(mine->info.base, A->mem + (size_t)i * REGION_BYTES);
        ck_assert(((uintptr_t)mine->info.base >= mine->mem->base) &&
                  ((uintptr_t)mine->info.base + REGION_BYTES <=
                   mine->mem->base + mine->mem->length));
        theirs = mkv_remote_find(&A->peers[1]->remote, 0, (int32_t)(i / 2),
                                 (uint16_t)(i % 2), &rmem);
        ck_assert_ptr_nonnull(theirs);
        ck_assert_uint_eq(theirs->base, (uintptr_t)B->mem + (size_t)i * REGION_BYTES);
        ck_assert(rmem->base <= theirs->base);
        ids[i] = i + 1;
    }
    IS(mkv_regions_drop(A->ctx, ids, num), MKV_ERR_BUSY);
    OK(mkv_regions_drop(B->ctx, ids, num));
    pair_run();
    OK(mkv_map_query(A->maps[1], &attr));
    ck_assert(attr.is_stale);
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    OK(mkv_regions_drop(A->ctx, ids, num));
    ck_assert_uint_eq(fake_ucp_num_memh(), 0);
    ck_assert_ptr_null(mkv_region_by_id(A->ctx, 1));
    free(ids);
    pair_teardown();
}
END_TEST

/* Registrations may overlap: an earlier and longer one covers bytes beyond a later one
 * that begins nearer */
/* RG-06 */
START_TEST(overlapping_registrations_are_searched_whole)
{
    static char memory[4096];
    mkv_open_params_t params = {.size = sizeof(params)};
    mkv_region_t region = {.size = sizeof(region), .unit_bytes = 1, .n_units = 1};
    static const struct {
        size_t at, length;
    } places[] = {{1024, 64}, {0, 2048}, {1030, 200}, {1000, 16}, {3000, 8}};
    mkv_region_id_t id;
    int i;

    fake_ucp_reset();
    OK(mkv_open(NULL, &params, &A->ctx));
    for (i = 0; i < 5; ++i) {
        region.layer = i;
        region.base = memory + places[i].at;
        region.length = places[i].length;
        OK(mkv_region_add(A->ctx, &region, &id));
        OK(mkv_regions_commit(A->ctx, NULL));
    }
    ck_assert_uint_eq(fake_ucp_num_memh(), 3);
    pair_teardown();
}
END_TEST

/* ---- Tables of peers ------------------------------------------------------------- */

/* A correct library sends no such table. Loop index: the same name, the same id, a
 * different registration under an old id */
/* RG-06 */
START_TEST(a_table_that_repeats_is_refused)
{
    mkv_wire_region_t regions[2];
    mkv_wire_mem_t mem = {.id = 1, .rkey_length = 1};
    mkv_blob_info_t info = {.num_mems = 1, .mems = &mem, .regions = regions};
    mkv_remote_t *remote;
    uint32_t num;
    uint64_t epoch;

    pair_setup();
    remote = &A->peers[1]->remote;
    num = remote->num_regions;
    epoch = remote->epoch;
    regions[0] = remote->regions[0];
    regions[1] = remote->regions[1];
    mem.id = remote->region_mems[0]->id;
    mem.mem_type = (uint32_t)remote->region_mems[0]->type;
    mem.base = remote->region_mems[0]->base;
    mem.length = remote->region_mems[0]->length;
    info.num_regions = 2;
    switch (_i) {
    case 0:
        regions[1].layer = regions[0].layer;
        regions[1].part = regions[0].part;
        break;
    case 1:
        regions[1].id = regions[0].id;
        break;
    default:
        mem.base -= (_i == 2);
        mem.length += (_i == 3);
        mem.mem_type ^= (_i == 4);
        break;
    }
    IS(mkv_remote_update(remote, &info), MKV_ERR_PROTOCOL);
    ck_assert_uint_eq(remote->num_regions, num);
    ck_assert_uint_eq(remote->epoch, epoch);
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("table");

    tcase_add_loop_test(tcase, a_table_holds_what_was_added_and_not_removed, 0, 3);
    tcase_add_loop_test(tcase, a_hundred_thousand_regions_are_paired_and_dropped, 0, 2);
    tcase_add_test(tcase, overlapping_registrations_are_searched_whole);
    tcase_add_loop_test(tcase, a_table_that_repeats_is_refused, 0, 5);
    return pair_main("mkv_table", tcase);
}
