/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/memory/rdma_key.h"

#include "base/muct_bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MUCT_RDMA_KEY_FIXED 44 /* bytes that the first sum covers */
#define MUCT_RDMA_KEY_SLOTS 48 /* offset of the slots */

/*
 * Every step is a bijection of the previous state and of the word that it adds, so a
 * change of one word always changes the 64 bits. The upper half of them is the sum.
 */
static uint32_t muct_rdma_key_sum(const uint8_t *bytes, size_t length)
{
    uint64_t sum = length, word;
    size_t i;

    for (i = 0; i < length; i += 4) {
        word = muct_get_le(bytes + i, 4);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 32;
    }

    return (uint32_t)((sum * 0x9e3779b97f4a7c15u) >> 32);
}

void muct_rdma_key_pack(const muct_rdma_key_t *key, unsigned num_slots, void *buffer)
{
    uint8_t *p = buffer, *slots = p + MUCT_RDMA_KEY_SLOTS;
    unsigned i;

    memset(p, 0, MUCT_RDMA_KEY_PACKED_SIZE(num_slots));
    p[0] = MUCT_RDMA_KEY_VERSION;
    p[1] = key->flags;
    p[2] = key->num_rkeys;
    p[3] = key->chunk_shift;
    p[4] = (uint8_t)num_slots;
    p[5] = key->gpu;
    muct_put_le(p + 8, key->incarnation, 8);
    muct_put_le(p + 16, key->base, 8);
    muct_put_le(p + 24, key->length, 8);
    muct_put_le(p + 32, key->page_address, 8);
    muct_put_le(p + 40, key->page_rkey, 4);
    muct_put_le(p + MUCT_RDMA_KEY_FIXED, muct_rdma_key_sum(p, MUCT_RDMA_KEY_FIXED), 4);
    for (i = 0; i < key->num_rkeys; ++i) {
        muct_put_le(slots + 4 * i, key->rkeys[i], 4);
    }
    muct_put_le(slots + 4 * num_slots, muct_rdma_key_sum(slots, 4 * num_slots), 4);
}

/* Check the sums before any other field is used. */
static muct_rdma_key_result_t muct_rdma_key_check(const uint8_t *p, size_t length)
{
    const uint8_t *slots = p + MUCT_RDMA_KEY_SLOTS;
    unsigned num_slots;

    if (length < MUCT_RDMA_KEY_PACKED_SIZE(1)) {
        return MUCT_RDMA_KEY_SHORT;
    }

    if (p[0] != MUCT_RDMA_KEY_VERSION) {
        return MUCT_RDMA_KEY_OTHER_VERSION;
    }

    if (muct_get_le(p + MUCT_RDMA_KEY_FIXED, 4) !=
        muct_rdma_key_sum(p, MUCT_RDMA_KEY_FIXED)) {
        return MUCT_RDMA_KEY_SUM;
    }

    num_slots = p[4];
    if ((num_slots > MUCT_RDMA_KEY_MAX_RKEYS) || (p[2] > num_slots)) {
        return MUCT_RDMA_KEY_COUNT;
    }

    if (length < MUCT_RDMA_KEY_PACKED_SIZE(num_slots)) {
        return MUCT_RDMA_KEY_SHORT;
    }

    return (muct_get_le(slots + 4 * num_slots, 4) ==
            muct_rdma_key_sum(slots, 4 * num_slots))
               ? MUCT_RDMA_KEY_OK
               : MUCT_RDMA_KEY_SUM;
}

static bool muct_rdma_key_count_fits(unsigned num_rkeys, unsigned chunk_shift,
                                     uint64_t length)
{
    if ((num_rkeys < 1) || (num_rkeys > MUCT_RDMA_KEY_MAX_RKEYS) ||
        (chunk_shift < 12) || (chunk_shift > MUCT_RDMA_KEY_ONE_CHUNK)) {
        return false;
    }

    return ((length > 0) ? ((length - 1) >> chunk_shift) : 0) == (num_rkeys - 1);
}

