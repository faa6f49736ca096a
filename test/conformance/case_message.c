/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages that wait for room, and other operations meanwhile: order, both ways at
 * once, sleep, fence, a peer that stops or dies.
 */

#include "test/conformance/ct.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Far more messages than a queue holds, and the most that are sent to a stopped peer */
#define CT_MESSAGE_MAX 200000
#define CT_MESSAGE_PENDING 16
#define CT_MESSAGE_SLEEPS 100

/* The initiator's; an interface keeps the handler of a case before. */
static ct_rows_t ct_message_rows;

typedef struct ct_message_req {
    uct_pending_req_t req;
    uct_ep_h ep;
    uint64_t row;
    uint64_t number;
    ucs_status_t status;
    unsigned num_ends; /**< Done, failed or purged */
} ct_message_req_t;


static ucs_status_t ct_message_on_row(void *arg, void *data, size_t length,
                                      unsigned flags)
{
    (void)flags;
    ct_rows_take(arg, data, length);
    return UCS_OK;
}

/* Connected both ways, nothing received yet */
static void ct_message_open(ct_t *ct)
{
    ct_msg_t req = {.cmd = CT_CMD_CONNECT, .data_length = sizeof(ct_addr_t)};

    memset(&ct_message_rows, 0, sizeof(ct_message_rows));
    if (ct->variant->is_other_process) { /* else it is the target's interface */
        ck_assert_int_eq(uct_iface_set_am_handler(ct->side.iface, CT_AM_ID_ROW,
                                                  ct_message_on_row, &ct_message_rows,
                                                  0),
                         UCS_OK);
    }
    ct_connect(ct);
    if (ct->side.attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) {
        ck_assert_int_eq(ct_addr_get(&ct->side, NULL, (ct_addr_t *)req.data), UCS_OK);
        ct_call(ct, &req);
    }
}

static void ct_message_send(ct_t *ct, uct_ep_h ep, uint64_t row, uint64_t number)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;

    while ((status = ct_row_send(ep, row, number)) == UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "no room in time");
    }
    ck_assert_msg(status == UCS_OK, "message %lu: %s", number,
                  ucs_status_string(status));
}

/* Send until there is no room, without progress. @return Whether all is used. */
static int ct_message_fill(ct_t *ct, uct_ep_h ep, uint64_t row, uint64_t *number)
{
    ucs_status_t status = UCS_OK;

    while ((status == UCS_OK) && (*number < CT_MESSAGE_MAX)) {
        status = ct_row_send(ep, row, *number);
        *number += (status == UCS_OK);
    }
    if (status == UCS_OK) {
        snprintf(ct->skip, sizeof(ct->skip), "room for %lu messages", *number);
        return 0;
    }
    ck_assert_msg(status == UCS_ERR_NO_RESOURCE, "message %lu: %s", *number,
                  ucs_status_string(status));
    return 1;
}

/* The target makes no progress from now on, until the next request. */
static int ct_message_fill_held(ct_t *ct, uint64_t *number)
{
    ct_cmd(ct, CT_CMD_HOLD, 0, 0, 0, 0, 0);
    return ct_message_fill(ct, ct->ep, 0, number);
}

static void ct_message_expect(ct_t *ct, const uint64_t *counts)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const ct_msg_t *rep;
    int i;

    do {
        ct_progress(ct);
        rep = ct_cmd(ct, CT_CMD_AM_ROWS, 0, 0, 0, 0, 0);
    } while ((memcmp(rep->a, counts, CT_MAX_ROWS * sizeof(*counts)) != 0) &&
             (rep->a[CT_MAX_ROWS] == 0) && (mkv_test_now_ms() < deadline));

    for (i = 0; i < CT_MAX_ROWS; ++i) {
        ck_assert_uint_eq(rep->a[i], counts[i]);
    }
    ck_assert_uint_eq(rep->a[CT_MAX_ROWS], 0);
}

