/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * From pieces to UCX calls: a list for many of a WRITE where the lane takes lists, else
 * a call a piece, as far as the peer's credits reach.
 *
 * A completion knows only its operation. Therefore the lists that are in flight
 * together are of the same memory types, for which a first refusal counts; and a call
 * that ends returns the average of the bytes in flight, the last one what is left.
 */

#include "direct/op_give.h"

#include "peer/backend.h"

/* ---- Credit ---------------------------------------------------------------------- */

static bool mkv_op_has_credit(const mkv_op_t *op)
{
    const mkv_options_t *opts = op->ctx->opts;

    return (op->peer->inflight_ops < opts->max_inflight_ops) &&
           (op->peer->inflight_bytes < opts->max_inflight_bytes);
}

static void mkv_op_take_credit(mkv_op_t *op, uint64_t bytes)
{
    ++op->num_inflight;
    op->inflight_bytes += bytes;
    op->call_bytes = op->inflight_bytes / op->num_inflight;
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

/* ---- Completions ----------------------------------------------------------------- */

static void mkv_op_call_failed(mkv_op_t *op, const char *call, ucs_status_t status)
{
    mkv_op_fail(op, mkv_status_of_ucs(status), "%s failed: %s", call,
                ucs_status_string(status));
}

static void mkv_op_call_ended(mkv_op_t *op)
{
    mkv_op_put_credit(op);
    if (op->num_inflight == 0) {
        mkv_op_dirty(op);
    }
}

static void mkv_op_piece_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_op_t *op = user_data;

    if (status != UCS_OK) {
        mkv_op_call_failed(op, mkv_op_is_write(op) ? "put" : "get", status);
    }
    mkv_op_call_ended(op);
    ucp_request_free(request);
}

/* What is known of lists for these memory types */
static mkv_sgl_state_t *mkv_op_sgl_state(mkv_op_t *op, uint8_t types)
{
    return &op->peer->sgl[types & 15][types >> 4];
}

/* As for transfers: the first list on such a lane may be refused, and costs nothing */
static void mkv_op_list_status(mkv_op_t *op, uint8_t types, ucs_status_t status)
{
    mkv_sgl_state_t *state = mkv_op_sgl_state(op, types);
    bool is_refusal =
        (status == UCS_ERR_UNSUPPORTED) || (status == UCS_ERR_INVALID_PARAM) ||
        (status == UCS_ERR_CANCELED) || (status == UCS_ERR_NOT_IMPLEMENTED);

    if (status == UCS_OK) {
        *state = (*state == MKV_SGL_BAD) ? MKV_SGL_BAD : MKV_SGL_GOOD;
    } else if (is_refusal && (op->peer->state == MKV_CONN_READY) &&
               (*state != MKV_SGL_GOOD)) {
        *state = MKV_SGL_BAD;
        op->must_repeat = true;
    } else {
        mkv_op_call_failed(op, "list put", status);
    }
}

static void mkv_op_list_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_op_t *op = user_data;

    mkv_op_list_status(op, op->types[op->next - 1], status);
    mkv_op_call_ended(op);
    ucp_request_free(request);
}

/* ---- Calls ----------------------------------------------------------------------- */

static void mkv_op_count_call(mkv_op_t *op)
{
    if (mkv_op_is_write(op)) {
        op->puts = MKV_OP_PUTS_GIVEN;
    }
    ++op->num_ucp_calls;
    MKV_COUNT(op->peer, ucp_calls, 1);
}

static void mkv_op_give_piece(mkv_op_t *op)
{
    size_t i = op->next++;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FLAG_MULTI_SEND,
        .cb.send = mkv_op_piece_cb,
        .user_data = op,
        .memh = op->memhs[i]};
    ucs_status_ptr_t request;

    mkv_op_count_call(op);
    request = mkv_op_is_write(op)
                  ? ucp_put_nbx(op->peer->ep, op->buffers[i], op->lengths[i],
                                op->remotes[i], op->rkeys[i], &param)
                  : ucp_get_nbx(op->peer->ep, op->buffers[i], op->lengths[i],
                                op->remotes[i], op->rkeys[i], &param);
    if (UCS_PTR_IS_PTR(request)) {
        mkv_op_take_credit(op, op->lengths[i]);
    } else if (UCS_PTR_IS_ERR(request)) {
        mkv_op_call_failed(op, mkv_op_is_write(op) ? "put" : "get",
                           UCS_PTR_STATUS(request));
    }
}

