/* SPDX-License-Identifier: BSD-3-Clause */

/* Completion, flush, fence, full queues, pending requests, several endpoints. */

#include "test/conformance/ct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CT_FLOW_SPACE ((size_t)1 << 20)
#define CT_FLOW_MAX_OPS 65536
#define CT_FLOW_PENDING 8


/* The operation a case uses: the first of these the transport claims. */
static int ct_flow_op(const ct_t *ct, ct_op_t *op)
{
    const uint64_t flags = ct->side.attr.cap.flags;

    if (flags & UCT_IFACE_FLAG_PUT_ZCOPY) {
        *op = CT_PUT_ZCOPY;
    } else if (flags & UCT_IFACE_FLAG_PUT_BCOPY) {
        *op = CT_PUT_BCOPY;
    } else if (flags & UCT_IFACE_FLAG_PUT_SHORT) {
        *op = CT_PUT_SHORT;
    } else {
        return 0;
    }

    return 1;
}

typedef struct ct_flow {
    ct_op_t op;
    ct_mem_t local;
    ct_remote_t remote;
    ct_comp_t *comps;
    ucs_status_t *posted;
    size_t count;
} ct_flow_t;

static int ct_flow_open(ct_t *ct, ct_flow_t *flow)
{
    memset(flow, 0, sizeof(*flow));
    if (!ct_flow_op(ct, &flow->op)) {
        snprintf(ct->skip, sizeof(ct->skip), "the transport claims no put");
        return 0;
    }

    ct_connect(ct);
    ct_remote_create(ct, CT_FLOW_SPACE, 0, &flow->remote);
    ck_assert_int_eq(ct_mem_create(&ct->side, CT_FLOW_SPACE,
                                   ct_op_local_type(ct, flow->op), &flow->local),
                     UCS_OK);
    ct_warm_up(ct, flow->op, &flow->local, &flow->remote);
    ck_assert(ct_mem_fill(&flow->local, 0, CT_FLOW_SPACE, 7, 0));
    ct_cmd(ct, CT_CMD_FILL, flow->remote.region, 0, CT_FLOW_SPACE, 8, 0);
    flow->comps = calloc(CT_FLOW_MAX_OPS, sizeof(*flow->comps));
    flow->posted = calloc(CT_FLOW_MAX_OPS, sizeof(*flow->posted));
    return 1;
}

static void ct_flow_close(ct_t *ct, ct_flow_t *flow)
{
    free(flow->comps);
    free(flow->posted);
    ct_mem_destroy(&ct->side, &flow->local);
    ct_remote_destroy(ct, &flow->remote);
}

/* Post the next operation once: 100 bytes to the same place on both sides. */
static ucs_status_t ct_flow_post(ct_t *ct, ct_flow_t *flow, size_t length)
{
    size_t offset = (flow->count * 211) % (CT_FLOW_SPACE - length);
    ct_piece_t piece = {
        .local_offset = offset, .remote_offset = offset, .length = length};
    ct_comp_t *comp = &flow->comps[flow->count];
    ucs_status_t status;

    ct_comp_init(comp);
    status = ct_post(ct, flow->op, &flow->local, &flow->remote, &piece, comp);
    if (!UCS_STATUS_IS_ERR(status)) {
        flow->posted[flow->count++] = status;
    }
    return status;
}

static int ct_flow_is_ended(void *arg)
{
    const ct_flow_t *flow = arg;
    size_t i;

    for (i = 0; i < flow->count; ++i) {
        if ((flow->posted[i] == UCS_INPROGRESS) && (flow->op == CT_PUT_ZCOPY) &&
            (flow->comps[i].num_calls == 0)) {
            return 0;
        }
    }

    return 1;
}

static void ct_flow_expect_once(const ct_flow_t *flow)
{
    unsigned expected;
    size_t i;

    for (i = 0; i < flow->count; ++i) {
        expected = (flow->posted[i] == UCS_INPROGRESS) && (flow->op == CT_PUT_ZCOPY);
        ck_assert_msg(flow->comps[i].num_calls == expected,
                      "operation %zu of %zu: %u callbacks instead of %u", i,
                      flow->count, flow->comps[i].num_calls, expected);
        ck_assert_int_eq(flow->comps[i].uct.status, UCS_OK);
    }
}

