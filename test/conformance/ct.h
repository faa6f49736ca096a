/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_H
#define CT_H

/**
 * @file
 * A conformance case and its tools: an initiator connected to a target, in the same
 * process or in another one, with memory of some type on each end. Cases select by
 * capability flags and never by the name of a transport.
 */

#include "test/conformance/ct_target.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#define CT_ARRAY_SIZE(_array) (sizeof(_array) / sizeof((_array)[0]))


/** Place of the target, and types of memory of the ends. */
typedef struct ct_variant {
    const char *name;
    int is_other_process;
    ucs_memory_type_t local_type;
    ucs_memory_type_t remote_type;
} ct_variant_t;


/** Conditions of a case that no interface flag expresses. */
enum {
    CT_TRAIT_OTHER_PROCESS = UCS_BIT(0), /**< Kills or stops the target */
    CT_TRAIT_LOCAL = UCS_BIT(1),         /**< A single process is enough */
    CT_TRAIT_RKEY = UCS_BIT(2),          /**< The domain needs keys */
    CT_TRAIT_REG = UCS_BIT(3),           /**< The domain registers memory */
    CT_TRAIT_INVALIDATE = UCS_BIT(4),    /**< Keys can be invalidated */
    CT_TRAIT_CHECKED_KEYS = UCS_BIT(5),  /**< Keys hold a version and bounds */
    CT_TRAIT_DEVICE_MEM = UCS_BIT(6)     /**< The target's memory is on a GPU */
};


typedef struct ct ct_t;

typedef struct ct_case {
    const char *name;
    uint64_t flags;       /**< All of UCT_IFACE_FLAG_* it needs */
    uint64_t v2_flags;    /**< All of CT_V2_* it needs */
    uint64_t event_flags; /**< All of UCT_IFACE_FLAG_EVENT_* it needs */
    unsigned traits;      /**< All of CT_TRAIT_* */
    void (*run)(ct_t *ct);
} ct_case_t;


/** The target's memory, as seen by the initiator. */
typedef struct ct_remote {
    unsigned region;
    uint64_t addr;
    size_t length;
    ucs_memory_type_t type;
    uint8_t key[CT_MAX_DATA];
    uct_rkey_bundle_t rkey; /**< rkey.rkey is UCT_INVALID_RKEY without keys */
} ct_remote_t;


/** A completion that counts its calls. */
typedef struct ct_comp {
    uct_completion_t uct;
    unsigned num_calls;
} ct_comp_t;


typedef enum ct_op {
    CT_PUT_SHORT,
    CT_PUT_BCOPY,
    CT_PUT_ZCOPY,
    CT_GET_SHORT,
    CT_GET_BCOPY,
    CT_GET_ZCOPY,
    CT_PUT_SGL,
    CT_GET_SGL
} ct_op_t;


/** Piece of a transfer, offsets into the two memories. */
typedef struct ct_piece {
    size_t local_offset;
    size_t remote_offset;
    size_t length;
    size_t repeats; /**< In lists: so many more of it, each a stride after the one
                       before */
    size_t stride;
} ct_piece_t;


struct ct {
    const ct_variant_t *variant;
    const ct_target_name_t *name;
    ct_side_t side;
    ct_target_t target; /**< Used if the target is in this process */
    mkv_proc_t peer;    /**< Used if not */
    ct_addr_t peer_addr;
    uct_ep_h ep;       /**< Endpoint to the target; NULL after a case destroyed it */
    int is_checked;    /**< The transport is of the kind that checks its keys */
    int is_hurt;       /**< The peer was killed or the endpoint has failed */
    int is_running;    /**< A case has begun and not ended */
    char skip[256];    /**< Set by a case that finds it cannot run */
    char covered[256]; /**< Set by a case: its result */
    char why[512];
};


/* ---- life of a connection (ct.c) ---- */

/**
 * Open both ends, without an endpoint.
 *
 * @return UCS_OK, UCS_ERR_UNREACHABLE if the interface cannot reach the target,
 *         or another error; `why` has the reason.
 */
ucs_status_t ct_open(ct_t *ct, const ct_target_name_t *name,
                     const ct_variant_t *variant);

/**
 * Fork peers that wait to be used by ct_open(), for a process that goes on to
 * initialise UCX and could not fork any more.
 *
 * @return 0, or -1 with errno set.
 */
