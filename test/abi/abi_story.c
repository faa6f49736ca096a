/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A program as a user of libmorikv writes it: every call and every structure, between
 * two contexts over fake_ucp. It is compiled against the header of a release, of this
 * tree, or of a later version (ABI_NEXT: every structure has one member more), and
 * linked with a library of another version; the command line (-include) selects the
 * header.
 *
 * Bytes behind a structure that the library fills must stay unchanged.
 */

#include "test/fake/ucp/fake_ucp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 4u
#define BYTES 64u
#define CANARY 0xc5

#define REQUIRE(_condition)                                                            \
    do {                                                                               \
        if (!(_condition)) {                                                           \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__,            \
                    #_condition, mkv_last_error());                                    \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)
#define OK(_call) REQUIRE((_call) == MKV_OK)

typedef struct side {
    mkv_ctx_t *ctx;
    mkv_peer_t *peer;
    mkv_map_t *map;
    mkv_xfer_t *xfer;
    mkv_region_id_t region;
    unsigned char mem[BLOCKS * BYTES];
    unsigned seen; /* bit t: event of type t */
    mkv_peer_t *ready;
} side_t;

static side_t a, b;
static int is_accept_called;

/* A structure that the library fills, and the bytes behind it */
#define FILLED(_type)                                                                  \
    struct {                                                                           \
        _type it;                                                                      \
        unsigned char behind[64];                                                      \
    }

#define PREPARE(_filled)                                                               \
    do {                                                                               \
        memset(&(_filled), CANARY, sizeof(_filled));                                   \
        (_filled).it.size = sizeof((_filled).it);                                      \
    } while (0)

static int is_untouched(const unsigned char *behind)
{
    size_t i;

    for (i = 0; (i < 64) && (behind[i] == CANARY); ++i) {
    }
    return i == 64;
}

#ifdef ABI_NEXT
#define CHECK_NEW(_filled) REQUIRE((_filled).it.added_member == 0)

/* An older library names the member that it does not know */
static int is_refused(mkv_status_t status, size_t offset)
{
    char text[64];

    snprintf(text, sizeof(text), "the member at byte %zu of ", offset);
    return (status == MKV_ERR_UNSUPPORTED) && (strstr(mkv_last_error(), text) != NULL);
}

#define REFUSED(_value, _call)                                                         \
    do {                                                                               \
        (_value).added_member = 1;                                                     \
        REQUIRE(is_refused(_call, offsetof(__typeof__(_value), added_member)));        \
        (_value).added_member = 0;                                                     \
    } while (0)
#else
#define CHECK_NEW(_filled) (void)0
#define REFUSED(_value, _call) (void)0
#endif

#define CHECK(_filled)                                                                 \
    do {                                                                               \
        REQUIRE((_filled).it.size == sizeof((_filled).it));                            \
        REQUIRE(is_untouched((_filled).behind));                                       \
        CHECK_NEW(_filled);                                                            \
    } while (0)

/* ---- Two contexts ---------------------------------------------------------------- */

static void take_events(side_t *side)
{
    struct {
        mkv_event_t it[2];
        unsigned char behind[64];
    } events;
    size_t count, i;

    do {
        memset(&events, CANARY, sizeof(events));
        OK(mkv_poll(side->ctx, events.it, sizeof(events.it[0]), 2, &count));
        for (i = 0; i < count; ++i) {
            side->seen |= 1u << events.it[i].type;
            if (events.it[i].type == MKV_EV_PEER_READY) {
                side->ready = events.it[i].peer;
            }
            if (events.it[i].type == MKV_EV_EXPOSED) {
                REQUIRE(events.it[i].units[0].num_remote == 2);
                REQUIRE(events.it[i].units[0].remote[1] == 3);
            }
            REQUIRE(events.it[i].text[0] == '\0');
#ifdef ABI_NEXT
            REQUIRE(events.it[i].added_member == 0);
#endif
        }
        REQUIRE(is_untouched(events.behind));
    } while (count > 0);
}

static void run(void)
{
    unsigned moved;

    do {
        moved = mkv_progress(a.ctx) + mkv_progress(b.ctx);
        take_events(&a);
        take_events(&b);
    } while (moved > 0);
}

/* Accept a peer that wants to connect; the structure has the documented length */
static mkv_status_t accept_any(void *arg, const mkv_caller_t *caller)
{
    const size_t released = offsetof(mkv_caller_t, model) + sizeof(caller->model);

    REQUIRE((caller->size >= released) && !strcmp(caller->name, "a"));
    *(int *)arg = 1;
    return MKV_OK;
}

static void open_side(side_t *side, const char *name)
{
    mkv_open_params_t params = {.size = sizeof(params),
                                .name = name,
                                .model = 7,
                                .accept = accept_any,
                                .accept_arg = &is_accept_called};
    mkv_region_t region = {.size = sizeof(region),
                           .flags = MKV_REGION_ONE_SIDED,
                           .base = side->mem,
                           .length = sizeof(side->mem),
                           .unit_bytes = BYTES,
                           .n_units = BLOCKS};

    REFUSED(params, mkv_open(NULL, &params, &side->ctx));
    params.topology.reserved[3] = 1;
    REQUIRE(mkv_open(NULL, &params, &side->ctx) == MKV_ERR_UNSUPPORTED);
    REQUIRE(strstr(mkv_last_error(), "topology.reserved") != NULL);
    params.topology.reserved[3] = 0;
    OK(mkv_open(NULL, &params, &side->ctx));

    REFUSED(region, mkv_region_add(side->ctx, &region, &side->region));
    region.size = 8;
    REQUIRE(mkv_region_add(side->ctx, &region, &side->region) == MKV_ERR_INVALID);
    REQUIRE(strstr(mkv_last_error(), "size is 8, expected") != NULL);
    region.size = sizeof(region);
    memset(side->mem, name[0], sizeof(side->mem));
    OK(mkv_region_add(side->ctx, &region, &side->region));
    OK(mkv_regions_commit(side->ctx, NULL));
}

static void connect_sides(void)
{
    mkv_map_params_t params = {.size = sizeof(params), .flags = MKV_MAP_ANY_RANK};
    FILLED(mkv_peer_attr_t) peer;
    FILLED(mkv_map_attr_t) map;
    unsigned char blob[4096];
    size_t length = sizeof(blob);

    OK(mkv_blob(b.ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(a.ctx, blob, length, NULL, &a.peer));
    run();
    b.peer = b.ready;
    REQUIRE((b.peer != NULL) && is_accept_called);
    PREPARE(peer);
    OK(mkv_peer_query(a.peer, &peer.it));
    CHECK(peer);
    REQUIRE((peer.it.state == MKV_PEER_READY) && !strcmp(peer.it.name, "b"));
    REQUIRE(peer.it.topology.tp_size == 1);

    REFUSED(params, mkv_map_create(a.peer, &params, &a.map));
    OK(mkv_map_create(a.peer, &params, &a.map));
    OK(mkv_map_create(b.peer, NULL, &b.map));
    PREPARE(map);
    OK(mkv_map_query(a.map, &map.it));
    CHECK(map);
    REQUIRE((map.it.num_pairs == 1) && (map.it.components[0].local_units == BLOCKS));
}

/* ---- A transfer ------------------------------------------------------------------ */

static void open_xfers(void)
{
    static const uint32_t blocks[] = {1, 3};
    mkv_units_t units = {.num_local = 2, .local = blocks};
    mkv_expect_t expect = {.num_units = 2};
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 5,
                                .mode = MKV_WRITE,
                                .role = MKV_SRC,
                                .legs = &a.map,
                                .num_legs = 1};

    REFUSED(params, mkv_xfer_open(a.ctx, &params, &a.xfer));
    params.flags = 1;
    REQUIRE(mkv_xfer_open(a.ctx, &params, &a.xfer) == MKV_ERR_UNSUPPORTED);
    params.flags = 0;
    OK(mkv_xfer_open(a.ctx, &params, &a.xfer));
    params.role = MKV_DST;
    params.legs = &b.map;
    params.expect = &expect;
    params.num_expect = 1;
    OK(mkv_xfer_open(b.ctx, &params, &b.xfer));

    units.reserved[1] = 1;
    REQUIRE(mkv_xfer_expose(b.xfer, 0, &units, 1, NULL, 0) == MKV_ERR_UNSUPPORTED);
    REQUIRE(strstr(mkv_last_error(), "units[0].reserved") != NULL);
    units.reserved[1] = 0;
    OK(mkv_xfer_expose(b.xfer, 0, &units, 1, NULL, 0));
    run();
    REQUIRE(a.seen & (1u << MKV_EV_EXPOSED));
}

static mkv_plan_t *make_plan(void)
{
    static const uint32_t local[] = {0, 2}, remote[] = {1, 3};
    mkv_units_t units = {
        .num_local = 2, .num_remote = 2, .local = local, .remote = remote};
    FILLED(mkv_plan_attr_t) attr;
    mkv_plan_t *plan;

    units.flags = 1;
    REQUIRE(mkv_plan_create(a.map, &units, 1, 0, &plan) == MKV_ERR_UNSUPPORTED);
    REQUIRE(strstr(mkv_last_error(), "units[0].flags") != NULL);
    units.flags = 0;
    OK(mkv_plan_create(a.map, &units, 1, MKV_PLAN_KEEP_ORDER, &plan));
    PREPARE(attr);
    OK(mkv_plan_query(plan, &attr.it));
    CHECK(attr);
    REQUIRE(attr.it.bytes == 2 * BYTES);
    return plan;
}

static void post_all(mkv_plan_t *plan)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_POSITIONS, .pos_hi = 1};
    mkv_gate_t gate = {.size = sizeof(gate), .id = 9, .value = 3};

    REFUSED(sel, mkv_xfer_post(a.xfer, 0, plan, &sel, NULL));
    REFUSED(gate, mkv_xfer_post(a.xfer, 0, plan, &sel, &gate));
    sel.fields |= 1u << 31;
    REQUIRE(mkv_xfer_post(a.xfer, 0, plan, &sel, NULL) == MKV_ERR_UNSUPPORTED);
    sel.fields = 0;
    REQUIRE(mkv_xfer_post(a.xfer, 0, plan, &sel, NULL) == MKV_ERR_INVALID);
    REQUIRE(strstr(mkv_last_error(), "expected MKV_SEL_*") != NULL);
    sel.fields = MKV_SEL_POSITIONS;
    OK(mkv_xfer_post(a.xfer, 0, plan, &sel, NULL));
    sel.pos_lo = 1;
    sel.pos_hi = 2;
    OK(mkv_xfer_post(a.xfer, 0, plan, &sel, &gate));
    OK(mkv_gate_signal(a.ctx, 9, 3));
    OK(mkv_xfer_seal(a.xfer, 0));
    run();
    OK(mkv_gate_forget(a.ctx, 9));
}

