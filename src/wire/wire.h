/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_WIRE_H
#define MKV_WIRE_H

/**
 * @file
 * Messages and blobs: the bytes that processes exchange. Pure.
 *
 * Little endian, versioned, length-checked, with a checksum. A decoder reads nothing
 * outside its input and accepts any bytes; invalid input is a typed error.
 *
 * Versions: another major number is refused (MKV_ERR_VERSION); a larger minor number
 * may add types of blob items, which are skipped unless marked critical, bytes at the
 * end of records, which are ignored (in FIN they are items), statuses, which are
 * errors like all negative ones, and types of messages: those with the bit
 * MKV_MSG_MAY_SKIP are skipped, and the others are a typed error, never a gap.
 */

#include "morikv.h"

#include <stdbool.h>

#define MKV_WIRE_MAJOR 1
#define MKV_WIRE_MINOR 0
#define MKV_MSG_HEADER_SIZE 40u
#define MKV_MSG_MAY_SKIP 0x8000u /**< Flag of a type on the wire: may be skipped */
#define MKV_MAX_RKEY_SIZE 4096u

/**
 * Features that a peer serves. Each library sends a bit mask of its features in its
 * blob; a message that depends on a feature is sent only to a peer that has it. Later
 * versions add bits; unknown bits are ignored.
 */
enum {
    MKV_FEATURE_PUSH = 1 << 0, /**< Serves PULL: moves what the other side requests */
    MKV_FEATURE_PUSH_PARTS = 1 << 1, /**< PULL may contain parts of unequal blocks */
    MKV_FEATURE_STAGE = 1 << 2       /**< Serves STAGE: gives staging and scatters it */
};

#define MKV_FEATURES                                                                   \
    ((uint64_t)(MKV_FEATURE_PUSH | MKV_FEATURE_PUSH_PARTS | MKV_FEATURE_STAGE))

/** Growing output. A failed allocation is kept; check it once, at the end. */
typedef struct mkv_wbuf {
    uint8_t *data; /**< Owned; free() it, or mkv_wbuf_cleanup() */
    size_t length, capacity;
    bool has_failed;
} mkv_wbuf_t;

void mkv_wbuf_init(mkv_wbuf_t *wbuf);
void mkv_wbuf_cleanup(mkv_wbuf_t *wbuf);
void mkv_wbuf_put(mkv_wbuf_t *wbuf, const void *data, size_t length);
void mkv_wbuf_put_u8(mkv_wbuf_t *wbuf, uint8_t value);
void mkv_wbuf_put_u16(mkv_wbuf_t *wbuf, uint16_t value);
void mkv_wbuf_put_u32(mkv_wbuf_t *wbuf, uint32_t value);
void mkv_wbuf_put_u64(mkv_wbuf_t *wbuf, uint64_t value);

/* ---- Messages -------------------------------------------------------------------- */

typedef enum mkv_msg_type {
    MKV_MSG_HELLO = 1, /**< Blob of the sender; answer with HELLO_ACK */
    MKV_MSG_HELLO_ACK, /**< Blob of the sender */
    MKV_MSG_REGIONS,   /**< Blob of the sender, after a commit or drop */
    MKV_MSG_BYE,       /**< The sender closes the connection on purpose */
    MKV_MSG_EXPOSE,    /**< Passive to active: block lists, meta */
    MKV_MSG_BIND,      /**< Active to passive: accepted */
    MKV_MSG_FIN,       /**< Active to passive: all moved (DONE or RELEASE) */
    MKV_MSG_TERM,      /**< Either: failed or aborted, with code and text */
    MKV_MSG_DRAINED,   /**< Either, after TERM: the sender has nothing in flight */
    MKV_MSG_USER,      /**< mkv_send() */
    MKV_MSG_PING,      /**< Answer with PONG */
    MKV_MSG_PONG,
    MKV_MSG_PULL,    /**< Active to passive: put, of a WRITE get, this part of a plan */
    MKV_MSG_PULLED,  /**< Passive to active: that part has arrived, or failed */
    MKV_MSG_NOTE,    /**< End of a one-sided operation, if requested */
    MKV_MSG_REQUEST, /**< Either, before BIND: open this transfer */
    MKV_MSG_CREDIT,  /**< Bytes of USER messages that were polled */
    MKV_MSG_OPEN,    /**< Active to passive: waits for block lists */
    MKV_MSG_ARRIVED, /**< WRITE, active to passive: a reported post has arrived */
    MKV_MSG_STAGE,   /**< Source to destination: a slot of staging is filled, or
                         staging is wanted */
    MKV_MSG_STAGED,  /**< The slot is empty again, or the address of the staging */
    MKV_MSG_LAST,
    MKV_MSG_SKIPPED /**< Decoded: of a later version, may be skipped */
} mkv_msg_type_t;

