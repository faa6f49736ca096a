/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The sender's side. Staging of a peer is NONE, then WAITING until the peer has sent
 * its address, then READY. It is OFF for good where a side has no memory or copies
 * fail.
 *
 * Slot i of our staging goes to slot i of the peer's:
 *
 *   FREE --> GATHERING --> PUTTING --> FLUSHING --STAGE--> SCATTERING --STAGED--> FREE
 *                |             |           |
 *                +-> FREE      +-> LOST    +-> FREE, LOST
 *
 * A slot of an ended leg is FREE when UCX has flushed its put, or when STAGED has come,
 * so nothing is put into a slot that is used again. A failed put or flush
 * proves neither, and its slot is LOST. To its post a list is one call, which ends with
 * the last STAGED. So DONE, ARRIVED and the end of sources need no rules of their own.
 */

#include "stage/stage.h"

#include "message/message.h"
#include "peer/backend.h"
#include "stage/loop.h"
#include "stage/stage_buf.h"
#include "xfer/leg.h"

#include <stdlib.h>

#define MKV_STAGE_OVERHEAD 512u /* bytes of a STAGE beside its places */

typedef enum mkv_stage_state {
    MKV_STAGE_NONE,
    MKV_STAGE_WAITING,
    MKV_STAGE_READY,
    MKV_STAGE_OFF
} mkv_stage_state_t;

typedef enum mkv_slot_state {
    MKV_SLOT_FREE,
    MKV_SLOT_GATHERING,
    MKV_SLOT_PUTTING,
    MKV_SLOT_FLUSHING,
    MKV_SLOT_SCATTERING,
    MKV_SLOT_LOST
} mkv_slot_state_t;

/** A list that a post has given to mkv_stage_give(). */
typedef struct mkv_stage_job {
    mkv_list_t list; /* link in stage->jobs, until the job is done */
    mkv_leg_t *leg;
    mkv_list_put_t put;
    size_t next;        /* first piece that no slot has taken */
    unsigned num_slots; /* number of slots that hold pieces of the job */
    bool is_refused;    /* all pieces must be put in another way */
    void (*done)(void *arg, bool is_refused);
    void *arg;
} mkv_stage_job_t;

typedef struct mkv_slot {
    struct mkv_stage *stage;
    unsigned index;
    mkv_slot_state_t state;
    mkv_stage_job_t *job; /* job of the pieces; NULL: none, or its leg has ended */
    size_t num;           /* number of pieces in the slot */
    uint64_t bytes;
    uint64_t *to; /* addresses of the pieces in our staging, until the gather ends */
    mkv_wbuf_t places; /* places of the pieces in the peer's memory */
} mkv_slot_t;

typedef struct mkv_stage {
    mkv_peer_t *peer;
    mkv_stage_state_t state;
    mkv_stage_buf_t *buf;
    uint64_t remote, remote_slot; /* address of the peer's staging, bytes of a slot */
    ucp_rkey_h rkey;
    mkv_list_t jobs;
    mkv_slot_t slots[MKV_STAGE_SLOTS];
} mkv_stage_t;

/* ---- Ends ------------------------------------------------------------------------ */

/* @return Whether the job was done and is freed. */
static bool mkv_job_check(mkv_stage_job_t *job)
{
    bool is_over = mkv_leg_is_over(job->leg);

    if ((job->num_slots > 0) ||
        (!is_over && !job->is_refused && (job->next < job->put.num))) {
        return false;
    }
    mkv_list_del(&job->list);
    job->done(job->arg, job->is_refused);
    free(job);
    return true;
}

/* End jobs of the leg, or of all legs, that wait for no slot. The end of a job may end
 * others, so the list is read from its start again. */
static void mkv_stage_check_jobs(mkv_stage_t *stage, const mkv_leg_t *leg)
{
    mkv_stage_job_t *job;
    bool is_done;

    do {
        is_done = false;
        mkv_list_for_each(job, &stage->jobs, list)
        {
            if (((leg == NULL) || (job->leg == leg)) && mkv_job_check(job)) {
                is_done = true;
                break;
            }
        }
    } while (is_done);
}

