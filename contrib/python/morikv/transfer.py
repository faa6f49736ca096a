# SPDX-License-Identifier: BSD-3-Clause
"""Maps, plans and transfers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._handle import Handle
from ._library import LEG_ALL, ffi, lib, text
from .errors import MorikvError, check
from .model import Blocks, LegInfo, MapInfo, Mode, Role, State, Status, TransferInfo, block_array
from .pieces import Numbers, columns

if TYPE_CHECKING:
    from .context import Context, Peer


class Map:
    """Local and remote regions, paired by (component, layer, part)."""

    def __init__(
        self,
        peer: Peer,
        components: Iterable[int] | None,
        intersect: bool,
        any_rank: bool,
        role: Role | None,
    ) -> None:
        params = ffi.new("mkv_map_params_t *", {"size": ffi.sizeof("mkv_map_params_t")})
        params.flags = (lib.MKV_MAP_INTERSECT if intersect else 0) | (
            lib.MKV_MAP_ANY_RANK if any_rank else 0
        )
        if role is not None:
            params.flags |= lib.MKV_MAP_SRC if role == Role.SRC else lib.MKV_MAP_DST
        if components is not None:
            params.components, params.num_components, keep = block_array(list(components))
        map_p = ffi.new("mkv_map_t **")
        check(peer._handle.call(lib.mkv_map_create, params, map_p))
        self.peer = peer
        self._handle = Handle(peer._handle.owner, map_p[0], lib.mkv_map_destroy)

    def query(self) -> dict[int, MapInfo]:
        """Sizes of the map, by component."""
        attr = ffi.new("mkv_map_attr_t *", {"size": ffi.sizeof("mkv_map_attr_t")})

        def read(pointer: Any) -> dict[int, MapInfo]:
            """The components are the map's memory."""
            check(lib.mkv_map_query(pointer, attr))
            found = (attr.components[i] for i in range(attr.num_components))
            return {
                each.component: MapInfo(
                    num_pairs=each.num_pairs,
                    bytes_per_unit=each.bytes_per_unit,
                    dst_bytes_per_unit=each.dst_bytes_per_unit,
                    num_sources=each.num_sources,
                    num_destinations=each.num_destinations,
                )
                for each in found
            }

        result: dict[int, MapInfo] = self._handle.call(read)
        return result

    def plan(
        self, units: Mapping[int, tuple[Blocks, Blocks]], keep_order: bool = False
    ) -> Plan:
        """Merge block lists into runs, once for all layers.

        :param units: component: (blocks here, blocks at the peer), of equal lengths.
        :param keep_order: merge only neighbours in the given order; needed to post
            ranges of positions.
        :raises BoundsError: a block is outside of a region; LengthError: the lists'
            lengths differ; StaleError: regions were dropped.
        """
        if not isinstance(units, Mapping):
            raise TypeError(
                f"units is {units!r:.64}; expected component: (blocks here, blocks at the "
                "peer), such as {0: ([0, 1], [5, 6])}"
            )
        c_units, count, keep = _c_units(units)
        flags = lib.MKV_PLAN_KEEP_ORDER if keep_order else 0
        return Plan(self, lib.mkv_plan_create, (c_units, count, flags), keep)

    def plan_bytes(self, ranges: Iterable[Bytes], unchecked: bool = False) -> Plan:
        """A plan of bytes instead of blocks; those that adjoin on both sides are merged.

        :param ranges: one for each pair of regions, at most. Copied.
        :param unchecked: posts are not compared with what was exposed.
        :raises BoundsError: bytes are not inside of the regions' units; PairingError: the
            map has no such pair; DuplicateError: a pair occurs twice; InvalidError: a
            length or a count is 0; ValueError: numbers of one range differ in count.
        """
        c_bytes, count, keep = _c_bytes(list(ranges))
        flags = lib.MKV_PLAN_UNCHECKED if unchecked else 0
        return Plan(self, lib.mkv_plan_create_bytes, (c_bytes, count, flags), keep)

    def __repr__(self) -> str:
        return f"<morikv.Map to {self.peer!r}>"

    def close(self) -> None:
        """:raises BusyError: a plan or a transfer uses it."""
        self._handle.close()


