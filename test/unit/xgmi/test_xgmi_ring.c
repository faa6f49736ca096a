/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages through a ring: all of them, in order, whole, and nothing else; whatever the
 * other side writes, this one stays inside. Pages that cannot be touched are beside it.
 */

#include "test/support/mkv_check.h"
#include "xgmi/message/xgmi_ring.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LIMIT_S 300
#define GUARD 65536
#define LINE 64

/* Bytes before a message's own */
#define HEAD 8

/* Messages of a line each, until the next one would hide the first */
#define MOST (MUCT_XGMI_RING_SIZE / LINE - 1)

#define NUM_RANDOM 200000
#define NUM_SLEEPS 20000

static muct_xgmi_ring_state_t state;
static unsigned char *bytes;
static muct_xgmi_ring_tx_t tx;
static muct_xgmi_ring_rx_t rx;

static void setup(void)
{
    unsigned char *all = mmap(NULL, (2 * GUARD) + MUCT_XGMI_RING_SIZE, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(all, MAP_FAILED);
    bytes = all + GUARD;
    ck_assert_int_eq(mprotect(bytes, MUCT_XGMI_RING_SIZE, PROT_READ | PROT_WRITE), 0);
    memset(&state, 0, sizeof(state));
    ck_assert(muct_xgmi_ring_tx_init(&tx, &state, bytes));
    ck_assert(muct_xgmi_ring_rx_init(&rx, &state, bytes));
}

static void teardown(void)
{
    munmap(bytes - GUARD, (2 * GUARD) + MUCT_XGMI_RING_SIZE);
}

/* Message @a number has that pattern. @return Whether there was room. */
static bool push(size_t length, uint64_t number)
{
    void *data = muct_xgmi_ring_reserve(&tx, length);

    if (data == NULL) {
        return false;
    }

    MKV_REQUIRE(((uintptr_t)data % 8) == 0, "message %zu at %p", length, data);
    mkv_pattern_fill(data, length, number, 0);
    muct_xgmi_ring_commit(&tx, (uint8_t)number, length);
    return true;
}

static bool is_whole(const muct_xgmi_ring_message_t *message, size_t length,
                     uint64_t number)
{
    return (message->length == length) && (message->id == (uint8_t)number) &&
           (((uintptr_t)message->data % 8) == 0) &&
           (mkv_pattern_check(message->data, length, number, 0) == length);
}

static muct_xgmi_ring_found_t look(void)
{
    muct_xgmi_ring_message_t message;

    return muct_xgmi_ring_next(&rx, &message);
}

static void pop(size_t length, uint64_t number)
{
    muct_xgmi_ring_message_t message = {.length = 0};

    ck_assert_int_eq(muct_xgmi_ring_next(&rx, &message), MUCT_XGMI_RING_MESSAGE);
    ck_assert_msg(is_whole(&message, length, number),
                  "message %llu of %zu bytes came as %u of %u",
                  (unsigned long long)number, length, message.id, message.length);
    muct_xgmi_ring_skip(&rx, &message);
}

/* Everything was read and its room released, and the next message begins at @a
 * position. */
static void go_to(uint64_t position)
{
    while ((tx.position % MUCT_XGMI_RING_SIZE) != position) {
        ck_assert(push(0, 0));
        pop(0, 0);
        (void)muct_xgmi_ring_give_room(&rx);
    }
}

static unsigned fill(size_t length)
{
    unsigned count = 0;

    while (push(length, count)) {
        ++count;
    }
    return count;
}

/* XM-01 */
START_TEST(messages_of_every_length_come_in_order)
{
    const size_t step = mkv_test_rounds(1, 61);
    size_t length;

    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
    for (length = 0; length <= MUCT_XGMI_RING_MAX_MESSAGE; length += step) {
        ck_assert(push(length, length));
        ck_assert(push(length / 2, length + 1));
        pop(length, length);
        pop(length / 2, length + 1);
        ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
        ck_assert(!muct_xgmi_ring_give_room(&rx));
    }
    ck_assert_uint_gt(tx.position, MUCT_XGMI_RING_SIZE);
    ck_assert_uint_eq(atomic_load(&state.head), tx.position);
}
END_TEST

/* Each start position, with the longest messages that a sender may send */
/* XM-01 */
START_TEST(one_always_comes_to_fit)
{
    uint64_t start;

    for (start = 0; start < MUCT_XGMI_RING_SIZE; start += LINE) {
        go_to(start);
        ck_assert(muct_xgmi_ring_has_room(&tx, MUCT_XGMI_RING_MAX_MESSAGE));
        ck_assert(push(MUCT_XGMI_RING_MAX_MESSAGE, start));
        pop(MUCT_XGMI_RING_MAX_MESSAGE, start);
        (void)muct_xgmi_ring_give_room(&rx);
    }
}
END_TEST

START_TEST(a_message_stays_until_it_is_skipped)
{
    muct_xgmi_ring_message_t first, second;

    ck_assert(push(100, 1));
    ck_assert_int_eq(muct_xgmi_ring_next(&rx, &first), MUCT_XGMI_RING_MESSAGE);
    ck_assert_int_eq(muct_xgmi_ring_next(&rx, &second), MUCT_XGMI_RING_MESSAGE);
    ck_assert_ptr_eq(first.data, second.data);
    pop(100, 1);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
}
END_TEST

/* The reservation is longer than the message. */
START_TEST(a_message_takes_what_it_has_and_not_what_was_reserved)
{
    unsigned i;

    for (i = 0; i < 2 * MOST; ++i) {
        ck_assert_ptr_nonnull(muct_xgmi_ring_reserve(&tx, MUCT_XGMI_RING_MAX_MESSAGE));
        muct_xgmi_ring_commit(&tx, (uint8_t)i, 0);
        pop(0, i);
        (void)muct_xgmi_ring_give_room(&rx);
    }
    ck_assert_uint_lt(tx.position, 4 * MUCT_XGMI_RING_SIZE);
}
END_TEST

/* The line behind the last one is marked empty; it is not the first one's. */
/* XM-01 */
START_TEST(none_is_lost_when_the_ring_is_full)
{
    unsigned round, count, i;

    for (round = 0; round < 3; ++round) {
        count = fill(LINE - HEAD);
        ck_assert_uint_eq(count, MOST);
        ck_assert(!muct_xgmi_ring_has_room(&tx, 0));
        ck_assert_ptr_null(muct_xgmi_ring_reserve(&tx, 0));
        for (i = 0; i < count; ++i) {
            pop(LINE - HEAD, i);
        }
        ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
        (void)muct_xgmi_ring_give_room(&rx);
    }
}
END_TEST

/* Read, but perhaps needed still: the room is the receiver's to give. */
START_TEST(room_is_there_when_it_was_given)
{
    unsigned count = fill(1000), i;

    for (i = 0; i < count; ++i) {
        pop(1000, i);
    }
    ck_assert(!muct_xgmi_ring_has_room(&tx, 1000));
    (void)muct_xgmi_ring_give_room(&rx);
    ck_assert(muct_xgmi_ring_has_room(&tx, 1000));
    ck_assert_uint_eq(fill(1000), count);
}
END_TEST

/* The bytes before the end of the ring are too few, one line too few, or just enough.
 */
/* XM-01 */
START_TEST(what_does_not_fit_before_the_end_lies_at_the_beginning)
{
    const uint64_t start = MUCT_XGMI_RING_SIZE - 1024;
    void *data;

    go_to(start);
    data = muct_xgmi_ring_reserve(&tx, 1024 - HEAD);
    ck_assert_ptr_eq(data, bytes + start + HEAD);
    ck_assert(push(1024 - HEAD, 1));
    pop(1024 - HEAD, 1);
    ck_assert_uint_eq(tx.position % MUCT_XGMI_RING_SIZE, 0);

    go_to(start);
    data = muct_xgmi_ring_reserve(&tx, 1024 - HEAD + 1);
    ck_assert_ptr_eq(data, bytes + HEAD);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
    ck_assert(push(1024 - HEAD + 1, 2));
    pop(1024 - HEAD + 1, 2);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
}
END_TEST

/* Two lines before the end of the ring are left over, and one is marked as the last. */
START_TEST(a_message_at_the_beginning_does_not_reach_the_first_unread_one)
{
    const size_t most = (14 * LINE) - HEAD;
    unsigned i;

    go_to(MUCT_XGMI_RING_SIZE - LINE);
    ck_assert_uint_eq(fill(0), MOST);
    for (i = 0; i < 16; ++i) {
        pop(0, i);
    }
    (void)muct_xgmi_ring_give_room(&rx);
    ck_assert(!muct_xgmi_ring_has_room(&tx, most + 1));
    ck_assert(push(most, 77));
    for (i = 16; i < MOST; ++i) {
        pop(0, i);
    }
    pop(most, 77);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
}
END_TEST

/* A sender dies in the middle of a message: its bytes look like messages here. */
static void write_and_die(size_t length)
{
    unsigned char *data = muct_xgmi_ring_reserve(&tx, length);
    size_t i;

    ck_assert_ptr_nonnull(data);
    for (i = 0; i < length; ++i) {
        data[i] = 1;
    }
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
}

/* XM-01 */
START_TEST(what_was_not_committed_is_never_seen)
{
    write_and_die(1000);
    ck_assert(muct_xgmi_ring_tx_init(&tx, &state, bytes));
    ck_assert(push(10, 1));
    pop(10, 1);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
    (void)muct_xgmi_ring_give_room(&rx);

    /* and behind the end of the ring */
    go_to(MUCT_XGMI_RING_SIZE - LINE);
    write_and_die(1000);
    (void)muct_xgmi_ring_give_room(&rx);
    ck_assert(muct_xgmi_ring_tx_init(&tx, &state, bytes));
    ck_assert_uint_eq(tx.position % MUCT_XGMI_RING_SIZE, 0);
    ck_assert(push(10, 2));
    pop(10, 2);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
}
END_TEST

START_TEST(a_sender_does_not_begin_before_all_was_read)
{
    muct_xgmi_ring_tx_t next;

    ck_assert(push(10, 1));
    ck_assert(push(10, 2));
    ck_assert(!muct_xgmi_ring_tx_init(&next, &state, bytes));
    pop(10, 1);
    (void)muct_xgmi_ring_give_room(&rx);
    ck_assert(!muct_xgmi_ring_tx_init(&next, &state, bytes));
    pop(10, 2);
    /* read, and the room is not given yet */
    ck_assert(!muct_xgmi_ring_tx_init(&next, &state, bytes));
    (void)muct_xgmi_ring_give_room(&rx);
    ck_assert(muct_xgmi_ring_tx_init(&next, &state, bytes));
    tx = next;
    ck_assert(push(10, 3));
    pop(10, 3);

    /* the end of the ring alone is something to be read as well */
    (void)muct_xgmi_ring_give_room(&rx);
    go_to(MUCT_XGMI_RING_SIZE - LINE);
    ck_assert_ptr_nonnull(muct_xgmi_ring_reserve(&tx, 1000));
    ck_assert(!muct_xgmi_ring_tx_init(&next, &state, bytes));
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
    (void)muct_xgmi_ring_give_room(&rx);
    ck_assert(muct_xgmi_ring_tx_init(&next, &state, bytes));
}
END_TEST

START_TEST(a_sender_does_not_begin_where_no_message_can)
{
    atomic_store(&state.head, LINE);
    ck_assert(muct_xgmi_ring_tx_init(&tx, &state, bytes));
    atomic_store(&state.head, LINE + 8);
    ck_assert(!muct_xgmi_ring_tx_init(&tx, &state, bytes));
    atomic_store(&state.head, UINT64_MAX);
    ck_assert(!muct_xgmi_ring_tx_init(&tx, &state, bytes));
}
END_TEST

START_TEST(a_receiver_begins_where_the_last_one_ended)
{
    ck_assert(push(10, 1));
    ck_assert(push(10, 2));
    pop(10, 1);
    (void)muct_xgmi_ring_give_room(&rx);
    ck_assert(muct_xgmi_ring_rx_init(&rx, &state, bytes));
    ck_assert(!muct_xgmi_ring_give_room(&rx));
    pop(10, 2);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
}
END_TEST


/* ---- a side that writes wrong words ---- */

/* Write the first word of a message where the next message is expected */
static void write_head(uint64_t position, uint32_t length, uint8_t kind)
{
    unsigned char *at = bytes + (position % MUCT_XGMI_RING_SIZE);

    memset(at, 0, HEAD);
    memcpy(at, &length, sizeof(length));
    at[5] = kind;
}

enum { IS_MESSAGE = 1, IS_END = 2 };

/* XM-04 */
START_TEST(an_invalid_message_is_reported)
{
    unsigned kind;

    for (kind = 3; kind < 256; ++kind) {
        write_head(0, 0, (uint8_t)kind);
        ck_assert_int_eq(look(), MUCT_XGMI_RING_BROKEN);
    }
    /* an end behind an end is invalid */
    write_head(0, 0, IS_END);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_BROKEN);
    write_head(0, 0, 0);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
}
END_TEST

