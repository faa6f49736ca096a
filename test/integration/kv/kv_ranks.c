/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A prefill and a decode process with several ranks each, of unequal numbers: heads in
 * two layouts, latents, grouped state, blocks of unequal size; every byte of all caches
 * is compared.
 */

#include "kv_side.h"

#include "test/support/mkv_hip.h"
#include "test/support/mkv_ranks.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS {16, 16}, 100

static const ranks_part_t cache[] = {
    {0, {0, 0}, 1, 32, 1, {8}, TOKENS, 0},
    {MKV_REGION_HEADS_FIRST, {0, 0}, 2, 32, 1, {8}, TOKENS, 0},
    {MKV_REGION_REPLICATED, {0, 0}, 1, 144, 0, {0}, TOKENS, 0},
    {0, {0, 0}, 1, 6, 3, {64, 64, 128}, {0, 0}, 1, 0},
    {0, {0, 0}, 1, 512, 1, {8}, {0, 0}, 1, 0},
    {0, {0, 0}, 1, 32, 1, {8}, {64, 16}, 100, 0},
};

/* Group sizes of the source and the destination. The last pair has as many ranks as two
 * nodes, and short runs leave it out */
static const uint32_t sizes[][2] = {{4, 2}, {2, 4}, {3, 1}, {8, 8}};

/* Heads in numbers that three ranks divide */
static const ranks_part_t threes[] = {
    {0, {0, 0}, 2, 32, 1, {6}, TOKENS, 0},
    {MKV_REGION_REPLICATED, {0, 0}, 1, 144, 0, {0}, TOKENS, 0},
};

/* DeepSeek's: latents of 512 + 64 values and keys of an indexer, whole on each rank */
static const ranks_part_t latents[] = {
    {MKV_REGION_REPLICATED, {0, 0}, 1, 1152, 0, {0}, {64, 64}, 1000, 0},
    {MKV_REGION_REPLICATED, {0, 0}, 1, 132, 0, {0}, {64, 64}, 1000, 0},
};

static const struct {
    const ranks_part_t *parts;
    uint32_t num;
} caches[] = {
    [3] = {threes, sizeof(threes) / sizeof(threes[0])},
    [8] = {latents, sizeof(latents) / sizeof(latents[0])},
    [2] = {cache, sizeof(cache) / sizeof(cache[0])},
    [4] = {cache, sizeof(cache) / sizeof(cache[0])},
};

typedef struct job {
    uint32_t sizes[2];
    mkv_mode_t mode;
} job_t;

static const ranks_gpu_t *gpu_memory(void)
{
    static const ranks_gpu_t gpu = {mkv_hip_alloc, mkv_hip_free, mkv_hip_copy};
    const char *memory = getenv("MKV_TEST_MEM");

    return ((memory != NULL) && (strcmp(memory, "gpu") == 0)) ? &gpu : NULL;
}

static void ranks_side(ranks_set_t *set, const job_t *job, int side)
{
    memset(set, 0, sizeof(*set));
    set->side = side;
    set->gpu = gpu_memory();
    set->mode = job->mode;
    set->num = job->sizes[side];
    set->num_others = job->sizes[1 - side];
    set->parts = caches[job->sizes[0]].parts;
    set->num_parts = caches[job->sizes[0]].num;
    ranks_open(set);
}

#define RANKS_UNTIL(_set, _condition)                                                  \
    do {                                                                               \
        uint64_t _start = mkv_test_now_ms();                                           \
        while (!(_condition)) {                                                        \
            (void)ranks_step(_set);                                                    \
            MKV_REQUIRE(mkv_test_now_ms() - _start < (uint64_t)mkv_test_limit_ms(),    \
                        "time is over: " #_condition);                                 \
        }                                                                              \
    } while (0)

static void transfer(ranks_set_t *set)
{
    RANKS_UNTIL(set, ranks_are_connected(set));
    ranks_start(set);
    RANKS_UNTIL(set, ranks_are_quiet(set));
}

static void send_next(int fd)
{
    MKV_REQUIRE(mkv_proc_send(fd, "next", 5) == 0, "send: %m");
}

/* Wait for the other side's message, and progress for it meanwhile */
static void await(ranks_set_t *set, int fd)
{
    char word[8];

    RANKS_UNTIL(set, mkv_proc_recv(fd, word, sizeof(word), 0) == 5);
}

static int decode(int fd, void *arg)
{
    static char blobs[65536];
    ranks_set_t set;
    char text[160];

    ranks_side(&set, arg, RANKS_DST);
    MKV_REQUIRE(!ranks_are_right(&set, text, sizeof(text)), "nothing has moved yet");
    MKV_REQUIRE(mkv_proc_send(fd, blobs, ranks_blobs(&set, blobs, sizeof(blobs))) == 0,
                "send: %m");
    transfer(&set);
    MKV_REQUIRE(ranks_are_right(&set, text, sizeof(text)), "%s", text);
    ranks_check_maps(&set);
    MKV_REQUIRE(ranks_bytes(&set) == ranks_held_bytes(&set),
                "%llu bytes have moved, %llu are held",
                (unsigned long long)ranks_bytes(&set),
                (unsigned long long)ranks_held_bytes(&set));
    ranks_spoil(&set);
    MKV_REQUIRE(!ranks_are_right(&set, text, sizeof(text)), "a wrong byte is not seen");
    send_next(fd);
    await(&set, fd); /* it closes, which needs all ranks here */
    ranks_close(&set);
    return 0;
}

/* Loop index: numbers of ranks; READ or WRITE */
/* MD-07, TP-02, TP-03, TR-08, XF-06 */
START_TEST(every_byte_comes_to_its_rank)
{
    job_t job = {{sizes[_i / 2][0], sizes[_i / 2][1]}, (_i % 2) ? MKV_WRITE : MKV_READ};
    static char blobs[65536];
    ranks_set_t set;
    mkv_proc_t proc;
    ssize_t length;
    char text[160];

    ck_assert_int_eq(mkv_proc_fork(&proc, decode, &job), 0);
    ranks_side(&set, &job, RANKS_SRC);
    length = mkv_proc_recv(proc.fd, blobs, sizeof(blobs), -1);
    ck_assert_int_gt(length, 0);
    ranks_connect(&set, blobs, (size_t)length);
    transfer(&set);
    ck_assert_msg(ranks_are_right(&set, text, sizeof(text)), "%s", text);
    await(&set, proc.fd);
    ranks_close(&set);
    send_next(proc.fd);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(mkv_proc_exit_status(&proc), 0);
    mkv_proc_cleanup(&proc);
}
END_TEST

/* A separate process queries the devices: a real runtime does not survive a fork. */
static int has_no_gpu(int fd, void *arg)
{
    (void)fd;
    (void)arg;
    return mkv_hip_num_devices() == 0;
}

int main(void)
{
    Suite *suite = suite_create("kv_ranks");
    TCase *tcase = tcase_create("ranks");
    mkv_proc_t proc;

    mkv_test_init();
    if ((gpu_memory() != NULL) &&
        ((mkv_proc_fork(&proc, has_no_gpu, NULL) != 0) || (mkv_proc_wait(&proc) != 0) ||
         (mkv_proc_exit_status(&proc) != 0))) {
        return mkv_test_exit_status(
            mkv_test_skip("gpu", "all", "no HIP runtime with a device") ? 1 : 0);
    }
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, every_byte_comes_to_its_rank, 0,
                        2 * (int)(sizeof(sizes) / sizeof(sizes[0]) -
                                  (getenv("MKV_TEST_FEWER") != NULL)));
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
