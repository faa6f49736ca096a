/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A TCP port for a script: keep_port prints its number and keeps it until its standard
 * input ends, which is when the script does. A server that sets SO_REUSEADDR listens
 * there; no other program gets the port.
 */

#include "test/support/mkv_port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    unsigned port;
    char byte;
    int fd = mkv_port_keep(&port);

    if (fd < 0) {
        fprintf(stderr, "keep_port: no TCP port is to be had: %s\n", strerror(errno));
        return 1;
    }
    printf("%u\n", port);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
