/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Posts: they turn a plan into UCX calls.
 *
 * A post is a cursor over (pair, run, unit). It is given to UCX as far as the peer's
 * credits reach, as lists where the peer takes them (puts), else piece by piece.
 * Progress continues it. The source of a transfer puts, whether it is active or was
 * requested to put. The destination of a READ gets the pieces that it does not request
 * from the source (pull.h). A post ends when the cursor is at the end and no call is in
 * flight.
 *
 * The arrays of a list are computed in one pass over the runs, into memory of the list
 * cache. UCX reads them until the call completes; a post that repeats an earlier one
 * gives UCX the same arrays. If the post lies in one allocation on both sides, the key
 * and handle arrays hold one repeated value and all posts share them.
 *
 * Credits count calls and bytes. The callback of a call has no record of its bytes. So
 * a completing call returns the average over the calls given, and the last one returns
 * the rest.
 */

#include "post/post.h"

#include "plan/blocks.h"
#include "peer/backend.h"
#include "peer/list_put.h"
#include "post/call_end.h"
#include "post/gate.h"
#include "post/post_calls.h"
#include "post/post_cursor.h"
#include "post/post_end.h"
#include "post/post_list.h"
#include "post/pull.h"
#include "stage/stage.h"

/* ---- Completions ----------------------------------------------------------------- */

static void mkv_post_fail(mkv_post_t *post, const char *call, const mkv_piece_t *piece,
                          ucs_status_t status)
{
    mkv_leg_t *leg = post->leg;
    const mkv_map_t *map = leg->map;
    const mkv_path_key_t key = mkv_post_path(post, piece->pair, false);
    char reason[640];

    mkv_path_reason(leg->peer, &key, reason, sizeof(reason));
    mkv_leg_fail(leg, mkv_status_of_ucs(status),
                 "peer %s, leg %u: %s(component %u layer %d part %u from local block "
                 "%u) failed: %s%s%s",
                 leg->peer->name, leg->index, call,
                 map->components[piece->pair->component].component, piece->pair->layer,
                 piece->pair->part, piece->unit, ucs_status_string(status),
                 reason[0] != '\0' ? ": " : "", reason);
}

/* The piece of a call in flight, for the text of an error */
static void mkv_calls_piece(const mkv_calls_t *calls, unsigned index,
                            mkv_piece_t *piece)
{
    mkv_post_t copy = *calls->post;

    copy.at = calls->from;
    do {
        (void)mkv_post_next(&copy, piece);
    } while (index-- > 0);
}

/* Puts have arrived only when a flush has ended */
static void mkv_post_wants_flush(mkv_post_t *post)
{
    if (post->leg->xfer->role == MKV_SRC) {
        post->leg->puts = MKV_PUTS_GIVEN;
    }
}

/* Count calls when they take credit, before a completion can return it */
static void mkv_post_count_calls(mkv_post_t *post, uint64_t num)
{
    mkv_leg_t *leg = post->leg;

    mkv_post_average_calls(post);
    leg->peer->ctx->round_cost += num * MKV_CALL_COST;
    MKV_ADD(leg->xfer->num_ucp_calls, num);
    MKV_COUNT(leg->peer, ucp_calls, num);
}

/* Called when a call has ended */
static inline void mkv_post_call_done(mkv_post_t *post)
{
    mkv_post_put_credit(post);
    if (post->num_inflight == 0) {
        mkv_post_none_in_flight(post);
    }
}

static void __attribute__((noinline)) mkv_post_piece_failed(void *user_data,
                                                            ucs_status_t status)
{
    const mkv_calls_t *calls = mkv_calls_of(user_data);
    mkv_piece_t piece;

    mkv_calls_piece(calls, mkv_calls_index(user_data), &piece);
    mkv_post_fail(calls->post,
                  (calls->post->leg->xfer->role == MKV_SRC) ? "put" : "get", &piece,
                  status);
}

/* ---- The first call between two memory types is queried for its path ------------- */

/*
 * Called by the callback.
 * @return Whether it ran within the call, as if the call had returned the status.
 */
static bool mkv_calls_answer(mkv_calls_t *calls, void *request, ucs_status_t status)
{
    if (calls->query != MKV_QUERY_SENT) {
        return false;
    }
    mkv_calls_note(calls, request);
    calls->query = MKV_QUERY_DONE;
    calls->answer = status;
    ucp_request_free(request);
    return true;
}

/*
 * Called when the UCX call has returned.
 * @return The value that the call would have returned without the query.
 */
