/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/muct_stub_ops.h"

/* Each stub is a single line: the prototypes are checked against the header's. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

ucs_status_t muct_stub_cm_open(uct_component_t *component, uct_worker_h worker,
                               const uct_cm_config_t *config, uct_cm_h *cm_p)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_rkey_ptr(uct_component_t *component, uct_rkey_t rkey,
                                void *handle, uint64_t remote_addr, void **local_addr_p)
{
    return UCS_ERR_UNSUPPORTED;
}

void muct_stub_md_vfs_init(uct_md_h md)
{
}

ucs_status_t muct_stub_md_mem_alloc(uct_md_h md, size_t *length_p, void **address_p,
                                    ucs_memory_type_t mem_type,
                                    ucs_sys_device_t sys_dev, unsigned flags,
                                    const char *alloc_name, uct_mem_h *memh_p)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_md_mem_free(uct_md_h md, uct_mem_h memh)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_md_mem_advise(uct_md_h md, uct_mem_h memh, void *addr,
                                     size_t length, unsigned advice)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_md_mem_query(uct_md_h md, const void *address, size_t length,
                                    uct_md_mem_attr_v2_t *mem_attr)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_md_mem_attach(uct_md_h md, const void *mkey_buffer,
                                     uct_md_mem_attach_params_t *params,
                                     uct_mem_h *memh_p)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_md_detect_memory_type(uct_md_h md, const void *addr,
                                             size_t length,
                                             ucs_memory_type_t *mem_type_p)
{
    return UCS_ERR_UNSUPPORTED;
}

#if MUCT_ABI_HAVE_MEM_ELEM_RELEASE
ucs_status_t muct_stub_md_mem_elem_pack(uct_md_h md, uct_mem_h memh, uct_rkey_t rkey,
                                        uct_device_mem_elem_t *mem_elem,
                                        void **release_handle_p)
#else
ucs_status_t muct_stub_md_mem_elem_pack(uct_md_h md, uct_mem_h memh, uct_rkey_t rkey,
                                        uct_device_mem_elem_t *mem_elem)
#endif
{
    return UCS_ERR_UNSUPPORTED;
}

#if MUCT_ABI_HAVE_MEM_ELEM_RELEASE

void muct_stub_md_mem_elem_release(uct_md_h md, void *release_handle)
{
}

#endif

ucs_status_t muct_stub_ep_put_short(uct_ep_h ep, const void *buffer, unsigned length,
                                    uint64_t remote_addr, uct_rkey_t rkey)
{
    return UCS_ERR_UNSUPPORTED;
}

ssize_t muct_stub_ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack_cb, void *arg,
                               uint64_t remote_addr, uct_rkey_t rkey)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_get_short(uct_ep_h ep, void *buffer, unsigned length,
                                    uint64_t remote_addr, uct_rkey_t rkey)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack_cb,
                                    void *arg, size_t length, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header,
                                   const void *payload, unsigned length)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_am_short_iov(uct_ep_h ep, uint8_t id, const uct_iov_t *iov,
                                       size_t iovcnt)
{
    return UCS_ERR_UNSUPPORTED;
}

ssize_t muct_stub_ep_am_bcopy(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack_cb,
                              void *arg, unsigned flags)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_am_zcopy(uct_ep_h ep, uint8_t id, const void *header,
                                   unsigned header_length, const uct_iov_t *iov,
                                   size_t iovcnt, unsigned flags,
                                   uct_completion_t *comp)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap,
                                         uint64_t remote_addr, uct_rkey_t rkey,
                                         uint64_t *result, uct_completion_t *comp)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_atomic_cswap32(uct_ep_h ep, uint32_t compare, uint32_t swap,
                                         uint64_t remote_addr, uct_rkey_t rkey,
                                         uint32_t *result, uct_completion_t *comp)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_atomic32_post(uct_ep_h ep, unsigned opcode, uint32_t value,
                                        uint64_t remote_addr, uct_rkey_t rkey)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_atomic64_post(uct_ep_h ep, unsigned opcode, uint64_t value,
                                        uint64_t remote_addr, uct_rkey_t rkey)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_atomic32_fetch(uct_ep_h ep, unsigned opcode, uint32_t value,
                                         uint32_t *result, uint64_t remote_addr,
                                         uct_rkey_t rkey, uct_completion_t *comp)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_atomic64_fetch(uct_ep_h ep, unsigned opcode, uint64_t value,
                                         uint64_t *result, uint64_t remote_addr,
                                         uct_rkey_t rkey, uct_completion_t *comp)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_tag_eager_short(uct_ep_h ep, uct_tag_t tag, const void *data,
                                          size_t length)
{
    return UCS_ERR_UNSUPPORTED;
}

ssize_t muct_stub_ep_tag_eager_bcopy(uct_ep_h ep, uct_tag_t tag, uint64_t imm,
                                     uct_pack_callback_t pack_cb, void *arg,
                                     unsigned flags)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_tag_eager_zcopy(uct_ep_h ep, uct_tag_t tag, uint64_t imm,
                                          const uct_iov_t *iov, size_t iovcnt,
                                          unsigned flags, uct_completion_t *comp)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_ptr_t muct_stub_ep_tag_rndv_zcopy(uct_ep_h ep, uct_tag_t tag,
                                             const void *header, unsigned header_length,
                                             const uct_iov_t *iov, size_t iovcnt,
                                             unsigned flags, uct_completion_t *comp)
{
    return UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED);
}

ucs_status_t muct_stub_ep_tag_rndv_cancel(uct_ep_h ep, void *op)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_tag_rndv_request(uct_ep_h ep, uct_tag_t tag,
                                           const void *header, unsigned header_length,
                                           unsigned flags)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_iface_tag_recv_zcopy(uct_iface_h iface, uct_tag_t tag,
                                            uct_tag_t tag_mask, const uct_iov_t *iov,
                                            size_t iovcnt, uct_tag_context_t *ctx)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_iface_tag_recv_cancel(uct_iface_h iface, uct_tag_context_t *ctx,
                                             int force)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_connect(uct_ep_h ep, const uct_ep_connect_params_t *params)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_disconnect(uct_ep_h ep, unsigned flags)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_cm_ep_conn_notify(uct_ep_h ep)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_get_address(uct_ep_h ep, uct_ep_addr_t *addr)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_connect_to_ep(uct_ep_h ep, const uct_device_addr_t *dev_addr,
                                        const uct_ep_addr_t *ep_addr)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_iface_accept(uct_iface_h iface, uct_conn_request_h conn_request)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_iface_reject(uct_iface_h iface, uct_conn_request_h conn_request)
{
    return UCS_ERR_UNSUPPORTED;
}

void muct_stub_iface_vfs_refresh(uct_iface_h iface)
{
}

ucs_status_t muct_stub_ep_query(uct_ep_h ep, uct_ep_attr_t *ep_attr)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_invalidate(uct_ep_h ep,
                                     const uct_ep_invalidate_params_t *params)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_connect_to_ep_v2(uct_ep_h ep,
                                           const uct_device_addr_t *device_addr,
                                           const uct_ep_addr_t *ep_addr,
                                           const uct_ep_connect_to_ep_params_t *params)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_get_device_ep(uct_ep_h ep, uct_device_ep_h *device_ep_p)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_stub_ep_put_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                        const size_t *lengths, uct_mem_h const *memhs,
                                        const uint64_t *remote_addrs,
                                        uct_rkey_t const *rkeys, const size_t *counts,
                                        const size_t *strides, size_t count,
                                        uct_completion_t *comp)
{
    return UCS_ERR_UNSUPPORTED;
}

#if MUCT_ABI_HAVE_GET_SGL

ucs_status_t muct_stub_ep_get_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                        const size_t *lengths, uct_mem_h const *memhs,
                                        const uint64_t *remote_addrs,
                                        uct_rkey_t const *rkeys, const size_t *counts,
                                        const size_t *strides, size_t count,
                                        uct_completion_t *comp)
{
    return UCS_ERR_UNSUPPORTED;
}

#endif

#if MUCT_ABI_HAVE_OUTSTANDING_PURGE

ucs_status_t muct_stub_ep_outstanding_purge(
    uct_ep_h ep, const uct_ep_outstanding_purge_params_t *params)
{
    return UCS_ERR_UNSUPPORTED;
}

#endif

ucs_status_t muct_stub_spare(void)
{
    return UCS_ERR_UNSUPPORTED;
}
