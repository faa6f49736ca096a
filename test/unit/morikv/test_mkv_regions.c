/* SPDX-License-Identifier: BSD-3-Clause */

/* Regions and their registrations, on a UCP held by the test. */

#include "test/support/mkv_pair.h"

#include "src/memory/region.h"
#include "src/memory/remote_mem.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* RG-06 */
START_TEST(two_hundred_regions_of_one_allocation_are_one_registration)
{
    static char memory[200 * 128];
    mkv_region_t region;
    int i;

    fake_ucp_reset();
    pair_open_bare(0, NULL);
    for (i = 0; i < 200; ++i) { /* with gaps, and in no order */
        region = pair_region(memory + (i * 77 % 200) * 128, 0, i);
        region.mem_type = UCS_MEMORY_TYPE_ROCM;
        region.alloc_base = memory;
        region.alloc_length = sizeof(memory);
        pair_add(A->ctx, &region);
    }
    OK(mkv_regions_commit(A->ctx, NULL));
    ck_assert_uint_eq(fake_ucp_num_memh(), 1);
    ck_assert_uint_eq(pair_stats(A).num_memh, 1);
    pair_teardown();
}
END_TEST

/* RG-07 */
START_TEST(same_memory_twice_is_one_registration)
{
    static char memory[64];
    mkv_region_t region = pair_region(memory, 0, 0);

    fake_ucp_reset();
    pair_open_bare(0, NULL);
    region.mem_type = UCS_MEMORY_TYPE_ROCM;
    pair_add(A->ctx, &region);
    region.component = 1;
    pair_add(A->ctx, &region);
    OK(mkv_regions_commit(A->ctx, NULL));
    region.component = 2; /* later, too */
    pair_add(A->ctx, &region);
    OK(mkv_regions_commit(A->ctx, NULL));
    ck_assert_uint_eq(fake_ucp_num_memh(), 1);
    pair_teardown();
}
END_TEST

/* Adjoining host memory is one, adjoining GPU memory may be two allocations */
START_TEST(adjoining_memory_is_joined_on_the_host_only)
{
    static char memory[128];
    mkv_region_t region = pair_region(memory, 0, 0);

    fake_ucp_reset();
    pair_open_bare(0, NULL);
    region.mem_type = _i ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST;
    pair_add(A->ctx, &region);
    region.base = memory + 64;
    region.layer = 1;
    pair_add(A->ctx, &region);
    OK(mkv_regions_commit(A->ctx, NULL));
    ck_assert_uint_eq(fake_ucp_num_memh(), _i ? 2 : 1);
    pair_teardown();
}
END_TEST

/* UCX asserts that memory has the type of its registration. Loop index: both are new,
 * or one is committed before; the memory is the same, or some of it */
START_TEST(memory_of_two_types_is_refused)
{
    static char memory[256];
    mkv_region_t region = pair_region(memory + 32, 0, 0);
    mkv_region_id_t id;

    fake_ucp_reset();
    pair_open_bare(0, NULL);
    pair_add(A->ctx, &region);
    if (_i & 1) {
        OK(mkv_regions_commit(A->ctx, NULL));
    }
    region.base = memory + ((_i & 2) ? 64 : 32);
    region.layer = 1;
    region.mem_type = UCS_MEMORY_TYPE_ROCM;
    OK(mkv_region_add(A->ctx, &region, &id));
    IS(mkv_regions_commit(A->ctx, NULL), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "expected one type"));
    ck_assert_uint_eq(fake_ucp_num_memh(), _i & 1);
    OK(mkv_regions_drop(A->ctx, &id, 1));
    region.base = memory + 128;
    pair_add(A->ctx, &region);
    OK(mkv_regions_commit(A->ctx, NULL));
    ck_assert_uint_eq(fake_ucp_num_memh(), 2);
    pair_teardown();
}
END_TEST

/* The first region ends inside an allocation that another one states, and a third
 * adjoins that: a joined registration ends with the allocation */
