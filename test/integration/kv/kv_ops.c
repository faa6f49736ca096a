/* SPDX-License-Identifier: BSD-3-Clause */

/* Remote memory operations between two processes: the owner only makes progress. */

#include "kv_side.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SRC_SEED 21
#define DST_SEED 77
#define NUM 24

/* The two sides add the same regions in the same order, so their numbers are the same;
 * the owner sends its first one. */
static void send_region(kv_side_t *side)
{
    char text[32];

    snprintf(text, sizeof(text), "region %u", side->ids[0]);
    kv_send_word(side, text);
}

static void expect_region(kv_side_t *side)
{
    char text[32];

    snprintf(text, sizeof(text), "region %u", side->ids[0]);
    kv_expect(side, text);
}

/* All layers and parts of blocks, one piece each */
static size_t list_blocks(const kv_side_t *side, const uint32_t *mine,
                          const uint32_t *theirs, uint32_t num, mkv_op_piece_t *pieces)
{
    size_t bytes = side->shape.block_bytes;
    size_t count = 0;
    size_t region;
    uint32_t i;

    for (region = 0; region < side->num_ids; ++region) {
        for (i = 0; i < num; ++i) {
            pieces[count++] =
                (mkv_op_piece_t){side->ids[region], side->ids[region], mine[i] * bytes,
                                 theirs[i] * bytes, bytes};
        }
    }
    return count;
}

static mkv_event_t wait_note(kv_side_t *side, uint64_t id)
{
    mkv_event_t event = kv_wait_event(side, MKV_EV_NOTE, NULL);

    MKV_REQUIRE(event.id == id, "note %llu, expected %llu",
                (unsigned long long)event.id, (unsigned long long)id);
    return event;
}

