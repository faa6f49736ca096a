/* SPDX-License-Identifier: BSD-3-Clause */

/* Contexts, peers and maps on a UCP held by the test. */

#include "test/support/mkv_pair.h"

#include "src/peer/backend.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Peers ----------------------------------------------------------------------- */

/* MD-05 */
START_TEST(hello_once_however_often_it_is_called)
{
    uint8_t blob[4096];
    size_t length;
    mkv_peer_t *again;

    pair_setup();
    length = sizeof(blob);
    OK(mkv_blob(B->ctx, MKV_BLOB_FULL, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &again));
    ck_assert_ptr_eq(again, A->peers[1]);
    length = sizeof(blob);
    OK(mkv_blob(A->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(B->ctx, blob, length, NULL, &again));
    ck_assert_ptr_eq(again, B->peers[0]);
    pair_run();
    ck_assert_uint_eq(pair_stats(A).hellos, 1);
    ck_assert_uint_eq(pair_stats(B).hellos, 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_READY, NULL), 1);
    length = sizeof(blob);
    OK(mkv_blob(A->ctx, MKV_BLOB_ADDR, blob, &length));
    IS(mkv_peer_add(A->ctx, blob, length, NULL, &again), MKV_ERR_INVALID);
    IS(mkv_peer_add(A->ctx, blob, length - 1, NULL, &again), MKV_ERR_PROTOCOL);
    length = 10;
    IS(mkv_blob(A->ctx, MKV_BLOB_ADDR, blob, &length), MKV_ERR_LENGTH);
    ck_assert_uint_gt(length, 10);
    pair_teardown();
}
END_TEST

/* The description is in the message that brought it, which is freed */
START_TEST(nothing_is_kept_of_where_a_description_lay)
{
    const mkv_blob_info_t *info;

    pair_setup();
    info = &A->peers[1]->remote.info;
    ck_assert_ptr_null(info->address);
    ck_assert_ptr_null(info->mems);
    ck_assert_ptr_null(info->regions);
    ck_assert_uint_eq(info->num_mems, 0);
    ck_assert_uint_eq(info->num_regions, 0);
    pair_teardown();
}
END_TEST

START_TEST(both_sides_call_at_once)
{
    uint8_t blob_a[4096], blob_b[4096];
    size_t length_a = sizeof(blob_a), length_b = sizeof(blob_b);

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    OK(mkv_blob(A->ctx, MKV_BLOB_ADDR, blob_a, &length_a));
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob_b, &length_b));
    OK(mkv_peer_add(A->ctx, blob_b, length_b, NULL, &A->peers[1]));
    OK(mkv_peer_add(B->ctx, blob_a, length_a, NULL, &B->peers[0]));
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_READY, NULL), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_READY, NULL), 1);
    pair_teardown();
}
END_TEST

/* A HELLO in flight does not contain regions committed after it */
START_TEST(regions_committed_while_connecting_are_announced)
{
    static char memory[2][64];
    mkv_region_t region = pair_region(memory[0], 0, 0);
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_map_t *maps[2];

    fake_ucp_reset();
    pair_open_bare(0, NULL);
    pair_open_bare(1, NULL);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    pair_add(A->ctx, &region);
    OK(mkv_regions_commit(A->ctx, NULL));
    region.base = memory[1];
    pair_add(B->ctx, &region);
    OK(mkv_regions_commit(B->ctx, NULL));
    pair_run();
    OK(mkv_map_create(A->peers[1], NULL, &maps[0]));
    OK(mkv_map_create(mkv_peer_find(B->ctx, A->ctx->process.ctx_id), NULL, &maps[1]));
    OK(mkv_map_destroy(maps[0]));
    OK(mkv_map_destroy(maps[1]));
    pair_teardown();
}
END_TEST

START_TEST(closing_one_side_notifies_the_other)
{
    mkv_peer_attr_t attr = {.size = sizeof(attr)};

    pair_setup();
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH));
    pair_run();
    ck_assert_int_eq(pair_last(B, MKV_EV_PEER_CLOSED, NULL)->status, MKV_OK);
    ck_assert_str_eq(pair_last(B, MKV_EV_PEER_CLOSED, NULL)->text,
                     "peer A: closed by the peer");
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 0);
    OK(mkv_peer_query(B->peers[0], &attr));
    ck_assert_int_eq(attr.state, MKV_PEER_CLOSED);
    OK(mkv_peer_close(B->peers[0], MKV_CLOSE_FLUSH));
    pair_run();
    OK(mkv_map_destroy(B->maps[0]));
    B->maps[0] = NULL;
    pair_connect(0, 1); /* and again */
    pair_teardown();
}
END_TEST

/* UCX reports it from the code that fails the endpoint, where no call may close it; the
 * fake ends the process otherwise. Loop index: flushes before it that succeed. */
START_TEST(a_connection_that_breaks_while_it_closes_is_closed_by_the_step)
{
    pair_setup();
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    fake_ucp_fail(FAKE_UCP_FLUSH, (unsigned)_i, UCS_ERR_CONNECTION_RESET);
    OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH));
    ck_assert(!mkv_list_is_empty(&A->ctx->dead_peers));
    pair_run();
    ck_assert(mkv_list_is_empty(&A->ctx->dead_peers));
    pair_teardown();
}
END_TEST