def _c_units(units: Mapping[int, tuple[Blocks, Blocks | None]]) -> tuple[Any, int, list[Any]]:
    result = ffi.new("mkv_units_t[]", max(len(units), 1))
    keep: list[Any] = [result]
    for i, (component, (local, remote)) in enumerate(units.items()):
        result[i].component = component
        result[i].local, result[i].num_local, alive = block_array(local)
        keep.append(alive)
        if remote is not None:
            result[i].remote, result[i].num_remote, alive = block_array(remote)
            keep.append(alive)
    return result, len(units), keep


@dataclass(frozen=True)
class Bytes:
    """Pieces of one pair of regions, by their offsets from the regions' bases, in bytes.

    With ``count`` an entry is a slice: so many pieces of ``lengths`` bytes, each
    ``local_strides`` and ``remote_strides`` bytes after the one before.
    """

    local_offsets: Numbers
    remote_offsets: Numbers
    lengths: Numbers
    counts: Numbers | None = None
    local_strides: Numbers | None = None
    remote_strides: Numbers | None = None
    component: int = 0
    layer: int = 0
    part: int = 0


#: Members of mkv_bytes_t, and their names here.
_COLUMNS = {
    "local": "local_offsets",
    "remote": "remote_offsets",
    "length": "lengths",
    "count": "counts",
    "local_stride": "local_strides",
    "remote_stride": "remote_strides",
}


def _c_bytes(ranges: list[Bytes]) -> tuple[Any, int, list[Any]]:
    result = ffi.new("mkv_bytes_t[]", max(len(ranges), 1))
    keep: list[Any] = [result]
    for to, given in zip(result, ranges):
        to.component, to.layer, to.part = given.component, given.layer, given.part
        named = {name: getattr(given, name) for name in _COLUMNS.values()}
        named = {name: values for name, values in named.items() if values is not None}
        found, to.num = columns(named)
        by_name = dict(zip(named, found))
        for member, name in _COLUMNS.items():
            if name in by_name:
                view = by_name[name]
                if len(view) != to.num:
                    view = memoryview(array("Q", [view[0]]) * to.num)
                keep.append(ffi.from_buffer("uint64_t[]", view))
                setattr(to, member, keep[-1])
    return result, len(ranges), keep


class Plan:
    """Blocks or bytes of both sides, merged; reusable for every layer of its map."""

    def __init__(self, map_: Map, create: Any, arguments: tuple[Any, ...], _keep: Any) -> None:
        plan_p = ffi.new("mkv_plan_t **")
        check(map_._handle.call(create, *arguments, plan_p))
        self._handle = Handle(
            map_._handle.owner, plan_p[0], lib.mkv_plan_destroy, map_._handle
        )

    def _query(self) -> Any:
        attr = ffi.new("mkv_plan_attr_t *", {"size": ffi.sizeof("mkv_plan_attr_t")})
        check(self._handle.call(lib.mkv_plan_query, attr))
        return attr

    def __repr__(self) -> str:
        try:
            attr = self._query()
        except MorikvError:
            return "<morikv.Plan closed>"
        return f"<morikv.Plan of {attr.num_elements} pieces, {attr.bytes} bytes>"

    @property
    def num_elements(self) -> int:
        """Pieces of memory that are moved when all layers are posted."""
        return int(self._query().num_elements)

    @property
    def bytes(self) -> int:
        """Moved when all layers are posted."""
        return int(self._query().bytes)

    def close(self) -> None:
        """:raises BusyError: a post uses it."""
        self._handle.close()


