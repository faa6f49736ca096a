/* SPDX-License-Identifier: BSD-3-Clause */

/* Several pieces at once: vectors of zero-copy operations, and lists (SGL). */

#include "test/conformance/ct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CT_LIST_SPACE ((size_t)4 << 20)
#define CT_LIST_MAX ((size_t)20000) /* elements; longer limits are not exhausted */


typedef struct ct_list {
    ct_mem_t local;
    ct_remote_t remote;
    ct_piece_t *pieces;
    size_t count;
} ct_list_t;

static void ct_list_open(ct_t *ct, ct_op_t op, size_t max_count, ct_list_t *list)
{
    ucs_status_t status;

    ct_connect(ct);
    ct_remote_create(ct, CT_LIST_SPACE, 0, &list->remote);
    status =
        ct_mem_create(&ct->side, CT_LIST_SPACE, ct_op_local_type(ct, op), &list->local);
    ck_assert_msg(status == UCS_OK, "%s", ct->side.why);
    list->pieces = calloc(max_count, sizeof(*list->pieces));
    list->count = 0;
}

static void ct_list_close(ct_t *ct, ct_list_t *list)
{
    free(list->pieces);
    ct_mem_destroy(&ct->side, &list->local);
    ct_remote_destroy(ct, &list->remote);
}

static void ct_list_add(ct_list_t *list, size_t local_offset, size_t remote_offset,
                        size_t length)
{
    ck_assert_uint_le(local_offset + length, CT_LIST_SPACE);
    ck_assert_uint_le(remote_offset + length, CT_LIST_SPACE);
    list->pieces[list->count].local_offset = local_offset;
    list->pieces[list->count].remote_offset = remote_offset;
    list->pieces[list->count].length = length;
    ++list->count;
}

/* Pieces of the wanted lengths, apart from each other on both sides and in another
 * order on the remote side, so that a swapped piece is seen. */
static void ct_list_scatter(ct_list_t *list, size_t count, size_t max_length,
                            uint64_t seed)
{
    size_t slot = CT_LIST_SPACE / count;
    uint64_t state = seed;
    size_t i, length;

    list->count = 0;
    max_length = (max_length < slot / 2) ? max_length : slot / 2;
    for (i = 0; i < count; ++i) {
        length = mkv_test_random(&state) % (max_length + 1);
        ct_list_add(list, i * slot + mkv_test_random(&state) % (slot - length + 1),
                    (count - 1 - i) * slot +
                        mkv_test_random(&state) % (slot - length + 1),
                    length);
    }
}

static uint8_t *ct_list_read_remote(ct_t *ct, const ct_list_t *list)
{
    uint8_t *image = malloc(CT_LIST_SPACE);
    const ct_msg_t *rep;
    size_t done, piece;

    for (done = 0; done < CT_LIST_SPACE; done += piece) {
        piece =
            (CT_LIST_SPACE - done < CT_MAX_DATA) ? CT_LIST_SPACE - done : CT_MAX_DATA;
        rep = ct_cmd(ct, CT_CMD_READ, list->remote.region, done, piece, 0, 0);
        memcpy(image + done, rep->data, piece);
    }

    return image;
}

/* Expected destination: its old bytes with the pieces copied in. */
static uint8_t *ct_list_expected(const ct_list_t *list, int is_get)
{
    uint8_t *from = malloc(CT_LIST_SPACE), *to = malloc(CT_LIST_SPACE);
    const ct_piece_t *p;
    size_t i, k, local, remote;

    mkv_pattern_fill(from, CT_LIST_SPACE, 1, 0);
    mkv_pattern_fill(to, CT_LIST_SPACE, 2, 0);
    for (i = 0; i < list->count; ++i) {
        p = &list->pieces[i];
        for (k = 0; k <= p->repeats; ++k) {
            local = p->local_offset + (k * p->stride);
            remote = p->remote_offset + (k * p->stride);
            if (is_get) {
                memcpy(to + local, from + remote, p->length);
            } else {
                memcpy(to + remote, from + local, p->length);
            }
        }
    }

    free(from);
    return to;
}

static void ct_list_prepare(ct_t *ct, const ct_list_t *list, int is_get)
{
    ck_assert(ct_mem_fill(&list->local, 0, CT_LIST_SPACE, is_get ? 2 : 1, 0));
    ct_cmd(ct, CT_CMD_FILL, list->remote.region, 0, CT_LIST_SPACE, is_get ? 1 : 2, 0);
}