const char *mkv_msg_string(mkv_msg_type_t type);

/** Whether messages of this type name a transfer and the instances of both sides. */
static inline bool mkv_msg_is_of_xfer(mkv_msg_type_t type)
{
    return ((type >= MKV_MSG_EXPOSE) && (type <= MKV_MSG_DRAINED)) ||
           (type == MKV_MSG_PULL) || (type == MKV_MSG_PULLED) ||
           (type == MKV_MSG_REQUEST) ||
           ((type >= MKV_MSG_OPEN) && (type <= MKV_MSG_STAGE));
}

/** Component of EXPOSE. */
typedef struct mkv_wire_units {
    uint32_t component;
    uint32_t expect; /**< Units the sender waits for */
    uint32_t num;
    const uint8_t *ids; /**< num little-endian words, unaligned, in the input; PULL: num
                             runs, see mkv_wire_run() */
    bool has_sum;       /**< FIN: whole units, in every layer the same ones */
    uint64_t sum;       /**< FIN: sum of their mkv_unit_mix() */
} mkv_wire_units_t;

#define MKV_EXPOSE_TOKENS 0x80u /**< Flag of the mode: ids name tokens */

/** A decoded message; pointers lead into the input. */
typedef struct mkv_msg {
    mkv_msg_type_t type;
    uint64_t from, to; /**< ctx_id of sender and receiver; `to` 0: any context */
    uint32_t seq;

    uint64_t id; /**< USER, NOTE: caller's; mkv_msg_is_of_xfer(): transfer */
    uint32_t epoch;
    uint64_t from_nonce; /**< Sender's instance of the transfer */
    uint64_t to_nonce;   /**< Receiver's, 0 if unknown to the sender */

    uint32_t serial; /**< PULL, PULLED: post of the active side's leg; STAGE: slot */
    uint64_t plan;   /**< PULL: plan of the active side; its first post has the runs */
    uint64_t digest; /**< PULL: digest of the selected pairs of regions */
    mkv_sel_t sel;   /**< PULL */

    uint64_t address; /**< STAGED: address of the staging in the sender's memory */

    uint32_t mode;      /**< EXPOSE: mkv_mode_t, and MKV_EXPOSE_TOKENS; NOTE, REQUEST:
                              mkv_mode_t */
    uint32_t num_units; /**< EXPOSE, FIN, PULL: components */
    mkv_wire_units_t units[MKV_MAX_COMPONENTS]; /**< FIN: not ids */
    uint64_t bytes;                             /**< FIN to CREDIT, STAGE, STAGED */
    int32_t code;                               /**< TERM, PULLED...: mkv_status_t */
    bool is_drained;                            /**< TERM */
    bool is_answer; /**< TERM: answers a TERM before the open; not kept for one */
    char text[200]; /**< TERM, BYE */

    uint32_t value;        /**< USER: type; ARRIVED: the caller's number of the post;
                                STAGE: type of memory */
    const uint8_t *header; /**< USER */
    size_t header_length;
    const uint8_t *data; /**< HELLO...: blob, EXPOSE: meta, FIN to NOTE: data,
                              STAGE: places, STAGED: key */
    size_t length;
} mkv_msg_t;

/** Places of pieces of one length at a constant step; their bytes follow each other in
 * the staging. */
typedef struct mkv_places {
    uint64_t address; /**< Address of the first piece, in the receiver's memory */
    uint64_t stride;  /**< Bytes from piece to piece; wraps around */
    uint32_t length;  /**< Bytes of a piece */
    uint32_t count;
} mkv_places_t;

#define MKV_PLACES_BYTES 24u

/** STAGE with this slot: staging is wanted. */
#define MKV_STAGE_WANTED UINT32_MAX

/** Clear a message, except for its table of components, which the caller sets if it
 * counts any. */
void mkv_msg_clear(mkv_msg_t *msg);

/**
 * Encode header and body. The sequence number and checksum are filled in by
 * mkv_msg_finish() when the order of sending is known.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_LENGTH: 4 GiB or more.
 */
mkv_status_t mkv_msg_encode(const mkv_msg_t *msg, mkv_wbuf_t *wbuf);

/** First sequence number of the side that answers a HELLO with @a seq. */
uint32_t mkv_msg_answer_seq(uint32_t seq);

/** Set the sequence number and the checksum of an encoded message. */
void mkv_msg_finish(void *data, size_t length, uint32_t seq);

/**
 * @return MKV_OK, MKV_ERR_VERSION: another major version, or a type that is not known
 *         here and must not be skipped, MKV_ERR_PROTOCOL: anything else that is not a
 *         well-formed message.
 */
mkv_status_t mkv_msg_decode(const void *data, size_t length, mkv_msg_t *msg);

/**
 * Read sender, receiver and number of a message that cannot be decoded. The values are
 * a guess, as nothing was checked. The rest of @a msg is not set.
 *
 * @return 0: these bytes are no message at all.
 */
