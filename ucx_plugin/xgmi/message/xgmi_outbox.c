/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "xgmi/message/xgmi_outbox.h"

#include "base/muct_log.h"
#include "base/memory/muct_shm.h"
#include "xgmi/message/xgmi_bell.h"
#include "xgmi/peer/xgmi_page.h"
#include "xgmi/peer/xgmi_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>


/* ---- a place among the senders ---- */

/* Whether a ring has no message of an earlier sender. It may have no memory yet, which
 * a read does not allocate. */
static bool muct_xgmi_outbox_was_read(const muct_xgmi_box_place_t *place, int fd,
                                      unsigned index)
{
    const uint64_t head = atomic_load(&place->ring.head);
    const uint64_t offset = head & (MUCT_XGMI_RING_SIZE - 1);
    uint64_t word = 0;

    return ((head & (MUCT_XGMI_RING_LINE - 1)) == 0) &&
           (pread(fd, &word, sizeof(word),
                  (off_t)(muct_xgmi_box_offset(index) + offset)) == sizeof(word)) &&
           (word == 0);
}

static bool muct_xgmi_outbox_may_take(uint64_t owner, bool is_examined)
{
    return (owner == 0) || (owner == MUCT_XGMI_BOX_GIVEN_BACK) ||
           (is_examined && muct_xgmi_owner_is_dead(owner));
}

/* Take ownership, unless another sender has it or has left messages. */
static bool muct_xgmi_outbox_take(muct_xgmi_outbox_t *outbox, int fd, unsigned index,
                                  uint64_t self, bool is_examined)
{
    muct_xgmi_box_place_t *place = &outbox->box->places[index];
    uint64_t owner = atomic_load(&place->owner);

    if (atomic_load(&place->ring.is_broken) ||
        !muct_xgmi_outbox_may_take(owner, is_examined) ||
        !atomic_compare_exchange_strong(&place->owner, &owner, self)) {
        return false;
    }

    if (!muct_xgmi_outbox_was_read(place, fd, index)) {
        /* a sender that was killed may have published a message and set no bit */
        muct_xgmi_box_set_ready(outbox->box, index);
        atomic_store(&place->owner, MUCT_XGMI_BOX_GIVEN_BACK);
        return false;
    }

    outbox->place = place;
    outbox->index = index;
    outbox->ring.state = &place->ring;
    outbox->ring.position = atomic_load(&place->ring.head);
    return true;
}

/* The receiver reads the bits of the first num_used places. */
static void muct_xgmi_outbox_show(muct_xgmi_outbox_t *outbox, unsigned index)
{
    uint32_t num_used = atomic_load(&outbox->box->num_used);

    while ((num_used <= index) && !atomic_compare_exchange_weak(&outbox->box->num_used,
                                                                &num_used, index + 1)) {
    }
}

/* Take the first place that is free, or that of a dead sender if owners are
 * examined. */
static bool muct_xgmi_outbox_search(muct_xgmi_outbox_t *outbox, int fd, unsigned first,
                                    unsigned end, uint64_t self, bool is_examined)
{
    for (; first < end; ++first) {
        if (muct_xgmi_outbox_take(outbox, fd, first, self, is_examined)) {
            return true;
        }
    }
    return false;
}

/* Whether the sender of a place is dead is found by system calls. All senders are
 * examined when their number would exceed a power of two: that is about one examination
 * for each new sender, and at most half of the places belong to dead senders. */
static ucs_status_t muct_xgmi_outbox_find_place(muct_xgmi_outbox_t *outbox, int fd,
                                                uint64_t self,
                                                muct_xgmi_iface_id_t self_id)
{
    const unsigned num_used =
        ucs_min(atomic_load(&outbox->box->num_used), MUCT_XGMI_BOX_RINGS);
    const bool is_power = (num_used & (num_used - 1)) == 0;

    if (!muct_xgmi_outbox_search(outbox, fd, 0, num_used, self, false) &&
        !(is_power && muct_xgmi_outbox_search(outbox, fd, 0, num_used, self, true)) &&
        !muct_xgmi_outbox_search(outbox, fd, num_used, MUCT_XGMI_BOX_RINGS, self,
                                 false)) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }

    atomic_store(&outbox->place->bell_slot, self_id.slot);
    atomic_store(&outbox->place->bell_generation, self_id.generation);
    muct_xgmi_outbox_show(outbox, outbox->index);
    return UCS_OK;
}