static ucs_status_ptr_t mkv_calls_end_query(mkv_calls_t *calls,
                                            ucs_status_ptr_t request)
{
    if (calls->query == MKV_QUERY_DONE) {
        return UCS_STATUS_PTR(calls->answer);
    }
    if ((calls->query == MKV_QUERY_SENT) && UCS_PTR_IS_PTR(request)) {
        mkv_calls_note(calls, request);
    }
    calls->query = MKV_QUERY_NONE;
    return request;
}

static void mkv_post_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_calls_t *calls = mkv_calls_of(user_data);
    mkv_post_t *post = calls->post;

    if (status != UCS_OK) {
        mkv_post_piece_failed(user_data, status);
    }
    --calls->num_inflight;
    mkv_calls_put(calls);
    mkv_post_call_done(post);
    ucp_request_free(request);
}

static void __attribute__((cold)) mkv_post_first_cb(void *request, ucs_status_t status,
                                                    void *user_data)
{
    if (!mkv_calls_answer(mkv_calls_of(user_data), request, status)) {
        mkv_post_cb(request, status, user_data);
    }
}

static void mkv_post_list_failed(const mkv_calls_t *calls, ucs_status_t status)
{
    mkv_piece_t piece;
    char text[64];

    mkv_calls_piece(calls, 0, &piece);
    mkv_text(text, sizeof(text), "list put of %zu pieces", calls->lists->num);
    mkv_post_fail(calls->post, text, &piece, status);
}

static void mkv_post_sgl_status(mkv_calls_t *calls, ucs_status_t status)
{
    const mkv_pair_t *pair = &calls->post->plan->map->pairs[calls->from.pair];

    switch (mkv_peer_list_ended(calls->post->leg->peer, pair->mem->type,
                                pair->rmem->type, status)) {
    case MKV_LIST_MOVED:
        break;
    case MKV_LIST_REFUSED:
        calls->post->must_repeat = true;
        break;
    case MKV_LIST_FAILED:
        mkv_post_wants_flush(calls->post); /* some bytes may have been put */
        mkv_post_list_failed(calls, status);
        break;
    }
}

static void mkv_post_sgl_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_calls_t *calls = mkv_calls_of(user_data);
    mkv_post_t *post = calls->post;

    if (mkv_calls_answer(calls, request, status)) {
        return;
    }
    mkv_post_sgl_status(calls, status);
    --calls->num_inflight;
    mkv_calls_put(calls);
    mkv_post_call_done(post);
    ucp_request_free(request);
}

/* ---- Piece by piece -------------------------------------------------------------- */

static inline bool mkv_peer_is_below(const mkv_peer_t *peer, const mkv_limits_t *limits)
{
    return (peer->inflight_ops < limits->ops) && (peer->inflight_bytes < limits->bytes);
}

static bool mkv_leg_has_credit(const mkv_leg_t *leg)
{
    return (leg->peer->ctx->round_cost < MKV_ROUND_COST) &&
           mkv_peer_is_below(leg->peer, &leg->xfer->limits);
}

/*
 * Give calls until the group, the pair or the credits end. Parameters that all calls
 * share are set once: no callback runs before these return.
 * @return The last request.
 */
static ucs_status_ptr_t mkv_post_issue_calls(mkv_post_t *post, mkv_calls_t *calls,
                                             mkv_piece_t *piece)
{
    const mkv_pair_t *pair = &post->plan->map->pairs[post->at.pair];
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FLAG_MULTI_SEND,
        .cb.send = mkv_post_cb,
        .memh = pair->mem->memh};
    bool is_write = (post->leg->xfer->role == MKV_SRC);
    const mkv_plan_part_t *part = mkv_post_part(post, pair);
    const mkv_stretch_t stretch = mkv_post_stretch(post, pair);
    mkv_peer_t *peer = post->leg->peer;
    const mkv_limits_t *limits = &post->leg->xfer->limits;
    const ucp_rkey_h rkey = pair->rmem->rkey;
    const ucp_ep_h ep = peer->ep;
    ucs_status_ptr_t request = NULL;
    unsigned num = 0;

    while ((num < MKV_CALLS_MAX) && mkv_peer_is_below(peer, limits) &&
           mkv_post_next_of(post, &stretch, part, piece)) {
        param.user_data = mkv_calls_user_data(calls, num++);
        post->bytes += piece->length;
        request = is_write ? ucp_put_nbx(ep, piece->local, piece->length, piece->remote,
                                         rkey, &param)
                           : ucp_get_nbx(ep, piece->local, piece->length, piece->remote,
                                         rkey, &param);
        if (UCS_PTR_IS_PTR(request)) {
            mkv_post_take_credit(post, piece->length);
            ++calls->num_inflight;
        } else if (UCS_PTR_IS_ERR(request)) {
            break;
        }
    }

    post->elements += num;
    mkv_post_wants_flush(post);
    mkv_post_count_calls(post, num);
    return request;
}