static void ct_list_expect(ct_t *ct, const ct_list_t *list, int is_get)
{
    uint8_t *expected = ct_list_expected(list, is_get);
    uint8_t *actual;
    size_t i = 0;

    /* The whole image only crosses the channel when there is a difference to find. */
    if (!is_get &&
        (ct_cmd(ct, CT_CMD_HASH, list->remote.region, 0, CT_LIST_SPACE, 0, 0)->a[0] ==
         ct_hash(expected, CT_LIST_SPACE))) {
        free(expected);
        return;
    }

    if (is_get) {
        actual = malloc(CT_LIST_SPACE);
        ck_assert(ct_mem_read(&list->local, 0, actual, CT_LIST_SPACE));
    } else {
        actual = ct_list_read_remote(ct, list);
    }

    while ((i < CT_LIST_SPACE) && (actual[i] == expected[i])) {
        ++i;
    }
    ck_assert_msg(i == CT_LIST_SPACE, "%zu pieces: byte %zu of %zu differs",
                  list->count, i, CT_LIST_SPACE);
    free(expected);
    free(actual);
}

static void ct_list_check(ct_t *ct, ct_op_t op, ct_list_t *list)
{
    int is_get = ct_op_is_get(op);
    ucs_status_t status;

    ct_list_prepare(ct, list, is_get);
    status = ct_do(ct, op, &list->local, &list->remote, list->pieces, list->count);
    ck_assert_msg(status == UCS_OK, "%zu pieces: %s", list->count,
                  ucs_status_string(status));
    ct_list_expect(ct, list, is_get);
}

/* ---- vectors: many local pieces, one remote run ---- */

/* The remote offsets of a vector follow from the first one and the lengths. */
static void ct_vector_make(ct_list_t *list, size_t count, size_t max_length,
                           uint64_t seed, int with_zero)
{
    size_t slot = CT_LIST_SPACE / count, run = 5, length, i;
    uint64_t state = seed;

    list->count = 0;
    max_length = (max_length < slot / 2) ? max_length : slot / 2;
    for (i = 0; i < count; ++i) {
        length = 1 + mkv_test_random(&state) % max_length;
        if (with_zero && (i % 3 == (count > 1))) {
            length = 0;
        }
        ct_list_add(list, (count - 1 - i) * slot + mkv_test_random(&state) % 64, run,
                    length);
        run += length;
    }
}

static void ct_vector_run(ct_t *ct, ct_op_t op, size_t max_iov)
{
    size_t most = (max_iov < 64) ? max_iov : 64;
    ct_list_t list;
    size_t count;
    int with_zero;

    ct_list_open(ct, op, most, &list);
    for (count = 1; count <= most; count = (count == most) ? most + 1 : count * 2) {
        count = (count > most) ? most : count;
        for (with_zero = 0; with_zero < 2; ++with_zero) {
            ct_vector_make(&list, count, 20000, count, with_zero);
            ct_list_check(ct, op, &list);
        }
    }

    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered),
             "vectors of 1..%zu, also with empty pieces", most);
}

static void put_zcopy_takes_a_vector(ct_t *ct)
{
    ct_vector_run(ct, CT_PUT_ZCOPY, ct->side.attr.cap.put.max_iov);
}

static void get_zcopy_takes_a_vector(ct_t *ct)
{
    ct_vector_run(ct, CT_GET_ZCOPY, ct->side.attr.cap.get.max_iov);
}

/* ---- lists: every piece has both addresses ---- */

static size_t ct_sgl_max(const ct_t *ct, ct_op_t op)
{
    return (op == CT_PUT_SGL) ? ct->side.max_put_sgl : ct->side.max_get_sgl;
}

