/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/conformance/ct_target.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>


/* ---- messages in rows ---- */

static size_t ct_row_length(uint64_t number)
{
    return sizeof(ct_row_head_t) + ((number * 37) % 1000);
}

void ct_rows_take(ct_rows_t *rows, const void *data, size_t length)
{
    ct_row_head_t head = {.row = CT_MAX_ROWS};
    size_t rest;

    if (length >= sizeof(head)) {
        memcpy(&head, data, sizeof(head));
    }
    if ((head.row >= CT_MAX_ROWS) || (head.number != rows->count[head.row]) ||
        (length != ct_row_length(head.number))) {
        ++rows->num_bad;
        return;
    }

    rest = length - sizeof(head);
    rows->num_bad += mkv_pattern_check((const char *)data + sizeof(head), rest,
                                       head.number, 0) != rest;
    ++rows->count[head.row];
}

static size_t ct_row_pack(void *dest, void *arg)
{
    const ct_row_head_t *head = arg;
    const size_t length = ct_row_length(head->number);

    memcpy(dest, head, sizeof(*head));
    mkv_pattern_fill((char *)dest + sizeof(*head), length - sizeof(*head), head->number,
                     0);
    return length;
}

ucs_status_t ct_row_send(uct_ep_h ep, uint64_t row, uint64_t number)
{
    ct_row_head_t head = {.row = row, .number = number};
    ssize_t sent = uct_ep_am_bcopy(ep, CT_AM_ID_ROW, ct_row_pack, &head, 0);

    return (sent < 0) ? (ucs_status_t)sent : UCS_OK;
}


/* ---- messages to the target ---- */

static ucs_status_t ct_target_on_row(void *arg, void *data, size_t length,
                                     unsigned flags)
{
    ct_target_t *target = arg;

    (void)flags;
    ct_rows_take(&target->rows, data, length);
    return UCS_OK;
}

static ucs_status_t ct_target_on_expected(void *arg, void *data, size_t length,
                                          unsigned flags)
{
    ct_target_t *target = arg;
    ct_expected_t expected;

    (void)flags;
    if (length != sizeof(expected)) {
        ++target->num_bad_am;
        return UCS_OK;
    }

    memcpy(&expected, data, sizeof(expected));
    ++target->num_notified;
    target->num_early +=
        ct_mem_check(&target->regions[expected.region % CT_MAX_REGIONS], 0,
                     expected.length, expected.seed, 0) != expected.length;
    return UCS_OK;
}

static ucs_status_t ct_target_on_am(void *arg, void *data, size_t length,
                                    unsigned flags)
{
    ct_target_t *target = arg;
    uint64_t seed;
    size_t payload;

    ++target->num_am;
    if (length < sizeof(seed)) {
        ++target->num_bad_am;
        return UCS_OK;
    }

    memcpy(&seed, data, sizeof(seed));
    payload = length - sizeof(seed);
    target->am_bytes += payload;
    if (mkv_pattern_check((char *)data + sizeof(seed), payload, seed, 0) != payload) {
        ++target->num_bad_am;
    }

    if (target->is_keeping && (flags & UCT_CB_PARAM_FLAG_DESC) &&
        (target->num_kept < CT_MAX_KEPT)) {
        target->kept[target->num_kept].desc = data;
        target->kept[target->num_kept].length = length;
        ++target->num_kept;
        return UCS_INPROGRESS;
    }

    return UCS_OK;
}

static ucs_status_t ct_target_on_empty_am(void *arg, void *data, size_t length,
                                          unsigned flags)
{
    ct_target_t *target = arg;

    (void)data;
    (void)flags;
    target->num_bad_am += (length != 0);
    ++target->num_empty_am;
    return UCS_OK;
}

static ucs_status_t ct_target_on_fill_am(void *arg, void *data, size_t length,
                                         unsigned flags)
{
    (void)arg;
    (void)data;
    (void)length;
    (void)flags;
    return UCS_OK;
}

ucs_status_t ct_target_init(ct_target_t *target, ct_side_t *side)
{
    static const struct {
        uint8_t id;
        uct_am_callback_t cb;
    } handlers[] = {{CT_AM_ID, ct_target_on_am},
                    {CT_AM_ID_EMPTY, ct_target_on_empty_am},
                    {CT_AM_ID_FILL, ct_target_on_fill_am},
                    {CT_AM_ID_ROW, ct_target_on_row},
                    {CT_AM_ID_EXPECT, ct_target_on_expected}};
    const uint64_t am_flags =
        UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_AM_ZCOPY;
    ucs_status_t status = UCS_OK;
    size_t i;

    memset(target, 0, sizeof(*target));
    target->side = side;
    if (!(side->attr.cap.flags & am_flags)) {
        return UCS_OK;
    }

    for (i = 0; (i < sizeof(handlers) / sizeof(handlers[0])) && (status == UCS_OK);
         ++i) {
        status = uct_iface_set_am_handler(side->iface, handlers[i].id, handlers[i].cb,
                                          target, 0);
    }
    return status;
}

