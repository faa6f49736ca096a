/* SPDX-License-Identifier: BSD-3-Clause */

/* Puts and gets of one piece; those of lists are in xgmi_sgl.c. */

#include "xgmi/xgmi_rma.h"

#include "base/muct_log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


/* ---- the end of operations ---- */

void muct_xgmi_ep_zcopy_done(muct_xgmi_op_t *op, ucs_status_t status)
{
    uct_completion_t *comp = op->arg;

    if (comp == NULL) {
        (void)muct_xgmi_ep_op_over(op, status);
        return;
    }

    status = muct_xgmi_ep_comp_op_over(op, status);
    muct_completion_invoke(comp, status);
}

static void muct_xgmi_ep_put_bcopy_done(muct_xgmi_op_t *op, ucs_status_t status)
{
    muct_xgmi_buffer_t *buffer = op->arg;

    (void)muct_xgmi_ep_op_over(op, status);
    muct_xgmi_stage_put(buffer);
}

static void muct_xgmi_ep_get_bcopy_done(muct_xgmi_op_t *op, ucs_status_t status)
{
    muct_xgmi_buffer_t *buffer = op->arg;
    uct_completion_t *comp = buffer->comp;

    status = (comp == NULL) ? muct_xgmi_ep_op_over(op, status)
                            : muct_xgmi_ep_comp_op_over(op, status);
    if (status == UCS_OK) {
        buffer->unpack_cb(buffer->unpack_arg, buffer->data, buffer->length);
    }

    muct_xgmi_stage_put(buffer);
    if (comp != NULL) {
        muct_completion_invoke(comp, status);
    }
}


/* ---- posting ---- */

ucs_status_t muct_xgmi_ep_await(muct_xgmi_ep_t *ep, int device, uct_mem_h const *memhs,
                                uct_rkey_t const *rkeys, size_t count)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t);
    muct_xgmi_map_t *map = iface->md->map;
    muct_xgmi_hold_t before = ep->hold;
    ucs_status_t status = UCS_OK;
    size_t i;

    ep->hold = (muct_xgmi_hold_t){0};
    ep->is_opening = false; /* the next try finds memory that was opened meanwhile */
    ep->wants_room = false;
    atomic_store(&iface->map_watch.is_waiting, true);
    /* read the count before the look-up, so that no opening is missed */
    ep->num_opened = muct_xgmi_map_num_opened(map);
    for (i = 0; (i < count) && !UCS_STATUS_IS_ERR(status); ++i) {
        if ((i > 0) && (rkeys[i] == rkeys[i - 1]) &&
            ((memhs == NULL) || (memhs[i] == memhs[i - 1]))) {
            continue;
        }
        if ((rkeys[i] == UCT_INVALID_RKEY) || ((memhs != NULL) && (memhs[i] == NULL))) {
            break; /* the next try reports it */
        }
        if (memhs != NULL) {
            device = ((const muct_xgmi_mem_t *)memhs[i])->device;
        }
        status = muct_xgmi_hold_add(&ep->hold, map, (const muct_xgmi_rkey_t *)rkeys[i],
                                    device);
        ep->is_opening |= (status == UCS_INPROGRESS);
    }

    muct_xgmi_hold_release(&before, map);
    if (UCS_STATUS_IS_ERR(status)) {
        muct_xgmi_ep_let_go(ep, map);
        return status;
    }
    return UCS_ERR_NO_RESOURCE;
}

ucs_status_t muct_xgmi_ep_not_found(muct_xgmi_ep_t *ep, const muct_xgmi_queue_t *queue,
                                    uct_rkey_t rkey, ucs_status_t status)
{
    if (status == UCS_INPROGRESS) {
        return muct_xgmi_ep_await(ep, queue->device, NULL, &rkey, 1);
    }

    muct_xgmi_ep_let_go(ep, queue->map);
    return status;
}

