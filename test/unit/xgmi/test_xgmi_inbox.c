/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages to an interface: each sender's in order, all senders in turn, including
 * senders that ended; wakeups of sleeping threads; and damage by other processes. */

#include "test/support/mkv_check.h"
#include "test/unit/xgmi/ends_here.h"
#include "xgmi/message/xgmi_bell.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIMIT_S 300
#define NUM_SENDERS 100
#define NUM_ROUNDS 1000
#define NUM_SLEEPS 20000
#define NUM_TAKERS 4
#define NUM_TAKES 100
#define MUCH 1000 /* bytes of a message of which few fit */

/* Senders that one poll looks at, and messages of each */
#define LOOKS 32
#define TURN 8


/* Identity without a page: a dead process */
static uint64_t dead(void)
{
    return self.owner ^ UINT64_C(0x5555555555555555);
}

static bool is_rung(int fd)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};

    return poll(&event, 1, 0) == 1;
}


/* ---- senders ---- */

/* XM-02 */
START_TEST(each_sender_keeps_its_order_and_has_its_turn)
{
    muct_xgmi_outbox_t *first = open_as(self.owner), *second = open_as(self.owner);
    unsigned i;

    for (i = 0; i < 50; ++i) {
        send_one(first, 100 + i);
        send_one(second, 200 + i);
    }
    for (i = 0; i < 100; ++i) {
        ck_assert_uint_eq(poll_some(1), 1);
    }
    for (i = 0; i < 100; i += 2) {
        ck_assert_uint_eq(got[i] + got[i + 1], 300 + i);
        ck_assert_uint_eq(got[i] % 100, i / 2);
    }
    ck_assert_uint_eq(poll_some(1), 0);
    muct_xgmi_outbox_close(first);
    muct_xgmi_outbox_close(second);
}
END_TEST

/* Whichever of both is looked at first */
/* XM-02 */
START_TEST(one_that_floods_leaves_the_other_its_turn)
{
    muct_xgmi_outbox_t *boxes[2] = {open_as(self.owner), open_as(self.owner)};
    unsigned flood, i;

    for (flood = 0; flood < 2; ++flood) {
        for (i = 0; i < 100; ++i) {
            send_one(boxes[flood], i);
        }
        send_one(boxes[1 - flood], 1000);
        num_got = 0;
        ck_assert_uint_eq(poll_some(AT_ONCE), TURN + 1);
        ck_assert((got[0] == 1000) || (got[TURN] == 1000));
        poll_all();
        ck_assert_uint_eq(num_got, 101);
    }
    muct_xgmi_outbox_close(boxes[0]);
    muct_xgmi_outbox_close(boxes[1]);
}
END_TEST

/* A call looks at some of them; the next call continues after those. */
/* XM-02 */
START_TEST(messages_of_many_senders_are_all_received)
{
    muct_xgmi_outbox_t *boxes[NUM_SENDERS];
    unsigned i, k;

    for (i = 0; i < NUM_SENDERS; ++i) {
        boxes[i] = open_as(self.owner);
        ck_assert_uint_eq(place_of(boxes[i]), i);
    }
    for (i = 0; i < NUM_SENDERS; ++i) {
        num_got = 0;
        send_one(boxes[i], i);
        for (k = 0; (num_got == 0) && (k < (NUM_SENDERS + LOOKS - 1) / LOOKS); ++k) {
            ck_assert(muct_xgmi_inbox_has(inbox));
            (void)poll_some(AT_ONCE);
        }
        ck_assert_uint_eq(num_got, 1);
        ck_assert_uint_eq(got[0], i);
        ck_assert(!muct_xgmi_inbox_has(inbox));
    }
    for (i = 0; i < NUM_SENDERS; ++i) {
        muct_xgmi_outbox_close(boxes[i]);
    }
}
END_TEST

/* Polls without a message, over all senders, after which none of them is read */
#define PATIENCE 1100

/* Whether the receiver looks at a sender while it has no message. */
static bool is_looked_at(const muct_xgmi_outbox_t *outbox)
{
    return (atomic_load(&inbox->box->ready[place_of(outbox) / 64]) &
            muct_xgmi_box_bit(place_of(outbox))) != 0;
}

static void let_rest(void)
{
    unsigned i;

    for (i = 0; i < PATIENCE; ++i) {
        ck_assert_uint_eq(poll_some(AT_ONCE), 0);
    }
}