/* A request whose answer does not progress this side */
static uint64_t ct_message_cmd_blind(ct_t *ct, ct_cmd_t cmd, uint64_t a0)
{
    ct_msg_t msg = {.cmd = cmd, .a = {a0}};

    ck_assert_int_eq(mkv_proc_send(ct->peer.fd, &msg, sizeof(msg)), 0);
    ck_assert(mkv_proc_recv(ct->peer.fd, &msg, sizeof(msg), -1) > 0);
    ck_assert_int_eq(msg.status, UCS_OK);
    return msg.a[0];
}


/* ---- pending requests ---- */

static ucs_status_t ct_message_run(uct_pending_req_t *req)
{
    ct_message_req_t *message = ucs_container_of(req, ct_message_req_t, req);

    message->status = ct_row_send(message->ep, message->row, message->number);
    if (message->status == UCS_ERR_NO_RESOURCE) {
        return UCS_ERR_NO_RESOURCE;
    }
    ++message->num_ends;
    return UCS_OK;
}

static void ct_message_purged(uct_pending_req_t *req, void *arg)
{
    (void)arg;
    ++ucs_container_of(req, ct_message_req_t, req)->num_ends;
}

/* The next ones of a row. @return How many wait; fewer where there is room again. */
static int ct_message_add(uct_ep_h ep, uint64_t row, uint64_t *number,
                          ct_message_req_t *reqs)
{
    ucs_status_t status = UCS_OK;
    int count = 0;

    while ((count < CT_MESSAGE_PENDING) && (status == UCS_OK)) {
        reqs[count] = (ct_message_req_t){
            .req = {.func = ct_message_run}, .ep = ep, .row = row, .number = *number};
        status = uct_ep_pending_add(ep, &reqs[count].req, 0);
        if (status == UCS_OK) {
            ++count;
            ++*number;
        }
    }
    ck_assert((status == UCS_OK) || (status == UCS_ERR_BUSY));
    return count;
}

static int ct_message_is_ended(const ct_message_req_t *reqs, int count)
{
    while ((count > 0) && (reqs[count - 1].num_ends > 0)) {
        --count;
    }
    return count == 0;
}

static void ct_message_wait(ct_t *ct, const ct_message_req_t *reqs, int count)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    while (!ct_message_is_ended(reqs, count)) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "no room for pending messages");
    }
}

static void ct_message_expect_sent(const ct_message_req_t *reqs, int count)
{
    int i;

    for (i = 0; i < count; ++i) {
        ck_assert_uint_eq(reqs[i].num_ends, 1);
        ck_assert_int_eq(reqs[i].status, UCS_OK);
    }
}

static void pending_messages_come_in_order(ct_t *ct)
{
    ct_message_req_t reqs[CT_MESSAGE_PENDING];
    uint64_t counts[CT_MAX_ROWS] = {0};
    int num_reqs;

    ct_message_open(ct);
    if (!ct_message_fill_held(ct, &counts[0])) {
        return;
    }
    num_reqs = ct_message_add(ct->ep, 0, &counts[0], reqs);
    ct_cmd(ct, CT_CMD_AM_ROWS, 0, 0, 0, 0, 0); /* any request ends the hold */
    ct_message_wait(ct, reqs, num_reqs);
    ct_message_expect_sent(reqs, num_reqs);
    ct_message_expect(ct, counts);
    snprintf(ct->covered, sizeof(ct->covered), "%lu messages, %d of them waited",
             counts[0], num_reqs);
}

/* A sender that waits for room queues later messages behind the waiting ones. */
static void message_does_not_overtake_pending_ones(ct_t *ct)
{
    ct_message_req_t reqs[CT_MESSAGE_PENDING];
    uint64_t counts[CT_MAX_ROWS] = {0};
    int num_reqs, i;

    ct_message_open(ct);
    if (!ct_message_fill_held(ct, &counts[0])) {
        return;
    }
    num_reqs = ct_message_add(ct->ep, 0, &counts[0], reqs);
    ct_message_cmd_blind(ct, CT_CMD_AM_ROWS, 0);
    for (i = 0; i < 200; ++i) {
        ct_message_send(ct, ct->ep, 0, counts[0]);
        ++counts[0];
    }
    ct_message_expect_sent(reqs, num_reqs);
    ct_message_expect(ct, counts);
    snprintf(ct->covered, sizeof(ct->covered), "%lu messages, %d of them waited",
             counts[0], num_reqs);
}


