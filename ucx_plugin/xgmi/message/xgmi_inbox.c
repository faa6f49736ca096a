/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "xgmi/message/xgmi_inbox.h"

#include "base/muct_log.h"
#include "base/memory/muct_shm.h"
#include "xgmi/message/xgmi_bell.h"
#include "xgmi/peer/xgmi_page.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Most senders that one call polls; others are polled by the next call. */
#define MUCT_XGMI_INBOX_LOOKS 32

/* Most messages of one sender before the next sender is polled. */
#define MUCT_XGMI_INBOX_TURN 8

/* Polls without a message, over all senders, until a sender's bit is cleared. Until
 * then its next message moves only its own cache lines, which covers the pause before a
 * reply: 1000 polls take some 10 us. */
#define MUCT_XGMI_INBOX_PATIENCE 1024

/* Rings with memory reserved from the beginning, so that this many senders find room
 * even if the file system fills up later. Two processes that send to each other take
 * less than 1 MiB. */
#define MUCT_XGMI_INBOX_FIRST_RINGS 5


/* ---- memory ---- */

/* Map the other rings at their first message. In a process that has called
 * mlockall(), all mapped memory is resident. */
static size_t muct_xgmi_inbox_first_size(void)
{
    return (size_t)muct_xgmi_box_offset(MUCT_XGMI_INBOX_FIRST_RINGS);
}

/* @return NULL with errno. */
static muct_xgmi_box_t *muct_xgmi_box_map(int fd)
{
    const size_t size = muct_xgmi_box_size(), first = muct_xgmi_inbox_first_size();
    void *box = MAP_FAILED;

    if (!muct_shm_reserve(fd, 0, (off_t)first) || (ftruncate(fd, (off_t)size) != 0)) {
        return NULL;
    }

    box = mmap(NULL, first, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return (box == MAP_FAILED) ? NULL : box;
}

/* The sender has reserved the memory, unless it is faulty: a read of a ring without
 * memory ends this process when the file system is full.
 *
 * @return NULL with the reason in the log. */
static unsigned char *muct_xgmi_inbox_map_ring(const muct_xgmi_inbox_t *inbox,
                                               unsigned index)
{
    const uint64_t offset = muct_xgmi_box_offset(index);
    void *bytes = MAP_FAILED;

    if (index < MUCT_XGMI_INBOX_FIRST_RINGS) {
        return (unsigned char *)inbox->box + offset;
    }

    if (muct_shm_reserve(inbox->box_fd, (off_t)offset, (off_t)MUCT_XGMI_RING_SIZE)) {
        bytes = mmap(NULL, MUCT_XGMI_RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                     inbox->box_fd, (off_t)offset);
    }
    if (bytes == MAP_FAILED) {
        muct_error("mapping the ring of process 0x%" PRIx64 " with %" PRIu64
                   " bytes failed: %m; ignoring messages of this process",
                   atomic_load(&inbox->box->places[index].owner), MUCT_XGMI_RING_SIZE);
        return NULL;
    }
    return bytes;
}

static void muct_xgmi_inbox_unmap_ring(muct_xgmi_inbox_t *inbox, unsigned index)
{
    unsigned char *bytes = inbox->rings[index].bytes;

    if ((bytes != NULL) && (index >= MUCT_XGMI_INBOX_FIRST_RINGS)) {
        munmap(bytes, MUCT_XGMI_RING_SIZE);
    }
    inbox->rings[index].bytes = NULL;
}


/* ---- life ---- */

/* Log errno for a file that this process could not create. */
static void muct_xgmi_inbox_warn(const muct_xgmi_inbox_t *inbox, const char *suffix)
{
    const int error = errno;
    char path[512];

    muct_xgmi_page_iface_path(inbox->dir, inbox->owner, inbox->id, suffix, path,
                              sizeof(path));
    muct_warn("mori_xgmi carries no messages, other transports do: making %s failed: "
              "%s. %s, or set UCX_MORI_XGMI_MESSAGES=n",
              path, strerror(error), muct_xgmi_page_remedy(error));
}

/* The file is new, so places and rings are zero, as required. */
static ucs_status_t muct_xgmi_inbox_create_box(muct_xgmi_inbox_t *inbox)
{
    char path[512];
    int fd;

    muct_xgmi_page_iface_path(inbox->dir, inbox->owner, inbox->id, MUCT_XGMI_BOX_SUFFIX,
                              path, sizeof(path));
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        muct_xgmi_inbox_warn(inbox, MUCT_XGMI_BOX_SUFFIX);
        return UCS_ERR_IO_ERROR;
    }

    inbox->box = muct_xgmi_box_map(fd);
    if (inbox->box == NULL) {
        muct_xgmi_inbox_warn(inbox, MUCT_XGMI_BOX_SUFFIX);
        unlink(path);
        close(fd);
        return UCS_ERR_IO_ERROR;
    }

    inbox->box_fd = fd;
    inbox->box->owner = inbox->owner;
    inbox->box->magic = MUCT_XGMI_BOX_MAGIC;
    return UCS_OK;
}

