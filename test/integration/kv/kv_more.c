/* SPDX-License-Identifier: BSD-3-Clause */

/* Sizes, counts, both roles at once, sleeping, a worker of the caller's. */

#include "kv_side.h"

#include "test/support/mkv_nowait.h"

#include <ucp/api/ucp.h>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SRC_SEED 3
#define DST_SEED 90
#define MAX_BLOCKS 10000
#define NUM_POSTS 1000

/** A scenario that both processes run. */
typedef struct story {
    kv_shape_t shape;
    uint32_t num_blocks; /**< Blocks per transfer */
    uint32_t rounds;     /**< Transfers, one after the other */
    uint32_t min_pieces; /**< Least pieces of a post */
    int is_both;         /**< A READ runs the other way at the same time */
} story_t;

static uint32_t mine[MAX_BLOCKS], theirs[MAX_BLOCKS];

static void choose_blocks(const story_t *story)
{
    kv_random_blocks(mine, story->num_blocks, story->shape.blocks, 1);
    kv_random_blocks(theirs, story->num_blocks, story->shape.blocks, 2);
}

static void end_xfer(kv_side_t *side, mkv_xfer_t *xfer)
{
    (void)kv_wait_event(side, MKV_EV_DONE, xfer);
    (void)kv_wait_event(side, MKV_EV_QUIET, xfer);
    MKV_REQUIRE(!kv_has_event(side, MKV_EV_DONE, xfer), "done is told twice");
    KV_OK(mkv_xfer_close(xfer));
}

/* However many regions: they lie in one allocation */
static void check_registered_once(kv_side_t *side)
{
    uint64_t num_memh = kv_stats(side).num_memh;

    MKV_REQUIRE(num_memh == 1, "%zu regions are %u registrations", side->num_ids,
                (unsigned)num_memh);
}

static int dst_main(int fd, void *arg)
{
    const story_t *story = arg;
    mkv_xfer_t *xfer, *reverse = NULL;
    kv_side_t side = {0};
    uint32_t round, i;

    choose_blocks(story);
    kv_side_open(&side, "dst", fd, &story->shape, DST_SEED);
    check_registered_once(&side);
    kv_side_connect_map(&side, 0);
    for (round = 0; round < story->rounds; ++round) {
        xfer = kv_open_xfer(&side, round, MKV_WRITE, MKV_DST);
        if (story->is_both) {
            reverse = kv_open_xfer(&side, 1000 + round, MKV_READ, MKV_SRC);
            kv_expose(reverse, theirs, 1);
        }
        kv_expose(xfer, mine, story->num_blocks);
        (void)kv_wait_event(&side, MKV_EV_DONE, xfer);
        for (i = 0; i < story->num_blocks; ++i) {
            kv_check_block(&side, mine[i], (uint8_t)(SRC_SEED + round), theirs[i]);
        }
        (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
        MKV_REQUIRE(!kv_has_event(&side, MKV_EV_DONE, xfer), "done is told twice");
        KV_OK(mkv_xfer_close(xfer));
        if (story->is_both) {
            end_xfer(&side, reverse);
        }
        kv_send_word(&side, "next");
    }
    kv_check_others(&side, mine, story->num_blocks, DST_SEED);
    kv_send_word(&side, "checked");
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

static mkv_xfer_attr_t query(const mkv_xfer_t *xfer)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};

    KV_OK(mkv_xfer_query(xfer, &attr));
    return attr;
}

/* Post everything to the transfer's peer and seal it */
static mkv_plan_t *send_all(kv_side_t *side, mkv_xfer_t *xfer, const uint32_t *blocks,
                            uint32_t num)
{
    mkv_event_t exposed = kv_wait_event(side, MKV_EV_EXPOSED, xfer);
    mkv_plan_t *plan = kv_plan(side, blocks, num, &exposed, 0);

    KV_OK(mkv_xfer_post(xfer, 0, plan, NULL, NULL));
    KV_OK(mkv_xfer_seal(xfer, 0));
    return plan;
}