START_TEST(nothing_is_joined_to_an_allocation_that_was_stated)
{
    static char memory[256];
    mkv_region_t region = pair_region(memory, 0, 0);

    fake_ucp_reset();
    pair_open_bare(0, NULL);
    pair_add(A->ctx, &region);
    region.base = region.alloc_base = memory + 32;
    region.alloc_length = 96;
    region.layer = 1;
    pair_add(A->ctx, &region);
    region.base = memory + 128;
    region.alloc_base = NULL;
    region.layer = 2;
    pair_add(A->ctx, &region);
    OK(mkv_regions_commit(A->ctx, NULL));
    ck_assert_uint_eq(fake_ucp_num_memh(), 2);
    pair_teardown();
}
END_TEST

#define QUERIED_BYTES 256

static char around[3 * QUERIED_BYTES];
static char *const queried = around + QUERIED_BYTES;

static mkv_status_t query_mem(void *arg, const void *address, size_t length,
                              void **base_p, size_t *length_p)
{
    (void)arg;
    (void)address;
    (void)length;
    *base_p = queried;
    *length_p = QUERIED_BYTES;
    return MKV_OK;
}

START_TEST(the_callers_hook_gives_allocations)
{
    mkv_open_params_t params = {.size = sizeof(params), .mem_query = query_mem};
    mkv_region_t region = pair_region(queried, 0, 0);

    fake_ucp_reset();
    pair_open_bare(0, &params);
    region.mem_type = UCS_MEMORY_TYPE_ROCM;
    pair_add(A->ctx, &region);
    region.base = queried + 128;
    region.layer = 1;
    pair_add(A->ctx, &region);
    OK(mkv_regions_commit(A->ctx, NULL));
    ck_assert_uint_eq(fake_ucp_num_memh(), 1);
    pair_teardown();
}
END_TEST

/* The hook returns an impossible range. Loop index: the region begins before the range,
 * or ends behind it */
/* RG-04 */
START_TEST(a_hook_that_names_other_memory_is_not_believed)
{
    mkv_open_params_t params = {.size = sizeof(params), .mem_query = query_mem};
    mkv_region_t region = pair_region(queried + (_i ? QUERIED_BYTES - 63 : -1), 0, 0);
    const mkv_mem_t *mem;

    fake_ucp_reset();
    pair_open_bare(0, &params);
    pair_add(A->ctx, &region);
    OK(mkv_regions_commit(A->ctx, NULL));
    mem = mkv_list_head(&A->ctx->mems, mkv_mem_t, list);
    ck_assert_uint_eq(mem->base, (uintptr_t)region.base);
    ck_assert_uint_eq(mem->length, region.length);
    pair_teardown();
}
END_TEST

/* RG-04 */
START_TEST(bad_regions_are_refused_and_change_nothing)
{
    static const mkv_status_t expected[12] = {
        [0] = MKV_ERR_INVALID,  [1] = MKV_ERR_INVALID, [2] = MKV_ERR_INVALID,
        [3] = MKV_ERR_INVALID,  [9] = MKV_ERR_INVALID, [10] = MKV_ERR_UNSUPPORTED,
        [11] = MKV_ERR_INVALID,
    };
    static char memory[64];
    const mkv_region_t good = pair_region(memory, 0, 0);
    mkv_region_t bad[12];
    mkv_region_id_t id = 7;
    size_t i;

    for (i = 0; i < 12; ++i) {
        bad[i] = good;
    }
    bad[0].size = 1;
    bad[1].component = MKV_MAX_COMPONENTS;
    bad[2].base = NULL;
    bad[3].mem_type = UCS_MEMORY_TYPE_LAST;
    bad[4].n_units = 5;      /* ends behind */
    bad[5].unit_stride = 15; /* overlaps */
    bad[6].unit_bytes = 0;
    bad[7].n_units = 0;
    bad[8].alloc_base = memory + 1; /* not inside */
    bad[8].alloc_length = 64;
    bad[9].layer = INT32_MAX; /* layers [lo, hi) could not end behind it */
    bad[10].flags = 1 << 15;  /* undefined flag */
    bad[11].flags = MKV_REGION_BYTES | MKV_REGION_REPLICATED; /* units, and none */
    bad[11].n_units = bad[11].unit_bytes = 0;
    fake_ucp_reset();
    pair_open_bare(0, NULL);
    for (i = 0; i < 12; ++i) {
        IS(mkv_region_add(A->ctx, &bad[i], &id),
           (expected[i] != MKV_OK) ? expected[i] : MKV_ERR_BOUNDS);
        ck_assert_int_eq(strstr(mkv_last_error(), "without overlap; 4 fit") != NULL,
                         (i == 4) || (i == 7));
    }
    ck_assert_uint_eq(id, 7);
    pair_add(A->ctx, &good);
    IS(mkv_region_add(A->ctx, &good, &id), MKV_ERR_DUPLICATE);
    ck_assert_uint_eq(pair_stats(A).num_regions, 1);
    pair_teardown();
}
END_TEST

