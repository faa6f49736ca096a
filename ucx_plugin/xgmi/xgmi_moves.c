/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/xgmi_moves.h"

#include "base/muct_log.h"
#include "xgmi/xgmi_rma.h"

#include <stdlib.h>
#include <string.h>

/* Places of pieces in a buffer: the copy kernel is fastest from and to whole lines. */
#define MUCT_XGMI_SEGMENT_ALIGN 256


struct muct_xgmi_move {
    ucs_list_link_t list;
    muct_xgmi_ep_t *ep; /* NULL: the endpoint was destroyed */
    muct_xgmi_peer_t *peer;
    muct_xgmi_private_t private;
    uint32_t slot;
    uint32_t generation;
    int dir;
    int device;
    uint64_t local;
    uint64_t remote;
    uint64_t length;
    uint64_t started;   /* bytes that were put into segments so far */
    unsigned num_parts; /* parts of the move in segments that are not finished */
    uint64_t stamp;
    ucs_status_t status;
    uct_completion_t *comp;
};


static muct_xgmi_moves_t *muct_xgmi_moves_of(muct_xgmi_ep_t *ep)
{
    return &ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t)->moves;
}

static muct_xgmi_move_t *muct_xgmi_move_after(const muct_xgmi_moves_t *moves,
                                              const muct_xgmi_move_t *move)
{
    return (move->list.next == &moves->list)
               ? NULL
               : ucs_container_of(move->list.next, muct_xgmi_move_t, list);
}


/* ---- copying ---- */

/* Announce the copy for as long as it lasts. */
static ucs_status_t muct_xgmi_move_copy(muct_xgmi_peer_t *peer,
                                        const muct_xgmi_private_t *private,
                                        uint32_t slot, uint32_t generation, int dir,
                                        const muct_xgmi_part_t *part)
{
    ucs_status_t status = UCS_ERR_REJECTED;

    if (!muct_xgmi_peer_was_alive(peer)) {
        return UCS_ERR_CONNECTION_RESET;
    }
    if (!muct_xgmi_peer_enter(peer, slot, generation)) {
        return UCS_ERR_REJECTED;
    }
    if (!muct_xgmi_peer_has_expired(peer, slot, generation)) {
        status = muct_xgmi_private_copy(private, dir == MUCT_XGMI_PUT, part->host,
                                        part->remote, part->length);
    }
    muct_xgmi_peer_leave(peer, slot);
    return status;
}

/* Runs in a thread of the mover. */
static void muct_xgmi_segment_run(muct_xgmi_job_t *job)
{
    muct_xgmi_segment_t *segment = ucs_container_of(job, muct_xgmi_segment_t, job);
    const muct_xgmi_move_t *move;
    muct_xgmi_part_t *part;

    for (part = segment->parts; part < segment->parts + segment->num_parts; ++part) {
        move = part->move;
        part->status = muct_xgmi_move_copy(move->peer, &move->private, move->slot,
                                           move->generation, segment->dir, part);
    }
}

ucs_status_t muct_xgmi_moves_copy(muct_xgmi_ep_t *ep, int dir,
                                  const muct_xgmi_rkey_t *rkey, void *buffer,
                                  size_t length, uint64_t raddr)
{
    const muct_xgmi_iface_t *iface =
        ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t);
    const muct_xgmi_part_t part = {
        .host = (uintptr_t)buffer, .remote = raddr, .length = length};
    ucs_status_t status;

    status = muct_xgmi_ep_check_range(rkey, raddr, length);
    if (status != UCS_OK) {
        return status;
    }
    if (iface->fences.count > 0) {
        return muct_xgmi_ep_no_resource(ep, UCS_ERR_NO_RESOURCE);
    }

    muct_trace_op((dir == MUCT_XGMI_PUT) ? "put short or bcopy" : "get bcopy", length,
                  raddr);
    status = muct_xgmi_move_copy(rkey->peer, &rkey->private, rkey->key.slot,
                                 rkey->key.generation, dir, &part);
    if (status == UCS_ERR_CONNECTION_RESET) {
        iface->moves.fail(ep, status);
    }
    return status;
}


