/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Any bytes from a peer: decoders, and a context with transfers that gets messages of
 * every type in any order. Nothing may crash, hang, or misuse UCX; on misuse fake_ucp
 * ends the process.
 *
 * contrib/fuzz builds it with libFuzzer. The other build has a main of its own: the
 * files of the corpus, and as many inputs made from them by a fixed seed
 * (MKV_FUZZ_RUNS).
 *
 * The first byte of an input selects the kind of the rest: 0 an unchanged message, 1 a
 * message whose header is repaired, 2 a blob with its header repaired, 3 and above
 * records of messages for a context: type, kind of address, two bytes of length, a
 * body.
 */

#include "test/fake/ucp/fake_ucp.h"

#include "src/message/inbox.h"
#include "src/peer/peer.h"
#include "src/wire/codec.h"
#include "src/xfer/xfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNITS 16u
#define UNIT_BYTES 64u
#define NUM_XFERS 4u
#define MAX_RECORDS 24u
#define MAX_MESSAGE 4096u
#define XFER_HEADER 28u /* id, epoch and both nonces, at the front of a body */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t memory[2][UNITS * UNIT_BYTES];
static uint64_t now = 1, step; /* of the clock, each time that it is looked at */

static void must(mkv_status_t status, const char *what)
{
    if (status != MKV_OK) {
        fprintf(stderr, "fuzz_mkv: %s: %s\n", what, mkv_last_error());
        abort();
    }
}

/* ---- Decoders -------------------------------------------------------------------- */

static void fix_message(uint8_t *bytes, size_t length)
{
    mkv_wire_store(bytes, 0x4d564b4du, 4);
    bytes[4] = MKV_WIRE_MAJOR;
    bytes[8] |= 1; /* a sender number other than 0 */
    mkv_wire_store(bytes + 28, length - MKV_MSG_HEADER_SIZE, 4);
    mkv_msg_finish(bytes, length, 1);
}

static void fix_blob(uint8_t *bytes, size_t length)
{
    mkv_wire_store(bytes, 0x42564b4du, 4);
    bytes[4] = MKV_WIRE_MAJOR;
    mkv_wire_store(bytes + 8, length, 4);
    mkv_wire_store(bytes + 12, mkv_wire_checksum(length, bytes + 20, length - 20), 8);
}

/* A message that decodes must survive encoding and decoding again unchanged */
static void decode_message(const uint8_t *bytes, size_t length)
{
    mkv_msg_t msg, again;
    mkv_wbuf_t wbuf;

    if ((mkv_msg_decode(bytes, length, &msg) != MKV_OK) ||
        (msg.type == MKV_MSG_SKIPPED)) {
        return;
    }
    mkv_wbuf_init(&wbuf);
    must(mkv_msg_encode(&msg, &wbuf), "encode");
    mkv_msg_finish(wbuf.data, wbuf.length, msg.seq);
    must(mkv_msg_decode(wbuf.data, wbuf.length, &again), "decode again");
    if ((again.type != msg.type) || (again.id != msg.id) || (again.code != msg.code) ||
        (again.length != msg.length) || (again.header_length != msg.header_length)) {
        abort();
    }
    mkv_wbuf_cleanup(&wbuf);
}

static void decode_blob(const uint8_t *bytes, size_t length)
{
    mkv_blob_info_t info;

    if (mkv_blob_decode(bytes, length, &info) == MKV_OK) {
        mkv_blob_info_cleanup(&info);
    }
}

/* ---- A context that gets messages ------------------------------------------------ */

typedef struct side {
    mkv_ctx_t *ctx;
    mkv_region_id_t region;
    mkv_peer_t *peer;
    mkv_map_t *map;
} side_t;

static uint64_t tick(void *arg)
{
    (void)arg;
    now += step;
    return now;
}

static void ignore_log(void *arg, mkv_log_level_t level, const char *text)
{
    (void)arg;
    (void)level;
    (void)text;
}

static void side_open(side_t *side, unsigned index)
{
    mkv_open_params_t params = {
        .size = sizeof(params), .clock_ns = tick, .log = ignore_log};
    mkv_region_t region = {.size = sizeof(region),
                           .flags = MKV_REGION_ONE_SIDED,
                           .base = memory[index],
                           .length = sizeof(memory[0]),
                           .unit_bytes = UNIT_BYTES,
                           .n_units = UNITS};

    (void)setenv("MORIKV_DRAIN_TIMEOUT", "100ms", 1); /* few looks at the clock */
    must(mkv_open(NULL, &params, &side->ctx), "open");
    must(mkv_region_add(side->ctx, &region, &side->region), "region");
    must(mkv_regions_commit(side->ctx, NULL), "commit");
}

