# SPDX-License-Identifier: BSD-3-Clause
"""Values that go into and come out of the library."""

from __future__ import annotations

import enum
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from ._library import ffi, lib

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from .context import Peer
    from .operation import Operation
    from .transfer import Transfer

#: Block ids: any buffer of 32-bit unsigned numbers (NumPy, array), or any iterable.
Blocks = Union[Iterable[int], "Buffer"]


class _Enum(enum.IntEnum):
    """A number of the library that prints with its name."""

    __str__ = enum.Enum.__str__
    __format__ = enum.Enum.__format__

    @classmethod
    def expect(cls, name: str, value: Any) -> Any:
        """:raises ValueError: not a member, or its number."""
        try:
            return cls(value)
        except ValueError:
            choices = ", ".join(str(member) for member in cls)
            raise ValueError(f"{name} is {value!r}; expected {choices}") from None


class Status(_Enum):
    """Result of a call, a peer or a transfer."""

    OK = lib.MKV_OK
    INPROGRESS = lib.MKV_INPROGRESS
    INVALID = lib.MKV_ERR_INVALID
    NOMEM = lib.MKV_ERR_NOMEM
    BUSY = lib.MKV_ERR_BUSY
    VERSION = lib.MKV_ERR_VERSION
    GEOMETRY = lib.MKV_ERR_GEOMETRY
    LENGTH = lib.MKV_ERR_LENGTH
    BOUNDS = lib.MKV_ERR_BOUNDS
    PAIRING = lib.MKV_ERR_PAIRING
    DTYPE = lib.MKV_ERR_DTYPE
    PAGE = lib.MKV_ERR_PAGE
    TOPOLOGY = lib.MKV_ERR_TOPOLOGY
    STALE = lib.MKV_ERR_STALE
    DUPLICATE = lib.MKV_ERR_DUPLICATE
    NOTFOUND = lib.MKV_ERR_NOTFOUND
    BIND_TIMEOUT = lib.MKV_ERR_BIND_TIMEOUT
    XFER_TIMEOUT = lib.MKV_ERR_XFER_TIMEOUT
    RELEASE_TIMEOUT = lib.MKV_ERR_RELEASE_TIMEOUT
    DRAIN_TIMEOUT = lib.MKV_ERR_DRAIN_TIMEOUT
    ABORTED = lib.MKV_ERR_ABORTED
    PEER = lib.MKV_ERR_PEER
    TRANSPORT = lib.MKV_ERR_TRANSPORT
    BACKEND = lib.MKV_ERR_BACKEND
    GATE = lib.MKV_ERR_GATE
    UNSUPPORTED = lib.MKV_ERR_UNSUPPORTED
    PROTOCOL = lib.MKV_ERR_PROTOCOL

    @classmethod
    def of(cls, value: int) -> int:
        """Its member, or the number of a status that this version does not define."""
        return cls(value) if value in cls._value2member_map_ else value


class Mode(_Enum):
    """Side that moves the bytes."""

    WRITE = lib.MKV_WRITE
    """The source puts; the destination exposes its blocks."""
    READ = lib.MKV_READ
    """The destination gets; the source exposes its blocks."""


class Role(_Enum):
    SRC = lib.MKV_SRC
    DST = lib.MKV_DST


class Priority(_Enum):
    """Order of posts, and the share of the credits that they leave to other posts."""

    NORMAL = lib.MKV_PRIORITY_NORMAL
    HIGH = lib.MKV_PRIORITY_HIGH
    LOW = lib.MKV_PRIORITY_LOW


class State(_Enum):
    """Of a transfer."""

    INIT = lib.MKV_XFER_INIT
    BOUND = lib.MKV_XFER_BOUND
    ACTIVE = lib.MKV_XFER_ACTIVE
    SEALED = lib.MKV_XFER_SEALED
    DONE = lib.MKV_XFER_DONE
    FAILED = lib.MKV_XFER_FAILED
    ABORTED = lib.MKV_XFER_ABORTED

    @property
    def is_terminal(self) -> bool:
        return self >= State.DONE