/* The owner makes no call for the operations; notes report their end */
static int owner(int fd, void *arg)
{
    uint32_t mine[NUM], theirs[NUM], i;
    kv_side_t side = {0};
    mkv_event_t note;

    kv_region_flags = MKV_REGION_ONE_SIDED;
    kv_random_blocks(mine, NUM, kv_shape_default.blocks, 1);
    kv_random_blocks(theirs, NUM, kv_shape_default.blocks, 2);
    kv_side_open(&side, "dst", fd, arg, DST_SEED);
    kv_side_connect(&side, 0);
    send_region(&side);
    note = wait_note(&side, 1);
    MKV_REQUIRE((note.status == MKV_OK) && (note.value == MKV_WRITE) &&
                    (note.length == 5) && !memcmp(note.data, "wrote", 5),
                "the note of the WRITE");
    for (i = 0; i < NUM; ++i) {
        kv_check_block(&side, theirs[i], SRC_SEED, mine[i]);
    }
    kv_check_others(&side, theirs, NUM, DST_SEED);
    kv_fill(&side, DST_SEED + 1);
    kv_send_word(&side, "filled");
    note = wait_note(&side, 2);
    MKV_REQUIRE(note.value == MKV_READ, "the note of the READ");
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

static mkv_op_t *post(kv_side_t *side, uint64_t id, mkv_mode_t mode,
                      const mkv_op_piece_t *pieces, size_t num, const char *note)
{
    mkv_op_params_t params = {.size = sizeof(params),
                              .id = id,
                              .mode = mode,
                              .flags = (note != NULL) ? MKV_OP_NOTIFY : 0,
                              .pieces = pieces,
                              .num_pieces = num,
                              .note = note,
                              .note_length = (note != NULL) ? strlen(note) : 0};
    mkv_op_t *op;

    KV_OK(mkv_op_post(side->peer, &params, &op));
    return op;
}

static void wait_op(kv_side_t *side, mkv_op_t *op)
{
    KV_PROGRESS_UNTIL(side, mkv_op_status(op) != MKV_INPROGRESS);
    KV_IS(mkv_op_status(op), MKV_OK);
    KV_OK(mkv_op_close(op));
}

/* OS-01 */
START_TEST(write_and_read_without_a_call_of_the_owner)
{
    kv_shape_t shape = kv_shape_default;
    uint32_t mine[NUM], theirs[NUM], i;
    mkv_op_piece_t *pieces;
    kv_side_t side = {0};
    mkv_proc_t proc;
    size_t num;

    ck_assert_int_eq(mkv_proc_fork(&proc, owner, &shape), 0);
    kv_random_blocks(mine, NUM, shape.blocks, 1);
    kv_random_blocks(theirs, NUM, shape.blocks, 2);
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    kv_side_connect(&side, 1);
    expect_region(&side);
    pieces = malloc(side.num_ids * NUM * sizeof(*pieces));
    ck_assert_ptr_nonnull(pieces);
    num = list_blocks(&side, mine, theirs, NUM, pieces);
    wait_op(&side, post(&side, 1, MKV_WRITE, pieces, num, "wrote"));
    kv_expect(&side, "filled");
    wait_op(&side, post(&side, 2, MKV_READ, pieces, num, ""));
    for (i = 0; i < NUM; ++i) {
        kv_check_block(&side, mine[i], DST_SEED + 1, theirs[i]);
    }
    kv_check_others(&side, mine, NUM, SRC_SEED);
    free(pieces);
    kv_send_word(&side, "bye");
    kv_side_close(&side);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

static int is_quiet(const mkv_op_t *op)
{
    mkv_op_attr_t attr = {.size = sizeof(attr)};

    KV_OK(mkv_op_query(op, &attr));
    return attr.is_quiet;
}

static int victim(int fd, void *arg)
{
    kv_side_t side = {0};

    kv_region_flags = MKV_REGION_ONE_SIDED;
    kv_side_open(&side, "dst", fd, arg, DST_SEED);
    kv_side_connect(&side, 0);
    send_region(&side);
    (void)wait_note(&side, 1);
    raise(SIGKILL);
    return 1;
}

/* Operations go on until the owner is gone; then each ends with an error, and quiet */
/* OS-04 */
START_TEST(a_killed_owner_ends_them)
{
    kv_shape_t shape = kv_shape_default;
    mkv_op_piece_t piece = {0};
    mkv_op_t *op = NULL;
    kv_side_t side = {0};
    mkv_proc_t proc;
    mkv_status_t status = MKV_OK;

    ck_assert_int_eq(mkv_proc_fork(&proc, victim, &shape), 0);
    kv_set_option("DRAIN_TIMEOUT",
                  "2s"); /* UCX may have lost count of its emulated operations */
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    kv_set_option("DRAIN_TIMEOUT", NULL);
    kv_side_connect(&side, 1);
    expect_region(&side);
    piece = (mkv_op_piece_t){side.ids[0], side.ids[0], 0, 0, shape.block_bytes};
    while (status == MKV_OK) {
        mkv_op_params_t params = {.size = sizeof(params),
                                  .id = 1,
                                  .mode = MKV_READ,
                                  .flags = MKV_OP_NOTIFY,
                                  .pieces = &piece,
                                  .num_pieces = 1};
        if (mkv_op_post(side.peer, &params, &op) != MKV_OK) {
            break; /* its death was detected between two operations */
        }
        KV_PROGRESS_UNTIL(&side, mkv_op_status(op) != MKV_INPROGRESS);
        status = mkv_op_status(op);
        KV_PROGRESS_UNTIL(&side, is_quiet(op));
        (void)kv_wait_event(&side, (status == MKV_OK) ? MKV_EV_DONE : MKV_EV_FAILED,
                            NULL); /* of as many as it lives to serve */
        (void)kv_wait_event(&side, MKV_EV_QUIET, NULL);
        KV_OK(mkv_op_close(op));
    }
    ck_assert_int_eq(kv_wait_event(&side, MKV_EV_PEER_FAILED, NULL).status,
                     MKV_ERR_PEER);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    kv_side_close(&side);
}
END_TEST

/* ---- Threads --------------------------------------------------------------------- */

#define NUM_THREADS 8u

/* Each put and get waits for two rounds of the other side if UCX emulates it */
static unsigned num_rounds(void)
{
    const char *tls = getenv("UCX_TLS");
    bool is_slow = (tls == NULL) || (strcmp(tls, "tcp") == 0);

    return (is_slow || (getenv("MKV_TEST_FEWER") != NULL)) ? 125 : 1250;
}

/* Number of descriptors without those of test/kfd, which has one for each allocation of
 * a runtime */
static unsigned count_fds(void)
{
    static const char stand_in[] = "/memfd:kfdbo-";
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    char name[sizeof(stand_in)];
    unsigned num = 0;

    MKV_REQUIRE(dir != NULL, "/proc/self/fd cannot be read");
    while ((entry = readdir(dir)) != NULL) {
        num += (readlinkat(dirfd(dir), entry->d_name, name, sizeof(name)) <
                (ssize_t)strlen(stand_in)) ||
               (memcmp(name, stand_in, strlen(stand_in)) != 0);
    }
    closedir(dir);
    return num;
}

static int sharing_owner(int fd, void *arg)
{
    kv_side_t side = {0};
    unsigned num_fds;
    uint32_t i;

    kv_region_flags = MKV_REGION_ONE_SIDED;
    kv_set_option("PROGRESS_THREADS", "1");
    kv_side_open(&side, "dst", fd, arg, DST_SEED);
    kv_side_connect(&side, 0);
    send_region(&side);
    (void)wait_note(&side, NUM_THREADS); /* the first operation makes its resources */
    num_fds = count_fds();
    kv_send_word(&side, "counted");
    kv_expect(&side, "moved");
    MKV_REQUIRE(count_fds() == num_fds, "%u descriptors, %u before", count_fds(),
                num_fds);
    MKV_REQUIRE((kv_stats(&side).num_peers == 1) && (kv_stats(&side).hellos == 1),
                "more than one connection");
    for (i = 0; i < NUM_THREADS; ++i) {
        kv_check_block(&side, i, SRC_SEED, i);
    }
    kv_send_word(&side, "checked");
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

typedef struct stream {
    kv_side_t *side;
    uint32_t block;
    unsigned *num_over;
    pthread_t thread;
} stream_t;

/* Its block is written, and read again into another one */
static void *stream_main(void *arg)
{
    stream_t *stream = arg;
    size_t bytes = stream->side->shape.block_bytes, offset = stream->block * bytes;
    mkv_op_piece_t piece = {.length = bytes, .remote_offset = offset};
    unsigned empty = 0, i;
    mkv_op_t *op;

    for (i = 0; i < num_rounds(); ++i) {
        piece.local = piece.remote = stream->side->ids[i / 2 % stream->side->num_ids];
        piece.local_offset = (i & 1) ? offset + NUM_THREADS * bytes : offset;
        op = post(stream->side, stream->block, (i & 1) ? MKV_READ : MKV_WRITE, &piece,
                  1, NULL);
        while (!is_quiet(op)) {
            mkv_test_pause(&empty);
        }
        KV_IS(mkv_op_status(op), MKV_OK);
        KV_OK(mkv_op_close(op));
    }
    (void)__atomic_add_fetch(stream->num_over, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Run until all streams are over; events that are not polled stay queued */
static void run_streams(stream_t *streams, unsigned *num_over)
{
    mkv_event_t events[64];
    unsigned empty = 0, i;
    size_t num;

    for (i = 0; i < NUM_THREADS; ++i) {
        ck_assert_int_eq(
            pthread_create(&streams[i].thread, NULL, stream_main, &streams[i]), 0);
    }
    while (__atomic_load_n(num_over, __ATOMIC_ACQUIRE) < NUM_THREADS) {
        KV_OK(mkv_poll(streams[0].side->ctx, events, sizeof(events[0]), 64, &num));
        if (num == 0) {
            mkv_test_pause(&empty);
        }
    }
    for (i = 0; i < NUM_THREADS; ++i) {
        ck_assert_int_eq(pthread_join(streams[i].thread, NULL), 0);
    }
}

/* Ten thousand operations use one endpoint for the peer, and no further socket */
/* MD-03 */
START_TEST(eight_threads_share_one_connection)
{
    kv_shape_t shape = kv_shape_default;
    stream_t streams[NUM_THREADS];
    unsigned num_over = 0, num_fds;
    kv_side_t side = {0};
    mkv_proc_t proc;
    uint32_t i;

    ck_assert_int_eq(mkv_proc_fork(&proc, sharing_owner, &shape), 0);
    kv_set_option("PROGRESS_THREADS", "1");
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    kv_side_connect(&side, 1);
    expect_region(&side);
    wait_op(&side, post(&side, NUM_THREADS, MKV_WRITE,
                        &(mkv_op_piece_t){side.ids[0], side.ids[0], 0, 0, 1}, 1, ""));
    kv_expect(&side, "counted");
    num_fds = count_fds();
    for (i = 0; i < NUM_THREADS; ++i) {
        streams[i] = (stream_t){.side = &side, .block = i, .num_over = &num_over};
    }
    run_streams(streams, &num_over);
    ck_assert_uint_eq(count_fds(), num_fds);
    ck_assert_uint_eq(kv_stats(&side).num_peers, 1);
    ck_assert_uint_eq(kv_stats(&side).hellos, 1);
    for (i = 0; i < NUM_THREADS; ++i) {
        kv_check_block(&side, NUM_THREADS + i, SRC_SEED, i);
    }
    kv_send_word(&side, "moved");
    kv_expect(&side, "checked");
    kv_send_word(&side, "bye");
    kv_side_close(&side);
    kv_set_option("PROGRESS_THREADS", NULL);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_ops");
    TCase *tcase = tcase_create("two processes");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, write_and_read_without_a_call_of_the_owner);
    tcase_add_test(tcase, a_killed_owner_ends_them);
    tcase_add_test(tcase, eight_threads_share_one_connection);
    suite_add_tcase(suite, tcase);
    return kv_main(suite);
}
