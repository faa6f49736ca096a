# SPDX-License-Identifier: BSD-3-Clause
"""The names of ``mori.io`` over libmorikv; docs/mori-io.md has what differs.

An application that imports ``mori.io`` itself gets this one by ``import morikv.as_mori``
before, or with ``python -m morikv names`` in PYTHONPATH.
"""

from .config import (
    BackendType,
    IOEngineConfig,
    MemoryLocationType,
    PollCqMode,
    RdmaBackendConfig,
    StatusCode,
    XgmiBackendConfig,
    set_log_level,
)
from .desc import EngineDesc, MemoryDesc
from .engine import IOEngine, IOEngineSession
from .hub import PeerFailure
from .status import TransferStatus

__all__ = [
    "BackendType",
    "EngineDesc",
    "IOEngine",
    "IOEngineConfig",
    "IOEngineSession",
    "MemoryDesc",
    "MemoryLocationType",
    "PeerFailure",
    "PollCqMode",
    "RdmaBackendConfig",
    "StatusCode",
    "TransferStatus",
    "XgmiBackendConfig",
    "set_log_level",
]