static void mkv_stage_turn_off(mkv_stage_t *stage)
{
    mkv_stage_job_t *job;

    stage->state = MKV_STAGE_OFF;
    mkv_list_for_each(job, &stage->jobs, list)
    {
        job->is_refused = true;
    }
    mkv_stage_check_jobs(stage, NULL);
}

/* Take the slot from its job, which may be done with it */
static void mkv_slot_leave(mkv_slot_t *slot, mkv_slot_state_t state)
{
    mkv_stage_job_t *job = slot->job;

    slot->state = state;
    slot->job = NULL;
    if (state != MKV_SLOT_SCATTERING) {
        mkv_wbuf_cleanup(&slot->places);
    }
    if (job != NULL) {
        --job->num_slots;
        (void)mkv_job_check(job);
    }
}

static void mkv_slot_end(mkv_slot_t *slot, mkv_slot_state_t state)
{
    mkv_slot_leave(slot, state);
    mkv_stage_pump(slot->stage->peer);
}

/* Nothing of it counts any more: its leg is over, or its list goes another way */
static bool mkv_slot_is_void(const mkv_slot_t *slot)
{
    return (slot->job == NULL) || slot->job->is_refused ||
           mkv_leg_is_over(slot->job->leg);
}

static bool mkv_stage_has_slots(const mkv_stage_t *stage)
{
    unsigned i;

    for (i = 0; i < MKV_STAGE_SLOTS; ++i) {
        if (stage->slots[i].state != MKV_SLOT_LOST) {
            return true;
        }
    }
    return false;
}

/* The put may still arrive */
static void mkv_slot_failed(mkv_slot_t *slot, const char *what, ucs_status_t status)
{
    mkv_leg_t *leg = slot->job->leg;

    mkv_leg_fail(leg, mkv_status_of_ucs(status),
                 "peer %s, leg %u: %s of %zu staged pieces failed: %s", leg->peer->name,
                 leg->index, what, slot->num, ucs_status_string(status));
    mkv_slot_end(slot, MKV_SLOT_LOST);
    if (!mkv_stage_has_slots(slot->stage)) {
        mkv_stage_turn_off(slot->stage);
    }
}

void mkv_stage_leg_ended(mkv_leg_t *leg)
{
    mkv_stage_t *stage = leg->peer->stage;
    unsigned i;

    if (stage == NULL) {
        return;
    }
    for (i = 0; i < MKV_STAGE_SLOTS; ++i) {
        if ((stage->slots[i].state == MKV_SLOT_SCATTERING) &&
            (stage->slots[i].job != NULL) && (stage->slots[i].job->leg == leg)) {
            mkv_slot_leave(&stage->slots[i], MKV_SLOT_SCATTERING);
        }
    }
    mkv_stage_check_jobs(stage, leg);
}

/* ---- From slot to slot ----------------------------------------------------------- */

static void mkv_slot_send(mkv_slot_t *slot)
{
    mkv_msg_t msg = {.type = MKV_MSG_STAGE,
                     .serial = slot->index,
                     .bytes = slot->bytes,
                     .data = slot->places.data,
                     .length = slot->places.length};

    slot->state = MKV_SLOT_SCATTERING;
    mkv_leg_send_or_fail(slot->job->leg, &msg);
    mkv_wbuf_cleanup(&slot->places);
}

/* The bytes are in the peer's staging */
static void mkv_slot_arrived(mkv_slot_t *slot, ucs_status_t status)
{
    if (status != UCS_OK) {
        mkv_slot_failed(slot, "flush", status);
    } else if (mkv_slot_is_void(slot)) {
        mkv_slot_end(slot, MKV_SLOT_FREE);
    } else {
        mkv_slot_send(slot);
    }
}