/* Issue one call and query its path. @return Its request, or its final status. */
static ucs_status_ptr_t __attribute__((cold, noinline)) mkv_post_issue_first(
    mkv_post_t *post, mkv_calls_t *calls, mkv_piece_t *piece)
{
    const mkv_pair_t *pair = &post->plan->map->pairs[post->at.pair];
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FLAG_MULTI_SEND |
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.send = mkv_post_first_cb,
        .user_data = mkv_calls_user_data(calls, 0),
        .memh = pair->mem->memh};
    ucp_ep_h ep = post->leg->peer->ep;
    ucs_status_ptr_t request;

    (void)mkv_post_next(post, piece);
    post->bytes += piece->length;
    ++post->elements;
    calls->query = MKV_QUERY_SENT;
    request = (post->leg->xfer->role == MKV_SRC)
                  ? ucp_put_nbx(ep, piece->local, piece->length, piece->remote,
                                pair->rmem->rkey, &param)
                  : ucp_get_nbx(ep, piece->local, piece->length, piece->remote,
                                pair->rmem->rkey, &param);
    request = mkv_calls_end_query(calls, request);
    if (UCS_PTR_IS_PTR(request)) {
        mkv_post_take_credit(post, piece->length);
        ++calls->num_inflight;
    }
    mkv_post_wants_flush(post);
    mkv_post_count_calls(post, 1);
    return request;
}

/* Issue one group of calls, or one call with a query. @return false: stop, because
 * there is no memory, a call failed, or strict mode refuses the path. */
static bool __attribute__((noinline)) mkv_post_issue_pair(mkv_post_t *post,
                                                          bool is_queried)
{
    const mkv_pair_t *pair = &post->plan->map->pairs[post->at.pair];
    const mkv_path_key_t key = mkv_post_path(post, pair, false);
    mkv_calls_t *calls = mkv_calls_get(post);
    ucs_status_ptr_t request;
    mkv_piece_t piece;

    if (calls == NULL) {
        mkv_xfer_fail(post->leg->xfer, MKV_ERR_NOMEM,
                      "peer %s, leg %u: no memory for calls", post->leg->peer->name,
                      post->leg->index);
        return false;
    }
    post->has_pieces = true;
    request = (!is_queried && mkv_path_is_known(post->leg->peer, &key))
                  ? mkv_post_issue_calls(post, calls, &piece)
                  : mkv_post_issue_first(post, calls, &piece);
    mkv_calls_put(calls);
    if (!UCS_PTR_IS_ERR(request)) {
        return !mkv_post_is_refused(post, &key);
    }
    mkv_post_fail(post, (post->leg->xfer->role == MKV_SRC) ? "put" : "get", &piece,
                  UCS_PTR_STATUS(request));
    return false;
}

/* ---- By lists -------------------------------------------------------------------- */

/*
 * Set the handle and key of each entry.
 * @return false: no memory
 */
static bool mkv_post_list_keys(const mkv_lists_t *lists, const mkv_pair_t *first,
                               mkv_list_put_t *put)
{
    put->memhs = lists->memhs;
    put->rkeys = lists->rkeys;
    if (lists->memhs == NULL) {
        put->memhs = mkv_repeat_get(&first->mem->repeat, first->mem->memh, lists->num);
        put->rkeys =
            mkv_repeat_get(&first->rmem->repeat, first->rmem->rkey, lists->num);
    }
    return (put->memhs != NULL) && (put->rkeys != NULL);
}

static void mkv_post_call_sgl(mkv_calls_t *calls, const mkv_list_put_t *put)
{
    mkv_post_t *post = calls->post;
    ucs_status_ptr_t request;

    post->elements += put->num;
    post->bytes += calls->lists->bytes;
    post->leg->peer->ctx->round_cost += put->num;
    mkv_post_take_credit(post, calls->lists->bytes);
    if (!mkv_post_lists_arrive(post)) {
        mkv_post_wants_flush(post);
    }
    mkv_post_count_calls(post, 1);
    calls->query = put->is_queried ? MKV_QUERY_SENT : MKV_QUERY_NONE;
    request = mkv_ep_put_list(post->leg->peer->ep, put, mkv_post_sgl_cb,
                              mkv_calls_user_data(calls, 0));
    request = mkv_calls_end_query(calls, request);
    if (UCS_PTR_IS_PTR(request)) {
        ++calls->num_inflight;
    } else {
        mkv_post_put_credit(post);
        mkv_post_sgl_status(calls, UCS_PTR_RAW_STATUS(request));
    }
}

