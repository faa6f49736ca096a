/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A process that stays while others connect and leave, on this host or on another: it
 * moves blocks with each, both ways, and checks every byte of both caches.
 *
 *   kv_hosts stay PLACE PEERS            this many peers, one after the other, in one
 *                                        context
 *   kv_hosts come PLACE TRANSFERS [lie]  0 transfers: until it is ended; "lie": its
 *                                        bytes differ from the announced ones
 *
 * PLACE is mori_kv_perf's --peer and carries the addresses; UCX_TLS selects how bytes
 * move. The process that stays is the active side: the source of WRITEs, the
 * destination of READs. A peer that is lost in the middle is an event, not a failure;
 * wrong bytes are a failure. test/vm/jobs/two_hosts.sh has it on two machines.
 */

#include "kv_side.h"

#include "perf/kv_perf/engine/channel.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUM 12
#define SEED_OF_STAYS 11
#define SEED_OF_COMES 101

static const kv_shape_t shape = {4, 2, 32, 4096, 0};

/* Description that a side sends along with its address. */
typedef struct hello {
    uint32_t seed;
    uint32_t transfers;
    char host[64];
} hello_t;

typedef struct end {
    kv_side_t side;
    hello_t mine, peer;
    bool is_active;
} end_t;

/* Command line arguments */
static const char *place;
static uint32_t number; /* of peers, of transfers */
static bool is_liar;

/* ---- Transfers ------------------------------------------------------------------- */

/* Whether the event came, rather than the transfer's failure. */
static bool came(kv_side_t *side, mkv_event_type_t type, const mkv_xfer_t *xfer)
{
    KV_PROGRESS_UNTIL(side, kv_has_event(side, type, xfer) ||
                                kv_has_event(side, MKV_EV_FAILED, xfer));
    return kv_has_event(side, type, xfer);
}

/* Calls may be refused when the peer is lost meanwhile; the transfer's events report
 * it. */
static void may_be_lost(mkv_status_t status)
{
    MKV_REQUIRE((status == MKV_OK) || (status == MKV_ERR_PEER), "%s", mkv_last_error());
}

static mkv_plan_t *post(kv_side_t *side, mkv_xfer_t *xfer, const uint32_t *blocks)
{
    mkv_event_t exposed;
    mkv_plan_t *plan;

    if (!came(side, MKV_EV_EXPOSED, xfer)) {
        return NULL;
    }
    exposed = kv_wait_event(side, MKV_EV_EXPOSED, xfer);
    plan = kv_plan(side, blocks, NUM, &exposed, 0);
    may_be_lost(mkv_xfer_post(xfer, 0, plan, NULL, NULL));
    may_be_lost(mkv_xfer_seal(xfer, 0));
    return plan;
}

/* The destination looks at every byte. */
static void check(end_t *end, const uint32_t *dst, const uint32_t *src)
{
    uint32_t i;

    for (i = 0; i < NUM; ++i) {
        kv_check_block(&end->side, dst[i], (uint8_t)end->peer.seed, src[i]);
    }
    kv_check_others(&end->side, dst, NUM, (uint8_t)end->mine.seed);
}

/* Wait until all was moved, or the transfer has failed; its blocks are quiet then. Only
 * the active side can detect a silent peer; the passive side must get DONE. */
static bool finish(end_t *end, mkv_xfer_t *xfer, mkv_plan_t *plan)
{
    bool is_done = came(&end->side, MKV_EV_DONE, xfer);
    mkv_event_t last =
        kv_wait_event(&end->side, is_done ? MKV_EV_DONE : MKV_EV_FAILED, xfer);

    if (!is_done) {
        printf("transfer %u failed: %s: %s\n", (unsigned)last.id,
               mkv_status_string(last.status), last.text);
        MKV_REQUIRE(end->is_active, "a transfer did not end well");
    }
    (void)kv_wait_event(&end->side, MKV_EV_QUIET, xfer);
    KV_OK(mkv_xfer_close(xfer));
    if (plan != NULL) {
        KV_OK(mkv_plan_destroy(plan));
    }
    return is_done;
}

/* READ and WRITE in turn; both sides know both lists by the transfer's number. */
static bool move(end_t *end, uint32_t id)
{
    mkv_mode_t mode = (id & 1) ? MKV_READ : MKV_WRITE;
    bool is_dst = (mode == MKV_READ) == end->is_active;
    uint32_t src[NUM], dst[NUM], *mine = is_dst ? dst : src;
    mkv_plan_t *plan = NULL;
    mkv_xfer_t *xfer;
    bool is_done;

    kv_random_blocks(src, NUM, shape.blocks, 2 * id);
    kv_random_blocks(dst, NUM, shape.blocks, 2 * id + 1);
    xfer = kv_open_xfer(&end->side, id, mode, is_dst ? MKV_DST : MKV_SRC);
    if (end->is_active) {
        plan = post(&end->side, xfer, mine);
    } else {
        kv_expose(xfer, mine, NUM);
    }
    is_done = finish(end, xfer, plan);
    if (is_done && is_dst) {
        check(end, dst, src);
    }
    if (is_dst) { /* the blocks are not written any more */
        kv_fill(&end->side, (uint8_t)end->mine.seed);
    }
    return is_done;
}

/* ---- Meeting --------------------------------------------------------------------- */

