/* SPDX-License-Identifier: BSD-3-Clause */

/* A peer that dies or stops, an endpoint destroyed in the middle. */

#include "test/conformance/ct.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Time for which a stopped process is checked where a test expects no change. */
#define CT_FAULT_SILENCE_MS 50

/* Length of a sleep that nothing ends, and the number of them in a row */
#define CT_FAULT_REST_MS 100
#define CT_FAULT_RESTS 10
/* This many wakeups show that the transport handles its silent peer */
#define CT_FAULT_WAKEUPS 10

#define CT_FAULT_SPACE ((size_t)4 << 20)
#define CT_FAULT_MAX_OPS 4096
#define CT_FAULT_MAX_MESSAGES 1000000 /* more than any peer takes */


typedef struct ct_fault {
    ct_op_t op;
    ct_mem_t local;
    ct_remote_t remote;
    ct_comp_t *comps;
    ucs_status_t *posted;
    size_t count;
} ct_fault_t;

static int ct_fault_open(ct_t *ct, ct_fault_t *fault)
{
    const uint64_t flags = ct->side.attr.cap.flags;

    memset(fault, 0, sizeof(*fault));
    if (!(flags & (UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_ZCOPY))) {
        snprintf(ct->skip, sizeof(ct->skip), "the transport claims no zero-copy");
        return 0;
    }

    fault->op = (flags & UCT_IFACE_FLAG_PUT_ZCOPY) ? CT_PUT_ZCOPY : CT_GET_ZCOPY;
    ct_connect(ct);
    ct_remote_create(ct, CT_FAULT_SPACE, 0, &fault->remote);
    ck_assert_int_eq(ct_mem_create(&ct->side, CT_FAULT_SPACE, ct->variant->local_type,
                                   &fault->local),
                     UCS_OK);
    ct_warm_up(ct, fault->op, &fault->local, &fault->remote);
    fault->comps = calloc(CT_FAULT_MAX_OPS, sizeof(*fault->comps));
    fault->posted = calloc(CT_FAULT_MAX_OPS, sizeof(*fault->posted));
    return 1;
}

static void ct_fault_close(ct_t *ct, ct_fault_t *fault)
{
    free(fault->comps);
    free(fault->posted);
    ct_mem_destroy(&ct->side, &fault->local);
    ct_remote_destroy(ct, &fault->remote);
}

static ucs_status_t ct_fault_post(ct_t *ct, ct_fault_t *fault, size_t length)
{
    size_t offset = (fault->count * 4099) % (CT_FAULT_SPACE - length);
    ct_piece_t piece = {
        .local_offset = offset, .remote_offset = offset, .length = length};
    ct_comp_t *comp = &fault->comps[fault->count];
    ucs_status_t status;

    ck_assert_uint_lt(fault->count, CT_FAULT_MAX_OPS);
    ct_comp_init(comp);
    status = ct_post(ct, fault->op, &fault->local, &fault->remote, &piece, comp);
    if (!UCS_STATUS_IS_ERR(status)) {
        fault->posted[fault->count++] = status;
    }
    return status;
}

/* Operations in progress are called back, once, with any status. */
static int ct_fault_is_ended(void *arg)
{
    const ct_fault_t *fault = arg;
    size_t i;

    for (i = 0; i < fault->count; ++i) {
        if ((fault->posted[i] == UCS_INPROGRESS) && (fault->comps[i].num_calls == 0)) {
            return 0;
        }
    }

    return 1;
}

static void ct_fault_expect_at_most_once(const ct_fault_t *fault)
{
    size_t i;

    for (i = 0; i < fault->count; ++i) {
        ck_assert_uint_le(fault->comps[i].num_calls, 1);
        ck_assert((fault->posted[i] == UCS_INPROGRESS) ||
                  (fault->comps[i].num_calls == 0));
    }
}

static void ct_fault_kill_peer(ct_t *ct)
{
    ct->is_hurt = 1;
    mkv_proc_kill(&ct->peer, SIGKILL);
    mkv_proc_wait(&ct->peer);
}