/* Messages that were kept must still hold their bytes when they are returned. */
static void ct_target_release_kept(ct_target_t *target)
{
    uint64_t seed, i;
    size_t payload;
    char *data;

    for (i = 0; i < target->num_kept; ++i) {
        data = target->kept[i].desc;
        memcpy(&seed, data, sizeof(seed));
        payload = target->kept[i].length - sizeof(seed);
        if (mkv_pattern_check(data + sizeof(seed), payload, seed, 0) != payload) {
            ++target->num_bad_am;
        }
        uct_iface_release_desc(data);
    }

    target->num_kept = 0;
    target->is_keeping = 0;
}

void ct_target_reset(ct_target_t *target)
{
    int i;

    ct_target_release_kept(target);
    if (target->ep != NULL) {
        uct_ep_destroy(target->ep);
        target->ep = NULL;
    }

    for (i = 0; i < CT_MAX_REGIONS; ++i) {
        ct_mem_destroy(target->side, &target->regions[i]);
    }

    target->num_am = 0;
    target->am_bytes = 0;
    target->num_bad_am = 0;
    target->num_empty_am = 0;
    target->num_notified = target->num_early = 0;
    target->num_sent = target->num_to_send = 0;
    memset(&target->rows, 0, sizeof(target->rows));
}

void ct_target_cleanup(ct_target_t *target)
{
    ct_target_reset(target);
}

static ucs_status_t ct_target_alloc(ct_target_t *target, const ct_msg_t *req,
                                    ct_msg_t *rep)
{
    ct_side_t *side = target->side;
    ucs_status_t status;
    unsigned i = 0;

    while ((i < CT_MAX_REGIONS) && (target->regions[i].how != CT_MEM_NONE)) {
        ++i;
    }

    if ((i == CT_MAX_REGIONS) || (side->md_attr.rkey_packed_size > CT_MAX_DATA)) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }

    status = ct_mem_create(side, (size_t)req->a[0], (ucs_memory_type_t)req->a[1],
                           &target->regions[i]);
    if (status != UCS_OK) {
        return status;
    }

    rep->a[0] = i;
    rep->a[1] = (uintptr_t)target->regions[i].addr;
    rep->data_length = side->md_attr.rkey_packed_size;
    status = ct_mem_pack(side, &target->regions[i], (unsigned)req->a[2], rep->data);
    if (status != UCS_OK) {
        snprintf(side->why, sizeof(side->why), "uct_md_mkey_pack_v2: %s",
                 ucs_status_string(status));
        ct_mem_destroy(side, &target->regions[i]);
    }
    return status;
}

/* The memory goes back to its runtime while it is still registered and mapped by
 * the initiator; the registration is dropped afterwards. */
static ucs_status_t ct_target_free_mem(ct_target_t *target, ct_mem_t *mem)
{
    (void)target;
    if (mem->type != UCS_MEMORY_TYPE_ROCM) {
        return UCS_ERR_UNSUPPORTED;
    }

    return mkv_hip_free(mem->addr) ? UCS_OK : UCS_ERR_IO_ERROR;
}

typedef struct ct_invalidation {
    uct_completion_t comp;
    uint64_t num_calls;
} ct_invalidation_t;

static void ct_target_on_invalidated(uct_completion_t *comp)
{
    ++ucs_container_of(comp, ct_invalidation_t, comp)->num_calls;
}

static int ct_target_is_invalidated(void *arg)
{
    return ((ct_invalidation_t *)arg)->num_calls > 0;
}

static ucs_status_t ct_target_invalidate(ct_target_t *target, ct_mem_t *mem,
                                         ct_msg_t *rep)
{
    ct_invalidation_t inv = {
        .comp = {.func = ct_target_on_invalidated, .count = 1, .status = UCS_OK}};
    uct_md_mem_dereg_params_t params = {
        .field_mask = CT_DEREG_FIELD_MEMH | CT_DEREG_FIELD_FLAGS | CT_DEREG_FIELD_COMP,
        .flags = CT_DEREG_INVALIDATE,
        .memh = mem->memh,
        .comp = &inv.comp,
    };
    ucs_status_t status;

    status = uct_md_mem_dereg_v2(target->side->md, &params);
    if (status != UCS_OK) {
        return status;
    }

    mem->memh = UCT_MEM_HANDLE_NULL;
    ct_side_wait(target->side, ct_target_is_invalidated, &inv);
    rep->a[0] = inv.num_calls;
    return UCS_OK;
}