/* ---- completion ---- */

static void muct_xgmi_moves_call_markers(muct_xgmi_moves_t *moves)
{
    muct_xgmi_moves_marker_t *marker;

    while (((marker = moves->markers) != NULL) &&
           muct_xgmi_moves_are_over(moves, marker->stamp, NULL)) {
        moves->markers = marker->next;
        if (moves->markers == NULL) {
            moves->last_marker = &moves->markers;
        }
        marker->op.done(&marker->op, UCS_OK);
    }
}

/* Determine the status to report to the user. */
static ucs_status_t muct_xgmi_move_report(const muct_xgmi_move_t *move)
{
    muct_xgmi_ep_t *ep = move->ep;

    if (ep == NULL) {
        return UCS_ERR_CANCELED;
    }

    --ep->num_not_over;
    if ((move->status == UCS_ERR_CONNECTION_RESET) ||
        ((move->status != UCS_OK) && (move->comp == NULL))) {
        muct_xgmi_moves_of(ep)->fail(ep, move->status);
    }
    return (ep->status == UCS_OK) ? move->status : ep->status;
}

static void muct_xgmi_move_free(muct_xgmi_move_t *move)
{
    ucs_list_del(&move->list);
    muct_xgmi_peer_put(move->peer);
    free(move);
}

static void muct_xgmi_move_end(muct_xgmi_moves_t *moves, muct_xgmi_move_t *move)
{
    uct_completion_t *comp = move->comp;
    ucs_status_t status = muct_xgmi_move_report(move);

    if (moves->next == move) {
        moves->next = muct_xgmi_move_after(moves, move);
    }
    --moves->count;
    muct_xgmi_move_free(move);
    if (comp != NULL) {
        muct_completion_invoke(comp, status);
    }
    muct_xgmi_moves_call_markers(moves);
}

static bool muct_xgmi_move_is_stopped(const muct_xgmi_move_t *move)
{
    return (move->status != UCS_OK) || (move->ep == NULL) ||
           (move->ep->status != UCS_OK);
}

/* @return Number of moves that end with the segment. */
static unsigned muct_xgmi_segment_finish(muct_xgmi_moves_t *moves,
                                         muct_xgmi_segment_t *segment)
{
    unsigned i, count = 0;
    muct_xgmi_move_t *move;

    if (segment->buffer != NULL) {
        muct_xgmi_stage_put(segment->buffer);
    }
    for (i = 0; i < segment->num_parts; ++i) {
        move = segment->parts[i].move;
        if (move->status == UCS_OK) {
            move->status = segment->parts[i].status;
        }
        --move->num_parts;
        if ((move->num_parts == 0) &&
            ((move->started == move->length) || muct_xgmi_move_is_stopped(move))) {
            muct_xgmi_move_end(moves, move);
            ++count;
        }
    }
    segment->next = moves->free;
    moves->free = segment;
    moves->has_work = true;
    return count;
}


/* ---- segments ---- */

/* Called when the queue has copied a segment. */
static void muct_xgmi_segment_copied(muct_xgmi_op_t *op, ucs_status_t status)
{
    muct_xgmi_iface_t *iface = op->owner;
    muct_xgmi_segment_t *segment = op->arg;
    unsigned i;

    if ((status == UCS_OK) && (segment->dir == MUCT_XGMI_PUT) &&
        !iface->moves.is_closing) {
        muct_xgmi_mover_add(&iface->moves.mover, &segment->job);
        return;
    }
    for (i = 0; i < segment->num_parts; ++i) {
        if (segment->parts[i].status == UCS_OK) {
            segment->parts[i].status = status;
        }
    }
    (void)muct_xgmi_segment_finish(&iface->moves, segment);
}

static ucs_status_t muct_xgmi_segment_queue(muct_xgmi_iface_t *iface, int dir,
                                            int device, muct_xgmi_queue_t **queue_p)
{
    ucs_status_t status =
        muct_xgmi_iface_queue(iface, (muct_xgmi_dir_t)dir, device, queue_p);

    return (status == UCS_OK)
               ? muct_xgmi_queue_reserve(*queue_p, MUCT_XGMI_SEGMENT_PARTS)
               : status;
}