static void ct_flow_expect_data(ct_t *ct, const ct_flow_t *flow, size_t length)
{
    size_t offset, i;

    for (i = 0; i < flow->count; i += 1 + flow->count / 50) {
        offset = (i * 211) % (CT_FLOW_SPACE - length);
        ck_assert_uint_eq(
            ct_cmd(ct, CT_CMD_CHECK, flow->remote.region, offset, length, 7, offset)
                ->a[0],
            length);
    }
}

static void every_completion_comes_once(ct_t *ct)
{
    size_t num_immediate = 0, i;
    ucs_status_t status;
    ct_flow_t flow;

    if (!ct_flow_open(ct, &flow)) {
        return;
    }

    while (flow.count < 1000) {
        status = ct_flow_post(ct, &flow, 100);
        if (status == UCS_ERR_NO_RESOURCE) {
            ct_progress(ct);
        } else {
            ck_assert_msg(!UCS_STATUS_IS_ERR(status), "%s", ucs_status_string(status));
        }
    }
    for (i = 0; i < flow.count; ++i) {
        num_immediate += flow.posted[i] == UCS_OK;
    }

    ct_wait(ct, ct_flow_is_ended, &flow, "1000 completions");
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    for (i = 0; i < 100; ++i) {
        ct_progress(ct);
    }
    ct_flow_expect_once(&flow);
    ct_flow_expect_data(ct, &flow, 100);
    ct_flow_close(ct, &flow);
    snprintf(ct->covered, sizeof(ct->covered), "1000 operations, %zu ended at once",
             num_immediate);
}

/* A completed flush means that all earlier operations have completed. */
static void flush_covers_what_was_posted(ct_t *ct)
{
    ucs_status_t status;
    int round, flags = UCT_FLUSH_FLAG_LOCAL;
    ct_flow_t flow;

    if (!ct_flow_open(ct, &flow)) {
        return;
    }

    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK); /* of nothing */
    for (round = 0; round < 20; ++round) {
        ct_cmd(ct, CT_CMD_FILL, flow.remote.region, 0, CT_FLOW_SPACE, 8, 0);
        flow.count = 0;
        do {
            status = ct_flow_post(ct, &flow, 5000);
        } while (!UCS_STATUS_IS_ERR(status) && (flow.count < 50));
        ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
        ct_flow_expect_data(ct, &flow, 5000);
        ct_wait(ct, ct_flow_is_ended, &flow, "completions");
        ct_flow_expect_once(&flow);
    }

    status = ct_flush(ct, UCT_FLUSH_FLAG_REMOTE);
    ck_assert((status == UCS_OK) || (status == UCS_ERR_UNSUPPORTED));
    flags = (status == UCS_OK) ? UCT_FLUSH_FLAG_REMOTE : flags;
    ct_flow_close(ct, &flow);
    snprintf(ct->covered, sizeof(ct->covered), "20 rounds, remote flush %s",
             (flags == UCT_FLUSH_FLAG_REMOTE) ? "supported" : "unsupported");
}

static void interface_flush_covers_all_endpoints(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;
    ct_flow_t flow;

    if (!ct_flow_open(ct, &flow)) {
        return;
    }

    while (flow.count < 50) {
        status = ct_flow_post(ct, &flow, 3000);
        ck_assert((status == UCS_ERR_NO_RESOURCE) || !UCS_STATUS_IS_ERR(status));
        if (status == UCS_ERR_NO_RESOURCE) {
            ct_progress(ct);
        }
    }

    while ((status = uct_iface_flush(ct->side.iface, 0, NULL)) != UCS_OK) {
        ck_assert_msg(!UCS_STATUS_IS_ERR(status) || (status == UCS_ERR_NO_RESOURCE),
                      "%s", ucs_status_string(status));
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "the interface never gets idle");
    }

    ct_flow_expect_data(ct, &flow, 3000);
    ct_wait(ct, ct_flow_is_ended, &flow, "completions");
    ct_flow_expect_once(&flow);
    ct_flow_close(ct, &flow);
    snprintf(ct->covered, sizeof(ct->covered), "50 operations, then an idle interface");
}

