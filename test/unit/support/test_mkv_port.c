/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A reserved port: servers can listen on its number, and the system gives it to no
 * other program.
 */

#include "test/support/mkv_check.h"
#include "test/support/mkv_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* @return A server's socket, or -1 with errno set. */
static int serve(unsigned port, int is_reuse)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), error;

    ck_assert_int_ge(fd, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &is_reuse, sizeof(is_reuse));
    if ((bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0) &&
        (listen(fd, 1) == 0)) {
        return fd;
    }
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int connects(unsigned port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int status = connect(fd, (struct sockaddr *)&addr, sizeof(addr));

    close(fd);
    return status == 0;
}

START_TEST(servers_listen_on_a_kept_port)
{
    unsigned port, i;
    int kept = mkv_port_keep(&port), server;

    ck_assert_int_ge(kept, 0);
    ck_assert(!connects(port)); /* the holder alone does not listen */
    for (i = 0; i < 3; ++i) {
        server = serve(port, 1);
        ck_assert_msg(server >= 0, "server %u: %s", i, strerror(errno));
        ck_assert(connects(port));
        close(server);
    }
    close(kept);
}
END_TEST

/* TS-13 */
START_TEST(a_kept_port_is_not_given_to_others)
{
    enum { NUM = 64 };
    unsigned port, ports[NUM], i, j;
    int kept[NUM], server;

    for (i = 0; i < NUM; ++i) {
        kept[i] = mkv_port_keep(&ports[i]);
        ck_assert_msg(kept[i] >= 0, "%u: %s", i, strerror(errno));
        for (j = 0; j < i; ++j) {
            ck_assert_uint_ne(ports[i], ports[j]);
        }
    }
    port = ports[0];
    ck_assert_int_eq(serve(port, 0), -1);
    ck_assert_int_eq(errno, EADDRINUSE);
    server = serve(port, 1);
    ck_assert_int_ge(server, 0);
    ck_assert_int_eq(serve(port, 1), -1); /* the second one reports it */
    ck_assert_int_eq(errno, EADDRINUSE);
    close(server);
    for (i = 0; i < NUM; ++i) {
        close(kept[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mkv_port");
    TCase *tcase = tcase_create("port");

    tcase_add_test(tcase, servers_listen_on_a_kept_port);
    tcase_add_test(tcase, a_kept_port_is_not_given_to_others);
    suite_add_tcase(suite, tcase);
    return mkv_check_run(suite, CK_FORK_GETENV, CK_NORMAL);
}