/* Copy between the buffer and the GPU; there is room in the queue. */
static void muct_xgmi_segment_copy(muct_xgmi_iface_t *iface,
                                   muct_xgmi_segment_t *segment,
                                   muct_xgmi_queue_t *queue)
{
    bool is_put = (segment->dir == MUCT_XGMI_PUT);
    const muct_xgmi_part_t *part;

    for (part = segment->parts; part < segment->parts + segment->num_parts; ++part) {
        if (part->status == UCS_OK) {
            muct_xgmi_queue_set_operands(queue, part, 0);
            muct_xgmi_queue_add(queue, is_put ? part->host : part->local,
                                is_put ? part->local : part->host, part->length);
        }
    }
    queue->last_local = NULL; /* a later part at this address has other memory */
    muct_xgmi_queue_commit(queue, muct_xgmi_segment_copied, iface, segment);
}

static bool muct_xgmi_segment_has_good(const muct_xgmi_segment_t *segment)
{
    const muct_xgmi_part_t *part = segment->parts;

    while ((part < segment->parts + segment->num_parts) && (part->status != UCS_OK)) {
        ++part;
    }
    return part < segment->parts + segment->num_parts;
}

/*
 * Fill a segment with bytes of the first moves that have the same direction and device.
 */
static void muct_xgmi_segment_cut(muct_xgmi_moves_t *moves,
                                  muct_xgmi_segment_t *segment)
{
    muct_xgmi_move_t *move = moves->next;
    size_t used = 0;
    muct_xgmi_part_t *part;

    segment->dir = move->dir;
    segment->device = move->device;
    segment->num_parts = 0;
    while ((move != NULL) && (move->dir == segment->dir) &&
           (move->device == segment->device) && !muct_xgmi_move_is_stopped(move) &&
           (used < MUCT_XGMI_SEGMENT_SIZE) &&
           (segment->num_parts < MUCT_XGMI_SEGMENT_PARTS)) {
        part = &segment->parts[segment->num_parts++];
        part->move = move;
        part->local = move->local + move->started;
        part->remote = move->remote + move->started;
        part->host = (segment->buffer == NULL)
                         ? part->local
                         : (uintptr_t)segment->buffer->data + used;
        part->length =
            ucs_min(move->length - move->started, MUCT_XGMI_SEGMENT_SIZE - used);
        part->status = UCS_OK;
        used += (part->length + MUCT_XGMI_SEGMENT_ALIGN - 1) &
                ~(size_t)(MUCT_XGMI_SEGMENT_ALIGN - 1);
        move->started += part->length;
        ++move->num_parts;
        if (move->started == move->length) {
            moves->next = muct_xgmi_move_after(moves, move);
        }
        move = moves->next;
    }
}

/* @return UCS_OK, UCS_ERR_NO_RESOURCE, or an error that fails the first move. */
static ucs_status_t muct_xgmi_segment_start(muct_xgmi_iface_t *iface)
{
    muct_xgmi_moves_t *moves = &iface->moves;
    const muct_xgmi_move_t *move = moves->next;
    muct_xgmi_segment_t *segment = moves->free;
    muct_xgmi_queue_t *queue = NULL;
    ucs_status_t status = UCS_OK;

    segment->buffer = NULL;
    if (move->device >= 0) {
        status = muct_xgmi_segment_queue(iface, move->dir, move->device, &queue);
        if (status == UCS_OK) {
            status = muct_xgmi_stage_get(&moves->stage, move->device, &segment->buffer);
        }
        if (status != UCS_OK) {
            return status;
        }
    }

    moves->free = segment->next;
    muct_xgmi_segment_cut(moves, segment);
    if ((queue != NULL) && (segment->dir == MUCT_XGMI_PUT)) {
        muct_xgmi_segment_copy(iface, segment, queue);
    } else {
        muct_xgmi_mover_add(&moves->mover, &segment->job);
    }
    return UCS_OK;
}

