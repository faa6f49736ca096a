# SPDX-License-Identifier: BSD-3-Clause
"""Settings of MORI-IO as options of mori_rdma and libmorikv, where those are not set.

Variables of the environment take effect when a context is opened. UCX reads its options from the
environment then, so they are set there during the call.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Iterator

from .config import RdmaBackendConfig

logger = logging.getLogger(__name__)

_DEVICES = "UCX_MORI_RDMA_DEVICES"
#: Variables of MORI-IO, the first of an option's that is set counts, and the option's range.
_NUMBERS: dict[str, tuple[tuple[str, ...], int, int]] = {
    "UCX_MORI_RDMA_SL": (("MORI_IO_SL", "MORI_RDMA_SL"), 0, 15),
    "UCX_MORI_RDMA_TRAFFIC_CLASS": (("MORI_IO_TC", "MORI_RDMA_TC"), 0, 255),
    "UCX_MORI_RDMA_GID_INDEX": (("MORI_IB_GID_INDEX",), 0, 255),
}
#: Members of RdmaBackendConfig: the value from which on they act, and the option's range.
_MEMBERS: dict[str, tuple[str, int, int]] = {
    "qp_per_transfer": ("UCX_MORI_RDMA_NUM_QPS", 2, 12),
    "post_batch_size": ("UCX_MORI_RDMA_POST_BATCH", 1, 1 << 20),
    "max_send_wr": ("UCX_MORI_RDMA_TX_DEPTH", 2, 1 << 20),
    "max_cqe_num": ("UCX_MORI_RDMA_CQ_DEPTH", 1, 1 << 22),
    "max_msg_sge": ("UCX_MORI_RDMA_TX_MAX_SGE", 1, 32),
    "num_nics_per_transfer": ("MORIKV_LANES", 2, 64),
}
_FAMILIES = ("MORI_IO_", "MORI_RDMA_", "MORI_IB_")
_KNOWN = {"MORI_RDMA_DEVICES", "MORI_IO_TC_DISABLE"} | {
    name for names, _low, _high in _NUMBERS.values() for name in names
}

#: Guards the environment while it is changed, and the set of logged texts.
_lock = threading.RLock()
_logged: set[str] = set()

# a child has the environment as it is outside, and may open engines of its own
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


def _log_once(level: int, text: str, *arguments: object) -> None:
    line = text % arguments
    with _lock:
        if line not in _logged:
            _logged.add(line)
            logger.log(level, "mori.io: %s", line)


def _number(option: str, names: Iterable[str], low: int, high: int) -> Iterator[tuple[str, str]]:
    name = next((name for name in names if os.environ.get(name)), None)
    if name is None:
        return
    text = os.environ[name]
    if text.isascii() and text.strip().isdigit() and low <= int(text) <= high:
        _log_once(logging.INFO, "%s=%s acts as %s", name, text, option)
        yield option, text.strip()
    else:
        why = "%s=%s is ignored; expected %d to %d, as of %s"
        _log_once(logging.WARNING, why, name, text, low, high, option)


def _of_environment() -> Iterator[tuple[str, str]]:
    devices = os.environ.get("MORI_RDMA_DEVICES")
    if devices:
        _log_once(logging.INFO, "MORI_RDMA_DEVICES=%s acts as %s", devices, _DEVICES)
        yield _DEVICES, devices
    for option, (names, low, high) in _NUMBERS.items():
        is_off = option.endswith("CLASS") and os.environ.get("MORI_IO_TC_DISABLE") == "1"
        yield from _number(option, () if is_off else names, low, high)
    for name in os.environ:
        if name.startswith(_FAMILIES) and name not in _KNOWN:
            _log_once(logging.WARNING, "%s has no counterpart and is ignored", name)


def _of_config(config: RdmaBackendConfig) -> Iterator[tuple[str, str]]:
    for member, (option, low, high) in _MEMBERS.items():
        value = getattr(config, member)
        if value > high:
            why = "%s=%d is above what %s takes; %d is used"
            _log_once(logging.WARNING, why, member, value, option, high)
        if value >= low:
            yield option, str(min(value, high))
    if config.num_worker_threads > 1:
        why = "num_worker_threads=%d: one thread serves an engine (MORIKV_PROGRESS_THREADS)"
        _log_once(logging.INFO, why, config.num_worker_threads)
    if config.enable_transfer_chunking:
        _log_once(logging.INFO, "enable_transfer_chunking: UCX divides transfers by itself")


def variables(configs: Iterable[RdmaBackendConfig]) -> dict[str, str]:
    """Variables of UCX and libmorikv that are unset, with their values from MORI-IO's
    variables and the configurations of an engine's backends."""
    found: dict[str, str] = {}
    for config in configs:
        found.update(_of_config(config))
    found.update(_of_environment())
    return {name: value for name, value in found.items() if name not in os.environ}


@contextlib.contextmanager
def applied(values: dict[str, str]) -> Iterator[None]:
    """Set these variables in the environment for the block. Other threads see them meanwhile."""
    with _lock:
        os.environ.update(values)
        try:
            yield
        finally:
            for name in values:
                os.environ.pop(name, None)
