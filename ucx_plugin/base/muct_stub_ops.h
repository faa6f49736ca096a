/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_STUB_OPS_H
#define MUCT_STUB_OPS_H

/**
 * @file
 * Typed stubs of operations that our transports do not support, so that the tables need
 * no casts.
 *
 * Each of them changes nothing and returns UCS_ERR_UNSUPPORTED (as a pointer or a byte
 * count where the operation returns one). A table entry is never NULL: UCX calls it
 * without a check.
 */

#include "base/muct_uct_abi.h"

/** Declares a function of the type that @a _func_type points to. */
#define MUCT_STUB_DECLARE(_func_type, _name) __typeof__(*(_func_type)0) _name

/** Component. */
MUCT_STUB_DECLARE(uct_component_cm_open_func_t, muct_stub_cm_open);
MUCT_STUB_DECLARE(uct_component_rkey_ptr_func_t, muct_stub_rkey_ptr);
MUCT_STUB_DECLARE(uct_component_md_vfs_init_func_t, muct_stub_md_vfs_init);

/** Memory domain. */
MUCT_STUB_DECLARE(uct_md_mem_alloc_func_t, muct_stub_md_mem_alloc);
MUCT_STUB_DECLARE(uct_md_mem_free_func_t, muct_stub_md_mem_free);
MUCT_STUB_DECLARE(uct_md_mem_advise_func_t, muct_stub_md_mem_advise);
MUCT_STUB_DECLARE(uct_md_mem_query_func_t, muct_stub_md_mem_query);
MUCT_STUB_DECLARE(uct_md_mem_attach_func_t, muct_stub_md_mem_attach);
MUCT_STUB_DECLARE(uct_md_detect_memory_type_func_t, muct_stub_md_detect_memory_type);
MUCT_STUB_DECLARE(uct_md_mem_elem_pack_func_t, muct_stub_md_mem_elem_pack);
#if MUCT_ABI_HAVE_MEM_ELEM_RELEASE
MUCT_STUB_DECLARE(uct_md_mem_elem_release_func_t, muct_stub_md_mem_elem_release);
#endif

/** Endpoint: put, get, active messages. */
MUCT_STUB_DECLARE(uct_ep_put_short_func_t, muct_stub_ep_put_short);
MUCT_STUB_DECLARE(uct_ep_put_bcopy_func_t, muct_stub_ep_put_bcopy);
MUCT_STUB_DECLARE(uct_ep_get_short_func_t, muct_stub_ep_get_short);
MUCT_STUB_DECLARE(uct_ep_get_bcopy_func_t, muct_stub_ep_get_bcopy);
MUCT_STUB_DECLARE(uct_ep_am_short_func_t, muct_stub_ep_am_short);
MUCT_STUB_DECLARE(uct_ep_am_short_iov_func_t, muct_stub_ep_am_short_iov);
MUCT_STUB_DECLARE(uct_ep_am_bcopy_func_t, muct_stub_ep_am_bcopy);
MUCT_STUB_DECLARE(uct_ep_am_zcopy_func_t, muct_stub_ep_am_zcopy);

/** Endpoint: atomics. */
MUCT_STUB_DECLARE(uct_ep_atomic_cswap64_func_t, muct_stub_ep_atomic_cswap64);
MUCT_STUB_DECLARE(uct_ep_atomic_cswap32_func_t, muct_stub_ep_atomic_cswap32);
MUCT_STUB_DECLARE(uct_ep_atomic32_post_func_t, muct_stub_ep_atomic32_post);
MUCT_STUB_DECLARE(uct_ep_atomic64_post_func_t, muct_stub_ep_atomic64_post);
MUCT_STUB_DECLARE(uct_ep_atomic32_fetch_func_t, muct_stub_ep_atomic32_fetch);
MUCT_STUB_DECLARE(uct_ep_atomic64_fetch_func_t, muct_stub_ep_atomic64_fetch);