static unsigned muct_xgmi_moves_start(muct_xgmi_iface_t *iface)
{
    muct_xgmi_moves_t *moves = &iface->moves;
    ucs_status_t status;
    unsigned count = 0;
    muct_xgmi_move_t *move;

    moves->has_work = false;
    while ((move = moves->next) != NULL) {
        if (!muct_xgmi_move_is_stopped(move)) {
            if (moves->free == NULL) {
                break;
            }
            status = muct_xgmi_segment_start(iface);
            if (status == UCS_ERR_NO_RESOURCE) {
                break;
            }
            if (status != UCS_OK) {
                move->status = status;
            }
            continue;
        }
        if (move->num_parts == 0) {
            muct_xgmi_move_end(moves, move);
            ++count;
        } else {
            moves->next = muct_xgmi_move_after(moves, move);
        }
    }
    return count;
}

/* Copy segments that were read from peers to GPUs, as far as there is room. */
static void muct_xgmi_moves_copy_read(muct_xgmi_iface_t *iface)
{
    muct_xgmi_segment_t *segment;
    muct_xgmi_queue_t *queue;
    ucs_status_t status;

    while ((segment = iface->moves.read) != NULL) {
        status = muct_xgmi_segment_queue(iface, segment->dir, segment->device, &queue);
        if (status != UCS_OK) {
            return; /* the queue exists, so it has no room */
        }
        iface->moves.read = segment->next;
        muct_xgmi_segment_copy(iface, segment, queue);
    }
}

unsigned muct_xgmi_moves_progress(muct_xgmi_iface_t *iface)
{
    muct_xgmi_moves_t *moves = &iface->moves;
    muct_xgmi_job_t *job = muct_xgmi_mover_take(&moves->mover);
    muct_xgmi_segment_t *segment;
    unsigned count = 0;

    while (job != NULL) {
        segment = ucs_container_of(job, muct_xgmi_segment_t, job);
        job = job->next;
        if ((segment->buffer != NULL) && (segment->dir == MUCT_XGMI_GET) &&
            muct_xgmi_segment_has_good(segment)) {
            segment->next = moves->read;
            moves->read = segment;
        } else {
            count += muct_xgmi_segment_finish(moves, segment);
        }
    }
    muct_xgmi_moves_copy_read(iface);
    return count + muct_xgmi_moves_start(iface);
}

bool muct_xgmi_moves_arm(muct_xgmi_moves_t *moves)
{
    return !moves->has_work && muct_xgmi_mover_arm(&moves->mover);
}

bool muct_xgmi_moves_are_over(muct_xgmi_moves_t *moves, uint64_t stamp,
                              muct_xgmi_moves_marker_t *marker)
{
    const muct_xgmi_move_t *first;

    if (ucs_list_is_empty(&moves->list)) {
        return true;
    }
    first = ucs_list_head(&moves->list, muct_xgmi_move_t, list);
    if (first->stamp > stamp) {
        return true;
    }

    if (marker != NULL) {
        marker->next = NULL;
        marker->stamp = stamp;
        *moves->last_marker = marker;
        moves->last_marker = &marker->next;
    }
    return false;
}


/* ---- posting ---- */