ucs_status_t muct_xgmi_inbox_create(const char *dir, uint64_t owner,
                                    muct_xgmi_iface_id_t id,
                                    muct_xgmi_inbox_t **inbox_p)
{
    muct_xgmi_inbox_t *inbox;
    ucs_status_t status;

    if (!muct_xgmi_box_is_allowed()) {
        muct_warn("mori_xgmi carries no messages: they need a sparse file of %" PRIu64
                  " bytes, and files of this process may have %" PRIu64
                  " (ulimit -f); other transports carry them. Raise that limit, or set "
                  "UCX_MORI_XGMI_MESSAGES=n",
                  muct_xgmi_box_size(), muct_xgmi_page_file_limit());
        return UCS_ERR_EXCEEDS_LIMIT;
    }

    inbox = calloc(1, sizeof(*inbox));
    if (inbox == NULL) {
        muct_error("failed to allocate %zu bytes for messages", sizeof(*inbox));
        return UCS_ERR_NO_MEMORY;
    }

    inbox->owner = owner;
    inbox->id = id;
    snprintf(inbox->dir, sizeof(inbox->dir), "%s", dir);
    inbox->bell_fd = muct_xgmi_bell_create(dir, owner, id);
    if (inbox->bell_fd < 0) {
        muct_xgmi_inbox_warn(inbox, MUCT_XGMI_BELL_SUFFIX);
        status = UCS_ERR_IO_ERROR;
        goto err_free;
    }
    /* create the box last: a sender that finds it then finds the wakeup pipe as well */
    status = muct_xgmi_inbox_create_box(inbox);
    if (status != UCS_OK) {
        goto err_remove_bell;
    }

    *inbox_p = inbox;
    return UCS_OK;

err_remove_bell:
    muct_xgmi_bell_remove(dir, owner, id, inbox->bell_fd);
err_free:
    free(inbox);
    return status;
}

void muct_xgmi_inbox_destroy(muct_xgmi_inbox_t *inbox)
{
    char path[512];
    unsigned i;

    muct_xgmi_page_iface_path(inbox->dir, inbox->owner, inbox->id, MUCT_XGMI_BOX_SUFFIX,
                              path, sizeof(path));
    for (i = 0; i < MUCT_XGMI_BOX_RINGS; ++i) {
        muct_xgmi_inbox_unmap_ring(inbox, i);
    }
    munmap(inbox->box, muct_xgmi_inbox_first_size());
    close(inbox->box_fd);
    if (muct_xgmi_self_is_here()) {
        unlink(path);
        muct_xgmi_bell_remove(inbox->dir, inbox->owner, inbox->id, inbox->bell_fd);
    } else { /* in a forked child, the files belong to the parent */
        close(inbox->bell_fd);
    }
    free(inbox);
}


/* ---- senders ---- */

/* Start polling senders added since the last call. The number never decreases here:
 * a sender that writes a smaller number must not stop the polling of others. */
static void muct_xgmi_inbox_count(muct_xgmi_inbox_t *inbox)
{
    uint32_t num_used = atomic_load(&inbox->box->num_used);

    if (__builtin_expect(num_used > inbox->num_used, 0)) {
        inbox->num_used =
            (num_used < MUCT_XGMI_BOX_RINGS) ? num_used : MUCT_XGMI_BOX_RINGS;
    }
}

/* Wake a sender that sleeps until there is room. */
static void muct_xgmi_inbox_notify_room(const muct_xgmi_inbox_t *inbox, unsigned index)
{
    muct_xgmi_box_place_t *place = &inbox->box->places[index];
    muct_xgmi_iface_id_t id = {.slot = atomic_load(&place->bell_slot),
                               .generation = atomic_load(&place->bell_generation)};
    int fd = muct_xgmi_bell_open(inbox->dir, atomic_load(&place->owner), id);

    if (fd >= 0) {
        muct_xgmi_bell_ring(fd);
        close(fd);
    }
}

/* Notify senders that wait for room that none will come: they set the request for room
 * before they read this flag. */