static void ct_sgl_lengths(ct_t *ct, ct_op_t op)
{
    static const size_t counts[] = {1, 2, 3, 7, 64, 255, 1000, 4096};
    static const size_t lengths[] = {1, 100, 4096, 100000};
    size_t max = ct_sgl_max(ct, op), i, j, num = 0;
    ct_list_t list;

    ck_assert_uint_ge(max, 1);
    ct_list_open(ct, op, CT_LIST_MAX, &list);
    for (i = 0; i < CT_ARRAY_SIZE(counts); ++i) {
        for (j = 0; j < CT_ARRAY_SIZE(lengths); ++j) {
            if ((counts[i] <= max) && ((i + j) % 2 == 0)) {
                ct_list_scatter(&list, counts[i], lengths[j], i * 10 + j);
                ct_list_check(ct, op, &list);
                ++num;
            }
        }
    }

    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered), "%zu lists, limit %zu elements", num,
             max);
}

/* Longer than any single launch or doorbell batch is likely to be. */
static void ct_sgl_longest(ct_t *ct, ct_op_t op)
{
    size_t max = ct_sgl_max(ct, op);
    ct_list_t list;

    max = (max < CT_LIST_MAX) ? max : CT_LIST_MAX;
    ct_list_open(ct, op, max, &list);
    ct_list_scatter(&list, max, 64, 3);
    ct_list_check(ct, op, &list);
    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered), "%zu elements in one list", max);
}

static void ct_sgl_odd_entries(ct_t *ct, ct_op_t op)
{
    ct_list_t list;
    size_t i;

    ct_list_open(ct, op, 64, &list);

    for (i = 0; i < 10; ++i) { /* nothing but empty pieces */
        ct_list_add(&list, i, i, 0);
    }
    ct_list_check(ct, op, &list);

    list.count = 0; /* neighbours on both sides, which may be merged */
    for (i = 0; i < 20; ++i) {
        ct_list_add(&list, 100 + i * 333, 7777 + i * 333, 333);
    }
    ct_list_check(ct, op, &list);

    list.count = 0; /* neighbours on one side only: must not be merged */
    for (i = 0; i < 20; ++i) {
        ct_list_add(&list, 100 + i * 512, 9000 + i * 1024, 512);
    }
    ct_list_check(ct, op, &list);

    list.count = 0; /* the same source several times */
    for (i = 0; i < 20; ++i) {
        ct_list_add(&list, ct_op_is_get(op) ? i * 4096 : 50,
                    ct_op_is_get(op) ? 50 : i * 4096, 999);
    }
    ct_list_check(ct, op, &list);

    list.count = 0; /* one huge piece among small ones */
    for (i = 0; i < 20; ++i) {
        ct_list_add(&list, i * 64, i * 64, 33);
    }
    ct_list_add(&list, 4096, 8192, CT_LIST_SPACE - 8192);
    ct_list_check(ct, op, &list);

    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered),
             "empty, neighbours on both and on one side, repeated source, huge");
}

/* Blocks of one length and exceptions: other lengths, none at all, odd addresses, and
 * pieces that continue the block before. Slots are twice a block and hold all of these.
 */
static void ct_list_blocks(ct_list_t *list, size_t count)
{
    const size_t block = 2048, slot = 2 * block, num_slots = CT_LIST_SPACE / slot;
    const ct_piece_t *last;
    size_t i, local, remote;

    list->count = 0;
    for (i = 0; i < count; ++i) {
        local = (i * 389) % num_slots * slot;
        remote = (i * 613 + 7) % num_slots * slot;
        last = &list->pieces[(i > 0) ? i - 1 : 0];
        switch (i % 100) {
        case 37: /* another length, and again */
        case 38:
            ct_list_add(list, local, remote, 3000);
            break;
        case 61:
            ct_list_add(list, local, remote, 0);
            break;
        case 73:
            ct_list_add(list, local, remote + 3, block);
            break;
        case 80:
            ct_list_add(list, local + 5, remote, block);
            break;
        case 85:
            ct_list_add(list, local + 7, remote + 1, block);
            break;
        case 90: /* neighbours, of another length and of the same */
            ct_list_add(list, last->local_offset + block, last->remote_offset + block,
                        1000);
            break;
        case 94:
            ct_list_add(list, last->local_offset + block, last->remote_offset + block,
                        block);
            break;
        case 97: /* on one side only */
            ct_list_add(list, local, last->remote_offset + block, block);
            break;
        default:
            ct_list_add(list, local, remote, block);
        }
    }
}