/* Called when a list has moved by way of staging, or cannot */
static void mkv_post_staged(void *arg, bool is_refused)
{
    mkv_calls_t *calls = arg;
    mkv_post_t *post = calls->post;

    post->must_repeat |= is_refused;
    --calls->num_inflight;
    mkv_calls_put(calls);
    mkv_post_call_done(post);
}

/* @return false: no memory */
static bool mkv_post_stage(mkv_calls_t *calls, const mkv_list_put_t *put)
{
    mkv_post_t *post = calls->post;

    if (!mkv_stage_give(post->leg, put, mkv_post_staged, calls)) {
        return false;
    }
    post->elements += put->num;
    post->bytes += calls->lists->bytes;
    ++calls->num_inflight;
    mkv_post_take_credit(post, calls->lists->bytes);
    mkv_post_average_calls(post);
    mkv_post_wants_flush(post);
    return true;
}

/* @return false: no memory */
static bool mkv_post_give_list(mkv_calls_t *calls, const mkv_pair_t *first,
                               const mkv_path_key_t *key)
{
    const mkv_lists_t *lists = mkv_lists_get(calls->post, first);
    mkv_list_put_t put;

    calls->lists = lists;
    if ((lists == NULL) || !mkv_post_list_keys(lists, first, &put)) {
        return false;
    }

    put.buffers = lists->buffers;
    put.lengths = lists->lengths;
    put.remotes = lists->remotes;
    put.num = lists->num;
    put.is_queried = !mkv_path_is_known(calls->post->leg->peer, key);
    if (mkv_stage_takes(calls->post->leg, first, &put, lists->bytes)) {
        return mkv_post_stage(calls, &put);
    }
    mkv_post_call_sgl(calls, &put);
    return true;
}

/* Issue one list. @return false: stop, because there is no memory, the call failed, or
 * strict mode refuses the path. */
static bool mkv_post_issue_list(mkv_post_t *post, const mkv_pair_t *first)
{
    const mkv_path_key_t key = mkv_post_path(post, first, true);
    mkv_calls_t *calls = mkv_calls_get(post);
    bool is_given = false;

    if (calls != NULL) {
        is_given = mkv_post_give_list(calls, first, &key);
        mkv_calls_put(calls);
    }
    if (!is_given) {
        mkv_xfer_fail(post->leg->xfer, MKV_ERR_NOMEM,
                      "peer %s, leg %u: no memory for a list of %llu pieces",
                      post->leg->peer->name, post->leg->index,
                      (unsigned long long)post->num_elements);
    }
    return is_given && !mkv_leg_is_over(post->leg) && !post->must_repeat &&
           !mkv_post_is_refused(post, &key);
}

/* ---- Pumping --------------------------------------------------------------------- */

/* Each pair has its own path: memory types differ, and UCX's choice with them */
static mkv_list_use_t mkv_post_list_use(const mkv_post_t *post, const mkv_pair_t *pair)
{
    mkv_list_use_t use;

    if (post->leg->xfer->role != MKV_SRC) {
        return MKV_LIST_USE_NONE;
    }
    use = mkv_peer_list_use(post->leg->peer, pair->mem->type, pair->rmem);
    return ((use == MKV_LIST_USE_FULL) && (post->num_elements <= 1)) ? MKV_LIST_USE_NONE
                                                                     : use;
}

/* @return true: the post has no more pieces. */
static bool mkv_post_issue(mkv_post_t *post)
{
    mkv_leg_t *leg = post->leg;
    const mkv_pair_t *pair;
    mkv_list_use_t use;
    bool goes_on = true;

    while (goes_on && mkv_leg_has_credit(leg) && !mkv_leg_is_over(leg) &&
           !post->must_repeat) {
        pair = mkv_post_pair(post);
        if (pair == NULL) {
            return true;
        }
        use = mkv_post_list_use(post, pair);
        goes_on = (use == MKV_LIST_USE_FULL)
                      ? mkv_post_issue_list(post, pair)
                      : mkv_post_issue_pair(post, use == MKV_LIST_USE_PROBE);
        post->must_repeat |=
            goes_on && (use == MKV_LIST_USE_PROBE) && mkv_pull_is_wanted(post);
    }
    return mkv_post_is_at_end(post);
}