static size_t index_of_event(const pair_side_t *side, mkv_event_type_t type)
{
    size_t i;

    for (i = 0; (i < side->num_events) && (side->events[i].type != type); ++i) {
    }
    ck_assert_msg(i < side->num_events, "no event %s", mkv_event_string(type));
    return i;
}

/* The reader has all data and leaves while the source makes no progress. The source
 * then finds the release and the goodbye in one round, and must report success first.
 * Loop index: the reader's second transfer, an incomplete WRITE, has failed by then. */
START_TEST(a_goodbye_is_reported_after_the_transfers)
{
    mkv_xfer_t *source, *reader, *open_one;
    mkv_plan_t *plan;

    pair_setup();
    source = pair_xfer(A, 1, 4, MKV_READ, MKV_SRC);
    reader = pair_xfer(B, 0, 4, MKV_READ, MKV_DST);
    open_one = _i ? pair_xfer(A, 1, 5, MKV_WRITE, MKV_DST) : NULL;
    pair_expose(source, 0, 4);
    pair_run();
    plan = pair_plan(B, 0, 8, 0, 4, 0);
    fake_ucp_stop_worker(fake_ucp_worker(0), 1);
    OK(mkv_xfer_post(reader, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(reader, 0));
    pair_run();
    OK(mkv_xfer_close(reader));
    OK(mkv_plan_destroy(plan));
    OK(mkv_map_destroy(B->maps[0]));
    B->maps[0] = NULL;
    OK(mkv_peer_close(B->peers[0], MKV_CLOSE_FLUSH));
    pair_run();
    fake_ucp_stop_worker(fake_ucp_worker(0), 0);
    pair_run();
    ck_assert_int_eq(pair_query(source).status, MKV_OK);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    ck_assert_uint_lt(index_of_event(A, MKV_EV_DONE), index_of_event(A, MKV_EV_QUIET));
    ck_assert_uint_lt(index_of_event(A, MKV_EV_QUIET),
                      index_of_event(A, MKV_EV_PEER_CLOSED));
    OK(mkv_xfer_close(source));
    if (open_one != NULL) {
        ck_assert_int_eq(pair_query(open_one).status, MKV_ERR_PEER);
        ck_assert_uint_lt(index_of_event(A, MKV_EV_FAILED),
                          index_of_event(A, MKV_EV_PEER_CLOSED));
        OK(mkv_xfer_close(open_one));
    }
    pair_teardown();
}
END_TEST

/* The sides close, and one connects again at once. The goodbye of the former connection
 * arrives at the new connection and must not end it. */
START_TEST(a_late_goodbye_does_not_end_the_next_connection)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_peer_t *again;
    uint32_t i;

    pair_setup();
    OK(mkv_map_destroy(A->maps[1]));
    OK(mkv_map_destroy(B->maps[0]));
    A->maps[1] = B->maps[0] = NULL;
    fake_ucp_hold(FAKE_UCP_AM);
    OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH));
    OK(mkv_peer_close(B->peers[0], MKV_CLOSE_FLUSH));
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &again));
    fake_ucp_hold(0);
    pair_run();
    A->peers[1] = again;
    B->peers[0] = mkv_peer_find(B->ctx, A->ctx->process.ctx_id);
    ck_assert_ptr_nonnull(B->peers[0]);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_READY, NULL), 2);
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 0);
    for (i = 0; i < 8; ++i) { /* as many as the goodbye is behind, and more */
        OK(mkv_send(B->peers[0], 0, i, NULL, 0, NULL, 0));
        OK(mkv_send(A->peers[1], 0, i, NULL, 0, NULL, 0));
    }
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_MSG, NULL), 8);
    ck_assert_uint_eq(pair_count(B, MKV_EV_MSG, NULL), 8);
    pair_teardown();
}
END_TEST

/* OB-03, TR-04 */
START_TEST(strict_mode_refuses_another_backend)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_peer_attr_t attr = {.size = sizeof(attr)};

    pair_set("BACKEND", "xgmi");
    if (_i) {
        pair_set("STRICT", "y");
    }
    fake_ucp_reset();
    fake_ucp_set_transport("tcp");
    pair_open(0);
    pair_open(1);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    pair_run();
    OK(mkv_peer_query(A->peers[1], &attr));
    ck_assert_int_eq(attr.backend, MKV_BACKEND_TCP);
    ck_assert_str_eq(attr.transports, "tcp/fake0");
    if (_i) {
        ck_assert_int_eq(attr.state, MKV_PEER_FAILED);
        ck_assert_int_eq(attr.status, MKV_ERR_BACKEND);
        ck_assert_ptr_nonnull(strstr(attr.error, "tcp/fake0"));
    } else {
        ck_assert_int_eq(attr.state, MKV_PEER_READY);
    }
    pair_teardown();
}
END_TEST

