/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_RIG_H
#define RDMA_RIG_H

/**
 * @file
 * mori_rdma as UCX loads it, over two devices of the fake libibverbs, in one process:
 * side A on the first device, side B on the second, endpoints between them. Tests set
 * options (setenv) and the fake's environment before @ref rig_open.
 *
 * A failure here fails the Check test that called it. Every wait makes progress
 * on both sides, ends at the common limit, and never waits for time.
 */

#include "test/support/ct_side.h"
#include "test/fake/verbs/fake_verbs.h"

#include <ucp/api/ucp.h>

struct Suite; /* of Check */

#define RIG_MAX_COMPS 4096
#define RIG_AM_ID 3

/** A connected pair of endpoints. */
typedef struct rig_conn {
    uct_ep_h ep[2];
    unsigned num_qps;
    uint32_t qp_nums[2][16]; /**< Interfaces of each side, in order of creation */
} rig_conn_t;

/** A completion with the number and the order of its calls. */
typedef struct rig_comp {
    uct_completion_t uct;
    unsigned num_calls;
    unsigned order; /**< Number of this call among all of the rig's */
    ucs_status_t status;
} rig_comp_t;

typedef struct rig {
    ct_side_t side[2];
    ct_mem_t mem[2];
    uct_rkey_bundle_t rkey[2]; /**< Key of mem[i], for the other side */
    int hold[2];               /**< This side makes no progress */
    uint64_t num_am[2];        /**< Active messages received */
    uint64_t bad_am[2];        /**< Messages out of order or with wrong bytes */
} rig_t;

/** Open both sides with @a length bytes of registered host memory each. */
void rig_open(rig_t *rig, size_t length);

/** Close everything and expect that no object of the fake is left. */
void rig_close(rig_t *rig);

/** Make and connect an endpoint on each side. */
void rig_connect(rig_t *rig, rig_conn_t *conn);

/** An endpoint of a side, not connected yet; @a conn gets its queue pairs. */
uct_ep_h rig_create_ep(rig_t *rig, unsigned which, rig_conn_t *conn);

/** Connect as UCP does, which passes the length of an endpoint address. */
ucs_status_t rig_connect_to(uct_ep_h ep, const void *dev, const void *addr,
                            size_t length);

/** Number of the queue pair of datagrams that an endpoint's address names now. */
uint32_t rig_datagram_qp(uct_ep_h ep);

/** Destroy both endpoints. */
void rig_disconnect(rig_conn_t *conn);

/** Make progress once on each side. @return Number of events, as UCX counts them. */
unsigned rig_progress(rig_t *rig);

/** Progress until the condition holds. */
void rig_wait(rig_t *rig, int (*is_done)(void *arg), void *arg);

/** Progress until recovery has destroyed this queue pair, by its number. */
void rig_wait_replaced(rig_t *rig, uint32_t qp_num);

/** Progress until @a count completions have been called. */
void rig_wait_comps(rig_t *rig, rig_comp_t *comps, unsigned count);

/** Make progress until side @a at got @a count endpoint errors. */
void rig_wait_errors(rig_t *rig, unsigned at, unsigned count);

/** Flush an endpoint and wait. @return the status. */
ucs_status_t rig_flush(rig_t *rig, uct_ep_h ep);

void rig_comp_init(rig_comp_t *comp);

/** Put @a length bytes from side @a from's memory at @a offset to the same place of the
 * other, in as many calls as the interface needs; waits for room. @return UCS_OK or
 * UCS_INPROGRESS, or the error of the put. */
ucs_status_t rig_put(rig_t *rig, uct_ep_h ep, unsigned from, size_t offset,
                     size_t length, rig_comp_t *comp);

/** Same as a get. */
ucs_status_t rig_get(rig_t *rig, uct_ep_h ep, unsigned from, size_t offset,
                     size_t length, rig_comp_t *comp);

/** Put once without waiting for room. */
ucs_status_t rig_try_put(rig_t *rig, uct_ep_h ep, unsigned from, size_t offset,
                         size_t length, rig_comp_t *comp);

/** Put a list of @a count blocks of @a length, @a stride apart, in as
 *  many calls as the interface needs; waits for room. @a comp is called once for all.
 */
ucs_status_t rig_put_list(rig_t *rig, uct_ep_h ep, unsigned from, unsigned count,
                          size_t length, size_t stride, rig_comp_t *comp);

/** Send one numbered active message of @a length bytes; no waiting. */
ucs_status_t rig_try_am(rig_t *rig, uct_ep_h ep, unsigned from, size_t length);

/** Fill side A's memory with a pattern and clear side B's. */
void rig_fill(rig_t *rig);

/** Expect A's pattern in B's memory in this range. */
void rig_check(rig_t *rig, size_t offset, size_t length);

/** Open a UCP context with two workers, for tests of UCP over the same devices. */
void rig_ucp_open(uint64_t features, ucp_context_h *context, ucp_worker_h workers[2]);

/** Create worker @a from's endpoint to the other worker. @a on_failure may be NULL.
 *  @return Status of ucp_ep_create(). */
ucs_status_t rig_ucp_connect(ucp_worker_h workers[2], unsigned from,
                             ucp_err_handling_mode_t mode,
                             ucp_err_handler_cb_t on_failure, ucp_ep_h *ep);

/** Progress both workers until a request has ended; it is freed. @return its status. */
ucs_status_t rig_ucp_wait(ucp_worker_h workers[2], void *request);

/** Close an endpoint by force (NULL: there is none), the workers and the context. */
void rig_ucp_close(ucp_context_h context, ucp_worker_h workers[2], ucp_ep_h ep);

/**
 * The environment of programs that run UCP over mori_rdma on the first fake device.
 *
 * @param [in] hip  HIP runtime whose GPU memory they register, or NULL.
 */
void rig_ucp_environment(const char *hip);

/**
 * Run a suite and free it, each case in a process of its own even with CK_FORK=no. The
 * cases are forked from a process that has moved bytes and closed everything. Libraries
 * are loaded and translated by valgrind then, and verbs have not read the environment
 * yet.
 *
 * @return The program's exit status.
 */
int rig_run_forked(struct Suite *suite);

#endif
