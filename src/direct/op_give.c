/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Give pieces to UCX: many pieces of a WRITE as a list where the lane takes lists, else
 * one call for each piece, as far as the peer's credits reach.
 *
 * A completion identifies only its operation. Therefore lists in flight together have
 * equal memory types, so that a refusal applies to those. A call that ends returns the
 * average of the bytes in flight, and the last one returns the rest.
 */

#include "direct/op_give.h"

#include "peer/backend.h"
#include "peer/list_put.h"
#include "peer/path.h"

/* ---- Credit ---------------------------------------------------------------------- */

static bool mkv_op_has_credit(const mkv_op_t *op)
{
    const mkv_options_t *opts = op->ctx->opts;

    return (op->ctx->round_cost < MKV_ROUND_COST) &&
           (op->peer->inflight_ops < opts->max_inflight_ops) &&
           (op->peer->inflight_bytes < opts->max_inflight_bytes);
}

static void mkv_op_take_credit(mkv_op_t *op, uint64_t bytes)
{
    ++op->num_inflight;
    op->inflight_bytes += bytes;
    if (bytes != op->call_bytes) { /* equal bytes leave the average as it is */
        op->call_bytes = op->inflight_bytes / op->num_inflight;
    }
    ++op->peer->inflight_ops;
    op->peer->inflight_bytes += bytes;
}

static void mkv_op_put_credit(mkv_op_t *op)
{
    uint64_t bytes = op->inflight_bytes;

    if ((op->num_inflight > 1) && (op->call_bytes < bytes)) {
        bytes = op->call_bytes;
    }
    --op->num_inflight;
    op->inflight_bytes -= bytes;
    --op->peer->inflight_ops;
    op->peer->inflight_bytes -= bytes;
}

static ucs_memory_type_t mkv_op_local_type(const mkv_op_t *op, size_t i)
{
    return (ucs_memory_type_t)(op->types[i] & 15);
}

static ucs_memory_type_t mkv_op_remote_type(const mkv_op_t *op, size_t i)
{
    return (ucs_memory_type_t)(op->types[i] >> 4);
}