/* XM-04 */
START_TEST(an_overlong_message_is_reported)
{
    static const uint32_t lengths[] = {MUCT_XGMI_RING_MAX_MESSAGE + 1,
                                       MUCT_XGMI_RING_SIZE, INT32_MAX, UINT32_MAX - 70,
                                       UINT32_MAX};
    unsigned i;

    write_head(0, MUCT_XGMI_RING_MAX_MESSAGE, IS_MESSAGE);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_MESSAGE);
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
        write_head(0, lengths[i], IS_MESSAGE);
        ck_assert_int_eq(look(), MUCT_XGMI_RING_BROKEN);
    }
}
END_TEST

/* XM-04 */
START_TEST(a_message_over_the_end_of_the_ring_is_reported)
{
    const uint64_t start = MUCT_XGMI_RING_SIZE - (2 * LINE);

    go_to(start);
    write_head(start, (2 * LINE) - HEAD, IS_MESSAGE);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_MESSAGE);
    write_head(start, (2 * LINE) - HEAD + 1, IS_MESSAGE);
    ck_assert_int_eq(look(), MUCT_XGMI_RING_BROKEN);
}
END_TEST

/* Its first word would lie over the end of the ring. */
/* XM-04 */
START_TEST(an_invalid_start_of_a_message_is_reported)
{
    atomic_store(&state.head, MUCT_XGMI_RING_SIZE - 1);
    ck_assert(!muct_xgmi_ring_rx_init(&rx, &state, bytes));
}
END_TEST