/* ---- several endpoints ---- */

static void endpoints_keep_their_order_each(ct_t *ct)
{
    uint64_t counts[CT_MAX_ROWS] = {0};
    uct_ep_h eps[CT_MAX_ROWS];
    int i, row;

    ct_message_open(ct);
    for (row = 0; row < CT_MAX_ROWS; ++row) {
        ck_assert_int_eq(ct_ep_create(&ct->side, &ct->peer_addr, &eps[row]), UCS_OK);
    }
    for (i = 0; i < 2000; ++i) {
        row = (i * 7 / 5) % CT_MAX_ROWS;
        ct_message_send(ct, eps[row], (uint64_t)row, counts[row]);
        ++counts[row];
    }
    ct_message_expect(ct, counts);
    for (row = 0; row < CT_MAX_ROWS; ++row) {
        uct_ep_destroy(eps[row]);
    }
    snprintf(ct->covered, sizeof(ct->covered), "%d endpoints, %d messages", CT_MAX_ROWS,
             i);
}

/* A flushed message arrives, also when its endpoint is gone. */
static void message_outlives_its_endpoint(ct_t *ct)
{
    uint64_t counts[CT_MAX_ROWS] = {0};
    uct_ep_h first;
    int i;

    ct_message_open(ct);
    first = ct->ep;
    for (i = 0; i < 20; ++i) {
        ck_assert_int_eq(ct_ep_create(&ct->side, &ct->peer_addr, &ct->ep), UCS_OK);
        ct_message_send(ct, ct->ep, 0, counts[0]);
        ++counts[0];
        ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
        uct_ep_destroy(ct->ep);
        ct->ep = first;
        ct_message_expect(ct, counts);
    }
    snprintf(ct->covered, sizeof(ct->covered), "%d endpoints, a message each", i);
}

/* Each side has sent as much as fits before either reads. */
static void both_sides_are_full_and_go_on(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    uint64_t counts[CT_MAX_ROWS] = {0}, total, there;

    ct_message_open(ct);
    ct_message_send(ct, ct->ep, 0,
                    0); /* objects opened with the first message are open */
    counts[0] = 1;
    ct_message_expect(ct, counts);
    if (!ct_message_fill_held(ct, &counts[0])) {
        return;
    }
    total = 2 * counts[0];
    there = ct_message_cmd_blind(ct, CT_CMD_AM_FLOOD, total);
    while (counts[0] < total) {
        ct_message_send(ct, ct->ep, 0, counts[0]);
        ++counts[0];
    }
    while ((ct_message_rows.count[0] < total) && (ct_message_rows.num_bad == 0)) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "%lu of %lu messages came back",
                      ct_message_rows.count[0], total);
    }
    ck_assert_uint_eq(ct_message_rows.num_bad, 0);
    ct_message_expect(ct, counts);
    snprintf(ct->covered, sizeof(ct->covered),
             "%lu messages each way, %lu of the peer's at once", total, there);
}


/* ---- short messages of pieces ---- */

static void am_short_iov_puts_pieces_together(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const size_t max = ct->side.attr.cap.am.max_short;
    ct_row_head_t head = {.row = 0};
    uint64_t counts[CT_MAX_ROWS] = {0};
    unsigned char bytes[1000];
    uct_iov_t iov[4];
    ucs_status_t status;
    size_t length;

    if ((ct->side.attr.cap.am.max_iov < 4) || (max < sizeof(head) + 40)) {
        snprintf(ct->skip, sizeof(ct->skip), "%zu pieces of %zu bytes",
                 ct->side.attr.cap.am.max_iov, max);
        return;
    }

    ct_message_open(ct);
    for (head.number = 0; head.number < 200; ++head.number) {
        length = (head.number * 37) % 1000; /* as in every message of a row */
        if (sizeof(head) + length > max) {
            ct_message_send(ct, ct->ep, 0, head.number);
            continue;
        }
        mkv_pattern_fill(bytes, length, head.number, 0);
        memset(iov, 0, sizeof(iov));
        iov[0] = (uct_iov_t){.buffer = &head, .length = sizeof(head), .count = 1};
        iov[1] = (uct_iov_t){.buffer = NULL, .length = 0, .count = 1};
        iov[2] = (uct_iov_t){.buffer = bytes, .length = length / 3, .count = 1};
        iov[3] = (uct_iov_t){
            .buffer = bytes + length / 3, .length = length - length / 3, .count = 1};
        while ((status = uct_ep_am_short_iov(ct->ep, CT_AM_ID_ROW, iov, 4)) ==
               UCS_ERR_NO_RESOURCE) {
            ct_progress(ct);
            ck_assert(mkv_test_now_ms() < deadline);
        }
        ck_assert_msg(status == UCS_OK, "%s", ucs_status_string(status));
    }
    counts[0] = head.number;
    ct_message_expect(ct, counts);
    snprintf(ct->covered, sizeof(ct->covered), "%lu messages of 4 pieces", counts[0]);
}