static void ct_sgl_blocks(ct_t *ct, ct_op_t op)
{
    static const size_t counts[] = {2, 5, 64, 300, 1000};
    size_t max = ct_sgl_max(ct, op), i, num = 0;
    ct_list_t list;

    ct_list_open(ct, op, 1000, &list);
    for (i = 0; i < CT_ARRAY_SIZE(counts); ++i) {
        if (counts[i] <= max) {
            ct_list_blocks(&list, counts[i]);
            ct_list_check(ct, op, &list);
            num = counts[i];
        }
    }

    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered), "up to %zu blocks", num);
}

/* The same by lists as long as they may be. */
static void ct_list_check_parts(ct_t *ct, ct_op_t op, ct_list_t *list)
{
    size_t max = ct_sgl_max(ct, op), at, part;
    ucs_status_t status;

    ct_list_prepare(ct, list, ct_op_is_get(op));
    for (at = 0; at < list->count; at += part) {
        part = (max < list->count - at) ? max : list->count - at;
        status = ct_do(ct, op, &list->local, &list->remote, list->pieces + at, part);
        ck_assert_msg(status == UCS_OK, "%zu of %zu pieces: %s", part, list->count,
                      ucs_status_string(status));
    }
    ct_list_expect(ct, list, ct_op_is_get(op));
}

/* Pieces of one length at constant distances, as a change of layout makes them. */
typedef struct ct_run {
    size_t length;
    size_t local_stride, remote_stride;
    size_t count;
} ct_run_t;

/* The source forwards, the destination forwards or from its end on. */
static void ct_list_run(ct_list_t *list, const ct_run_t *run, size_t local,
                        size_t remote, int is_backwards)
{
    size_t i;

    for (i = 0; i < run->count; ++i) {
        ct_list_add(list, local + (i * run->local_stride),
                    remote +
                        ((is_backwards ? run->count - 1 - i : i) * run->remote_stride),
                    run->length);
    }
}

/* Runs of all units of a vector's parts, of no alignment, too short, with single pieces
 * between them, and of more kinds than are kept; the last one ends with the memory. */
static void ct_sgl_runs(ct_t *ct, ct_op_t op)
{
    static const ct_run_t runs[] = {
        {256, 256, 512, 16}, {256, 512, 256, 16},   {256, 512, 256, 33},
        {24, 32, 40, 100},   {4, 132, 4, 64},       {3, 5, 7, 50},
        {100, 101, 103, 9},  {2048, 4096, 2048, 5}, {2064, 4096, 2080, 5},
        {128, 256, 1024, 3}, {128, 128, 256, 2},    {512, 0, 1024, 20},
        {16, 48, 32, 200},   {64, 64, 64, 30},      {32, 64, 48, 10},
        {48, 48, 96, 7},     {80, 96, 80, 7},       {96, 112, 128, 7},
        {112, 128, 112, 7},  {8, 24, 16, 300}};
    const size_t slot = 65536;
    size_t i, at;
    ct_run_t run;
    ct_list_t list;

    ct_list_open(ct, op, 2000, &list);
    for (i = 0; i < CT_ARRAY_SIZE(runs); ++i) {
        run = runs[i];
        if (ct_op_is_get(op)) { /* the destination has the larger strides */
            run.local_stride = runs[i].remote_stride;
            run.remote_stride = runs[i].local_stride;
        }
        at = i * slot + ((i % 3 == 2) ? 1 : 0);
        ct_list_run(&list, &run, at, CT_LIST_SPACE - (i + 1) * slot, i % 4 == 3);
        if (i % 2 == 1) {
            ct_list_add(&list, at + 60000, i * slot + 60016, 77);
        }
    }
    /* four of one kind, the later ones with an odd piece */
    for (i = 0; i < 4; ++i) {
        run = runs[ct_op_is_get(op) ? 1 : 0];
        at = (CT_ARRAY_SIZE(runs) + 1 + i) * slot;
        ct_list_run(&list, &run, at, CT_LIST_SPACE / 2 - (i + 1) * slot, 0);
        list.pieces[list.count - 6].local_offset += (i == 2) ? 8 : 0;
        list.pieces[list.count - 3].length -= (i == 3) ? 64 : 0;
    }
    ct_list_run(&list, &runs[0], CT_LIST_SPACE - (15 * 256) - 256 - 4096,
                CT_LIST_SPACE - (15 * 512) - 256, 0);
    ct_list_check_parts(ct, op, &list);
    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered), "%zu runs", CT_ARRAY_SIZE(runs));
}