/* Operations posted after a fence land after those posted before it. */
static void fence_orders_puts(ct_t *ct)
{
    static const size_t lengths[] = {1, 8, 200000, 100, 65536, 5000};
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const uint64_t last = CT_ARRAY_SIZE(lengths);
    ct_mem_t source[CT_ARRAY_SIZE(lengths)];
    ct_comp_t comp;
    ucs_status_t status;
    ct_flow_t flow;
    size_t i, round;

    if (!ct_flow_open(ct, &flow)) {
        return;
    }

    for (i = 0; i < last; ++i) {
        ck_assert_int_eq(ct_mem_create(&ct->side, 200000, flow.local.type, &source[i]),
                         UCS_OK);
        ct_mem_fill(&source[i], 0, 200000, 100 + i, 0);
    }

    /* All write to the same place, each of another length, in one of two orders. */
    for (round = 0; round < 20; ++round) {
        for (i = 0; i < last; ++i) {
            size_t which = (round & 1) ? last - 1 - i : i;
            ct_piece_t piece = {.length = lengths[which]};

            if (piece.length > ct_op_max(ct, flow.op)) {
                piece.length = ct_op_max(ct, flow.op);
            }
            ct_comp_init(&flow.comps[flow.count]);
            while ((status = ct_post(ct, flow.op, &source[which], &flow.remote, &piece,
                                     &flow.comps[flow.count])) == UCS_ERR_NO_RESOURCE) {
                ct_progress(ct);
                ck_assert(mkv_test_now_ms() < deadline);
            }
            ck_assert(!UCS_STATUS_IS_ERR(status));
            flow.posted[flow.count++] = status;
            while ((status = uct_ep_fence(ct->ep, 0)) == UCS_ERR_NO_RESOURCE) {
                ct_progress(ct);
            }
            ck_assert_msg(status == UCS_OK, "fence: %s", ucs_status_string(status));
        }
        ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
        i = (round & 1) ? 0 : last - 1;
        ck_assert_uint_eq(
            ct_cmd(ct, CT_CMD_CHECK, flow.remote.region, 0, lengths[i], 100 + i, 0)
                ->a[0],
            lengths[i]);
    }

    ct_comp_init(&comp);
    status = uct_iface_fence(ct->side.iface, 0);
    ck_assert((status == UCS_OK) || (status == UCS_ERR_NO_RESOURCE));
    ct_wait(ct, ct_flow_is_ended, &flow, "completions");
    ct_flow_expect_once(&flow);
    for (i = 0; i < last; ++i) {
        ct_mem_destroy(&ct->side, &source[i]);
    }
    ct_flow_close(ct, &flow);
    snprintf(ct->covered, sizeof(ct->covered), "20 rounds of %zu overlapping puts",
             (size_t)last);
}

/* ---- a full queue, and requests that wait for room ---- */

static size_t ct_flow_pack_some(void *dest, void *arg)
{
    memset(dest, 1, *(size_t *)arg);
    return *(size_t *)arg;
}

/* Use up the transport's resources without the peer's help: by messages if there are
 * any, by puts otherwise. */
static ucs_status_t ct_flow_fill_one(ct_t *ct, ct_flow_t *flow)
{
    size_t length = 1000;
    ssize_t sent;

    if (ct->side.attr.cap.flags & UCT_IFACE_FLAG_AM_BCOPY) {
        sent = uct_ep_am_bcopy(ct->ep, CT_AM_ID_FILL, ct_flow_pack_some, &length, 0);
        return (sent < 0) ? (ucs_status_t)sent : UCS_OK;
    }

    if (flow->count == CT_FLOW_MAX_OPS) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    return ct_flow_post(ct, flow, 64);
}

/* Fill until there are no resources. Zero if that never happens. */
static size_t ct_flow_fill(ct_t *ct, ct_flow_t *flow)
{
    const size_t limit = 200000;
    ucs_status_t status = UCS_OK;
    size_t count = 0;

    if (ct->variant->is_other_process) {
        ct_cmd(ct, CT_CMD_HOLD, 0, 0, 0, 0, 0);
    }

    while (!UCS_STATUS_IS_ERR(status) && (count < limit)) {
        status = ct_flow_fill_one(ct, flow);
        ++count;
    }

    if (status != UCS_ERR_NO_RESOURCE) {
        ck_assert_msg(!UCS_STATUS_IS_ERR(status) || (status == UCS_ERR_EXCEEDS_LIMIT),
                      "operation %zu: %s", count, ucs_status_string(status));
        snprintf(ct->skip, sizeof(ct->skip),
                 "never without resources in %zu operations", count);
        return 0;
    }

    return count;
}