/* The last line of a level, and the text of a dump */
static char kept_lines[MKV_LOG_DEBUG + 1][512];
static char kept_dump[1 << 14];

static void keep_line(void *arg, mkv_log_level_t level, const char *text)
{
    (void)arg;
    if (level <= MKV_LOG_DEBUG) {
        mkv_text(kept_lines[level], sizeof(kept_lines[0]), "%s", text);
    }
}

static void keep_dump(void *arg, const char *line)
{
    size_t length = strlen(kept_dump);

    (void)arg;
    mkv_text(kept_dump + length, sizeof(kept_dump) - length, "%s\n", line);
}

/* Connect A and B, and keep A's log lines; B is @a far hosts away */
static mkv_peer_attr_t connect_kept(uint64_t far)
{
    mkv_open_params_t params = {.size = sizeof(params), .log = keep_line};
    mkv_peer_attr_t attr = {.size = sizeof(attr)};
    uint8_t blob[4096];
    size_t length = sizeof(blob);

    pair_open_bare(0, &params);
    if (far) {
        pair_set("SHM_DIR", "/nowhere"); /* the memory that it sees is not ours */
    }
    pair_open(1);
    B->ctx->process.host_id += far;
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, "prefill", &A->peers[1]));
    pair_run();
    OK(mkv_peer_query(A->peers[1], &attr));
    return attr;
}

/* OB-03 */
START_TEST(a_fallback_is_logged_with_its_reason)
{
    pair_set("BACKEND", "xgmi");
    fake_ucp_reset();
    fake_ucp_set_transport("tcp");
    ck_assert_int_eq(connect_kept(0).backend, MKV_BACKEND_TCP);
    ck_assert_ptr_nonnull(strstr(kept_lines[MKV_LOG_WARN],
                                 "backend xgmi wanted, but tcp is the best that "
                                 "UCX connected: [tcp/fake0]"));
    pair_teardown();
}
END_TEST

/* Loop index: the peer is on another host */
/* OB-03 */
START_TEST(auto_logs_why_no_better_path_is_taken)
{
    mkv_peer_attr_t attr;

    pair_set("LOG_LEVEL", "info");
    pair_set("TLS", "tcp");
    fake_ucp_reset();
    fake_ucp_set_transport("tcp");
    attr = connect_kept((uint64_t)_i);
    ck_assert_int_eq(attr.backend, MKV_BACKEND_TCP);
    ck_assert_int_eq(attr.is_same_host, !_i);
    ck_assert_ptr_nonnull(
        strstr(kept_lines[MKV_LOG_INFO],
               _i ? "peer prefill: tcp carries data, as no better "
                    "backend is there (xgmi: another host, ipc: another host, "
                    "rdma: no lane connected, shm: another host), "
                    "TLS is tcp"
                  : "(xgmi: no lane connected, ipc: no lane "
                    "connected, rdma: no lane connected, shm: no "
                    "lane connected), TLS is tcp"));
    pair_teardown();
}
END_TEST

/* OB-02 */
START_TEST(one_line_names_the_transport_of_the_data)
{
    const char *line = kept_lines[MKV_LOG_INFO];
    mkv_peer_attr_t attr;

    pair_set("LOG_LEVEL", "info");
    fake_ucp_reset();
    attr = connect_kept(0);
    ck_assert_ptr_nonnull(strstr(line, "prefill"));
    ck_assert_ptr_nonnull(strstr(line, "backend xgmi"));
    ck_assert_ptr_nonnull(strstr(line, "mori_xgmi/fake0"));
    ck_assert_int_eq(attr.backend, MKV_BACKEND_XGMI);
    ck_assert_str_eq(attr.transports, "mori_xgmi/fake0");
    OK(mkv_dump(A->ctx, MKV_DUMP_ALL, keep_dump, NULL));
    ck_assert_ptr_nonnull(strstr(kept_dump, "xgmi"));
    ck_assert_ptr_nonnull(strstr(kept_dump, "mori_xgmi/fake0"));
    pair_teardown();
}
END_TEST

START_TEST(messages_arrive_in_order)
{
    uint32_t i, seen = 0;
    size_t k;

    pair_setup();
    fake_ucp_shuffle(3);
    for (i = 0; i < 100; ++i) {
        OK(mkv_send(A->peers[1], 40 + i, i, "h", 1, &i, sizeof(i)));
    }
    pair_run();
    for (k = 0; k < B->num_events; ++k) {
        if (B->events[k].type == MKV_EV_MSG) {
            ck_assert_uint_eq(B->events[k].value, seen);
            ck_assert_uint_eq(B->events[k].id, 40 + seen);
            ++seen;
        }
    }
    ck_assert_uint_eq(seen, 100);
    IS(mkv_send(A->peers[1], 0, 0, NULL, 0, NULL, 65 << 20), MKV_ERR_LENGTH);
    pair_teardown();
}
END_TEST

/* ---- Maps ------------------------------------------------------------------------ */

typedef struct map_case {
    const char *what;
    mkv_status_t status;
    void (*change)(mkv_open_params_t *params, mkv_region_t *region);
} map_case_t;