muct_xgmi_box_place_t *muct_xgmi_outbox_place_of(muct_xgmi_box_t *box, uint64_t sender,
                                                 muct_xgmi_iface_id_t sender_id)
{
    muct_xgmi_box_place_t *place = box->places;

    for (; place != box->places + MUCT_XGMI_BOX_RINGS; ++place) {
        if ((atomic_load(&place->owner) == sender) &&
            !atomic_load(&place->ring.is_broken) &&
            (atomic_load(&place->bell_slot) == sender_id.slot) &&
            (atomic_load(&place->bell_generation) == sender_id.generation)) {
            return place;
        }
    }
    return NULL;
}

/* Make the system calls only if no place is free. */
bool muct_xgmi_outbox_has_place(muct_xgmi_box_t *box, uint64_t sender,
                                muct_xgmi_iface_id_t sender_id)
{
    const muct_xgmi_box_place_t *place;
    unsigned i;

    if ((atomic_load(&box->num_used) < MUCT_XGMI_BOX_RINGS) ||
        (muct_xgmi_outbox_place_of(box, sender, sender_id) != NULL)) {
        return true;
    }
    for (i = 0; i < 2 * MUCT_XGMI_BOX_RINGS; ++i) {
        place = &box->places[i % MUCT_XGMI_BOX_RINGS];
        if (!atomic_load(&place->ring.is_broken) &&
            muct_xgmi_outbox_may_take(atomic_load(&place->owner),
                                      i >= MUCT_XGMI_BOX_RINGS)) {
            return true;
        }
    }
    return false;
}


/* ---- files ---- */

/* Log level of a failure. */
static ucs_log_level_t muct_xgmi_outbox_level(const muct_xgmi_outbox_t *outbox,
                                              ucs_log_level_t level)
{
    return outbox->is_quiet ? UCS_LOG_LEVEL_DEBUG : level;
}

/* A process at its limit of open files cannot determine the state of the receiver. */
static ucs_status_t muct_xgmi_outbox_no_file(const muct_xgmi_outbox_t *outbox,
                                             const char *dir, const char *suffix)
{
    const int error = errno;
    char path[512];

    muct_xgmi_page_iface_path(dir, outbox->owner, outbox->id, suffix, path,
                              sizeof(path));
    if ((error == EMFILE) || (error == ENFILE) || (error == ENOMEM)) {
        muct_log_at(muct_xgmi_outbox_level(outbox, UCS_LOG_LEVEL_ERROR),
                    "opening %s failed: %s", path, strerror(error));
        return UCS_ERR_NO_MEMORY;
    }

    muct_log_at(muct_xgmi_outbox_level(outbox, UCS_LOG_LEVEL_DIAG),
                "opening %s failed: %s", path, strerror(error));
    return UCS_ERR_UNREACHABLE;
}

static ucs_status_t muct_xgmi_outbox_open_box(const muct_xgmi_outbox_t *outbox,
                                              const char *dir, int *fd_p)
{
    struct stat st = {0};

    *fd_p = muct_xgmi_page_open_iface(dir, outbox->owner, outbox->id,
                                      MUCT_XGMI_BOX_SUFFIX, S_IFREG);
    if (*fd_p < 0) {
        return muct_xgmi_outbox_no_file(outbox, dir, MUCT_XGMI_BOX_SUFFIX);
    }
    if ((fstat(*fd_p, &st) != 0) || ((uint64_t)st.st_size != muct_xgmi_box_size())) {
        muct_log_at(muct_xgmi_outbox_level(outbox, UCS_LOG_LEVEL_ERROR),
                    "the message file of process 0x%" PRIx64
                    " has %lld bytes, expected %" PRIu64,
                    outbox->owner, (long long)st.st_size, muct_xgmi_box_size());
        close(*fd_p);
        return UCS_ERR_UNREACHABLE;
    }
    return UCS_OK;
}