static void run_rounds(story_t *story)
{
    mkv_xfer_t *xfer, *reverse = NULL;
    mkv_plan_t *plan, *back = NULL;
    uint32_t round, mine_for_read;
    kv_side_t side = {0};
    mkv_proc_t proc;

    choose_blocks(story);
    mine_for_read = mine[0];
    ck_assert_int_eq(mkv_proc_fork(&proc, dst_main, story), 0);
    kv_side_open(&side, "src", proc.fd, &story->shape, SRC_SEED);
    check_registered_once(&side);
    kv_side_connect_map(&side, 1);
    for (round = 0; round < story->rounds; ++round) {
        if (round > 0) {
            kv_fill(&side, (uint8_t)(SRC_SEED + round)); /* quiet: may be used */
        }
        xfer = kv_open_xfer(&side, round, MKV_WRITE, MKV_SRC);
        if (story->is_both) {
            reverse = kv_open_xfer(&side, 1000 + round, MKV_READ, MKV_DST);
        }
        plan = send_all(&side, xfer, theirs, story->num_blocks);
        ck_assert_uint_ge(query(xfer).posted, story->min_pieces);
        if (story->is_both) {
            back = send_all(&side, reverse, &mine_for_read, 1);
            end_xfer(&side, reverse);
            kv_check_block(&side, mine_for_read, DST_SEED, theirs[0]);
            KV_OK(mkv_plan_destroy(back));
        }
        end_xfer(&side, xfer);
        KV_OK(mkv_plan_destroy(plan));
        kv_expect(&side, "next");
    }
    kv_expect(&side, "checked");
    kv_send_word(&side, "bye");
    kv_side_close(&side);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}

/* XF-02 */
START_TEST(ten_thousand_pieces_in_one_post)
{
    story_t story = {.shape = {3, 1, 10000, 64, 0},
                     .num_blocks = 3500, /* a few merge */
                     .rounds = 1,
                     .min_pieces = 10000};

    run_rounds(&story);
}
END_TEST

/* The READ takes a block that the WRITE does not touch: theirs[0] of the other side */
/* XF-01 */
START_TEST(both_roles_at_once)
{
    story_t story = {
        .shape = {2, 1, 4096, 256, 0}, .num_blocks = 16, .rounds = 100, .is_both = 1};

    run_rounds(&story);
}
END_TEST

/* Every round has different bytes; the destination compares them at once when it gets
 * DONE. */
/* CN-02 */
START_TEST(memory_is_new_at_done)
{
    const char *rounds = getenv("MKV_TEST_ROUNDS");
    story_t story = {.shape = {1, 1, 8, 512, 0}, .num_blocks = 8, .rounds = 500};

    if (rounds != NULL) {
        story.rounds = (uint32_t)strtoul(rounds, NULL, 10);
    }
#ifdef __SANITIZE_ADDRESS__
    story.rounds = (story.rounds + 9) / 10; /* does not check the order of bytes */
#endif
    run_rounds(&story);
    mkv_test_pass("memory_is_new_at_done", "%u rounds", story.rounds);
}
END_TEST

/* RG-06 */
START_TEST(two_hundred_regions_of_one_allocation_arrive)
{
    story_t story = {.shape = {100, 2, 16, 1000, 0}, .num_blocks = 8, .rounds = 1};

    run_rounds(&story);
}
END_TEST

static const size_t odd_sizes[] = {1,    2,     3,     7,      8,       15,
                                   17,   63,    65,    255,    1000,    4095,
                                   4097, 65535, 65537, 131073, 1000003, 67108863};

/* FN-04, TS-07, TS-09 */
START_TEST(odd_sizes_arrive)
{
    story_t story = {
        .shape = {1, 1, 3, odd_sizes[_i], 0}, .num_blocks = 1, .rounds = 1};

    story.shape.stride = (_i & 1) ? odd_sizes[_i] + 5 : 0;
    run_rounds(&story);
}
END_TEST

/* Event loop of the header, on both sides and from mkv_open() on: only an event ends a
 * sleep */
START_TEST(sleeping_sides_are_woken)
{
    story_t story = {.shape = {2, 1, 8, 4096, 0}, .num_blocks = 4, .rounds = 10};

    kv_set_option("PEER_CHECK", "0"); /* no timer helps */
    setenv("UCX_KEEPALIVE_INTERVAL", "inf", 1);
    kv_sides_sleep = 1;
    run_rounds(&story);
    kv_sides_sleep = 0;
    kv_set_option("PEER_CHECK", NULL);
    unsetenv("UCX_KEEPALIVE_INTERVAL");
}
END_TEST

/* ---- Block lists ----------------------------------------------------------------- */

#define MANY 100000u
static uint32_t many[MANY];
static const uint32_t list_sizes[] = {0, 1, MANY};

