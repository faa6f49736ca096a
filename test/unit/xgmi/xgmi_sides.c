/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "test/unit/xgmi/xgmi_sides.h"

#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"
#include "test/unit/xgmi/xgmi_lists.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char am_dir[] = "/tmp/test_xgmi_am.XXXXXX";
const ct_target_name_t am_name = {.tl_name = "mori_xgmi"};
ct_side_t am_side, am_other;
uct_ep_h am_ep;
uint64_t am_num_come[2];


ucs_status_t am_on_message(void *arg, void *data, size_t length, unsigned flags)
{
    uint64_t *count = arg, number;

    (void)flags;
    ck_assert_uint_ge(length, sizeof(number));
    memcpy(&number, data, sizeof(number));
    ck_assert_uint_eq(number, *count);
    ++*count;
    return UCS_OK;
}

void am_get_addr(const ct_side_t *of, ct_addr_t *addr)
{
    ck_assert_int_eq(ct_addr_get(of, NULL, addr), UCS_OK);
}

uct_ep_h am_connect_to(const ct_addr_t *addr)
{
    uct_ep_h made = NULL;

    ck_assert_int_eq(ct_ep_create(&am_side, addr, &made), UCS_OK);
    return made;
}

void am_teardown(void)
{
    char command[64];

    if (am_ep != NULL) {
        uct_ep_destroy(am_ep);
    }
    if (am_other.iface != NULL) {
        ct_side_close(&am_other);
    }
    ct_side_close(&am_side);
    snprintf(command, sizeof(command), "rm -rf %s", am_dir);
    ck_assert_int_eq(system(command), 0);
}

ucs_status_t am_send_one(uct_ep_h to, uint64_t number)
{
    char payload[56];

    memset(payload, (int)number, sizeof(payload));
    return uct_ep_am_short(to, AM_ID, number, payload, sizeof(payload));
}

/* @return The first number that there is no room for. */
uint64_t am_fill(uct_ep_h to, uint64_t number)
{
    ucs_status_t status;

    while ((status = am_send_one(to, number)) == UCS_OK) {
        ck_assert_uint_lt(++number, AM_MANY);
    }
    ck_assert_int_eq(status, UCS_ERR_NO_RESOURCE);
    return number;
}

static ucs_status_t am_run_request(uct_pending_req_t *req)
{
    am_request_t *request = ucs_container_of(req, am_request_t, req);

    ++request->num_calls;
    request->status = am_send_one(request->ep, request->number);
    return request->status;
}

void am_request_init(am_request_t *request, uct_ep_h to, uint64_t number)
{
    *request = (am_request_t){.req = {.func = am_run_request},
                              .ep = to,
                              .number = number,
                              .status = UCS_INPROGRESS};
}

void am_count_purged(uct_pending_req_t *req, void *arg)
{
    (void)req;
    ++*(unsigned *)arg;
}

void am_progress(const ct_side_t *of, unsigned times)
{
    for (; times > 0; --times) {
        (void)uct_iface_progress(of->iface);
    }
}

bool am_is_readable(const ct_side_t *of)
{
    struct pollfd pfd = {.events = POLLIN};

    ck_assert_int_eq(uct_iface_event_fd_get(of->iface, &pfd.fd), UCS_OK);
    return poll(&pfd, 1, 0) == 1;
}

/* Arm until it holds: earlier events are for progress */
void am_arm(const ct_side_t *of)
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

bool am_sleeps(const ct_side_t *of)
{
    do {
        am_arm(of);
        if (!am_is_readable(of)) {
            return true;
        }
    } while (xgmi_lists_is_timer_over(of->iface));
    return false;
}

muct_xgmi_iface_addr_t am_iface_of(const ct_addr_t *addr)
{
    muct_xgmi_iface_addr_t iface = {.pid = 0};

    ck_assert_int_eq(muct_xgmi_iface_addr_unpack(ct_addr_iface(addr), &iface), UCS_OK);
    return iface;
}

static void am_count_call(uct_completion_t *comp)
{
    ++ucs_container_of(comp, am_comp_t, uct)->num_calls;
}