/* No call reads memory of a sender that was quiet for a while: it would be a signal. */
/* XM-02 */
START_TEST(quiet_senders_cost_nothing)
{
    muct_xgmi_outbox_t *boxes[NUM_SENDERS], *active = NULL;
    unsigned i;

    for (i = 0; i < NUM_SENDERS; ++i) {
        boxes[i] = open_as(self.owner);
        send_one(boxes[i], i);
        poll_all();
    }
    ck_assert_uint_eq(num_got, NUM_SENDERS);
    let_rest();
    for (i = 0; i < NUM_SENDERS; ++i) {
        ck_assert(!is_looked_at(boxes[i]));
        ck_assert_int_eq(
            mprotect(inbox->rings[i].bytes, MUCT_XGMI_RING_SIZE, PROT_NONE), 0);
    }
    active = open_as(self.owner);
    ck_assert(muct_xgmi_inbox_arm(inbox));
    for (i = 0; i < 10; ++i) {
        send_one(active, 1000 + i);
        ck_assert_uint_eq(poll_some(AT_ONCE), 1);
        ck_assert(!muct_xgmi_inbox_has(inbox));
        ck_assert(is_looked_at(active)); /* a reply may follow */
    }
    muct_xgmi_outbox_close(active);
    for (i = 0; i < NUM_SENDERS; ++i) {
        ck_assert_int_eq(mprotect(inbox->rings[i].bytes, MUCT_XGMI_RING_SIZE,
                                  PROT_READ | PROT_WRITE),
                         0);
        muct_xgmi_outbox_close(boxes[i]);
    }
}
END_TEST

/* XM-02 */
START_TEST(a_sender_that_was_quiet_is_received_again)
{
    muct_xgmi_outbox_t *first = open_as(self.owner), *second = open_as(self.owner);
    unsigned i;

    for (i = 0; i < 3; ++i) {
        send_one(first, i);
        poll_all();
        let_rest();
        ck_assert(!is_looked_at(first));
        send_one(second, i);
        ck_assert_uint_eq(poll_some(AT_ONCE), 1);
    }
    ck_assert_uint_eq(num_got, 6);
    muct_xgmi_outbox_close(first);
    muct_xgmi_outbox_close(second);
}
END_TEST

/* XM-05 */
START_TEST(a_message_of_a_sender_killed_before_its_bit_frees_its_place)
{
    muct_xgmi_outbox_t *gone = open_as(dead()), *second;
    uint64_t number = 7;
    void *data = muct_xgmi_ring_reserve(&gone->ring, sizeof(number));

    ck_assert_ptr_nonnull(data);
    memcpy(data, &number, sizeof(number));
    muct_xgmi_ring_commit(&gone->ring, (uint8_t)number, sizeof(number));
    poll_all();
    ck_assert_uint_eq(num_got, 0);
    second = open_as(self.owner); /* which finds it */
    ck_assert_uint_eq(place_of(second), 1);
    poll_all();
    ck_assert_uint_eq(num_got, 1);
    muct_xgmi_outbox_close(second);
    second = open_as(self.owner);
    ck_assert_uint_eq(place_of(second), 0);
    muct_xgmi_outbox_close(second);
    munmap(gone->ring.bytes, MUCT_XGMI_RING_SIZE);
    munmap(gone->box, sizeof(*gone->box));
    close(gone->bell_fd);
    free(gone);
}
END_TEST

static void keep_and_poll(void *arg, const muct_xgmi_ring_message_t *message)
{
    keep(arg, message);
    ck_assert_uint_eq(muct_xgmi_inbox_poll(inbox, AT_ONCE, keep, NULL), 0);
}

START_TEST(a_callback_that_polls_gets_no_message_twice)
{
    muct_xgmi_outbox_t *outbox = open_as(self.owner);

    send_one(outbox, 1);
    send_one(outbox, 2);
    ck_assert_uint_eq(muct_xgmi_inbox_poll(inbox, AT_ONCE, keep_and_poll, NULL), 2);
    ck_assert_uint_eq(num_got, 2);
    ck_assert_uint_eq(got[0], 1);
    ck_assert_uint_eq(got[1], 2);
    send_one(outbox, 3); /* which is over with the call */
    ck_assert_uint_eq(poll_some(AT_ONCE), 1);
    muct_xgmi_outbox_close(outbox);
}
END_TEST

START_TEST(no_ring_is_read_before_the_first_sender)
{
    ck_assert_uint_eq(poll_some(AT_ONCE), 0);
    ck_assert(!muct_xgmi_inbox_has(inbox));
}
END_TEST


