/* SPDX-License-Identifier: BSD-3-Clause */

/* Single pieces: every length and alignment of put and get. */

#include "test/conformance/ct.h"

#include <stdio.h>

#define CT_RMA_SPACE ((size_t)2 << 20)
#define CT_RMA_LARGEST ((size_t)8 << 20)


typedef struct ct_rma {
    ct_mem_t local;
    ct_remote_t remote;
} ct_rma_t;

static void ct_rma_open(ct_t *ct, ct_op_t op, size_t space, ct_rma_t *rma)
{
    ucs_status_t status;

    ct_connect(ct);
    ct_remote_create(ct, space, 0, &rma->remote);
    status = ct_mem_create(&ct->side, space, ct_op_local_type(ct, op), &rma->local);
    ck_assert_msg(status == UCS_OK, "%s", ct->side.why);
}

static void ct_rma_close(ct_t *ct, ct_rma_t *rma)
{
    ct_mem_destroy(&ct->side, &rma->local);
    ct_remote_destroy(ct, &rma->remote);
}

static void ct_rma_any_length(ct_t *ct, ct_op_t op)
{
    static const size_t lengths[] = {
        0,  1,  2,  3,   4,    7,    8,    9,    15,    16,    17,    31,
        63, 64, 65, 255, 1000, 4095, 4096, 4097, 65535, 65536, 65537, 1048579};
    static const size_t offsets[][2] = {{0, 0}, {1, 0}, {0, 1},
                                        {3, 5}, {8, 4}, {129, 64}};
    size_t min = ct_op_min(ct, op), max = ct_op_max(ct, op);
    unsigned num = 0;
    ct_piece_t piece;
    ct_rma_t rma;
    size_t i, j;

    ct_rma_open(ct, op, CT_RMA_SPACE, &rma);
    for (i = 0; i < CT_ARRAY_SIZE(lengths); ++i) {
        for (j = 0; j < CT_ARRAY_SIZE(offsets); ++j) {
            if ((lengths[i] < min) || (lengths[i] > max)) {
                continue;
            }
            if ((lengths[i] > 5000) && ((i + j) % 3 != 0)) {
                continue; /* two alignments of the long ones suffice */
            }

            piece.local_offset = offsets[j][0];
            piece.remote_offset = offsets[j][1];
            piece.length = lengths[i];
            ct_check_piece(ct, op, &rma.local, &rma.remote, &piece);
            ++num;
        }
    }

    if (max < CT_RMA_SPACE) {
        piece.local_offset = 1;
        piece.remote_offset = 2;
        piece.length = max;
        ct_check_piece(ct, op, &rma.local, &rma.remote, &piece);
        ++num;
    }

    ct_rma_close(ct, &rma);
    snprintf(ct->covered, sizeof(ct->covered), "%u pieces, limits %zu..%zu", num, min,
             max);
}

static void ct_rma_random(ct_t *ct, ct_op_t op)
{
    size_t min = ct_op_min(ct, op), max = ct_op_max(ct, op);
    uint64_t state = 1;
    ct_piece_t piece;
    ct_rma_t rma;
    int i;

    ct_rma_open(ct, op, CT_RMA_SPACE, &rma);
    for (i = 0; i < 60; ++i) {
        piece.length = min + mkv_test_random(&state) % (UINT64_C(1) << (i % 18));
        piece.length = (piece.length > max) ? max : piece.length;
        piece.local_offset = mkv_test_random(&state) % (CT_RMA_SPACE - piece.length);
        piece.remote_offset = mkv_test_random(&state) % (CT_RMA_SPACE - piece.length);
        ct_check_piece(ct, op, &rma.local, &rma.remote, &piece);
    }

    ct_rma_close(ct, &rma);
    snprintf(ct->covered, sizeof(ct->covered), "60 pieces in 2 MiB");
}

static void ct_rma_largest(ct_t *ct, ct_op_t op)
{
    size_t max = ct_op_max(ct, op);
    ct_piece_t piece = {.local_offset = 3, .remote_offset = 1};
    ct_rma_t rma;

    piece.length = (max < CT_RMA_LARGEST) ? max : CT_RMA_LARGEST;
    ct_rma_open(ct, op, piece.length + 4096, &rma);
    ct_check_piece(ct, op, &rma.local, &rma.remote, &piece);
    ct_rma_close(ct, &rma);
    snprintf(ct->covered, sizeof(ct->covered), "%zu bytes at once", piece.length);
}

static void put_short_moves_any_length(ct_t *ct)
{
    ct_rma_any_length(ct, CT_PUT_SHORT);
}

static void put_bcopy_moves_any_length(ct_t *ct)
{
    ct_rma_any_length(ct, CT_PUT_BCOPY);
}

static void put_zcopy_moves_any_length(ct_t *ct)
{
    ct_rma_any_length(ct, CT_PUT_ZCOPY);
}

