# SPDX-License-Identifier: BSD-3-Clause
"""IOEngine and its sessions."""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import socket
import time
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from .. import _hip, errors, memory
from .._home import Home, Lock
from .._library import lib
from ..context import Context, Peer, Region
from ..metrics import Family, context_families, text
from ..model import Event, Mode
from ..pieces import Numbers
from . import config as _config
from . import settings
from .config import BackendType, IOEngineConfig, MemoryLocationType, StatusCode
from .desc import EngineDesc, MemoryDesc
from .hub import MAX_KEY, Hub, PeerFailureEvent
from .status import TransferStatus, code_of

logger = logging.getLogger(__name__)

_KINDS = {MemoryLocationType.CPU: memory.HOST, MemoryLocationType.GPU: memory.ROCM}
#: How long deregistering waits for transfers of this side, in seconds.
_DEREGISTER_S = 60.0


def _node_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot_id:
            return os.environ.get("MORI_NODE_ID") or boot_id.read().strip()
    except OSError:
        return socket.gethostname()


def _ended(code: StatusCode, why: str) -> TransferStatus:
    status = TransferStatus()
    status.Update(code, why)
    return status


class SessionUnavailableError(errors.NotFoundError, RuntimeError):
    """No session for these memories: one is not registered, or its engine is not."""


class IOEngineSession:
    """A local and a remote memory; offsets are in bytes from the beginning of each."""

    def __init__(self, engine: IOEngine, local: Region, remote: MemoryDesc) -> None:
        self._engine, self._local, self._remote = engine, local, remote

    def allocate_transfer_uid(self) -> int:
        return self._engine.allocate_transfer_uid()

    def read(
        self, local_offset: int, remote_offset: int, size: int, transfer_uid: int
    ) -> TransferStatus:
        return self.batch_read(local_offset, remote_offset, size, transfer_uid)

    def write(
        self, local_offset: int, remote_offset: int, size: int, transfer_uid: int
    ) -> TransferStatus:
        return self.batch_write(local_offset, remote_offset, size, transfer_uid)

    def batch_read(
        self,
        local_offsets: Numbers,
        remote_offsets: Numbers,
        sizes: Numbers,
        transfer_uid: int,
        timeout_ms: int = 0,
    ) -> TransferStatus:
        """Read many pieces from the remote memory in one transfer. Never waits.

        :param local_offsets: and the others: a NumPy array of integers, an iterable, or
            one number for all pieces.
        :param timeout_ms: the transfer fails unless it is done by then; 0: option XFER_TIMEOUT.
            The time until the connection is ready does not count.
        """
        numbers = local_offsets, remote_offsets, sizes
        return self._post(Mode.READ, numbers, transfer_uid, timeout_ms)

    def batch_write(
        self,
        local_offsets: Numbers,
        remote_offsets: Numbers,
        sizes: Numbers,
        transfer_uid: int,
        timeout_ms: int = 0,
    ) -> TransferStatus:
        """Write many pieces, see :meth:`batch_read`; success: they have arrived."""
        numbers = local_offsets, remote_offsets, sizes
        return self._post(Mode.WRITE, numbers, transfer_uid, timeout_ms)

    def _post(
        self,
        mode: Mode,
        numbers: tuple[Numbers, Numbers, Numbers],
        uid: int,
        timeout_ms: int = 0,
    ) -> TransferStatus:
        try:
            hub = self._engine._get_hub()
        except errors.InvalidError as error:  # the engine belongs to a parent process
            return _ended(code_of(error.status), str(error))
        return hub.post(mode, self._local, self._remote, numbers, uid, timeout_ms)

    def path(self) -> str:
        """Transports of the data that UCX has reported so far, for each kind of call; empty
        before the first call.

        :raises NotFoundError: the remote engine is not registered, or was replaced.
        """
        return self._engine._get_hub().path(self._remote)

    def alive(self) -> bool:
        """The connection has not ended."""
        return self._engine._get_hub().is_alive(self._remote)