static ucs_status_t muct_xgmi_outbox_map(muct_xgmi_outbox_t *outbox, int fd)
{
    void *box =
        mmap(NULL, sizeof(*outbox->box), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (box == MAP_FAILED) {
        muct_log_at(muct_xgmi_outbox_level(outbox, UCS_LOG_LEVEL_ERROR),
                    "mmap(message file of process 0x%" PRIx64 ", %zu bytes) failed: %m",
                    outbox->owner, sizeof(*outbox->box));
        return UCS_ERR_NO_MEMORY;
    }

    outbox->box = box;
    if ((outbox->box->magic != MUCT_XGMI_BOX_MAGIC) ||
        (outbox->box->owner != outbox->owner)) {
        muct_log_at(muct_xgmi_outbox_level(outbox, UCS_LOG_LEVEL_ERROR),
                    "the message file of process 0x%" PRIx64 " is another one",
                    outbox->owner);
        munmap(box, sizeof(*outbox->box));
        return UCS_ERR_UNREACHABLE;
    }
    return UCS_OK;
}

static ucs_status_t muct_xgmi_outbox_map_ring(muct_xgmi_outbox_t *outbox, int fd)
{
    const off_t offset = (off_t)muct_xgmi_box_offset(outbox->index);
    void *bytes;

    if (!muct_xgmi_box_is_allowed()) {
        muct_error("messages to process 0x%" PRIx64 " need a file of %" PRIu64
                   " bytes, and files of this process may have %" PRIu64 " (ulimit -f)",
                   outbox->owner, muct_xgmi_box_size(), muct_xgmi_page_file_limit());
        return UCS_ERR_NO_MEMORY;
    }

    if (!muct_shm_reserve(fd, offset, (off_t)MUCT_XGMI_RING_SIZE)) {
        muct_error("no room for %" PRIu64 " bytes in shared memory, for messages to "
                   "process 0x%" PRIx64 ": %m",
                   MUCT_XGMI_RING_SIZE, outbox->owner);
        return UCS_ERR_NO_MEMORY;
    }
    bytes =
        mmap(NULL, MUCT_XGMI_RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (bytes == MAP_FAILED) {
        muct_error("mmap(ring of process 0x%" PRIx64 ", %" PRIu64 " bytes) failed: %m",
                   outbox->owner, MUCT_XGMI_RING_SIZE);
        return UCS_ERR_NO_MEMORY;
    }

    if (!muct_xgmi_ring_tx_init(&outbox->ring, &outbox->place->ring, bytes)) {
        muct_error("the free ring of process 0x%" PRIx64 " has a message",
                   outbox->owner);
        outbox->ring.bytes = NULL;
        munmap(bytes, MUCT_XGMI_RING_SIZE);
        return UCS_ERR_IO_ERROR;
    }
    return UCS_OK;
}


/* ---- life ---- */

static ucs_status_t muct_xgmi_outbox_init(muct_xgmi_outbox_t *outbox, const char *dir,
                                          uint64_t self, muct_xgmi_iface_id_t self_id)
{
    ucs_status_t status;
    int fd;

    status = muct_xgmi_outbox_open_box(outbox, dir, &fd);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_xgmi_outbox_map(outbox, fd);
    if (status == UCS_OK) {
        status = muct_xgmi_outbox_find_place(outbox, fd, self, self_id);
        if (status != UCS_OK) {
            munmap(outbox->box, sizeof(*outbox->box));
        }
    }
    close(fd);
    return status;
}

ucs_status_t muct_xgmi_outbox_claim(const char *dir, uint64_t owner,
                                    muct_xgmi_iface_id_t id, uint64_t self,
                                    muct_xgmi_iface_id_t self_id, bool is_quiet,
                                    muct_xgmi_outbox_t **outbox_p)
{
    muct_xgmi_outbox_t *outbox = calloc(1, sizeof(*outbox));
    ucs_status_t status;

    if (outbox == NULL) {
        muct_error("failed to allocate %zu bytes for messages", sizeof(*outbox));
        return UCS_ERR_NO_MEMORY;
    }

    ucs_list_head_init(&outbox->list);
    outbox->num_endpoints = 1;
    outbox->owner = owner;
    outbox->id = id;
    outbox->bell_fd = -1;
    outbox->is_quiet = is_quiet;
    status = muct_xgmi_outbox_init(outbox, dir, self, self_id);
    if (status != UCS_OK) {
        free(outbox);
        return status;
    }

    outbox->is_quiet = false;
    *outbox_p = outbox;
    return UCS_OK;
}

ucs_status_t muct_xgmi_outbox_begin(muct_xgmi_outbox_t *outbox, const char *dir)
{
    ucs_status_t status;
    int fd;

    if (outbox->ring.bytes != NULL) {
        return UCS_OK;
    }
    if (outbox->bell_fd < 0) {
        outbox->bell_fd = muct_xgmi_bell_open(dir, outbox->owner, outbox->id);
    }
    if (outbox->bell_fd < 0) {
        return muct_xgmi_outbox_no_file(outbox, dir, MUCT_XGMI_BELL_SUFFIX);
    }

    status = muct_xgmi_outbox_open_box(outbox, dir, &fd);
    if (status == UCS_OK) {
        status = muct_xgmi_outbox_map_ring(outbox, fd);
        close(fd);
    }
    if (status == UCS_OK) {
        atomic_store(&outbox->box->is_polled, 1);
    }
    return status;
}

muct_xgmi_outbox_t *muct_xgmi_outbox_share(ucs_list_link_t *outboxes, uint64_t owner,
                                           muct_xgmi_iface_id_t id)
{
    muct_xgmi_outbox_t *outbox;

    ucs_list_for_each(outbox, outboxes, list)
    {
        if ((outbox->owner == owner) && (outbox->id.slot == id.slot) &&
            (outbox->id.generation == id.generation) &&
            !muct_xgmi_outbox_is_broken(outbox)) {
            ++outbox->num_endpoints;
            return outbox;
        }
    }
    return NULL;
}

void muct_xgmi_outbox_close(muct_xgmi_outbox_t *outbox)
{
    if (--outbox->num_endpoints > 0) {
        return;
    }

    ucs_list_del(&outbox->list);
    if (muct_xgmi_self_is_here()) { /* in a forked child the place belongs to the parent
                                     */
        atomic_store(&outbox->place->owner, MUCT_XGMI_BOX_GIVEN_BACK);
    }
    if (outbox->ring.bytes != NULL) {
        munmap(outbox->ring.bytes, MUCT_XGMI_RING_SIZE);
    }
    munmap(outbox->box, sizeof(*outbox->box));
    if (outbox->bell_fd >= 0) {
        close(outbox->bell_fd);
    }
    free(outbox);
}

void muct_xgmi_outbox_commit(muct_xgmi_outbox_t *outbox, uint8_t id, size_t length)
{
    muct_xgmi_box_t *box = outbox->box;

    muct_xgmi_ring_commit(&outbox->ring, id, length);
    muct_xgmi_box_set_ready(box, outbox->index);
    /* either the receiver finds the message before it sleeps, or the sender finds the
     * receiver asleep */
    if ((atomic_load(&box->is_armed) != 0) &&
        (atomic_exchange(&box->is_armed, 0) != 0)) {
        muct_xgmi_bell_ring(outbox->bell_fd);
        atomic_fetch_add(&box->num_rung, 1);
    }
}