static int lists_dst(int fd, void *arg)
{
    const kv_shape_t *shape = arg;
    kv_side_t side = {0};
    mkv_xfer_t *xfer;
    size_t i;

    kv_side_open(&side, "dst", fd, shape, DST_SEED);
    kv_side_connect_map(&side, 0);
    kv_random_blocks(many, MANY, MANY, 5);
    for (i = 0; i < 3; ++i) {
        xfer = kv_open_xfer(&side, i, MKV_WRITE, MKV_DST);
        kv_expose(xfer, many, list_sizes[i]);
        (void)kv_wait_event(&side, MKV_EV_ABORTED, xfer);
        (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
        KV_OK(mkv_xfer_close(xfer));
    }
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

/* MD-06 */
START_TEST(block_lists_arrive_equal)
{
    kv_shape_t shape = {1, 1, MANY, 1, 0};
    kv_side_t side = {0};
    mkv_event_t exposed;
    mkv_proc_t proc;
    mkv_xfer_t *xfer;
    size_t i;

    ck_assert_int_eq(mkv_proc_fork(&proc, lists_dst, &shape), 0);
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    kv_side_connect_map(&side, 1);
    kv_random_blocks(many, MANY, MANY, 5);
    for (i = 0; i < 3; ++i) {
        xfer = kv_open_xfer(&side, i, MKV_WRITE, MKV_SRC);
        exposed = kv_wait_event(&side, MKV_EV_EXPOSED, xfer);
        ck_assert_uint_eq(exposed.units[0].num_remote, list_sizes[i]);
        ck_assert_mem_eq(exposed.units[0].remote, many,
                         list_sizes[i] * sizeof(many[0]));
        KV_OK(mkv_xfer_abort(xfer, MKV_ERR_ABORTED, NULL));
        (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
        KV_OK(mkv_xfer_close(xfer));
    }
    kv_send_word(&side, "bye");
    kv_side_close(&side);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

/* ---- A stopped peer -------------------------------------------------------------- */

static int stopped_dst(int fd, void *arg)
{
    const kv_shape_t *shape = arg;
    kv_side_t side = {0};

    kv_side_open(&side, "dst", fd, shape, DST_SEED);
    kv_side_connect_map(&side, 0);
    kv_random_blocks(many, 64, shape->blocks, 5);
    kv_expose(kv_open_xfer(&side, 1, MKV_WRITE, MKV_DST), many, 64);
    for (;;) {
        kv_side_progress(&side);
    }
    return 0;
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t na = *(const uint64_t *)a, nb = *(const uint64_t *)b;

    return (na > nb) - (na < nb);
}

typedef struct posting {
    mkv_xfer_t *xfer;
    mkv_plan_t *plan;
    uint64_t took_ns[NUM_POSTS];
    int has_filter; /* of system calls that wait */
} posting_t;

/* A set of descriptors: those of sockets, or of sockets that wait until they are read
 */
typedef struct sockets {
    uint8_t has[1024];
} sockets_t;

/* ROCr of ROCm 7.2 accepts importers of memory on a socket, in a thread of its own. */
static bool is_listening(int fd)
{
    int is_accepting = 0;
    socklen_t length = sizeof(is_accepting);

    return (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_accepting, &length) == 0) &&
           is_accepting;
}

static sockets_t find_sockets(int flags_without)
{
    sockets_t sockets = {{0}};
    struct stat stat;
    int fd, flags;

    for (fd = 0; fd < 1024; ++fd) {
        flags = fcntl(fd, F_GETFL);
        sockets.has[fd] = (flags >= 0) && !(flags & flags_without) &&
                          (fstat(fd, &stat) == 0) && S_ISSOCK(stat.st_mode) &&
                          !is_listening(fd);
    }
    return sockets;
}

/* A separate thread; the kernel refuses each of its calls that wait */
static void *post_a_thousand_times(void *arg)
{
    posting_t *posting = arg;
    uint64_t start_ns;
    int i;

    posting->has_filter = (mkv_nowait_begin() == 0);
    for (i = 0; i < NUM_POSTS; ++i) {
        start_ns = now_ns();
        KV_OK(mkv_xfer_post(posting->xfer, 0, posting->plan, NULL, NULL));
        posting->took_ns[i] = now_ns() - start_ns;
    }
    return NULL;
}

/* A post that waits for anything ends this process. Its time is printed, but not
 * judged. */
/* CC-01 */
START_TEST(posting_to_a_stopped_peer_returns)
{
    static posting_t posting;
    uint64_t *took_ns = posting.took_ns;
    kv_shape_t shape = kv_shape_default;
    kv_side_t side = {0};
    mkv_event_t exposed;
    sockets_t before, waiting;
    pthread_t thread;
    mkv_proc_t proc;
    mkv_xfer_t *xfer;
    mkv_plan_t *plan;
    uint64_t posted;
    int i;

    kv_set_option("DRAIN_TIMEOUT", "500");
    kv_set_option("MAX_INFLIGHT_OPS", "64");
    ck_assert_int_eq(mkv_proc_fork(&proc, stopped_dst, &shape), 0);
    before = find_sockets(0);
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    kv_side_connect_map(&side, 1);
    xfer = kv_open_xfer(&side, 1, MKV_WRITE, MKV_SRC);
    exposed = kv_wait_event(&side, MKV_EV_EXPOSED, xfer);
    kv_random_blocks(many, 64, shape.blocks, 6);
    plan = kv_plan(&side, many, 64, &exposed, 0);
    mkv_proc_kill(&proc, SIGSTOP);
    waiting = find_sockets(O_NONBLOCK);
    /* sockets of UCX: a write to them must not wait for a reader */
    for (i = 0; i < 1024; ++i) {
        ck_assert_msg(!waiting.has[i] || before.has[i], "socket %d would wait", i);
    }
    posting.xfer = xfer;
    posting.plan = plan;
    ck_assert_int_eq(pthread_create(&thread, NULL, post_a_thousand_times, &posting), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    if (!posting.has_filter) {
        ck_assert_int_eq(
            mkv_test_skip("seccomp", "posting_to_a_stopped_peer_returns",
                          "no filters of system calls: waits are not seen"),
            0);
    }
    qsort(took_ns, NUM_POSTS, sizeof(took_ns[0]), compare_ns);
    ck_assert_uint_le(kv_stats(&side).inflight_ops, 64);
    posted = query(xfer).posted;
    ck_assert_uint_ge(posted, NUM_POSTS * 16);
    KV_OK(mkv_xfer_abort(xfer, MKV_ERR_ABORTED, NULL));
    mkv_proc_kill(&proc, SIGKILL);
    (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
    KV_OK(mkv_xfer_close(xfer));
    KV_OK(mkv_plan_destroy(plan));
    kv_side_close(&side);
    (void)mkv_proc_wait(&proc);
    mkv_test_pass("posting_to_a_stopped_peer_returns",
                  "%d posts of %u blocks, p50 %.1f us, p99 %.1f us", NUM_POSTS,
                  (unsigned)(posted / NUM_POSTS), (double)took_ns[NUM_POSTS / 2] / 1e3,
                  (double)took_ns[NUM_POSTS * 99 / 100] / 1e3);
}
END_TEST

/* ---- A worker of the caller's ---------------------------------------------------- */

START_TEST(an_attached_worker_outlives_the_context)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_RMA | UCP_FEATURE_AM};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    mkv_open_params_t open_params = {.size = sizeof(open_params)};
    mkv_ctx_t *ctx;
    int fd, i;

    ck_assert_int_eq(ucp_init(&params, NULL, &open_params.ucp_context), UCS_OK);
    KV_IS(mkv_open(NULL, &open_params, &ctx), MKV_ERR_INVALID);
    ck_assert_int_eq(ucp_worker_create(open_params.ucp_context, &worker_params,
                                       &open_params.ucp_worker),
                     UCS_OK);
    kv_set_option("PROGRESS_THREADS",
                  "1"); /* context whose threads would be the caller's */
    KV_IS(mkv_open(NULL, &open_params, &ctx), MKV_ERR_INVALID);
    kv_set_option("PROGRESS_THREADS", NULL);
    for (i = 0; i < 2; ++i) {
        KV_OK(mkv_open(NULL, &open_params, &ctx));
        (void)mkv_progress(ctx);
        KV_IS(mkv_event_fd(ctx, &fd),
              MKV_ERR_UNSUPPORTED); /* wakeup is not requested */
        KV_OK(mkv_close(ctx));
    }
    (void)ucp_worker_progress(open_params.ucp_worker);
    ucp_worker_destroy(open_params.ucp_worker);
    ucp_cleanup(open_params.ucp_context);
}
END_TEST

/* ---- Ports ----------------------------------------------------------------------- */

/* Whether this process holds the socket with this inode */
static int is_own_socket(unsigned long inode)
{
    char path[64], target[64], wanted[64];
    ssize_t length;
    int fd;

    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    for (fd = 0; fd < 1024; ++fd) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        length = readlink(path, target, sizeof(target) - 1);
        target[(length < 0) ? 0 : length] = '\0';
        if (!strcmp(target, wanted)) {
            return 1;
        }
    }
    return 0;
}

/* Listening TCP sockets of this process, as the kernel lists them */
static unsigned count_listeners(void)
{
    static const char *const tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    unsigned count = 0, state;
    unsigned long inode;
    char line[512];
    FILE *file;
    size_t i;

    for (i = 0; i < 2; ++i) {
        file = fopen(tables[i], "re");
        MKV_REQUIRE((file != NULL) || (i > 0), "%s cannot be read", tables[i]);
        while ((file != NULL) && (fgets(line, sizeof(line), file) != NULL)) {
            count += (sscanf(line, "%*s %*s %*s %x %*s %*s %*s %*s %*s %lu", &state,
                             &inode) == 2) &&
                     (state == 0x0a) && is_own_socket(inode);
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    return count;
}

static unsigned listeners_of_context(const char *tls)
{
    kv_side_t side = {0};
    unsigned count;

    kv_set_option("TLS", tls);
    kv_side_open_ctx(&side, "ports", -1);
    count = count_listeners();
    KV_OK(mkv_close(side.ctx));
    kv_set_option("TLS", NULL);
    return count;
}

/* The tcp transport of UCX listens, so the count works; there is no listener otherwise
 */
/* MD-05, MD-07 */
START_TEST(a_context_listens_to_no_port_of_its_own)
{
    ck_assert_uint_gt(listeners_of_context("tcp"), 0);
    ck_assert_uint_eq(listeners_of_context("posix,sysv,self"), 0);
}
END_TEST

/* ---- Many at once ---------------------------------------------------------------- */

#define NUM_XFERS 64u

/* Threads of this process; and those of them that make progress */
static unsigned count_threads(unsigned *progress_p)
{
    char path[300], name[32] = "";
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    unsigned count = 0;
    FILE *file;

    MKV_REQUIRE(dir != NULL, "/proc/self/task cannot be read");
    *progress_p = 0;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "re");
        if (file == NULL) {
            continue; /* the thread has ended since readdir() */
        }
        if ((fgets(name, sizeof(name), file) != NULL) &&
            (strcmp(name, "mori-opener\n") != 0)) { /* which ends by itself */
            ++count;
            *progress_p += strcmp(name, "mkv-progress\n") == 0;
        }
        fclose(file);
    }
    closedir(dir);
    return count;
}

/* Transfer i moves block i there to block NUM_XFERS - 1 - i here */
static int many_dst(int fd, void *arg)
{
    mkv_xfer_t *xfers[NUM_XFERS];
    kv_side_t side = {0};
    uint32_t i, block;

    kv_side_open(&side, "dst", fd, arg, DST_SEED);
    kv_side_connect_map(&side, 0);
    for (i = 0; i < NUM_XFERS; ++i) {
        xfers[i] = kv_open_xfer(&side, i, MKV_WRITE, MKV_DST);
        block = NUM_XFERS - 1 - i;
        kv_expose(xfers[i], &block, 1);
    }
    for (i = 0; i < NUM_XFERS; ++i) {
        (void)kv_wait_event(&side, MKV_EV_QUIET, xfers[i]);
        KV_OK(query(xfers[i]).status);
        kv_check_block(&side, NUM_XFERS - 1 - i, SRC_SEED, i);
        KV_OK(mkv_xfer_close(xfers[i]));
    }
    kv_send_word(&side, "checked");
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

/* CF-04 */
START_TEST(threads_that_cannot_be_are_refused)
{
    mkv_open_params_t params = {.size = sizeof(params)};
    mkv_ctx_t *ctx;
    int fd;

    kv_set_option("PROGRESS_THREADS", "65");
    KV_IS(mkv_open(NULL, &params, &ctx), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "PROGRESS_THREADS: '65'"));
    kv_set_option("PROGRESS_THREADS", "1");
    kv_set_option("WAKEUP", "n"); /* nothing could wake them */
    KV_IS(mkv_open(NULL, &params, &ctx), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "WAKEUP=y"));
    kv_set_option("PROGRESS_THREADS", NULL);
    KV_OK(mkv_open(NULL, &params, &ctx));
    KV_IS(mkv_event_fd(ctx, &fd), MKV_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "option WAKEUP"));
    KV_OK(mkv_close(ctx));
    kv_set_option("WAKEUP", NULL);
    kv_set_option("PROGRESS_THREADS", "1");
    KV_OK(mkv_open(NULL, &params, &ctx));
    KV_OK(mkv_close(ctx));
}
END_TEST