static void change_bytes(mkv_open_params_t *params, mkv_region_t *region)
{
    (void)params;
    region->unit_bytes = 8;
}

static void change_dtype(mkv_open_params_t *params, mkv_region_t *region)
{
    (void)params;
    region->dtype = 2;
}

static void change_tokens(mkv_open_params_t *params, mkv_region_t *region)
{
    (void)params;
    region->tokens_per_unit = 32;
}

static void change_name(mkv_open_params_t *params, mkv_region_t *region)
{
    (void)params;
    region->component = 3;
    region->layer = 9;
    region->part = 2;
}

static void change_page(mkv_open_params_t *params, mkv_region_t *region)
{
    (void)region;
    params->page_tokens = 17;
}

static void change_model(mkv_open_params_t *params, mkv_region_t *region)
{
    (void)region;
    params->model = 17;
}

static void change_tp_size(mkv_open_params_t *params, mkv_region_t *region)
{
    (void)region;
    params->topology.tp_size = 4;
}

static void change_tp_rank(mkv_open_params_t *params, mkv_region_t *region)
{
    (void)region;
    params->topology.tp_rank = 1;
}

static const map_case_t map_cases[] = {
    {"unit size is 16 here and 8 there", MKV_ERR_GEOMETRY, change_bytes},
    {"data type is 1 here and 2 there", MKV_ERR_DTYPE, change_dtype},
    {"tokens per unit is 16 here and 32 there", MKV_ERR_PAGE, change_tokens},
    {"1 regions here and 1 there; component 3 layer 9 part 2 is missing here",
     MKV_ERR_PAIRING, change_name},
    {"tokens per page is 16 here and 17 there", MKV_ERR_PAGE, change_page},
    {"model fingerprint", MKV_ERR_GEOMETRY, change_model},
    {"tp size is 2 here and 4 there", MKV_ERR_TOPOLOGY, change_tp_size},
    {"tp rank is 0 here and 1 there", MKV_ERR_TOPOLOGY, change_tp_rank},
};

static void open_for_map(unsigned index, const map_case_t *map_case)
{
    static char memory[2][64];
    mkv_open_params_t params = {.size = sizeof(params),
                                .page_tokens = 16,
                                .model = 5,
                                .topology = {.tp_size = 2}};
    mkv_region_t region = pair_region(memory[index], 0, 0);

    region.dtype = 1;
    region.tokens_per_unit = 16;
    if (map_case != NULL) {
        map_case->change(&params, &region);
    }
    pair_open_bare(index, &params);
    pair_add(pair_sides[index].ctx, &region);
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
}

/* MD-10, MD-12 */
START_TEST(every_difference_has_its_code_and_text)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_map_t *map;

    fake_ucp_reset();
    open_for_map(0, NULL);
    open_for_map(1, &map_cases[_i]);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    IS(mkv_map_create(A->peers[1], NULL, &map), MKV_ERR_BUSY);
    pair_run();
    IS(mkv_map_create(A->peers[1], NULL, &map), map_cases[_i].status);
    ck_assert_msg(strstr(mkv_last_error(), map_cases[_i].what) != NULL, "%s",
                  mkv_last_error());
    pair_teardown();
}
END_TEST

/* A component that only one side has, a state for example, and marks as optional */
/* MD-01, MD-10 */
START_TEST(optional_regions_may_be_missing)
{
    static char memory[2][64];
    mkv_region_t region = pair_region(memory[0], 0, 0);
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_map_t *map;

    fake_ucp_reset();
    open_for_map(0, NULL);
    open_for_map(1, NULL);
    region.component = 1;
    region.layer = 4;
    region.part = 2;
    region.flags = _i ? MKV_REGION_OPTIONAL : 0;
    pair_add(A->ctx, &region);
    OK(mkv_regions_commit(A->ctx, NULL));
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    pair_run();
    IS(mkv_map_create(A->peers[1], NULL, &map), _i ? MKV_OK : MKV_ERR_PAIRING);
    if (_i) {
        OK(mkv_map_destroy(map));
    } else {
        ck_assert_ptr_nonnull(
            strstr(mkv_last_error(), "component 1 layer 4 part 2 is missing there"));
    }
    pair_teardown();
}
END_TEST

START_TEST(a_map_in_use_is_not_destroyed)
{
    mkv_xfer_t *xfer;
    mkv_plan_t *plan;

    pair_setup();
    plan = pair_plan(A, 1, 0, 0, 4, 0);
    IS(mkv_map_destroy(A->maps[1]), MKV_ERR_BUSY);
    ck_assert_str_eq(mkv_last_error(),
                     "the map of peer B is used by 1 plans and transfers: close them "
                     "first");
    xfer = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    OK(mkv_plan_destroy(plan));
    IS(mkv_map_destroy(A->maps[1]), MKV_ERR_BUSY);
    OK(mkv_xfer_abort(xfer, MKV_ERR_ABORTED, NULL));
    pair_run();
    OK(mkv_xfer_close(xfer));
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    pair_teardown();
}
END_TEST

