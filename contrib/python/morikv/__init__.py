# SPDX-License-Identifier: BSD-3-Clause
"""Python binding of libmorikv, which moves "layers x block lists" of a KV cache.

A :class:`Context` has an object for each subject: memory (:class:`Region`), the other
process (:class:`Peer`), pairs of regions (:class:`Map`), blocks to move (:class:`Plan`) and
the transfer itself (:class:`Transfer`). morikv.h documents the protocol; a method here is a
call there, and an error is an exception with the library's text.
"""

from . import aio, errors, memory
from ._library import LEG_ALL, lib as _lib, text as _text
from .context import Context, Peer, Region
from .errors import MorikvError
from .memory import Memory
from .model import (
    Axis,
    Backend,
    Event,
    EventType,
    LegInfo,
    MapInfo,
    Mode,
    PeerInfo,
    Priority,
    Role,
    State,
    Topology,
    TransferInfo,
    Units,
)
from .operation import Operation, OperationInfo
from .transfer import Bytes, Map, Plan, Transfer

__version__ = _text(_lib.mkv_version_string())

__all__ = [
    "Axis",
    "LEG_ALL",
    "Backend",
    "Bytes",
    "Context",
    "Event",
    "EventType",
    "LegInfo",
    "Map",
    "MapInfo",
    "Memory",
    "Mode",
    "MorikvError",
    "Operation",
    "OperationInfo",
    "Peer",
    "PeerInfo",
    "Plan",
    "Priority",
    "Region",
    "Role",
    "State",
    "Topology",
    "Transfer",
    "TransferInfo",
    "Units",
    "aio",
    "errors",
    "memory",
]