ucs_status_t muct_xgmi_ep_out_of_bounds(const muct_xgmi_rkey_t *rkey, uint64_t raddr,
                                        uint64_t length)
{
    muct_error("remote address 0x%" PRIx64 " length %" PRIu64
               " is not inside the registered memory 0x%" PRIx64 " length %" PRIu64,
               raddr, length, rkey->key.address, rkey->key.length);
    return UCS_ERR_INVALID_ADDR;
}

/* Finds the address of the remote memory, and checks that the whole range may be
 * used. */
static inline ucs_status_t muct_xgmi_ep_find(muct_xgmi_queue_t *queue,
                                             const muct_xgmi_rkey_t *rkey,
                                             uint64_t raddr, uint64_t length,
                                             uint64_t *laddr_p)
{
    const muct_xgmi_window_t *window;
    ucs_status_t status;

    status = muct_xgmi_queue_find(queue, rkey, &window);
    if (ucs_unlikely(status != UCS_OK)) {
        return status;
    }

    if (ucs_unlikely(!muct_xgmi_window_has(window, raddr, length))) {
        return muct_xgmi_ep_out_of_bounds(rkey, raddr, length);
    }

    *laddr_p = raddr + window->delta;
    return UCS_OK;
}

static inline void muct_xgmi_ep_add(muct_xgmi_queue_t *queue, muct_xgmi_dir_t dir,
                                    uint64_t local, uint64_t remote, uint64_t length)
{
    if (dir == MUCT_XGMI_PUT) {
        muct_xgmi_queue_add(queue, remote, local, length);
    } else {
        muct_xgmi_queue_add(queue, local, remote, length);
    }
}

static size_t muct_xgmi_iov_pack(void *dest, void *arg)
{
    const uct_iov_t *iov = arg;

    memcpy(dest, iov->buffer, iov->length);
    return iov->length;
}

static void muct_xgmi_iov_unpack(void *arg, const void *data, size_t length)
{
    memcpy(arg, data, length);
}

/* Kernels cannot use the memory, and a copy call for each piece costs more than this.
 */
static UCS_F_NOINLINE ucs_status_t
muct_xgmi_ep_zcopy_staged(uct_ep_h ep, muct_xgmi_dir_t dir, const uct_iov_t *iov,
                          uint64_t raddr, uct_rkey_t rkey, uct_completion_t *comp)
{
    ssize_t sent;

    if (dir == MUCT_XGMI_GET) {
        return muct_xgmi_ep_get_bcopy(ep, muct_xgmi_iov_unpack, iov->buffer,
                                      iov->length, raddr, rkey, comp);
    }

    sent = muct_xgmi_ep_put_bcopy(ep, muct_xgmi_iov_pack, (void *)iov, raddr, rkey);
    return (sent < 0) ? (ucs_status_t)sent : UCS_OK;
}

/* The kernel copies private memory of other processes. */
static UCS_F_NOINLINE ucs_status_t
muct_xgmi_ep_move(muct_xgmi_ep_t *ep, muct_xgmi_dir_t dir, const uct_iov_t *iov,
                  uint64_t raddr, const muct_xgmi_rkey_t *rkey, uct_completion_t *comp)
{
    const muct_xgmi_move_params_t params = {dir,   iov->buffer, iov->length, iov->memh,
                                            raddr, rkey,        comp};
    ucs_list_link_t moves;
    ucs_status_t status;

    ucs_list_head_init(&moves);
    status = muct_xgmi_moves_prepare(ep, &params, &moves);
    if (status != UCS_OK) {
        return muct_xgmi_ep_no_resource(ep, status);
    }

    muct_trace_op((dir == MUCT_XGMI_PUT) ? "put zcopy" : "get zcopy", iov->length,
                  raddr);
    muct_xgmi_moves_commit(ep, &moves);
    return UCS_INPROGRESS;
}