/* The reader's position is beyond the sent bytes, or far behind bytes that were read */
/* XM-04 */
START_TEST(a_head_that_cannot_be_gives_no_room)
{
    unsigned count = fill(1000), i;

    atomic_store(&state.head, tx.position + LINE);
    ck_assert(!muct_xgmi_ring_has_room(&tx, 1000));
    ck_assert(!muct_xgmi_ring_want_room(&tx, 1000));
    ck_assert_ptr_null(muct_xgmi_ring_reserve(&tx, 1000));
    atomic_store(&state.head, tx.position + (UINT64_C(1) << 63));
    ck_assert_ptr_null(muct_xgmi_ring_reserve(&tx, 0));
    atomic_store(&state.head, tx.position - MUCT_XGMI_RING_SIZE - LINE);
    ck_assert_ptr_null(muct_xgmi_ring_reserve(&tx, 0));
    for (i = 0; i < count; ++i) {
        pop(1000, i);
    }
    atomic_store(&state.head, tx.position); /* the most that can be */
    ck_assert_ptr_nonnull(muct_xgmi_ring_reserve(&tx, 1000));
}
END_TEST


/* ---- sleep ---- */

/* Either side always sees the other one, whichever comes first. */
START_TEST(a_request_for_room_is_seen_once)
{
    unsigned count = fill(1000), i;

    ck_assert(!muct_xgmi_ring_give_room(&rx)); /* of nothing */
    ck_assert(!muct_xgmi_ring_want_room(&tx, 1000));
    ck_assert(!muct_xgmi_ring_give_room(&rx)); /* it would wake for nothing */
    pop(1000, 0);
    ck_assert(muct_xgmi_ring_give_room(&rx));
    for (i = 1; i < count; ++i) {
        pop(1000, i);
        ck_assert(!muct_xgmi_ring_give_room(&rx));
    }
    (void)muct_xgmi_ring_want_room(&tx, 1000);
    ck_assert(!muct_xgmi_ring_give_room(&rx)); /* which it has already */
}
END_TEST