/* The end of each callback: the slot's peer may be gone behind it */
static void mkv_slot_call_ended(mkv_peer_t *peer, void *request)
{
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

static void mkv_slot_read_back_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_slot_t *slot = user_data;
    mkv_peer_t *peer = slot->stage->peer;

    mkv_slot_arrived(slot, status);
    mkv_slot_call_ended(peer, request);
}

static uint64_t mkv_slot_remote(const mkv_slot_t *slot)
{
    return slot->stage->remote + slot->index * slot->stage->remote_slot;
}

/* Of a call between our slot and the peer's */
static ucp_request_param_t mkv_slot_param(mkv_slot_t *slot, ucp_send_nbx_callback_t cb)
{
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_MEMH,
                                 .cb.send = cb,
                                 .user_data = slot,
                                 .memh = slot->stage->buf->memh};
}

/* FENCE=flush: the byte that is read is the byte that it replaces */
static void mkv_slot_read_back(mkv_slot_t *slot)
{
    const mkv_stage_t *stage = slot->stage;
    ucp_request_param_t param = mkv_slot_param(slot, mkv_slot_read_back_cb);
    ucs_status_ptr_t request;

    mkv_peer_get(stage->peer);
    request = ucp_get_nbx(
        stage->peer->ep, (void *)(uintptr_t)mkv_stage_buf_slot(stage->buf, slot->index),
        1, mkv_slot_remote(slot), stage->rkey, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_slot_read_back_cb(NULL, UCS_PTR_RAW_STATUS(request), slot);
    }
}

static void mkv_slot_flushed_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_slot_t *slot = user_data;
    mkv_peer_t *peer = slot->stage->peer;

    if ((status == UCS_OK) && (peer->ctx->opts->fence == MKV_FENCE_FLUSH) &&
        !mkv_conn_is_cut_off(peer->state)) {
        mkv_slot_read_back(slot);
    } else {
        mkv_slot_arrived(slot, status);
    }
    mkv_slot_call_ended(peer, request);
}

static void mkv_slot_flush(mkv_slot_t *slot)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = mkv_slot_flushed_cb,
                                 .user_data = slot};
    mkv_peer_t *peer = slot->stage->peer;
    ucs_status_ptr_t request;

    if (mkv_conn_is_cut_off(peer->state)) {
        mkv_slot_failed(slot, "flush", UCS_ERR_NOT_CONNECTED);
        return;
    }
    slot->state = MKV_SLOT_FLUSHING;
    mkv_peer_get(peer);
    request = ucp_ep_flush_nbx(peer->ep, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_slot_flushed_cb(NULL, UCS_PTR_RAW_STATUS(request), slot);
    }
}

static void mkv_slot_put_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_slot_t *slot = user_data;
    mkv_peer_t *peer = slot->stage->peer;

    if (status == UCS_OK) {
        mkv_slot_flush(slot);
    } else {
        mkv_slot_failed(slot, "put", status);
    }
    mkv_slot_call_ended(peer, request);
}

static void mkv_slot_put(mkv_slot_t *slot)
{
    const mkv_stage_t *stage = slot->stage;
    ucp_request_param_t param = mkv_slot_param(slot, mkv_slot_put_cb);
    ucs_status_ptr_t request;

    slot->state = MKV_SLOT_PUTTING;
    mkv_peer_get(stage->peer);
    MKV_ADD(slot->job->leg->xfer->num_ucp_calls, 1);
    MKV_COUNT(stage->peer, ucp_calls, 1);
    request = ucp_put_nbx(
        stage->peer->ep, (void *)(uintptr_t)mkv_stage_buf_slot(stage->buf, slot->index),
        slot->bytes, mkv_slot_remote(slot), stage->rkey, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_slot_put_cb(NULL, UCS_PTR_RAW_STATUS(request), slot);
    }
}

