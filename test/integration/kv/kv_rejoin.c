/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A peer is killed in the middle of a transfer, again and again, and another process
 * takes its place. The survivor must not have more descriptors, registrations, queue
 * pairs or memory after the last than after the first ones, and prints the time of
 * each.
 *
 *   kv_rejoin [CYCLES]     over mori_rdma on the fake libibverbs; 100 cycles, 20 where
 *                          MKV_TEST_FEWER is set, and then memory is not checked
 *
 * A process that has not opened anything forks the peers.
 */

#include "config.h"

#include "test/fake/verbs/fake_verbs.h"
#include "test/support/ct_side.h"
#include "test/support/mkv_test.h"

#include <morikv.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 64
#define BLOCK_BYTES 16384
#define NUM 32
#define WARM 10         /* cycles until objects kept for reuse exist */
#define SLACK_KIB 2048u /* growth for 90 cycles; a leaked receive queue is 67 */

typedef struct side {
    mkv_ctx_t *ctx;
    char *memory;
    mkv_peer_t *peer;
    mkv_map_t *map;
    mkv_plan_t *plan;
} side_t;

typedef struct joined {
    pid_t pid;
    size_t length;
    char blob[8192];
} joined_t;

typedef struct usage {
    unsigned fds;
    unsigned long rss_kib;
    fake_verbs_objects_t objects;
} usage_t;

typedef struct times {
    uint64_t error_ms, quiet_ms, again_ms;
} times_t;

static int pipes[2][2]; /* to the process that forks, and from its children */

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "kv_rejoin: %s: %s\n", what, why);
    exit(MKV_TEST_EXIT_FAIL);
}

static void ok(mkv_status_t status, const char *what)
{
    if (status != MKV_OK) {
        fail(what, mkv_last_error());
    }
}

static void expect(int holds, const char *what)
{
    if (!holds) {
        fail(what, "does not hold");
    }
}

/* ---- both sides ---- */

static void open_side(side_t *side, const char *name)
{
    mkv_open_params_t params = {.size = sizeof(params), .name = name};
    mkv_region_t region = {.size = sizeof(region),
                           .mem_type = UCS_MEMORY_TYPE_HOST,
                           .length = BLOCKS * BLOCK_BYTES,
                           .unit_bytes = BLOCK_BYTES,
                           .n_units = BLOCKS,
                           .alloc_length = BLOCKS * BLOCK_BYTES};
    mkv_region_id_t id;

    side->memory = malloc((size_t)BLOCKS * BLOCK_BYTES);
    expect(side->memory != NULL, "memory");
    mkv_pattern_fill(side->memory, (size_t)BLOCKS * BLOCK_BYTES, 1, 0);
    ok(mkv_open(NULL, &params, &side->ctx), "open");
    region.base = region.alloc_base = side->memory;
    ok(mkv_region_add(side->ctx, &region, &id), "region");
    ok(mkv_regions_commit(side->ctx, NULL), "commit");
}

static mkv_event_t wait_event(side_t *side, mkv_event_type_t type)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned empty = 0;
    mkv_event_t event;
    size_t count;

    for (;;) {
        mkv_progress(side->ctx);
        ok(mkv_poll(side->ctx, &event, sizeof(event), 1, &count), "poll");
        if ((count == 1) && (event.type == type)) {
            return event;
        }
        if (mkv_test_now_ms() >= limit) {
            fail("no event", mkv_event_string(type));
        }
        if (count == 0) {
            mkv_test_pause(&empty);
        }
    }
}

static mkv_xfer_t *open_xfer(side_t *side, mkv_role_t role, uint64_t id)
{
    mkv_xfer_params_t params;
    mkv_xfer_t *xfer;

    memset(&params, 0, sizeof(params)); /* bytes between members, too */
    params.size = sizeof(params);
    params.id = id;
    params.role = role;
    params.legs = &side->map;
    params.num_legs = 1;
    ok(mkv_xfer_open(side->ctx, &params, &xfer), "xfer");
    return xfer;
}