static void full_queue_is_reported_and_recovers(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;
    ct_flow_t flow;
    size_t count;

    if (!ct_flow_open(ct, &flow)) {
        return;
    }

    count = ct_flow_fill(ct, &flow);
    if (count > 0) {
        /* any request ends the peer's pause */
        ct_cmd(ct, CT_CMD_AM_STATS, 0, 0, 0, 0, 0);
        while ((status = ct_flow_fill_one(ct, &flow)) == UCS_ERR_NO_RESOURCE) {
            ct_progress(ct);
            ck_assert_msg(mkv_test_now_ms() < deadline, "no resources come back");
        }
        ck_assert_msg(!UCS_STATUS_IS_ERR(status), "%s", ucs_status_string(status));
        snprintf(ct->covered, sizeof(ct->covered), "full after %zu operations", count);
    } else {
        ct_cmd(ct, CT_CMD_AM_STATS, 0, 0, 0, 0, 0);
    }

    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    ct_wait(ct, ct_flow_is_ended, &flow, "completions");
    ct_flow_close(ct, &flow);
}

typedef struct ct_pending {
    uct_pending_req_t req;
    ct_t *ct;
    ct_flow_t *flow;
    int index;
    int *num_done; /**< Requests done, shared by all */
    int order;     /**< Place in which it was done, -1 before */
    unsigned num_calls;
    unsigned num_purged;
} ct_pending_t;

static ucs_status_t ct_pending_run(uct_pending_req_t *req)
{
    ct_pending_t *pending = ucs_container_of(req, ct_pending_t, req);
    ucs_status_t status;

    ++pending->num_calls;
    status = ct_flow_fill_one(pending->ct, pending->flow);
    if (status == UCS_ERR_NO_RESOURCE) {
        return UCS_ERR_NO_RESOURCE;
    }

    pending->order = (*pending->num_done)++;
    return UCS_OK;
}

/* A flush that waits behind requests, and before others. */
static ucs_status_t ct_pending_flush(uct_pending_req_t *req)
{
    ct_pending_t *pending = ucs_container_of(req, ct_pending_t, req);
    ucs_status_t status;

    ++pending->num_calls;
    status = uct_ep_flush(pending->ct->ep, UCT_FLUSH_FLAG_LOCAL, NULL);
    if (status == UCS_ERR_NO_RESOURCE) {
        return UCS_ERR_NO_RESOURCE;
    }

    ck_assert_msg(!UCS_STATUS_IS_ERR(status), "%s", ucs_status_string(status));
    pending->order = (*pending->num_done)++;
    return UCS_OK;
}

static void ct_pending_purged(uct_pending_req_t *req, void *arg)
{
    ct_pending_t *pending = ucs_container_of(req, ct_pending_t, req);

    ++pending->num_purged;
    ++*(unsigned *)arg;
}

static int ct_pending_is_done(void *arg)
{
    const int *num_done = arg;

    return *num_done == CT_FLOW_PENDING;
}

/* Every second operation is of a different kind. Returns how many were queued;
 * UCS_ERR_BUSY means that there is room again. */
static int ct_pending_add(ct_t *ct, ct_flow_t *flow, ct_pending_t *pending,
                          int *num_done, uct_pending_callback_t second)
{
    ucs_status_t status;
    int i;

    for (i = 0; i < CT_FLOW_PENDING; ++i) {
        memset(&pending[i], 0, sizeof(pending[i]));
        pending[i].req.func = (i % 2 == 0) ? ct_pending_run : second;
        pending[i].ct = ct;
        pending[i].flow = flow;
        pending[i].index = i;
        pending[i].order = -1;
        pending[i].num_done = num_done;
        status = uct_ep_pending_add(ct->ep, &pending[i].req, 0);
        if (status == UCS_ERR_BUSY) {
            return i;
        }
        ck_assert_msg(status == UCS_OK, "%s", ucs_status_string(status));
    }

    return i;
}

static void ct_pending_run_all(ct_t *ct, uct_pending_callback_t second)
{
    ct_pending_t pending[CT_FLOW_PENDING];
    int num_done = 0, i;
    ct_flow_t flow;

    if (!ct_flow_open(ct, &flow)) {
        return;
    }

    if (ct_flow_fill(ct, &flow) > 0) {
        ck_assert_int_eq(ct_pending_add(ct, &flow, pending, &num_done, second),
                         CT_FLOW_PENDING);
        ck_assert_int_eq(num_done, 0); /* never from inside of add */
        ct_cmd(ct, CT_CMD_AM_STATS, 0, 0, 0, 0, 0);
        ct_wait(ct, ct_pending_is_done, &num_done, "pending requests");
        for (i = 0; i < CT_FLOW_PENDING; ++i) {
            ck_assert_int_eq(pending[i].order, i);
            ck_assert_uint_ge(pending[i].num_calls, 1);
        }
        snprintf(ct->covered, sizeof(ct->covered), "%d requests", CT_FLOW_PENDING);
    } else {
        ct_cmd(ct, CT_CMD_AM_STATS, 0, 0, 0, 0, 0);
    }

    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    ct_wait(ct, ct_flow_is_ended, &flow, "completions");
    ct_flow_close(ct, &flow);
}

