# SPDX-License-Identifier: BSD-3-Clause
"""Live view of a process that has a :class:`morikv.metrics.Endpoint`, a line each period, as
vmstat prints them. It needs neither libmorikv nor UCX.
"""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator, Mapping

Figures = Mapping[str, float]

_TITLE = f"{'written GB/s':>12} {'read GB/s':>10} {'ended':>8} {'failed':>7} {'in flight MB':>13}"


def scrape(url: str) -> Figures:
    """:raises OSError: the endpoint does not answer. :raises ValueError: it has other figures."""
    with urllib.request.urlopen(url, timeout=60) as reply:
        text = reply.read().decode(errors="replace")
    figures: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith(("morikv_", "vllm:")):
            name, _, value = line.rpartition(" ")
            figures[name] = float(value)
    if not figures:
        raise ValueError("it has no figures of morikv; expected the address of a morikv.metrics.Endpoint")
    return figures


def _sum(figures: Figures, name: str) -> float:
    return sum(value for key, value in figures.items() if key.partition("{")[0] == name)


def lines(before: Figures, now: Figures, seconds: float) -> Iterator[str]:
    """Format the figures of this period as one line, then a line for each peer that became slow."""

    def grown(name: str) -> float:
        # a restarted process counts from zero
        return max(_sum(now, name) - _sum(before, name), 0)

    yield (
        f"{grown('morikv_bytes_written_total') / seconds / 1e9:12.3f} "
        f"{grown('morikv_bytes_read_total') / seconds / 1e9:10.3f} "
        f"{grown('vllm:nixl_xfer_time_seconds_count'):8.0f} {grown('vllm:nixl_num_failed_transfers_total'):7.0f} "
        f"{_sum(now, 'morikv_inflight_bytes') / 1e6:13.1f}"
    )
    for name in now:
        slow = re.match(r'morikv_peer_slow\{.*peer="(.*?)",reason="(\w+)"', name)
        if slow and name not in before:
            yield f"peer {slow[1]} is slow: {slow[2]}"


def view(url: str, seconds: float, count: int) -> Iterator[str]:
    """:param count: of periods; 0 has no end."""
    before, start, number = scrape(url), time.monotonic(), 0
    known: Figures = {name: value for name, value in before.items() if "_peer_slow" not in name}
    yield _TITLE
    while not count or number < count:
        time.sleep(seconds)
        now, end = scrape(url), time.monotonic()
        yield from lines(known, now, end - start)
        known, start, number = now, end, number + 1