/* ---- places ---- */

/* XM-05 */
START_TEST(what_was_sent_before_the_end_is_received)
{
    muct_xgmi_outbox_t *first = open_as(self.owner), *second;
    unsigned mapped = num_mapped();

    send_one(first, 1);
    send_one(first, 2);
    muct_xgmi_outbox_close(first);
    second = open_as(self.owner); /* beside the unread messages */
    ck_assert_uint_eq(place_of(second), 1);
    ck_assert_uint_eq(num_mapped(), mapped);
    send_one(second, 3);
    poll_all();
    ck_assert_uint_eq(num_got, 3);

    first = open_as(self.owner);
    ck_assert_uint_eq(place_of(first), 0);
    send_one(first, 4);
    poll_all();
    ck_assert_uint_eq(num_got, 4);
    ck_assert_uint_eq(got[3], 4);
    muct_xgmi_outbox_close(first);
    muct_xgmi_outbox_close(second);
}
END_TEST

/* XM-05 */
START_TEST(a_living_sender_keeps_its_place)
{
    muct_xgmi_outbox_t *first = open_as(self.owner), *second = open_as(self.owner);

    ck_assert_uint_eq(place_of(first), 0);
    ck_assert_uint_eq(place_of(second), 1);
    muct_xgmi_outbox_close(first);
    muct_xgmi_outbox_close(second);
}
END_TEST

/* A process that was killed gives nothing back. */
/* XM-05 */
START_TEST(the_place_of_a_dead_sender_is_taken_when_it_was_read)
{
    muct_xgmi_outbox_t *gone = open_as(dead()), *second, *third;

    send_one(gone, 1);
    second = open_as(self.owner);
    ck_assert_uint_eq(place_of(second), 1);
    poll_all();
    ck_assert_uint_eq(num_got, 1);
    third = open_as(self.owner);
    ck_assert_uint_eq(place_of(third), 0);
    send_one(third, 2);
    poll_all();
    ck_assert_uint_eq(num_got, 2);
    muct_xgmi_outbox_close(second);
    muct_xgmi_outbox_close(third);
    munmap(gone->ring.bytes, MUCT_XGMI_RING_SIZE);
    munmap(gone->box, sizeof(*gone->box));
    close(gone->bell_fd);
    free(gone);
}
END_TEST

static unsigned place_beside_the_dead(unsigned num_dead)
{
    muct_xgmi_outbox_t *outbox;
    unsigned place, i;

    for (i = 0; i < num_dead; ++i) {
        atomic_store(&inbox->box->places[i].owner, dead());
    }
    atomic_store(&inbox->box->num_used, num_dead);
    outbox = open_as(self.owner);
    place = place_of(outbox);
    muct_xgmi_outbox_close(outbox);
    return place;
}

/* A sender that examined all others each time would make set-up quadratic. */
START_TEST(senders_are_examined_when_their_number_doubles)
{
    ck_assert_uint_eq(place_beside_the_dead(100), 100);
    ck_assert_uint_eq(place_beside_the_dead(128), 0);
}
END_TEST

/* XM-02 */
START_TEST(places_are_used_again)
{
    unsigned fds = num_open(), mapped = num_mapped(), i;
    muct_xgmi_outbox_t *outbox;

    for (i = 0; i < NUM_ROUNDS; ++i) {
        outbox = open_as(self.owner);
        send_one(outbox, i);
        muct_xgmi_outbox_close(outbox);
        poll_all();
    }
    ck_assert_uint_eq(num_got, NUM_ROUNDS);
    ck_assert_uint_eq(atomic_load(&inbox->box->num_used), 1);
    ck_assert_uint_eq(num_open(), fds);
    ck_assert_uint_eq(num_mapped(), mapped);
}
END_TEST

/* XM-02 */
START_TEST(places_have_an_end)
{
    unsigned fds = num_open(), mapped = num_mapped(), i;
    muct_xgmi_outbox_t *outbox;

    for (i = 0; i < MUCT_XGMI_BOX_RINGS; ++i) {
        atomic_store(&inbox->box->places[i].owner, self.owner);
    }
    ck_assert_int_eq(try_open(self.owner, &outbox), UCS_ERR_EXCEEDS_LIMIT);
    ck_assert_uint_eq(num_errors, 0);
    ck_assert_uint_eq(num_open(), fds);
    ck_assert_uint_eq(num_mapped(), mapped);

    atomic_store(&inbox->box->places[i - 1].owner, MUCT_XGMI_BOX_GIVEN_BACK);
    outbox = open_as(self.owner);
    ck_assert_uint_eq(place_of(outbox), i - 1);
    ck_assert_uint_eq(atomic_load(&inbox->box->num_used), MUCT_XGMI_BOX_RINGS);
    send_one(outbox, 1);
    poll_all();
    ck_assert_uint_eq(num_got, 1);
    muct_xgmi_outbox_close(outbox);
}
END_TEST

