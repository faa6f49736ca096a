# SPDX-License-Identifier: BSD-3-Clause
"""A worker's side: regions, peers and transfers. One thread takes the library's events."""

from __future__ import annotations

import atexit
import logging
import os
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import morikv
from morikv import Event, EventType, Map, Mode, Peer, PeerState, Role, Transfer, errors
from morikv._home import Lock
from morikv._library import lib
from morikv.listener import Listener

from .caches import Layout, data_types, fingerprint, groups_of
from .orders import Load, Orders
from .sides import Reader, Source, Target, pack_counts

logger = logging.getLogger("vllm.morikv")

_KEEP, _RELEASE = 1, 2
_ENDS = (EventType.FAILED, EventType.ABORTED)
_STATS: tuple[str, ...] = ("transfer_duration", "post_duration", "bytes_transferred")
_STATS += ("num_descriptors",)
_STATS += ("num_failed_transfers", "num_failed_notifications", "num_failed_handshakes")
_STATS += ("num_kv_expired_reqs", "num_notifications_after_expiry")
#: Interval at which to check whether a GPU has finished an awaited step, in ms.
_GATE_MS = 1
#: Most early requests of peers, and most reasons of given up transfers.
_MAX_REQUESTS = 4096


class Link:
    """A peer that loads come from."""

    def __init__(self, peer: Peer) -> None:
        # it may have connected to this side before, and no event follows then
        self.peer, self.is_ready = peer, peer.query().state == PeerState.READY
        self.waiting: list[Callable[[], None]] = []


