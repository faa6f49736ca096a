# SPDX-License-Identifier: BSD-3-Clause
"""The names of ``mori.io`` over libmorikv; docs/mori-io.md has the differences.

An application that imports ``mori.io`` itself gets this one by ``import morikv.as_mori``
before, or with ``python -m morikv names`` in PYTHONPATH.
"""

from .config import (
    BackendConfig,
    BackendType,
    FabricBackendConfig,
    IOEngineConfig,
    MemoryLocationType,
    OfiBackendConfig,
    PollCqMode,
    RdmaBackendConfig,
    StatusCode,
    TcpBackendConfig,
    XgmiBackendConfig,
    set_log_level,
)
from .desc import EngineDesc, MemoryDesc
from .engine import IOEngine, IOEngineSession, SessionUnavailableError
from .fabric import (
    fabric_alloc,
    fabric_free,
    fabric_mem_pool,
    fabric_torch_allocator,
    make_fabric_mem_pool,
    use_fabric_torch_allocator,
)
from .hub import PeerFailureEvent, PeerFailureReason
from .status import TransferStatus

__all__ = [
    "BackendConfig",
    "BackendType",
    "EngineDesc",
    "FabricBackendConfig",
    "IOEngine",
    "IOEngineConfig",
    "IOEngineSession",
    "MemoryDesc",
    "MemoryLocationType",
    "OfiBackendConfig",
    "PeerFailureEvent",
    "PeerFailureReason",
    "PollCqMode",
    "RdmaBackendConfig",
    "SessionUnavailableError",
    "StatusCode",
    "TcpBackendConfig",
    "TransferStatus",
    "XgmiBackendConfig",
    "fabric_alloc",
    "fabric_free",
    "fabric_mem_pool",
    "fabric_torch_allocator",
    "make_fabric_mem_pool",
    "set_log_level",
    "use_fabric_torch_allocator",
]