/* Continue as an application would, until the transport reports the peer's death. */
static void ct_fault_until_error(ct_t *ct, ct_fault_t *fault)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status = UCS_OK;

    while (ct->side.events.num_ep_errors == 0) {
        if (ct_fault_is_ended(fault) && (fault->count + 1 < CT_FAULT_MAX_OPS)) {
            status = ct_fault_post(ct, fault, 1000);
            if (UCS_STATUS_IS_ERR(status) && (status != UCS_ERR_NO_RESOURCE)) {
                break;
            }
        }
        if (ct->side.attr.cap.flags & UCT_IFACE_FLAG_EP_CHECK) {
            status = uct_ep_check(ct->ep, 0, NULL);
            if (UCS_STATUS_IS_ERR(status) && (status != UCS_ERR_NO_RESOURCE)) {
                break;
            }
        }
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline,
                      "the death of the peer goes unnoticed");
    }
}

static int ct_fault_has_failed(void *arg)
{
    return ((ct_side_events_t *)arg)->num_ep_errors > 0;
}

static void ct_fault_expect_failed_ep(ct_t *ct, ct_fault_t *fault)
{
    int i;

    ct_wait(ct, ct_fault_is_ended, fault, "what was in flight");
    ct_wait(ct, ct_fault_has_failed, &ct->side.events, "the error handler");
    for (i = 0; i < 200; ++i) {
        ct_progress(ct);
    }
    if (ct->is_checked) { /* some of UCX's own transports report it once for each
                             operation */
        ck_assert_uint_eq(ct->side.events.num_ep_errors, 1);
    }
    ck_assert_ptr_eq(ct->side.events.ep, ct->ep);
    ck_assert(UCS_STATUS_IS_ERR(ct->side.events.ep_status));
    ct_fault_expect_at_most_once(fault);
    snprintf(ct->covered, sizeof(ct->covered),
             "%zu operations, handler called %u x: %s", fault->count,
             ct->side.events.num_ep_errors,
             ucs_status_string(ct->side.events.ep_status));
}

static void death_of_an_idle_peer_is_reported_once(ct_t *ct)
{
    ct_fault_t fault;

    if (ct_fault_open(ct, &fault)) {
        ct_fault_kill_peer(ct);
        ct_fault_until_error(ct, &fault);
        ct_fault_expect_failed_ep(ct, &fault);
        ct_fault_close(ct, &fault);
    }
}

static void death_with_operations_in_flight_ends_each_once(ct_t *ct)
{
    ct_fault_t fault;
    int i;

    if (!ct_fault_open(ct, &fault)) {
        return;
    }

    for (i = 0; i < 64; ++i) {
        if (ct_fault_post(ct, &fault, 60000) == UCS_ERR_NO_RESOURCE) {
            break;
        }
    }
    ct_fault_kill_peer(ct);
    ct_fault_until_error(ct, &fault);
    ct_fault_expect_failed_ep(ct, &fault);
    ct_fault_close(ct, &fault);
}

static void death_during_a_flush_ends_it_once(ct_t *ct)
{
    ucs_status_t status;
    ct_fault_t fault;
    ct_comp_t flush;
    int i;

    if (!ct_fault_open(ct, &fault)) {
        return;
    }

    for (i = 0; i < 16; ++i) {
        ct_fault_post(ct, &fault, 60000);
    }
    ct_comp_init(&flush);
    status = uct_ep_flush(ct->ep, UCT_FLUSH_FLAG_LOCAL, &flush.uct);
    ct_fault_kill_peer(ct);
    ct_fault_until_error(ct, &fault);
    ct_fault_expect_failed_ep(ct, &fault);
    ck_assert_uint_eq(flush.num_calls, status == UCS_INPROGRESS);
    ct_fault_close(ct, &fault);
}

/* Calls are refused after the error, and no further callback comes. */
static void failed_endpoint_refuses_everything(ct_t *ct)
{
    ucs_status_t status;
    ct_fault_t fault;
    size_t before;
    int i;

    if (!ct_fault_open(ct, &fault)) {
        return;
    }

    ct_fault_kill_peer(ct);
    ct_fault_until_error(ct, &fault);
    ct_fault_expect_failed_ep(ct, &fault);
    before = fault.count;
    for (i = 0; i < 10; ++i) {
        status = ct_fault_post(ct, &fault, 100);
        ct_progress(ct);
        if (!UCS_STATUS_IS_ERR(status)) {
            ct_wait(ct, ct_fault_is_ended, &fault, "an operation on a failed endpoint");
        }
    }
    for (; before < fault.count; ++before) {
        ck_assert_msg((fault.posted[before] == UCS_INPROGRESS) &&
                          UCS_STATUS_IS_ERR(fault.comps[before].uct.status),
                      "an operation on a failed endpoint ended well");
    }
    if (ct->is_checked) {
        ck_assert_uint_eq(ct->side.events.num_ep_errors, 1);
    }
    ct_fault_close(ct, &fault);
    snprintf(ct->covered, sizeof(ct->covered), "10 operations after the error");
}

