# SPDX-License-Identifier: BSD-3-Clause
"""Figures for Prometheus: of transfers, under the names that vLLM's NixlConnector exports, so
that dashboards and alerts stay as they are; and the library's own counters and paths.

    with metrics.Endpoint(engine.metrics, port=9400):    # GET /metrics
        ...

Where ``prometheus_client`` is installed, :class:`Collector` adds them to its registry instead.
"""

from __future__ import annotations

import importlib
import socket
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ._home import Home
from .context import Context
from .errors import InvalidError
from .model import Backend, PeerInfo, PeerState, Slow

_TIMES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
_SIZES = tuple(2.0**power for power in range(11, 35, 2))
_COUNTS = (10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10000, 20000, 50000)
_HISTOGRAMS = {
    "vllm:nixl_xfer_time_seconds": ("Time from the call until it was quiet", _TIMES[1:]),
    "vllm:nixl_post_time_seconds": ("Time in the call", _TIMES),
    "vllm:nixl_bytes_transferred": ("Bytes of a transfer", _SIZES),
    "vllm:nixl_num_descriptors": ("Pieces of a transfer", _COUNTS),
}
_COUNTERS = {
    "vllm:nixl_num_failed_transfers": "Transfers that failed, or could not be posted",
    "vllm:nixl_num_failed_notifications": "Always 0: notes are sent again, or fail a transfer",
    "vllm:nixl_num_kv_expired_reqs": "Requests whose blocks no reader requested in time",
    "vllm:nixl_num_notifications_after_expiry": "Readers that were refused after that time",
}
#: Members of mkv_stats_t that go up and down.
_GAUGES = {
    "xfers_open": "Transfers that are open",
    "inflight_ops": "Calls to UCX that are not complete",
    "inflight_bytes": "Bytes of these calls",
    "queued_posts": "Posts that wait for gates or credits",
    "num_memh": "Memory registrations",
    "num_regions": "Regions",
    "num_peers": "Peers",
    "quarantined_xfers": "Ended transfers whose blocks a peer may still touch",
    "blocks_held": "Blocks exposed here, of transfers that are not quiet",
}
#: Members that only grow.
_TOTALS = {
    "xfers_opened": "Transfers opened",
    "xfers_done": "Transfers that ended well",
    "xfers_failed": "Transfers that failed or were aborted",
    "bytes_written": "Bytes that puts of this side have completed",
    "bytes_read": "Bytes that gets of this side have completed",
    "elements_posted": "Pieces of memory posted",
    "elements_completed": "Pieces of memory completed",
    "ucp_calls": "Data operations given to UCX",
    "flushes": "Flushes given to UCX",
    "msgs_sent": "Messages sent",
    "msgs_received": "Messages received",
    "msgs_malformed": "Messages refused as malformed",
    "msgs_stale": "Messages for transfers that had ended",
    "msgs_early": "Messages that came before their transfer was open",
    "msgs_dropped": "Messages dropped",
    "hellos": "Connections made",
    "plans_created": "Plans created",
    "plan_posts": "Posts of plans",
    "lists_reused": "Lists given to UCX again as an earlier post built them",
    "lists_allocated": "Lists allocated",
    "pulls_sent": "Posts that the owner of the peer's memory was requested to move",
    "pulls_refused": "Such requests that calls of this side have replaced",
    "pulls_served": "Such requests of peers that were served",
    "bytes_pushed": "Bytes of these that have arrived",
}
_LATENCIES = {
    "expose_to_done": "Time from the first block list of a transfer to DONE",
    "event_to_poll": "Time from an event to the poll that takes it",
}
#: Transfers that are counted together: a single one costs a tenth of a small transfer.
_MAX_NEW = 1024
#: Time that a client of an endpoint may be silent, in seconds.
_CLIENT_S = 30.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, object]


@dataclass
class Family:
    """A metric with its samples: suffix of the name, labels, value."""

    name: str
    kind: str
    help: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    def add(self, labels: Labels, value: float, suffix: str = "") -> Family:
        self.samples.append((suffix, labels, value))
        return self

    def add_histogram(
        self, labels: Labels, bounds: Iterable[float], counts: Sequence[int], total: float | None
    ) -> Family:
        """:param counts: one for each bound, not cumulative, and one above all."""
        below = 0
        for bound, count in zip((*bounds, "+Inf"), counts):
            below += count
            self.add({**labels, "le": bound}, below, "_bucket")
        if total is not None:
            self.add(labels, total, "_sum")
        return self.add(labels, below, "_count")

    def lines(self) -> Iterator[str]:
        suffix = "_total" if self.kind == "counter" else ""
        yield f"# HELP {self.name}{suffix} {self.help}"
        yield f"# TYPE {self.name}{suffix} {self.kind}"
        for end, labels, value in self.samples:
            yield f"{self.name}{suffix}{end}{_labels(labels)} {value}"


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.total = bounds, 0.0
        self.counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def _labels(labels: Labels) -> str:
    def escaped(value: object) -> str:
        return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    inside = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