static ucs_status_ptr_t mkv_op_call_list(mkv_op_t *op, size_t first, size_t num)
{
    ucp_dt_local_sgl_t local = {.field_mask = UCP_DT_LOCAL_SGL_FIELD_BUFFERS |
                                              UCP_DT_LOCAL_SGL_FIELD_LENGTHS |
                                              UCP_DT_LOCAL_SGL_FIELD_MEMHS,
                                .buffers = op->buffers + first,
                                .lengths = op->lengths + first,
                                .memhs = (void *)(op->memhs + first)};
    ucp_dt_remote_sgl_t remote = {.field_mask = UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS |
                                                UCP_DT_REMOTE_SGL_FIELD_LENGTHS |
                                                UCP_DT_REMOTE_SGL_FIELD_RKEYS,
                                  .remote_addrs = op->remotes + first,
                                  .lengths = op->lengths + first,
                                  .rkeys = (void *)(op->rkeys + first)};
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE |
                        UCP_OP_ATTR_FIELD_REMOTE | UCP_OP_ATTR_FIELD_REMOTE_COUNT,
        .cb.send = mkv_op_list_cb,
        .user_data = op,
        .datatype = ucp_dt_make_sgl(),
        .remote_datatype = ucp_dt_make_sgl(),
        .remote = &remote,
        .remote_count = num};

    return ucp_put_nbx(op->peer->ep, &local, num, UCP_REMOTE_ADDR_INVALID,
                       UCP_RKEY_INVALID, &param);
}

/* Pieces from the next one on that one list may hold */
static size_t mkv_op_list_length(const mkv_op_t *op)
{
    size_t max = op->num - op->next;
    size_t num;

    max = (max < op->ctx->opts->sgl_max) ? max : op->ctx->opts->sgl_max;
    for (num = 1; (num < max) && (op->types[op->next + num] == op->types[op->next]);
         ++num) {
    }
    return num;
}

static void mkv_op_give_list(mkv_op_t *op, size_t num)
{
    size_t first = op->next;
    ucs_status_ptr_t request;
    uint64_t bytes = 0;
    size_t i;

    for (i = first; i < first + num; ++i) {
        bytes += op->lengths[i];
    }
    op->next += num;
    mkv_op_count_call(op);
    request = mkv_op_call_list(op, first, num);
    if (UCS_PTR_IS_PTR(request)) {
        mkv_op_take_credit(op, bytes);
    } else {
        mkv_op_list_status(op, op->types[first], UCS_PTR_RAW_STATUS(request));
    }
}

/* A list of other memory types, or a call beside lists, waits for those in flight */
static bool mkv_op_must_wait(const mkv_op_t *op)
{
    return (op->num_inflight > 0) && (op->next > 0) &&
           (op->types[op->next] != op->types[op->next - 1]);
}

unsigned mkv_op_give(mkv_op_t *op)
{
    unsigned num_calls = 0;
    size_t num;

    while ((op->next < op->num) && !op->must_repeat && !mkv_op_has_ended(op) &&
           mkv_op_has_credit(op) && !mkv_op_must_wait(op)) {
        num = (mkv_op_is_write(op) &&
               mkv_peer_may_sgl(op->peer, (ucs_memory_type_t)(op->types[op->next] & 15),
                                (ucs_memory_type_t)(op->types[op->next] >> 4)))
                  ? mkv_op_list_length(op)
                  : 1;
        if (num > 1) {
            mkv_op_give_list(op, num);
        } else {
            mkv_op_give_piece(op);
        }
        ++num_calls;
    }
    return num_calls;
}