/* Layers of one table of blocks: every second block in threes, and single blocks, each
 * the neighbour of the single block before, on both sides. The bits of threes choose.
 */
static void ct_list_layers(ct_list_t *list, size_t block, uint64_t threes)
{
    size_t first = 0, single, three, i, k, layer;

    list->count = 0;
    for (layer = 0; layer < 20; ++layer, first += 70 * block) {
        single = first;
        three = first + (10 * block);
        for (i = 0; i < 10; ++i) {
            if (!((threes >> i) & 1)) {
                ct_list_add(list, single, single + 4096, block);
                single += block;
                continue;
            }
            for (k = 0; k < 3; ++k, three += 2 * block) {
                ct_list_add(list, three, three + 4096, block);
            }
        }
    }
}

static void ct_sgl_layers(ct_t *ct, ct_op_t op)
{
    static const size_t blocks[] = {1152, 100, 2048};
    const size_t num_tables = 2 * CT_ARRAY_SIZE(blocks);
    uint64_t random = 1;
    ct_list_t list;
    size_t i;

    ct_list_open(ct, op, 20 * 30, &list);
    for (i = 0; i < num_tables; ++i) {
        ct_list_layers(&list, blocks[i / 2],
                       (i % 2 == 0) ? 0x155 : mkv_test_random(&random));
        ct_list_check_parts(ct, op, &list);
    }
    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered), "20 layers of %zu tables", num_tables);
}

/* Two elements that repeat at a stride: aligned, of no alignment, long, without a gap,
 * empty, only once. The second one ends with the memory; then it ends behind it. */
static void ct_sgl_repeats(ct_t *ct, ct_op_t op)
{
    static const ct_piece_t kinds[] = {
        {.length = 256, .repeats = 15, .stride = 512},
        {.length = 3, .repeats = 14, .stride = 7},
        {.length = 0, .repeats = 5, .stride = 64},
        {.length = 4096, .repeats = 9, .stride = 4100},
        {.length = 100},
        {.length = 64, .repeats = 12, .stride = 64},
        {.length = 70000, .repeats = 1, .stride = 70016}};
    const size_t span = (3 * 512) + 256;
    ucs_status_t status;
    ct_list_t list;
    size_t i;

    ct_list_open(ct, op, 2, &list);
    for (i = 0; i < CT_ARRAY_SIZE(kinds); ++i) {
        list.count = 0;
        ct_list_add(&list, 4096 + (i % 3), 1024 + (i % 2), kinds[i].length);
        list.pieces[0].repeats = kinds[i].repeats;
        list.pieces[0].stride = kinds[i].stride;
        ct_list_add(&list, CT_LIST_SPACE - (4 * 512), CT_LIST_SPACE - span, 256);
        list.pieces[1].repeats = 3;
        list.pieces[1].stride = 512;
        ct_list_check(ct, op, &list);
    }

    list.pieces[1].repeats = 4;
    list.pieces[1].local_offset -= 512;
    for (i = 0; i < 2; ++i) {
        status = ct_do(ct, op, &list.local, &list.remote, list.pieces, list.count);
        ck_assert_msg(UCS_STATUS_IS_ERR(status), "a repetition beyond the key: %s",
                      ucs_status_string(status));
        list.pieces[1].repeats = 2; /* their end is that of the first one */
        list.pieces[1].stride = (size_t)1 << 63;
    }
    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered), "%zu kinds", CT_ARRAY_SIZE(kinds));
}

/* A single block of many is outside the remote memory. */
static void ct_sgl_beyond(ct_t *ct, ct_op_t op)
{
    static const int64_t offsets[] = {(int64_t)CT_LIST_SPACE - 1,
                                      (int64_t)CT_LIST_SPACE, -1, -(1ll << 40)};
    size_t max = ct_sgl_max(ct, op), count = (max < 300) ? max : 300, i;
    ucs_status_t status;
    ct_list_t list;

    ct_list_open(ct, op, count, &list);
    for (i = 0; i < CT_ARRAY_SIZE(offsets); ++i) {
        ct_list_blocks(&list, count);
        list.pieces[count - 1 - i * 5].length = 2048;
        list.pieces[count - 1 - i * 5].remote_offset = (size_t)offsets[i];
        status = ct_do(ct, op, &list.local, &list.remote, list.pieces, list.count);
        ck_assert_msg(UCS_STATUS_IS_ERR(status), "offset %lld: accepted",
                      (long long)offsets[i]);
        if (ct->side.events.num_ep_errors > 0) {
            ++i; /* RDMA: such an access ends the endpoint */
            break;
        }
    }

    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered), "%zu places outside", i);
}

