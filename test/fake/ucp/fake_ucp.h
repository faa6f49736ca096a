/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef FAKE_UCP_H
#define FAKE_UCP_H

/**
 * @file
 * UCP in one process: workers that send messages and move bytes to each other, whose
 * completions a test can hold, reorder and fail.
 *
 * It behaves like UCP: a put is visible only when it completes, a flush completes after
 * all earlier operations of its endpoint, messages arrive when the receiver progresses.
 * Misuse aborts with a text: bytes outside a registration, a closed endpoint, a list
 * that changes before it completes, a request freed twice, memory unmapped under an
 * operation, a worker destroyed with endpoints, or with a close or its own flush under
 * way (UCX asserts that as well), an endpoint closed below a callback of its own
 * operation (UCX may be failing it there, and uses it afterwards:
 * ucp_ep_discard_lanes()).
 *
 * Threads. Any that UCX allows: of one worker one at a time
 * (UCS_THREAD_MODE_SERIALIZED), of several at once.
 */

#include <ucp/api/ucp.h>

/** Kinds of operations, to be or-ed. */
enum {
    FAKE_UCP_PUT = 1 << 0,
    FAKE_UCP_GET = 1 << 1,
    FAKE_UCP_LIST = 1 << 2, /**< Put of a scatter-gather list */
    FAKE_UCP_FLUSH = 1 << 3,
    FAKE_UCP_AM = 1 << 4,
    FAKE_UCP_CLOSE = 1 << 5,
    FAKE_UCP_ALL = (1 << 6) - 1,
    FAKE_UCP_SETTLE = 1 << 6, /**< Flush of a worker; one that is held never ends */
    /** Making of an endpoint. One that is held fails and, as in UCX 1.22 and 1.23,
     *  leaves its lanes: flushes of the worker never end, nor may that be destroyed. */
    FAKE_UCP_MAKE = 1 << 7
};

/** Reset all state and faults. No object may be open. */
void fake_ucp_reset(void);

/** Reset all state and leave open objects as they are: for a test that has already
 * failed, and for a worker that libmorikv leaves to UCX. */
void fake_ucp_abandon(void);

/** Complete operations of these kinds at once, inside the call. */
void fake_ucp_set_inline(unsigned kinds);

/** Keep operations of these kinds until released; 0: keep none. */
void fake_ucp_hold(unsigned kinds);

/**
 * A device copies held operations meanwhile: those of a broken endpoint, too, end when
 * they are released. Closing such an endpoint earlier ends the test: UCX 1.22 and 1.23
 * do not progress the transport any more then, and the operations never end.
 */
void fake_ucp_set_copying(int is_copying);

/** Keep all operations to this worker; NULL: none. */
void fake_ucp_hold_peer(ucp_worker_h worker);

/** Complete held and waiting operations in an order that depends on the seed; 0: FIFO.
 */
void fake_ucp_shuffle(unsigned seed);

/** Fail one operation of this kind with this status, after @a skip others. */
void fake_ucp_fail(unsigned kind, unsigned skip, ucs_status_t status);

/**
 * The n-th (from 1) message that completes from now on never arrives, or arrives twice;
 * 0: none. UCX never does so: tests use it for faults worse than those of UCX.
 */
void fake_ucp_lose_message(unsigned n);
void fake_ucp_double_message(unsigned n);

/** Each message arrives so many times more; 0: the default. */
void fake_ucp_repeat_messages(unsigned times);

/** Fail the n-th (from 1) ucp_mem_map() from now on; 0: none. */
void fake_ucp_fail_map(unsigned n);

/** Fail the n-th (from 1) ucp_mem_unmap() from now on: a device may still reach the
 * memory. 0: none. */
void fake_ucp_fail_unmap(unsigned n);

/** Size of packed keys, filled with zeros after their own bytes; 0: the size that they
 * need, the default. */
void fake_ucp_set_key_length(size_t length);

/** Lists: 1 taken (default), 0 refused with UCS_ERR_UNSUPPORTED in the call. */
void fake_ucp_set_lists(int are_taken);

/** Minor version the library reports, default 23. */
void fake_ucp_set_version(unsigned minor);

/** Transport that ucp_ep_query() reports, default "mori_xgmi". */
void fake_ucp_set_transport(const char *name);

/** ... and a second lane behind it, which carries nothing; NULL: none, the default. */
void fake_ucp_add_transport(const char *name);

/** Keys of memory registered at this address have no lane of their own, as if a GPU
 * runtime does not open it. A put is a rendezvous. A list ends the endpoint in UCX 1.22
 * and 1.23 ("cannot find remote protocol"), and ends the test here. NULL: none. */
void fake_ucp_set_loop(const char *name);

/**
 * Keys of memory registered at this address have no lane of their own, as if the GPU
 * runtime did not open it. A put is a rendezvous then. A list, which ends the endpoint
 * in UCX 1.22 and 1.23 ("cannot find remote protocol"), ends the test. NULL: none.
 */
void fake_ucp_close_way(const void *base);

/** Path that ucp_request_query() reports for puts and gets; NULL: "zero-copy
 * TRANSPORT/fake0". */
void fake_ucp_set_path(const char *words);

/** Break all connections between workers, not those of a worker to itself: operations
 *  and endpoints fail. */
void fake_ucp_break(ucs_status_t status);

/** Messages wait in the receiver's queue, as if the process were stopped. */
void fake_ucp_stop_worker(ucp_worker_h worker, int is_stopped);

/** The progress of this worker does not return, as if UCX moved much; NULL: it does. */
void fake_ucp_block(ucp_worker_h worker);

/** Wait until a thread is inside. */
void fake_ucp_wait_blocked(void);

/** The worker that the n-th (from 0) ucp_worker_create() made. */
ucp_worker_h fake_ucp_worker(unsigned n);

/** Operations of these kinds made, waiting or held, registrations that exist, and keys
 * that were unpacked and not destroyed. */
unsigned fake_ucp_num_calls(unsigned kinds);
unsigned fake_ucp_num_waiting(unsigned kinds);
unsigned fake_ucp_num_memh(void);
unsigned fake_ucp_num_rkeys(void);

/** Calls of ucp_worker_progress(). */
unsigned fake_ucp_num_progress(void);

/** Descriptor that ucp_worker_get_efd() returns, owned by the caller; -1, as after a
 * reset: none. The fake never makes it readable. */
void fake_ucp_set_efd(int fd);

/** Calls of ucp_worker_arm(). */
unsigned fake_ucp_num_arms(void);

/** Pieces of all lists, and of the longest one. */
unsigned fake_ucp_num_pieces(void);

#endif
