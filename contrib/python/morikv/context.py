# SPDX-License-Identifier: BSD-3-Clause
"""Contexts, regions and peers."""

from __future__ import annotations

import atexit
import itertools
import os
import select
import socket
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, SupportsIndex

from . import memory
from ._handle import Handle, Living, Owner
from ._library import ffi, lib, text
from .errors import MorikvError, check, error
from .model import (
    Axis,
    Backend,
    Event,
    EventType,
    Mode,
    PeerInfo,
    PeerState,
    Priority,
    Role,
    Slow,
    Status,
    Topology,
    read_units,
)
from .operation import Operation
from .pieces import Numbers, Pieces
from .transfer import Map, Transfer

_contexts: Living[Context] = Living()

_KNOWN_EVENTS = frozenset(EventType)

#: Memory that a device or a peer may still reach: it must never be freed.
_touched: list[Any] = []


@atexit.register
def _close_all() -> None:
    for context in _contexts:
        try:
            context.close()
        except Exception:  # the process ends; the library has logged the reason
            pass


class Region:
    """A (component, layer, part) of the cache."""

    def __init__(self, context: Context, id: int, owner: memory.Memory) -> None:
        self.context, self.id = context, id
        self.memory = owner

    def __repr__(self) -> str:
        return f"<morikv.Region {self.id} of {self.memory.length} bytes at {self.memory.address:#x}>"


class Peer:
    """A remote process with its own context."""

    def __init__(self, context: Context, pointer: Any) -> None:
        self.context = context
        # closed with its context, unless by close()
        self._handle = Handle(context._owner, pointer, lambda _pointer: lib.MKV_OK)

    def query(self) -> PeerInfo:
        attr = ffi.new("mkv_peer_attr_t *", {"size": ffi.sizeof("mkv_peer_attr_t")})
        check(self._handle.call(lib.mkv_peer_query, attr))
        return PeerInfo(
            state=PeerState(attr.state),
            status=Status.of(attr.status),
            error=text(attr.error),
            name=text(attr.name),
            transports=text(attr.transports),
            backend=Backend(attr.backend),
            is_same_host=bool(attr.is_same_host),
            has_sgl_put=bool(attr.has_sgl_put),
            paths=text(attr.paths),
            num_regions=attr.num_regions,
            regions_epoch=attr.regions_epoch,
            slow=Slow(attr.slow),
            slow_text=text(attr.slow_text),
        )

    def __repr__(self) -> str:
        try:
            info = self.query()
        except MorikvError:
            return "<morikv.Peer closed>"
        return f"<morikv.Peer {info.name!r} {info.state.name} by {info.backend.name}>"

    def map(
        self,
        components: Iterable[int] | None = None,
        intersect: bool = False,
        any_rank: bool = False,
        role: Role | None = None,
    ) -> Map:
        """Pair regions of this side with the peer's, or the parts that both ranks have.

        :param intersect: pair what both have; default: every region must pair.
        :param any_rank: replicated data: TP ranks need not be equal.
        :param role: of this side in the map's transfers. Required if several sources hold the
            same data: one is elected for each destination.
        :raises PairingError: they do not pair, with the region that does not.
        :raises TopologyError: unequal ranks, and a region has no ``axis``.
        """
        return Map(self, components, intersect, any_rank, role)

    def send(self, id: int, type: int, header: bytes = b"", data: bytes = b"") -> None:
        """Send bytes to the peer's connector, as MSG; ordered per peer."""
        check(self._handle.call(lib.mkv_send, id, type, header, len(header), data, len(data)))

    def post(
        self,
        mode: Mode,
        local: Region | Numbers,
        remote: Numbers,
        local_offsets: Numbers,
        remote_offsets: Numbers,
        lengths: Numbers,
        *,
        id: int = 0,
        note: bytes | None = None,
        timeout_ms: int = 0,
        drain_timeout_ms: int = 0,
    ) -> Operation:
        """Move bytes to or from memory that the peer has added with ``one_sided``.

        Never waits. Ends with DONE, FAILED or ABORTED and then QUIET, each with this
        operation in ``event.operation``. No loop of Python runs over the pieces.

        :param mode: WRITE: from here to the peer; READ: from the peer.
        :param local: region here, or its number, or one number for each piece.
        :param remote: :attr:`Region.id` at the peer, one for all pieces or one for each.
        :param local_offsets: bytes from the region's base, as are ``remote_offsets``; a
            NumPy array of integers, an iterable, or one number for all pieces.
        :param lengths: bytes, at least 1, in the same way.
        :param id: for events, here and at the peer.
        :param note: the peer gets event NOTE with these bytes at the end.
        :param timeout_ms: until it is done; 0: option XFER_TIMEOUT.
        :param drain_timeout_ms: from a failure until it is quiet; 0: DRAIN_TIMEOUT.
        :raises BusyError: the peer is not ready, or has not polled its notes.
        :raises NotFoundError: no such region here, or the peer has not sent it yet.
        :raises BoundsError: a piece leaves its region.
        :raises InvalidError: the peer's region is not ``one_sided``, or a length is 0.
        :raises ValueError: the counts differ, or a value is not a number.
        """
        here = local.id if isinstance(local, Region) else local
        pieces = Pieces(here, remote, local_offsets, remote_offsets, lengths)
        return Operation(
            self,
            mode,
            pieces,
            id=id,
            note=note,
            timeout_ms=timeout_ms,
            drain_timeout_ms=drain_timeout_ms,
        )

    def refuse(
        self, id: int, epoch: int = 0, reason: str = "", status: int = lib.MKV_ERR_NOTFOUND
    ) -> None:
        """Refuse a peer's request (INCOMING): its transfer fails.

        :raises NotFoundError: it has no such request, or no longer.
        """
        check(self._handle.call(lib.mkv_xfer_refuse, id, epoch, status, reason.encode()))

    def declare_dead(self) -> None:
        """Free the blocks that are quarantined because of this peer.

        Call it only when the peer's host is switched off, its GPU reset or its container
        removed: a peer that lives overwrites blocks of other requests.
        """
        check(self._handle.call(lib.mkv_peer_declare_dead))

    def close(self, force: bool = False) -> None:
        """Harmless if it, or its context, is closed.

        :raises BusyError: transfers use it; with ``force`` they fail.
        """
        mode = lib.MKV_CLOSE_FORCE if force else lib.MKV_CLOSE_FLUSH

        def destroy(pointer: Any) -> int:
            status = int(lib.mkv_peer_close(pointer, mode))
            if status == lib.MKV_OK:  # the next peer may have its address
                self.context._peers.pop(int(ffi.cast("uintptr_t", pointer)), None)
            return status

        self._handle.close(destroy)