void am_put_all(const ct_mem_t *local, uint64_t remote, uct_rkey_t rkey,
                am_comp_t *comp)
{
    const uct_iov_t iov = {
        .buffer = local->addr, .length = AM_LENGTH, .memh = local->memh, .count = 1};
    ucs_status_t status;

    *comp = (am_comp_t){.uct = {.func = am_count_call, .count = 1, .status = UCS_OK}};
    while ((status = uct_ep_put_zcopy(am_ep, &iov, 1, remote, rkey, &comp->uct)) ==
           UCS_ERR_NO_RESOURCE) { /* the memory is being opened */
        (void)uct_iface_progress(am_side.iface);
    }
    ck_assert_int_eq(status, UCS_INPROGRESS);
}

size_t am_pack_length(void *dest, void *arg)
{
    size_t length = *(size_t *)arg;

    if (length <= MUCT_XGMI_RING_MAX_MESSAGE) {
        mkv_pattern_fill(dest, length, length, 0);
    }
    return length;
}

/* The next progress reports the failure, once; every further call is refused, and safe.
 */
void am_expect_failed(ucs_status_t status)
{
    unsigned num_purged = 0;
    am_request_t request;

    am_progress(&am_side, 10);
    ck_assert_uint_eq(am_side.events.num_ep_errors, 1);
    ck_assert_int_eq(am_side.events.ep_status, status);
    ck_assert_ptr_eq(am_side.events.ep, am_ep);
    ck_assert_int_eq(am_send_one(am_ep, 0), status);
    ck_assert_int_eq(uct_ep_check(am_ep, 0, NULL), UCS_OK);
    ck_assert_int_eq(uct_ep_flush(am_ep, 0, NULL), status);
    am_request_init(&request, am_ep, 0);
    (void)uct_ep_pending_add(am_ep, &request.req, 0);
    uct_ep_pending_purge(am_ep, am_count_purged, &num_purged);
    am_arm(&am_side);
    am_progress(&am_side, 10);
    ck_assert_uint_eq(am_side.events.num_ep_errors, 1);
}

/* Calls that are tried before the user is notified */
void am_try_all(void)
{
    size_t length = 8;
    uct_iov_t iov = {.buffer = &length, .length = sizeof(length), .count = 1};

    ck_assert_int_eq(uct_ep_check(am_ep, 0, NULL), UCS_OK);
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(uct_ep_am_bcopy(am_ep, AM_ID, am_pack_length, &length, 0),
                     UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(uct_ep_am_short_iov(am_ep, AM_ID, &iov, 1),
                     UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(uct_ep_put_short(am_ep, &length, 8, 0, UCT_INVALID_RKEY),
                     UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(uct_ep_fence(am_ep, 0), UCS_OK);
    ck_assert_int_eq(uct_ep_flush(am_ep, 0, NULL), UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(am_side.events.num_ep_errors, 0); /* from progress alone */
}

static bool am_is_reachable(const ct_addr_t *addr, char *why, size_t size)
{
    uct_iface_is_reachable_params_t params = {
        .field_mask = CT_REACH_FIELD_DEVICE_ADDR | CT_REACH_FIELD_IFACE_ADDR |
                      CT_REACH_FIELD_INFO_STRING | CT_REACH_FIELD_INFO_STRING_LENGTH,
        .device_addr = ct_addr_dev(addr),
        .iface_addr = ct_addr_iface(addr),
        .info_string = why,
        .info_string_length = size};

    why[0] = '\0';
    return uct_iface_is_reachable_v2(am_side.iface, &params);
}

void am_expect_reachable(const ct_addr_t *addr)
{
    char why[256];

    ck_assert_msg(am_is_reachable(addr, why, sizeof(why)), "%s", why);
}

void am_expect_unreachable(const ct_addr_t *addr, const char *text)
{
    char why[256];

    ck_assert(!am_is_reachable(addr, why, sizeof(why)));
    ck_assert_msg(strstr(why, text) != NULL, "'%s' has no '%s'", why, text);
}

void am_setup_dir(void)
{
    strcpy(am_dir + strlen(am_dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(am_dir));
    setenv("UCX_MORI_XGMI_SHM_DIR", am_dir, 1);
}

void am_open_side(void)
{
    ck_assert_msg(ct_side_open(&am_side, &am_name) == UCS_OK, "%s", am_side.why);
    am_other.iface = NULL;
    am_ep = NULL;
}