/** Endpoint and interface: tag matching. */
MUCT_STUB_DECLARE(uct_ep_tag_eager_short_func_t, muct_stub_ep_tag_eager_short);
MUCT_STUB_DECLARE(uct_ep_tag_eager_bcopy_func_t, muct_stub_ep_tag_eager_bcopy);
MUCT_STUB_DECLARE(uct_ep_tag_eager_zcopy_func_t, muct_stub_ep_tag_eager_zcopy);
MUCT_STUB_DECLARE(uct_ep_tag_rndv_zcopy_func_t, muct_stub_ep_tag_rndv_zcopy);
MUCT_STUB_DECLARE(uct_ep_tag_rndv_cancel_func_t, muct_stub_ep_tag_rndv_cancel);
MUCT_STUB_DECLARE(uct_ep_tag_rndv_request_func_t, muct_stub_ep_tag_rndv_request);
MUCT_STUB_DECLARE(uct_iface_tag_recv_zcopy_func_t, muct_stub_iface_tag_recv_zcopy);
MUCT_STUB_DECLARE(uct_iface_tag_recv_cancel_func_t, muct_stub_iface_tag_recv_cancel);

/** Endpoint: connection establishment. */
MUCT_STUB_DECLARE(uct_ep_connect_func_t, muct_stub_ep_connect);
MUCT_STUB_DECLARE(uct_ep_disconnect_func_t, muct_stub_ep_disconnect);
MUCT_STUB_DECLARE(uct_cm_ep_conn_notify_func_t, muct_stub_cm_ep_conn_notify);
MUCT_STUB_DECLARE(uct_ep_get_address_func_t, muct_stub_ep_get_address);
MUCT_STUB_DECLARE(uct_ep_connect_to_ep_func_t, muct_stub_ep_connect_to_ep);
MUCT_STUB_DECLARE(uct_iface_accept_func_t, muct_stub_iface_accept);
MUCT_STUB_DECLARE(uct_iface_reject_func_t, muct_stub_iface_reject);

/** Internal operations. */
MUCT_STUB_DECLARE(uct_iface_vfs_refresh_func_t, muct_stub_iface_vfs_refresh);
MUCT_STUB_DECLARE(uct_ep_query_func_t, muct_stub_ep_query);
MUCT_STUB_DECLARE(uct_ep_invalidate_func_t, muct_stub_ep_invalidate);
MUCT_STUB_DECLARE(uct_ep_connect_to_ep_v2_func_t, muct_stub_ep_connect_to_ep_v2);
MUCT_STUB_DECLARE(uct_ep_get_device_ep_func_t, muct_stub_ep_get_device_ep);
MUCT_STUB_DECLARE(uct_ep_put_sgl_zcopy_func_t, muct_stub_ep_put_sgl_zcopy);
#if MUCT_ABI_HAVE_GET_SGL
MUCT_STUB_DECLARE(uct_ep_get_sgl_zcopy_func_t, muct_stub_ep_get_sgl_zcopy);
#endif
#if MUCT_ABI_HAVE_OUTSTANDING_PURGE
MUCT_STUB_DECLARE(uct_ep_outstanding_purge_func_t, muct_stub_ep_outstanding_purge);
#endif

/** An operation a later point release may append. */
ucs_status_t muct_stub_spare(void);

/** Initializer of the spare slots of @ref MUCT_ABI_PADDED */
#define MUCT_STUB_SPARE                                                                \
    {muct_stub_spare, muct_stub_spare, muct_stub_spare, muct_stub_spare,               \
     muct_stub_spare, muct_stub_spare, muct_stub_spare, muct_stub_spare}

/** Rows of uct_iface_ops_t that no transport of ours has. */
#define MUCT_STUB_IFACE_OPS_COMMON                                                     \
    .ep_tag_eager_short = muct_stub_ep_tag_eager_short,                                \
    .ep_tag_eager_bcopy = muct_stub_ep_tag_eager_bcopy,                                \
    .ep_tag_eager_zcopy = muct_stub_ep_tag_eager_zcopy,                                \
    .ep_tag_rndv_zcopy = muct_stub_ep_tag_rndv_zcopy,                                  \
    .ep_tag_rndv_cancel = muct_stub_ep_tag_rndv_cancel,                                \
    .ep_tag_rndv_request = muct_stub_ep_tag_rndv_request,                              \
    .iface_tag_recv_zcopy = muct_stub_iface_tag_recv_zcopy,                            \
    .iface_tag_recv_cancel = muct_stub_iface_tag_recv_cancel,                          \
    .ep_connect = muct_stub_ep_connect, .ep_disconnect = muct_stub_ep_disconnect,      \
    .cm_ep_conn_notify = muct_stub_cm_ep_conn_notify,                                  \
    .iface_accept = muct_stub_iface_accept, .iface_reject = muct_stub_iface_reject

#endif