static void mkv_slot_gathered_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_slot_t *slot = user_data;
    mkv_stage_t *stage = slot->stage;
    mkv_peer_t *peer = stage->peer;

    free(slot->to);
    slot->to = NULL;
    mkv_loop_ended(peer->ctx, request, status);
    if (status != UCS_OK) {
        mkv_stage_turn_off(stage);
    }
    if (mkv_slot_is_void(slot) || mkv_conn_is_cut_off(peer->state)) {
        mkv_slot_end(slot, MKV_SLOT_FREE);
    } else {
        mkv_slot_put(slot);
    }
    mkv_slot_call_ended(peer, request);
}

/* ---- Gathering ------------------------------------------------------------------- */

/* Extend the last places by a piece. @return false: it is none of theirs. */
static bool mkv_places_extend(mkv_places_t *places, uint64_t address, size_t length)
{
    if ((places->count == 0) || (places->length != length) ||
        ((places->count > 1) &&
         (address != places->address + places->count * places->stride))) {
        return false;
    }
    if (places->count == 1) {
        places->stride = address - places->address;
    }
    ++places->count;
    return true;
}

static void mkv_slot_add(mkv_slot_t *slot, uint64_t address, size_t length,
                         mkv_places_t *places)
{
    const mkv_stage_t *stage = slot->stage;

    slot->to[slot->num++] = mkv_stage_buf_slot(stage->buf, slot->index) + slot->bytes;
    slot->bytes += length;
    if (mkv_places_extend(places, address, length)) {
        return;
    }
    if (places->count > 0) {
        mkv_wire_put_places(&slot->places, places);
    }
    *places =
        (mkv_places_t){.address = address, .length = (uint32_t)length, .count = 1};
}

/* Bytes of the places of a slot, besides one entry. The messages of all slots fit into
 * MAX_QUEUED. */
static uint64_t mkv_stage_max_places(mkv_peer_t *peer)
{
    uint64_t queued = peer->ctx->opts->max_queued / MKV_STAGE_SLOTS;
    uint64_t max = mkv_message_max(peer);

    max = (queued < max) ? queued : max;
    return (max > MKV_STAGE_OVERHEAD) ? max - MKV_STAGE_OVERHEAD : 0;
}

/* Take pieces as long as they fit into the slot and into the message */
static void mkv_slot_fill(mkv_slot_t *slot)
{
    const mkv_stage_t *stage = slot->stage;
    mkv_stage_job_t *job = slot->job;
    uint64_t max_places = mkv_stage_max_places(stage->peer);
    mkv_places_t places = {.count = 0};

    while ((job->next < job->put.num) && (slot->num < MKV_STAGE_PIECES) &&
           (job->put.lengths[job->next] <= stage->buf->slot - slot->bytes) &&
           (slot->places.length <= max_places)) {
        mkv_slot_add(slot, job->put.remotes[job->next], job->put.lengths[job->next],
                     &places);
        ++job->next;
    }
    mkv_wire_put_places(&slot->places, &places);
}

static void mkv_slot_gather(mkv_slot_t *slot, size_t first)
{
    const mkv_list_put_t *put = &slot->job->put;
    mkv_stage_buf_t *buf = slot->stage->buf;
    mkv_list_put_t list = {.buffers = put->buffers + first,
                           .lengths = put->lengths + first,
                           .memhs = (ucp_mem_h *)put->memhs + first,
                           .remotes = slot->to,
                           .rkeys =
                               mkv_repeat_get(&buf->rkeys, buf->loop_key, slot->num),
                           .num = slot->num};
    ucs_status_ptr_t request = UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);

    slot->state = MKV_SLOT_GATHERING;
    mkv_peer_get(slot->stage->peer);
    if ((list.rkeys != NULL) && !slot->places.has_failed) {
        request =
            mkv_loop_put(slot->stage->peer->ctx, &list, mkv_slot_gathered_cb, slot);
    }
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_slot_gathered_cb(NULL, UCS_PTR_RAW_STATUS(request), slot);
    }
}