class Context:
    """Context of a process, usually one per GPU. A context manager.

    Calls may be made from any thread; the GIL is not held while the library works.

    :param name: for logs, here and at peers; default "host:pid".
    :param options: MORIKV_* options without the prefix, over the environment's.
    :param log: sink of log lines, ``log(level, text)``, level 0 (error) to 4 (trace);
        it must not call this library.
    """

    def __init__(
        self,
        name: str | None = None,
        topology: Topology = Topology(),
        options: Mapping[str, str] | None = None,
        page_tokens: int = 0,
        dtype: int = 0,
        total_kv_heads: int = 0,
        model: int = 0,
        log: Callable[[int, str], None] | None = None,
    ) -> None:
        params = ffi.new("mkv_open_params_t *", {"size": ffi.sizeof("mkv_open_params_t")})
        c_name = ffi.new("char[]", name.encode()) if name is not None else ffi.NULL
        params.name = c_name
        for key, value in vars(topology).items():
            setattr(params.topology, key, value)
        params.page_tokens, params.dtype = page_tokens, dtype
        params.total_kv_heads, params.model = total_kv_heads, model
        self._log = None
        if log is not None:
            self._log = ffi.callback(
                "void(void *, mkv_log_level_t, const char *)",
                lambda _arg, level, line: log(int(level), text(line)),
            )
            params.log = self._log
        ctx_p = ffi.new("mkv_ctx_t **")
        config = self._read_config(options or {})
        try:
            check(lib.mkv_open(config, params, ctx_p))
        finally:
            lib.mkv_config_release(config)
        self.name = name if name is not None else f"{socket.gethostname()}:{os.getpid()}"
        self._owner = Owner(ctx_p[0])
        self._regions: dict[int, Region] = {}
        self._peers: dict[int, Peer] = {}
        self._things: weakref.WeakValueDictionary[int, Transfer | Operation]
        self._things = weakref.WeakValueDictionary()
        self._keys = itertools.count(1)
        _contexts.add(self)

    def __repr__(self) -> str:
        state = f"{len(self._peers)} peers" if self._owner.is_open else "closed"
        return f"<morikv.Context {self.name!r} {state}>"

    @staticmethod
    def _read_config(options: Mapping[str, str]) -> Any:
        config_p = ffi.new("mkv_config_t **")
        check(lib.mkv_config_read(ffi.NULL, config_p))
        try:
            for key, value in options.items():
                check(lib.mkv_config_set(config_p[0], key.encode(), str(value).encode()))
        except Exception:
            lib.mkv_config_release(config_p[0])
            raise
        return config_p[0]

    # ---- regions ----

    def add_region(
        self,
        source: Any,
        *,
        unit_bytes: int | None = None,
        n_units: int | None = None,
        unit_stride: int = 0,
        component: int = 0,
        layer: int = 0,
        part: int = 0,
        optional: bool = False,
        one_sided: bool = False,
        tokens_per_unit: int = 0,
        dtype: int = 0,
        allocation: memory.Memory | None = None,
        axis: Axis | None = None,
    ) -> Region:
        """Memory of one (component, layer, part), known to peers after :meth:`commit`.

        :param source: an argument of :func:`morikv.memory.of`; kept alive.
        :param unit_bytes: bytes of a block that are moved; None: memory without blocks,
            for :meth:`Map.plan_bytes` and :meth:`Peer.post`.
        :param n_units: blocks; default: as many as there is room for.
        :param unit_stride: bytes from block to block; 0: unit_bytes.
        :param one_sided: peers may read and write all of it, at any time, by
            :meth:`Peer.post`.
        :param allocation: the allocation around it, for sub-allocations of a GPU's pool.
        :param axis: division of a block among TP ranks, for peers with another number of ranks.
        """
        place = memory.of(source)
        if unit_bytes is not None and unit_bytes <= 0:
            raise ValueError(f"unit_bytes is {unit_bytes}; expected at least 1")
        if unit_bytes is not None and unit_bytes > place.length:
            raise ValueError(f"unit_bytes is {unit_bytes}; expected at most the memory's {place.length} bytes")
        numbers = {"component": component, "layer": layer, "part": part, "unit_stride": unit_stride, "n_units": n_units or 0}
        for name, value in numbers.items():
            if not isinstance(value, SupportsIndex):
                raise TypeError(f"{name} is {value!r}; expected an integer")
        region = ffi.new("mkv_region_t *", {"size": ffi.sizeof("mkv_region_t")})
        region.component, region.layer, region.part = component, layer, part
        region.flags = lib.MKV_REGION_OPTIONAL if optional else 0
        region.flags |= lib.MKV_REGION_ONE_SIDED if one_sided else 0
        region.mem_type = place.mem_type
        region.base = ffi.cast("void *", place.address)
        region.length = place.length
        if unit_bytes is None:
            region.flags |= lib.MKV_REGION_BYTES
            region.unit_stride, region.n_units = unit_stride, n_units or 0
        else:
            region.unit_bytes, region.unit_stride = unit_bytes, unit_stride
            room = (place.length - unit_bytes) // (unit_stride or unit_bytes) + 1
            region.n_units = room if n_units is None else n_units
        region.tokens_per_unit, region.dtype = tokens_per_unit, dtype
        if allocation is not None:
            region.alloc_base = ffi.cast("void *", allocation.address)
            region.alloc_length = allocation.length
        if axis is not None:
            axis.describe(region)
        id_p = ffi.new("mkv_region_id_t *")
        check(self._owner.call(lib.mkv_region_add, region, id_p))
        added = Region(self, id_p[0], place)
        self._regions[added.id] = added
        return added

    def commit(self) -> int:
        """Register added regions and send them to peers. :return: the new epoch of regions.
        """
        epoch_p = ffi.new("uint64_t *")
        check(self._owner.call(lib.mkv_regions_commit, epoch_p))
        return int(epoch_p[0])

    def drop_regions(self, regions: Iterable[Region]) -> None:
        """:raises BusyError: transfers use them.
        :raises TransportError: they are dropped, and UCX failed to deregister memory, which is
            therefore never freed.
        """
        regions = list(regions)
        ids = ffi.new("mkv_region_id_t[]", [region.id for region in regions])
        status = self._owner.call(lib.mkv_regions_drop, ids, len(regions))
        if status in (lib.MKV_OK, lib.MKV_ERR_TRANSPORT):
            dropped = [self._regions.pop(region.id, None) for region in regions]
            if status != lib.MKV_OK:
                _touched.append(dropped)
        check(status)

    # ---- peers ----

    def blob(self, full: bool = False) -> bytes:
        """Address of this context for add_peer() at a peer; the application transports it.

        :param full: also the regions committed so far, and their keys.
        """
        kind = lib.MKV_BLOB_FULL if full else lib.MKV_BLOB_ADDR
        length_p = ffi.new("size_t *", 0)
        status = self._owner.call(lib.mkv_blob, kind, ffi.NULL, length_p)
        while status in (lib.MKV_OK, lib.MKV_ERR_LENGTH) and length_p[0] > 0:
            buffer = ffi.new("char[]", length_p[0])
            status = self._owner.call(lib.mkv_blob, kind, buffer, length_p)
            if status == lib.MKV_OK:
                return bytes(ffi.buffer(buffer, length_p[0]))
        check(status)
        raise AssertionError("a blob of no bytes")

    def add_peer(self, blob: bytes, name: str | None = None) -> Peer:
        """Connect; PEER_READY or PEER_FAILED follows.

        :param blob: result of the peer's :meth:`blob`.
        :raises ProtocolError: the blob is cut, altered, or of an incompatible version.
        """
        if not isinstance(blob, (bytes, bytearray, memoryview)):
            raise TypeError(f"blob is {blob!r:.64}; expected the bytes of the peer's blob()")
        blob = bytes(blob)
        c_name = ffi.new("char[]", name.encode()) if name is not None else ffi.NULL
        peer_p = ffi.new("mkv_peer_t **")

        def add(ctx: Any) -> Peer:
            with self._owner.pointers:
                check(lib.mkv_peer_add(ctx, blob, len(blob), c_name, peer_p))
                return self._peer(peer_p[0])

        peer: Peer = self._owner.call(add)
        return peer

    def peers(self) -> list[Peer]:
        """Peers that are not closed, including those that connected to this context."""
        return list(self._peers.values())

    def _peer(self, pointer: Any) -> Peer:
        """The caller holds the owner's lock for pointers."""
        key = int(ffi.cast("uintptr_t", pointer))
        if key not in self._peers:
            self._peers[key] = Peer(self, pointer)
        return self._peers[key]

    # ---- transfers ----

    def transfer(
        self,
        id: int,
        maps: Iterable[Map],
        mode: Mode,
        role: Role,
        epoch: int = 0,
        expect: Mapping[int, int] | None = None,
        expect_bytes: Mapping[int, int] | None = None,
        bind_timeout_ms: int = 0,
        xfer_timeout_ms: int = 0,
        release_timeout_ms: int = 0,
        drain_timeout_ms: int = 0,
        priority: Priority = Priority.NORMAL,
    ) -> Transfer:
        """Open a transfer; both sides do, under the same (id, epoch).

        :param maps: one per peer (leg); peers must differ.
        :param expect: passive side: component: units that every leg must deliver.
        :param expect_bytes: destination of a WRITE: component: bytes that every leg must
            deliver, where plans of bytes fill it.
        :param bind_timeout_ms: and the others: 0 is the option's value.
        :param priority: of its posts, of the side that puts or gets.
        """
        options = {
            "bind_timeout_ms": bind_timeout_ms,
            "xfer_timeout_ms": xfer_timeout_ms,
            "release_timeout_ms": release_timeout_ms,
            "drain_timeout_ms": drain_timeout_ms,
            "priority": priority,
        }
        expected = None
        if expect is not None or expect_bytes is not None:
            expected = {c: (units, 0) for c, units in (expect or {}).items()}
            expected |= {c: (0, length) for c, length in (expect_bytes or {}).items()}
        return Transfer(self, id, maps, mode, role, epoch, expected, options)

    def _know(self, thing: Transfer | Operation) -> Any:
        """:return: the user_data that identifies the object in its events. It is registered
        before the library creates the object, because a thread may poll its events at once.
        """
        thing._key = next(self._keys)
        self._things[thing._key] = thing
        return ffi.cast("void *", thing._key)

    def _forget(self, thing: Transfer | Operation) -> None:
        self._things.pop(thing._key, None)

    def _thing(self, event: Any) -> Any:
        return self._things.get(int(ffi.cast("uintptr_t", event.user_data)))

    def signal(self, gate_id: int, value: int = 1) -> None:
        """Open the gates of this number that wait for ``value`` or less. Any thread."""
        check(self._owner.call(lib.mkv_gate_signal, gate_id, value))

    def forget_gate(self, gate_id: int) -> None:
        """Reset the value of this gate to 0 and free its memory; call it once per request
        when gates are numbered by request."""
        check(self._owner.call(lib.mkv_gate_forget, gate_id))

    # ---- events ----

    def progress(self) -> int:
        """Move everything that can move now. :return: number of steps made."""
        self._owner.free_dead()
        return int(self._owner.call(lib.mkv_progress))

    def poll(self, max_events: int = 64) -> list[Event]:
        """Take up to so many events, in order of occurrence. Does not progress.

        Events of a kind that this version does not support are left out.
        """
        array = ffi.new("mkv_event_t[]", max_events)
        count_p = ffi.new("size_t *")
        size = ffi.sizeof("mkv_event_t")

        def take(ctx: Any) -> list[Event]:
            with self._owner.pointers:
                check(lib.mkv_poll(ctx, array, size, max_events, count_p))
                taken = (array[i] for i in range(count_p[0]))
                return [self._event(event) for event in taken if event.type in _KNOWN_EVENTS]

        events: list[Event] = self._owner.call(take)
        return events

    def poll_one(self) -> Event | None:
        """Take the next event, if there is one. Does not progress."""
        events = self.poll(1)
        return events[0] if events else None

    def _event(self, event: Any) -> Event:
        return Event(
            type=EventType(event.type),
            status=Status.of(event.status),
            text=text(event.text),
            peer=self._peer(event.peer) if event.peer != ffi.NULL else None,
            transfer=self._thing(event) if event.xfer != ffi.NULL else None,
            id=event.id,
            epoch=event.epoch,
            leg=event.leg,
            value=event.value,
            units=read_units(event.units, event.num_units),
            header=bytes(ffi.buffer(event.header, event.header_length))
            if event.header_length
            else b"",
            # FETCHED: number of bytes, without data
            data=bytes(ffi.buffer(event.data, event.length)) if event.data != ffi.NULL else b"",
            operation=self._thing(event) if event.op != ffi.NULL else None,
        )

    def fileno(self) -> int:
        """Descriptor that turns readable when :meth:`progress` is due."""
        fd_p = ffi.new("int *")
        check(self._owner.call(lib.mkv_event_fd, fd_p))
        return int(fd_p[0])

    def arm(self) -> bool:
        """Prepare to sleep on the descriptor. :return: False: progress and poll first."""
        status = self._owner.call(lib.mkv_arm)
        if status == lib.MKV_ERR_BUSY:
            return False
        check(status)
        return True

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Progress, and yield events; sleeps in between. The iteration may be ended and started
        again: no event is lost.

        :param timeout: end after so many seconds without an event; None: never.
        """
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        while True:
            self.progress()
            event = self.poll_one()
            if event is not None:
                yield event
            elif self.arm() and not poller.poll(None if timeout is None else timeout * 1000):
                return

    # ---- statistics and close ----

    def stats(self) -> dict[str, int | list[int]]:
        """Counters and histograms, by the names of mkv_stats_t."""
        stats = ffi.new("mkv_stats_t *", {"size": ffi.sizeof("mkv_stats_t")})
        check(self._owner.call(lib.mkv_stats, ffi.NULL, stats))
        values = {
            name: (list if field.type.kind == "array" else int)(getattr(stats, name))
            for name, field in ffi.typeof("mkv_stats_t").fields
        }
        del values["size"]
        return values

    def dump(self) -> str:
        """The state as text: options, regions, peers, transfers, counters."""
        lines: list[str] = []
        write = ffi.callback(
            "void(void *, const char *)", lambda _arg, line: lines.append(text(line))
        )
        check(self._owner.call(lib.mkv_dump, lib.MKV_DUMP_ALL, write, ffi.NULL))
        return "\n".join(lines)

    def close(self) -> None:
        """Abort running transfers and close all objects. No effect on a closed context.

        :raises DeadlineError: a transfer or connection could not be proven quiet: a peer may
            still touch the memory of regions, which is therefore never freed.
        """
        if not self._owner.is_open:
            return
        if not self._owner.home.is_here:  # a fork's copy: UCX is not usable there
            self._owner.is_open = False
            return
        if not self._owner.close():
            return  # another thread was quicker
        status = lib.mkv_close(self._owner.pointer)
        if status not in (lib.MKV_OK, lib.MKV_ERR_BUSY):
            _touched.append(self._regions)
            raise error(status, text(lib.mkv_last_error()))
        self._regions = {}

    @property
    def is_open(self) -> bool:
        return self._owner.is_open

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_owner"):
            try:
                self.close()
            except Exception:  # no caller is left; the library has logged it
                pass