static mkv_xfer_t *open_on_map(mkv_ctx_t *ctx, mkv_map_t *const *map, mkv_role_t role)
{
    mkv_xfer_params_t params = {
        .size = sizeof(params), .role = role, .legs = map, .num_legs = 1};
    mkv_xfer_t *xfer;

    OK(mkv_xfer_open(ctx, &params, &xfer));
    return xfer;
}

/* The two sides have a state component, but this request has no state units */
/* MD-01 */
START_TEST(exposing_without_state_units_is_accepted)
{
    static char state[2][64];
    const uint32_t block = 2;
    mkv_units_t units = {
        .num_local = 1, .num_remote = 1, .local = &block, .remote = &block};
    mkv_region_t region = pair_region(NULL, 1, 0);
    mkv_xfer_t *active, *passive;
    mkv_map_t *maps[2];
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_plan_t *plan;
    unsigned i;

    fake_ucp_reset();
    for (i = 0; i < 2; ++i) {
        open_for_map(i, NULL);
        region.base = state[i];
        pair_add(pair_sides[i].ctx, &region);
        OK(mkv_regions_commit(pair_sides[i].ctx, NULL));
    }
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    pair_run();
    OK(mkv_map_create(A->peers[1], NULL, &maps[0]));
    OK(mkv_map_create(mkv_peer_find(B->ctx, A->ctx->process.ctx_id), NULL, &maps[1]));
    active = open_on_map(A->ctx, &maps[0], MKV_SRC);
    passive = open_on_map(B->ctx, &maps[1], MKV_DST);
    OK(mkv_xfer_expose(passive, 0, &units, 1, NULL, 0));
    pair_run();
    ck_assert_uint_eq(pair_last(A, MKV_EV_EXPOSED, active)->num_units, 1);
    OK(mkv_plan_create(maps[0], &units, 1, 0, &plan));
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_query(active).completed, 1);
    pair_close(active, passive, plan);
    OK(mkv_map_destroy(maps[0]));
    OK(mkv_map_destroy(maps[1]));
    pair_teardown();
}
END_TEST

/* RG-03, RG-05 */
START_TEST(dropped_regions_make_maps_stale)
{
    mkv_map_attr_t attr = {.size = sizeof(attr)};
    mkv_xfer_params_t params = {.size = sizeof(params), .num_legs = 1};
    mkv_region_id_t ids[8], i;
    mkv_xfer_t *xfer;

    pair_setup();
    for (i = 0; i < 8; ++i) {
        ids[i] = i + 1;
    }
    IS(mkv_regions_drop(B->ctx, ids, 8), MKV_ERR_BUSY);
    OK(mkv_map_destroy(B->maps[0]));
    B->maps[0] = NULL;
    OK(mkv_regions_drop(B->ctx, ids, 8));
    IS(mkv_regions_drop(B->ctx, ids, 1), MKV_ERR_NOTFOUND);
    ck_assert_uint_eq(pair_stats(B).num_regions, 0);
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_memh(), 1);
    OK(mkv_map_query(A->maps[1], &attr));
    ck_assert_int_eq(attr.is_stale, 1);
    params.legs = &A->maps[1];
    IS(mkv_xfer_open(A->ctx, &params, &xfer), MKV_ERR_STALE);
    pair_teardown();
}
END_TEST

/* ---- Context --------------------------------------------------------------------- */

START_TEST(old_ucx_is_refused)
{
    mkv_ctx_t *ctx;

    fake_ucp_reset();
    fake_ucp_set_version(21);
    IS(mkv_open(NULL, NULL, &ctx), MKV_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "1.21.0"));
}
END_TEST

/* Loop index: the object left open: the peer, a map, a plan and its map */
START_TEST(close_names_the_objects_left_open)
{
    static const mkv_status_t expected[] = {MKV_OK, MKV_ERR_BUSY, MKV_ERR_BUSY};

    pair_setup();
    if (_i == 0) {
        OK(mkv_map_destroy(A->maps[1]));
    }
    if (_i == 2) {
        (void)pair_plan(A, 1, 0, 0, 8, 0);
    }
    IS(mkv_close(A->ctx), expected[_i]);
    free(A->mem);
    pair_forget(A);
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_CLOSED, NULL), 1);
    pair_teardown();
}
END_TEST

/* UCX asserts that nothing is under way on a worker that is destroyed, and so does the
 * fake */
START_TEST(a_connection_that_does_not_close_is_left_to_ucx)
{
    static ucp_worker_h worker_of_b; /* no leak: the fake only loses sight of it */

    pair_setup();
    worker_of_b = fake_ucp_worker(1);
    OK(mkv_map_destroy(A->maps[1]));
    pair_tick = 10 * MKV_NSEC_PER_MSEC;
    fake_ucp_hold(FAKE_UCP_CLOSE);
    IS(mkv_close(A->ctx), MKV_ERR_DRAIN_TIMEOUT);
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_CLOSE), 1);
    ck_assert_uint_eq(fake_ucp_num_memh(), 2);
    free(A->mem);
    pair_forget(A);

    /* UCX's calls end late, and their objects still exist */
    fake_ucp_hold(0);
    pair_run();
    OK(mkv_map_destroy(B->maps[0]));
    OK(mkv_close(B->ctx));
    free(B->mem);
    pair_forget(B);
    while (ucp_worker_progress(fake_ucp_worker(0)) > 0) {
    }
    ck_assert_ptr_nonnull(worker_of_b);
    fake_ucp_abandon();
}
END_TEST