static void check_done(void)
{
    FILLED(mkv_xfer_attr_t) xfer;
    FILLED(mkv_stats_t) stats;
    mkv_event_t event;
    size_t count;

    REQUIRE((a.seen & (1u << MKV_EV_DONE)) && (b.seen & (1u << MKV_EV_QUIET)));
    REQUIRE((b.mem[BYTES - 1] == 'b') && (b.mem[BYTES] == 'a'));
    REQUIRE((b.mem[3 * BYTES - 1] == 'b') && (b.mem[3 * BYTES] == 'a'));
    PREPARE(xfer);
    OK(mkv_xfer_query(b.xfer, &xfer.it));
    CHECK(xfer);
    REQUIRE((xfer.it.state == MKV_XFER_DONE) && (xfer.it.bytes == 2 * BYTES));
    PREPARE(stats);
    OK(mkv_stats(a.ctx, NULL, &stats.it));
    CHECK(stats);
    REQUIRE(stats.it.bytes_written == 2 * BYTES);
    stats.it.size = 8;
    REQUIRE(mkv_stats(a.ctx, NULL, &stats.it) == MKV_ERR_INVALID);
    REQUIRE(mkv_poll(a.ctx, &event, 8, 1, &count) == MKV_ERR_INVALID);
}

/* ---- Without the peer's application ---------------------------------------------- */