/* ---- Memory ---------------------------------------------------------------------- */

#define FEW_XFERS 10u
#define MORE_XFERS 1000u
#define XFERS_A_WORD 90u /* so many have events queued at once */
#define MOST_KIB 3u      /* of this process, for an open transfer */

static mkv_xfer_t *more_xfers[MORE_XFERS];

/* Resident memory of this process, in KiB */
static size_t resident_kib(void)
{
    size_t total, resident;
    FILE *file = fopen("/proc/self/statm", "re");

    MKV_REQUIRE((file != NULL) && (fscanf(file, "%zu %zu", &total, &resident) == 2),
                "/proc/self/statm cannot be read");
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Memory is bounded by the size of a transfer, not by the moved bytes; sanitizers keep
 * freed memory, and runtimes of GPUs what they allocate for commands. */
static void check_resident(const char *who, size_t few)
{
    size_t more = resident_kib();

    printf("%s: %zu KiB with %u transfers open, %zu with %u\n", who, few, FEW_XFERS,
           more, MORE_XFERS);
    MKV_REQUIRE((more <= few + MOST_KIB * (MORE_XFERS - FEW_XFERS)) ||
                    (getenv("MKV_TEST_FEWER") != NULL) ||
                    (getenv("MKV_TEST_REAL_HIP") != NULL),
                "%s: %zu KiB with %u transfers open, %zu with %u", who, few, FEW_XFERS,
                more, MORE_XFERS);
}

static void expose_more(kv_side_t *side, uint32_t first, uint32_t end)
{
    const uint32_t block = 0;

    for (; first < end; ++first) {
        more_xfers[first] = kv_open_xfer(side, first, MKV_WRITE, MKV_DST);
        kv_expose(more_xfers[first], &block, 1);
    }
}

static int more_dst(int fd, void *arg)
{
    kv_side_t side = {0};
    size_t few = 0;
    uint32_t i;

    kv_side_open(&side, "dst", fd, arg, DST_SEED);
    kv_side_connect_map(&side, 0);
    expose_more(&side, 0, FEW_XFERS);
    for (i = FEW_XFERS; i < MORE_XFERS; i += XFERS_A_WORD) {
        kv_expect(&side, "more");
        few = (i == FEW_XFERS) ? resident_kib() : few;
        expose_more(&side, i, i + XFERS_A_WORD);
    }
    kv_expect(&side, "enough");
    check_resident("destination", few);
    kv_send_word(&side, "enough");
    for (i = 0; i < MORE_XFERS; ++i) {
        (void)kv_wait_event(&side, MKV_EV_DONE, more_xfers[i]);
        (void)kv_wait_event(&side, MKV_EV_QUIET, more_xfers[i]);
        KV_OK(mkv_xfer_close(more_xfers[i]));
    }
    kv_send_word(&side, "checked");
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

static void post_more(kv_side_t *side, uint32_t first, uint32_t end, mkv_plan_t **plan)
{
    const uint32_t block = 1;
    mkv_event_t exposed;
    uint32_t i;

    for (i = first; i < end; ++i) {
        more_xfers[i] = kv_open_xfer(side, i, MKV_WRITE, MKV_SRC);
    }
    for (i = first; i < end; ++i) {
        exposed = kv_wait_event(side, MKV_EV_EXPOSED, more_xfers[i]);
        *plan = (*plan != NULL) ? *plan : kv_plan(side, &block, 1, &exposed, 0);
        KV_OK(mkv_xfer_post(more_xfers[i], 0, *plan, NULL, NULL));
        KV_PROGRESS_UNTIL(side, kv_stats(side).inflight_ops == 0); /* as UCX has room */
    }
}

/* CC-05 */
START_TEST(a_thousand_open_transfers_take_little_each)
{
    kv_shape_t shape = {4, 2, 4, 4096, 0};
    unsigned threads, progress;
    mkv_plan_t *plan = NULL;
    kv_side_t side = {0};
    mkv_proc_t proc;
    size_t few;
    uint32_t i;

    kv_set_option("OVERLAP", "allow");
    ck_assert_int_eq(mkv_proc_fork(&proc, more_dst, &shape), 0);
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    kv_side_connect_map(&side, 1);
    post_more(&side, 0, FEW_XFERS, &plan);
    few = resident_kib();
    threads = count_threads(&progress);
    for (i = FEW_XFERS; i < MORE_XFERS; i += XFERS_A_WORD) {
        kv_send_word(&side, "more");
        post_more(&side, i, i + XFERS_A_WORD, &plan);
    }
    check_resident("source", few);
    ck_assert_uint_eq(count_threads(&progress), threads);
    kv_send_word(&side, "enough");
    kv_expect(&side, "enough");
    for (i = 0; i < MORE_XFERS; ++i) {
        KV_OK(mkv_xfer_seal(more_xfers[i], 0));
        (void)kv_wait_event(&side, MKV_EV_DONE, more_xfers[i]);
        (void)kv_wait_event(&side, MKV_EV_QUIET, more_xfers[i]);
        KV_OK(query(more_xfers[i]).status);
        KV_OK(mkv_xfer_close(more_xfers[i]));
    }
    KV_OK(mkv_plan_destroy(plan));
    kv_expect(&side, "checked");
    kv_send_word(&side, "bye");
    kv_side_close(&side);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

static const char *const many_threads[] = {"0", "1", "2", "4"};

/* All are bound before the first is posted; 64 need no more threads than one. Where the
 * library has threads for it, neither side calls mkv_progress(). */
/* CC-05, CF-04 */
START_TEST(sixty_four_transfers_at_once)
{
    kv_shape_t shape = {4, 2, NUM_XFERS, 4096, 0};
    mkv_xfer_t *xfers[NUM_XFERS];
    mkv_plan_t *plans[NUM_XFERS];
    kv_side_t side = {0};
    mkv_event_t exposed;
    mkv_proc_t proc;
    unsigned threads = 0, progress, empty = 0;
    uint32_t i;

    kv_set_option("PROGRESS_THREADS", many_threads[_i]);
    ck_assert_int_eq(mkv_proc_fork(&proc, many_dst, &shape), 0);
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    kv_side_connect_map(&side, 1);
    for (i = 0; i < NUM_XFERS; ++i) {
        xfers[i] = kv_open_xfer(&side, i, MKV_WRITE, MKV_SRC);
    }
    for (i = 0; i < NUM_XFERS; ++i) {
        exposed = kv_wait_event(&side, MKV_EV_EXPOSED, xfers[i]);
        plans[i] = kv_plan(&side, &i, 1, &exposed, 0);
    }
    for (i = 0; i < NUM_XFERS; ++i) {
        KV_OK(mkv_xfer_post(xfers[i], 0, plans[i], NULL, NULL));
        KV_OK(mkv_xfer_seal(xfers[i], 0));
        threads = (i == 0) ? count_threads(&progress) : threads;
    }
    ck_assert_uint_eq(kv_stats(&side).xfers_open, NUM_XFERS);
    do { /* until each of them has given itself its name */
        ck_assert_uint_le(count_threads(&progress), threads);
        mkv_test_pause(&empty);
    } while (progress < (unsigned)atoi(many_threads[_i]));
    if (getenv("MKV_TEST_REAL_HIP") == NULL) {
        /* a GPU's driver makes threads, which inherit the name of their maker */
        ck_assert_uint_eq(progress, (unsigned)atoi(many_threads[_i]));
    }
    for (i = 0; i < NUM_XFERS; ++i) {
        (void)kv_wait_event(&side, MKV_EV_QUIET, xfers[i]);
        KV_OK(query(xfers[i]).status);
        KV_OK(mkv_xfer_close(xfers[i]));
        KV_OK(mkv_plan_destroy(plans[i]));
    }
    kv_expect(&side, "checked");
    kv_send_word(&side, "bye");
    kv_side_close(&side);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

/* ---- Large ----------------------------------------------------------------------- */

#define LARGE_BLOCK ((size_t)1 << 20)
#define LARGE_NUM 4160u /* 4 GiB and 64 MiB */

static mkv_map_t *open_large(kv_side_t *side, int fd, int calls, char **mem_p)
{
    mkv_region_t region = {.size = sizeof(region),
                           .length = LARGE_BLOCK * LARGE_NUM,
                           .unit_bytes = LARGE_BLOCK,
                           .n_units = LARGE_NUM};
    mkv_region_id_t id;

    kv_side_open_ctx(side, calls ? "src" : "dst", fd);
    *mem_p = calloc(LARGE_NUM, LARGE_BLOCK); /* untouched pages cost nothing */
    MKV_REQUIRE(*mem_p != NULL, "no memory");
    region.base = *mem_p;
    KV_OK(mkv_region_add(side->ctx, &region, &id));
    KV_OK(mkv_regions_commit(side->ctx, NULL));
    kv_side_connect_map(side, calls);
    return side->map;
}

static void large_blocks(uint32_t *blocks)
{
    uint32_t i;

    for (i = 0; i < LARGE_NUM; ++i) {
        blocks[i] = i;
    }
}

static int large_dst(int fd, void *arg)
{
    kv_side_t side = {0};
    mkv_xfer_t *xfer;
    uint32_t i;
    char *mem;

    (void)arg;
    (void)open_large(&side, fd, 0, &mem);
    large_blocks(many);
    xfer = kv_open_xfer(&side, 1, MKV_READ, MKV_SRC);
    for (i = 0; i < LARGE_NUM; i += 64) {
        memcpy(mem + i * LARGE_BLOCK + i, &i, sizeof(i));
    }
    kv_expose(xfer, many, LARGE_NUM);
    (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
    KV_OK(mkv_xfer_close(xfer));
    kv_expect(&side, "bye");
    kv_side_close(&side);
    free(mem);
    return 0;
}

/* FN-04, TR-11 */
START_TEST(more_than_four_gib_in_one_piece)
{
    mkv_plan_attr_t attr = {.size = sizeof(attr)};
    kv_side_t side = {0};
    mkv_proc_t proc;
    mkv_xfer_t *xfer;
    mkv_plan_t *plan;
    uint32_t i, value;
    char *mem;

    if (getenv("MKV_TEST_LARGE") == NULL) {
        ck_assert_int_eq(mkv_test_skip("large", "more_than_four_gib_in_one_piece",
                                       "needs 5 GiB of memory: set MKV_TEST_LARGE"),
                         0);
        return;
    }
    ck_assert_int_eq(mkv_proc_fork(&proc, large_dst, NULL), 0);
    (void)open_large(&side, proc.fd, 1, &mem);
    large_blocks(many);
    xfer = kv_open_xfer(&side, 1, MKV_READ, MKV_DST);
    plan = send_all(&side, xfer, many, LARGE_NUM);
    KV_OK(mkv_plan_query(plan, &attr));
    ck_assert_uint_eq(attr.num_elements, 1);
    ck_assert_uint_gt(attr.bytes, 1ull << 32);
    (void)kv_wait_event(&side, MKV_EV_QUIET, xfer);
    for (i = 0; i < LARGE_NUM; i += 64) {
        memcpy(&value, mem + i * LARGE_BLOCK + i, sizeof(value));
        ck_assert_uint_eq(value, i);
    }
    KV_OK(mkv_xfer_close(xfer));
    KV_OK(mkv_plan_destroy(plan));
    kv_send_word(&side, "bye");
    kv_side_close(&side);
    free(mem);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_more");
    TCase *tcase = tcase_create("two processes");

    tcase_set_timeout(tcase, 180);
    tcase_add_test(tcase, ten_thousand_pieces_in_one_post);
    tcase_add_test(tcase, both_roles_at_once);
    tcase_add_test(tcase, two_hundred_regions_of_one_allocation_arrive);
    tcase_add_loop_test(tcase, odd_sizes_arrive, 0,
                        (int)(sizeof(odd_sizes) / sizeof(odd_sizes[0])));
    tcase_add_test(tcase, block_lists_arrive_equal);
    tcase_add_test(tcase, posting_to_a_stopped_peer_returns);
    tcase_add_test(tcase, a_context_listens_to_no_port_of_its_own);
    tcase_add_loop_test(tcase, sixty_four_transfers_at_once, 0, 4);
    tcase_add_test(tcase, a_thousand_open_transfers_take_little_each);
    tcase_add_test(tcase, threads_that_cannot_be_are_refused);
    tcase_add_test(tcase, an_attached_worker_outlives_the_context);
    tcase_add_test(tcase, more_than_four_gib_in_one_piece);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("new at done");
    tcase_set_timeout(tcase, 180);
    tcase_add_test(tcase, memory_is_new_at_done);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("asleep");
    tcase_set_timeout(tcase, 60); /* a missed wakeup hangs */
    tcase_add_test(tcase, sleeping_sides_are_woken);
    suite_add_tcase(suite, tcase);
    return kv_main(suite);
}