static mkv_units_t units_of(uint32_t *blocks)
{
    mkv_units_t units = {.num_local = NUM, .local = blocks};
    uint32_t i;

    for (i = 0; i < NUM; i++) {
        blocks[i] = 2 * i;
    }
    return units;
}

/* ---- the killed process ---- */

static void be_killed(void)
{
    static joined_t joined;
    uint32_t blocks[NUM];
    mkv_units_t units = units_of(blocks);
    side_t side;
    uint64_t id;

    setenv("UCX_NET_DEVICES", "fake1:1,lo", 1);
    open_side(&side, "mortal");
    joined.pid = getpid();
    joined.length = sizeof(joined.blob);
    ok(mkv_blob(side.ctx, MKV_BLOB_ADDR, joined.blob, &joined.length), "blob");
    expect(write(pipes[1][1], &joined, sizeof(joined)) == sizeof(joined), "write");
    side.peer = wait_event(&side, MKV_EV_PEER_READY).peer;
    ok(mkv_map_create(side.peer, NULL, &side.map), "map");
    for (id = 1;; id++) {
        mkv_xfer_t *xfer = open_xfer(&side, MKV_DST, id);

        ok(mkv_xfer_expose(xfer, 0, &units, 1, NULL, 0), "expose");
        (void)wait_event(&side, MKV_EV_DONE);
        (void)wait_event(&side, MKV_EV_QUIET);
        ok(mkv_xfer_close(xfer), "close");
    }
}

/* A process for each byte that comes. */
static void fork_mortals(void)
{
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    while (read(pipes[0][0], &byte, 1) == 1) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            be_killed();
        }
    }
    _exit(0);
}

/* ---- the survivor ---- */