/* Each block is longer than the remote memory. */
static void ct_sgl_longer(ct_t *ct, ct_op_t op)
{
    static const size_t counts[] = {1, 3};
    ct_remote_t small;
    ucs_status_t status;
    ct_list_t list;
    size_t i, k;

    ct_list_open(ct, op, 3, &list);
    ct_remote_create(ct, 1024, 0, &small);
    for (i = 0; (i < 4) && (ct->side.events.num_ep_errors == 0); ++i) {
        list.count = 0;
        for (k = 0; k < counts[i % 2]; ++k) {
            ct_list_add(&list, k * 4096, k * 8192, 2048);
            list.pieces[k].remote_offset += (i < 2) ? 0 : (size_t)1 << 30;
        }
        status = ct_do(ct, op, &list.local, &small, list.pieces, list.count);
        ck_assert_msg(UCS_STATUS_IS_ERR(status), "%zu blocks, offset %zu: accepted",
                      list.count, list.pieces[0].remote_offset);
    }
    ct_remote_destroy(ct, &small);
    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered), "%zu lists", i);
}

/* A list over the limit is refused and nothing of it happens. */
static void ct_sgl_too_long(ct_t *ct, ct_op_t op)
{
    size_t max = ct_sgl_max(ct, op);
    ct_list_t empty = {.count = 0};
    ucs_status_t status;
    ct_comp_t comp;
    ct_list_t list;
    size_t i;

    if (max > CT_LIST_MAX) {
        snprintf(ct->skip, sizeof(ct->skip),
                 "the limit of %zu elements is out of reach", max);
        return;
    }

    ct_list_open(ct, op, max + 1, &list);
    for (i = 0; i < max + 1; ++i) {
        ct_list_add(&list, i * 8, i * 8, 8);
    }
    ct_list_prepare(ct, &list, ct_op_is_get(op));
    ct_comp_init(&comp);
    status =
        ct_post_list(ct, op, &list.local, &list.remote, list.pieces, list.count, &comp);
    ck_assert_msg(UCS_STATUS_IS_ERR(status) && (status != UCS_ERR_NO_RESOURCE),
                  "%zu elements: %s", list.count, ucs_status_string(status));
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);
    ck_assert_uint_eq(comp.num_calls, 0);
    empty.local = list.local;
    empty.remote = list.remote;
    ct_list_expect(ct, &empty, ct_op_is_get(op));
    ct_list_close(ct, &list);
    snprintf(ct->covered, sizeof(ct->covered), "%zu elements: %s", max + 1,
             ucs_status_string(status));
}

