# SPDX-License-Identifier: BSD-3-Clause
"""Enumerations and settings under MORI-IO's names, with its numbers and defaults."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable
from dataclasses import dataclass


class BackendType(enum.IntEnum):
    Unknown = 0
    XGMI = 1
    RDMA = 2
    TCP = 3
    FABRIC = 4
    OFI = 5


class MemoryLocationType(enum.IntEnum):
    Unknown = 0
    CPU = 1
    GPU = 2


class PollCqMode(enum.IntEnum):
    POLLING = 0
    EVENT = 1


class StatusCode(enum.IntEnum):
    SUCCESS = 0
    INIT = 1
    IN_PROGRESS = 2
    ERR_BEGIN = 10
    ERR_INVALID_ARGS = 11
    ERR_NOT_FOUND = 12
    ERR_RDMA_OP = 13
    ERR_BAD_STATE = 14
    ERR_GPU_OP = 15


@dataclass
class IOEngineConfig:
    host: str = ""
    """Sent to peers. This engine does not listen there: it has no control port."""
    port: int = 0


class BackendConfig:
    """Base of the configurations of backends."""


@dataclass
class RdmaBackendConfig(BackendConfig):
    """docs/migrate.md has the option for each member; an option that is set wins."""

    qp_per_transfer: int = 1
    post_batch_size: int = -1
    num_worker_threads: int = -1
    poll_cq_mode: PollCqMode = PollCqMode.POLLING
    enable_notification: bool = True
    notif_per_qp: int = 1024
    enable_transfer_chunking: bool = False
    chunk_bytes: int = 65536
    max_chunks_per_transfer: int = 64
    num_nics_per_transfer: int = 1
    max_send_wr: int = 0
    max_cqe_num: int = 0
    max_msg_sge: int = 0


@dataclass
class XgmiBackendConfig(BackendConfig):
    """Members without effect here: docs/mori-io.md."""

    num_streams: int = 64
    num_events: int = 64


@dataclass
class TcpBackendConfig(BackendConfig):
    """Members without effect: use UCX's options ``UCX_TCP_*`` and MORIKV_XFER_TIMEOUT.

    :raises ValueError: ``num_data_conns`` is not in 1 to 16, as in MORI-IO.
    """

    sock_sndbuf_bytes: int = 32 << 20
    sock_rcvbuf_bytes: int = 32 << 20
    op_timeout_ms: int = 30000
    enable_keepalive: bool = True
    keepalive_idle_sec: int = 30
    keepalive_intvl_sec: int = 10
    keepalive_cnt: int = 3
    enable_ctrl_nodelay: bool = True
    num_data_conns: int = 8
    striping_threshold_bytes: int = 64 << 10

    def __post_init__(self) -> None:
        if not 1 <= self.num_data_conns <= 16:
            raise ValueError(f"num_data_conns is {self.num_data_conns}; expected 1 to 16")


@dataclass
class FabricBackendConfig(BackendConfig):
    """Defined for programs that name it; there is no such backend."""

    num_streams: int = 64
    num_events: int = 64


@dataclass
class OfiBackendConfig(BackendConfig):
    """Same as :class:`FabricBackendConfig`."""

    provider: str = ""


_BACKENDS = {BackendType.XGMI: "xgmi", BackendType.RDMA: "rdma", BackendType.TCP: "tcp"}
_LEVELS = {"warning": "warn", "critical": "error", "off": "error"}
_log_level: str | None = None


def set_log_level(level: str) -> None:
    """Set the level of engines that are made from now on: trace, debug, info, warning or
    error."""
    global _log_level
    level = level.lower()
    _log_level = _LEVELS.get(level, level)


def check_backend(kind: BackendType) -> None:
    """:raises NotImplementedError: there is no such backend."""
    if kind not in _BACKENDS:
        known = ", ".join(each.name for each in _BACKENDS)
        raise NotImplementedError(f"backend {kind.name}; expected one of {known}")


def is_auto_xgmi() -> bool:
    """Whether a backend for RDMA brings one for XGMI, as in MORI-IO."""
    return os.environ.get("MORI_DISABLE_AUTO_XGMI", "")[:1] == "0"


def context_options(backends: Iterable[BackendType]) -> dict[str, str]:
    """Options of libmorikv; those of the environment win."""
    names = {_BACKENDS[kind] for kind in backends}
    options = {"PROGRESS_THREADS": "1"}
    if len(names) == 1:
        options["BACKEND"] = names.pop()
    if _log_level is not None:
        options["LOG_LEVEL"] = _log_level
    return {name: value for name, value in options.items() if f"MORIKV_{name}" not in os.environ}
