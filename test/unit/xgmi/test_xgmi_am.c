/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages between two interfaces of one process in a real UCX, so that the test
 * controls the progress of each side; and endpoints to dead peers.
 */

#include "config.h"

#include "test/fake/hip/hipcpu_abi.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"
#include "test/unit/xgmi/xgmi_inside.h"
#include "test/unit/xgmi/xgmi_sides.h"
#include "xgmi/peer/xgmi_page.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>


static void open_sides(void)
{
    ck_assert_msg(ct_side_open(&am_side, &am_name) == UCS_OK, "%s", am_side.why);
    ck_assert_msg(ct_side_open_beside(&am_other, &am_name, &am_side) == UCS_OK, "%s",
                  am_other.why);
}

static void setup(void)
{
    ct_addr_t addr;

    strcpy(am_dir + strlen(am_dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(am_dir));
    setenv("UCX_MORI_XGMI_SHM_DIR", am_dir, 1);
    open_sides();
    am_num_come[0] = am_num_come[1] = 0;
    ck_assert_int_eq(uct_iface_set_am_handler(am_side.iface, AM_ID, am_on_message,
                                              &am_num_come[0], 0),
                     UCS_OK);
    ck_assert_int_eq(uct_iface_set_am_handler(am_other.iface, AM_ID, am_on_message,
                                              &am_num_come[1], 0),
                     UCS_OK);
    am_get_addr(&am_other, &addr);
    am_ep = am_connect_to(&addr);
}

static void receive_all(const ct_side_t *of, const uint64_t *count, uint64_t expected)
{
    unsigned i;

    for (i = 0; (i < AM_MANY) && (*count < expected); ++i) {
        (void)uct_iface_progress(of->iface);
    }
    ck_assert_uint_eq(*count, expected);
}

static muct_xgmi_inbox_t *inbox_of(const ct_side_t *of)
{
    return xgmi_inside_inbox(of->iface);
}


/* ---- room ---- */

START_TEST(a_sender_without_room_waits_and_goes_on_in_order)
{
    uint64_t number = am_fill(am_ep, 0);
    am_request_t first, second;

    am_request_init(&first, am_ep, number);
    am_request_init(&second, am_ep, number + 1);
    ck_assert_int_eq(uct_ep_pending_add(am_ep, &first.req, 0), UCS_OK);
    ck_assert_int_eq(uct_ep_pending_add(am_ep, &second.req, 0), UCS_OK);
    am_progress(&am_side, 10);
    ck_assert_uint_eq(first.num_calls + second.num_calls, 0); /* not tried in vain */

    receive_all(&am_other, &am_num_come[1], number);
    ck_assert_int_eq(am_send_one(am_ep, number),
                     UCS_ERR_NO_RESOURCE); /* those go first */
    am_progress(&am_side, 1);
    ck_assert_int_eq(first.status, UCS_OK);
    ck_assert_int_eq(second.status, UCS_OK);
    ck_assert_int_eq(am_send_one(am_ep, number + 2), UCS_OK);
    receive_all(&am_other, &am_num_come[1], number + 3);
}
END_TEST

START_TEST(a_sender_that_finds_room_again_need_not_wait)
{
    uint64_t number = am_fill(am_ep, 0);
    am_request_t request;

    receive_all(&am_other, &am_num_come[1], number);
    am_request_init(&request, am_ep, number);
    ck_assert_int_eq(uct_ep_pending_add(am_ep, &request.req, 0), UCS_ERR_BUSY);
    ck_assert_int_eq(am_send_one(am_ep, number), UCS_OK);
}
END_TEST

/* A full ring blocks its own endpoint; the other endpoint goes on. */
START_TEST(an_endpoint_without_room_blocks_no_other)
{
    uint64_t number = am_fill(am_ep, 0), own_number;
    am_request_t request, own_request;
    ct_addr_t addr;
    uct_ep_h own;

    am_get_addr(&am_side, &addr);
    own = am_connect_to(&addr);
    am_request_init(&request, am_ep, number);
    ck_assert_int_eq(uct_ep_pending_add(am_ep, &request.req, 0), UCS_OK);
    own_number = am_fill(own, 0);
    am_request_init(&own_request, own, own_number);
    ck_assert_int_eq(uct_ep_pending_add(own, &own_request.req, 0), UCS_OK);
    receive_all(&am_side, &am_num_come[0], own_number + 1);
    ck_assert_int_eq(own_request.status, UCS_OK);
    ck_assert_int_eq(am_send_one(own, own_number + 1), UCS_OK);
    ck_assert_uint_eq(request.num_calls, 0);

    receive_all(&am_other, &am_num_come[1], number);
    am_progress(&am_side, 1);
    ck_assert_int_eq(request.status, UCS_OK);
    uct_ep_destroy(own);
}
END_TEST

#define OTHER_ID (AM_ID + 1)

static ucs_status_t fill_again(uct_pending_req_t *req)
{
    am_request_t *request = ucs_container_of(req, am_request_t, req);

    ++request->num_calls;
    request->number = am_fill(request->ep, request->number);
    return UCS_ERR_NO_RESOURCE;
}

static ucs_status_t run_other(uct_pending_req_t *req)
{
    am_request_t *request = ucs_container_of(req, am_request_t, req);

    ++request->num_calls;
    request->status = uct_ep_am_short(request->ep, OTHER_ID, request->number, NULL, 0);
    return request->status;
}

START_TEST(a_sender_that_is_full_again_lets_others_send)
{
    am_request_t first, second;
    uint64_t count = 0, number;
    ct_side_t third;
    ct_addr_t addr;
    uct_ep_h own;

    ck_assert_int_eq(ct_side_open_beside(&third, &am_name, &am_side), UCS_OK);
    ck_assert_int_eq(
        uct_iface_set_am_handler(third.iface, OTHER_ID, am_on_message, &count, 0),
        UCS_OK);
    am_get_addr(&third, &addr);
    own = am_connect_to(&addr);
    am_request_init(&first, am_ep, am_fill(am_ep, 0));
    first.req.func = fill_again;
    for (number = 0; uct_ep_am_short(own, OTHER_ID, number, NULL, 0) == UCS_OK;) {
        ck_assert_uint_lt(++number, AM_MANY);
    }
    am_request_init(&second, own, number);
    second.req.func = run_other;
    ck_assert_int_eq(uct_ep_pending_add(am_ep, &first.req, 0), UCS_OK);
    ck_assert_int_eq(uct_ep_pending_add(own, &second.req, 0), UCS_OK);
    receive_all(&third, &count, number);
    receive_all(&am_other, &am_num_come[1], first.number);
    am_progress(&am_side, 1);
    ck_assert_uint_eq(first.num_calls, 1);
    ck_assert_int_eq(second.status, UCS_OK);

    uct_ep_pending_purge(am_ep, am_count_purged, &first.num_calls);
    ck_assert_uint_eq(first.num_calls, 2);
    uct_ep_destroy(own);
    ct_side_close(&third);
}
END_TEST

START_TEST(a_sleeper_without_room_is_woken_by_room_alone)
{
    am_request_t request;
    uint64_t number = 0;
    unsigned round;

    for (round = 0; round < 20; ++round) {
        number = am_fill(am_ep, number);
        am_request_init(&request, am_ep, number);
        ck_assert_int_eq(uct_ep_pending_add(am_ep, &request.req, 0), UCS_OK);
        ck_assert(am_sleeps(&am_side));
        receive_all(&am_other, &am_num_come[1], number);
        ck_assert(am_is_readable(&am_side));
        am_progress(&am_side, 1);
        ck_assert_int_eq(request.status, UCS_OK);
        ++number;
        ck_assert(am_sleeps(&am_side));
    }
}
END_TEST

/* Room that came between the last look and arming wakes no thread: arming reports it.
 */
START_TEST(a_sender_with_new_room_does_not_sleep)
{
    uint64_t number = am_fill(am_ep, 0);
    am_request_t request;

    am_request_init(&request, am_ep, number);
    ck_assert_int_eq(uct_ep_pending_add(am_ep, &request.req, 0), UCS_OK);
    receive_all(&am_other, &am_num_come[1], number);
    ck_assert_int_eq(uct_iface_event_arm(am_side.iface, UCT_EVENT_SEND_COMP),
                     UCS_ERR_BUSY);
    am_progress(&am_side, 1);
    ck_assert_int_eq(request.status, UCS_OK);
}
END_TEST

/* UCP takes an interface out of progress while requests wait for room. */
START_TEST(disabled_progress_serves_senders_without_room)
{
    uint64_t number = am_fill(am_ep, 0);
    am_request_t request;

    am_request_init(&request, am_ep, number);
    ck_assert_int_eq(uct_ep_pending_add(am_ep, &request.req, 0), UCS_OK);
    uct_iface_progress_disable(am_side.iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    receive_all(&am_other, &am_num_come[1], number);
    uct_worker_progress(am_side.worker);
    ck_assert_int_eq(request.status, UCS_OK);
    uct_iface_progress_enable(am_side.iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}
END_TEST


/* ---- sleeping receivers ---- */

START_TEST(each_message_wakes_a_sleeping_receiver_once)
{
    uint64_t number;

    for (number = 0; number < 200; ++number) {
        am_arm(&am_other);
        ck_assert(!am_is_readable(&am_other));
        ck_assert_int_eq(am_send_one(am_ep, number), UCS_OK);
        ck_assert(am_is_readable(&am_other));
        am_progress(&am_other, 1);
        ck_assert_uint_eq(am_num_come[1], number + 1);
    }
}
END_TEST

START_TEST(a_receiver_with_a_message_does_not_sleep)
{
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_OK);
    ck_assert_int_eq(uct_iface_event_arm(am_other.iface, UCT_EVENT_RECV), UCS_ERR_BUSY);
    am_progress(&am_other, 1);
    ck_assert_uint_eq(am_num_come[1], 1);
    am_arm(&am_other);
}
END_TEST

/* A sender that died between the ring and its count left the bell as it is. */
START_TEST(an_uncounted_bell_wakes_once)
{
    unsigned i;

    am_arm(&am_other);
    ck_assert_int_eq(write(inbox_of(&am_other)->bell_fd, "", 1), 1);
    ck_assert(am_is_readable(&am_other));
    for (i = 0; (i < AM_MANY) && am_is_readable(&am_other); ++i) {
        am_progress(&am_other, 1);
        am_arm(&am_other);
    }
    ck_assert(!am_is_readable(&am_other));
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_OK);
    ck_assert(am_is_readable(&am_other));
}
END_TEST


/* ---- fence ---- */

static void fence(int by_ep)
{
    ck_assert_int_eq(by_ep ? uct_ep_fence(am_ep, 0) : uct_iface_fence(am_side.iface, 0),
                     UCS_OK);
}

/* Copies stand still; a message without a fence overtakes them, one behind it waits. */
START_TEST(message_waits_for_copies_before_a_fence)
{
    ct_mem_t local, remote;
    uct_rkey_bundle_t rkey;
    am_request_t request;
    uint8_t key[256];
    unsigned i;
    am_comp_t comp;

    ck_assert_int_eq(ct_mem_create(&am_side, AM_LENGTH, UCS_MEMORY_TYPE_ROCM, &local),
                     UCS_OK);
    ck_assert_int_eq(ct_mem_create(&am_other, AM_LENGTH, UCS_MEMORY_TYPE_ROCM, &remote),
                     UCS_OK);
    ck_assert(ct_mem_fill(&local, 0, AM_LENGTH, 1, 0));
    ck_assert_int_eq(ct_mem_pack(&am_other, &remote, 0, key), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(am_side.component, key, &rkey), UCS_OK);
    am_put_all(&local, (uintptr_t)remote.addr, rkey.rkey,
               &comp); /* the first one makes streams */
    for (i = 0; (comp.num_calls == 0) && (i < 1000 * AM_MANY); ++i) {
        am_progress(&am_side, 1);
    }
    ck_assert_uint_eq(comp.num_calls, 1);
    fence(_i);
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_OK); /* nothing was before it */

    ck_assert(ct_mem_fill(&local, 0, AM_LENGTH, 2, 0));
    fake_hip_hold("hipcpu_hold", NULL);
    am_put_all(&local, (uintptr_t)remote.addr, rkey.rkey, &comp);
    ck_assert_int_eq(am_send_one(am_ep, 1), UCS_OK);
    fence(_i);
    fence(_i);
    am_request_init(&request, am_ep, 2);
    ck_assert_int_eq(am_send_one(am_ep, 2), UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(uct_ep_pending_add(am_ep, &request.req, 0), UCS_OK);
    am_progress(&am_side, 100);
    am_progress(&am_other, 10);
    ck_assert_uint_eq(am_num_come[1], 2);
    ck_assert_uint_eq(comp.num_calls, 0);

    fake_hip_hold("hipcpu_release", NULL);
    for (i = 0; (request.status != UCS_OK) && (i < 1000 * AM_MANY); ++i) {
        am_progress(&am_side, 1);
    }
    ck_assert_int_eq(request.status, UCS_OK);
    ck_assert_uint_eq(comp.num_calls, 1);
    receive_all(&am_other, &am_num_come[1], 3);
    ck_assert_uint_eq(ct_mem_check(&remote, 0, AM_LENGTH, 2, 0), AM_LENGTH);
    ck_assert_int_eq(am_send_one(am_ep, 3), UCS_OK);
    uct_rkey_release(am_side.component, &rkey);
    ct_mem_destroy(&am_other, &remote);
    ct_mem_destroy(&am_side, &local);
}
END_TEST


/* ---- limits of messages ---- */

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

static void expect_kept(uint64_t *count, size_t length)
{
    ck_assert_uint_eq(*count, 0);
    receive_all(&am_other, count, 1);
    *count = 0;
    ck_assert_uint_eq(kept_length, length);
    ck_assert_uint_eq(mkv_pattern_check(kept, length, length, 0), length);
}

START_TEST(each_length_is_sent_and_no_longer_one)
{
    const size_t max = am_other.attr.cap.am.max_bcopy;
    const size_t lengths[] = {0, 1, 55, 56, 57, 120, max - 1, max};
    static char bytes[MUCT_XGMI_RING_MAX_MESSAGE + 1];
    uint64_t count = 0, header;
    uct_iov_t iov[3] = {{.count = 1}, {.count = 1}, {.count = 1}};
    size_t i, length;

    ck_assert_int_eq(
        uct_iface_set_am_handler(am_other.iface, AM_ID, keep_message, &count, 0),
        UCS_OK);
    for (i = 0; i < 10 * (sizeof(lengths) / sizeof(lengths[0])); ++i) {
        length = lengths[i % (sizeof(lengths) / sizeof(lengths[0]))];
        ck_assert_int_eq(uct_ep_am_bcopy(am_ep, AM_ID, am_pack_length, &length, 0),
                         (ssize_t)length);
        expect_kept(&count, length);

        mkv_pattern_fill(bytes, length, length, 0);
        iov[0].buffer = bytes;
        iov[0].length = length / 3;
        iov[2].buffer = bytes + length / 3;
        iov[2].length = length - length / 3;
        ck_assert_int_eq(uct_ep_am_short_iov(am_ep, AM_ID, iov, 3), UCS_OK);
        expect_kept(&count, length);

        if (length >= sizeof(header)) {
            memcpy(&header, bytes, sizeof(header));
            ck_assert_int_eq(uct_ep_am_short(am_ep, AM_ID, header,
                                             bytes + sizeof(header),
                                             (unsigned)(length - sizeof(header))),
                             UCS_OK);
            expect_kept(&count, length);
        }
    }

    length = max + 1;
    ck_assert_int_eq(uct_ep_am_bcopy(am_ep, AM_ID, am_pack_length, &length, 0),
                     UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(uct_ep_am_short(am_ep, AM_ID, 0, bytes, (unsigned)(max - 7)),
                     UCS_ERR_INVALID_PARAM);
    iov[0].length = max;
    iov[2] = (uct_iov_t){.buffer = bytes, .length = 1, .count = 1};
    ck_assert_int_eq(uct_ep_am_short_iov(am_ep, AM_ID, iov, 3), UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(uct_ep_am_short(am_ep, UCT_AM_ID_MAX, 0, NULL, 0),
                     UCS_ERR_INVALID_PARAM);
    am_progress(&am_other, 10);
    ck_assert_uint_eq(count, 0);
    length = 100;
    ck_assert_int_eq(uct_ep_am_bcopy(am_ep, AM_ID, am_pack_length, &length, 0), 100);
    expect_kept(&count, 100);
}
END_TEST

/* The sender writes a message that this code would not write. */
START_TEST(message_of_no_id_is_dropped)
{
    muct_xgmi_outbox_t *outbox;

    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_OK);
    outbox = xgmi_inside_outbox(am_ep);
    ck_assert_ptr_nonnull(muct_xgmi_ring_reserve(&outbox->ring, 100));
    muct_xgmi_outbox_commit(outbox, UCT_AM_ID_MAX, 100);
    ck_assert_ptr_nonnull(muct_xgmi_ring_reserve(&outbox->ring, 100));
    muct_xgmi_outbox_commit(outbox, 255, 100);
    ck_assert_int_eq(am_send_one(am_ep, 1), UCS_OK);
    receive_all(&am_other, &am_num_come[1], 2);
}
END_TEST

START_TEST(message_arrives_when_its_endpoint_is_gone)
{
    ct_addr_t addr;
    uint64_t i;

    am_get_addr(&am_other, &addr);
    for (i = 0; i < 10; ++i) {
        ck_assert_int_eq(am_send_one(am_ep, i), UCS_OK);
        uct_ep_destroy(am_ep);
        ck_assert_uint_eq(atomic_load(&inbox_of(&am_other)->box->places[0].owner),
                          MUCT_XGMI_BOX_GIVEN_BACK);
        am_ep = am_connect_to(&addr);
        receive_all(&am_other, &am_num_come[1], i + 1);
    }
}
END_TEST

/* Bytes of all files in the folder */
static size_t num_shared_bytes(void)
{
    size_t count = 0, i;
    struct stat st;
    char path[64];
    glob_t found;

    snprintf(path, sizeof(path), "%s/*/*", am_dir);
    ck_assert_int_eq(glob(path, 0, NULL, &found), 0);
    for (i = 0; i < found.gl_pathc; ++i) {
        ck_assert_int_eq(stat(found.gl_pathv[i], &st), 0);
        count += (size_t)st.st_blocks * 512;
    }
    globfree(&found);
    return count;
}

/* More of them than the box has rings */
START_TEST(endpoints_of_an_interface_share_a_ring)
{
    enum { NUM = MUCT_XGMI_BOX_RINGS + 8 };
    static uct_ep_h eps[NUM];
    ct_addr_t addr;
    uint64_t i;

    am_get_addr(&am_other, &addr);
    uct_ep_destroy(am_ep);
    am_ep = NULL;
    for (i = 0; i < NUM; ++i) {
        eps[i] = am_connect_to(&addr);
        ck_assert_int_eq(am_send_one(eps[i], i), UCS_OK);
        receive_all(&am_other, &am_num_come[1], i + 1);
    }
    ck_assert_uint_eq(atomic_load(&inbox_of(&am_other)->box->num_used), 1);
    /* two processes have one page more than the two interfaces of this one */
    ck_assert_uint_lt(num_shared_bytes(),
                      (1 << 20) -
                          offsetof(muct_xgmi_page_t, slots[MUCT_XGMI_PAGE_SLOTS]));

    for (i = 0; i < NUM; ++i) {
        ck_assert_uint_ne(atomic_load(&inbox_of(&am_other)->box->places[0].owner),
                          MUCT_XGMI_BOX_GIVEN_BACK);
        uct_ep_destroy(eps[i]);
    }
    ck_assert_uint_eq(atomic_load(&inbox_of(&am_other)->box->places[0].owner),
                      MUCT_XGMI_BOX_GIVEN_BACK);
}
END_TEST

/* Loop index: by a check, by progress; with a flag of the receiver, with a position
 * that it cannot have. Nothing waits for room. */
START_TEST(broken_ring_fails_its_endpoints_before_it_is_full)
{
    muct_xgmi_ring_state_t *ring = &inbox_of(&am_other)->box->places[0].ring;

    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_OK);
    if (_i & 1) {
        atomic_store(&ring->is_broken, 1);
    } else {
        atomic_store(&ring->head, UINT64_C(1) << 40);
    }
    if (_i & 2) {
        ck_assert_int_eq(uct_ep_check(am_ep, 0, NULL), UCS_OK);
    } else {
        am_progress(&am_side, 100000);
    }
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

/* Other endpoints of the interface fail with it, because they share the ring. */
START_TEST(endpoint_made_behind_a_broken_ring_takes_another)
{
    uct_ep_h second;
    ct_addr_t addr;

    am_get_addr(&am_other, &addr);
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_OK);
    atomic_store(&inbox_of(&am_other)->box->places[0].ring.is_broken, 1);
    second = am_connect_to(&addr);
    ck_assert_int_eq(am_send_one(second, 1), UCS_OK);
    ck_assert_ptr_ne(xgmi_inside_outbox(second), xgmi_inside_outbox(am_ep));
    uct_ep_destroy(second);
}
END_TEST


/* ---- endpoints that fail ---- */

/* An endpoint in place of the one that there is */
static void replace_ep(const ct_addr_t *addr)
{
    uct_ep_destroy(am_ep);
    am_ep = am_connect_to(addr);
}

START_TEST(endpoint_to_a_closed_interface_fails)
{
    ct_addr_t addr;

    am_get_addr(&am_other, &addr);
    uct_ep_destroy(am_ep);
    ct_side_close(&am_other);
    am_other.iface = NULL;
    am_expect_reachable(&addr);
    am_ep = am_connect_to(&addr);
    if (_i) {
        am_try_all();
    }
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

/* The receiver behaves as with MESSAGES=n: UCP checks by a message whether it lives,
 * and all else works. */
START_TEST(receiver_without_a_box_lives)
{
    char path[512];
    size_t length = 8;

    muct_xgmi_page_iface_path(am_dir, inbox_of(&am_other)->owner,
                              inbox_of(&am_other)->id, MUCT_XGMI_BOX_SUFFIX, path,
                              sizeof(path));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(uct_ep_am_bcopy(am_ep, AM_ID, am_pack_length, &length, 0),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(uct_ep_am_bcopy(am_ep, AM_ID, am_pack_length, &length,
                                     UCT_SEND_FLAG_PEER_CHECK),
                     8);
    am_progress(&am_side, 10);
    ck_assert_uint_eq(am_side.events.num_ep_errors, 0);

    ct_side_close(&am_other);
    am_other.iface = NULL;
    ck_assert_int_eq(uct_ep_am_bcopy(am_ep, AM_ID, am_pack_length, &length,
                                     UCT_SEND_FLAG_PEER_CHECK),
                     UCS_ERR_CONNECTION_RESET);
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

/* The receiver reads no more, or a word of the ring is wrong: a sender without room
 * detects it, awake or asleep. */
START_TEST(a_receiver_that_reads_no_more_fails_the_endpoint)
{
    bool sleeps = (_i % 2 == 1), is_head = (_i / 2 == 1);
    uint64_t number = am_fill(am_ep, 0);
    muct_xgmi_ring_state_t *ring = &xgmi_inside_outbox(am_ep)->place->ring;
    unsigned num_purged = 0;
    am_request_t request;

    am_request_init(&request, am_ep, number);
    if (sleeps) {
        ck_assert_int_eq(uct_ep_pending_add(am_ep, &request.req, 0), UCS_OK);
        am_arm(&am_side);
    }
    if (is_head) {
        atomic_store(&ring->head, UINT64_C(1) << 40);
    } else {
        atomic_store(&ring->is_broken, 1);
    }
    if (sleeps) {
        ck_assert_int_eq(uct_iface_event_arm(am_side.iface, UCT_EVENT_SEND_COMP),
                         UCS_ERR_BUSY);
        am_progress(&am_side, 1);
        ck_assert_int_eq(request.status, UCS_ERR_CONNECTION_RESET);
        uct_ep_pending_purge(am_ep, am_count_purged, &num_purged);
    } else {
        ck_assert_int_eq(am_send_one(am_ep, number), UCS_ERR_CONNECTION_RESET);
    }
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST


/* ---- reachable peers ---- */

START_TEST(interface_that_cannot_be_is_not_reached)
{
    muct_xgmi_iface_addr_t iface_addr;
    ct_addr_t addr;

    am_get_addr(&am_other, &addr);
    am_expect_reachable(&addr);
    iface_addr = am_iface_of(&addr);
    iface_addr.id.slot = MUCT_XGMI_MAX_IFACES;
    muct_xgmi_iface_addr_pack(&iface_addr, addr.bytes + addr.dev_length);
    am_expect_unreachable(&addr, "no interface 4096");
    replace_ep(&addr); /* does not check the peer */
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST


static unsigned num_warnings;

static char warning[1024]; /* the last one */


__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t count_warning(
    const char *file, unsigned number, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list args)
{
    (void)file, (void)number, (void)function, (void)component;
    if (level <= UCS_LOG_LEVEL_WARN) {
        vsnprintf(warning, sizeof(warning), format, args);
        num_warnings += (strstr(warning, "carries no messages") != NULL) ||
                        (strstr(warning, "senders of messages already") != NULL);
    }
    return UCS_LOG_FUNC_RC_CONTINUE;
}

/* Places have an owner from this one on, and none can be taken. */
static void take_places(const ct_side_t *of, unsigned first)
{
    muct_xgmi_box_place_t *places = inbox_of(of)->box->places;
    unsigned i;

    for (i = first; i < MUCT_XGMI_BOX_RINGS; ++i) {
        atomic_store(&places[i].owner, inbox_of(of)->owner);
        atomic_store(&places[i].ring.is_broken, 1);
    }
}

/* UCP takes another transport for it, with one warning. */
START_TEST(receiver_without_places_is_not_reached)
{
    uct_ep_h second = NULL;
    ct_addr_t addr;
    unsigned i;

    am_get_addr(&am_other, &addr);
    take_places(&am_other, 1);
    num_warnings = 0;
    ucs_log_push_handler(count_warning);
    am_expect_reachable(&addr); /* endpoints share a place */
    second = am_connect_to(&addr);
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_OK);
    ck_assert_int_eq(am_send_one(second, 1), UCS_OK);
    receive_all(&am_other, &am_num_come[1], 2);
    uct_ep_destroy(second);
    uct_ep_destroy(am_ep);
    am_ep = NULL;

    take_places(&am_other, 0);
    for (i = 0; i < 10; ++i) {
        am_expect_unreachable(&addr, "1024 senders");
    }
    ck_assert_uint_eq(num_warnings, 1);
    am_ep = am_connect_to(&addr); /* does not check the peer */
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_ERR_EXCEEDS_LIMIT);
    ck_assert_uint_eq(num_warnings, 2);
    ucs_log_pop_handler();
    am_expect_failed(UCS_ERR_EXCEEDS_LIMIT);
}
END_TEST

/* A third one took its last place: it sleeps until there is room, and none will come.
 */
START_TEST(sleeper_is_woken_when_its_peer_cannot_answer)
{
    uint64_t number = am_fill(am_ep, 0);
    unsigned num_purged = 0;
    am_request_t request;
    uct_ep_h back = NULL;
    ct_addr_t addr;

    take_places(&am_side, 0);
    am_get_addr(&am_side, &addr);
    ck_assert_int_eq(ct_ep_create(&am_other, &addr, &back), UCS_OK);
    am_request_init(&request, am_ep, number);
    ck_assert_int_eq(uct_ep_pending_add(am_ep, &request.req, 0), UCS_OK);
    ck_assert(am_sleeps(&am_side));
    ck_assert_int_eq(am_send_one(back, 0), UCS_ERR_EXCEEDS_LIMIT);
    ck_assert(am_is_readable(&am_side));
    am_progress(&am_side, 1);
    ck_assert_int_eq(request.status, UCS_ERR_CONNECTION_RESET);
    uct_ep_pending_purge(am_ep, am_count_purged, &num_purged);
    uct_ep_destroy(back);
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

/* A sender that comes meanwhile finds no place. */
START_TEST(place_of_a_reached_receiver_is_held_for_the_endpoint)
{
    const muct_xgmi_box_place_t *place = &inbox_of(&am_other)->box->places[0];
    const uint64_t self = inbox_of(&am_side)->owner;
    ct_addr_t addr, own;

    am_get_addr(&am_other, &addr);
    am_get_addr(&am_side, &own);
    uct_ep_destroy(am_ep);
    am_ep = NULL;
    am_expect_reachable(&addr);
    am_expect_reachable(&addr);
    ck_assert_uint_eq(atomic_load(&place->owner), self);
    am_expect_reachable(&own); /* no endpoint has come */
    ck_assert_uint_eq(atomic_load(&place->owner), MUCT_XGMI_BOX_GIVEN_BACK);

    am_expect_reachable(&addr);
    ck_assert_uint_eq(atomic_load(&place->owner), self);
    am_ep = am_connect_to(&addr);
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_OK);
    receive_all(&am_other, &am_num_come[1], 1);
    uct_ep_destroy(am_ep);
    am_ep = NULL;
    ck_assert_uint_eq(atomic_load(&place->owner), MUCT_XGMI_BOX_GIVEN_BACK);
}
END_TEST

/* Another endpoint that shared the ring broke it. */
START_TEST(endpoint_that_has_not_sent_leaves_a_broken_ring)
{
    atomic_store(&inbox_of(&am_other)->box->places[0].ring.is_broken, 1);
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_OK);
    ck_assert_uint_eq(xgmi_inside_outbox(am_ep)->index, 1);
    receive_all(&am_other, &am_num_come[1], 1);
}
END_TEST

static unsigned num_errors;

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t count_errors(
    const char *file, unsigned number, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list args)
{
    (void)file, (void)number, (void)function, (void)component, (void)format, (void)args;
    num_errors += (level <= UCS_LOG_LEVEL_ERROR);
    return UCS_LOG_FUNC_RC_CONTINUE;
}

/* UCP checks reachability many times, and may send nothing. */
START_TEST(box_that_is_none_is_reported_by_the_first_message)
{
    char path[512];
    ct_addr_t addr;

    am_get_addr(&am_other, &addr);
    uct_ep_destroy(am_ep);
    muct_xgmi_page_iface_path(am_dir, inbox_of(&am_other)->owner,
                              inbox_of(&am_other)->id, MUCT_XGMI_BOX_SUFFIX, path,
                              sizeof(path));
    ck_assert_int_eq(truncate(path, (off_t)muct_xgmi_box_size() + 1), 0);
    num_errors = 0;
    ucs_log_push_handler(count_errors);
    am_expect_reachable(&addr);
    am_ep = am_connect_to(&addr);
    ck_assert_uint_eq(num_errors, 0);
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(num_errors, 1);
    ucs_log_pop_handler();
}
END_TEST


/* ---- interfaces without messages ---- */

static unsigned count_files(const char *suffix)
{
    char pattern[128];
    glob_t files;
    unsigned count;

    snprintf(pattern, sizeof(pattern), "%s/*/*%s", am_dir, suffix);
    count = (glob(pattern, 0, NULL, &files) == 0) ? (unsigned)files.gl_pathc : 0;
    if (count > 0) {
        globfree(&files);
    }
    return count;
}

/* All else is as with them. */
static void expect_no_messages(void)
{
    const uint64_t am_flags =
        UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_CB_SYNC;

    ck_assert_uint_eq(am_side.attr.cap.flags & am_flags, 0);
    ck_assert_uint_eq(am_side.attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_RECV, 0);
    ck_assert_uint_ne(am_side.attr.cap.flags & UCT_IFACE_FLAG_PUT_ZCOPY, 0);
    ck_assert_int_eq(uct_iface_fence(am_side.iface, 0), UCS_OK);
    am_arm(&am_side);
    am_progress(&am_side, 10);
}

/* An interface without messages sends none: it has no bell that could report room. */
START_TEST(interface_without_messages_sends_none)
{
    size_t length = 8;
    ct_addr_t addr;

    setenv("UCX_MORI_XGMI_MESSAGES", "n", 1);
    ck_assert_msg(ct_side_open(&am_side, &am_name) == UCS_OK, "%s", am_side.why);
    unsetenv("UCX_MORI_XGMI_MESSAGES");
    ck_assert_msg(ct_side_open_beside(&am_other, &am_name, &am_side) == UCS_OK, "%s",
                  am_other.why);
    am_get_addr(&am_other, &addr);
    am_ep = am_connect_to(&addr);
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(uct_ep_am_bcopy(am_ep, AM_ID, am_pack_length, &length, 0),
                     UCS_ERR_UNSUPPORTED);
    am_arm(&am_side);
    ck_assert_uint_eq(am_side.events.num_ep_errors, 0);
}
END_TEST

START_TEST(messages_are_carried_by_default)
{
    ucs_log_push_handler(count_warning);
    setenv("UCX_MORI_XGMI_MESSAGES", "n", 1);
    am_open_side();
    expect_no_messages();
    ck_assert_uint_eq(count_files(MUCT_XGMI_BOX_SUFFIX), 0);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BELL_SUFFIX), 0);
    ct_side_close(&am_side);

    unsetenv("UCX_MORI_XGMI_MESSAGES");
    am_open_side();
    ck_assert_uint_ne(am_side.attr.cap.flags & UCT_IFACE_FLAG_AM_BCOPY, 0);
    ck_assert_uint_ne(am_side.attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_RECV, 0);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BOX_SUFFIX), 1);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BELL_SUFFIX), 1);
    ck_assert_uint_eq(num_warnings, 0);
}
END_TEST

