/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/channel.h"
#include "perf/workload/clock.h"
#include "perf/workload/error.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>


typedef struct perf_channel_header {
    uint32_t type;
    uint32_t length;
} perf_channel_header_t;

/* Where to listen or connect, of whatever family. */
typedef struct perf_channel_address {
    struct sockaddr_storage storage;
    socklen_t length;
} perf_channel_address_t;


static int perf_channel_unix(const char *path, perf_channel_address_t *address)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&address->storage;

    if (strlen(path) >= sizeof(un->sun_path)) {
        perf_error("--peer '%s' is too long; expected a path of at most %zu bytes",
                   path, sizeof(un->sun_path) - 1);
        return -1;
    }

    memset(un, 0, sizeof(*un));
    un->sun_family = AF_UNIX;
    strcpy(un->sun_path, path);
    address->length = sizeof(*un);
    return 0;
}

static int perf_channel_resolve(const char *where, bool is_listen,
                                perf_channel_address_t *address)
{
    const char *colon = strrchr(where, ':');
    struct addrinfo hints = {0}, *found;
    char host[256];
    int ret;

    if (strchr(where, '/') != NULL) {
        return perf_channel_unix(where, address);
    }
    if ((colon == NULL) || (colon[1] == '\0') || ((colon == where) && !is_listen) ||
        ((size_t)(colon - where) >= sizeof(host))) {
        perf_error("--peer is '%s'; expected HOST:PORT%s or a path with a slash", where,
                   is_listen ? ", :PORT" : "");
        return -1;
    }

    snprintf(host, sizeof(host), "%.*s", (int)(colon - where), where);
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = is_listen ? AI_PASSIVE : 0;
    ret = getaddrinfo((host[0] == '\0') ? NULL : host, colon + 1, &hints, &found);
    if (ret != 0) {
        perf_error("--peer '%s' cannot be resolved: %s", where, gai_strerror(ret));
        return -1;
    }

    memcpy(&address->storage, found->ai_addr, found->ai_addrlen);
    address->length = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

static int perf_channel_accept(const char *where, const perf_channel_address_t *address,
                               uint32_t timeout_s)
{
    struct pollfd pfd = {.events = POLLIN};
    int one = 1, fd = -1, ret;

    pfd.fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (pfd.fd < 0) {
        perf_error("socket for --peer '%s' failed: %m", where);
        return -1;
    }

    if (address->storage.ss_family != AF_UNIX) {
        setsockopt(pfd.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    }
    if ((bind(pfd.fd, (const struct sockaddr *)&address->storage, address->length) !=
         0) ||
        (listen(pfd.fd, 1) != 0)) {
        perf_error("listening at --peer '%s' failed: %m", where);
        goto out;
    }

    ret = poll(&pfd, 1, (int)timeout_s * 1000);
    fd = (ret == 1) ? accept(pfd.fd, NULL, NULL) : -1;
    if (fd < 0) {
        perf_error("nobody came to --peer '%s' within %u s", where, timeout_s);
    }
    if (address->storage.ss_family == AF_UNIX) {
        unlink(((const struct sockaddr_un *)&address->storage)->sun_path);
    }

out:
    close(pfd.fd);
    return fd;
}

static int perf_channel_connect(const char *where,
                                const perf_channel_address_t *address,
                                uint32_t timeout_s)
{
    uint64_t deadline = perf_clock_ns() + timeout_s * UINT64_C(1000000000);
    int fd, error;

    do {
        fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            perf_error("socket for --peer '%s' failed: %m", where);
            return -1;
        }
        if (connect(fd, (const struct sockaddr *)&address->storage, address->length) ==
            0) {
            return fd;
        }
        error = errno;
        close(fd);
        usleep(50000); /* the other side may start later */
    } while (perf_clock_ns() < deadline);

    perf_error("--peer '%s' was not reached within %u s: %s", where, timeout_s,
               strerror(error));
    return -1;
}

int perf_channel_open(const char *where, bool is_listen, uint32_t timeout_s,
                      perf_channel_t *channel)
{
    perf_channel_address_t address;

    if (perf_channel_resolve(where, is_listen, &address) != 0) {
        return -1;
    }

    channel->timeout_s = timeout_s;
    channel->name = is_listen ? "prefill" : "decode";
    channel->fd = is_listen ? perf_channel_accept(where, &address, timeout_s)
                            : perf_channel_connect(where, &address, timeout_s);
    return (channel->fd < 0) ? -1 : 0;
}

void perf_channel_close(perf_channel_t *channel)
{
    close(channel->fd);
}

static int perf_channel_write(perf_channel_t *channel, const void *buffer,
                              size_t length)
{
    const char *p = buffer;
    ssize_t n;

    while (length > 0) {
        n = send(channel->fd, p, length, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            perf_error("the %s process is gone: %m", channel->name);
            return -1;
        }
        p += n;
        length -= (size_t)n;
    }
    return 0;
}

int perf_channel_send(perf_channel_t *channel, perf_channel_type_t type,
                      const void *buffer, size_t length)
{
    perf_channel_header_t header = {(uint32_t)type, (uint32_t)length};

    if (perf_channel_write(channel, &header, sizeof(header)) != 0) {
        return -1;
    }
    return perf_channel_write(channel, buffer, length);
}

/* Wait for at least one byte; -1 when silence became too long. */
static int perf_channel_wait(perf_channel_t *channel, perf_idle_t idle, void *arg)
{
    uint64_t deadline = perf_clock_ns() + channel->timeout_s * UINT64_C(1000000000);
    struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
    unsigned i;

    for (;;) {
        /* an idle function is work for somebody: then look seldom and never sleep */
        if (poll(&pfd, 1, (idle != NULL) ? 0 : 1000) == 1) {
            return 0;
        }
        for (i = 0; (idle != NULL) && (i < 64); ++i) {
            idle(arg);
        }
        if (perf_clock_ns() > deadline) {
            perf_error("the %s process said nothing for %u s; see --timeout",
                       channel->name, channel->timeout_s);
            return -1;
        }
    }
}

static int perf_channel_read(perf_channel_t *channel, void *buffer, size_t length,
                             perf_idle_t idle, void *arg)
{
    char *p = buffer;
    ssize_t n;

    while (length > 0) {
        if (perf_channel_wait(channel, idle, arg) != 0) {
            return -1;
        }
        n = recv(channel->fd, p, length, MSG_DONTWAIT);
        if ((n < 0) && ((errno == EINTR) || (errno == EAGAIN))) {
            continue;
        }
        if (n <= 0) {
            perf_error("the %s process ended too early%s%s", channel->name,
                       (n < 0) ? ": " : "", (n < 0) ? strerror(errno) : "");
            return -1;
        }
        p += n;
        length -= (size_t)n;
    }
    return 0;
}

int perf_channel_recv(perf_channel_t *channel, perf_channel_type_t type, void *buffer,
                      size_t max, size_t *length_p, perf_idle_t idle, void *arg)
{
    perf_channel_header_t header;

    if (perf_channel_read(channel, &header, sizeof(header), idle, arg) != 0) {
        return -1;
    }

    if ((header.type != (uint32_t)type) || (header.length > max) ||
        ((length_p == NULL) && (header.length != max))) {
        perf_error(
            "the %s process sent message 0x%x of %u bytes; expected 0x%x of %s%zu "
            "bytes; is it the same build?",
            channel->name, header.type, header.length, (unsigned)type,
            (length_p == NULL) ? "" : "up to ", max);
        return -1;
    }

    if (length_p != NULL) {
        *length_p = header.length;
    }
    return perf_channel_read(channel, buffer, header.length, idle, arg);
}