/* A number that another process wrote; beyond the last place is a ring. */
/* XM-04 */
START_TEST(places_that_cannot_be_are_not_looked_at)
{
    muct_xgmi_outbox_t *outbox = open_as(self.owner);

    atomic_store(&inbox->box->num_used, UINT32_MAX);
    send_one(outbox, 1);
    poll_all();
    ck_assert_uint_eq(num_got, 1);
    ck_assert_uint_eq(inbox->num_used, MUCT_XGMI_BOX_RINGS);
    ck_assert(!muct_xgmi_inbox_has(inbox));
    ck_assert_ptr_nonnull(inbox->rings[0].bytes);
    ck_assert_ptr_null(inbox->rings[1].bytes); /* its memory is not reserved */
    muct_xgmi_outbox_close(outbox);
}
END_TEST

typedef struct taker {
    pthread_barrier_t *all;
    muct_xgmi_outbox_t *outbox;
    ucs_status_t status;
} taker_t;

static void *take_place(void *arg)
{
    taker_t *taker = arg;

    (void)pthread_barrier_wait(taker->all);
    taker->status = try_open(self.owner, &taker->outbox);
    return NULL;
}

static void take_at_once(pthread_barrier_t *all)
{
    pthread_t threads[NUM_TAKERS];
    taker_t takers[NUM_TAKERS];
    unsigned i, taken = 0;

    for (i = 0; i < NUM_TAKERS; ++i) {
        takers[i] = (taker_t){.all = all};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_place, &takers[i]), 0);
    }
    for (i = 0; i < NUM_TAKERS; ++i) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_int_eq(takers[i].status, UCS_OK);
        taken |= 1U << place_of(takers[i].outbox);
    }
    ck_assert_uint_eq(taken, (1U << NUM_TAKERS) - 1);
    for (i = 0; i < NUM_TAKERS; ++i) {
        muct_xgmi_outbox_close(takers[i].outbox);
    }
}

/* XM-02 */
START_TEST(senders_that_come_at_once_have_places_of_their_own)
{
    unsigned num = mkv_test_rounds(NUM_TAKES, NUM_TAKES / 10), i;
    pthread_barrier_t all;

    ck_assert_int_eq(pthread_barrier_init(&all, NULL, NUM_TAKERS), 0);
    for (i = 0; i < num; ++i) {
        take_at_once(&all);
    }
    ck_assert_uint_eq(atomic_load(&inbox->box->num_used), NUM_TAKERS);
    pthread_barrier_destroy(&all);
}
END_TEST


/* ---- a sender that writes no valid message ---- */

static void write_nonsense(muct_xgmi_outbox_t *outbox, uint64_t position)
{
    memset(outbox->ring.bytes + (position % MUCT_XGMI_RING_SIZE), 0xff, 8);
}

/* XM-04 */
START_TEST(a_sender_of_corrupt_messages_is_ignored)
{
    muct_xgmi_outbox_t *bad = open_as(self.owner), *good = open_as(self.owner);
    unsigned i;

    send_one(bad, 1);
    write_nonsense(bad, bad->ring.position);
    ck_assert(!muct_xgmi_outbox_is_broken(bad));
    for (i = 0; i < 3; ++i) {
        send_one(good, 10 + i);
        poll_all();
        ck_assert_uint_eq(num_errors, 1);
        ck_assert_uint_eq(num_got, 2 + i);
        ck_assert(muct_xgmi_outbox_is_broken(bad));
        ck_assert(!muct_xgmi_outbox_is_broken(good));
        send_one(bad, 2 + i);
        ck_assert(!muct_xgmi_inbox_has(inbox));
        ck_assert(muct_xgmi_inbox_arm(inbox));
    }
    muct_xgmi_outbox_close(bad);
    muct_xgmi_outbox_close(good);
}
END_TEST