void muct_xgmi_inbox_refuse(const muct_xgmi_inbox_t *inbox,
                            muct_xgmi_box_place_t *place)
{
    atomic_store(&place->ring.is_broken, 1);
    if (atomic_load(&place->ring.wants_room) != 0) {
        muct_xgmi_inbox_notify_room(inbox, (unsigned)(place - inbox->box->places));
    }
}

static void muct_xgmi_inbox_ignore(muct_xgmi_inbox_t *inbox, unsigned index)
{
    muct_xgmi_inbox_refuse(inbox, &inbox->box->places[index]);
    muct_xgmi_inbox_unmap_ring(inbox, index);
}

static void muct_xgmi_inbox_reject(muct_xgmi_inbox_t *inbox, unsigned index)
{
    muct_error("corrupt message from process 0x%" PRIx64 " at ring offset %" PRIu64
               "; ignoring this sender from now on",
               atomic_load(&inbox->box->places[index].owner),
               inbox->rings[index].position);
    muct_xgmi_inbox_ignore(inbox, index);
}

/* Handle a sender's first message. @return Whether its ring can be read. */
static bool muct_xgmi_inbox_begin(muct_xgmi_inbox_t *inbox, unsigned index)
{
    unsigned char *bytes = muct_xgmi_inbox_map_ring(inbox, index);

    if (bytes == NULL) {
        muct_xgmi_inbox_ignore(inbox, index);
        return false;
    }
    if (!muct_xgmi_ring_rx_init(&inbox->rings[index], &inbox->box->places[index].ring,
                                bytes)) {
        muct_xgmi_inbox_reject(inbox, index);
        return false;
    }
    return true;
}

/* @return NULL if the sender is ignored. */
static muct_xgmi_ring_rx_t *muct_xgmi_inbox_ring(muct_xgmi_inbox_t *inbox,
                                                 unsigned index)
{
    muct_xgmi_box_place_t *place = &inbox->box->places[index];
    muct_xgmi_ring_rx_t *ring = &inbox->rings[index];

    if (__builtin_expect(ring->bytes != NULL, 1)) {
        return ring;
    }
    if (atomic_load(&place->ring.is_broken)) {
        return NULL;
    }

    return muct_xgmi_inbox_begin(inbox, index) ? ring : NULL;
}


/* ---- messages ---- */

static bool muct_xgmi_inbox_place_has(muct_xgmi_inbox_t *inbox, unsigned index)
{
    muct_xgmi_ring_rx_t *ring = muct_xgmi_inbox_ring(inbox, index);
    muct_xgmi_ring_message_t message;

    return (ring != NULL) &&
           (muct_xgmi_ring_next(ring, &message) != MUCT_XGMI_RING_NOTHING);
}

/* Stop polling a sender until its next message, which may come meanwhile. */
static void muct_xgmi_inbox_rest(muct_xgmi_inbox_t *inbox, unsigned index)
{
    inbox->empty[index] = 0;
    atomic_fetch_and(&inbox->box->ready[index / 64], ~muct_xgmi_box_bit(index));
    if (muct_xgmi_inbox_place_has(inbox, index)) {
        muct_xgmi_box_set_ready(inbox->box, index);
    }
}

/* Count all polls of a call, so that many idle senders are left out sooner. */
static void muct_xgmi_inbox_found_none(muct_xgmi_inbox_t *inbox, unsigned index)
{
    inbox->empty[index] += (uint16_t)inbox->num_looks + 1;
    if (inbox->empty[index] > MUCT_XGMI_INBOX_PATIENCE) {
        muct_xgmi_inbox_rest(inbox, index);
    }
}

static unsigned muct_xgmi_inbox_receive(muct_xgmi_inbox_t *inbox, unsigned index,
                                        unsigned max, muct_xgmi_inbox_cb_t cb,
                                        void *arg)
{
    muct_xgmi_ring_rx_t *ring = muct_xgmi_inbox_ring(inbox, index);
    muct_xgmi_ring_found_t found = MUCT_XGMI_RING_NOTHING;
    muct_xgmi_ring_message_t message;
    unsigned count = 0;

    if (ring == NULL) {
        muct_xgmi_inbox_rest(inbox, index);
        return 0;
    }

    while ((count < max) &&
           ((found = muct_xgmi_ring_next(ring, &message)) == MUCT_XGMI_RING_MESSAGE)) {
        cb(arg, &message);
        muct_xgmi_ring_skip(ring, &message);
        ++count;
    }
    if (count == 0) {
        muct_xgmi_inbox_found_none(inbox, index);
    } else {
        inbox->empty[index] = 0;
    }
    if (muct_xgmi_ring_give_room(ring)) {
        muct_xgmi_inbox_notify_room(inbox, index);
    }
    if (__builtin_expect(found == MUCT_XGMI_RING_BROKEN, 0)) {
        muct_xgmi_inbox_reject(inbox, index);
    }
    return count;
}

