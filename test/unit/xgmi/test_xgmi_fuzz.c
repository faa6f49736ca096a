/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Random words in the files that mori_xgmi shares, as another process of the same user
 * could write them, and random addresses and keys. Nothing may crash, wait forever or
 * lose a message of a sender that was left alone. A round depends on its number alone,
 * so a failure comes again.
 */

#include "config.h"

#include "test/fake/hip/hipcpu_abi.h"
#include "test/support/fake_hip.h"
#include "test/unit/xgmi/ends_here.h"
#include "test/unit/xgmi/xgmi_inside.h"
#include "test/unit/xgmi/xgmi_sides.h"
#include "xgmi/memory/xgmi_key.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 300
#define NUM_ROUNDS 5    /* in CI */
#define MANY_ROUNDS 300 /* nightly: some minutes */
#define NUM_STEPS 300   /* of a round */
#define NUM_KEYS 60     /* of a round; each may wait for a mapping */
#define MAX_POLLS 10000 /* until what was sent has come */


/* ---- random numbers ---- */

static uint64_t state;

static void begin_round(int round)
{
    state = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(round + 1);
}

static uint64_t next_random(void)
{
    return mkv_test_random(&state);
}

static uint64_t below(uint64_t end)
{
    return next_random() % end;
}

/* Often one that could be a position, or the head of a message: length and kind */
static uint64_t random_word(void)
{
    uint64_t word = next_random();

    switch (below(6)) {
    case 0:
        return 0;
    case 1:
        return word & 0xffff;
    case 2:
    case 3:
        return (word & 0xffff) | ((word & UINT64_C(0x30000)) << 24);
    case 4:
        return word & ~UINT64_C(63);
    default:
        return word;
    }
}

static void write_at(void *start, uint64_t word)
{
    atomic_store((_Atomic uint64_t *)start + word, random_word());
}

/* The first cache line and the first page are more often used. */
static void write_word(void *start, size_t size)
{
    const size_t ends[] = {64, ucs_min(size, 4096), size};

    write_at(start, below(ends[below(3)] / sizeof(uint64_t)));
}


/* ---- rings and boxes ---- */

static muct_xgmi_outbox_t *good, *bad;
static uint64_t num_sent, num_come;
static bool is_good_alone; /* no random word was written to its part */
static uint64_t sum;

static void take(void *arg, const muct_xgmi_ring_message_t *message)
{
    const unsigned char *data = message->data;
    const unsigned char *bytes = inbox->rings[inbox->last].bytes;
    uint64_t number;
    unsigned i;

    (void)arg;
    MKV_REQUIRE((data >= bytes) && (message->length <= MUCT_XGMI_RING_MAX_MESSAGE) &&
                    (data + message->length <= bytes + MUCT_XGMI_RING_SIZE),
                "message of %u bytes outside of its ring", message->length);
    for (i = 0; i < message->length; ++i) {
        sum += data[i];
    }
    if (is_good_alone && (inbox->last == place_of(good))) {
        memcpy(&number, data, sizeof(number));
        MKV_REQUIRE(number == num_come, "message %llu, expected %llu",
                    (unsigned long long)number, (unsigned long long)num_come);
        ++num_come;
    }
}

static void poll_messages(void)
{
    unsigned max = 1 + (unsigned)below(AT_ONCE);

    MKV_REQUIRE(muct_xgmi_inbox_poll(inbox, max, take, NULL) <= max,
                "more messages than asked for");
}

static void send_some(muct_xgmi_outbox_t *outbox, uint64_t number)
{
    const size_t length = sizeof(number) + below(MUCT_XGMI_RING_MAX_MESSAGE - 8);
    unsigned char *data = muct_xgmi_ring_reserve(&outbox->ring, length);

    if (data == NULL) {
        (void)muct_xgmi_ring_want_room(&outbox->ring, length);
        (void)muct_xgmi_outbox_is_broken(outbox);
        return;
    }
    MKV_REQUIRE((data >= outbox->ring.bytes) &&
                    (data + length <= outbox->ring.bytes + MUCT_XGMI_RING_SIZE),
                "room of %zu bytes outside of the ring", length);
    memset(data, (int)number, length);
    memcpy(data, &number, sizeof(number));
    muct_xgmi_outbox_commit(outbox, (uint8_t)number, length);
    num_sent += (outbox == good);
}

