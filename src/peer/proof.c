/* SPDX-License-Identifier: BSD-3-Clause */

#include "peer/proof.h"

static uint64_t mkv_proof_rotate(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

static void mkv_proof_rounds(uint64_t v[4], unsigned num)
{
    for (; num > 0; --num) {
        v[0] += v[1];
        v[1] = mkv_proof_rotate(v[1], 13) ^ v[0];
        v[0] = mkv_proof_rotate(v[0], 32);
        v[2] += v[3];
        v[3] = mkv_proof_rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = mkv_proof_rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = mkv_proof_rotate(v[1], 17) ^ v[2];
        v[2] = mkv_proof_rotate(v[2], 32);
    }
}

/* Aumasson, Bernstein: SipHash, of a message of 8 bytes */
uint64_t mkv_proof(const uint64_t key[2], uint64_t ctx_id)
{
    const uint64_t end = 8ull << 56; /* the length, in the last word */
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull,
                     key[0] ^ 0x6c7967656e657261ull, key[1] ^ 0x7465646279746573ull};
    uint64_t proof;

    v[3] ^= ctx_id;
    mkv_proof_rounds(v, 2);
    v[0] ^= ctx_id;
    v[3] ^= end;
    mkv_proof_rounds(v, 2);
    v[0] ^= end;
    v[2] ^= 0xff;
    mkv_proof_rounds(v, 4);
    proof = v[0] ^ v[1] ^ v[2] ^ v[3];
    return (proof != 0) ? proof : 1;
}