static void pending_requests_run_in_order(ct_t *ct)
{
    ct_pending_run_all(ct, ct_pending_run);
}

static void flushes_among_pending_requests_end(ct_t *ct)
{
    ct_pending_run_all(ct, ct_pending_flush);
}

static void purged_requests_come_back_once(ct_t *ct)
{
    ct_pending_t pending[CT_FLOW_PENDING];
    unsigned num_purged = 0;
    int num_done = 0, i;
    ct_flow_t flow;

    if (!ct_flow_open(ct, &flow)) {
        return;
    }

    if (ct_flow_fill(ct, &flow) > 0) {
        ck_assert_int_eq(ct_pending_add(ct, &flow, pending, &num_done, ct_pending_run),
                         CT_FLOW_PENDING);
        uct_ep_pending_purge(ct->ep, ct_pending_purged, &num_purged);
        ck_assert_uint_eq(num_purged, CT_FLOW_PENDING);
        ct_cmd(ct, CT_CMD_AM_STATS, 0, 0, 0, 0, 0);
        ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
        for (i = 0; i < CT_FLOW_PENDING; ++i) {
            ck_assert_uint_eq(pending[i].num_purged, 1);
            ck_assert_int_eq(pending[i].order, -1);
        }
        snprintf(ct->covered, sizeof(ct->covered), "%d requests", CT_FLOW_PENDING);
    } else {
        ct_cmd(ct, CT_CMD_AM_STATS, 0, 0, 0, 0, 0);
    }

    uct_ep_pending_purge(ct->ep, ct_pending_purged, &num_purged); /* of nothing */
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    ct_wait(ct, ct_flow_is_ended, &flow, "completions");
    ct_flow_close(ct, &flow);
}

/* Queueing while there is room would wait for a progress that never frees any. */
static void pending_add_is_busy_while_there_is_room(ct_t *ct)
{
    ct_pending_t pending;
    int num_done = 0;
    ct_flow_t flow;

    if (!ct_flow_open(ct, &flow)) {
        return;
    }

    memset(&pending, 0, sizeof(pending));
    pending.req.func = ct_pending_run;
    pending.ct = ct;
    pending.flow = &flow;
    pending.num_done = &num_done;
    ck_assert_int_eq(uct_ep_pending_add(ct->ep, &pending.req, 0), UCS_ERR_BUSY);
    ck_assert_int_eq(num_done, 0);
    ct_flow_close(ct, &flow);
    snprintf(ct->covered, sizeof(ct->covered), "busy on an idle endpoint");
}

static void endpoints_of_one_interface_are_independent(ct_t *ct)
{
    enum { NUM_EPS = 8 };
    uct_ep_h eps[NUM_EPS], first;
    ucs_status_t status;
    ct_flow_t flow;
    int i, round;

    if (!ct_flow_open(ct, &flow)) {
        return;
    }

    first = ct->ep;
    for (i = 0; i < NUM_EPS; ++i) {
        ck_assert_int_eq(ct_ep_create(&ct->side, &ct->peer_addr, &eps[i]), UCS_OK);
    }

    for (round = 0; round < 100; ++round) {
        ct->ep = eps[round % NUM_EPS];
        while ((status = ct_flow_post(ct, &flow, 1000)) == UCS_ERR_NO_RESOURCE) {
            ct_progress(ct);
        }
        ck_assert_msg(!UCS_STATUS_IS_ERR(status), "%s", ucs_status_string(status));
        if (round == 50) { /* destroy one of them in the middle */
            ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
            uct_ep_destroy(eps[round % NUM_EPS]);
            ck_assert_int_eq(
                ct_ep_create(&ct->side, &ct->peer_addr, &eps[round % NUM_EPS]), UCS_OK);
        }
    }

    for (i = 0; i < NUM_EPS; ++i) {
        ct->ep = eps[i];
        ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    }
    ct_wait(ct, ct_flow_is_ended, &flow, "completions");
    ct_flow_expect_once(&flow);
    ct_flow_expect_data(ct, &flow, 1000);
    for (i = 0; i < NUM_EPS; ++i) {
        uct_ep_destroy(eps[i]);
    }
    ct->ep = first;
    ct_flow_close(ct, &flow);
    snprintf(ct->covered, sizeof(ct->covered), "%d endpoints, 100 puts", NUM_EPS);
}