/* Write random words where a sender may write, and into its own place and ring */
static void write_as_sender(void)
{
    muct_xgmi_box_t *box = inbox->box;

    switch (below(5)) {
    case 0:
        write_word(bad->place, sizeof(*bad->place));
        break;
    case 1:
        atomic_fetch_or(&box->ready[below(MUCT_XGMI_BOX_WORDS)], random_word());
        break;
    case 2:
        atomic_store(&box->num_used, (uint32_t)random_word());
        break;
    case 3: /* where the next messages begin */
        write_at(bad->ring.bytes, (((inbox->rings[place_of(bad)].position / 64) +
                                    (below(2) * below(4))) *
                                   8) %
                                      (MUCT_XGMI_RING_SIZE / sizeof(uint64_t)));
        break;
    default:
        write_word(bad->ring.bytes, MUCT_XGMI_RING_SIZE);
    }
}

static void write_anywhere(void)
{
    write_word(inbox->box, (below(2) == 0) ? sizeof(*inbox->box)
                                           : (size_t)muct_xgmi_box_offset(FIRST));
}

static void one_step(void (*write_bytes)(void))
{
    muct_xgmi_outbox_t *outbox;

    switch (below(6)) {
    case 0:
        send_some(good, num_sent);
        break;
    case 1:
        send_some(bad, next_random());
        break;
    case 2:
        poll_messages();
        break;
    case 3:
        if (muct_xgmi_inbox_arm(inbox)) {
            muct_xgmi_inbox_silence(inbox);
        }
        break;
    case 4: /* a sender of a broken ring takes another one */
        if (muct_xgmi_outbox_is_broken(bad) &&
            (try_open(self.owner, &outbox) == UCS_OK)) {
            muct_xgmi_outbox_close(bad);
            bad = outbox;
        }
        break;
    default:
        write_bytes();
    }
}

static void run_steps(void (*write_bytes)(void))
{
    const unsigned fds = num_open(), mapped = num_mapped();
    unsigned i;

    num_sent = num_come = 0;
    good = open_as(self.owner);
    bad = open_as(self.owner);
    send_one(good, 1);
    send_one(bad, 1);
    poll_all();
    ck_assert_uint_eq(num_got, 2);
    for (i = 0; i < NUM_STEPS; ++i) {
        one_step(write_bytes);
    }
    for (i = 0; is_good_alone && (num_come < num_sent); ++i) {
        MKV_REQUIRE(i < MAX_POLLS, "%llu of %llu messages have come",
                    (unsigned long long)num_come, (unsigned long long)num_sent);
        poll_messages();
    }
    muct_xgmi_outbox_close(good);
    muct_xgmi_outbox_close(bad);
    ck_assert_uint_eq(num_open(), fds);
    ck_assert_uint_le(num_mapped(), mapped + MUCT_XGMI_BOX_RINGS - FIRST);
}

START_TEST(words_of_one_sender_do_not_concern_another)
{
    begin_round(_i);
    is_good_alone = true;
    run_steps(write_as_sender);
}
END_TEST

START_TEST(words_anywhere_in_a_box_end_nothing)
{
    begin_round(_i);
    is_good_alone = false;
    run_steps(write_anywhere);
}
END_TEST


/* ---- pages ---- */

static muct_xgmi_page_t *own, *theirs;
static muct_xgmi_peer_t *peer;

static void setup_pages(void)
{
    muct_xgmi_self_t other;
    int fd;

    setup();
    ck_assert_int_eq(muct_xgmi_page_identify(dir, &other), UCS_OK);
    ck_assert_int_eq(muct_xgmi_page_create(dir, &other, &fd, &theirs), UCS_OK);
    ck_assert_int_eq(muct_xgmi_page_map(dir, self.owner, &fd, &own), UCS_OK);
    ck_assert_int_eq(muct_xgmi_peer_get(other.owner, &peer), UCS_OK);
}

static void teardown_pages(void)
{
    muct_xgmi_peer_put(peer);
    munmap(own, sizeof(*own));
    munmap(theirs, sizeof(*theirs));
    teardown();
}

static void use_peer(void)
{
    const muct_xgmi_iface_id_t iface = {(uint32_t)random_word(),
                                        (uint32_t)random_word()};
    const uint32_t slot = (uint32_t)random_word();

    if (muct_xgmi_peer_enter(peer, slot, (uint32_t)below(3))) {
        (void)muct_xgmi_peer_has_expired(peer, slot, (uint32_t)random_word());
        muct_xgmi_peer_leave(peer, slot);
    }
    (void)muct_xgmi_peer_iface(peer, &iface);
    (void)muct_xgmi_peer_pid(peer);
    (void)muct_xgmi_peer_is_alive(peer);
}

static void use_slot(void)
{
    uint32_t slot, generation;

    if (muct_xgmi_slot_alloc(&slot, &generation) != UCS_OK) {
        return;
    }
    MKV_REQUIRE(slot < MUCT_XGMI_MAX_SLOTS, "slot %u", slot);
    (void)muct_xgmi_slot_is_used(slot, generation);
    muct_xgmi_slot_drop_dead(slot);
    muct_xgmi_slot_expire(slot, generation);
    muct_xgmi_slot_free(slot);
}