int mkv_msg_peek(const void *data, size_t length, mkv_msg_t *msg);

/** Word @a index of little-endian words at any alignment. */
uint32_t mkv_wire_word(const uint8_t *words, size_t index);

/** Run @a index of a PULL, as the active side has it. */
void mkv_wire_run(const uint8_t *runs, size_t index, mkv_run_t *run);

/** Append an entry to the data of a STAGE. */
void mkv_wire_put_places(mkv_wbuf_t *wbuf, const mkv_places_t *places);

/** Entry @a index of a decoded STAGE. */
void mkv_wire_places(const mkv_msg_t *msg, size_t index, mkv_places_t *places);

/* ---- Blobs ----------------------------------------------------------------------- */

/** Namespaces of a process that GPU IPC depends on. For texts only; 0: unknown. */
typedef struct mkv_spaces {
    uint64_t shm;     /**< File system and inode of /dev/shm, hashed */
    uint64_t network; /**< Inode of the network namespace */
    uint64_t pids;    /**< Inode of the pid namespace */
    uint32_t user;    /**< Effective user id + 1 */
} mkv_spaces_t;

/** A process, as far as it can be recognised. */
typedef struct mkv_process {
    uint64_t ctx_id;  /**< Random, per context */
    uint64_t host_id; /**< Boot id. For logs only: cloned VMs can share it */
    uint32_t pid;
    mkv_spaces_t spaces;
} mkv_process_t;

typedef struct mkv_wire_mem {
    uint32_t id; /**< Unique in the context, never reused */
    uint32_t mem_type;
    uint64_t base, length;
    const uint8_t *rkey;  /**< Points into the input */
    uint32_t rkey_length; /**< 0: the key is unknown */
} mkv_wire_mem_t;

/** Whether this build's UCX has the type of memory. Decoding drops regions of others,
 * which a later UCX may have. */
static inline bool mkv_wire_mem_is_known(const mkv_wire_mem_t *mem)
{
    return mem->mem_type < UCS_MEMORY_TYPE_LAST;
}

/** Layout of a region's units; size 0: unknown. */
typedef struct mkv_wire_shape {
    uint64_t outer, inner_bytes;
    uint32_t num_groups, groups[MKV_MAX_GROUPS];
    uint32_t rank, size;
} mkv_wire_shape_t;

typedef struct mkv_wire_region {
    uint32_t id; /**< Unique in the context, never reused */
    uint32_t component;
    int32_t layer;
    uint16_t part, flags;
    uint32_t mem; /**< Index of its mkv_wire_mem_t */
    uint64_t base, length;
    uint64_t unit_bytes, unit_stride, n_units;
    uint32_t tokens_per_unit, dtype;
    mkv_wire_shape_t shape;
} mkv_wire_region_t;

/** A decoded blob, or one to encode. */
typedef struct mkv_blob_info {
    mkv_process_t process;
    char name[64];
    const uint8_t *address; /**< UCP worker address, in the input */
    size_t address_length;
    mkv_topology_t topology;
    uint32_t page_tokens, dtype, total_kv_heads;
    uint64_t model;
    uint64_t claim; /**< Connection: claim on the receiver's memory; 0: none */
    uint64_t epoch;
    uint64_t connection;  /**< Number of the connection, not 0; 0 outside messages */
    uint64_t proof;       /**< Connection: mkv_proof() of the sender */
    uint64_t max_message; /**< Connection: larger ones are refused; 0: unknown */
    uint64_t max_queued;  /**< Connection: see option MAX_QUEUED */
    uint64_t features;    /**< MKV_FEATURE_* */
    bool has_regions;     /**< Blob is FULL, even if it has no regions */
    uint64_t since;       /**< Not 0: regions added after this epoch, with their mems */
    mkv_wire_mem_t *mems;
    uint32_t num_mems;
    mkv_wire_region_t *regions;
    uint32_t num_regions;
} mkv_blob_info_t;

/** @return MKV_OK, MKV_ERR_NOMEM. */
mkv_status_t mkv_blob_encode(const mkv_blob_info_t *info, mkv_wbuf_t *wbuf);

/**
 * @param [out] info  Release with mkv_blob_info_cleanup(); set only on MKV_OK. Every
 *                    region is inside its mem.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_VERSION, MKV_ERR_PROTOCOL.
 */
mkv_status_t mkv_blob_decode(const void *data, size_t length, mkv_blob_info_t *info);

void mkv_blob_info_cleanup(mkv_blob_info_t *info);

/** Whether units end inside `length`, do not overlap, and nothing wraps around. */
bool mkv_region_is_sound(uint64_t base, uint64_t length, uint64_t unit_bytes,
                         uint64_t unit_stride, uint64_t n_units);

#endif
