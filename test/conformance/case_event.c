/* SPDX-License-Identifier: BSD-3-Clause */

/* Waiting instead of polling: event files and asynchronous events; endpoint checks. */

#include "test/conformance/ct.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>


/* A sleep that lasts this much longer was ended by the limit and not by the event. */
#define CT_EVENT_LATE_MS 400

typedef struct ct_event {
    unsigned num_back; /**< Messages that came from the target */
    ct_comp_t comp;
} ct_event_t;

static ucs_status_t ct_event_on_am(void *arg, void *data, size_t length, unsigned flags)
{
    ct_event_t *event = arg;

    (void)data;
    (void)length;
    (void)flags;
    ++event->num_back;
    return UCS_OK;
}

/* Arm until it succeeds: earlier events are progressed first. */
static void ct_event_arm(ct_t *ct, unsigned events)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;

    while ((status = uct_iface_event_arm(ct->side.iface, events)) == UCS_ERR_BUSY) {
        ct_progress(ct);
        ck_assert_msg(mkv_test_now_ms() < deadline, "arming is always refused");
    }
    ck_assert_msg(status == UCS_OK, "arm: %s", ucs_status_string(status));
}

/* Wait by file or by callback, as the interface offers. */
static void ct_event_wait(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    struct pollfd pfd = {.events = POLLIN};
    unsigned before = ct->side.events.num_async;

    if (ct->side.attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD) {
        ck_assert_int_eq(uct_iface_event_fd_get(ct->side.iface, &pfd.fd), UCS_OK);
        /* The thread of an application's asynchronous context would continue with work
         * that needs no progress, such as accepting a connection; so does this loop. */
        while (poll(&pfd, 1, 10) == 0) {
            ucs_async_poll(ct->side.async);
            ck_assert_msg(mkv_test_now_ms() < deadline, "the event file is silent");
        }
        return;
    }

    while (ct->side.events.num_async == before) {
        ucs_async_poll(ct->side.async);
        ck_assert_msg(mkv_test_now_ms() < deadline, "no asynchronous event");
    }
}

static int ct_event_can_wait(ct_t *ct)
{
    if (ct->side.attr.cap.event_flags &
        (UCT_IFACE_FLAG_EVENT_FD | UCT_IFACE_FLAG_EVENT_ASYNC_CB)) {
        return 1;
    }

    snprintf(ct->skip, sizeof(ct->skip), "the transport claims no way to wait");
    return 0;
}

static void ct_event_connect_back(ct_t *ct)
{
    ct_msg_t req = {.cmd = CT_CMD_CONNECT, .data_length = sizeof(ct_addr_t)};

    ct_connect(ct);
    if (ct->side.attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) {
        ck_assert_int_eq(ct_addr_get(&ct->side, NULL, (ct_addr_t *)req.data), UCS_OK);
        ct_call(ct, &req);
    }
}

static void message_wakes_the_receiver(ct_t *ct)
{
    uint64_t deadline;
    ct_event_t event;
    unsigned round;

    if (!ct_event_can_wait(ct)) {
        return;
    }

    memset(&event, 0, sizeof(event));
    ck_assert_int_eq(uct_iface_set_am_handler(ct->side.iface, CT_AM_ID_BACK,
                                              ct_event_on_am, &event, 0),
                     UCS_OK);
    ct_event_connect_back(ct);
    for (round = 1; round <= 10; ++round) {
        deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
        ct_event_arm(ct, UCT_EVENT_RECV);
        if (event.num_back < round) {
            ct_msg_t req = {.cmd = CT_CMD_AM_SEND, .a = {1}};

            /* not ct_cmd(): it would progress, and the message must wake us */
            ck_assert_int_eq(mkv_proc_send(ct->peer.fd, &req, sizeof(req)), 0);
            ct_event_wait(ct);
            while (event.num_back < round) {
                ct_progress(ct);
                if (event.num_back < round) {
                    ck_assert_msg(mkv_test_now_ms() < deadline, "woken for nothing");
                }
            }
            ck_assert(mkv_proc_recv(ct->peer.fd, &req, sizeof(req), -1) > 0);
            ck_assert_int_eq(req.status, UCS_OK);
        }
    }

    snprintf(ct->covered, sizeof(ct->covered), "10 messages, each after a wait");
}