/* A file that is longer would be a signal. */
/* XP-02 */
START_TEST(limit_of_files_leaves_messages_to_others)
{
    const uint64_t most = muct_xgmi_box_size() - 1;
    char number[32];

    mkv_test_set_limit(RLIMIT_FSIZE, most);
    snprintf(number, sizeof(number), "%lu", (unsigned long)most);
    ucs_log_push_handler(count_warning);
    am_open_side();
    expect_no_messages();
    ck_assert_uint_eq(num_warnings, 1);
    ck_assert_msg(strstr(warning, "ulimit -f") != NULL, "%s", warning);
    ck_assert_msg(strstr(warning, number) != NULL, "%s", warning);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BELL_SUFFIX), 0); /* which is made first */
    ct_side_close(&am_side);

    mkv_test_set_limit(RLIMIT_FSIZE, most + 1);
    am_open_side();
    ck_assert_uint_ne(am_side.attr.cap.flags & UCT_IFACE_FLAG_AM_BCOPY, 0);
}
END_TEST

/* Existing names simulate a folder in which no file can be made. */
START_TEST(folder_that_takes_no_more_leaves_messages_to_others)
{
    static const char *const suffixes[] = {MUCT_XGMI_BELL_SUFFIX, MUCT_XGMI_BOX_SUFFIX};
    muct_xgmi_iface_addr_t iface;
    char path[512];
    ct_addr_t addr;
    unsigned i;

    ucs_log_push_handler(count_warning);
    am_open_side();
    am_get_addr(&am_side, &addr);
    iface = am_iface_of(&addr);
    for (i = 0; i < 16; ++i) { /* whichever is next */
        ++iface.id.slot;
        iface.id.generation = 1;
        muct_xgmi_page_iface_path(am_dir, iface.owner, iface.id, suffixes[_i], path,
                                  sizeof(path));
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    ck_assert_msg(ct_side_open_beside(&am_other, &am_name, &am_side) == UCS_OK, "%s",
                  am_other.why);
    ck_assert_uint_eq(num_warnings, 1);
    ck_assert_msg(strstr(warning, "File exists") != NULL, "%s", warning);
    ck_assert_msg(strstr(warning, suffixes[_i]) != NULL, "%s", warning);
    ck_assert_ptr_null(inbox_of(&am_other));
    ck_assert_uint_eq(am_other.attr.cap.flags & UCT_IFACE_FLAG_AM_BCOPY, 0);
    ct_side_close(&am_other);
    am_other.iface = NULL;
    ck_assert_uint_eq(count_files(suffixes[!_i]), 1); /* of the first, and no other */
}
END_TEST

/* The GPU runtime takes a handle of another process with its own pid for its own. */
START_TEST(process_of_the_same_pid_is_out_of_reach_with_a_warning)
{
    muct_xgmi_iface_addr_t twin;
    ct_addr_t addr;
    unsigned i;

    ucs_log_push_handler(count_warning);
    am_get_addr(&am_side, &addr);
    twin = am_iface_of(&addr);
    ++twin.owner;
    ++twin.pid_namespace;
    muct_xgmi_iface_addr_pack(&twin, addr.bytes + addr.dev_length);
    warning[0] = '\0';
    for (i = 0; i < 2; ++i) {
        am_expect_unreachable(&addr, "same pid");
        ck_assert((strstr(warning, "same pid") != NULL) == (i == 0));
        warning[0] = '\0';
    }
}
END_TEST

START_TEST(box_and_bell_go_with_the_interface)
{
    ck_assert_uint_eq(count_files(MUCT_XGMI_BOX_SUFFIX), 2);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BELL_SUFFIX), 2);
    ct_side_close(&am_other);
    am_other.iface = NULL;
    ck_assert_uint_eq(count_files(MUCT_XGMI_BOX_SUFFIX), 1);
    ck_assert_uint_eq(count_files(MUCT_XGMI_BELL_SUFFIX), 1);
}
END_TEST

