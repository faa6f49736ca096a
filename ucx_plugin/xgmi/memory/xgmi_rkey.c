/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Keys of peers' memory. UCX unpacks a key for a component and not for a memory domain,
 * so keys use mori_xgmi's state of the whole process.
 */

#include "xgmi/memory/xgmi_rkey.h"

#include "base/muct_bytes.h"
#include "base/muct_lock.h"
#include "base/muct_log.h"
#include "base/muct_tuning.h"
#include "xgmi/memory/xgmi_global.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>


/* ---- keys of this process ---- */

/*
 * A key that names this process comes back from a peer, and the address in it is used
 * as it is. So it must be the last key that was packed for its slot.
 */
static pthread_mutex_t muct_xgmi_issued_lock = PTHREAD_MUTEX_INITIALIZER;
MUCT_FREE_IN_CHILD(muct_xgmi_issued_lock, &muct_xgmi_issued_lock)
static unsigned char muct_xgmi_issued[MUCT_XGMI_MAX_SLOTS][MUCT_XGMI_KEY_PACKED_SIZE];

void muct_xgmi_rkey_issue(uint32_t slot, const void *packed)
{
    pthread_mutex_lock(&muct_xgmi_issued_lock);
    memcpy(muct_xgmi_issued[slot], packed, MUCT_XGMI_KEY_PACKED_SIZE);
    pthread_mutex_unlock(&muct_xgmi_issued_lock);
}

static bool muct_xgmi_rkey_is_issued(uint32_t slot, const void *packed)
{
    bool is_issued;

    pthread_mutex_lock(&muct_xgmi_issued_lock);
    is_issued = memcmp(muct_xgmi_issued[slot], packed, MUCT_XGMI_KEY_PACKED_SIZE) == 0;
    pthread_mutex_unlock(&muct_xgmi_issued_lock);
    return is_issued;
}

static ucs_status_t muct_xgmi_rkey_check_own(const muct_xgmi_key_t *key,
                                             const void *packed)
{
    if ((key->slot < MUCT_XGMI_MAX_SLOTS) &&
        muct_xgmi_rkey_is_issued(key->slot, packed)) {
        return UCS_OK;
    }

    muct_diag("a remote key names this process, slot %" PRIu32 " generation %" PRIu32
              " address 0x%" PRIx64 " length %" PRIu64
              ", and is not its key of that slot: pack the key again",
              key->slot, key->generation, key->address, key->length);
    return UCS_ERR_INVALID_PARAM;
}


/* ---- unpacked keys ---- */

/* Do not map memory of a void key: the memory may be gone, and copies are refused. */
static ucs_status_t muct_xgmi_rkey_try_private(muct_xgmi_rkey_t *rkey)
{
    ucs_status_t status;

    rkey->private.word = muct_get_le(rkey->key.handle, 8);
    if (!muct_xgmi_peer_enter(rkey->peer, rkey->key.slot, rkey->key.generation)) {
        return UCS_OK;
    }

    status = muct_xgmi_private_open(rkey->peer, rkey->key.address, rkey->key.length,
                                    &rkey->private);
    muct_xgmi_peer_leave(rkey->peer, rkey->key.slot);
    return status;
}

/*
 * Begin to map the memory, so that the first copy need not wait, and so that UCX can
 * choose another lane where the device cannot reach the memory. UCP unpacks keys of
 * rendezvous messages from progress, so this waits only for the first mapping of a
 * peer, and briefly. A mapping that fails for another reason fails again with the copy,
 * which then ends with an error: another lane would carry it to an owner whose memory
 * may be gone. The same holds for a peer that has died and has an endpoint here.
 */
static ucs_status_t muct_xgmi_rkey_try(muct_xgmi_rkey_t *rkey)
{
    ucs_status_t status;
    int device;

    if (!muct_xgmi_peer_was_alive(rkey->peer)) {
        return UCS_OK; /* there is nothing to map */
    }
    if (!muct_xgmi_peer_claim(rkey->peer)) {
        return UCS_ERR_UNREACHABLE; /* UCP uses another lane; the warning was logged */
    }
    if (rkey->key.kind == MUCT_XGMI_KEY_PRIVATE) {
        return muct_xgmi_rkey_try_private(rkey);
    }

    device = atomic_load_explicit(&muct_xgmi_global.device, memory_order_relaxed);
    if (((device < 0) && (muct_gpu_forget(muct_xgmi_global.gpu,
                                          muct_xgmi_global.gpu->get_device(&device)) !=
                          MUCT_HIP_SUCCESS)) ||
        !muct_xgmi_peer_enter(rkey->peer, rkey->key.slot, rkey->key.generation)) {
        return UCS_OK;
    }

    status =
        muct_xgmi_map_prepare(muct_xgmi_global.map, rkey->peer, &rkey->key, device);
    muct_xgmi_peer_leave(rkey->peer, rkey->key.slot);
    return (status == UCS_ERR_UNSUPPORTED) ? UCS_ERR_UNREACHABLE : UCS_OK;
}

