/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/conformance/ct.h"

#include "test/support/mkv_hip.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>


#define CT_MAX_PREFORKED 64

/* Peers that wait; taken in order, written by main() and ct_open() only. */
static struct {
    mkv_proc_t procs[CT_MAX_PREFORKED];
    int count;
    int next;
} ct_preforked;


static ct_target_name_t ct_name_of_peer(const ct_target_name_t *name)
{
    ct_target_name_t peer = *name;

    peer.dev_name =
        (name->peer_dev_name != NULL) ? name->peer_dev_name : name->dev_name;
    return peer;
}

int ct_prefork(const ct_target_name_t *name, int count)
{
    static ct_target_name_t peer_name;

    peer_name = ct_name_of_peer(name);
    for (; (count > 0) && (ct_preforked.count < CT_MAX_PREFORKED); --count) {
        if (mkv_proc_fork(&ct_preforked.procs[ct_preforked.count], ct_target_main,
                          &peer_name) != 0) {
            return -1;
        }
        ++ct_preforked.count;
    }

    return 0;
}

void ct_prefork_cleanup(void)
{
    while (ct_preforked.next < ct_preforked.count) {
        mkv_proc_cleanup(&ct_preforked.procs[ct_preforked.next++]);
    }
}

static int ct_start_peer(ct_t *ct, ct_target_name_t *name)
{
    ct_msg_t begin = {.cmd = CT_CMD_INFO};

    if (ct_preforked.next < ct_preforked.count) {
        ct->peer = ct_preforked.procs[ct_preforked.next++];
    } else if (mkv_proc_fork(&ct->peer, ct_target_main, name) != 0) {
        return -1;
    }

    return mkv_proc_send(ct->peer.fd, &begin, sizeof(begin));
}

static ucs_status_t ct_open_target(ct_t *ct)
{
    ct_msg_t hello;

    if (!ct->variant->is_other_process) {
        return ct_target_init(&ct->target, &ct->side);
    }

    if (mkv_proc_recv(ct->peer.fd, &hello, sizeof(hello), -1) <= 0) {
        snprintf(ct->why, sizeof(ct->why), "the peer died at its start");
        return UCS_ERR_IO_ERROR;
    }

    if (hello.status != UCS_OK) {
        snprintf(ct->why, sizeof(ct->why), "peer: %.255s", hello.text);
    }
    return hello.status;
}

static ucs_status_t ct_check_reachable(ct_t *ct)
{
    uct_iface_is_reachable_params_t params = {
        .field_mask = CT_REACH_FIELD_INFO_STRING | CT_REACH_FIELD_INFO_STRING_LENGTH,
        .info_string = ct->why,
        .info_string_length = sizeof(ct->why),
    };

    params.device_addr = ct_addr_dev(&ct->peer_addr);
    params.iface_addr = ct_addr_iface(&ct->peer_addr);
    params.field_mask |= (params.device_addr != NULL) ? CT_REACH_FIELD_DEVICE_ADDR : 0;
    params.field_mask |= (params.iface_addr != NULL) ? CT_REACH_FIELD_IFACE_ADDR : 0;
    return uct_iface_is_reachable_v2(ct->side.iface, &params) ? UCS_OK
                                                              : UCS_ERR_UNREACHABLE;
}

ucs_status_t ct_open(ct_t *ct, const ct_target_name_t *name,
                     const ct_variant_t *variant)
{
    ct_target_name_t peer_name = ct_name_of_peer(name);
    ucs_status_t status;

    memset(ct, 0, sizeof(*ct));
    ct->name = name;
    ct->variant = variant;
    ct->peer.pid = -1;
    ct->peer.fd = -1;
    ct->is_checked = strncmp(name->tl_name, "mori_", 5) == 0;

    /* The peer is forked first: UCX must not be initialised before a fork. */
    if (variant->is_other_process && (ct_start_peer(ct, &peer_name) != 0)) {
        snprintf(ct->why, sizeof(ct->why), "fork: %s", strerror(errno));
        return UCS_ERR_NO_MEMORY;
    }

    status = ct_side_open(&ct->side, name);
    if (status != UCS_OK) {
        snprintf(ct->why, sizeof(ct->why), "%.500s", ct->side.why);
        goto err_end_peer;
    }

    status = ct_open_target(ct);
    if (status != UCS_OK) {
        goto err_close_side;
    }

    memcpy(&ct->peer_addr, ct_cmd(ct, CT_CMD_INFO, 0, 0, 0, 0, 0)->data,
           sizeof(ct->peer_addr));
    status = ct_check_reachable(ct);
    if (status != UCS_OK) {
        goto err_close_side;
    }

    return UCS_OK;

err_close_side:
    ct_side_close(&ct->side);
err_end_peer:
    mkv_proc_cleanup(&ct->peer);
    return status;
}

static ucs_status_t ct_connect_to_ep(ct_t *ct)
{
    ct_msg_t req = {.cmd = CT_CMD_CONNECT, .data_length = sizeof(ct_addr_t)};
    const ct_msg_t *rep;
    ucs_status_t status;

    status = ct_ep_create(&ct->side, NULL, &ct->ep);
    if (status != UCS_OK) {
        return status;
    }

    rep = ct_cmd(ct, CT_CMD_CREATE_EP, 0, 0, 0, 0, 0);
    memcpy(&ct->peer_addr, rep->data, sizeof(ct->peer_addr));
    status = ct_addr_get(&ct->side, ct->ep, (ct_addr_t *)req.data);
    if (status != UCS_OK) {
        return status;
    }

    ct_call(ct, &req);
    return uct_ep_connect_to_ep(ct->ep, ct_addr_dev(&ct->peer_addr),
                                ct_addr_ep(&ct->peer_addr));
}

