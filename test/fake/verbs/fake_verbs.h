/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

/**
 * @file
 * Controls of the fake libibverbs, for tests in its process.
 *
 * The library is named libibverbs.so.1 and replaces the real one by the library path.
 * It has devices of its own. Queue pairs of all its devices reach one another, within a
 * process and, when FAKE_VERBS_WIRE names a file, between the processes that name it.
 *
 * A misuse that real devices refuse is refused in the same way. A misuse that would
 * corrupt data silently or wait for ever on a real device aborts with a text.
 *
 * Environment, read at the first call of any verb:
 *
 *   FAKE_VERBS_DEVICES   "name:profile[@pci address],...", default
 *                        "fake0:ionic,fake1:ionic". Profiles: ionic, pollara, bnxt,
 *                        thor2, mlx5, mlx5_ib, rxe, siw, tiny.
 *   FAKE_VERBS_SYSFS     Folder made to look like /sys/class: ibdev_path of a device
 *                        with a PCI address lies in it, and its "device" link ends in
 *                        the address.
 *   FAKE_VERBS_CAPS      "field=value,..." over every profile: max_qp_wr, max_sge,
 *                        max_inline, max_cqe, max_mr_size, max_msg_sz, max_rd_atom,
 *                        max_res_rd_atom, max_init_rd_atom, max_entries (of the page
 *                        table), atomics, max_qp, max_mr, ifindex (of network
 *                        interfaces, 1), grh (1: ports require a global header),
 *                        limited (partitions of limited members before the full one).
 *   FAKE_VERBS_WIRE      File shared by the processes of one wire; made when missing.
 *   FAKE_VERBS_MODE      "null": every work request completes at once and moves
 *                        nothing; for counting instructions. "late": data of reads
 *                        lands as late as the rules of verbs allow, so that a missing
 *                        fence shows. "wrong-byte": one byte of each write of 4 KiB or
 *                        more is changed. "stray-byte": the first 16 such writes of a
 *                        process also change the byte behind them. "late-write":
 *                        such a write in a process lands with the next one.
 *                        "other-pages": a dma-buf is registered as other pages than
 *                        its own.
 *   FAKE_VERBS_PEERMEM   "n": ibv_reg_mr() refuses GPU memory of libhipcpu, as without
 *                        a peer memory driver; only ibv_reg_dmabuf_mr() takes it.
 *   FAKE_VERBS_FORK      "old": children get registered memory until
 *                        ibv_fork_init(), as on kernels before 5.12.
 *   FAKE_VERBS_FAULTS    Faults armed from the start, separated by commas.
 *                        "call:NAME:N:ERRNO": the N-th call of NAME fails.
 *                        "wr:N:STATUS": the N-th work request of the process ends with
 *                        this number of enum ibv_wc_status.
 *
 * All functions may be called from any thread at any time.
 */

/** Any queue pair of this process. */
#define FAKE_VERBS_ANY_QP 0u

/** Work of a queue pair that @ref fake_verbs_hold can hold back */
enum {
    FAKE_VERBS_HOLD_SEND = 1 << 0, /**< Work requests stay in the send queue */
    FAKE_VERBS_HOLD_CQE = 1 << 1   /**< Work requests run, completions are held */
};

/** Counters of a queue pair, or of all of a device's together, since creation */
typedef struct {
    uint64_t doorbells;  /**< Calls of ibv_post_send() that took a work request */
    uint64_t sends;      /**< Work requests posted to send queues */
    uint64_t signalled;  /**< Sends with IBV_SEND_SIGNALED */
    uint64_t inlined;    /**< Sends with IBV_SEND_INLINE */
    uint64_t fenced;     /**< Sends with IBV_SEND_FENCE */
    uint64_t recvs;      /**< Work requests posted to receive queues */
    uint64_t bytes_out;  /**< Bytes sent and written */
    uint64_t bytes_in;   /**< Bytes read from peers */
    uint64_t rnr;        /**< Sends that met an empty receive queue */
    uint64_t max_in_use; /**< Most send queue entries in use at once */
} fake_verbs_stats_t;

/** Objects of this process that exist now. */
typedef struct {
    unsigned contexts;
    unsigned pds;
    unsigned mrs;
    unsigned dmabuf_mrs; /**< Regions registered by dma-buf */
    uint64_t mr_bytes;   /**< Bytes registered */
    uint64_t sq_entries; /**< Entries of all send queues */
    uint64_t cq_entries; /**< Entries of all completion queues */
    uint64_t polls;      /**< Calls of ibv_poll_cq(), ever */
    uint64_t commands;   /**< Calls that make, change or destroy something, ever */
    unsigned channels;
    unsigned cqs;
    unsigned qps;
    unsigned srqs;
    unsigned ahs;
    unsigned tds;     /**< Thread domains */
    unsigned td_qps;  /**< Queue pairs in a thread domain */
    uint32_t vectors; /**< A bit for each interrupt that a completion queue ever had */
} fake_verbs_objects_t;

/**
 * Let a verb fail.
 *
 * @param [in] name   "ibv_open_device", "ibv_post_send", ...: any function that can
 *                    fail.
 * @param [in] nth    Which call from now on is the first to fail; 1 is the next.
 * @param [in] count  How many calls in a row fail.
 * @param [in] err    errno value.
 */
void fake_verbs_fail_call(const char *name, unsigned nth, unsigned count, int err);

/** Number of armed faults that no call has met yet */
unsigned fake_verbs_faults_unmet(void);

/**
 * Let a work request end with an error status; nothing of it reaches the peer, and the
 * queue pair goes to the error state.
 *
 * @param [in] qp_num  Queue pair, or FAKE_VERBS_ANY_QP for any but those of datagrams.
 * @param [in] nth     Which work request to reach the head of the queue from now on.
 * @param [in] status  Not IBV_WC_SUCCESS.
 */