static void add_two_sides(Suite *suite)
{
    TCase *tcase = tcase_create("two sides");

    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, setup, am_teardown);
    tcase_add_test(tcase, a_sender_without_room_waits_and_goes_on_in_order);
    tcase_add_test(tcase, a_sender_that_finds_room_again_need_not_wait);
    tcase_add_test(tcase, an_endpoint_without_room_blocks_no_other);
    tcase_add_test(tcase, a_sender_that_is_full_again_lets_others_send);
    tcase_add_test(tcase, a_sleeper_without_room_is_woken_by_room_alone);
    tcase_add_test(tcase, a_sender_with_new_room_does_not_sleep);
    tcase_add_test(tcase, disabled_progress_serves_senders_without_room);
    tcase_add_test(tcase, each_message_wakes_a_sleeping_receiver_once);
    tcase_add_test(tcase, a_receiver_with_a_message_does_not_sleep);
    tcase_add_test(tcase, an_uncounted_bell_wakes_once);
    tcase_add_loop_test(tcase, message_waits_for_copies_before_a_fence, 0, 2);
    tcase_add_test(tcase, each_length_is_sent_and_no_longer_one);
    tcase_add_test(tcase, message_of_no_id_is_dropped);
    tcase_add_test(tcase, message_arrives_when_its_endpoint_is_gone);
    tcase_add_test(tcase, endpoints_of_an_interface_share_a_ring);
    tcase_add_loop_test(tcase, broken_ring_fails_its_endpoints_before_it_is_full, 0, 4);
    tcase_add_test(tcase, endpoint_made_behind_a_broken_ring_takes_another);
    tcase_add_loop_test(tcase, endpoint_to_a_closed_interface_fails, 0, 2);
    tcase_add_test(tcase, receiver_without_places_is_not_reached);
    tcase_add_test(tcase, sleeper_is_woken_when_its_peer_cannot_answer);
    tcase_add_test(tcase, place_of_a_reached_receiver_is_held_for_the_endpoint);
    tcase_add_test(tcase, endpoint_that_has_not_sent_leaves_a_broken_ring);
    tcase_add_test(tcase, box_that_is_none_is_reported_by_the_first_message);
    tcase_add_test(tcase, receiver_without_a_box_lives);
    tcase_add_loop_test(tcase, a_receiver_that_reads_no_more_fails_the_endpoint, 0, 4);
    tcase_add_test(tcase, interface_that_cannot_be_is_not_reached);
    tcase_add_test(tcase, process_of_the_same_pid_is_out_of_reach_with_a_warning);
    tcase_add_test(tcase, box_and_bell_go_with_the_interface);
    suite_add_tcase(suite, tcase);
}

static void add_one_side(Suite *suite)
{
    TCase *tcase = tcase_create("one side");

    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, am_setup_dir, am_teardown);
    tcase_add_test(tcase, interface_without_messages_sends_none);
    tcase_add_test(tcase, messages_are_carried_by_default);
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