/* @return false: no memory. */
static bool mkv_slot_start(mkv_slot_t *slot, mkv_stage_job_t *job)
{
    size_t first = job->next, num = job->put.num - first;

    num = (num < MKV_STAGE_PIECES) ? num : MKV_STAGE_PIECES;
    slot->to = malloc(num * sizeof(*slot->to));
    if (slot->to == NULL) {
        return false;
    }
    slot->job = job;
    slot->num = 0;
    slot->bytes = 0;
    mkv_wbuf_init(&slot->places);
    ++job->num_slots;
    mkv_slot_fill(slot);
    mkv_slot_gather(slot, first);
    return true;
}

static mkv_slot_t *mkv_stage_free_slot(mkv_stage_t *stage)
{
    unsigned i;

    for (i = 0; i < MKV_STAGE_SLOTS; ++i) {
        if (stage->slots[i].state == MKV_SLOT_FREE) {
            return &stage->slots[i];
        }
    }
    return NULL;
}

static mkv_stage_job_t *mkv_stage_next_job(mkv_stage_t *stage)
{
    mkv_stage_job_t *job;

    mkv_list_for_each(job, &stage->jobs, list)
    {
        if ((job->next < job->put.num) && !job->is_refused &&
            !mkv_leg_is_over(job->leg)) {
            return job;
        }
    }
    return NULL;
}

void mkv_stage_pump(mkv_peer_t *peer)
{
    mkv_stage_t *stage = peer->stage;
    mkv_stage_job_t *job;
    mkv_slot_t *slot;

    while ((stage != NULL) && (stage->state == MKV_STAGE_READY) &&
           !mkv_conn_is_cut_off(peer->state) &&
           ((job = mkv_stage_next_job(stage)) != NULL) &&
           ((slot = mkv_stage_free_slot(stage)) != NULL)) {
        if (!mkv_slot_start(slot, job)) {
            mkv_stage_turn_off(stage);
        }
    }
}

/* ---- Lists ----------------------------------------------------------------------- */

/* @return false: nothing is staged to this peer. */
static bool mkv_stage_open(mkv_peer_t *peer, ucs_memory_type_t type)
{
    mkv_stage_t *stage = peer->stage;
    unsigned i;

    if (stage != NULL) {
        return (stage->state != MKV_STAGE_OFF) && (stage->buf->type == type) &&
               mkv_loop_takes_lists(peer->ctx);
    }
    if (!mkv_loop_takes_lists(peer->ctx)) {
        return false;
    }
    peer->stage = stage = calloc(1, sizeof(*stage));
    if (stage == NULL) {
        return false;
    }
    stage->peer = peer;
    mkv_list_init(&stage->jobs);
    for (i = 0; i < MKV_STAGE_SLOTS; ++i) {
        stage->slots[i].stage = stage;
        stage->slots[i].index = i;
    }
    stage->buf = mkv_stage_buf_create(peer->ctx, type);
    if (stage->buf == NULL) {
        stage->state = MKV_STAGE_OFF;
    }
    return stage->buf != NULL;
}

/* Short enough on average, and each fits into a slot */
static bool mkv_list_is_short(const mkv_ctx_t *ctx, const mkv_list_put_t *put,
                              uint64_t bytes)
{
    size_t i;

    if ((put->num < ctx->tuning.stage_min) ||
        (bytes / put->num >= ctx->opts->stage_below)) {
        return false;
    }
    for (i = 0; i < put->num; ++i) {
        if (put->lengths[i] > ctx->tuning.stage_slot) {
            return false;
        }
    }
    return true;
}

bool mkv_stage_takes_list(const mkv_leg_t *leg, const mkv_pair_t *first,
                          const mkv_list_put_t *put, uint64_t bytes)
{
    mkv_peer_t *peer = leg->peer;
    ucs_memory_type_t type = first->mem->type;

    return (leg->xfer->role == MKV_SRC) && !(leg->map->flags & MKV_MAP_TOKENS) &&
           (peer->backend == MKV_BACKEND_RDMA) &&
           mkv_peer_has_feature(peer, MKV_FEATURE_STAGE) &&
           (type != UCS_MEMORY_TYPE_HOST) && (first->rmem->type == type) &&
           mkv_list_is_short(peer->ctx, put, bytes) && mkv_stage_open(peer, type);
}