/* The peer does not answer any more. Over queue pairs a flush would end after all
 * retries. Its process cannot be inspected, as if it were on another host. */
START_TEST(a_peer_after_its_goodbye_is_not_waited_for)
{
    uint64_t start;

    pair_set("SHM_DIR", "/nowhere");
    pair_set("LOG_LEVEL", "error");
    pair_setup();
    OK(mkv_map_destroy(A->maps[1]));
    OK(mkv_map_destroy(B->maps[0]));
    OK(mkv_close(A->ctx));
    free(A->mem);
    pair_forget(A);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    pair_tick = MKV_NSEC_PER_MSEC;
    start = pair_now;
    OK(mkv_close(B->ctx));
    ck_assert_uint_lt(pair_now - start, 1000 * MKV_NSEC_PER_MSEC);
    fake_ucp_hold(0);
    free(B->mem);
    pair_forget(B);
}
END_TEST

/* UCX has internal work in progress for ever, which touches no memory */
START_TEST(a_worker_that_does_not_settle_is_left)
{
    static ucp_worker_h worker_of_a;

    pair_setup();
    worker_of_a = fake_ucp_worker(0);
    OK(mkv_map_destroy(A->maps[1]));
    pair_tick = 10 * MKV_NSEC_PER_MSEC;
    fake_ucp_hold(FAKE_UCP_SETTLE);
    OK(mkv_close(A->ctx));
    ck_assert_uint_eq(fake_ucp_num_memh(), 1); /* of the other side */
    free(A->mem);
    pair_forget(A);
    fake_ucp_hold(0);
    pair_run();
    OK(mkv_map_destroy(B->maps[0]));
    OK(mkv_close(B->ctx));
    free(B->mem);
    pair_forget(B);
    ck_assert_ptr_nonnull(worker_of_a);
    fake_ucp_abandon();
}
END_TEST

/* The peer is gone when this side connects to it: UCX keeps a part of the endpoint, and
 * no flush of its worker ends. Nothing of that touches memory. */
START_TEST(a_worker_with_an_endpoint_that_was_not_made_is_left)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_peer_t *peer;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    fake_ucp_hold(FAKE_UCP_MAKE);
    IS(mkv_peer_add(A->ctx, blob, length, NULL, &peer), MKV_ERR_TRANSPORT);
    fake_ucp_hold(0);
    OK(mkv_close(A->ctx));
    ck_assert_uint_eq(fake_ucp_num_memh(), 1); /* of the other side */
    free(A->mem);
    pair_forget(A);
    OK(mkv_close(B->ctx));
    free(B->mem);
    pair_forget(B);
    fake_ucp_abandon();
}
END_TEST

START_TEST(close_names_and_ends_what_was_left_open)
{
    mkv_xfer_t *passive;

    pair_setup();
    (void)pair_bind_write(8, &passive);
    (void)pair_plan(A, 1, 0, 0, 8, 0);
    IS(mkv_close(A->ctx), MKV_ERR_BUSY);
    free(A->mem);
    pair_forget(A);
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_ABORTED);
    ck_assert(pair_query(passive).is_quiet);
    OK(mkv_xfer_close(passive));
    pair_teardown();
}
END_TEST

static unsigned num_lines;

static void count_line(void *arg, const char *line)
{
    (void)arg;
    num_lines += (line[0] != '\0');
}

#define X10 "xxxxxxxxxx"
#define X60 X10 X10 X10 X10 X10 X10
#define E_ACUTE "\xc3\xa9"

