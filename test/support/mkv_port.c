/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_port.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>


/* Serve both families by one socket, or IPv4 alone where the kernel has no IPv6. */
static int mkv_port_bind(int family, struct sockaddr_in6 *addr)
{
    socklen_t length = sizeof(*addr);
    int zero = 0, error, fd;

    fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    memset(addr, 0, sizeof(*addr));
    addr->sin6_family = (sa_family_t)family;
    if (family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    }
    if ((bind(fd, (struct sockaddr *)addr, sizeof(*addr)) == 0) &&
        (getsockname(fd, (struct sockaddr *)addr, &length) == 0)) {
        return fd;
    }
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

int mkv_port_keep(unsigned *port)
{
    struct sockaddr_in6 addr;
    int fd, one = 1;

    fd = mkv_port_bind(AF_INET6, &addr);
    if (fd < 0) {
        fd = mkv_port_bind(AF_INET, &addr);
    }
    if (fd >= 0) {
        /* not before: bound so, two would keep the same */
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        *port = ntohs(addr.sin6_port); /* where IPv4 has it as well */
    }
    return fd;
}
