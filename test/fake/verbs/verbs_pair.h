/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_PAIR_H
#define VERBS_PAIR_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

/**
 * @file
 * Two devices with a connected queue pair each, for tests of verbs themselves.
 *
 * VERBS_TEST_DEVICES names the two ("rxe0,rxe1"); without it the first two are taken.
 * A failure here fails the Check test that called it.
 */

#define VERBS_PAIR_BUFFER 65536
#define VERBS_PAIR_DEPTH 16

typedef struct {
    struct ibv_context *context;
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq;
    struct ibv_cq *recv_cq;
    struct ibv_srq *srq; /**< NULL unless verbs_pair_shared */
    struct ibv_qp *qp;
    struct ibv_qp_cap cap;
    struct ibv_mr *mr;
    uint8_t *buffer; /**< VERBS_PAIR_BUFFER bytes behind mr */
    union ibv_gid gid;
    int gid_index;
} verbs_side_t;

/** How the queue pairs are connected. */
typedef struct {
    uint8_t timeout;
    uint8_t retry_cnt;
    uint8_t rnr_retry;
    unsigned access; /**< Access flags of both queue pairs */
} verbs_path_t;

extern const verbs_path_t verbs_patient; /**< waits for receives for ever */
extern const verbs_path_t verbs_unready; /**< gives up soon without a receive */
extern const verbs_path_t verbs_hasty;   /**< gives up within milliseconds */

/** Queue pairs opened from now on have the receives of their side's shared queue of
 * VERBS_PAIR_DEPTH entries. */
extern bool verbs_pair_shared;

/** Is the first device soft-RoCE, whose deviations from hardware are allowed? */
bool verbs_is_rxe(void);

/** Open both devices, make all objects, and do not connect. */
void verbs_pair_open(verbs_side_t side[2]);

/** Open and connect. */
void verbs_pair_connect(verbs_side_t side[2], const verbs_path_t *path);

/** Destroy everything; every call must succeed. */
void verbs_pair_close(verbs_side_t side[2]);

/** Make a second queue pair on the same objects as @a side's own. */
struct ibv_qp *verbs_qp_create(verbs_side_t *side);

void verbs_qp_to_init(struct ibv_qp *qp, unsigned access);
void verbs_qp_to_rtr(struct ibv_qp *qp, const verbs_side_t *peer,
                     struct ibv_qp *peer_qp, int gid_index);
void verbs_qp_to_rts(struct ibv_qp *qp, const verbs_path_t *path);
int verbs_qp_to(struct ibv_qp *qp, enum ibv_qp_state state);
enum ibv_qp_state verbs_qp_state(struct ibv_qp *qp);

/** Reset both queue pairs and connect them again. */
void verbs_pair_reconnect(verbs_side_t side[2], const verbs_path_t *path);

/** Post one work request on @a qp from or to @a side's buffer at @a offset, with its
 * peer's buffer at @a remote for RDMA. @return Result of ibv_post_send(). */
int verbs_post(struct ibv_qp *qp, const verbs_side_t *side, const verbs_side_t *peer,
               enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t offset,
               uint32_t remote, uint32_t length, unsigned flags);

/** Post a receive into @a side's buffer, to the shared queue where @a qp has one. */
void verbs_recv(struct ibv_qp *qp, const verbs_side_t *side, uint64_t wr_id,
                uint32_t offset, uint32_t length);

/** Wait for the next completion of @a cq. */
struct ibv_wc verbs_wait(struct ibv_cq *cq);

/** Wait for the next completion and expect this of it. */
void verbs_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);

/** Expect that nothing has completed. */
void verbs_expect_none(struct ibv_cq *cq);

/** Wait until everything written before by @a qp has arrived. */
void verbs_drain(struct ibv_qp *qp, verbs_side_t *side, const verbs_side_t *peer);

#endif