/* Anonymous memory alone: the mapped part of the fake's wire grows with each peer. */
static unsigned long get_rss_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    unsigned long kib = 0;
    char line[128];

    while ((file != NULL) && (fgets(line, sizeof(line), file) != NULL)) {
        (void)sscanf(line, "RssAnon: %lu", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    expect(kib > 0, "/proc/self/status tells RssAnon");
    return kib;
}

static usage_t get_usage(void)
{
    usage_t usage = {.rss_kib = get_rss_kib()};
    DIR *dir = opendir("/proc/self/fd");

    while ((dir != NULL) && (readdir(dir) != NULL)) {
        usage.fds++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    fake_verbs_objects(&usage.objects);
    return usage;
}

static pid_t join(side_t *side)
{
    static joined_t joined;
    size_t length = 0;
    ssize_t part;

    expect(write(pipes[0][1], "", 1) == 1, "write");
    while (length < sizeof(joined)) {
        part = read(pipes[1][0], (char *)&joined + length, sizeof(joined) - length);
        expect(part > 0, "a process joins");
        length += (size_t)part;
    }
    ok(mkv_peer_add(side->ctx, joined.blob, joined.length, NULL, &side->peer), "add");
    side->peer = wait_event(side, MKV_EV_PEER_READY).peer;
    ok(mkv_map_create(side->peer, NULL, &side->map), "map");
    return joined.pid;
}

/* Post a transfer; with @a is_held no data of it leaves the device. */
static mkv_xfer_t *post(side_t *side, uint64_t id, int is_held)
{
    uint32_t blocks[NUM];
    mkv_units_t units = units_of(blocks);
    mkv_xfer_t *xfer = open_xfer(side, MKV_SRC, id);

    (void)wait_event(side, MKV_EV_EXPOSED);
    units.remote = blocks;
    units.num_remote = NUM;
    ok(mkv_plan_create(side->map, &units, 1, 0, &side->plan), "plan");
    if (is_held) {
        fake_verbs_hold(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND);
    }
    ok(mkv_xfer_post(xfer, 0, side->plan, NULL, NULL), "post");
    ok(mkv_xfer_seal(xfer, 0), "seal");
    return xfer;
}

static void finish(side_t *side, mkv_xfer_t *xfer)
{
    (void)wait_event(side, MKV_EV_QUIET);
    ok(mkv_xfer_close(xfer), "close");
    ok(mkv_plan_destroy(side->plan), "plan");
}

static void leave(side_t *side)
{
    ok(mkv_map_destroy(side->map), "map");
    ok(mkv_peer_close(side->peer, MKV_CLOSE_FORCE), "close");
}

/* Run a transfer that ends, then one in which the peer is killed */
static void cycle(side_t *side, times_t *times)
{
    uint64_t begin = mkv_test_now_ms(), killed;
    pid_t pid = join(side);
    unsigned empty = 0;
    mkv_xfer_t *xfer = post(side, 1, 0);

    finish(side, xfer);
    times->again_ms += mkv_test_now_ms() - begin;
    xfer = post(side, 2, 1);
    killed = mkv_test_now_ms();
    expect(kill(pid, SIGKILL) == 0, "kill");
    while (kill(pid, 0) == 0) {
        mkv_test_pause(&empty); /* its device still answers */
    }
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    (void)wait_event(side, MKV_EV_FAILED);
    times->error_ms += mkv_test_now_ms() - killed;
    finish(side, xfer);
    times->quiet_ms += mkv_test_now_ms() - killed;
    leave(side);
}

static int is_flat(const usage_t *first, const usage_t *last)
{
    return (last->fds == first->fds) && (last->objects.mrs == first->objects.mrs) &&
           (last->objects.qps == first->objects.qps) &&
           (last->objects.cqs == first->objects.cqs) &&
           (last->objects.ahs <= first->objects.ahs) &&
           ((getenv("MKV_TEST_FEWER") != NULL) || /* sanitizers keep freed memory */
            (last->rss_kib <= first->rss_kib + SLACK_KIB));
}

static int survive(unsigned num)
{
    usage_t first = {0}, last;
    times_t times = {0};
    side_t side = {0};
    unsigned i;

    setenv("UCX_NET_DEVICES", "fake0:1,lo", 1);
    open_side(&side, "survivor");
    for (i = 0; i < num; i++) {
        cycle(&side, &times);
        if (i == WARM - 1) {
            first = get_usage();
        }
    }
    last = get_usage();
    printf("%u cycles: after %u and after all, descriptors %u %u, regions %u %u, queue "
           "pairs %u %u, RSS %lu %lu KiB\n",
           num, WARM, first.fds, last.fds, first.objects.mrs, last.objects.mrs,
           first.objects.qps, last.objects.qps, first.rss_kib, last.rss_kib);
    printf("mean: error %llu ms after the kill, quiet %llu ms, a replacement's first "
           "transfer %llu ms after it was asked for\n",
           (unsigned long long)(times.error_ms / num),
           (unsigned long long)(times.quiet_ms / num),
           (unsigned long long)(times.again_ms / num));
    ok(mkv_close(side.ctx), "close");
    free(side.memory);
    return is_flat(&first, &last) ? MKV_TEST_EXIT_OK : MKV_TEST_EXIT_FAIL;
}

/* RC-06 */
int main(int argc, char **argv)
{
    unsigned num = (getenv("MKV_TEST_FEWER") != NULL) ? 2 * WARM : 100;
    char wire[64];
    pid_t forker;
    int status;

    ct_side_find_module();
    mkv_test_init();
    num = (argc > 1) ? (unsigned)atoi(argv[1]) : num;
    snprintf(wire, sizeof(wire), "/tmp/kv_rejoin.%d", (int)getpid());
    setenv("FAKE_VERBS_WIRE", wire, 1);
    setenv("UCX_TLS", "mori_rdma,tcp", 1);
    setenv("UCX_MORI_RDMA_TIMEOUT", "1ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "30ms", 1);
    expect((pipe(pipes[0]) == 0) && (pipe(pipes[1]) == 0), "pipes");
    forker = fork();
    expect(forker >= 0, "fork");
    if (forker == 0) {
        fork_mortals();
    }
    close(pipes[0][0]);
    close(pipes[1][1]);
    status = survive((num > WARM) ? num : WARM + 1);
    kill(forker, SIGKILL);
    waitpid(forker, NULL, 0);
    unlink(wire);
    return status;
}
