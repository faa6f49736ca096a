# SPDX-License-Identifier: BSD-3-Clause
"""Figures for Prometheus: of transfers, under the names that vLLM's NixlConnector exports, so
that dashboards and alerts stay as they are; and the library's own counters and paths.

    with metrics.Endpoint(engine.metrics, port=9400):    # GET /metrics
        ...
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ._library import lib
from .context import Context

_TIMES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
_SIZES = tuple(2.0**power for power in range(11, 35, 2))
_COUNTS = (10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10000, 20000, 50000)
_HISTOGRAMS = {
    "vllm:nixl_xfer_time_seconds": ("From the call until it was quiet", _TIMES[1:]),
    "vllm:nixl_post_time_seconds": ("In the call", _TIMES),
    "vllm:nixl_bytes_transferred": ("Bytes of a transfer", _SIZES),
    "vllm:nixl_num_descriptors": ("Pieces of a transfer, neighbours being one", _COUNTS),
}
_COUNTERS = {
    "vllm:nixl_num_failed_transfers": "Transfers that failed, or could not be posted",
    "vllm:nixl_num_failed_notifications": "Always 0: notes are sent again, or fail a transfer",
    "vllm:nixl_num_kv_expired_reqs": "Requests that no reader fetched in time",
    "vllm:nixl_num_notifications_after_expiry": "Readers that came too late, and were refused",
}
#: Members of mkv_stats_t that go up and down; the others only grow.
_GAUGES: tuple[str, ...] = ("xfers_open", "inflight_ops", "inflight_bytes", "queued_posts")
_GAUGES += ("num_memh", "num_regions", "num_peers", "quarantined_xfers")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.total = bounds, 0.0
        self.counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def _labels(labels: Mapping[str, object]) -> str:
    def escaped(value: object) -> str:
        return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    inside = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


class Transfers:
    """Figures of transfers. Any thread.

    :param labels: of each figure, such as ``engine``.
    """

    def __init__(self, labels: Mapping[str, object] | None = None) -> None:
        self._labels = dict(labels or {})
        self._lock = threading.Lock()
        self._histograms = {name: _Histogram(kind[1]) for name, kind in _HISTOGRAMS.items()}
        self._counters = dict.fromkeys(_COUNTERS, 0)

    def done(self, seconds: float, post_seconds: float, size: int, pieces: int) -> None:
        with self._lock:
            for histogram, value in zip(
                self._histograms.values(), (seconds, post_seconds, size, pieces)
            ):
                histogram.add(value)

    def count(self, name: str = "vllm:nixl_num_failed_transfers") -> None:
        with self._lock:
            self._counters[name] += 1

    def lines(self) -> Iterable[str]:
        with self._lock:
            for name, histogram in self._histograms.items():
                yield from self._histogram_lines(name, histogram)
            for name, value in self._counters.items():
                yield f"# HELP {name}_total {_COUNTERS[name]}"
                yield f"# TYPE {name}_total counter"
                yield f"{name}_total{_labels(self._labels)} {value}"

    def _histogram_lines(self, name: str, histogram: _Histogram) -> Iterable[str]:
        yield f"# HELP {name} {_HISTOGRAMS[name][0]}"
        yield f"# TYPE {name} histogram"
        below = 0
        for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts):
            below += count
            yield f"{name}_bucket{_labels(self._labels | {'le': bound})} {below}"
        yield f"{name}_sum{_labels(self._labels)} {histogram.total}"
        yield f"{name}_count{_labels(self._labels)} {below}"


def context_lines(context: Context, labels: Mapping[str, object]) -> Iterable[str]:
    """Counters of the library, and for each peer the transports of its data."""
    for name, value in context.stats().items():
        if isinstance(value, int):
            kind = "gauge" if name in _GAUGES else "counter"
            told = f"morikv_{name}" + ("_total" if kind == "counter" else "")
            yield f"# TYPE {told} {kind}"
            yield f"{told}{_labels(labels)} {value}"
    yield "# HELP morikv_peer_up Whether a peer is connected, and what UCX took so far"
    yield "# TYPE morikv_peer_up gauge"
    for peer in context.peers():
        info = peer.query()
        of_peer = {"peer": info.name, "backend": info.backend.name, "paths": info.paths}
        told = _labels({**labels, **of_peer})
        yield f"morikv_peer_up{told} {int(info.state == lib.MKV_PEER_READY)}"


class Endpoint:
    """A text endpoint for Prometheus, ``/metrics``, in a thread of its own.

    :param text: called for each scrape.
    :param port: 0: any that is free; see :attr:`port`.
    :raises OSError: the address is taken.
    """

    def __init__(
        self, text: Callable[[], str], port: int = 0, host: str = "127.0.0.1"
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # noqa: N802
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "expected /metrics")
                    return
                body = text().encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: Any) -> None:
                """Scrapes are no news."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="morikv-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_arguments: object) -> None:
        self.close()
