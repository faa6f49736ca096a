/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/engine/channel.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "perf/base/interrupt.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
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

enum { PERF_MAX_ADDRESSES = 8 };

/* Address to listen on or connect to, of any family: all that a name resolves to. */
typedef struct perf_channel_address {
    struct sockaddr_storage storage;
    socklen_t length;
} perf_channel_address_t;

typedef struct perf_channel_place {
    const char *where;
    perf_channel_address_t addresses[PERF_MAX_ADDRESSES];
    unsigned num;
} perf_channel_place_t;


static int perf_channel_unix(const char *path, perf_channel_place_t *place)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&place->addresses[0].storage;

    if (strlen(path) >= sizeof(un->sun_path)) {
        perf_error("--peer '%s' is too long; expected a path of at most %zu bytes",
                   path, sizeof(un->sun_path) - 1);
        return -1;
    }

    memset(un, 0, sizeof(*un));
    un->sun_family = AF_UNIX;
    strcpy(un->sun_path, path);
    place->addresses[0].length = sizeof(*un);
    place->num = 1;
    return 0;
}

static int perf_channel_lookup(const char *host, const char *port, bool is_listen,
                               perf_channel_place_t *place)
{
    struct addrinfo hints = {0}, *found, *entry;
    int ret;

    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = is_listen ? AI_PASSIVE : 0;
    ret = getaddrinfo((host[0] == '\0') ? NULL : host, port, &hints, &found);
    if (ret != 0) {
        perf_error("--peer '%s' cannot be resolved: %s", place->where,
                   gai_strerror(ret));
        return -1;
    }
    for (entry = found; (entry != NULL) && (place->num < PERF_MAX_ADDRESSES);
         entry = entry->ai_next) {
        memcpy(&place->addresses[place->num].storage, entry->ai_addr,
               entry->ai_addrlen);
        place->addresses[place->num++].length = entry->ai_addrlen;
    }
    freeaddrinfo(found);
    return 0;
}

static int perf_channel_resolve(const char *where, bool is_listen,
                                perf_channel_place_t *place)
{
    const char *colon = strrchr(where, ':'), *first = where, *end = colon;
    char host[256];

    memset(place, 0, sizeof(*place));
    place->where = where;
    if (strchr(where, '/') != NULL) {
        return perf_channel_unix(where, place);
    }
    if ((colon != NULL) && (where[0] == '[') && (colon[-1] == ']')) {
        ++first;
        --end;
    }
    if ((colon == NULL) || (colon[1] == '\0') || ((colon == where) && !is_listen) ||
        (end < first) || ((size_t)(end - first) >= sizeof(host))) {
        perf_error(
            "--peer is '%s'; expected HOST:PORT, [ADDRESS]:PORT%s or a path with "
            "a slash",
            where, is_listen ? ", :PORT" : "");
        return -1;
    }
    snprintf(host, sizeof(host), "%.*s", (int)(end - first), first);
    return perf_channel_lookup(host, colon + 1, is_listen, place);
}

/* A socket that listens at one address, or -1 with errno. */
static int perf_channel_listen(const perf_channel_address_t *address)
{
    int one = 1, fd, error;

    fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (address->storage.ss_family != AF_UNIX) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    }
    if (address->storage.ss_family == AF_INET6) { /* IPv4 has a socket of its own */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    }
    if ((bind(fd, (const struct sockaddr *)&address->storage, address->length) != 0) ||
        (listen(fd, 1) != 0)) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int perf_channel_wait_for_one(struct pollfd *fds, unsigned num,
                                     const char *where, uint32_t timeout_s)
{
    int ret = poll(fds, num, (int)timeout_s * 1000), fd = -1;
    unsigned i;

    for (i = 0; (ret > 0) && (i < num) && (fd < 0); ++i) {
        fd = (fds[i].revents != 0) ? accept(fds[i].fd, NULL, NULL) : -1;
    }
    if (fd < 0) {
        perf_error("no process connected to --peer '%s' within %u s; expected one with "
                   "--role prefill and this address",
                   where, timeout_s);
    }
    return fd;
}

static int perf_channel_accept(const perf_channel_place_t *place, uint32_t timeout_s)
{
    const struct sockaddr_un *un =
        (const struct sockaddr_un *)&place->addresses[0].storage;
    struct pollfd fds[PERF_MAX_ADDRESSES];
    unsigned i, num = 0;
    int fd = -1;

    for (i = 0; i < place->num; ++i) {
        fds[num] = (struct pollfd){.fd = perf_channel_listen(&place->addresses[i]),
                                   .events = POLLIN};
        num += (fds[num].fd >= 0);
    }
    if (num == 0) {
        perf_error("listening at --peer '%s' failed: %m%s", place->where,
                   (un->sun_family == AF_UNIX)
                       ? "; remove it if no process listens there"
                       : "");
        return -1;
    }
    perf_note("waiting for prefill at --peer '%s', %u s", place->where, timeout_s);
    fd = perf_channel_wait_for_one(fds, num, place->where, timeout_s);
    for (i = 0; i < num; ++i) {
        close(fds[i].fd);
    }
    if (un->sun_family == AF_UNIX) {
        unlink(un->sun_path);
    }
    return fd;
}

