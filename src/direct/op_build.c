/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Build the arrays that UCX takes from the caller's pieces. All errors of the arguments
 * are found here, before anything is given to UCX.
 */

#include "direct/op_build.h"

#include "message/credit.h"
#include "message/message.h"

#include <stdlib.h>
#include <string.h>

#define MKV_OP_FLAGS ((uint32_t)(MKV_OP_NOTIFY | MKV_OP_AT_ONCE))
#define MKV_NOTE_OVERHEAD 128u /* Bytes of a NOTE beside its data */

_Static_assert(UCS_MEMORY_TYPE_LAST <= 16, "two memory types fit into a byte");

/** The two regions of the last piece, kept for following pieces in the same regions. */
typedef struct mkv_op_ends {
    mkv_lregion_t *local;
    const mkv_wire_region_t *remote;
    mkv_rmem_t *rmem;
} mkv_op_ends_t;

/* ---- Checks ---------------------------------------------------------------------- */

static mkv_status_t mkv_op_check_note(mkv_peer_t *peer, const mkv_op_params_t *params)
{
    const mkv_log_t *log = &peer->ctx->log;
    uint64_t max = mkv_message_max(peer) - MKV_NOTE_OVERHEAD;

    if (!(params->flags & MKV_OP_NOTIFY)) {
        return (params->note_length == 0)
                   ? MKV_OK
                   : mkv_error(log, MKV_ERR_INVALID,
                               "operation: a note of %zu bytes, expected none without "
                               "MKV_OP_NOTIFY",
                               params->note_length);
    }
    if (params->note_length > max) {
        return mkv_error(log, MKV_ERR_LENGTH,
                         "operation: a note of %zu bytes, MAX_MESSAGE of both sides "
                         "leaves room for %llu",
                         params->note_length, (unsigned long long)max);
    }
    if (!mkv_credit_has(peer, params->note_length)) {
        return mkv_error(log, MKV_ERR_BUSY,
                         "operation: peer %s has not polled earlier messages; "
                         "post it again later",
                         peer->name);
    }
    return MKV_OK;
}

static mkv_status_t mkv_op_check(mkv_peer_t *peer, const mkv_op_params_t *params)
{
    const mkv_log_t *log = &peer->ctx->log;

    if (params->flags & ~MKV_OP_FLAGS) {
        return mkv_error(log, MKV_ERR_UNSUPPORTED,
                         "op_params: flags 0x%x, libmorikv %s supports 0x%x",
                         params->flags, mkv_version_string(), MKV_OP_FLAGS);
    }
    if (((unsigned)params->mode > MKV_READ) ||
        ((params->pieces == NULL) && (params->num_pieces > 0)) ||
        ((params->note == NULL) && (params->note_length > 0))) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "operation: mode %d, %zu pieces at %p, a note of %zu bytes at "
                         "%p; expected MKV_WRITE or MKV_READ, and no NULL with a "
                         "length",
                         (int)params->mode, params->num_pieces,
                         (const void *)params->pieces, params->note_length,
                         params->note);
    }
    if (peer->state != MKV_CONN_READY) {
        return mkv_error(
            log, mkv_conn_is_alive(peer->state) ? MKV_ERR_BUSY : MKV_ERR_PEER,
            "peer %s is not ready: %s", peer->name,
            mkv_conn_is_alive(peer->state) ? "connecting; wait for MKV_EV_PEER_READY"
                                           : peer->error);
    }
    return mkv_op_check_note(peer, params);
}

static mkv_status_t mkv_op_check_bounds(const mkv_log_t *log, size_t index,
                                        const char *side, uint64_t offset,
                                        uint64_t length, uint64_t room)
{
    if ((length <= room) && (offset <= room - length)) {
        return MKV_OK;
    }
    return mkv_error(
        log, MKV_ERR_BOUNDS,
        "operation: piece %zu: %llu bytes from byte %llu on, the %s region "
        "has %llu",
        index, (unsigned long long)length, (unsigned long long)offset, side,
        (unsigned long long)room);
}

/* ---- Regions --------------------------------------------------------------------- */

static mkv_status_t mkv_op_find_local(mkv_ctx_t *ctx, mkv_region_id_t id, size_t index,
                                      mkv_op_ends_t *ends)
{
    if ((ends->local != NULL) && (ends->local->id == id)) {
        return MKV_OK;
    }
    ends->local = mkv_region_by_id(ctx, id);
    if ((ends->local == NULL) || ends->local->is_leaving) {
        return mkv_error(&ctx->log, MKV_ERR_NOTFOUND,
                         "operation: piece %zu: there is no region %u here", index, id);
    }
    if (ends->local->mem == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_BUSY,
                         "operation: piece %zu: region %u is not committed", index, id);
    }
    return MKV_OK;
}

