/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_CHANNEL_H
#define PERF_CHANNEL_H

/**
 * @file
 * Messages between two processes of one run, beside UCX: addresses, barriers, results.
 *
 * A message has a type and bytes and arrives whole and in order. Both ends are the same
 * build on machines of one byte order; the first message proves it. A wait for a
 * message lets UCX progress, or the other side could never finish.
 *
 * Threads. One thread per channel.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


typedef struct perf_channel {
    int fd;
    uint32_t timeout_s; /**< Longest silence before a wait is an error */
    const char *name;   /**< Name of the other process, for messages */
    bool is_last;       /**< SIGINT does not end waits: only results are missing */
} perf_channel_t;

/** Type of a message between processes; a wait is for one certain type. */
typedef enum perf_channel_type {
    PERF_CHANNEL_AGREEMENT = 0x6b760001,
    PERF_CHANNEL_ADDRESS,
    PERF_CHANNEL_READY,
    PERF_CHANNEL_START,
    PERF_CHANNEL_RESULT,
    PERF_CHANNEL_GOING, /**< The sender makes progress; no process waits for this */
    PERF_CHANNEL_ERROR, /**< The sender printed an error; no process waits for this */
    PERF_CHANNEL_LAST
} perf_channel_type_t;

/** Called again and again during a wait. */
typedef void (*perf_idle_t)(void *arg);


/**
 * Connect to the other process of a run over two hosts.
 *
 * @param [in]  where       "HOST:PORT", "[ADDRESS]:PORT", ":PORT" (listening only: at
 *                          all addresses of both families), or a path that has a slash,
 *                          of a Unix socket. Every address of a name is tried.
 * @param [in]  is_listen   Listen for the other process, or connect to it; it may start
 *                          later.
 * @param [in]  timeout_s   Give up after this time.
 * @param [out] channel     To be closed by @ref perf_channel_close.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_channel_open(const char *where, bool is_listen, uint32_t timeout_s,
                      perf_channel_t *channel);

void perf_channel_close(perf_channel_t *channel);

/** Notify the other process that this process prints an error. */
void perf_channel_notify_error(perf_channel_t *channel);

/**
 * Whether the other process sent that notification, now or within @a wait_ms. Messages
 * that it sent before are dropped: the caller has failed and reads nothing more.
 */
bool perf_channel_is_error(perf_channel_t *channel, int wait_ms);

/** @return 0, or -1 after @ref perf_error (the other process is gone). */
int perf_channel_send(perf_channel_t *channel, perf_channel_type_t type,
                      const void *buffer, size_t length);

/**
 * Notify a waiting process that this process still makes progress. Never blocks: a full
 * socket already holds unread notifications.
 */
void perf_channel_notify_progress(perf_channel_t *channel);

/**
 * Wait for a message of a certain type; an error when the other process sends nothing
 * for the channel's timeout.
 *
 * @param [out] buffer    Receives it.
 * @param [in]  max       Room in buffer.
 * @param [out] length_p  Its length; NULL if it must be @a max.
 * @param [in]  idle      Called while waiting, or NULL.
 *
 * @return 0, or -1 after @ref perf_error (another type or length, the other process
 *         ended, or was silent for too long).
 */
int perf_channel_recv(perf_channel_t *channel, perf_channel_type_t type, void *buffer,
                      size_t max, size_t *length_p, perf_idle_t idle, void *arg);

#endif