/* Loop index: the result for a name; one ending in '~' is cut there and gets a hash */
static const struct {
    const char *given, *name;
} names[] = {
    {"prefill 0", "prefill 0"},
    {X60 "abc", X60 "abc"},
    {X60 "a" E_ACUTE, X60 "a" E_ACUTE},
    {X60 "abcd", X10 X10 X10 X10 X10 "xxxx~"},
    {X60 "abce", X10 X10 X10 X10 X10 "xxxx~"},
    {X10 X10 X10 X10 X10 "xxx" E_ACUTE E_ACUTE E_ACUTE E_ACUTE E_ACUTE E_ACUTE,
     X10 X10 X10 X10 X10 "xxx~"},
    {"d\xc3", "d?~"},
    {"d\xa9", "d?~"},
    {"d\n\x7f", "d??~"},
    {"\xed\xa0\x80", "???~"}, /* half of a surrogate pair */
    {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
};

START_TEST(a_name_is_cut_between_characters)
{
    const size_t length = strlen(names[_i].name);
    char name[MKV_NAME_SIZE];

    mkv_name_set(name, names[_i].given);
    ck_assert_uint_eq(strncmp(name, names[_i].name, length), 0);
    ck_assert_uint_eq(strlen(name),
                      length + ((names[_i].name[length - 1] == '~') ? 8 : 0));
}
END_TEST

START_TEST(different_names_stay_different)
{
    const size_t num = sizeof(names) / sizeof(names[0]);
    char name[2][MKV_NAME_SIZE];
    size_t i, k;

    for (i = 0; i < num; ++i) {
        for (k = i + 1; k < num; ++k) {
            mkv_name_set(name[0], names[i].given);
            mkv_name_set(name[1], names[k].given);
            ck_assert_str_ne(name[0], name[1]);
        }
    }
}
END_TEST

/* Over the wire, too */
START_TEST(a_name_beyond_ascii_reaches_the_peer)
{
    mkv_open_params_t params = {.size = sizeof(params), .name = "d" E_ACUTE "code"};
    mkv_peer_attr_t attr = {.size = sizeof(attr)};
    char blob[4096];
    size_t length = sizeof(blob);
    mkv_peer_t *peer;
    mkv_ctx_t *ctx;

    pair_setup();
    OK(mkv_open(NULL, &params, &ctx));
    OK(mkv_blob(ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &peer));
    OK(mkv_peer_query(peer, &attr));
    ck_assert_str_eq(attr.name, "d" E_ACUTE "code");
    OK(mkv_peer_close(peer, MKV_CLOSE_FORCE));
    pair_run();
    OK(mkv_close(ctx));
    pair_teardown();
}
END_TEST

/* OB-06 */
START_TEST(dump_and_strings_cover_everything)
{
    mkv_xfer_t *active, *passive;
    int i;

    pair_setup();
    active = pair_bind_write(1, &passive);
    OK(mkv_dump(A->ctx, MKV_DUMP_ALL, count_line, NULL));
    ck_assert_uint_gt(num_lines, 40);
    for (i = MKV_OK; i > MKV_ERR_LAST - 2; --i) {
        ck_assert_ptr_nonnull(mkv_status_string((mkv_status_t)i));
    }
    for (i = 0; i <= MKV_EV_WARN + 1; ++i) {
        ck_assert_ptr_nonnull(mkv_event_string((mkv_event_type_t)i));
        ck_assert_ptr_nonnull(mkv_backend_string((mkv_backend_t)i));
    }
    ck_assert_ptr_nonnull(mkv_version_string());
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* ---- Every option ---------------------------------------------------------------- */

/* Each value differs from the default, and the fake UCP accepts it */
static const char *const settings[][2] = {{"BACKEND", "rdma"},
                                          {"STRICT", "y"},
                                          {"TLS", "tcp,self"},
                                          {"NET_DEVICES", "mlx5_0:1"},
                                          {"LANES", "2"},
                                          {"SGL", "no"},
                                          {"READ_BY", "get"},
                                          {"STAGE_BELOW", "4096"},
                                          {"FENCE", "flush"},
                                          {"OVERLAP", "refuse"},
                                          {"MAX_INFLIGHT_OPS", "17"},
                                          {"MAX_INFLIGHT_BYTES", "1g"},
                                          {"MAX_MESSAGE", "1m"},
                                          {"MAX_QUEUED", "8m"},
                                          {"MAX_PEERS", "9"},
                                          {"BIND_TIMEOUT", "59s"},
                                          {"XFER_TIMEOUT", "299s"},
                                          {"RELEASE_TIMEOUT", "298s"},
                                          {"DRAIN_TIMEOUT", "29s"},
                                          {"PEER_CHECK", "400"},
                                          {"PEER_DEAD", "9000"},
                                          {"SHM_DIR", "/tmp"},
                                          {"WAKEUP", "n"},
                                          {"PROGRESS_THREADS", "0"},
                                          {"AM_ID", "78"},
                                          {"LOG_LEVEL", "error"}};

#define NUM_SETTINGS (sizeof(settings) / sizeof(settings[0]))

static unsigned num_found, num_options;

static void find_setting(void *arg, const char *line)
{
    char text[128];
    size_t i;

    (void)arg;
    for (i = 0; i < NUM_SETTINGS; ++i) {
        snprintf(text, sizeof(text), "%s=%s", settings[i][0], settings[i][1]);
        num_found += (strstr(line, text) != NULL);
    }
}

static void count_option(void *arg, const char *line)
{
    (void)arg;
    num_options += (strncmp(line, "MORIKV_", 7) == 0);
}

/* CF-01 */
START_TEST(a_context_dumps_every_option_as_it_was_set)
{
    mkv_config_t *config;
    mkv_ctx_t *ctx;
    size_t i;

    fake_ucp_reset();
    OK(mkv_config_read(NULL, &config));
    for (i = 0; i < NUM_SETTINGS; ++i) {
        OK(mkv_config_set(config, settings[i][0], settings[i][1]));
    }
    OK(mkv_open(config, NULL, &ctx));
    mkv_config_release(config);
    OK(mkv_dump(ctx, MKV_DUMP_CONFIG, find_setting, NULL));
    mkv_config_help(count_option, NULL);
    ck_assert_uint_eq(num_options, NUM_SETTINGS); /* the table above is complete */
    ck_assert_uint_eq(num_found, NUM_SETTINGS);
    OK(mkv_close(ctx));
    fake_ucp_reset();
}
END_TEST

/* ---- A thousand contexts --------------------------------------------------------- */

#define LIVES 1000u

static unsigned count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned num = 0;

    ck_assert_ptr_nonnull(folder);
    while (readdir(folder) != NULL) {
        ++num;
    }
    closedir(folder);
    return num;
}

START_TEST(a_text_that_is_cut_ends_in_dots_behind_a_whole_character)
{
    mkv_news_t event = {0};
    char text[12];

    mkv_text(text, sizeof(text), "%s", "eleven long");
    ck_assert_str_eq(text, "eleven long");
    mkv_text(text, sizeof(text), "%s", "12345678 and more");
    ck_assert_str_eq(text, "12345678...");
    mkv_text(text, sizeof(text), "%s", "1234567\xc3\xa9 and more");
    ck_assert_str_eq(text, "1234567...");

    mkv_event_text(&event, "%300d", 1);
    ck_assert_uint_eq(strlen(event.text), sizeof(((mkv_event_t *)NULL)->text) - 1);
    ck_assert_str_eq(event.text + strlen(event.text) - 4, " ...");
    free(event.text);
}
END_TEST

/* Opened, with memory, connected, and closed */
/* RG-02 */
START_TEST(a_thousand_lives_leave_nothing)
{
    unsigned limit = (getenv("MKV_UNDER_VALGRIND") != NULL) ? 50 : LIVES;
    unsigned i, descriptors = 0;

    for (i = 0; i < limit; ++i) {
        pair_setup();
        ck_assert_uint_gt(fake_ucp_num_memh(), 0);
        pair_teardown();
        ck_assert_uint_eq(fake_ucp_num_memh(), 0);
        if (i == 0) {
            descriptors = count_descriptors();
        }
    }
    ck_assert_uint_eq(count_descriptors(), descriptors);
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("setup");

    tcase_add_test(tcase, hello_once_however_often_it_is_called);
    tcase_add_test(tcase, nothing_is_kept_of_where_a_description_lay);
    tcase_add_test(tcase, both_sides_call_at_once);
    tcase_add_test(tcase, regions_committed_while_connecting_are_announced);
    tcase_add_test(tcase, closing_one_side_notifies_the_other);
    tcase_add_loop_test(
        tcase, a_connection_that_breaks_while_it_closes_is_closed_by_the_step, 0, 2);
    tcase_add_loop_test(tcase, a_goodbye_is_reported_after_the_transfers, 0, 2);
    tcase_add_test(tcase, a_late_goodbye_does_not_end_the_next_connection);
    tcase_add_loop_test(tcase, strict_mode_refuses_another_backend, 0, 2);
    tcase_add_test(tcase, a_fallback_is_logged_with_its_reason);
    tcase_add_loop_test(tcase, auto_logs_why_no_better_path_is_taken, 0, 2);
    tcase_add_test(tcase, one_line_names_the_transport_of_the_data);
    tcase_add_test(tcase, messages_arrive_in_order);
    tcase_add_loop_test(tcase, every_difference_has_its_code_and_text, 0,
                        (int)(sizeof(map_cases) / sizeof(map_cases[0])));
    tcase_add_loop_test(tcase, optional_regions_may_be_missing, 0, 2);
    tcase_add_test(tcase, a_map_in_use_is_not_destroyed);
    tcase_add_test(tcase, exposing_without_state_units_is_accepted);
    tcase_add_test(tcase, dropped_regions_make_maps_stale);
    tcase_add_test(tcase, old_ucx_is_refused);
    tcase_add_loop_test(tcase, close_names_the_objects_left_open, 0, 3);
    tcase_add_test(tcase, a_connection_that_does_not_close_is_left_to_ucx);
    tcase_add_test(tcase, a_peer_after_its_goodbye_is_not_waited_for);
    tcase_add_test(tcase, a_worker_that_does_not_settle_is_left);
    tcase_add_test(tcase, a_worker_with_an_endpoint_that_was_not_made_is_left);
    tcase_add_test(tcase, close_names_and_ends_what_was_left_open);
    tcase_add_loop_test(tcase, a_name_is_cut_between_characters, 0,
                        sizeof(names) / sizeof(names[0]));
    tcase_add_test(tcase, different_names_stay_different);
    tcase_add_test(tcase, a_name_beyond_ascii_reaches_the_peer);
    tcase_add_test(tcase, dump_and_strings_cover_everything);
    tcase_add_test(tcase, a_context_dumps_every_option_as_it_was_set);
    tcase_add_test(tcase, a_text_that_is_cut_ends_in_dots_behind_a_whole_character);
    tcase_add_test(tcase, a_thousand_lives_leave_nothing);
    return pair_main("mkv_setup", tcase);
}
