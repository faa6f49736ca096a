/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_pair.h"

#include "src/peer/proof.h"
#include "src/peer/self_blob.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PAIR_LAYERS 4

pair_side_t pair_sides[PAIR_MAX_SIDES];
uint32_t pair_layers = PAIR_LAYERS;
ucs_memory_type_t pair_mem_type = UCS_MEMORY_TYPE_ROCM;
bool pair_knows_lists = true;
uint64_t pair_now, pair_tick;

/* Names of the variables that this case has set */
static char pair_options[PAIR_MAX_OPTIONS][64];
static unsigned pair_num_options;

void pair_set(const char *key, const char *value)
{
    char *name;

    ck_assert_uint_lt(pair_num_options, PAIR_MAX_OPTIONS);
    name = pair_options[pair_num_options++];
    mkv_text(name, sizeof(pair_options[0]), "MORIKV_%s", key);
    setenv(name, value, 1);
}

void pair_forget(pair_side_t *side)
{
    memset(side, 0, offsetof(pair_side_t, events));
}

void pair_cleanup(void)
{
    unsigned i;

    while (pair_num_options > 0) {
        unsetenv(pair_options[--pair_num_options]);
    }
    for (i = 0; i < PAIR_MAX_SIDES; ++i) {
        if (pair_sides[i].ctx != NULL) {
            fake_ucp_abandon();
        }
        pair_forget(&pair_sides[i]);
    }
    pair_tick = 0;
    pair_layers = PAIR_LAYERS;
    pair_mem_type = UCS_MEMORY_TYPE_ROCM;
    pair_knows_lists = true;
}

static uint64_t pair_clock(void *arg)
{
    (void)arg;
    return __atomic_add_fetch(&pair_now, pair_tick, __ATOMIC_RELAXED); /* any thread */
}

uint8_t pair_byte(unsigned index, uint32_t layer, uint32_t part, uint32_t block,
                  uint32_t byte)
{
    return (uint8_t)(index * 101 + layer * 41 + part * 17 + block * 3 + byte);
}

static uint8_t *pair_block(const pair_side_t *side, uint32_t layer, uint32_t part,
                           uint32_t block)
{
    return side->mem +
           (((size_t)layer * PAIR_PARTS + part) * PAIR_BLOCKS + block) * PAIR_BYTES;
}

int pair_holds(const pair_side_t *side, uint32_t block, unsigned origin,
               uint32_t origin_block)
{
    uint32_t layer, part, byte;

    for (layer = 0; layer < pair_layers; ++layer) {
        for (part = 0; part < PAIR_PARTS; ++part) {
            for (byte = 0; byte < PAIR_BYTES; ++byte) {
                if (pair_block(side, layer, part, block)[byte] !=
                    pair_byte(origin, layer, part, origin_block, byte)) {
                    return 0;
                }
            }
        }
    }
    return 1;
}

static void pair_fill(pair_side_t *side, unsigned index)
{
    uint32_t layer, part, block, byte;

    for (layer = 0; layer < pair_layers; ++layer) {
        for (part = 0; part < PAIR_PARTS; ++part) {
            for (block = 0; block < PAIR_BLOCKS; ++block) {
                for (byte = 0; byte < PAIR_BYTES; ++byte) {
                    pair_block(side, layer, part, block)[byte] =
                        pair_byte(index, layer, part, block, byte);
                }
            }
        }
    }
}

static void pair_add_regions(pair_side_t *side)
{
    mkv_region_t region = {.size = sizeof(region), .mem_type = pair_mem_type};
    uint32_t layer, part;
    mkv_region_id_t id;

    for (layer = 0; layer < pair_layers; ++layer) {
        for (part = 0; part < PAIR_PARTS; ++part) {
            region.layer = (int32_t)layer;
            region.part = (uint16_t)part;
            region.base = pair_block(side, layer, part, 0);
            region.length = PAIR_BLOCKS * PAIR_BYTES;
            region.unit_bytes = PAIR_BYTES;
            region.n_units = PAIR_BLOCKS;
            region.alloc_base = side->mem;
            region.alloc_length = side->length;
            OK(mkv_region_add(side->ctx, &region, &id));
        }
    }
    OK(mkv_regions_commit(side->ctx, NULL));
}

void pair_open(unsigned index)
{
    mkv_open_params_t params = {.size = sizeof(params), .clock_ns = pair_clock};
    pair_side_t *side = &pair_sides[index];
    char name[] = "A";

    pair_forget(side);
    name[0] = (char)('A' + index);
    params.name = name;
    OK(mkv_open(NULL, &params, &side->ctx));
    side->length = (size_t)pair_layers * PAIR_PARTS * PAIR_BLOCKS * PAIR_BYTES;
    side->mem = malloc(side->length);
    ck_assert_ptr_nonnull(side->mem);
    pair_fill(side, index);
    pair_add_regions(side);
}

