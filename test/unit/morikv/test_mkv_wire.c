/* SPDX-License-Identifier: BSD-3-Clause */

/* Codecs: decoding returns the encoded values; no bytes make a decoder misbehave. */

#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include "src/wire/codec.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t ids[] = {4, 5, 0xffffffff, 6};

/* Two entries of a STAGE: address, stride, length, count */
static const uint32_t places[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0xffffffff};

/* Nothing, and then byte after byte */
static mkv_msg_t sample(mkv_msg_type_t type)
{
    mkv_msg_t msg = {.type = type,
                     .from = 0x1122334455667788ull,
                     .to = 2,
                     .id = 77,
                     .epoch = 3,
                     .from_nonce = 9,
                     .to_nonce = 8,
                     .mode = MKV_READ,
                     .bytes = 1ull << 40,
                     .code = MKV_ERR_GATE,
                     .is_drained = 1,
                     .value = 5,
                     .header = (const uint8_t *)"head",
                     .header_length = 4,
                     .data = (const uint8_t *)"data!",
                     .length = 5};

    msg.serial = 12;
    msg.plan = 1ull << 50;
    msg.digest = 0xdddddddd11111111ull;
    msg.sel = (mkv_sel_t){.fields = MKV_SEL_LAYERS, .layer_lo = -3, .layer_hi = 9};
    msg.num_units = 2;
    msg.units[0] = (mkv_wire_units_t){1, 4, 4, (const uint8_t *)ids, true, 1ull << 60};
    msg.units[1] = (mkv_wire_units_t){63, 0, 0, NULL, false, 0};
    if (type == MKV_MSG_PULL) {
        msg.units[0].num = 1; /* the four words are a run */
    } else if (type == MKV_MSG_STAGE) {
        msg.data = (const uint8_t *)places;
        msg.length = sizeof(places);
    }
    msg.address = 0xffff000000001000ull;
    strcpy(msg.text, "why");
    return msg;
}

static mkv_wbuf_t encode(mkv_msg_type_t type)
{
    mkv_msg_t msg = sample(type);
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    ck_assert_int_eq(mkv_msg_encode(&msg, &wbuf), MKV_OK);
    mkv_msg_finish(wbuf.data, wbuf.length, 42);
    return wbuf;
}

