/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages between two interfaces of one process in a real UCX, so that when each side
 * makes progress is in this test's hands; and endpoints to what is gone.
 */

#include "config.h"

#include "test/fake/hip/hipcpu_abi.h"
#include "test/support/ct_side.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"
#include "test/unit/xgmi/xgmi_inside.h"
#include "xgmi/xgmi_page.h"
#include "xgmi/xgmi_peer.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#define ID 3
#define LENGTH ((size_t)1 << 16)
#define MANY 100000

typedef struct request {
    uct_pending_req_t req;
    uct_ep_h ep;
    uint64_t number;
    unsigned num_calls;
    ucs_status_t status; /* of the last call */
} request_t;

static char dir[] = "/tmp/test_xgmi_am.XXXXXX";
static const ct_target_name_t name = {.tl_name = "mori_xgmi"};
static ct_side_t side, other;
static uct_ep_h ep;
static uint64_t num_come[2]; /* to the side, to the other one; in order */


/* ---- both sides ---- */

static ucs_status_t on_message(void *arg, void *data, size_t length, unsigned flags)
{
    uint64_t *count = arg, number;

    (void)flags;
    ck_assert_uint_ge(length, sizeof(number));
    memcpy(&number, data, sizeof(number));
    ck_assert_uint_eq(number, *count);
    ++*count;
    return UCS_OK;
}

static void get_addr(const ct_side_t *of, ct_addr_t *addr)
{
    ck_assert_int_eq(ct_addr_get(of, NULL, addr), UCS_OK);
}

static uct_ep_h connect_to(const ct_addr_t *addr)
{
    uct_ep_h made = NULL;

    ck_assert_int_eq(ct_ep_create(&side, addr, &made), UCS_OK);
    return made;
}

static void open_sides(void)
{
    ck_assert_msg(ct_side_open(&side, &name) == UCS_OK, "%s", side.why);
    ck_assert_msg(ct_side_open_beside(&other, &name, &side) == UCS_OK, "%s", other.why);
}

static void setup(void)
{
    ct_addr_t addr;

    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("UCX_MORI_XGMI_SHM_DIR", dir, 1);
    open_sides();
    num_come[0] = num_come[1] = 0;
    ck_assert_int_eq(
        uct_iface_set_am_handler(side.iface, ID, on_message, &num_come[0], 0), UCS_OK);
    ck_assert_int_eq(
        uct_iface_set_am_handler(other.iface, ID, on_message, &num_come[1], 0), UCS_OK);
    get_addr(&other, &addr);
    ep = connect_to(&addr);
}