void fake_verbs_fail_wr(uint32_t qp_num, unsigned nth, enum ibv_wc_status status);

/** Hold back work requests or completions of a queue pair, or of all, until released.
 */
void fake_verbs_hold(uint32_t qp_num, unsigned what);

/**
 * Let held work go on, in order, and keep holding the rest.
 *
 * @param [in] count  How many work requests may go on.
 * @return How many did.
 */
unsigned fake_verbs_release(uint32_t qp_num, unsigned what, unsigned count);

/** Hold nothing back any more. */
void fake_verbs_unhold(uint32_t qp_num);

/** Lose every packet to and from the queue pair, as a switch would, or stop losing.
 *  Datagrams are never affected. */
void fake_verbs_lose(uint32_t qp_num, int lose);

/** Lose every packet to and from a device, for all processes of the wire. */
void fake_verbs_lose_device(const char *device, int lose);

/** Bytes a device has sent, and read from peers, for all processes of the wire. */
void fake_verbs_wire_bytes(const char *device, uint64_t *out, uint64_t *in);

/** Put a queue pair in the error state, as a device does on a fault of its own:
 *  IBV_EVENT_QP_FATAL and flushed completions. */
void fake_verbs_qp_fatal(uint32_t qp_num);

/** Break the completion queue of a queue pair's sends, as a device does on a fault of
 *  its own: IBV_EVENT_CQ_ERR. No further completion is delivered to it until it is
 *  destroyed; the completions that it holds stay. */
void fake_verbs_cq_fatal(uint32_t qp_num);

/** Break the completion queues of all queue pairs of a device in this process. */
void fake_verbs_device_cqs_fatal(const char *device);

/**
 * Lose the acknowledgements of a queue pair's work requests: they are executed, and
 * their sender gets no completion.
 */
void fake_verbs_lose_acks(uint32_t qp_num, int lose);

/**
 * Lose the acknowledgements of a queue pair's next work requests, and the timer with
 * them: they are executed and neither end nor fail, as on soft-RoCE when the last
 * acknowledgement of a retransmission is lost (Linux, rxe_comp.c, COMPST_ERROR_RETRY).
 *
 * @param [in] mode  1: until a later work request is acknowledged; 2: until the queue
 *                   pair is in error.
 */
void fake_verbs_lose_timer(uint32_t qp_num, int mode);

/** Take the link of a device down (IBV_EVENT_PORT_ERR) or up (IBV_EVENT_PORT_ACTIVE).
 */
void fake_verbs_link(const char *device, int up);

/** Remove a device: IBV_EVENT_DEVICE_FATAL; verbs give EIO and no completion comes. */
void fake_verbs_remove(const char *device);

/** Swap two entries of a device's GID table in this process, as when addresses are
 *  removed and added again; no event is raised. */
void fake_verbs_swap_gids(const char *device, unsigned index1, unsigned index2);

/** Set a device's ECE options in this process; 0: none. Two queue pairs that use
 *  different options abort when they move data. */
void fake_verbs_set_ece(const char *device, uint32_t options);

/** ECE options that a queue pair uses since it is ready to receive; 0: none. */
uint32_t fake_verbs_qp_ece(uint32_t qp_num);

/** Raise an asynchronous event of the device's port. */
void fake_verbs_async(const char *device, enum ibv_event_type event);

/** Stop the clock; @ref fake_verbs_advance alone moves it from now on. */
void fake_verbs_stop_clock(void);

/** Move a stopped clock, and retry or give up waiting work. */
void fake_verbs_advance(uint64_t nsec);

/**
 * Treat a range as memory of a GPU, reached over PCIe. A write to it is acknowledged,
 * and becomes visible after a later read from memory of the same GPU on the same queue
 * pair, or when the written device sends from memory of that GPU.
 *
 * The range belongs to this process and is written by its queue pairs. Writes to other
 * memory are visible at once.
 */
void fake_verbs_gpu_memory(const void *address, size_t length, unsigned gpu);

/**
 * Do so for all memory of GPUs: @a gpu_of returns the GPU of an address of this
 * process, -1 for none. It is called with the fake's lock held. NULL removes it.
 */
void fake_verbs_gpu_lookup(int (*gpu_of)(const void *address));

/** Counters of one queue pair; zero when there is none of that number. */
void fake_verbs_qp_stats(uint32_t qp_num, fake_verbs_stats_t *stats);

/** Counters of all queue pairs a device ever had in this process. */
void fake_verbs_device_stats(const char *device, fake_verbs_stats_t *stats);

/** State of a queue pair as the device sees it; IBV_QPS_UNKNOWN when there is none. */
enum ibv_qp_state fake_verbs_qp_state(uint32_t qp_num);

/** Timeout and retry count that ibv_modify_qp() has set for a queue pair of this
 * process; returns 0 when there is none of that number. */
int fake_verbs_qp_retries(uint32_t qp_num, uint8_t *timeout, uint8_t *retry_count);

/** Numbers of this process' connected (RC) queue pairs, in order of creation; returns
 *  how many exist. */
unsigned fake_verbs_qp_list(uint32_t *qp_nums, unsigned max);

/** Objects of this process that exist now; all zero when nothing leaks. */
void fake_verbs_objects(fake_verbs_objects_t *objects);

/** Disarm every fault, hold nothing, links up, devices back, clock running. */
void fake_verbs_reset(void);

/**
 * Return to the state before the first call of verbs: the next call reads the
 * environment again. The program aborts if objects of it exist.
 */
void fake_verbs_restart(void);

#endif