ucs_status_t muct_xgmi_rkey_unpack(uct_component_t *component, const void *buffer,
                                   const uct_rkey_unpack_params_t *params,
                                   uct_rkey_t *rkey_p, void **handle_p)
{
    muct_xgmi_rkey_t *rkey;
    ucs_status_t status;

    (void)component;
    (void)params;
    rkey = calloc(1, sizeof(*rkey));
    if (rkey == NULL) {
        muct_error("failed to allocate a remote key");
        return UCS_ERR_NO_MEMORY;
    }

    /* UCX has allocated rkey_packed_size bytes. */
    status = muct_xgmi_key_unpack(buffer, MUCT_XGMI_KEY_PACKED_SIZE, &rkey->key);
    if (status != UCS_OK) {
        muct_diag("unpacking a remote key failed: %s", ucs_status_string(status));
        goto err_free;
    }

    status = UCS_ERR_UNREACHABLE;
    if ((rkey->key.kind == MUCT_XGMI_KEY_LOCAL) || (muct_xgmi_global.map == NULL)) {
        goto err_free;
    }

    status = muct_xgmi_peer_get_known(rkey->key.owner, &rkey->peer);
    if (status != UCS_OK) {
        goto err_free;
    }

    status = muct_xgmi_peer_is_self(rkey->peer)
                 ? muct_xgmi_rkey_check_own(&rkey->key, buffer)
                 : UCS_OK;
    if (status == UCS_OK) {
        status = muct_xgmi_rkey_try(rkey);
    }
    if (status != UCS_OK) {
        goto err_put_peer;
    }

    rkey->uid = atomic_fetch_add(&muct_xgmi_global.next_uid, 1);
    *rkey_p = (uintptr_t)rkey;
    *handle_p = NULL;
    return UCS_OK;

err_put_peer:
    muct_xgmi_peer_put(rkey->peer);
err_free:
    free(rkey);
    return status;
}

ucs_status_t muct_xgmi_rkey_release(uct_component_t *component, uct_rkey_t handle,
                                    void *unused)
{
    muct_xgmi_rkey_t *rkey = (muct_xgmi_rkey_t *)handle;

    (void)component;
    (void)unused;
    if (rkey->ptr_region != NULL) {
        muct_xgmi_map_put(muct_xgmi_global.map, rkey->ptr_region);
    }
    muct_xgmi_peer_put(rkey->peer);
    free(rkey);
    return UCS_OK;
}

ucs_status_t muct_xgmi_rkey_ptr(uct_component_t *component, uct_rkey_t handle,
                                void *unused, uint64_t raddr, void **laddr_p)
{
    muct_xgmi_rkey_t *rkey = (muct_xgmi_rkey_t *)handle;
    int device = atomic_load_explicit(&muct_xgmi_global.device, memory_order_relaxed);
    ucs_status_t status;

    (void)component;
    (void)unused;
    if ((raddr < rkey->key.address) ||
        ((raddr - rkey->key.address) > rkey->key.length)) {
        return UCS_ERR_INVALID_ADDR;
    }
    if (rkey->key.kind == MUCT_XGMI_KEY_PRIVATE) {
        return UCS_ERR_UNSUPPORTED; /* this process has no mapping of it */
    }

    if (rkey->ptr_region == NULL) {
        status = muct_xgmi_map_get(muct_xgmi_global.map, rkey->peer, &rkey->key,
                                   (device < 0) ? 0 : device, MUCT_XGMI_OPEN_LIMIT_MS,
                                   &rkey->ptr_region);
        if (status != UCS_OK) {
            return status;
        }
    }

    *laddr_p = (void *)(uintptr_t)(raddr + rkey->ptr_region->delta);
    return UCS_OK;
}

ucs_status_t muct_xgmi_rkey_compare(uct_component_t *component, uct_rkey_t rkey1,
                                    uct_rkey_t rkey2,
                                    const uct_rkey_compare_params_t *params,
                                    int *result)
{
    (void)component;
    if ((params->field_mask != 0) || (result == NULL)) {
        return UCS_ERR_INVALID_PARAM;
    }

    *result = muct_xgmi_key_compare(&((muct_xgmi_rkey_t *)rkey1)->key,
                                    &((muct_xgmi_rkey_t *)rkey2)->key);
    return UCS_OK;
}