/* No transport would touch the memory before a transfer does. Loop index: the first
 * page is missing, the last one, none, or all and it is a GPU's */
START_TEST(host_memory_that_is_not_mapped_is_refused)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mkv_region_t region = pair_region(memory + 16, 0, 0);
    mkv_region_id_t id;

    ck_assert_ptr_ne(memory, MAP_FAILED);
    region.length = region.unit_bytes * (3 * page / region.unit_bytes - 1);
    region.mem_type = (_i == 3) ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST;
    if (_i != 2) {
        munmap(memory + ((_i == 1) ? 2 * page : 0), ((_i == 3) ? 3 : 1) * page);
    }
    fake_ucp_reset();
    pair_open_bare(0, NULL);
    OK(mkv_region_add(A->ctx, &region, &id));
    if (_i < 2) {
        IS(mkv_regions_commit(A->ctx, NULL), MKV_ERR_INVALID);
        ck_assert_ptr_nonnull(
            strstr(mkv_last_error(), "are not mapped; expected memory"));
        ck_assert_uint_eq(fake_ucp_num_memh(), 0);
        OK(mkv_regions_drop(A->ctx, &id, 1));
    }
    OK(mkv_regions_commit(A->ctx, NULL));
    ck_assert_uint_eq(fake_ucp_num_memh(), (_i < 2) ? 0 : 1);
    pair_teardown();
}
END_TEST

/* RG-03 */
START_TEST(failed_commit_registers_nothing)
{
    static char memory[4 * 128];
    mkv_region_t region;
    int i;

    fake_ucp_reset();
    pair_open_bare(0, NULL);
    for (i = 0; i < 4; ++i) {
        region = pair_region(memory + i * 128, 0, i);
        pair_add(A->ctx, &region);
    }
    fake_ucp_fail_map(3);
    IS(mkv_regions_commit(A->ctx, NULL), MKV_ERR_TRANSPORT);
    ck_assert_uint_eq(fake_ucp_num_memh(), 0);
    OK(mkv_regions_commit(A->ctx, NULL));
    ck_assert_uint_eq(fake_ucp_num_memh(), 4);
    pair_teardown();
}
END_TEST

/* UCX fails to deregister one of two memories: the caller must not free it, and gets an
 * error. The regions are gone all the same, here and at the peer. Loop index: drop,
 * close */