void pair_open_bare(unsigned index, const mkv_open_params_t *params)
{
    mkv_open_params_t defaults = {.size = sizeof(defaults)};

    OK(mkv_open(NULL, (params != NULL) ? params : &defaults, &pair_sides[index].ctx));
}

mkv_region_t pair_region(void *base, uint32_t component, int32_t layer)
{
    return (mkv_region_t){.size = sizeof(mkv_region_t),
                          .component = component,
                          .layer = layer,
                          .base = base,
                          .length = 64,
                          .unit_bytes = 16,
                          .n_units = 4};
}

void pair_add(mkv_ctx_t *ctx, const mkv_region_t *region)
{
    mkv_region_id_t id;

    OK(mkv_region_add(ctx, region, &id));
}

void pair_allow_lists(const mkv_peer_t *peer)
{
    mkv_rmem_t *rmem;

    mkv_list_for_each(rmem, &peer->remote.mems, list)
    {
        rmem->lists = MKV_RMEM_LISTS_TAKEN;
    }
}

void pair_connect(unsigned a, unsigned b)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);

    OK(mkv_blob(pair_sides[b].ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(pair_sides[a].ctx, blob, length, NULL, &pair_sides[a].peers[b]));
    pair_run();
    pair_sides[b].peers[a] =
        mkv_peer_find(pair_sides[b].ctx, pair_sides[a].ctx->process.ctx_id);
    ck_assert_ptr_nonnull(pair_sides[b].peers[a]);
    OK(mkv_map_create(pair_sides[a].peers[b], NULL, &pair_sides[a].maps[b]));
    OK(mkv_map_create(pair_sides[b].peers[a], NULL, &pair_sides[b].maps[a]));
    pair_run(); /* each side gets the keys of the other's map */
    if (pair_knows_lists) {
        pair_allow_lists(pair_sides[a].peers[b]);
        pair_allow_lists(pair_sides[b].peers[a]);
    }
}

void pair_setup(void)
{
    pair_setup_over("mori_xgmi");
}

void pair_setup_over(const char *transport)
{
    fake_ucp_reset();
    fake_ucp_set_transport(transport);
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    pair_connect(0, 1);
}

static void pair_side_close(pair_side_t *side)
{
    unsigned i;

    for (i = 0; i < PAIR_MAX_SIDES; ++i) {
        if (side->maps[i] != NULL) {
            OK(mkv_map_destroy(side->maps[i]));
        }
    }
    OK(mkv_close(side->ctx));
    free(side->mem);
    pair_forget(side);
}

void pair_teardown(void)
{
    unsigned i;

    fake_ucp_hold(0);
    for (i = 0; i < PAIR_MAX_SIDES; ++i) {
        if (pair_sides[i].ctx != NULL) {
            pair_side_close(&pair_sides[i]);
        }
    }
    mkv_tuning = (mkv_tuning_t)MKV_TUNING_DEFAULT;
    fake_ucp_reset();
}

void pair_run(void)
{
    unsigned moved, i;
    size_t count;

    do {
        moved = 0;
        for (i = 0; i < PAIR_MAX_SIDES; ++i) {
            pair_side_t *side = &pair_sides[i];
            if ((side->ctx == NULL) || side->is_stopped) {
                continue;
            }
            moved += mkv_progress(side->ctx);
            OK(mkv_poll(side->ctx, side->events + side->num_events,
                        sizeof(side->events[0]), PAIR_MAX_EVENTS - side->num_events,
                        &count));
            side->num_events += count;
            moved += (unsigned)count;
        }
    } while (moved > 0);
}

void pair_run_unpolled(void)
{
    while (mkv_progress(A->ctx) + mkv_progress(B->ctx) > 0) {
    }
}

static int pair_matches(const mkv_event_t *event, mkv_event_type_t type,
                        const mkv_xfer_t *xfer)
{
    return (event->type == type) && ((xfer == NULL) || (event->xfer == xfer));
}

unsigned pair_count(const pair_side_t *side, mkv_event_type_t type,
                    const mkv_xfer_t *xfer)
{
    unsigned count = 0;
    size_t i;

    for (i = 0; i < side->num_events; ++i) {
        count += (unsigned)pair_matches(&side->events[i], type, xfer);
    }
    return count;
}