/* Every address once; -1 with errno. */
static int perf_channel_try(const perf_channel_place_t *place)
{
    const perf_channel_address_t *address;
    int fd, error = EADDRNOTAVAIL;

    for (address = place->addresses; address < place->addresses + place->num;
         ++address) {
        fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            error = errno;
            continue;
        }
        if (connect(fd, (const struct sockaddr *)&address->storage, address->length) ==
            0) {
            return fd;
        }
        error = errno;
        close(fd);
    }
    errno = error;
    return -1;
}

static int perf_channel_connect(const perf_channel_place_t *place, uint32_t timeout_s)
{
    uint64_t start = perf_clock_ns(), note_ns = start + UINT64_C(1000000000);
    int fd;

    while ((fd = perf_channel_try(place)) < 0) {
        if (perf_clock_ns() > start + timeout_s * UINT64_C(1000000000)) {
            perf_error("--peer '%s' was not reached within %u s: %m", place->where,
                       timeout_s);
            return -1;
        }
        if (perf_is_interrupted) {
            return -1;
        }
        if (perf_clock_ns() > note_ns) {
            perf_note("decode is not at --peer '%s' yet: %m; trying for %u s",
                      place->where, timeout_s);
            note_ns = UINT64_MAX;
        }
        usleep(50000); /* the other side may start later */
    }
    return fd;
}

int perf_channel_open(const char *where, bool is_listen, uint32_t timeout_s,
                      perf_channel_t *channel)
{
    perf_channel_place_t place;

    if (perf_channel_resolve(where, is_listen, &place) != 0) {
        return -1;
    }

    channel->timeout_s = timeout_s;
    channel->name = is_listen ? "prefill" : "decode";
    channel->fd = is_listen ? perf_channel_accept(&place, timeout_s)
                            : perf_channel_connect(&place, timeout_s);
    return (channel->fd < 0) ? -1 : 0;
}

/* A message without bytes, without waiting. @return As send(2). */
static ssize_t perf_channel_send_empty(perf_channel_t *channel,
                                       const perf_channel_header_t *header)
{
    return send(channel->fd, header, sizeof(*header), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void perf_channel_notify_error(perf_channel_t *channel)
{
    const perf_channel_header_t header = {PERF_CHANNEL_ERROR, 0};

    (void)perf_channel_send_empty(channel, &header);
}

static bool perf_channel_drop(perf_channel_t *channel, size_t length)
{
    char bytes[256];
    ssize_t part = 1;

    while ((length > 0) && (part > 0)) {
        part = recv(channel->fd, bytes,
                    (length < sizeof(bytes)) ? length : sizeof(bytes), 0);
        length -= (part > 0) ? (size_t)part : 0;
    }
    return length == 0;
}

bool perf_channel_is_error(perf_channel_t *channel, int wait_ms)
{
    uint64_t deadline = perf_clock_ns() + (uint64_t)wait_ms * 1000000;
    struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
    perf_channel_header_t header;
    uint64_t now;

    while (poll(&pfd, 1, wait_ms) == 1) {
        if (recv(channel->fd, &header, sizeof(header), MSG_WAITALL) !=
            (ssize_t)sizeof(header)) {
            return false; /* it has ended */
        }
        if (header.type == PERF_CHANNEL_ERROR) {
            return true;
        }
        if (!perf_channel_drop(channel, header.length)) {
            return false;
        }
        now = perf_clock_ns();
        wait_ms = (now < deadline) ? (int)((deadline - now) / 1000000) : 0;
    }
    return false;
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

void perf_channel_notify_progress(perf_channel_t *channel)
{
    const perf_channel_header_t header = {PERF_CHANNEL_GOING, 0};
    ssize_t n = perf_channel_send_empty(channel, &header);

    if ((n > 0) && ((size_t)n < sizeof(header))) { /* a message arrives whole */
        (void)perf_channel_write(channel, (const char *)&header + n,
                                 sizeof(header) - (size_t)n);
    }
}

/* Wait for at least one byte; -1 when silence became too long. */
static int perf_channel_wait(perf_channel_t *channel, perf_idle_t idle, void *arg)
{
    uint64_t deadline = perf_clock_ns() + channel->timeout_s * UINT64_C(1000000000);
    struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
    unsigned i;

    for (;;) {
        /* an idle function works for other processes: poll rarely and never sleep */
        if (poll(&pfd, 1, (idle != NULL) ? 0 : 1000) == 1) {
            return 0;
        }
        for (i = 0; (idle != NULL) && (i < 64); ++i) {
            idle(arg);
        }
        if (perf_is_interrupted && !channel->is_last) {
            return -1;
        }
        if (perf_clock_ns() > deadline) {
            perf_error("the %s process sent nothing for %u s; see --timeout",
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

    do {
        if (perf_channel_read(channel, &header, sizeof(header), idle, arg) != 0) {
            return -1;
        }
    } while (header.type == PERF_CHANNEL_GOING);

    if (header.type == PERF_CHANNEL_ERROR) {
        perf_message_silence();
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
