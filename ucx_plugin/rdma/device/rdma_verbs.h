/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_VERBS_H
#define MUCT_RDMA_VERBS_H

/**
 * @file
 * libibverbs, found at run time.
 *
 * The module has no dependency on libibverbs in its file, so that a machine without it
 * still loads mori_xgmi. One table of functions, bound by dlopen of libibverbs.so.1.
 * The library path selects the file, so tests can put a fake in its place.
 *
 * verbs.h has inline functions that call into the library (ibv_query_port() and
 * others): those are not used here. Posting and polling go through the device's own
 * operation table, as in any verbs program.
 *
 * Threads. Everything here may be called from any thread.
 */

#include <infiniband/verbs.h>
#include <ucs/config/types.h>
#include <ucs/type/status.h>

#ifdef ibv_get_device_list
#undef ibv_get_device_list
#endif
#ifdef ibv_query_port
#undef ibv_query_port
#endif
#ifdef ibv_reg_mr
#undef ibv_reg_mr
#endif

/** Functions that must be there: X(member, return type, symbol, arguments). */
#define MUCT_RDMA_VERBS_REQUIRED(X)                                                    \
    X(get_device_list, struct ibv_device **, "ibv_get_device_list", (int *num))        \
    X(free_device_list, void, "ibv_free_device_list", (struct ibv_device * *list))     \
    X(get_device_name, const char *, "ibv_get_device_name",                            \
      (struct ibv_device * device))                                                    \
    X(open_device, struct ibv_context *, "ibv_open_device",                            \
      (struct ibv_device * device))                                                    \
    X(close_device, int, "ibv_close_device", (struct ibv_context * context))           \
    X(get_async_event, int, "ibv_get_async_event",                                     \
      (struct ibv_context * context, struct ibv_async_event * event))                  \
    X(ack_async_event, void, "ibv_ack_async_event", (struct ibv_async_event * event))  \
    X(query_device, int, "ibv_query_device",                                           \
      (struct ibv_context * context, struct ibv_device_attr * attr))                   \
    X(query_port, int, "ibv_query_port",                                               \
      (struct ibv_context * context, uint8_t port, struct ibv_port_attr *attr))        \
    X(query_gid, int, "ibv_query_gid",                                                 \
      (struct ibv_context * context, uint8_t port, int index, union ibv_gid *gid))     \
    X(query_pkey, int, "ibv_query_pkey",                                               \
      (struct ibv_context * context, uint8_t port, int index, __be16 *pkey))           \
    X(alloc_pd, struct ibv_pd *, "ibv_alloc_pd", (struct ibv_context * context))       \
    X(dealloc_pd, int, "ibv_dealloc_pd", (struct ibv_pd * pd))                         \
    X(reg_mr, struct ibv_mr *, "ibv_reg_mr",                                           \
      (struct ibv_pd * pd, void *addr, size_t length, int access))                     \
    X(dereg_mr, int, "ibv_dereg_mr", (struct ibv_mr * mr))                             \
    X(create_comp_channel, struct ibv_comp_channel *, "ibv_create_comp_channel",       \
      (struct ibv_context * context))                                                  \
    X(destroy_comp_channel, int, "ibv_destroy_comp_channel",                           \
      (struct ibv_comp_channel * channel))                                             \
    X(create_cq, struct ibv_cq *, "ibv_create_cq",                                     \
      (struct ibv_context * context, int cqe, void *arg,                               \
       struct ibv_comp_channel *channel, int vector))                                  \
    X(destroy_cq, int, "ibv_destroy_cq", (struct ibv_cq * cq))                         \
    X(get_cq_event, int, "ibv_get_cq_event",                                           \
      (struct ibv_comp_channel * channel, struct ibv_cq * *cq, void **arg))            \
    X(ack_cq_events, void, "ibv_ack_cq_events", (struct ibv_cq * cq, unsigned num))    \
    X(create_qp, struct ibv_qp *, "ibv_create_qp",                                     \
      (struct ibv_pd * pd, struct ibv_qp_init_attr * attr))                            \
    X(modify_qp, int, "ibv_modify_qp",                                                 \
      (struct ibv_qp * qp, struct ibv_qp_attr * attr, int mask))                       \
    X(destroy_qp, int, "ibv_destroy_qp", (struct ibv_qp * qp))                         \
    X(create_ah, struct ibv_ah *, "ibv_create_ah",                                     \
      (struct ibv_pd * pd, struct ibv_ah_attr * attr))                                 \
    X(destroy_ah, int, "ibv_destroy_ah", (struct ibv_ah * ah))                         \
    X(wc_status_str, const char *, "ibv_wc_status_str", (enum ibv_wc_status status))   \
    X(event_type_str, const char *, "ibv_event_type_str", (enum ibv_event_type type))

/** Functions that newer libraries have; NULL when absent. */
#define MUCT_RDMA_VERBS_OPTIONAL(X)                                                    \
    X(query_gid_ex, int, "_ibv_query_gid_ex",                                          \
      (struct ibv_context * context, uint32_t port, uint32_t index,                    \
       struct ibv_gid_entry *entry, uint32_t flags, size_t size))                      \
    X(reg_mr_iova2, struct ibv_mr *, "ibv_reg_mr_iova2",                               \
      (struct ibv_pd * pd, void *addr, size_t length, uint64_t iova,                   \
       unsigned int access))                                                           \
    X(reg_dmabuf_mr, struct ibv_mr *, "ibv_reg_dmabuf_mr",                             \
      (struct ibv_pd * pd, uint64_t offset, size_t length, uint64_t iova, int fd,      \
       int access))                                                                    \
    X(query_ece, int, "ibv_query_ece", (struct ibv_qp * qp, struct ibv_ece * ece))     \
    X(set_ece, int, "ibv_set_ece", (struct ibv_qp * qp, struct ibv_ece * ece))         \
    X(fork_init, int, "ibv_fork_init", (void))                                         \
    X(is_fork_initialized, enum ibv_fork_status, "ibv_is_fork_initialized", (void))

#define MUCT_RDMA_VERBS_MEMBER(_member, _ret, _symbol, _args) _ret(*_member) _args;

/** The bound library. */
typedef struct muct_rdma_verbs {
    MUCT_RDMA_VERBS_REQUIRED(MUCT_RDMA_VERBS_MEMBER)
    MUCT_RDMA_VERBS_OPTIONAL(MUCT_RDMA_VERBS_MEMBER)
} muct_rdma_verbs_t;

/** Valid after @ref muct_rdma_verbs_load has returned UCS_OK. */
extern muct_rdma_verbs_t muct_rdma_verbs;

/**
 * Bind libibverbs.so.1; the first call decides, later ones repeat its answer.
 *
 * @return UCS_OK, or UCS_ERR_NO_DEVICE when the library or one of its required
 *         functions is missing; logged once, at debug level.
 */
ucs_status_t muct_rdma_verbs_load(void);

/**
 * Let the library keep registered memory out of child processes, where the kernel does
 * not do so. Call it before anything is registered; later calls change nothing.
 *
 * @return UCS_OK, or UCS_ERR_UNSUPPORTED, logged, when the mode is UCS_YES and the
 *         library cannot: other code of the process registered memory before.
 */
ucs_status_t muct_rdma_verbs_protect_fork(ucs_ternary_auto_value_t mode);

#endif