static void run(side_t *sides)
{
    mkv_event_t events[16];
    unsigned i, moved;
    size_t count;

    do {
        for (moved = 0, i = 0; i < 2; ++i) {
            moved += mkv_progress(sides[i].ctx);
            must(mkv_poll(sides[i].ctx, events, sizeof(events[0]), 16, &count), "poll");
            moved += (unsigned)count;
            for (; count > 0; --count) {
                if (events[count - 1].type == MKV_EV_PEER_READY) {
                    sides[i].peer = events[count - 1].peer;
                }
            }
        }
    } while (moved > 0);
}

static void connect_sides(side_t *sides)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_peer_t *peer;

    must(mkv_blob(sides[1].ctx, MKV_BLOB_ADDR, blob, &length), "blob");
    must(mkv_peer_add(sides[0].ctx, blob, length, NULL, &peer), "peer");
    run(sides);
    if ((sides[0].peer == NULL) || (sides[1].peer == NULL)) {
        abort();
    }
    must(mkv_map_create(sides[0].peer, NULL, &sides[0].map), "map");
}

/* Open transfers of both modes, active and passive; the passive ones expose their
 * blocks */
static void open_xfers(side_t *side, mkv_xfer_t **xfers)
{
    static const uint32_t blocks[] = {1, 3, 4};
    mkv_units_t units = {.num_local = 3, .local = blocks};
    mkv_xfer_params_t params = {
        .size = sizeof(params), .legs = &side->map, .num_legs = 1};
    unsigned i;

    for (i = 0; i < NUM_XFERS; ++i) {
        params.id = i;
        params.mode = (i & 1) ? MKV_WRITE : MKV_READ;
        params.role = (i & 2) ? MKV_DST : MKV_SRC;
        must(mkv_xfer_open(side->ctx, &params, &xfers[i]), "xfer");
        if (!xfers[i]->is_active) {
            must(mkv_xfer_expose(xfers[i], 0, &units, 1, NULL, 0), "expose");
        }
    }
}

/* Address the message as the peer would: from one of its instances to ours */
static void address(uint8_t *body, size_t length, unsigned how, mkv_xfer_t **xfers)
{
    const mkv_xfer_t *xfer = xfers[how % NUM_XFERS];

    if ((length < XFER_HEADER) || !(how & 0x80)) {
        return;
    }
    mkv_wire_store(body, xfer->id, 8);
    mkv_wire_store(body + 8, xfer->epoch, 4);
    mkv_wire_store(body + 12, 1000 + (how >> 4 & 3), 8);
    mkv_wire_store(body + 20, (how & 0x40) ? 0 : xfer->nonce, 8);
}

static void deliver(side_t *side, const uint8_t *record, size_t length,
                    mkv_xfer_t **xfers)
{
    uint8_t bytes[MKV_MSG_HEADER_SIZE + MAX_MESSAGE] = {0};
    unsigned type = 1 + record[0] % (MKV_MSG_LAST - 1);

    if ((type == MKV_MSG_HELLO) || (type == MKV_MSG_HELLO_ACK) ||
        (type == MKV_MSG_REGIONS)) {
        return; /* UCX unpacks any bytes: mode 2 has their blobs */
    }
    memcpy(bytes + MKV_MSG_HEADER_SIZE, record + 4, length);
    address(bytes + MKV_MSG_HEADER_SIZE, length, record[1], xfers);
    fix_message(bytes, MKV_MSG_HEADER_SIZE + length);
    mkv_wire_store(bytes + 6, type, 2);
    mkv_wire_store(bytes + 8, side->peer->process.ctx_id, 8);
    mkv_wire_store(bytes + 16, side->ctx->process.ctx_id, 8);
    mkv_msg_finish(bytes, MKV_MSG_HEADER_SIZE + length, side->peer->rx_seq);
    mkv_inbox_receive(side->ctx, bytes, MKV_MSG_HEADER_SIZE + length);
}

static void deliver_all(side_t *side, const uint8_t *data, size_t size,
                        mkv_xfer_t **xfers)
{
    mkv_event_t events[16];
    unsigned i, k;
    size_t length, count;

    for (i = 0; (i < MAX_RECORDS) && (size >= 4); ++i) {
        length = (size_t)(data[2] | data[3] << 8) % MAX_MESSAGE;
        length = (length < size - 4) ? length : size - 4;
        deliver(side, data, length, xfers);
        for (k = 0; k < 3; ++k) {
            (void)mkv_progress(side->ctx);
        }
        must(mkv_poll(side->ctx, events, sizeof(events[0]), 16, &count), "poll");
        data += 4 + length;
        size -= 4 + length;
    }
}

