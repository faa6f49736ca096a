# SPDX-License-Identifier: BSD-3-Clause
"""Python binding of libmorikv, which moves "layers x block lists" of a KV cache.

A :class:`Context` has an object for each subject: memory (:class:`Region`), the other
process (:class:`Peer`), pairs of regions (:class:`Map`), blocks to move (:class:`Plan`) and
the transfer itself (:class:`Transfer`). morikv.h documents the protocol; a method here is a
call there, and an error is an exception with the library's text.
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import errors, memory
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
    PeerState,
    Priority,
    Role,
    Slow,
    State,
    Status,
    Topology,
    TransferInfo,
    Units,
)
from .operation import Operation, OperationInfo
from .transfer import Bytes, Map, Plan, Transfer

__version__ = _text(_lib.mkv_version_string())

if TYPE_CHECKING:
    from . import aio

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
    "PeerState",
    "Plan",
    "Priority",
    "Region",
    "Role",
    "Slow",
    "State",
    "Status",
    "Topology",
    "Transfer",
    "TransferInfo",
    "Units",
    "aio",
    "errors",
    "memory",
]


def __getattr__(name: str) -> Any:
    if name == "aio":  # asyncio, which most programs do not need, takes as long as the rest
        return importlib.import_module(".aio", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