class Backend(_Enum):
    """Transport of a peer's data."""

    UNKNOWN = lib.MKV_BACKEND_UNKNOWN
    XGMI = lib.MKV_BACKEND_XGMI
    IPC = lib.MKV_BACKEND_IPC
    RDMA = lib.MKV_BACKEND_RDMA
    SHM = lib.MKV_BACKEND_SHM
    TCP = lib.MKV_BACKEND_TCP


class PeerState(_Enum):
    CONNECTING = lib.MKV_PEER_CONNECTING
    READY = lib.MKV_PEER_READY
    FAILED = lib.MKV_PEER_FAILED
    CLOSED = lib.MKV_PEER_CLOSED


class Slow(_Enum):
    """Why GPU memory takes a slow path to a peer."""

    NO = lib.MKV_SLOW_NO
    OTHER = lib.MKV_SLOW_OTHER
    TLS = lib.MKV_SLOW_TLS
    MODULE = lib.MKV_SLOW_MODULE
    SHM = lib.MKV_SLOW_SHM
    USER = lib.MKV_SLOW_USER
    PID = lib.MKV_SLOW_PID
    NETWORK = lib.MKV_SLOW_NETWORK


class EventType(_Enum):
    PEER_READY = lib.MKV_EV_PEER_READY
    PEER_FAILED = lib.MKV_EV_PEER_FAILED
    PEER_CLOSED = lib.MKV_EV_PEER_CLOSED
    EXPOSED = lib.MKV_EV_EXPOSED
    DONE = lib.MKV_EV_DONE
    FAILED = lib.MKV_EV_FAILED
    ABORTED = lib.MKV_EV_ABORTED
    QUIET = lib.MKV_EV_QUIET
    MSG = lib.MKV_EV_MSG
    WARN = lib.MKV_EV_WARN
    NOTE = lib.MKV_EV_NOTE
    INCOMING = lib.MKV_EV_INCOMING
    PEER_REGIONS = lib.MKV_EV_PEER_REGIONS
    LEG = lib.MKV_EV_LEG
    LOCAL_DONE = lib.MKV_EV_LOCAL_DONE
    ARRIVED = lib.MKV_EV_ARRIVED


@dataclass(frozen=True)
class Topology:
    """Ranks of this process; a size of 0 counts as 1."""

    dp_rank: int = 0
    dp_size: int = 0
    pp_rank: int = 0
    pp_size: int = 0
    cp_rank: int = 0
    cp_size: int = 0
    tp_rank: int = 0
    tp_size: int = 0


@dataclass(frozen=True)
class Axis:
    """Layout of a block, and the part of it that this rank holds.

    A block is outer x tokens x elements x inner_bytes, or with ``is_first`` outer x
    elements x tokens x inner_bytes, where the elements are this rank's share of each of
    ``groups``, one group after the other. morikv.h has examples (mkv_region_t).
    """

    groups: Sequence[int] = ()
    """Elements (heads, channels) over all ranks; empty: they are not shared out."""
    inner_bytes: int = 0
    """Of an element; 0: what is left of the block."""
    outer: int = 1
    is_first: bool = False
    """The elements are the outer dimension, the tokens the inner one."""
    is_replicated: bool = False
    """All ranks hold equal data."""
    rank: int = 0
    """Among ``size`` ranks that share; of a ``size`` of 0: the topology's TP ranks."""
    size: int = 0

    def describe(self, region: Any) -> None:
        """:param region: mkv_region_t, to be filled."""
        region.outer, region.inner_bytes = self.outer, self.inner_bytes
        region.num_groups = len(self.groups)
        region.groups[0 : len(self.groups)] = list(self.groups)
        region.flags |= lib.MKV_REGION_HEADS_FIRST if self.is_first else 0
        region.flags |= lib.MKV_REGION_REPLICATED if self.is_replicated else 0
        region.shard_rank, region.shard_size = self.rank, self.size


