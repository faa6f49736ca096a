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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>


/* ---- a place among the senders ---- */

/* Map the ring and take ownership, unless it contains messages of an earlier sender. */
static ucs_status_t muct_xgmi_outbox_use(muct_xgmi_outbox_t *outbox, int fd,
                                         unsigned index)
{
    muct_xgmi_box_place_t *place = &outbox->box->places[index];
    const off_t offset = (off_t)muct_xgmi_box_offset(index);
    void *bytes;

    if (!muct_xgmi_box_is_allowed()) {
        muct_error("messages to process 0x%" PRIx64 " need a file of %" PRIu64
                   " bytes, and files of this process may have %" PRIu64 " (ulimit -f)",
                   outbox->box->owner, muct_xgmi_box_size(),
                   muct_xgmi_page_file_limit());
        return UCS_ERR_NO_MEMORY;
    }

    if (!muct_shm_reserve(fd, offset, (off_t)MUCT_XGMI_RING_SIZE)) {
        muct_error("no room for %" PRIu64 " bytes in shared memory, for messages to "
                   "process 0x%" PRIx64 ": %m",
                   MUCT_XGMI_RING_SIZE, outbox->box->owner);
        return UCS_ERR_NO_MEMORY;
    }
    bytes =
        mmap(NULL, MUCT_XGMI_RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (bytes == MAP_FAILED) {
        muct_error("mmap(ring of process 0x%" PRIx64 ", %" PRIu64 " bytes) failed: %m",
                   outbox->box->owner, MUCT_XGMI_RING_SIZE);
        return UCS_ERR_NO_MEMORY;
    }

    if (!muct_xgmi_ring_tx_init(&outbox->ring, &place->ring, bytes)) {
        munmap(bytes, MUCT_XGMI_RING_SIZE);
        /* a sender that was killed may have published a message and set no bit */
        muct_xgmi_box_set_ready(outbox->box, index);
        return UCS_ERR_BUSY;
    }

    outbox->place = place;
    outbox->index = index;
    return UCS_OK;
}

static bool muct_xgmi_outbox_may_take(uint64_t owner, bool is_examined)
{
    return (owner == 0) || (owner == MUCT_XGMI_BOX_GIVEN_BACK) ||
           (is_examined && muct_xgmi_owner_is_dead(owner));
}

/*
 * @return UCS_ERR_BUSY: another sender owns the ring, or has left messages in it.
 */
static ucs_status_t muct_xgmi_outbox_take(muct_xgmi_outbox_t *outbox, int fd,
                                          unsigned index, uint64_t self,
                                          bool is_examined)
{
    muct_xgmi_box_place_t *place = &outbox->box->places[index];
    uint64_t owner = atomic_load(&place->owner);
    ucs_status_t status;

    if (atomic_load(&place->ring.is_broken) ||
        !muct_xgmi_outbox_may_take(owner, is_examined) ||
        !atomic_compare_exchange_strong(&place->owner, &owner, self)) {
        return UCS_ERR_BUSY;
    }

    status = muct_xgmi_outbox_use(outbox, fd, index);
    if (status != UCS_OK) {
        atomic_store(&place->owner, MUCT_XGMI_BOX_GIVEN_BACK);
    }
    return status;
}

/* The receiver looks at bits of the first num_used places. */
static void muct_xgmi_outbox_show(muct_xgmi_outbox_t *outbox, unsigned index)
{
    uint32_t num_used = atomic_load(&outbox->box->num_used);

    while ((num_used <= index) && !atomic_compare_exchange_weak(&outbox->box->num_used,
                                                                &num_used, index + 1)) {
    }
}

/* Take the first one that is free, or of a dead sender if owners are examined. */
static ucs_status_t muct_xgmi_outbox_search(muct_xgmi_outbox_t *outbox, int fd,
                                            unsigned first, unsigned end, uint64_t self,
                                            bool is_examined)
{
    ucs_status_t status = UCS_ERR_BUSY;

    for (; (first < end) && (status == UCS_ERR_BUSY); ++first) {
        status = muct_xgmi_outbox_take(outbox, fd, first, self, is_examined);
    }
    return status;
}

/* It takes system calls to see whether the sender of a place is dead. All senders are
 * examined when their number would exceed a power of two: that is about one examination
 * for each new sender, and at most half of the places are dead ones'. */
static ucs_status_t muct_xgmi_outbox_find_place(muct_xgmi_outbox_t *outbox, int fd,
                                                uint64_t self,
                                                muct_xgmi_iface_id_t self_id)
{
    const unsigned num_used =
        ucs_min(atomic_load(&outbox->box->num_used), MUCT_XGMI_BOX_RINGS);
    ucs_status_t status;

    status = muct_xgmi_outbox_search(outbox, fd, 0, num_used, self, false);
    if ((status == UCS_ERR_BUSY) && ((num_used & (num_used - 1)) == 0)) {
        status = muct_xgmi_outbox_search(outbox, fd, 0, num_used, self, true);
    }
    if (status == UCS_ERR_BUSY) {
        status = muct_xgmi_outbox_search(outbox, fd, num_used, MUCT_XGMI_BOX_RINGS,
                                         self, false);
    }
    if (status == UCS_ERR_BUSY) {
        muct_error("process 0x%" PRIx64 " has %d senders of messages already",
                   outbox->box->owner, MUCT_XGMI_BOX_RINGS);
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    if (status == UCS_OK) {
        atomic_store(&outbox->place->bell_slot, self_id.slot);
        atomic_store(&outbox->place->bell_generation, self_id.generation);
        muct_xgmi_outbox_show(outbox, outbox->index);
    }
    return status;
}


/* ---- life ---- */

/* A process at its limit of open files cannot learn the state of the receiver. */
static ucs_status_t muct_xgmi_outbox_no_file(const char *what, const char *path)
{
    if ((errno == EMFILE) || (errno == ENFILE) || (errno == ENOMEM)) {
        muct_error("opening %s%s failed: %m", what, path);
        return UCS_ERR_NO_MEMORY;
    }

    muct_diag("opening %s%s failed: %m", what, path);
    return UCS_ERR_UNREACHABLE;
}

static ucs_status_t muct_xgmi_outbox_map(muct_xgmi_outbox_t *outbox, int fd,
                                         uint64_t owner, const char *path)
{
    struct stat st;
    void *box;

    if ((fstat(fd, &st) != 0) || ((uint64_t)st.st_size != muct_xgmi_box_size())) {
        muct_error("%s has %lld bytes, expected %" PRIu64, path, (long long)st.st_size,
                   muct_xgmi_box_size());
        return UCS_ERR_UNREACHABLE;
    }
    box = mmap(NULL, sizeof(*outbox->box), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (box == MAP_FAILED) {
        muct_error("mmap(%s, %zu bytes) failed: %m", path, sizeof(*outbox->box));
        return UCS_ERR_NO_MEMORY;
    }

    outbox->box = box;
    if ((outbox->box->magic != MUCT_XGMI_BOX_MAGIC) || (outbox->box->owner != owner)) {
        muct_error("%s is not the message file of process 0x%" PRIx64, path, owner);
        munmap(box, sizeof(*outbox->box));
        return UCS_ERR_UNREACHABLE;
    }
    return UCS_OK;
}

static ucs_status_t muct_xgmi_outbox_init(muct_xgmi_outbox_t *outbox, const char *dir,
                                          uint64_t owner, muct_xgmi_iface_id_t id,
                                          uint64_t self, muct_xgmi_iface_id_t self_id)
{
    ucs_status_t status;
    char path[512];
    int fd;

    muct_xgmi_page_iface_path(dir, owner, id, MUCT_XGMI_BOX_SUFFIX, path, sizeof(path));
    fd = muct_xgmi_page_open_iface(dir, owner, id, MUCT_XGMI_BOX_SUFFIX, S_IFREG);
    if (fd < 0) {
        return muct_xgmi_outbox_no_file("", path);
    }

    outbox->bell_fd = muct_xgmi_bell_open(dir, owner, id);
    if (outbox->bell_fd < 0) {
        status = muct_xgmi_outbox_no_file("the bell beside ", path);
        goto out;
    }
    status = muct_xgmi_outbox_map(outbox, fd, owner, path);
    if (status != UCS_OK) {
        goto err_close_bell;
    }
    status = muct_xgmi_outbox_find_place(outbox, fd, self, self_id);
    if (status == UCS_OK) {
        goto out;
    }

    munmap(outbox->box, sizeof(*outbox->box));
err_close_bell:
    close(outbox->bell_fd);
out:
    close(fd);
    return status;
}

ucs_status_t muct_xgmi_outbox_open(const char *dir, uint64_t owner,
                                   muct_xgmi_iface_id_t id, uint64_t self,
                                   muct_xgmi_iface_id_t self_id,
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
    status = muct_xgmi_outbox_init(outbox, dir, owner, id, self, self_id);
    if (status != UCS_OK) {
        free(outbox);
        return status;
    }

    *outbox_p = outbox;
    return UCS_OK;
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
    munmap(outbox->ring.bytes, MUCT_XGMI_RING_SIZE);
    munmap(outbox->box, sizeof(*outbox->box));
    close(outbox->bell_fd);
    free(outbox);
}

void muct_xgmi_outbox_commit(muct_xgmi_outbox_t *outbox, uint8_t id, size_t length)
{
    muct_xgmi_box_t *box = outbox->box;

    muct_xgmi_ring_commit(&outbox->ring, id, length);
    muct_xgmi_box_set_ready(box, outbox->index);
    /* either the receiver sees the message before it sleeps, or it is seen to sleep */
    if ((atomic_load(&box->is_armed) != 0) &&
        (atomic_exchange(&box->is_armed, 0) != 0)) {
        muct_xgmi_bell_ring(outbox->bell_fd);
        atomic_fetch_add(&box->num_rung, 1);
    }
}
