/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_KEY_H
#define MUCT_RDMA_KEY_H

/**
 * @file
 * Remote key of one memory region: packing and unpacking.
 *
 * A region larger than the device registers at once has several keys; key i is for the
 * bytes from base + i * chunk on. Packed, little endian:
 *
 *   0 version | 1 flags | 2 num_rkeys | 3 log2(chunk) | 4 num_slots | 5 gpu
 *   6 zero (2) | 8 incarnation (8) | 16 base (8) | 24 length (8)
 *   32 address of the GPU's flush page (8) | 40 its rkey (4)
 *   44 check sum of the above (4)
 *   48 slots (4 each): rkeys, then zeros | check sum of the slots (4)
 *
 * UCX does not pass the length of the bytes, so the first sum is checked before
 * num_slots is used. Both sums detect keys that were cut or changed on the way, but not
 * forged ones.
 *
 * The key of GPU memory names the GPU, and a page of that GPU which stays registered as
 * long as its owner lives. A writer of the memory reads from the page to make sure that
 * the writes have arrived (rdma_gpu_page.h).
 *
 * The incarnation is a number the owner drew when it opened the device. It separates a
 * key of an earlier process at the same address from a key of its successor.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUCT_RDMA_KEY_VERSION 3

/** Most keys of one region: UCP allows 255 bytes in all */
#define MUCT_RDMA_KEY_MAX_RKEYS 32

/** Chunk of a region with one key: as large as any region */
#define MUCT_RDMA_KEY_ONE_CHUNK 63

/** Limit of the GPU numbers of an owner: all numbers are below this */
#define MUCT_RDMA_KEY_NUM_GPUS 64

/** Bytes of a packed key with room for @a _num_slots keys */
#define MUCT_RDMA_KEY_PACKED_SIZE(_num_slots) (52 + 4 * (size_t)(_num_slots))

enum {
    MUCT_RDMA_KEY_FLAG_GPU = 1 << 0, /**< A GPU's memory; gpu and the page are set */
    MUCT_RDMA_KEY_FLAG_NONE = 1 << 1 /**< The owner's device did not register it */
};

typedef struct muct_rdma_key {
    uint64_t incarnation;
    uint64_t base;       /**< First byte, owner's address */
    uint64_t length;     /**< Bytes */
    uint8_t flags;       /**< MUCT_RDMA_KEY_FLAG_* */
    uint8_t chunk_shift; /**< log2 of the bytes a key is for */
    uint8_t gpu;         /**< Number of the GPU; 0 for host memory */
    uint8_t is_single;   /**< Has one rkey; set by @ref muct_rdma_key_unpack */
    uint32_t page_rkey;
    uint64_t page_address; /**< Address of the GPU's flush page; 0 for host memory */
    uint32_t rkeys[MUCT_RDMA_KEY_MAX_RKEYS];
    uint8_t num_rkeys; /**< At least 1 */
} muct_rdma_key_t;

/** Reasons to refuse a key; @ref muct_rdma_key_explain has their text. */
typedef enum {
    MUCT_RDMA_KEY_OK,
    MUCT_RDMA_KEY_SHORT,         /**< Fewer bytes than a key has */
    MUCT_RDMA_KEY_OTHER_VERSION, /**< Packed by another version */
    MUCT_RDMA_KEY_SUM,           /**< Cut or changed on the way */
    MUCT_RDMA_KEY_COUNT,         /**< Number of keys and length do not fit together */
    MUCT_RDMA_KEY_RANGE,         /**< The region wraps around the address space */
    MUCT_RDMA_KEY_NO_GPU,        /**< There is no GPU of that number */
    MUCT_RDMA_KEY_FLAGS,         /**< Flags or fields that this version does not have */
    MUCT_RDMA_KEY_PAGE           /**< A GPU without its page, or a page without a GPU */
} muct_rdma_key_result_t;

/** Pack into MUCT_RDMA_KEY_PACKED_SIZE(num_slots) bytes; at least key->num_rkeys slots.
 */
void muct_rdma_key_pack(const muct_rdma_key_t *key, unsigned num_slots, void *buffer);

/**
 * Unpack bytes of another process; nothing in them is trusted.
 *
 * @param [in]  buffer  Bytes.
 * @param [in] length   Upper bound of the length; SIZE_MAX when UCX gives none: then
 *                      the header alone decides.
 * @param [out] key     Filled only on MUCT_RDMA_KEY_OK.
 */
muct_rdma_key_result_t muct_rdma_key_unpack(const void *buffer, size_t length,
                                            muct_rdma_key_t *key);

/** Write the reason, and the values of the refused key, as text. @return @a text. */
const char *muct_rdma_key_explain(muct_rdma_key_result_t result, const void *buffer,
                                  char *text, size_t size);

/** Whether [address, address + length) is inside the key's region. */
static inline bool muct_rdma_key_covers(const muct_rdma_key_t *key, uint64_t address,
                                        size_t length)
{
    return (address >= key->base) && (length <= key->length) &&
           (address - key->base <= key->length - length);
}

/** Number of the chunk that holds an address of the region. */
static inline unsigned muct_rdma_key_chunk(const muct_rdma_key_t *key, uint64_t address)
{
    return (unsigned)((address - key->base) >> key->chunk_shift);
}

/** Bytes from an address of the region to the end of its chunk. */
static inline uint64_t muct_rdma_key_chunk_left(const muct_rdma_key_t *key,
                                                uint64_t address)
{
    uint64_t chunk = 1ull << key->chunk_shift;

    return chunk - ((address - key->base) & (chunk - 1));
}

#endif