static void mkv_stage_want(mkv_stage_t *stage, mkv_leg_t *leg)
{
    mkv_msg_t msg = {.type = MKV_MSG_STAGE,
                     .serial = MKV_STAGE_WANTED,
                     .value = stage->buf->type,
                     .bytes = stage->buf->slot};

    stage->state = MKV_STAGE_WAITING;
    mkv_leg_send_or_fail(leg, &msg);
}

bool mkv_stage_give(mkv_leg_t *leg, const mkv_list_put_t *put,
                    void (*done)(void *arg, bool is_refused), void *arg)
{
    mkv_stage_t *stage = leg->peer->stage;
    mkv_stage_job_t *job = calloc(1, sizeof(*job));

    if (job == NULL) {
        return false;
    }
    job->leg = leg;
    job->put = *put;
    job->done = done;
    job->arg = arg;
    mkv_list_init(&job->list);
    mkv_list_add_tail(&stage->jobs, &job->list);
    if (stage->state == MKV_STAGE_NONE) {
        mkv_stage_want(stage, leg);
    }
    return true;
}

/* ---- Answers --------------------------------------------------------------------- */

static void mkv_stage_given(mkv_stage_t *stage, const mkv_msg_t *msg)
{
    mkv_peer_t *peer = stage->peer;

    if ((msg->code == MKV_OK) && (msg->bytes >= stage->buf->slot) &&
        (msg->length > 0) &&
        (ucp_ep_rkey_unpack(peer->ep, msg->data, &stage->rkey) == UCS_OK)) {
        stage->remote = msg->address;
        stage->remote_slot = msg->bytes;
        stage->state = MKV_STAGE_READY;
        mkv_stage_pump(peer);
        return;
    }
    stage->rkey = NULL;
    mkv_log_info(peer->ctx, "peer %s gives no staging (%s), short pieces are put",
                 peer->name, mkv_status_string((mkv_status_t)msg->code));
    mkv_stage_turn_off(stage);
}

/* UNSUPPORTED: the peer cannot copy, and the list goes another way */
static void mkv_slot_answered(mkv_slot_t *slot, mkv_status_t code)
{
    mkv_stage_job_t *job = slot->job;
    mkv_leg_t *leg = (job != NULL) ? job->leg : NULL;

    if (code == MKV_ERR_UNSUPPORTED) {
        mkv_stage_turn_off(slot->stage);
    } else if ((code != MKV_OK) && (leg != NULL)) {
        mkv_leg_fail(leg, code, "peer %s, leg %u: it did not scatter %zu staged pieces",
                     leg->peer->name, leg->index, slot->num);
    }
    mkv_slot_end(slot, MKV_SLOT_FREE);
}

void mkv_stage_answered(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_stage_t *stage = peer->stage;

    if ((stage != NULL) && (msg->serial == MKV_STAGE_WANTED) &&
        (stage->state == MKV_STAGE_WAITING)) {
        mkv_stage_given(stage, msg);
    } else if ((stage != NULL) && (msg->serial < MKV_STAGE_SLOTS) &&
               (stage->slots[msg->serial].state == MKV_SLOT_SCATTERING)) {
        mkv_slot_answered(&stage->slots[msg->serial], (mkv_status_t)msg->code);
    } else {
        mkv_peer_fail(peer, MKV_ERR_PROTOCOL,
                      "it sent STAGED of slot %u, which does not wait for it",
                      msg->serial);
    }
}

void mkv_stage_free(mkv_peer_t *peer)
{
    mkv_stage_t *stage = peer->stage;

    if (stage == NULL) {
        return;
    }
    if (stage->rkey != NULL) {
        ucp_rkey_destroy(stage->rkey);
    }
    mkv_stage_buf_destroy(peer->ctx, stage->buf);
    free(stage);
    peer->stage = NULL;
}