static ucs_status_t ct_target_connect(ct_target_t *target, const ct_addr_t *addr)
{
    if (addr->ep_length > 0) {
        return uct_ep_connect_to_ep(target->ep, ct_addr_dev(addr), ct_addr_ep(addr));
    }

    return ct_ep_create(target->side, addr, &target->ep);
}

static size_t ct_target_pack_nothing(void *dest, void *arg)
{
    (void)dest;
    (void)arg;
    return 0;
}

static ucs_status_t ct_target_send_am(ct_target_t *target, uint64_t count)
{
    ssize_t sent = 0;
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    while (count > 0) {
        if (target->side->attr.cap.flags & UCT_IFACE_FLAG_AM_BCOPY) {
            sent = uct_ep_am_bcopy(target->ep, CT_AM_ID_BACK, ct_target_pack_nothing,
                                   NULL, 0);
        } else {
            sent = uct_ep_am_short(target->ep, CT_AM_ID_BACK, 0, NULL, 0);
        }

        if (sent >= 0) {
            --count;
        } else if ((sent != UCS_ERR_NO_RESOURCE) || (mkv_test_now_ms() > deadline)) {
            return (ucs_status_t)sent;
        }

        uct_worker_progress(target->side->worker);
        ucs_async_poll(target->side->async);
    }

    return UCS_OK;
}

/* Send as far as there is room. @return How many were sent. */
static unsigned ct_target_flood(ct_target_t *target)
{
    unsigned count = 0;

    while ((target->num_sent < target->num_to_send) &&
           (ct_row_send(target->ep, 0, target->num_sent) == UCS_OK)) {
        ++target->num_sent;
        ++count;
    }
    return count;
}

static void ct_target_close(ct_target_t *target)
{
    ct_target_release_kept(target);
    if (target->ep != NULL) {
        uct_ep_destroy(target->ep);
        target->ep = NULL;
    }
    uct_iface_close(target->side->iface);
    target->side->iface = NULL;
}

static ucs_status_t ct_target_do(ct_target_t *target, const ct_msg_t *req,
                                 ct_msg_t *rep)
{
    ct_mem_t *mem = &target->regions[req->a[0] % CT_MAX_REGIONS];
    ucs_status_t status;

    switch (req->cmd) {
    case CT_CMD_INFO:
        rep->data_length = sizeof(ct_addr_t);
        return ct_addr_get(target->side, NULL, (ct_addr_t *)rep->data);
    case CT_CMD_CREATE_EP:
        status = ct_ep_create(target->side, NULL, &target->ep);
        rep->data_length = sizeof(ct_addr_t);
        return (status == UCS_OK)
                   ? ct_addr_get(target->side, target->ep, (ct_addr_t *)rep->data)
                   : status;
    case CT_CMD_CONNECT:
        return ct_target_connect(target, (const ct_addr_t *)req->data);
    case CT_CMD_ALLOC:
        return ct_target_alloc(target, req, rep);
    case CT_CMD_FREE:
        ct_mem_destroy(target->side, mem);
        return UCS_OK;
    case CT_CMD_FREE_MEM:
        return ct_target_free_mem(target, mem);
    case CT_CMD_INVALIDATE:
        return ct_target_invalidate(target, mem, rep);
    case CT_CMD_FILL:
        return ct_mem_fill(mem, req->a[1], req->a[2], req->a[3], req->a[4])
                   ? UCS_OK
                   : UCS_ERR_IO_ERROR;
    case CT_CMD_CHECK:
        rep->a[0] = ct_mem_check(mem, req->a[1], req->a[2], req->a[3], req->a[4]);
        return UCS_OK;
    case CT_CMD_HASH:
        rep->a[0] = ct_mem_hash(mem, req->a[1], req->a[2]);
        return UCS_OK;
    case CT_CMD_READ:
        rep->data_length = req->a[2];
        return ct_mem_read(mem, req->a[1], rep->data, req->a[2]) ? UCS_OK
                                                                 : UCS_ERR_IO_ERROR;
    case CT_CMD_WRITE:
        return ct_mem_write(mem, req->a[1], req->data, req->data_length)
                   ? UCS_OK
                   : UCS_ERR_IO_ERROR;
    case CT_CMD_AM_STATS:
        rep->a[0] = target->num_am;
        rep->a[1] = target->am_bytes;
        rep->a[2] = target->num_bad_am;
        rep->a[3] = target->num_kept;
        rep->a[4] = target->num_empty_am;
        return UCS_OK;
    case CT_CMD_AM_KEEP:
        if (req->a[0] == 0) {
            ct_target_release_kept(target);
        }
        target->is_keeping = (req->a[0] != 0);
        return UCS_OK;
    case CT_CMD_AM_SEND:
        return ct_target_send_am(target, req->a[0]);
    case CT_CMD_AM_ROWS:
        memcpy(rep->a, target->rows.count, sizeof(target->rows.count));
        rep->a[CT_MAX_ROWS] = target->rows.num_bad;
        return UCS_OK;
    case CT_CMD_AM_FLOOD:
        target->num_to_send = req->a[0];
        rep->a[0] = ct_target_flood(target);
        return UCS_OK;
    case CT_CMD_AM_EXPECTED:
        rep->a[0] = target->num_notified;
        rep->a[1] = target->num_early;
        return UCS_OK;
    case CT_CMD_HOLD:
        target->is_held = 1;
        return UCS_OK;
    case CT_CMD_CLOSE:
        ct_target_close(target);
        return UCS_OK;
    case CT_CMD_RESET:
        ct_target_reset(target);
        return UCS_OK;
    case CT_CMD_EXIT:
        return UCS_OK;
    default:
        return UCS_ERR_INVALID_PARAM;
    }
}