/* ---- sleep ---- */

static int ct_message_can_sleep(ct_t *ct)
{
    if (ct->side.attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD) {
        return 1;
    }
    snprintf(ct->skip, sizeof(ct->skip), "the transport has no event file");
    return 0;
}

/*
 * @return Whether it slept: earlier events are for progress first.
 */
static int ct_message_sleep(ct_t *ct, int timeout_ms)
{
    struct pollfd pfd = {.events = POLLIN};
    ucs_status_t status =
        uct_iface_event_arm(ct->side.iface, UCT_EVENT_SEND_COMP | UCT_EVENT_RECV);

    ck_assert((status == UCS_OK) || (status == UCS_ERR_BUSY));
    if (status == UCS_ERR_BUSY) {
        return 0;
    }
    ck_assert_int_eq(uct_iface_event_fd_get(ct->side.iface, &pfd.fd), UCS_OK);
    (void)poll(&pfd, 1, timeout_ms);
    ucs_async_poll(ct->side.async);
    return 1;
}

/* Loop until it holds: earlier events are for progress */
static void ct_message_arm(ct_t *ct, unsigned events)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    while (uct_iface_event_arm(ct->side.iface, events) == UCS_ERR_BUSY) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "arming is always refused");
    }
}

/* The sender arms before the peer progresses, so that only free room can wake it. */
static void sender_sleeps_until_there_is_room(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ct_message_req_t reqs[CT_MESSAGE_PENDING];
    uint64_t counts[CT_MAX_ROWS] = {0};
    unsigned num_sleeps = 0, round;
    int num_reqs;

    if (!ct_message_can_sleep(ct)) {
        return;
    }

    ct_message_open(ct);
    for (round = 0; round < 10; ++round) {
        if (!ct_message_fill_held(ct, &counts[0])) {
            return;
        }
        num_reqs = ct_message_add(ct->ep, 0, &counts[0], reqs);
        (void)ct_message_sleep(ct, 0);
        ct_message_cmd_blind(ct, CT_CMD_AM_ROWS, 0);
        while (!ct_message_is_ended(reqs, num_reqs)) {
            num_sleeps += (unsigned)ct_message_sleep(ct, mkv_test_limit_ms() / 10);
            ct_progress(ct);
            ck_assert_msg(mkv_test_now_ms() < deadline, "nothing wakes the sender");
        }
        ct_message_expect_sent(reqs, num_reqs);
        ct_message_expect(ct, counts);
    }
    snprintf(ct->covered, sizeof(ct->covered), "%lu messages, %u sleeps", counts[0],
             num_sleeps);
}

/* Arm until no event is left. A transport's own message, or the timer by which it
 * watches its sends, may wake once; a descriptor that stays readable would be a spin.
 * Some of UCX's own transports wake up for messages that were taken. */
static void ct_message_rest(ct_t *ct, int fd, uint64_t number)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    int num_wakes = 0;

    ct_message_arm(ct, UCT_EVENT_RECV);
    while (ct->is_checked && (poll(&pfd, 1, 0) != 0)) {
        ck_assert_msg(++num_wakes < 3, "woken by nothing before message %lu", number);
        ct_progress(ct);
        ct_message_arm(ct, UCT_EVENT_RECV);
    }
}