static unsigned muct_xgmi_inbox_num_words(const muct_xgmi_inbox_t *inbox)
{
    return (inbox->num_used + 63) / 64;
}

/* A call of muct_xgmi_inbox_poll(). */
typedef struct muct_xgmi_inbox_round {
    unsigned left; /* Messages that it may handle */
    unsigned looks;
    muct_xgmi_inbox_cb_t cb;
    void *arg;
} muct_xgmi_inbox_round_t;

/* Poll each sender in a word once, within the limits. */
static void muct_xgmi_inbox_poll_word(muct_xgmi_inbox_t *inbox, unsigned word,
                                      uint64_t mask, muct_xgmi_inbox_round_t *round)
{
    uint64_t bits =
        mask & atomic_load_explicit(&inbox->box->ready[word], memory_order_acquire);

    for (; (bits != 0) && (round->looks < MUCT_XGMI_INBOX_LOOKS) && (round->left > 0);
         bits &= bits - 1) {
        inbox->last = (word * 64) + (unsigned)__builtin_ctzll(bits);
        round->left -= muct_xgmi_inbox_receive(
            inbox, inbox->last, ucs_min(round->left, MUCT_XGMI_INBOX_TURN), round->cb,
            round->arg);
        ++round->looks;
    }
}

static void muct_xgmi_inbox_poll_words(muct_xgmi_inbox_t *inbox, unsigned first,
                                       unsigned end, muct_xgmi_inbox_round_t *round)
{
    _Atomic uint64_t *const ready = inbox->box->ready;

    for (; first < end; ++first) {
        if (atomic_load_explicit(&ready[first], memory_order_relaxed) != 0) {
            muct_xgmi_inbox_poll_word(inbox, first, ~UINT64_C(0), round);
        }
    }
}

/* Poll in a round that begins after the sender served last. Its word is visited twice:
 * first with the bits after that sender, at the end with the others. */
unsigned muct_xgmi_inbox_poll(muct_xgmi_inbox_t *inbox, unsigned max,
                              muct_xgmi_inbox_cb_t cb, void *arg)
{
    muct_xgmi_inbox_round_t round = {.left = max, .cb = cb, .arg = arg};
    const uint64_t behind = ~UINT64_C(1) << (inbox->last % 64);
    const unsigned word = inbox->last / 64;

    muct_xgmi_inbox_count(inbox);
    if ((inbox->num_used == 0) || inbox->is_polling) {
        return 0;
    }

    inbox->is_polling =
        true; /* a message stays in the ring until its callback returns */
    muct_xgmi_inbox_poll_word(inbox, word, behind, &round);
    muct_xgmi_inbox_poll_words(inbox, word + 1, muct_xgmi_inbox_num_words(inbox),
                               &round);
    muct_xgmi_inbox_poll_words(inbox, 0, word, &round);
    muct_xgmi_inbox_poll_word(inbox, word, ~behind, &round);
    inbox->num_looks = round.looks;
    inbox->is_polling = false;
    return max - round.left;
}

bool muct_xgmi_inbox_has(muct_xgmi_inbox_t *inbox)
{
    unsigned word;
    uint64_t bits;

    muct_xgmi_inbox_count(inbox);
    for (word = 0; word < muct_xgmi_inbox_num_words(inbox); ++word) {
        bits = atomic_load(&inbox->box->ready[word]);
        for (; bits != 0; bits &= bits - 1) {
            if (muct_xgmi_inbox_place_has(inbox, (word * 64) +
                                                     (unsigned)__builtin_ctzll(bits))) {
                return true;
            }
        }
    }
    return false;
}

void muct_xgmi_inbox_silence(muct_xgmi_inbox_t *inbox)
{
    uint32_t num_rung = atomic_load(&inbox->box->num_rung);

    if ((num_rung != inbox->num_rung) || inbox->may_be_rung) {
        inbox->num_rung = num_rung;
        inbox->may_be_rung = false;
        muct_xgmi_bell_silence(inbox->bell_fd);
    }
}

bool muct_xgmi_inbox_arm(muct_xgmi_inbox_t *inbox)
{
    muct_xgmi_box_t *box = inbox->box;

    atomic_store(&box->is_armed, 1); /* then check: see muct_xgmi_outbox_commit() */
    if (!muct_xgmi_inbox_has(inbox)) {
        return true;
    }

    atomic_store(&box->is_armed, 0);
    return false;
}
