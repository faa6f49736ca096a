/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/rdma_key.h"

#include "base/muct_bytes.h"

void muct_rdma_key_pack(const muct_rdma_key_t *key, void *buffer)
{
    uint8_t *p = buffer;
    unsigned i;

    p[0] = MUCT_RDMA_KEY_VERSION;
    p[1] = key->flags;
    p[2] = key->num_rkeys;
    p[3] = key->chunk_shift;
    muct_put_le(p + 4, key->incarnation, 8);
    muct_put_le(p + 12, key->base, 8);
    muct_put_le(p + 20, key->length, 8);
    for (i = 0; i < key->num_rkeys; ++i) {
        muct_put_le(p + 28 + 4 * i, key->rkeys[i], 4);
    }
}

static int muct_rdma_key_count_fits(unsigned num_rkeys, unsigned chunk_shift,
                                    uint64_t length)
{
    if ((num_rkeys < 1) || (num_rkeys > MUCT_RDMA_KEY_MAX_RKEYS) ||
        (chunk_shift < 12) || (chunk_shift > MUCT_RDMA_KEY_ONE_CHUNK)) {
        return 0;
    }

    return (length == 0) || (((length - 1) >> chunk_shift) == (num_rkeys - 1));
}

muct_rdma_key_result_t muct_rdma_key_unpack(const void *buffer, size_t length,
                                            muct_rdma_key_t *key)
{
    const uint8_t *p = buffer;
    uint64_t base, size;
    unsigned i;

    if (length < MUCT_RDMA_KEY_PACKED_SIZE(1)) {
        return MUCT_RDMA_KEY_SHORT;
    }

    if (p[0] != MUCT_RDMA_KEY_VERSION) {
        return MUCT_RDMA_KEY_VERSION_;
    }

    base = muct_get_le(p + 12, 8);
    size = muct_get_le(p + 20, 8);
    if (!muct_rdma_key_count_fits(p[2], p[3], size)) {
        return MUCT_RDMA_KEY_COUNT;
    }

    if (length < MUCT_RDMA_KEY_PACKED_SIZE(p[2])) {
        return MUCT_RDMA_KEY_SHORT;
    }

    if (base + size < base) {
        return MUCT_RDMA_KEY_RANGE;
    }

    key->incarnation = muct_get_le(p + 4, 8);
    key->base = base;
    key->length = size;
    key->flags = p[1];
    key->num_rkeys = p[2];
    key->chunk_shift = p[3];
    for (i = 0; i < p[2]; ++i) {
        key->rkeys[i] = (uint32_t)muct_get_le(p + 28 + 4 * i, 4);
    }

    return MUCT_RDMA_KEY_OK;
}

const char *muct_rdma_key_strerror(muct_rdma_key_result_t result)
{
    switch (result) {
    case MUCT_RDMA_KEY_OK:
        return "no error";
    case MUCT_RDMA_KEY_SHORT:
        return "it is cut short";
    case MUCT_RDMA_KEY_VERSION_:
        return "it is of another version of ucx-mori, or of another transport";
    case MUCT_RDMA_KEY_COUNT:
        return "its number of keys does not fit its length";
    case MUCT_RDMA_KEY_RANGE:
        return "its region wraps around the address space";
    }

    return "unknown reason";
}