static int ct_fault_is_flushed(void *arg)
{
    return ((ct_comp_t *)arg)->num_calls > 0;
}

/* No operation, one-sided or not, is lost when the peer sleeps and wakes. */
static void stopped_peer_delays_and_loses_nothing(ct_t *ct)
{
    ucs_status_t status;
    ct_fault_t fault;
    ct_comp_t flush;
    int i;

    if (!ct_fault_open(ct, &fault)) {
        return;
    }

    mkv_proc_kill(&ct->peer, SIGSTOP);
    for (i = 0; i < 32; ++i) {
        status = ct_fault_post(ct, &fault, 50000);
        ck_assert(!UCS_STATUS_IS_ERR(status) || (status == UCS_ERR_NO_RESOURCE));
        ct_progress(ct);
    }
    mkv_proc_kill(&ct->peer, SIGCONT);

    ct_wait(ct, ct_fault_is_ended, &fault, "operations posted to a stopped peer");
    ct_comp_init(&flush);
    while ((status = uct_ep_flush(ct->ep, UCT_FLUSH_FLAG_LOCAL, &flush.uct)) ==
           UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
    }
    if (status == UCS_INPROGRESS) {
        ct_wait(ct, ct_fault_is_flushed, &flush, "a flush");
        status = flush.uct.status;
    }
    ck_assert_int_eq(status, UCS_OK);
    ck_assert_uint_eq(ct->side.events.num_ep_errors, 0);
    ct_fault_expect_at_most_once(&fault);
    snprintf(ct->covered, sizeof(ct->covered), "%zu operations", fault.count);
    ct_fault_close(ct, &fault);
}

/* Stop the peer's process; return when it has stopped. */
static void ct_fault_stop_peer(ct_t *ct)
{
    siginfo_t info;

    mkv_proc_kill(&ct->peer, SIGSTOP);
    ck_assert_int_eq(waitid(P_PID, (id_t)ct->peer.pid, &info, WSTOPPED | WNOWAIT), 0);
}

/* Message that waits for room */
typedef struct ct_fault_request {
    uct_pending_req_t req;
    uct_ep_h ep;
    unsigned num_over; /**< Sent, failed or purged */
} ct_fault_request_t;

static ucs_status_t ct_fault_send(uct_pending_req_t *req)
{
    ct_fault_request_t *request = ucs_container_of(req, ct_fault_request_t, req);
    ucs_status_t status = uct_ep_am_short(request->ep, CT_AM_ID_FILL, 0, NULL, 0);

    if (status == UCS_ERR_NO_RESOURCE) {
        return status;
    }
    ++request->num_over;
    return UCS_OK;
}

static void ct_fault_purged(uct_pending_req_t *req, void *arg)
{
    (void)arg;
    ++ucs_container_of(req, ct_fault_request_t, req)->num_over;
}

/* Messages until one has to wait. @return Whether one does. */
static int ct_fault_fill(ct_t *ct, ct_fault_request_t *request)
{
    static const char bytes[64];
    ucs_status_t status = UCS_OK;
    unsigned i;

    memset(request, 0, sizeof(*request));
    request->req.func = ct_fault_send;
    request->ep = ct->ep;
    for (i = 0; (i < CT_FAULT_MAX_MESSAGES) && (status == UCS_OK); ++i) {
        status = uct_ep_am_short(ct->ep, CT_AM_ID_FILL, i, bytes, 8);
    }
    return (status == UCS_ERR_NO_RESOURCE) &&
           (uct_ep_pending_add(ct->ep, &request->req, 0) == UCS_OK);
}

/* A flush that succeeded would let the application free a request that is still
 * pending. */
static void flush_waits_for_pending_requests_of_the_dead(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ct_fault_request_t request;
    int is_pending;

    ct_connect(ct);
    ct_fault_stop_peer(ct);
    is_pending = ct_fault_fill(ct, &request);
    ct_fault_kill_peer(ct);
    if (!is_pending) {
        snprintf(ct->skip, sizeof(ct->skip), "no message has to wait");
        return;
    }
    while (ct->side.events.num_ep_errors == 0) {
        ck_assert_msg((uct_iface_flush(ct->side.iface, 0, NULL) != UCS_OK) ||
                          (request.num_over > 0),
                      "the interface is flushed, and a request is pending");
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline,
                      "the death of the peer goes unnoticed");
    }
    uct_ep_pending_purge(ct->ep, ct_fault_purged, NULL);
    ck_assert_uint_eq(request.num_over, 1);
    snprintf(ct->covered, sizeof(ct->covered), "one request");
}