/* max_iov allows one piece at most, because pieces may be on different devices. */
static UCS_F_ALWAYS_INLINE ucs_status_t muct_xgmi_ep_zcopy(
    uct_ep_h tl_ep, const muct_xgmi_dir_t dir, const uct_iov_t *iov, size_t iovcnt,
    uint64_t raddr, uct_rkey_t tl_rkey, uct_completion_t *comp)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_ep->iface, muct_xgmi_iface_t);
    const muct_xgmi_rkey_t *rkey = (const muct_xgmi_rkey_t *)tl_rkey;
    muct_xgmi_mem_t *mem;
    muct_xgmi_queue_t *queue;
    uint64_t laddr = 0;
    ucs_status_t status;

    status = muct_xgmi_ep_may_post(ep);
    if (ucs_unlikely(status != UCS_OK)) {
        return status;
    }

    if (ucs_unlikely((iovcnt == 0) || (iov->length == 0))) {
        return UCS_OK;
    }

    mem = iov->memh;
    if (ucs_unlikely((mem == NULL) || (iovcnt > 1) || (iov->count > 1))) {
        muct_error("%zu pieces of local memory, the first %p with handle %p, %u times: "
                   "one registered piece was expected",
                   iovcnt, iov->buffer, iov->memh, iov->count);
        return UCS_ERR_INVALID_PARAM;
    }

    if (ucs_unlikely(rkey->key.kind == MUCT_XGMI_KEY_PRIVATE)) {
        return muct_xgmi_ep_move(ep, dir, iov, raddr, rkey, comp);
    }

    if (ucs_unlikely(mem->is_host) && !muct_pin(iface->md->gpu, &mem->pin) &&
        (iov->length <= iface->stage.size)) {
        return muct_xgmi_ep_zcopy_staged(tl_ep, dir, iov, raddr, tl_rkey, comp);
    }

    status = muct_xgmi_iface_queue(iface, dir, mem->device, &queue);
    if (ucs_unlikely(status != UCS_OK)) {
        return status;
    }

    status = muct_xgmi_queue_reserve(queue, 1);
    if (ucs_unlikely(status != UCS_OK)) {
        return muct_xgmi_ep_no_resource(ep, status);
    }

    status = muct_xgmi_ep_find(queue, rkey, raddr, iov->length, &laddr);
    if (ucs_unlikely(status != UCS_OK)) {
        return muct_xgmi_ep_not_found(ep, queue, tl_rkey, status);
    }

    muct_trace_op((dir == MUCT_XGMI_PUT) ? "put zcopy" : "get zcopy", iov->length,
                  raddr);
    muct_xgmi_queue_set_operands(queue, mem, rkey->uid);
    muct_xgmi_ep_add(queue, dir,
                     (uintptr_t)iov->buffer + muct_xgmi_ep_use_local(queue, mem), laddr,
                     iov->length);
    muct_xgmi_ep_commit(ep, queue, muct_xgmi_ep_zcopy_done, comp);
    return UCS_INPROGRESS;
}

ucs_status_t muct_xgmi_ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey,
                                    uct_completion_t *comp)
{
    return muct_xgmi_ep_zcopy(ep, MUCT_XGMI_PUT, iov, iovcnt, remote_addr, rkey, comp);
}

ucs_status_t muct_xgmi_ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey,
                                    uct_completion_t *comp)
{
    return muct_xgmi_ep_zcopy(ep, MUCT_XGMI_GET, iov, iovcnt, remote_addr, rkey, comp);
}


/* ---- short and buffered ---- */

/* Take a buffer, and reserve room in the queue that copies from or to it. */
static ucs_status_t muct_xgmi_ep_stage(muct_xgmi_ep_t *ep, muct_xgmi_dir_t dir,
                                       muct_xgmi_queue_t **queue_p,
                                       muct_xgmi_buffer_t **buffer_p)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t);
    ucs_status_t status;
    int device;

    status = muct_xgmi_ep_may_post(ep);
    if (status != UCS_OK) {
        return status;
    }

    device = muct_xgmi_md_default_device(iface->md);
    status = muct_xgmi_iface_queue(iface, dir, device, queue_p);
    if (status == UCS_OK) {
        status = muct_xgmi_queue_reserve(*queue_p, 1);
    }
    if (status == UCS_OK) {
        status = muct_xgmi_stage_get(&iface->stage, device, buffer_p);
    }

    return muct_xgmi_ep_no_resource(ep, status);
}