START_TEST(words_in_a_page_end_nothing)
{
    unsigned i;

    begin_round(_i);
    for (i = 0; i < NUM_STEPS; ++i) {
        switch (below(4)) {
        case 0:
            use_peer();
            break;
        case 1:
            use_slot();
            break;
        case 2:
            muct_xgmi_iface_id_close(muct_xgmi_iface_id_open());
            break;
        default:
            write_word((below(2) == 0) ? own : theirs, sizeof(*own));
        }
    }
}
END_TEST


/* ---- addresses and keys ---- */

/* Address of another process, and a key of its memory */
typedef struct offer {
    ct_addr_t addr;
    uint8_t key[256];
} offer_t;

static offer_t offer;
static pid_t pid;
static int fds[2]; /* to the process, from it */

/* It ends when the pipe is closed. */
static void be_other(int in, int out)
{
    ct_mem_t memory;
    char byte;

    if ((ct_side_open(&am_side, &am_name) != UCS_OK) ||
        (ct_mem_create(&am_side, AM_LENGTH, UCS_MEMORY_TYPE_ROCM, &memory) != UCS_OK) ||
        (ct_mem_pack(&am_side, &memory, 0, offer.key) != UCS_OK)) {
        _exit(1);
    }
    am_get_addr(&am_side, &offer.addr);
    (void)!write(out, &offer, sizeof(offer));
    (void)!read(in, &byte, 1);
    ct_mem_destroy(&am_side, &memory);
    ct_side_close(&am_side);
    _exit(0);
}