/* A thread that has taken the event and armed again sleeps until the next one. */
static void receiver_sleeps_between_messages(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned num_sleeps = 0;
    uint64_t number;
    ct_msg_t req;
    int fd;

    if (!ct_message_can_sleep(ct)) {
        return;
    }

    ct_message_open(ct);
    ck_assert_int_eq(uct_iface_event_fd_get(ct->side.iface, &fd), UCS_OK);
    for (number = 1; number <= CT_MESSAGE_SLEEPS; ++number) {
        ct_message_rest(ct, fd, number);
        req = (ct_msg_t){.cmd = CT_CMD_AM_FLOOD, .a = {number}};
        ck_assert_int_eq(mkv_proc_send(ct->peer.fd, &req, sizeof(req)), 0);
        while (ct_message_rows.count[0] < number) {
            num_sleeps += (unsigned)ct_message_sleep(ct, mkv_test_limit_ms() / 10);
            ct_progress(ct);
            ck_assert_msg(mkv_test_now_ms() < deadline, "message %lu wakes nobody",
                          number);
        }
        ck_assert_uint_eq(ct_message_rows.num_bad, 0);
        ck_assert(mkv_proc_recv(ct->peer.fd, &req, sizeof(req), -1) > 0);
    }
    snprintf(ct->covered, sizeof(ct->covered), "%d messages, %u sleeps",
             CT_MESSAGE_SLEEPS, num_sleeps);
}


/* ---- fence ---- */

static size_t ct_message_pack_expected(void *dest, void *arg)
{
    memcpy(dest, arg, sizeof(ct_expected_t));
    return sizeof(ct_expected_t);
}

static void ct_message_send_expected(ct_t *ct, ct_expected_t *expected)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ssize_t sent;

    while ((sent = uct_ep_am_bcopy(ct->ep, CT_AM_ID_EXPECT, ct_message_pack_expected,
                                   expected, 0)) == UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "no room in time");
    }
    ck_assert_int_eq(sent, sizeof(*expected));
}

/* Puts, each with a message behind it. @return Messages that came too early. */
static uint64_t ct_message_put_and_notify(ct_t *ct, const ct_mem_t *local,
                                          const ct_remote_t *remote, int has_fence)
{
    const size_t max = ct_op_max(ct, CT_PUT_ZCOPY);
    const ct_piece_t piece = {.length = (max < local->length) ? max : local->length};
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    uint64_t num_early = ct_cmd(ct, CT_CMD_AM_EXPECTED, 0, 0, 0, 0, 0)->a[1];
    ct_expected_t expected = {.region = remote->region, .length = piece.length};
    ucs_status_t status;
    ct_comp_t comp;
    unsigned round;

    for (round = 0; round < 20; ++round) {
        expected.seed = ct_cmd(ct, CT_CMD_AM_EXPECTED, 0, 0, 0, 0, 0)->a[0] + 1;
        ck_assert(ct_mem_fill(local, 0, piece.length, expected.seed, 0));
        ct_comp_init(&comp);
        while ((status = ct_post(ct, CT_PUT_ZCOPY, local, remote, &piece, &comp)) ==
               UCS_ERR_NO_RESOURCE) {
            ct_progress(ct);
            ck_assert(mkv_test_now_ms() < deadline);
        }
        ck_assert(!UCS_STATUS_IS_ERR(status));
        if (has_fence) {
            ck_assert_int_eq((round % 2) ? uct_ep_fence(ct->ep, 0)
                                         : uct_iface_fence(ct->side.iface, 0),
                             UCS_OK);
        }
        ct_message_send_expected(ct, &expected);
        ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
        while (ct_cmd(ct, CT_CMD_AM_EXPECTED, 0, 0, 0, 0, 0)->a[0] < expected.seed) {
            ct_progress(ct);
            ck_assert_msg(mkv_test_now_ms() < deadline, "the message does not come");
        }
    }
    return ct_cmd(ct, CT_CMD_AM_EXPECTED, 0, 0, 0, 0, 0)->a[1] - num_early;
}

