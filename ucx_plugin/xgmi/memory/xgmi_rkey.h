/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_RKEY_H
#define MUCT_XGMI_RKEY_H

/**
 * @file
 * Unpacked keys of other processes' memory, and the component's operations on them.
 */

#include "base/muct_uct_abi.h"
#include "xgmi/memory/xgmi_map.h"
#include "xgmi/peer/xgmi_private.h"


/** An unpacked remote key. */
typedef struct muct_xgmi_rkey {
    muct_xgmi_key_t key;
    muct_xgmi_peer_t *peer;               /**< Owner; holds a reference */
    uint64_t uid;                         /**< Never reused in this process */
    const muct_xgmi_region_t *ptr_region; /**< Held for rkey_ptr, or NULL */
    muct_xgmi_private_t private;          /**< Owner of private memory */
} muct_xgmi_rkey_t;


/** Whether a key, which may be UCT_INVALID_RKEY, is for private memory. */
static inline bool muct_xgmi_rkey_is_private(uct_rkey_t rkey)
{
    return (rkey != UCT_INVALID_RKEY) &&
           (((const muct_xgmi_rkey_t *)rkey)->key.kind == MUCT_XGMI_KEY_PRIVATE);
}


/**
 * Record a key of this process before a peer receives it.
 *
 * @param [in] slot    Slot of the key, below @ref MUCT_XGMI_MAX_SLOTS.
 * @param [in] packed  @ref MUCT_XGMI_KEY_PACKED_SIZE bytes.
 */
void muct_xgmi_rkey_issue(uint32_t slot, const void *packed);


/** Operations of the component's table that concern keys. */
ucs_status_t muct_xgmi_rkey_unpack(uct_component_t *component, const void *buffer,
                                   const uct_rkey_unpack_params_t *params,
                                   uct_rkey_t *rkey_p, void **handle_p);
ucs_status_t muct_xgmi_rkey_release(uct_component_t *component, uct_rkey_t rkey,
                                    void *handle);
ucs_status_t muct_xgmi_rkey_ptr(uct_component_t *component, uct_rkey_t rkey,
                                void *handle, uint64_t raddr, void **laddr_p);
ucs_status_t muct_xgmi_rkey_compare(uct_component_t *component, uct_rkey_t rkey1,
                                    uct_rkey_t rkey2,
                                    const uct_rkey_compare_params_t *params,
                                    int *result);

#endif