void ct_connect(ct_t *ct)
{
    ucs_status_t status;

    if (ct->side.attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) {
        status = ct_ep_create(&ct->side, &ct->peer_addr, &ct->ep);
    } else {
        status = ct_connect_to_ep(ct);
    }

    MKV_REQUIRE(status == UCS_OK, "connecting: %s", ucs_status_string(status));
}

void ct_reset(ct_t *ct)
{
    if (ct->ep != NULL) {
        uct_ep_destroy(ct->ep);
        ct->ep = NULL;
    }

    ct_cmd(ct, CT_CMD_RESET, 0, 0, 0, 0, 0);
    memset(&ct->side.events, 0, sizeof(ct->side.events));
    ct->skip[0] = '\0';
    ct->covered[0] = '\0';
}

void ct_close(ct_t *ct)
{
    int is_other = ct->variant->is_other_process;
    int error;

    if (ct->ep != NULL) {
        uct_ep_destroy(ct->ep);
    }

    if (!is_other) {
        ct_target_cleanup(&ct->target);
    } else if (!ct->is_hurt) {
        ct_cmd(ct, CT_CMD_EXIT, 0, 0, 0, 0, 0);
    }

    ct_side_close(&ct->side);
    error = mkv_hip_last_error();
    MKV_REQUIRE(error == 0, "the application would find HIP error %d of the transport",
                error);
    if (is_other && !ct->is_hurt) {
        MKV_REQUIRE(mkv_proc_wait(&ct->peer) == 0, "the peer did not end");
        MKV_REQUIRE(mkv_proc_exit_status(&ct->peer) == 0, "the peer ended with %d",
                    mkv_proc_exit_status(&ct->peer));
    }
    mkv_proc_cleanup(&ct->peer);
}

/* The reply of a peer may depend on our progress, for example to connect. */
static void ct_recv_reply(ct_t *ct, ct_msg_t *rep)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ssize_t got;

    do {
        uct_worker_progress(ct->side.worker);
        ucs_async_poll(ct->side.async);
        got = mkv_proc_recv(ct->peer.fd, rep, sizeof(*rep), 1);
        MKV_REQUIRE((got > 0) || ((got < 0) && (errno == ETIMEDOUT)),
                    "the peer died (%s)", (got == 0) ? "end of file" : strerror(errno));
    } while ((got <= 0) && (mkv_test_now_ms() < deadline));

    MKV_REQUIRE(got > 0, "the peer did not answer in time");
}

const ct_msg_t *ct_call(ct_t *ct, const ct_msg_t *req)
{
    static ct_msg_t rep;

    if (ct->variant->is_other_process) {
        MKV_REQUIRE(mkv_proc_send(ct->peer.fd, req, sizeof(*req)) == 0,
                    "the peer is gone: %s", strerror(errno));
        ct_recv_reply(ct, &rep);
    } else {
        ct_target_serve(&ct->target, req, &rep);
    }

    MKV_REQUIRE(rep.status == UCS_OK, "request %d failed at the target: %s", req->cmd,
                rep.text);
    return &rep;
}

const ct_msg_t *ct_cmd(ct_t *ct, ct_cmd_t cmd, uint64_t a0, uint64_t a1, uint64_t a2,
                       uint64_t a3, uint64_t a4)
{
    ct_msg_t req = {.cmd = cmd, .a = {a0, a1, a2, a3, a4}};

    return ct_call(ct, &req);
}

void ct_remote_alloc(ct_t *ct, size_t length, unsigned pack_flags, ct_remote_t *remote)
{
    const ct_msg_t *rep;

    memset(remote, 0, sizeof(*remote));
    rep = ct_cmd(ct, CT_CMD_ALLOC, length, ct->variant->remote_type, pack_flags, 0, 0);
    remote->region = (unsigned)rep->a[0];
    remote->addr = rep->a[1];
    remote->length = length;
    remote->type = ct->variant->remote_type;
    remote->rkey.rkey = UCT_INVALID_RKEY;
    memcpy(remote->key, rep->data, rep->data_length);
}

void ct_remote_unpack(ct_t *ct, ct_remote_t *remote)
{
    ucs_status_t status;

    if (ct->side.md_attr.cap.flags & UCT_MD_FLAG_NEED_RKEY) {
        status = uct_rkey_unpack(ct->side.component, remote->key, &remote->rkey);
        MKV_REQUIRE(status == UCS_OK, "uct_rkey_unpack: %s", ucs_status_string(status));
    }
}

void ct_remote_create(ct_t *ct, size_t length, unsigned pack_flags, ct_remote_t *remote)
{
    ct_remote_alloc(ct, length, pack_flags, remote);
    ct_remote_unpack(ct, remote);
}

void ct_remote_destroy(ct_t *ct, ct_remote_t *remote)
{
    if (remote->rkey.rkey != UCT_INVALID_RKEY) {
        uct_rkey_release(ct->side.component, &remote->rkey);
    }

    if (!ct->is_hurt || !ct->variant->is_other_process) {
        ct_cmd(ct, CT_CMD_FREE, remote->region, 0, 0, 0, 0);
    }
}

void ct_wait(ct_t *ct, int (*is_done)(void *arg), void *arg, const char *what)
{
    MKV_REQUIRE(ct_side_wait(&ct->side, is_done, arg), "waited in vain for %s", what);
}

unsigned ct_progress(ct_t *ct)
{
    return ct_side_progress(&ct->side);
}