static void setup_sides(void)
{
    int in[2], out[2];

    am_setup_dir();
    ck_assert_int_eq(pipe(in), 0);
    ck_assert_int_eq(pipe(out), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        close(in[1]);
        close(out[0]);
        be_other(in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    fds[0] = in[1];
    fds[1] = out[0];
    ck_assert_int_eq(read(fds[1], &offer, sizeof(offer)), (ssize_t)sizeof(offer));
    am_open_side();
    ucs_log_push_handler(count_errors);
}

static void teardown_sides(void)
{
    int status;

    ucs_log_pop_handler();
    close(fds[0]);
    close(fds[1]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    am_teardown();
}

/* As UCP does: it makes no endpoint to an address that is not reachable. */
static void use_address(const ct_addr_t *addr)
{
    uct_iface_is_reachable_params_t params = {.field_mask = CT_REACH_FIELD_DEVICE_ADDR |
                                                            CT_REACH_FIELD_IFACE_ADDR,
                                              .device_addr = ct_addr_dev(addr),
                                              .iface_addr = ct_addr_iface(addr)};
    uct_ep_h ep;

    if (!uct_iface_is_reachable_v2(am_side.iface, &params) ||
        (ct_ep_create(&am_side, addr, &ep) != UCS_OK)) {
        return;
    }
    (void)am_send_one(ep, 0);
    (void)uct_ep_check(ep, 0, NULL);
    (void)uct_ep_flush(ep, 0, NULL);
    am_progress(&am_side, 2);
    uct_ep_destroy(ep);
}

START_TEST(bytes_of_an_address_end_nothing)
{
    ct_addr_t addr;
    unsigned i, k;

    begin_round(_i);
    for (i = 0; i < NUM_STEPS; ++i) {
        addr = offer.addr;
        for (k = 1 + (unsigned)below(4); k > 0; --k) {
            addr.bytes[below((uint64_t)addr.dev_length + addr.iface_length)] ^=
                (uint8_t)next_random();
        }
        use_address(&addr);
    }
}
END_TEST

/* The checksum will be right. */
static void change_key(muct_xgmi_key_t *key)
{
    switch (below(8)) {
    case 0:
        key->owner = random_word();
        break;
    case 1:
        key->address = random_word();
        break;
    case 2:
        key->base = random_word();
        break;
    case 3:
        key->alloc_length = random_word();
        break;
    case 4:
        key->slot = (uint32_t)random_word();
        break;
    case 5:
        key->kind = (muct_xgmi_key_kind_t)(1 + below(3));
        break;
    case 6:
        key->device = (uint16_t)random_word();
        break;
    default:
        key->handle[below(sizeof(key->handle))] ^= (unsigned char)next_random();
    }
}

static void use_key(const ct_mem_t *local, uct_ep_h ep, const void *packed,
                    uint64_t remote)
{
    const uct_iov_t iov = {
        .buffer = local->addr, .length = 64, .memh = local->memh, .count = 1};
    uct_rkey_bundle_t rkey;

    if (uct_rkey_unpack(am_side.component, packed, &rkey) != UCS_OK) {
        return;
    }
    (void)uct_ep_put_zcopy(ep, &iov, 1, remote, rkey.rkey, NULL);
    am_progress(&am_side, 2);
    uct_rkey_release(am_side.component, &rkey);
}

START_TEST(numbers_of_a_key_end_nothing)
{
    uint8_t changed[256];
    muct_xgmi_key_t key;
    ucs_status_t status;
    ct_mem_t memory;
    uct_ep_h ep;
    unsigned i, k;

    begin_round(_i);
    ep = am_connect_to(&offer.addr);
    ck_assert_int_eq(ct_mem_create(&am_side, AM_LENGTH, UCS_MEMORY_TYPE_ROCM, &memory),
                     UCS_OK);
    for (i = 0; i < NUM_KEYS; ++i) {
        ck_assert_int_eq(
            muct_xgmi_key_unpack(offer.key, MUCT_XGMI_KEY_PACKED_SIZE, &key), UCS_OK);
        for (k = 1 + (unsigned)below(3); k > 0; --k) {
            change_key(&key);
        }
        muct_xgmi_key_pack(&key, changed);
        use_key(&memory, ep, changed,
                key.address + ((key.length > 0) ? below(key.length) : 0));
    }
    while ((status = uct_ep_flush(ep, 0, NULL)) == UCS_INPROGRESS) {
        (void)ct_side_progress(&am_side);
    }
    ck_assert_int_ne(status, UCS_ERR_NO_RESOURCE);
    uct_ep_destroy(ep);
    ct_mem_destroy(&am_side, &memory);
}
END_TEST

/* The least change of each number that names memory */
static void change_own_key(muct_xgmi_key_t *key, int number)
{
    uint64_t *const words[] = {&key->address, &key->length, &key->base,
                               &key->alloc_length, &key->buffer_id};

    switch (number) {
    case 0: /* nothing that is mapped */
        key->address = key->base = 0x1000;
        break;
    case 1:
        key->kind = MUCT_XGMI_KEY_FILE;
        break;
    case 2:
        ++key->device;
        break;
    case 3:
        ++key->slot;
        break;
    case 4: /* the next key of this slot */
        key->generation += 2;
        break;
    case 5: /* another file */
        ++key->handle[0];
        break;
    default:
        --*words[number - 6];
    }
}

START_TEST(numbers_of_a_key_of_this_process_are_checked)
{
    enum { NUM_CHANGES = 11 };
    uct_rkey_bundle_t rkey;
    muct_xgmi_key_t key;
    uint8_t packed[256];
    ct_mem_t memory;
    int i;

    ck_assert_int_eq(ct_mem_create(&am_side, AM_LENGTH, UCS_MEMORY_TYPE_ROCM, &memory),
                     UCS_OK);
    ck_assert_int_eq(ct_mem_pack(&am_side, &memory, 0, packed), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(am_side.component, packed, &rkey), UCS_OK);
    uct_rkey_release(am_side.component, &rkey);
    for (i = 0; i < NUM_CHANGES; ++i) {
        ck_assert_int_eq(muct_xgmi_key_unpack(packed, sizeof(packed), &key), UCS_OK);
        change_own_key(&key, i);
        muct_xgmi_key_pack(&key, offer.key);
        MKV_REQUIRE(uct_rkey_unpack(am_side.component, offer.key, &rkey) ==
                        UCS_ERR_INVALID_PARAM,
                    "change %d of a key is not refused", i);
    }
    ct_mem_destroy(&am_side, &memory);
}
END_TEST


static void add_case(Suite *suite, const char *name, SFun begin, SFun end,
                     const TTest *test, const TTest *second, int num_rounds)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test, 0, num_rounds);
    if (second != NULL) {
        tcase_add_loop_test(tcase, second, 0, num_rounds);
    }
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    const bool is_full =
        (getenv("MKV_TEST_NIGHTLY") != NULL) && (getenv("MKV_TEST_FEWER") == NULL);
    const int num =
        (int)mkv_test_rounds(is_full ? MANY_ROUNDS : NUM_ROUNDS, NUM_ROUNDS);
    Suite *suite = suite_create("xgmi_fuzz");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    setenv("UCX_MORI_TEST_HIP", HIPCPU_PATH, 1);
    xgmi_inside_register();
    mkv_test_init();
    add_case(suite, "box", setup, teardown, words_of_one_sender_do_not_concern_another,
             words_anywhere_in_a_box_end_nothing, num);
    add_case(suite, "page", setup_pages, teardown_pages, words_in_a_page_end_nothing,
             NULL, num);
    add_case(suite, "address", setup_sides, teardown_sides,
             bytes_of_an_address_end_nothing, numbers_of_a_key_end_nothing, num);
    add_case(suite, "own", setup_sides, teardown_sides,
             numbers_of_a_key_of_this_process_are_checked, NULL, 1);
    return mkv_check_run(suite, CK_FORK, CK_NORMAL);
}