/* Private memory of other processes is copied by the call. */
static UCS_F_NOINLINE ssize_t muct_xgmi_ep_put_private(muct_xgmi_ep_t *ep,
                                                       uct_pack_callback_t pack_cb,
                                                       void *arg, uint64_t raddr,
                                                       const muct_xgmi_rkey_t *rkey)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t);
    ucs_status_t status = muct_xgmi_ep_may_post(ep);
    size_t length;
    void *data;

    if (status != UCS_OK) {
        return status;
    }
    /* check this before packing, which must happen once */
    if (iface->fences.count > 0) {
        return muct_xgmi_ep_no_resource(ep, UCS_ERR_NO_RESOURCE);
    }
    data = malloc(iface->stage.size);
    if (data == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    length = pack_cb(data, arg);
    status = (length == 0)
                 ? UCS_OK
                 : muct_xgmi_moves_copy(ep, MUCT_XGMI_PUT, rkey, data, length, raddr);
    free(data);
    return (status == UCS_OK) ? (ssize_t)length : (ssize_t)status;
}

static UCS_F_NOINLINE ucs_status_t
muct_xgmi_ep_get_private(muct_xgmi_ep_t *ep, uct_unpack_callback_t unpack_cb, void *arg,
                         size_t length, uint64_t raddr, const muct_xgmi_rkey_t *rkey)
{
    const muct_xgmi_iface_t *iface =
        ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t);
    ucs_status_t status = muct_xgmi_ep_may_post(ep);
    void *data;

    if (status != UCS_OK) {
        return status;
    }
    if (length > iface->stage.size) {
        muct_error("buffered get of %zu bytes is longer than %zu", length,
                   iface->stage.size);
        return UCS_ERR_INVALID_PARAM;
    }
    data = malloc(length);
    if (data == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    status = muct_xgmi_moves_copy(ep, MUCT_XGMI_GET, rkey, data, length, raddr);
    if (status == UCS_OK) {
        unpack_cb(arg, data, length);
    }
    free(data);
    return status;
}

/* Send the buffer's contents; release the buffer on error. */
static ucs_status_t muct_xgmi_ep_put_buffer(muct_xgmi_ep_t *ep,
                                            muct_xgmi_queue_t *queue,
                                            muct_xgmi_buffer_t *buffer, size_t length,
                                            uint64_t raddr, uct_rkey_t rkey)
{
    uint64_t laddr = 0;
    ucs_status_t status;

    if (length == 0) {
        muct_xgmi_stage_put(buffer);
        return UCS_OK;
    }

    status =
        muct_xgmi_ep_find(queue, (const muct_xgmi_rkey_t *)rkey, raddr, length, &laddr);
    if (status != UCS_OK) {
        muct_xgmi_stage_put(buffer);
        return muct_xgmi_ep_not_found(ep, queue, rkey, status);
    }

    muct_trace_op("put short or bcopy", length, raddr);
    muct_xgmi_queue_set_operands(queue, buffer, ((muct_xgmi_rkey_t *)rkey)->uid);
    muct_xgmi_queue_add(queue, laddr, (uintptr_t)buffer->data, length);
    muct_xgmi_ep_commit(ep, queue, muct_xgmi_ep_put_bcopy_done, buffer);
    return UCS_OK;
}

ucs_status_t muct_xgmi_ep_put_short(uct_ep_h tl_ep, const void *data, unsigned length,
                                    uint64_t remote_addr, uct_rkey_t rkey)
{
    const muct_xgmi_iface_t *iface = ucs_derived_of(tl_ep->iface, muct_xgmi_iface_t);
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    muct_xgmi_buffer_t *buffer;
    muct_xgmi_queue_t *queue;
    ucs_status_t status;

    if (length > iface->max_short) {
        muct_error("short put of length %u: expected at most %zu bytes", length,
                   iface->max_short);
        return UCS_ERR_INVALID_PARAM;
    }

    if ((length > 0) && muct_xgmi_rkey_is_private(rkey)) {
        status = muct_xgmi_ep_may_post(ep);
        return (status == UCS_OK)
                   ? muct_xgmi_moves_copy(ep, MUCT_XGMI_PUT,
                                          (const muct_xgmi_rkey_t *)rkey, (void *)data,
                                          length, remote_addr)
                   : status;
    }
    status = muct_xgmi_ep_stage(ep, MUCT_XGMI_PUT, &queue, &buffer);
    if (status != UCS_OK) {
        return status;
    }

    if (length > 0) { /* zero bytes need no address */
        memcpy(buffer->data, data, length);
    }
    return muct_xgmi_ep_put_buffer(ep, queue, buffer, length, remote_addr, rkey);
}