@dataclass(frozen=True)
class MapInfo:
    """Sizes of a component of a map."""

    num_pairs: int
    """Regions, or parts of them; 0: another source is elected."""
    bytes_per_unit: int
    """Bytes of a block here, over all layers and parts."""
    dst_bytes_per_unit: int
    """The destination's, of all its sources."""
    num_sources: int
    """Source ranks that hold data of the destination."""
    num_destinations: int
    """Destination ranks that get data of the source."""


@dataclass(frozen=True)
class Units:
    """Block lists of one component; position i of one belongs to i of the other."""

    local: array[int]
    remote: array[int]


@dataclass(frozen=True)
class Event:
    """Something that happened, in order of occurrence."""

    type: EventType
    status: int
    text: str
    peer: Peer | None
    transfer: Transfer | None
    """None if the event concerns no such object, or if that was closed meanwhile."""
    id: int
    """The transfer's; MSG: as sent."""
    epoch: int
    leg: int
    value: int
    units: Mapping[int, Units] = field(default_factory=dict)
    """EXPOSED: the peer's blocks, as ``remote``, by component. DONE: those exposed."""
    header: bytes = b""
    data: bytes = b""
    """EXPOSED: meta of the other side; DONE: the bytes of its seal; MSG, NOTE: as sent."""
    operation: Operation | None = None
    """DONE, FAILED, ABORTED and QUIET of one that is not closed."""


@dataclass(frozen=True)
class PeerInfo:
    state: PeerState
    status: int
    error: str
    name: str
    transports: str
    backend: Backend
    is_same_host: bool
    has_sgl_put: bool
    paths: str  #: transport that UCX chose for each kind of call so far, as UCX names it
    num_regions: int
    regions_epoch: int
    slow: Slow = Slow.NO
    slow_text: str = ""  #: reason and remedy of the first slow path of GPU memory


@dataclass(frozen=True)
class TransferInfo:
    state: State
    status: int
    error: str
    waiting_for: str
    is_quiet: bool
    is_quarantined: bool
    posted: int
    """Pieces of memory."""
    completed: int
    bytes: int
    """Completed; passive side: as reported in DONE."""
    age_ns: int
    num_ucp_calls: int


@dataclass(frozen=True)
class LegInfo:
    peer: Peer | None
    """None if it was closed."""
    status: int
    error: str
    waiting_for: str
    is_quiet: bool
    bytes: int
    """Completed; passive side: as reported at its end."""


def block_array(blocks: Blocks) -> tuple[Any, int, Any]:
    """A pointer to 32-bit unsigned numbers, their count, and the object that keeps them alive.

    :raises ValueError: a number is no block id, or the buffer has another type.
    """
    given: Any = blocks  # memoryview() decides whether it is a buffer
    try:
        view = memoryview(given)
    except TypeError:
        try:
            view = memoryview(array("I", given))
        except (OverflowError, TypeError) as error:
            raise ValueError(f"block ids: {error}; expected 0 to 4294967295") from None
    if view.itemsize != 4 or view.format not in ("I", "L", "<I", "=I", "i", "l"):
        raise ValueError(
            f"block ids of format '{view.format}' and {view.itemsize} bytes; expected "
            "32-bit unsigned integers (numpy.uint32, array('I'))"
        )
    if not view.c_contiguous:
        view = memoryview(view.tobytes()).cast("I")
    buffer = ffi.from_buffer(view)
    return ffi.cast("const uint32_t *", buffer), view.nbytes // 4, (view, buffer)


def to_array(pointer: Any, count: int) -> array[int]:
    """A copy of the library's numbers."""
    result = array("I")
    if count > 0:
        result.frombytes(bytes(ffi.buffer(pointer, count * 4)))
    return result


def read_units(units: Any, count: int) -> dict[int, Units]:
    return {
        units[i].component: Units(
            to_array(units[i].local, units[i].num_local),
            to_array(units[i].remote, units[i].num_remote),
        )
        for i in range(count)
    }