/* A message without a fence may overtake: the case reports it and requires nothing. */
static void message_behind_a_fence_comes_after_the_put(ct_t *ct)
{
    ct_remote_t remote;
    uint64_t num_early;
    ct_mem_t local;

    ct_message_open(ct);
    ct_remote_create(ct, 200000, 0, &remote);
    ck_assert_int_eq(ct_mem_create(&ct->side, 200000, ct->variant->local_type, &local),
                     UCS_OK);
    ct_warm_up(ct, CT_PUT_ZCOPY, &local, &remote);
    ck_assert_uint_eq(ct_message_put_and_notify(ct, &local, &remote, 1), 0);
    num_early = ct_message_put_and_notify(ct, &local, &remote, 0);
    ct_mem_destroy(&ct->side, &local);
    ct_remote_destroy(ct, &remote);
    snprintf(ct->covered, sizeof(ct->covered),
             "20 puts each; without a fence %lu messages overtook theirs", num_early);
}


/* ---- a peer that stops or dies ---- */

static void messages_to_a_stopped_peer_come_when_it_goes_on(ct_t *ct)
{
    ct_message_req_t reqs[CT_MESSAGE_PENDING];
    uint64_t counts[CT_MAX_ROWS] = {0};
    int num_reqs, i, is_full;

    ct_message_open(ct);
    ct_message_send(ct, ct->ep, 0, 0);
    counts[0] = 1;
    ct_message_expect(ct, counts);
    mkv_proc_stop(&ct->peer);
    is_full = ct_message_fill(ct, ct->ep, 0, &counts[0]);
    num_reqs = is_full ? ct_message_add(ct->ep, 0, &counts[0], reqs) : 0;
    for (i = 0; i < 10; ++i) {
        ct_progress(ct);
    }
    mkv_proc_resume(&ct->peer);
    ct_message_wait(ct, reqs, num_reqs);
    ct_message_expect_sent(reqs, num_reqs);
    ct_message_expect(ct, counts);
    ck_assert_uint_eq(ct->side.events.num_ep_errors, 0);
    snprintf(ct->covered, sizeof(ct->covered), "%lu messages, %d of them waited",
             counts[0], num_reqs);
}

/* A sender that waits for credits has nothing on the wire that could fail: the death of
 * the peer is found by checking, as UCP does by its keepalive. */
static void ct_message_check(ct_t *ct)
{
    if (ct->side.attr.cap.flags & UCT_IFACE_FLAG_EP_CHECK) {
        (void)uct_ep_check(ct->ep, 0, NULL);
    }
}

static void death_of_a_full_peer_is_reported_once(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ct_message_req_t reqs[CT_MESSAGE_PENDING];
    uint64_t counts[CT_MAX_ROWS] = {0};
    int num_reqs, i;

    if (ct->variant->local_type != ct->variant->remote_type) { /* a second each */
        snprintf(ct->skip, sizeof(ct->skip), "messages have to do with no memory");
        return;
    }

    ct_message_open(ct);
    ct_message_send(ct, ct->ep, 0, 0);
    counts[0] = 1;
    ct_message_expect(ct, counts);
    if (!ct_message_fill_held(ct, &counts[0])) {
        return;
    }
    num_reqs = ct_message_add(ct->ep, 0, &counts[0], reqs);
    ct->is_hurt = 1;
    mkv_proc_kill(&ct->peer, SIGKILL);
    mkv_proc_wait(&ct->peer);

    while (ct->side.events.num_ep_errors == 0) {
        ct_message_check(ct);
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "its death goes unnoticed");
    }
    uct_ep_pending_purge(ct->ep, ct_message_purged, NULL);
    for (i = 0; i < 200; ++i) {
        ct_progress(ct);
    }
    for (i = 0; i < num_reqs; ++i) {
        ck_assert_uint_eq(reqs[i].num_ends, 1);
    }
    if (ct->is_checked) {
        ck_assert_uint_eq(ct->side.events.num_ep_errors, 1);
        ck_assert(UCS_STATUS_IS_ERR(ct_row_send(ct->ep, 0, counts[0])));
    }
    snprintf(ct->covered, sizeof(ct->covered), "%lu messages, %d waited: %s", counts[0],
             num_reqs, ucs_status_string(ct->side.events.ep_status));
}

/*
 * A flush of the interface covers pending requests, and the error handler gets them
 * back by a purge: what they lie in may be gone after it.
 */