static size_t bytes_mapped(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long long begin, end;
    size_t count = 0;
    char line[1024];

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if ((strstr(line, MUCT_XGMI_BOX_SUFFIX) != NULL) &&
            (sscanf(line, "%llx-%llx", &begin, &end) == 2)) {
            count += (size_t)(end - begin);
        }
    }
    fclose(maps);
    return count;
}

/* All that is mapped takes room in a process that locks its memory. */
/* XM-06 */
START_TEST(what_no_sender_has_is_not_mapped)
{
    const size_t first = (size_t)muct_xgmi_box_offset(FIRST);
    muct_xgmi_outbox_t *boxes[FIRST + 1];
    size_t of_sender;
    unsigned i;

    ck_assert_uint_eq(bytes_mapped(), first);
    for (i = 0; i <= FIRST; ++i) {
        boxes[i] = open_as(self.owner);
        send_one(boxes[i], i);
    }
    of_sender = bytes_mapped() - first;
    poll_all();
    ck_assert_uint_eq(num_got, FIRST + 1);
    ck_assert_uint_eq(bytes_mapped(), first + of_sender + MUCT_XGMI_RING_SIZE);
    if (_i == 0) { /* this sender is ignored now */
        write_nonsense(boxes[FIRST], boxes[FIRST]->ring.position);
        poll_all();
        ck_assert_uint_eq(bytes_mapped(), first + of_sender);
    }
    for (i = 0; i <= FIRST; ++i) {
        muct_xgmi_outbox_close(boxes[i]);
    }
    muct_xgmi_inbox_destroy(inbox);
    inbox = NULL;
    ck_assert_uint_eq(bytes_mapped(), 0);
}
END_TEST

/* The sender detects it. A file that is no ring simulates missing address space. */
/* XM-06 */
START_TEST(ring_that_cannot_be_mapped_is_ignored)
{
    muct_xgmi_outbox_t *boxes[FIRST + 1];
    int fd = inbox->box_fd;
    unsigned i;

    for (i = 0; i <= FIRST; ++i) {
        boxes[i] = open_as(self.owner);
    }
    send_one(boxes[FIRST], 1);
    send_one(boxes[0], 2);
    inbox->box_fd = -1;
    poll_all();
    inbox->box_fd = fd;
    ck_assert_uint_eq(num_got, 1);
    ck_assert_uint_eq(got[0], 2);
    ck_assert_uint_eq(num_errors, 1);
    ck_assert(muct_xgmi_outbox_is_broken(boxes[FIRST]));
    ck_assert(!muct_xgmi_outbox_is_broken(boxes[0]));
    for (i = 0; i <= FIRST; ++i) {
        muct_xgmi_outbox_close(boxes[i]);
    }
}
END_TEST

/* The state is set ahead of its first message */
/* XM-04 */
START_TEST(a_ring_with_an_invalid_start_is_ignored)
{
    muct_xgmi_box_place_t *place = &inbox->box->places[MUCT_XGMI_BOX_RINGS - 1];
    muct_xgmi_outbox_t *outbox = open_as(self.owner);

    atomic_store(&place->ring.head, 1);
    muct_xgmi_box_set_ready(inbox->box, MUCT_XGMI_BOX_RINGS - 1);
    atomic_store(&inbox->box->num_used, MUCT_XGMI_BOX_RINGS);
    send_one(outbox, 1);
    poll_all();
    ck_assert_uint_eq(num_got, 1);
    ck_assert_uint_eq(num_errors, 1);
    ck_assert(atomic_load(&place->ring.is_broken));
    muct_xgmi_outbox_close(outbox);
}
END_TEST

/* The next sender in this place would be ignored as well. */
/* XM-04 */
START_TEST(the_slot_of_an_ignored_sender_is_not_reused)
{
    muct_xgmi_outbox_t *outbox = open_as(self.owner);

    send_one(outbox, 1);
    write_nonsense(outbox, outbox->ring.position);
    poll_all();
    write_nonsense(outbox, 0);
    memset(outbox->ring.bytes, 0, MUCT_XGMI_RING_SIZE); /* as if all was read */
    muct_xgmi_outbox_close(outbox);
    outbox = open_as(self.owner);
    ck_assert_uint_eq(place_of(outbox), 1);
    send_one(outbox, 2);
    poll_all();
    ck_assert_uint_eq(num_got, 2);
    muct_xgmi_outbox_close(outbox);
}
END_TEST


/* ---- bells ---- */

