# SPDX-License-Identifier: BSD-3-Clause
"""TCP ports of our own, for servers that must be told one: see mkv_port.h."""

from __future__ import annotations

import socket

#: They live as long as this process: sockets that are bound and do not listen.
kept: list[socket.socket] = []


def keep_ports(num: int = 1) -> int:
    """:return: the first of so many ports in a row, which nobody else is given until this process
    ends. Servers that set SO_REUSEADDR, as ZeroMQ's and Python's HTTP servers do, listen there."""
    for _ in range(100):
        row: list[socket.socket] = []
        try:
            for i in range(num):
                row.append(socket.socket())
                row[i].bind(("", row[0].getsockname()[1] + i if i else 0))
        except (OSError, OverflowError):  # the next one is somebody's, or there is none
            for probe in row:
                probe.close()
            continue
        for probe in row:  # after bind(): two that set it before would keep the same
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.extend(row)
        port: int = row[0].getsockname()[1]
        return port
    raise OSError(f"no {num} free TCP ports in a row were found in 100 attempts")