static int ct_flow_is_one(void *arg)
{
    return *(int *)arg == 1;
}

static int ct_flow_is_called(void *arg)
{
    return ((ct_comp_t *)arg)->num_calls > 0;
}

/* Operations that are refused, each followed by a fence, use up nothing. */
static void refused_operations_leave_room_for_others(ct_t *ct)
{
    ct_piece_t piece = {.length = 100};
    unsigned num_refused = 0;
    ct_pending_t pending;
    int num_done = 0;
    ucs_status_t status;
    ct_remote_t freed;
    ct_flow_t flow;
    ct_comp_t comp;

    if (!ct_flow_open(ct, &flow)) {
        return;
    }

    ct_remote_create(ct, CT_FLOW_SPACE, 0, &freed);
    ct_cmd(ct, CT_CMD_FREE, freed.region, 0, 0, 0, 0);
    do {
        ct_comp_init(&comp);
        status = ct_post(ct, flow.op, &flow.local, &freed, &piece, &comp);
        if (!UCS_STATUS_IS_ERR(status)) {
            snprintf(ct->skip, sizeof(ct->skip), "a void key is found out later");
            ct->is_hurt = 1;
            ct_wait(ct, ct_flow_is_called, &comp, "an operation under a void key");
            break;
        }
        ck_assert_int_eq(uct_ep_fence(ct->ep, 0), UCS_OK);
    } while ((status != UCS_ERR_NO_RESOURCE) && (++num_refused < 100));

    status = ct->is_hurt ? UCS_OK : ct_flow_post(ct, &flow, 100);
    if (status == UCS_ERR_NO_RESOURCE) {
        memset(&pending, 0, sizeof(pending));
        pending.req.func = ct_pending_run;
        pending.ct = ct;
        pending.flow = &flow;
        pending.num_done = &num_done;
        ck_assert_int_eq(uct_ep_pending_add(ct->ep, &pending.req, 0), UCS_OK);
        ct_wait(ct, ct_flow_is_one, &num_done, "a pending request");
    } else {
        ck_assert(!UCS_STATUS_IS_ERR(status));
    }
    ct_wait(ct, ct_flow_is_ended, &flow, "operations");
    status = ct->is_hurt ? UCS_OK : ct_flow_post(ct, &flow, 1); /* it works as before */
    ck_assert(!UCS_STATUS_IS_ERR(status));
    ct_wait(ct, ct_flow_is_ended, &flow, "the operation behind them");
    ct_flow_expect_once(&flow);
    uct_rkey_release(ct->side.component, &freed.rkey);
    ct_flow_close(ct, &flow);
    snprintf(ct->covered, sizeof(ct->covered), "%u refused operations", num_refused);
}


const ct_case_t ct_cases_flow[] = {
    {"every_completion_comes_once", .run = every_completion_comes_once},
    {"flush_covers_what_was_posted", .run = flush_covers_what_was_posted},
    {"interface_flush_covers_all_endpoints",
     .run = interface_flush_covers_all_endpoints},
    {"fence_orders_puts", .run = fence_orders_puts},
    {"full_queue_is_reported_and_recovers", .run = full_queue_is_reported_and_recovers},
    {"pending_requests_run_in_order", .flags = UCT_IFACE_FLAG_PENDING,
     .run = pending_requests_run_in_order},
    {"flushes_among_pending_requests_end", .flags = UCT_IFACE_FLAG_PENDING,
     .run = flushes_among_pending_requests_end},
    {"purged_requests_come_back_once", .flags = UCT_IFACE_FLAG_PENDING,
     .run = purged_requests_come_back_once},
    {"refused_operations_leave_room_for_others", .flags = UCT_IFACE_FLAG_PENDING,
     .traits = CT_TRAIT_CHECKED_KEYS | CT_TRAIT_RKEY,
     .run = refused_operations_leave_room_for_others},
    {"pending_add_is_busy_while_there_is_room", .flags = UCT_IFACE_FLAG_PENDING,
     .run = pending_add_is_busy_while_there_is_room},
    {"endpoints_of_one_interface_are_independent",
     .flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE,
     .run = endpoints_of_one_interface_are_independent},
    {NULL}};