ucs_status_t muct_xgmi_moves_prepare(muct_xgmi_ep_t *ep,
                                     const muct_xgmi_move_params_t *params,
                                     ucs_list_link_t *list)
{
    const muct_xgmi_iface_t *iface =
        ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t);
    const muct_xgmi_rkey_t *rkey = params->rkey;
    const muct_xgmi_mem_t *mem = params->memh;
    muct_xgmi_move_t *move;
    ucs_status_t status;

    if (mem == NULL) {
        muct_error("local memory %p was not registered", params->buffer);
        return UCS_ERR_INVALID_PARAM;
    }
    status = muct_xgmi_ep_check_range(rkey, params->raddr, params->length);
    if (status != UCS_OK) {
        return status;
    }
    if ((iface->moves.count >= MUCT_XGMI_MAX_MOVES) || (iface->fences.count > 0)) {
        return UCS_ERR_NO_RESOURCE;
    }
    if (!muct_xgmi_peer_enter(rkey->peer, rkey->key.slot, rkey->key.generation)) {
        return UCS_ERR_REJECTED;
    }
    muct_xgmi_peer_leave(rkey->peer, rkey->key.slot);

    move = calloc(1, sizeof(*move));
    if (move == NULL) {
        muct_error("failed to allocate a copy from or to private memory");
        return UCS_ERR_NO_MEMORY;
    }
    move->ep = ep;
    move->peer = muct_xgmi_peer_ref(rkey->peer);
    move->private = rkey->private;
    move->slot = rkey->key.slot;
    move->generation = rkey->key.generation;
    move->dir = params->dir;
    move->device = mem->is_host ? -1 : mem->device;
    move->local = (uintptr_t)params->buffer;
    move->remote = params->raddr;
    move->length = params->length;
    move->comp = params->comp;
    ucs_list_add_tail(list, &move->list);
    return UCS_OK;
}

void muct_xgmi_moves_drop(ucs_list_link_t *list)
{
    while (!ucs_list_is_empty(list)) {
        muct_xgmi_move_free(ucs_list_head(list, muct_xgmi_move_t, list));
    }
}

void muct_xgmi_moves_commit(muct_xgmi_ep_t *ep, ucs_list_link_t *list)
{
    muct_xgmi_moves_t *moves = muct_xgmi_moves_of(ep);
    muct_xgmi_move_t *move;

    while (!ucs_list_is_empty(list)) {
        move = ucs_list_head(list, muct_xgmi_move_t, list);
        ucs_list_del(&move->list);
        ucs_list_add_tail(&moves->list, &move->list);
        if (moves->next == NULL) {
            moves->next = move;
        }
        move->stamp = ep->move = ++moves->stamp;
        ++moves->count;
        ++ep->num_not_over;
    }
    moves->has_work = true;
    muct_xgmi_wake_hurry(moves->mover.wake);
}

void muct_xgmi_moves_disown(muct_xgmi_moves_t *moves, const muct_xgmi_ep_t *ep)
{
    muct_xgmi_move_t *move;

    ucs_list_for_each(move, &moves->list, list)
    {
        if (move->ep == ep) {
            move->ep = NULL;
        }
    }
    moves->has_work = true;
}


/* ---- life ---- */

void muct_xgmi_moves_init(muct_xgmi_moves_t *moves, const muct_gpu_t *gpu,
                          muct_xgmi_wake_t *wake, muct_xgmi_moves_fail_t fail)
{
    muct_xgmi_segment_t *segment;
    unsigned i;

    moves->fail = fail;
    muct_xgmi_mover_init(&moves->mover, wake);
    muct_xgmi_stage_init(&moves->stage, gpu, MUCT_XGMI_SEGMENT_SIZE,
                         MUCT_XGMI_NUM_SEGMENTS);
    ucs_list_head_init(&moves->list);
    moves->last_marker = &moves->markers;
    for (i = 0; i < MUCT_XGMI_NUM_SEGMENTS; ++i) {
        segment = &moves->segments[i];
        segment->job.run = muct_xgmi_segment_run;
        segment->next = moves->free;
        moves->free = segment;
    }
}

void muct_xgmi_moves_close(muct_xgmi_moves_t *moves)
{
    moves->is_closing = true;
    muct_xgmi_mover_cleanup(&moves->mover);
}

void muct_xgmi_moves_cleanup(muct_xgmi_iface_t *iface)
{
    muct_xgmi_moves_t *moves = &iface->moves;
    muct_xgmi_move_t *move;

    while (!ucs_list_is_empty(&moves->list)) {
        move = ucs_list_head(&moves->list, muct_xgmi_move_t, list);
        move->status = UCS_ERR_CANCELED;
        muct_xgmi_move_end(moves, move);
    }
    muct_xgmi_stage_cleanup(&moves->stage);
}