/* RG-03 */
START_TEST(memory_that_stays_registered_is_an_error)
{
    static char memory[2 * 128];
    mkv_region_id_t ids[2];
    mkv_region_t region;
    unsigned i;

    fake_ucp_reset();
    pair_set("LOG_LEVEL", "error");
    pair_open_bare(0, NULL);
    pair_open_bare(1, NULL);
    for (i = 0; i < 2; ++i) {
        region = pair_region(memory + i * 128, 0, (int32_t)i);
        OK(mkv_region_add(A->ctx, &region, &ids[i]));
        pair_add(B->ctx, &region);
    }
    OK(mkv_regions_commit(A->ctx, NULL));
    OK(mkv_regions_commit(B->ctx, NULL));
    pair_connect(0, 1);
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    fake_ucp_fail_unmap(2);
    if (_i == 0) {
        IS(mkv_regions_drop(A->ctx, ids, 2), MKV_ERR_TRANSPORT);
        ck_assert_ptr_nonnull(strstr(mkv_last_error(), "ucp_mem_unmap(64 bytes at "));
        ck_assert_uint_eq(pair_stats(A).num_regions, 0);
        pair_run();
        ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_REGIONS, NULL), 1);
        IS(mkv_regions_drop(A->ctx, ids, 2), MKV_ERR_NOTFOUND);
    } else {
        IS(mkv_close(A->ctx), MKV_ERR_TRANSPORT);
        pair_forget(A);
    }
    pair_teardown();
}
END_TEST

/* A peer would refuse the whole announcement. Loop index: the longest valid key; a
 * longer one */
START_TEST(a_key_too_long_to_be_sent_is_an_error_of_its_registration)
{
    static char memory[64];
    mkv_region_t region = pair_region(memory, 0, 0);

    fake_ucp_reset();
    pair_open_bare(0, NULL);
    pair_add(A->ctx, &region);
    fake_ucp_set_key_length(MKV_MAX_RKEY_SIZE + (unsigned)_i);
    IS(mkv_regions_commit(A->ctx, NULL), _i ? MKV_ERR_TRANSPORT : MKV_OK);
    ck_assert_uint_eq(fake_ucp_num_memh(), !_i);
    if (_i) {
        ck_assert_str_eq(mkv_last_error(),
                         "UCX packs a key of 4097 bytes, expected at most 4096");
    }
    pair_teardown();
}
END_TEST

#define NUM_CHANGES 120
#define NUM_SLOTS 96

/* The peer's table is the regions here, each with its memory */
static void expect_same_table(const mkv_remote_t *remote, const mkv_ctx_t *ctx)
{
    const mkv_wire_region_t *wire;
    const mkv_lregion_t *region;
    mkv_rmem_t *rmem;

    ck_assert_uint_eq(remote->epoch, ctx->epoch);
    ck_assert_uint_eq(remote->num_regions, ctx->num_regions);
    mkv_list_for_each(region, &ctx->regions, list)
    {
        wire = mkv_remote_find(remote, region->info.component, region->info.layer,
                               region->info.part, &rmem);
        ck_assert_ptr_nonnull(wire);
        ck_assert_uint_eq(wire->id, region->id);
        ck_assert_ptr_eq(mkv_remote_find_id(remote, region->id, &rmem), wire);
        ck_assert_uint_eq(wire->base, (uintptr_t)region->info.base);
        ck_assert_uint_eq(rmem->id, region->mem->id);
        ck_assert_uint_eq(rmem->base, region->mem->base);
        ck_assert(rmem->is_current);
    }
}

/* All regions in each commit made the last of 2000 cost as much as the 2000 */
START_TEST(a_commit_sends_what_was_added)
{
    static char memory[NUM_SLOTS * 128];
    mkv_region_id_t ids[NUM_SLOTS] = {0};
    mkv_region_t region;
    const mkv_remote_t *remote;
    unsigned slot, seed = 1;
    int i;

    fake_ucp_reset();
    pair_setup();
    remote = &B->peers[0]->remote;
    for (i = 0; i < NUM_CHANGES; ++i) {
        seed = seed * 1103515245 + 12345;
        slot = (seed >> 16) % NUM_SLOTS;
        if (ids[slot] == 0) {
            region = pair_region(memory + slot * 128, 0, 1000 + (int32_t)slot);
            OK(mkv_region_add(A->ctx, &region, &ids[slot]));
            OK(mkv_regions_commit(A->ctx, NULL));
            pair_run();
            ck_assert_uint_eq(remote->info.since, A->ctx->epoch - 1);
        } else {
            OK(mkv_regions_drop(A->ctx, &ids[slot], 1));
            ids[slot] = 0;
            pair_run();
            ck_assert_uint_eq(remote->info.since, 0);
        }
        expect_same_table(remote, A->ctx);
    }
    pair_teardown();
}
END_TEST