class Worker:
    def __init__(self, config: Any, cache_config: Any, extra: dict[str, Any]) -> None:
        parallel = config.parallel_config
        others = parallel.pipeline_parallel_size, parallel.decode_context_parallel_size
        if max(*others, parallel.prefill_context_parallel_size) > 1:
            raise NotImplementedError(
                "MorikvConnector supports tensor parallelism alone; expected pipeline and context "
                "parallel sizes of 1"
            )
        self._size = parallel.tensor_parallel_size
        self._rank = parallel.rank % self._size
        self._groups = groups_of(cache_config)
        heads = config.model_config.get_total_num_kv_heads()
        num_blocks = cache_config.num_blocks
        self._layout = Layout(cache_config, num_blocks, heads, self._rank, self._size)
        self._num_blocks = num_blocks
        self._data_types = data_types(cache_config, config.cache_config.cache_dtype)
        #: Time that blocks wait for a reader, in seconds.
        self._lease_s = float(extra.get("lease_s", 120))
        options = {} if "MORIKV_PROGRESS_THREADS" in os.environ else {"PROGRESS_THREADS": "1"}
        self._context = morikv.Context(
            name=f"{config.kv_transfer_config.engine_id[:48]}-{self._rank}",
            topology=morikv.Topology(tp_rank=self._rank, tp_size=self._size),
            options=options | dict(extra.get("options", {})),
            page_tokens=self._groups[0].block_size,
            dtype=zlib.crc32(self._data_types.encode()) or 1,
            model=fingerprint(self._groups),
        )
        #: Group and number in it, of each layer.
        self._layers: dict[str, tuple[int, int]] = {}
        self._lock = Lock(self._context._owner.home)
        self._links: dict[str, Link] = {}
        self._maps: dict[tuple[Peer, Role], Map] = {}
        self._sources: dict[str, Source] = {}
        self._targets: dict[str, Target] = {}
        self._by_id: dict[int, Source] = {}
        self._readers: dict[Transfer, Reader] = {}
        #: Readers that came before the request, oldest first, and the time until which each is kept.
        self._requests: list[tuple[float, Event]] = []
        #: Transfers that were given up, for readers that come later.
        self._gone: OrderedDict[int, str] = OrderedDict()
        #: Whether one of the readers gets each layer when it is computed.
        self._has_writers = False
        self._orders = Orders()
        self._sent: set[str] = set()
        self._received: set[str] = set()
        self._failed: set[str] = set()
        self._stats: dict[str, list[float]] = {name: [] for name in _STATS}
        self._listener = Listener(self._context, self._round, "morikv")
        self._listener.start()
        atexit.register(self.close)  # an engine may end without shutdown()

    # ---- set-up ----

    def register(self, caches: dict[str, Any]) -> None:
        """Every layer's cache: its first dimension is blocks, each of which is dense."""
        for group in self._groups:
            addresses: set[int] = set()
            for name in group.layers:
                cache = caches[name]
                if cache.data_ptr() not in addresses:  # else layers that share one
                    self._layers[name] = group.component, len(addresses)
                    addresses.add(cache.data_ptr())
                    self._add_regions(name, cache)
        self._any_cache = next(iter(caches.values()))
        self._context.commit()

    def _add_regions(self, name: str, cache: Any) -> None:
        component, layer = self._layers[name]
        kind = morikv.memory.of(cache.new_empty(1)).mem_type
        for number, part in enumerate(self._layout.parts(name, cache)):
            length = part.unit_stride * (self._num_blocks - 1) + part.unit_bytes
            self._context.add_region(
                morikv.Memory(cache.data_ptr() + part.offset, length, kind, cache),
                component=component,
                layer=layer,
                part=number,
                unit_bytes=part.unit_bytes,
                unit_stride=part.unit_stride,
                n_units=self._num_blocks,
                tokens_per_unit=part.tokens,
                axis=part.axis,
            )

    def blob(self) -> str:
        return self._context.blob().hex()

    # ---- the engine's steps ----

    def preempt(self, orders: Orders) -> None:
        """Called before the step writes to any block, and before :meth:`begin`."""
        with self._lock:
            for request_id in orders.preempted:
                self._withdraw(request_id)

    def begin(self, orders: Orders) -> None:
        """Called before a step's forward."""
        with self._lock:
            self._orders = orders
            for request_id, step in orders.steps.items():
                if step.is_fresh:  # in other blocks than before
                    self._withdraw(request_id)
                source = self._sources.get(request_id)
                if source is None:
                    self._add_source(Source(request_id, step, self._groups))
                elif not step.is_fresh:
                    source.extend(step.new_blocks)
            for request_id, load in orders.loads.items():
                self._load(request_id, load)
            for request_id in orders.aborts:
                if request_id in self._targets:
                    self._targets[request_id].give_up("the request was aborted")
                    self._settle(self._targets[request_id])
            for request_id in orders.failures:
                self._fail(request_id)
            for request_id, is_complete in orders.ended.items():
                self._end(request_id, is_complete)
            for request_id, id in orders.drops.items():
                self._drop(request_id, id)
            for id, peers in orders.keeps:
                self._notify(_KEEP, id, peers, 0)
            for id, peers, more in orders.releases:
                self._notify(_RELEASE, id, peers, more)

    def on_layer(self, name: str, cache: Any) -> None:
        """A layer of this step has been launched (a GPU's) or computed.

        Only readers that prefill writes to use it then; others wait for the step's end.
        """
        if not self._has_writers or not self._orders.steps or name not in self._layers:
            return
        ready = _gate_of(cache)
        with self._lock:
            for request_id, step in self._orders.steps.items():
                source = self._sources[request_id]
                if source.readers:
                    source.on_layer(*self._layers[name], step.tokens)
                    source.ready = ready
                    self._pump(source)

    def on_step_end(self) -> None:
        """All layers are launched or computed, also those without an event."""
        if not self._orders.steps:
            return
        ready = _gate_of(self._any_cache)
        with self._lock:
            for request_id, step in self._orders.steps.items():
                source = self._sources[request_id]
                for component, layer in self._layers.values():
                    source.on_layer(component, layer, step.tokens)
                source.ready = ready
                self._pump(source)
            self._orders = Orders()
            if any(source.is_awaited for source in self._sources.values()):
                self._listener.wake()  # the thread checks whether that is computed

    def _pump(self, source: Source) -> None:
        for reader in source.readers:
            self._guarded(reader, reader.pump)

    def _pump_awaited(self) -> bool:
        """:return: whether readers still wait for what is being computed."""
        for source in list(self._sources.values()):
            if source.is_awaited:
                self._pump(source)
        return any(source.is_awaited for source in self._sources.values())

    def _guarded(self, side: Any, call: Callable[..., None], *arguments: Any) -> None:
        """An error ends this request alone; other requests continue."""
        try:
            call(*arguments)
        except Exception as error:
            if not isinstance(error, (errors.MorikvError, ValueError)):
                logger.exception("morikv: a transfer failed with an unexpected error")
            side.give_up(str(error) or repr(error))
            if isinstance(side, Reader):  # sources and targets report to the engine
                logger.warning("morikv: request %s: %s", side.source.request_id, error)
            self._settle(side)

    def take_results(self) -> tuple[set[str], set[str], set[str]]:
        """Requests that were sent, that were received or failed, and that failed."""
        with self._lock:
            results = self._sent, self._received, self._failed
            self._sent, self._received, self._failed = set(), set(), set()
            return results

    def take_stats(self) -> dict[str, list[float]]:
        with self._lock:
            stats, self._stats = self._stats, {name: [] for name in _STATS}
            return stats

    # ---- prefill ----

    def _add_source(self, source: Source) -> None:
        self._sources[source.request_id] = source
        other = self._by_id.get(source.id)
        if other is not None and other.request_id != source.request_id:
            source.error = f"id {source.id} is that of request {other.request_id}"
            logger.warning("morikv: request %s is not sent: %s", source.request_id, source.error)
            return
        self._by_id[source.id] = source
        self._gone.pop(source.id, None)
        self._take_requests(source)

    def _withdraw(self, request_id: str) -> None:
        """The engine has freed its blocks, and may compute it again in others: readers that
        come later wait for that."""
        source = self._sources.get(request_id)
        if source is None:
            return
        if source.readers or source.error:
            source.give_up("the request was preempted")
            return
        del self._sources[request_id]
        del self._by_id[source.id]

    def _end(self, request_id: str, is_complete: bool) -> None:
        source = self._sources.get(request_id)
        if source is None:
            self._sent.add(request_id)
            return
        source.deadline = time.monotonic() + self._lease_s
        self._listener.wake()  # the thread may sleep longer than that
        if not is_complete:
            source.give_up("the request was aborted")
        self._settle(source)

    def _drop(self, request_id: str, id: int) -> None:
        """The engine has dropped it: its blocks may belong to other requests."""
        source = self._sources.get(request_id)
        if source is not None:
            source.is_reported = False
            self._end(request_id, False)
        elif id not in self._by_id:
            self._give_up(id, "the request was aborted")

    def _give_up(self, id: int, why: str) -> None:
        """Readers that have come, or come later, are refused."""
        for event in self._requests_where(lambda event: event.id == id):
            self._refuse(event, why)
        self._gone[id] = why
        while len(self._gone) > _MAX_REQUESTS:
            self._gone.popitem(last=False)

    def _take_requests(self, source: Source) -> None:
        for event in self._requests_where(lambda event: event.id == source.id):
            self._serve(source, event)

    def _requests_where(self, is_wanted: Callable[[Event], bool]) -> list[Event]:
        """Take the early requests for which this holds."""
        taken = [event for _end, event in self._requests if is_wanted(event)]
        if taken:
            self._requests = [each for each in self._requests if not is_wanted(each[1])]
        return taken

    def _on_incoming(self, event: Event) -> None:
        source = self._by_id.get(event.id)
        if source is not None:
            self._serve(source, event)
        elif event.value == Mode.WRITE and event.id not in self._gone:  # prefill has not begun
            self._requests.append((time.monotonic() + self._lease_s, event))
            if len(self._requests) > _MAX_REQUESTS:
                self._refuse_one_of_the_most()
        else:
            self._stats["num_notifications_after_expiry"].append(1)
            self._refuse(event, self._gone.get(event.id, "its blocks are not held here, or no longer"))

    def _refuse_one_of_the_most(self) -> None:
        """Refuse the oldest early request of the peer that has the most of them."""
        peer = Counter(event.peer for _end, event in self._requests).most_common(1)[0][0]
        oldest = next(each for each in self._requests if each[1].peer is peer)
        self._requests.remove(oldest)
        self._refuse(oldest[1], f"{_MAX_REQUESTS} other requests wait for a prefill")

    def _refuse(self, event: Event, why: str) -> None:
        assert event.peer is not None
        try:
            event.peer.refuse(event.id, event.epoch, why)
        except errors.MorikvError:  # the peer has left, or has no such request any more
            pass

    def _serve(self, source: Source, event: Event) -> None:
        assert event.peer is not None
        if source.error or not source.admits(event.peer, event.data):
            self._refuse(event, source.error or "requested before")
            return
        mode = Mode(event.value)
        try:
            map = self._map(event.peer, Role.SRC)
            transfer = self._context.transfer(source.id, [map], mode, Role.SRC, event.epoch)
        except errors.MorikvError as error:  # the peer has left: another one may come
            logger.warning("morikv: request %s: %s", source.request_id, error)
            source.dismiss(event.peer)
            self._refuse(event, str(error))
            return
        reader = Reader(source, map, transfer)
        source.readers.append(reader)
        self._readers[transfer] = reader
        self._has_writers |= mode == Mode.WRITE
        logger.debug("morikv: serving %s, %s", source.request_id, mode.name)
        self._guarded(reader, reader.pump)

    def _map(self, peer: Peer, role: Role) -> Map:
        if (peer, role) not in self._maps:
            try:
                self._maps[peer, role] = peer.map(role=role)
            except errors.PairingError as error:
                if error.status != lib.MKV_ERR_DTYPE:
                    raise
                text = (
                    f"{error}. Here it stands for {self._data_types}; expected the same there: "
                    "start both engines with equal --dtype, --kv-cache-dtype, "
                    "--mamba-cache-dtype and --mamba-ssm-cache-dtype, without fp8 if their "
                    "GPUs have other formats of it"
                )
                raise errors.error(error.status, text) from None
        return self._maps[peer, role]

    def _expire(self) -> None:
        now = time.monotonic()
        while self._requests and self._requests[0][0] < now:
            self._refuse(self._requests.pop(0)[1], "no prefill of it began here in time")
        for source in list(self._sources.values()):
            if source.is_kept and source.deadline < now:
                logger.warning("morikv: no decode engine requested %s in time", source.request_id)
                self._stats["num_kv_expired_reqs"].append(1)
                source.expire()
                self._settle(source)

    # ---- decode ----

    def _blobs(self, peers: list[str]) -> list[str]:
        """Addresses of the ranks that this one exchanges data with: the same rank if
        sizes are equal; else all, as libmorikv determines which of them have data for it."""
        return [peers[self._rank]] if len(peers) == self._size else peers

    def _links_to(self, peers: list[str]) -> list[Link]:
        links = []
        for blob in self._blobs(peers):
            if blob not in self._links:
                self._links[blob] = Link(self._context.add_peer(bytes.fromhex(blob)))
            links.append(self._links[blob])
        return links

    @staticmethod
    def _must_wait(links: list[Link], again: Callable[[], None]) -> bool:
        """:return: whether one of them is not ready; ``again`` is called when it is ready."""
        for link in links:
            if not link.is_ready:
                link.waiting.append(again)
                return True
        return False

    def _load(self, request_id: str, load: Load) -> None:
        target = self._targets[request_id] = Target(request_id, load)
        self._guarded(target, self._open, target)

    def _open(self, target: Target) -> None:
        if target.error:
            self._settle(target)
            return
        links = self._links_to(target.load.peers)
        if not self._must_wait(links, lambda: self._guarded(target, self._open, target)):
            maps = [self._map(link.peer, Role.DST) for link in links]
            readers = 1 if len(target.load.peers) == self._size else self._size
            target.open(self._context, maps, pack_counts(readers, target.load.more))

    def _fail(self, request_id: str) -> None:
        """The scheduler has logged the reason."""
        self._received.add(request_id)
        self._failed.add(request_id)
        self._stats["num_failed_transfers"].append(1)

    def _notify(self, kind: int, id: int, peers: list[str], more: int) -> None:
        try:
            links = self._links_to(peers)
            if not self._must_wait(links, lambda: self._notify(kind, id, peers, more)):
                for link in links:
                    link.peer.send(id, kind, b"%d" % more)
        except (errors.MorikvError, ValueError) as error:
            self._stats["num_failed_notifications"].append(1)
            logger.warning("morikv: cannot notify a peer of request %d: %s", id, error)

    # ---- events ----

    def _on_event(self, event: Event) -> None:
        if event.type == EventType.PEER_READY:
            self._on_ready(event)
        elif event.type in (EventType.PEER_FAILED, EventType.PEER_CLOSED):
            self._on_peer_end(event)
        elif event.type == EventType.INCOMING:
            self._on_incoming(event)
        elif event.type == EventType.MSG:
            self._on_message(event)
        elif event.transfer is not None:
            self._on_transfer(event, self._side(event.transfer))

    def _side(self, transfer: Any) -> Reader | Target | None:
        if transfer in self._readers:
            return self._readers[transfer]
        return next((t for t in self._targets.values() if t.transfer is transfer), None)

    def _on_transfer(self, event: Event, side: Reader | Target | None) -> None:
        if side is None:
            return
        if event.type == EventType.EXPOSED:
            self._guarded(side, side.on_exposed, event)
        elif event.type in _ENDS:
            side.fail(event.text)
        elif event.type == EventType.QUIET:
            side.is_quiet = True
            self._settle(side)

    def _on_ready(self, event: Event) -> None:
        for link in list(self._links.values()):
            if link.peer is event.peer:
                link.is_ready = True
                waiting, link.waiting = link.waiting, []
                for call in waiting:
                    call()

    def _on_peer_end(self, event: Event) -> None:
        if event.peer is None:
            return
        for role in Role:
            self._maps.pop((event.peer, role), None)
        self._requests_where(lambda early: early.peer is event.peer)
        for blob, link in list(self._links.items()):
            if link.peer is event.peer:
                del self._links[blob]
                self._stats["num_failed_handshakes"] += [1] * (not link.is_ready)
        for target in list(self._targets.values()):
            known = all(blob in self._links for blob in self._blobs(target.load.peers))
            if target.transfer is None and not known:
                target.give_up(event.text or "the peer has left")
                self._settle(target)
        event.peer.close(force=True)

    def _on_message(self, event: Event) -> None:
        source = self._by_id.get(event.id)
        if source is None:
            return
        if event.value == _KEEP and source.is_ended:
            source.deadline = time.monotonic() + self._lease_s
        elif event.value == _RELEASE:
            assert event.peer is not None
            word = event.header[:5]
            source.release(event.peer, int(word) if word.isdigit() else 0)
            self._settle(source)

    def _settle(self, side: Reader | Source | Target) -> None:
        """Report ended requests to the engine: their blocks are not accessed any more."""
        if isinstance(side, Target):
            if side.transfer is None or side.is_quiet:
                self._settle_target(side)
            return
        source = side.source if isinstance(side, Reader) else side
        if not source.is_over or self._sources.get(source.request_id) is not source:
            return
        del self._sources[source.request_id]
        if self._by_id.get(source.id) is source:
            del self._by_id[source.id]
            if source.error:
                self._give_up(source.id, source.error)
        if source.is_reported:
            self._sent.add(source.request_id)
        for reader in source.readers:
            self._readers.pop(reader.transfer, None)
        modes = (reader.transfer.mode for reader in self._readers.values())
        self._has_writers = Mode.WRITE in modes
        source.close()

    def _settle_target(self, target: Target) -> None:
        if self._targets.pop(target.request_id, None) is None:
            return
        self._received.add(target.request_id)
        if target.error:
            logger.warning("morikv: request %s: %s", target.request_id, target.error)
            self._failed.add(target.request_id)
            self._stats["num_failed_transfers"].append(1)
        else:
            for name, value in zip(_STATS, target.figures()):
                self._stats[name].append(value)
        target.close()

    def _round(self) -> float | None:
        """:return: time until work is due, in ms; 0: now."""
        with self._lock:
            for event in self._context.poll():
                try:
                    self._on_event(event)
                except Exception:  # later events belong to other requests
                    logger.exception("morikv: %s could not be handled", event.type.name)
            self._expire()
            is_awaited = self._pump_awaited()
            self._context.progress()
            if not self._context.arm():
                return 0
            if is_awaited:
                return _GATE_MS
            ends = [source.deadline for source in self._sources.values() if source.is_kept]
            ends += [end for end, _event in self._requests[:1]]
            return max(0.0, min(ends) - time.monotonic()) * 1000 + 1 if ends else None

    def close(self) -> None:
        """Harmless if it is closed. Waits for accesses by peers, DRAIN_TIMEOUT at most."""
        atexit.unregister(self.close)
        self._listener.close(self._close_context)

    def _close_context(self) -> None:
        try:
            self._context.close()
        except errors.MorikvError as error:
            logger.warning("morikv: %s", error)


def _gate_of(cache: Any) -> Callable[[], bool] | None:
    """Condition that a post of this layer waits for; None: the data is there."""
    if cache.device.type == "cpu":
        return None
    import torch

    event = torch.cuda.Event()
    event.record()
    return lambda: bool(event.query())