static void talk(const uint8_t *data, size_t size)
{
    side_t sides[2] = {{0}, {0}};
    mkv_xfer_t *xfers[NUM_XFERS];

    fake_ucp_reset();
    step = 1000;
    side_open(&sides[0], 0);
    side_open(&sides[1], 1);
    connect_sides(sides);
    open_xfers(&sides[0], xfers);
    deliver_all(&sides[0], data, size, xfers);
    step = 100000000;              /* all deadlines are near */
    (void)mkv_close(sides[0].ctx); /* close with all states of open objects */
    (void)mkv_close(sides[1].ctx);
    fake_ucp_reset(); /* it checks that they left nothing open */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy;

    if (size < 1) {
        return 0;
    }
    copy = malloc(size);
    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, data + 1, --size);
    if (data[0] == 0) {
        decode_message(copy, size);
    } else if ((data[0] == 1) && (size >= MKV_MSG_HEADER_SIZE)) {
        fix_message(copy, size);
        decode_message(copy, size);
    } else if ((data[0] == 2) && (size >= 20)) {
        fix_blob(copy, size);
        decode_blob(copy, size);
    } else if (data[0] > 2) {
        talk(copy, size);
    }
    free(copy);
    return 0;
}

#ifndef MKV_LIBFUZZER

/* ---- Without libFuzzer ----------------------------------------------------------- */

#include "test/support/mkv_test.h"

#include <dirent.h>

#define MAX_SEEDS 64u
#define MAX_SIZE 8192u

static uint8_t seeds[MAX_SEEDS][MAX_SIZE];
static size_t sizes[MAX_SEEDS];
static unsigned num_seeds;

static void read_corpus(const char *folder)
{
    char path[4096];
    struct dirent *entry;
    DIR *dir = opendir(folder);
    FILE *file;

    while ((dir != NULL) && ((entry = readdir(dir)) != NULL) &&
           (num_seeds < MAX_SEEDS)) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        file = (entry->d_name[0] != '.') ? fopen(path, "rb") : NULL;
        if (file != NULL) {
            sizes[num_seeds] = fread(seeds[num_seeds], 1, MAX_SIZE, file);
            ++num_seeds;
            fclose(file);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/* A few bytes changed, cut, or the beginning of one before the end of another */
static size_t mutate(uint64_t *state, uint8_t *input)
{
    unsigned seed = (unsigned)(mkv_test_random(state) % num_seeds);
    size_t size = sizes[seed];
    size_t i, at;

    memcpy(input, seeds[seed], size);
    if ((size > 1) && (mkv_test_random(state) % 4 == 0)) {
        size = 1 + mkv_test_random(state) % (size - 1);
    }
    for (i = mkv_test_random(state) % 8; (i > 0) && (size > 1); --i) {
        at = 1 + mkv_test_random(state) % (size - 1);
        input[at] = (uint8_t)mkv_test_random(state);
    }
    return size;
}

int main(int argc, char **argv)
{
    const char *runs = getenv("MKV_FUZZ_RUNS");
    int usual = (getenv("MKV_UNDER_VALGRIND") != NULL) ? 30 : 1000;
    int left = (runs != NULL) ? atoi(runs) : usual;
    const char *srcdir = getenv("srcdir");
    static uint8_t input[MAX_SIZE];
    uint64_t state = 1;
    char folder[1024];
    unsigned i;

    snprintf(folder, sizeof(folder), "%s/test/unit/morikv/corpus",
             (srcdir != NULL) ? srcdir : "..");
    read_corpus((argc > 1) ? argv[1] : folder);
    if (num_seeds == 0) {
        fprintf(stderr, "fuzz_mkv: no corpus in %s\n", folder);
        return MKV_TEST_EXIT_HARD;
    }
    for (i = 0; i < num_seeds; ++i) {
        (void)LLVMFuzzerTestOneInput(seeds[i], sizes[i]);
    }
    for (; left > 0; --left) {
        size_t size = mutate(&state, input);
        (void)LLVMFuzzerTestOneInput(input, size);
    }
    printf("fuzz_mkv: %u files and what was made from them\n", num_seeds);
    return MKV_TEST_EXIT_OK;
}

#endif