class Transfer:
    """Blocks of a request in flight; see morikv.h for the protocol.

    **Status and quiet are separate**: ``state`` is for the scheduler, and ``is_quiet``
    means that this side's blocks are not accessed any more. Free memory only when it is
    quiet. A transfer runs to its end even if it is not referenced any more.
    """

    _key: int

    def __init__(
        self,
        context: Context,
        id: int,
        maps: Iterable[Map],
        mode: Mode,
        role: Role,
        epoch: int,
        expect: Mapping[int, tuple[int, int]] | None,
        options: Mapping[str, int],
    ) -> None:
        maps = list(maps)
        mode, role = Mode.expect("mode", mode), Role.expect("role", role)
        params = ffi.new("mkv_xfer_params_t *", {"size": ffi.sizeof("mkv_xfer_params_t")})
        legs = ffi.new("mkv_map_t *[]", len(maps))
        params.id, params.epoch, params.mode, params.role = id, epoch, mode, role
        params.legs, params.num_legs = legs, len(maps)
        if expect is not None:
            expected = ffi.new("mkv_expect_t[]", max(len(expect), 1))
            for to, (component, (num_units, num_bytes)) in zip(expected, expect.items()):
                to.component, to.num_units, to.num_bytes = component, num_units, num_bytes
            params.expect, params.num_expect = expected, len(expect)
        for name, value in options.items():
            setattr(params, name, value)
        self.context, self.id, self.epoch, self.maps = context, id, epoch, maps
        self.mode, self.role = mode, role
        params.user_data = context._know(self)
        xfer_p = ffi.new("mkv_xfer_t **")
        handles = [map_._handle for map_ in maps]
        check(context._owner.call(self._open, handles, legs, params, xfer_p))
        self._handle = Handle(
            context._owner, xfer_p[0], lib.mkv_xfer_close, *handles
        )

    def __repr__(self) -> str:
        try:
            state = self.query().state.name
        except MorikvError:
            state = "closed"
        return f"<morikv.Transfer {self.id} epoch {self.epoch} {self.role.name} {state}>"

    @classmethod
    def _open(cls, ctx: Any, handles: list[Handle], legs: Any, params: Any, xfer_p: Any) -> int:
        """Call with all maps in use, one after the other."""
        index = len(legs) - len(handles)
        if not handles:
            return int(lib.mkv_xfer_open(ctx, params, xfer_p))

        def with_map(pointer: Any) -> int:
            legs[index] = pointer
            return cls._open(ctx, handles[1:], legs, params, xfer_p)

        return int(handles[0].call(with_map))

    def request(self, data: bytes = b"", leg: int = LEG_ALL) -> None:
        """Request a transfer that the other side may not expect: it gets INCOMING with these
        bytes, and opens its side or refuses (:meth:`Peer.refuse`).

        A reader requests at once; a destination that is written to exposes first.
        """
        check(self._handle.call(lib.mkv_xfer_request, leg, data, len(data)))

    def expose(self, units: Mapping[int, Blocks], leg: int = 0, meta: bytes = b"") -> None:
        """Passive side: expose our blocks, by component, with optional bytes."""
        c_units, count, _keep = _c_units({c: (blocks, None) for c, blocks in units.items()})
        check(self._handle.call(lib.mkv_xfer_expose, leg, c_units, count, meta, len(meta)))

    def post(
        self,
        plan: Plan,
        leg: int = 0,
        layers: tuple[int, int] | None = None,
        positions: tuple[int, int] | None = None,
        components: Iterable[int] | None = None,
        ready: Callable[[], bool] | None = None,
        gate_id: int | None = None,
        gate_value: int = 1,
        notify: int | None = None,
    ) -> None:
        """Active side: move a plan, or a part of it.

        :param layers: [low, high); None: all.
        :param positions: [low, high) of each component's list; the plan keeps its order.
        :param ready: called in progress, with the context's lock held, until it returns
            true; it must not call this library.
        :param gate_id: hold the post until :meth:`Context.signal` names this number with
            ``gate_value`` or a greater one.
        :param notify: report this post while the transfer runs, by events of this value,
            a layer or a chunk: LOCAL_DONE to the source of a WRITE when its blocks are
            not read for it any more, ARRIVED to the destination when the bytes are there.
        :raises UnsupportedError: ``notify``, and the library of the peer is too old.
        """
        sel = ffi.new("mkv_sel_t *", {"size": ffi.sizeof("mkv_sel_t")})
        if layers is not None:
            sel.fields |= lib.MKV_SEL_LAYERS
            sel.layer_lo, sel.layer_hi = layers
        if positions is not None:
            sel.fields |= lib.MKV_SEL_POSITIONS
            sel.pos_lo, sel.pos_hi = positions
        if components is not None:
            sel.fields |= lib.MKV_SEL_COMPONENTS
            sel.component_mask = sum({1 << component for component in components})
        if notify is not None:
            sel.fields |= lib.MKV_SEL_NOTIFY
            sel.notify = notify
        gate = self._gate(ready, gate_id, gate_value)
        check(
            plan._handle.call(
                lambda pointer: self._handle.call(lib.mkv_xfer_post, leg, pointer, sel, gate)
            )
        )
        self._handle.need(plan._handle)

    def _gate(
        self, ready: Callable[[], bool] | None, gate_id: int | None, value: int
    ) -> Any:
        if ready is None and gate_id is None:
            return ffi.NULL
        if ready is not None and gate_id is not None:
            raise ValueError("ready and gate_id are given; expected one of them")
        gate = ffi.new("mkv_gate_t *", {"size": ffi.sizeof("mkv_gate_t")})
        if ready is not None:
            # an exception fails the transfer, and is printed
            asked = ffi.callback("int(void *)", lambda _arg: int(ready()), error=-1)
            gate.ready = asked
            self._handle.need(asked)
        else:
            gate.id, gate.value = gate_id, value
        return gate

    def seal(self, leg: int = LEG_ALL, data: bytes = b"") -> None:
        """Active side: nothing more will be posted.

        :param data: comes with the other side's DONE (a first token), up to 64 KiB by
            default; see mkv_xfer_seal_data() of morikv.h.
        """
        check(self._handle.call(lib.mkv_xfer_seal_data, leg, data, len(data)))

    def done_data(self, leg: int = 0) -> bytes:
        """Passive side that is DONE: the bytes that came with a leg's seal."""
        data, length = ffi.new("void const **"), ffi.new("size_t *")

        def read(pointer: Any) -> bytes:
            """The bytes are the transfer's memory."""
            check(lib.mkv_xfer_done_data(pointer, leg, data, length))
            return bytes(ffi.buffer(data[0], length[0])) if length[0] else b""

        result: bytes = self._handle.call(read)
        return result

    def declare_dead(self) -> None:
        """:meth:`Peer.declare_dead` for every peer that keeps this ended transfer from
        being quiet.

        :raises BusyError: it has not ended.
        """
        check(self._handle.call(lib.mkv_xfer_declare_dead))

    def abort(self, reason: str = "", status: int = lib.MKV_ERR_ABORTED) -> None:
        """End it with an error now, here and at every leg; quiet follows."""
        check(self._handle.call(lib.mkv_xfer_abort, status, reason.encode()))

    def abort_leg(
        self, leg: int, reason: str = "", status: int = lib.MKV_ERR_ABORTED
    ) -> None:
        """Source: end one leg with an error, here and at its destination; others go on."""
        check(self._handle.call(lib.mkv_xfer_abort_leg, leg, status, reason.encode()))

    def extend(self, timeout_ms: int) -> None:
        """Move the current deadline to timeout_ms milliseconds from now."""
        check(self._handle.call(lib.mkv_xfer_extend, timeout_ms))

    def query(self) -> TransferInfo:
        attr = ffi.new("mkv_xfer_attr_t *", {"size": ffi.sizeof("mkv_xfer_attr_t")})
        check(self._handle.call(lib.mkv_xfer_query, attr))
        return TransferInfo(
            state=State(attr.state),
            status=Status.of(attr.status),
            error=text(attr.error),
            waiting_for=text(attr.waiting_for),
            is_quiet=bool(attr.is_quiet),
            is_quarantined=bool(attr.is_quarantined),
            posted=attr.posted,
            completed=attr.completed,
            bytes=attr.bytes,
            age_ns=attr.age_ns,
            num_ucp_calls=attr.num_ucp_calls,
        )

    def query_leg(self, leg: int) -> LegInfo:
        """Query a leg: legs of a source end separately, and LEG reports each."""
        attr = ffi.new("mkv_leg_attr_t *", {"size": ffi.sizeof("mkv_leg_attr_t")})

        def read(pointer: Any) -> Peer | None:
            with self.context._owner.pointers:
                check(lib.mkv_xfer_query_leg(pointer, leg, attr))
                return self.context._peer(attr.peer) if attr.peer != ffi.NULL else None

        return LegInfo(
            peer=self._handle.call(read),
            status=Status.of(attr.status),
            error=text(attr.error),
            waiting_for=text(attr.waiting_for),
            is_quiet=bool(attr.is_quiet),
            bytes=attr.bytes,
        )

    @property
    def state(self) -> State:
        return self.query().state

    @property
    def is_quiet(self) -> bool:
        return self.query().is_quiet

    def close(self) -> None:
        """:raises BusyError: it is not terminal, or not quiet."""
        self._handle.close()
        self.context._forget(self)
