/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_SIDE_H
#define CT_SIDE_H

/**
 * @file
 * An end of a test connection: memory domain, worker and interface of a transport found
 * by name, and memory registered with it.
 *
 * Functions report a failure as a status and a text in the side's `why`, never by a
 * failed check: the other end runs them in a process outside of Check.
 *
 * Threads. A side is used by one thread.
 */

#include "test/support/ct_uct.h"

#include <stdint.h>
#include <ucs/async/async_fwd.h>


/**
 * Let UCX find the built module unless UCX_PLUGIN_PATH names another, and load it once
 * for all forked cases. Call this before any other function. The build folder is the
 * current one or MKV_BUILD_DIR. It opens no device and no GPU runtime.
 */
void ct_side_find_module(void);


/** Which transport and device a run tests. */
typedef struct ct_target_name {
    const char *tl_name;
    const char *dev_name;      /**< NULL for the first one */
    const char *peer_dev_name; /**< Process id of the peer; NULL for the same process */
} ct_target_name_t;


/** Receives what the interface reports. */
typedef struct ct_side_events {
    unsigned num_ep_errors; /**< Calls of the error handler */
    ucs_status_t ep_status; /**< Id of the last message */
    uct_ep_h ep;            /**< Length of the last message */
    unsigned num_async;     /**< Calls of the asynchronous event handler */
} ct_side_events_t;


typedef struct ct_side {
    uct_component_h component;
    uct_md_h md;
    uct_md_attr_t md_attr;
    ucs_async_context_t *async;
    uct_worker_h worker;
    uct_iface_h iface;
    uct_iface_attr_t attr;
    uint64_t v2_flags;  /**< CT_V2_* the interface claims */
    size_t max_put_sgl; /**< 0 without CT_V2_PUT_SGL */
    size_t max_get_sgl;
    ct_side_events_t events;
    unsigned num_empty; /**< Progress that found nothing, in a row */
    int is_beside;      /**< The worker is another side's */
    char dev_name[UCT_DEVICE_NAME_MAX];
    char why[512];
} ct_side_t;

/** Alignment of received data for interfaces that are opened later: @a offset bytes of
 * it lie before a multiple of @a alignment; an alignment of 0 requests nothing. */
void ct_side_set_alignment(size_t alignment, size_t offset);


typedef enum ct_mem_how {
    CT_MEM_NONE,
    CT_MEM_REGISTERED, /**< Allocated here, registered with the domain if it can */
    CT_MEM_FROM_MD     /**< The domain takes only memory of its own */
} ct_mem_how_t;


/** Memory usable for zero-copy and, by its packed key, by the other end. */
typedef struct ct_mem {
    void *addr;
    size_t length;
    ucs_memory_type_t type;
    uct_mem_h memh;
    ct_mem_how_t how;
    int fd; /**< Of host memory */
    uct_allocated_memory_t from_md;
} ct_mem_t;


/**
 * Open the named transport.
 *
 * @return UCS_OK            The side is ready; close it.
 * @return UCS_ERR_NO_DEVICE No component offers that transport on that device.
 */
ucs_status_t ct_side_open(ct_side_t *side, const ct_target_name_t *name);

/** The same, by the worker of side @a of, which is closed after this one. */
ucs_status_t ct_side_open_beside(ct_side_t *side, const ct_target_name_t *name,
                                 const ct_side_t *of);

void ct_side_close(ct_side_t *side);

/** @return Nonzero if memory of this type can be made and given to the domain. */
int ct_side_can_use(ct_side_t *side, ucs_memory_type_t type);

/**
 * Progress; yield the processor to the other end when there is no event.
 *
 * @return Number of events, as UCX counts them.
 */
unsigned ct_side_progress(ct_side_t *side);

/**
 * Progress until the condition holds.
 *
 * @return Nonzero if it holds, 0 after the common limit.
 */
int ct_side_wait(ct_side_t *side, int (*is_done)(void *arg), void *arg);


/** Pack the addresses of an end's interface and endpoint one after the other, as bytes
 * for the other process. */
typedef struct ct_addr {
    uint16_t dev_length;
    uint16_t iface_length;
    uint16_t ep_length;
    uint8_t bytes[2040]; /**< Far more than any has */
} ct_addr_t;

/** Fill device and interface address, and the endpoint's if @a ep is not NULL. */
ucs_status_t ct_addr_get(const ct_side_t *side, uct_ep_h ep, ct_addr_t *addr);

const uct_device_addr_t *ct_addr_dev(const ct_addr_t *addr);
const uct_iface_addr_t *ct_addr_iface(const ct_addr_t *addr);
const uct_ep_addr_t *ct_addr_ep(const ct_addr_t *addr);

/** Create an endpoint: connected if @a addr is given, to be connected if NULL. */
ucs_status_t ct_ep_create(const ct_side_t *side, const ct_addr_t *addr, uct_ep_h *ep_p);


/**
 * Allocate and register memory.
 *
 * @return UCS_OK, or the status of the failed call.
 */
ucs_status_t ct_mem_create(ct_side_t *side, size_t length, ucs_memory_type_t type,
                           ct_mem_t *mem);

/** Deregister and free; nothing for memory that was never created. */
void ct_mem_destroy(ct_side_t *side, ct_mem_t *mem);

/**
 * Register memory whose handle was deregistered before.
 *
 * @return Status of the domain.
 */
ucs_status_t ct_mem_register(ct_side_t *side, ct_mem_t *mem);

/**
 * Pack the key the other end needs.
 *
 * @param [in]  pack_flags  CT_PACK_*.
 * @param [out] key         At least md_attr.rkey_packed_size bytes; untouched if
 *                          the domain needs no keys.
 */
ucs_status_t ct_mem_pack(ct_side_t *side, const ct_mem_t *mem, unsigned pack_flags,
                         void *key);

/** Copy bytes into memory of any type; returns nonzero on success. */
int ct_mem_write(const ct_mem_t *mem, size_t offset, const void *from, size_t length);

/** Copy bytes out of memory of any type; returns nonzero on success. */
int ct_mem_read(const ct_mem_t *mem, size_t offset, void *to, size_t length);

/** Fill a part of the memory with a pattern; nonzero on success. */
int ct_mem_fill(const ct_mem_t *mem, size_t offset, size_t length, uint64_t seed,
                uint64_t pattern_offset);

/**
 * Compare a part of the memory with a pattern.
 *
 * @return Offset inside the part of the first byte that differs, @a length if
 *         none does.
 */
size_t ct_mem_check(const ct_mem_t *mem, size_t offset, size_t length, uint64_t seed,
                    uint64_t pattern_offset);

/** Hash of a part, the same on both ends; 0 if it cannot be read. */
uint64_t ct_mem_hash(const ct_mem_t *mem, size_t offset, size_t length);

/** The same hash of plain bytes. */
uint64_t ct_hash(const void *buffer, size_t length);

#endif