const mkv_event_t *pair_last(const pair_side_t *side, mkv_event_type_t type,
                             const mkv_xfer_t *xfer)
{
    size_t i;

    for (i = side->num_events; i > 0; --i) {
        if (pair_matches(&side->events[i - 1], type, xfer)) {
            return &side->events[i - 1];
        }
    }
    ck_abort_msg("there is no event %s", mkv_event_string(type));
    return NULL;
}

static mkv_xfer_t *pair_open_xfer(pair_side_t *side, unsigned other,
                                  mkv_xfer_params_t params)
{
    mkv_xfer_t *xfer;

    params.size = sizeof(params);
    params.legs = &side->maps[other];
    params.num_legs = 1;
    OK(mkv_xfer_open(side->ctx, &params, &xfer));
    return xfer;
}

mkv_xfer_t *pair_xfer(pair_side_t *side, unsigned other, uint64_t id, mkv_mode_t mode,
                      mkv_role_t role)
{
    return pair_open_xfer(side, other,
                          (mkv_xfer_params_t){.id = id, .mode = mode, .role = role});
}

mkv_xfer_t *pair_xfer_epoch(pair_side_t *side, unsigned other, mkv_role_t role,
                            uint32_t epoch)
{
    return pair_open_xfer(
        side, other,
        (mkv_xfer_params_t){.id = 1, .epoch = epoch, .mode = MKV_WRITE, .role = role});
}

void pair_expose(mkv_xfer_t *xfer, uint32_t first, uint32_t num)
{
    uint32_t blocks[PAIR_BLOCKS], i;
    mkv_units_t units = {.num_local = num, .local = blocks};

    for (i = 0; i < num; ++i) {
        blocks[i] = first + i;
    }
    OK(mkv_xfer_expose(xfer, MKV_LEG_ALL, &units, 1, NULL, 0));
}

mkv_xfer_t *pair_bind_write(uint32_t num, mkv_xfer_t **passive_p)
{
    mkv_xfer_t *active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);

    *passive_p = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    pair_expose(*passive_p, 0, num);
    pair_run();
    return active;
}

/* Every second block backwards, so that nothing merges */
mkv_plan_t *pair_plan(pair_side_t *side, unsigned other, uint32_t mine, uint32_t theirs,
                      uint32_t num, uint32_t flags)
{
    uint32_t local[PAIR_BLOCKS], remote[PAIR_BLOCKS], i;
    mkv_units_t units = {
        .num_local = num, .num_remote = num, .local = local, .remote = remote};
    mkv_plan_t *plan;

    for (i = 0; i < num; ++i) {
        local[i] = mine + i;
        remote[i] = theirs + num - 1 - i;
    }
    OK(mkv_plan_create(side->maps[other], &units, 1, flags, &plan));
    return plan;
}

void pair_close(mkv_xfer_t *active, mkv_xfer_t *passive, mkv_plan_t *plan)
{
    OK(mkv_xfer_close(active));
    OK(mkv_xfer_close(passive));
    if (plan != NULL) {
        OK(mkv_plan_destroy(plan));
    }
}

void pair_receive_blob(mkv_ctx_t *receiver, mkv_msg_t msg, mkv_ctx_t *of,
                       uint64_t connection, uint32_t seq)
{
    const mkv_audience_t audience = {
        .connection = connection,
        .proof = mkv_proof(of->proof_key, receiver->process.ctx_id)};
    mkv_wbuf_t blob, wbuf;

    mkv_wbuf_init(&blob);
    mkv_wbuf_init(&wbuf);
    OK(mkv_ctx_blob(of, MKV_BLOB_FULL, &audience, &blob));
    msg.data = blob.data;
    msg.length = blob.length;
    OK(mkv_msg_encode(&msg, &wbuf));
    mkv_msg_finish(wbuf.data, wbuf.length, seq);
    mkv_inbox_receive(receiver, wbuf.data, wbuf.length);
    mkv_wbuf_cleanup(&wbuf);
    mkv_wbuf_cleanup(&blob);
}

mkv_xfer_attr_t pair_query(const mkv_xfer_t *xfer)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};

    OK(mkv_xfer_query(xfer, &attr));
    return attr;
}

mkv_stats_t pair_stats(const pair_side_t *side)
{
    mkv_stats_t stats = {.size = sizeof(stats)};

    OK(mkv_stats(side->ctx, NULL, &stats));
    return stats;
}

TCase *pair_tcase(const char *name)
{
    TCase *tcase;

    mkv_test_init();
    tcase = tcase_create(name);
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, NULL, pair_cleanup);
    return tcase;
}

int pair_main(const char *name, TCase *tcase)
{
    Suite *suite = suite_create(name);
    SRunner *runner;
    int num_failed;

    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return num_failed != 0;
}