/* UCP sleeps while its transfers run: their end must wake it. */
static void completion_wakes_the_sender(ct_t *ct)
{
    ct_op_t op = (ct->side.attr.cap.flags & UCT_IFACE_FLAG_PUT_ZCOPY) ? CT_PUT_ZCOPY
                                                                      : CT_GET_ZCOPY;
    ct_piece_t piece = {.length = 300000};
    unsigned num_waits = 0, round;
    ucs_status_t status;
    ct_remote_t remote;
    ct_event_t event;
    ct_mem_t local;

    if (!ct_event_can_wait(ct)) {
        return;
    }
    if (!(ct->side.attr.cap.flags &
          (UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_ZCOPY))) {
        snprintf(ct->skip, sizeof(ct->skip), "the transport claims no zero-copy");
        return;
    }

    ct_connect(ct);
    piece.length =
        (ct_op_max(ct, op) < piece.length) ? ct_op_max(ct, op) : piece.length;
    ct_remote_create(ct, 1 << 20, 0, &remote);
    ck_assert_int_eq(ct_mem_create(&ct->side, 1 << 20, ct->variant->local_type, &local),
                     UCS_OK);
    for (round = 0; round < 10; ++round) {
        ct_comp_init(&event.comp);
        do {
            status = ct_post(ct, op, &local, &remote, &piece, &event.comp);
            if (status == UCS_ERR_NO_RESOURCE) {
                ct_progress(ct);
            }
        } while (status == UCS_ERR_NO_RESOURCE);
        ck_assert(!UCS_STATUS_IS_ERR(status));
        while ((status == UCS_INPROGRESS) && (event.comp.num_calls == 0)) {
            ct_event_arm(ct, UCT_EVENT_SEND_COMP);
            if (event.comp.num_calls == 0) {
                ct_event_wait(ct);
                ++num_waits;
                ct_progress(ct);
            }
        }
    }

    ct_mem_destroy(&ct->side, &local);
    ct_remote_destroy(ct, &remote);
    snprintf(ct->covered, sizeof(ct->covered), "10 transfers, %u waits", num_waits);
}

/* An armed interface must not sleep over operations that are posted after that. */
static void what_is_posted_after_arming_wakes_too(ct_t *ct)
{
    ct_piece_t piece = {.length = 64};
    unsigned num_posted = 0;
    int is_armed = 0;
    ucs_status_t status;
    ct_remote_t remote;
    ct_event_t event;
    ct_mem_t local;

    if (!ct_event_can_wait(ct)) {
        return;
    }

    ct_connect(ct);
    ct_remote_create(ct, 1 << 20, 0, &remote);
    ck_assert_int_eq(ct_mem_create(&ct->side, 1 << 20, ct->variant->local_type, &local),
                     UCS_OK);
    ct_warm_up(ct, CT_PUT_ZCOPY, &local, &remote);
    ct_comp_init(&event.comp);
    ct_event_arm(ct, UCT_EVENT_SEND_COMP);
    do {
        piece.local_offset = piece.remote_offset = (num_posted * 128) % (1 << 20);
        status = ct_post(ct, CT_PUT_ZCOPY, &local, &remote, &piece, &event.comp);
        if (UCS_STATUS_IS_ERR(status)) {
            ck_assert_int_eq(status, UCS_ERR_NO_RESOURCE);
            break;
        }
        event.comp.uct.count += (status == UCS_INPROGRESS);
        /* refused: it requires progress; it gets more to do instead */
        is_armed = (uct_iface_event_arm(ct->side.iface, UCT_EVENT_SEND_COMP) == UCS_OK);
    } while ((++num_posted < 4096) && !is_armed);

    while (event.comp.uct.count > 1) { /* 1: our own */
        if (!is_armed) {
            ct_event_arm(ct, UCT_EVENT_SEND_COMP);
        }
        is_armed = 0;
        if (event.comp.uct.count > 1) {
            ct_event_wait(ct);
            ct_progress(ct);
        }
    }

    ct_mem_destroy(&ct->side, &local);
    ct_remote_destroy(ct, &remote);
    snprintf(ct->covered, sizeof(ct->covered), "%u puts before sleeping", num_posted);
}

/* Eight short puts and a long run; the time until all are over. */
static uint64_t ct_event_put_row(ct_t *ct, const ct_mem_t *local,
                                 const ct_remote_t *remote, int is_sleeping,
                                 unsigned *num_waits_p)
{
    const uint64_t start = mkv_test_now_ms();
    ucs_status_t status;
    ct_piece_t piece;
    ct_event_t event;
    unsigned i;

    ct_comp_init(&event.comp);
    for (i = 0; i < 9; ++i) {
        piece.local_offset = piece.remote_offset = (i < 8) ? i * 4096 : 1 << 20;
        piece.length = (i < 8) ? 64 : remote->length - (2 << 20);
        status = ct_post(ct, CT_PUT_ZCOPY, local, remote, &piece, &event.comp);
        ck_assert(!UCS_STATUS_IS_ERR(status));
        event.comp.uct.count += (status == UCS_INPROGRESS);
    }
    ct_progress(ct);
    while (event.comp.uct.count > 1) { /* 1: our own */
        if (!is_sleeping) {
            ct_progress(ct);
            continue;
        }
        ct_event_arm(ct, UCT_EVENT_SEND_COMP);
        if (event.comp.uct.count > 1) {
            ct_event_wait(ct);
            ++*num_waits_p;
            ct_progress(ct);
        }
    }
    return mkv_test_now_ms() - start;
}