START_TEST(a_request_after_room_was_made_finds_it)
{
    (void)fill(1000);
    pop(1000, 0);
    pop(1000, 1);
    ck_assert(!muct_xgmi_ring_give_room(&rx));
    ck_assert(muct_xgmi_ring_want_room(&tx, 1000));
}
END_TEST


/* ---- two threads ---- */

typedef struct run {
    unsigned num;
    bool sleeps; /* a sender without room sleeps until there is room */
    sem_t room;
} run_t;

static unsigned num_messages(unsigned num)
{
    return (getenv("MKV_TEST_FEWER") != NULL) ? num / 20
                                              : mkv_test_rounds(num, num / 100);
}

/* Mostly short ones, as messages are */
static size_t random_length(uint64_t *seed)
{
    static const size_t limits[] = {16, 64, 256, MUCT_XGMI_RING_MAX_MESSAGE + 1};
    uint64_t number = mkv_test_random(seed) >> 8;
    unsigned kind = (number & 1) ? 0 : (number >> 1) % 16;

    return (number >> 8) % limits[(kind < 4) ? kind : 1];
}

/* The limit turns a wake-up that was lost into a failure. */
static void wait_for_room(run_t *run, size_t length)
{
    struct timespec until;

    if (!run->sleeps || muct_xgmi_ring_want_room(&tx, length)) {
        return;
    }

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += mkv_test_limit_ms() / 1000;
    while (!muct_xgmi_ring_has_room(&tx, length)) {
        MKV_REQUIRE(sem_timedwait(&run->room, &until) == 0, "nobody told of room");
        if (muct_xgmi_ring_want_room(&tx, length)) {
            return;
        }
    }
}