static mkv_rmem_t *mkv_op_rmem(const mkv_op_t *op, size_t i)
{
    size_t low = 0, high = op->num_refs, middle;

    while (high - low > 1) {
        middle = low + (high - low) / 2;
        if (op->refs[middle].first <= i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return op->refs[low].remote;
}

static mkv_list_use_t mkv_op_list_use(const mkv_op_t *op)
{
    if (!mkv_op_is_write(op) || (op->num <= 1)) {
        return MKV_LIST_USE_NONE;
    }
    return mkv_peer_list_use(op->peer, mkv_op_local_type(op, op->next),
                             mkv_op_rmem(op, op->next));
}

static mkv_path_key_t mkv_op_path(const mkv_op_t *op, size_t piece, bool is_list)
{
    mkv_path_key_t key = {.kind = is_list               ? MKV_CALL_LIST
                                  : mkv_op_is_write(op) ? MKV_CALL_PUT
                                                        : MKV_CALL_GET,
                          .local = mkv_op_local_type(op, piece),
                          .remote = mkv_op_remote_type(op, piece)};

    return key;
}

/* ---- Completions ----------------------------------------------------------------- */

static void mkv_op_call_failed(mkv_op_t *op, const char *call, ucs_status_t status)
{
    const mkv_path_key_t key = mkv_op_path(op, op->next - 1, false);
    char reason[640];

    mkv_path_reason(op->peer, &key, reason, sizeof(reason));
    mkv_op_fail(op, mkv_status_of_ucs(status), "%s failed: %s%s%s", call,
                ucs_status_string(status), reason[0] != '\0' ? ": " : "", reason);
}

static void mkv_op_call_ended(mkv_op_t *op)
{
    mkv_op_put_credit(op);
    if (op->num_inflight == 0) {
        mkv_op_dirty(op);
    }
}

/* ---- Paths ----------------------------------------------------------------------- */

/*
 * UCX is queried for the path of the first call of a kind between two memory types; the
 * path does not change later. Calls of the same kind skip the look-up, which takes as
 * long as all other work for a piece.
 */

/* Kind and memory types of the last call, equal for all calls in flight; never 0 */
static uint16_t mkv_op_way(const mkv_op_t *op, bool is_list)
{
    return (uint16_t)(op->types[op->next - 1] | ((is_list ? 2u : 1u) << 8));
}

static inline bool mkv_op_is_settled(const mkv_op_t *op, bool is_list)
{
    return op->settled == mkv_op_way(op, is_list);
}

/* Whether the next call must be queried for its path */
static bool mkv_op_must_query(const mkv_op_t *op, bool is_list)
{
    const mkv_path_key_t key = mkv_op_path(op, op->next - 1, is_list);

    return !mkv_path_is_known(op->peer, &key);
}

static void mkv_op_learn(mkv_op_t *op, bool is_list, ucs_status_ptr_t request)
{
    const mkv_path_key_t key = mkv_op_path(op, op->next - 1, is_list);

    if (!UCS_PTR_IS_PTR(request)) {
        return;
    }
    if (op->queried != NULL) {
        mkv_peer_note_list_support(op->peer, op->queried, request);
        op->queried =
            NULL; /* set at the callback or at the call's return, whichever is first */
    }
    mkv_path_note(op->peer, &key, false, request);
}

static inline void mkv_op_note(mkv_op_t *op, bool is_list, ucs_status_ptr_t request)
{
    if (!mkv_op_is_settled(op, is_list) || (op->queried != NULL)) {
        mkv_op_learn(op, is_list, request);
    }
}

/* Strict mode: fail if UCX uses another lane than option BACKEND */
static void mkv_op_settle(mkv_op_t *op, bool is_list)
{
    const mkv_path_key_t key = mkv_op_path(op, op->next - 1, is_list);
    char text[640];

    if (mkv_path_is_refused(op->peer, &key)) {
        mkv_path_reason(op->peer, &key, text, sizeof(text));
        mkv_op_fail(op, MKV_ERR_BACKEND, "%s", text);
    } else if (mkv_path_is_known(op->peer, &key)) {
        op->settled = mkv_op_way(op, is_list);
    }
}

static inline void mkv_op_check_path(mkv_op_t *op, bool is_list)
{
    if (!mkv_op_is_settled(op, is_list)) {
        mkv_op_settle(op, is_list);
    }
}

/* ---- Lists ----------------------------------------------------------------------- */

static void mkv_op_piece_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_op_t *op = user_data;

    mkv_op_note(op, false, request);
    if (status != UCS_OK) {
        mkv_op_call_failed(op, mkv_op_is_write(op) ? "put" : "get", status);
    }
    mkv_op_call_ended(op);
    ucp_request_free(request);
}

/* A lane may refuse the first list; a refused list moves nothing, as for transfers */
static void mkv_op_list_status(mkv_op_t *op, size_t i, ucs_status_t status)
{
    switch (mkv_peer_list_ended(op->peer, mkv_op_local_type(op, i),
                                mkv_op_remote_type(op, i), status)) {
    case MKV_LIST_MOVED:
        break;
    case MKV_LIST_REFUSED:
        op->must_repeat = true;
        break;
    case MKV_LIST_FAILED:
        mkv_op_call_failed(op, "list put", status);
        break;
    }
}

static void mkv_op_list_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_op_t *op = user_data;

    mkv_op_note(op, true, request);
    mkv_op_list_status(op, op->next - 1, status);
    mkv_op_call_ended(op);
    ucp_request_free(request);
}

/* ---- Calls ----------------------------------------------------------------------- */

/* @param cost  As MKV_CALL_COST. */
static void mkv_op_count_call(mkv_op_t *op, uint64_t cost)
{
    op->ctx->round_cost += cost;
    if (mkv_op_is_write(op)) {
        op->puts = MKV_OP_PUTS_GIVEN;
    }
    ++op->num_ucp_calls;
    MKV_COUNT(op->peer, ucp_calls, 1);
}