/*
 * Pieces of a row may go different ways; the last to end must wake. A transport may
 * wake now and then to poll other things, so a missed wakeup shows as a late one. A
 * busy machine is late as well, but not three times; the least of three runs counts.
 */
static void list_beside_a_long_run_wakes(ct_t *ct)
{
    const size_t max = ct_op_max(ct, CT_PUT_ZCOPY), wanted = (size_t)64 << 20;
    const size_t space = ((max < wanted) ? max : wanted) + (2 << 20);
    unsigned num_waits = 0, num_late = 0, i;
    uint64_t polled_ms = UINT64_MAX, slept_ms, row_ms;
    ct_remote_t remote;
    ct_mem_t local;

    if (!ct_event_can_wait(ct)) {
        return;
    }

    ct_connect(ct);
    ct_remote_create(ct, space, 0, &remote);
    ck_assert_int_eq(ct_mem_create(&ct->side, space, ct->variant->local_type, &local),
                     UCS_OK);
    ct_warm_up(ct, CT_PUT_ZCOPY, &local, &remote);
    for (i = 0; i < 3; ++i) {
        row_ms = ct_event_put_row(ct, &local, &remote, 0, &num_waits);
        polled_ms = (row_ms < polled_ms) ? row_ms : polled_ms;
    }
    do {
        slept_ms = ct_event_put_row(ct, &local, &remote, 1, &num_waits);
    } while ((slept_ms > polled_ms + CT_EVENT_LATE_MS) && (++num_late < 20));
    ck_assert_msg(num_late < 20, "woken after %lu ms, what took %lu ms", slept_ms,
                  polled_ms);

    ct_mem_destroy(&ct->side, &local);
    ct_remote_destroy(ct, &remote);
    snprintf(ct->covered, sizeof(ct->covered), "9 puts, %u waits", num_waits);
}

static void idle_interface_can_be_armed(ct_t *ct)
{
    struct pollfd pfd = {.events = POLLIN};
    unsigned events = ct->side.attr.cap.event_flags &
                      (UCT_EVENT_SEND_COMP | UCT_EVENT_RECV | UCT_EVENT_RECV_SIG);

    if (!ct_event_can_wait(ct)) {
        return;
    }

    ct_connect(ct);
    ct_event_arm(ct, events);
    if (ct->side.attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD) {
        ck_assert_int_eq(uct_iface_event_fd_get(ct->side.iface, &pfd.fd), UCS_OK);
        ck_assert_int_ge(poll(&pfd, 1, 0), 0);
    }
    snprintf(ct->covered, sizeof(ct->covered), "events 0x%x", events);
}

static void check_of_a_live_peer_is_silent(ct_t *ct)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;
    int i;

    ct_connect(ct);
    for (i = 0; i < 100; ++i) {
        while ((status = uct_ep_check(ct->ep, 0, NULL)) == UCS_ERR_NO_RESOURCE) {
            ct_progress(ct);
            ck_assert(mkv_test_now_ms() < deadline);
        }
        ck_assert_msg(!UCS_STATUS_IS_ERR(status), "%s", ucs_status_string(status));
        ct_progress(ct);
    }

    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    ck_assert_uint_eq(ct->side.events.num_ep_errors, 0);
    snprintf(ct->covered, sizeof(ct->covered), "100 checks");
}


const ct_case_t ct_cases_event[] = {
    {"message_wakes_the_receiver", .flags = UCT_IFACE_FLAG_AM_BCOPY,
     .event_flags = UCT_IFACE_FLAG_EVENT_RECV, .traits = CT_TRAIT_OTHER_PROCESS,
     .run = message_wakes_the_receiver},
    {"completion_wakes_the_sender", .event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP,
     .run = completion_wakes_the_sender},
    {"what_is_posted_after_arming_wakes_too", .flags = UCT_IFACE_FLAG_PUT_ZCOPY,
     .event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP,
     .run = what_is_posted_after_arming_wakes_too},
    {"list_beside_a_long_run_wakes", .flags = UCT_IFACE_FLAG_PUT_ZCOPY,
     .event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP, .traits = CT_TRAIT_DEVICE_MEM,
     .run = list_beside_a_long_run_wakes},
    {"idle_interface_can_be_armed", .run = idle_interface_can_be_armed},
    {"check_of_a_live_peer_is_silent", .flags = UCT_IFACE_FLAG_EP_CHECK,
     .run = check_of_a_live_peer_is_silent},
    {NULL}};