static void *send_all(void *arg)
{
    run_t *run = arg;
    uint64_t seed = 1;
    unsigned i, empty = 0;
    size_t length;

    for (i = 0; i < run->num; ++i) {
        for (length = random_length(&seed); !push(length, i);) {
            wait_for_room(run, length);
            if (!run->sleeps) {
                mkv_test_pause(&empty);
            }
        }
        empty = 0;
    }
    return NULL;
}

static void receive_all(run_t *run)
{
    uint64_t seed = 1, deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned i = 0, empty = 0;

    while (i < run->num) {
        if (look() == MUCT_XGMI_RING_NOTHING) {
            mkv_test_pause(&empty);
            MKV_REQUIRE(mkv_test_now_ms() < deadline, "%u of %u came", i, run->num);
            continue;
        }
        pop(random_length(&seed), i++);
        empty = 0;
        if (muct_xgmi_ring_give_room(&rx)) {
            sem_post(&run->room);
        }
    }
    ck_assert_int_eq(look(), MUCT_XGMI_RING_NOTHING);
}

static void run_threads(unsigned num, bool sleeps)
{
    run_t run = {.num = num_messages(num), .sleeps = sleeps};
    pthread_t thread;

    ck_assert_int_eq(sem_init(&run.room, 0, 0), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, send_all, &run), 0);
    receive_all(&run);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    sem_destroy(&run.room);
}

/* XM-01 */
START_TEST(two_threads_pass_random_messages)
{
    run_threads(NUM_RANDOM, false);
}
END_TEST

/* XM-03 */
START_TEST(a_thread_that_sleeps_for_room_is_woken)
{
    run_threads(NUM_SLEEPS, true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_ring");
    TCase *tcase = tcase_create("ring");

    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, messages_of_every_length_come_in_order);
    tcase_add_test(tcase, one_always_comes_to_fit);
    tcase_add_test(tcase, a_message_stays_until_it_is_skipped);
    tcase_add_test(tcase, a_message_takes_what_it_has_and_not_what_was_reserved);
    tcase_add_test(tcase, none_is_lost_when_the_ring_is_full);
    tcase_add_test(tcase, room_is_there_when_it_was_given);
    tcase_add_test(tcase, what_does_not_fit_before_the_end_lies_at_the_beginning);
    tcase_add_test(tcase,
                   a_message_at_the_beginning_does_not_reach_the_first_unread_one);
    tcase_add_test(tcase, what_was_not_committed_is_never_seen);
    tcase_add_test(tcase, a_sender_does_not_begin_before_all_was_read);
    tcase_add_test(tcase, a_sender_does_not_begin_where_no_message_can);
    tcase_add_test(tcase, a_receiver_begins_where_the_last_one_ended);
    tcase_add_test(tcase, an_invalid_message_is_reported);
    tcase_add_test(tcase, an_overlong_message_is_reported);
    tcase_add_test(tcase, a_message_over_the_end_of_the_ring_is_reported);
    tcase_add_test(tcase, an_invalid_start_of_a_message_is_reported);
    tcase_add_test(tcase, a_head_that_cannot_be_gives_no_room);
    tcase_add_test(tcase, a_request_for_room_is_seen_once);
    tcase_add_test(tcase, a_request_after_room_was_made_finds_it);
    tcase_add_test(tcase, two_threads_pass_random_messages);
    tcase_add_test(tcase, a_thread_that_sleeps_for_room_is_woken);
    suite_add_tcase(suite, tcase);
    return mkv_check_run(suite, CK_FORK_GETENV, CK_NORMAL);
}