static void write_one_sided(void)
{
    mkv_op_piece_t piece = {.local = a.region, .remote = b.region, .length = BYTES};
    mkv_op_params_t params = {
        .size = sizeof(params), .mode = MKV_WRITE, .pieces = &piece, .num_pieces = 1};
    FILLED(mkv_op_attr_t) attr;
    mkv_op_t *op;

    REFUSED(params, mkv_op_post(a.peer, &params, &op));
    params.flags = 1u << 31;
    REQUIRE(mkv_op_post(a.peer, &params, &op) == MKV_ERR_UNSUPPORTED);
    params.flags = 0;
    OK(mkv_op_post(a.peer, &params, &op));
    run();
    PREPARE(attr);
    OK(mkv_op_query(op, &attr.it));
    CHECK(attr);
    REQUIRE((attr.it.status == MKV_OK) && (attr.it.bytes == BYTES));
    REQUIRE(b.mem[0] == 'a');
    OK(mkv_op_close(op));
}

int main(void)
{
    mkv_plan_t *plan;

    fake_ucp_reset();
    REQUIRE(mkv_version_string()[0] != '\0');
    open_side(&a, "a");
    open_side(&b, "b");
    connect_sides();
    open_xfers();
    plan = make_plan();
    post_all(plan);
    check_done();
    write_one_sided();
    OK(mkv_xfer_close(a.xfer));
    OK(mkv_xfer_close(b.xfer));
    OK(mkv_plan_destroy(plan));
    OK(mkv_map_destroy(a.map));
    OK(mkv_map_destroy(b.map));
    OK(mkv_close(a.ctx));
    OK(mkv_close(b.ctx));
    fake_ucp_reset();
    printf("a program of %u.%u ran with libmorikv %s\n", MKV_API_MAJOR, MKV_API_MINOR,
           mkv_version_string());
    return 0;
}