static void flush_of_the_interface_covers_pending_messages_of_the_dead(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ct_message_req_t reqs[CT_MESSAGE_PENDING];
    uint64_t counts[CT_MAX_ROWS] = {0};
    ucs_status_t status;
    int num_reqs;

    ct_message_open(ct);
    ct_message_send(ct, ct->ep, 0, 0);
    counts[0] = 1;
    ct_message_expect(ct, counts);
    if (!ct_message_fill_held(ct, &counts[0])) {
        return;
    }
    num_reqs = ct_message_add(ct->ep, 0, &counts[0], reqs);
    ct->is_hurt = 1;
    mkv_proc_kill(&ct->peer, SIGKILL);
    mkv_proc_wait(&ct->peer);

    do {
        ct_message_check(ct);
        ct_progress(ct);
        status = uct_iface_flush(ct->side.iface, UCT_FLUSH_FLAG_LOCAL, NULL);
        ck_assert_msg(mkv_test_now_ms() < deadline, "the flush does not end: %s",
                      ucs_status_string(status));
        ck_assert_msg((status != UCS_OK) || (ct->side.events.num_ep_errors > 0) ||
                          ct_message_is_ended(reqs, num_reqs),
                      "flushed, and %d messages wait", num_reqs);
        if (ct->side.events.num_ep_errors > 0) {
            uct_ep_pending_purge(ct->ep, ct_message_purged, NULL);
        }
    } while (status != UCS_OK);
    snprintf(ct->covered, sizeof(ct->covered), "%d messages waited", num_reqs);
}


const ct_case_t ct_cases_message[] = {
    {"pending_messages_come_in_order",
     .flags = UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_PENDING,
     .traits = CT_TRAIT_OTHER_PROCESS, .run = pending_messages_come_in_order},
    {"message_does_not_overtake_pending_ones",
     .flags = UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_PENDING,
     .traits = CT_TRAIT_OTHER_PROCESS, .run = message_does_not_overtake_pending_ones},
    {"endpoints_keep_their_order_each",
     .flags = UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_CONNECT_TO_IFACE,
     .run = endpoints_keep_their_order_each},
    {"message_outlives_its_endpoint",
     .flags = UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_CONNECT_TO_IFACE,
     .run = message_outlives_its_endpoint},
    {"both_sides_are_full_and_go_on", .flags = UCT_IFACE_FLAG_AM_BCOPY,
     .traits = CT_TRAIT_OTHER_PROCESS, .run = both_sides_are_full_and_go_on},
    {"am_short_iov_puts_pieces_together",
     .flags = UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_AM_SHORT,
     .run = am_short_iov_puts_pieces_together},
    {"sender_sleeps_until_there_is_room",
     .flags = UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_PENDING,
     .event_flags = UCT_IFACE_FLAG_EVENT_RECV, .traits = CT_TRAIT_OTHER_PROCESS,
     .run = sender_sleeps_until_there_is_room},
    {"receiver_sleeps_between_messages", .flags = UCT_IFACE_FLAG_AM_BCOPY,
     .event_flags = UCT_IFACE_FLAG_EVENT_RECV, .traits = CT_TRAIT_OTHER_PROCESS,
     .run = receiver_sleeps_between_messages},
    {"message_behind_a_fence_comes_after_the_put",
     .flags = UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_PUT_ZCOPY,
     .run = message_behind_a_fence_comes_after_the_put},
    {"messages_to_a_stopped_peer_come_when_it_goes_on",
     .flags = UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_PENDING,
     .traits = CT_TRAIT_OTHER_PROCESS,
     .run = messages_to_a_stopped_peer_come_when_it_goes_on},
    {"death_of_a_full_peer_is_reported_once",
     .flags = UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_PENDING |
              UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE,
     .traits = CT_TRAIT_OTHER_PROCESS, .run = death_of_a_full_peer_is_reported_once},
    {"flush_of_the_interface_covers_pending_messages_of_the_dead",
     .flags = UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_PENDING |
              UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE,
     .traits = CT_TRAIT_OTHER_PROCESS | CT_TRAIT_CHECKED_KEYS,
     .run = flush_of_the_interface_covers_pending_messages_of_the_dead},
    {NULL}};
