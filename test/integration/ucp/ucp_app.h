/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef UCP_APP_H
#define UCP_APP_H

/**
 * @file
 * The ends of a small UCP application for tests over an unmodified UCX: a server that
 * owns memory and a client that reads and writes it, endpoints in peer-failure mode, as
 * NIXL and libmorikv use them.
 *
 * The ends are programs of their own (ucp_app.c), so that each has its own environment
 * and devices, and a crash does not end the test. Each action prints one line on
 * standard output.
 *
 * Threads. One thread an end.
 */

#include <ucp/api/ucp.h>

#include <stddef.h>
#include <stdint.h>

#define UCP_APP_MAX_DATA 4096
#define UCP_APP_GREETING 1 /* Number of the active message */


/** Request of the client, or reply of the server. */
typedef struct ucp_app_msg {
    enum {
        UCP_APP_HELLO, /**< -> a: pid; data: worker address */
        UCP_APP_ALLOC, /**< length, is device memory -> address; data: packed key */
        UCP_APP_FREE,  /**< 1: the memory goes first, 0: in the right order */
        UCP_APP_FILL,  /**< length, seed */
        UCP_APP_CHECK, /**< length, seed -> bytes that are right */
        UCP_APP_CHECK_LARGE, /**< seed -> bytes of all memory that are right */
        UCP_APP_COPIED,      /**< -> a: result of mkv_hip_copied() */
        UCP_APP_GREETED,     /**< -> greetings that have come */
        UCP_APP_EXIT
    } cmd;
    int is_error;
    uint64_t a[2];
    size_t data_length;
    uint8_t data[UCP_APP_MAX_DATA];
} ucp_app_msg_t;


/** Memory registered with UCP, on the host or on a device. */
typedef struct ucp_app_mem {
    void *addr;
    size_t length;
    int is_device;
    ucp_mem_h memh;
} ucp_app_mem_t;


/** One end. */
typedef struct ucp_app {
    int fd; /**< Channel to the other end */
    uint64_t num_greetings;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_length;
} ucp_app_t;


/** Start UCP; prints the reason and returns the status on failure. */
ucs_status_t ucp_app_init(ucp_app_t *app, int fd);

void ucp_app_cleanup(ucp_app_t *app);

/** Allocate and map; prints the reason and returns the status on failure. */
ucs_status_t ucp_app_mem_create(ucp_app_t *app, size_t length, int is_device,
                                ucp_app_mem_t *mem);

/** Unmap and free; @a free_first frees the memory before it is unmapped. */
void ucp_app_mem_destroy(ucp_app_t *app, ucp_app_mem_t *mem, int free_first);

/** Fill a part with a part of a pattern; nonzero on success. */
int ucp_app_mem_fill(const ucp_app_mem_t *mem, size_t offset, size_t length,
                     uint64_t seed, uint64_t pattern_offset);

/**
 * @return Bytes from the start of the part that match the pattern.
 */
size_t ucp_app_mem_check(const ucp_app_mem_t *mem, size_t offset, size_t length,
                         uint64_t seed, uint64_t pattern_offset);

/**
 * Fill all device memory, however large, with a repeated pattern; its first copy is
 * the only one that takes memory on libhipcpu. Whole pages; nonzero on success.
 */
int ucp_app_mem_fill_large(const ucp_app_mem_t *mem, uint64_t seed);

/**
 * @return Bytes from the start that match ucp_app_mem_fill_large(); the piece
 *         of some MiB with the first wrong one does not count.
 */
size_t ucp_app_mem_check_large(const ucp_app_mem_t *mem, uint64_t seed);

/** Serve requests until the client sends its goodbye or is gone; exit status. */
int ucp_app_serve(ucp_app_t *app);

/** Do the actions of the command line; exit status. */
int ucp_app_act(ucp_app_t *app, int argc, char **argv);

#endif