/* Two allocations of the target and two here in one list. */
static void ct_sgl_two_regions(ct_t *ct, ct_op_t op)
{
    ct_sgl_func_t func = uct_ep_put_sgl_zcopy;
    const size_t size = 64 << 10;
    size_t lengths[16];
    void *buffers[16];
    uct_mem_h memhs[16];
    uint64_t addrs[16];
    uct_rkey_t rkeys[16];
    ct_remote_t remote[2];
    ct_mem_t local[2];
    ct_comp_t comp;
    ucs_status_t status;
    int i;

#if UCT_VERNO_MINOR >= 23
    func = (op == CT_GET_SGL) ? uct_ep_get_sgl_zcopy : func;
#endif
    ct_connect(ct);
    for (i = 0; i < 2; ++i) {
        ct_remote_create(ct, size, 0, &remote[i]);
        ck_assert_int_eq(
            ct_mem_create(&ct->side, size, ct->variant->local_type, &local[i]), UCS_OK);
        ct_mem_fill(&local[i], 0, size, 40 + i, 0);
        ct_cmd(ct, CT_CMD_FILL, remote[i].region, 0, size, 50 + i, 0);
    }

    for (i = 0; i < 16; ++i) { /* local 0,0,1,1,0,0,..; remote 0,1,0,1,.. */
        lengths[i] = 1000 + i;
        buffers[i] = (char *)local[(i / 2) % 2].addr + i * 2048;
        memhs[i] = local[(i / 2) % 2].memh;
        addrs[i] = remote[i % 2].addr + i * 2048;
        rkeys[i] = remote[i % 2].rkey.rkey;
    }

    ct_comp_init(&comp);
    while ((status = func(ct->ep, buffers, lengths, memhs, addrs, rkeys, NULL, NULL, 16,
                          &comp.uct)) == UCS_ERR_NO_RESOURCE) {
        ct_progress(ct);
    }
    ck_assert_msg(!UCS_STATUS_IS_ERR(status), "%s", ucs_status_string(status));
    ck_assert_int_eq(ct_flush(ct, UCT_FLUSH_FLAG_LOCAL), UCS_OK);

    for (i = 0; i < 16; ++i) {
        size_t same = ct_op_is_get(op)
                          ? ct_mem_check(&local[(i / 2) % 2], i * 2048, lengths[i],
                                         50 + i % 2, i * 2048)
                          : ct_cmd(ct, CT_CMD_CHECK, remote[i % 2].region, i * 2048,
                                   lengths[i], 40 + (i / 2) % 2, i * 2048)
                                ->a[0];
        ck_assert_msg(same == lengths[i], "element %d: byte %zu differs", i, same);
    }

    for (i = 0; i < 2; ++i) {
        ct_mem_destroy(&ct->side, &local[i]);
        ct_remote_destroy(ct, &remote[i]);
    }
    snprintf(ct->covered, sizeof(ct->covered), "16 elements over 2 x 2 allocations");
}

static void put_list_moves_every_element(ct_t *ct)
{
    ct_sgl_lengths(ct, CT_PUT_SGL);
}

static void get_list_moves_every_element(ct_t *ct)
{
    ct_sgl_lengths(ct, CT_GET_SGL);
}

static void put_list_may_be_as_long_as_claimed(ct_t *ct)
{
    ct_sgl_longest(ct, CT_PUT_SGL);
}

static void get_list_may_be_as_long_as_claimed(ct_t *ct)
{
    ct_sgl_longest(ct, CT_GET_SGL);
}

static void put_list_takes_odd_entries(ct_t *ct)
{
    ct_sgl_odd_entries(ct, CT_PUT_SGL);
}

static void get_list_takes_odd_entries(ct_t *ct)
{
    ct_sgl_odd_entries(ct, CT_GET_SGL);
}

static void put_list_takes_blocks(ct_t *ct)
{
    ct_sgl_blocks(ct, CT_PUT_SGL);
}

static void get_list_takes_blocks(ct_t *ct)
{
    ct_sgl_blocks(ct, CT_GET_SGL);
}

static void put_list_takes_runs(ct_t *ct)
{
    ct_sgl_runs(ct, CT_PUT_SGL);
}

static void get_list_takes_runs(ct_t *ct)
{
    ct_sgl_runs(ct, CT_GET_SGL);
}

static void put_list_takes_layers(ct_t *ct)
{
    ct_sgl_layers(ct, CT_PUT_SGL);
}

static void get_list_takes_layers(ct_t *ct)
{
    ct_sgl_layers(ct, CT_GET_SGL);
}

static void put_list_repeats_blocks(ct_t *ct)
{
    ct_sgl_repeats(ct, CT_PUT_SGL);
}

static void get_list_repeats_blocks(ct_t *ct)
{
    ct_sgl_repeats(ct, CT_GET_SGL);
}

static void put_list_beyond_the_key_is_an_error(ct_t *ct)
{
    ct_sgl_beyond(ct, CT_PUT_SGL);
}

static void get_list_beyond_the_key_is_an_error(ct_t *ct)
{
    ct_sgl_beyond(ct, CT_GET_SGL);
}

static void put_list_longer_than_the_key_is_an_error(ct_t *ct)
{
    ct_sgl_longer(ct, CT_PUT_SGL);
}

static void get_list_longer_than_the_key_is_an_error(ct_t *ct)
{
    ct_sgl_longer(ct, CT_GET_SGL);
}

static void put_list_over_the_limit_is_refused(ct_t *ct)
{
    ct_sgl_too_long(ct, CT_PUT_SGL);
}