static void get_short_moves_any_length(ct_t *ct)
{
    ct_rma_any_length(ct, CT_GET_SHORT);
}

static void get_bcopy_moves_any_length(ct_t *ct)
{
    ct_rma_any_length(ct, CT_GET_BCOPY);
}

static void get_zcopy_moves_any_length(ct_t *ct)
{
    ct_rma_any_length(ct, CT_GET_ZCOPY);
}

static void put_bcopy_moves_random_pieces(ct_t *ct)
{
    ct_rma_random(ct, CT_PUT_BCOPY);
}

static void put_zcopy_moves_random_pieces(ct_t *ct)
{
    ct_rma_random(ct, CT_PUT_ZCOPY);
}

static void get_bcopy_moves_random_pieces(ct_t *ct)
{
    ct_rma_random(ct, CT_GET_BCOPY);
}

static void get_zcopy_moves_random_pieces(ct_t *ct)
{
    ct_rma_random(ct, CT_GET_ZCOPY);
}

static void put_zcopy_moves_the_largest_piece(ct_t *ct)
{
    ct_rma_largest(ct, CT_PUT_ZCOPY);
}

static void get_zcopy_moves_the_largest_piece(ct_t *ct)
{
    ct_rma_largest(ct, CT_GET_ZCOPY);
}

/* The caller needs no completion to learn that a flush covers the operation. */
static void put_zcopy_needs_no_completion(ct_t *ct)
{
    ct_piece_t piece = {.local_offset = 7, .remote_offset = 9, .length = 5000};
    uct_iov_t iov = {.count = 1};
    ucs_status_t status;
    ct_rma_t rma;

    ct_rma_open(ct, CT_PUT_ZCOPY, 16384, &rma);
    ck_assert(ct_mem_fill(&rma.local, piece.local_offset, piece.length, 99, 0));
    iov.buffer = (char *)rma.local.addr + piece.local_offset;
    iov.length = piece.length;
    iov.memh = rma.local.memh;
    while ((status =
                uct_ep_put_zcopy(ct->ep, &iov, 1, rma.remote.addr + piece.remote_offset,
                                 rma.remote.rkey.rkey, NULL)) == UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
    }
    ck_assert_msg(!UCS_STATUS_IS_ERR(status), "%s", ucs_status_string(status));
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    ck_assert_uint_eq(ct_cmd(ct, CT_CMD_CHECK, rma.remote.region, piece.remote_offset,
                             piece.length, 99, 0)
                          ->a[0],
                      piece.length);
    ct_rma_close(ct, &rma);
    snprintf(ct->covered, sizeof(ct->covered), "put without completion, then flush");
}


const ct_case_t ct_cases_rma[] = {
    {"put_short_moves_any_length", .flags = UCT_IFACE_FLAG_PUT_SHORT,
     .run = put_short_moves_any_length},
    {"put_bcopy_moves_any_length", .flags = UCT_IFACE_FLAG_PUT_BCOPY,
     .run = put_bcopy_moves_any_length},
    {"put_bcopy_moves_random_pieces", .flags = UCT_IFACE_FLAG_PUT_BCOPY,
     .run = put_bcopy_moves_random_pieces},
    {"put_zcopy_moves_any_length", .flags = UCT_IFACE_FLAG_PUT_ZCOPY,
     .run = put_zcopy_moves_any_length},
    {"put_zcopy_moves_random_pieces", .flags = UCT_IFACE_FLAG_PUT_ZCOPY,
     .run = put_zcopy_moves_random_pieces},
    {"put_zcopy_moves_the_largest_piece", .flags = UCT_IFACE_FLAG_PUT_ZCOPY,
     .run = put_zcopy_moves_the_largest_piece},
    {"put_zcopy_needs_no_completion", .flags = UCT_IFACE_FLAG_PUT_ZCOPY,
     .run = put_zcopy_needs_no_completion},
    {"get_short_moves_any_length", .flags = UCT_IFACE_FLAG_GET_SHORT,
     .run = get_short_moves_any_length},
    {"get_bcopy_moves_any_length", .flags = UCT_IFACE_FLAG_GET_BCOPY,
     .run = get_bcopy_moves_any_length},
    {"get_bcopy_moves_random_pieces", .flags = UCT_IFACE_FLAG_GET_BCOPY,
     .run = get_bcopy_moves_random_pieces},
    {"get_zcopy_moves_any_length", .flags = UCT_IFACE_FLAG_GET_ZCOPY,
     .run = get_zcopy_moves_any_length},
    {"get_zcopy_moves_random_pieces", .flags = UCT_IFACE_FLAG_GET_ZCOPY,
     .run = get_zcopy_moves_random_pieces},
    {"get_zcopy_moves_the_largest_piece", .flags = UCT_IFACE_FLAG_GET_ZCOPY,
     .run = get_zcopy_moves_the_largest_piece},
    {NULL}};
