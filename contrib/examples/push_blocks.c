/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The smallest connector: a prefill process pushes four KV blocks of two layers into
 * blocks of a decode process.
 *
 *     cc push_blocks.c $(pkg-config --cflags --libs libmorikv) -o push_blocks
 *     UCX_TLS=tcp ./push_blocks
 *
 * What an engine does otherwise: its two processes exchange the blob and the block
 * lists' transfer id over the channel they already have (here a socket pair), memory is
 * on GPUs (mem_type), and mkv_progress() is called from its main loop.
 */

#include <morikv.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUM_LAYERS 2
#define NUM_BLOCKS 16
#define BLOCK_SIZE 4096
#define XFER_ID 7

static unsigned char kv[NUM_LAYERS][NUM_BLOCKS][BLOCK_SIZE];

static const uint32_t prefill_blocks[] = {3, 4, 9, 1};
static const uint32_t decode_blocks[] = {10, 11, 2, 7};
#define NUM_MOVED (sizeof(decode_blocks) / sizeof(decode_blocks[0]))

static void check(mkv_status_t status, const char *what)
{
    if (status != MKV_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, mkv_status_string(status),
                mkv_last_error());
        exit(EXIT_FAILURE);
    }
}

/* Progress until an event of this type; what tells of a failure ends the program. */
static mkv_event_t wait_for(mkv_ctx_t *ctx, mkv_event_type_t type)
{
    mkv_event_t event;
    size_t count;

    for (;;) {
        mkv_progress(ctx);
        check(mkv_poll(ctx, &event, 1, &count), "poll");
        if (count == 0) {
            continue;
        }
        if (event.type == type) {
            return event;
        }
        if ((event.type == MKV_EV_FAILED) || (event.type == MKV_EV_ABORTED) ||
            (event.type == MKV_EV_PEER_FAILED)) {
            fprintf(stderr, "%s: %s\n", mkv_event_string(event.type), event.text);
            exit(EXIT_FAILURE);
        }
    }
}

static mkv_ctx_t *open_context(const char *name)
{
    mkv_open_params_t params = {.size = sizeof(params), .name = name};
    mkv_region_t region = {.size = sizeof(region)};
    mkv_region_id_t id; /* only to drop a region later */
    mkv_ctx_t *ctx;
    int layer;

    check(mkv_open(NULL, &params, &ctx), "open");
    for (layer = 0; layer < NUM_LAYERS; ++layer) {
        region.layer = layer;
        region.base = kv[layer];
        region.length = sizeof(kv[layer]);
        region.unit_bytes = BLOCK_SIZE;
        region.n_units = NUM_BLOCKS;
        check(mkv_region_add(ctx, &region, &id), "region_add");
    }
    check(mkv_regions_commit(ctx, NULL), "regions_commit");
    return ctx;
}

static mkv_xfer_t *open_xfer(mkv_ctx_t *ctx, mkv_role_t role, mkv_map_t **map_p)
{
    mkv_xfer_params_t params = {.size = sizeof(params), .id = XFER_ID, .role = role};
    mkv_event_t ready = wait_for(ctx, MKV_EV_PEER_READY);
    mkv_xfer_t *xfer;

    check(mkv_map_create(ready.peer, NULL, map_p), "map_create");
    params.mode = MKV_WRITE;
    params.legs = map_p;
    params.num_legs = 1;
    check(mkv_xfer_open(ctx, &params, &xfer), "xfer_open");
    return xfer;
}

static int prefill(int channel)
{
    mkv_ctx_t *ctx = open_context("prefill");
    unsigned char blob[4096];
    mkv_event_t exposed;
    mkv_units_t units;
    mkv_plan_t *plan;
    mkv_peer_t *peer;
    mkv_xfer_t *xfer;
    mkv_map_t *map;
    ssize_t length;
    size_t i;

    for (i = 0; i < NUM_MOVED; ++i) {
        memset(kv[0][prefill_blocks[i]], 'a' + (int)i, BLOCK_SIZE);
        memset(kv[1][prefill_blocks[i]], 'A' + (int)i, BLOCK_SIZE);
    }

    length = read(channel, blob, sizeof(blob));
    if (length <= 0) {
        fprintf(stderr, "prefill: no blob came\n");
        return EXIT_FAILURE;
    }
    check(mkv_peer_add(ctx, blob, (size_t)length, NULL, &peer), "peer_add");
    xfer = open_xfer(ctx, MKV_SRC, &map);

    /* the decode side says where its blocks are; we know where ours are */
    exposed = wait_for(ctx, MKV_EV_EXPOSED);
    units = exposed.units[0];
    units.local = prefill_blocks;
    units.num_local = NUM_MOVED;
    check(mkv_plan_create(map, &units, 1, 0, &plan), "plan_create");
    check(mkv_xfer_post(xfer, 0, plan, NULL, NULL), "xfer_post");
    check(mkv_xfer_seal(xfer, 0), "xfer_seal");

    wait_for(ctx, MKV_EV_QUIET); /* from here on the blocks may be reused */
    check(mkv_xfer_close(xfer), "xfer_close");
    check(mkv_plan_destroy(plan), "plan_destroy");
    check(mkv_map_destroy(map), "map_destroy");
    while (recv(channel, blob, 1, MSG_DONTWAIT) < 0) {
        mkv_progress(ctx); /* the other side needs our answers until it has closed */
    }
    check(mkv_peer_close(peer, MKV_CLOSE_FLUSH), "peer_close");
    check(mkv_close(ctx), "close");
    return EXIT_SUCCESS;
}

static int decode(int channel)
{
    mkv_ctx_t *ctx = open_context("decode");
    mkv_units_t units = {.num_local = NUM_MOVED, .local = decode_blocks};
    unsigned char blob[4096];
    size_t length = sizeof(blob), i;
    int wrong = 0;
    mkv_xfer_t *xfer;
    mkv_map_t *map;

    check(mkv_blob(ctx, MKV_BLOB_ADDR, blob, &length), "blob");
    if (write(channel, blob, length) != (ssize_t)length) {
        perror("write");
        return EXIT_FAILURE;
    }
    xfer = open_xfer(ctx, MKV_DST, &map);
    check(mkv_xfer_expose(xfer, 0, &units, 1, NULL, 0), "xfer_expose");

    wait_for(ctx, MKV_EV_DONE); /* every byte is there */
    for (i = 0; i < NUM_MOVED; ++i) {
        wrong += kv[0][decode_blocks[i]][BLOCK_SIZE - 1] != 'a' + i;
        wrong += kv[1][decode_blocks[i]][BLOCK_SIZE - 1] != 'A' + i;
    }
    printf("%zu blocks of %d layers arrived, %d wrong\n", NUM_MOVED, NUM_LAYERS, wrong);

    wait_for(ctx, MKV_EV_QUIET);
    check(mkv_xfer_close(xfer), "xfer_close");
    check(mkv_map_destroy(map), "map_destroy");
    check(mkv_close(ctx), "close");
    return (wrong == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(void)
{
    int channel[2], status = EXIT_FAILURE, ret;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel) != 0) {
        perror("socketpair");
        return EXIT_FAILURE;
    }
    child = fork(); /* before UCX starts anything */
    if (child < 0) {
        perror("fork");
        return EXIT_FAILURE;
    }
    if (child == 0) {
        close(channel[0]);
        return prefill(channel[1]);
    }
    close(channel[1]);
    ret = decode(channel[0]);
    close(channel[0]); /* tells the child */
    waitpid(child, &status, 0);
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ? ret : EXIT_FAILURE;
}