static void get_list_over_the_limit_is_refused(ct_t *ct)
{
    ct_sgl_too_long(ct, CT_GET_SGL);
}

static void put_list_spans_allocations(ct_t *ct)
{
    ct_sgl_two_regions(ct, CT_PUT_SGL);
}

static void get_list_spans_allocations(ct_t *ct)
{
    ct_sgl_two_regions(ct, CT_GET_SGL);
}


const ct_case_t ct_cases_list[] = {
    {"put_zcopy_takes_a_vector", .flags = UCT_IFACE_FLAG_PUT_ZCOPY,
     .run = put_zcopy_takes_a_vector},
    {"get_zcopy_takes_a_vector", .flags = UCT_IFACE_FLAG_GET_ZCOPY,
     .run = get_zcopy_takes_a_vector},
    {"put_list_moves_every_element", .v2_flags = CT_V2_PUT_SGL,
     .run = put_list_moves_every_element},
    {"get_list_moves_every_element", .v2_flags = CT_V2_GET_SGL,
     .run = get_list_moves_every_element},
    {"put_list_may_be_as_long_as_claimed", .v2_flags = CT_V2_PUT_SGL,
     .run = put_list_may_be_as_long_as_claimed},
    {"get_list_may_be_as_long_as_claimed", .v2_flags = CT_V2_GET_SGL,
     .run = get_list_may_be_as_long_as_claimed},
    {"put_list_takes_odd_entries", .v2_flags = CT_V2_PUT_SGL,
     .run = put_list_takes_odd_entries},
    {"get_list_takes_odd_entries", .v2_flags = CT_V2_GET_SGL,
     .run = get_list_takes_odd_entries},
    {"put_list_takes_blocks", .v2_flags = CT_V2_PUT_SGL, .run = put_list_takes_blocks},
    {"get_list_takes_blocks", .v2_flags = CT_V2_GET_SGL, .run = get_list_takes_blocks},
    {"put_list_takes_runs", .v2_flags = CT_V2_PUT_SGL, .run = put_list_takes_runs},
    {"get_list_takes_runs", .v2_flags = CT_V2_GET_SGL, .run = get_list_takes_runs},
    {"put_list_takes_layers", .v2_flags = CT_V2_PUT_SGL, .run = put_list_takes_layers},
    {"get_list_takes_layers", .v2_flags = CT_V2_GET_SGL, .run = get_list_takes_layers},
    {"put_list_repeats_blocks", .v2_flags = CT_V2_PUT_SGL,
     .run = put_list_repeats_blocks},
    {"get_list_repeats_blocks", .v2_flags = CT_V2_GET_SGL,
     .run = get_list_repeats_blocks},
    {"put_list_beyond_the_key_is_an_error", .v2_flags = CT_V2_PUT_SGL,
     .traits = CT_TRAIT_RKEY | CT_TRAIT_CHECKED_KEYS,
     .run = put_list_beyond_the_key_is_an_error},
    {"get_list_beyond_the_key_is_an_error", .v2_flags = CT_V2_GET_SGL,
     .traits = CT_TRAIT_RKEY | CT_TRAIT_CHECKED_KEYS,
     .run = get_list_beyond_the_key_is_an_error},
    {"put_list_longer_than_the_key_is_an_error", .v2_flags = CT_V2_PUT_SGL,
     .traits = CT_TRAIT_RKEY | CT_TRAIT_CHECKED_KEYS,
     .run = put_list_longer_than_the_key_is_an_error},
    {"get_list_longer_than_the_key_is_an_error", .v2_flags = CT_V2_GET_SGL,
     .traits = CT_TRAIT_RKEY | CT_TRAIT_CHECKED_KEYS,
     .run = get_list_longer_than_the_key_is_an_error},
    {"put_list_over_the_limit_is_refused", .v2_flags = CT_V2_PUT_SGL,
     .run = put_list_over_the_limit_is_refused},
    {"get_list_over_the_limit_is_refused", .v2_flags = CT_V2_GET_SGL,
     .run = get_list_over_the_limit_is_refused},
    {"put_list_spans_allocations", .v2_flags = CT_V2_PUT_SGL,
     .run = put_list_spans_allocations},
    {"get_list_spans_allocations", .v2_flags = CT_V2_GET_SGL,
     .run = get_list_spans_allocations},
    {NULL}};