static void swap(perf_channel_t *channel, perf_channel_type_t type, const void *mine,
                 size_t length, void *theirs, size_t *length_p)
{
    MKV_REQUIRE((perf_channel_send(channel, type, mine, length) == 0) &&
                    (perf_channel_recv(channel, type, theirs, *length_p, length_p, NULL,
                                       NULL) == 0),
                "the channel failed");
}

static void meet(end_t *end)
{
    static uint8_t blob[1 << 16], other[1 << 16];
    size_t length = sizeof(blob), other_length = sizeof(other),
           hello = sizeof(end->peer);
    uint32_t limit_s = (uint32_t)mkv_test_limit_ms() / 1000;
    perf_channel_t channel;

    MKV_REQUIRE(perf_channel_open(place, end->is_active, limit_s, &channel) == 0,
                "nobody to meet at %s", place);
    KV_OK(mkv_blob(end->side.ctx, MKV_BLOB_ADDR, blob, &length));
    swap(&channel, PERF_CHANNEL_AGREEMENT, &end->mine, sizeof(end->mine), &end->peer,
         &hello);
    swap(&channel, PERF_CHANNEL_ADDRESS, blob, length, other, &other_length);
    perf_channel_close(&channel);

    if (end->is_active) {
        KV_OK(mkv_peer_add(end->side.ctx, other, other_length, NULL, &end->side.peer));
    }
    end->side.peer = kv_wait_event(&end->side, MKV_EV_PEER_READY, NULL).peer;
    KV_OK(mkv_map_create(end->side.peer, NULL, &end->side.map));
}

static void open_end(end_t *end, uint32_t transfers, bool is_active)
{
    memset(end, 0, sizeof(*end));
    end->is_active = is_active;
    end->mine.seed = is_active ? SEED_OF_STAYS : SEED_OF_COMES;
    end->mine.transfers = transfers;
    MKV_REQUIRE(gethostname(end->mine.host, sizeof(end->mine.host) - 1) == 0,
                "no name of the host");
    kv_side_open(&end->side, is_active ? "src" : "dst", -1, &shape,
                 (uint8_t)(end->mine.seed + is_liar));
    printf("open on %s\n", end->mine.host);
}

/* ---- The process that stays ------------------------------------------------------ */

static void print_path(const end_t *end)
{
    mkv_peer_attr_t attr = {.size = sizeof(attr)};

    KV_OK(mkv_peer_query(end->side.peer, &attr));
    printf("peer on %s, %s: path %s\n", end->peer.host,
           attr.is_same_host ? "this host" : "another host", attr.paths);
}

/* Serve until all was moved, or the peer is lost. */
static void serve(end_t *end)
{
    uint32_t id = 1;

    while (((end->peer.transfers == 0) || (id <= end->peer.transfers)) &&
           move(end, id)) {
        if (id++ == 2) {
            print_path(end); /* UCX reports it after the first calls */
        }
    }
    --id;
    if (id == end->peer.transfers) {
        (void)kv_wait_event(&end->side, MKV_EV_PEER_CLOSED, NULL);
        printf("peer on %s: %u transfers, every byte\n", end->peer.host, id);
    } else {
        printf("peer on %s: lost after %u transfers: %s\n", end->peer.host, id,
               kv_wait_event(&end->side, MKV_EV_PEER_FAILED, NULL).text);
    }
    KV_OK(mkv_map_destroy(end->side.map));
    KV_OK(mkv_peer_close(end->side.peer, MKV_CLOSE_FLUSH));
    end->side.map = NULL;
}

START_TEST(peers_come_and_go)
{
    unsigned peers = number;
    end_t end;

    open_end(&end, 0, true);
    while (peers-- > 0) {
        meet(&end);
        serve(&end);
    }
    kv_side_close(&end.side);
}
END_TEST

/* ---- A process that comes and goes ----------------------------------------------- */

START_TEST(all_is_moved_with_the_remaining_peers)
{
    uint32_t id;
    end_t end;

    open_end(&end, number, false);
    meet(&end);
    for (id = 1; (number == 0) || (id <= number); ++id) {
        (void)move(&end, id);
        printf("moved %u\n", id);
    }
    kv_side_close(&end.side);
}
END_TEST

int main(int argc, char **argv)
{
    bool stays = (argc == 4) && !strcmp(argv[1], "stay");
    Suite *suite = suite_create("kv_hosts");
    TCase *tcase = tcase_create("hosts");

    if (!stays && ((argc < 4) || strcmp(argv[1], "come"))) {
        fprintf(stderr,
                "usage: kv_hosts stay PLACE PEERS | come PLACE TRANSFERS [lie]\n");
        return MKV_TEST_EXIT_HARD;
    }
    place = argv[2];
    number = (uint32_t)atoi(argv[3]);
    is_liar = argc > 4;
    setenv("CK_FORK", "no", 1); /* ending it must end its only process */
    setvbuf(stdout, NULL, _IOLBF, 0);
    tcase_set_timeout(tcase, 0); /* the parent has a limit */
    if (stays) {
        tcase_add_test(tcase, peers_come_and_go);
    } else {
        tcase_add_test(tcase, all_is_moved_with_the_remaining_peers);
    }
    suite_add_tcase(suite, tcase);
    return kv_main(suite);
}