static void teardown(void)
{
    char command[64];

    if (ep != NULL) {
        uct_ep_destroy(ep);
    }
    if (other.iface != NULL) {
        ct_side_close(&other);
    }
    ct_side_close(&side);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static ucs_status_t send_one(uct_ep_h to, uint64_t number)
{
    char payload[56];

    memset(payload, (int)number, sizeof(payload));
    return uct_ep_am_short(to, ID, number, payload, sizeof(payload));
}

/* @return The first number that there is no room for. */
static uint64_t fill(uct_ep_h to, uint64_t number)
{
    ucs_status_t status;

    while ((status = send_one(to, number)) == UCS_OK) {
        ck_assert_uint_lt(++number, MANY);
    }
    ck_assert_int_eq(status, UCS_ERR_NO_RESOURCE);
    return number;
}

static ucs_status_t run_request(uct_pending_req_t *req)
{
    request_t *request = ucs_container_of(req, request_t, req);

    ++request->num_calls;
    request->status = send_one(request->ep, request->number);
    return request->status;
}

static void request_init(request_t *request, uct_ep_h to, uint64_t number)
{
    *request = (request_t){.req = {.func = run_request},
                           .ep = to,
                           .number = number,
                           .status = UCS_INPROGRESS};
}

static void count_purged(uct_pending_req_t *req, void *arg)
{
    (void)req;
    ++*(unsigned *)arg;
}

static void progress(const ct_side_t *of, unsigned times)
{
    for (; times > 0; --times) {
        (void)uct_iface_progress(of->iface);
    }
}

static void receive_all(const ct_side_t *of, const uint64_t *count, uint64_t expected)
{
    unsigned i;

    for (i = 0; (i < MANY) && (*count < expected); ++i) {
        (void)uct_iface_progress(of->iface);
    }
    ck_assert_uint_eq(*count, expected);
}

static bool is_readable(const ct_side_t *of)
{
    struct pollfd pfd = {.events = POLLIN};

    ck_assert_int_eq(uct_iface_event_fd_get(of->iface, &pfd.fd), UCS_OK);
    return poll(&pfd, 1, 0) == 1;
}

/* Until it holds: what happened before is for progress */
static void arm(const ct_side_t *of)
{
    ucs_status_t status;
    unsigned i = 0;

    while ((status = uct_iface_event_arm(
                of->iface, UCT_EVENT_RECV | UCT_EVENT_SEND_COMP)) == UCS_ERR_BUSY) {
        (void)uct_iface_progress(of->iface);
        ck_assert_uint_lt(++i, 1000);
    }
    ck_assert_int_eq(status, UCS_OK);
}

static muct_xgmi_inbox_t *inbox_of(const ct_side_t *of)
{
    return xgmi_inside_inbox(of->iface);
}

static muct_xgmi_iface_addr_t iface_of(const ct_addr_t *addr)
{
    muct_xgmi_iface_addr_t iface = {.pid = 0};

    ck_assert_int_eq(muct_xgmi_iface_addr_unpack(ct_addr_iface(addr), &iface), UCS_OK);
    return iface;
}


/* ---- room ---- */

START_TEST(who_finds_no_room_waits_and_goes_on_in_order)
{
    uint64_t number = fill(ep, 0);
    request_t first, second;

    request_init(&first, ep, number);
    request_init(&second, ep, number + 1);
    ck_assert_int_eq(uct_ep_pending_add(ep, &first.req, 0), UCS_OK);
    ck_assert_int_eq(uct_ep_pending_add(ep, &second.req, 0), UCS_OK);
    progress(&side, 10);
    ck_assert_uint_eq(first.num_calls + second.num_calls, 0); /* not tried in vain */

    receive_all(&other, &num_come[1], number);
    ck_assert_int_eq(send_one(ep, number), UCS_ERR_NO_RESOURCE); /* those go first */
    progress(&side, 1);
    ck_assert_int_eq(first.status, UCS_OK);
    ck_assert_int_eq(second.status, UCS_OK);
    ck_assert_int_eq(send_one(ep, number + 2), UCS_OK);
    receive_all(&other, &num_come[1], number + 3);
}
END_TEST

START_TEST(who_finds_room_again_need_not_wait)
{
    uint64_t number = fill(ep, 0);
    request_t request;

    receive_all(&other, &num_come[1], number);
    request_init(&request, ep, number);
    ck_assert_int_eq(uct_ep_pending_add(ep, &request.req, 0), UCS_ERR_BUSY);
    ck_assert_int_eq(send_one(ep, number), UCS_OK);
}
END_TEST

/* One whose receiver does not read stays behind; the other one's goes on. */
START_TEST(who_waits_for_room_stops_no_other_endpoint)
{
    uint64_t number = fill(ep, 0), own_number;
    request_t request, own_request;
    ct_addr_t addr;
    uct_ep_h own;

    get_addr(&side, &addr);
    own = connect_to(&addr);
    request_init(&request, ep, number);
    ck_assert_int_eq(uct_ep_pending_add(ep, &request.req, 0), UCS_OK);
    own_number = fill(own, 0);
    request_init(&own_request, own, own_number);
    ck_assert_int_eq(uct_ep_pending_add(own, &own_request.req, 0), UCS_OK);
    receive_all(&side, &num_come[0], own_number + 1);
    ck_assert_int_eq(own_request.status, UCS_OK);
    ck_assert_int_eq(send_one(own, own_number + 1), UCS_OK);
    ck_assert_uint_eq(request.num_calls, 0);

    receive_all(&other, &num_come[1], number);
    progress(&side, 1);
    ck_assert_int_eq(request.status, UCS_OK);
    uct_ep_destroy(own);
}
END_TEST

#define OTHER_ID (ID + 1)

static ucs_status_t fill_again(uct_pending_req_t *req)
{
    request_t *request = ucs_container_of(req, request_t, req);

    ++request->num_calls;
    request->number = fill(request->ep, request->number);
    return UCS_ERR_NO_RESOURCE;
}

static ucs_status_t run_other(uct_pending_req_t *req)
{
    request_t *request = ucs_container_of(req, request_t, req);

    ++request->num_calls;
    request->status = uct_ep_am_short(request->ep, OTHER_ID, request->number, NULL, 0);
    return request->status;
}

START_TEST(who_is_full_again_leaves_others_their_turn)
{
    request_t first, second;
    uint64_t count = 0, number;
    ct_addr_t addr;
    uct_ep_h own;

    ck_assert_int_eq(
        uct_iface_set_am_handler(other.iface, OTHER_ID, on_message, &count, 0), UCS_OK);
    get_addr(&other, &addr);
    own = connect_to(&addr);
    request_init(&first, ep, fill(ep, 0));
    first.req.func = fill_again;
    for (number = 0; uct_ep_am_short(own, OTHER_ID, number, NULL, 0) == UCS_OK;) {
        ck_assert_uint_lt(++number, MANY);
    }
    request_init(&second, own, number);
    second.req.func = run_other;
    ck_assert_int_eq(uct_ep_pending_add(ep, &first.req, 0), UCS_OK);
    ck_assert_int_eq(uct_ep_pending_add(own, &second.req, 0), UCS_OK);
    receive_all(&other, &count, number);
    receive_all(&other, &num_come[1], first.number);
    progress(&side, 1);
    ck_assert_uint_eq(first.num_calls, 1);
    ck_assert_int_eq(second.status, UCS_OK);

    uct_ep_pending_purge(ep, count_purged, &first.num_calls);
    ck_assert_uint_eq(first.num_calls, 2);
    uct_ep_destroy(own);
}
END_TEST

START_TEST(who_sleeps_without_room_is_woken_by_room_alone)
{
    request_t request;
    uint64_t number = 0;
    unsigned round;

    for (round = 0; round < 20; ++round) {
        number = fill(ep, number);
        request_init(&request, ep, number);
        ck_assert_int_eq(uct_ep_pending_add(ep, &request.req, 0), UCS_OK);
        arm(&side);
        ck_assert(!is_readable(&side));
        receive_all(&other, &num_come[1], number);
        ck_assert(is_readable(&side));
        progress(&side, 1);
        ck_assert_int_eq(request.status, UCS_OK);
        ++number;
        arm(&side);
        ck_assert(!is_readable(&side));
    }
}
END_TEST

/* Room that came between the last look and arming wakes nobody: arming tells. */
START_TEST(who_has_room_by_now_does_not_sleep)
{
    uint64_t number = fill(ep, 0);
    request_t request;

    request_init(&request, ep, number);
    ck_assert_int_eq(uct_ep_pending_add(ep, &request.req, 0), UCS_OK);
    receive_all(&other, &num_come[1], number);
    ck_assert_int_eq(uct_iface_event_arm(side.iface, UCT_EVENT_SEND_COMP),
                     UCS_ERR_BUSY);
    progress(&side, 1);
    ck_assert_int_eq(request.status, UCS_OK);
}
END_TEST

/* UCP takes an interface out of progress while requests wait for room. */
START_TEST(disabled_progress_serves_those_who_wait_for_room)
{
    uint64_t number = fill(ep, 0);
    request_t request;

    request_init(&request, ep, number);
    ck_assert_int_eq(uct_ep_pending_add(ep, &request.req, 0), UCS_OK);
    uct_iface_progress_disable(side.iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    receive_all(&other, &num_come[1], number);
    uct_worker_progress(side.worker);
    ck_assert_int_eq(request.status, UCS_OK);
    uct_iface_progress_enable(side.iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}
END_TEST


/* ---- sleeping receivers ---- */

START_TEST(each_message_wakes_who_sleeps_once)
{
    uint64_t number;

    for (number = 0; number < 200; ++number) {
        arm(&other);
        ck_assert(!is_readable(&other));
        ck_assert_int_eq(send_one(ep, number), UCS_OK);
        ck_assert(is_readable(&other));
        progress(&other, 1);
        ck_assert_uint_eq(num_come[1], number + 1);
    }
}
END_TEST

START_TEST(who_has_a_message_does_not_sleep)
{
    ck_assert_int_eq(send_one(ep, 0), UCS_OK);
    ck_assert_int_eq(uct_iface_event_arm(other.iface, UCT_EVENT_RECV), UCS_ERR_BUSY);
    progress(&other, 1);
    ck_assert_uint_eq(num_come[1], 1);
    arm(&other);
}
END_TEST

/* One that died between the ring and its count left the bell as it is. */
START_TEST(bell_that_nobody_counted_wakes_once)
{
    unsigned i;

    arm(&other);
    ck_assert_int_eq(write(inbox_of(&other)->bell_fd, "", 1), 1);
    ck_assert(is_readable(&other));
    for (i = 0; (i < MANY) && is_readable(&other); ++i) {
        progress(&other, 1);
        arm(&other);
    }
    ck_assert(!is_readable(&other));
    ck_assert_int_eq(send_one(ep, 0), UCS_OK);
    ck_assert(is_readable(&other));
}
END_TEST


/* ---- fence ---- */

typedef struct comp {
    uct_completion_t uct;
    unsigned num_calls;
} comp_t;

static void count_call(uct_completion_t *comp)
{
    ++ucs_container_of(comp, comp_t, uct)->num_calls;
}

static void fence(int by_ep)
{
    ck_assert_int_eq(by_ep ? uct_ep_fence(ep, 0) : uct_iface_fence(side.iface, 0),
                     UCS_OK);
}

static void put_all(const ct_mem_t *local, uint64_t remote, uct_rkey_t rkey,
                    comp_t *comp)
{
    const uct_iov_t iov = {
        .buffer = local->addr, .length = LENGTH, .memh = local->memh, .count = 1};

    *comp = (comp_t){.uct = {.func = count_call, .count = 1, .status = UCS_OK}};
    ck_assert_int_eq(uct_ep_put_zcopy(ep, &iov, 1, remote, rkey, &comp->uct),
                     UCS_INPROGRESS);
}

/* Copies stand still; a message without a fence overtakes them, one behind it waits. */
START_TEST(message_waits_for_copies_before_a_fence)
{
    ct_mem_t local, remote;
    uct_rkey_bundle_t rkey;
    request_t request;
    uint8_t key[256];
    unsigned i;
    comp_t comp;

    ck_assert_int_eq(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &local),
                     UCS_OK);
    ck_assert_int_eq(ct_mem_create(&other, LENGTH, UCS_MEMORY_TYPE_ROCM, &remote),
                     UCS_OK);
    ck_assert(ct_mem_fill(&local, 0, LENGTH, 1, 0));
    ck_assert_int_eq(ct_mem_pack(&other, &remote, 0, key), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(side.component, key, &rkey), UCS_OK);
    put_all(&local, (uintptr_t)remote.addr, rkey.rkey,
            &comp); /* the first one makes streams */
    for (i = 0; (comp.num_calls == 0) && (i < 1000 * MANY); ++i) {
        progress(&side, 1);
    }
    ck_assert_uint_eq(comp.num_calls, 1);
    fence(_i);
    ck_assert_int_eq(send_one(ep, 0), UCS_OK); /* nothing was before it */

    ck_assert(ct_mem_fill(&local, 0, LENGTH, 2, 0));
    fake_hip_hold("hipcpu_hold", NULL);
    put_all(&local, (uintptr_t)remote.addr, rkey.rkey, &comp);
    ck_assert_int_eq(send_one(ep, 1), UCS_OK);
    fence(_i);
    fence(_i);
    request_init(&request, ep, 2);
    ck_assert_int_eq(send_one(ep, 2), UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(uct_ep_pending_add(ep, &request.req, 0), UCS_OK);
    progress(&side, 100);
    progress(&other, 10);
    ck_assert_uint_eq(num_come[1], 2);
    ck_assert_uint_eq(comp.num_calls, 0);

    fake_hip_hold("hipcpu_release", NULL);
    for (i = 0; (request.status != UCS_OK) && (i < 1000 * MANY); ++i) {
        progress(&side, 1);
    }
    ck_assert_int_eq(request.status, UCS_OK);
    ck_assert_uint_eq(comp.num_calls, 1);
    receive_all(&other, &num_come[1], 3);
    ck_assert_uint_eq(ct_mem_check(&remote, 0, LENGTH, 2, 0), LENGTH);
    ck_assert_int_eq(send_one(ep, 3), UCS_OK);
    uct_rkey_release(side.component, &rkey);
    ct_mem_destroy(&other, &remote);
    ct_mem_destroy(&side, &local);
}
END_TEST


/* ---- what may be sent ---- */

static char kept[MUCT_XGMI_RING_MAX_MESSAGE];
static size_t kept_length;

static ucs_status_t keep_message(void *arg, void *data, size_t length, unsigned flags)
{
    (void)flags;
    ck_assert_uint_le(length, sizeof(kept));
    memcpy(kept, data, length);
    kept_length = length;
    ++*(uint64_t *)arg;
    return UCS_OK;
}

static size_t pack_length(void *dest, void *arg)
{
    size_t length = *(size_t *)arg;

    if (length <= MUCT_XGMI_RING_MAX_MESSAGE) {
        mkv_pattern_fill(dest, length, length, 0);
    }
    return length;
}

static void expect_kept(uint64_t *count, size_t length)
{
    ck_assert_uint_eq(*count, 0);
    receive_all(&other, count, 1);
    *count = 0;
    ck_assert_uint_eq(kept_length, length);
    ck_assert_uint_eq(mkv_pattern_check(kept, length, length, 0), length);
}

START_TEST(each_length_is_sent_and_no_longer_one)
{
    const size_t max = other.attr.cap.am.max_bcopy;
    const size_t lengths[] = {0, 1, 55, 56, 57, 120, max - 1, max};
    static char bytes[MUCT_XGMI_RING_MAX_MESSAGE + 1];
    uint64_t count = 0, header;
    uct_iov_t iov[3] = {{.count = 1}, {.count = 1}, {.count = 1}};
    size_t i, length;

    ck_assert_int_eq(uct_iface_set_am_handler(other.iface, ID, keep_message, &count, 0),
                     UCS_OK);
    for (i = 0; i < 10 * (sizeof(lengths) / sizeof(lengths[0])); ++i) {
        length = lengths[i % (sizeof(lengths) / sizeof(lengths[0]))];
        ck_assert_int_eq(uct_ep_am_bcopy(ep, ID, pack_length, &length, 0),
                         (ssize_t)length);
        expect_kept(&count, length);

        mkv_pattern_fill(bytes, length, length, 0);
        iov[0].buffer = bytes;
        iov[0].length = length / 3;
        iov[2].buffer = bytes + length / 3;
        iov[2].length = length - length / 3;
        ck_assert_int_eq(uct_ep_am_short_iov(ep, ID, iov, 3), UCS_OK);
        expect_kept(&count, length);

        if (length >= sizeof(header)) {
            memcpy(&header, bytes, sizeof(header));
            ck_assert_int_eq(uct_ep_am_short(ep, ID, header, bytes + sizeof(header),
                                             (unsigned)(length - sizeof(header))),
                             UCS_OK);
            expect_kept(&count, length);
        }
    }

    length = max + 1;
    ck_assert_int_eq(uct_ep_am_bcopy(ep, ID, pack_length, &length, 0),
                     UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(uct_ep_am_short(ep, ID, 0, bytes, (unsigned)(max - 7)),
                     UCS_ERR_INVALID_PARAM);
    iov[0].length = max;
    iov[2] = (uct_iov_t){.buffer = bytes, .length = 1, .count = 1};
    ck_assert_int_eq(uct_ep_am_short_iov(ep, ID, iov, 3), UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(uct_ep_am_short(ep, UCT_AM_ID_MAX, 0, NULL, 0),
                     UCS_ERR_INVALID_PARAM);
    progress(&other, 10);
    ck_assert_uint_eq(count, 0);
    length = 100;
    ck_assert_int_eq(uct_ep_am_bcopy(ep, ID, pack_length, &length, 0), 100);
    expect_kept(&count, 100);
}
END_TEST

/* By who writes what this code would not. */
START_TEST(message_of_no_id_is_dropped)
{
    muct_xgmi_outbox_t *outbox;

    ck_assert_int_eq(send_one(ep, 0), UCS_OK);
    outbox = xgmi_inside_outbox(ep);
    ck_assert_ptr_nonnull(muct_xgmi_ring_reserve(&outbox->ring, 100));
    muct_xgmi_outbox_commit(outbox, UCT_AM_ID_MAX, 100);
    ck_assert_ptr_nonnull(muct_xgmi_ring_reserve(&outbox->ring, 100));
    muct_xgmi_outbox_commit(outbox, 255, 100);
    ck_assert_int_eq(send_one(ep, 1), UCS_OK);
    receive_all(&other, &num_come[1], 2);
}
END_TEST

START_TEST(message_arrives_when_its_endpoint_is_gone)
{
    ct_addr_t addr;
    uint64_t i;

    get_addr(&other, &addr);
    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(send_one(ep, i), UCS_OK);
        uct_ep_destroy(ep);
        ck_assert_uint_eq(atomic_load(&inbox_of(&other)->box->places[0].owner),
                          MUCT_XGMI_BOX_GIVEN_BACK);
        ep = connect_to(&addr);
        receive_all(&other, &num_come[1], i + 1);
    }
}
END_TEST


/* ---- endpoints that fail ---- */

/* Told by the next progress, once; whatever is tried is refused, and safe. */
static void expect_failed(ucs_status_t status)
{
    unsigned num_purged = 0;
    request_t request;

    progress(&side, 10);
    ck_assert_uint_eq(side.events.num_ep_errors, 1);
    ck_assert_int_eq(side.events.ep_status, status);
    ck_assert_ptr_eq(side.events.ep, ep);
    ck_assert_int_eq(send_one(ep, 0), status);
    ck_assert_int_eq(uct_ep_check(ep, 0, NULL), UCS_OK);
    ck_assert_int_eq(uct_ep_flush(ep, 0, NULL), status);
    request_init(&request, ep, 0);
    (void)uct_ep_pending_add(ep, &request.req, 0);
    uct_ep_pending_purge(ep, count_purged, &num_purged);
    arm(&side);
    progress(&side, 10);
    ck_assert_uint_eq(side.events.num_ep_errors, 1);
}

/* Whatever is tried before the user is told */
static void try_all(void)
{
    size_t length = 8;
    uct_iov_t iov = {.buffer = &length, .length = sizeof(length), .count = 1};

    ck_assert_int_eq(uct_ep_check(ep, 0, NULL), UCS_OK);
    ck_assert_int_eq(send_one(ep, 0), UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(uct_ep_am_bcopy(ep, ID, pack_length, &length, 0),
                     UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(uct_ep_am_short_iov(ep, ID, &iov, 1), UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(uct_ep_put_short(ep, &length, 8, 0, UCT_INVALID_RKEY),
                     UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(uct_ep_fence(ep, 0), UCS_OK);
    ck_assert_int_eq(uct_ep_flush(ep, 0, NULL), UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(side.events.num_ep_errors, 0); /* from progress alone */
}

static bool is_reachable(const ct_addr_t *addr, char *why, size_t size)
{
    uct_iface_is_reachable_params_t params = {
        .field_mask = CT_REACH_FIELD_DEVICE_ADDR | CT_REACH_FIELD_IFACE_ADDR |
                      CT_REACH_FIELD_INFO_STRING | CT_REACH_FIELD_INFO_STRING_LENGTH,
        .device_addr = ct_addr_dev(addr),
        .iface_addr = ct_addr_iface(addr),
        .info_string = why,
        .info_string_length = size};

    why[0] = '\0';
    return uct_iface_is_reachable_v2(side.iface, &params);
}

static void expect_reachable(const ct_addr_t *addr)
{
    char why[256];

    ck_assert_msg(is_reachable(addr, why, sizeof(why)), "%s", why);
}

static void expect_unreachable(const ct_addr_t *addr, const char *text)
{
    char why[256];

    ck_assert(!is_reachable(addr, why, sizeof(why)));
    ck_assert_msg(strstr(why, text) != NULL, "'%s' has no '%s'", why, text);
}

/* An endpoint in place of the one that there is */
static void replace_ep(const ct_addr_t *addr)
{
    uct_ep_destroy(ep);
    ep = connect_to(addr);
}

START_TEST(endpoint_to_a_closed_interface_fails)
{
    ct_addr_t addr;

    get_addr(&other, &addr);
    uct_ep_destroy(ep);
    ct_side_close(&other);
    other.iface = NULL;
    expect_reachable(&addr);
    ep = connect_to(&addr);
    if (_i) {
        try_all();
    }
    expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

/* What a process tells of itself */
typedef struct words {
    ct_addr_t addr;
    uint8_t key[256]; /* of its memory */
    uint64_t memory;
} words_t;

/* Another process, which ends when it is told. */
typedef struct peer {
    pid_t pid;
    int fds[2]; /* to it, from it */
    words_t words;
} peer_t;

/* Before UCX: a process of its own, in the folder given */
static void peer_main(int in, int out)
{
    static words_t words;
    ct_mem_t memory;
    char byte;

    if ((ct_side_open(&side, &name) != UCS_OK) ||
        (ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &memory) != UCS_OK) ||
        (ct_mem_pack(&side, &memory, 0, words.key) != UCS_OK)) {
        _exit(1);
    }
    get_addr(&side, &words.addr);
    words.memory = (uintptr_t)memory.addr;
    if (write(out, &words, sizeof(words)) != (ssize_t)sizeof(words)) {
        _exit(1);
    }
    (void)read(in, &byte, 1); /* until it is closed, or killed */
    ct_mem_destroy(&side, &memory);
    ct_side_close(&side);
    _exit(0);
}

static void peer_start(peer_t *peer)
{
    int in[2], out[2];

    ck_assert_int_eq(pipe(in), 0);
    ck_assert_int_eq(pipe(out), 0);
    peer->pid = fork();
    ck_assert_int_ge(peer->pid, 0);
    if (peer->pid == 0) {
        close(in[1]);
        close(out[0]);
        peer_main(in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    peer->fds[0] = in[1];
    peer->fds[1] = out[0];
    ck_assert_int_eq(read(peer->fds[1], &peer->words, sizeof(peer->words)),
                     (ssize_t)sizeof(peer->words));
}

static void peer_end(peer_t *peer, bool is_killed)
{
    int status;

    if (is_killed) {
        ck_assert_int_eq(kill(peer->pid, SIGKILL), 0);
    }
    close(peer->fds[0]);
    close(peer->fds[1]);
    ck_assert_int_eq(waitpid(peer->pid, &status, 0), peer->pid);
    ck_assert(is_killed || (WIFEXITED(status) && (WEXITSTATUS(status) == 0)));
}

static void setup_dir(void)
{
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("UCX_MORI_XGMI_SHM_DIR", dir, 1);
}

static void open_side(void)
{
    ck_assert_msg(ct_side_open(&side, &name) == UCS_OK, "%s", side.why);
    other.iface = NULL;
    ep = NULL;
}

/* Of one that ended and of one that was killed; at once, and after everything was tried
 */
START_TEST(endpoint_to_a_dead_process_fails)
{
    peer_t peer;

    peer_start(&peer);
    open_side();
    peer_end(&peer, _i & 1);
    expect_reachable(&peer.words.addr);
    ep = connect_to(&peer.words.addr);
    if (_i & 2) {
        try_all();
    }
    expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

START_TEST(endpoint_to_the_dead_is_destroyed_untold)
{
    peer_t peer;

    peer_start(&peer);
    open_side();
    peer_end(&peer, true);
    ep = connect_to(&peer.words.addr);
    uct_ep_destroy(ep);
    ep = NULL;
    progress(&side, 10);
    ck_assert_uint_eq(side.events.num_ep_errors, 0);
}
END_TEST

/* Who starts later removes what it left; its page here still says that it is open. */
START_TEST(box_of_the_dead_that_was_removed_is_told_as_death)
{
    size_t length = 8;
    peer_t peer;

    peer_start(&peer);
    open_side();
    ep = connect_to(&peer.words.addr);
    peer_end(&peer, true);
    muct_xgmi_page_sweep(dir);
    ck_assert_int_eq(
        uct_ep_am_bcopy(ep, ID, pack_length, &length, UCT_SEND_FLAG_PEER_CHECK),
        UCS_ERR_CONNECTION_RESET);
    expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

/* One copy to it, so that its memory is mapped here */
static void put_to(const peer_t *peer)
{
    uct_rkey_bundle_t rkey;
    ct_mem_t local;
    unsigned i;
    comp_t comp;

    ck_assert_int_eq(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &local),
                     UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(side.component, peer->words.key, &rkey), UCS_OK);
    put_all(&local, peer->words.memory, rkey.rkey, &comp);
    for (i = 0; (comp.num_calls == 0) && (i < 1000 * MANY); ++i) {
        progress(&side, 1);
    }
    ck_assert_uint_eq(comp.num_calls, 1);
    uct_rkey_release(side.component, &rkey);
    ct_mem_destroy(&side, &local);
}

static void expect_closed(void)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned empty = 0;

    while (fake_hip_calls("hipIpcCloseMemHandle") == 0) {
        ck_assert_msg(mkv_test_now_ms() < deadline, "its memory is mapped still");
        mkv_test_pause(&empty);
    }
}

/* Who finds the death out need not be progress: nobody else would let its memory go. */
START_TEST(memory_of_the_dead_goes_with_the_endpoint)
{
    peer_t peer;

    peer_start(&peer);
    open_side();
    ep = connect_to(&peer.words.addr);
    put_to(&peer);
    ck_assert_int_eq(send_one(ep, 0), UCS_OK);
    peer_end(&peer, _i & 1);
    if (_i & 2) {
        ck_assert_int_eq(uct_ep_flush(ep, 0, NULL), UCS_ERR_CONNECTION_RESET);
    } else {
        ck_assert_int_eq(uct_ep_check(ep, 0, NULL), UCS_OK);
    }
    if (_i & 4) {
        expect_failed(UCS_ERR_CONNECTION_RESET);
        arm(&side);
        ck_assert(!is_readable(&side)); /* who sleeps knows of it */
    } else {
        progress(&side, 1); /* as UCP does, which destroys what has failed */
        ck_assert_uint_eq(side.events.num_ep_errors, 1);
    }
    uct_ep_destroy(ep);
    ep = NULL;
    expect_closed();
}
END_TEST

/* Else it would be kept for a peer that dies later, of which nobody here is told. */
START_TEST(memory_goes_with_the_last_endpoint)
{
    uct_ep_h first;
    peer_t peer;

    peer_start(&peer);
    open_side();
    first = connect_to(&peer.words.addr);
    ep = connect_to(&peer.words.addr);
    put_to(&peer);
    uct_ep_destroy(first);
    put_to(&peer);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 1);
    uct_ep_destroy(ep);
    expect_closed();
    ep = connect_to(&peer.words.addr);
    put_to(&peer);
    peer_end(&peer, false);
}
END_TEST

/* Both have one set of files to watch. */
START_TEST(endpoint_that_a_forked_child_destroys_is_watched_on)
{
    peer_t peer;
    pid_t pid;
    int status;

    peer_start(&peer);
    open_side();
    ep = connect_to(&peer.words.addr);
    pid = fork();
    if (pid == 0) {
        uct_ep_destroy(ep);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    arm(&side);
    ck_assert(!is_readable(&side));
    peer_end(&peer, true);
    ck_assert(is_readable(&side));
    arm(&side);
    progress(&side, 1);
    expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

/* A process dies while its ring is full, and what waits comes back by purge. */
START_TEST(death_of_who_has_no_room_is_told)
{
    unsigned num_purged = 0, i;
    request_t request;
    uint64_t number;
    peer_t peer;

    peer_start(&peer);
    open_side();
    ep = connect_to(&peer.words.addr);
    number = fill(ep, 0);
    request_init(&request, ep, number);
    ck_assert_int_eq(uct_ep_pending_add(ep, &request.req, 0), UCS_OK);
    arm(&side);
    ck_assert(!is_readable(&side));
    peer_end(&peer, true);
    ck_assert(is_readable(&side));
    for (i = 0; (i < MANY) && (side.events.num_ep_errors == 0); ++i) {
        progress(&side, 1);
    }
    uct_ep_pending_purge(ep, count_purged, &num_purged);
    ck_assert_uint_le(num_purged, 1);
    ck_assert_uint_eq(num_purged + (request.num_calls > 0), 1);
    expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

START_TEST(receiver_without_places_fails_the_endpoint)
{
    unsigned i;

    for (i = 0; i < MUCT_XGMI_BOX_RINGS; ++i) {
        atomic_store(&inbox_of(&other)->box->places[i].owner, inbox_of(&other)->owner);
        atomic_store(&inbox_of(&other)->box->places[i].ring.is_broken, 1);
    }
    ck_assert_int_eq(send_one(ep, 0), UCS_ERR_EXCEEDS_LIMIT);
    expect_failed(UCS_ERR_EXCEEDS_LIMIT);
}
END_TEST

/* As with MESSAGES=n there: UCP asks by a message whether it lives, and all else goes
 * on. */
START_TEST(receiver_without_a_box_lives)
{
    char path[512];
    size_t length = 8;

    muct_xgmi_page_iface_path(dir, inbox_of(&other)->owner, inbox_of(&other)->id,
                              MUCT_XGMI_BOX_SUFFIX, path, sizeof(path));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(send_one(ep, 0), UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(uct_ep_am_bcopy(ep, ID, pack_length, &length, 0),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(
        uct_ep_am_bcopy(ep, ID, pack_length, &length, UCT_SEND_FLAG_PEER_CHECK), 8);
    progress(&side, 10);
    ck_assert_uint_eq(side.events.num_ep_errors, 0);

    ct_side_close(&other);
    other.iface = NULL;
    ck_assert_int_eq(
        uct_ep_am_bcopy(ep, ID, pack_length, &length, UCT_SEND_FLAG_PEER_CHECK),
        UCS_ERR_CONNECTION_RESET);
    expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

/* It has told that it reads no more: found out by who has no room, awake or asleep. */
START_TEST(receiver_that_hears_no_more_fails_the_endpoint)
{
    uint64_t number = fill(ep, 0);
    unsigned num_purged = 0;
    request_t request;

    request_init(&request, ep, number);
    if (_i) {
        ck_assert_int_eq(uct_ep_pending_add(ep, &request.req, 0), UCS_OK);
        arm(&side);
    }
    atomic_store(&xgmi_inside_outbox(ep)->place->ring.is_broken, 1);
    if (_i) {
        ck_assert_int_eq(uct_iface_event_arm(side.iface, UCT_EVENT_SEND_COMP),
                         UCS_ERR_BUSY);
        progress(&side, 1);
        ck_assert_int_eq(request.status, UCS_ERR_CONNECTION_RESET);
        uct_ep_pending_purge(ep, count_purged, &num_purged);
    } else {
        ck_assert_int_eq(send_one(ep, number), UCS_ERR_CONNECTION_RESET);
    }
    expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST


/* ---- who is reached ---- */

START_TEST(peer_of_another_folder_is_not_reached)
{
    char elsewhere[] = "/tmp/test_xgmi_am_2.XXXXXX", command[64];
    peer_t peer;

    ck_assert_ptr_nonnull(mkdtemp(elsewhere));
    setenv("UCX_MORI_XGMI_SHM_DIR", elsewhere, 1);
    peer_start(&peer);
    setenv("UCX_MORI_XGMI_SHM_DIR", dir, 1);
    open_side();
    expect_unreachable(&peer.words.addr, "different shared memory folder");
    peer_end(&peer, false);
    snprintf(command, sizeof(command), "rm -rf %s", elsewhere);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* Root as well, which could use it: its owner could not use root's. */
START_TEST(peer_of_another_user_is_not_reached)
{
    char path[512];
    peer_t peer;

    if (geteuid() != 0) {
        mkv_test_skip("root", "peer_of_another_user_is_not_reached",
                      "who is not root cannot give a page away");
        setup_dir();
        open_side();
        return;
    }

    peer_start(&peer);
    open_side();
    muct_xgmi_page_path(dir, iface_of(&peer.words.addr).owner, "", path, sizeof(path));
    ck_assert_int_eq(chown(path, 12345, 12345), 0);
    expect_unreachable(&peer.words.addr, "cannot be used, as a warning told");
    peer_end(&peer, false);
}
END_TEST

START_TEST(interface_that_cannot_be_is_not_reached)
{
    muct_xgmi_iface_addr_t iface_addr;
    ct_addr_t addr;

    get_addr(&other, &addr);
    expect_reachable(&addr);
    iface_addr = iface_of(&addr);
    iface_addr.id.slot = MUCT_XGMI_MAX_IFACES;
    muct_xgmi_iface_addr_pack(&iface_addr, addr.bytes + addr.dev_length);
    expect_unreachable(&addr, "no interface 4096");
    replace_ep(&addr); /* by who does not ask */
    expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST


/* ---- interfaces without messages ---- */

static unsigned num_warnings;
static char warning[1024]; /* the last one */

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t count_warning(
    const char *file, unsigned number, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list args)
{
    (void)file, (void)number, (void)function, (void)component;
    if (level <= UCS_LOG_LEVEL_WARN) {
        vsnprintf(warning, sizeof(warning), format, args);
        num_warnings += (strstr(warning, "carries no messages") != NULL);
    }
    return UCS_LOG_FUNC_RC_CONTINUE;
}

static unsigned count_files(const char *suffix)
{
    size_t length = strlen(suffix), name_length;
    DIR *handle = opendir(dir);
    struct dirent *entry;
    unsigned count = 0;

    ck_assert_ptr_nonnull(handle);
    while ((entry = readdir(handle)) != NULL) {
        name_length = strlen(entry->d_name);
        count += (name_length > length) &&
                 !strcmp(entry->d_name + name_length - length, suffix);
    }
    closedir(handle);
    return count;
}

/* All else is as with them. */
static void expect_no_messages(void)
{
    const uint64_t am_flags =
        UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_CB_SYNC;

    ck_assert_uint_eq(side.attr.cap.flags & am_flags, 0);
    ck_assert_uint_eq(side.attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_RECV, 0);
    ck_assert_uint_ne(side.attr.cap.flags & UCT_IFACE_FLAG_PUT_ZCOPY, 0);
    ck_assert_int_eq(uct_iface_fence(side.iface, 0), UCS_OK);
    arm(&side);
    progress(&side, 10);
}

/* Who has none sends none: there would be no bell that tells of room. */
START_TEST(interface_without_messages_sends_none)
{
    size_t length = 8;
    ct_addr_t addr;

    setenv("UCX_MORI_XGMI_MESSAGES", "n", 1);
    ck_assert_msg(ct_side_open(&side, &name) == UCS_OK, "%s", side.why);
    unsetenv("UCX_MORI_XGMI_MESSAGES");
    ck_assert_msg(ct_side_open_beside(&other, &name, &side) == UCS_OK, "%s", other.why);
    get_addr(&other, &addr);
    ep = connect_to(&addr);
    ck_assert_int_eq(send_one(ep, 0), UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(uct_ep_am_bcopy(ep, ID, pack_length, &length, 0),
                     UCS_ERR_UNSUPPORTED);
    arm(&side);
    ck_assert_uint_eq(side.events.num_ep_errors, 0);
}
END_TEST

START_TEST(messages_are_carried_unless_told_not_to)
{
    ucs_log_push_handler(count_warning);
    setenv("UCX_MORI_XGMI_MESSAGES", "n", 1);
    open_side();
    expect_no_messages();
    ck_assert_uint_eq(count_files(MUCT_XGMI_BOX_SUFFIX), 0);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BELL_SUFFIX), 0);
    ct_side_close(&side);

    unsetenv("UCX_MORI_XGMI_MESSAGES");
    open_side();
    ck_assert_uint_ne(side.attr.cap.flags & UCT_IFACE_FLAG_AM_BCOPY, 0);
    ck_assert_uint_ne(side.attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_RECV, 0);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BOX_SUFFIX), 1);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BELL_SUFFIX), 1);
    ck_assert_uint_eq(num_warnings, 0);
}
END_TEST

/* A file that is longer would be a signal. */
START_TEST(limit_of_files_leaves_messages_to_others)
{
    struct rlimit limit;
    char number[32];

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = muct_xgmi_box_size() - 1;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    snprintf(number, sizeof(number), "%lu", (unsigned long)limit.rlim_cur);
    ucs_log_push_handler(count_warning);
    open_side();
    expect_no_messages();
    ck_assert_uint_eq(num_warnings, 1);
    ck_assert_msg(strstr(warning, "ulimit -f") != NULL, "%s", warning);
    ck_assert_msg(strstr(warning, number) != NULL, "%s", warning);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BELL_SUFFIX), 0); /* which is made first */
    ct_side_close(&side);

    ++limit.rlim_cur;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    open_side();
    ck_assert_uint_ne(side.attr.cap.flags & UCT_IFACE_FLAG_AM_BCOPY, 0);
}
END_TEST

/* Names that are there already stand for a folder where no more can be made. */
START_TEST(folder_that_takes_no_more_leaves_messages_to_others)
{
    static const char *const suffixes[] = {MUCT_XGMI_BELL_SUFFIX, MUCT_XGMI_BOX_SUFFIX};
    muct_xgmi_iface_addr_t iface;
    char path[512];
    ct_addr_t addr;
    unsigned i;

    ucs_log_push_handler(count_warning);
    open_side();
    get_addr(&side, &addr);
    iface = iface_of(&addr);
    for (i = 0; i < 16; ++i) { /* whichever is next */
        ++iface.id.slot;
        iface.id.generation = 1;
        muct_xgmi_page_iface_path(dir, iface.owner, iface.id, suffixes[_i], path,
                                  sizeof(path));
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    ck_assert_msg(ct_side_open_beside(&other, &name, &side) == UCS_OK, "%s", other.why);
    ck_assert_uint_eq(num_warnings, 1);
    ck_assert_ptr_null(inbox_of(&other));
    ck_assert_uint_eq(other.attr.cap.flags & UCT_IFACE_FLAG_AM_BCOPY, 0);
    ct_side_close(&other);
    other.iface = NULL;
    ck_assert_uint_eq(count_files(suffixes[!_i]), 1); /* of the first, and no other */
}
END_TEST

START_TEST(box_and_bell_go_with_the_interface)
{
    ck_assert_uint_eq(count_files(MUCT_XGMI_BOX_SUFFIX), 2);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BELL_SUFFIX), 2);
    ct_side_close(&other);
    other.iface = NULL;
    ck_assert_uint_eq(count_files(MUCT_XGMI_BOX_SUFFIX), 1);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BELL_SUFFIX), 1);
}
END_TEST

static void add_two_sides(Suite *suite)
{
    TCase *tcase = tcase_create("two sides");

    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, who_finds_no_room_waits_and_goes_on_in_order);
    tcase_add_test(tcase, who_finds_room_again_need_not_wait);
    tcase_add_test(tcase, who_waits_for_room_stops_no_other_endpoint);
    tcase_add_test(tcase, who_is_full_again_leaves_others_their_turn);
    tcase_add_test(tcase, who_sleeps_without_room_is_woken_by_room_alone);
    tcase_add_test(tcase, who_has_room_by_now_does_not_sleep);
    tcase_add_test(tcase, disabled_progress_serves_those_who_wait_for_room);
    tcase_add_test(tcase, each_message_wakes_who_sleeps_once);
    tcase_add_test(tcase, who_has_a_message_does_not_sleep);
    tcase_add_test(tcase, bell_that_nobody_counted_wakes_once);
    tcase_add_loop_test(tcase, message_waits_for_copies_before_a_fence, 0, 2);
    tcase_add_test(tcase, each_length_is_sent_and_no_longer_one);
    tcase_add_test(tcase, message_of_no_id_is_dropped);
    tcase_add_test(tcase, message_arrives_when_its_endpoint_is_gone);
    tcase_add_loop_test(tcase, endpoint_to_a_closed_interface_fails, 0, 2);
    tcase_add_test(tcase, receiver_without_places_fails_the_endpoint);
    tcase_add_test(tcase, receiver_without_a_box_lives);
    tcase_add_loop_test(tcase, receiver_that_hears_no_more_fails_the_endpoint, 0, 2);
    tcase_add_test(tcase, interface_that_cannot_be_is_not_reached);
    tcase_add_test(tcase, box_and_bell_go_with_the_interface);
    suite_add_tcase(suite, tcase);
}

static void add_one_side(Suite *suite)
{
    TCase *tcase = tcase_create("one side");

    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, setup_dir, teardown);
    tcase_add_loop_test(tcase, endpoint_to_a_dead_process_fails, 0, 4);
    tcase_add_test(tcase, endpoint_to_the_dead_is_destroyed_untold);
    tcase_add_test(tcase, box_of_the_dead_that_was_removed_is_told_as_death);
    tcase_add_loop_test(tcase, memory_of_the_dead_goes_with_the_endpoint, 0, 8);
    tcase_add_test(tcase, memory_goes_with_the_last_endpoint);
    tcase_add_test(tcase, endpoint_that_a_forked_child_destroys_is_watched_on);
    tcase_add_test(tcase, death_of_who_has_no_room_is_told);
    tcase_add_test(tcase, peer_of_another_folder_is_not_reached);
    tcase_add_test(tcase, peer_of_another_user_is_not_reached);
    tcase_add_test(tcase, interface_without_messages_sends_none);
    tcase_add_test(tcase, messages_are_carried_unless_told_not_to);
    tcase_add_test(tcase, limit_of_files_leaves_messages_to_others);
    tcase_add_loop_test(tcase, folder_that_takes_no_more_leaves_messages_to_others, 0,
                        2);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("xgmi_am");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    setenv("UCX_MORI_TEST_HIP", HIPCPU_PATH, 1);
    xgmi_inside_register();
    mkv_test_init();
    add_two_sides(suite);
    add_one_side(suite);
    return mkv_check_run_forked(suite);
}