/*
 * Memory that was never used before. The peer's process may have to be queried for it;
 * neither its key nor the operation may block until it answers.
 */
static void memory_of_a_stopped_peer_is_not_waited_for(ct_t *ct)
{
    ct_remote_t asked, known;
    ucs_status_t status;
    ct_fault_t fault;

    if (!ct_fault_open(ct, &fault)) {
        return;
    }

    ct_remote_alloc(ct, CT_FAULT_SPACE, 0, &asked);
    known = fault.remote;
    ct_fault_stop_peer(ct);
    ct_remote_unpack(ct, &asked);
    fault.remote = asked;
    status = ct_fault_post(ct, &fault, 50000);
    ck_assert_msg(!UCS_STATUS_IS_ERR(status) || (status == UCS_ERR_NO_RESOURCE), "%s",
                  ucs_status_string(status));
    ct_progress(ct);
    poll(NULL, 0, CT_FAULT_SILENCE_MS);
    mkv_proc_kill(&ct->peer, SIGCONT);

    while ((fault.count == 0) &&
           (ct_fault_post(ct, &fault, 50000) == UCS_ERR_NO_RESOURCE)) {
        ct_progress(ct);
    }
    ck_assert_uint_eq(fault.count, 1);
    ct_wait(ct, ct_fault_is_ended, &fault, "an operation on new memory");
    ck_assert_int_eq(fault.comps[0].uct.status, UCS_OK);
    ck_assert_uint_eq(ct->side.events.num_ep_errors, 0);
    snprintf(ct->covered, sizeof(ct->covered), "1 put, posted %s the peer's answer",
             (status == UCS_ERR_NO_RESOURCE) ? "behind" : "before");
    fault.remote = known;
    ct_fault_close(ct, &fault);
    ct_remote_destroy(ct, &asked);
}

/* Copies cannot be called back: those of a destroyed endpoint run to their end. */
static int ct_fault_is_idle(void *arg)
{
    ucs_status_t status = uct_iface_flush(arg, UCT_FLUSH_FLAG_LOCAL, NULL);

    return (status != UCS_INPROGRESS) && (status != UCS_ERR_NO_RESOURCE);
}

/* UCP destroys endpoints in any state; operations in flight end, at most once. */
static void endpoint_may_go_while_operations_run(ct_t *ct)
{
    unsigned num_called = 0;
    ucs_status_t status;
    ct_fault_t fault;
    size_t i;

    if (!ct_fault_open(ct, &fault)) {
        return;
    }

    for (i = 0; i < 64; ++i) {
        if (ct_fault_post(ct, &fault, 50000) == UCS_ERR_NO_RESOURCE) {
            break;
        }
    }

    status = uct_ep_flush(ct->ep, UCT_FLUSH_FLAG_CANCEL, NULL);
    ck_assert_msg((status == UCS_OK) || (status == UCS_INPROGRESS) ||
                      (status == UCS_ERR_UNSUPPORTED) ||
                      (status == UCS_ERR_NO_RESOURCE),
                  "flush(cancel): %s", ucs_status_string(status));
    if (!ct->is_checked && !ct_fault_is_ended(&fault)) {
        snprintf(ct->skip, sizeof(ct->skip), "flush does not cancel what is in flight");
        ct_wait(ct, ct_fault_is_ended, &fault, "operations");
        ct_fault_close(ct, &fault);
        return;
    }
    uct_ep_destroy(ct->ep);
    ct->ep = NULL;
    for (i = 0; i < 2000; ++i) {
        ct_progress(ct);
    }
    ct_fault_expect_at_most_once(&fault);
    for (i = 0; i < fault.count; ++i) {
        num_called += fault.comps[i].num_calls;
    }
    snprintf(ct->covered, sizeof(ct->covered), "%zu operations, %u called back",
             fault.count, num_called);

    /* The interface is as good as before. */
    if (ct->side.attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) {
        ct_piece_t piece = {.local_offset = 1, .remote_offset = 2, .length = 5000};

        if (ct->is_checked) { /* UCX's tcp is never idle again */
            ct_wait(ct, ct_fault_is_idle, ct->side.iface, "an idle interface");
        }
        ct_connect(ct);
        ct_check_piece(ct, fault.op, &fault.local, &fault.remote, &piece);
    }
    ct_fault_close(ct, &fault);
}