/* XM-03 */
START_TEST(a_message_after_arming_rings_the_bell)
{
    muct_xgmi_outbox_t *outbox = open_as(self.owner);

    send_one(outbox, 1);
    ck_assert(!is_rung(inbox->bell_fd)); /* no thread sleeps */
    ck_assert(!muct_xgmi_inbox_arm(inbox));
    send_one(outbox, 2);
    ck_assert(!is_rung(inbox->bell_fd)); /* still none sleeps */
    poll_all();
    ck_assert(muct_xgmi_inbox_arm(inbox));
    ck_assert(!is_rung(inbox->bell_fd));
    send_one(outbox, 3);
    ck_assert(is_rung(inbox->bell_fd));
    muct_xgmi_outbox_close(outbox);
}
END_TEST

/* Clear the bell, then arm, like a thread that goes to sleep */
static bool arm(muct_xgmi_inbox_t *mine)
{
    muct_xgmi_inbox_silence(mine);
    return muct_xgmi_inbox_arm(mine);
}

START_TEST(a_bell_that_was_rung_is_silent_when_it_is_armed_again)
{
    muct_xgmi_outbox_t *first = open_as(self.owner), *second = open_as(self.owner);
    unsigned i;

    for (i = 0; i < 3; ++i) {
        ck_assert(arm(inbox));
        ck_assert(!is_rung(inbox->bell_fd));
        send_one(first, 1);
        send_one(second, 2); /* the bell has rung already */
        ck_assert_uint_eq(atomic_load(&inbox->box->num_rung), i + 1);
        ck_assert(is_rung(inbox->bell_fd));
        ck_assert(!arm(inbox));
        ck_assert(!is_rung(inbox->bell_fd));
        poll_all();
    }
    ck_assert(arm(inbox));
    ck_assert(!is_rung(inbox->bell_fd));
    ck_assert_uint_eq(num_got, 6);
    muct_xgmi_outbox_close(first);
    muct_xgmi_outbox_close(second);
}
END_TEST

/* Each arming would be a system call; rings made here are not counted. */
START_TEST(a_bell_that_cannot_have_rung_is_not_read)
{
    muct_xgmi_outbox_t *outbox = open_as(self.owner);

    ck_assert(arm(inbox));
    send_one(outbox, 1);
    muct_xgmi_inbox_silence(inbox);
    ck_assert(!is_rung(inbox->bell_fd));
    muct_xgmi_bell_ring(inbox->bell_fd);
    muct_xgmi_inbox_silence(inbox);
    ck_assert(is_rung(inbox->bell_fd));

    inbox->may_be_rung = true;
    muct_xgmi_inbox_silence(inbox);
    ck_assert(!is_rung(inbox->bell_fd));
    muct_xgmi_bell_ring(inbox->bell_fd);
    muct_xgmi_inbox_silence(inbox);
    ck_assert(is_rung(inbox->bell_fd));
    muct_xgmi_outbox_close(outbox);
}
END_TEST

/* A ringing process never waits for the receiver. */
START_TEST(a_bell_that_is_full_is_rung_and_silenced)
{
    struct pollfd event = {.fd = muct_xgmi_bell_open(dir, self.owner, id),
                           .events = POLLOUT};
    unsigned empty = 0;

    ck_assert_int_ge(event.fd, 0);
    while (poll(&event, 1, 0) == 1) {
        muct_xgmi_bell_ring(event.fd);
        ck_assert_uint_lt(++empty, 1U << 24);
    }
    muct_xgmi_bell_ring(event.fd);
    ck_assert(is_rung(inbox->bell_fd));
    muct_xgmi_bell_silence(inbox->bell_fd);
    ck_assert(!is_rung(inbox->bell_fd));
    muct_xgmi_bell_silence(inbox->bell_fd);
    close(event.fd);
}
END_TEST

START_TEST(a_bell_that_was_not_made_is_absent)
{
    ck_assert_int_lt(muct_xgmi_bell_open(dir, dead(), id), 0);
    ck_assert_int_lt(muct_xgmi_bell_open(dir, self.owner, sender_id), 0);
}
END_TEST

/* The sender's own inbox, whose bell reports room */
static muct_xgmi_inbox_t *create_sender(void)
{
    muct_xgmi_inbox_t *mine = NULL;

    ck_assert_int_eq(muct_xgmi_inbox_create(dir, self.owner, sender_id, &mine), UCS_OK);
    return mine;
}

static void fill(muct_xgmi_outbox_t *outbox)
{
    while (send_length(outbox, 1, MUCH)) {
    }
}

/* Act like a sender without room that goes to sleep. @return Whether there is no room.
 */
