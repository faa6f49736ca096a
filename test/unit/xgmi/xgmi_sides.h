/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef XGMI_SIDES_H
#define XGMI_SIDES_H

/**
 * @file
 * Two interfaces of one process, and the transfers between them: for tests of messages
 * that control the progress of each. Needs check.h; every error ends the case.
 */

#include "test/support/ct_side.h"
#include "xgmi/message/xgmi_ring.h"
#include "xgmi/peer/xgmi_addr.h"

/** Id of the messages that are counted */
#define AM_ID 3

/** Length of memory, in bytes */
#define AM_LENGTH ((size_t)1 << 16)

/** More than any ring takes */
#define AM_MANY 100000

/** Message that may have to wait. */
typedef struct request {
    uct_pending_req_t req;
    uct_ep_h ep;
    uint64_t number;
    unsigned num_calls;
    ucs_status_t status; /* of the last call */
} am_request_t;

/** How often an operation was over. */
typedef struct comp {
    uct_completion_t uct;
    unsigned num_calls;
} am_comp_t;

/** Folder of shared memory */
extern char am_dir[];
extern const ct_target_name_t am_name;
extern ct_side_t am_side, am_other;

/** Endpoint of the first side, or NULL */
extern uct_ep_h am_ep;

/** Messages to the first side, to the other one; in order */
extern uint64_t am_num_come[2];


/** A message is the next one of its receiver's count. */
ucs_status_t am_on_message(void *arg, void *data, size_t length, unsigned flags);

/** Address of an interface. */
void am_get_addr(const ct_side_t *of, ct_addr_t *addr);

/** Endpoint of the first side to an address. */
uct_ep_h am_connect_to(const ct_addr_t *addr);

/** Close everything that is open, and remove the folder; a fixture. */
void am_teardown(void);

/** Send a message with a number. */
ucs_status_t am_send_one(uct_ep_h to, uint64_t number);

/** Messages from @a number on, until there is no room; the next number. */
uint64_t am_fill(uct_ep_h to, uint64_t number);

/** A request that sends one message of a number. */
void am_request_init(am_request_t *request, uct_ep_h to, uint64_t number);

/** Counts requests that are purged. */
void am_count_purged(uct_pending_req_t *req, void *arg);

/** Call progress some times. */
void am_progress(const ct_side_t *of, unsigned times);

/** Whether a sleeping thread is woken. */
bool am_is_readable(const ct_side_t *of);

/** Arm until it is not busy any more. */
void am_arm(const ct_side_t *of);

/** Arm. @return Whether a thread would sleep then; the look at all peers each second,
 * which wakes it as well, does not count. */
bool am_sleeps(const ct_side_t *of);

/** Address of the mori_xgmi interface. */
muct_xgmi_iface_addr_t am_iface_of(const ct_addr_t *addr);

/** Put all of @a local. */
void am_put_all(const ct_mem_t *local, uint64_t remote, uct_rkey_t rkey,
                am_comp_t *comp);

/** Packs the requested number of bytes. */
size_t am_pack_length(void *dest, void *arg);

/** Check that the endpoint fails with a status, reports it once, and carries nothing
 * more. */
void am_expect_failed(ucs_status_t status);

/** Every call of an endpoint that failed. */
void am_try_all(void);

/** UCX may reach an address. */
void am_expect_reachable(const ct_addr_t *addr);

/** Expect that UCX cannot reach an address, for the reason @a text. */
void am_expect_unreachable(const ct_addr_t *addr, const char *text);

/** A folder of its own for shared memory; a fixture. */
void am_setup_dir(void);

/** The first side alone, with no endpoint. */
void am_open_side(void);

#endif
