/* SPDX-License-Identifier: BSD-3-Clause */

/* Keyed buffers between two processes: one publishes, the other fetches. */

#include "kv_side.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define SRC_SEED 33
#define DST_SEED 88
#define ROUNDS 100

/* A block of layer 0, part 0 under a key of its own */
static uint64_t publish(kv_side_t *side, const char *key, uint32_t block, uint32_t num)
{
    mkv_publish_params_t params = {.size = sizeof(params),
                                   .key = key,
                                   .key_length = strlen(key),
                                   .region = side->ids[0],
                                   .flags = MKV_PUBLISH_REPLACE,
                                   .offset = block * side->shape.block_bytes,
                                   .length = num * side->shape.block_bytes};
    uint64_t id;

    KV_OK(mkv_publish(side->ctx, &params, &id));
    return id;
}

static mkv_status_t fetch(kv_side_t *side, const char *key, uint32_t block,
                          uint32_t num, uint32_t wait_ms)
{
    mkv_fetch_params_t params = {.size = sizeof(params),
                                 .id = block,
                                 .key = key,
                                 .key_length = strlen(key),
                                 .region = side->ids[0],
                                 .offset = block * side->shape.block_bytes,
                                 .length = num * side->shape.block_bytes,
                                 .wait_ms = wait_ms};
    mkv_event_t event;

    KV_OK(mkv_fetch(side->peer, &params));
    event = kv_wait_event(side, MKV_EV_FETCHED, NULL);
    MKV_REQUIRE(event.id == block, "the event of another fetch");
    return event.status;
}

static int owner(int fd, void *arg)
{
    kv_side_t side = {0};

    kv_side_open(&side, "dst", fd, arg, DST_SEED);
    publish(&side, "small", 3, 1);
    publish(&side, "large", 8, 16);
    kv_side_connect(&side, 0);
    kv_expect(&side, "late");
    publish(&side, "late", 40, 2);
    kv_expect(&side, "replace");
    publish(&side, "small", 5, 1);
    (void)kv_wait_event(&side, MKV_EV_EXPIRED, NULL);
    kv_say(&side, "replaced");
    kv_expect(&side, "bye");
    kv_side_close(&side);
    return 0;
}

/* Blocks of layer 0, part 0 alone: the other regions keep their own bytes */
static void check_blocks(kv_side_t *side, uint32_t mine, uint32_t theirs, uint32_t num)
{
    kv_shape_t shape = side->shape;
    uint32_t i;

    side->shape.layers = side->shape.parts = 1;
    for (i = 0; i < num; ++i) {
        kv_check_block(side, mine + i, DST_SEED, theirs + i);
    }
    side->shape = shape;
}

START_TEST(buffers_are_fetched_by_their_keys)
{
    kv_shape_t shape = kv_shape_default;
    kv_side_t side = {0};
    mkv_proc_t proc;
    unsigned i;

    ck_assert_int_eq(mkv_proc_fork(&proc, owner, &shape), 0);
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    kv_side_connect(&side, 1);
    for (i = 0; i < ROUNDS; ++i) {
        KV_IS(fetch(&side, "small", 1, 1, 0), MKV_OK);
        KV_IS(fetch(&side, "large", 20, 16, 0), MKV_OK);
    }
    check_blocks(&side, 1, 3, 1);
    check_blocks(&side, 20, 8, 16);
    KV_IS(fetch(&side, "none", 50, 1, 0), MKV_ERR_NOTFOUND);
    KV_IS(fetch(&side, "large", 45, 15, 0), MKV_ERR_LENGTH);
    kv_say(&side, "late");
    KV_IS(fetch(&side, "late", 50, 2, (uint32_t)mkv_test_limit_ms()), MKV_OK);
    check_blocks(&side, 50, 40, 2);
    kv_say(&side, "replace");
    kv_expect(&side, "replaced");
    KV_IS(fetch(&side, "small", 1, 1, 0), MKV_OK);
    check_blocks(&side, 1, 5, 1);
    kv_say(&side, "bye");
    kv_side_close(&side);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    ck_assert_int_eq(proc.status, 0);
}
END_TEST

/* The reader is killed between its fetches, or in one: the buffer comes back all the
 * same */
static int reader(int fd, void *arg)
{
    mkv_fetch_params_t params = {.size = sizeof(params), .key = "k", .key_length = 1};
    kv_side_t side = {0};

    kv_side_open(&side, "dst", fd, arg, DST_SEED);
    kv_side_connect(&side, 0);
    kv_expect(&side, "connected"); /* there as well, which is a flush behind it here */
    params.region = side.ids[0];
    params.length = 16 * side.shape.block_bytes;
    KV_OK(mkv_fetch(side.peer, &params));
    kv_say(&side, "fetching");
    raise(SIGKILL);
    return 1;
}

START_TEST(a_killed_reader_holds_nothing)
{
    kv_shape_t shape = kv_shape_default;
    kv_side_t side = {0};
    mkv_proc_t proc;
    uint64_t id;

    ck_assert_int_eq(mkv_proc_fork(&proc, reader, &shape), 0);
    kv_side_open(&side, "src", proc.fd, &shape, SRC_SEED);
    id = publish(&side, "k", 0, 16);
    kv_side_connect(&side, 1);
    kv_say(&side, "connected");
    kv_expect(&side, "fetching");
    KV_OK(mkv_unpublish(side.ctx, id));
    (void)kv_wait_event(&side, MKV_EV_EXPIRED, NULL);
    ck_assert_int_eq(mkv_proc_wait(&proc), 0);
    kv_side_close(&side);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_store");
    TCase *tcase = tcase_create("two processes");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, buffers_are_fetched_by_their_keys);
    tcase_add_test(tcase, a_killed_reader_holds_nothing);
    suite_add_tcase(suite, tcase);
    return kv_main(suite);
}