static muct_rdma_key_result_t muct_rdma_key_check_gpu(const uint8_t *p)
{
    const bool has_page = muct_get_le(p + 32, 8) != 0;
    const bool is_gpu = (p[1] & MUCT_RDMA_KEY_FLAG_GPU) != 0;

    if (((p[1] & ~(MUCT_RDMA_KEY_FLAG_GPU | MUCT_RDMA_KEY_FLAG_NONE)) != 0) ||
        (p[6] != 0) || (p[7] != 0)) {
        return MUCT_RDMA_KEY_FLAGS;
    }

    if (p[5] >= MUCT_RDMA_KEY_NUM_GPUS) {
        return MUCT_RDMA_KEY_NO_GPU;
    }

    return ((is_gpu == has_page) && (is_gpu || (p[5] == 0))) ? MUCT_RDMA_KEY_OK
                                                             : MUCT_RDMA_KEY_PAGE;
}

muct_rdma_key_result_t muct_rdma_key_unpack(const void *buffer, size_t length,
                                            muct_rdma_key_t *key)
{
    const uint8_t *p = buffer;
    muct_rdma_key_result_t result;
    uint64_t base, size;
    unsigned i;

    result = muct_rdma_key_check(p, length);
    if (result != MUCT_RDMA_KEY_OK) {
        return result;
    }

    base = muct_get_le(p + 16, 8);
    size = muct_get_le(p + 24, 8);
    if (!muct_rdma_key_count_fits(p[2], p[3], size)) {
        return MUCT_RDMA_KEY_COUNT;
    }

    if (base + size < base) {
        return MUCT_RDMA_KEY_RANGE;
    }

    result = muct_rdma_key_check_gpu(p);
    if (result != MUCT_RDMA_KEY_OK) {
        return result;
    }

    key->incarnation = muct_get_le(p + 8, 8);
    key->base = base;
    key->length = size;
    key->flags = p[1];
    key->gpu = p[5];
    key->num_rkeys = p[2];
    key->chunk_shift = p[3];
    key->is_single = (p[2] == 1);
    key->page_address = muct_get_le(p + 32, 8);
    key->page_rkey = (uint32_t)muct_get_le(p + 40, 4);
    for (i = 0; i < p[2]; ++i) {
        key->rkeys[i] = (uint32_t)muct_get_le(p + MUCT_RDMA_KEY_SLOTS + 4 * i, 4);
    }

    return MUCT_RDMA_KEY_OK;
}

static const char *muct_rdma_key_strerror(muct_rdma_key_result_t result)
{
    switch (result) {
    case MUCT_RDMA_KEY_OK:
        return "no error";
    case MUCT_RDMA_KEY_SHORT:
        return "it is cut short";
    case MUCT_RDMA_KEY_OTHER_VERSION:
        return "it is of another version of ucx-mori, or of another transport";
    case MUCT_RDMA_KEY_SUM:
        return "its check sum is wrong: it was cut or changed on the way";
    case MUCT_RDMA_KEY_COUNT:
        return "its number of keys does not fit its length";
    case MUCT_RDMA_KEY_RANGE:
        return "its region wraps around the address space";
    case MUCT_RDMA_KEY_NO_GPU:
        return "its GPU's number is out of range, 0 to 63";
    case MUCT_RDMA_KEY_FLAGS:
        return "it has flags or fields of another version";
    case MUCT_RDMA_KEY_PAGE:
        return "a GPU needs a page, and host memory has none";
    }

    return "unknown reason";
}

const char *muct_rdma_key_explain(muct_rdma_key_result_t result, const void *buffer,
                                  char *text, size_t size)
{
    const uint8_t *p = buffer;

    if (result <= MUCT_RDMA_KEY_OTHER_VERSION) { /* the other bytes may be missing */
        snprintf(text, size, "%s (version %u, expected %u)",
                 muct_rdma_key_strerror(result), p[0], MUCT_RDMA_KEY_VERSION);
        return text;
    }

    snprintf(text, size,
             "%s (flags 0x%x, %u keys of 2^%u bytes in %u slots, GPU %u, base "
             "0x%" PRIx64 " length %" PRIu64 ", page 0x%" PRIx64 ")",
             muct_rdma_key_strerror(result), p[1], p[2], p[3], p[4], p[5],
             muct_get_le(p + 16, 8), muct_get_le(p + 24, 8), muct_get_le(p + 32, 8));
    return text;
}