/* Loop index: what is new since an epoch that is not known here; a name twice */
START_TEST(additions_that_cannot_be_end_the_peer)
{
    mkv_wire_mem_t mem = {.id = 77, .base = 4096, .length = 64};
    mkv_wire_region_t wire = {.id = 900,
                              .base = 4096,
                              .length = 64,
                              .unit_bytes = 64,
                              .unit_stride = 64,
                              .n_units = 1};
    mkv_blob_info_t info;
    mkv_remote_t *remote;

    fake_ucp_reset();
    pair_setup();
    remote = &B->peers[0]->remote;
    info = remote->info;
    info.mems = &mem;
    info.regions = &wire;
    info.num_mems = info.num_regions = 1;
    info.since = remote->epoch + !_i;
    info.epoch = info.since + 1;
    wire.layer = _i ? remote->regions[0].layer : 5000;
    wire.component = remote->regions[0].component;
    wire.part = remote->regions[0].part;
    IS(mkv_remote_update(remote, &info), MKV_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), _i ? "twice" : "continue epoch"));
    pair_teardown();
}
END_TEST

START_TEST(a_type_of_memory_of_a_later_ucx_cuts_no_connection)
{
    static char memory[64];
    mkv_region_t region = pair_region(memory, 1, 0);
    mkv_mem_t *mem;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    region.flags = MKV_REGION_OPTIONAL;
    pair_add(B->ctx, &region);
    OK(mkv_regions_commit(B->ctx, NULL));
    mem = ucs_list_tail(&B->ctx->mems, mkv_mem_t, list);
    mem->type = UCS_MEMORY_TYPE_LAST;
    pair_connect(0, 1);
    mem->type = UCS_MEMORY_TYPE_HOST;
    ck_assert_uint_eq(B->peers[0]->remote.num_regions + 1, B->ctx->num_regions);
    ck_assert_uint_eq(A->peers[1]->remote.num_regions, A->ctx->num_regions);
    ck_assert_uint_eq(mkv_list_length(&A->peers[1]->remote.mems), 1);
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("regions");

    tcase_add_test(tcase, two_hundred_regions_of_one_allocation_are_one_registration);
    tcase_add_test(tcase, same_memory_twice_is_one_registration);
    tcase_add_loop_test(tcase, adjoining_memory_is_joined_on_the_host_only, 0, 2);
    tcase_add_loop_test(tcase, memory_of_two_types_is_refused, 0, 4);
    tcase_add_test(tcase, nothing_is_joined_to_an_allocation_that_was_stated);
    tcase_add_test(tcase, the_callers_hook_gives_allocations);
    tcase_add_loop_test(tcase, a_hook_that_names_other_memory_is_not_believed, 0, 2);
    tcase_add_test(tcase, bad_regions_are_refused_and_change_nothing);
    tcase_add_loop_test(tcase, host_memory_that_is_not_mapped_is_refused, 0, 4);
    tcase_add_test(tcase, failed_commit_registers_nothing);
    tcase_add_loop_test(tcase, memory_that_stays_registered_is_an_error, 0, 2);
    tcase_add_loop_test(
        tcase, a_key_too_long_to_be_sent_is_an_error_of_its_registration, 0, 2);
    tcase_add_test(tcase, a_commit_sends_what_was_added);
    tcase_add_loop_test(tcase, additions_that_cannot_be_end_the_peer, 0, 2);
    tcase_add_test(tcase, a_type_of_memory_of_a_later_ucx_cuts_no_connection);
    return pair_main("mkv_regions", tcase);
}
