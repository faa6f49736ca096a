/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/rdma_pair.h"

#include "test/fake/verbs/fake_verbs.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <string.h>

rdma_pair_side_t rdma_pair[2];

void rdma_pair_ok(mkv_status_t status)
{
    ck_assert_msg(status == MKV_OK, "%s: %s", mkv_status_string(status),
                  mkv_last_error());
}

void rdma_pair_open(rdma_pair_side_t *side, const char *name, uint32_t num_blocks,
                    int byte)
{
    const size_t length = (size_t)num_blocks * RDMA_PAIR_BLOCK_BYTES;
    mkv_open_params_t params = {.size = sizeof(params), .name = name};
    mkv_region_t region = {.size = sizeof(region),
                           .mem_type = UCS_MEMORY_TYPE_ROCM,
                           .length = length,
                           .unit_bytes = RDMA_PAIR_BLOCK_BYTES,
                           .n_units = num_blocks,
                           .alloc_length = length};
    mkv_region_id_t id;

    ck_assert_msg(mkv_hip_set_device(0), "%s", mkv_hip_why());
    side->memory = mkv_hip_alloc(length);
    ck_assert_ptr_nonnull(side->memory);
    memset(side->memory, byte, length);
    rdma_pair_ok(mkv_open(NULL, &params, &side->ctx));
    region.base = region.alloc_base = side->memory;
    rdma_pair_ok(mkv_region_add(side->ctx, &region, &id));
    rdma_pair_ok(mkv_regions_commit(side->ctx, NULL));
}

void rdma_pair_progress(void)
{
    mkv_event_t event;
    size_t count, i;

    for (i = 0; i < 2; ++i) {
        mkv_progress(rdma_pair[i].ctx);
        rdma_pair_ok(mkv_poll(rdma_pair[i].ctx, &event, sizeof(event), 1, &count));
        if (count == 1) {
            ++rdma_pair[i].num_events[event.type];
            if (event.type == MKV_EV_PEER_READY) {
                rdma_pair[i].peer = event.peer;
            }
        }
    }
}

void rdma_pair_wait(const rdma_pair_side_t *side, mkv_event_type_t type, unsigned num)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    while (side->num_events[type] < num) {
        rdma_pair_progress();
        ck_assert_uint_eq(rdma_pair[0].num_events[MKV_EV_PEER_FAILED], 0);
        ck_assert_uint_eq(rdma_pair[1].num_events[MKV_EV_PEER_FAILED], 0);
        ck_assert_msg(mkv_test_now_ms() < limit, "no event %s", mkv_event_string(type));
    }
}

void rdma_pair_connect(void)
{
    char blob[8192];
    size_t length = sizeof(blob);

    fake_verbs_gpu_lookup(mkv_hip_device_of);
    rdma_pair_ok(mkv_blob(rdma_pair[1].ctx, MKV_BLOB_ADDR, blob, &length));
    rdma_pair_ok(
        mkv_peer_add(rdma_pair[0].ctx, blob, length, NULL, &rdma_pair[0].peer));
    rdma_pair_wait(&rdma_pair[0], MKV_EV_PEER_READY, 1);
    rdma_pair_wait(&rdma_pair[1], MKV_EV_PEER_READY, 1);
    rdma_pair_ok(mkv_map_create(rdma_pair[0].peer, NULL, &rdma_pair[0].map));
    rdma_pair_ok(mkv_map_create(rdma_pair[1].peer, NULL, &rdma_pair[1].map));
}

mkv_xfer_t *rdma_pair_xfer(rdma_pair_side_t *side, mkv_role_t role, uint64_t id)
{
    mkv_xfer_params_t params;
    mkv_xfer_t *xfer;

    memset(&params, 0, sizeof(params)); /* bytes between members, too */
    params.size = sizeof(params);
    params.id = id;
    params.role = role;
    params.legs = &side->map;
    params.num_legs = 1;
    rdma_pair_ok(mkv_xfer_open(side->ctx, &params, &xfer));
    return xfer;
}

void rdma_pair_close(rdma_pair_side_t *side)
{
    rdma_pair_ok(mkv_close(side->ctx));
    ck_assert(mkv_hip_free(side->memory));
}
