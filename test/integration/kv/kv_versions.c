/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One side of a conversation between libraries of two versions: this program is built
 * from the header of each and linked with its library, and starts the other one.
 *
 *   kv_versions PROGRAM OF_BOTH
 *
 * OF_BOTH says what the older library knows: 0 transfers and messages, 1 also one-sided
 * operations, keyed buffers and reads that their owner puts, 2 also what arrives told
 * while it runs, 3 all that today's does.
 * A build has KV_VERSIONS_KNOWS, the same of its own library. What the other one is too
 * old for must be refused, not sent. UCX_TLS says how bytes move; memory is the host's.
 */

#include <morikv.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAYERS 2
#define BLOCKS 64
#define BYTES 1024
#define NUM 40
#define MAX_EVENTS 64
#define MAX_DATA 4096
#define TIMEOUT_S 120
#define KEY "prefix"

#define REQUIRE(_condition)                                                            \
    do {                                                                               \
        if (!(_condition)) {                                                           \
            fprintf(stderr, "kv_versions, side %d, %s:%d: not so: %s (%s)\n", role,    \
                    __FILE__, __LINE__, #_condition, mkv_last_error());                \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)
#define OK(_call) REQUIRE((_call) == MKV_OK)

typedef struct seen {
    mkv_event_t event;
    char data[MAX_DATA]; /* of MSG and NOTE, which lasts until the next poll */
} seen_t;

static unsigned char cache[LAYERS][BLOCKS][BYTES];
static seen_t seen[MAX_EVENTS];
static size_t num_seen;
static int role, of_both;
static mkv_ctx_t *ctx;
static mkv_peer_t *peer;
static mkv_map_t *map;
static mkv_region_id_t regions[LAYERS];

static unsigned char byte_of(int owner, int layer, uint32_t block, size_t i)
{
    return (unsigned char)(owner * 101 + layer * 37 + (int)block * 5 + (int)(i % 89));
}

static void fill(void)
{
    uint32_t block;
    size_t i;
    int layer;

    for (layer = 0; layer < LAYERS; ++layer) {
        for (block = 0; block < BLOCKS; ++block) {
            for (i = 0; i < BYTES; ++i) {
                cache[layer][block][i] = byte_of(role, layer, block, i);
            }
        }
    }
}

/* ---- Events ---------------------------------------------------------------------- */

static void take_events(void)
{
    mkv_event_t event;
    size_t count = 0;

    (void)mkv_progress(ctx);
    OK(mkv_poll(ctx, &event, sizeof(event), 1, &count));
    if (count == 0) {
        return;
    }
    REQUIRE(event.type != MKV_EV_PEER_FAILED);
    REQUIRE((num_seen < MAX_EVENTS) &&
            ((event.data == NULL) || (event.length <= MAX_DATA)));
    seen[num_seen].event = event;
    if ((event.type != MKV_EV_EXPOSED) && (event.data != NULL)) {
        memcpy(seen[num_seen].data, event.data, event.length);
        seen[num_seen].event.data = seen[num_seen].data;
    }
    ++num_seen;
}

/* The first one of the type and number, which is forgotten */
static mkv_event_t wait_event(mkv_event_type_t type, uint64_t id, char *data)
{
    mkv_event_t event;
    size_t i;

    for (;;) {
        for (i = 0; i < num_seen; ++i) {
            event = seen[i].event;
            if ((event.type == type) && (event.id == id)) {
                if (data != NULL) {
                    memcpy(data, seen[i].data, MAX_DATA);
                }
                memmove(&seen[i], &seen[i + 1], (--num_seen - i) * sizeof(seen[0]));
                return event;
            }
        }
        take_events();
    }
}

/* ---- Transfers ------------------------------------------------------------------- */

static uint32_t mine(uint32_t i)
{
    return (i * 7 + 3 * (uint32_t)role) % BLOCKS; /* each block once, as 7 is odd */
}

static uint32_t theirs(uint32_t i)
{
    return (i * 7 + 3 * (uint32_t)!role) % BLOCKS;
}

static mkv_xfer_t *open_xfer(uint64_t id, mkv_mode_t mode, mkv_role_t my_role)
{
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = id,
                                .mode = mode,
                                .role = my_role,
                                .legs = &map,
                                .num_legs = 1};
    mkv_xfer_t *xfer;

    OK(mkv_xfer_open(ctx, &params, &xfer));
    return xfer;
}

static void expose(mkv_xfer_t *xfer)
{
    uint32_t blocks[NUM], i;
    mkv_units_t units = {.num_local = NUM, .local = blocks};

    for (i = 0; i < NUM; ++i) {
        blocks[i] = mine(i);
    }
    OK(mkv_xfer_expose(xfer, 0, &units, 1, "meta", 4));
}

static mkv_plan_t *plan_of(const mkv_event_t *exposed)
{
    mkv_units_t units = exposed->units[0];
    uint32_t blocks[NUM], i;
    mkv_plan_t *plan;

    REQUIRE((exposed->length == 4) && (memcmp(exposed->data, "meta", 4) == 0));
    REQUIRE(units.num_remote == NUM);
    for (i = 0; i < NUM; ++i) {
        REQUIRE(units.remote[i] == theirs(i));
        blocks[i] = mine(i);
    }
    units.local = blocks;
    units.num_local = NUM;
    OK(mkv_plan_create(map, &units, 1, 0, &plan));
    return plan;
}

/* A layer. What arrives is told where both know that; else asking for it is refused,
 * and breaks nothing. */
static void post_layer(mkv_xfer_t *xfer, mkv_plan_t *plan, mkv_mode_t mode, int layer)
{
    mkv_sel_t sel = {.size = sizeof(sel),
                     .fields = MKV_SEL_LAYERS,
                     .layer_lo = layer,
                     .layer_hi = layer + 1};

#if KV_VERSIONS_KNOWS >= 2
    if (mode == MKV_WRITE) {
        sel.fields |= MKV_SEL_TELL;
        sel.tell = (uint32_t)layer;
        if (of_both >= 2) {
            OK(mkv_xfer_post(xfer, 0, plan, &sel, NULL));
            return;
        }
        REQUIRE(mkv_xfer_post(xfer, 0, plan, &sel, NULL) == MKV_ERR_UNSUPPORTED);
        sel.fields = MKV_SEL_LAYERS;
        sel.tell = 0;
    }
#endif
    (void)mode;
    OK(mkv_xfer_post(xfer, 0, plan, &sel, NULL));
}

static void wait_told(uint64_t id, mkv_mode_t mode)
{
#if KV_VERSIONS_KNOWS >= 2
    int layer;

    for (layer = 0; (layer < LAYERS) && (mode == MKV_WRITE) && (of_both >= 2);
         ++layer) {
        (void)wait_event(MKV_EV_ARRIVED, id, NULL);
    }
#endif
    (void)id, (void)mode;
}

static void move(mkv_xfer_t *xfer, uint64_t id, mkv_mode_t mode)
{
    mkv_event_t exposed = wait_event(MKV_EV_EXPOSED, id, NULL);
    mkv_plan_t *plan = plan_of(&exposed);
    int layer;

    for (layer = 0; layer < LAYERS; ++layer) {
        post_layer(xfer, plan, mode, layer);
    }
    OK(mkv_xfer_seal(xfer, 0));
    (void)wait_event(MKV_EV_DONE, id, NULL);
    (void)wait_event(MKV_EV_QUIET, id, NULL);
    OK(mkv_xfer_close(xfer));
    OK(mkv_plan_destroy(plan));
}

static void check_arrived(void)
{
    uint32_t i;
    size_t k;
    int layer;

    for (layer = 0; layer < LAYERS; ++layer) {
        for (i = 0; i < NUM; ++i) {
            for (k = 0; k < BYTES; ++k) {
                REQUIRE(cache[layer][mine(i)][k] ==
                        byte_of(!role, layer, theirs(i), k));
            }
        }
    }
}

static void say(uint64_t id, const char *text)
{
    OK(mkv_send(peer, id, 7, text, strlen(text), text, strlen(text)));
}

/* Both sides are here. Messages are in order, and so is what was done before them. */
static void meet(uint64_t id)
{
    char data[MAX_DATA];
    mkv_event_t event;

    say(id, "here");
    event = wait_event(MKV_EV_MSG, id, data);
    REQUIRE((event.value == 7) && (event.header_length == 4) && (event.length == 4) &&
            (memcmp(data, "here", 4) == 0));
}

static void transfer(uint64_t id, mkv_mode_t mode, int source)
{
    int is_source = (role == source), is_active = is_source == (mode == MKV_WRITE);
    mkv_xfer_t *xfer;

    fill();
    meet(100 + id);
    xfer = open_xfer(id, mode, is_source ? MKV_SRC : MKV_DST);
    if (is_active) {
        move(xfer, id, mode);
    } else {
        expose(xfer);
        wait_told(id, mode);
        (void)wait_event(MKV_EV_DONE, id, NULL);
        (void)wait_event(MKV_EV_QUIET, id, NULL);
        OK(mkv_xfer_close(xfer));
    }
    if (!is_source) {
        check_arrived();
    }
}

/* Given up by the side that exposed, before anything moved */
static void give_up(uint64_t id, int source)
{
    mkv_xfer_t *xfer = open_xfer(id, MKV_WRITE, (role == source) ? MKV_SRC : MKV_DST);

    if (role == source) {
        (void)wait_event(MKV_EV_EXPOSED, id, NULL);
        say(id, "known");
    } else {
        expose(xfer);
        (void)wait_event(MKV_EV_MSG, id, NULL);
        OK(mkv_xfer_abort(xfer, MKV_ERR_ABORTED, "of the story"));
    }
    (void)wait_event(MKV_EV_ABORTED, id, NULL);
    (void)wait_event(MKV_EV_QUIET, id, NULL);
    OK(mkv_xfer_close(xfer));
}

/* ---- What came later ------------------------------------------------------------- */

#if KV_VERSIONS_KNOWS >= 1
static mkv_status_t fetch(uint64_t id, size_t offset, size_t length)
{
    mkv_fetch_params_t params = {.size = sizeof(params),
                                 .id = id,
                                 .key = KEY,
                                 .key_length = strlen(KEY),
                                 .region = regions[0],
                                 .offset = offset,
                                 .length = length};

    return mkv_fetch(peer, &params);
}

static mkv_status_t operate(uint64_t id, mkv_mode_t mode, mkv_op_t **op_p)
{
    mkv_op_piece_t piece = {regions[1], regions[1], BYTES, 2 * BYTES, BYTES};
    mkv_op_params_t params = {.size = sizeof(params),
                              .id = id,
                              .mode = mode,
                              .flags = MKV_OP_NOTIFY,
                              .pieces = &piece,
                              .num_pieces = 1,
                              .note = "note",
                              .note_length = 4};

    return mkv_op_post(peer, &params, op_p);
}

/* Two buffers of the other one's: the second is too long for an answer */
static void fetch_both(void)
{
    mkv_publish_params_t params = {.size = sizeof(params),
                                   .key = KEY,
                                   .key_length = strlen(KEY),
                                   .region = regions[0],
                                   .length = BYTES};
    uint64_t publication;
    int i;

    for (i = 0; i < 2; ++i) {
        fill();
        params.length = (i == 0) ? BYTES : 32 * BYTES;
        OK(mkv_publish(ctx, &params, &publication));
        meet(200 + (uint64_t)i);
        OK(fetch(10, sizeof(cache[0]) / 2, params.length));
        REQUIRE(wait_event(MKV_EV_FETCHED, 10, NULL).status == MKV_OK);
        REQUIRE(cache[0][BLOCKS / 2][77] == byte_of(!role, 0, 0, 77));
        meet(210 + (uint64_t)i);
        OK(mkv_unpublish(ctx, publication));
        (void)wait_event(MKV_EV_EXPIRED, publication, NULL);
    }
}

static void operate_both(mkv_mode_t mode)
{
    mkv_event_t event;
    mkv_op_t *op;
    char data[MAX_DATA];

    fill();
    meet(220 + mode);
    OK(operate(11, mode, &op));
    (void)wait_event(MKV_EV_DONE, 11, NULL);
    (void)wait_event(MKV_EV_QUIET, 11, NULL);
    OK(mkv_op_close(op));
    event = wait_event(MKV_EV_NOTE, 11, data);
    REQUIRE((event.value == mode) && (event.length == 4) && !memcmp(data, "note", 4));
    REQUIRE(cache[1][(mode == MKV_WRITE) ? 2 : 1][5] ==
            byte_of(!role, 1, (mode == MKV_WRITE) ? 1 : 2, 5));
}

static void later(void)
{
    mkv_stats_t stats = {.size = sizeof(stats)};
    mkv_op_t *op;

    if (of_both == 0) {
        REQUIRE(fetch(10, 0, BYTES) == MKV_ERR_UNSUPPORTED);
        REQUIRE(operate(11, MKV_WRITE, &op) == MKV_ERR_UNSUPPORTED);
    } else {
        fetch_both();
        operate_both(MKV_WRITE);
        operate_both(MKV_READ);
    }
    OK(mkv_stats(ctx, NULL, &stats));
    REQUIRE((stats.pulls_sent > 0) == (of_both > 0));
#if KV_VERSIONS_KNOWS >= 3
    REQUIRE((stats.chunks_staged > 0) == (of_both >= 3));
#endif
    REQUIRE(stats.msgs_malformed == 0);
}
#else
static void later(void)
{
}
#endif

/* ---- Both sides ------------------------------------------------------------------ */

static void open_context(void)
{
    mkv_region_t region = {.size = sizeof(region),
                           .length = sizeof(cache[0]),
                           .unit_bytes = BYTES,
                           .n_units = BLOCKS,
                           .mem_type = UCS_MEMORY_TYPE_HOST};
    mkv_config_t *config;

    OK(mkv_config_read(NULL, &config));
#if KV_VERSIONS_KNOWS >= 1
    region.flags = MKV_REGION_ONE_SIDED;
    OK(mkv_config_set(config, "READ_BY", "push"));
    OK(mkv_config_set(config, "FETCH_INLINE", "4k"));
#if KV_VERSIONS_KNOWS >= 3
    OK(mkv_config_set(config, "STAGING_BELOW", "64k"));
    OK(mkv_config_set(config, "STAGING_MIN", "1"));
#endif
#endif
    OK(mkv_open(config, NULL, &ctx));
    mkv_config_release(config);
    for (region.layer = 0; region.layer < LAYERS; ++region.layer) {
        region.base = cache[region.layer];
        OK(mkv_region_add(ctx, &region, &regions[region.layer]));
    }
    OK(mkv_regions_commit(ctx, NULL));
}

static void connect_by(int fd)
{
    char blob[4096];
    size_t length = sizeof(blob);
    ssize_t received;

    if (role == 1) {
        OK(mkv_blob(ctx, MKV_BLOB_ADDR, blob, &length));
        REQUIRE(send(fd, blob, length, 0) == (ssize_t)length);
    } else {
        received = recv(fd, blob, sizeof(blob), 0);
        REQUIRE(received > 0);
        OK(mkv_peer_add(ctx, blob, (size_t)received, "other", &peer));
    }
    peer = wait_event(MKV_EV_PEER_READY, 0, NULL).peer;
    OK(mkv_map_create(peer, NULL, &map));
}

static void tell_story(int fd)
{
    int source;

    alarm(TIMEOUT_S); /* a hang ends */
    open_context();
    connect_by(fd);
    for (source = 0; source < 2; ++source) {
        transfer(1 + (uint64_t)source, MKV_WRITE, source);
        transfer(3 + (uint64_t)source, MKV_READ, source);
        give_up(5 + (uint64_t)source, source);
    }
    later();
    meet(300);
    OK(mkv_map_destroy(map));
    if (role == 1) {
        OK(mkv_close(ctx));
        return;
    }
    (void)wait_event(MKV_EV_PEER_CLOSED, 0, NULL);
    OK(mkv_close(ctx));
}

static pid_t start_other(char **argv, const int fds[2])
{
    char fd[16];
    pid_t pid;

    snprintf(fd, sizeof(fd), "%d", fds[1]);
    pid = fork();
    if (pid == 0) {
        execl(argv[1], argv[1], "-", argv[2], fd, (char *)NULL);
        perror(argv[1]);
        _exit(1);
    }
    close(fds[1]);
    return pid;
}

int main(int argc, char **argv)
{
    int fds[2], status = 1;
    pid_t pid;

    if (argc < 3) {
        fprintf(stderr, "usage: kv_versions PROGRAM OF_BOTH\n");
        return 2;
    }
    of_both = atoi(argv[2]);
    if (argc == 4) {
        role = 1;
        tell_story(atoi(argv[3]));
        return 0;
    }
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
    pid = start_other(argv, fds);
    tell_story(fds[0]);
    REQUIRE((waitpid(pid, &status, 0) == pid) && WIFEXITED(status));
    return WEXITSTATUS(status);
}