static mkv_status_t mkv_op_find_remote(mkv_peer_t *peer, mkv_region_id_t id,
                                       size_t index, mkv_op_ends_t *ends)
{
    const mkv_log_t *log = &peer->ctx->log;

    if ((ends->remote != NULL) && (ends->remote->id == id)) {
        return MKV_OK;
    }
    ends->remote = mkv_remote_find_id(&peer->remote, id, &ends->rmem);
    if (ends->remote == NULL) {
        return mkv_error(log, MKV_ERR_NOTFOUND,
                         "operation: piece %zu: peer %s has announced no region %u",
                         index, peer->name, id);
    }
    if (!(ends->remote->flags & MKV_REGION_ONE_SIDED)) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "operation: piece %zu: region %u of peer %s is without "
                         "MKV_REGION_ONE_SIDED",
                         index, id, peer->name);
    }
    if (ends->rmem->rkey == NULL) {
        return mkv_error(log, MKV_ERR_PROTOCOL,
                         "operation: piece %zu: peer %s has sent no key of region %u",
                         index, peer->name, id);
    }
    return MKV_OK;
}

/* Look up the local and the remote region of a piece and check its bounds */
static mkv_status_t mkv_op_find(mkv_peer_t *peer, const mkv_op_piece_t *piece,
                                size_t index, mkv_op_ends_t *ends)
{
    const mkv_log_t *log = &peer->ctx->log;
    mkv_status_t status;

    if (piece->length == 0) {
        return mkv_error(log, MKV_ERR_INVALID, "operation: piece %zu has no bytes",
                         index);
    }
    status = mkv_op_find_local(peer->ctx, piece->local, index, ends);
    if (status == MKV_OK) {
        status = mkv_op_find_remote(peer, piece->remote, index, ends);
    }
    if (status == MKV_OK) {
        status = mkv_op_check_bounds(log, index, "local", piece->local_offset,
                                     piece->length, ends->local->info.length);
    }
    if (status == MKV_OK) {
        status = mkv_op_check_bounds(log, index, "peer's", piece->remote_offset,
                                     piece->length, ends->remote->length);
    }
    return status;
}

/* ---- Pieces ---------------------------------------------------------------------- */

/* Each region pair is held once for the pieces that follow each other in it. The room
 * for refs is the next power of two. @return false: no memory. */
static bool mkv_op_hold(mkv_op_t *op, const mkv_op_ends_t *ends)
{
    size_t num = op->num_refs;
    mkv_op_ref_t *refs;

    if ((num > 0) && (op->refs[num - 1].local == ends->local) &&
        (op->refs[num - 1].remote == ends->rmem)) {
        return true;
    }
    if ((num & (num - 1)) == 0) {
        refs = realloc(op->refs, ((num > 0) ? 2 * num : 1) * sizeof(*refs));
        if (refs == NULL) {
            return false;
        }
        op->refs = refs;
    }
    op->refs[op->num_refs++] = (mkv_op_ref_t){op->num, ends->local, ends->rmem};
    ++ends->local->num_ops;
    ++ends->rmem->num_pairs;
    return true;
}

/* Neighbours on both sides are one piece */
static void mkv_op_add(mkv_op_t *op, const mkv_op_piece_t *piece,
                       const mkv_op_ends_t *ends)
{
    char *buffer = (char *)ends->local->info.base + piece->local_offset;
    uint64_t remote = ends->remote->base + piece->remote_offset;
    ucp_mem_h memh = ends->local->mem->memh;
    size_t i = op->num;

    op->bytes += piece->length;
    if ((i > 0) && (op->memhs[i - 1] == memh) &&
        (op->rkeys[i - 1] == ends->rmem->rkey) &&
        ((char *)op->buffers[i - 1] + op->lengths[i - 1] == buffer) &&
        (op->remotes[i - 1] + op->lengths[i - 1] == remote)) {
        op->lengths[i - 1] += piece->length;
        return;
    }
    op->buffers[i] = buffer;
    op->remotes[i] = remote;
    op->lengths[i] = piece->length;
    op->memhs[i] = memh;
    op->rkeys[i] = ends->rmem->rkey;
    op->types[i] = mkv_op_types(ends->local->mem->type, ends->rmem->type);
    ++op->num;
}