class Transfers:
    """Figures of transfers. Any thread.

    :param labels: of each figure, such as ``engine``.
    """

    def __init__(self, labels: Labels | None = None) -> None:
        self._labels = dict(labels or {})
        self._lock = threading.Lock()
        self._histograms = {name: _Histogram(kind[1]) for name, kind in _HISTOGRAMS.items()}
        self._counters = dict.fromkeys(_COUNTERS, 0)
        self._new: deque[tuple[float, float, int, int]] = deque()

    def done(self, seconds: float, post_seconds: float, size: int, pieces: int) -> None:
        self._new.append((seconds, post_seconds, size, pieces))
        if len(self._new) >= _MAX_NEW:
            with self._lock:
                self._count_new()

    def _count_new(self) -> None:
        while self._new:
            for histogram, value in zip(self._histograms.values(), self._new.popleft()):
                histogram.add(value)

    def count(self, name: str = "vllm:nixl_num_failed_transfers") -> None:
        with self._lock:
            self._counters[name] += 1

    def families(self) -> list[Family]:
        with self._lock:
            self._count_new()
            return [
                Family(name, "histogram", _HISTOGRAMS[name][0]).add_histogram(
                    self._labels, one.bounds, one.counts, one.total
                )
                for name, one in self._histograms.items()
            ] + [
                Family(name, "counter", _COUNTERS[name]).add(self._labels, value)
                for name, value in self._counters.items()
            ]


def _unique(names: Iterable[str]) -> Iterator[str]:
    """Names of peers may be cut to equal texts; a label must not occur twice."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}#{seen[name]}"


def _infos(context: Context) -> Iterator[PeerInfo]:
    for peer in context.peers():
        try:
            yield peer.query()
        except InvalidError:  # another thread has closed it
            pass


def _peer_families(context: Context, labels: Labels) -> list[Family]:
    up = Family("morikv_peer_up", "gauge", "Whether a peer is connected")
    path = Family("morikv_peer_path", "gauge", "1 for the slowest transport used to a peer so far")
    slow = Family("morikv_peer_slow", "gauge", "1 for the reason of a slow path of GPU memory")
    known = list(_infos(context))
    for name, info in zip(_unique(info.name for info in known), known):
        of_peer = {**labels, "peer": name}
        up.add(of_peer, int(info.state == PeerState.READY))
        if info.backend != Backend.UNKNOWN:
            path.add({**of_peer, "backend": info.backend.name.lower()}, 1)
        if info.slow != Slow.NO:
            slow.add({**of_peer, "reason": info.slow.name.lower()}, 1)
    return [up, path, slow]


def context_families(context: Context, labels: Labels | None = None) -> list[Family]:
    """The library's counters, and for each peer its transport and the reason of a slow path."""
    labels = labels or {}
    stats: dict[str, Any] = context.stats()
    gauges = [
        Family(f"morikv_{name}", "gauge", text).add(labels, stats[name])
        for name, text in _GAUGES.items()
    ]
    totals = [
        Family(f"morikv_{name}", "counter", text).add(labels, stats[name])
        for name, text in _TOTALS.items()
    ]
    latencies = []
    for name, text in _LATENCIES.items():
        # bucket i ends at 2^(i+1) ns; the last one has no end
        bounds = [2.0 ** (i + 1) / 1e9 for i in range(len(stats[name]) - 1)]
        one = Family(f"morikv_{name}_seconds", "histogram", text)
        latencies.append(one.add_histogram(labels, bounds, stats[name], None))
    return gauges + totals + latencies + _peer_families(context, labels)


def text(families: Iterable[Family]) -> str:
    """In the format that Prometheus reads."""
    return "".join(f"{line}\n" for family in families for line in family.lines())


class Collector:
    """Source for a registry of prometheus_client. Its server and other metrics stay in use.

    :param families: called for each scrape, such as ``engine.metric_families``.
    :param registry: default: prometheus_client's own.
    :raises ImportError: prometheus_client is not installed; :class:`Endpoint` needs no package.
    """

    def __init__(self, families: Callable[[], Iterable[Family]], registry: Any = None) -> None:
        self._core: Any = importlib.import_module("prometheus_client.core")
        self._families = families
        (registry or self._core.REGISTRY).register(self)

    def collect(self) -> Iterator[Any]:
        for family in self._families():
            metric = self._core.Metric(family.name, family.help, family.kind)
            for suffix, labels, value in family.samples:
                end = "_total" if family.kind == "counter" else suffix
                named = {name: str(label) for name, label in labels.items()}
                metric.add_sample(family.name + end, named, float(value))
            yield metric


class Endpoint:
    """A text endpoint for Prometheus, ``/metrics``, in a thread of its own.

    :param text: called for each scrape. An exception is an answer with status 503.
    :param port: 0: any that is free; see :attr:`port`.
    :param host: a name or an address of IPv4 or IPv6.
    :raises OSError: the address is taken.
    """

    def __init__(
        self, text: Callable[[], str], port: int = 0, host: str = "127.0.0.1"
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _CLIENT_S

            def do_GET(self) -> None:  # noqa: N802
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "expected /metrics")
                    return
                try:
                    body = text().encode()
                except Exception as error:  # the engine is closed, as a rule
                    self.send_error(503, explain=str(error))
                    return
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: Any) -> None:
                """Scrapes are not logged."""

        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)

        class Server(ThreadingHTTPServer):
            address_family = found[0][0]

        self._server = Server((host, port), Handler)
        self._server.daemon_threads = True
        self._home = Home("endpoint")
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="morikv-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """In a forked child, close its copy of the port; the parent keeps serving."""
        if self._home.is_here:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_arguments: object) -> None:
        self.close()