/* A worker may be destroyed while its process lives: an engine that starts anew. */
static void closed_peer_of_a_living_process_fails_the_endpoint(ct_t *ct)
{
    ct_fault_t fault;

    /* no messages and no keys of its own: UCX's cma, which queries the kernel alone */
    if (!ct->is_checked && !(ct->side.attr.cap.flags &
                             (UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY))) {
        snprintf(ct->skip, sizeof(ct->skip),
                 "memory of a living process is reached without its interface");
        return;
    }
    if (!ct_fault_open(ct, &fault)) {
        return;
    }

    ct_cmd(ct, CT_CMD_CLOSE, 0, 0, 0, 0, 0);
    ct_fault_until_error(ct, &fault);
    ct_fault_expect_failed_ep(ct, &fault);
    if (ct->is_checked) { /* a queue pair gets no answer */
        ck_assert((ct->side.events.ep_status == UCS_ERR_CONNECTION_RESET) ||
                  (ct->side.events.ep_status == UCS_ERR_ENDPOINT_TIMEOUT));
    }
    ct->is_hurt = 1;
    ct_fault_close(ct, &fault);
}

/* A sleeping thread notices the death although no operation is posted. */
static void closing_of_an_idle_peer_is_reported(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    struct pollfd fd = {.events = POLLIN};
    ct_fault_t fault;

    if (ct->side.attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_EP) {
        snprintf(ct->skip, sizeof(ct->skip),
                 "a queue pair hears of its peer with the next operation");
        return;
    }
    if (!ct_fault_open(ct, &fault)) {
        return;
    }

    ck_assert_int_eq(uct_iface_event_fd_get(ct->side.iface, &fd.fd), UCS_OK);
    ct_cmd(ct, CT_CMD_CLOSE, 0, 0, 0, 0, 0);
    while (ct->side.events.num_ep_errors == 0) {
        if (uct_iface_event_arm(ct->side.iface, UCT_EVENT_SEND_COMP) == UCS_OK) {
            ck_assert_int_eq(poll(&fd, 1, mkv_test_limit_ms()), 1);
        }
        ct_progress(ct);
        ck_assert(mkv_test_now_ms() < deadline);
    }
    ct_fault_expect_failed_ep(ct, &fault);
    ck_assert_int_eq(ct->side.events.ep_status, UCS_ERR_CONNECTION_RESET);
    ct->is_hurt = 1;
    ct_fault_close(ct, &fault);
}

/* Progress until there is none, arm, and sleep. @return Whether nothing woke it. */
static int ct_fault_rests(ct_t *ct, struct pollfd *fd)
{
    while (ct_progress(ct) > 0) {
    }
    return (uct_iface_event_arm(ct->side.iface, UCT_EVENT_SEND_COMP) == UCS_OK) &&
           (poll(fd, 1, CT_FAULT_REST_MS) == 0);
}

/* The peer is silent, and the endpoint is closed while the transport handles that. No
 * remaining work may wake a sleeping thread for ever. */
static void interface_sleeps_after_a_silent_peer_was_closed(ct_t *ct)
{
    struct pollfd fd = {.events = POLLIN};
    unsigned num_rests = 0, num_wakeups = 0;
    ct_fault_t fault;

    if (!ct_fault_open(ct, &fault)) {
        return;
    }
    ck_assert_int_eq(uct_iface_event_fd_get(ct->side.iface, &fd.fd), UCS_OK);
    ct->is_hurt = 1;
    ct_cmd(ct, CT_CMD_CLOSE, 0, 0, 0, 0, 0);
    (void)ct_fault_post(ct, &fault, 1000);
    while ((ct->side.events.num_ep_errors == 0) && (num_rests < CT_FAULT_RESTS) &&
           (num_wakeups < CT_FAULT_WAKEUPS)) {
        ct_fault_rests(ct, &fd) ? ++num_rests : ++num_wakeups;
    }
    uct_ep_destroy(ct->ep);
    ct->ep = NULL;
    while (!ct_fault_rests(ct, &fd)) {
        ck_assert_msg(++num_wakeups < 1000, "the interface wakes for ever");
    }
    ct_fault_close(ct, &fault);
    snprintf(ct->covered, sizeof(ct->covered), "%u rests, %u errors, %u wake-ups",
             num_rests, ct->side.events.num_ep_errors, num_wakeups);
}