static bool mkv_op_alloc_pieces(mkv_op_t *op, const mkv_op_params_t *params)
{
    size_t num = params->num_pieces;
    size_t each = sizeof(*op->buffers) + sizeof(*op->remotes) + sizeof(*op->lengths) +
                  sizeof(*op->memhs) + sizeof(*op->rkeys) + sizeof(*op->types);

    if (num > SIZE_MAX / 2 / each) {
        return false;
    }
    op->buffers = malloc(num * each + 1);
    op->note = malloc(params->note_length + 1);
    if ((op->buffers == NULL) || (op->note == NULL)) {
        return false;
    }
    op->remotes = (uint64_t *)(op->buffers + num);
    op->lengths = (size_t *)(op->remotes + num);
    op->memhs = (ucp_mem_h *)(op->lengths + num);
    op->rkeys = (ucp_rkey_h *)(op->memhs + num);
    op->types = (uint8_t *)(op->rkeys + num);
    if (params->note_length > 0) {
        memcpy(op->note, params->note, params->note_length);
    }
    return true;
}

static mkv_status_t mkv_op_no_memory(const mkv_op_t *op, const mkv_op_params_t *params)
{
    return mkv_error(&op->ctx->log, MKV_ERR_NOMEM,
                     "no memory for an operation of %zu pieces", params->num_pieces);
}

static mkv_status_t mkv_op_take_piece(mkv_op_t *op, const mkv_op_params_t *params,
                                      size_t index, mkv_op_ends_t *ends)
{
    const mkv_op_piece_t *piece = &params->pieces[index];
    mkv_status_t status = mkv_op_find(op->peer, piece, index, ends);

    if (status != MKV_OK) {
        return status;
    }
    if (!mkv_op_hold(op, ends)) {
        return mkv_op_no_memory(op, params);
    }
    mkv_op_add(op, piece, ends);
    return MKV_OK;
}

/* Pause, then check again: other calls may have changed regions, the peer's state and
 * credit */
static mkv_status_t mkv_op_pause(mkv_op_t *op, const mkv_op_params_t *params,
                                 mkv_op_ends_t *ends)
{
    mkv_pause(op->ctx);
    memset(ends, 0, sizeof(*ends));
    return mkv_op_check(op->peer, params);
}

static mkv_status_t mkv_op_fill(mkv_op_t *op, const mkv_op_params_t *params)
{
    mkv_op_ends_t ends = {0};
    mkv_status_t status = MKV_OK;
    size_t i;

    if (!mkv_op_alloc_pieces(op, params)) {
        return mkv_op_no_memory(op, params);
    }
    for (i = 0; (status == MKV_OK) && (i < params->num_pieces); ++i) {
        if ((i > 0) && (i % MKV_ROUND_COST == 0)) {
            status = mkv_op_pause(op, params, &ends);
        }
        if (status == MKV_OK) {
            status = mkv_op_take_piece(op, params, i, &ends);
        }
    }
    return status;
}

/* ---- The object ------------------------------------------------------------------ */

static void mkv_op_init(mkv_op_t *op, mkv_peer_t *peer, const mkv_op_params_t *params)
{
    mkv_ctx_t *ctx = peer->ctx;

    mkv_list_init(&op->list);
    mkv_list_init(&op->of_peer);
    mkv_list_init(&op->dirty);
    mkv_list_init(&op->flush);
    op->ctx = ctx;
    op->peer = peer;
    op->params = *params;
    op->params.pieces = NULL;
    op->params.note = NULL;
    if (params->timeout_ms == 0) {
        op->params.timeout_ms = (uint32_t)ctx->opts->xfer_timeout;
    }
    if (params->drain_timeout_ms == 0) {
        op->params.drain_timeout_ms = (uint32_t)ctx->opts->drain_timeout;
    }
    op->status = MKV_INPROGRESS;
    op->open_time = mkv_ctx_now(ctx);
    op->deadline = op->open_time + op->params.timeout_ms * MKV_NSEC_PER_MSEC;
}

/* From now on progress takes the operation */
static void mkv_op_link(mkv_op_t *op)
{
    mkv_list_add_tail(&op->ctx->ops, &op->list);
    mkv_list_add_tail(&op->peer->ops, &op->of_peer);
    MKV_COUNT(op->peer, elements_posted, op->num);
    mkv_ctx_deadline(op->ctx, op->deadline);
}

mkv_status_t mkv_op_build(mkv_peer_t *peer, const mkv_op_params_t *params,
                          mkv_op_t **op_p)
{
    mkv_status_t status = mkv_op_check(peer, params);
    mkv_op_t *op;

    if (status != MKV_OK) {
        return status;
    }
    op = calloc(1, sizeof(*op));
    if (op == NULL) {
        return mkv_error(&peer->ctx->log, MKV_ERR_NOMEM, "no memory for an operation");
    }
    mkv_op_init(op, peer, params);
    mkv_peer_get(peer);
    status = mkv_event_reserve(peer->ctx, MKV_OP_EVENTS);
    if (status == MKV_OK) {
        status = mkv_op_fill(op, params);
    }
    if (status == MKV_OK) {
        mkv_op_link(op);
        *op_p = op;
    } else {
        mkv_op_free(op);
    }
    mkv_peer_put(peer);
    return status;
}