ssize_t muct_xgmi_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack_cb, void *arg,
                               uint64_t remote_addr, uct_rkey_t rkey)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    const muct_xgmi_window_t *window;
    muct_xgmi_buffer_t *buffer;
    muct_xgmi_queue_t *queue;
    ucs_status_t status;
    size_t length;

    if (muct_xgmi_rkey_is_private(rkey)) {
        return muct_xgmi_ep_put_private(ep, pack_cb, arg, remote_addr,
                                        (const muct_xgmi_rkey_t *)rkey);
    }
    status = muct_xgmi_ep_stage(ep, MUCT_XGMI_PUT, &queue, &buffer);
    if (status != UCS_OK) {
        return status;
    }

    /* check this before packing, which must happen once; zero bytes need no key */
    if (rkey != UCT_INVALID_RKEY) {
        status = muct_xgmi_queue_find(queue, (const muct_xgmi_rkey_t *)rkey, &window);
    }
    if (status != UCS_OK) {
        muct_xgmi_stage_put(buffer);
        return muct_xgmi_ep_not_found(ep, queue, rkey, status);
    }

    length = pack_cb(buffer->data, arg);
    status = muct_xgmi_ep_put_buffer(ep, queue, buffer, length, remote_addr, rkey);
    return (status == UCS_OK) ? (ssize_t)length : (ssize_t)status;
}

ucs_status_t muct_xgmi_ep_get_bcopy(uct_ep_h tl_ep, uct_unpack_callback_t unpack_cb,
                                    void *arg, size_t length, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    muct_xgmi_buffer_t *buffer;
    muct_xgmi_queue_t *queue;
    uint64_t laddr = 0;
    ucs_status_t status;

    if (length == 0) {
        unpack_cb(arg, ep, 0); /* memcpy() requires a valid address for 0 bytes, too */
        return UCS_OK;
    }
    if (muct_xgmi_rkey_is_private(rkey)) {
        return muct_xgmi_ep_get_private(ep, unpack_cb, arg, length, remote_addr,
                                        (const muct_xgmi_rkey_t *)rkey);
    }

    status = muct_xgmi_ep_stage(ep, MUCT_XGMI_GET, &queue, &buffer);
    if (status != UCS_OK) {
        return status;
    }

    if (length > buffer->stage->size) {
        muct_error("buffered get of %zu bytes is longer than %zu", length,
                   buffer->stage->size);
        status = UCS_ERR_INVALID_PARAM;
    } else {
        status = muct_xgmi_ep_find(queue, (const muct_xgmi_rkey_t *)rkey, remote_addr,
                                   length, &laddr);
    }
    if (status != UCS_OK) {
        muct_xgmi_stage_put(buffer);
        return muct_xgmi_ep_not_found(ep, queue, rkey, status);
    }

    muct_trace_op("get bcopy", length, remote_addr);
    buffer->unpack_cb = unpack_cb;
    buffer->unpack_arg = arg;
    buffer->length = length;
    buffer->comp = comp;
    muct_xgmi_queue_set_operands(queue, buffer, ((muct_xgmi_rkey_t *)rkey)->uid);
    muct_xgmi_queue_add(queue, (uintptr_t)buffer->data, laddr, length);
    muct_xgmi_ep_commit(ep, queue, muct_xgmi_ep_get_bcopy_done, buffer);
    return UCS_INPROGRESS;
}