int ct_prefork(const ct_target_name_t *name, int count);

/** End the peers that were forked and not used. */
void ct_prefork_cleanup(void);

/** Make both ends as they were after ct_open(), for the next case. */
void ct_reset(ct_t *ct);

/** Connect the endpoint; fails the test on errors. */
void ct_connect(ct_t *ct);

/** Destroy the endpoint and close both ends. */
void ct_close(ct_t *ct);

/** Send a request and wait for the reply; fails the test on an error. */
const ct_msg_t *ct_call(ct_t *ct, const ct_msg_t *req);

/** Request without data. */
const ct_msg_t *ct_cmd(ct_t *ct, ct_cmd_t cmd, uint64_t a0, uint64_t a1, uint64_t a2,
                       uint64_t a3, uint64_t a4);

/** Allocate memory at the target and unpack its key. */
void ct_remote_create(ct_t *ct, size_t length, unsigned pack_flags,
                      ct_remote_t *remote);

/** The two steps of it: the peer's memory, and its key here. */
void ct_remote_alloc(ct_t *ct, size_t length, unsigned pack_flags, ct_remote_t *remote);
void ct_remote_unpack(ct_t *ct, ct_remote_t *remote);

/** Release the key and free the target's memory. */
void ct_remote_destroy(ct_t *ct, ct_remote_t *remote);

/** Wait, failing the test at the limit; @a what is for the message. */
void ct_wait(ct_t *ct, int (*is_done)(void *arg), void *arg, const char *what);

/** Make progress once, and give the peer a chance to run. */
unsigned ct_progress(ct_t *ct);


/* ---- operations (ct_op.c) ---- */

void ct_comp_init(ct_comp_t *comp);

/** Largest and smallest length of an operation. */
size_t ct_op_max(const ct_t *ct, ct_op_t op);
size_t ct_op_min(const ct_t *ct, ct_op_t op);
int ct_op_is_get(ct_op_t op);

/** @return Type of local memory the operation uses in this variant. */
ucs_memory_type_t ct_op_local_type(const ct_t *ct, ct_op_t op);

/**
 * Post once.
 *
 * @return Status of the transport: UCS_OK, UCS_INPROGRESS, UCS_ERR_NO_RESOURCE or
 *         an error. A positive length of a buffered put is UCS_OK.
 */
ucs_status_t ct_post(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                     const ct_remote_t *remote, const ct_piece_t *piece,
                     ct_comp_t *comp);

/** Post several pieces as one operation (vector or list). */
ucs_status_t ct_post_list(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                          const ct_remote_t *remote, const ct_piece_t *pieces,
                          size_t count, ct_comp_t *comp);

/**
 * Post until there are resources and wait for the end.
 *
 * @return UCS_OK, or the error that posting or the completion brought; also an
 *         error if the endpoint failed meanwhile.
 */
ucs_status_t ct_do(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                   const ct_remote_t *remote, const ct_piece_t *pieces, size_t count);

/**
 * Connect, and put a single byte to open whatever opens with the first use, so that
 * later operations wait for nothing but room.
 */
void ct_warm_up(ct_t *ct, ct_op_t op, const ct_mem_t *local, const ct_remote_t *remote);

/** Flush the endpoint and wait; the status as for ct_do(). */
ucs_status_t ct_flush(ct_t *ct, unsigned flags);

/**
 * Move one piece and check every byte of it and around it.
 *
 * Both memories are overwritten.
 */
void ct_check_piece(ct_t *ct, ct_op_t op, const ct_mem_t *local,
                    const ct_remote_t *remote, const ct_piece_t *piece);


/* ---- cases, one table a file, ending with a NULL name ---- */
extern const ct_case_t ct_cases_query[];
extern const ct_case_t ct_cases_rma[];
extern const ct_case_t ct_cases_list[];
extern const ct_case_t ct_cases_am[];
extern const ct_case_t ct_cases_message[];
extern const ct_case_t ct_cases_atomic[];
extern const ct_case_t ct_cases_flow[];
extern const ct_case_t ct_cases_event[];
extern const ct_case_t ct_cases_key[];
extern const ct_case_t ct_cases_limit[];
extern const ct_case_t ct_cases_fault[];
extern const ct_case_t ct_cases_contract[];

#endif