void ct_target_serve(ct_target_t *target, const ct_msg_t *req, ct_msg_t *rep)
{
    memset(rep, 0, sizeof(*rep));
    rep->cmd = req->cmd;
    target->is_held = 0;
    target->side->why[0] = '\0';
    rep->status = ct_target_do(target, req, rep);
    if (rep->status != UCS_OK) {
        snprintf(rep->text, sizeof(rep->text), "%.200s: %s", target->side->why,
                 ucs_status_string(rep->status));
    }
}

static void ct_target_loop(ct_target_t *target, int fd)
{
    static ct_msg_t req, rep;
    unsigned num_events;
    ssize_t got;

    for (;;) {
        num_events = 0;
        if (!target->is_held) {
            num_events = uct_worker_progress(target->side->worker);
            num_events += ct_target_flood(target);
            ucs_async_poll(target->side->async);
        }

        /* A transport without an event file needs to be progressed, so the wait
         * for a request is short unless nothing may be progressed. */
        got = mkv_proc_recv(fd, &req, sizeof(req),
                            target->is_held    ? -1
                            : (num_events > 0) ? 0
                                               : 1);
        if ((got == 0) || ((got < 0) && target->is_held)) {
            return;
        }

        if (got > 0) {
            ct_target_serve(target, &req, &rep);
            mkv_proc_send(fd, &rep, sizeof(rep));
            if (req.cmd == CT_CMD_EXIT) {
                return;
            }
        }
    }
}

int ct_target_main(int fd, void *arg)
{
    static ct_target_t target;
    static ct_side_t side;
    static ct_msg_t hello;
    ucs_status_t status;

    do { /* it may have been forked long before its use */
        status = (mkv_proc_recv(fd, &hello, sizeof(hello), -1) > 0) ? UCS_OK
                 : (errno == ETIMEDOUT)                             ? UCS_INPROGRESS
                                                                    : UCS_ERR_CANCELED;
    } while (status == UCS_INPROGRESS);
    if (status != UCS_OK) {
        return MKV_TEST_EXIT_OK;
    }

    memset(&hello, 0, sizeof(hello));
    /* The other process uses device 0; here it is the next one, if there is one. */
    if (mkv_hip_num_devices() > 1) {
        mkv_hip_set_device(1);
    }

    status = ct_side_open(&side, arg);
    if (status == UCS_OK) {
        status = ct_target_init(&target, &side);
    }

    hello.status = status;
    snprintf(hello.text, sizeof(hello.text), "%.255s", side.why);
    mkv_proc_send(fd, &hello, sizeof(hello));
    if (status != UCS_OK) {
        return MKV_TEST_EXIT_FAIL;
    }

    ct_target_loop(&target, fd);
    ct_target_cleanup(&target);
    ct_side_close(&side);
    return MKV_TEST_EXIT_OK;
}