/* A new peer takes the place of the dead one: no state of the old one is left. */
static void new_peer_works_after_a_death(ct_t *ct)
{
    const ct_variant_t variant = {"local", 0, ct->variant->local_type,
                                  ct->variant->remote_type};
    static ct_t second;
    ct_piece_t piece = {.local_offset = 1, .remote_offset = 2, .length = 5000};
    ct_remote_t remote;
    ct_fault_t fault;
    ct_mem_t local;

    if (!ct_fault_open(ct, &fault)) {
        return;
    }

    ct_fault_kill_peer(ct);
    ct_fault_until_error(ct, &fault);
    ct_fault_expect_failed_ep(ct, &fault);

    /* Run in this process: a fork of a process that uses UCX already is not safe. */
    if (ct_open(&second, ct->name, &variant) != UCS_OK) {
        snprintf(ct->skip, sizeof(ct->skip), "no second pair: %.200s", second.why);
        ct_fault_close(ct, &fault);
        return;
    }
    ct_connect(&second);
    ct_remote_create(&second, 65536, 0, &remote);
    ck_assert_int_eq(
        ct_mem_create(&second.side, 65536, ct_op_local_type(ct, fault.op), &local),
        UCS_OK);
    ct_check_piece(&second, fault.op, &local, &remote, &piece);
    ct_mem_destroy(&second.side, &local);
    ct_remote_destroy(&second, &remote);
    ct_close(&second);
    ct_fault_close(ct, &fault);
    snprintf(ct->covered, sizeof(ct->covered), "a second pair in the same process");
}


const ct_case_t ct_cases_fault[] = {
    {"death_of_an_idle_peer_is_reported_once",
     .flags = UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE, .traits = CT_TRAIT_OTHER_PROCESS,
     .run = death_of_an_idle_peer_is_reported_once},
    {"death_with_operations_in_flight_ends_each_once",
     .flags = UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE, .traits = CT_TRAIT_OTHER_PROCESS,
     .run = death_with_operations_in_flight_ends_each_once},
    {"death_during_a_flush_ends_it_once",
     .flags = UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE, .traits = CT_TRAIT_OTHER_PROCESS,
     .run = death_during_a_flush_ends_it_once},
    {"flush_waits_for_pending_requests_of_the_dead",
     .flags = UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE | UCT_IFACE_FLAG_AM_SHORT |
              UCT_IFACE_FLAG_PENDING,
     .traits = CT_TRAIT_OTHER_PROCESS,
     .run = flush_waits_for_pending_requests_of_the_dead},
    {"failed_endpoint_refuses_everything",
     .flags = UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE, .traits = CT_TRAIT_OTHER_PROCESS,
     .run = failed_endpoint_refuses_everything},
    {"new_peer_works_after_a_death", .flags = UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE,
     .traits = CT_TRAIT_OTHER_PROCESS, .run = new_peer_works_after_a_death},
    {"closed_peer_of_a_living_process_fails_the_endpoint",
     .flags = UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE, .traits = CT_TRAIT_OTHER_PROCESS,
     .run = closed_peer_of_a_living_process_fails_the_endpoint},
    {"closing_of_an_idle_peer_is_reported",
     .flags = UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE,
     .event_flags = UCT_IFACE_FLAG_EVENT_FD,
     .traits = CT_TRAIT_OTHER_PROCESS | CT_TRAIT_CHECKED_KEYS,
     .run = closing_of_an_idle_peer_is_reported},
    {"interface_sleeps_after_a_silent_peer_was_closed",
     .flags = UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE,
     .event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_FD,
     .traits = CT_TRAIT_OTHER_PROCESS,
     .run = interface_sleeps_after_a_silent_peer_was_closed},
    {"stopped_peer_delays_and_loses_nothing", .traits = CT_TRAIT_OTHER_PROCESS,
     .run = stopped_peer_delays_and_loses_nothing},
    {"memory_of_a_stopped_peer_is_not_waited_for", .traits = CT_TRAIT_OTHER_PROCESS,
     .run = memory_of_a_stopped_peer_is_not_waited_for},
    {"endpoint_may_go_while_operations_run",
     .run = endpoint_may_go_while_operations_run},
    {NULL}};