class IOEngine:
    """Engine of a process, usually its only one. Calls may be made from any thread.

    :param key: identifies the engine, and should not be used again by a later one.
    :raises ValueError: it is longer than 4096 bytes.
    """

    Session = IOEngineSession

    def __init__(self, key: str, config: IOEngineConfig | None = None) -> None:
        if len(key.encode()) > MAX_KEY:
            raise ValueError(f"a key of {len(key.encode())} bytes; expected at most {MAX_KEY}")
        self.key = key
        self._config = replace(config) if config else IOEngineConfig()
        self._instance = secrets.randbits(63)
        self._backends: dict[BackendType, Any] = {}
        self._regions: dict[int, Region] = {}
        self._uids = itertools.count(1)
        self._lock = Lock(Home("engine"))
        self._hub: Hub | None = None

    # ---- set-up ----

    def create_backend(self, type: BackendType, config: Any = None) -> None:
        """Add a transport for the data. UCX chooses among several for each peer; an engine
        that has none has no sessions, and its transfers fail.

        :param config: copied.
        :raises NotImplementedError: there is no such backend.
        :raises RuntimeError: the engine is in use already.
        """
        _config.check_backend(type)
        if type in self._backends:
            logger.warning("mori.io: engine %s has backend %s already", self.key, type.name)
            return
        if self._hub is not None:
            raise RuntimeError(f"create_backend({type.name}): the engine {self.key} is in use")
        self._backends[type] = replace(config) if config else None
        if type == BackendType.RDMA and _config.is_auto_xgmi():
            self._backends.setdefault(BackendType.XGMI, None)

    def remove_backend(self, type: BackendType) -> None:
        """:raises RuntimeError: the engine has been used."""
        if self._hub is not None:
            raise RuntimeError(f"remove_backend({type.name}): the engine {self.key} is in use")
        self._backends.pop(type, None)

    def _get_hub(self) -> Hub:
        if self._hub is not None:
            self._hub.lock.home.check()
            return self._hub
        with self._lock:
            if self._hub is None:
                self._hub = self._make_hub()
            return self._hub

    def _make_hub(self) -> Hub:
        configs = [
            config or _config.RdmaBackendConfig()
            for kind, config in self._backends.items()
            if kind != BackendType.XGMI
        ]
        notifies = any(getattr(config, "enable_notification", True) for config in configs)
        note = self.key.encode() if notifies else None
        options = _config.context_options(self._backends)
        variables = settings.variables(
            config for config in configs if isinstance(config, _config.RdmaBackendConfig)
        )
        hub = Hub(self.key, self._instance, options, variables, note)
        weakref.finalize(self, hub.close, is_collected=True)
        return hub

    @property
    def context(self) -> Context:
        """The morikv context, for functions without a name in mori.io: stats, dump, and transfers
        of block lists, layer by layer. The engine's regions are of component 0: use another one.
        The engine's thread polls its events: :meth:`poll_events` returns them.
        """
        return self._get_hub().context

    def peer(self, engine_key: str) -> Peer:
        """The peer of :attr:`context` that a registered engine is.

        :raises NotFoundError: it is not registered.
        """
        return self._get_hub().peer(engine_key)

    def poll_events(self, timeout: float | None = 0.0) -> list[Event]:
        """Events of :attr:`context` that belong to no transfer of mori.io, in order.

        Events are kept from the first call on; beyond 65536 the oldest are dropped.

        :param timeout: time to wait for an event, in seconds; None: no limit. The end of the
            engine ends the call as well.
        """
        return self._get_hub().poll_others(timeout)

    def metrics(self) -> str:
        """Figures for Prometheus; :class:`morikv.metrics.Endpoint` serves them."""
        return text(self.metric_families())

    def metric_families(self) -> list[Family]:
        """The same for :class:`morikv.metrics.Collector`."""
        hub = self._get_hub()
        return hub.figures.families() + context_families(hub.context, {"engine": self.key})

    def get_engine_desc(self) -> EngineDesc:
        """For :meth:`register_remote_engine` of others, by any way."""
        return EngineDesc(
            key=self.key,
            node_id=_node_id(),
            hostname=socket.gethostname(),
            host=self._config.host,
            port=self._config.port or 1,
            pid=os.getpid(),
            instance=self._instance,
            blob=self._get_hub().context.blob(),
        )

    def register_remote_engine(self, engine_desc: EngineDesc) -> None:
        """Connect; does not wait. One side's call suffices. A call after the connection has ended
        makes a new one."""
        self._get_hub().add(engine_desc)

    def deregister_remote_engine(self, engine_desc: EngineDesc) -> None:
        """Disconnect; transfers with it fail."""
        self._get_hub().remove(engine_desc)

    # ---- memory ----

    def register_memory(
        self, ptr: int, size: int, device_id: int, mem_loc: MemoryLocationType
    ) -> MemoryDesc:
        """Let peers read and write memory, which must stay until it is deregistered.

        :param size: in bytes.
        :raises MorikvError: UCX cannot register it.
        """
        return self._register(memory.Memory(ptr, size, _KINDS[mem_loc]), device_id, mem_loc)

    def register_torch_tensor(self, tensor: Any) -> MemoryDesc:
        """Register a tensor or a buffer, which is kept alive; see register_memory().

        :raises ValueError: it is not contiguous.
        """
        place = memory.of(tensor)
        is_host = place.mem_type == memory.HOST
        loc = MemoryLocationType.CPU if is_host else MemoryLocationType.GPU
        return self._register(place, -1 if is_host else memory.device_of(tensor), loc)

    def _register(
        self, place: memory.Memory, device_id: int, loc: MemoryLocationType
    ) -> MemoryDesc:
        is_gpu = loc == MemoryLocationType.GPU
        allocation = _hip.allocation(place.address) if is_gpu else None
        region, epoch = self._get_hub().register(place, allocation)
        self._regions[region.id] = region
        return MemoryDesc(
            engine_key=self.key,
            instance=self._instance,
            id=region.id,
            epoch=epoch,
            device_id=device_id,
            device_bus_id=_hip.bus_id(device_id) if is_gpu else "",
            data=place.address,
            size=place.length,
            loc=loc,
            numa_node=-1 if is_gpu else memory.numa_node(place.address),
            is_exported=is_gpu and BackendType.XGMI in self._backends,
        )

    def deregister_memory(self, mem_desc: MemoryDesc) -> None:
        """Deregister it after this side's transfers with it have ended. The application must make
        sure that peers do not use it any more.

        :raises NotFoundError: it is not registered here.
        :raises BusyError: a transfer did not end.
        :raises TransportError: UCX failed to deregister it: a device may still reach it, so it
            must never be freed.
        """
        region = self._region(mem_desc)
        try:
            self._get_hub().deregister(region, _DEREGISTER_S)
        finally:
            if region.id not in region.context._regions:
                self._regions.pop(region.id, None)

    def _region(self, desc: MemoryDesc) -> Region:
        region = self._regions.get(desc.id) if desc.instance == self._instance else None
        if region is None:
            why = f"memory {desc.id} of engine {desc.engine_key} is not registered here"
            raise errors.error(lib.MKV_ERR_NOTFOUND, why)
        return region

    # ---- transfers ----

    def allocate_transfer_uid(self) -> int:
        return next(self._uids)

    def create_session(
        self, local_mem: MemoryDesc, remote_mem: MemoryDesc
    ) -> IOEngineSession | None:
        """:return: None: the engine has no backend.
        :raises SessionUnavailableError: the memory is not registered here, or its engine.
        """
        if not self._backends:
            return None
        try:
            return self._session(local_mem, remote_mem)
        except errors.NotFoundError as error:
            raise SessionUnavailableError(error.status, str(error)) from error

    def _session(self, local_mem: MemoryDesc, remote_mem: MemoryDesc) -> IOEngineSession:
        hub = self._get_hub()
        with hub.lock:
            hub.link(remote_mem)
        return IOEngineSession(self, self._region(local_mem), remote_mem)

    def read(
        self,
        local_mem: MemoryDesc,
        local_offset: int,
        remote_mem: MemoryDesc,
        remote_offset: int,
        size: int,
        transfer_uid: int,
    ) -> TransferStatus:
        numbers = local_offset, remote_offset, size
        return self._post(Mode.READ, local_mem, remote_mem, *numbers, transfer_uid)

    def write(
        self,
        local_mem: MemoryDesc,
        local_offset: int,
        remote_mem: MemoryDesc,
        remote_offset: int,
        size: int,
        transfer_uid: int,
    ) -> TransferStatus:
        numbers = local_offset, remote_offset, size
        return self._post(Mode.WRITE, local_mem, remote_mem, *numbers, transfer_uid)

    def batch_read(self, *args: Sequence[Any]) -> list[TransferStatus]:
        """Lists of: local memory, its offsets, remote memory, its offsets, sizes, uids.

        One transfer and one status for each position. All are posted: a transfer that cannot be
        posted fails, and the others continue.
        """
        return self._batch(Mode.READ, *args)

    def batch_write(self, *args: Sequence[Any]) -> list[TransferStatus]:
        """Write, see :meth:`batch_read`."""
        return self._batch(Mode.WRITE, *args)

    def _batch(
        self,
        mode: Mode,
        local_mems: Sequence[MemoryDesc],
        local_offsets: Sequence[Numbers],
        remote_mems: Sequence[MemoryDesc],
        remote_offsets: Sequence[Numbers],
        sizes: Sequence[Numbers],
        transfer_uids: Sequence[int],
    ) -> list[TransferStatus]:
        every = (local_mems, local_offsets, remote_mems, remote_offsets, sizes, transfer_uids)
        if len({len(each) for each in every}) != 1:
            raise ValueError(f"{[len(each) for each in every]} entries; expected equal numbers")
        return [
            self._post(mode, local, remote, local_offset, remote_offset, size, uid)
            for local, local_offset, remote, remote_offset, size, uid in zip(*every)
        ]

    def _post(
        self,
        mode: Mode,
        local_mem: MemoryDesc,
        remote_mem: MemoryDesc,
        local_offsets: Numbers,
        remote_offsets: Numbers,
        sizes: Numbers,
        uid: int,
    ) -> TransferStatus:
        if not self._backends:
            return _ended(StatusCode.ERR_BAD_STATE, "no backend; call create_backend() first")
        try:
            session = self._session(local_mem, remote_mem)
        except errors.MorikvError as error:
            return _ended(code_of(error.status), str(error))
        return session._post(mode, (local_offsets, remote_offsets, sizes), uid)

    def wait_all(
        self, statuses: Iterable[TransferStatus | None], timeout_ms: float = -1
    ) -> StatusCode:
        """Wait until all have ended or the time has expired; below 0: no limit, 0: do not wait.

        :param statuses: None entries are skipped.
        :return: the code of the first that failed, or else of the first that has not ended,
            IN_PROGRESS or INIT, or else SUCCESS.
        """
        found = [status for status in statuses if status is not None]
        end = time.monotonic() + timeout_ms / 1000
        for status in found:
            left = -1 if timeout_ms < 0 else max(0.0, end - time.monotonic()) * 1000
            status.WaitFor(left)
        codes = [status.Code() for status in found]
        failed = [code for code in codes if code > StatusCode.ERR_BEGIN]
        running = [code for code in codes if code != StatusCode.SUCCESS]
        return (failed or running or [StatusCode.SUCCESS])[0]

    def pop_inbound_transfer_status(
        self, remote_key: str, transfer_uid: int
    ) -> TransferStatus | None:
        """Status of a transfer of a remote engine that has notifications on.

        :return: its status, once; None: it has not ended, or no notification came.
        """
        note = self._get_hub().pop_note(remote_key, transfer_uid)
        if note is None:
            return None
        return _ended(code_of(note[0]), note[1])

    def pop_peer_failure(self) -> PeerFailureEvent | None:
        """A connection that has ended since; None: no other."""
        return self._get_hub().pop_failure()

    def close(self) -> None:
        """End transfers, disconnect, deregister. Runs also when the engine is not
        referenced any more.

        In a signal's handler: another call of the engine that it interrupts, except a wait, must
        return before the engine's thread can close it; this call does not wait for that.
        """
        if self._hub is not None:
            self._hub.close()