START_TEST(messages_survive_the_way)
{
    mkv_wbuf_t wbuf = encode((mkv_msg_type_t)_i);
    mkv_msg_t want = sample((mkv_msg_type_t)_i);
    mkv_places_t place;
    mkv_run_t run = {0};
    mkv_msg_t got;

    memset(&got, 1, sizeof(got)); /* earlier contents are no part of it */
    ck_assert_int_eq(mkv_msg_decode(wbuf.data, wbuf.length, &got), MKV_OK);
    ck_assert_int_eq(got.type, want.type);
    ck_assert_uint_eq(got.from, want.from);
    ck_assert_uint_eq(got.to, want.to);
    ck_assert_uint_eq(got.seq, 42);
    if (mkv_msg_is_of_xfer(got.type)) {
        ck_assert_uint_eq(got.id, 77);
        ck_assert_uint_eq(got.epoch, 3);
        ck_assert_uint_eq(got.from_nonce, 9);
        ck_assert_uint_eq(got.to_nonce, 8);
    }
    switch (_i) {
    case MKV_MSG_EXPOSE:
        ck_assert_uint_eq(got.mode, MKV_READ);
        ck_assert_uint_eq(got.num_units, 2);
        ck_assert_uint_eq(got.units[0].num, 4);
        ck_assert_uint_eq(got.units[0].expect, 4);
        ck_assert_uint_eq(mkv_wire_word(got.units[0].ids, 2), 0xffffffff);
        ck_assert_uint_eq(got.units[1].component, 63);
        ck_assert_mem_eq(got.data, "data!", 5);
        break;
    case MKV_MSG_FIN:
        ck_assert_uint_eq(got.bytes, 1ull << 40);
        ck_assert_uint_eq(got.units[0].num, 4);
        ck_assert(got.units[0].has_sum && !got.units[1].has_sum);
        ck_assert_uint_eq(got.units[0].sum, 1ull << 60);
        ck_assert_uint_eq(got.length, 5);
        ck_assert_mem_eq(got.data, "data!", 5);
        break;
    case MKV_MSG_TERM:
        ck_assert_int_eq(got.code, MKV_ERR_GATE);
        ck_assert_int_eq(got.is_drained, 1);
        ck_assert_str_eq(got.text, "why");
        break;
    case MKV_MSG_PULL:
        mkv_wire_run(got.units[0].ids, 0, &run);
        ck_assert_uint_eq(got.serial, 12);
        ck_assert_uint_eq(got.plan, 1ull << 50);
        ck_assert_uint_eq(got.digest, 0xdddddddd11111111ull);
        ck_assert_uint_eq(got.bytes, 1ull << 40);
        ck_assert_int_eq(got.sel.layer_lo, -3);
        ck_assert_int_eq(got.sel.layer_hi, 9);
        ck_assert_uint_eq(got.sel.fields, MKV_SEL_LAYERS);
        ck_assert_uint_eq(run.local, 4);
        ck_assert_uint_eq(run.remote, 5);
        ck_assert_uint_eq(run.count, 0xffffffff);
        ck_assert_uint_eq(run.pos, 6);
        ck_assert_uint_eq(got.units[0].expect, 0);
        ck_assert_uint_eq(got.units[1].component, 63);
        break;
    case MKV_MSG_PULLED:
        ck_assert_uint_eq(got.serial, 12);
        ck_assert_int_eq(got.code, MKV_ERR_GATE);
        ck_assert_uint_eq(got.bytes, 1ull << 40);
        break;
    case MKV_MSG_ARRIVED:
        ck_assert_uint_eq(got.value, 5);
        break;
    case MKV_MSG_STAGE:
        ck_assert_uint_eq(got.serial, 12);
        ck_assert_uint_eq(got.value, 5);
        ck_assert_uint_eq(got.bytes, 1ull << 40);
        ck_assert_uint_eq(got.length, 2 * MKV_PLACES_BYTES);
        mkv_wire_places(&got, 1, &place);
        ck_assert_uint_eq(place.address, (8ull << 32) | 7);
        ck_assert_uint_eq(place.stride, (10ull << 32) | 9);
        ck_assert_uint_eq(place.length, 11);
        ck_assert_uint_eq(place.count, 0xffffffff);
        break;
    case MKV_MSG_STAGED:
        ck_assert_uint_eq(got.serial, 12);
        ck_assert_int_eq(got.code, MKV_ERR_GATE);
        ck_assert_uint_eq(got.address, 0xffff000000001000ull);
        ck_assert_uint_eq(got.bytes, 1ull << 40);
        ck_assert_uint_eq(got.length, 5);
        ck_assert_mem_eq(got.data, "data!", 5);
        break;
    case MKV_MSG_REQUEST:
        ck_assert_uint_eq(got.mode, MKV_READ);
        ck_assert_mem_eq(got.data, "data!", 5);
        break;
    case MKV_MSG_NOTE:
        ck_assert_uint_eq(got.id, 77);
        ck_assert_uint_eq(got.mode, MKV_READ);
        ck_assert_int_eq(got.code, MKV_ERR_GATE);
        ck_assert_uint_eq(got.bytes, 1ull << 40);
        ck_assert_mem_eq(got.data, "data!", 5);
        break;
    case MKV_MSG_USER:
        ck_assert_uint_eq(got.value, 5);
        ck_assert_mem_eq(got.header, "head", 4);
        ck_assert_mem_eq(got.data, "data!", 5);
        break;
    }
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* Absent fields are cleared: a previous message may have been decoded into the same
 * place */
START_TEST(absent_fields_of_a_message_are_zero)
{
    mkv_wbuf_t wbuf = encode(MKV_MSG_BIND);
    mkv_msg_t got;

    memset(&got, 1, sizeof(got));
    ck_assert_int_eq(mkv_msg_decode(wbuf.data, wbuf.length, &got), MKV_OK);
    ck_assert_uint_eq(got.num_units, 0);
    ck_assert_uint_eq(got.bytes, 0);
    ck_assert_int_eq(got.code, MKV_OK);
    ck_assert(!got.is_drained && !got.is_answer);
    ck_assert_str_eq(got.text, "");
    ck_assert_uint_eq(got.value, 0);
    ck_assert(got.header == NULL && got.data == NULL);
    ck_assert_uint_eq(got.header_length + got.length, 0);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* Exact copies, so that the sanitizers and valgrind see the first byte too far */
static mkv_status_t decode_copy(const void *data, size_t length)
{
    uint8_t *copy = malloc(length + (length == 0));
    mkv_status_t status;
    mkv_msg_t msg;

    memcpy(copy, data, length);
    status = mkv_msg_decode(copy, length, &msg);
    free(copy);
    return status;
}

START_TEST(cut_messages_are_refused)
{
    mkv_wbuf_t wbuf = encode((mkv_msg_type_t)_i);
    size_t length;

    for (length = 0; length < wbuf.length; ++length) {
        ck_assert_int_ne(decode_copy(wbuf.data, length), MKV_OK);
    }
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

START_TEST(a_flipped_bit_is_refused)
{
    mkv_wbuf_t wbuf = encode((mkv_msg_type_t)_i);
    size_t bit;

    for (bit = 0; bit < wbuf.length * 8; ++bit) {
        wbuf.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (bit / 8 != 5) { /* the minor version may be newer */
            ck_assert_int_ne(decode_copy(wbuf.data, wbuf.length), MKV_OK);
        }
        wbuf.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* The checksum is correct, so that the bodies are parsed */
/* SM-03, WR-02 */
START_TEST(any_bytes_are_survived)
{
    int rounds = (getenv("MKV_UNDER_VALGRIND") != NULL) ? 20000 : 300000;
    uint64_t state = (uint64_t)_i + 1;
    mkv_wbuf_t wbuf;
    size_t length, at;
    int i, k;

    for (i = 0; i < rounds / (MKV_MSG_LAST - 1); ++i) {
        wbuf = encode((mkv_msg_type_t)_i);
        for (k = 0; k < 1 + i % 6; ++k) {
            at = MKV_MSG_HEADER_SIZE +
                 mkv_test_random(&state) % (wbuf.length - MKV_MSG_HEADER_SIZE + 1);
            if (at < wbuf.length) {
                wbuf.data[at] = (uint8_t)mkv_test_random(&state);
            }
        }
        length = wbuf.length;
        if ((i % 3 == 0) && (length > MKV_MSG_HEADER_SIZE)) {
            length -= mkv_test_random(&state) % (length - MKV_MSG_HEADER_SIZE);
        }
        wbuf.data[28] = (uint8_t)(length - MKV_MSG_HEADER_SIZE);
        wbuf.data[29] = (uint8_t)((length - MKV_MSG_HEADER_SIZE) >> 8);
        mkv_msg_finish(wbuf.data, length, 1);
        (void)decode_copy(wbuf.data, length);
        mkv_wbuf_cleanup(&wbuf);
    }
}
END_TEST

/* Invalid value that no correct sender sends; a field of 0 stays unchanged */
typedef struct lie {
    mkv_msg_type_t type;
    uint32_t mode, component;
    int32_t code;
    bool has_code, has_no_nonce, has_no_plan, has_no_sender, is_longer;
} lie_t;

#define LIE_OF_CODE(_type, _code) {.type = (_type), .code = (_code), .has_code = true}

static const lie_t lies[] = {
    {.type = MKV_MSG_BIND, .has_no_nonce = true},
    {.type = MKV_MSG_BIND, .has_no_sender = true},
    {.type = MKV_MSG_BIND, .is_longer = true},
    {.type = MKV_MSG_EXPOSE, .mode = MKV_READ + 1},
    {.type = MKV_MSG_EXPOSE, .component = MKV_MAX_COMPONENTS},
    {.type = MKV_MSG_FIN, .component = MKV_MAX_COMPONENTS},
    {.type = MKV_MSG_PULL, .component = MKV_MAX_COMPONENTS},
    {.type = MKV_MSG_PULL, .has_no_plan = true},
    {.type = MKV_MSG_NOTE, .mode = MKV_READ + 1},
    {.type = MKV_MSG_REQUEST, .mode = MKV_READ + 1},
    LIE_OF_CODE(MKV_MSG_NOTE, 1),
    LIE_OF_CODE(MKV_MSG_TERM, MKV_OK),
    LIE_OF_CODE(MKV_MSG_PULLED, 1),
    LIE_OF_CODE(MKV_MSG_STAGED, 1),
};

#define NUM_LIES (sizeof(lies) / sizeof(lies[0]))

static mkv_msg_t sample_with_lie(const lie_t *lie)
{
    mkv_msg_t msg = sample(lie->type);

    msg.mode = (lie->mode != 0) ? lie->mode : msg.mode;
    msg.units[1].component =
        (lie->component != 0) ? lie->component : msg.units[1].component;
    msg.code = lie->has_code ? lie->code : msg.code;
    msg.from_nonce = lie->has_no_nonce ? 0 : msg.from_nonce;
    msg.plan = lie->has_no_plan ? 0 : msg.plan;
    msg.from = lie->has_no_sender ? 0 : msg.from;
    return msg;
}

START_TEST(values_out_of_range_are_refused)
{
    mkv_msg_t msg = sample_with_lie(&lies[_i]);
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    ck_assert_int_eq(mkv_msg_encode(&msg, &wbuf), MKV_OK);
    if (lies[_i].is_longer) {
        mkv_wbuf_put_u8(&wbuf, 0);
    }
    mkv_msg_finish(wbuf.data, wbuf.length, 42);
    ck_assert_int_eq(decode_copy(wbuf.data, wbuf.length), MKV_ERR_PROTOCOL);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* The message ends behind the number, so that nothing but the number is wrong.
 * Loop index: the type, where its number is behind the transfer's 28 bytes, its size */
START_TEST(more_components_than_there_can_be_are_refused)
{
    static const struct {
        mkv_msg_type_t type;
        size_t at;
        unsigned size;
    } numbers[] = {{MKV_MSG_EXPOSE, 1, 4}, {MKV_MSG_FIN, 8, 1}, {MKV_MSG_PULL, 56, 4}};
    const unsigned size = numbers[_i].size;
    const size_t at = MKV_MSG_HEADER_SIZE + 28 + numbers[_i].at;
    mkv_wbuf_t wbuf = encode(numbers[_i].type);

    ck_assert_uint_eq(mkv_wire_load(wbuf.data + at, size), 2);
    mkv_wire_store(wbuf.data + at, MKV_MAX_COMPONENTS + 1, size);
    wbuf.length = at + size;
    mkv_wire_store(wbuf.data + 28, wbuf.length - MKV_MSG_HEADER_SIZE, 4);
    mkv_msg_finish(wbuf.data, wbuf.length, 42);
    ck_assert_int_eq(decode_copy(wbuf.data, wbuf.length), MKV_ERR_PROTOCOL);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* The units are all there, so that nothing but their number is wrong */
START_TEST(a_fin_of_more_components_than_there_can_be_is_refused)
{
    const size_t at = MKV_MSG_HEADER_SIZE + 28 + 8;
    const uint8_t units[13] = {1}; /* component, number, sum */
    mkv_wbuf_t wbuf = encode(MKV_MSG_FIN);
    unsigned i;

    wbuf.length = at;
    mkv_wbuf_put_u8(&wbuf, MKV_MAX_COMPONENTS + 1);
    for (i = 0; i <= MKV_MAX_COMPONENTS; ++i) {
        mkv_wbuf_put(&wbuf, units, sizeof(units));
    }
    mkv_wire_store(wbuf.data + 28, wbuf.length - MKV_MSG_HEADER_SIZE, 4);
    mkv_msg_finish(wbuf.data, wbuf.length, 42);
    ck_assert_int_eq(decode_copy(wbuf.data, wbuf.length), MKV_ERR_PROTOCOL);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* Its text is the last thing in the message. Loop index: bytes beyond the room */
START_TEST(a_text_is_cut_to_its_room)
{
    mkv_msg_t got, msg = sample(MKV_MSG_TERM);
    const size_t room = sizeof(got.text) - 1, length = room + (size_t)_i;
    mkv_wbuf_t wbuf;
    size_t i;

    mkv_wbuf_init(&wbuf);
    msg.text[0] = '\0';
    ck_assert_int_eq(mkv_msg_encode(&msg, &wbuf), MKV_OK);
    mkv_wire_store(wbuf.data + wbuf.length - 2, length, 2);
    for (i = 0; i < length; ++i) {
        mkv_wbuf_put_u8(&wbuf, (uint8_t)((i % 2 == 0) ? 'x' : '\n'));
    }
    mkv_wire_store(wbuf.data + 28, wbuf.length - MKV_MSG_HEADER_SIZE, 4);
    mkv_msg_finish(wbuf.data, wbuf.length, 42);
    ck_assert_int_eq(mkv_msg_decode(wbuf.data, wbuf.length, &got), MKV_OK);
    ck_assert_uint_eq(strlen(got.text), room);
    ck_assert_uint_eq(strspn(got.text, "x?"), room);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* MD-11, WR-01 */
START_TEST(another_major_version_is_refused_as_such)
{
    mkv_wbuf_t wbuf = encode(MKV_MSG_BIND);

    wbuf.data[4] = MKV_WIRE_MAJOR + 1;
    mkv_msg_finish(wbuf.data, wbuf.length, 1);
    ck_assert_int_eq(decode_copy(wbuf.data, wbuf.length), MKV_ERR_VERSION);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* Loop index: the message */
START_TEST(a_status_of_a_later_version_is_taken)
{
    static const mkv_msg_type_t types[] = {MKV_MSG_TERM, MKV_MSG_NOTE, MKV_MSG_PULLED,
                                           MKV_MSG_STAGED};
    mkv_msg_t msg = sample(types[_i]), got;
    mkv_wbuf_t wbuf;

    msg.code = MKV_ERR_LAST - 5;
    mkv_wbuf_init(&wbuf);
    ck_assert_int_eq(mkv_msg_encode(&msg, &wbuf), MKV_OK);
    mkv_msg_finish(wbuf.data, wbuf.length, 42);
    ck_assert_int_eq(mkv_msg_decode(wbuf.data, wbuf.length, &got), MKV_OK);
    ck_assert_int_eq(got.code, MKV_ERR_LAST - 5);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* Loop index: whether the message may be skipped. Its content is unknown. */
/* SM-03, WR-01 */
START_TEST(a_type_of_a_later_version_is_skipped_or_refused)
{
    mkv_wbuf_t wbuf = encode(MKV_MSG_BIND);
    mkv_msg_t msg;

    ck_assert_uint_eq(wbuf.data[7], 0);
    wbuf.data[6] = MKV_MSG_LAST;
    wbuf.data[7] = _i ? MKV_MSG_MAY_SKIP >> 8 : 0;
    mkv_msg_finish(wbuf.data, wbuf.length, 42);
    ck_assert_int_eq(mkv_msg_decode(wbuf.data, wbuf.length, &msg),
                     _i ? MKV_OK : MKV_ERR_VERSION);
    ck_assert_int_eq(msg.type, MKV_MSG_SKIPPED);
    ck_assert_uint_eq(msg.seq, 42);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* SM-03 */
START_TEST(the_place_of_a_corrupt_message_is_reported)
{
    mkv_wbuf_t wbuf = encode(MKV_MSG_EXPOSE);
    mkv_msg_t msg;

    wbuf.data[wbuf.length - 1] ^= 1;
    ck_assert_int_eq(mkv_msg_decode(wbuf.data, wbuf.length, &msg), MKV_ERR_PROTOCOL);
    memset(&msg, 0, sizeof(msg));
    ck_assert_int_eq(mkv_msg_peek(wbuf.data, MKV_MSG_HEADER_SIZE, &msg), 1);
    ck_assert_uint_eq(msg.from, 0x1122334455667788ull);
    ck_assert_uint_eq(msg.to, 2);
    ck_assert_uint_eq(msg.seq, 42);
    ck_assert_int_eq(mkv_msg_peek(wbuf.data, MKV_MSG_HEADER_SIZE - 1, &msg), 0);
    wbuf.data[0] ^= 1;
    ck_assert_int_eq(mkv_msg_peek(wbuf.data, wbuf.length, &msg), 0);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* Items that a later version adds to FIN are skipped. Loop index: beside one of ours */
/* WR-01 */
START_TEST(items_of_a_later_version_in_fin_are_skipped)
{
    mkv_msg_t msg = sample(MKV_MSG_FIN);
    mkv_wbuf_t wbuf;

    msg.length = _i ? 5 : 0;
    mkv_wbuf_init(&wbuf);
    ck_assert_int_eq(mkv_msg_encode(&msg, &wbuf), MKV_OK);
    mkv_wbuf_put_u32(&wbuf, 4711);
    mkv_wbuf_put_u32(&wbuf, 3);
    mkv_wbuf_put(&wbuf, "new", 3);
    mkv_wire_store(wbuf.data + 28, wbuf.length - MKV_MSG_HEADER_SIZE, 4);
    mkv_msg_finish(wbuf.data, wbuf.length, 1);
    ck_assert_int_eq(mkv_msg_decode(wbuf.data, wbuf.length, &msg), MKV_OK);
    ck_assert_uint_eq(msg.length, _i ? 5 : 0);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* An element of UCX's shared memory transports (FIFO_ELEM_SIZE, 128 bytes) has room for
 * a message of 100 bytes, of which UCP takes 8 */
START_TEST(a_fin_of_one_component_travels_in_one_piece)
{
    mkv_msg_t msg = sample(MKV_MSG_FIN);
    mkv_wbuf_t wbuf;

    msg.length = 0;
    msg.num_units = 1;
    mkv_wbuf_init(&wbuf);
    ck_assert_int_eq(mkv_msg_encode(&msg, &wbuf), MKV_OK);
    ck_assert_uint_le(wbuf.length, 100 - 8);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* ---- Blobs ----------------------------------------------------------------------- */

static mkv_wire_mem_t mems[] = {
    {.id = 1, .mem_type = 0, .base = 4096, .length = 8192, .rkey_length = 3},
    {.id = 9, .mem_type = 3, .base = 1 << 20, .length = 1 << 20, .rkey_length = 1}};
static mkv_wire_region_t regions[] = {{.id = 3,
                                       .component = 2,
                                       .layer = -1,
                                       .part = 1,
                                       .mem = 1,
                                       .base = 1 << 20,
                                       .length = 65536,
                                       .unit_bytes = 100,
                                       .unit_stride = 128,
                                       .n_units = 512},
                                      {.id = 4,
                                       .component = 0,
                                       .layer = 60,
                                       .mem = 0,
                                       .base = 8192,
                                       .length = 4096,
                                       .unit_bytes = 4096,
                                       .unit_stride = 4096,
                                       .n_units = 1,
                                       .dtype = 7}};

static mkv_blob_info_t sample_blob(int has_regions)
{
    mkv_blob_info_t info = {.process = {1, 2, 4, {5, 6, 7, 8}},
                            .name = "prefill 0",
                            .address = (const uint8_t *)"address",
                            .address_length = 7,
                            .topology = {0, 1, 1, 2, 0, 1, 3, 8, {0}},
                            .page_tokens = 16,
                            .model = 99,
                            .epoch = 6,
                            .connection = has_regions ? 8 : 0,
                            .max_message = 1ull << 33,
                            .features = 1ull << 40 | 5,
                            .has_regions = has_regions,
                            .mems = mems,
                            .num_mems = has_regions ? 2 : 0,
                            .regions = regions,
                            .num_regions = has_regions ? 2 : 0};

    mems[0].rkey = (const uint8_t *)"key";
    mems[1].rkey = (const uint8_t *)"k";
    return info;
}

static mkv_wbuf_t encode_info(const mkv_blob_info_t *info)
{
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    ck_assert_int_eq(mkv_blob_encode(info, &wbuf), MKV_OK);
    return wbuf;
}

static mkv_wbuf_t encode_blob(int has_regions)
{
    mkv_blob_info_t info = sample_blob(has_regions);

    return encode_info(&info);
}

/* MD-01, WR-01 */
START_TEST(blobs_survive_the_way)
{
    mkv_wbuf_t wbuf = encode_blob(_i);
    mkv_blob_info_t info;

    ck_assert_int_eq(mkv_blob_decode(wbuf.data, wbuf.length, &info), MKV_OK);
    ck_assert_uint_eq(info.process.ctx_id, 1);
    ck_assert_uint_eq(info.process.pid, 4);
    ck_assert_uint_eq(info.process.spaces.shm, 5);
    ck_assert_uint_eq(info.process.spaces.network, 6);
    ck_assert_uint_eq(info.process.spaces.pids, 7);
    ck_assert_uint_eq(info.process.spaces.user, 8);
    ck_assert_str_eq(info.name, "prefill 0");
    ck_assert_mem_eq(info.address, "address", 7);
    ck_assert_uint_eq(info.topology.tp_rank, 3);
    ck_assert_uint_eq(info.topology.tp_size, 8);
    ck_assert_uint_eq(info.page_tokens, 16);
    ck_assert_uint_eq(info.model, 99);
    ck_assert_uint_eq(info.features, 1ull << 40 | 5);
    ck_assert_int_eq(info.has_regions, _i);
    ck_assert_uint_eq(info.connection, _i ? 8 : 0); /* a blob for any peer has none */
    ck_assert_uint_eq(info.max_message, _i ? 1ull << 33 : 0);
    if (_i) {
        ck_assert_uint_eq(info.epoch, 6);
        ck_assert_uint_eq(info.num_regions, 2);
        ck_assert_int_eq(info.regions[0].layer, -1);
        ck_assert_uint_eq(info.regions[0].unit_stride, 128);
        ck_assert_uint_eq(info.regions[1].dtype, 7);
        ck_assert_uint_eq(info.mems[1].mem_type, 3);
        ck_assert_mem_eq(info.mems[0].rkey, "key", 3);
    }
    mkv_blob_info_cleanup(&info);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

static mkv_status_t decode_blob(const uint8_t *data, size_t length)
{
    uint8_t *copy = malloc(length + (length == 0));
    mkv_blob_info_t info;
    mkv_status_t status;

    memcpy(copy, data, length);
    status = mkv_blob_decode(copy, length, &info);
    if (status == MKV_OK) {
        mkv_blob_info_cleanup(&info);
    }
    free(copy);
    return status;
}

/* MD-11 */
START_TEST(cut_or_altered_blobs_are_refused)
{
    mkv_wbuf_t wbuf = encode_blob(1);
    size_t i;

    for (i = 0; i < wbuf.length; ++i) {
        ck_assert_int_ne(decode_blob(wbuf.data, i), MKV_OK);
    }
    for (i = 0; i < wbuf.length; ++i) {
        wbuf.data[i] ^= 0x10;
        if ((i < 5) || (i > 7)) { /* minor version and padding may be anything */
            ck_assert_int_ne(decode_blob(wbuf.data, wbuf.length), MKV_OK);
        }
        wbuf.data[i] ^= 0x10;
    }
    wbuf.data[4] = MKV_WIRE_MAJOR + 1;
    ck_assert_int_eq(decode_blob(wbuf.data, wbuf.length), MKV_ERR_VERSION);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* An item that this version does not know at the end of a blob, as a later one may
 * write it */
static void sign_blob(mkv_wbuf_t *wbuf)
{
    mkv_wire_store(wbuf->data + 8, wbuf->length, 4);
    mkv_wire_store(wbuf->data + 12,
                   mkv_wire_checksum(wbuf->length, wbuf->data + 20, wbuf->length - 20),
                   8);
}

static void add_item(mkv_wbuf_t *wbuf, uint16_t flags)
{
    mkv_wbuf_put_u16(wbuf, 200);
    mkv_wbuf_put_u16(wbuf, flags);
    mkv_wbuf_put_u32(wbuf, 3);
    mkv_wbuf_put(wbuf, "new", 3);
    wbuf->data[5] = MKV_WIRE_MINOR + 1;
    sign_blob(wbuf);
}

/* The first item, with which an honest blob begins, is there again; or is all there is
 */
START_TEST(items_are_there_once)
{
    mkv_wbuf_t wbuf = encode_blob(1);
    uint8_t item[256];
    size_t length = 8 + mkv_wire_load(wbuf.data + 24, 4);

    ck_assert_uint_le(length, sizeof(item));
    memcpy(item, wbuf.data + 20, length);
    mkv_wbuf_put(&wbuf, item, length);
    sign_blob(&wbuf);
    ck_assert_int_eq(decode_blob(wbuf.data, wbuf.length), MKV_ERR_PROTOCOL);
    wbuf.length = 20 + length;
    sign_blob(&wbuf);
    ck_assert_int_eq(decode_blob(wbuf.data, wbuf.length), MKV_ERR_PROTOCOL);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

static size_t find_item(const mkv_wbuf_t *wbuf, unsigned type)
{
    size_t at = 20;

    while (mkv_wire_load(wbuf->data + at, 2) != type) {
        at += 8 + mkv_wire_load(wbuf->data + at + 4, 4);
        ck_assert_uint_lt(at, wbuf->length);
    }
    return at;
}

/* More records than the bytes behind the number can be, of which none is allocated.
 * Loop index: registrations, regions */
START_TEST(arrays_are_no_longer_than_their_item)
{
    mkv_wbuf_t wbuf = encode_blob(1);
    size_t at = find_item(&wbuf, 7 + (unsigned)_i);

    mkv_wire_store(wbuf.data + at + 8, UINT32_MAX, 4);
    sign_blob(&wbuf);
    ck_assert_int_eq(decode_blob(wbuf.data, wbuf.length), MKV_ERR_PROTOCOL);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* The last item. Loop index: of fewer regions than there are, or of more */
START_TEST(shapes_are_of_all_regions)
{
    const mkv_wire_shape_t shape = {
        .outer = 1, .inner_bytes = 25, .num_groups = 1, .groups = {4}, .size = 1};
    uint8_t record[64];
    size_t at, length;
    mkv_wbuf_t wbuf;

    regions[0].shape = regions[1].shape = shape;
    wbuf = encode_blob(1);
    regions[0].shape = regions[1].shape = (mkv_wire_shape_t){.size = 0};
    ck_assert_int_eq(decode_blob(wbuf.data, wbuf.length), MKV_OK);
    at = find_item(&wbuf, 12);
    length = 4 + mkv_wire_load(wbuf.data + at + 12, 4);
    ck_assert_uint_eq(at + 12 + 2 * length, wbuf.length);
    if (_i) {
        memcpy(record, wbuf.data + at + 12, length);
        mkv_wbuf_put(&wbuf, record, length);
    } else {
        wbuf.length -= length;
    }
    mkv_wire_store(wbuf.data + at + 4, wbuf.length - at - 8, 4);
    mkv_wire_store(wbuf.data + at + 8, _i ? 3 : 1, 4);
    sign_blob(&wbuf);
    ck_assert_int_eq(decode_blob(wbuf.data, wbuf.length), MKV_ERR_PROTOCOL);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

/* Loop index: the item is marked as one that must be understood */
/* MD-01, MD-11, WR-01 */
START_TEST(items_of_a_later_version_are_skipped_unless_critical)
{
    mkv_wbuf_t wbuf = encode_blob(1);

    add_item(&wbuf, (uint16_t)_i);
    ck_assert_int_eq(decode_blob(wbuf.data, wbuf.length),
                     _i ? MKV_ERR_VERSION : MKV_OK);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

static void expect_refused(const mkv_blob_info_t *info)
{
    mkv_wbuf_t wbuf = encode_info(info);

    ck_assert_int_eq(decode_blob(wbuf.data, wbuf.length), MKV_ERR_PROTOCOL);
    mkv_wbuf_cleanup(&wbuf);
}

/* A region outside its registration, units outside their region */
/* MD-11 */
START_TEST(lying_blobs_are_refused)
{
    const mkv_blob_info_t info = sample_blob(1);
    const mkv_wire_region_t good = regions[0];
    const uint64_t length = mems[1].length;
    mkv_wire_region_t bad[15];
    size_t i;

    for (i = 0; i < 15; ++i) {
        bad[i] = good;
    }
    bad[0].base = (1 << 21) - 65535; /* ends one byte behind its mem */
    bad[1].n_units = 513;            /* ends behind its length */
    bad[2].unit_stride = 99;         /* overlaps */
    bad[3].mem = 2;                  /* no such mem */
    bad[4].base = UINT64_MAX - 100;  /* wraps */
    bad[5].component = MKV_MAX_COMPONENTS;
    bad[6].unit_bytes = 0;
    bad[7].unit_stride = UINT64_MAX / 2;
    bad[8].length = (1 << 20) + 1; /* longer than its mem */
    bad[9].id = 0;
    bad[10].n_units = 0;
    bad[11].base = (1 << 20) - 1; /* begins one byte before its mem */
    bad[12].unit_bytes = bad[12].unit_stride = 65537; /* one unit, longer than it */
    bad[12].n_units = 1;
    bad[13].length = 4; /* its only unit ends behind it */
    bad[13].n_units = 1;
    bad[14].unit_bytes = bad[14].unit_stride =
        1; /* more than a number of a unit can be */
    bad[14].length = bad[14].n_units = 1ull << 33;
    for (i = 0; i < 15; ++i) {
        regions[0] = bad[i];
        mems[1].length = (i == 14) ? 1ull << 33 : length;
        expect_refused(&info);
    }
    regions[0] = good;
    mems[1].length = length;
}
END_TEST

/* Each blob has one defect: no identity, no address, or no rank */
START_TEST(blobs_without_identity_or_rank_are_refused)
{
    mkv_blob_info_t bad[6];
    size_t i;

    for (i = 0; i < 6; ++i) {
        bad[i] = sample_blob(1);
    }
    bad[0].process.ctx_id = 0;
    bad[1].address_length = 0;
    bad[2].topology.dp_rank = 1;
    bad[3].topology.pp_rank = 2;
    bad[4].topology.cp_rank = 1;
    bad[5].topology.tp_rank = 8;
    for (i = 0; i < 6; ++i) {
        expect_refused(&bad[i]);
    }
}
END_TEST

START_TEST(registrations_that_cannot_be_are_refused)
{
    static const uint8_t key[MKV_MAX_RKEY_SIZE + 1];
    const mkv_blob_info_t info = sample_blob(1);
    const mkv_wire_mem_t good = mems[1];
    size_t i;

    for (i = 0; i < 3; ++i) {
        mems[1] = good;
        mems[1].id = (i == 0) ? 0 : good.id;
        mems[1].length = (i == 1) ? UINT64_MAX - good.base + 1 : good.length;
        if (i == 2) {
            mems[1].rkey = key;
            mems[1].rkey_length = sizeof(key);
        }
        expect_refused(&info);
    }
    mems[1] = good;
}
END_TEST

START_TEST(regions_of_a_type_of_memory_of_a_later_ucx_are_left_out)
{
    const mkv_blob_info_t info = sample_blob(1);
    const uint32_t type = mems[1].mem_type;
    mkv_blob_info_t got;
    mkv_wbuf_t wbuf;

    mems[1].mem_type = UCS_MEMORY_TYPE_LAST;
    wbuf = encode_info(&info);
    mems[1].mem_type = type;
    ck_assert_int_eq(mkv_blob_decode(wbuf.data, wbuf.length, &got), MKV_OK);
    ck_assert_uint_eq(got.num_regions, 1);
    ck_assert_uint_eq(got.regions[0].id, regions[1].id);
    mkv_blob_info_cleanup(&got);
    mkv_wbuf_cleanup(&wbuf);
}
END_TEST

START_TEST(shapes_that_cannot_be_are_refused)
{
    const mkv_wire_shape_t good = {
        .outer = 1, .inner_bytes = 25, .num_groups = 1, .groups = {4}, .size = 1};
    const mkv_blob_info_t info = sample_blob(1);
    mkv_wbuf_t wbuf;
    size_t i, at;

    for (i = 0; i < 4; ++i) {
        regions[0].shape = regions[1].shape = good;
        regions[0].shape.rank = (i == 0) ? 1 : 0;
        regions[0].shape.size = (i == 1) ? MKV_MAX_SHARDS + 1 : 1;
        regions[0].shape.groups[0] = (i == 2) ? 0 : 4;
        if (i < 3) {
            expect_refused(&info);
        }
    }
    wbuf = encode_info(&info);
    at = find_item(&wbuf, 12) + 12; /* more groups than there is room for */
    mkv_wire_store(wbuf.data + at + 28, 1u << 20, 4);
    sign_blob(&wbuf);
    ck_assert_int_eq(decode_blob(wbuf.data, wbuf.length), MKV_ERR_PROTOCOL);
    mkv_wbuf_cleanup(&wbuf);
    regions[0].shape = regions[1].shape = (mkv_wire_shape_t){.size = 0};
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mkv_wire");
    TCase *tcase = tcase_create("wire");
    SRunner *runner;
    int num_failed;

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, messages_survive_the_way, 1, MKV_MSG_LAST);
    tcase_add_test(tcase, absent_fields_of_a_message_are_zero);
    tcase_add_loop_test(tcase, cut_messages_are_refused, 1, MKV_MSG_LAST);
    tcase_add_loop_test(tcase, a_flipped_bit_is_refused, 1, MKV_MSG_LAST);
    tcase_add_loop_test(tcase, any_bytes_are_survived, 1, MKV_MSG_LAST);
    tcase_add_loop_test(tcase, items_of_a_later_version_in_fin_are_skipped, 0, 2);
    tcase_add_test(tcase, a_fin_of_one_component_travels_in_one_piece);
    tcase_add_loop_test(tcase, values_out_of_range_are_refused, 0, (int)NUM_LIES);
    tcase_add_loop_test(tcase, more_components_than_there_can_be_are_refused, 0, 3);
    tcase_add_test(tcase, a_fin_of_more_components_than_there_can_be_is_refused);
    tcase_add_loop_test(tcase, a_text_is_cut_to_its_room, 0, 3);
    tcase_add_test(tcase, another_major_version_is_refused_as_such);
    tcase_add_loop_test(tcase, a_type_of_a_later_version_is_skipped_or_refused, 0, 2);
    tcase_add_loop_test(tcase, a_status_of_a_later_version_is_taken, 0, 4);
    tcase_add_test(tcase, the_place_of_a_corrupt_message_is_reported);
    tcase_add_loop_test(tcase, blobs_survive_the_way, 0, 2);
    tcase_add_loop_test(tcase, items_of_a_later_version_are_skipped_unless_critical, 0,
                        2);
    tcase_add_test(tcase, cut_or_altered_blobs_are_refused);
    tcase_add_test(tcase, items_are_there_once);
    tcase_add_loop_test(tcase, arrays_are_no_longer_than_their_item, 0, 2);
    tcase_add_loop_test(tcase, shapes_are_of_all_regions, 0, 2);
    tcase_add_test(tcase, lying_blobs_are_refused);
    tcase_add_test(tcase, blobs_without_identity_or_rank_are_refused);
    tcase_add_test(tcase, registrations_that_cannot_be_are_refused);
    tcase_add_test(tcase, regions_of_a_type_of_memory_of_a_later_ucx_are_left_out);
    tcase_add_test(tcase, shapes_that_cannot_be_are_refused);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return num_failed != 0;
}
