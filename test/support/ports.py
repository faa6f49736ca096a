# SPDX-License-Identifier: BSD-3-Clause
"""TCP ports of this process, for servers that take a port number: see mkv_port.h."""

from __future__ import annotations

import socket

#: Sockets that are bound and do not listen; they live as long as this process.
kept: list[socket.socket] = []


def keep_ports(num: int = 1) -> int:
    """:return: the first of so many ports in a row. The system gives them to no other socket
    until this process ends. Servers that set SO_REUSEADDR, as ZeroMQ's and Python's HTTP
    servers do, can listen there."""
    for _ in range(100):
        row: list[socket.socket] = []
        try:
            for i in range(num):
                row.append(socket.socket())
                row[i].bind(("", row[0].getsockname()[1] + i if i else 0))
        except (OSError, OverflowError):  # the next one is in use, or there is none
            for probe in row:
                probe.close()
            continue
        for probe in row:  # after bind(): two that set it before would keep the same
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.extend(row)
        port: int = row[0].getsockname()[1]
        return port
    raise OSError(f"no {num} free TCP ports in a row were found in 100 attempts")