static bool want_room(muct_xgmi_inbox_t *mine, muct_xgmi_outbox_t *outbox)
{
    muct_xgmi_inbox_silence(mine);
    mine->may_be_rung = true;
    return !muct_xgmi_ring_want_room(&outbox->ring, MUCH);
}

/* XM-03 */
START_TEST(a_sender_that_waits_for_room_is_rung)
{
    muct_xgmi_inbox_t *mine = create_sender();
    muct_xgmi_outbox_t *outbox = open_as(self.owner);
    unsigned fds = num_open();

    fill(outbox);
    ck_assert_uint_eq(poll_some(1), 1);
    ck_assert(!is_rung(mine->bell_fd)); /* it has sent no request */
    fill(outbox);
    ck_assert(want_room(mine, outbox));
    ck_assert(muct_xgmi_inbox_arm(mine));
    ck_assert(!is_rung(mine->bell_fd));
    ck_assert_uint_eq(poll_some(1), 1);
    ck_assert(is_rung(mine->bell_fd));
    ck_assert(muct_xgmi_ring_has_room(&outbox->ring, MUCH));
    muct_xgmi_inbox_silence(mine); /* it is not counted */
    ck_assert(!is_rung(mine->bell_fd));
    ck_assert_uint_eq(poll_some(1), 1);
    ck_assert(!is_rung(mine->bell_fd)); /* it asked once */
    ck_assert_uint_eq(num_open(), fds);
    muct_xgmi_outbox_close(outbox);
    muct_xgmi_inbox_destroy(mine);
}
END_TEST

/* The receiver may be this quick: arming must not lose the wakeup. */
/* XM-03 */
START_TEST(room_that_comes_before_the_arming_wakes)
{
    muct_xgmi_inbox_t *mine = create_sender();
    muct_xgmi_outbox_t *outbox = open_as(self.owner);

    fill(outbox);
    ck_assert(want_room(mine, outbox));
    ck_assert_uint_eq(poll_some(1), 1);
    ck_assert(muct_xgmi_inbox_arm(mine));
    ck_assert(is_rung(mine->bell_fd));
    muct_xgmi_outbox_close(outbox);
    muct_xgmi_inbox_destroy(mine);
}
END_TEST

/* There will be no room; once woken, the sender detects the reason. */
/* XM-04 */
START_TEST(an_ignored_sender_that_waits_for_room_is_rung)
{
    muct_xgmi_inbox_t *mine = create_sender();
    muct_xgmi_outbox_t *outbox = open_as(self.owner);

    fill(outbox);
    ck_assert(want_room(mine, outbox));
    write_nonsense(outbox, 0);
    poll_all();
    ck_assert_uint_eq(num_got, 0);
    ck_assert(muct_xgmi_outbox_is_broken(outbox));
    ck_assert(is_rung(mine->bell_fd));
    muct_xgmi_outbox_close(outbox);
    muct_xgmi_inbox_destroy(mine);
}
END_TEST

/* The sender's bell does not exist any more; other senders are not affected. */
/* XM-05 */
START_TEST(a_sender_that_ends_while_it_waits_for_room_is_no_error)
{
    muct_xgmi_outbox_t *outbox = open_as(self.owner);
    unsigned fds = num_open();

    fill(outbox);
    ck_assert(!muct_xgmi_ring_want_room(&outbox->ring, MUCH));
    poll_all();
    ck_assert_uint_gt(num_got, 0);
    ck_assert_uint_eq(num_errors, 0);
    ck_assert_uint_eq(num_open(), fds);
    muct_xgmi_outbox_close(outbox);
}
END_TEST


/* ---- both sides sleep ---- */

static unsigned num_sleeps(void)
{
    return (getenv("MKV_TEST_FEWER") != NULL)
               ? NUM_SLEEPS / 10
               : mkv_test_rounds(NUM_SLEEPS, NUM_SLEEPS / 100);
}

/* The limit turns a wake-up that was lost into a failure. */
static void sleep_until_rung(muct_xgmi_inbox_t *mine)
{
    struct pollfd event = {.fd = mine->bell_fd, .events = POLLIN};

    MKV_REQUIRE(poll(&event, 1, mkv_test_limit_ms()) == 1, "nobody rang");
}

