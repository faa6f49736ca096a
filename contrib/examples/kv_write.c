/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The smallest WRITE connector: two processes, one region a layer, 16 calls of the
 * library (and three to read errors). The parent is the prefill side, the child the
 * decode side; a socket pair stands for an engine's channel that carries the address.
 *
 *   UCX_TLS=tcp ./kv_write
 */

#include <morikv.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAYERS 4
#define BLOCKS 64
#define BLOCK_BYTES 4096
#define NUM 8

#define MUST(_call)                                                                    \
    do {                                                                               \
        mkv_status_t _status = (_call);                                                \
        if (_status != MKV_OK) {                                                       \
            fprintf(stderr, "%s: %s: %s\n", #_call, mkv_status_string(_status),        \
                    mkv_last_error());                                                 \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static char cache[LAYERS][BLOCKS][BLOCK_BYTES];

static mkv_ctx_t *open_cache(void)
{
    mkv_region_t region = {.size = sizeof(region),
                           .length = sizeof(cache[0]),
                           .unit_bytes = BLOCK_BYTES,
                           .n_units = BLOCKS,
                           .mem_type = UCS_MEMORY_TYPE_HOST};
    mkv_config_t *config;
    mkv_region_id_t id;
    mkv_ctx_t *ctx;

    MUST(mkv_config_read(NULL, &config));
    MUST(mkv_open(config, NULL, &ctx));
    mkv_config_release(config);
    for (region.layer = 0; region.layer < LAYERS; ++region.layer) {
        region.base = cache[region.layer];
        MUST(mkv_region_add(ctx, &region, &id));
    }
    MUST(mkv_regions_commit(ctx, NULL));
    return ctx;
}

/* Wait for one kind of event; any error ends the example */
static mkv_event_t wait_event(mkv_ctx_t *ctx, mkv_event_type_t type)
{
    mkv_event_t event;
    size_t count;

    for (;;) {
        mkv_progress(ctx);
        MUST(mkv_poll(ctx, &event, sizeof(event), 1, &count));
        if (count == 0) {
            continue;
        }
        if (event.type == type) {
            return event;
        }
        if (event.status != MKV_OK) {
            fprintf(stderr, "%s\n", event.text);
            exit(1);
        }
    }
}

static mkv_xfer_t *open_xfer(mkv_ctx_t *ctx, mkv_peer_t *peer, mkv_role_t role,
                             mkv_map_t **map_p)
{
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 42, /* the request's id */
                                .mode = MKV_WRITE,
                                .role = role,
                                .legs = map_p,
                                .num_legs = 1};
    mkv_xfer_t *xfer;

    MUST(mkv_map_create(peer, NULL, map_p));
    MUST(mkv_xfer_open(ctx, &params, &xfer));
    return xfer;
}

/* The decode side allocates blocks, shows them and waits until they are filled */
static int decode(int fd)
{
    static const uint32_t blocks[NUM] = {7, 8, 9, 30, 31, 2, 60, 61};
    mkv_units_t units = {.num_local = NUM, .local = blocks};
    mkv_ctx_t *ctx = open_cache();
    char blob[4096];
    size_t length = sizeof(blob);
    mkv_xfer_t *xfer;
    mkv_map_t *map;
    int layer, i;

    MUST(mkv_blob(ctx, MKV_BLOB_ADDR, blob, &length));
    if (send(fd, blob, length, 0) != (ssize_t)length) {
        return 1;
    }

    xfer = open_xfer(ctx, wait_event(ctx, MKV_EV_PEER_READY).peer, MKV_DST, &map);
    MUST(mkv_xfer_expose(xfer, 0, &units, 1, NULL, 0));
    (void)wait_event(ctx, MKV_EV_DONE);  /* the bytes are here */
    (void)wait_event(ctx, MKV_EV_QUIET); /* and no write follows */
    for (layer = 0; layer < LAYERS; ++layer) {
        for (i = 0; i < NUM; ++i) {
            if (cache[layer][blocks[i]][i] != 'A' + layer) {
                fprintf(stderr, "layer %d block %u is wrong\n", layer, blocks[i]);
                return 1;
            }
        }
    }
    MUST(mkv_xfer_close(xfer));
    MUST(mkv_map_destroy(map));
    MUST(mkv_close(ctx));
    return 0;
}

/* The prefill side fills its blocks layer by layer and pushes each layer at once */
static int prefill(int fd)
{
    static const uint32_t blocks[NUM] = {0, 1, 2, 3, 4, 5, 6, 7};
    mkv_ctx_t *ctx = open_cache();
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS};
    mkv_event_t exposed;
    mkv_units_t units;
    char blob[4096];
    mkv_peer_t *peer;
    mkv_plan_t *plan;
    mkv_xfer_t *xfer;
    mkv_map_t *map;
    ssize_t length;

    length = recv(fd, blob, sizeof(blob), 0);
    if (length <= 0) {
        return 1;
    }
    MUST(mkv_peer_add(ctx, blob, (size_t)length, "decode", &peer));
    (void)wait_event(ctx, MKV_EV_PEER_READY);
    xfer = open_xfer(ctx, peer, MKV_SRC, &map);

    exposed = wait_event(ctx, MKV_EV_EXPOSED);
    units = exposed.units[0]; /* the blocks of the other side */
    units.local = blocks;
    units.num_local = NUM;
    MUST(mkv_plan_create(map, &units, 1, 0, &plan));
    for (sel.layer_hi = 1; sel.layer_hi <= LAYERS; ++sel.layer_hi) {
        sel.layer_lo = sel.layer_hi - 1;
        memset(cache[sel.layer_lo], 'A' + sel.layer_lo, sizeof(cache[0]));
        MUST(mkv_xfer_post(xfer, 0, plan, &sel, NULL));
    }
    MUST(mkv_xfer_seal(xfer, 0));
    (void)wait_event(ctx, MKV_EV_QUIET); /* the blocks may be used again */

    MUST(mkv_xfer_close(xfer));
    MUST(mkv_plan_destroy(plan));
    MUST(mkv_map_destroy(map));
    MUST(mkv_close(ctx));
    return 0;
}

/* A new program, not only a fork: loading UCX starts a thread, which a fork would lose
 */
static pid_t start_decode(const char *program, const int fds[2])
{
    char fd[16];
    pid_t pid;

    snprintf(fd, sizeof(fd), "%d", fds[0]);
    pid = fork();
    if (pid == 0) {
        close(fds[1]);
        execl("/proc/self/exe", program, "decode", fd, (char *)NULL);
        _exit(1);
    }
    close(fds[0]); /* so that its end is seen here */
    return pid;
}

int main(int argc, char **argv)
{
    int fds[2], status = 1, result;
    pid_t pid;

    if (argc == 3) {
        return decode(atoi(argv[2]));
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) != 0) {
        perror("socketpair");
        return 1;
    }
    pid = start_decode(argv[0], fds);
    result = prefill(fds[1]);
    (void)waitpid(pid, &status, 0);
    result |= !WIFEXITED(status) || (WEXITSTATUS(status) != 0);
    puts(result ? "failed" : "every block arrived");
    return result;
}