/* @return 1 if the post may start now */
static bool mkv_post_check_gate(mkv_post_t *post)
{
    int answer;

    if ((post->gate_state == MKV_GATE_WAIT) &&
        (mkv_gate_value(post->plan->ctx, post->gate.id) >= post->gate.value)) {
        post->gate_state = MKV_GATE_OPEN;
    }
    if (post->gate_state != MKV_GATE_CHECK) {
        return post->gate_state == MKV_GATE_OPEN;
    }

    answer = post->gate.ready(post->gate.arg);
    if (answer == 0) {
        return false;
    }
    post->gate_state = MKV_GATE_OPEN; /* the callback is not called again */
    --post->plan->ctx->num_asking_gates;
    if (answer < 0) {
        mkv_xfer_fail(post->leg->xfer, MKV_ERR_GATE,
                      "peer %s, leg %u: the gate of layers [%d, %d) returned %d",
                      post->leg->peer->name, post->leg->index, post->sel.layer_lo,
                      post->sel.layer_hi, answer);
        return false;
    }
    return true;
}

/* @return Posts that made progress. */
static unsigned mkv_leg_pump(mkv_leg_t *leg)
{
    unsigned count = 0;
    mkv_post_t *post;

    while (!mkv_list_is_empty(&leg->posts) && mkv_leg_has_credit(leg)) {
        post = mkv_list_head(&leg->posts, mkv_post_t, list);
        if (!mkv_post_check_gate(post) || mkv_leg_is_over(leg)) {
            return count;
        }
        ++count;
        if ((post->elements == 0) && mkv_pull_is_wanted(post)) {
            if (!mkv_pull_request(post)) {
                return count;
            }
            continue;
        }
        if (!mkv_post_issue(post) && !post->must_repeat) {
            return count; /* out of credits */
        }
        if (mkv_leg_is_over(leg)) {
            return count; /* the post failed and has cleaned up */
        }
        mkv_list_del(&post->list);
        mkv_list_add_tail(&leg->running, &post->list);
        if (post->num_inflight == 0) {
            mkv_post_over(post);
        } else if (post->must_repeat) {
            return count; /* keep the order: this post first */
        }
    }
    return count;
}

/* Post for each leg once; the leg that took the last credits moves to the end */
static unsigned mkv_legs_pump(mkv_list_t *busy_legs)
{
    unsigned count = 0;
    mkv_list_t legs;
    mkv_leg_t *leg;

    mkv_list_init(&legs);
    mkv_list_splice(busy_legs, &legs);
    while (!mkv_list_is_empty(&legs)) {
        leg = mkv_list_head(&legs, mkv_leg_t, busy);
        mkv_list_del(&leg->busy);
        if (mkv_leg_is_over(leg)) {
            continue;
        }
        if (!mkv_leg_has_credit(leg)) {
            /* out of credit: this leg and the rest stay ahead of the legs already
             * served */
            mkv_list_add_tail(legs.next, &leg->busy);
            mkv_list_splice(busy_legs, &legs);
            mkv_list_splice(&legs, busy_legs);
            break;
        }
        count += mkv_leg_pump(leg);
        mkv_leg_note(leg);
        if (!mkv_list_is_empty(&leg->posts) && !mkv_leg_is_over(leg)) {
            mkv_list_queue(busy_legs, &leg->busy);
        }
    }
    return count;
}

unsigned mkv_peer_pump(mkv_peer_t *peer)
{
    static const mkv_priority_t order[MKV_NUM_PRIORITIES] = {
        MKV_PRIORITY_HIGH, MKV_PRIORITY_NORMAL, MKV_PRIORITY_LOW};
    bool is_busy = false;
    unsigned count = 0, i;

    for (i = 0; i < MKV_NUM_PRIORITIES; ++i) {
        if (!mkv_list_is_empty(&peer->busy_legs[order[i]])) {
            count += mkv_legs_pump(&peer->busy_legs[order[i]]);
        }
    }
    if (peer->stage != NULL) {
        mkv_stage_pump(peer);
    }
    for (i = 0; i < MKV_NUM_PRIORITIES;
         ++i) { /* posting for one leg may have queued another leg again */
        is_busy |= !mkv_list_is_empty(&peer->busy_legs[i]);
    }
    if (!is_busy) {
        mkv_list_del(&peer->busy_list);
    }
    return count;
}
