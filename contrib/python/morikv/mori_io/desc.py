# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors that engines exchange; the application transports them."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from .config import MemoryLocationType

#: Types of JSON for those of fields, and the ranges of integers, by default up to 64 bits.
_JSON = {"int": int, "bool": bool, "str": str, "bytes": str, "MemoryLocationType": int}
_RANGES = {"id": (0, 1 << 32), "device_id": (-1, 1 << 31), "numa_node": (-1, 1 << 31)}


def _check(name: str, kind: str, value: Any) -> Any:
    """:raises TypeError: the value is of another type. :raises ValueError: it is out of range."""
    if type(value) is not _JSON[kind]:
        raise TypeError(f"{name} is {value!r:.60}; expected {kind}")
    low, end = _RANGES.get(name, (0, 1 << 64))
    if type(value) is int and not low <= value < end:
        raise ValueError(f"{name} is {value!r:.60}; expected {low} to {end - 1}")
    return value


@dataclass(frozen=True)
class _Packed:
    _MAGIC: ClassVar[bytes]

    def _values(self) -> dict[str, Any]:
        return asdict(self)

    def pack(self) -> bytes:
        """Bytes for :meth:`unpack`, here or in another process."""
        return self._MAGIC + json.dumps(self._values(), separators=(",", ":")).encode()

    @classmethod
    def _parse(cls, packed: bytes) -> dict[str, Any]:
        packed = bytes(packed)
        if not packed.startswith(cls._MAGIC):
            raise ValueError(
                f"{len(packed)} bytes that begin with {packed[:8]!r} are no {cls.__name__} of "
                f"morikv; expected {cls._MAGIC!r}: use the mori.io of morikv on both sides"
            )
        try:
            values = json.loads(packed[len(cls._MAGIC) :])
            return {
                field.name: _check(field.name, str(field.type), values[field.name])
                for field in fields(cls)
            }
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"a damaged {cls.__name__}: {error!r}") from None


@dataclass(frozen=True)
class EngineDesc(_Packed):
    """An engine, for :meth:`IOEngine.register_remote_engine` elsewhere."""

    _MAGIC: ClassVar[bytes] = b"morikv engine 1 "
    key: str
    node_id: str
    hostname: str
    host: str
    port: int
    """As configured, or 1. The engine does not listen there: UCX makes the connections."""
    pid: int
    instance: int
    """Random: a restarted engine of the same key is another one."""
    blob: bytes
    """libmorikv's description of how to connect."""

    def _values(self) -> dict[str, Any]:
        return super()._values() | {"blob": base64.b64encode(self.blob).decode()}

    @classmethod
    def unpack(cls, packed: bytes) -> EngineDesc:
        """:raises ValueError: these bytes are no engine's."""
        values = cls._parse(packed)
        try:
            values["blob"] = base64.b64decode(values["blob"], validate=True)
        except (TypeError, ValueError) as error:
            raise ValueError(f"a damaged EngineDesc: {error!r}") from None
        return cls(**values)


@dataclass(frozen=True)
class MemoryDesc(_Packed):
    """Registered memory of an engine."""

    _MAGIC: ClassVar[bytes] = b"morikv memory 1 "
    engine_key: str = ""
    instance: int = 0
    """Of its engine."""
    id: int = 0
    """libmorikv's number of the region."""
    epoch: int = 0
    """First epoch of the engine's regions that contains it."""
    device_id: int = -1
    device_bus_id: str = ""
    """PCI address of the GPU, in lower case; empty: host memory, or not known."""
    data: int = 0
    """Address there."""
    size: int = 0
    """Bytes."""
    loc: MemoryLocationType = MemoryLocationType.Unknown
    numa_node: int = -1
    """Of the first page of host memory; -1: not known."""
    is_exported: bool = False
    """Memory of a GPU in an engine with a backend for XGMI."""

    @property
    def ipc_handle(self) -> bytes:
        """64 bytes that are not all zero where XGMI may carry the memory. No HIP handle:
        libmorikv exchanges those itself."""
        if not self.is_exported:
            return bytes(64)
        name = b"morikv" + self.instance.to_bytes(8, "little") + self.id.to_bytes(4, "little")
        return name.ljust(64, b"\0")

    def _values(self) -> dict[str, Any]:
        return super()._values() | {"loc": self.loc.value}

    @classmethod
    def unpack(cls, packed: bytes) -> MemoryDesc:
        """:raises ValueError: these bytes describe no memory."""
        values = cls._parse(packed)
        return cls(**values | {"loc": MemoryLocationType(values["loc"])})