static void *send_and_sleep(void *arg)
{
    muct_xgmi_inbox_t *mine = create_sender();
    muct_xgmi_outbox_t *outbox = open_as(self.owner);
    uint64_t i;

    for (i = 0; i < *(unsigned *)arg; ++i) {
        while (!send_length(outbox, i, ((i % 64) < 32) ? sizeof(i) : MUCH)) {
            if (want_room(mine, outbox) && muct_xgmi_inbox_arm(mine)) {
                sleep_until_rung(mine);
            }
        }
    }
    muct_xgmi_outbox_close(outbox);
    return mine;
}

static void expect_next(void *arg, const muct_xgmi_ring_message_t *message)
{
    uint64_t number;

    memcpy(&number, message->data, sizeof(number));
    MKV_REQUIRE(number == *(uint64_t *)arg, "message %llu is %llu",
                *(unsigned long long *)arg, (unsigned long long)number);
    ++*(uint64_t *)arg;
}

/* XM-03 */
START_TEST(both_sides_sleep_and_are_woken)
{
    unsigned num = num_sleeps();
    uint64_t next = 0;
    pthread_t thread;
    void *mine;

    ck_assert_int_eq(pthread_create(&thread, NULL, send_and_sleep, &num), 0);
    while (next < num) {
        if ((muct_xgmi_inbox_poll(inbox, AT_ONCE, expect_next, &next) == 0) &&
            arm(inbox)) {
            sleep_until_rung(inbox);
        }
    }
    ck_assert_int_eq(pthread_join(thread, &mine), 0);
    muct_xgmi_inbox_destroy(mine);
    ck_assert(!muct_xgmi_inbox_has(inbox));
}
END_TEST


static void add_senders(Suite *suite)
{
    TCase *tcase = tcase_create("senders");

    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, each_sender_keeps_its_order_and_has_its_turn);
    tcase_add_test(tcase, one_that_floods_leaves_the_other_its_turn);
    tcase_add_test(tcase, messages_of_many_senders_are_all_received);
    tcase_add_test(tcase, quiet_senders_cost_nothing);
    tcase_add_test(tcase, a_sender_that_was_quiet_is_received_again);
    tcase_add_test(tcase, a_message_of_a_sender_killed_before_its_bit_frees_its_place);
    tcase_add_test(tcase, a_callback_that_polls_gets_no_message_twice);
    tcase_add_test(tcase, no_ring_is_read_before_the_first_sender);
    tcase_add_test(tcase, what_was_sent_before_the_end_is_received);
    tcase_add_test(tcase, a_living_sender_keeps_its_place);
    tcase_add_test(tcase, the_place_of_a_dead_sender_is_taken_when_it_was_read);
    tcase_add_test(tcase, senders_are_examined_when_their_number_doubles);
    tcase_add_test(tcase, places_are_used_again);
    tcase_add_test(tcase, places_have_an_end);
    tcase_add_test(tcase, places_that_cannot_be_are_not_looked_at);
    tcase_add_test(tcase, senders_that_come_at_once_have_places_of_their_own);
    tcase_add_test(tcase, a_sender_of_corrupt_messages_is_ignored);
    tcase_add_loop_test(tcase, what_no_sender_has_is_not_mapped, 0, 2);
    tcase_add_test(tcase, ring_that_cannot_be_mapped_is_ignored);
    tcase_add_test(tcase, a_ring_with_an_invalid_start_is_ignored);
    tcase_add_test(tcase, the_slot_of_an_ignored_sender_is_not_reused);
    suite_add_tcase(suite, tcase);
}

static void add_bells(Suite *suite)
{
    TCase *tcase = tcase_create("bells");

    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_message_after_arming_rings_the_bell);
    tcase_add_test(tcase, a_bell_that_was_rung_is_silent_when_it_is_armed_again);
    tcase_add_test(tcase, a_bell_that_cannot_have_rung_is_not_read);
    tcase_add_test(tcase, a_bell_that_is_full_is_rung_and_silenced);
    tcase_add_test(tcase, a_bell_that_was_not_made_is_absent);
    tcase_add_test(tcase, a_sender_that_waits_for_room_is_rung);
    tcase_add_test(tcase, room_that_comes_before_the_arming_wakes);
    tcase_add_test(tcase, an_ignored_sender_that_waits_for_room_is_rung);
    tcase_add_test(tcase, a_sender_that_ends_while_it_waits_for_room_is_no_error);
    tcase_add_test(tcase, both_sides_sleep_and_are_woken);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("xgmi_inbox");

    add_senders(suite);
    add_bells(suite);
    return mkv_check_run(suite, CK_FORK_GETENV, CK_NORMAL);
}