static void mkv_op_give_piece(mkv_op_t *op, mkv_rmem_t *queried)
{
    size_t i = op->next++;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FLAG_MULTI_SEND,
        .cb.send = mkv_op_piece_cb,
        .user_data = op,
        .memh = op->memhs[i]};
    ucs_status_ptr_t request;

    mkv_op_count_call(op, MKV_CALL_COST);
    mkv_op_take_credit(op, op->lengths[i]);
    op->queried = queried;
    if ((queried != NULL) ||
        (!mkv_op_is_settled(op, false) && mkv_op_must_query(op, false))) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    }
    request = mkv_op_is_write(op)
                  ? ucp_put_nbx(op->peer->ep, op->buffers[i], op->lengths[i],
                                op->remotes[i], op->rkeys[i], &param)
                  : ucp_get_nbx(op->peer->ep, op->buffers[i], op->lengths[i],
                                op->remotes[i], op->rkeys[i], &param);
    mkv_op_note(op, false, request);
    op->queried = NULL;
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_op_put_credit(op);
    }
    if (UCS_PTR_IS_ERR(request)) {
        mkv_op_call_failed(op, mkv_op_is_write(op) ? "put" : "get",
                           UCS_PTR_STATUS(request));
    }
    mkv_op_check_path(op, false);
}

static bool mkv_op_are_alike(const mkv_op_t *op, size_t a, size_t b)
{
    return (op->types[a] == op->types[b]) &&
           ((op->rkeys[a] == op->rkeys[b]) ||
            (mkv_op_rmem(op, a)->lists == mkv_op_rmem(op, b)->lists));
}

/* @return Number of pieces from the next one on that fit into one list. */
static size_t mkv_op_list_length(const mkv_op_t *op)
{
    size_t max = op->num - op->next;
    size_t num;

    max = (max < op->ctx->tuning.sgl_max) ? max : op->ctx->tuning.sgl_max;
    for (num = 1; (num < max) && mkv_op_are_alike(op, op->next, op->next + num);
         ++num) {
    }
    return num;
}

static void mkv_op_give_list(mkv_op_t *op, size_t num)
{
    size_t first = op->next;
    mkv_list_put_t list = {.buffers = op->buffers + first,
                           .lengths = op->lengths + first,
                           .memhs = op->memhs + first,
                           .remotes = op->remotes + first,
                           .rkeys = op->rkeys + first,
                           .num = num};
    ucs_status_ptr_t request;
    uint64_t bytes = 0;
    size_t i;

    for (i = first; i < first + num; ++i) {
        bytes += op->lengths[i];
    }
    op->next += num;
    mkv_op_count_call(op, num);
    mkv_op_take_credit(op, bytes);
    list.is_queried = mkv_op_must_query(op, true);
    request = mkv_ep_put_list(op->peer->ep, &list, mkv_op_list_cb, op);
    mkv_op_note(op, true, request);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_op_put_credit(op);
        mkv_op_list_status(op, first, UCS_PTR_RAW_STATUS(request));
    }
    mkv_op_check_path(op, true);
}

/* Calls of other memory types wait until the calls in flight have ended */
static bool mkv_op_must_wait(const mkv_op_t *op)
{
    return (op->num_inflight > 0) && (op->next > 0) &&
           (op->types[op->next] != op->types[op->next - 1]);
}

unsigned mkv_op_give(mkv_op_t *op)
{
    unsigned num_calls = 0;
    mkv_list_use_t use;
    size_t num;

    while ((op->next < op->num) && !op->must_repeat && !mkv_op_has_ended(op) &&
           mkv_op_has_credit(op) && !mkv_op_must_wait(op)) {
        use = mkv_op_list_use(op);
        num = (use == MKV_LIST_USE_FULL) ? mkv_op_list_length(op) : 1;
        if (num > 1) {
            mkv_op_give_list(op, num);
        } else {
            mkv_op_give_piece(
                op, (use == MKV_LIST_USE_PROBE) ? mkv_op_rmem(op, op->next) : NULL);
        }
        ++num_calls;
    }
    return num_calls;
}
