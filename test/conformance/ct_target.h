/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_TARGET_H
#define CT_TARGET_H

/**
 * @file
 * The passive end of a test connection: it owns the memory that is read and written,
 * receives active messages, and executes requests. The same code serves a request
 * inside the test's process and in a forked peer.
 */

#include "test/support/ct_side.h"

#define CT_MAX_REGIONS 64
#define CT_MAX_DATA 2048 /* addresses and keys are far smaller */
#define CT_MAX_KEPT 10000
#define CT_AM_ID 5         /* header is the seed of the payload's pattern */
#define CT_AM_ID_EMPTY 6   /* counted only */
#define CT_AM_ID_BACK 7    /* from target to initiator */
#define CT_AM_ID_FILL 8    /* thrown away */
#define CT_AM_ID_ROW 9     /* ct_row_head_t, either way: of a row, in order */
#define CT_AM_ID_EXPECT 10 /* ct_expected_t: the value expected on arrival */
#define CT_MAX_ROWS 4


typedef enum ct_cmd {
    CT_CMD_INFO,        /**< -> data: device address, interface address */
    CT_CMD_CREATE_EP,   /**< -> data: endpoint address */
    CT_CMD_CONNECT,     /**< data: the three addresses of the initiator */
    CT_CMD_ALLOC,       /**< length, type, pack flags -> region, address; data: key */
    CT_CMD_FREE,        /**< region */
    CT_CMD_FREE_MEM,    /**< region: the memory goes, the registration stays */
    CT_CMD_INVALIDATE,  /**< region -> callbacks that came */
    CT_CMD_FILL,        /**< region, offset, length, seed, pattern offset */
    CT_CMD_CHECK,       /**< same -> bytes that are as expected */
    CT_CMD_HASH,        /**< region, offset, length -> hash of the bytes */
    CT_CMD_READ,        /**< region, offset, length -> data */
    CT_CMD_WRITE,       /**< region, offset; data */
    CT_CMD_AM_STATS,    /**< -> messages, payload bytes, wrong ones, kept, empty */
    CT_CMD_AM_KEEP,     /**< 1: keep descriptors, 0: release the kept ones */
    CT_CMD_AM_SEND,     /**< number: empty messages to the initiator */
    CT_CMD_AM_ROWS,     /**< -> messages of each row; the last: wrong ones, of all */
    CT_CMD_AM_FLOOD,    /**< number: send row 0 as far as there is room, and the rest
                           between other requests -> number sent now */
    CT_CMD_AM_EXPECTED, /**< -> notifications that arrived, and those that arrived too
                         * early
                         */
    CT_CMD_HOLD,        /**< no progress until the next request */
    CT_CMD_CLOSE,       /**< Endpoint and interface go, memory and domain stay */
    CT_CMD_RESET,       /**< Everything as at the start */
    CT_CMD_EXIT
} ct_cmd_t;


typedef struct ct_msg {
    ct_cmd_t cmd;
    ucs_status_t status; /**< Of a reply */
    uint64_t a[5];
    size_t data_length;
    char text[256]; /**< Why a reply's status is an error */
    uint8_t data[CT_MAX_DATA];
} ct_msg_t;


/** A message of a row begins with it; its length is the number's. */
typedef struct ct_row_head {
    uint64_t row;
    uint64_t number;
} ct_row_head_t;


/** Messages that came: those of each row in order, each once. */
typedef struct ct_rows {
    uint64_t count[CT_MAX_ROWS];
    uint64_t num_bad;
} ct_rows_t;


/** Message that announces bytes. */
typedef struct ct_expected {
    uint64_t region;
    uint64_t length;
    uint64_t seed;
} ct_expected_t;


typedef struct ct_target {
    ct_side_t *side;
    uct_ep_h ep; /**< To the initiator, once created or connected */
    ct_mem_t regions[CT_MAX_REGIONS];
    int is_held;
    int is_keeping;
    uint64_t num_am;
    uint64_t am_bytes;
    uint64_t num_bad_am;
    uint64_t num_empty_am;
    uint64_t num_kept;
    uint64_t num_notified;
    uint64_t num_early;
    ct_rows_t rows;
    uint64_t num_sent; /**< Endpoint of the row to the initiator */
    uint64_t num_to_send;
    struct {
        void *desc;
        size_t length;
    } kept[CT_MAX_KEPT];
} ct_target_t;


_Static_assert(sizeof(ct_addr_t) <= CT_MAX_DATA, "a message's data may be an address");

/** Take a message of a row. */
void ct_rows_take(ct_rows_t *rows, const void *data, size_t length);

/** Try once to send a message. @return UCS_OK, or the error. */
ucs_status_t ct_row_send(uct_ep_h ep, uint64_t row, uint64_t number);


/** Install the message handlers. */
ucs_status_t ct_target_init(ct_target_t *target, ct_side_t *side);

void ct_target_cleanup(ct_target_t *target);

/** Do one request and fill the reply. */
void ct_target_serve(ct_target_t *target, const ct_msg_t *req, ct_msg_t *rep);

/** Destroy the objects made by requests; handlers stay. */
void ct_target_reset(ct_target_t *target);

/**
 * Main function of a forked peer; @a arg is a ct_target_name_t. Begins when a
 * first message, of any content, has come.
 */
int ct_target_main(int fd, void *arg);

#endif
